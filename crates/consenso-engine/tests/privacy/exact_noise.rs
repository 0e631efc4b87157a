//! Exact noise: the golden vectors of `golden/noise.py`, and the distribution itself.
//!
//! Every statistical check has a fixed seed and a false-alarm rate of at most 1e-6.

use std::convert::Infallible;

use consenso_engine::gate::exact::{Grid, Noise, NoiseError, release};
use consenso_engine::random::{Purpose, Seed, Stream};
use rand::{Rng, TryRng};
use serde::Deserialize;
use statrs::distribution::{ChiSquared, ContinuousCDF, DiscreteCDF, Poisson};

const FALSE_ALARM: f64 = 1e-6;

fn stream(round: u64) -> Stream {
    Seed::from(0x5eed).stream(Purpose::Audit, 1, round)
}

/// `count` releases of the same coordinate.
fn draws(round: u64, count: usize, y: f64, width: f64, noise: Noise, grid: Grid) -> Vec<i64> {
    let (mut rng, mut out) = (stream(round), vec![0; count]);
    let widths = if width > 0.0 { vec![width; count] } else { vec![] };
    release(&mut rng, &vec![y; count], &widths, noise, grid, &mut out).unwrap();
    out
}

// ---- golden vectors
// -------------------------------------------------------------------------------------------------

#[derive(Deserialize)]
struct Golden {
    why: String,
    kind: String,
    scale: u64,
    exponent: i32,
    y: Vec<u64>,
    width: Vec<u64>,
    words: Vec<u64>,
    q: Vec<i64>,
}

/// A stream that says the given words and must be asked for exactly those.
struct Scripted<'a>(std::slice::Iter<'a, u64>);

impl TryRng for Scripted<'_> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        panic!("a release takes whole words")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(*self.0.next().expect("the release drew more words than the golden program"))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[test]
fn golden_vectors_agree_word_for_word() {
    let cases: Vec<Golden> = serde_json::from_str(include_str!("../golden/noise.json")).unwrap();
    assert!(cases.len() > 300);
    for (i, case) in cases.iter().enumerate() {
        let scale = f64::from_bits(case.scale);
        let noise = match case.kind.as_str() {
            "laplace" => Noise::Laplace { scale },
            _ => Noise::Gaussian { sigma: scale },
        };
        let floats = |bits: &[u64]| bits.iter().map(|&b| f64::from_bits(b)).collect::<Vec<_>>();
        let mut rng = Scripted(case.words.iter());
        let mut q = vec![0; case.q.len()];
        let grid = Grid::new(case.exponent).unwrap();
        release(&mut rng, &floats(&case.y), &floats(&case.width), noise, grid, &mut q).unwrap();
        assert_eq!(q, case.q, "case {i}: {} ({})", case.kind, case.why);
        assert_eq!(rng.0.len(), 0, "case {i} ({}): words left over", case.why);
    }
}

// ---- the distribution
// -----------------------------------------------------------------------------------------------

/// ∫ of the standard Laplace distribution function.
fn laplace_integral(x: f64) -> f64 {
    if x < 0.0 { 0.5 * x.exp() } else { x + 0.5 * (-x).exp() }
}

/// P(y + U·ω + noise ≤ x).
fn cdf(noise: Noise, y: f64, width: f64, x: f64) -> f64 {
    let scale = noise.scale();
    let z = (x - y) / scale;
    let w = width / scale;
    match noise {
        Noise::Laplace { .. } if w > 0.0 => (laplace_integral(z) - laplace_integral(z - w)) / w,
        Noise::Laplace { .. } if z < 0.0 => 0.5 * z.exp(),
        Noise::Laplace { .. } => 1.0 - 0.5 * (-z).exp(),
        Noise::Gaussian { .. } => {
            let phi = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
            let integral =
                |z: f64| z * phi(z) + (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
            if w > 0.0 { (integral(z) - integral(z - w)) / w } else { phi(z) }
        }
    }
}

/// Fails if the counts are not those of a multinomial with these probabilities.
fn chi_squared(counts: &[u64], probabilities: &[f64], what: &str) {
    let n: u64 = counts.iter().sum();
    let (mut statistic, mut cells) = (0.0, 0);
    let (mut pooled_count, mut pooled_mass) = (0.0, 0.0);
    let mut add = |count: f64, expected: f64| {
        statistic += (count - expected).powi(2) / expected;
        cells += 1;
    };
    for (&count, &p) in counts.iter().zip(probabilities) {
        let expected = p * n as f64;
        if expected >= 25.0 {
            add(count as f64, expected);
        } else {
            pooled_count += count as f64;
            pooled_mass += expected;
        }
    }
    if pooled_mass >= 25.0 {
        add(pooled_count, pooled_mass);
    }
    let p_value = ChiSquared::new(f64::from(cells - 1)).unwrap().sf(statistic);
    assert!(p_value > FALSE_ALARM, "{what}: χ² = {statistic} on {cells} cells, p = {p_value:e}");
}

/// Counts of q in −half..=half, what is beyond in two more cells at the ends; and their exact
/// probabilities.
fn cells(
    q: &[i64],
    half: i64,
    coarse: i64,
    cdf: impl Fn(f64) -> f64,
    step: f64,
) -> (Vec<u64>, Vec<f64>) {
    let mut counts = vec![0; 2 * half as usize + 3];
    for q in q {
        counts[(q.div_euclid(coarse).clamp(-half - 1, half + 1) + half + 1) as usize] += 1;
    }
    // Cell c holds q from c·coarse to (c+1)·coarse − 1, the sums from (c·coarse − ½)γ on.
    let edge = |c: i64| cdf(((c * coarse) as f64 - 0.5) * step);
    let probabilities = (-half - 1..=half + 1).map(|c| {
        let low = if c == -half - 1 { 0.0 } else { edge(c) };
        let high = if c == half + 1 { 1.0 } else { edge(c + 1) };
        high - low
    });
    (counts, probabilities.collect())
}

fn fits(round: u64, y: f64, width: f64, noise: Noise, exponent: i32, coarse: i64) {
    let grid = Grid::new(exponent).unwrap();
    let q = draws(round, 400_000, y, width, noise, grid);
    let (counts, p) = cells(&q, 60, coarse, |x| cdf(noise, y, width, x), grid.step());
    chi_squared(&counts, &p, &format!("{noise:?}, y = {y}, width = {width}, step 2^{exponent}"));
}

#[test]
fn laplace_releases_have_the_exact_cell_probabilities() {
    let noise = Noise::Laplace { scale: 0.8 };
    fits(1, 0.3, 0.0, noise, -3, 1);
    fits(2, -0.07, 0.0, noise, -10, 100);
    fits(3, 0.3, 1.9, noise, -3, 1);
    fits(4, 0.01, 0.4, noise, -11, 100);
    // A grid far coarser than the noise: still exact.
    fits(5, 0.3, 0.0, noise, 2, 1);
}

#[test]
fn gaussian_releases_have_the_exact_cell_probabilities() {
    let noise = Noise::Gaussian { sigma: 0.8 };
    fits(11, 0.3, 0.0, noise, -4, 1);
    fits(12, -0.07, 0.0, noise, -10, 60);
    fits(13, 0.3, 1.9, noise, -3, 1);
    fits(14, 0.3, 0.0, noise, 1, 1);
}

#[test]
fn low_digits_of_a_release_are_uniform() {
    // What a floating-point sampler gets wrong: which low digits occur. On a grid 2⁻²⁰ below the
    // scale, q mod 64 is uniform up to 1e-10.
    for (round, noise) in
        [(21, Noise::Laplace { scale: 1.0 }), (22, Noise::Gaussian { sigma: 1.0 })]
    {
        let mut counts = vec![0; 64];
        for q in draws(round, 400_000, 0.1, 0.0, noise, Grid::new(-20).unwrap()) {
            counts[q.rem_euclid(64) as usize] += 1;
        }
        chi_squared(&counts, &[1.0 / 64.0; 64], "low digits");
    }
}

/// Two-sided Poisson test of a count.
fn poisson(count: u64, expected: f64, what: &str) {
    let law = Poisson::new(expected).unwrap();
    let p = law.cdf(count).min(law.sf(count.saturating_sub(1)));
    assert!(p > FALSE_ALARM / 2.0, "{what}: {count} where {expected:.1} were expected (p = {p:e})");
}

#[test]
fn tails_have_their_mass() {
    let count = 1_000_000;
    let grid = Grid::new(-10).unwrap();
    for (round, noise) in
        [(31, Noise::Laplace { scale: 1.0 }), (32, Noise::Gaussian { sigma: 1.0 })]
    {
        let q = draws(round, count, 0.0, 0.0, noise, grid);
        let thresholds: [f64; 3] =
            if matches!(noise, Noise::Laplace { .. }) { [6.0, 8.0, 11.0] } else { [3.0, 3.5, 4.2] };
        for t in thresholds {
            let tail = cdf(noise, 0.0, 0.0, -t - 0.5 * grid.step());
            let steps = (t / grid.step()) as i64;
            let (above, below) =
                (q.iter().filter(|q| **q > steps), q.iter().filter(|q| **q < -steps));
            poisson(above.count() as u64, tail * count as f64, "upper tail");
            poisson(below.count() as u64, tail * count as f64, "lower tail");
        }
    }
}

#[test]
fn signs_are_fair_whatever_the_magnitude() {
    let grid = Grid::new(-10).unwrap();
    for (round, noise) in
        [(41, Noise::Laplace { scale: 1.0 }), (42, Noise::Gaussian { sigma: 1.0 })]
    {
        let mut counts = [0; 16];
        let edges = [0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0];
        for q in draws(round, 400_000, 0.0, 0.0, noise, grid).into_iter().filter(|q| *q != 0) {
            let band = edges.iter().filter(|e| grid.value(q).abs() > **e).count();
            counts[2 * band + usize::from(q > 0)] += 1;
        }
        for (band, pair) in counts.chunks(2).enumerate() {
            chi_squared(pair, &[0.5, 0.5], &format!("{noise:?} band {band}"));
        }
    }
}

#[test]
fn coordinates_are_independent_of_their_neighbours_and_partners() {
    // Lag 1 crosses batches; lag 8 couples the two normals of a pair; both values and magnitudes
    // fall into four classes of exact mass.
    let grid = Grid::new(-10).unwrap();
    for (round, noise) in
        [(51, Noise::Laplace { scale: 1.0 }), (52, Noise::Gaussian { sigma: 1.0 })]
    {
        let q = draws(round, 320_000, 0.0, 0.0, noise, grid);
        for lag in [1, 8, 16] {
            for magnitude in [false, true] {
                let edges = if magnitude { [300, 700, 1_400] } else { [-500, 0, 600] };
                let class = |q: i64| {
                    let q = if magnitude { q.abs() } else { q };
                    edges.iter().filter(|e| q >= **e).count()
                };
                let below = |e: i64| {
                    let at = |q: i64| cdf(noise, 0.0, 0.0, (q as f64 - 0.5) * grid.step());
                    if magnitude { at(e) - at(1 - e) } else { at(e) }
                };
                let b = edges.map(below);
                let mass = [b[0], b[1] - b[0], b[2] - b[1], 1.0 - b[2]];
                let mut counts = vec![0; 16];
                // Disjoint pairs only, or the multinomial would not be one.
                for block in q.chunks_exact(2 * lag) {
                    for (a, b) in block[..lag].iter().zip(&block[lag..]) {
                        counts[4 * class(*a) + class(*b)] += 1;
                    }
                }
                let p: Vec<f64> =
                    mass.iter().flat_map(|a| mass.iter().map(move |b| a * b)).collect();
                chi_squared(&counts, &p, &format!("{noise:?} lag {lag}"));
            }
        }
    }
}

#[test]
fn no_output_tells_neighbours_apart_by_more_than_epsilon() {
    // Neighbouring inputs 0 and Δ, Laplace of scale b: every output's odds are within e^ε, ε = Δ/b,
    // and attain it outside [0, Δ].
    let (delta, scale) = (0.37, 0.9);
    let (noise, grid, count) = (Noise::Laplace { scale }, Grid::new(-3).unwrap(), 1_000_000);
    let epsilon: f64 = delta / scale;
    let odds = epsilon.exp();
    let half = 40;
    let tally =
        |round, y| cells(&draws(round, count, y, 0.0, noise, grid), half, 1, |_| 0.0, 1.0).0;
    let (a, b) = (tally(61, 0.0), tally(62, delta));
    // z at 1e-6 shared over both directions of all cells is below 6.2.
    for (i, (&a, &b)) in a.iter().zip(&b).enumerate() {
        let n = (a + b) as f64;
        if n < 100.0 {
            continue;
        }
        let p = odds / (1.0 + odds);
        let z = (a.max(b) as f64 - n * p) / (n * p * (1.0 - p)).sqrt();
        assert!(z < 6.2, "cell {i}: {a} against {b}, z = {z}");
    }
    // Pooled over q < 0 and over q·γ > Δ the log ratio is exactly ±ε. (5σ for each of the two.)
    let middle = half as usize + 1;
    let right = middle + 4;
    for (a, b) in [
        (a[..middle].iter().sum::<u64>(), b[..middle].iter().sum::<u64>()),
        (b[right..].iter().sum::<u64>(), a[right..].iter().sum::<u64>()),
    ] {
        let (log_ratio, sd) =
            ((a as f64 / b as f64).ln(), (1.0 / a as f64 + 1.0 / b as f64).sqrt());
        assert!(
            (log_ratio - epsilon).abs() < 5.1 * sd,
            "log ratio {log_ratio}, ε {epsilon}, sd {sd}"
        );
    }
}

// ---- exact symmetries
// -----------------------------------------------------------------------------------------------

#[test]
fn shifting_by_grid_steps_shifts_the_release() {
    let grid = Grid::new(-10).unwrap();
    let y: Vec<f64> = (0..40).map(|i| (f64::from(i) * 0.61).sin()).collect();
    let width = vec![0.3; 40];
    for noise in [Noise::Laplace { scale: 1.0 }, Noise::Gaussian { sigma: 1.0 }] {
        // 2²⁰ keeps y + shift exact only for y with few bits, so round y to 2⁻³⁰ first.
        let y: Vec<f64> = y.iter().map(|y| (y * 2f64.powi(30)).round() * 2f64.powi(-30)).collect();
        let shifted: Vec<f64> = y.iter().map(|y| y - 1024.0).collect();
        let (mut here, mut there) = (vec![0; 40], vec![0; 40]);
        release(&mut stream(70), &y, &width, noise, grid, &mut here).unwrap();
        release(&mut stream(70), &shifted, &width, noise, grid, &mut there).unwrap();
        assert!(here.iter().zip(&there).all(|(a, b)| a - (1 << 20) == *b));
    }
}

#[test]
fn units_do_not_matter() {
    let y = [0.1, -3.7, 2.2];
    let width = [0.0, 0.4, 1.1];
    let run = |unit: f64| {
        let noise = Noise::Laplace { scale: 0.3 * unit };
        let grid = Grid::for_scale(noise.scale()).unwrap();
        let mut q = [0; 3];
        release(
            &mut stream(71),
            &y.map(|y| y * unit),
            &width.map(|w| w * unit),
            noise,
            grid,
            &mut q,
        )
        .unwrap();
        q
    };
    assert_eq!(run(1.0), run(2f64.powi(900)));
    assert_eq!(run(1.0), run(2f64.powi(-900)));
}

// ---- bad input
// ------------------------------------------------------------------------------------------------------

#[test]
fn bad_input_is_an_error_that_draws_nothing_and_names_the_coordinate() {
    let grid = Grid::for_scale(1.0).unwrap();
    let ok = Noise::Laplace { scale: 1.0 };
    let attempt = |y: &[f64], width: &[f64], noise, outputs: usize| {
        let mut out = vec![7; outputs];
        let result = release(&mut Scripted([].iter()), y, width, noise, grid, &mut out);
        assert!(out.iter().all(|q| *q == 7));
        result.unwrap_err()
    };
    assert_eq!(attempt(&[0.0, f64::NAN], &[], ok, 2), NoiseError::NotFinite { index: 1 });
    assert_eq!(attempt(&[f64::INFINITY], &[0.0], ok, 1), NoiseError::NotFinite { index: 0 });
    assert_eq!(attempt(&[0.0], &[-0.1], ok, 1), NoiseError::Width { index: 0, width: -0.1 });
    assert!(matches!(attempt(&[0.0], &[f64::NAN], ok, 1), NoiseError::Width { index: 0, .. }));
    for scale in [0.0, -1.0, f64::INFINITY] {
        assert_eq!(
            attempt(&[0.0], &[], Noise::Gaussian { sigma: scale }, 1),
            NoiseError::Scale { scale }
        );
        assert_eq!(Grid::for_scale(scale), Err(NoiseError::Scale { scale }));
    }
    assert!(matches!(
        attempt(&[0.0], &[], Noise::Laplace { scale: f64::NAN }, 1),
        NoiseError::Scale { .. }
    ));
    assert!(matches!(attempt(&[0.0; 2], &[0.0], ok, 2), NoiseError::Lengths { widths: 1, .. }));
    assert!(matches!(attempt(&[0.0; 2], &[], ok, 1), NoiseError::Lengths { outputs: 1, .. }));
    let range = attempt(&[0.0, 9e12], &[], ok, 2);
    assert!(matches!(range, NoiseError::Range { index: 1, .. }));
    let message = range.to_string();
    assert!(message.contains("more than 2^53 grid steps") && message.contains("clip"), "{message}");
    assert!(!message.contains("9e12"), "a private value must not be printed: {message}");
    // The noise alone may be too wide for the grid.
    let wide = Noise::Laplace { scale: 1e15 };
    assert!(matches!(attempt(&[0.0], &[], wide, 1), NoiseError::Range { index: 0, .. }));
    assert!(matches!(Grid::new(961), Err(NoiseError::Exponent { exponent: 961 })));
    assert!(matches!(Grid::for_scale(1e-300), Err(NoiseError::Exponent { .. })));
}

#[test]
fn largest_values_that_fit_are_exact() {
    // y = (2⁵³ − 2¹⁷)·γ with γ = 2⁻¹⁰: the fast path adds the whole part as an integer.
    let grid = Grid::new(-10).unwrap();
    let noise = Noise::Laplace { scale: 1.0 };
    let far = (1i64 << 53) - (1 << 17);
    let (mut here, mut there) = ([0; 20], [0; 20]);
    release(&mut stream(80), &[0.0; 20], &[], noise, grid, &mut here).unwrap();
    release(&mut stream(80), &[-grid.value(far); 20], &[], noise, grid, &mut there).unwrap();
    assert_eq!(here.map(|q| q - far), there);
    assert!(there.iter().all(|&q| grid.value(q) * 1024.0 == q as f64));
}
