//! A storage in memory, for tests: it outlives a node that is killed, not the process.

use super::{Commit, Line, RowVisitor, Saved, Storage, StorageError};
use std::collections::{BTreeMap, VecDeque};
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

/// What is wrong with a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskFaults {
    /// Nothing more is kept: every commit fails.
    pub(crate) full: bool,
    /// The next commit fails although it is kept, as a crash after the write would have it.
    pub(crate) unsure: bool,
    /// Commits that a crash takes back although they were said to be durable.
    pub(crate) lies: usize,
    /// The next commit is kept in part, and fails.
    pub(crate) torn: Option<Parts>,
}

/// Parts of what is kept, which a disk may treat differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) lines: bool,
    pub(crate) outbox: bool,
    pub(crate) checkpoint: bool,
}

impl Parts {
    pub(crate) const ALL: Self = Self { lines: true, outbox: true, checkpoint: true };
}

/// A storage in memory. A clone is the same storage, opened once more.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    path: PathBuf,
    tables: Arc<Mutex<Tables>>,
    faults: Arc<Mutex<DiskFaults>>,
    /// What was there before the last commits, oldest first, where the disk lies.
    before: Arc<Mutex<VecDeque<Tables>>>,
}

impl Memory {
    /// An empty one, which messages name by this path.
    pub(crate) fn new(path: &Path) -> Self {
        let (faults, before) = (Arc::default(), Arc::default());
        Self { path: path.to_owned(), tables: Arc::default(), faults, before }
    }

    /// What is wrong with the disk now.
    pub(crate) fn faults(&self) -> MutexGuard<'_, DiskFaults> {
        self.faults.lock().expect("no panic while it was held")
    }

    /// What a crash leaves: a disk that lies forgets its last commits. Whether it forgot any.
    pub(crate) fn crash(&self) -> bool {
        self.crash_in(Parts::ALL)
    }

    /// Has a disk that lies forget its last commits to these parts only. Whether it forgot any.
    pub(crate) fn crash_in(&self, parts: Parts) -> bool {
        let lies = std::mem::take(&mut self.faults().lies);
        let mut before = self.before.lock().expect("no panic while it was held");
        let kept = before.len().saturating_sub(lies);
        let forgets = before.len() > kept;
        if let Some(old) = before.drain(kept..).next() {
            let mut tables = self.tables();
            if parts.lines {
                (tables.lines, tables.mark, tables.logged) = (old.lines, old.mark, old.logged);
            }
            if parts.outbox {
                tables.outbox = old.outbox;
            }
            if parts.checkpoint {
                tables.checkpoints = old.checkpoints;
            }
        }
        before.clear();
        forgets
    }

    /// Turns one bit of what is kept. Whether there was anything.
    pub(crate) fn rot(&self, chance: u64) -> bool {
        let mut tables = self.tables();
        let pick = |length: usize| (chance as usize / 7) % length.max(1);
        let flip = |bytes: &mut [u8]| {
            let at = pick(bytes.len());
            bytes.get_mut(at).map(|byte| *byte ^= 1 << (chance % 8)).is_some()
        };
        match chance % 3 {
            0 if !tables.checkpoints.is_empty() => {
                tables.checkpoints.values_mut().next().is_some_and(|saved| flip(&mut saved.bytes))
            }
            1 if !tables.outbox.is_empty() => {
                tables.outbox.values_mut().next().is_some_and(|sent| flip(&mut sent.2))
            }
            _ => {
                let number = 1 + pick(tables.lines.len()) as i64;
                tables.lines.get_mut(&number).is_some_and(|line| flip(&mut line.hash))
            }
        }
    }

    /// Puts what belongs to one place into another one, as a disk does that writes or reads at the
    /// wrong address. Whether there were two.
    pub(crate) fn misdirect(&self, chance: u64) -> bool {
        let mut tables = self.tables();
        if chance.is_multiple_of(2) {
            let slots: Vec<i64> = tables.outbox.keys().copied().collect();
            let [one, .., other] = slots[..] else { return false };
            let (a, b) = (tables.outbox[&one].2.clone(), tables.outbox[&other].2.clone());
            tables.outbox.entry(one).and_modify(|sent| sent.2 = b);
            tables.outbox.entry(other).and_modify(|sent| sent.2 = a);
            return true;
        }
        let last = tables.lines.len() as i64;
        if last < 2 {
            return false;
        }
        let number = 2 + (chance / 2) as i64 % (last - 1);
        let before = tables.lines[&(number - 1)].clone();
        tables.lines.insert(number, Line { number, ..before });
        true
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        *self.tables() = Tables::default();
        *self.faults() = DiskFaults::default();
        self.before.lock().expect("no panic while it was held").clear();
    }

    /// Another storage with what is in this one now.
    pub(crate) fn copy(&self) -> Self {
        let tables = self.tables().clone();
        Self { tables: Arc::new(Mutex::new(tables)), ..Self::new(&self.path) }
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
        let DiskFaults { full, unsure, lies, torn } = *self.faults();
        let parts = torn.unwrap_or(Parts::ALL);
        let fail = || StorageError::File {
            path: self.path.clone(),
            cause: std::io::ErrorKind::StorageFull.into(),
        };
        if full {
            return Err(fail());
        }
        let mut tables = self.tables();
        if lies > 0 {
            let mut before = self.before.lock().expect("no panic while it was held");
            before.push_back(tables.clone());
            while before.len() > lies {
                before.pop_front();
            }
        }
        if let Some(line) = commit.lines.iter().find(|line| tables.lines.contains_key(&line.number))
        {
            let (path, what) = (self.path.clone(), format!("there is a row {}", line.number));
            return Err(StorageError::Unreadable { path, what });
        }
        let lines = commit.lines.iter().filter(|_| parts.lines);
        tables.lines.extend(lines.map(|line| (line.number, line.clone())));
        for sent in commit.outbox.iter().filter(|_| parts.outbox) {
            tables.outbox.insert(sent.slot, (sent.study, sent.round, sent.bytes.to_vec()));
        }
        if let Some(saved) = commit.checkpoint.as_ref().filter(|_| parts.checkpoint) {
            tables.checkpoints.insert(saved.study, saved.clone());
        }
        if let Some((body, hash)) = &commit.mark {
            tables.mark = Some((body.clone(), hash.to_vec()));
        }
        tables.logged = commit.logged.or(tables.logged);
        drop(tables);
        if unsure || torn.is_some() {
            let mut faults = self.faults();
            (faults.unsure, faults.torn) = (false, None);
            return Err(fail());
        }
        Ok(())
    }

    fn lines(&self, after: i64, see: RowVisitor<'_>) -> Result<(), StorageError> {
        let lines: Vec<Line> =
            self.tables().lines.range(after + 1..).map(|line| line.1.clone()).collect();
        let _ = lines.into_iter().try_for_each(see);
        Ok(())
    }

    fn lines_back(&self, see: RowVisitor<'_>) -> Result<(), StorageError> {
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
