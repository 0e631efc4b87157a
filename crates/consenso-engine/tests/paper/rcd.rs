//! Private coordinate descent: where it converges to, what it costs, and that nothing but the
//! round's coordinates ever changes.

use crate::common;

use common::Door;
use consenso_engine::agent::Timetable;
use consenso_engine::audit::{AuditedClaim, Options, Side, Trial, Verdict, audit};
use consenso_engine::data::{Records, RowBounds, Synthetic, SyntheticTask};
use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, Silent, Source, run};
use consenso_engine::gate::Noise;
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::privacy::NeighbourRelation;
use consenso_engine::problem::solve::central_optimum;
use consenso_engine::problem::{
    Constraint, LocalObjective, Loss, Objective, Sensitivity, Workspace,
};
use consenso_engine::protocol::{
    CommonSummary, Configured, CoordinateDescent, CoordinateOrder, Memory, Partial, Protocol,
    PublicFacts, View, Weights,
};
use consenso_engine::random::{Purpose, Seed};
use consenso_engine::simulate::Lockstep;
use rand::RngExt;
use std::sync::Arc;

fn locals(agents: usize, dim: usize, regularization: f64) -> Vec<LocalObjective> {
    let objective = Objective { loss: Loss::Logistic, regularization };
    let mut synthetic = Synthetic::new(SyntheticTask::Logistic, agents, 20, dim);
    synthetic.heterogeneity = 0.5;
    let data = synthetic.generate(&Seed::from(4)).expect("valid");
    data.into_iter().map(|records| LocalObjective::new(objective, records)).collect()
}

fn network(
    locals: &[LocalObjective],
    graph: Graph,
    rcd: CoordinateDescent,
    rounds: u32,
    door: Door,
) -> Lockstep {
    let protocol: Arc<dyn Protocol> = Arc::new(rcd);
    let timetable = Timetable { rounds, tail_from: rounds, gossip: 0 };
    let players = common::players(locals, &protocol, &timetable, door, &Seed::from(9));
    let mixing = Arc::new(Mixing::metropolis(&graph));
    Lockstep::new(players, Arc::new(graph), mixing)
}

fn distance(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

#[test]
fn without_noise_the_mean_model_reaches_the_optimum_alone_and_together() {
    let (dim, mu) = (6, 0.1);
    for (order, block) in
        [(CoordinateOrder::Shuffle, 1), (CoordinateOrder::Random, 1), (CoordinateOrder::Shuffle, 4)]
    {
        for agents in [1, 5] {
            let all = locals(agents, dim, mu);
            let optimum = central_optimum(&all, &Constraint::None, None).x;
            let graph = if agents == 1 {
                Graph::alone()
            } else {
                Graph::complete(agents).expect("a graph")
            };
            let rcd = CoordinateDescent::new(1.0 / (0.25 + mu), order, 2, block);
            let rounds = 400 * dim as u32;
            let mut run = network(&all, graph, rcd, rounds, Door::Open);
            (0..rounds).for_each(|_| run.advance());
            let mean = CommonSummary::of(&run.rows().chunks(dim).collect::<Vec<_>>()).mean;
            let off = distance(&mean, &optimum);
            assert!(off < 1e-9, "{order:?}, block {block}, {agents} agents: {off:e}");
        }
    }
    // On a sparse graph agents stay as far apart as the step makes them, as in DGD: shorter steps
    // bring them closer.
    let all = locals(6, dim, mu);
    let optimum = central_optimum(&all, &Constraint::None, None).x;
    let off = |step: f64| {
        let rounds = (1200.0 / step) as u32 * dim as u32;
        let rcd = CoordinateDescent::new(step, CoordinateOrder::Shuffle, 2, 1);
        let mut run = network(&all, Graph::ring(6).expect("a ring"), rcd, rounds, Door::Open);
        (0..rounds).for_each(|_| run.advance());
        run.rows().chunks(dim).map(|x| distance(x, &optimum)).fold(0.0, f64::max)
    };
    let (long, short) = (off(1.0), off(0.1));
    assert!(short < 0.2 * long && short < 0.1, "{long} {short}");
}

#[test]
fn only_the_coordinates_of_a_round_change() {
    let (dim, rounds) = (7, 40);
    let all = locals(4, dim, 0.1);
    let noisy = |_: u32| Noise::Gaussian { sigma: 0.3 };
    for door in [Door::Noisy { noise: noisy, budget: None }, Door::Open] {
        for (order, block) in [
            (CoordinateOrder::Shuffle, 1),
            (CoordinateOrder::Shuffle, 3),
            (CoordinateOrder::Random, 2),
        ] {
            let rcd = CoordinateDescent::new(0.7, order, 6, block);
            let turns: Vec<Vec<u32>> = (1..=rounds).map(|k| rcd.active(k, dim)).collect();
            let mut run = network(&all, Graph::path(4).expect("a path"), rcd, rounds, door);
            // Not on any grid: a held coordinate must not be moved to one.
            let start: Vec<f64> = (0..4 * dim).map(|k| 0.1 + 1.0 / (3.0 + k as f64)).collect();
            run.start_from(&start);
            let mut stood = 0;
            for active in &turns {
                let before = run.rows().to_vec();
                run.advance();
                for (k, (now, was)) in run.rows().iter().zip(&before).enumerate() {
                    let moved = now.to_bits() != was.to_bits();
                    let turn = active.contains(&((k % dim) as u32));
                    assert!(!moved || turn, "{order:?}, {k}, {active:?}");
                    stood += u32::from(turn && !moved);
                }
            }
            // Noise on a grid can lead back to where a coordinate was, now and then.
            assert!(stood <= 2, "{stood}");
        }
    }
}

/// Rows kept as non-zeros take another way to the same coordinates.
#[test]
fn sparse_rows_give_the_same_step() {
    let rng = &mut Seed::from(77).stream(Purpose::Audit, 0, 0);
    let losses = [
        Loss::Logistic,
        Loss::ClippedLogistic { clip: 0.5 },
        Loss::WeightedLogistic { clip: 0.5, negative: 0.6, positive: 3.0 },
        Loss::Ridge { clip: 0.2 },
        Loss::Huber { delta: 0.3 },
        Loss::Softmax { classes: 3 },
    ];
    for loss in losses {
        let objective = Objective { loss, regularization: 0.1 };
        let (mut dense, mut sparse) = (Records::with_capacity(30, 40), Records::sparse(30));
        for _ in 0..40 {
            let (row, label) = (row(rng, 30, 4), label(&loss, rng));
            dense.push(&row, label);
            sparse.push(&row, label);
        }
        let dim = objective.dim(30);
        let rows: Vec<f64> = (0..3 * dim).map(|_| rng.random_range(-9.0..9.0)).collect();
        let sides = [dense, sparse].map(|records| LocalObjective::new(objective, records));
        let weights = Weights { own: 0.5, neighbours: &[0.2, 0.3] };
        for (round, block) in [(0, 1), (5, 1), (9, 4), (2, dim)] {
            let rcd = CoordinateDescent::new(0.8, CoordinateOrder::Random, 3, block);
            let view = View::new(&rows, dim, 1, &[0, 2], 1, weights, round);
            let [dense, sparse] = sides.each_ref().map(|local| {
                let mut step = vec![f64::NAN; block];
                rcd.step(
                    &view,
                    Memory::default(),
                    &[],
                    local,
                    &mut Workspace::default(),
                    &mut step,
                );
                step
            });
            assert!(distance(&dense, &sparse) < 1e-14, "{loss:?}: {dense:?} {sparse:?}");
        }
    }
}

fn facts(dim: usize, rounds: u32, objective: &Objective, bounds: &RowBounds) -> PublicFacts {
    PublicFacts {
        agents: 3,
        dim,
        records: 10,
        smoothness: objective.smoothness(bounds),
        coordinate_smoothness: objective.coordinate_smoothness(bounds),
        coordinate_sensitivity: objective.coordinate_sensitivity(),
        strong_convexity: objective.strong_convexity(),
        laplacian_max: 3.0,
        mixing: 0.0,
        mixing_min: 0.0,
        degrees: (2, 2),
        complete: true,
        rounds,
        private: true,
        budget: None,
    }
}

/// A row of length 1, all of it in a few places.
fn row(rng: &mut impl rand::Rng, features: usize, filled: usize) -> Vec<f64> {
    let mut row = vec![0.0; features];
    for _ in 0..filled {
        row[rng.random_range(0..features)] = rng.random_range(-1.0..1.0);
    }
    let norm = row.iter().map(|z| z * z).sum::<f64>().sqrt().max(1e-9);
    // A little below 1, so that no rounding lengthens it.
    row.iter_mut().for_each(|z| *z *= (1.0 - 1e-12) / norm);
    row
}

/// Two data sets that differ in one record go through the same transcript, which an adversary
/// steers: at every time, the squared distance of their private steps so far is within what was
/// charged so far. `steer` gives the point everybody is at before a round.
fn spent_of_charged(
    objective: Objective,
    rows: &[(Vec<f64>, f64); 2],
    rcd: &mut CoordinateDescent,
    rounds: u32,
    mut steer: impl FnMut(u32) -> Vec<f64>,
) -> f64 {
    let features = rows[0].0.len();
    let bounds = RowBounds::declared((features as f64).sqrt(), 1.0, 1.0);
    let with = |(z, y): &(Vec<f64>, f64)| {
        let mut records = Records::with_capacity(features, 10);
        let rng = &mut Seed::from(1).stream(Purpose::Data, 0, 0);
        for k in 0..9 {
            records.push(
                &row(rng, features, features),
                if y.abs() == 1.0 { 1.0 - 2.0 * f64::from(k % 2) } else { 0.0 },
            );
        }
        records.push(z, *y);
        LocalObjective::new(objective, records)
    };
    let sides = rows.each_ref().map(with);
    let dim = sides[0].dim();
    let facts = facts(dim, rounds, &objective, &bounds);
    rcd.resolve(&facts);
    let gradient = objective.sensitivity(&bounds, 10, NeighbourRelation::ReplaceOne);
    let (mut spent, mut charged, mut most) = (0.0, 0.0, 0.0f64);
    let mut work = Workspace::default();
    for round in 0..rounds {
        let point = steer(round);
        let view = View::new(&point, dim, 0, &[], 0, Weights { own: 1.0, neighbours: &[] }, round);
        let count = rcd.active(round + 1, dim).len();
        let steps = sides.each_ref().map(|local| {
            let mut step = vec![0.0; count];
            rcd.step(&view, Memory::default(), &[], local, &mut work, &mut step);
            step
        });
        spent += distance(&steps[0], &steps[1]).powi(2);
        charged += rcd.step_sensitivity(round + 1, 2, &gradient, &facts).l2.powi(2);
        assert!(spent <= charged, "{objective:?}, round {round}: {spent} spent, {charged} charged");
        most = most.max(spent / charged);
    }
    most
}

fn label(loss: &Loss, rng: &mut impl rand::Rng) -> f64 {
    match loss {
        loss if loss.is_logistic() => 1.0 - 2.0 * f64::from(rng.random_range(0..2u8)),
        Loss::Softmax { classes } => rng.random_range(0..*classes) as f64,
        _ => rng.random_range(-1.0..1.0),
    }
}

#[test]
fn no_random_pair_and_no_transcript_beats_the_charge() {
    let rng = &mut Seed::from(31).stream(Purpose::Audit, 0, 0);
    let losses = [
        Loss::Logistic,
        Loss::ClippedLogistic { clip: 0.5 },
        Loss::Ridge { clip: 0.7 },
        Loss::Huber { delta: 0.4 },
        Loss::Softmax { classes: 3 },
    ];
    for loss in losses {
        let objective = Objective { loss, regularization: 0.1 };
        for trial in 0..40u64 {
            let features = 5;
            let dim = objective.dim(features);
            let order =
                if trial % 2 == 0 { CoordinateOrder::Shuffle } else { CoordinateOrder::Random };
            let mut rcd = CoordinateDescent::new(0.8, order, trial, 1 + (trial % 3) as usize);
            let rows = [(); 2].map(|()| {
                let filled = rng.random_range(1..=features);
                (row(rng, features, filled), label(&loss, rng))
            });
            let mut points = Seed::from(trial).stream(Purpose::Audit, 1, 0);
            let steer = |_| {
                let size = libm::exp2(points.random_range(-3.0..6.0));
                (0..dim).map(|_| points.random_range(-size..size)).collect()
            };
            spent_of_charged(objective, &rows, &mut rcd, 6 * dim as u32, steer);
        }
    }
}

/// The worst pair: opposite rows under one label, at points where one coordinate's slope after the
/// other is at its largest. The bound is nearly met, though the whole gradient never moves that far
/// at any one point.
#[test]
fn an_adversary_comes_close_to_the_charge() {
    let features = 6;
    let z: Vec<f64> = vec![(1.0 - 1e-12) / (features as f64).sqrt(); features];
    let minus: Vec<f64> = z.iter().map(|z| -z).collect();
    let objective = Objective { loss: Loss::Logistic, regularization: 0.1 };
    for order in [CoordinateOrder::Shuffle, CoordinateOrder::Random] {
        let mut rcd = CoordinateDescent::new(0.8, order, 3, 1);
        // zᵀx = −60 makes the first record's slope −1; of (−z, −1) it is +1·(−1)·(−1): the same
        // side, so the two differ by 2z in the mean.
        let pair = [(z.clone(), 1.0), (minus.clone(), -1.0)];
        let far: Vec<f64> = z.iter().map(|z| -60.0 * z).collect();
        let same = spent_of_charged(objective, &pair, &mut rcd, 60, |_| far.clone());
        assert!(same < 1e-20, "a record and its mirror image are one record: {same}");
        // Opposite labels on one row: slopes −1 and 0 there. Opposite rows, one label: −1·z and 0.
        let mut rcd = CoordinateDescent::new(0.8, order, 3, 1);
        let half = spent_of_charged(
            objective,
            &[(z.clone(), 1.0), (z.clone(), -1.0)],
            &mut rcd,
            60,
            |_| far.clone(),
        );
        // A quarter, shared among more charges where the busiest coordinate is ahead of the others.
        let least = if order == CoordinateOrder::Shuffle { 0.249 } else { 0.12 };
        assert!(half > least && half <= 0.25 + 1e-9, "{half}");
        // A ridge residual can be clipped at both ends at once: labels far to either side.
        let ridge = Objective { loss: Loss::Ridge { clip: 0.01 }, regularization: 0.1 };
        let mut rcd = CoordinateDescent::new(0.8, order, 3, 1);
        let ends = [(z.clone(), 0.9), (z.clone(), -0.9)];
        let whole = spent_of_charged(ridge, &ends, &mut rcd, 60, |_| vec![0.0; features]);
        let least = if order == CoordinateOrder::Shuffle { 0.999 } else { 0.5 };
        assert!(whole > least && whole <= 1.0, "{order:?}: {whole}");
    }
}

/// Two data sets, the agent with its gate, and an adversary who knows everything but which of the
/// two it is: what it can tell is within the claimed μ, and not far below it, so the noise is on
/// every coordinate and the charge is not a mere bound.
#[test]
fn an_audit_of_the_agent_finds_what_is_claimed() {
    let (features, sigma, epochs) = (4u32, 0.05, 3);
    let z = vec![(1.0 - 1e-12) / f64::from(features).sqrt(); features as usize];
    let objective = Objective { loss: Loss::Ridge { clip: 0.01 }, regularization: 0.0 };
    let local = |label: f64| {
        let mut records = Records::with_capacity(features as usize, 1);
        records.push(&z, label);
        LocalObjective::new(objective, records)
    };
    let sides = [local(0.9), local(-0.9)];
    let rounds = features * epochs;
    // One record: B^c = 2·0.01, and μ = √3·η·B^c/σ.
    let mu = f64::from(epochs).sqrt() * 2.0 * 0.02 / sigma;
    let play = |trial: &Trial| {
        let rcd = || CoordinateDescent::new(2.0, CoordinateOrder::Shuffle, 8, 1);
        let side = usize::from(trial.side == Side::Second);
        let protocol: Arc<dyn Protocol> = Arc::new(rcd());
        let timetable = Timetable { rounds, tail_from: rounds, gossip: 0 };
        let door = Door::Noisy { noise: |_| Noise::Gaussian { sigma: 0.05 }, budget: Some(100) };
        let players =
            common::players(&sides[side..=side], &protocol, &timetable, door, &trial.seed);
        let graph = Graph::alone();
        let mixing = Arc::new(Mixing::metropolis(&graph));
        let mut run = Lockstep::new(players, Arc::new(graph), mixing);
        let (rcd, mut work, mut ratio) = (rcd(), Workspace::default(), 0.0);
        for round in 0..rounds {
            let before = run.rows().to_vec();
            let view = View::new(
                &before,
                before.len(),
                0,
                &[],
                0,
                Weights { own: 1.0, neighbours: &[] },
                round,
            );
            let l = rcd.active(round + 1, before.len())[0] as usize;
            let steps = sides.each_ref().map(|local| {
                let mut step = [0.0];
                rcd.step(&view, Memory::default(), &[], local, &mut work, &mut step);
                step[0]
            });
            run.advance();
            let rest = run.rows()[l] - before[l];
            let square = |step: f64| (rest - step) * (rest - step) / (2.0 * sigma * sigma);
            ratio += square(steps[1]) - square(steps[0]);
        }
        ratio
    };
    let options = Options { trials: 6_000, confidence: 1.0 - 1e-6, seed: 5 };
    let found =
        audit(|trial| play(trial), AuditedClaim::gaussian(mu * (1.0 + 1e-9), 1e-6), options)
            .unwrap();
    assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
    assert!(found.mu_lower > 0.8 * mu, "{found:?}");
    // Charging a round by itself, as if each were the only one, would be found out.
    let alone = audit(
        |trial| play(trial),
        AuditedClaim::gaussian(mu / f64::from(epochs).sqrt(), 1e-6),
        options,
    )
    .unwrap();
    assert_eq!(alone.verdict, Verdict::Violated, "{alone:?}");
}

fn experiment(agents: usize, privacy: &str, algorithm: &str) -> Result<Experiment, String> {
    let text = format!(
        "name = \"small\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = {agents}\nrecords_per_agent = 50\ndim = 6\n\
         [objective]\nclip = 1.0\n[graph]\nkind = \"complete\"\n[privacy]\n{privacy}\n[[algorithm]]\nkind = \"rcd\"\n{algorithm}\n"
    );
    let spec: ExperimentSpec = toml::from_str(&text).unwrap();
    let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
    Experiment::check(Inputs {
        file: "small".into(),
        text,
        spec,
        source,
        edges: None,
        entropy: None,
    })
    .map_err(|e| e.to_string())
}

fn claimed(privacy: &str, algorithm: &str) -> f64 {
    let record = run(&experiment(3, privacy, algorithm).unwrap(), &Silent).unwrap().record;
    record.algorithms[0].epsilon.as_ref().expect("a claim").claim
}

/// (ε, δ) by a program that knows the formula and nothing of this one; the uses of coordinates are
/// counted here.
#[test]
fn epsilon_agrees_with_the_golden_formula() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../golden/rcd.json")).unwrap();
    let case = &golden[0];
    let of = |c: u32| case["epsilon_by_uses"][c.to_string()].as_f64().expect("a golden value");
    for (order, kind) in
        [("shuffle", CoordinateOrder::Shuffle), ("random", CoordinateOrder::Random)]
    {
        for (rounds, block) in [(1, 1), (6, 1), (7, 1), (24, 1), (9, 4), (30, 2)] {
            let rcd = CoordinateDescent::new(0.8, kind, 5, block);
            let mut uses = [0u32; 6];
            for k in 1..=rounds {
                rcd.active(k, 6).iter().for_each(|&l| uses[l as usize] += 1);
            }
            let most = *uses.iter().max().unwrap();
            if order == "shuffle" {
                assert_eq!(most, rounds.div_ceil(6u32.div_ceil(block as u32)));
            }
            let algorithm = format!(
                "rounds = {rounds}\nblock = {block}\norder = \"{order}\"\norder_seed = 5\nstep = 0.8\nnoise = {{ gaussian = 0.2 }}"
            );
            let (found, want) = (claimed("delta = 1e-6", &algorithm), of(most));
            assert!(
                found >= want * (1.0 - 1e-12) && found <= want * (1.0 + 1e-9),
                "{order} {rounds}: {found} {want}"
            );
        }
    }
}

#[test]
fn noise_is_calibrated_to_the_uses_of_a_coordinate() {
    let budget = "epsilon = 2.0\ndelta = 1e-6";
    for algorithm in ["rounds = 24", "rounds = 24\norder = \"random\"", "rounds = 5\nblock = 6", ""]
    {
        let found = claimed(budget, algorithm);
        assert!((1.99..=2.0).contains(&found), "{algorithm}: {found}");
    }
    // A budget of fewer epochs than asked for stops the agents between two of them, and never costs
    // more.
    let fixed = "rounds = 60\nstep = 0.8\nnoise = { gaussian = 0.2 }";
    let record = run(&experiment(3, budget, fixed).unwrap(), &Silent).unwrap().record;
    assert_eq!(record.algorithms[0].agents_stopped, 3.0);
}

#[test]
fn one_agent_alone_runs_it_and_nothing_else() {
    let record =
        run(&experiment(1, "epsilon = 2.0\ndelta = 1e-6", "rounds = 60").unwrap(), &Silent)
            .unwrap()
            .record;
    assert!(record.algorithms[0].optimum_gap.is_finite());
    let text = "name = \"small\"\n[data]\nsource = \"logistic\"\nagents = 1\nrecords_per_agent = 50\ndim = 6\n\
                [graph]\nkind = \"complete\"\n[[algorithm]]\nkind = \"rcd\"\n[[algorithm]]\nkind = \"extra\"\n";
    let spec: ExperimentSpec = toml::from_str(text).unwrap();
    let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
    let inputs = Inputs {
        file: "small".into(),
        text: text.into(),
        spec,
        source,
        edges: None,
        entropy: None,
    };
    let refused = Experiment::check(inputs).unwrap_err().to_string();
    assert!(refused.contains("small:4: agents: 1 agent") && refused.contains("rcd"), "{refused}");
}

#[test]
fn what_the_account_cannot_rest_on_is_refused() {
    let budget = "epsilon = 2.0\ndelta = 1e-6";
    let filter = "epsilon = 2.0\ndelta = 1e-6\naccounting = \"filter\"";
    let laplace = "epsilon = 2.0\ndelta = 1e-6\nmechanism = \"laplace\"";
    for (privacy, algorithm, words) in [
        (laplace, "", "only Gaussian"),
        (budget, "noise = { laplace_scale = 1.0 }", "only Gaussian"),
        (
            budget,
            "noise = { gaussian = { geometric = { first = 1.0, ratio = 1.1 } } }",
            "σ changes in round 2",
        ),
        (filter, "", "accounting = \"schedule\""),
        (budget, "block = 0", "block = 0 must be at least 1 and at most d = 6"),
        (budget, "block = 7", "block = 7"),
        (budget, "step = 0.0", "step = 0"),
        (budget, "order = \"cyclic\"", "cyclic"),
    ] {
        let refused = experiment(3, privacy, algorithm).expect_err(algorithm);
        assert!(refused.contains(words), "{algorithm}: {refused}");
    }
    let few = experiment(3, budget, "rounds = 5").unwrap();
    assert!(few.warnings().iter().any(|w| w.contains("untouched")), "{:?}", few.warnings());
}

/// Every class is a block of its own, with a slope of its own.
#[test]
fn a_softmax_pays_for_its_classes() {
    let objective = |classes| Objective { loss: Loss::Softmax { classes }, regularization: 0.1 };
    let glm = Objective { loss: Loss::Logistic, regularization: 0.1 };
    assert_eq!(glm.coordinate_sensitivity(), 1.0);
    for classes in [3, 10] {
        let ratio = objective(classes).coordinate_sensitivity();
        assert!((ratio * ratio - classes as f64 / 2.0).abs() < 1e-12);
    }
    let bounds = RowBounds::declared(2.0, 1.0, 1.0);
    let rcd = CoordinateDescent::new(0.5, CoordinateOrder::Shuffle, 0, 1);
    let unit = Sensitivity { l1: 1.0, l2: 1.0, linf: 1.0 };
    let of = |o: &Objective| rcd.step_sensitivity(1, 0, &unit, &facts(30, 1, o, &bounds)).l2;
    assert!((of(&objective(8)) - 1.0).abs() < 1e-12 && (of(&glm) - 0.5).abs() < 1e-12);
}
