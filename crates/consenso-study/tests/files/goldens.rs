//! What the built-in experiments compute, as short hashes: models, traces, figures and costs stay
//! what they were, bit for bit, while the program around them changes.
//!
//! A line that changes on purpose is accepted with `INSTA_UPDATE=always cargo test`, and the change
//! is explained in its commit.

use consenso_engine::experiment::{Experiment, ExperimentSpec, Silent, run};
use consenso_engine::record::AlgorithmRecord;
use consenso_study::ExperimentFile as _;
use consenso_study::files::{ExperimentText, inputs};
use std::fmt::Write as _;
use toml::{Table, Value};

/// FNV-1a, of the eight bytes of every number.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    fn of(numbers: impl IntoIterator<Item = f64>) -> Self {
        let mut hash = Self(0xcbf2_9ce4_8422_2325);
        for number in numbers {
            for byte in number.to_bits().to_le_bytes() {
                hash.0 = (hash.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        hash
    }
}

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A built-in experiment that takes less time: one run, few rounds, few records.
fn reduced(text: &str) -> String {
    let mut file: Table = toml::from_str(text).unwrap();
    file.insert("runs".into(), Value::Integer(1));
    file.insert("trace_every".into(), Value::Integer(1));
    file.remove("sweep");
    if let Some(Value::Table(data)) = file.get_mut("data") {
        let most = |key: &str, most: i64, data: &mut Table| {
            let fewer = data.get(key).and_then(Value::as_integer).is_none_or(|n| n > most);
            if fewer && !data.contains_key("partition") {
                data.insert(key.into(), Value::Integer(most));
            }
        };
        if data.get("source").and_then(Value::as_str) != Some("heart") {
            most("records_per_agent", 60, data);
        }
    }
    for algorithm in file["algorithm"].as_array_mut().unwrap() {
        let algorithm = algorithm.as_table_mut().unwrap();
        match algorithm.contains_key("epochs") {
            true => algorithm.insert("epochs".into(), Value::Integer(1)),
            false => algorithm.insert("rounds".into(), Value::Integer(8)),
        };
    }
    toml::to_string(&file).unwrap()
}

/// Once and without a sweep, with the rounds and records of the file.
fn once(text: &str) -> String {
    let mut file: Table = toml::from_str(text).unwrap();
    file.insert("runs".into(), Value::Integer(1));
    file.remove("sweep");
    toml::to_string(&file).unwrap()
}

fn checked(name: &str, text: String) -> Experiment {
    let spec = ExperimentSpec::from_toml(&text, name).unwrap();
    let text = ExperimentText { file: name.into(), text, folder: std::path::PathBuf::new() };
    Experiment::check(inputs(text, spec, None).unwrap()).unwrap()
}

/// Everything a scripts reads of an algorithm.
fn figures(a: &AlgorithmRecord) -> Vec<f64> {
    let spread = |s: Option<consenso_engine::record::Spread>| {
        s.map_or(vec![f64::NAN], |s| vec![s.min, s.mean, s.max])
    };
    let open = |x: Option<f64>| x.unwrap_or(f64::NAN);
    let mut all = vec![f64::from(a.rounds), f64::from(a.gossip), a.objective, a.optimum_gap];
    all.extend([a.log_error, open(a.test_accuracy), open(a.test_auc), a.agents_stopped]);
    all.extend(spread(a.per_agent_accuracy));
    all.push(open(a.violation));
    if let Some(e) = &a.epsilon {
        all.extend([e.claim, e.delta, open(e.worst_case_pure), open(e.paper_worst_case)]);
        all.push(open(e.realised_mean));
    }
    for row in &a.trace {
        all.extend([f64::from(row.round), row.objective, row.optimum_gap, row.disagreement]);
        all.extend(spread(Some(row.log_error)));
        all.extend([open(row.test_accuracy), open(row.epsilon_worst)]);
        all.extend(spread(row.epsilon_realised));
        all.extend(spread(row.epsilon_published));
    }
    all
}

fn lines(names: &[&str], smaller: fn(&str) -> String) -> String {
    let mut lines = String::new();
    for (name, _, text) in
        consenso_study::experiment::BUILT_IN.iter().filter(|b| names.contains(&b.0))
    {
        let experiment = checked(name, smaller(text));
        let finished = run(&experiment, &Silent).unwrap();
        if let Ok(cost) = experiment.cost() {
            let cost = cost.cost;
            let all = [Some(cost.epsilon), Some(cost.delta), cost.mu, cost.rho];
            let cost = Hash::of(all.map(|c| c.unwrap_or(f64::NAN)));
            writeln!(lines, "{name}: costs {cost}").unwrap();
        }
        for (a, trained) in finished.record.algorithms.iter().zip(&finished.models) {
            let models = Hash::of(trained.agents.iter().flatten().copied());
            let figures = Hash::of(figures(a));
            writeln!(lines, "{name} / {}: models {models}, figures {figures}", a.label).unwrap();
        }
    }
    lines
}

/// Those whose references alone take minutes are in the soak.
fn quick() -> Vec<&'static str> {
    let slow = ["dimension", "frontier", "trust-sparse", "dispatch-118", "paper-b"];
    consenso_study::experiment::BUILT_IN
        .iter()
        .map(|b| b.0)
        .filter(|name| !slow.contains(name))
        .collect()
}

#[test]
fn built_in_experiments_compute_what_they_did() {
    insta::assert_snapshot!(lines(&quick(), reduced));
}

#[test]
#[ignore = "minutes: the built-in experiments with all their rounds and records"]
fn whole_built_in_experiments_compute_what_they_did() {
    let all: Vec<&str> = consenso_study::experiment::BUILT_IN.iter().map(|b| b.0).collect();
    insta::assert_snapshot!(lines(&all, once));
}
