//! Closed convex sets C and their exact projections.

use crate::kernel;
use serde::{Deserialize, Serialize};

/// The set a model must lie in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Constraint {
    /// All of R^d.
    #[default]
    None,
    /// ‖x‖₂ ≤ radius.
    L2Ball {
        /// The radius.
        radius: f64,
    },
    /// ‖x‖₁ ≤ radius.
    L1Ball {
        /// The radius.
        radius: f64,
    },
    /// low ≤ x_l ≤ high for every coordinate.
    Box {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// x ≥ 0 and Σ x_l = total.
    Simplex {
        /// What the coordinates add up to.
        total: f64,
    },
}

impl Constraint {
    /// Why the set is empty or ill-formed, if it is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let positive = |name: &str, v: f64| {
            (!(v > 0.0 && v.is_finite()))
                .then(|| format!("{name} must be a positive number, not {v}"))
        };
        match *self {
            Self::None => None,
            Self::L2Ball { radius } | Self::L1Ball { radius } => positive("radius", radius),
            Self::Simplex { total } => positive("total", total),
            Self::Box { low, high } => (!(low <= high && low.is_finite() && high.is_finite()))
                .then(|| format!("low = {low} and high = {high} leave no box")),
        }
    }

    /// Moves `x` to the nearest point of the set, in l2.
    pub fn project(&self, x: &mut [f64]) {
        match *self {
            Self::None => {}
            Self::Box { low, high } => x.iter_mut().for_each(|x| *x = x.clamp(low, high)),
            Self::L2Ball { radius } => {
                let norm = kernel::norm(x);
                if norm.is_infinite() {
                    // The squares overflow, the point need not: bring it near along the same ray.
                    let top = largest(x.iter().map(|x| x.abs()));
                    x.iter_mut().for_each(|x| *x /= top);
                    return self.project(x);
                }
                if norm > radius {
                    let scale = radius / norm;
                    x.iter_mut().for_each(|x| *x *= scale);
                }
            }
            Self::Simplex { total } => {
                let top = largest(x.iter().copied());
                x.iter_mut().for_each(|x| *x -= top);
                let shift = threshold(x.to_vec(), total);
                x.iter_mut().for_each(|x| *x = (*x - shift).max(0.0));
            }
            Self::L1Ball { radius } => {
                if x.iter().map(|x| x.abs()).sum::<f64>() > radius {
                    let top = largest(x.iter().map(|x| x.abs()));
                    let shift = threshold(x.iter().map(|x| x.abs() - top).collect(), radius);
                    x.iter_mut().for_each(|x| *x = x.signum() * (x.abs() - top - shift).max(0.0));
                }
            }
        }
    }

    /// The largest ‖x‖₂ of the set in `dim` dimensions; `None` if it is unbounded.
    #[must_use]
    pub fn radius(&self, dim: usize) -> Option<f64> {
        match *self {
            Self::None => None,
            Self::L2Ball { radius } | Self::L1Ball { radius } => Some(radius),
            Self::Box { low, high } => Some(low.abs().max(high.abs()) * (dim as f64).sqrt()),
            Self::Simplex { total } => Some(total),
        }
    }

    /// Whether `x` is in the set, up to `tolerance`.
    #[must_use]
    pub fn contains(&self, x: &[f64], tolerance: f64) -> bool {
        let mut projected = x.to_vec();
        self.project(&mut projected);
        kernel::distance(x, &projected) <= tolerance
    }
}

fn largest(x: impl Iterator<Item = f64>) -> f64 {
    x.fold(f64::NEG_INFINITY, f64::max)
}

/// The θ with Σ max(v − θ, 0) = total: sort, then the largest prefix whose members stay positive.
///
/// The largest of `v` must be 0: then θ lies in [−total, 0) and stays exact however far away the
/// point was.
fn threshold(mut v: Vec<f64>, total: f64) -> f64 {
    v.sort_unstable_by(|a, b| b.total_cmp(a));
    let (mut sum, mut shift) = (0.0, 0.0);
    for (k, &value) in v.iter().enumerate() {
        sum += value;
        let candidate = (sum - total) / (k + 1) as f64;
        if value > candidate {
            shift = candidate;
        }
    }
    shift
}
