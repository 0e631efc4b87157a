//! Algorithm 3, the secret-shared exchange: the iterates are those of the plain one, and the sum is
//! all that anybody learns.

use crate::common;

use common::Door;
use consenso_engine::agent::{Player, Timetable};
use consenso_engine::data::{Encoding, Partition, Synthetic, SyntheticTask};
use consenso_engine::gate::{Noise, Round, StopReason};
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::problem::{LocalObjective, Loss, Objective};
use consenso_engine::protocol::{
    Admm, Aggregation, ConsensusAdmm, GradientDescent, Protocol, Schedule,
};
use consenso_engine::random::{Purpose, Seed};
use consenso_engine::sharing::{
    FixedPoint, Phase, ShareEffect, ShareError, ShareMessage, ShareRefusal, SharingAgent,
};
use consenso_engine::simulate::Lockstep;
use consenso_study::bundled;
use rand::RngExt;
use std::sync::Arc;

const BITS: u32 = 40;

fn gd(step: f64) -> Arc<dyn Protocol> {
    Arc::new(GradientDescent {
        step: Some(Schedule::Constant(step)),
        aggregation: Aggregation::Fixed,
    })
}

fn admm(exact: bool, aggregation: Aggregation) -> Arc<dyn Protocol> {
    Arc::new(Admm {
        penalty: Some(4.0),
        dual_step: Some(0.1),
        exact,
        aggregation,
        ..Admm::default()
    })
}

fn locals(agents: usize, records: usize, dim: usize) -> Vec<LocalObjective> {
    let mut synthetic = Synthetic::new(SyntheticTask::Logistic, agents, records, dim);
    synthetic.heterogeneity = 0.8;
    let objective = Objective { loss: Loss::Logistic, regularization: 0.1 };
    let data = synthetic.generate(&Seed::from(11)).expect("valid");
    data.into_iter().map(|records| LocalObjective::new(objective, records)).collect()
}

fn players(
    locals: &[LocalObjective],
    protocol: &Arc<dyn Protocol>,
    rounds: u32,
    tail: u32,
    seed: u64,
) -> Vec<Player> {
    let timetable = Timetable { rounds, tail_from: rounds + 1 - tail, gossip: 0 };
    common::players(locals, protocol, &timetable, Door::Open, &Seed::from(seed))
}

fn lockstep(players: Vec<Player>) -> Lockstep {
    let graph = Graph::complete(players.len()).expect("a graph");
    let mixing = Arc::new(Mixing::metropolis(&graph));
    Lockstep::new(players, Arc::new(graph), mixing)
}

fn code(agents: usize) -> FixedPoint {
    FixedPoint::new(agents, 64.0, BITS).expect("far from overflow")
}

fn mean(rows: &[f64], dim: usize) -> Vec<f64> {
    let mut mean = vec![0.0; dim];
    for row in rows.chunks_exact(dim) {
        mean.iter_mut().zip(row).for_each(|(m, x)| *m += x);
    }
    mean.iter().map(|m| m / (rows.len() / dim) as f64).collect()
}

fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn algorithm_3_gives_the_iterates_of_the_plain_exchange() {
    let locals = locals(5, 8, 7);
    let protocols = [
        gd(0.7),
        admm(false, Aggregation::Fixed),
        admm(false, Aggregation::Random),
        admm(true, Aggregation::Fixed),
        Arc::new(ConsensusAdmm { penalty: Some(0.3) }),
    ];
    for protocol in &protocols {
        let mut plain = lockstep(players(&locals, protocol, 60, 1, 3));
        let mut shared = lockstep(players(&locals, protocol, 60, 1, 3))
            .secret_shared(code(5))
            .expect("sums only");
        for round in 1..=60 {
            plain.advance();
            shared.advance();
            assert_eq!((shared.round(), shared.failure()), (round, None));
            let error = largest_difference(&mean(plain.rows(), 7), &mean(shared.rows(), 7));
            assert!(error < 1e-10, "{} in round {round}: {error:e}", protocol.kind());
        }
        assert!(mean(plain.rows(), 7).iter().any(|x| x.abs() > 1e-2), "it moved");
    }
}

/// Delivers everything in a random order, showing every message to `seen`.
fn deliver(
    agents: &mut [SharingAgent],
    order: u64,
    mut seen: impl FnMut(&ShareMessage),
) -> Result<Vec<StopReason>, ShareError> {
    let mut chance = Seed::from(order).stream(Purpose::Network, 0, 0);
    let (mut flying, mut reasons) = (Vec::new(), Vec::new());
    loop {
        for agent in agents.iter_mut() {
            while let Some(effect) = agent.poll()? {
                match effect {
                    ShareEffect::Charge { .. } => {}
                    ShareEffect::Send(message) => {
                        seen(&message);
                        flying.push(message);
                    }
                    ShareEffect::Done(reason) => reasons.push(reason),
                }
            }
        }
        if flying.is_empty() {
            return Ok(reasons);
        }
        let message: ShareMessage = flying.swap_remove(chance.random_range(0..flying.len()));
        agents[message.to() as usize].handle(&message).expect("honest agents are never refused");
    }
}

fn agents(players: Vec<Player>) -> Vec<SharingAgent> {
    let code = code(players.len());
    let agent = |(i, player)| SharingAgent::sharing(i as u32, code, player).expect("sums only");
    players.into_iter().enumerate().map(agent).collect()
}

#[test]
fn messages_and_lockstep_agree_bit_for_bit_in_any_order() {
    let locals = locals(4, 6, 3);
    for protocol in [gd(0.7), admm(false, Aggregation::Random)] {
        let mut run = lockstep(players(&locals, &protocol, 9, 5, 3))
            .secret_shared(code(4))
            .expect("sums only");
        (0..9).for_each(|_| run.advance());
        let expected = run.finish();
        for order in 0..5 {
            let mut agents = agents(players(&locals, &protocol, 9, 5, 3));
            let mut sent = [0; 2];
            let reasons =
                deliver(&mut agents, order, |m| sent[m.phase() as usize] += 1).expect("in range");
            assert_eq!(reasons, [StopReason::Finished; 4]);
            assert_eq!(sent, [9 * 12, 9 * 12], "two exchanges a round");
            for (agent, expected) in agents.iter().zip(&expected) {
                let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(agent.model().expect("done")), bits(expected));
            }
        }
    }
}

/// One round of four agents: every message by (phase, from, to), one word a coordinate.
fn transcript(
    locals: &[LocalObjective],
    seed: u64,
) -> impl Fn(Phase, usize, usize) -> Vec<u64> + use<> {
    let mut all = std::collections::BTreeMap::new();
    let mut agents = agents(players(locals, &gd(1.0), 1, 1, seed));
    deliver(&mut agents, seed, |m| {
        all.insert((m.phase(), m.from() as usize, m.to() as usize), m.words().to_vec());
    })
    .expect("in range");
    move |phase, from, to| all[&(phase, from, to)].clone()
}

/// The cell of a word: three bits where the encodings of numbers of this size differ.
fn cell(word: u64) -> usize {
    (word >> (BITS - 3)) as usize & 7
}

/// Upper quantiles of the normal distribution: of 1e-6, and of 5e-8 for fifteen tests that share
/// 1e-6.
const ALONE: f64 = 4.753_424;
const ONE_OF_FIFTEEN: f64 = 5.326_724;

/// Two-sample χ² of two histograms, and its threshold at the false-alarm rate of the normal
/// quantile `z` (Wilson and Hilferty).
fn chi_squared(a: &[f64], b: &[f64], z: f64) -> (f64, f64) {
    let cells = || a.iter().zip(b).filter(|(a, b)| **a + **b > 0.0);
    let value = cells().map(|(a, b)| (a - b).powi(2) / (a + b)).sum();
    let free = (cells().count() - 1).max(1) as f64;
    let root = 1.0 - 2.0 / (9.0 * free) + z * (2.0 / (9.0 * free)).sqrt();
    (value, free * root.powi(3))
}

/// Theorem 2.1. Agents 0 and 1 are honest. Swapping their records changes their inputs and not the
/// sum of them; what agents 2 and 3 see together must not tell which it was. With agent 1 on their
/// side, they read agent 0's vector.
#[test]
fn theorem_2_1_two_colluders_of_four_learn_the_sum_alone_and_three_learn_all() {
    const DIM: usize = 16;
    const TRIALS: u64 = 1500;
    let locals = locals(4, 4, DIM);
    let swapped = [1, 0, 2, 3].map(|i: usize| locals[i].clone());
    let mut pooled = [vec![0.0; 8 * 8 * 8 * 8 * 8], vec![0.0; 8 * 8 * 8 * 8 * 8]];
    let mut pairs = [vec![0.0; 15 * 64], vec![0.0; 15 * 64]];
    let mut recovered = [vec![0.0; 8], vec![0.0; 8]];
    let mut inputs = [vec![], vec![]];
    for (which, locals) in [&locals[..], &swapped[..]].into_iter().enumerate() {
        for trial in 0..TRIALS {
            // Independent runs for the two cases: the χ² is a two-sample one.
            let at = transcript(locals, 2 * trial + which as u64);
            let share = |from, to| at(Phase::Share, from, to);
            let words: Vec<Vec<u64>> = vec![share(0, 2), share(0, 3), share(1, 2), share(1, 3)];
            // What is left of an honest sum when the colluders take their own shares off.
            let (to_0, to_1) = ([share(2, 0), share(3, 0)], [share(2, 1), share(3, 1)]);
            let (sum_0, sum_1) = (at(Phase::Sum, 0, 2), at(Phase::Sum, 1, 2));
            assert_eq!(sum_0, at(Phase::Sum, 0, 3));
            let rest = |sum: &[u64], mine: &[Vec<u64>; 2], l: usize| {
                sum[l].wrapping_sub(mine[0][l]).wrapping_sub(mine[1][l])
            };
            let (there, back) = (share(0, 1), share(1, 0));
            let mut vector = Vec::new();
            for l in 0..DIM {
                let (rest_0, rest_1) = (rest(&sum_0, &to_0, l), rest(&sum_1, &to_1, l));
                let seen = [words[0][l], words[1][l], words[2][l], words[3][l], rest_0, rest_1];
                pooled[which][seen[..5].iter().fold(0, |at, &w| 8 * at + cell(w))] += 1.0;
                // Sums and differences of two of its words, the fifteen pairs of six: what simple
                // arithmetic would bring out.
                let mut pair = 0;
                for i in 0..6 {
                    for j in i + 1..6 {
                        let (sum, difference) =
                            (seen[i].wrapping_add(seen[j]), seen[i].wrapping_sub(seen[j]));
                        pairs[which][64 * pair + 8 * cell(sum) + cell(difference)] += 1.0;
                        pair += 1;
                    }
                }
                // With agent 1's help: q_0 = r_00 + r_01 + r_02 + r_03, and r_00 = rest_0 − r_10.
                let q = rest_0.wrapping_sub(back[l]).wrapping_add(there[l]);
                let q = q.wrapping_add(words[0][l]).wrapping_add(words[1][l]);
                recovered[which][cell(q)] += 1.0;
                vector.push(q.cast_signed());
            }
            if trial == 0 {
                inputs[which] = vector;
            } else {
                assert_eq!(
                    inputs[which], vector,
                    "three colluders read the same vector whatever the shares"
                );
            }
        }
    }
    // Merged into cells of enough counts for the χ² to be one: 5 words of 2 bits.
    let coarse = |fine: &[f64]| {
        let mut merged = vec![0.0; 1024];
        for (at, count) in fine.iter().enumerate() {
            let place = (0..5).fold(0, |place, k| place | (at >> (3 * k + 1) & 3) << (2 * k));
            merged[place] += count;
        }
        merged
    };
    let (value, limit) = chi_squared(&coarse(&pooled[0]), &coarse(&pooled[1]), ALONE);
    assert!(value < limit, "the pooled view of two colluders: {value} ≥ {limit}");
    for (pair, (a, b)) in pairs[0].chunks(64).zip(pairs[1].chunks(64)).enumerate() {
        let (value, limit) = chi_squared(a, b, ONE_OF_FIFTEEN);
        assert!(value < limit, "pair {pair}: {value} ≥ {limit}");
    }
    let (value, limit) = chi_squared(&recovered[0], &recovered[1], ALONE);
    assert!(value > 10.0 * limit, "the test has no power: {value}");
    // The vector three colluders read is the very one agent 0 shared: the plain exchange's release.
    for (which, locals) in [&locals[..], &swapped[..]].into_iter().enumerate() {
        let mut plain = lockstep(players(locals, &gd(1.0), 1, 1, 0));
        plain.advance();
        let sent: Vec<i64> =
            plain.rows()[..DIM].iter().map(|&x| code(4).encode(x).expect("in range")).collect();
        assert_eq!(inputs[which], sent);
    }
    assert_ne!(inputs[0], inputs[1]);
}

fn next_send(agent: &mut SharingAgent) -> Vec<ShareMessage> {
    let mut sent = Vec::new();
    while let Ok(Some(effect)) = agent.poll() {
        if let ShareEffect::Send(message) = effect {
            sent.push(message);
        }
    }
    sent
}

#[test]
fn bad_shares_are_refused_and_reveal_nothing() {
    let locals = locals(3, 6, 4);
    let mut agents = agents(players(&locals, &gd(0.5), 5, 1, 1));
    let sent: Vec<Vec<ShareMessage>> = agents.iter_mut().map(next_send).collect();
    assert!(sent.iter().all(|s| s.len() == 2 && s.iter().all(|m| m.phase() == Phase::Share)));
    let to = |from: usize, to: u32| sent[from].iter().find(|m| m.to() == to).expect("a share");
    let victim = &mut agents[0];
    let (from, round, phase) = (1, Round(1), Phase::Share);
    let short = ShareMessage::received(1, 0, Round(1), Phase::Share, vec![1, 2, 3]);
    assert_eq!(
        victim.handle(&short),
        Err(ShareRefusal::Length { from, round, phase, got: 3, want: 4 })
    );
    assert_eq!(victim.handle(to(1, 2)), Err(ShareRefusal::Stranger { from: 1, to: 2, agent: 0 }));
    let early = ShareMessage::received(1, 0, Round(2), Phase::Share, vec![0; 4]);
    assert_eq!(
        victim.handle(&early),
        Err(ShareRefusal::OutOfTurn { from, round: Round(2), phase })
    );
    victim.handle(to(1, 0)).expect("the first time");
    assert_eq!(victim.handle(to(1, 0)), Err(ShareRefusal::Replayed { from, round, phase }));
    // One share is missing still: no sum, whatever was tried.
    assert!(next_send(victim).is_empty());
    victim.handle(to(2, 0)).expect("the last share");
    let sums = next_send(victim);
    assert!(sums.len() == 2 && sums.iter().all(|m| m.phase() == Phase::Sum));
    // A share of an exchange that is over.
    assert_eq!(victim.handle(to(2, 0)), Err(ShareRefusal::Replayed { from: 2, round, phase }));
    assert_eq!((victim.round(), victim.revealed()), (Round(0), &[0.0; 4][..]));
    assert!(
        !format!("{:?}", sums[0]).contains(&sums[0].words()[0].to_string()),
        "words stay out of logs"
    );
}

#[test]
fn a_dropped_agent_ends_the_run_and_the_sum_stays_hidden() {
    let locals = locals(3, 6, 4);
    let mut agents = agents(players(&locals, &gd(0.5), 5, 1, 1));
    let shares: Vec<ShareMessage> = agents.iter_mut().flat_map(next_send).collect();
    shares.iter().for_each(|m| agents[m.to() as usize].handle(m).expect("a share"));
    // Agents 0 and 1 send their sums; agent 2 is gone before it sends its own.
    for (from, to) in [(0, 1), (1, 0)] {
        let sums = next_send(&mut agents[from]);
        let sum = sums.iter().find(|m| m.to() as usize == to).expect("a sum");
        agents[to].handle(sum).expect("a sum");
    }
    for agent in &mut agents[..2] {
        assert_eq!(agent.poll(), Ok(None), "it waits");
        let error = agent.dropped(2);
        assert_eq!(error, ShareError::Dropped { from: 2, round: Round(1) });
        assert_eq!(agent.poll(), Err(error));
        assert_eq!(
            (agent.round(), agent.revealed(), agent.model()),
            (Round(0), &[0.0; 4][..], None)
        );
    }
    let late = ShareMessage::received(2, 0, Round(1), Phase::Sum, vec![0; 4]);
    assert!(matches!(agents[0].handle(&late), Err(ShareRefusal::Failed(_))));
}

#[test]
fn a_number_outside_the_range_stops_its_agent_before_anything_is_sent() {
    let locals = locals(3, 6, 4);
    let tight = FixedPoint::new(3, 1e-3, BITS).expect("valid");
    let player = players(&locals, &gd(1.0), 5, 1, 1).swap_remove(0);
    let mut agent = SharingAgent::sharing(0, tight, player).expect("sums only");
    let error = ShareError::OutOfRange { agent: 0, round: Round(1), range: 1e-3 };
    assert_eq!(agent.poll(), Err(error.clone()));
    assert_eq!(agent.poll(), Err(error));
    let mut run =
        lockstep(players(&locals, &gd(1.0), 5, 1, 1)).secret_shared(tight).expect("sums only");
    run.advance();
    assert!(matches!(run.failure(), Some(ShareError::OutOfRange { round: Round(1), .. })));
    run.advance();
    assert!(run.round() == 0 && run.rows().iter().all(|&x| x == 0.0));
}

#[test]
fn what_needs_rows_or_adds_noise_that_is_no_part_of_a_sums_is_refused() {
    let locals = locals(3, 6, 4);
    let random: Arc<dyn Protocol> = Arc::new(GradientDescent {
        step: Some(Schedule::Constant(0.5)),
        aggregation: Aggregation::Random,
    });
    let refused = lockstep(players(&locals, &random, 5, 1, 1)).secret_shared(code(3)).err();
    assert_eq!(refused, Some(ShareError::NeedsRows { kind: "gd" }));
    let door = Door::Noisy { noise: |_| Noise::Gaussian { sigma: 1.0 }, budget: Some(5) };
    let timetable = Timetable { rounds: 5, tail_from: 5, gossip: 0 };
    let noisy = common::players(&locals, &gd(0.5), &timetable, door, &Seed::from(1));
    let mut run = lockstep(noisy).secret_shared(code(3)).expect("sums only");
    run.advance();
    assert_eq!((run.failure(), run.round()), (Some(&ShareError::Part), 0));
}

/// Ten agents of 3,000 census records, 106 features: the final mean is that of the plain exchange
/// to 1e-9.
#[test]
fn adult_in_shares_is_as_exact_as_plain() {
    let (error, _) = adult_in_shares();
    assert!(error < 1e-9, "{error:e}");
}

/// In at most thrice the time of the plain exchange.
#[test]
#[ignore = "looks at the clock: `cargo xtask soak`"]
fn adult_in_shares_is_nearly_as_fast_as_plain() {
    let (_, ratio) = adult_in_shares();
    assert!(ratio < 3.0, "{ratio}");
}

/// How far the means differ in the end, and how many times as long the shares take.
fn adult_in_shares() -> (f64, f64) {
    let data = bundled::adult(Encoding::OneHot).expect("adult");
    let partition = Partition::Equal { agents: 10, records_per_agent: Some(3000) };
    let objective = Objective { loss: Loss::Logistic, regularization: 1e-3 };
    let shards = data.partition(&partition, &Seed::from(7)).expect("enough records");
    let locals: Vec<LocalObjective> = shards
        .iter()
        .map(|s| LocalObjective::new(objective, data.train().select(&s.rows)))
        .collect();
    let dim = data.dim();
    let code = FixedPoint::new(10, 2048.0, BITS).expect("far from overflow");
    let mut plain = lockstep(players(&locals, &gd(10.0), 100, 1, 7));
    let mut shared =
        lockstep(players(&locals, &gd(10.0), 100, 1, 7)).secret_shared(code).expect("sums only");
    let mut seconds = [0.0; 2];
    // Turn by turn, so that whatever else the machine does falls on both alike.
    for _ in 0..100 {
        for (run, seconds) in [&mut plain, &mut shared].into_iter().zip(&mut seconds) {
            let start = std::time::Instant::now();
            run.advance();
            *seconds += start.elapsed().as_secs_f64();
        }
    }
    let error = largest_difference(&mean(plain.rows(), dim), &shared.rows()[..dim]);
    let ratio = seconds[1] / seconds[0];
    (error, ratio)
}
