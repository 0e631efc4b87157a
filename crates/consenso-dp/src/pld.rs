//! The privacy loss distribution: the tightest of the fixed-schedule accountants.
//!
//! One release with dominating pair (P, Q) has the loss `L = ln(P/Q)` under P, and
//! `δ(ε) = E(1 − e^{ε−L})₊`. Losses of independent releases add, so the composition is a
//! convolution. What makes it an upper bound, step by step:
//!
//! 1. **Connect the dots** (Doroshenko et al. 2022). Loss mass between two points of the grid
//!    `{jΔ}` is split between them so that both its P-mass and its Q-mass `E e^{−L}` stay what they
//!    were. `δ` is an average of convex functions of `e^{−L}`, so by Jensen no δ(ε) falls, in this
//!    release or in any composition with it. Laplace and randomised response have losses with atoms
//!    at ±ε and (Laplace) the density `¼e^{(ℓ−ε)/2}` between, and the split has a closed form
//!    without cancellation. Gaussians are not put on the grid at all: they merge into one, and
//!    `δ(ε) = E δ_gauss(ε − L_rest)` exactly.
//! 2. **Tilting.** The convolution is done for the masses `p_j e^{θjΔ}/M(θ)` with θ + 1 the best
//!    Rényi order, so that the part of the distribution that decides δ sits in the middle and
//!    rounding is relative to it, not to 1.
//! 3. **Frequencies in closed form.** The tilted masses of one release are four points and a
//!    geometric sequence, so their discrete Fourier transform is a few operations a frequency: no
//!    forward FFT, no array a release. Identical releases are a power; distinct ones a product,
//!    left as soon as it is below any consequence.
//!    Sampled releases have no closed form: theirs is a table of masses ([`sampled`]) and a forward
//!    transform. What is sampled has two directions, composed apart; the larger ε counts.
//! 4. **Window.** The inverse FFT gives the distribution modulo its length: mass outside lands
//!    inside and only adds. What left the window is also charged to δ, by a Chernoff bound on the
//!    tilted distribution.
//! 5. **Rounding** of coefficients, products and FFT is bounded and charged to δ (`Charges`).
//!
//! The grid is chosen so that the split adds about 1e-5 of the loss's own variance, so ε is within
//! about 1e-5 (relative) of the true optimum; Google's dp-accounting on a finer grid is the golden
//! reference of the tests.

use super::compose::{Bound, Profile};
use super::error::check_delta;
use super::normal::gaussian_delta;
use super::round::UNIT;
use super::sampled::{MASS_ERROR, Table};
use super::{AccountingError, basic, gdp, rdp, sampled};
use rayon::prelude::*;
use realfft::RealFftPlanner;
use realfft::num_complex::Complex64;
use std::f64::consts::TAU;

/// Relative excess variance aimed at when choosing the grid.
const GRID_TOLERANCE: f64 = 4e-5;
/// The window leaves out at most this much tilted mass on each side.
const WINDOW_TAIL: f64 = 1e-13;
/// Longest transform; a longer one coarsens the grid instead.
const MAX_LENGTH: usize = 1 << 22;
/// Error of one normalised frequency value of one release, in absolute terms, and relative error of
/// its coefficients. Each is a sum of six terms of total size below 3, made of fewer than ten
/// rounded operations each.
const RELEASE_ERROR: f64 = 64.0 * UNIT;
/// Largest tilt across one cell; more would only separate losses the grid cannot.
const MAX_TILT: f64 = 16.0;
/// The share of δ that losses beyond the tables of sampled releases may take.
const TABLE_TAIL: f64 = 1e-7;
/// Above this sampling rate a release is also priced as if it drew every record.
const NEARLY_ALL: f64 = 0.9;
/// A product of frequencies below this is taken as zero; far below the rounding charge.
const NEGLIGIBLE: f64 = 1e-24;

/// ε at `delta` from the privacy loss distribution of Laplace, Gaussian and ε-DP events.
///
/// # Errors
/// `delta` outside (0, 1).
pub fn epsilon(profile: &Profile, delta: f64) -> Result<Bound, AccountingError> {
    check_delta(delta)?;
    if let Some(refusal) = profile.not_fixed() {
        return Ok(refusal);
    }
    if profile.rho > 0.0 {
        return Ok(Bound::not_valid("a zCDP event declares no privacy loss distribution"));
    }
    if profile.pure_groups().next().is_none() && profile.sampled.is_empty() {
        let mu = profile.gaussian_mu_squared.sqrt().next_up();
        return Ok(Bound::rounded_up(gdp::epsilon_of_mu(mu, delta)));
    }
    // Without Gaussians the loss never exceeds the sum of ε, whatever δ.
    let ceiling = if profile.not_pure().is_some() { f64::INFINITY } else { basic::sum(profile) };
    let mut largest = 0.0;
    for direction in 0..profile.directions() {
        let Some(distribution) = LossDistribution::compose(profile, direction, delta) else {
            return Ok(Bound::not_valid("the losses are too large for floating point"));
        };
        match distribution.epsilon(delta, ceiling) {
            Some(epsilon) => largest = f64::max(largest, epsilon),
            None => return Ok(Bound::not_valid("the charge for rounding exceeds δ")),
        }
    }
    if profile.sampled.iter().any(|s| s.rate > NEARLY_ALL) {
        // Drawing every record costs at least as much, and is known without a grid.
        let whole = epsilon(&profile.as_whole_releases(), delta)?;
        largest = whole.value().map_or(largest, |whole| largest.min(whole));
    }
    Ok(Bound::rounded_up(largest))
}

/// The composed loss of all releases but the Gaussian ones on a grid, tilted, ready to answer δ(ε).
#[derive(Debug)]
pub(crate) struct LossDistribution {
    spacing: f64,
    tilt: f64,
    /// Grid index of `masses[0]`.
    first: i64,
    /// Tilted masses; their sum is 1 up to rounding and the window.
    masses: Vec<f64>,
    /// Suffix sums of `masses·e^{−θ(l−l_j)}` and of the same times `e^{−(l−l_j)}`, for evaluation
    /// without Gaussians.
    suffix: Vec<(f64, f64)>,
    charges: Charges,
    gaussian_mu: f64,
}

/// What is added to the computed δ.
#[derive(Debug, Clone, Copy)]
struct Charges {
    /// ln M(θ): the tilted masses stand for `M(θ)·e^{−θl}` times themselves; rounded up.
    ln_scale: f64,
    /// Additive error in units of `M(θ)·M_gauss(θ)·e^{−θε}`: window and rounding of the transform.
    additive: f64,
    /// Relative error of the coefficients.
    relative: f64,
    /// Mass whose loss is taken for infinite.
    absolute: f64,
}

impl LossDistribution {
    /// Composes the Laplace, ε-DP and sampled events of `profile`, tilted for questions near
    /// `delta`; sampled ones in one of their directions. `None` if it overflows.
    pub(crate) fn compose(profile: &Profile, direction: usize, delta: f64) -> Option<Self> {
        let grid = Grid::choose(profile, direction, delta)?;
        let mut transform = grid.product_of_frequencies();
        grid.multiply_by_tables(&mut transform);
        let masses = inverse(&transform, grid.length, grid.first);
        let mut distribution = Self {
            spacing: grid.spacing,
            tilt: grid.tilt,
            first: grid.first,
            masses,
            suffix: Vec::new(),
            charges: grid.charges(&transform, profile.has_gaussian()),
            gaussian_mu: profile.gaussian_mu_squared.sqrt().next_up(),
        };
        if !profile.has_gaussian() {
            distribution.gaussian_mu = 0.0;
            distribution.sum_suffixes();
        }
        Some(distribution)
    }

    fn loss(&self, position: usize) -> f64 {
        (self.first + position as i64) as f64 * self.spacing
    }

    fn sum_suffixes(&mut self) {
        let (fall, steeper) =
            ((-self.tilt * self.spacing).exp(), (-(self.tilt + 1.0) * self.spacing).exp());
        self.suffix = vec![(0.0, 0.0); self.masses.len() + 1];
        for (position, mass) in self.masses.iter().enumerate().rev() {
            let (above, above_weighted) = self.suffix[position + 1];
            self.suffix[position] = (mass + above * fall, mass + above_weighted * steeper);
        }
    }

    /// An upper bound on δ at `epsilon`.
    pub(crate) fn delta(&self, epsilon: f64) -> f64 {
        let unit =
            (self.charges.ln_scale - self.tilt * epsilon + 4.0 * UNIT * self.tilt * epsilon).exp();
        let computed =
            if self.gaussian_mu > 0.0 { self.smoothed(epsilon) } else { self.plain(epsilon) };
        let additive = self.charges.additive * self.gaussian_moment();
        let finite = unit * (computed + additive) * (1.0 + self.charges.relative);
        (finite + self.charges.absolute).min(1.0)
    }

    /// `E e^{θL}` of the Gaussian part, rounded up.
    fn gaussian_moment(&self) -> f64 {
        let exponent = 0.5 * self.gaussian_mu * self.gaussian_mu * self.tilt * (self.tilt + 1.0);
        (exponent * (1.0 + 8.0 * UNIT)).exp() * (1.0 + 4.0 * UNIT)
    }

    /// `Σ_{l > ε} p̃ e^{−θ(l−ε)}(1 − e^{ε−l})`, from the suffix sums.
    fn plain(&self, epsilon: f64) -> f64 {
        let position = (epsilon / self.spacing).floor() - self.first as f64 + 1.0;
        let position = position.clamp(0.0, self.masses.len() as f64) as usize;
        let (mass, weighted) = self.suffix[position];
        if mass == 0.0 {
            // Far above every loss, where the factor below would overflow.
            return 0.0;
        }
        let gap = self.loss(position) - epsilon;
        // Each suffix sum is off by at most a few units of rounding a step; their difference lays
        // that bare, so it is added.
        let rounding = 8.0 * UNIT * (self.masses.len() as f64 + 16.0);
        let factor = (-self.tilt * gap).exp();
        factor * ((mass - (-gap).exp() * weighted).max(0.0) + rounding * mass)
    }

    /// `Σ_l p̃ e^{−θ(l−ε)} δ_gauss(ε − l)`.
    fn smoothed(&self, epsilon: f64) -> f64 {
        // Chernoff: the weight is at most the Gaussian's moment. That also stands in where a factor
        // over- or underflows.
        let moment = self.gaussian_moment();
        let terms = self.masses.iter().enumerate().filter(|(_, mass)| **mass > NEGLIGIBLE);
        let sum: f64 = terms
            .map(|(position, mass)| {
                let rest = epsilon - self.loss(position);
                mass * moment.min((self.tilt * rest).exp() * gaussian_delta(self.gaussian_mu, rest))
            })
            .sum();
        sum * (1.0 + UNIT * self.masses.len() as f64)
    }

    /// The smallest ε with δ(ε) ≤ `delta`, the upper end of a bracket; at most `ceiling`. `None` if
    /// there is none.
    fn epsilon(&self, delta: f64, ceiling: f64) -> Option<f64> {
        let accept = |epsilon: f64| self.delta(epsilon) <= delta;
        if accept(0.0) {
            return Some(0.0);
        }
        let top = self.loss(self.masses.len()) + self.gaussian_mu * (self.gaussian_mu + 40.0);
        let mut high = top.min(ceiling);
        if !accept(high) {
            return ceiling.is_finite().then_some(ceiling);
        }
        let mut low = 0.0;
        // ln δ is close to linear in ε near the answer: false position on it, with a bisection
        // whenever it stalls.
        let value = |epsilon: f64| self.delta(epsilon).max(f64::MIN_POSITIVE).ln() - delta.ln();
        let (mut at_low, mut at_high) = (value(low), value(high));
        for turn in 0..200 {
            if high - low <= 1e-10 * high {
                break;
            }
            let slope_point = high - at_high * (high - low) / (at_high - at_low);
            let middle = match turn % 3 {
                2 => 0.5 * (low + high),
                // A step of a billionth to either side closes the bracket around the root from both
                // ends.
                0 => slope_point * (1.0 + 2e-11),
                _ => slope_point * (1.0 - 2e-11),
            };
            let middle = if middle > low && middle < high { middle } else { 0.5 * (low + high) };
            let found = value(middle);
            if found <= 0.0 {
                (high, at_high) = (middle, found);
            } else {
                (low, at_low) = (middle, found);
            }
        }
        Some(high)
    }
}

/// One group of identical releases on the grid: where its atoms fall and how its mass is split.
#[derive(Debug, Clone, Copy)]
struct Release {
    count: u64,
    /// Grid cell `[cell·Δ, (cell+1)·Δ]` that holds +ε.
    cell: i64,
    /// P-mass at `cell + 1` and at `cell`; at the mirrored points it is `e^{−loss}` times as much.
    upper: f64,
    lower: f64,
    /// `e^{−ε/2}` for Laplace, whose density fills the cells between; 0 for randomised response.
    density: f64,
    /// `ε − cell·Δ`.
    rest: f64,
}

impl Release {
    fn new(epsilon: f64, count: u64, spacing: f64, laplace: bool) -> Self {
        let cell = (epsilon / spacing).floor();
        let mut rest = (-cell).mul_add(spacing, epsilon);
        let mut cell = cell as i64;
        if rest < 0.0 {
            (cell, rest) = (cell - 1, (-(cell as f64 - 1.0)).mul_add(spacing, epsilon));
        }
        let rest = rest.clamp(0.0, spacing);
        let width = -(-spacing).exp_m1();
        let share_up = -(-rest).exp_m1() / width;
        let share_down = (-rest).exp() * -(-(spacing - rest)).exp_m1() / width;
        if !laplace {
            let atom = 1.0 / (1.0 + (-epsilon).exp());
            return Self {
                count,
                cell,
                upper: atom * share_up,
                lower: atom * share_down,
                density: 0.0,
                rest,
            };
        }
        // The density between cell·Δ and ε, split the same way.
        let part = -(-rest / 2.0).exp_m1();
        let part_up = 0.5 * part * part / width;
        let part_down =
            0.5 * part * (-rest / 2.0).exp() * -(-(spacing - rest / 2.0)).exp_m1() / width;
        let (upper, lower) = (0.5 * share_up + part_up, 0.5 * share_down + part_down);
        Self { count, cell, upper, lower, density: (-epsilon / 2.0).exp(), rest }
    }

    /// The tilted, normalised coefficients at tilt θ.
    fn tilted(&self, spacing: f64, tilt: f64) -> Tilted {
        let cell = self.cell as f64 * spacing;
        let next = cell + spacing;
        // Everything relative to the tilt at the upper point, so that nothing overflows.
        let lower_factor = (-tilt * spacing).exp();
        let mirrored = |loss: f64| (-loss - tilt * (loss + next)).exp();
        let (upper, lower) = (self.upper, self.lower * lower_factor);
        let (mirror_lower, mirror_upper) =
            (self.lower * mirrored(cell), self.upper * mirrored(next));
        let (mut rise, mut fall, mut filled) = (0.0, 0.0, 0.0);
        if self.density > 0.0 {
            let growth = (0.5 + tilt) * spacing;
            rise = (-self.rest / 2.0).exp() * lower_factor;
            fall = rise * (-2.0 * self.cell as f64 * growth).exp();
            // Σ over the full cells at frequency zero, in a form that does not cancel.
            let cells = -(-2.0 * self.cell as f64 * growth).exp_m1();
            filled = rise * cells * 0.5 * (spacing / 4.0).tanh() / (growth / 2.0).tanh();
        }
        let total = upper + lower + mirror_lower + mirror_upper + filled;
        Tilted {
            count: self.count,
            cell: self.cell,
            upper: upper / total,
            lower: lower / total,
            mirror_lower: mirror_lower / total,
            mirror_upper: mirror_upper / total,
            rise: rise / total,
            fall: fall / total,
            ln_moment: tilt * next + total.ln(),
        }
    }
}

/// A release's tilted masses: `upper` at cell+1, `lower` at cell, their mirrors, and `rise`, `fall`
/// times the common factor of the geometric part.
#[derive(Debug, Clone, Copy)]
struct Tilted {
    count: u64,
    cell: i64,
    upper: f64,
    lower: f64,
    mirror_lower: f64,
    mirror_upper: f64,
    rise: f64,
    fall: f64,
    /// ln E e^{θL}.
    ln_moment: f64,
}

impl Tilted {
    /// The transform at the frequency whose root of unity is `omega`, given `omega^cell` and the
    /// geometric factor.
    fn frequency(&self, omega: Complex64, at_cell: Complex64, geometric: Complex64) -> Complex64 {
        let right = omega * self.upper + self.lower + geometric * self.rise;
        let left = omega.conj() * self.mirror_upper + self.mirror_lower - geometric * self.fall;
        at_cell * right + at_cell.conj() * left
    }
}

/// Everything decided before the transform: spacing, tilt, window, coefficients.
struct Grid {
    spacing: f64,
    tilt: f64,
    first: i64,
    length: usize,
    tilted: Vec<Tilted>,
    tables: Vec<Table>,
}

impl Grid {
    fn choose(profile: &Profile, direction: usize, delta: f64) -> Option<Self> {
        let moments = rdp::moments(profile);
        let order = rdp::optimum(profile, &moments, delta).order;
        let variance: f64 = moments
            .iter()
            .zip(&profile.sampled)
            .map(|(m, s)| s.count as f64 * m.variance(direction))
            .sum();
        let mut spacing = choose_spacing(profile, variance);
        let count: f64 = profile.sampled.iter().map(|s| s.count as f64).sum();
        let tail = TABLE_TAIL * delta / count.max(1.0);
        loop {
            if !(spacing > 0.0 && spacing.is_finite()) {
                return None;
            }
            let tilt = (order - 1.0).min(MAX_TILT / spacing);
            let table = |release: &sampled::Sampled| {
                let pair = release.pairs().swap_remove(direction);
                Table::new(&pair, release.count, spacing, tail, MAX_LENGTH)
            };
            let tables: Option<Vec<Table>> = profile.sampled.par_iter().map(table).collect();
            let Some(tables) = tables else {
                spacing *= 2.0;
                continue;
            };
            let releases = releases(profile, spacing);
            let (bottom, top) = window(&releases, &tables, spacing, tilt);
            let cells = ((top - bottom) / spacing).ceil() + 2.0;
            if !cells.is_finite() {
                return None;
            }
            if cells > MAX_LENGTH as f64 {
                spacing *= 2.0;
                continue;
            }
            let length = (cells as usize).next_power_of_two().max(16);
            let tilted = releases.iter().map(|release| release.tilted(spacing, tilt)).collect();
            let first = (bottom / spacing).floor() as i64;
            return Some(Self { spacing, tilt, first, length, tilted, tables });
        }
    }

    /// Multiplies `product` by the transforms of the sampled releases.
    fn multiply_by_tables(&self, product: &mut [Complex64]) {
        if self.tables.is_empty() {
            return;
        }
        let plan = RealFftPlanner::<f64>::new().plan_fft_forward(self.length);
        let (mut folded, mut spectrum) = (plan.make_input_vec(), plan.make_output_vec());
        for table in &self.tables {
            let scale = table.tilted(self.spacing, self.tilt).logarithm;
            folded.fill(0.0);
            for (position, &mass) in table.masses.iter().enumerate().filter(|(_, m)| **m > 0.0) {
                let index = table.first + position as i64;
                let exponent = self.tilt * index as f64 * self.spacing - scale;
                // A mass may be too small for its factor alone.
                let weight = if exponent < 600.0 {
                    mass * exponent.exp()
                } else {
                    (mass.ln() + exponent).exp()
                };
                folded[index.rem_euclid(self.length as i64) as usize] += weight;
            }
            plan.process(&mut folded, &mut spectrum).expect("lengths match by construction");
            let multiply = |(product, factor): (&mut Complex64, &Complex64)| {
                if product.norm_sqr() >= NEGLIGIBLE * NEGLIGIBLE {
                    *product *= power(*factor, table.count);
                }
                if product.norm_sqr() < NEGLIGIBLE * NEGLIGIBLE {
                    *product = Complex64::new(0.0, 0.0);
                }
            };
            product.par_iter_mut().zip(&spectrum).with_min_len(1 << 12).for_each(multiply);
        }
    }

    /// The transform of the composed tilted distribution at frequencies 0 to length/2.
    fn product_of_frequencies(&self) -> Vec<Complex64> {
        let length = self.length;
        let roots: Vec<Complex64> =
            (0..length).map(|k| Complex64::cis(TAU * k as f64 / length as f64)).collect();
        let growth = (0.5 + self.tilt) * self.spacing;
        let (base, base_less_one) = (growth.exp(), growth.exp_m1());
        let factor = 0.5 * (self.spacing / 4.0).tanh();
        let mask = length - 1;
        (0..=length / 2)
            .map(|f| {
                // FFT convention: exp(−2πi f j/n), the conjugate of the root used in `cis`.
                let omega = roots[f].conj();
                let (sine, cosine) = (std::f64::consts::PI * f as f64 / length as f64).sin_cos();
                let omega_less_one = Complex64::new(-2.0 * sine * sine, -2.0 * sine * cosine);
                // (r + 1)/(r − 1), r = base·ω, with r − 1 free of cancellation.
                let geometric =
                    (omega * base + 1.0) / (omega * base_less_one + omega_less_one) * factor;
                let mut product = Complex64::new(1.0, 0.0);
                for release in &self.tilted {
                    let at_cell = roots[(f * (release.cell as usize & mask)) & mask].conj();
                    product *= power(release.frequency(omega, at_cell, geometric), release.count);
                    if product.norm_sqr() < NEGLIGIBLE * NEGLIGIBLE {
                        return Complex64::new(0.0, 0.0);
                    }
                }
                product
            })
            .collect()
    }

    fn charges(&self, transform: &[Complex64], has_gaussian: bool) -> Charges {
        let count: f64 = self.tilted.iter().map(|release| release.count as f64).sum();
        let length = self.length as f64;
        let mut ln_scale = 0.0;
        let mut ln_error = 0.0;
        for release in &self.tilted {
            let top = self.tilt * (release.cell + 1) as f64 * self.spacing;
            ln_scale += release.count as f64 * release.ln_moment;
            // Its own roundings, and one a group for adding it up.
            let adding = self.tilted.len() as f64 * (1.0 + release.ln_moment.abs());
            ln_error += release.count as f64 * UNIT * (4.0 * top + 8.0 + adding);
        }
        let (mut table_error, mut relative, mut absolute) = (0.0, 0.0, 0.0);
        for table in &self.tables {
            let (count, moment) = (table.count as f64, table.tilted(self.spacing, self.tilt));
            let adding = self.tables.len() as f64 * (1.0 + moment.logarithm.abs());
            ln_scale += count * moment.logarithm;
            ln_error += count * (moment.error + UNIT * (8.0 + adding));
            // A forward transform of masses that add up to 1 has an l2 error of this much, which
            // Parseval hands on to the masses as it is.
            table_error += count * 16.0 * UNIT * (length.log2() + 4.0);
            relative += count * (2.0 * MASS_ERROR + moment.error);
            absolute += count * table.infinite * (1.0 + 1e-12);
        }
        // |Π φ̂ − Π φ| ≤ count·error at each frequency since every factor is at most 1 in size; by Parseval that is an
        // l2 error of the masses, which meets weights of l2 norm at most √length, or less where
        // they fall off fast.
        let weights = if has_gaussian {
            length
        } else {
            length.min(1.0 / -(-2.0 * self.tilt * self.spacing).exp_m1())
        };
        let products = (count * RELEASE_ERROR + table_error) * weights.sqrt();
        let energy: f64 = transform.iter().map(|z| 2.0 * z.norm_sqr()).sum();
        let fourier = 16.0 * UNIT * length.log2() * energy.sqrt() * (weights / length).sqrt();
        Charges {
            ln_scale: ln_scale + ln_error,
            additive: 2.0 * WINDOW_TAIL + products + fourier,
            relative: 2.0 * count * RELEASE_ERROR + relative + 1e-13,
            absolute,
        }
    }
}

fn power(base: Complex64, count: u64) -> Complex64 {
    if count == 1 {
        return base;
    }
    let (mut result, mut square, mut rest) = (Complex64::new(1.0, 0.0), base, count);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= square;
        }
        square *= square;
        rest >>= 1;
    }
    result
}

/// The spacing at which the split adds [`GRID_TOLERANCE`] of the loss's variance.
///
/// An unaligned atom gains a variance of up to Δ²/4, Δ²/6 on average. With a single ε the atoms lie
/// on the grid and only the density between them, of mass about ε/2, is split.
///
/// Sampled releases have the variance `sampled` together.
fn choose_spacing(profile: &Profile, sampled: f64) -> f64 {
    let mut variance = profile.gaussian_mu_squared + sampled;
    let (mut count, mut sum) = (0.0, 0.0);
    for (epsilon, times) in profile.pure_groups() {
        variance += times as f64 * epsilon * epsilon.min(2.0);
        count += times as f64;
        sum += times as f64 * epsilon;
    }
    if !profile.sampled.is_empty() {
        count += profile.sampled.iter().map(|s| s.count as f64).sum::<f64>();
        return (6.0 * GRID_TOLERANCE * variance / count).sqrt();
    }
    let groups = profile.laplace.len() + profile.pure.len();
    let only = profile.pure_groups().next().map_or(1.0, |(epsilon, _)| epsilon);
    let split_fraction = if groups == 1 { (only / 2.0).min(1.0) } else { 1.0 };
    let spacing =
        (6.0 * GRID_TOLERANCE * variance / (count * split_fraction)).sqrt().min(sum / 1024.0);
    if groups == 1 {
        // A hair above, so that ε falls on the upper end of its cell: a hair of mass above ε would
        // be tilted into weight.
        return (only / (only / spacing).ceil().max(4.0)) * (1.0 + 2.0 * f64::EPSILON);
    }
    spacing
}

fn releases(profile: &Profile, spacing: f64) -> Vec<Release> {
    let laplace =
        profile.laplace.iter().map(|&(epsilon, count)| Release::new(epsilon, count, spacing, true));
    let pure =
        profile.pure.iter().map(|&(epsilon, count)| Release::new(epsilon, count, spacing, false));
    laplace.chain(pure).collect()
}

/// Losses outside which the tilted distribution has at most [`WINDOW_TAIL`] on either side.
fn window(releases: &[Release], tables: &[Table], spacing: f64, tilt: f64) -> (f64, f64) {
    let ln_moment = |at: f64| -> f64 {
        let closed: f64 = releases
            .iter()
            .map(|release| release.count as f64 * release.tilted(spacing, at).ln_moment)
            .sum();
        let of_table = |table: &Table| table.count as f64 * table.tilted(spacing, at).logarithm;
        closed + tables.iter().map(of_table).sum::<f64>()
    };
    let symmetric: f64 =
        releases.iter().map(|r| r.count as f64 * (r.cell + 1) as f64 * spacing).sum();
    let ends = |end: fn(&Table) -> i64| -> f64 {
        tables.iter().map(|t| t.count as f64 * end(t) as f64 * spacing).sum()
    };
    let highest = symmetric + ends(|t| (t.first + t.masses.len() as i64).max(0));
    let lowest = symmetric + ends(|t| (-t.first).max(0));
    let mut spread: f64 = releases
        .iter()
        .map(|r| r.count as f64 * ((r.cell + 1) as f64 * spacing).powi(2))
        .sum::<f64>();
    spread += tables
        .iter()
        .map(|t| t.count as f64 * t.tilted(spacing, tilt).variance.max(spacing * spacing))
        .sum::<f64>();
    let spread = spread.sqrt();
    let here = ln_moment(tilt);
    let need = -WINDOW_TAIL.ln();
    // For any step: P̃(L ≥ x) ≤ exp(Λ(θ+step) − Λ(θ) − step·x). The Gaussian guess of the best step
    // is √(2·need)/spread; where tables have long tails a much smaller one may be better.
    let reach = |sign: f64, support: f64| -> f64 {
        let guess = (2.0 * need).sqrt() / spread;
        let factors: &[f64] = if tables.is_empty() {
            &[0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0, 8.0]
        } else {
            &[0.002, 0.006, 0.02, 0.06, 0.12, 0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0]
        };
        let bound = |factor: &f64| {
            let step = factor * guess;
            (ln_moment(tilt + sign * step) - here + need) / step
        };
        // What overflows bounds nothing.
        let bounds = factors.iter().map(bound).filter(|bound| !bound.is_nan());
        let smallest = bounds.fold(f64::INFINITY, f64::min);
        // The moments are rounded; a grid step to spare is worth many times their error.
        smallest.min(support) + 2.0 * spacing
    };
    (-reach(-1.0, lowest).min(lowest + spacing), reach(1.0, highest).min(highest + spacing))
}

/// Masses on the window `first..first + length` from the transform at the non-negative frequencies.
fn inverse(transform: &[Complex64], length: usize, first: i64) -> Vec<f64> {
    let mut spectrum = transform.to_vec();
    // A real sequence has real ends; whatever imaginary part rounding left there is error the
    // charge already covers.
    spectrum[0].im = 0.0;
    spectrum[length / 2].im = 0.0;
    let mut masses = vec![0.0; length];
    let plan = RealFftPlanner::<f64>::new().plan_fft_inverse(length);
    plan.process(&mut spectrum, &mut masses).expect("lengths match by construction");
    masses.rotate_left(first.rem_euclid(length as i64) as usize);
    let scale = 1.0 / length as f64;
    masses.iter_mut().for_each(|mass| *mass = (*mass * scale).max(0.0));
    masses
}
