//! A trained model as a file that explains itself.
//!
//! A [`Model`] holds everything needed to apply it to new records and to judge it: the public
//! schema and the encoding in full, the names of its features, its weights, what it was trained to
//! predict, the privacy claim it was trained under, and a hash of the study. It is plain JSON that
//! a few lines of any language can apply; [`npz`] writes it for NumPy.
//!
//! ```
//! # use consenso_engine as consenso;
//! use consenso::model::Model;
//! # let model = r#"{"format":"consenso-model-1","study":{"name":"s","sha256":"0","software":"consenso 0","algorithm":"dgd","label":"dgd","run":1,"runs":1},
//! #   "task":{"kind":"binary"},"classes":["no","yes"],"positive":"yes","loss":{"loss":"logistic"},"features":["a","b"],"weights":[1.0,-2.0]}"#;
//! let model: Model = Model::from_json(model)?;
//! assert_eq!(model.coefficients()[0].feature, "b");
//! # Ok::<(), consenso::model::ModelError>(())
//! ```

mod metrics;
mod npz;
mod onnx;
pub(crate) mod sha256;

pub use metrics::{CalibrationBin, Metrics, probability, softmax};
pub(crate) use metrics::{best_class, margin_of};
pub use npz::{Array, npz};

use crate::data::{Encoder, Records, Schema, Task};
use crate::problem::{self, Constraint, Loss};
use serde::{Deserialize, Serialize};

/// The format this version writes.
pub const FORMAT: &str = "consenso-model-1";

/// A trained model with all it takes to apply it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// `consenso-model-1`.
    pub format: String,
    /// Which study trained it.
    pub study: Origin,
    /// What is predicted; `None` where agents have variables of their own instead of a common
    /// model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    /// The name of the column that is predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Names of the classes, in the order of their scores; of two the second is the positive one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<String>,
    /// The positive class of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positive: Option<String>,
    /// The probability above which the positive class is answered; ½ where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The loss it was trained with; absent where agents have costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// μ of (μ/2)‖x‖² it was trained with.
    #[serde(default)]
    pub regularization: f64,
    /// The set its weights lie in.
    #[serde(default)]
    pub constraint: Constraint,
    /// The public schema of the records; absent for made-up records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Schema>,
    /// How a record becomes a row of features; absent for made-up records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder: Option<Encoder>,
    /// Names of the features (or of an agent's variables), in the order of the weights.
    pub features: Vec<String>,
    /// The name of the feature that is the same in all records before rows are scaled: its weight
    /// is the intercept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intercept: Option<String>,
    /// The mean of all agents' weights: one a feature; for C classes C times as many, class after
    /// class. Empty where agents have variables of their own.
    pub weights: Vec<f64>,
    /// The weights of each agent, where they differ from the mean; empty where all are the same or
    /// there are very many numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentModel>,
    /// What every weight means on the scale of the original columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coefficients: Vec<Coefficient>,
    /// The privacy claim it was trained under; absent if nobody was protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<ClaimNote>,
    /// How the mean model did on the study's test records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// What a reader should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Where a model comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The experiment's name.
    pub name: String,
    /// SHA-256 of the experiment with every choice made, as in the run folder's `experiment.toml`.
    pub sha256: String,
    /// Name and version of the software.
    pub software: String,
    /// The algorithm, as experiment files write it.
    pub algorithm: String,
    /// Its name in tables.
    pub label: String,
    /// Which of the runs, from 1: a file holds the models of the first.
    pub run: u32,
    /// Of how many.
    pub runs: u32,
}

/// The model of one agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentModel {
    /// The agent's name.
    pub name: String,
    /// Its weights, or its variables.
    pub weights: Vec<f64>,
}

/// A privacy claim, as it stands in a model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimNote {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// The claim in full sentences.
    pub statement: String,
    /// Whether the noise came from a seed, so that the claim holds for a run on OS entropy only.
    pub seeded: bool,
}

/// One weight, explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coefficient {
    /// The feature: a column, `column=category`, or `bias`.
    pub feature: String,
    /// The class it speaks for, where there are more than two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The weight on the encoded feature.
    pub weight: f64,
    /// What one unit of the original column adds to the score (one year, one mmHg; a category
    /// against its absence), before rows are scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_unit: Option<f64>,
    /// e to `per_unit`: by how much one unit multiplies the odds of the positive class. Where rows
    /// are divided by their norm, its two ends over all norms that records can have; absent where
    /// that says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odds_ratio: Option<(f64, f64)>,
}

/// Why a file is not a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// It is not such JSON.
    #[error("is not a model file: {0}")]
    Json(#[from] serde_json::Error),
    /// Its parts do not fit together.
    #[error("is not a sound model file: {0}")]
    Content(String),
    /// It cannot be applied to records.
    #[error("{0}")]
    NotApplicable(String),
}

/// What a model answers for one record.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The class, or the number.
    pub prediction: Prediction,
    /// The probability of the positive class of two, or of every class; absent for regression.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probabilities: Vec<f64>,
}

/// A class by its name, or a number.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Prediction {
    /// A class.
    Class(String),
    /// A number.
    Number(f64),
}

/// Most numbers that a file lists agent by agent.
pub(crate) const MOST_AGENT_NUMBERS: usize = 1_000_000;

impl Model {
    /// Reads a model file.
    ///
    /// # Errors
    /// Why it is none.
    pub fn from_json(text: &str) -> Result<Self, ModelError> {
        let model: Self = serde_json::from_str(text)?;
        model.check()?;
        Ok(model)
    }

    /// The file.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Strings, numbers and lists only: there is nothing JSON could refuse.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    fn check(&self) -> Result<(), ModelError> {
        let fail = |text: String| Err(ModelError::Content(text));
        if self.format != FORMAT {
            return fail(format!(
                "its format is \"{}\", this version reads \"{FORMAT}\"",
                self.format
            ));
        }
        let length = self.loss.map_or(1, |l| l.outputs()) * self.features.len();
        for (name, weights) in self.every() {
            // Agents with costs may have fewer variables than others.
            if weights.len() != length && !(self.loss.is_none() && weights.len() <= length) {
                return fail(format!("{name} has {} weights for {length} features", weights.len()));
            }
        }
        if let (Some(encoder), Some(schema)) = (&self.encoder, &self.schema)
            && (encoder.features() != self.features || !encoder.fits(schema))
        {
            return fail("its encoder is not that of its features and schema".into());
        }
        Ok(())
    }

    /// All weight vectors with whose they are.
    fn every(&self) -> impl Iterator<Item = (&str, &[f64])> {
        let mean = (!self.weights.is_empty()).then_some(("the mean", &self.weights[..]));
        mean.into_iter().chain(self.agents.iter().map(|a| (a.name.as_str(), &a.weights[..])))
    }

    /// The weights of one agent by its name, or the mean of all with `None`.
    ///
    /// # Errors
    /// The names there are.
    pub fn weights_of(&self, agent: Option<&str>) -> Result<&[f64], ModelError> {
        let Some(name) = agent else {
            return if self.weights.is_empty() {
                let text =
                    "its agents have variables of their own: there is no common model to apply";
                Err(ModelError::NotApplicable(text.into()))
            } else {
                Ok(&self.weights)
            };
        };
        let found = self.agents.iter().find(|a| a.name == name).map(|a| &a.weights[..]);
        let names: Vec<&str> = self.agents.iter().map(|a| a.name.as_str()).collect();
        found.ok_or_else(|| {
            ModelError::NotApplicable(if names.is_empty() {
                "all agents have the same model, the mean".into()
            } else {
                format!("there is no agent \"{name}\"; there are {}", names.join(", "))
            })
        })
    }

    /// Schema, encoder and loss, if the model can be applied to records.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn applicable(&self) -> Result<(&Schema, &Encoder, &Loss), ModelError> {
        match (&self.schema, &self.encoder, &self.loss) {
            (Some(schema), Some(encoder), Some(loss)) => Ok((schema, encoder, loss)),
            (_, _, None) => Err(ModelError::NotApplicable(
                "it answers a problem with costs: there is nothing to predict".into(),
            )),
            _ => Err(ModelError::NotApplicable(
                "it was trained on made-up records, which have no schema: there is no file it could read"
                    .into(),
            )),
        }
    }

    /// What it answers for encoded records. `threshold` is the probability above which the positive
    /// of two classes is answered.
    ///
    /// # Errors
    /// That it has no common model.
    pub fn answers(
        &self,
        records: &Records,
        weights: &[f64],
        threshold: f64,
    ) -> Result<Vec<Answer>, ModelError> {
        let (_, _, loss) = self.applicable()?;
        let scores = problem::scores(loss, records, weights);
        let class =
            |index: usize| Prediction::Class(self.classes.get(index).cloned().unwrap_or_default());
        let cut = margin_of(threshold);
        Ok(scores
            .chunks_exact(loss.outputs())
            .map(|scores| match loss {
                Loss::Softmax { .. } => {
                    Answer { prediction: class(best_class(scores)), probabilities: softmax(scores) }
                }
                loss if loss.is_logistic() => Answer {
                    prediction: class(usize::from(scores[0] > cut)),
                    probabilities: vec![probability(scores[0])],
                },
                // The scores of other margins are no log odds.
                loss if loss.is_binary() => Answer {
                    prediction: class(usize::from(scores[0] > 0.0)),
                    probabilities: Vec::new(),
                },
                _ => {
                    Answer { prediction: Prediction::Number(scores[0]), probabilities: Vec::new() }
                }
            })
            .collect())
    }

    /// Every weight of the mean model explained, largest effect first.
    #[must_use]
    pub fn coefficients(&self) -> Vec<Coefficient> {
        let mut all = self.explain();
        all.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()));
        all
    }

    /// Every weight of the mean model explained, in order.
    #[must_use]
    pub fn explain(&self) -> Vec<Coefficient> {
        let units = self.encoder.as_ref().map(Encoder::units);
        let norms = self.encoder.as_ref().zip(self.schema.as_ref()).and_then(|(e, s)| e.norms(s));
        let binary = self.loss.is_some_and(|l| l.is_logistic());
        let unscaled = self.encoder.as_ref().is_some_and(|e| !e.unit_rows());
        let one = |(index, &weight): (usize, &f64)| {
            let (class, feature) = (index / self.features.len(), index % self.features.len());
            let per_unit = units.as_ref().map(|units| weight * units[feature]);
            let ratio = |c: f64| match norms {
                _ if unscaled => Some((libm::exp(c), libm::exp(c))),
                Some((low, high)) if low > 0.0 => {
                    let (a, b) = (libm::exp(c / low), libm::exp(c / high));
                    Some((a.min(b), a.max(b)))
                }
                _ => None,
            };
            let is_bias = self.intercept.as_deref() == Some(&*self.features[feature]);
            Coefficient {
                feature: self.features[feature].clone(),
                class: (self.loss.is_some_and(|l| l.outputs() > 1))
                    .then(|| self.classes.get(class).cloned().unwrap_or_else(|| class.to_string())),
                weight,
                per_unit,
                odds_ratio: per_unit.filter(|_| binary && !is_bias).and_then(ratio),
            }
        };
        self.weights.iter().enumerate().map(one).collect()
    }

    /// The arrays of the `.npz` beside the file: `model`, the mean, and `agents`, one row per
    /// agent.
    #[must_use]
    pub fn to_npz(&self) -> Vec<u8> {
        let outputs = self.loss.map_or(1, |l| l.outputs());
        let shape = if outputs > 1 {
            vec![outputs, self.features.len()]
        } else {
            vec![self.features.len()]
        };
        let rows: Vec<f64> = self.agents.iter().flat_map(|a| a.weights.iter().copied()).collect();
        let rows_shape: Vec<usize> =
            std::iter::once(self.agents.len()).chain(shape.iter().copied()).collect();
        let mut arrays = Vec::new();
        if !self.weights.is_empty() {
            arrays.push(Array { name: "model", shape: &shape, values: &self.weights });
        }
        if !self.agents.is_empty() {
            arrays.push(Array { name: "agents", shape: &rows_shape, values: &rows });
        }
        npz(&arrays)
    }
}

/// SHA-256 of a text, in hexadecimal: how a model names its study.
#[must_use]
pub(crate) fn fingerprint(text: &str) -> String {
    sha256::hex(text.as_bytes())
}

/// A name that can be a file's: letters, digits, `-` and `_`.
#[must_use]
pub fn file_stem(label: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
    let mut stem = String::new();
    for c in label.chars().map(plain) {
        if c != '-' || !stem.ends_with('-') {
            stem.push(c);
        }
    }
    let stem = stem.trim_matches('-');
    if stem.is_empty() { "model".into() } else { stem.chars().take(80).collect() }
}
