//! What is predicted.

use serde::{Deserialize, Serialize};

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Task {
    /// Labels −1 and +1.
    Binary,
    /// Labels 0 … classes − 1.
    MultiClass {
        /// How many, more than two.
        classes: usize,
    },
    /// Labels in a declared public range.
    Regression {
        /// Smallest label.
        min: f64,
        /// Largest label.
        max: f64,
    },
}
