//! DGD: decentralized gradient descent with fixed mixing weights (Nedić and Ozdaglar, 2009).

use super::{
    Assessed, Capabilities, Configured, Drift, ENOUGH_STEPS, Memory, Parameters, Parts, Protocol,
    PublicFacts, Schedule, Scouting, View, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, Certainty, TheoremInputs, short};
use serde::{Deserialize, Serialize};

/// x_i⁺ = Σ_j W_ij x_j − η·∇f_i(x_i) + Δ_i, with the graph's Metropolis weights W: an interval of
/// width 0.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dgd {
    /// η_k.
    pub step: Option<Schedule>,
}

/// The step size of round k of a gradient method.
pub(super) fn eta(step: Option<&Schedule>, round: u32) -> f64 {
    step.map_or(f64::NAN, |s| s.at(round))
}

/// A constant step of 2.5/M: above 1/M it is not a descent step in the worst case, but the
/// worst-case M (every record along one direction) overstates the curvature of many features by
/// far; 10 is the cap measured to work on unit rows. Where W has an eigenvalue λ_min near −1,
/// neighbours swing against each other unless the step is below (1 + λ_min) over the true
/// curvature: 3.2·(1 + λ_min)/M, measured to work where 2.5/M did not. Under a budget it is shorter
/// when there are more rounds than that takes to spend what is worth spending, and every slope is
/// bounded, so that no step can run away. Without one a residual may be as large as it likes, and
/// the step is the proved one.
pub(super) fn default_step(facts: &PublicFacts) -> Schedule {
    let proved = 0.99 * (1.0 + facts.mixing_min);
    let tried = (3.2 * (1.0 + facts.mixing_min)).min(2.5);
    let longest = (if facts.private { tried } else { proved } / facts.smoothness).min(10.0);
    let share = facts.worthwhile(ENOUGH_STEPS) / f64::from(facts.rounds.max(1));
    Schedule::Constant(if facts.budget.is_some() { longest.min(share) } else { longest })
}

/// About 200 rounds of the longest step (500 of the shorter one without a budget), fewer when the
/// budget cannot pay for them, but at least 4N (up to 400) under a budget: with T fixed, K rounds
/// add noise of T·B₂/(√K·μ) each, and gradients are taken at points that far from the mean. 4N
/// rounds keep it at 1.
pub(super) fn default_rounds(facts: &PublicFacts) -> u32 {
    let longest = default_step(&PublicFacts { rounds: 0, ..*facts }).at(1);
    let most = if facts.private { 200.0 } else { 500.0 };
    let enough = (facts.worthwhile(ENOUGH_STEPS) / longest).clamp(30.0, most) as u32;
    let calm = if facts.budget.is_some() { (4 * facts.agents).min(400) as u32 } else { 0 };
    enough.max(calm)
}

/// Refuses a schedule that is not of positive numbers; whether it is stable is a matter of
/// [`assess_step`].
pub(super) fn check_step(
    step: Option<&Schedule>,
    facts: &PublicFacts,
) -> Result<Option<String>, ConfigError> {
    let step = step.expect("resolved");
    if let Some(problem) = step.problem(facts.rounds) {
        return Err(ConfigError::at("step", format!("step: {problem}")));
    }
    Ok(None)
}

/// How far a gradient step leads outside the range of what it mixes. Metropolis weights leave W_ii
/// ≥ 1/(1 + largest degree), so the ridge's part −ημx_i only shrinks the mix as long as ημ is below
/// that; elsewhere it may add to it.
pub(super) fn drift(
    step: Option<&Schedule>,
    round: u32,
    gradient: f64,
    facts: &PublicFacts,
) -> Drift {
    let eta = eta(step, round);
    let ridge = eta * facts.strong_convexity;
    let shrinks = ridge * (1.0 + facts.degrees.1 as f64) <= 1.0;
    Drift { factor: if shrinks { 1.0 } else { 1.0 + ridge }, step: eta * gradient, linear: shrinks }
}

/// The part of the largest curvature that lies along one direction, in the records a step is made
/// for: M counts every row along one line.
const ALONG_ONE_LINE: f64 = 0.75;

/// A gradient method no theorem covers; `product` is η·M.
pub(super) fn open(product: f64, why: &str) -> Assessment {
    let (limit, product) = (2.0 / ALONG_ONE_LINE, product.max(0.0));
    let inequality = if product < 2.0 {
        format!("step·M = {} < 2: each step descends", short(product))
    } else if product < limit {
        format!(
            "step·M = {} < {}: each step descends unless more than three quarters of all curvature lie along one direction",
            short(product),
            short(limit)
        )
    } else {
        let text = "for records that lie along one line it diverges; a step below 2/M cannot";
        format!("step·M = {} ≥ {}: {text}", short(product), short(limit))
    };
    Assessment { not_certified: Some(why.into()), ..Assessment::open(inequality) }
}

/// Whether steps are stable for full gradients with fixed weights, where the rule was tried: below
/// its limit they are predicted to be stable.
pub(super) fn working(product: f64, why: &str) -> Assessment {
    let open = open(product, why);
    if product >= 2.0 / ALONG_ONE_LINE {
        return open;
    }
    let rule = Assessment::new(Certainty::PredictedStable, "working rule", open.inequality);
    Assessment { not_certified: open.not_certified, ..rule }
}

/// A method that is proved for η ≤ (1 + λ_min(W))/M.
pub(super) fn assess_step(
    step: f64,
    inputs: &TheoremInputs,
    theorem: &str,
    promise: &str,
) -> Assessment {
    let (product, limit) = (step * inputs.facts.smoothness, 1.0 + inputs.facts.mixing_min);
    if product < limit {
        let inequality = format!("step·M = {} < 1 + λ_min(W) = {}", short(product), short(limit));
        Assessment {
            promise: Some(promise.into()),
            ..Assessment::new(Certainty::Certified, theorem, inequality)
        }
    } else {
        let why = format!(
            "{theorem}: step·M = {} is not below 1 + λ_min(W) = {}",
            short(product),
            short(limit)
        );
        let mut nearest = Parameters::new();
        nearest.insert("step".into(), (0.99 * limit / inputs.facts.smoothness).into());
        Assessment { nearest_certified: Some(nearest), ..open(product, &why) }
    }
}

impl Protocol for Dgd {
    fn kind(&self) -> &'static str {
        "dgd"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            alone: true,
            absence: true,
            varying: true,
            mixes: true,
            // The fixed point does not move, and the distance to it shrinks by 1 − ηm with every
            // release however old its parts are; see [`delays`](crate::simulate::Delays).
            stale: true,
            intervals: false,
            linear: true,
            correlated: Some("decor"),
            batches: true,
            scouting: Scouting::Replaces,
            ..Capabilities::default()
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts { configured: Some(self), assessed: Some(self), ..Parts::default() }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(eta(self.step.as_ref(), round))
    }

    fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        view.mix(low);
        let shrink = -eta(self.step.as_ref(), view.round() + 1) * view.regularization();
        crate::kernel::axpy(shrink, view.own(), low);
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
        local.data_gradient(view.own(), step, work);
        let eta = eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }
}

impl Configured for Dgd {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Dgd {
    fn drift(&self, round: u32, gradient: f64, facts: &PublicFacts) -> Option<Drift> {
        Some(drift(self.step.as_ref(), round, gradient, facts))
    }

    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let largest = (1..=inputs.facts.rounds.max(1))
            .map(|k| eta(self.step.as_ref(), k))
            .fold(0.0, f64::max);
        if inputs.constraint != Constraint::None {
            return working(largest * inputs.facts.smoothness, "the theorem has no constraint set");
        }
        let theorem = "Yuan, Ling and Yin (2016), Theorem 1";
        let promise = "gradients stay bounded; agents end within O(step) of the optimum";
        let found = assess_step(largest, inputs, theorem, promise);
        if found.standing != Certainty::Open {
            return found;
        }
        let rule =
            working(largest * inputs.facts.smoothness, &found.not_certified.unwrap_or_default());
        Assessment { nearest_certified: found.nearest_certified, ..rule }
    }
}
