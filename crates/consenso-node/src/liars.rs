//! Sites that lie, as real sites of a network on loopback addresses: what honest neighbours make of them.

use crate::folder::{Away, Entropy, Folder, SiteFile};
use crate::frame::{self, Frame};
use crate::network::{Plan, PlannedSite, create};
use crate::node::{NodeError, Options, Outcome, run};
use bytes::Bytes;
use consenso::experiment::{Experiment, ExperimentSpec, Inputs, Source};
use std::path::{Path, PathBuf};

/// What a site that lies sends: (exchange, receiver, its vector, to be changed).
pub(crate) type Lie = fn(u32, u32, &mut [f64]);

/// A release as the liar tells it to `peer`.
pub(crate) fn told(lie: Option<Lie>, peer: u32, bytes: Bytes) -> Bytes {
    match (lie, Frame::decode(&bytes)) {
        (Some(lie), Ok(Frame::Release { from, round, values })) => {
            let mut values = values.to_vec();
            lie(round, peer, &mut values);
            frame::release(from, round, &values)
        }
        _ => bytes,
    }
}

/// A network that goes with its test.
pub(crate) struct Consortium {
    root: PathBuf,
    pub(crate) folders: Vec<Folder>,
    study: String,
}

impl Consortium {
    pub(crate) fn new(test: &str, sites: usize, study: &str) -> Self {
        let root = std::env::temp_dir().join(format!("consenso-liars-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let held: Vec<_> = (0..sites).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let site = |i: usize| {
            let address = Some(held[i].local_addr().unwrap().to_string());
            let mut file = SiteFile { listen: address.clone(), entropy: Entropy::Seed, ..SiteFile::new("") };
            (file.name, file.deadline_seconds) = (format!("site-{i}"), 3.0);
            PlannedSite { file, address, records: 10 }
        };
        let sites = (0..sites).map(site).collect();
        create(&root, &Plan { sites, experiment: study.into(), schema: None, edges: None }).unwrap();
        let folder = |i: usize| Folder::read(&root.join(format!("site-{i}"))).unwrap();
        let folders = (0..held.len()).map(folder).collect();
        Self { root, folders, study: study.into() }
    }

    pub(crate) fn experiment(&self) -> Experiment {
        let spec: ExperimentSpec = toml::from_str(&self.study).unwrap();
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let (file, text) = ("liars".into(), self.study.clone());
        Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None }).unwrap()
    }

    /// Runs all sites, each in a thread of its own, to their ends; the first of them lies.
    pub(crate) fn run(&self, lie: Lie) -> Vec<Result<Outcome, NodeError>> {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..self.folders.len())
                .map(|i| {
                    let lie = (i == 0).then_some(lie);
                    let options = Options { lie, ..Options::default() };
                    scope.spawn(move || run(&self.folders[i], &self.experiment(), &options))
                })
                .collect();
            all.into_iter().map(|site| site.join().unwrap()).collect()
        })
    }

    pub(crate) fn log(&self, site: usize) -> String {
        std::fs::read_to_string(self.folders[site].path.join(crate::audit_log::FILE)).unwrap()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.root
    }
}

impl Drop for Consortium {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

pub(crate) fn study(agents: usize, graph: &str, algorithm: &str) -> String {
    format!(
        "name = \"liars\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = {agents}\nrecords_per_agent = 10\ndim = 3\n\
         [graph]\nkind = \"{graph}\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\n{algorithm}\n"
    )
}

fn once(round: u32, _: u32, values: &mut [f64]) {
    if round == 5 {
        values.fill(1e12);
    }
}

/// 1e12 once in round 5 on a path of five sites: every honest site ended "finished" with |x| = 3.9e10.
#[test]
fn one_message_beyond_the_range_is_refused_with_its_senders_name() {
    let text = study(5, "path", "kind = \"dgd\"\nrounds = 12\ngossip = 0");
    let net = Consortium::new("once", 5, &text);
    let all = net.run(once);
    let said = all[1].as_ref().unwrap_err();
    assert!(!said.is_input(), "a failed run, not bad input");
    assert!(said.to_string().contains("site-0 (refused: round 5 from agent 0 is out of range"), "{said}");
    assert!(all[1..].iter().all(Result::is_err), "nobody ends with a model");
    // Who may go on without it does, and ends with a model of the honest.
    let mut net = Consortium::new("without", 5, &text);
    for folder in &mut net.folders {
        folder.site.away = Away::ContinueWithout;
    }
    let all = net.run(once);
    let reach = net.experiment().plan_of(1).unwrap().range;
    for (site, outcome) in all.iter().enumerate().skip(1) {
        let model = outcome.as_ref().unwrap().model.as_ref().unwrap();
        assert!(model.iter().all(|x| x.abs() <= reach), "site {site}: {model:?}");
    }
}

/// Where no rule bounds what a neighbour may send, the end does: such a model is never "done".
#[test]
fn a_model_out_of_range_is_not_done_and_names_the_neighbour() {
    let text = study(3, "complete", "kind = \"admm\"\nrounds = 7\ngossip = 0");
    let net = Consortium::new("range", 3, &text);
    let all = net.run(|round, _, values| {
        if round >= 5 {
            values.fill(1e11);
        }
    });
    for (site, outcome) in all.iter().enumerate().skip(1) {
        let said = outcome.as_ref().unwrap_err();
        let named = matches!(said, NodeError::OutOfRange { peer, .. } if peer == "site-0");
        assert!(named && !said.is_input(), "{site}: {said}");
        assert!(!net.log(site).contains("\"event\":\"done\"") && net.log(site).contains("out-of-range"));
    }
}

/// The attacks that every honest site fell for, with and without a robust rule.
#[test]
fn a_robust_mix_ends_near_the_honest_model() {
    let distance = |rule: &str| {
        let text = study(4, "complete", &format!("kind = \"dgd\"\nrounds = 20\ngossip = 0\n{rule}"));
        let model = |lie: Lie| {
            let net = Consortium::new("robust", 4, &text);
            assert!(net.path().exists());
            net.run(lie).swap_remove(1).unwrap().model.unwrap()
        };
        let honest = model(|_, _, _| {});
        let pulled = model(|_, _, values| values.fill(20.0));
        honest.iter().zip(&pulled).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    };
    let (average, trimmed) = (distance(""), distance("mixing = \"trimmed\""));
    assert!(average > 5.0 && trimmed < 0.2 * average, "{average} {trimmed}");
}
