//! `consenso network change`: a site leaves, has its place taken, an edge is added, in a study that
//! goes on.

use crate::{Net, Process, bits, consenso, experiment, finish, ports, start, text};
use consenso_engine::agent::{Agent, Effect, Message};
use consenso_engine::graph::Mixing;
use consenso_engine::random::Seed;
use consenso_engine::simulate::{Faults, over_messages};
use consenso_node::frame::{self, Hex, blake3};
use consenso_node::store::Entry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(180);
const ROUNDS: u32 = 300;

fn study(algorithm: &str) -> String {
    experiment(
        4,
        "kind = \"ring\"",
        &format!("kind = \"{algorithm}\"\nrounds = {ROUNDS}\ngossip = 2"),
    )
}

fn change(words: &[&str], paths: &[&Path]) -> Output {
    let (first, rest) = words.split_first().unwrap();
    consenso().args(["--json", "network", "change", first]).args(paths).args(rest).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A refusal, in these words.
fn refused(output: &Output, words: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", text(output));
    assert!(text(output).contains(words), "{words}: {}", text(output));
}

impl Net {
    fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn propose(&self, site: usize, name: &str, what: &[&str]) -> Output {
        let file = self.file(name);
        let words = [&["propose"], what, &["--out", file.to_str().unwrap()]].concat();
        change(&words, &[&self.folder(site)])
    }

    fn sign(&self, site: usize, name: &str) -> Output {
        change(&["sign"], &[&self.folder(site), &self.file(name)])
    }

    fn apply(&self, site: usize, name: &str) -> Output {
        change(&["apply"], &[&self.folder(site), &self.file(name)])
    }

    /// Waits until a site has released this exchange.
    fn until(&self, site: usize, exchange: u32) {
        let began = Instant::now();
        let released = || {
            let all = fs::read_to_string(self.folder(site).join("audit.jsonl")).unwrap_or_default();
            all.lines().filter(|line| line.contains("\"released\"")).count() as u32
        };
        while released() < exchange {
            assert!(began.elapsed() < LIMIT, "{site} did not come to {exchange}: {}", released());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn taken_up(&self, site: usize) -> usize {
        self.ledger(site).iter().filter(|entry| matches!(entry, Entry::Changed { .. })).count()
    }
}

fn hash(message: &Message) -> String {
    Hex(&blake3(&frame::release(message.from(), message.round(), message.values()))).to_string()
}

/// What three sites release when the fourth is gone after its release `last`, and each goes on
/// without it from an exchange on.
fn without(
    net: &Net,
    gone: usize,
    last: u32,
    from: &BTreeMap<usize, u32>,
) -> (BTreeMap<(usize, u32), String>, Vec<Agent>) {
    let experiment = net.experiment();
    let mut agents: Vec<Agent> = (0..4).map(|i| experiment.site(i).unwrap().agent).collect();
    let mut transcript = BTreeMap::new();
    loop {
        let mut sent = Vec::new();
        for (i, agent) in agents.iter_mut().enumerate() {
            loop {
                if from.get(&i) == Some(&(agent.exchanges() + 1)) {
                    agent.go_without(gone as u32).unwrap();
                }
                match agent.poll() {
                    Some(Effect::Send(message)) if i != gone || message.round() <= last => {
                        sent.push(message);
                    }
                    Some(_) => {}
                    None => break,
                }
            }
        }
        if sent.is_empty() {
            return (transcript, agents);
        }
        for message in sent {
            transcript.insert((message.from() as usize, message.round()), hash(&message));
            for &to in experiment.graph().neighbours(message.from() as usize) {
                agents[to as usize].handle(&message).unwrap();
            }
        }
    }
}

/// A hospital leaves for good in the middle of a study; the others sign, one applies, and all go
/// on. Applied with kills around it.
#[test]
fn a_site_leaves_and_the_others_go_on() {
    let net = Net::new("change-leave", 4, &study("dgd"), "seed");
    let mut all = net.start_all();
    net.until(2, 30);
    all[2].kill();
    json(&net.propose(0, "leave.txt", &["--leave", "site-2"]));
    // Nobody can apply what is not signed by all, and it says who is missing.
    refused(&net.apply(0, "leave.txt"), "site-1, site-3 must sign it too");
    refused(&net.sign(2, "leave.txt"), "site-2 does not remain");
    json(&net.sign(1, "leave.txt"));
    let signed = json(&net.sign(3, "leave.txt"));
    assert_eq!(
        (signed["missing"].as_array().map(Vec::len), signed["number"].as_u64()),
        (Some(0), Some(1)),
        "{signed}"
    );
    // One that changed a word after the signatures is nobody's.
    let text_of = fs::read_to_string(net.file("leave.txt")).unwrap();
    for (forged, words) in [
        (text_of.replace("leave site-2", "leave site-1"), "cannot sign it"),
        (
            text_of.replacen("study ", "study ffff", 1).replacen(&text_of[31..35], "", 1),
            "is of study",
        ),
        (text_of.replace("number 1", "number 2"), "the next here has number 1"),
    ] {
        fs::write(net.file("forged.txt"), forged).unwrap();
        refused(&net.apply(0, "forged.txt"), words);
    }
    refused(&net.apply(2, "leave.txt"), "consenso node abandon");
    // Applied where the node was killed, and killed again while it takes it up; the others get it
    // over their links.
    all[0].kill();
    assert_eq!(json(&net.apply(0, "leave.txt"))["new"], true);
    all[0] = net.start(0);
    std::thread::sleep(Duration::from_millis(60));
    all[0].kill();
    all[0] = net.start(0);
    // The one that left keeps calling: it is refused by its name.
    net.set(2, "deadline_seconds", 3.0);
    let left = net.start(2).output();
    assert_eq!(left.status.code(), Some(1), "{}", text(&left));
    assert!(text(&left).contains("site-2 left the study (agreement 1)"), "{}", text(&left));
    let gone = all.remove(2);
    drop(gone);
    for end in finish(all, LIMIT) {
        assert_eq!(end["finished"], true, "{end}");
    }
    assert_eq!(json(&net.apply(0, "leave.txt"))["new"], false, "applied again it changes nothing");
    assert_eq!([0, 1, 3].map(|site| net.taken_up(site)), [1, 1, 1]);
    for site in [1, 3] {
        assert!(
            net.reasons(site).iter().any(|r| r.contains("left the study (agreement 1)")),
            "{:?}",
            net.reasons(site)
        );
    }
    // Every release is what the simulator says, given where each went on without it; and every
    // round is charged once.
    let found = net.transcript();
    let last = found.keys().filter(|k| k.0 == 2).map(|k| k.1).max().unwrap();
    let absent = |site: usize| {
        let of = |entry| match entry {
            Entry::Absent { round, neighbour: 2, .. } => Some(round),
            _ => None,
        };
        net.ledger(site).into_iter().find_map(of)
    };
    let from: BTreeMap<usize, u32> =
        [1, 3].into_iter().map(|site| (site, absent(site).unwrap())).collect();
    assert_eq!(absent(0), None, "no neighbour of it");
    let (mut expected, agents) = without(&net, 2, last, &from);
    expected.retain(|k, _| k.0 != 2 || k.1 <= last);
    assert_eq!(found, expected);
    for site in [0, 1, 3] {
        assert_eq!(Some(net.model(site)), agents[site].model().map(bits), "site {site}");
        let audited = json(
            &consenso().args(["--json", "node", "audit"]).arg(net.folder(site)).output().unwrap(),
        );
        assert_eq!(audited["holds"], true);
        let what = &audited["studies"][0]["changes"][0];
        assert_eq!(
            (what["change"].as_str(), what["signed"].as_array().map(Vec::len)),
            (Some("site-2 leaves"), Some(3)),
            "{what}"
        );
    }
    let page = net.file("page.html");
    let made = consenso()
        .args(["node", "report"])
        .arg(net.folder(0))
        .arg("--html")
        .arg(&page)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let written = fs::read_to_string(&page).unwrap();
    assert!(
        written.contains("Agreement 1: site-2 leaves. Signed by site-0, site-1, site-3."),
        "{written}"
    );
    // `network up` starts those that remain, and a study that is over stays over.
    let up = consenso().args(["--json", "network", "up"]).arg(&net.root).output().unwrap();
    assert_eq!(json(&up)["sites"].as_array().map(Vec::len), Some(3));
}

/// Two sites become neighbours in an exchange that lies ahead of both. Whoever is killed when, all
/// releases are those of the simulator.
#[test]
fn an_edge_is_added_while_processes_are_killed() {
    const FROM: u32 = 120;
    let net = Net::new("change-edge", 4, &study("dgd"), "seed");
    let mut all = net.start_all();
    net.until(0, 10);
    json(&net.propose(0, "edge.txt", &["--edge", "site-0,site-2", "--from", &FROM.to_string()]));
    json(&net.sign(2, "edge.txt"));
    // Both ends wait there, also after a kill, and say for what.
    net.until(0, FROM);
    all[0].kill();
    all[0] = net.start(0);
    std::thread::sleep(Duration::from_millis(800));
    assert_eq!(net.transcript().keys().filter(|k| k.0 == 0).map(|k| k.1).max(), Some(FROM));
    let status =
        json(&consenso().args(["--json", "node", "status"]).arg(net.folder(0)).output().unwrap());
    assert!(
        status["promised"]["change"].as_str().unwrap().contains("site-0 and site-2 are neighbours"),
        "{status}"
    );
    for site in [1, 3] {
        json(&net.sign(site, "edge.txt"));
    }
    assert_eq!(json(&net.apply(1, "edge.txt"))["running"], true);
    for (site, pause) in [(0, 0), (2, 30), (1, 60), (0, 200)] {
        std::thread::sleep(Duration::from_millis(pause));
        all[site].kill();
        all[site] = net.start(site);
    }
    finish(all, LIMIT);
    assert_eq!([0, 1, 2, 3].map(|site| net.taken_up(site)), [1; 4]);
    // The simulator with the same edge.
    let experiment = net.experiment();
    let mixing = Mixing::metropolis(experiment.graph());
    let weight = mixing.own(0).min(mixing.own(2)) / 2.0;
    let mut agents: Vec<Agent> = (0..4).map(|i| experiment.site(i).unwrap().agent).collect();
    agents[0].join(2, weight, FROM).unwrap();
    agents[2].join(0, weight, FROM).unwrap();
    let neighbours = |i: usize| -> Vec<u32> {
        let mut all = experiment.graph().neighbours(i).to_vec();
        all.extend([(0, 2), (2, 0)].iter().filter(|e| e.0 == i).map(|e| e.1));
        all
    };
    let (agents, traffic) =
        over_messages(agents, neighbours, &Faults::default(), &Seed::from(1)).unwrap();
    let expected: BTreeMap<(usize, u32), String> =
        traffic.transcript.iter().map(|m| ((m.from() as usize, m.round()), hash(m))).collect();
    assert_eq!(net.transcript(), expected);
    assert_eq!(net.models(), agents.iter().map(|a| bits(a.model().unwrap())).collect::<Vec<_>>());
    net.assert_one_payload_a_round();
    // Nothing of the rounds before went over the new edge.
    let over_it: Vec<u64> = net
        .audit(2)
        .iter()
        .filter(|l| l["event"] == "received" && l["peer"] == "site-0")
        .map(|l| l["round"].as_u64().unwrap())
        .collect();
    assert_eq!(
        (over_it.iter().min(), over_it.iter().max()),
        (Some(&u64::from(FROM)), Some(&(u64::from(ROUNDS) + 2)))
    );
}

/// An end withdrew and went on, and a site that is no end applied the text later: its neighbours
/// refused each other for good, and there was no way back.
#[test]
fn a_withdrawn_agreement_that_is_applied_later_does_not_end_the_study() {
    const FROM: u32 = 60;
    let net = Net::new("change-withdrawn", 4, &study("dgd"), "seed");
    let mut all = net.start_all();
    net.until(0, 5);
    // Nobody comes to the exchange in which the edge begins while commands take their time.
    all.iter_mut().for_each(Process::kill);
    json(&net.propose(0, "edge.txt", &["--edge", "site-0,site-2", "--from", &FROM.to_string()]));
    for site in 1..4 {
        json(&net.sign(site, "edge.txt"));
    }
    json(&change(&["withdraw"], &[&net.folder(0)]));
    all = net.start_all();
    // It has completed the exchange in which the edge begins; the other end waits there.
    net.until(0, FROM + 1);
    json(&net.apply(1, "edge.txt"));
    let began = Instant::now();
    while [0, 1, 2, 3].iter().any(|&site| net.taken_up(site) == 0) {
        assert!(began.elapsed() < LIMIT, "not taken up everywhere");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(net.audit(0).iter().any(|line| line["event"] == "agreement-too-late"));
    all[0].kill();
    all[0] = net.start(0);
    // Only such an edge can be taken back; then everybody goes on, in one state.
    let refused = net.propose(1, "no.txt", &["--part", "site-0,site-1"]);
    assert!(text(&refused).contains("no agreement has made"), "{}", text(&refused));
    json(&net.propose(1, "part.txt", &["--part", "site-0,site-2"]));
    for site in [0, 2, 3] {
        json(&net.sign(site, "part.txt"));
    }
    json(&net.apply(1, "part.txt"));
    finish(all, LIMIT);
    assert_eq!([0, 1, 2, 3].map(|site| net.taken_up(site)), [2; 4]);
    assert_eq!(net.transcript().len() as u32, 4 * (ROUNDS + 2));
    net.assert_one_payload_a_round();
}

/// A site's place is taken under another key: everything its predecessor released is booked as
/// spent, and the old key is out.
#[test]
fn a_site_is_replaced_by_another_key() {
    let net = Net::new("change-replace", 4, &study("dgd"), "os");
    let mut all = net.start_all();
    net.until(2, 40);
    all[2].kill();
    // Whoever comes makes its own key; the others agree to it.
    let new = net.root.join("new-2");
    let address = format!("127.0.0.1:{}", ports(1)[0]);
    let made = consenso()
        .args(["node", "init"])
        .arg(&new)
        .args(["--name", "site-2", "--listen", &address])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", text(&made));
    let certificate = new.join("certificate.pem");
    let what = [
        "--replace",
        "site-2",
        "--certificate",
        certificate.to_str().unwrap(),
        "--address",
        &address,
    ];
    refused(&net.propose(0, "none.txt", &what), "site-2 was never connected to this site");
    refused(&net.propose(1, "none.txt", &what[..4]), "give its --address");
    json(&net.propose(1, "replace.txt", &what));
    json(&net.sign(0, "replace.txt"));
    json(&net.sign(3, "replace.txt"));
    json(&net.apply(3, "replace.txt"));
    for file in ["peers.toml", "trust.pem", "experiment.toml"] {
        fs::copy(net.folder(1).join(file), new.join(file)).unwrap();
    }
    json(&change(&["apply"], &[&new, &net.file("replace.txt")]));
    // The old site, whose folder is all there, is not believed any more.
    net.set(2, "deadline_seconds", 3.0);
    let old = net.start(2).output();
    assert_ne!(old.status.code(), Some(0), "{}", text(&old));
    let site = fs::read_to_string(new.join("site.toml")).unwrap();
    fs::write(
        new.join("site.toml"),
        site.lines().filter(|l| !l.starts_with("metrics")).collect::<Vec<_>>().join("\n"),
    )
    .unwrap();
    // The new one cannot begin from nothing, and goes on with what the neighbours hold.
    let fresh = start(&new).output();
    assert_eq!(fresh.status.code(), Some(2), "{}", text(&fresh));
    assert!(text(&fresh).contains("consenso node rejoin"), "{}", text(&fresh));
    let done = json(&consenso().args(["--json", "node", "rejoin"]).arg(&new).output().unwrap());
    let restored = done["restored"].as_u64().unwrap();
    assert!(restored >= 40 && done["spared_until"].as_u64() == Some(restored + 2), "{done}");
    all[2] = start(&new);
    finish(all, LIMIT);
    // Charged as one that was never replaced; what neighbours received agrees with its ledger,
    // under both keys.
    let charges = |folder: &Path| -> Vec<(u32, Value)> {
        let rows = consenso_node::store::Store::look(folder).unwrap().rows().unwrap();
        let one = |row: consenso_node::store::Row| match row.entry {
            Entry::Release { round, charge, .. } => {
                Some((round, serde_json::to_value(charge).unwrap()))
            }
            _ => None,
        };
        rows.into_iter().filter_map(one).collect()
    };
    assert_eq!(charges(&new), charges(&net.folder(0)));
    let log = net.folder(1).join("audit.jsonl");
    let audited = consenso()
        .args(["--json", "node", "audit"])
        .arg(&new)
        .arg("--against")
        .arg(&log)
        .output()
        .unwrap();
    let audited = json(&audited);
    assert_eq!(
        (audited["holds"].as_bool(), audited["against"][0]["holds"].as_bool()),
        (Some(true), Some(true)),
        "{audited}"
    );
    assert!(audited["against"][0]["agree"].as_u64().unwrap() > u64::from(ROUNDS) - 2, "{audited}");
    assert!(
        net.reasons(1)
            .iter()
            .chain(&net.reasons(3))
            .any(|r| r.contains("is not listed in peers.toml")),
        "{:?}",
        net.reasons(3)
    );
}

/// What must not be agreed on, or not twice.
#[test]
fn agreements_that_would_not_stand_are_refused_with_words() {
    for (name, algorithm, what, words) in [
        ("admm", "admm", &["--leave", "site-2"][..], "admm cannot go on without a neighbour"),
        ("admm-edge", "admm", &["--edge", "site-0,site-2"], "admm cannot get another neighbour"),
        (
            "gd-star",
            "gd-star",
            &["--edge", "site-0,site-2"],
            "gd-star cannot get another neighbour",
        ),
        (
            "tracking",
            "gradient-tracking",
            &["--leave", "site-1"],
            "cannot go on without a neighbour",
        ),
    ] {
        let net = Net::new(&format!("change-{name}"), 4, &study(algorithm), "seed");
        refused(&net.propose(0, "a.txt", what), words);
    }
    let decor = experiment(4, "kind = \"ring\"", "kind = \"decor\"\nrounds = 20\ncolluders = 1");
    let net = Net::new("change-decor", 4, &decor, "seed");
    refused(
        &net.propose(0, "a.txt", &["--edge", "site-0,site-2"]),
        "its noise was chosen for the edges there were",
    );
    refused(&net.propose(0, "a.txt", &["--leave", "site-2"]), "noise that both share");
    let stale = study("dgd").replace("gossip = 2", "gossip = 2\nstaleness = 3");
    let net = Net::new("change-stale", 4, &stale, "seed");
    refused(&net.propose(0, "a.txt", &["--edge", "site-0,site-2"]), "staleness = 3");
    let certificate = net.folder(1).join("certificate.pem");
    let replace = [
        "--replace",
        "site-1",
        "--certificate",
        certificate.to_str().unwrap(),
        "--was",
        certificate.to_str().unwrap(),
    ];
    refused(&net.propose(0, "a.txt", &replace), "staleness = 3");
    let path = experiment(3, "kind = \"path\"", "kind = \"dgd\"\nrounds = 20");
    let net = Net::new("change-path", 3, &path, "seed");
    refused(&net.propose(0, "a.txt", &["--leave", "site-1"]), "nothing connects site-0 and site-2");
    refused(&net.propose(0, "a.txt", &["--leave", "site-9"]), "there is no site site-9");
    refused(&net.propose(0, "a.txt", &["--edge", "site-0,site-1"]), "neighbours already");
    refused(
        &net.propose(0, "a.txt", &["--edge", "site-0,site-2", "--from", "999"]),
        "exchanges 1 to",
    );
    let all = |what: &[&str]| change(&[&["all"], what].concat(), &[&net.root]);
    // An edge first, then the one in the middle can leave.
    json(&all(&["--edge", "site-0,site-2", "--from", "2"]));
    json(&net.propose(0, "leave.txt", &["--leave", "site-1"]));
    // A site signs one agreement of a number.
    refused(
        &net.propose(0, "edge.txt", &["--leave", "site-2"]),
        "site-0 has signed another agreement 2",
    );
    json(&change(&["withdraw"], &[&net.folder(0)]));
    refused(&change(&["withdraw"], &[&net.folder(0)]), "no agreement that is still open");
    json(&net.sign(2, "leave.txt"));
    json(&net.apply(0, "leave.txt"));
    // What was agreed on before cannot be applied in another place of the row, nor to another
    // study.
    let first = net.file("agreement-1.txt");
    assert_eq!(json(&change(&["apply"], &[&net.folder(0), &first]))["new"], false);
    let text_of = fs::read_to_string(&first).unwrap();
    fs::write(net.file("again.txt"), text_of.replace("number 1", "number 3")).unwrap();
    refused(&net.apply(0, "again.txt"), "does not follow the one that holds here");
    refused(&net.sign(2, "agreement-1.txt"), "agreement 1 holds already");
    let other = Net::new("change-other", 3, &path.replace("rounds = 20", "rounds = 21"), "seed");
    refused(&change(&["apply"], &[&other.folder(0), &first]), "is of study");
    refused(&change(&["sign"], &[&other.folder(0), &first]), "is of study");
}

/// Whoever signs two agreements of one number is named where they meet.
#[test]
fn two_agreements_of_one_number_are_found_and_their_signers_named() {
    let net = Net::new("change-two", 4, &study("dgd"), "seed");
    for (file, ends) in [("one.txt", "site-0,site-2"), ("two.txt", "site-1,site-3")] {
        json(&net.propose(0, file, &["--edge", ends, "--from", "250"]));
        for site in 1..4 {
            json(&net.sign(site, file));
        }
        for site in 0..4 {
            json(&change(&["withdraw"], &[&net.folder(site)]));
        }
    }
    json(&net.apply(0, "one.txt"));
    json(&net.apply(1, "two.txt"));
    let _all: Vec<Process> = [0, 1].map(|site| net.start(site)).into();
    let began = Instant::now();
    let found = |site: usize| -> Option<Value> {
        let text = fs::read_to_string(net.folder(site).join("audit.jsonl")).unwrap_or_default();
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["event"] == "two-agreements")
    };
    while found(0).is_none() || found(1).is_none() {
        assert!(began.elapsed() < LIMIT, "not found");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(found(0).unwrap()["signed_both"].as_array().map(Vec::len), Some(4));
    // They meet again and again, and it is written down once: 0.7 MB a second before.
    let count = |site: usize, event: &str| {
        net.audit(site).iter().filter(|line| line["event"] == event).count()
    };
    while count(0, "link-up") < 5 || count(1, "link-up") < 5 {
        assert!(began.elapsed() < LIMIT, "they do not meet again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!([0, 1].map(|site| count(site, "two-agreements")), [1, 1]);
}

/// What the guide says of backups, after agreements: the files that do not change are enough, and
/// neighbours that joined or left are known from them.
#[test]
fn a_site_that_lost_its_disk_comes_back_to_a_changed_network() {
    let net = Net::new("change-lost", 4, &study("dgd"), "os");
    let all_sign = |what: &[&str]| json(&change(&[&["all"], what].concat(), &[&net.root]));
    all_sign(&["--edge", "site-0,site-2", "--from", "10"]);
    let mut all = net.start_all();
    net.until(2, 30);
    all[1].kill();
    all_sign(&["--leave", "site-1"]);
    net.until(2, 60);
    all[2].kill();
    for file in fs::read_dir(net.folder(2)).unwrap().map(|f| f.unwrap().path()) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if ["state.db", "audit", "held-", "run.lock"].iter().any(|start| name.starts_with(start)) {
            fs::remove_file(file).unwrap();
        }
    }
    let done =
        json(&consenso().args(["--json", "node", "rejoin"]).arg(net.folder(2)).output().unwrap());
    let answered: Vec<&str> =
        done["answered"].as_array().unwrap().iter().map(|a| a["site"].as_str().unwrap()).collect();
    assert_eq!(answered, ["site-0", "site-3"], "{done}");
    assert!(done["restored"].as_u64().unwrap() >= 60, "{done}");
    all[2] = net.start(2);
    drop(all.remove(1));
    finish(all, LIMIT);
    let charges = |site: usize| -> Vec<(u32, Value)> {
        let one = |entry| match entry {
            Entry::Release { round, charge, .. } => {
                Some((round, serde_json::to_value(charge).unwrap()))
            }
            _ => None,
        };
        net.ledger(site).into_iter().filter_map(one).collect()
    };
    assert_eq!(charges(2), charges(0));
    assert_eq!([0, 2, 3].map(|site| net.taken_up(site)), [2; 3]);
    assert!(net.audit(0).iter().chain(&net.audit(3)).all(|l| l["event"] != "equivocation"));
}
