//! A CSV of one's own: the rows of each hospital are an agent's, and the schema says what is
//! public.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::Study;
use consenso_engine::data::{Dataset, Encoding, Schema, csv};
use consenso_engine::experiment::{ExperimentSpec, Inputs, Source};
use consenso_study::{ExperimentFile as _, SchemaFile as _};

const SCHEMA: &str = r#"
reviewed = true
column = [
    { name = "age", kind = "numeric", min = 0, max = 100 },
    { name = "smokes", kind = "categorical", categories = ["no", "yes"] },
    { name = "hospital", kind = "site" },
    { name = "ill", kind = "label", classes = ["no", "yes"] },
]"#;

const EXPERIMENT: &str = r#"
name = "hospitals"
runs = 1
data = { path = "hospitals.csv", partition = { by = "hospital" } }
graph = { kind = "complete" }
privacy = { epsilon = 1.0, delta = 1e-6 }
algorithm = [{ kind = "dgd" }]"#;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut file = String::from("age,smokes,hospital,ill\n"); // yours: std::fs::read_to_string("hospitals.csv")?
    for i in 0..9000 {
        let (age, smokes, hospital) =
            (i * 7 % 100, ["no", "yes"][i / 3 % 2], ["A", "B", "C"][i % 3]);
        file += &format!("{age},{smokes},{hospital},{}\n", ["no", "yes"][usize::from(age > 50)]);
    }
    let table = csv::read(file.as_bytes(), "hospitals.csv", &Schema::from_toml(SCHEMA)?)?;
    let source = Source::Data(Box::new(Dataset::new(vec![table], None, Encoding::OneHot)?));
    let (file, text) = ("hospitals.toml".to_owned(), EXPERIMENT.to_owned());
    let spec = ExperimentSpec::from_toml(&text, &file)?;
    let fitted =
        Study::from(Inputs { file, text, spec, source, edges: None, entropy: None }).run()?;
    println!("{}{:?}", fitted.claim().ok_or("no claim")?, fitted.models()[0]);
    Ok(())
}
