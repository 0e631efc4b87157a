//! Experiment files: an [`ExperimentSpec`] as TOML, and those that come with the software.

use consenso_engine::experiment::{ExperimentSpec, Notation, SpecError};
use consenso_engine::protocol::Parameters;
use toml::Value;

/// Experiments as the files people write.
pub trait ExperimentFile: Sized {
    /// Reads an experiment file; `file` is its name for error messages.
    ///
    /// # Errors
    /// The first thing that is not as it should be, with its line.
    fn from_toml(text: &str, file: &str) -> Result<Self, SpecError>;

    /// Writes the experiment file.
    #[must_use]
    fn to_toml(&self) -> String;
}

impl ExperimentFile for ExperimentSpec {
    fn from_toml(text: &str, file: &str) -> Result<Self, SpecError> {
        let located = |error: toml::de::Error| {
            let line = error
                .span()
                .map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            SpecError::of_parser(file, line, error.message())
        };
        let spec: Self = toml::from_str(text).map_err(located)?;
        let table: toml::Table = toml::from_str(text).map_err(located)?;
        if let Some((key, number)) =
            table.get("algorithm").and_then(|tables| not_finite("algorithm", tables))
        {
            return Err(SpecError::at_key(
                file,
                text,
                key,
                &format!("{number} is not a finite number"),
                None,
            ));
        }
        spec.in_notation(Notation(Self::to_toml)).complete(&plain(&table), file)
    }

    fn to_toml(&self) -> String {
        toml::to_string_pretty(self).unwrap_or_else(|e| format!("# {e}\n"))
    }
}

/// The first number that is infinite or none at all, with its key: parameters of algorithms are
/// finite.
fn not_finite<'a>(key: &'a str, value: &'a Value) -> Option<(&'a str, f64)> {
    match value {
        Value::Float(number) => (!number.is_finite()).then_some((key, *number)),
        Value::Array(values) => values.iter().find_map(|value| not_finite(key, value)),
        Value::Table(table) => table.iter().find_map(|(key, value)| not_finite(key, value)),
        _ => None,
    }
}

/// The keys of a table in the core's terms.
pub(crate) fn plain(table: &toml::Table) -> Parameters {
    match serde_json::to_value(table) {
        Ok(serde_json::Value::Object(table)) => table,
        _ => Parameters::new(),
    }
}

/// Experiments that come with the software: name, one line about it, and the file.
pub const BUILT_IN: &[(&str, &str, &str)] = &[
    (
        "adult",
        "10 agents, 30,000 census records, logistic regression under (epsilon = 1, delta = 1e-6)",
        include_str!("../experiments/adult.toml"),
    ),
    (
        "paper-2a",
        "Figure 2 of the paper: private ADMM, 10 agents of 100 records, Laplace noise of rate 1.02^k",
        include_str!("../experiments/paper/2a.toml"),
    ),
    ("paper-b", "Figure B: the same with 100 agents", include_str!("../experiments/paper/b.toml")),
    (
        "paper-c",
        "Figure C: PDOP, Algorithm 2* and Algorithm 1, 10 agents, 40 edges",
        include_str!("../experiments/paper/c.toml"),
    ),
    (
        "paper-d1",
        "Figure D-1: random against fixed weights without privacy, 10 agents",
        include_str!("../experiments/paper/d1.toml"),
    ),
    (
        "paper-d1-gd",
        "Figure D-1: Algorithm 2 against its fixed twin, complete graph",
        include_str!("../experiments/paper/d1-gd.toml"),
    ),
    (
        "paper-d2",
        "Figure D-2: as D-1 with 100 agents",
        include_str!("../experiments/paper/d2.toml"),
    ),
    (
        "paper-d2-gd",
        "Figure D-2: as D-1 with 100 agents, complete graph",
        include_str!("../experiments/paper/d2-gd.toml"),
    ),
    (
        "paper-dual-sign",
        "Algorithm 1 with its dual step mended and as printed, which diverges",
        include_str!("../experiments/paper/dual-sign.toml"),
    ),
    (
        "adult-scouted",
        "adult on scouted columns, as records of one's own are trained on: better models",
        include_str!("../experiments/adult-scouted.toml"),
    ),
    (
        "heart",
        "four real hospitals, 920 patients, under (epsilon = 5, delta = 1e-4): UCI Heart Disease",
        include_str!("../experiments/heart.toml"),
    ),
    (
        "heart-flamby",
        "the same hospitals with the split of FLamby's benchmark, epsilon from 0.1 to 50",
        include_str!("../experiments/heart-flamby.toml"),
    ),
    (
        "secret-shared",
        "agents that reveal the mean of their vectors and nothing else (Algorithm 3)",
        include_str!("../experiments/secret-shared.toml"),
    ),
    (
        "distributed-noise",
        "accuracy against epsilon: every agent's own noise, and parts of a common one in secret shares (minutes)",
        include_str!("../experiments/distributed-noise.toml"),
    ),
    (
        "trust",
        "accuracy against epsilon by whom is feared: local, correlated and shared noise, a trusted collector; 10 and 100 agents (minutes)",
        include_str!("../experiments/trust.toml"),
    ),
    (
        "trust-sparse",
        "the same where agents talk to four others only, on scouted columns (minutes)",
        include_str!("../experiments/trust-sparse.toml"),
    ),
    (
        "frontier",
        "accuracy against epsilon from 0.1 to 10 for every private algorithm, 10 and 100 agents (minutes)",
        include_str!("../experiments/frontier.toml"),
    ),
    (
        "dimension",
        "utility loss from 10 to 100,000 dimensions: flat or polynomial, by the norm that noise is priced in (minutes)",
        include_str!("../experiments/dimension.toml"),
    ),
    (
        "dispatch-14",
        "economic dispatch of the IEEE 14-bus grid: 5 generators, one balance, costs kept by each",
        include_str!("../experiments/dispatch-14.toml"),
    ),
    (
        "dispatch-118",
        "the same on the IEEE 118-bus grid: 54 generators",
        include_str!("../experiments/dispatch-118.toml"),
    ),
    (
        "allocation",
        "four projects share two resources under capacities, with limits of their own",
        include_str!("../experiments/allocation.toml"),
    ),
    (
        "sharing",
        "ten models on private records whose weights meet one budget, under (epsilon = 2, delta = 1e-6)",
        include_str!("../experiments/sharing.toml"),
    ),
];

/// The text of a built-in experiment.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|e| e.0 == name).map(|e| e.2)
}
