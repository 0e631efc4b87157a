//! The pieces of the method that can be left out.

use super::ScoutingRequest;
use serde::{Deserialize, Serialize};

/// A piece of the method that `without` leaves out, so that what it is worth can be measured.
///
/// No piece touches how far a record moves a sum: with any of them left out the claim is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MethodPart {
    /// Centres and scales of numbers, label included: all stand in the middle of their ranges, with
    /// a sixth of them as scale. (The histograms are made and charged for.)
    Centres,
    /// A prior of centres and scales that is learned from all columns.
    LearnedPrior,
    /// Second looks at columns that are narrower than a cell.
    Looks,
    /// The mass of a tail that no cell shows.
    Tails,
    /// What several classes need: noise that counts k/2 instead of k − 1 classes, and log₂k times
    /// the prior deviation.
    Classes,
    /// Clips beyond a usual gradient's length, which let a rare class speak.
    LongClips,
    /// Clips that follow the lengths of gradients while a model is trained.
    Lengths,
    /// Momentum, and with it travelling farther than so many steps go.
    Momentum,
    /// Slope and offset of the score.
    Calibration,
    /// Shrinkage of a model for numbers by its own noise.
    Shrinkage,
}

impl ScoutingRequest {
    /// Whether a piece belongs to the method as it is run.
    pub(super) fn has(&self, piece: MethodPart) -> bool {
        !self.without.contains(&piece)
    }
}
