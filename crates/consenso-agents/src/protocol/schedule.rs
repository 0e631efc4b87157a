//! Sequences fixed before the first round: step sizes η_k and noise rates β_k, k = 1, 2, …

use serde::{Deserialize, Serialize};

/// A public sequence of positive numbers.
///
/// In an experiment file: `0.5`, `{ geometric = { first = 1.02, ratio = 1.02 } }`,
/// `{ inverse_sqrt = { first = 1.0 } }` or `{ table = [1.0, 0.5] }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "must be a number, or a table as { geometric = { first = 1.0, ratio = 1.02 } }, { inverse_sqrt = { first = 1.0 } } or { table = [1.0, 0.5] }"
)]
pub enum Schedule {
    /// One number for all rounds.
    Constant(f64),
    /// Any other shape.
    Shape(ScheduleShape),
}

/// The shapes of a [`Schedule`] that have a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScheduleShape {
    /// first·ratio^(k−1).
    Geometric {
        /// The number of round 1.
        first: f64,
        /// Growth a round.
        ratio: f64,
    },
    /// first/√k.
    InverseSqrt {
        /// The number of round 1.
        first: f64,
    },
    /// One number a round; the last one stays.
    Table(Vec<f64>),
}

impl Schedule {
    /// ratio^k: the form the paper's experiments use.
    #[must_use]
    pub fn power(ratio: f64) -> Self {
        Self::Shape(ScheduleShape::Geometric { first: ratio, ratio })
    }

    /// first·ratio^(k−1).
    #[must_use]
    pub fn geometric(first: f64, ratio: f64) -> Self {
        Self::Shape(ScheduleShape::Geometric { first, ratio })
    }

    /// The number of round k ≥ 1.
    #[must_use]
    pub fn at(&self, round: u32) -> f64 {
        let k = f64::from(round.max(1));
        match self {
            Self::Constant(value) => *value,
            Self::Shape(ScheduleShape::Geometric { first, ratio }) => {
                first * libm::pow(*ratio, k - 1.0)
            }
            Self::Shape(ScheduleShape::InverseSqrt { first }) => first / k.sqrt(),
            Self::Shape(ScheduleShape::Table(values)) => {
                values.get(round.max(1) as usize - 1).or(values.last()).copied().unwrap_or(f64::NAN)
            }
        }
    }

    /// Why the sequence is not one of positive numbers over `rounds`, if so.
    #[must_use]
    pub fn problem(&self, rounds: u32) -> Option<String> {
        if let Self::Shape(ScheduleShape::Table(values)) = self
            && values.is_empty()
        {
            return Some("the table is empty".into());
        }
        let bad = |k: &u32| !(self.at(*k) > 0.0 && self.at(*k).is_finite());
        (1..=rounds.max(1))
            .find(bad)
            .map(|k| format!("its value in round {k} is {}, not a positive number", self.at(k)))
    }
}
