//! One graph on several machines: each has some of the agents and the rows that those look at.
//!
//! Agents at the border play first; their rows travel while the others play. Every draw is keyed by
//! agent and round, and every agent sees its neighbours in the order of their numbers, so the
//! transcript is that of [`Lockstep`](super::Lockstep), bit for bit, however the agents are
//! divided.

use super::error::{RankError, SimulationError};
use crate::agent::{NeighbourView, Player, PlayerState, RestoreError};
use crate::gate::DraftScratch;
use crate::graph::{Graph, Mixing};
use crate::problem::Workspace;
use crate::protocol::{CommonSummary, Weights};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Messages between machines: a rank is one of several equal processes, each with a number from 0.
///
/// There are two: MPI's (the crate `consenso-mpi`) and threads with channels, for tests.
pub trait Ranks {
    /// The number of this process.
    fn rank(&self) -> usize;

    /// How many processes there are.
    fn ranks(&self) -> usize;

    /// Begins to send these numbers to ranks, and to receive so many from others, without waiting.
    ///
    /// # Errors
    /// [`RankError`] when messages cannot be sent.
    fn post(
        &mut self,
        out: Vec<(usize, Vec<f64>)>,
        expected: &[(usize, usize)],
    ) -> Result<(), RankError>;

    /// Waits for what the last [`Self::post`] began, and returns what was received, in the order it
    /// was expected.
    ///
    /// # Errors
    /// [`RankError`] when messages are lost.
    fn collect(&mut self) -> Result<Vec<Vec<f64>>, RankError>;

    /// Sends everybody's numbers to rank 0, which gets them rank by rank; `counts` says how many
    /// each has. The others get nothing.
    ///
    /// # Errors
    /// As for [`Self::post`].
    fn sent_to_first(
        &mut self,
        mine: Vec<f64>,
        counts: &[usize],
    ) -> Result<Vec<Vec<f64>>, RankError> {
        if self.rank() > 0 {
            self.post(vec![(0, mine)], &[])?;
            self.collect()?;
            return Ok(Vec::new());
        }
        let expected: Vec<(usize, usize)> = counts.iter().copied().enumerate().skip(1).collect();
        self.post(Vec::new(), &expected)?;
        let mut all = vec![mine];
        all.extend(self.collect()?);
        Ok(all)
    }

    /// Sends numbers of rank 0 to everybody; the others say how many they expect.
    ///
    /// # Errors
    /// As for [`Self::post`].
    fn sent_by_first(&mut self, mine: Vec<f64>, count: usize) -> Result<Vec<f64>, RankError> {
        if self.rank() > 0 {
            self.post(Vec::new(), &[(0, count)])?;
            return self.collect()?.pop().ok_or(RankError::Nothing(0));
        }
        let everybody = (1..self.ranks()).map(|rank| (rank, mine.clone())).collect();
        self.post(everybody, &[])?;
        self.collect()?;
        Ok(mine)
    }
}

/// A division of a graph's agents among ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankBlocks {
    /// The rank of every agent.
    owner: Vec<u32>,
    ranks: usize,
}

impl RankBlocks {
    /// Divides agents into blocks of equal work, contiguous in an order in which neighbours are
    /// near each other: the agents' own order, or the reverse Cuthill–McKee order if that sends
    /// fewer rows.
    #[must_use]
    pub fn new(graph: &Graph, ranks: usize) -> Self {
        let own = Self::blocks(&(0..graph.agents() as u32).collect::<Vec<_>>(), ranks);
        if ranks < 2 || graph.is_complete() {
            return own;
        }
        let other = Self::blocks(&cuthill_mckee(graph), ranks);
        if other.halo(graph) < own.halo(graph) { other } else { own }
    }

    fn blocks(order: &[u32], ranks: usize) -> Self {
        let mut owner = vec![0; order.len()];
        for (place, &agent) in order.iter().enumerate() {
            owner[agent as usize] = (place * ranks / order.len()) as u32;
        }
        Self { owner, ranks }
    }

    /// Rows that cross from rank to rank in a round, each counted once for every rank that needs
    /// it.
    #[must_use]
    pub fn halo(&self, graph: &Graph) -> usize {
        (0..graph.agents()).map(|agent| self.readers(graph, agent).len()).sum()
    }

    /// The other ranks that look at an agent's row, in order.
    fn readers(&self, graph: &Graph, agent: usize) -> Vec<u32> {
        let mut readers: Vec<u32> =
            graph.neighbours(agent).iter().map(|&j| self.owner[j as usize]).collect();
        readers.retain(|&rank| rank != self.owner[agent]);
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    /// The agents of a rank, in order.
    pub fn agents(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        self.owner
            .iter()
            .enumerate()
            .filter(move |(_, owner)| **owner as usize == rank)
            .map(|(agent, _)| agent)
    }

    /// How many agents each rank has.
    #[must_use]
    pub fn counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.ranks];
        self.owner.iter().for_each(|&rank| counts[rank as usize] += 1);
        counts
    }
}

/// Breadth first from an agent of least degree, neighbours by degree, and then backwards:
/// neighbours end up near each other.
fn cuthill_mckee(graph: &Graph) -> Vec<u32> {
    let n = graph.agents();
    let mut by_degree: Vec<u32> = (0..n as u32).collect();
    by_degree.sort_by_key(|&i| (graph.degree(i as usize), i));
    let (mut order, mut seen) = (Vec::with_capacity(n), vec![false; n]);
    for &root in &by_degree {
        if std::mem::replace(&mut seen[root as usize], true) {
            continue;
        }
        let mut at = order.len();
        order.push(root);
        while at < order.len() {
            let mut next: Vec<u32> = graph.neighbours(order[at] as usize).to_vec();
            next.retain(|&j| !std::mem::replace(&mut seen[j as usize], true));
            next.sort_by_key(|&j| (graph.degree(j as usize), j));
            order.extend(next);
            at += 1;
        }
    }
    order.reverse();
    order
}

/// One agent here, and where it looks.
#[derive(Debug)]
struct RankAgent {
    agent: u32,
    /// Its row.
    me: u32,
    /// Where the rows of its neighbours are in [`RankPartition::looks`], in the order of their numbers.
    looks: std::ops::Range<usize>,
    place: u32,
    /// A hash over all its releases.
    digest: u64,
}

/// Makes an agent at its start, by its number.
type MakePlayer<'a> = Box<dyn Fn(usize) -> Result<Player, SimulationError> + Sync + 'a>;

/// The players of a rank.
enum RankPlayers<'a> {
    /// In memory, with their records.
    InMemory(Vec<Player>),
    /// Made anew for every round and gone after it; what they must not forget stays, `None` before
    /// the first round.
    Streamed(MakePlayer<'a>, Vec<Option<PlayerState>>),
}

/// The agents of one rank, moving together with those of the others.
pub struct RankPartition<'a> {
    rank_agents: Vec<RankAgent>,
    players: RankPlayers<'a>,
    /// Rows that this rank's agents look at, one agent's after the other's.
    looks: Vec<u32>,
    /// So many of them are looked at by other ranks; they come first.
    border: usize,
    mixing: Arc<Mixing>,
    dim: usize,
    model_dim: usize,
    round: u32,
    /// Rows of all agents that are known here, by number.
    rows: Vec<f64>,
    /// Next rows of this rank's agents.
    next: Vec<f64>,
    /// For every rank that reads here: which of this rank's agents.
    sends: Vec<(usize, Vec<u32>)>,
    /// For every rank that is read: where its rows go.
    receives: Vec<(usize, Vec<u32>)>,
    /// Whether everybody sees everybody, and the algorithm looks at what all compute alike.
    common: bool,
}

impl std::fmt::Debug for RankPartition<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RankPartition(round={}, agents={})", self.round, self.rank_agents.len())
    }
}

/// What a rank must keep to go on later. It holds what agents keep to themselves, so it is as
/// private as their records.
#[derive(Serialize, Deserialize)]
pub struct RankState {
    round: u32,
    #[serde(with = "crate::agent::numbers")]
    rows: Vec<f64>,
    digests: Vec<u64>,
    players: Vec<Option<PlayerState>>,
}

impl std::fmt::Debug for RankState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RankState(round={}, agents={})", self.round, self.players.len())
    }
}

impl RankState {
    /// Rounds exchanged when it was taken.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }
}

impl<'a> RankPartition<'a> {
    /// The agents of this rank at their start; `player` makes one by its number, and is asked for
    /// those of this rank only.
    ///
    /// # Errors
    /// What `player` answers.
    pub fn new(
        graph: &Graph,
        mixing: Arc<Mixing>,
        division: &RankBlocks,
        rank: usize,
        player: impl Fn(usize) -> Result<Player, SimulationError> + Sync + 'a,
    ) -> Result<Self, SimulationError> {
        Self::with(graph, mixing, division, rank, false, Box::new(player))
    }

    /// Keeps no agent in memory: in every round each is made by `player`, set to where it was, plays
    /// and is gone. What stays is its last release and what it must not
    /// forget. The transcript is the same, bit for bit.
    ///
    /// # Errors
    /// What `player` answers.
    pub fn streamed(
        graph: &Graph,
        mixing: Arc<Mixing>,
        division: &RankBlocks,
        rank: usize,
        player: impl Fn(usize) -> Result<Player, SimulationError> + Sync + 'a,
    ) -> Result<Self, SimulationError> {
        Self::with(graph, mixing, division, rank, true, Box::new(player))
    }

    fn with(
        graph: &Graph,
        mixing: Arc<Mixing>,
        division: &RankBlocks,
        rank: usize,
        streamed: bool,
        player: MakePlayer<'a>,
    ) -> Result<Self, SimulationError> {
        // With one rank everybody is here and nobody is looked at from elsewhere.
        let alone = division.ranks == 1;
        let read =
            |agent: u32| if alone { Vec::new() } else { division.readers(graph, agent as usize) };
        let mut mine: Vec<u32> = division.agents(rank).map(|agent| agent as u32).collect();
        let mut known = mine.clone();
        if !alone {
            known.extend(mine.iter().flat_map(|&i| graph.neighbours(i as usize)));
            known.sort_unstable();
            known.dedup();
            mine.sort_by_key(|&agent| (read(agent).is_empty(), agent));
        }
        let border = mine.iter().take_while(|&&agent| !read(agent).is_empty()).count();
        let row =
            |agent: u32| if alone { agent } else { known.partition_point(|&k| k < agent) as u32 };
        let mut looks = Vec::with_capacity(mine.iter().map(|&i| graph.degree(i as usize)).sum());
        let rank_agent = |&agent: &u32| {
            let neighbours = graph.neighbours(agent as usize);
            let from = looks.len();
            looks.extend(neighbours.iter().map(|&j| row(j)));
            let place = neighbours.partition_point(|&j| j < agent) as u32;
            let looks = from..looks.len();
            RankAgent { agent, me: row(agent), looks, place, digest: 0xcbf2_9ce4_8422_2325 }
        };
        let rank_agents: Vec<RankAgent> = mine.iter().map(rank_agent).collect();
        let mut sends: Vec<(usize, Vec<u32>)> =
            (0..division.ranks).map(|r| (r, Vec::new())).collect();
        for (place, rank_agent) in rank_agents[..border].iter().enumerate() {
            read(rank_agent.agent)
                .iter()
                .for_each(|&rank| sends[rank as usize].1.push(place as u32));
        }
        let mut receives: Vec<(usize, Vec<u32>)> =
            (0..division.ranks).map(|r| (r, Vec::new())).collect();
        for (row, &agent) in known.iter().enumerate() {
            let owner = division.owner[agent as usize] as usize;
            if owner != rank {
                receives[owner].1.push(row as u32);
            }
        }
        sends.retain(|s| !s.1.is_empty());
        receives.retain(|r| !r.1.is_empty());
        // Everybody starts at the same public point.
        let first = mine.first().map(|&agent| player(agent as usize)).transpose()?;
        let (dim, model_dim) = first.as_ref().map_or((0, 0), |p| (p.width(), p.local().dim()));
        let common = graph.is_complete()
            && first.as_ref().is_some_and(|p| p.protocol().capabilities().common);
        let start = first.as_ref().map(Player::start).unwrap_or_default();
        let rows = start.repeat(known.len());
        let next = vec![0.0; rank_agents.len() * dim];
        let players = match streamed {
            true => RankPlayers::Streamed(player, rank_agents.iter().map(|_| None).collect()),
            false => RankPlayers::InMemory(
                mine.par_iter().map(|&i| player(i as usize)).collect::<Result<_, _>>()?,
            ),
        };
        Ok(Self {
            rank_agents,
            players,
            looks,
            border,
            mixing,
            dim,
            model_dim,
            round: 0,
            rows,
            next,
            sends,
            receives,
            common,
        })
    }

    /// Rounds exchanged so far.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Length of a model.
    #[must_use]
    pub fn model_dim(&self) -> usize {
        self.model_dim
    }

    /// Bytes that this rank sends in a round.
    #[must_use]
    pub fn bytes_sent(&self) -> usize {
        self.sends.iter().map(|s| s.1.len() * self.dim * size_of::<f64>()).sum()
    }

    /// One round: the border plays, its rows travel while the others play.
    ///
    /// # Errors
    /// [`SimulationError`] when messages are lost; the simulation cannot go on then.
    pub fn advance(&mut self, ranks: &mut dyn Ranks) -> Result<(), SimulationError> {
        let common = self.common();
        self.play(0..self.border, common.as_ref())?;
        let out = self.sends.iter().map(|(rank, places)| {
            let rows = places.iter().flat_map(|&p| &self.next[p as usize * self.dim..][..self.dim]);
            (*rank, rows.copied().collect())
        });
        let expected: Vec<(usize, usize)> =
            self.receives.iter().map(|(rank, rows)| (*rank, rows.len() * self.dim)).collect();
        ranks.post(out.collect(), &expected)?;
        self.play(self.border..self.rank_agents.len(), common.as_ref())?;
        let received = ranks.collect()?;
        let Self { rank_agents, rows, next, dim, receives, .. } = self;
        if rank_agents.len() * *dim == rows.len() && self.border == 0 {
            std::mem::swap(rows, next);
        } else {
            for (rank_agent, row) in rank_agents.iter().zip(next.chunks_exact(*dim)) {
                rows[rank_agent.me as usize * *dim..][..*dim].copy_from_slice(row);
            }
        }
        for ((_, places), numbers) in receives.iter().zip(received) {
            for (&place, row) in places.iter().zip(numbers.chunks_exact(*dim)) {
                rows[place as usize * *dim..][..*dim].copy_from_slice(row);
            }
        }
        self.round += 1;
        Ok(())
    }

    fn common(&self) -> Option<CommonSummary> {
        // In a complete graph every rank knows every row, in order.
        self.common
            .then(|| CommonSummary::of(&self.rows.chunks_exact(self.dim).collect::<Vec<_>>()))
    }

    fn play(
        &mut self,
        which: std::ops::Range<usize>,
        common: Option<&CommonSummary>,
    ) -> Result<(), SimulationError> {
        let Self { rank_agents, players, looks, mixing, dim, round, rows, next, .. } = self;
        let table = NeighbourViews { rows, looks, mixing, round: *round, common };
        let next = &mut next[which.start * *dim..which.end * *dim];
        let each = rank_agents[which.clone()].par_iter_mut().zip(next.par_chunks_exact_mut(*dim));
        let play = |draft: &mut DraftScratch,
                    rank_agent: &mut RankAgent,
                    player: &mut Player,
                    out: &mut [f64]| {
            player.play(&table.neighbourhood(rank_agent), draft, out);
            for x in out.iter() {
                rank_agent.digest = (rank_agent.digest ^ x.to_bits())
                    .wrapping_mul(0x0000_0100_0000_01b3)
                    .rotate_left(23);
            }
        };
        match players {
            RankPlayers::InMemory(players) => {
                each.zip(&mut players[which]).for_each_init(
                    DraftScratch::default,
                    |draft, ((rank_agent, out), player)| {
                        play(draft, rank_agent, player, out);
                    },
                );
                Ok(())
            }
            RankPlayers::Streamed(make, states) => {
                let each = each.zip(&mut states[which]);
                let played =
                    each.map_init(DraftScratch::default, |draft, ((rank_agent, out), state)| {
                        let mut player = revived(make, rank_agent, state.as_ref())?;
                        play(draft, rank_agent, &mut player, out);
                        *state = Some(player.state());
                        Ok(())
                    });
                played.collect()
            }
        }
    }

    /// Something of every agent of this rank, `width` numbers each, in the order of their numbers.
    /// Streamed players are made for it and gone.
    fn of_each(
        &self,
        width: usize,
        of: impl Fn(&RankAgent, &Player, &mut Workspace, &mut [f64]) + Sync,
    ) -> Result<Vec<f64>, SimulationError> {
        let mut all = vec![0.0; self.rank_agents.len() * width];
        let each = self.rank_agents.par_iter().zip(all.par_chunks_exact_mut(width.max(1)));
        match &self.players {
            RankPlayers::InMemory(players) => {
                each.zip(players).for_each_init(
                    Workspace::default,
                    |work, ((rank_agent, out), player)| {
                        of(rank_agent, player, work, out);
                    },
                );
            }
            RankPlayers::Streamed(make, states) => {
                let made = each.zip(states).map_init(
                    Workspace::default,
                    |work, ((rank_agent, out), state)| {
                        of(rank_agent, &revived(make, rank_agent, state.as_ref())?, work, out);
                        Ok(())
                    },
                );
                made.collect::<Result<(), SimulationError>>()?;
            }
        }
        Ok(self.sorted(all, width))
    }

    /// From the order in which this rank keeps its agents to that of their numbers.
    fn sorted(&self, all: Vec<f64>, width: usize) -> Vec<f64> {
        if self.border == 0 || self.border == self.rank_agents.len() {
            return all;
        }
        let mut order: Vec<usize> = (0..self.rank_agents.len()).collect();
        order.sort_by_key(|&place| self.rank_agents[place].agent);
        order.iter().flat_map(|&place| &all[place * width..][..width]).copied().collect()
    }

    /// The models that the agents of this rank would use if the run ended now, one after the other
    /// in the order of their numbers.
    ///
    /// # Errors
    /// [`SimulationError`] when an agent cannot be made again.
    pub fn current_models(&self) -> Result<Vec<f64>, SimulationError> {
        let table = self.table(None);
        self.of_each(self.model_dim, |rank_agent, player, _, model| {
            player.current_model(&table.neighbourhood(rank_agent), model);
        })
    }

    /// f_i at one point for every agent of this rank, in the order of their numbers.
    ///
    /// # Errors
    /// As for [`Self::current_models`].
    pub fn values(&self, at: &[f64]) -> Result<Vec<f64>, SimulationError> {
        self.of_each(1, |_, player, work, value| value[0] = player.local().value(at, work))
    }

    fn table<'t>(&'t self, common: Option<&'t CommonSummary>) -> NeighbourViews<'t> {
        NeighbourViews {
            rows: &self.rows,
            looks: &self.looks,
            mixing: &self.mixing,
            round: self.round,
            common,
        }
    }

    /// Takes in the last exchange and gives the model of every agent of this rank, one after the
    /// other in the order of their numbers. The simulation is over then.
    ///
    /// # Errors
    /// As for [`Self::current_models`].
    pub fn finish(&mut self) -> Result<Vec<f64>, SimulationError> {
        let common = self.common();
        let mut all = vec![0.0; self.rank_agents.len() * self.model_dim];
        let Self { rank_agents, players, looks, mixing, round, rows, model_dim, .. } = self;
        let table = NeighbourViews { rows, looks, mixing, round: *round, common: common.as_ref() };
        let each = rank_agents.par_iter().zip(all.par_chunks_exact_mut((*model_dim).max(1)));
        match players {
            RankPlayers::InMemory(players) => {
                each.zip(players).for_each(|((rank_agent, model), player)| {
                    model.copy_from_slice(&player.finish(&table.neighbourhood(rank_agent)));
                });
            }
            RankPlayers::Streamed(make, states) => {
                let finished = each.zip(states).map(|((rank_agent, model), state)| {
                    let mut player = revived(make, rank_agent, state.as_ref())?;
                    model.copy_from_slice(&player.finish(&table.neighbourhood(rank_agent)));
                    Ok(())
                });
                finished.collect::<Result<(), SimulationError>>()?;
            }
        }
        Ok(self.sorted(all, self.model_dim))
    }

    /// For every agent of this rank, in the order of their numbers, a hash over all that it has
    /// released: equal transcripts have equal hashes.
    #[must_use]
    pub fn digests(&self) -> Vec<u64> {
        let mut all: Vec<(u32, u64)> =
            self.rank_agents.iter().map(|r| (r.agent, r.digest)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, digest)| digest).collect()
    }

    /// All that changes from round to round.
    #[must_use]
    pub fn state(&self) -> RankState {
        RankState {
            round: self.round,
            rows: self.rows.clone(),
            digests: self.rank_agents.iter().map(|r| r.digest).collect(),
            players: match &self.players {
                RankPlayers::InMemory(players) => players.iter().map(|p| Some(p.state())).collect(),
                RankPlayers::Streamed(_, states) => states.clone(),
            },
        }
    }

    /// Goes on from a state of the same rank of the same division.
    ///
    /// # Errors
    /// [`RestoreError`] if it is of another one.
    pub fn resume(&mut self, state: RankState) -> Result<(), RestoreError> {
        let agents = self.rank_agents.len();
        if state.rows.len() != self.rows.len()
            || state.players.len() != agents
            || state.digests.len() != agents
        {
            return Err(RestoreError::Shape { what: "the agents of a rank" });
        }
        match &mut self.players {
            RankPlayers::InMemory(players) => {
                for (player, saved) in players.iter_mut().zip(&state.players) {
                    saved.as_ref().map_or(Ok(()), |saved| player.resume(saved))?;
                }
            }
            RankPlayers::Streamed(_, states) => *states = state.players,
        }
        self.rank_agents.iter_mut().zip(&state.digests).for_each(|(r, digest)| r.digest = *digest);
        self.rows = state.rows;
        self.round = state.round;
        Ok(())
    }
}

/// A streamed player where it was.
fn revived(
    make: &MakePlayer<'_>,
    rank_agent: &RankAgent,
    state: Option<&PlayerState>,
) -> Result<Player, SimulationError> {
    let mut player = make(rank_agent.agent as usize)?;
    state.map_or(Ok(()), |state| player.resume(state))?;
    Ok(player)
}

/// What the agents of a rank look at in a round.
struct NeighbourViews<'a> {
    rows: &'a [f64],
    looks: &'a [u32],
    mixing: &'a Mixing,
    round: u32,
    common: Option<&'a CommonSummary>,
}

impl<'a> NeighbourViews<'a> {
    fn neighbourhood(&self, rank_agent: &RankAgent) -> NeighbourView<'a> {
        let agent = rank_agent.agent as usize;
        NeighbourView {
            rows: self.rows,
            me: rank_agent.me,
            neighbours: &self.looks[rank_agent.looks.clone()],
            place: rank_agent.place as usize,
            weights: Weights {
                own: self.mixing.own(agent),
                neighbours: self.mixing.neighbours(agent),
            },
            round: self.round,
            common: self.common,
        }
    }
}

/// A single process: there is nobody to send anything to.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleRank;

impl Ranks for SingleRank {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn post(
        &mut self,
        out: Vec<(usize, Vec<f64>)>,
        expected: &[(usize, usize)],
    ) -> Result<(), RankError> {
        match out.is_empty() && expected.is_empty() {
            true => Ok(()),
            false => Err(RankError::Alone),
        }
    }

    fn collect(&mut self) -> Result<Vec<Vec<f64>>, RankError> {
        Ok(Vec::new())
    }
}

/// Ranks as threads of one process, for tests: each end sends through channels.
#[derive(Debug)]
pub struct ThreadRanks {
    rank: usize,
    out: Vec<std::sync::mpsc::Sender<Vec<f64>>>,
    inboxes: Vec<std::sync::mpsc::Receiver<Vec<f64>>>,
    expected: Vec<(usize, usize)>,
}

impl ThreadRanks {
    /// The ends of so many ranks, to be handed to a thread each.
    #[must_use]
    pub fn new(ranks: usize) -> Vec<Self> {
        let mut ends: Vec<Self> = (0..ranks)
            .map(|rank| Self { rank, out: Vec::new(), inboxes: Vec::new(), expected: Vec::new() })
            .collect();
        for from in 0..ranks {
            for to in 0..ranks {
                let (sender, receiver) = std::sync::mpsc::channel();
                ends[from].out.push(sender);
                ends[to].inboxes.push(receiver);
            }
        }
        ends
    }
}

impl Ranks for ThreadRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.out.len()
    }

    fn post(
        &mut self,
        out: Vec<(usize, Vec<f64>)>,
        expected: &[(usize, usize)],
    ) -> Result<(), RankError> {
        for (rank, numbers) in out {
            self.out[rank].send(numbers).map_err(|_| RankError::Gone(rank))?;
        }
        self.expected = expected.to_vec();
        Ok(())
    }

    fn collect(&mut self) -> Result<Vec<Vec<f64>>, RankError> {
        let one = |&(rank, count): &(usize, usize)| {
            let numbers = self.inboxes[rank].recv().map_err(|_| RankError::Gone(rank))?;
            (numbers.len() == count).then_some(numbers).ok_or(RankError::Length(rank))
        };
        self.expected.iter().map(one).collect()
    }
}
