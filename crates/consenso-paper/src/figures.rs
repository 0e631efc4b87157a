//! The figures, as the paper has them and with what it leaves out: the zero model and the majority
//! class.

use super::gamma::{FIGURE_SHIFT, LARGE_SHIFT};
use super::{DUAL_SIGN, Part, Reproduction, USEFUL, randomises};
use consenso_engine::record::{AlgorithmRecord, CurvePoint, Record, Spread};
use consenso_study::report::{self, Axis, Figure, Point, Reference, Scale, Series};

/// A figure of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperFigure {
    /// Its file: `figures/<name>.svg`, `data/<name>.csv`.
    pub name: String,
    /// Where the paper has it, or what of the paper it is about.
    pub paper: String,
    /// The part it belongs to; `None` for what the paper does not show.
    pub part: Option<Part>,
    /// The record it was drawn from, by name.
    pub experiment: Option<String>,
    /// What the horizontal axis is called in the CSV.
    pub position: &'static str,
    /// The chart.
    pub figure: Figure,
}

impl Reproduction {
    /// Everything that is drawn, in the page's order.
    #[must_use]
    pub fn figures(&self) -> Vec<PaperFigure> {
        let mut all = Vec::new();
        if !self.gamma.is_empty() {
            all.push(self.amplification());
            all.push(self.printed_gamma());
        }
        self.compared(
            "paper-2a",
            Part::Two,
            "Figure 2",
            ["figure-2a", "figure-2b", "figure-2-test"],
            &mut all,
        );
        self.compared(
            "paper-b",
            Part::B,
            "Figure (B)",
            ["figure-b-a", "figure-b-b", "figure-b-test"],
            &mut all,
        );
        self.compared(
            "paper-c",
            Part::C,
            "Figure (C)",
            ["figure-c-a", "figure-c-b", "figure-c-test"],
            &mut all,
        );
        all.extend(self.without_noise("figure-d-1", "Figure (D-1)", &["paper-d1", "paper-d1-gd"]));
        all.extend(self.without_noise("figure-d-2", "Figure (D-2)", &["paper-d2", "paper-d2-gd"]));
        all.extend(self.record(DUAL_SIGN).map(dual_sign));
        all.extend(self.record(USEFUL).map(useful));
        all
    }

    /// Accuracy, privacy and what the model is worth, of one comparison.
    fn compared(
        &self,
        name: &str,
        part: Part,
        paper: &str,
        files: [&str; 3],
        all: &mut Vec<PaperFigure>,
    ) {
        let Some(record) = self.record(name) else { return };
        let of = |file: &str, sub: &str, figure: Figure| PaperFigure {
            name: file.into(),
            paper: format!("{paper}{sub}"),
            part: Some(part),
            experiment: Some(name.into()),
            position: "round",
            figure,
        };
        all.push(of(files[0], " (a)", accuracy(&[record])));
        all.push(of(files[1], " (b)", privacy(record)));
        let mut models = worth(record);
        models.description.push_str(
            " At this setting the optimum itself only gives the majority's answer, so no method can show that it learned.",
        );
        all.push(of(files[2], ", what the models are worth", models));
    }

    fn without_noise(&self, file: &str, paper: &str, names: &[&str]) -> Option<PaperFigure> {
        let records: Vec<&Record> = names.iter().filter_map(|name| self.record(name)).collect();
        let first = records.first()?;
        Some(PaperFigure {
            name: file.into(),
            paper: paper.into(),
            part: Some(Part::D),
            experiment: Some(first.name.clone()),
            position: "round",
            figure: Figure {
                title: format!("Random weights beside fixed ones, {} agents", first.problem.agents),
                description: "Logarithm of an agent's distance to x*, per coordinate, where no noise is added: what random weights \
                              cost by themselves. Lines are means, bands reach from the smallest to the largest over agents and runs."
                    .into(),
                ..accuracy(&records)
            },
        })
    }

    fn amplification(&self) -> PaperFigure {
        let lines = [2.0, 4.0, 6.0, 8.0, 10.0].into_iter().enumerate();
        let series = lines.map(|(k, beta)| {
            let points = self.gamma.iter().filter(|p| p.shift == FIGURE_SHIFT && p.beta == beta);
            Series::new(
                format!("β = {beta}"),
                k,
                points.map(|p| Point::from((p.omega, p.exact))).collect(),
            )
        });
        PaperFigure {
            name: "figure-1".into(),
            paper: "Figure 1".into(),
            part: Some(Part::One),
            experiment: None,
            position: "omega",
            figure: Figure {
                title: "Privacy amplification by random weights".into(),
                description: format!(
                    "The share γ of the worst case that a coordinate loses on average, exactly, against the width ω of the public interval \
                     for noise of rate β, at αB∞ = {FIGURE_SHIFT}. The paper draws the same as a surface."
                ),
                x: Axis::new("width of the interval ω", Scale::Linear),
                y: Axis::new("γ = mean loss / worst case", Scale::Linear),
                series: series.collect(),
                lines: Vec::new(),
            },
        }
    }

    fn printed_gamma(&self) -> PaperFigure {
        let lines =
            [(FIGURE_SHIFT, 2.0), (FIGURE_SHIFT, 10.0), (LARGE_SHIFT, 2.0), (LARGE_SHIFT, 10.0)];
        let series = lines.into_iter().enumerate().map(|(k, (shift, beta))| {
            let points = self.gamma.iter().filter(|p| p.shift == shift && p.beta == beta);
            let points = points
                .filter_map(|p| Some(Point::from((p.omega, 100.0 * (p.printed? / p.exact - 1.0)))));
            Series::new(format!("αB∞ = {shift}, β = {beta}"), k, points.collect())
        });
        PaperFigure {
            name: "erratum-gamma".into(),
            paper: "Theorem 2.3".into(),
            part: Some(Part::One),
            experiment: None,
            position: "omega",
            figure: Figure {
                title: "The printed γ is no upper bound".into(),
                description: "How far Theorem 2.3 as printed is from the exact γ. Below zero it promises more privacy than there is: its \
                              proof takes the shift t = −s where t = +s is the worst."
                    .into(),
                x: Axis::new("width of the interval ω", Scale::Linear),
                y: Axis::new("printed γ minus exact γ (% of the exact)", Scale::Linear),
                series: series.collect(),
                lines: vec![Reference { label: "exact".into(), value: 0.0 }],
            },
        }
    }
}

/// Lines of several records in one figure.
fn lines(records: &[&Record], value: impl Fn(&CurvePoint) -> Option<Spread>) -> Vec<Series> {
    let all = records.iter().flat_map(|record| &record.algorithms);
    let line = |(k, a): (usize, &AlgorithmRecord)| {
        let points =
            a.curve.iter().filter_map(|at| value(at).map(|spread| report::point(at.round, spread)));
        let index = if records.len() == 1 && records[0].name.starts_with("paper") {
            palette(a, k)
        } else {
            k
        };
        Series::new(&a.label, index, points.collect())
    };
    all.enumerate().map(line).collect()
}

/// Colour and dash: one method looks the same in every comparison.
fn palette(algorithm: &AlgorithmRecord, place: usize) -> usize {
    let methods = ["admm", "pp", "dvp", "output-admm", "pdop", "gd-star"];
    match methods.iter().position(|kind| *kind == algorithm.kind) {
        // Twins of one kind stand side by side and must differ.
        Some(index) if algorithm.epsilon.is_some() => index,
        _ => place,
    }
}

fn accuracy(records: &[&Record]) -> Figure {
    let zero = records.first().map(|record| record.baselines.zero_model.log_error);
    Figure {
        title: "Distance to the optimum".into(),
        description: "Logarithm of an agent's distance to x*, per coordinate, lower is better. Lines are means, bands reach from the smallest \
                      to the largest over agents and runs. The zero model, which has seen no record, is the line to beat."
            .into(),
        x: Axis::new("round", Scale::Whole),
        y: Axis::new("ln(‖xᵢ − x*‖ / d)", Scale::Linear),
        series: lines(records, |at| Some(at.log_error)),
        lines: zero.map(|value| Reference { label: "zero model".into(), value }).into_iter().collect(),
    }
}

/// Where weights are random: worst case and realised loss. Elsewhere: what the authors say it
/// costs.
fn privacy(record: &Record) -> Figure {
    let mut series = Vec::new();
    for (place, a) in record.algorithms.iter().enumerate().filter(|(_, a)| a.epsilon.is_some()) {
        let k = palette(a, place);
        let points = |of: &dyn Fn(&CurvePoint) -> Option<Spread>| -> Vec<Point> {
            a.curve
                .iter()
                .filter_map(|at| of(at).map(|spread| report::point(at.round, spread)))
                .collect()
        };
        let mut add = |label: String, dash: usize, points: Vec<Point>| {
            if !points.is_empty() {
                series.push(Series { label, points, colour: k, dash });
            }
        };
        if randomises(a) {
            let flat = |e: f64| Spread { min: e, mean: e, max: e };
            add(
                format!("{}, worst case", a.label),
                k + 4,
                points(&|at| at.epsilon_worst.map(flat)),
            );
            add(format!("{}, realised", a.label), k, points(&|at| at.epsilon_realised));
        } else {
            add(a.label.clone(), k, points(&|at| at.epsilon_published));
        }
    }
    let (limit, note) = cut_off(&series);
    let mut y = Axis::new("cumulative privacy loss ε", Scale::Linear);
    y.limits = Some((f64::NEG_INFINITY, limit));
    Figure {
        title: "Privacy loss as the paper counts it".into(),
        description: format!(
            "Pure ε spent so far under the paper's accounting. Worst case: d·Σ αβB∞. Realised: what the transcript gave away, mean \
                      over agents and runs with its range; a statistic, not a guarantee. Other methods by their authors' own account.{note}"
        ),
        x: Axis::new("round", Scale::Whole),
        y,
        series,
        lines: Vec::new(),
    }
}

/// Where to end an axis so that the widest band does not flatten every line, and what to say about
/// it.
fn cut_off(series: &[Series]) -> (f64, String) {
    let most = series.iter().flat_map(|s| &s.points).map(|p| p.mean).fold(0.0, f64::max);
    let reach = |s: &Series| s.points.iter().map(|p| p.high).fold(0.0, f64::max);
    let beyond = series.iter().filter(|s| reach(s) > 1.6 * most);
    let note: String =
        beyond.map(|s| format!(" The band of {} reaches {:.1}.", s.label, reach(s))).collect();
    (if note.is_empty() { f64::INFINITY } else { 1.6 * most }, note)
}

/// Test accuracy, lines only: over runs each method goes from the minority's share to the
/// majority's, and bands would hide the lines.
fn worth(record: &Record) -> Figure {
    let percent = |spread: Spread| Spread {
        min: 100.0 * spread.mean,
        mean: 100.0 * spread.mean,
        max: 100.0 * spread.mean,
    };
    let all = record.algorithms.iter().flat_map(|a| &a.curve).filter_map(|at| at.test_accuracy);
    let (low, high) =
        all.fold((1.0f64, 0.0f64), |(low, high), s| (low.min(s.min), high.max(s.max)));
    let baselines = &record.baselines;
    let references = [
        ("majority class", baselines.majority_accuracy),
        ("zero model", baselines.zero_model.accuracy),
        ("optimum x*", baselines.central_optimum_accuracy),
    ];
    let reference = |(label, value): (&str, Option<f64>)| {
        Some(Reference { label: label.into(), value: 100.0 * value? })
    };
    Figure {
        title: "Test accuracy of the mean model".into(),
        description: format!(
            "Share of test records labelled correctly by the network's mean model, mean over runs; single runs go from {:.1} to {:.1} %.",
            100.0 * low,
            100.0 * high
        ),
        x: Axis::new("round", Scale::Whole),
        y: Axis::new("correct test records (%)", Scale::Linear),
        series: lines(&[record], |at| at.test_accuracy.map(percent)),
        lines: references.into_iter().filter_map(reference).collect(),
    }
}

fn dual_sign(record: &Record) -> PaperFigure {
    let zero = record.baselines.zero_model.log_error;
    let mut figure = accuracy(&[record]);
    figure.title = "The printed sign of the dual step diverges".into();
    figure.description = "Algorithm 1 without noise, on the graphs of Figure 2, with the dual step λ + ζΣ(xⱼ − xᵢ) and with the sign that the \
                          paper prints. Lines are means, bands reach from the smallest to the largest over agents and runs."
        .into();
    // The diverging line leaves through the top.
    figure.y.limits = Some((f64::NEG_INFINITY, zero + 12.0));
    PaperFigure {
        name: "erratum-dual-sign".into(),
        paper: "Algorithm 1".into(),
        part: Some(Part::Two),
        experiment: Some(record.name.clone()),
        position: "round",
        figure,
    }
}

fn useful(record: &Record) -> PaperFigure {
    let mut figure = worth(record);
    figure.title = "The useful setting: test accuracy".into();
    figure.description = "The same algorithms where there is something to learn: one-hot features over a public schema, 3000 records an agent, \
                          a total budget for every record. Lines end with the last round that used records; models are mixed after it."
        .into();
    if let Some(alone) = record.baselines.local_only_accuracy {
        figure.lines.push(Reference { label: "agents alone".into(), value: 100.0 * alone });
    }
    PaperFigure {
        name: "useful-accuracy".into(),
        paper: "Not in the paper".into(),
        part: None,
        experiment: Some(record.name.clone()),
        position: "round",
        figure,
    }
}
