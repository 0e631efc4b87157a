//! Estimates with their intervals: the regression table, a forest plot, and survival curves.

use super::figure::{Axis, Figure, Point, Scale, Series};
use super::format::escape;
use consenso_engine::model::{Estimate, Inference};
use consenso_engine::record::{Estimates, Record};
use std::fmt::Write as _;

/// Most rows of a forest plot.
const MOST_ROWS: usize = 60;
/// Width of a plot, of the names at its left, and of what is written at its right.
const WIDTH: f64 = 860.0;
const NAMES: f64 = 230.0;
const RIGHT: f64 = 190.0;
const ROW: f64 = 24.0;

/// The tables and plots of all algorithms that have standard errors; empty without any.
pub(super) fn section(record: &Record) -> String {
    let mut html = String::new();
    for algorithm in &record.algorithms {
        let Some(estimates) = &algorithm.estimates else { continue };
        let _ = write!(html, "<h3>{}</h3>\n{}", escape(&algorithm.label), table(estimates));
        html += &forest(estimates, &algorithm.label);
        html += &survival(estimates, &algorithm.label);
        html += &calibration(&estimates.found);
        for note in &estimates.found.notes {
            let _ = writeln!(html, "<p class=\"sub\">{}.</p>", escape(note));
        }
    }
    html
}

/// Predictions beside outcomes, where the study asked for it.
fn calibration(found: &Inference) -> String {
    let Some(calibration) = &found.calibration else { return String::new() };
    let (header, rows) = calibration.rows(found.level);
    let table = table_of(&header, &rows, "Predictions beside outcomes");
    format!("{table}<p class=\"sub\">{}.</p>\n", escape(&calibration.verdict()))
}

fn table_of(header: &[String], rows: &[Vec<String>], name: &str) -> String {
    let heads: String =
        header.iter().map(|h| format!("<th scope=\"col\">{}</th>", escape(h))).collect();
    let mut body = String::new();
    for row in rows {
        let Some((name, cells)) = row.split_first() else { continue };
        let cells: String = cells.iter().map(|c| format!("<td>{}</td>", escape(c))).collect();
        let _ = writeln!(body, "<tr><th scope=\"row\">{}</th>{cells}</tr>", escape(name));
    }
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"{name}\" tabindex=\"0\">\n<table class=\"results\">\n\
         <thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n</div>\n"
    )
}

fn table(estimates: &Estimates) -> String {
    let Some((header, rows)) = estimates.table.split_first() else { return String::new() };
    let mut html = table_of(header, rows, "Regression table");
    for test in &estimates.found.tests {
        let p = if test.p < 0.001 { "&lt; 0.001".into() } else { format!("= {:.3}", test.p) };
        let _ = writeln!(
            html,
            "<p class=\"sub\">{}: Wald χ² = {:.2} on {} degrees of freedom, p {p}.</p>",
            escape(&test.column),
            test.statistic,
            test.df
        );
    }
    if let Some(why) = estimates.found.coefficients.iter().find_map(|c| c.refused.as_ref()) {
        let refused = estimates.found.coefficients.iter().filter(|c| c.refused.is_some()).count();
        let all = estimates.found.coefficients.len();
        let _ = writeln!(html, "<p class=\"sub\">{refused} of {all} {}.</p>", escape(why));
    }
    html
}

/// The coefficients of columns, without intercepts, that are not refused.
fn rows(inference: &Inference) -> Vec<&Estimate> {
    let intercepts = inference.times.len().max(1);
    let slopes = inference.coefficients.len().saturating_sub(intercepts);
    let said = |c: &&Estimate| c.estimate.is_some() && !c.feature.contains('|');
    inference.coefficients[..slopes].iter().filter(said).take(MOST_ROWS).collect()
}

/// Every coefficient with its interval, and beside it the one without privacy. Each row has a scale
/// of its own around zero, for units of columns differ.
fn forest(estimates: &Estimates, label: &str) -> String {
    let rows = rows(&estimates.found);
    if rows.is_empty() {
        return String::new();
    }
    let height = ROW * rows.len() as f64 + 30.0;
    let (left, right) = (NAMES, WIDTH - RIGHT);
    let middle = 0.5 * (left + right);
    let mut svg = format!(
        "<svg class=\"forest\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Intervals of the coefficients of {}\" \
         style=\"width:100%;max-width:{WIDTH}px;font-size:13px\" fill=\"currentColor\">\n\
         <line x1=\"{middle}\" x2=\"{middle}\" y1=\"4\" y2=\"{}\" stroke=\"currentColor\" stroke-opacity=\"0.4\" stroke-dasharray=\"3 3\"/>\n",
        escape(label),
        height - 22.0
    );
    for (index, one) in rows.iter().enumerate() {
        let plain = estimates.not_private.as_ref().and_then(|p| p.of_feature(&one.feature));
        let y = ROW * (index as f64 + 0.5) + 4.0;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            left - 10.0,
            y + 4.0,
            escape(&one.feature)
        );
        let ends = |e: &Estimate| e.low.zip(e.high).map_or(0.0, |(l, h)| l.abs().max(h.abs()));
        let most = plain.map_or(0.0, ends).max(ends(one)).max(f64::MIN_POSITIVE);
        let x = |v: f64| middle + 0.48 * (right - left) * v / most;
        if let Some(plain) = plain {
            svg += &interval(plain, &x, y + 5.0, 0.45, 2.0);
        }
        svg += &interval(one, &x, y - 2.0, 1.0, 3.5);
        if let (Some(at), Some(error)) = (one.estimate, one.std_error) {
            let digits = (1.0 - error.max(1e-9).log10().floor()).clamp(0.0, 9.0) as usize;
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\">{at:+.digits$} ± {error:.digits$}</text>",
                right + 10.0,
                y + 4.0
            );
        }
    }
    let level = 100.0 * estimates.found.level;
    let beside = match estimates.not_private {
        Some(_) => {
            "; the thin line below is the interval without privacy, which a simulation knows"
        }
        None => "",
    };
    let _ = write!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" fill-opacity=\"0.7\">0</text>\n</svg>\n",
        height - 6.0
    );
    format!(
        "<figure>\n{svg}<figcaption>Estimates with {level} % intervals, per unit of their columns. Every row has a scale of its own around \
         zero{beside}.</figcaption>\n</figure>\n"
    )
}

/// One interval with its estimate.
fn interval(
    estimate: &Estimate,
    x: &impl Fn(f64) -> f64,
    y: f64,
    opacity: f64,
    radius: f64,
) -> String {
    let (Some(at), Some(low), Some(high)) = (estimate.estimate, estimate.low, estimate.high) else {
        return String::new();
    };
    format!(
        "<g opacity=\"{opacity}\"><line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" stroke-width=\"{}\"/>\
         <circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"{radius}\"/></g>\n",
        x(low),
        x(high),
        radius / 2.0,
        x(at)
    )
}

/// The survival curve of a record in the middle of all columns, with its band.
fn survival(estimates: &Estimates, label: &str) -> String {
    if estimates.survival.is_empty() {
        return String::new();
    }
    let start = Point { x: 0.0, low: 1.0, mean: 1.0, high: 1.0 };
    let point = |p: &consenso_engine::model::SurvivalPoint| Point {
        x: p.time,
        low: p.low,
        mean: p.estimate,
        high: p.high,
    };
    let points = std::iter::once(start).chain(estimates.survival.iter().map(point)).collect();
    let mut share = Axis::new("without the event", Scale::Linear);
    share.limits = Some((0.0, 1.0));
    let figure = Figure {
        title: format!("Survival, {label}"),
        description:
            "The probability to be without the event, of a record in the middle of all columns"
                .into(),
        x: Axis::new("time", Scale::Linear),
        y: share,
        series: vec![Series::new(label, 0, points)],
        lines: Vec::new(),
    };
    format!(
        "<figure>\n{}<figcaption>The probability to be without the event, of a record in the middle of all columns, with its {} % band. \
         <code>consenso model show RUN --at column=value</code> is that of another record.</figcaption>\n</figure>\n",
        figure.to_inline_svg(),
        100.0 * estimates.found.level
    )
}
