//! The Laplace mixture: what one coordinate of a round costs when a uniform point hides the private
//! step.
//!
//! One coordinate of a release is `m + t + U + Δ` with `U ~ U[0, ω]`, `Δ ~ Lap(β)` (rate `β`,
//! density `(β/2)·e^(−β|y|)`) and a private shift `|t| ≤ s` (docs/paper.md section 4, Theorems 2.2
//! and 2.3 of the paper). In units of `1/β` everything depends on `u = βω` and `v = βs` only; this
//! module works in those units. With `h = u/2` and `y` measured from the middle of the interval the
//! density of `U + Δ` is
//!
//! ```text
//! f(y) = N(y)/(2u),   N(y) = (1 − e^(−(h+y))) + (1 − e^(−(h−y)))   inside, |y| ≤ h
//! f(y) = C·e^(−(|y|−h)),   C = (1 − e^(−u))/(2u)                    outside
//! ```
//!
//! even, continuously differentiable and log-concave: `ψ = −log f` has `ψ' = sinh y/(e^h − cosh y)`
//! and `ψ'' = (e^h cosh y − 1)/(e^h − cosh y)² > 0` inside, `ψ' = ±1` outside.
//!
//! # Facts the code relies on
//!
//! 1. **Worst shift of the realised loss.** `ψ` is even and convex, so `|ψ(y−t) − ψ(y)|` over
//!    `|t| ≤ v` is largest for the shift away from the middle: `Θ(y) = ψ(|y|+v) − ψ(|y|)`. It grows
//!    with `|y|`, and equals `v` once `|y| ≥ h`.
//! 2. **Worst shift of the Rényi divergence.**
//!    `exp((a−1)·D_a(v)) = ∫ exp(−aψ(y) + (a−1)ψ(y+v)) dy`. For each `y` the exponent is convex in
//!    `v`; an integral of log-convex functions is log-convex; hence `D_a` is a **convex**, even
//!    function of the shift that vanishes at 0. It increases with `|t|`, so `|t| = s` is the worst,
//!    and a chord between two shifts bounds it from above (the tables use that).
//! 3. **Wider intervals cost less.** `U[0,u]` is smaller than `U[0,u′]` in the dispersive order
//!    when `u ≤ u′`, and adding independent log-concave noise keeps that order (Lewis and Thompson,
//!    1981). For a location family with log-concave density the trade-off curve of (no shift, shift
//!    `v`) is `F(F⁻¹(1−α) − v)`, which grows pointwise in the dispersive order: the pair with `u′`
//!    is a garbling of the pair with `u` (Blackwell). Every divergence, `D_a` and the Fisher
//!    information among them, is therefore non-increasing in `u`.
//! 4. **Symmetric form.** With `z = y + v/2`, `L(z) = ψ(z+v/2) − ψ(z−v/2)` (odd, increasing,
//!    `|L| ≤ v`) and `m(z) = √(f(z−v/2) f(z+v/2))` (even), `exp((a−1)D_a) = 1 + E` with
//!    `E = 4 ∫₀^∞ m(z) sinh(aL/2) sinh((a−1)L/2) dz`: positive, second order in `v`, free of
//!    cancellation.
//! 5. **Small shifts.** Since `m·L²/4 ≤ (√f(z−v/2) − √f(z+v/2))²`, whose integral is at most
//!    `v²I(u)/4` (Cauchy–Schwarz), `D_a ≤ (a·v²·I(u)/2)·S(av/2)·S((a−1)v/2)` with
//!    `S(x) = sinh(x)/x`: a closed form that is exact as `v → 0`.
//!
//! # Certified quadrature
//!
//! Where both arguments are outside the interval (`z ≥ h + v/2`) the integrands are pure
//! exponentials and are integrated in closed form; the rest is cut where an argument crosses an
//! end, so that every piece is analytic. The nearest singularity of an inside piece is the zero of
//! `N` at `±arcosh(e^h)`, `ln(1 + √(1−e^(−u)))` beyond the end (`ln 2` for wide intervals, about
//! `√u` for narrow ones); panels start at that scale and double. See the private `quadrature`
//! module for the error, which is added to the value; what is cut off deep inside a wide interval
//! is bounded by monotonicity and added as well. A last factor covers floating-point rounding.
//! Results exceed the truth by at most about `1e-9` of it.

use thiserror::Error;

use super::quadrature::Integrals;

/// Panels are accepted at this relative size of their error estimate; some tens of panels stay far
/// below 1e-9.
const TIGHT: f64 = 2e-12;

/// An input no mixture can be built from.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum MixtureError {
    /// The interval's width must be finite and non-negative.
    #[error("interval width must be finite and at least 0, not {omega}")]
    Width {
        /// The width as given.
        omega: f64,
    },
    /// The noise's rate (or, for Gaussian noise, its standard deviation) must be finite and
    /// positive.
    #[error("noise parameter must be finite and positive, not {value}")]
    Noise {
        /// The rate or standard deviation as given.
        value: f64,
    },
    /// The largest shift must be finite and non-negative.
    #[error("shift must be finite and at least 0, not {shift}")]
    Shift {
        /// The shift as given.
        shift: f64,
    },
    /// A Rényi order must be finite and above 1.
    #[error("Rényi order must be finite and above 1, not {order}")]
    Order {
        /// The order as given.
        order: f64,
    },
    /// A released value must be finite.
    #[error("the value must be finite, not {x}")]
    Value {
        /// The value as given.
        x: f64,
    },
    /// An interval's ends must be in order.
    #[error("interval [{low}, {high}] is empty")]
    Interval {
        /// The lower end as given.
        low: f64,
        /// The upper end as given.
        high: f64,
    },
    /// The scaled width or shift overflows.
    #[error("width or shift in units of the noise is not a finite number (u = {u}, v = {v})")]
    Scale {
        /// Width over noise scale.
        u: f64,
        /// Shift over noise scale.
        v: f64,
    },
    /// A table asked for no orders, or for an empty range of shifts.
    #[error("a Rényi table needs at least one order and a range of shifts 0 < {low} ≤ {high}")]
    Table {
        /// The smallest shift as given.
        low: f64,
        /// The largest shift as given.
        high: f64,
    },
}

/// The amplification `γ = E[Θ]/v` of Theorem 2.3, three ways.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gamma {
    /// `E[Θ]/v` by certified quadrature, rounded up.
    pub exact: f64,
    /// The closed form as the paper prints it, where its condition `ω > s > 0` holds. **Not** an
    /// upper bound: its proof takes the wrong end of the shift (docs/paper.md section 8, item 2).
    pub printed: Option<f64>,
    /// The valid Jensen bound `ln(E e^Θ)/v`, rounded up.
    pub bound: f64,
}

/// The realised loss of one released coordinate, beside the worst case.
///
/// The loss depends on the private step: it is the agent's own to see and must never leave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// `Θ(x)`, rounded up; never above `worst`.
    pub loss: f64,
    /// `β·s`, rounded up: what the coordinate costs without the interval.
    pub worst: f64,
}

/// The density of `U[0, u] + Lap(1)` and its shifts by at most `v`: the Laplace mixture in units of
/// its noise scale.
///
/// ```
/// use consenso_dp::mixture::LaplaceMixture;
///
/// let mixture = LaplaceMixture::new(0.1, 10.0, 0.01)?; // ω, β, s
/// assert!((mixture.gamma().exact - 0.82170834).abs() < 1e-8);
/// assert!(mixture.renyi(2.0)? < 0.1 * 0.1); // below Laplace's a·v²/2
/// # Ok::<(), consenso_dp::mixture::MixtureError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LaplaceMixture {
    u: f64,
    v: f64,
}

impl LaplaceMixture {
    /// The mixture of an interval of width `omega`, Laplace noise of rate `beta` and shifts up to
    /// `shift`.
    ///
    /// # Errors
    /// A width or shift that is negative or not finite, a rate that is not positive, or a product
    /// that overflows.
    pub fn new(omega: f64, beta: f64, shift: f64) -> Result<Self, MixtureError> {
        check(omega, beta, shift)?;
        Self::from_scaled(beta * omega, beta * shift)
    }

    /// The mixture of scaled width `u = βω` and scaled shift `v = βs`.
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

    /// The scaled width `u = βω`.
    pub fn width(&self) -> f64 {
        self.u
    }

    /// The scaled shift `v = βs`, also the worst-case loss of one coordinate.
    pub fn shift(&self) -> f64 {
        self.v
    }

    /// `ln f(x)` for `x` measured from the interval's low end, all in units of `1/β`.
    ///
    /// In unscaled units the density is `β` times this one: see [`log_density`].
    pub fn log_density(&self, x: f64) -> f64 {
        scaled_log_density(self.u, x, self.u - x)
    }

    /// The realised loss `Θ` (Theorem 2.2) of a value `x` from the interval's low end, in units of
    /// `1/β`, rounded up.
    pub fn loss(&self, x: f64) -> f64 {
        let from_middle = (x - 0.5 * self.u).abs();
        realised(self.u, self.v, from_middle, x.min(self.u - x)).min(self.v)
    }

    /// The amplification `γ` (Theorem 2.3): exact, as printed, and bounded.
    ///
    /// With no shift at all `exact` and `bound` are the limit `(1 − e^(−u/2))/(u/2)`.
    pub fn gamma(&self) -> Gamma {
        let (exact, bound) = self.mean_loss();
        let printed = (self.v > 0.0 && self.u > self.v).then(|| self.gamma_printed());
        Gamma { exact, printed, bound }
    }

    /// `γ` and its Jensen bound: `E Θ = 2∫₀^∞ fΘ`, where `Θ = v` outside and the inside is cut at
    /// `|y| = h − v`.
    fn mean_loss(&self) -> (f64, f64) {
        let (u, v, h) = (self.u, self.v, 0.5 * self.u);
        if u == 0.0 {
            return (1.0, 1.0);
        }
        if v < 1e-11 {
            // Θ/v averages ψ' over [|y|, |y|+v], so γ exceeds its limit by a fraction of about v:
            // rounding up covers it.
            let limit = (-libm::expm1(-h) / h * (1.0 + 1e-10)).min(1.0);
            return (limit, limit);
        }
        // Jensen's integrand is e^Θ − 1 for small shifts (no cancellation) and e^(Θ−v) for large
        // ones (no overflow).
        let small = v < 1.0;
        let jensen = |theta: f64| if small { libm::expm1(theta) } else { libm::exp(theta - v) };
        let tail = outside_weight(u);
        let mut sums = Integrals::new(2, TIGHT);
        sums.value.copy_from_slice(&[tail * v, tail * jensen(v)]);
        let mut integrand = |inside: f64, out: &mut [f64]| {
            let theta = loss_kernel(u, v, (h - inside).max(0.0), inside);
            let density = 0.5 * kernel_sum(u, inside) / u;
            out[0] = density * theta;
            out[1] = density * jensen(theta);
        };
        let scale = singularity_distance(u);
        let crossing = v.min(h);
        sums.add_graded(crossing, scale, &mut integrand);
        if h > v {
            let deep = (h - v).min(30.0 + libm::log(1.0 + u));
            sums.add_graded(deep, scale, &mut |r, out| integrand(v + r, out));
            if h - v > deep {
                // Θ falls towards the middle, and the density is at most 1/u there.
                let theta = loss_kernel(u, v, h - v - deep, v + deep);
                let mass = (h - v - deep) / u;
                sums.error[0] += mass * theta;
                if small {
                    sums.error[1] += mass * libm::expm1(theta);
                } else {
                    sums.value[1] += mass * libm::exp(theta - v);
                }
            }
        }
        let exact = 2.0 * sums.upper(0) / v;
        let total = 2.0 * sums.upper(1);
        let bound = if small { libm::log1p(total) / v } else { 1.0 + libm::log(total) / v };
        let up = 1.0 + 1e-12;
        ((exact * up).min(1.0), (bound * up).min(1.0))
    }

    /// Theorem 2.3's right-hand side as printed: `ln{e^v[1 − 2A] + 2B}/v` with `A` and `B` the
    /// masses of `[0, (u−v)/2]` and of the same piece moved by `v`, rearranged so that small shifts
    /// do not cancel.
    fn gamma_printed(&self) -> f64 {
        let (u, v, h) = (self.u, self.v, 0.5 * self.u);
        // ∫ over the v-long piece about the middle, and over the first v of the interval.
        let middle = (-v * libm::expm1(-h) - 2.0 * libm::exp(-h) * sinh_excess(0.5 * v)) / u;
        let first = (-libm::expm1(v) * libm::expm1(-u) - 2.0 * sinh_excess(v)) / (2.0 * u);
        let up_to = |x: f64| {
            // ∫₀^x p = [2x − (1−e^(−x)) − e^(−u)(e^x − 1)]/(2u); the last product in a form that
            // cannot overflow.
            (2.0 * x + libm::expm1(-x) - libm::exp(x - u) + libm::exp(-u)) / (2.0 * u)
        };
        let moved = up_to(0.5 * (u + v)) - first;
        1.0 + libm::log1p(2.0 * (middle - first + libm::expm1(-v) * moved)) / v
    }

    /// The Fisher information of `U + Lap(1)`, in closed form.
    ///
    /// `I(u) = (2q/u)·ln(1+q) − e^(−u)/(1+q)` with `q = √(1 − e^(−u))`; `I(0) = 1`,
    /// `I(u) ≈ 2 ln 2/u` for large `u`. It is the exact curvature of every divergence at shift 0:
    /// `D_a ≈ a·v²·I(u)/2`.
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

/// `ln` of the density of `U[0, ω] + Lap(β)` at `x` (unscaled units).
///
/// # Errors
/// As [`LaplaceMixture::new`], and [`MixtureError::Value`] when `x` is not finite.
pub fn log_density(omega: f64, beta: f64, x: f64) -> Result<f64, MixtureError> {
    let mixture = LaplaceMixture::new(omega, beta, 0.0)?;
    check_value(x)?;
    Ok(libm::log(beta) + scaled_log_density(mixture.u, beta * x, beta * (omega - x)))
}

/// The amplification `γ` of Theorem 2.3 for an interval of width `omega`, noise rate `beta` and
/// shift up to `shift`.
///
/// # Errors
/// As [`LaplaceMixture::new`].
pub fn gamma(omega: f64, beta: f64, shift: f64) -> Result<Gamma, MixtureError> {
    Ok(LaplaceMixture::new(omega, beta, shift)?.gamma())
}

/// The realised loss (Theorem 2.2) of a value `x` measured from the interval's low end.
///
/// # Errors
/// As [`LaplaceMixture::new`], and [`MixtureError::Value`] when `x` is not finite.
pub fn loss(omega: f64, beta: f64, shift: f64, x: f64) -> Result<Loss, MixtureError> {
    let mixture = LaplaceMixture::new(omega, beta, shift)?;
    check_value(x)?;
    let from_middle = beta * (x - 0.5 * omega).abs();
    let inside = beta * x.min(omega - x);
    Ok(mixture.realised_at(from_middle, inside))
}

/// The realised loss of a released coordinate `y` whose interval, private step included, is
/// `[low, high]`.
///
/// # Errors
/// As [`loss`], and [`MixtureError::Interval`] when the ends are out of order or not finite.
pub fn realised_loss(
    low: f64,
    high: f64,
    beta: f64,
    shift: f64,
    y: f64,
) -> Result<Loss, MixtureError> {
    if !(low.is_finite() && high.is_finite() && low <= high) {
        return Err(MixtureError::Interval { low, high });
    }
    let omega = high - low;
    let mixture = LaplaceMixture::new(omega, beta, shift)?;
    check_value(y)?;
    let (above, below) = (y - low, high - y);
    // The offset from the middle carries a rounding of the interval's size: push it outwards, where
    // the loss is larger.
    let slack = 2.0 * f64::EPSILON * (above.abs() + below.abs());
    let from_middle = beta * (0.5 * (above - below).abs() + slack);
    let inside = beta * (above.min(below) - slack);
    Ok(mixture.realised_at(from_middle, inside))
}

/// The Rényi cost of order `order` of one coordinate, the worst over shifts of at most `shift`,
/// rounded up.
///
/// # Errors
/// As [`LaplaceMixture::new`] and [`LaplaceMixture::renyi`].
pub fn renyi(omega: f64, beta: f64, shift: f64, order: f64) -> Result<f64, MixtureError> {
    LaplaceMixture::new(omega, beta, shift)?.renyi(order)
}

impl LaplaceMixture {
    fn realised_at(&self, from_middle: f64, inside: f64) -> Loss {
        let worst = if self.v > 0.0 { self.v.next_up() } else { 0.0 };
        Loss { loss: realised(self.u, self.v, from_middle, inside).min(worst), worst }
    }
}

pub(super) fn check(omega: f64, noise: f64, shift: f64) -> Result<(), MixtureError> {
    if !(omega.is_finite() && omega >= 0.0) {
        return Err(MixtureError::Width { omega });
    }
    if !(noise.is_finite() && noise > 0.0) {
        return Err(MixtureError::Noise { value: noise });
    }
    if !(shift.is_finite() && shift >= 0.0) {
        return Err(MixtureError::Shift { shift });
    }
    Ok(())
}

pub(super) fn check_order(order: f64) -> Result<(), MixtureError> {
    if order.is_finite() && order > 1.0 { Ok(()) } else { Err(MixtureError::Order { order }) }
}

pub(super) fn check_value(x: f64) -> Result<(), MixtureError> {
    if x.is_finite() { Ok(()) } else { Err(MixtureError::Value { x }) }
}

/// `C = (1 − e^(−u))/(2u)`: the mass of the density beyond one end of the interval.
fn outside_weight(u: f64) -> f64 {
    if u > 0.0 { -0.5 * libm::expm1(-u) / u } else { 0.5 }
}

/// How far beyond an end of the interval the analytic continuation of the inside piece first
/// vanishes.
fn singularity_distance(u: f64) -> f64 {
    libm::log1p(libm::sqrt(-libm::expm1(-u)))
}

/// `N = (1 − e^(−r)) + (1 − e^(−(u−r)))` at distance `r` inside one end: `2u` times the density.
fn kernel_sum(u: f64, r: f64) -> f64 {
    -libm::expm1(-r) - libm::expm1(-(u - r))
}

fn scaled_log_density(u: f64, above: f64, below: f64) -> f64 {
    let inside = above.min(below);
    if inside > 0.0 && u > 0.0 {
        libm::log(0.5 * kernel_sum(u, inside) / u)
    } else {
        inside.min(0.0) + libm::log(outside_weight(u))
    }
}

/// `ln(N(y)/(1−e^(−u)))` at distance `r ∈ [0, u]` inside an end:
/// `N = (1−e^(−u)) + (1−e^(−r))(1−e^(−(u−r)))`.
fn inside_excess(u: f64, r: f64) -> f64 {
    libm::log1p(-libm::expm1(-r) * libm::expm1(-(u - r).max(0.0)) / libm::expm1(-u))
}

/// `Θ = ψ(y+v) − ψ(y)` for `y ≥ 0` from the middle, `inside = h − y` its distance inside the nearer
/// end.
///
/// A sum of non-negative terms in every case, so it is accurate to rounding relative to `Θ` itself.
fn loss_kernel(u: f64, v: f64, from_middle: f64, inside: f64) -> f64 {
    if inside <= 0.0 || u == 0.0 {
        v
    } else if inside <= v {
        (v - inside) + inside_excess(u, inside)
    } else {
        // ln(N(y)/N(y+v)), where N(y) − N(y+v) = 4e^(−h) sinh(y + v/2) sinh(v/2).
        let drop = libm::exp(v - inside) * libm::expm1(-v) * libm::expm1(-(2.0 * from_middle + v));
        libm::log1p(drop / kernel_sum(u, inside - v))
    }
}

/// The loss kernel rounded up; the relative condition of `Θ` in its arguments is at most about
/// `1 + u + v`.
fn realised(u: f64, v: f64, from_middle: f64, inside: f64) -> f64 {
    loss_kernel(u, v, from_middle, inside) * (1.0 + 8.0 * f64::EPSILON * (2.0 + u + v))
}

/// `sinh x − x` for `x ≥ 0`.
fn sinh_excess(x: f64) -> f64 {
    if x > 0.5 {
        return libm::sinh(x) - x;
    }
    let square = x * x;
    let mut term = x * square / 6.0;
    let mut sum = term;
    for k in 2..9 {
        let n = 2.0 * f64::from(k);
        term *= square / (n * (n + 1.0));
        sum += term;
    }
    sum
}

/// `S(x) = sinh(x)/x`.
fn sinhc(x: f64) -> f64 {
    if x > 0.0 { 1.0 + sinh_excess(x) / x } else { 1.0 }
}

/// The Fisher information of `U[0, u] + Lap(1)`.
///
/// `I = 2C + 2∫₀^h fψ'²`; the integral of `sinh²y/(e^h − cosh y)` is elementary and the whole
/// collapses to `(2/u)·√(1−e^(−u))·arcosh(e^(u/2)) − 1`, written here without cancellation.
pub fn fisher_information(u: f64) -> f64 {
    let q = libm::sqrt(-libm::expm1(-u));
    if q == 0.0 {
        return 1.0;
    }
    (2.0 * q * libm::log1p(q) / u - libm::exp(-u) / (1.0 + q)).min(1.0)
}

/// Fact 5: an upper bound of `D_a(t)/t²` over all `0 < t ≤ v`, exact as `v → 0`.
pub(super) fn curvature_bound(u: f64, v: f64, order: f64) -> f64 {
    let stretch = sinhc(0.5 * order * v) * sinhc(0.5 * (order - 1.0) * v);
    0.5 * order * fisher_information(u) * stretch * (1.0 + 1e-13)
}

/// `D_a` for every order at once, rounded up and never above `v`; orders must be above 1.
///
/// The scaled integral `Ẽ = e^(−κv) E`, `κ = a − ½`, has integrand
/// `m·e^(−κ(v−L))·(1 − e^(−aL))·(1 − e^(−(a−1)L))`, which neither cancels nor overflows at any
/// order.
pub(super) fn renyi_costs(u: f64, v: f64, orders: &[f64], tolerance: f64, costs: &mut [f64]) {
    let largest = orders.iter().copied().fold(1.0, f64::max);
    // Below this the closed form is exact to 1e-10, and squares cannot underflow unnoticed.
    if v < 1e-10 && largest * v < 1e-5 {
        for (cost, &order) in costs.iter_mut().zip(orders) {
            *cost = (curvature_bound(u, v, order) * v * v).next_up().min(v);
        }
        return;
    }
    let sums = scaled_excess(u, v, orders, largest, tolerance);
    for (index, (cost, &order)) in costs.iter_mut().zip(orders).enumerate() {
        *cost = divergence(sums.upper(index), v, order, curvature_bound(u, v, order) * v * v);
    }
}

/// `Ẽ` of every order: closed form outside, adaptive quadrature of the pieces between the break
/// points.
fn scaled_excess(u: f64, v: f64, orders: &[f64], largest: f64, tolerance: f64) -> Integrals {
    let (h, tail) = (0.5 * u, outside_weight(u));
    let mut sums = Integrals::new(orders.len(), tolerance);
    weigh(orders, v, v, tail * libm::exp(-0.5 * v), &mut sums.value);

    // One argument inside, `r` from the end, the other outside by v − r: L = v − r +
    // ln(N/(1−e^(−u))).
    let crossing = u.min(v);
    let kappa = largest - 0.5;
    if crossing > 0.0 {
        let curvature = -2.0 / libm::expm1(-u);
        let first = singularity_distance(u).min(2.0 / libm::sqrt(kappa * curvature));
        sums.add_graded(crossing, first, &mut |r, out| {
            let excess = inside_excess(u, r);
            let weight = tail * libm::exp(0.5 * (excess - (v - r)));
            weigh(orders, v, (v - r) + excess, weight, out);
        });
    }
    if v > u {
        // Both outside, at opposite ends: L = 2z and m is constant.
        let top = 0.5 * v - h;
        let weight = tail * libm::exp(-top);
        sums.add_graded(top, 2.0 / kappa, &mut |depth, out| {
            weigh(orders, v, 2.0 * (top - depth), weight, out);
        });
    } else if h > 0.5 * v {
        add_both_inside(u, v, orders, &mut sums);
    }
    sums
}

/// The piece where both arguments are inside; `r` is the distance of the outer one from its end.
fn add_both_inside(u: f64, v: f64, orders: &[f64], sums: &mut Integrals) {
    let whole = 0.5 * (u - v);
    let at = |r: f64| {
        let outer = kernel_sum(u, r);
        let drop = libm::exp(-r) * libm::expm1(-v) * libm::expm1(-2.0 * (whole - r).max(0.0));
        let ratio = drop / outer;
        // m = √(N₁N₂)/(2u), N₁ = N₂·(1 + ratio).
        (libm::log1p(ratio), 0.5 * outer * libm::sqrt(1.0 + ratio) / u)
    };
    let deep = whole.min(14.0 + 0.5 * libm::log(1.0 + u));
    sums.add_graded(deep, singularity_distance(u), &mut |r, out| {
        let (loss, weight) = at(r);
        weigh(orders, v, loss, weight, out);
    });
    if deep < whole {
        // The loss falls towards the middle and the density is at most 1/u.
        let (loss, _) = at(deep);
        let mut rest = vec![0.0; orders.len()];
        weigh(orders, v, loss, (whole - deep) / u, &mut rest);
        for (error, rest) in sums.error.iter_mut().zip(rest) {
            *error += rest;
        }
    }
}

/// The scaled integrand for a loss `L` and weight `m`, one value an order.
fn weigh(orders: &[f64], v: f64, loss: f64, weight: f64, out: &mut [f64]) {
    let below = v - loss;
    for (value, &order) in out.iter_mut().zip(orders) {
        let growth = libm::exp(-(order - 0.5) * below);
        *value = weight * growth * libm::expm1(-order * loss) * libm::expm1(-(order - 1.0) * loss);
    }
}

/// `D_a = ln(1 + e^(κv)·Ẽ)/(a−1)`, rounded up, at most `v` and at most `ceiling`.
fn divergence(scaled: f64, v: f64, order: f64, ceiling: f64) -> f64 {
    let exponent = (order - 0.5) * v;
    // Samples carry a few roundings, and e^(κ·…) multiplies that of its exponent.
    let scaled = scaled * (1.0 + 1e-12 + 8.0 * f64::EPSILON * exponent);
    let logarithm = if exponent < 30.0 {
        libm::log1p(libm::exp(exponent) * scaled)
    } else {
        exponent + libm::log(scaled + libm::exp(-exponent))
    };
    let cost = logarithm / (order - 1.0) * (1.0 + 4.0 * f64::EPSILON);
    // NaN (which no known input gives) falls through to the ceilings, never to a smaller cost.
    if cost < v.min(ceiling) { cost } else { v.min(ceiling) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fisher_information_matches_the_specification() {
        for (u, expected) in [(0.0, 1.0), (1.2, 0.683), (5.0, 0.273), (10.0, 0.139)] {
            assert!((fisher_information(u) - expected).abs() < 1e-3, "I({u})");
        }
        assert!((fisher_information(1e6) * 1e6 - 2.0 * std::f64::consts::LN_2).abs() < 1e-9);
    }

    #[test]
    fn no_interval_is_the_tight_laplace_cost() {
        for (v, order) in
            [(0.01_f64, 2.0_f64), (0.5, 1.5), (3.0, 40.0), (1e-4, 1.0001), (10.0, 1e4)]
        {
            let exact = v
                + ((order - 1.0) * ((v * (1.0 - 2.0 * order)).exp() - 1.0) / (2.0 * order - 1.0))
                    .ln_1p()
                    / (order - 1.0);
            let cost = renyi(0.0, 1.0, v, order).unwrap();
            let slack = 1e-9 * exact + 1e-15 * v / (order - 1.0).min(1.0);
            assert!((cost - exact).abs() <= slack, "v {v}, order {order}: {cost} against {exact}");
        }
    }

    #[test]
    fn bad_input_is_an_error() {
        assert_eq!(gamma(-1.0, 1.0, 1.0), Err(MixtureError::Width { omega: -1.0 }));
        assert_eq!(gamma(1.0, 0.0, 1.0), Err(MixtureError::Noise { value: 0.0 }));
        assert!(matches!(gamma(1.0, 1.0, f64::NAN), Err(MixtureError::Shift { .. })));
        assert_eq!(renyi(1.0, 1.0, 1.0, 1.0), Err(MixtureError::Order { order: 1.0 }));
        assert!(matches!(loss(1.0, 1.0, 1.0, f64::INFINITY), Err(MixtureError::Value { .. })));
        assert!(matches!(gamma(1e300, 1e300, 1.0), Err(MixtureError::Scale { .. })));
        assert!(matches!(
            realised_loss(1.0, 0.0, 1.0, 1.0, 0.5),
            Err(MixtureError::Interval { .. })
        ));
    }
}
