//! A storage in memory, for tests: it outlives a node that is killed, not the process.

use super::{Commit, Line, Saved, See, Storage, StorageError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// What is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    pub(crate) lines: BTreeMap<i64, Line>,
    /// By slot: study, round and bytes.
    pub(crate) outbox: BTreeMap<i64, (i64, u32, Vec<u8>)>,
    pub(crate) checkpoints: BTreeMap<i64, Saved>,
    mark: Option<(Vec<u8>, Vec<u8>)>,
    logged: Option<(i64, u64)>,
}

/// A storage in memory. A clone is the same storage, opened once more.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    path: PathBuf,
    tables: Arc<Mutex<Tables>>,
}

impl Memory {
    /// An empty one, which messages name by this path.
    pub(crate) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), tables: Arc::default() }
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        *self.tables() = Tables::default();
    }

    /// Another storage with what is in this one now.
    pub(crate) fn copy(&self) -> Self {
        let tables = self.tables().clone();
        Self { path: self.path.clone(), tables: Arc::new(Mutex::new(tables)) }
    }

    /// What is in it now, to be read or changed behind the back of whoever has it open.
    pub(crate) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no panic while it was held")
    }
}

impl Storage for Memory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StorageError> {
        let mut tables = self.tables();
        if let Some(line) = commit.lines.iter().find(|line| tables.lines.contains_key(&line.number))
        {
            let (path, what) = (self.path.clone(), format!("there is a row {}", line.number));
            return Err(StorageError::Unreadable { path, what });
        }
        tables.lines.extend(commit.lines.iter().map(|line| (line.number, line.clone())));
        for sent in &commit.outbox {
            tables.outbox.insert(sent.slot, (sent.study, sent.round, sent.bytes.to_vec()));
        }
        if let Some(saved) = &commit.checkpoint {
            tables.checkpoints.insert(saved.study, saved.clone());
        }
        if let Some((body, hash)) = &commit.mark {
            tables.mark = Some((body.clone(), hash.to_vec()));
        }
        tables.logged = commit.logged.or(tables.logged);
        Ok(())
    }

    fn lines(&self, after: i64, see: See<'_>) -> Result<(), StorageError> {
        let lines: Vec<Line> =
            self.tables().lines.range(after + 1..).map(|line| line.1.clone()).collect();
        let _ = lines.into_iter().try_for_each(see);
        Ok(())
    }

    fn lines_back(&self, see: See<'_>) -> Result<(), StorageError> {
        let _ = self.tables().lines.values().rev().cloned().try_for_each(see);
        Ok(())
    }

    fn outbox(&self, study: i64) -> Result<Vec<(u32, Vec<u8>)>, StorageError> {
        let tables = self.tables();
        let mut sent: Vec<(u32, Vec<u8>)> = tables
            .outbox
            .values()
            .filter(|sent| sent.0 == study)
            .map(|s| (s.1, s.2.clone()))
            .collect();
        sent.sort_by_key(|sent| sent.0);
        Ok(sent)
    }

    fn checkpoint(&self, study: i64) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.tables().checkpoints.get(&study).map(|saved| saved.bytes.clone()))
    }

    fn heads(&self) -> Result<Vec<(i64, Vec<u8>)>, StorageError> {
        Ok(self
            .tables()
            .checkpoints
            .values()
            .map(|saved| (saved.study, saved.head.to_vec()))
            .collect())
    }

    fn mark(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.tables().mark.clone()
    }

    fn logged(&self) -> Option<(i64, u64)> {
        self.tables().logged
    }
}
