//! Theorems 3.4, 4.1, 4.2 and random coordinate descent: bounds on F(x) − F(x*) of gradient
//! methods, F = (1/N) Σ f_i.
//!
//! The paper states sums over agents; here everything is divided by N.

/// Theorem 3.4: Algorithm 2 with η_k = 1/(c√k), convex f_i with ‖∇f_i‖ ≤ G, noise of standard
/// deviation V·η_k in l2.
///
/// The mean of the first K mean models is within the returned amount of F(x*), in expectation:
/// [c√K·S + c⁻¹(log K + 2)√(K+1)(G² + V²)]/K with S = mean_i ‖x_i⁰ − x*‖².
#[must_use]
pub fn theorem_3_4(rounds: u32, c: f64, start: f64, gradient: f64, noise: f64) -> f64 {
    let k = f64::from(rounds);
    let drift = (libm::log(k) + 2.0) * (k + 1.0).sqrt() * (gradient * gradient + noise * noise) / c;
    (c * k.sqrt() * start + drift) / k
}

/// E F(x̄^k) − F(x*) ≤ factor·(E F(x̄^{k−1}) − F(x*)) + added_k.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// 1 − ηm.
    pub factor: f64,
    /// What the noise of round k adds at most; empty without noise.
    pub added: Vec<f64>,
}

/// √(2/π): E|X| of a standard normal X.
const MEAN_SIZE: f64 = 0.797_884_560_802_865_4;

/// What all bounds below share: x_i⁺ = x̄ − η∇f_i(x̄) + N(0, σ²I) with η ≤ 1/M on a complete graph,
/// F m-strongly convex.
///
/// A step without noise gives F(ȳ) − F* ≤ (1 − ηm)(F(x̄) − F*); the noise of the mean is Δ̄ ~ N(0,
/// σ²I/N). The bounds differ in what they say about E F(ȳ + Δ̄) − F(ȳ). The regulariser, which the
/// paper leaves out, adds (μ/2)·d·σ²/N to each of them: **with μ > 0 none is free of d**.
impl Envelope {
    /// Theorem 4.1, for generalised linear losses: a record's loss moves by at most L·|zᵀΔ̄|, in
    /// expectation L·R₂·σ·√(2/(πN)). No dimension in it.
    ///
    /// `None` for losses of several products zᵀx, such as the softmax.
    #[must_use]
    pub fn theorem_4_1(inputs: &super::TheoremInputs, step: f64) -> Option<Self> {
        let reach = inputs.gradient.l2 * MEAN_SIZE;
        (inputs.outputs == 1)
            .then(|| Self::gradient_descent(inputs, step, |deviation| reach * deviation))
    }

    /// Theorem 4.2, for any loss with ‖∇φ‖₁ ≤ C₁: it moves by at most C₁·‖Δ̄‖_∞, in expectation
    /// C₁·σ·√(2 ln(2d)/N) (a maximum of 2d normal variables).
    #[must_use]
    pub fn theorem_4_2(inputs: &super::TheoremInputs, step: f64) -> Self {
        let reach = inputs.gradient.l1 * (2.0 * libm::log(2.0 * inputs.facts.dim as f64)).sqrt();
        Self::gradient_descent(inputs, step, |deviation| reach * deviation)
    }

    /// Sharper than both for little noise: E Δ̄ = 0, so the loss moves by ½E Δ̄ᵀHΔ̄ ≤ ½·tr H·σ²/N
    /// at most. The curvature of a record has the trace c₁‖z‖² for one product zᵀx, and Σ_c p_c(1 −
    /// p_c)·‖z‖² ≤ ‖z‖² for a softmax, whose c₁ is ½. No dimension in it either.
    #[must_use]
    pub fn second_order(inputs: &super::TheoremInputs, step: f64) -> Self {
        let curvature = inputs.facts.smoothness - inputs.facts.strong_convexity;
        let trace = if inputs.outputs == 1 { curvature } else { 2.0 * curvature };
        Self::gradient_descent(inputs, step, |deviation| 0.5 * trace * deviation * deviation)
    }

    /// The bounds above by name, the least at the end first.
    #[must_use]
    pub fn theorem_4(inputs: &super::TheoremInputs, step: f64) -> Vec<(&'static str, Self)> {
        let glm = Self::theorem_4_1(inputs, step).map(|bound| ("Theorem 4.1", bound));
        let mut all: Vec<_> = glm.into_iter().collect();
        all.push(("Theorem 4.2", Self::theorem_4_2(inputs, step)));
        all.push(("Theorem 4.1 with the noise to second order", Self::second_order(inputs, step)));
        let floor = |e: &Self| e.curve(0.0, inputs.facts.rounds).last().copied().unwrap_or(0.0);
        all.sort_by(|a, b| floor(&a.1).total_cmp(&floor(&b.1)));
        all
    }

    /// `moved` says how far noise of a standard deviation moves the data term at most, in
    /// expectation.
    fn gradient_descent(
        inputs: &super::TheoremInputs,
        step: f64,
        moved: impl Fn(f64) -> f64,
    ) -> Self {
        let facts = &inputs.facts;
        let (n, d, m) = (facts.agents as f64, facts.dim as f64, facts.strong_convexity);
        let one = |s: &f64| moved(s / n.sqrt()) + 0.5 * m * d * s * s / n;
        Self { factor: 1.0 - step * m, added: inputs.noise.iter().map(one).collect() }
    }

    /// Coordinate descent in uniform order, on a complete graph or alone: x̄⁺\[l\] = x̄\[l\] −
    /// η∇F(x̄)\[l\] + N(0, σ²/N), η ≤ 1/M̂.
    ///
    /// The step gives E F ≤ F − (η/2d)‖∇F‖² and so (1 − ηm/d)(F − F*); the noise adds the smaller
    /// of the paper's (C₁/d)·E|Δ̄| (see [`Self::coordinate`]; C₁ = L·R₁ bounds Σ_l sup_x |∇_l| for
    /// generalised linear losses only) and ½M̂·E Δ̄², beside the regulariser's (μ/2)σ²/N.
    #[must_use]
    pub fn coordinate_descent(inputs: &super::TheoremInputs, step: f64) -> Self {
        let facts = &inputs.facts;
        let (n, d, m) = (facts.agents as f64, facts.dim as f64, facts.strong_convexity);
        let first =
            if inputs.outputs == 1 { inputs.gradient.l1 / d * MEAN_SIZE } else { f64::INFINITY };
        let curvature = facts.coordinate_smoothness - m;
        let one = |s: &f64| {
            let variance = s * s / n;
            (first * variance.sqrt()).min(0.5 * curvature * variance) + 0.5 * m * variance
        };
        Self { factor: 1.0 - step * m / d, added: inputs.noise.iter().map(one).collect() }
    }

    /// Random coordinate descent: one uniform coordinate a round, step 1/M̂, N(0, σ²) on it; ‖∇f‖₁
    /// ≤ C_1 and f M̂-smooth along coordinates.
    ///
    /// E f(x⁺) − f* ≤ (1 − m/(dM̂))(f(x) − f*) + (C_1/d)·σ, with E|N(0, σ²)| = σ√(2/π) for the
    /// paper's σ. C_1 must bound Σ_l sup_x |∇_l f(x)|: the points at which the noise of each
    /// coordinate is felt differ, so a bound on ‖∇f(x)‖₁ at one x is not enough.
    #[must_use]
    pub fn coordinate(
        dim: usize,
        strong_convexity: f64,
        coordinate_smoothness: f64,
        l1: f64,
        noise: &[f64],
    ) -> Self {
        let d = dim as f64;
        Self {
            factor: 1.0 - strong_convexity / (d * coordinate_smoothness),
            added: noise.iter().map(|s| l1 / d * s * MEAN_SIZE).collect(),
        }
    }

    /// The bound after each of `rounds` rounds, the start first.
    #[must_use]
    pub fn curve(&self, start: f64, rounds: u32) -> Vec<f64> {
        let mut values = vec![start];
        for k in 0..rounds as usize {
            let added = self.added.get(k).copied().unwrap_or(0.0);
            values.push(self.factor * values[k] + added);
        }
        values
    }
}
