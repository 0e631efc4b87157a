//! Theorems 3.1 to 3.4, 4.1, 4.2, coordinate descent and the working stability rule, held to what
//! runs really do.

use crate::common;

use common::Door;
use consenso_engine::agent::Timetable;
use consenso_engine::data::{Synthetic, SyntheticTask};
use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, Silent, Source, run};
use consenso_engine::gate::Noise;
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::problem::solve::{central_optimum, mean_value};
use consenso_engine::problem::{
    Constraint, LocalObjective, Loss, Objective, Sensitivity, Workspace,
};
use consenso_engine::protocol::{
    Admm, Aggregation, Assessed, CoordinateDescent, CoordinateOrder, GradientDescent, Parameters,
    Protocol, PublicFacts, Schedule, from_table, parse,
};
use consenso_engine::random::{Purpose, Seed};
use consenso_engine::simulate::Lockstep;
use consenso_engine::theory::descent::Envelope;
use consenso_engine::theory::{Certainty, CertifiedBound, TheoremInputs};
use nalgebra::DMatrix;
use rand::RngExt;
use std::sync::Arc;

/// A random consensus problem with everything a theorem asks for.
struct Network {
    locals: Vec<LocalObjective>,
    graph: Arc<Graph>,
    inputs: TheoremInputs,
    seed: Seed,
    dim: usize,
}

impl Network {
    /// `records` = 1 with squared loss makes the bound M the curvature that really occurs.
    fn new(
        graph: Graph,
        loss: Loss,
        records: usize,
        dim: usize,
        regularization: f64,
        seed: u64,
    ) -> Self {
        let seed = Seed::from(seed);
        let agents = graph.agents();
        let task =
            if loss == Loss::Logistic { SyntheticTask::Logistic } else { SyntheticTask::Ridge };
        let mut synthetic = Synthetic::new(task, agents, records, dim);
        synthetic.heterogeneity = 0.7;
        let objective = Objective { loss, regularization };
        let data = synthetic.generate(&seed).expect("valid");
        let locals =
            data.into_iter().map(|records| LocalObjective::new(objective, records)).collect();
        let spectrum = graph.laplacian_spectrum();
        let degrees = (0..agents).map(|i| graph.degree(i));
        let bounds = synthetic.bounds();
        let facts = PublicFacts {
            agents,
            dim,
            records,
            smoothness: objective.smoothness(&bounds),
            coordinate_smoothness: objective.smoothness(&bounds),
            coordinate_sensitivity: 1.0,
            strong_convexity: regularization,
            laplacian_max: spectrum.largest_upper_bound,
            mixing: Mixing::metropolis(&graph).second_eigenvalue(&graph).value,
            mixing_min: Mixing::metropolis(&graph).spectrum(&graph).0.value,
            degrees: (degrees.clone().min().expect("agents"), degrees.max().expect("agents")),
            complete: graph.is_complete(),
            rounds: 1,
            private: false,
            budget: None,
        };
        let inputs = TheoremInputs {
            facts,
            connectivity: spectrum.connectivity_lower_bound,
            gradient: Sensitivity { l1: bounds.l1(), l2: bounds.l2(), linf: bounds.linf() },
            outputs: 1,
            constraint: Constraint::None,
            noise: Vec::new(),
        };
        Self { locals, graph: Arc::new(graph), inputs, seed, dim }
    }

    fn run(&self, protocol: &Arc<dyn Protocol>, rounds: u32, door: Door, seed: &Seed) -> Lockstep {
        let timetable = Timetable { rounds, tail_from: rounds, gossip: 0 };
        let players = common::players(&self.locals, protocol, &timetable, door, seed);
        Lockstep::new(players, Arc::clone(&self.graph), Arc::new(Mixing::metropolis(&self.graph)))
    }

    /// ‖u − u*‖²_G = D Σ‖x_i − x*‖² + ‖λ − λ*‖²/ζ. Agents keep A_iᵀλ, so the dual block is taken
    /// through the Laplacian's pseudo-inverse, which shares nothing with the library but the graph.
    fn distance(&self, run: &Lockstep, penalty: f64, dual_step: f64, optimum: &Optimum) -> f64 {
        let n = self.graph.agents();
        let primal: f64 =
            run.rows().iter().zip(optimum.x.iter().cycle()).map(|(x, o)| (x - o) * (x - o)).sum();
        let mut duals = DMatrix::zeros(n, self.dim);
        for (i, player) in run.players().iter().enumerate() {
            // The last exchange is taken in only by the next round: do it here.
            let mut own = player.memory()[..self.dim].to_vec();
            if run.round() > 0 {
                for &j in self.graph.neighbours(i) {
                    for (l, own) in own.iter_mut().enumerate() {
                        *own += dual_step
                            * (run.rows()[j as usize * self.dim + l]
                                - run.rows()[i * self.dim + l]);
                    }
                }
            }
            for l in 0..self.dim {
                duals[(i, l)] = own[l] - optimum.gradients[(i, l)];
            }
        }
        let dual = (duals.transpose() * &optimum.inverse_laplacian * &duals).trace();
        penalty * primal + dual / dual_step
    }

    fn optimum(&self) -> Optimum {
        let found = central_optimum(&self.locals, &Constraint::None, None);
        let n = self.graph.agents();
        let mut gradients = DMatrix::zeros(n, self.dim);
        let mut g = vec![0.0; self.dim];
        for (i, f) in self.locals.iter().enumerate() {
            f.gradient(&found.x, &mut g, &mut Workspace::default());
            (0..self.dim).for_each(|l| gradients[(i, l)] = g[l]);
        }
        let mut laplacian = DMatrix::zeros(n, n);
        for i in 0..n {
            laplacian[(i, i)] = self.graph.degree(i) as f64;
            self.graph.neighbours(i).iter().for_each(|&j| laplacian[(i, j as usize)] = -1.0);
        }
        let inverse_laplacian = laplacian.pseudo_inverse(1e-9).expect("symmetric");
        Optimum { x: found.x, gradients, inverse_laplacian }
    }
}

struct Optimum {
    x: Vec<f64>,
    gradients: DMatrix<f64>,
    inverse_laplacian: DMatrix<f64>,
}

fn graph(index: u64, agents: usize) -> Graph {
    let seed = Seed::from(index);
    match index % 5 {
        0 => Graph::random(agents, (agents + agents / 2).min(agents * (agents - 1) / 2), &seed),
        1 => Graph::complete(agents),
        2 => Graph::ring(agents),
        3 => Graph::star(agents),
        _ => Graph::path(agents),
    }
    .expect("a graph")
}

fn certified(network: &Network, admm: &Admm) -> Admm {
    let table = admm.assess(&network.inputs).nearest_certified.expect("m > 0");
    let found: Admm = parse(table).expect("parameters");
    let again = found.assess(&network.inputs);
    assert_eq!(again.standing, Certainty::Certified, "{}", again.inequality);
    found
}

/// Duals at rounding level: the exact variant solves its local problems to 1e-9.
const ROUNDING: f64 = 1e-7;

#[test]
fn theorems_3_1_and_3_2_hold_round_by_round_on_random_problems() {
    let mut closest = f64::INFINITY;
    for index in 0..40u64 {
        let mut rng = Seed::from(900 + index).stream(Purpose::Release, 0, 0);
        let exact = index % 4 == 3;
        let loss =
            if index % 2 == 0 { Loss::Logistic } else { Loss::Ridge { clip: f64::INFINITY } };
        let mu = [0.05, 0.3, 1.0][(index % 3) as usize];
        let network = Network::new(graph(index, 3 + (index % 6) as usize), loss, 5, 3, mu, index);
        let weights = [[0.0, 1.0], [0.3, 0.9]][rng.random_range(0..2usize)];
        let start = Admm {
            penalty: Some(network.inputs.facts.smoothness * rng.random_range(1.6..10.0)),
            dual_step: Some(rng.random_range(0.01..1.0)),
            exact,
            weights: Some(weights),
            ..Admm::default()
        };
        let admm = certified(&network, &start);
        let Some(CertifiedBound::Distance(envelope)) = admm.assess(&network.inputs).bound else {
            panic!("a bound")
        };
        let (penalty, dual_step) = (admm.penalty.expect("set"), admm.dual_step.expect("set"));
        let optimum = network.optimum();
        let rounds = if exact { 30 } else { 300 };
        let protocol: Arc<dyn Protocol> = Arc::new(admm);
        let mut run = network.run(&protocol, rounds, Door::Open, &network.seed);
        let rows: Vec<f64> = run.rows().iter().map(|_| rng.random_range(-1.0..1.0)).collect();
        run.start_from(&rows);
        let mut before = network.distance(&run, penalty, dual_step, &optimum);
        for round in 1..=rounds {
            run.advance();
            let now = network.distance(&run, penalty, dual_step, &optimum);
            assert!(
                now <= envelope.factor * before * (1.0 + 1e-9) + ROUNDING,
                "problem {index}, round {round}: {now} after {before}, certified factor {}",
                envelope.factor
            );
            closest = closest.min((1.0 - now / before) / (1.0 - envelope.factor));
            before = now;
        }
    }
    // The bound is a worst case; what happened contracted at least so many times faster.
    assert!(closest >= 1.0 - 1e-6, "{closest}");
}

#[test]
fn theorem_3_3_bounds_the_mean_over_noise() {
    for index in [0u64, 1, 2] {
        let mut network = Network::new(graph(index, 5), Loss::Logistic, 5, 3, 0.5, index);
        let rounds = 200;
        network.inputs.noise = vec![0.01; rounds as usize];
        let start = Admm { penalty: Some(2.0), dual_step: Some(0.5), ..Admm::default() };
        let admm = certified(&network, &start);
        let Some(CertifiedBound::Distance(envelope)) = admm.assess(&network.inputs).bound else {
            panic!("a bound")
        };
        let (penalty, dual_step) = (admm.penalty.expect("set"), admm.dual_step.expect("set"));
        let optimum = network.optimum();
        let door = Door::Noisy { noise: |_| Noise::Gaussian { sigma: 0.01 }, budget: None };
        let protocol: Arc<dyn Protocol> = Arc::new(admm);
        let mut ends = Vec::new();
        let mut bound = f64::NAN;
        for repetition in 0..20 {
            let mut run = network.run(&protocol, rounds, door, &Seed::from(repetition));
            let first = network.distance(&run, penalty, dual_step, &optimum);
            (0..rounds).for_each(|_| run.advance());
            ends.push(network.distance(&run, penalty, dual_step, &optimum));
            bound = *envelope.curve(first, rounds).last().expect("rounds");
        }
        let mean = ends.iter().sum::<f64>() / ends.len() as f64;
        assert!(mean <= bound, "problem {index}: {mean} above {bound}");
    }
}

#[test]
fn the_working_rule_has_no_false_stable_on_200_draws() {
    let mut diverged_beyond = 0;
    for index in 0..200u64 {
        let mut rng = Seed::from(5000 + index).stream(Purpose::Release, 0, 0);
        // One record an agent and squared loss: the curvature is M itself, the worst case.
        let worst = index % 2 == 0;
        let loss = if worst { Loss::Ridge { clip: f64::INFINITY } } else { Loss::Logistic };
        let mu = 10f64.powf(rng.random_range(-2.0..0.0));
        let agents = rng.random_range(3..20usize);
        let network =
            Network::new(graph(index, agents), loss, if worst { 1 } else { 8 }, 3, mu, index);
        let facts = &network.inputs.facts;
        let exact = index % 10 == 7;
        let penalty = facts.smoothness * 10f64.powf(rng.random_range(0.05..1.2));
        let mean = rng.random_range(0.1..0.6);
        let weights = (index % 3 == 0).then_some([0.5 * mean, 1.5 * mean]);
        let admm = |share: f64| {
            let mut one = Admm {
                penalty: Some(penalty),
                dual_step: Some(1.0),
                exact,
                weights,
                ..Admm::default()
            };
            if index % 5 == 0 {
                one.aggregation = Aggregation::Fixed;
            }
            // The dual step at this share of what the rule allows.
            let s = weights.map_or(0.5, |_| mean);
            let room = 4.0 * penalty * (1.0 - s) - if exact { 0.0 } else { 2.0 * facts.smoothness };
            one.dual_step = Some(share * room / facts.laplacian_max);
            (room > 0.0).then_some(one)
        };
        let Some(stable) = admm(rng.random_range(0.5..0.99)) else { continue };
        let said = stable.assess(&network.inputs);
        assert_ne!(said.standing, Certainty::Unstable, "{}", said.inequality);
        let rounds = if exact { 400 } else { 3_000 };
        let optimum = network.optimum();
        let error = |admm: Admm, rounds: u32| {
            let protocol: Arc<dyn Protocol> = Arc::new(admm);
            let mut run = network.run(&protocol, rounds, Door::Open, &network.seed);
            (0..rounds).for_each(|_| run.advance());
            let worst = run.rows().iter().zip(optimum.x.iter().cycle()).map(|(x, o)| (x - o).abs());
            // Not f64::max, which would lose a NaN.
            worst.fold(0.0, |a: f64, b| if b > a || b.is_nan() { b } else { a })
        };
        let start = optimum.x.iter().fold(0.0f64, |a, b| a.max(b.abs()));
        let end = error(stable.clone(), rounds);
        assert!(end < 0.5 * start, "draw {index}: {end} from {start}, said {}", said.inequality);
        if let Some(beyond) = admm(2.5) {
            assert_eq!(beyond.assess(&network.inputs).standing, Certainty::Unstable);
            let end = error(beyond, 300);
            diverged_beyond += usize::from(end > start || end.is_nan());
        }
    }
    // The rule is not vacuous: well beyond it most runs diverge.
    assert!(diverged_beyond > 100, "{diverged_beyond}");
}

#[test]
fn appendix_e_is_stable_but_not_certified() {
    let network = Network::new(graph(0, 10), Loss::Logistic, 100, 14, 1.0, 1);
    let appendix = Admm { penalty: Some(10.0), dual_step: Some(0.5), ..Admm::default() };
    let said = appendix.assess(&network.inputs);
    assert_eq!(said.standing, Certainty::PredictedStable);
    assert!(said.not_certified.expect("a reason").contains("no α"));
    let nearest: Admm = parse(said.nearest_certified.expect("one exists")).expect("parameters");
    assert_eq!(nearest.penalty, Some(10.0), "the penalty can stay");
    // docs/paper.md, section 5: certificates need ρ⁰ below about 2m/(N²σ²).
    let facts = &network.inputs.facts;
    let [low, high] = nearest.weights.expect("narrowed");
    let rho = 0.5 * (low + high) * 10.0 / facts.degrees.1 as f64;
    assert!(rho < 2.0 / (100.0 * facts.degrees.0 as f64), "{rho}");
    for big in [Graph::complete(100), Graph::star(100)] {
        let network = Network::new(big.expect("a graph"), Loss::Logistic, 5, 3, 1.0, 1);
        assert_eq!(appendix.assess(&network.inputs).standing, Certainty::Unstable);
    }
    // Without strong convexity, or with a constraint set, there is no certificate at all.
    let mut flat = network.inputs.clone();
    flat.facts.strong_convexity = 0.0;
    assert!(appendix.assess(&flat).nearest_certified.is_none());
    flat.facts.strong_convexity = 1.0;
    flat.constraint = Constraint::L2Ball { radius: 1.0 };
    assert!(appendix.assess(&flat).nearest_certified.is_none());
}

#[test]
fn theorem_4_1_bounds_the_gap_of_the_mean_model() {
    for (sigma, repetitions) in [(0.0, 1), (0.05, 30)] {
        let mut network =
            Network::new(Graph::complete(6).expect("a graph"), Loss::Logistic, 10, 8, 0.1, 3);
        let rounds = 80;
        network.inputs.facts.rounds = rounds;
        let door = if sigma > 0.0 {
            network.inputs.noise = vec![0.05; rounds as usize];
            Door::Noisy { noise: |_| Noise::Gaussian { sigma: 0.05 }, budget: None }
        } else {
            Door::Open
        };
        let step = Schedule::Constant(1.0 / network.inputs.facts.smoothness);
        let gd = GradientDescent { step: Some(step), aggregation: Aggregation::Fixed };
        let said = gd.assess(&network.inputs);
        assert_eq!(said.standing, Certainty::Certified);
        assert!(said.rule.starts_with("Theorem 4.1"), "{}", said.rule);
        let Some(CertifiedBound::Value(envelope)) = said.bound else { panic!("a bound") };
        let eta = 1.0 / network.inputs.facts.smoothness;
        let all = Envelope::theorem_4(&network.inputs, eta);
        assert_eq!(
            (all.len(), &all[0].1),
            (3, &envelope),
            "the best of the three is what is promised"
        );
        let measured =
            network.mean_gaps(&(Arc::new(gd) as Arc<dyn Protocol>), rounds, door, repetitions);
        for (theorem, envelope) in &all {
            stays_under(&measured, &envelope.curve(measured[0], rounds), theorem);
        }
    }
}

/// Mean gaps over the rounds never exceed a bound on their expectation.
fn stays_under(measured: &[f64], curve: &[f64], theorem: &str) {
    for (k, (gap, bound)) in measured.iter().zip(curve).enumerate() {
        assert!(
            gap <= &(bound * (1.0 + 1e-9) + 1e-12),
            "{theorem}, round {k}: {gap} above {bound}"
        );
    }
}

impl Network {
    /// F(x̄) − F* before every round and after the last, mean over repetitions with noise of their
    /// own.
    fn mean_gaps(
        &self,
        protocol: &Arc<dyn Protocol>,
        rounds: u32,
        door: Door,
        repetitions: u64,
    ) -> Vec<f64> {
        let best = central_optimum(&self.locals, &Constraint::None, None).value;
        let mut mean = vec![0.0; rounds as usize + 1];
        for repetition in 0..repetitions {
            let mut run = self.run(protocol, rounds, door, &Seed::from(repetition));
            for gap in &mut mean {
                let rows: Vec<&[f64]> = run.rows().chunks(self.dim).collect();
                let centre = consenso_engine::protocol::CommonSummary::of(&rows).mean;
                *gap += (mean_value(&self.locals, &centre) - best) / repetitions as f64;
                run.advance();
            }
        }
        mean
    }
}

/// A softmax is a function of several products: Theorem 4.1 says nothing of it, Theorem 4.2 does.
#[test]
fn theorem_4_2_bounds_a_loss_that_is_not_generalised_linear() {
    let (features, classes, rounds) = (3, 3, 60);
    let mut synthetic = Synthetic::new(SyntheticTask::Softmax { classes }, 4, 20, features);
    synthetic.heterogeneity = 0.5;
    let objective = Objective { loss: Loss::Softmax { classes }, regularization: 0.1 };
    let mut network =
        Network::new(Graph::complete(4).expect("a graph"), Loss::Logistic, 20, features, 0.1, 5);
    let data = synthetic.generate(&network.seed).expect("valid");
    network.locals =
        data.into_iter().map(|records| LocalObjective::new(objective, records)).collect();
    network.dim = classes * features;
    let bounds = synthetic.bounds();
    let inputs = &mut network.inputs;
    (inputs.facts.dim, inputs.facts.rounds, inputs.outputs) = (classes * features, rounds, classes);
    inputs.facts.smoothness = objective.smoothness(&bounds);
    inputs.gradient =
        Sensitivity { l1: 2.0 * bounds.l1(), l2: 2f64.sqrt() * bounds.l2(), linf: bounds.linf() };
    inputs.noise = vec![0.2; rounds as usize];
    let step = Schedule::Constant(1.0 / inputs.facts.smoothness);
    let gd = GradientDescent { step: Some(step), aggregation: Aggregation::Fixed };
    let eta = 1.0 / network.inputs.facts.smoothness;
    assert!(Envelope::theorem_4_1(&network.inputs, eta).is_none());
    let door = Door::Noisy { noise: |_| Noise::Gaussian { sigma: 0.2 }, budget: None };
    let measured = network.mean_gaps(&(Arc::new(gd) as Arc<dyn Protocol>), rounds, door, 40);
    let all = Envelope::theorem_4(&network.inputs, eta);
    assert_eq!(all.len(), 2);
    for (theorem, envelope) in all {
        stays_under(&measured, &envelope.curve(measured[0], rounds), theorem);
    }
}

/// What Theorem 4.2 rests on: E‖Δ‖_∞ ≤ σ√(2 ln 2d), and not by much; a loss such as a soft maximum
/// of the coordinates feels all of it.
#[test]
fn theorem_4_2_has_the_growth_of_a_largest_coordinate() {
    let rng = &mut Seed::from(6).stream(Purpose::Audit, 0, 0);
    let mut normal = || {
        let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    };
    for (d, repetitions) in [(1, 20_000), (10, 4_000), (1_000, 200), (100_000, 5)] {
        let largest = |_| (0..d).map(|_| normal().abs()).fold(0.0, f64::max);
        let mean = (0..repetitions).map(largest).sum::<f64>() / f64::from(repetitions);
        let bound = (2.0 * (2.0 * f64::from(d)).ln()).sqrt();
        assert!(mean <= bound && mean > 0.65 * bound, "d = {d}: {mean} of {bound}");
    }
}

/// The bounds of Theorem 4 over dimensions: without a regulariser 4.1 has no d in it and 4.2 its
/// logarithm; with one, all grow with d.
#[test]
fn theorem_4_grows_with_the_dimension_as_it_says() {
    let mut inputs =
        Network::new(Graph::complete(4).expect("a graph"), Loss::Logistic, 5, 3, 0.1, 5).inputs;
    inputs.noise = vec![0.01; 10];
    let added = |inputs: &TheoremInputs, d: usize, theorem: usize| {
        let mut at = inputs.clone();
        at.facts.dim = d;
        [
            Envelope::theorem_4_1(&at, 1.0).expect("a GLM"),
            Envelope::theorem_4_2(&at, 1.0),
            Envelope::second_order(&at, 1.0),
        ][theorem]
            .added[0]
    };
    let growth = |inputs: &TheoremInputs, theorem| {
        added(inputs, 100_000, theorem) / added(inputs, 10, theorem)
    };
    assert!(
        (0..3).all(|theorem| growth(&inputs, theorem) > 5.0),
        "the regulariser feels every coordinate"
    );
    inputs.facts.strong_convexity = 0.0;
    assert_eq!(growth(&inputs, 0), 1.0);
    assert_eq!(growth(&inputs, 2), 1.0);
    let log = (2e5f64.ln() / 20f64.ln()).sqrt();
    assert!((growth(&inputs, 1) / log - 1.0).abs() < 1e-12);
}

/// Appendix K, alone and together, over orders and noise.
#[test]
fn coordinate_descent_stays_under_its_certificate() {
    let sigma = |_: u32| Noise::Gaussian { sigma: 0.1 };
    for graph in [Graph::alone(), Graph::complete(5).expect("a graph")] {
        for (door, deviation, repetitions) in
            [(Door::Open, None, 20), (Door::Noisy { noise: sigma, budget: None }, Some(0.1), 60u64)]
        {
            let mut network = Network::new(graph.clone(), Loss::Logistic, 10, 6, 0.1, 3);
            let rounds = 240;
            network.inputs.facts.rounds = rounds;
            network.inputs.noise = deviation.map_or(Vec::new(), |s| vec![s; rounds as usize]);
            let eta = 1.0 / network.inputs.facts.coordinate_smoothness;
            let mut mean = vec![0.0; rounds as usize + 1];
            for seed in 0..repetitions {
                let rcd = CoordinateDescent::new(eta, CoordinateOrder::Random, seed, 1);
                let said = rcd.assess(&network.inputs);
                assert_eq!(said.standing, Certainty::Certified, "{said:?}");
                network.seed = Seed::from(seed);
                let gaps =
                    network.mean_gaps(&(Arc::new(rcd) as Arc<dyn Protocol>), rounds, door, 1);
                mean.iter_mut()
                    .zip(&gaps)
                    .for_each(|(mean, gap)| *mean += gap / repetitions as f64);
            }
            let curve = Envelope::coordinate_descent(&network.inputs, eta).curve(mean[0], rounds);
            stays_under(&mean, &curve, "coordinate descent");
            assert!(curve[240] < mean[0], "a bound that says something: {}", curve[240]);
        }
    }
    let network = Network::new(Graph::complete(5).expect("a graph"), Loss::Logistic, 10, 6, 0.1, 3);
    let eta = 1.0 / network.inputs.facts.coordinate_smoothness;
    let shuffled =
        CoordinateDescent::new(eta, CoordinateOrder::Shuffle, 0, 1).assess(&network.inputs);
    assert_eq!(shuffled.standing, Certainty::PredictedStable);
    assert_eq!(shuffled.nearest_certified.expect("one")["order"].as_str(), Some("random"));
    let far =
        CoordinateDescent::new(2.5 * eta, CoordinateOrder::Random, 0, 1).assess(&network.inputs);
    assert_eq!(far.standing, Certainty::Open);
}

#[test]
fn theorem_3_4_bounds_the_gap_of_the_averaged_model() {
    let mut network =
        Network::new(Graph::complete(6).expect("a graph"), Loss::Logistic, 10, 4, 0.0, 4);
    let rounds = 100u32;
    network.inputs.facts.rounds = rounds;
    let mut parameters = Parameters::new();
    parameters.insert("step".into(), toml::from_str("inverse_sqrt = { first = 1.0 }").unwrap());
    let gd = from_table("gd", parameters).expect("known").expect("valid");
    let said = gd.parts().assessed.expect("it is assessed").assess(&network.inputs);
    assert_eq!((said.standing, said.rule.as_str()), (Certainty::Certified, "Theorem 3.4"));
    let target = central_optimum(&network.locals, &Constraint::L2Ball { radius: 3.0 }, None);
    let mut run = network.run(&Arc::from(gd), rounds, Door::Open, &network.seed);
    let mut average = vec![0.0; 4];
    for _ in 0..rounds {
        for row in run.rows().chunks(4) {
            average.iter_mut().zip(row).for_each(|(a, x)| *a += x / (6.0 * f64::from(rounds)));
        }
        run.advance();
    }
    // The theorem holds against every point, not only the minimiser, which separable data do not
    // have.
    let start: f64 = target.x.iter().map(|x| x * x).sum();
    let bound = consenso_engine::theory::descent::theorem_3_4(
        rounds,
        1.0,
        start,
        network.inputs.gradient.l2,
        0.0,
    );
    let gap = mean_value(&network.locals, &average) - target.value;
    assert!(gap <= bound, "{gap} above {bound}");
    // A regulariser makes gradients unbounded, so the theorem needs a bounded set.
    network.inputs.facts.strong_convexity = 0.1;
    let mut parameters = Parameters::new();
    parameters.insert("step".into(), toml::from_str("inverse_sqrt = { first = 1.0 }").unwrap());
    let gd = from_table("gd", parameters).expect("known").expect("valid");
    let gd = gd.parts().assessed.expect("it is assessed");
    assert_eq!(gd.assess(&network.inputs).standing, Certainty::Open);
    network.inputs.constraint = Constraint::L2Ball { radius: 3.0 };
    assert_eq!(gd.assess(&network.inputs).standing, Certainty::Certified);
}

#[test]
fn coordinate_descent_keeps_its_bound() {
    // f(x) = Σ_l (h_l/2) x_l² + √(1 + x_l²) − 1: coordinates of smoothness at most h_l + 1, |∇f_l|
    // ≤ h_l·|x_l| + 1.
    let h = [0.5, 1.0, 2.0, 0.7, 1.5];
    let (d, m, smoothness, sigma) = (5, 0.5, 3.0, 0.01);
    let f = |x: &[f64]| -> f64 {
        x.iter().zip(h).map(|(x, h)| 0.5 * h * x * x + (1.0 + x * x).sqrt() - 1.0).sum()
    };
    let start = [1.0; 5];
    let rounds = 300u32;
    let (mut mean, repetitions) = (vec![0.0; rounds as usize + 1], 400u64);
    for repetition in 0..repetitions {
        let mut rng = Seed::from(repetition).stream(Purpose::Release, 0, 0);
        let mut x = start;
        for gap in &mut mean {
            *gap += f(&x) / repetitions as f64;
            let l = rng.random_range(0..5usize);
            // Box and Muller: the library's sampler is not under test here.
            let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
            let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
            let gradient = h[l] * x[l] + x[l] / (1.0 + x[l] * x[l]).sqrt();
            x[l] += -gradient / smoothness + sigma * normal;
        }
    }
    // Points stay within |x_l| ≤ 2 here, so Σ_l sup |∇f_l| ≤ 2Σh + d.
    let l1 = 2.0 * h.iter().sum::<f64>() + 5.0;
    let curve = Envelope::coordinate(d, m, smoothness, l1, &vec![sigma; rounds as usize])
        .curve(f(&start), rounds);
    for (k, (gap, bound)) in mean.iter().zip(&curve).enumerate() {
        assert!(*gap <= bound * (1.0 + 1e-12), "round {k}: {gap} above {bound}");
    }
    // And the noiseless rate is about right: not a bound that anything would pass.
    assert!(curve[50] < f(&start), "{}", curve[50]);
}

fn experiment(text: &str) -> Experiment {
    let spec: ExperimentSpec = toml::from_str(text).expect("a file");
    let source = Source::Synthetic(spec.synthetic().expect("synthetic").expect("sizes"));
    let inputs = Inputs {
        file: "small".into(),
        text: text.into(),
        spec,
        source,
        edges: None,
        entropy: None,
    };
    Experiment::check(inputs).expect("sound")
}

/// The first algorithm is certified, the second is not; the first stays under its curve.
fn stays_under_its_curve(text: &str) {
    let experiment = experiment(text);
    let plans = experiment.plan();
    assert_eq!(plans[0].assessment.standing, Certainty::Certified, "{:?}", plans[0].assessment);
    assert_eq!(plans[1].assessment.standing, Certainty::PredictedStable);
    let record = run(&experiment, &Silent).expect("runs").record;
    let certified = record.algorithms[0].certified.as_ref().expect("a certificate");
    assert_eq!(certified.quantity, "log_error");
    assert!(record.algorithms[1].certified.is_none());
    for (point, &(round, bound)) in record.algorithms[0].curve.iter().zip(&certified.points) {
        assert_eq!(point.round, round);
        assert!(
            point.log_error.mean <= bound + 1e-12,
            "round {round}: {} above {bound}",
            point.log_error.mean
        );
    }
    assert!(certified.points.last().expect("points").1 < certified.points[0].1);
}

#[test]
fn the_record_carries_the_certified_curve_and_the_run_stays_under_it() {
    let consensus = "name = \"small\"\nruns = 2\n[data]\nsource = \"logistic\"\nagents = 5\nrecords_per_agent = 30\ndim = 4\n\
                [objective]\nregularization = 0.5\n[graph]\nkind = \"ring\"\n[[algorithm]]\nkind = \"admm\"\nrounds = 300\n\
                penalty = 3.0\ndual_step = 0.002\nweights = [0.0, 0.006]\n[[algorithm]]\nkind = \"admm\"\nrounds = 50\n";
    stays_under_its_curve(consensus);
    let tied = "name = \"tied\"\nruns = 2\n[data]\nsource = \"ridge\"\nagents = 5\nrecords_per_agent = 30\ndim = 4\n\
                [objective]\nloss = \"ridge\"\nclip = 1.0\nregularization = 0.5\n[problem]\nrhs = [1.0, 0.0, 0.0, -1.0]\n\
                [[algorithm]]\nkind = \"linear-admm\"\nrounds = 300\npenalty = 3.0\ndual_step = 0.005\nrho = [0.0, 0.02]\n\
                [[algorithm]]\nkind = \"linear-admm\"\nrounds = 50\n";
    stays_under_its_curve(tied);
    // The curve is about runs that start at zero.
    let elsewhere = experiment(&consensus.replace("runs = 2", "runs = 2\nstart = 1.0"));
    assert!(run(&elsewhere, &Silent).expect("runs").record.algorithms[0].certified.is_none());
}
