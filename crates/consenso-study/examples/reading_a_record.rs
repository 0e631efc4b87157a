//! Reading a record: run a small experiment, keep its record as JSON, read it back and look inside.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::Study;
use consenso::experiment::{ExperimentSpec, Inputs};
use consenso::record::Record;
use consenso_study::ExperimentFile as _;

const EXPERIMENT: &str = r#"
name = "small"
runs = 2
data = { source = "logistic", agents = 4, records_per_agent = 1000, dim = 5 }
graph = { kind = "ring" }
privacy = { epsilon = 1.0, delta = 1e-6 }
algorithm = [{ kind = "dgd" }, { kind = "dgd", label = "without noise", noise = "none" }]"#;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (file, text) = ("small.toml".to_owned(), EXPERIMENT.to_owned());
    let spec = ExperimentSpec::from_toml(&text, &file)?;
    let source = Box::new(spec.synthetic().ok_or("synthetic records")??);
    let fitted =
        Study::from(Inputs { file, text, spec, source, edges: None, entropy: None }).run()?;
    let json = serde_json::to_string(fitted.record())?; // what `consenso run` writes as record.json
    let record: Record = serde_json::from_str(&json)?;
    println!("accuracy of x*: {:?}", record.baselines.central_optimum_accuracy);
    for algorithm in &record.algorithms {
        let epsilon = algorithm.epsilon.as_ref().map(|e| e.claim);
        println!("{}: accuracy {:?}, ε {epsilon:?}", algorithm.label, algorithm.test_accuracy);
        for point in algorithm.curve.iter().step_by(10) {
            println!("  round {:3}: {:.4}", point.round, point.objective.mean);
        }
    }
    Ok(())
}
