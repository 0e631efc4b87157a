//! Counts with a log link: half the Poisson deviance of the mean e^m, linear where its slope
//! e^m − y would exceed `clip`.

use super::count::{self, Count, Moments};
use super::{Family, Labels, MarginLoss, Options, Score};
use crate::config_error::ConfigError;
use crate::data::Task;
use crate::kernel::{Lanes, Link, exp};
use serde::{Deserialize, Serialize};

/// Counts, with a log link.
///
/// Half the Poisson deviance of the mean e^(zᵀx), made linear where its slope e^(zᵀx) − y would
/// exceed `clip`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Poisson {
    /// Largest slope that counts; the largest label where files leave it open.
    pub clip: f64,
    /// The largest label.
    pub most: f64,
}

impl Poisson {
    /// Margins between which no slope of this label is clipped.
    fn ends(self, label: f64) -> (f64, f64) {
        let low = if label > self.clip { libm::log(label - self.clip) } else { f64::NEG_INFINITY };
        (low, libm::log(label + self.clip))
    }
}

impl Link for Poisson {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        s.clamp(s.sub(exp(s, margin), label), -self.clip, self.clip)
    }
}

impl MarginLoss for Poisson {
    const LABELS: Labels = Labels::AsTheyAre;

    fn value(self, margin: f64, label: f64) -> f64 {
        let (low, high) = self.ends(label);
        let m = margin.clamp(low, high);
        let mean = libm::exp(m);
        // y·ln(y/μ) is 0 for a count of 0.
        let surprise = if label > 0.0 { label * (libm::log(label) - m) } else { 0.0 };
        surprise + mean - label + super::linear(self.clip, margin - m)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        (libm::exp(margin) - label).clamp(-self.clip, self.clip)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        let (low, high) = self.ends(label);
        if (low..=high).contains(&margin) { libm::exp(margin) } else { 0.0 }
    }

    fn steepest(self) -> f64 {
        self.clip
    }

    /// φ'' = e^m ≤ y + clip wherever the slope e^m − y is not clipped.
    fn curvature(self) -> f64 {
        (self.most + self.clip).next_up()
    }

    /// A margin this far below a label's logarithm has the slope −y; above, the clip is met sooner.
    fn saturates(self) -> f64 {
        libm::log1p(self.clip.max(self.most)) + 1.0
    }

    fn mean(self, margin: f64) -> f64 {
        libm::exp(margin.min(count::MOST_MARGIN))
    }

    fn margin_of(self, mean: f64) -> f64 {
        libm::log(mean)
    }

    fn usual_slope(self, _: f64, deviation: f64) -> f64 {
        deviation
    }

    fn usual_curvature(self, mean: f64) -> f64 {
        mean
    }

    fn deviance(self, margin: f64, label: f64) -> Option<f64> {
        Some(2.0 * Self { clip: f64::INFINITY, ..self }.value(margin, label))
    }

    fn score(self, margin: f64, label: f64) -> Option<Score> {
        let mean = self.mean(margin);
        let first = libm::exp(-mean);
        let following = |y: f64| mean / (y + 1.0);
        let moments = Moments { mean, variance: mean, skewness: 1.0 / mean.sqrt() };
        Some(count::score(moments, 1.0, label, first, following))
    }
}

impl Family for Poisson {
    fn of(task: Task, options: &Options) -> Result<Self, ConfigError> {
        let most = Count::labels("poisson", task)?;
        Ok(Self { clip: options.clip_or(most.max(1.0))?, most })
    }

    fn options(self) -> Options {
        Options { clip: Some(self.clip), ..Options::default() }
    }
}
