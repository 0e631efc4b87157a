//! What an agent minimises: f_i(x) = (1/b) Σ_j φ(x; z_j, y_j) + (μ/2)‖x‖², the mean multiplied by
//! N·w_i where sites have weights w_i, so that (1/N) Σ_i f_i is the weighted objective.
//!
//! The data term is private; the regulariser is public, and is kept apart so that a protocol can
//! put it on the public side of its draft. Every loss has a gradient that one record moves by a
//! bounded amount (see [`sensitivity`]).

pub mod clipped;
pub mod constraint;
pub mod costs;
pub mod coupled;
pub mod coupling;
mod local;
pub mod loss;
pub mod losses;
#[doc(hidden)]
pub mod noised_histogram;
pub mod pairs;
pub mod proportional;
pub mod scores;
pub mod sensitivity;
pub mod solve;
#[doc(hidden)]
pub mod special;
pub mod weights;

pub use clipped::rounding as rounding_of_unit_sum;
pub use consenso_dp::{NeighbourRelation, Sensitivity};
pub use constraint::Constraint;
pub use costs::Costs;
pub use coupling::Coupling;
#[doc(hidden)]
pub use local::Drawn;
pub use local::{LocalObjective, MeanLoss};
pub use loss::{Loss, LossKind};
pub use losses::{Options as LossOptions, Score};
pub use weights::{SiteWeights, WeightRule};

use crate::data::{Records, RowBounds};
use crate::kernel;

/// A loss and its regularisation: the public part of a problem, the same for every agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The loss of one record.
    pub loss: Loss,
    /// μ of (μ/2)‖x‖².
    pub regularization: f64,
}

impl Objective {
    /// Length of the model for records of `features` features.
    #[must_use]
    pub fn dim(&self, features: usize) -> usize {
        self.loss.outputs() * features
    }

    /// M: ∇f is M-Lipschitz for every data set within the bounds.
    #[must_use]
    pub fn smoothness(&self, bounds: &RowBounds) -> f64 {
        self.loss.curvature() * bounds.l2() * bounds.l2() + self.regularization
    }

    /// M̂: along any one coordinate ∇f is M̂-Lipschitz for every data set within the bounds: no
    /// feature is longer than the longest row.
    #[must_use]
    pub fn coordinate_smoothness(&self, bounds: &RowBounds) -> f64 {
        let longest = bounds.linf().min(bounds.l2());
        self.loss.curvature() * longest * longest + self.regularization
    }

    /// m: f − (m/2)‖x‖² is convex for every data set.
    #[must_use]
    pub fn strong_convexity(&self) -> f64 {
        self.regularization
    }
}

/// Scratch space for gradients: one per thread, reused for every agent.
#[derive(Default)]
pub struct Workspace {
    scratch: kernel::Scratch,
    margins: Vec<f64>,
    whole: Vec<f64>,
}

impl Workspace {
    /// Has the next gradient of dense rows ask for those of another objective while it computes, so
    /// that they are near when it is their turn.
    #[doc(hidden)]
    pub fn reads_after(&mut self, rows: kernel::RowsInMemory) {
        self.scratch.reads_after(rows);
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workspace(..)")
    }
}

/// What the model `x` gives for every record: one number zᵀx, or record after record one for every
/// class of a softmax, and for every intercept of hazards and ordered classes.
#[must_use]
pub fn scores(loss: &Loss, records: &Records, x: &[f64]) -> Vec<f64> {
    let mut work = Workspace::default();
    if let Some(loss) = loss.proportional() {
        let mut all = Vec::with_capacity(records.len() * loss.intercepts());
        loss.each(records, x, |margins, _, _| all.extend_from_slice(margins));
        return all;
    }
    match loss {
        Loss::Softmax { classes } => {
            let features = records.dim();
            let of_row = |row: usize| {
                let z = records.row(row);
                (0..*classes).map(move |c| kernel::dot(&z, &x[c * features..(c + 1) * features]))
            };
            (0..records.len()).flat_map(of_row).collect()
        }
        _ => {
            loss::margins(records, x, &mut work);
            work.margins
        }
    }
}

/// The fraction of `records` that the model `x` labels as they are labelled; `None` for regression.
#[must_use]
pub fn accuracy(loss: &Loss, records: &Records, x: &[f64]) -> Option<f64> {
    accuracy_above(loss, records, x, 0.5)
}

/// [`accuracy`] of a model that answers the positive of two classes above this probability.
#[must_use]
pub fn accuracy_above(loss: &Loss, records: &Records, x: &[f64], threshold: f64) -> Option<f64> {
    let rows = records.len();
    if rows == 0 || !loss.classifies() {
        return None;
    }
    let mut work = Workspace::default();
    let right = match loss {
        Loss::Ordinal { .. } => {
            let mut right = 0;
            let odds = loss.proportional()?;
            odds.each(records, x, |margins, _, label| {
                let likeliest = odds
                    .probabilities(margins)
                    .into_iter()
                    .enumerate()
                    .max_by(|a, b| a.1.total_cmp(&b.1));
                right += usize::from(likeliest.is_some_and(|(y, _)| y as f64 == label));
            });
            right
        }
        Loss::Softmax { classes } => {
            let features = records.dim();
            let best = |row: usize| {
                let z = records.row(row);
                let score = |c: usize| kernel::dot(&z, &x[c * features..(c + 1) * features]);
                (0..*classes)
                    .map(|c| (c, score(c)))
                    .max_by(|a, b| a.1.total_cmp(&b.1))
                    .map_or(0, |b| b.0)
            };
            (0..rows).filter(|&row| best(row) as f64 == records.labels()[row]).count()
        }
        _ => {
            loss::margins(records, x, &mut work);
            // A margin of zero decides nothing; it counts as the negative class, so that the zero
            // model is the majority's.
            let cut = libm::log(threshold / (1.0 - threshold));
            let agrees = |(m, y): (&f64, &f64)| (*m > cut) == (*y > 0.0);
            work.margins.iter().zip(records.labels()).filter(|&pair| agrees(pair)).count()
        }
    };
    Some(right as f64 / rows as f64)
}

/// The area under the ROC curve of the margins, ties counted half; `None` unless there are two
/// classes, both present.
#[must_use]
pub fn auc(loss: &Loss, records: &Records, x: &[f64]) -> Option<f64> {
    if !loss.is_binary() {
        return None;
    }
    let mut work = Workspace::default();
    loss::margins(records, x, &mut work);
    let mut scored: Vec<(f64, bool)> =
        work.margins.iter().zip(records.labels()).map(|(&m, &y)| (m, y > 0.0)).collect();
    scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let positives = scored.iter().filter(|s| s.1).count();
    let negatives = scored.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    // Rank-sum with mid-ranks for ties.
    let mut rank_sum = 0.0;
    let mut start = 0;
    while start < scored.len() {
        let end = start + scored[start..].iter().take_while(|s| s.0 == scored[start].0).count();
        let mid_rank = (start + end + 1) as f64 / 2.0;
        rank_sum += mid_rank * scored[start..end].iter().filter(|s| s.1).count() as f64;
        start = end;
    }
    let (p, n) = (positives as f64, negatives as f64);
    Some((rank_sum - p * (p + 1.0) / 2.0) / (p * n))
}
