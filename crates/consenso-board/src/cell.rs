//! What one seed of one setting gave, as a file.

use crate::spec::{Board, Setting};
use consenso_engine::experiment::Experiment;
use consenso_engine::protocol::{Algorithms, Parameters};
use consenso_engine::record::{AlgorithmRecord, Record, TrafficRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one seed of one setting gave: a cell per method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// The problem's name.
    pub problem: String,
    /// The graph's name.
    pub graph: String,
    /// The condition's name.
    pub condition: String,
    /// The budget that noise was calibrated to; `None` without privacy.
    pub epsilon: Option<f64>,
    /// The seed.
    pub seed: u64,
    /// What the same records give without a network or without noise, by name.
    pub baselines: BTreeMap<String, f64>,
    /// One per method.
    pub cells: Vec<Cell>,
}

/// What one method gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Its name on the board.
    pub method: String,
    /// What it is a function of: program, experiment and records. A cell whose digest is another is
    /// made again.
    pub digest: String,
    /// Why there is no result: what does not go together, or what failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What it gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// The figures of a finished run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The kind of its algorithm.
    pub kind: String,
    /// Figures of the network's mean model by name: those of test records, and `gap`,
    /// F(x̄) − F(x*) on the training records. One that is not finite is left out.
    pub figures: BTreeMap<String, f64>,
    /// F(x̄) on the training records, which parameters are chosen by.
    #[serde(default)]
    pub objective: Option<f64>,
    /// Whether the run diverged.
    pub diverged: bool,
    /// Rounds that use records.
    pub rounds: u32,
    /// Vectors sent, over all links and exchanges, lost ones among them.
    pub messages: f64,
    /// Bytes of their numbers, compressed where the method or the condition compresses them.
    pub bytes: f64,
    /// Seconds of all exchanges over the board's links, one after the other; `None` where nothing
    /// counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_seconds: Option<f64>,
    /// What is certified, if privacy was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certified: Option<Certified>,
    /// What the method's authors say the same noise costs, where they published an account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<PublishedCost>,
    /// Parameters it ran with.
    pub parameters: serde_json::Value,
    /// What a trial of the grid changed, where it was tuned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<serde_json::Value>,
    /// Seconds of one thread.
    pub seconds: f64,
}

/// A certified claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certified {
    /// ε, rounded up; infinite, `null` in a file, where nothing is bounded.
    #[serde(with = "unbounded")]
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// How it was certified.
    pub method: String,
    /// The claim in full.
    pub statement: String,
}

impl Certified {
    /// Returns whom the claim holds against, as its statement says.
    #[must_use]
    pub fn adversary(&self) -> &str {
        let line = self.statement.lines().find_map(|line| line.trim().strip_prefix("adversary"));
        line.unwrap_or_default().trim()
    }
}

/// A cost as an algorithm's authors published it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCost {
    /// ε of the worst agent; infinite, `null` in a file, where the formula gives no bound.
    #[serde(with = "unbounded")]
    pub epsilon: f64,
    /// δ; `None` for pure ε.
    pub delta: Option<f64>,
    /// The formula and its source.
    pub formula: String,
}

/// Numbers that may be infinite, for which JSON has no word but `null`.
mod unbounded {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::INFINITY))
    }
}

impl Unit {
    /// Returns a unit without cells.
    #[must_use]
    pub fn empty(board: &Board, setting: Setting, seed: u64) -> Self {
        let [problem, graph, condition, _] = board.names(setting);
        let epsilon = setting.epsilon;
        let (baselines, cells) = (BTreeMap::new(), Vec::new());
        Self { problem, graph, condition, epsilon, seed, baselines, cells }
    }

    /// Takes up what an experiment gave beside its algorithms.
    pub fn compare(&mut self, record: &Record) {
        let known = &record.baselines;
        let found = [
            ("majority_accuracy", known.majority_accuracy),
            ("optimum_accuracy", known.central_optimum_accuracy),
            ("optimum_auc", known.central_optimum_auc),
            ("optimum_r2", known.central_optimum_r2),
            ("local_accuracy", known.local_only_accuracy),
        ];
        let found = found.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        self.baselines.extend(found.filter(|(_, value)| value.is_finite()));
    }
}

impl Outcome {
    /// Returns what a record says of one of its algorithms; `personal` takes the figures of the
    /// models that sites made for themselves.
    #[must_use]
    pub fn of(
        experiment: &Experiment,
        record: &Record,
        algorithm: &AlgorithmRecord,
        personal: bool,
    ) -> Self {
        let metrics = match (&algorithm.personal, personal) {
            (Some(found), true) => Some(&found.personal),
            (None, true) => None,
            (_, false) => algorithm.metrics.as_ref(),
        };
        let mut figures = BTreeMap::new();
        if let Some(serde_json::Value::Object(all)) =
            metrics.and_then(|m| serde_json::to_value(m).ok())
        {
            let numbers = all.into_iter().filter_map(|(key, value)| Some((key, value.as_f64()?)));
            figures.extend(numbers.filter(|(key, _)| key != "rows" && key != "threshold"));
        }
        if let Some(rmse) = figures.get("rmse") {
            figures.insert("mse".into(), rmse * rmse);
        }
        if algorithm.optimum_gap.is_finite() && !personal {
            // An optimum is known to a tolerance, and a figure below it is at it.
            figures.insert("gap".into(), algorithm.optimum_gap.max(0.0));
        }
        let finite = |value: f64| value.is_finite().then_some(value);
        let sent = algorithm.traffic.unwrap_or_else(|| uncounted(experiment, record, algorithm));
        Self {
            kind: algorithm.kind.clone(),
            figures,
            objective: finite(algorithm.objective),
            diverged: algorithm.diverged,
            rounds: algorithm.rounds,
            messages: sent.messages,
            bytes: sent.bytes,
            network_seconds: sent.seconds,
            certified: algorithm.epsilon.as_ref().map(|e| Certified {
                epsilon: e.claim,
                delta: e.delta,
                method: e.method.clone(),
                statement: e.statement.clone(),
            }),
            published: algorithm.published.as_ref().map(|p| PublishedCost {
                epsilon: p.epsilon.max,
                delta: p.delta,
                formula: p.formula.clone(),
            }),
            parameters: algorithm.parameters.clone(),
            tuned: None,
            seconds: algorithm.seconds,
        }
    }
}

/// What was sent where a run does not count it, as with sums in secret: a vector over every link in
/// every exchange.
fn uncounted(
    experiment: &Experiment,
    record: &Record,
    algorithm: &AlgorithmRecord,
) -> TrafficRecord {
    let exchanges = f64::from(algorithm.rounds) + f64::from(algorithm.gossip);
    let messages = exchanges * 2.0 * record.problem.edges as f64;
    let dim = experiment.facts().dim;
    let built = Algorithms::builtin().build(&algorithm.kind, Parameters::new());
    let width = built.and_then(Result::ok).map_or(dim, |protocol| protocol.width(dim));
    TrafficRecord { messages, bytes: messages * 8.0 * width as f64, seconds: None }
}

/// Returns a name that a file can have: letters, digits, `.` and `-`, in lower case.
#[must_use]
pub fn stem(name: &str) -> String {
    let mut stem = String::new();
    for c in name.chars() {
        match c {
            c if c.is_alphanumeric() || c == '.' => stem.extend(c.to_lowercase()),
            '*' => stem.push_str("-star"),
            _ if !stem.ends_with('-') => stem.push('-'),
            _ => {}
        }
    }
    stem.trim_matches(['-', '.']).to_owned()
}

/// Returns where a unit is kept within the folder of a board.
#[must_use]
pub fn file(board: &Board, setting: Setting, seed: u64) -> String {
    let [problem, graph, condition, epsilon] = board.names(setting).map(|name| stem(&name));
    format!("cells/{problem}/{graph}/{condition}/epsilon-{epsilon}/seed-{seed}.json")
}
