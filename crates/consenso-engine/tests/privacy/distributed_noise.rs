//! Distributed noise: every agent adds a part, the sum is all that is revealed, and those who do
//! not collude hide each other.

use consenso_engine::account::testing;
use consenso_engine::agent::{Player, Timetable};
use consenso_engine::audit::{AuditedClaim, Options, Side, Verdict, audit};
use consenso_engine::data::{Synthetic, SyntheticTask};
use consenso_engine::experiment::{
    Experiment, ExperimentSpec, Inputs, Notation, Silent, Source, run,
};
use consenso_engine::gate::{DraftScratch, Grid, Noise, RoundNoise, StopReason};
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::privacy::distributed_noise::{DistributedNoise, rounding_distance};
use consenso_engine::problem::{LocalObjective, Loss, Objective, Workspace};
use consenso_engine::protocol::{Admm, Aggregation, GradientDescent, Protocol, Schedule};
use consenso_engine::random::{Purpose, Seed};
use consenso_engine::sharing::{
    FixedPoint, Phase, ShareEffect, ShareError, ShareMessage, ShareRefusal, SharingAgent,
};
use consenso_engine::simulate::Lockstep;
use rand::RngExt;
use std::collections::BTreeMap;
use std::sync::Arc;

const BITS: u32 = 20;
const STEP: f64 = 0.5;

fn gd() -> Arc<dyn Protocol> {
    Arc::new(GradientDescent {
        step: Some(Schedule::Constant(STEP)),
        aggregation: Aggregation::Fixed,
    })
}

fn locals(agents: usize, dim: usize) -> Vec<LocalObjective> {
    let problem = Synthetic::new(SyntheticTask::Logistic, agents, 4, dim);
    let objective = Objective { loss: Loss::Logistic, regularization: 0.1 };
    let data = problem.generate(&Seed::from(5)).expect("valid");
    data.into_iter().map(|records| LocalObjective::new(objective, records)).collect()
}

fn code(agents: usize) -> FixedPoint {
    FixedPoint::new(agents, 1024.0, BITS).expect("far from overflow")
}

/// Players whose noise is `sigma` each, with a budget of `allowed` of `rounds` rounds.
fn players(
    locals: &[LocalObjective],
    protocol: &Arc<dyn Protocol>,
    sigma: f64,
    (rounds, allowed): (u32, u32),
    seed: &Seed,
) -> Vec<Player> {
    let timetable = Arc::new(Timetable { rounds, tail_from: rounds, gossip: 0 });
    let grid = Grid::new(-(BITS as i32)).expect("a grid");
    let noise: Arc<[RoundNoise]> =
        (0..rounds).map(|_| RoundNoise::on_grid(Noise::Gaussian { sigma }, grid)).collect();
    let ledger = testing::ledger(allowed, rounds);
    let player = |(i, local): (usize, &LocalObjective)| {
        let gate = testing::gate(i as u64, seed.clone(), Arc::clone(&noise), ledger.clone());
        Player::new(local.clone(), Arc::clone(protocol), Arc::clone(&timetable), gate)
    };
    locals.iter().enumerate().map(player).collect()
}

fn lockstep(players: Vec<Player>) -> Lockstep {
    let (n, graph) = (players.len(), Graph::complete(players.len()).expect("a graph"));
    let mixing = Arc::new(Mixing::metropolis(&graph));
    Lockstep::new(players, Arc::new(graph), mixing).secret_shared(code(n)).expect("the mean alone")
}

/// Everything that is sent, by (phase, round, from, to), in a random order of arrival.
type Transcript = BTreeMap<(Phase, u32, usize, usize), Vec<u64>>;

fn exchange(players: Vec<Player>, order: u64) -> (Vec<SharingAgent>, Transcript) {
    let code = code(players.len());
    let agent =
        |(i, player)| SharingAgent::sharing(i as u32, code, player).expect("the mean alone");
    let mut agents: Vec<SharingAgent> = players.into_iter().enumerate().map(agent).collect();
    let mut chance = Seed::from(order).stream(Purpose::Network, 0, 0);
    let (mut flying, mut all): (Vec<ShareMessage>, Transcript) = Default::default();
    loop {
        for agent in &mut agents {
            while let Some(effect) = agent.poll().expect("in range") {
                if let ShareEffect::Send(m) = effect {
                    let key = (m.phase(), m.round().0, m.from() as usize, m.to() as usize);
                    all.insert(key, m.words().to_vec());
                    flying.push(m);
                }
            }
        }
        if flying.is_empty() {
            return (agents, all);
        }
        let m = flying.swap_remove(chance.random_range(0..flying.len()));
        agents[m.to() as usize].handle(&m).expect("honest agents are never refused");
    }
}

/// What agent `i` put into the sum of a round, read by somebody who sees everything that was sent.
fn summand(all: &Transcript, round: u32, i: usize, agents: usize) -> Vec<i64> {
    let others = || (0..agents).filter(move |&j| j != i);
    let mut q = all[&(Phase::Sum, round, i, (i + 1) % agents)].clone();
    for j in others() {
        let (to, from) = (&all[&(Phase::Share, round, j, i)], &all[&(Phase::Share, round, i, j)]);
        q.iter_mut().zip(to).for_each(|(q, w)| *q = q.wrapping_sub(*w));
        q.iter_mut().zip(from).for_each(|(q, w)| *q = q.wrapping_add(*w));
    }
    q.into_iter().map(u64::cast_signed).collect()
}

/// The revealed sum: everybody's sums, added.
fn revealed(all: &Transcript, round: u32, agents: usize) -> Vec<i64> {
    let mut total = all[&(Phase::Sum, round, 0, 1)].clone();
    for j in 1..agents {
        total
            .iter_mut()
            .zip(&all[&(Phase::Sum, round, j, 0)])
            .for_each(|(t, w)| *t = t.wrapping_add(*w));
    }
    total.into_iter().map(u64::cast_signed).collect()
}

fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Kolmogorov–Smirnov distance from N(0, 1), and its limit at a false-alarm rate of 1e-6.
fn kolmogorov(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = values.iter().enumerate().map(|(i, &x)| {
        let f = normal_cdf(x);
        (f - i as f64 / n).max((i as f64 + 1.0) / n - f)
    });
    (distance.fold(0.0, f64::max), (2e6f64.ln() / 2.0 / n).sqrt())
}

#[derive(serde::Deserialize)]
struct Golden {
    m: usize,
    s: f64,
    function_of_sum: f64,
    rounded_sum: f64,
}

/// Distances by direct convolution (tests/golden/distributed_noise.py) against the lemma.
#[test]
fn lemma_the_bound_holds_and_for_two_summands_has_the_right_exponent() {
    let cases: Vec<Golden> =
        serde_json::from_str(include_str!("../golden/distributed_noise.json")).unwrap();
    for Golden { m, s, function_of_sum, rounded_sum } in cases {
        let bound = rounding_distance(m, s);
        assert!(function_of_sum <= bound, "m = {m}, s = {s}: {function_of_sum} > {bound}");
        if m == 2 {
            // Eight times at most: the exponent is exact, the factor is not.
            assert!(bound < 10.0 * function_of_sum, "s = {s}: {bound} against {function_of_sum}");
        }
        // The rounded sum is something else: its distance does not fall with the exponent.
        if s >= 1.0 {
            assert!(rounded_sum > 20.0 * bound && rounded_sum * s * s > 0.008);
        }
    }
}

/// The colluders take their own summands off the revealed sum. What is left has the noise it was
/// calibrated to; with one more colluder than that, N − c − 1 parts of N − c.
#[test]
fn what_colluders_are_left_with_has_the_noise_of_those_who_do_not() {
    const AGENTS: usize = 6;
    const DIM: usize = 48;
    let (sigma, distributed_noise) = (0.8, DistributedNoise::new(AGENTS, 2).unwrap());
    let locals = locals(AGENTS, DIM);
    // Everybody starts at zero, so the first vector is −η∇f_i(0).
    let mut steps = vec![vec![0.0; DIM]; AGENTS];
    for (local, step) in locals.iter().zip(&mut steps) {
        local.data_gradient(&[0.0; DIM], step, &mut Workspace::default());
        step.iter_mut().for_each(|g| *g *= -STEP);
    }
    let unit = f64::from(1u32 << BITS);
    let (mut left, mut less) = (Vec::new(), Vec::new());
    for trial in 0..400 {
        let players =
            players(&locals, &gd(), distributed_noise.part(sigma), (1, 1), &Seed::from(trial));
        let (agents, all) = exchange(players, trial);
        let sum = revealed(&all, 1, AGENTS);
        let taken: Vec<Vec<i64>> = (0..3).map(|i| summand(&all, 1, i, AGENTS)).collect();
        for (l, &sum) in sum.iter().enumerate() {
            let rest = |colluders: usize| {
                let q = sum - taken[..colluders].iter().map(|q| q[l]).sum::<i64>();
                let vectors: f64 = steps[colluders..].iter().map(|step| step[l]).sum();
                (q as f64 / unit - vectors) / sigma
            };
            left.push(rest(2));
            less.push(rest(3));
            assert_eq!(agents[0].revealed()[l], sum as f64 / unit / AGENTS as f64);
        }
    }
    let (distance, limit) = kolmogorov(left.clone());
    assert!(distance < limit, "{distance} ≥ {limit}");
    // A sample variance of n normals has deviation √(2/n).
    let variance = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>() / v.len() as f64;
    let error = 4.9 * (2.0 / left.len() as f64).sqrt();
    assert!((variance(&left) - 1.0).abs() < error, "{}", variance(&left));
    assert!((variance(&less) / 0.75 - 1.0).abs() < error, "{}", variance(&less));
    let (distance, limit) = kolmogorov(less);
    assert!(distance > limit, "the test has no power: {distance}");
}

/// An adversary that knows all records but one, on either side of it, against c colluders and one
/// more. N = 4, c = 2.
#[test]
fn an_audit_is_consistent_with_the_colluders_accounted_for_and_not_with_one_more() {
    const DIM: usize = 2;
    let distributed_noise = DistributedNoise::new(4, 2).unwrap();
    let first = locals(4, DIM);
    let mut second = first.clone();
    let records = {
        let mut records = first[3].mean_loss().unwrap().records().select(&[1, 2, 3]);
        records.push(&[-0.6, 0.8], 1.0);
        records
    };
    second[3] = LocalObjective::new(*first[3].mean_loss().unwrap().objective(), records);
    let gradient = |local: &LocalObjective| {
        let mut g = vec![0.0; DIM];
        local.data_gradient(&[0.0; DIM], &mut g, &mut Workspace::default());
        g
    };
    let (here, there) = (gradient(&first[3]), gradient(&second[3]));
    let shift: Vec<f64> = here.iter().zip(&there).map(|(a, b)| STEP * (a - b)).collect();
    let length = shift.iter().map(|x| x * x).sum::<f64>().sqrt();
    // μ = 1 against two colluders.
    let sigma = length;
    let attack = |colluders: usize| {
        let (first, second, shift) = (&first, &second, &shift);
        move |trial: &consenso_engine::audit::Trial| {
            let locals = if trial.side == Side::First { first } else { second };
            let mut players =
                players(locals, &gd(), distributed_noise.part(sigma), (1, 1), &trial.seed);
            let (mut draft, mut words) = (DraftScratch::default(), vec![0; 4 * DIM]);
            let mut along = 0.0;
            // By Theorem 2.1 what the colluders learn is this sum.
            for player in &mut players[colluders..] {
                let mut own = [0.0; DIM];
                let start = [0.0; 2 * DIM];
                let neighbourhood = consenso_engine::agent::NeighbourView {
                    rows: &start,
                    me: 0,
                    neighbours: &[1, 1, 1],
                    place: 0,
                    weights: consenso_engine::protocol::Weights {
                        own: 0.25,
                        neighbours: &[0.25; 3],
                    },
                    round: 0,
                    common: None,
                };
                player
                    .share(&neighbourhood, &mut draft, &code(4), &mut own, &mut words)
                    .expect("in range");
                along += own.iter().zip(shift).map(|(q, t)| q * t).sum::<f64>();
            }
            along
        }
    };
    let options = Options { trials: 10_000, confidence: 1.0 - 1e-6, seed: 3 };
    let claimed = AuditedClaim::gaussian(1.0 + 1e-6, 1e-5);
    let found = audit(attack(2), claimed, options).unwrap();
    assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
    assert!(found.mu_lower > 0.75, "{found:?}");
    // Three colluders face half the variance: μ = √2.
    let found = audit(attack(3), claimed, options).unwrap();
    assert_eq!(found.verdict, Verdict::Violated, "{found:?}");
    assert!(found.mu_lower > 1.1 && found.mu_lower < std::f64::consts::SQRT_2, "{found:?}");
}

#[test]
fn messages_and_lockstep_agree_bit_for_bit_and_stop_together_when_the_budget_is_spent() {
    let locals = locals(4, 3);
    for allowed in [9, 4] {
        let make = || players(&locals, &gd(), 0.3, (9, allowed), &Seed::from(2));
        let mut run = lockstep(make());
        let mut means = Vec::new();
        for _ in 0..9 {
            run.advance();
            means.push(run.rows()[..3].to_vec());
        }
        assert_eq!((run.failure(), run.round()), (None, 9));
        // Every round was noised until the budget was spent; after that the same mean is said
        // again, once rounded to the grid.
        let far = |w: &&[Vec<f64>]| (w[0][0] - w[1][0]).abs() > 1.0 / f64::from(1u32 << BITS);
        let moved = means.windows(2).filter(far).count() as u32;
        assert_eq!(moved, allowed - 1);
        let expected = run.finish();
        for order in 0..3 {
            let (agents, _) = exchange(make(), order);
            for (agent, expected) in agents.iter().zip(&expected) {
                assert_eq!(agent.model().expect("done"), &expected[..]);
                assert_eq!(agent.player().gate().ledger().charged(), allowed);
                let stopped = (allowed < 9).then_some((allowed + 1, StopReason::BudgetSpent));
                assert_eq!(agent.player().stopped(), stopped);
            }
        }
    }
}

#[test]
fn what_the_account_does_not_cover_is_refused() {
    let locals = locals(4, 3);
    let refused = |protocol: Arc<dyn Protocol>, sigma: f64| {
        let mut run = lockstep(players(&locals, &protocol, sigma, (5, 5), &Seed::from(1)));
        run.advance();
        assert_eq!(run.round(), 0);
        run.failure().cloned()
    };
    let admm = Admm {
        penalty: Some(4.0),
        dual_step: Some(0.1),
        aggregation: Aggregation::Fixed,
        ..Admm::default()
    };
    assert_eq!(refused(Arc::new(admm), 0.3), Some(ShareError::Noise { kind: "admm" }));
    let steps = 3.5;
    let coarse = steps / f64::from(1u32 << BITS);
    assert_eq!(refused(gd(), coarse), Some(ShareError::Coarse { steps }));
    assert!(matches!(refused(gd(), 8.0), Some(ShareError::NoRoom { .. })));
    // A mean that has left half the range is public. Nobody goes on without noise: the run fails.
    let steep: Arc<dyn Protocol> = Arc::new(GradientDescent {
        step: Some(Schedule::Constant(40.0)),
        aggregation: Aggregation::Fixed,
    });
    let tight = FixedPoint::new(4, 60.0, BITS).expect("valid");
    let players = players(&locals, &steep, 0.3, (40, 40), &Seed::from(1));
    let graph = Graph::complete(4).expect("a graph");
    let mixing = Arc::new(Mixing::metropolis(&graph));
    let mut run = Lockstep::new(players, Arc::new(graph), mixing)
        .secret_shared(tight)
        .expect("the mean alone");
    (0..40).for_each(|_| run.advance());
    let failed = matches!(run.failure(), Some(ShareError::MeanOutOfRange { .. }));
    assert!(failed && run.round() < 40, "{:?} after {} rounds", run.failure(), run.round());
}

/// The claim of a file against δ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ), μ = √K·η·B₂/σ, B₂ = 2/b for
/// rows of unit length: computed here.
#[test]
fn the_claim_is_that_of_a_curator_with_the_noise_of_the_sum() {
    let (sigma, rounds, eta, records) = (0.05, 25, 0.8, 40);
    let text = format!(
        "name = \"small\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 5\nrecords_per_agent = {records}\ndim = 4\n\
         [objective]\nclip = 1.0\n[graph]\nkind = \"complete\"\n[privacy]\ndelta = 1e-5\n\
         [[algorithm]]\nkind = \"gd\"\naggregation = \"fixed\"\nrounds = {rounds}\nstep = {eta}\nexchange = \"secret-shared\"\n\
         noise = {{ gaussian = {sigma} }}\ncolluders = 3\n"
    );
    let spec: ExperimentSpec = toml::from_str(&text).unwrap();
    let problem = spec.synthetic().unwrap().unwrap();
    assert!((problem.bounds().l2() - 1.0).abs() < 1e-9);
    let source = Source::Synthetic(problem);
    let inputs = Inputs { file: "small".into(), text, spec, source, edges: None, entropy: None };
    let record = run(&Experiment::check(inputs).unwrap(), &Silent).unwrap().record;
    let claimed = record.algorithms[0].epsilon.clone().expect("a claim");
    let mu = f64::from(rounds).sqrt() * eta * (2.0 / f64::from(records)) / sigma;
    let delta = |e: f64| normal_cdf(mu / 2.0 - e / mu) - e.exp() * normal_cdf(-mu / 2.0 - e / mu);
    let (mut low, mut high) = (0.0, 100.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if delta(middle) > 1e-5 { low = middle } else { high = middle }
    }
    assert!(
        claimed.claim >= high && claimed.claim < high * (1.0 + 1e-5),
        "{} {high}",
        claimed.claim
    );
    assert_eq!(claimed.delta, 1e-5);
    for part in [
        "up to 3 of 5 agents collude",
        "replace-one",
        "gdp",
        "the 2 agents who do not collude",
        "exact Gaussian",
    ] {
        assert!(claimed.statement.contains(part), "{part} is missing from\n{}", claimed.statement);
    }
}

/// An agent that is put back from its checkpoint in the middle of every exchange, its messages kept
/// beside it as a network does, ends with the bits of one that never stopped; what was sent before
/// the stop is the only thing ever sent for that exchange.
#[test]
fn restored_in_every_exchange_an_agent_draws_and_sends_nothing_again() {
    let locals = locals(3, 4);
    let make = |seed: u64| players(&locals, &gd(), 0.3, (5, 5), &Seed::from(seed));
    let (undisturbed, all) = exchange(make(2), 0);
    let agent =
        |(i, player)| SharingAgent::sharing(i as u32, code(3), player).expect("the mean alone");
    let mut agents: Vec<SharingAgent> = make(2).into_iter().enumerate().map(agent).collect();
    let mut flying: Vec<ShareMessage> = Vec::new();
    let mut stops = 0;
    loop {
        for agent in &mut agents {
            while let Some(effect) = agent.poll().expect("in range") {
                match effect {
                    ShareEffect::Send(m) => flying.push(m),
                    ShareEffect::Charge { .. } => {}
                    ShareEffect::Done(_) => break,
                }
            }
        }
        for m in &flying {
            assert_eq!(
                all[&(m.phase(), m.round().0, m.from() as usize, m.to() as usize)],
                m.words()
            );
        }
        if agents[1].model().is_none() {
            // Agent 1 stops here, and another process goes on.
            let saved = postcard::to_stdvec(&agents[1].checkpoint()).expect("bytes");
            let mut again =
                SharingAgent::sharing(1, code(3), make(2).swap_remove(1)).expect("the mean alone");
            again.restore(&postcard::from_bytes(&saved).expect("a checkpoint")).expect("its own");
            assert_eq!(again.poll(), Ok(None), "nothing is drawn or sent again");
            agents[1] = again;
            stops += 1;
        }
        if flying.is_empty() {
            break;
        }
        for m in std::mem::take(&mut flying) {
            let to = &mut agents[m.to() as usize];
            to.handle(&m).expect("honest agents are never refused");
            // The same again is known and changes nothing; something else is an offence.
            assert!(matches!(to.handle(&m), Err(ShareRefusal::Replayed { .. })));
            let other = ShareMessage::received(
                m.from(),
                m.to(),
                m.round(),
                m.phase(),
                vec![7; m.words().len()],
            );
            assert!(matches!(to.handle(&other), Err(ShareRefusal::Equivocation { .. })));
        }
    }
    assert_eq!(stops, 10, "two exchanges a round");
    for (a, b) in agents.iter().zip(&undisturbed) {
        assert_eq!(a.model().expect("done"), b.model().expect("done"));
        assert_eq!(a.player().gate().ledger().charged(), 5);
    }
}

/// Correlated noise: both ends of every edge add ± the same secret noise.
mod correlated {
    use super::*;
    use consenso_engine::gate::{Pair, Pairs, exact};
    use consenso_engine::privacy::correlated::{resistances, worst};
    use consenso_engine::privacy::gdp;
    use consenso_engine::protocol::Decor;
    use consenso_engine::simulate::{Faults, over_messages};

    const SIGMA: f64 = 1.0;
    const CORRELATION: f64 = 3.0;

    /// Agents that take no step, so that a message is its noise; `pair` says which secret and sign
    /// an end of an edge has.
    fn players_on(
        graph: &Graph,
        dim: usize,
        rounds: u32,
        own: &Seed,
        pair: &dyn Fn(u32, u32) -> Option<Pair>,
        step: f64,
    ) -> Vec<Player> {
        let protocol: Arc<dyn Protocol> =
            Arc::new(Decor { step: Some(Schedule::Constant(step)), ..Decor::default() });
        let timetable = Arc::new(Timetable { rounds, tail_from: rounds, gossip: 0 });
        let noise: Arc<[RoundNoise]> = (0..rounds)
            .map(|_| RoundNoise::new(Noise::Gaussian { sigma: SIGMA }).unwrap())
            .collect();
        let ledger = testing::ledger(rounds, rounds);
        locals(graph.agents(), dim)
            .into_iter()
            .enumerate()
            .map(|(i, local)| {
                let gate = testing::gate(i as u64, own.clone(), Arc::clone(&noise), ledger.clone());
                let pairs: Vec<Pair> =
                    graph.neighbours(i).iter().filter_map(|&j| pair(i as u32, j)).collect();
                let gate = gate.with_pairs(Pairs::new(pairs, shared(rounds)));
                Player::new(local, Arc::clone(&protocol), Arc::clone(&timetable), gate)
            })
            .collect()
    }

    /// What every edge adds, on the grid of the agents' own noise.
    fn shared(rounds: u32) -> Arc<[RoundNoise]> {
        let grid = RoundNoise::new(Noise::Gaussian { sigma: SIGMA }).unwrap().grid();
        let noise = Noise::Gaussian { sigma: SIGMA * CORRELATION };
        (0..rounds).map(|_| RoundNoise::on_grid(noise, grid)).collect()
    }

    /// One round of noise, row by row.
    fn noise_on(
        graph: &Graph,
        dim: usize,
        own: &Seed,
        pair: &dyn Fn(u32, u32) -> Option<Pair>,
    ) -> Vec<Vec<f64>> {
        let players = players_on(graph, dim, 1, own, pair, 0.0);
        let (graph, mixing) = (Arc::new(graph.clone()), Arc::new(Mixing::metropolis(graph)));
        let mut run = Lockstep::new(players, graph, mixing);
        run.advance();
        run.rows().chunks_exact(dim).map(<[f64]>::to_vec).collect()
    }

    fn honest(seed: &Seed) -> impl Fn(u32, u32) -> Option<Pair> + '_ {
        |i, j| Some(Pair::new(i, j, seed.clone()))
    }

    /// The noise of an edge as its ends know it, drawn again from the secret.
    fn known(a: u32, b: u32, dim: usize, seed: &Seed) -> Vec<f64> {
        let grid = RoundNoise::new(Noise::Gaussian { sigma: SIGMA }).unwrap().grid();
        let edge = u64::from(a.min(b)) << 32 | u64::from(a.max(b));
        let mut q = vec![0; dim];
        let noise = Noise::Gaussian { sigma: SIGMA * CORRELATION };
        exact::release(
            &mut seed.stream(Purpose::Pair, edge, 1),
            &vec![0.0; dim],
            &[],
            noise,
            grid,
            &mut q,
        )
        .unwrap();
        q.iter().map(|&q| grid.value(q)).collect()
    }

    /// [Σ⁻¹e_i] for the honest agents by Gaussian elimination, Σ = σ²I + σ_cor²L_H.
    fn weights(graph: &Graph, coalition: &[u32], agent: usize) -> Vec<f64> {
        let n = graph.agents();
        let mut m = vec![vec![0.0; n + 1]; n];
        for (i, row) in m.iter_mut().enumerate() {
            row[i] = SIGMA * SIGMA;
        }
        m[agent][n] = 1.0;
        for (a, b) in
            graph.iter_edges().filter(|(a, b)| !coalition.contains(a) && !coalition.contains(b))
        {
            let (a, b, v) = (a as usize, b as usize, (SIGMA * CORRELATION).powi(2));
            m[a][a] += v;
            m[b][b] += v;
            m[a][b] -= v;
            m[b][a] -= v;
        }
        for k in 0..n {
            let pivot = m[k].clone();
            for row in (0..n).filter(|&row| row != k) {
                let factor = m[row][k] / pivot[k];
                m[row].iter_mut().zip(&pivot).for_each(|(x, p)| *x -= factor * p);
            }
        }
        (0..n)
            .map(|i| if coalition.contains(&(i as u32)) { 0.0 } else { m[i][n] / m[i][i] })
            .collect()
    }

    fn connected_graphs_of_five() -> impl Iterator<Item = Graph> {
        let edges: Vec<(u32, u32)> = (0..5).flat_map(|a| (a + 1..5).map(move |b| (a, b))).collect();
        (0..1u32 << 10).filter_map(move |mask| {
            let some: Vec<_> = edges
                .iter()
                .enumerate()
                .filter(|(k, _)| mask >> k & 1 == 1)
                .map(|(_, e)| *e)
                .collect();
            Graph::from_edges(5, &some).ok().filter(|g| g.diameter().is_some())
        })
    }

    #[test]
    fn the_formula_is_the_likelihood_ratio_of_every_coalition_on_all_connected_graphs_of_five() {
        let mut graphs = 0;
        for graph in connected_graphs_of_five() {
            graphs += 1;
            let r = CORRELATION * CORRELATION;
            let mut largest = [0.0f64; 4];
            for mask in 0..31u32 {
                let coalition: Vec<u32> = (0..5).filter(|i| mask >> i & 1 == 1).collect();
                let hidden = resistances(&graph, &coalition, &[1.0; 5], r);
                for i in (0..5).filter(|&i| !coalition.contains(&(i as u32))) {
                    // A log-likelihood ratio of Gaussians shifted by t·e_i has variance
                    // t²·[Σ⁻¹]_ii: exact, by elimination.
                    let exact = weights(&graph, &coalition, i)[i] * SIGMA * SIGMA;
                    assert!((hidden[i] - exact).abs() < 1e-12, "{} {exact}", hidden[i]);
                    if let Some(largest) = largest.get_mut(coalition.len()) {
                        *largest = largest.max(exact);
                    }
                }
            }
            for (colluders, largest) in largest.into_iter().enumerate() {
                let found = worst(&graph, colluders, r).resistance;
                assert!(
                    found >= largest * (1.0 - 1e-12) && found <= largest * (1.0 + 3e-7) + 1e-12,
                    "{found} {largest}"
                );
            }
        }
        assert_eq!(graphs, 728, "all connected graphs on five named agents");
    }

    /// One of every kind: graphs that differ in more than the agents' names.
    fn connected_graphs_of_five_without_names() -> Vec<Graph> {
        let orders: Vec<[u32; 5]> = (0..5u32.pow(5))
            .map(|k| [k % 5, k / 5 % 5, k / 25 % 5, k / 125 % 5, k / 625])
            .filter(|o| o.iter().fold(0, |all, i| all | 1 << i) == 31)
            .collect();
        let mut known = std::collections::HashSet::new();
        let named = |graph: &Graph, order: &[u32; 5]| {
            graph.iter_edges().fold(0u32, |mask, (a, b)| {
                let (a, b) = (order[a as usize], order[b as usize]);
                mask | 1 << (5 * a.min(b) + a.max(b))
            })
        };
        let mut new = |graph: &Graph| known.insert(orders.iter().map(|o| named(graph, o)).min());
        connected_graphs_of_five().filter(|g| new(g)).collect()
    }

    #[test]
    fn drawn_noise_has_the_variance_of_the_formula_for_every_coalition() {
        // 4096 coordinates are as many draws; a variance off by 17 % has a probability of 10⁻¹¹ a
        // case, and there are below 10⁵ cases.
        const DRAWS: usize = 4096;
        let graphs = connected_graphs_of_five_without_names();
        assert_eq!(graphs.len(), 21, "all connected graphs of five agents");
        for (k, graph) in graphs.into_iter().enumerate() {
            let seed = Seed::from(k as u64 + 1);
            let rows = noise_on(&graph, DRAWS, &seed, &honest(&seed));
            for mask in 0..31u32 {
                let coalition: Vec<u32> = (0..5).filter(|i| mask >> i & 1 == 1).collect();
                let mut left = rows.clone();
                for (a, b) in graph
                    .iter_edges()
                    .filter(|(a, b)| coalition.contains(a) != coalition.contains(b))
                {
                    let v = known(a, b, DRAWS, &seed);
                    let (low, high) = (a.min(b) as usize, a.max(b) as usize);
                    left[low].iter_mut().zip(&v).for_each(|(x, v)| *x -= v);
                    left[high].iter_mut().zip(&v).for_each(|(x, v)| *x += v);
                }
                for i in (0..5).filter(|&i| !coalition.contains(&(i as u32))) {
                    let w = weights(&graph, &coalition, i);
                    let statistic =
                        |l: usize| (0..5).map(|j| w[j] * left[j][l]).sum::<f64>() / w[i];
                    let variance =
                        (0..DRAWS).map(|l| statistic(l).powi(2)).sum::<f64>() / DRAWS as f64;
                    let ratio = variance * w[i];
                    assert!((ratio - 1.0).abs() < 0.17, "{graph:?} {coalition:?} {i}: {ratio}");
                }
            }
        }
    }

    #[test]
    fn golden_values_of_an_independent_program() {
        let cases: Vec<serde_json::Value> =
            serde_json::from_str(include_str!("../golden/correlated.json")).unwrap();
        assert_eq!(cases.len(), 36);
        for case in cases {
            let number = |key: &str| case[key].as_f64().unwrap();
            let edges: Vec<(u32, u32)> = serde_json::from_value(case["edges"].clone()).unwrap();
            let graph = Graph::from_edges(number("agents") as usize, &edges).unwrap();
            let found = worst(&graph, number("colluders") as usize, number("correlation").powi(2))
                .resistance;
            assert!((found / number("resistance") - 1.0).abs() < 3e-7, "{case}: {found}");
            let mu = gdp::mu_for(number("epsilon"), number("delta")).unwrap();
            let sigma = number("sensitivity") * (number("rounds") * found).sqrt() / mu;
            assert!((sigma / number("sigma") - 1.0).abs() < 1e-6, "{case}: {sigma}");
        }
    }

    #[test]
    fn pairwise_noise_cancels_to_the_last_bit_and_a_wrong_sign_does_not() {
        let graph = Graph::random(7, 11, &Seed::from(3)).unwrap();
        let seed = Seed::from(9);
        let sum = |rows: &[Vec<f64>]| -> Vec<f64> {
            (0..64).map(|l| rows.iter().map(|r| r[l]).sum()).collect()
        };
        let with = noise_on(&graph, 64, &seed, &honest(&seed));
        let without = noise_on(&graph, 64, &seed, &|_, _| None);
        assert_ne!(with, without);
        // Multiples of the grid far below 2⁵³ of its steps: sums are exact.
        assert_eq!(sum(&with), sum(&without));
        let (a, b) = graph.iter_edges().next().unwrap();
        let (low, high) = (a.min(b), a.max(b));
        let wrong = |i: u32, j: u32| {
            let me = if (i, j) == (high, low) { low } else { i };
            let other = if (i, j) == (high, low) { high } else { j };
            Some(Pair::new(me, other, seed.clone()))
        };
        assert_ne!(sum(&noise_on(&graph, 64, &seed, &wrong)), sum(&without));
    }

    #[test]
    fn messages_and_lockstep_agree_bit_for_bit_with_pairwise_noise() {
        let graph = Arc::new(Graph::random(6, 9, &Seed::from(4)).unwrap());
        let mixing = Arc::new(Mixing::metropolis(&graph));
        let seed = Seed::from(11);
        let players = || players_on(&graph, 5, 6, &seed, &honest(&seed), 0.3);
        let mut run = Lockstep::new(players(), Arc::clone(&graph), Arc::clone(&mixing));
        (0..6).for_each(|_| run.advance());
        let agents: Vec<_> = players()
            .into_iter()
            .zip(0..)
            .map(|(p, i)| consenso_engine::agent::Agent::new(i, &graph, &mixing, p))
            .collect();
        let neighbours = |i: usize| graph.neighbours(i).to_vec();
        let (agents, _) =
            over_messages(agents, neighbours, &Faults::default(), &Seed::from(1)).unwrap();
        let models: Vec<Vec<f64>> = agents.iter().map(|a| a.model().unwrap().to_vec()).collect();
        assert_eq!(models, run.finish());
    }

    /// One round among five agents who all talk to each other, with agent 0's message moved on one
    /// side; the adversary knows the edges of `coalition`.
    fn attack(shift: f64, coalition: &[u32], mu: f64) -> Verdict {
        let graph = Graph::complete(5).unwrap();
        let w = weights(&graph, coalition, 0);
        let play = |trial: &consenso_engine::audit::Trial| {
            let rows = noise_on(&graph, 1, &trial.seed, &honest(&trial.seed));
            let mut seen: Vec<f64> = rows.iter().map(|r| r[0]).collect();
            seen[0] += if trial.side == Side::Second { shift } else { 0.0 };
            for &a in coalition {
                for j in (0..5u32).filter(|j| !coalition.contains(j)) {
                    let v = known(a, j, 1, &trial.seed)[0];
                    seen[j as usize] += if j < a { -v } else { v };
                }
            }
            (0..5).map(|j| w[j] * seen[j]).sum()
        };
        let options = Options { trials: 12_000, confidence: 1.0 - 1e-6, seed: 3 };
        audit(play, AuditedClaim::gaussian(mu, 1e-5), options).unwrap().verdict
    }

    #[test]
    fn the_auditor_stays_below_the_claim_of_each_coalition_and_catches_one_that_was_not_counted() {
        let graph = Graph::complete(5).unwrap();
        let (shift, r) = (2.0, CORRELATION * CORRELATION);
        for coalition in [&[][..], &[3], &[1, 4], &[1, 2, 3]] {
            let claim = shift * worst(&graph, coalition.len(), r).resistance.sqrt() / SIGMA;
            assert_eq!(attack(shift, coalition, claim), Verdict::Consistent, "{coalition:?}");
        }
        // A coalition's edges counted as honest: the claim of nobody against those who know three
        // edges of agent 0.
        let wrong = shift * worst(&graph, 0, r).resistance.sqrt() / SIGMA;
        assert_eq!(attack(shift, &[1, 2, 3], wrong), Verdict::Violated);
    }

    #[test]
    fn the_auditor_catches_a_secret_that_serves_two_rounds() {
        let graph = Graph::complete(5).unwrap();
        let (shift, r) = (2.0, CORRELATION * CORRELATION);
        // Only the first message is moved; the second one, with the same pairwise noise, gives it
        // away.
        let play = |fresh: bool| {
            let graph = &graph;
            move |trial: &consenso_engine::audit::Trial| {
                let (first, second) = (trial.seed.for_run(1 << 40), trial.seed.for_run(2 << 40));
                let again = if fresh { &second } else { &first };
                let one = noise_on(graph, 1, &first, &honest(&first))[0][0];
                let two = noise_on(graph, 1, &second, &honest(again))[0][0];
                one - two + if trial.side == Side::Second { shift } else { 0.0 }
            }
        };
        let claim =
            AuditedClaim::gaussian(shift * worst(&graph, 0, r).resistance.sqrt() / SIGMA, 1e-5);
        let options = Options { trials: 12_000, confidence: 1.0 - 1e-6, seed: 5 };
        assert_eq!(audit(play(true), claim, options).unwrap().verdict, Verdict::Consistent);
        assert_eq!(audit(play(false), claim, options).unwrap().verdict, Verdict::Violated);
    }

    fn experiment(
        privacy: &str,
        algorithm: &str,
    ) -> Result<Experiment, consenso_engine::experiment::SpecError> {
        let text = format!(
            "name = \"pairs\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 8\nrecords_per_agent = 30\ndim = 4\n\
             [graph]\nkind = \"regular\"\ndegree = 4\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n{privacy}\n[[algorithm]]\n{algorithm}\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).expect("a file");
        let spec = spec.in_notation(Notation(|spec| toml::to_string_pretty(spec).unwrap()));
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        Experiment::check(Inputs {
            file: "pairs.toml".into(),
            text,
            spec,
            source,
            edges: None,
            entropy: None,
        })
    }

    #[test]
    fn an_experiment_claims_what_it_is_calibrated_to_and_refuses_what_it_cannot_protect_from() {
        let decor = "kind = \"decor\"\nrounds = 20\n";
        let found = experiment("", &format!("{decor}colluders = 2")).unwrap();
        let text = found.resolved();
        assert!(text.contains("colluders = 2") && text.contains("correlation = "), "{text}");
        let record = run(&found, &Silent).unwrap().record;
        let epsilon = record.algorithms[0].epsilon.as_ref().unwrap();
        assert!(
            epsilon.claim <= 1.0 && epsilon.claim > 0.999 && epsilon.delta == 1e-6,
            "{epsilon:?}"
        );
        assert!(epsilon.statement.contains("any 2 of 8 agents"), "{}", epsilon.statement);
        let refused = |privacy: &str, algorithm: &str, part: &str| {
            let error = experiment(privacy, algorithm).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part), "{part} is missing in {error}");
        };
        let word =
            experiment("", "kind = \"dgd\"\nnoise = \"correlated\"\nrounds = 20\ncolluders = 2")
                .unwrap();
        assert_eq!(word.resolved(), text, "another word for the same");
        refused("", "kind = \"admm\"\nnoise = \"correlated\"", "is not for kind \"admm\"");
        refused("", &format!("{decor}colluders = 7"), "at most 6");
        refused("", &format!("{decor}correlation = 1000.0"), "at most 64");
        refused("mechanism = \"laplace\"", decor, "must be Gaussian");
        refused("accounting = \"filter\"", decor, "accounting = \"schedule\"");
        refused("adversary = \"local\"", decor, "is feared");
        refused(
            "adversary = { colluders = 3 }",
            &format!("{decor}colluders = 2"),
            "raise its colluders",
        );
        let feared =
            experiment("adversary = { colluders = 3, eavesdropper = true }", decor).unwrap();
        assert!(feared.resolved().contains("colluders = 3"), "{}", feared.resolved());
        assert!(experiment("adversary = \"one-node\"", "kind = \"dgd\"\nrounds = 5").is_ok());
    }

    #[test]
    fn no_pair_sees_more_than_the_claim_and_an_exposed_gradient_is_one_without_noise() {
        let found = experiment("", "kind = \"decor\"\nrounds = 12\ncolluders = 1").unwrap();
        let map = found.pairwise_map(12).unwrap();
        assert_eq!((map.agents, map.epsilon.len(), map.rounds), (8, 8, 12));
        assert!(map.claimed <= 1.0 && map.claimed > 0.99, "{}", map.claimed);
        for (i, row) in map.epsilon.iter().enumerate() {
            assert_eq!(row[i], 0.0);
            assert!(row.iter().all(|&e| e <= map.claimed), "{row:?}");
        }
        assert!(map.mean > 0.0 && map.mean_after_half < map.mean);
        assert!(map.svg().contains("no claim") && map.csv().lines().count() == 57);
        let exposure = found.exposure().unwrap();
        assert_eq!(exposure.reconstructed_under_noise, Some(0));
        let attack = exposure.map_attack.unwrap();
        assert_eq!((attack.above, attack.rounds), (0, 5), "{attack:?}");
        assert!(attack.pairs > 40 && attack.mean_share > 0.7, "{attack:?}");
        // Noise that neighbours share hides gradients from single agents as the claim's own noise
        // would, and better than this own noise alone.
        let errors = &exposure.error_by_epsilon;
        assert!(
            errors.len() == 5 && errors.windows(2).all(|e| e[0].least > e[1].least),
            "{errors:?}"
        );
    }
}
