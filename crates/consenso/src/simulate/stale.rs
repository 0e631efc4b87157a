//! Vectors of different ages in a lockstep simulation: the last rounds' blocks, and which row of which of them every agent sees.

use crate::agent::oldest;
use crate::graph::Graph;
use crate::random::{Purpose, Seed};
use rand::RngExt;

/// The last blocks of released rows.
#[derive(Debug)]
pub(super) struct History {
    most: u32,
    seed: Seed,
    agents: usize,
    /// `most + 1` blocks, that of round r at place r modulo their number.
    rows: Vec<f64>,
    /// The round of every neighbour's vector that an agent has seen.
    seen: Vec<Vec<u32>>,
    /// The rows of these vectors.
    places: Vec<Vec<u32>>,
    round: u32,
}

impl History {
    pub(super) fn new(most: u32, seed: Seed, graph: &Graph, block: usize) -> Self {
        let seen: Vec<Vec<u32>> = (0..graph.agents()).map(|i| vec![0; graph.degree(i)]).collect();
        let rows = vec![0.0; block * (most as usize + 1)];
        Self { most, seed, agents: graph.agents(), rows, places: seen.clone(), seen, round: 0 }
    }

    /// Takes in the block of a round, and draws who sees what of it.
    pub(super) fn look(&mut self, graph: &Graph, round: u32, rounds: u32, block: &[f64]) -> &Self {
        let blocks = self.most + 1;
        let start = (round % blocks) as usize * block.len();
        self.rows[start..start + block.len()].copy_from_slice(block);
        self.round = round;
        let agents = self.agents as u32;
        for (agent, (seen, places)) in self.seen.iter_mut().zip(&mut self.places).enumerate() {
            let mut chance = self.seed.stream(Purpose::Network, agent as u64, u64::from(round));
            for ((seen, place), &j) in seen.iter_mut().zip(places).zip(graph.neighbours(agent)) {
                let arrived = round.saturating_sub(chance.random_range(0..=self.most));
                *seen = arrived.max(*seen).max(oldest(round, self.most, rounds));
                *place = (*seen % blocks) * agents + j;
            }
        }
        self
    }

    /// The rows, which of them is the agent's own, and which are its neighbours'.
    pub(super) fn of(&self, agent: usize) -> (&[f64], u32, &[u32]) {
        let me = (self.round % (self.most + 1)) * self.agents as u32 + agent as u32;
        (&self.rows, me, &self.places[agent])
    }
}
