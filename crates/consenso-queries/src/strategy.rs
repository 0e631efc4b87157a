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

/// The most bins for which matrices are made to compare strategies.
const DENSE: usize = 256;

/// A strategy for so many bins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    pub(crate) strategy: Strategy,
    pub(crate) bins: usize,
    rows: usize,
    form: Form,
    /// Var of the sum of the first k bins over σ², and its covariance with the sum of all.
    prefixes: Vec<[f64; 2]>,
}

/// What is known of C.
#[derive(Clone, Debug, PartialEq)]
enum Form {
    /// C, row by row, and (CᵀC)⁻¹.
    Dense { matrix: Vec<f64>, gram_inverse: Vec<f64> },
    /// A lower triangular Toeplitz matrix by the first column of C, and of C⁻¹: with thousands of
    /// bins there is no room and no time for more.
    Triangle { column: Vec<f64>, inverse: Vec<f64> },
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
        // Finer bins are for distribution functions, of which the root knows most.
        if bins > DENSE {
            return Measured::new(Self::Root, bins);
        }
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
        let form = match strategy {
            Strategy::Flat => Form::dense(identity(bins), bins),
            Strategy::Tree(branching) => Form::dense(tree(bins, branching.max(2)), bins),
            Strategy::Root => Form::Triangle { column: root(bins, 0.5), inverse: root(bins, -0.5) },
        };
        let (rows, prefixes) = match &form {
            Form::Dense { matrix, gram_inverse } => {
                (matrix.len() / bins.max(1), prefixes(gram_inverse, bins))
            }
            Form::Triangle { column, .. } => (bins, root_prefixes(column)),
        };
        Self { strategy, bins, rows, form, prefixes }
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
        self.largest(|a| a * a)
    }

    /// The largest sum of a column's entries.
    pub(crate) fn most(&self) -> f64 {
        self.largest(f64::abs)
    }

    fn largest(&self, of: impl Fn(f64) -> f64) -> f64 {
        match &self.form {
            Form::Triangle { column, .. } => column.iter().map(|a| of(*a)).sum(),
            Form::Dense { matrix, .. } => {
                let column = |k: usize| matrix.iter().skip(k).step_by(self.bins).copied();
                (0..self.bins).map(|k| column(k).map(&of).sum()).fold(0.0, f64::max)
            }
        }
    }

    /// Writes C·x.
    pub(crate) fn measure(&self, counts: &[f64], out: &mut [f64]) {
        match &self.form {
            Form::Dense { matrix, .. } => {
                for (row, out) in matrix.chunks_exact(self.bins).zip(out) {
                    *out = row.iter().zip(counts).map(|(a, x)| a * x).sum();
                }
            }
            Form::Triangle { column, .. } => {
                out.fill(0.0);
                for (j, x) in counts.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                    out[j..].iter_mut().zip(column).for_each(|(o, c)| *o += c * x);
                }
            }
        }
    }

    /// x̂.
    pub(crate) fn estimate(&self, y: &[f64]) -> Vec<f64> {
        match &self.form {
            Form::Dense { matrix, gram_inverse } => {
                let mut moved = vec![0.0; self.bins];
                for (row, y) in matrix.chunks_exact(self.bins).zip(y) {
                    row.iter().zip(&mut moved).for_each(|(a, m)| *m += a * y);
                }
                let product = |row: &[f64]| row.iter().zip(&moved).map(|(a, m)| a * m).sum();
                gram_inverse.chunks_exact(self.bins).map(product).collect()
            }
            Form::Triangle { inverse, .. } => {
                let mut out = vec![0.0; self.bins];
                for (j, y) in y.iter().enumerate() {
                    out[j..].iter_mut().zip(inverse).for_each(|(o, c)| *o += c * y);
                }
                out
            }
        }
    }

    /// Var(wᵀx̂)/σ².
    pub(crate) fn variance(&self, w: &[f64]) -> f64 {
        match &self.form {
            Form::Dense { gram_inverse, .. } => linear::form(gram_inverse, w),
            Form::Triangle { inverse, .. } => back(inverse, w).iter().map(|v| v * v).sum(),
        }
    }

    /// Cov(vᵀx̂, wᵀx̂)/σ².
    pub(crate) fn covariance(&self, v: &[f64], w: &[f64]) -> f64 {
        match &self.form {
            Form::Dense { gram_inverse, .. } => {
                let rows = gram_inverse.chunks_exact(self.bins);
                let product = |row: &[f64]| row.iter().zip(w).map(|(a, w)| a * w).sum::<f64>();
                rows.zip(v).map(|(row, v)| v * product(row)).sum()
            }
            Form::Triangle { inverse, .. } => {
                back(inverse, v).iter().zip(back(inverse, w)).map(|(a, b)| a * b).sum()
            }
        }
    }
}

impl Form {
    fn dense(matrix: Vec<f64>, bins: usize) -> Self {
        let mut gram = vec![0.0; bins * bins];
        for row in matrix.chunks_exact(bins) {
            for (i, a) in row.iter().enumerate().filter(|(_, a)| **a != 0.0) {
                row.iter().zip(&mut gram[i * bins..]).for_each(|(b, g)| *g += a * b);
            }
        }
        // Every strategy holds the bins themselves.
        let gram_inverse = match matrix.len() == bins * bins {
            true => identity(bins),
            false => linear::inverse(&gram, bins).unwrap_or_else(|| identity(bins)),
        };
        Self::Dense { matrix, gram_inverse }
    }
}

/// Aᵀ·w for the lower triangular Toeplitz matrix A of this first column.
fn back(column: &[f64], w: &[f64]) -> Vec<f64> {
    let product = |i: usize| column.iter().zip(&w[i..]).map(|(c, w)| c * w).sum();
    (0..w.len()).map(product).collect()
}

/// As [`prefixes`], for the root: the sum of the first k of x̂ is the k-th row of C·y, because C·C
/// are the prefix sums.
fn root_prefixes(column: &[f64]) -> Vec<[f64; 2]> {
    let n = column.len();
    let mut out = vec![[0.0; 2]];
    let mut own = 0.0;
    for k in 1..=n {
        own += column[k - 1] * column[k - 1];
        let with_all = column[..k].iter().zip(&column[n - k..]).map(|(a, b)| a * b).sum();
        out.push([own, with_all]);
    }
    out
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

/// The coefficients of (1 − z)^(−power): the first column of a lower triangular Toeplitz matrix that
/// is the square root of all prefix sums for ½, and its inverse for −½.
fn root(bins: usize, power: f64) -> Vec<f64> {
    let mut coefficients = vec![1.0; bins];
    for k in 1..bins {
        coefficients[k] = coefficients[k - 1] * ((k - 1) as f64 + power) / k as f64;
    }
    coefficients
}

/// Standard deviation of the noise of half of all records' rank, over σ of a vector that one record
/// moves by 1, where so many bins are measured by the root.
pub(crate) fn rank_noise(bins: usize) -> f64 {
    let column = root(bins, 0.5);
    let sum = |n: usize| column[..n].iter().map(|c| c * c).sum::<f64>();
    (sum(bins) * sum(bins / 2)).sqrt()
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
            let (v, w) = (prefix(50, 9), prefix(50, 30));
            let sum: Vec<f64> = v.iter().zip(&w).map(|(v, w)| v + w).collect();
            let both =
                measured.variance(&v) + measured.variance(&w) + 2.0 * measured.covariance(&v, &w);
            assert!((measured.variance(&sum) - both).abs() < 1e-9 * both, "{strategy:?}");
            for (k, q) in [(0, 0.5), (7, 0.25), (50, 0.9)] {
                let w: Vec<f64> = (0..50).map(|i| f64::from(u8::from(i < k)) - q).collect();
                let (a, b) = (measured.prefix_variance(k, q), measured.variance(&w));
                assert!((a - b).abs() < 1e-9 * (1.0 + b), "{strategy:?}: {a} {b}");
            }
        }
        // Products of Toeplitz matrices are those of their power series.
        let product =
            |a: &[f64], b: &[f64], k: usize| -> f64 { (0..=k).map(|i| a[i] * b[k - i]).sum() };
        let (c, inverse) = (root(6, 0.5), root(6, -0.5));
        for k in 0..6 {
            assert!((product(&c, &c, k) - 1.0).abs() < 1e-12);
            assert!((product(&c, &inverse, k) - f64::from(u8::from(k == 0))).abs() < 1e-12);
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
