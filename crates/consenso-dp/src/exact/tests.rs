use rand::{Rng, SeedableRng};

use super::refine::{Bits, Interval};
use super::*;
use crate::random::{Purpose, Seed, Stream};

fn stream(round: u64) -> Stream {
    Seed::from(0x6e6f_6973).stream(Purpose::Audit, 0, round)
}

/// The middle and half-width of an enclosure.
fn middle(interval: &Interval, precision: u64) -> f64 {
    let (lo, hi) = (to_f64(&interval.lo, precision), to_f64(&interval.hi, precision));
    assert!(lo <= hi && hi - lo < 1e-12 * (1.0 + hi.abs()));
    f64::midpoint(lo, hi)
}

fn to_f64(a: &num_bigint::BigInt, precision: u64) -> f64 {
    i128::try_from(a >> (precision - 100)).unwrap() as f64 * 2f64.powi(-100)
}

/// A bit stream spent on refinement must not change what the fast path already knew.
fn refining_changes_nothing(noise: Noise, width: &[f64], y: &[f64]) {
    let grid = Grid::for_scale(noise.scale()).unwrap();
    let (mut fast, mut slow) = (vec![0; y.len()], vec![0; y.len()]);
    for round in 0..25 {
        release(&mut stream(round), y, width, noise, grid, &mut fast).unwrap();
        release_checked(
            &mut stream(round),
            Release { y, width, noise, grid, slack: 1.0 },
            &mut slow,
        );
        assert_eq!(fast, slow, "round {round}");
    }
}

#[test]
fn refining_every_laplace_draw_gives_the_same_release() {
    let y: Vec<f64> = (0..37).map(|i| f64::from(i) * 0.37 - 6.0).collect();
    let width: Vec<f64> = (0..37).map(|i| f64::from(i % 5) * 0.21).collect();
    refining_changes_nothing(Noise::Laplace { scale: 0.3 }, &[], &y);
    refining_changes_nothing(Noise::Laplace { scale: 1.7e-9 }, &width, &y);
}

#[test]
fn refining_every_gaussian_draw_gives_the_same_release() {
    let y: Vec<f64> = (0..21).map(|i| f64::from(i) * 0.37 - 6.0).collect();
    let width: Vec<f64> = (0..21).map(|i| f64::from(i % 5) * 0.21).collect();
    refining_changes_nothing(Noise::Gaussian { sigma: 12.5 }, &[], &y);
    refining_changes_nothing(Noise::Gaussian { sigma: 0.01 }, &width, &y);
}

/// Words whose uniform real spans all magnitudes, the covered extremes among them.
fn words() -> impl Iterator<Item = u64> {
    let mut rng = stream(1_000);
    let random = (0..1_000u32).map(move |i| rng.next_u64() >> (i % 23));
    let edges =
        [1 << 41, (1 << 41) + 2, u64::MAX - (1 << 44) + 1, QUIET, SQRT_HALF_63, SQRT_HALF_63 + 2];
    random.filter(|word| *word >= 1 << 41).chain(edges)
}

/// The word whose 63 bits are 2⁶³/√2, where the logarithm changes its argument reduction.
const SQRT_HALF_63: u64 = 0xb504_f333_f9de_6484;

#[test]
fn logarithm_stays_within_its_proven_bound() {
    for word in words() {
        let mut worst = 0f64;
        // The undrawn bits all zero and all one: the two ends of what the 63 bits leave open.
        let e = fast::minus_ln((word >> 1) as f64);
        for rest in [0, u64::MAX] {
            let mut bits = Bits::new(word >> 1, 63);
            bits.extend(&mut Always(rest));
            let exact = middle(&bits.minus_ln(bits.precision()).unwrap(), bits.precision());
            worst = worst.max((e - exact).abs());
        }
        assert!(worst <= 2f64.powf(-39.9), "{word:#x}: {worst:e}");
        // Beyond the undrawn bits the logarithm itself owes at most 2⁻⁴⁵.
        let own = worst - 1.0 / (word >> 1) as f64;
        assert!(own <= 2f64.powi(-45), "{word:#x}: {own:e}");
    }
}

#[test]
fn normals_stay_within_their_proven_bound() {
    let mut rng = stream(1_001);
    for radius in words() {
        let angle = rng.next_u64();
        let (a, b) = fast::normal_pair(radius, angle);
        for rest in [0, u64::MAX] {
            let (mut r, mut v) =
                (Bits::new(radius >> 1, 63), Bits::new(angle & ((1 << 62) - 1), 62));
            r.extend(&mut Always(rest));
            v.extend(&mut Always(!rest));
            let pair = gaussian::enclose(&r, &v, angle, r.precision()).unwrap();
            for (fast, exact) in [a, b].into_iter().zip(&pair) {
                let error = (fast - middle(exact, r.precision())).abs();
                assert!(error <= 2f64.powi(-40), "{radius:#x} {angle:#x}: {error:e}");
            }
        }
    }
}

#[test]
fn words_beyond_the_bound_are_refined() {
    let refined = |x: f64| x.is_nan();
    let laplace = |w: u64| fast::laplace(&[w; LANES])[0];
    assert!(refined(laplace(0)) && refined(laplace((1 << 41) - 1)) && !refined(laplace(1 << 41)));
    assert!(!refined(laplace(u64::MAX)));
    let normal = |w: u64| fast::normal_pair(w, QUIET).0;
    assert!(refined(normal(0)) && refined(normal((1 << 41) - 1)) && !refined(normal(1 << 41)));
    assert!(refined(normal(u64::MAX)) && !refined(normal(u64::MAX >> 1)));
}

/// A word repeated for ever.
struct Always(u64);

impl rand::TryRng for Always {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0 as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        bytes.as_chunks_mut().0.fill(self.0.to_le_bytes());
        Ok(())
    }
}

#[test]
fn sixty_four_zero_words_are_a_far_tail_and_saturate() {
    // All-zero bits refine until one is set; after 65 zero words the magnitude is 4159·ln 2 scales.
    struct Zeros(u32);
    impl rand::TryRng for Zeros {
        type Error = std::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            unreachable!("noise takes whole words")
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            self.0 += 1;
            Ok(if self.0 <= 65 { 0 } else { u64::MAX })
        }
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
            for word in bytes.as_chunks_mut().0 {
                *word = self.try_next_u64()?.to_le_bytes();
            }
            Ok(())
        }
    }
    let noise = Noise::Laplace { scale: 1.0 };
    let mut q = [0];
    release(&mut Zeros(0), &[0.0], &[], noise, Grid::new(-10).unwrap(), &mut q).unwrap();
    let expected = (63.0 + 64.0 * 64.0) * std::f64::consts::LN_2 * 1024.0;
    assert!((q[0] as f64 - expected).abs() <= 1.0, "{q:?} against {expected}");
    release(&mut Zeros(0), &[0.0], &[], noise, Grid::new(-46).unwrap(), &mut q).unwrap();
    assert_eq!(q[0], LARGEST_STEP);
}

#[test]
fn stream_is_chacha_words_in_the_documented_order() {
    // 17 Laplace coordinates with widths: 16 + 16 words, then 1 + 1.
    let mut rng = Stream::from_seed([3; 32]);
    let mut reference = Stream::from_seed([3; 32]);
    let mut out = [0; 17];
    let noise = Noise::Laplace { scale: 1.0 };
    release(&mut rng, &[0.0; 17], &[1.0; 17], noise, Grid::new(-10).unwrap(), &mut out).unwrap();
    let words: Vec<u64> = (0..34).map(|_| reference.next_u64()).collect();
    assert_eq!(rng.next_u64(), reference.next_u64());
    let last = {
        let e = -((words[32] >> 1) as f64 * 2f64.powi(-63)).ln();
        (if words[32] & 1 == 1 { -e } else { e }) + words[33] as f64 * 2f64.powi(-64)
    };
    assert!((out[16] as f64 - last * 1024.0).abs() <= 0.500_001);
}

/// On a grid of 2⁴⁶ steps a scale every coordinate is refined, and one in five thousand takes words
/// of its own, which moves all after it: in these rounds of Laplace noise some batch within the
/// first block does.
const MOVED: [(u64, bool); 3] = [(169, false), (266, false), (237, true)];

fn ramp(length: u32) -> (Vec<f64>, Vec<f64>) {
    (0..length).map(|i| (f64::from(i) * 0.01 - 6.0, f64::from(i % 7) * 0.3)).unzip()
}

/// What is drawn ahead of its turn must not change what is released, nor where the stream ends.
#[test]
fn blocks_release_what_single_batches_release() {
    let (laplace, gaussian) = (Noise::Laplace { scale: 1.0 }, Noise::Gaussian { sigma: 1.0 });
    let (y, width) = ramp(150);
    let compare = |noise, exponent, round, widths: bool| {
        let grid = Grid::new(exponent).unwrap();
        let width = if widths { &width[..] } else { &[] };
        let (mut ahead, mut single) = (vec![0; y.len()], vec![0; y.len()]);
        let (mut one, mut other) = (stream(round), stream(round));
        let of = Release { y: &y, width, noise, grid, slack: 0.0 };
        release_checked(&mut one, of, &mut ahead);
        batches(&mut other, of, |i, q| single[i] = q);
        assert_eq!(ahead, single, "round {round}, {noise:?}");
        assert_eq!(one.get_word_pos(), other.get_word_pos());
        one.get_word_pos() > stream(round).get_word_pos() + 2 * (y.len() + width.len()) as u128
    };
    for round in 0..50 {
        for widths in [false, true] {
            assert!(
                !compare(laplace, -10, round, widths) && !compare(gaussian, -10, round, widths)
            );
        }
    }
    compare(gaussian, -46, 0, false);
    for (round, widths) in MOVED {
        assert!(compare(laplace, -46, round, widths), "no refinement took words of its own");
    }
}

#[test]
fn values_have_the_same_bits_on_any_number_of_threads() {
    let (y, _) = ramp(410);
    let compare = |noise, exponent, round| {
        let grid = Grid::new(exponent).unwrap();
        let (mut steps, mut expected) = (vec![0; y.len()], stream(round));
        release(&mut expected, &y, &[], noise, grid, &mut steps).unwrap();
        let bits: Vec<u64> = steps.iter().map(|q| grid.value(*q).to_bits()).collect();
        for threads in [1, 3] {
            let (mut out, mut rng) = (vec![0.0; y.len()], stream(round));
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let of = Release { y: &y, width: &[], noise, grid, slack: 0.0 };
            pool.install(|| ahead::release_values(&mut rng, of, BLOCK * LANES, &mut out));
            assert_eq!(
                out.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
                bits,
                "{threads} threads, round {round}"
            );
            assert_eq!(rng.get_word_pos(), expected.get_word_pos());
        }
    };
    for round in 0..5 {
        compare(Noise::Laplace { scale: 1.0 }, -10, round);
        compare(Noise::Gaussian { sigma: 1.0 }, -10, round);
    }
    // Segments after the first begin in the wrong place, and are done again.
    compare(Noise::Laplace { scale: 1.0 }, -46, MOVED[0].0);
}

#[test]
fn a_word_becomes_the_nearest_number() {
    let mut rng = stream(77);
    let edges = [
        0,
        1,
        u64::MAX,
        1 << 53,
        (1 << 53) + 1,
        (1 << 54) + 2,
        (1 << 54) + 6,
        (1 << 63) + 1024,
        u64::MAX - 1023,
    ];
    for word in (0..2_000u32).map(|i| rng.next_u64() >> (i % 64)).chain(edges) {
        assert_eq!(fast::float(word).to_bits(), (word as f64).to_bits(), "{word:#x}");
    }
    for q in [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2_251_799_813_685_247.0,
        -2_251_799_813_685_248.0,
        9_007_199_254_740_992.0,
        -9_007_199_254_740_992.0,
    ] {
        assert_eq!(fast::integers(&[q; LANES]), [q as i64; LANES]);
    }
}
