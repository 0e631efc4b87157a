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

/// Classes of lines, and their colours where no style is read.
const GRID: (&str, &str) = ("fig-grid", "#e6e8eb");
const AXIS: (&str, &str) = ("fig-axis", "#5c646d");

/// One row per method, the best first: its mean rank and interval. A bar on the right joins those
/// whose mean ranks are closer than the critical difference, which is drawn to scale above.
pub(super) fn ranks(results: &Results<'_>, ranking: &Ranking, title: &str, alone: bool) -> String {
    let found = &ranking.found;
    let cliques = stats::cliques(&found.mean, found.critical_difference);
    let names: Vec<String> = ranking.methods.iter().map(|&m| marked(results, m)).collect();
    let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(0) as f64;
    let mut chart = Chart {
        svg: String::new(),
        left: (24.0 + 7.2 * longest).min(0.45 * WIDTH),
        right: WIDTH - RIGHT - 12.0 * cliques.len() as f64,
        methods: names.len(),
    };
    chart.text((0.0, 20.0), "fig-ink", 15.0, "start", title);
    chart.axis();
    chart.critical_difference(found.critical_difference);
    for (row, name) in names.iter().enumerate() {
        let claimed = ranking.methods[row] >= results.own;
        chart.method(row, name, found.mean[row], found.interval[row], claimed);
    }
    for (bar, (low, high)) in cliques.iter().enumerate() {
        let within = |row: &usize| found.mean[*row] >= *low && found.mean[*row] <= *high;
        let rows: Vec<usize> = (0..names.len()).filter(within).collect();
        if let (Some(&first), Some(&last)) = (rows.first(), rows.last()) {
            chart.bar(bar, first, last);
        }
    }
    let words = format!(
        "Mean ranks over {} settings with 95 % intervals; methods joined by a bar cannot be told apart at level 0.05.",
        found.blocks
    );
    chart.finish(title, &words, alone)
}

/// A chart of mean ranks, row by row.
struct Chart {
    svg: String,
    /// Where rank 1 is.
    left: f64,
    /// Where the last rank is.
    right: f64,
    methods: usize,
}

impl Chart {
    fn x(&self, rank: f64) -> f64 {
        self.left + (self.right - self.left) * (rank - 1.0) / (self.methods as f64 - 1.0)
    }

    fn y(&self, row: usize) -> f64 {
        TOP + ROW * (row as f64 + 0.5)
    }

    fn text(&mut self, at: (f64, f64), class: &str, size: f64, anchor: &str, words: &str) {
        let colour = if class == "fig-ink" { "#1d2126" } else { "#5c646d" };
        let _ = write!(
            self.svg,
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"{anchor}\">{}</text>",
            at.0,
            at.1,
            escape(words)
        );
    }

    fn line(
        &mut self,
        (class, colour): (&str, &str),
        width: f64,
        from: (f64, f64),
        to: (f64, f64),
    ) {
        let _ = write!(
            self.svg,
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    fn axis(&mut self) {
        let bottom = TOP + ROW * self.methods as f64;
        // Ticks at whole ranks, few enough to read.
        let every = (self.methods / 8).max(1);
        for rank in (1..=self.methods).step_by(every) {
            let at = self.x(rank as f64);
            self.line(GRID, 1.0, (at, TOP), (at, bottom));
            self.text((at, bottom + 17.0), "fig-muted", 11.5, "middle", &rank.to_string());
        }
        let middle = (0.5 * (self.left + self.right), bottom + 36.0);
        self.text(middle, "fig-muted", 12.0, "middle", "mean rank, 1 is the best");
    }

    fn critical_difference(&mut self, difference: f64) {
        let begin = self.x(1.0);
        let scale = (self.right - self.left) / (self.methods as f64 - 1.0);
        let end = (begin + difference * scale).min(self.right);
        self.line(AXIS, 1.5, (begin, 56.0), (end, 56.0));
        self.line(AXIS, 1.5, (begin, 51.0), (begin, 61.0));
        self.line(AXIS, 1.5, (end, 51.0), (end, 61.0));
        let words = format!("critical difference {difference:.2}");
        self.text((begin, 45.0), "fig-muted", 12.0, "start", &words);
    }

    /// The mean rank of a method and its interval; hollow if it was claimed, not computed here.
    fn method(
        &mut self,
        row: usize,
        name: &str,
        mean: f64,
        (low, high): (f64, f64),
        claimed: bool,
    ) {
        let y = self.y(row);
        self.text((0.0, y + 4.0), "fig-ink", 12.5, "start", name);
        let (from, to) = (self.x(low.max(1.0)), self.x(high.min(self.methods as f64)));
        self.line(("fig-s0", "#0072B2"), 2.0, (from, y), (to, y));
        let fill = if claimed {
            "class=\"fig-paper fig-s0\" fill=\"#ffffff\" stroke=\"#0072B2\" stroke-width=\"2\""
        } else {
            "class=\"fig-f0\" fill=\"#0072B2\""
        };
        let x = self.x(mean);
        let _ = write!(self.svg, "<circle {fill} cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>");
    }

    /// Joins methods that cannot be told apart.
    fn bar(&mut self, bar: usize, first: usize, last: usize) {
        let at = self.right + 14.0 + 12.0 * bar as f64;
        let (from, to) = ((at, self.y(first) - 7.0), (at, self.y(last) + 7.0));
        self.line(AXIS, 4.0, from, to);
    }

    /// The picture with its title and what it shows in words; `alone` in a file of its own.
    fn finish(self, title: &str, words: &str, alone: bool) -> String {
        let height = TOP + ROW * self.methods as f64 + 44.0;
        let size =
            format!("width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\"");
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
            "<svg{ns} {size} role=\"img\"><title>{}</title><desc>{}</desc>{style}{paper}<g font-family=\"{FONT}\">{}</g></svg>\n",
            escape(title),
            escape(words),
            self.svg
        )
    }
}
