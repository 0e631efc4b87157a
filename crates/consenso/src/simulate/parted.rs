//! One graph on several machines: each has some of the agents and the rows that those look at.
//!
//! Agents at the border play first; their rows travel while the others play. Every draw is keyed by agent and round, and every agent
//! sees its neighbours in the order of their numbers, so the transcript is that of [`Lockstep`](super::Lockstep), bit for bit, however the
//! agents are divided.

use crate::agent::{Player, PlayerState, RestoreError, Seat};
use crate::gate::Draft;
use crate::graph::{Graph, Mixing};
use crate::protocol::{Common, Weights};
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
    /// A text when messages cannot be sent.
    fn post(&mut self, out: Vec<(usize, Vec<f64>)>, expected: &[(usize, usize)]) -> Result<(), String>;

    /// Waits for what the last [`Self::post`] began, and returns what was received, in the order it was expected.
    ///
    /// # Errors
    /// A text when messages are lost.
    fn collect(&mut self) -> Result<Vec<Vec<f64>>, String>;

    /// Sends everybody's numbers to rank 0, which gets them rank by rank; `counts` says how many each has. The others get nothing.
    ///
    /// # Errors
    /// As for [`Self::post`].
    fn sent_to_first(&mut self, mine: Vec<f64>, counts: &[usize]) -> Result<Vec<Vec<f64>>, String> {
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
    fn sent_by_first(&mut self, mine: Vec<f64>, count: usize) -> Result<Vec<f64>, String> {
        if self.rank() > 0 {
            self.post(Vec::new(), &[(0, count)])?;
            return self.collect()?.pop().ok_or_else(|| "rank 0 sent nothing".into());
        }
        let everybody = (1..self.ranks()).map(|rank| (rank, mine.clone())).collect();
        self.post(everybody, &[])?;
        self.collect()?;
        Ok(mine)
    }
}

/// A division of a graph's agents among ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Division {
    /// The rank of every agent.
    owner: Vec<u32>,
    ranks: usize,
}

impl Division {
    /// Divides agents into blocks of equal work, contiguous in an order in which neighbours are near each other: the agents' own
    /// order, or the reverse Cuthill–McKee order if that sends fewer rows.
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

    /// Rows that cross from rank to rank in a round, each counted once for every rank that needs it.
    #[must_use]
    pub fn halo(&self, graph: &Graph) -> usize {
        (0..graph.agents()).map(|agent| self.readers(graph, agent).len()).sum()
    }

    /// The other ranks that look at an agent's row, in order.
    fn readers(&self, graph: &Graph, agent: usize) -> Vec<u32> {
        let mut readers: Vec<u32> = graph.neighbours(agent).iter().map(|&j| self.owner[j as usize]).collect();
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

/// Breadth first from an agent of least degree, neighbours by degree, and then backwards: neighbours end up near each other.
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
struct Resident {
    player: Player,
    agent: u32,
    /// Its row, and those of its neighbours in the order of their numbers.
    me: u32,
    neighbours: Vec<u32>,
    place: usize,
    /// A hash over all its releases.
    digest: u64,
}

/// The agents of one rank, moving together with those of the others.
#[derive(Debug)]
pub struct Parted {
    residents: Vec<Resident>,
    /// So many of them are looked at by other ranks; they come first.
    border: usize,
    mixing: Arc<Mixing>,
    dim: usize,
    round: u32,
    /// Rows of all agents that are known here, by number.
    rows: Vec<f64>,
    /// Next rows of the residents.
    next: Vec<f64>,
    /// For every rank that reads here: which residents.
    sends: Vec<(usize, Vec<u32>)>,
    /// For every rank that is read: where its rows go.
    receives: Vec<(usize, Vec<u32>)>,
    /// Whether everybody sees everybody, and the algorithm looks at what all compute alike.
    common: bool,
}

/// What a rank must keep to go on later. It holds what agents keep to themselves, so it is as private as their records.
#[derive(Serialize, Deserialize)]
pub struct PartedState {
    round: u32,
    rows: Vec<f64>,
    digests: Vec<u64>,
    players: Vec<PlayerState>,
}

impl std::fmt::Debug for PartedState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartedState(round={}, agents={})", self.round, self.players.len())
    }
}

impl PartedState {
    /// Rounds exchanged when it was taken.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }
}

impl Parted {
    /// The agents of this rank at their start; `player` makes one by its number, and is asked for those of this rank only.
    #[must_use]
    pub fn new(
        graph: &Graph,
        mixing: Arc<Mixing>,
        division: &Division,
        rank: usize,
        player: impl Fn(usize) -> Player + Sync,
    ) -> Self {
        let mine: Vec<usize> = division.agents(rank).collect();
        let mut known: Vec<u32> = mine.iter().map(|&i| i as u32).collect();
        known.extend(mine.iter().flat_map(|&i| graph.neighbours(i)));
        known.sort_unstable();
        known.dedup();
        let row = |agent: u32| known.partition_point(|&k| k < agent) as u32;
        let players: Vec<Player> = mine.par_iter().map(|&i| player(i)).collect();
        let mut residents: Vec<Resident> = mine
            .iter()
            .zip(players)
            .map(|(&i, player)| Resident {
                player,
                agent: i as u32,
                me: row(i as u32),
                neighbours: graph.neighbours(i).iter().map(|&j| row(j)).collect(),
                place: graph.neighbours(i).partition_point(|&j| (j as usize) < i),
                digest: 0xcbf2_9ce4_8422_2325,
            })
            .collect();
        let read = |agent: u32| division.readers(graph, agent as usize);
        residents.sort_by_key(|r| (read(r.agent).is_empty(), r.agent));
        let border = residents.iter().filter(|r| !read(r.agent).is_empty()).count();
        let mut sends: Vec<(usize, Vec<u32>)> = (0..division.ranks).map(|r| (r, Vec::new())).collect();
        for (place, resident) in residents[..border].iter().enumerate() {
            read(resident.agent).iter().for_each(|&rank| sends[rank as usize].1.push(place as u32));
        }
        let mut receives: Vec<(usize, Vec<u32>)> = (0..division.ranks).map(|r| (r, Vec::new())).collect();
        for (row, &agent) in known.iter().enumerate() {
            let owner = division.owner[agent as usize] as usize;
            if owner != rank {
                receives[owner].1.push(row as u32);
            }
        }
        sends.retain(|s| !s.1.is_empty());
        receives.retain(|r| !r.1.is_empty());
        let first = residents.first().map(|r| &r.player);
        let dim = first.map_or(0, Player::width);
        let common = graph.is_complete() && first.is_some_and(|p| p.protocol().uses_common());
        // Everybody starts at the same public point.
        let start = first.map(Player::start).unwrap_or_default();
        let rows = known.iter().flat_map(|_| start.iter().copied()).collect();
        let next = vec![0.0; residents.len() * dim];
        Self { residents, border, mixing, dim, round: 0, rows, next, sends, receives, common }
    }

    /// Rounds exchanged so far.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Length of a model.
    #[must_use]
    pub fn model_dim(&self) -> usize {
        self.residents.first().map_or(0, |r| r.player.local().dim())
    }

    /// The agents of this rank by number, and their players.
    pub fn players(&self) -> impl Iterator<Item = (usize, &Player)> {
        self.residents.iter().map(|r| (r.agent as usize, &r.player))
    }

    /// Bytes that this rank sends in a round.
    #[must_use]
    pub fn bytes_sent(&self) -> usize {
        self.sends.iter().map(|s| s.1.len() * self.dim * size_of::<f64>()).sum()
    }

    /// One round: the border plays, its rows travel while the others play.
    ///
    /// # Errors
    /// A text when messages are lost; the simulation cannot go on then.
    pub fn advance(&mut self, ranks: &mut dyn Ranks) -> Result<(), String> {
        let common = self.common();
        self.play(0..self.border, common.as_ref());
        let out = self.sends.iter().map(|(rank, places)| {
            let rows = places.iter().flat_map(|&p| &self.next[p as usize * self.dim..][..self.dim]);
            (*rank, rows.copied().collect())
        });
        let expected: Vec<(usize, usize)> =
            self.receives.iter().map(|(rank, rows)| (*rank, rows.len() * self.dim)).collect();
        ranks.post(out.collect(), &expected)?;
        self.play(self.border..self.residents.len(), common.as_ref());
        let received = ranks.collect()?;
        let Self { residents, rows, next, dim, receives, .. } = self;
        for (resident, row) in residents.iter().zip(next.chunks_exact(*dim)) {
            rows[resident.me as usize * *dim..][..*dim].copy_from_slice(row);
        }
        for ((_, places), numbers) in receives.iter().zip(received) {
            for (&place, row) in places.iter().zip(numbers.chunks_exact(*dim)) {
                rows[place as usize * *dim..][..*dim].copy_from_slice(row);
            }
        }
        self.round += 1;
        Ok(())
    }

    fn common(&self) -> Option<Common> {
        // In a complete graph every rank knows every row, in order.
        self.common.then(|| Common::of(&self.rows.chunks_exact(self.dim).collect::<Vec<_>>()))
    }

    fn play(&mut self, which: std::ops::Range<usize>, common: Option<&Common>) {
        let Self { residents, mixing, dim, round, rows, next, .. } = self;
        let (residents, next) =
            (&mut residents[which.clone()], &mut next[which.start * *dim..which.end * *dim]);
        let each = |draft: &mut Draft, (resident, out): (&mut Resident, &mut [f64])| {
            let Resident { player, agent, me, neighbours, place, digest } = resident;
            let seat = seat(rows, mixing, (*agent, *me, neighbours, *place), *round, common);
            player.play(&seat, draft, out);
            for x in out.iter() {
                *digest = (*digest ^ x.to_bits()).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
            }
        };
        residents.par_iter_mut().zip(next.par_chunks_exact_mut(*dim)).for_each_init(Draft::default, each);
    }

    /// The models that the agents of this rank would use if the run ended now, in order.
    #[must_use]
    pub fn current_models(&self) -> Vec<(usize, Vec<f64>)> {
        let model = |r: &Resident| {
            let place = (r.agent, r.me, &r.neighbours[..], r.place);
            let seat = seat(&self.rows, &self.mixing, place, self.round, None);
            let mut model = vec![0.0; r.player.local().dim()];
            r.player.current_model(&seat, &mut model);
            (r.agent as usize, model)
        };
        let mut models: Vec<(usize, Vec<f64>)> = self.residents.par_iter().map(model).collect();
        models.sort_by_key(|m| m.0);
        models
    }

    /// Takes in the last exchange and gives the model of every agent of this rank, in order.
    pub fn finish(&mut self) -> Vec<(usize, Vec<f64>)> {
        let common = self.common();
        let Self { residents, mixing, round, rows, .. } = self;
        let model = |r: &mut Resident| {
            let seat = seat(rows, mixing, (r.agent, r.me, &r.neighbours, r.place), *round, common.as_ref());
            (r.agent as usize, r.player.finish(&seat))
        };
        let mut models: Vec<(usize, Vec<f64>)> = residents.par_iter_mut().map(model).collect();
        models.sort_by_key(|m| m.0);
        models
    }

    /// For every agent of this rank, in order, a hash over all that it has released: equal transcripts have equal hashes.
    #[must_use]
    pub fn digests(&self) -> Vec<(usize, u64)> {
        let mut all: Vec<(usize, u64)> =
            self.residents.iter().map(|r| (r.agent as usize, r.digest)).collect();
        all.sort_unstable();
        all
    }

    /// All that changes from round to round.
    #[must_use]
    pub fn state(&self) -> PartedState {
        PartedState {
            round: self.round,
            rows: self.rows.clone(),
            digests: self.residents.iter().map(|r| r.digest).collect(),
            players: self.residents.iter().map(|r| r.player.state()).collect(),
        }
    }

    /// Goes on from a state of the same rank of the same division.
    ///
    /// # Errors
    /// [`RestoreError`] if it is of another one.
    pub fn resume(&mut self, state: &PartedState) -> Result<(), RestoreError> {
        if state.rows.len() != self.rows.len() || state.players.len() != self.residents.len() {
            return Err(RestoreError::Shape { what: "the agents of a rank" });
        }
        for ((resident, saved), digest) in self.residents.iter_mut().zip(&state.players).zip(&state.digests) {
            resident.player.resume(saved)?;
            resident.digest = *digest;
        }
        self.rows.copy_from_slice(&state.rows);
        self.round = state.round;
        Ok(())
    }
}

fn seat<'a>(
    rows: &'a [f64],
    mixing: &'a Mixing,
    (agent, me, neighbours, place): (u32, u32, &'a [u32], usize),
    round: u32,
    common: Option<&'a Common>,
) -> Seat<'a> {
    let agent = agent as usize;
    let weights = Weights { own: mixing.own(agent), neighbours: mixing.neighbours(agent) };
    Seat { rows, me, neighbours, place, weights, round, common }
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

    fn post(&mut self, out: Vec<(usize, Vec<f64>)>, expected: &[(usize, usize)]) -> Result<(), String> {
        for (rank, numbers) in out {
            self.out[rank].send(numbers).map_err(|e| e.to_string())?;
        }
        self.expected = expected.to_vec();
        Ok(())
    }

    fn collect(&mut self) -> Result<Vec<Vec<f64>>, String> {
        let one = |&(rank, count): &(usize, usize)| {
            let numbers = self.inboxes[rank].recv().map_err(|_| format!("rank {rank} is gone"))?;
            (numbers.len() == count).then_some(numbers).ok_or(format!("rank {rank} sent another length"))
        };
        self.expected.iter().map(one).collect()
    }
}
