//! Correlated noise: the two ends of every edge add ± the same secret Gaussian, and every agent
//! adds a little noise of its own.
//!
//! In each round agent i sends q_i = (public part) + s_i + n_i + Σ_{j∈N_i} ±v_ij, coordinate by
//! coordinate: s_i is its private step, n_i ~ N(0, σ²) its own noise, and v_ij ~ N(0, σ_cor²) the
//! noise that only the ends of the edge {i, j} know, added by one and subtracted by the other.
//! Summed over the network all v cancel, so the average model pays for σ alone (Allouah et al.
//! 2024).
//!
//! # What a coalition learns
//!
//! **Theorem.** Let a set A of agents, fixed before the run, pool all they know, leave the protocol
//! as they like and see every message on every link. Let H be the others, all following the
//! protocol, and L_H the Laplacian of the graph without A. If one record moves s_i by at most Δ_k
//! in the l2 norm in round k, whatever was sent before, then what A learns about a record of agent
//! i ∈ H is μ-GDP with
//!
//! ```text
//! μ² = Σ_k Δ_k²·[Σ_H⁻¹]_ii,    Σ_H = σ²·I + σ_cor²·L_H
//! ```
//!
//! *Proof.* Condition on all that was sent before round k and on all that A knows: its records, its
//! own noise and the secrets of its edges, whatever they are. The public parts are functions of the
//! former; A subtracts the v of its own edges. Left of the round are the |H| vectors s_j + n_j + Σ
//! ±v over edges inside H, Gaussian around s_H with covariance Σ_H in every coordinate, for n and v
//! are fresh in each round and independent of all before. Each s_j is a function of what was sent
//! before and of agent j's own records, so a record of agent i moves the mean by t·e_i in every
//! coordinate with ‖t‖₂ ≤ Δ_k, and nothing else. A Gaussian with that covariance and such a shift
//! is as hard to tell apart as N(0, 1) from N(μ_k, 1), μ_k² = ‖t‖₂²·[Σ_H⁻¹]_ii. This bound holds
//! for every history, so rounds compose adaptively: μ² = Σ μ_k² (Dong, Roth and Su 2022,
//! composition of Gaussian differential privacy, whose k-th mechanism may depend on all earlier
//! outcomes). What A sends is a function of what it has seen. ∎
//!
//! **More colluders learn more.** For i ∈ H and A ⊂ A', [Σ_{H'}⁻¹]_ii ≥ [Σ_H⁻¹]_ii: A' can compute
//! what A sees. So coalitions of exactly c agents decide. An honest agent that sends nothing, or
//! nothing of its own, in some round reveals less: its row of the Gaussian vector is missing, and
//! the others' noise on the common edges stays in theirs. Leaving an *edge* out would weaken both
//! ends; nobody does.
//!
//! # A network of resistors
//!
//! With r = σ_cor²/σ², [σ²Σ_H⁻¹]_ii = [(I + r·L_H)⁻¹]_ii is the resistance between i and the ground
//! when every agent is tied to the ground by conductance 1 and to its neighbours in H by
//! conductance r. It is between 1/m (m agents connected with i in H: their own noises together hide
//! i) and 1 (nobody left beside A: i hides itself). Taking conductors away never lowers a
//! resistance (Rayleigh), which bounds large networks: divide all agents but i into one branch for
//! each neighbour of i, and forget all edges between branches. A colluder spoils at most its own
//! branch. So the conductance is at least 1 plus that of the weakest deg(i) − c branches, each a
//! tree.
//!
//! # What the grid costs
//!
//! Messages live on a grid. In its steps agent i adds ⌊s_i + n_i + ½⌋ and ±⌊v_ij + ½⌋: integers, so
//! that pairwise noise cancels *exactly*. But the sum of rounded terms is not the rounded sum.
//!
//! **Lemma.** Let X = s + n ∈ ℝ^H, V ∈ ℝ^E the pairwise noises inside H, D the signed incidence
//! matrix, S = X + D·V, and Q = ⌊X + ½⌋ + D·⌊V + ½⌋. Let U be uniform on (−½, ½]^E and independent.
//! Then
//!
//! ```text
//! TV(Q, ⌊S + D·U + ½⌋)  ≤  ½·((1 + 2t/(1 − t³))^|E| − 1),   t = e^{−2π²·w},   w = 1/(1/σ_cor² + 2·deg/σ²)
//! ```
//!
//! with deg the largest degree and deviations in steps. ⌊S + D·U + ½⌋ is a random function of S, so
//! it costs what the theorem says.
//!
//! *Proof.* Let e = ⌊X + ½⌋ − X and f = ⌊V + ½⌋ − V. Q = S + e + D·f is integer and −e ∈ [−½, ½),
//! so Q = ⌊S + D·f + ½⌋: the same function of (S, f) as ⌊S + D·U + ½⌋ of (S, U). So the distance is
//! at most that of f given S from the uniform law. Given S, V is Gaussian with covariance C =
//! (I/σ_cor² + DᵀD/σ²)⁻¹; DᵀD has the eigenvalues of L_H and zeros, at most 2·deg, so C ≥ w·I.
//! Modulo 1 its density has Fourier coefficients of modulus exp(−2π²·nᵀCn) ≤ exp(−2π²w‖n‖²), n ∈
//! ℤ^E; all but that of n = 0 are the difference from uniform, so TV ≤ ½ Σ_{n≠0} Π t^{n_e²}, and
//! Σ_k t^{k²} ≤ 1 + 2t/(1 − t³) as k² ≥ 3k − 2. ∎
//!
//! Over K rounds of d coordinates the transcript is within τ = K·d·(that) of one that satisfies (ε,
//! δ₀), on either of two neighbours: (ε, δ₀ + (1 + e^ε)·τ).

use super::round::up;
use crate::graph::Graph;
use nalgebra::{Cholesky, DMatrix, DVector};

/// Relative slack on a resistance: matrices here have condition numbers below 10⁷, so computed
/// inverses are good to 10⁻⁸.
const SLACK: f64 = 1e-7;

/// Largest σ_cor/σ: beyond it nothing is gained, and the resistance would lose digits.
pub(crate) const MOST_CORRELATION: f64 = 64.0;

/// Most multiply-adds that a search of all coalitions may take; beyond it the branches bound it.
const SEARCH: f64 = 4e9;

/// Most agents for which a dense inverse is made.
const DENSE: usize = 1500;

/// How little of an agent's own noise a coalition has to see through, over all coalitions of c
/// agents and all agents outside.
#[derive(Clone, Debug, PartialEq)]
pub struct Exposure {
    /// The largest σ²·[Σ_H⁻¹]_ii, an upper bound: between 1/N and 1.
    pub resistance: f64,
    /// A coalition and an agent that attain it; `None` where it is a bound by proof.
    pub worst: Option<(Vec<u32>, u32)>,
}

/// (I + r·L_H)⁻¹ on the diagonal for every agent outside `coalition`, and 0 for those inside; plain
/// numbers, not rounded up.
///
/// One dense factorisation: for small graphs, reports and tests.
#[must_use]
pub fn resistances(graph: &Graph, coalition: &[u32], r: f64) -> Vec<f64> {
    let n = graph.agents();
    let inside = |i: u32| coalition.contains(&i);
    let mut m = DMatrix::<f64>::identity(n, n);
    for (a, b) in graph.iter_edges().filter(|&(a, b)| !inside(a) && !inside(b)) {
        add_edge(&mut m, a as usize, b as usize, r);
    }
    let inverse = Cholesky::new(m).map(|c| c.inverse());
    (0..n)
        .map(|i| if inside(i as u32) { 0.0 } else { inverse.as_ref().map_or(1.0, |g| g[(i, i)]) })
        .collect()
}

/// How a coalition weighs everybody's noise to guess that of `agent` best: the column of Σ_H⁻¹ that
/// belongs to it, over its own entry, and 0 for the coalition itself. The guess leaves noise of
/// variance σ²/[(I + r·L_H)⁻¹]_ii.
#[must_use]
pub(crate) fn best_guess(graph: &Graph, coalition: &[u32], agent: usize, r: f64) -> Vec<f64> {
    let n = graph.agents();
    let inside = |i: u32| coalition.contains(&i);
    let mut m = DMatrix::<f64>::identity(n, n);
    for (a, b) in graph.iter_edges().filter(|&(a, b)| !inside(a) && !inside(b)) {
        add_edge(&mut m, a as usize, b as usize, r);
    }
    let unit = DVector::from_fn(n, |i, _| if i == agent { 1.0 } else { 0.0 });
    let Some(column) = Cholesky::new(m).map(|c| c.solve(&unit)) else {
        return unit.iter().copied().collect();
    };
    (0..n).map(|i| if inside(i as u32) { 0.0 } else { column[i] / column[agent] }).collect()
}

fn add_edge(m: &mut DMatrix<f64>, a: usize, b: usize, r: f64) {
    m[(a, a)] += r;
    m[(b, b)] += r;
    m[(a, b)] -= r;
    m[(b, a)] -= r;
}

/// The worst that any `colluders` agents can see, with r = σ_cor²/σ²: exactly where a search of all
/// coalitions is affordable, else bounded by proof.
#[must_use]
pub fn worst(graph: &Graph, colluders: usize, r: f64) -> Exposure {
    let n = graph.agents();
    if colluders + 1 >= n {
        return Exposure { resistance: 1.0, worst: None };
    }
    let touched = (colluders * graph.max_degree()) as f64;
    let work = binomial(n, colluders) * n as f64 * (touched * touched + 1.0);
    if n <= DENSE && work <= SEARCH {
        searched(graph, colluders, r)
    } else {
        bounded(graph, colluders, r)
    }
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product()
}

/// Every coalition, by a small correction of one inverse: without the k edges U that touch A, (M −
/// r·UUᵀ)⁻¹ = G + GU(I/r − UᵀGU)⁻¹UᵀG.
fn searched(graph: &Graph, colluders: usize, r: f64) -> Exposure {
    let n = graph.agents();
    let mut m = DMatrix::<f64>::identity(n, n);
    for (a, b) in graph.iter_edges() {
        add_edge(&mut m, a as usize, b as usize, r);
    }
    let Some(g) = Cholesky::new(m).map(|c| c.inverse()) else {
        return Exposure { resistance: 1.0, worst: None };
    };
    let mut best = Exposure { resistance: 0.0, worst: None };
    let mut coalition: Vec<u32> = (0..colluders as u32).collect();
    loop {
        examine(graph, &g, &coalition, r, &mut best);
        if !next_subset(&mut coalition, n as u32) {
            break;
        }
    }
    best.resistance = up(best.resistance * (1.0 + SLACK)).min(1.0);
    best
}

fn examine(graph: &Graph, g: &DMatrix<f64>, coalition: &[u32], r: f64, best: &mut Exposure) {
    let inside = |i: u32| coalition.contains(&i);
    let edges: Vec<(usize, usize)> = coalition
        .iter()
        .flat_map(|&a| graph.neighbours(a as usize).iter().map(move |&b| (a, b)))
        .filter(|&(a, b)| !inside(b) || a < b)
        .map(|(a, b)| (a as usize, b as usize))
        .collect();
    let k = edges.len();
    let entry = |e: usize, f: usize| {
        let ((a, b), (c, d)) = (edges[e], edges[f]);
        let own = if e == f { 1.0 / r } else { 0.0 };
        own - (g[(a, c)] - g[(a, d)] - g[(b, c)] + g[(b, d)])
    };
    let small = (r > 0.0 && k > 0).then(|| Cholesky::new(DMatrix::from_fn(k, k, entry)));
    for i in (0..graph.agents()).filter(|&i| !inside(i as u32)) {
        let more = match &small {
            None => 0.0,
            // Rounding left nothing of the correction: nobody else is counted on then.
            Some(None) => 1.0,
            Some(Some(small)) => {
                let w = DVector::from_fn(k, |e, _| g[(edges[e].0, i)] - g[(edges[e].1, i)]);
                small.l_dirty().solve_lower_triangular(&w).map_or(1.0, |z| z.norm_squared())
            }
        };
        let resistance = g[(i, i)] + more;
        if resistance > best.resistance || resistance.is_nan() {
            *best = Exposure { resistance, worst: Some((coalition.to_vec(), i as u32)) };
        }
    }
}

/// The next subset of 0..n of the same size in lexicographic order.
fn next_subset(subset: &mut [u32], n: u32) -> bool {
    let k = subset.len() as u32;
    let Some(i) = (0..k).rev().find(|&i| subset[i as usize] < n - k + i) else { return false };
    subset[i as usize] += 1;
    for j in i as usize + 1..k as usize {
        subset[j] = subset[j - 1] + 1;
    }
    true
}

/// By disjoint branches, for every agent: a bound that holds for all coalitions at once.
fn bounded(graph: &Graph, colluders: usize, r: f64) -> Exposure {
    let least = (0..graph.agents())
        .map(|i| conductance(graph, i, colluders, r))
        .fold(f64::INFINITY, f64::min);
    Exposure { resistance: up((1.0 + SLACK) / least).min(1.0), worst: None }
}

/// At least this conductance joins agent `i` to the ground, whoever the colluders are.
fn conductance(graph: &Graph, i: usize, colluders: usize, r: f64) -> f64 {
    let n = graph.agents();
    let roots = graph.neighbours(i);
    // Breadth first from all neighbours of i at once: each agent joins the branch, and the parent,
    // that reaches it first.
    let (mut parent, mut branch) = (vec![usize::MAX; n], vec![usize::MAX; n]);
    let mut order: Vec<usize> = Vec::with_capacity(n);
    for (b, &root) in roots.iter().enumerate() {
        (branch[root as usize], parent[root as usize]) = (b, i);
        order.push(root as usize);
    }
    let mut head = 0;
    while head < order.len() {
        let at = order[head];
        head += 1;
        for &next in graph.neighbours(at) {
            let next = next as usize;
            if next != i && branch[next] == usize::MAX {
                (branch[next], parent[next]) = (branch[at], at);
                order.push(next);
            }
        }
    }
    // From the leaves: an agent's own conductance and, in series with an edge, those of its
    // children.
    let mut own = vec![1.0; n];
    let mut branches = vec![0.0; roots.len()];
    for &at in order.iter().rev() {
        let through = if r > 0.0 { r * own[at] / (r + own[at]) } else { 0.0 };
        if parent[at] == i { branches[branch[at]] = through } else { own[parent[at]] += through }
    }
    branches.sort_unstable_by(f64::total_cmp);
    1.0 + branches.iter().take(roots.len().saturating_sub(colluders)).sum::<f64>()
}

/// What δ pays for rounding every term by itself: one coordinate of one round, with deviations
/// `own` and `pairwise` in steps of the grid; rounded up.
#[must_use]
pub fn rounding_distance(edges: usize, degree: usize, own: f64, pairwise: f64) -> f64 {
    let w = 1.0 / (1.0 / (pairwise * pairwise) + 2.0 * degree as f64 / (own * own));
    let t = libm::exp(-2.0 * std::f64::consts::PI * std::f64::consts::PI * w * (1.0 - 1e-9));
    if t >= 0.5 {
        return 1.0;
    }
    up(0.5 * libm::expm1(edges as f64 * libm::log1p(2.0 * t / (1.0 - t * t * t)))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(n: u32) -> Graph {
        Graph::from_edges(n as usize, &(0..n).map(|i| (i, (i + 1) % n)).collect::<Vec<_>>())
            .unwrap()
    }

    fn complete(n: u32) -> Graph {
        let edges: Vec<_> = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
        Graph::from_edges(n as usize, &edges).unwrap()
    }

    #[test]
    fn the_correction_finds_what_a_factorisation_of_each_coalition_finds() {
        for graph in [
            ring(7),
            complete(6),
            Graph::from_edges(5, &[(0, 1), (1, 2), (2, 3), (3, 4), (1, 3)]).unwrap(),
        ] {
            for colluders in 0..4 {
                for r in [0.0, 0.3, 7.0, 4000.0] {
                    let mut coalition: Vec<u32> = (0..colluders as u32).collect();
                    let mut largest = 0.0f64;
                    loop {
                        largest =
                            resistances(&graph, &coalition, r).into_iter().fold(largest, f64::max);
                        if !next_subset(&mut coalition, graph.agents() as u32) {
                            break;
                        }
                    }
                    let found = worst(&graph, colluders, r);
                    assert!(
                        found.resistance >= largest.min(1.0 - 1e-12),
                        "{} < {largest}",
                        found.resistance
                    );
                    assert!(
                        found.resistance <= largest * (1.0 + 3e-7) + 1e-12,
                        "{} > {largest}",
                        found.resistance
                    );
                    let bound = bounded(&graph, colluders, r).resistance;
                    assert!(
                        bound >= largest.min(1.0 - 1e-12),
                        "the bound {bound} is below {largest}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_complete_graph_hides_an_agent_among_all_honest_ones() {
        // (I + r·L)⁻¹ of a complete graph of m: 1/m for the constant vector, 1/(1 + rm) for all
        // others.
        let (m, r) = (8.0, 50.0);
        let found = worst(&complete(10), 2, r).resistance;
        let exact = 1.0 / m + (1.0 - 1.0 / m) / (1.0 + r * m);
        assert!((found / exact - 1.0).abs() < 1e-6, "{found} {exact}");
    }

    #[test]
    fn an_agent_whose_neighbours_all_collude_has_its_own_noise_only() {
        let exposure = worst(&ring(9), 2, 100.0);
        assert!((exposure.resistance - 1.0).abs() < 1e-9);
        assert_eq!(worst(&ring(9), 8, 100.0).resistance, 1.0);
    }

    #[test]
    fn rounding_costs_nothing_worth_mentioning_on_the_grids_in_use() {
        assert!(rounding_distance(5000, 99, 1024.0, 1024.0) < 1e-200);
        assert!(
            rounding_distance(10, 4, 1024.0, 0.01) == 1.0,
            "pairwise noise below a step proves nothing"
        );
    }
}
