//! What an experiment file says about its graph.

use super::topology::{at_least, check_grid, check_hypercube};
use super::{Graph, GraphError, check_size, pairs, random};
use crate::random::Seed;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The `[graph]` table of an experiment file.
///
/// ```
/// use consenso_problem::graph::GraphSpec;
///
/// let spec: GraphSpec = toml::from_str("kind = 'random'\nedges = 20")?;
/// let graph = spec.build(10, &7.into())?;
/// assert_eq!((graph.agents(), graph.edges()), (10, 20));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// Kinds without parameters are written `Ring {}`: serde then refuses a parameter that does not
// belong to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum GraphSpec {
    /// A random connected graph, see [`Graph::random`].
    Random {
        /// How many edges it has, N − 1 to N(N − 1)/2.
        edges: usize,
    },
    /// Everyone talks to everyone.
    Complete {},
    /// A cycle.
    Ring {},
    /// A line.
    Path {},
    /// Everyone talks to agent 0.
    Star {},
    /// A rectangle.
    Grid {
        /// How many rows; the squarest grid if left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rows: Option<usize>,
    },
    /// A Watts–Strogatz small world, see [`Graph::small_world`].
    SmallWorld {
        /// Neighbours before rewiring; even.
        degree: usize,
        /// The probability that an edge is rewired.
        rewire: f64,
    },
    /// A random regular graph, see [`Graph::regular`].
    Regular {
        /// Everyone's number of neighbours.
        degree: usize,
    },
    /// A hypercube: agents whose numbers differ in one binary digit talk to each other.
    Hypercube {},
    /// Every agent sends to the next one, and hears the one before.
    DirectedRing {},
    /// Agent i sends to i + 1, i + 2, i + 4, …, modulo N; links lead one way.
    Exponential {},
    /// The exponential graph with one link per agent and round, in turn.
    OnePeerExponential {},
    /// An edge list. The library opens no files: whoever can reads it and calls
    /// [`Graph::from_edge_list`] or [`Graph::from_link_list`].
    File {
        /// Where it is.
        path: PathBuf,
        /// Whether a line `a b` is a link from a to b alone, not both ways.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        directed: bool,
    },
}

impl GraphSpec {
    /// Whether [`build`](Self::build) would accept these parameters, without building anything. A
    /// file passes: only its contents can be wrong.
    ///
    /// # Errors
    /// As the constructor of the kind.
    pub fn check(&self, agents: usize) -> Result<(), GraphError> {
        match *self {
            Self::Random { edges } => random::check_random(agents, edges),
            Self::Complete {} if agents == 1 => Ok(()),
            Self::Complete {} => check_size(agents, pairs(agents)),
            Self::Ring {} => {
                check_size(agents, agents as u64).and_then(|()| at_least("ring", agents, 3))
            }
            Self::Path {} | Self::Star {} | Self::File { .. } => check_size(agents, 0),
            Self::Grid { rows } => check_grid(agents, rows).map(|_| ()),
            Self::Hypercube {} => check_hypercube(agents),
            Self::DirectedRing {} => {
                check_size(agents, 0).and_then(|()| at_least("directed-ring", agents, 3))
            }
            Self::Exponential {} | Self::OnePeerExponential {} => {
                let links = agents as u64 * u64::from(usize::BITS - agents.leading_zeros());
                check_size(agents, links)
            }
            Self::SmallWorld { degree, rewire } => {
                random::check_small_world(agents, degree, rewire)
            }
            Self::Regular { degree } => random::check_regular(agents, degree),
        }
    }

    /// The graph. Random kinds draw from the seed's [`Graph`](crate::random::Purpose::Graph)
    /// streams only.
    ///
    /// # Errors
    /// As the constructor of the kind; [`GraphError::FileNotRead`] for a file.
    pub fn build(&self, agents: usize, seed: &Seed) -> Result<Graph, GraphError> {
        match *self {
            Self::Random { edges } => Graph::random(agents, edges, seed),
            Self::Complete {} if agents == 1 => Ok(Graph::alone()),
            Self::Complete {} => Graph::complete(agents),
            Self::Ring {} => Graph::ring(agents),
            Self::Path {} => Graph::path(agents),
            Self::Star {} => Graph::star(agents),
            Self::Grid { rows } => Graph::grid(agents, rows),
            Self::SmallWorld { degree, rewire } => Graph::small_world(agents, degree, rewire, seed),
            Self::Regular { degree } => Graph::regular(agents, degree, seed),
            Self::Hypercube {} => Graph::hypercube(agents),
            Self::DirectedRing {} => Graph::directed_ring(agents),
            Self::Exponential {} => Graph::exponential(agents),
            Self::OnePeerExponential {} => Graph::one_peer_exponential(agents),
            Self::File { ref path, .. } => Err(GraphError::FileNotRead { path: path.clone() }),
        }
    }
}
