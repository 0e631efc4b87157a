//! Times of the simulator and the gradient beside their floors, as JSON lines; `cargo xtask bench`
//! sets them beside their peers.
//!
//!     cargo run --release -p consenso-engine --example bench_simulate -- [--million] [PART]…
//!
//! Parts are `example-b`, `gradient`, `high-dimension` and `scale`; all of them by default.
#![expect(clippy::disallowed_methods, reason = "a benchmark needs a clock")]
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
use consenso_engine::account::testing;
use consenso_engine::agent::{Player, Timetable};
use consenso_engine::data::{Records, Synthetic, SyntheticTask};
use consenso_engine::gate::{FilterPlan, Gate, Ledger, Noise, RoundNoise};
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::privacy::filter::RenyiFilter;
use consenso_engine::privacy::renyi_table::{IntervalNoise, RenyiTable, ShiftNorms};
use consenso_engine::problem::{LocalObjective, Loss, Objective, Sensitivity, Workspace};
use consenso_engine::protocol::{Admm, Dgd, Protocol, Schedule};
use consenso_engine::random::Seed;
use consenso_engine::simulate::Lockstep;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;

/// As the command has it.
#[global_allocator]
static ALLOCATOR: consenso_memory::HugePages = consenso_memory::HugePages;

const ROUNDS: u32 = 100;

fn seconds(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64()
}

/// Processor time of all threads: others that use the machine change it little.
fn processor(f: impl FnOnce()) -> f64 {
    let now = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
    };
    let start = now();
    f();
    now() - start
}

fn best(times: usize, mut f: impl FnMut() -> f64) -> f64 {
    (0..times).map(|_| f()).fold(f64::INFINITY, f64::min)
}

/// What the gates of a run do.
#[derive(Clone, Copy, PartialEq)]
enum Door {
    Open,
    Noise,
    Filter,
}

/// Rounds of one thread at d = 10^5 with 20 non-zeros a row, 10 agents of 3,000 records, and the
/// bytes a round cannot avoid: every non-zero twice, and for every agent its neighbours' rows, its
/// own, the gradient and the message.
fn high_dimension() -> (f64, f64) {
    let (agents, dim, seed) = (10, 100_000, Seed::from(5));
    let problem = Synthetic {
        nonzeros: Some(20),
        ..Synthetic::new(SyntheticTask::Logistic, agents, 3000, dim)
    };
    let records = problem.generate(&seed).expect("records");
    let protocol: Arc<dyn Protocol> =
        Arc::new(Dgd { step: Some(Schedule::Constant(1.0)), ..Dgd::default() });
    let mut network = network(records, 20, &seed, Door::Noise, &Ledger::Open, &protocol);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let round = pool.install(|| best(15, || processor(|| network.advance())));
    let bytes = (agents * 3000 * 20 * 12 * 2 + (2 * 20 + 6 * agents) * dim * 8) as f64;
    (round, bytes)
}

fn simulation(
    records: Vec<Records>,
    edges: usize,
    seed: &Seed,
    door: Door,
    ledger: &Ledger,
) -> Lockstep {
    let protocol = Admm { penalty: Some(10.0), dual_step: Some(0.5), ..Admm::default() };
    network(records, edges, seed, door, ledger, &(Arc::new(protocol) as _))
}

fn network(
    records: Vec<Records>,
    edges: usize,
    seed: &Seed,
    door: Door,
    ledger: &Ledger,
    protocol: &Arc<dyn Protocol>,
) -> Lockstep {
    let objective = Objective { loss: Loss::Logistic, regularization: 1.0 };
    let graph = Arc::new(Graph::random(records.len(), edges, seed).expect("a graph"));
    let mixing = Arc::new(Mixing::metropolis(&graph));
    let timetable = Arc::new(Timetable { rounds: ROUNDS, tail_from: ROUNDS, gossip: 0 });
    let laplace =
        |k: i32| RoundNoise::new(Noise::Laplace { scale: 1.02f64.powi(-k) }).expect("a scale");
    let noise: Arc<[RoundNoise]> = (1..=ROUNDS as i32).map(laplace).collect();
    let player = |(i, records): (usize, Records)| {
        let local = LocalObjective::new(objective, records);
        let gate = match door {
            Door::Open => Gate::open(i as u64, seed.clone()),
            _ => testing::gate(i as u64, seed.clone(), Arc::clone(&noise), ledger.clone()),
        };
        Player::new(local, Arc::clone(protocol), Arc::clone(&timetable), gate)
    };
    let players = records.into_iter().enumerate().map(player).collect();
    Lockstep::new(players, graph, mixing)
}

fn synthetic(agents: usize, rows: usize, dim: usize, seed: &Seed) -> Vec<Records> {
    Synthetic::new(SyntheticTask::Logistic, agents, rows, dim).generate(seed).expect("records")
}

/// The Rényi filter of `accounting = "filter"`: four orders, costs by the round for B = 0.01, D =
/// 10, β = 1.02^k.
fn filter() -> Ledger {
    let orders = [30.0, 40.0, 54.0, 76.0];
    let rates: Vec<f64> = (1..=ROUNDS as i32).map(|k| 1.02f64.powi(k)).collect();
    let norms = |rate: f64| ShiftNorms {
        inf: 1e-3 * rate,
        two: Some(1e-3 * rate),
        one: Some(3.8e-3 * rate),
    };
    let table = RenyiTable::new(IntervalNoise::Laplace, 1e-3, 7.3e-3, &orders).expect("a table");
    let rounds = rates.iter().map(|&rate| table.round(norms(rate)).expect("costs")).collect();
    let step = Sensitivity { l1: 3.8e-3, l2: 1e-3, linf: 1e-3 };
    let filter = RenyiFilter::new(&orders, 1.0, 1e-6).expect("a filter");
    Ledger::filter(
        Arc::new(FilterPlan::new(rounds, rates, vec![step; ROUNDS as usize], 14)),
        filter,
    )
}

/// Example (b) of the paper: N = 100, E = 200, b = 100, d = 14, K = 100, 10 runs side by side.
fn example_b(door: Door, ledger: &Ledger) -> f64 {
    best(9, || {
        let make = |r: u64| {
            let seed = Seed::from(7).for_run(r);
            simulation(synthetic(100, 100, 14, &seed), 200, &seed, door, ledger)
        };
        let mut runs: Vec<Lockstep> = (0..10).map(make).collect();
        seconds(|| runs.par_iter_mut().for_each(|run| (0..ROUNDS).for_each(|_| run.advance())))
    }) // seconds for 1,000 rounds: milliseconds a round
}

/// Milliseconds that a round of Example (b) takes at least on two threads: the gradient of its
/// 10,000 records as fast as in the first-level cache, and 1,400 numbers of exact noise as fast as
/// in one long release. Weights drawn for intervals, mixing, duals and records that lie in the
/// second-level cache come on top.
fn floor_of_example_b() -> f64 {
    let row = gradient(synthetic(1, 100, 14, &Seed::from(3)).remove(0), 2000);
    1e3 * (10_000.0 * row + 1_400.0 * exact_number()) / 2.0
}

/// Seconds that a number of exact noise takes in one long release.
fn exact_number() -> f64 {
    use consenso_engine::gate::exact::{Grid, release};
    use consenso_engine::random::Purpose;
    let (noise, count) = (Noise::Laplace { scale: 0.5 }, 100_000);
    let grid = Grid::for_scale(noise.scale()).expect("a grid");
    let (centres, steps, mut out) = (vec![0.3; count], vec![0.1; count], vec![0; count]);
    let mut rng = Seed::from(7).stream(Purpose::Release, 0, 0);
    best(15, || {
        processor(|| release(&mut rng, &centres, &steps, noise, grid, &mut out).expect("in range"))
    }) / count as f64
}

/// Bytes that `threads` threads together read from memory in a second of each one's processor time.
fn bandwidth(threads: usize) -> f64 {
    let block = vec![1.0f64; 32 << 20];
    let sum = |part: &[f64]| {
        let mut acc = [0.0; 16];
        for chunk in part.as_chunks::<16>().0 {
            for (a, x) in acc.iter_mut().zip(chunk) {
                *a += x;
            }
        }
        std::hint::black_box(acc);
    };
    // Threads that wait for work look for it first, and that counts too.
    let once = || match threads {
        1 => processor(|| sum(&block)),
        _ => processor(|| block.par_chunks(block.len() / threads).for_each(sum)) / threads as f64,
    };
    (block.len() * 8) as f64 / best(9, once)
}

/// Fused multiply-adds a second of one thread, from the gradient of a block that stays in the
/// first-level cache.
fn gradient(records: Records, times: usize) -> f64 {
    let (rows, dim) = (records.len(), records.dim());
    let objective = Objective { loss: Loss::Logistic, regularization: 0.0 };
    let local = LocalObjective::new(objective, records);
    let (x, mut g, mut work) = (vec![0.01; dim], vec![0.0; dim], Workspace::default());
    // Asking what the time is takes as long as a few hundred rows.
    let passes = (50_000 / rows).max(1);
    let mut pass = || (0..passes).for_each(|_| local.data_gradient(&x, &mut g, &mut work));
    best(times.div_ceil(passes).max(9), || processor(&mut pass)) / (rows * passes) as f64
}

/// Rows of six numbers and eight categories, one-hot, as Adult's are (d = 106): kept as codes.
fn categories(rows: usize) -> Records {
    use consenso_engine::data::{Column, Encoder, Encoding, Format, Kind, Label, Schema, csv};
    let word = |level: usize| format!("w{level}");
    let levels = [9, 16, 7, 15, 6, 5, 2, 41];
    let mut columns: Vec<Column> = (0..6)
        .map(|c| Column::new(format!("n{c}"), Kind::Numeric { min: 0.0, max: 1.0 }))
        .collect();
    columns.extend(levels.iter().enumerate().map(|(c, &levels)| {
        Column::new(
            format!("c{c}"),
            Kind::Categorical { categories: (0..levels).map(word).collect() },
        )
    }));
    columns
        .push(Column::new("label", Kind::Label(Label::Classes(vec!["no".into(), "yes".into()]))));
    let mut text: String = columns.iter().map(|c| format!("{},", c.name)).collect();
    text.pop();
    for j in 0..rows {
        text.push('\n');
        (0..6).for_each(|c| text.push_str(&format!("0.{},", (j * 37 + c * 11) % 97)));
        // Multiplied and shifted, so that neighbours in the file have different levels.
        let mixed = |c: usize| (j + c).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        levels
            .iter()
            .enumerate()
            .for_each(|(c, &levels)| text.push_str(&format!("{},", word(mixed(c) % levels))));
        text.push_str(if j % 3 == 0 { "yes" } else { "no" });
    }
    let schema = Schema::new(columns, Format::default(), true).expect("a schema");
    let table = csv::read(text.as_bytes(), "rows", &schema).expect("rows");
    Encoder::new(&schema, Encoding::OneHot).expect("an encoder").encode_table(&table)
}

/// Times `work`, and the bandwidth of so many threads before and after it: on a machine that others
/// use, a floor that was measured minutes earlier says nothing.
fn beside_memory(threads: usize, work: impl FnOnce() -> f64) -> (f64, f64) {
    let before = bandwidth(threads);
    let time = work();
    (time, before.max(bandwidth(threads)))
}

fn gradients() {
    // 64 MB of records, far beyond the caches: the floor is memory. Then one small block: the floor
    // is arithmetic.
    let dense = |dim: usize, rows: usize| synthetic(1, rows, dim, &Seed::from(3)).remove(0);
    let mut blocks: Vec<(Records, Records)> = Vec::new();
    blocks.extend(
        [14, 105, 1000].map(|dim| (dense(dim, 8_000_000 / dim), dense(dim, (2000 / dim).max(4)))),
    );
    blocks.push((categories(1_000_000), categories(3000)));
    for (large, small) in blocks {
        let dim = large.dim();
        // What is kept of a row, and its label.
        let bytes = large.stored() as f64 / large.len() as f64 * 8.0 + 8.0;
        let (streamed, one) = beside_memory(1, || gradient(large, 15));
        let (floor, cached) = (bytes / one, gradient(small, 2000));
        println!(
            r#"{{"name":"gradient","dim":{dim},"streamed_ns":{:.2},"floor_ns":{:.2},"cached_ns":{:.2},"bandwidth":{one:.4e}}}"#,
            streamed * 1e9,
            floor * 1e9,
            cached * 1e9
        );
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let million = arguments.iter().any(|a| a == "--million");
    let asked = || arguments.iter().filter(|a| !a.starts_with("--"));
    let wanted = |part: &str| asked().next().is_none() || asked().any(|a| a == part);
    if wanted("example-b") {
        let ledger = filter();
        let open = example_b(Door::Open, &Ledger::Open);
        let noisy = example_b(Door::Noise, &Ledger::Open);
        let filtered = example_b(Door::Filter, &ledger);
        let floor = floor_of_example_b();
        println!(
            r#"{{"name":"example-b","open_ms":{open:.5},"noise_ms":{noisy:.5},"filter_ms":{filtered:.5},"floor_ms":{floor:.5}}}"#
        );
    }
    let (one, two) = (bandwidth(1), bandwidth(2));
    println!(r#"{{"name":"bandwidth","one":{one:.4e},"two":{two:.4e}}}"#);
    if wanted("gradient") {
        gradients();
    }
    if wanted("high-dimension") {
        let mut bytes = 0.0;
        let (round, one) = beside_memory(1, || {
            let round;
            (round, bytes) = high_dimension();
            round
        });
        // Every one of its 10 agents adds exact noise to 100,000 numbers.
        let noise = 1e6 * exact_number();
        println!(
            r#"{{"name":"high-dimension","ms":{:.3},"floor_ms":{:.3},"noise_ms":{:.3}}}"#,
            round * 1e3,
            bytes / one * 1e3,
            noise * 1e3
        );
    }
    if !wanted("scale") {
        return;
    }
    let sizes: &[usize] =
        if million { &[1_000, 10_000, 100_000, 1_000_000] } else { &[1_000, 10_000, 100_000] };
    for &agents in sizes {
        let seed = Seed::from(11);
        let mut network = simulation(
            synthetic(agents, 100, 14, &seed),
            2 * agents,
            &seed,
            Door::Noise,
            &Ledger::Open,
        );
        network.advance();
        let mut wall = f64::INFINITY;
        let (round, two) = beside_memory(2, || {
            let mut once = || {
                let mut used = 0.0;
                wall = wall.min(seconds(|| used = processor(|| network.advance())));
                used / 2.0
            };
            best(if agents <= 10_000 { 40 } else { 9 }, &mut once)
        });
        let bytes = (agents * 100 * 15 * 8) as f64;
        println!(
            r#"{{"name":"scale","agents":{agents},"wall_ms":{:.3},"ms":{:.3},"ns_per_agent":{:.1},"floor_ms":{:.3},"bandwidth":{two:.4e}}}"#,
            wall * 1e3,
            round * 1e3,
            round * 1e9 / agents as f64,
            bytes / two * 1e3
        );
    }
}
