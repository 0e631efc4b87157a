//! Why a checked experiment cannot be run to its end.

use crate::agent::RestoreError;
use crate::config_error::ConfigError;
use crate::problem::coupling::CouplingError;
use crate::sharing::ShareError;
use crate::simulate::{RankError, SimulationError};

/// What a caller's own code says when it fails: an [`Observer`](super::Observer), or what saves a
/// checkpoint.
pub type CallerError = Box<dyn std::error::Error + Send + Sync>;

/// Why a checked experiment was not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The experiment cannot be run in this way.
    #[error(transparent)]
    Refused(#[from] ConfigError),
    /// The machine is too small for one run.
    #[error("one run needs about {} of memory, and {} are free: use fewer agents, records or dimensions", gigabytes(*.needed), gigabytes(*.free))]
    Memory {
        /// Bytes that one run takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// Agents or processes of a simulation lost each other.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// What an earlier run saved is not of this experiment.
    #[error("{label}: {cause}")]
    Resume {
        /// The algorithm's name.
        label: String,
        /// What does not fit.
        cause: RestoreError,
    },
    /// A sum that agents make together failed.
    #[error("{label}: {cause}")]
    Sum {
        /// The algorithm's name.
        label: String,
        /// Why.
        cause: ShareError,
    },
    /// There is no optimum to compare with: no point keeps a linear constraint.
    #[error(transparent)]
    Optimum(#[from] CouplingError),
    /// The caller's own code failed, and so ended the run.
    #[error(transparent)]
    Caller(CallerError),
}

impl From<RankError> for RunError {
    fn from(error: RankError) -> Self {
        Self::Simulation(error.into())
    }
}

impl From<RestoreError> for RunError {
    fn from(error: RestoreError) -> Self {
        Self::Simulation(error.into())
    }
}

/// A size for people.
fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}
