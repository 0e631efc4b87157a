//! What a budget buys: a sweep as figures and as a table.

use super::format::{escape, exact, percent};
use super::{Axis, Figure, Point, Reference, Scale, Series};
use consenso_engine::record::{AlgorithmRecord, Record, Spread, SweepPoint};
use std::fmt::Write as _;

/// Test accuracy against ε, a figure a number of agents. Budgets that all agents share are one line
/// an algorithm.
pub(super) fn figures(record: &Record) -> Vec<(String, Figure)> {
    let points = || record.sweep.iter().filter(|point| point.epsilon.is_some());
    // One budget has no frontier.
    if points().all(|point| Some(point.epsilon) == points().next().map(|first| first.epsilon)) {
        return Vec::new();
    }
    let mut sizes: Vec<usize> = points().map(|point| point.agents).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes.into_iter().map(|agents| (format!("frontier-{agents}"), figure(record, agents))).collect()
}

fn of_size(record: &Record, agents: usize) -> impl Iterator<Item = &SweepPoint> {
    record.sweep.iter().filter(move |point| point.agents == agents && point.epsilon.is_some())
}

/// Whether models are judged by R².
fn predicts_numbers(record: &Record) -> bool {
    let mut algorithms = record.sweep.iter().flat_map(|point| &point.algorithms);
    algorithms.any(|a| a.across_runs.as_ref().is_some_and(|r| r.figure == "r2"))
}

/// R² against ε.
fn of_numbers(agents: usize, series: Vec<Series>, optimum: Option<f64>) -> Figure {
    Figure {
        title: format!("What a budget buys, {agents} agents"),
        description: format!(
            "R² on the test records against the total ε of every record, each algorithm at the noise calibrated to it, {agents} agents. Lines are \
             means over runs, bands reach from the worst run to the best. The dashed line has no noise and all records in one place. A model that \
             answers the mean has 0."
        ),
        x: Axis::new("budget ε, logarithmic", Scale::Log),
        y: Axis::new("R²", Scale::Linear),
        series,
        lines: optimum
            .map(|value| Reference { label: "optimum of all records".into(), value })
            .into_iter()
            .collect(),
    }
}

fn figure(record: &Record, agents: usize) -> Figure {
    let labels = of_size(record, agents).next().map_or(&[][..], |point| &point.algorithms[..]);
    let published = record.resolved.contains("source = \"heart-flamby\"");
    let numbers = predicts_numbers(record);
    let line = |(k, named): (usize, &AlgorithmRecord)| {
        let at = |point: &SweepPoint| {
            let found = point.algorithms.iter().find(|a| a.label == named.label)?;
            // Beside FLamby's figures stand ours of the same kind.
            let over_sites =
                found.metrics.as_ref().and_then(|m| m.site_accuracy).filter(|_| published);
            if numbers {
                let s = found.across_runs.as_ref()?.spread;
                return Some(Point { x: point.epsilon?, low: s.min, mean: s.mean, high: s.max });
            }
            let spread = over_sites
                .map_or(found.per_agent_accuracy, |mean| Spread::of(std::iter::once(mean)))?;
            let [low, mean, high] =
                [spread.min, spread.mean, spread.max].map(|share| 100.0 * share);
            Some(Point { x: point.epsilon?, low, mean, high })
        };
        Series::new(&named.label, k, of_size(record, agents).filter_map(at).collect())
    };
    let baselines = of_size(record, agents).next().map(|point| &point.baselines);
    if numbers {
        let series = labels.iter().enumerate().map(line).collect();
        return of_numbers(agents, series, baselines.and_then(|b| b.central_optimum_r2));
    }
    let references = baselines.into_iter().flat_map(|b| {
        [
            ("optimum of all records", b.central_optimum_accuracy),
            ("agents alone", b.local_only_accuracy),
            ("majority class", b.majority_accuracy),
        ]
    });
    let mut series: Vec<Series> = labels.iter().enumerate().map(line).collect();
    if published {
        let point = |(x, accuracies): (f64, Vec<f64>)| {
            let spread = Spread::of(accuracies)?;
            let [low, mean, high] =
                [spread.min, spread.mean, spread.max].map(|share| 100.0 * share);
            Some(Point { x, low, mean, high })
        };
        let points = crate::bundled::flamby_published().into_iter().filter_map(point).collect();
        series.push(Series::new("FLamby, published", labels.len(), points));
    }
    let elsewhere = if published {
        " FLamby's published accuracies at δ = 1e-4 (band: its seeds) are of federated averaging on the same patients under another threat model: a \
         server averages the centres' models, and neighbours are data with one record added or removed, where ours have one replaced. All \
         accuracies are means over the four centres' test parts; the dashed lines are of all test patients."
    } else {
        ""
    };
    Figure {
        title: format!("What a budget buys, {agents} agents"),
        description: format!(
            "Test accuracy against the total ε of every record, each algorithm at the noise calibrated to it, {agents} agents. Lines are means over \
             runs, bands reach from the worst to the best agent. The dashed lines have no noise: all records in one place, every agent \
             alone, and always answering the most frequent class.{elsewhere}"
        ),
        x: Axis::new("budget ε, logarithmic", Scale::Log),
        y: Axis::new("correct test records (%)", Scale::Linear),
        series,
        lines: references
            .filter_map(|(label, value)| {
                Some(Reference { label: label.into(), value: 100.0 * value? })
            })
            .collect(),
    }
}

/// A row an algorithm, a column a budget, a table a number of agents; nothing without a sweep.
pub(super) fn tables(record: &Record) -> String {
    let mut out = String::new();
    for (name, _) in figures(record) {
        let agents: usize = name.trim_start_matches("frontier-").parse().unwrap_or(0);
        let points: Vec<&SweepPoint> = of_size(record, agents).collect();
        let mut heads = String::new();
        for point in &points {
            let _ = write!(
                heads,
                "<th scope=\"col\">ε = {}</th>",
                exact(point.epsilon.unwrap_or(f64::NAN))
            );
        }
        let mut rows = String::new();
        for named in points.first().map_or(&[][..], |point| &point.algorithms[..]) {
            let _ = write!(rows, "<tr><th scope=\"row\">{}</th>", escape(&named.label));
            for point in &points {
                let found = point.algorithms.iter().find(|a| a.label == named.label);
                let _ = write!(rows, "<td>{}</td>", found.map_or_else(|| "–".into(), score));
            }
            rows.push_str("</tr>\n");
            let by_site = |point: &&SweepPoint| {
                let found = point.algorithms.iter().find(|a| a.label == named.label);
                found.and_then(|a| a.metrics.as_ref()?.site_accuracy)
            };
            if points.iter().any(|point| by_site(point).is_some()) {
                let _ = write!(
                    rows,
                    "<tr><th scope=\"row\">{}, mean over sites</th>",
                    escape(&named.label)
                );
                for point in &points {
                    let _ = write!(
                        rows,
                        "<td>{}</td>",
                        by_site(point).map_or_else(|| "–".into(), percent)
                    );
                }
                rows.push_str("</tr>\n");
            }
        }
        let _ = write!(
            out,
            "<h3>{agents} agents</h3>\n<div class=\"scroll\" role=\"region\" aria-label=\"Figures by budget\" tabindex=\"0\">\n\
             <table class=\"results\">\n<thead><tr><th scope=\"col\">{}</th>{heads}</tr></thead>\n\
             <tbody class=\"algorithms\">\n{rows}</tbody>\n</table>\n</div>\n",
            if predicts_numbers(record) { "R²" } else { "Test accuracy, %" },
        );
    }
    out
}

/// Accuracy with the AUC, or R², each from the worst run to the best.
fn score(a: &AlgorithmRecord) -> String {
    let range = |s: &Spread| format!("{:.3} to {:.3}", s.min, s.max);
    match (a.test_accuracy, &a.across_runs) {
        (Some(accuracy), Some(runs)) if runs.figure == "auc" => {
            let auc = runs.spread.mean;
            format!("{}<br>AUC {auc:.3} ({})", percent(accuracy), range(&runs.spread))
        }
        (Some(accuracy), _) => percent(accuracy),
        (None, Some(runs)) => format!("{:.3} ({})", runs.spread.mean, range(&runs.spread)),
        (None, None) => "–".into(),
    }
}
