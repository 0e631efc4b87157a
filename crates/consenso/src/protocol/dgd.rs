//! DGD: decentralized gradient descent with fixed mixing weights (Nedić and Ozdaglar, 2009).

use super::{Protocol, PublicFacts, Schedule, View, table_of};
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};

/// x_i⁺ = Σ_j W_ij x_j − η·∇f_i(x_i) + Δ_i, with the graph's Metropolis weights W: an interval of width 0.
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

/// A constant step of 2.5/M: above 1/M it is not a descent step in the worst case, but the worst-case M (every record along one
/// direction) overstates the curvature of many features by far; 10 is the cap measured to work on unit rows.
pub(super) fn default_step(facts: &PublicFacts) -> Schedule {
    Schedule::Constant((2.5 / facts.smoothness).min(10.0))
}

/// DGD is stable for η < (1 + smallest eigenvalue of W)/M; 2/M is the limit for a positive W.
pub(super) fn check_step(step: Option<&Schedule>, facts: &PublicFacts) -> Result<Option<String>, String> {
    let step = step.expect("resolved");
    if let Some(problem) = step.problem(facts.rounds) {
        return Err(format!("step: {problem}"));
    }
    Ok(None)
}

impl Protocol for Dgd {
    fn kind(&self) -> &'static str {
        "dgd"
    }

    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, String> {
        check_step(self.step.as_ref(), facts)
    }

    fn allows_absence(&self) -> bool {
        true
    }

    fn parameters(&self) -> toml::Table {
        table_of(self)
    }

    fn step_sensitivity(&self, round: u32, _: usize, gradient: &Sensitivity, _: &PublicFacts) -> Sensitivity {
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
        _: &mut [f64],
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
