//! Algorithm 2*: private gradient descent on any graph, between the neighbourhood's extremes
//! (docs/paper.md section 2).

use super::{
    Aggregation, Assessed, Capabilities, Configured, Memory, Parameters, Parts, Protocol,
    PublicFacts, Schedule, View, settle, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};

/// Algorithm 2*. Per coordinate the interval runs from the smallest to the largest value among
/// agent i and its neighbours:
///
/// ```text
/// x_i⁺[l] = w·min_{j∈N_i∪{i}} x_j[l] + (1−w)·max_{j∈N_i∪{i}} x_j[l] − η·∇f_i(x_i)[l] + Δ_i[l]
/// ```
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourhoodDescent {
    /// η_k.
    pub step: Option<Schedule>,
    /// Random weights, or the middle.
    #[serde(default)]
    pub aggregation: Aggregation,
}

impl Protocol for NeighbourhoodDescent {
    fn kind(&self) -> &'static str {
        "gd-star"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            absence: true,
            intervals: self.aggregation != Aggregation::Fixed,
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
        gradient.scaled(super::dgd::eta(self.step.as_ref(), round))
    }

    fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        low.copy_from_slice(view.own());
        high.copy_from_slice(view.own());
        for row in view.neighbours() {
            for ((low, high), &x) in low.iter_mut().zip(high.iter_mut()).zip(row) {
                *low = low.min(x);
                *high = high.max(x);
            }
        }
        let shrink = -super::dgd::eta(self.step.as_ref(), view.round() + 1) * view.regularization();
        crate::kernel::axpy(shrink, view.own(), low);
        crate::kernel::axpy(shrink, view.own(), high);
        settle(self.aggregation, low, high);
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
        let eta = super::dgd::eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }
}

impl Configured for NeighbourhoodDescent {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| super::dgd::default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        super::dgd::check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for NeighbourhoodDescent {
    /// Random points between the extremes are no fixed combination.
    fn drift(&self, round: u32, gradient: f64, facts: &PublicFacts) -> Option<super::Drift> {
        let eta = super::dgd::eta(self.step.as_ref(), round);
        let factor = 1.0 + eta * facts.strong_convexity;
        Some(super::Drift { factor, step: eta * gradient, linear: false })
    }
}
