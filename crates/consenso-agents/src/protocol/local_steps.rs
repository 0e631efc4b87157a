//! Several gradient steps between two exchanges.

use crate::ConfigError;
use crate::facts::PublicFacts;
use crate::problem::{LocalObjective, Workspace};

/// Writes Σ_t (∇f(x_t) + μx_t) over the `count` points x_{t+1} = x_t − η(∇f(x_t) + μx_t +
/// `pull`) from x_0 = `start` to `sum`, ∇f that of the data term.
pub(super) fn gradients_along(
    (start, pull): (&[f64], impl Fn(usize) -> f64),
    (eta, regularization, count): (f64, f64, u32),
    local: &LocalObjective,
    work: &mut Workspace,
    sum: &mut [f64],
) {
    let (mut x, mut gradient) = (start.to_vec(), vec![0.0; start.len()]);
    sum.fill(0.0);
    for _ in 0..count {
        local.data_gradient(&x, &mut gradient, work);
        for (l, (x, sum)) in x.iter_mut().zip(sum.iter_mut()).enumerate() {
            let slope = gradient[l] + regularization * *x;
            *sum += slope;
            *x -= eta * (slope + pull(l));
        }
    }
}

/// Refuses no step at all, and several where records are private: how far one record moves the
/// later ones rests on a curvature that clipped gradients and gradients of somebody's own do not
/// have.
pub(super) fn check(count: u32, facts: &PublicFacts) -> Result<(), ConfigError> {
    let text = match count {
        0 => "local_steps must be at least 1".into(),
        2.. if facts.private => format!(
            "local_steps = {count}: how far one record moves several steps in a row is not bounded here; \
             leave it out (1), or train without privacy"
        ),
        _ => return Ok(()),
    };
    Err(ConfigError::at("local_steps", text))
}
