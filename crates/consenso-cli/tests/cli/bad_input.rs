//! Every bad input: a message with place and fix, exit code 2, nothing written.

use crate::{HOSPITAL, Place, RECORDS, SCHEMA, SMALL};

fn hospital(test: &str, experiment: &str, schema: &str, records: &str) -> Place {
    let place = Place::new(test);
    place
        .write("hospital.toml", experiment)
        .write("schema.toml", schema)
        .write("records.csv", records);
    place
}

#[track_caller]
fn refused(place: &Place, arguments: &[&str], parts: &[&str]) {
    let before = place.listing();
    place.consenso(arguments).refused(parts);
    assert_eq!(before, place.listing(), "something was written");
}

/// The small experiment with one line replaced.
#[track_caller]
fn small_refused(test: &str, line: &str, by: &str, parts: &[&str]) {
    assert!(SMALL.contains(line));
    let place = Place::new(test);
    place.write("small.toml", &SMALL.replacen(line, by, 1));
    refused(&place, &["run", "small.toml"], parts);
}

#[test]
fn missing_files() {
    let place = hospital("missing_files", HOSPITAL, SCHEMA, RECORDS);
    refused(
        &place,
        &["run", "nowhere.toml"],
        &["nowhere.toml: cannot be read", "adult", "No such file"],
    );
    refused(
        &place,
        &["run", "hospital.toml", "--set", "data.path=gone.csv"],
        &["gone.csv: cannot be read"],
    );
    refused(
        &place,
        &["run", "hospital.toml", "--set", "data.path=gone*.csv"],
        &["gone*.csv: no file matches"],
    );
    refused(
        &place,
        &["run", "hospital.toml", "--set", "data.schema=gone.toml"],
        &["gone.toml: cannot be read", "consenso data schema"],
    );
    refused(
        &place,
        &["run", "hospital.toml", "--set", "data.schema="],
        &["records.csv: CSV needs a public schema", "consenso data schema"],
    );
    refused(
        &place,
        &["run", "hospital.toml", "--set", "graph.kind=file", "--set", "graph.path=gone.txt"],
        &["gone.txt: cannot be read"],
    );
}

#[test]
fn empty_files() {
    let place = hospital("empty_files", "", SCHEMA, "");
    refused(
        &place,
        &["run", "hospital.toml"],
        &["hospital.toml: the file is empty", "--print adult"],
    );
    place.write("hospital.toml", HOSPITAL);
    refused(&place, &["run", "hospital.toml"], &["records.csv: holds no record"]);
    place.write("records.csv", "age,ward,ill\n");
    refused(&place, &["run", "hospital.toml"], &["records.csv: holds no record"]);
}

#[test]
fn ragged_row() {
    let place = hospital("ragged_row", HOSPITAL, SCHEMA, &RECORDS.replace("61,a,no", "61,a"));
    refused(&place, &["run", "hospital.toml"], &["records.csv:4: 2 cells where 3 are expected"]);
}

#[test]
fn values_that_are_not_finite() {
    for bad in ["NaN", "inf", "-Infinity", "1e999"] {
        let place = hospital("not_finite", HOSPITAL, SCHEMA, &RECORDS.replace("72", bad));
        refused(
            &place,
            &["run", "hospital.toml"],
            &["records.csv:5: column \"age\"", bad, "not finite"],
        );
    }
}

#[test]
fn unknown_category() {
    let place = hospital("unknown_category", HOSPITAL, SCHEMA, &RECORDS.replace("72,b", "72,c"));
    refused(
        &place,
        &["run", "hospital.toml"],
        &["records.csv:5: column \"ward\" holds \"c\"", "declared categories"],
    );
}

/// The line is that of the key, and the words say what it can be.
#[test]
fn a_wrong_value_is_said_with_its_key() {
    small_refused(
        "value_step",
        "step = 0.5",
        "step = \"fast\"",
        &["small.toml:28: algorithm 2", "step: must be a number, or a table as { geometric"],
    );
    small_refused(
        "value_gossip",
        "rounds = 15",
        "gossip = -3",
        &["small.toml:27: algorithm 2", "gossip: "],
    );
}

#[test]
fn unknown_key_with_a_suggestion() {
    small_refused(
        "key_top",
        "runs = 2",
        "run = 2",
        &["small.toml:3", "unknown field `run`", "did you mean \"runs\"?"],
    );
    small_refused(
        "key_data",
        "agents = 5",
        "agent = 5",
        &["small.toml:7", "did you mean \"agents\"?"],
    );
    small_refused("key_graph", "edges = 6", "edge = 6", &["small.toml", "did you mean \"edges\"?"]);
    small_refused(
        "key_algorithm",
        "penalty",
        "penalti",
        &["small.toml:22", "did you mean \"penalty\"?"],
    );
    small_refused(
        "kind",
        "kind = \"dgd\"",
        "kind = \"dgdd\"",
        &["small.toml:26", "did you mean \"dgd\"?"],
    );
    small_refused(
        "left_out",
        "kind = \"dgd\"",
        "kind = \"dgd\"\nwithout = [\"looks\"]",
        &["without leaves out pieces of the method on scouted columns", "data.encoding"],
    );
    small_refused(
        "no_such_piece",
        "kind = \"dgd\"",
        "kind = \"dgd\"\nwithout = [\"noise\"]",
        &["small.toml:27", "`noise`", "`looks`"],
    );
    small_refused(
        "source",
        "\"logistic\"",
        "\"logistik\"",
        &["small.toml:6", "did you mean \"logistic\"?"],
    );
    small_refused("syntax", "seed = 3", "seed = = 3", &["small.toml:2"]);
}

#[test]
fn one_class_only() {
    let place = hospital("one_class", HOSPITAL, SCHEMA, &RECORDS.replace("yes", "no"));
    refused(
        &place,
        &["run", "hospital.toml"],
        &["records.csv: all 6 records have the label \"no\"", "two classes"],
    );
}

#[test]
fn more_agents_than_records() {
    let place =
        hospital("many_agents", &HOSPITAL.replace("agents = 2", "agents = 20"), SCHEMA, RECORDS);
    refused(
        &place,
        &["run", "hospital.toml"],
        &["hospital.toml:", "20 agents", "there are 6", "use at most 6 agents"],
    );
}

#[test]
fn edges_that_cannot_connect() {
    small_refused(
        "few_edges",
        "edges = 6",
        "edges = 3",
        &["small.toml:15", "between 4 and 10 are possible"],
    );
    small_refused(
        "many_edges",
        "edges = 6",
        "edges = 11",
        &["small.toml:15", "between 4 and 10 are possible"],
    );
}

#[test]
fn rounds_below_one() {
    for bad in ["0", "-5"] {
        let line = format!("rounds = {bad}");
        small_refused(
            "rounds",
            "rounds = 20",
            &line,
            &["small.toml:21", &line, "must be at least 1"],
        );
    }
    small_refused(
        "many_rounds",
        "rounds = 20",
        "rounds = 2000000",
        &["small.toml:21", "at most 1000000"],
    );
    small_refused("many_runs", "runs = 2", "runs = 4000000000", &["small.toml:3", "at most 10000"]);
    small_refused(
        "penalty",
        "penalty = 2.0",
        "penalty = -2.0",
        &["small.toml:22", "penalty must be a positive"],
    );
    small_refused("runs", "runs = 2", "runs = 0", &["small.toml:3", "runs", "must be at least 1"]);
}

#[test]
fn negative_regularization() {
    small_refused(
        "regularization",
        "regularization = 0.01",
        "regularization = -0.01",
        &["small.toml:13", "regularization", "-0.01", "≥ 0"],
    );
}

#[test]
fn keys_of_synthetic_records_beside_a_file() {
    let place = hospital("synthetic_keys", HOSPITAL, SCHEMA, RECORDS);
    for key in ["dim", "nonzeros", "classes", "heterogeneity"] {
        let set = format!("data.{key}=3");
        refused(
            &place,
            &["run", "hospital.toml", "--set", &set],
            &[key, "belongs to synthetic records"],
        );
    }
}

#[test]
fn a_clip_no_logistic_slope_reaches() {
    let place = Place::new("clip");
    for clip in ["0", "-1", "2", "nan"] {
        let set = format!("objective.clip={clip}");
        refused(&place, &["run", "adult", "--set", &set], &["clip", "above 0 and at most 1"]);
    }
}

#[test]
fn unstable_parameters_are_a_warning_that_names_the_rule() {
    let place = Place::new("unstable");
    place.write("small.toml", SMALL);
    let answer = place.consenso(&["run", "small.toml", "--set", "algorithm.0.dual_step=50"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stderr.contains("warning: admm: predicted unstable"), "{}", answer.stderr);
    assert!(answer.stderr.contains("dual_step·λ_max"), "{}", answer.stderr);
}

#[test]
fn a_folder_that_exists() {
    let place = Place::new("exists");
    place.write("small.toml", SMALL);
    std::fs::create_dir(place.path("out")).unwrap();
    refused(
        &place,
        &["run", "small.toml", "--out", "out"],
        &["out: exists already", "another folder with --out"],
    );
    place.write("file", "");
    refused(&place, &["run", "small.toml", "--out", "file"], &["file: exists already"]);
    refused(&place, &["run", "small.toml", "--out", "file/in"], &["file is not a folder"]);
}

#[test]
fn overrides_name_their_key() {
    let place = Place::new("overrides");
    place.write("small.toml", SMALL);
    let set = |change: &str, parts: &[&str]| {
        refused(&place, &["run", "small.toml", "--set", change], parts);
    };
    set("data.agents=many", &["data.agents", "expected"]);
    set("data.agent=3", &["unknown field `agent`", "did you mean \"agents\"?"]);
    set("data.agents=1", &["agents"]);
    set("algorithm.7.rounds=1", &["--set algorithm.7.rounds", "numbered 0 to 1"]);
    set("algorithm.rounds=0", &["algorithm 1", "rounds = 0"]);
    set("agents", &["--set agents", "key=value"]);
    // The line of the file holds another value: it must not be blamed.
    let answer = place.consenso(&["run", "small.toml", "--set", "objective.regularization=-1"]);
    answer.refused(&["small.toml: regularization: -1"]);
}

#[test]
fn arguments_that_make_no_sense() {
    let place = Place::new("arguments");
    refused(&place, &["run", "--threads", "0"], &["--threads"]);
    refused(&place, &["run", "--seed", "x"], &["--seed"]);
    refused(&place, &["runn"], &["run"]);
    refused(&place, &["run", "--print", "adlt"], &["adlt", "adult, paper-2a"]);
    refused(&place, &[], &["Usage"]);
}

#[test]
fn a_disconnected_edge_list_names_a_part() {
    let place = Place::new("disconnected");
    let graph = "kind = \"file\"\npath = \"edges.txt\"";
    place.write("small.toml", &SMALL.replace("kind = \"random\"\nedges = 6", graph));
    place.write("edges.txt", "0 1\n1 2\n3 4\n");
    refused(&place, &["run", "small.toml"], &["edges.txt", "is not connected", "3, 4"]);
    place.write("edges.txt", "0 1\n1 9\n");
    refused(&place, &["run", "small.toml"], &["edges.txt", "line 2", "no agent 9"]);
}

#[test]
fn a_misspelt_file_gets_a_suggestion() {
    let place = Place::new("misspelt");
    place.write("bank.toml", HOSPITAL).write("records.csv", RECORDS);
    place
        .consenso(&["run", "bnak.toml"])
        .refused(&["bnak.toml: cannot be read", "did you mean \"bank.toml\"?"]);
    place.consenso(&["run", "adlut"]).refused(&["did you mean \"adult\"?"]);
    place.consenso(&["data", "info", "record.csv"]).refused(&["did you mean \"records.csv\"?"]);
    let far = place.consenso(&["run", "elsewhere.toml"]);
    assert!(!far.stderr.contains("did you mean"), "{}", far.stderr);
}

#[test]
fn private_ridge_without_a_clip_names_the_cause() {
    let place = Place::new("ridge_clip");
    let ridge = SMALL
        .replace("source = \"logistic\"", "source = \"ridge\"")
        .replace("loss = \"logistic\"", "loss = \"ridge\"")
        .replace("[graph]", "[privacy]\nepsilon = 1\ndelta = 1e-6\n\n[graph]");
    place.write("e.toml", &ridge);
    place.consenso(&["run", "e.toml"]).refused(&[
        "e.toml",
        "needs objective.clip",
        "unbounded",
        "for example 1.0",
    ]);
}

#[test]
fn a_budget_that_promises_little_gets_a_note() {
    let place = Place::new("little");
    let with = |budget: &str| SMALL.replace("[graph]", &format!("[privacy]\n{budget}\n\n[graph]"));
    place.write("e.toml", &with("epsilon = 30\ndelta = 0.1"));
    let answer = place.consenso(&["run", "e.toml", "--out", "r"]);
    assert!(answer.stderr.contains("privacy.epsilon = 30 promises little"), "{}", answer.stderr);
    assert_eq!(
        answer
            .stderr
            .matches("privacy.delta = 0.1 is above 1/b for an agent of b = 30 records")
            .count(),
        1
    );
    place.write("f.toml", &with("epsilon = 2\ndelta = 1e-3"));
    let answer = place.consenso(&["run", "f.toml", "--out", "s"]);
    assert!(
        !answer.stderr.contains("promises little") && !answer.stderr.contains("1/b"),
        "{}",
        answer.stderr
    );
}
