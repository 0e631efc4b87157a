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
//! **Messages of one round need not be sent at one time.** A may keep its message of round k − 1
//! back from agent j until it has seen agent i's of round k, so that j's public part and step depend
//! on q_i, which holds v_ij. The bound is the same. Let Z = n + D·v be the noise of a round over H,
//! with covariance Σ_H and independent of other rounds'. When agent j ≠ i sends, what it adds to Z_j
//! is a function of what was sent before and of its own records, alike on both data sets: whoever
//! knows these reads Z_j itself. So on both data sets Z is shown one agent after the other, in an
//! order that may depend on what was shown, but for Z_i, which is shown moved by a t with ‖t‖₂ ≤ Δ_k
//! that is a function of what was shown before. Let B be those shown before i, and R all others of
//! H, i among them. Given Z_B, Z_R is Gaussian with the precision matrix (Σ_H⁻¹)_RR: conditioning
//! takes rows and columns of a precision matrix away and leaves the rest as it is. So the vector
//! that is shown from here on, Z_R + t·e_i, costs μ_k² = ‖t‖₂²·[(Σ_H⁻¹)_RR]_ii = ‖t‖₂²·[Σ_H⁻¹]_ii,
//! whatever B is and whatever was shown. Give A all of it at once when i sends: it can then compute
//! whatever is sent under this round later. So agent i's releases are mechanisms one after the other,
//! each μ_k-GDP given all before, however the rounds of the others lie between; they compose as
//! above. ∎
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
//! # Own noise of each agent's own
//!
//! A leaf whose only neighbour colludes hides itself, whatever the others do. Were all to have the
//! noise that it needs, one leaf would take from everybody what edges give. So agents have own
//! noises σ_i, and Σ_H = diag(σ_j²) + σ_cor²·L_H in the theorem, whose proof uses no more of it.
//!
//! **Lemma.** Let V be the variance that is to hide everybody, s² ≤ V, σ_cor² = r·s², and R_i the
//! largest resistance of agent i at this r over all coalitions. With
//!
//! ```text
//! σ_i² = max(s², V − s²·(1/R_i − 1))
//! ```
//!
//! every agent is hidden by a variance 1/[Σ_H⁻¹]_ii of at least V.
//!
//! *Proof.* 1/[Σ_H⁻¹]_ii = σ_i² + x_i with x_i = σ_cor²·deg_H(i) − bᵀM⁻¹b (Schur), where M is Σ_H
//! without row and column i, and b the rest of that column. x_i does not depend on σ_i. All others
//! have σ_j ≥ s, so that M is at least what it is where all have s, its inverse at most, and x_i at
//! least. Where all have s, σ_i² + x_i = s²/R with R ≤ R_i, so x_i ≥ s²(1/R_i − 1). ∎
//!
//! All messages and all noises of edges live on one grid, and both ends of an edge must draw with the
//! same σ_cor: it is a multiple of s, not of an agent's own noise. The noise of the network's mean is
//! Σ σ_i². In u = s²/V it is Σ max(u, 1 − u·(1/R_i − 1)), convex and linear between the R_i: one of
//! these is the best u ([`divide`]).
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
//! with deg the largest degree and deviations in steps, σ the least of the agents' own. ⌊S + D·U + ½⌋
//! is a random function of S, so it costs what the theorem says.
//!
//! *Proof.* Let e = ⌊X + ½⌋ − X and f = ⌊V + ½⌋ − V. Q = S + e + D·f is integer and −e ∈ [−½, ½),
//! so Q = ⌊S + D·f + ½⌋: the same function of (S, f) as ⌊S + D·U + ½⌋ of (S, U). So the distance is
//! at most that of f given S from the uniform law. Given S, V is Gaussian with covariance C =
//! (I/σ_cor² + Dᵀdiag(1/σ_i²)D)⁻¹ ≥ (I/σ_cor² + DᵀD/σ²)⁻¹; DᵀD has the eigenvalues of L_H and
//! zeros, at most 2·deg, so C ≥ w·I.
//! Modulo 1 its density has Fourier coefficients of modulus exp(−2π²·nᵀCn) ≤ exp(−2π²w‖n‖²), n ∈
//! ℤ^E; all but that of n = 0 are the difference from uniform, so TV ≤ ½ Σ_{n≠0} Π t^{n_e²}, and
//! Σ_k t^{k²} ≤ 1 + 2t/(1 − t³) as k² ≥ 3k − 2. ∎
//!
//! Over K rounds of d coordinates the transcript is within τ = K·d·(that) of one that satisfies (ε,
//! δ₀), on either of two neighbours: (ε, δ₀ + (1 + e^ε)·τ).

use super::Graph;
use consenso_dp::round::up;
use nalgebra::{Cholesky, DMatrix, DVector};

/// Relative slack on a resistance: matrices here have condition numbers below 10⁷, so computed
/// inverses are good to 10⁻⁸.
const SLACK: f64 = 1e-7;

/// Largest σ_cor/σ: beyond it nothing is gained, and the resistance would lose digits.
pub const MOST_CORRELATION: f64 = 64.0;

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
    /// The largest over all coalitions, agent by agent; upper bounds.
    pub by_agent: Vec<f64>,
}

/// Σ_H of the agents outside `coalition`, in units of s²: `own` is σ_i²/s² by agent. Rows of the
/// coalition hold their own noise only.
fn covariance(graph: &Graph, coalition: &[u32], own: &[f64], r: f64) -> DMatrix<f64> {
    let inside = |i: u32| coalition.contains(&i);
    let mut m = DMatrix::<f64>::from_diagonal(&DVector::from_column_slice(own));
    for (a, b) in graph.iter_edges().filter(|&(a, b)| !inside(a) && !inside(b)) {
        add_edge(&mut m, a as usize, b as usize, r);
    }
    m
}

/// s²·[Σ_H⁻¹]_ii for every agent outside `coalition`, and 0 for those inside: `own` is σ_i²/s² by
/// agent and r = σ_cor²/s². Plain numbers, not rounded up.
///
/// One dense factorisation: for small graphs, reports and tests.
#[must_use]
pub fn resistances(graph: &Graph, coalition: &[u32], own: &[f64], r: f64) -> Vec<f64> {
    let inverse = Cholesky::new(covariance(graph, coalition, own, r)).map(|c| c.inverse());
    let one = |i: usize| inverse.as_ref().map_or(1.0 / own[i], |g| g[(i, i)]);
    let inside = |i: usize| coalition.contains(&(i as u32));
    (0..graph.agents()).map(|i| if inside(i) { 0.0 } else { one(i) }).collect()
}

/// How a coalition weighs everybody's noise to guess that of `agent` best: the column of Σ_H⁻¹ that
/// belongs to it, over its own entry, and 0 for the coalition itself. The guess leaves noise of
/// variance s² over the agent's [`resistances`].
#[must_use]
pub fn best_guess(graph: &Graph, coalition: &[u32], agent: usize, own: &[f64], r: f64) -> Vec<f64> {
    let n = graph.agents();
    let inside = |i: u32| coalition.contains(&i);
    let unit = DVector::from_fn(n, |i, _| if i == agent { 1.0 } else { 0.0 });
    let factor = Cholesky::new(covariance(graph, coalition, own, r));
    let Some(column) = factor.map(|c| c.solve(&unit)) else {
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
        return Exposure::alone(n);
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

impl Exposure {
    /// Nobody hides anybody else.
    fn alone(agents: usize) -> Self {
        Self { resistance: 1.0, worst: None, by_agent: vec![1.0; agents] }
    }

    /// Takes in what a coalition sees of an agent.
    fn see(&mut self, resistance: f64, coalition: &[u32], agent: usize) {
        let resistance = if resistance.is_nan() { 1.0 } else { resistance };
        self.by_agent[agent] = self.by_agent[agent].max(resistance);
        if resistance > self.resistance {
            (self.resistance, self.worst) = (resistance, Some((coalition.to_vec(), agent as u32)));
        }
    }

    /// The worse of two graphs of the same agents, agent by agent.
    #[must_use]
    pub fn worse(mut self, other: Self) -> Self {
        for (one, other) in self.by_agent.iter_mut().zip(&other.by_agent) {
            *one = one.max(*other);
        }
        // Of equals the later one.
        if other.resistance >= self.resistance {
            (self.resistance, self.worst) = (other.resistance, other.worst);
        }
        self
    }

    /// Rounds everything up by what a computed inverse may be off.
    fn rounded_up(mut self) -> Self {
        let rounded = |r: f64| up(r * (1.0 + SLACK)).min(1.0);
        self.resistance = rounded(self.resistance);
        self.by_agent.iter_mut().for_each(|r| *r = rounded(*r));
        self
    }
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
        return Exposure::alone(n);
    };
    let mut best = Exposure { resistance: 0.0, worst: None, by_agent: vec![0.0; n] };
    let mut coalition: Vec<u32> = (0..colluders as u32).collect();
    loop {
        examine(graph, &g, &coalition, r, &mut best);
        if !next_subset(&mut coalition, n as u32) {
            break;
        }
    }
    best.rounded_up()
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
        best.see(g[(i, i)] + more, coalition, i);
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
    let n = graph.agents();
    let by_agent: Vec<f64> =
        (0..n).map(|i| up((1.0 + SLACK) / conductance(graph, i, colluders, r)).min(1.0)).collect();
    let resistance = by_agent.iter().copied().fold(0.0, f64::max);
    Exposure { resistance, worst: None, by_agent }
}

/// Own noise of each agent's own that hides everybody alike.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnNoiseSplit {
    /// s²/V: what σ_cor is measured by.
    pub base: f64,
    /// σ_i²/V by agent, all at least `base`.
    pub own: Vec<f64>,
}

/// Divides what hides all agents, so that their own noises add up to as little as may be:
/// `resistances` are upper bounds of R_i, by agent.
///
/// `None` where agents hardly differ: all have the largest R_i of the variance then.
#[must_use]
pub fn divide(resistances: &[f64]) -> Option<OwnNoiseSplit> {
    let least = resistances.iter().copied().fold(f64::INFINITY, f64::min);
    let most = resistances.iter().copied().fold(0.0, f64::max);
    if !(least > 0.0 && most > least * (1.0 + 10.0 * SLACK)) {
        return None;
    }
    let resistances: Vec<f64> = resistances.iter().map(|&r| coarse_up(r)).collect();
    let mut sorted = resistances.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    // Agents from the k-th on need more than the base; `more` is the sum of their 1/R_i − 1.
    let mut more: f64 = sorted.iter().map(|r| 1.0 / r - 1.0).sum();
    let (mut best, mut base) = (f64::INFINITY, 1.0);
    for (k, &r) in sorted.iter().enumerate() {
        more -= 1.0 / r - 1.0;
        let total = (k + 1) as f64 * r + (sorted.len() - k - 1) as f64 - r * more;
        if total < best {
            (best, base) = (total, r);
        }
    }
    let own = |r: f64| base.max(1.0 - base * (1.0 / r - 1.0) * (1.0 - 1e-12));
    let own = resistances.iter().map(|&r| up(own(r) * (1.0 + 1e-12)).max(base)).collect();
    Some(OwnNoiseSplit { base, own })
}

/// Rounds up to 12 binary digits, so that agents who are hidden almost alike have one noise.
fn coarse_up(r: f64) -> f64 {
    const DROPPED: u64 = (1 << 40) - 1;
    f64::from_bits((r.to_bits() + DROPPED) & !DROPPED).min(1.0)
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
                        largest = resistances(&graph, &coalition, &vec![1.0; graph.agents()], r)
                            .into_iter()
                            .fold(largest, f64::max);
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

    /// [Σ⁻¹]_ii by elimination, sharing nothing with the searches above.
    fn entry_of_inverse(mut m: Vec<Vec<f64>>, i: usize) -> f64 {
        let n = m.len();
        let mut x: Vec<f64> = (0..n).map(|k| if k == i { 1.0 } else { 0.0 }).collect();
        for k in 0..n {
            for row in (0..n).filter(|&row| row != k) {
                let factor = m[row][k] / m[k][k];
                let lead = m[k].clone();
                m[row].iter_mut().zip(&lead).for_each(|(a, b)| *a -= factor * b);
                x[row] -= factor * x[k];
            }
        }
        x[i] / m[i][i]
    }

    /// All connected graphs of so many agents.
    fn connected(n: u32) -> Vec<Graph> {
        let pairs: Vec<(u32, u32)> = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).collect();
        let edges = |mask: u32| -> Vec<(u32, u32)> {
            (0..pairs.len()).filter(|i| mask >> i & 1 == 1).map(|i| pairs[i]).collect()
        };
        let graphs = (0..1u32 << pairs.len()).map(|m| Graph::from_edges(n as usize, &edges(m)));
        graphs.filter_map(Result::ok).collect()
    }

    /// On all connected graphs of up to five agents and on larger irregular ones: whoever colludes,
    /// everybody is hidden by the whole variance, and all agents together add no more noise than
    /// when everybody had the worst agent's.
    #[test]
    fn own_noises_hide_every_agent_from_every_coalition() {
        let mut graphs: Vec<Graph> = (3..=5).flat_map(connected).collect();
        for edges in [9, 11, 14, 18] {
            let spec = crate::graph::GraphSpec::Random { edges };
            graphs.push(spec.build(8, &crate::random::Seed::from(edges as u64)).unwrap());
        }
        let (mut divided, mut spared) = (0, 1.0f64);
        for graph in &graphs {
            let n = graph.agents();
            for (colluders, r) in (0..n - 1).flat_map(|c| [(c, 0.3), (c, 4.0), (c, 4096.0)]) {
                for exposure in [worst(graph, colluders, r), bounded(graph, colluders, r)] {
                    let Some(OwnNoiseSplit { base, own }) = divide(&exposure.by_agent) else {
                        continue;
                    };
                    divided += 1;
                    let (all, before) = (own.iter().sum::<f64>(), n as f64 * exposure.resistance);
                    assert!(all <= before * 1.001, "{graph:?} {colluders} {r}: {all} > {before}");
                    spared = spared.min(all / before);
                    for set in (0..1u32 << n).filter(|s| s.count_ones() as usize == colluders) {
                        let honest: Vec<usize> = (0..n).filter(|i| set >> i & 1 == 0).collect();
                        let entry = |&a: &usize, &b: &usize| {
                            let edges = graph.neighbours(a).iter().map(|&j| j as usize);
                            let edges: Vec<usize> = edges.filter(|j| set >> j & 1 == 0).collect();
                            if a == b {
                                own[a] + r * base * edges.len() as f64
                            } else if edges.contains(&b) {
                                -r * base
                            } else {
                                0.0
                            }
                        };
                        let rows =
                            honest.iter().map(|a| honest.iter().map(|b| entry(a, b)).collect());
                        let sigma: Vec<Vec<f64>> = rows.collect();
                        for i in 0..honest.len() {
                            let hidden = 1.0 / entry_of_inverse(sigma.clone(), i);
                            assert!(hidden >= 1.0 - 1e-7, "{graph:?} {set:b} {r}: {hidden}");
                        }
                    }
                }
            }
        }
        assert!(divided > 200 && spared < 0.5, "{divided} {spared}");
    }

    #[test]
    fn a_leaf_does_not_cost_the_others_what_their_edges_give() {
        // Nine in a clique and a leaf, one colluder: only the leaf hides itself.
        let mut edges: Vec<_> = (0..9u32).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
        edges.push((9, 0));
        let graph = Graph::from_edges(10, &edges).unwrap();
        let exposure = worst(&graph, 1, 4096.0);
        assert_eq!(exposure.resistance, 1.0);
        let OwnNoiseSplit { own, .. } = divide(&exposure.by_agent).unwrap();
        assert!((own[9] - 1.0).abs() < 1e-3 && own[1] < 0.15, "{own:?}");
        assert!(own.iter().sum::<f64>() < 2.3, "of 10 before: {own:?}");
        assert_eq!(divide(&worst(&ring(8), 1, 9.0).by_agent), None, "a ring is regular");
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
