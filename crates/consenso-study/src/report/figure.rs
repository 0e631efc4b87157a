//! Line charts as SVG.
//!
//! Written here and not taken from a plotting crate: the figures of a run are one kind of chart,
//! and what they need (colours that follow the reader's dark mode, a name and a description for
//! screen readers, text that is never clipped, no script) is what general plotters do not offer.
//! Colours are presentation attributes, so every renderer and typesetter shows the light figure;
//! the style sheet only overrides them in the dark.

use super::format::{coordinate, escape, exact, scientific, tick};
use super::ticks::{self, Ticks};

const WIDTH: f64 = 520.0;
const MARGIN: f64 = 14.0;
const PLOT_HEIGHT: f64 = 236.0;
const FONT: &str =
    "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const INK: &str = "#1d2126";
const MUTED: &str = "#5c646d";
const GRID: &str = "#e6e8eb";
const TITLE: f64 = 15.0;
const TEXT: f64 = 12.0;
const SMALL: f64 = 11.0;

/// What a logarithmic axis takes for zero: far from where doubles lose digits.
const LEAST: f64 = 1e-300;

/// Okabe and Ito's palette, safe for the colour-blind, without its yellow, which white swallows.
pub(super) const COLOURS: [&str; 7] =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
/// Colours on dark paper, where yellow serves and black and blue do not.
pub(super) const DARK_COLOURS: [&str; 7] =
    ["#56B4E9", "#F0803C", "#2BC49A", "#DD94BC", "#E69F00", "#F0E442", "#f2f2f2"];
/// Dashes tell lines apart in grey. One more than there are colours, so that pairs repeat late.
pub(super) const DASHES: [&str; 8] =
    ["", "7 3", "2 2.5", "9 3 2 3", "14 3", "5 2 1.5 2 1.5 2", "1 3.5", "12 3 5 3"];

/// A line of so few points shows them: what was measured, and what is drawn between.
const FEW: usize = 24;

/// What the reader's dark mode changes. The same rules serve a file and a page of many figures.
pub fn dark_style() -> String {
    let mut rules = String::from(
        "@media screen and (prefers-color-scheme: dark){\
         .fig-paper{fill:#15181c}.fig-ink{fill:#e4e7ea}.fig-muted{fill:#a3abb3}.fig-grid{stroke:#2b3036}\
         .fig-axis{stroke:#8b939b}.fig-ref{stroke:#8b939b}",
    );
    for (k, colour) in DARK_COLOURS.iter().enumerate() {
        rules += &format!(".fig-s{k}{{stroke:{colour}}}.fig-f{k}{{fill:{colour}}}");
    }
    rules + "}"
}

/// A line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Above the chart.
    pub title: String,
    /// What is to be seen, in a sentence or two: the caption on a page, the description for a
    /// screen reader.
    pub description: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Lines with their bands.
    pub series: Vec<Series>,
    /// Horizontal lines to compare with.
    pub lines: Vec<Reference>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// What it measures, with its unit.
    pub label: String,
    /// How values become positions.
    pub scale: Scale,
    /// Values outside are cut off at the frame. Without it the axis holds all values.
    pub limits: Option<(f64, f64)>,
}

impl Axis {
    /// An axis that holds all values.
    pub fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale, limits: None }
    }
}

/// How values become positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Proportionally.
    Linear,
    /// Proportionally, with ticks at whole numbers only.
    Whole,
    /// By logarithm. Values that are not positive leave a gap. The axis ends 16 decades under and 6
    /// over where the lines start.
    Log,
}

/// A line and the band around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub label: String,
    /// In order of x. A mean that is not finite leaves a gap.
    pub points: Vec<Point>,
    /// Index into the palette, which repeats after 7.
    pub colour: usize,
    /// Index into the dashes, which repeat after 8; the first is solid.
    pub dash: usize,
}

impl Series {
    /// The `index`-th line of a figure.
    pub fn new(label: impl Into<String>, index: usize, points: Vec<Point>) -> Self {
        Self { label: label.into(), points, colour: index, dash: index }
    }
}

/// A point of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// The band's lower end.
    pub low: f64,
    /// The line.
    pub mean: f64,
    /// The band's upper end.
    pub high: f64,
}

impl From<(f64, f64)> for Point {
    /// A point of a line without a band.
    fn from((x, mean): (f64, f64)) -> Self {
        Self { x, low: mean, mean, high: mean }
    }
}

/// A horizontal line to compare with.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// Its name, written at its right end.
    pub label: String,
    /// Where on the vertical axis.
    pub value: f64,
}

impl Figure {
    /// Many bands over each other would end in one grey.
    pub(super) fn band_opacity(&self) -> f64 {
        if self.series.len() > 3 { 0.1 } else { 0.16 }
    }

    /// A file of its own, with its paper and its style.
    pub fn to_svg(&self) -> String {
        self.render(true)
    }

    /// An element for a page that has the style already and whose paper shows through.
    pub(super) fn to_inline_svg(&self) -> String {
        self.render(false)
    }

    fn render(&self, alone: bool) -> String {
        let frame = Frame::of(self);
        let mut pen = Pen(String::new());
        self.draw_heading(&mut pen, &frame);
        frame.draw_grid(&mut pen);
        frame.draw_axis_labels(&mut pen, &self.x.label);
        self.draw_data(&mut pen, &frame);
        frame.draw_references(&mut pen);
        self.draw_legend(&mut pen, &frame);

        let (title, description) = (escape(&self.title), escape(&self.description));
        // A page has margins of its own.
        let (edge, width) = if alone { (0.0, WIDTH) } else { (MARGIN, WIDTH - 2.0 * MARGIN) };
        let size = format!(
            "width=\"{width}\" height=\"{0}\" viewBox=\"{edge} 0 {width} {0}\"",
            frame.height
        );
        let head = if alone {
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} role=\"img\"><title>{title}</title>\
                 <desc>{description}</desc><style>{}</style>\
                 <rect class=\"fig-paper\" width=\"{WIDTH}\" height=\"{}\" fill=\"#ffffff\"/>",
                dark_style(),
                frame.height
            )
        } else {
            format!("<svg {size} role=\"img\"><title>{title}</title><desc>{description}</desc>")
        };
        format!("{head}<g font-family=\"{FONT}\">{}</g></svg>\n", pen.0)
    }

    fn draw_heading(&self, pen: &mut Pen, frame: &Frame) {
        for (k, line) in frame.title.iter().enumerate() {
            pen.text(line, (MARGIN, 24.0 + 19.0 * k as f64), TITLE, Ink::Strong, Anchor::Start);
        }
        pen.text(&frame.y_label, (MARGIN, frame.top - 13.0), TEXT, Ink::Muted, Anchor::Start);
    }

    /// Bands under lines, both cut off at the frame: an inner `svg` clips without an id that a page
    /// could hold twice.
    fn draw_data(&self, pen: &mut Pen, frame: &Frame) {
        pen.push(&format!(
            "<svg x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" overflow=\"hidden\">",
            short(frame.left),
            short(frame.top),
            short(frame.width()),
            short(PLOT_HEIGHT)
        ));
        let segments: Vec<(&Series, Vec<Vec<Point>>)> =
            self.series.iter().map(|series| (series, frame.segments(series))).collect();
        for (series, segments) in &segments {
            segments
                .iter()
                .for_each(|segment| draw_band(pen, segment, series.colour, self.band_opacity()));
        }
        frame.draw_reference_lines(pen);
        for (series, segments) in &segments {
            segments.iter().for_each(|segment| draw_line(pen, segment, series));
        }
        pen.push("</svg>");
        if segments.iter().all(|(_, segments)| segments.is_empty()) {
            let middle = (frame.left + frame.width() / 2.0, frame.top + PLOT_HEIGHT / 2.0);
            pen.text("no finite values to show", middle, TEXT, Ink::Muted, Anchor::Middle);
        }
    }

    fn draw_legend(&self, pen: &mut Pen, frame: &Frame) {
        for (series, entry) in self.series.iter().zip(&frame.legend) {
            let (x, y, colour) = (entry.x, entry.y, series.colour % COLOURS.len());
            pen.push(&format!(
                "<rect class=\"fig-f{colour}\" x=\"{}\" y=\"{}\" width=\"28\" height=\"10\" fill=\"{}\" fill-opacity=\"0.16\"/>",
                short(x), short(y - 9.0), COLOURS[colour]
            ));
            pen.path(&format!("M{} {}h28", short(x), short(y - 4.0)), series);
            if series.points.len() <= FEW {
                pen.mark((x + 14.0, y - 4.0), series);
            }
            pen.text(&entry.text, (x + 34.0, y), TEXT, Ink::Strong, Anchor::Start);
        }
    }
}

/// Where everything is.
struct Frame {
    title: Vec<String>,
    y_label: String,
    left: f64,
    right: f64,
    top: f64,
    height: f64,
    x: Mapping,
    y: Mapping,
    x_ticks: Vec<(f64, String)>,
    y_ticks: Vec<(f64, String)>,
    y_minor: Vec<f64>,
    references: Vec<Note>,
    legend: Vec<Entry>,
}

/// A label of a reference line: wanted at `at`, moved to `y` so that none covers another.
struct Note {
    lines: Vec<String>,
    at: f64,
    y: f64,
}

struct Entry {
    text: String,
    x: f64,
    y: f64,
}

impl Frame {
    fn of(figure: &Figure) -> Self {
        let (x_domain, y_domain) = (x_domain(figure), y_domain(figure));
        let (y_values, y_labels, y_minor) = axis_ticks(&figure.y, y_domain);
        let (x_values, x_labels, _) = axis_ticks(&figure.x, x_domain);
        let title = wrap(&figure.title, WIDTH - 2.0 * MARGIN, TITLE);
        let top = 24.0 + 19.0 * title.len() as f64 + 17.0;
        let widest = y_labels.iter().map(|label| text_width(label, SMALL)).fold(0.0, f64::max);
        let left = MARGIN + widest.max(20.0) + 9.0;

        let y = Mapping {
            domain: y_domain,
            range: (PLOT_HEIGHT, 0.0),
            log: figure.y.scale == Scale::Log,
        };
        let references = place_notes(&figure.lines, &y);
        let notes =
            references.iter().flat_map(|note| &note.lines).map(|line| text_width(line, SMALL));
        let notes = notes.fold(0.0, f64::max);
        // The last label of the horizontal axis is centred under its tick, and a page has no margin
        // of ours.
        let overhang = x_labels.last().map_or(0.0, |label| text_width(label, SMALL) / 2.0);
        let room =
            if references.is_empty() { overhang.max(4.0) } else { (notes + 12.0).max(overhang) };
        let right = WIDTH - MARGIN - room;
        let x = Mapping {
            domain: x_domain,
            range: (0.0, right - left),
            log: figure.x.scale == Scale::Log,
        };

        let (legend, rows) = place_legend(&figure.series, top + PLOT_HEIGHT + 64.0);
        let height = top + PLOT_HEIGHT + 52.0 + 19.0 * rows as f64;
        let at = |mapping: &Mapping, values: Vec<f64>, labels: Vec<String>| {
            values.iter().map(|&v| mapping.at(v)).zip(labels).collect::<Vec<_>>()
        };
        let (x_ticks, y_ticks) = (at(&x, x_values, x_labels), at(&y, y_values, y_labels));
        let y_minor = y_minor.iter().map(|&v| y.at(v)).collect();
        let y_label = fit(&figure.y.label, WIDTH - 2.0 * MARGIN, TEXT);
        Self {
            title,
            y_label,
            left,
            right,
            top,
            height,
            x,
            y,
            x_ticks,
            y_ticks,
            y_minor,
            references,
            legend,
        }
    }

    fn width(&self) -> f64 {
        self.right - self.left
    }

    fn draw_grid(&self, pen: &mut Pen) {
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.top + PLOT_HEIGHT);
        for (y, label) in &self.y_ticks {
            pen.line((left, top + y), (right, top + y), Stroke::Grid);
            pen.text(label, (left - 8.0, top + y + 4.0), SMALL, Ink::Muted, Anchor::End);
        }
        for y in &self.y_minor {
            pen.line((left - 3.0, top + y), (left, top + y), Stroke::Axis);
        }
        for (x, label) in &self.x_ticks {
            pen.line((left + x, bottom), (left + x, bottom + 4.0), Stroke::Axis);
            pen.text(label, (left + x, bottom + 18.0), SMALL, Ink::Muted, Anchor::Middle);
        }
        for (y, _) in &self.y_ticks {
            pen.line((left - 5.0, top + y), (left, top + y), Stroke::Axis);
        }
        pen.line((left, top), (left, bottom), Stroke::Axis);
        pen.line((left, bottom), (right, bottom), Stroke::Axis);
    }

    fn draw_axis_labels(&self, pen: &mut Pen, x_label: &str) {
        let middle = (self.left + self.width() / 2.0, self.top + PLOT_HEIGHT + 37.0);
        pen.text(&fit(x_label, self.width(), TEXT), middle, TEXT, Ink::Muted, Anchor::Middle);
    }

    fn draw_reference_lines(&self, pen: &mut Pen) {
        for note in &self.references {
            pen.line((0.0, note.at), (self.width(), note.at), Stroke::Reference);
        }
    }

    fn draw_references(&self, pen: &mut Pen) {
        for note in &self.references {
            let (from, to) =
                ((self.right, self.top + note.at), (self.right + 9.0, self.top + note.y));
            pen.line(from, to, Stroke::Leader);
            let first = self.top + note.y + 4.0 - 6.0 * (note.lines.len() - 1) as f64;
            for (k, line) in note.lines.iter().enumerate() {
                pen.text(
                    line,
                    (self.right + 12.0, first + 12.0 * k as f64),
                    SMALL,
                    Ink::Muted,
                    Anchor::Start,
                );
            }
        }
    }

    /// The unbroken pieces of a line, in positions within the frame.
    fn segments(&self, series: &Series) -> Vec<Vec<Point>> {
        let mut segments = vec![Vec::new()];
        for point in &series.points {
            match (self.place(point), segments.last_mut()) {
                (Some(placed), Some(segment)) => segment.push(placed),
                (None, Some(segment)) if !segment.is_empty() => segments.push(Vec::new()),
                _ => {}
            }
        }
        segments.retain(|segment| !segment.is_empty());
        segments.iter().map(|segment| thin(segment)).collect()
    }

    fn place(&self, point: &Point) -> Option<Point> {
        let shown = |mapping: &Mapping, v: f64| v.is_finite() && (!mapping.log || v >= LEAST);
        if !shown(&self.x, point.x) || !shown(&self.y, point.mean) {
            return None;
        }
        // A band's end without a position is at the frame, one without a value at the line.
        let end = |v: f64| if v.is_nan() { self.y.at(point.mean) } else { self.y.at(v) };
        Some(Point {
            x: self.x.at(point.x),
            low: end(point.low),
            mean: self.y.at(point.mean),
            high: end(point.high),
        })
    }
}

/// A line from values to positions.
struct Mapping {
    domain: (f64, f64),
    range: (f64, f64),
    log: bool,
}

impl Mapping {
    /// Infinite and far values end outside the frame, not at infinity.
    fn at(&self, value: f64) -> f64 {
        let unit = |v: f64| if self.log { v.max(LEAST / 100.0).ln() } else { v };
        let (low, high) = (unit(self.domain.0), unit(self.domain.1));
        let share = ((unit(value) - low) / (high - low)).clamp(-1.0, 2.0);
        self.range.0 + share * (self.range.1 - self.range.0)
    }
}

pub(super) fn x_domain(figure: &Figure) -> (f64, f64) {
    let log = figure.x.scale == Scale::Log;
    let xs = figure.series.iter().flat_map(|s| &s.points).map(|p| p.x);
    let (low, high) = range(xs.filter(|&x| x.is_finite() && (!log || x >= LEAST)));
    let (low, high) = limited((low, high), figure.x.limits);
    match figure.x.scale {
        _ if low > high => (if log { 0.1 } else { 0.0 }, 1.0),
        Scale::Whole if low == high => (low - 1.0, high + 1.0),
        Scale::Linear if narrow(low, high) => around(low),
        Scale::Log if low == high => (low / 2.0, high * 2.0),
        _ => (low, high),
    }
}

pub(super) fn y_domain(figure: &Figure) -> (f64, f64) {
    let points = || figure.series.iter().flat_map(|s| &s.points);
    let values = points()
        .flat_map(|p| [p.low, p.mean, p.high])
        .chain(figure.lines.iter().map(|line| line.value));
    let (low, high) = if figure.y.scale == Scale::Log {
        log_range(figure, values)
    } else {
        range(values.filter(|v| v.is_finite()))
    };
    let (low, high) = limited((low, high), figure.y.limits);
    match figure.y.scale {
        Scale::Log if low > high => (0.1, 1.0),
        Scale::Log if high / low < 1.01 => (low / 1.5, high * 1.5),
        Scale::Log => {
            let pad = (high / low).powf(0.04);
            ((low / pad).max(LEAST / 10.0), high * pad)
        }
        _ if low > high => (0.0, 1.0),
        _ if narrow(low, high) => around(low),
        // Halves: the width of the widest range is not a number.
        _ => {
            let pad = 0.04 * (high / 2.0 - low / 2.0) * 2.0;
            ((low - pad).max(-1e300), (high + pad).min(1e300))
        }
    }
}

/// Smallest and largest positive value, without what would squeeze the rest: a band's end more than
/// two decades under every line, rounding errors of a line that has converged, and a line that
/// diverges.
fn log_range(figure: &Figure, values: impl Iterator<Item = f64>) -> (f64, f64) {
    let positive = |v: &f64| v.is_finite() && *v >= LEAST;
    let (low, high) = range(values.filter(positive));
    let means = || figure.series.iter().map(|s| s.points.iter().map(|p| p.mean).filter(positive));
    let mut starts: Vec<f64> = means().filter_map(|mut line| line.next()).collect();
    starts.sort_by(f64::total_cmp);
    let Some(&start) = starts.get(starts.len() / 2) else { return (low, high) };
    let (lowest, _) =
        range(means().flatten().chain(figure.lines.iter().map(|l| l.value).filter(positive)));
    (low.max(lowest / 100.0).max(start * 1e-16), high.min(start * 1e6))
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

fn limited((low, high): (f64, f64), limits: Option<(f64, f64)>) -> (f64, f64) {
    limits
        .map_or((low, high), |(least, most)| (low.max(least).min(most), high.max(least).min(most)))
}

/// Whether a range is rounding errors only: ticks could not tell its ends apart.
fn narrow(low: f64, high: f64) -> bool {
    high - low <= 1e-9 * low.abs().max(high.abs())
}

fn around(value: f64) -> (f64, f64) {
    let half = if value == 0.0 { 1.0 } else { 0.1 * value.abs().max(1e-290) };
    (value - half, value + half)
}

/// Values and labels of the ticks, and the small ticks.
fn axis_ticks(axis: &Axis, (low, high): (f64, f64)) -> (Vec<f64>, Vec<String>, Vec<f64>) {
    let ticks = match axis.scale {
        Scale::Linear => Ticks { major: ticks::linear(low, high), minor: Vec::new() },
        Scale::Whole => Ticks { major: ticks::whole(low, high), minor: Vec::new() },
        Scale::Log => ticks::log(low, high),
    };
    let largest = ticks.major.iter().fold(0.0, |most: f64, v| most.max(v.abs()));
    let even = ticks.major.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
    let written = |v: f64| v == 0.0 || (1e-3..=1e4).contains(&v.abs());
    let powers = !ticks.major.iter().copied().all(written);
    let label = |&v: &f64| match axis.scale {
        // Each with its own precision, 0.1, 1, 10, unless one needs an exponent: then all have one.
        Scale::Log if !ticks.minor.is_empty() && powers => scientific(v),
        Scale::Log if !ticks.minor.is_empty() => exact(v),
        _ => tick(v, even, largest),
    };
    let labels = ticks.major.iter().map(label).collect();
    (ticks.major, labels, ticks.minor)
}

/// Labels of the reference lines, equal values under one label, from top to bottom with room
/// between them.
fn place_notes(lines: &[Reference], y: &Mapping) -> Vec<Note> {
    let mut merged: Vec<(f64, String)> = Vec::new();
    for line in lines.iter().filter(|line| line.value >= y.domain.0 && line.value <= y.domain.1) {
        match merged
            .iter_mut()
            .find(|(value, _)| narrow(value.min(line.value), value.max(line.value)))
        {
            Some((_, label)) => *label = format!("{label} = {}", line.label),
            None => merged.push((line.value, line.label.clone())),
        }
    }
    let note = |(value, label): (f64, String)| Note {
        lines: wrap(&label, 96.0, SMALL),
        at: y.at(value),
        y: y.at(value),
    };
    let mut notes: Vec<Note> = merged.into_iter().map(note).collect();
    notes.sort_by(|a, b| a.at.total_cmp(&b.at));
    let half = |note: &Note| 6.0 * note.lines.len() as f64 + 1.5;
    let mut ceiling = 0.0;
    for note in &mut notes {
        note.y = note.y.max(ceiling + half(note));
        ceiling = note.y + half(note);
    }
    let mut floor = PLOT_HEIGHT + 12.0;
    for note in notes.iter_mut().rev() {
        note.y = note.y.min(floor - half(note));
        floor = note.y - half(note);
    }
    notes
}

/// Entries of the legend in rows, and how many rows there are.
fn place_legend(series: &[Series], top: f64) -> (Vec<Entry>, usize) {
    let (mut x, mut row) = (MARGIN, 0);
    let mut entries = Vec::new();
    for series in series {
        let empty = !series.points.iter().any(|p| p.mean.is_finite());
        let label = if empty {
            format!("{} (no finite values)", series.label)
        } else {
            series.label.clone()
        };
        let text = fit(&label, WIDTH - 2.0 * MARGIN - 34.0, TEXT);
        let width = 34.0 + text_width(&text, TEXT);
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, row) = (MARGIN, row + 1);
        }
        entries.push(Entry { text, x, y: top + 19.0 * f64::from(row) });
        x += width + 18.0;
    }
    let rows = if entries.is_empty() { 0 } else { row as usize + 1 };
    (entries, rows)
}

fn draw_band(pen: &mut Pen, segment: &[Point], colour: usize, opacity: f64) {
    if segment.iter().all(|p| (p.low - p.high).abs() < 0.05) {
        return;
    }
    let colour = colour % COLOURS.len();
    if let [p] = segment {
        let (x, low, high) = (short(p.x), short(p.low), short(p.high));
        pen.push(&format!(
            "<path class=\"fig-s{colour}\" d=\"M{x} {low}V{high}\" stroke=\"{}\" stroke-width=\"5\" stroke-opacity=\"0.25\"/>",
            COLOURS[colour]
        ));
        return;
    }
    let upper = segment.iter().map(|p| (p.x, p.high));
    let lower = segment.iter().rev().map(|p| (p.x, p.low));
    pen.push(&format!(
        "<path class=\"fig-f{colour}\" d=\"{}Z\" fill=\"{}\" fill-opacity=\"{opacity}\"/>",
        trail(upper.chain(lower)),
        COLOURS[colour]
    ));
}

fn draw_line(pen: &mut Pen, segment: &[Point], series: &Series) {
    if segment.len() > 1 {
        pen.path(&trail(segment.iter().map(|p| (p.x, p.mean))), series);
    }
    // A lone point is a gap on both sides: without a mark it would not be seen.
    if segment.len() == 1 || series.points.len() <= FEW {
        segment.iter().for_each(|p| pen.mark((p.x, p.mean), series));
    }
}

/// At most four points a pixel column: the first, the extremes and the last, which is all that a
/// line of this width shows.
fn thin(segment: &[Point]) -> Vec<Point> {
    if segment.len() as f64 <= 2.0 * WIDTH {
        return segment.to_vec();
    }
    let mut thinned = Vec::new();
    for column in segment.chunk_by(|a, b| a.x.floor() == b.x.floor()) {
        let by_mean = |a: &&Point, b: &&Point| a.mean.total_cmp(&b.mean);
        // Positions grow downwards, so the band's low end is the largest.
        let low = column.iter().map(|p| p.low).fold(f64::NEG_INFINITY, f64::max);
        let high = column.iter().map(|p| p.high).fold(f64::INFINITY, f64::min);
        let extremes = [
            column.first(),
            column.iter().min_by(by_mean),
            column.iter().max_by(by_mean),
            column.last(),
        ];
        let mut kept: Vec<Point> =
            extremes.into_iter().flatten().map(|p| Point { low, high, ..*p }).collect();
        kept.sort_by(|a, b| a.x.total_cmp(&b.x));
        kept.dedup();
        thinned.extend(kept);
    }
    thinned
}

/// `M1 2L3 4L5 6`.
fn trail(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut out = String::new();
    for (x, y) in points {
        out.push(if out.is_empty() { 'M' } else { 'L' });
        coordinate(&mut out, x);
        out.push(' ');
        coordinate(&mut out, y);
    }
    out
}

fn short(value: f64) -> String {
    let mut out = String::new();
    coordinate(&mut out, value);
    out
}

/// Width of a text, rather too much than too little: fonts differ, and no renderer is asked. Widths
/// are of the widest common system font.
fn text_width(text: &str, size: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' | ' ' | '\u{202f}'
        | '·' => 0.34,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '-' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.98,
        '−' | '+' | '=' | '∞' | '‖' | '<' | '>' => 0.86,
        '⁰' | '⁻' | '¹' | '²' | '³' | '⁴'..='⁹' => 0.42,
        c if c.is_ascii_uppercase() => 0.72,
        c if c.is_ascii_digit() => 0.64,
        c if c.is_ascii() || ('\u{a0}'..'\u{2e80}').contains(&c) => 0.63,
        // Scripts written in squares.
        _ => 1.05,
    };
    text.chars().map(em).sum::<f64>() * size
}

/// The text, or as much of it as fits with an ellipsis.
fn fit(text: &str, width: f64, size: f64) -> String {
    if text_width(text, size) <= width {
        return text.into();
    }
    let mut cut: String = text.into();
    while cut.pop().is_some() && text_width(&cut, size) + size > width {}
    format!("{}…", cut.trim_end())
}

/// The text in lines; a word that does not fit into one is cut.
fn wrap(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(fit(word, width, size)),
        }
    }
    lines
}

/// Writes elements. All text goes through [`Pen::text`], which escapes it.
struct Pen(String);

#[derive(Clone, Copy)]
enum Ink {
    Strong,
    Muted,
}

#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Copy)]
enum Stroke {
    Grid,
    Axis,
    Reference,
    Leader,
}

impl Pen {
    fn push(&mut self, element: &str) {
        self.0.push_str(element);
    }

    fn text(&mut self, text: &str, (x, y): (f64, f64), size: f64, ink: Ink, anchor: Anchor) {
        let (class, fill) = match ink {
            Ink::Strong => ("fig-ink", INK),
            Ink::Muted => ("fig-muted", MUTED),
        };
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if size == TITLE { " font-weight=\"600\"" } else { "" };
        let text = escape(text);
        self.push(&format!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" font-size=\"{size}\"{weight}{anchor} fill=\"{fill}\">{text}</text>",
            short(x),
            short(y)
        ));
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        let (class, style) = match stroke {
            Stroke::Grid => ("fig-grid", format!("stroke=\"{GRID}\"")),
            Stroke::Axis => ("fig-axis", format!("stroke=\"{MUTED}\"")),
            Stroke::Reference => (
                "fig-ref",
                format!("stroke=\"{MUTED}\" stroke-width=\"1.2\" stroke-dasharray=\"3 3\""),
            ),
            Stroke::Leader => ("fig-ref", format!("stroke=\"{MUTED}\" stroke-width=\"0.8\"")),
        };
        self.push(&format!(
            "<path class=\"{class}\" d=\"{}\" fill=\"none\" {style}/>",
            trail([from, to].into_iter())
        ));
    }

    fn path(&mut self, d: &str, series: &Series) {
        let colour = series.colour % COLOURS.len();
        let dash = match DASHES[series.dash % DASHES.len()] {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        self.push(&format!(
            "<path class=\"fig-s{colour}\" d=\"{d}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.9\" stroke-linejoin=\"round\"{dash}/>",
            COLOURS[colour]
        ));
    }

    /// A point as a shape of its line's own, so that points can be told apart in grey.
    fn mark(&mut self, (x, y): (f64, f64), series: &Series) {
        let colour = series.colour % COLOURS.len();
        let d = match series.dash % 4 {
            0 => {
                let (x, y, fill) = (short(x), short(y), COLOURS[colour]);
                self.push(&format!(
                    "<circle class=\"fig-f{colour}\" cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{fill}\"/>"
                ));
                return;
            }
            1 => trail(
                [(-2.8, -2.8), (2.8, -2.8), (2.8, 2.8), (-2.8, 2.8)]
                    .map(|(a, b)| (x + a, y + b))
                    .into_iter(),
            ),
            2 => trail(
                [(0.0, -3.8), (3.6, 2.8), (-3.6, 2.8)].map(|(a, b)| (x + a, y + b)).into_iter(),
            ),
            _ => trail(
                [(0.0, -4.0), (4.0, 0.0), (0.0, 4.0), (-4.0, 0.0)]
                    .map(|(a, b)| (x + a, y + b))
                    .into_iter(),
            ),
        };
        self.push(&format!(
            "<path class=\"fig-f{colour}\" d=\"{d}Z\" fill=\"{}\"/>",
            COLOURS[colour]
        ));
    }
}
