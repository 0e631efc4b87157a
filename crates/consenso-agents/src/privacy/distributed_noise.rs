//! Distributed noise: every agent adds a part of the noise, and secret sharing reveals the sum
//! alone.
//!
//! N agents share q_j = ⌊x_j + ½⌋ with x_j = a_j + s·Z_j, in steps of the grid: a_j is agent j's
//! vector, Z_j standard normal. At most c of them collude: from the sum they subtract what they
//! shared themselves and are left with Q = Σ q_j over the m = N − c others. With s = σ/√m, S = Σ
//! x_j is the Gaussian mechanism with the noise of a trusted curator, N(0, σ²); one agent's record
//! moves S by as much as its own a_j. What Q reveals beyond S is rounding, one summand at a time.
//!
//! # What rounding each summand costs
//!
//! **Lemma.** Let W = S + U_1 + … + U_{m−1} with U_j uniform on (−½, ½] and independent of
//! everything. Then
//!
//! ```text
//! TV(Q, ⌊W + ½⌋)  ≤  ½·((1 + 2t/(1 − t³))^m − 1),   t = e^{−π²s²}
//! ```
//!
//! ⌊W + ½⌋ is a (random) function of S, so it costs what S costs; Q is that close to it.
//!
//! *Proof.* Let e_j = q_j − x_j ∈ (−½, ½]. Q is an integer and Q − (S + e_1 + … + e_{m−1}) = e_m,
//! so Q = ⌊S + e_1 + … + e_{m−1} + ½⌋: the same function that makes ⌊W + ½⌋ of S and the U_j. So
//! the distance is at most that of (e_1, …, e_{m−1}) given S from the uniform law. Given S, (x_1,
//! …, x_{m−1}) is Gaussian with covariance s²(I − 11ᵀ/m), whatever the a_j. Modulo 1 its density
//! has the Fourier coefficients (Poisson summation), in absolute value, exp(−2π²s²·‖n‖²_*) with
//! ‖n‖²_* = ‖n‖² − (Σ n_j)²/m, n ∈ ℤ^{m−1}. All but that of n = 0 are the difference from uniform,
//! so TV ≤ ½ Σ_{n≠0} exp(−2π²s²‖n‖²_*). Append n_m = 0. ‖n‖²_* is then the squared distance of n ∈
//! ℤ^m from the line of constant vectors, and does not change when a constant is subtracted;
//! subtract the median (of an even number of entries the lower middle one, which is an integer
//! too). Now at most m/2 entries are positive and at most m/2 negative, with sums P and −R, and by
//! Cauchy and Schwarz (Σ n_j)² ≤ max(P, R)² ≤ (m/2)·‖n‖². So ‖n‖²_* ≥ ‖n‖²/2, different n have
//! different representatives, and the sum is at most Σ_{n∈ℤ^m, n≠0} e^{−π²s²‖n‖²} = (1 + 2Σ_{k≥1}
//! t^{k²})^m − 1 with k² ≥ 3k − 2. ∎
//!
//! **Parts that differ.** Where agents add parts of s_j ≥ s each, the bound holds with the least s:
//! the covariance is then diag(s_j²) less its projection, and ‖n‖²_* becomes min_c Σ s_j²(n_j − c)² ≥
//! s²·min_c Σ (n_j − c)².
//!
//! For m = 2 the exponent is exact. Against the rounded Gaussian ⌊S + ½⌋ itself no such bound
//! holds: m rounded summands have variance m(s² + 1/12), a rounded sum ms² + 1/12, so their
//! distance falls as 1/s² only.
//!
//! # What a bounded range costs
//!
//! A share has a range. A vector is held within it by public means (see
//! [`Gate::share`](crate::gate::Gate::share)), so that only noise beyond [`TAIL`] deviations can
//! leave it. Such a summand is replaced by the end of the range, which moves the law of Q by at
//! most P(|Z| > `TAIL`) ≤ e^{−TAIL²/2} a summand and coordinate.
//!
//! # Together
//!
//! Over K rounds of d coordinates the transcript is within τ = K·d·(rounding + m·tail) of one that
//! satisfies (ε, δ₀), on either of two neighbouring data sets; what agents compute from a revealed
//! sum is a function of it. Hence (ε, δ₀ + (1 + e^ε)·τ).

use super::round::up;
use crate::graph::Graph;

/// Deviations of noise that a range has room for.
pub const TAIL: f64 = 32.0;

/// Least deviation of an agent's own noise, in steps of the grid: at 4, rounding costs less than
/// 10⁻⁶⁷ a coordinate.
pub(crate) const LEAST_STEPS: f64 = 4.0;

/// Noise that N agents add together, of which c may collude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DistributedNoise {
    agents: usize,
    colluders: usize,
    /// How many of those who do not collude are in every sum that can be read.
    hiding_set_size: usize,
    /// How many may drop out.
    drop_outs: usize,
}

impl DistributedNoise {
    /// `None` unless c ≤ N − 2: N − 1 colluders read the last agent's vector, which then needs all
    /// of the noise for itself.
    #[must_use]
    pub fn new(agents: usize, colluders: usize) -> Option<Self> {
        let hiding_set_size = agents.checked_sub(colluders)?;
        (hiding_set_size >= 2).then_some(Self { agents, colluders, hiding_set_size, drop_outs: 0 })
    }

    /// Masked sums on these graphs, of which `drop_outs` agents may drop out (see
    /// [`masked`](super::masked)); `None` unless c + t ≤ N − 2.
    #[must_use]
    pub fn masked<'a>(
        graphs: impl IntoIterator<Item = &'a Graph>,
        colluders: usize,
        drop_outs: usize,
    ) -> Option<Self> {
        let mut least: Option<Self> = None;
        for graph in graphs {
            let (agents, taken) = (graph.agents(), colluders.checked_add(drop_outs)?);
            if taken.checked_add(2)? > agents {
                return None;
            }
            let hiding_set_size = super::masked::smallest_hiding_set(graph, taken).size;
            let hiding_set_size =
                least.map_or(hiding_set_size, |l| l.hiding_set_size.min(hiding_set_size));
            least = Some(Self { agents, colluders, hiding_set_size, drop_outs });
        }
        least
    }

    /// Half of the agents, or as many as may be.
    #[must_use]
    pub fn most(agents: usize) -> usize {
        (agents / 2).min(agents.saturating_sub(2))
    }

    /// N.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.agents
    }

    /// c.
    #[must_use]
    pub fn colluders(&self) -> usize {
        self.colluders
    }

    /// N − c.
    #[must_use]
    pub fn honest(&self) -> usize {
        self.agents - self.colluders
    }

    /// m: how many of those who do not collude have added their part to any sum that can be read.
    /// All N − c of them among secret shares.
    #[must_use]
    pub fn hiding_set_size(&self) -> usize {
        self.hiding_set_size
    }

    /// t: how many may drop out.
    #[must_use]
    pub fn drop_outs(&self) -> usize {
        self.drop_outs
    }

    /// s = σ/√m, rounded up so that m·s² ≥ σ².
    #[must_use]
    pub fn part(&self, sigma: f64) -> f64 {
        Self::part_of(sigma, self.hiding_set_size)
    }

    /// σ/√m for an agent that m hide at least, rounded up.
    #[must_use]
    pub fn part_of(sigma: f64, hiding_set_size: usize) -> f64 {
        up(sigma / (hiding_set_size as f64).sqrt())
    }

    /// τ: how far releases of `dim` numbers, one per round, are from functions of the Gaussian sums;
    /// `deviations` are the least of the agents' own s_k in steps of the grid. A sum over fewer than N − c has
    /// fewer terms to round.
    #[must_use]
    pub fn distance(&self, dim: usize, deviations: impl Iterator<Item = f64>) -> f64 {
        let tail = self.honest() as f64 * libm::exp(-0.5 * TAIL * TAIL);
        let distance: f64 = deviations.map(|s| rounding_distance(self.honest(), s) + tail).sum();
        up(dim as f64 * distance)
    }

    /// What δ pays beside the Gaussian mechanism for such a distance.
    #[must_use]
    pub fn extra_delta(epsilon: f64, distance: f64) -> f64 {
        up((1.0 + libm::exp(epsilon)) * distance)
    }
}

/// The lemma's bound on the distance of a sum of m rounded Gaussians from a function of the sum,
/// with deviation `s` in steps; rounded up.
#[must_use]
pub fn rounding_distance(m: usize, s: f64) -> f64 {
    let t = libm::exp(-std::f64::consts::PI * std::f64::consts::PI * s * s);
    up(0.5 * libm::expm1(m as f64 * libm::log1p(2.0 * t / (1.0 - t * t * t)))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_those_left_make_up_the_whole() {
        for (agents, colluders) in [(3, 1), (10, 5), (100, 98), (7, 0)] {
            let distributed_noise = DistributedNoise::new(agents, colluders).unwrap();
            let part = distributed_noise.part(0.7);
            let whole = (distributed_noise.honest() as f64 * part * part).sqrt();
            assert!((0.7..0.7 * (1.0 + 1e-11)).contains(&whole), "{whole}");
        }
        assert_eq!(DistributedNoise::new(10, 9), None);
        assert_eq!(DistributedNoise::new(1, 0), None);
        assert_eq!([3, 4, 10, 101].map(DistributedNoise::most), [1, 2, 5, 50]);
    }

    #[test]
    fn rounding_costs_nothing_worth_mentioning_from_four_steps_on() {
        assert!(rounding_distance(100, LEAST_STEPS) < 1e-65);
        assert!(rounding_distance(2, 0.01) <= 1.0);
        let hundred = DistributedNoise::new(100, 50).unwrap();
        let distance = hundred.distance(105, [LEAST_STEPS; 400].into_iter());
        let extra = DistributedNoise::extra_delta(10.0, distance);
        assert!(extra > 0.0 && extra < 1e-55, "{extra:e}");
    }
}
