//! Marks in the ledger's chain, so that a start need not read all of it.
//!
//! Every thousand rows the store keeps, in the same transaction, what a start must know of the rows so far: the hash of the last, how many releases there are, which rows are no releases, and what each
//! study has spent. A start takes the newest mark whose row is there with that hash and reads the rows after it, each checked against the one before. What lies before the mark was checked when it was
//! written, and is checked again, row by row, by `node audit`, which takes no mark's word.

use crate::frame::{Digest, sha256};
use crate::spending::Spending;
use crate::store::Entry;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Rows between two marks.
pub(crate) const EVERY: i64 = 1000;

/// What a start must know of all rows up to one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The last row.
    pub(crate) number: i64,
    /// Its hash.
    pub(crate) head: Digest,
    /// How many releases there are.
    pub(crate) releases: u64,
    /// Rows that are no releases, with their hashes.
    pub(crate) headings: Vec<(i64, Digest)>,
    /// By study.
    pub(crate) studies: BTreeMap<i64, StudyMark>,
}

/// The same of one study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StudyMark {
    /// The hash of its last row.
    pub(crate) last: Digest,
    /// Whether it has released anything.
    pub(crate) released: bool,
    /// What its releases cost, by bounds that add up.
    pub(crate) spending: Spending,
}

impl Mark {
    /// Takes in the next row.
    pub(crate) fn see(&mut self, number: i64, study: i64, entry: &Entry, hash: Digest) {
        (self.number, self.head) = (number, hash);
        let new = || StudyMark { last: hash, released: false, spending: Spending::new() };
        let study = self.studies.entry(study).or_insert_with(new);
        study.last = hash;
        match entry {
            Entry::Release { charge, .. } => {
                self.releases += 1;
                study.released = true;
                study.spending.add(charge);
            }
            _ => self.headings.push((number, hash)),
        }
    }

    /// Whether the rows since the mark before are enough for another.
    pub(crate) fn is_due(&self, before: i64) -> bool {
        self.number - before >= EVERY
    }

    /// Keeps the mark in the place of the one before.
    pub(crate) fn save(&self, db: &Connection) -> rusqlite::Result<()> {
        let body =
            postcard::to_stdvec(self).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        let hash = sha256(&[&body]);
        db.execute_batch(MAKE)?;
        db.execute(
            "INSERT OR REPLACE INTO mark (place, body, hash) VALUES (0, ?1, ?2)",
            params![body, hash],
        )?;
        Ok(())
    }

    /// The mark that was kept, if it is whole and its row is in the ledger.
    pub(crate) fn load(db: &Connection) -> Option<Self> {
        let kept = db.query_row("SELECT body, hash FROM mark WHERE place = 0", [], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Vec<u8>>(1)?))
        });
        let (body, hash) = kept.ok()?;
        let mark: Self = postcard::from_bytes(&body).ok().filter(|_| sha256(&[&body])[..] == hash[..])?;
        let there: Option<Vec<u8>> = db
            .query_row("SELECT hash FROM ledger WHERE number = ?1", [mark.number], |row| row.get(0))
            .optional()
            .ok()?;
        (there? == mark.head).then_some(mark)
    }
}

const MAKE: &str =
    "CREATE TABLE IF NOT EXISTS mark (place INTEGER PRIMARY KEY, body BLOB NOT NULL, hash BLOB NOT NULL);
     CREATE TABLE IF NOT EXISTS logged (place INTEGER PRIMARY KEY, row INTEGER NOT NULL, length INTEGER NOT NULL);";

/// Up to which row the audit log is known to be whole, and how long it was then; nothing is known at first.
pub(crate) fn logged(db: &Connection) -> (i64, u64) {
    let kept = db.query_row("SELECT row, length FROM logged WHERE place = 0", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    });
    kept.map_or((0, 0), |(row, length)| (row, length.unsigned_abs()))
}

/// Keeps that the audit log has all releases up to this row, and is this long.
pub(crate) fn keep_logged(db: &Connection, row: i64, length: u64) -> rusqlite::Result<()> {
    db.execute_batch(MAKE)?;
    db.execute(
        "INSERT OR REPLACE INTO logged (place, row, length) VALUES (0, ?1, ?2)",
        params![row, length as i64],
    )?;
    Ok(())
}
