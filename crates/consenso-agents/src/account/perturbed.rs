//! Accounts of noise that stands inside a problem (see `privacy::objective_perturbation`): under
//! Laplace and Gamma-norm noise every round is a pure ε of its own, under Gaussian noise a Rényi
//! cost at one order, the best for the whole schedule.

use super::NoiseKind;
use super::schedule::{no_bound, no_budget};
use super::wanted::{Accounting, NoiseSpec, PrivacySpec};
use super::{NoiseSchedule, Price, PricingFacts, caveats, each};
use crate::config_error::ConfigError;
use crate::gate::{InsideCost, Ledger, Noise, RoundNoise, SchedulePlan};
use crate::privacy::objective_perturbation::{InnerNoise, Perturbation};
use crate::privacy::{
    Adversary, Claim, Composition, Event, Method, NeighbourRelation, compose, rdp,
};
use crate::problem::Sensitivity;
use crate::problem::weights::SiteWeight;
use crate::protocol::{ASSUMED_RESIDUAL, Protocol, PublicFacts};
use std::sync::Arc;

/// One agent's rounds, before their noise is chosen.
pub(super) struct UnpricedRounds<'a> {
    /// B_q/D by round.
    steps: Vec<Sensitivity>,
    /// D by round.
    weights: Vec<f64>,
    site_weight: SiteWeight,
    facts: &'a PublicFacts,
    terms: &'a PricingFacts<'a>,
}

impl<'a> UnpricedRounds<'a> {
    /// Of an agent with `degree` neighbours.
    pub(super) fn new(
        protocol: &dyn Protocol,
        (site_weight, degree): (SiteWeight, usize),
        steps: Vec<Sensitivity>,
        facts: &'a PublicFacts,
        terms: &'a PricingFacts<'a>,
    ) -> Result<Self, ConfigError> {
        let weights: Vec<f64> =
            (1..=facts.rounds).map(|k| protocol.response(k, degree).weight()).collect();
        if !weights.iter().all(|&w| w > 0.0 && w.is_finite()) {
            return Err(ConfigError::at(
                "kind",
                format!(
                    "{} does not say which problem it solves, so it cannot be accounted for",
                    protocol.kind()
                ),
            )
            .refusing_claim());
        }
        Ok(Self { steps, weights, site_weight, facts, terms })
    }

    /// The noise of every round with its account: the user's, or as little as the budget allows.
    pub(super) fn allot(&self, noise: Option<&NoiseSpec>) -> Result<NoiseSchedule, ConfigError> {
        let privacy = self.terms.privacy;
        let (inside, scales) = match noise {
            Some(NoiseSpec::LaplaceRate(s)) => {
                (InnerNoise::Laplace, each(self.facts, s, |v| 1.0 / v))
            }
            Some(NoiseSpec::LaplaceScale(s)) => (InnerNoise::Laplace, each(self.facts, s, |v| v)),
            Some(NoiseSpec::GammaRate(s)) => {
                (InnerNoise::GammaNorm, each(self.facts, s, |v| 1.0 / v))
            }
            Some(NoiseSpec::Gaussian(s)) => (InnerNoise::Gaussian, each(self.facts, s, |v| v)),
            Some(NoiseSpec::None | NoiseSpec::Calibrated(_)) | None => {
                self.calibrated(&privacy.ok_or_else(no_budget)?)?
            }
        };
        let one = |&scale: &f64| match inside {
            InnerNoise::Laplace => RoundNoise::new(Noise::Laplace { scale }),
            InnerNoise::Gaussian => RoundNoise::new(Noise::Gaussian { sigma: scale }),
            InnerNoise::GammaNorm => RoundNoise::gamma_norm(scale),
        };
        let noise: Arc<[RoundNoise]> =
            scales.iter().map(one).collect::<Result<_, _>>().map_err(ConfigError::no_claim)?;
        let bare = NoiseSchedule::of(&self.steps, noise);
        let Some(privacy) = privacy else { return Ok(bare) };
        if privacy.accounting == Accounting::Filter {
            return Err(no_bound());
        }
        if inside == InnerNoise::Gaussian {
            return self.gaussian(&scales, bare, &privacy);
        }
        let costs = self.costs(inside, &scales);
        let composition = composed(&costs, privacy.delta)?;
        let allowed = match privacy.epsilon {
            Some(limit) if best(&composition) > limit => affordable(&costs, privacy.delta, limit)?,
            _ => self.facts.rounds,
        };
        let price = self.price(composition, &costs, inside, &scales, &privacy)?;
        let ledger = self.ledger(
            allowed,
            &bare,
            costs.iter().map(|&epsilon| InsideCost::Pure { epsilon }).collect(),
        );
        Ok(NoiseSchedule { ledger, price: Some(price), ..bare })
    }

    /// The account of Gaussian noise of these deviations.
    fn gaussian(
        &self,
        scales: &[f64],
        bare: NoiseSchedule,
        privacy: &PrivacySpec,
    ) -> Result<NoiseSchedule, ConfigError> {
        self.lower_rank(privacy)?;
        let best = |rounds: usize| self.best_order(&scales[..rounds], privacy.delta);
        let all = best(scales.len());
        let allowed = match privacy.epsilon {
            Some(limit) if all.1 > limit => {
                let (mut low, mut high) = (0, scales.len());
                while low + 1 < high {
                    let middle = low.midpoint(high);
                    if best(middle).1 <= limit { low = middle } else { high = middle }
                }
                low
            }
            _ => scales.len(),
        };
        // What is charged is what is released: the order is the best for these rounds.
        let (order, _) = if allowed == 0 { all } else { best(allowed) };
        let costs = self.renyi(scales, order);
        let epsilon =
            if allowed == scales.len() { all.1 } else { spent(&costs, order, privacy.delta) };
        let claim = Claim {
            epsilon,
            delta: privacy.delta,
            method: Method::Rdp,
            neighbours: privacy.neighbours,
            adversary: Claim::COLLUDING_NEIGHBOURS.into(),
            against: Adversary::Local,
            sampler: self.sampler("Gaussian"),
            caveats: vec!["objective perturbation with Gaussian noise: a Rényi cost a round from the l2 norm and the square of a record's relative curvature".into()],
            bounds: None,
        };
        let price = Price {
            claim: caveats(claim, self.terms),
            bounds: serde_json::json!({ "l2": { "rdp": epsilon, "order": order } }),
            worst_case_pure: None,
            paper_worst_case: Vec::new(),
            realised: false,
        };
        let costs = costs.iter().map(|&cost| InsideCost::Renyi { order, cost }).collect();
        let ledger = self.ledger(allowed as u32, &bare, costs);
        Ok(NoiseSchedule { ledger, price: Some(price), ..bare })
    }

    /// The account of rounds at these costs.
    fn ledger(&self, allowed: u32, bare: &NoiseSchedule, costs: Vec<InsideCost>) -> Ledger {
        let plan = SchedulePlan::new(allowed, Arc::clone(&bare.steps), self.facts.dim);
        Ledger::schedule(Arc::new(plan.with_inside(costs)))
    }

    /// Refuses neighbours that differ in more than one record's curvature.
    fn lower_rank(&self, privacy: &PrivacySpec) -> Result<(), ConfigError> {
        if privacy.neighbours == NeighbourRelation::AddRemove {
            return Err(ConfigError::at("privacy.neighbours", NO_GAUSSIAN).refusing_claim());
        }
        Ok(())
    }

    /// Rényi costs by round at one order.
    fn renyi(&self, scales: &[f64], order: f64) -> Vec<f64> {
        let one = |(k, &scale): (usize, &f64)| {
            self.perturbation(k, InnerNoise::Gaussian, scale, self.steps[k].l2).renyi(order)
        };
        scales.iter().enumerate().map(one).collect()
    }

    /// The order at which these rounds cost least at δ, and that ε.
    fn best_order(&self, scales: &[f64], delta: f64) -> (f64, f64) {
        let cost = |lambda: f64| spent(&self.renyi(scales, 1.0 + lambda), 1.0 + lambda, delta);
        // ε of a wide range of orders, then of a narrow one around the best.
        let near = |centre: f64, ratio: f64, reach: i32| {
            let tried = (-reach..=reach).map(|k| centre * libm::pow(ratio, f64::from(k)));
            tried
                .map(|l| (l, cost(l)))
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .expect("an order was tried")
        };
        let wide = near(16.0, 1.4, 22);
        let (lambda, epsilon) = near(wide.0, 1.04, 9);
        (1.0 + lambda, epsilon)
    }

    fn sampler(&self, law: &str) -> String {
        let source = if self.terms.seeded {
            "a seeded ChaCha12 stream"
        } else {
            "ChaCha12 keyed by OS entropy"
        };
        format!(
            "exact {law} noise inside the local problem, its solution released with a finishing Laplace noise that hides the \
             solver's error, {source}"
        )
    }

    /// The round `k` (from 0) under noise of `scale`, for a shift of the noise by `shift`.
    fn perturbation(&self, k: usize, inside: InnerNoise, scale: f64, shift: f64) -> Perturbation {
        let PricingFacts { objective, bounds, .. } = self.terms;
        // A Hessian that is multiplied by w is that of rows √w times as long.
        let bounds = &bounds.stretched(self.site_weight.weight);
        Perturbation {
            inside,
            scale,
            shift,
            volume: objective.volume_sensitivity_between(
                bounds,
                self.site_weight.records,
                self.weights[k],
                self.terms.privacy.map(|p| p.neighbours).unwrap_or_default(),
            ),
            curvature: {
                let (tau, rank) = objective.curvature_sensitivity(
                    bounds,
                    self.site_weight.records,
                    self.weights[k],
                );
                let zero_out =
                    self.terms.privacy.is_some_and(|p| p.neighbours == NeighbourRelation::ZeroOut);
                (tau, [rank, if zero_out { 0 } else { rank }])
            },
            // Twice: the residual that is measured was itself rounded.
            solver_error: 2.0 * ASSUMED_RESIDUAL / (self.weights[k] + objective.strong_convexity()),
            dim: self.facts.dim,
        }
    }

    /// Pure ε by round.
    fn costs(&self, inside: InnerNoise, scales: &[f64]) -> Vec<f64> {
        let dim = self.facts.dim as f64;
        let shift = |s: &Sensitivity| match inside {
            InnerNoise::Laplace => s.l1.min((dim * s.linf).next_up()),
            InnerNoise::GammaNorm | InnerNoise::Gaussian => s.l2,
        };
        let one = |(k, &scale): (usize, &f64)| {
            self.perturbation(k, inside, scale, shift(&self.steps[k])).cost()
        };
        scales.iter().enumerate().map(one).collect()
    }

    /// The noise that meets the budget with the least variance, of the kinds that are allowed:
    /// Laplace 2s² a coordinate, Gaussian σ².
    fn calibrated(&self, privacy: &PrivacySpec) -> Result<(InnerNoise, Vec<f64>), ConfigError> {
        let gaussian = match (privacy.mechanism, privacy.neighbours) {
            (Some(NoiseKind::Gaussian), _) => {
                self.lower_rank(privacy)?;
                return Ok((InnerNoise::Gaussian, self.calibrated_gaussian(privacy)?));
            }
            (Some(NoiseKind::Laplace), _) | (None, NeighbourRelation::AddRemove) => None,
            (None, _) => self.calibrated_gaussian(privacy).ok(),
        };
        match (self.calibrated_laplace(privacy), gaussian) {
            (Ok(laplace), Some(gaussian))
                if gaussian[0] > std::f64::consts::SQRT_2 * laplace[0] =>
            {
                Ok((InnerNoise::Laplace, laplace))
            }
            (_, Some(gaussian)) => Ok((InnerNoise::Gaussian, gaussian)),
            (laplace, None) => Ok((InnerNoise::Laplace, laplace?)),
        }
    }

    /// Gaussian deviations in proportion to each round's sensitivity, as small as the budget
    /// allows.
    fn calibrated_gaussian(&self, privacy: &PrivacySpec) -> Result<Vec<f64>, ConfigError> {
        let epsilon = privacy.epsilon.ok_or_else(no_budget)?;
        let scales = |factor: f64| self.steps.iter().map(|s| s.l2 * factor).collect::<Vec<_>>();
        let spent = |factor: f64| self.best_order(&scales(factor), privacy.delta).1;
        let first = (self.steps.len() as f64).sqrt() / epsilon;
        let mut high = first;
        while spent(high) > epsilon {
            high *= 2.0;
            if high > 1e6 * first {
                return Err(ConfigError::at(
                    "privacy.epsilon",
                    format!(
                        "privacy.epsilon = {epsilon} does not even pay for the curvature of {} rounds: use a larger penalty, \
                     fewer rounds or more records an agent",
                        self.steps.len()
                    ),
                ).refusing_claim());
            }
        }
        let mut low = high * 1e-3;
        while high > low * 1.001 {
            let middle = (low * high).sqrt();
            if spent(middle) > epsilon { low = middle } else { high = middle }
        }
        Ok(scales(high))
    }

    /// Laplace scales in proportion to each round's sensitivity, as small as the budget allows.
    fn calibrated_laplace(&self, privacy: &PrivacySpec) -> Result<Vec<f64>, ConfigError> {
        let epsilon = privacy.epsilon.ok_or_else(no_budget)?;
        let scales = |factor: f64| self.steps.iter().map(|s| s.l1 * factor).collect::<Vec<_>>();
        let spent = |factor: f64| -> Result<f64, ConfigError> {
            Ok(best(&composed(&self.costs(InnerNoise::Laplace, &scales(factor)), privacy.delta)?))
        };
        // Scales of K·(sensitivity)/ε would do for the noise alone; what determinants leave of a
        // budget may ask for much more.
        let first = self.steps.len() as f64 / epsilon;
        let mut high = None;
        for factor in [2.0, 8.0, 64.0, 1024.0] {
            if spent(factor * first)? <= epsilon {
                high = Some(factor * first);
                break;
            }
        }
        let mut high = high.ok_or_else(|| {
            ConfigError::at(
                "privacy.epsilon",
                format!(
                    "privacy.epsilon = {epsilon} does not even pay for the determinants of {} rounds: use a larger penalty, \
                     fewer rounds or more records an agent",
                    self.steps.len()
                ),
            ).refusing_claim()
        })?;
        let mut low = high * 1e-6;
        while high > low * 1.001 {
            let middle = (low * high).sqrt();
            if spent(middle)? > epsilon { low = middle } else { high = middle }
        }
        Ok(scales(high))
    }

    fn price(
        &self,
        composition: Composition,
        costs: &[f64],
        inside: InnerNoise,
        scales: &[f64],
        privacy: &PrivacySpec,
    ) -> Result<Price, ConfigError> {
        let (norm, law) = match inside {
            InnerNoise::Laplace => ("l1", "Laplace"),
            InnerNoise::GammaNorm | InnerNoise::Gaussian => ("l2", "Gamma-norm"),
        };
        let sampler = self.sampler(law);
        let bounds = serde_json::json!({ norm: composition });
        let mut claim = Claim::from_composition(composition, privacy.neighbours, sampler)
            .ok_or_else(no_bound)?;
        // The proofs leave out events of a chance below 2⁻¹⁰⁰ a round, of a long noise and of a cut
        // tail: off them the release is the ideal one, so that δ has (1 + e^ε) times their chance.
        // A δ that was asked for is larger by so much that no float would show it.
        let left_out = 2.0
            * scales.len() as f64
            * libm::exp2(-100.0)
            * (1.0 + libm::exp(claim.epsilon.min(700.0)));
        if claim.delta == 0.0 {
            claim.delta = left_out * (1.0 + 1e-12);
        }
        let claim = claim
            .with_caveat(format!("δ includes {left_out:.1e} for events that the proofs leave out"));
        let claim = caveats(claim, self.terms).with_caveat(format!(
            "objective perturbation: pure ε a round from the {norm} norm and the Jacobian determinant"
        ));
        // The paper's worst case has the l∞ norm where ours may have a better one.
        let dim = self.facts.dim as f64;
        let paper = |(k, &scale): (usize, &f64)| match inside {
            InnerNoise::Laplace => {
                self.perturbation(k, inside, scale, dim * self.steps[k].linf).cost()
            }
            InnerNoise::GammaNorm | InnerNoise::Gaussian => costs[k],
        };
        let mut total = 0.0;
        let add = |cost: f64| {
            total += cost;
            total
        };
        let paper_worst_case = scales.iter().enumerate().map(paper).map(add).collect();
        let worst_case_pure = Some(costs.iter().sum::<f64>() * (1.0 + 1e-12));
        Ok(Price { claim, bounds, worst_case_pure, paper_worst_case, realised: false })
    }
}

const NO_GAUSSIAN: &str = "noise: this algorithm puts its noise inside a problem, and under neighbours = \"add-remove\" removing a record changes the whole \
                           problem, for which Gaussian noise has no account here: use neighbours = \"replace-one\", or laplace_rate, laplace_scale or gamma_rate";

/// ε at δ of rounds that cost so much at an order, rounded up: a filter of that order and ε lets
/// them through.
fn spent(costs: &[f64], order: f64, delta: f64) -> f64 {
    let total = costs.iter().sum::<f64>() * (1.0 + f64::EPSILON * (costs.len() + 4) as f64);
    rdp::convert(total, order, delta) * (1.0 + 1e-12)
}

/// Rounds of equal cost are one event.
fn composed(costs: &[f64], delta: f64) -> Result<Composition, ConfigError> {
    let events: Vec<Event> = costs
        .chunk_by(|a, b| a == b)
        .map(|equal| Event::pure(equal[0], equal.len() as u64))
        .collect();
    compose(&events, delta).map_err(ConfigError::no_claim)
}

fn best(composition: &Composition) -> f64 {
    composition.best().map_or(f64::INFINITY, |b| b.1)
}

/// The longest prefix of the schedule that stays within ε.
fn affordable(costs: &[f64], delta: f64, limit: f64) -> Result<u32, ConfigError> {
    let (mut low, mut high) = (0, costs.len());
    while low + 1 < high {
        let middle = low.midpoint(high);
        if best(&composed(&costs[..middle], delta)?) <= limit {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low as u32)
}
