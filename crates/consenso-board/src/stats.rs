//! Ranks over many settings: their means, how sure they are, and which methods cannot be told
//! apart.
//!
//! A block is one setting. In every block methods are ranked, 1 the best, ties by their mean.
//! Friedman's test asks whether all methods rank alike; Nemenyi's critical difference is how far
//! two mean ranks must be apart to differ at a level (Demšar, 2006). Blocks that share a problem
//! are not independent, which makes both more confident than they should be.

use consenso_engine::model::chi_squared_above;

/// The level of intervals and tests.
pub const LEVEL: f64 = 0.95;

/// How often blocks are drawn again for an interval.
const DRAWS: usize = 2000;

/// Returns the rank of every value, 1 the best; equal values share the mean of their ranks, and
/// values that are no numbers are the worst.
#[must_use]
pub fn ranks(values: &[f64], more_is_better: bool) -> Vec<f64> {
    let key = |value: f64| match (value.is_nan(), more_is_better) {
        (true, _) => f64::INFINITY,
        (false, true) => -value,
        (false, false) => value,
    };
    let keys: Vec<f64> = values.iter().map(|&v| key(v)).collect();
    let rank = |own: &f64| {
        let below = keys.iter().filter(|k| *k < own).count() as f64;
        let same = keys.iter().filter(|k| *k == own).count() as f64;
        below + 0.5 * (same + 1.0)
    };
    keys.iter().map(rank).collect()
}

/// Returns who is the best of a block of ranks, each with its share of the win.
#[must_use]
pub fn best_of(block: &[f64]) -> Vec<(usize, f64)> {
    let best = block.iter().copied().fold(f64::INFINITY, f64::min);
    let at: Vec<usize> = (0..block.len()).filter(|&k| block[k] == best).collect();
    let share = 1.0 / at.len() as f64;
    at.into_iter().map(|k| (k, share)).collect()
}

/// What ranks over blocks say.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The mean rank of every method.
    pub mean: Vec<f64>,
    /// Its interval, by drawing blocks again.
    pub interval: Vec<(f64, f64)>,
    /// Blocks in which it was the best, ties shared.
    pub wins: Vec<f64>,
    /// Blocks.
    pub blocks: usize,
    /// Friedman's χ², corrected for ties.
    pub friedman: f64,
    /// The probability of such a χ² where all methods are alike.
    pub p: f64,
    /// How far mean ranks must be apart to differ.
    pub critical_difference: f64,
}

/// Compares methods by their ranks, one row per block; `None` for fewer than two methods or blocks.
#[must_use]
pub fn compare(blocks: &[Vec<f64>]) -> Option<Comparison> {
    let k = blocks.first()?.len();
    let n = blocks.len();
    if k < 2 || n < 2 {
        return None;
    }
    let mean_of = |of: &[&Vec<f64>]| -> Vec<f64> {
        (0..k).map(|m| of.iter().map(|b| b[m]).sum::<f64>() / of.len() as f64).collect()
    };
    let all: Vec<&Vec<f64>> = blocks.iter().collect();
    let mean = mean_of(&all);
    let mut draws: Vec<Vec<f64>> = vec![Vec::with_capacity(DRAWS); k];
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..DRAWS {
        let drawn: Vec<&Vec<f64>> =
            (0..n).map(|_| &blocks[(next(&mut state) % n as u64) as usize]).collect();
        for (of, mean) in draws.iter_mut().zip(mean_of(&drawn)) {
            of.push(mean);
        }
    }
    let interval = draws
        .into_iter()
        .map(|mut of| {
            of.sort_by(f64::total_cmp);
            let at = |share: f64| of[((DRAWS - 1) as f64 * share).round() as usize];
            (at(0.5 * (1.0 - LEVEL)), at(0.5 * (1.0 + LEVEL)))
        })
        .collect();
    let mut wins = vec![0.0; k];
    for (m, share) in blocks.iter().flat_map(|block| best_of(block)) {
        wins[m] += share;
    }
    let (kf, nf) = (k as f64, n as f64);
    let middle = 0.5 * (kf + 1.0);
    let between = nf * mean.iter().map(|r| (r - middle).powi(2)).sum::<f64>();
    let within = blocks.iter().flatten().map(|r| (r - middle).powi(2)).sum::<f64>();
    // Σ over all ranks of (r − r̄)² is what ties leave of nk(k² − 1)/12.
    let friedman = if within > 0.0 { nf * (kf - 1.0) * between / within } else { 0.0 };
    Some(Comparison {
        mean,
        interval,
        wins,
        blocks: n,
        friedman,
        p: chi_squared_above(friedman, k - 1),
        critical_difference: critical_difference(k, n),
    })
}

/// Splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns Nemenyi's critical difference of the mean ranks of `methods` over so many blocks, at
/// [`LEVEL`]: q·√(k(k + 1)/(6n)) with q the quantile of the studentised range over √2.
#[must_use]
pub fn critical_difference(methods: usize, blocks: usize) -> f64 {
    let k = methods as f64;
    let q = range_quantile(methods, LEVEL) / std::f64::consts::SQRT_2;
    q * (k * (k + 1.0) / (6.0 * blocks as f64)).sqrt()
}

/// Returns the quantile at `p` of the range of `k` independent standard normal variables: the
/// studentised range with infinitely many degrees of freedom.
#[must_use]
pub fn range_quantile(k: usize, p: f64) -> f64 {
    let (mut low, mut high) = (0.0, 40.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if range_cdf(k, middle) < p { low = middle } else { high = middle }
    }
    high
}

/// P(range of k standard normal variables ≤ q) = k∫φ(z)[Φ(z) − Φ(z − q)]^{k−1} dz, z the largest.
fn range_cdf(k: usize, q: f64) -> f64 {
    let phi = |z: f64| libm::exp(-0.5 * z * z) / (2.0 * std::f64::consts::PI).sqrt();
    let cdf = |z: f64| 0.5 * libm::erfc(-z / std::f64::consts::SQRT_2);
    let integrand = |z: f64| phi(z) * libm::pow(cdf(z) - cdf(z - q), k as f64 - 1.0);
    // Simpson's rule on a range outside of which φ is below 1e-22.
    let (from, to, steps) = (-10.0, 10.0, 2000);
    let h = (to - from) / f64::from(steps);
    let mut sum = integrand(from) + integrand(to);
    for i in 1..steps {
        sum += if i % 2 == 1 { 4.0 } else { 2.0 } * integrand(from + h * f64::from(i));
    }
    (k as f64 * sum * h / 3.0).clamp(0.0, 1.0)
}

/// Returns the groups of methods that cannot be told apart: largest sets whose mean ranks lie
/// within the critical difference, each as its best and its worst mean rank; groups within another
/// and groups of one are left out.
#[must_use]
pub fn cliques(mean: &[f64], critical_difference: f64) -> Vec<(f64, f64)> {
    let mut sorted = mean.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut found: Vec<(f64, f64)> = Vec::new();
    for (at, &low) in sorted.iter().enumerate() {
        let high = sorted[at..].iter().copied().take_while(|r| r - low <= critical_difference);
        let high = high.fold(low, f64::max);
        if high > low && found.last().is_none_or(|last| high > last.1) {
            found.push((low, high));
        }
    }
    found
}

/// Returns which of these points nothing beats: of a cost that should be small and a figure that
/// should be good, another point is no worse in both and better in one.
#[must_use]
pub fn front(points: &[(f64, f64)], more_is_better: bool) -> Vec<bool> {
    let better = |a: f64, b: f64| if more_is_better { a > b } else { a < b };
    let beats = |a: &(f64, f64), b: &(f64, f64)| {
        a.0 <= b.0 && !better(b.1, a.1) && (a.0 < b.0 || better(a.1, b.1))
    };
    points.iter().map(|p| p.1.is_finite() && !points.iter().any(|other| beats(other, p))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Critical values, Friedman's χ² and its p, as scipy has them: `goldens/stats.py` wrote them.
    #[test]
    fn quantiles_and_friedman_agree_with_scipy() {
        let golden: serde_json::Value =
            serde_json::from_str(include_str!("../goldens/stats.json")).unwrap();
        for entry in golden["studentized_range"].as_array().unwrap() {
            let k = entry["k"].as_u64().unwrap() as usize;
            let (ours, theirs) = (range_quantile(k, LEVEL), entry["q"].as_f64().unwrap());
            assert!((ours - theirs).abs() < 1e-6 * theirs, "k = {k}: {ours} and {theirs}");
        }
        for entry in golden["friedman"].as_array().unwrap() {
            let blocks: Vec<Vec<f64>> = serde_json::from_value(entry["blocks"].clone()).unwrap();
            let ranked: Vec<Vec<f64>> = blocks.iter().map(|b| ranks(b, false)).collect();
            let found = compare(&ranked).unwrap();
            let near = |a: f64, b: &serde_json::Value| (a - b.as_f64().unwrap()).abs() < 1e-9;
            assert!(near(found.friedman, &entry["chi2"]), "{found:?}");
            assert!(near(found.p, &entry["p"]), "{found:?}");
        }
    }

    #[test]
    fn ranks_share_ties_and_put_failures_last() {
        assert_eq!(ranks(&[0.9, 0.7, 0.9, f64::NAN], true), [1.5, 3.0, 1.5, 4.0]);
        assert_eq!(ranks(&[0.9, 0.7, f64::INFINITY], false), [2.0, 1.0, 3.0]);
    }

    #[test]
    fn groups_are_as_large_as_they_can_be() {
        assert_eq!(cliques(&[1.0, 1.5, 2.2, 4.0], 1.0), [(1.0, 1.5), (1.5, 2.2)]);
        assert_eq!(cliques(&[1.0, 3.0], 1.0), []);
        assert_eq!(cliques(&[1.0, 2.0, 3.0], 2.0), [(1.0, 3.0)]);
    }

    #[test]
    fn a_front_has_what_nothing_beats() {
        let points = [(1.0, 0.7), (2.0, 0.8), (3.0, 0.75), (2.0, 0.8), (4.0, f64::NAN)];
        assert_eq!(front(&points, true), [true, true, false, true, false]);
        assert_eq!(front(&points, false), [true, false, false, false, false]);
    }
}
