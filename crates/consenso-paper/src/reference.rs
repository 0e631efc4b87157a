//! An independent check of the same settings (numpy, another seed): values a right implementation
//! must come close to.

use super::{Reproduction, algorithm, paper_cost};
use serde::Serialize;

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// ln(‖x_i − x*‖/d) after the last round; within 0.15.
    LogError,
    /// Total ε as the paper counts it; within 6 %.
    Epsilon,
}

/// A value beside the independent one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReferenceCheck {
    /// The experiment.
    pub experiment: &'static str,
    /// The algorithm's label.
    pub algorithm: String,
    /// What was compared.
    pub quantity: Quantity,
    /// The independent value.
    pub reference: f64,
    /// Ours.
    pub measured: f64,
    /// Whether the two are as close as two seeds.
    pub agrees: bool,
}

use Quantity::{Epsilon, LogError};

/// docs/paper.md section 6: experiment, kind, quantity, value.
const REFERENCES: [(&str, &str, Quantity, f64); 16] = [
    ("paper-2a", "admm", LogError, -2.65),
    ("paper-2a", "dvp", LogError, -2.72),
    ("paper-2a", "pp", LogError, -2.39),
    ("paper-2a", "output-admm", LogError, -2.63),
    ("paper-2a", "admm", Epsilon, 3.27),
    ("paper-2a", "dvp", Epsilon, 4.74),
    ("paper-2a", "pp", Epsilon, 4.37),
    ("paper-b", "admm", LogError, -2.67),
    ("paper-b", "dvp", LogError, -2.83),
    ("paper-b", "pp", LogError, -2.71),
    ("paper-b", "output-admm", LogError, -2.73),
    ("paper-c", "admm", LogError, -2.66),
    ("paper-c", "pdop", LogError, -1.20),
    ("paper-c", "gd-star", LogError, -0.69),
    ("paper-c", "pdop", Epsilon, 1.57),
    ("paper-c", "gd-star", Epsilon, 0.54),
];

impl Reproduction {
    /// Every value that an independent program computed too.
    #[must_use]
    pub fn reference_checks(&self) -> Vec<ReferenceCheck> {
        let check =
            |&(experiment, kind, quantity, reference): &(&'static str, &str, Quantity, f64)| {
                let algorithm = algorithm(self.record(experiment)?, kind)?;
                let (measured, agrees) = match quantity {
                    LogError => {
                        (algorithm.log_error, (algorithm.log_error - reference).abs() <= 0.15)
                    }
                    Epsilon => {
                        let measured = paper_cost(algorithm)?;
                        (measured, (measured / reference - 1.0).abs() <= 0.06)
                    }
                };
                let algorithm = algorithm.label.clone();
                Some(ReferenceCheck {
                    experiment,
                    algorithm,
                    quantity,
                    reference,
                    measured,
                    agrees,
                })
            };
        REFERENCES.iter().filter_map(check).collect()
    }
}
