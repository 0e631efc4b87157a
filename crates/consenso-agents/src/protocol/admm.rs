//! Algorithm 1: private ADMM with randomised penalties, on any connected graph (docs/paper.md
//! section 2).

use super::parameters::positive;
use super::{
    Aggregation, Assessed, Capabilities, Configured, Memory, Needs, Parameters, Parts, Protocol,
    PublicFacts, Response, View, settle, table_of,
};
use crate::config_error::ConfigError;
use crate::kernel;
use crate::problem::solve::{Proximal, proximal_step};
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use crate::theory::admm::{Block, Coupled, Uncertified, largest_factor, two_digits};
use crate::theory::{Assessment, Certainty, CertifiedBound, TheoremInputs, short};
use serde::{Deserialize, Serialize};

/// Algorithm 1, first-order or exact, with random or fixed weights:
///
/// ```text
/// s ~ U(0,1) per agent, round and coordinate
/// x_i⁺ = (1−s)·x_i + (s/n_i) Σ_{j∈N_i} x_j + λ_i/D − ∇f_i(x_i)/D + Δ_i
/// λ_i⁺ = λ_i + ζ Σ_{j∈N_i} (x_j⁺ − x_i⁺)
/// ```
///
/// The exact variant replaces the gradient step by the minimiser of f_i(x) − xᵀλ_i + (D/2)‖x − v‖²,
/// v the random point. λ_i starts at 0 and one ζ serves all agents, which keeps Σ λ_i = 0. The
/// printed paper has the dual step with the other sign; it diverges.
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
    /// Random weights, or their fixed twin in the middle of the range.
    #[serde(default)]
    pub aggregation: Aggregation,
    /// The range s is drawn from; (0, 1) by default. Theorems 3.1 and 3.2 certify narrow ranges
    /// near 0 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<[f64; 2]>,
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
            weights: None,
            printed_dual_sign: false,
        }
    }
}

/// How well exact local problems are solved.
const LOCAL_TOLERANCE: f64 = 1e-13;

/// The residual gradient a sensitivity allows for. The gate poses no problem, as far as public
/// numbers go, where rounding alone would leave more ([`largest_solvable`](crate::problem::solve)),
/// and the solver ends below it on all others.
pub(crate) const ASSUMED_RESIDUAL: f64 = crate::problem::solve::SURE_RESIDUAL;

/// Solves a local problem over the set from `x` on. A run without noise may diverge to where there
/// is no solution in floating point: NaN then.
///
/// A solution is never withheld for being worse than [`ASSUMED_RESIDUAL`]: whether it is depends on
/// the records, and everybody would see an agent stop.
pub(super) fn exact_step(
    local: &LocalObjective,
    proximal: Proximal<'_>,
    set: &Constraint,
    x: &mut [f64],
    work: &mut Workspace,
) {
    if proximal_step(local, proximal, set, x, LOCAL_TOLERANCE, work).is_nan() {
        x.fill(f64::NAN);
    }
}

/// The working stability rule ζ·λ_max(Laplacian) < 2D of methods with exact minimisers and fixed
/// weights.
pub(super) fn check_exact(
    d: f64,
    zeta: f64,
    facts: &PublicFacts,
) -> Result<Option<String>, ConfigError> {
    positive("penalty", d)?;
    positive("dual_step", zeta)?;
    let (left, right) = (zeta * facts.laplacian_max, 2.0 * d);
    Ok((left >= right).then(|| {
        format!(
            "predicted unstable: dual_step·λ_max = {left:.3} is not below 2·penalty = {right:.3} (λ_max = {:.3}); \
             use dual_step < {:.3} or a larger penalty",
            facts.laplacian_max,
            right / facts.laplacian_max
        )
    }))
}

/// D and ζ of a method with exact minimisers, where the user left them open: as for Algorithm 1,
/// whose noise they share.
pub(super) fn resolve_exact(
    penalty: &mut Option<f64>,
    dual_step: &mut Option<f64>,
    facts: &PublicFacts,
) {
    let penalty = *penalty.get_or_insert(2.0 * facts.smoothness);
    dual_step
        .get_or_insert(0.2 * (penalty - facts.smoothness).max(0.5 * penalty) / facts.laplacian_max);
}

/// An exact minimiser costs some thirty gradients and gains little over one of them: half the
/// rounds of Algorithm 1.
pub(super) fn default_exact_rounds(penalty: Option<f64>, facts: &PublicFacts) -> u32 {
    let step = 1.0 / penalty.unwrap_or(2.0 * facts.smoothness);
    (facts.worthwhile(200.0) / step).clamp(30.0, 100.0) as u32
}

/// `out = (x_i + mean_j x_j)/2 + λ_i/D`: the centre of the local problem with constant penalties.
pub(super) fn half_way(view: &View<'_>, dual: &[f64], penalty: f64, out: &mut [f64]) {
    let scale = 0.5 / view.degree() as f64;
    view.neighbour_sum(out);
    for ((out, x), dual) in out.iter_mut().zip(view.own()).zip(dual) {
        *out = *out * scale + 0.5 * x + dual / penalty;
    }
}

/// `step = argmin f_i(x) + (D/2)‖x − point‖² − point`, over the set.
pub(super) fn solve_at(
    view: &View<'_>,
    point: &[f64],
    weight: f64,
    set: &Constraint,
    local: &LocalObjective,
    work: &mut Workspace,
    step: &mut [f64],
) {
    step.copy_from_slice(view.own());
    exact_step(local, Proximal { centre: point, weight }, set, step, work);
    kernel::axpy(-1.0, point, step);
}

/// λ_i⁺ = λ_i + ζ Σ_{j∈N_i} (x_j⁺ − x_i⁺).
pub(super) fn ascend(view: &View<'_>, dual: &mut [f64], zeta: f64) {
    for row in view.neighbours() {
        for ((dual, theirs), mine) in dual.iter_mut().zip(row).zip(view.own()) {
            *dual += zeta * (theirs - mine);
        }
    }
}

impl Admm {
    fn penalty(&self) -> f64 {
        self.penalty.unwrap_or(f64::NAN)
    }

    fn dual_step(&self) -> f64 {
        self.dual_step.unwrap_or(f64::NAN)
    }

    fn weights(&self) -> [f64; 2] {
        self.weights.unwrap_or([0.0, 1.0])
    }

    /// The two sides of the working stability rule ζ·λ_max < 4D(1 − s̄) − 2M, which at s̄ = ½ is
    /// that of docs/paper.md section 2: the rule for general A with ρ⁰ = s̄·D/n_i and ‖A‖² = λ_max
    /// ≤ 2n_i. An exact minimiser has no −2M.
    fn rule(&self, facts: &PublicFacts) -> (f64, f64) {
        let [low, high] = self.weights();
        let room = 4.0 * self.penalty() * (1.0 - 0.5 * (low + high));
        let right = if self.exact { room } else { room - 2.0 * facts.smoothness };
        (self.dual_step() * facts.laplacian_max, right)
    }

    /// The algorithm as an instance of the general problem: A is the edge-incidence matrix,
    /// σ²_max(A_i) = n_i, ρ_i = s·D/n_i, and σ²_min(A) = λ_2. Everything in the theorems is largest
    /// at the smallest or the largest degree, so two blocks bound all agents.
    fn coupled(&self, inputs: &TheoremInputs) -> Coupled {
        let facts = &inputs.facts;
        let [mut low, mut high] = self.weights();
        if self.aggregation == Aggregation::Fixed {
            low = 0.5 * (low + high);
            high = low;
        }
        let block = |degree: usize| {
            let n = degree as f64;
            Block {
                strong_convexity: facts.strong_convexity,
                smoothness: facts.smoothness,
                sigma_squared: n,
                rho: (low * self.penalty() / n, high * self.penalty() / n),
                penalty: self.penalty(),
            }
        };
        Coupled {
            agents: facts.agents,
            blocks: vec![block(facts.degrees.0), block(facts.degrees.1)],
            sigma_min_squared: inputs.connectivity,
            dual_step: self.dual_step(),
            exact: self.exact,
            noisy: !inputs.noise.is_empty(),
        }
    }

    /// The widest range of weights proportional to this one, and half the dual step it then allows,
    /// that are certified; D is kept if it can be.
    fn nearest_certified(&self, inputs: &TheoremInputs) -> Option<Parameters> {
        let facts = &inputs.facts;
        if facts.strong_convexity <= 0.0 || inputs.constraint != crate::problem::Constraint::None {
            return None;
        }
        let floor = if self.exact { 0.0 } else { two_digits(1.6 * facts.smoothness) };
        let [low, high] = self.weights();
        let at = |scale: f64| {
            let mut one = self.clone();
            one.exact &= inputs.noise.is_empty();
            one.penalty = Some(self.penalty().max(floor));
            one.weights = Some([scale * low, scale * high]);
            // The dual step may be up to 2ρ⁰ − N/α; a quarter of 2ρ⁰ leaves α room.
            let rho = 0.5 * scale * (low + high) * one.penalty() / facts.degrees.1 as f64;
            one.dual_step = Some(self.dual_step().min(0.5 * rho));
            one
        };
        let found = largest_factor(|scale| at(scale).coupled(inputs).certify().is_ok())?;
        let mut one = at(two_digits(0.7 * found));
        one.dual_step = one.dual_step.map(two_digits);
        one.coupled(inputs).certify().is_ok().then(|| table_of(&one))
    }
}

impl Protocol for Admm {
    fn kind(&self) -> &'static str {
        "admm"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            needs: Needs::Sum,
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

    fn memory(&self) -> usize {
        1
    }

    fn response(&self, _: u32, _: usize) -> Response {
        if self.exact { Response::AtPoint { weight: self.penalty() } } else { Response::Shift }
    }

    fn step_sensitivity(
        &self,
        _: u32,
        _: usize,
        gradient: &Sensitivity,
        facts: &PublicFacts,
    ) -> Sensitivity {
        if self.exact {
            // The minimiser, over any convex set, moves by at most the gradient's change over D +
            // m: l2 only, and the solver's own error on both sides.
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
        for (((low, high), x), dual) in
            low.iter_mut().zip(high.iter_mut()).zip(view.own()).zip(dual)
        {
            let pull = (dual - shrink * x) / penalty;
            *low = x + pull;
            *high = *high * scale + pull;
        }
        if let Some([least, most]) = self.weights {
            for (low, high) in low.iter_mut().zip(high.iter_mut()) {
                (*low, *high) = (*low + least * (*high - *low), *low + most * (*high - *low));
            }
        }
        settle(self.aggregation, low, high);
    }

    fn step(
        &self,
        view: &View<'_>,
        _: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        if self.exact {
            solve_at(view, point, self.penalty(), view.constraint(), local, work, step);
        } else {
            local.data_gradient(view.own(), step, work);
            let scale = -1.0 / self.penalty();
            step.iter_mut().for_each(|s| *s *= scale);
        }
    }

    fn absorb(&self, view: &View<'_>, dual: &mut [f64]) {
        ascend(
            view,
            dual,
            if self.printed_dual_sign { -self.dual_step() } else { self.dual_step() },
        );
    }
}

impl Configured for Admm {
    /// Its step 1/D = 1/(2M) is a fifth of what gradient methods take here, and the duals settle
    /// slowly: twice their rounds.
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        let step = 1.0 / self.penalty.unwrap_or(2.0 * facts.smoothness);
        (facts.worthwhile(800.0) / step).clamp(60.0, 400.0) as u32
    }

    /// D = 2M is a gradient step of 1/(2M). ζ is a tenth of the stability limit 2(D − M)/λ_max:
    /// duals integrate the noise of every round, so a small dual step keeps them quiet.
    fn resolve(&mut self, facts: &PublicFacts) {
        let penalty = *self.penalty.get_or_insert(2.0 * facts.smoothness);
        self.dual_step
            .get_or_insert(0.2 * (penalty - facts.smoothness).max(0.0) / facts.laplacian_max);
    }

    /// The working stability rule of docs/paper.md section 2: ζ·λ_max(Laplacian) < 2(D − M).
    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        let (d, zeta, m) = (self.penalty(), self.dual_step(), facts.smoothness);
        positive("penalty", d)?;
        positive("dual_step", zeta)?;
        let [low, high] = self.weights();
        if !(0.0 <= low && low <= high && high <= 1.0) {
            let message = format!("weights = [{low}, {high}] must be a range within 0 and 1");
            return Err(ConfigError::at("weights", message));
        }
        let (left, right) = self.rule(facts);
        Ok((left >= right).then(|| {
            let rule = match (self.exact, self.weights) {
                (true, None) => "2·penalty",
                (false, None) => "2·(penalty − M)",
                (true, Some(_)) => "4·penalty·(1 − mean weight)",
                (false, Some(_)) => "4·penalty·(1 − mean weight) − 2M",
            };
            format!(
                "predicted unstable: dual_step·λ_max = {left:.3} is not below {rule} = {right:.3} \
                 (M = {m:.3}, λ_max = {:.3}); use dual_step < {:.3} or a larger penalty",
                facts.laplacian_max,
                right.max(0.0) / facts.laplacian_max
            )
        }))
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Admm {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let coupled = self.coupled(inputs);
        let certificate = if inputs.constraint == crate::problem::Constraint::None {
            coupled.certify()
        } else {
            Err(Uncertified::ConstraintSet)
        };
        if let Ok(found) = &certificate {
            let envelope = coupled.envelope(found, inputs.facts.dim, &inputs.noise);
            let inequality = format!(
                "(rho-fa-selection) holds with α = {}, ρ⁰ = {}",
                short(found.alpha),
                short(found.rho)
            );
            return Assessment {
                rate: Some(envelope.factor),
                promise: Some(format!(
                    "E‖u − u*‖²_G shrinks by 1/(1 + p) a round, p = {}",
                    short(found.p)
                )),
                bound: Some(CertifiedBound::Distance(envelope)),
                ..Assessment::new(Certainty::Certified, coupled.theorem(), inequality)
            };
        }
        let (left, right) = self.rule(&inputs.facts);
        let stable = left < right && !self.printed_dual_sign;
        let standing = if stable { Certainty::PredictedStable } else { Certainty::Unstable };
        let sign = if left < right { "<" } else { "≥" };
        let curvature = if self.exact { "" } else { " − 2M" };
        let inequality =
            format!("ζ·λ_max = {} {sign} 4D(1 − s̄){curvature} = {}", short(left), short(right));
        Assessment {
            not_certified: certificate.err().map(|why| format!("{}: {why}", coupled.theorem())),
            nearest_certified: self.nearest_certified(inputs),
            ..Assessment::new(standing, "working stability rule", inequality)
        }
    }
}
