//! Released vectors that are made smaller before they go over a link: post-processing, which costs
//! no privacy.

use crate::protocol::compressed::{digits, kept, sign, sign_bits, top_k, top_k_bits};
use crate::random::{Purpose, Seed};
use rand::RngExt;
use serde::{Deserialize, Serialize};

/// How released vectors are compressed.
///
/// With `feedback` agents send the compressed change against what their neighbours have already,
/// so that nothing is lost for good (Richtárik, Sokolov and Fatkhullin, 2021): everybody goes on
/// from x̂⁺ = x̂ + C(x − x̂), the agent itself too. Without it they send C(x).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Compression {
    /// Every number becomes a random multiple of the length over `levels`, right on average
    /// (QSGD: Alistarh, Grubic, Li, Tomioka and Vojnovic, 2017).
    Qsgd {
        /// How many levels there are above zero.
        #[serde(default = "sixteen")]
        levels: u32,
        /// Whether changes are sent.
        #[serde(default = "yes")]
        feedback: bool,
    },
    /// One sign per number, and their mean size.
    Sign {
        /// Whether changes are sent.
        #[serde(default = "yes")]
        feedback: bool,
    },
    /// The largest numbers alone.
    TopK {
        /// The share of numbers that are sent.
        keep: f64,
        /// Whether changes are sent.
        #[serde(default = "yes")]
        feedback: bool,
    },
    /// Random numbers of the vector alone; which ones both ends know from a seed.
    RandK {
        /// The share of numbers that are sent.
        keep: f64,
        /// Whether changes are sent.
        #[serde(default = "yes")]
        feedback: bool,
    },
}

fn sixteen() -> u32 {
    16
}

fn yes() -> bool {
    true
}

/// Streams of compression are numbered above all agents.
const COINS: u64 = 1 << 43;

impl Compression {
    fn feedback(self) -> bool {
        match self {
            Self::Qsgd { feedback, .. }
            | Self::Sign { feedback }
            | Self::TopK { feedback, .. }
            | Self::RandK { feedback, .. } => feedback,
        }
    }

    /// Whether its numbers mean something.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match *self {
            Self::Qsgd { levels, .. } => levels >= 1,
            Self::Sign { .. } => true,
            Self::TopK { keep, .. } | Self::RandK { keep, .. } => keep > 0.0 && keep <= 1.0,
        }
    }

    /// Bytes of a message that has so many numbers, rounded up.
    #[must_use]
    pub fn bytes(&self, length: usize) -> u64 {
        let n = length as u64;
        let bits = match *self {
            // A length, and a sign and a level per number.
            Self::Qsgd { levels, .. } => 64 + n * (1 + digits(u64::from(levels) + 1)),
            Self::Sign { .. } => sign_bits(length),
            Self::TopK { keep, .. } => top_k_bits(kept(keep, length), length),
            // A seed, and the numbers in its order.
            Self::RandK { keep, .. } => 64 + kept(keep, length) as u64 * 64,
        };
        bits.div_ceil(8)
    }

    /// Puts in the place of what an agent released what its neighbours have of it; `before` is what
    /// they had.
    pub(super) fn apply(
        self,
        (agent, round): (usize, u32),
        seed: &Seed,
        before: &[f64],
        row: &mut [f64],
    ) {
        let feedback = self.feedback();
        if feedback {
            row.iter_mut().zip(before).for_each(|(x, b)| *x -= b);
        }
        let mut stream = seed.stream(Purpose::Network, COINS | agent as u64, u64::from(round));
        self.compress(row, feedback, &mut stream);
        if feedback {
            row.iter_mut().zip(before).for_each(|(x, b)| *x += b);
        }
    }

    /// C, which shrinks what it leaves out (a contraction) for feedback, and is right on average
    /// otherwise where it can be.
    fn compress(self, x: &mut [f64], contract: bool, stream: &mut impl rand::Rng) {
        let length = x.len();
        match self {
            Self::Qsgd { levels, .. } => {
                let norm = crate::kernel::norm(x);
                if norm == 0.0 || !norm.is_finite() {
                    return;
                }
                let (d, s) = (length as f64, f64::from(levels));
                // The variance of what is right on average is at most ω times the square.
                let omega = (d / (s * s)).min(d.sqrt() / s);
                let scale = if contract { norm / (s * (1.0 + omega)) } else { norm / s };
                for x in x {
                    let level = x.abs() / norm * s;
                    let up = stream.random::<f64>() < level - level.floor();
                    *x = x.signum() * (level.floor() + f64::from(u8::from(up))) * scale;
                }
            }
            Self::Sign { .. } => sign(x),
            Self::TopK { keep, .. } => top_k(x, kept(keep, length)),
            Self::RandK { keep, .. } => {
                let count = kept(keep, length);
                let sent = rand::seq::index::sample(stream, length, count).into_vec();
                let scale = if contract { 1.0 } else { length as f64 / count as f64 };
                let mut out = vec![0.0; length];
                sent.into_iter().for_each(|l| out[l] = scale * x[l]);
                x.copy_from_slice(&out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Compression; 4] = [
        Compression::Qsgd { levels: 2, feedback: true },
        Compression::Sign { feedback: true },
        Compression::TopK { keep: 0.25, feedback: true },
        Compression::RandK { keep: 0.25, feedback: true },
    ];

    const X: [f64; 8] = [3.0, -1.0, 0.5, 0.0, -2.0, 0.25, 1.5, -0.75];

    #[test]
    fn what_is_right_on_average_is() {
        let seed = Seed::from(4);
        for how in [
            Compression::Qsgd { levels: 2, feedback: false },
            Compression::RandK { keep: 0.25, feedback: false },
        ] {
            let (mut mean, count) = ([0.0; 8], 20_000);
            for round in 0..count {
                let mut x = X;
                how.apply((1, round), &seed, &[0.0; 8], &mut x);
                mean.iter_mut().zip(x).for_each(|(m, x)| *m += x / f64::from(count));
            }
            for (mean, x) in mean.iter().zip(X) {
                // A number deviates by at most 6, so the mean by 0.042: five of these.
                assert!((mean - x).abs() < 0.21, "{how:?}: {mean} of {x}");
            }
        }
    }

    /// Changes that are sent again and again bring the neighbours' copy to the vector.
    #[test]
    fn feedback_loses_nothing_for_good() {
        for how in ALL {
            let mut copy = [0.0; 8];
            for round in 0..400 {
                let mut x = X;
                how.apply((0, round), &Seed::from(1), &copy, &mut x);
                copy = x;
            }
            let gap = crate::kernel::distance(&copy, &X);
            assert!(gap < 1e-6, "{how:?}: {copy:?}");
        }
    }

    #[test]
    fn messages_have_the_size_that_they_say() {
        assert_eq!(ALL.map(|how| how.bytes(8)), [8 + 3, 8 + 1, 17, 24]);
        let one = Compression::TopK { keep: 1e-9, feedback: true };
        let mut x = X;
        one.apply((0, 1), &Seed::from(1), &[0.0; 8], &mut x);
        assert_eq!(x, [3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
