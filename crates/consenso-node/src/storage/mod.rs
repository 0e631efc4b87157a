//! Where a site's durable state lies: rows, messages and checkpoints as bytes, and one commit that
//! keeps all of a round or nothing.
//!
//! A storage keeps what it is given and understands none of it. What rows mean, that each carries
//! the hash of the one before, which study the budget lets in and which message belongs to which
//! charge is [`Store`](crate::store::Store)'s, above it, and the same over every storage:
//! [`Sqlite`] in a site's folder, and one in memory for tests.

#[cfg(test)]
pub(crate) mod memory;
mod sqlite;

pub use sqlite::FILE;
pub(crate) use sqlite::{FORMAT, Sqlite};

use crate::frame::Digest;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// A row of the ledger, as kept: whether it is what was written is for the reader to find out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its number, from 1.
    pub(crate) number: i64,
    /// The study it belongs to.
    pub(crate) study: i64,
    /// What it says.
    pub(crate) body: String,
    /// Hash of it and all before.
    pub(crate) hash: Vec<u8>,
}

/// A message for the outbox.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    /// Where it is kept: in the place of the one that was there.
    pub(crate) slot: i64,
    /// Its study.
    pub(crate) study: i64,
    /// Its round.
    pub(crate) round: u32,
    /// What is sent.
    pub(crate) bytes: &'a [u8],
}

/// The state of a study after its last row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Saved {
    /// The study.
    pub(crate) study: i64,
    /// The hash of its last row.
    pub(crate) head: Digest,
    /// The state.
    pub(crate) bytes: Vec<u8>,
}

/// What is kept together, or not at all. Rows are added; everything else takes the place of what
/// was there.
#[derive(Debug, Default)]
pub(crate) struct Commit<'a> {
    /// Rows after the last one.
    pub(crate) lines: Vec<Line>,
    /// What a start must know of all rows so far, and its hash.
    pub(crate) mark: Option<(Vec<u8>, Digest)>,
    /// Messages that neighbours may still need.
    pub(crate) outbox: Vec<Outgoing<'a>>,
    /// The state after the rows.
    pub(crate) checkpoint: Option<Saved>,
    /// The row up to which the audit log is whole, and how long it was then.
    pub(crate) logged: Option<(i64, u64)>,
}

/// What a storage shows rows to, one at a time, until it breaks.
pub(crate) type RowVisitor<'a> = &'a mut dyn FnMut(Line) -> ControlFlow<()>;

/// A place for a site's durable state.
pub(crate) trait Storage: std::fmt::Debug + Send {
    /// What messages about it name.
    fn path(&self) -> &Path;

    /// Keeps all of it or nothing. When this returns, it is there after a crash, and only then may
    /// a message leave.
    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StorageError>;

    /// Shows the rows after one, in order.
    fn lines(&self, after: i64, see: RowVisitor<'_>) -> Result<(), StorageError>;

    /// Shows the rows from the last one backwards.
    fn lines_back(&self, see: RowVisitor<'_>) -> Result<(), StorageError>;

    /// Messages of a study, oldest first: (round, bytes).
    fn outbox(&self, study: i64) -> Result<Vec<(u32, Vec<u8>)>, StorageError>;

    /// The state of a study.
    fn checkpoint(&self, study: i64) -> Result<Option<Vec<u8>>, StorageError>;

    /// For every study that has a state, the hash that came with it.
    fn heads(&self) -> Result<Vec<(i64, Vec<u8>)>, StorageError>;

    /// The mark, and its hash.
    fn mark(&self) -> Option<(Vec<u8>, Vec<u8>)>;

    /// The row up to which the audit log is whole, and how long it was then.
    fn logged(&self) -> Option<(i64, u64)>;
}

/// Why a storage cannot be used.
#[derive(Debug)]
pub(crate) enum StorageError {
    /// SQLite says so.
    Database { path: PathBuf, cause: rusqlite::Error },
    /// The file cannot be opened or made.
    File { path: PathBuf, cause: std::io::Error },
    /// It was made by a consenso of another time.
    Format { path: PathBuf, found: i64 },
    /// What is there is no row.
    Unreadable { path: PathBuf, what: String },
}
