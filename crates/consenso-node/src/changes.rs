//! Changing who takes part in a study that runs: proposing, signing and applying
//! [agreements](crate::agreement).
//!
//! # When a change holds
//! Who **leaves** is gone on without by each of its neighbours from that neighbour's next exchange
//! on, for good, exactly as under `away = "continue-without"`. Whose place is **taken** is believed
//! under its old key no more from the moment a site has the agreement; the new one puts back what
//! neighbours hold of its predecessor (`consenso node rejoin`). An **edge** begins in an exchange
//! that both ends complete together. An end that signs promises to complete no exchange from there
//! on before the agreement holds: the promise is on disk before its last release is looked up, and
//! a node looks for a promise before every draft, so whatever was being drafted meanwhile is of an
//! exchange before.
//!
//! # Who disagrees
//! An end may take its promise back ([`withdraw`]) and complete the exchange, while somebody who has
//! the text with all signatures applies it later. The text holds then, everywhere: the end that is
//! past the exchange takes it up and does not begin the edge, and says so. The other end waits for
//! it until the sites agree that the two **part**: from each one's next exchange on the edge is gone
//! without.
//!
//! # What an edge weighs
//! Half of the smaller of the two ends' own weights, which both give up: the matrix stays symmetric
//! and doubly stochastic with a positive diagonal, and nobody else's row changes.
//!
//! # What it costs
//! Nothing. Releases are charged as before, mixes are functions of releases. Where the noise or the
//! claim of an algorithm rests on who its neighbours are, the change is refused.

use crate::agreement::{self, Agreement, Change, Signature, left};
use crate::driven::Driven;
use crate::error::NodeError;
use crate::folder::{Folder, FolderError};
use crate::frame::{Hex, sha256, unhex};
use crate::identity::{self, Identity, public_key};
use crate::release_signature::ReleaseSigner;
use crate::store::{Entry, Row, Store};
use consenso_engine::experiment::{Experiment, SitePlan};
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::privacy::Adversary;
use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};

/// An edge that was added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Added {
    /// The agreement's number.
    pub(crate) number: u32,
    pub(crate) ends: (u32, u32),
    pub(crate) from: u32,
    pub(crate) weight: f64,
}

impl Added {
    /// The other end, if a site is at one.
    pub(crate) fn beside(&self, me: u32) -> Option<u32> {
        match self.ends {
            (one, other) if one == me => Some(other),
            (one, other) if other == me => Some(one),
            _ => None,
        }
    }
}

/// The edges that agreements added, with their weights. Every site computes the same.
pub(crate) fn added(folder: &Folder, graph: &Graph, agreements: &[Agreement]) -> Vec<Added> {
    let mixing = Mixing::metropolis(graph);
    let mut own: Vec<f64> = (0..graph.agents()).map(|i| mixing.own(i)).collect();
    let mut all = Vec::new();
    for agreement in agreements {
        let Change::Edge { one, other, from } = &agreement.change else { continue };
        let (Some(a), Some(b)) = (folder.number_of(one), folder.number_of(other)) else { continue };
        let weight = own[a].min(own[b]) / 2.0;
        (own[a], own[b]) = (own[a] - weight, own[b] - weight);
        let (number, ends) = (agreement.number, (a as u32, b as u32));
        all.push(Added { number, ends, from: *from, weight });
    }
    all
}

/// Edges that begin in an exchange which this site had completed when it learned of them: it had
/// taken its promise back. Their agreements hold, and the edges never begin here.
pub(crate) fn late(folder: &Folder, rows: &[Row], study: i64, held: &[Agreement]) -> BTreeSet<u32> {
    let me = &folder.site.name;
    let (mut all, mut restored) = (BTreeSet::new(), None);
    for row in rows.iter().filter(|row| row.study == study) {
        match &row.entry {
            // What a site that lost its disk writes down again, it had learned in time.
            Entry::Restored { round, .. } => restored = Some(*round),
            Entry::Changed { number, released, .. } if restored != Some(*released) => {
                let change = held.get(*number as usize - 1).map(|agreement| &agreement.change);
                if matches!(change, Some(Change::Edge { one, other, from })
                    if [one, other].contains(&me) && released > from)
                {
                    all.insert(*number);
                }
            }
            _ => {}
        }
    }
    all
}

/// Agent numbers of sites that a site was made a neighbour of, and is no more.
pub(crate) fn former_neighbours(folder: &Folder, agreements: &[Agreement]) -> Vec<u32> {
    let me = &folder.site.name;
    let from = |agreement: &Agreement| match &agreement.change {
        Change::Part { one, other } if one == me => folder.number_of(other),
        Change::Part { one, other } if other == me => folder.number_of(one),
        _ => None,
    };
    agreements.iter().filter_map(from).map(|site| site as u32).collect()
}

fn refused(message: String) -> NodeError {
    NodeError::Experiment(message)
}

/// Checks that the study and its claim stand with a change.
fn allowed(folder: &Folder, experiment: &Experiment, change: &Change) -> Result<(), NodeError> {
    let (agent, plan) = Driven::new(experiment, folder.me)?;
    let graph = experiment.graph();
    let edges = added(folder, graph, &folder.agreements);
    let study = Changing { folder, graph, agent, plan, edges };
    match change {
        Change::Leave { site } => study.may_leave(site),
        Change::Replace { site, was, chain, address } => {
            study.may_replace(site, was, chain, address.as_deref())
        }
        Change::Part { one, other } => study.may_part(one, other, change),
        Change::Edge { one, other, from } => study.may_become_neighbours(one, other, *from),
    }
}

/// A study as it is before a change: what the change is checked against.
struct Changing<'a> {
    folder: &'a Folder,
    graph: &'a Graph,
    agent: Driven,
    plan: SitePlan,
    /// The edges that earlier agreements added.
    edges: Vec<Added>,
}

impl Changing<'_> {
    /// The agent number of a site that takes part.
    fn number(&self, name: &str) -> Result<usize, NodeError> {
        let number = self.folder.number_of(name).ok_or_else(|| {
            let all: Vec<&str> = self.folder.peers.iter().map(|p| p.name.as_str()).collect();
            refused(format!("there is no site {name} in this study; there are {}", all.join(", ")))
        })?;
        match left(&self.folder.agreements, name) {
            Some(by) => Err(refused(format!("{name} left this study (agreement {by})"))),
            None => Ok(number),
        }
    }

    fn may_leave(&self, site: &str) -> Result<(), NodeError> {
        let leaver = self.number(site)?;
        self.agent.may_go_without()?;
        let stays = |i: usize| i != leaver && left_study(self.folder, i).is_none();
        let remaining: BTreeSet<usize> =
            (0..self.folder.peers.len()).filter(|&i| stays(i)).collect();
        if remaining.len() < 2 {
            return Err(refused(format!(
                "without {site} one site would remain, and a site alone trains nobody's model: give the study up instead (`consenso node abandon`)"
            )));
        }
        if let Some(lost) = apart(self.graph, &self.edges, &remaining) {
            return Err(refused(format!(
                "without {site} nothing connects {} and {}: they would end with two models\n  help: agree on an edge between them first (consenso network change propose --edge)",
                self.folder.peers[lost.0].name, self.folder.peers[lost.1].name
            )));
        }
        Ok(())
    }

    fn may_replace(
        &self,
        site: &str,
        was: &[u8],
        chain: &[Vec<u8>],
        address: Option<&str>,
    ) -> Result<(), NodeError> {
        let number = self.number(site)?;
        let peers = &self.folder.peers;
        self.agent.rejoined(0, None).map_err(|why| {
            refused(format!(
                "{why}: whoever takes the place of {site} could not go on where it stood\n  help: if its folder is there and only its key is to be another one, replace its pin in everybody's peers.toml; otherwise let it leave, or give the study up"
            ))
        })?;
        let (old, new) = (Hex(&sha256(&[was])).to_string(), identity::pin(&chain[0])?);
        let new = Hex(&new).to_string();
        if peers[number].pin != old {
            return Err(refused(format!(
                "the key of {site} that is to be replaced is not the one that it has here"
            )));
        }
        if let Some(other) = peers.iter().find(|p| p.pin == new) {
            return Err(refused(format!(
                "{} has this key already: its place is taken with another one",
                other.name
            )));
        }
        identity::believes(&self.folder.path, chain, site)?;
        match (address, &peers[number].address) {
            (Some(_), None) => Err(refused(format!(
                "{site} could not be called so far, and who calls whom cannot change while neighbours run: leave --address out"
            ))),
            (None, Some(_)) => Err(refused(format!(
                "neighbours call {site}, and must be able to call whoever takes its place: give its --address"
            ))),
            _ => Ok(()),
        }
    }

    fn may_part(&self, one: &str, other: &str, change: &Change) -> Result<(), NodeError> {
        let (a, b) = (self.number(one)? as u32, self.number(other)? as u32);
        self.agent.may_go_without()?;
        let left: Vec<Added> =
            self.edges.iter().filter(|edge| edge.beside(a) != Some(b)).copied().collect();
        let again = self.folder.agreements.iter().any(|held| held.change == *change);
        if left.len() == self.edges.len() || again {
            return Err(refused(format!(
                "no agreement has made {one} and {other} neighbours: only such an edge can be taken back"
            )));
        }
        let stays = |i: &usize| left_study(self.folder, *i).is_none();
        let remaining = (0..self.folder.peers.len()).filter(stays).collect();
        if let Some(lost) = apart(self.graph, &left, &remaining) {
            return Err(refused(format!(
                "without this edge nothing connects {} and {}: they would end with two models",
                self.folder.peers[lost.0].name, self.folder.peers[lost.1].name
            )));
        }
        Ok(())
    }

    fn may_become_neighbours(&self, one: &str, other: &str, from: u32) -> Result<(), NodeError> {
        let (a, b) = (self.number(one)?, self.number(other)?);
        let there = self.graph.neighbours(a).contains(&(b as u32))
            || self.edges.iter().any(|e| e.beside(a as u32) == Some(b as u32));
        if a == b || there {
            return Err(refused(format!("{one} and {other} are neighbours already")));
        }
        self.agent.may_join()?;
        if let Some(claim) = self.plan.claim.as_ref().filter(|c| c.against != Adversary::Local) {
            return Err(refused(format!(
                "the claim of this study is against {}, which rests on who sees whose messages: with another edge it would not stand",
                claim.against
            )));
        }
        let last = self.agent.last();
        if from == 0 || from > last {
            return Err(refused(format!("exchange {from}: this study has exchanges 1 to {last}")));
        }
        let peers = &self.folder.peers;
        if peers[a].address.is_none() && peers[b].address.is_none() {
            return Err(refused(format!(
                "neither {one} nor {other} can be called: one end of an edge must be reachable"
            )));
        }
        Ok(())
    }
}

/// By which agreement a site left, by its agent number.
fn left_study(folder: &Folder, site: usize) -> Option<u32> {
    left(&folder.agreements, &folder.peers[site].name)
}

/// Two of the remaining sites that nothing connects, if there are two.
fn apart(graph: &Graph, added: &[Added], remaining: &BTreeSet<usize>) -> Option<(usize, usize)> {
    let first = *remaining.first()?;
    let (mut seen, mut open) = (BTreeSet::from([first]), vec![first]);
    while let Some(at) = open.pop() {
        let beside = added.iter().filter_map(|e| e.beside(at as u32));
        for next in graph.neighbours(at).iter().copied().chain(beside).map(|j| j as usize) {
            if remaining.contains(&next) && seen.insert(next) {
                open.push(next);
            }
        }
    }
    remaining.iter().find(|i| !seen.contains(i)).map(|&lost| (first, lost))
}

/// The last exchange that this site has released in the study, as its ledger says now.
fn released(folder: &Folder) -> Result<u32, NodeError> {
    if !folder.path.join(crate::store::FILE).exists() {
        return Ok(0);
    }
    let wanted = Hex(&folder.study).to_string();
    let (mut this, mut last) = (None, 0);
    Store::look(&folder.path)?.scan(|row| match &row.entry {
        Entry::Study { experiment, .. } if *experiment == wanted => this = Some(row.study),
        Entry::Release { round, .. } if this == Some(row.study) => last = last.max(*round),
        _ => {}
    })?;
    Ok(last)
}

/// The change that somebody asks for.
#[derive(Clone, Debug)]
pub enum ChangeRequest {
    /// A site is to leave.
    Leave(String),
    /// A site's place is to be taken.
    Replace {
        /// The site.
        site: String,
        /// The new certificate.
        certificate: PathBuf,
        /// Where the new one is called.
        address: Option<String>,
        /// The certificate of the key that it had; looked up in the audit log if left out.
        was: Option<PathBuf>,
    },
    /// Two sites are to become neighbours.
    Edge(String, String, Option<u32>),
    /// Two sites that an agreement made neighbours are to be none any more.
    Part(String, String),
}

/// Writes down a change for all to sign, after checking that it can be.
///
/// # Errors
/// Why it cannot.
pub fn propose(
    folder: &Folder,
    experiment: &Experiment,
    request: &ChangeRequest,
) -> Result<Agreement, NodeError> {
    let change = match request {
        ChangeRequest::Leave(site) => Change::Leave { site: site.clone() },
        ChangeRequest::Replace { site, certificate, address, was } => {
            let chain = identity::certificates(certificate)?;
            let was = match was {
                Some(path) => public_key(&identity::certificates(path)?[0])?,
                None => key_of(folder, site)?,
            };
            let chain = chain.iter().map(|der| der.as_ref().to_vec()).collect();
            Change::Replace { site: site.clone(), was, chain, address: address.clone() }
        }
        ChangeRequest::Part(one, other) => Change::Part { one: one.clone(), other: other.clone() },
        ChangeRequest::Edge(one, other, from) => {
            let (agent, _) = Driven::new(experiment, folder.me)?;
            let (last, done) = (agent.last(), released(folder)?);
            // Far enough ahead that all can sign meanwhile, and near enough to be worth it: both
            // ends wait there if need be.
            let soon = done + (last.saturating_sub(done) / 4).max(2);
            let from = from.unwrap_or(soon);
            if from <= done {
                return Err(refused(format!(
                    "exchange {from}: this site has released exchange {done} already"
                )));
            }
            Change::Edge { one: one.clone(), other: other.clone(), from }
        }
    };
    allowed(folder, experiment, &change)?;
    Ok(Agreement::next(folder.study, &folder.agreements, change))
}

/// The public key that a neighbour showed this site, whose pin is the one it has in `peers.toml`.
fn key_of(folder: &Folder, site: &str) -> Result<Vec<u8>, NodeError> {
    let pin = folder.number_of(site).map(|i| folder.peers[i].pin.clone());
    let files = crate::audit_log::files(&folder.path);
    let lines = files
        .iter()
        .filter_map(|log| std::fs::File::open(log).ok())
        .flat_map(|file| std::io::BufReader::new(file).split(b'\n').map_while(Result::ok));
    let found = { lines }.find_map(|line| {
        let line: serde_json::Value = serde_json::from_slice(&line).ok()?;
        let key = unhex(line["key"].as_str().filter(|_| line["peer"] == site)?)?;
        (Some(Hex(&sha256(&[&key])).to_string()) == pin).then_some(key)
    });
    found.ok_or_else(|| {
        refused(format!(
            "{site} was never connected to this site, so its public key is not known here\n  help: propose it at a neighbour of {site}, or give its old certificate with --was"
        ))
    })
}

/// Adds this site's signature to an agreement, after checking it as if it came from a stranger. An
/// end of a new edge completes no exchange from there on until the agreement holds or is withdrawn.
///
/// # Errors
/// Why it must not be signed here.
pub fn sign(
    folder: &Folder,
    experiment: &Experiment,
    agreement: &mut Agreement,
) -> Result<(), NodeError> {
    agreement.follows(&folder.study, &folder.agreements)?;
    let me = &folder.site.name;
    if !agreement.remaining(&folder.peers, &folder.agreements).contains(me) {
        return Err(refused(format!(
            "{me} does not remain ({}): the others sign",
            agreement.change
        )));
    }
    allowed(folder, experiment, &agreement.change)?;
    let listed = folder.listed()?;
    for signature in agreement.signatures.iter().filter(|s| s.site != *me) {
        agreement.is_its_own(signature, &listed, &folder.agreements, &[])?;
    }
    let path = agreement::promise(&folder.path, &folder.study, agreement.number);
    let before = path.exists().then(|| agreement::read(&path)).transpose()?;
    if let Some(before) = before.as_ref().filter(|before| before.hash() != agreement.hash()) {
        return Err(refused(format!(
            "{me} has signed another agreement {} ({}): two of one number would part the network\n  help: if nobody will apply that one, withdraw it first: consenso network change withdraw {}",
            before.number,
            before.change,
            folder.path.display()
        )));
    }
    // The promise comes first: whatever is drafted from here on minds it, and what was being
    // drafted is one exchange after the last.
    let mut promised = agreement.clone();
    promised.signatures.clear();
    agreement::write(&path, &promised)?;
    if let Change::Edge { one, other, from } = &agreement.change
        && (one == me || other == me)
    {
        let last = released(folder)?;
        if last >= *from {
            if before.is_none() {
                remove(&path)?;
            }
            return Err(refused(format!(
                "{me} has released exchange {last}, and the edge would begin in exchange {from}\n  help: propose it again with a later one (--from), {} say",
                last + (last - from) + 20
            )));
        }
    }
    let identity = Identity::read(&folder.path)?;
    let key = public_key(identity.certificate())?;
    let signature = ReleaseSigner::new(&identity)?.sign(agreement.body().as_bytes());
    let signature = signature.map_err(|e| refused(format!("the site's key did not sign: {e}")))?;
    let signature = Signature { site: me.clone(), key, signature };
    agreement.is_its_own(&signature, &listed, &folder.agreements, &[]).map_err(|wrong| {
        refused(format!(
            "{wrong}\n  help: the pin of {me} in peers.toml must be that of its certificate.pem"
        ))
    })?;
    agreement.add(signature);
    Ok(())
}

/// Makes an agreement hold at this site: it is durable when this returns, and the node takes it up
/// at once if it runs, else when it starts. Applying it again changes nothing.
///
/// # Errors
/// A missing or wrong signature, another study's, an old one, or one that comes too late.
pub fn apply(folder: &Folder, agreement: &Agreement) -> Result<bool, NodeError> {
    if folder
        .agreements
        .iter()
        .any(|held| held.number == agreement.number && held.hash() == agreement.hash())
    {
        remove(&agreement::promise(&folder.path, &folder.study, agreement.number))?;
        return Ok(false);
    }
    let me = &folder.site.name;
    if matches!(&agreement.change, Change::Leave { site } if site == me) {
        return Err(refused(format!(
            "this agreement has {me} leave: its neighbours go on without it\n  help: consenso node abandon {} gives the study up here; what was charged stays spent",
            folder.path.display()
        )));
    }
    agreement.check(&folder.study, &folder.listed()?, &folder.agreements, &[])?;
    if let Change::Edge { one, other, from } = &agreement.change
        && (one == me || other == me)
    {
        let last = released(folder)?;
        if last > *from {
            return Err(refused(format!(
                "the edge begins in exchange {from}, and {me} has released exchange {last}: it signed and withdrew, or its folder was another one then\n  help: propose the edge again with a later exchange"
            )));
        }
    }
    if let Change::Replace { site, chain, .. } = &agreement.change {
        identity::believes(&folder.path, chain, site)?;
    }
    keep(folder, agreement)?;
    Ok(true)
}

/// Makes an agreement that was checked durable, in the place of the promise.
pub(crate) fn keep(folder: &Folder, agreement: &Agreement) -> Result<(), FolderError> {
    agreement::write(&agreement::path(&folder.path, &folder.study, agreement.number), agreement)?;
    remove(&agreement::promise(&folder.path, &folder.study, agreement.number))
}

/// Takes this site's promise back, for an agreement that nobody will apply.
///
/// # Errors
/// There is none, or it holds already.
pub fn withdraw(folder: &Folder) -> Result<Agreement, NodeError> {
    let path = agreement::promise(&folder.path, &folder.study, folder.agreements.len() as u32 + 1);
    if !path.exists() {
        return Err(refused(format!(
            "{}: this site has signed no agreement that is still open",
            folder.path.display()
        )));
    }
    let promised = agreement::read(&path)?;
    remove(&path)?;
    Ok(promised)
}

/// The agreement that this site signed and that does not hold yet.
#[must_use]
pub fn promised(folder: &Path, study: &crate::frame::Digest, held: usize) -> Option<Agreement> {
    let path = agreement::promise(folder, study, held as u32 + 1);
    if path.exists() { agreement::read(&path).ok() } else { None }
}

fn remove(path: &Path) -> Result<(), FolderError> {
    match std::fs::remove_file(path) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
            Err(FolderError::Read { path: path.to_owned(), cause })
        }
        _ => Ok(()),
    }
}

// ---- what a node needs of them
// -----------------------------------------------------------------------------------------

/// The row of the ledger that says that a site has taken an agreement up.
pub(crate) fn row(agreement: &Agreement, released: u32) -> Entry {
    Entry::Changed {
        number: agreement.number,
        change: agreement.change.to_string(),
        agreement: agreement.to_string(),
        released,
        time: crate::clock::text(crate::clock::now()),
    }
}

/// The agreements that the ledger knows; one whose file is gone has it again.
pub(crate) fn held(folder: &Folder, rows: &[Row], study: i64) -> Result<Vec<Agreement>, NodeError> {
    let mut all = Vec::new();
    for row in rows.iter().filter(|row| row.study == study) {
        let Entry::Changed { number, agreement: text, .. } = &row.entry else { continue };
        let known = Agreement::parse_kept(text)
            .map_err(|what| refused(format!("state.db: agreement {number} {what}")))?;
        match folder.agreements.get(all.len()) {
            Some(file) if file.hash() == known.hash() => {}
            Some(_) => {
                return Err(refused(format!(
                    "{}: the ledger (state.db) has another agreement {number} ({})\n  help: remove the file; what the ledger has is written again",
                    agreement::path(&folder.path, &folder.study, *number).display(),
                    known.change
                )));
            }
            None => keep(folder, &known)?,
        }
        all.push(known);
    }
    Ok(all)
}

/// Agent numbers of sites that left.
pub(crate) fn gone<'a>(
    folder: &'a Folder,
    agreements: &'a [Agreement],
) -> impl Iterator<Item = u32> + 'a {
    agreements.iter().filter_map(|a| match &a.change {
        Change::Leave { site } => folder.number_of(site).map(|i| i as u32),
        _ => None,
    })
}

/// Has an agent go on without a neighbour for good, if it is one.
pub(crate) fn without(agent: &mut Driven, gone: u32) -> Result<(), NodeError> {
    let over = agent.model().is_some() || agent.away().iter().any(|a| a.0 == gone);
    match !over && in_order(agent).contains(&gone) {
        true => Ok(agent.go_without(gone)?),
        false => Ok(()),
    }
}

/// All neighbours that an agent has or will have: those of the study's graph, then those that
/// joined, in the order of agreements.
pub(crate) fn in_order(agent: &Driven) -> Vec<u32> {
    let joined: Vec<u32> = agent.joined().iter().map(|j| j.0).collect();
    let mut all: Vec<u32> =
        agent.neighbours().into_iter().filter(|j| !joined.contains(j)).collect();
    all.extend(joined);
    all
}
