//! The ledger and its witness on another disk: an old copy does not start.

use super::{Entry, Store, StoreError};
use crate::clock;
use crate::witness::{Seen, Witness};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

impl Store {
    /// Has every release counted by a witness from now on, before it may be sent, and checks that
    /// the ledger is not older than its witness. `None`: the site has none, which is refused once
    /// it had one.
    ///
    /// # Errors
    /// [`StoreError::Witness`]: a ledger that is behind, another ledger's witness, or none where there was one.
    pub fn witnessed_by(&mut self, path: Option<&Path>) -> Result<(), StoreError> {
        let had = self.headings()?.iter().rev().find_map(|row| match &row.entry {
            Entry::Witness { path, .. } => Some(PathBuf::from(path)),
            _ => None,
        });
        let Some(path) = path else {
            return match had {
                None => Ok(()),
                Some(path) => Err(wrong(
                    &path,
                    "is the witness of this ledger, and site.toml has no `witness`\n  help: set it again; without it an old copy of the ledger could start",
                )),
            };
        };
        let system = |cause: std::io::Error| wrong(path, &cause.to_string());
        let witness = match Witness::open(path) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => match had {
                Some(_) => {
                    return Err(wrong(
                        path,
                        "the witness of this ledger is not there: is its disk mounted?\n  \
                         help: if it is lost for good, and state.db is certainly the newest, `consenso node witness` makes a new one",
                    ));
                }
                None => return self.new_witness(path),
            },
            opened => opened.map_err(system)?,
        };
        self.agrees_with(witness, had.as_deref() == Some(path))
    }

    /// Checks that the ledger has what the witness has seen.
    fn agrees_with(&mut self, mut witness: Witness, known: bool) -> Result<(), StoreError> {
        let Seen { releases: seen, row } = witness.seen();
        let count = self.releases;
        let (mut left, mut there, mut last) = (count, None, None);
        self.back(|row| {
            if !matches!(row.entry, Entry::Release { .. }) {
                return ControlFlow::Continue(());
            }
            last.get_or_insert(row.hash);
            if left <= seen.max(1) {
                there = Some(row.hash).filter(|_| left == seen);
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        })?;
        let path = witness.path().to_owned();
        if count < seen {
            let what = format!(
                "the witness has seen {seen} releases, and the ledger (state.db) has {}: it is an old copy\n  \
                 help: restore the newest; an older one would charge and draw again what was sent already",
                count
            );
            return Err(wrong(&path, &what));
        }
        if seen > 0 && there != Some(row) {
            let what = format!(
                "is the witness of another ledger: release {seen} is not the one it has seen\n  help: every site needs a witness of its own"
            );
            return Err(wrong(&path, &what));
        }
        // A crash between the ledger's row and the witness: nothing was sent, and the same bytes
        // leave now.
        if let Some(last) = last.filter(|_| count > seen) {
            let seen = Seen { releases: count, row: last };
            witness.note(seen).map_err(|cause| wrong(&path, &cause.to_string()))?;
        }
        if !known {
            self.name_witness(&path)?;
        }
        self.witness = Some(witness);
        Ok(())
    }

    /// Whether a witness counts the releases, so that this ledger is known to be the newest.
    #[must_use]
    pub fn is_witnessed(&self) -> bool {
        self.witness.is_some()
    }

    /// Makes a new witness that takes the ledger as it is for the newest.
    ///
    /// # Errors
    /// What the disk says.
    pub fn new_witness(&mut self, path: &Path) -> Result<(), StoreError> {
        let mut last = [0; 32];
        self.back(|row| match row.entry {
            Entry::Release { .. } => {
                last = row.hash;
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
        let seen = Seen { releases: self.releases, row: last };
        let made = Witness::create(path, seen).map_err(|cause| wrong(path, &cause.to_string()))?;
        self.name_witness(path)?;
        self.witness = Some(made);
        Ok(())
    }

    fn name_witness(&mut self, path: &Path) -> Result<(), StoreError> {
        // The first row is the budget's: a ledger that has not begun gets its witness's row with
        // the first study.
        if self.rows == 0 {
            return Ok(());
        }
        let (path, time) = (path.display().to_string(), clock::text(clock::now()));
        self.append(&[(0, Entry::Witness { path, time })], Vec::new(), None)
    }
}

fn wrong(path: &Path, what: &str) -> StoreError {
    StoreError::Witness { path: path.to_owned(), what: what.to_owned() }
}
