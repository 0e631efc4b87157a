//! Why a graph could not be made.

use super::edge_list::EdgeProblem;

/// How many members of an unreachable component a message names.
pub(super) const SHOWN: usize = 5;

/// Why a graph could not be made. Every text names the numbers that would have been accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GraphError {
    /// There is nobody to talk to.
    #[error("a graph needs at least 2 agents, not {agents}")]
    TooFewAgents {
        /// How many agents were asked for.
        agents: usize,
    },
    /// A topology with a larger minimum than 2.
    #[error("a {kind} graph needs at least {least} agents, not {agents}")]
    TooFewAgentsFor {
        /// The kind, as an experiment file spells it.
        kind: &'static str,
        /// How many agents were asked for.
        agents: usize,
        /// The fewest it can have.
        least: usize,
    },
    /// The graph would not fit in memory, or not as meant.
    #[error("a graph of {agents} agents with {edges} edges is too large: the limit is {limit}")]
    TooLarge {
        /// How many agents were asked for.
        agents: usize,
        /// How many edges the graph would have.
        edges: u64,
        /// The most edges, and the most agents, a graph may have.
        limit: u64,
    },
    /// No connected simple graph has this many edges.
    #[error(
        "{agents} agents cannot be connected with {edges} edges: between {least} and {most} are possible"
    )]
    EdgeCount {
        /// How many agents were asked for.
        agents: usize,
        /// How many edges were asked for.
        edges: u64,
        /// N − 1, a tree.
        least: u64,
        /// N(N − 1)/2, the complete graph.
        most: u64,
    },
    /// A degree no connected graph of this kind can have.
    #[error("a {kind} graph of {agents} agents cannot have degree {degree}: {rule}")]
    Degree {
        /// The kind, as an experiment file spells it.
        kind: &'static str,
        /// How many agents were asked for.
        agents: usize,
        /// The degree asked for.
        degree: usize,
        /// What the degree must be.
        rule: String,
    },
    /// A rewiring probability that is none.
    #[error("rewire = {rewire} is not a probability: it must be between 0 and 1")]
    Rewire {
        /// The value given.
        rewire: f64,
    },
    /// Corners of a hypercube come in powers of two.
    #[error("a hypercube needs a power of two agents (2, 4, 8, …), not {agents}")]
    NotPowerOfTwo {
        /// How many agents were asked for.
        agents: usize,
    },
    /// Links lead one way, and one agent is never heard or hears nobody.
    #[error(
        "in {name} {}: links must lead from every agent to every other",
        if *.reached { format!("agent {agent} is never reached by agent 0") } else { format!("agent {agent} reaches agent 0 by no way") }
    )]
    OneWay {
        /// What the graph is called.
        name: String,
        /// The first agent that is cut off.
        agent: u32,
        /// Whether it is the agent that nothing reaches; otherwise it reaches nobody.
        reached: bool,
    },
    /// The grid's rows do not divide the agents.
    #[error("{agents} agents do not fill a grid of {rows} rows")]
    GridRows {
        /// How many agents were asked for.
        agents: usize,
        /// How many rows were asked for.
        rows: usize,
    },
    /// No number of rows was given and only 1 would do.
    #[error(
        "{agents} agents only make a grid of one row: choose another number, or kind = \"path\""
    )]
    GridIsPath {
        /// How many agents were asked for.
        agents: usize,
    },
    /// Random graphs of this kind kept coming out disconnected.
    #[error(
        "{attempts} {kind} graphs of {agents} agents with degree {degree} all came out disconnected: raise the degree"
    )]
    Unlucky {
        /// The kind, as an experiment file spells it.
        kind: &'static str,
        /// How many agents were asked for.
        agents: usize,
        /// The degree asked for.
        degree: usize,
        /// How many graphs were tried.
        attempts: usize,
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
    /// An edge that is given more than once, in either direction.
    #[error("the edge {a} {b} is given twice")]
    DuplicateEdge {
        /// The smaller agent.
        a: u32,
        /// The larger agent.
        b: u32,
    },
    /// Some agents cannot reach the others, so no protocol can agree.
    #[error("{name} is not connected: {components} parts; {} cannot reach agent 0", members_text(.members, *.size))]
    Disconnected {
        /// The file, or "the graph".
        name: String,
        /// How many connected components there are.
        components: usize,
        /// The first few agents of the first component that agent 0 cannot reach.
        members: Vec<u32>,
        /// How many agents that component has.
        size: usize,
    },
    /// A line of an edge list that is not an edge of this graph.
    #[error("{name}, line {line}: {problem}")]
    EdgeList {
        /// The file.
        name: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: EdgeProblem,
    },
    /// An edge list that could not be read.
    #[error("{name}, line {line}: cannot be read")]
    Read {
        /// The file.
        name: String,
        /// The line that could not be read, from 1.
        line: usize,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file graph was asked for without its contents. The library opens no files: read it and
    /// call [`Graph::from_edge_list`](super::Graph::from_edge_list).
    #[error("the edge list {} has not been read", .path.display())]
    FileNotRead {
        /// The path in the specification.
        path: std::path::PathBuf,
    },
}

fn members_text(members: &[u32], size: usize) -> String {
    let names: Vec<String> = members.iter().map(ToString::to_string).collect();
    let noun = if size == 1 { "agent" } else { "agents" };
    let rest = if size > members.len() { format!(", … ({size} in all)") } else { String::new() };
    format!("{noun} {}{rest}", names.join(", "))
}
