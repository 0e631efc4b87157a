//! The summary of a run, for people.

use crate::output;
use comfy_table::{CellAlignment, ColumnConstraint, Table, presets};
use consenso_engine::model::Metrics;
use consenso_engine::record::{AlgorithmRecord, Record, ResultKind, Spread, SweepPoint};
use consenso_paper::Reproduction;
use consenso_study::report::{exponent, growth};
use std::fmt::Write as _;

const NONE: &str = "–";

/// A table with a rule under its header and nothing else: it reads well and survives a copy into a
/// text.
pub(crate) fn plain(header: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        column.set_cell_alignment(if index < left {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    table
}

/// The text of a table, without spaces at the ends of lines and with a rule under the header.
pub(crate) fn text(table: &Table) -> String {
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        let _ = writeln!(out, "{line}");
        if index == 0 {
            let _ = writeln!(out, "{}", "─".repeat(width));
        }
    }
    out
}

/// Columns of the results that a narrow terminal can do without, the first of them first.
const SPARED: [&str; 5] = ["ln error", "objective gap", "rounds", "time", "balanced"];

/// The text of a table in so many columns, if it can be: without those of `spared` that it takes.
fn fitted(mut table: Table, header: &[String], spared: &[&str], columns: Option<usize>) -> String {
    let mut out = text(&table);
    let fits = |out: &str| columns.is_none_or(|c| out.lines().all(|l| l.chars().count() <= c));
    let mut left_out: Vec<&str> = Vec::new();
    for name in spared {
        if fits(&out) {
            break;
        }
        let Some(index) = header.iter().position(|title| title == name) else { continue };
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(ColumnConstraint::Hidden);
            left_out.push(name);
            out = text(&table);
        }
    }
    if !left_out.is_empty() {
        let _ = writeln!(out, "not shown, for want of room: {}", left_out.join(", "));
    }
    out
}

/// Problem, results and baselines, claims, and what to mind, for a terminal of so many columns.
pub(crate) fn summary(record: &Record, columns: Option<usize>) -> String {
    let mut out = heading(record);
    out.push('\n');
    let table = results(record);
    let header: Vec<String> = table
        .header()
        .map_or_else(Vec::new, |row| row.cell_iter().map(comfy_table::Cell::content).collect());
    out.push_str(&fitted(table, &header, &SPARED, columns));
    for algorithm in &record.algorithms {
        notes(&mut out, algorithm);
    }
    if Shown::of(record) == Shown::Nothing && record.kind != ResultKind::Simulation {
        out.push_str(
            "no metrics, for there are no test records: hold_out = 0.2 under [data] keeps a share of the records for testing,\n\
             test = \"FILE.csv\" names a file of others; `consenso predict` judges the model on labelled records later\n",
        );
    }
    sweep(&mut out, record);
    claims(&mut out, record);
    output::folded(&out, columns)
}

/// A sweep over dimensions: how far each algorithm ends above the optimum, and how that grows.
fn dimensions(out: &mut String, record: &Record) {
    let Some(first) = record.sweep.first() else { return };
    let labels = first.algorithms.iter().map(|a| a.label.as_str());
    let mut table = plain(&["agents", "ε", "d"].into_iter().chain(labels).collect::<Vec<_>>(), 0);
    let found = |point: &SweepPoint, label: &str| {
        point.algorithms.iter().find(|a| a.label == label).map(|a| a.optimum_gap)
    };
    for point in &record.sweep {
        let mut row =
            vec![point.agents.to_string(), decimals(point.epsilon, 2), point.dim.to_string()];
        let cell = |a: &AlgorithmRecord| found(point, &a.label).map_or(NONE.into(), scientific);
        row.extend(first.algorithms.iter().map(cell));
        table.add_row(row);
    }
    let grows = |a: &AlgorithmRecord| {
        let gaps = record.sweep.iter().filter_map(|p| Some((p.dim as f64, found(p, &a.label)?)));
        exponent(&gaps.collect::<Vec<_>>()).map_or(NONE.into(), growth)
    };
    let mut row = vec!["grows as".to_owned(), String::new(), String::new()];
    row.extend(first.algorithms.iter().map(grows));
    table.add_row(row);
    let _ = writeln!(out, "\nobjective above the optimum, by dimension\n\n{}", text(&table));
}

/// Every point of a sweep: test accuracy and AUC, or R², or the objective where nothing is tested.
fn sweep(out: &mut String, record: &Record) {
    let Some(first) = record.sweep.first() else { return };
    // The length of messages on scouted columns follows from the budget: only where nothing else
    // differs was it the dimension that was varied.
    let alike = |p: &&SweepPoint| (p.agents, p.epsilon) == (first.agents, first.epsilon);
    if record.sweep.iter().filter(alike).any(|point| point.dim != first.dim) {
        return dimensions(out, record);
    }
    let percent =
        |v: Option<f64>| v.map_or_else(|| NONE.to_owned(), |v| format!("{:.2} %", 100.0 * v));
    let labels = first.algorithms.iter().map(|a| a.label.as_str());
    let header: Vec<&str> = ["agents", "ε"]
        .into_iter()
        .chain(labels)
        .chain(["alone", "together", "majority"])
        .collect();
    let mut table = plain(&header, 0);
    for point in &record.sweep {
        let cell = |a: &AlgorithmRecord| {
            let (auc, r2) = (a.test_auc, a.metrics.as_ref().and_then(|m| m.r2));
            // From the worst run to the best.
            let range = a.across_runs.as_ref().map(|r| r.spread).filter(|_| point.runs > 1);
            let three =
                range.map_or_else(String::new, |s| format!(" ({:.3} to {:.3})", s.min, s.max));
            match (a.test_accuracy, auc, r2) {
                (Some(accuracy), Some(auc), _) => {
                    format!("{}, AUC {auc:.3}{three}", percent(Some(accuracy)))
                }
                (Some(accuracy), None, _) => format!("{}{three}", percent(Some(accuracy))),
                (None, _, Some(r2)) => format!("R² {r2:.3}{three}"),
                (None, ..) => scientific(a.objective),
            }
        };
        let b = &point.baselines;
        let mut row = vec![point.agents.to_string(), decimals(point.epsilon, 2)];
        row.extend(point.algorithms.iter().map(cell));
        let together = match b.central_optimum_r2 {
            Some(r2) => format!("R² {r2:.3}"),
            None => percent(b.central_optimum_accuracy),
        };
        row.extend([percent(b.local_only_accuracy), together, percent(b.majority_accuracy)]);
        table.add_row(row);
    }
    let _ = writeln!(
        out,
        "\nby agents and budget, from the worst run to the best; alone and together are without noise\n\n{}",
        text(&table)
    );
}

fn heading(record: &Record) -> String {
    let p = &record.problem;
    let records = if p.records.0 == p.records.1 {
        p.records.0.to_string()
    } else {
        format!("{} to {}", p.records.0, p.records.1)
    };
    let holding = if p.loss == "quadratic" {
        "with costs of their own".into()
    } else {
        format!("of {records} records")
    };
    let runs = if record.runs == record.runs_asked {
        format!("{} run{}", record.runs, if record.runs == 1 { "" } else { "s" })
    } else {
        format!("{} of {} runs", record.runs, record.runs_asked)
    };
    let network = if p.agents == 1 {
        format!("1 agent {holding}, alone")
    } else {
        format!("{} agents {holding}, {} graph with {} edges", p.agents, p.graph, p.edges)
    };
    format!(
        "{}: {network}; {} loss, regularization {}, {} parameters; {runs}, seed {}\n",
        record.name,
        p.loss,
        short(p.regularization),
        p.dim,
        record.seed
    )
}

/// A number as it was written, or three digits of one that was computed.
fn short(value: f64) -> String {
    let written = value.to_string();
    if written.len() <= 8 { written } else { format!("{value:.2e}") }
}

/// What a table shows of how well a model does: two or three figures that matter for the task.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    TwoClasses,
    ManyClasses,
    Numbers,
    /// There are no test records, or nothing is predicted.
    Nothing,
}

impl Shown {
    fn of(record: &Record) -> Self {
        match record.algorithms.iter().find_map(|a| a.metrics.as_ref()) {
            None => Self::Nothing,
            Some(m) if m.rmse.is_some() => Self::Numbers,
            Some(m) if m.confusion.len() > 2 => Self::ManyClasses,
            Some(_) => Self::TwoClasses,
        }
    }

    fn header(self) -> &'static [&'static str] {
        match self {
            Self::TwoClasses => &["accuracy (agents)", "balanced", "AUC"],
            Self::ManyClasses => &["accuracy (agents)", "balanced", "macro F1"],
            Self::Numbers => &["R²", "RMSE", "MAE"],
            Self::Nothing => &[],
        }
    }

    /// Cells of a model: its figures, and means over the agents' own models where they are known.
    fn cells(
        self,
        m: Option<&Metrics>,
        test: Option<f64>,
        agents: Option<Spread>,
        auc: Option<f64>,
    ) -> Vec<String> {
        let of = |f: fn(&Metrics) -> Option<f64>| m.and_then(f);
        let balanced =
            of(|m| m.balanced_accuracy).map_or(NONE.into(), |v| format!("{:.2} %", 100.0 * v));
        match self {
            Self::TwoClasses => {
                let auc = auc.or(of(|m| m.auc));
                vec![accuracy(test.or(of(|m| m.accuracy)), agents), balanced, decimals(auc, 4)]
            }
            Self::ManyClasses => {
                vec![
                    accuracy(test.or(of(|m| m.accuracy)), agents),
                    balanced,
                    decimals(of(|m| m.f1), 4),
                ]
            }
            Self::Numbers => vec![
                decimals(of(|m| m.r2), 4),
                of(|m| m.rmse).map_or(NONE.into(), figures),
                of(|m| m.mae).map_or(NONE.into(), figures),
            ],
            Self::Nothing => Vec::new(),
        }
    }
}

/// Four significant digits.
fn figures(value: f64) -> String {
    let digits = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    if (-4.0..6.0).contains(&digits) {
        format!("{value:.*}", (3.0 - digits).max(0.0) as usize)
    } else {
        format!("{value:.3e}")
    }
}

/// The figures of a model in a line.
pub(crate) fn metrics_line(m: &Metrics) -> String {
    let mut said = Vec::new();
    let mut percent = |name: &str, value: Option<f64>| {
        if let Some(v) = value {
            said.push(format!("{name} {:.2} %", 100.0 * v));
        }
    };
    percent("accuracy", m.accuracy);
    percent("balanced accuracy", m.balanced_accuracy);
    percent("mean accuracy over sites", m.site_accuracy);
    let f1 = if m.confusion.len() > 2 { "macro F1" } else { "F1" };
    for (name, value) in [
        ("AUC", m.auc),
        (f1, m.f1),
        ("log loss", m.log_loss),
        ("C-index", m.c_index),
        ("D²", m.d2),
        ("R²", m.r2),
    ] {
        said.extend(value.map(|v| format!("{name} {v:.4}")));
    }
    for (name, value) in [("RMSE", m.rmse), ("MAE", m.mae)] {
        said.extend(value.map(|v| format!("{name} {}", figures(v))));
    }
    said.join(", ")
}

fn results(record: &Record) -> Table {
    let shown = Shown::of(record);
    let before = ["algorithm", "rounds"].iter();
    let after = ["objective gap", "ln error", "ε", "time"].iter();
    let header: Vec<&str> = before.chain(shown.header()).chain(after).copied().collect();
    let mut table = plain(&header, 1);
    for a in &record.algorithms {
        let rounds = if a.gossip == 0 {
            a.rounds.to_string()
        } else {
            format!("{} + {}", a.rounds, a.gossip)
        };
        let mut row = vec![a.label.clone(), rounds];
        row.extend(shown.cells(
            a.metrics.as_ref(),
            a.test_accuracy,
            a.per_agent_accuracy,
            a.test_auc,
        ));
        row.extend([
            scientific(a.optimum_gap),
            decimals(Some(a.log_error), 2),
            a.epsilon.as_ref().map_or(NONE.into(), |e| epsilon(e.claim)),
            seconds(a.seconds),
        ]);
        table.add_row(row);
        if let Some(personal) = &a.personal {
            for (name, metrics) in [("shared", &personal.shared), ("personal", &personal.personal)]
            {
                let mut row = vec![format!("· {name} model, own held-out records"), NONE.into()];
                row.extend(shown.cells(Some(metrics), None, None, None));
                row.extend([const { NONE }; 4].map(String::from));
                table.add_row(row);
            }
        }
    }
    let b = &record.baselines;
    let mut baseline = |label: &str, cells: Vec<String>, gap: Option<f64>, error: Option<f64>| {
        let mut row = vec![label.to_owned(), NONE.into()];
        row.extend(cells);
        row.extend([
            gap.map_or(NONE.into(), scientific),
            decimals(error, 2),
            NONE.into(),
            NONE.into(),
        ]);
        table.add_row(row);
    };
    let zero = b.zero_model;
    let known = |test, auc| shown.cells(None, test, None, auc);
    if b.majority_accuracy.is_some() {
        baseline("· majority class", known(b.majority_accuracy, None), None, None);
    }
    // No process of several, and no streamed run, has all records.
    let solved = !b.central_optimum_objective.is_nan();
    if solved {
        let gap = Some(zero.objective - b.central_optimum_objective);
        baseline("· zero model", known(zero.accuracy, None), gap, Some(zero.log_error));
    }
    if b.local_only_accuracy.is_some() {
        baseline("· each agent alone, no noise", known(b.local_only_accuracy, None), None, None);
    }
    if solved {
        let optimum = known(b.central_optimum_accuracy, b.central_optimum_auc);
        baseline("· optimum of this objective", optimum, Some(0.0), None);
    }
    if let Some(reference) = &b.reference {
        let cells = shown.cells(Some(&reference.metrics), None, None, None);
        baseline("· tuned reference, no privacy", cells, None, None);
    }
    table
}

fn accuracy(mean: Option<f64>, agents: Option<Spread>) -> String {
    let percent = |v: f64| format!("{:.2}", 100.0 * v);
    match (mean, agents) {
        (Some(mean), Some(a)) => {
            format!("{} % ({}–{})", percent(mean), percent(a.min), percent(a.max))
        }
        (Some(mean), None) => format!("{} %", percent(mean)),
        (None, _) => NONE.into(),
    }
}

fn decimals(value: Option<f64>, places: usize) -> String {
    match value {
        Some(v) if v.is_finite() => format!("{v:.places$}"),
        Some(v) if v == f64::NEG_INFINITY => "−∞".into(),
        _ => NONE.into(),
    }
}

fn scientific(value: f64) -> String {
    if value == 0.0 {
        "0".into()
    } else if value.is_finite() {
        format!("{value:.2e}")
    } else {
        NONE.into()
    }
}

/// Three decimals, rounded up: a printed ε is never below the certified one.
pub(crate) fn epsilon(value: f64) -> String {
    if value.is_finite() {
        format!("{:.3}", (value * 1000.0).ceil() / 1000.0)
    } else {
        "∞".into()
    }
}

/// So many significant digits, rounded up: a printed bound still is one.
pub(crate) fn rounded_up(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let places = digits - 1;
    let nearest = format!("{value:.places$e}");
    let (mantissa, exponent) = nearest.split_once('e').unwrap_or((&nearest, "0"));
    let (mantissa, exponent): (f64, i32) =
        (mantissa.parse().unwrap_or(value), exponent.parse().unwrap_or(0));
    let below = nearest.parse::<f64>().is_ok_and(|v| v < value);
    let last_digit = if below { 0.1f64.powi(places as i32) } else { 0.0 };
    let mantissa = mantissa + last_digit;
    if (-3..digits as i32).contains(&exponent) {
        let decimals = (places as i32 - exponent).max(0) as usize;
        format!("{:.decimals$}", mantissa * 10f64.powi(exponent))
    } else {
        format!("{mantissa:.places$}e{exponent}")
    }
}

fn seconds(value: f64) -> String {
    if value < 10.0 { format!("{value:.2} s") } else { format!("{value:.0} s") }
}

fn notes(out: &mut String, algorithm: &AlgorithmRecord) {
    for finding in &algorithm.findings {
        let _ = writeln!(out, "{}: {finding}", algorithm.label);
    }
    if algorithm.diverged {
        let _ =
            writeln!(out, "{}: diverged in some run; its figures mean nothing", algorithm.label);
    }
    if let Some(violation) = algorithm.violation {
        let _ = writeln!(out, "{}: the constraint is missed by {violation:.2e}", algorithm.label);
    }
    if let Some(delays) = &algorithm.delays {
        let _ = writeln!(
            out,
            "{}: with the delays it took the time of {:.0} rounds of work; what was mixed was {:.2} rounds old on average, {} at most",
            algorithm.label, delays.time, delays.mean_age, delays.oldest
        );
    }
    if let Some(traffic) = &algorithm.traffic {
        let time =
            traffic.seconds.map_or_else(String::new, |s| format!(", {s:.2} simulated seconds"));
        let _ = writeln!(
            out,
            "{}: {:.0} messages, {:.0} bytes{time}",
            algorithm.label, traffic.messages, traffic.bytes
        );
    }
    if algorithm.agents_stopped > 0.0 {
        let _ = writeln!(
            out,
            "{}: {:.1} agents a run had spent their budget before the last round",
            algorithm.label, algorithm.agents_stopped
        );
    }
}

fn claims(out: &mut String, record: &Record) {
    // Algorithms under one budget often have the same claim: say it once.
    let mut said: Vec<(&str, Vec<&str>)> = Vec::new();
    for algorithm in &record.algorithms {
        let Some(epsilon) = &algorithm.epsilon else { continue };
        let statement = epsilon.statement.trim();
        match said.iter_mut().find(|(other, _)| *other == statement) {
            Some((_, labels)) => labels.push(&algorithm.label),
            None => said.push((statement, vec![&algorithm.label])),
        }
    }
    for (statement, labels) in said {
        let _ = writeln!(out, "\n{}: {statement}", labels.join("; "));
    }
    if record.algorithms.iter().any(|a| a.epsilon.as_ref().is_some_and(|e| e.seeded)) {
        out.push_str("\nseeded simulation: these figures hold only for a run on OS entropy\n");
    }
    if let Some(total) = &record.total_epsilon {
        let of = match total.transcripts {
            1 => "the one transcript of this command".to_owned(),
            many => format!("all {many} transcripts of this command together"),
        };
        let _ =
            writeln!(out, "\n{of}: ε = {}, δ = {:e}", rounded_up(total.epsilon, 5), total.delta);
    }
}

/// The paper's claims beside what came out.
pub(crate) fn verdicts(reproduction: &Reproduction) -> String {
    let mut table = plain(&["claim", "paper", "here", "verdict"], 4);
    for f in reproduction.findings() {
        table.add_row([f.claim, &f.paper, &f.measured, f.verdict.name()]);
    }
    let mut out = text(&table);
    let checks = reproduction.reference_checks();
    if !checks.is_empty() {
        let agree = checks.iter().filter(|check| check.agrees).count();
        let _ =
            writeln!(out, "\n{agree} of {} values agree with an independent program", checks.len());
    }
    let (worse, private) = reproduction.worse_than_zero();
    if worse > 0 {
        let _ = writeln!(
            out,
            "the zero model, which has seen no record, is nearer to the optimum than {worse} of {private} private results"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_bounds_are_bounds() {
        for (value, text) in
            [(3.741_657, "3.742"), (2.568_12e-4, "2.569e-4"), (1.0, "1.000"), (0.9999, "0.9999")]
        {
            assert_eq!(rounded_up(value, 4), text);
        }
        for exponent in -8..8 {
            for step in 1..200 {
                let value = f64::from(step).sqrt() * 10f64.powi(exponent);
                let printed: f64 = rounded_up(value, 4).parse().unwrap();
                assert!(printed >= value && printed <= value * 1.0011, "{value} {printed}");
            }
        }
    }

    #[test]
    fn a_printed_epsilon_is_not_below_the_claim() {
        assert_eq!(epsilon(0.999_01), "1.000");
        assert_eq!(epsilon(1.0), "1.000");
        assert_eq!(epsilon(f64::INFINITY), "∞");
    }
}
