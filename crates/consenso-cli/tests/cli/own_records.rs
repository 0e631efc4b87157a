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

/// Runs a command at a terminal of its own and answers the first question; says what was shown, and
/// the exit code last.
const AT_A_TERMINAL: &str = r#"
import os, pty, select, sys
answer, command = sys.argv[1].encode(), sys.argv[2:]
pid, end = pty.fork()
if pid == 0:
    os.execv(command[0], command)
shown, asked = b"", False
while select.select([end], [], [], 120)[0]:
    try:
        piece = os.read(end, 65536)
    except OSError:
        break
    if not piece:
        break
    shown += piece
    if not asked and b"[y/N]" in shown:
        os.write(end, answer + b"\n")
        asked = True
print(shown.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

/// The first limit of some records, at a terminal: asked once, and for life by a clear yes alone.
#[cfg(unix)]
#[test]
fn a_limit_is_asked_about_at_a_terminal_once() {
    for (answer, for_life) in [("y", true), ("", false)] {
        let place = Place::new(&format!("terminal-{for_life}"));
        let rows: String = (0..60).map(|k| format!("0.{:02},{}\n", k, k % 3)).collect();
        place.write("x.csv", &format!("x,y\n{rows}"));
        place.write(
            "schema.toml",
            "reviewed = true\n[[column]]\nname = \"x\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n\
             [[column]]\nname = \"y\"\nkind = \"label\"\nmin = 0\nmax = 2\n",
        );
        place.write(
            "e.toml",
            "name = \"t\"\nruns = 1\n[data]\npath = \"x.csv\"\nschema = \"schema.toml\"\nencoding = \"numeric\"\nagents = 3\n\
             [objective]\nloss = \"huber\"\n[graph]\nkind = \"complete\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n\
             [[algorithm]]\nkind = \"dgd\"\nrounds = 2\n",
        );
        let run = |limit: &str, out: &str, answer: &str| {
            let output = Command::new("python3")
                .args([
                    "-c",
                    AT_A_TERMINAL,
                    answer,
                    env!("CARGO_BIN_EXE_consenso"),
                    "run",
                    "e.toml",
                ])
                .args(["--entropy", "os", "--limit", limit, "--out", out])
                .current_dir(place.path("."))
                .output();
            // Where there is Python.
            output.ok().map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let Some(first) = run("9", "one", answer) else { return };
        assert!(first.contains("never raised") && first.contains("[y/N]"), "{first}");
        assert!(first.trim_end().ends_with('0'), "{first}");
        assert_eq!(first.contains("limit ε = 9 for life"), for_life, "{first}");
        let second = run("12", "two", "y").unwrap();
        assert!(!second.contains("[y/N]"), "asked once: {second}");
        assert_eq!(second.trim_end().ends_with('2'), for_life, "{second}");
    }
}
