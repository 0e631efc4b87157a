//! Algorithm 2: private decentralized gradient descent on a complete graph (SPEC section 2).

use super::{Aggregation, Protocol, PublicFacts, Schedule, View, settle, table_of};
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};

/// Algorithm 2. With (p, q) the two agents farthest apart in l1 and x̄ the mean of all,
///
/// ```text
/// w ~ U(0,1) per coordinate
/// x_i⁺ = (2w/N)·x_p + (2(1−w)/N)·x_q + (1/N) Σ_{j≠p,q} x_j − η·∇f_i(x̄) + Δ_i
/// ```
///
/// so the interval is x̄ ± (x_p − x_q)/N. The fixed twin is the plain mean, w = ½.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradientDescent {
    /// η_k.
    pub step: Option<Schedule>,
    /// Random weights, or the plain mean.
    #[serde(default)]
    pub aggregation: Aggregation,
}

impl Protocol for GradientDescent {
    fn kind(&self) -> &'static str {
        "gd"
    }

    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| super::dgd::default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, String> {
        if !facts.complete {
            return Err("Algorithm 2 (gd) needs a complete graph: set graph.kind = \"complete\", or use kind = \"gd-star\"".into());
        }
        super::dgd::check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> toml::Table {
        table_of(self)
    }

    fn step_sensitivity(&self, round: u32, _: usize, gradient: &Sensitivity, _: &PublicFacts) -> Sensitivity {
        gradient.scaled(super::dgd::eta(self.step.as_ref(), round))
    }

    fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        let common = view.common();
        let agents = (view.degree() + 1) as f64;
        let shrink = 1.0 - super::dgd::eta(self.step.as_ref(), view.round() + 1) * view.regularization();
        let row = |index: usize| view.everyone().nth(index).expect("an agent of the complete graph");
        let (p, q) = (row(common.farthest.0), row(common.farthest.1));
        for (l, mean) in common.mean.iter().enumerate() {
            let (reach, centre) = ((p[l] - q[l]) / agents, shrink * mean);
            low[l] = centre - reach;
            high[l] = centre + reach;
        }
        settle(self.aggregation, low, high);
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
        local.data_gradient(&view.common().mean, step, work);
        let eta = super::dgd::eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }
}
