//! Secret-shared exchange (Algorithm 3): agents learn the sum of their vectors and nothing else.
//!
//! Agent i writes its vector in fixed point, q_i = round(x_i·2^f), and splits it modulo 2^64 into N
//! shares: r_ij uniform for j ≠ i, r_ii = q_i − Σ_{j≠i} r_ij. Two exchanges make a round:
//!
//! ```text
//! shares:  i sends r_ij to j alone, over an encrypted channel
//! sums:    j sends s_j = Σ_i r_ij to everybody;   Σ_j s_j = Σ_i q_i  (mod 2^64)
//! ```
//!
//! # What it hides (Theorem 2.1)
//!
//! Take two honest agents a, b and let all N − 2 others pool what they see. They lack r_aa, r_ab,
//! r_ba, r_bb. Of these four they know s_a, s_b, hence r_aa + r_ba and r_ab + r_bb, whose sum with
//! the shares they hold gives q_a + q_b. The map from (r_ab, r_ba), uniform and independent, to
//! what is left is a bijection for every pair of inputs of the same sum: the view's law depends on
//! q_a + q_b alone. N − 1 colluders subtract their own vectors from the sum and have the last one.
//!
//! The agents are honest but curious: one who sends wrong sums spoils the mean, one who sends
//! different sums to different agents splits it. Neither learns more. The uniform words are
//! ChaCha12's, keyed by the agent's seed.
//!
//! # On any graph, and when somebody dies
//!
//! Shares need a complete graph and everybody, to the end. A [`MaskedAgent`] needs neither: its
//! vectors leave under masks that it shares with its neighbours alone, and up to t agents may drop
//! out (see [`masked`](crate::privacy::masked)).
//!
//! # Noise
//!
//! What the sum itself says of a record is hidden by noise, if there is some: each agent adds a
//! part of it before it shares ([`distributed_noise`](crate::privacy::distributed_noise)), and
//! those who do not collude add enough.
//!
//! # No overflow
//!
//! |x| ≤ `range` is checked (or, where noise is added, made so) before anything is split, and N·range·2^f < 2^63 before the first round, so the sum of the q_i read as a signed
//! number is their sum over the integers.

mod masked;
mod shares;

pub use crate::gate::{FixedPoint, ShareError};
pub use masked::{MaskedAgent, MaskedEffect, MaskedMessage, MaskedRefusal, MaskedSums};
pub use shares::{Phase, SecretShares, ShareEffect, ShareMessage, ShareRefusal, SharingAgent};

use crate::agent::{Checkpoint, NeighbourView, Player};
use crate::gate::Round;
use crate::graph::Graph;
use crate::problem::Constraint;
use crate::protocol::{CommonSummary, Needs, Protocol, Weights};
use std::collections::BTreeSet;

impl Checkpoint {
    /// Rounds that were complete: a secret-shared one has two exchanges, and those of masked sums
    /// pass numbers over when somebody is given up.
    #[must_use]
    pub fn rounds(&self) -> u32 {
        match &self.shares {
            None => self.round,
            Some(_) if self.away.is_empty() => self.round / 2,
            Some(words) => masked::rounds_kept(words, self.away.len()),
        }
    }
}

/// `sum += words`, modulo 2^64.
pub(crate) fn add(sum: &mut [u64], words: &[u64]) {
    for (sum, word) in sum.iter_mut().zip(words) {
        *sum = sum.wrapping_add(*word);
    }
}

/// What an exchange of so many members reveals: their mean, moved into the set, or where only that
/// is needed the sum of all contributions.
pub(crate) fn revealed(
    code: &FixedPoint,
    needs: Needs,
    set: &Constraint,
    sum: &[u64],
    members: usize,
) -> Vec<f64> {
    if needs == Needs::Total {
        return sum.iter().map(|&sum| code.value(sum.cast_signed())).collect();
    }
    let mut mean: Vec<f64> = sum.iter().map(|&sum| code.mean_of(sum, members)).collect();
    set.project(&mut mean);
    mean
}

/// Whether those left without `gone`, of whom at most `most` may be, can go on in `round`: they
/// must reach each other.
pub fn remaining(
    graph: &Graph,
    gone: &BTreeSet<u32>,
    most: usize,
    round: Round,
) -> Result<(), ShareError> {
    if gone.len() > most {
        return Err(ShareError::TooManyGone { gone: gone.len(), most, round });
    }
    if graph.is_connected_without(gone) {
        return Ok(());
    }
    Err(ShareError::FallenApart { gone: gone.iter().copied().collect(), round })
}

/// What an agent sees when only the mean of all is revealed: its own row, and the mean of the
/// others' in place of each of theirs. Sums over neighbours are then what they would be with the
/// rows themselves. Where a sum of contributions is revealed, it has no rows but its own.
#[derive(Debug)]
pub(crate) struct MeanView {
    agent: usize,
    needs: Needs,
    /// Own row, then the others'.
    rows: Vec<f64>,
    neighbours: Vec<u32>,
    weights: Vec<f64>,
    common: CommonSummary,
}

impl MeanView {
    /// Everybody at `start`; `None` for an algorithm that looks at more than sums.
    pub(crate) fn new(
        agent: usize,
        agents: usize,
        protocol: &dyn Protocol,
        start: &[f64],
    ) -> Option<Self> {
        let needs = protocol.capabilities().needs;
        let total = (needs == Needs::Total).then(|| vec![0.0; protocol.contribution(start.len())]);
        (needs != Needs::Rows).then(|| Self {
            agent,
            needs,
            rows: start.repeat(2),
            neighbours: vec![1; agents - 1],
            weights: vec![1.0 / agents as f64; agents - 1],
            common: CommonSummary { mean: start.to_vec(), farthest: (0, 1), total },
        })
    }

    /// Everybody where this player starts.
    ///
    /// # Errors
    /// An algorithm that looks at more than sums.
    pub(crate) fn of(agent: usize, agents: usize, player: &Player) -> Result<Self, ShareError> {
        let protocol = player.protocol();
        let refused = ShareError::NeedsRows { kind: protocol.kind() };
        Self::new(agent, agents, protocol, &player.start()).ok_or(refused)
    }

    /// Whose sight it is.
    pub(crate) fn agent(&self) -> usize {
        self.agent
    }

    /// What an exchange must reveal.
    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// Takes in what a round [`revealed`], to which this agent contributed `own`.
    pub(crate) fn reveal(&mut self, own: &[f64], mean: &[f64]) {
        if let Some(total) = &mut self.common.total {
            total.copy_from_slice(mean);
            self.rows[..own.len()].copy_from_slice(own);
            return;
        }
        self.common.mean.copy_from_slice(mean);
        let (mine, others) = self.rows.split_at_mut(mean.len());
        if self.needs == Needs::Mean {
            mine.copy_from_slice(mean);
            others.copy_from_slice(mean);
            return;
        }
        mine.copy_from_slice(own);
        let n = (self.neighbours.len() + 1) as f64;
        for ((other, own), mean) in others.iter_mut().zip(own).zip(mean) {
            *other = (n * mean - own) / (n - 1.0);
        }
    }

    pub(crate) fn own(&self) -> &[f64] {
        &self.rows[..self.common.mean.len()]
    }

    /// What was revealed last.
    pub(crate) fn revealed(&self) -> &[f64] {
        self.common.total.as_deref().unwrap_or(&self.common.mean)
    }

    pub(crate) fn neighbourhood(&self, round: u32) -> NeighbourView<'_> {
        NeighbourView {
            rows: &self.rows,
            me: 0,
            neighbours: &self.neighbours,
            place: self.agent,
            weights: Weights {
                own: 1.0 / (self.neighbours.len() + 1) as f64,
                neighbours: &self.weights,
            },
            round,
            common: Some(&self.common),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_could_wrap_are_refused_in_advance() {
        let new = FixedPoint::new;
        assert_eq!(new(2, 1.0, 10), Err(ShareError::TooFew { agents: 2 }));
        assert!(matches!(new(4, f64::NAN, 10), Err(ShareError::Range { .. })));
        // 4·2^20·2^41 is 2^63 and no less.
        let overflow = ShareError::Overflow { agents: 4, range: 1048576.0, fraction_bits: 41 };
        assert_eq!(new(4, 1048576.0, 41), Err(overflow));
        assert!(new(4, 1048576.0f64.next_down(), 41).is_ok());
        assert!(new(3, 1e-3, 63).is_err() && new(3, f64::MAX, 0).is_err());
    }

    #[test]
    fn a_sum_that_no_vectors_in_range_have_is_told_from_one() {
        let code = FixedPoint::new(4, 2.0, 20).expect("fits");
        let most = code.encode(2.0).expect("in range").cast_unsigned() * 4;
        assert!(code.adds_up_to(&[0, most, most.wrapping_neg()]));
        assert!(!code.adds_up_to(&[0, most + 1]) && !code.adds_up_to(&[(most + 1).wrapping_neg()]));
        assert!(!code.adds_up_to(&[1 << 63]) && !code.adds_up_to(&[0x1234_5678_9abc_def0]));
    }

    #[test]
    fn the_largest_sum_is_read_with_its_sign() {
        let code = FixedPoint::new(4, 1048576.0f64.next_down(), 41).unwrap();
        for end in [code.range(), -code.range()] {
            let one = code.encode(end).unwrap();
            let sum = (0..4).fold(0u64, |sum, _| sum.wrapping_add(one.cast_unsigned()));
            assert!((code.mean(sum) / end - 1.0).abs() < 1e-15);
        }
        assert_eq!(code.encode(1048576.0), None);
        assert_eq!(code.encode(f64::NAN), None);
    }
}
