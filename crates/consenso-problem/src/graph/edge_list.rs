//! Graphs from edge lists: one edge a line.

use super::{Edge, Graph, GraphError, check_size};
use std::collections::HashMap;
use std::io::BufRead;

/// The longest line accepted, in bytes: a bound, so that a file without line ends cannot exhaust
/// memory.
const MAX_LINE: usize = 4096;

/// What is wrong with one line of an edge list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EdgeProblem {
    /// Not two whole numbers.
    #[error("\"{text}\" is not an edge: write two agent numbers, as in \"0 1\" or \"0,1\"")]
    Malformed {
        /// The line, shortened.
        text: String,
    },
    /// The line is longer than any edge.
    #[error("the line is longer than {limit} bytes")]
    TooLong {
        /// The longest line accepted.
        limit: usize,
    },
    /// An agent that does not exist.
    #[error("there is no agent {agent}: {agents} agents are numbered 0 to {}", .agents.saturating_sub(1))]
    OutOfRange {
        /// The number found.
        agent: u64,
        /// How many agents there are.
        agents: usize,
    },
    /// An agent as its own neighbour.
    #[error("agent {agent} has an edge to itself")]
    SelfLoop {
        /// The agent.
        agent: u32,
    },
    /// An edge that was given before, in either direction.
    #[error("the edge {a} {b} was given already on line {first}")]
    Duplicate {
        /// The agent as written first.
        a: u32,
        /// The agent as written second.
        b: u32,
        /// The line that gave it first.
        first: usize,
    },
    /// More edges than a graph may have.
    #[error("there are more than {limit} edges")]
    TooMany {
        /// The most edges a graph may have.
        limit: u64,
    },
}

impl Graph {
    /// A graph from an edge list: one edge a line as `a b` or `a,b`, agents numbered from 0; `#`
    /// starts a comment, empty lines are skipped. `name` is what messages call the source.
    ///
    /// # Errors
    /// A line that is not an edge, an agent not below `agents`, a self loop or a repeated edge,
    /// each with its line number; a graph that is not connected, with the first few agents that
    /// cannot reach agent 0; a failing reader.
    pub fn from_edge_list(
        reader: impl BufRead,
        name: &str,
        agents: usize,
    ) -> Result<Self, GraphError> {
        let mut edges = read_pairs(reader, name, agents, |a, b| (a.min(b), a.max(b)))?;
        edges.sort_unstable();
        Self::from_sorted(agents, &edges).connected(name)
    }

    /// A graph whose links lead one way: a line `a b` is a link from a to b. What is written and
    /// what is refused is that of [`Self::from_edge_list`], and every agent must reach every other.
    ///
    /// # Errors
    /// As for [`Self::from_edge_list`].
    pub fn from_link_list(
        reader: impl BufRead,
        name: &str,
        agents: usize,
    ) -> Result<Self, GraphError> {
        let links = read_pairs(reader, name, agents, |a, b| (a, b))?;
        Self::from_links(agents, &[links], name)
    }
}

/// The pairs of all lines, each once as `key` has it.
fn read_pairs(
    mut reader: impl BufRead,
    name: &str,
    agents: usize,
    key: impl Fn(u32, u32) -> Edge,
) -> Result<Vec<Edge>, GraphError> {
    check_size(agents, 0)?;
    let mut first_line: HashMap<Edge, usize> = HashMap::new();
    let mut buffer = Vec::new();
    for line in 1.. {
        let fail = |problem| GraphError::EdgeList { name: name.to_owned(), line, problem };
        buffer.clear();
        let read =
            std::io::Read::take(&mut reader, MAX_LINE as u64 + 1).read_until(b'\n', &mut buffer);
        match read {
            Ok(0) => break,
            Ok(length) if length > MAX_LINE => {
                return Err(fail(EdgeProblem::TooLong { limit: MAX_LINE }));
            }
            Ok(_) => {}
            Err(source) => {
                return Err(GraphError::Read { name: name.to_owned(), line, source });
            }
        }
        let Some((a, b)) = parse_line(&buffer, agents).map_err(fail)? else { continue };
        if let Some(first) = first_line.insert(key(a, b), line) {
            return Err(fail(EdgeProblem::Duplicate { a, b, first }));
        }
        if first_line.len() as u64 > super::MAX_EDGES {
            return Err(fail(EdgeProblem::TooMany { limit: super::MAX_EDGES }));
        }
    }
    Ok(first_line.into_keys().collect())
}

/// The edge on a line as written, or `None` if the line is empty or only a comment.
fn parse_line(line: &[u8], agents: usize) -> Result<Option<Edge>, EdgeProblem> {
    let line = String::from_utf8_lossy(line);
    let text = line.split('#').next().unwrap_or("").trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(None);
    }
    let malformed = || EdgeProblem::Malformed { text: text.chars().take(40).collect() };
    let (a, b) = match text.split_once(',') {
        Some((a, b)) => (a.trim(), b.trim()),
        None => text
            .split_once(char::is_whitespace)
            .map(|(a, b)| (a, b.trim()))
            .ok_or_else(malformed)?,
    };
    let agent = |text: &str| -> Result<u32, EdgeProblem> {
        let agent: u64 = text.parse().map_err(|_| malformed())?;
        let known = u32::try_from(agent).ok().filter(|&id| (id as usize) < agents);
        known.ok_or(EdgeProblem::OutOfRange { agent, agents })
    };
    let (a, b) = (agent(a)?, agent(b)?);
    if a == b { Err(EdgeProblem::SelfLoop { agent: a }) } else { Ok(Some((a, b))) }
}
