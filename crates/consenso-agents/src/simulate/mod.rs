//! The seeded drivers of the agents: in lockstep and fast, or message by message through a virtual
//! network with faults.
//!
//! Both play the same [`Player`]s and give the same transcript bit for bit.

mod compression;
mod delays;
mod error;
mod links;
mod loss;
mod messages;
mod rank_partition;
mod shared;

pub use compression::Compression;
pub use delays::Clock;
pub use delays::Delays;
pub use error::{RankError, SimulationError};
pub use links::{LinkPattern, Sleep, TwoStateChain};
pub use loss::{Bursts, LossyLinks, MessageLoss};
pub use messages::{Faults, NetworkCut, Traffic, over_messages};
pub use rank_partition::{RankBlocks, RankPartition, RankState, Ranks, SingleRank, ThreadRanks};

use crate::agent::{NeighbourView, Player, PlayerState, RestoreError};
use crate::gate::DraftScratch;
use crate::graph::{Graph, Mixing};
use crate::kernel::RowsInMemory;
use crate::protocol::{CommonSummary, Weights};
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

/// How long a message takes over a link. Work takes no time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkModel {
    /// Seconds from one end to the other, whatever the size.
    pub latency: f64,
    /// Bytes in a second that an agent can send to all its neighbours together; no bound where it
    /// is not said.
    pub bandwidth: Option<f64>,
}

impl LinkModel {
    /// Seconds of an exchange in which an agent sends so many bytes at most.
    fn seconds(&self, most: u64) -> f64 {
        self.latency + self.bandwidth.map_or(0.0, |bandwidth| most as f64 / bandwidth)
    }
}

/// What a simulation sent, all agents together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Vectors over links, lost ones among them.
    pub messages: u64,
    /// Their size.
    pub bytes: u64,
    /// How long all exchanges took under the link model, one after the other; nothing without one.
    pub seconds: f64,
}

/// Multiply-adds a share of a round should hold before it is worth handing to another thread: about
/// 10 µs of work, where handing it over takes about one.
pub const GRAIN: usize = 50_000;

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
    draft: DraftScratch,
    exchange: Option<shared::SumsOnly>,
    failure: Option<ShareError>,
    /// Whether a release had to be moved within the public bound before this simulation went on from
    /// a state.
    clamped: bool,
    /// Who has what when, where messages take time and older ones may be mixed.
    clock: Option<Clock>,
    /// Links that lose messages.
    lossy: Option<LossyLinks>,
    /// Who hears whom, where that changes from round to round or links lead one way.
    links: Option<links::Links>,
    /// How released vectors are compressed, and the seed of its draws.
    compression: Option<(Compression, Seed)>,
    /// How long a message takes.
    link_model: LinkModel,
    /// What has been sent so far.
    sent: Sent,
    /// Earlier releases that may still be mixed, the newest first.
    past: std::collections::VecDeque<Vec<f64>>,
    /// Where the rows of every agent lie.
    places: Vec<RowsInMemory>,
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
    /// Whether a release had to be moved within the public bound.
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

    /// Whether any release so far had to be moved within the public bound of its gate.
    pub fn clamped(&self) -> bool {
        self.clamped
    }
}

/// Returns what agent `i` mixes: its own row, then one of every neighbour, as old as `ages` say; `past` has
/// the rows before the last, the newest first.
#[must_use]
pub fn seen(
    rows: &[f64],
    past: &std::collections::VecDeque<Vec<f64>>,
    dim: usize,
    i: usize,
    neighbours: &[u32],
    ages: &[u32],
) -> Vec<f64> {
    let row = |j: usize| j * dim..(j + 1) * dim;
    let mut seen = rows[row(i)].to_vec();
    for (&j, &age) in neighbours.iter().zip(ages) {
        let older = (age as usize).checked_sub(1).and_then(|back| past.get(back));
        seen.extend_from_slice(&older.map_or(rows, Vec::as_slice)[row(j as usize)]);
    }
    seen
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
        let places = players.iter().map(|p| p.local().rows_in_memory()).collect();
        let next = rows.clone();
        let draft = DraftScratch::default();
        // Which links there are is drawn from a seed only where the seed is given later.
        let one_way = graph.directed().is_some();
        let links = one_way
            .then(|| links::Links::new(Arc::clone(&graph), None, Sleep::default(), &Seed::from(0)));
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
            lossy: None,
            links,
            compression: None,
            link_model: LinkModel::default(),
            sent: Sent::default(),
            past: std::collections::VecDeque::new(),
            places,
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

    /// Lets links lose messages. Agents must be able to go on
    /// [without a neighbour](crate::protocol::Capabilities::absence).
    #[must_use]
    pub fn lossy(mut self, links: LossyLinks) -> Self {
        self.lossy = Some(links);
        self
    }

    /// Lets links be there in some rounds only, and agents sleep. The algorithm must go on
    /// [whatever the weights of a round are](crate::protocol::Capabilities::varying).
    #[must_use]
    pub fn varying(mut self, pattern: Option<LinkPattern>, sleep: Sleep, seed: &Seed) -> Self {
        if pattern.is_some() || !sleep.is_never() {
            self.links = Some(links::Links::new(Arc::clone(&self.graph), pattern, sleep, seed));
        }
        self
    }

    /// Compresses what agents release: neighbours, and the agents themselves, go on from what is
    /// left of it.
    #[must_use]
    pub fn compressed(mut self, compression: Compression, seed: &Seed) -> Self {
        self.compression = Some((compression, seed.clone()));
        self
    }

    /// Lets messages take time that is counted and changes nothing.
    #[must_use]
    pub fn over(mut self, link_model: LinkModel) -> Self {
        self.link_model = link_model;
        self
    }

    /// What has been sent so far; nothing is counted where vectors are shared in secret.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Counts the messages of round `round`.
    fn count(&mut self, round: u32) {
        let tired = self.is_tired(round);
        let (messages, most) = match &mut self.links {
            Some(links) => {
                links.set(round, tired);
                links.now().messages()
            }
            None => (2 * self.graph.edges() as u64, self.graph.max_degree() as u64),
        };
        let bytes = match &self.compression {
            Some((how, _)) => how.bytes(self.dim),
            None => self.players.first().map_or(0, |p| p.protocol().bytes(self.dim)),
        };
        self.sent.messages += messages;
        self.sent.bytes += messages * bytes;
        self.sent.seconds += self.link_model.seconds(most * bytes);
    }

    /// Whether agents may sleep in round `round`: in those that use records.
    fn is_tired(&self, round: u32) -> bool {
        self.players.first().is_some_and(|p| round < p.timetable().rounds)
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
        self.exchange = Some(shared::SumsOnly::new(code, &self.players, &self.rows, self.dim)?);
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
        let exchange = shared::SumsOnly::new(code, &self.players, &self.rows, self.dim)?;
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
        let (tired, at) = (self.is_tired(self.round), self.round);
        if let Some(links) = &mut self.links {
            links.set(at, tired);
        }
        if let Some(lossy) = &mut self.lossy {
            lossy.set(at);
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
            lossy,
            links,
            compression,
            places,
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
        let links = links.as_ref().map(links::Links::now);
        let table =
            NeighbourViews { graph, mixing, rows, round: *round, common: common.as_ref(), links };
        let (lossy, compression) = (lossy.as_ref(), compression.as_ref());
        let (before, width, coming) = (&**rows, *dim, *round + 1);
        // Back and forth: what one round read last is still in the cache when the next begins. The
        // order changes no result.
        let back = !round.is_multiple_of(2);
        let turn = |i: usize, player: &mut Player, draft: &mut DraftScratch, out: &mut [f64]| {
            // While one agent computes, the rows of the next one come from memory.
            let after = if back { i.wrapping_sub(1) } else { i + 1 };
            draft.work.reads_after(places.get(after).copied().unwrap_or_default());
            if links.is_some_and(|links| links.is_asleep(i)) {
                return player.sleep(&table.neighbourhood(i), out);
            }
            table.seen(i, lossy, |neighbourhood| {
                player.play(neighbourhood, draft, out);
            });
            if let Some((how, seed)) = compression {
                how.apply((i, coming), seed, &before[i * width..][..width], out);
            }
        };
        if players.len() <= *grain {
            let all = players.iter_mut().zip(next.chunks_exact_mut(*dim)).enumerate();
            let play = |(i, (player, out)): (usize, (&mut Player, &mut [f64]))| {
                turn(i, player, draft, out);
            };
            if back { all.rev().for_each(play) } else { all.for_each(play) }
        } else {
            let all = players.par_iter_mut().zip(next.par_chunks_exact_mut(*dim)).enumerate();
            let play =
                |draft: &mut DraftScratch,
                 (i, (player, out)): (usize, (&mut Player, &mut [f64]))| {
                    turn(i, player, draft, out);
                };
            if back {
                all.rev().with_min_len(*grain).for_each_init(DraftScratch::default, play);
            } else {
                all.with_min_len(*grain).for_each_init(DraftScratch::default, play);
            }
        }
        std::mem::swap(rows, next);
        *round += 1;
        self.count(self.round);
    }

    /// One round in which vectors of neighbours are as old as said, by agent and neighbour; where
    /// nothing is said they are of the last round. What sites of a real network mixed can be played
    /// again with it.
    pub fn advance_with(&mut self, ages: &[Vec<u32>]) {
        let Self { players, graph, mixing, dim, grain, round, rows, next, past, .. } = self;
        let staleness = players.first().map_or(0, Player::staleness) as usize;
        let table =
            NeighbourViews { graph, mixing, rows, round: *round, common: None, links: None };
        let all = players.par_iter_mut().zip(next.par_chunks_exact_mut(*dim)).enumerate();
        all.with_min_len(*grain).for_each_init(
            DraftScratch::default,
            |draft, (i, (player, out))| {
                let neighbourhood = table.neighbourhood(i);
                let aged = ages.get(i).filter(|ages| ages.iter().any(|age| *age > 0));
                let Some(ages) = aged else {
                    player.play(&neighbourhood, draft, out);
                    return;
                };
                let seen = seen(rows, past, *dim, i, neighbourhood.neighbours, ages);
                let indices: Vec<u32> = (1..=ages.len() as u32).collect();
                player.play(
                    &NeighbourView { rows: &seen, me: 0, neighbours: &indices, ..neighbourhood },
                    draft,
                    out,
                );
            },
        );
        std::mem::swap(rows, next);
        past.push_front(next.clone());
        past.truncate(staleness);
        *round += 1;
        self.count(self.round);
    }

    /// The models the agents would use if the run ended now, row by row, without averaging and
    /// gossip.
    #[must_use]
    pub fn current_models(&self) -> Vec<f64> {
        let Self { players, graph, mixing, round, rows, .. } = self;
        let table =
            NeighbourViews { graph, mixing, rows, round: *round, common: None, links: None };
        let dim = self.model_dim();
        let mut models = vec![0.0; players.len() * dim];
        for (i, (player, model)) in
            players.iter().zip(models.chunks_exact_mut(dim.max(1))).enumerate()
        {
            player.current_model(&table.neighbourhood(i), model);
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
            shared: self.exchange.as_ref().map(shared::SumsOnly::state),
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
        self.sent = Sent::default();
        if self.exchange.is_none() {
            (1..=state.round).for_each(|round| self.count(round));
        }
        Ok(())
    }

    /// Takes in the last exchange and gives every agent's model.
    pub fn finish(&mut self) -> Vec<Vec<f64>> {
        let at = self.round;
        if let Some(links) = &mut self.links {
            links.set(at, false);
        }
        if let Some(lossy) = &mut self.lossy {
            lossy.set(at);
        }
        let Self { players, graph, mixing, dim, round, rows, exchange, lossy, links, .. } = self;
        if let Some(exchange) = exchange {
            return exchange.finish(players, *round);
        }
        let common = common(players, graph, rows, *dim);
        let links = links.as_ref().map(links::Links::now);
        let table =
            NeighbourViews { graph, mixing, rows, round: *round, common: common.as_ref(), links };
        let finish = |(i, player): (usize, &mut Player)| {
            table.seen(i, lossy.as_ref(), |neighbourhood| player.finish(neighbourhood))
        };
        players.iter_mut().enumerate().map(finish).collect()
    }
}

/// Only agents of a complete graph compute anything alike, and only some algorithms look at it.
fn common(players: &[Player], graph: &Graph, rows: &[f64], dim: usize) -> Option<CommonSummary> {
    let used =
        graph.is_complete() && players.first().is_some_and(|p| p.protocol().capabilities().common);
    used.then(|| CommonSummary::of(&rows.chunks_exact(dim.max(1)).collect::<Vec<_>>()))
}

struct NeighbourViews<'a> {
    graph: &'a Graph,
    mixing: &'a Mixing,
    rows: &'a [f64],
    round: u32,
    common: Option<&'a CommonSummary>,
    /// The links of the round, where they are not the graph's.
    links: Option<&'a links::RoundLinks>,
}

impl<'a> NeighbourViews<'a> {
    /// What an agent sees, without what was lost on its way.
    fn seen<T>(
        &self,
        agent: usize,
        lossy: Option<&LossyLinks>,
        then: impl FnOnce(&NeighbourView<'_>) -> T,
    ) -> T {
        let neighbourhood = self.neighbourhood(agent);
        match lossy {
            None => then(&neighbourhood),
            Some(links) => {
                let seen = links.seen(agent as u32, neighbourhood.neighbours, self.round);
                then(&NeighbourView { neighbours: &seen, ..neighbourhood })
            }
        }
    }

    fn neighbourhood(&self, agent: usize) -> NeighbourView<'a> {
        let (neighbours, weights) = match self.links {
            Some(links) => {
                let weights = Weights { own: links.own(agent), neighbours: links.weights(agent) };
                (links.senders(agent), weights)
            }
            None => {
                let (own, neighbours) = (self.mixing.own(agent), self.mixing.neighbours(agent));
                (self.graph.neighbours(agent), Weights { own, neighbours })
            }
        };
        NeighbourView {
            rows: self.rows,
            me: agent as u32,
            neighbours,
            place: neighbours.partition_point(|&j| (j as usize) < agent),
            weights,
            round: self.round,
            common: self.common,
        }
    }
}
