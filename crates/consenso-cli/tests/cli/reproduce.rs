//! `consenso reproduce`.

use crate::Place;
use serde_json::Value;

#[test]
fn one_figure_as_a_folder() {
    let place = Place::new("reproduce_one");
    let value = place.consenso(&["reproduce", "1", "--json", "--out", "one"]).json();
    assert_eq!(value["figures"], serde_json::json!(["1"]));
    assert_eq!(value["findings"][0]["verdict"], "reproduced");
    assert_eq!(value["out"], "one");
    for file in [
        "figures/figure-1.svg",
        "figures/erratum-gamma.svg",
        "data/figure-1.csv",
        "data/gamma.csv",
        "data/README.md",
    ] {
        assert!(!place.read(&format!("one/{file}")).is_empty());
    }
    let record: Value = serde_json::from_str(&place.read("one/record.json")).unwrap();
    assert_eq!(record["gamma"].as_array().map(Vec::len), Some(2 * 9 * 19));
    assert!(place.read("one/report.html").contains("id=\"figure-1\""));
    let answer = place.consenso(&["reproduce", "1"]);
    assert!(
        answer.stdout.contains("reproduced") && answer.stdout.contains("runs/reproduce-1-8"),
        "{}",
        answer.stdout
    );
}

#[test]
fn one_seed_gives_the_same_data_on_any_number_of_threads() {
    let place = Place::new("reproduce_same");
    for (threads, out) in [("1", "a"), ("2", "b")] {
        let answer = place.consenso(&[
            "reproduce",
            "2",
            "C",
            "--runs",
            "2",
            "--threads",
            threads,
            "--out",
            out,
        ]);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
    }
    let other = place.consenso(&["reproduce", "2", "--runs", "2", "--seed", "9", "--out", "c"]);
    assert_eq!(other.code, 0, "{}", other.stderr);
    let mut files = 0;
    for entry in std::fs::read_dir(place.path("a/data")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert_eq!(
            place.read(&format!("a/data/{name}")),
            place.read(&format!("b/data/{name}")),
            "{name}"
        );
        files += 1;
    }
    assert!(files >= 9, "{files} files");
    let error = "data/figure-2a.csv";
    assert_ne!(
        place.read(&format!("a/{error}")),
        place.read(&format!("c/{error}")),
        "another seed, other numbers"
    );
}

#[test]
fn bad_input_is_refused_before_anything_runs() {
    let place = Place::new("reproduce_bad");
    std::fs::create_dir(place.path("taken")).unwrap();
    let before = place.listing();
    place
        .consenso(&["reproduce", "7"])
        .refused(&["7: the paper has no such figure", "1, 2, B, C, D"]);
    place
        .consenso(&["reproduce", "1", "--out", "taken"])
        .refused(&["taken: exists already", "--out"]);
    place.consenso(&["reproduce", "1", "--runs", "0"]).refused(&["--runs"]);
    #[cfg(not(feature = "png"))]
    place.consenso(&["reproduce", "1", "--png"]).refused(&["--png", "--features png"]);
    assert_eq!(before, place.listing());
}

#[cfg(feature = "png")]
#[test]
fn figures_as_png() {
    let place = Place::new("reproduce_png");
    assert_eq!(place.consenso(&["reproduce", "1", "--png", "--out", "one"]).code, 0);
    let png = std::fs::read(place.path("one/figures/figure-1.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000);
}
