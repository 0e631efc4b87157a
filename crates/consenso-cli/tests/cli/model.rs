//! Model files, `consenso predict` and `consenso model`.

use super::{Answer, Place};
use serde_json::Value;
use std::process::Command;

const SCHEMA: &str = r#"reviewed = true
[[column]]
name = "age"
kind = "numeric"
min = 0
max = 100
[[column]]
name = "ward"
kind = "categorical"
categories = ["a", "b", "c"]
[[column]]
name = "ill"
kind = "label"
classes = ["no", "yes"]
"#;

/// `rows` records; the older, and those of ward b, are ill more often: from a score of `ill_above`
/// on.
fn records(rows: u32, shift: u32, ill_above: u32) -> String {
    let mut text = "age,ward,ill\n".to_owned();
    for i in 0..rows {
        let age = (i * 37 + shift * 11) % 91 + 5;
        let ward = ["a", "b", "c"][((i + shift) % 3) as usize];
        let ill = age + if ward == "b" { 25 } else { 0 } + (i * 7 + shift) % 23 > ill_above;
        text += &format!("{age},{ward},{}\n", if ill { "yes" } else { "no" });
    }
    text
}

fn study(place: &Place, more: &str) -> Answer {
    study_of(place, more, 75)
}

fn study_of(place: &Place, more: &str, ill_above: u32) -> Answer {
    std::fs::create_dir_all(place.path("sites")).unwrap();
    for site in 0..3 {
        place.write(&format!("sites/{site}.csv"), &records(80, site, ill_above));
    }
    let experiment = format!(
        "name = \"study\"\nruns = 1\n[data]\npath = \"sites/*.csv\"\nschema = \"schema.toml\"\ntest = \"test.csv\"\n[objective]\nregularization = 1e-4\n\
         [graph]\nkind = \"complete\"\n[[algorithm]]\nkind = \"dgd\"\nrounds = 150\nstep = 2.0\n{more}"
    );
    place
        .write("schema.toml", SCHEMA)
        .write("test.csv", &records(70, 9, ill_above))
        .write("study.toml", &experiment);
    place.consenso(&["run", "study.toml", "--out", "run", "--json"])
}

#[test]
fn predict_gives_the_figures_of_the_run_exactly() {
    let place = Place::new("model-predict");
    let run = study(&place, "").json();
    let dgd = &run["algorithms"][0];
    assert_eq!(dgd["model"], "run/models/dgd.json");
    for key in ["accuracy", "balanced_accuracy", "auc", "f1", "log_loss"] {
        assert!(
            dgd["metrics"][key].as_f64().is_some_and(|v| (0.0..=1.0).contains(&v)),
            "{key}: {dgd}"
        );
    }
    assert!(dgd["metrics"]["accuracy"].as_f64() > run["baselines"]["majority_accuracy"].as_f64());
    let reference = &run["baselines"]["reference"];
    assert!(
        reference["auc"].as_f64().unwrap() > 0.9
            && reference["regularization"].as_f64().unwrap() > 0.0
    );
    for model in ["run", "run/models/dgd.json"] {
        let answer = place.consenso(&["predict", model, "test.csv", "--json"]).json();
        assert_eq!(answer["metrics"], dgd["metrics"]);
        assert_eq!(answer["rows"].as_array().unwrap().len(), 70);
    }
    let model: Value = serde_json::from_str(&place.read("run/models/dgd.json")).unwrap();
    assert_eq!(model["metrics"], dgd["metrics"]);
    assert_eq!((&model["positive"], &model["intercept"]), (&"yes".into(), &"bias".into()));
    assert_eq!(model["study"]["sha256"].as_str().unwrap().len(), 64);
    let npz = std::fs::read(place.path("run/models/dgd.npz")).unwrap();
    assert_eq!(&npz[..4], b"PK\x03\x04");
}

/// Counts by age, from 0 to 9.
fn counts(rows: u32, shift: u32) -> String {
    let mut text = "age,visits\n".to_owned();
    for i in 0..rows {
        let age = (i * 37 + shift * 11) % 91 + 5;
        text += &format!("{age},{}\n", (age / 25 + (i * 7 + shift) % 4) % 10);
    }
    text
}

/// The smallest count that a Poisson law of this mean reaches with probability `p`.
fn poisson_quantile(mean: f64, p: f64) -> f64 {
    let (mut y, mut one, mut below) = (0.0, (-mean).exp(), (-mean).exp());
    while below < p {
        y += 1.0;
        one *= mean / y;
        below += one;
    }
    y
}

#[test]
fn counts_are_predicted_with_their_intervals() {
    let place = Place::new("model-intervals");
    std::fs::create_dir_all(place.path("sites")).unwrap();
    for site in 0..3 {
        place.write(&format!("sites/{site}.csv"), &counts(200, site));
    }
    let schema = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
        [[column]]\nname = \"visits\"\nkind = \"label\"\nmin = 0\nmax = 20\n";
    let study = |inference: &str| {
        format!(
            "name = \"study\"\nruns = 1\n[data]\npath = \"sites/*.csv\"\nschema = \"schema.toml\"\nencoding = \"scouted\"\n\
             [objective]\nloss = \"poisson\"\n[graph]\nkind = \"complete\"\n{inference}[[algorithm]]\nkind = \"dgd\"\n"
        )
    };
    place
        .write("schema.toml", schema)
        .write("plain.toml", &study(""))
        .write("errors.toml", &study("[inference]\nlevel = 0.95\n"))
        .write("new.csv", "age,visits\n10,0\n,3\n95,4\n55,20\n");
    place.consenso(&["run", "plain.toml", "--out", "plain", "--json"]).json();
    place.consenso(&["run", "errors.toml", "--out", "errors", "--json"]).json();
    // Without noise and standard errors all that varies is the count itself.
    let said = place.consenso(&["predict", "plain", "new.csv", "--interval", "0.9", "--json"]);
    let said = said.json();
    for row in [0, 2, 3] {
        let row = &said["rows"][row];
        let mean = row["prediction"].as_f64().unwrap();
        assert_eq!(row["low"], poisson_quantile(mean, 0.05), "{row}");
        assert_eq!(row["high"], poisson_quantile(mean, 0.95), "{row}");
    }
    assert!(said["rows"][1]["prediction"].is_null() && said["rows"][1].get("low").is_none());
    assert_eq!(said["interval"]["level"], 0.9);
    assert!((said["interval"]["covered"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-12, "{said}");
    let text = place.consenso(&["predict", "errors", "new.csv", "--interval", "0.9"]);
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert_eq!((lines[0], lines[2]), ("row,prediction,low,high", "2,,,"), "{}", text.stderr);
    assert!(text.stderr.contains("66.7 % of the labels lie within"), "{}", text.stderr);
    for (arguments, word) in [
        (&["predict", "plain", "new.csv", "--interval", "1.5"][..], "0.9"),
        (&["predict", "plain", "new.csv", "--interval", "0.9", "--agent", "0"], "shared model"),
    ] {
        let said = place.consenso(arguments);
        assert!(said.code == 2 && said.stderr.contains(word), "{}", said.stderr);
    }
}

#[test]
fn records_without_labels_or_with_gaps_are_predicted() {
    let place = Place::new("model-unlabelled");
    study(&place, "").json();
    place.write("new.csv", "ward,name,age\nb,X,80\n?,Y,50\na,Z,20\n");
    let answer = place.consenso(&["predict", "run", "new.csv", "--json"]).json();
    assert!(answer["metrics"].is_null());
    let rows = answer["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["prediction"], &rows[2]["prediction"]), (&"yes".into(), &"no".into()));
    assert!(rows[1]["prediction"].is_null() && answer["skipped"] == 1);
    let text = place.consenso(&["predict", "run", "new.csv", "--proba", "--out", "out.csv"]);
    assert_eq!((text.code, text.stdout.as_str()), (0, ""), "{}", text.stderr);
    let lines: Vec<String> = place.read("out.csv").lines().map(str::to_owned).collect();
    assert_eq!((lines[0].as_str(), lines[2].as_str()), ("row,prediction,probability", "2,,"));
    assert!(lines[1].starts_with("1,yes,0."));
    // A threshold above every probability answers no for all.
    let careful =
        place.consenso(&["predict", "run", "test.csv", "--threshold", "0.999999", "--json"]).json();
    assert!(careful["rows"].as_array().unwrap().iter().all(|r| r["prediction"] == "no"));
    assert_eq!(careful["metrics"]["recall"], 0.0);
}

#[test]
fn mistakes_are_answered() {
    let place = Place::new("model-mistakes");
    study(&place, "").json();
    place.write("other.csv", "age,ill\n40,no\n").write("no.json", "{}");
    place.consenso(&["predict", "run", "other.csv"]).refused(&["other.csv", "ward"]);
    place.consenso(&["predict", "no.json", "test.csv"]).refused(&["no.json", "not a model file"]);
    place
        .consenso(&["predict", "sites", "test.csv"])
        .refused(&["sites", "neither the folder of a run"]);
    place.consenso(&["predict", "run", "test.csv", "--threshold", "2"]).refused(&["--threshold"]);
    place
        .consenso(&["predict", "run", "test.csv", "--algorithm", "x"])
        .refused(&["no algorithm", "dgd"]);
}

/// The contract of `[inference]`: estimate, standard error, interval and p-value of every
/// coefficient in `run` and `model show`, and tables for papers.
#[test]
fn coefficients_come_with_intervals() {
    let place = Place::new("model-inference");
    std::fs::create_dir_all(place.path("sites")).unwrap();
    for site in 0..3 {
        // Ill or not beyond what the columns explain, so that there is a likelihood to maximise.
        let records = records(200, site, 75);
        let (header, rows) = records.split_once('\n').unwrap();
        let turned = rows.lines().enumerate().map(|(i, row)| match i % 5 {
            0 if row.ends_with("yes") => row.replace("yes", "no"),
            0 => row.replace("no", "yes"),
            _ => row.to_owned(),
        });
        let rows: Vec<String> = turned.collect();
        place.write(&format!("sites/{site}.csv"), &format!("{header}\n{}\n", rows.join("\n")));
    }
    place.write("schema.toml", SCHEMA).write(
        "study.toml",
        "name = \"study\"\nruns = 1\n[data]\npath = \"sites/*.csv\"\nschema = \"schema.toml\"\n[graph]\nkind = \"complete\"\n\
         [inference]\nlevel = 0.9\n[[algorithm]]\nkind = \"dgd\"\n",
    );
    let run = place.consenso(&["run", "study.toml", "--out", "run", "--json"]).json();
    let found = &run["algorithms"][0]["inference"];
    assert_eq!(found["level"], 0.9);
    let shown = place.consenso(&["model", "show", "run", "--json"]).json();
    for name in ["age", "ward=b"] {
        let of = |list: &Value| {
            list.as_array().unwrap().iter().find(|c| c["feature"] == name).unwrap().clone()
        };
        let (one, other) = (of(&found["coefficients"]), of(&shown["coefficients"]));
        for key in ["estimate", "std_error", "low", "high", "p"] {
            assert!(one[key].is_f64() && one[key] == other[key], "{name} {key}: {one} {other}");
        }
        assert!(one["low"].as_f64() < one["estimate"].as_f64());
    }
    let text = place.consenso(&["model", "show", "run"]).stdout;
    assert!(text.contains("90 % interval") && text.contains("ward: Wald"), "{text}");
    let latex = place.consenso(&["model", "show", "run", "--format", "latex"]).stdout;
    assert!(latex.starts_with("\\begin{tabular}"), "{latex}");
}

#[test]
fn a_model_is_shown_and_compared() {
    let place = Place::new("model-show");
    study(&place, "\n[[algorithm]]\nkind = \"dgd\"\nlabel = \"short\"\nrounds = 3\n").json();
    let shown = place.consenso(&["model", "show", "run"]);
    for part in
        ["predicts ill: “yes” (positive) against “no”", "bias (intercept)", "ward=b", "odds ratio"]
    {
        assert!(shown.stdout.contains(part), "{part}: {}", shown.stdout);
    }
    let json = place.consenso(&["model", "show", "run", "--algorithm", "short", "--json"]).json();
    assert_eq!(
        (&json["study"]["label"], json["coefficients"].as_array().unwrap().len()),
        (&"short".into(), 5)
    );
    let weight = |c: &Value| c["weight"].as_f64().unwrap().abs();
    let all = json["coefficients"].as_array().unwrap();
    assert!(all.windows(2).all(|w| weight(&w[0]) >= weight(&w[1])), "largest first");
    let age = all.iter().find(|c| c["feature"] == "age").unwrap();
    assert!(
        (age["per_unit"].as_f64().unwrap() - age["weight"].as_f64().unwrap() / 100.0).abs() < 1e-15
    );
    let pair = ["run/models/dgd.json", "run/models/short.json"];
    let compared = place.consenso(&["model", "compare", pair[0], pair[1], "--json"]).json();
    assert!(compared["distance"].as_f64().unwrap() > 0.1 && compared["same_encoding"] == true);
    let same = place.consenso(&["model", "compare", pair[0], pair[0], "--json"]).json();
    assert_eq!(
        (&same["distance"], same["differences"][0]["difference"].as_f64()),
        (&0.0.into(), Some(0.0))
    );
}

#[test]
fn variables_of_a_problem_with_costs_are_kept_by_name() {
    let place = Place::new("model-costs");
    let run =
        place.consenso(&["run", "dispatch-14", "--set", "runs=1", "--out", "run", "--json"]).json();
    let file = run["algorithms"][0]["model"].as_str().unwrap();
    let model: Value = serde_json::from_str(&place.read(file)).unwrap();
    let agents = model["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 5);
    assert!(
        agents.iter().all(|a| a["weights"].as_array().unwrap().len() == 1 && a["name"].is_string())
    );
    assert!(
        place
            .consenso(&["model", "show", "run"])
            .stdout
            .contains(agents[0]["name"].as_str().unwrap())
    );
    place.write("x.csv", "a\n1\n");
    place.consenso(&["predict", "run", "x.csv"]).refused(&["nothing to predict"]);
}

#[test]
fn a_model_that_learned_nothing_says_so() {
    let place = Place::new("model-nothing");
    // One in fourteen is ill: a few short steps know that much and no more.
    let run = study_of(&place, "tail = 0.0\n", 112).json();
    assert!(run["algorithms"][0]["findings"].is_array());
    let answer =
        place.consenso(&["run", "study.toml", "--out", "lazy", "--set", "algorithm.rounds=2"]);
    // Whether it also ranks records is chance after so few steps.
    assert!(answer.stdout.contains("answers “no” for all"), "{}", answer.stdout);
}

/// One in nine is ill: balanced classes find them, at a price in accuracy, and every way to the
/// shares is public or charged.
#[test]
fn rare_classes_can_count_as_much_as_common_ones() {
    let place = Place::new("model-balanced");
    let plain = study_of(&place, "", 108).json();
    let run = |more: &[&str]| {
        let mut arguments = vec!["run", "study.toml", "--out", "again", "--json"];
        arguments.extend(more.iter().flat_map(|key| ["--set", key]));
        let _ = std::fs::remove_dir_all(place.path("again"));
        place.consenso(&arguments)
    };
    let balanced = "objective.class_weight=balanced";
    let declared = SCHEMA
        .replace("classes = [\"no\", \"yes\"]", "classes = [\"no\", \"yes\"]\nprevalence = 0.11");
    run(&[balanced]).refused(&["study.toml", "class_weight", "prevalence", "scouted"]);
    run(&["objective.threshold=prevalence"]).refused(&["threshold", "prevalence ="]);
    run(&["objective.threshold=1.5"]).refused(&["threshold", "between 0 and 1"]);
    run(&["objective.class_weight=[1.0, -2.0]"]).refused(&["class_weight"]);
    let recall = |run: &Value| run["algorithms"][0]["metrics"]["recall"].as_f64().unwrap();
    let scouted =
        run(&[balanced, "data.encoding=scouted", "algorithm.step=", "algorithm.rounds="]).json();
    assert!(recall(&scouted) > 0.75, "{scouted}");
    place.write("schema.toml", &declared);
    let found = run(&[balanced]).json();
    assert!(recall(&found) > recall(&plain) + 0.2, "{} {}", recall(&found), recall(&plain));
    let by_hand = run(&["objective.class_weight=[0.5617977528089888, 4.545454545454546]"]).json();
    assert_eq!(by_hand["algorithms"][0]["metrics"], found["algorithms"][0]["metrics"]);
    let record: Value = serde_json::from_str(&place.read("again/record.json")).unwrap();
    assert_eq!(record["problem"]["loss"], "logistic (classes weighted 0.562 and 4.545)");
    // A threshold is in the metrics, in the model, and in what predict answers by default.
    let moved = run(&["objective.threshold=prevalence"]).json();
    let metrics = &moved["algorithms"][0]["metrics"];
    assert_eq!(metrics["threshold"], 0.11);
    assert!(recall(&moved) > recall(&plain) + 0.2);
    assert_eq!(
        place.consenso(&["predict", "again", "test.csv", "--json"]).json()["metrics"],
        *metrics
    );
    let half =
        place.consenso(&["predict", "again", "test.csv", "--threshold", "0.5", "--json"]).json();
    assert_eq!(half["metrics"], plain["algorithms"][0]["metrics"]);
}

/// Labels of every kind, columns scaled by their ranges or scouted, with noise and without: predict
/// has the figures of the run to the last bit, and so have Python's ten lines but for rounding.
#[test]
fn every_kind_of_model_is_applied_as_it_was_judged() {
    let place = Place::new("model-kinds");
    let label = |age: u32, ward: usize, i: u32| age + [0, 25, 10][ward] + (i * 7) % 23;
    let records = |rows: u32, shift: u32, task: &str| {
        let mut text = "age,ward,ill\n".to_owned();
        for i in 0..rows {
            let (age, ward) = ((i * 37 + shift * 11) % 91 + 5, ((i + shift) % 3) as usize);
            let score = label(age, ward, i);
            let y = match task {
                "softmax" => {
                    ["low", "mid", "high"][(score > 50) as usize + (score > 80) as usize].to_owned()
                }
                "ridge" => f64::from(score).to_string(),
                _ => if score > 75 { "yes" } else { "no" }.to_owned(),
            };
            text += &format!("{age},{},{y}\n", ["a", "b", "c"][ward]);
        }
        text
    };
    for (task, classes, more) in [
        ("logistic", "classes = [\"no\", \"yes\"]", ""),
        ("softmax", "classes = [\"low\", \"mid\", \"high\"]", ""),
        ("ridge", "min = 0\nmax = 150", "clip = 50.0"),
    ] {
        place.write("schema.toml", &SCHEMA.replace("classes = [\"no\", \"yes\"]", classes));
        place.write("train.csv", &records(400, 1, task)).write("test.csv", &records(90, 4, task));
        for (encoding, privacy) in [
            ("one-hot", ""),
            ("scouted", ""),
            ("scouted", "[privacy]\nepsilon = 20.0\ndelta = 1e-4"),
        ] {
            let experiment = format!(
                "name = \"study\"\nruns = 1\n[data]\npath = \"train.csv\"\nschema = \"schema.toml\"\ntest = \"test.csv\"\nagents = 3\nencoding = \"{encoding}\"\n\
                 [objective]\nloss = \"{task}\"\n{more}\n[graph]\nkind = \"complete\"\n{privacy}\n[[algorithm]]\nkind = \"dgd\"\n"
            );
            let _ = std::fs::remove_dir_all(place.path("run"));
            place.write("study.toml", &experiment);
            let run = place.consenso(&["run", "study.toml", "--out", "run", "--json"]).json();
            let name = format!("{task}, {encoding}, {privacy}");
            let predicted = place.consenso(&["predict", "run", "test.csv", "--json"]).json();
            assert_eq!(predicted["metrics"], run["algorithms"][0]["metrics"], "{name}");
            let Some(theirs) = python(&place) else { continue };
            let ours = predicted["rows"].as_array().unwrap();
            assert_eq!(ours.len(), theirs.len(), "{name}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                let ours: Vec<f64> = match &ours["probabilities"] {
                    Value::Array(all) => all.iter().map(|p| p.as_f64().unwrap()).collect(),
                    _ => {
                        vec![ours["probability"].as_f64().or(ours["prediction"].as_f64()).unwrap()]
                    }
                };
                assert_eq!(ours.len(), theirs.len());
                let close = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-10 * (1.0 + a.abs());
                assert!(ours.iter().zip(&theirs).all(close), "{name}: {ours:?} {theirs:?}");
            }
        }
    }
}

/// What `docs/apply_model.py` prints for the test records, a line each; `None` without Python.
fn python(place: &Place) -> Option<Vec<Vec<f64>>> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/apply_model.py");
    let mut command = Command::new("python3");
    command.args([script, "run/models/dgd.json", "test.csv"]).current_dir(place.path("."));
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let numbers = |line: &str| line.split(' ').map(|n| n.parse().unwrap()).collect();
    Some(lines.lines().map(numbers).collect())
}

/// What onnxruntime makes of the exported model, where CONSENSO_ONNX_PYTHON names a Python that has
/// it.
#[test]
fn onnxruntime_gives_the_same_answers() {
    let Ok(python) = std::env::var("CONSENSO_ONNX_PYTHON") else { return };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/apply_onnx.py");
    let place = Place::new("model-onnx");
    study(&place, "").json();
    for encoding in ["one-hot", "scouted", "paper"] {
        let _ = std::fs::remove_dir_all(place.path("run"));
        let _ = std::fs::remove_file(place.path("m.onnx"));
        let set = format!("data.encoding={encoding}");
        let mut arguments = vec!["run", "study.toml", "--out", "run", "--json", "--set", &set];
        if encoding == "scouted" {
            arguments.extend(["--set", "algorithm.step=", "--set", "algorithm.rounds="]);
        }
        place.consenso(&arguments).json();
        place.consenso(&["model", "export", "run", "--out", "m.onnx", "--json"]).json();
        let output = Command::new(&python)
            .args([script, "m.onnx", "test.csv"])
            .current_dir(place.path("."))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let theirs = String::from_utf8(output.stdout).unwrap();
        let ours = place.consenso(&["predict", "run", "test.csv", "--json"]).json();
        let ours = ours["rows"].as_array().unwrap();
        assert_eq!(ours.len(), theirs.lines().count());
        for (ours, theirs) in ours.iter().zip(theirs.lines()) {
            let (ours, theirs) =
                (ours["probability"].as_f64().unwrap(), theirs.parse::<f64>().unwrap());
            assert!((ours - theirs).abs() < 1e-9, "{encoding}: {ours} {theirs}");
        }
    }
}

/// A file for other programs is written once, and names what it cannot hold.
#[test]
fn models_are_exported() {
    let place = Place::new("model-export");
    study(&place, "").json();
    for (format, begins) in
        [("onnx", &b"\x08\x07\x12\x08consenso"[..]), ("npz", b"PK\x03\x04"), ("json", b"{")]
    {
        assert_eq!(
            place.consenso(&["model", "export", "run", "--format", format, "--out", format]).code,
            0
        );
        assert!(std::fs::read(place.path(format)).unwrap().starts_with(begins), "{format}");
    }
    place
        .consenso(&["model", "export", "run", "--out", "onnx"])
        .refused(&["onnx", "nothing is written over"]);
    place
        .consenso(&["model", "export", "run", "--out", "x", "--agent", "nobody"])
        .refused(&["nobody"]);
}

/// What a program of a few lines makes of the file, where there is Python.
#[test]
fn ten_lines_of_python_give_the_same_probabilities() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/apply_model.py");
    let place = Place::new("model-python");
    study(&place, "").json();
    let python = Command::new("python3")
        .args([script, "run/models/dgd.json", "test.csv"])
        .current_dir(place.path("."))
        .output();
    let Ok(python) = python else { return };
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let theirs: Vec<f64> =
        String::from_utf8(python.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect();
    let ours = place.consenso(&["predict", "run", "test.csv", "--json"]).json();
    let ours = ours["rows"].as_array().unwrap();
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert!((ours["probability"].as_f64().unwrap() - theirs).abs() < 1e-12, "{ours} {theirs}");
    }
}
