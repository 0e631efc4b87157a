//! Why the durable state cannot be used.

use crate::storage::{FORMAT, StorageError};
use std::path::PathBuf;

/// Why the durable state cannot be used. Nothing is sent after any of these.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says so: a full disk, a failed fsync, a file that is no database.
    #[error("{}: {cause}", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What it said.
        cause: rusqlite::Error,
    },
    /// The file cannot be opened or made.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// The file was made by a consenso of another time.
    #[error("{}: a ledger of format {found}, and this consenso reads format {FORMAT}\n  help: go on with the consenso that made it; what was spent stays in it", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
    },
    /// The content contradicts itself.
    #[error("{}: {what}: the ledger was edited or damaged\n  help: restore the folder from a backup; a new start would forget what was spent", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The budget does not allow the study.
    #[error(
        "the budget of this site is ε = {limit}, δ = {limit_delta:e} ({origin}), of which ε = {spent}, δ = {spent_delta:e} is spent or reserved; this study needs ε = {asked}, δ = {asked_delta:e} more\n  help: a budget is for the records, whatever the experiment file says; other records need another site folder"
    )]
    OverBudget {
        /// ε of the budget.
        limit: f64,
        /// δ of the budget.
        limit_delta: f64,
        /// ε of all studies so far.
        spent: f64,
        /// δ of all studies so far.
        spent_delta: f64,
        /// ε of the new study.
        asked: f64,
        /// δ of the new study.
        asked_delta: f64,
        /// Where the budget comes from, and since when.
        origin: String,
    },
    /// The records were used, or would be, without protection.
    #[error("{0}")]
    Unprotected(&'static str),
    /// The study's claim is of another kind than those of the ledger.
    #[error("{0}")]
    Mixed(String),
    /// The site has no budget of its own, and the study's is too large to be taken for one.
    #[error(
        "this study may cost ε = {epsilon}, δ = {delta:e} for {records} records, and site.toml has no budget: above ε = {} or with δ ≥ 1/records \
         nobody takes a study's word for it\n  help: if that is what these records may cost, write it down in site.toml: \
         budget = {{ epsilon = {epsilon}, delta = {delta:e} }}",
        consenso_ledger::policy::LARGEST_UNSAID_EPSILON
    )]
    NoBudget {
        /// ε of the study.
        epsilon: f64,
        /// δ of the study.
        delta: f64,
        /// Records of the site.
        records: usize,
    },
    /// The ledger is not the one that its witness has seen.
    #[error("{}: {what}", path.display())]
    Witness {
        /// The witness.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
        /// Whether the ledger is an old copy of the one that it has seen.
        behind: bool,
    },
}

impl From<StorageError> for StoreError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Database { path, cause } => Self::Database { path, cause },
            StorageError::File { path, cause } => Self::File { path, cause },
            StorageError::Format { path, found } => Self::Format { path, found },
            StorageError::Unreadable { path, what } => Self::Broken { path, what },
        }
    }
}
