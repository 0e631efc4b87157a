//! Confidence bounds on a proportion (Clopper and Pearson, 1934), and the special functions they
//! need.

/// Room for the rounding of the incomplete beta function: the error probability is used up to one
/// part in a million less.
///
/// The function's relative error is that of three log-gammas, below 10⁻⁷ for a million trials.
const MARGIN: f64 = 1.0 - 1e-6;

/// p with P(Binomial(n, p) ≥ hits) = `wrong`, rounded down: the true proportion is below it with
/// probability at most `wrong`.
#[must_use]
pub(crate) fn clopper_pearson_low(hits: u32, n: u32, wrong: f64) -> f64 {
    if hits == 0 {
        return 0.0;
    }
    // P(Binomial(n, p) ≥ hits) = I_p(hits, n − hits + 1), rising in p.
    let (a, b) = (f64::from(hits), f64::from(n - hits) + 1.0);
    bisect(|p| incomplete_beta(a, b, p) <= wrong * MARGIN).0
}

/// p with P(Binomial(n, p) ≤ hits) = `wrong`, rounded up: the true proportion is above it with
/// probability at most `wrong`.
#[must_use]
pub(crate) fn clopper_pearson_high(hits: u32, n: u32, wrong: f64) -> f64 {
    // P(Binomial(n, p) ≤ hits) = 1 − I_p(hits + 1, n − hits) = I_{1−p}(n − hits, hits + 1): by
    // symmetry of success and failure.
    (1.0 - clopper_pearson_low(n - hits, n, wrong)).next_up().min(1.0)
}

/// The Wilson score bound `deviate` standard errors away from hits/n: cheap, and good enough to
/// choose by.
pub(super) fn wilson(hits: usize, n: usize, deviate: f64) -> f64 {
    if n == 0 {
        return if deviate < 0.0 { 0.0 } else { 1.0 };
    }
    let (n, z2) = (n as f64, deviate * deviate);
    let p = hits as f64 / n;
    let reach = (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
    ((p + z2 / (2.0 * n) + deviate * reach) / (1.0 + z2 / n)).clamp(0.0, 1.0)
}

/// Φ⁻¹(p), to about 1e-14 in Φ; ±∞ at 0 and 1.
pub(super) fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    // Φ(−40) is below the smallest normal float. The lower tail keeps its relative accuracy.
    let (mut low, mut high) = (-40.0, 0.0);
    while high - low > 1e-13 {
        let middle = 0.5 * (low + high);
        if 0.5 * libm::erfc(-middle * std::f64::consts::FRAC_1_SQRT_2) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The bracket in [0, 1] around the point up to which `accept` holds.
fn bisect(accept: impl Fn(f64) -> bool) -> (f64, f64) {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if high - low <= 1e-14 * high {
            break;
        }
        if accept(middle) { low = middle } else { high = middle }
    }
    (low, high)
}

/// I_x(a, b), the distribution function of Beta(a, b), by its continued fraction on the side where
/// it converges fast.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return if x <= 0.0 { 0.0 } else { 1.0 };
    }
    let scale = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b);
    let front = libm::exp(scale + a * libm::log(x) + b * libm::log1p(-x));
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of I_x(a, b), evaluated by the method of Lentz; it needs O(√max(a, b))
/// terms.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let away_from_zero = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for term in 1..100_000 {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for coefficient in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + coefficient * d);
            c = away_from_zero(1.0 + coefficient / c);
            change = d * c;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    fraction
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Beta, ContinuousCDF, Normal};

    #[test]
    fn the_incomplete_beta_function_agrees_with_another_library() {
        for (a, b) in
            [(1.0, 1.0), (3.0, 998.0), (500.0, 501.0), (75_000.0, 1.0), (20_000.0, 55_001.0)]
        {
            let oracle = Beta::new(a, b).unwrap();
            let (mean, spread) =
                (a / (a + b), (a * b / ((a + b + 1.0) * (a + b) * (a + b))).sqrt());
            for deviates in [-3.0, -1.0, 0.0, 0.5, 2.5] {
                let x: f64 = mean + deviates * spread;
                if !(0.0..=1.0).contains(&x) {
                    continue;
                }
                let (ours, theirs) = (incomplete_beta(a, b, x), oracle.cdf(x));
                assert!(
                    (ours - theirs).abs() < 1e-8 * theirs.max(1e-3),
                    "{a} {b} {x}: {ours} {theirs}"
                );
            }
        }
    }

    #[test]
    fn bounds_cover_from_the_safe_side_and_are_tight() {
        for (hits, n) in [(1, 40), (17, 1000), (500, 1000), (37_500, 75_000), (74_900, 75_000)] {
            for wrong in [0.0125, 2.5e-4, 1e-9] {
                let (low, high) =
                    (clopper_pearson_low(hits, n, wrong), clopper_pearson_high(hits, n, wrong));
                let share = f64::from(hits) / f64::from(n);
                assert!(low < share && share < high);
                let (a, b) = (f64::from(hits), f64::from(n - hits));
                let at_least = Beta::new(a, b + 1.0).unwrap().cdf(low);
                assert!(
                    at_least < wrong && at_least > wrong * (1.0 - 1e-5),
                    "{hits}/{n}: {at_least:e}"
                );
                let at_most =
                    if hits == n { 0.0 } else { Beta::new(b, a + 1.0).unwrap().cdf(1.0 - high) };
                assert!(
                    at_most < wrong && at_most > wrong * (1.0 - 1e-5),
                    "{hits}/{n}: {at_most:e}"
                );
            }
        }
    }

    #[test]
    fn nothing_seen_and_everything_seen_have_closed_forms() {
        let (n, wrong) = (1000, 0.01);
        assert_eq!(clopper_pearson_low(0, n, wrong), 0.0);
        assert_eq!(clopper_pearson_high(n, n, wrong), 1.0);
        let never = 1.0 - wrong.powf(1.0 / f64::from(n));
        assert!((clopper_pearson_high(0, n, wrong) / never - 1.0).abs() < 1e-6);
        assert!(clopper_pearson_high(0, n, wrong) >= never);
    }

    #[test]
    fn normal_quantiles_agree_with_another_library() {
        let oracle = Normal::new(0.0, 1.0).unwrap();
        for p in [1e-200, 1e-12, 1e-3, 0.2, 0.5, 0.9, 1.0 - 1e-9] {
            let back = oracle.cdf(normal_quantile(p));
            assert!((back / p - 1.0).abs() < 1e-7, "{p}: {back}");
        }
        assert_eq!(normal_quantile(0.0), f64::NEG_INFINITY);
        assert_eq!(normal_quantile(1.0), f64::INFINITY);
    }

    #[test]
    fn wilson_bounds_surround_the_proportion() {
        assert!(wilson(10, 100, -2.0) < 0.1 && wilson(10, 100, 2.0) > 0.1);
        assert_eq!(wilson(0, 100, -2.0), 0.0);
        assert_eq!((wilson(0, 0, -1.0), wilson(0, 0, 1.0)), (0.0, 1.0));
    }
}
