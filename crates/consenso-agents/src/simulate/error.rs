//! Why a simulation cannot go on.

use crate::agent::{Refusal, RestoreError};

/// Why a message between the processes of one simulation was not sent or did not arrive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    /// A single process has nobody to send anything to.
    #[error("there is no other process")]
    Alone,
    /// A process ended before the others.
    #[error("rank {0} is gone")]
    Gone(usize),
    /// A process owed numbers and sent none.
    #[error("rank {0} sent nothing")]
    Nothing(usize),
    /// A process sent more numbers than were expected, or fewer.
    #[error("rank {0} sent another length")]
    Length(usize),
    /// New messages were posted before the last ones were collected.
    #[error("messages were posted twice without being collected")]
    PostedTwice,
    /// The MPI library refused, with this code.
    #[error("MPI gives error {0}")]
    Mpi(i32),
}

/// Why a simulation cannot go on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulationError {
    /// Processes lost each other.
    #[error(transparent)]
    Ranks(#[from] RankError),
    /// An agent cannot be put back where it was.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// The records of an agent, which lie outside memory, cannot be read.
    #[error("the rows of agent {agent} cannot be read from disk: {cause}")]
    Rows {
        /// Whose records.
        agent: usize,
        /// What kind of failure the operating system reports.
        cause: std::io::ErrorKind,
    },
    /// An agent refused a message: it was no honest agent's.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A cut of the virtual network never healed.
    #[error("agent {from} could not reach agent {to} in {attempts} attempts")]
    CutOff {
        /// Who sent.
        from: u32,
        /// Who was to receive.
        to: u32,
        /// How often it was tried.
        attempts: u32,
    },
}
