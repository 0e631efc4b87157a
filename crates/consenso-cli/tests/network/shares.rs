//! Secret shares over the network: two exchanges a round, a frame of its own for every neighbour,
//! and the simulator's bits at the end.

use crate::faults::behind_proxies;
use crate::kill::recorded;
use crate::recorder::Recorder;
use crate::{Net, Transcript, bits, consenso, experiment, finish, text};
use consenso_engine::sharing::{Phase, ShareEffect, ShareMessage, SharingAgent};
use consenso_node::frame::{self, Hex, blake3};
use consenso_node::store::{Entry, Store};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

fn study(sites: usize, rounds: u32) -> String {
    let algorithm = format!(
        "kind = \"gd\"\naggregation = \"fixed\"\nrounds = {rounds}\nexchange = \"secret-shared\"\ncolluders = 1"
    );
    experiment(sites, "kind = \"complete\"", &algorithm)
}

/// What the simulator's agents send, and where they end.
struct Simulated {
    /// Frames by (from, to, exchange).
    frames: BTreeMap<(usize, usize, u32), Vec<u8>>,
    models: Vec<Vec<u64>>,
}

impl Simulated {
    fn new(net: &Net) -> Self {
        let experiment = net.experiment();
        let mut agents: Vec<SharingAgent> =
            (0..net.names.len()).map(|i| experiment.sharing_site(i).unwrap().agent).collect();
        let (mut frames, mut flying): (BTreeMap<_, _>, Vec<ShareMessage>) = Default::default();
        loop {
            for agent in &mut agents {
                while let Some(effect) = agent.poll().unwrap() {
                    if let ShareEffect::Send(m) = effect {
                        let exchange = 2 * m.round().0 - u32::from(m.phase() == Phase::Share);
                        let bytes = frame::words(m.from(), m.to(), exchange, m.words()).to_vec();
                        frames.insert((m.from() as usize, m.to() as usize, exchange), bytes);
                        flying.push(m);
                    }
                }
            }
            let Some(m) = flying.pop() else { break };
            agents[m.to() as usize].handle(&m).unwrap();
        }
        Self { frames, models: agents.iter().map(|a| bits(a.model().unwrap())).collect() }
    }

    /// Hashes of everybody's frames of an exchange, by sender: what a ledger holds.
    fn transcript(&self) -> Transcript {
        let mut all: BTreeMap<(usize, u32), Vec<u8>> = BTreeMap::new();
        for (&(from, _, exchange), bytes) in &self.frames {
            all.entry((from, exchange)).or_default().extend_from_slice(bytes);
        }
        all.into_iter().map(|(key, bytes)| (key, hash(&bytes))).collect()
    }
}

fn hash(bytes: &[u8]) -> String {
    Hex(&blake3(bytes)).to_string()
}

/// Hashes of all that a site received, by (from, exchange); a frame may come again, another one may
/// not. The log is written after the round is on its way, so who is killed may lack its last lines.
fn received(net: &Net, site: usize) -> BTreeMap<(usize, u32), String> {
    let mut all = BTreeMap::new();
    for line in net.audit(site).iter().filter(|line| line["event"] == "received") {
        let from = net.names.iter().position(|n| *n == line["peer"].as_str().unwrap()).unwrap();
        let exchange = line["exchange"].as_u64().unwrap() as u32;
        assert_eq!(line["round"], exchange.div_ceil(2));
        let key = (from, exchange);
        let found = line["blake3"].as_str().unwrap().to_owned();
        if let Some(before) = all.insert(key, found.clone()) {
            assert_eq!(before, found, "{key:?} to {site} had two payloads");
        }
    }
    all
}

/// Every site ended with the simulator's model, charged what it sent once, and received its own
/// shares and nobody else's.
fn compare(net: &Net, killed: u32) {
    let simulated = Simulated::new(net);
    assert_eq!(net.transcript(), simulated.transcript());
    assert_eq!(net.models(), simulated.models);
    for site in 0..net.names.len() {
        let got = received(net, site);
        let all: HashSet<&String> = got.values().collect();
        for ((from, to, exchange), bytes) in &simulated.frames {
            let line = got.get(&(*from, *exchange));
            if *to == site {
                assert!(
                    line.map_or(killed > 0, |line| *line == hash(bytes)),
                    "{from} to {to}: {exchange}"
                );
            } else if exchange % 2 == 1 {
                assert!(!all.contains(&hash(bytes)), "{site} got the share of {to}");
            }
        }
    }
}

/// Of all that every site sent and received, inside TLS, not one word is of a share between two
/// others. Shares are uniform words of 64 bits: one in a place where it does not belong is a leak,
/// not chance (1e-11 for all of them together). Those of the site's own edges are all found, so the
/// search works.
fn assert_shares_reach_their_receiver_alone(net: &Net, recorder: &Recorder) {
    let sites = 0..net.names.len();
    let ways = || {
        sites.clone().flat_map(|a| sites.clone().map(move |b| (a, b))).filter(|way| way.0 != way.1)
    };
    for site in sites.clone() {
        let own = |way: &(usize, usize)| way.0 == site || way.1 == site;
        let mut heard: HashSet<[u8; 8]> = HashSet::new();
        for way in ways().filter(own) {
            heard
                .extend(recorder.bytes(way).windows(8).filter_map(|w| <[u8; 8]>::try_from(w).ok()));
        }
        for way in ways() {
            let shares = recorder.payloads(way).into_iter().filter(|payload| payload.0 % 2 == 1);
            for (exchange, bytes) in shares {
                let words = bytes[17..].as_chunks().0;
                assert_eq!(words.len(), 14);
                let found = words.iter().filter(|word| heard.contains(*word)).count();
                let expected = if own(&way) { 14 } else { 0 };
                assert_eq!(
                    found, expected,
                    "exchange {exchange} of {way:?} in the traffic of {site}"
                );
            }
        }
    }
}

#[test]
fn three_processes_share_what_the_simulator_shares_bit_for_bit_and_nobody_elses_shares() {
    let net = Net::new("shares", 3, &study(3, 30), "seed");
    let (_, record) = behind_proxies(&net);
    let recorder = Recorder::between(&net);
    let ends = finish(net.start_all(), LIMIT);
    assert!(ends.iter().all(|end| end["round"] == 30), "{ends:?}");
    compare(&net, 0);
    recorder.assert_one_payload_a_round(&net);
    assert_shares_reach_their_receiver_alone(&net, &recorder);
    // Of the wire itself nothing can be read: not two words of any share.
    let record = record.lock().unwrap();
    for (round, bytes) in Store::look(&net.folder(0)).unwrap().outbox(1).unwrap() {
        assert!(!record.windows(16).any(|w| w == &bytes[17..33]), "exchange {round} is readable");
    }
    // A round is charged with its shares; its sums are free. The events prove the claim.
    let charged = |entry: &Entry| match entry {
        Entry::Release { round, charge, .. } => Some((*round, !charge.is_empty())),
        _ => None,
    };
    for (round, charged) in net.ledger(1).iter().filter_map(charged) {
        assert_eq!(charged, round % 2 == 1, "exchange {round}");
    }
    let audited = consenso().args(["--json", "node", "audit"]).arg(net.folder(2)).output().unwrap();
    let audited: serde_json::Value = serde_json::from_slice(&audited.stdout).unwrap();
    let study = &audited["studies"][0];
    assert_eq!((&audited["holds"], &study["charged"]), (&true.into(), &30.into()), "{audited}");
    let (claimed, found) = (
        study["claimed"]["epsilon"].as_f64().unwrap(),
        study["recomputed"]["epsilon"].as_f64().unwrap(),
    );
    assert!(found <= claimed && found > 0.999 * claimed, "{audited}");
    assert!(study["claimed"]["adversary"].as_str().unwrap().contains("up to 1 of 3"), "{audited}");
    // People are told rounds, not exchanges.
    for (command, key) in [("status", "round"), ("model", "round")] {
        let said =
            consenso().args(["--json", "node", command]).arg(net.folder(1)).output().unwrap();
        let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
        assert_eq!(said[key], 30, "{command}: {said}");
    }
    let doctor = consenso().args(["--json", "node", "doctor"]).arg(net.folder(1)).output().unwrap();
    assert!(text(&doctor).contains("as announced"), "{}", text(&doctor));
}

#[test]
fn killed_processes_share_the_same_bytes_again_and_end_with_the_same_bits() {
    let net = Net::new("shares-kill", 3, &study(3, 600), "seed");
    let (killed, recorder) = recorded(&net, 8, 20..150, 5);
    assert!(killed >= 3, "the run was over too soon: {killed} kills");
    compare(&net, killed);
    assert_shares_reach_their_receiver_alone(&net, &recorder);
}

/// With noise and shares of the operating system a round drawn twice would be two equations for one
/// vector.
#[test]
fn killed_processes_never_share_a_vector_twice() {
    let net = Net::new("shares-kill-os", 3, &study(3, 600), "os");
    let (killed, recorder) = recorded(&net, 8, 20..150, 6);
    assert!(killed >= 3, "the run was over too soon: {killed} kills");
    assert_eq!(net.transcript().len(), 3 * 1200);
    for site in 0..3 {
        assert!(received(&net, site).len() >= 2 * 1200 - 2 * 8);
    }
    assert_shares_reach_their_receiver_alone(&net, &recorder);
    // All reveal the same sums, so all end with the same model.
    let models = net.models();
    assert!(models.iter().all(|m| *m == models[0]));
}

#[test]
fn nobody_can_be_done_without() {
    let net = Net::new("shares-away", 3, &study(3, 300), "seed");
    for site in [0, 1] {
        net.set(site, "away", "continue-without");
        net.set(site, "deadline_seconds", 1.0);
    }
    let refused = net.start(0).output();
    assert!(
        !refused.status.success() && text(&refused).contains("needs everybody's"),
        "{}",
        text(&refused)
    );
}
