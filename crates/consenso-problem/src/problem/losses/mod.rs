//! Losses that see a record only through its margin m = zᵀx and its label y, one file each.
//!
//! A new one is a file here that implements `MarginLoss` and `Family`, and its line in the table
//! of families below. What claims rest on is `MarginLoss::steepest`, `MarginLoss::curvature` and
//! `Score::bound`; `tests/paper/problem.rs` of `consenso-paper` holds every loss, those of the
//! table as soon as they stand there, to its bounds and its derivatives to each other.

mod count;
mod logistic;
mod residual;
mod squared_hinge;
mod weighted;

pub(super) use logistic::{ClippedLogistic, Logistic};
pub(super) use residual::{Huber, Ridge};
pub(super) use squared_hinge::SquaredHinge;
pub(super) use weighted::Weighted;

#[doc(hidden)]
pub use gamma::BoundedAmounts;
#[doc(hidden)]
pub use negative_binomial::BoundedCounts;

use crate::config_error::ConfigError;
use crate::data::Task;
use crate::kernel::Link;

/// Declares the files of the table, shows their types, and makes `for_families!`, which hands the
/// table to another macro.
macro_rules! families {
    (($d:tt) $($file:ident::$name:ident = $word:literal,)*) => {
        $(mod $file;)*
        $(pub use $file::$name;)*

        macro_rules! for_families {
            ($d table:ident, $d dollar:tt) => {
                $d table! { ($d dollar) $($name = $word)* }
            };
        }
        pub(super) use for_families;
    };
}

// A file of this folder, the type in it, and its word in experiment files.
families! {
    ($)
    poisson::Poisson = "poisson",
    negative_binomial::NegativeBinomial = "negative-binomial",
    gamma::Gamma = "gamma",
    probit::Probit = "probit",
    quantile::Quantile = "quantile",
    stratified::StratifiedHazards = "stratified-hazards",
    linear::Linear = "linear",
}

/// A margin at which a logistic slope is 1 to five digits.
const FAR: f64 = 12.0;

/// What labels are to a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Labels {
    /// −1 and +1; the sign of the margin answers.
    Classes,
    /// Numbers that may be moved and scaled: least squares of y − 3 are those of y.
    Standardised,
    /// Numbers with a meaning of their own, such as counts.
    AsTheyAre,
}

/// The keys of `[objective]` that losses read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Largest slope that counts.
    pub clip: Option<f64>,
    /// Where Huber's loss becomes linear.
    pub huber_delta: Option<f64>,
    /// α of the variance μ + αμ².
    pub dispersion: Option<f64>,
    /// Which quantile is predicted.
    pub quantile: Option<f64>,
    /// Intervals of time within which hazards are constant.
    pub intervals: Option<usize>,
}

impl Options {
    /// The clip that is given, or this one.
    fn clip_or(&self, open: f64) -> Result<f64, ConfigError> {
        match self.clip.unwrap_or(open) {
            clip if clip > 0.0 && clip.is_finite() => Ok(clip),
            clip => Err(ConfigError::at("clip", format!("{clip} must be a positive number"))),
        }
    }
}

/// A record's part in an estimating equation whose solution is not biased by bounding it: at the
/// true margin it has mean zero over labels, whatever the margin is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Score {
    /// ψ(m, y).
    pub value: f64,
    /// At least |ψ(m, y)| for every label: a function of the margin alone.
    pub bound: f64,
    /// What ψ moves by per unit of the margin, in expectation over labels.
    pub information: f64,
    /// At least `information` for every label.
    pub most_information: f64,
}

/// φ(m, y); [`Link`] has φ' for eight rows at once.
pub(super) trait MarginLoss: Link {
    /// What labels are to it.
    const LABELS: Labels;

    /// Whether [`Self::mean`] is the probability of the positive of two classes.
    const PROBABILITIES: bool = false;

    /// φ(m, y).
    fn value(self, margin: f64, label: f64) -> f64;

    /// φ(m, y) of every row in place of its margin.
    fn values(self, labels: &[f64], margins: &mut [f64]) {
        margins.iter_mut().zip(labels).for_each(|(m, &y)| *m = self.value(*m, y));
    }

    /// φ'(m, y), clipped.
    fn slope_at(self, margin: f64, label: f64) -> f64;

    /// φ''(m, y), where it exists.
    fn curvature_at(self, margin: f64, label: f64) -> f64;

    /// sup |φ'|; infinite where nothing bounds it.
    fn steepest(self) -> f64;

    /// sup φ''.
    fn curvature(self) -> f64;

    /// How far a margin must be on the wrong side of its label for the slope to be
    /// [`Self::steepest`].
    fn saturates(self) -> f64 {
        FAR
    }

    /// What a margin predicts: the inverse of the link.
    fn mean(self, margin: f64) -> f64 {
        margin
    }

    /// The margin that predicts `mean`: the link.
    fn margin_of(self, mean: f64) -> f64 {
        mean
    }

    /// A record's usual slope where all are predicted by the mean of the labels.
    fn usual_slope(self, _mean: f64, _deviation: f64) -> f64 {
        1.0
    }

    /// The usual φ'' where all are predicted by the mean of the labels.
    fn usual_curvature(self, _mean: f64) -> f64 {
        self.curvature()
    }

    /// The unit deviance, where the loss is half of one.
    fn deviance(self, _margin: f64, _label: f64) -> Option<f64> {
        None
    }

    /// The record's part in an estimating equation that stays unbiased; `None` where standard errors
    /// are not known.
    fn score(self, _margin: f64, _label: f64) -> Option<Score> {
        None
    }

    /// The loss once mean and deviation of the label are known, which are public.
    fn fitted_to(self, _mean: f64, _deviation: f64) -> Self {
        self
    }
}

/// A loss that files name and whose parameters follow from keys of `[objective]`.
pub(super) trait Family: MarginLoss {
    /// The loss for a task.
    ///
    /// # Errors
    /// The key that is wrong, and why.
    fn of(task: Task, options: &Options) -> Result<Self, ConfigError>;

    /// The keys that give it.
    fn options(self) -> Options;
}

/// What a loss grows by beyond the margin where its slope meets `clip`, `by` away from it.
fn linear(clip: f64, by: f64) -> f64 {
    if by == 0.0 { 0.0 } else { clip * by.abs() }
}
