//! Theorems 3.1 to 3.3: the linear rate of ADMM with random penalties.
//!
//! For min Σ f_i(x_i) subject to Σ A_i x_i = c, with u = (x_1, …, x_N, λ) and ‖u‖²_G = Σ
//! D_i‖x_i‖² + ‖λ‖²/ζ, the theorems promise ‖u^{k+1} − u*‖²_G ≤ ‖u^k − u*‖²_G / (1 + p), whatever
//! penalties ρ_i are drawn from their ranges.
//!
//! This is the paper's proof with two corrections, both needed for the bound to hold:
//! - it bounds ‖λ − λ*‖ by ‖A_iᵀ(λ − λ*)‖/σ_min(A_i) for one agent at a time, which fails as soon
//!   as some A_i has not full row rank (every consensus problem with more than one edge). With σ =
//!   σ_min([A_1 … A_N]), the smallest non-zero singular value, ‖λ − λ*‖² ≤ Σ_i ‖A_iᵀ(λ − λ*)‖²/σ²
//!   holds because λ − λ* stays in the range of [A_1 … A_N]: 1/(N·σ²_{i,min}) becomes 1/σ²
//!   everywhere;
//! - its √M_i is the smoothness constant L_i, but Theorem 3.2 also uses M_i in the descent lemma,
//!   where L_i belongs.
//!
//! The midpoint ρ⁰ and α appear in the proof only, so the largest p over both is taken.

use super::short;
use serde::Serialize;

/// What the theorems need to know of one agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Block {
    /// m_i: strong convexity of f_i.
    pub(crate) strong_convexity: f64,
    /// L_i: smoothness of f_i.
    pub(crate) smoothness: f64,
    /// σ²_max(A_i).
    pub(crate) sigma_squared: f64,
    /// The range its penalties are drawn from.
    pub(crate) rho: (f64, f64),
    /// D_i.
    pub(crate) penalty: f64,
}

/// A whole problem with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Coupled {
    /// N.
    pub(crate) agents: usize,
    /// One an agent, or fewer that bound them all.
    pub(crate) blocks: Vec<Block>,
    /// σ²_min([A_1 … A_N]), its smallest non-zero singular value squared.
    pub(crate) sigma_min_squared: f64,
    /// ζ.
    pub(crate) dual_step: f64,
    /// Whether agents solve their local problems (Theorem 3.1) or take one gradient step (3.2).
    pub(crate) exact: bool,
    /// Whether noise is added (Theorem 3.3).
    pub(crate) noisy: bool,
}

/// A rate that is proved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Certificate {
    /// p.
    pub(crate) p: f64,
    /// The α of the proof.
    pub(crate) alpha: f64,
    /// The ρ⁰ of the proof.
    pub(crate) rho: f64,
}

/// The first condition of a theorem that a problem or a choice of parameters does not meet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Uncertified {
    /// The theorems are about problems without a constraint set.
    #[error("the theorems are about problems without a constraint set")]
    ConstraintSet,
    /// The theorems are about variables without limits.
    #[error("the theorems are about variables without limits")]
    Limits,
    /// The theorems are about equalities.
    #[error("the theorems are about equality constraints")]
    Inequality,
    /// Some f_i is not strongly convex.
    #[error("it needs strong convexity, m > 0")]
    NotStronglyConvex,
    /// With noise, agents may take gradient steps only.
    #[error("Theorem 3.3 is about the first-order update only")]
    ExactUpdate,
    /// D − ρ_max·σ² is negative.
    #[error("Γ is not positive: D = {} is below ρ_max·σ² = {}", short(*.penalty), short(*.needed))]
    Gamma {
        /// D.
        penalty: f64,
        /// What it must reach.
        needed: f64,
    },
    /// D is too small for a gradient step.
    #[error("D = {} is not above M = {}", short(*.penalty), short(*.smoothness))]
    Smoothness {
        /// D.
        penalty: f64,
        /// M.
        smoothness: f64,
    },
    /// The step of the dual variables is too long.
    #[error("ζ = {} is not below 2ρ⁰ = {}", short(*.step), short(*.limit))]
    DualStep {
        /// ζ.
        step: f64,
        /// 2ρ⁰.
        limit: f64,
    },
    /// No α of the proof meets both of its conditions.
    #[error(
        "no α: ζ < 2ρ⁰ − N/α and D > Nσ²/α{} need α > {}, but α(Nρ² + ρ̆²)σ² < {} needs α < {}; a penalty as large as \
         ρ⁰ = {} would need m > {}",
        if *.exact { "" } else { " + M" },
        short(*.above),
        if *.exact { "2m" } else { "m" },
        short(*.below),
        short(*.rho),
        short(*.needed)
    )]
    NoAlpha {
        /// Whether agents solve their problems.
        exact: bool,
        /// α must be larger.
        above: f64,
        /// And smaller.
        below: f64,
        /// ρ⁰.
        rho: f64,
        /// The m that would do.
        needed: f64,
    },
}

/// Share of p that Theorem 3.3 gives away to the noise: its ε̂.
const GIVEN_AWAY: f64 = 0.5;

impl Coupled {
    /// The theorem's name.
    #[must_use]
    pub(crate) fn theorem(&self) -> &'static str {
        match (self.exact, self.noisy) {
            (_, true) => "Theorem 3.3",
            (true, false) => "Theorem 3.1",
            (false, false) => "Theorem 3.2",
        }
    }

    /// The largest p over α and ρ⁰.
    ///
    /// # Errors
    /// The inequality of (admissable-range) or (rho-fa-selection) that no α satisfies, with its
    /// numbers.
    pub(crate) fn certify(&self) -> Result<Certificate, Uncertified> {
        for b in &self.blocks {
            if b.strong_convexity <= 0.0 {
                return Err(Uncertified::NotStronglyConvex);
            }
            let (penalty, smoothness, needed) =
                (b.penalty, b.smoothness, b.rho.1 * b.sigma_squared);
            if penalty < needed * (1.0 - 1e-12) {
                return Err(Uncertified::Gamma { penalty, needed });
            }
            if !self.exact && penalty <= smoothness {
                return Err(Uncertified::Smoothness { penalty, smoothness });
            }
        }
        if self.exact && self.noisy {
            return Err(Uncertified::ExactUpdate);
        }
        let low =
            self.blocks.iter().map(|b| 0.5 * (b.rho.0 + b.rho.1)).fold(f64::INFINITY, f64::min);
        let high = self.blocks.iter().map(|b| b.rho.1).fold(0.0, f64::max);
        let steps = 32;
        let candidates = (0..=steps).map(|k| low + (high - low) * f64::from(k) / f64::from(steps));
        let found =
            candidates.filter_map(|rho| self.best_at(rho)).max_by(|a, b| a.p.total_cmp(&b.p));
        found.ok_or_else(|| self.why_not(low))
    }

    /// α must lie between these for the given ρ⁰: below by D_i and ζ, above by m_i.
    fn admissible(&self, rho: f64) -> (f64, f64) {
        let n = self.agents as f64;
        let mut low = if 2.0 * rho > self.dual_step {
            n / (2.0 * rho - self.dual_step)
        } else {
            f64::INFINITY
        };
        let mut high = f64::INFINITY;
        for b in &self.blocks {
            let room = if self.exact { b.penalty } else { b.penalty - b.smoothness };
            low = low.max(n * b.sigma_squared / room);
            let convexity = if self.exact { 2.0 } else { 1.0 } * b.strong_convexity;
            high = high.min(convexity / (b.sigma_squared * self.spread_squared(b, rho)));
        }
        (low, high)
    }

    /// N·ρ²_max + ρ̆².
    fn spread_squared(&self, b: &Block, rho: f64) -> f64 {
        let deviation = (b.rho.0 - rho).abs().max((b.rho.1 - rho).abs());
        self.agents as f64 * b.rho.1 * b.rho.1 + deviation * deviation
    }

    fn best_at(&self, rho: f64) -> Option<Certificate> {
        let (mut low, mut high) = self.admissible(rho);
        if low >= high || low.is_infinite() {
            return None;
        }
        // p is the smaller of a decreasing function of α and an increasing one: bisect for where
        // they meet.
        high = high.min(low * 1e9);
        for _ in 0..200 {
            let alpha = 0.5 * (low + high);
            let (falling, rising) = self.terms(rho, alpha);
            if rising < falling { low = alpha } else { high = alpha }
        }
        let alpha = 0.5 * (low + high);
        let (falling, rising) = self.terms(rho, alpha);
        // A little less than computed, for the rounding of the terms.
        let p = falling.min(rising) * (1.0 - 1e-9);
        (p > 0.0).then_some(Certificate { p, alpha, rho })
    }

    /// The three quotients of (delta-selection), the first apart because it falls with α.
    fn terms(&self, rho: f64, alpha: f64) -> (f64, f64) {
        let (n, zeta, sigma) = (self.agents as f64, self.dual_step, self.sigma_min_squared);
        let five = if self.noisy { 6.0 } else { 5.0 };
        let total = |f: &dyn Fn(&Block) -> f64| {
            if self.blocks.len() == self.agents {
                self.blocks.iter().map(f).sum::<f64>()
            } else {
                n * self.blocks.iter().map(f).fold(0.0, f64::max)
            }
        };
        let weighted = total(&|b| b.rho.1 * b.rho.1 * b.sigma_squared);
        let (mut falling, mut rising) = (f64::INFINITY, f64::INFINITY);
        for b in &self.blocks {
            let l2 = b.smoothness * b.smoothness;
            let (convexity, curvature, room, drift) = if self.exact {
                (2.0 * b.strong_convexity, l2, b.penalty, 0.0)
            } else {
                (b.strong_convexity, 2.0 * l2, b.penalty - b.smoothness, 2.0 * l2)
            };
            let first = convexity - alpha * b.sigma_squared * self.spread_squared(b, rho);
            falling = falling.min(first / (five * curvature / (zeta * sigma) + b.penalty));
            let second = room - n * b.sigma_squared / alpha;
            let below = b.penalty * b.penalty + drift + n * b.sigma_squared * weighted;
            rising = rising.min(second / (five * below / (zeta * sigma)));
        }
        let third = (2.0 * rho - n / alpha) / zeta - 1.0;
        let below = total(&|b| b.sigma_squared * (1.0 + b.rho.1 * b.rho.1 / (zeta * zeta)));
        (falling, rising.min(third / (five * below / sigma)))
    }

    fn why_not(&self, rho: f64) -> Uncertified {
        let (above, below) = self.admissible(rho);
        let n = self.agents as f64;
        if 2.0 * rho <= self.dual_step {
            return Uncertified::DualStep { step: self.dual_step, limit: 2.0 * rho };
        }
        let sigma = self.blocks.iter().map(|b| b.sigma_squared).fold(0.0, f64::max);
        let needed = n * n * rho * sigma / if self.exact { 4.0 } else { 2.0 };
        Uncertified::NoAlpha { exact: self.exact, above, below, rho, needed }
    }

    /// The certified bound over the rounds, for noise of these standard deviations on each of `dim`
    /// coordinates.
    #[must_use]
    pub(crate) fn envelope(
        &self,
        certificate: &Certificate,
        dim: usize,
        noise: &[f64],
    ) -> Envelope {
        let p = certificate.p;
        if !self.noisy {
            return Envelope { factor: 1.0 / (1.0 + p), added: Vec::new() };
        }
        let factor = 1.0 / (1.0 + (1.0 - GIVEN_AWAY) * p);
        let weight = |b: &Block| {
            let d = b.penalty;
            6.0 * p * d * d / (self.dual_step * self.sigma_min_squared) + d / (GIVEN_AWAY * p)
        };
        let worst = self.blocks.iter().map(weight).fold(0.0, f64::max);
        let energy = self.agents as f64 * dim as f64;
        Envelope { factor, added: noise.iter().map(|s| factor * worst * energy * s * s).collect() }
    }
}

/// E‖u^k − u*‖²_G ≤ factor·E‖u^{k−1} − u*‖²_G + added_k.
#[derive(Clone, Debug, PartialEq)]
pub struct Envelope {
    /// a = 1/(1+p), or 1/(1+(1−ε̂)p) with noise.
    pub factor: f64,
    /// What the noise of round k adds at most, in expectation; empty without noise.
    pub added: Vec<f64>,
}

impl Envelope {
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

/// The largest factor below 1, to a hundredth, by which penalties can be scaled to be certified;
/// `None` if no factor down to 10⁻¹² will do.
pub(crate) fn largest_factor(certified: impl Fn(f64) -> bool) -> Option<f64> {
    let (mut good, mut bad) = (1e-12, 1.0);
    if !certified(good) {
        return None;
    }
    while bad / good > 1.01 {
        let middle = f64::sqrt(good * bad);
        if certified(middle) { good = middle } else { bad = middle }
    }
    Some(good)
}

/// A little less, in two digits: for a file people can read.
pub(crate) fn two_digits(x: f64) -> f64 {
    format!("{:.1e}", 0.95 * x).parse().unwrap_or(x)
}

/// The working stability rule of docs/paper.md section 2: D > [(2ρ⁰+ζ)‖A‖² + 2M]/4 for a
/// first-order update, [(2ρ⁰+ζ)‖A‖² − 2m]/4 for an exact one.
///
/// `norm_squared` is ‖[A_1 … A_N]‖² and `rho` the mean penalty. Returns (D, what it must exceed).
#[must_use]
pub(crate) fn working_rule(
    penalty: f64,
    rho: f64,
    dual_step: f64,
    norm_squared: f64,
    curvature: (f64, f64),
    exact: bool,
) -> (f64, f64) {
    let (m, smoothness) = curvature;
    let pull = (2.0 * rho + dual_step) * norm_squared;
    (penalty, 0.25 * if exact { pull - 2.0 * m } else { pull + 2.0 * smoothness })
}
