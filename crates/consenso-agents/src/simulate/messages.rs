//! A virtual network: delay, loss with retransmission, partition and repair. Time is a number, not
//! a clock.

use super::error::SimulationError;
use crate::agent::{Agent, Effect, Message};
use crate::gate::StopReason;
use crate::random::{Purpose, Seed};
use rand::RngExt;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// How the virtual network misbehaves. Times are in virtual milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// Delay of a message: uniform between the two.
    pub delay: (f64, f64),
    /// Probability that a message is lost and sent again after [`Self::retry_after`].
    pub loss: f64,
    /// Probability that a message arrives twice.
    pub duplication: f64,
    /// How long a sender waits before it sends again.
    pub retry_after: f64,
    /// Times in which the graph is cut.
    pub partitions: Vec<NetworkCut>,
}

/// A cut: between `from` and `until` nothing passes between agents below `split` and the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkCut {
    /// Start.
    pub from: f64,
    /// Repair.
    pub until: f64,
    /// First agent of the second side.
    pub split: u32,
}

/// What went over the virtual network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Messages delivered.
    pub delivered: u64,
    /// Messages lost, to chance or to a partition, and sent again.
    pub lost: u64,
    /// Virtual time at the end.
    pub milliseconds: f64,
    /// Why each agent stopped.
    pub stopped: Vec<StopReason>,
    /// Every release: (agent, round) in order of round, then agent.
    pub transcript: Vec<Message>,
    /// How old the vectors were that each release was made from, in the same order; empty where
    /// they are all of the round before.
    pub ages: Vec<Vec<u32>>,
}

/// Most sends of one message before the run is given up as cut off for good.
const MAX_ATTEMPTS: u32 = 100_000;

struct InFlight {
    at: f64,
    order: u64,
    to: usize,
    message: Message,
    attempt: u32,
    lost: bool,
}

impl PartialEq for InFlight {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for InFlight {}
impl PartialOrd for InFlight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for InFlight {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.total_cmp(&other.at).then(self.order.cmp(&other.order))
    }
}

/// Drives agents to the end through messages, and returns them with what was sent.
///
/// # Errors
/// [`SimulationError`] when an agent refuses a message or a partition never heals: neither can
/// happen among honest agents under healing faults.
pub fn over_messages(
    mut agents: Vec<Agent>,
    neighbours: impl Fn(usize) -> Vec<u32>,
    faults: &Faults,
    seed: &Seed,
) -> Result<(Vec<Agent>, Traffic), SimulationError> {
    let mut chance = seed.stream(Purpose::Network, 0, 0);
    let mut queue: BinaryHeap<Reverse<InFlight>> = BinaryHeap::new();
    let mut traffic =
        Traffic { stopped: vec![StopReason::Interrupted; agents.len()], ..Traffic::default() };
    let (mut now, mut order) = (0.0, 0);
    let mut ready: Vec<usize> = (0..agents.len()).collect();
    let mut sent: Vec<(Message, Vec<u32>)> = Vec::new();
    loop {
        for id in ready.drain(..) {
            while let Some(effect) = agents[id].poll() {
                match effect {
                    // Nothing is durable in a simulation: the charge lives in the agent's memory.
                    Effect::Charge { .. } => {}
                    Effect::Done(reason) => traffic.stopped[id] = reason,
                    Effect::Send(message) => {
                        for to in neighbours(id) {
                            order += 1;
                            let send = Sending {
                                message: message.clone(),
                                to: to as usize,
                                order,
                                attempt: 0,
                            };
                            send.depart(now, faults, &mut chance, &mut queue);
                        }
                        sent.push((message, agents[id].ages().to_vec()));
                    }
                }
            }
        }
        let Some(Reverse(flight)) = queue.pop() else { break };
        now = flight.at;
        let InFlight { to, message, attempt, order, lost, .. } = flight;
        if lost {
            traffic.lost += 1;
            if attempt >= MAX_ATTEMPTS {
                return Err(SimulationError::CutOff {
                    from: message.from(),
                    to: to as u32,
                    attempts: MAX_ATTEMPTS,
                });
            }
            Sending { message, to, order, attempt: attempt + 1 }.depart(
                now,
                faults,
                &mut chance,
                &mut queue,
            );
            continue;
        }
        traffic.delivered += 1;
        agents[to].handle(&message)?;
        ready.push(to);
    }
    traffic.milliseconds = now;
    sent.sort_by_key(|(m, _)| (m.round(), m.from()));
    (traffic.transcript, traffic.ages) = sent.into_iter().unzip();
    Ok((agents, traffic))
}

struct Sending {
    message: Message,
    to: usize,
    order: u64,
    attempt: u32,
}

impl Sending {
    fn depart(
        self,
        now: f64,
        faults: &Faults,
        chance: &mut impl rand::Rng,
        queue: &mut BinaryHeap<Reverse<InFlight>>,
    ) {
        let Self { message, to, order, attempt } = self;
        let side = |id: u32, cut: &NetworkCut| id < cut.split;
        let cut = faults.partitions.iter().any(|p| {
            p.from <= now && now < p.until && side(message.from(), p) != side(to as u32, p)
        });
        let lost = cut || chance.random::<f64>() < faults.loss;
        let copies = if !lost && chance.random::<f64>() < faults.duplication { 2 } else { 1 };
        for _ in 0..copies {
            let delay = faults.delay.0 + chance.random::<f64>() * (faults.delay.1 - faults.delay.0);
            let at = now + if lost { faults.retry_after.max(1e-3) } else { delay };
            queue.push(Reverse(InFlight {
                at,
                order,
                to,
                message: message.clone(),
                attempt,
                lost,
            }));
        }
    }
}
