//! How well models predict, in all figures people judge by: a table, confusion matrices, and a
//! calibration curve.

use super::figure::{Axis, Figure, Point, Scale, Series};
use super::format::{count, escape, number, percent, thousands};
use consenso_engine::model::Metrics;
use consenso_engine::record::{AlgorithmRecord, Record};

/// Most classes whose confusion matrix fits a page.
const MOST_CLASSES: usize = 12;

/// A figure of a model and how it is written.
struct Column {
    head: &'static str,
    value: fn(&Metrics) -> Option<f64>,
    text: fn(f64) -> String,
}

fn three(value: f64) -> String {
    format!("{value:.3}")
}

fn four_digits(value: f64) -> String {
    number(value, 4)
}

const COLUMNS: [Column; 14] = [
    Column { head: "Accuracy, %", value: |m| m.accuracy, text: percent },
    Column { head: "Balanced accuracy, %", value: |m| m.balanced_accuracy, text: percent },
    Column { head: "Over sites, %", value: |m| m.site_accuracy, text: percent },
    Column { head: "AUC", value: |m| m.auc, text: three },
    Column { head: "C-index", value: |m| m.c_index, text: three },
    Column { head: "Average precision", value: |m| m.average_precision, text: three },
    Column { head: "F1", value: |m| m.f1, text: three },
    Column { head: "Precision", value: |m| m.precision, text: three },
    Column { head: "Recall", value: |m| m.recall, text: three },
    Column { head: "Log loss", value: |m| m.log_loss, text: three },
    Column { head: "Answers above", value: |m| m.threshold, text: three },
    Column { head: "R²", value: |m| m.r2, text: three },
    Column { head: "RMSE", value: |m| m.rmse, text: four_digits },
    Column { head: "MAE", value: |m| m.mae, text: four_digits },
];

/// Who is judged: algorithms by their labels, then the tuned reference.
fn scored(record: &Record) -> Vec<(&str, &Metrics)> {
    let algorithms =
        record.algorithms.iter().filter_map(|a| Some((a.label.as_str(), a.metrics.as_ref()?)));
    let reference =
        record.baselines.reference.as_ref().map(|r| ("Tuned reference, not private", &r.metrics));
    algorithms.chain(reference).collect()
}

/// The table of all figures and the confusion matrices; empty without test records.
pub(super) fn section(record: &Record) -> String {
    let all = scored(record);
    let Some((_, first)) = all.first() else { return String::new() };
    let mut shown: Vec<&Column> =
        COLUMNS.iter().filter(|c| all.iter().any(|(_, m)| (c.value)(m).is_some())).collect();
    // A half goes without saying.
    if all.iter().all(|(_, m)| m.threshold.is_none_or(|t| t == 0.5)) {
        shown.retain(|c| c.head != "Answers above");
    }
    let many = first.confusion.len() > 2;
    let head = |c: &&Column| {
        let name = if many && c.head == "F1" { "Macro F1" } else { c.head };
        format!("<th scope=\"col\">{name}</th>")
    };
    let heads: String = shown.iter().map(head).collect();
    let row = |(label, metrics): &(&str, &Metrics)| {
        let cell = |c: &&Column| {
            let text =
                (c.value)(metrics).map_or_else(|| "<span class=\"none\">–</span>".into(), c.text);
            format!("<td>{text}</td>")
        };
        let cells: String = shown.iter().map(cell).collect();
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(label))
    };
    let rows: String = all.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" role=\"region\" aria-label=\"How well models predict\" tabindex=\"0\">\n\
         <table class=\"results\">\n<thead><tr><th scope=\"col\">Model</th>{heads}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n\
         <p class=\"note\">The mean model of the agents on {}{}. {}</p>\n{}",
        count(first.rows, "test record"),
        if record.runs > 1 { ", means over runs" } else { "" },
        explained(&shown),
        matrices(record, &all),
    )
}

fn explained(shown: &[&Column]) -> String {
    let sentence = |c: &&Column| match c.head {
        "Balanced accuracy, %" => {
            Some("Balanced accuracy: mean of the classes’ shares answered right.")
        }
        "Over sites, %" => {
            Some("Over sites: the accuracy at each site’s test records, averaged over the sites.")
        }
        "Average precision" => Some("Average precision: area under the precision–recall curve."),
        "Log loss" => Some("Log loss: mean −ln of the probability given to the true class."),
        "Answers above" => {
            Some("Answers above: the probability from which the positive class is answered.")
        }
        "RMSE" => Some("RMSE and MAE are in units of the label."),
        _ => None,
    };
    shown.iter().filter_map(sentence).collect::<Vec<_>>().join(" ")
}

/// Records by true and answered class, one table per model.
fn matrices(record: &Record, all: &[(&str, &Metrics)]) -> String {
    let size = all.iter().map(|(_, m)| m.confusion.len()).max().unwrap_or(0);
    if !(2..=MOST_CLASSES).contains(&size) {
        return String::new();
    }
    let names: Vec<String> = (0..size)
        .map(|c| escape(&record.problem.classes.get(c).cloned().unwrap_or_else(|| c.to_string())))
        .collect();
    let cell = |n: &f64| {
        let text = if n.fract() == 0.0 { thousands(*n as usize) } else { format!("{n:.1}") };
        format!("<td>{text}</td>")
    };
    let one = |(label, metrics): &(&str, &Metrics)| {
        let row = |(name, row): (&String, &Vec<f64>)| {
            format!(
                "<tr><th scope=\"row\">{name}</th>{}</tr>\n",
                row.iter().map(cell).collect::<String>()
            )
        };
        let rows: String = names.iter().zip(&metrics.confusion).map(row).collect();
        let heads: String =
            names.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
        format!(
            "<div class=\"scroll\"><table class=\"confusion\">\n<caption>{}</caption>\n<thead><tr><th scope=\"col\">true \\ answered</th>{heads}</tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table></div>\n",
            escape(label)
        )
    };
    let tables: String = all.iter().filter(|(_, m)| m.confusion.len() == size).map(one).collect();
    format!(
        "<details class=\"minor\"{}>\n<summary>Confusion matrices: test records by true class and answer</summary>\n\
         <div class=\"confusions\">\n{tables}</div>\n</details>\n",
        if all.len() <= 3 { " open" } else { "" }
    )
}

/// Predicted probability against observed share, a line an algorithm; without points where there
/// are not two classes.
pub(super) fn calibration(record: &Record) -> Figure {
    let line = |(k, algorithm): (usize, &AlgorithmRecord)| {
        let bins = algorithm.metrics.iter().flat_map(|m| &m.calibration);
        let points = bins.map(|b| Point::from((100.0 * b.predicted, 100.0 * b.observed))).collect();
        Series::new(&algorithm.label, k, points)
    };
    let mut series: Vec<Series> = record.algorithms.iter().enumerate().map(line).collect();
    series.retain(|s| !s.points.is_empty());
    if !series.is_empty() {
        let points = vec![Point::from((0.0, 0.0)), Point::from((100.0, 100.0))];
        series.push(Series { label: "as predicted".into(), points, colour: 6, dash: 2 });
    }
    Figure {
        title: "Calibration".into(),
        description: "Share of positive test records among those given about the same probability, in tenths. On the dotted line \
                      probabilities mean what they say."
            .into(),
        x: Axis::new("predicted probability (%)", Scale::Linear),
        y: Axis::new("positive test records (%)", Scale::Linear),
        series,
        lines: Vec::new(),
    }
}
