//! Mean ranks with their intervals, and which methods cannot be told apart.

use super::marked;
use crate::results::{Ranking, Results};
use crate::stats;
use consenso_study::report::escape;
use consenso_study::report::figure::dark_style;
use std::fmt::Write as _;

const WIDTH: f64 = 640.0;
const ROW: f64 = 26.0;
const TOP: f64 = 84.0;
const RIGHT: f64 = 24.0;
const FONT: &str =
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";

/// One row per method, the best first: its mean rank and interval. A bar on the right joins those
/// whose mean ranks are closer than the critical difference, which is drawn to scale above.
pub(super) fn ranks(results: &Results<'_>, ranking: &Ranking, title: &str, alone: bool) -> String {
    let found = &ranking.found;
    let k = ranking.methods.len();
    let cliques = stats::cliques(&found.mean, found.critical_difference);
    let names: Vec<String> = ranking.methods.iter().map(|&m| marked(results, m)).collect();
    let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(0) as f64;
    let left = (24.0 + 7.2 * longest).min(0.45 * WIDTH);
    let right = WIDTH - RIGHT - 12.0 * cliques.len() as f64;
    let height = TOP + ROW * k as f64 + 44.0;
    let x = |rank: f64| left + (right - left) * (rank - 1.0) / (k as f64 - 1.0);
    let y = |row: usize| TOP + ROW * (row as f64 + 0.5);
    let mut svg = String::new();
    let text = |svg: &mut String,
                at: (f64, f64),
                class: &str,
                size: f64,
                anchor: &str,
                words: &str| {
        let colour = if class == "fig-ink" { "#1d2126" } else { "#5c646d" };
        let _ = write!(
            svg,
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"{anchor}\">{}</text>",
            at.0,
            at.1,
            escape(words)
        );
    };
    let line = |svg: &mut String,
                class: &str,
                colour: &str,
                width: f64,
                from: (f64, f64),
                to: (f64, f64)| {
        let _ = write!(
            svg,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        );
    };
    text(&mut svg, (0.0, 20.0), "fig-ink", 15.0, "start", title);
    let bottom = TOP + ROW * k as f64;
    // Ticks at whole ranks, few enough to read.
    let every = (k / 8).max(1);
    for rank in (1..=k).step_by(every) {
        let at = x(rank as f64);
        line(&mut svg, "fig-grid", "#e6e8eb", 1.0, (at, TOP), (at, bottom));
        text(&mut svg, (at, bottom + 17.0), "fig-muted", 11.5, "middle", &rank.to_string());
    }
    text(
        &mut svg,
        (0.5 * (left + right), bottom + 36.0),
        "fig-muted",
        12.0,
        "middle",
        "mean rank, 1 is the best",
    );
    let end = (x(1.0) + found.critical_difference * (right - left) / (k as f64 - 1.0)).min(right);
    for (from, to) in [
        ((x(1.0), 56.0), (end, 56.0)),
        ((x(1.0), 51.0), (x(1.0), 61.0)),
        ((end, 51.0), (end, 61.0)),
    ] {
        line(&mut svg, "fig-axis", "#5c646d", 1.5, from, to);
    }
    text(
        &mut svg,
        (x(1.0), 45.0),
        "fig-muted",
        12.0,
        "start",
        &format!("critical difference {:.2}", found.critical_difference),
    );
    for (row, name) in names.iter().enumerate() {
        let claimed = ranking.methods[row] >= results.own;
        text(&mut svg, (0.0, y(row) + 4.0), "fig-ink", 12.5, "start", name);
        let (low, high) = found.interval[row];
        line(
            &mut svg,
            "fig-s0",
            "#0072B2",
            2.0,
            (x(low.max(1.0)), y(row)),
            (x(high.min(k as f64)), y(row)),
        );
        let fill = if claimed {
            "class=\"fig-paper fig-s0\" fill=\"#ffffff\" stroke=\"#0072B2\" stroke-width=\"2\""
        } else {
            "class=\"fig-f0\" fill=\"#0072B2\""
        };
        let _ = write!(
            svg,
            "<circle {fill} cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\"/>",
            x(found.mean[row]),
            y(row)
        );
    }
    for (bar, (low, high)) in cliques.iter().enumerate() {
        let rows: Vec<usize> =
            (0..k).filter(|&row| found.mean[row] >= *low && found.mean[row] <= *high).collect();
        let at = right + 14.0 + 12.0 * bar as f64;
        if let (Some(&first), Some(&last)) = (rows.first(), rows.last()) {
            line(&mut svg, "fig-axis", "#5c646d", 4.0, (at, y(first) - 7.0), (at, y(last) + 7.0));
        }
    }
    let words = format!(
        "Mean ranks over {} settings with 95 % intervals; methods joined by a bar cannot be told apart at level 0.05.",
        found.blocks
    );
    let size = format!("width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\"");
    let (paper, style, ns) = match alone {
        true => (
            format!(
                "<rect class=\"fig-paper\" width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>"
            ),
            format!("<style>{}</style>", dark_style()),
            " xmlns=\"http://www.w3.org/2000/svg\"",
        ),
        false => (String::new(), String::new(), ""),
    };
    format!(
        "<svg{ns} {size} role=\"img\"><title>{}</title><desc>{}</desc>{style}{paper}<g font-family=\"{FONT}\">{svg}</g></svg>\n",
        escape(title),
        escape(&words)
    )
}
