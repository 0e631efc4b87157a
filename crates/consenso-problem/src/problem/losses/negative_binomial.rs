//! Counts that vary more than Poisson's: log link, variance μ + αμ², linear where the slope
//! (μ − y)/(1 + αμ) would exceed `clip`.

use super::count::{self, Count, Moments};
use super::{Family, Labels, MarginLoss, Options, Score};
use crate::config_error::ConfigError;
use crate::data::Task;
use crate::kernel::{Lanes, Link, exp};
use serde::{Deserialize, Serialize};

/// Counts that vary more than Poisson's, with a log link.
///
/// The variance is μ + αμ²; the loss is linear where its slope would exceed `clip`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NegativeBinomial {
    /// Largest slope that counts; the largest label where files leave it open.
    pub clip: f64,
    /// α; found from the label's mean and variance where it is open and columns are scouted.
    pub dispersion: Option<f64>,
    /// The largest label.
    pub most: f64,
}

/// α where nothing is known of it.
const DISPERSION: f64 = 1.0;

impl NegativeBinomial {
    fn alpha(self) -> f64 {
        self.dispersion.unwrap_or(DISPERSION)
    }

    /// The mean whose slope for this label is `slope`: (y + s)/(1 − αs), or the end of its range.
    fn mean_with(self, slope: f64, label: f64) -> f64 {
        let room = 1.0 - self.alpha() * slope;
        if room > 0.0 { ((label + slope) / room).max(0.0) } else { f64::INFINITY }
    }

    /// Margins between which no slope of this label is clipped.
    fn ends(self, label: f64) -> (f64, f64) {
        (libm::log(self.mean_with(-self.clip, label)), libm::log(self.mean_with(self.clip, label)))
    }

    /// Half the unit deviance.
    fn half_deviance(self, margin: f64, label: f64) -> f64 {
        let a = self.alpha();
        // ln((1 + αy)/(1 + αμ)), with α·e^m kept from overflowing.
        let log_mean = if margin > 30.0 {
            libm::log(a) + margin + libm::log1p(libm::exp(-margin) / a)
        } else {
            libm::log1p(a * libm::exp(margin))
        };
        let surprise = if label > 0.0 { label * (libm::log(label) - margin) } else { 0.0 };
        surprise + (label + 1.0 / a) * (log_mean - libm::log1p(a * label))
    }
}

impl Link for NegativeBinomial {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        // Numerator and denominator times e^{−m}, so that neither overflows: both are finite.
        let back = exp(s, s.sub(s.splat(0.0), margin));
        let above = s.sub(s.splat(1.0), s.mul(label, back));
        s.clamp(s.div(above, s.add(back, s.splat(self.alpha()))), -self.clip, self.clip)
    }
}

impl MarginLoss for NegativeBinomial {
    const LABELS: Labels = Labels::AsTheyAre;

    fn value(self, margin: f64, label: f64) -> f64 {
        let (low, high) = self.ends(label);
        let m = margin.clamp(low, high);
        self.half_deviance(m, label) + super::linear(self.clip, margin - m)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        let back = libm::exp(-margin.clamp(-708.0, 708.0));
        ((1.0 - label * back) / (back + self.alpha())).clamp(-self.clip, self.clip)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        let (low, high) = self.ends(label);
        if !(low..=high).contains(&margin) {
            return 0.0;
        }
        let back = libm::exp(-margin.clamp(-708.0, 708.0));
        back * (1.0 + self.alpha() * label) / (back + self.alpha()).powi(2)
    }

    fn steepest(self) -> f64 {
        self.clip
    }

    /// φ'' = μ(1 + αy)/(1 + αμ)² is at most (1 + αy)/(4α), and where the slope is not clipped
    /// μ/(1 + αμ) ≤ clip + y, so that it is at most (clip + y)(1 + αy).
    fn curvature(self) -> f64 {
        let (a, y) = (self.alpha(), self.most);
        ((1.0 + a * y) * (0.25 / a).min(self.clip + y)) * (1.0 + 1e-15)
    }

    fn saturates(self) -> f64 {
        libm::log1p(self.clip.max(self.most)) + 12.0
    }

    fn mean(self, margin: f64) -> f64 {
        libm::exp(margin.min(count::MOST_MARGIN))
    }

    fn margin_of(self, mean: f64) -> f64 {
        libm::log(mean)
    }

    fn usual_slope(self, mean: f64, deviation: f64) -> f64 {
        deviation / (1.0 + self.alpha() * mean)
    }

    fn usual_curvature(self, mean: f64) -> f64 {
        mean / (1.0 + self.alpha() * mean)
    }

    fn deviance(self, margin: f64, label: f64) -> Option<f64> {
        Some(2.0 * self.half_deviance(margin, label))
    }

    fn score(self, margin: f64, label: f64) -> Option<Score> {
        let (mean, a) = (self.mean(margin), self.alpha());
        let grown = 1.0 + a * mean;
        let variance = mean * grown;
        let first = libm::exp(-libm::log1p(a * mean) / a);
        let following = |y: f64| (y + 1.0 / a) / (y + 1.0) * (a * mean / grown);
        let skewness = (1.0 + 2.0 * a * mean) / variance.sqrt();
        Some(count::score(Moments { mean, variance, skewness }, grown, label, first, following))
    }

    /// α by moments: what the label's variance has beyond its mean. Part of that variance is what
    /// the columns explain, so that α is rather too large: a downweighting, and no bias.
    fn fitted_to(self, mean: f64, deviation: f64) -> Self {
        let found = (deviation * deviation - mean) / (mean * mean).max(f64::MIN_POSITIVE);
        Self { dispersion: self.dispersion.or(Some(found.clamp(0.01, 10.0))), ..self }
    }
}

/// What a dispersion α₀ that was found from labels alone does to estimates.
///
/// Labels vary by what columns explain, too: with margins of variance v that are as normal, 1 + α₀ =
/// (1 + α)e^v. Scores that are bounded and centred under α₀ have a mean b(m) under α where the
/// margin is right, and estimates end where `E[w(b + i·Δ)(1, t)] = 0` for margins that are off by Δ =
/// δ₀ + δ₁t, t the margin in units of √v: the intercept by δ₀, and slopes by the factor 1 + δ₁/√v.
/// Which α it is follows from the second moment of the scores beside their information, which grow
/// apart with α.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedCounts {
    /// α.
    pub dispersion: f64,
    /// δ₀.
    pub shift: f64,
    /// 1 + δ₁/√v.
    pub factor: f64,
}

impl BoundedCounts {
    /// Dispersions that are told apart begin here.
    const LEAST: f64 = 1e-3;
    /// Points of the margins' law on either side, and how many deviations they reach.
    const POINTS: i32 = 12;
    const REACH: f64 = 3.0;
    /// Means from here on are taken for this one.
    const LARGEST: f64 = 300.0;

    /// The second moment of a score beside its information where counts have Poisson's law: that of
    /// a dispersion of nearly nothing.
    #[must_use]
    pub fn usual_ratio(mean: f64) -> f64 {
        const NONE: f64 = 1e-5;
        let loss = NegativeBinomial { clip: f64::MAX, dispersion: Some(NONE), most: f64::MAX };
        let margin = libm::log(mean.min(Self::LARGEST));
        let information = loss.score(margin, mean).map_or(1.0, |s| s.information);
        loss.moments_under(NONE, margin).1 / information
    }

    /// Of labels with this mean whose scores under `loss` have `ratio` times their information as
    /// second moment; a record of information `most` times that at the mean counts for less.
    #[must_use]
    pub fn of(loss: NegativeBinomial, mean: f64, ratio: f64, most: f64) -> Self {
        let given = loss.alpha();
        let at = |log: f64| Self::at(loss, mean, libm::exp(log), most);
        let (mut low, mut high) = (libm::log(Self::LEAST), libm::log(given.max(2.0 * Self::LEAST)));
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if at(middle).1 < ratio { low = middle } else { high = middle }
        }
        at(0.5 * (low + high)).0
    }

    /// What α leads to, and the ratio of second moment and information.
    fn at(loss: NegativeBinomial, mean: f64, dispersion: f64, most: f64) -> (Self, f64) {
        let spread = libm::log((1.0 + loss.alpha()) / (1.0 + dispersion)).max(1e-4);
        let at_mean = loss.score(libm::log(mean), mean).expect("counts have scores");
        let (mut sums, mut moments) = ([0.0; 3], [0.0; 2]);
        let (mut squares, mut singles) = (0.0, 0.0);
        for k in -Self::POINTS..=Self::POINTS {
            let t = f64::from(k) / f64::from(Self::POINTS) * Self::REACH;
            let margin = libm::log(mean) - 0.5 * spread + spread.sqrt() * t;
            let margin = margin.min(libm::log(Self::LARGEST));
            let score = loss.score(margin, loss.mean(margin)).expect("counts have scores");
            let weight = (at_mean.bound / score.bound)
                .min(most * at_mean.most_information / score.most_information)
                .min(1.0);
            let (first, second) = loss.moments_under(dispersion, margin);
            let chance = libm::exp(-0.5 * t * t) * weight;
            let power = [1.0, t, t * t];
            sums.iter_mut().zip(power).for_each(|(s, p)| *s += chance * score.information * p);
            moments.iter_mut().zip(power).for_each(|(s, p)| *s -= chance * first * p);
            squares += chance * weight * (second - first * first);
            singles += chance * score.information;
        }
        let determinant = sums[0] * sums[2] - sums[1] * sums[1];
        let shift = (sums[2] * moments[0] - sums[1] * moments[1]) / determinant;
        let along = (sums[0] * moments[1] - sums[1] * moments[0]) / determinant;
        let factor = 1.0 + along / spread.sqrt();
        (Self { dispersion, shift, factor }, squares / singles)
    }
}

impl NegativeBinomial {
    /// Mean and second moment of the score at a margin where the dispersion is another.
    fn moments_under(self, dispersion: f64, margin: f64) -> (f64, f64) {
        let mean = self.mean(margin);
        let grown = 1.0 + dispersion * mean;
        let mut p = libm::exp(-libm::log1p(dispersion * mean) / dispersion);
        let (mut y, mut first, mut second, mut left) = (0.0, 0.0, 0.0, 1.0);
        let grown_given = 1.0 + self.alpha() * mean;
        let deviation = (mean * grown_given).sqrt();
        let end = mean + 2.0 * deviation;
        // A score is that of the mean itself and what its residual adds; all counts beyond the clip
        // have one.
        let centre = self.score(margin, mean).map_or(0.0, |s| s.value);
        let score = |y: f64| {
            let residual = ((mean - y) / deviation).clamp(-count::REACH, count::REACH);
            centre + deviation / grown_given * residual
        };
        while y < end {
            let value = score(y);
            (first, second, left) = (first + p * value, second + p * value * value, left - p);
            p *= (y + 1.0 / dispersion) / (y + 1.0) * (dispersion * mean / grown);
            y += 1.0;
        }
        let (last, left) = (score(y), left.max(0.0));
        (first + left * last, second + left * last * last)
    }
}

impl Family for NegativeBinomial {
    fn of(task: Task, options: &Options) -> Result<Self, ConfigError> {
        let most = Count::labels("negative-binomial", task)?;
        let dispersion = match options.dispersion {
            Some(a) if !(a > 0.0 && a.is_finite()) => {
                return Err(ConfigError::at(
                    "dispersion",
                    format!("{a} must be a positive number"),
                ));
            }
            given => given,
        };
        Ok(Self { clip: options.clip_or(most.max(1.0))?, dispersion, most })
    }

    fn options(self) -> Options {
        Options { clip: Some(self.clip), dispersion: self.dispersion, ..Options::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(alpha: f64) -> NegativeBinomial {
        NegativeBinomial { clip: 60.0, dispersion: Some(alpha), most: 60.0 }
    }

    /// With its own dispersion a score has mean zero; with another the mean and the second moment
    /// are those of scipy's `nbinom`, summed up to ten thousand.
    #[test]
    fn scores_under_another_dispersion_have_the_mean_that_scipy_says() {
        for margin in [-3.0, -1.0, 0.5, 2.5] {
            let (first, second) = loss(0.7).moments_under(0.7, margin);
            assert!(first.abs() < 1e-9 && second > 0.0, "{margin}: {first}");
        }
        for (given, dispersion, margin, first, second) in MOMENTS {
            let found = loss(given).moments_under(dispersion, margin);
            assert!((found.0 - first).abs() < 1e-9 && (found.1 - second).abs() < 1e-9, "{found:?}");
        }
    }

    /// Against scipy's `poisson`, summed up.
    #[test]
    fn scores_of_counts_vary_as_poisson_says() {
        for (mean, want) in [(0.3, USUAL[0]), (3.0, USUAL[1]), (40.0, USUAL[2])] {
            let got = BoundedCounts::usual_ratio(mean);
            assert!((got / want - 1.0).abs() < 1e-3, "{mean}: {got} {want}");
        }
    }

    const USUAL: [f64; 3] = [0.8647041753, 0.8926624657, 0.8981086882];

    /// Shift and factor are those of the same sums in numpy and scipy. Of 400,000 records drawn with
    /// α = 0.5, of which labels said 1.43, numpy's solution had the intercept off by 0.108.
    #[test]
    fn counts_say_how_far_estimates_are_off() {
        let (found, ratio) = BoundedCounts::at(loss(1.43), 0.6, 0.5, 1.5);
        assert!((found.shift - 0.110_673_871).abs() < 1e-6, "{found:?}");
        assert!((found.factor - 1.017_331_143).abs() < 1e-6, "{found:?}");
        assert!((ratio - 0.690_616_933).abs() < 1e-6, "{ratio}");
        let same = BoundedCounts::at(loss(1.43), 0.7, 1.43, 1.5).0;
        assert!(same.shift.abs() < 1e-9 && (same.factor - 1.0).abs() < 1e-6, "{same:?}");
        for dispersion in [0.1, 0.5, 1.2] {
            let (want, ratio) = BoundedCounts::at(loss(1.43), 0.7, dispersion, 1.5);
            let found = BoundedCounts::of(loss(1.43), 0.7, ratio, 1.5);
            assert!((found.dispersion / dispersion - 1.0).abs() < 1e-6, "{found:?} {want:?}");
        }
    }

    const MOMENTS: [(f64, f64, f64, f64, f64); 4] = [
        (1.43, 0.5, -1.0, -0.016_358_365_361_706_276, 0.113_920_398_051_793_94),
        (1.43, 0.5, 1.0, -0.049_013_691_597_531_08, 0.218_372_170_979_569_46),
        (0.8, 0.1, 0.3, -0.047_814_350_575_850_47, 0.303_775_484_098_820_5),
        (2.0, 1.0, 2.0, -0.040_443_337_304_607_134, 0.178_345_939_552_214_8),
    ];
}
