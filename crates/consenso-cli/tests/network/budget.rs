//! What a site's records may cost: the site's own word counts, from the first start on.

use crate::{Net, consenso, experiment, finish, ports, text};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

fn refused(net: &Net, site: usize, said: &str) -> Output {
    let output = net.start(site).output();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains(said), "{said} is missing from {}", text(&output));
    output
}

fn budget(net: &Net, site: usize, epsilon: f64, delta: f64) {
    let pair = [("epsilon".to_owned(), epsilon.into()), ("delta".to_owned(), delta.into())];
    net.set(site, "budget", toml::Table::from_iter(pair));
}

/// Raw gradients left a site with a budget when its first study said `noise = "none"`.
#[test]
fn a_study_without_noise_is_refused_by_every_site_that_did_not_ask_for_it() {
    let algorithm = "kind = \"dgd\"\nrounds = 5\ngossip = 0\nnoise = \"none\"";
    let net = Net::new("raw", 2, &experiment(2, "kind = \"complete\"", algorithm), "os");
    let output = refused(&net, 0, "set unprotected = true in site.toml");
    assert!(
        text(&output).contains("warning: the study makes no privacy claim"),
        "{}",
        text(&output)
    );
    let doctor = consenso().args(["node", "doctor"]).arg(net.folder(0)).output().unwrap();
    assert!(text(&doctor).contains("makes no privacy claim"), "{}", text(&doctor));
    assert_eq!(doctor.status.code(), Some(1));
    budget(&net, 0, 1.0, 1e-6);
    refused(&net, 0, "this site has a budget, and this study makes no privacy claim");
    net.set(0, "unprotected", true);
    refused(&net, 0, "this site has a budget");
    net.set(1, "unprotected", true);
    let path = net.folder(0).join("site.toml");
    let mut table: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
    table.remove("budget");
    fs::write(path, table.to_string()).unwrap();
    finish(net.start_all(), LIMIT);
    assert_eq!(net.transcript().len(), 10);
}

/// `noise = { gaussian = 1e-6 }` ran with a budget of ε = 99206891854, "within the claim".
#[test]
fn an_absurd_claim_is_no_budget() {
    let algorithm = "kind = \"dgd\"\nrounds = 5\ngossip = 0\nnoise = { gaussian = 1e-6 }";
    let study = experiment(2, "kind = \"complete\"", algorithm).replace("epsilon = 1.0\n", "");
    let net = Net::new("absurd", 2, &study, "os");
    refused(&net, 0, "write it down in site.toml: budget = {");
    let study =
        experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5").replace("1e-6", "0.03");
    let net = Net::new("large-delta", 2, &study, "os");
    refused(&net, 0, "with δ ≥ 1/records");
}

/// An older copy of all of a site's folder, whose neighbours need not tell the truth.
#[test]
fn a_restored_snapshot_is_found_out_by_the_witness() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 3000\ngossip = 0");
    let net = Net::new("witness", 2, &study, "os");
    let witness = net.root.parent().unwrap().join("witness-0");
    net.set(0, "witness", witness.display().to_string());
    let releases = |n: usize| {
        let began = Instant::now();
        while net.audit_len(0) < n {
            assert!(began.elapsed() < LIMIT, "never {n} lines");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let run = |n| {
        let mut both = net.start_all();
        releases(n);
        both.iter_mut().for_each(crate::Process::kill);
    };
    run(20);
    let files = ["state.db", "state.db-wal", "audit.jsonl", "site.toml"];
    let snapshot = net.root.parent().unwrap().join("snapshot");
    fs::create_dir_all(&snapshot).unwrap();
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        for file in files {
            fs::copy(from.join(file), to.join(file)).unwrap();
        }
    };
    copy(&net.folder(0), &snapshot);
    run(200);
    let newest = net.root.parent().unwrap().join("newest");
    fs::create_dir_all(&newest).unwrap();
    copy(&net.folder(0), &newest);
    copy(&snapshot, &net.folder(0));
    let output = refused(&net, 0, "it is an old copy");
    assert!(text(&output).contains("the witness has seen"), "{}", text(&output));
    let doctor = consenso().args(["node", "doctor"]).arg(net.folder(0)).output().unwrap();
    assert!(text(&doctor).contains("an old copy: its witness has seen"), "{}", text(&doctor));
    let kept = fs::read(&witness).unwrap();
    fs::remove_file(&witness).unwrap();
    refused(&net, 0, "is its disk mounted?");
    fs::write(&witness, kept).unwrap();
    // The newest goes on.
    copy(&newest, &net.folder(0));
    finish(net.start_all(), LIMIT);
    net.assert_one_payload_a_round();
}

/// Two sites with a file each, in a folder of the test's own, and a study that uses `epsilon`.
pub(crate) fn files(test: &str, epsilon: f64) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("network-{test}"));
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    for site in ["a", "b"] {
        let row = |k: usize| {
            format!("{},{}\n", 20 + (k * 7) % 60, if k.is_multiple_of(3) { "yes" } else { "no" })
        };
        fs::write(
            place.join(format!("{site}.csv")),
            "age,ill\n".to_owned() + &(0..40).map(row).collect::<String>() + site_row(site),
        )
        .unwrap();
    }
    let draft = consenso()
        .current_dir(&place)
        .args(["data", "schema", "a.csv", "--label", "ill"])
        .output()
        .unwrap();
    let schema =
        String::from_utf8(draft.stdout).unwrap().replace("reviewed = false", "reviewed = true");
    fs::write(place.join("schema.toml"), schema).unwrap();
    let study = format!(
        "name = \"files\"\nruns = 1\n[data]\npath = \"?.csv\"\nschema = \"schema.toml\"\n[graph]\nkind = \"complete\"\n\
         [privacy]\nepsilon = {epsilon}\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\nrounds = 10\ngossip = 0\n"
    );
    fs::write(place.join("study.toml"), study).unwrap();
    place
}

/// So that no two sites have the same file.
fn site_row(site: &str) -> &'static str {
    if site == "a" { "33,yes\n" } else { "44,no\n" }
}

pub(crate) fn network(place: &Path, name: &str, more: &[&str]) -> Net {
    let addresses: Vec<String> = ports(2).iter().map(|p| format!("127.0.0.1:{p}")).collect();
    let new =
        ["network", "new", name, "--sites", "a,b", "--experiment", "study.toml", "--addresses"];
    let made = consenso()
        .current_dir(place)
        .args(new)
        .arg(addresses.join(","))
        .args(more)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    Net { root: place.join(name), names: vec!["a".into(), "b".into()] }
}

/// `network new` twice over the same file spent the whole budget twice.
#[test]
fn the_same_records_under_two_folders_have_one_budget() {
    let place = files("two-folders", 1.0);
    let first = network(&place, "n1", &[]);
    (0..2).for_each(|site| budget(&first, site, 1.2, 1e-6));
    finish(first.start_all(), LIMIT);
    // Started again it is the same study.
    finish(first.start_all(), LIMIT);
    let second = network(&place, "n2", &[]);
    refused(&second, 0, "with this study the records would have cost");
    budget(&second, 0, 9.0, 1e-5);
    refused(&second, 0, "with this study the records would have cost");
    let audited =
        consenso().args(["--json", "node", "audit"]).arg(first.folder(0)).output().unwrap();
    let audited: Value = serde_json::from_slice(&audited.stdout).unwrap();
    let left = audited["remaining"]["epsilon"].as_f64().unwrap();
    assert!(left > 0.2 && left < 0.9, "Σ μ² leaves more than 0.2 of 1.2: {audited}");
    assert_eq!(audited["records_ledger"]["studies"], 1, "{audited}");
    let said = text(&consenso().args(["node", "audit"]).arg(first.folder(0)).output().unwrap());
    assert!(
        said.contains("1 studies of these records in") && said.contains("; added up ε = "),
        "{said}"
    );
    // A changed file is asked about, and is not silently a new one.
    let csv = fs::read_to_string(place.join("a.csv")).unwrap().replace("33,yes", "34,yes");
    fs::write(place.join("a.csv"), csv).unwrap();
    refused(&second, 0, "--edited-records same");
    let run = |whose: &str| {
        let child = consenso()
            .args(["node", "run", "--json", "--edited-records", whose])
            .arg(second.folder(0))
            .spawn();
        crate::Process(Some(child.unwrap())).output()
    };
    assert_eq!(run("same").status.code(), Some(2));
    // What was refused left no trace, the answer neither: it is asked again.
    refused(&second, 0, "--edited-records same");
}

/// The first study's ε was the cap for life, and nothing said so.
#[test]
fn a_site_without_a_budget_is_told_whose_word_is_taken_and_can_say_its_own_later() {
    let place = files("unsaid", 1.0);
    let first = network(&place, "n1", &[]);
    let up = consenso().args(["network", "up"]).arg(&first.root).output().unwrap();
    assert!(up.status.success(), "{}", text(&up));
    let note = "note: site.toml has no budget: this study's ε = 1, δ = 1e-6 is the limit";
    assert_eq!(text(&up).matches(note).count(), 1, "{}", text(&up));
    let experiment = fs::read_to_string(first.folder(0).join("experiment.toml")).unwrap();
    for site in 0..2 {
        let other = experiment.replace("name = \"files\"", "name = \"second\"");
        fs::write(first.folder(site).join("experiment.toml"), other).unwrap();
    }
    let output = refused(&first, 0, "the first study of these records, since 20");
    assert!(
        text(&output).contains("site.toml had no budget: write one there"),
        "{}",
        text(&output)
    );
    // Its own word counts, here and for the records wherever they are used, from now on for life.
    (0..2).for_each(|site| budget(&first, site, 1.6, 1e-6));
    let up = consenso().args(["network", "up"]).arg(&first.root).output().unwrap();
    assert!(up.status.success(), "{}", text(&up));
    assert!(text(&up).contains("is the limit for all studies of these records for life"));
    let second = network(&place, "n2", &[]);
    budget(&second, 0, 9.0, 1e-6);
    refused(&second, 0, "was set by budget in site.toml of a on 20");
    (0..2).for_each(|site| budget(&first, site, 9.0, 1e-6));
    for site in 0..2 {
        let other = experiment.replace("name = \"files\"", "name = \"third\"");
        fs::write(first.folder(site).join("experiment.toml"), other).unwrap();
    }
    refused(&first, 0, "budget in site.toml, for life since 20");
}

/// Noise that everybody knows on a file that nobody said is public.
#[test]
fn a_seeded_study_does_not_touch_real_records() {
    let place = files("seeded-files", 1.0);
    let net = network(&place, "net", &["--entropy", "seed"]);
    refused(&net, 0, "public = true, if everybody may have these records");
    assert!(!net.folder(0).join("state.db").exists() || net.ledger(0).is_empty());
    (0..2).for_each(|site| net.set(site, "public", true));
    finish(net.start_all(), LIMIT);
    assert!(!place.join("consenso-ledger").exists(), "nothing was booked");
    // The same folder cannot go on with real studies.
    let path = net.folder(0).join("experiment.toml");
    let other = fs::read_to_string(&path).unwrap().replace("name = \"files\"", "name = \"other\"");
    fs::write(&path, other).unwrap();
    net.set(0, "entropy", "os");
    refused(&net, 0, "this ledger holds seeded studies");
}

/// What an auditor asks: about whom, against whom, by which rule, and how much is left.
#[test]
fn an_audit_names_relation_adversary_entropy_rule_and_what_remains() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5\ngossip = 0");
    let net = Net::new("remaining", 2, &study, "os");
    (0..2).for_each(|site| budget(&net, site, 3.0, 1e-6));
    finish(net.start_all(), LIMIT);
    let audit = |more: &[&str]| {
        let output =
            consenso().args(["node", "audit"]).arg(net.folder(0)).args(more).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = audit(&[]);
    for part in [
        "relation   replace-one: one record replaced by any other",
        "adversary  every other agent colludes",
        "entropy    the operating system",
        "rule       Σ μ² over studies with Gaussian noise",
        "sum        ε = ",
        "← this rule holds",
        "remaining: ε = 2.",
    ] {
        assert!(said.contains(part), "{part} is missing from\n{said}");
    }
    let json: Value = serde_json::from_str(&audit(&["--json"])).unwrap();
    assert_eq!(
        (&json["rule"], &json["relation"], &json["entropy"]),
        (&"gaussian".into(), &"replace-one".into(), &"os".into())
    );
    let left = json["remaining"]["epsilon"].as_f64().unwrap();
    assert!(left > 2.1 && left < 3.0 && json["remaining"]["delta"] == 1e-6, "{json}");
}
