//! Whether a neighbour tells different sites different things.
//!
//! Two neighbours A and B of a site J that are neighbours of each other compare what J sent them.
//! With its release of round r + 1 a site sends to each neighbour one hash over what it received in
//! round r from those they have in common. Where two such hashes differ, both send what they
//! received with J's signatures: two statements that J signed about one round with different hashes
//! are a proof, and J is refused with it; a statement without a valid signature makes whoever
//! passed it on the liar. A site that no two neighbours of each other have in common is not watched
//! by this, nor is a release that is a share, which is different for everybody by design. Masked
//! vectors are the same for all neighbours and are compared.

use crate::frame::{Digest, MAX_RECEIPTS, SignedReceipt, blake3};
use crate::release_signature::ReleaseSignature;
use consenso_engine::graph::Graph;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a neighbour sent in a round.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) blake3: Digest,
    pub(crate) signature: ReleaseSignature,
}

/// What was received in the last rounds, by this site and, as a hash, by its neighbours.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    me: u32,
    /// Who is whose neighbour, this site's and theirs.
    graph: BTreeMap<u32, BTreeSet<u32>>,
    /// The neighbours that this site has in common with each of its neighbours.
    common: BTreeMap<u32, Vec<u32>>,
    /// The last round that was compared with each neighbour to the end.
    compared: BTreeMap<u32, u32>,
    /// Neighbours that received something else, and have not said yet what.
    differs: BTreeSet<u32>,
    /// The last round of which each neighbour was shown what came in here: whoever says again that
    /// it has something else is shown nothing more.
    shown: BTreeMap<u32, u32>,
    mine: VecDeque<(u32, BTreeMap<u32, Received>)>,
    theirs: BTreeMap<u32, VecDeque<(u32, Digest)>>,
    /// How many rounds apart neighbours may be beside the one that they always may.
    apart: usize,
}

/// What a neighbour's word about another comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The site signed two different releases of one round.
    Equivocates(u32),
    /// It passed on what the site never signed.
    Slander(u32),
}

impl Watch {
    pub(crate) fn new(graph: &Graph, me: usize, apart: usize) -> Self {
        let of = |j: usize| graph.neighbours(j).iter().copied().collect::<BTreeSet<u32>>();
        let graph = (0..graph.agents()).map(|j| (j as u32, of(j))).collect();
        let mut watch = Self { me: me as u32, graph, apart, ..Self::default() };
        watch.find_common();
        watch
    }

    /// Two sites have become neighbours. What came before is compared no more where one of them has
    /// nothing of it.
    pub(crate) fn join(&mut self, one: u32, other: u32) {
        self.graph.entry(one).or_default().insert(other);
        self.graph.entry(other).or_default().insert(one);
        self.find_common();
    }

    fn find_common(&mut self) {
        let mine = self.graph.get(&self.me).cloned().unwrap_or_default();
        let common = |peer: &u32| {
            let both = mine.intersection(self.graph.get(peer)?).copied().take(MAX_RECEIPTS);
            let both: Vec<u32> = both.collect();
            (!both.is_empty()).then_some((*peer, both))
        };
        self.common = mine.iter().filter_map(common).collect();
    }

    /// A site takes part no more: nobody waits for what it sent to both.
    pub(crate) fn without(&mut self, site: u32) {
        self.graph.remove(&site);
        self.graph.values_mut().for_each(|all| {
            all.remove(&site);
        });
        self.find_common();
        self.differs.remove(&site);
    }

    /// Neighbours with which a round could be compared and was not yet, to the end.
    pub(crate) fn uncompared(&self, round: u32) -> BTreeSet<u32> {
        let open = |peer: &u32| {
            let behind = self.compared.get(peer).is_none_or(|done| *done < round);
            behind && self.summary(*peer, round).is_some()
        };
        self.common.keys().copied().filter(open).chain(self.differs.iter().copied()).collect()
    }

    /// Whether what a site sends is compared with this neighbour.
    pub(crate) fn watches(&self, peer: u32, site: u32) -> bool {
        self.common.get(&peer).is_some_and(|common| common.contains(&site))
    }

    /// Keeps what a neighbour sent. A neighbour can be a round ahead, and another a round behind.
    pub(crate) fn received(&mut self, from: u32, round: u32, received: Received) {
        let index = match self.mine.iter().position(|(r, _)| *r == round) {
            Some(index) => index,
            None => {
                self.mine.push_back((round, BTreeMap::new()));
                if self.mine.len() > 4 + 3 * self.apart {
                    self.mine.pop_front();
                }
                self.mine.len() - 1
            }
        };
        self.mine[index].1.insert(from, received);
    }

    fn of(&self, round: u32) -> Option<&BTreeMap<u32, Received>> {
        self.mine.iter().find(|(r, _)| *r == round).map(|(_, all)| all)
    }

    /// Whether what a neighbour sent in a round is known.
    pub(crate) fn knows(&self, from: u32, round: u32) -> bool {
        self.of(round).is_some_and(|all| all.contains_key(&from))
    }

    /// One hash over what all neighbours in common with `peer` sent in a round; `None` where there
    /// are none, or one of them sent nothing.
    pub(crate) fn summary(&self, peer: u32, round: u32) -> Option<Digest> {
        let (common, all) = (self.common.get(&peer)?, self.of(round)?);
        let mut bytes = Vec::with_capacity(36 * common.len());
        for j in common {
            bytes.extend_from_slice(&j.to_le_bytes());
            bytes.extend_from_slice(&all.get(j)?.blake3);
        }
        Some(blake3(&bytes))
    }

    /// Keeps the summary that a neighbour sent.
    pub(crate) fn heard(&mut self, peer: u32, round: u32, summary: Digest) {
        let all = self.theirs.entry(peer).or_default();
        all.push_back((round, summary));
        if all.len() > 3 + 3 * self.apart {
            all.pop_front();
        }
    }

    /// Neighbours whose summaries of rounds that are complete here differ from this site's, with
    /// the round. Each is named once.
    pub(crate) fn disagreements(&mut self, complete: u32) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        for (peer, all) in std::mem::take(&mut self.theirs) {
            let mut later = VecDeque::new();
            for (round, summary) in all {
                let Some(mine) = self.summary(peer, round).filter(|_| round <= complete) else {
                    if round > complete {
                        later.push_back((round, summary));
                    }
                    continue;
                };
                let compared = self.compared.entry(peer).or_default();
                *compared = round.max(*compared);
                let shown = self.shown.entry(peer).or_default();
                if mine != summary && round > *shown {
                    *shown = round;
                    self.differs.insert(peer);
                    found.push((peer, round));
                }
            }
            self.theirs.insert(peer, later);
        }
        found
    }

    /// What this site received in a round from those it has in common with `peer`.
    pub(crate) fn told(&self, peer: u32, round: u32) -> Vec<SignedReceipt> {
        let (Some(common), Some(all)) = (self.common.get(&peer), self.of(round)) else {
            return Vec::new();
        };
        let one = |&about: &u32| {
            let Received { blake3, signature } = all.get(&about)?.clone();
            Some(SignedReceipt { about, blake3, signature })
        };
        common.iter().filter_map(one).collect()
    }

    /// Compares what `peer` says it received in a round with what this site did. `signed` says
    /// whether a site signed that.
    pub(crate) fn judge(
        &mut self,
        peer: u32,
        round: u32,
        told: &[SignedReceipt],
        signed: impl Fn(&SignedReceipt) -> bool,
    ) -> Vec<Verdict> {
        self.differs.remove(&peer);
        // Its summary of that round says nothing more.
        if let Some(all) = self.theirs.get_mut(&peer) {
            all.retain(|(r, _)| *r != round);
        }
        let compared = self.compared.entry(peer).or_default();
        *compared = round.max(*compared);
        let (Some(common), Some(all)) = (self.common.get(&peer), self.of(round)) else {
            return Vec::new();
        };
        let mut verdicts = Vec::new();
        for told in told.iter().filter(|t| common.contains(&t.about)) {
            match all.get(&told.about) {
                Some(mine) if mine.blake3 != told.blake3 && signed(told) => {
                    verdicts.push(Verdict::Equivocates(told.about));
                }
                Some(mine) if mine.blake3 != told.blake3 => verdicts.push(Verdict::Slander(peer)),
                _ => {}
            }
        }
        verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(hash: u8) -> Received {
        Received {
            blake3: [hash; 32],
            signature: ReleaseSignature { scheme: 0x0807, bytes: vec![hash].into() },
        }
    }

    #[test]
    fn different_words_to_two_neighbours_of_each_other_are_found() {
        let graph = Graph::complete(4).unwrap();
        let mut watch = [Watch::new(&graph, 0, 0), Watch::new(&graph, 1, 0)];
        // Site 3 tells site 0 and site 1 different things in round 2.
        for round in 1..=2 {
            for (me, watch) in watch.iter_mut().enumerate() {
                for from in (0..4).filter(|&j| j as usize != me) {
                    let hash = if (me, from, round) == (1, 3, 2) {
                        99
                    } else {
                        10 * round as u8 + from as u8
                    };
                    watch.received(from, round, received(hash));
                }
            }
        }
        assert_eq!(watch[0].summary(1, 1), watch[1].summary(0, 1));
        for round in 1..=2 {
            let said = watch[1].summary(0, round).unwrap();
            watch[0].heard(1, round, said);
        }
        assert_eq!(watch[0].disagreements(1), [], "round 2 is not complete here");
        assert_eq!(watch[0].disagreements(2), [(1, 2)]);
        assert_eq!(watch[0].disagreements(2), [], "said once");
        // A few bytes again and again were answered with all signatures of the round each time.
        for hash in 0..50 {
            watch[0].heard(1, 2, [hash; 32]);
            assert_eq!(watch[0].disagreements(2), []);
        }
        let told = watch[1].told(0, 2);
        assert_eq!(watch[0].judge(1, 2, &told, |_| true), [Verdict::Equivocates(3)]);
        assert_eq!(watch[0].judge(1, 2, &told, |_| false), [Verdict::Slander(1)]);
    }

    #[test]
    fn on_a_path_nobody_has_a_neighbour_in_common() {
        let mut watch = Watch::new(&Graph::path(3).unwrap(), 1, 0);
        watch.received(0, 1, received(1));
        watch.received(2, 1, received(2));
        assert_eq!((watch.summary(0, 1), watch.told(0, 1).len()), (None, 0));
    }
}
