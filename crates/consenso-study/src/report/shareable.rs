//! The page of a run on somebody's records: what may be shared, and nothing else.

use super::format::escape;
use super::page;
use consenso_engine::record::Shareable;
use serde_json::Value;
use std::fmt::Write as _;

/// One page of what may be shared: the claims, what all of them cost together, and results on
/// public test records.
#[must_use]
pub fn shareable_html(shareable: &Shareable) -> String {
    let value = shareable.value();
    let name = value["name"].as_str().unwrap_or("a run");
    let mut main = format!(
        "<h1>{}</h1>\n<p>This page holds functions of noised releases and of public facts only: models, claims, and results on test records that \
         were declared public. It may be shared. Drawing noise afresh gives other numbers: no seed repeats it.</p>\n",
        escape(name)
    );
    if let Some(total) = value["total_epsilon"].as_object() {
        let number = |key: &str| total.get(key).and_then(Value::as_f64).unwrap_or(f64::INFINITY);
        let _ = writeln!(
            main,
            "<p><strong>Transcripts of the command: {}. All together: ε = {}, δ = {:e}.</strong> Each claim below covers one of them.</p>",
            number("transcripts"),
            consenso_engine::privacy::printed_up(number("epsilon"), 4),
            number("delta")
        );
    }
    main.push_str("<div class=\"scroll\"><table>\n<tr><th>algorithm</th><th>rounds</th><th>noise</th><th>test accuracy</th><th>ε of one run</th><th>δ</th></tr>\n");
    let empty = Vec::new();
    let algorithms = value["algorithms"].as_array().unwrap_or(&empty);
    for a in algorithms {
        let text = |v: &Value| escape(v.as_str().unwrap_or("–"));
        let accuracy =
            a["test_accuracy"].as_f64().map_or("–".into(), |v| format!("{:.2} %", 100.0 * v));
        let epsilon = a["epsilon"]["claim"]
            .as_f64()
            .map_or("–".into(), |e| consenso_engine::privacy::printed_up(e, 4));
        let _ = writeln!(
            main,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{accuracy}</td><td>{epsilon}</td><td>{}</td></tr>",
            text(&a["label"]),
            a["rounds"],
            text(&a["noise"]),
            a["epsilon"]["delta"],
        );
    }
    main.push_str("</table></div>\n");
    for a in algorithms {
        if let Some(statement) = a["epsilon"]["statement"].as_str() {
            let label = escape(a["label"].as_str().unwrap_or_default());
            let _ = writeln!(
                main,
                "<h2>{label}</h2>\n<pre style=\"white-space: pre-wrap\">{}</pre>",
                escape(statement)
            );
        }
    }
    page::shell(name, value["version"].as_str().unwrap_or_default(), &main)
}
