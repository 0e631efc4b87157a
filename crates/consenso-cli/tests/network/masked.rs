//! Masked sums between real processes: on a sparse graph, with secrets of the operating system,
//! when somebody dies for good and when everybody is killed.

use crate::{Net, bits, consenso, experiment, finish, text};
use consenso_engine::experiment::{Experiment, Inputs, Silent, run};
use consenso_node::store::{Entry, Store};
use consenso_study::ExperimentFile as _;
use std::collections::BTreeSet;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);

fn algorithm(rounds: u32, drop_outs: usize) -> String {
    format!(
        "kind = \"gd\"\naggregation = \"fixed\"\nrounds = {rounds}\nexchange = \"masked\"\ncolluders = 1\ndrop_outs = {drop_outs}"
    )
}

/// Rounds from which on sites say that they go on without one.
fn without(net: &Net, site: usize, gone: usize) -> BTreeSet<u32> {
    let rows = net.ledger(site).into_iter();
    rows.filter_map(|entry| match entry {
        Entry::Absent { round, neighbour, .. } if neighbour as usize == gone => Some(round),
        _ => None,
    })
    .collect()
}

/// The models of the simulator when `gone` is in no sum from `round` on.
fn simulated(net: &Net, gone: usize, round: u32) -> Vec<Vec<u64>> {
    let text = std::fs::read_to_string(net.folder(0).join("experiment.toml")).unwrap();
    let text = format!("{text}\n[[drop_out]]\nagent = {gone}\nround = {round}\n");
    let spec =
        consenso_engine::experiment::ExperimentSpec::from_toml(&text, "experiment.toml").unwrap();
    let source = Box::new(spec.synthetic().unwrap().unwrap());
    let file = "experiment.toml".into();
    let experiment =
        Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None }).unwrap();
    let models = &run(&experiment, &Silent).unwrap().models[0].agents;
    models.iter().map(|model| bits(model)).collect()
}

fn audited(net: &Net, site: usize) -> serde_json::Value {
    let audit =
        consenso().args(["--json", "node", "audit"]).arg(net.folder(site)).output().unwrap();
    assert!(audit.status.success(), "{}", text(&audit));
    serde_json::from_slice(&audit.stdout).unwrap()
}

/// One of six sites, each with four neighbours, dies for good in the middle; the others end with
/// the simulator's bits for the round in which it died, and it is told when it comes back.
#[test]
fn five_of_six_sites_go_on_without_the_one_that_dies() {
    let study = experiment(6, "kind = \"regular\"\ndegree = 4", &algorithm(40, 1));
    let net = Net::new("masked-death", 6, &study, "seed");
    for site in 0..6 {
        net.set(site, "away", "continue-without");
        net.set(site, "deadline_seconds", 3.0);
    }
    let mut all = net.start_all();
    while net.audit_len(4) < 60 {
        std::thread::sleep(Duration::from_millis(5));
    }
    all[4].kill();
    let dead = all.remove(4);
    let ends = finish(all, LIMIT);
    drop(dead);
    assert!(ends.iter().all(|end| end["round"] == 40 && end["one_model"] == true), "{ends:?}");
    let others = [0, 1, 2, 3, 5];
    let since: BTreeSet<u32> = others.iter().flat_map(|&site| without(&net, site, 4)).collect();
    let round = *since.last().expect("somebody gave it up");
    assert!(since.len() <= 2, "{since:?}");
    let simulated = simulated(&net, 4, round);
    for site in others {
        assert_eq!(net.model(site), simulated[site], "site {site}, without site 4 from {since:?}");
        assert_eq!(net.model(site), net.model(0), "all who remain have one model");
        let audited = audited(&net, site);
        assert_eq!(audited["holds"], true, "{audited}");
        let charged = net
            .ledger(site)
            .into_iter()
            .filter(|entry| matches!(entry, Entry::Release { charge, .. } if !charge.is_empty()));
        let charged = charged.count();
        assert!((40..=41).contains(&charged), "site {site} charged {charged} releases");
        let status =
            consenso().args(["--json", "node", "status"]).arg(net.folder(site)).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        assert_eq!(status["round"], 40, "{status}");
        assert!(
            !without(&net, site, 4).is_empty(),
            "site {site} does not say whom it went on without"
        );
    }
    net.transcript();
}

/// Secrets of the operating system, everybody killed again and again: masks cancel all the same,
/// for otherwise the sum would be no number of the range.
#[test]
fn masks_cancel_whoever_is_killed_and_secrets_go_with_the_study() {
    let study = experiment(4, "kind = \"ring\"", &algorithm(40, 0));
    let net = Net::new("masked-kill", 4, &study, "os");
    let mut all = net.start_all();
    for k in 0..16u64 {
        std::thread::sleep(Duration::from_millis(9 * (k % 7)));
        let site = (3 * k as usize) % 4;
        if all[site].is_running() {
            all[site].kill();
            all[site] = net.start(site);
        }
    }
    finish(all, LIMIT);
    let models = net.models();
    assert!(models.iter().all(|model| *model == models[0]), "everybody has the same sums");
    // Two exchanges a round, each once, and only the first of them charged.
    assert_eq!(net.transcript().len(), 4 * 80);
    for site in 0..4 {
        for entry in net.ledger(site) {
            if let Entry::Release { round, charge, .. } = entry {
                assert_eq!(!charge.is_empty(), round % 2 == 1, "exchange {round}");
            }
        }
        assert_eq!(audited(&net, site)["holds"], true);
        let keys = std::fs::read_dir(net.folder(site)).unwrap().map(|f| f.unwrap().path());
        assert!(
            !keys.into_iter().any(|p| p.extension().is_some_and(|e| e == "key")
                && p.file_name().unwrap().to_string_lossy().starts_with("edges")),
            "secrets outlive the study"
        );
    }
    // What a neighbour received has this site's signature, under masks too.
    let audit = consenso()
        .args(["--json", "node", "audit"])
        .arg(net.folder(0))
        .arg("--against")
        .arg(net.folder(1))
        .output()
        .unwrap();
    assert!(audit.status.success(), "{}", text(&audit));
    let value: serde_json::Value = serde_json::from_slice(&audit.stdout).unwrap();
    let (signed, agree) = (&value["against"][0]["signed"], &value["against"][0]["agree"]);
    assert!(signed == agree && signed.as_u64() > Some(40), "{value}");
    assert!(Store::look(&net.folder(0)).unwrap().checkpoint(1).unwrap().unwrap().is_shared());
}

/// Without a threshold nobody may be missed, and the operator reads why.
#[test]
fn without_drop_outs_a_death_ends_the_run() {
    let study = experiment(3, "kind = \"complete\"", &algorithm(4000, 0));
    let net = Net::new("masked-none", 3, &study, "seed");
    for site in 0..3 {
        net.set(site, "away", "continue-without");
        net.set(site, "deadline_seconds", 1.0);
    }
    let mut all = net.start_all();
    while net.audit_len(1) < 20 {
        std::thread::sleep(Duration::from_millis(5));
    }
    all[1].kill();
    for site in [2, 0] {
        let ended = all.remove(site).output();
        assert!(
            !ended.status.success() && text(&ended).contains("drop_outs = 0"),
            "{}",
            text(&ended)
        );
    }
}
