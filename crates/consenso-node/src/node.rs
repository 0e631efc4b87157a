//! A node: drives one agent over its links, and lets nothing out that is not on disk.
//!
//! The order of a round is the whole point: the agent drafts, charges and noises; the charge, the bytes and the state after them become
//! durable in one transaction; then the bytes go to every neighbour, over whatever links there are, the same bytes again after every
//! reconnect, until each neighbour has shown that it has them durably too.

use crate::admission::{agrees, ledger, repair, reserve, weights};
pub use crate::admission::{opening, renew_witness};
use crate::agreement::{self, Agreement, Change, keys_before};
use crate::audit_log::{AuditLog, Echo};
use crate::changes::{self, Added};
use crate::driven::{Driven, Wanted};
use crate::edges::{self, Edges};
use crate::equivocation::{Received, Verdict, Watch};
pub use crate::error::NodeError;
use crate::folder::{Away, Folder, FolderError, graph_digest};
use crate::frame::{Digest, Frame, Hex, Told, VERSION_BEFORE, blake3, sha256};
use crate::held::Held;
use crate::identity::Identity;
use crate::link::{self, Event, Links, Shared};
use crate::progress::{Link, Watched};
use crate::seal::{Seal, Sealer, Statement};
use crate::spending::{self, ChargeRow, Spending};
use crate::store::{Entry, Mixed, Store};
use crate::surroundings::Surroundings;
use crate::wire::{Tcp, Wire};
use bytes::Bytes;
use consenso_engine::experiment::{Experiment, SitePlan};
use consenso_engine::gate::{Charge, StopReason};
use consenso_ledger::Edited;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The model, if the run is over.
    pub model: Option<Vec<f64>>,
    /// Why it ended.
    pub reason: StopReason,
    /// Rounds complete.
    pub round: u32,
    /// Neighbours that did not confirm the last round, if any: they may need this node once more.
    pub unconfirmed: Vec<String>,
    /// Neighbours that the run went on without: the model is not everybody's, and theirs may be another one.
    pub without: Vec<String>,
}

/// How a node is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where it stands, for others to read.
    pub progress: Watched,
    /// Set to have it end after the round, as the operating system's signals do.
    pub stop: Arc<std::sync::atomic::AtomicBool>,
    /// What it tells on stderr of its audit log.
    pub echo: Echo,
    /// What the operator says about records that have changed since studies were charged to them.
    pub edited: Edited,
    /// Makes a site of a test lie: what it sends to whom in which exchange.
    #[cfg(test)]
    pub(crate) lie: Option<crate::liars::Lie>,
}

/// How long a node that is done waits for a goodbye from neighbours that have everything.
const LINGER: Duration = Duration::from_secs(5);

/// How long a node that was asked to stop waits for its round to end.
const GRACE: Duration = Duration::from_secs(5);

/// How long a lost link may take to come back under [`Away::Stop`].
const BLINK: Duration = Duration::from_secs(1);

/// What stands before a neighbour's own reason to leave.
const THEIR_WORDS: &str = "it said: ";

/// Agreements that are sent at once to whoever lacks them: what fits the queue of a link beside everything else.
const MOST_AGREEMENTS: usize = 8;

/// What is said of a frame that has no business here.
const OUT_OF_PLACE: &str = "a frame out of place";

/// How often a site that waits says so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// Runs the site to its end, or until it is told to stop.
///
/// # Errors
/// [`NodeError`]; what was durable stays so, and another call goes on from there.
pub fn run(folder: &Folder, experiment: &Experiment, options: &Options) -> Result<Outcome, NodeError> {
    let lock = lock(folder)?;
    let prepared = Prepared::new(folder, experiment, options.edited)?;
    let cause = |cause| NodeError::System { what: "the network's thread".into(), cause };
    // One thread for the links and the node: a message that arrives is taken, answered and sent without waking another one.
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(cause)?;
    let options = options.clone();
    let node = runtime.spawn(async move {
        let node = prepared.connect(&options, Arc::new(Tcp)).await?;
        if let Some(address) = &node.shared.folder.site.metrics {
            let started = crate::metrics::start(address, options.progress.clone()).await;
            let file = node.shared.folder.path.join(crate::folder::SITE);
            let what = format!("{}: metrics = \"{address}\"", file.display());
            started.map_err(|cause| NodeError::System { what, cause })?;
        }
        let signals = tokio::spawn(signals(options.stop));
        let outcome = node.run().await;
        signals.abort();
        outcome
    });
    let outcome = runtime.block_on(node).unwrap_or_else(|failed| match failed.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(cancelled) => Err(cause(cancelled.into())),
    });
    drop(lock);
    outcome
}

/// The operating system's requests to stop.
async fn signals(stop: Arc<std::sync::atomic::AtomicBool>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        stop.store(true, Ordering::Relaxed);
    }
}

/// One process a site: two would draw different noise for the same round.
pub(crate) fn lock(folder: &Folder) -> Result<File, NodeError> {
    let path = folder.path.join("run.lock");
    let system = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::PermissionDenied => FolderError::Read { path: path.clone(), cause }.into(),
        _ => NodeError::System { what: path.display().to_string(), cause },
    };
    let file = File::options().create(true).append(true).open(&path).map_err(system)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(NodeError::Running(folder.path.display().to_string())),
        Err(std::fs::TryLockError::Error(cause)) => Err(system(cause)),
    }
}

/// Whether a process runs the site now.
#[must_use]
pub fn is_running(folder: &std::path::Path) -> bool {
    let Ok(file) = File::options().append(true).open(folder.join("run.lock")) else { return false };
    matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock))
}

/// What the node knows of a neighbour.
#[derive(Debug)]
struct Neighbour {
    name: String,
    outgoing: Option<(u64, mpsc::Sender<Bytes>)>,
    /// It has our releases up to here, durably.
    acked: u32,
    heard: u32,
    /// The last round that was put on a link to it: sending it again is a resend.
    sent: u32,
    /// Since when there has been no link to it.
    lost: Option<Instant>,
    /// Since when it has said that it has more than was released here, and how much.
    ahead: Option<(Instant, u32)>,
    /// It said that it has more than was released here, and nothing proves it wrong: how much.
    suspected: Option<u32>,
    /// When something was last heard of it on a link.
    spoke: Instant,
    /// It sent something wrong and nothing right since: what.
    refused: Option<String>,
    /// The version that both ends speak.
    version: u16,
    /// Its signature under the release that follows.
    seal: Option<(u32, Seal)>,
    /// The newest of its releases that was taken, as it signed it.
    last: Option<(u32, Digest, Seal)>,
    /// It told different neighbours different things, which is proved: nothing is taken from it any more.
    banned: Option<String>,
    /// The largest number it sent, and in which exchange.
    largest: (f64, u32),
    ever_up: bool,
    /// The ledger says that it has everything.
    confirmed: bool,
    bye: bool,
}

/// A site that is ready to connect: everything was read and checked, and nothing has left.
pub(crate) struct Prepared {
    folder: Folder,
    graph: Digest,
    store: Store,
    study: i64,
    agent: Driven,
    plan: SitePlan,
    spending: Spending,
    confirmed: Vec<u32>,
    settled: bool,
    weights: BTreeMap<u32, f64>,
    watch: Watch,
    sealer: Sealer,
    recent: VecDeque<(u32, Bytes)>,
    edges: Option<Edges>,
    agreed: Agreed,
}

/// What the sites agreed to change, and this site has taken up.
struct Agreed {
    graph: consenso_engine::graph::Graph,
    held: Vec<Agreement>,
    /// Since when it waits for an agreement that it signed, and which.
    waits: Option<(Instant, Agreement)>,
}

impl Agreed {
    /// The number and the hash of the last.
    fn last(&self) -> (u32, Digest) {
        (self.held.len() as u32, self.held.last().map_or([0; 32], Agreement::hash))
    }

    /// Edges of this site that were added.
    fn added(&self, folder: &Folder) -> impl Iterator<Item = (u32, Added)> {
        let me = folder.me as u32;
        let all = changes::added(folder, &self.graph, &self.held);
        all.into_iter().filter_map(move |edge| Some((edge.beside(me)?, edge)))
    }
}

impl Prepared {
    pub(crate) fn new(folder: &Folder, experiment: &Experiment, edited: Edited) -> Result<Self, NodeError> {
        let sealer = Sealer::new(&Identity::read(&folder.path)?)?;
        folder.known()?;
        agrees(folder, experiment)?;
        let (mut agent, plan) = Driven::new(experiment, folder.me).map_err(NodeError::Experiment)?;
        for peer in agent.neighbours() {
            folder.calls(peer as usize)?;
        }
        let mut store = ledger(folder, plan.width)?;
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
        if study.checkpoint.is_none() && !keys_before(&folder.agreements, &folder.site.name).is_empty() {
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
        let held = changes::held(folder, &store.headings()?, study.number)?;
        let agreed = Agreed { graph: experiment.graph().clone(), held, waits: None };
        for (neighbour, Added { weight, from, .. }) in agreed.added(folder) {
            folder.calls(neighbour as usize)?;
            agent.join(neighbour, weight, from).map_err(NodeError::Experiment)?;
        }
        if let Some(checkpoint) = &study.checkpoint {
            agent.restore(checkpoint)?;
        }
        for gone in changes::gone(folder, &agreed.held) {
            changes::without(&mut agent, gone).map_err(NodeError::Experiment)?;
        }
        let spending = store.spent(study.number);
        let (mut settled, mut confirmed, mut unsure) = (false, Vec::new(), 0);
        for row in store.headings()?.iter().filter(|row| row.study == study.number) {
            match &row.entry {
                Entry::Restored { until, .. } => unsure = *until,
                Entry::Confirmed { neighbour, .. } => confirmed.push(*neighbour),
                Entry::Settled { .. } => settled = true,
                _ => {}
            }
        }
        agent.spare(unsure);
        let recent: VecDeque<(u32, Bytes)> =
            store.outbox(study.number)?.into_iter().map(|(round, b)| (round, b.into())).collect();
        let edges = secrets(folder, study.number, &mut agent, !recent.is_empty())?;
        let mut weights = weights(experiment.graph(), folder.me);
        weights.extend(agreed.added(folder).map(|(neighbour, edge)| (neighbour, edge.weight)));
        let mut watch = Watch::new(experiment.graph(), folder.me, agent.staleness() as usize);
        changes::gone(folder, &agreed.held).for_each(|gone| watch.without(gone));
        // Whoever left is refused by its name from the first call on.
        let folder = &Folder { agreements: agreed.held.clone(), ..folder.clone() };
        Ok(Self {
            weights,
            watch,
            sealer,
            recent,
            edges,
            agreed,
            folder: folder.clone(),
            study: study.number,
            graph,
            store,
            agent,
            plan,
            spending,
            confirmed,
            settled,
        })
    }

    /// Starts the links.
    pub(crate) async fn connect(self, options: &Options, wire: Arc<dyn Wire>) -> Result<Node, NodeError> {
        let Self {
            folder,
            graph,
            mut store,
            study,
            agent,
            plan,
            spending,
            confirmed,
            settled,
            weights,
            watch,
            sealer,
            recent,
            edges,
            agreed,
        } = self;
        let system = |what: String| move |cause| NodeError::System { what, cause };
        let told_without = agent.away().into_iter().map(|a| a.0).collect();
        let audit = AuditLog::open(&folder.path).map_err(system("the audit log".into()))?;
        let audit = audit.echoing(options.echo);
        repair(&folder, &mut store, &audit, &agent)?;
        let around = Surroundings::look(&folder.path, &store.headings()?);
        let last = agent.last(&plan);
        let have = match agent.model() {
            Some(_) if !agent.is_masked() => last,
            _ => agent.surely_had(agent.round(), &plan),
        };
        let (name, version) = (&folder.site.name, env!("CARGO_PKG_VERSION"));
        let digest = Hex(&folder.study).to_string();
        let round = agent.rounds(if agent.model().is_some() { last } else { agent.round() });
        audit.write("start", json!({ "site": name, "study": digest, "round": round, "version": version }));
        let mut neighbours = neighbours(&folder, &agent, &plan);
        for (_, n) in neighbours.iter_mut().filter(|(peer, _)| settled || confirmed.contains(*peer)) {
            (n.confirmed, n.acked) = (true, n.acked.max(last));
        }
        let held = match agent.is_shared() {
            true => None,
            false => {
                let file = system(crate::held::path(&folder).display().to_string());
                // Places stay as they are: first those of the study's graph, then those of agreements in their order.
                let later: Vec<u32> = agreed.added(&folder).map(|(neighbour, _)| neighbour).collect();
                let mut all = agent.neighbours();
                all.retain(|j| !later.contains(j));
                all.extend(later);
                Some(Held::open(&folder, &all, plan.width, recent.is_empty()).map_err(file)?)
            }
        };
        let (sender, events) = mpsc::channel(4 * neighbours.len() + 16);
        let running =
            link::Study { neighbours: changes::in_order(&agent), graph, dim: agent.longest(&plan), have };
        let shared = Shared::new(folder, running, audit, sender, wire).with_rounds_between(agent.staleness());
        let shared = Arc::new(shared);
        let listen = format!(
            "{}: listen = \"{}\"",
            shared.folder.path.join(crate::folder::SITE).display(),
            shared.folder.site.listen.as_deref().unwrap_or_default()
        );
        let links = link::start(Arc::clone(&shared)).await;
        Ok(Node {
            links: links.map_err(system(listen))?,
            #[cfg(test)]
            lie: options.lie,
            progress: options.progress.clone(),
            asked: Arc::clone(&options.stop),
            stop: None,
            complete: None,
            done: None,
            log: Vec::new(),
            drafted: SLOW,
            released_at: Instant::now(),
            sign_of_life: Instant::now(),
            moves: 0,
            reported: None,
            around: (Instant::now(), around),
            shared,
            events,
            store,
            study,
            agent,
            plan,
            spending,
            settled,
            weights,
            watch,
            sealer,
            seals: VecDeque::new(),
            accused: Vec::new(),
            compared: 0,
            neighbours,
            recent,
            held,
            edges,
            agreed,
            told_without,
        })
    }
}

/// The secrets of the site's edges, where neighbours share noise: the agent gets those that both ends have. A study that is over has none.
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

/// What goes into the audit log once the round is on its way.
enum Line {
    Received { peer: u32, round: u32, bytes: Bytes, seal: Option<Seal> },
    Released { round: u32, blake3: Digest, charge: ChargeRow, ledger: Digest },
}

/// A draft that takes longer than this is made while another thread keeps the links alive.
const SLOW: Duration = Duration::from_millis(5);

/// How often the state is told to whoever watches.
const NEWS: Duration = Duration::from_millis(20);

/// How often certificate, pins and disk are looked at.
const AROUND: Duration = Duration::from_secs(5);

pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    links: Links,
    events: mpsc::Receiver<Event>,
    store: Store,
    study: i64,
    agent: Driven,
    plan: SitePlan,
    spending: Spending,
    weights: BTreeMap<u32, f64>,
    neighbours: BTreeMap<u32, Neighbour>,
    /// What neighbours that are neighbours of each other were sent.
    watch: Watch,
    sealer: Sealer,
    /// Signatures of the last releases.
    seals: VecDeque<(Digest, Seal)>,
    /// Neighbours to be refused once the round is on its way, and why.
    accused: Vec<(u32, String)>,
    /// The last round whose releases were compared with neighbours.
    compared: u32,
    /// The last releases: (round, bytes).
    recent: VecDeque<(u32, Bytes)>,
    /// The last releases of neighbours, should one of them lose its disk.
    held: Option<Held>,
    /// Secrets shared with neighbours, in a study that has such noise and until it is over.
    edges: Option<Edges>,
    agreed: Agreed,
    /// Sites that the ledger says the run goes on without.
    told_without: std::collections::BTreeSet<u32>,
    #[cfg(test)]
    lie: Option<crate::liars::Lie>,
    progress: Watched,
    asked: Arc<std::sync::atomic::AtomicBool>,
    stop: Option<Instant>,
    complete: Option<Instant>,
    done: Option<(Instant, StopReason)>,
    settled: bool,
    log: Vec<Line>,
    /// How long the last draft took.
    drafted: Duration,
    /// When the last release went out.
    released_at: Instant,
    /// When those who wait for this site were last told that it waits too.
    sign_of_life: Instant,
    /// Releases since it last had nothing to do.
    moves: u32,
    reported: Option<Instant>,
    around: (Instant, Surroundings),
}

impl Node {
    /// Runs to the end. Who ends because of somebody else tells its neighbours whom it means: they would blame whoever is gone.
    pub(crate) async fn run(mut self) -> Result<Outcome, NodeError> {
        let ended = self.go_on().await;
        if let Err(error) = &ended
            && error.is_about_others()
        {
            let words = error.to_string();
            let words = words.lines().next().unwrap_or_default();
            let said = Frame::Refused(format!("{} stopped: {words}", self.shared.folder.site.name)).encode();
            let all: Vec<u32> = self.neighbours.keys().copied().collect();
            for peer in all {
                self.send(peer, said.clone());
            }
        }
        self.neighbours.clear();
        self.links.close().await;
        ended
    }

    async fn go_on(&mut self) -> Result<Outcome, NodeError> {
        if self.agent.model().is_some() {
            self.done = Some((Instant::now(), StopReason::Finished));
        }
        loop {
            let moved = self.advance()?;
            if moved {
                // What was sent leaves before the next is thought of: a neighbour waits for it.
                tokio::task::yield_now().await;
            }
            self.moves = if moved { self.moves + 1 } else { 0 };
            // The log can wait for a round, not for more.
            if self.events.is_empty() || self.log.len() > 2 * self.neighbours.len() {
                self.write_log();
                self.compare();
                self.store.log_is_whole(&self.shared.audit)?;
            }
            if self.reported.is_none_or(|before| before.elapsed() >= NEWS) {
                self.report();
            }
            if self.asked.load(Ordering::Relaxed) {
                self.stop.get_or_insert_with(Instant::now);
            }
            // Between two messages of a round there is nothing to end; but whoever never waits must look, too.
            let look = !moved || self.moves.is_multiple_of(16);
            if let Some(outcome) = if look { self.ended()? } else { None } {
                self.shared.audit.sum_up();
                self.audit("stop", json!({ "round": outcome.round, "reason": outcome.reason }));
                self.shared.audit.sync();
                self.report();
                return Ok(outcome);
            }
            if !moved {
                self.tell_those_who_wait();
                let wait = self.patience();
                if let Ok(Some(event)) = timeout(wait, self.events.recv()).await {
                    self.take(event)?;
                }
            }
            // What else has arrived goes into the same round.
            while let Ok(event) = self.events.try_recv() {
                self.take(event)?;
            }
        }
    }

    /// A site that waits for others says so to those who wait for it, so that silence means what it seems to mean.
    fn tell_those_who_wait(&mut self) {
        // One that is done is waited for under masks alone: whoever is still in the last round may have to begin it again without somebody.
        let done = self.done.is_some();
        if (done && !self.agent.is_masked()) || self.sign_of_life.elapsed() < SIGN_OF_LIFE {
            return;
        }
        self.sign_of_life = Instant::now();
        if !done && self.agent.awaited().is_empty() && self.agreed.waits.is_none() {
            return;
        }
        let round = if done { self.agent.mark(&self.plan) } else { self.shared.have.load(Ordering::Acquire) };
        let ack = Frame::Ack { round }.encode();
        let waits = |n: &Neighbour| n.outgoing.is_some() && !(done && n.bye);
        let linked: Vec<u32> = self.neighbours.iter().filter(|(_, n)| waits(n)).map(|(&j, _)| j).collect();
        for peer in linked {
            self.send(peer, ack.clone());
        }
    }

    /// Does what the agent wants done, until something is on its way (true) or the agent waits for somebody (false).
    fn advance(&mut self) -> Result<bool, NodeError> {
        loop {
            // In this order: an agreement that is applied is there before the promise goes, so one of the two is always seen.
            let promised = self.waits_for_an_agreement();
            self.look_for_changes()?;
            if promised && self.waits_for_an_agreement() {
                return Ok(false);
            }
            let wanted = self.draft().map_err(|words| match self.agent.is_forged() {
                true => NodeError::Shares(words),
                false => NodeError::Experiment(words),
            })?;
            match wanted {
                Some(Wanted::Commit { round, bytes, charge }) => {
                    return self.release(round, bytes, charge).map(|()| true);
                }
                Some(Wanted::Done(reason)) => return self.finish(reason).map(|()| true),
                Some(Wanted::Nothing) => {}
                None => return Ok(false),
            }
        }
    }

    /// Asks the agent, which may have to think.
    fn draft(&mut self) -> Result<Option<Wanted>, String> {
        let began = std::time::Instant::now();
        let elsewhere = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let wanted = if self.drafted >= SLOW && elsewhere {
            tokio::task::block_in_place(|| self.agent.poll())
        } else {
            self.agent.poll()
        };
        let took = began.elapsed();
        if matches!(wanted, Ok(Some(Wanted::Commit { .. }))) {
            // Sums of shares take no time, and the shares after them do.
            self.drafted = took.max(self.drafted / 2);
        }
        self.progress.set(|p| p.drafting += took.as_secs_f64());
        wanted
    }

    /// Makes the release that was just drawn durable, then sends it. The log comes last: charges rest on the ledger, not on it.
    fn release(&mut self, round: u32, bytes: Bytes, charge: Charge) -> Result<(), NodeError> {
        let charge = spending::row(&charge);
        self.spending.add(&charge);
        let began = std::time::Instant::now();
        let mixed = Mixed { ages: self.agent.ages(), oldest: self.agent.staleness() };
        let blake3 =
            self.store.release(self.study, round, &bytes, charge.clone(), mixed, self.agent.checkpoint())?;
        let committed = began.elapsed().as_secs_f64();
        self.shared.have.store(self.agent.surely_had(round - 1, &self.plan), Ordering::Release);
        (self.released_at, self.sign_of_life) = (Instant::now(), Instant::now());
        self.recent.push_back((round, bytes));
        while self.recent.len() > 2 + self.agent.staleness() as usize {
            self.recent.pop_front();
        }
        let all: Vec<u32> = self.neighbours.keys().copied().collect();
        for peer in all {
            self.send_release(peer, round);
        }
        self.progress.set(|p| {
            p.commit_ms = 1e3 * committed;
            p.committing += committed;
            p.remember(self.agent.rounds(round - 1), || self.agent.convergence());
        });
        self.log.push(Line::Released { round, blake3, charge, ledger: *self.store.head() });
        Ok(())
    }

    /// Writes a line of the audit log, after those that happened before it.
    fn audit(&mut self, event: &str, fields: serde_json::Value) {
        self.write_log();
        self.shared.audit.write(event, fields);
    }

    /// Writes the lines that had to wait until the round was on its way.
    fn write_log(&mut self) {
        let hex = |digest: &Digest| Hex(digest).to_string();
        for line in std::mem::take(&mut self.log) {
            let (event, exchange, mut fields) = match line {
                Line::Received { peer, round, bytes, seal } => {
                    let blake3 = blake3(&bytes);
                    let mut fields = json!({ "peer": self.neighbours[&peer].name, "blake3": hex(&blake3) });
                    if let Some(seal) = seal {
                        fields["scheme"] = seal.scheme.into();
                        fields["signature"] = Hex(&seal.signature).to_string().into();
                        let to = self.agent.is_addressed().then_some(self.shared.folder.me as u32);
                        let study = self.shared.folder.study;
                        let said = Statement { study, from: peer, to, round, blake3 };
                        let key = self.shared.key_of(peer);
                        if !key.is_some_and(|key| said.is_signed_by(&key, &seal)) {
                            self.accused
                                .push((peer, format!("its signature under exchange {round} is not its own")));
                        } else if let Some(n) = self.neighbours.get_mut(&peer) {
                            n.last = Some((round, blake3, seal.clone()));
                        }
                        if !self.agent.is_shared() {
                            self.watch.received(peer, round, Received { blake3, seal });
                        }
                    }
                    ("received", round, fields)
                }
                Line::Released { round, blake3, charge, ledger } => (
                    "released",
                    round,
                    json!({ "blake3": hex(&blake3), "charge": charge, "ledger": hex(&ledger) }),
                ),
            };
            let round = self.agent.begun(exchange);
            fields["round"] = round.into();
            if self.agent.is_shared() {
                fields["exchange"] = exchange.into();
            }
            self.shared.audit.write(event, fields);
        }
    }

    fn finish(&mut self, reason: StopReason) -> Result<(), NodeError> {
        self.refuse_no_model()?;
        let round = self.agent.round();
        let model: Vec<u8> =
            self.agent.model().unwrap_or_default().iter().flat_map(|x| x.to_le_bytes()).collect();
        let model = Hex(&sha256(&[&model])).to_string();
        let entry = Entry::Done { round, reason: format!("{reason:?}"), model: model.clone() };
        self.store.note(self.study, entry, self.agent.checkpoint())?;
        if let Some(edges) = self.edges.take() {
            let folder = &self.shared.folder;
            let what = edges.path().display().to_string();
            edges::destroy(&folder.path, self.study).map_err(|cause| NodeError::System { what, cause })?;
        }
        self.shared.have.store(round, Ordering::Release);
        let rounds = self.agent.rounds(round);
        let without = self.without();
        self.audit(
            "done",
            json!({ "round": rounds, "reason": reason, "model_sha256": model, "without": without }),
        );
        let elapsed = self.complete.map_or(0.0, |since| since.elapsed().as_secs_f64());
        self.progress.set(|p| {
            (p.finished, p.seconds) = (true, elapsed);
            p.remember(self.agent.rounds(round), || self.agent.convergence());
        });
        self.done = Some((Instant::now(), reason));
        let all: Vec<u32> = self.neighbours.keys().copied().collect();
        let mark = self.agent.mark(&self.plan);
        for peer in all {
            self.send(peer, Frame::Ack { round: mark }.encode());
            self.part(peer)?;
        }
        Ok(())
    }

    /// What lies outside the public range of models is never the end of a study.
    fn refuse_no_model(&mut self) -> Result<(), NodeError> {
        let range = self.plan.range;
        let model = self.agent.model().unwrap_or_default();
        let what = match model.iter().position(|x| !x.is_finite()) {
            Some(index) => format!("the model is not finite at index {index}"),
            None => {
                let largest = model.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                if largest <= range {
                    return Ok(());
                }
                format!(
                    "the model is out of range: it has {largest:.3e}, and no model of this study is beyond {range:.3e}"
                )
            }
        };
        let longest = self.neighbours.values().max_by(|a, b| a.largest.0.total_cmp(&b.largest.0));
        let (peer, (largest, round)) =
            longest.map_or_else(|| ("nobody".to_owned(), (0.0, 0)), |n| (n.name.clone(), n.largest));
        self.audit("out-of-range", json!({ "what": what, "peer": peer, "largest": largest, "round": round }));
        Err(NodeError::OutOfRange { what, peer, largest, round })
    }

    fn take(&mut self, event: Event) -> Result<(), NodeError> {
        match event {
            Event::Up { peer, link, have, version, outgoing } => {
                self.up(peer, link, (have, version), outgoing)?;
            }
            Event::Down { peer, link } => {
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
            Event::Frame { peer, link, frame, bytes } => self.frame(peer, link, frame, bytes)?,
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
        self.shared.audit.of_peer("link-up", &n.name, json!({ "peer": n.name, "have": have, "key": key }));
        (n.spoke, n.version, n.seal) = (Instant::now(), version, None);
        // It has an exchange when it has this site's part of it, which was durable here before it left; or when it went on without this site, and says so next.
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
        // What it said when it left is over when it is back; what was wrong with what it sent is not.
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
                Err(words) => return Err(NodeError::Experiment(words)),
            }
        }
        let rounds: Vec<u32> = self.recent.iter().map(|r| r.0).filter(|&round| round > have).collect();
        for round in rounds {
            self.send_release(peer, round);
        }
        if self.done.is_some() {
            self.send(peer, Frame::Ack { round: self.agent.mark(&self.plan) }.encode());
            self.part(peer)?;
        }
        if self.complete.is_none() && self.neighbours.values().all(|n| n.outgoing.is_some()) {
            self.complete = Some(Instant::now());
        }
        Ok(())
    }

    fn frame(&mut self, peer: u32, link: u64, frame: Frame, bytes: Bytes) -> Result<(), NodeError> {
        let last = self.agent.last(&self.plan);
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
                if n.version > VERSION_BEFORE && n.seal.as_ref().is_none_or(|seal| seal.0 != round) =>
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
                                // Before anything is answered: what this site has gone on from, it can give back. A full disk stops it at its next release.
                                let _ = held.keep(peer, round, &bytes, seal);
                            }
                            self.log.push(Line::Received { peer, round, bytes, seal });
                        }
                    }
                    Err(reason) => self.refuse(peer, &reason),
                }
            }
            Frame::Ack { round } if round <= last => n.acked = n.acked.max(round),
            Frame::Bye => n.bye = true,
            Frame::Seal { round, seal } if n.version > VERSION_BEFORE => n.seal = Some((round, seal)),
            Frame::Heard { round, summary } if n.version > VERSION_BEFORE => {
                self.watch.heard(peer, round, summary);
            }
            Frame::Told { round, all } if n.version > VERSION_BEFORE => self.told(peer, round, &all),
            Frame::Lost if n.version > VERSION_BEFORE => self.give_back(peer),
            Frame::EdgeKey { public, proof } => self.agree(peer, |edges| edges.answer(peer, &public, proof)),
            Frame::EdgeSame { proof } => self.agree(peer, |edges| edges.same(peer, &proof).map(|()| None)),
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

    /// Goes on with agreeing on the secret of an edge. Whose secrets are gone because its study is over needs none; a study that never had any has no place for them.
    fn agree(&mut self, peer: u32, step: impl FnOnce(&mut Edges) -> Result<Option<Frame>, String>) {
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
            Err(reason) => self.refuse(peer, &reason),
        }
    }

    /// A neighbour lost its state: it gets what this site has of it, which only its own signature makes worth anything.
    fn give_back(&mut self, peer: u32) {
        self.write_log();
        let kept = self.held.as_ref().map(|held| held.of(peer)).unwrap_or_default();
        let (name, rounds) = (&self.neighbours[&peer].name, kept.iter().map(|k| k.0).collect::<Vec<_>>());
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

    /// Ends the links to neighbours that say they have more than was released here, and have not said within `patience` that they went on without
    /// this site. Nothing is sent to them. Either one of them lies, or the ledger is an old copy: then nothing more may be drawn, and as long as the
    /// site waits for them nothing is. A ledger that its witness has counted is no old copy, so there it is a lie.
    fn doubt_who_is_ahead(&mut self, patience: Duration) {
        let released = self.recent.back().map_or(0, |r| r.0);
        let overdue: Vec<(u32, u32)> = self
            .neighbours
            .iter()
            .filter_map(|(&j, n)| n.ahead.filter(|(since, _)| since.elapsed() >= patience).map(|a| (j, a.1)))
            .collect();
        for (peer, have) in overdue {
            let reason =
                format!("it says that it has exchange {have} of this site, which has released {released}");
            let witnessed = self.store.is_witnessed();
            if let Some(n) = self.neighbours.get_mut(&peer) {
                n.ahead = None;
                n.suspected = (!witnessed).then_some(have);
            }
            self.refuse(peer, &reason);
        }
    }

    /// Says goodbye to a neighbour that has everything, once this node has too. It may be gone for good after that, so what it said is made
    /// durable first: after a crash nobody would be there to say it again.
    fn part(&mut self, peer: u32) -> Result<(), NodeError> {
        let last = self.agent.last(&self.plan);
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
    fn refuse(&mut self, peer: u32, reason: &str) {
        self.write_log();
        let Some(n) = self.neighbours.get_mut(&peer) else { return };
        self.shared.audit.refused(&n.name, reason);
        if let Some((_, outgoing)) = n.outgoing.take() {
            drop(outgoing.try_send(Frame::Refused(reason.to_owned()).encode()));
        }
        n.refused = Some(reason.to_owned());
        n.lost.get_or_insert_with(Instant::now);
    }

    fn send_release(&mut self, peer: u32, round: u32) {
        if self.agent.joined().iter().any(|&(j, first)| j == peer && round < first) {
            return;
        }
        let all = self.recent.iter().find(|r| r.0 == round).map(|r| &r.1);
        let Some(bytes) = all.and_then(|bytes| self.agent.part(peer, bytes)) else { return };
        #[cfg(test)]
        let bytes = crate::liars::told(self.lie, peer, bytes);
        if self.neighbours.get(&peer).is_some_and(|n| n.version > VERSION_BEFORE && n.outgoing.is_some()) {
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

    /// A neighbour shows what it has of this site: a release that this site signed and does not know makes its ledger an old copy.
    fn reminded(&mut self, peer: u32, round: u32, blake3: Digest, seal: &Seal) -> Result<(), NodeError> {
        let released = self.recent.back().map_or(0, |r| r.0);
        if round <= released {
            return Ok(());
        }
        let (from, to) = (self.shared.folder.me as u32, self.agent.is_addressed().then_some(peer));
        let said = Statement { study: self.shared.folder.study, from, to, round, blake3 };
        let own = Identity::read(&self.shared.folder.path)
            .and_then(|identity| crate::identity::public_key(identity.certificate()));
        let before = keys_before(&self.agreed.held, &self.shared.folder.site.name);
        if !own.ok().iter().chain(&before).any(|key| said.is_signed_by(key, seal)) {
            if let Some(n) = self.neighbours.get_mut(&peer) {
                n.ahead = None;
            }
            self.refuse(peer, &format!("its proof of exchange {round} is not signed by this site"));
            return Ok(());
        }
        let peer = self.neighbours[&peer].name.clone();
        self.audit("old-copy", json!({ "peer": peer, "have": round, "released": released }));
        Err(NodeError::OldCopy { peer, have: round, released })
    }

    /// Compares with neighbours what those that both have in common sent in the last complete round, and refuses whoever was accused.
    fn compare(&mut self) {
        for (peer, reason) in std::mem::take(&mut self.accused) {
            self.refuse(peer, &reason);
        }
        let stale = self.agent.staleness();
        // What is as old as a vector may be has come in from everybody; at the end all has.
        let complete = match self.agent.model() {
            Some(_) => self.agent.round(),
            None => self.agent.round().saturating_sub(stale),
        };
        if self.agent.is_shared() || complete <= self.compared {
            return;
        }
        let first =
            if stale == 0 { complete } else { (self.compared + 1).max(complete.saturating_sub(stale)) };
        self.compared = complete;
        let speak = |n: &Neighbour| n.version > VERSION_BEFORE && n.outgoing.is_some();
        let peers: Vec<u32> = self.neighbours.iter().filter(|(_, n)| speak(n)).map(|(&j, _)| j).collect();
        for (peer, round) in peers.into_iter().flat_map(|peer| (first..=complete).map(move |r| (peer, r))) {
            if let Some(summary) = self.watch.summary(peer, round) {
                self.send(peer, Frame::Heard { round, summary }.encode());
            }
        }
        for (peer, round) in self.watch.disagreements(complete) {
            let all = self.watch.told(peer, round);
            self.send(peer, Frame::Told { round, all }.encode());
        }
    }

    /// A neighbour says what others sent it in a round.
    fn told(&mut self, peer: u32, round: u32, all: &[Told]) {
        self.write_log();
        let (study, shared) = (self.shared.folder.study, Arc::clone(&self.shared));
        let signed = |told: &Told| {
            let said = Statement { study, from: told.about, to: None, round, blake3: told.blake3 };
            shared.key_of(told.about).is_some_and(|key| said.is_signed_by(&key, &told.seal))
        };
        let verdicts = self.watch.judge(peer, round, all, signed);
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
                    let mine = self.watch.told(peer, round).into_iter().find(|told| told.about == liar);
                    let proof = |told: Option<&Told>| {
                        told.map(|t| {
                            json!({ "blake3": Hex(&t.blake3).to_string(), "scheme": t.seal.scheme,
                                "signature": Hex(&t.seal.signature).to_string() })
                        })
                    };
                    let line = json!({ "peer": name, "round": round, "by": by, "here": proof(mine.as_ref()), "there": proof(theirs) });
                    self.audit("equivocation", line);
                    // Whoever knows the site gets both: one of them is not what it received itself.
                    let proof: Vec<Told> = mine.into_iter().chain(theirs.cloned()).collect();
                    let others: Vec<u32> = self.neighbours.keys().copied().filter(|j| *j != liar).collect();
                    for other in others {
                        if self.neighbours[&other].version > VERSION_BEFORE
                            && self.neighbours[&other].outgoing.is_some()
                        {
                            self.send(other, Frame::Told { round, all: proof.clone() }.encode());
                        }
                    }
                    self.refuse(liar, &reason);
                }
                Verdict::Slander(_) => {
                    self.refuse(
                        peer,
                        &format!("what it says that others sent in round {round} is not signed by them"),
                    );
                }
            }
        }
    }

    /// Puts a frame on the link, if there is one. A peer that does not read fast enough for three frames is as good as away.
    fn send(&mut self, peer: u32, bytes: Bytes) -> bool {
        let Some(n) = self.neighbours.get_mut(&peer).filter(|n| n.ahead.is_none()) else { return false };
        let sent = n.outgoing.as_ref().is_some_and(|(_, outgoing)| outgoing.try_send(bytes).is_ok());
        if !sent {
            n.outgoing = None;
            n.lost.get_or_insert_with(Instant::now);
        }
        sent
    }

    /// How long to wait for the next event at most.
    fn patience(&self) -> Duration {
        if self.done.is_some() || self.stop.is_some() {
            Duration::from_millis(20)
        } else {
            Duration::from_millis(200)
        }
    }

    /// Whether there is nothing more to do, or no sense in waiting.
    fn ended(&mut self) -> Result<Option<Outcome>, NodeError> {
        self.doubt_who_is_ahead(BLINK);
        let last = self.agent.last(&self.plan);
        if let Some((since, reason)) = self.done {
            return self.parted(since, reason, last);
        }
        let round = self.agent.round();
        if let Some(since) = self.stop {
            // A round ends when its exchange is complete and the next release is on disk and on its way.
            let mid_round = self.neighbours.values().any(|n| n.heard > round);
            if !mid_round || since.elapsed() > GRACE {
                let reason = StopReason::Interrupted;
                let round = self.agent.rounds(round);
                let without = self.without();
                return Ok(Some(Outcome { model: None, reason, round, unconfirmed: Vec::new(), without }));
            }
            return Ok(None);
        }
        self.mind_the_absent(round)?;
        Ok(None)
    }

    /// Whether a node that is done can leave: nobody needs it, or nobody has come for too long.
    fn parted(
        &mut self,
        since: Instant,
        reason: StopReason,
        last: u32,
    ) -> Result<Option<Outcome>, NodeError> {
        let open: Vec<&Neighbour> = self.neighbours.values().filter(|n| n.acked < last || !n.bye).collect();
        let unconfirmed: Vec<String> =
            open.iter().filter(|n| n.acked < last).map(|n| n.name.clone()).collect();
        // Who has everything may not know that this node has, too: it should find somebody when it calls again.
        let quiet = open.iter().filter_map(|n| n.lost).fold(since, Instant::max).elapsed();
        let waits = !unconfirmed.is_empty() || quiet < LINGER;
        let deadline = Duration::from_secs_f64(self.shared.folder.site.deadline_seconds);
        // Who is here and not done may first have to find out who is gone, and then needs to be told what the last round revealed.
        let needed = open.iter().any(|n| n.acked < last && n.outgoing.is_some())
            && since.elapsed() < deadline.saturating_mul(self.agent.patience());
        if !open.is_empty() && self.stop.is_none() && waits && (since.elapsed() < deadline || needed) {
            return Ok(None);
        }
        if unconfirmed.is_empty() && !self.settled {
            self.settled = true;
            self.store.note(self.study, Entry::Settled { round: last }, self.agent.checkpoint())?;
        }
        let model = self.agent.model().map(<[f64]>::to_vec);
        let (round, without) = (self.agent.rounds(last), self.without());
        Ok(Some(Outcome { model, reason, round, unconfirmed, without }))
    }

    /// The names of those it went on without.
    fn without(&self) -> Vec<String> {
        self.agent.away().iter().map(|(j, _)| self.name_of(*j)).collect()
    }

    /// Ends links whose peer has a key that is not the one in `peers.toml` any more.
    fn mind_the_pins(&mut self) {
        let Ok((peers, _)) = self.shared.folder.peers_now() else { return };
        let replaced = |(&peer, n): (&u32, &Neighbour)| {
            let key = self.shared.key_of(peer).filter(|_| n.outgoing.is_some())?;
            let pin = peers.get(peer as usize)?.pin.clone();
            let shown = sha256(&[&key]);
            let agreed = keys_before(&self.agreed.held, &n.name).iter().any(|before| before[..] == key[..]);
            let how = if agreed { "by an agreement" } else { "in peers.toml" };
            let other =
                (Hex(&shown).to_string() != pin).then(|| format!("the pin of its key was replaced {how}"));
            other.or_else(|| self.shared.folder.revoked(&shown)).map(|reason| (peer, reason))
        };
        let found: Vec<(u32, String)> = self.neighbours.iter().filter_map(replaced).collect();
        for (peer, reason) in found {
            self.refuse(peer, &reason);
            self.shared.cut(peer);
        }
    }

    /// Whether the next exchange is one that this site promised not to complete before an agreement holds.
    fn waits_for_an_agreement(&mut self) -> bool {
        let folder = &self.shared.folder;
        let promised = changes::promised(&folder.path, &folder.study, self.agreed.held.len());
        let released = self.recent.back().map_or(0, |r| r.0);
        let waits = promised.filter(|promised| match &promised.change {
            Change::Edge { one, other, from } => {
                [one, other].contains(&&folder.site.name) && released >= *from && self.done.is_none()
            }
            _ => false,
        });
        let since = self.agreed.waits.take().map_or_else(Instant::now, |w| w.0);
        self.agreed.waits = waits.map(|promised| (since, promised));
        self.agreed.waits.is_some()
    }

    /// Takes up what the operator applied to the folder meanwhile.
    fn look_for_changes(&mut self) -> Result<(), NodeError> {
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
        let late = |why: String| {
            NodeError::Experiment(format!(
                "agreement {} ({}): {why}\n  help: it cannot hold here any more; remove {} and agree with the others on another one",
                new.number,
                new.change,
                agreement::path(&folder.path, &folder.study, new.number).display()
            ))
        };
        let released = self.recent.back().map_or(0, |r| r.0);
        let mut entries = vec![changes::row(new, released)];
        self.agreed.held.push(new.clone());
        let over = self.agent.model().is_some();
        match &new.change {
            Change::Leave { site } if *site == me => return Err(late("this site leaves".into())),
            Change::Leave { site } => {
                let gone = folder.number_of(site).map_or(u32::MAX, |i| i as u32);
                let missed = self.agent.away().iter().all(|a| a.0 != gone);
                if self.neighbours.contains_key(&gone) && missed && !over {
                    changes::without(&mut self.agent, gone).map_err(late)?;
                    let weight = self.weights.get(&gone).copied().unwrap_or(0.0);
                    let round = self.agent.round() + 1;
                    entries.push(Entry::Absent { round, neighbour: gone, weight });
                }
            }
            Change::Edge { one, other, .. } if *one == me || *other == me => {
                if let Some((neighbour, edge)) = self.agreed.added(&folder).last() {
                    folder.calls(neighbour as usize)?;
                    self.agent.join(neighbour, edge.weight, edge.from).map_err(late)?;
                }
            }
            Change::Replace { .. } | Change::Edge { .. } => {}
        }
        self.store.note_all(self.study, entries, self.agent.checkpoint())?;
        let summary = new.summary();
        self.audit("change", json!(summary));
        self.show(new);
        let (number, hash) = self.agreed.last();
        let old = |n: &Neighbour| n.version <= VERSION_BEFORE;
        let linked: Vec<u32> = self
            .neighbours
            .iter()
            .filter(|(_, n)| n.outgoing.is_some() && !old(n))
            .map(|(&j, _)| j)
            .collect();
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
                self.watch.without(gone);
            }
            Change::Replace { .. } => self.mind_the_pins(),
            Change::Edge { one, other, .. } => {
                let ends = [one, other].contains(&&folder.site.name);
                if let Some((peer, edge)) = self.agreed.added(&folder).last().filter(|_| ends) {
                    self.weights.insert(peer, edge.weight);
                    let name = &folder.peers[peer as usize].name;
                    self.neighbours.entry(peer).or_insert_with(|| Neighbour::new(name));
                    if let Some(held) = &mut self.held {
                        held.add(peer);
                    }
                    self.links.add(peer);
                }
            }
        }
    }

    /// A neighbour says what holds there: whoever has fewer agreements gets those it lacks.
    fn agreed_there(&mut self, peer: u32, number: u32, hash: Digest) {
        let (mine, last) = self.agreed.last();
        if number > mine {
            self.send(peer, Frame::Agreed { number: mine, hash: last }.encode());
            return;
        }
        if number == mine && hash == last {
            return;
        }
        // Also the one of its number, where that is another one: both ends can show then who signed two.
        let same = number == 0 || self.agreed.held[number as usize - 1].hash() == hash;
        let from = if same { number as usize } else { number as usize - 1 };
        let texts: Vec<String> =
            self.agreed.held[from..].iter().take(MOST_AGREEMENTS).map(Agreement::to_string).collect();
        for text in texts {
            self.send(peer, Frame::Agreement(text).encode());
        }
    }

    /// A neighbour has an agreement that does not hold here. If it is the next, this site signed it as all others did.
    fn agreed_elsewhere(&mut self, peer: u32, text: &str) -> Result<(), NodeError> {
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
            let line = json!({ "peer": name, "signed_both": both, "here": held.to_string(), "there": text });
            self.audit("two-agreements", line);
            let who = if both.is_empty() { "nobody".to_owned() } else { both.join(", ") };
            self.refuse(peer, &format!("{reason}; {who} signed both"));
            return Ok(());
        }
        let folder = self.shared.folder.clone();
        let listed = folder.listed()?;
        if let Err(reason) = new.check(&folder.study, &listed, &self.agreed.held, &[]) {
            let reason = reason.lines().next().unwrap_or_default().to_owned();
            self.refuse(peer, &format!("its agreement is not taken: {reason}"));
            return Ok(());
        }
        if !new.signatures.iter().any(|s| s.site == folder.site.name) {
            self.refuse(peer, &format!("agreement {} ({}) was not signed here", new.number, new.change));
            return Ok(());
        }
        if let Change::Edge { one, other, from } = &new.change
            && [one, other].contains(&&folder.site.name)
            && *from <= self.agent.round()
        {
            let reason = format!(
                "agreement {} begins in exchange {from}, which this site has completed: it had withdrawn its signature",
                new.number
            );
            self.refuse(peer, &reason);
            return Ok(());
        }
        changes::keep(&folder, &new)?;
        self.take_up(&new)
    }

    fn mind_the_absent(&mut self, round: u32) -> Result<(), NodeError> {
        let site = &self.shared.folder.site;
        let (away, least) = (site.away, site.least_sites);
        let deadline = Duration::from_secs_f64(site.deadline_seconds);
        // Who is connected and waits for others says so; who says nothing at all is as good as away.
        let silent = |n: &Neighbour| match n.lost {
            Some(since) => since.elapsed(),
            None => n.spoke.elapsed(),
        };
        // Signs of life are no releases: whoever waits for others is waited for as long as every site may take to give up the next one on the way, and no longer.
        let waited = self.released_at.elapsed();
        let stalled = waited > deadline.saturating_mul(self.shared.folder.peers.len().max(2) as u32);
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
        let seconds =
            absent.iter().map(|j| silent(&self.neighbours[j])).max().unwrap_or_default().as_secs_f64();
        // Going on without one that may be right about an old copy would draw again what was sent already.
        if let Some((n, have)) =
            absent.iter().find_map(|j| self.neighbours[j].suspected.map(|have| (j, have)))
        {
            let (peer, released) = (self.neighbours[n].name.clone(), self.recent.back().map_or(0, |r| r.0));
            self.audit("away", json!({ "peers": names, "round": self.agent.rounds(round) }));
            return Err(NodeError::Forgot { peer, have, released });
        }
        let left = match self.agent.taking_part() {
            Some(sites) => sites - absent.len(),
            None => 1 + self.neighbours.len() - self.agent.away().len() - absent.len(),
        };
        // A sum of shares cannot do without anybody, which is what the operator should read then.
        if away == Away::ContinueWithout && left < least && !self.agent.is_addressed() {
            let round = self.agent.rounds(round);
            self.audit("away", json!({ "peers": names, "round": round, "left": left, "least_sites": least }));
            return Err(NodeError::Alone { names, seconds, left, least, round });
        }
        if away == Away::ContinueWithout {
            for &neighbour in &absent {
                self.agent
                    .go_without(neighbour)
                    .map_err(|e| NodeError::Experiment(format!("away = \"continue-without\": {e}")))?;
                // Numbers of masked exchanges are passed over, and its agent knows the round.
                let known =
                    self.agent.away().into_iter().find(|a| self.agent.is_masked() && a.0 == neighbour);
                self.without_from(neighbour, known.map_or(round + 1, |a| a.1))?;
            }
            return Ok(());
        }
        let round = self.agent.rounds(round);
        self.audit("away", json!({ "peers": names, "round": round }));
        Err(NodeError::Away { names, seconds, round })
    }

    /// Makes durable, and writes into the log, that the run goes on without a site.
    fn without_from(&mut self, site: u32, round: u32) -> Result<(), NodeError> {
        let weight = self.weights.get(&site).copied().unwrap_or(0.0);
        let entry = Entry::Absent { round, neighbour: site, weight };
        self.store.note(self.study, entry, self.agent.checkpoint())?;
        if let Some(n) = self.neighbours.get_mut(&site) {
            n.leave();
        }
        self.told_without.insert(site);
        let line = json!({ "peer": self.name_of(site), "round": round, "weight": weight });
        self.audit("without", line);
        Ok(())
    }

    /// Goes on without those whom others have given up, where all must do without the same.
    fn follow_others(&mut self) -> Result<(), NodeError> {
        if !self.agent.is_masked() {
            return Ok(());
        }
        let new: Vec<(u32, u32)> =
            self.agent.away().into_iter().filter(|(j, _)| !self.told_without.contains(j)).collect();
        new.into_iter().try_for_each(|(site, round)| self.without_from(site, round))
    }

    fn name_of(&self, site: u32) -> String {
        let peers = &self.shared.folder.peers;
        let known = self.neighbours.get(&site).map(|n| n.name.clone());
        known.or_else(|| peers.get(site as usize).map(|p| p.name.clone())).unwrap_or_default()
    }

    fn report(&mut self) {
        self.reported = Some(Instant::now());
        if self.around.0.elapsed() >= AROUND {
            self.around = (Instant::now(), self.around.1.again(&self.shared.folder.path));
            self.mind_the_pins();
        }
        let around = self.around.1;
        let site = &self.shared.folder.site;
        let without: Vec<u32> = self.agent.away().into_iter().map(|a| a.0).collect();
        let mut links: Vec<(u32, Link)> = self
            .neighbours
            .iter()
            .map(|(&j, n)| {
                let (name, up) = (n.name.clone(), n.outgoing.is_some());
                (j, Link { name, up, heard: self.agent.begun(n.heard), without: without.contains(&j) })
            })
            .collect();
        links.sort_by_key(|l| l.0);
        let claim = self.plan.claim.as_ref();
        let elapsed = self.complete.map_or(0.0, |since| since.elapsed().as_secs_f64());
        let refusals = self.shared.audit.refusals();
        let awaited = if self.done.is_some() { Vec::new() } else { self.agent.awaited() };
        let waiting = awaited
            .iter()
            .map(|j| &self.neighbours[j])
            .map(|n| (n.name.clone(), n.lost.unwrap_or(n.spoke).elapsed().as_secs_f64()));
        let signed = self.agreed.waits.iter().map(|(since, promised)| {
            let what = format!("agreement {} ({})", promised.number, promised.change);
            (what, since.elapsed().as_secs_f64())
        });
        let waiting: Vec<(String, f64)> = waiting.chain(signed).collect();
        let since_round = if self.done.is_some() { 0.0 } else { self.released_at.elapsed().as_secs_f64() };
        self.progress.set(|p| {
            p.site.clone_from(&site.name);
            p.round = self.agent.rounds(self.agent.round());
            p.released = self.agent.begun(self.recent.back().map_or(0, |last| last.0));
            p.rounds = self.agent.rounds(self.agent.last(&self.plan));
            p.refusals = refusals;
            (p.waiting, p.since_round, p.around) = (waiting, since_round, around);
            p.convergence = self.agent.convergence();
            p.budget = claim.map(|c| c.epsilon);
            p.epsilon = claim.map(|c| self.spending.epsilon(c.delta.max(1e-12)).min(c.epsilon));
            p.neighbours = links.into_iter().map(|l| l.1).collect();
            if !p.finished {
                p.seconds = elapsed;
            }
        });
    }
}

/// The neighbours before any link is up.
fn neighbours(folder: &Folder, agent: &Driven, plan: &SitePlan) -> BTreeMap<u32, Neighbour> {
    let mut all: BTreeMap<u32, Neighbour> = changes::in_order(agent)
        .into_iter()
        .map(|j| {
            // What is complete was heard from all.
            let heard = agent.surely_had(agent.round(), plan);
            (j, Neighbour { heard, ..Neighbour::new(&folder.peers[j as usize].name) })
        })
        .collect();
    let left = changes::gone(folder, &folder.agreements).filter(|gone| all.contains_key(gone));
    for gone in agent.away().into_iter().map(|a| a.0).chain(left.collect::<Vec<_>>()) {
        all.entry(gone).and_modify(Neighbour::leave);
    }
    all
}

impl Neighbour {
    /// The run goes on without it: nothing is sent to it, and nobody waits for it.
    fn leave(&mut self) {
        (self.outgoing, self.bye, self.acked) = (None, true, u32::MAX);
    }

    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            outgoing: None,
            acked: 0,
            heard: 0,
            sent: 0,
            lost: Some(Instant::now()),
            ahead: None,
            suspected: None,
            spoke: Instant::now(),
            refused: None,
            largest: (0.0, 0),
            version: VERSION_BEFORE,
            seal: None,
            last: None,
            banned: None,
            ever_up: false,
            confirmed: false,
            bye: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{Entropy, SiteFile};
    use crate::frame::{self, Hello};
    use crate::link::tests_api::dial;
    use crate::network::{Plan, PlannedSite, create};
    use consenso_engine::experiment::{ExperimentSpec, Inputs, Source};
    use consenso_engine::random::Seed;
    use consenso_engine::simulate::{Faults, over_messages};
    use std::path::Path;

    const STUDY: &str = "name = \"two\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 2\nrecords_per_agent = 2\ndim = 3\n\
        [graph]\nkind = \"complete\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\nrounds = 6\ngossip = 1\n";

    fn experiment() -> Experiment {
        experiment_of(STUDY)
    }

    fn experiment_of(study: &str) -> Experiment {
        let spec: ExperimentSpec = toml::from_str(study).unwrap();
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let (file, text) = ("two".into(), study.into());
        Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None }).unwrap()
    }

    fn two(root: &Path) -> [Folder; 2] {
        two_of(root, STUDY)
    }

    /// Two sites; only the first can be called.
    fn two_of(root: &Path, study: &str) -> [Folder; 2] {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let site = |name: &str, address: Option<String>| PlannedSite {
            file: SiteFile { listen: address.clone(), entropy: Entropy::Seed, ..SiteFile::new(name) },
            address,
            records: 2,
        };
        let sites = vec![site("a", Some(format!("127.0.0.1:{port}"))), site("b", None)];
        create(root, &Plan { sites, experiment: study.into(), schema: None, edges: None }).unwrap();
        ["a", "b"].map(|name| Folder::read(&root.join(name)).unwrap())
    }

    /// What an authenticated neighbour may send and must not reach the algorithm; then the honest one comes.
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
            Frame::Hello(Hello { version: VERSION_BEFORE, experiment: b.study, graph, from: 1, to: 0, have })
                .encode()
        };
        for (bytes, reason) in [
            (frame::release(1, 1, &[0.0, f64::NAN, 0.0]), "not finite at index 1"),
            (frame::release(1, 1, &[0.0, 1e13, 0.0]), "beyond 1e12 at index 1"),
            (frame::release(1, 1, &[0.0, 1e9, 0.0]), "out of range: the number at index 1 is beyond"),
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
                    tokio::time::timeout(Duration::from_secs(30), dial(&b, 0, &hello(0), &bytes)).await;
                let said = said.expect("in time");
                assert!(said.contains(reason), "{reason}: {said}");
            });
        }
        drop(run(&b, &hers, &Options::default()).unwrap());
        let outcome = node.join().unwrap().unwrap();
        let agents = (0..2).map(|i| hers.site(i).unwrap().agent).collect();
        let neighbours = |i: usize| vec![1 - i as u32];
        let (agents, _) = over_messages(agents, neighbours, &Faults::default(), &Seed::from(1)).unwrap();
        assert_eq!(outcome.model.as_deref(), agents[0].model());
        let log = std::fs::read_to_string(root.join("a/audit.jsonl")).unwrap();
        assert!(log.contains("not finite at index 1") && log.contains("\"refused\""), "{log}");
        // A copy of the ledger from before the last round is not taken for the ledger.
        let log = std::fs::read_to_string(root.join("a/audit.jsonl")).unwrap();
        let more = log.lines().rfind(|line| line.contains("\"released\"")).unwrap();
        let ledger =
            serde_json::from_str::<serde_json::Value>(more).unwrap()["ledger"].as_str().unwrap().to_owned();
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
        let hello = Hello { version: VERSION_BEFORE, experiment: b.study, graph, from: 1, to: 0, have: 0 };
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let hello = Frame::Hello(hello).encode();
        let nagging = crate::link::tests_api::nag(&b, 0, &hello);
        let _ = runtime.block_on(async { timeout(Duration::from_secs(60), nagging).await });
        let away = node.join().unwrap().unwrap_err();
        assert!(matches!(&away, NodeError::Away { names, .. } if names == "b"), "{away}");
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// A folder that was copied back from before: its own log and ledger agree, and only a neighbour knows that it released more.
    #[test]
    fn a_lie_in_a_hello_ends_a_link_and_not_the_site() {
        let root = std::env::temp_dir().join(format!("consenso-forgot-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let [mut a, b] = two(&root);
        (a.site.deadline_seconds, a.site.away) = (3.0, Away::ContinueWithout);
        let (mine, hers) = (experiment(), experiment());
        let node = std::thread::spawn(move || run(&a, &mine, &Options::default()));
        let graph = graph_digest(hers.graph());
        let said = |have| Hello { version: VERSION_BEFORE, experiment: b.study, graph, from: 1, to: 0, have };
        let hello = Frame::Hello(said(2)).encode();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let said =
            async { timeout(Duration::from_secs(30), dial(&b, 0, &hello, &Frame::Bye.encode())).await };
        drop(runtime.block_on(said).expect("in time"));
        // One that nobody can prove wrong is waited for, and never gone on without.
        let stopped = node.join().unwrap().unwrap_err();
        assert!(
            matches!(&stopped, NodeError::Forgot { peer, have: 2, released: 1 } if peer == "b")
                && !stopped.is_input(),
            "{stopped}"
        );
        let log = std::fs::read_to_string(root.join("a/audit.jsonl")).unwrap();
        assert!(log.contains("it says that it has exchange 2 of this site, which has released 1"), "{log}");
        // The honest neighbour comes after the lie: the site is there, and the run ends.
        std::fs::remove_dir_all(&root).unwrap();
        let [a, b] = two(&root);
        let (mine, hers) = (experiment(), experiment());
        let node = std::thread::spawn(move || run(&a, &mine, &Options::default()));
        let said =
            async { timeout(Duration::from_secs(30), dial(&b, 0, &hello, &Frame::Bye.encode())).await };
        drop(runtime.block_on(said).expect("in time"));
        run(&b, &hers, &Options::default()).unwrap();
        assert!(node.join().unwrap().unwrap().model.is_some());
        // One that went on without the site has more, too, and says so: that is no reason to suspect the ledger.
        std::fs::remove_dir_all(&root).unwrap();
        let [mut a, b] = two(&root);
        a.site.deadline_seconds = 3.0;
        let (mine, gone) = (experiment(), Frame::Refused("the run went on without a".into()).encode());
        let node = std::thread::spawn(move || run(&a, &mine, &Options::default()));
        let said = |have| Hello { version: VERSION_BEFORE, experiment: b.study, graph, from: 1, to: 0, have };
        let hello = Frame::Hello(said(2)).encode();
        let said = async { timeout(Duration::from_secs(30), dial(&b, 0, &hello, &gone)).await };
        drop(runtime.block_on(said).expect("in time"));
        let away = node.join().unwrap().unwrap_err();
        assert!(matches!(away, NodeError::Away { .. }), "{away}");
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// What a round costs over what the transport alone costs: `cargo xtask bench network` prints it.
    #[test]
    #[ignore = "a measurement: cargo xtask bench network"]
    fn rounds_in_round_trips_of_the_transport() {
        // In memory there is no disk to wait for: what is left is the node's own.
        let places = [("memory", Path::new("/dev/shm").to_owned()), ("disk", std::env::temp_dir())];
        for (medium, place) in places.iter().filter(|place| place.1.exists()) {
            for dim in [14, 10_000] {
                let root = place.join(format!("consenso-round-{dim}-{}", std::process::id()));
                let mut all: Vec<[f64; 5]> = (0..5).map(|_| measure(&root, dim)).collect();
                // The run of the median overhead stands for the others.
                let overhead = |m: &[f64; 5]| (m[1] - m[2]) / m[0];
                all.sort_by(|a, b| overhead(a).total_cmp(&overhead(b)));
                let [trip, round, draft, commit, fsync] = all[2];
                // To stdout, where the bench looks for it.
                let line = format!(
                    "{{\"dim\":{dim},\"medium\":\"{medium}\",\"trip_us\":{trip:.1},\"round_us\":{round:.1},\"draft_us\":{draft:.1},\
                     \"commit_us\":{commit:.1},\"fsync_us\":{fsync:.1},\"ratio\":{:.2},\"best\":{:.2},\"worst\":{:.2}}}",
                    (round - draft) / trip,
                    overhead(&all[0]),
                    overhead(&all[4]),
                );
                std::io::Write::write_all(&mut std::io::stdout(), (line + "\n").as_bytes()).unwrap();
            }
        }
    }

    /// Microseconds of a round trip, a round, its draft, its commit, and one fsync: means over many.
    fn measure(root: &Path, dim: usize) -> [f64; 5] {
        let rounds = if dim < 1000 { 3000 } else { 600 };
        let _ = std::fs::remove_dir_all(root);
        let study = STUDY
            .replace("dim = 3", &format!("dim = {dim}"))
            .replace("rounds = 6", &format!("rounds = {rounds}"));
        let folders = two_of(root, &study);
        let trips = crate::link::tests_api::round_trips(&folders[0], &folders[1], dim, rounds + 50);
        let trip = trips[50..].iter().sum::<Duration>().as_secs_f64() / rounds as f64;
        let options = Options::default();
        let outcome = std::thread::scope(|scope| {
            let other = scope.spawn(|| run(&folders[1], &experiment_of(&study), &Options::default()));
            let outcome = run(&folders[0], &experiment_of(&study), &options).unwrap();
            other.join().unwrap().unwrap();
            outcome
        });
        let (end, rounds) = (options.progress.get(), f64::from(outcome.round));
        let [round, draft, commit] = [end.seconds, end.drafting, end.committing].map(|s| s / rounds);
        let fsync = fsync_time(root, 8 * dim);
        std::fs::remove_dir_all(root).unwrap();
        [trip, round, draft, commit, fsync].map(|seconds| 1e6 * seconds)
    }

    /// Making as many bytes durable as a release has, in a file that need not grow, at two sites at once, with the pauses of a round between:
    /// what the disk asks for at least.
    fn fsync_time(root: &Path, bytes: usize) -> f64 {
        use std::os::unix::fs::FileExt as _;
        let one = |name| {
            let file = File::create(root.join(name)).unwrap();
            file.write_all_at(&vec![1; 200 * bytes], 0).unwrap();
            file.sync_all().unwrap();
            let mut all = Duration::ZERO;
            for i in 0..200 {
                std::thread::sleep(Duration::from_micros(100));
                let began = std::time::Instant::now();
                file.write_all_at(&vec![2; bytes], i * bytes as u64).unwrap();
                file.sync_data().unwrap();
                all += began.elapsed();
            }
            all.as_secs_f64() / 200.0
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| one("fsync-b"));
            f64::midpoint(one("fsync-a"), other.join().unwrap())
        })
    }
}
