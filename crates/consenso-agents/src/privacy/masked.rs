//! Masked sums: the two ends of every edge add ± the same secret uniform words, so that only sums
//! over many agents can be read, on any connected graph, and an agent that dies does not end the
//! run.
//!
//! A **label** is a round r and the set D of agents that were given up before it; P are the others.
//! In fixed point, modulo 2^64, agent k ∈ P sends to everybody
//!
//! ```text
//! y_k = q_k + Σ_{j ∈ N_k ∩ P} ± m_kj(r, D),      q_k = its vector with its part of the noise,  m_kj uniform
//! ```
//!
//! where the end with the smaller number adds m_kj and the other subtracts it. Σ_P y_k = Σ_P q_k,
//! exactly. When somebody is given up while a round is under way, D grows and the round is tried
//! again under the new label: with fresh masks, for D is in their key, and with fresh noise, for
//! the difference of two sums with the same noise would be one agent's vector. Every try is
//! charged.
//!
//! # What agents do
//! 1. At one agent D only grows, holds at most t agents and never itself; its rounds only grow. It
//!    sends one vector a label, the same bytes whenever it sends it again.
//! 2. So r + |D| grows from one vector of an agent to its next. That is the number of the charge:
//!    at most R + t for R rounds.
//! 3. **Every vector that an agent sends under a label carries its part of the noise of that number,
//!    drawn for it and for nothing else, or the agent sends nothing and its run fails.** Nothing that
//!    it was told, and no reason to stop, lets it send a vector without. The only vectors without
//!    noise are those under numbers above the K charges that the budget allows: K is public and the
//!    same for all, so under such a label no honest agent uses a record.
//!
//! Rule 3 is what the noise of *others* rests on. An agent that went on with "what everybody knows
//! already" and no noise would be as private as before; but what it was told may be one neighbour's
//! lie, all others may still use their records, and their sum would lack its part while the masks
//! cancel as ever. One colluder could do that to all but one (`tests/privacy/masked.rs`,
//! `one_colluder_cannot_strip_the_others_of_their_noise`).
//!
//! # What a coalition learns
//!
//! **Theorem.** Let a set A of at most c agents, fixed before the run, pool all they know, leave
//! the protocol as they like (they may say of anybody that it is gone) and read every message on
//! every link. Let all others follow rules 1 to 3. Let m be the least size of a component of the
//! graph that can be left when some c + t agents or fewer are taken away ([`smallest_hiding_set`]), and let
//! every agent's part of the noise be N(0, σ_k²/m) in its k-th charge, in which one record moves
//! its vector by at most Δ_k in the l2 norm, whatever was sent before. Then what A learns of a
//! record is μ-GDP with μ² = Σ_{k ≤ R+t} Δ_k²/σ_k², up to the rounding of
//! [`distributed_noise`](super::distributed_noise).
//!
//! *Proof.* **One label.** Fix (r, D), with |D| ≤ t, and let C be a component of the graph without
//! A ∪ D. A knows the masks of its own edges. Let U ⊆ C be those who have sent their vector under
//! this label so far. If U ≠ C, every connected part of U has an edge to C ∖ U, for C is connected;
//! the mask of that edge is in one of the y seen, and in nothing else that anybody has sent. So the
//! y of U, without the masks of A, are uniform and independent of all q: choose a spanning tree of
//! that part, rooted where the edge leaves; given all y but the root's the masks of the tree are
//! determined by the q, one each, and the root's y has a mask of its own. If U = C the same tree
//! shows that all y but one are uniform and independent of the q, and the last is fixed by the sum:
//! Σ_C q_k is learned, and nothing else. Masks of another label, an edge's or a round's, are drawn
//! under another key: independent. Agents that do not agree on D use different labels and so leave
//! each other's masks in place.
//!
//! **One sum.** |A ∪ D| ≤ c + t, so C has at least m members. The sum is read when all of them have
//! sent under this label, and by rule 3 each has then added its part, wherever it stands and
//! whatever A told it: the sum carries Gaussian noise of variance at least σ_k² (independent noise
//! beyond that hides no less). An agent that could not add its part has sent nothing, and C is never
//! complete. Before C is complete the view is independent of these parts; when the last of C sends,
//! the point at which each computed its vector is a function of what was sent before, A's lies among
//! it. Given that, a record of agent i moves the sum by at most Δ_k: the step is clipped within
//! bounds that hold at every point within half the range, and beyond it the run has failed.
//!
//! **All of them.** A record of agent i is in the sums of labels under which i sent, at most R + t.
//! In the order in which they become complete each is a Gaussian mechanism chosen by what was seen
//! before, so the costs add up as Σ μ_k² (Dong, Roth and Su 2022). What A sends, who is given up
//! and when, is a function of what it has seen and of clocks. ∎
//!
//! The masks are ChaCha12's under the secret of the edge, so the theorem is that of ideal bits, as
//! everywhere. Two things it does not need: that everybody gives up the same agents, and that those
//! given up are really gone. An honest agent that others give up while it lives has sent nothing
//! under their label.
//!
//! **Parts of each agent's own.** One leaf makes m = 1. Let m_i be the least size of a component
//! *that holds i* when some c + t agents or fewer are taken away, i not among them, or a number below
//! it ([`hiding_set_sizes`]), and let agent i's part have variance σ_k²/m_i. The theorem holds as it is: a
//! component C that is left has Σ_{j∈C} σ_k²/m_j ≥ Σ_{j∈C} σ_k²/|C| = σ_k², for m_j ≤ |C| of every
//! j ∈ C. Only agents that can be cut off pay for that.
//!
//! On a complete graph m = N − c − t. On a graph that c + t agents can cut so that one agent is
//! alone, m = 1: that is each agent's own noise, as in the plain exchange, and never less.

use crate::graph::Graph;

/// How many agents hide each other, whoever is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmallestHidingSet {
    /// m, or a number below it.
    pub size: usize,
    /// Whether it is m itself.
    pub exact: bool,
}

/// Most steps that a search may take.
const SEARCH: u64 = 200_000_000;

/// The least size of a component that is left of `graph` when some `taken` agents, or fewer, are
/// taken away; at least a lower bound of it where looking further would take too long.
///
/// A set C of agents is such a component if it is connected and has at most `taken` neighbours
/// outside. Where no `taken` agents cut the graph, the only one is what is left of all: N −
/// `taken`. Elsewhere sets are tried by their size, the smallest first.
///
/// ```
/// use consenso_agents::privacy::masked::smallest_hiding_set;
/// use consenso_problem::graph::Graph;
///
/// let ring = Graph::ring(10)?;
/// assert_eq!((smallest_hiding_set(&ring, 1).size, smallest_hiding_set(&ring, 2).size), (9, 1));
/// # Ok::<(), consenso_problem::graph::GraphError>(())
/// ```
#[must_use]
pub fn smallest_hiding_set(graph: &Graph, taken: usize) -> SmallestHidingSet {
    let n = graph.agents();
    let left = n.saturating_sub(taken);
    if left <= 1 {
        return SmallestHidingSet { size: left, exact: true };
    }
    let lowest = (0..n).map(|i| graph.degree(i)).min().unwrap_or(0);
    if lowest <= taken {
        return SmallestHidingSet { size: 1, exact: true };
    }
    if connectivity_exceeds(graph, taken) == Some(true) {
        return SmallestHidingSet { size: left, exact: true };
    }
    let mut search = Search { graph, taken, steps: 0 };
    for size in 2..left {
        match search.any(size) {
            Some(true) => return SmallestHidingSet { size, exact: true },
            Some(false) => {}
            None => return SmallestHidingSet { size, exact: false },
        }
    }
    SmallestHidingSet { size: left, exact: true }
}

/// The least size of a component that holds each agent when some `taken` others, or fewer, are taken
/// away; lower bounds where looking further would take too long.
///
/// Whoever is taken away, an agent stays together with those of its neighbours that are left, and
/// with everybody it is joined to by more than `taken` ways that share nobody (Menger): all of these
/// but `taken` are a lower bound. Where it is small, sets that hold the agent are tried by their size.
#[must_use]
pub fn hiding_set_sizes(graph: &Graph, taken: usize) -> Vec<usize> {
    let n = graph.agents();
    let left = n.saturating_sub(taken);
    let least = smallest_hiding_set(graph, taken);
    if least.size >= left || n <= 2 {
        return vec![least.size; n];
    }
    let flows = n.saturating_mul(taken + 1).saturating_mul(2 * graph.edges()) as u64;
    let with_flows = flows.saturating_mul(n as u64) <= 10 * SEARCH;
    let one = |i: usize| {
        let degree = graph.degree(i);
        if degree <= taken {
            return 1;
        }
        let near = |u: usize| graph.neighbours(i).binary_search(&(u as u32)).is_ok();
        let joined = |&u: &usize| {
            u != i && !near(u) && with_flows && disjoint_ways(graph, i, u, taken + 1) > taken
        };
        let together = 1 + degree + (0..n).filter(joined).count();
        let bound = (together - taken).max(least.size).min(left);
        let mut search = Search { graph, taken, steps: SEARCH - SEARCH / (4 * n as u64) };
        let found = (bound..left).find(|&size| search.with(i, size) != Some(false));
        found.unwrap_or(left)
    };
    (0..n).map(one).collect()
}

/// Whether no `k` agents cut the graph in two; `None` where that would take too long to find out.
///
/// Of any k + 1 agents one is outside a set of k that cuts, and then somebody on the other side is
/// not its neighbour and is reached by at most k ways that share nobody (Menger).
#[must_use]
pub(crate) fn connectivity_exceeds(graph: &Graph, k: usize) -> Option<bool> {
    let n = graph.agents();
    // Who is left alone has nobody to be cut off from.
    let k = k.min(n.saturating_sub(2));
    if (0..n).any(|i| graph.degree(i) <= k) {
        // Its neighbours cut it off from somebody.
        return Some(false);
    }
    let pairs = (0..=k).map(|v| (n - 1 - graph.degree(v)) as u64).sum::<u64>();
    if pairs.saturating_mul(k as u64 + 1).saturating_mul(2 * graph.edges() as u64) > 10 * SEARCH {
        return None;
    }
    let far =
        |v: usize, u: usize| u != v && graph.neighbours(v).binary_search(&(u as u32)).is_err();
    Some(
        (0..=k)
            .all(|v| (0..n).filter(|&u| far(v, u)).all(|u| disjoint_ways(graph, v, u, k + 1) > k)),
    )
}

/// How many ways from `from` to `to` share nobody between, up to `enough` of them; the two are no
/// neighbours. Maximum flow: every agent is an entrance and an exit with one unit between.
fn disjoint_ways(graph: &Graph, from: usize, to: usize, enough: usize) -> usize {
    const NOBODY: usize = usize::MAX;
    let n = graph.agents();
    // By agent: who comes before and after it on the way that it is on.
    let (mut before, mut after) = (vec![NOBODY; n], vec![NOBODY; n]);
    let mut firsts: Vec<usize> = Vec::new();
    for found in 0..enough {
        // States: 2u is the entrance of u, 2u + 1 its exit.
        let mut parent = vec![NOBODY; 2 * n];
        let mut queue = std::collections::VecDeque::from([2 * from + 1]);
        parent[2 * from + 1] = 2 * from + 1;
        let mut end = NOBODY;
        while let Some(state) = queue.pop_front() {
            let (u, exit) = (state / 2, state % 2 == 1);
            let mut visit = |next: usize| {
                if parent[next] == NOBODY {
                    parent[next] = state;
                    queue.push_back(next);
                }
            };
            if exit {
                if graph.neighbours(u).iter().any(|&w| w as usize == to) {
                    // The last edge of a way that is in use is not there for another.
                    if u != from && after[u] != to {
                        end = state;
                        break;
                    }
                }
                for &w in graph.neighbours(u) {
                    let w = w as usize;
                    let used = if u == from { before[w] == from } else { after[u] == w };
                    if w != from && w != to && !used {
                        visit(2 * w);
                    }
                }
                // Back through an agent that a way goes through.
                if u != from && before[u] != NOBODY {
                    visit(2 * u);
                }
            } else if before[u] == NOBODY {
                visit(2 * u + 1);
            } else if before[u] != from {
                // Against the way that comes in here.
                visit(2 * before[u] + 1);
            }
        }
        if end == NOBODY {
            return found;
        }
        // The edges of all ways, with those of the new one turned over where it went against them.
        let mut edges: std::collections::BTreeSet<(usize, usize)> =
            std::collections::BTreeSet::new();
        for &first in &firsts {
            edges.insert((from, first));
            let mut at = first;
            while at != to {
                edges.insert((at, after[at]));
                at = after[at];
            }
        }
        edges.insert((end / 2, to));
        let mut state = end;
        while parent[state] != state {
            let up = parent[state];
            let (a, b) = (up / 2, state / 2);
            if a != b {
                // From the exit of a to the entrance of b, or from the entrance of a back to the
                // exit of b.
                if up % 2 == 1 {
                    edges.insert((a, b))
                } else {
                    edges.remove(&(b, a))
                };
            }
            state = up;
        }
        (before, after) = (vec![NOBODY; n], vec![NOBODY; n]);
        firsts.clear();
        for &(a, b) in &edges {
            if a == from {
                firsts.push(b);
            } else {
                after[a] = b;
            }
            if b != to {
                before[b] = a;
            }
        }
    }
    enough
}

struct Search<'a> {
    graph: &'a Graph,
    taken: usize,
    steps: u64,
}

impl Search<'_> {
    /// Whether some connected set of this size has at most `taken` neighbours outside; `None` when
    /// the search is over before it knows.
    fn any(&mut self, size: usize) -> Option<bool> {
        for root in 0..self.graph.agents() {
            // Sets whose smallest member is the root, each found once: what was passed over stays
            // out.
            let mut out = vec![false; self.graph.agents()];
            out[..root].fill(true);
            if self.grow(&mut vec![root], &mut out, size)? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Whether some connected set of this size that holds `agent` has at most `taken` neighbours
    /// outside; `None` when the search is over before it knows.
    fn with(&mut self, agent: usize, size: usize) -> Option<bool> {
        let mut out = vec![false; self.graph.agents()];
        self.grow(&mut vec![agent], &mut out, size)
    }

    fn grow(&mut self, set: &mut Vec<usize>, out: &mut [bool], size: usize) -> Option<bool> {
        let mut border: Vec<usize> =
            set.iter().flat_map(|&u| self.graph.neighbours(u)).map(|&w| w as usize).collect();
        self.steps += 1 + border.len() as u64;
        border.sort_unstable();
        border.dedup();
        border.retain(|w| !set.contains(w));
        if self.steps > SEARCH {
            return None;
        }
        if set.len() == size {
            return Some(border.len() <= self.taken);
        }
        // Whoever joins takes one agent at most out of the neighbours.
        if border.len() > self.taken + size - set.len() {
            return Some(false);
        }
        // Neighbours that stay out are neighbours outside for good.
        if border.iter().filter(|&&w| out[w]).count() > self.taken {
            return Some(false);
        }
        let mut passed = Vec::new();
        let mut found = Some(false);
        for w in border {
            if out[w] {
                continue;
            }
            set.push(w);
            found = self.grow(set, out, size);
            set.pop();
            if found != Some(false) {
                break;
            }
            out[w] = true;
            passed.push(w);
        }
        passed.into_iter().for_each(|w| out[w] = false);
        found
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// All connected graphs of `n` agents, one of each kind.
    pub(crate) fn all_graphs(n: u32) -> Vec<Graph> {
        let pairs: Vec<(u32, u32)> = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
        let place =
            |a: u32, b: u32| pairs.iter().position(|&p| p == (a.min(b), a.max(b))).expect("a pair");
        let mut orders = vec![Vec::new()];
        for _ in 0..n {
            let longer = |order: &Vec<u32>| {
                let rest = (0..n).filter(|v| !order.contains(v));
                rest.map(|v| order.iter().copied().chain([v]).collect()).collect::<Vec<Vec<u32>>>()
            };
            orders = orders.iter().flat_map(longer).collect();
        }
        // Where every order of the agents takes every pair.
        let moves: Vec<Vec<usize>> = orders
            .iter()
            .map(|o| pairs.iter().map(|&(a, b)| place(o[a as usize], o[b as usize])).collect())
            .collect();
        let set = |mask: u32| (0..pairs.len()).filter(move |i| mask >> i & 1 == 1);
        let first = |mask: &u32| {
            moves.iter().all(|to| set(*mask).fold(0, |all, i| all | 1 << to[i]) >= *mask)
        };
        let edges = |mask: u32| -> Vec<(u32, u32)> { set(mask).map(|i| pairs[i]).collect() };
        let masks = (0..1u32 << pairs.len()).filter(first);
        masks.filter_map(|mask| Graph::from_edges(n as usize, &edges(mask)).ok()).collect()
    }

    #[test]
    fn there_are_as_many_connected_graphs_as_are_known() {
        assert_eq!([2, 3, 4, 5].map(|n| all_graphs(n).len()), [1, 2, 6, 21]);
    }

    /// The components of a graph without some agents, one bit an agent each.
    pub(crate) fn components(graph: &Graph, taken: u32) -> Vec<u32> {
        let n = graph.agents() as u32;
        let mut left = !taken & ((1 << n) - 1);
        let mut found = Vec::new();
        while left != 0 {
            let mut one = left & left.wrapping_neg();
            loop {
                let reached =
                    (0..n).filter(|u| one >> u & 1 == 1).flat_map(|u| graph.neighbours(u as usize));
                let wider = reached.fold(one, |all, &w| all | 1 << w) & !taken;
                if wider == one {
                    break;
                }
                one = wider;
            }
            found.push(one);
            left &= !one;
        }
        found
    }

    fn brute(graph: &Graph, taken: usize) -> usize {
        let sets = (0..1u32 << graph.agents()).filter(|s| s.count_ones() as usize <= taken);
        sets.flat_map(|s| components(graph, s)).map(|c| c.count_ones() as usize).min().unwrap_or(0)
    }

    #[test]
    fn the_least_company_is_what_taking_away_everybody_in_turn_finds() {
        let mut graphs: Vec<Graph> = (2..=5).flat_map(all_graphs).collect();
        for seed in 0..12u64 {
            let spec = crate::graph::GraphSpec::Random { edges: 10 + seed as usize };
            graphs.push(spec.build(8, &crate::random::Seed::from(seed)).unwrap());
        }
        // Two cliques that three agents join, and the search for what is between one and all.
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for (a, b) in (0..11u32).flat_map(|a| (a + 1..11).map(move |b| (a, b))) {
            if (a < 4) == (b < 4) || a >= 8 || b >= 8 {
                edges.push((a, b));
            }
        }
        graphs.push(Graph::from_edges(11, &edges).unwrap());
        assert_eq!(
            smallest_hiding_set(graphs.last().unwrap(), 3),
            SmallestHidingSet { size: 4, exact: true }
        );
        for graph in &graphs {
            for taken in 0..graph.agents() {
                let (found, exact) = (smallest_hiding_set(graph, taken), brute(graph, taken));
                assert_eq!(
                    found,
                    SmallestHidingSet { size: exact, exact: true },
                    "{graph:?} without {taken}"
                );
                let cut = (0..1u32 << graph.agents())
                    .any(|s| s.count_ones() as usize <= taken && components(graph, s).len() > 1);
                assert_eq!(
                    connectivity_exceeds(graph, taken),
                    Some(!cut),
                    "{graph:?} without {taken}"
                );
            }
        }
    }

    /// The least component that holds each agent, by taking away everybody in turn.
    fn brute_companies(graph: &Graph, taken: usize) -> Vec<usize> {
        let n = graph.agents();
        let mut least = vec![n; n];
        for set in (0..1u32 << n).filter(|s| s.count_ones() as usize <= taken) {
            for component in components(graph, set) {
                for i in (0..n).filter(|i| component >> i & 1 == 1) {
                    least[i] = least[i].min(component.count_ones() as usize);
                }
            }
        }
        least
    }

    /// Every component that can be read on its own holds the whole noise, whoever is taken away:
    /// the parts of its members add up to it. On all connected graphs of up to five agents, and on
    /// larger ones.
    #[test]
    fn parts_of_each_agents_own_add_up_in_every_component_that_can_be_left() {
        let mut graphs: Vec<Graph> = (3..=5).flat_map(all_graphs).collect();
        for seed in 0..12u64 {
            let spec = crate::graph::GraphSpec::Random { edges: 10 + seed as usize };
            graphs.push(spec.build(9, &crate::random::Seed::from(seed)).unwrap());
        }
        let mut uneven = 0;
        for graph in &graphs {
            let n = graph.agents();
            for taken in 0..n - 1 {
                let found = hiding_set_sizes(graph, taken);
                assert_eq!(found, brute_companies(graph, taken), "{graph:?} without {taken}");
                uneven += usize::from(found.iter().any(|m| *m != found[0]));
                for set in (0..1u32 << n).filter(|s| s.count_ones() as usize <= taken) {
                    for component in components(graph, set) {
                        let parts = (0..n).filter(|i| component >> i & 1 == 1);
                        let whole: f64 = parts.map(|i| 1.0 / found[i] as f64).sum();
                        assert!(whole >= 1.0 - 1e-12, "{graph:?} {set:b} {component:b}: {whole}");
                    }
                }
            }
        }
        assert!(uneven > 40, "{uneven}");
    }

    #[test]
    fn only_those_who_can_be_cut_off_hide_themselves() {
        // Forty in a clique and a leaf.
        let mut edges: Vec<(u32, u32)> =
            (0..40u32).flat_map(|a| (0..a).map(move |b| (a, b))).collect();
        edges.push((0, 40));
        let graph = Graph::from_edges(41, &edges).unwrap();
        let found = hiding_set_sizes(&graph, 3);
        assert_eq!((found[40], smallest_hiding_set(&graph, 3).size), (1, 1));
        assert!(found[..40].iter().all(|&m| (37..=38).contains(&m)), "{found:?}");
    }

    #[test]
    fn large_graphs_have_an_answer_that_is_never_too_large() {
        let regular = crate::graph::GraphSpec::Regular { degree: 4 };
        let graph = regular.build(100, &crate::random::Seed::from(3)).unwrap();
        let sizes: Vec<usize> =
            (0..5).map(|taken| smallest_hiding_set(&graph, taken).size).collect();
        assert_eq!(sizes[4], 1, "four neighbours cut anybody off");
        assert!(sizes.windows(2).all(|w| w[0] >= w[1]) && sizes[1] == 99, "{sizes:?}");
        let complete = Graph::complete(200).unwrap();
        assert_eq!(
            (smallest_hiding_set(&complete, 150).size, smallest_hiding_set(&complete, 199).size),
            (50, 1)
        );
    }
}
