//! What a reader gets of a run: figures as SVG, and one page that holds everything and works
//! offline.
//!
//! Nothing here computes: every number is in the [`Record`]. An ε is printed rounded up, never to
//! nearest.

pub mod chart;
mod coefficients;
mod dimension;
pub mod figure;
pub mod format;
mod frontier;
mod html;
pub mod page;
mod scores;
mod shareable;
pub mod ticks;

pub use dimension::{exponent, growth};
pub use figure::{Axis, Figure, Point, Reference, Scale, Series};
pub use format::escape;
pub use html::report_html;
pub use shareable::shareable_html;

use consenso_engine::record::{AlgorithmRecord, CurvePoint, Record, Spread};

/// The figures of a run, by name (`figures/<name>.svg`), without those that have nothing to show.
///
/// - `objective-gap`: F(x̄) − F(x*) by round;
/// - `log-error`: ln(‖x_i − x*‖/d) by round, the paper's metric (docs/paper.md section 6);
/// - `test-accuracy`: accuracy of the mean model, with what it should be read against;
/// - `calibration`: predicted probabilities against what was observed, for two classes;
/// - `disagreement`: root mean square distance of the agents from their mean;
/// - `privacy-loss`: worst case and realised loss by round.
///
/// A sweep has `frontier-<agents>` before them, test accuracy against the budget, or `dimension`,
/// the objective gap against d.
pub fn figures(record: &Record) -> Vec<(String, Figure)> {
    let by_round = [
        ("objective-gap", objective_gap(record)),
        ("log-error", log_error(record)),
        ("test-accuracy", test_accuracy(record)),
        ("calibration", scores::calibration(record)),
        ("disagreement", disagreement(record)),
        ("privacy-loss", privacy_loss(record)),
    ];
    let by_round = by_round.into_iter().map(|(name, figure)| (name.to_owned(), figure));
    let swept = frontier::figures(record).into_iter().chain(dimension::figure(record));
    let all = swept.chain(by_round);
    all.filter(|(_, figure)| figure.series.iter().any(|s| !s.points.is_empty())).collect()
}

fn rounds() -> Axis {
    Axis::new("round", Scale::Whole)
}

/// What a band is, said in every caption.
fn band(record: &Record, over: &str) -> &'static str {
    match (record.runs, over) {
        (_, "agents") => {
            "Lines are means; bands reach from the smallest to the largest over agents and runs."
        }
        (0 | 1, _) => "One run.",
        _ => "Lines are means; bands reach from the smallest to the largest over runs.",
    }
}

/// A line an algorithm: every figure gives an algorithm the same colour and dash.
fn curves(record: &Record, value: impl Fn(&CurvePoint) -> Option<Spread>) -> Vec<Series> {
    let points = |algorithm: &AlgorithmRecord| {
        algorithm
            .curve
            .iter()
            .filter_map(|at| Some((at.round, value(at)?)))
            // What is not known has no line: no process of several has the optimum.
            .filter(|(_, spread)| !spread.mean.is_nan())
            .map(|(round, spread)| point(round, spread))
            .collect()
    };
    let line = |(k, algorithm): (usize, &AlgorithmRecord)| {
        Series::new(&algorithm.label, k, points(algorithm))
    };
    record.algorithms.iter().enumerate().map(line).collect()
}

/// A point of a curve by round.
pub fn point(round: u32, Spread { min, mean, max }: Spread) -> Point {
    Point { x: f64::from(round), low: min, mean, high: max }
}

fn mapped(spread: Spread, f: impl Fn(f64) -> f64) -> Spread {
    Spread { min: f(spread.min), mean: f(spread.mean), max: f(spread.max) }
}

/// What theorems certify of a quantity, each in its algorithm's colour.
fn certified<'a>(record: &'a Record, quantity: &'a str) -> impl Iterator<Item = Series> + 'a {
    record.algorithms.iter().enumerate().filter_map(move |(k, algorithm)| {
        let bound = algorithm.certified.as_ref().filter(|bound| bound.quantity == quantity)?;
        let points =
            bound.points.iter().map(|&(round, value)| Point::from((f64::from(round), value)));
        let label = format!("{}, at most ({})", algorithm.label, bound.theorem);
        Some(Series { label, points: points.collect(), colour: k, dash: k + 4 })
    })
}

fn objective_gap(record: &Record) -> Figure {
    let optimum = record.baselines.central_optimum_objective;
    let measured = curves(record, |at| Some(mapped(at.objective, |f| f - optimum)));
    Figure {
        title: "Objective gap".into(),
        description: format!(
            "How far the objective at the network's mean model is above the optimum of all records together. {}",
            band(record, "runs")
        ),
        x: rounds(),
        y: Axis::new("F(mean model) − F(x*), logarithmic", Scale::Log),
        series: measured.into_iter().chain(certified(record, "optimum_gap")).collect(),
        lines: zero_model(record, record.baselines.zero_model.objective - optimum),
    }
}

/// Whether a linear constraint ties the agents.
fn is_coupled(record: &Record) -> bool {
    record.algorithms.iter().any(|algorithm| algorithm.violation.is_some())
}

/// The line of the model that knows nothing; it breaks a linear constraint, and is nothing to
/// compare with there.
fn zero_model(record: &Record, value: f64) -> Vec<Reference> {
    if is_coupled(record) {
        Vec::new()
    } else {
        vec![Reference { label: "zero model".into(), value }]
    }
}

fn log_error(record: &Record) -> Figure {
    let zero = record.baselines.zero_model.log_error;
    let mut y = Axis::new("ln(‖xᵢ − x*‖ / d)", Scale::Linear);
    // A line that diverges would flatten all others: it leaves through the top instead, well above
    // the model that knows nothing.
    if record.algorithms.iter().any(|algorithm| algorithm.diverged) && zero.is_finite() {
        y.limits = Some((f64::NEG_INFINITY, zero + 5.0));
    }
    Figure {
        title: "Distance to the optimum".into(),
        description: format!(
            "Logarithm of an agent's distance to x*, per coordinate. {}",
            band(record, "agents")
        ),
        x: rounds(),
        y,
        series: curves(record, |at| Some(at.log_error))
            .into_iter()
            .chain(certified(record, "log_error"))
            .collect(),
        lines: zero_model(record, zero),
    }
}

fn test_accuracy(record: &Record) -> Figure {
    let baselines = &record.baselines;
    let lines = [
        ("majority class", baselines.majority_accuracy),
        ("zero model", baselines.zero_model.accuracy),
        ("optimum, not private", baselines.central_optimum_accuracy),
        ("local only", baselines.local_only_accuracy),
    ];
    let lines = lines.into_iter().filter_map(|(label, value)| {
        value.map(|value| Reference { label: label.into(), value: 100.0 * value })
    });
    Figure {
        title: "Test accuracy".into(),
        description: format!(
            "Accuracy of the network's mean model on test records. A model at the majority line has learned nothing. {}",
            band(record, "runs")
        ),
        x: rounds(),
        y: Axis::new("correct test records (%)", Scale::Linear),
        series: curves(record, |at| {
            at.test_accuracy.map(|spread| mapped(spread, |share| 100.0 * share))
        }),
        lines: lines.collect(),
    }
}

/// Agents that agree exactly have no place on a logarithmic axis.
fn disagreement(record: &Record) -> Figure {
    let all = curves(record, |at| Some(at.disagreement));
    let (series, agreed): (Vec<Series>, Vec<Series>) =
        all.into_iter().partition(|s| s.points.iter().any(|p| p.mean > 0.0));
    let labels: Vec<&str> = agreed.iter().map(|s| s.label.as_str()).collect();
    let agreed = match labels[..] {
        [] => String::new(),
        _ => format!(" Not drawn, because the agents agree exactly: {}.", labels.join(", ")),
    };
    Figure {
        title: "Disagreement".into(),
        description: format!(
            "Root mean square distance of the agents' models from their mean. {}{agreed}",
            band(record, "runs")
        ),
        x: rounds(),
        y: Axis::new("root mean square distance, logarithmic", Scale::Log),
        series,
        lines: Vec::new(),
    }
}

/// Two lines an algorithm in one colour: what the schedule allows, and what the transcript gave
/// away.
fn privacy_loss(record: &Record) -> Figure {
    let mut series = Vec::new();
    for (k, algorithm) in record.algorithms.iter().enumerate() {
        let mut line = |what: &str, dash: usize, points: Vec<Point>| {
            if !points.is_empty() {
                series.push(Series {
                    label: format!("{}, {what}", algorithm.label),
                    points,
                    colour: k,
                    dash,
                });
            }
        };
        let curve = || algorithm.curve.iter();
        let worst =
            curve().filter_map(|at| Some(Point::from((f64::from(at.round), at.epsilon_worst?))));
        line("worst case", 2 * k, worst.collect());
        line(
            "realised",
            2 * k + 1,
            curve().filter_map(|at| Some(point(at.round, at.epsilon_realised?))).collect(),
        );
    }
    Figure {
        title: "Privacy loss".into(),
        description: "Pure ε spent so far. Worst case: certified whatever the data. Realised: loss of the transcript, mean over \
                      agents and runs, band from smallest to largest; an agent's own loss is its own to see, and is shown here \
                      because in a simulation all agents are ours."
            .into(),
        x: rounds(),
        y: Axis::new("cumulative pure ε", Scale::Linear),
        series,
        lines: Vec::new(),
    }
}
