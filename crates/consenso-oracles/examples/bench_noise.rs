//! Nanoseconds a sample of exact noise, beside the floating-point sampler nobody should use and
//! OpenDP's.
//!
//!     cargo run --release -p consenso-oracles --example bench_noise

#![expect(clippy::print_stdout, reason = "a table is what it is for")]

use std::hint::black_box;
use std::time::Instant;

use consenso_engine::gate::exact::{Grid, Noise, release};
use consenso_engine::random::{Purpose, Seed, Stream};
use dashu::rational::RBig;
use opendp::traits::samplers::{sample_discrete_gaussian, sample_discrete_laplace};
use rand::Rng;

const SCALE: f64 = 0.7;

/// Best of many short runs: what the code costs when nothing else runs. In nanoseconds a sample.
fn time(samples: usize, calls: usize, mut f: impl FnMut()) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..400 {
        let start = Instant::now();
        for _ in 0..calls {
            f();
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9 / (calls * samples) as f64
}

/// y + inverse-CDF Laplace in `f64` from the same generator: fast and not private.
fn unsafe_laplace(rng: &mut Stream, y: &[f64], out: &mut [f64]) {
    for (out, y) in out.iter_mut().zip(y) {
        let word = rng.next_u64();
        let u = ((word >> 11) as f64 + 0.5) * 2f64.powi(-53);
        let e = -SCALE * u.ln();
        *out = y + if word & 1 == 1 { -e } else { e };
    }
}

/// The four kinds of release at one dimension, the unsafe sampler first.
fn ours(d: usize) -> [f64; 6] {
    let mut rng = Seed::from(1).stream(Purpose::Release, 0, 0);
    let (y, width) = (vec![0.3; d], vec![0.2; d]);
    let (mut floats, mut steps) = (vec![0.0; d], vec![0; d]);
    let grid = Grid::for_scale(SCALE).expect("a plain scale");
    let calls = 10_000 / d;
    let bits = time(d, calls, || {
        for _ in 0..d {
            black_box(rng.next_u64());
        }
    });
    let unsafe_f64 =
        time(d, calls, || unsafe_laplace(&mut rng, black_box(&y), black_box(&mut floats)));
    let mut exact = |noise, width: &[f64]| {
        time(d, calls, || {
            release(&mut rng, black_box(&y), black_box(width), noise, grid, black_box(&mut steps))
                .expect("values fit");
        })
    };
    let (laplace, gaussian) = (Noise::Laplace { scale: SCALE }, Noise::Gaussian { sigma: SCALE });
    [
        bits,
        unsafe_f64,
        exact(laplace, &[]),
        exact(laplace, &width),
        exact(gaussian, &[]),
        exact(gaussian, &width),
    ]
}

fn main() {
    let grid = Grid::for_scale(SCALE).expect("a plain scale");
    let steps = RBig::try_from(SCALE / grid.step()).expect("a finite number");
    let opendp = time(1, 40, || {
        black_box(sample_discrete_laplace(steps.clone()).expect("entropy"));
    });
    let opendp_gaussian = time(1, 20, || {
        black_box(sample_discrete_gaussian(steps.clone()).expect("entropy"));
    });
    println!("ns a sample           d=14    d=105   d=1024");
    let columns = [14, 105, 1024].map(ours);
    let names = [
        "64 bits of ChaCha12",
        "unsafe f64 Laplace",
        "exact Laplace",
        " + uniform point",
        "exact Gaussian",
        " + uniform point",
    ];
    for (row, name) in names.into_iter().enumerate() {
        println!(
            "{name:20} {:7.2}  {:7.2}  {:7.2}",
            columns[0][row], columns[1][row], columns[2][row]
        );
    }
    println!("opendp Laplace       {opendp:7.0}\nopendp Gaussian      {opendp_gaussian:7.0}");
    println!("exact Laplace / unsafe f64:       {:.2}", columns[0][2] / columns[0][1]);
    println!("opendp Laplace / exact Laplace:   {:.0}", opendp / columns[0][2]);
    println!("opendp Gaussian / exact Gaussian: {:.0}", opendp_gaussian / columns[0][4]);
    println!("a release of 14 with uniform points, Laplace: {:.0} ns", 14.0 * columns[0][3]);
}
