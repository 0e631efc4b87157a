//! One SQLite file in a site's folder. `synchronous = FULL`: when a commit has returned, it is on
//! disk.

use super::{Commit, Line, RowVisitor, Storage, StorageError};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The database in a site's folder.
pub const FILE: &str = "state.db";

/// SQLite's log beside it.
const LOG: &str = "state.db-wal";

/// Pages the log may have before SQLite folds it into the database.
const LOG_PAGES: i64 = 1000;

/// The format of the file.
pub(crate) const FORMAT: i64 = 4;

/// The format before, which kept the messages of one study only.
const FORMAT_BEFORE: i64 = 3;

/// The open database.
#[derive(Debug)]
pub(crate) struct Sqlite {
    path: PathBuf,
    db: Connection,
}

impl Sqlite {
    /// Opens the database of a site's folder, or makes it for models of `dim` numbers.
    pub(crate) fn open(folder: &Path, dim: usize) -> Result<Self, StorageError> {
        let path = folder.join(FILE);
        // SQLite would make the file readable to all; it holds what the algorithm remembers.
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(|cause| StorageError::File { path: path.clone(), cause })?;
        let fail = |cause| StorageError::Database { path: path.clone(), cause };
        let db = Connection::open(&path).map_err(fail)?;
        durable(&db, dim).map_err(fail)?;
        match format_of(&db).map_err(fail)? {
            0 => make(&db).map_err(fail)?,
            FORMAT_BEFORE => {
                // What was is kept, whatever becomes of the migration.
                let kept = folder.join(format!("{FILE}.format-{FORMAT_BEFORE}"));
                if !kept.exists() {
                    // As secret as what it is a copy of; SQLite fills an empty file.
                    std::fs::OpenOptions::new()
                        .create_new(true)
                        .write(true)
                        .mode(0o600)
                        .open(&kept)
                        .map_err(|cause| StorageError::File { path: kept.clone(), cause })?;
                    db.execute("VACUUM INTO ?1", [kept.display().to_string()]).map_err(fail)?;
                }
                migrate(&db).map_err(fail)?;
            }
            _ => known(&db, &path)?,
        }
        grow_log(&folder.join(LOG), dim)
            .map_err(|cause| StorageError::File { path: folder.join(LOG), cause })?;
        Ok(Self { path, db })
    }

    /// Opens it to look only, also while a node runs: all that is read is of one moment.
    pub(crate) fn look(folder: &Path) -> Result<Self, StorageError> {
        let path = folder.join(FILE);
        let fail = |cause| StorageError::Database { path: path.clone(), cause };
        let db =
            Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(fail)?;
        db.busy_timeout(Duration::from_secs(5)).map_err(fail)?;
        // One look, however many questions: a node that commits a round between two of them would
        // seem to have an edited ledger.
        db.execute_batch("BEGIN").map_err(fail)?;
        known(&db, &path)?;
        Ok(Self { path, db })
    }

    fn fail(&self, cause: rusqlite::Error) -> StorageError {
        StorageError::Database { path: self.path.clone(), cause }
    }
}

impl Storage for Sqlite {
    fn path(&self) -> &Path {
        &self.path
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<(), StorageError> {
        write(&mut self.db, commit).map_err(|e| self.fail(e))
    }

    fn lines(&self, after: i64, see: RowVisitor<'_>) -> Result<(), StorageError> {
        let select =
            "SELECT number, study, body, hash FROM ledger WHERE number > ?1 ORDER BY number";
        let mut statement = self.db.prepare_cached(select).map_err(|e| self.fail(e))?;
        for found in statement.query_map([after], line).map_err(|e| self.fail(e))? {
            let (path, unreadable) = (self.path.clone(), |e: rusqlite::Error| e.to_string());
            let found = found
                .map_err(unreadable)
                .map_err(|what| StorageError::Unreadable { path, what })?;
            if see(found).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn lines_back(&self, see: RowVisitor<'_>) -> Result<(), StorageError> {
        let select = "SELECT number, study, body, hash FROM ledger ORDER BY number DESC";
        let mut statement = self.db.prepare_cached(select).map_err(|e| self.fail(e))?;
        for found in statement.query_map([], line).map_err(|e| self.fail(e))? {
            if see(found.map_err(|e| self.fail(e))?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn outbox(&self, study: i64) -> Result<Vec<(u32, Vec<u8>)>, StorageError> {
        let select = "SELECT round, bytes FROM outbox WHERE study = ?1 ORDER BY round";
        let mut statement = self.db.prepare_cached(select).map_err(|e| self.fail(e))?;
        let found = statement.query_map([study], |row| Ok((row.get(0)?, row.get(1)?)));
        found.and_then(Iterator::collect).map_err(|e| self.fail(e))
    }

    fn checkpoint(&self, study: i64) -> Result<Option<Vec<u8>>, StorageError> {
        let select = "SELECT bytes FROM checkpoint WHERE study = ?1";
        self.db.query_row(select, [study], |row| row.get(0)).optional().map_err(|e| self.fail(e))
    }

    fn heads(&self) -> Result<Vec<(i64, Vec<u8>)>, StorageError> {
        let mut statement =
            self.db.prepare("SELECT study, head FROM checkpoint").map_err(|e| self.fail(e))?;
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        found.and_then(Iterator::collect).map_err(|e| self.fail(e))
    }

    fn mark(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let select = "SELECT body, hash FROM mark WHERE place = 0";
        self.db.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?))).ok()
    }

    fn logged(&self) -> Option<(i64, u64)> {
        let select = "SELECT row, length FROM logged WHERE place = 0";
        let kept = self.db.query_row(select, [], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)));
        kept.ok().map(|(row, length)| (row, length.unsigned_abs()))
    }
}

/// A row of the ledger as SQLite has it.
fn line(row: &rusqlite::Row<'_>) -> rusqlite::Result<Line> {
    Ok(Line { number: row.get(0)?, study: row.get(1)?, body: row.get(2)?, hash: row.get(3)? })
}

/// One transaction.
fn write(db: &mut Connection, commit: &Commit<'_>) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    for Line { number, study, body, hash } in &commit.lines {
        transaction.prepare_cached(ADD)?.execute(params![number, study, body, hash])?;
    }
    if commit.mark.is_some() || commit.logged.is_some() {
        transaction.execute_batch(MAKE_MARKS)?;
    }
    if let Some((body, hash)) = &commit.mark {
        transaction.execute(MARK, params![body, hash])?;
    }
    for sent in &commit.outbox {
        let row = params![sent.slot, sent.study, sent.round, sent.bytes];
        transaction.prepare_cached(KEEP)?.execute(row)?;
    }
    if let Some(saved) = &commit.checkpoint {
        transaction.prepare_cached(SAVE)?.execute(params![saved.study, saved.head, saved.bytes])?;
    }
    if let Some((row, length)) = commit.logged {
        transaction.execute(LOGGED, params![row, length as i64])?;
    }
    transaction.commit()
}

const ADD: &str = "INSERT INTO ledger (number, study, body, hash) VALUES (?1, ?2, ?3, ?4)";

// A row that keeps its length is written over in place: no page is freed and none is looked for.

/// A neighbour can be one round behind, never two: two slots a study are enough.
const KEEP: &str = "INSERT INTO outbox (slot, study, round, bytes) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (slot) DO UPDATE SET study = excluded.study, round = excluded.round, bytes = excluded.bytes";

const SAVE: &str = "INSERT INTO checkpoint (study, head, bytes) VALUES (?1, ?2, ?3) \
     ON CONFLICT (study) DO UPDATE SET head = excluded.head, bytes = excluded.bytes";

const MAKE_MARKS: &str =
    "CREATE TABLE IF NOT EXISTS mark (place INTEGER PRIMARY KEY, body BLOB NOT NULL, hash BLOB NOT NULL);
     CREATE TABLE IF NOT EXISTS logged (place INTEGER PRIMARY KEY, row INTEGER NOT NULL, length INTEGER NOT NULL);";

const MARK: &str = "INSERT OR REPLACE INTO mark (place, body, hash) VALUES (0, ?1, ?2)";

const LOGGED: &str = "INSERT OR REPLACE INTO logged (place, row, length) VALUES (0, ?1, ?2)";

/// The format of the file; 0 if it is new.
fn format_of(db: &Connection) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn known(db: &Connection, path: &Path) -> Result<(), StorageError> {
    let path = path.to_owned();
    match format_of(db) {
        Ok(FORMAT | FORMAT_BEFORE) => Ok(()),
        Ok(found) => Err(StorageError::Format { path, found }),
        Err(cause) => Err(StorageError::Database { path, cause }),
    }
}

/// Brings a file of the format before to this one: the messages of every study have slots of their
/// own.
fn migrate(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(&format!(
        "BEGIN;
         UPDATE outbox SET slot = -1 - slot;
         UPDATE outbox SET slot = 2 * (study - 1) + round % 2;
         PRAGMA user_version = {FORMAT};
         COMMIT;",
    ))
}

/// Makes the tables of a new file.
fn make(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(&format!(
        "BEGIN;
         CREATE TABLE ledger (number INTEGER PRIMARY KEY, study INTEGER NOT NULL, body TEXT NOT NULL, hash BLOB NOT NULL);
         CREATE TABLE outbox (slot INTEGER PRIMARY KEY, study INTEGER NOT NULL, round INTEGER NOT NULL, bytes BLOB NOT NULL);
         CREATE TABLE checkpoint (study INTEGER PRIMARY KEY, head BLOB NOT NULL, bytes BLOB NOT NULL);
         PRAGMA user_version = {FORMAT};
         COMMIT;",
    ))
}

/// When a commit returns, it is on disk.
fn durable(db: &Connection, dim: usize) -> rusqlite::Result<()> {
    db.busy_timeout(Duration::from_secs(5))?;
    db.pragma_update(None, "page_size", page_size(dim))?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)
}

/// Long vectors in few large pages, short ones in small pages: a round writes whole pages. An
/// existing file keeps its own.
fn page_size(dim: usize) -> i64 {
    dim.next_power_of_two().clamp(4096, 65_536) as i64
}

/// Gives the log its full length at once: a commit into a file that does not grow is one write to
/// the disk, where one that grows waits for the file system's journal as well; and a disk that is
/// too small says so now. SQLite takes what follows its last frame for rubbish.
fn grow_log(path: &Path, dim: usize) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
    // Frames have a header, and the last commit before the log is folded may go past its end.
    let full = (LOG_PAGES * page_size(dim)) as u64 * 11 / 10;
    std::io::copy(
        &mut std::io::repeat(0).take(full.saturating_sub(file.metadata()?.len())),
        &mut file,
    )?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Digest;
    use crate::spending::ChargeRow;
    use crate::store::tests::{Place, filled, long, opening, site};
    use crate::store::{MixedRounds, Store};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// `node status` and `node audit` of a node that runs.
    #[test]
    fn a_look_sees_one_moment_of_a_ledger_that_grows() {
        let place = Place::new();
        let mut store = filled(place.open().unwrap());
        let checkpoint = site().agent.checkpoint();
        let over = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 4..=300u32 {
                    store
                        .release(
                            1,
                            round,
                            &[7; 40],
                            ChargeRow::new(),
                            MixedRounds::default(),
                            checkpoint.clone(),
                        )
                        .unwrap();
                }
                over.store(1, Ordering::Release);
            });
            while over.load(Ordering::Acquire) == 0 {
                let seen = Store::look(&place.0).unwrap();
                std::thread::yield_now();
                assert_eq!(
                    seen.rows().unwrap().last().map(|row| row.hash).as_ref(),
                    Some(seen.head())
                );
            }
        });
    }

    #[test]
    fn a_ledger_of_another_format_is_not_called_damaged() {
        let place = Place::new();
        drop(filled(place.open().unwrap()));
        place.edit("PRAGMA user_version = 2");
        for refused in [place.open(), Store::look(&place.0)] {
            let refused = refused.map(drop).unwrap_err().to_string();
            assert!(refused.contains("format 2, and this consenso reads format 4"), "{refused}");
        }
    }

    /// Messages of one study only were kept, in two slots, before.
    #[test]
    fn a_ledger_of_the_format_before_goes_on() {
        let place = Place::new();
        drop(filled(place.open().unwrap()));
        place.edit(
            "UPDATE outbox SET slot = -1 - slot; UPDATE outbox SET slot = round % 2; PRAGMA user_version = 3",
        );
        assert_eq!(Store::look(&place.0).unwrap().rows().unwrap().len(), 5);
        let mut store = place.open().unwrap();
        assert_eq!(store.outbox(1).unwrap(), [(2, vec![2; 40]), (3, vec![3; 40])]);
        store
            .release(
                1,
                4,
                &[4; 40],
                ChargeRow::new(),
                MixedRounds::default(),
                site().agent.checkpoint(),
            )
            .unwrap();
        assert_eq!(store.outbox(1).unwrap(), [(3, vec![3; 40]), (4, vec![4; 40])]);
    }

    #[test]
    fn without_a_disk_nothing_is_kept_and_the_error_says_where() {
        let place = Place::new();
        std::fs::write(
            place.0.join(FILE),
            "this is no database, but a file of a hundred bytes or so".repeat(3),
        )
        .unwrap();
        let refused = place.open().map(drop).unwrap_err().to_string();
        assert!(refused.contains("state.db") && refused.contains("not a database"), "{refused}");
        // A limit on the file's pages is SQLite's own full disk.
        let place = Place::new();
        drop(filled(place.open().unwrap()));
        let storage = Sqlite::open(&place.0, 4).unwrap();
        let pages: i64 = storage.db.pragma_query_value(None, "page_count", |r| r.get(0)).unwrap();
        storage.db.pragma_update(None, "max_page_count", pages).unwrap();
        let mut store = Store::on(Box::new(storage)).unwrap();
        let checkpoint = site().agent.checkpoint();
        let refused = store
            .release(
                1,
                4,
                &vec![7; 100_000],
                ChargeRow::new(),
                MixedRounds::default(),
                checkpoint.clone(),
            )
            .unwrap_err();
        assert!(refused.to_string().contains("full"), "{refused}");
        assert_eq!(
            place.open().unwrap().rows().unwrap().len(),
            5,
            "nothing of the failed round is there"
        );
    }

    #[test]
    fn the_log_has_its_length_from_the_start_and_keeps_it() {
        let place = Place::new();
        let storage = Sqlite::open(&place.0, 4).unwrap();
        storage.db.pragma_update(None, "synchronous", "OFF").unwrap();
        let mut store = filled(Store::on(Box::new(storage)).unwrap());
        let length = || std::fs::metadata(place.0.join(LOG)).unwrap().len();
        let full = length();
        assert!(full > LOG_PAGES as u64 * 4096);
        let checkpoint = site().agent.checkpoint();
        // Four pages a round: the log is folded into the database twice.
        for round in 4..700u32 {
            store
                .release(
                    1,
                    round,
                    &[7; 40],
                    ChargeRow::new(),
                    MixedRounds::default(),
                    checkpoint.clone(),
                )
                .unwrap();
        }
        assert!(std::fs::metadata(place.0.join(FILE)).unwrap().len() > 100_000, "it was folded");
        assert_eq!(length(), full);
    }

    /// Bytes to change and where to cut.
    type Damage = (Vec<(prop::sample::Index, u8)>, Option<prop::sample::Index>);

    fn damage() -> impl Strategy<Value = Damage> {
        let places = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8);
        (places, prop::option::of(any::<prop::sample::Index>()))
    }

    /// Damages one of the database's files; what the ledger said before, and what it says now if it
    /// can be opened.
    fn damaged(file: &str, (places, cut): Damage) -> (Vec<Digest>, Option<Vec<Digest>>) {
        let place = Place::new();
        let store = filled(place.open().unwrap());
        let written: Vec<Digest> = store.rows().unwrap().iter().map(|r| r.hash).collect();
        // Copied while it is open, as a crash leaves it: the last rounds are in the log only.
        let copy = place.copy();
        let path = copy.0.join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        // Not in the part of the log that was never written.
        let used = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        for (at, byte) in places {
            bytes[at.index(used)] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(used));
        }
        std::fs::write(&path, bytes).unwrap();
        let opened = copy.open().and_then(|store| {
            let _ = (store.checkpoint(1), store.outbox(1));
            store.rows()
        });
        (written, opened.ok().map(|rows| rows.iter().map(|r| r.hash).collect()))
    }

    /// Whatever happens to the files, opening them gives an error or a beginning of the ledger that
    /// was written, never another one, never a panic. (That it is the whole of it is checked
    /// against the audit log when a node starts.)
    fn check_damage(file: &str, damage: Damage) {
        let (written, opened) = damaged(file, damage);
        if let Some(rows) = opened {
            assert_eq!(rows[..], written[..rows.len()]);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_damaged_file_is_an_error_or_the_same_ledger(damage in damage(), log: bool) {
            check_damage(if log { LOG } else { FILE }, damage);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        #[ignore = "cargo xtask soak"]
        fn a_thousand_damaged_files_are_errors_or_the_same_ledger(damage in damage(), log: bool) {
            check_damage(if log { LOG } else { FILE }, damage);
        }
    }

    /// Seconds of a start and of an audit, and the most memory so far, by the ledger's length.
    #[test]
    #[ignore = "a measurement"]
    fn a_start_does_not_depend_on_the_length_of_the_ledger() {
        let memory = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
            line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
        };
        for releases in [1_000, 100_000, 1_000_000] {
            let place = Place::new();
            drop(long(place.open().unwrap(), releases, 10_000));
            let time = |what: &mut dyn FnMut()| {
                let began = std::time::Instant::now();
                what();
                began.elapsed().as_secs_f64()
            };
            let mut study = None;
            let start = time(&mut || {
                let mut store = place.open().unwrap();
                study = Some(store.begin(&opening(1, Some(1.0), None)).unwrap().number);
                drop((store.headings().unwrap(), store.spent(1), store.outbox(1).unwrap()));
            });
            let before = memory();
            let audit = time(&mut || {
                let store = Store::look(&place.0).unwrap();
                let mut auditor = crate::claim::Auditor::default();
                store.scan(|row| auditor.see(&row)).unwrap();
                assert_eq!(auditor.finish().unwrap()[0].charged, releases);
            });
            place.edit("DROP TABLE mark");
            let all = time(&mut || drop(place.open().unwrap()));
            eprintln!(
                "{releases} releases: start {start:.4} s (without marks {all:.3} s), audit {audit:.2} s, at most {:.0} MB before and {:.0} MB after it",
                before,
                memory()
            );
        }
    }
}
