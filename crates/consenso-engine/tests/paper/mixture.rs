//! Section 4 of the specification: the Laplace mixture, its realised loss, amplification and Rényi
//! cost.
//!
//! Golden files are made by `golden/mixture.py`, which works from the definitions at 45 to 110
//! digits.

use consenso_engine::privacy::gaussian_interval::GaussianInterval;
use consenso_engine::privacy::mixture::{self, LaplaceMixture};
use proptest::prelude::*;

/// The rows of a golden file, empty cells as NaN.
fn rows(text: &str) -> impl Iterator<Item = Vec<f64>> {
    text.lines().skip(1).map(|line| {
        line.split(',')
            .map(|cell| if cell.is_empty() { f64::NAN } else { cell.parse().unwrap() })
            .collect()
    })
}

#[track_caller]
fn close(what: &str, row: &[f64], ours: f64, reference: f64, tolerance: f64) {
    let error = (ours - reference).abs();
    assert!(error <= tolerance, "{what} of {row:?}: {ours} against {reference}, off by {error:e}");
}

#[test]
fn theorem_2_2_density_and_loss_match_ten_thousand_references() {
    let mut count = 0;
    for row in rows(include_str!("../golden/mixture_points.csv")) {
        let [omega, beta, shift, x, density, loss] = row[..] else { panic!("row {row:?}") };
        let ours = mixture::log_density(omega, beta, x).unwrap();
        close("log density", &row, ours, density, 1e-14 * (1.0 + density.abs() + (beta * x).abs()));
        let ours = mixture::loss(omega, beta, shift, x).unwrap();
        let condition = 1e-14 * (4.0 + beta * (omega + shift));
        close("loss", &row, ours.loss, loss, condition * loss);
        assert!(
            ours.loss >= loss * (1.0 - 1e-16),
            "loss of {row:?} rounded down: {} < {loss}",
            ours.loss
        );
        assert!(ours.loss <= ours.worst);
        count += 1;
    }
    assert_eq!(count, 10_000);
}

#[test]
fn theorem_2_3_amplification_and_renyi_cost_match_the_references_from_above() {
    let mut count = 0;
    for row in rows(include_str!("../golden/mixture_costs.csv")) {
        let [u, v, order, exact, printed, bound, renyi] = row[..] else { panic!("row {row:?}") };
        let mixture = LaplaceMixture::from_scaled(u, v).unwrap();
        let gamma = mixture.gamma();
        close("gamma", &row, gamma.exact, exact, 1e-9 * exact);
        assert!(
            gamma.exact >= exact * (1.0 - 1e-15),
            "gamma of {row:?} rounded down to {}",
            gamma.exact
        );
        close("bound", &row, gamma.bound, bound, 1e-9 * bound);
        assert!(
            gamma.bound >= bound * (1.0 - 1e-15),
            "bound of {row:?} rounded down to {}",
            gamma.bound
        );
        match gamma.printed {
            Some(ours) => close("printed", &row, ours, printed, 1e-9 * printed),
            None => assert!(printed.is_nan()),
        }
        let cost = mixture.renyi(order).unwrap();
        close("renyi", &row, cost, renyi, 1e-9 * renyi);
        assert!(cost >= renyi * (1.0 - 1e-15), "cost of {row:?} rounded down: {cost} < {renyi}");
        count += 1;
    }
    assert_eq!(count, 300);
}

#[test]
fn section_4_check_values() {
    let table = [
        (0.1, 10.0, 0.01, 0.821_708_34, 0.798_386_68, 0.825_875_01),
        (0.5, 2.0, 0.001, 0.787_663_45, 0.787_107_67, 0.787_769_04),
        (1.0, 10.0, 0.001, 0.199_346_41, 0.199_454_94, 0.199_844_73),
    ];
    for (omega, beta, shift, exact, printed, bound) in table {
        let gamma = mixture::gamma(omega, beta, shift).unwrap();
        assert!((gamma.exact - exact).abs() < 6e-9);
        assert!((gamma.printed.unwrap() - printed).abs() < 6e-9);
        assert!((gamma.bound - bound).abs() < 6e-9);
    }
    for u in [0.01, 1.2, 5.0, 1e4_f64] {
        let limit = (1.0 - (-u / 2.0).exp()) / (u / 2.0);
        assert!((mixture::gamma(u, 1.0, 1e-9).unwrap().exact / limit - 1.0).abs() < 1e-8);
        let information = mixture::fisher_information(u);
        let (order, v) = (3.0, 1e-6);
        let cost = mixture::renyi(u, 1.0, v, order).unwrap();
        assert!(
            (cost / (order * v * v * information / 2.0) - 1.0).abs() < 1e-5,
            "curvature at u = {u}"
        );
    }
}

/// Orders from 1.0001 to 1e4, most of them moderate.
fn order() -> impl Strategy<Value = f64> {
    (-4.0..4.0_f64).prop_map(|e| 1.0 + 10.0_f64.powf(e))
}

fn log_scale(low: f64, high: f64) -> impl Strategy<Value = f64> {
    (low..high).prop_map(|e| 10.0_f64.powf(e))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn density_is_log_concave_and_symmetric(u in log_scale(-6.0, 6.0), at in -0.5..1.5_f64, gap in log_scale(-3.0, 1.0)) {
        let mixture = LaplaceMixture::from_scaled(u, 0.0).unwrap();
        let x = at * u.min(50.0);
        let (left, middle, right) =
            (mixture.log_density(x - gap), mixture.log_density(x), mixture.log_density(x + gap));
        prop_assert!(2.0 * middle >= left + right - 1e-13 * (1.0 + left.abs() + right.abs()));
        let mirrored = mixture.log_density(u - x);
        prop_assert!((mirrored - middle).abs() <= 1e-14 * (4.0 + u + middle.abs()));
    }

    #[test]
    fn loss_is_at_most_the_worst_case_symmetric_and_largest_outside(
        omega in log_scale(-6.0, 4.0), beta in log_scale(-2.0, 2.0), shift in log_scale(-6.0, 1.0), at in -0.5..1.5_f64,
    ) {
        let x = at * omega;
        let here = mixture::loss(omega, beta, shift, x).unwrap();
        prop_assert!(here.loss <= here.worst && here.worst <= (beta * shift).next_up());
        if !(0.0..=omega).contains(&x) {
            prop_assert!(here.loss >= beta * shift);
        } else if beta * omega > 1.0 && (0.2..0.8).contains(&at) {
            prop_assert!(here.loss < beta * shift, "strictly smaller inside");
        }
        let released = mixture::realised_loss(3.0, 3.0 + omega, beta, shift, 3.0 + x).unwrap();
        prop_assert!(released.loss <= released.worst);
        let slack = 1e-14 * (beta * (4.0 + omega)) / (beta * omega).min(1.0);
        prop_assert!((released.loss - here.loss).abs() <= (slack * 8.0 + 1e-11) * here.worst.max(here.loss));
    }

    #[test]
    fn renyi_cost_falls_with_width_and_order_by_order_stays_below_pure(
        u in log_scale(-3.0, 5.0), wider in 1.0..3.0_f64, v in log_scale(-6.0, 1.0), a in order(), more in 1.0..2.0_f64,
    ) {
        let cost = |u: f64, v: f64, a: f64| mixture::renyi(u, 1.0, v, a).unwrap();
        let here = cost(u, v, a);
        let slack = 1.0 + 1e-9;
        prop_assert!(cost(u * wider, v, a) <= here * slack, "decreasing in the width");
        prop_assert!(cost(u, v, a * more) >= here / slack, "increasing in the order");
        prop_assert!(here <= v && here > 0.0);
        // Convex in the shift and zero at none: half the shift costs at most half.
        prop_assert!(cost(u, 0.5 * v, a) <= 0.5 * here * slack, "convex in the shift");
    }

    #[test]
    fn amplification_falls_with_width_and_stays_below_jensen(
        u in log_scale(-3.0, 5.0), wider in 1.0..3.0_f64, v in log_scale(-6.0, 1.0),
    ) {
        let gamma = LaplaceMixture::from_scaled(u, v).unwrap().gamma();
        prop_assert!(gamma.exact <= gamma.bound * (1.0 + 1e-9) && gamma.bound <= 1.0);
        let other = LaplaceMixture::from_scaled(u * wider, v).unwrap().gamma();
        prop_assert!(other.exact <= gamma.exact * (1.0 + 1e-9));
    }
}

#[test]
fn gaussian_interval_matches_the_references_from_above() {
    let mut count = 0;
    for row in rows(include_str!("../golden/mixture_gauss.csv")) {
        let [u, v, order, x, density, loss, renyi, fisher] = row[..] else { panic!("row {row:?}") };
        let interval = GaussianInterval::from_scaled(u, v).unwrap();
        close(
            "log density",
            &row,
            interval.log_density(x),
            density,
            1e-14 * (4.0 + density.abs() + u),
        );
        close("loss", &row, interval.loss(x), loss, 1e-12 * (1.0 + u) * loss);
        assert!(interval.loss(x) >= loss * (1.0 - 1e-15), "loss of {row:?} rounded down");
        close("fisher", &row, interval.fisher_information(), fisher, 1e-9 * fisher);
        let cost = interval.renyi(order).unwrap();
        close("renyi", &row, cost, renyi, 1e-9 * renyi);
        assert!(cost >= renyi * (1.0 - 1e-15), "cost of {row:?} rounded down: {cost} < {renyi}");
        assert!(cost <= (order * v * v / 2.0).next_up().next_up());
        count += 1;
    }
    assert_eq!(count, 60);
}
