//! Messages that take time: who has what when, and how old what an agent mixes is.
//!
//! Time is counted in rounds of work: between the end of an exchange and its next release an agent
//! works for 1. A message takes [`Delays::message`], over a slow link [`Delays::factor`] times as
//! long, and up to [`Delays::jitter`] of that more, by chance. When exchanges end is a function of
//! the graph, the delays and the seed, and of nothing that was sent: the clock runs beside the
//! agents and tells each how old its neighbours' vectors are.
//!
//! # Why gradient descent stands it
//! Let x̄ be the fixed point of x_i = Σ_j W_ij x_j − η∇f_i(x_i), where every agent of `dgd` with
//! step η ends without delays. An agent that mixes old vectors of its neighbours, and its own
//! newest, has ‖x_i⁺ − x̄_i‖ ≤ ‖W_ii(x_i − x̄_i) − η(∇f_i(x_i) − ∇f_i(x̄_i))‖ + Σ_{j≠i} W_ij‖x_j' −
//! x̄_j‖. With m-strongly convex, M-smooth f_i and η(M + m) ≤ 2W_ii the first part is at most (W_ii
//! − ηm)‖x_i − x̄_i‖, so that the largest distance of any agent falls by 1 − ηm each time that
//! everybody has released anew from what was within it: every s + 1 rounds at the latest. The point
//! it falls to does not depend on the delays. Noise adds to a message what it adds without delays,
//! and a part of the mixed noise has weights that are not negative and add up to at most one, as
//! before. Algorithms that balance duals or trackers over edges (`extra`, `gradient-tracking`,
//! `admm`) have no such argument: what one end took back and the other had not yet seen is lost for
//! good.

use crate::config_error::ConfigError;
use crate::graph::Graph;
use crate::random::{Purpose, Seed};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How long messages of a simulation take, in times of what an agent works in a round (`[delays]`
/// of an experiment file).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delays {
    /// How long a message takes.
    #[serde(default = "default_message")]
    pub message: f64,
    /// Links that are slower: pairs of agent numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<(u32, u32)>,
    /// How many times as long a message takes over a slow link.
    #[serde(default = "default_factor")]
    pub factor: f64,
    /// Every message takes up to this share longer, drawn from the seed.
    #[serde(default)]
    pub jitter: f64,
}

fn default_message() -> f64 {
    0.1
}

fn default_factor() -> f64 {
    10.0
}

impl Delays {
    /// What is wrong with the numbers, if anything is.
    ///
    /// # Errors
    /// [`ConfigError`] with the key and the rule it breaks.
    pub fn check(&self, graphs: &[std::sync::Arc<Graph>]) -> Result<(), ConfigError> {
        for (key, value) in
            [("message", self.message), ("factor", self.factor), ("jitter", self.jitter)]
        {
            if !(value.is_finite() && value >= 0.0) {
                let message =
                    format!("delays.{key} = {value} must be a number that is not negative");
                return Err(ConfigError::at(format!("delays.{key}"), message));
            }
        }
        let linked = |&(a, b): &(u32, u32)| {
            graphs.iter().any(|g| {
                (a as usize) < g.agents() && g.neighbours(a as usize).binary_search(&b).is_ok()
            })
        };
        match self.slow.iter().find(|pair| !linked(pair)) {
            Some((a, b)) => Err(ConfigError::at(
                "delays.slow",
                format!("delays.slow: there is no link between agents {a} and {b}"),
            )),
            None => Ok(()),
        }
    }

    fn of(&self, a: u32, b: u32) -> f64 {
        let slow = self.slow.contains(&(a, b)) || self.slow.contains(&(b, a));
        if slow { self.message * self.factor } else { self.message }
    }
}

/// The clock of a run with delays.
#[derive(Clone, Debug)]
pub struct Clock {
    delays: Delays,
    seed: Seed,
    kept: usize,
    exchange: u32,
    /// When each agent made its last release.
    released: Vec<f64>,
    /// When releases of the last exchanges arrived, the newest first: by agent and neighbour.
    arrived: Vec<Vec<VecDeque<f64>>>,
    now: f64,
}

impl Clock {
    /// At the start: everybody works on its first release. `staleness` is the oldest age that will
    /// be asked for.
    #[must_use]
    #[doc(hidden)]
    pub fn new(delays: Delays, graph: &Graph, staleness: u32, seed: &Seed) -> Self {
        let agents = graph.agents();
        let kept = staleness as usize + 1;
        Self {
            delays,
            seed: seed.clone(),
            kept,
            exchange: 0,
            released: vec![1.0; agents],
            arrived: (0..agents)
                .map(|i| vec![VecDeque::with_capacity(kept + 1); graph.degree(i)])
                .collect(),
            now: 0.0,
        }
    }

    /// When the last exchange was over for everybody.
    #[must_use]
    #[doc(hidden)]
    pub fn now(&self) -> f64 {
        self.now
    }

    /// Ends the next exchange for every agent, as soon as all it needs is there, and returns how
    /// old each neighbour's vector is, by agent and neighbour. No vector is more than `oldest`
    /// rounds old, and of several neighbours at least half are of this round.
    #[doc(hidden)]
    pub fn exchange(&mut self, graph: &Graph, oldest: u32) -> Vec<Vec<u32>> {
        self.exchange += 1;
        let chance: Vec<Vec<f64>> = (0..graph.agents())
            .map(|j| {
                let mut stream =
                    self.seed.stream(Purpose::Network, j as u64, u64::from(self.exchange));
                graph.neighbours(j).iter().map(|_| stream.random::<f64>()).collect()
            })
            .collect();
        for (i, all) in self.arrived.iter_mut().enumerate() {
            for (arrived, &j) in all.iter_mut().zip(graph.neighbours(i)) {
                let from = j as usize;
                let place = graph.neighbours(from).partition_point(|&k| (k as usize) < i);
                let takes =
                    self.delays.of(i as u32, j) * (1.0 + self.delays.jitter * chance[from][place]);
                let at = self.released[from] + takes;
                // A link keeps the order.
                arrived.push_front(arrived.front().map_or(at, |before| before.max(at)));
                arrived.truncate(self.kept);
            }
        }
        let ages: Vec<Vec<u32>> = self
            .arrived
            .iter()
            .zip(&mut self.released)
            .map(|(all, released)| {
                let over = over(all, *released, oldest as usize);
                *released = over + 1.0;
                self.now = self.now.max(over);
                all.iter().map(|arrived| age(arrived, over)).collect()
            })
            .collect();
        ages
    }
}

/// When an agent has what it needs.
fn over(all: &[VecDeque<f64>], released: f64, oldest: usize) -> f64 {
    let mut fresh: Vec<f64> = all.iter().filter_map(|arrived| arrived.front().copied()).collect();
    fresh.sort_unstable_by(f64::total_cmp);
    let wanted = match oldest {
        0 => fresh.len(),
        _ => fresh.len().div_ceil(2).min(fresh.len().saturating_sub(1)),
    };
    let fresh = wanted.checked_sub(1).map_or(released, |last| fresh[last]);
    all.iter()
        .filter_map(|arrived| arrived.get(oldest))
        .fold(released.max(fresh), |most, at| most.max(*at))
}

fn age(arrived: &VecDeque<f64>, at: f64) -> u32 {
    // Where everybody starts is known to all.
    arrived.iter().position(|&arrived| arrived <= at).unwrap_or(arrived.len()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphSpec;

    fn ring(agents: usize) -> Graph {
        GraphSpec::Ring {}.build(agents, &Seed::from(1)).unwrap()
    }

    fn after(staleness: u32, delays: &Delays) -> (f64, u32) {
        let graph = ring(6);
        let mut clock = Clock::new(delays.clone(), &graph, staleness, &Seed::from(1));
        let mut oldest = 0;
        for _ in 0..200 {
            let ages = clock.exchange(&graph, staleness);
            oldest = ages.iter().flatten().copied().max().unwrap().max(oldest);
        }
        (clock.now(), oldest)
    }

    #[test]
    fn one_slow_link_holds_everybody_up_unless_older_vectors_may_be_mixed() {
        let delays = Delays { message: 1.0, slow: vec![(0, 1)], factor: 10.0, jitter: 0.0 };
        let even = Delays { slow: Vec::new(), ..delays.clone() };
        let times: Vec<f64> = [0, 1, 4, 9].map(|s| after(s, &delays).0).to_vec();
        assert_eq!(after(0, &even), (400.0, 0), "a round of work and one message");
        assert!(times[0] > 2100.0, "{times:?}");
        assert!(times.windows(2).all(|t| t[1] < t[0]), "{times:?}");
        assert!(times[3] < 440.0, "{times:?}");
        let oldest = [1, 4, 9].map(|s| after(s, &delays).1);
        assert!(oldest[0] == 1 && oldest[1] == 4 && oldest[2] <= 9, "{oldest:?}");
    }
}
