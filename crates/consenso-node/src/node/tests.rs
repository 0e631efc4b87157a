//! Two sites for the tests of a node, and what a round costs over what the transport alone costs.

use super::*;
use crate::folder::{Entropy, SiteFile};
use crate::network::{Plan, PlannedSite, create};
use consenso_engine::experiment::{ExperimentSpec, Inputs};
use std::path::Path;

const STUDY: &str = "name = \"two\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 2\nrecords_per_agent = 2\ndim = 3\n\
    [graph]\nkind = \"complete\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\nrounds = 6\ngossip = 1\n";

pub(super) fn experiment() -> Experiment {
    experiment_of(STUDY)
}

fn experiment_of(study: &str) -> Experiment {
    let spec: ExperimentSpec = toml::from_str(study).unwrap();
    let source = Box::new(spec.synthetic().unwrap().unwrap());
    let (file, text) = ("two".into(), study.into());
    Experiment::check(Inputs { file, text, spec, source, edges: None, entropy: None }).unwrap()
}

pub(super) fn two(root: &Path) -> [Folder; 2] {
    two_of(root, STUDY)
}

/// Two sites; only the first can be called.
fn two_of(root: &Path, study: &str) -> [Folder; 2] {
    let port = crate::free_ports::free_ports(1)[0];
    let site = |name: &str, address: Option<String>| PlannedSite {
        file: SiteFile { listen: address.clone(), entropy: Entropy::Seed, ..SiteFile::new(name) },
        address,
        records: 2,
    };
    let sites = vec![site("a", Some(format!("127.0.0.1:{port}"))), site("b", None)];
    create(root, &Plan { sites, experiment: study.into(), schema: None, edges: None }).unwrap();
    ["a", "b"].map(|name| Folder::read(&root.join(name)).unwrap())
}

/// What a round costs over what the transport alone costs: `cargo xtask bench network` prints it.
#[test]
#[ignore = "a measurement: cargo xtask bench network"]
fn rounds_in_round_trips_of_the_transport() {
    // In memory there is no disk to wait for: what is left is the node's own.
    let places = [("memory", Path::new("/dev/shm").to_owned()), ("disk", std::env::temp_dir())];
    for (medium, place) in places.iter().filter(|place| place.1.exists()) {
        for dim in [14, 10_000] {
            let root = place.join(format!("consenso-round-{dim}-{}", std::process::id()));
            let mut all: Vec<[f64; 5]> = (0..5).map(|_| measure(&root, dim)).collect();
            // The run of the median overhead stands for the others.
            let overhead = |m: &[f64; 5]| (m[1] - m[2]) / m[0];
            all.sort_by(|a, b| overhead(a).total_cmp(&overhead(b)));
            let [trip, round, draft, commit, fsync] = all[2];
            // To stdout, where the bench looks for it.
            let line = format!(
                "{{\"dim\":{dim},\"medium\":\"{medium}\",\"trip_us\":{trip:.1},\"round_us\":{round:.1},\"draft_us\":{draft:.1},\
                 \"commit_us\":{commit:.1},\"fsync_us\":{fsync:.1},\"ratio\":{:.2},\"best\":{:.2},\"worst\":{:.2}}}",
                (round - draft) / trip,
                overhead(&all[0]),
                overhead(&all[4]),
            );
            std::io::Write::write_all(&mut std::io::stdout(), (line + "\n").as_bytes()).unwrap();
        }
    }
}

/// Microseconds of a round trip, a round, its draft, its commit, and one fsync: means over many.
fn measure(root: &Path, dim: usize) -> [f64; 5] {
    let rounds = if dim < 1000 { 3000 } else { 600 };
    let _ = std::fs::remove_dir_all(root);
    let study = STUDY
        .replace("dim = 3", &format!("dim = {dim}"))
        .replace("rounds = 6", &format!("rounds = {rounds}"));
    let folders = two_of(root, &study);
    let trips = crate::link::tests_api::round_trips(&folders[0], &folders[1], dim, rounds + 50);
    let trip = trips[50..].iter().sum::<Duration>().as_secs_f64() / rounds as f64;
    let options = Options::default();
    let outcome = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(&folders[1], &experiment_of(&study), &Options::default()));
        let outcome = run(&folders[0], &experiment_of(&study), &options).unwrap();
        other.join().unwrap().unwrap();
        outcome
    });
    let (end, rounds) = (options.progress.get(), f64::from(outcome.round));
    let [round, draft, commit] = [end.seconds, end.drafting, end.committing].map(|s| s / rounds);
    let fsync = fsync_time(root, 8 * dim);
    std::fs::remove_dir_all(root).unwrap();
    [trip, round, draft, commit, fsync].map(|seconds| 1e6 * seconds)
}

/// Making as many bytes durable as a release has, in a file that need not grow, at two sites at
/// once, with the pauses of a round between: what the disk asks for at least.
fn fsync_time(root: &Path, bytes: usize) -> f64 {
    use std::os::unix::fs::FileExt as _;
    let one = |name| {
        let file = File::create(root.join(name)).unwrap();
        file.write_all_at(&vec![1; 200 * bytes], 0).unwrap();
        file.sync_all().unwrap();
        let mut all = Duration::ZERO;
        for i in 0..200 {
            std::thread::sleep(Duration::from_micros(100));
            let began = std::time::Instant::now();
            file.write_all_at(&vec![2; bytes], i * bytes as u64).unwrap();
            file.sync_data().unwrap();
            all += began.elapsed();
        }
        all.as_secs_f64() / 200.0
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| one("fsync-b"));
        f64::midpoint(one("fsync-a"), other.join().unwrap())
    })
}

/// How many rounds a second fifty sites make that are all neighbours of each other, as threads of
/// one process, and what a message costs: `cargo xtask bench network` prints it.
#[test]
#[ignore = "a measurement: cargo xtask bench network"]
fn rounds_of_complete_sites() {
    let sites: usize = std::env::var("CONSENSO_SITES").map_or(50, |n| n.parse().unwrap());
    let rounds: u32 = 20;
    let algorithm = format!("kind = \"dgd\"\nrounds = {rounds}\ngossip = 0");
    let text = crate::lying_peers::study(sites, "complete", &algorithm);
    let mut net = crate::lying_peers::Consortium::new("complete", sites, &text);
    net.folders.iter_mut().for_each(|folder| folder.site.deadline_seconds = 600.0);
    let progress: Vec<Watched> = (0..sites).map(|_| Watched::default()).collect();
    let began = processor_seconds();
    std::thread::scope(|scope| {
        for (folder, progress) in net.folders.iter().zip(&progress) {
            let options = Options { progress: progress.clone(), ..Options::default() };
            let experiment = net.experiment();
            scope.spawn(move || run(folder, &experiment, &options).unwrap());
        }
    });
    let seconds = progress.iter().map(|p| p.get().seconds).fold(0.0, f64::max);
    let messages = f64::from(rounds) * (sites * (sites - 1)) as f64;
    let line = format!(
        "{{\"sites\":{sites},\"rounds_per_second\":{:.2},\"processor_us_per_message\":{:.1}}}\n",
        f64::from(rounds) / seconds,
        1e6 * (processor_seconds() - began) / messages,
    );
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
}

/// What this process has taken of all processors.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |parts| parts.1).split_whitespace();
    // User and system time, in hundredths.
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}
