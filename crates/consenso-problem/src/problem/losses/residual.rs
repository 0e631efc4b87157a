//! Losses of the residual r = m − y: ½r², and Huber's, which is linear beyond δ.

use super::{Labels, MarginLoss, Score};
use crate::kernel::{Lanes, Link};

/// ½r², with residuals clipped to ±`clip` in the gradient alone; its values are those of plain
/// least squares.
#[derive(Clone, Copy)]
pub(in crate::problem) struct Ridge {
    pub(in crate::problem) clip: f64,
}

/// ½r² for |r| ≤ δ, δ|r| − ½δ² beyond.
#[derive(Clone, Copy)]
pub(in crate::problem) struct Huber {
    pub(in crate::problem) delta: f64,
}

impl Link for Huber {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        s.clamp(s.sub(margin, label), -self.delta, self.delta)
    }
}

impl MarginLoss for Huber {
    const LABELS: Labels = Labels::Standardised;

    fn value(self, margin: f64, label: f64) -> f64 {
        let (r, delta) = (margin - label, self.delta);
        if r.abs() <= delta { 0.5 * r * r } else { delta * (r.abs() - 0.5 * delta) }
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        (margin - label).clamp(-self.delta, self.delta)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        if (margin - label).abs() <= self.delta { 1.0 } else { 0.0 }
    }

    fn steepest(self) -> f64 {
        self.delta
    }

    fn curvature(self) -> f64 {
        1.0
    }

    fn saturates(self) -> f64 {
        2.0 * self.delta
    }

    /// Symmetric errors are clipped without bias; others move the intercept alone where they do not
    /// depend on the columns.
    fn score(self, margin: f64, label: f64) -> Option<Score> {
        Some(Score {
            value: self.slope_at(margin, label),
            bound: self.delta,
            information: self.curvature_at(margin, label),
            most_information: 1.0,
        })
    }
}

impl Ridge {
    /// The loss whose gradient the clipped one is.
    fn clipped(self) -> Huber {
        Huber { delta: self.clip }
    }
}

impl Link for Ridge {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        self.clipped().slope(s, margin, label)
    }
}

impl MarginLoss for Ridge {
    const LABELS: Labels = Labels::Standardised;

    fn value(self, margin: f64, label: f64) -> f64 {
        0.5 * (margin - label) * (margin - label)
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        self.clipped().slope_at(margin, label)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        self.clipped().curvature_at(margin, label)
    }

    fn steepest(self) -> f64 {
        self.clip
    }

    fn curvature(self) -> f64 {
        1.0
    }

    fn saturates(self) -> f64 {
        self.clipped().saturates()
    }

    /// Residuals count up to one deviation of the label.
    fn score(self, margin: f64, label: f64) -> Option<Score> {
        Huber { delta: self.clip.min(1.0) }.score(margin, label)
    }
}
