//! Costs: a quadratic for every variable, within limits. What a generator, a plant or a project
//! pays for what it takes.

use serde::{Deserialize, Serialize};

/// f(x) = Σ_l (q_l/2)·x_l² + b_l·x_l for x_l between its limits.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    curvature: Vec<f64>,
    linear: Vec<f64>,
    limits: Vec<[f64; 2]>,
    /// The public range every marginal cost is known to lie in; gradients are clipped to it.
    marginal: [f64; 2],
}

/// Costs are an agent's own: nothing but their number may land in a log.
impl std::fmt::Debug for Costs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Costs(variables={})", self.linear.len())
    }
}

impl Costs {
    /// Of q, b and limits of one length.
    #[must_use]
    pub fn new(curvature: Vec<f64>, linear: Vec<f64>, limits: Vec<[f64; 2]>) -> Self {
        assert!(curvature.len() == linear.len() && linear.len() == limits.len(), "one length");
        Self { curvature, linear, limits, marginal: [f64::NEG_INFINITY, f64::INFINITY] }
    }

    /// Clips gradients to a public range, which makes their sensitivity hold whatever the costs
    /// are.
    #[must_use]
    pub fn clipped(mut self, marginal: [f64; 2]) -> Self {
        self.marginal = marginal;
        self
    }

    /// Adds variables that must stay 0, so that all agents' vectors have one length.
    #[must_use]
    pub fn padded(mut self, dim: usize) -> Self {
        self.curvature.resize(dim, 1.0);
        self.linear.resize(dim, 0.0);
        self.limits.resize(dim, [0.0, 0.0]);
        self
    }

    /// Variables.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.linear.len()
    }

    /// The limits of every variable.
    #[must_use]
    pub fn limits(&self) -> &[[f64; 2]] {
        &self.limits
    }

    /// Smallest and largest q.
    #[must_use]
    pub fn curvature(&self) -> (f64, f64) {
        let all = || self.curvature.iter().copied();
        (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max))
    }

    /// Smallest and largest marginal cost q·x + b within the limits.
    #[must_use]
    #[doc(hidden)]
    pub fn marginals(&self) -> (f64, f64) {
        let at = |l: usize, x: f64| {
            if self.curvature[l] == 0.0 {
                self.linear[l]
            } else {
                self.curvature[l] * x + self.linear[l]
            }
        };
        let ends = (0..self.dim()).map(|l| (at(l, self.limits[l][0]), at(l, self.limits[l][1])));
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (low, high)| {
            (a.min(low), b.max(high))
        })
    }

    /// f(x).
    #[must_use]
    pub fn value(&self, x: &[f64]) -> f64 {
        x.iter()
            .zip(&self.curvature)
            .zip(&self.linear)
            .map(|((x, q), b)| (0.5 * q * x + b) * x)
            .sum()
    }

    /// ∇f(x), clipped to the public range.
    pub fn gradient(&self, x: &[f64], out: &mut [f64]) {
        let [low, high] = self.marginal;
        for (l, out) in out.iter_mut().enumerate() {
            *out = (self.curvature[l] * x[l] + self.linear[l]).clamp(low, high);
        }
    }

    /// `out = ∇²f(x)·v`: q_l·v_l where the marginal cost is not clipped.
    pub(super) fn bend(&self, x: &[f64], v: &[f64], out: &mut [f64]) {
        let [low, high] = self.marginal;
        for (l, out) in out.iter_mut().enumerate() {
            let marginal = self.curvature[l] * x[l] + self.linear[l];
            *out = if marginal < low || marginal > high { 0.0 } else { self.curvature[l] * v[l] };
        }
    }

    /// `x = argmin f(x) + (D/2)‖x − centre‖²` within the limits.
    pub(crate) fn proximal(&self, centre: &[f64], weight: f64, x: &mut [f64]) {
        for (l, x) in x.iter_mut().enumerate() {
            let [low, high] = self.limits[l];
            *x = ((weight * centre[l] - self.linear[l]) / (weight + self.curvature[l]))
                .clamp(low, high);
        }
    }

    /// `x = argmin f(x) − uᵀx` within the limits, and the curvature 1/q of the variables that are
    /// free to move (0 for the others).
    pub(super) fn respond(&self, u: &[f64], x: &mut [f64], give: &mut [f64]) {
        for l in 0..self.dim() {
            let [low, high] = self.limits[l];
            let free = (u[l] - self.linear[l]) / self.curvature[l];
            x[l] = free.clamp(low, high);
            give[l] = if free > low && free < high { 1.0 / self.curvature[l] } else { 0.0 };
        }
    }
}
