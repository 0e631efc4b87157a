//! What passes over links: who is there, what each neighbour sends, and what it is sent.

use super::{Line, Neighbour, Node, SIGN_OF_LIFE};
use crate::edges::{EdgeError, Edges};
use crate::error::NodeError;
use crate::frame::{Frame, Hex, VERSION_BEFORE, blake3};
use crate::identity::Identity;
use crate::link::LinkEvent;
use crate::seal::{Seal, Sealer, Statement};
use crate::store::Entry;
use bytes::Bytes;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What stands before a neighbour's own reason to leave.
const THEIR_WORDS: &str = "it said: ";

/// What is said of a frame that has no business here.
const OUT_OF_PLACE: &str = "a frame out of place";

impl Node {
    pub(super) fn take(&mut self, event: LinkEvent) -> Result<(), NodeError> {
        match event {
            LinkEvent::Up { peer, link, have, version, outgoing } => {
                self.up(peer, link, (have, version), outgoing)?;
            }
            LinkEvent::Down { peer, link } => {
                if let Some(n) = self.neighbours.get_mut(&peer)
                    && n.outgoing.as_ref().is_some_and(|o| o.0 == link)
                {
                    n.outgoing = None;
                    n.lost.get_or_insert_with(Instant::now);
                    let name = n.name.clone();
                    self.write_log();
                    self.shared.audit.of_peer("link-down", &name, json!({ "peer": name }));
                }
            }
            LinkEvent::Frame { peer, link, frame, bytes } => {
                self.frame(peer, link, frame, bytes)?;
            }
        }
        Ok(())
    }

    fn up(
        &mut self,
        peer: u32,
        link: u64,
        (have, version): (u32, u16),
        outgoing: mpsc::Sender<Bytes>,
    ) -> Result<(), NodeError> {
        let gone = self.agent.away().into_iter().find(|a| a.0 == peer);
        self.write_log();
        let Some(n) = self.neighbours.get_mut(&peer) else { return Ok(()) };
        // Before an edge begins neither end has anything of the other.
        let first = self.agent.joined().into_iter().find(|j| j.0 == peer).map_or(0, |j| j.1);
        let have = if have < first { 0 } else { have };
        if let Some((_, since)) = gone {
            let reason = format!("the run went on without {} from round {since}", n.name);
            self.shared.audit.refused(&n.name, &reason);
            drop(outgoing.try_send(Frame::Refused(reason).encode()));
            return Ok(());
        }
        if let Some(reason) = &n.banned {
            self.shared.audit.refused(&n.name, reason);
            drop(outgoing.try_send(Frame::Refused(reason.clone()).encode()));
            return Ok(());
        }
        // Keys may be replaced while a node runs; the newest handshake showed the newest.
        if let Ok(sealer) = Identity::read(&self.shared.folder.path).and_then(|i| Sealer::new(&i)) {
            self.sealer = sealer;
            self.seals.clear();
        }
        let key = self.shared.key_of(peer).map(|key| Hex(&key).to_string());
        self.shared.audit.of_peer(
            "link-up",
            &n.name,
            json!({ "peer": n.name, "have": have, "key": key }),
        );
        (n.spoke, n.version, n.seal) = (Instant::now(), version, None);
        // It has an exchange when it has this site's part of it, which was durable here before it
        // left; or when it went on without this site, and says so next.
        n.ahead = (have > self.recent.back().map_or(0, |r| r.0)).then(|| (Instant::now(), have));
        n.outgoing = Some((link, outgoing));
        if let Some((round, blake3, seal)) =
            n.last.clone().filter(|_| version > VERSION_BEFORE && n.ahead.is_none())
        {
            self.send(peer, Frame::Yours { round, blake3, seal }.encode());
        }
        let n = self.neighbours.get_mut(&peer).expect("a neighbour");
        if n.ahead.is_some() {
            return Ok(());
        }
        if !self.agreed.held.is_empty() {
            if version <= VERSION_BEFORE {
                self.refuse(peer, "its consenso is too old for a study whose sites have changed");
                return Ok(());
            }
            let (number, hash) = self.agreed.last();
            self.send(peer, Frame::Agreed { number, hash }.encode());
        }
        let Some(n) = self.neighbours.get_mut(&peer) else { return Ok(()) };
        n.acked = n.acked.max(have);
        n.ever_up = true;
        // What it said when it left is over when it is back; what was wrong with what it sent is
        // not.
        n.refused = n.refused.take().filter(|reason| !reason.starts_with(THEIR_WORDS));
        if n.refused.is_none() {
            n.lost = None;
        }
        if let Some(edges) = &mut self.edges {
            match edges.offer(peer) {
                Ok(_) if version <= VERSION_BEFORE => {
                    self.refuse(peer, "its consenso is too old to agree on the secret of an edge");
                    return Ok(());
                }
                Ok(offer) => {
                    self.send(peer, offer.encode());
                }
                Err(error) => return Err(NodeError::Experiment(error.to_string())),
            }
        }
        let rounds: Vec<u32> =
            self.recent.iter().map(|r| r.0).filter(|&round| round > have).collect();
        for round in rounds {
            self.send_release(peer, round);
        }
        if self.done.is_some() {
            self.send(peer, Frame::Ack { round: self.agent.mark() }.encode());
            self.part(peer)?;
        }
        if self.complete.is_none() && self.neighbours.values().all(|n| n.outgoing.is_some()) {
            self.complete = Some(Instant::now());
        }
        Ok(())
    }

    fn frame(&mut self, peer: u32, link: u64, frame: Frame, bytes: Bytes) -> Result<(), NodeError> {
        let last = self.agent.last();
        let Some(n) = self.neighbours.get_mut(&peer) else { return Ok(()) };
        if n.outgoing.as_ref().is_none_or(|o| o.0 != link) {
            // Of a link that a newer one has replaced; what it said comes again.
            return Ok(());
        }
        n.spoke = Instant::now();
        if let Frame::Yours { round, blake3, seal } = frame {
            return self.reminded(peer, round, blake3, &seal);
        }
        if let Frame::Agreed { number, hash } = frame {
            self.agreed_there(peer, number, hash);
            return Ok(());
        }
        if let Frame::Agreement(text) = &frame {
            return self.agreed_elsewhere(peer, text);
        }
        let Some(n) = self.neighbours.get_mut(&peer) else { return Ok(()) };
        if n.ahead.is_some() && !matches!(frame, Frame::Refused(_)) {
            self.doubt_who_is_ahead(Duration::ZERO);
            return Ok(());
        }
        match frame {
            Frame::Release { round, .. }
            | Frame::Words { round, .. }
            | Frame::Masked { exchange: round, .. }
                if n.version > VERSION_BEFORE
                    && n.seal.as_ref().is_none_or(|seal| seal.0 != round) =>
            {
                self.refuse(peer, "a release without its signature");
            }
            Frame::Release { .. } | Frame::Words { .. } | Frame::Masked { .. } => {
                match self.agent.take(peer, frame, &mut n.largest) {
                    Ok(round) => {
                        let seal = n.seal.take().map(|seal| seal.1);
                        (n.lost, n.refused, n.suspected) = (None, None, None);
                        n.acked = n.acked.max(round.saturating_sub(1 + self.agent.staleness()));
                        // The same again is no news, and must not fill the disk.
                        if round > n.heard {
                            n.heard = round;
                            if let (Some(held), Some(seal)) = (&self.held, &seal) {
                                // Before anything is answered: what this site has gone on from, it
                                // can give back. A full disk stops it at its next release.
                                let _ = held.keep(peer, round, &bytes, seal);
                            }
                            self.log.push(Line::Received { peer, round, bytes, seal });
                        }
                    }
                    Err(reason) => self.refuse(peer, &reason.to_string()),
                }
            }
            Frame::Ack { round } if round <= last => n.acked = n.acked.max(round),
            Frame::Bye => n.bye = true,
            Frame::Seal { round, seal } if n.version > VERSION_BEFORE => {
                n.seal = Some((round, seal));
            }
            Frame::Heard { round, summary } if n.version > VERSION_BEFORE => {
                self.watch.heard(peer, round, summary);
            }
            Frame::Told { round, all } if n.version > VERSION_BEFORE => {
                self.told(peer, round, &all);
            }
            Frame::Lost if n.version > VERSION_BEFORE => self.give_back(peer),
            Frame::EdgeKey { public, proof } => {
                self.agree(peer, |edges| edges.answer(peer, &public, proof));
            }
            Frame::EdgeSame { proof } => {
                self.agree(peer, |edges| edges.same(peer, &proof).map(|()| None));
            }
            Frame::Farewell { head } if n.version > VERSION_BEFORE => {
                if !std::mem::replace(&mut n.bye, true) {
                    let line = json!({ "peer": n.name, "ledger": Hex(&head).to_string() });
                    self.write_log();
                    self.shared.audit.write("farewell", line);
                }
            }
            Frame::Refused(reason) => {
                (n.outgoing, n.ahead) = (None, None);
                n.refused.get_or_insert_with(|| format!("{THEIR_WORDS}{reason}"));
                n.lost.get_or_insert_with(Instant::now);
                let (name, reason) = (n.name.clone(), format!("it refused: {reason}"));
                self.write_log();
                self.shared.audit.refused(&name, &reason);
            }
            _ => self.refuse(peer, OUT_OF_PLACE),
        }
        self.follow_others()?;
        self.part(peer)
    }

    /// Goes on with agreeing on the secret of an edge. Whose secrets are gone because its study is
    /// over needs none; a study that never had any has no place for them.
    fn agree(
        &mut self,
        peer: u32,
        step: impl FnOnce(&mut Edges) -> Result<Option<Frame>, EdgeError>,
    ) {
        let Some(edges) = &mut self.edges else {
            if self.done.is_none() {
                self.refuse(peer, OUT_OF_PLACE);
            }
            return;
        };
        match step(edges) {
            Ok(answer) => {
                if let Some(secret) = edges.confirmed().find(|c| c.0 == peer) {
                    self.agent.agree(peer, &secret.1);
                }
                if let Some(answer) = answer {
                    self.send(peer, answer.encode());
                }
            }
            Err(error) => self.refuse(peer, &error.to_string()),
        }
    }

    /// A neighbour lost its state: it gets what this site has of it, which only its own signature
    /// makes worth anything.
    fn give_back(&mut self, peer: u32) {
        self.write_log();
        let kept = self.held.as_ref().map(|held| held.of(peer)).unwrap_or_default();
        let (name, rounds) =
            (&self.neighbours[&peer].name, kept.iter().map(|k| k.0).collect::<Vec<_>>());
        self.shared.audit.of_peer("gave-back", name, json!({ "peer": name, "rounds": rounds }));
        if kept.is_empty() {
            self.send(peer, Frame::Kept { left: 0, release: None }.encode());
        }
        let mut left = kept.len() as u8;
        for (_, seal, bytes) in kept {
            left -= 1;
            self.send(peer, Frame::Kept { left, release: Some((seal, bytes)) }.encode());
        }
    }

    /// Says goodbye to a neighbour that has everything, once this node has too. It may be gone for
    /// good after that, so what it said is made durable first: after a crash nobody would be there
    /// to say it again.
    pub(super) fn part(&mut self, peer: u32) -> Result<(), NodeError> {
        let last = self.agent.last();
        let n = self.neighbours.get_mut(&peer).expect("a neighbour");
        if self.done.is_none() || n.acked < last {
            return Ok(());
        }
        if !std::mem::replace(&mut n.confirmed, true) {
            let entry = Entry::Confirmed { round: last, neighbour: peer };
            self.store.note(self.study, entry, self.agent.checkpoint())?;
        }
        let old = self.neighbours[&peer].version <= VERSION_BEFORE;
        let head = *self.store.head();
        self.send(peer, if old { Frame::Bye } else { Frame::Farewell { head } }.encode());
        Ok(())
    }

    /// Tells a peer why, and ends the link; the algorithm never saw what it sent.
    pub(super) fn refuse(&mut self, peer: u32, reason: &str) {
        self.write_log();
        let Some(n) = self.neighbours.get_mut(&peer) else { return };
        self.shared.audit.refused(&n.name, reason);
        if let Some((_, outgoing)) = n.outgoing.take() {
            drop(outgoing.try_send(Frame::Refused(reason.to_owned()).encode()));
        }
        n.refused = Some(reason.to_owned());
        n.lost.get_or_insert_with(Instant::now);
    }

    /// Puts a frame on the link, if there is one. A peer that does not read fast enough for three
    /// frames is as good as away.
    pub(super) fn send(&mut self, peer: u32, bytes: Bytes) -> bool {
        let Some(n) = self.neighbours.get_mut(&peer).filter(|n| n.ahead.is_none()) else {
            return false;
        };
        let sent =
            n.outgoing.as_ref().is_some_and(|(_, outgoing)| outgoing.try_send(bytes).is_ok());
        if !sent {
            n.outgoing = None;
            n.lost.get_or_insert_with(Instant::now);
        }
        sent
    }

    pub(super) fn send_release(&mut self, peer: u32, round: u32) {
        if self.agent.joined().iter().any(|&(j, first)| j == peer && round < first) {
            return;
        }
        let all = self.recent.iter().find(|r| r.0 == round).map(|r| &r.1);
        let Some(bytes) = all.and_then(|bytes| self.agent.part(peer, bytes)) else { return };
        #[cfg(test)]
        let bytes = crate::liars::told(self.lie, peer, bytes);
        if self
            .neighbours
            .get(&peer)
            .is_some_and(|n| n.version > VERSION_BEFORE && n.outgoing.is_some())
        {
            let Some(seal) = self.seal(peer, round, &bytes) else { return };
            self.send(peer, Frame::Seal { round, seal }.encode());
        }
        if self.send(peer, bytes)
            && let Some(n) = self.neighbours.get_mut(&peer)
        {
            if n.sent >= round {
                self.progress.set(|p| p.resends += 1);
            }
            n.sent = n.sent.max(round);
        }
    }

    /// This site's signature under what it sends to a neighbour.
    fn seal(&mut self, peer: u32, round: u32, bytes: &[u8]) -> Option<Seal> {
        let blake3 = blake3(bytes);
        if let Some((_, seal)) = self.seals.iter().find(|(known, _)| *known == blake3) {
            return Some(seal.clone());
        }
        let to = self.agent.is_addressed().then_some(peer);
        let from = self.shared.folder.me as u32;
        let said = Statement { study: self.shared.folder.study, from, to, round, blake3 };
        let seal = self.sealer.sign(&said.bytes())?;
        self.seals.push_back((blake3, seal.clone()));
        while self.seals.len() > 2 * self.neighbours.len().max(1) {
            self.seals.pop_front();
        }
        Some(seal)
    }

    /// A site that waits for others says so to those who wait for it, so that silence means what it
    /// seems to mean.
    pub(super) fn tell_those_who_wait(&mut self) {
        // One that is done is waited for under masks alone: whoever is still in the last round may
        // have to begin it again without somebody.
        let done = self.done.is_some();
        if (done && !self.agent.is_masked()) || self.sign_of_life.elapsed() < SIGN_OF_LIFE {
            return;
        }
        self.sign_of_life = Instant::now();
        if !done && self.agent.awaited().is_empty() && self.agreed.waits.is_none() {
            return;
        }
        let round = if done { self.agent.mark() } else { self.shared.have.load(Ordering::Acquire) };
        let ack = Frame::Ack { round }.encode();
        let waits = |n: &Neighbour| n.outgoing.is_some() && !(done && n.bye);
        let linked: Vec<u32> =
            self.neighbours.iter().filter(|(_, n)| waits(n)).map(|(&j, _)| j).collect();
        for peer in linked {
            self.send(peer, ack.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::graph_digest;
    use crate::frame::{self, Hello};
    use crate::link::tests_api::dial;
    use crate::node::tests::{experiment, two};
    use crate::node::{Options, run};
    use consenso_engine::random::Seed;
    use consenso_engine::simulate::{Faults, over_messages};
    use tokio::runtime::Builder;

    /// What an authenticated neighbour may send and must not reach the algorithm; then the honest
    /// one comes.
    #[test]
    fn bad_messages_of_a_neighbour_are_refused_audited_and_leave_the_run_alone() {
        let root = std::env::temp_dir().join(format!("consenso-node-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let [a, b] = two(&root);
        let (mine, hers) = (experiment(), experiment());
        let here = a.clone();
        let node = std::thread::spawn(move || run(&here, &mine, &Options::default()));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let hello = |have| {
            let graph = graph_digest(hers.graph());
            Frame::Hello(Hello {
                version: VERSION_BEFORE,
                experiment: b.study,
                graph,
                from: 1,
                to: 0,
                have,
            })
            .encode()
        };
        for (bytes, reason) in [
            (frame::release(1, 1, &[0.0, f64::NAN, 0.0]), "not finite at index 1"),
            (frame::release(1, 1, &[0.0, 1e13, 0.0]), "beyond 1e12 at index 1"),
            (
                frame::release(1, 1, &[0.0, 1e9, 0.0]),
                "out of range: the number at index 1 is beyond",
            ),
            (frame::release(1, 1, &[0.0, 1.0]), "2 numbers, not 3"),
            (frame::release(1, 3, &[0.0; 3]), "can only be in round 1 or the next"),
            (frame::release(1, 0, &[0.0; 3]), "round 0 from agent 1"),
            (frame::release(0, 1, &[0.0; 3]), "a release of agent 0 on the edge to agent 1"),
            (hello(0), "a frame out of place"),
            (Frame::Ack { round: 99 }.encode(), OUT_OF_PLACE),
            (Frame::EdgeKey { public: [9; 32], proof: None }.encode(), OUT_OF_PLACE),
            (Frame::EdgeSame { proof: [9; 32] }.encode(), OUT_OF_PLACE),
        ] {
            runtime.block_on(async {
                let said =
                    tokio::time::timeout(Duration::from_secs(30), dial(&b, 0, &hello(0), &bytes))
                        .await;
                let said = said.expect("in time");
                assert!(said.contains(reason), "{reason}: {said}");
            });
        }
        drop(run(&b, &hers, &Options::default()).unwrap());
        let outcome = node.join().unwrap().unwrap();
        let agents = (0..2).map(|i| hers.site(i).unwrap().agent).collect();
        let neighbours = |i: usize| vec![1 - i as u32];
        let (agents, _) =
            over_messages(agents, neighbours, &Faults::default(), &Seed::from(1)).unwrap();
        assert_eq!(outcome.model.as_deref(), agents[0].model());
        let log = std::fs::read_to_string(root.join("a/audit.jsonl")).unwrap();
        assert!(log.contains("not finite at index 1") && log.contains("\"refused\""), "{log}");
        // A copy of the ledger from before the last round is not taken for the ledger.
        let log = std::fs::read_to_string(root.join("a/audit.jsonl")).unwrap();
        let more = log.lines().rfind(|line| line.contains("\"released\"")).unwrap();
        let ledger = serde_json::from_str::<serde_json::Value>(more).unwrap()["ledger"]
            .as_str()
            .unwrap()
            .to_owned();
        std::fs::write(
            root.join("a/audit.jsonl"),
            format!("{log}{}\n", more.replace(&ledger, &"0".repeat(64))),
        )
        .unwrap();
        let refused = run(&a, &experiment(), &Options::default()).unwrap_err();
        assert!(matches!(refused, NodeError::LedgerOld(_)) && refused.is_input(), "{refused}");
        std::fs::write(root.join("a/audit.jsonl"), log).unwrap();
        // Started again, a study that is settled ends at once.
        let began = Instant::now();
        let again = run(&a, &experiment(), &Options::default()).unwrap();
        assert_eq!(again.model, outcome.model);
        assert!(again.unconfirmed.is_empty() && began.elapsed() < Duration::from_secs(20));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
