//! The probit loss −ln Φ(t), t = y·m, linear where its slope would exceed `clip`.

use super::{Family, Labels, MarginLoss, Options, Score};
use crate::config_error::ConfigError;
use crate::data::{LANES, Lanes8, Task};
use crate::kernel::{Lanes, Link};
use serde::{Deserialize, Serialize};

/// Slopes count up to this: that of a record whose class has a probability of 10^−15.
const CLIP: f64 = 8.0;

/// Two classes, whose probability is that of a normal law.
///
/// The probability of the positive one is Φ(zᵀx); the loss is linear where its slope would exceed
/// `clip`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probit {
    /// Largest slope that counts.
    pub clip: f64,
}

/// φ(t)/Φ(t), the slope of −ln Φ with its sign changed.
fn hazard(t: f64) -> f64 {
    if t < -25.0 {
        // Φ(t) = φ(t)/|t|·(1 − 1/t² + 3/t⁴ − …): the first terms leave less than 10^−7 of 1.
        let s = 1.0 / (t * t);
        return -t / (1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s)));
    }
    let density = libm::exp(-0.5 * t * t) / (2.0 * std::f64::consts::PI).sqrt();
    density / probability(t)
}

/// Φ(t).
fn probability(t: f64) -> f64 {
    0.5 * libm::erfc(-t / std::f64::consts::SQRT_2)
}

/// −ln Φ(t).
fn surprise(t: f64) -> f64 {
    if t < -25.0 {
        0.5 * t * t + libm::log(hazard(t)) + 0.5 * libm::log(2.0 * std::f64::consts::PI)
    } else if t > 0.0 {
        -libm::log1p(-probability(-t))
    } else {
        -libm::log(probability(t))
    }
}

impl Probit {
    /// The t below which slopes are clipped: hazard(t) = clip, by bisection.
    fn bend(self) -> f64 {
        let (mut low, mut high) = (-self.clip - 2.0, 40.0);
        for _ in 0..64 {
            let middle = 0.5 * (low + high);
            if hazard(middle) > self.clip { low = middle } else { high = middle }
        }
        low
    }
}

impl Link for Probit {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let (margin, label) = (s.store(margin), s.store(label));
        let mut slopes = [0.0; LANES];
        for (slope, (&m, &y)) in slopes.iter_mut().zip(margin.0.iter().zip(&label.0)) {
            *slope = self.slope_at(m, y);
        }
        s.load(&Lanes8(slopes))
    }
}

impl MarginLoss for Probit {
    const LABELS: Labels = Labels::Classes;
    const PROBABILITIES: bool = true;

    fn value(self, margin: f64, label: f64) -> f64 {
        let (t, bend) = (margin * label, self.bend());
        surprise(t.max(bend)) + self.clip * (bend - t).max(0.0)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        -label * hazard(label * margin).min(self.clip)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        let t = margin * label;
        let slope = hazard(t);
        if slope > self.clip { 0.0 } else { (slope * (slope + t)).clamp(0.0, 1.0) }
    }

    fn steepest(self) -> f64 {
        self.clip
    }

    fn curvature(self) -> f64 {
        1.0
    }

    fn saturates(self) -> f64 {
        self.clip + 1.0
    }

    fn mean(self, margin: f64) -> f64 {
        probability(margin)
    }

    /// Φ⁻¹ by bisection.
    fn margin_of(self, mean: f64) -> f64 {
        let (mut low, mut high) = (-40.0, 40.0);
        for _ in 0..64 {
            let middle = 0.5 * (low + high);
            if probability(middle) < mean { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    fn usual_slope(self, mean: f64, _: f64) -> f64 {
        self.usual_curvature(mean).sqrt()
    }

    /// φ²/(Φ(1 − Φ)): the information of a label.
    fn usual_curvature(self, mean: f64) -> f64 {
        let margin = self.margin_of(mean);
        hazard(margin) * hazard(-margin)
    }

    fn score(self, margin: f64, label: f64) -> Option<Score> {
        // Of either label the slope is the residual times φ/(Φ(1 − Φ)); the rarer one's is longer.
        let margin = margin.clamp(-8.0, 8.0);
        let (rare, common) = (hazard(-margin.abs()), hazard(margin.abs()));
        let information = rare * common;
        let value = -label * hazard(label * margin);
        Some(Score { value, bound: rare, information, most_information: information })
    }
}

impl Family for Probit {
    fn of(task: Task, options: &Options) -> Result<Self, ConfigError> {
        match task {
            Task::Binary => Ok(Self { clip: options.clip_or(CLIP)? }),
            _ => Err(ConfigError::at("loss", "probit is for a label of two classes")),
        }
    }

    fn options(self) -> Options {
        Options { clip: (self.clip != CLIP).then_some(self.clip), ..Options::default() }
    }
}
