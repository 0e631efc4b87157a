//! What the sites agree to change while they run: taken up, shown to links, passed on.

use super::{Neighbour, Node};
use crate::agreement::{self, Agreement, Change};
use crate::changes::{self, Added};
use crate::error::NodeError;
use crate::folder::Folder;
use crate::frame::{Digest, Frame};
use crate::store::Entry;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Display;
use tokio::time::Instant;

/// Agreements that are sent at once to whoever lacks them: what fits the queue of a link beside
/// everything else.
const MOST_AGREEMENTS: usize = 8;

/// What the sites agreed to change, and this site has taken up.
pub(super) struct Agreed {
    pub(super) graph: consenso_engine::graph::Graph,
    pub(super) held: Vec<Agreement>,
    /// Since when it waits for an agreement that it signed, and which.
    pub(super) waits: Option<(Instant, Agreement)>,
    /// Agreements whose edge begins in an exchange that this site had completed when it learned of
    /// them: it never begins here.
    pub(super) late: BTreeSet<u32>,
    /// Agreements of others that hold in the place of those that hold here.
    pub(super) others: BTreeSet<Digest>,
}

impl Agreed {
    /// The number and the hash of the last.
    pub(super) fn last(&self) -> (u32, Digest) {
        (self.held.len() as u32, self.held.last().map_or([0; 32], Agreement::hash))
    }

    /// Edges of this site that were added.
    pub(super) fn added(&self, folder: &Folder) -> impl Iterator<Item = (u32, Added)> {
        let me = folder.me as u32;
        let all = changes::added(folder, &self.graph, &self.held);
        let late = self.late.clone();
        let begins = move |edge: &Added| !late.contains(&edge.number);
        all.into_iter().filter(begins).filter_map(move |edge| Some((edge.beside(me)?, edge)))
    }
}

impl Node {
    /// Whether the next exchange is one that this site promised not to complete before an agreement
    /// holds.
    pub(super) fn waits_for_an_agreement(&mut self) -> bool {
        let folder = &self.shared.folder;
        let promised = changes::promised(&folder.path, &folder.study, self.agreed.held.len());
        let released = self.releases.last();
        let waits = promised.filter(|promised| match &promised.change {
            Change::Edge { one, other, from } => {
                [one, other].contains(&&folder.site.name)
                    && released >= *from
                    && !self.course.is_done()
            }
            _ => false,
        });
        let since = self.agreed.waits.take().map_or_else(Instant::now, |w| w.0);
        self.agreed.waits = waits.map(|promised| (since, promised));
        self.agreed.waits.is_some()
    }

    /// Takes up what the operator applied to the folder meanwhile.
    pub(super) fn look_for_changes(&mut self) -> Result<(), NodeError> {
        loop {
            let (folder, next) = (&self.shared.folder, self.agreed.held.len() as u32 + 1);
            if !agreement::path(&folder.path, &folder.study, next).exists() {
                return Ok(());
            }
            let all = agreement::load(&folder.path, &folder.study, &folder.listed()?)?;
            let Some(new) = all.into_iter().nth(next as usize - 1) else { return Ok(()) };
            self.take_up(&new)?;
        }
    }

    /// Makes a change part of the run: durable first, then for whoever is connected.
    fn take_up(&mut self, new: &Agreement) -> Result<(), NodeError> {
        let (folder, me) = (self.shared.folder.clone(), self.shared.folder.site.name.clone());
        let late = |why: &dyn Display| {
            NodeError::Experiment(format!(
                "agreement {} ({}): {why}\n  help: it cannot hold here any more; remove {} and agree with the others on another one",
                new.number,
                new.change,
                agreement::path(&folder.path, &folder.study, new.number).display()
            ))
        };
        let released = self.releases.last();
        // By this number a later start knows it again.
        let released = match &new.change {
            Change::Edge { from, .. } if self.agreed.late.contains(&new.number) => {
                released.max(from.saturating_add(1))
            }
            _ => released,
        };
        let mut entries = vec![changes::row(new, released)];
        self.agreed.held.push(new.clone());
        let over = self.agent.model().is_some();
        match &new.change {
            Change::Leave { site } if *site == me => return Err(late(&"this site leaves")),
            Change::Leave { site } => {
                let gone = folder.number_of(site).map_or(u32::MAX, |i| i as u32);
                let missed = self.agent.away().iter().all(|a| a.0 != gone);
                if self.neighbours.contains_key(&gone) && missed && !over {
                    changes::without(&mut self.agent, gone).map_err(|e| late(&e))?;
                    let weight = self.neighbours.get(&gone).map_or(0.0, |n| n.weight);
                    let round = self.agent.exchanges() + 1;
                    entries.push(Entry::Absent { round, neighbour: gone, weight });
                }
            }
            Change::Part { one, other } if *one == me || *other == me => {
                let gone =
                    changes::former_neighbours(&folder, std::slice::from_ref(new)).first().copied();
                let gone = gone.unwrap_or(u32::MAX);
                let there = changes::in_order(&self.agent).contains(&gone);
                if there && self.agent.away().iter().all(|a| a.0 != gone) && !over {
                    changes::without(&mut self.agent, gone).map_err(|e| late(&e))?;
                    let weight = self.neighbours.get(&gone).map_or(0.0, |n| n.weight);
                    let round = self.agent.exchanges() + 1;
                    entries.push(Entry::Absent { round, neighbour: gone, weight });
                }
            }
            Change::Edge { .. } if self.agreed.late.contains(&new.number) => {}
            Change::Edge { one, other, .. } if *one == me || *other == me => {
                if let Some((neighbour, edge)) = self.agreed.added(&folder).last() {
                    folder.calls(neighbour as usize)?;
                    self.agent.join(neighbour, edge.weight, edge.from).map_err(|e| late(&e))?;
                }
            }
            Change::Replace { .. } | Change::Edge { .. } | Change::Part { .. } => {}
        }
        self.releases.note_all(entries, self.agent.checkpoint())?;
        let summary = new.summary();
        self.audit("change", json!(summary));
        self.show(new);
        let (number, hash) = self.agreed.last();
        let linked: Vec<u32> =
            self.neighbours.iter().filter(|(_, n)| n.is_linked()).map(|(&j, _)| j).collect();
        for peer in linked {
            self.send(peer, Frame::Agreed { number, hash }.encode());
        }
        Ok(())
    }

    /// Has links and neighbours follow a change that is durable.
    fn show(&mut self, new: &Agreement) {
        let folder = self.shared.folder.clone();
        match &new.change {
            Change::Leave { site } => {
                let Some(gone) = folder.number_of(site).map(|i| i as u32) else { return };
                self.refuse(gone, &format!("{site} left the study (agreement {})", new.number));
                if let Some(n) = self.neighbours.get_mut(&gone) {
                    n.leave();
                }
                self.shared.leaves(gone, new.number);
                self.evidence.watch.without(gone);
            }
            Change::Replace { .. } => self.mind_the_pins(),
            Change::Part { .. } => {
                for gone in changes::former_neighbours(&folder, std::slice::from_ref(new)) {
                    let reason = format!("{} (agreement {})", new.change, new.number);
                    self.refuse(gone, &reason);
                    if let Some(n) = self.neighbours.get_mut(&gone) {
                        n.leave();
                    }
                }
            }
            Change::Edge { one, other, .. } => {
                if let (Some(one), Some(other)) = (folder.number_of(one), folder.number_of(other)) {
                    self.evidence.watch.join(one as u32, other as u32);
                }
                let ends = [one, other].contains(&&folder.site.name)
                    && !self.agreed.late.contains(&new.number);
                if let Some((peer, edge)) = self.agreed.added(&folder).last().filter(|_| ends) {
                    let name = &folder.peers[peer as usize].name;
                    let new = || Neighbour::new(name, edge.weight, 0);
                    self.neighbours.entry(peer).or_insert_with(new).weight = edge.weight;
                    if let Some(held) = &mut self.evidence.held {
                        held.add(peer);
                    }
                    self.links.add(peer);
                }
            }
        }
    }

    /// A neighbour says what holds there: whoever has fewer agreements gets those it lacks.
    pub(super) fn agreed_there(&mut self, peer: u32, number: u32, hash: Digest) {
        let (mine, last) = self.agreed.last();
        if number > mine {
            self.send(peer, Frame::Agreed { number: mine, hash: last }.encode());
            return;
        }
        let n = self.neighbours.get_mut(&peer);
        if number == mine && hash == last || !n.is_some_and(|n| n.lacks_agreements_after(number)) {
            return;
        }
        // Also the one of its number, where that is another one: both ends can show then who signed
        // two.
        let same = number == 0 || self.agreed.held[number as usize - 1].hash() == hash;
        let from = if same { number as usize } else { number as usize - 1 };
        let texts: Vec<String> = self.agreed.held[from..]
            .iter()
            .take(MOST_AGREEMENTS)
            .map(Agreement::to_string)
            .collect();
        for text in texts {
            self.send(peer, Frame::Agreement(text).encode());
        }
    }

    /// A neighbour has an agreement that does not hold here. If it is the next, this site signed it
    /// as all others did.
    pub(super) fn agreed_elsewhere(&mut self, peer: u32, text: &str) -> Result<(), NodeError> {
        let new = match Agreement::parse(text) {
            Ok(new) => new,
            Err(reason) => {
                self.refuse(peer, &format!("its agreement {reason}"));
                return Ok(());
            }
        };
        let held = self.agreed.held.get((new.number as usize).saturating_sub(1));
        if held.is_some_and(|held| held.hash() == new.hash()) {
            return Ok(());
        }
        if let Some(held) = held {
            let both = held.signed_both(&new);
            let reason = format!(
                "agreement {} there is \"{}\", and here it is \"{}\"",
                new.number, new.change, held.change
            );
            let name = self.neighbours[&peer].name.clone();
            // Whoever has another one shows it on every link: it is written down once.
            if self.agreed.others.len() < MOST_AGREEMENTS && self.agreed.others.insert(new.hash()) {
                let line = json!({ "peer": name, "signed_both": both, "here": held.to_string(), "there": new.to_string() });
                self.audit("two-agreements", line);
            }
            let who = if both.is_empty() { "nobody".to_owned() } else { both.join(", ") };
            self.refuse(peer, &format!("{reason}; {who} signed both"));
            return Ok(());
        }
        let folder = self.shared.folder.clone();
        let listed = folder.listed()?;
        if let Err(reason) = new.check(&folder.study, &listed, &self.agreed.held, &[]) {
            let reason = reason.to_string();
            let reason = reason.lines().next().unwrap_or_default();
            self.refuse(peer, &format!("its agreement is not taken: {reason}"));
            return Ok(());
        }
        if !new.signatures.iter().any(|s| s.site == folder.site.name) {
            self.refuse(
                peer,
                &format!("agreement {} ({}) was not signed here", new.number, new.change),
            );
            return Ok(());
        }
        if let Change::Edge { one, other, from } = &new.change
            && [one, other].contains(&&folder.site.name)
            && *from <= self.agent.exchanges()
        {
            // It holds, for all have signed it. Refusing it would part the network for good.
            let released = self.releases.last();
            let waits = if *one == folder.site.name { other } else { one };
            let help = format!(
                "consenso network change propose SITE_DIR --part {one},{other} --out FILE lets {waits} go on"
            );
            let line = json!({ "number": new.number, "change": new.change.to_string(), "from": from, "released": released, "help": help });
            self.audit("agreement-too-late", line);
            self.agreed.late.insert(new.number);
        }
        changes::keep(&folder, &new)?;
        self.take_up(&new)
    }
}
