//! Writes the report of a made-up run, or of a `record.json`, to look at while working on its
//! style: `cargo run --example report_preview -- report.html [record.json]`.

#[path = "../tests/support/made_up.rs"]
mod made_up;

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "report.html".into());
    let record = match std::env::args().nth(2) {
        Some(record) => serde_json::from_str(&std::fs::read_to_string(record)?)?,
        None => made_up::record(),
    };
    std::fs::write(&path, consenso_study::report::report_html(&record))?;
    for (name, figure) in consenso_study::report::figures(&record) {
        std::fs::write(format!("{path}.{name}.svg"), figure.to_svg())?;
    }
    Ok(())
}
