//! Losses that see a record only through its margin m = zᵀx and its label y, one file each.
//!
//! A new one is a file here that implements [`MarginLoss`], and a variant of [`Loss`](super::Loss)
//! with its line in the table beside it. What claims rest on is [`MarginLoss::steepest`] and
//! [`MarginLoss::curvature`]; `tests/paper/problem.rs` of `consenso-study` holds every loss to both
//! and its derivatives to each other.

mod logistic;
mod residual;
mod squared_hinge;
mod weighted;

pub(super) use logistic::{ClippedLogistic, Logistic};
pub(super) use residual::{Huber, Ridge};
pub(super) use squared_hinge::SquaredHinge;
pub(super) use weighted::Weighted;

use crate::kernel::Link;

/// A margin at which a logistic slope is 1 to five digits.
const FAR: f64 = 12.0;

/// φ(m, y); [`Link`] has φ' for eight rows at once.
pub(super) trait MarginLoss: Link {
    /// Whether labels are ±1 and the sign of the margin answers; otherwise labels are numbers.
    const BINARY: bool;

    /// φ(m, y).
    fn value(self, margin: f64, label: f64) -> f64;

    /// φ(m, y) of every row in place of its margin.
    fn values(self, labels: &[f64], margins: &mut [f64]) {
        margins.iter_mut().zip(labels).for_each(|(m, &y)| *m = self.value(*m, y));
    }

    /// φ'(m, y), clipped.
    fn slope_at(self, margin: f64, label: f64) -> f64;

    /// φ''(m, y), where it exists.
    fn curvature_at(self, margin: f64, label: f64) -> f64;

    /// sup |φ'|; infinite where nothing bounds it.
    fn steepest(self) -> f64;

    /// sup φ''.
    fn curvature(self) -> f64;

    /// How far a margin must be on the wrong side of its label for the slope to be
    /// [`Self::steepest`].
    fn saturates(self) -> f64 {
        FAR
    }
}
