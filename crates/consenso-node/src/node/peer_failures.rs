//! Bad days: who is away, who says what cannot be, whose key is out, and what a site does about it.

use super::{BLINK, Neighbour, Node, SIGN_OF_LIFE};
use crate::agreement::keys_before;
use crate::equivocation::Verdict;
use crate::error::NodeError;
use crate::folder::Away;
use crate::frame::{Digest, Frame, Hex, SignedReceipt, sha256};
use crate::identity::Identity;
use crate::release_signature::{ReleaseSignature, ReleaseStatement};
use crate::store::Entry;
use bytes::Bytes;
use consenso_engine::agent::AbsenceError;
use consenso_engine::gate::Round;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

impl Node {
    pub(super) fn mind_the_absent(&mut self, round: u32) -> Result<(), NodeError> {
        let site = &self.shared.folder.site;
        let (away, least) = (site.away, site.least_sites);
        let deadline = Duration::from_secs_f64(site.deadline_seconds);
        // As long as every site may take to give up the next one on the way.
        let patience = deadline.saturating_mul(self.shared.folder.peers.len().max(2) as u32);
        if let Some((since, promised)) = &self.agreed.waits
            && since.elapsed() > patience
        {
            let (number, change) = (promised.number, promised.change.to_string());
            let (seconds, round) = (since.elapsed().as_secs_f64(), self.agent.rounds_in(round));
            let line = json!({ "number": number, "change": change, "seconds": seconds });
            self.audit("agreement-awaited", line);
            return Err(NodeError::Unapplied { number, change, seconds, round });
        }
        // Who is connected and waits for others says so; who says nothing at all is as good as
        // away.
        let silent = |n: &Neighbour| match n.lost {
            Some(since) => since.elapsed(),
            None => n.spoke.elapsed(),
        };
        // Signs of life are no releases: whoever waits for others is waited for as long as every
        // site may take to give up the next one on the way, and no longer.
        let waited = self.course.released_at.elapsed();
        let stalled = waited > patience;
        let silent = |n: &Neighbour| if stalled { silent(n).max(waited) } else { silent(n) };
        let overdue = |n: &Neighbour| {
            let blink = away == Away::Stop && n.ever_up && n.lost.is_some();
            let limit = if n.lost.is_some() { deadline } else { deadline.max(5 * SIGN_OF_LIFE) };
            silent(n) > if blink { BLINK } else { limit }
        };
        let absent: Vec<u32> =
            self.agent.awaited().into_iter().filter(|j| overdue(&self.neighbours[j])).collect();
        if absent.is_empty() {
            return Ok(());
        }
        let named = |n: &Neighbour| match &n.refused {
            Some(reason) => format!("{} (refused: {reason})", n.name),
            None => n.name.clone(),
        };
        let names: Vec<String> = absent.iter().map(|j| named(&self.neighbours[j])).collect();
        let names = names.join(", ");
        let seconds = absent
            .iter()
            .map(|j| silent(&self.neighbours[j]))
            .max()
            .unwrap_or_default()
            .as_secs_f64();
        // Going on without one that may be right about an old copy would draw again what was sent
        // already.
        if let Some((n, have)) =
            absent.iter().find_map(|j| self.neighbours[j].suspected.map(|have| (j, have)))
        {
            let (peer, released) = (self.neighbours[n].name.clone(), self.releases.last());
            self.audit("away", json!({ "peers": names, "round": self.agent.rounds_in(round) }));
            return Err(NodeError::Forgot { peer, have, released });
        }
        // Those who wait for this site's signature are not to blame.
        if let Some((reason, since)) = self.signing.failing() {
            let (reason, seconds) = (reason.to_owned(), since.as_secs_f64());
            return Err(NodeError::Signer { reason, seconds, round: self.agent.rounds_in(round) });
        }
        let left = match self.agent.taking_part() {
            Some(sites) => sites - absent.len(),
            None => 1 + self.neighbours.len() - self.agent.away().len() - absent.len(),
        };
        // A sum of shares cannot do without anybody, which is what the operator should read then.
        if away == Away::ContinueWithout && left < least && !self.agent.is_addressed() {
            let round = self.agent.rounds_in(round);
            self.audit(
                "away",
                json!({ "peers": names, "round": round, "left": left, "least_sites": least }),
            );
            return Err(NodeError::Alone { names, seconds, left, least, round });
        }
        if away == Away::ContinueWithout {
            for &neighbour in &absent {
                self.agent.go_without(neighbour).map_err(|e| {
                    let words = format!("away = \"continue-without\": {e}");
                    // Whoever is gone may come back: nothing of it is durable.
                    match e {
                        AbsenceError::Sum(_) => NodeError::Shares(words),
                        _ => NodeError::Experiment(words),
                    }
                })?;
                // Numbers of masked exchanges are passed over, and its agent knows the round.
                let known = self
                    .agent
                    .away()
                    .into_iter()
                    .find(|a| self.agent.is_masked() && a.0 == neighbour);
                self.without_from(neighbour, known.map_or(Round(round + 1), |a| a.1))?;
            }
            return Ok(());
        }
        let round = self.agent.rounds_in(round);
        self.audit("away", json!({ "peers": names, "round": round }));
        Err(NodeError::Away { names, seconds, round })
    }

    /// Makes durable, and writes into the log, that the run goes on without a site.
    fn without_from(&mut self, site: u32, round: Round) -> Result<(), NodeError> {
        let weight = self.neighbours.get(&site).map_or(0.0, |n| n.weight);
        let entry = Entry::Absent { round: round.0, neighbour: site, weight };
        self.releases.note_without(site, entry, self.agent.checkpoint())?;
        if let Some(n) = self.neighbours.get_mut(&site) {
            n.leave();
        }
        if self.agent.is_masked() {
            // All go on without it, and nobody waits for what it sent to both.
            self.evidence.watch.without(site);
        }
        let line = json!({ "peer": self.name_of(site), "round": round, "weight": weight });
        self.audit("without", line);
        Ok(())
    }

    /// Goes on without those whom others have given up, where all must do without the same.
    pub(super) fn follow_others(&mut self) -> Result<(), NodeError> {
        if !self.agent.is_masked() {
            return Ok(());
        }
        let new: Vec<(u32, Round)> =
            self.agent.away().into_iter().filter(|a| !self.releases.are_without(a.0)).collect();
        new.into_iter().try_for_each(|(site, round)| self.without_from(site, round))
    }

    /// Ends the links to neighbours that say they have more than was released here, and have not
    /// said within `patience` that they went on without this site. Nothing is sent to them. Either
    /// one of them lies, or the ledger is an old copy: then nothing more may be drawn, and as long
    /// as the site waits for them nothing is. A ledger that its witness has counted is no old copy,
    /// so there it is a lie.
    pub(super) fn doubt_who_is_ahead(&mut self, patience: Duration) {
        let released = self.releases.last();
        let overdue: Vec<(u32, u32)> = self
            .neighbours
            .iter()
            .filter_map(|(&j, n)| {
                n.ahead.filter(|(since, _)| since.elapsed() >= patience).map(|a| (j, a.1))
            })
            .collect();
        for (peer, have) in overdue {
            let reason = format!(
                "it says that it has exchange {have} of this site, which has released {released}"
            );
            let witnessed = self.releases.are_witnessed();
            if let Some(n) = self.neighbours.get_mut(&peer) {
                n.ahead = None;
                n.suspected = (!witnessed).then_some(have);
            }
            self.refuse(peer, &reason);
        }
    }

    /// A neighbour shows what it has of this site: a release that this site signed and does not
    /// know makes its ledger an old copy.
    pub(super) fn reminded(
        &mut self,
        peer: u32,
        round: u32,
        blake3: Digest,
        signature: &ReleaseSignature,
    ) -> Result<(), NodeError> {
        let released = self.releases.last();
        let other = |bytes: &Bytes| {
            let part = self.agent.part(peer, bytes);
            part.is_some_and(|part| crate::frame::release_hash(&part) != blake3)
        };
        // What was drawn here a second time must not go on, either.
        if round <= released {
            let again = self.releases.of(round).is_some_and(other);
            // What a site that lost its disk says of rounds that it spares is no second draw.
            if !again || round <= self.releases.spared_until()? {
                return Ok(());
            }
        }
        let (from, to) = (self.shared.folder.me as u32, self.agent.is_addressed().then_some(peer));
        let said = ReleaseStatement { study: self.shared.folder.study, from, to, round, blake3 };
        let own = Identity::read(&self.shared.folder.path)
            .and_then(|identity| crate::identity::public_key(identity.certificate()));
        let before = keys_before(&self.agreed.held, &self.shared.folder.site.name);
        if !own.ok().iter().chain(&before).any(|key| said.is_signed_by(key, signature)) {
            if let Some(n) = self.neighbours.get_mut(&peer) {
                n.ahead = None;
            }
            self.refuse(peer, &format!("its proof of exchange {round} is not signed by this site"));
            return Ok(());
        }
        let time = crate::clock::text(crate::clock::now());
        let row = Entry::Behind { round, neighbour: peer, time };
        // A disk that does not take it changes nothing: this site ends here.
        let _ = self.releases.note(row, self.agent.checkpoint());
        let peer = self.neighbours[&peer].name.clone();
        self.audit("old-copy", json!({ "peer": peer, "have": round, "released": released }));
        Err(NodeError::OldCopy { peer, have: round, released })
    }

    /// Compares with neighbours what those that both have in common sent in the last complete
    /// round.
    pub(super) fn compare(&mut self) {
        let stale = self.agent.staleness();
        // What is as old as a vector may be has come in from everybody; at the end all has.
        let complete = match self.agent.model() {
            Some(_) => self.agent.exchanges(),
            None => self.agent.exchanges().saturating_sub(stale),
        };
        if self.agent.is_addressed() {
            return;
        }
        if complete > self.evidence.compared {
            self.tell_heard(complete, stale);
        }
        // What others say of a round that was complete here before counts as well: two sites that
        // finish at one time hear of each other afterwards.
        for (peer, round) in self.evidence.watch.disagreements(complete) {
            let all = self.evidence.watch.told(peer, round);
            self.send(peer, Frame::Receipts { round, all }.encode());
        }
    }

    /// Tells neighbours what was received in exchanges that have become complete.
    fn tell_heard(&mut self, complete: u32, stale: u32) {
        // Under masks one round that was told differently shifts every later one: none is passed
        // over that is remembered.
        let back = if self.agent.is_masked() { 2 } else { stale };
        let first = (self.evidence.compared + 1).max(complete.saturating_sub(back));
        self.evidence.compared = complete;
        let speak = |n: &Neighbour| n.is_linked();
        let peers: Vec<u32> =
            self.neighbours.iter().filter(|(_, n)| speak(n)).map(|(&j, _)| j).collect();
        for (peer, round) in
            peers.into_iter().flat_map(|peer| (first..=complete).map(move |r| (peer, r)))
        {
            if let Some(summary) = self.evidence.watch.summary(peer, round) {
                self.send(peer, Frame::Heard { round, summary }.encode());
            }
        }
    }

    /// A neighbour says what others sent it in a round.
    pub(super) fn told(&mut self, peer: u32, round: u32, all: &[SignedReceipt]) {
        self.write_log();
        let (study, shared) = (self.shared.folder.study, Arc::clone(&self.shared));
        let signed = |told: &SignedReceipt| {
            let said =
                ReleaseStatement { study, from: told.about, to: None, round, blake3: told.blake3 };
            shared.key_of(told.about).is_some_and(|key| said.is_signed_by(&key, &told.signature))
        };
        let verdicts = self.evidence.watch.judge(peer, round, all, signed);
        let by = self.neighbours[&peer].name.clone();
        for verdict in verdicts {
            match verdict {
                Verdict::Equivocates(liar) => {
                    let Some(n) = self.neighbours.get_mut(&liar) else { continue };
                    if n.banned.is_some() {
                        continue;
                    }
                    let name = n.name.clone();
                    let reason = format!(
                        "it signed different releases of round {round} for {by} and for {}",
                        self.shared.folder.site.name
                    );
                    n.banned = Some(reason.clone());
                    let theirs = all.iter().find(|told| told.about == liar);
                    let mine = self
                        .evidence
                        .watch
                        .told(peer, round)
                        .into_iter()
                        .find(|told| told.about == liar);
                    let proof = |told: Option<&SignedReceipt>| {
                        told.map(|t| {
                            json!({ "blake3": Hex(&t.blake3).to_string(), "scheme": t.signature.scheme,
                                "signature": Hex(&t.signature.bytes).to_string() })
                        })
                    };
                    let line = json!({ "peer": name, "round": round, "by": by, "here": proof(mine.as_ref()), "there": proof(theirs) });
                    self.audit("equivocation", line);
                    // Whoever knows the site gets both: one of them is not what it received itself.
                    let proof: Vec<SignedReceipt> =
                        mine.into_iter().chain(theirs.cloned()).collect();
                    let others: Vec<u32> =
                        self.neighbours.keys().copied().filter(|j| *j != liar).collect();
                    for other in others {
                        if self.neighbours[&other].is_linked() {
                            self.send(
                                other,
                                Frame::Receipts { round, all: proof.clone() }.encode(),
                            );
                        }
                    }
                    self.refuse(liar, &reason);
                }
                Verdict::Slander(_) => {
                    self.refuse(
                        peer,
                        &format!(
                            "what it says that others sent in round {round} is not signed by them"
                        ),
                    );
                }
            }
        }
    }

    /// Ends links whose peer has a key that is not the one in `peers.toml` any more.
    pub(super) fn mind_the_pins(&mut self) {
        // Pins may have been replaced and keys revoked: each is looked at again.
        self.evidence.trusted.clear();
        let Ok((peers, _)) = self.shared.folder.peers_now() else { return };
        let replaced = |(&peer, n): (&u32, &Neighbour)| {
            let key = self.shared.key_of(peer).filter(|_| n.is_linked())?;
            let shown = sha256(&[&key]);
            let listed = peers.get(peer as usize)?.pins().any(|pin| pin == Hex(&shown).to_string());
            let agreed =
                keys_before(&self.agreed.held, &n.name).iter().any(|before| before[..] == key[..]);
            let how = if agreed { "by an agreement" } else { "in peers.toml" };
            let other = (!listed).then(|| format!("the pin of its key was replaced {how}"));
            other.or_else(|| self.shared.folder.revoked(&shown)).map(|reason| (peer, reason))
        };
        let found: Vec<(u32, String)> = self.neighbours.iter().filter_map(replaced).collect();
        for (peer, reason) in found {
            self.refuse(peer, &reason);
            self.shared.cut(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::graph_digest;
    use crate::frame::{Hello, VERSION};
    use crate::link::tests_api::dial;
    use crate::node::tests::{experiment, two};
    use crate::node::{Options, run};
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    /// Signs of life without a release stalled a run for ever.
    #[test]
    fn a_neighbour_that_only_says_that_it_is_there_is_not_waited_for_for_ever() {
        let root = std::env::temp_dir().join(format!("consenso-nag-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let [mut a, b] = two(&root);
        a.site.deadline_seconds = 2.0;
        let (mine, hers) = (experiment(), experiment());
        let node = std::thread::spawn(move || run(&a, &mine, &Options::default()));
        let graph = graph_digest(hers.graph());
        let hello = Hello { version: VERSION, experiment: b.study, graph, from: 1, to: 0, have: 0 };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let hello = Frame::Hello(hello).encode();
        let nagging = crate::link::tests_api::nag(&b, 0, &hello);
        let _ = runtime.block_on(async { timeout(Duration::from_secs(60), nagging).await });
        let away = node.join().unwrap().unwrap_err();
        assert!(matches!(&away, NodeError::Away { names, .. } if names == "b"), "{away}");
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// A folder that was copied back from before: its own log and ledger agree, and only a
    /// neighbour knows that it released more.
    #[test]
    fn a_lie_in_a_hello_ends_a_link_and_not_the_site() {
        let root = std::env::temp_dir().join(format!("consenso-forgot-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let [mut a, b] = two(&root);
        (a.site.deadline_seconds, a.site.away) = (3.0, Away::ContinueWithout);
        let (mine, hers) = (experiment(), experiment());
        let node = std::thread::spawn(move || run(&a, &mine, &Options::default()));
        let graph = graph_digest(hers.graph());
        let said =
            |have| Hello { version: VERSION, experiment: b.study, graph, from: 1, to: 0, have };
        let hello = Frame::Hello(said(2)).encode();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let said = async {
            timeout(Duration::from_secs(30), dial(&b, 0, &hello, &[Frame::Bye.encode()])).await
        };
        drop(runtime.block_on(said).expect("in time"));
        // One that nobody can prove wrong is waited for, and never gone on without.
        let stopped = node.join().unwrap().unwrap_err();
        assert!(
            matches!(&stopped, NodeError::Forgot { peer, have: 2, released: 1 } if peer == "b")
                && !stopped.is_input(),
            "{stopped}"
        );
        let log = std::fs::read_to_string(root.join("a/audit.jsonl")).unwrap();
        assert!(
            log.contains("it says that it has exchange 2 of this site, which has released 1"),
            "{log}"
        );
        // The honest neighbour comes after the lie: the site is there, and the run ends.
        std::fs::remove_dir_all(&root).unwrap();
        let [a, b] = two(&root);
        let (mine, hers) = (experiment(), experiment());
        let node = std::thread::spawn(move || run(&a, &mine, &Options::default()));
        let said = async {
            timeout(Duration::from_secs(30), dial(&b, 0, &hello, &[Frame::Bye.encode()])).await
        };
        drop(runtime.block_on(said).expect("in time"));
        run(&b, &hers, &Options::default()).unwrap();
        assert!(node.join().unwrap().unwrap().model.is_some());
        // One that went on without the site has more, too, and says so: that is no reason to
        // suspect the ledger.
        std::fs::remove_dir_all(&root).unwrap();
        let [mut a, b] = two(&root);
        a.site.deadline_seconds = 3.0;
        let (mine, gone) =
            (experiment(), Frame::Refused("the run went on without a".into()).encode());
        let node = std::thread::spawn(move || run(&a, &mine, &Options::default()));
        let said =
            |have| Hello { version: VERSION, experiment: b.study, graph, from: 1, to: 0, have };
        let hello = Frame::Hello(said(2)).encode();
        let said = async {
            timeout(Duration::from_secs(30), dial(&b, 0, &hello, std::slice::from_ref(&gone))).await
        };
        drop(runtime.block_on(said).expect("in time"));
        let away = node.join().unwrap().unwrap_err();
        assert!(matches!(away, NodeError::Away { .. }), "{away}");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
