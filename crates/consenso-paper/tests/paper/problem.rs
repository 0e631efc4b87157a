//! Objectives, projections, sensitivities and the reference solver against independent checks.

use consenso_engine::data::{Encoding, Records, RowBounds, Synthetic, SyntheticTask, Task};
use consenso_engine::privacy::NeighbourRelation;
use consenso_engine::problem::losses::{
    Gamma, NegativeBinomial, Poisson, Probit, Quantile, StratifiedHazards,
};
use consenso_engine::problem::solve::{Proximal, central_optimum, proximal_step};
use consenso_engine::problem::{
    Constraint, LocalObjective, Loss, LossKind, LossOptions, Objective, Sensitivity, Workspace,
    accuracy,
};
use consenso_engine::random::{Purpose, Seed, Stream};
use consenso_study::bundled;
use proptest::prelude::*;
use rand::RngExt;

const CLASSES: usize = 3;

const LOSSES: [Loss; 18] = [
    Loss::Logistic,
    Loss::ClippedLogistic { clip: 0.5 },
    Loss::ClippedLogistic { clip: 0.2 },
    Loss::WeightedLogistic { clip: 1.0, negative: 0.6, positive: 3.0 },
    Loss::WeightedLogistic { clip: 0.3, negative: 4.0, positive: 0.5 },
    Loss::Ridge { clip: f64::INFINITY },
    Loss::Ridge { clip: 0.3 },
    Loss::Huber { delta: 0.3 },
    Loss::SquaredHinge { clip: 0.8 },
    Loss::WeightedSquaredHinge { clip: 0.7, negative: 0.5, positive: 3.5 },
    Loss::Softmax { classes: CLASSES },
    Loss::Poisson(Poisson { clip: 6.0, most: 4.0 }),
    Loss::Poisson(Poisson { clip: 0.7, most: 4.0 }),
    Loss::NegativeBinomial(NegativeBinomial { clip: 1.2, dispersion: Some(0.5), most: 4.0 }),
    Loss::Gamma(Gamma { clip: 3.0, dispersion: 1.0 }),
    Loss::Probit(Probit { clip: 1.5 }),
    Loss::Quantile(Quantile { quantile: 0.8, smoothing: 0.3 }),
    Loss::StratifiedHazards(StratifiedHazards {}),
];

/// These, and with its defaults every loss of the table of families that is not among them: a new
/// one is tested as soon as it stands there. `linear` is no model's: nothing bounds its minimiser.
fn losses() -> Vec<Loss> {
    let tasks = [Task::Binary, Task::Regression { min: 0.1, max: 4.0 }];
    let others = LossKind::FAMILIES.iter().filter(|kind| {
        **kind != LossKind::Linear && LOSSES.iter().all(|loss| loss.name().0 != **kind)
    });
    let of = |kind: &LossKind| {
        let fits =
            tasks.iter().find_map(|task| Loss::named(*kind, *task, &LossOptions::default()).ok());
        fits.unwrap_or_else(|| panic!("{kind} fits no task"))
    };
    LOSSES.into_iter().chain(others.map(of)).collect()
}

fn stream(seed: u64) -> Stream {
    Seed::from(seed).stream(Purpose::Audit, 0, 0)
}

fn symmetric(rng: &mut Stream) -> f64 {
    2.0 * rng.random::<f64>() - 1.0
}

fn vector(rng: &mut Stream, dim: usize, scale: f64) -> Vec<f64> {
    (0..dim).map(|_| scale * symmetric(rng)).collect()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn l2(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

fn minus(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x - y).collect()
}

/// A row of norm at most 1, on the sphere half of the time.
fn row(rng: &mut Stream, dim: usize) -> Vec<f64> {
    let mut z = vector(rng, dim, 1.0);
    let reach = if rng.random::<bool>() { 1.0 } else { rng.random::<f64>() };
    let scale = reach * (1.0 - 1e-15) / l2(&z);
    z.iter_mut().for_each(|z| *z *= scale);
    z
}

fn label(rng: &mut Stream, loss: &Loss) -> f64 {
    match loss {
        loss if loss.is_binary() => f64::from(rng.random::<bool>()) * 2.0 - 1.0,
        Loss::Softmax { classes } => (rng.random::<f64>() * *classes as f64).floor(),
        loss if loss.has_log_link() => 0.1 + 3.9 * rng.random::<f64>(),
        _ => 2.0 * symmetric(rng),
    }
}

fn records(rng: &mut Stream, loss: &Loss, rows: usize, dim: usize) -> Records {
    let mut out = Records::with_capacity(dim, rows);
    for _ in 0..rows {
        let z = row(rng, dim);
        out.push(&z, label(rng, loss));
    }
    out
}

fn gradient(f: &LocalObjective, x: &[f64]) -> Vec<f64> {
    let mut out = vec![f64::NAN; x.len()];
    f.gradient(x, &mut out, &mut Workspace::default());
    out
}

/// What bounds say of rows in the unit ball of R^dim.
fn unit_ball(dim: usize) -> RowBounds {
    RowBounds::declared((dim as f64).sqrt().next_up(), 1.0, 1.0)
}

/// The function whose gradient `f` computes: with its residuals clipped, ridge is Huber's loss.
fn potential(f: &LocalObjective) -> LocalObjective {
    let mut objective = *f.mean_loss().unwrap().objective();
    if let Loss::Ridge { clip } = objective.loss
        && clip.is_finite()
    {
        objective.loss = Loss::Huber { delta: clip };
    }
    LocalObjective::new(objective, f.mean_loss().unwrap().records().clone())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn gradients_are_those_of_finite_differences(seed: u64, rows in 1usize..20, dim in 1usize..20, scale in 0.1f64..10.0) {
        let rng = &mut stream(seed);
        for loss in losses() {
            let objective = Objective { loss, regularization: 0.5 * rng.random::<f64>() };
            let f = LocalObjective::new(objective, records(rng, &loss, rows, dim));
            let value = potential(&f);
            let x = vector(rng, f.dim(), scale);
            let g = gradient(&f, &x);
            let mut work = Workspace::default();
            for l in 0..x.len() {
                let h = 1e-6 * scale.max(1.0);
                let mut at = |t: f64| {
                    let mut x = x.clone();
                    x[l] += t;
                    value.value(&x, &mut work)
                };
                // The curvature of a clipped loss jumps by at most itself within a step.
                let difference = (at(h) - at(-h)) / (2.0 * h);
                let tolerance = 0.5 * h * loss.curvature().max(1.0) + 1e-15 * at(0.0).abs().max(1.0) / h;
                prop_assert!((difference - g[l]).abs() < tolerance, "{loss:?}[{l}]: {difference} against {}", g[l]);
            }
        }
    }

    #[test]
    fn smoothness_and_strong_convexity_bound_every_pair(seed: u64, rows in 1usize..20, dim in 1usize..20, scale in -3.0f64..2.0) {
        let rng = &mut stream(seed);
        for loss in losses() {
            let objective = Objective { loss, regularization: rng.random::<f64>() };
            let f = LocalObjective::new(objective, records(rng, &loss, rows, dim));
            let x = vector(rng, f.dim(), 2.0);
            let mut y = vector(rng, f.dim(), 10f64.powf(scale));
            y.iter_mut().zip(&x).for_each(|(y, x)| *y += x);
            let (apart, change) = (minus(&x, &y), minus(&gradient(&f, &x), &gradient(&f, &y)));
            let (smooth, strong) = (objective.smoothness(&unit_ball(dim)), objective.strong_convexity());
            prop_assert!(l2(&change) <= smooth * l2(&apart) + 1e-13 * (1.0 + l2(&apart)), "{loss:?}: M = {smooth}");
            prop_assert!(dot(&change, &apart) >= strong * dot(&apart, &apart) - 1e-13 * (1.0 + dot(&apart, &apart)), "{loss:?}: m = {strong}");
        }
    }

    #[test]
    fn projections_are_the_nearest_points(seed: u64, dim in 1usize..12, scale in -1.0f64..1.5) {
        let rng = &mut stream(seed);
        let v = vector(rng, dim, 10f64.powf(scale));
        for set in sets(rng) {
            let mut p = v.clone();
            set.project(&mut p);
            // Rounding grows with the point that is projected.
            let rounding = 1e-14 * (1.0 + l2(&v));
            prop_assert!(outside(&set, &p) < 10.0 * rounding, "{set:?} leaves {p:?} outside");
            let mut again = p.clone();
            set.project(&mut again);
            prop_assert!(l2(&minus(&p, &again)) < rounding, "{set:?} moves its own point {p:?}");
            prop_assert!(set.contains(&p, 10.0 * rounding));
            let slow = by_bisection(&set, &v);
            prop_assert!(l2(&minus(&p, &slow)) < 1e-12 * (1.0 + l2(&v)), "{set:?}: {p:?}, bisection {slow:?}");
            let distance = l2(&minus(&v, &p));
            for _ in 0..200 {
                let q = feasible(&set, rng, dim);
                assert!(outside(&set, &q) < 1e-13, "the test's own {q:?} for {set:?}");
                prop_assert!(distance <= l2(&minus(&v, &q)) + 10.0 * rounding, "{set:?}: {q:?} is nearer to {v:?} than {p:?}");
                // Stronger: no feasible point lies beyond the tangent plane at p.
                prop_assert!(dot(&minus(&v, &p), &minus(&q, &p)) < 1e-11 * (1.0 + distance));
            }
        }
    }
}

fn sets(rng: &mut Stream) -> [Constraint; 4] {
    let size = 0.1 + 3.0 * rng.random::<f64>();
    let low = symmetric(rng);
    [
        Constraint::L2Ball { radius: size },
        Constraint::L1Ball { radius: size },
        Constraint::Box { low, high: low + size },
        Constraint::Simplex { total: size },
    ]
}

/// By how much a point breaks the definition of the set.
fn outside(set: &Constraint, x: &[f64]) -> f64 {
    let sum = |f: fn(f64) -> f64| x.iter().map(|&x| f(x)).sum::<f64>();
    match *set {
        Constraint::None => 0.0,
        Constraint::L2Ball { radius } => (sum(|x| x * x).sqrt() - radius).max(0.0),
        Constraint::L1Ball { radius } => (sum(f64::abs) - radius).max(0.0),
        Constraint::Box { low, high } => {
            x.iter().map(|x| (low - x).max(x - high).max(0.0)).fold(0.0, f64::max)
        }
        Constraint::Simplex { total } => (sum(|x| x) - total).abs() + sum(|x| (-x).max(0.0)),
    }
}

/// A random point of the set, on its boundary half of the time.
fn feasible(set: &Constraint, rng: &mut Stream, dim: usize) -> Vec<f64> {
    let inside = if rng.random::<bool>() { 1.0 } else { rng.random::<f64>() };
    let exponential = |rng: &mut Stream| -(1.0 - rng.random::<f64>()).ln() + 1e-300;
    match *set {
        Constraint::None => vector(rng, dim, 1.0),
        Constraint::Box { low, high } => (0..dim)
            .map(|_| match rng.random::<f64>() {
                t if t < 0.2 => low,
                t if t > 0.8 => high,
                t => low + (t - 0.2) / 0.6 * (high - low),
            })
            .collect(),
        Constraint::L2Ball { radius } => {
            let v = vector(rng, dim, 1.0);
            let scale = radius * inside / l2(&v);
            v.iter().map(|v| v * scale).collect()
        }
        Constraint::L1Ball { radius: size } | Constraint::Simplex { total: size } => {
            let mut v: Vec<f64> = (0..dim).map(|_| exponential(rng)).collect();
            // Faces of every dimension, vertices included.
            let kept = 1 + (rng.random::<f64>() * dim as f64) as usize;
            v.sort_by(f64::total_cmp);
            v[..dim - kept.min(dim)].fill(0.0);
            let turn = (rng.random::<f64>() * dim as f64) as usize;
            v.rotate_left(turn);
            let total: f64 = v.iter().sum();
            let ball = matches!(set, Constraint::L1Ball { .. });
            let scale = size / total * if ball { inside } else { 1.0 };
            v.iter().map(|v| v * scale * if ball { symmetric(rng).signum() } else { 1.0 }).collect()
        }
    }
}

/// The projection from its optimality condition, by bisection on the multiplier: nothing sorted,
/// nothing closed-form.
fn by_bisection(set: &Constraint, v: &[f64]) -> Vec<f64> {
    let bisect = |mut low: f64, mut high: f64, too_low: &dyn Fn(f64) -> bool| {
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if too_low(middle) { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    };
    let top = v.iter().map(|v| v.abs()).fold(0.0, f64::max);
    match *set {
        Constraint::None => v.to_vec(),
        Constraint::Box { low, high } => v.iter().map(|v| v.max(low).min(high)).collect(),
        Constraint::L2Ball { radius } => {
            let scaled = |m: f64| v.iter().map(|v| v / (1.0 + m)).collect::<Vec<_>>();
            if l2(v) <= radius {
                v.to_vec()
            } else {
                scaled(bisect(0.0, l2(v) / radius, &|m| l2(&scaled(m)) > radius))
            }
        }
        Constraint::L1Ball { radius } => {
            let shrunk =
                |m: f64| v.iter().map(|v| v.signum() * (v.abs() - m).max(0.0)).collect::<Vec<_>>();
            let size = |m: f64| shrunk(m).iter().map(|x| x.abs()).sum::<f64>();
            if size(0.0) <= radius {
                v.to_vec()
            } else {
                shrunk(bisect(0.0, top, &|m| size(m) > radius))
            }
        }
        Constraint::Simplex { total } => {
            let cut = |m: f64| v.iter().map(|v| (v - m).max(0.0)).collect::<Vec<_>>();
            cut(bisect(-top - total, top, &|m| cut(m).iter().sum::<f64>() > total))
        }
    }
}

/// Iterates of a diverging run must come back into the set, too.
#[test]
fn far_points_are_projected_into_the_set() {
    for top in [1e10, 1e17, 1e300] {
        for set in [Constraint::Simplex { total: 1.0 }, Constraint::L1Ball { radius: 1.0 }] {
            let mut x = vec![0.25 * top, top, -3.0, 0.0];
            set.project(&mut x);
            assert_eq!(x, [0.0, 1.0, 0.0, 0.0], "{set:?} at {top}");
        }
        let (set, mut x) = (Constraint::L2Ball { radius: 1.0 }, vec![0.6 * top, -0.8 * top]);
        set.project(&mut x);
        assert!(l2(&minus(&x, &[0.6, -0.8])) < 1e-15, "{x:?}");
    }
}

fn norms(x: &[f64]) -> Sensitivity {
    let abs = || x.iter().map(|x| x.abs());
    Sensitivity { l1: abs().sum(), l2: l2(x), linf: abs().fold(0.0, f64::max) }
}

/// The largest ratio of a change to its bound.
fn reached(change: &[f64], bound: &Sensitivity) -> [f64; 3] {
    let size = norms(change);
    [size.l1 / bound.l1, size.l2 / bound.l2, size.linf / bound.linf]
}

/// 10^5 random neighbours for every loss, at models from tiny to far beyond any trained one.
#[test]
fn sensitivity_bounds_are_never_beaten() {
    const PAIRS: usize = 100_000;
    let (rows, dim) = (3, 4);
    for (seed, loss) in
        (7..).zip(losses().into_iter().filter(|l| *l != Loss::Ridge { clip: f64::INFINITY }))
    {
        let rng = &mut stream(seed);
        let objective = Objective { loss, regularization: 0.1 };
        let bound = |n: NeighbourRelation| objective.sensitivity(&unit_ball(dim), rows, n);
        let (replace, remove) =
            (bound(NeighbourRelation::ReplaceOne), bound(NeighbourRelation::ZeroOut));
        let mut work = Workspace::default();
        let mut most = [0.0f64; 3];
        for _ in 0..PAIRS {
            let data = |rng: &mut Stream, last: Option<(Vec<f64>, f64)>, base: &Records| {
                let mut all = base.select(&[0, 1]);
                let (z, y) = last.unwrap_or_else(|| (row(rng, dim), label(rng, &loss)));
                all.push(&z, y);
                LocalObjective::new(objective, all)
            };
            let base = records(rng, &loss, rows - 1, dim);
            let one = data(rng, None, &base);
            let other = data(rng, None, &base);
            // With b fixed and public, a record can contribute nothing.
            let without = data(rng, Some((vec![0.0; dim], 0.0)), &base);
            let scale = 10f64.powf(6.0 * rng.random::<f64>() - 2.0);
            let x = vector(rng, one.dim(), scale);
            let mut at = |f: &LocalObjective| {
                let mut g = vec![0.0; x.len()];
                f.data_gradient(&x, &mut g, &mut work);
                g
            };
            let two = at(&LocalObjective::new(objective, base.clone()));
            let (one, other, without) = (at(&one), at(&other), at(&without));
            // A record removed: the mean is over those that are left.
            let fewer = reached(&minus(&one, &two), &bound(NeighbourRelation::AddRemove));
            assert!(fewer.iter().all(|&r| r <= 1.0), "{loss:?}: {fewer:?} at {x:?}");
            let replaced = reached(&minus(&one, &other), &replace);
            let removed = reached(&minus(&one, &without), &remove);
            assert!(
                replaced.iter().chain(&removed).all(|&r| r <= 1.0),
                "{loss:?}: {replaced:?} {removed:?} at {x:?}"
            );
            most.iter_mut().zip(replaced).for_each(|(m, r)| *m = m.max(r));
        }
        assert!(most[1] > 0.5, "{loss:?}: the pairs were too tame to test anything, {most:?}");
    }
}

/// Two records that a large model both gets wrong, opposite in all but one coordinate: no bound can
/// be a tenth smaller.
#[test]
fn logistic_sensitivity_is_approached() {
    let (b, dim, tilt) = (10, 14, 0.2f64);
    let objective = Objective { loss: Loss::Logistic, regularization: 0.1 };
    let rng = &mut stream(3);
    let base = records(rng, &Loss::Logistic, b - 1, dim);
    let rest = (1.0 - tilt * tilt).sqrt();
    let spread = rest / ((dim - 1) as f64).sqrt();
    let row = |sign: f64, many: bool| {
        let mut z = vec![if many { sign * spread } else { 0.0 }; dim];
        z[0] = -tilt;
        if !many {
            z[1] = sign * rest;
        }
        z.iter().map(|z| z * (1.0 - 1e-15)).collect::<Vec<_>>()
    };
    let mut x = vec![0.0; dim];
    x[0] = 1e3;
    let at = |z: Vec<f64>| {
        let mut all = base.clone();
        all.push(&z, 1.0);
        let mut g = vec![0.0; dim];
        LocalObjective::new(objective, all).data_gradient(&x, &mut g, &mut Workspace::default());
        g
    };
    let bound = objective.sensitivity(&unit_ball(dim), b, NeighbourRelation::ReplaceOne);
    let many = reached(&minus(&at(row(1.0, true)), &at(row(-1.0, true))), &bound);
    let few = reached(&minus(&at(row(1.0, false)), &at(row(-1.0, false))), &bound);
    let best = [many[0], many[1], few[2]];
    assert!(best.iter().all(|&r| (0.9..=1.0).contains(&r)), "{best:?}");

    let bound = objective.sensitivity(&unit_ball(dim), b, NeighbourRelation::ZeroOut);
    let none = at(vec![0.0; dim]);
    let (many, few) = (minus(&at(row(1.0, true)), &none), minus(&at(row(1.0, false)), &none));
    let best = [reached(&many, &bound)[0], reached(&many, &bound)[1], reached(&few, &bound)[2]];
    assert!(best.iter().all(|&r| (0.9..=1.0).contains(&r)), "{best:?}");
}

fn network(seed: u64, loss: Loss, regularization: f64) -> Vec<LocalObjective> {
    let rng = &mut stream(seed);
    let objective = Objective { loss, regularization };
    (0..7).map(|i| LocalObjective::new(objective, records(rng, &loss, 20 + i, 9))).collect()
}

/// ∇F, in the plainest way.
fn mean_gradient(agents: &[LocalObjective], x: &[f64]) -> Vec<f64> {
    let mut mean = vec![0.0; x.len()];
    for f in agents {
        mean.iter_mut().zip(gradient(f, x)).for_each(|(m, g)| *m += g / agents.len() as f64);
    }
    mean
}

/// Newton ends in a few steps only if its Hessian products are right: a wrong Hessian converges
/// linearly at best.
#[test]
fn the_optimum_is_found_to_1e_10_in_a_few_newton_steps() {
    for loss in losses() {
        for regularization in [1.0, 1e-1, 1e-3] {
            for seed in 0..5 {
                let agents = network(seed, loss, regularization);
                let found = central_optimum(&agents, &Constraint::None, None);
                let g = l2(&mean_gradient(&agents, &found.x));
                let case = format!("{loss:?}, mu = {regularization}, seed {seed}");
                assert!(g <= 1e-10, "{case}: gradient {g:e}");
                assert!(
                    found.residual <= 1e-10 && found.steps <= 25,
                    "{case}: {} steps",
                    found.steps
                );
                let value = agents
                    .iter()
                    .map(|f| f.value(&found.x, &mut Workspace::default()))
                    .sum::<f64>()
                    / 7.0;
                assert!((found.value - value).abs() < 1e-14);
            }
        }
    }
}

#[test]
fn proximal_steps_solve_their_local_problem_to_1e_10() {
    for loss in losses() {
        for (seed, weight) in [(0, 10.0), (1, 0.5), (2, 100.0)] {
            let f = &network(seed, loss, 0.1)[0];
            let rng = &mut stream(seed + 100);
            let centre = vector(rng, f.dim(), 1.0);
            let mut x = vector(rng, f.dim(), 3.0);
            let said = proximal_step(
                f,
                Proximal { centre: &centre, weight },
                &Constraint::None,
                &mut x,
                1e-12,
                &mut Workspace::default(),
            );
            let mut g = gradient(f, &x);
            g.iter_mut().zip(x.iter().zip(&centre)).for_each(|(g, (x, c))| *g += weight * (x - c));
            assert!(
                l2(&g) <= 1e-10 && said <= 1e-10,
                "{loss:?}, D = {weight}: {:e}, said {said:e}",
                l2(&g)
            );
        }
    }
}

#[test]
fn the_constrained_optimum_is_found_to_1e_10() {
    let constraints = [
        Constraint::L2Ball { radius: 0.3 },
        Constraint::L1Ball { radius: 0.3 },
        Constraint::Box { low: -0.05, high: 0.1 },
        Constraint::Simplex { total: 0.7 },
        Constraint::L2Ball { radius: 1e3 },
    ];
    for loss in losses() {
        for constraint in constraints {
            for regularization in [1.0, 1e-2] {
                let agents = network(11, loss, regularization);
                let found = central_optimum(&agents, &constraint, None);
                let case = format!(
                    "{loss:?} in {constraint:?}, mu = {regularization}, {} steps",
                    found.steps
                );
                assert!(outside(&constraint, &found.x) < 1e-13, "{case}");
                // A fixed point of the projected gradient step, whatever the step.
                for step in [1.0, 0.1] {
                    let mut moved = minus(
                        &found.x,
                        &mean_gradient(&agents, &found.x)
                            .iter()
                            .map(|g| step * g)
                            .collect::<Vec<_>>(),
                    );
                    constraint.project(&mut moved);
                    let residual = l2(&minus(&moved, &found.x)) / step;
                    assert!(residual <= 1e-10, "{case}: {residual:e}");
                }
                assert!(found.residual <= 1e-10, "{case}: said {:e}", found.residual);
            }
        }
    }
}

/// Ridge has a closed form: (Σ ZᵀZ/b + μI)⁻¹ Σ Zᵀy/b.
#[test]
fn the_ridge_optimum_is_that_of_the_normal_equations() {
    use nalgebra::{DMatrix, DVector};
    let agents = network(5, Loss::Ridge { clip: f64::INFINITY }, 0.03);
    let dim = agents[0].dim();
    let (mut a, mut r) = (DMatrix::identity(dim, dim) * 0.03, DVector::zeros(dim));
    for f in &agents {
        for (row, &y) in f.mean_loss().unwrap().records().labels().iter().enumerate() {
            let z = DVector::from_column_slice(&f.mean_loss().unwrap().records().row(row));
            let weight = 1.0 / (7.0 * f.mean_loss().unwrap().records().len() as f64);
            a += &z * z.transpose() * weight;
            r += z * (y * weight);
        }
    }
    let want = a.lu().solve(&r).expect("positive definite");
    let found = central_optimum(&agents, &Constraint::None, None);
    assert!(l2(&minus(&found.x, want.as_slice())) < 1e-11);
}

/// docs/paper.md section 6: at μ = 1 the optimum on Adult (paper encoding) labels every test row
/// negative, and ‖x*‖ ≈ 0.19.
#[test]
fn adult_at_the_papers_regularisation_is_the_majority() {
    let data = bundled::adult(Encoding::Paper).expect("bundled");
    let (loss, test) = (Loss::Logistic, data.test().expect("bundled"));
    let local = LocalObjective::new(Objective { loss, regularization: 1.0 }, data.train().clone());
    let agents = [local];
    let found = central_optimum(&agents, &Constraint::None, None);
    assert!(
        found.residual <= 1e-10 && (0.185..0.195).contains(&l2(&found.x)),
        "{} {}",
        found.residual,
        l2(&found.x)
    );
    let right = accuracy(&loss, test, &found.x).expect("a classifier");
    assert!((right - 0.7543).abs() < 5e-5, "{right}");
}

/// A problem of many agents is solved alike whatever the threads.
#[test]
fn the_optimum_does_not_depend_on_threads() {
    let synthetic = Synthetic::new(SyntheticTask::Logistic, 150, 10, 6);
    let objective = Objective { loss: Loss::Logistic, regularization: 0.01 };
    let agents: Vec<_> = synthetic
        .generate(&Seed::from(1))
        .expect("valid")
        .into_iter()
        .map(|records| LocalObjective::new(objective, records))
        .collect();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        pool.install(|| central_optimum(&agents, &Constraint::None, None))
    };
    assert_eq!(with(1), with(2));
}
