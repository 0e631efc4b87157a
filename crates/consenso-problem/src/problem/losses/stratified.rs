//! Proportional hazards with a baseline of its own at every site, which nobody estimates.
//!
//! Two records of one site are a pair ([`pairs`](crate::problem::pairs)). Where one of them has the
//! event at a time at which the other is still seen, the chance that it is this one is λ₁/(λ₁ + λ₂)
//! = 1/(1 + e^−m), m = (z₁ − z₂)ᵀβ, whatever the site's baseline is: it is in both hazards and
//! cancels. A pair's loss is −log of that, the logistic loss of the first row less the second. The
//! margin of one record is the logarithm of its hazard beside that of a record of means.

use super::logistic::Logistic;
use super::{Family, Labels, MarginLoss, Options, Score};
use crate::config_error::ConfigError;
use crate::data::Task;
use crate::kernel::{Lanes, Link};
use serde::{Deserialize, Serialize};

/// Proportional hazards whose baseline is each site's own and is not estimated, by pairs of records.
///
/// Labels are times, negative where the event was not seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StratifiedHazards {}

impl Link for StratifiedHazards {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, _: S::V) -> S::V {
        Logistic.slope(s, margin, s.splat(1.0))
    }
}

impl MarginLoss for StratifiedHazards {
    const LABELS: Labels = Labels::AsTheyAre;

    fn value(self, margin: f64, _: f64) -> f64 {
        Logistic.value(margin, 1.0)
    }

    fn slope_at(self, margin: f64, _: f64) -> f64 {
        Logistic.slope_at(margin, 1.0)
    }

    fn curvature_at(self, margin: f64, _: f64) -> f64 {
        Logistic.curvature_at(margin, 1.0)
    }

    fn steepest(self) -> f64 {
        Logistic.steepest()
    }

    fn curvature(self) -> f64 {
        Logistic.curvature()
    }

    /// The hazard beside that of a record of means.
    fn mean(self, margin: f64) -> f64 {
        libm::exp(margin)
    }

    /// There is no intercept, whatever the labels are.
    fn margin_of(self, _: f64) -> f64 {
        0.0
    }

    fn score(self, margin: f64, _: f64) -> Option<Score> {
        Logistic.score(margin, 1.0)
    }
}

impl Family for StratifiedHazards {
    fn of(task: Task, _: &Options) -> Result<Self, ConfigError> {
        match task {
            Task::Regression { min, .. } if min < 0.0 => Ok(Self {}),
            _ => Err(ConfigError::at(
                "loss",
                "stratified-hazards needs a time and an event: name their columns in data.time and data.event",
            )),
        }
    }

    fn options(self) -> Options {
        Options::default()
    }
}
