//! The interval mechanism with Gaussian noise: `U[0, ω] + N(0, σ²)` against its shifts by at most
//! `s`.
//!
//! Everything depends on `u = ω/σ` and `v = s/σ`. With `h = u/2` and `y` from the middle of the
//! interval the density is `f(y) = (Φ(y+h) − Φ(y−h))/u`: even and log-concave, `ψ = −ln f` with
//! `0 < ψ'' ≤ 1` and `|y| − h ≤ ψ'(|y|) ≤ |y|`. Facts 1 to 4 of [`mixture`](super::mixture) use
//! nothing but that and hold unchanged: the worst shift is the largest, `D_a` is convex in the
//! shift and non-increasing in the width. Two things differ:
//!
//! - the realised loss is finite but unbounded in the released value;
//! - the uniform part is independent of the shift, so `D_a ≤ a·v²/2`, the cost of the noise alone:
//!   every cost is clamped to it.
//!
//! Quadrature is that of `mixture`, but no tail has a closed form. Beyond `Z = h + κv + T`,
//! `κ = a − ½`, the integrand is below `e^(−χ)` with `χ = aψ(z−v/2) − (a−1)ψ(z+v/2)`; `ψ'' ≤ 1` and
//! `ψ'(y) ≥ y − h` give `χ' ≥ z − h − κv ≥ T`, so the tail is at most `e^(−χ(Z))/T`, which is
//! added.

use super::mixture::{Loss, MixtureError, check, check_order, check_value};
use super::quadrature::Integrals;

const TIGHT: f64 = 2e-12;
/// `e^(−T²/2) ≈ 2e-37`: invisible even beside the second-order cost of a shift of 1e-9.
const REACH: f64 = 13.0;
/// Below this shift the loss is the integral of `ψ'` by Gauss's rule, above it a difference of
/// logarithms.
const SHORT: f64 = 0.25;
const LN_SQRT_TWO_PI: f64 = 0.918_938_533_204_672_8;

/// The 10-point Gauss nodes and weights on [−1, 1], positive half.
const GAUSS: [(f64, f64); 5] = [
    (0.148_874_338_981_631_22, 0.295_524_224_714_752_87),
    (0.433_395_394_129_247_2, 0.269_266_719_309_996_35),
    (0.679_409_568_299_024_4, 0.219_086_362_515_982_04),
    (0.865_063_366_688_984_5, 0.149_451_349_150_580_6),
    (0.973_906_528_517_171_7, 0.066_671_344_308_688_14),
];

/// The density of `U[0, u] + N(0, 1)` and its shifts by at most `v`.
///
/// ```
/// use consenso_dp::gaussian_interval::GaussianInterval;
///
/// let interval = GaussianInterval::new(2.0, 1.0, 0.1)?; // ω, σ, s
/// assert!(interval.renyi(8.0)? < 8.0 * 0.1 * 0.1 / 2.0); // below the Gaussian mechanism's cost
/// # Ok::<(), consenso_dp::mixture::MixtureError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GaussianInterval {
    u: f64,
    v: f64,
}

impl GaussianInterval {
    /// An interval of width `omega`, Gaussian noise of standard deviation `sigma`, shifts up to
    /// `shift`.
    ///
    /// # Errors
    /// A width or shift that is negative or not finite, a deviation that is not positive, or a
    /// quotient that overflows.
    pub fn new(omega: f64, sigma: f64, shift: f64) -> Result<Self, MixtureError> {
        check(omega, sigma, shift)?;
        Self::from_scaled(omega / sigma, shift / sigma)
    }

    /// The mechanism of scaled width `u = ω/σ` and scaled shift `v = s/σ`.
    ///
    /// # Errors
    /// [`MixtureError::Scale`] unless both are finite and non-negative.
    pub fn from_scaled(u: f64, v: f64) -> Result<Self, MixtureError> {
        if u.is_finite() && v.is_finite() && u >= 0.0 && v >= 0.0 {
            Ok(Self { u, v })
        } else {
            Err(MixtureError::Scale { u, v })
        }
    }

    /// `ln f(x)` for `x` measured from the interval's low end, in units of `σ`.
    pub fn log_density(&self, x: f64) -> f64 {
        let y = (x - 0.5 * self.u).abs();
        -potential(self.u, y)
    }

    /// The realised loss of a value `x` from the interval's low end, in units of `σ`, rounded up.
    pub fn loss(&self, x: f64) -> f64 {
        let z = (x - 0.5 * self.u).abs() + 0.5 * self.v;
        let condition = 2.0 + self.u + z * self.v;
        loss_at(self.u, self.v, z) * (1.0 + 1e-14 + 8.0 * f64::EPSILON * condition)
    }

    /// The Fisher information of `U + N(0, 1)`, rounded up; 1 without an interval.
    pub fn fisher_information(&self) -> f64 {
        fisher_information(self.u)
    }

    /// The Rényi divergence `D_a` of one coordinate, the worst over shifts of at most `v`, rounded
    /// up.
    ///
    /// # Errors
    /// [`MixtureError::Order`] unless `order` is finite and above 1.
    pub fn renyi(&self, order: f64) -> Result<f64, MixtureError> {
        check_order(order)?;
        let mut cost = [0.0];
        renyi_costs(self.u, self.v, &[order], TIGHT, &mut cost);
        Ok(cost[0])
    }
}

/// The realised loss of a released coordinate `y` whose interval, private step included, is
/// `[low, high]`.
///
/// `worst` is infinite unless there is no shift: Gaussian noise has no pure bound.
///
/// # Errors
/// As [`GaussianInterval::new`], and for a value or interval that is not finite or out of order.
pub fn realised_loss(
    low: f64,
    high: f64,
    sigma: f64,
    shift: f64,
    y: f64,
) -> Result<Loss, MixtureError> {
    if !(low.is_finite() && high.is_finite() && low <= high) {
        return Err(MixtureError::Interval { low, high });
    }
    let interval = GaussianInterval::new(high - low, sigma, shift)?;
    check_value(y)?;
    let (above, below) = (y - low, high - y);
    let slack = 2.0 * f64::EPSILON * (above.abs() + below.abs());
    // Only the distance from the middle matters, and the loss grows with it.
    let from_middle = (0.5 * (above - below).abs() + slack) / sigma;
    let worst = if shift > 0.0 { f64::INFINITY } else { 0.0 };
    Ok(Loss { loss: interval.loss(from_middle + 0.5 * interval.u), worst })
}

/// Mills' ratio `R(t) = (1 − Φ(t))/φ(t)`, `t ≥ 0`.
fn mills(t: f64) -> f64 {
    if t < 4.0 {
        let root_half_pi = 1.253_314_137_315_500_3;
        return root_half_pi
            * libm::erfc(t * std::f64::consts::FRAC_1_SQRT_2)
            * libm::exp(0.5 * t * t);
    }
    // Laplace's continued fraction 1/(t + 1/(t + 2/(t + …))).
    let terms = 10 + (900.0 / (t * t)) as u32;
    let mut tail = t;
    for k in (1..=terms).rev() {
        tail = t + f64::from(k) / tail;
    }
    1.0 / tail
}

/// `B(t) = ∫₀^u e^(−tw − w²/2) dw`, `t ≥ 0`: the mass of `[t, t+u]` under a standard normal, over
/// `φ(t)`.
fn beyond(t: f64, u: f64) -> f64 {
    if u * (1.0 + t + u) <= 2.0 {
        let half = 0.5 * u;
        let f = |w: f64| libm::exp(-w * (t + 0.5 * w));
        return half
            * GAUSS
                .iter()
                .map(|&(x, w)| w * (f(half * (1.0 - x)) + f(half * (1.0 + x))))
                .sum::<f64>();
    }
    mills(t) - libm::exp(-u * (t + 0.5 * u)) * mills(t + u)
}

/// The mass of the interval under a standard normal centred at `y < h` from its middle.
fn within(u: f64, y: f64) -> f64 {
    let h = 0.5 * u;
    let scale = std::f64::consts::FRAC_1_SQRT_2;
    0.5 * (libm::erf((h + y) * scale) + libm::erf((h - y) * scale))
}

/// `ψ(y) = −ln f(y)`, `y ≥ 0` from the middle.
fn potential(u: f64, y: f64) -> f64 {
    let t = y - 0.5 * u;
    if u == 0.0 {
        0.5 * t * t + LN_SQRT_TWO_PI
    } else if t >= 0.0 {
        0.5 * t * t + LN_SQRT_TWO_PI - libm::log(beyond(t, u) / u)
    } else {
        -libm::log(within(u, y) / u)
    }
}

/// `ψ'(y)`, odd.
fn slope(u: f64, y: f64) -> f64 {
    let (size, t) = (y.abs(), y.abs() - 0.5 * u);
    if u == 0.0 {
        return y;
    }
    let ends = -libm::expm1(-size * u);
    let value = if t >= 0.0 {
        ends / beyond(t, u)
    } else {
        libm::exp(-0.5 * t * t - LN_SQRT_TWO_PI) * ends / within(u, size)
    };
    value.copysign(y)
}

/// `L(z) = ψ(z+v/2) − ψ(z−v/2)`, `z ≥ 0`.
fn loss_at(u: f64, v: f64, z: f64) -> f64 {
    let half = 0.5 * v;
    if u == 0.0 {
        return z * v;
    }
    if v < SHORT {
        // The complex zeros of f keep at least 2.5 from the real line: on a piece of half length
        // v/2 the Bernstein parameter exceeds 5/half, so three nodes to 0.02 and five to a quarter
        // are exact to rounding.
        let pair = |x: f64| slope(u, z - half * x) + slope(u, z + half * x);
        return if v < 0.02 {
            half * (5.0 / 9.0 * pair(0.774_596_669_241_483_4) + 8.0 / 9.0 * slope(u, z))
        } else {
            let outer = 0.236_926_885_056_189_1 * pair(0.906_179_845_938_664);
            let inner = 0.478_628_670_499_366_5 * pair(0.538_469_310_105_683_1);
            half * (outer + inner + 0.568_888_888_888_888_9 * slope(u, z))
        };
    }
    let outside = z - half - 0.5 * u;
    if outside >= 0.0 {
        // The squares differ by exactly 2v(z − h).
        v * (z - 0.5 * u) - libm::log(beyond(outside + v, u) / beyond(outside, u))
    } else {
        potential(u, z + half) - potential(u, (z - half).abs())
    }
}

/// The Fisher information of `U[0, u] + N(0, 1)`, `2∫₀^∞ fψ'²`, rounded up.
pub fn fisher_information(u: f64) -> f64 {
    if u == 0.0 {
        return 1.0;
    }
    let h = 0.5 * u;
    let mut sums = Integrals::new(1, TIGHT);
    let integrand = |y: f64, out: &mut [f64]| {
        let s = slope(u, y);
        out[0] = libm::exp(-potential(u, y)) * s * s;
    };
    sums.add_graded(REACH, 1.0, &mut |t, out| integrand(h + t, out));
    let deep = h.min(REACH);
    sums.add_graded(deep, 1.0, &mut |r, out| integrand(h - r, out));
    let cut = h - deep;
    let inner = slope(u, cut);
    // Outside, f ≤ φ(t) and ψ' ≤ t + u; inside, ψ' falls towards the middle.
    let normal = libm::exp(-0.5 * REACH * REACH);
    let rest = (REACH + 1.0 + u) * (REACH + 1.0 + u) * normal + inner * inner * cut / u;
    (2.0 * (sums.upper(0) + rest) * (1.0 + 1e-12)).min(1.0)
}

/// Bounds of `D_a(t)/t²` over all `0 < t ≤ v`, one an order, close to `a·I(u)/2` for small `a·v`.
///
/// From fact 4, `D_a ≤ E/(a−1) ≤ a∫₀^∞ m L² S(aL/2) S((a−1)L/2) dz` with `S(x) = sinh(x)/x`.
/// Log-concavity gives `m(z) ≤ f(z)`, and `L ≤ t·ψ'(z + t/2)`, which grows with `t`: the integral
/// at `t = v` with `L = vψ'(z + v/2)` bounds all smaller shifts. Its tail uses `ψ'(h + g) ≤ g + 1`
/// and `S(x) ≤ e^x`; `a/2`, the noise alone, is the ceiling.
pub(super) fn curvature_bounds(u: f64, v: f64, orders: &[f64], bounds: &mut [f64]) {
    let h = 0.5 * u;
    let mut sums = Integrals::new(orders.len(), 1e-8);
    let sinhc = |x: f64| if x > 1e-6 { libm::sinh(x) / x } else { 1.0 + x * x };
    let integrand = |z: f64, out: &mut [f64]| {
        let steep = slope(u, z + 0.5 * v);
        let weight = libm::exp(-potential(u, z)) * steep * steep;
        let loss = v * steep;
        for (value, &order) in out.iter_mut().zip(orders) {
            *value = weight * sinhc(0.5 * order * loss) * sinhc(0.5 * (order - 1.0) * loss);
        }
    };
    sums.add_graded(REACH, 2.0, &mut |g, out| integrand(h + g, out));
    let deep = h.min(REACH + v);
    sums.add_graded(deep, 2.0, &mut |r, out| integrand(h - r, out));
    let mut rest = vec![0.0; orders.len()];
    if deep < h {
        integrand(h - deep, &mut rest);
    }
    for (index, (bound, &order)) in bounds.iter_mut().zip(orders).enumerate() {
        // Inwards the integrand falls (ψ' falls) but for the density, at most 1/u; f(h − 13) is
        // above half of that.
        let inner = 2.0 * rest[index] * (h - deep);
        let reach = REACH + 2.0 + v;
        let outer = reach * reach * libm::exp(order * v * reach - 0.5 * REACH * REACH);
        let value = order * (sums.upper(index) + inner + outer) * (1.0 + 1e-12);
        *bound =
            if order * v <= 1.0 && value < 0.5 * order { value } else { (0.5 * order).next_up() };
    }
}

/// `D_a` for every order, rounded up and never above `a·v²/2`; orders must be above 1.
///
/// Orders whose integrands peak near one another share their samples.
pub(super) fn renyi_costs(u: f64, v: f64, orders: &[f64], tolerance: f64, costs: &mut [f64]) {
    for (cost, &order) in costs.iter_mut().zip(orders) {
        *cost = (0.5 * order * v * v).next_up();
    }
    if u == 0.0 || v == 0.0 {
        return;
    }
    let mut start = 0;
    while start < orders.len() {
        let near =
            orders[start..].iter().take_while(|&&a| ((a - orders[start]) * v).abs() <= 4.0).count();
        let group = start..start + near;
        renyi_group(u, v, &orders[group.clone()], tolerance, &mut costs[group]);
        start += near;
    }
}

/// One group of orders; `costs` holds their ceilings on entry.
fn renyi_group(u: f64, v: f64, orders: &[f64], tolerance: f64, costs: &mut [f64]) {
    let h = 0.5 * u;
    let shift = |order: f64| (order - 0.5) * v;
    let least = orders.iter().copied().fold(f64::INFINITY, f64::min);
    let most = orders.iter().copied().fold(1.0, f64::max);
    let (peak, top) = (h + shift(least), h + shift(most) + REACH);
    let mut sums = Integrals::new(orders.len(), tolerance);
    let integrand = |z: f64, out: &mut [f64]| Sample::at(u, v, z).weigh(orders, v, out);
    sums.add_graded(top - peak, 1.0, &mut |t, out| integrand(peak + t, out));
    // From the peak down to the middle, or to where the interval is so deep that nothing is left.
    let cut = (h - 0.5 * v - REACH).max(0.0);
    sums.add_graded(peak - cut, 1.0, &mut |r, out| integrand(peak - r, out));
    if cut > 0.0 {
        let mut rest = vec![0.0; orders.len()];
        let loss = loss_at(u, v, cut);
        Sample { loss, middle: None, log_weight: libm::log(cut / u) }.weigh(orders, v, &mut rest);
        for (error, rest) in sums.error.iter_mut().zip(rest) {
            *error += rest;
        }
    }
    let last = Sample::at(u, v, top);
    for (index, (cost, &order)) in costs.iter_mut().zip(orders).enumerate() {
        let tail = libm::exp(last.exponent(order, v)) / REACH;
        let reach = shift(order) * (shift(order) + REACH + u.min(REACH));
        let scaled = (sums.upper(index) + tail) * (1.0 + 1e-12 + 8.0 * f64::EPSILON * reach);
        *cost = divergence(scaled, v, order, *cost);
    }
}

/// `D_a = ln(1 + e^S·Ẽ)/(a−1)` with `S = a(a−1)v²/2`, rounded up, at most `ceiling`.
fn divergence(scaled: f64, v: f64, order: f64, ceiling: f64) -> f64 {
    let scale = 0.5 * order * (order - 1.0) * v * v;
    let logarithm = if scale < 30.0 {
        libm::log1p(libm::exp(scale) * scaled)
    } else {
        scale + libm::log(scaled + libm::exp(-scale))
    };
    let cost = logarithm / (order - 1.0) * (1.0 + 4.0 * f64::EPSILON);
    if cost < ceiling { cost } else { ceiling }
}

/// What the integrand needs of one point, whatever the order.
struct Sample {
    loss: f64,
    /// Outside: `z − h`. There `ln m + κL − S = −(z−h−κv)²/2 − κ·(v(z−h) − L) + …` exactly, with
    /// nothing large to cancel.
    middle: Option<f64>,
    /// `ln m`, without its Gaussian part where `middle` is given.
    log_weight: f64,
}

impl Sample {
    fn at(u: f64, v: f64, z: f64) -> Self {
        let half = 0.5 * v;
        let loss = loss_at(u, v, z);
        let outside = z - half - 0.5 * u;
        if outside >= 0.0 {
            let weight = 0.5 * libm::log(beyond(outside, u) / u * (beyond(outside + v, u) / u))
                - LN_SQRT_TWO_PI;
            return Self { loss, middle: Some(z - 0.5 * u), log_weight: weight };
        }
        let log_weight = -0.5 * (potential(u, z + half) + potential(u, (z - half).abs()));
        Self { loss, middle: None, log_weight }
    }

    /// `ln m + κL − a(a−1)v²/2`.
    fn exponent(&self, order: f64, v: f64) -> f64 {
        let kappa = order - 0.5;
        match self.middle {
            Some(middle) => {
                let off = middle - kappa * v;
                self.log_weight - 0.5 * off * off - kappa * (v * middle - self.loss)
            }
            None => self.log_weight + kappa * self.loss - 0.5 * order * (order - 1.0) * v * v,
        }
    }

    fn weigh(&self, orders: &[f64], v: f64, out: &mut [f64]) {
        for (value, &order) in out.iter_mut().zip(orders) {
            let edges = libm::expm1(-order * self.loss) * libm::expm1(-(order - 1.0) * self.loss);
            *value = libm::exp(self.exponent(order, v)) * edges;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mills_ratio_joins_smoothly_and_matches_known_values() {
        // R(t) = √(π/2)·erfcx(t/√2); reference values to 17 digits.
        for (t, expected) in
            [(0.0, 1.2533141373155003), (1.0, 0.6556795424187985), (10.0, 0.09902859647173194)]
        {
            assert!((mills(t) / expected - 1.0).abs() < 1e-15, "R({t})");
        }
        let below = mills(4.0_f64.next_down());
        assert!((mills(4.0) / below - 1.0).abs() < 3e-15);
    }

    #[test]
    fn without_an_interval_it_is_the_gaussian_mechanism() {
        let plain = GaussianInterval::from_scaled(0.0, 0.3).unwrap();
        assert!((plain.renyi(5.0).unwrap() - 5.0 * 0.09 / 2.0).abs() < 1e-15);
        assert_eq!(plain.fisher_information(), 1.0);
        let nearly = GaussianInterval::from_scaled(1e-3, 0.3).unwrap();
        assert!((nearly.renyi(5.0).unwrap() / 0.225 - 1.0).abs() < 1e-6);
    }
}
