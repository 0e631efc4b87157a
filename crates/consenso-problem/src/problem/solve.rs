//! Minimisers: Newton's method with conjugate gradients inside, on one function or a mean of many.
//!
//! No Hessian is stored, so a problem costs a few passes over its rows whatever its dimension.

use super::{Constraint, LocalObjective, Workspace, local::HessianAt};
use crate::kernel;
use rayon::prelude::*;

/// A point and how well it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Minimiser {
    /// The point.
    pub x: Vec<f64>,
    /// Its objective.
    pub value: f64,
    /// ‖∇F(x)‖₂, or a bound on ‖∇F(x) + n‖₂ for a normal n of the set at x when there is one.
    pub residual: f64,
    /// Newton or projected-gradient steps taken.
    pub steps: usize,
}

const MAX_STEPS: usize = 100;

/// The residual that a local problem within [`largest_solvable`] is solved to, whatever the records
/// are. Rounding alone leaves a quarter of it at most.
pub const SURE_RESIDUAL: f64 = 1e-9;

/// The largest ‖x‖₂ at which rounding leaves less than a quarter of [`SURE_RESIDUAL`] of f(x) +
/// (D/2)‖x − centre‖², f being M-smooth in `dim` numbers; `weight` is D + μ.
///
/// With u = 2⁻⁵³: x itself is rounded by u‖x‖, which the gradient magnifies by D + μ + M at most; a
/// margin zᵀx of d products is off by d·u‖z‖‖x‖, which moves a slope by c₁ times that and the
/// gradient by M·d·u‖x‖; and (D + μ)x is rounded again. Projected steps are no longer than the
/// gradient, so D + μ counts as 1 at least.
#[must_use]
pub fn largest_solvable(weight: f64, smoothness: f64, dim: usize) -> f64 {
    let unit = 0.5 * f64::EPSILON;
    0.25 * SURE_RESIDUAL / (unit * (2.0 * weight.max(1.0) + (dim as f64 + 2.0) * smoothness))
}

/// The centre and weight of a proximal term (D/2)‖x − v‖² − xᵀλ folded into one: (D/2)‖x −
/// centre‖².
#[derive(Clone, Copy, Debug)]
pub struct Proximal<'a> {
    /// Where the quadratic is centred.
    pub centre: &'a [f64],
    /// D.
    pub weight: f64,
}

/// `x = argmin_{x∈C} f(x) + (D/2)‖x − centre‖²`, started from `x`, to a residual of at most
/// `tolerance` without a set; returns the residual reached.
///
/// The residual is the norm of the gradient, plus a normal of the set at x when there is one. With
/// f m-strongly convex the point is within residual/(D + m) of the true one: what a sensitivity
/// must add.
///
/// Newton's method is fast, but where f has kinks in its gradient (a clipped loss) nothing proves
/// that it ends. Where rounding allows a small residual and it did not get there, accelerated
/// gradient steps finish, for which that is a theorem: some 30·√((M + D)/(m + D)) of them.
///
/// Costs have a closed form, over their limits instead of the set.
pub fn proximal_step(
    f: &LocalObjective,
    proximal: Proximal<'_>,
    set: &Constraint,
    x: &mut [f64],
    tolerance: f64,
    work: &mut Workspace,
) -> f64 {
    if let LocalObjective::Costs(costs) = f {
        costs.proximal(proximal.centre, proximal.weight, x);
        return 0.0;
    }
    let smooth = std::slice::from_ref(f);
    let extra = proximal.weight + f.regularization();
    let most = largest_solvable(extra, f.assumed_smoothness(), x.len());
    let within = kernel::norm(proximal.centre).max(kernel::norm(x)) <= most;
    let steps = if within { SURE_STEPS } else { MAX_PROJECTED };
    if *set != Constraint::None {
        return projected_gradient(smooth, Some(proximal), set, x, steps).0;
    }
    let residual = newton(smooth, Some(proximal), x, tolerance, work).0;
    if residual <= 0.5 * SURE_RESIDUAL || residual.is_nan() || !within {
        return residual;
    }
    projected_gradient(smooth, Some(proximal), set, x, steps).0
}

/// Projected-gradient steps at most, and where the result must be good.
const MAX_PROJECTED: usize = 20_000;
const SURE_STEPS: usize = 1_000_000;

/// The central optimum x* of F(x) = (1/N) Σ f_i(x) over the set, to a residual of 1e-10 relative to
/// ‖∇F(0)‖ or better.
#[must_use]
pub fn central_optimum(
    agents: &[LocalObjective],
    constraint: &Constraint,
    start: Option<&[f64]>,
) -> Minimiser {
    let dim = agents.first().map_or(0, LocalObjective::dim);
    let mut x = start.map_or_else(|| vec![0.0; dim], <[f64]>::to_vec);
    let mut work = Workspace::default();
    let (residual, steps) = if *constraint == Constraint::None {
        newton(agents, None, &mut x, TOLERANCE, &mut work)
    } else {
        projected_gradient(agents, None, constraint, &mut x, MAX_PROJECTED)
    };
    let value = mean_value(agents, &x);
    Minimiser { x, value, residual, steps }
}

const TOLERANCE: f64 = 1e-12;

/// F(x) = (1/N) Σ f_i(x).
#[must_use]
pub fn mean_value(agents: &[LocalObjective], x: &[f64]) -> f64 {
    let values: Vec<f64> =
        agents.par_iter().map_init(Workspace::default, |work, f| f.value(x, work)).collect();
    values.iter().sum::<f64>() / agents.len() as f64
}

/// Adds each agent's vector in order, so that the sum does not depend on the threads.
fn mean_of(
    agents: usize,
    dim: usize,
    out: &mut [f64],
    each: impl Fn(usize, &mut [f64], &mut Workspace) + Sync,
    work: &mut Workspace,
) {
    if agents == 1 {
        return each(0, out, work);
    }
    // Few enough partial sums to keep, fixed by the agent count alone.
    let chunk = agents.div_ceil(64);
    let partials: Vec<Vec<f64>> = (0..agents.div_ceil(chunk))
        .into_par_iter()
        .map_init(Workspace::default, |work, c| {
            let (mut sum, mut one) = (vec![0.0; dim], vec![0.0; dim]);
            for agent in c * chunk..((c + 1) * chunk).min(agents) {
                each(agent, &mut one, work);
                kernel::axpy(1.0, &one, &mut sum);
            }
            sum
        })
        .collect();
    out.fill(0.0);
    for partial in &partials {
        kernel::axpy(1.0 / agents as f64, partial, out);
    }
}

fn gradient(
    agents: &[LocalObjective],
    proximal: Option<Proximal<'_>>,
    x: &[f64],
    out: &mut [f64],
    work: &mut Workspace,
) {
    mean_of(agents.len(), x.len(), out, |i, out, work| agents[i].gradient(x, out, work), work);
    if let Some(p) = proximal {
        for ((g, x), c) in out.iter_mut().zip(x).zip(p.centre) {
            *g += p.weight * (x - c);
        }
    }
}

/// What the gradient above is the gradient of: descent must be judged by it, not by the unclipped
/// value.
fn potential(
    agents: &[LocalObjective],
    proximal: Option<Proximal<'_>>,
    x: &[f64],
    work: &mut Workspace,
) -> f64 {
    let f = if let [f] = agents {
        f.potential(x, work)
    } else {
        let each = agents.par_iter().map_init(Workspace::default, |work, f| f.potential(x, work));
        each.collect::<Vec<_>>().iter().sum::<f64>() / agents.len() as f64
    };
    f + proximal.map_or(0.0, |p| 0.5 * p.weight * kernel::distance(x, p.centre).powi(2))
}

/// Newton with inexact conjugate-gradient steps and backtracking; returns (gradient norm, steps).
fn newton(
    agents: &[LocalObjective],
    proximal: Option<Proximal<'_>>,
    x: &mut [f64],
    tolerance: f64,
    work: &mut Workspace,
) -> (f64, usize) {
    let dim = x.len();
    let mut g = vec![0.0; dim];
    let mut step = vec![0.0; dim];
    gradient(agents, proximal, x, &mut g, work);
    let mut size = kernel::norm(&g);
    let first = size.max(1.0);
    for steps in 0..MAX_STEPS {
        if size <= tolerance {
            return (size, steps);
        }
        let bends: Vec<HessianAt<'_>> = agents.iter().map(|f| f.bend_at(x, work)).collect();
        let extra = agents[0].regularization() + proximal.map_or(0.0, |p| p.weight);
        let apply = |v: &[f64], out: &mut [f64], work: &mut Workspace| {
            let each =
                |i: usize, out: &mut [f64], work: &mut Workspace| bends[i].apply(v, out, work);
            mean_of(agents.len(), dim, out, each, work);
            kernel::axpy(extra, v, out);
        };
        // Forcing term: quadratic convergence near the end without solving early steps too well.
        let forcing = (size / first).sqrt().min(0.1) * size;
        conjugate_gradient(apply, &g, &mut step, forcing.max(0.1 * tolerance), work);
        let mut before = None;
        let slope = kernel::dot(&g, &step);
        let start = x.to_vec();
        let (mut t, mut best) = (1.0f64, size);
        loop {
            for ((x, s), d) in x.iter_mut().zip(&start).zip(&step) {
                *x = s - t * d;
            }
            gradient(agents, proximal, x, &mut g, work);
            best = best.min(size);
            size = kernel::norm(&g);
            // Near the optimum the value no longer moves in floating point; the gradient still
            // tells, and nearly always is enough.
            if size < 0.5 * best {
                break;
            }
            let before = *before.get_or_insert_with(|| potential(agents, proximal, &start, work));
            if potential(agents, proximal, x, work) <= before - 1e-4 * t * slope {
                break;
            }
            t *= 0.5;
            if t < 1e-10 {
                x.copy_from_slice(&start);
                gradient(agents, proximal, x, &mut g, work);
                return (kernel::norm(&g), steps);
            }
        }
    }
    (size, MAX_STEPS)
}

/// `x ≈ H⁻¹ b`, to a residual of `tolerance`.
fn conjugate_gradient(
    apply: impl Fn(&[f64], &mut [f64], &mut Workspace),
    b: &[f64],
    x: &mut [f64],
    tolerance: f64,
    work: &mut Workspace,
) {
    x.fill(0.0);
    let mut r = b.to_vec();
    let mut p = b.to_vec();
    let mut hp = vec![0.0; b.len()];
    let mut rr = kernel::dot(&r, &r);
    for _ in 0..(2 * b.len() + 50) {
        if rr.sqrt() <= tolerance {
            break;
        }
        apply(&p, &mut hp, work);
        let along = kernel::dot(&p, &hp);
        if along <= 0.0 {
            break; // a flat direction: the step found so far is still one of descent
        }
        let a = rr / along;
        kernel::axpy(a, &p, x);
        kernel::axpy(-a, &hp, &mut r);
        let next = kernel::dot(&r, &r);
        for (p, r) in p.iter_mut().zip(&r) {
            *p = r + (next / rr) * *p;
        }
        rr = next;
    }
    if x.iter().all(|&x| x == 0.0) {
        x.copy_from_slice(b);
    }
}

/// Accelerated projected gradient with restarts and a backtracked step; returns (residual, steps).
///
/// next = Proj_C(y − g/L) means that n = L(y − next) − g is a normal of C at next, so ‖∇F(next) +
/// n‖ ≤ L‖y − next‖ + ‖∇F(next) − g‖.
fn projected_gradient(
    agents: &[LocalObjective],
    proximal: Option<Proximal<'_>>,
    set: &Constraint,
    x: &mut [f64],
    most: usize,
) -> (f64, usize) {
    let mut work = Workspace::default();
    let dim = x.len();
    set.project(x);
    let (mut g, mut y, mut next, mut there) =
        (vec![0.0; dim], x.to_vec(), vec![0.0; dim], vec![0.0; dim]);
    let (mut lipschitz, mut momentum) = (1.0, 1.0f64);
    let mut residual = f64::INFINITY;
    for steps in 0..most {
        gradient(agents, proximal, &y, &mut g, &mut work);
        loop {
            for ((n, y), g) in next.iter_mut().zip(&y).zip(&g) {
                *n = y - g / lipschitz;
            }
            set.project(&mut next);
            gradient(agents, proximal, &next, &mut there, &mut work);
            // By convexity F(next) ≤ F(y) + ∇F(y)·d + (∇F(next) − ∇F(y))·d, so this implies the
            // usual test on values, and unlike it still tells at the end, where values no longer
            // move in floating point.
            let moved = kernel::distance(&next, &y);
            let bend: f64 = (0..dim).map(|l| (there[l] - g[l]) * (next[l] - y[l])).sum();
            if bend <= 0.5 * lipschitz * moved * moved || lipschitz > 1e12 {
                residual = moved * lipschitz + kernel::distance(&there, &g);
                break;
            }
            lipschitz *= 2.0;
        }
        let forward: f64 =
            y.iter().zip(next.iter().zip(x.iter())).map(|(y, (n, x))| (y - n) * (n - x)).sum();
        let following = if forward > 0.0 {
            1.0
        } else {
            0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt())
        };
        let carry = if forward > 0.0 { 0.0 } else { (momentum - 1.0) / following };
        for ((y, n), x) in y.iter_mut().zip(&next).zip(x.iter_mut()) {
            *y = n + carry * (n - *x);
            *x = *n;
        }
        momentum = following;
        if residual <= 1e-11 {
            return (residual, steps + 1);
        }
    }
    (residual, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Records;
    use crate::problem::{Loss, Objective};
    use crate::random::{Purpose, Seed, Stream};
    use rand::RngExt;

    fn unit(stream: &mut Stream, dim: usize) -> Vec<f64> {
        let mut v: Vec<f64> = (0..dim).map(|_| stream.random::<f64>() - 0.5).collect();
        let norm = kernel::norm(&v) * (1.0 + 1e-12);
        v.iter_mut().for_each(|x| *x /= norm);
        v
    }

    fn problem(stream: &mut Stream, loss: Loss, dim: usize, regularization: f64) -> LocalObjective {
        let mut records = Records::with_capacity(dim, 60);
        for j in 0..60 {
            let label = if loss.is_logistic() {
                f64::from(j % 2) * 2.0 - 1.0
            } else {
                f64::from(j % 5) - 2.0
            };
            records.push(&unit(stream, dim), label);
        }
        LocalObjective::new(Objective { loss, regularization }, records)
    }

    /// An agent's stop must not depend on its records, so every problem that public numbers allow
    /// has to be solved. The largest centres there are, losses with kinks, flat problems and a set.
    #[test]
    fn whatever_is_solvable_is_solved() {
        let losses = [
            Loss::Logistic,
            Loss::ClippedLogistic { clip: 0.3 },
            Loss::WeightedLogistic { clip: 0.8, negative: 0.7, positive: 2.0 },
            Loss::Ridge { clip: 0.5 },
            Loss::Huber { delta: 0.01 },
        ];
        for (case, loss) in losses.into_iter().enumerate() {
            for (dim, weight, regularization) in
                [(1, 1e-3, 0.0), (5, 1e-3, 1e-4), (5, 2.0, 1e-3), (40, 0.05, 0.0), (5, 500.0, 1.0)]
            {
                let mut stream =
                    Seed::from(case as u64).stream(Purpose::Public, dim as u64, weight as u64);
                let most = largest_solvable(
                    weight + regularization,
                    loss.curvature() + regularization,
                    dim,
                );
                for part in [0.0, 1e-6, 0.01, 0.5] {
                    let f = problem(&mut stream, loss, dim, regularization);
                    let pull = f
                        .mean_loss()
                        .unwrap()
                        .objective()
                        .steepness(loss.curvature() + regularization, 1.0)
                        / (weight + regularization);
                    let size = part * (most - pull).max(0.0);
                    let centre: Vec<f64> =
                        unit(&mut stream, dim).iter().map(|c| c * size).collect();
                    for set in [Constraint::None, Constraint::L2Ball { radius: 0.3 * (size + 1.0) }]
                    {
                        let mut x: Vec<f64> =
                            unit(&mut stream, dim).iter().map(|x| x * 0.25 * size).collect();
                        let proximal = Proximal { centre: &centre, weight };
                        let residual = proximal_step(
                            &f,
                            proximal,
                            &set,
                            &mut x,
                            1e-13,
                            &mut Workspace::default(),
                        );
                        assert!(
                            residual <= SURE_RESIDUAL,
                            "{loss:?}, d = {dim}, D = {weight}, ‖c‖ = {size:e}, {set:?}: {residual:e}"
                        );
                    }
                }
            }
        }
    }
}
