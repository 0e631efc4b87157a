//! The page of a run.

use super::figure::Figure;
use super::format::{count, epsilon, escape, exact, number, percent, seconds, thousands};
use super::{chart, dimension, frontier, page};
use crate::record::{AlgorithmRecord, EpsilonRecord, Record};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const STAMP: &str = "seeded simulation: these figures hold only for a run on OS entropy";
const NONE: &str = "<span class=\"none\">–</span>";

/// The report of a run as one self-contained page: results beside their baselines, what privacy is claimed and how,
/// figures, the problem's public facts, and how to repeat it.
pub fn report_html(record: &Record) -> String {
    let main = [
        header(record),
        warnings(record),
        results(record),
        frontier::tables(record),
        dimension::table(record),
        claims(record),
        figures(record),
        problem(record),
        parameters(record),
        repeat(record),
    ];
    page::shell(&record.name, &record.version, &main.concat())
}

fn header(record: &Record) -> String {
    let problem = &record.problem;
    let encoding =
        if problem.encoding.is_empty() { String::new() } else { format!(" ({})", problem.encoding) };
    let runs = match record.runs {
        1 => "one run".into(),
        runs => format!("means over {}", count(runs as usize, "run")),
    };
    let summary = format!(
        "{} on {}{encoding}: {} on a {} graph of {}, {} loss with μ = {}; {runs}, seed {}.",
        count(record.algorithms.len(), "algorithm"),
        problem.source,
        count(problem.agents, "agent"),
        problem.graph,
        count(problem.edges, "edge"),
        problem.loss,
        exact(problem.regularization),
        record.seed,
    );
    format!(
        "<header>\n<p class=\"kicker\">Private decentralized optimisation</p>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n</header>\n",
        escape(&record.name),
        escape(&summary)
    )
}

fn warnings(record: &Record) -> String {
    let mut items = record.warnings.clone();
    if record.interrupted {
        let (done, asked) = (record.runs, record.runs_asked);
        items
            .insert(0, format!("Stopped early: {done} of {asked} runs were finished, and only those count."));
    }
    for algorithm in record.algorithms.iter().filter(|a| a.agents_stopped > 0.0) {
        let stopped = number(algorithm.agents_stopped, 2);
        items.push(format!(
            "{}: {stopped} of {} agents (mean over runs) had spent their budget before the last round.",
            algorithm.label, record.problem.agents
        ));
    }
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    format!("<aside class=\"warnings\">\n<h2>Before you read on</h2>\n<ul>\n{items}</ul>\n</aside>\n")
}

fn results(record: &Record) -> String {
    let rows: String = record.algorithms.iter().map(|algorithm| algorithm_row(record, algorithm)).collect();
    let mut notes = String::from(
        "Accuracy and AUC on test records: mean over agents and runs, with the worst and the best agent. Objective gap: F at the \
         network’s mean model minus F(x*). Log error: ln(‖x<sub>i</sub> − x*‖/d). ε is rounded up.",
    );
    if record.algorithms.iter().any(|algorithm| no_better(record, algorithm)) {
        notes.push_str(" † No better than always answering the most frequent class.");
    }
    format!(
        "<section>\n<h2>Results</h2>\n<div class=\"scroll\" role=\"region\" aria-label=\"Results\" tabindex=\"0\">\n\
         <table class=\"results\">\n<thead><tr><th scope=\"col\">Algorithm</th><th scope=\"col\">Rounds</th>\
         <th scope=\"col\">Test accuracy, %</th><th scope=\"col\">Agents, %</th><th scope=\"col\">AUC</th>\
         <th scope=\"col\">Objective gap</th><th scope=\"col\">Log error</th><th scope=\"col\">ε claim</th>\
         <th scope=\"col\">Time</th></tr></thead>\n<tbody class=\"algorithms\">\n{rows}</tbody>\n\
         <tbody class=\"baselines\">\n{}</tbody>\n</table>\n</div>\n<p class=\"note\">{notes}</p>\n</section>\n",
        baseline_rows(record)
    )
}

/// To half of the last digit that is shown.
fn no_better(record: &Record, algorithm: &AlgorithmRecord) -> bool {
    let pair = algorithm.test_accuracy.zip(record.baselines.majority_accuracy);
    pair.is_some_and(|(accuracy, majority)| accuracy <= majority + 5e-4)
}

fn row(head: &str, cells: &[String; 8]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr><th scope=\"row\">{head}</th>{cells}</tr>\n")
}

fn optional(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.into(), show)
}

fn algorithm_row(record: &Record, algorithm: &AlgorithmRecord) -> String {
    let gossip = match algorithm.gossip {
        0 => String::new(),
        gossip => format!(" <span class=\"sub\">+ {gossip} mixing</span>"),
    };
    let dagger = if no_better(record, algorithm) { "†" } else { "" };
    let spread = algorithm.per_agent_accuracy;
    let spread = spread.map_or_else(|| NONE.into(), |s| format!("{}–{}", percent(s.min), percent(s.max)));
    let gap = match algorithm.diverged {
        true => "<span class=\"sub\">diverged</span>".into(),
        false => number(algorithm.optimum_gap, 3),
    };
    let claim = match &algorithm.epsilon {
        None => "<span class=\"none\">no privacy claim</span>".into(),
        Some(e) => format!("{}{}", epsilon(e.claim), at_delta(e.delta)),
    };
    let cells = [
        format!("{}{gossip}", thousands(algorithm.rounds as usize)),
        optional(algorithm.test_accuracy, |v| format!("{}{dagger}", percent(v))),
        spread,
        optional(algorithm.test_auc, |v| format!("{v:.3}")),
        gap,
        number(algorithm.log_error, 3),
        claim,
        seconds(algorithm.seconds),
    ];
    row(&escape(&algorithm.label), &cells)
}

fn at_delta(delta: f64) -> String {
    if delta == 0.0 {
        " <span class=\"sub\">pure</span>".into()
    } else {
        format!(" <span class=\"sub\">δ = {}</span>", exact(delta))
    }
}

fn baseline_rows(record: &Record) -> String {
    let baselines = &record.baselines;
    let blank = || NONE.to_string();
    let accuracy_only = |head: &str, accuracy: Option<f64>| {
        let cells =
            [blank(), optional(accuracy, percent), blank(), blank(), blank(), blank(), blank(), blank()];
        if accuracy.is_some() { row(head, &cells) } else { String::new() }
    };
    let mut rows = String::from("<tr><th scope=\"rowgroup\" colspan=\"9\">To compare with</th></tr>\n");
    rows += &accuracy_only("Most frequent class", baselines.majority_accuracy);
    let zero = &baselines.zero_model;
    rows += &row(
        "Zero model",
        &[
            blank(),
            optional(zero.accuracy, percent),
            blank(),
            blank(),
            number(zero.objective - baselines.central_optimum_objective, 3),
            number(zero.log_error, 3),
            blank(),
            blank(),
        ],
    );
    rows += &accuracy_only("Agents alone, without noise", baselines.local_only_accuracy);
    rows += &row(
        "Optimum of all records, not private",
        &[
            blank(),
            optional(baselines.central_optimum_accuracy, percent),
            blank(),
            optional(baselines.central_optimum_auc, |v| format!("{v:.3}")),
            "0".into(),
            "−∞".into(),
            blank(),
            blank(),
        ],
    );
    rows
}

fn claims(record: &Record) -> String {
    let boxes: String = record
        .algorithms
        .iter()
        .filter_map(|algorithm| algorithm.epsilon.as_ref().map(|e| claim(algorithm, e)))
        .collect();
    if boxes.is_empty() {
        return "<section>\n<h2>Privacy</h2>\n<p>No privacy claim: nothing that was exchanged is protected by noise that \
                was accounted for.</p>\n</section>\n"
            .into();
    }
    format!("<section>\n<h2>Privacy claims</h2>\n<div class=\"claims\">\n{boxes}</div>\n</section>\n")
}

fn claim(algorithm: &AlgorithmRecord, e: &EpsilonRecord) -> String {
    let delta = if e.delta == 0.0 { "δ = 0".into() } else { format!("δ = {}", exact(e.delta)) };
    let stamp = if e.seeded { format!("<p class=\"stamp\">{STAMP}</p>\n") } else { String::new() };
    let noise = match algorithm.noise.is_empty() {
        true => String::new(),
        false => format!("<p class=\"note\">Noise: {}.</p>\n", escape(algorithm.noise.trim_end_matches('.'))),
    };
    let bounds = bounds(&e.bounds, &e.method);
    format!(
        "<article class=\"claim\">\n<h3>{}</h3>\n<p class=\"figure\">ε = {}, {delta} <span class=\"sub\">by {}</span></p>\n\
         {}{noise}{bounds}{}{stamp}</article>\n",
        escape(&algorithm.label),
        epsilon(e.claim),
        escape(method_name(&e.method)),
        statement(e, !bounds.is_empty()),
        worst_cases(e),
    )
}

/// Sentences are a paragraph; a statement in lines of `term  explanation` is a list of them. Lines under `by method` are left to
/// the table of bounds where there is one; the heading and the stamp are not said twice.
fn statement(e: &EpsilonRecord, has_bounds: bool) -> String {
    let text = e.statement.as_str();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.len() < 2 {
        return format!("<p>{}</p>\n", escape(text.trim()));
    }
    let mut rows = String::new();
    for line in lines {
        let (term, explanation) = line.trim().split_once("  ").unwrap_or(("", line.trim()));
        let detail = line.starts_with("    ") || term == "by method";
        let stamped = e.seeded && explanation.trim() == STAMP;
        if term == "privacy claim" || (detail && has_bounds) || stamped {
            continue;
        }
        let (term, explanation) = (escape(term), escape(explanation.trim()));
        let _ = writeln!(rows, "<tr><th scope=\"row\">{term}</th><td>{explanation}</td></tr>");
    }
    format!("<table class=\"statement\">\n{rows}</table>\n")
}

/// What holds or held besides the claim. Under Gaussian noise there is none.
fn worst_cases(e: &EpsilonRecord) -> String {
    let mut rows = String::new();
    let mut fact = |head: &str, value: String| {
        let _ = writeln!(rows, "<tr><th scope=\"row\">{head}</th><td>{value}</td></tr>");
    };
    if let Some(worst) = e.worst_case_pure {
        fact("Worst case, pure ε", epsilon(worst));
    }
    if let Some(paper) = e.paper_worst_case {
        fact("Worst case by the paper’s formula", epsilon(paper));
    }
    if let Some(mean) = e.realised_mean {
        let range = e.realised_range;
        let range = range.map_or_else(String::new, |(least, most)| {
            format!(" <span class=\"sub\">({}–{})</span>", epsilon(least), epsilon(most))
        });
        fact("Realised loss of this transcript, not a claim", format!("{}{range}", epsilon(mean)));
    }
    if rows.is_empty() { rows } else { format!("<table>\n<caption>Pure ε</caption>\n{rows}</table>\n") }
}

/// A row a method, smallest first, the one that made the claim in bold; a column a norm where the bounds are by norm.
fn bounds(bounds: &Value, chosen: &str) -> String {
    let Value::Object(entries) = bounds else { return String::new() };
    if entries.is_empty() {
        return String::new();
    }
    let by_norm = entries.values().all(Value::is_object);
    let columns: Vec<(&str, &Value)> = match by_norm {
        true => entries.iter().map(|(norm, methods)| (norm.as_str(), methods)).collect(),
        false => vec![("ε", bounds)],
    };
    let least = |method: &str| {
        let values = columns.iter().filter_map(|(_, methods)| methods[method].as_f64());
        values.fold(f64::INFINITY, f64::min)
    };
    let keys =
        columns.iter().filter_map(|(_, methods)| methods.as_object()).flat_map(|methods| methods.keys());
    let mut methods: Vec<&str> =
        keys.map(String::as_str).filter(|key| !["delta", "reasons"].contains(key)).collect();
    methods.sort_unstable();
    methods.dedup();
    methods.sort_by(|a, b| {
        (least(a), a != &chosen).partial_cmp(&(least(b), b != &chosen)).unwrap_or(Ordering::Equal)
    });

    let heads: String = columns
        .iter()
        .map(|(norm, _)| {
            format!("<th scope=\"col\">{}{}</th>", escape(norm), if by_norm { " norm" } else { "" })
        })
        .collect();
    let row = |method: &&str| {
        let class = if *method == chosen { " class=\"chosen\"" } else { "" };
        let cells: String = columns.iter().map(|(_, methods)| bound(&methods[*method])).collect();
        format!("<tr{class}><th scope=\"row\">{}</th>{cells}</tr>\n", escape(method_name(method)))
    };
    let rows: String = methods.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table>\n<caption>ε by every method that was tried; the sum of pure losses holds at δ = 0</caption>\n\
         <thead><tr><th scope=\"col\">Method</th>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n{}",
        reasons(&columns)
    )
}

/// What is not a number is shown as it is.
fn bound(value: &Value) -> String {
    let text = match value {
        Value::Null => "<span class=\"none\">not valid</span>".into(),
        Value::Number(n) => n.as_f64().map_or_else(|| escape(&n.to_string()), epsilon),
        other => format!("<code>{}</code>", escape(&other.to_string())),
    };
    format!("<td>{text}</td>")
}

/// Why methods are not valid, each reason once with the methods it speaks of.
fn reasons(columns: &[(&str, &Value)]) -> String {
    let mut by_reason: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let all = columns.iter().filter_map(|(_, methods)| methods["reasons"].as_object()).flatten();
    for (method, reason) in all {
        if let Some(reason) = reason.as_str() {
            by_reason.entry(reason).or_default().insert(method_name(method));
        }
    }
    if by_reason.is_empty() {
        return String::new();
    }
    let sentence = |(reason, methods): (&&str, &BTreeSet<&str>)| {
        let methods: Vec<&str> = methods.iter().copied().collect();
        format!("{} ({})", methods.join(", "), reason.trim_end_matches('.'))
    };
    let sentences: Vec<String> = by_reason.iter().map(sentence).collect();
    format!("<p class=\"note\">Not valid: {}.</p>\n", escape(&sentences.join("; ")))
}

/// The names methods have in `record.json`, in words.
fn method_name(method: &str) -> &str {
    match method {
        "pure" => "sum of pure losses",
        "advanced" => "advanced composition",
        "kov" => "optimal composition of pure losses",
        "zcdp" => "concentrated privacy (zCDP)",
        "rdp" => "Rényi composition",
        "pld" => "privacy loss distribution",
        "gdp" => "Gaussian privacy",
        "pure-filter" => "pure filter",
        "renyi-filter" => "Rényi filter",
        "zcdp-filter" => "zCDP filter",
        other => other,
    }
}

fn figures(record: &Record) -> String {
    let figures = super::figures(record);
    if figures.is_empty() {
        return String::new();
    }
    let one = |(k, (name, figure)): (usize, &(String, Figure))| {
        let caption = format!("<b>Figure {}.</b> {}", k + 1, escape(&figure.description));
        chart::element(name, figure, &caption)
    };
    let all: String = figures.iter().enumerate().map(one).collect();
    // The results are of the models after mixing, the lines end before it: without a word they would seem to disagree.
    let ends_early =
        |a: &AlgorithmRecord| a.gossip > 0 && a.curve.last().is_some_and(|at| at.round <= a.rounds);
    let note = match record.algorithms.iter().any(ends_early) {
        true => {
            "<p class=\"note\">Lines end with the last round that used records; the results above are after mixing.</p>\n"
        }
        false => "",
    };
    let title = if record.sweep.is_empty() { "By round" } else { "Figures" };
    format!("<section>\n<h2>{title}</h2>\n{note}<div class=\"figures\">\n{all}</div>\n</section>\n")
}

fn problem(record: &Record) -> String {
    let p = &record.problem;
    let (least, most) = p.records;
    let records =
        if least == most { thousands(least) } else { format!("{} to {}", thousands(least), thousands(most)) };
    let (smoothness, convexity) = p.smoothness;
    let facts = [
        ("Records from", p.source.clone()),
        ("Encoding", if p.encoding.is_empty() { "none".into() } else { p.encoding.clone() }),
        ("Agents N", thousands(p.agents)),
        ("Records an agent", records),
        ("Length of the model d", thousands(p.dim)),
        ("Loss", p.loss.clone()),
        ("Regularisation μ", exact(p.regularization)),
        ("Graph", format!("{}, {}", p.graph, count(p.edges, "edge"))),
        (
            "Laplacian λ₂, λ_max (first run)",
            format!("{}, {}", number(p.laplacian.0, 4), number(p.laplacian.1, 4)),
        ),
        ("Mixing gap 1 − |λ₂(W)| (first run)", number(p.mixing_gap, 3)),
        ("Smoothness M, strong convexity m", format!("{}, {}", number(smoothness, 3), number(convexity, 3))),
        ("Condition number M/m", number(smoothness / convexity, 3)),
    ];
    let facts: String = facts
        .iter()
        .map(|(term, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(term), escape(value)))
        .collect();
    format!("<section>\n<h2>The problem</h2>\n<dl>\n{facts}</dl>\n</section>\n")
}

fn parameters(record: &Record) -> String {
    let one = |algorithm: &AlgorithmRecord| {
        let parameters = serde_json::to_string_pretty(&algorithm.parameters).unwrap_or_default();
        format!(
            "<details>\n<summary>{} <span class=\"sub\">({})</span></summary>\n<pre>{}</pre>\n</details>\n",
            escape(&algorithm.label),
            escape(&algorithm.kind),
            escape(&parameters)
        )
    };
    let all: String = record.algorithms.iter().filter(|a| !a.parameters.is_null()).map(one).collect();
    if all.is_empty() { all } else { format!("<section>\n<h2>Parameters</h2>\n{all}</section>\n") }
}

fn repeat(record: &Record) -> String {
    let drawn_afresh = record.algorithms.iter().any(|a| a.epsilon.as_ref().is_some_and(|e| !e.seeded));
    let again = if drawn_afresh {
        "Noise came from the operating system and was not kept: running it again gives other numbers, and costs the records as much again."
    } else {
        "The same version and seed give the same transcript, bit for bit, on any number of threads."
    };
    format!(
        "<section>\n<h2>How to repeat it</h2>\n<p>The experiment below is <code>experiment.toml</code> in this folder, with every \
         open choice made. {again}</p>\n\
         <pre>consenso run experiment.toml --seed {}</pre>\n\
         <details>\n<summary>The resolved experiment</summary>\n<pre>{}</pre>\n</details>\n</section>\n\
         <footer class=\"meta\">consenso {} · {} of {} runs · the numbers behind this page: <code>record.json</code>, \
         <code>trace.csv</code></footer>\n",
        record.seed,
        escape(&record.resolved),
        escape(&record.version),
        record.runs,
        record.runs_asked,
    )
}
