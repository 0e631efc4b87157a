//! What passes over links: who is there, what each neighbour sends, and what it is sent.

use super::origins::Origins;
use super::{Line, Neighbour, Node, SIGN_OF_LIFE};
use crate::edges::{EdgeError, Edges};
use crate::equivocation::Received;
use crate::error::NodeError;
use crate::frame::{Digest, Frame, Hex, release_hash, sha256};
use crate::identity::Identity;
use crate::link::LinkEvent;
use crate::release_signature::{ReleaseSignature, ReleaseStatement, SignError};
use crate::store::Entry;
use bytes::Bytes;
use consenso_ledger::terminal::harmless;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// What stands before a neighbour's own reason to leave.
const THEIR_WORDS: &str = "it said: ";

/// A release as it came in, and what its sender signed of it.
pub(super) struct SignedRelease {
    round: u32,
    pub(super) bytes: Bytes,
    blake3: Digest,
    pub(super) signature: ReleaseSignature,
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
        if let Ok(identity) = Identity::read(&self.shared.folder.path) {
            self.signing.renew(&identity);
        }
        let key = self.shared.key_of(peer).map(|key| Hex(&key).to_string());
        self.shared.audit.of_peer(
            "link-up",
            &n.name,
            json!({ "peer": n.name, "have": have, "key": key }),
        );
        n.begin_link();
        // It said before that it has more, durably.
        if have < n.acked && !n.confirmed && !self.agent.is_masked() {
            let (name, before) = (n.name.clone(), n.acked);
            self.shared.audit.of_peer(
                "went-back",
                &name,
                json!({ "peer": name, "have": have, "before": before }),
            );
            self.reporter.progress.set(|p| p.went_back += 1);
        }
        // It has an exchange when it has this site's part of it, which was durable here before it
        // left; or when it went on without this site, and says so next.
        n.ahead = (have > self.releases.last()).then(|| (Instant::now(), have));
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
        for round in self.releases.after(have) {
            self.send_release(peer, round);
        }
        if self.course.is_done() {
            self.send(peer, Frame::Ack { round: self.agent.mark() }.encode());
            self.tell_model(peer);
            self.part(peer)?;
        }
        if self.neighbours.values().all(Neighbour::is_linked) {
            self.course.connect();
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
            #[cfg(test)]
            if self.actor.as_ref().is_some_and(|actor| actor.is_shameless()) {
                return self.begin(peer, first);
            }
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
            | Frame::Passed { exchange: round, .. } => {
                let Some(release) = self.signed_release(peer, round, bytes) else {
                    return Ok(());
                };
                let Some(origins) = self.vouched(peer, &frame, &release)? else {
                    return Ok(());
                };
                self.take_vector(peer, frame, release, origins);
            }
            Frame::Ack { round } if round <= last => n.acked = n.acked.max(round),
            Frame::ReleaseSignature { round, signature } => {
                n.signature = Some((round, signature));
            }
            Frame::Heard { round: MODEL, summary } => n.model = Some(summary),
            Frame::Heard { round, summary } => {
                self.evidence.watch.heard(peer, round, summary);
            }
            Frame::Receipts { round, all } => {
                if let Some(found) = self.other_version_told(peer, round, &all) {
                    return Err(self.two_vectors(peer, found));
                }
                self.told(peer, round, &all);
            }
            // Once a link: what is given back is read from disk, and long.
            Frame::Lost if std::mem::replace(&mut n.given_back, true) => {
                self.refuse(peer, OUT_OF_PLACE);
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
                // An operator reads it, as words of this program.
                let reason = harmless(&reason);
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

    /// A release with its sender's signature, which came before it. `None` if it is refused: nothing
    /// is made of what its sender could deny, for whoever told two neighbours different things would
    /// be named by nobody, and whoever showed to others what it received would be taken for the
    /// liar.
    fn signed_release(&mut self, peer: u32, round: u32, bytes: Bytes) -> Option<SignedRelease> {
        let n = self.neighbours.get_mut(&peer)?;
        let Some((_, signature)) = n.signature.take().filter(|signature| signature.0 == round)
        else {
            self.refuse(peer, "a release without its signature");
            return None;
        };
        let (study, blake3) = (self.shared.folder.study, release_hash(&bytes));
        // The same again, after a new link, was looked at before.
        let again = n.last.as_ref().is_some_and(|(known, hash, under)| {
            (*known, hash, under) == (round, &blake3, &signature)
        });
        let to = self.agent.is_addressed().then_some(self.shared.folder.me as u32);
        let said = ReleaseStatement { study, from: peer, to, round, blake3 };
        let signed = |key: &[u8]| said.is_signed_by(key, &signature);
        if !again && !self.shared.key_of(peer).is_some_and(|key| signed(&key)) {
            self.refuse(peer, &format!("its signature under exchange {round} is not its own"));
            return None;
        }
        Some(SignedRelease { round, bytes, blake3, signature })
    }

    /// Who signed what a vector is made of. `None` if it is refused, because it is not signed or
    /// its origin signed another version.
    fn vouched(
        &mut self,
        peer: u32,
        frame: &Frame,
        release: &SignedRelease,
    ) -> Result<Option<Origins>, NodeError> {
        let origins = match self.origins(peer, frame, release) {
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
    fn take_vector(&mut self, peer: u32, frame: Frame, release: SignedRelease, origins: Origins) {
        let Some(n) = self.neighbours.get_mut(&peer) else { return };
        if let Err(reason) = self.agent.take(peer, frame, &mut n.largest) {
            return self.refuse(peer, &reason.to_string());
        }
        let SignedRelease { round, bytes, blake3, signature } = release;
        self.agent.vouch(origins);
        (n.lost, n.refused, n.suspected) = (None, None, None);
        n.acked = n.acked.max(round.saturating_sub(1 + self.agent.staleness()));
        // What came before is no news, and must not fill the disk.
        if n.is_news(round) {
            if let Some(held) = &self.evidence.held {
                // Before anything is answered: what this site has gone on from, it can give back. A
                // full disk stops it at its next release.
                let _ = held.keep(peer, round, &bytes, &signature);
            }
            self.log.push(Line::Received { peer, round, blake3, signature });
        }
    }

    /// Has what was kept of a neighbour compared as if it had come in just now: a restart must not
    /// hide what it told others.
    fn remember(&mut self, peer: u32) {
        let (Some(held), Some(key)) = (&self.evidence.held, self.shared.key_of(peer)) else {
            return;
        };
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
            if !self.evidence.watch.knows(peer, round) && said.is_signed_by(&key, &signature) {
                self.evidence.watch.received(
                    peer,
                    round,
                    Received { blake3: said.blake3, signature },
                );
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
        let (round, signature, bytes) = self.evidence.held.as_ref()?.of(peer).pop()?;
        let (study, key) = (self.shared.folder.study, self.shared.key_of(peer)?);
        let said =
            ReleaseStatement { study, from: peer, to: None, round, blake3: release_hash(&bytes) };
        said.is_signed_by(&key, &signature).then_some((round, said.blake3, signature))
    }

    /// Sends what had to wait for a neighbour's first word on a link. The first exchange is drawn
    /// before anybody is asked: should this folder be an old copy from before it, whoever has that
    /// exchange says so first.
    fn begin(&mut self, peer: u32, first: bool) -> Result<(), NodeError> {
        if first && !self.releases.began_before() {
            let has = self.neighbours.get(&peer).map_or(0, |n| n.acked);
            for round in self.releases.after(has) {
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
            if !self.course.is_done() {
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
        let kept = self.evidence.held.as_ref().map(|held| held.of(peer)).unwrap_or_default();
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
        if !self.course.is_done() || n.acked < last {
            return Ok(());
        }
        if !std::mem::replace(&mut n.confirmed, true) {
            let entry = Entry::Confirmed { round: last, neighbour: peer };
            self.releases.note(entry, self.agent.checkpoint())?;
        }
        if !n.said_goodbye {
            let head = self.releases.head();
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
        n.refused = Some(harmless(reason));
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
        if !self.releases.began_before() && self.neighbours.get(&peer).is_none_or(|n| !n.has_spoken)
        {
            return;
        }
        let all = self.releases.of(round);
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
        if self.neighbours.get(&peer).is_none_or(|n| !n.is_linked()) {
            return;
        }
        // In order: what waits for its signature comes first.
        if self.signing.waits_behind(peer, round) {
            return;
        }
        let signature = match self.signature(peer, round, &bytes) {
            Ok(signature) => signature,
            Err(reason) => return self.cannot_sign(peer, round, &reason.to_string()),
        };
        self.signing.signed(peer, round);
        self.send(peer, Frame::ReleaseSignature { round, signature }.encode());
        if self.send(peer, bytes)
            && let Some(n) = self.neighbours.get_mut(&peer)
        {
            if n.sent >= round {
                self.reporter.progress.set(|p| p.resends += 1);
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
        if let Some(signature) = self.signing.known(&blake3) {
            return Ok(signature);
        }
        #[cfg(test)]
        if self.actor.as_ref().is_some_and(|actor| !actor.signs()) {
            let reason = "the simulated signer fails".to_owned();
            return Err(tokio_rustls::rustls::Error::General(reason).into());
        }
        let to = self.agent.is_addressed().then_some(peer);
        let from = self.shared.folder.me as u32;
        let said = ReleaseStatement { study: self.shared.folder.study, from, to, round, blake3 };
        self.signing.sign(&said, 2 * self.neighbours.len().max(1))
    }

    /// Keeps what waits for a signature, and says so: it is asked for again, ever less often, until
    /// the signer is mended.
    fn cannot_sign(&mut self, peer: u32, round: u32, reason: &str) {
        let Some(pause) = self.signing.failed(peer, round, reason) else { return };
        let line = json!({ "round": self.agent.begun_in(round), "reason": reason, "again_in_seconds": pause.as_secs_f64() });
        self.audit("signer-failed", line);
    }

    /// Asks again for the signatures that are missing, when it is time.
    pub(super) fn sign_again(&mut self) {
        let Some(due) = self.signing.due() else { return };
        for (peer, round) in due {
            self.send_release(peer, round);
        }
        if let Some(failed) = self.signing.mended() {
            self.audit("signer-mended", json!({ "seconds": failed.as_secs_f64() }));
        }
    }

    /// A site that waits for others says so to those who wait for it, so that silence means what it
    /// seems to mean.
    pub(super) fn tell_those_who_wait(&mut self) {
        // One that is done is waited for under masks alone: whoever is still in the last round may
        // have to begin it again without somebody.
        let done = self.course.is_done();
        if (done && !self.agent.is_masked()) || self.course.sign_of_life.elapsed() < SIGN_OF_LIFE {
            return;
        }
        self.course.sign_of_life = Instant::now();
        if !done && self.agent.awaited().is_empty() && self.agreed.waits.is_none() {
            return;
        }
        let round = if done { self.agent.mark() } else { self.shared.have.load(Ordering::Acquire) };
        let ack = Frame::Ack { round }.encode();
        let waits = |n: &Neighbour| n.is_linked() && !(done && n.bye);
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
    use crate::folder::{Folder, graph_digest};
    use crate::frame::{self, Hello, VERSION};
    use crate::link::tests_api::dial;
    use crate::node::tests::{experiment, two};
    use crate::node::{Options, run};
    use crate::release_signature::ReleaseSigner;
    use consenso_engine::random::Seed;
    use consenso_engine::simulate::{Faults, over_messages};
    use tokio::runtime::Builder;

    /// Without a signature there is no release, and no earlier version to say that it had none. What
    /// was signed for another exchange or study is no better.
    async fn unsigned_releases_are_refused(
        b: &Folder,
        hello: &Bytes,
        signer: &ReleaseSigner,
        statement: ReleaseStatement,
    ) {
        let bare = vec![frame::release(1, 1, &[0.0; 3])];
        let under = |said: ReleaseStatement| {
            let signature = signer.sign(&said.bytes()).unwrap();
            vec![Frame::ReleaseSignature { round: 1, signature }.encode(), bare[0].clone()]
        };
        let blake3 = release_hash(&bare[0]);
        let of_round_2 = under(ReleaseStatement { round: 2, blake3, ..statement });
        let of_another_study =
            under(ReleaseStatement { study: [7; 32], round: 1, blake3, ..statement });
        let mut earlier = hello.to_vec();
        earlier[1] = 1;
        let not_its_own = "its signature under exchange 1 is not its own";
        for (hello, frames, reason) in [
            (hello.to_vec(), &bare, "a release without its signature"),
            (hello.to_vec(), &of_round_2, not_its_own),
            (hello.to_vec(), &of_another_study, not_its_own),
            (hello.to_vec(), &vec![Frame::Lost.encode(); 2], OUT_OF_PLACE),
            (earlier, &bare, "protocol version 1, and this study needs version 3"),
        ] {
            let calling = dial(b, 0, &hello, frames);
            let said = tokio::time::timeout(Duration::from_secs(30), calling).await;
            let said = said.expect("in time");
            assert!(said.contains(reason), "{reason}: {said}");
        }
    }

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
        let signer = ReleaseSigner::new(&Identity::read(&b.path).unwrap()).unwrap();
        let statement =
            ReleaseStatement { study: b.study, from: 1, to: None, round: 0, blake3: [0; 32] };
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
                let round = match Frame::decode(&bytes) {
                    Ok(Frame::Release { round, .. }) => Some(round),
                    _ => None,
                };
                let signed = round.map(|round| {
                    let said =
                        ReleaseStatement { blake3: release_hash(&bytes), round, ..statement };
                    let signature = signer.sign(&said.bytes()).unwrap();
                    Frame::ReleaseSignature { round, signature }.encode()
                });
                let all: Vec<Bytes> = signed.into_iter().chain([bytes]).collect();
                let greeting = hello(0);
                let calling = dial(&b, 0, &greeting, &all);
                let said = tokio::time::timeout(Duration::from_secs(30), calling).await;
                let said = said.expect("in time");
                assert!(said.contains(reason), "{reason}: {said}");
            });
        }
        runtime.block_on(unsigned_releases_are_refused(&b, &hello(0), &signer, statement));
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
