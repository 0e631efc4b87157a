//! `consenso benchmark`.

use crate::Place;
use serde_json::{Value, json};

/// A board of a few milliseconds: two problems, two graphs, two budgets, and a method that does not
/// go with every graph.
const BOARD: &str = r#"name = "small"
about = "A small board."
seeds = 2
epsilon = ["none", 2]
delta = 1e-4

[[problem]]
name = "binary"
about = "made-up records"
measure = "log-loss"
data = { source = "logistic", agents = 5, records_per_agent = 60, dim = 3 }
objective = { loss = "logistic", regularization = 0.01 }

[[problem]]
name = "numbers"
about = "made-up numbers"
measure = "r2"
graphs = ["complete"]
data = { source = "ridge", agents = 5, records_per_agent = 60, dim = 3 }
objective = { loss = "ridge", regularization = 0.01, clip = 1.0 }

[[graph]]
kind = "ring"

[[graph]]
kind = "complete"

[[method]]
name = "DGD"
kind = "dgd"
rounds = 5

[[method]]
name = "Slow DGD"
kind = "dgd"
rounds = 2
step = 1e-3

[[method]]
name = "Algorithm 2"
kind = "gd"
rounds = 5
"#;

fn of<'a>(
    value: &'a Value,
    problem: &str,
    graph: &str,
    epsilon: &Value,
    method: &str,
) -> &'a Value {
    let rows = value["results"].as_array().unwrap();
    rows.iter()
        .find(|r| {
            r["problem"] == problem
                && r["graph"] == graph
                && r["epsilon"] == *epsilon
                && r["method"] == method
        })
        .unwrap_or_else(|| panic!("{problem} {graph} {epsilon} {method}: {value}"))
}

#[test]
fn a_board_is_run_shown_resumed_and_added_to() {
    let place = Place::new("benchmark");
    place.write("board.toml", BOARD);
    let run = ["benchmark", "run", "board.toml", "--out", "out", "--json"];
    let first = place.consenso(&run).json();
    assert_eq!(first["experiments"], json!({ "done": 12, "asked": 12 }));
    // Certified, within its budget, and beside every private result.
    let private = of(&first, "binary", "ring", &json!(2.0), "DGD");
    let certified = private["certified"]["epsilon"].as_f64().unwrap();
    assert!(certified > 1.0 && certified <= 2.0, "{private}");
    assert_eq!(private["values"].as_array().unwrap().len(), 2);
    let plain = of(&first, "binary", "ring", &Value::Null, "DGD");
    assert_eq!(plain["certified"], Value::Null);
    // 5 rounds over 2·5 links, 3 numbers of 8 bytes each; every agent sends two messages in a round,
    // at 100 Mbit/s after 20 ms.
    assert_eq!(plain["messages"], json!(50.0));
    assert_eq!(plain["bytes"], json!(f64::from(5 * 10 * 3 * 8)));
    let seconds = plain["network_seconds"].as_f64().unwrap();
    assert!((seconds - 5.0 * (0.02 + 48.0 / 12.5e6)).abs() < 1e-12, "{seconds}");
    // What does not go together has a reason and no figure.
    let refused = of(&first, "binary", "ring", &json!(2.0), "Algorithm 2");
    assert!(refused["refused"].as_str().unwrap().contains("complete"), "{refused}");
    assert_eq!(refused["mean"], Value::Null);
    let ranks = &first["ranks"][0];
    assert_eq!(ranks["private"], true);
    assert_eq!(ranks["left_out"], json!(["Algorithm 2"]));
    assert_eq!(ranks["methods"][0]["method"], "DGD");

    // Again: nothing is made anew, and nothing changes.
    let again = place.consenso(&run);
    assert!(again.stderr.contains("0 experiments"), "{}", again.stderr);
    assert_eq!(again.json(), first);
    // One cell that is damaged is made again, the same.
    let cell = "out/cells/binary/ring/plain/epsilon-2/seed-1.json";
    let whole = place.read(cell);
    place.write(cell, &whole[..whole.len() / 2]);
    let mended = place.consenso(&run);
    assert!(mended.stderr.contains("1 experiments"), "{}", mended.stderr);
    let seconds = |text: &str| -> Value {
        let mut unit: Value = serde_json::from_str(text).unwrap();
        for cell in unit["cells"].as_array_mut().unwrap() {
            if let Some(outcome) = cell["outcome"].as_object_mut() {
                outcome.remove("seconds");
            }
        }
        unit
    };
    assert_eq!(seconds(&place.read(cell)), seconds(&whole));

    let page = place.read("out/index.html");
    for part in ["Mean ranks under a budget", "certified ε", "critical difference", "DGD"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("http://") || page.contains("http://www.w3.org"), "offline");
    let lines = place.read("out/results.csv").lines().count();
    // 6 settings, 3 methods, 2 seeds; what is refused has one line.
    assert_eq!(lines, 1 + 6 * 2 * 2 + 4 * 2 + 2);
    assert!(place.read("out/tables.tex").contains("\\toprule"));

    // Somebody else's results.
    let mut claimed = json!({
        "format": "consenso-board-result-1", "board": "small", "method": "Mine <b>",
        "results": [{ "problem": "binary", "graph": "ring", "condition": "plain", "epsilon": 2.0,
                      "delta": 1e-4, "seed": 1, "measure": "log-loss", "value": 0.3 }],
    });
    place.write("mine.json", &claimed.to_string());
    let added = place.consenso(&["benchmark", "add", "mine.json", "out", "--json"]).json();
    let mine = of(&added, "binary", "ring", &json!(2.0), "Mine <b>");
    assert_eq!((&mine["claimed"], &mine["certified"]), (&json!(true), &Value::Null));
    let page = place.read("out/index.html");
    assert!(page.contains("claimed, not certified") && page.contains("Mine &lt;b&gt;"));
    assert!(!page.contains("Mine <b>"));
    for (key, value, says) in [
        ("value", json!("much"), "results.0.value: it must be a number"),
        ("delta", Value::Null, "results.0.delta: a private result needs its δ"),
        ("epsilon", json!(7.0), "results.0.epsilon: the board has no such budget"),
        ("measure", json!("auc"), "results.0.measure: binary is judged by log_loss"),
        ("colour", json!("red"), "results.0.colour: there is no such key"),
        ("seed", json!(9), "results.0.seed: the board has no such seed"),
    ] {
        let mut wrong = claimed.clone();
        wrong["results"][0][key] = value;
        place.write("wrong.json", &wrong.to_string());
        place.consenso(&["benchmark", "add", "wrong.json", "out"]).refused(&["wrong.json", says]);
    }
    claimed["method"] = json!("DGD");
    place.write("wrong.json", &claimed.to_string());
    place
        .consenso(&["benchmark", "add", "wrong.json", "out"])
        .refused(&["method: \"DGD\" is one of the board's own"]);
}

#[test]
fn shares_of_a_board_make_the_same_board() {
    let place = Place::new("benchmark-shares");
    place.write("board.toml", BOARD);
    let whole =
        place.consenso(&["benchmark", "run", "board.toml", "--out", "whole", "--json"]).json();
    for share in ["1/2", "2/2"] {
        let words = ["benchmark", "run", "board.toml", "--out", "shared", "--shard", share];
        assert_eq!(place.consenso(&words).code, 0);
    }
    let shared = place.consenso(&["benchmark", "show", "shared", "--json"]).json();
    assert_eq!(shared["ranks"], whole["ranks"]);
    assert_eq!(shared["experiments"], json!({ "done": 12, "asked": 12 }));
}

#[test]
fn methods_are_tuned_within_a_budget_of_trials() {
    let place = Place::new("benchmark-tuned");
    let board = BOARD
        .replace("delta = 1e-4\n", "delta = 1e-4\ntuning = { trials = 3 }\n")
        .replace("step = 1e-3\n", "step = 1e-3\ngrid = { step = [1e-4, 1e-2, 0.2] }\n");
    place.write("board.toml", &board);
    let value =
        place.consenso(&["benchmark", "run", "board.toml", "--out", "out", "--json"]).json();
    assert_eq!(value["tuning"]["trials"], 3);
    // Two of three points of the grid beside the default; the larger step learns more.
    let slow = of(&value, "binary", "ring", &Value::Null, "Slow DGD");
    assert_eq!(slow["tuned"]["step"], json!(0.2), "{slow}");
    assert!(place.read("out/index.html").contains("same budget of 3 trials per setting"));
}

/// Messages that are compressed, lost or not sent at all count for what they are.
#[test]
fn what_was_sent_is_counted_under_every_condition() {
    let place = Place::new("benchmark-sent");
    let conditions = "\n[[condition]]\nname = \"plain\"\n\n[[condition]]\nname = \"slow\"\nlatency_ms = 100\n\n\
                      [[condition]]\nname = \"one edge\"\nlinks = \"one-edge\"\n\n\
                      [[condition]]\nname = \"signs\"\ncompression = { kind = \"sign\" }\n";
    let choco =
        "\n[[method]]\nname = \"CHOCO\"\nkind = \"choco\"\nrounds = 5\ncompression = \"sign\"\n";
    let board = BOARD
        .replace("epsilon = [\"none\", 2]", "epsilon = [\"none\"]")
        .replace("delta = 1e-4\n", "delta = 1e-4\nlink = { latency_ms = 10 }\n");
    let board = board + conditions + choco;
    place.write("board.toml", &board);
    let value =
        place.consenso(&["benchmark", "run", "board.toml", "--out", "out", "--json"]).json();
    let sent = |condition: &str, method: &str| {
        let rows = value["results"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|r| r["graph"] == "ring" && r["condition"] == condition && r["method"] == method);
        let row = row.unwrap_or_else(|| panic!("{condition} {method}: {value}"));
        ["messages", "bytes", "network_seconds"].map(|key| row[key].as_f64().unwrap())
    };
    let seconds = |latency: f64, bytes: f64| 5.0 * (latency + bytes / 12.5e6);
    let near = |found: [f64; 3], wanted: [f64; 3]| {
        assert!((found[2] - wanted[2]).abs() < 1e-12, "{found:?}, not {wanted:?}");
        assert_eq!(found[..2], wanted[..2]);
    };
    near(sent("plain", "DGD"), [50.0, 50.0 * 24.0, seconds(0.01, 48.0)]);
    near(sent("slow", "DGD"), [50.0, 50.0 * 24.0, seconds(0.1, 48.0)]);
    // One edge a round, both ways.
    near(sent("one edge", "DGD"), [10.0, 10.0 * 24.0, seconds(0.01, 24.0)]);
    // Three signs in a byte, and a size.
    near(sent("signs", "DGD"), [50.0, 50.0 * 9.0, seconds(0.01, 18.0)]);
    near(sent("plain", "CHOCO"), [50.0, 50.0 * 9.0, seconds(0.01, 18.0)]);
    let lines = place.read("out/results.csv");
    assert!(lines.lines().next().unwrap().contains(",rounds,messages,bytes,network_seconds,"));
}

/// A rehearsal finds what a run would refuse, and leaves no trace.
#[test]
fn a_board_can_be_checked_before_it_is_run() {
    let place = Place::new("benchmark-dry");
    place.write("board.toml", BOARD);
    let dry = ["benchmark", "run", "board.toml", "--out", "out", "--dry-run"];
    let found = place.consenso(&[&dry[..], &["--json"]].concat()).json();
    assert_eq!((&found["settings"], &found["experiments"]), (&json!(6), &json!(12)));
    let refused = found["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 1, "{found}");
    assert_eq!(refused[0]["method"], "Algorithm 2");
    assert!(refused[0]["reason"].as_str().unwrap().contains("complete"), "{found}");
    assert_eq!(
        refused[0]["settings"],
        json!(["binary, ring, plain, none", "binary, ring, plain, 2"])
    );
    let words = place.consenso(&dry).stdout;
    for part in ["Algorithm 2, 2 settings: ", "12 experiments would be made"] {
        assert!(words.contains(part), "{part}: {words}");
    }
    // Settings it is asked for, and those that it goes with.
    let row = words.lines().find(|line| line.starts_with("Algorithm 2  ")).unwrap();
    assert_eq!(row.split_whitespace().skip(2).collect::<Vec<_>>(), ["6", "4"], "{words}");
    assert!(!place.path("out").exists(), "nothing is written");
}

#[test]
fn a_wrong_board_says_where() {
    let place = Place::new("benchmark-wrong");
    let wrong = |text: &str, says: &[&str]| {
        place.write("board.toml", text);
        place.consenso(&["benchmark", "run", "board.toml", "--out", "out"]).refused(says);
    };
    wrong(&BOARD.replace("seeds = 2", "sedes = 2"), &["board.toml:3", "sedes"]);
    wrong(
        &BOARD.replace("measure = \"log-loss\"", "measure = \"area\""),
        &["problem.0.measure", "auc"],
    );
    wrong(&BOARD.replace("graphs = [\"complete\"]", "graphs = [\"star\"]"), &["problem.1.graphs"]);
    wrong(&BOARD.replace("kind = \"gd\"\n", ""), &["method.2.kind"]);
    wrong(&BOARD.replace("[\"none\", 2]", "[-2]"), &["epsilon", "positive"]);
    place.consenso(&["benchmark", "run", "quik"]).refused(&["quick, full, anchors"]);
    place.consenso(&["benchmark", "show", "nothing"]).refused(&["no folder of a board"]);
}

#[test]
fn the_records_of_a_board_can_be_had() {
    let place = Place::new("benchmark-export");
    place.write("board.toml", BOARD);
    let answer = place.consenso(&["benchmark", "export", "board.toml", "tasks", "--json"]).json();
    assert_eq!(answer["tasks"], 12);
    let list: Value = serde_json::from_str(&place.read("tasks/tasks.json")).unwrap();
    let file = format!("tasks/{}", list["tasks"][0]["file"].as_str().unwrap());
    let data: Value = serde_json::from_str(&place.read(&file)).unwrap();
    assert_eq!(data["sites"].as_array().unwrap().len(), 5);
    assert_eq!(data["sites"][0]["x"].as_array().unwrap().len(), 60);
    assert_eq!(data["edges"]["ring"].as_array().unwrap().len(), 5);
    assert_eq!(data["edges"]["complete"].as_array().unwrap().len(), 10);
    assert!(!data["test"]["y"].as_array().unwrap().is_empty());
}
