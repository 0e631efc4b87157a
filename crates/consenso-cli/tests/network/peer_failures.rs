//! Bad days and bad neighbours: whom a site waits for, for how long, and when it stops.

use crate::{Net, Process, experiment, finish, text};
use consenso_node::store::Entry;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// Long enough not to be over before it is disturbed.
fn long(sites: usize, graph: &str) -> String {
    experiment(sites, graph, "kind = \"dgd\"\nrounds = 200000\ngossip = 0")
}

fn wait_for(what: &str, mut found: impl FnMut() -> bool) {
    let began = Instant::now();
    while !found() {
        assert!(began.elapsed() < LIMIT, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn running(net: &Net) -> Vec<Process> {
    let all = net.start_all();
    wait_for("rounds", || net.audit_len(0) > 40);
    all
}

/// It went on alone, deaf to SIGTERM, and charged for releases that nobody received.
#[test]
fn a_site_that_lost_all_neighbours_stops_and_says_so() {
    let net = Net::new("alone", 2, &long(2, "kind = \"complete\""), "seed");
    net.set(0, "away", "continue-without");
    // Enough for the other to start on a busy machine.
    (0..2).for_each(|site| net.set(site, "deadline_seconds", 6.0));
    let mut all = running(&net);
    all[1].kill();
    let output = all.swap_remove(0).output();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("1 of the 2 sites that least_sites asks for are left"),
        "{}",
        text(&output)
    );
    let (ours, theirs) =
        (net.transcript().keys().filter(|k| k.0 == 0).count(), net.transcript().len());
    assert!(2 * ours <= theirs + 2, "nothing was released alone: {ours} of {theirs}");
    assert!(!net.ledger(0).iter().any(|e| matches!(e, Entry::Absent { .. })));
    // The state is kept, and the run goes on when the other is back.
    (0..2).for_each(|site| net.set(site, "deadline_seconds", 60.0));
    let before = net.audit_len(0);
    let mut both = net.start_all();
    wait_for("more rounds", || net.audit_len(0) > before + 40);
    both.iter_mut().for_each(Process::terminate);
    finish(both, LIMIT);
}

/// A connection that stays up and says nothing stalled a run for ever.
#[test]
fn a_connected_but_silent_neighbour_counts_as_away() {
    let net = Net::new("silent", 2, &long(2, "kind = \"complete\""), "seed");
    for site in 0..2 {
        net.set(site, "deadline_seconds", 2.0);
        // No sign of life is asked for on the link, so that it stays up.
        net.set(site, "keep_alive_seconds", 1000.0);
    }
    let mut all = running(&net);
    let silent = all[1].child().id().to_string();
    Command::new("kill").args(["-STOP", &silent]).status().unwrap();
    let output = all.swap_remove(0).output();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("site-1 not heard of for"), "{}", text(&output));
    Command::new("kill").args(["-CONT", &silent]).status().unwrap();
}

/// A site that waits for another is not blamed for it: it says that it is there.
#[test]
fn who_waits_for_somebody_else_is_not_taken_for_silent() {
    let net = Net::new("chain", 3, &long(3, "kind = \"path\""), "seed");
    (0..3).for_each(|site| net.set(site, "keep_alive_seconds", 1000.0));
    net.set(0, "deadline_seconds", 3.0);
    let mut all = running(&net);
    let silent = all[2].child().id().to_string();
    Command::new("kill").args(["-STOP", &silent]).status().unwrap();
    // Longer than the silence that site-0 stands; with signs of life it waits as long for each of
    // the three.
    std::thread::sleep(Duration::from_secs(6));
    assert!(all[0].is_running(), "site-1 waits for site-2, and says so");
    Command::new("kill").args(["-CONT", &silent]).status().unwrap();
    let before = net.audit_len(0);
    wait_for("more rounds", || net.audit_len(0) > before + 40);
    all.iter_mut().for_each(Process::terminate);
    finish(all, LIMIT);
}

/// 200 connections without a key kept every neighbour out for half a minute.
#[test]
fn idle_strangers_do_not_keep_a_neighbour_out() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5\ngossip = 0");
    let net = Net::new("strangers", 2, &study, "seed");
    let site: toml::Table =
        std::fs::read_to_string(net.folder(0).join("site.toml")).unwrap().parse().unwrap();
    let address = site["listen"].as_str().unwrap().to_owned();
    let first = net.start(0);
    let mut idle = Vec::new();
    wait_for("a listener", || TcpStream::connect(&address).map(|s| idle.push(s)).is_ok());
    while idle.len() < 200 {
        idle.push(TcpStream::connect(&address).unwrap());
    }
    let began = Instant::now();
    finish(vec![first, net.start(1)], LIMIT);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    drop(idle);
}

/// On a full disk, or after a crash, releases were not in the log, and nobody noticed.
#[test]
fn the_log_is_repaired_from_the_ledger() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 9\ngossip = 0");
    let net = Net::new("log", 2, &study, "seed");
    finish(net.start_all(), LIMIT);
    let path = net.folder(0).join("audit.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    let cut: Vec<&str> = whole.lines().filter(|line| !line.contains("\"round\":4,")).collect();
    // The last line is cut in the middle.
    std::fs::write(&path, cut.join("\n") + "\n{\"time\":\"20").unwrap();
    let audit = || {
        let output = crate::consenso()
            .args(["--json", "node", "audit"])
            .arg(net.folder(0))
            .output()
            .unwrap();
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), said["log"].clone())
    };
    assert_eq!(
        audit(),
        (Some(0), serde_json::json!({ "releases": 8, "missing": 1, "unknown": 0 }))
    );
    finish(vec![net.start(0)], LIMIT);
    assert_eq!(
        audit(),
        (Some(0), serde_json::json!({ "releases": 9, "missing": 0, "unknown": 0 }))
    );
    let repaired = std::fs::read_to_string(&path).unwrap();
    assert_eq!(repaired.lines().filter(|line| line.contains("\"repaired\":true")).count(), 1);
    // What only the log knows was cut from the ledger.
    let forged = whole.lines().find(|line| line.contains("\"released\"")).unwrap();
    let hash = serde_json::from_str::<serde_json::Value>(forged).unwrap()["ledger"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::write(&path, repaired + &forged.replace(&hash, &"0".repeat(64)) + "\n").unwrap();
    assert_eq!(
        audit(),
        (Some(1), serde_json::json!({ "releases": 9, "missing": 0, "unknown": 1 }))
    );
}
