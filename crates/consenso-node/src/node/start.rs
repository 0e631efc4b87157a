//! Starting: everything is read, checked and reserved before the first link.

use super::agreed::Agreed;
use super::course::Course;
use super::evidence::Evidence;
use super::neighbour::Neighbour;
use super::releases::Releases;
use super::reporter::Reporter;
use super::signing::Signing;
use super::{Node, Options};
use crate::admission::{agrees, ledger, opening, repair, reserve, weights};
use crate::agreement::keys_before;
use crate::audit_log::AuditLog;
use crate::changes::{self, Added};
use crate::driven::Driven;
use crate::edges::{self, Edges};
use crate::equivocation::Watch;
use crate::error::NodeError;
use crate::folder::{Folder, graph_digest};
use crate::frame::{Digest, Hex};
use crate::identity::Identity;
use crate::link::{self, Shared};
use crate::release_cache::ReleaseCache;
use crate::release_signature::ReleaseSigner;
use crate::store::{Entry, Row, Store};
use crate::surroundings::Surroundings;
use crate::wire::Wire;
use bytes::Bytes;
use consenso_engine::experiment::{Experiment, SitePlan};
use consenso_engine::gate::Round;
use consenso_ledger::Edited;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;

/// A site that is ready to connect: everything was read and checked, and nothing has left.
pub(crate) struct Prepared {
    folder: Folder,
    graph: Digest,
    store: Store,
    study: i64,
    agent: Driven,
    plan: SitePlan,
    confirmed: Vec<u32>,
    settled: bool,
    watch: Watch,
    release_signer: ReleaseSigner,
    recent: VecDeque<(u32, Bytes)>,
    edges: Option<Edges>,
    agreed: Agreed,
}

impl Prepared {
    /// Reads and checks everything, and opens the ledger in the folder.
    pub(crate) fn new(
        folder: &Folder,
        experiment: &Experiment,
        edited: Edited,
    ) -> Result<Self, NodeError> {
        Self::with(folder, experiment, edited, |dim| ledger(folder, dim))
    }

    /// Reads and checks everything; then `open` opens the ledger for vectors of so many numbers.
    pub(crate) fn with(
        folder: &Folder,
        experiment: &Experiment,
        edited: Edited,
        open: impl FnOnce(usize) -> Result<Store, NodeError>,
    ) -> Result<Self, NodeError> {
        let release_signer = ReleaseSigner::new(&Identity::read(&folder.path)?)?;
        folder.known()?;
        agrees(folder, experiment)?;
        let (mut agent, plan) = Driven::new(experiment, folder.me)?;
        for peer in agent.neighbours() {
            folder.calls(peer as usize)?;
        }
        let mut store = open(plan.width)?;
        let graph = graph_digest(experiment.graph());
        let witness = folder.witness();
        store.witnessed_by(witness.as_deref())?;
        let opening = opening(folder, experiment, &plan)?;
        let study = store.begin_after(&opening, |id, limit| {
            // What is seeded is on public records, and is never booked.
            let books = experiment.has_own_records() && !opening.seeded;
            let own = books.then(|| folder.records());
            let Some((records, cost)) = own.zip(opening.cost) else { return Ok(id) };
            reserve(folder, &records, edited, &opening, cost, id, limit).map(Some)
        })?;
        // A ledger that has just begun has its witness before anything can be released.
        store.witnessed_by(witness.as_deref())?;
        if study.checkpoint.is_none()
            && !keys_before(&folder.agreements, &folder.site.name).is_empty()
        {
            return Err(NodeError::Experiment(format!(
                "this site has taken another one's place, and does not know yet where that one stood\n  help: consenso node rejoin {0} puts back what neighbours hold of it; then consenso node run {0} goes on",
                folder.path.display()
            )));
        }
        let own = crate::identity::public_key(Identity::read(&folder.path)?.certificate())?;
        if keys_before(&folder.agreements, &folder.site.name).contains(&own) {
            return Err(NodeError::Experiment(
                "this site's place was taken under another key (`consenso node status` shows the agreement): neighbours refuse this one".into(),
            ));
        }
        let rows = store.headings()?;
        is_no_old_copy(folder, &rows, &store, study.number)?;
        let held = changes::held(folder, &rows, study.number)?;
        let late = changes::late(folder, &rows, study.number, &held);
        let (graph_now, others) = (experiment.graph().clone(), Default::default());
        let agreed = Agreed { graph: graph_now, held, waits: None, late, others };
        for (neighbour, Added { weight, from, .. }) in agreed.added(folder) {
            folder.calls(neighbour as usize)?;
            agent.join(neighbour, weight, from)?;
        }
        if let Some(checkpoint) = &study.checkpoint {
            agent.restore(checkpoint)?;
        }
        let former_neighbours = changes::former_neighbours(folder, &agreed.held);
        for gone in changes::gone(folder, &agreed.held).chain(former_neighbours) {
            changes::without(&mut agent, gone)?;
        }
        let (mut settled, mut confirmed) = (false, Vec::new());
        let headings = store.headings()?;
        for row in headings.iter().filter(|row| row.study == study.number) {
            match &row.entry {
                Entry::Confirmed { neighbour, .. } => confirmed.push(*neighbour),
                Entry::Settled { .. } => settled = true,
                _ => {}
            }
        }
        agent.spare(Round(crate::studies::spared_until(&headings, study.number)));
        let recent: VecDeque<(u32, Bytes)> =
            store.outbox(study.number)?.into_iter().map(|(round, b)| (round, b.into())).collect();
        let edges = secrets(folder, study.number, &mut agent, !recent.is_empty())?;
        let mut watch = Watch::new(experiment.graph(), folder.me, agent.staleness() as usize);
        for edge in changes::added(folder, experiment.graph(), &agreed.held) {
            watch.join(edge.ends.0, edge.ends.1);
        }
        changes::gone(folder, &agreed.held).for_each(|gone| watch.without(gone));
        // Whoever left is refused by its name from the first call on.
        let folder = &Folder { agreements: agreed.held.clone(), ..folder.clone() };
        Ok(Self {
            watch,
            release_signer,
            recent,
            edges,
            agreed,
            folder: folder.clone(),
            study: study.number,
            graph,
            store,
            agent,
            plan,
            confirmed,
            settled,
        })
    }

    /// Starts the links.
    pub(crate) async fn connect(
        mut self,
        options: &Options,
        wire: Arc<dyn Wire>,
    ) -> Result<Node, NodeError> {
        let system = |what: String| move |cause| NodeError::System { what, cause };
        let audit = self.audit_log(options)?;
        let around = Surroundings::look(&self.folder.path, &self.store.headings()?);
        let neighbours = self.neighbours();
        let held = self.release_cache()?;
        let have = self.complete();
        let Self {
            folder,
            graph,
            store,
            study,
            agent,
            plan,
            confirmed: _,
            settled,
            watch,
            release_signer,
            recent,
            edges,
            agreed,
        } = self;
        let (sender, events) = mpsc::channel(4 * neighbours.len() + 16);
        let running = link::StudyContext {
            neighbours: changes::in_order(&agent),
            graph,
            dim: agent.longest(&plan),
            have,
        };
        let shared = Shared::new(folder, running, audit, sender, wire)
            .with_rounds_between(agent.staleness());
        #[cfg(test)]
        let shared = shared.with_actor(options.actor.clone());
        let shared = Arc::new(shared);
        let listen = format!(
            "{}: listen = \"{}\"",
            shared.folder.path.join(crate::folder::SITE).display(),
            shared.folder.site.listen.as_deref().unwrap_or_default()
        );
        let links = link::start(Arc::clone(&shared)).await;
        let without = agent.away().into_iter().map(|a| a.0).collect();
        let releases = Releases::new(store, study, recent, without, agent.model().is_some());
        Ok(Node {
            links: links.map_err(system(listen))?,
            #[cfg(test)]
            actor: options.actor.clone(),
            releases,
            signing: Signing::new(release_signer),
            neighbours,
            evidence: Evidence::new(watch, held),
            edges,
            agreed,
            course: Course::new(Arc::clone(&options.stop), settled),
            reporter: Reporter::new(options.progress.clone(), around),
            log: Vec::new(),
            shared,
            events,
            agent,
            plan,
        })
    }

    /// Opens the audit log, mends it where it stopped short of the ledger, and writes that the site
    /// starts.
    fn audit_log(&mut self, options: &Options) -> Result<AuditLog, NodeError> {
        let Self { folder, store, agent, .. } = self;
        let system = |cause| NodeError::System { what: "the audit log".into(), cause };
        let audit = AuditLog::open(&folder.path).map_err(system)?;
        let most = folder.site.log_megabytes.map(|m| u64::from(m.max(1)) << 20);
        let audit = audit.echoing(options.echo).rotating(most);
        repair(folder, store, &audit, agent)?;
        let (name, version) = (&folder.site.name, env!("CARGO_PKG_VERSION"));
        let study = Hex(&folder.study).to_string();
        let exchange = if agent.model().is_some() { agent.last() } else { agent.exchanges() };
        let round = agent.rounds_in(exchange);
        audit.write(
            "start",
            json!({ "site": name, "study": study, "round": round, "version": version }),
        );
        Ok(audit)
    }

    /// Up to which exchange this site has everybody's part.
    fn complete(&self) -> u32 {
        match self.agent.model() {
            Some(_) if !self.agent.is_masked() => self.agent.last(),
            _ => self.agent.surely_had(self.agent.exchanges()),
        }
    }

    /// The neighbours before any link is up, with what they have confirmed.
    fn neighbours(&self) -> BTreeMap<u32, Neighbour> {
        let (settled, last) = (self.settled, self.agent.last());
        let mut all = neighbours(&self.folder, &self.agent);
        let added = self.agreed.added(&self.folder).map(|(peer, edge)| (peer, edge.weight));
        for (peer, weight) in weights(&self.agreed.graph, self.folder.me).into_iter().chain(added) {
            all.entry(peer).and_modify(|n| n.weight = weight);
        }
        for (_, n) in all.iter_mut().filter(|(peer, _)| settled || self.confirmed.contains(*peer)) {
            (n.confirmed, n.acked) = (true, n.acked.max(last));
        }
        all
    }

    /// Where neighbours' last releases are kept for them; `None` where they send shares.
    fn release_cache(&self) -> Result<Option<ReleaseCache>, NodeError> {
        if self.agent.is_shared() {
            return Ok(None);
        }
        let file = crate::release_cache::path(&self.folder).display().to_string();
        // Places stay as they are: first those of the study's graph, then those of agreements in
        // their order.
        let later: Vec<u32> =
            self.agreed.added(&self.folder).map(|(neighbour, _)| neighbour).collect();
        let mut all = self.agent.neighbours();
        all.retain(|j| !later.contains(j));
        all.extend(later);
        let begins = self.recent.is_empty();
        ReleaseCache::open(&self.folder, &all, self.plan.width, begins)
            .map(Some)
            .map_err(|cause| NodeError::System { what: file, cause })
    }
}

/// What a neighbour proved once needs no neighbour any more: whoever hides it may be the only one
/// that is there next time.
fn is_no_old_copy(
    folder: &Folder,
    rows: &[Row],
    store: &Store,
    study: i64,
) -> Result<(), NodeError> {
    let Some((have, neighbour)) = crate::studies::behind(rows, study) else { return Ok(()) };
    let peer = folder.peers.get(neighbour as usize).map_or("?", |peer| &peer.name).to_owned();
    let released = crate::rejoin::last_release(store, study)?;
    Err(NodeError::OldCopy { peer, have, released })
}

/// The secrets of the site's edges, where neighbours share noise: the agent gets those that both
/// ends have. A study that is over has none.
fn secrets(
    folder: &Folder,
    study: i64,
    agent: &mut Driven,
    released: bool,
) -> Result<Option<Edges>, NodeError> {
    let system = |cause| NodeError::System { what: "the secrets of the edges".into(), cause };
    if agent.model().is_some() {
        edges::destroy(&folder.path, study).map_err(system)?;
        return Ok(None);
    }
    if agent.awaited_secrets().is_empty() {
        return Ok(None);
    }
    let edges = Edges::open(folder, study).map_err(system)?;
    for (neighbour, secret) in edges.confirmed() {
        agent.agree(neighbour, &secret);
    }
    if released && !agent.awaited_secrets().is_empty() {
        return Err(NodeError::Experiment(format!(
            "{}: the secrets that this site shares with its neighbours are not all there, and it has released under them: what it says next would cancel with nothing\n  \
             help: put the file back if it was moved; otherwise all sites give the study up (`consenso node abandon`) and begin another one",
            edges.path().display()
        )));
    }
    Ok(Some(edges))
}

/// The neighbours before any link is up.
fn neighbours(folder: &Folder, agent: &Driven) -> BTreeMap<u32, Neighbour> {
    let mut all: BTreeMap<u32, Neighbour> = changes::in_order(agent)
        .into_iter()
        .map(|j| {
            // What is complete was heard from all.
            let heard = agent.surely_had(agent.exchanges());
            (j, Neighbour::new(&folder.peers[j as usize].name, 0.0, heard))
        })
        .collect();
    let left = changes::gone(folder, &folder.agreements).filter(|gone| all.contains_key(gone));
    for gone in agent.away().into_iter().map(|a| a.0).chain(left.collect::<Vec<_>>()) {
        all.entry(gone).and_modify(Neighbour::leave);
    }
    all
}
