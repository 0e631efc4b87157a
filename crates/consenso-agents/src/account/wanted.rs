//! What a user asks of an account: a budget, or noise of their own.

use crate::privacy::calibrate::NoiseKind;
use crate::privacy::{Adversary, NeighbourRelation};
use crate::protocol::Schedule;
use serde::{Deserialize, Serialize};

/// `[privacy]`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivacySpec {
    /// The budget ε; without it the algorithms' own noise is kept and its cost reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// δ.
    pub delta: f64,
    /// Which data sets are neighbours.
    #[serde(default)]
    pub neighbours: NeighbourRelation,
    /// Which noise; by default whichever certifies less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<NoiseKind>,
    /// How releases are accounted for.
    #[serde(default)]
    pub accounting: Accounting,
    /// Who must be protected from; a run whose claim is weaker is refused. Without it every
    /// algorithm's claim names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversary: Option<Adversary>,
}

/// How a budget is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accounting {
    /// The whole schedule is composed in advance, as if every interval had width 0: the tightest
    /// composition applies.
    #[default]
    Schedule,
    /// Every release is charged for the width its interval really has, through a Rényi filter: the
    /// amplification of random weights counts.
    Filter,
}

/// How noise is calibrated, where a file does not leave it all open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibratedSpec {
    /// Which noise, instead of `privacy.mechanism`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<NoiseKind>,
    /// The one norm the sensitivity is taken to be known in; what the others could say is not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<NormName>,
}

/// Names of norms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormName {
    /// Σ |t_l|.
    L1,
    /// Euclidean.
    L2,
    /// max |t_l|: what the paper prices with, d times over.
    Linf,
}

/// Noise a user fixes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NoiseSpec {
    /// None at all: this algorithm is not private, whatever `[privacy]` says.
    None,
    /// Laplace by its rate β_k.
    LaplaceRate(Schedule),
    /// Laplace by its scale 1/β_k.
    LaplaceScale(Schedule),
    /// Gaussian by its standard deviation.
    Gaussian(Schedule),
    /// Density ∝ e^{−α_k‖n‖₂} by its rate α_k: noise inside a problem, as `pp` was published with.
    GammaRate(Schedule),
    /// Not fixed: calibrated to the budget, in this way.
    Calibrated(CalibratedSpec),
}

impl NoiseSpec {
    /// How it is calibrated, if it is.
    pub fn calibrated(&self) -> Option<CalibratedSpec> {
        if let Self::Calibrated(how) = self { Some(*how) } else { None }
    }
}
