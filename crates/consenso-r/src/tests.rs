//! Calls as R makes them.

use crate::ffi::called;
use crate::watch::{Watch, watched};
use crate::{Arguments, CallError, call};
use consenso_engine::experiment::Observer as _;
use std::fmt::Write as _;

const SCHEMA: &str = r#"
reviewed = true
[[column]]
name = "hospital"
kind = "site"
[[column]]
name = "age"
kind = "numeric"
min = 0
max = 100
[[column]]
name = "ill"
kind = "label"
classes = ["no", "yes"]
"#;

const STUDY: &str = r#"
name = "study"
runs = 1
data = { path = "*.csv", schema = "schema.toml", partition = { by = "hospital" } }
graph = { kind = "complete" }
privacy = { epsilon = 4.0, delta = 1e-6 }
"#;

fn table() -> String {
    let mut text = String::from("hospital,age,ill\n");
    for row in 0..400 {
        let age = (row * 37) % 100;
        let ill = if age + (row * 13) % 30 > 60 { "yes" } else { "no" };
        let _ = writeln!(text, "{},{age},{ill}", ["a", "b"][row % 2]);
    }
    text
}

fn fitted(seed: &str) -> serde_json::Value {
    let text = format!("{STUDY}algorithm = [{{ kind = \"dgd\" }}]\n");
    let found = called(
        "fit",
        &[("text", &text), ("schema", SCHEMA), ("table:records.csv", &table()), ("seed", seed)],
    );
    found["ok"].clone()
}

#[test]
fn a_fit_is_a_model_file_that_answers() {
    let fit = fitted("3");
    assert!(fit["claim"]["epsilon"].as_f64().expect("a claim") <= 4.0, "{fit}");
    let file = fit["file"].as_str().expect("a file");
    let found = called("predict", &[("model", file), ("text", "age\n5\n95\n\n")]);
    let chances = &found["ok"]["probabilities"];
    assert!(chances[0][0].as_f64() < chances[1][0].as_f64(), "{found}");
    assert_eq!(fitted("3")["file"], fit["file"]);
    assert_ne!(fitted("4")["file"], fit["file"]);
}

/// What leaves with a model is the shared one; a site's own comes beside it, by the site's name.
#[test]
fn personal_models_come_beside_the_shared_one() {
    let text = format!("models = \"personal\"\n{STUDY}algorithm = [{{ kind = \"dgd\" }}]\n");
    let table = table();
    let given =
        [("text", &*text), ("schema", SCHEMA), ("table:records.csv", &table), ("seed", "3")];
    let found = &called("fit", &given)["ok"];
    let file = |value: &serde_json::Value| -> serde_json::Value {
        serde_json::from_str(value.as_str().expect("a file")).expect("JSON")
    };
    let (shared, own) = (file(&found["file"]), found["personal"].as_array().expect("models"));
    let names: Vec<_> = own.iter().map(|o| o["site"].as_str().expect("a name")).collect();
    assert_eq!(names, ["a", "b"]);
    for one in own {
        let one = file(&one["file"]);
        assert_ne!(one["weights"], shared["weights"]);
        assert!(one["notes"].to_string().contains("must not leave the site"), "{one}");
    }
    assert!(!shared.to_string().contains("personal"), "{shared}");
    assert_eq!(fitted("3")["personal"].as_array().map(Vec::len), Some(0));
}

#[test]
fn questions_are_answered_with_intervals_and_a_claim() {
    let given = [
        ("text", STUDY),
        ("schema", SCHEMA),
        ("table:records.csv", &table()),
        ("seed", "1"),
        ("question", "mean age"),
        ("question", "count by ill"),
    ];
    let found = &called("ask", &given)["ok"];
    let mean = &found["queries"][0]["answers"][0];
    let number = |key: &str| mean[key].as_f64().unwrap_or_else(|| panic!("{key} in {found}"));
    // The mean of 0 to 99, four times each, is 49.5.
    assert!(number("low") < 49.5 && 49.5 < number("high"), "{mean}");
    assert!(found["claim"]["epsilon"].as_f64().expect("a claim") <= 4.0);
    assert_eq!(found["queries"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_budget_is_charged_before_a_fit_and_refuses_the_one_too_many() {
    let folder = std::env::temp_dir().join(format!("consenso-r-{}", std::process::id()));
    let path = folder.join("budget").display().to_string();
    let text = format!("{STUDY}algorithm = [{{ kind = \"dgd\" }}]\n");
    let table = table();
    let budget = [
        ("budget.path", &*path),
        ("budget.epsilon", "5"),
        ("budget.delta", "1e-5"),
        ("budget.session", "yes"),
    ];
    let mut given =
        vec![("text", &*text), ("schema", SCHEMA), ("table:records.csv", &table), ("seed", "1")];
    given.extend(budget);
    let (first, second) = (called("fit", &given), called("fit", &given));
    let standing = called("standing", &budget);
    std::fs::remove_dir_all(&folder).expect("the folder of the budget");
    assert!(first["ok"].is_object(), "{first}");
    assert_eq!(second["kind"], "consenso_spent", "{second}");
    assert_eq!(standing["ok"]["studies"], 1);
}

#[test]
fn what_is_wrong_is_said() {
    for (name, given, kind, words) in [
        ("nothing", &[][..], "consenso_input", "different versions"),
        ("fit", &[], "consenso_input", "text is missing"),
        ("noise", &[("kind", "laplace"), ("scale", "1"), ("values", "1 x")], "consenso_input", "x"),
        ("compose", &[("events", "[]"), ("delta", "a")], "consenso_input", "delta = a"),
        ("toml", &[("text", "a = ")], "consenso_input", "a ="),
    ] {
        let found = called(name, given);
        assert_eq!(found["kind"], kind, "{found}");
        assert!(found["error"].as_str().is_some_and(|text| text.contains(words)), "{found}");
    }
}

#[test]
fn a_panic_is_an_error_and_work_that_is_stopped_ends() {
    let panicked = watched(|| false, |_| -> Result<(), CallError> { panic!("a test") });
    assert!(matches!(panicked, Err(CallError::Panicked)));
    let stopped = watched(
        || true,
        |watch| {
            while !watch.cancelled() {
                std::thread::yield_now();
            }
            Ok(())
        },
    );
    assert!(matches!(stopped, Err(CallError::Interrupted)));
}

#[test]
fn noise_repeats_by_its_seed_and_lies_on_its_grid() {
    let given = [("kind", "gaussian"), ("scale", "2"), ("values", "1 2.5"), ("seed", "4")];
    let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let draw = || call("noise", &Arguments::new(given.map(text)), &Watch::default());
    let (a, b) = (draw().expect("noise"), draw().expect("noise"));
    assert_eq!(a, b);
    let (value, step) = (a["values"][1].as_f64(), a["step"].as_f64());
    let steps = value.zip(step).map(|(value, step)| value / step).expect("numbers");
    assert!((steps - steps.round()).abs() < 1e-9, "{a}");
}
