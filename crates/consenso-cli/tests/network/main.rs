//! The real network, as real processes on loopback addresses, against the simulator.

mod budget;
mod changes;
mod corpora;
mod edges;
mod faults;
mod http2;
mod kill;
mod lifecycle;
mod masked;
mod mistakes;
mod operators;
mod partitions;
mod peer_failures;
mod questions;
mod recorder;
mod refusals;
mod rejoin;
mod shares;
mod signer;
mod transcript;

#[path = "../../../consenso-node/simulated/free_ports.rs"]
mod free_ports;

use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, Source};
use consenso_engine::random::Seed;
use consenso_engine::simulate::{Faults, over_messages};
use consenso_node::frame::{self, Hex, blake3};
use consenso_node::store::{Entry, Store};
use consenso_study::ExperimentFile as _;
use free_ports::free_ports as ports;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Hashes of the bytes of all releases, by agent and round.
type Transcript = BTreeMap<(usize, u32), String>;

/// An experiment on synthetic records.
fn experiment(agents: usize, graph: &str, algorithm: &str) -> String {
    format!(
        "name = \"net\"\nseed = 11\nruns = 1\n[data]\nsource = \"logistic\"\nagents = {agents}\nrecords_per_agent = 40\ndim = 14\n\
         [graph]\n{graph}\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\n{algorithm}\n"
    )
}

fn consenso() -> Command {
    Command::new(env!("CARGO_BIN_EXE_consenso"))
}

/// A network of a test, in a folder of its own.
struct Net {
    root: PathBuf,
    names: Vec<String>,
}

impl Net {
    fn new(test: &str, sites: usize, experiment: &str, entropy: &str) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("network-{test}"));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("experiment.toml"), experiment).unwrap();
        let names: Vec<String> = (0..sites).map(|i| format!("site-{i}")).collect();
        let addresses: Vec<String> =
            ports(sites).iter().map(|p| format!("127.0.0.1:{p}")).collect();
        let root = place.join("net");
        let made = consenso()
            .args(["network", "new"])
            .arg(&root)
            .args([
                "--sites",
                &names.join(","),
                "--addresses",
                &addresses.join(","),
                "--entropy",
                entropy,
            ])
            .arg("--experiment")
            .arg(place.join("experiment.toml"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made));
        Self { root, names }
    }

    fn folder(&self, site: usize) -> PathBuf {
        self.root.join(&self.names[site])
    }

    /// Changes a key of a site's `site.toml`.
    fn set(&self, site: usize, key: &str, value: impl Into<toml::Value>) {
        let path = self.folder(site).join("site.toml");
        let mut table: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        table.insert(key.into(), value.into());
        fs::write(path, table.to_string()).unwrap();
    }

    /// The study, as the simulator reads it.
    fn experiment(&self) -> Experiment {
        let text = fs::read_to_string(self.folder(0).join("experiment.toml")).unwrap();
        let spec = ExperimentSpec::from_toml(&text, "experiment.toml").unwrap();
        let source: Box<dyn Source> = match spec.synthetic() {
            Some(problem) => Box::new(problem.unwrap()),
            None => Box::new(consenso_study::bundled::heart_flamby(spec.data.encoding).unwrap()),
        };
        let inputs = Inputs {
            file: "experiment.toml".into(),
            text,
            spec,
            source,
            edges: None,
            entropy: None,
        };
        Experiment::check(inputs).unwrap()
    }

    fn start(&self, site: usize) -> Process {
        start(&self.folder(site))
    }

    fn start_all(&self) -> Vec<Process> {
        (0..self.names.len()).map(|site| self.start(site)).collect()
    }

    /// Rows that say what was released.
    fn ledger(&self, site: usize) -> Vec<Entry> {
        Store::look(&self.folder(site))
            .unwrap()
            .rows()
            .unwrap()
            .into_iter()
            .map(|r| r.entry)
            .collect()
    }

    /// What the ledgers say was released.
    fn transcript(&self) -> Transcript {
        let mut all = Transcript::new();
        for site in 0..self.names.len() {
            if !self.folder(site).join("state.db").exists() {
                continue;
            }
            for entry in self.ledger(site) {
                if let Entry::Release { round, blake3, .. } = entry {
                    assert_eq!(
                        all.insert((site, round), blake3),
                        None,
                        "{site} charged round {round} twice"
                    );
                }
            }
        }
        all
    }

    fn model(&self, site: usize) -> Vec<u64> {
        let store = Store::look(&self.folder(site)).unwrap();
        let checkpoint = store.checkpoint(1).unwrap().unwrap();
        bits(checkpoint.model().expect("the run is over"))
    }

    fn models(&self) -> Vec<Vec<u64>> {
        (0..self.names.len()).map(|site| self.model(site)).collect()
    }

    /// The lines of a site's audit log.
    fn audit(&self, site: usize) -> Vec<Value> {
        let text = fs::read_to_string(self.folder(site).join("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many lines a site's audit log has, if there is one.
    fn audit_len(&self, site: usize) -> usize {
        fs::read_to_string(self.folder(site).join("audit.jsonl"))
            .map_or(0, |text| text.lines().count())
    }

    fn reasons(&self, site: usize) -> Vec<String> {
        let refused = self.audit(site).into_iter().filter(|line| line["event"] == "refused");
        refused
            .map(|line| {
                format!("{}: {}", line["peer"].as_str().unwrap(), line["reason"].as_str().unwrap())
            })
            .collect()
    }

    /// No receiver ever saw two payloads of one round from one sender; and what it saw is what was
    /// charged.
    fn assert_one_payload_a_round(&self) {
        let charged = self.transcript();
        let mut seen = 0;
        for site in 0..self.names.len() {
            for line in self.audit(site).iter().filter(|line| line["event"] == "received") {
                let from =
                    self.names.iter().position(|n| *n == line["peer"].as_str().unwrap()).unwrap();
                let round = line["round"].as_u64().unwrap() as u32;
                assert_eq!(
                    Some(&charged[&(from, round)][..]),
                    line["blake3"].as_str(),
                    "{from} to {site}, round {round}"
                );
                seen += 1;
            }
        }
        assert!(seen > 0);
    }
}

/// A process that goes with the test, however that ends.
struct Process(Option<Child>);

impl Process {
    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("until its output is taken")
    }

    fn is_running(&mut self) -> bool {
        self.child().try_wait().unwrap().is_none()
    }

    /// SIGKILL.
    fn kill(&mut self) {
        let _ = self.child().kill();
        let _ = self.child().wait();
    }

    /// SIGTERM.
    fn terminate(&mut self) {
        Command::new("kill").args(["-TERM", &self.child().id().to_string()]).status().unwrap();
    }

    /// Waits for its end.
    fn output(mut self) -> Output {
        self.0.take().expect("once").wait_with_output().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.0.is_some() {
            self.kill();
        }
    }
}

fn start(folder: &Path) -> Process {
    let child = consenso()
        .args(["node", "run", "--json"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Process(Some(child))
}

/// Waits for processes that must all succeed; what each printed.
fn finish(processes: Vec<Process>, limit: Duration) -> Vec<Value> {
    let began = Instant::now();
    let mut all = Vec::new();
    for mut process in processes {
        while process.is_running() {
            if began.elapsed() > limit {
                process.kill();
                panic!("not over after {limit:?}: {}", text(&process.output()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let output = process.output();
        assert!(output.status.success(), "{}", text(&output));
        all.push(serde_json::from_slice(&output.stdout).unwrap());
    }
    all
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn bits(model: &[f64]) -> Vec<u64> {
    model.iter().map(|x| x.to_bits()).collect()
}

/// The same study in the simulator.
fn simulated(net: &Net) -> (Transcript, Vec<Vec<u64>>) {
    let experiment = net.experiment();
    let agents = (0..net.names.len()).map(|i| experiment.site(i).unwrap().agent).collect();
    let neighbours = |i: usize| experiment.graph().neighbours(i).to_vec();
    let (agents, traffic) =
        over_messages(agents, neighbours, &Faults::default(), &Seed::from(1)).unwrap();
    let hash = |m: &consenso_engine::agent::Message| {
        let bytes = frame::release(m.from(), m.round(), m.values());
        ((m.from() as usize, m.round()), Hex(&blake3(&bytes)).to_string())
    };
    let models = agents.iter().map(|a| bits(a.model().unwrap())).collect();
    (traffic.transcript.iter().map(hash).collect(), models)
}
