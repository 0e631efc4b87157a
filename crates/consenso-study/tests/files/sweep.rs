//! Sweeps: one file at several budgets and sizes. And how the work of one file is divided: among
//! threads, shares and processes.

use consenso_engine::experiment::{
    Experiment, ExperimentSpec, Inputs, LargeProgress, LargeRecord, Machine, Silent, Source,
    SpecError, makespan, run, run_parted, run_streamed,
};
use consenso_engine::graph::Graph;
use consenso_engine::record::Record;
use consenso_engine::simulate::{RankBlocks, Ranks, SingleRank, ThreadRanks};
use consenso_study::ExperimentFile as _;

const FILE: &str = r#"
name = "small"
runs = 1
[data]
source = "logistic"
agents = 4
records_per_agent = 60
dim = 3
[graph]
kind = "ring"
[privacy]
epsilon = 2.0
delta = 1e-5
[sweep]
epsilon = [0.5, 2.0, 8.0]
agents = [4, 6]
[[algorithm]]
kind = "dgd"
rounds = 10
[[algorithm]]
kind = "dvp"
rounds = 10
"#;

fn checked(text: &str) -> Result<Experiment, SpecError> {
    let spec = ExperimentSpec::from_toml(text, "small.toml")?;
    let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
    Experiment::check(Inputs {
        file: "small.toml".into(),
        text: text.into(),
        spec,
        source,
        edges: None,
        entropy: None,
    })
}

fn ran(text: &str) -> Record {
    run(&checked(text).unwrap(), &Silent).unwrap().record
}

#[test]
fn every_point_has_its_own_noise_and_stays_within_its_budget() {
    let record = ran(FILE);
    let places: Vec<_> = record.sweep.iter().map(|p| (p.agents, p.epsilon.unwrap())).collect();
    assert_eq!(places, [(4, 0.5), (4, 2.0), (4, 8.0), (6, 0.5), (6, 2.0), (6, 8.0)]);
    for point in &record.sweep {
        assert_eq!((point.runs, point.algorithms.len()), (1, 2));
        for a in &point.algorithms {
            let (claim, budget) = (a.epsilon.as_ref().unwrap().claim, point.epsilon.unwrap());
            assert!(claim <= budget && claim > 0.99 * budget, "{}: {claim} of {budget}", a.label);
            assert!(a.curve.is_empty() && a.agents_stopped == 0.0);
        }
        assert!(
            point.baselines.majority_accuracy.is_some()
                && point.baselines.local_only_accuracy.is_some()
        );
    }
    // The record itself is that of the file's own settings, which are one of the points.
    assert_eq!(record.problem.agents, 4);
    let own = &record.sweep[1].algorithms[0];
    assert!(!record.algorithms[0].curve.is_empty());
    assert_eq!(own.log_error, record.algorithms[0].log_error);
    // Less budget, more noise.
    let error = |k: usize| record.sweep[k].algorithms[0].log_error;
    assert!(error(0) > error(1) && error(1) > error(2));
}

/// A point is the same as the file with its values written in.
#[test]
fn a_point_is_the_experiment_at_its_values() {
    let record = ran(FILE);
    let (head, tail) = FILE.split_once("[sweep]").unwrap();
    let algorithms = &tail[tail.find("[[algorithm]]").unwrap()..];
    let alone = format!("{head}{algorithms}")
        .replace("epsilon = 2.0", "epsilon = 8.0")
        .replace("agents = 4", "agents = 6");
    let alone = ran(&alone);
    assert!(alone.sweep.is_empty());
    assert_eq!(alone.algorithms[1].log_error, record.sweep[5].algorithms[1].log_error);
    // The resolved file keeps the sweep and repeats it.
    let again = ran(&record.resolved);
    assert_eq!(again.sweep, record.sweep);
}

#[test]
fn the_csv_has_a_row_a_point_and_algorithm() {
    let mut csv = Vec::new();
    ran(FILE).write_sweep(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(lines.len(), 1 + 6 * 2);
    assert!(lines.iter().all(|l| l.len() == 24));
    assert_eq!(
        lines[0][19..],
        ["figure", "figure_min", "figure_mean", "figure_max", "central_optimum_r2"]
    );
    assert_eq!(lines[0][..5], ["agents", "epsilon", "runs", "kind", "algorithm"]);
    assert_eq!(lines[1][..4], ["4", "0.5", "1", "dgd"]);
}

#[test]
fn a_sweep_over_nothing_is_an_error_that_says_where() {
    let refused = |from: &str, to: &str, parts: &[&str]| {
        let text = FILE.replace(from, to);
        assert_ne!(text, FILE);
        let error = checked(&text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{part} is missing from: {error}");
        }
    };
    refused(
        "epsilon = [0.5, 2.0, 8.0]\nagents = [4, 6]",
        "",
        &["small.toml:", "sweep", "nothing to vary"],
    );
    refused("[privacy]\nepsilon = 2.0\ndelta = 1e-5\n", "", &["sweep", "no [privacy]"]);
    refused("0.5, 2.0", "-0.5, 2.0", &["-0.5", "positive"]);
    refused("agents = [4, 6]", "agents = [4, 1]", &["agents = 1", "at least 2"]);
    refused("agents = [4, 6]", "agent = [4, 6]", &["small.toml:", "agent", "agents"]);
}

const DIMENSIONS: &str = r#"
name = "small"
runs = 2
[data]
source = "logistic"
agents = 5
records_per_agent = 300
dim = 8
informative = 8
[objective]
regularization = 0.0
clip = 1.0
[graph]
kind = "complete"
[privacy]
epsilon = 2.0
delta = 1e-5
[sweep]
dim = [8, 64, 512]
[[algorithm]]
kind = "gd"
label = "l2"
aggregation = "fixed"
step = 6.0
rounds = 20
noise = { calibrated = { mechanism = "gaussian", norm = "l2" } }
[[algorithm]]
kind = "gd"
label = "l1"
aggregation = "fixed"
step = 6.0
rounds = 20
noise = { calibrated = { mechanism = "gaussian", norm = "l1" } }
[[algorithm]]
kind = "gd"
label = "linf"
aggregation = "fixed"
step = 6.0
rounds = 20
noise = { calibrated = { mechanism = "laplace", norm = "linf" } }
[[algorithm]]
kind = "rcd"
step = 6.0
epochs = 20
max_dim = 64
"#;

/// The problem is one for every d, so what grows is what the noise does: nothing in l2 and l1, a
/// power of d in l∞.
#[test]
fn dimensions_cost_by_the_norm_that_noise_is_priced_in() {
    let record = ran(DIMENSIONS);
    assert_eq!(record.sweep.iter().map(|p| p.dim).collect::<Vec<_>>(), [8, 64, 512]);
    let optimum = |p: &consenso_engine::record::SweepPoint| p.baselines.central_optimum_objective;
    assert!(record.sweep.iter().all(|p| (optimum(p) - optimum(&record.sweep[0])).abs() < 1e-9));
    let gaps = |label: &str| -> Vec<(f64, f64)> {
        let of = |p: &consenso_engine::record::SweepPoint| {
            let found = p.algorithms.iter().find(|a| a.label == label)?;
            let claim = found.epsilon.as_ref().unwrap().claim;
            assert!(claim <= 2.0 && claim > 1.98, "{label}: {claim}");
            Some((p.dim as f64, found.optimum_gap))
        };
        record.sweep.iter().filter_map(of).collect()
    };
    let grows = |label: &str| consenso_study::report::exponent(&gaps(label)).unwrap();
    for flat in ["l2", "l1", "rcd"] {
        assert!(grows(flat).abs() < 0.2, "{flat}: {:?}", gaps(flat));
    }
    assert!(grows("linf") > 0.4, "{:?}", gaps("linf"));
    assert_eq!(gaps("rcd").len(), 2, "max_dim leaves the largest out");
    let (name, figure) = consenso_study::report::figures(&record).swap_remove(0);
    assert_eq!((name.as_str(), figure.series.len()), ("dimension", 8));
    let mut csv = Vec::new();
    record.write_sweep(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(csv.lines().next().unwrap().contains(",dim,optimum_gap,noise"));
    assert_eq!(csv.lines().count(), 1 + 4 + 4 + 3);
}

/// σ of Gaussian noise is in proportion to what is known: √d·B_∞ against B_2, and B_1 = √k·B_2 for
/// unit rows of k numbers.
#[test]
fn calibrated_noise_knows_one_norm_only() {
    let sigma = |norm: &str| -> f64 {
        let text = DIMENSIONS
            .replace("dim = [8, 64, 512]", "dim = [512]")
            .replace("dim = 8\n", "dim = 64\n");
        let text = text
            .replace("\"laplace\"", "\"gaussian\"")
            .replace("norm = \"l2\"", &format!("norm = \"{norm}\""));
        let text = text.replace("runs = 2", "runs = 1").replace("rounds = 20", "rounds = 2");
        let noise = ran(&text).algorithms[0].noise.clone();
        noise.trim_start_matches("Gaussian, σ ").parse().unwrap_or_else(|_| panic!("{noise}"))
    };
    let l2 = sigma("l2");
    assert!((sigma("linf") / l2 - 8.0).abs() < 0.02, "B_∞ = B_2 and d = 64");
    assert!((sigma("l1") / l2 - 8f64.sqrt()).abs() < 0.01);
}

#[test]
fn a_sweep_over_dimensions_says_what_is_wrong() {
    let change = |from: &str, to: &str, words: &str| {
        let refused = checked(&DIMENSIONS.replace(from, to)).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    };
    change("dim = [8, 64, 512]", "dim = [4]", "informative");
    change("max_dim = 64", "max_dim = 4", "max_dim = 4");
    change("epsilon = 2.0\n", "", "calibrated needs a budget");
    change("norm = \"l1\"", "norm = \"l3\"", "l3");
    let pp = "kind = \"pp\"\nnoise = { calibrated = { norm = \"l1\" } }";
    change("kind = \"rcd\"\nstep = 6.0\nepochs = 20", pp, "inside a problem");
}

/// Runs, algorithms, points and agents are cut among threads in many ways; the record is the same
/// to the last bit.
#[test]
fn the_number_of_threads_changes_nothing() {
    let text = FILE.replace("runs = 1", "runs = 3").replace("agents = [4, 6]", "agents = [4, 40]");
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        // Every float in full: a NaN is not equal to itself, its text is.
        pool.install(|| format!("{:?}", run(&checked(&text).unwrap(), &Silent).unwrap()))
    };
    let one = with(1);
    assert!(one.contains("sweep: [SweepPoint"));
    for threads in [2, 3, 8] {
        assert!(with(threads) == one, "{threads} threads give another record than one");
    }
}

/// The board's rule, computed from what the default experiment's pieces cost.
#[test]
fn sixteen_threads_do_the_default_run_twelve_times_as_fast() {
    let spec =
        ExperimentSpec::from_toml(consenso_study::experiment::built_in("adult").unwrap(), "adult")
            .unwrap();
    let data = consenso_study::bundled::adult(spec.data.encoding).unwrap();
    let source = Source::Data(Box::new(data));
    let text = String::new();
    let experiment = Experiment::check(Inputs {
        file: "adult".into(),
        text,
        spec,
        source,
        edges: None,
        entropy: None,
    })
    .unwrap();
    let costs = experiment.task_costs();
    let alone = makespan(&costs, 1, 1, 0.0);
    for (threads, least) in [(2, 1.9), (4, 3.6), (8, 6.8), (16, 12.0)] {
        let machine = Machine { threads, shared_cache: 32 << 20, memory: None };
        let width = experiment.outlook(&machine, None).side_by_side;
        // A thread that helps loses a fifth of its time waiting at the end of rounds.
        let gain = alone / makespan(&costs, threads, width, 0.2);
        println!("{threads} threads, {width} pieces side by side: {gain:.2} times as fast");
        assert!(gain >= least && gain <= threads as f64, "{threads} threads: {gain}");
    }
}

const LARGE: &str = r#"
name = "large"
runs = 2
trace_every = 1
[data]
source = "logistic"
agents = 23
records_per_agent = 40
dim = 5
heterogeneity = 0.4
[graph]
GRAPH
[privacy]
epsilon = 3.0
delta = 1e-5
[[algorithm]]
kind = "admm"
rounds = 12
[[algorithm]]
kind = "dgd"
rounds = 9
gossip = 3
"#;

/// The record of so many ranks, which are threads here; `end` stops them when the given place is
/// saved.
fn on_ranks(
    text: &str,
    ranks: usize,
    end: Option<(u32, u32)>,
) -> (Option<LargeRecord>, Vec<Vec<u8>>) {
    let experiment = checked(text).unwrap();
    let rank = |end_of: ThreadRanks, from: Option<LargeProgress>| {
        let (mut ends, mut saved) = (end_of, Vec::new());
        let done = run_parted(&experiment, &mut ends, from, 5, |progress| {
            saved = postcard::to_stdvec(progress).unwrap();
            if end == Some(progress.place()) { Err("killed".into()) } else { Ok(()) }
        });
        (done.ok().flatten(), saved)
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = ThreadRanks::new(ranks)
            .into_iter()
            .map(|end| scope.spawn(|| rank(end, None)))
            .collect();
        let mut all: Vec<_> = all.into_iter().map(|t| t.join().unwrap()).collect();
        (all[0].0.take(), all.into_iter().map(|a| a.1).collect())
    })
}

/// A graph divided among processes gives the transcript of one process, bit for bit, and the same
/// curve as the simulator of one machine.
#[test]
fn the_number_of_processes_changes_nothing() {
    for graph in ["kind = \"ring\"", "kind = \"random\"\nedges = 50", "kind = \"complete\""] {
        let text = LARGE.replace("GRAPH", graph);
        let alone = ran(&text);
        let one = on_ranks(&text, 1, None).0.unwrap();
        for (algorithm, large) in alone.algorithms.iter().zip(&one.algorithms) {
            for run in &large.runs {
                let rows: Vec<_> =
                    algorithm.trace.iter().filter(|row| row.run == run.run).collect();
                assert_eq!(rows.len(), run.curve.len());
                for (row, point) in rows.iter().zip(&run.curve) {
                    let bits = |a: f64, b: f64| (a.to_bits(), b.to_bits());
                    assert_eq!(
                        (row.round, bits(row.objective, row.disagreement), row.test_accuracy),
                        (
                            point.round,
                            bits(point.objective, point.disagreement),
                            point.test_accuracy
                        )
                    );
                }
            }
        }
        for ranks in [2, 3, 4] {
            let several = on_ranks(&text, ranks, None).0.unwrap();
            assert!(several.halo_rows > 0 && several.ranks == ranks);
            assert_eq!(several.algorithms, one.algorithms, "{ranks} ranks, {graph}");
        }
    }
}

/// Agents that are made anew in every round release the same as agents that stay, alone and
/// divided, and from a checkpoint on.
#[test]
fn streaming_changes_nothing() {
    for graph in ["kind = \"ring\"", "kind = \"complete\""] {
        let text = LARGE.replace("GRAPH", graph);
        let held = on_ranks(&text, 1, None).0.unwrap();
        let experiment = checked(&text).unwrap();
        let mut saved = Vec::new();
        let streamed = run_streamed(&experiment, &mut SingleRank, None, 5, |progress| {
            if progress.place() == (1, 10) {
                saved = postcard::to_stdvec(progress).unwrap();
            }
            Ok(())
        });
        assert_eq!(streamed.unwrap().unwrap(), held, "{graph}");
        let from: LargeProgress = postcard::from_bytes(&saved).unwrap();
        let resumed = run_streamed(&experiment, &mut SingleRank, Some(from), 0, |_| Ok(()));
        assert_eq!(resumed.unwrap().unwrap(), held);
        let several = std::thread::scope(|scope| {
            let each = |mut end: ThreadRanks| {
                run_streamed(&experiment, &mut end, None, 0, |_| Ok(())).unwrap()
            };
            let all: Vec<_> =
                ThreadRanks::new(3).into_iter().map(|end| scope.spawn(move || each(end))).collect();
            all.into_iter().filter_map(|t| t.join().unwrap()).next()
        });
        assert_eq!(several.unwrap().algorithms, held.algorithms);
    }
}

/// From a checkpoint in the middle of the second run, three ranks end where an uninterrupted run
/// does.
#[test]
fn processes_go_on_from_their_checkpoints() {
    let text = LARGE.replace("GRAPH", "kind = \"ring\"");
    let whole = on_ranks(&text, 3, None).0.unwrap();
    let (none, saved) = on_ranks(&text, 3, Some((1, 10)));
    assert!(none.is_none());
    let experiment = checked(&text).unwrap();
    let done = std::thread::scope(|scope| {
        let ends = ThreadRanks::new(3).into_iter().zip(&saved);
        let all: Vec<_> = ends
            .map(|(mut end, saved)| {
                let experiment = &experiment;
                scope.spawn(move || {
                    let from: LargeProgress = postcard::from_bytes(saved).unwrap();
                    assert_eq!(from.place(), (1, 10));
                    run_parted(experiment, &mut end, Some(from), 0, |_| Ok(())).unwrap()
                })
            })
            .collect();
        all.into_iter().filter_map(|t| t.join().unwrap()).next()
    });
    assert_eq!(done.unwrap(), whole);
}

/// A ring with scrambled numbers is a ring again after the reverse Cuthill–McKee order: two rows
/// cross at every border.
#[test]
fn a_division_follows_the_graph_and_not_the_numbers() {
    let n = 60u32;
    let scrambled = |i: u32| i * 37 % n;
    let edges: Vec<(u32, u32)> = (0..n).map(|i| (scrambled(i), scrambled((i + 1) % n))).collect();
    let graph = Graph::from_edges(n as usize, &edges).unwrap();
    let division = RankBlocks::new(&graph, 4);
    assert_eq!(division.counts(), [15; 4]);
    assert!(division.halo(&graph) <= 4 * 4, "{}", division.halo(&graph));
    let ends = ThreadRanks::new(2);
    assert_eq!((ends[1].rank(), ends[1].ranks()), (1, 2));
}
