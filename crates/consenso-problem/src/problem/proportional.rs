//! Losses of one slope per column and several intercepts: proportional hazards and proportional
//! odds.
//!
//! A record has margins m_k = η + α_k, η = zᵀβ, and a loss φ(m_1 … m_M; y). Its gradient is
//! ρ_k = ∂φ/∂m_k in the intercepts and (Σ_k ρ_k)·z in β; with R the Hessian of φ in the margins,
//! which has entries on and beside its diagonal only, its Hessian is
//!
//! ```text
//! (1ᵀR1)·z zᵀ,   z·(R1)ᵀ,   R .
//! ```
//!
//! - **Hazards**, piecewise exponential. Time is counted in intervals: a label of ±t has lived
//!   through ⌊t⌋ of them, + where the event happened and − where it was not seen. With exposure
//!   e_k = min(1, max(0, t − k)) and the hazard λ_k = e^(m_k) per interval, φ = Σ_k e_kλ_k less m_k
//!   of the interval of the event; ρ_k = e_kλ_k − 1\[event in k\], R = diag(e_kλ_k). What lies
//!   beyond the last interval is not seen.
//! - **Ordered classes**, cumulative logit: γ_k = P(Y > k) = 1/(1 + e^(−m_k)), p_y = γ_(y−1) − γ_y,
//!   φ = −log p_y. With a = y − 1 and b = y (γ is 1 before the first and 0 after the last), v = γ(1 − γ)
//!   and r = v/p_y, only ρ_a = −r_a and ρ_b = r_b differ from zero, and Σ_k ρ_k = γ_a + γ_b − 1. R has the
//!   row sums v_a and v_b and the entry −r_a r_b beside its diagonal. As v and r are not negative, it is
//!   positive semi-definite, also as computed: a diagonal and a Laplacian. Intercepts that noise has
//!   put out of order are taken in order, whatever the records are.
//!
//! A model is written like that of a softmax of M classes, block after block: β is that of the first
//! block, and every block has its intercept at its end.

use crate::data::Records;
use crate::kernel;

/// Hazards beyond e to this are taken for it.
const MOST_MARGIN: f64 = 50.0;
/// The least distance of two intercepts of ordered classes, and the most that one is.
const APART: f64 = 1e-3;
const FARTHEST: f64 = 200.0;

/// Which loss it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proportional {
    /// Hazards on so many intervals.
    Hazards {
        /// Intervals.
        intervals: usize,
    },
    /// Ordered classes.
    Odds {
        /// Classes, one more than intercepts.
        classes: usize,
    },
}

/// What no record's part exceeds at given margins, whatever its label is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LargestDerivatives {
    /// |Σ_k ρ_k|.
    pub total: f64,
    /// Σ_k ρ_k².
    pub squares: f64,
    /// 1ᵀR1.
    pub information: f64,
    /// The trace of R.
    pub trace: f64,
}

/// The derivatives of one record's loss in its margins. R is given by its row sums and by what stands
/// beside its diagonal, which is not positive: it is a diagonal and a Laplacian, so that it is positive
/// semi-definite whatever rounding does.
#[derive(Clone, Debug, Default)]
pub(super) struct Derivatives {
    /// ρ.
    pub(super) residuals: Vec<f64>,
    /// Σ_k ρ_k.
    pub(super) total: f64,
    /// R·1.
    pub(super) sums: Vec<f64>,
    /// R beside its diagonal: entry (k, k + 1).
    pub(super) beside: Vec<f64>,
}

impl Derivatives {
    pub(super) fn new(intercepts: usize) -> Self {
        Self {
            residuals: vec![0.0; intercepts],
            total: 0.0,
            sums: vec![0.0; intercepts],
            beside: vec![0.0; intercepts.saturating_sub(1)],
        }
    }

    /// R at (k, k).
    pub(super) fn own(&self, k: usize) -> f64 {
        let before = k.checked_sub(1).map_or(0.0, |k| self.beside[k]);
        self.sums[k] - before - self.beside.get(k).copied().unwrap_or(0.0)
    }

    fn trace(&self) -> f64 {
        (0..self.sums.len()).map(|k| self.own(k)).sum()
    }

    /// R·v.
    pub(super) fn times(&self, v: &[f64], out: &mut [f64]) {
        out.iter_mut().zip(&self.sums).zip(v).for_each(|((out, sum), v)| *out = sum * v);
        for (k, beside) in self.beside.iter().enumerate() {
            let apart = beside * (v[k + 1] - v[k]);
            out[k] += apart;
            out[k + 1] -= apart;
        }
    }

    fn clear(&mut self) {
        self.residuals.fill(0.0);
        self.sums.fill(0.0);
        self.beside.fill(0.0);
    }
}

fn logistic(m: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-m))
}

/// γ(1 − γ).
fn spread(m: f64) -> f64 {
    logistic(m) * logistic(-m)
}

/// How long a label of hazards was seen, in intervals, and the interval of its event.
fn seen(label: f64, intervals: usize) -> (f64, Option<usize>) {
    let time = label.abs();
    let within = label > 0.0 && time <= intervals as f64;
    let at = within.then(|| (libm::ceil(time) as usize).clamp(1, intervals) - 1);
    (time.min(intervals as f64), at)
}

impl Proportional {
    /// How many intercepts there are.
    #[must_use]
    pub fn intercepts(self) -> usize {
        match self {
            Self::Hazards { intervals } => intervals,
            Self::Odds { classes } => classes - 1,
        }
    }

    /// The margins η + α_k; intercepts of ordered classes that are out of order are taken in order.
    pub fn margins(self, eta: f64, intercepts: impl Iterator<Item = f64>, out: &mut [f64]) {
        let (mut last, eta) = (f64::INFINITY, eta.clamp(-MOST_MARGIN, MOST_MARGIN));
        for (out, alpha) in out.iter_mut().zip(intercepts) {
            if matches!(self, Self::Odds { .. }) {
                last = alpha.clamp(-FARTHEST, FARTHEST).min(last - APART);
                *out = eta + last;
            } else {
                *out = (eta + alpha).clamp(-MOST_MARGIN, MOST_MARGIN);
            }
        }
    }

    /// φ.
    pub(super) fn value(self, margins: &[f64], label: f64) -> f64 {
        match self {
            Self::Hazards { intervals } => {
                let (time, event) = seen(label, intervals);
                let exposed =
                    margins.iter().enumerate().map(|(k, m)| exposure(time, k) * libm::exp(*m));
                exposed.sum::<f64>() - event.map_or(0.0, |k| margins[k])
            }
            Self::Odds { .. } => -libm::log(probability(margins, label as usize)),
        }
    }

    /// ρ and R of a label.
    pub(super) fn derivatives(self, margins: &[f64], label: f64, out: &mut Derivatives) {
        out.clear();
        match self {
            Self::Hazards { intervals } => {
                let (time, event) = seen(label, intervals);
                for (k, m) in margins.iter().enumerate() {
                    let mean = exposure(time, k) * libm::exp(*m);
                    out.sums[k] = mean;
                    out.residuals[k] = mean;
                }
                if let Some(k) = event {
                    out.residuals[k] -= 1.0;
                }
                out.total = out.residuals.iter().sum();
            }
            Self::Odds { .. } => {
                let y = label as usize;
                let (before, after) = around(margins, y);
                // p_y = γ_a(1 − γ_b)·gap without a difference of numbers that are nearly the same.
                let gap = -libm::expm1(after - before);
                out.total = logistic(before) + logistic(after) - 1.0;
                if y > 0 {
                    out.residuals[y - 1] = -logistic(-before) / (logistic(-after) * gap);
                    out.sums[y - 1] = spread(before);
                }
                if y < margins.len() {
                    out.residuals[y] = logistic(after) / (logistic(before) * gap);
                    out.sums[y] = spread(after);
                }
                if y > 0 && y < margins.len() {
                    out.beside[y - 1] = out.residuals[y - 1] * out.residuals[y];
                }
            }
        }
    }

    /// What no label's derivatives exceed at these margins.
    #[must_use]
    pub fn most(self, margins: &[f64]) -> LargestDerivatives {
        match self {
            Self::Hazards { .. } => {
                let hazards = || margins.iter().map(|m| libm::exp(*m));
                let all: f64 = hazards().sum();
                let squares: f64 = hazards().map(|h| h * h).sum();
                LargestDerivatives {
                    total: all.max(1.0),
                    squares: 1.0 + squares,
                    information: all,
                    trace: all,
                }
            }
            Self::Odds { classes } => {
                let mut most =
                    LargestDerivatives { total: 0.0, squares: 0.0, information: 0.0, trace: 0.0 };
                let mut one = Derivatives::new(classes - 1);
                for y in 0..classes {
                    self.derivatives(margins, y as f64, &mut one);
                    let squares = one.residuals.iter().map(|r| r * r).sum::<f64>();
                    most.total = most.total.max(one.total.abs());
                    most.squares = most.squares.max(squares);
                    most.trace = most.trace.max(one.trace());
                    most.information = most.information.max(one.sums.iter().sum::<f64>());
                }
                most
            }
        }
    }

    /// 1ᵀR1 of ordered classes and the largest of R's diagonal, in expectation over classes that have
    /// the probabilities of these margins; zero for hazards, which depend on how long records are
    /// seen.
    #[must_use]
    pub fn expected(self, margins: &[f64]) -> (f64, f64) {
        let Self::Odds { classes } = self else { return (0.0, 0.0) };
        let mut own = vec![0.0; classes - 1];
        let (mut whole, mut one) = (0.0, Derivatives::new(classes - 1));
        for y in 0..classes {
            let p = probability(margins, y);
            self.derivatives(margins, y as f64, &mut one);
            own.iter_mut().enumerate().for_each(|(k, sum)| *sum += p * one.own(k));
            whole += p * one.sums.iter().sum::<f64>();
        }
        (whole, own.into_iter().fold(0.0, f64::max))
    }

    /// Calls `each` with the margins of every record, its row without the intercept, and its label.
    pub(super) fn each(
        self,
        records: &Records,
        x: &[f64],
        mut each: impl FnMut(&[f64], &[f64], f64),
    ) {
        let columns = records.dim() - 1;
        let mut margins = vec![0.0; self.intercepts()];
        for (row, &label) in records.labels().iter().enumerate() {
            let row = records.row(row);
            let z = &row[..columns];
            self.margins(kernel::dot(z, &x[..columns]), intercepts(x, columns), &mut margins);
            each(&margins, z, label);
        }
    }

    /// Σ_j φ of all records.
    pub(super) fn total(self, records: &Records, x: &[f64]) -> f64 {
        let mut total = 0.0;
        self.each(records, x, |margins, _, label| total += self.value(margins, label));
        total
    }

    /// Σ_j ∇φ of all records.
    pub(super) fn gradient(self, records: &Records, x: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let columns = records.dim() - 1;
        let mut one = Derivatives::new(self.intercepts());
        self.each(records, x, |margins, z, label| {
            self.derivatives(margins, label, &mut one);
            kernel::axpy(one.total, z, &mut out[..columns]);
            for (k, residual) in one.residuals.iter().enumerate() {
                out[k * (columns + 1) + columns] += residual;
            }
        });
    }

    /// R of every record, one after the other: its row sums, then what stands beside its diagonal.
    pub(super) fn curvatures(self, records: &Records, x: &[f64]) -> Vec<f64> {
        let mut all = Vec::with_capacity(records.len() * (2 * self.intercepts() - 1));
        let mut one = Derivatives::new(self.intercepts());
        self.each(records, x, |margins, _, label| {
            self.derivatives(margins, label, &mut one);
            all.extend_from_slice(&one.sums);
            all.extend_from_slice(&one.beside);
        });
        all
    }

    /// The Hessian of Σ_j φ, whose [curvatures](Self::curvatures) are known, times v.
    pub(super) fn apply(self, records: &Records, weights: &[f64], v: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let (columns, count) = (records.dim() - 1, self.intercepts());
        let mut one = Derivatives::new(count);
        let (mut along, mut turned) = (vec![0.0; count], vec![0.0; count]);
        for (row, weights) in weights.chunks_exact(2 * count - 1).enumerate() {
            let row = records.row(row);
            let z = &row[..columns];
            one.sums.copy_from_slice(&weights[..count]);
            one.beside.copy_from_slice(&weights[count..]);
            let eta = kernel::dot(z, &v[..columns]);
            along.iter_mut().zip(intercepts(v, columns)).for_each(|(a, own)| *a = eta + own);
            one.times(&along, &mut turned);
            kernel::axpy(turned.iter().sum(), z, &mut out[..columns]);
            for (k, turned) in turned.iter().enumerate() {
                out[k * (columns + 1) + columns] += turned;
            }
        }
    }

    /// Probabilities of all classes at these margins; of hazards, the probabilities to be seen
    /// without the event at the end of every interval.
    #[must_use]
    pub fn probabilities(self, margins: &[f64]) -> Vec<f64> {
        match self {
            Self::Hazards { .. } => {
                let mut hazard = 0.0;
                let survived = margins.iter().map(|m| {
                    hazard += libm::exp(*m);
                    libm::exp(-hazard)
                });
                survived.collect()
            }
            Self::Odds { classes } => (0..classes).map(|y| probability(margins, y)).collect(),
        }
    }
}

/// What of interval k a record was seen for that was seen for `time` intervals.
fn exposure(time: f64, k: usize) -> f64 {
    (time - k as f64).clamp(0.0, 1.0)
}

/// The margins of P(Y > y − 1) and P(Y > y): one is certain of the first class, the other impossible of
/// the last.
fn around(margins: &[f64], y: usize) -> (f64, f64) {
    let before = y.checked_sub(1).map_or(f64::INFINITY, |k| margins[k]);
    (before, margins.get(y).copied().unwrap_or(f64::NEG_INFINITY))
}

/// p_y.
fn probability(margins: &[f64], y: usize) -> f64 {
    let (before, after) = around(margins, y);
    let p = -logistic(before) * logistic(-after) * libm::expm1(after - before);
    p.max(f64::MIN_POSITIVE)
}

/// The intercepts of a model, block by block.
pub fn intercepts(x: &[f64], columns: usize) -> impl Iterator<Item = f64> {
    x.chunks_exact(columns + 1).map(move |block| block[columns])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Derivatives are those of the value, by differences; R is positive semi-definite and within
    /// what is said of all labels.
    #[test]
    fn derivatives_are_those_of_the_value() {
        let hazards = Proportional::Hazards { intervals: 3 };
        let odds = Proportional::Odds { classes: 4 };
        let times = [-0.4, 0.4, 1.0, -1.7, 2.5, 3.0, -3.0, 9.0];
        let classes = [0.0, 1.0, 2.0, 3.0];
        for (loss, labels) in [(hazards, &times[..]), (odds, &classes[..])] {
            for margins in [[0.7, 0.1, -1.1], [4.0, 3.5, -2.0], [-3.0, -3.5, -4.0]] {
                let most = loss.most(&margins);
                for &label in labels {
                    let mut one = Derivatives::new(3);
                    loss.derivatives(&margins, label, &mut one);
                    let h = 1e-5;
                    for k in 0..3 {
                        let at = |by: f64| {
                            let mut moved = margins;
                            moved[k] += by;
                            moved
                        };
                        let slope =
                            (loss.value(&at(h), label) - loss.value(&at(-h), label)) / (2.0 * h);
                        assert!((slope - one.residuals[k]).abs() < 1e-7, "{loss:?} {label} {k}");
                        let (mut above, mut below) = (one.clone(), one.clone());
                        loss.derivatives(&at(h), label, &mut above);
                        loss.derivatives(&at(-h), label, &mut below);
                        let mut unit = [0.0; 3];
                        unit[k] = 1.0;
                        let mut row = [0.0; 3];
                        one.times(&unit, &mut row);
                        for (j, want) in row.into_iter().enumerate() {
                            let found = (above.residuals[j] - below.residuals[j]) / (2.0 * h);
                            assert!(
                                (found - want).abs() < 1e-6 * want.abs().max(1.0),
                                "{loss:?} {label} {k} {j}"
                            );
                        }
                    }
                    let total: f64 = one.residuals.iter().sum();
                    assert!((total - one.total).abs() < 1e-12, "{loss:?} {label}");
                    let squares: f64 = one.residuals.iter().map(|r| r * r).sum();
                    let (trace, whole) = (one.trace(), one.sums.iter().sum::<f64>());
                    assert!(total.abs() <= most.total + 1e-12 && squares <= most.squares + 1e-12);
                    assert!(trace <= most.trace + 1e-12 && whole <= most.information + 1e-12);
                    let matrix = nalgebra::DMatrix::from_fn(3, 3, |a, b| match a.abs_diff(b) {
                        0 => one.own(a),
                        1 => one.beside[a.min(b)],
                        _ => 0.0,
                    });
                    let least = nalgebra::SymmetricEigen::new(matrix).eigenvalues.min();
                    assert!(least > -1e-12, "{loss:?} {label}: {least}");
                }
            }
        }
    }

    /// Intercepts that noise put out of order give no negative probability.
    #[test]
    fn intercepts_out_of_order_are_taken_in_order() {
        let loss = Proportional::Odds { classes: 3 };
        let mut margins = [0.0; 2];
        loss.margins(0.3, [-1.0, 2.0].into_iter(), &mut margins);
        assert!(margins[0] > margins[1], "{margins:?}");
        let p = loss.probabilities(&margins);
        assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-9 && p.iter().all(|p| *p > 0.0));
    }
}
