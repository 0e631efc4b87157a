//! How much each site counts: public functions of the announced numbers of records.

use crate::config_error::ConfigError;
use serde::{Deserialize, Serialize};

/// `data.weights`: what the sites' objectives are weighted by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SiteWeights {
    /// By a rule.
    Rule(WeightRule),
    /// By given positive numbers, one per site; only their proportions count.
    Given(Vec<f64>),
    /// Left open: by precision where columns are scouted, all sites alike elsewhere.
    #[default]
    #[serde(skip)]
    Open,
}

impl SiteWeights {
    /// Whether sites count by the precision of what they say.
    pub fn is_precise(&self) -> bool {
        matches!(self, Self::Open | Self::Rule(WeightRule::Precision))
    }

    /// What sites count by, in words.
    pub fn in_words(&self) -> &'static str {
        match self {
            Self::Open | Self::Rule(WeightRule::Precision) => {
                "sites weigh by the precision of what they say, a function of their announced numbers of records and the budget"
            }
            Self::Rule(WeightRule::Records) => "sites weigh by their announced numbers of records",
            Self::Rule(WeightRule::Equal) => "all sites weigh the same",
            Self::Given(_) => "sites have the weights that the experiment gives",
        }
    }

    /// Whether the file leaves it open.
    pub fn is_open(&self) -> bool {
        *self == Self::Open
    }
}

/// What is public of an agent: how many records it has, and N·w_i, which its mean loss is
/// multiplied by; 1 where all agents count the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiteWeight {
    /// How many records it has.
    pub records: usize,
    /// N·w_i.
    pub weight: f64,
}

impl SiteWeight {
    /// Agents of one key have the same sensitivity.
    pub fn key(self) -> (usize, u64) {
        (self.records, self.weight.to_bits())
    }
}

/// Names of weight rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WeightRule {
    /// w_i ∝ b_i²/(b_i + c): a site's mean has a sampling variance ∝ 1/b_i and a noise variance ∝
    /// c/b_i², and this is the inverse of their sum. c is the number of records at which both are
    /// equal; without noise it is zero, and weights are those of the records.
    Precision,
    /// w_i ∝ b_i: every record counts the same.
    Records,
    /// w_i = 1/N: every site counts the same.
    Equal,
}

impl SiteWeights {
    /// The weights of sites with these numbers of records, which add up to 1; `even` is c of
    /// [`WeightRule::Precision`].
    ///
    /// # Errors
    /// A list of another length, or with a number that is not positive.
    pub fn of(&self, records: &[usize], even: f64) -> Result<Vec<f64>, ConfigError> {
        let by =
            |f: &dyn Fn(f64) -> f64| records.iter().map(|&b| f(b as f64)).collect::<Vec<f64>>();
        let raw = match self {
            Self::Open | Self::Rule(WeightRule::Precision) => by(&|b| b * (b / (b + even))),
            Self::Rule(WeightRule::Records) => by(&|b| b),
            Self::Rule(WeightRule::Equal) => by(&|_| 1.0),
            Self::Given(list) if list.len() != records.len() => {
                let message = format!("{} numbers for {} sites", list.len(), records.len());
                return Err(ConfigError::at("weights", message));
            }
            Self::Given(list) => match list.iter().find(|w| !(**w > 0.0 && w.is_finite())) {
                Some(w) => {
                    return Err(ConfigError::at(
                        "weights",
                        format!("{w} must be a positive number"),
                    ));
                }
                None => list.clone(),
            },
        };
        let total: f64 = raw.iter().sum();
        Ok(raw.iter().map(|w| w / total).collect())
    }

    /// N·w_i of the same sites, exactly 1 for each where all have the same weight.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn multiples(&self, records: &[usize], even: f64) -> Result<Vec<f64>, ConfigError> {
        let weights = self.of(records, even)?;
        let same = weights.iter().all(|w| w == &weights[0]);
        let agents = weights.len() as f64;
        Ok(weights.iter().map(|w| if same { 1.0 } else { agents * w }).collect())
    }
}
