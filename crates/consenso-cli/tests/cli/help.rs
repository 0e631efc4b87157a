//! What `--help` says is part of the interface.

use crate::Place;

#[test]
fn help_texts() {
    let place = Place::new("help");
    let commands: [&[&str]; 22] = [
        &[],
        &["run"],
        &["plan"],
        &["reproduce"],
        &["data"],
        &["data", "info"],
        &["data", "check"],
        &["data", "schema"],
        &["privacy"],
        &["privacy", "gamma"],
        &["privacy", "loss"],
        &["privacy", "compose"],
        &["privacy", "calibrate"],
        &["network"],
        &["network", "new"],
        &["network", "up"],
        &["network", "change"],
        &["network", "change", "propose"],
        &["network", "change", "apply"],
        &["node"],
        &["node", "init"],
        &["node", "run"],
    ];
    for words in commands {
        let answer = place.consenso(&[words, &["--help"]].concat());
        assert_eq!(answer.code, 0);
        assert!(!answer.stdout.contains('\u{1b}'), "colour where there is no terminal");
        insta::assert_snapshot!(
            ["consenso"].iter().chain(words).copied().collect::<Vec<_>>().join("-"),
            answer.stdout
        );
    }
    let run = place.consenso(&["run", "--help"]).stdout;
    assert_eq!(place.consenso(&["help", "run"]).stdout, run);
}

#[test]
fn version() {
    let answer = Place::new("version").consenso(&["--version"]);
    assert_eq!(answer.stdout, format!("consenso {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_doctor_finds_this_machine_well_and_says_what_it_looked_at() {
    let value = Place::new("doctor").consenso(&["doctor", "--json"]).json();
    let checks: Vec<&str> =
        value["checks"].as_array().unwrap().iter().map(|c| c["check"].as_str().unwrap()).collect();
    for part in ["program", "entropy", "arithmetic", "disk", "clock"] {
        assert!(checks.contains(&part), "{checks:?}");
    }
    assert_eq!(value["ok"], true, "{value}");
}

/// Every command that the tour prints works, and a second tour writes over nothing.
#[test]
#[ignore = "about ten seconds of an unoptimised program: cargo xtask soak"]
fn a_tour_goes_from_a_run_to_an_audit() {
    let place = Place::new("tour");
    let value = place.consenso(&["tour", "--json"]).json();
    let steps = value["steps"].as_array().unwrap();
    for part in ["run", "predict", "network up", "node audit", "privacy statement"] {
        assert!(steps.iter().any(|s| s["command"].as_str().unwrap().contains(part)), "{part}");
    }
    assert!(place.path("consenso-tour/run/report.html").exists());
    place.consenso(&["tour"]).refused(&["consenso-tour", "--out"]);
}

/// Whoever meets an error is shown the chapter that explains it.
#[test]
fn an_error_leads_to_the_guide() {
    let place = Place::new("guide-links");
    place.write("wrong.toml", "name = \"wrong\"\nsead = 3\n");
    place.consenso(&["run", "wrong.toml"]).refused(&["sead", "docs/reference.md"]);
    place.consenso(&["predict", "nowhere", "x.csv"]).refused(&["docs/your-own-records.md"]);
    place.consenso(&["node", "status", "nowhere"]).refused(&["docs/three-hospitals.md"]);
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for page in ["reference", "your-own-records", "commands", "paper", "choosing-a-budget", "start"]
    {
        assert!(root.join(page).with_extension("md").exists(), "{page}");
    }
}
