//! Positive amounts with a log link: half the gamma deviance y·e^{−m} + m, linear where its slope
//! 1 − y·e^{−m} would be below −`clip`.

use super::{Family, Labels, MarginLoss, Options, Score};
use crate::config_error::ConfigError;
use crate::data::Task;
use crate::kernel::{Lanes, Link, exp};
use crate::problem::special::gamma_above;
use serde::{Deserialize, Serialize};

/// Labels count up to one more than so many times their mean.
const CLIP: f64 = 20.0;

/// Residuals 1 − y/μ count up to so many coefficients of variation in a score.
const REACH: f64 = 1.5;

/// Positive amounts, with a log link.
///
/// Half the gamma deviance, made linear where its slope 1 − y·e^(−zᵀx) would be below −`clip`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gamma {
    /// How many times its mean a label counts at most, less one.
    pub clip: f64,
    /// The coefficient of variation of labels.
    pub dispersion: f64,
}

impl Gamma {
    /// The margin below which slopes of this label are clipped.
    fn bend(self, label: f64) -> f64 {
        libm::log(label / (1.0 + self.clip))
    }
}

impl Link for Gamma {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let back = exp(s, s.sub(s.splat(0.0), margin));
        s.clamp(s.sub(s.splat(1.0), s.mul(label, back)), -self.clip, 1.0)
    }
}

impl MarginLoss for Gamma {
    const LABELS: Labels = Labels::AsTheyAre;

    fn value(self, margin: f64, label: f64) -> f64 {
        let m = margin.max(self.bend(label));
        let ratio = label * libm::exp(-m);
        ratio - 1.0 - libm::log(ratio) + super::linear(self.clip, m - margin)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        (1.0 - label * libm::exp(-margin.clamp(-708.0, 708.0))).clamp(-self.clip, 1.0)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        if margin < self.bend(label) { 0.0 } else { label * libm::exp(-margin) }
    }

    fn steepest(self) -> f64 {
        self.clip.max(1.0)
    }

    /// φ'' = y·e^{−m} ≤ 1 + clip wherever the slope is not clipped.
    fn curvature(self) -> f64 {
        (1.0 + self.clip).next_up()
    }

    fn saturates(self) -> f64 {
        libm::log1p(self.clip) + 12.0
    }

    fn mean(self, margin: f64) -> f64 {
        libm::exp(margin.min(super::count::MOST_MARGIN))
    }

    fn margin_of(self, mean: f64) -> f64 {
        libm::log(mean)
    }

    fn usual_slope(self, mean: f64, deviation: f64) -> f64 {
        deviation / mean
    }

    fn usual_curvature(self, _: f64) -> f64 {
        1.0
    }

    fn deviance(self, margin: f64, label: f64) -> Option<f64> {
        let ratio = label * libm::exp(-margin);
        Some(2.0 * (ratio - 1.0 - libm::log(ratio)))
    }

    /// The residual 1 − y/μ clipped to ±1.5 coefficients of variation. y/μ has one law whatever the
    /// columns are, so that what clipping moves is the intercept alone ([`BoundedAmounts`]).
    fn score(self, margin: f64, label: f64) -> Option<Score> {
        let ratio = label * libm::exp(-margin.clamp(-708.0, 708.0));
        let bound = REACH * self.dispersion;
        let clipped = (1.0 - ratio).abs() > bound;
        Some(Score {
            value: (1.0 - ratio).clamp(-bound, bound),
            bound,
            information: if clipped { 0.0 } else { ratio },
            most_information: 1.0 + bound,
        })
    }

    /// The coefficient of variation of the label: what the columns explain of it included.
    fn fitted_to(self, mean: f64, deviation: f64) -> Self {
        let dispersion = (deviation / mean.max(f64::MIN_POSITIVE)).clamp(0.05, 5.0);
        Self { dispersion, ..self }
    }
}

/// What bounding residuals does to an intercept, where labels have gamma laws.
///
/// A label is its mean times ρ, and ρ has mean one and variance φ whatever the columns are. Scores
/// clip(1 − ρe^{−δ}, ±b) have mean zero where a margin is off by δ: large amounts count for less
/// than they are, so δ < 0 wherever any are cut, and slopes are off by nothing. φ is what
///
/// ```text
/// E[clip(1 − ρe^{−δ})²] / E[ρe^{−δ}; not cut],      E clip(1 − ρe^{−δ}) = 0
/// ```
///
/// is said to be: second moment and information of the scores, which grow apart with φ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedAmounts {
    /// √φ, the coefficient of variation around the mean.
    pub dispersion: f64,
    /// δ.
    pub shift: f64,
}

impl BoundedAmounts {
    /// Coefficients of variation that are told apart.
    const RANGE: (f64, f64) = (0.02, 8.0);

    /// φ and δ of scores up to ±`bound` whose second moment is `ratio` times their information.
    #[must_use]
    pub fn of(ratio: f64, bound: f64) -> Self {
        let at = |dispersion: f64| {
            let shape = 1.0 / (dispersion * dispersion);
            // The mean of the scores grows with δ.
            let shift = bisected((-4.0, 1.0), |shift| moments(shape, shift, bound)[0]);
            Self { dispersion, shift }
        };
        let dispersion = bisected(Self::RANGE, |dispersion| {
            let [_, square, information] =
                moments(1.0 / (dispersion * dispersion), at(dispersion).shift, bound);
            square / information - ratio
        });
        at(dispersion)
    }
}

/// Where an increasing function is zero.
fn bisected((mut low, mut high): (f64, f64), of: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        if of(middle) < 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Mean, second moment and information of clip(1 − ρe^{−δ}, ±b).
fn moments(shape: f64, shift: f64, bound: f64) -> [f64; 3] {
    let factor = libm::exp(-shift);
    let ends = ((1.0 - bound).max(0.0) / factor, (1.0 + bound) / factor);
    // E[ρ^n; ρ < x] is E ρ^n times the law's distribution function for a shape n larger.
    let below = |x: f64| [0.0, 1.0, 2.0].map(|n| 1.0 - gamma_above(shape + n, shape * x));
    let (low, high) = (below(ends.0), below(ends.1));
    let inside = [0, 1, 2].map(|n| high[n] - low[n]);
    let (first, second) = (factor * inside[1], factor * factor * (1.0 + 1.0 / shape) * inside[2]);
    let mean = bound * (low[0] - 1.0 + high[0]) + inside[0] - first;
    let square = bound * bound * (low[0] + 1.0 - high[0]) + inside[0] - 2.0 * first + second;
    [mean, square, first]
}

impl Family for Gamma {
    fn of(task: Task, options: &Options) -> Result<Self, ConfigError> {
        match task {
            Task::Regression { min, .. } if min > 0.0 => {
                Ok(Self { clip: options.clip_or(CLIP)?, dispersion: 1.0 })
            }
            _ => Err(ConfigError::at(
                "loss",
                "gamma is for a label that is a positive number; declare min above 0 and max at the label",
            )),
        }
    }

    fn options(self) -> Options {
        Options { clip: (self.clip != CLIP).then_some(self.clip), ..Options::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Dispersion and shift are found again from the moments that quadrature in scipy gives
    /// (`integrate.quad` of gamma's density, `optimize.brentq` of the shift).
    #[test]
    fn bounded_amounts_say_how_far_an_intercept_is_off() {
        for (dispersion, bound, shift, ratio) in SHIFTS {
            let found = BoundedAmounts::of(ratio, bound);
            assert!((found.dispersion / dispersion - 1.0).abs() < 1e-7, "{found:?} {dispersion}");
            assert!((found.shift - shift).abs() < 1e-8, "{found:?} {shift}");
        }
    }

    const SHIFTS: [(f64, f64, f64, f64); 6] = [
        (1.0, 1.5, -0.113_566_589_561_661_5, 0.873_688_031_277_687_9),
        (1.0, 2.2, -0.048_607_908_502_618_77, 0.920_614_689_397_870_9),
        (0.7, 1.3, -0.037_605_674_055_445_557, 0.450_467_410_190_531_5),
        (0.3, 0.5, -0.010_633_426_121_721_33, 0.083_294_851_398_604_72),
        (1.6, 2.8, -0.193_994_528_226_452_02, 2.219_399_250_846_652),
        (0.1, 0.15, -0.001_491_755_960_779_084_5, 0.008_987_945_602_390_286),
    ];
}
