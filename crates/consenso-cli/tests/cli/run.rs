//! Runs that succeed, and runs that are stopped.

use crate::{HOSPITAL, Place, RECORDS, SCHEMA, SMALL};
use serde_json::Value;

fn place(test: &str) -> Place {
    let place = Place::new(test);
    place.write("small.toml", SMALL);
    place
}

#[test]
fn a_run_leaves_its_folder() {
    let place = place("folder");
    let answer = place.consenso(&["run", "small.toml", "--out", "deep/er/out"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert_eq!(answer.stderr, "", "progress is for terminals only");
    for name in
        ["experiment.toml", "record.json", "trace.csv", "report.html", "figures/objective-gap.svg"]
    {
        assert!(place.read(&format!("deep/er/out/{name}")).len() > 100, "{name}");
    }
    let left: Vec<_> = std::fs::read_dir(place.path("deep/er")).unwrap().collect();
    assert_eq!(left.len(), 1, "a temporary folder was left behind");
    assert!(answer.stdout.contains("written to deep/er/out"));
    let trace = place.read("deep/er/out/trace.csv");
    assert!(trace.starts_with("algorithm,run,round,objective"));
    // Two runs of 20 and of 15 rounds, with the starting points.
    assert_eq!(trace.lines().count(), 1 + 2 * (21 + 16));
    let record: Value = serde_json::from_str(&place.read("deep/er/out/record.json")).unwrap();
    assert!(record["algorithms"][0]["curve"].as_array().is_some_and(|c| c.len() == 21));
}

#[test]
fn default_folders_are_numbered_and_never_written_over() {
    let place = place("numbered");
    for expected in ["runs/small-3", "runs/small-3-2", "runs/small-3-3"] {
        let answer = place.consenso(&["run", "small.toml", "--json"]);
        assert_eq!(answer.json()["out"], expected);
        assert!(place.path(expected).is_dir());
    }
    let seeded = place.consenso(&["run", "small.toml", "--json", "--seed", "8"]).json();
    assert_eq!((&seeded["out"], &seeded["seed"]), (&"runs/small-8".into(), &8.into()));
}

#[test]
fn a_name_cannot_lead_out_of_the_runs_folder() {
    let place = place("names");
    let answer = place.consenso(&["run", "small.toml", "--json", "--set", "name=\"../../x y\""]);
    assert_eq!(answer.json()["out"], "runs/------x-y-3");
}

#[test]
fn json_has_the_keys_of_the_contract() {
    let place = place("contract");
    let value = place.consenso(&["run", "small.toml", "--json"]).json();
    let algorithms = value["algorithms"].as_array().unwrap();
    assert_eq!(algorithms.len(), 2);
    for algorithm in algorithms {
        let text = ["kind", "label"].iter().all(|key| algorithm[key].is_string());
        let numbers = [
            "rounds",
            "test_accuracy",
            "test_auc",
            "objective",
            "optimum_gap",
            "log_error",
            "seconds",
        ];
        assert!(text && numbers.iter().all(|key| algorithm[key].is_number()), "{algorithm}");
        assert!(
            ["min", "mean", "max"].iter().all(|k| algorithm["per_agent_accuracy"][k].is_number())
        );
        assert!(algorithm["epsilon"].is_null());
        assert!(algorithm.get("curve").is_none());
    }
    let baselines = &value["baselines"];
    for key in ["majority_accuracy", "central_optimum_accuracy", "local_only_accuracy"] {
        assert!(baselines[key].is_number(), "{key}");
    }
    for key in ["accuracy", "log_error", "objective"] {
        assert!(baselines["zero_model"][key].is_number(), "{key}");
    }
    assert_eq!(value["out"], "runs/small-3");
}

#[test]
fn a_private_run_states_its_claim() {
    let place = place("private");
    let private = "[privacy]\nepsilon = 8.0\ndelta = 1e-5\n\n[[algorithm]]";
    place.write("private.toml", &SMALL.replacen("[[algorithm]]", private, 1));
    let value = place.consenso(&["run", "private.toml", "--json"]).json();
    for algorithm in value["algorithms"].as_array().unwrap() {
        let epsilon = &algorithm["epsilon"];
        let claim = epsilon["claim"].as_f64().unwrap();
        assert!(claim > 7.9 && claim <= 8.0, "{claim}");
        assert_eq!(epsilon["delta"], 1e-5);
        assert!(epsilon["method"].is_string());
        for key in ["worst_case_pure", "realised_mean"] {
            assert!(epsilon.get(key).is_some_and(|v| v.is_null() || v.is_number()), "{key}");
        }
        assert_eq!(epsilon["seeded"], true);
    }
    let text = place.consenso(&["run", "private.toml"]).stdout;
    assert!(text.contains("neighbours   replace-one"), "{text}");
    assert!(
        text.contains("seeded simulation: these figures hold only for a run on OS entropy"),
        "{text}"
    );
    let on_entropy = place.consenso(&["run", "private.toml", "--entropy", "os", "--json"]).json();
    assert_eq!(on_entropy["algorithms"][0]["epsilon"]["seeded"], false);
    assert_ne!(on_entropy["algorithms"][0]["objective"], value["algorithms"][0]["objective"]);
}

#[test]
fn threads_do_not_change_a_bit() {
    let place = place("threads");
    for (threads, out) in [("1", "one"), ("2", "two"), ("2", "again")] {
        let answer = place.consenso(&["run", "small.toml", "--threads", threads, "--out", out]);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
    }
    let one = place.read("one/trace.csv");
    assert_eq!(one, place.read("two/trace.csv"));
    assert_eq!(one, place.read("again/trace.csv"));
    let other = place.consenso(&["run", "small.toml", "--seed", "4", "--out", "other"]);
    assert_eq!(other.code, 0);
    assert_ne!(one, place.read("other/trace.csv"), "another seed must give other numbers");
}

#[test]
fn the_resolved_experiment_repeats_the_run() {
    let place = Place::new("repeats");
    std::fs::create_dir(place.path("files")).unwrap();
    place.write("files/hospital.toml", HOSPITAL).write("files/schema.toml", SCHEMA);
    place.write("files/records.csv", RECORDS);
    let first = place.consenso(&["run", "files/hospital.toml", "--out", "first"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let second = place.consenso(&["run", "first/experiment.toml", "--out", "second"]);
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert_eq!(place.read("first/trace.csv"), place.read("second/trace.csv"));
}

#[test]
fn one_file_a_site_and_libsvm() {
    let place = Place::new("sites");
    place.write("schema.toml", SCHEMA).write("north.csv", RECORDS).write("south.csv", RECORDS);
    let sites =
        HOSPITAL.replace("records.csv", "*.csv").replace("agents = 2\n", "hold_out = 0.2\n");
    place.write("sites.toml", &sites.replace("complete", "path"));
    let value = place.consenso(&["run", "sites.toml", "--json"]).json();
    assert_eq!(value["problem"]["agents"], 2);
    assert!(value["algorithms"][0]["test_accuracy"].is_number());
    place.write("train.svm", "+1 1:0.5 3:1\n-1 2:0.25\n+1 1:1\n-1 3:0.5\n");
    let libsvm =
        HOSPITAL.replace("records.csv", "train.svm").replace("schema = \"schema.toml\"\n", "");
    place.write("libsvm.toml", &libsvm);
    let value =
        place.consenso(&["run", "libsvm.toml", "--json", "--set", "data.encoding=numeric"]).json();
    assert_eq!(value["problem"]["agents"], 2);
}

/// A file whose schema says another delimiter is read with the command line's, which the resolved
/// experiment keeps; without test records the table says how to have some.
#[test]
fn the_command_line_says_how_a_file_is_written() {
    let place = Place::new("written");
    let schema =
        SCHEMA.replace("reviewed = true", "reviewed = true\nheader = false\ndelimiter = \",\"");
    let records = RECORDS.split_once('\n').unwrap().1.replace(',', "|");
    place.write("schema.toml", &schema).write("records.csv", &records).write("mine.toml", HOSPITAL);
    place.consenso(&["run", "mine.toml"]).refused(&["records.csv"]);
    let answer = place.consenso(&["run", "mine.toml", "--delimiter", "|", "--out", "first"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(
        answer.stdout.contains("no metrics, for there are no test records: hold_out = 0.2"),
        "{}",
        answer.stdout
    );
    assert!(place.read("first/experiment.toml").contains("delimiter = \"|\""));
    let again = place.consenso(&["run", "first/experiment.toml", "--out", "second"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(place.read("first/trace.csv"), place.read("second/trace.csv"));
    assert_eq!(place.consenso(&["plan", "mine.toml", "--delimiter", "|"]).code, 0);
}

#[test]
fn built_in_experiments_can_be_listed_copied_and_run() {
    let place = Place::new("built_in");
    let list = place.consenso(&["run", "--list"]);
    assert!(list.stdout.contains("adult") && list.stdout.contains("paper-2a"));
    let list = place.consenso(&["run", "--list", "--json"]).json();
    assert_eq!(list["experiments"][0]["name"], "adult");
    let tiny = [
        "--json",
        "--set",
        "runs=1",
        "--set",
        "data.agents=3",
        "--set",
        "data.records_per_agent=100",
        "--set",
        "algorithm.rounds=3",
    ];
    for entry in list["experiments"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let printed = place.consenso(&["run", "--print", name]);
        assert_eq!(printed.code, 0);
        place.write("copy.toml", &printed.stdout);
        if printed.stdout.contains("[problem]") {
            // Their agents and graph are part of the problem.
            let short = ["--json", "--set", "runs=1", "--set", "algorithm.rounds=3"];
            let value = place.consenso(&[&["run", "copy.toml"][..], &short].concat()).json();
            assert_eq!(value["name"], name);
            continue;
        }
        let mut arguments = [&["run", "copy.toml"][..], &tiny].concat();
        if printed.stdout.contains("\nedges") {
            arguments.extend(["--set", "graph.edges=2"]);
        }
        if printed.stdout.contains("\ndegree") {
            arguments.extend(["--set", "graph.degree=2"]);
        }
        if printed.stdout.contains("[sweep]") {
            arguments.extend(["--set", "sweep.agents=[3]", "--set", "sweep.epsilon=[1.0]"]);
        }
        let value = place.consenso(&arguments).json();
        assert_eq!(value["name"], name);
        assert_eq!(value["problem"]["agents"], 3);
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let place = place("pipe");
    let mut child = place
        .command(&["run", "--print", "adult"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_is_done() {
    use std::process::{Command, Stdio};
    let place = place("ctrl_c");
    let slow = ["run", "small.toml", "--out", "out", "--set", "algorithm.1.rounds=1000000"];
    let slow =
        [&slow[..], &["--set", "data.records_per_agent=2000", "--set", "algorithm.1.step=0.01"]]
            .concat();
    // The first algorithm must be over and the second not: how long that takes is the machine's
    // secret, so waits grow.
    for wait in [200, 400, 800, 1600, 3200, 6400, 12800] {
        let child =
            place.command(&slow).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait));
        let interrupted =
            Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(interrupted.success(), "the run was over before {wait} ms");
        let output = child.wait_with_output().unwrap();
        if !place.path("out").exists() {
            continue;
        }
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("interrupted: what was done is kept"), "{stderr}");
        let record: Value = serde_json::from_str(&place.read("out/record.json")).unwrap();
        assert_eq!(record["interrupted"], true);
        assert_eq!(record["algorithms"][0]["kind"], "admm");
        return;
    }
    panic!("no interrupted run left its folder");
}

/// Seconds differ from run to run: `0.01 s` becomes `_.__ s`, of the same width.
fn without_times(text: &str) -> String {
    let mut parts = text.split(" s\n");
    let first = parts.next().unwrap_or_default().to_owned();
    let hide = |part: &str| {
        let number = part.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let hidden: String =
            part[number..].chars().map(|c| if c == '.' { '.' } else { '_' }).collect();
        format!("{}{hidden}", &part[..number])
    };
    let (mut out, mut before) = (String::new(), first);
    for part in parts {
        out += &format!("{} s\n", hide(&before));
        before = part.to_owned();
    }
    out + &before
}

#[test]
fn the_summary_table_reads_well() {
    let place = place("table");
    let answer = place.consenso(&["run", "small.toml"]);
    insta::assert_snapshot!(without_times(&answer.stdout));
}

/// Records of one's own under real noise: 60 of them, two runs of one algorithm.
fn hospital(test: &str) -> Place {
    let place = Place::new(test);
    let mut records = String::from("age,ward,ill\n");
    for k in 0..60 {
        records += &format!("{},{},{}\n", 20 + k, ["a", "b"][k % 2], ["no", "yes"][k / 2 % 2]);
    }
    let study = HOSPITAL
        .replace("runs = 1", "runs = 2")
        .replace("[graph]", "[privacy]\nepsilon = 0.5\ndelta = 1e-6\n\n[graph]");
    place
        .write("records.csv", &records)
        .write("schema.toml", SCHEMA)
        .write("hospital.toml", &study);
    place
}

/// The ten runs of a simulation would each have cost the budget of one's own records.
#[test]
fn real_noise_is_drawn_once_where_nothing_is_said_of_runs() {
    let place = hospital("once");
    let study = place.read("hospital.toml").replace("runs = 2\n", "");
    assert!(!study.contains("runs"));
    place.write("once.toml", &study);
    for (more, runs) in [(&["--out", "one"][..], 1), (&["--out", "two", "--set", "runs=2"], 2)] {
        let answer = place.consenso(&[&["run", "once.toml", "--entropy", "os"], more].concat());
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        let made = place.read(&format!("{}/experiment.toml", more[1]));
        assert!(made.contains(&format!("\nruns = {runs}\n")), "{made}");
    }
    let simulated = place.consenso(&["run", "once.toml", "--out", "ten"]);
    assert_eq!(simulated.code, 0, "{}", simulated.stderr);
    assert!(place.read("ten/experiment.toml").contains("\nruns = 10\n"));
}

#[test]
fn a_shareable_folder_holds_no_exact_function_of_the_records() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = hospital("shareable");
    let answer = place.consenso(&["run", "hospital.toml", "--entropy", "os", "--out", "out"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stdout.contains("not to be shared"), "{}", answer.stdout);
    assert!(
        answer.stdout.contains("all 2 transcripts of this command together: ε = 0.72"),
        "{}",
        answer.stdout
    );
    let record: Value = serde_json::from_str(&place.read("out/record.json")).unwrap();
    assert_eq!(
        (&record["kind"], &record["total_epsilon"]["transcripts"]),
        (&"shareable".into(), &2.into())
    );
    for name in place.listing().iter().filter(|p| p.starts_with(place.path("out")) && p.is_file()) {
        let private = name.starts_with(place.path("out/private"));
        // Archives of weights are no text; what is in them stands in the model file beside them.
        let text = String::from_utf8_lossy(&std::fs::read(name).unwrap()).into_owned();
        let told = ["central_optimum", "log_error", "optimum_gap", "local_only"]
            .iter()
            .any(|word| text.contains(word));
        assert!(private || !told, "{} tells", name.display());
    }
    let mode = std::fs::metadata(place.path("out/private")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(
        place.read("out/private/README.txt").starts_with("PRIVATE: exact functions of the records")
    );
    assert!(
        place.read("out/private/report.html").contains("PRIVATE: exact functions of the records")
    );
    let kept: Value = serde_json::from_str(&place.read("out/private/record.json")).unwrap();
    assert_eq!(kept["kind"], "private");
    assert!(kept["baselines"]["central_optimum_objective"].is_number());
    // The same records with noise from a seed: one page, which says what it is, and no ledger.
    let seeded = place.consenso(&["run", "hospital.toml", "--json", "--out", "seeded"]).json();
    assert_eq!((&seeded["kind"], &seeded["total_epsilon"]), (&"seeded".into(), &Value::Null));
    assert!(seeded.get("ledger").is_none());
}

#[test]
fn the_same_command_twice_costs_the_records_twice() {
    let place = hospital("twice");
    let run = |more: &[&str]| {
        let all = [&["run", "hospital.toml", "--entropy", "os", "--json"], more].concat();
        place.consenso(&all)
    };
    let first = run(&[]).json();
    let (one, second) = (&first["ledger"][0], run(&[]).json());
    let two = &second["ledger"][0];
    assert_eq!((&one["studies"], &two["studies"]), (&1.into(), &2.into()));
    let spent = |v: &Value| v["spent"]["epsilon"].as_f64().unwrap();
    assert!(
        (spent(one) - first["total_epsilon"]["epsilon"].as_f64().unwrap()).abs() < 1e-6,
        "{one}"
    );
    // Four transcripts of μ for ε = 0.5 at δ = 1e-6, by another program.
    assert!((spent(two) - 1.0525).abs() < 3e-3, "{two}");
    assert!(two["sum"]["epsilon"].as_f64().unwrap() > 1.3 * spent(two), "{two}");
    // One more record: a changed file is asked about.
    place.write("records.csv", &(place.read("records.csv") + "99,a,no\n"));
    let refused = run(&[]);
    assert!(refused.code != 0 && refused.stderr.contains("--records same"), "{refused:?}");
    assert_eq!(run(&["--records", "same"]).json()["ledger"][0]["studies"], 3);
}

/// Two runs of two transcripts fit; the third would not, and makes nothing.
#[test]
fn a_run_can_limit_what_all_studies_of_its_records_cost() {
    let place = hospital("limit");
    let run = |more: &[&str]| {
        let all = [&["run", "hospital.toml", "--entropy", "os", "--json"], more].concat();
        place.consenso(&all)
    };
    let first = run(&["--limit", "1.2"]).json();
    assert_eq!(first["ledger"][0]["limit"]["epsilon"], 1.2);
    let left = first["ledger"][0]["remaining"]["epsilon"].as_f64().unwrap();
    assert!(left > 0.7 && left < 1.2, "{left}");
    run(&[]).json();
    let runs = place.listing().len();
    let refused = run(&[]);
    assert!(
        refused.code != 0 && refused.stderr.contains("above the limit of ε = 1.2"),
        "{refused:?}"
    );
    assert_eq!(place.listing().len(), runs, "a refused run writes nothing");
    // Another --limit changes it; one for life stays.
    assert!(refused.stderr.contains("was set by run --limit on 20"), "{refused:?}");
    let more = run(&["--limit-for-life", "1.8"]);
    assert!(more.code == 0 && more.stderr.contains("for life"), "{more:?}");
    assert_eq!(more.json()["ledger"][0]["limit_for_life"], true);
    for asked in ["--limit", "--limit-for-life"] {
        let raised = run(&[asked, "3,1e-6"]);
        let words = ["was set by run --limit-for-life on 20", "never raised"];
        assert!(raised.code != 0 && words.iter().all(|w| raised.stderr.contains(w)), "{raised:?}");
    }
    let bad = run(&["--limit", "much"]);
    assert!(bad.code == 2 && bad.stderr.contains("3,1e-5"), "{bad:?}");
    let seeded = place.consenso(&["run", "hospital.toml", "--limit", "1"]);
    assert!(seeded.code != 0 && seeded.stderr.contains("--entropy os"), "{seeded:?}");
}

/// A refused `--limit 0.4` was the limit for ever.
#[test]
fn a_refused_run_leaves_no_limit_and_no_ledger_behind() {
    let place = hospital("refused-limit");
    let run = |more: &[&str]| {
        place.consenso(&[&["run", "hospital.toml", "--entropy", "os", "--json"], more].concat())
    };
    let before = place.listing();
    for asked in ["--limit", "--limit-for-life"] {
        let refused = run(&[asked, "0.4"]);
        assert!(refused.code != 0 && refused.stderr.contains("ε = 0.4"), "{refused:?}");
        assert_eq!(place.listing(), before, "{asked}");
    }
    let run = run(&["--limit", "1.2"]);
    assert!(run.stderr.contains("note: a new ledger begins beside"), "{run:?}");
    assert_eq!(run.json()["ledger"][0]["limit"]["epsilon"], 1.2);
}

/// Of two files one has nothing left: the run does not begin, and costs the other one nothing.
#[test]
fn a_run_that_one_file_refuses_costs_no_file_anything() {
    let place = hospital("two-files");
    let (records, study) = (place.read("records.csv"), place.read("hospital.toml"));
    let on = |files: &str| study.replace("path = \"records.csv\"", &format!("path = \"{files}\""));
    place.write("site-1.csv", &records).write("site-2.csv", &(records.clone() + "80,a,yes\n"));
    place.write("both.toml", &on("site-*.csv")).write("one.toml", &on("site-1.csv"));
    place.write("two.toml", &on("site-2.csv"));
    let run = |file: &str, more: &[&str]| {
        place.consenso(&[&["run", file, "--entropy", "os", "--json"], more].concat())
    };
    let two = run("two.toml", &["--limit-for-life", "0.8"]).json();
    let refused = run("both.toml", &[]);
    assert!(refused.code != 0 && refused.stderr.contains("site-2.csv"), "{refused:?}");
    // Neither does a limit that only one of them has room for, nor a file that must be asked about.
    let raised = run("both.toml", &["--limit", "2"]);
    assert!(raised.code != 0 && raised.stderr.contains("never raised"), "{raised:?}");
    place.write("site-2.csv", &(records.clone() + "81,b,no\n"));
    let asked = run("both.toml", &["--limit", "0.75"]);
    assert!(asked.code != 0 && asked.stderr.contains("--records same"), "{asked:?}");
    let one = run("one.toml", &[]).json();
    assert_eq!(one["ledger"][0]["limit"], Value::Null, "{one}");
    let spent = |run: &Value| run["ledger"][0]["spent"]["epsilon"].as_f64().unwrap();
    assert!((spent(&one) - spent(&two)).abs() < 1e-9, "{} {}", spent(&one), spent(&two));
}

/// Two transcripts of ε = 0.5 are one of μ√2: a person's three records are told apart as well as
/// 3√2·μ allows.
#[test]
fn a_claim_says_what_it_is_worth_for_a_person_with_several_records() {
    let place = hospital("person");
    let mut records = String::from("age,ward,ill,patient\n");
    for k in 0..60 {
        records +=
            &format!("{},{},{},p{}\n", 20 + k, ["a", "b"][k % 2], ["no", "yes"][k / 2 % 2], k / 4);
    }
    let person = "\n[[column]]\nname = \"patient\"\nkind = \"person\"\nrecords = 3\n";
    place.write("records.csv", &records).write("schema.toml", &format!("{SCHEMA}{person}"));
    let claimed = |encoding: &str, told: &str| -> f64 {
        let set = format!("data.encoding={encoding}");
        let (out, ledger) = (format!("out-{encoding}"), format!("ledger-{encoding}"));
        let arguments = [
            "run",
            "hospital.toml",
            "--entropy",
            "os",
            "--set",
            &set,
            "--ledger",
            &ledger,
            "--out",
            &out,
        ];
        let answer = place.consenso(&arguments);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        let record = place.read(&format!("{out}/record.json"));
        let (_, after) = record.split_once(told).unwrap_or_else(|| panic!("{record}"));
        after.split(',').next().unwrap().parse().unwrap()
    };
    // By scipy: μ(0.5, 1e-6) = 0.124106, times √2 for two transcripts, and 3 for three records
    // where noise is for one of them, at δ = 1e-6.
    let person = claimed(
        "scouted",
        "a person with all of their at most 3 records at a site, over all transcripts: ε = ",
    );
    assert!((person - 0.725).abs() < 2e-3, "{person}");
    let record = claimed(
        "one-hot",
        "whoever is one person by the column patient has at most 3 records in a file, and so 3: ε = ",
    );
    assert!((record - 2.386).abs() < 2e-3, "{record}");
}

/// Runs and points of a sweep, cut into shares.
const SHARED: &str = r#"
name = "swept"
seed = 3
runs = 3
[data]
source = "logistic"
agents = 4
records_per_agent = 80
dim = 3
[graph]
kind = "random"
edges = 5
[privacy]
epsilon = 2.0
delta = 1e-5
[sweep]
epsilon = [1.0, 2.0]
[[algorithm]]
kind = "dgd"
rounds = 12
[[algorithm]]
kind = "admm"
rounds = 9
"#;

/// A file of a run without what a clock says.
fn without_seconds(text: &str) -> String {
    text.lines().filter(|line| !line.contains("\"seconds\":")).collect::<Vec<_>>().join("\n")
}

/// Whether two folders hold the same results, bit for bit.
fn same_results(place: &Place, one: &str, other: &str) {
    for name in ["record.json", "trace.csv", "experiment.toml"] {
        let read = |folder: &str| without_seconds(&place.read(&format!("{folder}/{name}")));
        assert!(read(one) == read(other), "{name} of {one} and {other} differ");
    }
    let models = std::fs::read_dir(place.path(&format!("{one}/models"))).unwrap();
    for model in
        models.map(|m| m.unwrap().file_name()).filter(|m| m.to_string_lossy().ends_with(".json"))
    {
        let read = |folder: &str| place.read(&format!("{folder}/models/{}", model.display()));
        assert!(read(one) == read(other), "{}", model.display());
    }
}

#[test]
fn shares_put_together_are_the_run() {
    let place = place("shares");
    place.write("swept.toml", SHARED);
    let good = |arguments: &[&str]| {
        let answer = place.consenso(arguments);
        assert_eq!(answer.code, 0, "{arguments:?}: {}", answer.stderr);
        answer
    };
    good(&["run", "swept.toml", "--out", "whole", "--threads", "1"]);
    for i in ["1", "2", "4"] {
        good(&["run", "swept.toml", "--shard", &format!("{i}/4"), "--out", &format!("part-{i}")]);
    }
    let early = place.consenso(&["merge", "part-1", "part-2", "part-4", "--out", "early"]);
    assert_eq!(early.code, 2);
    assert!(early.stderr.contains("shares not given: 3/4"), "{}", early.stderr);
    let slurm = place
        .command(&["run", "swept.toml", "--shard", "slurm", "--out", "part-3", "--json"])
        .envs([
            ("SLURM_ARRAY_TASK_ID", "2"),
            ("SLURM_ARRAY_TASK_COUNT", "4"),
            ("SLURM_ARRAY_TASK_MIN", "0"),
        ])
        .output()
        .unwrap();
    let told: Value = serde_json::from_slice(&slurm.stdout).unwrap();
    assert_eq!(told["shard"], serde_json::json!({ "index": 3, "of": 4 }));
    // In any order.
    good(&["merge", "part-3", "part-1", "part-4", "part-2", "--out", "merged"]);
    same_results(&place, "whole", "merged");
    let twice = place.consenso(&["merge", "part-1", "part-1", "--out", "twice"]);
    assert!(twice.stderr.contains("given twice"), "{}", twice.stderr);
    good(&["run", "swept.toml", "--seed", "4", "--shard", "1/1", "--out", "other"]);
    let mixed = place.consenso(&["merge", "part-1", "other", "--out", "mixed"]);
    assert!(mixed.stderr.contains("share of another experiment"), "{}", mixed.stderr);
    for bad in ["0/3", "4/3", "x", "1", "slurm"] {
        assert_eq!(place.consenso(&["run", "swept.toml", "--shard", bad]).code, 2, "{bad}");
    }
}

/// Killed without warning, a run goes on from what it has finished, and nothing tells that it was
/// killed.
#[test]
#[cfg(unix)]
fn a_killed_run_goes_on() {
    let place = place("killed");
    place.write(
        "long.toml",
        &SHARED.replace("rounds = 12", "rounds = 4000").replace("runs = 3", "runs = 6"),
    );
    let arguments = ["run", "long.toml", "--out", "out", "--threads", "1", "--resume"];
    let pieces = place.path(".out.pieces");
    let mut kills = 0;
    for wanted in [2_000, 8_000, 16_000] {
        let mut child =
            place.command(&arguments).stderr(std::process::Stdio::null()).spawn().unwrap();
        while std::fs::metadata(&pieces).map_or(0, |m| m.len()) < wanted
            && child.try_wait().unwrap().is_none()
        {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        kills += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(kills > 0, "the run was over before it could be killed");
    let answer = place.consenso(&arguments);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    assert!(answer.stderr.contains("going on: "), "{}", answer.stderr);
    assert!(!pieces.exists());
    assert_eq!(place.consenso(&["run", "long.toml", "--out", "whole"]).code, 0);
    same_results(&place, "out", "whole");
}

/// One long run of two algorithms; the noise is fixed, so that more rounds change nothing of the
/// first ones.
const ENDLESS: &str = r#"name = "endless"
seed = 3
runs = 1
trace_every = 50
[data]
source = "logistic"
agents = 5
records_per_agent = 20
dim = 4
[graph]
kind = "ring"
[privacy]
delta = 1e-6
[[algorithm]]
kind = "dgd"
rounds = 4000
step = 0.05
tail = 0
noise = { gaussian = 0.05 }
[[algorithm]]
kind = "admm"
rounds = 4000
noise = "none"
"#;

/// Kills a run without warning, several times, and goes on each time; what is in `out` at the end
/// is what a run in one go writes.
#[cfg(unix)]
fn killed_and_gone_on(place: &Place, arguments: &[&str]) {
    let states = place.path(".out.checkpoint");
    let mut from = 0;
    for _ in 0..3 {
        let child = place.command(arguments).stderr(std::process::Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let waited = std::time::Instant::now();
        while waited.elapsed().as_millis() < 60
            || std::fs::read_dir(&states).map_or(0, Iterator::count) == 0
        {
            if child.try_wait().unwrap().is_some() {
                break;
            }
        }
        child.kill().unwrap();
        let told = String::from_utf8(child.wait_with_output().unwrap().stderr).unwrap();
        from += told.matches("from round").count();
    }
    let answer = place.consenso(arguments);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    from += answer.stderr.matches("from round").count();
    assert!(from > 0, "the run was over before it could be killed inside");
    assert!(!states.exists());
    assert_eq!(place.consenso(&["run", arguments[1], "--out", "whole"]).code, 0);
    same_results(place, "out", "whole");
}

/// Killed without warning in the middle of a run, it goes on from its last checkpoint, and nothing
/// tells that it was killed. A finished run goes on from its last round.
#[test]
#[cfg(unix)]
fn a_run_goes_on_from_inside() {
    let place = place("inside");
    place.write("endless.toml", ENDLESS);
    let arguments = ["run", "endless.toml", "--out", "out", "--checkpoint-every", "7", "--resume"];
    killed_and_gone_on(&place, &arguments);
    let more = ["--set", "algorithm.rounds=5000"];
    let longer = place.consenso(&[&arguments, &more[..]].concat());
    assert!(
        longer.stderr.contains("going on with dgd, run 1: from round 4000"),
        "{}",
        longer.stderr
    );
    assert_eq!(
        place.consenso(&[&["run", "endless.toml", "--out", "longer"], &more[..]].concat()).code,
        0
    );
    same_results(&place, "out", "longer");
    // Other noise is another transcript from the first round on.
    let other = ["--set", "algorithm.0.noise.gaussian=0.06", "--set", "algorithm.0.rounds=6000"];
    let anew = place.consenso(&[&arguments, &other[..]].concat());
    assert!(!anew.stderr.contains("with dgd"), "{}", anew.stderr);
}

/// Shares, masked vectors and their sums, and vectors that are late, are part of a checkpoint.
#[test]
#[cfg(unix)]
fn a_run_among_shares_or_masks_or_with_delays_goes_on_from_inside() {
    let first = |algorithm: &str| {
        let (start, _) = ENDLESS.split_once("[[algorithm]]").unwrap();
        format!("{start}[[algorithm]]\n{algorithm}")
    };
    let shares = "kind = \"gd\"\naggregation = \"fixed\"\nrounds = 4000\nstep = 0.1\n\
                  noise = { gaussian = 0.05 }\nexchange = \"secret-shared\"\n";
    let shares = first(shares).replace("\"ring\"", "\"complete\"");
    // A round takes a tenth of the time: there are more, so that a kill comes before the last.
    let masked = shares
        .replace("\"secret-shared\"", "\"masked\"\ndrop_outs = 1")
        .replace("[data]", "drop_out = [{ agent = 2, round = 20000 }]\n[data]")
        .replace("rounds = 4000", "rounds = 30000")
        .replace("0.05", "0.5");
    let late = "kind = \"dgd\"\nrounds = 4000\nstep = 0.05\ntail = 0\nstaleness = 3\nnoise = { gaussian = 0.05 }\n";
    let late = first(late)
        .replace("[graph]", "[delays]\nmessage = 1.0\nslow = [[0, 1]]\nfactor = 5.0\n[graph]");
    for (name, text) in [("shares", shares), ("masked", masked), ("late", late)] {
        let place = place(&format!("inside_{name}"));
        place.write("endless.toml", &text);
        let arguments =
            ["run", "endless.toml", "--out", "out", "--checkpoint-every", "7", "--resume"];
        killed_and_gone_on(&place, &arguments);
    }
}

/// A table of three sites whose records do not lie together, with a category and a number, and its
/// schema.
fn interleaved(place: &Place) {
    let mut table = String::from("age,ward,site,ill\n");
    for i in 0u32..900 {
        let age = 20 + i * 7 % 60;
        let (ward, site) =
            (["a", "b", "c", "d"][i as usize % 4], ["x", "y", "z"][(i / 2) as usize % 3]);
        table += &format!(
            "{age},{ward},{site},{}\n",
            if (age + i % 5).is_multiple_of(3) { "yes" } else { "no" }
        );
    }
    place.write("records.csv", &table);
    place.write(
        "schema.toml",
        "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 120\n\
         [[column]]\nname = \"ward\"\nkind = \"categorical\"\ncategories = [\"a\", \"b\", \"c\", \"d\"]\n\
         [[column]]\nname = \"site\"\nkind = \"site\"\n\
         [[column]]\nname = \"ill\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n",
    );
    place.write(
        "mine.toml",
        "name = \"mine\"\nseed = 4\nruns = 2\ntrace_every = 100\n[data]\npath = \"records.csv\"\nschema = \"schema.toml\"\n\
         encoding = \"one-hot\"\npartition = { by = \"site\" }\nhold_out = 0.2\n[graph]\nkind = \"complete\"\n\
         [privacy]\nepsilon = 2.0\ndelta = 1e-5\n[[algorithm]]\nkind = \"dgd\"\nrounds = 500\n",
    );
}

/// Records of files that are streamed lie on disk as long as the run takes, where nobody else may
/// look, and the curve is that of a run in memory, bit for bit. A run that is told to stop, or
/// whose time is up, says how to go on, and ends where it would have.
#[test]
#[cfg(unix)]
fn records_of_files_are_streamed_from_disk() {
    let place = place("streamed_files");
    interleaved(&place);
    let run = |more: &[&str]| place.consenso(&[&["run", "mine.toml"], more].concat());
    let held = run(&["--out", "held"]);
    assert_eq!(held.code, 0, "{}", held.stderr);
    let streamed = run(&["--stream", "--out", "streamed"]);
    assert_eq!(streamed.code, 0, "{}", streamed.stderr);
    for said in
        ["GB of encoded rows in", ".streamed.scratch", "read in every round from", "memory: about"]
    {
        assert!(streamed.stderr.contains(said), "{said}: {}", streamed.stderr);
    }
    let columns = |folder: &str| -> Vec<String> {
        let text = place.read(&format!("{folder}/trace.csv"));
        let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let at = |name: &str| header.iter().position(|h| *h == name).unwrap();
        let places = ["run", "round", "objective", "disagreement", "test_accuracy"].map(at);
        let line = |l: &str| {
            let cells: Vec<&str> = l.split(',').collect();
            places.map(|p| cells[p]).join(",")
        };
        text.lines().skip(1).map(line).collect()
    };
    assert_eq!(columns("streamed"), columns("held"));
    // One folder for both: a record that is read again, a page, and a model that predicts.
    let read = |folder: &str| -> consenso_engine::record::Record {
        serde_json::from_str(&place.read(&format!("{folder}/record.json"))).unwrap()
    };
    let (here, there) = (read("streamed"), read("held"));
    let figures = |r: &consenso_engine::record::Record| {
        (r.algorithms[0].label.clone(), r.algorithms[0].rounds, r.algorithms[0].objective)
    };
    assert_eq!(figures(&here), figures(&there));
    assert_eq!(
        here.processes.as_ref().map(|p| (p.ranks, p.transcripts.len() as u32)),
        Some((1, here.runs))
    );
    assert!(there.processes.is_none() && here.algorithms[0].optimum_gap.is_nan());
    let page = place.read("streamed/report.html");
    assert!(page.contains("<main>") && !page.contains("Distance to the optimum"));
    assert!(place.read("held/report.html").contains("Distance to the optimum"));
    let model = place.consenso(&["model", "show", "streamed"]);
    assert_eq!(model.code, 0, "{}", model.stderr);
    assert!(!place.path(".streamed.scratch").exists());
    // Stopped by its time, at once or after some rounds, and by a signal.
    let endless =
        ["--set", "algorithm.rounds=60000", "--set", "runs=1", "--stream", "--out", "stopped"];
    let limited = run(&[&endless[..], &["--time-limit", "1s"]].concat());
    assert_eq!(limited.code, 1, "{}", limited.stderr);
    assert!(limited.stderr.contains("--resume goes on"), "{}", limited.stderr);
    assert!(!place.path(".stopped.scratch").exists() && place.path(".stopped.checkpoint").exists());
    let again = [&["run", "mine.toml"], &endless[..], &["--resume"]].concat();
    let mut child = place.command(&again).stderr(std::process::Stdio::piped()).spawn().unwrap();
    while !place.path(".stopped.scratch/rank-0-agents.scratch").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was told to");
    }
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |name: &str| place.path(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(".stopped.scratch"), mode(".stopped.scratch/rank-0-rows.scratch")),
        (0o700, 0o600)
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    let told = std::process::Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(told.success());
    let ended = child.wait_with_output().unwrap();
    let text = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{text}");
    assert!(text.contains("going on: 0 runs are done") && text.contains("told to stop"), "{text}");
    let resumed = run(&[&endless[..], &["--resume", "--json"]].concat()).json();
    let whole = run(&[&endless[..5], &["--out", "whole", "--json"]].concat()).json();
    let transcript =
        |record: &serde_json::Value| record["algorithms"][0]["runs"][0]["transcript"].clone();
    assert!(transcript(&whole).is_string());
    assert_eq!(transcript(&resumed), transcript(&whole));
    let refused = run(&["--stream", "--time-limit", "soon"]);
    assert!(refused.code == 2 && refused.stderr.contains("write a time"), "{}", refused.stderr);
}

#[test]
fn runs_can_be_added_to_a_finished_folder() {
    let place = place("added");
    place.write("swept.toml", &SHARED.replace("kind = \"random\"\nedges = 5", "kind = \"ring\""));
    let run = |more: &[&str]| place.consenso(&[&["run", "swept.toml"], more].concat());
    assert_eq!(run(&["--set", "runs=2", "--out", "out"]).code, 0);
    let more = run(&["--set", "runs=5", "--out", "out", "--resume"]);
    assert_eq!(more.code, 0, "{}", more.stderr);
    // Two runs of two points, three pieces each, and the tuned reference.
    assert!(more.stderr.contains("going on: 13 of 31 pieces are done"), "{}", more.stderr);
    assert_eq!(run(&["--set", "runs=5", "--out", "whole"]).code, 0);
    same_results(&place, "out", "whole");
    let left: Vec<_> = std::fs::read_dir(place.path("")).unwrap().collect();
    assert_eq!(left.len(), 4, "{left:?}");
    std::fs::create_dir(place.path("mine")).unwrap();
    let refused = place.consenso(&["run", "swept.toml", "--out", "mine", "--resume"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("nothing to go on from"), "{}", refused.stderr);
}

/// Whether a file of pieces says that noise was about to be drawn: an entry is its length, a
/// checksum and what happened, `2` for this.
fn begun(path: &std::path::Path) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut rest = bytes.strip_prefix(b"consenso pieces 1\n").unwrap_or_default();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let entry = after.get(8..).unwrap_or_default();
        if entry.first() == Some(&2) {
            return true;
        }
        rest = entry.get(u32::from_le_bytes(*length) as usize..).unwrap_or_default();
    }
    false
}

/// Under real noise the ledger has every transcript that was drawn, once: finished ones are not
/// charged again when a run goes on, one that was under way when the command was killed is drawn
/// and charged again.
#[test]
#[cfg(unix)]
fn going_on_charges_what_is_drawn() {
    let place = hospital("going_on");
    let run = |more: &[&str]| {
        place.consenso(
            &[&["run", "hospital.toml", "--entropy", "os", "--json", "--resume"], more].concat(),
        )
    };
    let studies = |answer: &crate::Answer| answer.json()["ledger"][0]["studies"].as_u64().unwrap();
    let spent =
        |answer: &crate::Answer| answer.json()["ledger"][0]["sum"]["epsilon"].as_f64().unwrap();
    let first = run(&["--out", "out"]);
    let record = without_seconds(&place.read("out/private/record.json"));
    assert!(
        place.path("out/private/pieces.bin").is_file() && !place.path("out/pieces.bin").exists()
    );
    let again = run(&["--out", "out"]);
    assert_eq!((studies(&first), studies(&again)), (1, 1));
    assert_eq!(record, without_seconds(&place.read("out/private/record.json")));
    // Two runs are there; the third alone is charged, as one of three.
    let more = run(&["--out", "out", "--set", "runs=3"]);
    assert_eq!(studies(&more), 2);
    assert!(spent(&more) > spent(&first) && spent(&more) < 2.0 * spent(&first), "{more:?}");
    let slow = ["--out", "slow", "--set", "runs=1", "--set", "algorithm.rounds=30000"];
    let often = ["--checkpoint-every", "20"];
    let arguments =
        [&["run", "hospital.toml", "--entropy", "os", "--resume"], &slow[..], &often].concat();
    let mut child = place.command(&arguments).spawn().unwrap();
    // A checkpoint saves work, not privacy: what was drawn after it is lost.
    let state = place.path(".slow.checkpoint/point-0-run-0-algorithm-1.bin");
    while !begun(&place.path(".slow.pieces")) || !state.exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run was over before it could be killed");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let resumed = run(&slow);
    assert!(resumed.stderr.contains("charged once more"), "{}", resumed.stderr);
    assert_eq!(
        studies(&resumed),
        4,
        "once for the command that was killed, once for what is drawn again"
    );
}
