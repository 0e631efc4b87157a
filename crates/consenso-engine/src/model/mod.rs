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

mod inference;
mod intervals;
mod metrics;
mod npz;
mod onnx;
pub(crate) mod sha256;
mod survival;
mod table;

pub(crate) use inference::Found;
pub use inference::{
    BetweenSites, Calibration, Estimate, Inference, OutcomeBin, SurvivalPoint, WaldTest,
    chi_squared_above,
};
pub(crate) use inference::{Spread, normal_quantile};
pub use metrics::{CalibrationBin, Metrics, probability, softmax};
pub(crate) use metrics::{best_class, margin_of};
pub use npz::{Array, npz};
pub use table::TableFormat;

use crate::data::scouted::in_intervals;
use crate::data::{Column, Encoder, Encoding, Kind, Label, Records, Schema, Task};
use crate::problem::proportional::Proportional;
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
    pub study: ModelOrigin,
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
    /// The mean of all agents' weights: one per feature; for C classes C times as many, class after
    /// class. Empty where agents have variables of their own.
    pub weights: Vec<f64>,
    /// The standard deviation that the noise of training alone gives each weight; empty where it is
    /// not known, or nothing was noised. Sampling error comes on top.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weight_noise: Vec<f64>,
    /// The weights of each agent, where they differ from the mean; empty where all are the same or
    /// there are very many numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<AgentModel>,
    /// What every weight means on the scale of the original columns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub coefficients: Vec<Coefficient>,
    /// Standard errors, intervals and p-values, where the study asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inference: Option<Inference>,
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
pub struct ModelOrigin {
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
    /// The standard deviation that noise alone gives `weight`, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<f64>,
    /// The standard deviation that noise alone gives `per_unit`, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_unit_noise: Option<f64>,
    /// e to `per_unit`: by how much one unit multiplies the odds of the positive class. Where rows
    /// are divided by their norm, its two ends over all norms that records can have; absent where
    /// that says nothing, and where noise could turn the sign of `per_unit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odds_ratio: Option<(f64, f64)>,
    /// e to `per_unit` of a count or an amount: by how much one unit multiplies its mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_ratio: Option<(f64, f64)>,
    /// e to `per_unit` of hazards: by how much one unit multiplies the rate of events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hazard_ratio: Option<(f64, f64)>,
    /// What one unit of the column adds to the score, with its uncertainty, where the study asked
    /// for standard errors.
    #[serde(flatten)]
    pub inferred: Option<Inferred>,
}

/// The uncertainty of a coefficient.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Inferred {
    /// The level of the interval.
    pub level: f64,
    /// The estimate in units of the column; `None` where it is refused.
    pub estimate: Option<f64>,
    /// Its standard error.
    pub std_error: Option<f64>,
    /// The lower end of its interval.
    pub low: Option<f64>,
    /// The upper end of its interval.
    pub high: Option<f64>,
    /// The p-value of the hypothesis that it is zero.
    pub p: Option<f64>,
    /// How it varies between sites, where these are a sample of sites.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between_sites: Option<BetweenSites>,
    /// Why nothing is said of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

impl Inferred {
    fn of(level: f64, estimate: &Estimate) -> Self {
        let Estimate { estimate, std_error, low, high, p, between_sites, ref refused, .. } =
            *estimate;
        let refused = refused.clone();
        Self { level, estimate, std_error, low, high, p, between_sites, refused }
    }
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
        if !self.weight_noise.is_empty() && self.weight_noise.len() != self.weights.len() {
            return fail("it has noise for another number of weights".into());
        }
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
        let (schema, encoder, loss) = self.applicable()?;
        let scores = problem::scores(loss, records, weights);
        let range = range_of_answers(schema, encoder);
        let class =
            |index: usize| Prediction::Class(self.classes.get(index).cloned().unwrap_or_default());
        let cut = margin_of(threshold);
        Ok(scores
            .chunks_exact(loss.outputs())
            .map(|scores| match loss {
                // The probability of an event within all intervals, and to be without it at the end
                // of each.
                Loss::Hazards { intervals } => {
                    let hazards = Proportional::Hazards { intervals: *intervals };
                    let probabilities = hazards.probabilities(scores);
                    let last = probabilities.last().copied().unwrap_or(1.0);
                    Answer { prediction: Prediction::Number(1.0 - last), probabilities }
                }
                // The hazard beside that of a record of means at the same site.
                loss if loss.is_of_pairs() => Answer {
                    prediction: Prediction::Number(loss.mean(scores[0])),
                    probabilities: Vec::new(),
                },
                Loss::Ordinal { classes } => {
                    let probabilities =
                        Proportional::Odds { classes: *classes }.probabilities(scores);
                    Answer { prediction: class(best_class(&probabilities)), probabilities }
                }
                Loss::Softmax { .. } => {
                    Answer { prediction: class(best_class(scores)), probabilities: softmax(scores) }
                }
                loss if loss.is_logistic() => Answer {
                    prediction: class(usize::from(scores[0] > cut)),
                    probabilities: vec![probability(scores[0])],
                },
                loss if loss.has_probabilities() => Answer {
                    prediction: class(usize::from(loss.mean(scores[0]) > threshold)),
                    probabilities: vec![loss.mean(scores[0])],
                },
                // The scores of other margins are no log odds.
                loss if loss.is_binary() => Answer {
                    prediction: class(usize::from(scores[0] > 0.0)),
                    probabilities: Vec::new(),
                },
                _ if schema.has_log_label() => Answer {
                    prediction: Prediction::Number(libm::exp(scores[0]).clamp(range.0, range.1)),
                    probabilities: Vec::new(),
                },
                loss => Answer {
                    prediction: Prediction::Number(loss.mean(scores[0]).clamp(range.0, range.1)),
                    probabilities: Vec::new(),
                },
            })
            .collect())
    }

    /// How it does on encoded records whose labels are all known, in their own unit; `None` of no
    /// records.
    #[must_use]
    pub fn judge(&self, records: &Records, weights: &[f64], threshold: f64) -> Option<Metrics> {
        let loss = self.loss.as_ref()?;
        let mut scores = problem::scores(loss, records, weights);
        if let (Some(schema), Some(encoder)) = (&self.schema, &self.encoder)
            && schema.has_log_label()
        {
            // Answers stay within the label's range, as in `answers`.
            let (least, most) = range_of_answers(schema, encoder);
            if least > 0.0 {
                let ends = (libm::log(least), libm::log(most));
                scores.iter_mut().for_each(|s| *s = s.clamp(ends.0, ends.1));
            }
            return Metrics::of_logs(&scores, records.labels(), (0.0, 1.0));
        }
        let times = self.inference.as_ref().map_or(&[][..], |i| &i.times);
        if times.is_empty() {
            return Metrics::of_scores(loss, &scores, records.labels(), threshold);
        }
        // Times are judged as they were trained on: counted in intervals.
        let part = [times, &[0.0, 0.0]].concat();
        let counted = |y: &f64| in_intervals(&part, y.abs()).copysign(*y);
        let labels: Vec<f64> = records.labels().iter().map(counted).collect();
        Metrics::of_scores(loss, &scores, &labels, threshold)
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
        let ordered = matches!(self.loss, Some(Loss::Ordinal { .. }));
        let hazards = self.loss.is_some_and(|l| l.is_of_times());
        let binary = ordered || self.loss.is_some_and(|l| l.is_logistic());
        let rates = self.loss.is_some_and(|l| l.has_log_link());
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
            let name = self.intercept_name(class).filter(|_| is_bias);
            let name = name.unwrap_or(&self.features[feature]);
            let noise = self.weight_noise.get(index).copied();
            let says = |_: &f64| !is_bias && self.sign_is_known(index);
            Coefficient {
                feature: name.to_owned(),
                class: (!ordered && !hazards && self.loss.is_some_and(|l| l.outputs() > 1))
                    .then(|| self.classes.get(class).cloned().unwrap_or_else(|| class.to_string())),
                weight,
                per_unit,
                noise,
                per_unit_noise: noise
                    .zip(units.as_ref())
                    .map(|(noise, units)| noise * units[feature].abs()),
                odds_ratio: per_unit.filter(|c| binary && says(c)).and_then(ratio),
                rate_ratio: per_unit.filter(|c| rates && says(c)).and_then(ratio),
                hazard_ratio: per_unit.filter(|c| hazards && says(c)).and_then(ratio),
                inferred: self.inference.as_ref().and_then(|i| {
                    let found = i.of_feature(name)?;
                    Some(Inferred::of(i.level, found))
                }),
            }
        };
        // Scores of one slope and several intercepts have their slopes once.
        let once = |(index, _): &(usize, &f64)| {
            let (class, feature) = (index / self.features.len(), index % self.features.len());
            !(ordered || hazards) || class == 0 || feature + 1 == self.features.len()
        };
        self.weights.iter().enumerate().filter(once).map(one).collect()
    }

    /// What one of several intercepts is called.
    fn intercept_name(&self, block: usize) -> Option<&str> {
        let loss = self.loss?.proportional()?;
        let coefficients = &self.inference.as_ref()?.coefficients;
        let first = coefficients.len().checked_sub(loss.intercepts())?;
        Some(&coefficients.get(first + block)?.feature)
    }

    /// The survival curve of a record, where the model is one of hazards whose coefficients all have
    /// estimates. Columns that are not given have their middle, categories their reference level.
    ///
    /// # Errors
    /// A column or level that the model does not have.
    pub fn survival(
        &self,
        given: &[(&str, &str)],
    ) -> Result<Option<Vec<SurvivalPoint>>, ModelError> {
        let (schema, encoder, _) = self.applicable()?;
        let mut values: Vec<(String, f64)> = Vec::new();
        for (column, centre) in schema.features().zip(encoder.centres()) {
            values.extend(centre.map(|centre| (column.name.clone(), centre)));
        }
        for (name, text) in given {
            let column = schema.features().find(|c| c.name == *name);
            let level = format!("{name}={text}");
            let known = |c: &Column| match &c.kind {
                Kind::Categorical { categories } => categories.iter().any(|c| c == text),
                _ => text.parse::<f64>().is_ok_and(f64::is_finite),
            };
            match (column.filter(|c| known(c)), text.parse()) {
                (None, _) => {
                    let text = format!("{level} is no column with such a value");
                    return Err(ModelError::NotApplicable(text));
                }
                (Some(Column { kind: Kind::Categorical { .. }, .. }), _) => {
                    values.push((level, 1.0));
                }
                (Some(_), Ok(number)) => {
                    values.retain(|v| v.0 != *name);
                    values.push(((*name).to_owned(), number));
                }
                _ => {}
            }
        }
        let values: Vec<(&str, f64)> = values.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        Ok(self.inference.as_ref().and_then(|i| i.survival(&values)))
    }

    /// Whether noise is unlikely to have turned the sign of a weight: nothing was noised, or the
    /// weight is at least twice what noise alone gives it.
    fn sign_is_known(&self, index: usize) -> bool {
        if let Some(inference) = &self.inference {
            let found = inference.of_feature(&self.features[index % self.features.len()]);
            return found.is_some_and(|e| e.refused.is_none());
        }
        match self.weight_noise.get(index) {
            Some(noise) => self.weights[index].abs() >= 2.0 * noise,
            None => self.claim.is_none(),
        }
    }

    /// What a reader of weights must know before publishing them; `None` where nothing was noised.
    #[must_use]
    pub fn noise_words(&self) -> Option<String> {
        self.claim.as_ref().filter(|_| self.inference.is_none())?;
        let ratio = if self.loss.is_some_and(|l| l.is_logistic()) { "odds ratio" } else { "ratio" };
        Some(if self.weight_noise.is_empty() {
            format!(
                "These weights hold noise of an amount that is not known for {}: no {ratio} is given, and none should be published. \
                 kind = \"dgd\" on scouted columns says how much noise is in each weight.",
                self.study.algorithm
            )
        } else {
            format!(
                "± is the standard deviation that the privacy noise alone gives a weight; sampling error comes on top, so these are no \
                 confidence intervals. No {ratio} is given where noise could have turned the sign (a weight below 2 ±)."
            )
        })
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
pub fn fingerprint(text: &str) -> String {
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

/// What answers stay within: labels of scouted records are counted within their range.
fn range_of_answers(schema: &Schema, encoder: &Encoder) -> (f64, f64) {
    match schema.label() {
        Label::Range { min, max } if encoder.encoding() == Encoding::Scouted => (*min, *max),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    }
}
