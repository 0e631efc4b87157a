//! Questions from the command line: answers, what they cost, and what is refused.

use crate::Place;
use serde_json::Value;
use std::fmt::Write as _;

const SCHEMA: &str = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
    [[column]]\nname = \"ward\"\nkind = \"categorical\"\ncategories = [\"a\", \"b\", \"c\"]\n\
    [[column]]\nname = \"ill\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n";

const STUDY: &str = "name = \"wards\"\n[data]\npath = \"site-*.csv\"\nschema = \"schema.toml\"\n[graph]\nkind = \"complete\"\n\
    [privacy]\nepsilon = 1.0\ndelta = 1e-6\n";

/// Three sites of 400 records each, whose ages are known.
fn wards(name: &str) -> Place {
    let place = Place::new(name);
    for site in 0..3 {
        let mut table = String::from("age,ward,ill\n");
        for k in 0..400 {
            let (ward, ill) = (["a", "b", "c"][k % 3], ["no", "yes"][usize::from(k % 5 == 0)]);
            writeln!(table, "{},{ward},{ill}", 20 + (k * 7 + site) % 60).unwrap();
        }
        place.write(&format!("site-{site}.csv"), &table);
    }
    place.write("schema.toml", SCHEMA).write("study.toml", STUDY);
    place
}

fn asked(place: &Place, words: &[&str]) -> Value {
    let answer = place.consenso(&[&["ask", "study.toml"], words, &["--json"]].concat());
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    serde_json::from_str(&answer.stdout).unwrap()
}

fn spent(answer: &Value) -> f64 {
    answer["ledger"][0]["spent"]["epsilon"].as_f64().unwrap_or(0.0)
}

/// The attack that tables without noise allow: two questions that differ in one person. Both are
/// charged, their difference hides the person, the same question costs nothing, and a limit ends
/// it before anything is released.
#[test]
fn differencing_is_charged_twice_and_refused_when_the_budget_ends() {
    let place = wards("differencing");
    let question = ["mean age by ward", "--entropy", "os", "--epsilon", "0.5", "--limit", "0.8"];
    let first = asked(&place, &question);
    assert!(first["epsilon"]["claim"].as_f64().unwrap() <= 0.5);
    let once = spent(&first);
    assert!(once > 0.45 && once < 0.52, "{first}");
    // Asked again: the same numbers, and nothing is spent.
    let again = asked(&place, &question);
    assert_eq!(again["queries"][0]["answers"], first["queries"][0]["answers"]);
    assert!(again["queries"][0]["known"].as_bool().unwrap() && again["epsilon"].is_null());
    // The same question without one person is another one: another charge, with noise of its own.
    let all = place.read("site-0.csv");
    let without: Vec<&str> = all.lines().take(400).collect();
    place.write("site-0.csv", &without.join("\n"));
    let words = [&question[..], &["--records", "same"]].concat();
    let second = asked(&place, &words);
    assert!(spent(&second) > 1.2 * once, "{} after {once}", spent(&second));
    let mean = |answer: &Value| answer["queries"][0]["answers"][0]["estimate"].as_f64().unwrap();
    let noise = first["queries"][0]["answers"][0]["noise"].as_f64().unwrap();
    assert_ne!(mean(&first), mean(&second));
    // One record of 400 moves a mean by at most 0.25: the noise of the difference is far larger.
    assert!(noise > 0.5, "{noise}");
    // A third one does not fit into what is left.
    let words = [
        "ask",
        "study.toml",
        "quantiles age",
        "--entropy",
        "os",
        "--epsilon",
        "0.5",
        "--records",
        "same",
    ];
    let refused = place.consenso(&words);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    assert!(refused.stderr.contains("limit") && refused.stdout.is_empty(), "{}", refused.stderr);
}

/// Without noise the command gives the exact figures; `run --json` has the same queries beside an
/// algorithm; files of answers are written; what is wrong is named with what to do.
#[test]
fn questions_beside_an_algorithm_and_in_words() {
    let place = wards("questions");
    let exact = STUDY.split("[privacy]").next().unwrap();
    let queries = "[[query]]\nkind = \"mean\"\ncolumn = \"age\"\nby = \"site\"\n[[query]]\nkind = \"count\"\nby = \"ward\"\n";
    place.write(
        "study.toml",
        &format!("runs = 1\n{exact}[[algorithm]]\nkind = \"dgd\"\nrounds = 3\n{queries}"),
    );
    let run = place.consenso(&["run", "study.toml", "--json", "--out", "out"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let run: Value = serde_json::from_str(&run.stdout).unwrap();
    let means = run["queries"][0]["answers"].as_array().unwrap();
    assert_eq!((means.len(), means[0]["what"].as_str()), (6, Some("mean")));
    for (site, mean) in means.iter().step_by(2).enumerate() {
        let ages = (0..400).map(|k| f64::from(20 + (k * 7 + site as u32) % 60));
        assert!((mean["estimate"].as_f64().unwrap() - ages.sum::<f64>() / 400.0).abs() < 1e-6);
    }
    assert_eq!(run["queries"][1]["answers"][0]["estimate"].as_f64(), Some(402.0));
    for file in ["answers.json", "answers.csv", "answers.tex", "answers.html"] {
        assert!(place.path("out").join(file).exists(), "{file}");
    }
    for (question, said) in [
        ("mean agee", "did you mean \"age\"?"),
        ("mean ward", "has categories"),
        ("median age", "is no kind of question"),
        ("crosstab ward", "two or three columns"),
        ("quantiles age q=2", "must lie between 0 and 1"),
    ] {
        let wrong = place.consenso(&["ask", "study.toml", question]);
        assert_eq!(wrong.code, 2, "{question}");
        assert!(wrong.stderr.contains(said), "{question}: {}", wrong.stderr);
    }
    let plan = place.consenso(&["plan", "study.toml"]);
    assert!(plan.stdout.contains("mean age by site"), "{}", plan.stdout);
}

/// Exposures, times and numbers behind them are read where they are, in exact figures; under noise a
/// person with all of their records is one unit, at as many times the noise.
#[test]
fn every_kind_of_column_can_be_asked_about() {
    let place = Place::new("ask-kinds");
    let (mut table, mut ages, mut years, mut months) = (String::new(), 0.0, 0.0, 0.0);
    table.push_str("who,years,age,months,died\n");
    for k in 0..300 {
        let (y, age) = (0.5 + f64::from(k % 9), f64::from(20 + k * 7 % 60));
        let (month, died) = (f64::from(1 + k % 11), ["no", "yes"][usize::from(k % 4 == 0)]);
        writeln!(table, "p{},{y},{age},{month},{died}", k / 3).unwrap();
        (ages, years, months) = (ages + age, years + y, months + month);
    }
    let column = |name: &str, rest: &str| format!("[[column]]\nname = \"{name}\"\nkind = {rest}\n");
    let schema = |who: &str| {
        let all = [
            column("who", who),
            column("years", "\"exposure\"\nmin = 0.1\nmax = 20"),
            column("age", "\"numeric\"\nmin = 0\nmax = 100"),
            column("months", "\"time\"\nmax = 12"),
            column("died", "\"label\"\nclasses = [\"no\", \"yes\"]"),
        ];
        format!("reviewed = true\n{}", all.concat())
    };
    place.write("site-0.csv", &table).write("site-1.csv", &table);
    place.write("schema.toml", &schema("\"ignored\""));
    place.write("study.toml", STUDY.split("[privacy]").next().unwrap());
    let questions = ["mean age", "mean years", "mean months", "share died", "survival months died"];
    let exact = asked(&place, &questions);
    let first = |k: usize| exact["queries"][k]["answers"][0]["estimate"].as_f64().unwrap();
    for (k, sum) in [ages, years, months].into_iter().enumerate() {
        assert!((first(k) - sum / 300.0).abs() < 1e-6, "{k}: {} {}", first(k), sum / 300.0);
    }
    assert!((first(3) - 0.75).abs() < 1e-9);
    place.write("study.toml", STUDY);
    let noise = |of: &Value| of["queries"][0]["answers"][0]["noise"].as_f64().unwrap();
    let record = asked(&place, &["mean age"]);
    place.write("schema.toml", &schema("\"person\"\nrecords = 3"));
    let person = asked(&place, &["mean age"]);
    assert!((noise(&person) / noise(&record) - 3.0).abs() < 1e-3, "{person} {record}");
    assert_eq!(person["records_per_person"], 3);
}
