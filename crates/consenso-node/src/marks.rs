//! Marks in the ledger's chain, so that a start need not read all of it.
//!
//! Every thousand rows the store keeps, in the same transaction, what a start must know of the rows
//! so far: the hash of the last, how many releases there are, which rows are no releases, and what
//! each study has spent. A start takes the newest mark whose row is there with that hash and reads
//! the rows after it, each checked against the one before. What lies before the mark was checked
//! when it was written, and is checked again, row by row, by `node audit`, which takes no mark's
//! word.

use crate::frame::{Digest, sha256};
use crate::spending::Spending;
use crate::store::Entry;
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

/// What a start must know of the rows of one study.
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

    /// Whether the rows since the mark before are enough for another. Ledgers with releases that
    /// draw records are read from where the last one without them ended.
    pub(crate) fn is_due(&self, before: i64) -> bool {
        self.number - before >= EVERY && !self.studies.values().any(|s| s.spending.draws())
    }

    /// The mark as it is kept, and its hash.
    pub(crate) fn packed(&self) -> postcard::Result<(Vec<u8>, Digest)> {
        let body = postcard::to_stdvec(self)?;
        let hash = sha256(&[&body]);
        Ok((body, hash))
    }

    /// The mark that was kept, if it is whole.
    pub(crate) fn unpack(body: &[u8], hash: &[u8]) -> Option<Self> {
        postcard::from_bytes(body).ok().filter(|_| sha256(&[body])[..] == *hash)
    }
}
