//! The page of a run.

use super::figure::Figure;
use super::format::{count, epsilon, escape, exact, number, percent, seconds, thousands, written};
use super::{chart, coefficients, dimension, frontier, page, scores};
use consenso_engine::model::Metrics;
use consenso_engine::privacy::Meaning;
use consenso_engine::record::{AlgorithmRecord, EpsilonRecord, Record, ResultKind};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

const STAMP: &str = "seeded simulation: these figures hold only for a run on OS entropy";
const NONE: &str = "<span class=\"none\">–</span>";

/// The report of a run as one self-contained page: what the claim means for one person, results
/// beside their baselines, figures, the claims in full, the problem's public facts, how to repeat
/// it, and sources.
pub fn report_html(record: &Record) -> String {
    let sections = [
        ("results", "Results", results(record)),
        ("predictions", "How well it predicts", scores::section(record)),
        ("coefficients", "Coefficients", coefficients::section(record)),
        ("figures", figures_title(record), figures(record)),
        ("budgets", frontier::title(record), frontier::tables(record)),
        ("by-dimension", "Utility loss by dimension", dimension::table(record)),
        ("map", "Who can tell what about whom", map(record)),
        ("privacy", "What is claimed", claims(record)),
        ("problem", "The problem", problem(record)),
        ("parameters", "Parameters", parameters(record)),
        ("repeat", "How to repeat it", repeat(record)),
        ("sources", "Sources", sources(record)),
    ];
    let main = header(record) + &meaning(record) + &page::contents(&sections) + &warnings(record);
    page::shell(
        &record.name,
        &record.version,
        &(main + &page::sections(&sections) + &footer(record)),
    )
}

/// What the claims mean for one person in the data, in one sentence: the largest ε and δ of the
/// page's claims.
fn meaning(record: &Record) -> String {
    let claims = || record.algorithms.iter().filter_map(|a| a.epsilon.as_ref());
    let most = |of: fn(&EpsilonRecord) -> f64| claims().map(of).fold(0.0, f64::max);
    let (epsilon_of_all, delta) = (most(|e| e.claim), most(|e| e.delta));
    if claims().next().is_none() {
        return String::new();
    }
    let Some(meaning) = Meaning::of(epsilon_of_all, delta) else { return String::new() };
    let whom = match record.problem.source.as_str() {
        "costs of the agents" => "one agent’s cost function",
        _ => "one person’s record",
    };
    let each = if claims().count() > 1 { " each algorithm’s messages" } else { " the messages" };
    let seeded = match claims().any(|e| e.seeded) {
        true => {
            " This run was seeded and protects nobody; the same run with <code>--entropy os</code> does."
        }
        false => "",
    };
    format!(
        "<p class=\"meaning\">For one person in the data: whoever sees all of{each}, knows everybody else’s records and has narrowed {whom} down to \
         two possibilities picks the right one at most <b>{} %</b> of the time, where a coin is right 50 %. <span class=\"sub\">(ε = {}{}; <a \
         href=\"#privacy\">the claim in full</a>)</span>{seeded}</p>\n",
        up_percent(meaning.right_guess),
        epsilon(epsilon_of_all),
        if delta == 0.0 { String::new() } else { format!(", δ = {}", exact(delta)) },
    )
}

/// A share as a percentage with one decimal, rounded up.
fn up_percent(share: f64) -> String {
    format!("{:.1}", (1000.0 * share).ceil().min(1000.0) / 10.0)
}

fn header(record: &Record) -> String {
    let problem = &record.problem;
    let encoding = if matches!(problem.encoding.as_str(), "" | "none") {
        String::new()
    } else {
        format!(" ({})", problem.encoding)
    };
    let runs = match record.runs {
        1 => "one run".into(),
        runs => format!("means over {}", count(runs as usize, "run")),
    };
    // A ridge that was derived has more digits than anybody reads; the parameters have them all.
    let ridge = format!("{:.2e}", problem.regularization).parse().unwrap_or(problem.regularization);
    let summary = format!(
        "{} on {}{encoding}: {} on a {} graph of {}, {} loss with μ = {}; {runs}, seed {}.",
        count(record.algorithms.len(), "algorithm"),
        problem.source,
        count(problem.agents, "agent"),
        problem.graph,
        count(problem.edges, "edge"),
        problem.loss,
        exact(ridge),
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
        items.insert(
            0,
            format!("Stopped early: {done} of {asked} runs were finished, and only those count."),
        );
    }
    for algorithm in record.algorithms.iter().filter(|a| a.agents_stopped > 0.0) {
        let stopped = number(algorithm.agents_stopped, 2);
        items.push(format!(
            "{}: {stopped} of {} agents (mean over runs) had spent their budget before the last round.",
            algorithm.label, record.problem.agents
        ));
    }
    for algorithm in &record.algorithms {
        let said = algorithm.findings.iter().map(|f| format!("{}: {f}.", algorithm.label));
        items.extend(said);
    }
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    format!(
        "<aside class=\"warnings\">\n<h2>Before you read on</h2>\n<ul>\n{items}</ul>\n</aside>\n"
    )
}

/// A column of the results: shown where some row has a value for it.
struct Column {
    head: &'static str,
    explained: &'static str,
}

const COLUMNS: [Column; 9] = [
    Column { head: "Rounds", explained: "" },
    Column {
        head: "Test accuracy, %",
        explained: "Accuracy and AUC on test records: mean over agents and runs.",
    },
    Column { head: "Agents, %", explained: "Agents: the worst and the best agent’s accuracy." },
    Column { head: "AUC", explained: "" },
    Column {
        head: "Objective gap",
        explained: "Objective gap: F at the network’s mean model minus F(x*).",
    },
    Column { head: "Log error", explained: "Log error: ln(‖x<sub>i</sub> − x*‖/d)." },
    Column {
        head: "Constraint missed by",
        explained: "Constraint: ‖Σ A<sub>i</sub>x<sub>i</sub> − c‖, violated rows only.",
    },
    Column { head: "ε claim", explained: "ε is rounded up." },
    Column { head: "Time", explained: "" },
];

/// A row of the results: its name and a value, if it has one, for every column.
struct Row {
    head: String,
    cells: [Option<String>; 9],
}

fn results(record: &Record) -> String {
    let algorithms: Vec<Row> = record.algorithms.iter().map(|a| algorithm_row(record, a)).collect();
    let baselines = baseline_rows(record);
    let shown: Vec<usize> = (0..COLUMNS.len())
        .filter(|&k| algorithms.iter().chain(&baselines).any(|row| row.cells[k].is_some()))
        .collect();
    let html = |row: &Row| {
        let cell = |&k: &usize| format!("<td>{}</td>", row.cells[k].as_deref().unwrap_or(NONE));
        let cells: String = shown.iter().map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", row.head)
    };
    let heads: String =
        shown.iter().map(|&k| format!("<th scope=\"col\">{}</th>", COLUMNS[k].head)).collect();
    let explained: Vec<&str> =
        shown.iter().map(|&k| COLUMNS[k].explained).filter(|text| !text.is_empty()).collect();
    let mut notes = explained.join(" ");
    let scored = record.algorithms.iter().any(|a| a.test_accuracy.is_some() || a.metrics.is_some());
    let classifies = matches!(record.problem.loss.as_str(), "logistic" | "softmax");
    if !scored && (classifies || record.kind != ResultKind::Simulation) {
        notes.push_str(" No metrics: the experiment has no test records (<code>data.hold_out</code> or <code>data.test</code>).");
    }
    if record.algorithms.iter().any(|algorithm| no_better(record, algorithm)) {
        notes.push_str(" † No better than always answering the most frequent class.");
    }
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"Results\" tabindex=\"0\">\n\
         <table class=\"results\">\n<thead><tr><th scope=\"col\">Algorithm</th>{heads}</tr></thead>\n\
         <tbody class=\"algorithms\">\n{}</tbody>\n<tbody class=\"baselines\">\n\
         <tr><th scope=\"rowgroup\" colspan=\"{}\">To compare with</th></tr>\n{}</tbody>\n</table>\n</div>\n<p class=\"note\">{notes}</p>\n",
        algorithms.iter().map(html).collect::<String>(),
        shown.len() + 1,
        baselines.iter().map(html).collect::<String>(),
    )
}

/// To half of the last digit that is shown.
fn no_better(record: &Record, algorithm: &AlgorithmRecord) -> bool {
    let pair = algorithm.test_accuracy.zip(record.baselines.majority_accuracy);
    pair.is_some_and(|(accuracy, majority)| accuracy <= majority + 5e-4)
}

fn algorithm_row(record: &Record, algorithm: &AlgorithmRecord) -> Row {
    let gossip = match algorithm.gossip {
        0 => String::new(),
        gossip => format!(" <span class=\"sub\">+ {gossip} mixing</span>"),
    };
    let dagger = if no_better(record, algorithm) { "†" } else { "" };
    let spread = algorithm.per_agent_accuracy;
    let gap = match algorithm.diverged {
        true => "<span class=\"sub\">diverged</span>".into(),
        false => number(algorithm.optimum_gap, 3),
    };
    let private = record.algorithms.iter().any(|a| a.epsilon.is_some());
    let claim = match &algorithm.epsilon {
        Some(e) => Some(format!("{}{}", epsilon(e.claim), at_delta(e.delta))),
        None => private.then(|| "<span class=\"none\">no privacy claim</span>".into()),
    };
    let cells = [
        Some(format!("{}{gossip}", thousands(algorithm.rounds as usize))),
        algorithm.test_accuracy.map(|v| format!("{}{dagger}", percent(v))),
        spread.map(|s| format!("{}–{}", percent(s.min), percent(s.max))),
        algorithm.test_auc.map(|v| format!("{v:.3}")),
        Some(gap),
        Some(number(algorithm.log_error, 3)),
        algorithm.violation.map(|v| number(v, 3)),
        claim,
        Some(seconds(algorithm.seconds)),
    ];
    Row { head: escape(&algorithm.label), cells }
}

fn at_delta(delta: f64) -> String {
    if delta == 0.0 {
        " <span class=\"sub\">pure</span>".into()
    } else {
        format!(" <span class=\"sub\">δ = {}</span>", exact(delta))
    }
}

fn baseline_rows(record: &Record) -> Vec<Row> {
    let baselines = &record.baselines;
    let row = |head: &str,
               accuracy: Option<f64>,
               auc: Option<f64>,
               gap: Option<String>,
               error: Option<String>| {
        let auc = auc.map(|v| format!("{v:.3}"));
        let cells = [None, accuracy.map(percent), None, auc, gap, error, None, None, None];
        Row { head: head.into(), cells }
    };
    let tuned =
        |figure: fn(&Metrics) -> Option<f64>| figure(&baselines.reference.as_ref()?.metrics);
    let zero = &baselines.zero_model;
    let above = number(zero.objective - baselines.central_optimum_objective, 3);
    let all = [
        row("Most frequent class", baselines.majority_accuracy, None, None, None),
        row("Zero model", zero.accuracy, None, Some(above), Some(number(zero.log_error, 3))),
        row("Agents alone, without noise", baselines.local_only_accuracy, None, None, None),
        row(
            "Optimum of this objective, not private",
            baselines.central_optimum_accuracy,
            baselines.central_optimum_auc,
            Some("0".into()),
            Some("−∞".into()),
        ),
        row("Tuned reference, not private", tuned(|m| m.accuracy), tuned(|m| m.auc), None, None),
    ];
    // Under a linear constraint the zero model breaks it, and what it costs says nothing; beside an
    // optimum that is not known neither says anything.
    let skipped: &[&str] =
        match (baselines.central_optimum_objective.is_nan(), super::is_coupled(record)) {
            (true, _) => &["Zero model", "Optimum of this objective, not private"],
            (_, true) => &["Zero model"],
            _ => &[],
        };
    all.into_iter()
        .filter(|row| {
            !skipped.contains(&row.head.as_str()) && row.cells.iter().any(Option::is_some)
        })
        .collect()
}

/// Claims that say the same are one card under all their names; what every card would say is said
/// once, before them.
fn claims(record: &Record) -> String {
    let mut cards: Vec<(String, Vec<&AlgorithmRecord>)> = Vec::new();
    let private: Vec<_> =
        record.algorithms.iter().filter_map(|a| Some((a, a.epsilon.as_ref()?))).collect();
    if private.is_empty() {
        return "<p>No privacy claim: nothing that was exchanged is protected by noise that was accounted for.</p>\n".into();
    }
    let common: Vec<Line> = match private.as_slice() {
        [(_, first), rest @ ..] if !rest.is_empty() => lines(first)
            .into_iter()
            .filter(|line| rest.iter().all(|(_, e)| lines(e).contains(line)))
            .collect(),
        _ => Vec::new(),
    };
    for (algorithm, e) in private {
        let card = claim(e, &common);
        match cards.iter_mut().find(|(other, _)| *other == card) {
            Some((_, algorithms)) => algorithms.push(algorithm),
            None => cards.push((card, vec![algorithm])),
        }
    }
    let shared = match common.is_empty() {
        true => String::new(),
        false => format!(
            "<p class=\"note\">All of them:</p>\n<div class=\"claim shared\">{}</div>\n",
            table_of(&common)
        ),
    };
    let boxes: String = cards.iter().map(|(card, algorithms)| article(card, algorithms)).collect();
    let note = match record.sweep.is_empty() {
        true => "",
        false => {
            "<p class=\"note\">These are the claims at the experiment’s own budget and size; those of the sweep have each their own ε.</p>\n"
        }
    };
    format!("{note}{shared}<div class=\"claims\">\n{boxes}</div>\n")
}

fn article(card: &str, algorithms: &[&AlgorithmRecord]) -> String {
    let names: Vec<String> = algorithms.iter().map(|a| escape(&a.label)).collect();
    let noises: Vec<String> = algorithms
        .iter()
        .filter(|a| !a.noise.is_empty())
        .map(|a| match algorithms.len() {
            1 => escape(a.noise.trim_end_matches('.')),
            _ => format!("{}: {}", escape(&a.label), escape(a.noise.trim_end_matches('.'))),
        })
        .collect();
    let noise = match noises.is_empty() {
        true => String::new(),
        false => format!("<p class=\"note\">Noise: {}.</p>\n", noises.join("; ")),
    };
    format!("<article class=\"claim\">\n<h3>{}</h3>\n{card}{noise}</article>\n", names.join(" · "))
}

/// A card without its name and its noise, and without the lines that all cards share.
fn claim(e: &EpsilonRecord, common: &[Line]) -> String {
    let delta = if e.delta == 0.0 { "δ = 0".into() } else { format!("δ = {}", exact(e.delta)) };
    let stamp = if e.seeded { format!("<p class=\"stamp\">{STAMP}</p>\n") } else { String::new() };
    let own: Vec<Line> = lines(e).into_iter().filter(|line| !common.contains(line)).collect();
    let statement = match (lines(e).is_empty(), own.is_empty()) {
        (true, _) => format!("<p>{}</p>\n", escape(e.statement.trim())),
        (_, true) => String::new(),
        _ => table_of(&own),
    };
    let bounds = bounds(&e.bounds, &e.method);
    let bounds = match bounds.is_empty() {
        true => bounds,
        false => {
            format!(
                "<details class=\"minor\">\n<summary>ε by every method</summary>\n{bounds}</details>\n"
            )
        }
    };
    format!(
        "<p class=\"figure\">ε = {}, {delta} <span class=\"sub\">by {}</span></p>\n{statement}{}{bounds}{stamp}",
        epsilon(e.claim),
        escape(method_name(&e.method)),
        worst_cases(e),
    )
}

/// A line of a statement: its term, and what it says without the citation at its end.
type Line = (String, String);

fn table_of(lines: &[Line]) -> String {
    let row = |(term, text): &Line| {
        format!("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape(term), escape(text))
    };
    format!("<table class=\"statement\">\n{}</table>\n", lines.iter().map(row).collect::<String>())
}

/// The statement in lines of `term  explanation`; none if it is a sentence. Lines under `by method`
/// are left to the table of bounds where there is one; the heading and the stamp are not said
/// twice.
fn lines(e: &EpsilonRecord) -> Vec<Line> {
    let all: Vec<&str> = e.statement.lines().filter(|line| !line.trim().is_empty()).collect();
    if all.len() < 2 {
        return Vec::new();
    }
    let has_bounds = e.bounds.as_object().is_some_and(|bounds| !bounds.is_empty());
    let mut kept = Vec::new();
    for line in all {
        let (term, explanation) = line.trim().split_once("  ").unwrap_or(("", line.trim()));
        let explanation = explanation.trim();
        let detail = line.starts_with("    ") || term == "by method";
        if term == "privacy claim" || (detail && has_bounds) || (e.seeded && explanation == STAMP) {
            continue;
        }
        let (text, _) = cited(explanation);
        kept.push((term.to_owned(), text.to_owned()));
    }
    kept
}

/// An explanation and the citation in the parentheses at its end: the one that ends with a year.
fn cited(explanation: &str) -> (&str, Option<&str>) {
    let inner = explanation.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    match inner {
        Some((text, citation)) if year(citation) => (text, Some(citation)),
        _ => (explanation, None),
    }
}

fn year(citation: &str) -> bool {
    citation
        .rsplit_once(' ')
        .is_some_and(|(_, last)| last.len() == 4 && last.chars().all(|c| c.is_ascii_digit()))
}

/// Whose theorems the claims rest on, each with what it was used for.
fn sources(record: &Record) -> String {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for e in record.algorithms.iter().filter_map(|a| a.epsilon.as_ref()) {
        for line in e.statement.lines() {
            let (_, explanation) = line.trim().split_once("  ").unwrap_or(("", line.trim()));
            if let (text, Some(citation)) = cited(explanation.trim()) {
                let what = text.split_once(" — ").map_or(text, |(_, what)| what);
                found.entry(citation.to_owned()).or_insert_with(|| what.to_owned());
            }
        }
    }
    let published = record.algorithms.iter().filter_map(|a| Some((a, a.published.as_ref()?)));
    for (algorithm, published) in published {
        found
            .entry(published.formula.clone())
            .or_insert_with(|| format!("{}: the account its authors published", algorithm.label));
    }
    let items: String = found
        .iter()
        .map(|(citation, what)| format!("<li>{}: {}.</li>\n", escape(what), escape(citation)))
        .collect();
    let paper = "<li>The algorithms and the interval mechanism: Xiao, Ye and Devadas, <i>Local Differential Privacy in Decentralized Optimization</i>.</li>\n";
    format!("<ul class=\"note\">\n{items}{paper}</ul>\n")
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
    if rows.is_empty() {
        rows
    } else {
        format!("<table>\n<caption>Pure ε</caption>\n{rows}</table>\n")
    }
}

/// One row per method, smallest first, the one that made the claim in bold; a column per norm where the
/// bounds are by norm.
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
    let keys = columns
        .iter()
        .filter_map(|(_, methods)| methods.as_object())
        .flat_map(|methods| methods.keys());
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
    // The results are of the models after mixing, the lines end before it: without a word they
    // would seem to disagree.
    let ends_early =
        |a: &AlgorithmRecord| a.gossip > 0 && a.curve.last().is_some_and(|at| at.round <= a.rounds);
    let note = match record.algorithms.iter().any(ends_early) {
        true => {
            "<p class=\"note\">Lines end with the last round that used records; the results above are after mixing.</p>\n"
        }
        false => "",
    };
    format!("{note}<div class=\"figures\">\n{all}</div>\n")
}

/// The pairwise map as a heat map, with what it means; nothing where there is none.
fn map(record: &Record) -> String {
    let Some(map) = &record.map else { return String::new() };
    let up = |x: f64| consenso_engine::privacy::printed_up(x, 3);
    let more = if map.mean > 1.001 * map.mean_after_half {
        format!(
            " More gossip leaks more: after half of these rounds the mean was {}.",
            up(map.mean_after_half)
        )
    } else {
        String::new()
    };
    format!(
        "<p>What each single agent can tell about a record of each other one from what its neighbours send, in the first {} rounds of {}: ε = {} in the mean, \
         where all others together could tell up to {} (δ = {:e}).{more} This takes gradients as fixed numbers: a picture, and no claim.</p>\n<div class=\"map\">{}</div>\n",
        map.rounds,
        escape(&map.label),
        up(map.mean),
        up(map.claimed),
        map.delta,
        map.svg()
    )
}

fn figures_title(record: &Record) -> &'static str {
    if record.sweep.is_empty() { "By round" } else { "Figures" }
}

fn problem(record: &Record) -> String {
    let p = &record.problem;
    let (least, most) = p.records;
    let records = if least == most {
        thousands(least)
    } else {
        format!("{} to {}", thousands(least), thousands(most))
    };
    let (smoothness, convexity) = p.smoothness;
    let facts = [
        ("Records from", p.source.clone()),
        ("Encoding", if p.encoding.is_empty() { "none".into() } else { p.encoding.clone() }),
        ("Agents N", thousands(p.agents)),
        ("Records per agent", records),
        ("Length of the model d", thousands(p.dim)),
        ("Loss", p.loss.clone()),
        ("Regularisation μ", written(p.regularization)),
        ("Graph", format!("{}, {}", p.graph, count(p.edges, "edge"))),
        (
            "Laplacian λ₂, λ_max (first run)",
            format!("{}, {}", number(p.laplacian.0, 4), number(p.laplacian.1, 4)),
        ),
        ("Mixing gap 1 − |λ₂(W)| (first run)", number(p.mixing_gap, 3)),
        (
            "Smoothness M, strong convexity m",
            format!("{}, {}", number(smoothness, 3), number(convexity, 3)),
        ),
        ("Condition number M/m", number(smoothness / convexity, 3)),
    ];
    let facts: String = facts
        .iter()
        .map(|(term, value)| {
            format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(term), escape(value))
        })
        .collect();
    format!("<dl>\n{facts}</dl>\n")
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
    record.algorithms.iter().filter(|a| !a.parameters.is_null()).map(one).collect()
}

fn repeat(record: &Record) -> String {
    let drawn_afresh =
        record.algorithms.iter().any(|a| a.epsilon.as_ref().is_some_and(|e| !e.seeded));
    let again = if drawn_afresh {
        "Noise came from the operating system and was not kept: running it again gives other numbers, and costs the records as much again."
    } else {
        "The same version and seed give the same transcript, bit for bit, on any number of threads."
    };
    format!(
        "<p>The experiment below is <code>experiment.toml</code> in this folder, with every open choice made. {again}</p>\n\
         <pre>consenso run experiment.toml --seed {}</pre>\n\
         <details>\n<summary>The resolved experiment</summary>\n<pre>{}</pre>\n</details>\n",
        record.seed,
        escape(&record.resolved),
    )
}

fn footer(record: &Record) -> String {
    format!(
        "<footer class=\"meta\">consenso {} · {} of {} runs · the numbers behind this page: <code>record.json</code>, \
         <code>trace.csv</code></footer>\n",
        escape(&record.version),
        record.runs,
        record.runs_asked,
    )
}
