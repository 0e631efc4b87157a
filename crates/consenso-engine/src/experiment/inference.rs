//! `[inference]`: what it asks for, and the estimates of a trained model in units of its columns.

use super::check::Experiment;
use super::run::Trained;
use super::spec::ExperimentSpec;
use crate::config_error::ConfigError;
use crate::data::{Encoder, Kind, RawColumn, RawLayout, Schema, Task};
use crate::model::{
    Calibration, Found, Inference, OutcomeBin, Spread, chi_squared_above, normal_quantile,
};
use crate::problem::Loss;
use crate::protocol::scouted::PredictionsBesideOutcomes;
use crate::protocol::scouted::inference::MOST_MISSED;
use crate::record::Estimates;
use nalgebra::{DMatrix, DVector, RowDVector};
use serde::{Deserialize, Serialize};

/// `[inference]`: standard errors, intervals and p-values for every coefficient.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InferenceSpec {
    /// The chance with which intervals cover.
    #[serde(default = "usual_level")]
    pub level: f64,
    /// What sampling error is taken from: `"robust"` (a sandwich, which holds where the model is
    /// wrong), or `"model"`, the information of a likelihood, which is narrower where it is right.
    #[serde(default, skip_serializing_if = "Covariance::is_robust")]
    pub covariance: Covariance,
    /// Whether predictions are compared with outcomes, in five bins of predictions: a release of its
    /// own, with a twentieth of the budget.
    #[serde(default, skip_serializing_if = "is_false")]
    pub calibration: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// What the sampling error of coefficients is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Covariance {
    /// The second moment of the scores.
    #[default]
    Robust,
    /// The information of the likelihood.
    Model,
}

impl Covariance {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    fn is_robust(&self) -> bool {
        *self == Self::Robust
    }
}

fn usual_level() -> f64 {
    0.95
}

impl Default for InferenceSpec {
    fn default() -> Self {
        Self { level: usual_level(), covariance: Covariance::Robust, calibration: false }
    }
}

/// What a study asks for: what it says, and the usual where its loss is never without standard
/// errors.
pub(super) fn asked(spec: &ExperimentSpec, loss: Loss) -> Option<InferenceSpec> {
    let always = loss.proportional().is_some() || loss.is_of_pairs();
    spec.inference.or_else(|| always.then(InferenceSpec::default))
}

impl InferenceSpec {
    /// Refuses what has no standard errors.
    pub(super) fn check(&self, loss: Loss, balanced: bool) -> Result<(), ConfigError> {
        if self.calibration && (loss.proportional().is_some() || loss.is_of_times()) {
            return Err(ConfigError::at(
                "calibration",
                "times and ordered classes have several predictions each: leave calibration out, metrics has theirs on test records",
            ));
        }
        if !(self.level > 0.5 && self.level < 1.0) {
            let why = format!("{} must lie between 0.5 and 1, such as 0.95", self.level);
            return Err(ConfigError::at("level", why));
        }
        if balanced || loss.score(0.0, 1.0).is_none() && loss.proportional().is_none() {
            return Err(ConfigError::at(
                "inference",
                "standard errors are known for logistic, probit, ridge, huber, poisson, negative-binomial, gamma, ordinal, hazards and \
                 stratified-hazards losses whose classes count alike: use one of these without class_weight, or leave [inference] out",
            ));
        }
        let likelihood = loss.is_logistic()
            || loss.proportional().is_some()
            || loss.is_of_pairs()
            || matches!(loss, Loss::Probit(_) | Loss::Poisson(_));
        if self.covariance == Covariance::Model && !likelihood {
            return Err(ConfigError::at(
                "covariance",
                "this loss knows the spread of its residuals from the records alone: \"model\" is for logistic, probit, poisson, ordinal and \
                 hazards losses, use \"robust\"",
            ));
        }
        Ok(())
    }
}

impl Experiment {
    /// The estimates of a model as agents hold it; `None` where nobody asked, or training is not
    /// over.
    pub(super) fn inference_of(&self, label: &str, held: &[f64]) -> Option<Inference> {
        let spec = asked(&self.spec, self.objective.loss)?;
        let scouted = self.planned.iter().find(|p| p.label == label)?.scouted.as_ref()?;
        let estimated = scouted.estimated(held)?;
        let layout = self.layout.as_ref()?;
        let (standard, x) = scouted.split(held);
        let (encoder, _) = self.fitted(label, held)?;
        let schema = self.schema()?;
        let (kept, loss) = (&estimated.kept, self.objective.loss);
        let (size, slopes) = (kept.len(), kept.len() - loss.intercepts());
        // Every row of the map is one coefficient in units of its column; an intercept is the score
        // of a record of zeros and reference levels.
        let units = encoder.units();
        let scale = layout.label_scale(standard);
        let zero = reference_row(layout, schema, standard, kept);
        // Thresholds of ordered classes are what a score has to exceed.
        let sign = if let Loss::Ordinal { .. } = loss { -1.0 } else { 1.0 };
        let map = DMatrix::from_fn(size, size, |a, b| match (a < slopes, b < slopes) {
            (false, true) => sign * scale * zero[kept[b]],
            (true, true) if a == b => scale * units[kept[a]],
            (false, false) if a == b => sign * scale,
            _ => 0.0,
        });
        let at = &map * DVector::from_iterator(size, kept.iter().map(|&l| x[l]));
        let covariance = &map * &estimated.covariance * map.transpose();
        // How sites vary, in the same units. Of columns that are one number within a site nothing is
        // told, and the intercept's deviation leaves them out.
        let spread = |a: usize| {
            let between = estimated.between.as_ref()?;
            let row = |b: usize| map[(a, b)];
            let told = |b: usize| if between.varies[b] { map[(a, b)] } else { 0.0 };
            let of = |row: &dyn Fn(usize) -> f64| {
                let row = RowDVector::from_fn(size, |_, b| row(b));
                let of = |m: &DMatrix<f64>| (&row * m * row.transpose())[(0, 0)];
                (of(&between.all), of(&between.chance))
            };
            let told = between.varies[a].then(|| of(&told));
            Some(Spread { whole: of(&row), told, sites: between.sites })
        };
        let ends = layout.interval_ends(standard);
        let names = intercept_names(self, &ends, &encoder);
        let found = (0..size)
            .map(|a| Found {
                feature: match a.checked_sub(slopes) {
                    Some(k) => names[k].clone(),
                    None => encoder.features()[kept[a]].clone(),
                },
                estimate: at[a]
                    + a.checked_sub(slopes).map_or(0.0, |k| {
                        moved(layout, standard, &zero)
                            - interval_width(&ends, k).map_or(0.0, libm::log)
                    }),
                refused: refusal(&estimated.missed, a, slopes),
                is_ratio: a < slopes && has_ratio(loss),
                spread: spread(a),
            })
            .collect();
        let rows = (0..size).map(|a| covariance.row(a).iter().copied().collect()).collect();
        let mut inference = Inference::of(spec.level, found, rows);
        inference.times = ends;
        // Of amounts it is in units of their means, and of counts what they vary by beyond their law.
        let spread = estimated.residual;
        inference.residual_sd =
            spread.filter(|_| !matches!(loss, Loss::Poisson(_))).map(|found| found * scale);
        if let Some(compared) = &estimated.compared {
            let known = self.loss_under(Some(standard));
            let start = moved(layout, standard, &vec![0.0; layout.features() + 1]);
            let of = OutcomeScale { loss: known, scale, start };
            inference.calibration = Some(calibration(compared, &of, spec.level));
        }
        inference.notes = notes(&encoder, kept, self.facts.agents, loss);
        if estimated.missed.iter().any(|missed| *missed > 0.0) {
            inference.notes.extend(notes_on_bounds(loss, spread));
        }
        if let Some(between) = &estimated.between {
            inference.notes.extend(notes_on_sites(&encoder, kept, &between.varies));
        }
        if spec.covariance == Covariance::Model {
            inference.notes[0] = "standard errors are those of the model (its information) and hold sampling error and privacy noise; where the \
                                  model is wrong they are too small"
                .to_owned();
        }
        Some(inference)
    }

    /// The estimates of a run for its record and its page; beside them those without privacy where
    /// noise comes from a seed, so that nobody is protected anyway.
    pub(super) fn estimates(&self, trained: &Trained) -> Option<Estimates> {
        if self.questions.is_some() {
            return None;
        }
        let held = trained.agents.first()?;
        let model = self.site_model_of(&trained.label, held);
        let found = model.inference.clone()?;
        let (header, rows) = model.regression_rows()?;
        let not_private = || {
            let planned = self.planned.iter().find(|p| p.label == trained.label)?;
            let (scouted, locals) = (planned.scouted.as_ref()?, self.locals(0).ok()?);
            let records: Vec<usize> = locals.iter().map(|l| l.site_weight().records).collect();
            let exact = scouted.without_noise(&locals, &records, self.graphs.first()?)?;
            self.inference_of(&trained.label, &exact)
        };
        let simulated = self.entropy.is_none() && self.spec.privacy.is_some();
        Some(Estimates {
            found,
            not_private: if simulated { not_private() } else { None },
            table: std::iter::once(header).chain(rows).collect(),
            survival: model.survival(&[]).ok().flatten().unwrap_or_default(),
        })
    }

    fn schema(&self) -> Option<&Schema> {
        self.source.dataset().map(|data| &data.schema)
    }
}

/// What margins of standardised records predict.
struct OutcomeScale {
    loss: Loss,
    /// A label is `start` and so many times a standardised one.
    scale: f64,
    start: f64,
}

impl OutcomeScale {
    /// The prediction of a margin.
    fn mean(&self, margin: f64) -> f64 {
        match self.loss {
            loss if loss.is_logistic() => crate::model::probability(margin),
            Loss::Ridge { .. } | Loss::Huber { .. } => self.start + self.scale * margin,
            loss => loss.mean(margin),
        }
    }

    /// The outcomes less predictions that a u of one stands for at a margin. Where u is a score over
    /// its bound, a margin that is too small by δ gives u = δ·i/b and outcomes that are δ·μ more.
    fn unit(&self, known: Option<f64>, margin: f64) -> f64 {
        let by_score = || {
            let mean = self.loss.mean(margin);
            self.loss.score(margin, mean).map_or(0.0, |s| mean * s.bound / s.most_information)
        };
        known.map_or_else(by_score, |unit| self.scale * unit)
    }
}

/// Bins whose noised share of the records is below so many deviations of its noise say nothing.
const LEAST_SHARE: f64 = 3.0;

/// Outcomes less predictions in every bin, with intervals that hold sampling error and noise: of the
/// quotient of two noised sums, to first order.
fn calibration(found: &PredictionsBesideOutcomes, of: &OutcomeScale, level: f64) -> Calibration {
    let reach = normal_quantile(0.5 + 0.5 * level);
    let (mut statistic, mut df) = (0.0, 0);
    let mut bins = Vec::with_capacity(found.shares.len());
    let sums = found.differences.iter().zip(&found.squares);
    for (bin, (&share, (&sum, &square))) in found.shares.iter().zip(sums).enumerate() {
        let mut one = OutcomeBin {
            from: bin.checked_sub(1).map(|end| of.mean(found.ends[end])),
            to: found.ends.get(bin).map(|end| of.mean(*end)),
            share: share.clamp(0.0, 1.0),
            ..OutcomeBin::default()
        };
        if share > (LEAST_SHARE * found.noise).max(1e-9) {
            let off = sum / share;
            let sampling = found.sampling * square.max(0.0);
            let noise = found.noise.powi(2) * (1.0 + off * off);
            let error = (sampling + noise).sqrt() / share;
            statistic += (off / error).powi(2);
            df += 1;
            let unit = of.unit(found.unit, found.middles[bin]);
            one.difference = Some(unit * off);
            one.low = Some(unit * (off - reach * error));
            one.high = Some(unit * (off + reach * error));
        }
        bins.push(one);
    }
    let p = (df > 0).then(|| chi_squared_above(statistic, df));
    Calibration { bins, statistic, df, p }
}

/// Whether e to a coefficient is a ratio of odds, rates or hazards.
fn has_ratio(loss: Loss) -> bool {
    loss.is_logistic() || loss.has_log_link() || loss.proportional().is_some() || loss.is_of_pairs()
}

/// What an intercept is moved by: the middle of a number that was standardised, and the logarithm of
/// an exposure of one where there are exposures.
fn moved(layout: &RawLayout, standard: &[f64], zero: &[f64]) -> f64 {
    let offset = layout.offset_feature().map_or(0.0, |l| zero[l]);
    match layout.task() {
        Task::Regression { min, max } if !layout.keeps_labels() => {
            min + layout.label_part(standard)[0] * (max - min)
        }
        _ => offset,
    }
}

/// How long interval k is.
fn interval_width(ends: &[f64], k: usize) -> Option<f64> {
    Some(ends.get(k)? - k.checked_sub(1).map_or(0.0, |before| ends[before]))
}

/// What intercepts are called: `bias`, `hazard 0 to 6`, or `low|middle`.
fn intercept_names(experiment: &Experiment, ends: &[f64], encoder: &Encoder) -> Vec<String> {
    match experiment.objective.loss {
        Loss::Hazards { .. } => {
            let mut from = 0.0;
            let name = |&end: &f64| {
                let name = format!("hazard {} to {}", short(from), short(end));
                from = end;
                name
            };
            ends.iter().map(name).collect()
        }
        Loss::Ordinal { .. } => {
            let classes = experiment.classes();
            classes.windows(2).map(|pair| format!("{}|{}", pair[0], pair[1])).collect()
        }
        _ => encoder.features().last().cloned().into_iter().collect(),
    }
}

/// A time to four figures.
fn short(time: f64) -> String {
    let digits = (3.0 - libm::floor(libm::log10(time.max(1e-9)))).clamp(0.0, 9.0) as usize;
    let text = format!("{time:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Why nothing may be said of a coefficient, with the number.
fn refusal(missed: &[f64], coefficient: usize, slopes: usize) -> Option<String> {
    // An intercept in units of the columns is made of all coefficients.
    let slope = |l: usize| missed[l];
    let worst = match coefficient < slopes {
        true => slope(coefficient),
        false => missed[..slopes].iter().copied().fold(slope(coefficient), f64::max),
    };
    if worst == f64::MAX {
        let why = "refused: labels are bounded, and where a person has several records nothing says how far that moves the intercept";
        return Some(why.to_owned());
    }
    (worst.is_nan() || worst > MOST_MISSED).then(|| {
        format!(
            "refused: noise is {:.0} % of the curvature that its standard error rests on, and {:.0} % is the most that an honest \
             interval allows; more records, fewer columns or a larger budget help",
            100.0 * worst,
            100.0 * MOST_MISSED
        )
    })
}

/// What a reader must know of the estimates.
fn notes(encoder: &Encoder, kept: &[usize], sites: usize, loss: Loss) -> Vec<String> {
    let names = encoder.features();
    let left: Vec<&str> = (0..names.len())
        .filter(|l| !kept.contains(l))
        .map(|l| names[l].as_str())
        .filter(|name| name.contains('='))
        .collect();
    let mut notes = vec![
        "standard errors are robust (sandwich) and hold sampling error and privacy noise"
            .to_owned(),
    ];
    if sites > 1 {
        notes.push(
            "where sites differ, coefficients are those of all sites together, weighted as in training"
                .to_owned(),
        );
    }
    match loss {
        Loss::Hazards { .. } => notes.push(
            "a hazard is the logarithm of the rate of events per unit of time in its interval, of a record of zeros and reference levels"
                .to_owned(),
        ),
        Loss::StratifiedHazards(_) => notes.push(
            "every site has a baseline hazard of its own, which nobody estimates: pairs of records of one site say who has the event first"
                .to_owned(),
        ),
        Loss::Ordinal { .. } => notes.push(
            "odds are those of a higher class; a|b is the threshold between two classes: log odds of being at most a are a|b less the score"
                .to_owned(),
        ),
        _ => {}
    }
    if !left.is_empty() {
        notes.push(format!("reference levels: {}", left.join(", ")));
    }
    notes
}

/// Counts whose scores vary so many times as much as Poisson's law lets them have another law.
const OVERDISPERSED: f64 = 1.25;

/// What a reader must know of labels that are bounded under noise.
fn notes_on_bounds(loss: Loss, spread: Option<f64>) -> Vec<String> {
    let family = match loss {
        Loss::Poisson(_) => "Poisson's law",
        Loss::NegativeBinomial(_) => "a negative binomial law",
        Loss::Gamma(_) => "a gamma law",
        _ => return Vec::new(),
    };
    let mut notes = vec![format!(
        "no label counts for more than 1.5 of its deviations: coefficients are those of the mean where labels have {family} around it, and \
         those of usual labels where they have another"
    )];
    if let (Loss::Poisson(_), Some(times)) = (loss, spread)
        && times > OVERDISPERSED
    {
        notes.push(format!(
            "labels do not have Poisson's law: their scores vary {times:.1} times as much as it lets them; use loss = \"negative-binomial\""
        ));
    }
    notes
}

/// What a reader must know where sites are a sample of sites.
fn notes_on_sites(encoder: &Encoder, kept: &[usize], varies: &[bool]) -> Vec<String> {
    let names = encoder.features();
    let same = kept.iter().zip(varies).filter(|(_, varies)| !**varies);
    let same: Vec<&str> = same.map(|(&l, _)| names[l].as_str()).collect();
    let mut notes = vec![
        "sites are a sample of sites: standard errors also hold what varies between them, intervals are Student's, and \
         coefficients are those of sites as these are"
            .to_owned(),
    ];
    if !same.is_empty() {
        notes.push(format!(
            "it cannot be told that these vary within sites, so nothing is said of how their coefficients vary between them: {}",
            same.join(", ")
        ));
    }
    notes
}

/// The standardised row of a record whose numbers are zero and whose categories have their
/// reference level.
fn reference_row(
    layout: &RawLayout,
    schema: &Schema,
    standard: &[f64],
    kept: &[usize],
) -> Vec<f64> {
    let mut row = vec![0.0; layout.features() + 1];
    let mut at = 0;
    let raw: Vec<f64> = schema
        .features()
        .zip(layout.columns())
        .map(|(column, raw)| match (*raw, &column.kind) {
            (RawColumn::Number, Kind::Numeric { min, max }) => {
                at += 1;
                -min / (max - min)
            }
            // An exposure of one.
            (RawColumn::Number, Kind::Exposure { min, max }) => {
                at += 1;
                let low = libm::log(*min);
                -low / (libm::log(*max) - low)
            }
            (RawColumn::Number, _) => {
                at += 1;
                0.0
            }
            (RawColumn::Levels(levels), _) if levels > 2 => {
                let left = (0..levels).find(|l| !kept.contains(&(at + l)));
                at += levels;
                left.unwrap_or(0) as f64
            }
            (RawColumn::Levels(levels), _) => {
                at += levels.saturating_sub(1);
                0.0
            }
        })
        .collect();
    layout.standardise(standard, &raw, &mut row);
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, Encoding, csv};
    use crate::experiment::{Finished, Inputs, Silent, SpecError, run};
    use crate::model::Model;
    use crate::problem::losses::{Poisson, Quantile};
    use crate::random::{Purpose, Seed};
    use rand::RngExt as _;
    use std::fmt::Write as _;

    const SCHEMA: &str = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
        [[column]]\nname = \"dose\"\nkind = \"numeric\"\nmin = -1\nmax = 3\n\
        [[column]]\nname = \"ward\"\nkind = \"categorical\"\ncategories = [\"a\", \"b\", \"c\"]\n\
        [[column]]\nname = \"sex\"\nkind = \"categorical\"\ncategories = [\"f\", \"m\"]\n\
        [[column]]\nname = \"y\"\nkind = \"label\"\n";

    fn golden() -> serde_json::Value {
        serde_json::from_str(include_str!("../../tests/golden/glm.json")).unwrap()
    }

    /// The records of `glm.json`, `times` over, with the labels of one fit.
    fn checked(
        fit: &str,
        objective: &str,
        rest: &str,
        times: usize,
    ) -> Result<Experiment, SpecError> {
        let golden = golden();
        let labels = golden["fits"][fit]["labels"].as_array().unwrap();
        let mut table = String::from("age,dose,ward,sex,y\n");
        for _ in 0..times {
            for (j, y) in labels.iter().enumerate() {
                let text = |column: &str| golden[column][j].as_str().unwrap();
                let number = |column: &str| golden[column][j].as_f64().unwrap();
                let (age, dose) = (number("age"), number("dose"));
                let y = match fit {
                    "logistic" | "probit" => if y == 1 { "yes" } else { "no" }.to_owned(),
                    _ => y.to_string(),
                };
                writeln!(table, "{age},{dose},{},{},{y}", text("ward"), text("sex")).unwrap();
            }
        }
        let label = match fit {
            "logistic" | "probit" => "classes = [\"no\", \"yes\"]\npositive = \"yes\"",
            "ridge" => "min = -5\nmax = 5",
            "gamma" => "min = 0.01\nmax = 40",
            _ => "min = 0\nmax = 40",
        };
        let schema = toml::from_str::<Schema>(&format!("{SCHEMA}{label}\n")).unwrap();
        let records = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
        let data = Dataset::new(vec![records], None, Encoding::Scouted).unwrap();
        let text = format!(
            "name = \"a\"\nruns = 1\n[data]\npath = \"x.csv\"\nencoding = \"scouted\"\nagents = 3\n\
             [objective]\n{objective}\n[graph]\nkind = \"path\"\n[inference]\nlevel = 0.9\n{rest}\n[[algorithm]]\nkind = \"dgd\"\n"
        );
        let spec = toml::from_str(&text).unwrap();
        let source = Box::new(data);
        let file = "made-up".into();
        Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None })
    }

    fn model(experiment: &Experiment) -> Model {
        let finished: Finished = run(experiment, &Silent).unwrap();
        finished.model_files(experiment).remove(0).1
    }

    /// Without noise estimates and robust standard errors are those of statsmodels, in units of the
    /// columns.
    #[test]
    fn without_noise_estimates_are_those_of_statsmodels() {
        let golden = golden();
        for (fit, loss) in [
            ("logistic", "logistic\""),
            ("probit", "probit\""),
            ("ridge", "ridge\""),
            // Where nothing bends it is least squares.
            ("ridge", "huber\"\nhuber_delta = 50"),
            ("poisson", "poisson\""),
            ("negative-binomial", "negative-binomial\"\ndispersion = 0.5"),
            ("gamma", "gamma\""),
        ] {
            let experiment = checked(fit, &format!("loss = \"{loss}"), "", 1).unwrap();
            let inference = model(&experiment).inference.unwrap();
            for (l, name) in golden["names"].as_array().unwrap().iter().enumerate() {
                let name = name.as_str().unwrap();
                let found =
                    inference.of_feature(name).unwrap_or_else(|| panic!("{name}: {inference:?}"));
                for (got, want) in [(found.estimate, "estimates"), (found.std_error, "errors")] {
                    let want = golden["fits"][fit][want][l].as_f64().unwrap();
                    let got = got.unwrap();
                    assert!(
                        (got - want).abs() <= 1e-6 * want.abs().max(0.1),
                        "{fit} {name}: {got} {want}"
                    );
                }
            }
        }
    }

    const COLUMNS: &str = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
        [[column]]\nname = \"dose\"\nkind = \"numeric\"\nmin = -1\nmax = 3\n\
        [[column]]\nname = \"ward\"\nkind = \"categorical\"\ncategories = [\"a\", \"b\", \"c\"]\n\
        [[column]]\nname = \"sex\"\nkind = \"categorical\"\ncategories = [\"f\", \"m\"]\n";

    fn survival() -> serde_json::Value {
        serde_json::from_str(include_str!("../../tests/golden/survival.json")).unwrap()
    }

    /// A study of the records of a golden file, `times` over, with more columns and their schema.
    fn study_of(
        golden: &serde_json::Value,
        more: &[&str],
        schema: &str,
        objective: &str,
        rest: &str,
        times: usize,
    ) -> Experiment {
        let columns = [&["age", "dose", "ward", "sex"], more].concat();
        let mut table = columns.join(",") + "\n";
        for _ in 0..times {
            for j in 0..golden["age"].as_array().unwrap().len() {
                let cell = |c: &&str| golden[*c][j].to_string().trim_matches('"').to_owned();
                writeln!(table, "{}", columns.iter().map(cell).collect::<Vec<_>>().join(","))
                    .unwrap();
            }
        }
        let schema = toml::from_str::<Schema>(&format!("{COLUMNS}{schema}\n")).unwrap();
        let records = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
        let data = Dataset::new(vec![records.clone()], Some(&records), Encoding::Scouted).unwrap();
        let text = format!(
            "name = \"a\"\nruns = 1\n[data]\npath = \"x.csv\"\nencoding = \"scouted\"\nagents = 3\n\
             [objective]\n{objective}\n[graph]\nkind = \"path\"\n{rest}\n[[algorithm]]\nkind = \"dgd\"\n"
        );
        let spec = toml::from_str(&text).unwrap();
        let source = Box::new(data);
        let file = "made-up".into();
        Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None }).unwrap()
    }

    const TIMES: &str = "[[column]]\nname = \"time\"\nkind = \"time\"\nmax = 60\n\
        [[column]]\nname = \"event\"\nkind = \"label\"\nclasses = [\"0\", \"1\"]\n";

    fn close(inference: &Inference, names: &[String], golden: &serde_json::Value) {
        for (l, name) in names.iter().enumerate() {
            let found =
                inference.of_feature(name).unwrap_or_else(|| panic!("{name}: {inference:?}"));
            for (got, want) in [(found.estimate, "estimates"), (found.std_error, "errors")] {
                let want = golden[want][l].as_f64().unwrap();
                let got = got.unwrap();
                assert!((got - want).abs() <= 1e-6 * want.abs().max(0.1), "{name}: {got} {want}");
            }
        }
    }

    fn names_of(golden: &serde_json::Value) -> Vec<String> {
        let names = golden["names"].as_array().unwrap();
        names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    /// Without noise hazards within public intervals are those of statsmodels' Poisson model of split
    /// records, with errors robust by person; with fine intervals hazard ratios are Cox's.
    #[test]
    fn without_noise_hazards_are_those_of_split_records_and_of_cox() {
        let golden = survival();
        let cuts = format!("loss = \"hazards\"\ncuts = {}", golden["cuts"]);
        let experiment = study_of(&golden, &["time", "event"], TIMES, &cuts, "", 1);
        let model = model(&experiment);
        let inference = model.inference.as_ref().unwrap();
        let mut names = names_of(&golden);
        names.extend(
            ["0 to 5", "5 to 12", "12 to 20", "20 to 32", "32 to 45", "45 to 60"]
                .map(|i| format!("hazard {i}")),
        );
        close(inference, &names, &golden["pieces"]);
        let metrics = model.metrics.as_ref().unwrap();
        let want = golden["c_index"].as_f64().unwrap();
        assert!((metrics.c_index.unwrap() - want).abs() < 2e-3, "{metrics:?}");
        assert!(metrics.calibration.iter().all(|b| (b.predicted - b.observed).abs() < 0.25));
        let fine = study_of(
            &golden,
            &["time", "event"],
            TIMES,
            "loss = \"hazards\"\nintervals = 150",
            "",
            1,
        );
        let fine = self::model(&fine).inference.unwrap();
        for (l, name) in names_of(&golden).iter().enumerate() {
            let (got, want) =
                (fine.of_feature(name).unwrap().estimate.unwrap(), golden["cox"][l].as_f64());
            assert!((got - want.unwrap()).abs() < 1e-3, "{name}: {got} {want:?}");
        }
        // A curve falls, lies within its band, and is lower for whoever has the higher hazard.
        let at = |age: &str| model.survival(&[("age", age), ("ward", "c")]).unwrap().unwrap();
        let (young, old) = (at("30"), at("80"));
        for (y, o) in young.iter().zip(&old) {
            assert!(y.low < y.estimate && y.estimate < y.high && o.estimate < y.estimate);
        }
        assert!(young.windows(2).all(|p| p[0].estimate > p[1].estimate));
        assert!(model.survival(&[("age", "old")]).is_err());
        assert_eq!(Model::from_json(&model.to_json()).unwrap(), model);
        let table = model.regression_table(crate::model::TableFormat::Markdown).unwrap();
        assert!(table.contains("hazard ratio"), "{table}");
    }

    /// Without noise hazards of sites with baselines of their own are those of statsmodels' Logit of
    /// pairs; under noise they lie around them, and no baseline is told.
    #[test]
    fn hazards_by_site_are_those_of_pairs() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/stratified.json")).unwrap();
        let records = survival();
        let study = |head: &str, rest: &str, times: usize| {
            let mut table = String::from("site,age,dose,ward,sex,time,event\n");
            for _ in 0..times {
                for j in 0..records["age"].as_array().unwrap().len() {
                    let cell = |c: &str| records[c][j].to_string().trim_matches('"').to_owned();
                    let cells = ["age", "dose", "ward", "sex", "time", "event"].map(cell);
                    writeln!(table, "s{},{}", j % 3, cells.join(",")).unwrap();
                }
            }
            let site = "[[column]]\nname = \"site\"\nkind = \"site\"\n";
            let schema = toml::from_str::<Schema>(&format!("{COLUMNS}{site}{TIMES}\n")).unwrap();
            let read = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
            let data = Dataset::new(vec![read.clone()], Some(&read), Encoding::Scouted).unwrap();
            let text = format!(
                "name = \"a\"\nruns = 1\n{head}[data]\npath = \"x.csv\"\nencoding = \"scouted\"\n\
                 weights = \"records\"\npartition = {{ by = \"site\" }}\n\
                 [objective]\nloss = \"stratified-hazards\"\n[graph]\nkind = \"path\"\n{rest}\n\
                 [[algorithm]]\nkind = \"dgd\"\n"
            );
            let spec = toml::from_str(&text).unwrap();
            let (source, file) = (Box::new(data), "made-up".into());
            Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None })
        };
        let exact = model(&study("", "", 1).unwrap());
        let inference = exact.inference.as_ref().unwrap();
        close(inference, &names_of(&golden), &golden);
        assert_eq!(inference.coefficients.len(), names_of(&golden).len());
        assert!(exact.survival(&[("age", "60")]).unwrap().is_none());
        let c_index = exact.metrics.as_ref().unwrap().c_index.unwrap();
        assert!(c_index > 0.6 && c_index < 0.75, "{c_index}");
        let table = exact.regression_table(crate::model::TableFormat::Markdown).unwrap();
        assert!(table.contains("hazard ratio"), "{table}");
        assert_eq!(Model::from_json(&exact.to_json()).unwrap(), exact);
        let budget = "[privacy]\nepsilon = 3.0\ndelta = 1e-6";
        let noised = study("", budget, 20).unwrap();
        let claim = noised.claim(0).unwrap();
        assert!(claim.epsilon <= 3.0 && claim.epsilon > 2.97, "{}", claim.epsilon);
        let inference = model(&noised).inference.unwrap();
        for (l, name) in names_of(&golden).iter().enumerate() {
            let found = inference.of_feature(name).unwrap();
            let (at, error) = (found.estimate.unwrap(), found.std_error.unwrap());
            let number = |of: &str| golden[of][l].as_f64().unwrap();
            // Twenty copies of the records make other pairs, which say what Cox's likelihood says.
            let alone = number("errors") / 20f64.sqrt();
            assert!((at - number("cox")).abs() < 5.0 * error, "{name}: {at} ± {error}");
            assert!(error > 0.8 * alone && error < 8.0 * alone, "{name}: {error} {alone}");
        }
        for (head, rest, word) in [
            ("models = \"personal\"\n", "", "leave models out"),
            (
                "",
                "[privacy]\nepsilon = 3.0\ndelta = 1e-6\nneighbours = \"add-remove\"",
                "replace-one",
            ),
            ("", "[inference]\ncalibration = true", "leave calibration out"),
        ] {
            let said = study(head, rest, 1).unwrap_err().to_string();
            assert!(said.contains(word), "{said}");
        }
    }

    /// The made-up survivors, every line standing for some records or written so many times; `data`,
    /// `loss` and `rest` are parts of the experiment.
    fn grouped(grouped: bool, [data, loss, rest]: [&str; 3]) -> Result<Experiment, SpecError> {
        let records = survival();
        let mut table = String::from("site,age,dose,ward,sex,time,event,lines\n");
        for j in 0..records["age"].as_array().unwrap().len() {
            let cell = |c: &str| records[c][j].to_string().trim_matches('"').to_owned();
            let cells = ["age", "dose", "ward", "sex", "time", "event"].map(cell).join(",");
            let (times, lines) = if grouped { (1, j % 4) } else { (j % 4, 1) };
            for _ in 0..times {
                writeln!(table, "s{},{cells},{lines}", j % 3).unwrap();
            }
        }
        let columns = "[[column]]\nname = \"site\"\nkind = \"site\"\n\
             [[column]]\nname = \"lines\"\nkind = \"frequency\"\nmax = 3\n";
        let schema = toml::from_str::<Schema>(&format!("{COLUMNS}{columns}{TIMES}\n")).unwrap();
        let read = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
        let data_set = Dataset::new(vec![read], None, Encoding::Scouted).unwrap();
        let text = format!(
            "name = \"a\"\nruns = 1\n[data]\npath = \"x.csv\"\nencoding = \"scouted\"\n{data}\n\
             [objective]\nloss = \"{loss}\"\n[graph]\nkind = \"path\"\n{rest}\n\
             [[algorithm]]\nkind = \"dgd\"\n"
        );
        let spec = toml::from_str(&text).unwrap();
        let (source, file) = (Box::new(data_set), "made-up".into());
        Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None })
    }

    const BY_SITE: &str = "partition = { by = \"site\" }";

    /// A line that stands for several records is those records, in estimates as under noise.
    #[test]
    fn lines_of_several_records_are_those_records() {
        let budget = "[privacy]\nepsilon = 3.0\ndelta = 1e-6";
        for rest in ["", budget] {
            let [one, other] = [true, false]
                .map(|lines| model(&grouped(lines, [BY_SITE, "hazards", rest]).unwrap()).inference);
            assert_eq!(one.unwrap(), other.unwrap());
        }
    }

    /// What goes by the places of records is refused where one that is replaced moves others.
    #[test]
    fn places_of_grouped_records_are_no_places() {
        let budget = "[privacy]\nepsilon = 3.0\ndelta = 1e-6\n";
        let added = format!("{budget}neighbours = \"add-remove\"");
        let held = format!("{BY_SITE}\nhold_out = 0.2");
        let divided = "agents = 3";
        for (data, loss, key) in [
            (BY_SITE, "stratified-hazards", "loss = \"hazards\""),
            (held.as_str(), "hazards", "held out by their places"),
            (divided, "hazards", "divided by their places"),
        ] {
            let refused = grouped(true, [data, loss, budget]).unwrap_err();
            assert!(refused.refuses_claim && refused.to_string().contains(key), "{refused}");
        }
        // What goes by what records say does not.
        for data in [held.as_str(), divided] {
            assert!(grouped(true, [data, "hazards", &added]).is_ok());
        }
    }

    /// Amounts that vary as much as their means, and hardly at all: the intercept covers, although
    /// large amounts are bounded, and the law around predictions is found.
    #[test]
    fn bounded_amounts_leave_no_bias() {
        let (records, sites) = (12_000, 3);
        let mut rng = Seed::from(7).stream(Purpose::Audit, 0, 0);
        for (shapes, dispersion) in [(1, 1.0), (4, 0.5)] {
            let mut table = String::from("site,x,y\n");
            for j in 0..records {
                let x = 2.0 * rng.random::<f64>() - 1.0;
                // A gamma law of whole shape is a sum of exponential ones.
                let logs = (0..shapes).map(|_| -(1.0 - rng.random::<f64>()).ln());
                let y = (0.5 * x + 1.0).exp() * logs.sum::<f64>() / shapes as f64;
                writeln!(table, "s{},{x},{}", j % sites, y.max(1e-6)).unwrap();
            }
            let schema = "reviewed = true\n[[column]]\nname = \"site\"\nkind = \"site\"\n\
                 [[column]]\nname = \"x\"\nkind = \"numeric\"\nmin = -1\nmax = 1\n\
                 [[column]]\nname = \"y\"\nkind = \"label\"\nmin = 1e-6\nmax = 80\n";
            let schema = toml::from_str::<Schema>(schema).unwrap();
            let read = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
            let data = Dataset::new(vec![read], None, Encoding::Scouted).unwrap();
            let text = format!(
                "name = \"a\"\nruns = 1\n[data]\npath = \"x.csv\"\nencoding = \"scouted\"\n{BY_SITE}\n\
                 [objective]\nloss = \"gamma\"\n[graph]\nkind = \"path\"\n[inference]\ncalibration = true\n\
                 [privacy]\nepsilon = 8.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\n"
            );
            let spec = toml::from_str(&text).unwrap();
            let (source, file) = (Box::new(data), "made-up".into());
            let inputs = Inputs { file, text, spec, source, edges: None, entropy: None };
            let found = model(&Experiment::check(inputs).unwrap()).inference.unwrap();
            for (name, truth) in [("x", 0.5), ("bias", 1.0)] {
                let one = found.of_feature(name).unwrap();
                let (at, error) = (one.estimate.unwrap(), one.std_error.unwrap());
                assert!((at - truth).abs() < 4.0 * error && error < 0.03, "{name}: {at} ± {error}");
            }
            let sd = found.residual_sd.unwrap();
            assert!((sd / dispersion - 1.0).abs() < 0.08, "{sd} {dispersion}");
            assert!(found.calibration.unwrap().p.unwrap() > 1e-4);
        }
    }

    /// A column that is one number within every site has no deviation of its own, and the
    /// intercept's is that of a mixed model without a random slope of it.
    #[test]
    fn columns_of_sites_have_no_deviation_between_sites() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/mixed.json")).unwrap();
        let mut table = String::from("site,dose,kind,y\n");
        for j in 0..golden["site"].as_array().unwrap().len() {
            let site = golden["site"][j].as_u64().unwrap();
            // Sites differ by an intercept alone; what a record adds to it is its own.
            let own = ((site * 7919) % 24) as f64 / 12.0 - 1.0;
            let (dose, noise) =
                (golden["dose"][j].as_f64().unwrap(), golden["y"][j].as_f64().unwrap());
            let kind = ["a", "b"][usize::from(site.is_multiple_of(2))];
            let y = 0.5 * dose + own + 0.02 * noise + f64::from(u8::from(kind == "b"));
            writeln!(table, "s{site},{dose},{kind},{y}").unwrap();
        }
        let schema = "reviewed = true\n[[column]]\nname = \"site\"\nkind = \"site\"\n\
            [[column]]\nname = \"dose\"\nkind = \"numeric\"\nmin = -1\nmax = 3\n\
            [[column]]\nname = \"kind\"\nkind = \"categorical\"\ncategories = [\"a\", \"b\"]\n\
            [[column]]\nname = \"y\"\nkind = \"label\"\nmin = -20\nmax = 20\n";
        for budget in ["", "[privacy]\nepsilon = 20.0\ndelta = 1e-6\n"] {
            let schema = toml::from_str::<Schema>(schema).unwrap();
            let records = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
            let data = Dataset::new(vec![records], None, Encoding::Scouted).unwrap();
            let text = format!(
                "name = \"a\"\nruns = 1\nmodels = \"personal\"\n[data]\npath = \"x.csv\"\nencoding = \"scouted\"\n\
                 partition = {{ by = \"site\" }}\n[objective]\nloss = \"ridge\"\n[graph]\nkind = \"complete\"\n{budget}\
                 [inference]\nlevel = 0.95\n[[algorithm]]\nkind = \"dgd\"\n"
            );
            let spec = toml::from_str(&text).unwrap();
            let (source, file) = (Box::new(data), "made-up".into());
            let inputs = Inputs { file, text, spec, source, edges: None, entropy: None };
            let found = model(&Experiment::check(inputs).unwrap()).inference.unwrap();
            let of = |name: &str| found.of_feature(name).unwrap();
            assert!(of("kind=b").between_sites.is_none() && of("kind=b").std_error.is_some());
            assert!(of("dose").between_sites.is_some(), "{found:?}");
            let said = found.notes.join(" ");
            assert!(said.contains("between them: kind=b"), "{said}");
            // The deviation of the 24 numbers from −1 to 1.
            let sd = of("bias").between_sites.unwrap();
            assert!((sd.sd - 0.58).abs() < 0.08, "{sd:?}");
            assert!(sd.df < 40.0, "{sd:?}");
        }
    }

    /// Of a thousand models that have the law of the records, one in twenty is found wrong: sums in
    /// bins are drawn as sites release them.
    #[test]
    fn a_right_model_is_found_wrong_in_one_of_twenty() {
        use crate::problem::clipped::Standardised;
        use crate::random::{Purpose, Seed};
        use rand::RngExt;
        const RECORDS: usize = 1_000;
        let (x, ends) = ([0.7, -0.5], [-1.09, -0.68, -0.32, 0.09]);
        let counts = Loss::Poisson(Poisson { clip: 60.0, most: 60.0 });
        for (loss, unit, noise) in [
            (Loss::Logistic, Some(1.0), 0.0),
            (Loss::Logistic, Some(1.0), 0.01),
            (counts, None, 0.0),
            (counts, None, 0.01),
            (Loss::Ridge { clip: f64::INFINITY }, Some(3.0), 0.005),
        ] {
            let (mut alarms, draws) = (0, 1_000);
            for draw in 0..draws {
                let mut rng = Seed::from(draw).stream(Purpose::Audit, 0, 0);
                let mut normal = || {
                    let (u, v) = (1.0 - rng.random::<f64>(), rng.random::<f64>());
                    let angle = 2.0 * std::f64::consts::PI * v;
                    ((-2.0 * u.ln()).sqrt() * angle.cos(), rng.random::<f64>())
                };
                let mut records = crate::data::Records::with_capacity(2, RECORDS);
                for _ in 0..RECORDS {
                    let z = normal().0;
                    let (error, chance) = normal();
                    let margin = x[0] * z + x[1];
                    let label = match loss {
                        Loss::Logistic if chance < crate::model::probability(margin) => 1.0,
                        Loss::Logistic => -1.0,
                        Loss::Ridge { .. } => margin + error,
                        _ => {
                            let (mut p, mut y, mut left) = ((-margin.exp()).exp(), 0.0, chance);
                            while left > p && y < 60.0 {
                                left -= p;
                                y += 1.0;
                                p *= margin.exp() / y;
                            }
                            y
                        }
                    };
                    records.push(&[z, 1.0], label);
                }
                let mut sums = vec![0.0; 15];
                Standardised::of(records).outcomes_sum(loss, &x, &ends, unit, &mut sums);
                let mut of = |part: usize| -> Vec<f64> {
                    let one =
                        |bin: &[f64]| 3f64.sqrt() * bin[part] / RECORDS as f64 + noise * normal().0;
                    sums.chunks_exact(3).map(one).collect()
                };
                let found = PredictionsBesideOutcomes {
                    ends: ends.to_vec(),
                    middles: vec![-1.4, -0.88, -0.5, -0.1, 0.4],
                    shares: of(0),
                    differences: of(1),
                    squares: of(2),
                    noise,
                    unit,
                    sampling: 1.0 / RECORDS as f64,
                };
                let of = OutcomeScale { loss, scale: 1.0, start: 0.0 };
                alarms += u32::from(calibration(&found, &of, 0.95).p.unwrap() < 0.05);
            }
            // Three deviations of a binomial either way.
            assert!((30..=71).contains(&alarms), "{loss:?} {noise}: {alarms} of {draws}");
        }
    }

    /// Ordered classes are those of statsmodels.
    #[test]
    fn without_noise_ordered_classes_are_those_of_statsmodels() {
        let golden = survival();
        let schema = "[[column]]\nname = \"class\"\nkind = \"label\"\nclasses = [\"0\", \"1\", \"2\", \"3\"]\n";
        let experiment = study_of(&golden, &["class"], schema, "loss = \"ordinal\"", "", 1);
        let model = model(&experiment);
        let mut names = names_of(&golden);
        names.extend(["0|1", "1|2", "2|3"].map(str::to_owned));
        close(model.inference.as_ref().unwrap(), &names, &golden["ordinal"]);
        let metrics = model.metrics.as_ref().unwrap();
        assert!(metrics.accuracy.unwrap() > 0.35 && metrics.log_loss.unwrap() < 1.4, "{metrics:?}");
    }

    /// The logarithm of an exposure is added to the score: rates are those of statsmodels.
    #[test]
    fn without_noise_rates_by_exposure_are_those_of_statsmodels() {
        let mut golden = golden();
        golden["y"] = golden["fits"]["exposure"]["labels"].clone();
        let schema = "[[column]]\nname = \"exposure\"\nkind = \"exposure\"\nmin = 0.1\nmax = 10\n\
            [[column]]\nname = \"y\"\nkind = \"label\"\nmin = 0\nmax = 60\n";
        let rest = "[inference]\nlevel = 0.95";
        let columns = ["exposure", "y"];
        let experiment = study_of(&golden, &columns, schema, "loss = \"poisson\"", rest, 1);
        let model = model(&experiment);
        close(model.inference.as_ref().unwrap(), &names_of(&golden), &golden["fits"]["exposure"]);
        are_intervals_of_scipy(&model, "exposure");
        // Twice the exposure, twice the count; training for predictions alone knows it too.
        let budget = "[privacy]\nepsilon = 8.0\ndelta = 1e-6";
        let plain = study_of(&golden, &columns, schema, "loss = \"poisson\"", budget, 10);
        let plain = self::model(&plain);
        for model in [&model, &plain] {
            let encoder = model.encoder.as_ref().unwrap();
            let offset = encoder.features().iter().position(|f| f == "log(exposure)").unwrap();
            assert_eq!(model.weights[offset], 1.0);
        }
        assert!(plain.metrics.as_ref().unwrap().d2.unwrap() > 0.2, "{:?}", plain.metrics);
    }

    /// Sites as a sample: without noise errors are those of statsmodels clustered by site, and what
    /// varies between sites is what its mixed model finds by another method; under noise it is
    /// still seen.
    #[test]
    fn sites_that_are_a_sample_have_errors_and_deviations_of_statsmodels() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/mixed.json")).unwrap();
        let study = |rest: &str, times: usize| {
            let mut table = String::from("site,age,dose,y\n");
            for _ in 0..times {
                for j in 0..golden["site"].as_array().unwrap().len() {
                    let cell = |c: &str| golden[c][j].to_string();
                    let cells = ["age", "dose", "y"].map(cell).join(",");
                    writeln!(table, "s{},{cells}", golden["site"][j]).unwrap();
                }
            }
            let schema = "reviewed = true\n[[column]]\nname = \"site\"\nkind = \"site\"\n\
                [[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
                [[column]]\nname = \"dose\"\nkind = \"numeric\"\nmin = -1\nmax = 3\n\
                [[column]]\nname = \"y\"\nkind = \"label\"\nmin = -20\nmax = 20\n";
            let schema = toml::from_str::<Schema>(schema).unwrap();
            let records = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
            let data = Dataset::new(vec![records], None, Encoding::Scouted).unwrap();
            let text = format!(
                "name = \"a\"\nruns = 1\nmodels = \"personal\"\n[data]\npath = \"x.csv\"\nencoding = \"scouted\"\n\
                 partition = {{ by = \"site\" }}\n[objective]\nloss = \"ridge\"\n{rest}\n[inference]\nlevel = 0.95\n\
                 [[algorithm]]\nkind = \"dgd\"\n"
            );
            let spec = toml::from_str(&text).unwrap();
            let (source, file) = (Box::new(data), "made-up".into());
            Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None })
        };
        let complete = "[graph]\nkind = \"complete\"";
        let exact = model(&study(complete, 1).unwrap()).inference.unwrap();
        close(&exact, &names_of(&golden), &golden);
        for (l, name) in names_of(&golden).iter().enumerate() {
            let found = exact.of_feature(name).unwrap().between_sites.unwrap();
            let want = golden["between"][l].as_f64().unwrap();
            // A record of zeros lies far from all records: there moments say less than likelihood.
            let close = (found.sd / want - 1.0).abs() < 0.25 || name == "bias";
            assert!(close, "{name}: {found:?} {want}");
            assert!(found.low < want && want < found.high, "{name}: {found:?} {want}");
        }
        let budget = format!("{complete}\n[privacy]\nepsilon = 8.0\ndelta = 1e-6");
        let (exact, noised) = (study(complete, 10).unwrap(), study(&budget, 10).unwrap());
        let [exact, noised] = [exact, noised].map(|e| model(&e).inference.unwrap());
        for name in names_of(&golden) {
            let (found, want) =
                (noised.of_feature(&name).unwrap(), exact.of_feature(&name).unwrap());
            let truth = want.estimate.unwrap();
            assert!(found.low.unwrap() < truth && truth < found.high.unwrap(), "{name}: {found:?}");
            // Residuals are bounded under noise, and these sites differ by more than their records
            // scatter: errors are larger, and deviations are so to first order alone.
            assert!(found.std_error.unwrap() > 0.9 * want.std_error.unwrap(), "{found:?} {want:?}");
            let (own, alone) = (found.between_sites.unwrap(), want.between_sites.unwrap());
            assert!(own.low > 0.0 && own.sd > 0.8 * alone.sd, "{name}: {own:?} {alone:?}");
        }
        let said = study("[graph]\nkind = \"ring\"", 1).unwrap_err().to_string();
        assert!(said.contains("complete graph"), "{said}");
    }

    /// Under noise hazards and thresholds have wider intervals around what they are without it, and
    /// all releases are in the claim.
    #[test]
    fn noise_widens_the_intervals_of_several_intercepts() {
        let golden = survival();
        let budget = "[privacy]\nepsilon = 3.0\ndelta = 1e-6";
        let classes = "[[column]]\nname = \"class\"\nkind = \"label\"\nclasses = [\"0\", \"1\", \"2\", \"3\"]\n";
        let cuts = format!("loss = \"hazards\"\ncuts = {}", golden["cuts"]);
        for (key, columns, schema, objective) in [
            ("pieces", &["time", "event"][..], TIMES, cuts.as_str()),
            ("ordinal", &["class"], classes, "loss = \"ordinal\""),
        ] {
            let experiment = study_of(&golden, columns, schema, objective, budget, 20);
            let claim = experiment.claim(0).unwrap();
            assert!(claim.epsilon <= 3.0 && claim.epsilon > 2.97, "{}", claim.epsilon);
            let inference = model(&experiment).inference.unwrap();
            for (l, name) in names_of(&golden).iter().enumerate() {
                let found = inference.of_feature(name).unwrap();
                let (at, error) = (found.estimate.unwrap(), found.std_error.unwrap());
                let number = |of: &str| golden[key][of][l].as_f64().unwrap();
                let alone = number("errors") / 20f64.sqrt();
                assert!(
                    (at - number("estimates")).abs() < 5.0 * error,
                    "{key} {name}: {at} ± {error}"
                );
                assert!(
                    error > 0.9 * alone && error < 8.0 * alone,
                    "{key} {name}: {error} {alone}"
                );
            }
        }
    }

    /// Under noise the interval is wider, covers the estimate without noise, and all extra releases
    /// are in the claim.
    #[test]
    fn noise_widens_intervals_and_is_charged() {
        let budget = "[privacy]\nepsilon = 3.0\ndelta = 1e-6";
        let golden = golden();
        for fit in ["logistic", "ridge", "poisson"] {
            let experiment = checked(fit, &format!("loss = \"{fit}\""), budget, 20).unwrap();
            let claim = experiment.claim(0).unwrap();
            assert!(claim.epsilon <= 3.0 && claim.epsilon > 2.97, "{}", claim.epsilon);
            assert!(
                claim.caveats.join(" ").contains("50 % finds the standard errors"),
                "{claim:?}"
            );
            let model = model(&experiment);
            let inference = model.inference.as_ref().unwrap();
            for (l, name) in golden["names"].as_array().unwrap().iter().enumerate() {
                let found = inference.of_feature(name.as_str().unwrap()).unwrap();
                let (at, error) = (found.estimate.unwrap(), found.std_error.unwrap());
                let number = |key: &str| golden["fits"][fit][key][l].as_f64().unwrap();
                let alone = number("errors") / 20f64.sqrt();
                assert!(
                    (at - number("estimates")).abs() < 5.0 * error,
                    "{fit} {name}: {at} ± {error}"
                );
                assert!(
                    error > 0.95 * alone && error < 8.0 * alone,
                    "{fit} {name}: {error} {alone}"
                );
                assert!(found.low.unwrap() < at && at < found.high.unwrap());
            }
            let shown = model.coefficients();
            assert!(shown.iter().any(|c| c.inferred.is_some()));
            assert_eq!(Model::from_json(&model.to_json()).unwrap(), model);
        }
    }

    /// Predictions beside outcomes: without noise they are those of the records, one by one; under
    /// noise their release is in the claim, and a model that is right is not found wrong.
    #[test]
    fn predictions_are_compared_with_outcomes() {
        let golden = golden();
        for fit in ["logistic", "poisson", "ridge"] {
            let objective = format!("loss = \"{fit}\"");
            let plain = checked(fit, &objective, "calibration = true", 1).unwrap();
            let model = self::model(&plain);
            let found = model.inference.as_ref().unwrap().calibration.clone().unwrap();
            assert_eq!((found.bins.len(), found.df), (5, 5));
            let whole: f64 = found.bins.iter().map(|b| b.share).sum();
            assert!((whole - 1.0).abs() < 1e-9, "{found:?}");
            // By hand, from predictions and labels; ends of bins are predictions.
            let bins = by_hand(&model, &golden, fit, &found);
            for (bin, (share, off)) in found.bins.iter().zip(bins) {
                assert!((bin.share - share).abs() < 1e-9, "{fit}: {bin:?} {share}");
                let got = bin.difference.unwrap();
                // What is more than three deviations off counts as three.
                let most = if fit == "logistic" { 1e-9 } else { 0.02 };
                assert!((got - off).abs() < most, "{fit}: {bin:?} {off}");
                assert!(bin.low.unwrap() < got && got < bin.high.unwrap());
            }
            let budget = "calibration = true\n[privacy]\nepsilon = 3.0\ndelta = 1e-6";
            let noised = checked(fit, &objective, budget, 20).unwrap();
            let claim = noised.claim(0).unwrap();
            assert!(claim.epsilon <= 3.0 && claim.epsilon > 2.97, "{}", claim.epsilon);
            let said = claim.caveats.join(" ");
            assert!(said.contains("5 % compares predictions with outcomes"), "{said}");
            let found = self::model(&noised).inference.unwrap().calibration.unwrap();
            assert!(found.p.unwrap() > 1e-6 && found.df >= 3, "{fit}: {found:?}");
        }
        let said = checked("gamma", "loss = \"hazards\"", "calibration = true", 1);
        assert!(said.is_err());
    }

    /// The share of the records and the mean of labels less predictions in every bin.
    fn by_hand(
        model: &Model,
        golden: &serde_json::Value,
        fit: &str,
        found: &Calibration,
    ) -> Vec<(f64, f64)> {
        let labels = golden["fits"][fit]["labels"].as_array().unwrap();
        let records = encoded(model, if fit == "logistic" { "as classes" } else { fit });
        let answers = model.answers(&records, &model.weights, 0.5).unwrap();
        let mut bins = vec![(0.0, 0.0); found.bins.len()];
        for (answer, label) in answers.iter().zip(labels) {
            let mean = match (&answer.prediction, answer.probabilities.first()) {
                (_, Some(p)) => *p,
                (crate::model::Prediction::Number(number), None) => *number,
                _ => unreachable!("a class without a probability"),
            };
            let bin = found.bins.iter().filter(|b| b.from.is_some_and(|end| mean >= end)).count();
            bins[bin].0 += 1.0;
            bins[bin].1 += label.as_f64().unwrap() - mean;
        }
        let all = labels.len() as f64;
        bins.into_iter().map(|(count, sum)| (count / all, sum / count)).collect()
    }

    /// Where noise rules the curvature nothing is said, and the number is.
    #[test]
    fn too_much_noise_is_refused_with_the_number() {
        let budget = "[privacy]\nepsilon = 0.2\ndelta = 1e-6";
        let experiment = checked("logistic", "loss = \"logistic\"", budget, 1).unwrap();
        let inference = model(&experiment).inference.unwrap();
        for found in &inference.coefficients {
            assert!(found.estimate.is_none() && found.low.is_none(), "{found:?}");
            assert!(found.refused.as_ref().unwrap().contains("% of the curvature"), "{found:?}");
        }
    }

    /// `covariance = "model"` gives the errors of the information, without noise those of statsmodels.
    #[test]
    fn model_based_errors_are_those_of_the_information() {
        let golden = golden();
        for fit in ["logistic", "poisson"] {
            let rest = "covariance = \"model\"";
            let experiment = checked(fit, &format!("loss = \"{fit}\""), rest, 1).unwrap();
            let inference = model(&experiment).inference.unwrap();
            for (l, name) in names_of(&golden).iter().enumerate() {
                let want = golden["fits"][fit]["model_errors"][l].as_f64().unwrap();
                let got = inference.of_feature(name).unwrap().std_error.unwrap();
                assert!((got - want).abs() < 1e-6 * want.max(0.1), "{fit} {name}: {got} {want}");
            }
        }
        let said = checked("ridge", "loss = \"ridge\"", "covariance = \"model\"", 1);
        assert!(said.unwrap_err().to_string().contains("use \"robust\""));
    }

    /// The records of `glm.json` as a model encodes them, with the labels of a fit.
    fn encoded(model: &Model, fit: &str) -> crate::data::Records {
        let golden = golden();
        let (classes, fit) =
            (fit == "as classes", if fit == "as classes" { "logistic" } else { fit });
        let years = fit == "exposure";
        let mut table = String::from(if years { "exposure," } else { "" });
        table += "age,dose,ward,sex,y\n";
        for (j, y) in golden["fits"][fit]["labels"].as_array().unwrap().iter().enumerate() {
            let text = |column: &str| golden[column][j].as_str().unwrap();
            let (age, dose) = (&golden["age"][j], &golden["dose"][j]);
            let word = if *y == 1 { "yes" } else { "no" }.to_owned();
            let y = if classes { word } else { y.to_string() };
            if years {
                write!(table, "{},", golden["exposure"][j]).unwrap();
            }
            writeln!(table, "{age},{dose},{},{},{y}", text("ward"), text("sex")).unwrap();
        }
        let schema = model.schema.as_ref().unwrap();
        let table = csv::read(table.as_bytes(), "made-up", schema).unwrap();
        model.encoder.as_ref().unwrap().encode_table(&table)
    }

    fn are_intervals_of_scipy(model: &Model, fit: &str) {
        let intervals: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/golden/intervals.json")).unwrap();
        let found = model.intervals(&encoded(model, fit), 0.9).unwrap();
        let rows = intervals["fits"][fit].as_array().unwrap();
        assert_eq!(rows.len(), 20);
        for (row, (low, high)) in rows.iter().zip(found) {
            for (end, want) in [low, high].into_iter().zip(row.as_array().unwrap()) {
                let want = want.as_f64().unwrap();
                assert!((end - want).abs() < 1e-5, "{fit}: {low} to {high}, {row}");
            }
        }
    }

    /// The interval of a record's label is that of scipy's laws, mixed over the margin's error by
    /// statsmodels' robust covariance.
    #[test]
    fn intervals_of_labels_are_those_of_scipy() {
        for (fit, objective) in [
            ("poisson", "loss = \"poisson\""),
            ("negative-binomial", "loss = \"negative-binomial\"\ndispersion = 0.5"),
            ("ridge", "loss = \"ridge\""),
        ] {
            let model = model(&checked(fit, objective, "", 1).unwrap());
            are_intervals_of_scipy(&model, fit);
        }
        let mut model = model(&checked("poisson", "loss = \"poisson\"", "", 1).unwrap());
        assert!(model.intervals(&encoded(&model, "poisson"), 1.0).is_err());
        model.loss = Some(Loss::Quantile(Quantile { quantile: 0.5, smoothing: 0.1 }));
        let said = model.intervals(&encoded(&model, "poisson"), 0.9).unwrap_err().to_string();
        assert!(said.contains("negative-binomial"), "{said}");
    }

    /// Under noise intervals of labels hold what they promise: of 600 labels 90 %, within five
    /// deviations of a binomial; counts cover more, for they are whole.
    #[test]
    fn intervals_of_labels_cover_under_noise() {
        let budget = "[privacy]\nepsilon = 3.0\ndelta = 1e-6";
        for (fit, most) in [("poisson", 0.99), ("ridge", 0.961)] {
            let experiment = checked(fit, &format!("loss = \"{fit}\""), budget, 20).unwrap();
            let model = model(&experiment);
            let records = encoded(&model, fit);
            let found = model.intervals(&records, 0.9).unwrap();
            let inside = found.iter().zip(records.labels()).filter(|((a, b), y)| a <= y && *y <= b);
            let share = inside.count() as f64 / found.len() as f64;
            assert!(share > 0.839 && share < most, "{fit}: {share}");
        }
    }

    #[test]
    fn losses_without_standard_errors_are_refused_by_name() {
        let said = checked("ridge", "loss = \"quantile\"", "", 1).unwrap_err().to_string();
        assert!(said.contains("standard errors are known for logistic"), "{said}");
        let said = InferenceSpec { level: 2.0, ..InferenceSpec::default() }
            .check(Loss::Logistic, false)
            .unwrap_err()
            .to_string();
        assert!(said.contains("0.5 and 1"), "{said}");
    }
}
