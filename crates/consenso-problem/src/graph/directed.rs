//! Links that lead one way, and links that are there in some rounds only.
//!
//! A [`Graph`] with links of one direction has them beside its rows: the rows are of the undirected
//! graph in which every link leads both ways, and whoever asks for the direction asks
//! [`Graph::directed`].

use super::{Edge, Graph, GraphError, check_size};
use std::sync::Arc;

/// The links of one round: who hears whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arcs {
    /// Agent `i` hears `senders[offsets[i]..offsets[i + 1]]`, ascending.
    offsets: Vec<usize>,
    senders: Vec<u32>,
    /// How many agents hear each.
    listeners: Vec<u32>,
}

impl Arcs {
    /// Makes rows of links (sender, receiver) that are all different.
    #[must_use]
    pub fn new(agents: usize, links: &[(u32, u32)]) -> Self {
        let mut sorted: Vec<(u32, u32)> = links.iter().map(|&(from, to)| (to, from)).collect();
        sorted.sort_unstable();
        let (mut offsets, mut listeners) = (vec![0; agents + 1], vec![0; agents]);
        for &(to, from) in &sorted {
            offsets[to as usize + 1] += 1;
            listeners[from as usize] += 1;
        }
        for i in 0..agents {
            offsets[i + 1] += offsets[i];
        }
        let senders = sorted.into_iter().map(|(_, from)| from).collect();
        Self { offsets, senders, listeners }
    }

    /// The agents that agent `i` hears, ascending.
    ///
    /// # Panics
    /// If `i` is not an agent, as indexing a slice would.
    #[must_use]
    pub fn senders(&self, i: usize) -> &[u32] {
        &self.senders[self.offsets[i]..self.offsets[i + 1]]
    }

    /// How many agents hear agent `i`.
    ///
    /// # Panics
    /// If `i` is not an agent, as indexing a slice would.
    #[must_use]
    pub fn listeners(&self, i: usize) -> usize {
        self.listeners[i] as usize
    }

    /// The share that agent `j` keeps and sends to everybody who hears it: `1 / (1 + listeners)`,
    /// so that what it hands out adds up to one (columns of the weights sum to 1). It needs to know
    /// nothing but how many hear it.
    #[must_use]
    pub fn share(&self, j: usize) -> f64 {
        1.0 / (1 + self.listeners(j)) as f64
    }

    /// Whether the shares that every agent hears add up to one with its own, too: then mixing is an
    /// average, and no weight has to be carried along.
    fn is_balanced(&self) -> bool {
        let heard = |i: usize| self.senders(i).iter().map(|&j| self.share(j as usize)).sum::<f64>();
        (0..self.listeners.len()).all(|i| (heard(i) + self.share(i) - 1.0).abs() < 1e-12)
    }
}

/// Directed links, round by round: sets that take turns, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directed {
    turns: Vec<Arcs>,
    balanced: bool,
}

impl Directed {
    /// The links over which the messages of round `round` go.
    #[must_use]
    pub fn at(&self, round: u32) -> &Arcs {
        &self.turns[round as usize % self.turns.len()]
    }

    /// After how many rounds the links repeat; 1 for links that are always there.
    #[must_use]
    pub fn period(&self) -> usize {
        self.turns.len()
    }

    /// Whether everybody hears shares that add up to one in every round, as on a ring.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        self.balanced
    }
}

impl Graph {
    /// A graph of links (sender, receiver) in sets that take turns; `name` is what messages call
    /// it. Over all turns every agent must reach every other.
    ///
    /// ```
    /// use consenso_problem::graph::Graph;
    ///
    /// let ring = Graph::from_links(3, &[vec![(0, 1), (1, 2), (2, 0)]], "a ring")?;
    /// let links = ring.directed().expect("its links lead one way");
    /// assert_eq!(links.at(5).senders(1), &[0]);
    /// assert_eq!(links.at(5).share(0), 0.5);
    /// # Ok::<(), consenso_problem::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// Fewer than two agents, too many links, an agent out of range, a self loop, a link given
    /// twice in a set, or an agent that does not reach everybody.
    pub fn from_links(
        agents: usize,
        turns: &[Vec<(u32, u32)>],
        name: &str,
    ) -> Result<Self, GraphError> {
        check_size(agents, turns.iter().map(|links| links.len() as u64).sum())?;
        let mut edges: Vec<Edge> = Vec::new();
        for links in turns {
            let mut sorted = links.clone();
            sorted.sort_unstable();
            for &(from, to) in &sorted {
                let high = from.max(to);
                if high as usize >= agents {
                    return Err(GraphError::OutOfRange { agent: u64::from(high), agents });
                }
                if from == to {
                    return Err(GraphError::SelfLoop { agent: from });
                }
                edges.push((from.min(to), high));
            }
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                return Err(GraphError::DuplicateEdge { a: pair[0].0, b: pair[0].1 });
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let mut graph = Self::from_sorted(agents, &edges).connected(name)?;
        let all: Vec<(u32, u32)> = turns.iter().flatten().copied().collect();
        let back: Vec<(u32, u32)> = all.iter().map(|&(from, to)| (to, from)).collect();
        for (links, reached) in [(&back, true), (&all, false)] {
            if let Some(agent) = first_unheard(&Arcs::new(agents, links)) {
                return Err(GraphError::OneWay { name: name.to_owned(), agent, reached });
            }
        }
        let turns: Vec<Arcs> = turns.iter().map(|links| Arcs::new(agents, links)).collect();
        let balanced = turns.iter().all(Arcs::is_balanced);
        graph.directed = Some(Arc::new(Directed { turns, balanced }));
        Ok(graph)
    }

    /// The directions of its links; `None` where all lead both ways in every round.
    #[must_use]
    pub fn directed(&self) -> Option<&Directed> {
        self.directed.as_deref()
    }

    /// Agent i sends to i + 1, modulo N.
    ///
    /// # Errors
    /// Fewer than three agents.
    pub fn directed_ring(agents: usize) -> Result<Self, GraphError> {
        super::topology::at_least("directed-ring", agents, 3)?;
        Self::from_links(agents, &[hops(agents, 1)], "the directed ring")
    }

    /// Agent i sends to i + 1, i + 2, i + 4, …, modulo N (Ying, Yuan, Chen, Hu, Pan and Yin, 2021).
    ///
    /// # Errors
    /// Fewer than two agents.
    pub fn exponential(agents: usize) -> Result<Self, GraphError> {
        check_size(agents, 0)?;
        let links = strides(agents).flat_map(|stride| hops(agents, stride)).collect();
        Self::from_links(agents, &[links], "the exponential graph")
    }

    /// Agent i sends to one other in a round: to i + 1, then i + 2, then i + 4, …, modulo N, and
    /// over again. With a power of two agents one turn over all of them is an exact average.
    ///
    /// # Errors
    /// Fewer than two agents.
    pub fn one_peer_exponential(agents: usize) -> Result<Self, GraphError> {
        check_size(agents, 0)?;
        let turns: Vec<_> = strides(agents).map(|stride| hops(agents, stride)).collect();
        Self::from_links(agents, &turns, "the one-peer exponential graph")
    }
}

/// 1, 2, 4, … below the number of agents.
fn strides(agents: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1), |stride| Some(2 * stride)).take_while(move |s| *s < agents)
}

/// Everybody's link to the agent so many places on.
fn hops(agents: usize, stride: usize) -> Vec<(u32, u32)> {
    (0..agents).map(|i| (i as u32, ((i + stride) % agents) as u32)).collect()
}

/// The first agent that agent 0 does not reach by asking whom it hears, and whom they hear.
fn first_unheard(arcs: &Arcs) -> Option<u32> {
    let mut seen = vec![false; arcs.listeners.len()];
    let mut stack = vec![0];
    seen[0] = true;
    while let Some(agent) = stack.pop() {
        for &sender in arcs.senders(agent) {
            if !std::mem::replace(&mut seen[sender as usize], true) {
                stack.push(sender as usize);
            }
        }
    }
    seen.iter().position(|seen| !seen).map(|agent| agent as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_must_reach_every_other() {
        let into = Graph::from_links(3, &[vec![(0, 1), (1, 0), (2, 0)]], "it").unwrap_err();
        assert!(matches!(into, GraphError::OneWay { agent: 2, reached: true, .. }), "{into}");
        let out = Graph::from_links(3, &[vec![(0, 1), (1, 0), (0, 2)]], "it").unwrap_err();
        assert!(matches!(out, GraphError::OneWay { agent: 2, reached: false, .. }), "{out}");
        assert!(out.to_string().contains("agent 2 reaches"), "{out}");
        // Over both turns everybody does.
        let turns = [vec![(0, 1), (1, 2)], vec![(2, 0)]];
        let graph = Graph::from_links(3, &turns, "it").unwrap();
        assert!(!graph.directed().unwrap().is_balanced());
        assert_eq!(graph.directed().unwrap().period(), 2);
    }

    /// Columns sum to one everywhere; rows only where as many are heard as hear.
    #[test]
    fn shares_add_up() {
        let links = [(0, 1), (1, 2), (2, 0), (0, 2)];
        let graph = Graph::from_links(3, &[links.to_vec()], "it").unwrap();
        let arcs = graph.directed().unwrap().at(0);
        let mut handed_out = [0, 1, 2].map(|i| arcs.share(i));
        for i in 0..3 {
            for &j in arcs.senders(i) {
                handed_out[j as usize] += arcs.share(j as usize);
            }
        }
        assert!(handed_out.iter().all(|s| (s - 1.0).abs() < 1e-15), "{handed_out:?}");
        assert!(!graph.directed().unwrap().is_balanced());
        for balanced in [Graph::directed_ring(7), Graph::exponential(7)] {
            assert!(balanced.unwrap().directed().unwrap().is_balanced());
        }
    }

    /// One turn over the one-peer graph of eight agents multiplies up to the average, exactly.
    #[test]
    fn one_peer_averages_in_logarithmic_time() {
        let graph = Graph::one_peer_exponential(8).unwrap();
        let links = graph.directed().unwrap();
        assert_eq!(links.period(), 3);
        let mut x: Vec<f64> = (0..8).map(f64::from).collect();
        for round in 0..3 {
            let arcs = links.at(round);
            let mix = |i: usize| 0.5 * x[i] + 0.5 * x[arcs.senders(i)[0] as usize];
            x = (0..8).map(mix).collect();
        }
        assert_eq!(x, vec![3.5; 8]);
    }
}
