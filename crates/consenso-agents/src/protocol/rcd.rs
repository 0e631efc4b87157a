//! Private random coordinate descent, with one agent or many (docs/paper.md section 2, Appendix K
//! of the paper).

use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    View, table_of,
};
use crate::config_error::ConfigError;
use crate::data::some_columns;
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use crate::random::{Purpose, Seed};
use crate::theory::{Assessment, Certainty, CertifiedBound, TheoremInputs, descent, short};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Private coordinate descent. Round k changes the coordinates l of one public block, the same for
/// all agents,
///
/// ```text
/// v_i = Σ_j W_ij x_j
/// x_i⁺[l] = v_i[l] − η·∇f_i(v_i)[l] + N(0, σ²)        l in the block
/// x_i⁺[l] = x_i[l]                                    elsewhere, without noise
/// ```
///
/// with η = 1/M̂. On a complete graph every v_i is the mean x̄, so the network's mean model takes
/// the very steps of centralised coordinate descent on F = (1/N) Σ f_i, with noise N(0, σ²/N): the
/// argument of Theorem 4.1. One agent alone is the paper's centralised case.
///
/// # What it costs
///
/// Let two neighbouring data sets differ in one record.
/// [`Objective::coordinate_sensitivity`](crate::problem::Objective::coordinate_sensitivity) shows
/// that for this pair |∇f(x)\[l\] − ∇f̂(x)\[l\]| ≤ c_l at **every** x, with Σ_l c_l² ≤ (B^c)². The
/// shift of round k is thus at most η·c_l on the coordinate l it changes, whatever was released
/// before. Over any rounds in which no coordinate is used more than c times
///
/// ```text
/// Σ_k ‖shift_k‖₂² ≤ η² Σ_l c·c_l² ≤ c·(η·B^c)²
/// ```
///
/// so the adaptive composition of Gaussian releases with one σ is √c·η·B^c/σ-GDP (Dong, Roth and
/// Su, 2019, Corollary 3.3: each release is dominated by a Gaussian shift of fixed size η·c_l/σ,
/// and the order of coordinates is public and chosen without looking at records). The pair is not
/// known, and need not be: the bound is the same for all.
///
/// A whole gradient's worth, η·B^c/σ, is therefore charged exactly in the rounds that raise c, the
/// count of the coordinate used most, and nothing in all others: before every release, what was
/// charged covers it. With a fresh permutation every epoch that is the first round of each epoch;
/// with uniform draws c is the realised maximum of the public sequence, the (1 + a)·K/d of the
/// paper.
///
/// The argument needs one σ for all rounds, and is about the l2 norm: Laplace noise, noise that
/// varies and filters are refused.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoordinateDescent {
    /// η; 1/M̂ by default.
    pub step: Option<f64>,
    /// How coordinates follow each other.
    #[serde(default)]
    pub order: CoordinateOrder,
    /// What the order is drawn from. It is public.
    #[serde(default)]
    pub order_seed: u64,
    /// Coordinates a round.
    #[serde(default = "one")]
    pub block: usize,
    /// How often every coordinate is used, where `rounds` is left open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
    /// The rounds that raise the largest count, for a `random` order.
    #[serde(skip)]
    raising: Option<BTreeSet<u32>>,
    #[serde(skip)]
    epoch: LastEpoch,
}

/// How coordinates follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoordinateOrder {
    /// A fresh permutation every epoch: no coordinate is used more often than another by more than
    /// one.
    #[default]
    Shuffle,
    /// Every round draws its coordinates uniformly, as the paper does.
    Random,
}

fn one() -> usize {
    1
}

/// The permutation asked for last. It is a function of (seed, epoch, d), and kept only because all
/// agents ask for the same one d times.
#[derive(Debug, Default)]
struct LastEpoch(Mutex<Option<(u32, Arc<[u32]>)>>);

/// Epochs that are tried at least and at most when nothing says how many.
const EPOCHS: (f64, f64) = (20.0, 100.0);

impl CoordinateDescent {
    /// One coordinate a round with the step `step`.
    #[must_use]
    pub fn new(step: f64, order: CoordinateOrder, order_seed: u64, block: usize) -> Self {
        Self { step: Some(step), order, order_seed, block, ..Self::default() }
    }

    /// M̂ of a block: along `block` coordinates together the gradient is no steeper than that many
    /// times one, nor than all.
    fn smoothness(&self, facts: &PublicFacts) -> f64 {
        (self.block as f64 * facts.coordinate_smoothness).min(facts.smoothness)
    }

    fn eta(&self) -> f64 {
        self.step.unwrap_or(f64::NAN)
    }

    /// Rounds until every coordinate was used once.
    fn epoch_rounds(&self, dim: usize) -> u32 {
        dim.div_ceil(self.block.max(1)).max(1) as u32
    }

    /// The coordinates of round `round` (from 1), increasing.
    fn coordinates(&self, round: u32, dim: usize) -> Vec<u32> {
        match self.order {
            CoordinateOrder::Shuffle => {
                let (rounds, k) = (self.epoch_rounds(dim), round - 1);
                let order = self.permutation(k / rounds, dim);
                let start = (k % rounds) as usize * self.block;
                let mut chosen = order[start..(start + self.block).min(dim)].to_vec();
                chosen.sort_unstable();
                chosen
            }
            CoordinateOrder::Random => {
                let mut stream =
                    Seed::from(self.order_seed).stream(Purpose::Public, 1, u64::from(round));
                some_columns(&mut stream, dim, self.block.min(dim))
            }
        }
    }

    /// All coordinates in the order of one epoch (Fisher and Yates).
    fn permutation(&self, epoch: u32, dim: usize) -> Arc<[u32]> {
        let mut last = self.epoch.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, order)) = &*last
            && *known == epoch
            && order.len() == dim
        {
            return Arc::clone(order);
        }
        let mut stream = Seed::from(self.order_seed).stream(Purpose::Public, 2, u64::from(epoch));
        let mut order: Vec<u32> = (0..dim as u32).collect();
        for i in (1..dim).rev() {
            order.swap(i, stream.random_range(0..=i as u32) as usize);
        }
        let order: Arc<[u32]> = order.into();
        *last = Some((epoch, Arc::clone(&order)));
        order
    }

    /// The rounds up to `rounds` in which some coordinate is used more often than any was before.
    fn raising(&self, rounds: u32, dim: usize) -> BTreeSet<u32> {
        let (mut counts, mut most) = (vec![0u32; dim], 0);
        let raises = |round: &u32| {
            let before = most;
            for l in self.coordinates(*round, dim) {
                counts[l as usize] += 1;
                most = most.max(counts[l as usize]);
            }
            most > before
        };
        (1..=rounds).filter(raises).collect()
    }

    /// Whether round `round` is charged for. Without [`Configured::resolve`] nothing is known of a
    /// random order, and every round is.
    fn is_charged(&self, round: u32, dim: usize) -> bool {
        match (self.order, &self.raising) {
            (CoordinateOrder::Shuffle, _) => (round - 1).is_multiple_of(self.epoch_rounds(dim)),
            (CoordinateOrder::Random, Some(raising)) => raising.contains(&round),
            (CoordinateOrder::Random, None) => true,
        }
    }
}

impl Protocol for CoordinateDescent {
    fn kind(&self) -> &'static str {
        "rcd"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            alone: true,
            absence: true,
            mixes: true,
            charges_ahead: true,
            ..Capabilities::default()
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        facts: &PublicFacts,
    ) -> Sensitivity {
        if !self.is_charged(round, facts.dim) {
            return Sensitivity { l1: 0.0, l2: 0.0, linf: 0.0 };
        }
        let whole = gradient.scaled(facts.coordinate_sensitivity).scaled(self.eta());
        Sensitivity::from_l2(whole.l2, facts.dim)
    }

    fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        let keep = 1.0 - self.eta() * view.regularization();
        let active = self.coordinates(view.round() + 1, view.dim());
        for (low, &l) in low.iter_mut().zip(&active) {
            *low = keep * view.mix_at(l as usize);
        }
        high.copy_from_slice(low);
    }

    fn step(
        &self,
        view: &View<'_>,
        _: Memory<'_>,
        _: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        let active = self.coordinates(view.round() + 1, view.dim());
        local.data_gradient_at(|v| view.mix(v), &active, step, work);
        step.iter_mut().for_each(|s| *s *= -self.eta());
    }
}

impl Configured for CoordinateDescent {
    /// As many epochs as a gradient method of this step would take rounds.
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        let step = self.step.unwrap_or(1.0 / self.smoothness(facts));
        let enough =
            (facts.worthwhile(super::ENOUGH_STEPS) / step).clamp(EPOCHS.0, EPOCHS.1) as u32;
        self.epochs.unwrap_or(enough).max(1).saturating_mul(self.epoch_rounds(facts.dim))
    }

    fn resolve(&mut self, facts: &PublicFacts) {
        let longest = 1.0 / self.smoothness(facts);
        let epochs = (f64::from(facts.rounds) / f64::from(self.epoch_rounds(facts.dim))).max(1.0);
        let share = if facts.budget.is_some() {
            facts.worthwhile(super::ENOUGH_STEPS) / epochs
        } else {
            f64::INFINITY
        };
        self.step.get_or_insert(longest.min(share));
        if self.order == CoordinateOrder::Random && (1..=facts.dim).contains(&self.block) {
            self.raising = Some(self.raising(facts.rounds, facts.dim));
        }
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        let step = self.eta();
        if !(step > 0.0 && step.is_finite()) {
            return Err(ConfigError::at(
                "step",
                format!("step = {step} must be a positive number"),
            ));
        }
        if !(1..=facts.dim).contains(&self.block) {
            let message =
                format!("block = {} must be at least 1 and at most d = {}", self.block, facts.dim);
            return Err(ConfigError::at("block", message));
        }
        let epoch = self.epoch_rounds(facts.dim);
        Ok((facts.rounds < epoch).then(|| {
            format!(
                "{} rounds leave coordinates untouched: one use of each takes {epoch}",
                facts.rounds
            )
        }))
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for CoordinateDescent {
    /// Coordinate descent in uniform order is certified where agents see the same mean; a
    /// permutation is only known to descend.
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let facts = &inputs.facts;
        let (product, m) = (self.eta() * self.smoothness(facts), facts.strong_convexity);
        let together = facts.complete || facts.agents == 1;
        if self.order == CoordinateOrder::Random
            && self.block == 1
            && together
            && product <= 1.0 + 1e-12
            && m > 0.0
            && inputs.constraint == Constraint::None
        {
            let envelope = descent::Envelope::coordinate_descent(inputs, self.eta());
            let floor = envelope.curve(0.0, facts.rounds).last().copied().unwrap_or(0.0);
            return Assessment {
                rate: Some(envelope.factor),
                promise: Some(format!(
                    "E F(x̄) − F*, over orders and noise, shrinks by 1 − ηm/d a round, down to {} at the end",
                    short(floor)
                )),
                bound: Some(CertifiedBound::Value(envelope)),
                ..Assessment::new(
                    Certainty::Certified,
                    "random coordinate descent (Appendix K)",
                    format!("step·M̂ = {} ≤ 1", short(product)),
                )
            };
        }
        let why = "Appendix K needs order = \"random\", block = 1, a complete graph or one agent, step ≤ 1/M̂ and m > 0, without a constraint set";
        let mut nearest = Parameters::new();
        nearest.insert("order".into(), "random".into());
        nearest.insert("step".into(), (1.0 / facts.coordinate_smoothness).into());
        let (not_certified, nearest_certified) = (Some(why.to_owned()), Some(nearest));
        if product < 2.0 && together {
            let inequality =
                format!("step·M̂ = {} < 2: every coordinate's step descends", short(product));
            return Assessment {
                not_certified,
                nearest_certified,
                ..Assessment::new(
                    Certainty::PredictedStable,
                    "descent along coordinates",
                    inequality,
                )
            };
        }
        Assessment { nearest_certified, ..super::dgd::open(product, why) }
    }

    fn drift(&self, _: u32, gradient: f64, facts: &PublicFacts) -> Option<super::Drift> {
        let ridge = self.eta() * facts.strong_convexity;
        let factor = (1.0 - ridge).abs().max(1.0);
        Some(super::Drift { factor, step: self.eta() * gradient, linear: ridge <= 1.0 })
    }
}

impl Partial for CoordinateDescent {
    fn active(&self, round: u32, dim: usize) -> Vec<u32> {
        self.coordinates(round, dim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(descent: &CoordinateDescent, rounds: u32, dim: usize) -> Vec<u32> {
        let mut counts = vec![0; dim];
        for round in 1..=rounds {
            let chosen = descent.coordinates(round, dim);
            assert!(chosen.is_sorted_by(|a, b| a < b), "no coordinate twice in a round");
            chosen.iter().for_each(|&l| counts[l as usize] += 1);
        }
        counts
    }

    #[test]
    fn an_epoch_uses_every_coordinate_once() {
        for (dim, block) in [(7, 1), (7, 3), (12, 4), (5, 5)] {
            let descent = CoordinateDescent::new(1.0, CoordinateOrder::Shuffle, 3, block);
            let epoch = descent.epoch_rounds(dim);
            assert_eq!(counts(&descent, epoch, dim), vec![1; dim], "d = {dim}, block {block}");
            assert_eq!(counts(&descent, 4 * epoch, dim), vec![4; dim]);
        }
        let order = |seed, epoch| {
            CoordinateDescent::new(1.0, CoordinateOrder::Shuffle, seed, 1).permutation(epoch, 40)
        };
        assert_ne!(order(1, 0), order(1, 1), "epochs are shuffled afresh");
        assert_ne!(order(1, 0), order(2, 0));
        assert_eq!(order(1, 5), order(1, 5));
    }

    /// χ² of the uses of 20 coordinates over 20,000 rounds: 19 degrees of freedom, 66.6 is exceeded
    /// once in 10⁶ times.
    #[test]
    fn a_random_order_is_uniform() {
        for block in [1, 3] {
            let counts = counts(
                &CoordinateDescent::new(1.0, CoordinateOrder::Random, 11, block),
                20_000,
                20,
            );
            let expected = 1_000.0 * block as f64;
            let square: f64 = counts
                .iter()
                .map(|&c| (f64::from(c) - expected) * (f64::from(c) - expected) / expected)
                .sum();
            assert!(square < 66.6, "block {block}: {square}");
        }
    }

    /// Charged rounds are never fewer than the uses of any coordinate, at any time.
    #[test]
    fn charges_cover_every_coordinate_at_every_time() {
        for (order, block) in [
            (CoordinateOrder::Shuffle, 1),
            (CoordinateOrder::Shuffle, 3),
            (CoordinateOrder::Random, 1),
            (CoordinateOrder::Random, 2),
        ] {
            let mut descent = CoordinateDescent::new(1.0, order, 5, block);
            let (dim, rounds) = (7, 60);
            descent.raising = Some(descent.raising(rounds, dim));
            let (mut counts, mut charged) = (vec![0; dim], 0);
            for round in 1..=rounds {
                charged += u32::from(descent.is_charged(round, dim));
                descent.coordinates(round, dim).iter().for_each(|&l| counts[l as usize] += 1);
                assert_eq!(counts.iter().max(), Some(&charged), "{order:?}, round {round}");
            }
        }
    }
}
