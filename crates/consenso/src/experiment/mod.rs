//! Experiments: from an unchecked file to a record.
//!
//! ```text
//! ExperimentSpec (what the file says) ─► check ─► Experiment (sound, all open choices made) ─► run ─► Record
//! ```

mod audit;
mod budget;
mod check;
mod plan;
mod run;
mod site;
mod spec;

pub use audit::{AlgorithmAudit, AuditTarget};
pub use check::{Experiment, Inputs, Source};
pub use plan::{AlgorithmPlan, Constants};
pub use run::{Observer, Silent, run};
pub use site::{Charge, Site, SitePlan};
pub use spec::{
    Accounting, AlgorithmSpec, DataSpec, ExperimentSpec, LossKind, NoiseSpec, ObjectiveSpec, Origin,
    PartitionSpec, PrivacySpec, SpecError,
};

/// Experiments that come with the software: name, one line about it, and the file.
pub const BUILT_IN: &[(&str, &str, &str)] = &[
    (
        "adult",
        "10 agents, 30,000 census records, logistic regression under (epsilon = 1, delta = 1e-6)",
        include_str!("../../experiments/adult.toml"),
    ),
    (
        "paper-2a",
        "the paper's Figure 2: 10 agents of 100 records, Laplace noise of rate 1.02^k",
        include_str!("../../experiments/paper-2a.toml"),
    ),
];

/// The text of a built-in experiment.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|e| e.0 == name).map(|e| e.2)
}
