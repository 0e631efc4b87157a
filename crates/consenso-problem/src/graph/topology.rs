//! Graphs with a fixed shape: complete, ring, path, star, grid, hypercube. Random ones are in
//! [`super::random`].

use super::{Edge, Graph, GraphError, check_size, pairs};

impl Graph {
    /// One agent and nobody to talk to: the centralised case, for algorithms that have one.
    #[must_use]
    pub fn alone() -> Self {
        Self { offsets: [0, 0].into(), neighbours: Vec::new(), directed: None }
    }

    /// Every agent talks to every other.
    ///
    /// # Errors
    /// Fewer than two agents, or more than [`MAX_EDGES`](super::MAX_EDGES) edges: 23,170 agents are
    /// the most.
    pub fn complete(agents: usize) -> Result<Self, GraphError> {
        check_size(agents, pairs(agents))?;
        // Straight into rows: a list of edges would double the memory of the largest graph there
        // is.
        let n = agents as u32;
        let neighbours = (0..n).flat_map(|i| (0..n).filter(move |&j| j != i)).collect();
        let offsets = (0..=agents).map(|i| i * (agents - 1)).collect();
        Ok(Self { offsets, neighbours, directed: None })
    }

    /// Agent i talks to i − 1 and i + 1, modulo N.
    ///
    /// # Errors
    /// Fewer than three agents.
    pub fn ring(agents: usize) -> Result<Self, GraphError> {
        check_size(agents, agents as u64)?;
        at_least("ring", agents, 3)?;
        let last = agents as u32 - 1;
        Ok(Self::from_shape(agents, (0..last).map(|i| (i, i + 1)).chain([(0, last)])))
    }

    /// Agent i talks to i − 1 and i + 1; the ends have one neighbour.
    ///
    /// # Errors
    /// Fewer than two agents.
    pub fn path(agents: usize) -> Result<Self, GraphError> {
        check_size(agents, agents as u64)?;
        Ok(Self::from_shape(agents, (1..agents as u32).map(|i| (i - 1, i))))
    }

    /// Every agent talks to agent 0 only.
    ///
    /// # Errors
    /// Fewer than two agents.
    pub fn star(agents: usize) -> Result<Self, GraphError> {
        check_size(agents, agents as u64)?;
        Ok(Self::from_shape(agents, (1..agents as u32).map(|i| (0, i))))
    }

    /// A rectangular grid filled row by row; an agent talks to those left, right, above and below.
    /// Without `rows`, the squarest grid that the agents fill.
    ///
    /// # Errors
    /// Fewer than two agents, or rows that do not divide them; without `rows`, a number of agents
    /// above 3 that is prime, which would silently make a path.
    pub fn grid(agents: usize, rows: Option<usize>) -> Result<Self, GraphError> {
        let rows = check_grid(agents, rows)? as u32;
        let columns = agents as u32 / rows;
        let right = (0..agents as u32).filter(|i| i % columns + 1 < columns).map(|i| (i, i + 1));
        let below = (0..agents as u32 - columns).map(|i| (i, i + columns));
        Ok(Self::from_shape(agents, right.chain(below)))
    }

    /// Agents whose numbers differ in one binary digit talk to each other.
    ///
    /// # Errors
    /// A number of agents that is no power of two, or fewer than two.
    pub fn hypercube(agents: usize) -> Result<Self, GraphError> {
        check_hypercube(agents)?;
        let digits = agents.trailing_zeros();
        let edges = (0..agents as u32).flat_map(|i| {
            (0..digits).filter(move |k| i & (1 << k) == 0).map(move |k| (i, i | (1 << k)))
        });
        Ok(Self::from_shape(agents, edges))
    }

    /// The graph of distinct edges whose shape makes it connected.
    pub(super) fn from_shape(agents: usize, edges: impl Iterator<Item = Edge>) -> Self {
        let mut edges: Vec<Edge> = edges.collect();
        edges.sort_unstable();
        let graph = Self::from_sorted(agents, &edges);
        debug_assert!(graph.is_connected());
        graph
    }
}

/// The number of rows of a grid, given or found.
pub(super) fn check_grid(agents: usize, rows: Option<usize>) -> Result<usize, GraphError> {
    check_size(agents, (agents as u64).saturating_mul(2))?;
    match rows {
        Some(rows) if rows == 0 || !agents.is_multiple_of(rows) => {
            Err(GraphError::GridRows { agents, rows })
        }
        Some(rows) => Ok(rows),
        None => match (1..=agents.isqrt()).rev().find(|&rows| agents.is_multiple_of(rows)) {
            Some(rows) if rows > 1 || agents <= 3 => Ok(rows),
            _ => Err(GraphError::GridIsPath { agents }),
        },
    }
}

/// Refuses a number of agents that is no power of two.
pub(super) fn check_hypercube(agents: usize) -> Result<(), GraphError> {
    check_size(agents, (agents as u64).saturating_mul(u64::from(agents.trailing_zeros())) / 2)?;
    if agents.is_power_of_two() { Ok(()) } else { Err(GraphError::NotPowerOfTwo { agents }) }
}

/// Refuses fewer agents than a shape needs.
pub(super) fn at_least(kind: &'static str, agents: usize, least: usize) -> Result<(), GraphError> {
    if agents < least { Err(GraphError::TooFewAgentsFor { kind, agents, least }) } else { Ok(()) }
}
