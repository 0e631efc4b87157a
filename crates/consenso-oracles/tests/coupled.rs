//! Problems tied by a linear constraint against Clarabel, an interior-point solver: our reference
//! optimum, and what runs of the experiments that come with the software end at, to 1e-6.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};
use consenso_engine::experiment::{
    AgentCosts, Experiment, ExperimentSpec, Inputs, Numbers, Silent, run,
};
use consenso_engine::problem::coupled::coupled_optimum;
use consenso_engine::problem::coupling::{Block, Coupling, Relation};
use consenso_engine::problem::{Costs, LocalObjective};
use consenso_engine::random::{Purpose, Seed};
use consenso_study::ExperimentFile as _;
use consenso_study::experiment::built_in;
use rand::RngExt;

/// min Σ (q/2)x² + bx, A x (=, ≤, ≥) c, low ≤ x ≤ high, all agents' variables in one row.
struct Whole {
    q: Vec<f64>,
    b: Vec<f64>,
    limits: Vec<[f64; 2]>,
    rows: Vec<Vec<f64>>,
    rhs: Vec<f64>,
    relations: Vec<Relation>,
}

impl Whole {
    fn solve(&self) -> Vec<f64> {
        let n = self.q.len();
        let diagonal: Vec<Vec<f64>> = (0..n)
            .map(|i| (0..n).map(|j| if i == j { self.q[i] } else { 0.0 }).collect())
            .collect();
        let (mut equal, mut most) = (Vec::<(Vec<f64>, f64)>::new(), Vec::new());
        for ((row, &c), relation) in self.rows.iter().zip(&self.rhs).zip(&self.relations) {
            match relation {
                Relation::Equal => equal.push((row.clone(), c)),
                Relation::AtMost => most.push((row.clone(), c)),
                Relation::AtLeast => most.push((row.iter().map(|v| -v).collect(), -c)),
            }
        }
        for (l, [low, high]) in self.limits.iter().enumerate() {
            let unit = |s: f64| (0..n).map(|c| if c == l { s } else { 0.0 }).collect::<Vec<f64>>();
            if high.is_finite() {
                most.push((unit(1.0), *high));
            }
            if low.is_finite() {
                most.push((unit(-1.0), -low));
            }
        }
        let cones =
            [SupportedConeT::ZeroConeT(equal.len()), SupportedConeT::NonnegativeConeT(most.len())];
        let (a, right): (Vec<Vec<f64>>, Vec<f64>) = equal.into_iter().chain(most).unzip();
        let settings = DefaultSettings {
            verbose: false,
            tol_gap_abs: 1e-11,
            tol_gap_rel: 1e-11,
            tol_feas: 1e-11,
            ..DefaultSettings::default()
        };
        let mut solver =
            DefaultSolver::new(&csc(&diagonal), &self.b, &csc(&a), &right, &cones, settings)
                .expect("well-formed");
        solver.solve();
        let status = solver.solution.status;
        assert!(matches!(status, SolverStatus::Solved | SolverStatus::AlmostSolved), "{status:?}");
        solver.solution.x
    }
}

fn csc(rows: &[Vec<f64>]) -> CscMatrix<f64> {
    CscMatrix::from(&rows.to_vec())
}

fn far(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

#[test]
fn our_reference_is_clarabels_on_random_problems_with_limits_and_inequalities() {
    let mut active = 0;
    for seed in 0..40u64 {
        let mut rng = Seed::from(seed).stream(Purpose::Data, 5, 0);
        let (agents, dim, rows) =
            (rng.random_range(2..7usize), rng.random_range(1..4usize), rng.random_range(1..4usize));
        let (mut locals, mut blocks) = (Vec::new(), Vec::new());
        let mut whole = Whole {
            q: vec![],
            b: vec![],
            limits: vec![],
            rows: vec![vec![]; rows],
            rhs: vec![],
            relations: vec![],
        };
        let mut inside = vec![0.0; rows];
        for i in 0..agents {
            let q: Vec<f64> = (0..dim).map(|_| rng.random_range(0.1..5.0)).collect();
            let b: Vec<f64> = (0..dim).map(|_| rng.random_range(-5.0..5.0)).collect();
            let limits: Vec<[f64; 2]> = (0..dim)
                .map(|_| {
                    if rng.random_range(0..4) == 0 {
                        [f64::NEG_INFINITY, f64::INFINITY]
                    } else {
                        [rng.random_range(-2.0..0.0), rng.random_range(0.0..2.0)]
                    }
                })
                .collect();
            let a: Vec<Vec<f64>> = (0..rows)
                .map(|_| (0..dim).map(|_| rng.random_range(-1.0..1.0)).collect())
                .collect();
            for (r, row) in a.iter().enumerate() {
                // A point within the limits, so that the problem is feasible.
                let at = |l: usize| 0.5 * (limits[l][0].max(-1.0) + limits[l][1].min(1.0));
                inside[r] += row.iter().enumerate().map(|(l, v)| v * at(l)).sum::<f64>();
                whole.rows[r].extend(row);
            }
            blocks.push((format!("agent {}", i + 1), Block::from_rows(dim, &a)));
            whole.q.extend(&q);
            whole.b.extend(&b);
            whole.limits.extend(&limits);
            locals.push(LocalObjective::from_costs(Costs::new(q, b, limits)));
        }
        whole.relations = (0..rows)
            .map(|_| {
                [Relation::Equal, Relation::AtMost, Relation::AtLeast][rng.random_range(0..3usize)]
            })
            .collect();
        whole.rhs = inside;
        let coupling =
            Coupling::new(blocks, whole.rhs.clone(), whole.relations.clone()).expect("sound");
        let ours = coupled_optimum(&locals, &coupling).expect("feasible");
        let theirs = whole.solve();
        assert!(far(&ours.x, &theirs) < 1e-6, "problem {seed}: {:e}", far(&ours.x, &theirs));
        let at = |(x, [low, high]): (&f64, &[f64; 2])| usize::from(x == low || x == high);
        active += ours.x.iter().zip(&whole.limits).map(at).sum::<usize>();
    }
    assert!(active > 40, "limits were hardly felt: {active}");
}

fn numbers(n: Option<&Numbers>, count: usize, open: f64) -> Vec<f64> {
    match n {
        None => vec![open; count],
        Some(Numbers::One(v)) => vec![*v],
        Some(Numbers::Many(v)) => v.clone(),
    }
}

/// Σ of the costs at the optimum of a file, read from the file itself.
fn optimal_cost(spec: &ExperimentSpec) -> f64 {
    let problem = spec.problem.as_ref().expect("coupled");
    let rows = problem.rhs.len();
    let mut whole = Whole {
        q: vec![],
        b: vec![],
        limits: vec![],
        rows: vec![vec![]; rows],
        rhs: problem.rhs.clone(),
        relations: if problem.relation.is_empty() {
            vec![Relation::Equal; rows]
        } else {
            problem.relation.clone()
        },
    };
    for agent in &problem.agent {
        let q = numbers(Some(&agent.quadratic), 1, 0.0);
        let n = q.len();
        let limits = numbers(agent.low.as_ref(), n, f64::NEG_INFINITY).into_iter();
        whole.limits.extend(
            limits.zip(numbers(agent.high.as_ref(), n, f64::INFINITY)).map(|(a, b)| [a, b]),
        );
        whole.b.extend(numbers(agent.linear.as_ref(), n, 0.0));
        whole.q.extend(q.iter().map(|q| 2.0 * q));
        for r in 0..rows {
            let row = match (&agent.matrix, &agent.entries) {
                (Some(matrix), _) => matrix[r].clone(),
                (None, Some(entries)) => (0..n)
                    .map(|c| {
                        entries.iter().filter(|e| (e.0, e.1) == (r + 1, c + 1)).map(|e| e.2).sum()
                    })
                    .collect(),
                (None, None) => vec![1.0; n],
            };
            whole.rows[r].extend(row);
        }
    }
    let x = whole.solve();
    x.iter().zip(&whole.q).zip(&whole.b).map(|((x, q), b)| (0.5 * q * x + b) * x).sum()
}

#[test]
fn the_experiments_that_come_with_the_software_end_at_clarabels_optimum() {
    for name in ["dispatch-14", "dispatch-118", "allocation"] {
        let text = built_in(name).expect("built in");
        let mut spec = ExperimentSpec::from_toml(text, name).expect("a file");
        spec.runs = 1;
        let best = optimal_cost(&spec);
        let agents = spec.problem.as_ref().expect("coupled").agent.len() as f64;
        let inputs = Inputs {
            file: name.into(),
            text: text.into(),
            source: Box::new(AgentCosts::of(&spec)),
            spec,
            edges: None,
            entropy: None,
        };
        let record = run(&Experiment::check(inputs).expect("sound"), &Silent).expect("runs").record;
        let reference = agents * record.baselines.central_optimum_objective;
        assert!((reference - best).abs() <= 1e-6 * best.abs(), "{name}: {reference} is not {best}");
        for algorithm in &record.algorithms {
            let reached = agents * algorithm.objective;
            assert!(
                (reached - best).abs() <= 1e-6 * best.abs(),
                "{name}, {}: {reached} is not {best}",
                algorithm.label
            );
            assert!(
                algorithm.violation.expect("a constraint") <= 1e-6,
                "{name}: {:?}",
                algorithm.violation
            );
        }
    }
}
