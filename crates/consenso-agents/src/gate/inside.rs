//! Noise inside a problem, drawn before the problem is solved.
//!
//! For [`Response::AtNoisedPoint`](crate::protocol::Response) the gate draws n first, the protocol
//! solves at the noised centre, and the gate releases the solution with a finishing noise (see
//! [`objective_perturbation`] for what that costs and why).

use super::exact::{self, Grid, Noise, NoiseError};
use super::{Law, RoundNoise};
use crate::privacy::objective_perturbation::{self as objective, STEPS_LOG2};
use rand::Rng;

/// The finishing noise that goes with the noise inside.
pub(super) fn finishing(noise: RoundNoise) -> Result<RoundNoise, NoiseError> {
    RoundNoise::new(Noise::Laplace { scale: noise.noise.scale() * objective::FINISH })
}

/// Whether rounding stays within what the cost allows for, around this public centre.
pub(super) fn within_reach(centre: &[f64], noise: RoundNoise) -> bool {
    let most = objective::REACH * noise.noise.scale();
    centre.iter().all(|c| c.abs() <= most)
}

/// What ‖n‖₂ stays below, but for a chance of less than 2⁻¹⁰⁰.
///
/// Gamma(d, s) exceeds s(d + √(2td) + t) with a chance of at most e^{−t}; t = 70. A Laplace vector
/// has E‖n‖₂ ≤ s√(2d), and a function that moves no faster than its argument exceeds its mean by r
/// with a chance of at most e^{−r/4s} for r ≥ 4s (Bobkov and Ledoux, 1997); r = 300s. A Gaussian
/// one exceeds its mean, at most σ√d, by r with a chance of at most e^{−r²/2σ²}; r = 12σ.
pub(super) fn length(noise: RoundNoise, dim: usize) -> f64 {
    let d = dim as f64;
    let most = match noise.law {
        Law::Independent if matches!(noise.noise, Noise::Gaussian { .. }) => d.sqrt() + 12.0,
        Law::Independent => (2.0 * d).sqrt() + 300.0,
        Law::GammaNorm => d + (140.0 * d).sqrt() + 70.0,
    };
    noise.noise.scale() * most
}

/// Draws n into `out`; `steps` is scratch.
pub(super) fn draw(
    rng: &mut impl Rng,
    noise: RoundNoise,
    steps: &mut Vec<i64>,
    out: &mut [f64],
) -> Result<(), NoiseError> {
    match noise.law {
        Law::Independent => fine(rng, noise.noise, steps, out),
        Law::GammaNorm => {
            // With h, g standard normal in d + 1 and d dimensions, ‖h‖·g has density ∝ e^{−‖n‖₂}: a
            // normal vector whose variance is χ² with d + 1 degrees of freedom.
            let unit = Noise::Gaussian { sigma: 1.0 };
            let mut more = vec![0.0; out.len() + 1];
            fine(rng, unit, steps, &mut more)?;
            fine(rng, unit, steps, out)?;
            let length = noise.noise.scale() * crate::kernel::norm(&more);
            out.iter_mut().for_each(|n| *n *= length);
            Ok(())
        }
    }
}

/// Independent coordinates on the fine grid.
fn fine(
    rng: &mut impl Rng,
    noise: Noise,
    steps: &mut Vec<i64>,
    out: &mut [f64],
) -> Result<(), NoiseError> {
    // for_scale gives at least 2^10 steps a scale.
    let grid = Grid::new(Grid::for_scale(noise.scale())?.exponent() + 10 - STEPS_LOG2)?;
    out.fill(0.0);
    steps.resize(out.len(), 0);
    exact::release(rng, out, &[], noise, grid, steps)?;
    for (out, q) in out.iter_mut().zip(&*steps) {
        *out = grid.value(*q);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Seed};

    fn drawn(noise: RoundNoise, dim: usize, count: u64) -> Vec<Vec<f64>> {
        let one = |k| {
            let mut out = vec![0.0; dim];
            draw(
                &mut Seed::from(5).stream(Purpose::Release, 0, k),
                noise,
                &mut Vec::new(),
                &mut out,
            )
            .unwrap();
            out
        };
        (0..count).map(one).collect()
    }

    /// Kolmogorov–Smirnov at a false-alarm rate of 1e-6: √(ln(2e6)/2)/√n.
    fn assert_distributed(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) {
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let distance = values.iter().enumerate().map(|(i, &x)| {
            let f = cdf(x);
            (f - i as f64 / n).max((i as f64 + 1.0) / n - f)
        });
        let (found, limit) = (distance.fold(0.0, f64::max), (2e6f64.ln() / 2.0 / n).sqrt());
        assert!(found < limit, "{found} against {limit}");
    }

    /// The norm is Gamma(3, s): P(R > r) = e^{−t}(1 + t + t²/2), t = r/s; and each coordinate of
    /// the direction is uniform on [−1, 1] in three dimensions (Archimedes).
    #[test]
    fn gamma_norm_noise_has_the_published_norm_and_direction() {
        let scale = 0.7;
        let all = drawn(RoundNoise::gamma_norm(scale).unwrap(), 3, 20_000);
        let norm = |n: &Vec<f64>| n.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert_distributed(all.iter().map(norm).collect(), |r| {
            let t = r / scale;
            1.0 - (-t).exp() * (1.0 + t + t * t / 2.0)
        });
        for l in 0..3 {
            let along = all.iter().map(|n| n[l] / norm(n)).collect();
            assert_distributed(along, |u| 0.5 * (u + 1.0));
        }
    }

    #[test]
    fn laplace_noise_inside_is_laplace_on_a_fine_grid() {
        let noise = RoundNoise::new(Noise::Laplace { scale: 0.3 }).unwrap();
        let all: Vec<f64> = drawn(noise, 4, 5_000).concat();
        let cdf =
            |x: f64| if x < 0.0 { 0.5 * (x / 0.3).exp() } else { 1.0 - 0.5 * (-x / 0.3).exp() };
        let coarse = all.iter().filter(|x| (*x / noise.grid().step()).fract() == 0.0).count();
        assert!(coarse < 10, "{coarse} of {} lie on the coarse grid", all.len());
        assert_distributed(all, cdf);
    }
}
