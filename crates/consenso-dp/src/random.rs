//! Keyed randomness: every draw of a run is a pure function of (seed, purpose, agent, round).
//!
//! A stream is ChaCha12 keyed by the seed and the [`Purpose`], with the agent as its nonce and the
//! round as its position, so no stream overlaps another and none depends on thread count, order of
//! arrival or what other agents drew.

use rand::rngs::ChaCha12Rng;
pub use rand::rngs::ChaCha12Rng as Stream;
use rand::{Rng as _, SeedableRng};

/// What a stream is for. One purpose never shares bits with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Which records an agent gets, and synthetic data.
    Data = 1,
    /// Random graphs.
    Graph = 2,
    /// The uniform point and the noise of a release.
    Release = 3,
    /// Virtual delay and loss in the simulator.
    Network = 4,
    /// Draws of an auditor.
    Audit = 5,
    /// Public coin flips all agents agree on (which coordinate, which pair).
    Public = 6,
    /// Random penalties that are not the point of an interval.
    Coins = 7,
    /// The uniform words of secret shares.
    Share = 8,
    /// Noise that the two ends of an edge share.
    Pair = 9,
    /// Uniform words that the two ends of an edge share.
    Mask = 10,
    /// Keys that belong to a label.
    Label = 11,
    /// Which of its records an agent draws for a round.
    Batch = 12,
}

/// Where the bits of a run come from.
#[derive(Clone, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

impl From<u64> for Seed {
    fn from(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self(key)
    }
}

impl Seed {
    /// A seed from 32 bytes of entropy, for runs whose privacy claim must hold.
    #[must_use]
    pub fn from_entropy(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The seed of repetition `run` of an experiment.
    #[must_use]
    pub fn for_run(&self, run: u64) -> Self {
        let mut key = self.0;
        for (byte, mix) in key[8..16].iter_mut().zip(run.to_le_bytes()) {
            *byte ^= mix;
        }
        Self(key)
    }

    /// The seed that belongs to a label of so many words: one that tells nothing about those of
    /// other labels of the same length.
    #[must_use]
    pub fn labelled(&self, label: &[u64]) -> Self {
        let mut seed = self.clone();
        for (index, &word) in label.iter().enumerate() {
            seed.stream(Purpose::Label, word, index as u64).fill_bytes(&mut seed.0);
        }
        seed
    }

    /// The stream of one agent in one round. Each round owns 2^24 ChaCha blocks (1 GiB), far more
    /// than a release can use.
    #[must_use]
    pub fn stream(&self, purpose: Purpose, agent: u64, round: u64) -> Stream {
        let mut key = self.0;
        key[31] ^= purpose as u8;
        let mut rng = ChaCha12Rng::from_seed(key);
        rng.set_stream(agent);
        rng.set_word_pos(u128::from(round) << 28);
        rng
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn streams_differ_by_every_part_of_their_key() {
        let seed = Seed::from(7);
        let first = |s: &Seed, p, a, r| s.stream(p, a, r).next_u64();
        let base = first(&seed, Purpose::Release, 1, 1);
        assert_eq!(base, first(&seed, Purpose::Release, 1, 1));
        assert_ne!(base, first(&Seed::from(8), Purpose::Release, 1, 1));
        assert_ne!(base, first(&seed.for_run(1), Purpose::Release, 1, 1));
        assert_ne!(base, first(&seed, Purpose::Data, 1, 1));
        assert_ne!(base, first(&seed, Purpose::Release, 2, 1));
        assert_ne!(base, first(&seed, Purpose::Release, 1, 2));
    }
}
