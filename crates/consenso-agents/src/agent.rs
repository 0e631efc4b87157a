//! The agent: a pure state machine.
//!
//! [`Player`] is what an agent does in a round, given everybody's last releases. [`Agent`] wraps it
//! for the world of messages, generic over the [`Exchange`] that they are of:
//! [`handle`](Agent::handle) takes one in, [`poll`](Agent::poll) says what to do next. No I/O, no
//! clock, no randomness but its keyed streams; the simulator and the network drive the same code,
//! and the transcript is the same whatever the order of arrival.

mod exchange;
mod vectors;

pub use exchange::{Agent, Core, Effect, Exchange};
pub use vectors::Vectors;

use crate::gate::{
    Charge, DraftScratch, FixedPoint, Gate, GateState, MaskLabel, Masked, Release, Round,
    ShareError, Shares, StopReason, Turn,
};
use crate::problem::LocalObjective;
use crate::protocol::{CommonSummary, MixRule, Protocol, View, Weights};
use crate::random::Seed;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The public timetable of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Timetable {
    /// Rounds that use the records.
    pub rounds: u32,
    /// The model is the mean of an agent's releases from this round on (tail averaging); `rounds`
    /// is the last one alone.
    pub tail_from: u32,
    /// Rounds of plain mixing after them: post-processing that brings every agent to the network's
    /// mean model.
    pub gossip: u32,
}

impl Timetable {
    /// Exchanges in all.
    #[must_use]
    pub fn exchanges(&self) -> u32 {
        self.rounds + self.gossip
    }

    /// Whether everybody must mix the newest vectors in this exchange: after the rounds with steps,
    /// and in the last one, whose mean is the model.
    pub fn is_exact(&self, exchange: u32) -> bool {
        exchange > self.rounds || exchange >= self.exchanges()
    }
}

/// Where an agent sits: which rows it may look at, after how many exchanges.
#[derive(Clone, Copy, Debug)]
pub struct NeighbourView<'a> {
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
    pub common: Option<&'a CommonSummary>,
}

/// What an agent does in a round.
#[derive(Debug)]
pub struct Player {
    local: LocalObjective,
    protocol: Arc<dyn Protocol>,
    timetable: Arc<Timetable>,
    mixing: MixRule,
    gate: Gate,
    memory: Vec<f64>,
    tail: Vec<f64>,
    tail_rounds: u32,
    stopped: Option<(u32, StopReason)>,
    /// Rounds up to this one may have been released before what was kept of them was lost.
    unsure: u32,
    /// How many rounds old a neighbour's vector may be.
    staleness: u32,
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
        let memory =
            vec![0.0; (protocol.memory() + protocol.private_memory()) * protocol.width(dim)];
        let gate = gate.with_model(dim);
        // Without averaging there is no tail to keep.
        let tail = if timetable.tail_from < timetable.rounds { vec![0.0; dim] } else { Vec::new() };
        let mixing = MixRule::Average;
        let (tail_rounds, stopped, unsure, staleness) = (0, None, 0, 0);
        Self {
            local,
            protocol,
            timetable,
            mixing,
            gate,
            memory,
            tail,
            tail_rounds,
            stopped,
            unsure,
            staleness,
        }
    }

    /// Lets an agent mix the newest vector it has of a neighbour if that is at most `rounds` rounds
    /// old, instead of waiting for the one of this round; for algorithms that [allow
    /// it](crate::protocol::Capabilities::stale).
    #[must_use]
    pub fn with_staleness(mut self, rounds: u32) -> Self {
        self.staleness = rounds;
        self
    }

    /// How many rounds old a neighbour's vector may be.
    #[must_use]
    pub fn staleness(&self) -> u32 {
        self.staleness
    }

    /// Returns how many rounds old a neighbour's vector may be in an exchange: nothing but the
    /// newest where vectors are mixed without a step, and in the last exchange.
    #[must_use]
    pub fn oldest(&self, exchange: u32) -> u32 {
        if self.timetable.is_exact(exchange) { 0 } else { self.staleness }
    }

    /// Replaces the weighted average of neighbours' vectors by another rule, for algorithms that
    /// only [mix](crate::protocol::Capabilities::mixes) them.
    #[must_use]
    pub fn with_mixing(mut self, mixing: MixRule) -> Self {
        self.mixing = mixing;
        self
    }

    /// Where it starts: the point of the constraint set nearest to zero, so that a run never leaves
    /// the set.
    #[must_use]
    pub fn start(&self) -> Vec<f64> {
        let mut start = vec![0.0; self.width()];
        self.gate.constraint().project(&mut start[..self.local.dim()]);
        start
    }

    /// How many numbers its messages have.
    #[must_use]
    pub fn width(&self) -> usize {
        self.protocol.width(self.local.dim())
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

    /// All that changes from round to round; see [`Agent::checkpoint`].
    pub(crate) fn state(&self) -> PlayerState {
        let Self { gate, memory, tail, tail_rounds, stopped, .. } = self;
        PlayerState {
            memory: memory.clone(),
            // Before the average begins there is nothing in it.
            tail: if *tail_rounds == 0 { Vec::new() } else { tail.clone() },
            tail_rounds: *tail_rounds,
            stopped: *stopped,
            gate: gate.state(),
        }
    }

    pub(crate) fn resume(&mut self, state: &PlayerState) -> Result<(), RestoreError> {
        let tail = if state.tail_rounds == 0 { 0 } else { self.tail.len() };
        if state.memory.len() != self.memory.len() || state.tail.len() != tail {
            return Err(RestoreError::Shape { what: "the algorithm's memory" });
        }
        if !self.gate.resume(&state.gate) {
            return Err(RestoreError::Shape { what: "the ledger" });
        }
        self.memory.copy_from_slice(&state.memory);
        self.tail.fill(0.0);
        self.tail[..tail].copy_from_slice(&state.tail);
        (self.tail_rounds, self.stopped) = (state.tail_rounds, state.stopped);
        Ok(())
    }

    /// Has no round up to this one use the records: what it says may have been said before, with
    /// other noise, by whoever lost its state. Each is charged as if it had used them, and passes
    /// on a function of what was released.
    pub fn spare(&mut self, until: u32) {
        self.unsure = until;
    }

    /// What an agent remembers that released rounds 1 to `released`, of which all but the last
    /// message is lost.
    fn state_after(&self, released: u32) -> Result<PlayerState, RejoinError> {
        let kind = self.protocol.kind();
        if self.gate.is_correlated() {
            return Err(RejoinError::Secrets { kind });
        }
        if self.protocol.private_memory() > 0 {
            return Err(RejoinError::Private { kind });
        }
        if self.protocol.memory() > 0 {
            return Err(RejoinError::Remembers { kind });
        }
        if self.staleness > 0 {
            return Err(RejoinError::Stale { rounds: self.staleness });
        }
        let charged = released.min(self.timetable.rounds);
        let gate = self.gate.state_after(charged).ok_or(RejoinError::Filter { kind })?;
        let allowed = self.gate.ledger().allowed();
        let stopped = allowed.filter(|a| charged > *a).map(|a| (a + 1, StopReason::BudgetSpent));
        Ok(PlayerState { memory: Vec::new(), tail: Vec::new(), tail_rounds: 0, stopped, gate })
    }

    /// From which round on its budget kept it from using its records, if it did.
    #[must_use]
    pub fn stopped(&self) -> Option<(u32, StopReason)> {
        self.stopped
    }

    /// Takes in everybody's releases of round `neighbourhood.round` and writes this agent's next message to
    /// `out`.
    pub fn play<'a>(
        &mut self,
        neighbourhood: &NeighbourView<'_>,
        draft: &mut DraftScratch,
        out: &'a mut [f64],
    ) -> Release<'a> {
        self.absorb(neighbourhood);
        let Self {
            local, protocol, timetable, mixing, gate, memory, tail, stopped, unsure, ..
        } = self;
        let view = view(neighbourhood, &**protocol, local, gate).with_mixing(*mixing);
        let next = neighbourhood.round + 1;
        if next > timetable.rounds {
            // Gossip starts from each agent's own average and then mixes what neighbours sent.
            let first = next == timetable.rounds + 1;
            return gate.forward(next, out, |out| {
                if !first {
                    return view.mix(out);
                }
                out.copy_from_slice(view.own());
                out[..tail.len()].copy_from_slice(tail);
            });
        }
        if stopped.is_some() {
            return gate.forward(next, out, |out| protocol.idle(&view, out));
        }
        let turn = Turn { protocol: &**protocol, view: &view, memory, local };
        let (release, refused) =
            if next <= *unsure { gate.spare(&turn, out) } else { gate.release(turn, draft, out) };
        *stopped = refused.map(|reason| (next, reason));
        release
    }

    /// Sleeps through a round: nothing is taken in, and the last release stands. The round is charged
    /// as if it had used the records, for an account counts rounds without a gap: what is claimed
    /// is of an agent that never sleeps.
    pub(crate) fn sleep(&mut self, neighbourhood: &NeighbourView<'_>, out: &mut [f64]) {
        let (width, next) = (self.width(), neighbourhood.round + 1);
        out.copy_from_slice(&neighbourhood.rows[neighbourhood.me as usize * width..][..width]);
        if next <= self.timetable.rounds && self.stopped.is_none() {
            self.stopped = self.gate.rest(next).map(|reason| (next, reason));
        }
    }

    /// Makes the next vector of a secret-shared exchange and splits it: `neighbourhood` holds the mean that the last one revealed, the
    /// next vector goes to `own` and stays here, its shares go to `words`.
    ///
    /// # Errors
    /// A vector that does not fit the code; nothing is shared then.
    pub fn share<'a>(
        &mut self,
        neighbourhood: &NeighbourView<'_>,
        draft: &mut DraftScratch,
        code: &FixedPoint,
        own: &mut [f64],
        words: &'a mut [u64],
    ) -> Result<Shares<'a>, ShareError> {
        let round = neighbourhood.round + 1;
        let charge = self.next_steps(neighbourhood, draft, code, own, round, false)?;
        Ok(self.gate.split(round, charge, draft, words))
    }

    /// Makes the next vector of masked sums and masks it, under a label whose round follows `neighbourhood`'s. `again` says that a
    /// vector of this round was made before, under another label.
    ///
    /// # Errors
    /// A vector that does not fit the code, or an edge without a secret; nothing may leave then.
    #[expect(
        clippy::too_many_arguments,
        reason = "those of `share`, the label, and whether it is the first of its round"
    )]
    pub(crate) fn mask<'a>(
        &mut self,
        neighbourhood: &NeighbourView<'_>,
        label: &MaskLabel,
        again: bool,
        draft: &mut DraftScratch,
        code: &FixedPoint,
        own: &mut [f64],
        words: &'a mut [u64],
    ) -> Result<Masked<'a>, ShareError> {
        let charge = self.next_steps(neighbourhood, draft, code, own, label.charge(), again)?;
        self.gate.mask(label, charge, draft, words)
    }

    fn next_steps(
        &mut self,
        neighbourhood: &NeighbourView<'_>,
        draft: &mut DraftScratch,
        code: &FixedPoint,
        own: &mut [f64],
        number: u32,
        again: bool,
    ) -> Result<Charge, ShareError> {
        if !again {
            self.absorb(neighbourhood);
        }
        let Self { local, protocol, timetable, gate, memory, stopped, .. } = self;
        let view = view(neighbourhood, &**protocol, local, gate);
        let next = neighbourhood.round + 1;
        // An agent whose part of the noise hides others goes on adding it, whatever stopped it: the
        // gate knows when nobody uses a record any more.
        let idle = stopped.is_some() && !gate.adds_part();
        if next > timetable.rounds || idle {
            own.copy_from_slice(view.own());
            gate.same_steps(&**protocol, &view, code, own, draft)?;
            return Ok(Charge::Nothing);
        }
        let turn = Turn { protocol: &**protocol, view: &view, memory, local };
        let (charge, refused) = gate.next_steps(turn, draft, code, own, number)?;
        *stopped = stopped.or(refused.map(|reason| (next, reason)));
        Ok(charge)
    }

    /// Takes in what the round of `neighbourhood` revealed, without a vector of the next.
    pub(crate) fn take_in(&mut self, neighbourhood: &NeighbourView<'_>) {
        self.absorb(neighbourhood);
    }

    /// Takes in the secret of an edge.
    pub(crate) fn agree(&mut self, neighbour: u32, secret: &Seed) {
        self.gate.agree(neighbour, secret);
    }

    /// The algorithm.
    pub(crate) fn protocol(&self) -> &dyn Protocol {
        &*self.protocol
    }

    /// The timetable.
    pub(crate) fn timetable(&self) -> &Timetable {
        &self.timetable
    }

    /// Takes in the last exchange and gives the agent's model.
    pub fn finish(&mut self, neighbourhood: &NeighbourView<'_>) -> Vec<f64> {
        self.absorb(neighbourhood);
        let view =
            view(neighbourhood, &*self.protocol, &self.local, &self.gate).with_mixing(self.mixing);
        let mut model = vec![0.0; self.local.dim()];
        if neighbourhood.round > self.timetable.rounds {
            view.mix_from(0, &mut model);
            self.gate.constraint().project(&mut model);
        } else if self.tail_rounds > 0 {
            model.copy_from_slice(&self.tail);
        } else {
            self.protocol.model(&view, self.public_memory(&view), &mut model);
        }
        model
    }

    /// Writes the model the agent would use if the run ended now, without averaging and gossip.
    pub fn current_model(&self, neighbourhood: &NeighbourView<'_>, model: &mut [f64]) {
        let view =
            view(neighbourhood, &*self.protocol, &self.local, &self.gate).with_mixing(self.mixing);
        self.protocol.model(&view, self.public_memory(&view), model);
    }

    fn public_memory(&self, view: &View<'_>) -> &[f64] {
        &self.memory[..self.protocol.memory() * view.dim()]
    }

    /// Why no honest neighbour at this place would have released these numbers in this round, if
    /// none would: they lie outside the constraint set, which everybody moves its releases into,
    /// beyond the [bound](Gate::release_bound) that all gates keep, or beyond what the [algorithm
    /// admits](crate::protocol::Assessed::admits).
    fn out_of_range(&self, round: u32, place: usize, values: &[f64]) -> Option<String> {
        // A longer message has more in it than a model.
        if self.gate.shares_constraint() && values.len() == self.local.dim() {
            let radius = self.gate.constraint().radius(values.len()).unwrap_or(1.0);
            if !self.gate.constraint().contains(values, 1e-9 * (1.0 + radius)) {
                return Some("it lies outside the constraint set".into());
            }
        }
        if let Some(bound) = self.gate.release_bound()
            && let Some(index) = values.iter().position(|x| x.abs() > bound)
        {
            return Some(format!("the number at index {index} is beyond {bound:.4}"));
        }
        let (length, most) = self.protocol.admits(round, place)?;
        let norm = crate::kernel::norm(&values[..length.min(values.len())]);
        (norm > most).then(|| format!("its length {norm:.4} is beyond {most:.4}"))
    }

    fn absorb(&mut self, neighbourhood: &NeighbourView<'_>) {
        if neighbourhood.round == 0 || neighbourhood.round > self.timetable.rounds {
            return;
        }
        let view =
            view(neighbourhood, &*self.protocol, &self.local, &self.gate).with_mixing(self.mixing);
        let public = self.protocol.memory() * view.dim();
        self.protocol.absorb(&view, &mut self.memory[..public]);
        if !self.tail.is_empty() && neighbourhood.round >= self.timetable.tail_from {
            self.tail_rounds += 1;
            let weight = 1.0 / f64::from(self.tail_rounds);
            // Where a message carries a weight, its numbers are a model only after dividing by it.
            let mut model = Vec::new();
            let own = if self.protocol.capabilities().directed {
                model.resize(self.tail.len(), 0.0);
                self.protocol.model(&view, &self.memory[..public], &mut model);
                &model
            } else {
                view.own()
            };
            for (tail, x) in self.tail.iter_mut().zip(own) {
                *tail += weight * (x - *tail);
            }
        }
    }
}

fn view<'a>(
    neighbourhood: &NeighbourView<'a>,
    protocol: &dyn Protocol,
    local: &LocalObjective,
    gate: &Gate,
) -> View<'a> {
    View::new(
        neighbourhood.rows,
        protocol.width(local.dim()),
        neighbourhood.me,
        neighbourhood.neighbours,
        neighbourhood.place,
        neighbourhood.weights,
        neighbourhood.round,
    )
    .with_regularization(local.regularization())
    .with_constraint(*gate.constraint())
    .with_common(neighbourhood.common)
}

/// One vector on its way to a neighbour.
///
/// An agent's own messages are made from a [`Release`] and from nothing else; a driver builds only
/// what it *received*:
///
/// ```compile_fail
/// let forged = consenso_agents::agent::Message { from: 0, round: 1, values: vec![0.0].into() };
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    from: u32,
    round: u32,
    values: Arc<[f64]>,
}

impl Message {
    /// What somebody else sent, as it came in: nothing about it is checked before
    /// [`Agent::handle`].
    #[must_use]
    pub fn received(from: u32, round: u32, values: impl Into<Arc<[f64]>>) -> Self {
        Self { from, round, values: values.into() }
    }

    fn released(from: u32, release: &Release<'_>) -> Self {
        Self { from, round: release.round(), values: release.values().into() }
    }

    /// Who released it.
    #[must_use]
    pub fn from(&self) -> u32 {
        self.from
    }

    /// In which round.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// The vector.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

/// Everything an agent must not forget between two processes, bit for bit: saved when
/// [`Effect::Charge`] or [`Effect::Done`] asks for it, put back with [`Agent::restore`].
///
/// It holds what the algorithm remembers, which may depend on the records: it is the agent's own
/// and must stay with it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub(crate) agent: u32,
    pub(crate) round: u32,
    #[serde(with = "numbers::maybe")]
    pub(crate) own: Option<Vec<f64>>,
    pub(crate) away: Vec<Option<u32>>,
    #[serde(with = "numbers::maybe")]
    pub(crate) model: Option<Vec<f64>>,
    pub(crate) player: PlayerState,
    /// What an agent among shares has added up in the exchange it is in; `None` for one that sends
    /// its vectors.
    pub(crate) shares: Option<Vec<u64>>,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dim = self.own.as_ref().or(self.model.as_ref()).map_or(0, Vec::len);
        write!(f, "Checkpoint(agent={}, round={}, dim={dim})", self.agent, self.round)
    }
}

impl Checkpoint {
    /// Exchanges that were complete.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// The model, if the run was over.
    #[must_use]
    pub fn model(&self) -> Option<&[f64]> {
        self.model.as_deref()
    }

    /// Agents that a masked sum goes on without, each with the first round whose sum it is not in;
    /// nothing for other exchanges.
    #[must_use]
    pub fn left_out(&self) -> Vec<(u32, Round)> {
        let away = self.away.iter().zip(0..).filter(|_| self.is_shared());
        away.filter_map(|(round, agent)| Some((agent, Round((*round)?)))).collect()
    }

    /// Whether it is of an agent among secret shares, whose vector is in no message.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.shares.is_some()
    }

    /// Takes out the release of the round after, which whoever keeps the message itself need not
    /// keep twice. A vector that left in shares stays.
    pub fn take_release(&mut self) -> Option<Vec<f64>> {
        if self.is_shared() { None } else { self.own.take() }
    }

    /// Puts it back: the same bits, for neighbours may have them.
    pub fn put_release(&mut self, values: Vec<f64>) {
        self.own = Some(values);
    }
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlayerState {
    #[serde(with = "numbers")]
    memory: Vec<f64>,
    #[serde(with = "numbers")]
    tail: Vec<f64>,
    tail_rounds: u32,
    stopped: Option<(u32, StopReason)>,
    gate: GateState,
}

/// Long vectors as bytes: a format that takes bytes whole writes them many times faster than number
/// by number.
pub(crate) mod numbers {
    use serde::de::Visitor;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = vec![0; 8 * values.len()];
        for (place, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
            *place = value.to_le_bytes();
        }
        to.serialize_bytes(&bytes)
    }

    pub(crate) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<f64>, D::Error> {
        struct Numbers;
        impl Visitor<'_> for Numbers {
            type Value = Vec<f64>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("eight bytes a number")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<f64>, E> {
                let (numbers, rest) = bytes.as_chunks();
                if !rest.is_empty() {
                    return Err(E::invalid_length(bytes.len(), &self));
                }
                Ok(numbers.iter().map(|n| f64::from_le_bytes(*n)).collect())
            }
        }
        from.deserialize_bytes(Numbers)
    }

    /// Reads and writes a vector that may be missing. No vector of an agent is empty.
    pub(super) mod maybe {
        use serde::{Deserializer as D, Serializer as S};

        pub(in super::super) fn serialize<T: S>(
            values: &Option<Vec<f64>>,
            to: T,
        ) -> Result<T::Ok, T::Error> {
            super::serialize(values.as_deref().unwrap_or_default(), to)
        }

        pub(in super::super) fn deserialize<'a, T: D<'a>>(
            from: T,
        ) -> Result<Option<Vec<f64>>, T::Error> {
            Ok(Some(super::deserialize(from)?).filter(|values| !values.is_empty()))
        }
    }
}

/// Why a checkpoint was not put back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It is another agent's.
    #[error("the checkpoint is agent {found}'s, not agent {agent}'s")]
    Agent {
        /// Who was to be restored.
        agent: u32,
        /// Whose it is.
        found: u32,
    },
    /// It does not fit the experiment.
    #[error("the checkpoint does not fit the experiment: {what} has another shape")]
    Shape {
        /// What does not fit.
        what: &'static str,
    },
}

/// Why an agent cannot go on without a neighbour.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AbsenceError {
    /// There is no such neighbour.
    #[error("agent {from} is not a neighbour of agent {agent}")]
    Stranger {
        /// Who is away.
        from: u32,
        /// Who would go on.
        agent: u32,
    },
    /// The algorithm's answer would be wrong.
    #[error("{kind} cannot go on without a neighbour: what it remembers balances over every edge")]
    Needed {
        /// The algorithm.
        kind: &'static str,
    },
    /// The noise that both share would be left in the model.
    #[error(
        "{kind} cannot go on without a neighbour: noise that both share would cancel with nothing"
    )]
    Shares {
        /// The algorithm.
        kind: &'static str,
    },
    /// The exchange needs everybody, or has a way of its own.
    #[error("{why}")]
    Exchange {
        /// Why.
        why: &'static str,
    },
    /// Those left cannot add up their vectors.
    #[error(transparent)]
    Sum(#[from] ShareError),
}

/// Why an agent cannot get another neighbour.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AddNeighbourError {
    /// It has this neighbour already, or would be its own.
    #[error("agent {agent} has agent {from} beside it already")]
    Known {
        /// Who was to join.
        from: u32,
        /// Whose neighbour it would be.
        agent: u32,
    },
    /// What it does with its neighbours' vectors depends on how many there are.
    #[error(
        "{kind} cannot get another neighbour: its step, what one record moves of it, or what it remembers depends on who its neighbours are, so that neither its noise nor its claim would stand"
    )]
    Needed {
        /// The algorithm.
        kind: &'static str,
    },
    /// The noise of its messages is shared by the neighbours it had.
    #[error(
        "{kind} cannot get another neighbour: its noise was chosen for the edges there were when it began, and the claim rests on them"
    )]
    Shares {
        /// The algorithm.
        kind: &'static str,
    },
    /// Nobody could say from which exchange on.
    #[error(
        "staleness = {rounds}: an edge begins in an exchange that both ends complete together, and these mix vectors of different ones"
    )]
    Stale {
        /// How many rounds old a vector may be.
        rounds: u32,
    },
    /// The exchange is over, or there is none of that number.
    #[error(
        "an edge from exchange {from} on: this agent has completed {round} of {last} exchanges"
    )]
    Passed {
        /// The first exchange with the neighbour.
        from: u32,
        /// Exchanges complete.
        round: u32,
        /// Exchanges in all.
        last: u32,
    },
    /// The exchange is among those it began with.
    #[error("{why}")]
    Exchange {
        /// Why.
        why: &'static str,
    },
    /// There is not so much to give away.
    #[error("an edge of weight {weight}: this agent's own weight is {own}, and must stay above 0")]
    Weight {
        /// What the edge would have.
        weight: f64,
        /// What the agent has.
        own: f64,
    },
}

/// Why an agent that lost its state cannot go on from what others have of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejoinError {
    /// Its next message depends on what only it knew.
    #[error(
        "{kind} remembers what depends on the records, such as an earlier gradient: nobody else has it"
    )]
    Private {
        /// The algorithm.
        kind: &'static str,
    },
    /// Its next message depends on all rounds before.
    #[error("{kind} remembers sums over all rounds, and neighbours keep the last two only")]
    Remembers {
        /// The algorithm.
        kind: &'static str,
    },
    /// The secrets of its edges were lost with its state.
    #[error(
        "{kind} hides records with secrets that are this agent's and one neighbour's alone: they are lost, and nothing else would cancel"
    )]
    Secrets {
        /// The algorithm.
        kind: &'static str,
    },
    /// What its releases cost depends on the whole transcript.
    #[error(
        "{kind} under accounting = \"filter\": what releases cost depends on all that was sent, and neighbours keep the last two rounds only"
    )]
    Filter {
        /// The algorithm.
        kind: &'static str,
    },
    /// There may be more releases than neighbours tell of.
    #[error(
        "staleness = {rounds}: a site may be that many rounds ahead of what its neighbours have of it, so that nobody knows what it released last"
    )]
    Stale {
        /// How many rounds old a vector may be.
        rounds: u32,
    },
    /// Nobody else has its vectors.
    #[error("{why}")]
    Hidden {
        /// Why.
        why: &'static str,
    },
}

/// Largest number that a message of a neighbour may hold, 10^12.
///
/// Models of unit rows are a few units long; what is a billion times as long is no model. Larger
/// numbers would let a neighbour ask about single records without noise: at 10^308 one record's
/// margin is ∞ − ∞ and its slope no number, the step cannot be released, and the agent falls silent
/// *because of that record*. Within the bound every margin, slope and step is finite whatever the
/// records are, so that an agent's silence is a function of public numbers alone.
pub const LARGEST_RECEIVED: f64 = 1e12;

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// It holds a number that no model has.
    #[error("round {round} from agent {from} has a number beyond 1e12 at index {index}")]
    TooLarge {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
        /// Where.
        index: usize,
    },
    /// It lies outside what an honest agent of this study can release.
    #[error("round {round} from agent {from} is out of range: {what}")]
    OutOfRange {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
        /// By which public rule.
        what: String,
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
    /// The round was received before with other content: a neighbour must never release a round
    /// twice.
    #[error("agent {from} sent round {round} twice with different content")]
    Equivocation {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
    },
}
