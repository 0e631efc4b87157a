//! Tables for papers (LaTeX) and for programs (CSV).

use super::{
    Scope, budget_title, budgets, deviation, epsilon_word, figure, marked, places, summarise, wins,
};
use crate::results::{Ranking, Results};
use crate::spec::Method;
use std::fmt::Write as _;

/// A cell of a CSV file.
fn csv(text: &str) -> String {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn or_empty(value: Option<f64>) -> String {
    value.filter(|v| v.is_finite()).map_or_else(String::new, |v| v.to_string())
}

/// One row per setting, method and seed.
pub(super) fn results_csv(results: &Results<'_>) -> String {
    let mut out = String::from(
        "problem,graph,condition,epsilon,delta,method,status,seed,measure,value,certified_epsilon,certified_delta,certified_by,\
         published_epsilon,published_delta,rounds,messages,bytes,network_seconds,seconds,refused\n",
    );
    for row in &results.rows {
        let setting = results.setting(row.setting);
        let [problem, graph, condition, _] = results.board.names(setting);
        let of = &results.board.problems[setting.problem];
        let status = match (row.refused.is_some(), row.method < results.own) {
            (true, _) => "refused",
            (_, false) => "claimed",
            (_, true) if setting.epsilon.is_some() => "certified",
            _ => "not private",
        };
        let certified = row.certified.as_ref();
        let published = row.published.as_ref();
        let seeds = row.values.iter().map(|v| (v.0.to_string(), or_empty(v.1)));
        let none = row.values.is_empty().then(Default::default);
        for (seed, value) in seeds.chain(none) {
            let cells = [
                problem.clone(),
                graph.clone(),
                condition.clone(),
                epsilon_word(results, row.setting),
                setting.epsilon.map_or_else(String::new, |_| of.delta.to_string()),
                results.methods[row.method].clone(),
                status.to_owned(),
                seed,
                of.measure.figure.clone(),
                value,
                or_empty(certified.map(|c| c.epsilon)),
                or_empty(certified.map(|c| c.delta)),
                certified.map_or_else(String::new, |c| c.method.clone()),
                or_empty(published.map(|p| p.epsilon)),
                or_empty(published.and_then(|p| p.delta)),
                or_empty(row.rounds),
                or_empty(row.messages),
                or_empty(row.bytes),
                or_empty(row.network_seconds),
                or_empty(row.seconds),
                row.refused.clone().unwrap_or_default(),
            ];
            let line: Vec<String> = cells.iter().map(|cell| csv(cell)).collect();
            let _ = writeln!(out, "{}", line.join(","));
        }
    }
    out
}

/// One row per ranked method, then one per method that has no result in some of the settings: how it
/// ranks in those it has one in.
pub(super) fn ranks_csv(results: &Results<'_>) -> String {
    let mut out = String::from(
        "settings_of,method,kind,status,mean_rank,low,high,wins,settings,critical_difference,friedman_p,ranked,best_on\n",
    );
    for scope in Scope::all(results) {
        let Some(ranking) = scope.ranking(results) else { continue };
        for k in 0..ranking.methods.len() {
            rank_row(results, scope, &ranking, k, None, &mut out);
        }
        for &(method, _) in &ranking.left_out {
            let part = results.ranking_where(method, |setting| scope.has(setting));
            let Some(part) = part else { continue };
            if let Some(k) = part.methods.iter().position(|&m| m == method) {
                rank_row(results, scope, &part, k, Some("part"), &mut out);
            }
        }
    }
    out
}

fn rank_row(
    results: &Results<'_>,
    scope: Scope,
    ranking: &Ranking,
    k: usize,
    status: Option<&str>,
    out: &mut String,
) {
    let (method, found) = (ranking.methods[k], &ranking.found);
    let own = if method < results.own { "own" } else { "claimed" };
    let best_on: Vec<String> = ranking.best_on[k]
        .iter()
        .map(|(p, count)| format!("{} {}", results.board.problems[*p].name, wins(*count)))
        .collect();
    let _ = writeln!(
        out,
        "{},{},{},{},{},{},{},{},{},{},{:e},{},{}",
        scope.name(results),
        csv(&results.methods[method]),
        results.board.methods.get(method).map_or("", Method::kind),
        status.unwrap_or(own),
        found.mean[k],
        found.interval[k].0,
        found.interval[k].1,
        found.wins[k],
        found.blocks,
        found.critical_difference,
        found.p,
        ranking.methods.len(),
        csv(&best_on.join("; ")),
    );
}

/// Text in a LaTeX table.
fn tex(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '%' | '&' | '#' | '_' | '$' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '\\' => out.push_str("\\textbackslash{}"),
            '~' => out.push_str("\\textasciitilde{}"),
            '^' => out.push_str("\\textasciicircum{}"),
            '*' => out.push_str("$^*$"),
            'ε' => out.push_str("$\\varepsilon$"),
            'δ' => out.push_str("$\\delta$"),
            '²' => out.push_str("$^2$"),
            '−' => out.push_str("$-$"),
            '–' => out.push_str("--"),
            '·' => out.push_str("$\\cdot$"),
            '±' => out.push_str("$\\pm$"),
            c => match "⁰¹²³⁴⁵⁶⁷⁸⁹⁻".chars().position(|s| s == c) {
                Some(10) => out.push_str("$^{-}$"),
                Some(digit) => {
                    let _ = write!(out, "$^{{{digit}}}$");
                }
                None => out.push(c),
            },
        }
    }
    // Neighbouring exponents are one.
    out.replace("}$$^{", "").replace("$$", "")
}

/// Ranks, and a table per problem, for `\input` with the package `booktabs`.
pub(super) fn latex(results: &Results<'_>) -> String {
    let mut out = format!(
        "% The board \"{}\", made by consenso {}. Needs \\usepackage{{booktabs}}.\n% Figures are means over settings; after the sign, the standard deviation over seeds.\n",
        results.board.name,
        env!("CARGO_PKG_VERSION")
    );
    for scope in Scope::all(results) {
        let Some(ranking) = scope.ranking(results) else { continue };
        let found = &ranking.found;
        let _ = write!(
            out,
            "\n\\begin{{table}}\n\\centering\n\\caption{{{}: {} settings, critical difference {:.2} at level 0.05.}}\n\\begin{{tabular}}{{lrrr}}\n\\toprule\nMethod & Mean rank & 95\\,\\% interval & Wins \\\\\n\\midrule\n",
            tex(&scope.title(results)),
            found.blocks,
            found.critical_difference
        );
        for (k, &method) in ranking.methods.iter().enumerate() {
            let (low, high) = found.interval[k];
            let _ = writeln!(
                out,
                "{} & {:.2} & {low:.2}--{high:.2} & {:.0} \\\\",
                tex(&marked(results, method)),
                found.mean[k],
                found.wins[k]
            );
        }
        out.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
    }
    let all = (0..results.board.problems.len()).flat_map(|p| places(results, p));
    for place in all {
        let (p, problem) = (place.problem, &results.board.problems[place.problem]);
        let budgets = budgets(results, p);
        let _ = write!(
            out,
            "\n\\begin{{table}}\n\\centering\n\\caption{{{}, {}: {}{}. {} is better; $\\varepsilon$ is certified at $\\delta = {}$, except where results are claimed.}}\n\\begin{{tabular}}{{l{}}}\n\\toprule\nMethod",
            tex(&problem.name),
            tex(&results.board.conditions[place.condition].name),
            tex(problem.measure.label()),
            if problem.measure.is_share() { " (\\%)" } else { "" },
            if problem.measure.more_is_better() { "More" } else { "Less" },
            tex(&consenso_study::report::format::exact(problem.delta)).replace('$', ""),
            "r".repeat(budgets.len())
        );
        for budget in &budgets {
            let _ = write!(out, " & {}", tex(&budget_title(*budget)));
        }
        out.push_str(" \\\\\n\\midrule\n");
        let best = |budget: &Option<f64>| {
            let all =
                (0..results.methods.len()).filter_map(|m| summarise(results, place, *budget, m));
            let all = all.map(|s| s.mean).filter(|m| m.is_finite());
            match problem.measure.more_is_better() {
                true => all.reduce(f64::max),
                false => all.reduce(f64::min),
            }
        };
        let best: Vec<Option<f64>> = budgets.iter().map(best).collect();
        for method in 0..results.methods.len() {
            let found: Vec<_> =
                budgets.iter().map(|b| summarise(results, place, *b, method)).collect();
            if found.iter().all(Option::is_none) {
                continue;
            }
            out.push_str(&tex(&marked(results, method)));
            for (s, best) in found.iter().zip(&best) {
                let cell = s.as_ref().map_or_else(
                    || "--".into(),
                    |s| {
                        let mean = tex(&figure(&problem.measure, s.mean));
                        let mean = match *best == Some(s.mean) {
                            true => format!("\\textbf{{{mean}}}"),
                            false => mean,
                        };
                        let spread = s.deviation.map_or_else(String::new, |d| {
                            format!(" {{\\small$\\pm$ {}}}", tex(&deviation(&problem.measure, d)))
                        });
                        mean + &spread
                    },
                );
                let _ = write!(out, " & {cell}");
            }
            out.push_str(" \\\\\n");
        }
        out.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
    }
    out
}
