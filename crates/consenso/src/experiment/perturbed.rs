//! Accounts of noise that stands inside a problem: every round is a pure ε of its own (see `privacy::objective_perturbation`).

use super::budget::{Account, Context, Price, caveats, each};
use super::spec::{Accounting, Mechanism, NoiseSpec, PrivacySpec};
use crate::gate::{Ledger, Noise, RoundNoise, SchedulePlan};
use crate::privacy::objective_perturbation::{Inside, Perturbation};
use crate::privacy::{Claim, Composition, Event, compose};
use crate::problem::Sensitivity;
use crate::protocol::{ASSUMED_RESIDUAL, Protocol, PublicFacts};
use std::sync::Arc;

/// One agent's rounds, before their noise is chosen.
pub(super) struct Rounds<'a> {
    /// B_q/D by round.
    steps: Vec<Sensitivity>,
    /// D by round.
    weights: Vec<f64>,
    records: usize,
    facts: &'a PublicFacts,
    context: &'a Context<'a>,
}

impl<'a> Rounds<'a> {
    /// Of an agent with `records` records and `degree` neighbours.
    pub(super) fn new(
        protocol: &dyn Protocol,
        (records, degree): (usize, usize),
        steps: Vec<Sensitivity>,
        facts: &'a PublicFacts,
        context: &'a Context<'a>,
    ) -> Result<Self, String> {
        let weights: Vec<f64> = (1..=facts.rounds).map(|k| protocol.solved_weight(k, degree)).collect();
        if !weights.iter().all(|&w| w > 0.0 && w.is_finite()) {
            return Err(format!(
                "{} does not say which problem it solves, so it cannot be accounted for",
                protocol.kind()
            ));
        }
        Ok(Self { steps, weights, records, facts, context })
    }

    /// The noise of every round with its account: the user's, or as little as the budget allows.
    pub(super) fn account(&self, noise: Option<&NoiseSpec>) -> Result<Account, String> {
        let privacy = self.context.spec.privacy;
        let (inside, scales) = match noise {
            Some(NoiseSpec::LaplaceRate(s)) => (Inside::Laplace, each(self.facts, s, |v| 1.0 / v)),
            Some(NoiseSpec::LaplaceScale(s)) => (Inside::Laplace, each(self.facts, s, |v| v)),
            Some(NoiseSpec::GammaRate(s)) => (Inside::GammaNorm, each(self.facts, s, |v| 1.0 / v)),
            Some(NoiseSpec::Gaussian(_)) => return Err(NO_GAUSSIAN.into()),
            Some(NoiseSpec::None | NoiseSpec::Calibrated(_)) | None => {
                (Inside::Laplace, self.calibrated(privacy.as_ref().ok_or("no budget")?)?)
            }
        };
        let one = |&scale: &f64| match inside {
            Inside::Laplace => RoundNoise::new(Noise::Laplace { scale }),
            Inside::GammaNorm => RoundNoise::gamma_norm(scale),
        };
        let noise: Arc<[RoundNoise]> =
            scales.iter().map(one).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let Some(privacy) = privacy else {
            return Ok(Account {
                steps: self.steps.as_slice().into(),
                noise,
                hidden_by: Arc::from([]),
                ledger: Ledger::Open,
                price: None,
                published: Vec::new(),
                inside: Vec::new(),
            });
        };
        if privacy.accounting == Accounting::Filter {
            return Err("privacy.accounting = \"filter\" charges for the width of intervals, and noise inside a problem has none: \
                        use \"schedule\""
                .into());
        }
        let costs = self.costs(inside, &scales);
        let composition = composed(&costs, privacy.delta)?;
        let allowed = match privacy.epsilon {
            Some(limit) if best(&composition) > limit => affordable(&costs, privacy.delta, limit)?,
            _ => self.facts.rounds,
        };
        let shifts = self.steps.iter().map(|s| s.linf.min(s.l2)).collect();
        let ledger = Ledger::schedule(Arc::new(SchedulePlan::new(allowed, shifts)));
        let price = self.price(composition, &costs, inside, &scales, &privacy)?;
        Ok(Account {
            steps: self.steps.as_slice().into(),
            noise,
            hidden_by: Arc::from([]),
            ledger,
            price: Some(price),
            published: Vec::new(),
            inside: costs,
        })
    }

    /// The round `k` (from 0) under noise of `scale`, for a shift of the noise by `shift`.
    fn perturbation(&self, k: usize, inside: Inside, scale: f64, shift: f64) -> Perturbation {
        let Context { objective, bounds, .. } = self.context;
        Perturbation {
            inside,
            scale,
            shift,
            volume: objective.volume_sensitivity_between(
                bounds,
                self.records,
                self.weights[k],
                self.context.spec.privacy.map(|p| p.neighbours).unwrap_or_default(),
            ),
            // Twice: the residual that is measured was itself rounded.
            solver_error: 2.0 * ASSUMED_RESIDUAL / (self.weights[k] + objective.strong_convexity()),
            dim: self.facts.dim,
        }
    }

    /// Pure ε by round.
    fn costs(&self, inside: Inside, scales: &[f64]) -> Vec<f64> {
        let dim = self.facts.dim as f64;
        let shift = |s: &Sensitivity| match inside {
            Inside::Laplace => s.l1.min((dim * s.linf).next_up()),
            Inside::GammaNorm => s.l2,
        };
        let one =
            |(k, &scale): (usize, &f64)| self.perturbation(k, inside, scale, shift(&self.steps[k])).cost();
        scales.iter().enumerate().map(one).collect()
    }

    /// Laplace scales in proportion to each round's sensitivity, as small as the budget allows.
    fn calibrated(&self, privacy: &PrivacySpec) -> Result<Vec<f64>, String> {
        let epsilon = privacy.epsilon.ok_or("privacy.epsilon is missing")?;
        if privacy.mechanism == Some(Mechanism::Gaussian) {
            return Err(NO_GAUSSIAN.into());
        }
        let scales = |factor: f64| self.steps.iter().map(|s| s.l1 * factor).collect::<Vec<_>>();
        let spent = |factor: f64| -> Result<f64, String> {
            Ok(best(&composed(&self.costs(Inside::Laplace, &scales(factor)), privacy.delta)?))
        };
        // Scales of K·(sensitivity)/ε would do for the noise alone; what determinants leave of a budget may ask for much more.
        let first = self.steps.len() as f64 / epsilon;
        let mut high = None;
        for factor in [2.0, 8.0, 64.0, 1024.0] {
            if spent(factor * first)? <= epsilon {
                high = Some(factor * first);
                break;
            }
        }
        let mut high = high.ok_or_else(|| {
            format!(
                "privacy.epsilon = {epsilon} does not even pay for the determinants of {} rounds: use a larger penalty, \
                 fewer rounds or more records an agent",
                self.steps.len()
            )
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
        inside: Inside,
        scales: &[f64],
        privacy: &PrivacySpec,
    ) -> Result<Price, String> {
        let (norm, law) = match inside {
            Inside::Laplace => ("l1", "Laplace"),
            Inside::GammaNorm => ("l2", "Gamma-norm"),
        };
        let source =
            if self.context.seeded { "a seeded ChaCha12 stream" } else { "ChaCha12 keyed by OS entropy" };
        let sampler = format!(
            "exact {law} noise inside the local problem, its solution released with a finishing Laplace noise that hides the \
             solver's error, {source}"
        );
        let bounds = serde_json::json!({ norm: composition });
        let mut claim = Claim::from_composition(composition, privacy.neighbours, sampler)
            .ok_or("no bound is valid for this schedule")?;
        // The proofs leave out events of a chance below 2⁻¹⁰⁰ a round, of a long noise and of a cut tail: off them the release is the ideal one, so that
        // δ has (1 + e^ε) times their chance. A δ that was asked for is larger by so much that no float would show it.
        let left_out =
            2.0 * scales.len() as f64 * libm::exp2(-100.0) * (1.0 + libm::exp(claim.epsilon.min(700.0)));
        if claim.delta == 0.0 {
            claim.delta = left_out * (1.0 + 1e-12);
        }
        let claim =
            claim.with_caveat(format!("δ includes {left_out:.1e} for events that the proofs leave out"));
        let claim = caveats(claim, self.context).with_caveat(format!(
            "objective perturbation: pure ε a round from the {norm} norm and the Jacobian determinant"
        ));
        // The paper's worst case has the l∞ norm where ours may have a better one.
        let dim = self.facts.dim as f64;
        let paper = |(k, &scale): (usize, &f64)| match inside {
            Inside::Laplace => self.perturbation(k, inside, scale, dim * self.steps[k].linf).cost(),
            Inside::GammaNorm => costs[k],
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

const NO_GAUSSIAN: &str = "noise: this algorithm puts its noise inside a problem, where Gaussian noise has no account here: use \
                           laplace_rate, laplace_scale or gamma_rate, or kind = \"output-admm\"";

/// Rounds of equal cost are one event.
fn composed(costs: &[f64], delta: f64) -> Result<Composition, String> {
    let events: Vec<Event> =
        costs.chunk_by(|a, b| a == b).map(|equal| Event::pure(equal[0], equal.len() as u64)).collect();
    compose(&events, delta).map_err(|e| e.to_string())
}

fn best(composition: &Composition) -> f64 {
    composition.best().map_or(f64::INFINITY, |b| b.1)
}

/// The longest prefix of the schedule that stays within ε.
fn affordable(costs: &[f64], delta: f64, limit: f64) -> Result<u32, String> {
    let (mut low, mut high) = (0, costs.len());
    while low + 1 < high {
        let middle = low.midpoint(high);
        if best(&composed(&costs[..middle], delta)?) <= limit { low = middle } else { high = middle }
    }
    Ok(low as u32)
}
