//! Algorithm 1: private ADMM with randomised penalties, on any connected graph (SPEC section 2).

use super::{Aggregation, Protocol, PublicFacts, Response, View, settle, table_of};
use crate::kernel;
use crate::problem::solve::{Proximal, proximal_step};
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};

/// Algorithm 1, first-order or exact, with random or fixed weights:
///
/// ```text
/// s ~ U(0,1) per agent, round and coordinate
/// x_i⁺ = (1−s)·x_i + (s/n_i) Σ_{j∈N_i} x_j + λ_i/D − ∇f_i(x_i)/D + Δ_i
/// λ_i⁺ = λ_i + ζ Σ_{j∈N_i} (x_j⁺ − x_i⁺)
/// ```
///
/// The exact variant replaces the gradient step by the minimiser of f_i(x) − xᵀλ_i + (D/2)‖x − v‖², v the random point.
/// λ_i starts at 0 and one ζ serves all agents, which keeps Σ λ_i = 0. The printed paper has the dual step with the other sign; it diverges.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admm {
    /// D: weight of the proximal term; the step factor is 1/D.
    pub penalty: Option<f64>,
    /// ζ: dual step.
    pub dual_step: Option<f64>,
    /// Solve the local problem instead of taking one gradient step.
    #[serde(default)]
    pub exact: bool,
    /// Random weights, or their fixed twin s = ½.
    #[serde(default)]
    pub aggregation: Aggregation,
    /// Use the dual sign as the paper prints it, to show that it diverges.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub printed_dual_sign: bool,
}

impl Default for Admm {
    fn default() -> Self {
        Self {
            penalty: None,
            dual_step: None,
            exact: false,
            aggregation: Aggregation::Random,
            printed_dual_sign: false,
        }
    }
}

/// How well exact local problems are solved.
const LOCAL_TOLERANCE: f64 = 1e-13;

/// The residual gradient a sensitivity allows for: Newton's method on a strongly convex function ends at rounding level, four orders below.
pub(super) const ASSUMED_RESIDUAL: f64 = 1e-9;

/// Solves a local problem over the set from `x` on. Iterates so large that rounding alone leaves more than [`ASSUMED_RESIDUAL`] (above about 10^6) belong to
/// a run that diverged; they become NaN, which the gate does not release.
pub(super) fn exact_step(
    local: &LocalObjective,
    proximal: Proximal<'_>,
    set: &Constraint,
    x: &mut [f64],
    work: &mut Workspace,
) {
    let residual = proximal_step(local, proximal, set, x, LOCAL_TOLERANCE, work);
    if residual.is_nan() || residual > ASSUMED_RESIDUAL {
        x.fill(f64::NAN);
    }
}

impl Admm {
    fn penalty(&self) -> f64 {
        self.penalty.unwrap_or(f64::NAN)
    }

    fn dual_step(&self) -> f64 {
        self.dual_step.unwrap_or(f64::NAN)
    }
}

impl Protocol for Admm {
    fn kind(&self) -> &'static str {
        "admm"
    }

    /// Its step 1/D = 1/(2M) is a fifth of what gradient methods take here, and the duals settle slowly: twice their rounds.
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        let step = 1.0 / self.penalty.unwrap_or(2.0 * facts.smoothness);
        (facts.worthwhile(800.0) / step).clamp(60.0, 400.0) as u32
    }

    /// D = 2M is a gradient step of 1/(2M). ζ is a tenth of the stability limit 2(D − M)/λ_max: duals integrate the noise of every
    /// round, so a small dual step keeps them quiet.
    fn resolve(&mut self, facts: &PublicFacts) {
        let penalty = *self.penalty.get_or_insert(2.0 * facts.smoothness);
        self.dual_step.get_or_insert(0.2 * (penalty - facts.smoothness).max(0.0) / facts.laplacian_max);
    }

    /// The working stability rule of SPEC section 2: ζ·λ_max(Laplacian) < 2(D − M).
    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, String> {
        let (d, zeta, m) = (self.penalty(), self.dual_step(), facts.smoothness);
        if !(d > 0.0 && d.is_finite()) {
            return Err(format!("penalty must be a positive number, not {d}"));
        }
        if !(zeta > 0.0 && zeta.is_finite()) {
            return Err(format!("dual_step must be a positive number, not {zeta}"));
        }
        let (left, right) = (zeta * facts.laplacian_max, if self.exact { 2.0 * d } else { 2.0 * (d - m) });
        Ok((left >= right).then(|| {
            let rule = if self.exact { "2·penalty" } else { "2·(penalty − M)" };
            format!(
                "predicted unstable: dual_step·λ_max = {left:.3} is not below {rule} = {right:.3} \
                 (M = {m:.3}, λ_max = {:.3}); use dual_step < {:.3} or a larger penalty",
                facts.laplacian_max,
                right.max(0.0) / facts.laplacian_max
            )
        }))
    }

    fn memory(&self) -> usize {
        1
    }

    fn parameters(&self) -> toml::Table {
        table_of(self)
    }

    fn response(&self) -> Response {
        if self.exact { Response::AtPoint } else { Response::Shift }
    }

    fn step_sensitivity(&self, _: u32, _: usize, gradient: &Sensitivity, facts: &PublicFacts) -> Sensitivity {
        if self.exact {
            // The minimiser, over any convex set, moves by at most the gradient's change over D + m: l2 only, and the solver's own
            // error on both sides.
            let strength = self.penalty() + facts.strong_convexity;
            Sensitivity::from_l2((gradient.l2 + 2.0 * ASSUMED_RESIDUAL) / strength, facts.dim)
        } else {
            gradient.scaled(1.0 / self.penalty())
        }
    }

    fn interval(&self, view: &View<'_>, dual: &[f64], low: &mut [f64], high: &mut [f64]) {
        let (penalty, scale) = (self.penalty(), 1.0 / view.degree() as f64);
        let shrink = if self.exact { 0.0 } else { view.regularization() };
        view.neighbour_sum(high);
        for (((low, high), x), dual) in low.iter_mut().zip(high.iter_mut()).zip(view.own()).zip(dual) {
            let pull = (dual - shrink * x) / penalty;
            *low = x + pull;
            *high = *high * scale + pull;
        }
        settle(self.aggregation, low, high);
    }

    fn step(
        &self,
        view: &View<'_>,
        _: &mut [f64],
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        if self.exact {
            let proximal = Proximal { centre: point, weight: self.penalty() };
            step.copy_from_slice(view.own());
            exact_step(local, proximal, view.constraint(), step, work);
            kernel::axpy(-1.0, point, step);
        } else {
            local.data_gradient(view.own(), step, work);
            let scale = -1.0 / self.penalty();
            step.iter_mut().for_each(|s| *s *= scale);
        }
    }

    fn absorb(&self, view: &View<'_>, dual: &mut [f64]) {
        let zeta = if self.printed_dual_sign { -self.dual_step() } else { self.dual_step() };
        for row in view.neighbours() {
            for ((dual, theirs), mine) in dual.iter_mut().zip(row).zip(view.own()) {
                *dual += zeta * (theirs - mine);
            }
        }
    }
}
