//! The whole asynchronous layer (links, TLS, HTTP/2, hello, resend, the node's loop, restart from
//! the store) over a network that a seed disturbs, under a clock that moves only when everybody
//! waits: the same seed gives the same run, event for event.
//!
//! `CONSENSO_SEED=17 cargo test -p consenso-node --lib simulated` repeats what seed 17 did.

mod disks;
mod hostile;
mod liar;
mod model;
mod network;
mod watched;

use self::network::{Host, Network, SimulatedFault, schedule};
use crate::admission;
use crate::agreement::{self, Agreement};
use crate::changes::{self, ChangeRequest};
use crate::folder::{Entropy, Folder, SiteFile};
use crate::network::{Plan, PlannedSite, create};
use crate::node::{NodeError, Options, Outcome, Prepared};
use crate::storage::memory::Memory;
use crate::store::{Entry, Row, Store};
use consenso_engine::agent::{Effect, Message};
use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, Source};
use consenso_engine::random::{Purpose, Seed};
use consenso_engine::simulate::{Faults, over_messages};
use rand::RngExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep_until, timeout};

const SITES: usize = 4;
const STUDY: &str = "name = \"four\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 4\nrecords_per_agent = 10\ndim = 3\n\
    [graph]\nkind = \"ring\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"admm\"\nrounds = 25\ngossip = 1\n";

/// Four sites that exchange secret shares, with noise that all add together: two exchanges per
/// round, a message of its own for every neighbour.
const SHARED: &str = "name = \"shared\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 4\nrecords_per_agent = 10\ndim = 3\n\
    [graph]\nkind = \"complete\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n\
    [[algorithm]]\nkind = \"gd\"\naggregation = \"fixed\"\nrounds = 12\nexchange = \"secret-shared\"\n";

/// Four sites on a ring that exchange masked sums: two exchanges per round, one message for both
/// neighbours.
const MASKED: &str = "name = \"masked\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 4\nrecords_per_agent = 10\ndim = 3\n\
    [graph]\nkind = \"ring\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n\
    [[algorithm]]\nkind = \"gd\"\naggregation = \"fixed\"\nrounds = 12\nexchange = \"masked\"\ncolluders = 1\n";

/// The seed under which nothing goes wrong.
const CALM: u64 = 0;

/// Milliseconds in which faults happen; then the network is whole again.
const TROUBLE: u64 = 4000;

fn experiment(study: &str) -> Experiment {
    let spec: ExperimentSpec = toml::from_str(study).unwrap();
    let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
    let (file, text) = ("four".into(), study.into());
    Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None }).unwrap()
}

/// Folders that go with the test. Ledgers are in memory, unless the test needs their files; so are
/// folders, where that can be.
struct Place {
    root: PathBuf,
    folders: Vec<Folder>,
    /// The ledgers of the sites; none: they are in the folders.
    ledgers: Vec<Memory>,
    experiment: Experiment,
    agreement: Option<Agreement>,
}

impl Place {
    fn new(test: &str, study: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let root = place.join(format!("consenso-simulated-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let site = |i: usize| {
            let address = Some(format!("host-{i}:1"));
            let mut file =
                SiteFile { listen: address.clone(), entropy: Entropy::Seed, ..SiteFile::new("") };
            (file.name, file.keep_alive_seconds) = (format!("site-{i}"), 0.5);
            PlannedSite { file, address, records: 10 }
        };
        let plan = Plan {
            sites: (0..SITES).map(site).collect(),
            experiment: study.into(),
            schema: None,
            edges: None,
        };
        create(&root, &plan).unwrap();
        let folders: Vec<Folder> =
            (0..SITES).map(|i| Folder::read(&root.join(format!("site-{i}"))).unwrap()).collect();
        let ledgers = folders.iter().map(|folder| Memory::new(&folder.path)).collect();
        Self { root, folders, ledgers, experiment: experiment(study), agreement: None }
    }

    /// Keeps ledgers in files, as a site does.
    fn on_disk(mut self) -> Self {
        self.ledgers.clear();
        self
    }

    /// The ledger of a site, for a node that starts.
    fn open(&self, site: usize, dim: usize) -> Result<Store, NodeError> {
        let folder = &self.folders[site];
        match self.ledgers.get(site) {
            Some(memory) => admission::not_old(folder, Store::on(Box::new(memory.clone()))?),
            None => admission::ledger(folder, dim),
        }
    }

    /// All rows of a site's ledger, verified.
    fn rows(&self, site: usize) -> Vec<Row> {
        let store = match self.ledgers.get(site) {
            Some(memory) => Store::verified(Box::new(memory.clone())),
            None => Store::look(&self.folders[site].path),
        };
        store.unwrap().rows().unwrap()
    }

    /// Forgets all runs.
    fn clear(&self) {
        self.ledgers.iter().for_each(Memory::clear);
        for folder in &self.folders {
            lose_state(folder);
            if let Some(agreement) = &self.agreement {
                let _ = std::fs::remove_file(agreement::path(&folder.path, &folder.study, 1));
                agreement::write(&agreement::promise(&folder.path, &folder.study, 1), agreement)
                    .unwrap();
            }
        }
    }

    /// Has all sites but those named sign a change, before anything has run.
    fn agree(mut self, request: &ChangeRequest, but: &[usize]) -> Self {
        let mut agreement = changes::propose(&self.folders[0], &self.experiment, request).unwrap();
        for folder in self.folders.iter().filter(|f| !but.contains(&f.me)) {
            changes::sign(folder, &self.experiment, &mut agreement).unwrap();
        }
        self.agreement = Some(agreement);
        self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Removes what a site keeps of its runs: keys, certificate and agreements stay.
fn lose_state(folder: &Folder) {
    let kept = ["state.db", "audit", "held-", "edges-", "rejoin", "witness"];
    for file in std::fs::read_dir(&folder.path).into_iter().flatten().flatten() {
        let name = file.file_name();
        if kept.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

type Running = JoinHandle<Result<Outcome, NodeError>>;

fn start(place: &Place, network: &Arc<Network>, site: usize) -> Running {
    let open = |dim| place.open(site, dim);
    let prepared =
        Prepared::with(&place.folders[site], &place.experiment, Default::default(), open).unwrap();
    let host = Arc::new(Host { network: Arc::clone(network), me: site });
    let network = Arc::clone(network);
    tokio::spawn(async move {
        let outcome = prepared.connect(&Options::default(), host).await?.run().await;
        network.say(&format!("site {site} ends"));
        outcome
    })
}

/// Runs all sites through what the seed has in store for them: what happened, and their models.
fn run(place: &Place, seed: u64) -> (Vec<String>, Vec<Vec<f64>>) {
    let (trace, models, _) = run_through(place, seed, schedule(seed));
    (trace, models)
}

/// Runs all sites through these faults: what happened, their models, and how long it took.
fn run_through(
    place: &Place,
    seed: u64,
    faults: Vec<(u64, SimulatedFault)>,
) -> (Vec<String>, Vec<Vec<f64>>, Duration) {
    run_without(place, seed, faults, None)
}

/// Runs all sites through these faults where one may die for good: what happened, the models of the
/// others, and how long it took.
fn run_without(
    place: &Place,
    seed: u64,
    faults: Vec<(u64, SimulatedFault)>,
    dead: Option<usize>,
) -> (Vec<String>, Vec<Vec<f64>>, Duration) {
    place.clear();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let network = Network::new(seed);
        let mut sites: Vec<Option<Running>> = (0..SITES).map(|_| None).collect();
        for (at, fault) in faults {
            sleep_until(network.began + Duration::from_millis(at)).await;
            if let SimulatedFault::Crash(site) = fault
                && let Some(running) = sites[site].take()
            {
                running.abort();
                // Its store is closed by the time another process opens it.
                drop(running.await);
            }
            network.apply(fault);
            if let (SimulatedFault::Agree(site), Some(agreement)) = (fault, &place.agreement) {
                let folder = Folder::read(&place.folders[site].path).unwrap();
                changes::apply(&folder, agreement).unwrap();
                if seed % 2 == 1 {
                    // Killed between the two files: the promise is still there.
                    let promise = agreement::promise(&folder.path, &folder.study, 1);
                    agreement::write(&promise, agreement).unwrap();
                }
            }
            if let SimulatedFault::Start(site) = fault
                && sites[site].is_none()
            {
                sites[site] = Some(start(place, &network, site));
            }
        }
        let mut models = Vec::new();
        for (i, site) in sites.into_iter().enumerate().filter(|(i, _)| Some(*i) != dead) {
            // Every crash is followed by a start, unless the site is gone for good.
            let Some(running) = site else {
                assert!(place.agreement.is_some(), "site {i} was not started again");
                models.push(Vec::new());
                continue;
            };
            // The default deadline is ten minutes: nobody should have to wait for it.
            let outcome = timeout(Duration::from_secs(300), running).await.expect("in time");
            let outcome = outcome.unwrap().unwrap();
            models.push(outcome.model.expect("to the end"));
        }
        let took = network.began.elapsed();
        let trace = std::mem::take(&mut network.state().trace);
        (trace, models, took)
    })
}

/// What the same agents do when nothing goes wrong, in the simulator.
fn undisturbed(experiment: &Experiment) -> Vec<Vec<f64>> {
    let agents = (0..SITES).map(|i| experiment.site(i).unwrap().agent).collect();
    let neighbours = |i: usize| experiment.graph().neighbours(i).to_vec();
    let (agents, _) =
        over_messages(agents, neighbours, &Faults::default(), &Seed::from(1)).unwrap();
    agents.iter().map(|a| a.model().unwrap().to_vec()).collect()
}

/// Every ledger has every round once; what a neighbour received is what was charged for.
fn check_ledgers(place: &Place) {
    let mut released = BTreeMap::new();
    let mut totals = BTreeSet::new();
    for folder in &place.folders {
        let rows = place.rows(folder.me);
        for row in &rows {
            if let Entry::Release { round, blake3, .. } = &row.entry {
                let before =
                    released.insert((folder.site.name.clone(), u64::from(*round)), blake3.clone());
                assert_eq!(before, None, "{} charged round {round} twice", folder.site.name);
            }
        }
        let audited = crate::claim::audit(&rows).unwrap().remove(0);
        assert_eq!((audited.releases, audited.charged, audited.holds), (26, 25, true));
        totals.insert(format!("{:?}", audited.recomputed));
    }
    assert_eq!(totals.len(), 1, "equal sites spend the same: {totals:?}");
    for folder in &place.folders {
        let log = std::fs::read_to_string(folder.path.join(crate::audit_log::FILE)).unwrap();
        for line in log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        {
            if line["event"] == "received" {
                let key =
                    (line["peer"].as_str().unwrap().to_owned(), line["round"].as_u64().unwrap());
                assert_eq!(Some(released[&key].as_str()), line["blake3"].as_str(), "{key:?}");
            }
        }
    }
}

fn seeds(from: u64, count: u64) -> Vec<u64> {
    match std::env::var("CONSENSO_SEED") {
        Ok(seed) => vec![seed.parse().expect("CONSENSO_SEED is a whole number")],
        Err(_) => (from..from + count).collect(),
    }
}

fn survive(test: &str, seeds: &[u64]) {
    let place = Place::new(test, STUDY);
    let expected = undisturbed(&place.experiment);
    survive_in(&place, &expected, seeds, check_ledgers);
}

fn survive_in(place: &Place, expected: &[Vec<f64>], seeds: &[u64], check: impl Fn(&Place)) {
    for &seed in seeds {
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            assert_eq!(run(place, seed).1, expected);
            check(place);
        }));
        if let Err(failure) = tried {
            eprintln!(
                "repeat it with CONSENSO_SEED={seed}; its faults, in milliseconds:\n{:?}",
                schedule(seed)
            );
            std::panic::resume_unwind(failure);
        }
    }
}

#[test]
fn disturbed_networks_end_with_the_undisturbed_models() {
    survive("few", &seeds(1, 24));
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn a_thousand_disturbed_networks_end_with_the_undisturbed_models() {
    survive("many", &seeds(1000, 1000));
}

fn survive_in_shares(test: &str, study: &str, seeds: &[u64]) {
    let place = Place::new(test, study);
    let (_, expected) = run(&place, CALM);
    let ledger = |place: &Place| -> Vec<(String, u32, String)> {
        let row = |folder: &Folder| {
            let rows = place.rows(folder.me);
            let name = folder.site.name.clone();
            rows.into_iter().filter_map(move |row| match row.entry {
                Entry::Release { round, blake3, .. } => Some((name.clone(), round, blake3)),
                _ => None,
            })
        };
        place.folders.iter().flat_map(row).collect()
    };
    let calm = ledger(&place);
    assert!(calm.len() >= 2 * 12 * SITES, "{}", calm.len());
    // Seeded, so the same shares: every exchange once, with the bytes of the calm run.
    survive_in(&place, &expected, seeds, |place| assert_eq!(ledger(place), calm));
}

#[test]
fn disturbed_networks_of_shares_end_with_the_calm_models() {
    survive_in_shares("shares", SHARED, &seeds(1, 12));
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn a_thousand_disturbed_networks_of_shares_end_with_the_calm_models() {
    survive_in_shares("shares-many", SHARED, &seeds(1000, 1000));
}

#[test]
fn disturbed_networks_of_masked_sums_end_with_the_calm_models() {
    survive_in_shares("masked", MASKED, &seeds(1, 12));
}

/// A site dies for good in the middle of everything else that happens. The others end with the
/// models that the simulator has for the round in which it died; nobody charges twice, and what was
/// charged stays within the claim.
fn survive_a_death(test: &str, graph: &str, seeds: &[u64]) {
    let study = MASKED.replace("\"ring\"", graph) + "drop_outs = 1\n";
    let mut place = Place::new(test, &study);
    for folder in &mut place.folders {
        // Long enough that nobody is given up for being slow while there is trouble.
        (folder.site.away, folder.site.deadline_seconds) =
            (crate::folder::Away::ContinueWithout, 20.0);
    }
    for &seed in seeds {
        eprintln!("repeat it with CONSENSO_SEED={seed}");
        let victim = (seed % 4) as usize;
        let mut faults = schedule(seed);
        let last = 1 + seed * 37 % TROUBLE;
        faults.retain(|(at, fault)| *at <= last || *fault != SimulatedFault::Start(victim));
        faults.push((last, SimulatedFault::Crash(victim)));
        faults.sort_by(|a, b| a.partial_cmp(b).unwrap());
        let (_, models, _) = run_without(&place, seed, faults, Some(victim));
        let others: Vec<usize> = (0..SITES).filter(|&i| i != victim).collect();
        let since: BTreeSet<u32> = others
            .iter()
            .flat_map(|&i| place.rows(i))
            .filter_map(|row| match row.entry {
                Entry::Absent { round, neighbour, .. } if neighbour as usize == victim => {
                    Some(round)
                }
                _ => None,
            })
            .collect();
        // Who heard its last words says one round later than who did not: it is in the sum of the
        // round between.
        let round = since.last().copied().unwrap_or(13);
        let played = format!("[[drop_out]]\nagent = {victim}\nround = {round}\n");
        let played = study.replace("[[algorithm]]", &format!("{played}[[algorithm]]"));
        let simulated = consenso_engine::experiment::run(
            &experiment(&played),
            &consenso_engine::experiment::Silent,
        )
        .unwrap();
        for (k, &i) in others.iter().enumerate() {
            let expected = simulated.models[0].agents[i].as_slice();
            assert_eq!(
                models[k], expected,
                "site {i}, seed {seed}, without {victim} from {since:?}"
            );
            let rows = place.rows(i);
            let audited = crate::claim::audit(&rows).unwrap().remove(0);
            assert!(audited.holds && (12..=13).contains(&audited.charged), "{audited:?}");
            let mut numbers = BTreeSet::new();
            for row in &rows {
                if let Entry::Release { round, .. } = row.entry {
                    assert!(numbers.insert(round), "exchange {round} was charged twice");
                }
            }
        }
    }
}

#[test]
fn a_death_does_not_end_masked_sums() {
    survive_a_death("death", "\"complete\"", &seeds(1, 8));
    survive_a_death("death-ring", "\"ring\"", &seeds(1, 8));
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn a_thousand_deaths_do_not_end_masked_sums() {
    survive_a_death("deaths", "\"complete\"", &seeds(1000, 500));
    survive_a_death("deaths-ring", "\"ring\"", &seeds(1000, 500));
}

#[test]
fn a_seed_repeats_its_run_event_for_event() {
    let place = Place::new("repeat", STUDY);
    for seed in seeds(1, 4) {
        let (first, models) = run(&place, seed);
        let (second, again) = run(&place, seed);
        let differs = first.iter().zip(&second).position(|(a, b)| a != b);
        assert_eq!(
            differs.map(|at| (&first[at], &second[at])),
            None,
            "seed {seed}, after {differs:?} events"
        );
        assert_eq!((first.len(), models), (second.len(), again));
        assert!(first.len() > 300, "{}", first.len());
    }
    let first = run(&place, 1);
    assert_ne!(first.0, run(&place, 2).0);
    // What a node does depends on what its ledger says, not on where that lies.
    let place = place.on_disk();
    assert_eq!(first, run(&place, 1));
}

/// The study with vectors of neighbours that may be `staleness` rounds old.
fn stale(staleness: u32) -> String {
    let old = "kind = \"admm\"\nrounds = 25\ngossip = 1";
    assert!(STUDY.contains(old));
    STUDY.replace(old, &format!("kind = \"dgd\"\nrounds = 60\ngossip = 3\nstaleness = {staleness}"))
}

/// Plays all sites again from what their ledgers say they mixed: hashes and models must be those of
/// the run. The oldest vector that was mixed.
fn replay(place: &Place, models: &[Vec<f64>]) -> u32 {
    let experiment = &place.experiment;
    let released = |folder: &Folder| -> Vec<(String, Vec<u32>)> {
        let rows = place.rows(folder.me);
        let all = rows.into_iter().filter_map(|row| match row.entry {
            Entry::Release { round, blake3, ages, .. } => Some((round, (blake3, ages))),
            _ => None,
        });
        all.zip(1..)
            .map(|((round, release), expected)| {
                assert_eq!(round, expected, "every round once");
                release
            })
            .collect()
    };
    let ledgers: Vec<_> = place.folders.iter().map(released).collect();
    let mut agents: Vec<_> = (0..SITES).map(|i| experiment.site(i).unwrap().agent).collect();
    let mut sent: Vec<Vec<Message>> = Vec::new();
    let mut oldest = 0;
    for round in 1..=ledgers[0].len() {
        let mut all = Vec::new();
        for (i, agent) in agents.iter_mut().enumerate() {
            if round > 1 {
                // Release `round` was made of what exchange `round - 1` had.
                for (&j, &age) in agent.neighbours().to_vec().iter().zip(&ledgers[i][round - 1].1) {
                    oldest = oldest.max(age);
                    if age as usize + 1 < round {
                        agent.handle(&sent[round - 2 - age as usize][j as usize]).unwrap();
                    }
                }
            }
            let Some(Effect::Charge { .. }) = agent.poll() else { panic!("a charge") };
            let Some(Effect::Send(message)) = agent.poll() else { panic!("a message") };
            let bytes = crate::frame::release(i as u32, message.round(), message.values());
            let hash = crate::frame::Hex(&crate::frame::release_hash(&bytes)).to_string();
            assert_eq!(
                (message.round() as usize, &hash),
                (round, &ledgers[i][round - 1].0),
                "site {i}"
            );
            all.push(message);
        }
        sent.push(all);
    }
    for (agent, model) in agents.iter_mut().zip(models) {
        for j in agent.neighbours().to_vec() {
            agent.handle(&sent.last().unwrap()[j as usize]).unwrap();
        }
        assert!(matches!(agent.poll(), Some(Effect::Done(_))));
        assert_eq!(agent.model().unwrap(), model);
    }
    oldest
}

/// Kills, partitions and resets: the ledger says what every release was made of, and played again
/// from that it is the same, bit for bit.
#[test]
fn what_was_mixed_late_is_in_the_ledger_and_can_be_played_again() {
    let place = Place::new("stale", &stale(6));
    let mut oldest = 0;
    for seed in seeds(1, 12) {
        let (_, models) = run(&place, seed);
        oldest = oldest.max(replay(&place, &models));
    }
    assert!(oldest > 1 && oldest <= 6, "{oldest}");
}

/// One link ten times slower than the others made everybody as slow as that link.
#[test]
fn one_slow_link_does_not_make_everybody_slow() {
    let took = |staleness: u32, slow: bool| {
        let place = Place::new(&format!("straggler-{staleness}-{slow}"), &stale(staleness));
        let mut faults = schedule(CALM);
        if slow {
            faults.insert(0, (0, SimulatedFault::Slower(0, 1)));
        }
        let (_, models, took) = run_through(&place, 5, faults);
        if staleness > 0 {
            replay(&place, &models);
        }
        took.as_secs_f64()
    };
    let (even, waits) = (took(0, false), took(0, true));
    let mixes = [2, 6, 24].map(|s| took(s, true));
    eprintln!(
        "63 exchanges of four sites on a ring: {even:.2} s; one link ten times slower: {waits:.2} s; with staleness 2, 6, 24: {mixes:.2?} s"
    );
    assert!(waits > 3.0 * even, "{even} {waits}");
    assert!(mixes[1] < 0.6 * waits && mixes[2] < 0.4 * waits, "{waits} {mixes:?}");
}

// ---- agreements
// ---------------------------------------------------------------------------------------------------------

/// The study under an algorithm that can do with other neighbours.
fn mixing() -> String {
    STUDY.replace("kind = \"admm\"", "kind = \"dgd\"")
}

/// Sites whose ledger has the agreement.
fn taken_up(place: &Place) -> Vec<usize> {
    let has = |folder: &&Folder| {
        let rows = place.rows(folder.me);
        rows.iter().filter(|row| matches!(row.entry, Entry::Changed { .. })).count() == 1
    };
    place.folders.iter().filter(has).map(|f| f.me).collect()
}

/// Kills, partitions and resets around the exchange in which two sites become neighbours: every
/// release is the simulator's.
#[test]
fn an_edge_that_is_added_in_a_disturbed_network_is_the_simulators() {
    const FROM: u32 = 12;
    let edge = ChangeRequest::Edge("site-0".into(), "site-2".into(), Some(FROM));
    let place = Place::new("edge-added", &mixing()).on_disk().agree(&edge, &[]);
    let graph = place.experiment.graph();
    let weight = changes::added(&place.folders[0], graph, place.agreement.as_slice())[0].weight;
    let mut agents: Vec<_> = (0..SITES).map(|i| place.experiment.site(i).unwrap().agent).collect();
    agents[0].join(2, weight, FROM).unwrap();
    agents[2].join(0, weight, FROM).unwrap();
    let neighbours = |i: usize| match i {
        0 => vec![1, 2, 3],
        2 => vec![0, 1, 3],
        _ => graph.neighbours(i).to_vec(),
    };
    let (agents, _) =
        over_messages(agents, neighbours, &Faults::default(), &Seed::from(1)).unwrap();
    let expected: Vec<Vec<f64>> = agents.iter().map(|a| a.model().unwrap().to_vec()).collect();
    assert_ne!(expected, undisturbed(&place.experiment));
    for seed in seeds(1, 16) {
        let mut faults = schedule(seed);
        let mut chance = Seed::from(seed).stream(Purpose::Network, 99, 0);
        faults.push((
            chance.random_range(0..TROUBLE),
            SimulatedFault::Agree(chance.random_range(0..SITES)),
        ));
        faults.sort_by(|a, b| a.partial_cmp(b).expect("no NaN here"));
        let (_, models, _) = run_through(&place, seed, faults);
        assert_eq!(models, expected, "repeat it with CONSENSO_SEED={seed}");
        check_ledgers(&place);
        assert_eq!(taken_up(&place), [0, 1, 2, 3], "CONSENSO_SEED={seed}");
    }
}

/// A site is gone for good and the others agree to go on: each does so at its own next exchange,
/// which its ledger says, and played again from that it is the same.
#[test]
fn a_site_that_leaves_a_disturbed_network_is_gone_without() {
    let leave = ChangeRequest::Leave("site-2".into());
    let place = Place::new("leaves", &mixing()).on_disk().agree(&leave, &[2]);
    let mut partly = 0;
    for seed in seeds(1, 16) {
        let mut chance = Seed::from(seed).stream(Purpose::Network, 98, 0);
        let gone = chance.random_range(20..250);
        let at = gone + chance.random_range(0..500);
        let mut faults = schedule(seed);
        faults.retain(|(time, fault)| {
            *time < gone || !matches!(fault, SimulatedFault::Start(2) | SimulatedFault::Crash(2))
        });
        faults.extend([
            (gone, SimulatedFault::Crash(2)),
            (at, SimulatedFault::Agree([0, 1, 3][chance.random_range(0..3)])),
        ]);
        faults.sort_by(|a, b| a.partial_cmp(b).expect("no NaN here"));
        let (_, models, _) = run_through(&place, seed, faults);
        // What each ledger says it released, and from where on without site 2.
        let (mut released, mut from) = (BTreeMap::new(), BTreeMap::new());
        for folder in &place.folders {
            for row in place.rows(folder.me) {
                match row.entry {
                    Entry::Release { round, blake3, .. } => {
                        assert_eq!(released.insert((folder.me, round), blake3), None, "twice");
                    }
                    Entry::Absent { round, neighbour: 2, .. } => {
                        from.insert(folder.me, round);
                    }
                    _ => {}
                }
            }
        }
        let last = released.keys().filter(|k| k.0 == 2).map(|k| k.1).max().unwrap_or(0);
        partly += usize::from(last > 0 && last < 26);
        let experiment = &place.experiment;
        let mut agents: Vec<_> = (0..SITES).map(|i| experiment.site(i).unwrap().agent).collect();
        loop {
            let mut sent = Vec::new();
            for (i, agent) in agents.iter_mut().enumerate() {
                loop {
                    if from.get(&i) == Some(&(agent.exchanges() + 1)) {
                        agent.go_without(2).unwrap();
                    }
                    match agent.poll() {
                        Some(Effect::Send(message)) if i != 2 || message.round() <= last => {
                            sent.push(message);
                        }
                        Some(_) => {}
                        None => break,
                    }
                }
            }
            if sent.is_empty() {
                break;
            }
            for message in sent {
                let bytes =
                    crate::frame::release(message.from(), message.round(), message.values());
                let hash = crate::frame::Hex(&crate::frame::release_hash(&bytes)).to_string();
                let place = (message.from() as usize, message.round());
                assert_eq!(released.remove(&place), Some(hash), "CONSENSO_SEED={seed}: {place:?}");
                for &to in experiment.graph().neighbours(place.0) {
                    agents[to as usize].handle(&message).unwrap();
                }
            }
        }
        assert!(released.is_empty(), "{released:?}");
        for site in [0, 1, 3] {
            assert_eq!(agents[site].model(), Some(&models[site][..]), "CONSENSO_SEED={seed}");
        }
    }
    assert!(partly > 8, "{partly} of 16 left in the middle");
}
