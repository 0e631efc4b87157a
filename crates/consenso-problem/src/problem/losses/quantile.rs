//! Quantile regression: the pinball loss of r = m − y at the quantile q, smoothed over
//! ±`smoothing`, where it is a parabola.

use super::{Family, Labels, MarginLoss, Options};
use crate::config_error::ConfigError;
use crate::data::Task;
use crate::kernel::{Lanes, Link};
use serde::{Deserialize, Serialize};

/// Half the width of the smoothed part, as a share of the label's range; in deviations of the label
/// once they are known.
const SMOOTHING: (f64, f64) = (0.02, 0.1);

/// A quantile of a number.
///
/// The pinball loss, smoothed where residuals are within `smoothing`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Quantile {
    /// Which quantile; 0.5 is the median.
    pub quantile: f64,
    /// Half the width of the smoothed part.
    pub smoothing: f64,
}

impl Link for Quantile {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let part = s.div(s.sub(margin, label), s.splat(2.0 * self.smoothing));
        let above = s.clamp(s.add(part, s.splat(0.5)), 0.0, 1.0);
        s.sub(above, s.splat(self.quantile))
    }
}

impl MarginLoss for Quantile {
    const LABELS: Labels = Labels::Standardised;

    fn value(self, margin: f64, label: f64) -> f64 {
        let (r, h) = (margin - label, self.smoothing);
        let above = if r >= h {
            r
        } else if r <= -h {
            0.0
        } else {
            (r + h) * (r + h) / (4.0 * h)
        };
        above - self.quantile * r
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        ((margin - label) / (2.0 * self.smoothing) + 0.5).clamp(0.0, 1.0) - self.quantile
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        if (margin - label).abs() < self.smoothing { 0.5 / self.smoothing } else { 0.0 }
    }

    fn steepest(self) -> f64 {
        self.quantile.max(1.0 - self.quantile)
    }

    fn curvature(self) -> f64 {
        (0.5 / self.smoothing).next_up()
    }

    fn saturates(self) -> f64 {
        2.0 * self.smoothing
    }

    fn usual_slope(self, _: f64, _: f64) -> f64 {
        (self.quantile * (1.0 - self.quantile)).sqrt()
    }

    /// The density of a normal label at its middle, which the mean of φ'' is.
    fn usual_curvature(self, _: f64) -> f64 {
        0.4
    }

    fn fitted_to(self, _: f64, _: f64) -> Self {
        Self { smoothing: SMOOTHING.1, ..self }
    }
}

impl Family for Quantile {
    fn of(task: Task, options: &Options) -> Result<Self, ConfigError> {
        let quantile = options.quantile.unwrap_or(0.5);
        if !(quantile > 0.0 && quantile < 1.0) {
            let why = format!("{quantile} must lie between 0 and 1; 0.5 is the median");
            return Err(ConfigError::at("quantile", why));
        }
        match task {
            Task::Regression { min, max } => {
                Ok(Self { quantile, smoothing: SMOOTHING.0 * (max - min) })
            }
            _ => Err(ConfigError::at(
                "loss",
                "quantile is for a label that is a number; declare min and max at the label",
            )),
        }
    }

    fn options(self) -> Options {
        Options { quantile: Some(self.quantile), ..Options::default() }
    }
}
