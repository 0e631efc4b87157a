//! A figure that can be zoomed, toggled and read off: the SVG for readers without scripts and for
//! print, and the numbers for uPlot.
//!
//! The page holds everything: uPlot is inlined with its licence, the policy in the head forbids
//! every request.

use super::figure::{self, Figure, Scale, Series};
use super::format::escape;
use serde_json::{Value, json};

const UPLOT: &str = include_str!("../../assets/uplot-1.6.32.min.js");
const UPLOT_STYLE: &str = include_str!("../../assets/uplot-1.6.32.min.css");
const UPLOT_LICENCE: &str = include_str!("../../assets/uplot-1.6.32.LICENSE");
const CHARTS: &str = include_str!("charts.js");

/// Most points of a line that a page carries; a screen shows no more.
const MOST_POINTS: usize = 1000;

/// One figure of a page: `name` is its id, `caption` is HTML.
pub fn element(name: &str, figure: &Figure, caption: &str) -> String {
    format!(
        "<figure class=\"chart\" id=\"{name}\">\n<div class=\"still\">{}</div>\n\
         <script type=\"application/json\">{}</script>\n<figcaption>{caption}</figcaption>\n</figure>\n",
        figure.to_inline_svg(),
        in_script(&numbers(figure)),
        name = escape(name),
    )
}

/// What the head needs for [`element`]s.
pub(super) fn style() -> &'static str {
    UPLOT_STYLE
}

/// What the end of the body needs for [`element`]s.
pub(super) fn scripts() -> String {
    let palette =
        json!({ "light": figure::COLOURS, "dark": figure::DARK_COLOURS, "dashes": figure::DASHES });
    format!(
        "<script>/*!\nuPlot 1.6.32\n{}\n*/\n{UPLOT}</script>\n\
         <script type=\"application/json\" id=\"palette\">{}</script>\n<script>{CHARTS}</script>\n",
        UPLOT_LICENCE.trim(),
        in_script(&palette),
    )
}

/// JSON that cannot end the element it stands in.
fn in_script(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('&', "\\u0026")
}

fn numbers(figure: &Figure) -> Value {
    let (x, y) = (figure::x_domain(figure), figure::y_domain(figure));
    let lines = figure.lines.iter().filter(|line| line.value.is_finite());
    json!({
        "title": figure.title,
        "opacity": figure.band_opacity(),
        "x": { "label": figure.x.label, "log": figure.x.scale == Scale::Log, "whole": figure.x.scale == Scale::Whole,
               "domain": [x.0, x.1] },
        "y": { "label": figure.y.label, "log": figure.y.scale == Scale::Log, "domain": [y.0, y.1] },
        "series": figure.series.iter().map(|series| columns(figure, series)).collect::<Vec<_>>(),
        "lines": lines.map(|line| json!({ "label": line.label, "value": short(line.value) })).collect::<Vec<_>>(),
    })
}

fn columns(figure: &Figure, series: &Series) -> Value {
    let shown = |scale: Scale, v: f64| {
        (v.is_finite() && (scale != Scale::Log || v > 0.0)).then(|| short(v))
    };
    let every = series.points.len().div_ceil(MOST_POINTS).max(1);
    let last = series.points.len().saturating_sub(1);
    let kept: Vec<_> = series
        .points
        .iter()
        .enumerate()
        .filter(|&(k, p)| (k % every == 0 || k == last) && shown(figure.x.scale, p.x).is_some())
        .map(|(_, p)| p)
        .collect();
    let mean: Vec<Option<f64>> = kept.iter().map(|p| shown(figure.y.scale, p.mean)).collect();
    let mut value = json!({
        "label": series.label,
        "colour": series.colour % figure::COLOURS.len(),
        "dash": series.dash % figure::DASHES.len(),
        "x": kept.iter().map(|p| p.x).collect::<Vec<_>>(),
        "mean": mean,
    });
    if kept.iter().any(|p| p.low < p.mean || p.high > p.mean) {
        // A band's end without a position is where the axis ends.
        let (floor, ceiling) = figure::y_domain(figure);
        let end = |v: f64, mean: f64| {
            shown(figure.y.scale, mean)?;
            Some(short(if v.is_nan() { mean } else { v.clamp(floor.min(mean), ceiling.max(mean)) }))
        };
        value["low"] = kept.iter().map(|p| end(p.low, p.mean)).collect();
        value["high"] = kept.iter().map(|p| end(p.high, p.mean)).collect();
    }
    value
}

/// Six significant digits: what can be read off, in few bytes.
fn short(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}
