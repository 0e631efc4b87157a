//! The network that a seed disturbs: delays, partitions, one-way loss, resets, crashes.

use super::{CALM, SITES, TROUBLE};
use crate::wire::{BoxFuture, Connection, Listener, Wire};
use consenso_engine::random::{Purpose, Seed};
use rand::RngExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

/// What happens to the network, and when: all of it drawn from the seed.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(super) enum SimulatedFault {
    /// Nothing passes from one site to another until it is let through again; nothing is lost.
    Hold(usize, usize),
    Let(usize, usize),
    /// What passes from one to the other on the connections of now is lost, and nobody is told.
    Swallow(usize, usize),
    /// The connections between two sites end.
    Reset(usize, usize),
    /// Everything takes twenty times as long.
    Slow(bool),
    /// What passes between two sites takes ten times as long for good.
    Slower(usize, usize),
    /// A site ends as if killed, and starts again from its store.
    Crash(usize),
    Start(usize),
    /// The disk of a site takes a while for every commit, in which it says and hears nothing.
    SlowDisk(usize, bool),
    /// An operator applies the agreement that all have signed.
    Agree(usize),
}

pub(super) fn schedule(seed: u64) -> Vec<(u64, SimulatedFault)> {
    let mut chance = Seed::from(seed).stream(Purpose::Network, 1, 0);
    let mut all: Vec<(u64, SimulatedFault)> =
        (0..SITES).map(|site| (0, SimulatedFault::Start(site))).collect();
    let faults = if seed == CALM { 0 } else { chance.random_range(3..12) };
    for _ in 0..faults {
        let at = chance.random_range(0..TROUBLE);
        let until = (at + chance.random_range(20..1500)).min(TROUBLE);
        let (a, b) = (chance.random_range(0..SITES), chance.random_range(1..SITES));
        let b = (a + b) % SITES;
        match chance.random_range(0..6) {
            0 => all.extend([(at, SimulatedFault::Hold(a, b)), (until, SimulatedFault::Let(a, b))]),
            1 => all.extend([
                (at, SimulatedFault::Hold(a, b)),
                (at, SimulatedFault::Hold(b, a)),
                (until, SimulatedFault::Let(a, b)),
                (until, SimulatedFault::Let(b, a)),
            ]),
            2 => all.push((at, SimulatedFault::Swallow(a, b))),
            3 => all.push((at, SimulatedFault::Reset(a, b))),
            4 => {
                all.extend([
                    (at, SimulatedFault::Slow(true)),
                    (until, SimulatedFault::Slow(false)),
                ]);
            }
            _ => all.extend([(at, SimulatedFault::Crash(a)), (until, SimulatedFault::Start(a))]),
        }
    }
    all.sort_by(|a, b| a.partial_cmp(b).expect("no NaN here"));
    all
}

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Lane {
    from: usize,
    to: usize,
    connection: u64,
    swallows: bool,
    end: Arc<End>,
}

/// When a connection ends. Those who wait for it are told in the order they came; tokio's watch
/// channel would choose one by chance.
#[derive(Debug, Default)]
pub(super) struct End {
    over: AtomicBool,
    told: Notify,
}

impl End {
    fn now(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.told.notify_waiters();
    }

    async fn wait(&self) {
        if !self.over.load(Ordering::Relaxed) {
            self.told.notified().await;
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    listeners: BTreeMap<String, (usize, mpsc::UnboundedSender<(Connection, String)>)>,
    lanes: Vec<Arc<Mutex<Lane>>>,
    held: BTreeSet<(usize, usize)>,
    slow: bool,
    slower: BTreeSet<(usize, usize)>,
    slow_disks: BTreeSet<usize>,
    connections: u64,
    /// What happened, in order: the schedule a seed must repeat.
    pub(super) trace: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Network {
    seed: u64,
    pub(super) began: Instant,
    /// Tells those who are held up to look again.
    changed: Notify,
    state: Mutex<State>,
}

impl Network {
    pub(super) fn new(seed: u64) -> Arc<Self> {
        let (began, changed, state) = (Instant::now(), Notify::new(), Mutex::default());
        Arc::new(Self { seed, began, changed, state })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while it was held")
    }

    pub(super) fn say(&self, what: &str) {
        let at = self.began.elapsed().as_micros();
        self.state().trace.push(format!("{at} {what}"));
    }

    /// Does to the network what a fault says.
    pub(super) fn apply(&self, fault: SimulatedFault) {
        self.say(&format!("{fault:?}"));
        let mut state = self.state();
        match fault {
            SimulatedFault::Hold(a, b) => drop(state.held.insert((a, b))),
            SimulatedFault::Let(a, b) => drop(state.held.remove(&(a, b))),
            SimulatedFault::Slow(slow) => state.slow = slow,
            SimulatedFault::SlowDisk(site, true) => drop(state.slow_disks.insert(site)),
            SimulatedFault::SlowDisk(site, false) => drop(state.slow_disks.remove(&site)),
            SimulatedFault::Slower(a, b) => state.slower.extend([(a, b), (b, a)]),
            SimulatedFault::Swallow(a, b) => {
                state.each(|lane| lane.swallows |= (lane.from, lane.to) == (a, b));
            }
            SimulatedFault::Reset(a, b) => {
                state.end(|lane| [(a, b), (b, a)].contains(&(lane.from, lane.to)));
            }
            SimulatedFault::Crash(site) => {
                state.listeners.retain(|_, listener| listener.0 != site);
                state.end(|lane| [lane.from, lane.to].contains(&site));
            }
            SimulatedFault::Start(_) | SimulatedFault::Agree(_) => {}
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// A connection of two pipes, each with a task that takes its time.
    fn open(self: &Arc<Self>, from: usize, to: usize) -> (Connection, Connection) {
        let number = {
            let mut state = self.state();
            state.connections += 1;
            state.connections
        };
        self.say(&format!("connection {number} from {from} to {to}"));
        let ((near, near_end), (far, far_end)) =
            (tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16));
        let (near_read, near_write) = tokio::io::split(near_end);
        let (far_read, far_write) = tokio::io::split(far_end);
        let end = Arc::new(End::default());
        for (from, to, read, write) in
            [(from, to, near_read, far_write), (to, from, far_read, near_write)]
        {
            let lane =
                Lane { from, to, connection: number, swallows: false, end: Arc::clone(&end) };
            let lane = Arc::new(Mutex::new(lane));
            self.state().lanes.push(Arc::clone(&lane));
            tokio::spawn(Arc::clone(self).carry(lane, read, write));
        }
        (Box::new(near), Box::new(far))
    }

    /// Carries bytes one way, each piece after a delay of the seed's choice, and not while the way
    /// is held.
    async fn carry(
        self: Arc<Self>,
        lane: Arc<Mutex<Lane>>,
        mut read: ReadHalf<DuplexStream>,
        mut write: WriteHalf<DuplexStream>,
    ) {
        let (from, to, connection, end) = {
            let lane = lane.lock().expect("no panic while it was held");
            (lane.from, lane.to, lane.connection, Arc::clone(&lane.end))
        };
        let mut chance =
            Seed::from(self.seed).stream(Purpose::Network, 2 + connection, u64::from(from < to));
        let pieces = async {
            let mut buffer = vec![0; 1 << 14];
            loop {
                let length = match read.read(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(length) => length,
                };
                let slower = {
                    let state = self.state();
                    if state.slow || state.slow_disks.contains(&from) {
                        20
                    } else {
                        1 + 9 * u64::from(state.slower.contains(&(from, to)))
                    }
                };
                sleep(Duration::from_micros(slower * chance.random_range(100..8000))).await;
                while self.state().held.contains(&(from, to)) {
                    self.changed.notified().await;
                }
                let lost = lane.lock().expect("no panic while it was held").swallows;
                self.say(&format!(
                    "{connection}: {from} to {to}{}",
                    if lost { ", lost" } else { "" }
                ));
                if !lost && write.write_all(&buffer[..length]).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = end.wait() => {}
            () = pieces => {}
        }
        // Both ways end together, as when a socket is closed.
        end.now();
    }
}

impl State {
    fn end(&mut self, which: impl Fn(&Lane) -> bool) {
        self.each(|lane| {
            if which(lane) {
                lane.end.now();
            }
        });
    }

    fn each(&mut self, change: impl Fn(&mut Lane)) {
        self.lanes
            .iter()
            .for_each(|lane| change(&mut lane.lock().expect("no panic while it was held")));
    }
}

/// The network as one site sees it.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) network: Arc<Network>,
    pub(super) me: usize,
}

impl Wire for Host {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Connection> {
        Box::pin(async move {
            let to = self.network.state().listeners.get(address).map(|l| l.0);
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let to = to.ok_or_else(refused)?;
            let (near, far) = self.network.open(self.me, to);
            let state = self.network.state();
            let (_, calls) = state.listeners.get(address).ok_or_else(refused)?;
            calls.send((far, format!("host-{}", self.me))).map_err(|_| refused())?;
            Ok(near)
        })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Box<dyn Listener>> {
        let (sender, calls) = mpsc::unbounded_channel();
        self.network.state().listeners.insert(address.to_owned(), (self.me, sender));
        Box::pin(async move { Ok(Box::new(Calls(calls)) as Box<dyn Listener>) })
    }
}

pub(super) struct Calls(mpsc::UnboundedReceiver<(Connection, String)>);

impl Listener for Calls {
    fn accept(&mut self) -> BoxFuture<'_, (Connection, String)> {
        Box::pin(
            async move { self.0.recv().await.ok_or_else(|| io::ErrorKind::NotConnected.into()) },
        )
    }
}
