//! The squared hinge ½·max(0, 1 − t)², t = y·m, linear where its slope would exceed `clip`: a
//! support vector machine that is smooth.

use super::{Labels, MarginLoss};
use crate::kernel::{Lanes, Link};

#[derive(Clone, Copy)]
pub(in crate::problem) struct SquaredHinge {
    pub(in crate::problem) clip: f64,
}

impl SquaredHinge {
    /// How far t is below 1.
    fn shortfall(margin: f64, label: f64) -> f64 {
        (1.0 - margin * label).max(0.0)
    }
}

impl Link for SquaredHinge {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let shortfall = s.clamp(s.sub(s.splat(1.0), s.mul(margin, label)), 0.0, self.clip);
        s.sub(s.splat(0.0), s.mul(label, shortfall))
    }
}

impl MarginLoss for SquaredHinge {
    const LABELS: Labels = Labels::Classes;

    fn value(self, margin: f64, label: f64) -> f64 {
        let (u, clip) = (Self::shortfall(margin, label), self.clip);
        if u <= clip { 0.5 * u * u } else { clip * (u - 0.5 * clip) }
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        -label * Self::shortfall(margin, label).min(self.clip)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        let u = Self::shortfall(margin, label);
        if u > 0.0 && u <= self.clip { 1.0 } else { 0.0 }
    }

    fn steepest(self) -> f64 {
        self.clip
    }

    fn curvature(self) -> f64 {
        1.0
    }

    fn saturates(self) -> f64 {
        self.clip.max(1.0)
    }
}
