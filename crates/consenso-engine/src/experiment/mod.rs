//! Experiments: from an unchecked file to a record.
//!
//! ```text
//! ExperimentSpec (what the file says) ─► check ─► Experiment (sound, all open choices made) ─► run ─► Record
//! ```

mod audit;
mod check;
mod cost;
mod division;
mod error;
mod graphs;
mod inference;
mod large;
mod models;
mod notes;
mod objective;
mod own_records;
mod personal;
mod pieces;
mod plan;
mod planned;
mod pool;
mod problem;
mod questions;
mod range;
mod reference;
pub mod rules;
mod run;
mod scouted;
mod shared;
mod site;
mod spec;
mod sweep;
mod trust;
mod unfinished;
mod view_attack;
#[cfg(test)]
mod weighted;

pub use crate::account::{Accounting, CalibratedSpec, NoiseKind, NoiseSpec, NormName, PrivacySpec};
pub use crate::problem::LossKind;
pub use audit::{AlgorithmAudit, AuditTarget};
pub use check::{Experiment, Inputs, Source};
pub use cost::CommandCost;
pub use error::{CallerError, RunError};
pub use inference::{Covariance, InferenceSpec};
pub use large::{
    AfterRound, LargeAlgorithm, LargeOutcome, LargePoint, LargeProgress, LargeRecord, LargeRun,
    RankObserver, run_parted, run_streamed, run_watched,
};
pub use pieces::{Part, Piece, Place, RecordsDigest, Share};
pub use plan::{AlgorithmPlan, Constants, Recommendation};
pub use pool::{Machine, Outlook, TaskCost, makespan};
pub use problem::{AgentSpec, Numbers, ProblemSpec};
pub use questions::{Asking, Questionnaire};
pub use run::{Finished, Job, Observer, Silent, Trained, put_together, run, run_pieces};
pub use shared::{ExchangeKind, SharingSpec};
pub use site::{MaskedSite, SharingSite, Site, SitePlan};
pub use spec::{
    AlgorithmSpec, Balanced, ClassWeight, DataOrigin, DataSpec, ExperimentSpec, FormatSpec, Models,
    Notation, ObjectiveSpec, PartitionSpec, QuestionsSpec, SpecError, SweepSpec, Threshold,
    ThresholdRule,
};
pub use trust::{ErrorAt, Exposed, ExposedRecord, ExposureReport};
pub use unfinished::Unfinished;
pub use view_attack::{MapAttack, NearestPair};
