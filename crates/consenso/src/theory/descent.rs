//! Theorems 3.4, 4.1, 4.2 and random coordinate descent: bounds on F(x) − F(x*) of gradient methods, F = (1/N) Σ f_i.
//!
//! The paper states sums over agents; here everything is divided by N.

/// Theorem 3.4: Algorithm 2 with η_k = 1/(c√k), convex f_i with ‖∇f_i‖ ≤ G, noise of standard deviation V·η_k in l2.
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

impl Envelope {
    /// Theorems 4.1 and 4.2: x_i⁺ = x̄ − η∇f_i(x̄) + N(0, σ²I) with η ≤ 1/M, F m-strongly convex.
    ///
    /// A step without noise gives F(ȳ) − F* ≤ (1 − ηm)(F(x̄) − F*). The noise of the mean is N(0, σ²/N), and moves the loss of a record by at
    /// most L·|zᵀΔ̄|, in expectation ‖L z‖₂·σ·√(2/(πN)) (4.1: no dimension), or by ‖L z‖₁·E‖Δ̄‖_∞ ≤ ‖L z‖₁·σ·√(2 ln(2d)/N) (4.2: its
    /// logarithm). The smaller is taken. The regulariser is no function of zᵀx and adds (μ/2)·d·σ²/N: the paper leaves it out.
    #[must_use]
    pub fn theorem_4(ground: &super::Ground, step: f64, regularization: f64) -> Self {
        let facts = &ground.facts;
        let (n, d) = (facts.agents as f64, facts.dim as f64);
        let reach = (ground.gradient.l2 * (2.0 / std::f64::consts::PI).sqrt())
            .min(ground.gradient.l1 * (2.0 * libm::log(2.0 * d)).sqrt());
        let one = |s: &f64| reach * s / n.sqrt() + 0.5 * regularization * d * s * s / n;
        Self { factor: 1.0 - step * facts.strong_convexity, added: ground.noise.iter().map(one).collect() }
    }

    /// Random coordinate descent: one uniform coordinate a round, step 1/M̂, N(0, σ²) on it; ‖∇f‖₁ ≤ C_1 and f M̂-smooth along coordinates.
    ///
    /// E f(x⁺) − f* ≤ (1 − m/(dM̂))(f(x) − f*) + (C_1/d)·σ, with E|N(0, σ²)| = σ√(2/π) for the paper's σ. C_1 must bound
    /// Σ_l sup_x |∇_l f(x)|: the points at which the noise of each coordinate is felt differ, so a bound on ‖∇f(x)‖₁ at one x is not enough.
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
            added: noise.iter().map(|s| l1 / d * s * (2.0 / std::f64::consts::PI).sqrt()).collect(),
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
