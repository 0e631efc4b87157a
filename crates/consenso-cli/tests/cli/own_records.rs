//! A file as a hospital exports it, from the draft of its schema to a model: the script of the
//! guide.

use crate::Place;
use std::path::Path;
use std::process::Command;

/// Semicolons, decimal commas, Latin-1, missing values and dates; no step by hand but the review.
#[cfg(unix)]
#[test]
fn from_an_export_to_a_model() {
    let place = Place::new("own_records");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/own-records.sh");
    let output = Command::new("sh")
        .arg(&script)
        .arg(place.path("."))
        .env("CONSENSO", env!("CARGO_BIN_EXE_consenso"))
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for wanted in [
        "read as latin-1 text, semicolons between cells, decimal comma, '.' between thousands",
        "column \"Fallnummer\": every record has a text of its own: it looks like a row identifier",
        "column \"Alter\": numbers, but for \"k.A.\"",
        "column \"Aufnahme\": dates (DD.MM.YYYY)",
    ] {
        assert!(said.contains(wanted), "{wanted:?} is not in: {said}");
    }
    let checked = String::from_utf8_lossy(&output.stdout);
    assert!(
        checked.contains("schema reviewed") && checked.contains("Größe_BMI=missing"),
        "{checked}"
    );
    let run: serde_json::Value =
        serde_json::from_str(&place.read("run.json")).expect("one JSON object");
    let accuracy =
        run["algorithms"][0]["test_accuracy"].as_f64().expect("test records were held out");
    assert!((0.0..=1.0).contains(&accuracy));
    assert!(
        run["algorithms"][0]["epsilon"]["claim"].as_f64().is_some_and(|epsilon| epsilon <= 5.0),
        "{run}"
    );
    let predicted: serde_json::Value =
        serde_json::from_str(&place.read("predict.json")).expect("one JSON object");
    let rows = predicted["metrics"]["rows"].as_u64().unwrap();
    assert_eq!(rows + predicted["skipped"].as_u64().unwrap(), 80);
    assert_eq!(
        predicted["metrics"], run["algorithms"][0]["metrics"],
        "the figures of the run, exactly"
    );
    assert!(
        predicted["metrics"]["auc"].as_f64().is_some_and(|auc| auc > 0.5),
        "{}",
        predicted["metrics"]
    );
    assert_eq!(place.read("predictions.csv").lines().count(), 81, "a line per record of the file");
    assert!(said.contains("miss a value and were dropped"), "counted for whoever runs it: {said}");
}
