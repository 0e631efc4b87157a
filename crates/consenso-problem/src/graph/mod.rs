//! Who talks to whom: connected graphs, their mixing weights and their spectra.
//!
//! A [`Graph`] is always connected, simple (no loops, no double edges) and has at least two agents
//! (but for [`Graph::alone`]), because every constructor checks it: a protocol never has to ask.
//! Neighbours are stored as one compressed sparse row block, so a million agents cost a few bytes
//! an edge and a row is one slice. Links that lead one way stand beside the rows, see [`Directed`].
//!
//! [`GraphSpec`] is what an experiment file says; [`mixing`] turns a graph into doubly stochastic
//! weights; [`spectrum`] has the eigenvalues that step-size rules need.

pub mod correlated;
mod directed;
mod edge_list;
mod error;
pub mod mixing;
mod random;
mod spec;
pub mod spectrum;
mod topology;
mod tree;

pub use directed::{Arcs, Directed};
pub use edge_list::EdgeProblem;
pub use error::GraphError;
pub use mixing::Mixing;
pub use spec::GraphSpec;
pub use spectrum::{Eigenvalue, LaplacianSpectrum};
#[doc(hidden)]
pub use tree::Tree;

use std::ops::Range;
use std::sync::Arc;

/// The most edges a graph may have: 2^28, which is 2 GiB of neighbours and 4 GiB of weights. A
/// complete graph of 10^5 agents is far beyond it, and asking for one is nearly always an accident.
pub const MAX_EDGES: u64 = 1 << 28;

/// The most row visits [`Graph::diameter`] pays for before it declines.
const DIAMETER_WORK: u64 = 1 << 30;

/// An undirected edge, smaller agent first.
pub(crate) type Edge = (u32, u32);

/// A connected, simple, undirected graph of at least two agents, in compressed sparse rows.
///
/// ```
/// use consenso_problem::graph::Graph;
///
/// let ring = Graph::ring(5)?;
/// assert_eq!(ring.neighbours(0), &[1, 4]);
/// assert_eq!((ring.agents(), ring.edges(), ring.diameter()), (5, 5, Some(2)));
/// # Ok::<(), consenso_problem::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// Row `i` is `neighbours[offsets[i]..offsets[i + 1]]`. Shared with the weights made from this
    /// graph.
    offsets: Arc<[usize]>,
    /// Ascending within a row.
    neighbours: Vec<u32>,
    /// The directions of links, where some lead one way only.
    directed: Option<Arc<Directed>>,
}

impl Graph {
    /// A graph from its edges, in any order and direction.
    ///
    /// # Errors
    /// Fewer than two agents, too many edges, an agent out of range, a self loop, an edge given
    /// twice, or a graph that is not connected.
    pub fn from_edges(agents: usize, edges: &[(u32, u32)]) -> Result<Self, GraphError> {
        check_size(agents, edges.len() as u64)?;
        let mut sorted = Vec::with_capacity(edges.len());
        for &(a, b) in edges {
            let (low, high) = (a.min(b), a.max(b));
            if high as usize >= agents {
                return Err(GraphError::OutOfRange { agent: u64::from(high), agents });
            }
            if low == high {
                return Err(GraphError::SelfLoop { agent: low });
            }
            sorted.push((low, high));
        }
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(GraphError::DuplicateEdge { a: pair[0].0, b: pair[0].1 });
        }
        Self::from_sorted(agents, &sorted).connected("the graph")
    }

    /// The rows of a sorted list of distinct edges. Because edges come in ascending order, agent
    /// `i` first meets its smaller neighbours in order and then its larger ones: rows come out
    /// sorted with no further work. The result may be disconnected; callers pass it through
    /// [`Graph::connected`] or know better.
    fn from_sorted(agents: usize, edges: &[Edge]) -> Self {
        debug_assert!(edges.windows(2).all(|pair| pair[0] < pair[1]));
        let mut offsets = vec![0_usize; agents + 1];
        for &(a, b) in edges {
            offsets[a as usize + 1] += 1;
            offsets[b as usize + 1] += 1;
        }
        for i in 0..agents {
            offsets[i + 1] += offsets[i];
        }
        let mut next = offsets.clone();
        let mut neighbours = vec![0; 2 * edges.len()];
        for &(a, b) in edges {
            for (from, to) in [(a, b), (b, a)] {
                neighbours[next[from as usize]] = to;
                next[from as usize] += 1;
            }
        }
        Self { offsets: offsets.into(), neighbours, directed: None }
    }

    /// This graph if it is connected, and otherwise an error that names a part agent 0 cannot
    /// reach.
    fn connected(self, name: &str) -> Result<Self, GraphError> {
        let (component, components) = self.components();
        if components == 1 {
            return Ok(self);
        }
        let members = component.iter().enumerate().filter(|&(_, &c)| c == 1);
        let size = members.clone().count();
        let members = members.take(error::SHOWN).map(|(agent, _)| agent as u32).collect();
        Err(GraphError::Disconnected { name: name.to_owned(), components, members, size })
    }

    /// The component of each agent, numbered from 0 in the order of their smallest member, and how
    /// many there are.
    fn components(&self) -> (Vec<u32>, usize) {
        let mut component = vec![u32::MAX; self.agents()];
        let mut found = 0;
        let mut stack = Vec::new();
        for start in 0..self.agents() {
            if component[start] != u32::MAX {
                continue;
            }
            component[start] = found;
            stack.push(start as u32);
            while let Some(agent) = stack.pop() {
                for &other in self.neighbours(agent as usize) {
                    if component[other as usize] == u32::MAX {
                        component[other as usize] = found;
                        stack.push(other);
                    }
                }
            }
            found += 1;
        }
        (component, found as usize)
    }

    fn is_connected(&self) -> bool {
        self.components().1 == 1
    }

    /// How many agents there are, N.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.offsets.len() - 1
    }

    /// How many undirected edges there are, |E|.
    #[must_use]
    pub fn edges(&self) -> usize {
        self.neighbours.len() / 2
    }

    /// The neighbours N_i of agent `i`, ascending, without `i` itself.
    ///
    /// # Panics
    /// If `i` is not an agent of this graph, as indexing a slice would.
    #[must_use]
    pub fn neighbours(&self, i: usize) -> &[u32] {
        &self.neighbours[self.row(i)]
    }

    /// Where the row of agent `i` lies in any array stored per neighbour entry, such as one value a
    /// directed link.
    #[must_use]
    pub fn row(&self, i: usize) -> Range<usize> {
        self.offsets[i]..self.offsets[i + 1]
    }

    /// The degree n_i = |N_i| of agent `i`.
    #[must_use]
    pub fn degree(&self, i: usize) -> usize {
        self.row(i).len()
    }

    /// The largest degree.
    #[must_use]
    pub fn max_degree(&self) -> usize {
        (0..self.agents()).map(|i| self.degree(i)).max().unwrap_or(0)
    }

    /// Whether `a` and `b` are neighbours.
    #[must_use]
    pub fn has_edge(&self, a: usize, b: usize) -> bool {
        u32::try_from(b).is_ok_and(|b| self.neighbours(a).binary_search(&b).is_ok())
    }

    /// Every edge once, smaller agent first, in ascending order.
    pub fn iter_edges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.agents()).flat_map(move |i| {
            let row = self.neighbours(i);
            let first = row.partition_point(|&j| (j as usize) < i);
            row[first..].iter().map(move |&j| (i as u32, j))
        })
    }

    /// Whether every agent talks to every other.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.directed.is_none() && self.edges() as u64 == pairs(self.agents())
    }

    /// The largest number of hops between two agents, by a breadth-first search from each:
    /// O(N·|E|). `None` when that is more than about 10^9 steps.
    #[must_use]
    pub fn diameter(&self) -> Option<usize> {
        let work = (self.agents() as u64).saturating_mul(self.neighbours.len() as u64);
        if work > DIAMETER_WORK {
            return None;
        }
        let mut hops = vec![0; self.agents()];
        (0..self.agents()).map(|start| self.eccentricity(start, &mut hops)).max()
    }

    /// Whether all others have a way to each other when these agents are gone; false if nobody is
    /// left.
    #[must_use]
    #[doc(hidden)]
    pub fn is_connected_without(&self, gone: &std::collections::BTreeSet<u32>) -> bool {
        let mut seen: Vec<bool> =
            (0..self.agents() as u32).map(|agent| gone.contains(&agent)).collect();
        let Some(first) = seen.iter().position(|gone| !gone) else { return false };
        let mut stack = vec![first];
        seen[first] = true;
        while let Some(agent) = stack.pop() {
            for &other in self.neighbours(agent) {
                if !std::mem::replace(&mut seen[other as usize], true) {
                    stack.push(other as usize);
                }
            }
        }
        seen.into_iter().all(|seen| seen)
    }

    /// Hops between the two agents farthest apart when these agents are gone; `None` if the others
    /// do not all reach each other.
    #[doc(hidden)]
    pub fn diameter_without(&self, gone: &std::collections::BTreeSet<u32>) -> Option<u32> {
        if !self.is_connected_without(gone) {
            return None;
        }
        let mut farthest = 0;
        for start in (0..self.agents() as u32).filter(|agent| !gone.contains(agent)) {
            let mut hops = vec![u32::MAX; self.agents()];
            hops[start as usize] = 0;
            let mut queue = std::collections::VecDeque::from([start]);
            while let Some(agent) = queue.pop_front() {
                farthest = farthest.max(hops[agent as usize]);
                for &other in self.neighbours(agent as usize) {
                    if hops[other as usize] == u32::MAX && !gone.contains(&other) {
                        hops[other as usize] = hops[agent as usize] + 1;
                        queue.push_back(other);
                    }
                }
            }
        }
        Some(farthest)
    }

    /// The number of hops from `start` to the agent farthest from it.
    fn eccentricity(&self, start: usize, hops: &mut [u32]) -> usize {
        hops.fill(u32::MAX);
        hops[start] = 0;
        let mut queue = std::collections::VecDeque::from([start as u32]);
        let mut farthest = 0;
        while let Some(agent) = queue.pop_front() {
            farthest = hops[agent as usize];
            for &other in self.neighbours(agent as usize) {
                if hops[other as usize] == u32::MAX {
                    hops[other as usize] = farthest + 1;
                    queue.push_back(other);
                }
            }
        }
        farthest as usize
    }
}

/// N(N−1)/2, the number of edges of a complete graph.
fn pairs(agents: usize) -> u64 {
    let n = agents as u64;
    if n == 0 { 0 } else { n.saturating_mul(n - 1) / 2 }
}

/// Refuses what is too small to be a graph or too large to be meant.
fn check_size(agents: usize, edges: u64) -> Result<(), GraphError> {
    if agents < 2 {
        return Err(GraphError::TooFewAgents { agents });
    }
    if edges > MAX_EDGES || agents as u64 > MAX_EDGES {
        return Err(GraphError::TooLarge { agents, edges, limit: MAX_EDGES });
    }
    Ok(())
}
