//! Problems tied by a linear constraint: the algorithm against optima found another way, the
//! theorems, and what its releases give away.

use consenso_engine::account::testing;
use consenso_engine::agent::{Agent, Player, Timetable};
use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, Silent, Source, run};
use consenso_engine::gate::{Gate, Ledger, Noise, RoundNoise};
use consenso_engine::graph::{Graph, Mixing};
use consenso_engine::problem::coupled::coupled_optimum;
use consenso_engine::problem::coupling::{Block, Coupling, CouplingError, Relation};
use consenso_engine::problem::{Constraint, Costs, LocalObjective, Sensitivity};
use consenso_engine::protocol::{
    Aggregation, Assessed, Configured, LinearAdmm, Protocol, PublicFacts, Randomized, View, Weights,
};
use consenso_engine::random::{Purpose, Seed, Stream};
use consenso_engine::sharing::{FixedPoint, ShareEffect, SharingAgent};
use consenso_engine::simulate::{Faults, Lockstep, over_messages};
use consenso_engine::theory::{Certainty, TheoremInputs};
use consenso_study::ExperimentFile as _;
use consenso_study::experiment::built_in;
use nalgebra::{DMatrix, DVector};
use rand::RngExt;
use std::sync::Arc;

/// min Σ (q/2)x² + bx subject to A x = c, split among agents.
struct CoupledProblem {
    locals: Vec<LocalObjective>,
    coupling: Arc<Coupling>,
    facts: PublicFacts,
    /// The whole problem as dense matrices, for the reference.
    q: Vec<f64>,
    b: Vec<f64>,
    dim: usize,
}

fn stream(seed: u64) -> Stream {
    Seed::from(seed).stream(Purpose::Data, 77, 0)
}

impl CoupledProblem {
    /// Random costs with curvatures in [m, 10m], random A_i of the given density, no limits.
    fn random(seed: u64, agents: usize, dim: usize, rows: usize, density: f64) -> Self {
        let rng = &mut stream(seed);
        let m = 10f64.powf(rng.random_range(-1.0..0.5));
        let (mut q, mut b, mut locals, mut blocks) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for i in 0..agents {
            let own_q: Vec<f64> = (0..dim).map(|_| m * rng.random_range(1.0..10.0)).collect();
            let own_b: Vec<f64> = (0..dim).map(|_| rng.random_range(-2.0..2.0)).collect();
            let mut entries = Vec::new();
            for r in 0..rows {
                for c in 0..dim {
                    // Every row has an entry of the first agent's, so that it can be met.
                    if rng.random::<f64>() < density || (i == r % agents && c == r % dim) {
                        entries.push((r, c, rng.random_range(-1.0..1.0)));
                    }
                }
            }
            blocks.push((format!("agent {}", i + 1), Block::from_entries(dim, entries)));
            let limits = vec![[f64::NEG_INFINITY, f64::INFINITY]; dim];
            locals.push(LocalObjective::from_costs(Costs::new(
                own_q.clone(),
                own_b.clone(),
                limits,
            )));
            q.extend(own_q);
            b.extend(own_b);
        }
        let rhs = (0..rows).map(|_| rng.random_range(-1.0..1.0)).collect();
        let coupling =
            Coupling::new(blocks, rhs, vec![Relation::Equal; rows]).expect("rows of full rank");
        let range =
            q.iter().copied().fold((f64::INFINITY, 0.0f64), |a, q| (a.0.min(q), a.1.max(q)));
        let facts = facts(agents, dim, range);
        Self { locals, coupling: Arc::new(coupling), facts, q, b, dim }
    }

    /// The KKT system [Q −Aᵀ; A 0][x; λ] = [−b; c], solved directly: shares nothing with the
    /// library's dual method.
    fn kkt(&self) -> (Vec<f64>, Vec<f64>) {
        let (n, m) = (self.q.len(), self.coupling.rows());
        let mut k = DMatrix::<f64>::zeros(n + m, n + m);
        let mut right = DVector::<f64>::zeros(n + m);
        for l in 0..n {
            k[(l, l)] = self.q[l];
            right[l] = -self.b[l];
        }
        for agent in 0..self.coupling.agents() {
            for &(r, c, v) in self.coupling.block(agent).entries() {
                k[(n + r, agent * self.dim + c)] = v;
                k[(agent * self.dim + c, n + r)] = -v;
            }
        }
        for (r, c) in self.coupling.rhs().iter().enumerate() {
            right[n + r] = *c;
        }
        let solution = k.full_piv_lu().solve(&right).expect("full rank");
        (
            solution.rows(0, n).iter().copied().collect(),
            solution.rows(n, m).iter().copied().collect(),
        )
    }

    fn protocol(&self, mut admm: LinearAdmm) -> LinearAdmm {
        admm.coupling = Some(Arc::clone(&self.coupling));
        admm.resolve(&self.facts);
        admm
    }

    fn inputs(&self) -> TheoremInputs {
        TheoremInputs {
            facts: self.facts,
            connectivity: f64::NAN,
            gradient: Sensitivity { l1: 1.0, l2: 1.0, linf: 1.0 },
            outputs: 1,
            constraint: Constraint::None,
            noise: Vec::new(),
        }
    }

    fn run(&self, protocol: LinearAdmm, rounds: u32, gates: Vec<Gate>) -> Lockstep {
        let graph = Graph::complete(self.locals.len()).expect("a graph");
        let mixing = Mixing::metropolis(&graph);
        Lockstep::new(self.players(protocol, rounds, gates), Arc::new(graph), Arc::new(mixing))
    }

    fn players(&self, protocol: LinearAdmm, rounds: u32, gates: Vec<Gate>) -> Vec<Player> {
        let protocol: Arc<dyn Protocol> = Arc::new(protocol);
        let timetable = Arc::new(Timetable { rounds, tail_from: rounds, gossip: 0 });
        let player = |(local, gate): (&LocalObjective, Gate)| {
            Player::new(local.clone(), Arc::clone(&protocol), Arc::clone(&timetable), gate)
        };
        self.locals.iter().zip(gates).map(player).collect()
    }

    fn open(&self) -> Vec<Gate> {
        (0..self.locals.len()).map(|i| Gate::open(i as u64, Seed::from(11))).collect()
    }
}

fn facts(agents: usize, dim: usize, curvature: (f64, f64)) -> PublicFacts {
    PublicFacts {
        agents,
        dim,
        records: 1,
        smoothness: curvature.1,
        coordinate_smoothness: curvature.1,
        coordinate_sensitivity: 1.0,
        strong_convexity: curvature.0,
        laplacian_max: agents as f64,
        mixing: 0.0,
        mixing_min: 0.0,
        degrees: (agents - 1, agents - 1),
        complete: true,
        rounds: 1,
        private: false,
        budget: None,
    }
}

fn far(a: &[f64], b: &[f64]) -> f64 {
    // Not f64::max, which would lose a NaN.
    let larger = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, larger)
}

fn shape(index: u64) -> (usize, usize, usize, f64) {
    let rng = &mut stream(10_000 + index);
    let (agents, dim) = (rng.random_range(2..8usize), rng.random_range(1..5usize));
    let rows = rng.random_range(1..=(agents * dim / 2).clamp(1, 6));
    (agents, dim, rows, [1.0, 0.3][(index % 2) as usize])
}

#[test]
fn exact_and_first_order_reach_the_optimum_to_1e_8_on_20_random_problems() {
    for index in 0..20u64 {
        let (agents, dim, rows, density) = shape(index);
        let problem = CoupledProblem::random(index, agents, dim, rows, density);
        let (optimum, _) = problem.kkt();
        for exact in [false, true] {
            for aggregation in [Aggregation::Random, Aggregation::Fixed] {
                let admm =
                    problem.protocol(LinearAdmm { exact, aggregation, ..LinearAdmm::default() });
                assert_eq!(admm.check(&problem.facts), Ok(None), "problem {index}");
                assert_ne!(admm.assess(&problem.inputs()).standing, Certainty::Unstable);
                let mut run = problem.run(admm, u32::MAX, problem.open());
                let mut error = f64::INFINITY;
                while error > 1e-8 && run.round() < 200_000 {
                    (0..500).for_each(|_| run.advance());
                    error = far(run.rows(), &optimum);
                }
                assert!(
                    error <= 1e-8,
                    "problem {index}, exact {exact}, {aggregation:?}: {error:e} after {} rounds",
                    run.round()
                );
            }
        }
    }
}

#[test]
fn the_reference_optimum_is_the_kkt_solution() {
    for index in 0..20u64 {
        let (agents, dim, rows, density) = shape(index);
        let problem = CoupledProblem::random(index, agents, dim, rows, density);
        let (x, dual) = problem.kkt();
        let found = coupled_optimum(&problem.locals, &problem.coupling).expect("feasible");
        assert!(far(&found.x, &x) <= 1e-9, "problem {index}: {:e}", far(&found.x, &x));
        assert!(
            far(&found.dual, &dual)
                <= 1e-8 * (1.0 + dual.iter().fold(0.0, |a: f64, b| a.max(b.abs())))
        );
    }
}

#[test]
fn the_working_rule_has_no_false_stable_on_200_draws() {
    let mut diverged = 0;
    for index in 0..200u64 {
        let rng = &mut stream(20_000 + index);
        let (agents, dim, rows, density) = shape(index);
        let problem = CoupledProblem::random(1_000 + index, agents, dim, rows, density);
        let exact = index % 3 == 0;
        let norm = problem.coupling.norm_squared();
        let (m, smoothness) = (problem.facts.strong_convexity, problem.facts.smoothness);
        let rho = smoothness / norm * 10f64.powf(rng.random_range(-1.5..0.5));
        let dual_step = rho * 10f64.powf(rng.random_range(-1.0..0.7));
        let pull = (2.0 * rho + dual_step) * norm;
        let needed = 0.25 * if exact { pull - 2.0 * m } else { pull + 2.0 * smoothness };
        // Γ must stay positive as well.
        let positive =
            2.0 * rho * problem.coupling.sigma_squared().iter().copied().fold(0.0, f64::max);
        let admm = |share: f64| {
            let penalty = (share * needed).max(if share > 1.0 { 1.001 * positive } else { 1e-6 });
            problem.protocol(LinearAdmm {
                penalty: Some(penalty),
                dual_step: Some(dual_step),
                rho: Some([0.0, 2.0 * rho]),
                exact,
                ..LinearAdmm::default()
            })
        };
        let stable = admm(rng.random_range(1.02..2.0));
        assert_ne!(stable.assess(&problem.inputs()).standing, Certainty::Unstable);
        let (optimum, _) = problem.kkt();
        let start = optimum.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let mut run = problem.run(stable, 20_000, problem.open());
        let (mut error, mut rounds) = (f64::INFINITY, 0);
        while error > 0.1 * start && rounds < 20_000 {
            (0..500).for_each(|_| run.advance());
            rounds += 500;
            error = far(run.rows(), &optimum);
        }
        assert!(error <= 0.1 * start, "draw {index}, exact {exact}: {error} from {start}");
        // Fixed weights below the rule: the mean dynamics themselves diverge.
        if needed > 0.0 && !exact {
            let mut low = admm(0.7);
            low.aggregation = Aggregation::Fixed;
            assert_eq!(low.assess(&problem.inputs()).standing, Certainty::Unstable);
            let mut run = problem.run(low, 3_000, problem.open());
            (0..3_000).for_each(|_| run.advance());
            let error = far(run.rows(), &optimum);
            diverged += usize::from(error > start || error.is_nan());
        }
    }
    // The rule is not vacuous.
    assert!(diverged > 20, "{diverged}");
}

#[test]
fn certified_contraction_is_never_violated() {
    let mut tried = 0;
    for index in 0..30u64 {
        let (agents, dim, rows, density) = shape(index);
        let problem = CoupledProblem::random(2_000 + index, agents, dim, rows, density);
        let exact = index % 2 == 0;
        let sigma = problem.coupling.sigma_squared().iter().copied().fold(0.0, f64::max);
        let n = agents as f64;
        // docs/paper.md, section 5: ρ⁰ below about 2m/(N²σ²); or what is said to be the nearest
        // certified choice.
        let rho = 0.2 * problem.facts.strong_convexity / (n * n * sigma);
        let admm = if index % 3 == 0 {
            let open = problem.protocol(LinearAdmm { exact, ..LinearAdmm::default() });
            let said = open.assess(&problem.inputs());
            assert_eq!(said.standing, Certainty::PredictedStable, "{said:?}");
            let nearest = said.nearest_certified.expect("m > 0");
            problem.protocol(consenso_engine::protocol::parse(nearest).expect("parameters"))
        } else {
            problem.protocol(LinearAdmm {
                penalty: Some(2.0 * problem.facts.smoothness),
                dual_step: Some(0.5 * rho),
                rho: Some([0.5 * rho, 1.5 * rho]),
                exact,
                ..LinearAdmm::default()
            })
        };
        let said = admm.assess(&problem.inputs());
        assert_eq!(said.standing, Certainty::Certified, "{:?}", said.not_certified);
        let factor = said.rate.expect("a rate");
        let (penalty, zeta) = (admm.penalty.expect("set"), admm.dual_step.expect("set"));
        let (x, dual) = problem.kkt();
        let mut run = problem.run(admm, 1_000, problem.open());
        let distance = |run: &Lockstep| {
            let primal: f64 = run.rows().iter().zip(&x).map(|(a, b)| (a - b) * (a - b)).sum();
            // The last exchange is taken in only by the next round: do it here.
            let mut residual = vec![0.0; rows];
            problem.coupling.residual(run.rows().chunks(dim), &mut residual);
            let last = if run.round() > 0 { zeta } else { 0.0 };
            let own = &run.players()[0].memory()[..rows];
            let off = own.iter().zip(&residual).zip(&dual).map(|((l, r), d)| l - last * r - d);
            penalty * primal + off.map(|o| o * o).sum::<f64>() / zeta
        };
        let mut before = distance(&run);
        for round in 1..=200 {
            run.advance();
            let now = distance(&run);
            assert!(
                now <= factor * before * (1.0 + 1e-9) + 1e-12,
                "problem {index}, round {round}: {now} after {before}, factor {factor}"
            );
            before = now;
        }
        tried += 1;
    }
    assert_eq!(tried, 30);
}

/// One round of one agent, seen from outside: the interval for the given coins.
fn interval(
    problem: &CoupledProblem,
    admm: &LinearAdmm,
    agent: usize,
    rows: &[f64],
    coins: &[f64],
) -> (Vec<f64>, Vec<f64>) {
    let dim = problem.dim;
    let neighbours: Vec<u32> =
        (0..problem.locals.len() as u32).filter(|&j| j as usize != agent).collect();
    let weights = vec![0.0; neighbours.len()];
    let view = View::new(
        rows,
        dim,
        agent as u32,
        &neighbours,
        agent,
        Weights { own: 1.0, neighbours: &weights },
        1,
    );
    let mut memory = vec![0.0; admm.memory() * dim];
    admm.absorb(&view, &mut memory);
    admm.toss(coins, &mut memory);
    let (mut low, mut high) = (vec![f64::NAN; dim], vec![f64::NAN; dim]);
    admm.interval(&view, &memory, &mut low, &mut high);
    (low, high)
}

/// The paper's update for given penalties, as printed: the quadratic model with Γ_i = D·I −
/// A_iᵀρ_iA_i, solved as a linear system.
fn printed_update(
    problem: &CoupledProblem,
    agent: usize,
    rows: &[f64],
    dual: &[f64],
    rho: &[f64],
    d: f64,
    exact: bool,
) -> Vec<f64> {
    let (dim, m) = (problem.dim, problem.coupling.rows());
    let mut a = DMatrix::<f64>::zeros(m, dim);
    problem.coupling.block(agent).entries().iter().for_each(|&(r, c, v)| a[(r, c)] = v);
    let mut others = DVector::from_iterator(m, problem.coupling.rhs().iter().map(|c| -c));
    for j in (0..problem.coupling.agents()).filter(|&j| j != agent) {
        problem
            .coupling
            .block(j)
            .entries()
            .iter()
            .for_each(|&(r, c, v)| others[r] += v * rows[j * dim + c]);
    }
    let own = agent * dim..(agent + 1) * dim;
    let x = DVector::from_row_slice(&rows[own.clone()]);
    let (q, b) = (
        DVector::from_row_slice(&problem.q[own.clone()]),
        DVector::from_row_slice(&problem.b[own]),
    );
    let rho = DMatrix::from_diagonal(&DVector::from_row_slice(rho));
    let gamma = DMatrix::identity(dim, dim) * d - a.transpose() * &rho * &a;
    let pull = a.transpose() * (DVector::from_row_slice(dual) - &rho * others) + &gamma * &x - &b;
    if exact {
        let system = DMatrix::from_diagonal(&q) + a.transpose() * &rho * &a + gamma;
        system.full_piv_lu().solve(&pull).expect("positive definite").iter().copied().collect()
    } else {
        ((pull - q.component_mul(&x)) / d).iter().copied().collect()
    }
}

#[test]
fn the_update_is_the_papers_for_every_draw() {
    for seed in 0..30u64 {
        let rng = &mut stream(30_000 + seed);
        let problem = CoupledProblem::random(3_000 + seed, 3, 3, 4, 0.3);
        let (d, zeta, range) = (25.0, 0.3, [0.2, 0.9]);
        let exact = seed % 2 == 0;
        let admm = problem.protocol(LinearAdmm {
            penalty: Some(d),
            dual_step: Some(zeta),
            rho: Some(range),
            exact,
            ..LinearAdmm::default()
        });
        let rows: Vec<f64> = (0..9).map(|_| rng.random_range(-1.0..1.0)).collect();
        let coins: Vec<f64> = (0..4).map(|_| rng.random()).collect();
        let rho: Vec<f64> = coins.iter().map(|c| range[0] + c * (range[1] - range[0])).collect();
        let mut residual = vec![0.0; 4];
        problem.coupling.residual(rows.chunks(3), &mut residual);
        let dual: Vec<f64> = residual.iter().map(|r| -zeta * r).collect();
        for agent in 0..3 {
            let (low, high) = interval(&problem, &admm, agent, &rows, &coins);
            // The open row of each coordinate is drawn at its own coin here, so that all rows have
            // the penalties of `rho`.
            let mut point = low.clone();
            for l in 0..3 {
                let alone = problem.coupling.block(agent).single().iter().filter(|e| e.1 == l);
                let widest = alone.max_by(|a, b| {
                    (a.2 * residual[a.0]).abs().total_cmp(&(b.2 * residual[b.0]).abs())
                });
                if let Some(&(r, _, _)) = widest {
                    point[l] += coins[r] * (high[l] - low[l]);
                }
            }
            let step = |l: usize| {
                let (q, b) = (problem.q[agent * 3 + l], problem.b[agent * 3 + l]);
                if exact {
                    (d * point[l] - b) / (q + d)
                } else {
                    point[l] - (q * rows[agent * 3 + l] + b) / d
                }
            };
            let ours: Vec<f64> = (0..3).map(step).collect();
            let printed = printed_update(&problem, agent, &rows, &dual, &rho, d, exact);
            assert!(
                far(&ours, &printed) < 1e-13,
                "problem {seed}, agent {agent}: {ours:?} is not {printed:?}"
            );
        }
    }
}

#[test]
fn only_rows_that_are_alone_widen_an_interval_and_each_once() {
    // Agent 1: row 1 touches x_1 alone, row 2 both, rows 3 and 4 touch x_2 alone.
    let entries = vec![(0, 0, 2.0), (1, 0, 1.0), (1, 1, -1.0), (2, 1, 0.5), (3, 1, 3.0)];
    let other = vec![(0, 0, 1.0), (1, 0, 1.0), (2, 1, 1.0), (3, 1, -1.0)];
    let blocks = vec![
        ("a".to_owned(), Block::from_entries(2, entries)),
        ("b".to_owned(), Block::from_entries(2, other)),
    ];
    let rhs = vec![1.0, -0.5, 2.0, 0.3];
    let coupling = Coupling::new(blocks, rhs.clone(), vec![Relation::Equal; 4]).expect("sound");
    let costs =
        || Costs::new(vec![1.0; 2], vec![0.5; 2], vec![[f64::NEG_INFINITY, f64::INFINITY]; 2]);
    let mut problem = CoupledProblem::random(1, 2, 2, 1, 1.0);
    problem.coupling = Arc::new(coupling);
    problem.locals = vec![LocalObjective::from_costs(costs()), LocalObjective::from_costs(costs())];
    let (d, range) = (20.0, [0.1, 0.4]);
    let admm = problem.protocol(LinearAdmm {
        penalty: Some(d),
        dual_step: Some(0.2),
        rho: Some(range),
        ..LinearAdmm::default()
    });
    let rows = [0.3, -0.2, 0.7, 0.4];
    let coins = [0.25, 0.5, 0.75, 1.0];
    let (low, high) = interval(&problem, &admm, 0, &rows, &coins);
    // By hand: R = Σ A x − c and λ = −ζR.
    let x = [0.3, -0.2];
    let residual =
        [2.0 * 0.3 + 0.7 - 1.0, 0.3 + 0.2 + 0.7 + 0.5, -0.1 + 0.4 - 2.0, -0.6 - 0.4 - 0.3];
    let dual = residual.map(|r| -0.2 * r);
    let rho = coins.map(|c| range[0] + c * (range[1] - range[0]));
    let base_1 = x[0] + (2.0 * dual[0] + dual[1]) / d - rho[1] * residual[1] / d;
    let ends_1 = range.map(|r| base_1 - r * 2.0 * residual[0] / d);
    // |3·R_4| = 3.9 is wider than |0.5·R_3| = 0.85: row 4 stays open, row 3 counts as revealed.
    let base_2 = x[1] + (-dual[1] + 0.5 * dual[2] + 3.0 * dual[3]) / d + rho[1] * residual[1] / d
        - rho[2] * 0.5 * residual[2] / d;
    let ends_2 = range.map(|r| base_2 - r * 3.0 * residual[3] / d);
    for (l, ends) in [(0, ends_1), (1, ends_2)] {
        assert!(
            (low[l] - ends[0]).abs() < 1e-14 && (high[l] - ends[1]).abs() < 1e-14,
            "{l}: {low:?} {high:?}"
        );
    }
    // The coins of open rows change nothing; those of revealed rows move the interval and not its
    // width.
    let again = interval(&problem, &admm, 0, &rows, &[0.9, 0.5, 0.75, 0.1]);
    assert_eq!(again, (low.clone(), high.clone()));
    let moved = interval(&problem, &admm, 0, &rows, &[0.25, 0.1, 0.75, 1.0]);
    assert!((moved.1[0] - moved.0[0] - (high[0] - low[0])).abs() < 1e-15 && moved.0[0] != low[0]);
    // A dense matrix is credited with nothing.
    let dense = CoupledProblem::random(5, 3, 3, 2, 1.0);
    let admm = dense.protocol(LinearAdmm::default());
    let (low, high) = interval(&dense, &admm, 1, &[0.4; 9], &[0.3, 0.8]);
    assert_eq!(low, high);
}

#[test]
fn neighbouring_costs_move_a_release_by_at_most_their_sensitivity() {
    let mut problem = CoupledProblem::random(3, 3, 2, 2, 0.5);
    // Marginal costs are known to lie in [−1, 1]: whatever the costs are, gradients are clipped to
    // it.
    let unlimited = vec![[f64::NEG_INFINITY, f64::INFINITY]; 2];
    let costs =
        |b: f64| Costs::new(vec![2.0; 2], vec![b; 2], unlimited.clone()).clipped([-1.0, 1.0]);
    let admm = problem.protocol(LinearAdmm { penalty: Some(30.0), ..LinearAdmm::default() });
    let sensitivity = Sensitivity { l1: 4.0, l2: 2.0 * 2f64.sqrt(), linf: 2.0 };
    let step = admm.step_sensitivity(1, 2, &sensitivity, &problem.facts);
    let gates = || -> Vec<Gate> {
        let noise = RoundNoise::new(Noise::Laplace { scale: 0.5 }).expect("a scale");
        (0..3)
            .map(|i| testing::gate(i, Seed::from(4), vec![noise; 40].into(), Ledger::Open))
            .collect()
    };
    for rounds in 1..40u32 {
        let mut releases = Vec::new();
        for b in [-50.0, 50.0] {
            // The same transcript up to this round: the first agent's costs differ in the last one
            // only.
            let mut run = problem.run(admm.clone(), rounds, gates());
            (1..rounds).for_each(|_| run.advance());
            let (rows, memory) = (run.rows().to_vec(), run.players()[0].memory().to_vec());
            problem.locals[0] = LocalObjective::from_costs(costs(b));
            let player = problem.players(admm.clone(), rounds, gates()).swap_remove(0);
            problem.locals[0] = LocalObjective::from_costs(costs(0.0));
            releases.push(play(player, &memory, &rows, rounds - 1));
        }
        // Releases live on a grid, so both are rounded.
        let grid = RoundNoise::new(Noise::Laplace { scale: 0.5 }).expect("a scale").grid().step();
        let moved = far(&releases[0], &releases[1]);
        assert!(
            moved <= step.linf * (1.0 + 1e-9) + grid,
            "round {rounds}: {moved} above {}",
            step.linf
        );
        assert!(moved >= 0.9 * step.linf, "the costs did not differ: {moved}");
    }
}

fn play(mut player: Player, memory: &[f64], rows: &[f64], round: u32) -> Vec<f64> {
    player.restore(memory);
    let weights = [0.0; 2];
    let neighbourhood = consenso_engine::agent::NeighbourView {
        rows,
        me: 0,
        neighbours: &[1, 2],
        place: 0,
        weights: Weights { own: 1.0, neighbours: &weights },
        round,
        common: None,
    };
    let mut out = vec![0.0; 2];
    player.play(&neighbourhood, &mut consenso_engine::gate::DraftScratch::default(), &mut out);
    out
}

#[test]
fn messages_and_lockstep_agree_bit_for_bit() {
    for exact in [false, true] {
        let problem = CoupledProblem::random(7, 4, 3, 3, 0.4);
        let admm = problem.protocol(LinearAdmm { exact, ..LinearAdmm::default() });
        let gates = || -> Vec<Gate> {
            let noise = RoundNoise::new(Noise::Gaussian { sigma: 0.1 }).expect("a scale");
            let limits: Arc<[[f64; 2]]> = vec![[-0.5, 0.5]; 3].into();
            (0..4)
                .map(|i| testing::gate(i, Seed::from(4), vec![noise; 25].into(), Ledger::Open))
                .map(|gate| gate.with_limits(Arc::clone(&limits)))
                .collect()
        };
        let mut run = problem.run(admm.clone(), 25, gates());
        for _ in 0..25 {
            run.advance();
            assert!(run.rows().iter().all(|x| x.abs() <= 0.5));
        }
        let graph = Graph::complete(4).expect("a graph");
        let mixing = Mixing::metropolis(&graph);
        let agent = |(i, player)| Agent::new(i as u32, &graph, &mixing, player);
        let agents =
            problem.players(admm, 25, gates()).into_iter().enumerate().map(agent).collect();
        let faults =
            Faults { delay: (1.0, 30.0), loss: 0.1, retry_after: 40.0, ..Faults::default() };
        let neighbours = |i: usize| graph.neighbours(i).to_vec();
        let (agents, _) =
            over_messages(agents, neighbours, &faults, &Seed::from(9)).expect("the faults heal");
        for (model, agent) in run.finish().iter().zip(&agents) {
            assert_eq!(Some(&model[..]), agent.model());
        }
    }
}

/// Algorithm 3 for what it was made for: A_i x_i in shares, Σ A_i x_i revealed, x_i with its agent.
#[test]
fn in_secret_shares_the_iterates_are_those_of_the_plain_exchange() {
    for (exact, aggregation) in
        [(false, Aggregation::Random), (true, Aggregation::Random), (false, Aggregation::Fixed)]
    {
        // Three rows, two variables an agent: what is shared has another length than x_i.
        let problem = CoupledProblem::random(12, 5, 2, 3, 0.5);
        let admm = problem.protocol(LinearAdmm { exact, aggregation, ..LinearAdmm::default() });
        let code = FixedPoint::new(5, 256.0, 40).expect("far from overflow");
        let mut plain = problem.run(admm.clone(), 400, problem.open());
        let run = problem.run(admm.clone(), 400, problem.open());
        let mut shared = run.secret_shared(code).expect("the sum alone");
        for round in 1..=400 {
            plain.advance();
            shared.advance();
            let error = far(plain.rows(), shared.rows());
            assert!(error < 1e-9, "exact {exact}, {aggregation:?}, round {round}: {error:e}");
        }
        assert!(far(plain.rows(), &problem.kkt().0) < 1e-3, "it got somewhere");
        let agent =
            |(i, player)| SharingAgent::sharing(i as u32, code, player).expect("the sum alone");
        let mut agents: Vec<SharingAgent> =
            problem.players(admm, 400, problem.open()).into_iter().enumerate().map(agent).collect();
        let mut flying = Vec::new();
        loop {
            for agent in &mut agents {
                while let Some(effect) = agent.poll().expect("in range") {
                    if let ShareEffect::Send(message) = effect {
                        assert_eq!(message.words().len(), 3, "a word a row");
                        flying.push(message);
                    }
                }
            }
            let Some(message) = flying.pop() else { break };
            agents[message.to() as usize]
                .handle(&message)
                .expect("honest agents are never refused");
        }
        for (model, agent) in shared.finish().iter().zip(&agents) {
            assert_eq!(Some(&model[..]), agent.model());
        }
    }
}

/// The built-in problems, each beside itself in shares.
#[test]
fn dispatch_and_allocation_in_secret_shares_end_where_they_end_in_the_open() {
    for (name, range) in [("dispatch-14", 512.0), ("allocation", 64.0)] {
        let text = built_in(name).expect("built in");
        let shares = "\n[[algorithm]]\nkind = \"linear-admm\"\nlabel = \"in shares\"\nexact = true\nexchange = \"secret-shared\"\n";
        let text = format!("{text}{shares}").replace("runs = 5", "runs = 1");
        let spec = ExperimentSpec::from_toml(&text, "a file").expect("a file");
        let inputs = Inputs {
            file: name.into(),
            text,
            spec,
            source: Source::Costs,
            edges: None,
            entropy: None,
        };
        let experiment = Experiment::check(inputs).expect("sound");
        // The limits bound what can be shared.
        assert!(
            experiment.resolved().contains(&format!("range = {range:?}")),
            "{}",
            experiment.resolved()
        );
        let record = run(&experiment, &Silent).expect("in range").record;
        let [open, _, shared] = &record.algorithms[..] else { panic!("three algorithms") };
        assert!(
            (open.objective - shared.objective).abs() < 1e-7,
            "{} {}",
            open.objective,
            shared.objective
        );
        assert!(shared.violation.unwrap() < 1e-7 && shared.optimum_gap.abs() < 1e-6, "{shared:?}");
    }
}

#[test]
fn what_has_no_account_or_no_bound_is_not_shared() {
    let check = |more: &str| {
        let text = built_in("sharing").expect("built in").replace("noise = \"none\"", more);
        let spec = ExperimentSpec::from_toml(&text, "a file").expect("a file");
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let inputs =
            Inputs { file: "sharing".into(), text, spec, source, edges: None, entropy: None };
        Experiment::check(inputs).map(|_| ()).map_err(|e| e.to_string())
    };
    let secret = "exchange = \"secret-shared\"\n";
    let error = check(&format!("{secret}range = 50.0")).unwrap_err();
    assert!(error.contains("goes on from each agent's own vector"), "{error}");
    let error = check(&format!("{secret}noise = \"none\"")).unwrap_err();
    assert!(
        error.contains("needs range") && error.contains("low and high of every agent"),
        "{error}"
    );
    assert_eq!(check(&format!("{secret}noise = \"none\"\nrange = 50.0")), Ok(()));
}

#[test]
fn inequalities_and_limits_bind_where_they_should() {
    // Two producers, x_1 + x_2 ≥ 3 costs; x_1 ≤ 1 forces x_2 to 2. A third row is slack.
    let block = |name: &str, a: f64| {
        (name.to_owned(), Block::from_entries(1, vec![(0, 0, 1.0), (1, 0, a)]))
    };
    let coupling = Coupling::new(
        vec![block("a", 1.0), block("b", -1.0)],
        vec![3.0, 10.0],
        vec![Relation::AtLeast, Relation::AtMost],
    )
    .expect("sound");
    let costs = |high: f64| Costs::new(vec![1.0], vec![0.5], vec![[0.0, high]]);
    let mut problem = CoupledProblem::random(1, 2, 1, 1, 1.0);
    problem.locals =
        vec![LocalObjective::from_costs(costs(1.0)), LocalObjective::from_costs(costs(9.0))];
    problem.coupling = Arc::new(coupling);
    problem.facts = facts(2, 1, (1.0, 1.0));
    let found = coupled_optimum(&problem.locals, &problem.coupling).expect("feasible");
    assert!(far(&found.x, &[1.0, 2.0]) < 1e-10 && found.dual[1] == 0.0, "{found:?}");
    for exact in [false, true] {
        let gates: Vec<Gate> = problem
            .open()
            .into_iter()
            .zip([1.0, 9.0])
            .map(|(gate, high)| gate.with_limits(vec![[0.0, high]].into()))
            .collect();
        let admm = problem.protocol(LinearAdmm { exact, ..LinearAdmm::default() });
        let mut run = problem.run(admm, 5_000, gates);
        (0..5_000).for_each(|_| run.advance());
        assert!(far(run.rows(), &[1.0, 2.0]) < 1e-8, "exact {exact}: {:?}", run.rows());
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_row() {
    let block = |entries: Vec<(usize, usize, f64)>| {
        vec![("north".to_owned(), Block::from_entries(2, entries))]
    };
    let equal = |n: usize| vec![Relation::Equal; n];
    let new = |entries, rhs: Vec<f64>| {
        let rows = rhs.len();
        Coupling::new(block(entries), rhs, equal(rows))
    };
    assert!(matches!(
        new(vec![(0, 2, 1.0)], vec![1.0]),
        Err(CouplingError::Shape { row: 1, column: 3, .. })
    ));
    assert!(matches!(new(vec![(1, 0, 1.0)], vec![1.0]), Err(CouplingError::Shape { row: 2, .. })));
    assert!(matches!(new(vec![(0, 0, f64::NAN)], vec![1.0]), Err(CouplingError::NotFinite { .. })));
    assert!(matches!(
        new(vec![(0, 0, 1.0)], vec![1.0, 2.0]),
        Err(CouplingError::EmptyRow { row: 2, .. })
    ));
    let twice = vec![(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 4.0)];
    assert!(matches!(
        new(twice.clone(), vec![1.0, 3.0]),
        Err(CouplingError::Contradiction { row: 2, .. })
    ));
    new(twice, vec![1.0, 2.0]).expect("the same row twice is no contradiction");
    let one = new(vec![(0, 0, 1.0), (0, 1, -1.0)], vec![5.0]).expect("sound");
    let reach = one.reachable(&[vec![[0.0, 2.0], [-1.0, 1.0]]]);
    assert!(
        matches!(reach, Err(CouplingError::OutOfReach { row: 1, high, .. }) if high == 3.0),
        "{reach:?}"
    );
    // Each row alone can be met, both together cannot.
    let both = new(vec![(0, 0, 1.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, -1.0)], vec![2.0, 1.5])
        .expect("full rank");
    let limits = vec![[0.0, 1.5], [0.0, 1.5]];
    both.reachable(std::slice::from_ref(&limits)).expect("row by row");
    let local = LocalObjective::from_costs(Costs::new(vec![1.0; 2], vec![0.0; 2], limits));
    assert!(matches!(coupled_optimum(&[local], &both), Err(CouplingError::Infeasible { .. })));
}
