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
//! new one; [`reserve`](RecordsLedger::reserve) returns when the entry is on disk, and only then
//! may a study begin.
//!
//! **Moving and copying.** The folder goes with the records: move or back up both together. Records
//! that are copied elsewhere without it have no memory of what was spent, and no software on that
//! machine can find out. A file of the same name with another content is asked about ([`Edited`]).
//!
//! ```no_run
//! use consenso_engine::privacy::{NeighbourRelation, studies::StudyCost};
//! use consenso_ledger::{Booking, Edited, RecordsLedger};
//! let mut ledger = RecordsLedger::open("patients.csv".as_ref(), None, Edited::Ask)?;
//! ledger.set_limit(3.0, 1e-6, None)?;
//! let cost = StudyCost::gaussian(1.0, 1e-6, 0.24);
//! ledger.reserve(&Booking {
//!     id: "first".into(),
//!     name: "readmission".into(),
//!     cost,
//!     relation: NeighbourRelation::ReplaceOne,
//!     adversary: "every other agent".into(),
//!     seeded: false,
//! })?; // only now may the study begin
//! # Ok::<(), consenso_ledger::LedgerError>(())
//! ```

use consenso_engine::privacy::NeighbourRelation;
use consenso_engine::privacy::studies::{EpsilonDelta, Limit, NotLetIn, Rule, StudyCost};
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
pub struct Booking {
    /// What makes it this study: reserving it again, after a restart, costs nothing.
    pub id: String,
    /// Its name for readers.
    pub name: String,
    /// What it will cost at most.
    pub cost: StudyCost,
    /// Which data sets are neighbours.
    pub relation: NeighbourRelation,
    /// Who looks.
    pub adversary: String,
    /// Whether its noise comes from a seed. Such a study is never let in.
    #[serde(skip)]
    pub seeded: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
enum Entry {
    /// Which records these are; again when they were edited.
    Records { name: String, content: String },
    /// The limit for all studies.
    Limit { limit: Limit },
    /// A study reserved its whole cost.
    Study { study: Booking, time: u64 },
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
    /// A limit can be lowered, never raised.
    #[error("the limit of these records is ε = {}, δ = {:e}; it can be lowered and never raised", known.epsilon, known.delta)]
    Raised {
        /// The limit in force.
        known: Limit,
    },
    /// A limit that is none.
    #[error("the limit: {0}")]
    BadLimit(String),
    /// The limit does not allow it.
    #[error(transparent)]
    NotLetIn(#[from] NotLetIn),
}

/// What a ledger says, for people and scripts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Standing {
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
    _lock: File,
}

impl RecordsLedger {
    /// Opens the ledger of `records`, or makes it: in the folder `place`, or in [`FOLDER`] beside
    /// the file.
    ///
    /// # Errors
    /// No access, a damaged ledger, or a file that has changed and `edited` does not say how.
    pub fn open(records: &Path, place: Option<&Path>, edited: Edited) -> Result<Self, LedgerError> {
        let folder = folder_of(records, place)?;
        make_folder(&folder)?;
        let lock = locked(&folder)?;
        let key = key(&folder)?;
        let content = digest(records, &key)?;
        let name = name_of(records);
        let mut same_name = None;
        for path in ledgers(&folder)? {
            let (lines, entries, head) = read(&path)?;
            let known = |matches: &dyn Fn(&str, &str) -> bool| {
                entries.iter().any(
                    |e| matches!(e, Entry::Records { name, content } if matches(name, content)),
                )
            };
            let (this, named) =
                (known(&|_, c| c == content), latest_name(&entries) == Some(name.as_str()));
            let ledger = Self {
                path,
                lines,
                entries,
                head,
                _lock: lock.try_clone().map_err(file(&folder))?,
            };
            if this {
                return Ok(ledger);
            }
            // Of several files that had this name one after the other, the one that was used last
            // is meant.
            if named
                && same_name.as_ref().is_none_or(|l: &Self| l.last_used() <= ledger.last_used())
            {
                same_name = Some(ledger);
            }
        }
        match (same_name, edited) {
            (Some(ledger), Edited::Ask) if ledger.studies().next().is_some() => {
                Err(LedgerError::Changed {
                    records: records.to_owned(),
                    studies: ledger.studies().count(),
                })
            }
            (Some(mut ledger), Edited::Same) => {
                ledger.add(Entry::Records { name, content })?;
                Ok(ledger)
            }
            _ => {
                let path = folder.join(format!("{content}.jsonl"));
                let mut ledger = Self {
                    path,
                    lines: Vec::new(),
                    entries: Vec::new(),
                    head: blake3::hash(b""),
                    _lock: lock,
                };
                ledger.add(Entry::Records { name, content })?;
                Ok(ledger)
            }
        }
    }

    /// What the ledger of `records` says, without making one; `None` where there is none.
    ///
    /// # Errors
    /// No access, or a damaged ledger.
    pub fn look(records: &Path, place: Option<&Path>) -> Result<Option<Standing>, LedgerError> {
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
                return Ok(Some(Self { path, lines, entries, head, _lock: lock }.standing()));
            }
        }
        Ok(None)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The limit in force.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.entries
            .iter()
            .rev()
            .find_map(|e| if let Entry::Limit { limit } = e { Some(*limit) } else { None })
    }

    /// The studies that reserved something, in order.
    pub fn studies(&self) -> impl Iterator<Item = &Booking> {
        self.entries
            .iter()
            .filter_map(|e| if let Entry::Study { study, .. } = e { Some(study) } else { None })
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
            }
        };
        let time = now();
        self.add(Entry::GivenBack { id: id.to_owned(), cost, time })
    }

    /// Sets the limit for all studies of these records. Once set it can be lowered and never
    /// raised; the rule stays.
    ///
    /// Without a `rule` the first study that reserves something under the limit decides it: the
    /// best rule that covers it and all before.
    ///
    /// # Errors
    /// A limit above the one in force, or none at all.
    pub fn set_limit(
        &mut self,
        epsilon: f64,
        delta: f64,
        rule: Option<Rule>,
    ) -> Result<(), LedgerError> {
        let limit = self.check_limit(epsilon, delta, rule)?;
        if self.limit() == Some(limit) { Ok(()) } else { self.add(Entry::Limit { limit }) }
    }

    /// The limit that [`set_limit`](Self::set_limit) would set; writes nothing.
    ///
    /// # Errors
    /// Those of [`set_limit`](Self::set_limit).
    pub fn check_limit(
        &self,
        epsilon: f64,
        delta: f64,
        rule: Option<Rule>,
    ) -> Result<Limit, LedgerError> {
        let known = self.limit();
        let rule = known.map(|k| k.rule).or(rule).unwrap_or_else(|| self.rule_with(None));
        let limit =
            Limit::new(epsilon, delta, rule).map_err(|e| LedgerError::BadLimit(e.to_string()))?;
        match known {
            Some(known) if epsilon > known.epsilon || delta > known.delta => {
                Err(LedgerError::Raised { known })
            }
            _ => Ok(limit),
        }
    }

    /// Reserves a study's whole cost. It may begin if and only if this returns `Ok`; then the entry
    /// is on disk.
    ///
    /// # Errors
    /// Why it must not begin; nothing was reserved then.
    pub fn reserve(&mut self, study: &Booking) -> Result<(), LedgerError> {
        if study.seeded {
            return Err(LedgerError::Seeded);
        }
        if study.relation == NeighbourRelation::Paper {
            return Err(LedgerError::Paper);
        }
        if let Some(first) = self.studies().next() {
            if first.relation != study.relation {
                return Err(LedgerError::Relation { known: first.relation, found: study.relation });
            }
            if first.adversary != study.adversary {
                let (known, found) = (first.adversary.clone(), study.adversary.clone());
                return Err(LedgerError::Adversary { known, found });
            }
        }
        if self.given_back(&study.id).is_some() {
            return Err(LedgerError::GivenUp { id: study.id.clone() });
        }
        if let Some(known) = self.studies().find(|s| s.id == study.id) {
            let (reserved, found) = (known.cost, study.cost);
            let dearer = |a: Option<f64>, b: Option<f64>| match (a, b) {
                (Some(reserved), Some(found)) => found > reserved,
                (reserved, _) => reserved.is_some(),
            };
            let more = found.epsilon > reserved.epsilon || found.delta > reserved.delta;
            if more || dearer(reserved.mu, found.mu) || dearer(reserved.rho, found.rho) {
                let (reserved, found) = (reserved.epsilon, found.epsilon);
                return Err(LedgerError::Dearer { id: study.id.clone(), reserved, found });
            }
            return Ok(());
        }
        let costs = self.costs();
        if let Some(mut limit) = self.limit() {
            if costs.is_empty() && !self.entries.iter().any(|e| matches!(e, Entry::Study { .. })) {
                // Nothing was released yet, so the rule may follow the first study.
                limit.rule = self.rule_with(Some(study.cost));
            }
            limit.admit(&costs, &study.cost)?;
            if self.limit() != Some(limit) {
                self.add(Entry::Limit { limit })?;
            }
        }
        self.add(Entry::Study { study: study.clone(), time: now() })
    }

    /// What it says.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let costs = self.costs();
        let zero = EpsilonDelta { epsilon: 0.0, delta: 0.0 };
        let limit = self.limit();
        let rule = limit.map_or_else(|| self.rule_with(None), |l| l.rule);
        // Without a limit studies are added up at the largest δ that one of them has.
        let delta =
            limit.map_or_else(|| costs.iter().map(|c| c.delta).fold(0.0, f64::max), |l| l.delta);
        let by = |rule| Limit { epsilon: f64::INFINITY, delta, rule }.spent(&costs);
        let sum = by(Rule::Sum).unwrap_or(zero);
        let first = self.studies().next();
        Standing {
            ledger: self.path.clone(),
            studies: costs.len(),
            relation: first.map(|s| s.relation),
            adversary: first.map(|s| s.adversary.clone()),
            limit: limit.map(|l| EpsilonDelta { epsilon: l.epsilon, delta: l.delta }),
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

    /// Adds an entry; it is on disk when this returns.
    fn add(&mut self, entry: Entry) -> Result<(), LedgerError> {
        let head = chained(&self.head, &entry);
        let line =
            serde_json::to_string(&Line { entry: entry.clone(), hash: head.to_hex().to_string() })
                .map_err(|e| LedgerError::Broken {
                    path: self.path.clone(),
                    line: 0,
                    what: e.to_string(),
                })?;
        let mut text = self.lines.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&line);
        text.push('\n');
        replace(&self.path, text.as_bytes())?;
        self.lines.push(line);
        self.entries.push(entry);
        self.head = head;
        Ok(())
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |t| t.as_secs())
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
    let path = folder.join("lock");
    let lock =
        private(OpenOptions::new().create(true).append(true)).open(&path).map_err(file(&path))?;
    lock.lock().map_err(file(&path))?;
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
    // A renamed file is there after a power cut only once its folder is on disk.
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

    fn study(id: &str, epsilon: f64) -> Booking {
        Booking {
            id: id.into(),
            name: "a study".into(),
            cost: StudyCost::gaussian(epsilon, 1e-6, gdp::mu_for(epsilon, 1e-6).unwrap()),
            relation: NeighbourRelation::ReplaceOne,
            adversary: "all others".into(),
            seeded: false,
        }
    }

    fn open(records: &Path) -> Result<RecordsLedger, LedgerError> {
        RecordsLedger::open(records, None, Edited::Ask)
    }

    #[test]
    fn the_same_records_under_two_names_have_one_ledger_and_one_limit() {
        let room = Room::new("names");
        let one = room.records("a.csv", "x,y\n1,2\n");
        let mut ledger = open(&one).unwrap();
        ledger.set_limit(1.0, 1e-6, None).unwrap();
        ledger.reserve(&study("first", 1.0)).unwrap();
        drop(ledger);
        let mut again = open(&room.records("b.csv", "x,y\n1,2\n")).unwrap();
        let refused = again.reserve(&study("second", 0.1)).unwrap_err();
        assert!(matches!(refused, LedgerError::NotLetIn(NotLetIn::OverLimit { .. })), "{refused}");
        // The study that began goes on.
        again.reserve(&study("first", 1.0)).unwrap();
        assert!(matches!(again.reserve(&study("first", 2.0)), Err(LedgerError::Dearer { .. })));
        assert!(matches!(again.set_limit(2.0, 1e-6, None), Err(LedgerError::Raised { .. })));
        assert_eq!(again.standing().remaining.unwrap().epsilon, 0.0);
    }

    #[test]
    fn ten_gaussian_studies_fit_where_their_sum_does_not() {
        let room = Room::new("ten");
        let mut ledger = open(&room.records("a.csv", "1\n")).unwrap();
        ledger.set_limit(1.9, 1e-6, None).unwrap();
        for k in 0..10 {
            ledger.reserve(&study(&k.to_string(), 0.5)).unwrap();
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
        ledger.set_limit(1.0, 1e-6, Some(Rule::Sum)).unwrap();
        let first = study("first", 0.8);
        ledger.reserve(&first).unwrap();
        assert!(ledger.reserve(&study("second", 0.8)).is_err(), "the first one has it all");
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
        assert!(matches!(ledger.reserve(&first), Err(LedgerError::GivenUp { .. })));
        ledger.reserve(&study("second", 0.8)).unwrap();
        assert!(ledger.reserve(&study("third", 0.8)).is_err());
    }

    #[test]
    fn a_changed_file_is_asked_about_and_is_not_silently_new() {
        let room = Room::new("changed");
        let path = room.records("a.csv", "1\n");
        let mut ledger = open(&path).unwrap();
        ledger.set_limit(1.0, 1e-6, None).unwrap();
        ledger.reserve(&study("first", 0.9)).unwrap();
        drop(ledger);
        room.records("a.csv", "1\n2\n");
        assert!(matches!(open(&path), Err(LedgerError::Changed { studies: 1, .. })));
        let same = RecordsLedger::open(&path, None, Edited::Same).unwrap();
        assert_eq!(same.studies().count(), 1);
        drop(same);
        assert_eq!(open(&path).unwrap().studies().count(), 1, "asked once");
        room.records("a.csv", "3\n");
        let other = RecordsLedger::open(&path, None, Edited::Other).unwrap();
        assert_eq!(other.studies().count(), 0);
        drop(other);
        room.records("a.csv", "1\n");
        assert_eq!(open(&path).unwrap().studies().count(), 1, "the first content is known still");
    }

    #[test]
    fn claims_that_do_not_add_up_are_refused_with_the_reason() {
        let room = Room::new("mixed");
        let mut ledger = open(&room.records("a.csv", "1\n")).unwrap();
        let seeded = Booking { seeded: true, ..study("s", 0.1) };
        assert!(matches!(ledger.reserve(&seeded), Err(LedgerError::Seeded)));
        let paper = Booking { relation: NeighbourRelation::Paper, ..study("p", 0.1) };
        assert!(matches!(ledger.reserve(&paper), Err(LedgerError::Paper)));
        assert_eq!(ledger.studies().count(), 0);
        ledger.reserve(&study("first", 0.1)).unwrap();
        let other = Booking { relation: NeighbourRelation::AddRemove, ..study("r", 0.1) };
        assert!(ledger.reserve(&other).unwrap_err().to_string().contains("do not add up"));
        let few = Booking { adversary: "two colluders".into(), ..study("c", 0.1) };
        assert!(matches!(ledger.reserve(&few), Err(LedgerError::Adversary { .. })));
    }

    #[test]
    fn an_edited_or_cut_ledger_is_found_and_half_a_write_changes_nothing() {
        let room = Room::new("edited");
        let path = room.records("a.csv", "1\n");
        let mut ledger = open(&path).unwrap();
        ledger.reserve(&study("first", 0.5)).unwrap();
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
            open(&room.records("a.csv", "1\n")).unwrap().path().file_name().unwrap().to_owned()
        });
        assert_ne!(names[0], names[1]);
        assert!(RecordsLedger::look(&one.0.join("a.csv"), None).unwrap().is_some());
        assert!(RecordsLedger::look(&two.records("b.csv", "2\n"), None).unwrap().is_none());
    }
}
