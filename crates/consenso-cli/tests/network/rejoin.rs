//! A site that lost its disk comes back with what its neighbours hold of it.

use crate::{Net, Process, consenso, experiment, finish, text};
use consenso_node::store::Entry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(180);
const ROUNDS: u32 = 900;

fn study(algorithm: &str) -> String {
    experiment(
        4,
        "kind = \"ring\"",
        &format!("kind = \"{algorithm}\"\nrounds = {ROUNDS}\ngossip = 2"),
    )
}

/// Waits until a site's log has this many lines more.
fn rounds(net: &Net, site: usize, lines: usize) {
    let (began, before) = (Instant::now(), net.audit_len(site));
    while net.audit_len(site) < before + lines {
        assert!(began.elapsed() < LIMIT, "rounds of {site}: not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All that a site wrote since it was made.
fn lose_disk(net: &Net, site: usize) {
    for file in fs::read_dir(net.folder(site)).unwrap() {
        let name = file.as_ref().unwrap().file_name().into_string().unwrap();
        if ["state.db", "audit", "held-", "run.lock", "rejoin"]
            .iter()
            .any(|start| name.starts_with(start))
        {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
    }
}

fn rejoin(net: &Net, site: usize, more: &[&str]) -> (Output, Value) {
    let output = consenso()
        .args(["--json", "node", "rejoin"])
        .arg(net.folder(site))
        .args(more)
        .output()
        .unwrap();
    let value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, value)
}

/// The study lost everybody's budget with one disk; now the site goes on, and nothing is drawn
/// twice.
#[test]
fn a_site_that_lost_its_disk_goes_on_with_what_its_neighbours_hold() {
    let net = Net::new("rejoin", 4, &study("dgd"), "os");
    let mut all = net.start_all();
    rounds(&net, 2, 60);
    all[2].kill();
    lose_disk(&net, 2);
    // Started as if nothing had been, it is told otherwise by its own signature, and told what to
    // do.
    let refused = net.start(2).output();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("consenso node rejoin"), "{}", text(&refused));
    lose_disk(&net, 2);
    let (output, done) = rejoin(&net, 2, &[]);
    assert!(output.status.success(), "{}", text(&output));
    let restored = done["restored"].as_u64().unwrap() as u32;
    assert!(restored >= 10 && done["known"] == 0, "{done}");
    assert_eq!(done["spared_until"].as_u64(), Some(u64::from(restored) + 2), "{done}");
    assert_eq!(done["answered"].as_array().map(Vec::len), Some(2), "{done}");
    assert!(
        done["assumed"][0].as_str().unwrap().contains("at least one of the neighbours"),
        "{done}"
    );
    all[2] = net.start(2);
    finish(all, LIMIT);
    // Every ledger has every round once, with the same charges as one that lost nothing.
    let charges = |site: usize| -> Vec<(u32, Value)> {
        let release = |entry| match entry {
            Entry::Release { round, charge, .. } => {
                Some((round, serde_json::to_value(charge).unwrap()))
            }
            _ => None,
        };
        net.ledger(site).into_iter().filter_map(release).collect()
    };
    assert_eq!(charges(2).len() as u32, ROUNDS + 2);
    assert_eq!(charges(2), charges(0));
    // Both neighbours received the same bytes in every round, and none of them twice.
    let received = |site: usize| -> BTreeMap<u64, String> {
        let mut all = BTreeMap::new();
        for line in
            net.audit(site).iter().filter(|l| l["event"] == "received" && l["peer"] == "site-2")
        {
            let (round, hash) =
                (line["round"].as_u64().unwrap(), line["blake3"].as_str().unwrap().to_owned());
            assert_eq!(
                *all.entry(round).or_insert_with(|| hash.clone()),
                hash,
                "round {round} at {site}"
            );
        }
        all
    };
    assert_eq!((received(1).len() as u32, received(1)), (ROUNDS + 2, received(3)));
    assert!(net.audit(1).iter().all(|l| l["event"] != "equivocation"));
    // The ledger holds, also against what neighbours received before the loss.
    for neighbour in [1, 3] {
        let log = net.folder(neighbour).join("audit.jsonl");
        let output = consenso()
            .args(["--json", "node", "audit"])
            .arg(net.folder(2))
            .arg("--against")
            .arg(log)
            .output();
        let output = output.unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(output.status.success() && found["holds"] == true, "{}", text(&output));
        assert_eq!(found["against"][0]["agree"].as_u64(), Some(u64::from(ROUNDS) + 2), "{found}");
    }
    let models: Vec<Vec<f64>> =
        net.models().iter().map(|m| m.iter().map(|&bits| f64::from_bits(bits)).collect()).collect();
    let far =
        |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    let size = models[0].iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    assert!(models.iter().all(|m| far(m, &models[0]) < size), "{models:?}");
    // Nothing is lost any more.
    let (output, _) = rejoin(&net, 2, &[]);
    assert_ne!(output.status.code(), Some(0), "{}", text(&output));
}

/// The witness knows what was released, whatever neighbours say; and an old copy of the ledger is
/// brought up to date.
#[test]
fn a_witness_decides_what_may_have_been_released() {
    let net = Net::new("rejoin-witness", 4, &study("dgd"), "os");
    let witness = net.root.join("elsewhere");
    net.set(1, "witness", witness.display().to_string());
    let mut all = net.start_all();
    rounds(&net, 1, 40);
    all[1].kill();
    let copy = net.root.join("copy.db");
    fs::copy(net.folder(1).join("state.db"), &copy).unwrap();
    fs::copy(net.folder(1).join("state.db-wal"), net.root.join("copy.db-wal")).unwrap();
    all[1] = net.start(1);
    rounds(&net, 1, 40);
    all[1].kill();
    lose_disk(&net, 1);
    fs::copy(&copy, net.folder(1).join("state.db")).unwrap();
    fs::copy(net.root.join("copy.db-wal"), net.folder(1).join("state.db-wal")).unwrap();
    let (output, done) = rejoin(&net, 1, &[]);
    assert!(output.status.success(), "{}", text(&output));
    let number = |key: &str| done[key].as_u64().unwrap();
    assert!(number("known") > 0 && number("restored") > number("known"), "{done}");
    // What it made last and nobody received is spared; no more than that.
    assert_eq!(number("spared_until"), number("witness"), "{done}");
    assert!(number("witness") - number("restored") <= 1, "{done}");
    all[1] = net.start(1);
    finish(all, LIMIT);
    assert_eq!(net.transcript().len() as u32, 4 * (ROUNDS + 2));
}

/// A return in a second study took the rounds of the first one for its own, and spared as many more.
#[test]
fn a_return_in_a_second_study_counts_its_own_rounds_alone() {
    let first = study("dgd").replace("rounds = 900", "rounds = 60");
    let net = Net::new("rejoin-second", 4, &first, "os");
    let budget: toml::Table = "epsilon = 9.0\ndelta = 1e-5".parse().unwrap();
    (0..4).for_each(|site| net.set(site, "budget", toml::Value::Table(budget.clone())));
    net.set(1, "witness", net.root.join("elsewhere").display().to_string());
    finish(net.start_all(), LIMIT);
    let second = study("dgd").replace("name = \"net\"", "name = \"second\"");
    for site in 0..4 {
        fs::write(net.folder(site).join("experiment.toml"), &second).unwrap();
    }
    let mut all = net.start_all();
    rounds(&net, 1, 60);
    all[1].kill();
    lose_disk(&net, 1);
    let (output, done) = rejoin(&net, 1, &[]);
    assert!(output.status.success(), "{}", text(&output));
    let number = |key: &str| done[key].as_u64().unwrap();
    assert!(number("witness") >= 62 + number("restored"), "it has seen both: {done}");
    assert!(number("spared_until") <= number("restored") + 1, "{done}");
}

/// What neighbours do not prove is not taken, and who does not answer is named.
#[test]
fn nothing_is_restored_without_proof() {
    let net = Net::new("rejoin-proof", 4, &study("dgd"), "os");
    (0..4).for_each(|site| net.set(site, "deadline_seconds", 8.0));
    let mut all = net.start_all();
    rounds(&net, 2, 30);
    all.iter_mut().for_each(Process::kill);
    lose_disk(&net, 2);
    // One neighbour is gone.
    all[1] = net.start(1);
    let (output, _) = rejoin(&net, 2, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("site-3 did not answer"), "{}", text(&output));
    assert!(!net.folder(2).join("state.db").exists());
    all[1].kill();
    // One says that it has a round, and shows another site's signature, or none.
    let held = fs::read_dir(net.folder(1)).unwrap().map(|f| f.unwrap().path());
    let held = held.into_iter().find(|p| p.to_str().unwrap().contains("held-")).unwrap();
    let mut bytes = fs::read(&held).unwrap();
    bytes.iter_mut().skip(40).step_by(97).for_each(|byte| *byte ^= 1);
    fs::write(&held, bytes).unwrap();
    all[1] = net.start(1);
    let (output, _) = rejoin(&net, 2, &["--without", "site-3"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("site-1: it says that it has exchange"), "{}", text(&output));
    all[1].kill();
}

/// Duals are sums over all rounds: nobody holds them.
#[test]
fn an_algorithm_that_remembers_more_is_refused_with_words() {
    let stale = study("dgd").replace("gossip = 2", "gossip = 2\nstaleness = 3");
    for (name, study, words) in [
        ("admm", study("admm"), "admm remembers sums over all rounds"),
        (
            "tracking",
            study("gradient-tracking"),
            "gradient-tracking remembers sums over all rounds",
        ),
        ("extra", study("extra"), "extra remembers"),
        ("stale", stale, "staleness = 3: a site may be that many rounds ahead"),
    ] {
        let net = Net::new(&format!("rejoin-{name}"), 4, &study, "seed");
        let (output, _) = rejoin(&net, 2, &[]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(words), "{}", text(&output));
    }
}

/// It may have gone on without the honest neighbour, by any number of rounds: then "at most two
/// ahead" does not hold.
#[test]
fn a_site_that_goes_on_without_others_needs_a_witness_to_come_back() {
    let net = Net::new("rejoin-alone", 4, &study("dgd"), "os");
    net.set(2, "away", "continue-without");
    let (output, _) = rejoin(&net, 2, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("only a witness could say how many"), "{}", text(&output));
}
