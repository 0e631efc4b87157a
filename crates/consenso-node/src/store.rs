//! What a site must not lose, in one SQLite file: the ledger, the outbox and the checkpoint, one transaction a round.
//!
//! Every row of the ledger carries SHA-256 of itself and the row before, so that a changed, removed or inserted row is found; the
//! checkpoint carries the last hash, so that a cut-off tail is found too. `synchronous = FULL`: when a round's transaction has
//! returned, it is on disk, and only then may its message leave.

use crate::books::{self, Admission};
use crate::clock;
use crate::frame::{Digest, Frame, Hex, blake3, sha256, unhex};
use crate::marks::{self, Mark};
use crate::spending::{ChargeRow, Spending};
use crate::witness::{Seen, Witness};
use bytes::Bytes;
use consenso_engine::agent::Checkpoint;
use consenso_engine::privacy::Claim;
use consenso_engine::privacy::studies::{Limit, Rule, StudyCost};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The database in a site's folder.
pub const FILE: &str = "state.db";

/// SQLite's log beside it.
const LOG: &str = "state.db-wal";

/// Pages the log may have before SQLite folds it into the database.
const LOG_PAGES: i64 = 1000;

const FORMAT: i64 = 4;

/// The format before, which kept the messages of one study only.
const FORMAT_BEFORE: i64 = 3;

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
        "the budget of this site is ε = {limit}, δ = {limit_delta:e}, of which ε = {spent}, δ = {spent_delta:e} is spent or reserved; this study needs ε = {asked}, δ = {asked_delta:e} more\n  help: a budget is for the records, whatever the experiment file says; other records need another site folder"
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
        books::LARGEST_UNSAID_EPSILON
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
    },
}

/// What a row of the ledger says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Entry {
    /// The first row: what all studies of these records together may cost. `None`: nothing is protected here.
    Budget {
        /// Who owns the records.
        site: String,
        /// (ε, δ).
        limit: Option<(f64, f64)>,
        /// How studies are added up.
        #[serde(default = "sum_rule")]
        rule: Rule,
        /// When.
        time: String,
    },
    /// From here on a witness elsewhere counts the releases.
    Witness {
        /// Where it is.
        path: String,
        /// When.
        time: String,
    },
    /// A study begins; its whole claim is reserved.
    Study {
        /// SHA-256 of what is run.
        experiment: String,
        /// SHA-256 of the graph.
        graph: String,
        /// What it will cost at most.
        claim: Option<Box<Claim>>,
        /// What that is beside other studies, where more than the claim is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<StudyCost>,
        /// Its name in the ledger that stays with the records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// Whether the noise comes from a seed that everybody knows.
        seeded: bool,
        /// When.
        time: String,
    },
    /// A release was drawn and charged.
    Release {
        /// Its round.
        round: u32,
        /// BLAKE3 of the bytes sent.
        blake3: String,
        /// What it cost; empty for a function of releases alone.
        charge: ChargeRow,
        /// How many rounds old the neighbours' vectors were that it was made from, by agent number; left out where all were of the round before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ages: Vec<u32>,
    },
    /// The run goes on without a neighbour.
    Absent {
        /// The first round without it.
        round: u32,
        /// Its agent number.
        neighbour: u32,
        /// Its weight in the mix, which is the site's own from now on.
        weight: f64,
    },
    /// The study is over.
    Done {
        /// Exchanges made.
        round: u32,
        /// Why it ended.
        reason: String,
        /// SHA-256 of the model's numbers.
        model: String,
    },
    /// A neighbour has everything.
    Confirmed {
        /// Exchanges made.
        round: u32,
        /// Its agent number.
        neighbour: u32,
    },
    /// The state was lost, and what neighbours have of this site was put back: its last release, signed by itself.
    Restored {
        /// Exchanges that neighbours have.
        round: u32,
        /// Up to here there may have been more: these are charged, and use no record.
        until: u32,
        /// Who answered, by agent number.
        answered: Vec<u32>,
        /// When.
        time: String,
    },
    /// The sites agreed to change who takes part, and this site has taken it up.
    Changed {
        /// The agreement's number.
        number: u32,
        /// What changed, in words.
        change: String,
        /// Its whole text, with the signatures.
        agreement: String,
        /// Exchanges that this site had released.
        released: u32,
        /// When.
        time: String,
    },
    /// The study was given up: it counts for this much from here on.
    Abandoned {
        /// What its charged releases cost.
        cost: StudyCost,
        /// When.
        time: String,
    },
    /// Every neighbour has everything: nobody needs this site's messages any more.
    Settled {
        /// Exchanges made.
        round: u32,
    },
}

fn sum_rule() -> Rule {
    Rule::Sum
}

/// A study that can be gone on with.
#[derive(Debug)]
pub struct Study {
    /// Its number in this file.
    pub number: i64,
    /// Where it stood, if it had begun to release.
    pub checkpoint: Option<Checkpoint>,
}

/// What a study is, before it begins.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The site's name.
    pub site: String,
    /// What is run.
    pub experiment: Digest,
    /// Who talks to whom.
    pub graph: Digest,
    /// What it will cost at most.
    pub claim: Option<Claim>,
    /// What that is beside other studies of the same records.
    pub cost: Option<StudyCost>,
    /// Whether the noise comes from a seed.
    pub seeded: bool,
    /// How studies are to be added up, if the site says so.
    pub rule: Option<Rule>,
    /// The site's own budget for these records (`site.toml`): a hard cap from the first start on.
    pub budget: Option<(f64, f64)>,
    /// The budget that the experiment names.
    pub announced: Option<(f64, f64)>,
    /// How many records the site has.
    pub records: usize,
    /// Whether the site itself says that its records need no protection.
    pub unprotected: bool,
}

/// The open database.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    db: Connection,
    head: Digest,
    rows: i64,
    releases: u64,
    /// What a start must know of all rows, and the row up to which that is kept.
    mark: Mark,
    marked: i64,
    /// The row up to which the audit log was last known to be whole.
    logged_to: i64,
    witness: Option<Witness>,
}

/// What a release was made from, where vectors of neighbours may be some rounds old.
#[derive(Clone, Debug, Default)]
pub struct Mixed {
    /// How old they were, by neighbour.
    pub ages: Vec<u32>,
    /// How old they may be: as many releases more are kept for neighbours.
    pub oldest: u32,
}

impl Mixed {
    /// Where the release of a round is kept: in the place of one that nobody needs any more.
    fn slot(&self, study: i64, round: u32) -> i64 {
        match self.oldest {
            0 => 2 * (study - 1) + i64::from(round % 2),
            oldest => (1 << 40) + (study << 16) + i64::from(round % (oldest + 2)),
        }
    }
}

/// One row of the ledger, as stored.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its number, from 1.
    pub number: i64,
    /// The study it belongs to; 0 for the budget.
    pub study: i64,
    /// What it says.
    pub entry: Entry,
    /// Hash of it and all before.
    pub hash: Digest,
}

impl Store {
    /// Opens the database of a site's folder, or makes it for models of `dim` numbers, and verifies it: all of it the first time, later what follows the last thousand rows that were verified.
    ///
    /// # Errors
    /// No access, no database, or a content that contradicts itself.
    pub fn open(folder: &Path, dim: usize) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        // SQLite would make the file readable to all; it holds what the algorithm remembers.
        std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(|cause| StoreError::File { path: path.clone(), cause })?;
        let fail = |cause| StoreError::Database { path: path.clone(), cause };
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
                        .map_err(|cause| StoreError::File { path: kept.clone(), cause })?;
                    db.execute("VACUUM INTO ?1", [kept.display().to_string()]).map_err(fail)?;
                }
                migrate(&db).map_err(fail)?;
            }
            _ => known(&db, &path)?,
        }
        grow_log(&folder.join(LOG), dim)
            .map_err(|cause| StoreError::File { path: folder.join(LOG), cause })?;
        let mut store = Self::of(path, db);
        let mark = Mark::load(&store.db);
        store.verify(mark)?;
        if store.mark.is_due(store.marked) {
            store.mark.save(&store.db).map_err(|e| store.fail(e))?;
            store.marked = store.mark.number;
        }
        Ok(store)
    }

    fn of(path: PathBuf, db: Connection) -> Self {
        let (mark, witness) = (Mark::default(), None);
        Self { path, db, head: [0; 32], rows: 0, releases: 0, mark, marked: 0, logged_to: 0, witness }
    }

    /// Opens it to look only, also while a node runs, and verifies all of it.
    ///
    /// # Errors
    /// As [`open`](Self::open); a folder where no node ever ran has no database.
    pub fn look(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        let fail = |cause| StoreError::Database { path: path.clone(), cause };
        let db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(fail)?;
        db.busy_timeout(Duration::from_secs(5)).map_err(fail)?;
        // One look, however many questions: a node that commits a round between two of them would seem to have an edited ledger.
        db.execute_batch("BEGIN").map_err(fail)?;
        known(&db, &path)?;
        let mut store = Self::of(path, db);
        store.verify(None)?;
        Ok(store)
    }

    fn fail(&self, cause: rusqlite::Error) -> StoreError {
        StoreError::Database { path: self.path.clone(), cause }
    }

    fn broken(&self, what: impl Into<String>) -> StoreError {
        StoreError::Broken { path: self.path.clone(), what: what.into() }
    }

    /// Every row of the ledger, each checked against the one before.
    ///
    /// # Errors
    /// The first row that does not fit.
    pub fn rows(&self) -> Result<Vec<Row>, StoreError> {
        let mut rows = Vec::new();
        self.scan(|row| rows.push(row))?;
        Ok(rows)
    }

    /// The rows that are no releases: what studies there are and what each may cost, however long they ran.
    ///
    /// # Errors
    /// The first row that does not fit.
    pub fn headings(&self) -> Result<Vec<Row>, StoreError> {
        let read = |number: i64| {
            let row = "SELECT study, body, hash FROM ledger WHERE number = ?1";
            self.db.query_row(row, [number], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get::<_, Vec<u8>>(2)?))
            })
        };
        let heading = |(number, expected): &(i64, Digest)| {
            let (study, body, hash) = read(*number).map_err(|e| self.fail(e))?;
            let previous = self.hash_of(number - 1)?;
            let wrong = || self.broken(format!("row {number} of the ledger does not match its hash"));
            if hash != expected || chain(&previous, *number, study, &body) != *expected {
                return Err(wrong());
            }
            let entry = serde_json::from_str(&body).map_err(|_| wrong())?;
            Ok(Row { number: *number, study, entry, hash: *expected })
        };
        self.mark.headings.iter().map(heading).collect()
    }

    /// What the releases of a study cost so far.
    pub(crate) fn spent(&self, study: i64) -> Spending {
        self.mark.studies.get(&study).map_or_else(Spending::new, |study| study.spending.clone())
    }

    /// The hash of a row; zeros before the first.
    fn hash_of(&self, number: i64) -> Result<Digest, StoreError> {
        if number == 0 {
            return Ok([0; 32]);
        }
        let hash: Vec<u8> = self
            .db
            .query_row("SELECT hash FROM ledger WHERE number = ?1", [number], |row| row.get(0))
            .map_err(|e| self.fail(e))?;
        Digest::try_from(hash).map_err(|_| self.broken(format!("row {number} of the ledger has no hash")))
    }

    /// Shows the rows from the last one backwards, until it is told that this is enough.
    pub(crate) fn back(&self, mut see: impl FnMut(Row) -> ControlFlow<()>) -> Result<(), StoreError> {
        let mut statement = self
            .db
            .prepare("SELECT number, study, body, hash FROM ledger ORDER BY number DESC")
            .map_err(|e| self.fail(e))?;
        let mut rows = statement.query([]).map_err(|e| self.fail(e))?;
        while let Some(row) = rows.next().map_err(|e| self.fail(e))? {
            let read = || -> rusqlite::Result<(i64, i64, String, Vec<u8>)> {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            };
            let (number, study, body, hash) = read().map_err(|e| self.fail(e))?;
            let broken = || self.broken(format!("row {number} of the ledger cannot be read"));
            let entry = serde_json::from_str(&body).map_err(|_| broken())?;
            let hash = Digest::try_from(hash).map_err(|_| broken())?;
            if see(Row { number, study, entry, hash }).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Shows the rows after one, each checked against the one before.
    pub(crate) fn since(&self, number: i64, see: impl FnMut(Row)) -> Result<(), StoreError> {
        self.scan_after(number, self.hash_of(number)?, see)
    }

    /// Up to which row the audit log is known to be whole, and how long it was then.
    pub(crate) fn logged(&self) -> (i64, u64) {
        let (row, length) = marks::logged(&self.db);
        if row <= self.rows { (row, length) } else { (0, 0) }
    }

    /// Keeps now and then that the audit log has all releases so far, if it has: its lines were just written.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn log_is_whole(&mut self, audit: &crate::audit_log::AuditLog) -> Result<(), StoreError> {
        if self.rows - self.logged_to < marks::EVERY || !audit.is_whole() {
            return Ok(());
        }
        self.keep_logged(audit.length())
    }

    /// Keeps that the audit log, this long, has all releases so far.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn keep_logged(&mut self, length: u64) -> Result<(), StoreError> {
        marks::keep_logged(&self.db, self.rows, length).map_err(|e| self.fail(e))?;
        self.logged_to = self.rows;
        Ok(())
    }

    /// Shows every row of the ledger in turn, each checked against the one before; only one is in memory at a time.
    ///
    /// # Errors
    /// The first row that does not fit.
    pub fn scan(&self, see: impl FnMut(Row)) -> Result<(), StoreError> {
        self.scan_after(0, [0; 32], see)
    }

    fn scan_after(
        &self,
        start: i64,
        mut previous: Digest,
        mut see: impl FnMut(Row),
    ) -> Result<(), StoreError> {
        let mut statement = self
            .db
            .prepare("SELECT number, study, body, hash FROM ledger WHERE number > ?1 ORDER BY number")
            .map_err(|e| self.fail(e))?;
        let read = |row: &rusqlite::Row<'_>| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, Vec<u8>>(3)?,
            ))
        };
        for (index, found) in statement.query_map([start], read).map_err(|e| self.fail(e))?.enumerate() {
            let (number, study, body, hash) = found.map_err(|e| self.broken(e.to_string()))?;
            let expected = chain(&previous, number, study, &body);
            let place = start + index as i64 + 1;
            if number != place || hash != expected {
                return Err(self.broken(format!("row {place} of the ledger does not match its hash")));
            }
            let entry = serde_json::from_str(&body)
                .map_err(|e| self.broken(format!("row {number} of the ledger: {e}")))?;
            previous = expected;
            see(Row { number, study, entry, hash: expected });
        }
        Ok(())
    }

    /// Checks the chain from a mark on, and that every study's checkpoint belongs to its last row.
    fn verify(&mut self, from: Option<Mark>) -> Result<(), StoreError> {
        let mut mark = from.unwrap_or_default();
        self.marked = mark.number;
        self.scan_after(mark.number, mark.head, |row| mark.see(row.number, row.study, &row.entry, row.hash))?;
        (self.rows, self.head, self.releases, self.mark) = (mark.number, mark.head, mark.releases, mark);
        let mut statement =
            self.db.prepare("SELECT study, head FROM checkpoint").map_err(|e| self.fail(e))?;
        let saved: Vec<(i64, Vec<u8>)> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .and_then(Iterator::collect)
            .map_err(|e| self.fail(e))?;
        for (study, head) in &saved {
            match self.mark.studies.get(study) {
                Some(study) if study.last[..] == head[..] => {}
                Some(_) => return Err(self.broken("the checkpoint is not of the ledger's last row")),
                None => return Err(self.broken("the ledger's last rows are missing")),
            }
        }
        let mut released =
            self.mark.studies.iter().filter(|(_, study)| study.released).map(|(number, _)| number);
        if released.any(|wanted| saved.iter().all(|(study, _)| study != wanted)) {
            return Err(self.broken("the checkpoint is missing"));
        }
        Ok(())
    }

    /// Goes on with this study if it ever began, or begins it if the budget allows ([`books::admit`]).
    ///
    /// # Errors
    /// [`StoreError::OverBudget`] and the other reasons of [`books::admit`], and what the file says.
    pub fn begin(&mut self, opening: &Opening) -> Result<Study, StoreError> {
        self.begin_after(opening, |_, _| Ok(None))
    }

    /// As [`begin`](Self::begin), with somebody asked before anything is written: `reserve` gets the study's name in another ledger if it has one
    /// and the limit if it begins, and returns that name.
    pub(crate) fn begin_after<E: From<StoreError>>(
        &mut self,
        opening: &Opening,
        reserve: impl FnOnce(Option<String>, Option<Limit>) -> Result<Option<String>, E>,
    ) -> Result<Study, E> {
        let rows = self.headings()?;
        if rows.first().is_some_and(|row| !matches!(row.entry, Entry::Budget { .. })) {
            return Err(self.broken("the ledger does not begin with a budget").into());
        }
        let (number, limit) = match books::admit(&rows, opening)? {
            Admission::GoesOn { number, id } => {
                reserve(Some(id), None)?;
                return Ok(Study { number, checkpoint: self.checkpoint(number)? });
            }
            Admission::Begins { number, limit } => (number, limit),
        };
        let id = reserve(None, limit)?;
        let time = clock::text(clock::now());
        let mut entries = Vec::new();
        if rows.is_empty() {
            let (site, time) = (opening.site.clone(), time.clone());
            let rule = limit.map_or(Rule::Sum, |l| l.rule);
            let limit = limit.map(|l| (l.epsilon, l.delta));
            entries.push((0, Entry::Budget { site, limit, rule, time }));
        }
        let (experiment, graph) = (Hex(&opening.experiment).to_string(), Hex(&opening.graph).to_string());
        let claim = opening.claim.clone().map(Box::new);
        let (cost, seeded) = (opening.cost, opening.seeded);
        entries.push((number, Entry::Study { experiment, graph, claim, cost, id, seeded, time }));
        self.append(&entries, |_, _| Ok(()))?;
        Ok(Study { number, checkpoint: None })
    }

    /// Has every release counted by a witness from now on, before it may be sent, and checks that the ledger is not older than its witness.
    /// `None`: the site has none, which is refused once it had one.
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
        // A crash between the ledger's row and the witness: nothing was sent, and the same bytes leave now.
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
        // The first row is the budget's: a ledger that has not begun gets its witness's row with the first study.
        if self.rows == 0 {
            return Ok(());
        }
        let (path, time) = (path.display().to_string(), clock::text(clock::now()));
        self.append(&[(0, Entry::Witness { path, time })], |_, _| Ok(()))
    }

    /// The last checkpoint of a study.
    ///
    /// # Errors
    /// A checkpoint that cannot be read.
    pub fn checkpoint(&self, study: i64) -> Result<Option<Checkpoint>, StoreError> {
        let bytes: Option<Vec<u8>> = self
            .db
            .query_row("SELECT bytes FROM checkpoint WHERE study = ?1", [study], |row| row.get(0))
            .optional()
            .map_err(|e| self.fail(e))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let mut saved: Checkpoint =
            postcard::from_bytes(&bytes).map_err(|e| self.broken(format!("the checkpoint: {e}")))?;
        if saved.is_shared() {
            return Ok(Some(saved));
        }
        let next = saved.round().saturating_add(1);
        if let Some((_, bytes)) =
            self.outbox(study)?.iter().find(|sent| sent.0 == next && saved.model().is_none())
        {
            let Ok(Frame::Release { values, .. }) = Frame::decode(bytes) else {
                return Err(self.broken(format!("the message of round {next} is no release")));
            };
            saved.put_release(values.to_vec());
        }
        Ok(Some(saved))
    }

    /// Makes a release durable, with its charge and the state after it: after this, and not before, `bytes` may be sent. Their BLAKE3.
    ///
    /// # Errors
    /// What the disk says; whether the round was kept is then known only when the file is opened again.
    pub fn release(
        &mut self,
        study: i64,
        round: u32,
        bytes: &[u8],
        charge: ChargeRow,
        mixed: Mixed,
        checkpoint: Checkpoint,
    ) -> Result<Digest, StoreError> {
        let digest = blake3(bytes);
        let slot = mixed.slot(study, round);
        let entry = Entry::Release { round, blake3: Hex(&digest).to_string(), charge, ages: mixed.ages };
        self.append(&[(study, entry)], |db, head| {
            db.prepare_cached(KEEP)?.execute(params![slot, study, round, bytes])?;
            save(db, study, head, checkpoint)
        })?;
        self.releases += 1;
        if let Some(witness) = &mut self.witness {
            let seen = Seen { releases: self.releases, row: self.head };
            witness
                .note(seen)
                .map_err(|cause| StoreError::File { path: witness.path().to_owned(), cause })?;
        }
        Ok(digest)
    }

    /// Makes durable what was put back of a lost state: the charges of the exchanges that the ledger does not know, what neighbours have of the last ones, and the state after them.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn restore(
        &mut self,
        study: i64,
        lost: Vec<(u32, ChargeRow)>,
        known: &[(u32, Bytes)],
        restored: Vec<Entry>,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        let hash = |round: u32| {
            known.iter().find(|k| k.0 == round).map_or_else(String::new, |k| Hex(&blake3(&k.1)).to_string())
        };
        let count = lost.len() as u64;
        let rows = lost.into_iter().map(|(round, charge)| {
            (study, Entry::Release { round, blake3: hash(round), charge, ages: Vec::new() })
        });
        let entries: Vec<(i64, Entry)> =
            rows.chain(restored.into_iter().map(|entry| (study, entry))).collect();
        self.append(&entries, |db, head| {
            for (round, bytes) in known {
                let slot = Mixed::default().slot(study, *round);
                db.prepare_cached(KEEP)?.execute(params![slot, study, round, bytes.as_ref()])?;
            }
            save(db, study, head, checkpoint)
        })?;
        self.releases += count;
        Ok(())
    }

    /// Makes anything else durable that changes the state.
    ///
    /// # Errors
    /// What the disk says.
    pub fn note(&mut self, study: i64, entry: Entry, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.append(&[(study, entry)], |db, head| save(db, study, head, checkpoint))
    }

    /// Makes several rows durable together, with the state after them; without one where nothing was released.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn note_all(
        &mut self,
        study: i64,
        entries: Vec<Entry>,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        let entries: Vec<(i64, Entry)> = entries.into_iter().map(|entry| (study, entry)).collect();
        self.append(&entries, |db, head| save(db, study, head, checkpoint))
    }

    /// Makes durable that a study was given up, and what counts for it.
    ///
    /// # Errors
    /// What the disk says.
    pub fn abandon(&mut self, study: i64, cost: StudyCost) -> Result<(), StoreError> {
        let entry = Entry::Abandoned { cost, time: clock::text(clock::now()) };
        match self.checkpoint(study)? {
            Some(checkpoint) => self.note(study, entry, checkpoint),
            None => self.append(&[(study, entry)], |_, _| Ok(())),
        }
    }

    /// Releases that neighbours may still need: (round, bytes), oldest first. The bytes are those that were charged for.
    ///
    /// # Errors
    /// Bytes that do not match the ledger.
    pub fn outbox(&self, study: i64) -> Result<Vec<(u32, Vec<u8>)>, StoreError> {
        let mut statement = self
            .db
            .prepare("SELECT round, bytes FROM outbox WHERE study = ?1 ORDER BY round")
            .map_err(|e| self.fail(e))?;
        let found = statement.query_map([study], |row| Ok((row.get(0)?, row.get(1)?)));
        let sent: Vec<(u32, Vec<u8>)> = found.and_then(Iterator::collect).map_err(|e| self.fail(e))?;
        let mut charged = vec![false; sent.len()];
        if !sent.is_empty() {
            let hashes: Vec<Digest> = sent.iter().map(|(_, bytes)| blake3(bytes)).collect();
            // They are among the last.
            self.back(|row| {
                let Entry::Release { round, blake3, .. } = &row.entry else {
                    return ControlFlow::Continue(());
                };
                for ((known, hash), charged) in sent.iter().zip(&hashes).zip(&mut charged) {
                    *charged |=
                        row.study == study && known.0 == *round && unhex(blake3).is_some_and(|h| h == hash);
                }
                if charged.iter().all(|charged| *charged) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
        }
        for ((round, _), charged) in sent.iter().zip(charged) {
            if !charged {
                return Err(
                    self.broken(format!("the message of round {round} is not the one that was charged"))
                );
            }
        }
        Ok(sent)
    }

    /// Whether nothing was ever written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The hash of the ledger's last row.
    #[must_use]
    pub fn head(&self) -> &Digest {
        &self.head
    }

    fn append(
        &mut self,
        entries: &[(i64, Entry)],
        also: impl FnOnce(&Connection, &Digest) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let (mut head, mut number) = (self.head, self.rows);
        let due = self.rows + entries.len() as i64 - self.marked >= marks::EVERY;
        let mut mark = due.then(|| self.mark.clone());
        let mut hashes = Vec::with_capacity(entries.len());
        let write = || -> rusqlite::Result<()> {
            let transaction = self.db.transaction()?;
            for (study, entry) in entries {
                number += 1;
                let body = serde_json::to_string(entry)
                    .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
                head = chain(&head, number, *study, &body);
                transaction
                    .prepare_cached("INSERT INTO ledger (number, study, body, hash) VALUES (?1, ?2, ?3, ?4)")?
                    .execute(params![number, study, body, head])?;
                hashes.push(head);
                if let Some(mark) = &mut mark {
                    mark.see(number, *study, entry, head);
                }
            }
            if let Some(mark) = &mark {
                mark.save(&transaction)?;
            }
            also(&transaction, &head)?;
            transaction.commit()
        };
        write().map_err(|cause| StoreError::Database { path: self.path.clone(), cause })?;
        match mark {
            Some(mark) => (self.marked, self.mark) = (mark.number, mark),
            None => {
                for (place, ((study, entry), hash)) in (self.rows + 1..).zip(entries.iter().zip(hashes)) {
                    self.mark.see(place, *study, entry, hash);
                }
            }
        }
        (self.head, self.rows) = (head, number);
        Ok(())
    }
}

/// The format of the file; 0 if it is new.
fn format_of(db: &Connection) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn known(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let path = path.to_owned();
    match format_of(db) {
        Ok(FORMAT | FORMAT_BEFORE) => Ok(()),
        Ok(found) => Err(StoreError::Format { path, found }),
        Err(cause) => Err(StoreError::Database { path, cause }),
    }
}

/// Brings a file of the format before to this one: the messages of every study have slots of their own.
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

/// Long vectors in few large pages, short ones in small pages: a round writes whole pages. An existing file keeps its own.
fn page_size(dim: usize) -> i64 {
    dim.next_power_of_two().clamp(4096, 65_536) as i64
}

/// Gives the log its full length at once: a commit into a file that does not grow is one write to the disk, where one that grows waits for the
/// file system's journal as well; and a disk that is too small says so now. SQLite takes what follows its last frame for rubbish.
fn grow_log(path: &Path, dim: usize) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
    // Frames have a header, and the last commit before the log is folded may go past its end.
    let full = (LOG_PAGES * page_size(dim)) as u64 * 11 / 10;
    std::io::copy(&mut std::io::repeat(0).take(full.saturating_sub(file.metadata()?.len())), &mut file)?;
    file.sync_all()
}

// A row that keeps its length is written over in place: no page is freed and none is looked for.

/// A neighbour can be one round behind, never two: two slots a study are enough.
const KEEP: &str = "INSERT INTO outbox (slot, study, round, bytes) VALUES (?1, ?2, ?3, ?4) \
     ON CONFLICT (slot) DO UPDATE SET study = excluded.study, round = excluded.round, bytes = excluded.bytes";

const SAVE: &str = "INSERT INTO checkpoint (study, head, bytes) VALUES (?1, ?2, ?3) \
     ON CONFLICT (study) DO UPDATE SET head = excluded.head, bytes = excluded.bytes";

/// The release of the next round is left out: it is in the outbox.
fn save(db: &Connection, study: i64, head: &Digest, mut checkpoint: Checkpoint) -> rusqlite::Result<()> {
    checkpoint.take_release();
    let bytes =
        postcard::to_stdvec(&checkpoint).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    db.prepare_cached(SAVE)?.execute(params![study, head, bytes])?;
    Ok(())
}

/// SHA-256(hash before ‖ number ‖ study ‖ body).
fn chain(previous: &Digest, number: i64, study: i64, body: &str) -> Digest {
    sha256(&[previous, &number.to_le_bytes(), &study.to_le_bytes(), body.as_bytes()])
}

fn wrong(path: &Path, what: &str) -> StoreError {
    StoreError::Witness { path: path.to_owned(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, Source};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A folder that goes with the test.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let name =
                format!("consenso-store-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn open(&self) -> Result<Store, StoreError> {
            Store::open(&self.0, 4)
        }

        fn edit(&self, sql: &str) {
            Connection::open(self.0.join(FILE)).unwrap().execute_batch(sql).unwrap();
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn site() -> consenso_engine::experiment::Site {
        let text = "name = \"small\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 3\nrecords_per_agent = 9\ndim = 4\n\
                    [graph]\nkind = \"path\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\nrounds = 5\n";
        let spec: ExperimentSpec = toml::from_str(text).unwrap();
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let inputs =
            Inputs { file: "small".into(), text: text.into(), spec, source, edges: None, entropy: None };
        Experiment::check(inputs).unwrap().site(0).unwrap()
    }

    fn opening(study: u8, epsilon: Option<f64>, budget: Option<(f64, f64)>) -> Opening {
        let claim = site().plan.claim.unwrap();
        let claim = epsilon.map(|epsilon| Claim { epsilon, delta: 1e-6, ..claim });
        Opening {
            site: "a".into(),
            experiment: [study; 32],
            graph: [1; 32],
            claim,
            cost: None,
            seeded: false,
            rule: None,
            budget,
            announced: None,
            records: 9,
            unprotected: false,
        }
    }

    /// A ledger of three releases.
    fn filled(place: &Place) -> Store {
        let mut store = place.open().unwrap();
        let study = store.begin(&opening(1, Some(1.0), None)).unwrap();
        let checkpoint = site().agent.checkpoint();
        for round in 1..=3u32 {
            store
                .release(
                    study.number,
                    round,
                    &[round as u8; 40],
                    ChargeRow::new(),
                    Mixed::default(),
                    checkpoint.clone(),
                )
                .unwrap();
        }
        store
    }

    /// `node status` and `node audit` of a node that runs.
    #[test]
    fn a_look_sees_one_moment_of_a_ledger_that_grows() {
        let place = Place::new();
        let mut store = filled(&place);
        let checkpoint = site().agent.checkpoint();
        let over = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 4..=300u32 {
                    store
                        .release(1, round, &[7; 40], ChargeRow::new(), Mixed::default(), checkpoint.clone())
                        .unwrap();
                }
                over.store(1, Ordering::Release);
            });
            while over.load(Ordering::Acquire) == 0 {
                let seen = Store::look(&place.0).unwrap();
                std::thread::yield_now();
                assert_eq!(seen.rows().unwrap().last().map(|row| row.hash).as_ref(), Some(seen.head()));
            }
        });
    }

    #[test]
    fn what_was_kept_is_there_after_a_restart() {
        let place = Place::new();
        drop(filled(&place));
        let mut store = place.open().unwrap();
        let study = store.begin(&opening(1, Some(1.0), None)).unwrap();
        assert_eq!(study.checkpoint.unwrap(), site().agent.checkpoint());
        // A neighbour can be one round behind, so two rounds are kept, the same bytes.
        assert_eq!(store.outbox(study.number).unwrap(), [(2, vec![2; 40]), (3, vec![3; 40])]);
        assert_eq!(store.rows().unwrap().len(), 5);
        assert_eq!(Store::look(&place.0).unwrap().head(), store.head());
    }

    #[test]
    fn an_edited_ledger_is_found() {
        for edit in [
            "UPDATE ledger SET body = replace(body, '\"round\":2', '\"round\":9') WHERE number = 4",
            "DELETE FROM ledger WHERE number = 4",
            "DELETE FROM ledger WHERE number = 5",
            "DELETE FROM ledger",
            "DELETE FROM checkpoint",
            "UPDATE ledger SET study = 2 WHERE number = 5",
            "UPDATE ledger SET hash = zeroblob(32) WHERE number = 5",
            "INSERT INTO ledger SELECT 6, study, body, hash FROM ledger WHERE number = 5",
            "UPDATE ledger SET number = 7 WHERE number = 5",
            "UPDATE ledger SET body = 12 WHERE number = 1",
        ] {
            let place = Place::new();
            drop(filled(&place));
            place.edit(edit);
            let found = place.open().map(drop).unwrap_err();
            assert!(matches!(found, StoreError::Broken { .. }), "{edit}: {found}");
        }
        let place = Place::new();
        drop(filled(&place));
        place.edit("UPDATE outbox SET bytes = zeroblob(40) WHERE round = 3");
        let refused = place.open().unwrap().outbox(1).unwrap_err().to_string();
        assert!(refused.contains("round 3 is not the one that was charged"), "{refused}");
    }

    #[test]
    fn a_ledger_of_another_format_is_not_called_damaged() {
        let place = Place::new();
        drop(filled(&place));
        place.edit("PRAGMA user_version = 2");
        for refused in [place.open(), Store::look(&place.0)] {
            let refused = refused.map(drop).unwrap_err().to_string();
            assert!(refused.contains("format 2, and this consenso reads format 4"), "{refused}");
        }
    }

    #[test]
    fn a_budget_is_for_the_records_whatever_is_run() {
        let place = Place::new();
        let mut store = place.open().unwrap();
        store.begin(&opening(1, Some(0.5), Some((1.0, 1e-5)))).unwrap();
        // The same study again is the same study; another one counts on top, whatever limit it brings.
        store.begin(&opening(1, Some(0.5), None)).unwrap();
        store.begin(&opening(2, Some(0.4), Some((9.0, 0.1)))).unwrap();
        drop(store);
        let mut store = place.open().unwrap();
        let refused = store.begin(&opening(3, Some(0.2), Some((9.0, 0.1)))).unwrap_err();
        assert!(
            matches!(refused, StoreError::OverBudget { limit, spent, .. } if limit == 1.0 && spent == 0.9),
            "{refused}"
        );
        let refused = store.begin(&opening(3, None, None)).unwrap_err();
        assert!(matches!(refused, StoreError::Unprotected(_)), "{refused}");
        store.begin(&opening(3, Some(0.1), None)).unwrap();
    }

    #[test]
    fn a_study_goes_on_only_as_what_was_reserved_for_it() {
        let place = Place::new();
        let mut store = place.open().unwrap();
        store.begin(&opening(1, Some(0.5), Some((9.0, 0.1)))).unwrap();
        let seeded = Opening { seeded: true, ..opening(1, Some(0.5), None) };
        for (now, reason) in [
            (opening(1, Some(0.6), None), "costs more than was reserved"),
            (Opening { unprotected: true, ..opening(1, None, None) }, "costs more than was reserved"),
            (seeded, "noise that everybody knows"),
        ] {
            let refused = store.begin(&now).unwrap_err().to_string();
            assert!(refused.contains(reason), "{refused}");
        }
        // What costs less, after an accountant became sharper, may go on.
        assert_eq!(store.begin(&opening(1, Some(0.4), None)).unwrap().number, 1);
        assert_eq!(store.rows().unwrap().len(), 2);
    }

    #[test]
    fn records_used_without_protection_cannot_be_protected_later() {
        let mut store = Place::new().open().unwrap();
        let open = |study| Opening { unprotected: true, ..opening(study, None, None) };
        store.begin(&open(1)).unwrap();
        store.begin(&open(2)).unwrap();
        // Without the site's own word a study that claims nothing does not even go on.
        assert!(matches!(store.begin(&opening(2, None, None)), Err(StoreError::Unprotected(_))));
        assert!(matches!(store.begin(&opening(3, Some(0.1), None)), Err(StoreError::Unprotected(_))));
    }

    /// The first study made no claim, and the operator's budget was dropped.
    #[test]
    fn a_study_without_a_claim_cannot_switch_off_a_sites_budget() {
        let mut store = Place::new().open().unwrap();
        let budget = Some((1.0, 1e-5));
        for open in [opening(1, None, budget), Opening { unprotected: true, ..opening(1, None, budget) }] {
            let refused = store.begin(&open).unwrap_err();
            assert!(refused.to_string().contains("this site has a budget"), "{refused}");
        }
        let refused = store.begin(&opening(1, None, None)).unwrap_err();
        assert!(refused.to_string().contains("unprotected = true in site.toml"), "{refused}");
        assert!(store.is_empty(), "nothing was begun");
        // A budget that is lowered later holds too.
        store.begin(&opening(1, Some(0.4), budget)).unwrap();
        let refused = store.begin(&opening(2, Some(0.4), Some((0.5, 1e-5)))).unwrap_err();
        assert!(matches!(refused, StoreError::OverBudget { limit: 0.5, .. }), "{refused}");
    }

    /// ε = 99206891854 was taken for a budget, and audited as "within the claim".
    #[test]
    fn a_study_with_a_careless_claim_needs_the_operators_word() {
        for (epsilon, delta, records) in [(99_206_891_854.0, 1e-6, 9), (10.1, 1e-6, 9), (1.0, 0.2, 9)] {
            let mut store = Place::new().open().unwrap();
            let mut open = Opening { records, ..opening(1, Some(epsilon), None) };
            open.announced = Some((epsilon, delta));
            let refused = store.begin(&open).unwrap_err();
            assert!(
                matches!(refused, StoreError::NoBudget { .. }) && refused.to_string().contains("budget = {"),
                "{refused}"
            );
            open.budget = Some((epsilon, delta));
            store.begin(&open).unwrap();
        }
    }

    /// Σ μ² holds for studies chosen by looking, and is far below Σ ε.
    #[test]
    fn gaussian_studies_are_added_up_as_gaussian_ones() {
        use consenso_engine::privacy::gdp;
        let place = Place::new();
        let mut store = place.open().unwrap();
        let mu = gdp::mu_for(0.5, 1e-6).unwrap();
        let open = |study, rule| Opening {
            cost: Some(StudyCost::gaussian(0.5, 1e-6, mu)),
            rule,
            ..opening(study, Some(0.5), Some((1.6, 1e-5)))
        };
        (1..=10).for_each(|study| drop(store.begin(&open(study, None)).unwrap()));
        let standing = books::standing(&store.rows().unwrap()).unwrap();
        assert_eq!(
            (standing.rule, standing.sum.epsilon.round(), standing.entropy),
            (Rule::Gaussian, 5.0, "os")
        );
        assert!((1.5..1.55).contains(&standing.spent.epsilon), "{standing:?}");
        assert!((0.2..0.5).contains(&standing.remaining.epsilon), "{standing:?}");
        let refused = store.begin(&open(11, None)).unwrap_err();
        assert!(matches!(refused, StoreError::OverBudget { limit: 1.6, .. }), "{refused}");
        // What has no μ cannot be added, and is told how it could have been.
        let refused = store.begin(&opening(12, Some(0.01), None)).unwrap_err().to_string();
        assert!(refused.contains("rule = \"sum\""), "{refused}");
        let mut sums = Place::new().open().unwrap();
        (1..=3).for_each(|study| drop(sums.begin(&open(study, Some(Rule::Sum))).unwrap()));
        let refused = sums.begin(&open(4, None)).unwrap_err();
        assert!(matches!(refused, StoreError::OverBudget { spent: 1.5, .. }), "{refused}");
    }

    #[test]
    fn claims_that_cannot_be_added_are_not_mixed() {
        use consenso_engine::privacy::NeighbourRelation;
        let mut store = Place::new().open().unwrap();
        store.begin(&opening(1, Some(0.1), Some((1.0, 1e-5)))).unwrap();
        let other = |change: &dyn Fn(&mut Claim)| {
            let mut open = opening(2, Some(0.1), None);
            change(open.claim.as_mut().unwrap());
            open
        };
        let seeded = Opening { seeded: true, ..opening(2, Some(0.1), None) };
        for (open, reason) in [
            (
                other(&|c| c.neighbours = NeighbourRelation::Paper),
                "claims about different changes do not add up",
            ),
            (
                other(&|c| c.adversary = "two colluding agents".into()),
                "against different adversaries do not add up",
            ),
            (seeded, "seeded studies are for public records"),
        ] {
            let refused = store.begin(&open).unwrap_err();
            assert!(matches!(refused, StoreError::Mixed(_)), "{refused}");
            assert!(refused.to_string().contains(reason), "{refused}");
        }
        let mut store = Place::new().open().unwrap();
        store.begin(&Opening { seeded: true, ..opening(1, Some(0.1), Some((1.0, 1e-5))) }).unwrap();
        let refused = store.begin(&opening(2, Some(0.1), None)).unwrap_err();
        assert!(refused.to_string().contains("holds seeded studies"), "{refused}");
    }

    #[test]
    fn a_ledger_behind_its_witness_does_not_start() {
        let (place, elsewhere) = (Place::new(), Place::new());
        let witness = elsewhere.0.join("witness");
        let checkpoint = site().agent.checkpoint();
        let mut store = filled(&place);
        store.witnessed_by(Some(&witness)).unwrap();
        let copy = || {
            let copy = Place::new();
            for part in [FILE, LOG] {
                std::fs::copy(place.0.join(part), copy.0.join(part)).unwrap();
            }
            copy
        };
        let before = copy();
        store.release(1, 4, &[4; 40], ChargeRow::new(), Mixed::default(), checkpoint.clone()).unwrap();
        let after = copy();
        // The newest copy starts, and so does one whose last release the witness had no time to see.
        after.open().unwrap().witnessed_by(Some(&witness)).unwrap();
        drop(store);
        let refused = before.open().unwrap().witnessed_by(Some(&witness)).unwrap_err().to_string();
        assert!(
            refused.contains("seen 4 releases, and the ledger (state.db) has 3: it is an old"),
            "{refused}"
        );
        let mut ahead = after.open().unwrap();
        ahead.release(1, 5, &[5; 40], ChargeRow::new(), Mixed::default(), checkpoint.clone()).unwrap();
        ahead.witnessed_by(Some(&witness)).unwrap();
        // Not without one once there was one, and not with another ledger's.
        let refused = after.open().unwrap().witnessed_by(None).unwrap_err().to_string();
        assert!(refused.contains("site.toml has no `witness`"), "{refused}");
        let other = Place::new();
        let mut store = filled(&other);
        (4..9).for_each(|round| {
            store
                .release(1, round, &[9; 40], ChargeRow::new(), Mixed::default(), checkpoint.clone())
                .unwrap();
        });
        let refused = store.witnessed_by(Some(&witness)).unwrap_err().to_string();
        assert!(refused.contains("the witness of another ledger"), "{refused}");
        std::fs::remove_file(&witness).unwrap();
        let mut store = after.open().unwrap();
        let refused = store.witnessed_by(Some(&witness)).unwrap_err().to_string();
        assert!(refused.contains("is its disk mounted?"), "{refused}");
        store.new_witness(&witness).unwrap();
        drop(store);
        after.open().unwrap().witnessed_by(Some(&witness)).unwrap();
    }

    /// A, then B, then A again: A goes on, and is not paid for twice.
    #[test]
    fn any_study_goes_on_where_it_stood() {
        let place = Place::new();
        let mut store = place.open().unwrap();
        let checkpoint = site().agent.checkpoint();
        let limit = Some((1.0, 1e-5));
        for study in [1, 2, 1, 2] {
            let found = store.begin(&opening(study, Some(0.5), limit)).unwrap();
            assert_eq!(found.number, i64::from(study));
            let round = store.outbox(found.number).unwrap().last().map_or(2, |sent| sent.0 + 1);
            store
                .release(
                    found.number,
                    round,
                    &[10 * study + round as u8; 40],
                    ChargeRow::new(),
                    Mixed::default(),
                    checkpoint.clone(),
                )
                .unwrap();
        }
        drop(store);
        let store = place.open().unwrap();
        assert_eq!(store.outbox(1).unwrap(), [(2, vec![12; 40]), (3, vec![13; 40])]);
        assert_eq!(store.outbox(2).unwrap(), [(2, vec![22; 40]), (3, vec![23; 40])]);
        drop(store);
        // The rows of one study cannot be cut off behind the other's.
        place.edit("DELETE FROM ledger WHERE number = 7");
        assert!(matches!(place.open(), Err(StoreError::Broken { .. })));
    }

    /// Messages of one study only were kept, in two slots, before.
    #[test]
    fn a_ledger_of_the_format_before_goes_on() {
        let place = Place::new();
        drop(filled(&place));
        place.edit(
            "UPDATE outbox SET slot = -1 - slot; UPDATE outbox SET slot = round % 2; PRAGMA user_version = 3",
        );
        assert_eq!(Store::look(&place.0).unwrap().rows().unwrap().len(), 5);
        let mut store = place.open().unwrap();
        assert_eq!(store.outbox(1).unwrap(), [(2, vec![2; 40]), (3, vec![3; 40])]);
        store.release(1, 4, &[4; 40], ChargeRow::new(), Mixed::default(), site().agent.checkpoint()).unwrap();
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
        let mut store = filled(&place);
        let pages: i64 = store.db.pragma_query_value(None, "page_count", |r| r.get(0)).unwrap();
        store.db.pragma_update(None, "max_page_count", pages).unwrap();
        let checkpoint = site().agent.checkpoint();
        let refused = store
            .release(1, 4, &vec![7; 100_000], ChargeRow::new(), Mixed::default(), checkpoint.clone())
            .unwrap_err();
        assert!(refused.to_string().contains("full"), "{refused}");
        assert_eq!(place.open().unwrap().rows().unwrap().len(), 5, "nothing of the failed round is there");
    }

    #[test]
    fn the_log_has_its_length_from_the_start_and_keeps_it() {
        let place = Place::new();
        let mut store = filled(&place);
        store.db.pragma_update(None, "synchronous", "OFF").unwrap();
        let length = || std::fs::metadata(place.0.join(LOG)).unwrap().len();
        let full = length();
        assert!(full > LOG_PAGES as u64 * 4096);
        let checkpoint = site().agent.checkpoint();
        // Four pages a round: the log is folded into the database twice.
        for round in 4..700u32 {
            store
                .release(1, round, &[7; 40], ChargeRow::new(), Mixed::default(), checkpoint.clone())
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

    /// Damages one of the database's files; what the ledger said before, and what it says now if it can be opened.
    fn damaged(file: &str, (places, cut): Damage) -> (Vec<Digest>, Option<Vec<Digest>>) {
        let (place, copy) = (Place::new(), Place::new());
        let store = filled(&place);
        let written: Vec<Digest> = store.rows().unwrap().iter().map(|r| r.hash).collect();
        // Copied while it is open, as a crash leaves it: the last rounds are in the log only.
        for part in [FILE, LOG] {
            std::fs::copy(place.0.join(part), copy.0.join(part)).unwrap();
        }
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

    /// Whatever happens to the files, opening them gives an error or a beginning of the ledger that was written, never another one, never
    /// a panic. (That it is the whole of it is checked against the audit log when a node starts.)
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

    /// A ledger of so many releases, written in few transactions.
    fn long(place: &Place, releases: u32, batch: u32) -> Store {
        let mut store = place.open().unwrap();
        let study = store.begin(&opening(1, Some(1.0), None)).unwrap().number;
        let event =
            consenso_engine::privacy::Event::once(consenso_engine::privacy::Mechanism::Gaussian { mu: 1e-4 });
        let charge = ChargeRow::from([("l2".to_owned(), event)]);
        let checkpoint = site().agent.checkpoint();
        let mut from = 1;
        while from <= releases {
            let until = releases.min(from + batch - 1);
            let row = |round: u32| {
                let blake3 = Hex(&blake3(&round.to_le_bytes())).to_string();
                (study, Entry::Release { round, blake3, charge: charge.clone(), ages: Vec::new() })
            };
            let rows: Vec<(i64, Entry)> = (from..=until).map(row).collect();
            store.append(&rows, |db, head| save(db, study, head, checkpoint.clone())).unwrap();
            store.releases += rows.len() as u64;
            from = until + 1;
        }
        store
    }

    #[test]
    fn a_long_ledger_is_read_from_its_last_mark_on() {
        let place = Place::new();
        drop(long(&place, 2600, 300));
        let store = place.open().unwrap();
        assert!(store.marked >= 2000 && store.rows == 2602, "{} of {}", store.marked, store.rows);
        let mut all = Mark::default();
        store.scan(|row| all.see(row.number, row.study, &row.entry, row.hash)).unwrap();
        assert_eq!(format!("{all:?}"), format!("{:?}", store.mark), "as if all had been read");
        assert_eq!((store.releases, store.head), (2600, all.head));
        let kinds: Vec<i64> = store.headings().unwrap().iter().map(|row| row.number).collect();
        assert_eq!(kinds, [1, 2]);
        let told = store.spent(1).epsilon(1e-6);
        assert!(told > 0.0 && told < 0.1, "{told}");
        drop(store);
        // What lies before the mark was checked when it was written; an audit checks it again.
        let edit = |number: i64| {
            format!("UPDATE ledger SET body = replace(body, '0.0001', '0.0002') WHERE number = {number}")
        };
        place.edit(&edit(7));
        drop(place.open().unwrap());
        assert!(Store::look(&place.0).unwrap_err().to_string().contains("row 7"));
        place.edit(&edit(7).replace("'0.0001', '0.0002'", "'0.0002', '0.0001'"));
        drop(Store::look(&place.0).unwrap());
        // Budgets and studies decide what may be released: they are looked at in every start.
        place.edit("UPDATE ledger SET body = replace(body, 'limit', 'limits') WHERE number = 1");
        assert!(place.open().unwrap().headings().is_err());
        place.edit("UPDATE ledger SET body = replace(body, 'limits', 'limit') WHERE number = 1");
        place.edit(&edit(2601));
        assert!(place.open().unwrap_err().to_string().contains("row 2601"));
        place.edit("DELETE FROM ledger WHERE number >= 2601");
        assert!(place.open().unwrap_err().to_string().contains("edited or damaged"));
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
            drop(long(&place, releases, 10_000));
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
