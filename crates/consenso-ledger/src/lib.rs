//! What all studies of a file of records have cost, kept beside the records.
//!
//! A budget belongs to records, not to the folder of one study. [`RecordsLedger::open`] finds the
//! ledger of a file by its content, wherever else it is used from: `consenso run --entropy os` and
//! `consenso node run` open the same one. Beside `patients.csv` there is a folder
//!
//! ```text
//! consenso-ledger/key                 32 random bytes: file names tell nothing about records to who does not have it
//! consenso-ledger/<digest>.jsonl      one file of records: BLAKE3 of its content under the key
//! consenso-ledger/lock                one process at a time
//! ```
//!
//! A ledger is a list of entries, a JSON object per line, each with the hash of itself and all
//! before it. Entries are only ever added. The new content is written whole to a second file,
//! brought to disk and then renamed, so that after a crash there is either the old ledger or the
//! new one; [`book`](RecordsLedger::book) returns when the entry is on disk, and only then
//! may a study begin. What is refused leaves no trace: no entry, no limit and no new file.
//!
//! **Limits.** A limit for all studies can be changed, or is for life ([`LimitRequest::for_life`]):
//! then it can be lowered and never raised. Each says who set it and when, and so does every refusal.
//!
//! **Moving and copying.** The folder goes with the records: move or back up both together. Records
//! that are copied elsewhere without it have no memory of what was spent, and no software on that
//! machine can find out. A file of the same name with another content is asked about ([`Edited`]).
//!
//! ```no_run
//! use consenso_engine::privacy::{Adversary, NeighbourRelation, studies::StudyCost};
//! use consenso_ledger::{Edited, LimitRequest, RecordsLedger, StudyRequest};
//! let mut ledger = RecordsLedger::open("patients.csv".as_ref(), None, Edited::Ask)?;
//! let limit = LimitRequest::new(3.0, 1e-6, "our board").for_life();
//! let cost = StudyCost::gaussian(1.0, 1e-6, 0.24);
//! let study = StudyRequest {
//!     id: "first".into(),
//!     name: "readmission".into(),
//!     cost,
//!     relation: NeighbourRelation::ReplaceOne,
//!     adversary: "every other agent".into(),
//!     against: Some(Adversary::Local),
//!     seeded: false,
//! };
//! ledger.book(Some(&limit), Some(&study))?; // only now may the study begin
//! # Ok::<(), consenso_ledger::LedgerError>(())
//! ```

pub mod clock;
pub mod fits;
pub mod policy;

use crate::policy::{Mismatch, StudyKind};
use consenso_engine::privacy::studies::{EpsilonDelta, Limit, Rule, StudyCost, StudyRefused};
use consenso_engine::privacy::{Adversary, NeighbourRelation};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The folder of ledgers, beside the records.
pub const FOLDER: &str = "consenso-ledger";

/// What to do about a file that has another content than the one the ledger knows under its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edited {
    /// Refuse, and ask the operator which of the two it is.
    #[default]
    Ask,
    /// The same people's records, edited: what was spent stays spent.
    Same,
    /// Other people's records: nothing was spent on them yet.
    Other,
}

/// One study, or one command, about to begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyRequest {
    /// What makes it this study: reserving it again, after a restart, costs nothing.
    pub id: String,
    /// Its name for readers.
    pub name: String,
    /// What it will cost at most.
    pub cost: StudyCost,
    /// Which data sets are neighbours.
    pub relation: NeighbourRelation,
    /// Who looks, in words for readers.
    pub adversary: String,
    /// Who looks. Entries of before there was this field have the words alone, which are read
    /// ([`Adversary::from_words`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Adversary>,
    /// Whether its noise comes from a seed. Such a study is never let in.
    #[serde(skip)]
    pub seeded: bool,
}

/// A limit for all studies, about to be set.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitRequest {
    epsilon: f64,
    delta: f64,
    rule: Option<Rule>,
    for_life: bool,
    by: String,
}

impl LimitRequest {
    /// A limit that can be changed later, set by whom these words name: an option, a file, a study.
    #[must_use]
    pub fn new(epsilon: f64, delta: f64, by: impl Into<String>) -> Self {
        Self { epsilon, delta, rule: None, for_life: false, by: by.into() }
    }

    /// Makes it a limit that can be lowered and never raised.
    #[must_use]
    pub fn for_life(self) -> Self {
        Self { for_life: true, ..self }
    }

    /// Fixes how studies are added up, instead of the best rule for the first of them.
    #[must_use]
    pub fn with_rule(self, rule: Option<Rule>) -> Self {
        Self { rule, ..self }
    }

    /// Whether it can be lowered and never raised, once it is set.
    #[must_use]
    pub fn is_for_life(&self) -> bool {
        self.for_life
    }
}

impl std::fmt::Display for LimitRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { epsilon, delta, for_life, by, .. } = self;
        write!(f, "{by} sets ε = {epsilon} and δ = {delta:e} as the limit of these records")?;
        f.write_str(if *for_life { " for life: it can be lowered and never raised" } else { "" })
    }
}

/// Who set a limit, when, and whether it can be taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitOrigin {
    /// Whether it can be lowered only.
    pub for_life: bool,
    /// Who set it: an option, a file, a study.
    pub by: String,
    /// Seconds since 1970.
    pub time: u64,
}

/// The limit in force, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitInForce {
    /// The limit.
    pub limit: Limit,
    /// Where it comes from; not known of one that an earlier consenso set.
    pub origin: Option<LimitOrigin>,
    /// Whether it can be lowered only.
    pub for_life: bool,
}

impl std::fmt::Display for LimitInForce {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Limit { epsilon, delta, .. } = self.limit;
        write!(f, "the limit of these records, ε = {epsilon} and δ = {delta:e}, was set ")?;
        match &self.origin {
            Some(LimitOrigin { by, time, .. }) => write!(f, "by {by} on {}", clock::text(*time))?,
            None => f.write_str("by an earlier consenso")?,
        }
        f.write_str(match self.for_life {
            true => " for life: it can be lowered and never raised",
            false => "; it can be changed (run --limit, or budget in site.toml)",
        })
    }
}

impl StudyRequest {
    /// Whether its claim is against the same adversary as another one's, whatever words they have
    /// for it.
    fn kind(&self) -> StudyKind<'_> {
        let Self { relation, against, adversary, seeded, .. } = self;
        StudyKind { relation: *relation, against: *against, adversary, seeded: *seeded }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
enum Entry {
    /// Which records these are; again when they were edited.
    Records { name: String, content: String },
    /// The limit for all studies. One without an origin was set by an earlier consenso: for life,
    /// if a study was reserved under it.
    Limit {
        limit: Limit,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        origin: Option<LimitOrigin>,
    },
    /// A study reserved its whole cost.
    Study { study: StudyRequest, time: u64 },
    /// A study was given up, and costs this much.
    GivenBack { id: String, cost: StudyCost, time: u64 },
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    entry: Entry,
    hash: String,
}

/// Why a ledger could not be opened, or did not let a study in.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// A file could not be read or written.
    #[error("{}: {cause}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
    /// No entropy for the key.
    #[error("the operating system gave no entropy for the ledger's key: {0}")]
    Entropy(String),
    /// The ledger was edited, cut or damaged.
    #[error("{}: line {line}: {what}; this ledger of spent privacy was edited or damaged, restore it from a backup", path.display())]
    Broken {
        /// Which.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// The file of records has changed.
    #[error(
        "{}: has changed since {studies} studies were charged to the records of that name; say whether these are the same people's records, edited \
         (what was spent stays spent), or other people's (a new ledger)", records.display()
    )]
    Changed {
        /// The file.
        records: PathBuf,
        /// How many studies its ledger holds.
        studies: usize,
    },
    /// Noise from a seed protects nobody.
    #[error(
        "a study with noise from a seed is never booked: everybody who knows the seed can subtract the noise"
    )]
    Seeded,
    /// The paper's convention is not a relation between data sets.
    #[error(
        "neighbours = \"paper\" charges half of what replacing a record costs: use \"replace-one\" on real records"
    )]
    Paper,
    /// Claims about different relations do not add up.
    #[error(
        "these records' studies are claims under neighbours = \"{known}\", this one is under \"{found}\": claims about different neighbours do not add up; \
         set neighbours = \"{known}\""
    )]
    Relation {
        /// The ledger's.
        known: NeighbourRelation,
        /// The study's.
        found: NeighbourRelation,
    },
    /// Claims against different adversaries do not add up.
    #[error(
        "these records' studies are claims against \"{known}\", this one is against \"{found}\": a claim against fewer says nothing about more, so they do not \
         add up; use one kind of exchange for these records"
    )]
    Adversary {
        /// The ledger's.
        known: String,
        /// The study's.
        found: String,
    },
    /// The study is booked already, at a lower price.
    #[error("study {id} reserved ε = {reserved} and cannot go on at ε = {found}")]
    Dearer {
        /// Which.
        id: String,
        /// What it reserved.
        reserved: f64,
        /// What it would cost now.
        found: f64,
    },
    /// A study that was given up.
    #[error("study {id} was given up, and cannot go on")]
    GivenUp {
        /// Which.
        id: String,
    },
    /// A limit for life can be lowered, never raised.
    #[error("{known}")]
    Raised {
        /// The limit for life.
        known: Box<LimitInForce>,
    },
    /// A limit that is none.
    #[error("the limit: {0}")]
    BadLimit(String),
    /// The limit does not allow it.
    #[error("{cause}; {limit}")]
    StudyRefused {
        /// Why.
        cause: StudyRefused,
        /// The limit, or the one that was asked for with the study.
        limit: Box<LimitInForce>,
    },
}

impl LedgerError {
    /// Why a study is not added to those before it, of which `known` is the first.
    fn mismatch(why: Mismatch, known: &StudyRequest, found: &StudyRequest) -> Self {
        match why {
            Mismatch::Noise => Self::Seeded,
            Mismatch::Paper => Self::Paper,
            Mismatch::Relation => Self::Relation { known: known.relation, found: found.relation },
            Mismatch::Adversary => {
                Self::Adversary { known: known.adversary.clone(), found: found.adversary.clone() }
            }
        }
    }
}

/// What a ledger says, for people and scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerSummary {
    /// The file of the ledger.
    pub ledger: PathBuf,
    /// How many studies reserved something.
    pub studies: usize,
    /// Which data sets are neighbours in all of them.
    pub relation: Option<NeighbourRelation>,
    /// Who looks, in all of them.
    pub adversary: Option<String>,
    /// The limit, if one was set.
    pub limit: Option<EpsilonDelta>,
    /// Where the limit comes from, and whether it is for life: a sentence.
    pub limit_origin: Option<String>,
    /// Whether the limit can be lowered and never raised.
    pub limit_for_life: bool,
    /// How studies are added up: the limit's rule, or the best that covers what was reserved.
    pub rule: Rule,
    /// What was spent, by that rule.
    pub spent: EpsilonDelta,
    /// What was spent, added up.
    pub sum: EpsilonDelta,
    /// What one more study may cost; `None` without a limit.
    pub remaining: Option<EpsilonDelta>,
}

/// The open ledger of one file of records. Other processes wait until it is dropped.
#[derive(Debug)]
pub struct RecordsLedger {
    path: PathBuf,
    lines: Vec<String>,
    entries: Vec<Entry>,
    head: blake3::Hash,
    /// What the first booking writes down before itself: which records these are.
    first: Option<Unwritten>,
    #[expect(dead_code, reason = "held until the ledger is dropped")]
    lock: Option<File>,
    /// Whether it is a file.
    kept: bool,
}

/// What a ledger will begin with, or go on with, when something is booked.
#[derive(Debug)]
enum Unwritten {
    /// Records under a known key.
    Known(Entry),
    /// Records of a folder that has no ledgers and no key yet.
    New { folder: PathBuf, records: PathBuf },
}

impl RecordsLedger {
    /// Opens the ledger of `records`: in the folder `place`, or in [`FOLDER`] beside the file. One
    /// that is not there is made with the first booking.
    ///
    /// # Errors
    /// No access, a damaged ledger, or a file that has changed and `edited` does not say how.
    pub fn open(records: &Path, place: Option<&Path>, edited: Edited) -> Result<Self, LedgerError> {
        let folder = folder_of(records, place)?;
        if !folder.join("key").exists() && (!folder.is_dir() || ledgers(&folder)?.is_empty()) {
            File::open(records).map_err(file(records))?;
            let first = Unwritten::New { folder: folder.clone(), records: records.to_owned() };
            return Ok(Self::new(folder, Some(first), None));
        }
        let lock = locked(&folder)?;
        let content = digest(records, &key(&folder)?)?;
        let name = name_of(records);
        let mut same_name = None;
        for path in ledgers(&folder)? {
            let (lines, entries, head) = read(&path)?;
            let this = entries
                .iter()
                .any(|e| matches!(e, Entry::Records { content: c, .. } if *c == content));
            let named = latest_name(&entries) == Some(name.as_str());
            let ledger = Self { lines, entries, head, ..Self::new(path, None, None) };
            if this {
                return Ok(Self { lock: Some(lock), ..ledger });
            }
            // Of several files that had this name one after the other, the one that was used last
            // is meant.
            if named
                && same_name.as_ref().is_none_or(|l: &Self| l.last_used() <= ledger.last_used())
            {
                same_name = Some(ledger);
            }
        }
        let path = folder.join(format!("{content}.jsonl"));
        let first = Some(Unwritten::Known(Entry::Records { name, content }));
        match (same_name, edited) {
            (Some(ledger), Edited::Ask) if ledger.studies().next().is_some() => {
                Err(LedgerError::Changed {
                    records: records.to_owned(),
                    studies: ledger.studies().count(),
                })
            }
            (Some(ledger), Edited::Same) => Ok(Self { first, lock: Some(lock), ..ledger }),
            _ => Ok(Self::new(path, first, Some(lock))),
        }
    }

    fn new(path: PathBuf, first: Option<Unwritten>, lock: Option<File>) -> Self {
        let (lines, entries) = (Vec::new(), Vec::new());
        Self { path, lines, entries, head: blake3::hash(b""), first, lock, kept: true }
    }

    /// Opens a ledger that is a file of its own, of records that a program holds: whoever names the
    /// file says whose records it is about. One that is not there is made with the first booking.
    /// Other processes wait at `PATH.lock` until it is dropped.
    ///
    /// # Errors
    /// No access, or a damaged ledger.
    pub fn at(path: &Path) -> Result<Self, LedgerError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folder(folder)?;
        }
        let mut lock = path.as_os_str().to_owned();
        lock.push(".lock");
        let lock = Some(locked_by(Path::new(&lock))?);
        if !path.exists() {
            return Ok(Self::new(path.to_owned(), Some(Self::in_a_program()), lock));
        }
        let (lines, entries, head) = read(path)?;
        Ok(Self { lines, entries, head, ..Self::new(path.to_owned(), None, lock) })
    }

    /// A ledger in memory, of records that a program holds: it ends with the program.
    #[must_use]
    pub fn in_memory() -> Self {
        Self { kept: false, ..Self::new(PathBuf::new(), Some(Self::in_a_program()), None) }
    }

    fn in_a_program() -> Unwritten {
        let name = "records of a program".to_owned();
        Unwritten::Known(Entry::Records { name, content: String::new() })
    }

    /// What the ledger of `records` says, without making one; `None` where there is none.
    ///
    /// # Errors
    /// No access, or a damaged ledger.
    pub fn look(
        records: &Path,
        place: Option<&Path>,
    ) -> Result<Option<LedgerSummary>, LedgerError> {
        let folder = folder_of(records, place)?;
        if !folder.join("key").exists() {
            return Ok(None);
        }
        let lock = locked(&folder)?;
        let content = digest(records, &key(&folder)?)?;
        for path in ledgers(&folder)? {
            let (lines, entries, head) = read(&path)?;
            if entries
                .iter()
                .any(|e| matches!(e, Entry::Records { content: c, .. } if *c == content))
            {
                let ledger = Self { lines, entries, head, ..Self::new(path, None, Some(lock)) };
                return Ok(Some(ledger.standing()));
            }
        }
        Ok(None)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nothing was ever booked: this folder knows nothing of what these records have cost.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.entries.is_empty()
    }

    /// The limit in force.
    #[must_use]
    pub fn limit(&self) -> Option<LimitInForce> {
        self.limits().last()
    }

    /// All limits that were set, in order.
    fn limits(&self) -> impl Iterator<Item = LimitInForce> {
        let studies_after = |index: usize| {
            self.entries[index..].iter().any(|entry| matches!(entry, Entry::Study { .. }))
        };
        self.entries.iter().enumerate().filter_map(move |(index, entry)| {
            let Entry::Limit { limit, origin } = entry else { return None };
            let for_life = match origin {
                Some(origin) => origin.for_life,
                // Before limits could be changed, commands that were refused left some behind.
                None => studies_after(index),
            };
            Some(LimitInForce { limit: *limit, origin: origin.clone(), for_life })
        })
    }

    /// The limit that can be lowered and never raised, if there is one: they only ever fall.
    fn cap(&self) -> Option<LimitInForce> {
        self.limits().filter(|limit| limit.for_life).last()
    }

    /// The studies that reserved something, in order.
    pub fn studies(&self) -> impl Iterator<Item = &StudyRequest> {
        self.entries
            .iter()
            .filter_map(|e| if let Entry::Study { study, .. } = e { Some(study) } else { None })
    }

    /// The sum of ε of all studies that were booked at this time (seconds since 1970) or later.
    #[must_use]
    pub fn spent_since(&self, since: u64) -> f64 {
        let booked = self.entries.iter().filter_map(|e| match e {
            Entry::Study { study, time } if *time >= since => Some(study),
            _ => None,
        });
        booked.map(|s| self.given_back(&s.id).unwrap_or(s.cost).epsilon).sum()
    }

    /// What every study costs: what it reserved, or what is left of that.
    fn costs(&self) -> Vec<StudyCost> {
        self.studies().map(|s| self.given_back(&s.id).unwrap_or(s.cost)).collect()
    }

    fn given_back(&self, wanted: &str) -> Option<StudyCost> {
        self.entries.iter().rev().find_map(|e| match e {
            Entry::GivenBack { id, cost, .. } if id == wanted => Some(*cost),
            _ => None,
        })
    }

    /// Gives back what a study that was given up did not spend. Called again it changes nothing; a
    /// study that is not in this ledger has nothing to give.
    ///
    /// # Errors
    /// What the disk says.
    pub fn give_back(&mut self, id: &str, spent: StudyCost) -> Result<(), LedgerError> {
        let Some(reserved) = self.studies().find(|s| s.id == id).map(|s| s.cost) else {
            return Ok(());
        };
        if self.given_back(id).is_some() {
            return Ok(());
        }
        let least = |spent: Option<f64>, reserved: Option<f64>| match (spent, reserved) {
            (Some(spent), Some(reserved)) => Some(spent.min(reserved)),
            (_, reserved) => reserved,
        };
        let nothing = spent.epsilon == 0.0 && spent.delta == 0.0;
        let cost = if nothing {
            spent
        } else {
            StudyCost {
                epsilon: spent.epsilon.min(reserved.epsilon),
                delta: spent.delta.min(reserved.delta),
                mu: least(spent.mu, reserved.mu),
                rho: least(spent.rho, reserved.rho),
                tau: spent.tau.max(reserved.tau),
            }
        };
        let time = clock::now();
        self.add(vec![Entry::GivenBack { id: id.to_owned(), cost, time }])
    }

    /// The limit that would be in force if this one were set.
    fn limited(&self, asked: &LimitRequest) -> Result<LimitInForce, LedgerError> {
        let &LimitRequest { epsilon, delta, rule, for_life, .. } = asked;
        let known = self.limit();
        let rule =
            known.as_ref().map(|k| k.limit.rule).or(rule).unwrap_or_else(|| self.rule_with(None));
        let limit =
            Limit::new(epsilon, delta, rule).map_err(|e| LedgerError::BadLimit(e.to_string()))?;
        if let Some(cap) = self.cap()
            && (epsilon > cap.limit.epsilon || delta > cap.limit.delta)
        {
            return Err(LedgerError::Raised { known: Box::new(cap) });
        }
        if let Some(known) = known
            && known.limit == limit
            && (known.for_life || !for_life)
        {
            return Ok(known);
        }
        let origin = Some(LimitOrigin { for_life, by: asked.by.clone(), time: clock::now() });
        Ok(LimitInForce { limit, origin, for_life })
    }

    /// Whether [`book`](Self::book) would do what it is asked for; writes nothing.
    ///
    /// # Errors
    /// Those of [`book`](Self::book).
    pub fn check(
        &self,
        limit: Option<&LimitRequest>,
        study: Option<&StudyRequest>,
    ) -> Result<(), LedgerError> {
        self.entries_for(limit, study).map(drop)
    }

    /// Sets a limit for all studies of these records, reserves a study's whole cost under it, or
    /// both: all of it or nothing. The study may begin if and only if this returns `Ok`; then the
    /// entries are on disk.
    ///
    /// Without a rule the first study that reserves something under the limit decides it: the best
    /// rule that covers it and all before.
    ///
    /// # Errors
    /// Why it must not begin, or why the limit cannot be set; nothing is written then.
    pub fn book(
        &mut self,
        limit: Option<&LimitRequest>,
        study: Option<&StudyRequest>,
    ) -> Result<(), LedgerError> {
        if self.entries_for(limit, study)?.is_empty() {
            return Ok(());
        }
        self.begin()?;
        let entries = self.entries_for(limit, study)?;
        self.add(entries)
    }

    fn entries_for(
        &self,
        limit: Option<&LimitRequest>,
        study: Option<&StudyRequest>,
    ) -> Result<Vec<Entry>, LedgerError> {
        let known = self.limit();
        let mut limit = match limit {
            Some(asked) => Some(self.limited(asked)?),
            None => known.clone(),
        };
        let booked = match study {
            Some(study) => self.booked(study, limit.as_mut())?,
            None => None,
        };
        let limit = limit.filter(|limit| Some(limit) != known.as_ref());
        let limit = limit.map(|l| Entry::Limit { limit: l.limit, origin: l.origin });
        Ok(limit.into_iter().chain(booked).collect())
    }

    /// The entry that reserves a study's whole cost; none for one that is reserved already.
    fn booked(
        &self,
        study: &StudyRequest,
        limit: Option<&mut LimitInForce>,
    ) -> Result<Option<Entry>, LedgerError> {
        if study.seeded {
            return Err(LedgerError::Seeded);
        }
        let first = self.studies().next();
        let kind = study.kind();
        kind.is_bookable()
            .and_then(|()| first.map_or(Ok(()), |first| kind.adds_to(&first.kind())))
            .map_err(|why| LedgerError::mismatch(why, first.unwrap_or(study), study))?;
        if self.given_back(&study.id).is_some() {
            return Err(LedgerError::GivenUp { id: study.id.clone() });
        }
        if let Some(known) = self.studies().find(|s| s.id == study.id) {
            let (reserved, found) = (known.cost, study.cost);
            let dearer = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(reserved), Some(found)) => found > reserved,
                (reserved, _) => reserved.is_some(),
            };
            let farther = reserved.mu.is_some() && found.tau > reserved.tau;
            let more = farther || found.epsilon > reserved.epsilon || found.delta > reserved.delta;
            if more || dearer(reserved.mu, found.mu) || dearer(reserved.rho, found.rho) {
                let (reserved, found) = (reserved.epsilon, found.epsilon);
                return Err(LedgerError::Dearer { id: study.id.clone(), reserved, found });
            }
            return Ok(None);
        }
        let costs = self.costs();
        if let Some(limit) = limit {
            if costs.is_empty() {
                // Nothing was released yet, so the rule may follow the first study.
                limit.limit.rule = self.rule_with(Some(study.cost));
            }
            policy::admit(&limit.limit, &costs, &study.cost).map_err(|cause| {
                LedgerError::StudyRefused { cause, limit: Box::new(limit.clone()) }
            })?;
        }
        Ok(Some(Entry::Study { study: study.clone(), time: clock::now() }))
    }

    /// What it says.
    #[must_use]
    pub fn standing(&self) -> LedgerSummary {
        let costs = self.costs();
        let zero = EpsilonDelta { epsilon: 0.0, delta: 0.0 };
        let in_force = self.limit();
        let limit = in_force.as_ref().map(|l| l.limit);
        let rule = limit.map_or_else(|| self.rule_with(None), |l| l.rule);
        // Without a limit studies are added up at the largest δ that one of them has.
        let delta =
            limit.map_or_else(|| costs.iter().map(|c| c.delta).fold(0.0, f64::max), |l| l.delta);
        let by = |rule| Limit { epsilon: f64::INFINITY, delta, rule }.spent(&costs);
        let sum = by(Rule::Sum).unwrap_or(zero);
        let first = self.studies().next();
        LedgerSummary {
            ledger: self.path.clone(),
            studies: costs.len(),
            relation: first.map(|s| s.relation),
            adversary: first.map(|s| s.adversary.clone()),
            limit: limit.map(|l| EpsilonDelta { epsilon: l.epsilon, delta: l.delta }),
            limit_origin: in_force.as_ref().map(ToString::to_string),
            limit_for_life: in_force.is_some_and(|l| l.for_life),
            rule,
            spent: if delta > 0.0 { by(rule).unwrap_or(sum) } else { sum },
            sum,
            remaining: limit.map(|l| l.remaining(&costs)),
        }
    }

    fn rule_with(&self, next: Option<StudyCost>) -> Rule {
        let costs: Vec<StudyCost> = self.studies().map(|s| s.cost).chain(next).collect();
        if costs.is_empty() || costs.iter().all(|c| c.delta == 0.0) {
            Rule::Sum
        } else {
            Rule::covering(&costs)
        }
    }

    fn last_used(&self) -> u64 {
        self.entries
            .iter()
            .filter_map(|e| if let Entry::Study { time, .. } = e { Some(*time) } else { None })
            .max()
            .unwrap_or(0)
    }

    /// Makes sure that the ledger has a folder, a key and a name, under its lock.
    fn begin(&mut self) -> Result<(), LedgerError> {
        let Some(Unwritten::New { folder, records }) = &self.first else { return Ok(()) };
        let (folder, records) = (folder.clone(), records.clone());
        make_folder(&folder)?;
        let lock = locked(&folder)?;
        if folder.join("key").exists() {
            // Another process has begun in the same moment, with other records or with these.
            drop(lock);
            *self = Self::open(&records, Some(&folder), Edited::Ask)?;
            return Ok(());
        }
        let (content, name) = (digest(&records, &key(&folder)?)?, name_of(&records));
        let path = folder.join(format!("{content}.jsonl"));
        let first = Some(Unwritten::Known(Entry::Records { name, content }));
        *self = Self::new(path, first, Some(lock));
        Ok(())
    }

    /// Adds entries, all of them or none; they are on disk when this returns.
    fn add(&mut self, entries: Vec<Entry>) -> Result<(), LedgerError> {
        if entries.is_empty() {
            return Ok(());
        }
        let first = match self.first.take() {
            Some(Unwritten::Known(entry)) => Some(entry),
            _ => None,
        };
        let entries: Vec<Entry> = first.into_iter().chain(entries).collect();
        let (mut head, mut lines) = (self.head, self.lines.clone());
        for entry in &entries {
            head = chained(&head, entry);
            let line = Line { entry: entry.clone(), hash: head.to_hex().to_string() };
            lines.push(serde_json::to_string(&line).map_err(|e| LedgerError::Broken {
                path: self.path.clone(),
                line: 0,
                what: e.to_string(),
            })?);
        }
        if self.kept {
            replace(&self.path, (lines.join("\n") + "\n").as_bytes())?;
        }
        (self.lines, self.head) = (lines, head);
        self.entries.extend(entries);
        Ok(())
    }
}

fn file(path: &Path) -> impl Fn(std::io::Error) -> LedgerError {
    let path = path.to_owned();
    move |cause| LedgerError::File { path: path.clone(), cause }
}

fn folder_of(records: &Path, place: Option<&Path>) -> Result<PathBuf, LedgerError> {
    if let Some(place) = place {
        return Ok(place.to_owned());
    }
    // A link elsewhere is the same records.
    let real = fs::canonicalize(records).map_err(file(records))?;
    Ok(real.parent().unwrap_or(Path::new("/")).join(FOLDER))
}

fn name_of(records: &Path) -> String {
    let real = fs::canonicalize(records).unwrap_or_else(|_| records.to_owned());
    real.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

fn latest_name(entries: &[Entry]) -> Option<&str> {
    entries
        .iter()
        .rev()
        .find_map(|e| if let Entry::Records { name, .. } = e { Some(name.as_str()) } else { None })
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn make_folder(folder: &Path) -> Result<(), LedgerError> {
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(file(folder))?;
    if let Some(parent) = folder.parent() {
        sync_folder(parent)?;
    }
    Ok(())
}

fn locked(folder: &Path) -> Result<File, LedgerError> {
    locked_by(&folder.join("lock"))
}

fn locked_by(path: &Path) -> Result<File, LedgerError> {
    let lock =
        private(OpenOptions::new().create(true).append(true)).open(path).map_err(file(path))?;
    lock.lock().map_err(file(path))?;
    Ok(lock)
}

fn key(folder: &Path) -> Result<[u8; 32], LedgerError> {
    let path = folder.join("key");
    match fs::read(&path) {
        Ok(bytes) => bytes.try_into().map_err(|_| LedgerError::Broken {
            path,
            line: 1,
            what: "a key has 32 bytes".into(),
        }),
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            if !ledgers(folder)?.is_empty() {
                let what =
                    "the key is gone, and without it no ledger here finds its records".into();
                return Err(LedgerError::Broken { path, line: 1, what });
            }
            let mut key = [0; 32];
            getrandom::fill(&mut key).map_err(|e| LedgerError::Entropy(e.to_string()))?;
            replace(&path, &key)?;
            Ok(key)
        }
        Err(cause) => Err(LedgerError::File { path, cause }),
    }
}

/// BLAKE3 of a file's content under the folder's key.
fn digest(records: &Path, key: &[u8; 32]) -> Result<String, LedgerError> {
    let mut hasher = blake3::Hasher::new_keyed(key);
    let mut input = File::open(records).map_err(file(records))?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = input.read(&mut buffer).map_err(file(records))?;
        if count == 0 {
            return Ok(hasher.finalize().to_hex()[..32].to_owned());
        }
        hasher.update(&buffer[..count]);
    }
}

fn ledgers(folder: &Path) -> Result<Vec<PathBuf>, LedgerError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(file(folder))? {
        let path = entry.map_err(file(folder))?.path();
        if path.extension().is_some_and(|e| e == "jsonl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn chained(head: &blake3::Hash, entry: &Entry) -> blake3::Hash {
    let text = serde_json::to_string(entry).unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    hasher.update(head.as_bytes());
    hasher.update(text.as_bytes());
    hasher.finalize()
}

type Content = (Vec<String>, Vec<Entry>, blake3::Hash);

fn read(path: &Path) -> Result<Content, LedgerError> {
    let text = fs::read_to_string(path).map_err(file(path))?;
    let broken = |line: usize, what: &str| LedgerError::Broken {
        path: path.to_owned(),
        line,
        what: what.into(),
    };
    if !text.ends_with('\n') {
        return Err(broken(text.lines().count(), "the last line is incomplete"));
    }
    let (mut lines, mut entries, mut head) = (Vec::new(), Vec::new(), blake3::hash(b""));
    for (index, line) in text.lines().enumerate() {
        let parsed: Line =
            serde_json::from_str(line).map_err(|e| broken(index + 1, &e.to_string()))?;
        head = chained(&head, &parsed.entry);
        if head.to_hex().as_str() != parsed.hash {
            return Err(broken(index + 1, "the hash does not fit"));
        }
        lines.push(line.to_owned());
        entries.push(parsed.entry);
    }
    Ok((lines, entries, head))
}

/// Writes a file anew so that a crash leaves the old content or the new one.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), LedgerError> {
    let new = path.with_extension("new");
    let mut out = private(OpenOptions::new().create(true).write(true).truncate(true))
        .open(&new)
        .map_err(file(&new))?;
    out.write_all(bytes).and_then(|()| out.sync_all()).map_err(file(&new))?;
    fs::rename(&new, path).map_err(file(path))?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

fn sync_folder(folder: &Path) -> Result<(), LedgerError> {
    // A renamed file is there after a power cut only once its folder is on disk. The parent of a
    // relative name is the empty one.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    if cfg!(unix) {
        File::open(folder).and_then(|f| f.sync_all()).map_err(file(folder))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use consenso_engine::privacy::gdp;

    struct Room(PathBuf);

    impl Room {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("consenso-ledger-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn records(&self, name: &str, content: &str) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, content).unwrap();
            path
        }
    }

    impl Drop for Room {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn study(id: &str, epsilon: f64) -> StudyRequest {
        StudyRequest {
            id: id.into(),
            name: "a study".into(),
            cost: StudyCost::gaussian(epsilon, 1e-6, gdp::mu_for(epsilon, 1e-6).unwrap()),
            relation: NeighbourRelation::ReplaceOne,
            adversary: "all others".into(),
            against: None,
            seeded: false,
        }
    }

    fn limit(epsilon: f64, delta: f64) -> LimitRequest {
        LimitRequest::new(epsilon, delta, "a test").for_life()
    }

    fn open(records: &Path) -> Result<RecordsLedger, LedgerError> {
        RecordsLedger::open(records, None, Edited::Ask)
    }

    #[test]
    fn the_same_records_under_two_names_have_one_ledger_and_one_limit() {
        let room = Room::new("names");
        let one = room.records("a.csv", "x,y\n1,2\n");
        let mut ledger = open(&one).unwrap();
        ledger.book(Some(&limit(1.0, 1e-6)), None).unwrap();
        ledger.book(None, Some(&study("first", 1.0))).unwrap();
        drop(ledger);
        let mut again = open(&room.records("b.csv", "x,y\n1,2\n")).unwrap();
        let refused = again.book(None, Some(&study("second", 0.1))).unwrap_err();
        assert!(
            matches!(
                refused,
                LedgerError::StudyRefused { cause: StudyRefused::OverLimit { .. }, .. }
            ),
            "{refused}"
        );
        // The study that began goes on.
        again.book(None, Some(&study("first", 1.0))).unwrap();
        assert!(matches!(
            again.book(None, Some(&study("first", 2.0))),
            Err(LedgerError::Dearer { .. })
        ));
        assert!(matches!(
            again.book(Some(&limit(2.0, 1e-6)), None),
            Err(LedgerError::Raised { .. })
        ));
        assert_eq!(again.standing().remaining.unwrap().epsilon, 0.0);
    }

    /// `--limit 4` was refused, and then the limit was 4 for ever.
    #[test]
    fn what_is_refused_leaves_no_trace() {
        let room = Room::new("trace");
        let records = room.records("a.csv", "1\n");
        let files = || fs::read_dir(&room.0).unwrap().count();
        let low = LimitRequest::new(0.4, 1e-6, "--limit");
        let refused = open(&records).unwrap().book(Some(&low), Some(&study("first", 0.5)));
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("ε = 0.4 and δ = 1e-6, was set by --limit on 20"), "{words}");
        assert_eq!(files(), 1, "no folder, no key, no limit");
        let seeded = StudyRequest { seeded: true, ..study("s", 0.1) };
        assert!(open(&records).unwrap().book(Some(&low), Some(&seeded)).is_err());
        assert_eq!(files(), 1);
        let more = LimitRequest::new(0.6, 1e-6, "--limit");
        open(&records).unwrap().book(Some(&more), Some(&study("first", 0.5))).unwrap();
        assert_eq!(open(&records).unwrap().limit().unwrap().limit.epsilon, 0.6);
        let before = fs::read(open(&records).unwrap().path()).unwrap();
        assert!(open(&records).unwrap().book(Some(&low), Some(&study("second", 0.5))).is_err());
        assert_eq!(fs::read(open(&records).unwrap().path()).unwrap(), before);
    }

    /// Two sites of one machine began at once, and one of them was told to try again.
    #[test]
    fn two_that_begin_at_once_both_begin() {
        let room = Room::new("at-once");
        let (one, two) = (room.records("a.csv", "1\n"), room.records("b.csv", "2\n"));
        let (mut first, mut second) = (open(&one).unwrap(), open(&two).unwrap());
        let mut again = open(&one).unwrap();
        first.book(None, Some(&study("first", 0.1))).unwrap();
        drop(first);
        second.book(None, Some(&study("second", 0.1))).unwrap();
        drop(second);
        again.book(None, Some(&study("third", 0.1))).unwrap();
        assert_eq!(again.studies().count(), 2);
        drop(again);
        assert_eq!(open(&two).unwrap().studies().count(), 1);
    }

    /// Only a word that says so sets a limit that cannot be taken back.
    #[test]
    fn a_limit_can_be_changed_unless_it_is_for_life() {
        let room = Room::new("for-life");
        let mut ledger = open(&room.records("a.csv", "1\n")).unwrap();
        let set = |epsilon: f64, by: &str| LimitRequest::new(epsilon, 1e-6, by);
        ledger.book(Some(&set(1.0, "--limit")), Some(&study("first", 0.5))).unwrap();
        ledger.book(Some(&set(3.0, "--limit")), None).unwrap();
        assert_eq!(ledger.limit().unwrap().limit.epsilon, 3.0);
        ledger.book(Some(&set(2.0, "--limit-for-life").for_life()), None).unwrap();
        let raised = ledger.book(Some(&set(2.5, "--limit")), None).unwrap_err().to_string();
        assert!(
            raised.contains("was set by --limit-for-life on 20") && raised.contains("never raised"),
            "{raised}"
        );
        // Below it there may be one that can be changed, up to it and not beyond.
        ledger.book(Some(&set(1.5, "--limit")), None).unwrap();
        assert!(!ledger.standing().limit_for_life);
        ledger.book(Some(&set(1.9, "--limit")), None).unwrap();
        assert!(ledger.book(Some(&set(2.1, "--limit")), None).is_err());
        ledger.book(Some(&limit(1.2, 1e-6)), None).unwrap();
        assert!(ledger.book(Some(&set(1.3, "--limit")), None).is_err());
        assert!(ledger.standing().limit_for_life);
    }

    /// An entry without an origin is what an earlier consenso wrote.
    #[test]
    fn a_limit_of_before_is_for_life_where_a_study_was_reserved_under_it() {
        let room = Room::new("before");
        let records = room.records("a.csv", "1\n");
        let mut ledger = open(&records).unwrap();
        let limit = Limit::new(1.0, 1e-6, Rule::Sum).unwrap();
        ledger.begin().unwrap();
        ledger.add(vec![Entry::Limit { limit, origin: None }]).unwrap();
        let line = ledger.lines.last().unwrap();
        assert!(line.contains(r#""limit":{"epsilon":1.0,"delta":1e-6,"rule":"sum"},"hash""#));
        assert!(!ledger.limit().unwrap().for_life, "a refused command left it behind");
        ledger.book(Some(&LimitRequest::new(2.0, 1e-6, "--limit")), None).unwrap();
        ledger.add(vec![Entry::Limit { limit, origin: None }]).unwrap();
        ledger.book(None, Some(&study("first", 0.5))).unwrap();
        drop(ledger);
        let mut ledger = open(&records).unwrap();
        let raised = ledger.book(Some(&LimitRequest::new(2.0, 1e-6, "--limit")), None);
        assert!(raised.unwrap_err().to_string().contains("by an earlier consenso for life"));
    }

    #[test]
    fn ten_gaussian_studies_fit_where_their_sum_does_not() {
        let room = Room::new("ten");
        let mut ledger = open(&room.records("a.csv", "1\n")).unwrap();
        ledger.book(Some(&limit(1.9, 1e-6)), None).unwrap();
        for k in 0..10 {
            ledger.book(None, Some(&study(&k.to_string(), 0.5))).unwrap();
        }
        let standing = ledger.standing();
        assert_eq!((standing.studies, standing.rule), (10, Rule::Gaussian));
        assert!(standing.spent.epsilon < 1.9 && standing.sum.epsilon > 4.9, "{standing:?}");
    }

    #[test]
    fn what_a_study_did_not_spend_is_given_back_once() {
        let place = Room::new("given-back");
        let records = place.records("records.csv", "a,b\n1,2\n");
        let mut ledger = open(&records).unwrap();
        ledger.book(Some(&limit(1.0, 1e-6).with_rule(Some(Rule::Sum))), None).unwrap();
        let first = study("first", 0.8);
        ledger.book(None, Some(&first)).unwrap();
        assert!(
            ledger.book(None, Some(&study("second", 0.8))).is_err(),
            "the first one has it all"
        );
        ledger.give_back("nobody", first.cost).unwrap();
        let part = |x: Option<f64>| x.map(|x| x / 8.0);
        let spent = StudyCost { mu: part(first.cost.mu), rho: part(first.cost.rho), ..first.cost };
        ledger.give_back("first", spent).unwrap();
        // Neither twice, nor less than before, nor after a new start.
        ledger.give_back("first", StudyCost { mu: Some(0.0), ..spent }).unwrap();
        drop(ledger);
        let mut ledger = open(&records).unwrap();
        let left = ledger.standing().spent.epsilon;
        assert!(left > 0.01 && left < 0.15, "{:?}", ledger.standing());
        assert!(matches!(ledger.book(None, Some(&first)), Err(LedgerError::GivenUp { .. })));
        ledger.book(None, Some(&study("second", 0.8))).unwrap();
        assert!(ledger.book(None, Some(&study("third", 0.8))).is_err());
    }

    #[test]
    fn a_changed_file_is_asked_about_and_is_not_silently_new() {
        let room = Room::new("changed");
        let path = room.records("a.csv", "1\n");
        let mut ledger = open(&path).unwrap();
        ledger.book(Some(&limit(1.0, 1e-6)), None).unwrap();
        ledger.book(None, Some(&study("first", 0.9))).unwrap();
        drop(ledger);
        room.records("a.csv", "1\n2\n");
        assert!(matches!(open(&path), Err(LedgerError::Changed { studies: 1, .. })));
        let mut same = RecordsLedger::open(&path, None, Edited::Same).unwrap();
        assert_eq!(same.studies().count(), 1);
        assert!(same.book(None, Some(&study("second", 0.9))).is_err());
        drop(same);
        assert!(open(&path).is_err(), "what was refused did not answer the question");
        let mut same = RecordsLedger::open(&path, None, Edited::Same).unwrap();
        same.book(None, Some(&study("second", 0.01))).unwrap();
        drop(same);
        assert_eq!(open(&path).unwrap().studies().count(), 2, "asked once");
        room.records("a.csv", "3\n");
        let mut other = RecordsLedger::open(&path, None, Edited::Other).unwrap();
        assert_eq!(other.studies().count(), 0);
        other.book(None, Some(&study("third", 0.01))).unwrap();
        drop(other);
        room.records("a.csv", "1\n");
        assert_eq!(open(&path).unwrap().studies().count(), 2, "the first content is known still");
    }

    #[test]
    fn claims_that_do_not_add_up_are_refused_with_the_reason() {
        let room = Room::new("mixed");
        let mut ledger = open(&room.records("a.csv", "1\n")).unwrap();
        let seeded = StudyRequest { seeded: true, ..study("s", 0.1) };
        assert!(matches!(ledger.book(None, Some(&seeded)), Err(LedgerError::Seeded)));
        let paper = StudyRequest { relation: NeighbourRelation::Paper, ..study("p", 0.1) };
        assert!(matches!(ledger.book(None, Some(&paper)), Err(LedgerError::Paper)));
        assert_eq!(ledger.studies().count(), 0);
        ledger.book(None, Some(&study("first", 0.1))).unwrap();
        let other = StudyRequest { relation: NeighbourRelation::AddRemove, ..study("r", 0.1) };
        assert!(ledger.book(None, Some(&other)).unwrap_err().to_string().contains("do not add up"));
        let few = StudyRequest { adversary: "two colluders".into(), ..study("c", 0.1) };
        assert!(few.against.is_none() && ledger.studies().all(|s| s.against.is_none()));
        assert!(matches!(ledger.book(None, Some(&few)), Err(LedgerError::Adversary { .. })));
    }

    /// The adversary was compared as an English sentence: rewording it locked people out.
    #[test]
    fn a_reworded_adversary_is_the_same_adversary() {
        let room = Room::new("reworded");
        let mut ledger = open(&room.records("a.csv", "1\n")).unwrap();
        let words = "every other agent colludes and sees every exchanged vector";
        let old = StudyRequest { adversary: words.into(), ..study("old", 0.1) };
        ledger.book(None, Some(&old)).unwrap();
        let now = |adversary: &str, against| StudyRequest {
            adversary: adversary.into(),
            against: Some(against),
            ..study("new", 0.1)
        };
        let few = now(words, Adversary::coalition(2, true));
        assert!(matches!(ledger.book(None, Some(&few)), Err(LedgerError::Adversary { .. })));
        ledger.book(None, Some(&now("in other words", Adversary::Local))).unwrap();
        let path = ledger.path().to_owned();
        drop(ledger);
        assert_eq!(read(&path).unwrap().1.len(), 3, "both are read again");
    }

    #[test]
    fn an_edited_or_cut_ledger_is_found_and_half_a_write_changes_nothing() {
        let room = Room::new("edited");
        let path = room.records("a.csv", "1\n");
        let mut ledger = open(&path).unwrap();
        ledger.book(None, Some(&study("first", 0.5))).unwrap();
        let file = ledger.path().to_owned();
        drop(ledger);
        // A crash before the rename leaves a second file that nobody reads.
        fs::write(file.with_extension("new"), "{\"entry\":").unwrap();
        assert_eq!(open(&path).unwrap().studies().count(), 1);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("0.5", "0.1")).unwrap();
        assert!(matches!(open(&path), Err(LedgerError::Broken { line: 2, .. })));
        fs::write(&file, &text[..text.len() - 9]).unwrap();
        assert!(matches!(open(&path), Err(LedgerError::Broken { .. })));
        fs::write(&file, text).unwrap();
        fs::remove_file(file.with_file_name("key")).unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("key is gone"));
    }

    #[test]
    fn the_names_of_ledgers_tell_nothing_without_the_key() {
        let (one, two) = (Room::new("key1"), Room::new("key2"));
        let names = [&one, &two].map(|room| {
            let mut ledger = open(&room.records("a.csv", "1\n")).unwrap();
            ledger.book(None, Some(&study("first", 0.1))).unwrap();
            ledger.path().file_name().unwrap().to_owned()
        });
        assert_ne!(names[0], names[1]);
        assert!(RecordsLedger::look(&one.0.join("a.csv"), None).unwrap().is_some());
        assert!(RecordsLedger::look(&two.records("b.csv", "2\n"), None).unwrap().is_none());
    }
}
