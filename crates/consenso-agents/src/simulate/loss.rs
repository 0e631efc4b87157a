//! Messages that are lost on their way: who misses what.

use crate::graph::Graph;
use crate::random::{Purpose, Seed};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How links lose messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a chance from 0 to below 1, or { bad = <chance while a link is bad>, enter = <chance to become bad>, leave = <chance to become good> }"
)]
pub enum MessageLoss {
    /// Every message with this chance, by itself.
    Chance(f64),
    /// In bursts.
    Bursts(Bursts),
}

/// A link that loses messages in bursts (Gilbert, 1960; Elliott, 1963): a Markov chain of two
/// states for every link and direction, which begins in the good one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// The chance that a message is lost while the link is bad.
    pub bad: f64,
    /// The chance that a message is lost while the link is good.
    #[serde(default)]
    pub good: f64,
    /// The chance that a good link is bad in the next round.
    pub enter: f64,
    /// The chance that a bad link is good in the next round.
    pub leave: f64,
}

impl Default for MessageLoss {
    fn default() -> Self {
        Self::Chance(0.0)
    }
}

impl MessageLoss {
    /// Whether nothing is ever lost.
    #[must_use]
    pub fn is_never(&self) -> bool {
        match self {
            Self::Chance(chance) => *chance == 0.0,
            Self::Bursts(Bursts { bad, good, enter, .. }) => {
                *good == 0.0 && (*bad == 0.0 || *enter == 0.0)
            }
        }
    }

    /// Whether all numbers are chances, and no link stays bad for good.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Chance(chance) => (0.0..1.0).contains(chance),
            Self::Bursts(Bursts { bad, good, enter, leave }) => {
                (0.0..1.0).contains(good)
                    && [bad, enter, leave].iter().all(|chance| (0.0..=1.0).contains(*chance))
                    && *leave > 0.0
            }
        }
    }
}

/// Links that lose messages, each by itself. Which ones is a function of the seed, the round and
/// the link, and of nothing that was sent.
///
/// Whoever misses a neighbour's vector takes its own in its place, as a site does that goes on
/// without a neighbour: weights still add up to one, so that a mix stays among the vectors that
/// were mixed.
#[derive(Clone, Debug)]
pub struct LossyLinks {
    loss: MessageLoss,
    seed: Seed,
    graph: Arc<Graph>,
    /// The round that `bad` is of.
    reached: u32,
    /// Which links are bad, one entry per receiver and neighbour; empty unless links are lossy in
    /// bursts.
    bad: Vec<bool>,
}

/// Streams of the states of links are numbered above all agents.
const STATES: u64 = 1 << 42;

impl LossyLinks {
    /// Links of a graph that lose messages like this.
    #[must_use]
    pub fn new(loss: MessageLoss, graph: Arc<Graph>, seed: &Seed) -> Self {
        let states = match loss {
            MessageLoss::Chance(_) => 0,
            MessageLoss::Bursts(_) => 2 * graph.edges(),
        };
        Self { loss, seed: seed.clone(), graph, reached: 0, bad: vec![false; states] }
    }

    /// Goes to round `round`, which [`Self::seen`] is asked about next.
    pub fn set(&mut self, round: u32) {
        let MessageLoss::Bursts(Bursts { enter, leave, .. }) = self.loss else { return };
        if self.reached > round {
            self.reached = 0;
            self.bad.fill(false);
        }
        while self.reached < round {
            self.reached += 1;
            let mut stream = self.seed.stream(Purpose::Network, STATES, u64::from(self.reached));
            for bad in &mut self.bad {
                let u = stream.random::<f64>();
                *bad = if *bad { u >= leave } else { u < enter };
            }
        }
    }

    /// Whose rows an agent sees of round `round`: its neighbours', or its own where a message was
    /// lost. Where everybody starts is known to all.
    #[must_use]
    pub fn seen(&self, agent: u32, neighbours: &[u32], round: u32) -> Vec<u32> {
        let mut stream = self.seed.stream(Purpose::Network, u64::from(agent), u64::from(round));
        let mut arrives = |j: u32| round == 0 || stream.random::<f64>() >= self.chance(agent, j);
        neighbours.iter().map(|&j| if arrives(j) { j } else { agent }).collect()
    }

    /// The chance that what `from` sent does not reach `agent`.
    fn chance(&self, agent: u32, from: u32) -> f64 {
        let Bursts { bad, good, .. } = match self.loss {
            MessageLoss::Chance(chance) => return chance,
            MessageLoss::Bursts(bursts) => bursts,
        };
        let row = self.graph.neighbours(agent as usize);
        let place = row.partition_point(|&j| j < from);
        let state = self.graph.row(agent as usize).start + place;
        if self.bad.get(state).copied().unwrap_or(false) { bad } else { good }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn star(loss: MessageLoss) -> LossyLinks {
        LossyLinks::new(loss, Arc::new(Graph::star(101).unwrap()), &Seed::from(3))
    }

    #[test]
    fn links_lose_their_share_of_messages_and_the_same_ones_again() {
        let links = star(MessageLoss::Chance(0.1));
        let neighbours: Vec<u32> = (1..101).collect();
        let missed =
            |round: u32| links.seen(0, &neighbours, round).iter().filter(|&&j| j == 0).count();
        let all: usize = (1..=1000).map(missed).sum();
        // 10,000 of 100,000 expected, deviation 95: five of them on either side.
        assert!((9_525..10_475).contains(&all), "{all}");
        assert_eq!(missed(0), 0, "where everybody starts is known");
        assert_eq!(links.seen(4, &neighbours, 9), links.seen(4, &neighbours, 9));
        assert_ne!(links.seen(4, &neighbours, 9), links.seen(4, &neighbours, 10));
    }

    /// Bad links are a fifth of all, lose half, and stay bad for four rounds: after a loss the next
    /// message is lost far more often than one in ten.
    #[test]
    fn bursts_lose_as_many_and_in_a_row() {
        let bursts = Bursts { bad: 0.5, good: 0.0, enter: 0.0625, leave: 0.25 };
        let mut links = star(MessageLoss::Bursts(bursts));
        let neighbours: Vec<u32> = (1..101).collect();
        let (mut lost, mut again, mut before) = (0u32, 0u32, vec![false; 100]);
        for round in 1..=1000 {
            links.set(round);
            let now = links.seen(0, &neighbours, round);
            for (before, j) in before.iter_mut().zip(now) {
                lost += u32::from(j == 0);
                again += u32::from(*before && j == 0);
                *before = j == 0;
            }
        }
        // 10,000 expected.
        assert!((9_000..11_000).contains(&lost), "{lost}");
        // After a loss the link was bad; it stays so with ¾ and loses half of it: 0.375.
        let share = f64::from(again) / f64::from(lost);
        assert!((0.34..0.41).contains(&share), "{share}");
    }
}
