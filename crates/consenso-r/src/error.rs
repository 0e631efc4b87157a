//! Why a call has no answer.

use consenso_engine::experiment::{RunError, SpecError};
use consenso_engine::model::ModelError;
use consenso_engine::study::StudyError;
use consenso_study::files::FileError;
use consenso_study::frames::FrameError;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// R asks for a function that this library does not have: package and library differ.
    #[error(
        "the library has no function \"{0}\": the package and the library are of different versions"
    )]
    Unknown(String),
    /// Something that must be given is not.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Something given is not what it must be.
    #[error("{name} = {given} must be {must}")]
    Value {
        /// What it is called.
        name: &'static str,
        /// What was given.
        given: String,
        /// What it must be.
        must: &'static str,
    },
    /// Events, budgets or noise that cannot be accounted for.
    #[error("{0}")]
    Accounting(String),
    /// Text that is not TOML.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// A schema, records or an experiment are not as they should be.
    #[error(transparent)]
    File(#[from] FileError),
    /// Records or questions are not as they should be.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A model cannot be applied.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A study cannot be run, or failed.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// What was asked for does not fit together.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The limit of a ledger is in the way; nothing was run.
    #[error("{0}")]
    Spent(String),
    /// The operating system gave no entropy.
    #[error("the operating system gave no entropy: {0}")]
    Entropy(getrandom::Error),
    /// No thread could be started.
    #[error("no threads can be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// R's user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// A panic, which is an error of this library.
    #[error("consenso failed inside; please report it")]
    Panicked,
}

impl CallError {
    /// The class of the condition that R signals.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Interrupted | Self::Study(StudyError::Cancelled) => "interrupt",
            Self::Spent(_) => "consenso_spent",
            Self::Study(StudyError::Run(_) | StudyError::Entropy(_))
            | Self::Frame(FrameError::Run(_) | FrameError::Unanswered)
            | Self::Entropy(_)
            | Self::Threads(_)
            | Self::Panicked => "consenso_failure",
            _ => "consenso_input",
        }
    }

    /// The error with what caused it.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(inner) = cause {
            let words = inner.to_string();
            if !text.contains(&words) {
                text = format!("{text}: {words}");
            }
            cause = inner.source();
        }
        text
    }
}

impl From<RunError> for CallError {
    fn from(error: RunError) -> Self {
        Self::Frame(error.into())
    }
}
