//! A node: drives one agent over its links, and lets nothing out that is not on disk.
//!
//! The order of a round is the whole point: the agent drafts, charges and noises; the charge, the
//! bytes and the state after them become durable in one transaction; then the bytes go to every
//! neighbour, over whatever links there are, the same bytes again after every reconnect, until each
//! neighbour has shown that it has them durably too.
//!
//! Here is the round, its end, and what is told of it. `start` is what comes before the first link,
//! `links` what passes over them, `peer_failures` who is away, lies or has an old copy, and `agreed`
//! what the sites change while they run.

mod agreed;
mod links;
mod origins;
mod peer_failures;
mod start;
#[cfg(test)]
mod tests;

use self::agreed::Agreed;
pub(crate) use self::start::Prepared;
pub use crate::admission::{about_to_fix, opening, renew_witness};
use crate::audit_log::StderrEcho;
use crate::driven::{Driven, Wanted};
use crate::edges::{self, Edges};
use crate::equivocation::{Received, Watch};
pub use crate::error::NodeError;
use crate::folder::{Folder, FolderError};
use crate::frame::{Digest, Frame, Hex, release_hash, sha256};
use crate::link::{LinkEvent, Links, Shared};
use crate::progress::{Link, Watched};
use crate::release_cache::ReleaseCache;
use crate::release_signature::{ReleaseSignature, ReleaseSigner, ReleaseStatement};
use crate::spending::{self, ChargeRow, Spending};
use crate::store::{Entry, MixedRounds, Store};
use crate::surroundings::Surroundings;
use crate::wire::Tcp;
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
    /// Neighbours that the run went on without: the model is not everybody's.
    pub without: Vec<String>,
    /// Whether all who remain have this very model, as after masked sums: sites that mix with their
    /// neighbours may have another one each.
    pub one_model: bool,
}

/// How a node is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where it stands, for others to read.
    pub progress: Watched,
    /// Set to have it end after the round, as the operating system's signals do.
    pub stop: Arc<std::sync::atomic::AtomicBool>,
    /// What it tells on stderr of its audit log.
    pub echo: StderrEcho,
    /// What the operator says about records that have changed since studies were charged to them.
    pub edited: Edited,
    /// Who a site of a test is.
    #[cfg(test)]
    pub(crate) actor: Option<Arc<dyn crate::lying_peers::Actor>>,
}

/// How long a node that is done waits for a goodbye from neighbours that have everything.
const LINGER: Duration = Duration::from_secs(5);

/// How long a node that was asked to stop waits for its round to end.
const GRACE: Duration = Duration::from_secs(5);

/// How long a lost link may take to come back under [`Away::Stop`].
const BLINK: Duration = Duration::from_secs(1);

/// How often a site that waits says so.
const SIGN_OF_LIFE: Duration = Duration::from_secs(1);

/// A draft that takes longer than this is made while another thread keeps the links alive.
const SLOW: Duration = Duration::from_millis(5);

/// How often the state is told to whoever watches.
const NEWS: Duration = Duration::from_millis(20);

/// Exchanges of a neighbour that are remembered by number: more than it can be ahead or behind.
const TAKEN: usize = 32;

/// How often certificate, pins and disk are looked at.
const AROUND: Duration = Duration::from_secs(5);

/// Runs the site to its end, or until it is told to stop.
///
/// # Errors
/// [`NodeError`]; what was durable stays so, and another call goes on from there.
pub fn run(
    folder: &Folder,
    experiment: &Experiment,
    options: &Options,
) -> Result<Outcome, NodeError> {
    let lock = lock(folder)?;
    let prepared = Prepared::new(folder, experiment, options.edited)?;
    let cause = |cause| NodeError::System { what: "the network's thread".into(), cause };
    // One thread for the links and the node: a message that arrives is taken, answered and sent
    // without waking another one.
    let runtime =
        Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(cause)?;
    let (options, folder) = (options.clone(), folder.clone());
    let node = runtime.spawn(async move {
        // Before anything is said or written: from here on whoever ends this process ends it in
        // good order.
        let signals = tokio::spawn(signals(Arc::clone(&options.stop)));
        let node = prepared.connect(&options, Arc::new(Tcp::of(&folder))).await?;
        if let Some(watchdog) = crate::watchdog::Watchdog::of_environment() {
            tokio::spawn(watchdog.run());
        }
        if let Some(address) = &node.shared.folder.site.metrics {
            let started = crate::metrics::start(address, options.progress.clone()).await;
            let file = node.shared.folder.path.join(crate::folder::SITE);
            let what = format!("{}: metrics = \"{address}\"", file.display());
            started.map_err(|cause| NodeError::System { what, cause })?;
        }
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

/// The operating system's requests to stop: none is missed from the call on, whenever the future is
/// first polled.
fn signals(stop: Arc<std::sync::atomic::AtomicBool>) -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let both = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        let (Ok(mut terminate), Ok(mut interrupt)) = both else { return };
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// One process a site: two would draw different noise for the same round.
pub(crate) fn lock(folder: &Folder) -> Result<File, NodeError> {
    let path = folder.path.join("run.lock");
    let system = |cause: std::io::Error| match cause.kind() {
        std::io::ErrorKind::PermissionDenied => {
            FolderError::Read { path: path.clone(), cause }.into()
        }
        _ => NodeError::System { what: path.display().to_string(), cause },
    };
    let file = File::options().create(true).append(true).open(&path).map_err(system)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(NodeError::Running(folder.path.display().to_string()))
        }
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
    /// Exchanges of its that were taken of late, in whatever order they came.
    taken: std::collections::BTreeSet<u32>,
    /// Exchanges up to here are no news.
    known: u32,
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
    /// Whether it has said something on this link.
    has_spoken: bool,
    /// It sent something wrong and nothing right since: what.
    refused: Option<String>,
    /// Its signature under the release that follows.
    signature: Option<(u32, ReleaseSignature)>,
    /// The newest of its releases that was taken, as it signed it.
    last: Option<(u32, Digest, ReleaseSignature)>,
    /// It told different neighbours different things, which is proved: nothing is taken from it any
    /// more.
    banned: Option<String>,
    /// The largest number it sent, and in which exchange.
    largest: (f64, u32),
    ever_up: bool,
    /// The hash of the model that it ended with, where all must have the same.
    model: Option<Digest>,
    /// The ledger says that it has everything.
    confirmed: bool,
    /// It was told goodbye on this link. Once is enough: two sites that wait for a third would
    /// answer each other's goodbyes for as long as they wait.
    said_goodbye: bool,
    bye: bool,
}

impl Neighbour {
    /// The run goes on without it: nothing is sent to it, and nobody waits for it.
    fn leave(&mut self) {
        (self.outgoing, self.bye, self.acked) = (None, true, u32::MAX);
    }

    /// Takes note of an exchange that it sent; whether it is the first time. Whoever sends its next
    /// release before its last one is watched in both.
    fn is_news(&mut self, round: u32) -> bool {
        if round <= self.known || !self.taken.insert(round) {
            return false;
        }
        self.heard = self.heard.max(round);
        if self.taken.len() > TAKEN
            && let Some(oldest) = self.taken.pop_first()
        {
            self.known = oldest;
        }
        true
    }

    /// One of whom exchanges up to `heard` are known.
    fn new(name: &str, heard: u32) -> Self {
        Self {
            name: name.to_owned(),
            outgoing: None,
            acked: 0,
            heard,
            known: heard,
            taken: Default::default(),
            sent: 0,
            lost: Some(Instant::now()),
            ahead: None,
            suspected: None,
            spoke: Instant::now(),
            has_spoken: false,
            refused: None,
            largest: (0.0, 0),
            signature: None,
            last: None,
            banned: None,
            ever_up: false,
            model: None,
            confirmed: false,
            said_goodbye: false,
            bye: false,
        }
    }
}

/// What goes into the audit log once the round is on its way.
enum Line {
    Received { peer: u32, round: u32, bytes: Bytes, signature: Option<ReleaseSignature> },
    Released { round: u32, blake3: Digest, charge: ChargeRow, ledger: Digest },
}

pub(crate) struct Node {
    /// What waits for a signature.
    unsigned: links::Unsigned,
    pub(crate) shared: Arc<Shared>,
    links: Links,
    events: mpsc::Receiver<LinkEvent>,
    store: Store,
    study: i64,
    agent: Driven,
    plan: SitePlan,
    spending: Spending,
    weights: BTreeMap<u32, f64>,
    neighbours: BTreeMap<u32, Neighbour>,
    /// What neighbours that are neighbours of each other were sent.
    watch: Watch,
    /// Keys of sites whose vectors others pass on.
    trusted: origins::TrustedKeys,
    release_signer: ReleaseSigner,
    /// Signatures of the last releases.
    signatures: VecDeque<(Digest, ReleaseSignature)>,
    /// Neighbours to be refused once the round is on its way, and why.
    accused: Vec<(u32, String)>,
    /// The last round whose releases were compared with neighbours.
    compared: u32,
    /// The last releases: (round, bytes).
    recent: VecDeque<(u32, Bytes)>,
    /// The last releases of neighbours, should one of them lose its disk.
    held: Option<ReleaseCache>,
    /// Secrets shared with neighbours, in a study that has such noise and until it is over.
    edges: Option<Edges>,
    agreed: Agreed,
    /// Sites that the ledger says the run goes on without.
    told_without: std::collections::BTreeSet<u32>,
    #[cfg(test)]
    actor: Option<Arc<dyn crate::lying_peers::Actor>>,
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
    /// Whether the ledger had a release of this study when the process started.
    released_before: bool,
    /// What was last said of this site's own certificate.
    certificate: Option<&'static str>,
}

impl Node {
    /// Runs to the end. Who ends because of somebody else tells its neighbours whom it means: they
    /// would blame whoever is gone.
    pub(crate) async fn run(mut self) -> Result<Outcome, NodeError> {
        let ended = self.go_on().await;
        if let Err(error) = &ended
            && error.is_about_others()
        {
            let words = error.to_string();
            let words = words.lines().next().unwrap_or_default();
            let said = Frame::Refused(format!("{} stopped: {words}", self.shared.folder.site.name))
                .encode();
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
        self.mind_the_certificate();
        loop {
            let moved = self.advance()?;
            self.sign_again();
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
            // Between two messages of a round there is nothing to end; but whoever never waits must
            // look, too.
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

    /// Does what the agent wants done, until something is on its way (true) or the agent waits for
    /// somebody (false).
    fn advance(&mut self) -> Result<bool, NodeError> {
        loop {
            // In this order: an agreement that is applied is there before the promise goes, so one
            // of the two is always seen.
            let promised = self.waits_for_an_agreement();
            self.look_for_changes()?;
            if promised && self.waits_for_an_agreement() {
                return Ok(false);
            }
            match self.draft()? {
                Some(Wanted::Commit { round, bytes, charge }) => {
                    return self.release(round, bytes, &charge).map(|()| true);
                }
                Some(Wanted::Done(reason)) => return self.finish(reason).map(|()| true),
                Some(Wanted::Nothing) => {}
                None => return Ok(false),
            }
        }
    }

    /// Asks the agent, which may have to think.
    fn draft(&mut self) -> Result<Option<Wanted>, NodeError> {
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
        wanted.map_err(|error| match error.is_about_others() {
            true => NodeError::Shares(error.to_string()),
            false => NodeError::Experiment(error.to_string()),
        })
    }

    /// Makes the release that was just drawn durable, then sends it. The log comes last: charges
    /// rest on the ledger, not on it.
    fn release(&mut self, round: u32, bytes: Bytes, charge: &Charge) -> Result<(), NodeError> {
        let charge = spending::row(charge);
        self.spending.add(&charge);
        let began = std::time::Instant::now();
        let mixed = MixedRounds { ages: self.agent.ages(), oldest: self.agent.staleness() };
        let blake3 = self.store.release(
            self.study,
            round,
            &bytes,
            charge.clone(),
            mixed,
            self.agent.checkpoint(),
        )?;
        let committed = began.elapsed().as_secs_f64();
        self.shared.have.store(self.agent.surely_had(round - 1), Ordering::Release);
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
            p.remember(self.agent.rounds_in(round - 1).0, || self.agent.convergence());
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
                Line::Received { peer, round, bytes, signature } => {
                    let blake3 = release_hash(&bytes);
                    let mut fields =
                        json!({ "peer": self.neighbours[&peer].name, "blake3": hex(&blake3) });
                    if let Some(signature) = signature {
                        fields["scheme"] = signature.scheme.into();
                        fields["signature"] = Hex(&signature.bytes).to_string().into();
                        let to = self.agent.is_addressed().then_some(self.shared.folder.me as u32);
                        let study = self.shared.folder.study;
                        let said = ReleaseStatement { study, from: peer, to, round, blake3 };
                        let key = self.shared.key_of(peer);
                        if !key.is_some_and(|key| said.is_signed_by(&key, &signature)) {
                            self.accused.push((
                                peer,
                                format!("its signature under exchange {round} is not its own"),
                            ));
                        } else if let Some(n) = self.neighbours.get_mut(&peer)
                            && n.last.as_ref().is_none_or(|last| last.0 <= round)
                        {
                            n.last = Some((round, blake3, signature.clone()));
                        }
                        if !self.agent.is_addressed() {
                            self.watch.received(peer, round, Received { blake3, signature });
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
            let round = self.agent.begun_in(exchange);
            fields["round"] = round.0.into();
            if self.agent.is_shared() {
                fields["exchange"] = exchange.into();
            }
            self.shared.audit.write(event, fields);
        }
    }

    fn finish(&mut self, reason: StopReason) -> Result<(), NodeError> {
        self.refuse_no_model()?;
        let complete = self.agent.exchanges();
        let model: Vec<u8> =
            self.agent.model().unwrap_or_default().iter().flat_map(|x| x.to_le_bytes()).collect();
        let model = Hex(&sha256(&[&model])).to_string();
        let entry =
            Entry::Done { round: complete, reason: format!("{reason:?}"), model: model.clone() };
        self.store.note(self.study, entry, self.agent.checkpoint())?;
        if let Some(edges) = self.edges.take() {
            let folder = &self.shared.folder;
            let what = edges.path().display().to_string();
            edges::destroy(&folder.path, self.study)
                .map_err(|cause| NodeError::System { what, cause })?;
        }
        self.shared.have.store(complete, Ordering::Release);
        let rounds = self.agent.rounds_in(complete);
        let without = self.without();
        self.audit(
            "done",
            json!({ "round": rounds, "reason": reason, "model_sha256": model, "without": without }),
        );
        let elapsed = self.complete.map_or(0.0, |since| since.elapsed().as_secs_f64());
        self.progress.set(|p| {
            (p.finished, p.seconds) = (true, elapsed);
            p.remember(rounds.0, || self.agent.convergence());
        });
        self.done = Some((Instant::now(), reason));
        let all: Vec<u32> = self.neighbours.keys().copied().collect();
        let mark = self.agent.mark();
        for peer in all {
            self.send(peer, Frame::Ack { round: mark }.encode());
            self.tell_model(peer);
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
        let (peer, (largest, round)) = longest
            .map_or_else(|| ("nobody".to_owned(), (0.0, 0)), |n| (n.name.clone(), n.largest));
        self.audit(
            "out-of-range",
            json!({ "what": what, "peer": peer, "largest": largest, "round": round }),
        );
        Err(NodeError::OutOfRange { what, peer, largest, round })
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
        let last = self.agent.last();
        if let Some((since, reason)) = self.done {
            return self.can_leave(since, reason, last);
        }
        let round = self.agent.exchanges();
        if let Some(since) = self.stop {
            // A round ends when its exchange is complete and the next release is on disk and on its
            // way.
            let mid_round = self.neighbours.values().any(|n| n.heard > round);
            if !mid_round || since.elapsed() > GRACE {
                let reason = StopReason::Interrupted;
                let round = self.agent.rounds_in(round).0;
                let without = self.without();
                let (unconfirmed, one_model) = (Vec::new(), false);
                return Ok(Some(Outcome {
                    model: None,
                    reason,
                    round,
                    unconfirmed,
                    without,
                    one_model,
                }));
            }
            return Ok(None);
        }
        self.mind_the_absent(round)?;
        Ok(None)
    }

    /// Whether a node that is done can leave: nobody needs it, or nobody has come for too long.
    fn can_leave(
        &mut self,
        since: Instant,
        reason: StopReason,
        last: u32,
    ) -> Result<Option<Outcome>, NodeError> {
        let open: Vec<&Neighbour> =
            self.neighbours.values().filter(|n| n.acked < last || !n.bye).collect();
        let unconfirmed: Vec<String> =
            open.iter().filter(|n| n.acked < last).map(|n| n.name.clone()).collect();
        // Who has everything may not know that this node has, too: it should find somebody when it
        // calls again.
        let quiet = open.iter().filter_map(|n| n.lost).fold(since, Instant::max).elapsed();
        let waits = !unconfirmed.is_empty() || quiet < LINGER;
        // A lie in the last exchange is found as any other, if nobody leaves before both have
        // compared it.
        let linked = |peer: &u32| self.neighbours.get(peer).is_some_and(|n| n.outgoing.is_some());
        let own = self.model_digest();
        let untold = |n: &Neighbour| own.is_some() && n.model.is_none() && n.outgoing.is_some();
        let compares = since.elapsed() < LINGER
            && (self.neighbours.values().any(untold)
                || (!self.agent.is_addressed()
                    && self.watch.uncompared(self.agent.exchanges()).iter().any(linked)));
        let deadline = Duration::from_secs_f64(self.shared.folder.site.deadline_seconds);
        // Who is here and not done may first have to find out who is gone, and then needs to be
        // told what the last round revealed.
        let needed = open.iter().any(|n| n.acked < last && n.outgoing.is_some())
            && since.elapsed() < deadline.saturating_mul(self.agent.patience());
        let unsettled = !open.is_empty() && waits && (since.elapsed() < deadline || needed);
        if self.stop.is_none() && (unsettled || compares) {
            return Ok(None);
        }
        if unconfirmed.is_empty() && !self.settled {
            self.settled = true;
            self.store.note(self.study, Entry::Settled { round: last }, self.agent.checkpoint())?;
        }
        let other = |n: &&Neighbour| n.model.is_some() && n.model != own;
        if let Some(n) = self.neighbours.values().find(other).filter(|_| own.is_some()) {
            let name = n.name.clone();
            self.audit("other-model", json!({ "peer": name }));
            return Err(NodeError::Shares(format!(
                "{name} ended with another model than this site: somebody told the sites different things, so that they have added up different sums, and what came out is no model"
            )));
        }
        if self.agent.is_masked()
            && let Some((peer, n)) = self.neighbours.iter().find(|(_, n)| n.banned.is_some())
            && !self.agent.away().iter().any(|gone| gone.0 == *peer)
        {
            let (name, reason) = (&n.name, n.banned.as_deref().unwrap_or_default());
            return Err(NodeError::Shares(format!(
                "{name}: {reason}, so that the sites have added up different sums, and what came out is no model"
            )));
        }
        let model = self.agent.model().map(<[f64]>::to_vec);
        let (round, without) = (self.agent.rounds_in(last).0, self.without());
        let one_model = self.agent.is_masked();
        Ok(Some(Outcome { model, reason, round, unconfirmed, without, one_model }))
    }

    /// The names of those it went on without.
    fn without(&self) -> Vec<String> {
        self.agent.away().iter().map(|(j, _)| self.name_of(*j)).collect()
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
            self.mind_the_certificate();
        }
        let around = self.around.1;
        let site = &self.shared.folder.site;
        let without: Vec<u32> = self.agent.away().into_iter().map(|a| a.0).collect();
        let mut links: Vec<(u32, Link)> = self
            .neighbours
            .iter()
            .map(|(&j, n)| {
                let (name, up) = (n.name.clone(), n.outgoing.is_some());
                (
                    j,
                    Link {
                        name,
                        up,
                        heard: self.agent.begun_in(n.heard).0,
                        without: without.contains(&j),
                    },
                )
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
        let since_round =
            if self.done.is_some() { 0.0 } else { self.released_at.elapsed().as_secs_f64() };
        let count =
            |is: fn(&Neighbour) -> bool| self.neighbours.values().filter(|n| is(n)).count() as u32;
        let equivocations = count(|n| n.banned.is_some());
        let ahead = count(|n| n.suspected.is_some() || n.ahead.is_some());
        let (agreements, awaits) = (self.agreed.held.len() as u32, self.agreed.waits.is_some());
        self.progress.set(|p| {
            (p.equivocations, p.ahead, p.absent) = (equivocations, ahead, without.len() as u32);
            (p.agreements, p.awaits_agreement) = (agreements, awaits);
            p.site.clone_from(&site.name);
            p.round = self.agent.rounds_in(self.agent.exchanges()).0;
            p.released = self.agent.begun_in(self.recent.back().map_or(0, |last| last.0)).0;
            p.rounds = self.agent.rounds_in(self.agent.last()).0;
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
