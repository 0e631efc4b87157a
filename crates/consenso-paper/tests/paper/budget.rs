//! Budgets of whole experiments.

use consenso_engine::data::Encoding;
use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, Silent, run};
use consenso_study::{ExperimentFile as _, bundled};

const SKEWED: &str = r#"
name = "skewed"
runs = 3
[data]
source = "adult"
encoding = "paper"
agents = 4
partition = { dirichlet = 0.5 }
[graph]
kind = "ring"
[privacy]
epsilon = 1.0
delta = 1e-6
[[algorithm]]
kind = "dgd"
rounds = 2
"#;

/// A Dirichlet division gives agents other numbers of records in every run, so other sensitivities
/// and other noise.
#[test]
fn every_agent_of_every_run_has_an_account() {
    let spec = ExperimentSpec::from_toml(SKEWED, "skewed").unwrap();
    let source = Box::new(bundled::adult(Encoding::Paper).unwrap());
    let inputs = Inputs {
        file: "skewed".into(),
        text: SKEWED.into(),
        spec,
        source,
        edges: None,
        entropy: None,
    };
    let record = run(&Experiment::check(inputs).unwrap(), &Silent).unwrap().record;
    let epsilon = record.algorithms[0].epsilon.as_ref().unwrap();
    assert!(epsilon.claim <= 1.0 && epsilon.claim > 0.999, "{}", epsilon.claim);
    assert_eq!(record.runs, 3);
}
