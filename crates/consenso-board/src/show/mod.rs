//! What a reader gets of a board: a page, tables for papers, data, and what a terminal shows.
//!
//! Nothing here computes a figure: all of them are in the [`Results`]. An ε is printed rounded up.

mod page;
mod picture;
mod tables;

use crate::cell::stem;
use crate::results::{Ranking, Results, Row};
use crate::spec::{Measure, Setting, Tuning, epsilon_name};
use crate::stats;
use consenso_study::report::format::{epsilon, number, percent};
use serde_json::{Value, json};

/// Returns the files that show a board, by their path in its folder.
#[must_use]
pub fn files(results: &Results<'_>) -> Vec<(String, String)> {
    let mut files = vec![
        ("index.html".to_owned(), page::html(results)),
        ("results.csv".to_owned(), tables::results_csv(results)),
        ("ranks.csv".to_owned(), tables::ranks_csv(results)),
        ("tables.tex".to_owned(), tables::latex(results)),
    ];
    for scope in Scope::all(results) {
        if let Some(ranking) = scope.ranking(results) {
            let svg = picture::ranks(results, &ranking, &scope.title(results), true);
            files.push((format!("figures/ranks-{}.svg", scope.name(results)), svg));
        }
    }
    for problem in 0..results.board.problems.len() {
        for (name, figure) in page::figures(results, problem) {
            files.push((format!("figures/{name}.svg"), figure.to_svg()));
        }
    }
    files
}

/// Which settings are ranked together: a budget changes what is hard, and a condition who can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scope {
    private: bool,
    /// The only condition, where there are several.
    condition: Option<usize>,
}

impl Scope {
    fn all(results: &Results<'_>) -> Vec<Self> {
        let conditions = results.board.conditions.len();
        let of = |private: bool| {
            let only = (0..conditions).map(move |c| Self { private, condition: Some(c) });
            let whole = Self { private, condition: None };
            if conditions > 1 { only.collect::<Vec<_>>() } else { vec![whole] }
        };
        [true, false].into_iter().flat_map(of).collect()
    }

    fn name(self, results: &Results<'_>) -> String {
        let name = if self.private { "private" } else { "not-private" };
        match self.condition {
            Some(c) => format!("{name}-{}", stem(&results.board.conditions[c].name)),
            None => name.into(),
        }
    }

    fn title(self, results: &Results<'_>) -> String {
        let title = match self.private {
            true => "Mean ranks under a budget",
            false => "Mean ranks without privacy",
        };
        match self.condition {
            Some(c) => format!("{title}, {}", results.board.conditions[c].name),
            None => title.into(),
        }
    }

    fn has(self, setting: Setting) -> bool {
        setting.epsilon.is_some() == self.private
            && self.condition.is_none_or(|c| setting.condition == c)
    }

    fn ranking(self, results: &Results<'_>) -> Option<Ranking> {
        results.ranking(|setting| self.has(setting))
    }
}

/// A method's name as tables have it: one that was added is marked.
fn marked(results: &Results<'_>, method: usize) -> String {
    let name = &results.methods[method];
    if method < results.own { name.clone() } else { format!("{name} (claimed)") }
}

/// Settings won, ties shared: whole numbers without decimals.
fn wins(count: f64) -> String {
    if (count - count.round()).abs() < 0.05 { format!("{count:.0}") } else { format!("{count:.1}") }
}

/// Who is not ranked, and why, as the end of a note; nothing where all are.
fn not_ranked(results: &Results<'_>, ranking: &Ranking) -> Option<String> {
    let names = |of: fn(usize, usize) -> bool| -> Vec<&str> {
        let left =
            ranking.left_out.iter().filter(|(_, missing)| of(*missing, ranking.found.blocks));
        left.map(|(m, _)| results.methods[*m].as_str()).collect()
    };
    let (none, some) = (names(|missing, all| missing == all), names(|missing, all| missing < all));
    let part = |words: &str, names: Vec<&str>| {
        (!names.is_empty()).then(|| {
            format!("not ranked, for lack of a result in {words} of them: {}", names.join(", "))
        })
    };
    let parts: Vec<String> = [
        // Where most methods do not go, those that do are the news.
        match none.len() {
            0..=6 => part("any", none),
            many => Some(format!("{many} other methods go with none of them")),
        },
        part("some", some),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A figure in its measure.
fn figure(measure: &Measure, value: f64) -> String {
    match measure.figure.as_str() {
        _ if !value.is_finite() => "–".into(),
        _ if measure.is_share() => percent(value),
        "gap" | "mse" | "rmse" | "mae" | "deviance" => number(value, 3),
        _ => format!("{value:.3}").replace('-', "−"),
    }
}

/// A standard deviation in a measure.
fn deviation(measure: &Measure, value: f64) -> String {
    match measure.is_share() {
        true => format!("{:.1}", 100.0 * value),
        false if ["gap", "mse", "rmse", "mae"].contains(&measure.figure.as_str()) => {
            number(value, 1)
        }
        false => format!("{value:.3}"),
    }
}

/// A method on a problem under a condition and a budget, over graphs.
struct Summary {
    /// Mean over settings of the means over seeds.
    mean: f64,
    /// Standard deviation over seeds, pooled over settings.
    deviation: Option<f64>,
    /// Settings with a figure, of those the problem has.
    of: (usize, usize),
    /// The worst certified ε and its δ.
    certified: Option<(f64, f64)>,
    /// The worst published ε of the same noise.
    published: Option<f64>,
    messages: Option<f64>,
    bytes: Option<f64>,
    network_seconds: Option<f64>,
    rounds: Option<f64>,
}

/// A problem under a condition.
#[derive(Clone, Copy)]
struct Place {
    problem: usize,
    condition: usize,
}

/// Where a problem is run, condition by condition.
fn places(results: &Results<'_>, problem: usize) -> Vec<Place> {
    let settings = results.board.settings();
    let runs = |c: &usize| settings.iter().any(|s| s.problem == problem && s.condition == *c);
    (0..results.board.conditions.len())
        .filter(runs)
        .map(|condition| Place { problem, condition })
        .collect()
}

fn summarise(
    results: &Results<'_>,
    place: Place,
    budget: Option<f64>,
    method: usize,
) -> Option<Summary> {
    let settings = results.board.settings();
    let here: Vec<usize> = (0..settings.len())
        .filter(|&s| {
            let at = settings[s];
            (at.problem, at.condition, at.epsilon) == (place.problem, place.condition, budget)
        })
        .collect();
    let rows: Vec<&Row> = here
        .iter()
        .filter_map(|&s| results.row(s, method))
        .filter(|row| !row.values.is_empty())
        .collect();
    if rows.is_empty() {
        return None;
    }
    let n = rows.len() as f64;
    let variances: Option<Vec<f64>> =
        rows.iter().map(|row| row.deviation().map(|d| d * d)).collect();
    let mean_of = |value: fn(&Row) -> Option<f64>| {
        let all: Option<Vec<f64>> = rows.iter().map(|row| value(row)).collect();
        all.map(|all| all.iter().sum::<f64>() / n)
    };
    let certified = rows.iter().filter_map(|row| row.certified.as_ref());
    let certified =
        certified.map(|c| (c.epsilon, c.delta)).reduce(|a, b| if b.0 > a.0 { b } else { a });
    Some(Summary {
        mean: rows.iter().map(|row| row.mean()).sum::<f64>() / n,
        deviation: variances.map(|all| (all.iter().sum::<f64>() / n).sqrt()),
        of: (rows.len(), here.len()),
        certified,
        published: rows
            .iter()
            .filter_map(|r| r.published.as_ref())
            .map(|p| p.epsilon)
            .reduce(f64::max),
        messages: mean_of(|row| row.messages),
        bytes: mean_of(|row| row.bytes),
        network_seconds: mean_of(|row| row.network_seconds),
        rounds: mean_of(|row| row.rounds),
    })
}

/// The budgets of a problem, in the board's order.
fn budgets(results: &Results<'_>, problem: usize) -> Vec<Option<f64>> {
    let mut all: Vec<Option<f64>> = Vec::new();
    for setting in results.board.settings().iter().filter(|s| s.problem == problem) {
        if !all.contains(&setting.epsilon) {
            all.push(setting.epsilon);
        }
    }
    all
}

/// ε = 1, or "not private".
fn budget_title(budget: Option<f64>) -> String {
    budget.map_or_else(|| "not private".into(), |e| format!("ε = {e}"))
}

/// How parameters were chosen, in a sentence.
fn tuning(results: &Results<'_>) -> String {
    match results.board.tuning {
        Tuning::None => {
            "Nothing is tuned: every method runs with its public defaults, or as the board says."
                .into()
        }
        Tuning::Trials { trials, seeds } => format!(
            "Every method is tuned within the same budget of {trials} trials per setting: its defaults and points of its grid, each on {seeds} validation \
             {} that {} not among those shown, judged by the objective on the training records, never by test records. Trials are not charged: a \
             certified ε is that of one run with the chosen parameters, and not of choosing them on the same records.",
            if seeds == 1 { "seed" } else { "seeds" },
            if seeds == 1 { "is" } else { "are" },
        ),
    }
}

/// A table for a terminal.
#[derive(Clone, Debug)]
pub struct Part {
    /// What it shows.
    pub title: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// Lines under it.
    pub notes: Vec<String>,
}

/// Returns the tables that a terminal shows: ranks, then a table per problem.
#[must_use]
pub fn terminal(results: &Results<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for scope in Scope::all(results) {
        let Some(ranking) = scope.ranking(results) else { continue };
        let found = &ranking.found;
        let rows = (0..ranking.methods.len()).map(|k| {
            let (low, high) = found.interval[k];
            vec![
                marked(results, ranking.methods[k]),
                format!("{:.2}", found.mean[k]),
                format!("{low:.2} to {high:.2}"),
                wins(found.wins[k]),
            ]
        });
        let mut notes = vec![format!(
            "{} settings; Friedman p {}; mean ranks closer than {:.2} cannot be told apart",
            found.blocks,
            p_value(found.p),
            found.critical_difference
        )];
        notes.extend(not_ranked(results, &ranking));
        parts.push(Part {
            title: scope.title(results),
            columns: ["method", "mean rank", "95 % interval", "wins"].map(String::from).to_vec(),
            rows: rows.collect(),
            notes,
        });
    }
    for (p, problem) in results.board.problems.iter().enumerate() {
        let Some(&place) = places(results, p).first() else { continue };
        let budgets = budgets(results, p);
        let mut columns = vec!["method".to_owned()];
        columns.extend(budgets.iter().map(|b| budget_title(*b)));
        columns.push("certified ε".into());
        let mut rows = Vec::new();
        for method in 0..results.methods.len() {
            let found: Vec<Option<Summary>> =
                budgets.iter().map(|b| summarise(results, place, *b, method)).collect();
            if found.iter().all(Option::is_none) {
                continue;
            }
            let mut row = vec![marked(results, method)];
            row.extend(found.iter().map(|s| match s {
                Some(s) if s.of.0 < s.of.1 => format!("{} *", figure(&problem.measure, s.mean)),
                Some(s) => figure(&problem.measure, s.mean),
                None => "–".into(),
            }));
            let certified: Vec<String> =
                found.iter().flatten().filter_map(|s| Some(epsilon(s.certified?.0))).collect();
            row.push(match method < results.own {
                true => certified.join(" / "),
                false => "not certified".into(),
            });
            rows.push(row);
        }
        let direction = if problem.measure.more_is_better() { "more" } else { "less" };
        let unit = if problem.measure.is_share() { ", %" } else { "" };
        let mut notes = Vec::new();
        if rows.iter().flatten().any(|cell| cell.ends_with(" *")) {
            notes.push("* not in all settings".to_owned());
        }
        let published = results.board.published.iter().filter(|a| a.problem == problem.name);
        notes.extend(published.map(|a| {
            format!(
                "published: {} at {}: {} ({})",
                a.method,
                published_budget(a.epsilon, a.delta),
                figure(&problem.measure, a.value),
                a.source
            )
        }));
        parts.push(Part {
            title: format!(
                "{}, {}: {}{unit} ({direction} is better)",
                problem.name,
                results.board.conditions[place.condition].name,
                problem.measure.label()
            ),
            columns,
            rows,
            notes,
        });
    }
    parts
}

/// ε and δ as published.
fn published_budget(epsilon: Option<f64>, delta: Option<f64>) -> String {
    match (epsilon, delta) {
        (Some(e), Some(d)) => format!("({e}, {d:e})"),
        (Some(e), None) => format!("ε = {e}"),
        (None, _) => "no privacy".into(),
    }
}

fn p_value(p: f64) -> String {
    if p < 1e-4 { "< 0.0001".into() } else { format!("= {p:.4}") }
}

/// Returns everything a script may want: results, ranks, and how they were made.
#[must_use]
pub fn summary(results: &Results<'_>) -> Value {
    let board = results.board;
    let rows: Vec<Value> = results.rows.iter().map(|row| row_value(results, row)).collect();
    let mut ranks = Vec::new();
    for scope in Scope::all(results) {
        let Some(ranking) = scope.ranking(results) else { continue };
        let mut value = ranking_value(results, &ranking);
        value["private"] = json!(scope.private);
        value["condition"] = json!(scope.condition.map(|c| &results.board.conditions[c].name));
        ranks.push(value);
    }
    let (trials, seeds) = match board.tuning {
        Tuning::None => (Value::Null, Value::Null),
        Tuning::Trials { trials, seeds } => (json!(trials), json!(seeds)),
    };
    json!({
        "board": board.name,
        "experiments": { "done": results.units.0, "asked": results.units.1 },
        "tuning": { "trials": trials, "validation_seeds": seeds },
        "seeds": board.seeds,
        "ranks": ranks,
        "results": rows,
        "published": board.published,
    })
}

fn ranking_value(results: &Results<'_>, ranking: &Ranking) -> Value {
    let found = &ranking.found;
    let methods: Vec<Value> = (0..ranking.methods.len())
        .map(|k| {
            json!({
                "method": results.methods[ranking.methods[k]],
                "certified": ranking.methods[k] < results.own,
                "mean_rank": found.mean[k], "low": found.interval[k].0, "high": found.interval[k].1,
                "wins": found.wins[k],
            })
        })
        .collect();
    let left_out: Vec<&String> =
        ranking.left_out.iter().map(|(m, _)| &results.methods[*m]).collect();
    json!({
        "settings": found.blocks, "methods": methods, "left_out": left_out,
        "friedman": { "chi2": found.friedman, "p": found.p },
        "critical_difference": found.critical_difference, "level": stats::LEVEL,
    })
}

fn row_value(results: &Results<'_>, row: &Row) -> Value {
    let setting = results.setting(row.setting);
    let [problem, graph, condition, _] = results.board.names(setting);
    let measure = &results.board.problems[setting.problem].measure.figure;
    let has = !row.values.is_empty();
    json!({
        "problem": problem, "graph": graph, "condition": condition, "epsilon": setting.epsilon,
        "method": results.methods[row.method], "claimed": row.method >= results.own,
        "measure": measure,
        "mean": has.then(|| row.mean()).filter(|m| m.is_finite()),
        "deviation": row.deviation(),
        "values": row.values.iter().map(|v| json!({ "seed": v.0, "value": v.1 })).collect::<Vec<_>>(),
        "certified": row.certified, "published": row.published,
        "rounds": row.rounds, "messages": row.messages, "bytes": row.bytes,
        "network_seconds": row.network_seconds, "seconds": row.seconds,
        "tuned": row.tuned, "refused": row.refused,
    })
}

/// ε of a setting as files and pages name it.
fn epsilon_word(results: &Results<'_>, setting: usize) -> String {
    epsilon_name(results.setting(setting).epsilon)
}
