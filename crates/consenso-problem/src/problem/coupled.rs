//! The optimum of a coupled problem, by Newton's method on its dual: what runs are compared with.
//!
//! For a multiplier λ every agent answers x_i(λ) = argmin f_i(x) − λᵀA_i x; the dual function is
//! concave, its gradient is c − Σ A_i x_i(λ), its (generalised) Hessian −Σ A_i H_i⁻¹ A_iᵀ over the
//! variables that are free to move. Rows with ≤ keep λ ≤ 0, rows with ≥ keep λ ≥ 0.

use super::coupling::{Coupling, CouplingError, Relation};
use super::{LocalObjective, MeanLoss, Workspace};
use crate::kernel;
use nalgebra::{DMatrix, DVector};

/// The optimum and its multiplier.
#[derive(Clone, Debug, PartialEq)]
pub struct CoupledOptimum {
    /// x_1, …, x_N, one after the other.
    pub x: Vec<f64>,
    /// λ, with ∇f_i(x_i) = A_iᵀλ inside the limits.
    pub dual: Vec<f64>,
    /// (1/N) Σ f_i(x_i).
    pub value: f64,
    /// ‖Σ A_i x_i − c‖ over violated rows.
    pub residual: f64,
}

/// What one agent answers, and how it would change.
struct Answer {
    x: Vec<f64>,
    /// f(x) − uᵀx.
    value: f64,
    /// A H⁻¹ Aᵀ over its free variables.
    give: DMatrix<f64>,
    /// The largest diagonal entry it could have if all were free.
    most: f64,
}

/// Minimises Σ f_i(x_i) subject to the coupling; every f_i must be strongly convex.
///
/// # Errors
/// No point within the limits satisfies the rows: the row that stays farthest off.
pub fn coupled_optimum(
    locals: &[LocalObjective],
    coupling: &Coupling,
) -> Result<CoupledOptimum, CouplingError> {
    let rows = coupling.rows();
    let scale = 1.0 + kernel::norm(coupling.rhs());
    let mut dual = vec![0.0; rows];
    let mut state = State::at(locals, coupling, &dual);
    for _ in 0..500 {
        let free: Vec<usize> = (0..rows).filter(|&r| !state.held(coupling, &dual, r)).collect();
        let slope = DVector::from_iterator(free.len(), free.iter().map(|&r| state.slope[r]));
        if slope.norm() <= 1e-13 * scale {
            break;
        }
        let direction = state.direction(&free, &slope);
        let gain: f64 = direction.dot(&slope);
        let mut t = 1.0;
        let next = loop {
            let mut candidate = dual.clone();
            for (place, &r) in free.iter().enumerate() {
                candidate[r] = bounded(coupling.relations()[r], dual[r] + t * direction[place]);
            }
            let there = State::at(locals, coupling, &candidate);
            if there.value >= state.value + 1e-4 * t * gain.min(f64::MAX)
                || there.slope_norm(coupling, &candidate) < 0.5 * slope.norm()
            {
                break Some((candidate, there));
            }
            t *= 0.5;
            if t < 1e-18 {
                break None;
            }
        };
        let Some((candidate, there)) = next else { break };
        (dual, state) = (candidate, there);
        if dual.iter().any(|l| l.abs() > 1e14) {
            break;
        }
    }
    state.finish(locals, coupling, dual, scale)
}

fn bounded(relation: Relation, value: f64) -> f64 {
    match relation {
        Relation::Equal => value,
        Relation::AtMost => value.min(0.0),
        Relation::AtLeast => value.max(0.0),
    }
}

struct State {
    answers: Vec<Answer>,
    /// The dual function.
    value: f64,
    /// Its gradient c − Σ A_i x_i.
    slope: Vec<f64>,
}

impl State {
    fn at(locals: &[LocalObjective], coupling: &Coupling, dual: &[f64]) -> Self {
        let answers: Vec<Answer> =
            locals.iter().enumerate().map(|(i, f)| answer(f, coupling, i, dual)).collect();
        let mut slope = vec![0.0; coupling.rows()];
        coupling.residual(answers.iter().map(|a| &a.x[..]), &mut slope);
        slope.iter_mut().for_each(|s| *s = -*s);
        let value =
            answers.iter().map(|a| a.value).sum::<f64>() + kernel::dot(dual, coupling.rhs());
        Self { answers, value, slope }
    }

    /// Whether a row's multiplier sits at its bound and its slope pushes against it.
    fn held(&self, coupling: &Coupling, dual: &[f64], row: usize) -> bool {
        match coupling.relations()[row] {
            Relation::Equal => false,
            Relation::AtMost => dual[row] >= 0.0 && self.slope[row] >= 0.0,
            Relation::AtLeast => dual[row] <= 0.0 && self.slope[row] <= 0.0,
        }
    }

    fn slope_norm(&self, coupling: &Coupling, dual: &[f64]) -> f64 {
        let free = (0..coupling.rows()).filter(|&r| !self.held(coupling, dual, r));
        free.map(|r| self.slope[r] * self.slope[r]).sum::<f64>().sqrt()
    }

    fn direction(&self, free: &[usize], slope: &DVector<f64>) -> DVector<f64> {
        let mut hessian = DMatrix::<f64>::zeros(free.len(), free.len());
        for answer in &self.answers {
            for (a, &r) in free.iter().enumerate() {
                for (b, &s) in free.iter().enumerate() {
                    hessian[(a, b)] += answer.give[(r, s)];
                }
            }
        }
        // Rows that nobody can give in at this λ have no curvature; a little of it keeps the step
        // finite, and backtracking does the rest.
        let ridge = 1e-9 * self.answers.iter().map(|a| a.most).sum::<f64>();
        for a in 0..free.len() {
            hessian[(a, a)] += ridge;
        }
        hessian.cholesky().map_or_else(|| slope.clone(), |c| c.solve(slope))
    }

    fn finish(
        self,
        locals: &[LocalObjective],
        coupling: &Coupling,
        dual: Vec<f64>,
        scale: f64,
    ) -> Result<CoupledOptimum, CouplingError> {
        let residual = coupling.violation(self.answers.iter().map(|a| &a.x[..]));
        if residual.is_nan() || residual > 1e-7 * scale {
            let missed =
                |r: &usize| if self.held(coupling, &dual, *r) { 0.0 } else { self.slope[*r].abs() };
            let row =
                (0..coupling.rows()).max_by(|a, b| missed(a).total_cmp(&missed(b))).unwrap_or(0);
            return Err(CouplingError::Infeasible { row: row + 1, by: missed(&row) });
        }
        let mut work = Workspace::default();
        let total: f64 =
            locals.iter().zip(&self.answers).map(|(f, a)| f.value(&a.x, &mut work)).sum();
        let x = self.answers.into_iter().flat_map(|a| a.x).collect();
        Ok(CoupledOptimum { x, dual, value: total / locals.len() as f64, residual })
    }
}

fn answer(f: &LocalObjective, coupling: &Coupling, agent: usize, dual: &[f64]) -> Answer {
    let (block, dim) = (coupling.block(agent), f.dim());
    let mut u = vec![0.0; dim];
    block.add_transposed(1.0, dual, &mut u);
    let mut x = vec![0.0; dim];
    let mut work = Workspace::default();
    let (inverse, softest) = match f {
        LocalObjective::Costs(costs) => {
            let mut give = vec![0.0; dim];
            costs.respond(&u, &mut x, &mut give);
            (DMatrix::from_diagonal(&DVector::from_vec(give)), 1.0 / costs.curvature().0)
        }
        LocalObjective::Records(mean) => {
            let inverse = minimise((f, mean), &u, &mut x, &mut work);
            let softest = inverse.diagonal().amax();
            (inverse, softest)
        }
    };
    let mut a = DMatrix::<f64>::zeros(coupling.rows(), dim);
    block.entries().iter().for_each(|&(r, c, v)| a[(r, c)] += v);
    let give = &a * inverse * a.transpose();
    let most = softest * coupling.sigma_squared()[agent];
    Answer { value: f.value(&x, &mut work) - kernel::dot(&u, &x), x, give, most }
}

/// Newton's method for f(x) − uᵀx with a dense Hessian; returns the inverse Hessian at the end.
fn minimise(
    (f, mean): (&LocalObjective, &MeanLoss),
    u: &[f64],
    x: &mut [f64],
    work: &mut Workspace,
) -> DMatrix<f64> {
    let dim = x.len();
    let mut g = vec![0.0; dim];
    for _ in 0..100 {
        f.gradient(x, &mut g, work);
        let slope = DVector::from_iterator(dim, g.iter().zip(u).map(|(g, u)| g - u));
        let inverse = mean.hessian(x, work).try_inverse().expect("strongly convex");
        if slope.norm() <= 1e-13 * (1.0 + kernel::norm(u)) {
            return inverse;
        }
        let step = &inverse * &slope;
        let at = |t: f64| -> Vec<f64> { x.iter().zip(&step).map(|(x, s)| x - t * s).collect() };
        let value = |x: &[f64], work: &mut Workspace| f.value(x, work) - kernel::dot(u, x);
        let (before, mut t) = (value(x, work), 1.0);
        let mut next = at(t);
        while value(&next, work) > before - 1e-4 * t * slope.dot(&step) && t > 1e-8 {
            t *= 0.5;
            next = at(t);
        }
        // Where values no longer move in floating point a full step still improves the gradient.
        x.copy_from_slice(&if t > 1e-8 { next } else { at(1.0) });
    }
    mean.hessian(x, work).try_inverse().expect("strongly convex")
}
