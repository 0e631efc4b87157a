//! What several studies of the same records cost together, when each may be chosen by looking at
//! the results of those before.
//!
//! The limit (ε, δ) and the rule are fixed before the first study; a study is let in before it
//! begins, with the whole of its claim, or not at all. Then all studies together are (ε, δ)-DP,
//! whatever was chosen on the way:
//!
//! - [`Rule::Sum`]: Σ ε_i ≤ ε and Σ δ_i ≤ δ (Rogers, Roth, Ullman and Vadhan 2016).
//! - [`Rule::Zcdp`]: Σ ρ_i ≤ ρ, where ρ-zCDP converts to (ε, δ): every Rényi order stays within ρ·a
//!   on every path (Feldman and Zrnic 2021).
//! - [`Rule::Gaussian`]: Σ μ_i² ≤ μ², where μ-GDP is (ε, δ)-DP (Smith and Thakurta 2022). *Proof.*
//!   For one pair of neighbours a μ_i-GDP release can be made from one draw of N(0, 1) or N(μ_i, 1)
//!   by a rule that does not know which (Blackwell); and that draw is what a Brownian motion,
//!   without drift or with drift 1, does in a stretch of time μ_i². Releases chosen one after the
//!   other use up one such motion, stretch by stretch, each length chosen by looking at the path so
//!   far, and stop by time μ². All of them are a function of the path up to time μ², which tells
//!   N(0, μ²) from N(μ², μ²): μ-GDP.
//!
//! # Studies that are Gaussian but for a small distance
//!
//! A study whose noise several agents add (secret shares, masked sums, noise on edges) is not μ-GDP:
//! every term is rounded by itself, and a range has ends. On *every* data set its transcript is
//! within a total variation distance τ of that of a mechanism that is μ-GDP. [`StudyCost::tau`]
//! carries τ, of the order of 10⁻⁶⁰ and less.
//!
//! **Theorem.** Let every study, whatever was seen before it, be within τ_i of a μ_i-GDP one, and
//! let Σ μ_i² ≤ μ² and Σ τ_i ≤ τ on every path. Then all of them together are within τ of what is
//! μ-GDP, so (ε, δ_μ(ε) + (1 + e^ε)·τ)-DP; likewise for ρ-zCDP. *Proof.* On one data set run the
//! true studies and the Gaussian ones side by side, each next one of both chosen by the same rule
//! from what was seen. As long as they have said the same, the next pair can be drawn so that it
//! differs with a chance of at most τ_i (a maximal coupling). Along every path these chances add up
//! to at most τ, so the two transcripts differ with a chance of at most τ: that is their distance.
//! The Gaussian ones obey Σ μ_i² ≤ μ² on every path, so they are μ-GDP together. For an event E and
//! neighbours D, D': P_D(E) ≤ G_D(E) + τ ≤ e^ε·G_D'(E) + δ_μ(ε) + τ ≤ e^ε·(P_D'(E) + τ) + δ_μ(ε) +
//! τ. ∎ The distance is one of each data set by itself, so k records of one person change μ to kμ
//! and leave τ as it is.
//!
//! δ is divided once for all: [`RESERVED`] of it is for (1 + e^ε)·τ, the rest is the Gaussian
//! curve's; an ε for which the first does not suffice is infinite. A study without τ uses all of δ.
//!
//! A rule chosen *after* looking would not do: "as long as one of the rules allows it" needs δ
//! divided among the rules (see [`filter`](super::filter)).
//!
//! An ε-DP study is μ-GDP with tanh(ε/2) = 2Φ(μ/2) − 1: trade-off curves are convex, that of ε-DP
//! has one corner, on the diagonal, and there the two meet.

use super::error::{check_delta, check_epsilon};
use super::normal::gaussian_delta;
use super::round::{SLACK, printed_down, printed_up};
use super::{AccountingError, gdp, zcdp};
use serde::{Deserialize, Serialize};

/// The share of δ that is kept for what studies are apart from Gaussian or concentrated ones; the
/// rest is those'.
pub const RESERVED: f64 = 1.0 / (1 << 20) as f64;

/// ε at `delta` of what is within `tau` of a mechanism whose ε at a δ is `curve`.
fn epsilon_within(tau: f64, delta: f64, curve: impl Fn(f64) -> f64) -> f64 {
    if tau == 0.0 {
        return curve(delta);
    }
    let epsilon = curve(delta * (1.0 - RESERVED));
    let apart = (1.0 + libm::exp(epsilon)) * tau * (1.0 + 1e-9);
    // A distance that is no number is refused with those that are too large.
    if apart <= delta * RESERVED { epsilon } else { f64::INFINITY }
}

/// What one study, or one command, costs at most: statements that all hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyCost {
    /// It is (ε, δ)-DP.
    pub epsilon: f64,
    /// Its δ; 0 for a pure claim.
    pub delta: f64,
    /// It is μ-GDP, if that is known, but for `tau`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mu: Option<f64>,
    /// It is ρ-zCDP, if that is known, but for `tau`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rho: Option<f64>,
    /// The total variation distance, on every data set, from what is μ-GDP and ρ-zCDP: 0 but for
    /// noise that several agents add.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tau: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(x: &f64) -> bool {
    *x == 0.0
}

impl StudyCost {
    /// A study of which only (ε, δ) is known. A pure one is Gaussian and concentrated too, at a
    /// price.
    #[must_use]
    pub fn claimed(epsilon: f64, delta: f64) -> Self {
        let pure = delta == 0.0;
        Self {
            epsilon,
            delta,
            mu: pure.then(|| pure_mu(epsilon)).flatten(),
            rho: pure.then(|| zcdp::pure_rho(epsilon)),
            tau: 0.0,
        }
    }

    /// Gaussian releases of μ² = Σ μ_k² in all, claimed at (ε, δ).
    #[must_use]
    pub fn gaussian(epsilon: f64, delta: f64, mu: f64) -> Self {
        Self { epsilon, delta, mu: Some(mu), rho: Some((0.5 * mu * mu).next_up()), tau: 0.0 }
    }

    /// Says how far the study is from what it is claimed to be: a total variation distance of at
    /// most `tau` on every data set.
    #[must_use]
    pub fn within(self, tau: f64) -> Self {
        Self { tau, ..self }
    }

    /// Releases that are ρ-zCDP together, claimed at (ε, δ).
    #[must_use]
    pub fn concentrated(epsilon: f64, delta: f64, rho: f64) -> Self {
        Self { rho: Some(rho), ..Self::claimed(epsilon, delta) }
    }

    /// All of `parts` together, for parts whose costs were fixed before the first of them: the best
    /// statement at `delta` that one theorem gives.
    ///
    /// Adding up keeps the parts' own δ; where that gives the smallest ε, the sum's δ is Σ δ_i
    /// instead of `delta`.
    #[must_use]
    pub fn together(parts: &[Self], delta: f64) -> Self {
        if let [one] = parts {
            return *one;
        }
        let (epsilon, own) = (sum(parts, |c| Some(c.epsilon)), sum(parts, |c| Some(c.delta)));
        let mu = sum(parts, |c| c.mu.map(|m| (m * m).next_up())).map(|s| s.sqrt().next_up());
        let rho = sum(parts, |c| c.rho);
        let tau = distance(parts);
        let mut best = (epsilon.unwrap_or(f64::INFINITY), own.unwrap_or(1.0));
        if delta > 0.0 && delta < 1.0 {
            let at = |curve: &dyn Fn(f64) -> f64| epsilon_within(tau, delta, curve) * (1.0 + SLACK);
            let gaussian = mu.map(|mu| at(&|delta| gdp::epsilon_of_mu(mu, delta)));
            let concentrated = rho.map(|rho| at(&|delta| zcdp::epsilon_of_rho(rho, delta)));
            for found in [gaussian, concentrated].into_iter().flatten() {
                if found < best.0 {
                    best = (found, delta);
                }
            }
        }
        Self { epsilon: best.0, delta: best.1, mu, rho, tau }
    }
}

impl StudyCost {
    /// What the same study tells about `k` records of one person, all of them neighbours at once:
    /// the smallest ε at `delta` that one theorem gives.
    ///
    /// k·ε for a pure claim, kμ-GDP, k²ρ-zCDP; an (ε, δ) alone becomes (kε, δ(e^{kε} − 1)/(e^ε −
    /// 1)), whose δ is the answer's.
    #[must_use]
    pub fn for_group(&self, k: u32, delta: f64) -> EpsilonDelta {
        let n = f64::from(k);
        let Self { epsilon, delta: own, mu, rho, tau } = *self;
        let grown = if own == 0.0 {
            0.0
        } else {
            own * libm::expm1(n * epsilon) / libm::expm1(epsilon) * (1.0 + 1e-12)
        };
        let mut best = EpsilonDelta {
            epsilon: n * epsilon * (1.0 + 1e-12),
            delta: if k == 1 { own } else { grown },
        };
        if k == 1 {
            return EpsilonDelta { epsilon, ..best };
        }
        if delta > 0.0 && delta < 1.0 {
            let at = |curve: &dyn Fn(f64) -> f64| epsilon_within(tau, delta, curve) * (1.0 + SLACK);
            let gaussian =
                mu.map(|mu| at(&|delta| gdp::epsilon_of_mu(n * mu * (1.0 + 1e-15), delta)));
            let concentrated = rho
                .map(|rho| at(&|delta| zcdp::epsilon_of_rho(n * n * rho * (1.0 + 1e-15), delta)));
            for found in [gaussian, concentrated].into_iter().flatten() {
                // At the δ that was asked for, an ε is worth more than a smaller one at a δ grown
                // past it.
                if found < best.epsilon || best.delta > delta {
                    best = EpsilonDelta { epsilon: found, delta };
                }
            }
        }
        best
    }
}

/// Σ over the parts, rounded up; `None` as soon as one part does not say.
fn sum(parts: &[StudyCost], of: impl Fn(&StudyCost) -> Option<f64>) -> Option<f64> {
    parts.iter().try_fold(0.0, |total: f64, part| {
        let more = of(part)?;
        // Adding to zero is exact, and a single study may use the whole limit.
        Some(if total == 0.0 || more == 0.0 { total + more } else { (total + more).next_up() })
    })
}

/// Σ τ, rounded up.
fn distance(parts: &[StudyCost]) -> f64 {
    sum(parts, |c| Some(c.tau)).unwrap_or(f64::INFINITY)
}

/// limit − spent, so much rounded down that added to what was spent it is let in.
fn left_of(limit: f64, spent: f64) -> f64 {
    if spent == 0.0 { limit } else { (limit - spent - 4.0 * f64::EPSILON * limit).max(0.0) }
}

/// The smallest μ, rounded up, for which every ε-DP mechanism is μ-GDP; `None` where ε is so large
/// that it says nothing.
fn pure_mu(epsilon: f64) -> Option<f64> {
    if !(0.0..=25.0).contains(&epsilon) {
        return None;
    }
    let distance = libm::tanh(0.5 * epsilon) * (1.0 + 1e-13);
    let (mut low, mut high) = (0.0, 2.0 * epsilon + 20.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        // δ(0) of a Gaussian mechanism is its total variation distance; it is rounded up by less
        // than 1e-12, which is taken off again.
        if gaussian_delta(middle, 0.0) * (1.0 - 1e-11) >= distance {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

/// How the costs of studies are added up. Fixed with the limit, before the first study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Σ μ² (Gaussian differential privacy): for studies with Gaussian noise, and pure ones.
    Gaussian,
    /// Σ ρ (concentrated differential privacy): for Gaussian, Laplace and pure noise.
    Zcdp,
    /// Σ ε and Σ δ: for everything.
    Sum,
}

impl Rule {
    /// The best rule that covers all of these costs.
    #[must_use]
    pub fn covering<'a>(costs: impl IntoIterator<Item = &'a StudyCost>) -> Self {
        let (mut gaussian, mut concentrated) = (true, true);
        for cost in costs {
            // A pure study has a μ, but a poor one: ρ serves it better.
            gaussian &= cost.mu.is_some() && cost.delta > 0.0;
            concentrated &= cost.rho.is_some();
        }
        match (gaussian, concentrated) {
            (true, _) => Self::Gaussian,
            (false, true) => Self::Zcdp,
            _ => Self::Sum,
        }
    }

    /// What it adds up and why that may be done.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Gaussian => {
                "Σ μ² over studies with Gaussian noise (GDP filter, Smith and Thakurta 2022)"
            }
            Self::Zcdp => "Σ ρ over studies (zCDP filter, Feldman and Zrnic 2021)",
            Self::Sum => "Σ ε and Σ δ over studies (Rogers, Roth, Ullman and Vadhan 2016)",
        }
    }
}

/// A limit for all studies of the same records, and how they are added up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// How studies are added up.
    pub rule: Rule,
}

/// ε at δ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpsilonDelta {
    /// ε, rounded up for what was spent and down for what is left.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
}

/// Why a study is not let in.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StudyRefused {
    /// The rule cannot add it up.
    #[error(
        "these records' studies are added up as {}, and this study has no such cost: {why}", rule.meaning()
    )]
    OtherKind {
        /// The rule in force.
        rule: Rule,
        /// What is missing.
        why: &'static str,
    },
    /// It would cost more than is left.
    #[error(
        "with this study the records would have cost ε = {} at δ = {delta:e}, above the limit of ε = {limit}; \
         left for a next study: ε = {}",
        printed_up(*would, 4),
        printed_down(*left, 4)
    )]
    OverLimit {
        /// What all would cost with it.
        would: f64,
        /// At this δ.
        delta: f64,
        /// The limit.
        limit: f64,
        /// ε that is left.
        left: f64,
    },
}

impl Limit {
    /// A limit.
    ///
    /// # Errors
    /// ε not positive and finite, δ not between 0 and 1. δ = 0 is for [`Rule::Sum`] alone.
    pub fn new(epsilon: f64, delta: f64, rule: Rule) -> Result<Self, AccountingError> {
        check_epsilon(epsilon)?;
        if !(rule == Rule::Sum && delta == 0.0) {
            check_delta(delta)?;
        }
        Ok(Self { epsilon, delta, rule })
    }

    /// What these studies cost together under the rule: ε at the limit's δ, or the sums. `None`
    /// where the rule does not cover one of them.
    #[must_use]
    pub fn spent(&self, studies: &[StudyCost]) -> Option<EpsilonDelta> {
        if studies.is_empty() {
            return Some(EpsilonDelta { epsilon: 0.0, delta: 0.0 });
        }
        match self.rule {
            Rule::Sum => Some(EpsilonDelta {
                epsilon: sum(studies, |c| Some(c.epsilon))?,
                delta: sum(studies, |c| Some(c.delta))?,
            }),
            Rule::Gaussian => {
                let mu = sum(studies, |c| {
                    c.mu.map(|m| if studies.len() == 1 { m * m } else { (m * m).next_up() })
                })?;
                // One study's μ is its own, without the rounding of a square and a root.
                let mu = if let [one] = studies { one.mu? } else { mu.sqrt().next_up() };
                let curve = |delta| gdp::epsilon_of_mu(mu, delta);
                let epsilon = epsilon_within(distance(studies), self.delta, curve);
                Some(EpsilonDelta { epsilon, delta: self.delta })
            }
            Rule::Zcdp => {
                let rho = sum(studies, |c| c.rho)?;
                let curve = |delta| zcdp::epsilon_of_rho(rho, delta);
                let epsilon = epsilon_within(distance(studies), self.delta, curve);
                Some(EpsilonDelta { epsilon, delta: self.delta })
            }
        }
    }

    /// Whether `next` may follow `studies`; it must be asked before `next` begins.
    ///
    /// The first study is also let in on its own claim (ε, δ): nothing was released before, so that
    /// this is no choice made by looking; and unless the rule covers it too, no other study will
    /// follow.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, studies: &[StudyCost], next: &StudyCost) -> Result<(), StudyRefused> {
        let (missing, why) = match self.rule {
            Rule::Gaussian => (
                next.mu.is_none(),
                "its noise is not Gaussian, or its cost depends on what is released",
            ),
            Rule::Zcdp => (
                next.rho.is_none(),
                "its cost depends on what is released, or is known as (ε, δ) only",
            ),
            Rule::Sum => (false, ""),
        };
        if missing {
            return Err(StudyRefused::OtherKind { rule: self.rule, why });
        }
        let all: Vec<StudyCost> = studies.iter().copied().chain([*next]).collect();
        let would = self.spent(&all).unwrap_or(EpsilonDelta { epsilon: f64::INFINITY, delta: 1.0 });
        let within = |epsilon: f64, delta: f64| epsilon <= self.epsilon && delta <= self.delta;
        if within(would.epsilon, would.delta)
            || (studies.is_empty() && within(next.epsilon, next.delta))
        {
            return Ok(());
        }
        let left = self.remaining(studies).epsilon;
        Err(StudyRefused::OverLimit {
            would: would.epsilon,
            delta: would.delta,
            limit: self.epsilon,
            left,
        })
    }

    /// What one more study may cost: the largest ε at δ that would be let in, of the noise that the
    /// rule is for.
    #[must_use]
    pub fn remaining(&self, studies: &[StudyCost]) -> EpsilonDelta {
        let none = EpsilonDelta { epsilon: 0.0, delta: 0.0 };
        // What the curve has of δ beside studies that are apart from theirs.
        let share = if distance(studies) > 0.0 { 1.0 - RESERVED } else { 1.0 };
        let delta = self.delta * share;
        match self.rule {
            Rule::Sum => self.spent(studies).map_or(none, |spent| EpsilonDelta {
                epsilon: left_of(self.epsilon, spent.epsilon),
                delta: left_of(self.delta, spent.delta),
            }),
            Rule::Gaussian => {
                let used = sum(studies, |c| c.mu.map(|m| (m * m).next_up()));
                let (Some(used), Ok(most)) = (used, gdp::mu_for(self.epsilon, delta)) else {
                    return none;
                };
                if studies.is_empty() {
                    return EpsilonDelta { epsilon: self.epsilon, delta: self.delta };
                }
                let left = ((most * most - used).max(0.0)).sqrt() * (1.0 - 1e-9);
                EpsilonDelta {
                    epsilon: gdp::epsilon_of_mu(left, self.delta) * (1.0 - 1e-12),
                    delta: self.delta,
                }
            }
            Rule::Zcdp => {
                let Some(used) = sum(studies, |c| c.rho) else { return none };
                if studies.is_empty() {
                    return EpsilonDelta { epsilon: self.epsilon, delta: self.delta };
                }
                let most =
                    super::filter::SumFilter::zcdp(self.epsilon, delta).map_or(0.0, |f| f.limit());
                let left = (most - used).max(0.0) * (1.0 - 1e-9);
                let epsilon = if left > 0.0 {
                    zcdp::epsilon_of_rho(left, self.delta) * (1.0 - 1e-12)
                } else {
                    0.0
                };
                EpsilonDelta { epsilon, delta: self.delta }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(epsilon: f64, delta: f64) -> StudyCost {
        StudyCost::gaussian(epsilon, delta, gdp::mu_for(epsilon, delta).unwrap())
    }

    /// Noise that several agents add was booked as (ε, δ) and nothing else: ten such studies cost 10
    /// at δ = 10⁻⁵.
    #[test]
    fn ten_studies_that_are_nearly_gaussian_cost_what_their_curve_says_and_not_the_sum() {
        // As an account makes one: δ but for what is reserved is the curve's.
        let shared = |tau: f64| {
            let mu = gdp::mu_for(1.0, 1e-6 * (1.0 - RESERVED)).unwrap();
            StudyCost::gaussian(1.0, 1e-6, mu).within(tau)
        };
        let ten = [shared(1e-60); 10];
        let limit = Limit::new(4.0, 1e-5, Rule::Gaussian).unwrap();
        let spent = limit.spent(&ten).unwrap();
        // ε of √10·0.236 704 at 10⁻⁵, by another program.
        assert!((spent.epsilon - 3.139_760).abs() < 1e-4 && spent.delta == 1e-5, "{spent:?}");
        let exact = limit.spent(&[shared(0.0); 10]).unwrap().epsilon;
        assert!(spent.epsilon >= exact && spent.epsilon < exact + 1e-5, "{spent:?} {exact}");
        let together = StudyCost::together(&ten, 1e-5);
        assert!(together.epsilon <= 3.6 && together.tau >= 1e-59, "{together:?}");
        limit.admit(&ten[..9], &ten[9]).unwrap();
        Limit::new(1.0, 1e-6, Rule::Gaussian).unwrap().admit(&[], &ten[0]).unwrap();
        assert!(limit.remaining(&ten).epsilon > 0.5);
        // A distance that δ has no room for is no cost at all, nor is one that is no number.
        for tau in [1e-10, 1.0, f64::INFINITY, f64::NAN] {
            assert!(limit.spent(&[shared(tau); 2]).unwrap().epsilon.is_infinite(), "{tau}");
            assert!(limit.admit(&[shared(1e-60)], &shared(tau)).is_err(), "{tau}");
        }
    }

    /// The distance of a transcript on each data set: the worst pair that the theorem allows,
    /// computed event by event.
    #[test]
    fn a_study_within_a_distance_is_as_private_as_the_theorem_says() {
        // Two Gaussians on a grid, of which `tau` of the mass is moved where it tells most.
        let (mu, tau) = (0.8, 1e-4);
        let points: Vec<f64> = (-600..=600).map(|k| f64::from(k) * 0.02).collect();
        let mass = |at: f64| points.iter().map(move |x| libm::exp(-0.5 * (x - at) * (x - at)));
        let total: f64 = mass(0.0).sum();
        let (p, q): (Vec<f64>, Vec<f64>) =
            (mass(mu).map(|x| x / total).collect(), mass(0.0).map(|x| x / total).collect());
        for epsilon in [0.3, 1.0, 2.5] {
            let e = libm::exp(epsilon);
            let gap = |p: &[f64], q: &[f64]| {
                p.iter().zip(q).map(|(p, q)| (p - e * q).max(0.0)).sum::<f64>()
            };
            // An event that only one of the two has: tau of each one's mass.
            let (mut worse, mut better) = (p.clone(), q.clone());
            worse.iter_mut().for_each(|x| *x *= 1.0 - tau);
            better.iter_mut().for_each(|x| *x *= 1.0 - tau);
            worse.push(tau);
            better.push(0.0);
            let found = gap(&worse, &better);
            let bound = gaussian_delta(mu, epsilon) + (1.0 + e) * tau;
            assert!(found <= bound + 1e-9 && found > gap(&p, &q), "{epsilon}: {found} {bound}");
        }
    }

    /// A ledger of an earlier version has no distance, and what it booked stays as it was.
    #[test]
    fn what_was_booked_without_a_distance_stays_as_booked() {
        let old: StudyCost =
            serde_json::from_str(r#"{"epsilon":1.0,"delta":1e-6,"mu":0.2,"rho":0.02}"#).unwrap();
        assert_eq!(old.tau, 0.0);
        assert!(!serde_json::to_string(&old).unwrap().contains("tau"));
        let shared: StudyCost = serde_json::from_str(r#"{"epsilon":1.0,"delta":1e-6}"#).unwrap();
        assert_eq!((shared.mu, shared.rho, shared.tau), (None, None, 0.0));
        let new = old.within(1e-60);
        let back: StudyCost = serde_json::from_str(&serde_json::to_string(&new).unwrap()).unwrap();
        assert_eq!(back, new);
    }

    /// The figures an outside review computed by other means.
    #[test]
    fn ten_gaussian_studies_cost_what_their_curve_says_and_not_the_sum() {
        let ten = [study(0.5, 1e-6); 10];
        let limit = Limit::new(2.0, 1e-5, Rule::Gaussian).unwrap();
        let spent = limit.spent(&ten).unwrap().epsilon;
        assert!((spent - 1.522_525_607).abs() < 1e-6, "{spent}");
        let sums = Limit { rule: Rule::Sum, ..limit }.spent(&ten).unwrap();
        assert!((sums.epsilon - 5.0).abs() < 1e-12 && (sums.delta - 1e-5).abs() < 1e-18);
        let hundred = [study(0.1, 1e-6); 100];
        let limit = Limit::new(1.0, 1e-4, Rule::Gaussian).unwrap();
        let spent = limit.spent(&hundred).unwrap().epsilon;
        assert!((spent - 0.862_730_335).abs() < 1e-6, "{spent}");
    }

    #[test]
    fn what_remains_is_let_in_and_a_little_more_is_not() {
        for rule in [Rule::Gaussian, Rule::Zcdp, Rule::Sum] {
            let limit = Limit::new(1.5, 1e-5, rule).unwrap();
            let mut studies = vec![study(0.5, 1e-6)];
            for _ in 0..2 {
                let left = limit.remaining(&studies);
                let at = |epsilon: f64| match rule {
                    Rule::Zcdp => {
                        let rho =
                            crate::filter::SumFilter::zcdp(epsilon, left.delta).unwrap().limit();
                        StudyCost::concentrated(epsilon, left.delta, rho)
                    }
                    _ => study(epsilon, left.delta),
                };
                limit.admit(&studies, &at(left.epsilon * (1.0 - 1e-6))).unwrap();
                let refused = limit.admit(&studies, &at(left.epsilon * 1.01)).unwrap_err();
                assert!(matches!(refused, StudyRefused::OverLimit { .. }), "{rule:?}: {refused}");
                studies.push(study(0.3, 1e-7));
            }
        }
    }

    #[test]
    fn one_study_may_use_all_of_the_limit() {
        for (epsilon, delta) in [(1.0, 1e-6), (0.3, 1e-9), (8.0, 1e-5)] {
            let limit = Limit::new(epsilon, delta, Rule::Gaussian).unwrap();
            limit.admit(&[], &study(epsilon, delta)).unwrap();
            assert!(limit.admit(&[study(epsilon, delta)], &study(0.01, delta)).is_err());
        }
        Limit::new(1.0, 0.0, Rule::Sum).unwrap().admit(&[], &StudyCost::claimed(1.0, 0.0)).unwrap();
    }

    /// Randomised response, the worst of all ε-DP mechanisms, against the Gaussian one: δ(e) at
    /// every e.
    #[test]
    fn a_pure_study_is_gaussian_at_the_price_stated() {
        for epsilon in [0.01, 0.5, 1.0, 4.0, 12.0] {
            let mu = pure_mu(epsilon).unwrap();
            let p = 1.0 / (1.0 + (-epsilon).exp());
            for k in 0..200 {
                let e = epsilon * f64::from(k) / 199.0;
                let truth = (p - e.exp() * (1.0 - p)).max(0.0);
                assert!(gaussian_delta(mu, e) >= truth * (1.0 - 1e-12), "{epsilon} {e}");
            }
            assert!(
                gaussian_delta(mu * 0.999, 0.0) < (epsilon / 2.0).tanh(),
                "no larger than it must be"
            );
        }
    }

    #[test]
    fn a_person_with_several_records_is_protected_as_far_as_group_privacy_goes() {
        let one = study(1.0, 1e-6);
        let (two, ten) = (one.for_group(2, 1e-6), one.for_group(10, 1e-6));
        // ε of 2μ and 10μ at the same δ, by another program.
        assert!((two.epsilon - 2.122_857_132).abs() < 1e-6 && two.delta == 1e-6, "{two:?}");
        assert!((ten.epsilon - 13.507_003_111).abs() < 1e-6, "{ten:?}");
        let pure = StudyCost::claimed(0.5, 0.0).for_group(5, 0.0);
        assert!((pure.epsilon - 2.5).abs() < 1e-9 && pure.delta == 0.0);
        let plain = StudyCost::claimed(0.5, 1e-6).for_group(2, 1e-6);
        assert!((plain.epsilon - 1.0).abs() < 1e-9);
        assert!((plain.delta - 1e-6 * (1.0 + 0.5f64.exp())).abs() < 1e-15);
        assert_eq!(one.for_group(1, 1e-6), EpsilonDelta { epsilon: 1.0, delta: 1e-6 });
    }

    #[test]
    fn a_study_the_rule_cannot_add_up_is_refused_with_the_reason() {
        let limit = Limit::new(1.0, 1e-6, Rule::Gaussian).unwrap();
        let refused = limit.admit(&[], &StudyCost::claimed(0.1, 1e-7)).unwrap_err().to_string();
        assert!(refused.contains("Σ μ²") && refused.contains("not Gaussian"), "{refused}");
        assert_eq!(Rule::covering(&[study(0.5, 1e-6)]), Rule::Gaussian);
        assert_eq!(Rule::covering(&[study(0.5, 1e-6), StudyCost::claimed(0.1, 0.0)]), Rule::Zcdp);
        assert_eq!(Rule::covering(&[study(0.5, 1e-6), StudyCost::claimed(0.1, 1e-7)]), Rule::Sum);
    }
}
