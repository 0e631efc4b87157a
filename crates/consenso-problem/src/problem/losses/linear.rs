//! The margin itself, φ(m) = m, whatever the label: its gradient is the mean of the rows, at every
//! point. Statistics of records are such means.

use super::{Family, Labels, MarginLoss, Options};
use crate::config_error::ConfigError;
use crate::data::{LANES, Lanes8, Task};
use crate::kernel::{Lanes, Link};
use serde::{Deserialize, Serialize};

/// The margin itself: gradients are means of rows. For statistics.
///
/// Its gradient is the same at every point and whatever the labels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Linear {}

impl Link for Linear {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, _: S::V, _: S::V) -> S::V {
        s.load(&Lanes8([1.0; LANES]))
    }
}

impl MarginLoss for Linear {
    const LABELS: Labels = Labels::Standardised;

    fn value(self, margin: f64, _: f64) -> f64 {
        margin
    }

    fn slope_at(self, _: f64, _: f64) -> f64 {
        1.0
    }

    fn curvature_at(self, _: f64, _: f64) -> f64 {
        0.0
    }

    fn steepest(self) -> f64 {
        1.0
    }

    fn curvature(self) -> f64 {
        0.0
    }
}

impl Family for Linear {
    fn of(_: Task, _: &Options) -> Result<Self, ConfigError> {
        Ok(Self {})
    }

    fn options(self) -> Options {
        Options::default()
    }
}
