//! The logistic loss log(1 + e^{−t}), t = y·m, and the same with slopes clipped.

use super::MarginLoss;
use crate::kernel::{Lanes, Link, exp};

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
    const BINARY: bool = true;

    fn value(self, margin: f64, label: f64) -> f64 {
        log1p_exp(-margin * label)
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
    const BINARY: bool = true;

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
}

/// Clipped, then times the weight of the label's class.
#[derive(Clone, Copy)]
pub(in crate::problem) struct WeightedLogistic {
    pub(in crate::problem) clip: f64,
    pub(in crate::problem) negative: f64,
    pub(in crate::problem) positive: f64,
}

impl WeightedLogistic {
    fn plain(self) -> ClippedLogistic {
        ClippedLogistic { clip: self.clip }
    }

    fn weight(self, label: f64) -> f64 {
        if label > 0.0 { self.positive } else { self.negative }
    }

    fn heaviest(self) -> f64 {
        self.positive.max(self.negative)
    }
}

impl Link for WeightedLogistic {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let slope = ClippedLogistic { clip: self.clip }.slope(s, margin, label);
        // Labels are ±1: the mean weight and half the difference give either, to a rounding that the sensitivity's slack covers.
        let (mean, half) = (0.5 * (self.positive + self.negative), 0.5 * (self.positive - self.negative));
        s.mul(slope, s.fma(label, s.splat(half), s.splat(mean)))
    }
}

impl MarginLoss for WeightedLogistic {
    const BINARY: bool = true;

    fn value(self, margin: f64, label: f64) -> f64 {
        self.weight(label) * self.plain().value(margin, label)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        self.weight(label) * self.plain().slope_at(margin, label)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        self.weight(label) * self.plain().curvature_at(margin, label)
    }

    fn steepest(self) -> f64 {
        (self.clip * self.heaviest()).next_up()
    }

    fn curvature(self) -> f64 {
        (0.25 * self.heaviest()).next_up()
    }
}

/// log(1 + e^t) without overflow.
fn log1p_exp(t: f64) -> f64 {
    t.max(0.0) + libm::log1p(libm::exp(-t.abs()))
}
