//! What passes over links: who is there, what each neighbour sends, and what it is sent.

use super::origins::Origins;
use super::{Line, Neighbour, Node, SIGN_OF_LIFE};
use crate::edges::{EdgeError, Edges};
use crate::equivocation::Received;
use crate::error::NodeError;
use crate::frame::{Digest, Frame, Hex, release_hash, sha256};
use crate::identity::Identity;
use crate::link::LinkEvent;
use crate::release_signature::{ReleaseSignature, ReleaseSigner, ReleaseStatement, SignError};
use crate::store::Entry;
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What stands before a neighbour's own reason to leave.
const THEIR_WORDS: &str = "it said: ";

/// Pause before a signature is asked for again: doubles from the first to the last.
const SIGN_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// What waits for a signature of this site's.
#[derive(Debug, Default)]
pub(super) struct Unsigned {
    /// Releases, by receiver and exchange.
    waiting: BTreeSet<(u32, u32)>,
    next: Option<Instant>,
    pause: Duration,
    /// Since when the signer fails, and what it says.
    pub(super) since: Option<Instant>,
    pub(super) reason: String,
}

/// In the place of a round: the summary is that of the model.
const MODEL: u32 = u32::MAX;

/// What is said of a frame that has no business here.
const OUT_OF_PLACE: &str = "a frame out of place";

impl Node {
    pub(super) fn take(&mut self, event: LinkEvent) -> Result<(), NodeError> {
        match event {
            LinkEvent::Up { peer, link, have, outgoing } => {
                self.up(peer, link, have, outgoing)?;
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
        have: u32,
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
        if let Ok(release_signer) =
            Identity::read(&self.shared.folder.path).and_then(|i| ReleaseSigner::new(&i))
        {
            self.release_signer = release_signer;
            self.signatures.clear();
        }
        let key = self.shared.key_of(peer).map(|key| Hex(&key).to_string());
        self.shared.audit.of_peer(
            "link-up",
            &n.name,
            json!({ "peer": n.name, "have": have, "key": key }),
        );
        (n.spoke, n.signature) = (Instant::now(), None);
        (n.has_spoken, n.said_goodbye) = (false, false);
        // It said before that it has more, durably.
        if have < n.acked && !n.confirmed && !self.agent.is_masked() {
            let (name, before) = (n.name.clone(), n.acked);
            self.shared.audit.of_peer(
                "went-back",
                &name,
                json!({ "peer": name, "have": have, "before": before }),
            );
            self.progress.set(|p| p.went_back += 1);
        }
        // It has an exchange when it has this site's part of it, which was durable here before it
        // left; or when it went on without this site, and says so next.
        n.ahead = (have > self.recent.back().map_or(0, |r| r.0)).then(|| (Instant::now(), have));
        n.outgoing = Some((link, outgoing));
        self.remember(peer);
        if let Some((round, blake3, signature)) = self.newest_of(peer) {
            self.send(peer, Frame::Yours { round, blake3, signature }.encode());
        }
        // Whoever may not say its first exchange yet waits for a word.
        self.send(peer, Frame::Ack { round: 0 }.encode());
        let n = self.neighbours.get_mut(&peer).expect("a neighbour");
        if n.ahead.is_some() {
            return Ok(());
        }
        if !self.agreed.held.is_empty() {
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
            self.tell_model(peer);
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
        #[cfg(test)]
        if let Some(actor) = &self.actor {
            actor.hears(peer, &bytes);
        }
        n.spoke = Instant::now();
        let first = !std::mem::replace(&mut n.has_spoken, true);
        if let Frame::Yours { round, blake3, signature } = frame {
            self.reminded(peer, round, blake3, &signature)?;
            return self.begin(peer, first);
        }
        self.begin(peer, first)?;
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
            | Frame::Passed { exchange: round, .. }
                if n.signature.as_ref().is_none_or(|signature| signature.0 != round) =>
            {
                self.refuse(peer, "a release without its signature");
            }
            Frame::Release { .. }
            | Frame::Words { .. }
            | Frame::Masked { .. }
            | Frame::Passed { .. } => {
                let signature = n.signature.as_ref().map(|signature| signature.1.clone());
                let Some(origins) = self.vouched(peer, &frame, &bytes, signature)? else {
                    return Ok(());
                };
                self.take_vector(peer, frame, bytes, origins);
            }
            Frame::Ack { round } if round <= last => n.acked = n.acked.max(round),
            Frame::ReleaseSignature { round, signature } => {
                n.signature = Some((round, signature));
            }
            Frame::Heard { round: MODEL, summary } => n.model = Some(summary),
            Frame::Heard { round, summary } => {
                self.watch.heard(peer, round, summary);
            }
            Frame::Receipts { round, all } => {
                if let Some(found) = self.other_version_told(peer, round, &all) {
                    return Err(self.two_vectors(peer, found));
                }
                self.told(peer, round, &all);
            }
            Frame::Lost => self.give_back(peer),
            Frame::EdgeKey { public, proof } => {
                self.agree(peer, |edges| edges.answer(peer, &public, proof));
            }
            Frame::EdgeSame { proof } => {
                self.agree(peer, |edges| edges.same(peer, &proof).map(|()| None));
            }
            Frame::Farewell { head } => {
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

    /// Who signed what a vector is made of. `None` if it is refused, because it is not signed or
    /// its origin signed another version.
    fn vouched(
        &mut self,
        peer: u32,
        frame: &Frame,
        bytes: &Bytes,
        signature: Option<ReleaseSignature>,
    ) -> Result<Option<Origins>, NodeError> {
        let origins = match self.origins(peer, frame, bytes, signature) {
            Ok(origins) => origins,
            Err(reason) => {
                self.refuse(peer, &reason.to_string());
                return Ok(None);
            }
        };
        let Some(found) = self.other_version(&origins) else { return Ok(Some(origins)) };
        let ended = self.two_vectors(peer, found);
        // Whoever contradicts itself on its own link is waited for no longer than any other that is
        // refused; what came another way is in somebody's sum already.
        match matches!(frame, Frame::Passed { .. }) {
            true => Err(ended),
            false => Ok(None),
        }
    }

    /// Gives a vector to the algorithm, and keeps it to give back to its sender.
    fn take_vector(&mut self, peer: u32, frame: Frame, bytes: Bytes, origins: Origins) {
        let Some(n) = self.neighbours.get_mut(&peer) else { return };
        let round = match self.agent.take(peer, frame, &mut n.largest) {
            Ok(round) => round,
            Err(reason) => return self.refuse(peer, &reason.to_string()),
        };
        self.agent.vouch(origins);
        let signature = n.signature.take().map(|signature| signature.1);
        (n.lost, n.refused, n.suspected) = (None, None, None);
        n.acked = n.acked.max(round.saturating_sub(1 + self.agent.staleness()));
        // What came before is no news, and must not fill the disk.
        if n.is_news(round) {
            if let (Some(held), Some(signature)) = (&self.held, &signature) {
                // Before anything is answered: what this site has gone on from, it can give back. A
                // full disk stops it at its next release.
                let _ = held.keep(peer, round, &bytes, signature);
            }
            self.log.push(Line::Received { peer, round, bytes, signature });
        }
    }

    /// Has what was kept of a neighbour compared as if it had come in just now: a restart must not
    /// hide what it told others.
    fn remember(&mut self, peer: u32) {
        let (Some(held), Some(key)) = (&self.held, self.shared.key_of(peer)) else { return };
        if self.agent.is_addressed() {
            return;
        }
        let study = self.shared.folder.study;
        for (round, signature, bytes) in held.of(peer) {
            let said = ReleaseStatement {
                study,
                from: peer,
                to: None,
                round,
                blake3: release_hash(&bytes),
            };
            if !self.watch.knows(peer, round) && said.is_signed_by(&key, &signature) {
                self.watch.received(peer, round, Received { blake3: said.blake3, signature });
            }
        }
    }

    /// Says which model this site ended with, where all must have the same: what no two could
    /// compare on the way shows there.
    pub(super) fn tell_model(&mut self, peer: u32) {
        if let Some(summary) = self.model_digest() {
            self.send(peer, Frame::Heard { round: MODEL, summary }.encode());
        }
    }

    /// The hash of the model, where all must have the same.
    pub(super) fn model_digest(&self) -> Option<Digest> {
        let model = self.agent.model().filter(|_| self.agent.is_shared())?;
        let bytes: Vec<u8> = model.iter().flat_map(|x| x.to_le_bytes()).collect();
        Some(sha256(&[&bytes]))
    }

    /// The newest release of a neighbour that it signed, for it to see: after a restart the one that
    /// was kept for it.
    fn newest_of(&mut self, peer: u32) -> Option<(u32, Digest, ReleaseSignature)> {
        let n = self.neighbours.get(&peer).filter(|n| n.ahead.is_none())?;
        if n.last.is_some() {
            return n.last.clone();
        }
        let (round, signature, bytes) = self.held.as_ref()?.of(peer).pop()?;
        let (study, key) = (self.shared.folder.study, self.shared.key_of(peer)?);
        let said =
            ReleaseStatement { study, from: peer, to: None, round, blake3: release_hash(&bytes) };
        said.is_signed_by(&key, &signature).then_some((round, said.blake3, signature))
    }

    /// Sends what had to wait for a neighbour's first word on a link. The first exchange is drawn
    /// before anybody is asked: should this folder be an old copy from before it, whoever has that
    /// exchange says so first.
    fn begin(&mut self, peer: u32, first: bool) -> Result<(), NodeError> {
        if first && !self.released_before {
            let rounds: Vec<u32> = self.recent.iter().map(|r| r.0).collect();
            let has = self.neighbours.get(&peer).map_or(0, |n| n.acked);
            for round in rounds.into_iter().filter(|&round| round > has) {
                self.send_release(peer, round);
            }
        }
        Ok(())
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
            self.send(peer, Frame::ReturnedRelease { left: 0, release: None }.encode());
        }
        let mut left = kept.len() as u8;
        for (_, signature, bytes) in kept {
            left -= 1;
            self.send(
                peer,
                Frame::ReturnedRelease { left, release: Some((signature, bytes)) }.encode(),
            );
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
        if !n.said_goodbye {
            let head = *self.store.head();
            let said = self.send(peer, Frame::Farewell { head }.encode());
            self.neighbours.entry(peer).and_modify(|n| n.said_goodbye = said);
        }
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
        #[cfg(test)]
        if let Some(actor) = self.actor.clone() {
            let all = actor.frame(peer, bytes);
            let mut sent = true;
            for bytes in all {
                sent &= self.put(peer, bytes);
            }
            return sent;
        }
        self.put(peer, bytes)
    }

    fn put(&mut self, peer: u32, bytes: Bytes) -> bool {
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
        if !self.released_before && self.neighbours.get(&peer).is_none_or(|n| !n.has_spoken) {
            return;
        }
        let all = self.recent.iter().find(|r| r.0 == round).map(|r| &r.1);
        let Some(bytes) = all.and_then(|bytes| self.agent.part(peer, bytes)) else { return };
        #[cfg(test)]
        if let Some(actor) = self.actor.clone() {
            let all = actor.release(peer, round, bytes);
            return all.into_iter().for_each(|(round, bytes)| self.send_signed(peer, round, bytes));
        }
        self.send_signed(peer, round, bytes);
    }

    /// Sends bytes of an exchange after this site's signature under them.
    fn send_signed(&mut self, peer: u32, round: u32, bytes: Bytes) {
        if self.neighbours.get(&peer).is_none_or(|n| n.outgoing.is_none()) {
            return;
        }
        // In order: what waits for its signature comes first.
        if self.unsigned.waiting.range((peer, 0)..(peer, round)).next().is_some() {
            self.unsigned.waiting.insert((peer, round));
            return;
        }
        let signature = match self.signature(peer, round, &bytes) {
            Ok(signature) => signature,
            Err(reason) => return self.cannot_sign(peer, round, &reason.to_string()),
        };
        self.unsigned.waiting.remove(&(peer, round));
        self.send(peer, Frame::ReleaseSignature { round, signature }.encode());
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
    fn signature(
        &mut self,
        peer: u32,
        round: u32,
        bytes: &[u8],
    ) -> Result<ReleaseSignature, SignError> {
        let blake3 = release_hash(bytes);
        if let Some((_, signature)) = self.signatures.iter().find(|(known, _)| *known == blake3) {
            return Ok(signature.clone());
        }
        #[cfg(test)]
        if self.actor.as_ref().is_some_and(|actor| !actor.signs()) {
            let reason = "the simulated signer fails".to_owned();
            return Err(tokio_rustls::rustls::Error::General(reason).into());
        }
        let to = self.agent.is_addressed().then_some(peer);
        let from = self.shared.folder.me as u32;
        let said = ReleaseStatement { study: self.shared.folder.study, from, to, round, blake3 };
        let signature = self.release_signer.sign(&said.bytes())?;
        // A signer that works now and then is asked again soon; only one that never does, ever
        // less often.
        if let Some(next) = &mut self.unsigned.next {
            *next = (*next).min(Instant::now() + SIGN_AGAIN.0);
            self.unsigned.pause = Duration::ZERO;
        }
        self.signatures.push_back((blake3, signature.clone()));
        while self.signatures.len() > 2 * self.neighbours.len().max(1) {
            self.signatures.pop_front();
        }
        Ok(signature)
    }

    /// Keeps what waits for a signature, and says so: it is asked for again, ever less often, until
    /// the signer is mended.
    fn cannot_sign(&mut self, peer: u32, round: u32, reason: &str) {
        self.unsigned.waiting.insert((peer, round));
        if self.unsigned.next.is_some_and(|next| next > Instant::now()) {
            return;
        }
        let pause = (2 * self.unsigned.pause).clamp(SIGN_AGAIN.0, SIGN_AGAIN.1);
        self.unsigned.since.get_or_insert_with(Instant::now);
        (self.unsigned.next, self.unsigned.pause) = (Some(Instant::now() + pause), pause);
        reason.clone_into(&mut self.unsigned.reason);
        let line = json!({ "round": self.agent.begun_in(round), "reason": reason, "again_in_seconds": pause.as_secs_f64() });
        self.audit("signer-failed", line);
    }

    /// Asks again for the signatures that are missing, when it is time.
    pub(super) fn sign_again(&mut self) {
        if self.unsigned.next.is_none_or(|next| next > Instant::now()) {
            return;
        }
        for (peer, round) in std::mem::take(&mut self.unsigned.waiting) {
            self.send_release(peer, round);
        }
        if self.unsigned.waiting.is_empty() {
            let seconds = self.unsigned.since.map_or(0.0, |since| since.elapsed().as_secs_f64());
            self.unsigned = Unsigned::default();
            self.audit("signer-mended", json!({ "seconds": seconds }));
        }
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
    use crate::frame::{self, Hello, VERSION};
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
                version: VERSION,
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
                // Whose signature it is comes later; that there is one comes first.
                let round = match Frame::decode(&bytes) {
                    Ok(Frame::Release { round, .. }) => Some(round),
                    _ => None,
                };
                let signature = ReleaseSignature { scheme: 0x0807, bytes: vec![0; 64].into() };
                let signed =
                    round.map(|round| Frame::ReleaseSignature { round, signature }.encode());
                let all: Vec<Bytes> = signed.into_iter().chain([bytes]).collect();
                let greeting = hello(0);
                let calling = dial(&b, 0, &greeting, &all);
                let said = tokio::time::timeout(Duration::from_secs(30), calling).await;
                let said = said.expect("in time");
                assert!(said.contains(reason), "{reason}: {said}");
            });
        }
        // Without a signature there is no release, and no earlier version to say that it had none.
        runtime.block_on(async {
            let bare = [frame::release(1, 1, &[0.0; 3])];
            let mut earlier = hello(0).to_vec();
            earlier[1] = 1;
            for (hello, reason) in [
                (hello(0).to_vec(), "a release without its signature"),
                (earlier, "protocol version 1, and this study needs version 3"),
            ] {
                let calling = dial(&b, 0, &hello, &bare);
                let said = tokio::time::timeout(Duration::from_secs(30), calling).await;
                let said = said.expect("in time");
                assert!(said.contains(reason), "{reason}: {said}");
            }
        });
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
