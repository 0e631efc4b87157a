//! What is known of a choice of parameters before it runs: certified by a theorem, predicted stable
//! by a working rule, or unstable.
//!
//! Certificates are worst cases over all records within the public bounds, so they look at nothing
//! private. They are also far from what happens: a certified rate is a promise, not a forecast.

pub mod admm;
pub mod descent;

use crate::facts::{Parameters, PublicFacts};
use crate::problem::{Constraint, Sensitivity};
use serde::Serialize;

/// Everything public that a theorem may ask for.
#[derive(Clone, Debug)]
pub struct TheoremInputs {
    /// N, d, m, M, the graph's λ_max and its degrees, rounds.
    pub facts: PublicFacts,
    /// λ_2 of the graph's Laplacian, or a lower bound: σ_min² of the edge-incidence matrix A.
    pub connectivity: f64,
    /// Bounds on ‖∇‖ of the data term of any f_i: L·R_q.
    pub gradient: Sensitivity,
    /// Products zᵀx that a record's loss is a function of: 1 for a generalised linear loss.
    pub outputs: usize,
    /// The set C.
    pub constraint: Constraint,
    /// Standard deviation of a coordinate's noise by round; empty without noise.
    pub noise: Vec<f64>,
}

/// How sure a choice of parameters is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// A theorem covers it, for every data set within the bounds.
    Certified,
    /// No theorem covers it; a working rule, derived from the mean dynamics and tested, predicts
    /// that it converges.
    PredictedStable,
    /// Neither a theorem nor a rule covers it.
    Open,
    /// A working rule predicts that it diverges.
    Unstable,
}

impl std::fmt::Display for Certainty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Certified => "certified",
            Self::PredictedStable => "predicted stable",
            Self::Open => "open",
            Self::Unstable => "unstable",
        })
    }
}

/// What is known of one algorithm with its parameters.
#[derive(Clone, Debug, Serialize)]
pub struct Assessment {
    /// The verdict.
    pub standing: Certainty,
    /// The theorem or rule that gives it.
    pub rule: String,
    /// The inequality that decides, with its numbers.
    pub inequality: String,
    /// Why no theorem certifies it: the inequality that fails. `None` if one does.
    pub not_certified: Option<String>,
    /// The nearest parameters a theorem certifies, as they would stand in an experiment file.
    pub nearest_certified: Option<Parameters>,
    /// The certified factor a round, of what the theorem is about.
    pub rate: Option<f64>,
    /// What the theorem promises, in words.
    pub promise: Option<String>,
    /// The promise as a curve, once the distance at the start is known.
    #[serde(skip)]
    pub bound: Option<CertifiedBound>,
}

/// A certified bound over the rounds.
#[derive(Clone, Debug, PartialEq)]
pub enum CertifiedBound {
    /// Of E‖u^k − u*‖²_G (Theorems 3.1 to 3.3).
    Distance(admm::Envelope),
    /// Of E F(x̄^k) − F(x*), F the mean of the f_i (Theorem 4.1).
    Value(descent::Envelope),
}

impl Assessment {
    /// Nothing is known.
    #[must_use]
    pub fn open(why: impl Into<String>) -> Self {
        Self::new(Certainty::Open, "no rule", why)
    }

    /// A verdict and what gives it.
    #[must_use]
    pub fn new(
        standing: Certainty,
        rule: impl Into<String>,
        inequality: impl Into<String>,
    ) -> Self {
        Self {
            standing,
            rule: rule.into(),
            inequality: inequality.into(),
            not_certified: None,
            nearest_certified: None,
            rate: None,
            promise: None,
            bound: None,
        }
    }
}

/// A number for a sentence: four significant digits.
pub(crate) fn short(x: f64) -> String {
    if x != 0.0 && !(1e-3..1e5).contains(&x.abs()) {
        format!("{x:.3e}")
    } else {
        format!("{:.4}", x)
    }
}
