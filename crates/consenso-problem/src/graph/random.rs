//! Random graphs: connected with a given number of edges, small-world, regular.

use super::topology::at_least;
use super::{Edge, Graph, GraphError, check_size, pairs};
use crate::random::{Purpose, Seed, Stream};
use rand::RngExt;
use rand::seq::SliceRandom;
use std::collections::HashSet;

/// The edges a rejection sampler may draw in all where a linear-time construction is at hand.
const REJECTION_WORK: f64 = 3.0e7;

/// The fewest edge sets a rejection sampler tries before it gives up.
const LEAST_ATTEMPTS: usize = 2000;

/// Streams of one seed, so that no two kinds of graph share draws.
enum Kind {
    Connected = 0,
    SmallWorld = 1,
    Regular = 2,
}

impl Graph {
    /// A random connected graph with exactly `edges` edges.
    ///
    /// Three samplers, chosen by the numbers alone:
    /// - `edges = N − 1`: a uniform labelled tree (Prüfer), exactly uniform;
    /// - where a uniform edge set is connected often enough (few isolated agents expected),
    ///   rejection from uniform edge sets: exactly uniform over connected graphs with that many
    ///   edges;
    /// - else, where rejection is hopeless (N = 10^6, |E| = 2·10^6: 18,000 isolated agents
    ///   expected), a uniform tree plus uniform further edges, in time near linear in the edges.
    ///   Connected by construction, and **not** exactly uniform: a graph appears in proportion to
    ///   how many spanning trees it has.
    ///
    /// # Errors
    /// Fewer than two agents, or `edges` outside N − 1 … N(N − 1)/2, or more than
    /// [`MAX_EDGES`](super::MAX_EDGES).
    pub fn random(agents: usize, edges: usize, seed: &Seed) -> Result<Self, GraphError> {
        check_random(agents, edges)?;
        let rng = &mut seed.stream(Purpose::Graph, Kind::Connected as u64, 0);
        if edges > agents - 1 && rejection_is_likely_to_succeed(agents, edges) {
            for _ in 0..rejection_attempts(edges) {
                let graph = Self::from_sorted(agents, &uniform_edge_set(agents, edges, rng));
                if graph.is_connected() {
                    return Ok(graph);
                }
            }
        }
        let mut keys = uniform_tree(agents, rng);
        keys.sort_unstable();
        fill_with_distinct(&mut keys, edges, agents, rng);
        Ok(Self::from_sorted(agents, &keys))
    }

    /// A Watts–Strogatz small world: a ring where everyone knows the `degree`/2 next on each side,
    /// and every edge's far end is moved to a uniformly random other agent with probability
    /// `rewire`. Graphs that come out disconnected are drawn again.
    ///
    /// # Errors
    /// An odd degree, one below 2 or not below N; `rewire` outside [0, 1]; fewer than three agents;
    /// or only disconnected draws, which happens with degree 2.
    pub fn small_world(
        agents: usize,
        degree: usize,
        rewire: f64,
        seed: &Seed,
    ) -> Result<Self, GraphError> {
        check_small_world(agents, degree, rewire)?;
        let rng = &mut seed.stream(Purpose::Graph, Kind::SmallWorld as u64, 0);
        let attempts = bounded_attempts(agents * degree);
        for _ in 0..attempts {
            let graph = Self::from_sorted(agents, &rewired_ring(agents, degree, rewire, rng));
            if graph.is_connected() {
                return Ok(graph);
            }
        }
        Err(GraphError::Unlucky { kind: "small-world", agents, degree, attempts })
    }

    /// A random graph where everyone has the same `degree`.
    ///
    /// Degree 2 is a uniformly random ring. Otherwise the configuration model, a random pairing of
    /// `degree` stubs an agent; above (N − 1)/2 the complement of such a graph. Up to degree 4 (or
    /// N − 5 and more) and a million stubs, pairings with loops or double edges are drawn again,
    /// which is exactly uniform; beyond, they are repaired by random switches, which is close to
    /// uniform but not exactly.
    ///
    /// # Errors
    /// N·degree odd, a degree of 0 or not below N, degree 1 for more than two agents, or more than
    /// [`MAX_EDGES`](super::MAX_EDGES) edges.
    pub fn regular(agents: usize, degree: usize, seed: &Seed) -> Result<Self, GraphError> {
        check_regular(agents, degree)?;
        let rng = &mut seed.stream(Purpose::Graph, Kind::Regular as u64, 0);
        if degree + 1 == agents {
            return Self::complete(agents);
        }
        if degree == 2 {
            let mut order: Vec<u32> = (0..agents as u32).collect();
            order.shuffle(rng);
            let ring = (0..agents).map(|i| ordered(order[i], order[(i + 1) % agents]));
            return Ok(Self::from_shape(agents, ring));
        }
        let sparse = degree.min(agents - 1 - degree);
        // A pairing of stubs is simple with probability about e^(−(k² − 1)/4): one in 43 for
        // degree 4.
        let exact = if sparse <= 4 && agents * sparse <= 1_000_000 { LEAST_ATTEMPTS } else { 0 };
        let attempts = exact + bounded_attempts(agents * degree);
        for attempt in 0..attempts {
            let Some(mut edges) = paired_stubs(agents, sparse, attempt >= exact, rng) else {
                continue;
            };
            if sparse < degree {
                edges = complement(agents, &edges);
            }
            let graph = Self::from_sorted(agents, &edges);
            if graph.is_connected() {
                return Ok(graph);
            }
        }
        Err(GraphError::Unlucky { kind: "regular", agents, degree, attempts })
    }
}

/// Bounds on `edges` for a connected simple graph.
pub(super) fn check_random(agents: usize, edges: usize) -> Result<(), GraphError> {
    check_size(agents, 0)?;
    let (edges, least, most) = (edges as u64, agents as u64 - 1, pairs(agents));
    if !(least..=most).contains(&edges) {
        return Err(GraphError::EdgeCount { agents, edges, least, most });
    }
    check_size(agents, edges)
}

pub(super) fn check_small_world(
    agents: usize,
    degree: usize,
    rewire: f64,
) -> Result<(), GraphError> {
    check_size(agents, (agents as u64).saturating_mul(degree as u64) / 2)?;
    at_least("small-world", agents, 3)?;
    if degree < 2 || degree >= agents || !degree.is_multiple_of(2) {
        let rule = format!("it must be even, at least 2 and below {agents}");
        return Err(GraphError::Degree { kind: "small-world", agents, degree, rule });
    }
    if (0.0..=1.0).contains(&rewire) { Ok(()) } else { Err(GraphError::Rewire { rewire }) }
}

pub(super) fn check_regular(agents: usize, degree: usize) -> Result<(), GraphError> {
    check_size(agents, (agents as u64).saturating_mul(degree as u64) / 2)?;
    let rule = if degree == 0 || degree >= agents {
        format!("it must be at least 1 and below {agents}")
    } else if !(agents * degree).is_multiple_of(2) {
        format!("agents × degree = {} must be even", agents * degree)
    } else if degree == 1 && agents > 2 {
        "pairs alone are not connected; it must be at least 2".to_owned()
    } else {
        return Ok(());
    };
    Err(GraphError::Degree { kind: "regular", agents, degree, rule })
}

/// Whether uniform edge sets are connected often enough to draw until one is. Near the threshold a
/// graph is connected when nobody is isolated, so the probability is about e^−I for I isolated
/// agents expected.
fn rejection_is_likely_to_succeed(agents: usize, edges: usize) -> bool {
    let n = agents as f64;
    // An agent is isolated when all edges fall among the pairs without it: a fraction 1 − 2/N of
    // them.
    let isolated = n * libm::exp(edges as f64 * libm::log1p(-2.0 / n));
    isolated <= 1.0 || (isolated <= 4.0 && libm::exp(isolated) * edges as f64 <= REJECTION_WORK)
}

/// How many edge sets to try. Near the threshold one in e^4 is connected at worst; for a few dozen
/// agents with hardly more edges than a tree, one in a thousand, but those are tiny and get many
/// more tries. Giving up has a probability below 10^-9 wherever rejection is used.
fn rejection_attempts(edges: usize) -> usize {
    LEAST_ATTEMPTS.max((REJECTION_WORK / edges as f64) as usize)
}

/// How many graphs of `entries` adjacency entries to try: all of them together stay near 10^7
/// steps, or at least 5.
fn bounded_attempts(entries: usize) -> usize {
    (10_000_000 / entries.max(1)).clamp(5, 500)
}

fn ordered(a: u32, b: u32) -> Edge {
    (a.min(b), a.max(b))
}

/// A uniform pair of distinct agents.
fn uniform_pair(agents: usize, rng: &mut Stream) -> Edge {
    let a = rng.random_range(0..agents as u32);
    let b = rng.random_range(0..agents as u32 - 1);
    ordered(a, if b >= a { b + 1 } else { b })
}

/// A uniform set of `edges` distinct pairs, sorted. Above half of all pairs it is cheaper to draw
/// those left out.
fn uniform_edge_set(agents: usize, edges: usize, rng: &mut Stream) -> Vec<Edge> {
    let absent = pairs(agents) as usize - edges;
    let mut drawn = Vec::with_capacity(edges.min(absent));
    fill_with_distinct(&mut drawn, edges.min(absent), agents, rng);
    if edges <= absent { drawn } else { complement(agents, &drawn) }
}

/// Adds uniform pairs to a sorted set until it has `target` of them. Each batch is exactly as long
/// as what is missing, so this is drawing one by one until enough distinct pairs are there: uniform
/// over the sets that contain the first ones.
fn fill_with_distinct(edges: &mut Vec<Edge>, target: usize, agents: usize, rng: &mut Stream) {
    while edges.len() < target {
        edges.extend((edges.len()..target).map(|_| uniform_pair(agents, rng)));
        // A stable sort finds the sorted part that is already there and merges into it.
        edges.sort();
        edges.dedup();
    }
}

/// All pairs not in a sorted list, sorted.
fn complement(agents: usize, edges: &[Edge]) -> Vec<Edge> {
    let n = agents as u32;
    let mut absent = edges.iter().copied().peekable();
    let all = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    all.filter(|pair| absent.next_if_eq(pair).is_none()).collect()
}

/// A uniform labelled tree: the one a uniform Prüfer sequence encodes, decoded in linear time.
fn uniform_tree(agents: usize, rng: &mut Stream) -> Vec<Edge> {
    let n = agents as u32;
    let code: Vec<u32> = (0..agents.saturating_sub(2)).map(|_| rng.random_range(0..n)).collect();
    let mut degree = vec![1_u32; agents];
    for &agent in &code {
        degree[agent as usize] += 1;
    }
    let mut edges = Vec::with_capacity(agents - 1);
    // `pointer` is the smallest agent never yet a leaf candidate; a smaller one becomes a leaf only
    // when its last other neighbour was just removed, and is then next.
    let mut pointer = (0..n).find(|&i| degree[i as usize] == 1).unwrap_or(0);
    let mut leaf = pointer;
    for &agent in &code {
        edges.push(ordered(leaf, agent));
        degree[agent as usize] -= 1;
        if degree[agent as usize] == 1 && agent < pointer {
            leaf = agent;
        } else {
            pointer = (pointer + 1..n).find(|&i| degree[i as usize] == 1).unwrap_or(n - 1);
            leaf = pointer;
        }
    }
    edges.push(ordered(leaf, n - 1));
    edges
}

/// The edges of one Watts–Strogatz draw, sorted; perhaps disconnected.
fn rewired_ring(agents: usize, degree: usize, rewire: f64, rng: &mut Stream) -> Vec<Edge> {
    let n = agents as u32;
    let lattice = (1..=degree as u32 / 2).flat_map(|hop| (0..n).map(move |i| (i, (i + hop) % n)));
    let mut present: HashSet<Edge> = lattice.clone().map(|(i, j)| ordered(i, j)).collect();
    let mut degrees = vec![degree as u32; agents];
    for (i, j) in lattice {
        // Someone who knows everybody has nowhere to move an edge to.
        if !rng.random_bool(rewire) || degrees[i as usize] == n - 1 {
            continue;
        }
        let target = loop {
            let target = rng.random_range(0..n);
            if target != i && !present.contains(&ordered(i, target)) {
                break target;
            }
        };
        present.remove(&ordered(i, j));
        present.insert(ordered(i, target));
        degrees[j as usize] -= 1;
        degrees[target as usize] += 1;
    }
    let mut edges: Vec<Edge> = present.into_iter().collect();
    edges.sort_unstable();
    edges
}

/// A `degree`-regular simple graph from a random pairing of stubs, sorted; perhaps disconnected.
/// `None` if the pairing has loops or double edges and is not to be repaired, or when the repair
/// does not end soon, which takes a tiny graph and bad luck.
fn paired_stubs(agents: usize, degree: usize, repair: bool, rng: &mut Stream) -> Option<Vec<Edge>> {
    let mut stubs: Vec<u32> =
        (0..agents as u32).flat_map(|i| std::iter::repeat_n(i, degree)).collect();
    stubs.shuffle(rng);
    let mut present = HashSet::with_capacity(stubs.len() / 2);
    let mut edges = Vec::with_capacity(stubs.len() / 2);
    let mut broken = Vec::new();
    for pair in stubs.chunks_exact(2) {
        let edge = ordered(pair[0], pair[1]);
        if edge.0 != edge.1 && present.insert(edge) {
            edges.push(edge);
        } else if repair {
            broken.push(edge);
        } else {
            return None;
        }
    }
    let mut switches = 1000 + 100 * broken.len();
    while let Some((a, b)) = broken.pop() {
        loop {
            switches = switches.checked_sub(1)?;
            let chosen = rng.random_range(0..edges.len().max(1));
            let &(c, d) = edges.get(chosen)?;
            let (c, d) = if rng.random_bool(0.5) { (c, d) } else { (d, c) };
            let (one, two) = (ordered(a, c), ordered(b, d));
            let simple = a != c && b != d && one != two;
            if simple && !present.contains(&one) && !present.contains(&two) {
                present.remove(&ordered(c, d));
                present.extend([one, two]);
                edges[chosen] = one;
                edges.push(two);
                break;
            }
        }
    }
    edges.sort_unstable();
    Some(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prufer_code_decodes_to_every_tree_of_four_agents() {
        let mut seen = HashSet::new();
        let rng = &mut Seed::from(1).stream(Purpose::Graph, 0, 0);
        for _ in 0..1000 {
            let mut tree = uniform_tree(4, rng);
            tree.sort_unstable();
            assert!(Graph::from_sorted(4, &tree).is_connected());
            seen.insert(tree);
        }
        assert_eq!(seen.len(), 16, "Cayley: 4^2 labelled trees");
    }

    #[test]
    fn the_complement_of_the_complement_is_the_set() {
        let rng = &mut Seed::from(2).stream(Purpose::Graph, 0, 0);
        for edges in 0..=21 {
            let set = uniform_edge_set(7, edges, rng);
            assert_eq!(set.len(), edges);
            let other = complement(7, &set);
            assert_eq!(other.len(), 21 - edges);
            assert_eq!(complement(7, &other), set);
        }
    }
}
