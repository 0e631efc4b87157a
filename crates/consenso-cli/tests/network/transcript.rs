//! One state machine, two worlds: real processes release what the simulator releases, bit for bit.

use crate::{Net, consenso, experiment, finish, simulated, start, text};
use consenso_node::store::Entry;
use std::fs;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// Ten processes, twenty edges, a hundred rounds of fourteen numbers. Seconds are those from all links up to the model.
fn ten(test: &str, algorithm: &str) -> f64 {
    let net = Net::new(test, 10, &experiment(10, "kind = \"random\"\nedges = 20", algorithm), "seed");
    let ends = finish(net.start_all(), LIMIT);
    let (transcript, models) = simulated(&net);
    assert_eq!(transcript.len(), 1000);
    assert_eq!(net.transcript(), transcript);
    assert_eq!(net.models(), models);
    net.assert_one_payload_a_round();
    let audited = consenso().args(["--json", "node", "audit"]).arg(net.folder(3)).output().unwrap();
    let audited: serde_json::Value = serde_json::from_slice(&audited.stdout).unwrap();
    let study = &audited["studies"][0];
    assert_eq!((&audited["holds"], &study["charged"]), (&true.into(), &100.into()), "{audited}");
    let (claimed, found) =
        (study["claimed"]["epsilon"].as_f64().unwrap(), study["recomputed"]["epsilon"].as_f64().unwrap());
    assert!(found <= claimed * (1.0 + 1e-9) && found > 0.9 * claimed, "{audited}");
    ends.iter().map(|end| end["seconds"].as_f64().unwrap()).fold(0.0, f64::max)
}

#[test]
fn ten_processes_release_what_the_simulator_releases_bit_for_bit() {
    let seconds = ten("ten", "kind = \"admm\"\nrounds = 100\ngossip = 0");
    eprintln!("ten processes, 100 rounds: {seconds:.2} s after the links were up");
}

#[test]
#[ignore = "a time, for an idle machine and an optimised build: cargo xtask soak"]
fn a_hundred_rounds_of_ten_processes_take_two_seconds() {
    let seconds = ten("ten-timed", "kind = \"admm\"\nrounds = 100\ngossip = 0");
    assert!(seconds <= 2.0, "{seconds} s");
}

#[test]
fn a_filter_keeps_its_account_across_processes() {
    let algorithm = "kind = \"gd-star\"\nrounds = 30\ngossip = 3";
    let text = experiment(3, "kind = \"path\"", algorithm)
        .replace("delta = 1e-6", "delta = 1e-6\naccounting = \"filter\"");
    let net = Net::new("filter", 3, &text, "seed");
    finish(net.start_all(), LIMIT);
    assert_eq!((net.transcript(), net.models()), simulated(&net));
    let charged = net
        .ledger(1)
        .iter()
        .filter(|e| matches!(e, Entry::Release { charge, .. } if !charge.is_empty()))
        .count();
    assert!((1..=30).contains(&charged), "{charged}");
    let audited = consenso().args(["node", "audit"]).arg(net.folder(1)).output().unwrap();
    assert!(
        audited.status.success() && crate::text(&audited).contains("renyi-filter"),
        "{}",
        crate::text(&audited)
    );
}

/// Three hospitals with a file each, and noise of the operating system: each opens its own file only.
#[test]
fn three_sites_with_a_file_each() {
    let place = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("network-files");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    for (site, rows) in [("a", 40), ("b", 50), ("c", 60)] {
        let mut csv = "age,weight,ill\n".to_owned();
        for k in 0..rows {
            let (age, ill) = (20 + (k * 7) % 60, if (k * 7) % 60 > 30 { "yes" } else { "no" });
            csv += &format!("{age},{},{ill}\n", 50 + (k * 3) % 50);
        }
        fs::write(place.join(format!("{site}.csv")), csv).unwrap();
    }
    let drafted = consenso()
        .args(["data", "schema"])
        .arg(place.join("a.csv"))
        .args(["--label", "ill"])
        .output()
        .unwrap();
    let schema = String::from_utf8(drafted.stdout).unwrap().replace("reviewed = false", "reviewed = true");
    fs::write(place.join("schema.toml"), schema).unwrap();
    let experiment = "name = \"hospitals\"\nruns = 1\n[data]\npath = \"?.csv\"\nschema = \"schema.toml\"\n[graph]\nkind = \"complete\"\n\
                      [privacy]\nepsilon = 2.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\nrounds = 20\n";
    fs::write(place.join("study.toml"), experiment).unwrap();
    let port = crate::ports(3).iter().map(|p| format!("127.0.0.1:{p}")).collect::<Vec<_>>().join(",");
    let root = place.join("net");
    let made = consenso()
        .args(["network", "new"])
        .arg(&root)
        .args(["--sites", "a,b,c", "--addresses", &port, "--experiment"])
        .arg(place.join("study.toml"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    // A site does not need the others' files.
    fs::remove_file(place.join("c.csv")).unwrap();
    let refused = start(&root.join("c")).output();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    fs::copy(place.join("b.csv"), place.join("c.csv")).unwrap();
    let refused = start(&root.join("c")).output();
    assert!(text(&refused).contains("50 records, but 60 were announced"), "{}", text(&refused));
    let mut csv = fs::read_to_string(place.join("b.csv")).unwrap();
    (0..10).for_each(|_| csv += "30,70,no\n");
    fs::write(place.join("c.csv"), csv).unwrap();
    let up = consenso().args(["--json", "network", "up"]).arg(&root).output().unwrap();
    assert!(up.status.success(), "{}", text(&up));
    let up: serde_json::Value = serde_json::from_slice(&up.stdout).unwrap();
    assert_eq!(up["sites"].as_array().unwrap().len(), 3);
    assert!(
        up["largest_distance"].as_f64().unwrap() < 1e-6,
        "gossip on a complete graph brings all to the mean: {up}"
    );
    let model = consenso().args(["--json", "node", "model"]).arg(root.join("b")).output().unwrap();
    let model: serde_json::Value = serde_json::from_slice(&model.stdout).unwrap();
    assert!(model["model"].as_array().unwrap().len() >= 3, "{model}");
}

/// An edited experiment is another study, and the budget of the records is spent.
#[test]
fn an_edited_experiment_does_not_get_a_new_budget() {
    let net =
        Net::new("edited", 2, &experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5"), "os");
    finish(net.start_all(), LIMIT);
    let path = net.folder(0).join("experiment.toml");
    let edited = fs::read_to_string(&path).unwrap().replace("epsilon = 1.0", "epsilon = 8.0");
    fs::write(&path, edited).unwrap();
    net.set(
        0,
        "budget",
        toml::Table::from_iter([("epsilon".to_owned(), 99.0.into()), ("delta".to_owned(), 0.5.into())]),
    );
    let refused = net.start(0).output();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused).contains("the budget of this site is ε = 1,"), "{}", text(&refused));
    // Nor does a lost ledger.
    fs::remove_file(net.folder(0).join("state.db")).unwrap();
    let refused = net.start(0).output();
    assert!(text(&refused).contains("its ledger (state.db) is missing"), "{}", text(&refused));
}

#[test]
fn sigterm_ends_a_node_after_its_round_and_it_goes_on() {
    let net = Net::new(
        "sigterm",
        3,
        &experiment(3, "kind = \"path\"", "kind = \"dgd\"\nrounds = 60\ngossip = 0"),
        "seed",
    );
    // The last site is not there yet, so the others wait in round 1.
    let waiting = [net.start(0), net.start(1)];
    let began = Instant::now();
    while net.folder(1).join("state.db").metadata().map_or(0, |m| m.len()) == 0
        || began.elapsed() < Duration::from_millis(500)
    {
        std::thread::sleep(Duration::from_millis(10));
        assert!(began.elapsed() < LIMIT);
    }
    for mut process in waiting {
        process.terminate();
        let output = process.output();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains("interrupted"), "{}", text(&output));
    }
    finish(net.start_all(), LIMIT);
    assert_eq!((net.transcript(), net.models()), simulated(&net));
}
