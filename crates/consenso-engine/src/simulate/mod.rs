//! The seeded drivers of the agents: in lockstep and fast, or message by message through a virtual
//! network with faults.
//!
//! Both play the same [`Player`]s and give the same transcript bit for bit.

mod delays;
mod error;
mod messages;
mod parted;
mod shared;

pub(crate) use delays::Clock;
pub use delays::Delays;
pub use error::{RankError, SimulationError};
pub use messages::{Cut, Faults, Traffic, over_messages};
pub use parted::{Alone, Division, Parted, PartedState, Ranks, ThreadRanks};

use crate::agent::{Player, PlayerState, RestoreError, Seat};
use crate::gate::Desk;
use crate::graph::{Graph, Mixing};
use crate::protocol::{Common, Weights};
use crate::random::Seed;
use crate::sharing::{FixedPoint, ShareError};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An agent that dies for good in a simulation of masked sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DropOut {
    /// Who, from 0.
    pub agent: u32,
    /// In which round, from 1: it is not in that round's sum, nor in any later one.
    pub round: u32,
}

/// Multiply-adds a share of a round should hold before it is worth handing to another thread: about
/// 10 µs of work, where handing it over takes about one.
pub(crate) const GRAIN: usize = 50_000;

/// All agents of a run, moving together.
///
/// Released vectors live in one N×d block, double-buffered; agents borrow their neighbours' rows,
/// and nothing is allocated in a round.
#[derive(Debug)]
pub struct Lockstep {
    players: Vec<Player>,
    graph: Arc<Graph>,
    mixing: Arc<Mixing>,
    dim: usize,
    grain: usize,
    round: u32,
    rows: Vec<f64>,
    next: Vec<f64>,
    draft: Desk,
    exchange: Option<shared::Exchange>,
    failure: Option<ShareError>,
    /// Whether a release had to be moved into the public reach before this simulation went on from
    /// a state.
    clamped: bool,
    /// Who has what when, where messages take time and older ones may be mixed.
    clock: Option<Clock>,
    /// Earlier releases that may still be mixed, the newest first.
    past: std::collections::VecDeque<Vec<f64>>,
}

/// Everything that changes from round to round in a [`Lockstep`], to be written down and gone on
/// from. It holds what agents keep to themselves, so it is as private as their records.
#[derive(Clone, Serialize, Deserialize)]
pub struct LockstepState {
    round: u32,
    #[serde(with = "crate::agent::numbers")]
    rows: Vec<f64>,
    /// Releases before the last that may still be mixed.
    past: Vec<Vec<f64>>,
    /// Whether a release had to be moved into the public reach.
    clamped: bool,
    /// Of a secret-shared exchange: everybody's own vector, and what the last round revealed.
    shared: Option<(Vec<f64>, Vec<f64>)>,
    players: Vec<PlayerState>,
}

impl std::fmt::Debug for LockstepState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockstepState(round={}, agents={})", self.round, self.players.len())
    }
}

impl LockstepState {
    /// Rounds exchanged when it was taken.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Whether any release so far had to be moved into the public reach of its gate.
    pub(crate) fn clamped(&self) -> bool {
        self.clamped
    }
}

impl Lockstep {
    /// Every agent at its start (zero, unless a constraint set excludes it). There must be as many
    /// players as the graph has agents.
    #[must_use]
    pub fn new(players: Vec<Player>, graph: Arc<Graph>, mixing: Arc<Mixing>) -> Self {
        assert_eq!(players.len(), graph.agents(), "a player an agent");
        let dim = players.first().map_or(0, Player::width);
        let work = players.iter().map(|p| 2 * p.local().stored()).max().unwrap_or(1) + 100 * dim;
        let grain = (GRAIN / work.max(1)).max(1);
        let rows: Vec<f64> = players.iter().flat_map(Player::start).collect();
        let next = rows.clone();
        let draft = Desk::default();
        Self {
            players,
            graph,
            mixing,
            dim,
            grain,
            round: 0,
            rows,
            next,
            draft,
            exchange: None,
            failure: None,
            clamped: false,
            clock: None,
            past: std::collections::VecDeque::new(),
        }
    }

    /// Lets messages take time. Agents that may mix [older vectors](Player::with_staleness) mix
    /// what has arrived; for others only the time would differ.
    #[must_use]
    pub fn delayed(mut self, delays: Delays, seed: &Seed) -> Self {
        let staleness = self.players.first().map_or(0, Player::staleness);
        self.clock = (staleness > 0).then(|| Clock::new(delays, &self.graph, staleness, seed));
        self
    }

    /// Lets the agents exchange secret shares: only the sum of their vectors is revealed.
    ///
    /// # Errors
    /// A graph that is not complete or not the code's, or an algorithm that looks at more than
    /// sums.
    pub fn secret_shared(mut self, code: FixedPoint) -> Result<Self, ShareError> {
        if !self.graph.is_complete() || code.agents() != self.players.len() {
            return Err(ShareError::NotComplete);
        }
        self.exchange = Some(shared::Exchange::new(code, &self.players, &self.rows, self.dim)?);
        Ok(self)
    }

    /// Switches this simulation to masked sums: only sums over many agents are revealed, on any
    /// graph, and agents may drop out. The gates must have [masks](crate::gate::Gate::with_masks).
    ///
    /// # Errors
    /// A graph that is not the code's, or an algorithm that looks at more than sums.
    pub fn masked(
        mut self,
        code: FixedPoint,
        most: usize,
        drop_outs: Vec<DropOut>,
    ) -> Result<Self, ShareError> {
        if code.agents() != self.players.len() {
            return Err(ShareError::NotComplete);
        }
        let exchange = shared::Exchange::new(code, &self.players, &self.rows, self.dim)?;
        self.exchange = Some(exchange.masked(Arc::clone(&self.graph), most, drop_outs));
        Ok(self)
    }

    /// Why a secret-shared round could not be made, if one could not: no later round is.
    #[must_use]
    pub fn failure(&self) -> Option<&ShareError> {
        self.failure.as_ref()
    }

    /// Rounds exchanged so far.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Length of a model.
    #[must_use]
    pub fn model_dim(&self) -> usize {
        self.players.first().map_or(0, |p| p.local().dim())
    }

    /// Length of a message.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The last releases, agent by agent.
    #[must_use]
    pub fn rows(&self) -> &[f64] {
        &self.rows
    }

    /// The agents.
    #[must_use]
    pub fn players(&self) -> &[Player] {
        &self.players
    }

    /// Puts all agents at the given models, row by row, before the first round.
    pub fn start_from(&mut self, models: &[f64]) {
        let dim = self.model_dim().max(1);
        for (row, model) in
            self.rows.chunks_exact_mut(self.dim.max(1)).zip(models.chunks_exact(dim))
        {
            row[..dim].copy_from_slice(model);
        }
    }

    /// One round: every agent takes in the last releases and makes its next.
    pub fn advance(&mut self) {
        if let Some(mut clock) = self.clock.take() {
            let oldest = self.players.first().map_or(0, |p| p.oldest(self.round));
            let ages =
                if self.round == 0 { Vec::new() } else { clock.exchange(&self.graph, oldest) };
            self.clock = Some(clock);
            return self.advance_with(&ages);
        }
        let Self {
            players,
            graph,
            mixing,
            dim,
            grain,
            round,
            rows,
            next,
            draft,
            exchange,
            failure,
            ..
        } = self;
        if let Some(exchange) = exchange {
            if failure.is_none() {
                *failure = exchange.advance(players, *round, *grain, rows).err();
                *round += u32::from(failure.is_none());
            }
            return;
        }
        let common = common(players, graph, rows, *dim);
        let table = Seats { graph, mixing, rows, round: *round, common: common.as_ref() };
        // Back and forth: what one round read last is still in the cache when the next begins. The
        // order changes no result.
        let back = !round.is_multiple_of(2);
        if players.len() <= *grain {
            let all = players.iter_mut().zip(next.chunks_exact_mut(*dim)).enumerate();
            let play = |(i, (player, out)): (usize, (&mut Player, &mut [f64]))| {
                player.play(&table.seat(i), draft, out);
            };
            if back { all.rev().for_each(play) } else { all.for_each(play) }
        } else {
            let all = players.par_iter_mut().zip(next.par_chunks_exact_mut(*dim)).enumerate();
            let play =
                |draft: &mut Desk, (i, (player, out)): (usize, (&mut Player, &mut [f64]))| {
                    player.play(&table.seat(i), draft, out);
                };
            if back {
                all.rev().with_min_len(*grain).for_each_init(Desk::default, play);
            } else {
                all.with_min_len(*grain).for_each_init(Desk::default, play);
            }
        }
        std::mem::swap(rows, next);
        *round += 1;
    }

    /// One round in which vectors of neighbours are as old as said, by agent and neighbour; where
    /// nothing is said they are of the last round. What sites of a real network mixed can be played
    /// again with it.
    pub fn advance_with(&mut self, ages: &[Vec<u32>]) {
        let Self { players, graph, mixing, dim, grain, round, rows, next, past, .. } = self;
        let staleness = players.first().map_or(0, Player::staleness) as usize;
        let table = Seats { graph, mixing, rows, round: *round, common: None };
        let all = players.par_iter_mut().zip(next.par_chunks_exact_mut(*dim)).enumerate();
        all.with_min_len(*grain).for_each_init(Desk::default, |draft, (i, (player, out))| {
            let seat = table.seat(i);
            let aged = ages.get(i).filter(|ages| ages.iter().any(|age| *age > 0));
            let Some(ages) = aged else {
                player.play(&seat, draft, out);
                return;
            };
            let row = |j: usize| j * *dim..(j + 1) * *dim;
            let mut seen = rows[row(i)].to_vec();
            for (&j, &age) in seat.neighbours.iter().zip(ages) {
                let block =
                    (age as usize).checked_sub(1).and_then(|back| past.get(back)).unwrap_or(rows);
                seen.extend_from_slice(&block[row(j as usize)]);
            }
            let indices: Vec<u32> = (1..=ages.len() as u32).collect();
            player.play(&Seat { rows: &seen, me: 0, neighbours: &indices, ..seat }, draft, out);
        });
        std::mem::swap(rows, next);
        past.push_front(next.clone());
        past.truncate(staleness);
        *round += 1;
    }

    /// The models the agents would use if the run ended now, row by row, without averaging and
    /// gossip.
    #[must_use]
    pub(crate) fn current_models(&self) -> Vec<f64> {
        let Self { players, graph, mixing, round, rows, .. } = self;
        let table = Seats { graph, mixing, rows, round: *round, common: None };
        let dim = self.model_dim();
        let mut models = vec![0.0; players.len() * dim];
        for (i, (player, model)) in
            players.iter().zip(models.chunks_exact_mut(dim.max(1))).enumerate()
        {
            player.current_model(&table.seat(i), model);
        }
        models
    }

    /// All that changes from round to round.
    #[must_use]
    pub fn state(&self) -> LockstepState {
        LockstepState {
            round: self.round,
            rows: self.rows.clone(),
            past: self.past.iter().cloned().collect(),
            clamped: self.clamped || self.players.iter().any(|p| p.gate().clamped()),
            shared: self.exchange.as_ref().map(shared::Exchange::state),
            players: self.players.iter().map(Player::state).collect(),
        }
    }

    /// Goes on from a state of the same simulation: what comes after it is bit for bit what would
    /// have come without it.
    ///
    /// # Errors
    /// [`RestoreError`] if it is of another one; the simulation must not be used then.
    pub fn resume(&mut self, state: &LockstepState) -> Result<(), RestoreError> {
        let whole = |rows: &Vec<f64>| rows.len() == self.rows.len();
        if !whole(&state.rows)
            || !state.past.iter().all(whole)
            || state.players.len() != self.players.len()
        {
            return Err(RestoreError::Shape { what: "the agents of a simulation" });
        }
        let fits = match (&mut self.exchange, &state.shared) {
            (Some(exchange), Some((own, revealed))) => exchange.resume(state.round, own, revealed),
            (None, None) => true,
            _ => false,
        };
        if !fits {
            return Err(RestoreError::Shape { what: "the exchange of shares" });
        }
        for (player, saved) in self.players.iter_mut().zip(&state.players) {
            player.resume(saved)?;
        }
        if let Some(clock) = &mut self.clock {
            // Times do not depend on what is sent, so they are counted again.
            for round in 1..state.round {
                clock.exchange(&self.graph, self.players.first().map_or(0, |p| p.oldest(round)));
            }
        }
        self.rows.copy_from_slice(&state.rows);
        self.past = state.past.iter().cloned().collect();
        (self.round, self.clamped) = (state.round, state.clamped);
        Ok(())
    }

    /// Takes in the last exchange and gives every agent's model.
    pub fn finish(&mut self) -> Vec<Vec<f64>> {
        let Self { players, graph, mixing, dim, round, rows, exchange, .. } = self;
        if let Some(exchange) = exchange {
            return exchange.finish(players, *round);
        }
        let common = common(players, graph, rows, *dim);
        let table = Seats { graph, mixing, rows, round: *round, common: common.as_ref() };
        players.iter_mut().enumerate().map(|(i, player)| player.finish(&table.seat(i))).collect()
    }
}

/// Only agents of a complete graph compute anything alike, and only some algorithms look at it.
fn common(players: &[Player], graph: &Graph, rows: &[f64], dim: usize) -> Option<Common> {
    let used = graph.is_complete() && players.first().is_some_and(|p| p.protocol().uses_common());
    used.then(|| Common::of(&rows.chunks_exact(dim.max(1)).collect::<Vec<_>>()))
}

struct Seats<'a> {
    graph: &'a Graph,
    mixing: &'a Mixing,
    rows: &'a [f64],
    round: u32,
    common: Option<&'a Common>,
}

impl<'a> Seats<'a> {
    fn seat(&self, agent: usize) -> Seat<'a> {
        let neighbours = self.graph.neighbours(agent);
        Seat {
            rows: self.rows,
            me: agent as u32,
            neighbours,
            place: neighbours.partition_point(|&j| (j as usize) < agent),
            weights: Weights {
                own: self.mixing.own(agent),
                neighbours: self.mixing.neighbours(agent),
            },
            round: self.round,
            common: self.common,
        }
    }
}
