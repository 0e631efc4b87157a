//! CSV files of one's own: every hospital's file is an agent's, and the schema says what is public.
#![expect(clippy::print_stdout, reason = "an example prints")]
use consenso::Study;
use consenso_study::StudyFiles as _;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = made_up()?; // yours: hospitals/A.csv, hospitals/B.csv, … and a reviewed schema.toml
    let (pattern, schema) = (format!("{folder}/*.csv"), format!("{folder}/schema.toml"));
    let fitted = Study::from_csv(&pattern, schema)?.budget(1.0, 1e-6).run()?;
    println!("{}", fitted.claim().ok_or("no claim")?);
    let model = fitted.model_file().ok_or("no model")?;
    println!("{:?}", model.features);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

const SCHEMA: &str = r#"
reviewed = true
column = [
    { name = "age", kind = "numeric", min = 0, max = 100 },
    { name = "smokes", kind = "categorical", categories = ["no", "yes"] },
    { name = "ill", kind = "label", classes = ["no", "yes"] },
]"#;

/// Writes files as three hospitals might have them.
fn made_up() -> std::io::Result<String> {
    let folder = std::env::temp_dir().join(format!("consenso-own-csv-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("schema.toml"), SCHEMA)?;
    for (offset, hospital) in ["A", "B", "C"].iter().enumerate() {
        let mut file = String::from("age,smokes,ill\n");
        for i in 0..3000 {
            let (age, smokes) = ((i * 7 + offset) % 100, ["no", "yes"][i / 3 % 2]);
            file += &format!("{age},{smokes},{}\n", ["no", "yes"][usize::from(age > 50)]);
        }
        std::fs::write(folder.join(format!("{hospital}.csv")), file)?;
    }
    Ok(folder.display().to_string())
}
