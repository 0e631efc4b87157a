//! Times of the simulator, as JSON lines; `cargo xtask bench` sets them beside their floors and peers.
#![expect(clippy::disallowed_methods, reason = "a benchmark needs a clock")]
#![expect(clippy::print_stdout, reason = "a benchmark prints")]
use consenso::agent::{Player, Timetable};
use consenso::data::Records;
use consenso::gate::{Gate, Ledger, Noise, RoundNoise};
use consenso::graph::{Graph, Mixing};
use consenso::problem::{LocalObjective, Loss, Objective, Workspace};
use consenso::protocol::Admm;
use consenso::random::{Purpose, Seed};
use consenso::simulate::Lockstep;
use rand::RngExt;
use rayon::prelude::*;
use std::sync::Arc;
use std::time::Instant;

fn records(seed: &Seed, agent: u64, rows: usize, dim: usize) -> Records {
    let mut stream = seed.stream(Purpose::Data, agent, 0);
    let mut out = Records::with_capacity(dim, rows);
    let mut row = vec![0.0; dim];
    for _ in 0..rows {
        row.iter_mut().for_each(|x| *x = stream.random::<f64>() - 0.5);
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.iter_mut().for_each(|x| *x /= norm);
        out.push(&row, if stream.random::<bool>() { 1.0 } else { -1.0 });
    }
    out
}

fn simulation(agents: usize, edges: usize, rows: usize, dim: usize, seed: &Seed, noisy: bool) -> Lockstep {
    let objective = Objective { loss: Loss::Logistic, regularization: 1.0 };
    let graph = Arc::new(Graph::random(agents, edges, seed).expect("a graph"));
    let mixing = Arc::new(Mixing::metropolis(&graph));
    let protocol = Arc::new(Admm { penalty: Some(10.0), dual_step: Some(0.5), ..Admm::default() });
    let timetable = Arc::new(Timetable { rounds: 100, tail_from: 100, gossip: 0 });
    let laplace = |k: i32| RoundNoise::new(Noise::Laplace { scale: 1.02f64.powi(-k) }).expect("a scale");
    let noise: Arc<[RoundNoise]> = (1..=if noisy { 100 } else { 0 }).map(laplace).collect();
    let players = (0..agents)
        .into_par_iter()
        .map(|i| {
            let local = LocalObjective::new(objective, records(seed, i as u64, rows, dim));
            let gate = Gate::new(i as u64, seed.clone(), Arc::clone(&noise), Ledger::Open);
            Player::new(local, protocol.clone(), Arc::clone(&timetable), gate)
        })
        .collect();
    Lockstep::new(players, graph, mixing)
}

fn main() {
    let seed = Seed::from(7);
    for noisy in [false, true] {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let mut runs: Vec<Lockstep> =
                (0..10).map(|r| simulation(100, 200, 100, 14, &seed.for_run(r), noisy)).collect();
            let start = Instant::now();
            runs.par_iter_mut().for_each(|run| (0..100).for_each(|_| run.advance()));
            best = best.min(start.elapsed().as_secs_f64());
        }
        println!("{{\"name\":\"example-b\",\"noise\":{noisy},\"ms_per_round\":{:.5}}}", best);
    }
    for dim in [14, 105, 1000] {
        let local = LocalObjective::new(
            Objective { loss: Loss::Logistic, regularization: 0.0 },
            records(&seed, 0, 2_000_000 / dim, dim),
        );
        let (x, mut g, mut work) = (vec![0.01; dim], vec![0.0; dim], Workspace::default());
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let start = Instant::now();
            local.gradient(&x, &mut g, &mut work);
            best = best.min(start.elapsed().as_secs_f64());
        }
        let bytes = local.records().padded().len() as f64 * 8.0;
        println!(
            "{{\"name\":\"gradient\",\"dim\":{dim},\"ns_per_row\":{:.2},\"gigabytes_per_second\":{:.2}}}",
            best * 1e9 / local.records().len() as f64,
            bytes / best / 1e9
        );
    }
}
