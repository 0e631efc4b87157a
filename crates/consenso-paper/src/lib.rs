//! The paper's figures again: which experiments they need, what is drawn from them, and whether the
//! paper's claims hold.
//!
//! ```text
//! Part ─► experiments ─► Records ─► Reproduction ─► figures, tables, findings ─► page
//! ```
//!
//! Every number is computed from the records of this run. What the paper says stands beside it, and
//! a verdict follows from a rule that is printed with it.

mod figures;
mod findings;
mod gamma;
mod page;
mod reference;
mod tables;

pub use figures::PaperFigure;
pub use findings::{Finding, Verdict};
pub use gamma::{GammaPoint, gamma_grid};
pub use page::paper_html;
pub use reference::{Quantity, ReferenceCheck};
pub use tables::{Cell, Column, CsvTable};

use consenso_engine::record::{AlgorithmRecord, Record};
use serde::{Deserialize, Serialize};

/// A figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// Figure 1: the amplification γ over interval width and noise.
    #[serde(rename = "1")]
    One,
    /// Figure 2 (a, b): Algorithm 1 beside private ADMM of others, ten agents.
    #[serde(rename = "2")]
    Two,
    /// Figure (B): the same with a hundred agents.
    B,
    /// Figure (C): Algorithm 2* beside PDOP and Algorithm 1.
    C,
    /// Figure (D-1, D-2): random weights beside fixed ones, without noise.
    D,
}

/// The paper's own useful counter-example is missing: this one is ours (docs/paper.md section 7).
pub const USEFUL: &str = "adult";
/// The experiment behind the first erratum: the printed sign of the dual step.
pub const DUAL_SIGN: &str = "paper-dual-sign";

impl Part {
    /// All figures, in the paper's order.
    pub const ALL: [Self; 5] = [Self::One, Self::Two, Self::B, Self::C, Self::D];

    /// The figure a user names: `1`, `2`, `B`, `C` or `D`, in either case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|part| part.name().eq_ignore_ascii_case(name))
    }

    /// Its name in the paper.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::Two => "2",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
        }
    }

    /// The built-in experiments it is drawn from.
    #[must_use]
    pub fn experiments(self) -> &'static [&'static str] {
        match self {
            Self::One => &[],
            Self::Two => &["paper-2a", DUAL_SIGN],
            Self::B => &["paper-b"],
            Self::C => &["paper-c"],
            Self::D => &["paper-d1", "paper-d1-gd", "paper-d2", "paper-d2-gd"],
        }
    }
}

/// The built-in experiments that some figures need, each once; all figures together also get the
/// setting people should use.
#[must_use]
pub fn experiments(parts: &[Part]) -> Vec<&'static str> {
    let mut names: Vec<&str> =
        parts.iter().flat_map(|part| part.experiments().iter().copied()).collect();
    if Part::ALL.iter().all(|part| parts.contains(part)) {
        names.push(USEFUL);
    }
    names
}

/// What was run to reproduce some figures of the paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reproduction {
    /// The version of the software.
    pub version: String,
    /// The figures asked for.
    pub parts: Vec<Part>,
    /// Theorem 2.3 over a grid, if Figure 1 was asked for.
    pub gamma: Vec<GammaPoint>,
    /// One record an experiment.
    pub records: Vec<Record>,
}

impl Reproduction {
    /// From the records of [`experiments`]; the grid of Figure 1 is computed here.
    #[must_use]
    pub fn new(parts: &[Part], records: Vec<Record>) -> Self {
        let gamma = if parts.contains(&Part::One) { gamma_grid() } else { Vec::new() };
        Self { version: env!("CARGO_PKG_VERSION").into(), parts: parts.to_vec(), gamma, records }
    }

    /// The record of an experiment, if it was run.
    #[must_use]
    pub fn record(&self, name: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.name == name)
    }

    /// Whether the user stopped it before everything was done.
    #[must_use]
    pub fn interrupted(&self) -> bool {
        self.records.iter().any(|record| record.interrupted)
    }
}

/// Whether an algorithm of the paper itself draws random weights here.
fn randomises(algorithm: &AlgorithmRecord) -> bool {
    ["admm", "gd", "gd-star"].contains(&algorithm.kind.as_str())
        && algorithm.parameters["aggregation"].as_str() != Some("fixed")
}

/// The first algorithm of a kind that added noise, or the first of its kind.
fn algorithm<'a>(record: &'a Record, kind: &str) -> Option<&'a AlgorithmRecord> {
    let of_kind = || record.algorithms.iter().filter(|a| a.kind == kind);
    of_kind().find(|a| a.epsilon.is_some()).or_else(|| of_kind().next())
}

/// What an algorithm cost as the paper counts: the realised mean where weights are random, else its
/// authors' account.
fn paper_cost(algorithm: &AlgorithmRecord) -> Option<f64> {
    if randomises(algorithm) {
        return algorithm.epsilon.as_ref()?.realised_mean;
    }
    algorithm.published.as_ref().map(|published| published.epsilon.mean)
}
