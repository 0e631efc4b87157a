//! A linear constraint: three generators share a demand of 100, each with a cost function of its
//! own that it keeps to itself.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::Study;
use consenso::experiment::{AgentCosts, ExperimentSpec, Inputs};
use consenso_study::ExperimentFile as _;

const EXPERIMENT: &str = r#"
name = "demand"
runs = 1
algorithm = [{ kind = "linear-admm", exact = true }]

[problem]
rhs = [100.0]
agent = [
    { name = "hydro", quadratic = 0.02, linear = 1.0, low = 0.0, high = 60.0 },
    { name = "gas", quadratic = 0.01, linear = 3.0, low = 0.0, high = 80.0 },
    { name = "diesel", quadratic = 0.05, linear = 6.0, low = 0.0, high = 40.0 },
]"#;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (file, text) = ("demand.toml".to_owned(), EXPERIMENT.to_owned());
    let spec = ExperimentSpec::from_toml(&text, &file)?;
    let source = Box::new(AgentCosts::of(&spec));
    let inputs = Inputs { file, text, spec, source, edges: None, entropy: None };
    let fitted = Study::from(inputs).run()?;
    let produced: Vec<f64> = fitted.models().iter().map(|x| x[0]).collect();
    println!("hydro {:.2}, gas {:.2}, diesel {:.2}", produced[0], produced[1], produced[2]);
    println!("together {:.3} of 100", produced.iter().sum::<f64>());
    Ok(())
}
