//! What honest sites of a simulation say, held against their ledgers at every frame.

use super::liar::Liar;
use crate::frame::{Digest, Frame, Hello, Hex, release_hash};
use crate::lying_peers::Actor;
use crate::storage::memory::Memory;
use bytes::Bytes;
use rand::RngExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// The exchange of a release, and for whom it is if it is for one alone.
pub(super) fn place_of(bytes: &Bytes) -> Option<(u32, Option<u32>)> {
    match Frame::decode(bytes) {
        Ok(Frame::Release { round, .. }) => Some((round, None)),
        Ok(Frame::Words { round, to, .. }) => Some((round, Some(to))),
        Ok(Frame::Masked { exchange, .. } | Frame::Passed { exchange, .. }) => {
            Some((exchange, None))
        }
        _ => None,
    }
}

/// A site, an exchange, and a receiver, if a message is for one alone.
type Said = (usize, u32, Option<u32>);

/// Every version of what was said, with those who have it.
type Versions = Vec<(Digest, BTreeSet<usize>)>;

/// What honest sites said, and what was wrong with it.
#[derive(Debug)]
pub(super) struct Recorder {
    pub(super) ledgers: Vec<Memory>,
    /// What was heard of honest sites, by whom: by site, exchange and receiver, if it is for one
    /// alone, every version with those who have it.
    pub(super) said: Mutex<BTreeMap<Said, Versions>>,
    pub(super) liar: Option<usize>,
    /// Whose disk forgets, if nobody counts its releases elsewhere.
    pub(super) forgetful: Option<usize>,
    /// What a site may say anew, for it uses no record there: from this exchange on, to that one.
    pub(super) spared: Mutex<BTreeMap<usize, (u32, u32)>>,
    pub(super) violations: Mutex<Vec<String>>,
}

impl Recorder {
    pub(super) fn violated(&self, what: String) {
        self.violations.lock().expect("no panic while it was held").push(what);
    }

    /// A frame of an honest site leaves.
    pub(super) fn leaves(&self, site: usize, bytes: &Bytes) {
        if let Some((round, _)) = place_of(bytes)
            && !self.is_charged(site, round, bytes)
        {
            self.violated(format!("site {site} sends exchange {round} uncharged"));
        }
    }

    /// A frame of an honest site has come in somewhere. What reached nobody harms nobody.
    pub(super) fn arrives(&self, site: usize, at: usize, bytes: &Bytes) {
        let Some((round, to)) = place_of(bytes).filter(|_| Some(site) != self.liar) else { return };
        let hash = release_hash(bytes);
        let mut said = self.said.lock().expect("no panic while it was held");
        let versions = said.entry((site, round, to)).or_default();
        if let Some((_, have)) = versions.iter_mut().find(|(known, _)| *known == hash) {
            have.insert(at);
            return;
        }
        let hidden = versions.iter().all(|(_, have)| have.iter().all(|j| Some(*j) == self.liar));
        let first = versions.is_empty();
        versions.push((hash, BTreeSet::from([at])));
        let spared = self.spared.lock().expect("no panic while it was held");
        let spares = spared.get(&site).is_some_and(|(from, to)| (*from..=*to).contains(&round));
        // Without a witness nobody but the liar knows what the disk forgot.
        let unknown = hidden && self.forgetful == Some(site);
        if !first && !spares && !unknown {
            self.violated(format!(
                "site {site} says exchange {round} to {to:?} twice, differently"
            ));
        }
    }

    fn is_charged(&self, site: usize, round: u32, part: &[u8]) -> bool {
        let tables = self.ledgers[site].tables();
        tables.outbox.values().filter(|(_, kept, _)| *kept == round).any(|(_, _, all)| {
            let hash = Hex(&release_hash(all)).to_string();
            let charged = tables.lines.values().rev().any(|line| line.body.contains(&hash));
            charged && all.windows(part.len()).any(|window| window == part)
        })
    }
}

/// An honest site, watched; its signer may fail.
#[derive(Debug)]
pub(super) struct Honest {
    pub(super) site: usize,
    pub(super) recorder: Arc<Recorder>,
    pub(super) failing: u32,
    pub(super) chance: Mutex<consenso_engine::random::Stream>,
}

impl Actor for Honest {
    fn frame(&self, _: u32, bytes: Bytes) -> Vec<Bytes> {
        self.recorder.leaves(self.site, &bytes);
        vec![bytes]
    }

    fn hears(&self, peer: u32, bytes: &Bytes) {
        self.recorder.arrives(peer as usize, self.site, bytes);
    }

    fn signs(&self) -> bool {
        let mut chance = self.chance.lock().expect("no panic while it was held");
        chance.random_range(0..1000) >= self.failing
    }
}

/// A site that lies, of which only what it hears is watched.
#[derive(Debug)]
pub(super) struct Lying {
    pub(super) site: usize,
    pub(super) liar: Arc<Liar>,
    pub(super) recorder: Arc<Recorder>,
}

impl Actor for Lying {
    fn hello(&self, hello: Hello) -> Hello {
        self.liar.hello(hello)
    }

    fn release(&self, peer: u32, round: u32, bytes: Bytes) -> Vec<(u32, Bytes)> {
        self.liar.release(peer, round, bytes)
    }

    fn frame(&self, peer: u32, bytes: Bytes) -> Vec<Bytes> {
        self.liar.frame(peer, bytes)
    }

    fn hears(&self, peer: u32, bytes: &Bytes) {
        self.recorder.arrives(peer as usize, self.site, bytes);
        self.liar.hears(peer, bytes);
    }
}
