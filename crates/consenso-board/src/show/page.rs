//! The page: one file that works offline, with filters for readers with scripts.

use super::{
    Place, Scope, Summary, budget_title, budgets, deviation, figure, marked, not_ranked, p_value,
    picture, places, published_budget, summarise, tuning, wins,
};
use crate::cell::stem;
use crate::results::{Ranking, Results, Row};
use crate::spec::{Problem, epsilon_name};
use crate::stats;
use consenso_study::report::format::{count, epsilon, exact, number};
use consenso_study::report::{Axis, Figure, Point, Reference, Scale, Series, chart, escape, page};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const STYLE: &str = include_str!("board.css");
const SCRIPT: &str = include_str!("board.js");
const NONE: &str = "<span class=\"none\">–</span>";

pub(super) fn html(results: &Results<'_>) -> String {
    let board = results.board;
    let mut main = sections(&[
        ("ranks", "Ranks", ranks(results)),
        ("anchors", "Published figures beside ours", anchors(results)),
    ]);
    for (p, problem) in board.problems.iter().enumerate() {
        let id = format!("problem-{}", stem(&problem.name));
        main += &sections(&[(&id, &problem.name, of_problem(results, p))]);
    }
    main += &sections(&[
        ("accounts", "Certified and published costs", accounts(results)),
        ("claimed", "Claimed results", claimed(results)),
        ("methods", "Methods", methods(results)),
        ("refused", "What did not run", refused(results)),
        ("repeat", "How to repeat it", repeat(results)),
    ]);
    let head = header(results) + &page::contents_of(&main) + &filters(results);
    let data = data(results).to_string().replace('<', "\\u003c").replace('&', "\\u0026");
    let all = format!(
        "<style>{STYLE}</style>\n{head}{main}{}<script type=\"application/json\" id=\"board\">{data}</script>\n<script>{SCRIPT}</script>\n",
        footer()
    );
    page::shell(&format!("{}, a board", board.name), env!("CARGO_PKG_VERSION"), &all)
}

fn sections(all: &[(&str, &str, String)]) -> String {
    let one = |(id, title, html): &(&str, &str, String)| match html.is_empty() {
        true => String::new(),
        false => format!("<section id=\"{id}\">\n<h2>{}</h2>\n{html}</section>\n", escape(title)),
    };
    all.iter().map(one).collect()
}

fn header(results: &Results<'_>) -> String {
    let board = results.board;
    let (there, asked) = results.units;
    let partly = match there < asked {
        true => format!(
            "<p class=\"stamp\">Not the whole board: {there} of {asked} experiments are there.</p>\n"
        ),
        false => String::new(),
    };
    let private = board.problems.iter().any(|p| p.path().is_some());
    let own = match private {
        true => {
            "<p class=\"stamp\">Some records are not bundled with the software: figures of seeded runs are exact functions of them, and as private as they are.</p>\n"
        }
        false => "",
    };
    format!(
        "<header>\n<p class=\"kicker\">Benchmark of private decentralized optimisation</p>\n<h1>The board “{}”</h1>\n<p class=\"lead\">{} {}, {}, {}, {} and {}.</p>\n</header>\n{partly}{own}\
         <p class=\"meaning\">{} Noise is calibrated to the budget, and the ε of every result of our own is certified from the noise and the sensitivity; \
         runs are seeded simulations, and the figures hold for the same runs on entropy of the operating system. Results that others added are theirs: \
         they are marked as claimed, and nobody here has checked their ε.</p>\n",
        escape(&board.name),
        escape(&board.about),
        count(results.methods.len(), "method"),
        count(board.problems.len(), "problem"),
        count(board.graphs.len(), "graph"),
        count(board.conditions.len(), "condition"),
        count(board.seeds.len(), "seed"),
        escape(&tuning(results)),
    )
}

/// Choices of what is shown, for readers with scripts.
fn filters(results: &Results<'_>) -> String {
    let board = results.board;
    let select = |id: &str, label: &str, names: Vec<String>| {
        let options: String = names
            .iter()
            .enumerate()
            .map(|(k, name)| format!("<option value=\"{k}\">{}</option>", escape(name)))
            .collect();
        format!(
            "<label>{label}<select id=\"filter-{id}\"><option value=\"\">all</option>{options}</select></label>\n"
        )
    };
    let names = |all: &[crate::spec::Named]| all.iter().map(|n| n.name.clone()).collect();
    let budgets = all_budgets(results).iter().map(|b| budget_title(*b)).collect();
    format!(
        "<form class=\"filters\" id=\"filters\" hidden aria-label=\"What is shown\">\n{}{}{}{}<button type=\"reset\">show all</button>\n<output id=\"filtered\" aria-live=\"polite\"></output>\n</form>\n",
        select("problem", "problem", board.problems.iter().map(|p| p.name.clone()).collect()),
        select("graph", "graph", names(&board.graphs)),
        select("condition", "condition", names(&board.conditions)),
        select("epsilon", "budget", budgets),
    )
}

fn all_budgets(results: &Results<'_>) -> Vec<Option<f64>> {
    let mut all: Vec<Option<f64>> = Vec::new();
    for setting in results.board.settings() {
        if !all.contains(&setting.epsilon) {
            all.push(setting.epsilon);
        }
    }
    all.sort_by(|a, b| a.unwrap_or(0.0).total_cmp(&b.unwrap_or(0.0)));
    all
}

fn ranks(results: &Results<'_>) -> String {
    let (first, others): (Vec<Scope>, Vec<Scope>) =
        Scope::all(results).into_iter().partition(|s| s.condition.is_none_or(|c| c == 0));
    let mut out = rankings(results, &first);
    let others = rankings(results, &others);
    if !others.is_empty() {
        let _ = write!(
            out,
            "<details class=\"more-ranks\">\n<summary>Ranks under other conditions</summary>\n{others}</details>\n"
        );
    }
    if out.is_empty() {
        return out;
    }
    out + "<p class=\"note\">In every setting (a problem on a graph under a condition and a budget) methods are ranked by their mean over seeds, 1 the best; figures that agree to four digits are ties, and a run that \
           diverged is the worst. Intervals draw settings again. Methods joined by a bar have mean ranks closer than Nemenyi’s critical difference (level 0.05). Settings that share a problem are not \
           independent, so that both are surer of themselves than they should be.</p>\n"
}

/// A table and a picture for every group of settings in which methods can be ranked.
fn rankings(results: &Results<'_>, scopes: &[Scope]) -> String {
    let mut out = String::new();
    for scope in scopes {
        let Some(ranking) = scope.ranking(results) else { continue };
        let found = &ranking.found;
        let title = scope.title(results);
        let mut rows = String::new();
        for (k, &method) in ranking.methods.iter().enumerate() {
            let (low, high) = found.interval[k];
            let _ = writeln!(
                rows,
                "<tr><th scope=\"row\">{}</th><td>{:.2}</td><td>{low:.2} to {high:.2}</td><td>{}</td></tr>",
                name(results, method),
                found.mean[k],
                wins(found.wins[k])
            );
        }
        let _ = write!(
            out,
            "<div class=\"ranking\" data-private=\"{}\" data-condition=\"{}\">\n<h3>{}</h3>\n<div class=\"sidebyside\">\n<div class=\"scroll\">\n<table class=\"results ranks\">\n<thead><tr><th scope=\"col\">Method</th><th scope=\"col\">Mean rank</th>\
             <th scope=\"col\">95 % interval</th><th scope=\"col\">Wins</th></tr></thead>\n<tbody class=\"algorithms\">\n{rows}</tbody>\n</table>\n</div>\n<figure>{}</figure>\n</div>\n<p class=\"note\">{}</p>\n</div>\n",
            scope.private,
            scope.condition.map_or_else(String::new, |c| c.to_string()),
            escape(&title),
            picture::ranks(results, &ranking, &title, false),
            escape(&rank_note(results, &ranking)),
        );
    }
    out
}

fn rank_note(results: &Results<'_>, ranking: &Ranking) -> String {
    let found = &ranking.found;
    let mut note = format!(
        "{}; Friedman’s χ² = {}, p {}; critical difference {:.2}.",
        count(found.blocks, "setting"),
        number(found.friedman, 3),
        p_value(found.p),
        found.critical_difference
    );
    if let Some(left) = not_ranked(results, ranking) {
        let _ = write!(note, " {}.", capital(&left));
    }
    note
}

/// A method's name with its mark.
fn name(results: &Results<'_>, method: usize) -> String {
    let name = escape(&results.methods[method]);
    match method < results.own {
        true if results.other_adversary(method) => {
            format!("{name} <a class=\"claim-mark\" href=\"#methods\">other adversary</a>")
        }
        true => name,
        false => format!("{name} <span class=\"claim-mark\">claimed, not certified</span>"),
    }
}

fn of_problem(results: &Results<'_>, p: usize) -> String {
    let problem = &results.board.problems[p];
    let unit = if problem.measure.is_share() { " in %" } else { "" };
    let better = if problem.measure.more_is_better() { "more" } else { "less" };
    let mut out = format!(
        "<p>{}. Judged by {}{unit}; {better} is better. δ = {}.</p>\n",
        escape(&capital(&problem.about)),
        escape(problem.measure.label()),
        exact(problem.delta),
    );
    for (k, place) in places(results, p).into_iter().enumerate() {
        let name = escape(&results.board.conditions[place.condition].name);
        let table = of_place(results, place);
        // The first condition is open; what others change is a click away.
        out += &match (k, results.board.conditions.len()) {
            (_, 1) => table,
            (0, _) => format!("<h3>{name}</h3>\n{table}"),
            _ => format!(
                "<details class=\"condition\">\n<summary>{name}</summary>\n{table}</details>\n"
            ),
        };
    }
    let figures = figures(results, p);
    if !figures.is_empty() {
        out += "<div class=\"figures\">\n";
        for (id, drawn) in &figures {
            out += &chart::element(id, drawn, &escape(&drawn.description));
        }
        out += "</div>\n";
    }
    out
}

/// The table of a problem under one condition.
fn of_place(results: &Results<'_>, place: Place) -> String {
    let p = place.problem;
    let problem = &results.board.problems[p];
    let budgets = budgets(results, p);
    let heads: String = budgets
        .iter()
        .map(|b| {
            format!(
                "<th scope=\"col\" data-epsilon=\"{}\">{}</th>",
                epsilon_name(*b),
                escape(&budget_title(*b))
            )
        })
        .collect();
    let mut out = format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"Figures\" tabindex=\"0\">\n\
         <table class=\"results figures-of\" data-problem=\"{p}\" data-condition=\"{}\">\n<thead><tr><th scope=\"col\">Method</th>{heads}<th scope=\"col\">Rounds</th><th scope=\"col\">Messages</th><th scope=\"col\">Sent</th><th scope=\"col\">Time</th></tr></thead>\n<tbody class=\"algorithms\">\n",
        place.condition,
    );
    let all: Vec<Vec<Option<Summary>>> = (0..results.methods.len())
        .map(|m| budgets.iter().map(|b| summarise(results, place, *b, m)).collect())
        .collect();
    let best: Vec<Option<f64>> = (0..budgets.len())
        .map(|b| {
            let means = all.iter().filter_map(|row| Some(row[b].as_ref()?.mean));
            let means = means.filter(|m| m.is_finite());
            match problem.measure.more_is_better() {
                true => means.reduce(f64::max),
                false => means.reduce(f64::min),
            }
        })
        .collect();
    let mut order: Vec<usize> =
        (0..all.len()).filter(|&m| all[m].iter().any(Option::is_some)).collect();
    // The best first, by the last budget that a method has.
    let key = |m: usize| {
        let last = all[m].iter().rev().flatten().next().map_or(f64::NAN, |s| s.mean);
        match (last.is_nan(), problem.measure.more_is_better()) {
            (true, _) => f64::INFINITY,
            (_, true) => -last,
            (_, false) => last,
        }
    };
    order.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
    for m in order {
        let cells: String = all[m]
            .iter()
            .zip(&best)
            .zip(&budgets)
            .map(|((s, best), budget)| {
                let cell = s.as_ref().map_or_else(
                    || NONE.to_owned(),
                    |s| cell(problem, s, *best == Some(s.mean), m < results.own),
                );
                format!("<td data-epsilon=\"{}\">{cell}</td>", epsilon_name(*budget))
            })
            .collect();
        let last = all[m].iter().rev().flatten().next();
        let shown = |of: fn(&Summary) -> Option<f64>, words: fn(f64) -> String| {
            last.and_then(of).map_or_else(|| NONE.into(), words)
        };
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{}</th>{cells}<td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            name(results, m),
            shown(|s| s.rounds, |rounds| number(rounds, 3)),
            shown(|s| s.messages, |messages| number(messages, 3)),
            shown(|s| s.bytes, bytes),
            shown(|s| s.network_seconds, lasting),
        );
    }
    out += "</tbody>\n";
    out += &references(results, p, &budgets);
    let partial = all.iter().flatten().flatten().any(|s| s.of.0 < s.of.1);
    let _ = write!(
        out,
        "</table>\n</div>\n<p class=\"note\">Means over graphs and seeds; ± is the standard deviation over seeds. Rounds and what follows are those of the last budget; time is that of all exchanges, one after the other, over {}.{}</p>\n",
        link_words(results, place.condition),
        if partial {
            " * on some of the graphs only, so not comparable with the others."
        } else {
            ""
        }
    );
    out
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |c| c.to_uppercase().chain(chars).collect())
}

/// An ε as it is printed, rounded up to three digits: methods whose noise was found for one budget
/// differ in the sixth, and none of them costs less than the others.
fn as_printed(epsilon: f64) -> f64 {
    let unit = 10f64.powf(epsilon.log10().floor() - 2.0);
    (epsilon / unit - 1e-6).ceil() * unit
}

/// A figure with its spread, and what it cost.
fn cell(problem: &Problem, s: &Summary, best: bool, own: bool) -> String {
    let mean = figure(&problem.measure, s.mean);
    if !s.mean.is_finite() {
        return "<span class=\"none\">diverged</span>".into();
    }
    let mut out = if best { format!("<b>{mean}</b>") } else { mean };
    if let Some(d) = s.deviation.filter(|d| *d > 0.0) {
        let _ = write!(out, " <span class=\"sub\">± {}</span>", deviation(&problem.measure, d));
    }
    if s.of.0 < s.of.1 {
        out += " *";
    }
    if let (Some((certified, _)), true) = (s.certified, own) {
        let _ = write!(out, "<span class=\"cost\">certified ε {}</span>", epsilon(certified));
    }
    if let Some(published) = s.published.filter(|_| own) {
        let _ = write!(out, "<span class=\"cost\">its authors: ε {}</span>", epsilon(published));
    }
    out
}

/// What to read the figures against.
fn references(results: &Results<'_>, p: usize, budgets: &[Option<f64>]) -> String {
    let problem = &results.board.problems[p];
    let wanted: &[(&str, &str)] = match problem.measure.figure.as_str() {
        "accuracy" => &[
            ("optimum_accuracy", "Optimum of all records, not private"),
            ("local_accuracy", "Every agent alone, not private"),
            ("majority_accuracy", "Always the commonest class"),
        ],
        "auc" => &[("optimum_auc", "Optimum of all records, not private")],
        "r2" => &[("optimum_r2", "Optimum of all records, not private")],
        _ => &[],
    };
    let mut rows = String::new();
    for (key, label) in wanted {
        let Some(value) = reference(results, p, key) else { continue };
        // Beside the figures without a budget, which these are.
        let place = budgets.iter().position(Option::is_none).unwrap_or(0);
        let value = figure(&problem.measure, value);
        let cell =
            |k: usize| if k == place { format!("<td>{value}</td>") } else { "<td></td>".into() };
        let cells: String = (0..budgets.len() + 4).map(cell).collect();
        let _ = writeln!(rows, "<tr><th scope=\"row\">{label}</th>{cells}</tr>");
    }
    match rows.is_empty() {
        true => rows,
        false => format!("<tbody class=\"compare\">\n{rows}</tbody>\n"),
    }
}

/// The mean over the settings of a problem of something to compare with.
fn reference(results: &Results<'_>, p: usize, key: &str) -> Option<f64> {
    let settings = results.board.settings();
    let of = (0..settings.len()).filter(|&s| settings[s].problem == p);
    let all: Vec<f64> = of.filter_map(|s| results.baselines[s].get(key).copied()).collect();
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

/// The links of a condition, in words.
fn link_words(results: &Results<'_>, condition: usize) -> String {
    let own = results.board.condition_keys(condition);
    let said = |key: &str, usual: f64| {
        let own = own.get(key);
        own.and_then(|v| v.as_float().or(v.as_integer().map(|v| v as f64))).unwrap_or(usual)
    };
    format!(
        "links of {} ms and {} Mbit/s per agent",
        exact(said("latency_ms", results.board.link.latency_ms)),
        exact(said("bandwidth_mbit", results.board.link.bandwidth_mbit))
    )
}

/// A time, in a unit that suits it.
fn lasting(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{} s", number(s, 3)),
        s if s < 7200.0 => format!("{} min", number(s / 60.0, 3)),
        s => format!("{} h", number(s / 3600.0, 3)),
    }
}

fn bytes(value: f64) -> String {
    match value {
        v if v < 1e3 => format!("{v:.0} B"),
        v if v < 1e6 => format!("{} kB", number(v / 1e3, 3)),
        v if v < 1e9 => format!("{} MB", number(v / 1e6, 3)),
        v => format!("{} GB", number(v / 1e9, 3)),
    }
}

/// The figures of a problem, by name: what a budget buys, and what bytes buy at every budget.
pub(super) fn figures(results: &Results<'_>, p: usize) -> Vec<(String, Figure)> {
    let Some(&place) = places(results, p).first() else { return Vec::new() };
    let drawing = Drawing { results, p, place };
    let by_bytes = budgets(results, p).into_iter().filter_map(|budget| drawing.by_bytes(budget));
    drawing.by_epsilon().into_iter().chain(by_bytes).collect()
}

/// A chart has no more lines than a reader can tell apart.
const MOST_LINES: usize = 12;

/// A problem at one place, to be drawn.
struct Drawing<'a> {
    results: &'a Results<'a>,
    p: usize,
    place: Place,
}

impl Drawing<'_> {
    fn problem(&self) -> &Problem {
        &self.results.board.problems[self.p]
    }

    fn condition(&self) -> &str {
        &self.results.board.conditions[self.place.condition].name
    }

    /// A measure in the unit of the axis.
    fn shown(&self, value: f64) -> f64 {
        if self.problem().measure.is_share() { 100.0 * value } else { value }
    }

    fn y(&self) -> Axis {
        let measure = &self.problem().measure;
        let scale = if measure.figure == "gap" { Scale::Log } else { Scale::Linear };
        let unit = if measure.is_share() { " (%)" } else { "" };
        Axis::new(format!("{}{unit}", measure.label()), scale)
    }

    /// What the optimum without privacy reaches.
    fn lines(&self) -> Vec<Reference> {
        let key = match self.problem().measure.figure.as_str() {
            "accuracy" => "optimum_accuracy",
            "auc" => "optimum_auc",
            "r2" => "optimum_r2",
            _ => return Vec::new(),
        };
        let value = reference(self.results, self.p, key).map(|value| self.shown(value));
        value.map(|value| Reference { label: "optimum".into(), value }).into_iter().collect()
    }

    /// A line for every method that has `points`, of many the best ones, the last line along those that
    /// no other beats for less; how many points there are, and what to say of those left out.
    fn series(
        &self,
        points: impl Fn(usize) -> Vec<(f64, f64)>,
        front: &str,
    ) -> (Vec<Series>, usize, String) {
        let lines: Vec<(usize, Vec<(f64, f64)>)> = (0..self.results.methods.len())
            .map(|m| (m, points(m)))
            .filter(|(_, points)| !points.is_empty())
            .collect();
        let all: Vec<(f64, f64)> = lines.iter().flat_map(|(_, points)| points.clone()).collect();
        let drawn = self.best(&lines);
        let mut series: Vec<Series> = lines
            .iter()
            .filter(|(m, _)| drawn.contains(m))
            .map(|(m, points)| {
                let points = points.iter().map(|(x, v)| Point::from((*x, self.shown(*v))));
                Series::new(marked(self.results, *m), *m, points.collect())
            })
            .collect();
        if !series.is_empty() {
            series.push(self.front(&all, front));
        }
        let left = match lines.len() - drawn.len() {
            0 => String::new(),
            _ => format!(
                " {} of {} methods are drawn: those of the front, and the best.",
                drawn.len(),
                lines.len()
            ),
        };
        (series, all.len(), left)
    }

    /// The methods that are drawn: all, or of many those that make up the front and those with the
    /// best means.
    fn best(&self, lines: &[(usize, Vec<(f64, f64)>)]) -> Vec<usize> {
        let more = self.problem().measure.more_is_better();
        let all: Vec<(f64, f64)> = lines.iter().flat_map(|(_, points)| points.clone()).collect();
        let mut on_front = stats::front(&all, more).into_iter();
        let key = |(m, points): &(usize, Vec<(f64, f64)>)| {
            let front = on_front.by_ref().take(points.len()).filter(|on| *on).count() > 0;
            let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
            (!front, if more { -mean } else { mean }, *m)
        };
        let mut order: Vec<(bool, f64, usize)> = lines.iter().map(key).collect();
        order.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        order.into_iter().take(MOST_LINES).map(|(.., m)| m).collect()
    }

    fn front(&self, points: &[(f64, f64)], label: &str) -> Series {
        let on = stats::front(points, self.problem().measure.more_is_better());
        let mut of: Vec<(f64, f64)> =
            points.iter().zip(on).filter(|(_, on)| *on).map(|(p, _)| *p).collect();
        of.sort_by(|a, b| a.0.total_cmp(&b.0));
        of.dedup();
        let points = of.into_iter().map(|(x, v)| Point::from((x, self.shown(v)))).collect();
        Series { label: label.into(), points, colour: 6, dash: 1 }
    }

    fn by_epsilon(&self) -> Option<(String, Figure)> {
        let mut private: Vec<f64> = budgets(self.results, self.p).into_iter().flatten().collect();
        private.sort_by(f64::total_cmp);
        if private.len() < 2 {
            return None;
        }
        let point = |m, epsilon: f64| {
            let s = summarise(self.results, self.place, Some(epsilon), m)?;
            // A method of part of the graphs is no point among the others.
            (s.of.0 == s.of.1).then(|| (s.certified.map_or(epsilon, |c| as_printed(c.0)), s.mean))
        };
        let points = |m| private.iter().filter_map(|&epsilon| point(m, epsilon)).collect();
        let (series, count, left) = self.series(points, "front: nothing better for less ε");
        let problem = self.problem();
        let figure = || Figure {
            title: format!("{}: what a budget buys", problem.name),
            description: format!(
                "{} against the certified ε, means over graphs and seeds, condition: {}. The front joins what nothing beats for less ε.{left}",
                capital(problem.measure.label()),
                self.condition()
            ),
            x: Axis::new("certified ε, logarithmic", Scale::Log),
            y: self.y(),
            series,
            lines: self.lines(),
        };
        (count > 0).then(|| (format!("{}-by-epsilon", stem(&problem.name)), figure()))
    }

    fn by_bytes(&self, budget: Option<f64>) -> Option<(String, Figure)> {
        let settings = self.results.board.settings();
        let here = |row: &&Row| {
            let setting = settings[row.setting];
            (setting.problem, setting.condition) == (self.p, self.place.condition)
                && setting.epsilon == budget
        };
        let points = |m| {
            let rows =
                self.results.rows.iter().filter(|row| row.method == m && !row.values.is_empty());
            let sent = |row: &Row| Some((row.bytes.filter(|b| *b > 0.0)?, row.mean()));
            let mut points: Vec<(f64, f64)> = rows.filter(here).filter_map(sent).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            points
        };
        let (series, count, left) = self.series(points, "front: nothing better for fewer bytes");
        let problem = self.problem();
        let name =
            format!("{}-by-bytes-epsilon-{}", stem(&problem.name), stem(&epsilon_name(budget)));
        let figure = || Figure {
            title: format!("{}, {}: what bytes buy", problem.name, budget_title(budget)),
            description: format!(
                "{} against the bytes of all messages of a run, a point per graph, condition: {}. The front joins what nothing beats for fewer bytes.{left}",
                capital(problem.measure.label()),
                self.condition()
            ),
            x: Axis::new("bytes sent by all agents, logarithmic", Scale::Log),
            y: self.y(),
            series,
            lines: self.lines(),
        };
        (count > 1).then(|| (name, figure()))
    }
}

/// Figures of papers, each beside what this board gives under the nearest claim.
fn anchors(results: &Results<'_>) -> String {
    if results.board.published.is_empty() {
        return String::new();
    }
    let mut rows = String::new();
    for anchor in &results.board.published {
        let Some(p) = results.board.problems.iter().position(|q| q.name == anchor.problem) else {
            continue;
        };
        let problem = &results.board.problems[p];
        let ours: Vec<(String, Summary)> = (0..results.own)
            .filter_map(|m| {
                let place = *places(results, p).first()?;
                Some((marked(results, m), summarise(results, place, anchor.epsilon, m)?))
            })
            .collect();
        let mut words: Vec<String> = Vec::new();
        for (name, s) in ours {
            let spread = s
                .deviation
                .map_or_else(String::new, |d| format!(" ± {}", deviation(&problem.measure, d)));
            let claim = s.certified.map_or_else(String::new, |(e, d)| {
                format!(", certified ({}, {})", epsilon(e), exact(d))
            });
            words.push(format!(
                "<span class=\"line\">{}: <b>{}</b>{spread}{claim}</span>",
                escape(&name),
                figure(&problem.measure, s.mean)
            ));
        }
        let note = match anchor.note.is_empty() {
            true => String::new(),
            false => format!("<span class=\"line sub\">{}</span>", escape(&anchor.note)),
        };
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\">{}<span class=\"line sub\">{}</span></th><td>{}</td><td>{}</td><td class=\"words\">{}</td><td class=\"words\">{}{note}</td></tr>",
            escape(&anchor.problem),
            escape(&anchor.method),
            escape(&published_budget(anchor.epsilon, anchor.delta)),
            figure(&problem.measure, anchor.value),
            if words.is_empty() { NONE.to_owned() } else { words.concat() },
            escape(&anchor.source),
        );
    }
    format!(
        "<div class=\"scroll\">\n<table class=\"results anchors\">\n<thead><tr><th scope=\"col\">Problem and method</th><th scope=\"col\">Claimed at</th><th scope=\"col\">Published</th>\
         <th scope=\"col\" class=\"words\">Ours at the same ε</th><th scope=\"col\" class=\"words\">Source, and what differs</th></tr></thead>\n<tbody class=\"algorithms\">\n{rows}</tbody>\n</table>\n</div>\n"
    )
}

/// Where a method's authors say something else about the same noise.
fn accounts(results: &Results<'_>) -> String {
    let mut rows = String::new();
    for m in 0..results.own {
        for (p, problem) in results.board.problems.iter().enumerate() {
            for budget in budgets(results, p).into_iter().flatten() {
                let settings = results.board.settings();
                let found = results
                    .rows
                    .iter()
                    .filter(|row| {
                        let setting = settings[row.setting];
                        row.method == m && setting.problem == p && setting.epsilon == Some(budget)
                    })
                    .filter_map(|row| Some((row.certified.as_ref()?, row.published.as_ref()?)))
                    .max_by(|a, b| a.1.epsilon.total_cmp(&b.1.epsilon));
                let Some((certified, published)) = found else { continue };
                let delta = published.delta.map_or_else(|| "0".into(), exact);
                let _ = writeln!(
                    rows,
                    "<tr data-problem=\"{p}\" data-epsilon=\"{}\"><th scope=\"row\">{}</th><td class=\"words\">{}</td><td>{}</td><td>{} <span class=\"sub\">δ = {}</span></td><td>{} <span class=\"sub\">δ = {delta}</span></td><td class=\"words\">{}</td></tr>",
                    epsilon_name(Some(budget)),
                    escape(&results.methods[m]),
                    escape(&problem.name),
                    exact(budget),
                    epsilon(certified.epsilon),
                    exact(certified.delta),
                    epsilon(published.epsilon),
                    escape(&published.formula),
                );
            }
        }
    }
    if rows.is_empty() {
        return rows;
    }
    format!(
        "<p>The same noise under two accounts: ours, certified for these records, and what the method’s authors published, under their assumptions. Where theirs is smaller, they \
         promise more than can be proved here; where it is larger, their accounting pays for what is not spent.</p>\n<details>\n<summary>Every method with a published account</summary>\n\
         <div class=\"scroll\">\n<table class=\"results\">\n<thead><tr><th scope=\"col\">Method</th><th scope=\"col\" class=\"words\">Problem</th><th scope=\"col\">Budget ε</th><th scope=\"col\">Certified ε</th><th scope=\"col\">Published ε</th>\
         <th scope=\"col\" class=\"words\">Published formula</th></tr></thead>\n<tbody class=\"algorithms\">\n{rows}</tbody>\n</table>\n</div>\n</details>\n"
    )
}

fn claimed(results: &Results<'_>) -> String {
    let mut out = String::new();
    for claim in &results.claimed {
        let source = match claim.source.is_empty() {
            true => String::new(),
            false => format!(" Source: {}.", escape(&claim.source)),
        };
        let _ = writeln!(
            out,
            "<li><b>{}</b> <span class=\"claim-mark\">claimed, not certified</span>: {} {}.{source}</li>",
            escape(&claim.method),
            escape(&claim.about),
            count(claim.results.len(), "result"),
        );
    }
    match out.is_empty() {
        true => out,
        false => format!("<ul>\n{out}</ul>\n"),
    }
}

fn methods(results: &Results<'_>) -> String {
    let mut rows = String::new();
    for (m, method) in results.board.methods.iter().enumerate() {
        let mut parameters = method.algorithm.clone();
        parameters.remove("kind");
        let keys: Vec<String> =
            parameters.iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let seconds: Vec<f64> =
            results.rows.iter().filter(|r| r.method == m).filter_map(|r| r.seconds).collect();
        let seconds = match seconds.is_empty() {
            true => NONE.to_owned(),
            false => format!("{} s", number(seconds.iter().sum::<f64>() / seconds.len() as f64, 2)),
        };
        let _ = writeln!(
            rows,
            "<tr><th scope=\"row\">{}</th><td class=\"words\"><code>{}</code></td><td class=\"words\">{}</td><td class=\"words\">{}</td><td>{seconds}</td></tr>",
            escape(&method.name),
            escape(method.kind()),
            if keys.is_empty() {
                "defaults".into()
            } else {
                format!("<code>{}</code>", escape(&keys.join(", ")))
            },
            match (method.about.as_str(), results.adversary(m)) {
                ("", None) => NONE.to_owned(),
                (about, adversary) => {
                    let claim = adversary.map_or_else(String::new, |adversary| {
                        format!(
                            "<span class=\"line sub\">certified against: {}</span>",
                            escape(adversary)
                        )
                    });
                    escape(&capital(about)) + &claim
                }
            },
        );
    }
    format!(
        "<div class=\"scroll\">\n<table class=\"results\">\n<thead><tr><th scope=\"col\">Method</th><th scope=\"col\" class=\"words\">Kind</th><th scope=\"col\" class=\"words\">Parameters</th>\
         <th scope=\"col\" class=\"words\">About</th><th scope=\"col\">Time of a run</th></tr></thead>\n<tbody class=\"algorithms\">\n{rows}</tbody>\n</table>\n</div>\n"
    )
}

fn refused(results: &Results<'_>) -> String {
    let mut found: BTreeMap<(usize, String), (usize, String)> = BTreeMap::new();
    for row in &results.rows {
        if let Some(reason) = &row.refused {
            let setting = results.setting(row.setting);
            let names = results.board.names(setting);
            let reason = results.board.reason(setting, reason);
            let entry = found.entry((row.method, reason)).or_insert((0, names.join(", ")));
            entry.0 += 1;
        }
    }
    if found.is_empty() {
        return String::new();
    }
    let rows: String = found
        .into_iter()
        .map(|((m, reason), (settings, first))| {
            let more = if settings > 1 { ", …" } else { "" };
            format!(
                "<tr><th scope=\"row\">{}</th><td>{settings}</td><td class=\"words\">{}<span class=\"line sub\">{}{more}</span></td></tr>\n",
                escape(&results.methods[m]),
                escape(&reason),
                escape(&first)
            )
        })
        .collect();
    format!(
        "<p>What does not go together is refused and not made up; these methods have no figure there.</p>\n<details>\n<summary>Every refusal with its reason</summary>\n<div class=\"scroll\">\n<table class=\"results\">\n<thead><tr><th scope=\"col\">Method</th>\
         <th scope=\"col\">Settings</th><th scope=\"col\" class=\"words\">Reason</th></tr></thead>\n<tbody class=\"algorithms\">\n{rows}</tbody>\n</table>\n</div>\n</details>\n"
    )
}

fn repeat(results: &Results<'_>) -> String {
    let problems: String = results
        .board
        .problems
        .iter()
        .map(|p| format!("<li><b>{}</b>: {}</li>\n", escape(&p.name), escape(&p.about)))
        .collect();
    format!(
        "<pre>consenso benchmark run board.toml --out DIR</pre>\n<p>The board’s file lies beside this page, as do <a href=\"results.csv\">results.csv</a> (a row per setting, method and seed), \
         <a href=\"ranks.csv\">ranks.csv</a>, <a href=\"tables.tex\">tables.tex</a> and the figures. Every cell is a file in <code>cells/</code> with its certified claim in full and the parameters it ran with; the same seed gives the same cell, bit for bit.</p>\n<ul class=\"note\">\n{problems}</ul>\n"
    )
}

fn footer() -> String {
    format!(
        "<footer><p class=\"meta\">Made by consenso {}.</p></footer>\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// What filters compute from.
fn data(results: &Results<'_>) -> Value {
    let board = results.board;
    let rows: Vec<Value> = results
        .rows
        .iter()
        .filter(|row| !row.values.is_empty())
        .map(|row| {
            let finite = |v: f64| v.is_finite().then_some(v);
            json!([
                row.setting,
                row.method,
                finite(row.mean()),
                row.deviation(),
                row.certified.as_ref().and_then(|c| finite(c.epsilon)),
                row.published.as_ref().and_then(|p| finite(p.epsilon)),
                row.rounds,
                row.messages,
                row.bytes,
                row.network_seconds
            ])
        })
        .collect();
    let all = all_budgets(results);
    let settings: Vec<Value> = board
        .settings()
        .iter()
        .map(|s| json!([s.problem, s.graph, s.condition, all.iter().position(|b| *b == s.epsilon)]))
        .collect();
    // Quantiles for as many methods as there can be.
    let quantiles: Vec<f64> = (0..=results.methods.len())
        .map(|k| if k < 2 { 0.0 } else { stats::range_quantile(k, stats::LEVEL) })
        .collect();
    json!({
        "methods": results.methods,
        "others": (0..results.own).filter(|&m| results.other_adversary(m)).collect::<Vec<_>>(),
        "own": results.own,
        "problems": board.problems.iter().map(|p| json!({
            "figure": p.measure.figure, "more": p.measure.more_is_better(), "share": p.measure.is_share(),
        })).collect::<Vec<_>>(),
        "budgets": all,
        "epsilons": all.iter().map(|b| epsilon_name(*b)).collect::<Vec<_>>(),
        "settings": settings,
        "rows": rows,
        "quantiles": quantiles,
    })
}
