//! Noise inside a problem: what leaves the gate, and what it costs, against densities computed by
//! hand in one dimension.

use consenso_engine::account::testing;
use consenso_engine::agent::{NeighbourView, Player, Timetable};
use consenso_engine::data::{Records, RowBounds};
use consenso_engine::gate::{DraftScratch, Noise, RoundNoise};
use consenso_engine::privacy::NeighbourRelation;
use consenso_engine::privacy::objective_perturbation::{InnerNoise, Perturbation};
use consenso_engine::problem::{LocalObjective, Loss, Objective};
use consenso_engine::protocol::{DualVariablePerturbation, Protocol, Weights};
use consenso_engine::random::Seed;
use std::sync::Arc;

const MU: f64 = 0.1;
const D: f64 = 2.0;
const OBJECTIVE: Objective = Objective { loss: Loss::Logistic, regularization: MU };

/// One feature: the first record is in question, the others are public knowledge.
fn records(first: (f64, f64)) -> Records {
    let mut records = Records::with_capacity(1, 3);
    for (z, y) in [first, (0.6, 1.0), (-0.9, 1.0)] {
        records.push(&[z], y);
    }
    records
}

/// f'(x), written out.
fn slope(first: (f64, f64), x: f64) -> f64 {
    let one = |(z, y): (f64, f64)| -y * z / (1.0 + (y * z * x).exp());
    (one(first) + one((0.6, 1.0)) + one((-0.9, 1.0))) / 3.0 + MU * x
}

/// f''(x).
fn bend(first: (f64, f64), x: f64) -> f64 {
    let one = |(z, _): (f64, f64)| z * z * 0.25 / (0.5 * z * x).cosh().powi(2);
    (one(first) + one((0.6, 1.0)) + one((-0.9, 1.0))) / 3.0 + MU
}

fn dvp() -> Arc<dyn Protocol> {
    Arc::new(DualVariablePerturbation { penalty: Some(D), dual_step: Some(0.1) })
}

/// The first release of an agent at 0.4 with one neighbour at 0.2: the centre is 0.3.
fn release(seed: u64, noise: RoundNoise, allowed: u32) -> (f64, bool) {
    let local = LocalObjective::new(OBJECTIVE, records((1.0, -1.0)));
    let gate = testing::gate(0, Seed::from(seed), Arc::from([noise]), testing::ledger(allowed, 1));
    let timetable = Arc::new(Timetable { rounds: 1, tail_from: 1, gossip: 0 });
    let mut player = Player::new(local, dvp(), timetable, gate);
    let weights = Weights { own: 0.5, neighbours: &[0.5] };
    let neighbourhood = NeighbourView {
        rows: &[0.4, 0.2],
        me: 0,
        neighbours: &[1],
        place: 0,
        weights,
        round: 0,
        common: None,
    };
    let mut out = [0.0];
    player.play(&neighbourhood, &mut DraftScratch::default(), &mut out);
    (out[0], player.stopped().is_some())
}

/// x + f'(x)/D = c + n, so P(X ≤ x) = P(n ≤ x + f'(x)/D − c). Kolmogorov–Smirnov at a false-alarm
/// rate of 1e-6; the finishing noise of a thirty-second of the scale moves the distribution
/// function by less than 1e-3.
#[test]
fn the_release_is_the_minimiser_of_the_noised_problem() {
    const SCALE: f64 = 0.5;
    let noise = RoundNoise::new(Noise::Laplace { scale: SCALE }).unwrap();
    let mut values: Vec<f64> = (0..20_000).map(|seed| release(seed, noise, 1).0).collect();
    values.sort_by(f64::total_cmp);
    let laplace = |t: f64| if t < 0.0 { 0.5 * t.exp() } else { 1.0 - 0.5 * (-t).exp() };
    let cdf = |x: f64| laplace((x + slope((1.0, -1.0), x) / D - 0.3) / SCALE);
    let n = values.len() as f64;
    let distance = values.iter().enumerate().map(|(i, &x)| (cdf(x) - (i as f64 + 0.5) / n).abs());
    let (found, limit) = (distance.fold(0.0, f64::max), (2e6f64.ln() / 2.0 / n).sqrt() + 1e-3);
    assert!(found < limit, "{found} against {limit}");
    // The same test notices noise that was put on the solution instead.
    let solution = values[values.len() / 2];
    let outside = |x: f64| laplace((x - solution) / SCALE);
    let distance =
        values.iter().enumerate().map(|(i, &x)| (outside(x) - (i as f64 + 0.5) / n).abs());
    assert!(distance.fold(0.0, f64::max) > limit);
}

#[test]
fn nothing_is_solved_or_sent_without_a_charge() {
    let noise = RoundNoise::new(Noise::Laplace { scale: 0.5 }).unwrap();
    let (sent, stopped) = release(1, noise, 0);
    // A mix of what was released before.
    assert!(stopped && (sent - 0.3).abs() < 1e-15, "{sent}");
    // A centre too far out for the rounding that the cost allows for.
    let (sent, stopped) = release(1, RoundNoise::new(Noise::Laplace { scale: 1e-7 }).unwrap(), 1);
    assert!(stopped && (sent - 0.3).abs() < 1e-15, "{sent}");
}

/// sup_x |ln p(x) − ln p̂(x)| over a fine grid is below the cost, and not far below for the worst
/// pair of records.
#[test]
fn the_cost_covers_the_density_ratio_and_is_not_loose() {
    let bounds = RowBounds::declared(1.0, 1.0, 1.0);
    let gradient = OBJECTIVE.sensitivity(&bounds, 3, NeighbourRelation::ReplaceOne);
    for scale in [0.05, 0.5, 5.0] {
        let cost = Perturbation {
            inside: InnerNoise::Laplace,
            scale,
            shift: gradient.l1 / D,
            volume: OBJECTIVE.volume_sensitivity(&bounds, 3, D),
            curvature: (0.0, [0, 0]),
            solver_error: 1e-9,
            dim: 1,
        }
        .cost();
        let log_density = |first: (f64, f64), x: f64| {
            -(x + slope(first, x) / D - 0.3).abs() / scale + (1.0 + bend(first, x) / D).ln()
        };
        let mut worst = 0.0f64;
        for (a, b) in
            [((1.0, 1.0), (1.0, -1.0)), ((1.0, 1.0), (0.0, 1.0)), ((-1.0, 1.0), (0.3, 1.0))]
        {
            for k in -40_000..=40_000 {
                let x = f64::from(k) / 2000.0;
                worst = worst.max((log_density(a, x) - log_density(b, x)).abs());
            }
        }
        assert!(worst <= cost, "scale {scale}: {worst} above {cost}");
        // Far out one of the two records has its full slope and the other none: half of the
        // replace-one bound is always reached.
        assert!(worst > 0.4 * cost || scale > 1.0, "scale {scale}: {worst} far below {cost}");
    }
}

/// The determinant's share for a pair that differs in curvature only is below the bound, in several
/// dimensions.
#[test]
fn the_volume_bound_covers_determinants_of_two_features() {
    let bounds = RowBounds::declared(2f64.sqrt(), 1.0, 1.0);
    let bound = OBJECTIVE.volume_sensitivity(&bounds, 3, D);
    let rest = [(0.8f64, 0.6f64), (0.0, 1.0)];
    let determinant = |first: (f64, f64)| {
        let (mut a, mut b, mut c) = (D + MU, 0.0, D + MU);
        for (p, q) in [first, rest[0], rest[1]] {
            // At the origin every logistic record has curvature ¼.
            a += 0.25 * p * p / 3.0;
            b += 0.25 * p * q / 3.0;
            c += 0.25 * q * q / 3.0;
        }
        a * c - b * b
    };
    let mut most = 0.0f64;
    for k in 0..360 {
        let angle = f64::from(k).to_radians();
        let ratio = (determinant((angle.cos(), angle.sin())) / determinant((0.0, 0.0))).ln();
        assert!(ratio <= bound, "{ratio} {bound}");
        most = most.max(ratio);
    }
    assert!(most > 0.85 * bound, "{most} {bound}");
}
