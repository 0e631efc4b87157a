//! The logistic loss log(1 + e^{−t}), t = y·m, and the same with slopes clipped.

use super::{Labels, MarginLoss, Score};
use crate::kernel::{Lanes, Link, all_log1p_exp, exp, log1p_exp};

#[derive(Clone, Copy)]
pub(in crate::problem) struct Logistic;

/// Linear where the slope would exceed `clip`: the tangent at t₀ = ln((1 − clip)/clip) before t₀.
#[derive(Clone, Copy)]
pub(in crate::problem) struct ClippedLogistic {
    pub(in crate::problem) clip: f64,
}

impl Link for Logistic {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let e = exp(s, s.mul(margin, label));
        s.div(s.sub(s.splat(0.0), label), s.add(s.splat(1.0), e))
    }
}

impl MarginLoss for Logistic {
    const LABELS: Labels = Labels::Classes;

    fn value(self, margin: f64, label: f64) -> f64 {
        log1p_exp(-margin * label)
    }

    fn values(self, labels: &[f64], margins: &mut [f64]) {
        margins.iter_mut().zip(labels).for_each(|(m, y)| *m *= -y);
        all_log1p_exp(margins);
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        -label / (1.0 + libm::exp(label * margin))
    }

    fn curvature_at(self, margin: f64, _: f64) -> f64 {
        let e = libm::exp(-margin.abs());
        e / ((1.0 + e) * (1.0 + e))
    }

    fn steepest(self) -> f64 {
        1.0
    }

    fn curvature(self) -> f64 {
        0.25
    }

    fn mean(self, margin: f64) -> f64 {
        1.0 / (1.0 + libm::exp(-margin))
    }

    fn margin_of(self, mean: f64) -> f64 {
        libm::log(mean / (1.0 - mean))
    }

    /// The residual p − 1\[y = 1\] is at most max(p, 1 − p) whatever the label is.
    fn score(self, margin: f64, label: f64) -> Option<Score> {
        let p = self.mean(margin);
        let information = self.curvature_at(margin, label);
        Some(Score {
            value: self.slope_at(margin, label),
            bound: p.max(1.0 - p) * (1.0 + 4.0 * f64::EPSILON),
            information,
            most_information: information,
        })
    }
}

impl ClippedLogistic {
    /// t₀, where the slope is `clip`.
    fn bend(self) -> f64 {
        libm::log((1.0 - self.clip) / self.clip)
    }
}

impl Link for ClippedLogistic {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        s.clamp(Logistic.slope(s, margin, label), -self.clip, self.clip)
    }
}

impl MarginLoss for ClippedLogistic {
    const LABELS: Labels = Labels::Classes;

    fn value(self, margin: f64, label: f64) -> f64 {
        let (t, bend) = (margin * label, self.bend());
        log1p_exp(-t.max(bend)) + self.clip * (bend - t).max(0.0)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        Logistic.slope_at(margin, label).clamp(-self.clip, self.clip)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        if margin * label < self.bend() { 0.0 } else { Logistic.curvature_at(margin, label) }
    }

    fn steepest(self) -> f64 {
        self.clip
    }

    fn curvature(self) -> f64 {
        0.25
    }

    fn mean(self, margin: f64) -> f64 {
        1.0 / (1.0 + libm::exp(-margin))
    }

    fn margin_of(self, mean: f64) -> f64 {
        libm::log(mean / (1.0 - mean))
    }
}
