//! Exact noise: releases whose ε is the ideal one, on a computer.
//!
//! A release of the private number y with uniform width ω ≥ 0 and noise of the given scale is the
//! grid integer
//!
//! > q = ⌊(y + U·ω + noise)/γ + ½⌋,  U uniform on [0, 1),  noise Laplace(b) or N(0, σ²),
//!
//! computed *as if in real arithmetic*: y, ω, b, σ are `f64` taken as the reals they are; U and the
//! noise are real numbers with infinitely many random bits, of which only as many are drawn as the
//! floor needs. γ is a public power of two.
//!
//! # Why ε is exactly the ideal one
//!
//! y + U·ω + noise is the ideal mechanism (the paper's Term A + Term B + Δ, docs/paper.md section
//! 6), over the reals. q is a fixed function of its output, and a function of a private output
//! costs nothing (post-processing). Inverse-CDF noise in `f64` has no such proof: the set of values
//! it can reach depends on y, and an adversary who looks at low bits may learn y whatever ε says
//! (Mironov, 2012).
//!
//! # How
//!
//! 1. One word (64 bits) a coordinate for the noise and one for U; the `fast` module computes the
//!    sum in `f64` together with a proven bound τ on everything unknown: the bits not drawn, the
//!    logarithm, every rounding.
//! 2. If the sum is farther than τ from where the floor jumps, *every* continuation of the bits has
//!    that floor: done.
//! 3. Else (about once in 2²³ Laplace and 2²⁰ Gaussian draws) the `refine` module redoes the
//!    coordinate in interval arithmetic of growing precision, appending words of the same stream
//!    until the floor is certain.
//!
//! So the answer is a pure function of the stream, the same on every machine, and step 2 is an
//! optimisation no test can tell from step 3 (there is a test that tries).
//!
//! # Order of the stream
//!
//! Coordinates go in batches of sixteen. A batch of n takes its noise words (Laplace: n; Gaussian:
//! p = ⌈n/2⌉ radii, then p angles; pair j serves coordinates j and j + p), then n uniform words if
//! there are widths, then whatever its refinements take, in order of coordinate. Words are drawn,
//! and coordinates computed, many batches ahead and on several threads ([`release_values`]); the
//! `ahead` module keeps the order.
//!
//! # What it does not protect
//!
//! - *y itself.* If y was computed in floating point, its sensitivity is that of the floating-point
//!   function; bound it there.
//! - *Timing.* A refinement takes microseconds where a draw takes nanoseconds, and it happens when
//!   the sum is near a jump or a tail. Someone who can time one batch learns, that rarely,
//!   something of low bits that were never released. Release on a fixed schedule if the timing of a
//!   message is observable; batching hides little.
//! - *The generator.* ε is that of ideal bits, up to an adversary who can break ChaCha12.
//! - *The range check*: whether |y| fits depends on y, so bound y by public clipping first; then
//!   the check cannot fail.
//!
//! # Example
//!
//! ```
//! use consenso_dp::exact::{Grid, Noise, release};
//! use consenso_dp::random::{Purpose, Seed};
//!
//! let noise = Noise::Laplace { scale: 0.5 };
//! let grid = Grid::for_scale(noise.scale())?;
//! let mut rng = Seed::from(7).stream(Purpose::Release, 0, 0);
//! let mut steps = [0; 2];
//! release(&mut rng, &[1.0, -1.0], &[0.1, 0.0], noise, grid, &mut steps)?;
//! let sent = steps.map(|q| grid.value(q));
//! assert!((sent[0] - 1.0).abs() < 20.0);
//! # Ok::<(), consenso_dp::exact::NoiseError>(())
//! ```

mod ahead;
mod fast;
mod gaussian;
mod laplace;
mod refine;
mod sampler;

pub use sampler::Sampler;

use crate::random::Stream;
use ahead::Ahead;
use fast::{Batch, Block, Drawn, LANES, Lanes, QUIET, Scales};
use rand::Rng;
use refine::{Bits, Coordinate};
use thiserror::Error;

/// 2⁵³: every integer up to it is an `f64`.
pub(crate) const LARGEST_STEP: i64 = 1 << 53;
/// Steps of noise kept free beside y and ω, in scales: a tail beyond it (less than 2⁻⁹⁰) is
/// clamped.
const TAIL_SCALES: f64 = 64.0;
/// A grid has this many times 2 (or up to twice that) steps a scale, by exponent.
const STEPS_PER_SCALE_LOG2: i32 = 10;
/// How many batches have their words drawn together: enough that asking for them costs little, few
/// enough for the fastest memory.
const BLOCK: usize = 8;
/// Grid exponents for which every scaled value is either exact or negligible and nothing overflows.
const EXPONENTS: std::ops::RangeInclusive<i32> = -960..=960;

/// Why a release was refused. Nothing was drawn and nothing was written.
///
/// Values of y are private and appear in no message.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum NoiseError {
    /// A scale that is not a positive finite number.
    #[error("noise scale is {scale}; it must be a positive finite number")]
    Scale {
        /// The scale given.
        scale: f64,
    },
    /// A scale or step too extreme for exact `f64` steps.
    #[error("grid step 2^{exponent} is outside 2^-960..2^960; measure the problem in other units")]
    Exponent {
        /// The exponent of the step.
        exponent: i32,
    },
    /// Slices of different lengths.
    #[error(
        "{coordinates} coordinates but {widths} widths and room for {outputs} results; give as many of each (or no widths)"
    )]
    Lengths {
        /// Length of y.
        coordinates: usize,
        /// Length of the widths.
        widths: usize,
        /// Length of the output.
        outputs: usize,
    },
    /// A private coordinate is NaN or infinite.
    #[error("coordinate {index} of the message is not finite; the step before it diverged")]
    NotFinite {
        /// Which coordinate.
        index: usize,
    },
    /// An interval width is negative, NaN or infinite.
    #[error("width of coordinate {index} is {width}; it must be finite and not negative")]
    Width {
        /// Which coordinate.
        index: usize,
        /// Its width.
        width: f64,
    },
    /// Noise that the ends of an edge share, before they have agreed on its secret.
    #[error("an edge whose ends have not agreed on a secret; nothing may be released before")]
    NoSecret,
    /// The result would not fit.
    #[error(
        "coordinate {index} needs more than 2^53 grid steps of {step:e}: |y| + width must stay below {limit:e} at \
         noise scale {scale:e}; clip the message or choose a coarser grid"
    )]
    Range {
        /// Which coordinate.
        index: usize,
        /// The grid step γ.
        step: f64,
        /// The noise scale.
        scale: f64,
        /// What |y| + ω must stay below.
        limit: f64,
    },
}

/// The ideal noise of a release.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Density e^(−|x|/b)/(2b). The paper's rate is β = 1/b.
    Laplace {
        /// b.
        scale: f64,
    },
    /// N(0, σ²): releasing a number of sensitivity Δ is exactly (Δ/σ)-GDP.
    Gaussian {
        /// σ.
        sigma: f64,
    },
}

impl Noise {
    /// b or σ.
    #[must_use]
    pub fn scale(self) -> f64 {
        match self {
            Self::Laplace { scale } | Self::Gaussian { sigma: scale } => scale,
        }
    }
}

/// The multiples of γ = 2^exponent, on which releases live.
///
/// Any γ is as private as any other. A fine one costs range and a little speed, a coarse one
/// accuracy. [`Grid::for_scale`] takes γ ∈ (scale/2¹¹, scale/2¹⁰]: rounding adds γ²/12 to a
/// variance of at least scale², less than one part in 10⁷, and leaves 2⁴² scales of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    exponent: i32,
}

impl Grid {
    /// The grid of step 2^exponent.
    ///
    /// # Errors
    /// [`NoiseError::Exponent`] outside −960..=960.
    pub fn new(exponent: i32) -> Result<Self, NoiseError> {
        if EXPONENTS.contains(&exponent) {
            Ok(Self { exponent })
        } else {
            Err(NoiseError::Exponent { exponent })
        }
    }

    /// The grid for noise of this scale; it depends on nothing else, so it is as public as the
    /// scale.
    ///
    /// # Errors
    /// [`NoiseError::Scale`] if it is not positive and finite, [`NoiseError::Exponent`] if it is
    /// below 2⁻⁹⁵⁰ or at least 2⁹⁷¹.
    pub fn for_scale(scale: f64) -> Result<Self, NoiseError> {
        if !(scale > 0.0 && scale.is_finite()) {
            return Err(NoiseError::Scale { scale });
        }
        // The biased exponent is ⌊log₂ scale⌋ + 1023, or 0 for a subnormal, which is out of range
        // either way.
        let exponent = (scale.to_bits() >> 52) as i32 - 1023 - STEPS_PER_SCALE_LOG2;
        Self::new(exponent)
    }

    /// log₂ γ.
    #[must_use]
    pub fn exponent(self) -> i32 {
        self.exponent
    }

    /// γ.
    #[must_use]
    pub fn step(self) -> f64 {
        power_of_two(self.exponent)
    }

    /// q·γ, exact for the |q| ≤ 2⁵³ a release returns.
    #[must_use]
    pub fn value(self, q: i64) -> f64 {
        q as f64 * self.step()
    }
}

/// 2^e for a normal exponent.
fn power_of_two(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// Writes ⌊(y + U·ω + noise)/γ + ½⌋ for each coordinate to `out`; see the module for what that
/// means and why it is private.
///
/// `width` holds ω for each coordinate, or nothing for a release without a uniform point (no bits
/// are drawn for it then). Does not allocate but to refine.
///
/// # Errors
/// [`NoiseError`] for slices that do not match, a bad scale, a coordinate or width that is not
/// finite or does not fit in 2⁵³ steps together with 64 scales of noise. Checked before the first
/// draw.
pub fn release(
    rng: &mut impl Rng,
    y: &[f64],
    width: &[f64],
    noise: Noise,
    grid: Grid,
    out: &mut [i64],
) -> Result<(), NoiseError> {
    check(y, width, noise, grid, out.len())?;
    release_checked(rng, Release { y, width, noise, grid, slack: 0.0 }, out);
    Ok(())
}

fn check(
    y: &[f64],
    width: &[f64],
    noise: Noise,
    grid: Grid,
    outputs: usize,
) -> Result<(), NoiseError> {
    let scale = noise.scale();
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(NoiseError::Scale { scale });
    }
    if outputs != y.len() || !(width.is_empty() || width.len() == y.len()) {
        return Err(NoiseError::Lengths { coordinates: y.len(), widths: width.len(), outputs });
    }
    // Some steps are left over for the rounding of this very comparison. A scale too large for the
    // grid makes the limit negative.
    let limit = (LARGEST_STEP - 64) as f64 * grid.step() - TAIL_SCALES * scale;
    let fits = if width.is_empty() {
        y.iter().all(|y| y.abs() < limit)
    } else {
        y.iter().zip(width).all(|(y, &w)| w >= 0.0 && y.abs() + w < limit)
    };
    if fits { Ok(()) } else { Err(explain(y, width, scale, grid, limit)) }
}

/// Which coordinate does not fit, and why.
#[cold]
fn explain(y: &[f64], width: &[f64], scale: f64, grid: Grid, limit: f64) -> NoiseError {
    for (index, y) in y.iter().enumerate() {
        let width = width.get(index).copied().unwrap_or(0.0);
        if !(width >= 0.0 && width.is_finite()) {
            return NoiseError::Width { index, width };
        }
        if !y.is_finite() {
            return NoiseError::NotFinite { index };
        }
        if y.abs() + width >= limit {
            return NoiseError::Range { index, step: grid.step(), scale, limit };
        }
    }
    unreachable!("only called for a coordinate that failed one of these")
}

/// Adds noise to each coordinate as [`release`] does without widths, and writes the values it
/// releases, multiples of γ, instead of their numbers of steps: the same bits from the same stream,
/// on as many threads as rayon has.
///
/// # Errors
/// As [`release`].
pub fn release_values(
    rng: &mut Stream,
    y: &[f64],
    noise: Noise,
    grid: Grid,
    out: &mut [f64],
) -> Result<(), NoiseError> {
    check(y, &[], noise, grid, out.len())?;
    ahead::release_values(
        rng,
        Release { y, width: &[], noise, grid, slack: 0.0 },
        ahead::SEGMENT,
        out,
    );
    Ok(())
}

/// What is released, after its checks.
#[derive(Clone, Copy)]
struct Release<'a> {
    y: &'a [f64],
    /// ω for each coordinate, or nothing.
    width: &'a [f64],
    noise: Noise,
    grid: Grid,
    /// Widens the bound τ, for tests of the refinement.
    slack: f64,
}

impl<'a> Release<'a> {
    /// So many of its coordinates, from `start` on.
    #[inline(always)]
    fn part(self, start: usize, n: usize) -> Self {
        let width = if self.width.is_empty() { self.width } else { &self.width[start..][..n] };
        Self { y: &self.y[start..][..n], width, ..self }
    }

    /// Batches of it, with the place of each.
    #[inline(always)]
    fn batches(self) -> impl Iterator<Item = (usize, Self)> {
        (0..self.y.len())
            .step_by(LANES)
            .map(move |start| (start, self.part(start, LANES.min(self.y.len() - start))))
    }

    #[inline(always)]
    fn scales(self) -> Scales {
        let unscale = power_of_two(-self.grid.exponent);
        Scales {
            gaussian: matches!(self.noise, Noise::Gaussian { .. }),
            unscale,
            scale: self.noise.scale() * unscale,
            slack: self.slack,
        }
    }
}

/// [`release`] after its checks.
fn release_checked(rng: &mut impl Rng, of: Release<'_>, out: &mut [i64]) {
    let start = if out.len() >= 3 * LANES { blocks(rng, of, out) } else { 0 };
    batches(rng, of.part(start, out.len() - start), |i, q| out[start + i] = q);
}

/// All full batches, where there are several; returns how many coordinates they have. Apart,
/// because a short release needs no room for it.
#[inline(never)]
fn blocks(rng: &mut impl Rng, of: Release<'_>, out: &mut [i64]) -> usize {
    let (mut bytes, mut rounded) = (NO_WORDS, [[0.0; LANES]; BLOCK]);
    let out = out.as_chunks_mut().0;
    for (i, out) in out.chunks_mut(BLOCK).enumerate() {
        let rounded = &mut rounded[..out.len()];
        block(rng, of.part(i * BLOCK * LANES, out.len() * LANES), &mut bytes, 1.0, rounded);
        for (out, q) in out.iter_mut().zip(rounded) {
            *out = fast::integers(q);
        }
    }
    out.len() * LANES
}

/// The words of a block.
type BlockWords = [[[u8; 8]; LANES]; 2 * BLOCK];
const NO_WORDS: BlockWords = [[[0; 8]; LANES]; 2 * BLOCK];

/// Full batches whose words are drawn together and, unless one has to be refined, rounded together:
/// what [`batches`] makes of them, times `step`.
fn block(
    rng: &mut impl Rng,
    of: Release<'_>,
    bytes: &mut BlockWords,
    step: f64,
    out: &mut [Lanes],
) {
    let bytes = &mut bytes[..if of.width.is_empty() { 1 } else { 2 } * out.len()];
    rng.fill_bytes(bytes.as_flattened_mut().as_flattened_mut());
    let decided = arch().dispatch(Block {
        scales: of.scales(),
        words: bytes,
        y: of.y.as_chunks().0,
        width: of.width.as_chunks().0,
        step,
        out,
    });
    if !decided {
        // A refinement takes the words that were meant for the batches after it: here it goes one
        // batch after the other.
        let mut rng = Ahead { drawn: bytes.as_flattened().as_flattened(), rng };
        let out = out.as_flattened_mut();
        batches(&mut rng, of, |i, q| out[i] = q as f64 * step);
    }
}

/// Batch after batch, each with the words that it takes from the stream.
fn batches(rng: &mut impl Rng, of: Release<'_>, mut put: impl FnMut(usize, i64)) {
    let arch = arch();
    let scales = of.scales();
    for (start, of) in of.batches() {
        let n = of.y.len();
        let drawn = draw(rng, n, of.noise, !of.width.is_empty());
        let (rounded, undecided) =
            arch.dispatch(Batch { scales, drawn: &drawn, y: of.y, width: of.width });
        let mut steps = fast::integers(&rounded);
        if undecided[..n].contains(&true) {
            refine_batch(rng, of, &drawn, undecided, &mut steps[..n]);
        }
        for (lane, q) in steps[..n].iter().enumerate() {
            put(start + lane, *q);
        }
    }
}

#[inline(always)]
fn draw(rng: &mut impl Rng, n: usize, noise: Noise, with_uniform: bool) -> Drawn {
    let mut drawn = Drawn { noise: [QUIET; LANES], angle: [QUIET; LANES], uniform: [QUIET; LANES] };
    let (radii, angles) = match noise {
        Noise::Laplace { .. } => (n, 0),
        Noise::Gaussian { .. } => (n.div_ceil(2), n.div_ceil(2)),
    };
    let uniforms = if with_uniform { n } else { 0 };
    // All words at once: asking for one at a time costs as much as making them.
    let mut bytes = [0; 3 * 8 * LANES];
    let bytes = &mut bytes[..8 * (radii + angles + uniforms)];
    rng.fill_bytes(bytes);
    let (noise, rest) = bytes.as_chunks().0.split_at(radii);
    let (angle, uniform) = rest.split_at(angles);
    let all = [(&mut drawn.noise, noise), (&mut drawn.angle, angle), (&mut drawn.uniform, uniform)];
    for (words, bytes) in all {
        for (word, bytes) in words.iter_mut().zip(bytes) {
            *word = u64::from_le_bytes(*bytes);
        }
    }
    drawn
}

/// Decides what the fast path could not.
#[cold]
fn refine_batch(
    rng: &mut impl Rng,
    of: Release<'_>,
    drawn: &Drawn,
    undecided: [bool; LANES],
    out: &mut [i64],
) {
    let n = out.len();
    let open = |i: usize| {
        (i < n && undecided[i]).then(|| Coordinate {
            y: of.y[i],
            width: of.width.get(i).copied().unwrap_or(0.0),
            uniform: (!of.width.is_empty()).then(|| Bits::new(drawn.uniform[i], 64)),
            grid: of.grid,
        })
    };
    match of.noise {
        Noise::Laplace { scale } => {
            for (i, out) in out.iter_mut().enumerate() {
                if let Some(at) = open(i) {
                    *out = laplace::refine(rng, drawn.noise[i], scale, at);
                }
            }
        }
        Noise::Gaussian { sigma } => {
            let pairs = n.div_ceil(2);
            for j in 0..pairs {
                let words = [drawn.noise[j], drawn.angle[j]];
                let decided = gaussian::refine(rng, words, sigma, [open(j), open(j + pairs)]);
                for (i, q) in
                    [j, j + pairs].into_iter().zip(decided).filter_map(|(i, q)| Some((i, q?)))
                {
                    out[i] = q;
                }
            }
        }
    }
}

/// The lanes that noise is drawn on: AVX2 at most.
fn arch() -> pulp::Arch {
    #[cfg(target_arch = "x86_64")]
    return pulp::x86::V3::try_new().map_or(pulp::Arch::Scalar, pulp::Arch::V3);
    #[cfg(not(target_arch = "x86_64"))]
    pulp::Arch::new()
}

#[cfg(test)]
mod tests;
