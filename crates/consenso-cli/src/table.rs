//! The summary of a run, for people.

use comfy_table::{CellAlignment, Table, presets};
use consenso::record::{AlgorithmRecord, Record, Spread, SweepPoint};
use consenso::report::{exponent, growth};
use consenso::reproduce::Reproduction;
use std::fmt::Write as _;

const NONE: &str = "–";

/// A table with a rule under its header and nothing else: it reads well and survives a copy into a text.
pub(crate) fn plain(header: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header.to_vec());
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        column.set_cell_alignment(if index < left { CellAlignment::Left } else { CellAlignment::Right });
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

/// Problem, results and baselines, claims, and what to mind.
pub(crate) fn summary(record: &Record) -> String {
    let mut out = heading(record);
    out.push('\n');
    out.push_str(&text(&results(record)));
    for algorithm in &record.algorithms {
        notes(&mut out, algorithm);
    }
    sweep(&mut out, record);
    claims(&mut out, record);
    out
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
        let mut row = vec![point.agents.to_string(), decimals(point.epsilon, 2), point.dim.to_string()];
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

/// Every point of a sweep: test accuracy, or the objective where nothing is classified.
fn sweep(out: &mut String, record: &Record) {
    let Some(first) = record.sweep.first() else { return };
    if record.sweep.iter().any(|point| point.dim != first.dim) {
        return dimensions(out, record);
    }
    let percent = |v: Option<f64>| v.map_or_else(|| NONE.to_owned(), |v| format!("{:.2} %", 100.0 * v));
    let labels = first.algorithms.iter().map(|a| a.label.as_str());
    let header: Vec<&str> =
        ["agents", "ε"].into_iter().chain(labels).chain(["alone", "together", "majority"]).collect();
    let mut table = plain(&header, 0);
    for point in &record.sweep {
        let cell =
            |a: &AlgorithmRecord| a.test_accuracy.map_or(scientific(a.objective), |v| percent(Some(v)));
        let b = &point.baselines;
        let mut row = vec![point.agents.to_string(), decimals(point.epsilon, 2)];
        row.extend(point.algorithms.iter().map(cell));
        row.extend([b.local_only_accuracy, b.central_optimum_accuracy, b.majority_accuracy].map(percent));
        table.add_row(row);
    }
    let _ = writeln!(out, "\nby agents and budget; alone and together are without noise\n\n{}", text(&table));
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
        record.name, p.loss, p.regularization, p.dim, record.seed
    )
}

const HEADER: [&str; 8] =
    ["algorithm", "rounds", "accuracy (agents)", "AUC", "objective gap", "ln error", "ε", "time"];

fn results(record: &Record) -> Table {
    let mut table = plain(&HEADER, 1);
    for a in &record.algorithms {
        let rounds =
            if a.gossip == 0 { a.rounds.to_string() } else { format!("{} + {}", a.rounds, a.gossip) };
        table.add_row([
            a.label.clone(),
            rounds,
            accuracy(a.test_accuracy, a.per_agent_accuracy),
            decimals(a.test_auc, 4),
            scientific(a.optimum_gap),
            decimals(Some(a.log_error), 2),
            a.epsilon.as_ref().map_or(NONE.into(), |e| epsilon(e.claim)),
            seconds(a.seconds),
        ]);
    }
    let b = &record.baselines;
    let mut baseline =
        |label: &str, test: Option<f64>, auc: Option<f64>, gap: Option<f64>, error: Option<f64>| {
            table.add_row([
                label.to_owned(),
                NONE.into(),
                accuracy(test, None),
                decimals(auc, 4),
                gap.map_or(NONE.into(), scientific),
                decimals(error, 2),
                NONE.into(),
                NONE.into(),
            ]);
        };
    let zero = b.zero_model;
    baseline("· majority class", b.majority_accuracy, None, None, None);
    let zero_gap = Some(zero.objective - b.central_optimum_objective);
    baseline("· zero model", zero.accuracy, None, zero_gap, Some(zero.log_error));
    baseline("· local only, no noise", b.local_only_accuracy, None, None, None);
    baseline("· central optimum", b.central_optimum_accuracy, b.central_optimum_auc, Some(0.0), None);
    table
}

fn accuracy(mean: Option<f64>, agents: Option<Spread>) -> String {
    let percent = |v: f64| format!("{:.2}", 100.0 * v);
    match (mean, agents) {
        (Some(mean), Some(a)) => format!("{} % ({}–{})", percent(mean), percent(a.min), percent(a.max)),
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
    if value.is_finite() { format!("{:.3}", (value * 1000.0).ceil() / 1000.0) } else { "∞".into() }
}

/// So many significant digits, rounded up: a printed bound still is one.
pub(crate) fn rounded_up(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let places = digits - 1;
    let nearest = format!("{value:.places$e}");
    let (mantissa, exponent) = nearest.split_once('e').unwrap_or((&nearest, "0"));
    let (mantissa, exponent): (f64, i32) = (mantissa.parse().unwrap_or(value), exponent.parse().unwrap_or(0));
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
    if algorithm.diverged {
        let _ = writeln!(out, "{}: diverged in some run; its figures mean nothing", algorithm.label);
    }
    if let Some(violation) = algorithm.violation {
        let _ = writeln!(out, "{}: the constraint is missed by {violation:.2e}", algorithm.label);
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
        let _ = writeln!(
            out,
            "\nall {} transcript{} of this command together: ε = {}, δ = {:e}",
            total.transcripts,
            if total.transcripts == 1 { "" } else { "s" },
            rounded_up(total.epsilon, 5),
            total.delta
        );
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
        let _ = writeln!(out, "\n{agree} of {} values agree with an independent program", checks.len());
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
