//! Exact noise against OpenDP's samplers: two-sample χ² on the same grid at a false-alarm rate of
//! 1e-6.
//!
//! OpenDP draws from its own entropy, so these are the only tests without a fixed seed.

use consenso_engine::gate::exact::{Grid, Noise, release};
use consenso_engine::random::{Purpose, Seed};
use dashu::rational::RBig;
use opendp::traits::samplers::{sample_discrete_gaussian, sample_discrete_laplace};

const COUNT: usize = 60_000;

/// The two-sample χ² statistic over cells both samples fill, and its degrees of freedom.
fn two_sample(a: &[i64], b: &[i64], cell: impl Fn(i64) -> usize, cells: usize) -> (f64, f64) {
    let mut counts = vec![[0f64; 2]; cells];
    for (which, sample) in [a, b].into_iter().enumerate() {
        for q in sample {
            counts[cell(*q)][which] += 1.0;
        }
    }
    let (n, m) = (a.len() as f64, b.len() as f64);
    let (mut statistic, mut filled) = (0.0, 0.0);
    for [x, y] in counts.into_iter().filter(|[x, y]| x + y >= 50.0) {
        statistic += (x * (m / n).sqrt() - y * (n / m).sqrt()).powi(2) / (x + y);
        filled += 1.0;
    }
    // Cells were left out, so the total is not fixed: at most one degree of freedom a cell.
    (statistic, filled)
}

/// The 1 − 1e-6 quantile of χ² by Wilson and Hilferty, which is good to a percent at these degrees
/// of freedom; 3 % is added.
fn critical(freedom: f64) -> f64 {
    let z = 4.753_424;
    let k = 2.0 / (9.0 * freedom);
    1.03 * freedom * (1.0 - k + z * k.sqrt()).powi(3)
}

fn ours(noise: Noise, grid: Grid) -> Vec<i64> {
    let mut rng = Seed::from(42).stream(Purpose::Audit, 0, 0);
    let mut out = vec![0; COUNT];
    release(&mut rng, &vec![0.0; COUNT], &[], noise, grid, &mut out).expect("zeros fit");
    out
}

fn rational(x: f64) -> RBig {
    RBig::try_from(x).expect("a finite number")
}

#[test]
fn laplace_agrees_with_opendp_given_not_zero() {
    // Rounded Laplace and discrete Laplace differ in the mass of zero only: elsewhere both fall by
    // e^(−γ/b) a step. So even a coarse grid agrees.
    for (scale, exponent) in [(1.3, -1), (1.3, 0), (1.0, -3)] {
        let grid = Grid::new(exponent).expect("a plain exponent");
        let mut a = ours(Noise::Laplace { scale }, grid);
        let steps = rational(scale / grid.step());
        let mut b: Vec<i64> = (0..COUNT)
            .map(|_| {
                sample_discrete_laplace(steps.clone())
                    .expect("entropy")
                    .try_into()
                    .expect("a small integer")
            })
            .collect();
        a.retain(|q| *q != 0);
        b.retain(|q| *q != 0);
        let (statistic, freedom) = two_sample(&a, &b, |q| (q.clamp(-40, 40) + 40) as usize, 81);
        assert!(statistic < critical(freedom), "χ² = {statistic} on {freedom} degrees of freedom");
    }
}

#[test]
fn gaussian_agrees_with_opendp_on_a_fine_grid() {
    // Rounded and discrete Gaussians differ by O((γ/σ)²), one part in 10⁶ here: out of reach of
    // this many draws.
    let (sigma, grid) = (1.0, Grid::new(-10).expect("a plain exponent"));
    let a = ours(Noise::Gaussian { sigma }, grid);
    let steps = rational(sigma / grid.step());
    let b: Vec<i64> = (0..COUNT)
        .map(|_| {
            sample_discrete_gaussian(steps.clone())
                .expect("entropy")
                .try_into()
                .expect("a small integer")
        })
        .collect();
    let cell = |q: i64| (q.div_euclid(128).clamp(-32, 31) + 32) as usize;
    let (statistic, freedom) = two_sample(&a, &b, cell, 64);
    assert!(statistic < critical(freedom), "χ² = {statistic} on {freedom} degrees of freedom");
}
