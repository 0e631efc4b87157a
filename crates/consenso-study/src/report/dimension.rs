//! What dimensions cost: a sweep over d as a figure and as a table.

use super::format::{escape, number};
use super::{Axis, Figure, Point, Scale, Series};
use consenso_engine::record::{AlgorithmRecord, Record, SweepPoint};
use std::fmt::Write as _;

/// The points of a sweep over d, by d; nothing if it varies something else.
fn points(record: &Record) -> Vec<&SweepPoint> {
    let Some(first) = record.sweep.first() else { return Vec::new() };
    let same = |p: &&SweepPoint| (p.agents, p.epsilon) == (first.agents, first.epsilon);
    let points: Vec<&SweepPoint> = record.sweep.iter().filter(same).collect();
    if points.iter().any(|p| p.dim != first.dim) { points } else { Vec::new() }
}

/// (d, F(x̄) − F*) of one algorithm, where it was run.
fn gaps(points: &[&SweepPoint], label: &str) -> Vec<(f64, f64)> {
    let at = |point: &&SweepPoint| {
        let found = point.algorithms.iter().find(|a| a.label == label)?;
        Some((point.dim as f64, found.optimum_gap))
    };
    points.iter().filter_map(at).collect()
}

/// The slope of a least-squares line through the logarithms: p of gap ∝ d^p. `None` with fewer than
/// two points.
#[must_use]
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs =
        points.iter().filter(|p| p.0 > 0.0 && p.1 > 0.0).map(|p| (libm::log(p.0), libm::log(p.1)));
    let logs: Vec<(f64, f64)> = logs.collect();
    let n = logs.len() as f64;
    let mean = |f: fn(&(f64, f64)) -> f64| logs.iter().map(f).sum::<f64>() / n;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let across: f64 = logs.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let along: f64 = logs.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    (along > 0.0).then(|| across / along)
}

/// An exponent in words.
#[must_use]
pub fn growth(exponent: f64) -> String {
    // Adding zero makes a rounded −0 a 0.
    format!("d^{:.2}", libm::round(100.0 * exponent) / 100.0 + 0.0)
}

/// The utility loss against d, with guides of the growth that theorems allow.
pub(super) fn figure(record: &Record) -> Option<(String, Figure)> {
    let points = points(record);
    let first = *points.first()?;
    let line = |(k, named): (usize, &AlgorithmRecord)| {
        let measured = gaps(&points, &named.label).into_iter().map(Point::from).collect();
        Series::new(&named.label, k, measured)
    };
    let mut series: Vec<Series> = first.algorithms.iter().enumerate().map(line).collect();
    series.extend(guides(&points, first));
    let figure = Figure {
        title: "What dimensions cost".into(),
        description: "How far the objective at the network's mean model ends above the optimum, against the number of coordinates, for one problem whose \
                      rows and optimum do not change with it, under one budget. Black lines are guides: constant, which Theorem 4.1 allows a generalised \
                      linear loss; √ln(2d), which Theorem 4.2 allows any loss whose gradient is bounded in l1; √d and d, the price of knowing the sensitivity \
                      in the l∞ norm alone."
            .into(),
        x: Axis::new("dimensions d, logarithmic", Scale::Log),
        y: Axis::new("F(mean model) − F(x*), logarithmic", Scale::Log),
        series,
        lines: Vec::new(),
    };
    Some(("dimension".into(), figure))
}

/// Its name, where it starts, and its shape up to a factor.
type Guide = (&'static str, f64, fn(f64) -> f64);

/// Lines of known growth, from the least and from the largest loss at the smallest d.
fn guides(points: &[&SweepPoint], first: &SweepPoint) -> Vec<Series> {
    let start = first.dim as f64;
    let at_start = || first.algorithms.iter().map(|a| a.optimum_gap).filter(|g| *g > 0.0);
    let (least, most) = (at_start().fold(f64::INFINITY, f64::min), at_start().fold(0.0, f64::max));
    if !(least.is_finite() && start >= 1.0) {
        return Vec::new();
    }
    let all: [Guide; 4] = [
        ("constant", least, |_| 1.0),
        ("∝ √ln(2d)", least, |d| libm::log(2.0 * d).sqrt()),
        ("∝ √d", most, f64::sqrt),
        ("∝ d", most, |d| d),
    ];
    // So many that no line shows them: a guide measures nothing.
    let (steps, end) = (32, points.last().map_or(start, |p| p.dim as f64));
    let places =
        (0..=steps).map(|k| start * libm::pow(end / start, f64::from(k) / f64::from(steps)));
    let places: Vec<f64> = places.collect();
    let guide = |(k, &(label, from, shape)): (usize, &Guide)| Series {
        label: format!("guide {label}"),
        points: places.iter().map(|&d| Point::from((d, from * shape(d) / shape(start)))).collect(),
        colour: 6,
        dash: [6, 2, 5, 3][k],
    };
    all.iter().enumerate().map(guide).collect()
}

/// One row per algorithm, one column per dimension, and the growth that fits; nothing without a sweep over
/// d.
pub(super) fn table(record: &Record) -> String {
    let points = points(record);
    let Some(first) = points.first() else { return String::new() };
    let mut heads = String::new();
    for point in &points {
        let _ = write!(heads, "<th scope=\"col\">d = {}</th>", point.dim);
    }
    let mut rows = String::new();
    for named in &first.algorithms {
        let _ = write!(rows, "<tr><th scope=\"row\">{}</th>", escape(&named.label));
        for point in &points {
            let found = point.algorithms.iter().find(|a| a.label == named.label);
            let cell = found.map_or_else(|| "–".into(), |a| number(a.optimum_gap, 3));
            let _ = write!(rows, "<td>{cell}</td>");
        }
        let fitted = exponent(&gaps(&points, &named.label)).map_or_else(|| "–".into(), growth);
        let _ = writeln!(rows, "<td>{fitted}</td></tr>");
    }
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"Utility loss by dimension\" tabindex=\"0\">\n\
         <table class=\"results\">\n<thead><tr><th scope=\"col\">F(mean model) − F(x*)</th>{heads}<th scope=\"col\">grows as</th></tr></thead>\n\
         <tbody class=\"algorithms\">\n{rows}</tbody>\n</table>\n</div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::exponent;

    #[test]
    fn the_exponent_of_a_power_is_found() {
        let of = |p: f64| exponent(&[10.0, 100.0, 1e5].map(|d: f64| (d, 0.3 * d.powf(p))));
        for p in [0.0, 0.5, 1.0, -2.0] {
            assert!((of(p).unwrap() - p).abs() < 1e-12);
        }
        assert_eq!(super::growth(-0.003), "d^0.00");
        assert_eq!(exponent(&[(10.0, 1.0)]), None);
        assert_eq!(
            exponent(&[(10.0, 1.0), (100.0, -1.0)]),
            None,
            "a gap below zero has no logarithm"
        );
    }
}
