//! How an agent combines its neighbours' vectors: the weighted average, or a rule that a few lying
//! neighbours cannot abuse.
//!
//! With the average one neighbour decides where an agent goes: it has weight W_ij and may send
//! whatever it likes. The robust rules bound that:
//!
//! * **clipped** (He, Karimireddy and Jaggi, 2022): x_i + Σ_j W_ij·clip(x_j − x_i, τ_i), every
//!   vector clipped around the agent's own to the length τ_i. It is the distance of the farthest
//!   neighbour that remains when the `liars` farthest are left out; a fixed `clip` bounds it
//!   further.
//! * **trimmed** (Yang and Bajwa, 2019): coordinate by coordinate, the mean of the agent's own and
//!   its neighbours' numbers without the `liars` smallest and the `liars` largest.
//! * **median**: coordinate by coordinate, the median of the same numbers.
//! * **nearest** (nearest-neighbour averaging; Farhadkhani, Guerraoui, Gupta, Hoang, Pinot and
//!   Stephan, 2023): the weighted average without the `liars` neighbours whose vectors lie farthest
//!   from the agent's own. Where trimming takes as many honest numbers away on the other side, and
//!   with them moves the mean by a part of the noise in every round, this takes whole vectors:
//!   liars that stand out of the noise are left out and leave no trace, those that hide in it move
//!   the average by no more than honest noise does.
//!
//! An agent with n neighbours leaves out at most ⌊n/2⌋: of two or more neighbours the larger part
//! must tell the truth, and with a single neighbour nobody could tell. What every rule gives lies,
//! coordinate by coordinate, between numbers that the agent and its honest neighbours released
//! (trimmed, median: as long as no more than `liars` lie), or within Σ_j W_ij·τ_i of the agent's
//! own vector (clipped).
//!
//! # Privacy
//! The claims of all algorithms are the same under every rule. In the gate's draft `low`, `high`,
//! step, noise, the mix enters `low` and `high` alone (and the point where a gradient is taken),
//! and it is a function of the rows in a [`View`], which were released before: given any transcript
//! so far it is a constant, the same for both of two neighbouring data sets. The sensitivity of the
//! step bounds ‖∇f(x) − ∇f̂(x)‖ for *every* x, so it does not depend on how x was mixed either.
//! Each release is therefore the same adaptively chosen mechanism with the same cost, and
//! composition theorems hold for adaptive choices. The mixing after the last charged round is
//! post-processing of releases.

use super::View;
use crate::kernel;
use serde::{Deserialize, Serialize};

/// Names of the rules, as experiment files write them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MixName {
    /// The average with the graph's weights.
    #[default]
    Average,
    /// Vectors clipped around one's own.
    Clipped,
    /// Coordinate by coordinate the mean without the extremes.
    Trimmed,
    /// Coordinate by coordinate the median.
    Median,
    /// The average without the farthest vectors.
    Nearest,
}

/// How an agent combines its own vector and its neighbours'.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum MixRule {
    /// Σ_j W_ij x_j with the graph's weights.
    #[default]
    Average,
    /// Every neighbour's vector clipped around the agent's own.
    Clipped {
        /// How many neighbours may lie.
        liars: usize,
        /// The longest difference that counts in any case.
        clip: Option<f64>,
    },
    /// The mean without the largest and smallest, coordinate by coordinate.
    Trimmed {
        /// How many neighbours may lie: as many numbers are left out at both ends.
        liars: usize,
    },
    /// The median, coordinate by coordinate.
    Median,
    /// The average without the neighbours that are farthest from the agent's own vector.
    Nearest {
        /// How many neighbours may lie: as many are left out.
        liars: usize,
    },
}

impl MixRule {
    /// The name of the rule in an experiment file.
    #[doc(hidden)]
    pub fn name(&self) -> MixName {
        match self {
            Self::Average => MixName::Average,
            Self::Clipped { .. } => MixName::Clipped,
            Self::Trimmed { .. } => MixName::Trimmed,
            Self::Median => MixName::Median,
            Self::Nearest { .. } => MixName::Nearest,
        }
    }

    /// Writes what an agent makes of the rows it sees.
    pub(super) fn mix(&self, view: &View<'_>, out: &mut [f64]) {
        match *self {
            // The view's own.
            Self::Average => view.mix_from(0, out),
            Self::Clipped { liars, clip } => clipped(view, liars, clip, out),
            Self::Trimmed { liars } => trimmed(view, liars.min(view.degree() / 2), out),
            // All but the middle one or two.
            Self::Median => trimmed(view, view.degree() / 2, out),
            Self::Nearest { liars } => nearest(view, liars.min(view.degree() / 2), out),
        }
    }
}

fn clipped(view: &View<'_>, liars: usize, clip: Option<f64>, out: &mut [f64]) {
    let own = view.own();
    out.copy_from_slice(own);
    let distances: Vec<f64> = view.neighbours().map(|row| kernel::distance(row, own)).collect();
    let mut sorted = distances.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let trusted = sorted.len() - liars.min(sorted.len() / 2);
    let Some(&farthest) = trusted.checked_sub(1).and_then(|last| sorted.get(last)) else { return };
    let reach = clip.map_or(farthest, |clip| clip.min(farthest));
    for ((row, &weight), &distance) in
        view.neighbours().zip(view.weights.neighbours).zip(&distances)
    {
        let share = if distance > reach { weight * (reach / distance) } else { weight };
        for ((out, x), own) in out.iter_mut().zip(row).zip(own) {
            *out += share * (x - own);
        }
    }
}

fn nearest(view: &View<'_>, left_out: usize, out: &mut [f64]) {
    let own = view.own();
    let mut far: Vec<(f64, usize)> = view
        .neighbours()
        .map(|row| kernel::distance(row, own))
        .enumerate()
        .map(|(k, d)| (d, k))
        .collect();
    // Of two that are equally far the one with the larger number goes: the order of arrival decides
    // nothing.
    far.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut kept: Vec<usize> = far[..far.len() - left_out].iter().map(|f| f.1).collect();
    kept.sort_unstable();
    let weights = view.weights.neighbours;
    let total = view.weights.own + kept.iter().map(|&k| weights[k]).sum::<f64>();
    out.copy_from_slice(own);
    let mut kept = kept.into_iter().peekable();
    for (k, row) in view.neighbours().enumerate() {
        if kept.next_if_eq(&k).is_none() {
            continue;
        }
        // As a difference, so that agents that agree stay where they are.
        let share = weights[k] / total;
        for ((out, x), own) in out.iter_mut().zip(row).zip(own) {
            *out += share * (x - own);
        }
    }
}

fn trimmed(view: &View<'_>, left_out: usize, out: &mut [f64]) {
    let mut pool = vec![0.0; view.degree() + 1];
    for (l, out) in out.iter_mut().enumerate() {
        for (place, row) in pool.iter_mut().zip(view.everyone()) {
            *place = row[l];
        }
        pool.sort_unstable_by(f64::total_cmp);
        let kept = &pool[left_out..pool.len() - left_out];
        *out = kept.iter().sum::<f64>() / kept.len() as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Weights;

    fn mixed(rule: MixRule, own: [f64; 2], others: &[[f64; 2]]) -> [f64; 2] {
        let rows: Vec<f64> = own.iter().chain(others.iter().flatten()).copied().collect();
        let neighbours: Vec<u32> = (1..=others.len() as u32).collect();
        let weight = 1.0 / (others.len() + 1) as f64;
        let weights = vec![weight; others.len()];
        let view = View::new(
            &rows,
            2,
            0,
            &neighbours,
            0,
            Weights { own: weight, neighbours: &weights },
            3,
        )
        .with_mixing(rule);
        let mut out = [0.0; 2];
        view.mix(&mut out);
        assert_eq!(out.map(f64::to_bits), [0, 1].map(|l| view.mix_at(l).to_bits()), "{rule:?}");
        out
    }

    const ROBUST: [MixRule; 4] = [
        MixRule::Clipped { liars: 1, clip: None },
        MixRule::Trimmed { liars: 1 },
        MixRule::Median,
        MixRule::Nearest { liars: 1 },
    ];

    /// Trimming answers a liar on one side by dropping an honest number on the other.
    #[test]
    fn a_liar_that_stands_out_leaves_no_trace_in_the_average_of_the_nearest() {
        let honest = [[1.0, 0.0], [0.0, 1.0], [-1.0, -0.5]];
        let all = [honest[0], honest[1], honest[2], [9.0, 9.0]];
        let out = mixed(MixRule::Nearest { liars: 1 }, [0.0, 0.0], &all);
        assert!(
            (out[0] - 0.0).abs() < 1e-15 && (out[1] - 0.125).abs() < 1e-15,
            "the mean of four: {out:?}"
        );
        let trimmed = mixed(MixRule::Trimmed { liars: 1 }, [0.0, 0.0], &all);
        assert!(trimmed[0] > 0.3, "{trimmed:?}");
    }

    #[test]
    fn one_liar_among_three_neighbours_cannot_pull_an_agent_away() {
        let honest = [[1.0, 0.0], [0.0, 1.0]];
        for rule in ROBUST {
            for lie in [[1e12, -1e12], [10.0, 10.0], [-5.0, 5.0]] {
                let out = mixed(rule, [0.0, 0.0], &[honest[0], honest[1], lie]);
                assert!(out.iter().all(|x| x.abs() <= 1.0), "{rule:?}: {out:?}");
            }
        }
        let out = mixed(MixRule::Average, [0.0, 0.0], &[honest[0], honest[1], [1e12, 0.0]]);
        assert!(out[0] > 1e11);
    }

    #[test]
    fn agents_that_agree_stay_where_they_are() {
        for rule in ROBUST {
            assert_eq!(mixed(rule, [2.0, -1.0], &[[2.0, -1.0]; 4]), [2.0, -1.0], "{rule:?}");
            assert_eq!(mixed(rule, [2.0, -1.0], &[]), [2.0, -1.0], "{rule:?}");
        }
    }

    #[test]
    fn rules_are_what_they_say() {
        let others = [[4.0, 0.0], [2.0, 0.0], [8.0, 0.0]];
        assert_eq!(mixed(MixRule::Trimmed { liars: 1 }, [0.0; 2], &others), [3.0, 0.0]);
        assert_eq!(mixed(MixRule::Median, [0.0; 2], &others), [3.0, 0.0]);
        // The farthest of three counts as far as the second: (4 + 2 + 4)/4.
        assert_eq!(mixed(MixRule::Clipped { liars: 1, clip: None }, [0.0; 2], &others), [2.5, 0.0]);
        assert_eq!(
            mixed(MixRule::Clipped { liars: 1, clip: Some(1.0) }, [0.0; 2], &others),
            [0.75, 0.0]
        );
        // With one neighbour nobody could tell who lies: it counts.
        assert_eq!(mixed(MixRule::Trimmed { liars: 1 }, [0.0; 2], &[[4.0, 2.0]]), [2.0, 1.0]);
    }
}
