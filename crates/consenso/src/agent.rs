//! The agent: a pure state machine.
//!
//! [`Player`] is what an agent does in a round, given everybody's last releases. [`Agent`] wraps it for the world of messages:
//! [`handle`](Agent::handle) takes one in, [`poll`](Agent::poll) says what to do next. No I/O, no clock, no randomness but its keyed
//! streams; the simulator and the network drive the same code, and the transcript is the same whatever the order of arrival.

use crate::gate::{Draft, Gate, Release, StopReason};
use crate::graph::{Graph, Mixing};
use crate::problem::LocalObjective;
use crate::protocol::{Common, Protocol, View, Weights};
use std::sync::Arc;

/// The public timetable of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Timetable {
    /// Rounds that use the records.
    pub rounds: u32,
    /// The model is the mean of an agent's releases from this round on (tail averaging); `rounds` is the last one alone.
    pub tail_from: u32,
    /// Rounds of plain mixing after them: post-processing that brings every agent to the network's mean model.
    pub gossip: u32,
}

impl Timetable {
    /// Exchanges in all.
    #[must_use]
    pub fn exchanges(&self) -> u32 {
        self.rounds + self.gossip
    }
}

/// Where an agent sits: which rows it may look at, after how many exchanges.
#[derive(Clone, Copy, Debug)]
pub struct Seat<'a> {
    /// Released rows, `dim` numbers each.
    pub rows: &'a [f64],
    /// The row of this agent.
    pub me: u32,
    /// The rows of its neighbours, by agent number.
    pub neighbours: &'a [u32],
    /// Where this agent's number stands among its neighbours'.
    pub place: usize,
    /// Its row of the mixing matrix.
    pub weights: Weights<'a>,
    /// Exchanges so far.
    pub round: u32,
    /// What all agents compute alike, if the driver did so already.
    pub common: Option<&'a Common>,
}

/// What an agent does in a round.
#[derive(Debug)]
pub struct Player {
    local: LocalObjective,
    protocol: Arc<dyn Protocol>,
    timetable: Arc<Timetable>,
    gate: Gate,
    memory: Vec<f64>,
    tail: Vec<f64>,
    tail_rounds: u32,
    stopped: Option<(u32, StopReason)>,
}

impl Player {
    /// An agent at the start, every memory zero.
    #[must_use]
    pub fn new(
        local: LocalObjective,
        protocol: Arc<dyn Protocol>,
        timetable: Arc<Timetable>,
        gate: Gate,
    ) -> Self {
        let dim = local.dim();
        let memory = vec![0.0; protocol.memory() * dim];
        // Without averaging there is no tail to keep.
        let tail = if timetable.tail_from < timetable.rounds { vec![0.0; dim] } else { Vec::new() };
        Self { local, protocol, timetable, gate, memory, tail, tail_rounds: 0, stopped: None }
    }

    /// Its objective; the records inside are private.
    #[must_use]
    pub fn local(&self) -> &LocalObjective {
        &self.local
    }

    /// Its gate, for the agent's own report.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Duals and other vectors it keeps, one after the other.
    #[must_use]
    pub fn memory(&self) -> &[f64] {
        &self.memory
    }

    /// Puts back what [`Self::memory`] gave.
    pub fn restore(&mut self, memory: &[f64]) {
        self.memory.copy_from_slice(memory);
    }

    /// From which round on its budget kept it from using its records, if it did.
    #[must_use]
    pub fn stopped(&self) -> Option<(u32, StopReason)> {
        self.stopped
    }

    /// Takes in everybody's releases of round `seat.round` and writes this agent's next message to `out`.
    pub fn play<'a>(&mut self, seat: &Seat<'_>, draft: &mut Draft, out: &'a mut [f64]) -> Release<'a> {
        self.absorb(seat);
        let Self { local, protocol, timetable, gate, memory, tail, stopped, .. } = self;
        let view = view(seat, local);
        let next = seat.round + 1;
        if next > timetable.rounds {
            // Gossip starts from each agent's own average and then mixes what neighbours sent.
            let average = if tail.is_empty() { view.own() } else { &tail[..] };
            let first = next == timetable.rounds + 1;
            return gate.forward(
                next,
                out,
                |out| if first { out.copy_from_slice(average) } else { view.mix(out) },
            );
        }
        if stopped.is_some() {
            return gate.forward(next, out, |out| view.mix(out));
        }
        let (release, refused) = gate.release(&**protocol, &view, memory, local, draft, out);
        *stopped = refused.map(|reason| (next, reason));
        release
    }

    /// Takes in the last exchange and gives the agent's model.
    pub fn finish(&mut self, seat: &Seat<'_>) -> Vec<f64> {
        self.absorb(seat);
        let view = view(seat, &self.local);
        if seat.round > self.timetable.rounds {
            let mut model = vec![0.0; view.dim()];
            view.mix(&mut model);
            model
        } else {
            self.model_so_far(view.own()).to_vec()
        }
    }

    /// The model before gossip, given the agent's last release.
    #[must_use]
    pub fn model_so_far<'a>(&'a self, own: &'a [f64]) -> &'a [f64] {
        if self.tail_rounds > 0 { &self.tail } else { own }
    }

    fn absorb(&mut self, seat: &Seat<'_>) {
        if seat.round == 0 || seat.round > self.timetable.rounds {
            return;
        }
        let view = view(seat, &self.local);
        self.protocol.absorb(&view, &mut self.memory);
        if !self.tail.is_empty() && seat.round >= self.timetable.tail_from {
            self.tail_rounds += 1;
            let weight = 1.0 / f64::from(self.tail_rounds);
            for (tail, x) in self.tail.iter_mut().zip(view.own()) {
                *tail += weight * (x - *tail);
            }
        }
    }
}

fn view<'a>(seat: &Seat<'a>, local: &LocalObjective) -> View<'a> {
    View::new(seat.rows, local.dim(), seat.me, seat.neighbours, seat.place, seat.weights, seat.round)
        .with_regularization(local.objective().regularization)
        .with_common(seat.common)
}

/// One vector on its way to a neighbour.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who released it.
    pub from: u32,
    /// In which round.
    pub round: u32,
    /// The vector.
    pub values: Arc<[f64]>,
}

/// What an agent wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Make the state durable: a release of this round was drawn and charged. It must be on disk before the message leaves.
    Charge {
        /// The round charged.
        round: u32,
    },
    /// Send to every neighbour, again and again until each has it.
    Send(Message),
    /// Nothing more will come; the model is ready.
    Done(StopReason),
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is from somebody who is not a neighbour.
    #[error("agent {from} is not a neighbour of agent {agent}")]
    Stranger {
        /// Sender.
        from: u32,
        /// Receiver.
        agent: u32,
    },
    /// It has another length than the model.
    #[error("round {round} from agent {from} has {got} numbers, not {want}")]
    Dimension {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
        /// Numbers received.
        got: usize,
        /// Numbers expected.
        want: usize,
    },
    /// It holds a NaN or an infinity.
    #[error("round {round} from agent {from} has a number that is not finite at index {index}")]
    NotFinite {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
        /// Where.
        index: usize,
    },
    /// Its round is not one this neighbour can be in.
    #[error("round {round} from agent {from}, who can only be in round {expected} or the next")]
    OutOfTurn {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
        /// The round awaited.
        expected: u32,
    },
    /// The round was received before with other content: a neighbour must never release a round twice.
    #[error("agent {from} sent round {round} twice with different content")]
    Equivocation {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
    },
}

// A macro because a method would borrow the whole agent while the player inside is being moved.
macro_rules! seat {
    ($agent:ident) => {
        Seat {
            rows: &$agent.rows,
            me: 0,
            neighbours: &$agent.indices,
            place: $agent.neighbours.partition_point(|&j| j < $agent.id),
            weights: Weights { own: $agent.own_weight, neighbours: &$agent.weights },
            round: $agent.round,
            common: None,
        }
    };
}

/// A [`Player`] among messages.
///
/// A neighbour can be at most one round ahead, for it needs this agent's release to go on; so two slots a neighbour hold all that
/// can arrive, in whatever order and however often.
#[derive(Debug)]
pub struct Agent {
    id: u32,
    player: Player,
    neighbours: Vec<u32>,
    dim: usize,
    /// Exchanges complete: every neighbour's release of this round is in `rows`.
    round: u32,
    /// Row 0 is this agent's, then its neighbours', all of `round`.
    rows: Vec<f64>,
    indices: Vec<u32>,
    own_weight: f64,
    weights: Vec<f64>,
    /// Releases of `round + 1` and `round + 2`, a slot a neighbour.
    waiting: [Vec<Option<Arc<[f64]>>>; 2],
    own: Option<Arc<[f64]>>,
    queue: std::collections::VecDeque<Effect>,
    draft: Draft,
    model: Option<Vec<f64>>,
}

impl Agent {
    /// Agent `id` of the graph; everybody starts from zero.
    #[must_use]
    pub fn new(id: u32, graph: &Graph, mixing: &Mixing, player: Player) -> Self {
        let neighbours = graph.neighbours(id as usize).to_vec();
        let dim = player.local.dim();
        let n = neighbours.len();
        Self {
            id,
            dim,
            round: 0,
            rows: vec![0.0; (n + 1) * dim],
            indices: (1..=n as u32).collect(),
            own_weight: mixing.own(id as usize),
            weights: mixing.neighbours(id as usize).to_vec(),
            waiting: [vec![None; n], vec![None; n]],
            own: None,
            queue: std::collections::VecDeque::new(),
            draft: Draft::default(),
            model: None,
            player,
            neighbours,
        }
    }

    /// The player inside.
    #[must_use]
    pub fn player(&self) -> &Player {
        &self.player
    }

    /// Exchanges complete.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// The model, once [`Effect::Done`] was polled.
    #[must_use]
    pub fn model(&self) -> Option<&[f64]> {
        self.model.as_deref()
    }

    /// Takes a message in. Duplicates of what is known are accepted and change nothing.
    ///
    /// # Errors
    /// A [`Refusal`] that says why; the state is as it was.
    pub fn handle(&mut self, message: &Message) -> Result<(), Refusal> {
        let &Message { from, round, ref values } = message;
        let stranger = Refusal::Stranger { from, agent: self.id };
        let slot = self.neighbours.binary_search(&from).map_err(|_| stranger)?;
        if values.len() != self.dim {
            return Err(Refusal::Dimension { from, round, got: values.len(), want: self.dim });
        }
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(Refusal::NotFinite { from, round, index });
        }
        if round >= 1 && round <= self.round {
            let start = (slot + 1) * self.dim;
            let known = round < self.round || self.rows[start..start + self.dim] == **values;
            return if known { Ok(()) } else { Err(Refusal::Equivocation { from, round }) };
        }
        let expected = self.round + 1;
        let ahead = round.wrapping_sub(expected) as usize;
        if ahead >= self.waiting.len() || round > self.player.timetable.exchanges() {
            return Err(Refusal::OutOfTurn { from, round, expected });
        }
        match &mut self.waiting[ahead][slot] {
            Some(known) if **known != **values => Err(Refusal::Equivocation { from, round }),
            Some(_) => Ok(()),
            empty => {
                *empty = Some(Arc::clone(values));
                Ok(())
            }
        }
    }

    /// What to do next; `None` until another message comes.
    pub fn poll(&mut self) -> Option<Effect> {
        if self.queue.is_empty() {
            self.go_on();
        }
        self.queue.pop_front()
    }

    fn go_on(&mut self) {
        let last = self.player.timetable.exchanges();
        if self.model.is_some() {
            return;
        }
        if self.own.is_none() {
            // Round `round` is complete: draft the next message.
            let mut out = vec![0.0; self.dim];
            let seat = seat!(self);
            let release = self.player.play(&seat, &mut self.draft, &mut out);
            let (round, values) = (release.round(), Arc::<[f64]>::from(release.values()));
            self.own = Some(Arc::clone(&values));
            self.queue.push_back(Effect::Charge { round });
            self.queue.push_back(Effect::Send(Message { from: self.id, round, values }));
            return;
        }
        if self.waiting[0].iter().any(Option::is_none) {
            return;
        }
        let own = self.own.take().expect("checked above");
        self.rows[..self.dim].copy_from_slice(&own);
        for (row, values) in self.rows[self.dim..].chunks_exact_mut(self.dim).zip(&mut self.waiting[0]) {
            row.copy_from_slice(&values.take().expect("all are here"));
        }
        self.waiting.swap(0, 1);
        self.round += 1;
        if self.round == last {
            let seat = seat!(self);
            self.model = Some(self.player.finish(&seat));
            let reason = self.player.stopped.map_or(StopReason::Finished, |s| s.1);
            self.queue.push_back(Effect::Done(reason));
        } else {
            self.go_on();
        }
    }
}
