//! Mixing weights: the symmetric, doubly stochastic matrix W of gossip, DGD, EXTRA and PDOP
//! (docs/paper.md section 3).
//!
//! `x_i ← w_ii x_i + Σ_{j∈N_i} w_ij x_j` keeps the mean of all agents (columns sum to 1) and brings
//! every agent to it, at the rate of the second largest eigenvalue in absolute value,
//! [`Mixing::second_eigenvalue`].

use super::Graph;
use std::sync::Arc;

/// The weights of one graph: one number per neighbour entry, in the order of [`Graph::neighbours`],
/// and each agent's own.
///
/// ```
/// use consenso_problem::graph::{Graph, Mixing};
///
/// let path = Graph::path(3)?;
/// let weights = Mixing::metropolis(&path);
/// assert_eq!(weights.neighbours(0), &[1.0 / 3.0]);
/// assert!((weights.own(0) - 2.0 / 3.0).abs() < 1e-15);
/// # Ok::<(), consenso_problem::graph::GraphError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mixing {
    offsets: Arc<[usize]>,
    neighbours: Vec<f64>,
    own: Vec<f64>,
}

impl Mixing {
    /// Metropolis weights: `w_ij = 1 / (1 + max(n_i, n_j))`. An agent needs to know only its
    /// neighbours' degrees.
    #[must_use]
    pub fn metropolis(graph: &Graph) -> Self {
        Self::new(graph, |i, j| 1.0 / (1 + graph.degree(i).max(graph.degree(j))) as f64)
    }

    /// Maximum-degree weights: `w_ij = 1 / (1 + max_l n_l)`, the same everywhere. Agents must agree
    /// on the largest degree.
    #[must_use]
    pub fn max_degree(graph: &Graph) -> Self {
        let weight = 1.0 / (1 + graph.max_degree()) as f64;
        Self::new(graph, |_, _| weight)
    }

    /// Weights from a function that is symmetric in its agents and at most `1 / (1 + n_i)`, which
    /// keeps `w_ii` positive and every eigenvalue but the first inside (−1, 1).
    fn new(graph: &Graph, weight: impl Fn(usize, usize) -> f64) -> Self {
        let mut neighbours = Vec::with_capacity(2 * graph.edges());
        let mut own = Vec::with_capacity(graph.agents());
        for i in 0..graph.agents() {
            let row = graph.neighbours(i).iter().map(|&j| weight(i, j as usize));
            let start = neighbours.len();
            neighbours.extend(row);
            own.push(1.0 - neighbours[start..].iter().sum::<f64>());
        }
        Self { offsets: Arc::clone(&graph.offsets), neighbours, own }
    }

    /// How many agents there are.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.own.len()
    }

    /// The weights agent `i` gives its neighbours, in the order of [`Graph::neighbours`].
    #[must_use]
    pub fn neighbours(&self, i: usize) -> &[f64] {
        &self.neighbours[self.offsets[i]..self.offsets[i + 1]]
    }

    /// The weight agent `i` gives itself.
    #[must_use]
    pub fn own(&self, i: usize) -> f64 {
        self.own[i]
    }
}
