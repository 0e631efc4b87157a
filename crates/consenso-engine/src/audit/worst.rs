//! The pair of records that tells two data sets apart best, within public bounds.

use crate::data::{Records, RowBounds};
use crate::privacy::NeighbourRelation;
use crate::problem::Loss;

use super::Side;

/// How the difference of the two records is spread over coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorstNorm {
    /// The largest l1 norm the bounds allow: worst for one release under Laplace noise.
    L1,
    /// The largest l2 norm the bounds allow: worst under Gaussian noise, and for many small Laplace
    /// releases.
    L2,
}

/// Two records z± = (anchor, ±s, …, ±s, 0, …) of the same label; the model's weight on the anchor
/// decides how much slope they have.
///
/// Replacing a record by its negative moves a logistic gradient by ‖z‖/b only, for the two slopes
/// add up to 1. The anchor, small and common to both, is what makes the bound 2‖z‖/b attainable:
/// where its margin is far on the wrong side *both* slopes are 1.
#[derive(Clone, Debug, PartialEq)]
pub struct WorstPair {
    features: usize,
    anchor: f64,
    entry: f64,
    entries: usize,
    loss: Loss,
    neighbours: NeighbourRelation,
}

/// The anchor's share of the smallest bound: it costs this share of l1, and its square of l2.
const ANCHOR: f64 = 0.01;

/// Margin at which a slope is 1 to five digits.
const SATURATED: f64 = 12.0;

impl WorstPair {
    /// The worst pair of at most `features` features.
    ///
    /// Under [`NeighbourRelation::ZeroOut`] the second data set has a row of zeros in place of the
    /// record; under [`NeighbourRelation::AddRemove`] it has no such record, and all the others
    /// pull the other way, so that their weight in the mean tells as much as the record itself.
    /// Otherwise one record is replaced by the other, also under the paper's convention, whose data
    /// sets are neighbours in that sense.
    #[must_use]
    pub fn new(
        loss: Loss,
        bounds: &RowBounds,
        features: usize,
        spread: WorstNorm,
        neighbours: NeighbourRelation,
    ) -> Self {
        // With a single feature there is no room for an anchor.
        let anchor = if features < 2 {
            0.0
        } else {
            ANCHOR * bounds.l1().min(bounds.l2()).min(bounds.linf())
        };
        let most = features.saturating_sub(1).max(1);
        let entry = |m: usize| {
            let n = m as f64;
            let l2 = ((bounds.l2() * bounds.l2() - anchor * anchor) / n).sqrt();
            bounds.linf().min((bounds.l1() - anchor) / n).min(l2) * (1.0 - 1e-12)
        };
        let norm = |m: usize| match spread {
            WorstNorm::L1 => entry(m) * m as f64,
            WorstNorm::L2 => entry(m) * (m as f64).sqrt(),
        };
        let best = (1..=most).map(norm).fold(0.0, f64::max);
        // The fewest coordinates that do: the others would only cost time.
        let entries = (1..=most).find(|&m| norm(m) >= best * (1.0 - 1e-9)).unwrap_or(1);
        // Two classes have the largest gradients a softmax has.
        let loss =
            if let Loss::Softmax { .. } = loss { Loss::Softmax { classes: 2 } } else { loss };
        let pair = Self { features, anchor, entry: entry(entries), entries, loss, neighbours };
        match (loss, neighbours) {
            // Gradients are rows, whatever the labels: two rows may be known to be less than twice
            // their length apart.
            (Loss::Linear(_), NeighbourRelation::ReplaceOne | NeighbourRelation::AddRemove) => {
                pair.scaled(bounds.apart() / (2.0 * bounds.l2()))
            }
            _ => pair,
        }
    }

    /// The pair without the features it does not use.
    #[must_use]
    pub(crate) fn compact(mut self) -> Self {
        self.features = self.features.min(self.entries + 1);
        self
    }

    /// Makes both records `factor` times as large.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.anchor *= factor;
        self.entry *= factor;
        self
    }

    /// The loss it is made for.
    #[must_use]
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// Features of its records.
    #[must_use]
    pub fn features(&self) -> usize {
        self.features
    }

    /// The record of one side, and its label.
    #[must_use]
    pub fn record(&self, side: Side) -> (Vec<f64>, f64) {
        let mut row = vec![0.0; self.features];
        let start = usize::from(self.features > 1);
        if side == Side::First || self.neighbours != NeighbourRelation::ZeroOut {
            let sign = if side == Side::First { 1.0 } else { -1.0 };
            row[start..start + self.entries].fill(sign * self.entry);
            if start > 0 {
                // A logistic slope is large where the margin is negative, a residual where it is
                // positive.
                row[0] =
                    if self.loss.is_binary() { -self.label() * self.anchor } else { self.anchor };
            }
        }
        (row, self.label())
    }

    /// The label of the pair: of two classes the one that weighs more.
    fn label(&self) -> f64 {
        match self.loss {
            loss if !loss.is_binary() => 0.0,
            loss if loss.weight(1.0) < loss.weight(-1.0) => -1.0,
            _ => 1.0,
        }
    }

    /// `rows` records: the pair's and otherwise rows of zeros, whose gradient is zero. Where a
    /// record is removed, the others are all the pair's second one, and the second data set has one
    /// row less.
    #[must_use]
    pub fn records(&self, side: Side, rows: usize) -> Records {
        let mut records = Records::with_capacity(self.features, rows);
        let (row, label) = self.record(side);
        let other = match self.neighbours {
            NeighbourRelation::AddRemove => self.record(Side::Second).0,
            _ => vec![0.0; self.features],
        };
        if side == Side::First || self.neighbours != NeighbourRelation::AddRemove || rows < 2 {
            records.push(&row, label);
        }
        for _ in 1..rows {
            records.push(&other, label);
        }
        records
    }

    /// What the adversary takes as known: the data set without the first record, whose gradient
    /// [`Self::multiples`] are about.
    #[must_use]
    pub fn known(&self) -> Records {
        let mut records = Records::with_capacity(self.features, 1);
        let (second, label) = self.record(Side::Second);
        match self.neighbours {
            NeighbourRelation::AddRemove => records.push(&second, label),
            _ => records.push(&vec![0.0; self.features], label),
        }
        records
    }

    /// By how many times [`Self::direction`]/b the mean gradient differs from that of
    /// [`Self::known`], on the first and on the second side.
    #[must_use]
    pub fn multiples(&self) -> (f64, f64) {
        match self.neighbours {
            NeighbourRelation::AddRemove => (2.0, 0.0),
            NeighbourRelation::ZeroOut => (1.0, 0.0),
            NeighbourRelation::ReplaceOne | NeighbourRelation::Paper => (1.0, -1.0),
        }
    }

    /// The gradient of the first record where slopes are saturated, by coordinate of the model; the
    /// second's is its negative, or zero (but for the anchor, which tells nothing and is left out).
    #[must_use]
    pub fn direction(&self) -> Vec<f64> {
        let start = usize::from(self.features > 1);
        let entry =
            |l: usize| if (start..start + self.entries).contains(&l) { self.entry } else { 0.0 };
        let times = |slope: f64| (0..self.features).map(move |l| slope * entry(l));
        match self.loss.saturation() {
            Some((slope, _)) if self.loss.is_binary() => times(-self.label() * slope).collect(),
            Some((slope, _)) => times(slope).collect(),
            None => times(-1.0).chain(times(1.0)).collect(),
        }
    }

    /// A model at which the pair's slopes are saturated: which coordinate, and its value. `None`
    /// without an anchor.
    #[must_use]
    pub(crate) fn steering(&self) -> Option<(usize, f64)> {
        if self.anchor == 0.0 {
            return None;
        }
        let margin = self.loss.saturation().map_or(SATURATED, |(_, margin)| margin);
        // For softmax it is the wrong class that gets the weight.
        let index = if let Loss::Softmax { .. } = self.loss { self.features } else { 0 };
        Some((index, margin / self.anchor))
    }
}
