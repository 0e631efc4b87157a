//! What a site has released in its study: charged and durable before it leaves, kept to be sent
//! again.

use crate::audit_log::AuditLog;
use crate::frame::Digest;
use crate::spending::{self, ChargeRow, Spending};
use crate::store::{Entry, MixedRounds, Store, StoreError};
use bytes::Bytes;
use consenso_engine::agent::Checkpoint;
use consenso_engine::gate::Charge;
use std::collections::{BTreeSet, VecDeque};

/// A study's part of the ledger, and its last releases.
pub(super) struct Releases {
    store: Store,
    study: i64,
    spending: Spending,
    /// The last releases: (exchange, bytes).
    recent: VecDeque<(u32, Bytes)>,
    /// Sites that the ledger says the run goes on without.
    without: BTreeSet<u32>,
    /// Whether there was one when the process started, or the study was over.
    began_before: bool,
}

impl Releases {
    pub(super) fn new(
        store: Store,
        study: i64,
        recent: VecDeque<(u32, Bytes)>,
        without: BTreeSet<u32>,
        is_over: bool,
    ) -> Self {
        let (spending, began_before) = (store.spent(study), is_over || !recent.is_empty());
        Self { store, study, spending, recent, without, began_before }
    }

    /// Whether the ledger had a release of this study when the process started.
    pub(super) fn began_before(&self) -> bool {
        self.began_before
    }

    /// The last exchange that was released.
    pub(super) fn last(&self) -> u32 {
        self.recent.back().map_or(0, |last| last.0)
    }

    /// The bytes of an exchange, while they are kept.
    pub(super) fn of(&self, exchange: u32) -> Option<&Bytes> {
        self.recent.iter().find(|kept| kept.0 == exchange).map(|kept| &kept.1)
    }

    /// The exchanges after one that are kept.
    pub(super) fn after(&self, exchange: u32) -> Vec<u32> {
        self.recent.iter().map(|kept| kept.0).filter(|&kept| kept > exchange).collect()
    }

    /// Makes a release durable: its charge, its bytes and the state after it, in one transaction.
    pub(super) fn commit(
        &mut self,
        exchange: u32,
        bytes: Bytes,
        charge: &Charge,
        mixed: MixedRounds,
        checkpoint: Checkpoint,
    ) -> Result<Committed, StoreError> {
        let charge = spending::row(charge);
        self.spending.add(&charge);
        let kept = 2 + mixed.oldest as usize;
        let blake3 =
            self.store.release(self.study, exchange, &bytes, charge.clone(), mixed, checkpoint)?;
        self.recent.push_back((exchange, bytes));
        while self.recent.len() > kept {
            self.recent.pop_front();
        }
        Ok(Committed { blake3, charge, ledger: *self.store.head() })
    }

    /// Makes something else durable that the ledger must know.
    pub(super) fn note(&mut self, entry: Entry, checkpoint: Checkpoint) -> Result<(), StoreError> {
        self.store.note(self.study, entry, checkpoint)
    }

    /// As [`note`](Self::note), several rows in one transaction.
    pub(super) fn note_all(
        &mut self,
        entries: Vec<Entry>,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        self.store.note_all(self.study, entries, checkpoint)
    }

    /// Makes durable that the run goes on without a site.
    pub(super) fn note_without(
        &mut self,
        site: u32,
        entry: Entry,
        checkpoint: Checkpoint,
    ) -> Result<(), StoreError> {
        self.note(entry, checkpoint)?;
        self.without.insert(site);
        Ok(())
    }

    /// Whether the ledger says that the run goes on without a site.
    pub(super) fn are_without(&self, site: u32) -> bool {
        self.without.contains(&site)
    }

    /// Keeps now and then that the audit log has all releases so far.
    pub(super) fn log_is_whole(&mut self, audit: &AuditLog) -> Result<(), StoreError> {
        self.store.log_is_whole(audit)
    }

    /// Up to which exchange nothing that is released uses a record.
    pub(super) fn spared_until(&self) -> Result<u32, StoreError> {
        Ok(crate::studies::spared_until(&self.store.headings()?, self.study))
    }

    /// Whether a witness has counted them.
    pub(super) fn are_witnessed(&self) -> bool {
        self.store.is_witnessed()
    }

    /// The study's number in the ledger.
    pub(super) fn study(&self) -> i64 {
        self.study
    }

    /// The hash of the ledger's last row.
    pub(super) fn head(&self) -> Digest {
        *self.store.head()
    }

    /// What they have cost so far, at this δ.
    pub(super) fn epsilon(&self, delta: f64) -> f64 {
        self.spending.epsilon(delta)
    }
}

/// A release that is durable.
pub(super) struct Committed {
    pub(super) blake3: Digest,
    pub(super) charge: ChargeRow,
    /// The hash of its row.
    pub(super) ledger: Digest,
}
