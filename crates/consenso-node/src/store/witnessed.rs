//! The ledger and its witness on another disk: an old copy does not start.

use super::{Entry, Store, StoreError};
use crate::clock;
use crate::frame::{Digest, unhex};
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
        let Seen { releases: seen, row: wanted, .. } = witness.seen();
        let (mut there, mut last) = (wanted == [0; 32], None);
        self.back(|row| {
            there |= row.hash == wanted;
            if there && wanted != [0; 32] {
                return ControlFlow::Break(());
            }
            if let Entry::Release { round, .. } = row.entry {
                last.get_or_insert((row.study, round, row.hash));
            }
            ControlFlow::Continue(())
        })?;
        let (path, count) = (witness.path().to_owned(), self.releases);
        if !there && count < seen {
            let what = format!(
                "the witness has seen {seen} releases, and the ledger (state.db) has {count}: it is an old copy\n  \
                 help: restore the newest; an older one would charge and draw again what was sent already"
            );
            return Err(StoreError::Witness { path, what, behind: true });
        }
        if !there {
            let what = format!(
                "is the witness of another ledger: release {seen} is not the one it has seen\n  help: every site needs a witness of its own"
            );
            return Err(wrong(&path, &what));
        }
        // A crash between the ledger's row and the witness: nothing was sent, and the same bytes
        // leave now.
        if let Some((study, round, row)) = last {
            let seen = Seen { releases: count, row, study: self.run_in(study)?, round };
            witness.note(seen).map_err(|cause| wrong(&path, &cause.to_string()))?;
        }
        if !known {
            self.name_witness(&path)?;
        }
        self.witness_beginning(&mut witness)?;
        self.witness = Some(witness);
        Ok(())
    }

    /// Tells the witness of a study that has begun and released nothing, so that its rounds are not
    /// counted together with those of the studies before.
    fn witness_beginning(&mut self, witness: &mut Witness) -> Result<(), StoreError> {
        let headings = self.headings()?;
        let newest = headings.iter().rev().find(|row| matches!(row.entry, Entry::Study { .. }));
        let Some(number) = newest.map(|row| row.study) else { return Ok(()) };
        let study = self.run_in(number)?;
        let released = self.mark.studies.get(&number).is_some_and(|study| study.released);
        if released || witness.seen().study == study {
            return Ok(());
        }
        let round = crate::studies::spared_until(&headings, number);
        let seen = Seen { releases: self.releases, row: self.head, study, round };
        witness.note(seen).map_err(|cause| wrong(witness.path(), &cause.to_string()))
    }

    /// What is run in a study.
    fn run_in(&mut self, study: i64) -> Result<Digest, StoreError> {
        if let Some((known, digest)) = self.witnessed_study
            && known == study
        {
            return Ok(digest);
        }
        let digest = self.headings()?.iter().find_map(|row| match &row.entry {
            Entry::Study { experiment, .. } if row.study == study => {
                unhex(experiment).and_then(|bytes| Digest::try_from(bytes).ok())
            }
            _ => None,
        });
        let digest = digest.unwrap_or_default();
        self.witnessed_study = Some((study, digest));
        Ok(digest)
    }

    /// Has the witness count a release whose row is the ledger's last, before its bytes may leave.
    pub(super) fn witness_release(&mut self, study: i64, round: u32) -> Result<(), StoreError> {
        if self.witness.is_none() {
            return Ok(());
        }
        let study = self.run_in(study)?;
        let seen = Seen { releases: self.releases, row: self.head, study, round };
        let Some(witness) = &mut self.witness else { return Ok(()) };
        witness
            .note(seen)
            .map_err(|cause| StoreError::File { path: witness.path().to_owned(), cause })
    }

    /// Has the witness that is there know a ledger that was put back, in which exchanges up to
    /// `until` may have been released. What it counted before stays.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn witness_restored(
        &mut self,
        path: &Path,
        study: i64,
        until: u32,
    ) -> Result<(), StoreError> {
        let mut witness = Witness::open(path).map_err(|cause| wrong(path, &cause.to_string()))?;
        self.name_witness(path)?;
        let study = self.run_in(study)?;
        let seen = Seen { releases: self.releases, row: self.head, study, round: until };
        witness.note(seen).map_err(|cause| wrong(path, &cause.to_string()))?;
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
    /// What the disk says; a witness that is there is not overwritten.
    pub fn new_witness(&mut self, path: &Path) -> Result<(), StoreError> {
        let mut last = None;
        self.back(|row| match row.entry {
            Entry::Release { round, .. } => {
                last = Some((row.study, round, row.hash));
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        })?;
        let (study, round, row) = match last {
            Some((study, round, row)) => (self.run_in(study)?, round, row),
            None => ([0; 32], 0, [0; 32]),
        };
        let seen = Seen { releases: self.releases, row, study, round };
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
    StoreError::Witness { path: path.to_owned(), what: what.to_owned(), behind: false }
}
