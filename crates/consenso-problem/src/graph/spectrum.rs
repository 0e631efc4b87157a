//! Eigenvalues that step-size rules and convergence rates need.
//!
//! With the Laplacian `L = diag(n_i) − A` of a connected graph, eigenvalues are
//! `0 = λ_1 < λ_2 ≤ … ≤ λ_max`. Up to [`DENSE_AGENTS`] agents they come from a dense symmetric
//! eigensolver; above, from Lanczos iterations orthogonal to the constant vector. Those approach
//! each end of the spectrum *from inside*, so a rule that must not be fooled uses the bounds beside
//! the estimates, which hold for every graph:
//!
//! - `λ_max ≤ N`, `λ_max ≤ max over edges of n_i + n_j`, and `λ_max ≤ max_i (Qv)_i / v_i` for every
//!   positive v, where `Q = diag(n_i) + A` (Collatz–Wielandt; the spectral radius of Q is at least
//!   that of L);
//! - `λ_2 ≥ 4 / (N · diameter)` (Mohar).

use super::{Graph, Mixing};
use crate::random::{Purpose, Seed};
use nalgebra::DMatrix;
use rand::RngExt;

/// The most agents whose spectrum is computed densely.
pub const DENSE_AGENTS: usize = 300;

/// Lanczos stops when its residual is below this fraction of the operator's norm.
pub const TOLERANCE: f64 = 1e-8;

/// The most Lanczos steps; without convergence by then the residual says so.
const LANCZOS_STEPS: usize = 256;

/// Power iterations that sharpen the upper bound on `λ_max`.
const BOUND_STEPS: usize = 200;

/// An eigenvalue as computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Eigenvalue {
    /// The value.
    pub value: f64,
    /// An eigenvalue lies within this distance of the value: rounding for the dense solver, the
    /// residual for Lanczos. Lanczos values may still be short of the extreme eigenvalue when this
    /// is not small.
    pub residual: f64,
}

/// The ends of a Laplacian's spectrum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaplacianSpectrum {
    /// λ_2, the algebraic connectivity. For large graphs an estimate from above.
    pub connectivity: Eigenvalue,
    /// A value that λ_2 is never below, though it may be far above it.
    pub connectivity_lower_bound: f64,
    /// λ_max. For large graphs an estimate from below.
    pub largest: Eigenvalue,
    /// A value that λ_max never exceeds: what a stability rule must use.
    pub largest_upper_bound: f64,
}

impl Graph {
    /// λ_2 and λ_max of the Laplacian, with bounds that hold whatever the numerics did.
    #[must_use]
    pub fn laplacian_spectrum(&self) -> LaplacianSpectrum {
        let n = self.agents();
        if n == 1 {
            // One agent is connected to all there are; its Laplacian is 0.
            let zero = Eigenvalue { value: 0.0, residual: 0.0 };
            return LaplacianSpectrum {
                connectivity: zero,
                connectivity_lower_bound: 0.0,
                largest: zero,
                largest_upper_bound: 0.0,
            };
        }
        let crude = self.laplacian_bound();
        let (connectivity, largest) = if n <= DENSE_AGENTS {
            let (values, residual) =
                dense_spectrum(n, |i, j| if i == j { self.degree(i) as f64 } else { -1.0 }, self);
            (
                Eigenvalue { value: values[1].max(0.0), residual },
                Eigenvalue { value: values[n - 1], residual },
            )
        } else {
            lanczos(n, self.neighbours.len(), crude, |x, out| self.apply_laplacian(x, out))
        };
        let mut upper = self.laplacian_upper_bound();
        let mut lower = self.mohar_bound();
        if n <= DENSE_AGENTS {
            upper = upper.min(largest.value + largest.residual);
            lower = lower.max(connectivity.value - connectivity.residual);
        }
        LaplacianSpectrum {
            connectivity,
            connectivity_lower_bound: lower,
            largest,
            largest_upper_bound: upper,
        }
    }

    /// `min(N, max over edges of n_i + n_j)`, an exact integer that λ_max never exceeds; O(|E|). It
    /// is at most 2·n_max.
    #[must_use]
    pub fn laplacian_bound(&self) -> f64 {
        let edges =
            self.iter_edges().map(|(a, b)| self.degree(a as usize) + self.degree(b as usize));
        edges.max().unwrap_or(0).min(self.agents()) as f64
    }

    /// The sharpest of the bounds on λ_max that hold for every graph and at every size, without any
    /// eigensolver: what a stability rule needs when it needs nothing else.
    #[must_use]
    pub fn laplacian_upper_bound(&self) -> f64 {
        self.laplacian_bound().min(self.collatz_wielandt_bound())
    }

    /// `max_i (Qv)_i / v_i` for a positive v that power iteration on `Q = diag(n_i) + A` drives
    /// towards its Perron vector: an upper bound on λ_max at every step, rounded up.
    fn collatz_wielandt_bound(&self) -> f64 {
        let n = self.agents();
        let mut v: Vec<f64> = (0..n).map(|i| self.degree(i) as f64).collect();
        let mut next = vec![0.0; n];
        let mut best = f64::INFINITY;
        // A row of k positive terms is summed with a relative error below (k + 3)·2^-53.
        let slack = 1.0 + (self.max_degree() + 4) as f64 * f64::EPSILON;
        let mut milestone = f64::INFINITY;
        for step in 1..=bounded_steps(BOUND_STEPS, self.neighbours.len()) {
            let mut worst: f64 = 0.0;
            let mut scale: f64 = 0.0;
            for (i, out) in next.iter_mut().enumerate() {
                let row: f64 = self.neighbours(i).iter().map(|&j| v[j as usize]).sum();
                *out = self.degree(i) as f64 * v[i] + row;
                worst = worst.max(*out / v[i]);
                scale = scale.max(*out);
            }
            best = best.min(worst * slack);
            // Stopping early is always sound; 16 steps for less than a millionth are not worth
            // their time.
            if step % 16 == 0 && best > milestone * (1.0 - 1e-6) {
                break;
            } else if step % 16 == 0 {
                milestone = best;
            }
            // Entries must stay positive and normal for the bound to hold: a long path's ends
            // shrink by a factor a hop.
            for (v, out) in v.iter_mut().zip(&next) {
                *v = (*out / scale).max(1e-200);
            }
        }
        best
    }

    /// Mohar's `4 / (N · diameter)`, with twice one agent's eccentricity in place of the diameter.
    fn mohar_bound(&self) -> f64 {
        let n = self.agents();
        let diameter = 2 * self.eccentricity(0, &mut vec![0; n]);
        4.0 / (n as f64 * diameter as f64) * (1.0 - 4.0 * f64::EPSILON)
    }

    fn apply_laplacian(&self, x: &[f64], out: &mut [f64]) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = self.neighbours(i).iter().map(|&j| x[i] - x[j as usize]).sum();
        }
    }
}

impl Mixing {
    /// The smallest and the second largest eigenvalue of W (the largest is the 1 of the constant
    /// vector). For large graphs estimates from inside.
    ///
    /// # Panics
    /// If `graph` is not the graph these weights were made from.
    #[must_use]
    pub fn spectrum(&self, graph: &Graph) -> (Eigenvalue, Eigenvalue) {
        let n = graph.agents();
        assert_eq!(self.agents(), n, "weights belong to another graph");
        if n > DENSE_AGENTS {
            return lanczos(n, graph.neighbours.len(), 1.0, |x, out| self.apply(graph, x, out));
        }
        let entry = |i: usize, j: usize| {
            let at = graph.neighbours(i).binary_search(&(j as u32));
            at.map_or_else(|_| self.own(i), |at| self.neighbours(i)[at])
        };
        let (values, residual) = dense_spectrum(n, entry, graph);
        // One agent alone has nobody to mix with.
        let at = |k: usize| Eigenvalue { value: if n < 2 { 0.0 } else { values[k] }, residual };
        (at(0), at(n.saturating_sub(2)))
    }

    /// The second largest eigenvalue of W in absolute value: gossip shrinks disagreement by this
    /// factor a round. For large graphs an estimate from below.
    ///
    /// # Panics
    /// If `graph` is not the graph these weights were made from.
    #[must_use]
    pub fn second_eigenvalue(&self, graph: &Graph) -> Eigenvalue {
        let (low, high) = self.spectrum(graph);
        let larger = if low.value.abs() > high.value.abs() { low } else { high };
        Eigenvalue { value: larger.value.abs(), ..larger }
    }

    /// The spectral gap `1 − |λ|` of the second largest eigenvalue λ in absolute value.
    ///
    /// # Panics
    /// If `graph` is not the graph these weights were made from.
    #[must_use]
    pub fn spectral_gap(&self, graph: &Graph) -> Eigenvalue {
        let second = self.second_eigenvalue(graph);
        Eigenvalue { value: 1.0 - second.value, residual: second.residual }
    }

    fn apply(&self, graph: &Graph, x: &[f64], out: &mut [f64]) {
        for (i, out) in out.iter_mut().enumerate() {
            let row = graph.neighbours(i).iter().zip(self.neighbours(i));
            *out = self.own(i) * x[i] + row.map(|(&j, w)| w * x[j as usize]).sum::<f64>();
        }
    }
}

/// All eigenvalues, ascending, of the matrix with these entries on the diagonal and the graph's
/// edges, and a bound on their error: the solver is backward stable, so a multiple of N·ε times the
/// norm, here with a wide margin.
fn dense_spectrum(n: usize, entry: impl Fn(usize, usize) -> f64, graph: &Graph) -> (Vec<f64>, f64) {
    let mut matrix = DMatrix::<f64>::zeros(n, n);
    for i in 0..n {
        matrix[(i, i)] = entry(i, i);
        for &j in graph.neighbours(i) {
            matrix[(i, j as usize)] = entry(i, j as usize);
        }
    }
    let norm =
        matrix.row_iter().map(|row| row.iter().map(|x| x.abs()).sum::<f64>()).fold(0.0, f64::max);
    let mut values: Vec<f64> = matrix.symmetric_eigenvalues().iter().copied().collect();
    values.sort_unstable_by(f64::total_cmp);
    (values, 64.0 * n as f64 * f64::EPSILON * norm)
}

/// Fewer steps for huge graphs: about 4·10^8 adjacency entries in all, some seconds, but at least
/// 20 steps. Bounds hold after any number of steps and residuals say what is missing.
fn bounded_steps(steps: usize, entries: usize) -> usize {
    steps.min((400_000_000 / entries.max(1)).max(20))
}

/// The smallest and largest eigenvalue, on the space orthogonal to the constant vector, of a
/// symmetric operator of at most this `norm`, with so many `entries`, that maps that space into
/// itself.
///
/// Plain Lanczos: without reorthogonalisation converged values may appear more than once, which
/// does not disturb the extremes, and memory stays at three vectors whatever the number of steps.
fn lanczos(
    n: usize,
    entries: usize,
    norm: f64,
    mut apply: impl FnMut(&[f64], &mut [f64]),
) -> (Eigenvalue, Eigenvalue) {
    // The start is random so that it has a part along every eigenvector, and fixed so that results
    // repeat.
    let mut rng = Seed::from(0).stream(Purpose::Graph, u64::MAX, 0);
    let mut previous = vec![0.0; n];
    let mut current: Vec<f64> = (0..n).map(|_| rng.random_range(-1.0..1.0)).collect();
    let mut next = vec![0.0; n];
    project_and_normalise(&mut current);
    let (mut alpha, mut beta) = (Vec::new(), Vec::new());
    let steps = bounded_steps(LANCZOS_STEPS, entries).min(n - 1);
    loop {
        apply(&current, &mut next);
        let a = dot(&current, &next);
        let b_previous = beta.last().copied().unwrap_or(0.0);
        for ((next, current), previous) in next.iter_mut().zip(&current).zip(&previous) {
            *next -= a * current + b_previous * previous;
        }
        let b = project_and_normalise(&mut next);
        alpha.push(a);
        // An invariant subspace: every eigenvalue the start can see is found.
        let exhausted = b <= f64::EPSILON * norm;
        let check = alpha.len().is_multiple_of(32) || alpha.len() == steps || exhausted;
        if check {
            let ends = tridiagonal_ends(&alpha, &beta, b, norm);
            let converged = ends.0.residual.max(ends.1.residual) <= TOLERANCE * norm;
            if converged || alpha.len() == steps || exhausted {
                return ends;
            }
        }
        beta.push(b);
        std::mem::swap(&mut previous, &mut current);
        std::mem::swap(&mut current, &mut next);
    }
}

/// The extreme eigenvalues of Lanczos's tridiagonal matrix, with residuals
/// `b·|last entry of the eigenvector|`.
fn tridiagonal_ends(alpha: &[f64], beta: &[f64], b: f64, norm: f64) -> (Eigenvalue, Eigenvalue) {
    let m = alpha.len();
    let mut matrix = DMatrix::<f64>::zeros(m, m);
    for i in 0..m {
        matrix[(i, i)] = alpha[i];
        if i + 1 < m {
            matrix[(i, i + 1)] = beta[i];
            matrix[(i + 1, i)] = beta[i];
        }
    }
    let eigen = matrix.symmetric_eigen();
    let floor = 64.0 * m as f64 * f64::EPSILON * norm;
    let estimate = |k: usize| Eigenvalue {
        value: eigen.eigenvalues[k],
        residual: (b * eigen.eigenvectors[(m - 1, k)].abs()).max(floor),
    };
    (estimate(eigen.eigenvalues.imin()), estimate(eigen.eigenvalues.imax()))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Removes the mean, scales to length 1 and returns the length. A zero vector is left as it is.
fn project_and_normalise(x: &mut [f64]) -> f64 {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    x.iter_mut().for_each(|x| *x -= mean);
    let length = dot(x, x).sqrt();
    if length > 0.0 {
        x.iter_mut().for_each(|x| *x /= length);
    }
    length
}
