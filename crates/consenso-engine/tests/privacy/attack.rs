//! Attacks on claims, by means that share no code with what they attack: what a neighbour who
//! leaves the protocol may send, which shifts two data sets may have, and which costs a transcript
//! may choose.

use consenso_engine::account::testing;
use consenso_engine::agent::{Agent, Effect, Message, NeighbourView, Player, Refusal, Timetable};
use consenso_engine::audit::{Options, Verdict};
use consenso_engine::data::{Records, RowBounds};
use consenso_engine::experiment::{AuditTarget, Experiment, ExperimentSpec, Inputs, Silent, run};
use consenso_engine::gate::{DraftScratch, Noise, RoundNoise};
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::privacy::NeighbourRelation;
use consenso_engine::privacy::filter::RenyiFilter;
use consenso_engine::privacy::renyi_table::{ChargeScratch, IntervalNoise, RenyiTable, ShiftNorms};
use consenso_engine::privacy::studies::StudyCost;
use consenso_engine::problem::{LocalObjective, Loss, Objective, Workspace};
use consenso_engine::protocol::{self, Protocol, Weights};
use consenso_engine::random::Seed;
use consenso_engine::record::{ResultKind, Shareable};
use std::sync::Arc;

const OBJECTIVE: Objective = Objective { loss: Loss::Logistic, regularization: 1e-3 };

fn records(first: [f64; 3]) -> Records {
    let mut records = Records::with_capacity(3, 40);
    for j in 0..40 {
        let t = f64::from(j);
        let row = if j == 0 {
            first
        } else {
            [0.6 * t.sin(), 0.5 * (2.0 * t).cos(), 0.3 * (0.7 * t).sin()]
        };
        records.push(&row, if j % 3 == 0 { 1.0 } else { -1.0 });
    }
    records
}

fn stops(kind: &str, parameters: &str, first: [f64; 3], theirs: f64, scale: f64) -> bool {
    let protocol: Box<dyn Protocol> =
        protocol::from_table(kind, toml::from_str(parameters).unwrap()).unwrap().unwrap();
    let noise = RoundNoise::new(Noise::Laplace { scale }).unwrap();
    let gate = testing::gate(0, Seed::from(3), Arc::from([noise]), testing::ledger(1, 1));
    let timetable = Arc::new(Timetable { rounds: 1, tail_from: 1, gossip: 0 });
    let mut player = Player::new(
        LocalObjective::new(OBJECTIVE, records(first)),
        Arc::from(protocol),
        timetable,
        gate,
    );
    let weights = Weights { own: 0.5, neighbours: &[0.5] };
    let rows = [0.1, 0.2, 0.3, theirs, 0.9 * theirs, -theirs];
    let neighbourhood = NeighbourView {
        rows: &rows,
        me: 0,
        neighbours: &[1],
        place: 0,
        weights,
        round: 0,
        common: None,
    };
    player.play(&neighbourhood, &mut DraftScratch::default(), &mut [0.0; 3]);
    player.stopped().is_some()
}

/// A neighbour chooses the centre of a local problem. Where rounding decides whether it can be
/// solved, one record must not decide whether the agent stops: everybody sees that, without noise.
#[test]
fn whether_an_agent_stops_does_not_depend_on_its_records() {
    for (kind, parameters) in [
        ("admm", "penalty = 2.0\ndual_step = 0.1\nexact = true\naggregation = \"fixed\""),
        ("output-admm", "penalty = 2.0\ndual_step = 0.1"),
        ("consensus-admm", "penalty = 1.0"),
        ("dvp", "penalty = 2.0\ndual_step = 0.1"),
    ] {
        let mut both = [false; 2];
        for power in 3..48 {
            let theirs = 10f64.powf(0.25 * f64::from(power));
            let one = |k: i32| {
                let t = f64::from(k);
                stops(kind, parameters, [0.9 * t.sin(), 0.4 * t.cos(), 0.0], theirs, 100.0)
            };
            let all: Vec<bool> = (0..20).map(one).collect();
            assert!(all.iter().all(|s| *s == all[0]), "{kind} at {theirs:e}: {all:?}");
            both[usize::from(all[0])] = true;
        }
        assert_eq!(both, [true; 2], "{kind}: centres that are solved, and centres that are not");
    }
}

/// Shifts of a coordinate that are tried, up to the largest.
const GRID: usize = 12;
/// Points between two of them at which densities are sampled.
const FINE: usize = 8;

/// D_a of U[0, u] + noise against itself moved by k/GRID of `largest`, for every k: sums over
/// densities as they are defined.
fn divergences(noise: IntervalNoise, u: f64, largest: f64, order: f64) -> Vec<f64> {
    let noised = |x: f64| match noise {
        IntervalNoise::Laplace => 0.5 * (-x.abs()).exp(),
        IntervalNoise::Gaussian => (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt(),
    };
    let (step, reach) = (largest / (GRID * FINE) as f64, 30.0 + u + order * largest);
    let density = |k: usize| {
        let x = k as f64 * step - reach;
        (0..200).map(|k| noised(x - u * (f64::from(k) + 0.5) / 200.0)).sum::<f64>() / 200.0
    };
    let logs: Vec<f64> =
        (0..(2.0 * reach / step) as usize).map(|k| density(k).max(1e-300).ln()).collect();
    let one = |k: usize| {
        let pairs = logs[k * FINE..].iter().zip(&logs);
        let terms = pairs.map(|(p, q)| (order * p - (order - 1.0) * q).exp());
        (terms.filter(|t| t.is_finite()).sum::<f64>() * step).ln() / (order - 1.0)
    };
    (0..=GRID).map(one).collect()
}

/// Shifts of every shape that three norms allow, against the charge of a filter: no shift may cost
/// more. Large shifts too, where D_a is far from a parabola.
#[test]
fn no_shift_within_the_norms_costs_more_than_is_charged() {
    let orders = [1.5, 4.0];
    let widths = [0.0, 0.4, 3.0];
    for noise in [IntervalNoise::Laplace, IntervalNoise::Gaussian] {
        for (inf, two, one) in [(0.5, 0.7, 0.9), (2.0, 2.4, 3.5), (1.0, 1.0, 1.6)] {
            let norms = ShiftNorms { inf, two: Some(two), one: Some(one) };
            let table = RenyiTable::new(noise, inf, inf, &orders).unwrap();
            let mut charged = [0.0; 2];
            table.round(norms).unwrap().charge(
                &widths,
                1.0,
                &mut ChargeScratch::default(),
                &mut charged,
            );
            for (order, charged) in orders.into_iter().zip(charged) {
                let costs = widths.map(|u| divergences(noise, u, inf, order));
                let mut worst = 0.0f64;
                for shift in 0..(GRID + 1).pow(3) {
                    let k = [
                        shift % (GRID + 1),
                        shift / (GRID + 1) % (GRID + 1),
                        shift / (GRID + 1).pow(2),
                    ];
                    let t = k.map(|k| inf * k as f64 / GRID as f64);
                    let norm = t.iter().map(|t| t * t).sum::<f64>().sqrt();
                    if norm <= two && t.iter().sum::<f64>() <= one {
                        worst = worst.max((0..3).map(|l| costs[l][k[l]]).sum());
                    }
                }
                // The sums' own error is below a thousandth.
                assert!(
                    worst <= charged * 1.001,
                    "{noise:?} {norms:?} order {order}: {worst} > {charged}"
                );
                assert!(
                    charged < 1.5 * worst,
                    "{noise:?} {norms:?} order {order}: {charged} ≫ {worst}"
                );
            }
        }
    }
}

/// A release that an attacker may choose: its Rényi costs, its μ, and its privacy loss in steps of
/// a grid with the probability of each.
struct Answer {
    costs: Vec<f64>,
    mu: f64,
    law: Vec<(isize, f64)>,
}

impl Answer {
    /// Randomised response that tells the truth with odds e^ε, ε = `steps`·`grid`. An ε-DP answer
    /// is μ-GDP with tanh(ε/2) = 2Φ(μ/2) − 1.
    fn yes_or_no(orders: &[f64], steps: usize, grid: f64) -> Self {
        let e = steps as f64 * grid;
        let p = 1.0 / (1.0 + (-e).exp());
        let cost = |a: f64| {
            (p.powf(a) * (1.0 - p).powf(1.0 - a) + (1.0 - p).powf(a) * p.powf(1.0 - a)).ln()
                / (a - 1.0)
        };
        Self {
            costs: orders.iter().map(|&a| cost(a)).collect(),
            mu: StudyCost::claimed(e, 0.0).mu.unwrap(),
            law: vec![(steps as isize, p), (-(steps as isize), 1.0 - p)],
        }
    }

    /// A Gaussian release, whose loss N(μ²/2, μ²) is rounded down to the grid: what the attack
    /// finds is below what it could.
    fn gaussian(orders: &[f64], mu: f64, grid: f64) -> Self {
        let phi =
            |k: isize| 0.5 * libm::erfc(-(k as f64 * grid - mu * mu / 2.0) / mu / 2f64.sqrt());
        let reach = (8.0 * mu / grid) as isize;
        Self {
            costs: orders.iter().map(|&a| a * mu * mu / 2.0).collect(),
            mu,
            law: (-reach..reach).map(|k| (k, phi(k + 1) - phi(k))).collect(),
        }
    }
}

/// Releases of two sizes, chosen one after the other by whoever looks at all answers so far, as
/// long as the filter lets them: the largest E(1 − e^{ε−L})₊ over *all* such choices, by dynamic
/// programming over (releases of each size, loss). It must not exceed δ.
///
/// With `gaussian` the filter also adds up Σ μ².
fn worst_delta(
    (orders, gaussian): (&[f64], bool),
    answers: &[Answer; 2],
    grid: f64,
    (epsilon, delta): (f64, f64),
) -> f64 {
    let allowed = |x: usize, y: usize| {
        let new = if gaussian { RenyiFilter::with_gaussian } else { RenyiFilter::new };
        let mut filter = new(orders, epsilon, delta).unwrap();
        let mut charge = |answer: &Answer| {
            if gaussian {
                filter.try_charge_gaussian(&answer.costs, answer.mu).is_ok()
            } else {
                filter.try_charge(&answer.costs).is_ok()
            }
        };
        (0..x).all(|_| charge(&answers[0])) && (0..y).all(|_| charge(&answers[1]))
    };
    let most = |one: &dyn Fn(usize) -> bool| (1..).take_while(|&n| one(n)).count();
    let (small_most, large_most) = (most(&|n| allowed(n, 0)), most(&|n| allowed(0, n)));
    assert!(small_most > 5 && large_most > 0, "a filter worth attacking");
    // Losses beyond which nothing is to be gained, or to be lost.
    let middle = ((epsilon + 6.0) / grid) as usize;
    let end: Vec<f64> = (0..=2 * middle)
        .map(|k| -(epsilon - (k as f64 - middle as f64) * grid).min(0.0).exp_m1())
        .collect();
    let mut value = vec![vec![None::<Vec<f64>>; large_most + 1]; small_most + 1];
    for x in (0..=small_most).rev() {
        for y in (0..=large_most).rev().filter(|&y| allowed(x, y)) {
            let mut best = end.clone();
            for (x, y, answer) in [(x + 1, y, &answers[0]), (x, y + 1, &answers[1])] {
                let Some(after) = value.get(x).and_then(|row| row.get(y)).and_then(Option::as_ref)
                else {
                    continue;
                };
                for (k, best) in best.iter_mut().enumerate() {
                    let at = |step: isize| after[k.saturating_add_signed(step).min(2 * middle)];
                    *best = best.max(answer.law.iter().map(|&(step, p)| p * at(step)).sum());
                }
            }
            value[x][y] = Some(best);
        }
    }
    value[0][0].as_ref().expect("nothing was spent yet")[middle]
}

#[test]
fn no_choice_of_releases_gets_past_a_filter_of_several_orders() {
    for (orders, small, ratio, epsilon, delta) in [
        (&[4.0, 12.0][..], 0.1, 5, 2.0, 1e-3),
        (&[6.0, 20.0], 0.05, 8, 1.5, 1e-3),
        (&[3.0, 8.0], 0.2, 5, 3.0, 1e-2),
        (&[4.0, 7.0, 14.0, 28.0], 0.05, 10, 1.5, 1e-3),
    ] {
        let answers = [1, ratio].map(|steps| Answer::yes_or_no(orders, steps, small));
        let worst = worst_delta((orders, false), &answers, small, (epsilon, delta));
        assert!(worst <= delta, "{orders:?}: δ = {worst:e} of {delta:e}");
        assert!(worst > 0.02 * delta, "{orders:?}: an attack that finds nothing says nothing");
    }
}

/// Σ μ² alone and beside orders. A yes-or-no answer is dearer as a Gaussian release than as itself
/// (by a quarter of μ), which the attack cannot use: it comes to a fiftieth of δ.
#[test]
fn no_choice_of_releases_gets_past_a_filter_that_adds_up_squared_mu() {
    for (orders, small, ratio, epsilon, delta) in [
        (&[][..], 0.1, 5, 2.0, 1e-3),
        (&[], 0.05, 8, 1.5, 1e-3),
        (&[4.0, 12.0], 0.1, 5, 2.0, 1e-3),
        (&[4.0, 7.0, 14.0, 28.0], 0.05, 10, 1.5, 1e-3),
    ] {
        let answers = [1, ratio].map(|steps| Answer::yes_or_no(orders, steps, small));
        let worst = worst_delta((orders, true), &answers, small, (epsilon, delta));
        assert!(worst <= delta, "{orders:?}: δ = {worst:e} of {delta:e}");
        assert!(worst > 0.01 * delta, "{orders:?}: an attack that finds {worst:e} says nothing");
    }
}

/// Gaussian releases, for which Σ μ² is exact: chosen with the best foresight they spend most of δ,
/// and beside orders most of the part that Σ μ² has.
#[test]
fn no_choice_of_gaussian_releases_gets_past_a_filter_that_adds_up_squared_mu() {
    for (orders, small, large, epsilon, delta, found) in [
        (&[][..], 0.2, 0.45, 2.0, 1e-3, 0.6),
        (&[], 0.3, 0.7, 3.0, 1e-2, 0.6),
        (&[4.0, 12.0], 0.2, 0.45, 2.0, 1e-3, 0.3),
    ] {
        let grid = 0.01;
        let answers = [small, large].map(|mu| Answer::gaussian(orders, mu, grid));
        let worst = worst_delta((orders, true), &answers, grid, (epsilon, delta));
        assert!(worst <= delta, "{orders:?}: δ = {worst:e} of {delta:e}");
        assert!(
            worst > found * delta,
            "{orders:?}: an attack that finds {worst:e} of {delta:e} says little"
        );
    }
}

/// What everybody sees of an agent whose only neighbour sends one enormous number after the other:
/// which messages it takes, and whether it goes on.
fn behaviour(kind: &str, loss: Loss, with_record: bool, order: u32) -> Vec<(bool, bool)> {
    let parameters = if kind == "rcd" { "step = 0.5\norder = \"random\"" } else { "step = 0.5" };
    let protocol: Box<dyn Protocol> =
        protocol::from_table(kind, toml::from_str(parameters).unwrap()).unwrap().unwrap();
    let rounds = 4;
    let noise = RoundNoise::new(Noise::Gaussian { sigma: 1.0 }).unwrap();
    let ledger = testing::ledger(rounds, rounds);
    let gate = testing::gate(0, Seed::from(3), vec![noise; rounds as usize].into(), ledger);
    let mut records = Records::sparse(3);
    records.push(&[0.5, 0.0, 0.0], 1.0);
    records.push(if with_record { &[0.5, 0.6, 0.6] } else { &[0.0; 3] }, 0.0);
    let local = LocalObjective::new(Objective { loss, regularization: 1e-3 }, records);
    let dim = local.dim();
    let timetable = Arc::new(Timetable { rounds, tail_from: rounds, gossip: 0 });
    let player = Player::new(local, Arc::from(protocol), timetable, gate);
    let graph = Graph::from_edges(2, &[(0, 1)]).unwrap();
    let mut agent = Agent::new(0, &graph, &Mixing::metropolis(&graph), player);
    let mut seen = Vec::new();
    while let Some(effect) = agent.poll() {
        let Effect::Send(message) = effect else { continue };
        let sign = |l: usize| {
            if (order >> (l as u32 + 3 * (message.round() - 1))) & 1 == 0 {
                1.7e308
            } else {
                -1.7e308
            }
        };
        let values: Vec<f64> = (0..dim).map(sign).collect();
        let taken = agent.handle(&Message::received(1, message.round(), values));
        assert!(matches!(taken, Ok(()) | Err(Refusal::TooLarge { .. })), "{taken:?}");
        seen.push((taken.is_ok(), agent.player().stopped().is_some()));
        if taken.is_err() {
            agent.handle(&Message::received(1, message.round(), vec![1e12; dim])).unwrap();
        }
    }
    seen
}

/// At 10^308 a margin is ∞ − ∞ and a slope no number: an agent that took such a vector stopped if
/// one record was there and went on if it was not.
#[test]
fn no_record_decides_whether_an_agent_falls_silent_on_enormous_numbers() {
    for (kind, loss) in
        [("rcd", Loss::Logistic), ("pdop", Loss::Softmax { classes: 2 }), ("dgd", Loss::Logistic)]
    {
        for order in 0..400 {
            let both = [true, false].map(|with| behaviour(kind, loss, with, order));
            assert_eq!(both[0], both[1], "{kind}, order {order}");
            assert!(both[0].iter().all(|seen| !seen.0), "{kind}: such a number is taken");
        }
    }
}

/// 199 records pull one way and one the other, all with the same z: removing the one also gives the
/// others more weight, which doubles what it tells.
#[test]
fn removing_a_record_moves_the_mean_by_no_more_than_is_charged() {
    let loss = Loss::ClippedLogistic { clip: 0.5 };
    let objective = Objective { loss, regularization: 0.0 };
    let bounds = RowBounds::declared(1.0, 1.0, 1.0);
    let moved = |count: usize| {
        let mut records = Records::with_capacity(1, count);
        (0..count).for_each(|j| records.push(&[1.0], if j == 0 { -1.0 } else { 1.0 }));
        let gradient = |records: Records| {
            let mut g = [0.0];
            LocalObjective::new(objective, records).data_gradient(
                &[0.0],
                &mut g,
                &mut Workspace::default(),
            );
            g[0]
        };
        (gradient(records.clone()) - gradient(records.select(&(1..count).collect::<Vec<_>>())))
            .abs()
    };
    let charged = |relation| objective.sensitivity(&bounds, 200, relation).l2;
    assert!((moved(200) - 0.005).abs() < 1e-12);
    assert!(moved(200) <= charged(NeighbourRelation::AddRemove));
    assert!(charged(NeighbourRelation::AddRemove) < 0.005_001, "and hardly less");
    assert!(
        charged(NeighbourRelation::ZeroOut) < 0.6 * moved(200),
        "which is another relation, and says so"
    );
}

fn experiment(privacy: &str, algorithm: &str) -> Experiment {
    let text = format!(
        "name = \"small\"\nruns = 2\n[data]\nsource = \"logistic\"\nagents = 4\nrecords_per_agent = 30\ndim = 4\n\
         [graph]\nkind = \"complete\"\n[privacy]\ndelta = 1e-5\n{privacy}\n[[algorithm]]\n{algorithm}\n"
    );
    let spec: ExperimentSpec = toml::from_str(&text).unwrap();
    let source = Box::new(spec.synthetic().unwrap().unwrap());
    let entropy = Some([5; 32]);
    Experiment::check(Inputs { file: "small".into(), text, spec, source, edges: None, entropy })
        .unwrap()
}

/// The pair that would have found it: noise for half of what removing a record moves, which is what
/// was charged, is caught; what is charged now holds.
#[test]
fn the_auditor_removes_records_too() {
    let algorithm = "kind = \"dgd\"\nrounds = 20\nstep = 1.0\nnoise = { gaussian = 0.15 }";
    let options = Options { trials: 4_000, confidence: 1.0 - 1e-6, seed: 3 };
    let found = |relation: &str| {
        let one = experiment(&format!("neighbours = \"{relation}\""), algorithm);
        let audit = one.audit(AuditTarget::Agent, options).unwrap().remove(0);
        assert_eq!((audit.silence.tried, audit.silence.told_apart), (48, 0), "{relation}");
        audit.audit.unwrap()
    };
    let (removed, zeroed) = (found("add-remove"), found("zero-out"));
    assert_eq!((removed.verdict, zeroed.verdict), (Verdict::Consistent, Verdict::Consistent));
    let claimed = zeroed.mu_claimed.unwrap();
    assert!(
        removed.mu_lower > 1.5 * claimed,
        "{} of {claimed}: half the charge would be caught",
        removed.mu_lower
    );
}

/// What may be shared of a run on real noise holds nothing that one record changes for certain.
#[test]
fn what_may_be_shared_holds_no_exact_function_of_records() {
    let one = experiment("epsilon = 1.0", "kind = \"dgd\"\nrounds = 5");
    let mut record = run(&one, &Silent).unwrap().record;
    assert_eq!((record.kind, Shareable::of(&record)), (ResultKind::Simulation, None));
    for public_test in [false, true] {
        record.kind = ResultKind::Shareable { public_test };
        let text = Shareable::of(&record).unwrap().value().to_string();
        for private in [
            "objective\"",
            "optimum",
            "log_error",
            "realised",
            "local_only",
            "zero_model",
            "curve",
            "certified",
            "seconds",
            "disagreement",
            "violation",
            "warnings",
        ] {
            assert!(!text.contains(private), "{private} in {text}");
        }
        assert_eq!(text.contains("test_accuracy"), public_test);
        assert!(
            text.contains("total_epsilon") && text.contains("covers one of the 2 transcripts"),
            "{text}"
        );
    }
}

/// Claims of 2.0 were audited at 0.65 under Laplace noise: Gaussian noise inside the same problem
/// needs less, and the auditor comes nearer to its claim and not past it.
#[test]
fn gaussian_noise_inside_a_problem_is_audited_below_its_claim() {
    let options = Options { trials: 3_000, confidence: 1.0 - 1e-6, seed: 5 };
    let found = |mechanism: &str| {
        let privacy = format!("epsilon = 4.0\nmechanism = \"{mechanism}\"");
        let one = experiment(&privacy, "kind = \"dvp\"\nrounds = 8");
        one.audit(AuditTarget::Experiment, options).unwrap().remove(0).audit.unwrap()
    };
    let (gaussian, laplace) = (found("gaussian"), found("laplace"));
    assert_eq!((gaussian.verdict, laplace.verdict), (Verdict::Consistent, Verdict::Consistent));
    assert!(gaussian.epsilon_lower <= gaussian.epsilon_claimed, "{gaussian:?}");
    assert!(
        gaussian.mu_lower > 1.2 * laplace.mu_lower,
        "{} {}",
        gaussian.mu_lower,
        laplace.mu_lower
    );
    // μ of (4, 1e-5) is 0.97.
    assert!(
        gaussian.mu_lower > 0.3,
        "an audit that sees nothing says nothing: {}",
        gaussian.mu_lower
    );
}

/// Noise once, mixing many times: mixing costs nothing, so that three noised steps among twelve
/// rounds have the claim and the noise of three, and the auditor, who sees all twelve, finds no
/// more and nearly as much.
#[test]
fn mixing_after_noise_once_tells_no_more_than_the_noised_steps() {
    let options = Options { trials: 4_000, confidence: 1.0 - 1e-6, seed: 7 };
    let found = |algorithm: &str| {
        let one = experiment("epsilon = 4.0\nmechanism = \"gaussian\"", algorithm);
        let record = run(&one, &Silent).unwrap().record;
        let audit = one.audit(AuditTarget::Agent, options).unwrap().remove(0);
        assert_eq!(audit.silence.told_apart, 0);
        (record.algorithms[0].noise.clone(), audit.audit.unwrap())
    };
    let (noise, all) =
        found("kind = \"muffliato\"\nstep = 1.0\nmixings = 3\nrounds = 12\ngossip = 0\ntail = 0.0");
    let (wanted, three) = found("kind = \"dgd\"\nstep = 1.0\nrounds = 3\ngossip = 0\ntail = 0.0");
    assert_eq!(noise, wanted);
    assert_eq!((all.verdict, three.verdict), (Verdict::Consistent, Verdict::Consistent));
    assert!(
        (all.mu_claimed.unwrap() / three.mu_claimed.unwrap() - 1.0).abs() < 1e-6,
        "{all:?} {three:?}"
    );
    // Three thousand counted trials leave a third of it unseen.
    assert!(all.mu_lower > 0.6 * all.mu_claimed.unwrap(), "{all:?}");
}
