//! A loss of two classes, times the weight of the label's class.

use super::{Labels, MarginLoss};
use crate::kernel::{Lanes, Link};

#[derive(Clone, Copy)]
pub(in crate::problem) struct Weighted<L> {
    pub(in crate::problem) plain: L,
    pub(in crate::problem) negative: f64,
    pub(in crate::problem) positive: f64,
}

impl<L> Weighted<L> {
    fn weight(&self, label: f64) -> f64 {
        if label > 0.0 { self.positive } else { self.negative }
    }

    fn heaviest(&self) -> f64 {
        self.positive.max(self.negative)
    }
}

impl<L: Link> Link for Weighted<L> {
    #[inline(always)]
    fn slope<S: Lanes>(self, s: S, margin: S::V, label: S::V) -> S::V {
        let slope = self.plain.slope(s, margin, label);
        // Labels are ±1: the mean weight and half the difference give either, to a rounding that
        // the sensitivity's slack covers.
        let (mean, half) =
            (0.5 * (self.positive + self.negative), 0.5 * (self.positive - self.negative));
        s.mul(slope, s.fma(label, s.splat(half), s.splat(mean)))
    }
}

impl<L: MarginLoss> MarginLoss for Weighted<L> {
    const LABELS: Labels = Labels::Classes;

    fn value(self, margin: f64, label: f64) -> f64 {
        self.weight(label) * self.plain.value(margin, label)
    }

    fn values(self, labels: &[f64], margins: &mut [f64]) {
        self.plain.values(labels, margins);
        margins.iter_mut().zip(labels).for_each(|(value, &y)| *value *= self.weight(y));
    }

    fn slope_at(self, margin: f64, label: f64) -> f64 {
        self.weight(label) * self.plain.slope_at(margin, label)
    }

    fn curvature_at(self, margin: f64, label: f64) -> f64 {
        self.weight(label) * self.plain.curvature_at(margin, label)
    }

    fn steepest(self) -> f64 {
        (self.plain.steepest() * self.heaviest()).next_up()
    }

    fn curvature(self) -> f64 {
        (self.plain.curvature() * self.heaviest()).next_up()
    }

    fn saturates(self) -> f64 {
        self.plain.saturates()
    }
}
