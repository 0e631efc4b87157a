//! Sweeps: one file at several budgets and sizes.

use consenso::experiment::{Experiment, ExperimentSpec, Inputs, Silent, Source, SpecError, run};
use consenso::record::Record;

const FILE: &str = r#"
name = "small"
runs = 1
[data]
source = "logistic"
agents = 4
records_per_agent = 60
dim = 3
[graph]
kind = "ring"
[privacy]
epsilon = 2.0
delta = 1e-5
[sweep]
epsilon = [0.5, 2.0, 8.0]
agents = [4, 6]
[[algorithm]]
kind = "dgd"
rounds = 10
[[algorithm]]
kind = "dvp"
rounds = 10
"#;

fn checked(text: &str) -> Result<Experiment, SpecError> {
    let spec = ExperimentSpec::from_toml(text, "small.toml")?;
    let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
    Experiment::check(Inputs {
        file: "small.toml".into(),
        text: text.into(),
        spec,
        source,
        edges: None,
        entropy: None,
    })
}

fn ran(text: &str) -> Record {
    run(&checked(text).unwrap(), &Silent).unwrap()
}

#[test]
fn every_point_has_its_own_noise_and_stays_within_its_budget() {
    let record = ran(FILE);
    let places: Vec<_> = record.sweep.iter().map(|p| (p.agents, p.epsilon.unwrap())).collect();
    assert_eq!(places, [(4, 0.5), (4, 2.0), (4, 8.0), (6, 0.5), (6, 2.0), (6, 8.0)]);
    for point in &record.sweep {
        assert_eq!((point.runs, point.algorithms.len()), (1, 2));
        for a in &point.algorithms {
            let (claim, budget) = (a.epsilon.as_ref().unwrap().claim, point.epsilon.unwrap());
            assert!(claim <= budget && claim > 0.99 * budget, "{}: {claim} of {budget}", a.label);
            assert!(a.curve.is_empty() && a.agents_stopped == 0.0);
        }
        assert!(point.baselines.majority_accuracy.is_some() && point.baselines.local_only_accuracy.is_some());
    }
    // The record itself is that of the file's own settings, which are one of the points.
    assert_eq!(record.problem.agents, 4);
    let own = &record.sweep[1].algorithms[0];
    assert!(!record.algorithms[0].curve.is_empty());
    assert_eq!(own.log_error, record.algorithms[0].log_error);
    // Less budget, more noise.
    let error = |k: usize| record.sweep[k].algorithms[0].log_error;
    assert!(error(0) > error(1) && error(1) > error(2));
}

/// A point is the same as the file with its values written in.
#[test]
fn a_point_is_the_experiment_at_its_values() {
    let record = ran(FILE);
    let (head, tail) = FILE.split_once("[sweep]").unwrap();
    let algorithms = &tail[tail.find("[[algorithm]]").unwrap()..];
    let alone = format!("{head}{algorithms}")
        .replace("epsilon = 2.0", "epsilon = 8.0")
        .replace("agents = 4", "agents = 6");
    let alone = ran(&alone);
    assert!(alone.sweep.is_empty());
    assert_eq!(alone.algorithms[1].log_error, record.sweep[5].algorithms[1].log_error);
    // The resolved file keeps the sweep and repeats it.
    let again = ran(&record.resolved);
    assert_eq!(again.sweep, record.sweep);
}

#[test]
fn the_csv_has_a_row_a_point_and_algorithm() {
    let mut csv = Vec::new();
    ran(FILE).write_sweep(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(lines.len(), 1 + 6 * 2);
    assert!(lines.iter().all(|l| l.len() == 16));
    assert_eq!(lines[0][..5], ["agents", "epsilon", "runs", "kind", "algorithm"]);
    assert_eq!(lines[1][..4], ["4", "0.5", "1", "dgd"]);
}

#[test]
fn a_sweep_over_nothing_is_an_error_that_says_where() {
    let refused = |from: &str, to: &str, parts: &[&str]| {
        let text = FILE.replace(from, to);
        assert_ne!(text, FILE);
        let error = checked(&text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part} is missing from: {error}");
        }
    };
    refused("epsilon = [0.5, 2.0, 8.0]\nagents = [4, 6]", "", &["small.toml:", "sweep", "nothing to vary"]);
    refused("[privacy]\nepsilon = 2.0\ndelta = 1e-5\n", "", &["sweep", "no [privacy]"]);
    refused("0.5, 2.0", "-0.5, 2.0", &["-0.5", "positive"]);
    refused("agents = [4, 6]", "agents = [4, 1]", &["agents = 1", "at least 2"]);
    refused("agents = [4, 6]", "agent = [4, 6]", &["small.toml:", "agent", "agents"]);
}
