//! How the bins of a number are measured: what is released is C·x of the bins' counts x, and x is
//! recovered by least squares, x̂ = (CᵀC)⁻¹Cᵀy, so that Var(wᵀx̂) = σ²·wᵀ(CᵀC)⁻¹w.
//!
//! | strategy | C | best for |
//! |---|---|---|
//! | flat | the bins themselves | single bins |
//! | tree | the bins, and sums of `branching` neighbours, level by level | ranges of all lengths |
//! | root | the square root of the prefix sums: C·C is the matrix of all prefix sums | distribution functions, quantiles, survival |
//!
//! The noise that a strategy needs grows with its longest column. [`Strategy::best`] compares what
//! the questions would get of each, from public numbers alone.

use crate::linear;
use serde::{Deserialize, Serialize};

/// Which sums of bins are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Every bin.
    Flat,
    /// Every bin and sums of so many neighbours, level by level.
    Tree(usize),
    /// The square root of the prefix sums.
    Root,
}

/// A strategy for so many bins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) strategy: Strategy,
    pub(crate) bins: usize,
    /// C, row by row.
    matrix: Vec<f64>,
    rows: usize,
    /// (CᵀC)⁻¹.
    gram_inverse: Vec<f64>,
    /// Var of the sum of the first k bins over σ², and its covariance with the sum of all.
    prefixes: Vec<[f64; 2]>,
}

impl Strategy {
    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Flat => "flat".into(),
            Self::Tree(branching) => format!("tree of {branching}"),
            Self::Root => "prefix root".into(),
        }
    }

    /// The strategy with the least mean variance of these functionals for the same privacy.
    pub(crate) fn best(bins: usize, functionals: &[Vec<f64>]) -> Measured {
        let all = [Self::Flat, Self::Tree(4), Self::Tree(8), Self::Tree(16), Self::Root];
        let loss = |m: &Measured| {
            let total: f64 = functionals.iter().map(|w| m.variance(w)).sum();
            total * m.longest()
        };
        let mut measured = all.into_iter().map(|s| Measured::new(s, bins));
        let first = measured.next().unwrap_or_else(|| Measured::new(Self::Flat, bins));
        let least = loss(&first);
        measured
            .fold((first, least), |(best, least), next| {
                let of_next = loss(&next);
                if of_next < least { (next, of_next) } else { (best, least) }
            })
            .0
    }
}

impl Measured {
    pub(crate) fn new(strategy: Strategy, bins: usize) -> Self {
        let matrix = match strategy {
            Strategy::Flat => identity(bins),
            Strategy::Tree(branching) => tree(bins, branching.max(2)),
            Strategy::Root => root(bins),
        };
        let rows = matrix.len() / bins;
        let gram_inverse = match strategy {
            Strategy::Flat => identity(bins),
            _ => {
                let mut gram = vec![0.0; bins * bins];
                for row in matrix.chunks_exact(bins) {
                    for (i, a) in row.iter().enumerate().filter(|(_, a)| **a != 0.0) {
                        row.iter().zip(&mut gram[i * bins..]).for_each(|(b, g)| *g += a * b);
                    }
                }
                // Every strategy holds the bins themselves or is triangular.
                linear::inverse(&gram, bins).unwrap_or_else(|| identity(bins))
            }
        };
        let prefixes = prefixes(&gram_inverse, bins);
        Self { strategy, bins, matrix, rows, gram_inverse, prefixes }
    }

    /// Var(the sum of the first k bins − q times that of all)/σ².
    pub(crate) fn prefix_variance(&self, k: usize, q: f64) -> f64 {
        let ([own, with_all], [all, _]) = (self.prefixes[k], self.prefixes[self.bins]);
        (own - 2.0 * q * with_all + q * q * all).max(0.0)
    }

    /// How many numbers are released.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The square of the longest column: how far one record moves C·x.
    pub(crate) fn longest(&self) -> f64 {
        (0..self.bins).map(|k| self.column(k).map(|a| a * a).sum()).fold(0.0, f64::max)
    }

    /// The largest sum of a column's entries.
    pub(crate) fn most(&self) -> f64 {
        (0..self.bins).map(|k| self.column(k).map(f64::abs).sum()).fold(0.0, f64::max)
    }

    fn column(&self, k: usize) -> impl Iterator<Item = f64> + '_ {
        self.matrix.iter().skip(k).step_by(self.bins).copied()
    }

    /// Writes C·x.
    pub(crate) fn measure(&self, counts: &[f64], out: &mut [f64]) {
        for (row, out) in self.matrix.chunks_exact(self.bins).zip(out) {
            *out = row.iter().zip(counts).map(|(a, x)| a * x).sum();
        }
    }

    /// x̂.
    pub(crate) fn estimate(&self, y: &[f64]) -> Vec<f64> {
        let mut moved = vec![0.0; self.bins];
        for (row, y) in self.matrix.chunks_exact(self.bins).zip(y) {
            row.iter().zip(&mut moved).for_each(|(a, m)| *m += a * y);
        }
        let product = |row: &[f64]| row.iter().zip(&moved).map(|(a, m)| a * m).sum();
        self.gram_inverse.chunks_exact(self.bins).map(product).collect()
    }

    /// Var(wᵀx̂)/σ².
    pub(crate) fn variance(&self, w: &[f64]) -> f64 {
        linear::form(&self.gram_inverse, w)
    }

    /// Cov(vᵀx̂, wᵀx̂)/σ².
    pub(crate) fn covariance(&self, v: &[f64], w: &[f64]) -> f64 {
        let rows = self.gram_inverse.chunks_exact(self.bins);
        rows.zip(v).map(|(row, v)| v * row.iter().zip(w).map(|(a, w)| a * w).sum::<f64>()).sum()
    }
}

fn prefixes(gram_inverse: &[f64], bins: usize) -> Vec<[f64; 2]> {
    // Sums over the leading k×k block grow by a row and a column.
    let at = |i: usize, j: usize| gram_inverse[i * bins + j];
    let mut out = vec![[0.0; 2]];
    let (mut block, mut rows) = (0.0, 0.0);
    for k in 0..bins {
        let before: f64 = (0..k).map(|j| at(k, j)).sum();
        block += 2.0 * before + at(k, k);
        rows += (0..bins).map(|j| at(k, j)).sum::<f64>();
        out.push([block, rows]);
    }
    out
}

fn identity(n: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; n * n];
    (0..n).for_each(|i| matrix[i * n + i] = 1.0);
    matrix
}

/// The bins, then sums of `branching`, of branching², … neighbours; not the sum of all, which the
/// levels below give.
fn tree(bins: usize, branching: usize) -> Vec<f64> {
    let mut matrix = identity(bins);
    let mut width = branching;
    while width < bins {
        for start in (0..bins).step_by(width) {
            let mut row = vec![0.0; bins];
            row[start..(start + width).min(bins)].fill(1.0);
            matrix.extend(row);
        }
        width *= branching;
    }
    matrix
}

/// The lower triangular Toeplitz matrix of the coefficients of (1 − z)^(−½), whose square is that
/// of (1 − z)^(−1): all ones.
fn root(bins: usize) -> Vec<f64> {
    let mut coefficients = vec![1.0; bins];
    for k in 1..bins {
        coefficients[k] = coefficients[k - 1] * (2 * k - 1) as f64 / (2 * k) as f64;
    }
    let mut matrix = vec![0.0; bins * bins];
    for i in 0..bins {
        for j in 0..=i {
            matrix[i * bins + j] = coefficients[i - j];
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(bins: usize, k: usize) -> Vec<f64> {
        (0..bins).map(|i| f64::from(u8::from(i <= k))).collect()
    }

    /// Every strategy gives back the bins it measured, and the root's square is the prefix sum.
    #[test]
    fn what_is_measured_can_be_recovered() {
        let counts: Vec<f64> = (0..50).map(|k| f64::from(k * k % 17)).collect();
        for strategy in [Strategy::Flat, Strategy::Tree(4), Strategy::Tree(16), Strategy::Root] {
            let measured = Measured::new(strategy, 50);
            let mut y = vec![0.0; measured.rows()];
            measured.measure(&counts, &mut y);
            let back = measured.estimate(&y);
            assert!(back.iter().zip(&counts).all(|(a, b)| (a - b).abs() < 1e-9), "{strategy:?}");
            for (k, q) in [(0, 0.5), (7, 0.25), (50, 0.9)] {
                let w: Vec<f64> = (0..50).map(|i| f64::from(u8::from(i < k)) - q).collect();
                let (a, b) = (measured.prefix_variance(k, q), measured.variance(&w));
                assert!((a - b).abs() < 1e-9 * (1.0 + b), "{strategy:?}: {a} {b}");
            }
        }
        let c = root(6);
        for i in 0..6 {
            for j in 0..6 {
                let entry: f64 = (0..6).map(|k| c[i * 6 + k] * c[k * 6 + j]).sum();
                assert!((entry - f64::from(u8::from(j <= i))).abs() < 1e-12);
            }
        }
    }

    /// Bins alone are best measured alone, distribution functions by the root, by the figures.
    #[test]
    fn the_strategy_is_the_one_with_the_least_error() {
        let bins: Vec<Vec<f64>> = (0..64)
            .map(|k| {
                let mut w = vec![0.0; 64];
                w[k] = 1.0;
                w
            })
            .collect();
        assert_eq!(Strategy::best(64, &bins).strategy, Strategy::Flat);
        let prefixes: Vec<Vec<f64>> = (0..64).map(|k| prefix(64, k)).collect();
        assert_eq!(Strategy::best(64, &prefixes).strategy, Strategy::Root);
    }
}
