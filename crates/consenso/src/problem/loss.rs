//! The losses, by the record.

use super::Workspace;
use crate::data::{Nonzeros, Records};
use crate::kernel::{self, ClippedLogisticLink, LogisticLink, ResidualLink, WeightedLogisticLink};
use serde::{Deserialize, Serialize};

/// The loss of one record (z, y) at the model x.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loss", rename_all = "kebab-case")]
pub enum Loss {
    /// log(1 + exp(−y·zᵀx)), labels ±1.
    Logistic,
    /// The logistic loss made linear where its slope would exceed `clip`: log(1 + e^−t) for t = y·zᵀx ≥ t₀, and the tangent at
    /// t₀ = ln((1 − clip)/clip) before.
    ///
    /// One record then moves a gradient by `clip` instead of 1. At ½ only records on the wrong side (t < 0) are clipped, those on the
    /// right side keep their gradient, and a budget buys half the noise.
    ClippedLogistic {
        /// Largest slope that counts, between 0 and 1.
        clip: f64,
    },
    /// The logistic loss of one class counted more than that of the other: w_y·φ(y·zᵀx), with φ clipped as in
    /// [`Self::ClippedLogistic`] before it is weighted.
    ///
    /// One record moves a gradient by `clip` times the larger weight: rare classes are heard louder, and cost as much more noise.
    WeightedLogistic {
        /// Largest slope that counts before it is weighted, above 0; 1 clips nothing.
        clip: f64,
        /// Weight of the class −1.
        negative: f64,
        /// Weight of the class +1.
        positive: f64,
    },
    /// ½(zᵀx − y)².
    ///
    /// Its gradient is unbounded in x, so a private run needs `clip`: each record's residual is clipped to ±`clip` in the
    /// **gradient**, which makes the sensitivity hold for every x (and the gradient that of the Huber loss). Values are reported unclipped.
    Ridge {
        /// Largest residual that counts; infinite when nothing is clipped, and left out of files then.
        #[serde(default = "unclipped", skip_serializing_if = "is_unclipped")]
        clip: f64,
    },
    /// ½r² for |r| ≤ δ, δ|r| − ½δ² beyond, r = zᵀx − y.
    Huber {
        /// Where the loss becomes linear.
        delta: f64,
    },
    /// −log softmax_y(Xz) for C classes; the model is X row by row (class-major), labels 0…C−1.
    Softmax {
        /// How many classes.
        classes: usize,
    },
}

fn unclipped() -> f64 {
    f64::INFINITY
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_unclipped(clip: &f64) -> bool {
    clip.is_infinite()
}

impl Loss {
    /// Models a record is scored by: C for softmax, 1 otherwise.
    #[must_use]
    pub fn outputs(&self) -> usize {
        if let Self::Softmax { classes } = self { *classes } else { 1 }
    }

    /// Whether labels are classes.
    #[must_use]
    pub fn classifies(&self) -> bool {
        self.is_logistic() || matches!(self, Self::Softmax { .. })
    }

    /// Whether it is logistic, clipped or not: labels are ±1 and a margin decides.
    #[must_use]
    pub fn is_logistic(&self) -> bool {
        matches!(self, Self::Logistic | Self::ClippedLogistic { .. } | Self::WeightedLogistic { .. })
    }

    /// The weight of a record with this label: 1 where classes count alike.
    #[must_use]
    pub fn weight(&self, label: f64) -> f64 {
        match *self {
            Self::WeightedLogistic { negative, positive, .. } => {
                if label > 0.0 {
                    positive
                } else {
                    negative
                }
            }
            _ => 1.0,
        }
    }

    /// The largest weight that a record can have.
    #[must_use]
    pub fn heaviest(&self) -> f64 {
        self.weight(-1.0).max(self.weight(1.0))
    }

    /// The logistic loss in which each class counts half, for classes with these public shares: a class of share p weighs 1/(2p).
    #[must_use]
    pub fn balanced(negative: f64, positive: f64) -> Self {
        let weight = |share: f64| 0.5 * (negative + positive) / share;
        Self::WeightedLogistic { clip: 1.0, negative: weight(negative), positive: weight(positive) }
    }

    /// A logistic loss with its slopes clipped at `clip` before they are weighted; 1 clips nothing. Other losses stay as they are.
    #[must_use]
    pub fn with_slopes_up_to(self, clip: f64) -> Self {
        match self {
            Self::WeightedLogistic { negative, positive, .. } => {
                Self::WeightedLogistic { clip, negative, positive }
            }
            Self::Logistic | Self::ClippedLogistic { .. } if clip == 1.0 => Self::Logistic,
            Self::Logistic | Self::ClippedLogistic { .. } => Self::ClippedLogistic { clip },
            other => other,
        }
    }

    /// The largest slope of a logistic loss before it is weighted; `None` for other losses.
    pub(crate) fn largest_slope(&self) -> Option<f64> {
        match *self {
            Self::Logistic => Some(1.0),
            Self::ClippedLogistic { clip } | Self::WeightedLogistic { clip, .. } => Some(clip),
            _ => None,
        }
    }

    /// sup φ'' per unit of ‖z‖²: ¼ for logistic (times the larger weight), 1 for squares, ½ for softmax.
    #[must_use]
    pub fn curvature(&self) -> f64 {
        match self {
            Self::Logistic | Self::ClippedLogistic { .. } => 0.25,
            Self::WeightedLogistic { .. } => (0.25 * self.heaviest()).next_up(),
            Self::Ridge { .. } | Self::Huber { .. } => 1.0,
            Self::Softmax { .. } => 0.5,
        }
    }

    /// Σ_j φ(x; z_j, y_j).
    pub(super) fn total(&self, records: &Records, x: &[f64], work: &mut Workspace) -> f64 {
        if let Self::Softmax { classes } = *self {
            return softmax_total(records, classes, x);
        }
        margins(records, x, work);
        let terms = work.margins.iter().zip(records.labels());
        match *self {
            Self::Logistic => terms.map(|(&m, &y)| log1p_exp(-m * y)).sum(),
            Self::ClippedLogistic { clip } | Self::WeightedLogistic { clip, .. } => {
                let bend = bend(clip);
                let loss = |t: f64| log1p_exp(-t.max(bend)) + clip * (bend - t).max(0.0);
                terms.map(|(&m, &y)| self.weight(y) * loss(m * y)).sum()
            }
            Self::Ridge { .. } => terms.map(|(&m, &y)| 0.5 * (m - y) * (m - y)).sum(),
            Self::Huber { delta } => terms.map(|(&m, &y)| huber(m - y, delta)).sum(),
            Self::Softmax { .. } => unreachable!("handled above"),
        }
    }

    /// Σ_j ∇φ(x; z_j, y_j), clipped.
    pub(super) fn gradient(&self, records: &Records, x: &[f64], out: &mut [f64], work: &mut Workspace) {
        if let Self::Softmax { classes } = *self {
            return softmax_gradient(records, classes, x, out);
        }
        let (rows, labels, sums) = (records.layout(), records.labels(), &mut work.sums);
        match *self {
            Self::Logistic => kernel::gradient(rows, labels, x, LogisticLink, sums, out),
            Self::ClippedLogistic { clip } => {
                kernel::gradient(rows, labels, x, ClippedLogisticLink { clip }, sums, out);
            }
            Self::WeightedLogistic { clip, negative, positive } => {
                kernel::gradient(
                    rows,
                    labels,
                    x,
                    WeightedLogisticLink { clip, negative, positive },
                    sums,
                    out,
                );
            }
            Self::Ridge { clip } | Self::Huber { delta: clip } => {
                kernel::gradient(rows, labels, x, ResidualLink { clip }, sums, out);
            }
            Self::Softmax { .. } => unreachable!("handled above"),
        }
    }

    /// φ'(margin, label) of a margin loss, clipped.
    pub(super) fn slope(&self, margin: f64, label: f64) -> f64 {
        let logistic = |clip: f64| (-label / (1.0 + libm::exp(label * margin))).clamp(-clip, clip);
        match *self {
            Self::Logistic => logistic(1.0),
            Self::ClippedLogistic { clip } => logistic(clip),
            Self::WeightedLogistic { clip, .. } => self.weight(label) * logistic(clip),
            Self::Ridge { clip } | Self::Huber { delta: clip } => (margin - label).clamp(-clip, clip),
            Self::Softmax { .. } => unreachable!("a softmax has a slope a class"),
        }
    }

    /// Some coordinates of Σ_j ∇φ(x; z_j, y_j), where `rows` are kept as their non-zeros: only those that have one of them are looked at, and x is
    /// written to `point` only if there are any.
    pub(super) fn sparse_gradient_at(
        &self,
        (rows, records): (&Nonzeros, &Records),
        x: impl FnOnce(&mut [f64]),
        point: &mut [f64],
        coordinates: &[u32],
        out: &mut [f64],
    ) {
        let mut x = Some(x);
        out.fill(0.0);
        for (row, &label) in records.labels().iter().enumerate() {
            let (columns, values) = rows.row(row);
            if !coordinates.iter().any(|l| columns.binary_search(l).is_ok()) {
                continue;
            }
            if let Some(x) = x.take() {
                x(point);
            }
            let slope = self.slope(kernel::sparse_margin((columns, values), point), label);
            for (out, l) in out.iter_mut().zip(coordinates) {
                if let Ok(place) = columns.binary_search(l) {
                    *out += slope * values[place];
                }
            }
        }
    }

    /// The curvature weights φ''(z_jᵀx, y_j) of a margin loss at x.
    fn weights(&self, records: &Records, x: &[f64], work: &mut Workspace) -> Vec<f64> {
        margins(records, x, work);
        let terms = work.margins.iter().zip(records.labels());
        match *self {
            Self::Logistic => terms.map(|(&m, _)| logistic_curvature(m)).collect(),
            Self::ClippedLogistic { clip } | Self::WeightedLogistic { clip, .. } => {
                let bend = bend(clip);
                let curvature = |m: f64, y: f64| if m * y < bend { 0.0 } else { logistic_curvature(m) };
                terms.map(|(&m, &y)| self.weight(y) * curvature(m, y)).collect()
            }
            Self::Ridge { clip } | Self::Huber { delta: clip } => {
                terms.map(|(&m, &y)| if (m - y).abs() <= clip { 1.0 } else { 0.0 }).collect()
            }
            Self::Softmax { .. } => unreachable!("softmax has its own curvature"),
        }
    }

    /// The Hessian of Σ_j φ at x, ready to be multiplied with vectors.
    pub(super) fn curvature_at<'a>(
        &self,
        records: &'a Records,
        x: &[f64],
        work: &mut Workspace,
    ) -> Curvature<'a> {
        match *self {
            Self::Softmax { classes } => {
                let mut probabilities = vec![0.0; records.len() * classes];
                for (row, p) in probabilities.chunks_exact_mut(classes).enumerate() {
                    softmax(records, row, x, p);
                }
                Curvature { records, weights: probabilities, classes }
            }
            _ => Curvature { records, weights: self.weights(records, x, work), classes: 0 },
        }
    }
}

/// A Hessian Σ_j ∇²φ as an operator.
pub(super) struct Curvature<'a> {
    records: &'a Records,
    /// φ'' a row, or the class probabilities a row for softmax.
    weights: Vec<f64>,
    /// 0 for a margin loss.
    classes: usize,
}

impl Curvature<'_> {
    /// `out = H·v`.
    pub(super) fn apply(&self, v: &[f64], out: &mut [f64], work: &mut Workspace) {
        let records = self.records;
        if self.classes == 0 {
            kernel::weighted_gram(records.layout(), &self.weights, v, &mut work.sums, out);
            return;
        }
        out.fill(0.0);
        let features = records.dim();
        for (row, p) in self.weights.chunks_exact(self.classes).enumerate() {
            let z = records.row(row);
            let score = |c: usize| kernel::dot(&z, &v[c * features..(c + 1) * features]);
            let mean: f64 = (0..self.classes).map(|c| p[c] * score(c)).sum();
            for c in 0..self.classes {
                let slope = p[c] * (score(c) - mean);
                kernel::axpy(slope, &z, &mut out[c * features..(c + 1) * features]);
            }
        }
    }
}

/// Margins z_jᵀx into the workspace.
pub(super) fn margins(records: &Records, x: &[f64], work: &mut Workspace) {
    work.margins.resize(records.len(), 0.0);
    kernel::all_margins(records.layout(), x, &mut work.margins);
}

/// σ'(m).
fn logistic_curvature(m: f64) -> f64 {
    let e = libm::exp(-m.abs());
    e / ((1.0 + e) * (1.0 + e))
}

/// Where the logistic slope is `clip`.
fn bend(clip: f64) -> f64 {
    libm::log((1.0 - clip) / clip)
}

/// log(1 + e^t) without overflow.
fn log1p_exp(t: f64) -> f64 {
    t.max(0.0) + libm::log1p(libm::exp(-t.abs()))
}

fn huber(r: f64, delta: f64) -> f64 {
    if r.abs() <= delta { 0.5 * r * r } else { delta * (r.abs() - 0.5 * delta) }
}

/// Class probabilities of one row into `p`; returns log Σ exp of the scores.
fn softmax(records: &Records, row: usize, x: &[f64], p: &mut [f64]) -> f64 {
    let (z, features) = (records.row(row), records.dim());
    for (c, p) in p.iter_mut().enumerate() {
        *p = kernel::dot(&z, &x[c * features..(c + 1) * features]);
    }
    let top = p.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut total = 0.0;
    for p in p.iter_mut() {
        *p = libm::exp(*p - top);
        total += *p;
    }
    for p in p.iter_mut() {
        *p /= total;
    }
    top + libm::log(total)
}

fn softmax_total(records: &Records, classes: usize, x: &[f64]) -> f64 {
    let (mut p, features) = (vec![0.0; classes], records.dim());
    (0..records.len())
        .map(|row| {
            let y = records.labels()[row] as usize;
            softmax(records, row, x, &mut p)
                - kernel::dot(&records.row(row), &x[y * features..(y + 1) * features])
        })
        .sum()
}

fn softmax_gradient(records: &Records, classes: usize, x: &[f64], out: &mut [f64]) {
    let (mut p, features) = (vec![0.0; classes], records.dim());
    out.fill(0.0);
    for row in 0..records.len() {
        softmax(records, row, x, &mut p);
        p[records.labels()[row] as usize] -= 1.0;
        let z = records.row(row);
        for (c, &slope) in p.iter().enumerate() {
            kernel::axpy(slope, &z, &mut out[c * features..(c + 1) * features]);
        }
    }
}
