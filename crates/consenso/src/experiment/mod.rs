//! Experiments: from an unchecked file to a record.
//!
//! ```text
//! ExperimentSpec (what the file says) ─► check ─► Experiment (sound, all open choices made) ─► run ─► Record
//! ```

mod audit;
mod budget;
mod check;
mod correlated;
mod cost;
mod models;
mod perturbed;
mod plan;
mod problem;
mod range;
mod reference;
mod run;
mod scouted;
mod shared;
mod site;
mod spec;
mod sweep;
mod trust;

pub use crate::problem::LossKind;
pub use audit::{AlgorithmAudit, AuditTarget};
pub use check::{Experiment, Inputs, Source};
pub use cost::CommandCost;
pub use plan::{AlgorithmPlan, Constants, Recommendation};
pub use problem::{AgentSpec, Numbers, ProblemSpec};
pub use run::{Finished, Observer, Silent, Trained, run};
pub use shared::SharingSpec;
pub use site::{Charge, SharingSite, Site, SitePlan};
pub use spec::{
    Accounting, AlgorithmSpec, Balanced, CalibratedSpec, ClassWeight, DataSpec, ExperimentSpec, Mechanism,
    NoiseSpec, NormName, Notation, ObjectiveSpec, Origin, PartitionSpec, PrivacySpec, SpecError, SweepSpec,
    Threshold, ThresholdRule,
};
pub use trust::{Exposed, ExposureReport, PairwiseMap};
