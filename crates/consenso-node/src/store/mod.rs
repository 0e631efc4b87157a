//! What a site must not lose: the ledger, the outbox and the checkpoint, one commit a round.
//!
//! Every row of the ledger carries SHA-256 of itself and the row before, so that a changed, removed
//! or inserted row is found; the checkpoint carries the last hash, so that a cut-off tail is found
//! too. When a round's commit has returned, it is durable, and only then may its message leave.
//! Where all of it lies is the `Storage`'s, which keeps bytes and knows none of these rules.

mod entry;
mod error;
#[cfg(test)]
pub(crate) mod tests;
mod witnessed;

pub use self::entry::{BudgetOrigin, Entry, Row};
pub use self::error::StoreError;
pub use crate::storage::FILE;

use crate::books::{self, Admission};
use crate::clock;
use crate::decisions::Decision;
use crate::frame::{Digest, Frame, Hex, blake3, release_hash, sha256, unhex};
use crate::marks::{self, Mark};
use crate::spending::{ChargeRow, Spending};
use crate::storage::{Commit, Line, Outgoing, Saved, Sqlite, Storage};
use crate::witness::Witness;
use bytes::Bytes;
use consenso_engine::agent::Checkpoint;
use consenso_engine::privacy::Claim;
use consenso_engine::privacy::studies::{Limit, Rule, StudyCost};
use std::ops::ControlFlow;
use std::path::Path;

/// A study that can be gone on with.
#[derive(Debug)]
pub struct OpenStudy {
    /// Its number in this file.
    pub number: i64,
    /// Where it stood, if it had begun to release.
    pub checkpoint: Option<Checkpoint>,
}

/// What a study is, before it begins.
#[derive(Clone, Debug)]
pub struct StudyStart {
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
    /// By which decision the site answers, where the study asks questions.
    pub answers: Option<Decision>,
}

/// The open ledger of a site.
#[derive(Debug)]
pub struct Store {
    storage: Box<dyn Storage>,
    head: Digest,
    rows: i64,
    releases: u64,
    /// What a start must know of all rows, and the row up to which that is kept.
    mark: Mark,
    marked: i64,
    /// The row up to which the audit log was last known to be whole.
    logged_to: i64,
    witness: Option<Witness>,
    /// The study whose releases the witness counts, and what is run in it.
    witnessed_study: Option<(i64, Digest)>,
}

/// What a release was made from, where vectors of neighbours may be some rounds old.
#[derive(Clone, Debug, Default)]
pub struct MixedRounds {
    /// How old they were, by neighbour.
    pub ages: Vec<u32>,
    /// How old they may be: as many releases more are kept for neighbours.
    pub oldest: u32,
}

impl MixedRounds {
    /// Where the release of a round is kept: in the place of one that nobody needs any more.
    fn slot(&self, study: i64, round: u32) -> i64 {
        match self.oldest {
            0 => 2 * (study - 1) + i64::from(round % 2),
            oldest => (1 << 40) + (study << 16) + i64::from(round % (oldest + 2)),
        }
    }
}

impl Store {
    /// Opens the database of a site's folder, or makes it for models of `dim` numbers, and verifies
    /// it: all of it the first time, later what follows the last thousand rows that were verified.
    ///
    /// # Errors
    /// No access, no database, or a content that contradicts itself.
    pub fn open(folder: &Path, dim: usize) -> Result<Self, StoreError> {
        Self::on(Box::new(Sqlite::open(folder, dim)?))
    }

    /// Opens it to look only, also while a node runs, and verifies all of it.
    ///
    /// # Errors
    /// As [`open`](Self::open); a folder where no node ever ran has no database.
    pub fn look(folder: &Path) -> Result<Self, StoreError> {
        Self::verified(Box::new(Sqlite::look(folder)?))
    }

    /// The ledger that a storage holds, verified from its last mark on.
    pub(crate) fn on(storage: Box<dyn Storage>) -> Result<Self, StoreError> {
        let mut store = Self::of(storage);
        let mark = store.kept_mark();
        store.verify(mark)?;
        if store.mark.is_due(store.marked) {
            let mark = Some(store.packed(&store.mark)?);
            store.storage.commit(&Commit { mark, ..Commit::default() })?;
            store.marked = store.mark.number;
        }
        Ok(store)
    }

    /// The ledger that a storage holds, all of it verified.
    pub(crate) fn verified(storage: Box<dyn Storage>) -> Result<Self, StoreError> {
        let mut store = Self::of(storage);
        store.verify(None)?;
        Ok(store)
    }

    fn of(storage: Box<dyn Storage>) -> Self {
        let (mark, witness) = (Mark::default(), None);
        Self {
            storage,
            head: [0; 32],
            rows: 0,
            releases: 0,
            mark,
            marked: 0,
            logged_to: 0,
            witness,
            witnessed_study: None,
        }
    }

    fn broken(&self, what: impl Into<String>) -> StoreError {
        StoreError::Broken { path: self.storage.path().to_owned(), what: what.into() }
    }

    /// The mark that was kept, if it is whole and its row is in the ledger.
    fn kept_mark(&self) -> Option<Mark> {
        let (body, hash) = self.storage.mark()?;
        let mark = Mark::unpack(&body, &hash)?;
        (self.hash_of(mark.number).ok()? == mark.head).then_some(mark)
    }

    fn packed(&self, mark: &Mark) -> Result<(Vec<u8>, Digest), StoreError> {
        mark.packed().map_err(|e| self.broken(format!("the mark: {e}")))
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

    /// The rows that are no releases: what studies there are and what each may cost, however long
    /// they ran.
    ///
    /// # Errors
    /// The first row that does not fit.
    pub fn headings(&self) -> Result<Vec<Row>, StoreError> {
        let heading = |(number, expected): &(i64, Digest)| {
            let line = self.line(*number)?;
            let previous = self.hash_of(number - 1)?;
            let wrong =
                || self.broken(format!("row {number} of the ledger does not match its hash"));
            if line.hash != expected
                || chain(&previous, *number, line.study, &line.body) != *expected
            {
                return Err(wrong());
            }
            let entry = serde_json::from_str(&line.body).map_err(|_| wrong())?;
            Ok(Row { number: *number, study: line.study, entry, hash: *expected })
        };
        self.mark.headings.iter().map(heading).collect()
    }

    /// What the releases of a study cost so far.
    pub(crate) fn spent(&self, study: i64) -> Spending {
        self.mark.studies.get(&study).map_or_else(Spending::new, |study| study.spending.clone())
    }

    /// A row as it is kept.
    fn line(&self, number: i64) -> Result<Line, StoreError> {
        let mut found = None;
        self.storage.lines(number - 1, &mut |line| {
            found = Some(line);
            ControlFlow::Break(())
        })?;
        let there = found.filter(|line| line.number == number);
        there.ok_or_else(|| self.broken(format!("row {number} of the ledger is missing")))
    }

    /// The hash of a row; zeros before the first.
    fn hash_of(&self, number: i64) -> Result<Digest, StoreError> {
        if number == 0 {
            return Ok([0; 32]);
        }
        let hash = self.line(number)?.hash;
        Digest::try_from(hash)
            .map_err(|_| self.broken(format!("row {number} of the ledger has no hash")))
    }

    /// Shows the rows from the last one backwards, until it is told that this is enough.
    pub(crate) fn back(
        &self,
        mut see: impl FnMut(Row) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        let mut wrong = None;
        self.storage.lines_back(&mut |Line { number, study, body, hash }| match (
            serde_json::from_str(&body),
            Digest::try_from(hash),
        ) {
            (Ok(entry), Ok(hash)) => see(Row { number, study, entry, hash }),
            _ => {
                wrong = Some(self.broken(format!("row {number} of the ledger cannot be read")));
                ControlFlow::Break(())
            }
        })?;
        wrong.map_or(Ok(()), Err)
    }

    /// Shows the rows after one, each checked against the one before.
    pub(crate) fn since(&self, number: i64, see: impl FnMut(Row)) -> Result<(), StoreError> {
        self.scan_after(number, self.hash_of(number)?, see)
    }

    /// Up to which row the audit log is known to be whole, and how long it was then; nothing is
    /// known at first.
    pub(crate) fn logged(&self) -> (i64, u64) {
        self.storage.logged().filter(|(row, _)| *row <= self.rows).unwrap_or((0, 0))
    }

    /// Keeps now and then that the audit log has all releases so far, if it has: its lines were
    /// just written.
    ///
    /// # Errors
    /// What the disk says.
    pub(crate) fn log_is_whole(
        &mut self,
        audit: &crate::audit_log::AuditLog,
    ) -> Result<(), StoreError> {
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
        self.storage.commit(&Commit { logged: Some((self.rows, length)), ..Commit::default() })?;
        self.logged_to = self.rows;
        Ok(())
    }

    /// Shows every row of the ledger in turn, each checked against the one before; only one is in
    /// memory at a time.
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
        let (mut place, mut wrong) = (start, None);
        self.storage.lines(start, &mut |Line { number, study, body, hash }| {
            place += 1;
            let expected = chain(&previous, number, study, &body);
            if number != place || hash != expected {
                wrong =
                    Some(self.broken(format!("row {place} of the ledger does not match its hash")));
                return ControlFlow::Break(());
            }
            match serde_json::from_str(&body) {
                Ok(entry) => see(Row { number, study, entry, hash: expected }),
                Err(e) => {
                    wrong = Some(self.broken(format!("row {number} of the ledger: {e}")));
                    return ControlFlow::Break(());
                }
            }
            previous = expected;
            ControlFlow::Continue(())
        })?;
        wrong.map_or(Ok(()), Err)
    }

    /// Checks the chain from a mark on, and that every study's checkpoint belongs to its last row.
    fn verify(&mut self, from: Option<Mark>) -> Result<(), StoreError> {
        let mut mark = from.unwrap_or_default();
        self.marked = mark.number;
        self.scan_after(mark.number, mark.head, |row| {
            mark.see(row.number, row.study, &row.entry, row.hash);
        })?;
        (self.rows, self.head, self.releases, self.mark) =
            (mark.number, mark.head, mark.releases, mark);
        let saved = self.storage.heads()?;
        for (study, head) in &saved {
            match self.mark.studies.get(study) {
                Some(study) if study.last[..] == head[..] => {}
                Some(_) => {
                    return Err(self.broken("the checkpoint is not of the ledger's last row"));
                }
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

    /// Goes on with this study if it ever began, or begins it if the budget allows
    /// ([`books::admit`]).
    ///
    /// # Errors
    /// [`StoreError::OverBudget`] and the other reasons of [`books::admit`], and what the file
    /// says.
    pub fn begin(&mut self, opening: &StudyStart) -> Result<OpenStudy, StoreError> {
        self.begin_after(opening, |_, _| Ok(None))
    }

    /// As [`begin`](Self::begin), with somebody asked before anything is written: `reserve` gets
    /// the study's name in another ledger if it has one and the limit if it begins, and returns
    /// that name.
    pub(crate) fn begin_after<E: From<StoreError>>(
        &mut self,
        opening: &StudyStart,
        reserve: impl FnOnce(Option<String>, Option<Limit>) -> Result<Option<String>, E>,
    ) -> Result<OpenStudy, E> {
        let rows = self.headings()?;
        if rows.first().is_some_and(|row| !matches!(row.entry, Entry::Budget { .. })) {
            return Err(self.broken("the ledger does not begin with a budget").into());
        }
        let (number, limit) = match books::admit(&rows, opening)? {
            Admission::GoesOn { number, id } => {
                reserve(Some(id), None)?;
                return Ok(OpenStudy { number, checkpoint: self.checkpoint(number)? });
            }
            Admission::Begins { number, limit } => (number, limit),
        };
        let id = reserve(None, limit)?;
        let time = clock::text(clock::now());
        let mut entries = Vec::new();
        if rows.is_empty() || books::is_replaced(&rows, opening) {
            let (site, time) = (opening.site.clone(), time.clone());
            let rule = limit.map_or(Rule::Sum, |l| l.rule);
            let limit = limit.map(|l| (l.epsilon, l.delta));
            let own = opening.budget.map_or(BudgetOrigin::Study, |_| BudgetOrigin::Site);
            let origin = limit.map(|_| own);
            entries.push((0, Entry::Budget { site, limit, rule, origin, time }));
        }
        let (experiment, graph) =
            (Hex(&opening.experiment).to_string(), Hex(&opening.graph).to_string());
        let claim = opening.claim.clone().map(Box::new);
        let (cost, seeded) = (opening.cost, opening.seeded);
        entries.push((number, Entry::Study { experiment, graph, claim, cost, id, seeded, time }));
        if let Some(Decision { by, hash, time, .. }) = &opening.answers {
            let (by, decision, time) = (*by, hash.clone(), time.clone());
            entries.push((number, Entry::Answers { by, decision, time }));
        }
        self.append(&entries, Vec::new(), None)?;
        Ok(OpenStudy { number, checkpoint: None })
    }

    /// The last checkpoint of a study.
    ///
    /// # Errors
    /// A checkpoint that cannot be read.
    pub fn checkpoint(&self, study: i64) -> Result<Option<Checkpoint>, StoreError> {
        let bytes = self.storage.checkpoint(study)?;
        let Some(bytes) = bytes else { return Ok(None) };
        let bytes = whole(&bytes).ok_or_else(|| self.broken("the checkpoint was damaged"))?;
        let mut saved: Checkpoint =
            postcard::from_bytes(bytes).map_err(|e| self.broken(format!("the checkpoint: {e}")))?;
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

    /// Makes a release durable, with its charge and the state after it: after this, and not before,
    /// `bytes` may be sent. Their BLAKE3.
    ///
    /// # Errors
    /// What the disk says; whether the round was kept is then known only when the file is opened
    /// again.
    pub fn release(
        &mut self,
        study: i64,
        round: u32,
        bytes: &[u8],
        charge: ChargeRow,
        mixed: MixedRounds,
        checkpoint: Checkpoint,
    ) -> Result<Digest, StoreError> {
        let digest = release_hash(bytes);
        let slot = mixed.slot(study, round);
        let entry =
            Entry::Release { round, blake3: Hex(&digest).to_string(), charge, ages: mixed.ages };
        let sent = Outgoing { slot, study, round, bytes };
        self.append(&[(study, entry)], vec![sent], Some((study, checkpoint)))?;
        self.releases += 1;
        self.witness_release(study, round)?;
        Ok(digest)
    }

    /// Makes durable what was put back of a lost state: the charges of the exchanges that the
    /// ledger does not know, what neighbours have of the last ones, and the state after them.
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
            known
                .iter()
                .find(|k| k.0 == round)
                .map_or_else(String::new, |k| Hex(&release_hash(&k.1)).to_string())
        };
        let count = lost.len() as u64;
        let rows = lost.into_iter().map(|(round, charge)| {
            (study, Entry::Release { round, blake3: hash(round), charge, ages: Vec::new() })
        });
        let entries: Vec<(i64, Entry)> =
            rows.chain(restored.into_iter().map(|entry| (study, entry))).collect();
        let kept = known.iter().map(|(round, bytes)| {
            let slot = MixedRounds::default().slot(study, *round);
            Outgoing { slot, study, round: *round, bytes }
        });
        self.append(&entries, kept.collect(), Some((study, checkpoint)))?;
        self.releases += count;
        Ok(())
    }

    /// Makes anything else durable that changes the state.
    ///
    /// # Errors
    /// What the disk says.
    pub fn note(
        &mut self,
        study: i64,
        entry: Entry,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        self.append(&[(study, entry)], Vec::new(), Some((study, checkpoint)))
    }

    /// Makes several rows durable together, with the state after them; without one where nothing
    /// was released.
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
        self.append(&entries, Vec::new(), Some((study, checkpoint)))
    }

    /// Makes durable that a study was given up, and what counts for it.
    ///
    /// # Errors
    /// What the disk says.
    pub fn abandon(&mut self, study: i64, cost: StudyCost) -> Result<(), StoreError> {
        let entry = Entry::Abandoned { cost, time: clock::text(clock::now()) };
        match self.checkpoint(study)? {
            Some(checkpoint) => self.note(study, entry, checkpoint),
            None => self.append(&[(study, entry)], Vec::new(), None),
        }
    }

    /// Releases that neighbours may still need: (round, bytes), oldest first. The bytes are those
    /// that were charged for.
    ///
    /// # Errors
    /// Bytes that do not match the ledger.
    pub fn outbox(&self, study: i64) -> Result<Vec<(u32, Vec<u8>)>, StoreError> {
        let sent = self.storage.outbox(study)?;
        let mut charged = vec![false; sent.len()];
        if !sent.is_empty() {
            let hashes: Vec<Digest> = sent.iter().map(|(_, bytes)| release_hash(bytes)).collect();
            // They are among the last.
            self.back(|row| {
                let Entry::Release { round, blake3, .. } = &row.entry else {
                    return ControlFlow::Continue(());
                };
                for ((known, hash), charged) in sent.iter().zip(&hashes).zip(&mut charged) {
                    *charged |= row.study == study
                        && known.0 == *round
                        && unhex(blake3).is_some_and(|h| h == hash);
                }
                if charged.iter().all(|charged| *charged) {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            })?;
        }
        for ((round, _), charged) in sent.iter().zip(charged) {
            if !charged {
                return Err(self.broken(format!(
                    "the message of round {round} is not the one that was charged"
                )));
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

    /// Adds rows, and with them, in one commit, messages and the state after them.
    fn append(
        &mut self,
        entries: &[(i64, Entry)],
        outbox: Vec<Outgoing<'_>>,
        state: Option<(i64, Checkpoint)>,
    ) -> Result<(), StoreError> {
        let (mut head, mut number) = (self.head, self.rows);
        let mut hashes = Vec::with_capacity(entries.len());
        let mut lines = Vec::with_capacity(entries.len());
        for (study, entry) in entries {
            number += 1;
            let body =
                serde_json::to_string(entry).map_err(|e| self.broken(format!("a new row: {e}")))?;
            head = chain(&head, number, *study, &body);
            hashes.push(head);
            lines.push(Line { number, study: *study, body, hash: head.to_vec() });
        }
        let due = number - self.marked >= marks::EVERY;
        let mut marked = due.then(|| self.mark.clone());
        if let Some(mark) = &mut marked {
            see_all(mark, self.rows, entries, &hashes);
        }
        let mark = marked.as_ref().map(|mark| self.packed(mark)).transpose()?;
        let checkpoint = state.map(|(study, state)| self.saved(study, head, state)).transpose()?;
        self.storage.commit(&Commit { lines, mark, outbox, checkpoint, logged: None })?;
        match marked {
            Some(mark) => (self.marked, self.mark) = (mark.number, mark),
            None => see_all(&mut self.mark, self.rows, entries, &hashes),
        }
        (self.head, self.rows) = (head, number);
        Ok(())
    }

    /// A state as it is kept. The release of the next round is left out: it is in the outbox.
    fn saved(&self, study: i64, head: Digest, mut state: Checkpoint) -> Result<Saved, StoreError> {
        state.take_release();
        let bytes = postcard::to_stdvec(&state)
            .map_err(|e| self.broken(format!("a new checkpoint: {e}")))?;
        Ok(Saved { study, head, bytes: with_sum(&bytes) })
    }
}

/// What stands before a checkpoint that carries a checksum.
const SUMMED: [u8; 4] = *b"cs1:";

/// A checkpoint as it is kept: a disk that turns a bit of it is found out.
fn with_sum(bytes: &[u8]) -> Vec<u8> {
    [&SUMMED[..], &blake3(bytes)[..8], bytes].concat()
}

/// What was kept, if it is whole. Checkpoints of before had no checksum.
fn whole(kept: &[u8]) -> Option<&[u8]> {
    let Some((first, rest)) = kept.split_first_chunk::<4>() else { return Some(kept) };
    let turned: u32 = first.iter().zip(SUMMED).map(|(a, b)| (a ^ b).count_ones()).sum();
    match turned {
        0 => {
            let (sum, bytes) = rest.split_first_chunk::<8>()?;
            (*sum == blake3(bytes)[..8]).then_some(bytes)
        }
        // A bit or two of the four bytes.
        1 | 2 => None,
        _ => Some(kept),
    }
}

/// Has a mark take in rows that follow the one with this number.
fn see_all(mark: &mut Mark, after: i64, entries: &[(i64, Entry)], hashes: &[Digest]) {
    for (number, ((study, entry), hash)) in (after + 1..).zip(entries.iter().zip(hashes)) {
        mark.see(number, *study, entry, *hash);
    }
}

/// SHA-256(hash before ‖ number ‖ study ‖ body).
fn chain(previous: &Digest, number: i64, study: i64, body: &str) -> Digest {
    sha256(&[previous, &number.to_le_bytes(), &study.to_le_bytes(), body.as_bytes()])
}
