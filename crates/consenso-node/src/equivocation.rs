//! Whether a neighbour tells different sites different things.
//!
//! Two neighbours A and B of a site J that are neighbours of each other compare what J sent them.
//! With its release of round r + 1 a site sends to each neighbour one hash over what it received in
//! round r from those they have in common. Where two such hashes differ, both send what they
//! received with J's signatures: two statements that J signed about one round with different hashes
//! are a proof, and J is refused with it; a statement without a valid signature makes whoever
//! passed it on the liar. A site that no two neighbours of each other have in common is not watched
//! by this, nor is a release that is a share, which is different for everybody by design.

use crate::frame::{Digest, Told, blake3};
use crate::seal::Seal;
use consenso_engine::graph::Graph;
use std::collections::{BTreeMap, VecDeque};

/// Neighbours in common that are compared at most: what fits one frame.
const MOST: usize = 32;

/// What a neighbour sent in a round.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) blake3: Digest,
    pub(crate) seal: Seal,
}

/// What was received in the last rounds, by this site and, as a hash, by its neighbours.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The neighbours that this site has in common with each of its neighbours.
    common: BTreeMap<u32, Vec<u32>>,
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
        let mine = graph.neighbours(me);
        let common = |&peer: &u32| {
            let theirs = graph.neighbours(peer as usize);
            let both = mine.iter().copied().filter(|j| theirs.binary_search(j).is_ok()).take(MOST);
            (peer, both.collect::<Vec<u32>>())
        };
        let common = mine.iter().map(common).filter(|(_, both)| !both.is_empty()).collect();
        Self { common, apart, ..Self::default() }
    }

    /// A site takes part no more: nobody waits for what it sent to both.
    pub(crate) fn without(&mut self, site: u32) {
        self.common.remove(&site);
        self.common.values_mut().for_each(|both| both.retain(|j| *j != site));
        self.common.retain(|_, both| !both.is_empty());
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
        let mut theirs = std::mem::take(&mut self.theirs);
        for (&peer, all) in &mut theirs {
            all.retain(|&(round, summary)| {
                let Some(mine) = self.summary(peer, round).filter(|_| round <= complete) else {
                    return round > complete;
                };
                if mine != summary {
                    found.push((peer, round));
                }
                false
            });
        }
        self.theirs = theirs;
        found
    }

    /// What this site received in a round from those it has in common with `peer`.
    pub(crate) fn told(&self, peer: u32, round: u32) -> Vec<Told> {
        let (Some(common), Some(all)) = (self.common.get(&peer), self.of(round)) else {
            return Vec::new();
        };
        let one = |&about: &u32| {
            let Received { blake3, seal } = all.get(&about)?.clone();
            Some(Told { about, blake3, seal })
        };
        common.iter().filter_map(one).collect()
    }

    /// Compares what `peer` says it received in a round with what this site did. `signed` says
    /// whether a site signed that.
    pub(crate) fn judge(
        &self,
        peer: u32,
        round: u32,
        told: &[Told],
        signed: impl Fn(&Told) -> bool,
    ) -> Vec<Verdict> {
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
        Received { blake3: [hash; 32], seal: Seal { scheme: 0x0807, signature: vec![hash].into() } }
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
