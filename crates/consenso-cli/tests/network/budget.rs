//! What a site's records may cost: the site's own word counts, from the first start on.

use crate::{Net, consenso, experiment, finish, text};
use std::fs;
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
    assert!(text(&output).contains("warning: the study makes no privacy claim"), "{}", text(&output));
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
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5").replace("1e-6", "0.03");
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
    let kept = fs::read(&witness).unwrap();
    fs::remove_file(&witness).unwrap();
    refused(&net, 0, "is its disk mounted?");
    fs::write(&witness, kept).unwrap();
    // The newest goes on.
    copy(&newest, &net.folder(0));
    finish(net.start_all(), LIMIT);
    net.assert_one_payload_a_round();
}
