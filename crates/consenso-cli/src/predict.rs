//! `consenso predict`: a model applied to new records.

use crate::model_file::{self, Found};
use crate::{Failure, files, output, table};
use anyhow::{Context as _, anyhow};
use consenso_engine::data::{Label, Schema};
use consenso_engine::model::{Answer, Metrics, Prediction};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Apply a model to new records
///
/// Reads the records under the model's own schema and writes one prediction per record. A file with
/// the label column is judged too; one without it is not. A record with a value missing gets no
/// prediction and is counted.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso predict runs/mine-7 new.csv --out predictions.csv
  consenso predict runs/mine-7/models/dgd.json new.csv --proba
  consenso predict hospital-a new.csv --json                 the model of a finished site
  consenso predict runs/mine-7 new.csv --threshold 0.3       answer the positive class above 30 %

With --json: {rows: [{row, prediction, probability or probabilities}], metrics, …}; metrics is null without labels.")]
pub(crate) struct Args {
    /// A model file, the folder of a run, or the folder of a finished site
    model: PathBuf,
    /// Records: CSV under the model's schema, with or without the label column
    data: PathBuf,
    /// Write the predictions to this CSV file instead of printing them
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Also give probabilities
    #[arg(long)]
    proba: bool,
    /// Probability above which the positive of two classes is answered [default: the model's own,
    /// 0.5 unless the study set another]
    #[arg(long, value_name = "T")]
    threshold: Option<f64>,
    /// The algorithm whose model to take, where a run has several [default: the first]
    #[arg(long, value_name = "LABEL")]
    algorithm: Option<String>,
    /// The model of this agent instead of the mean of all
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    format: files::FormatArgs,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    if let Some(threshold) = args.threshold.filter(|t| !(*t > 0.0 && *t < 1.0)) {
        return Err(anyhow!(
            "--threshold {threshold}: a probability between 0 and 1, for example 0.5"
        )
        .into());
    }
    let Found { model, place } = model_file::find(&args.model, args.algorithm.as_deref())?;
    let name = || place.display().to_string();
    let threshold = args.threshold.or(model.threshold).unwrap_or(0.5);
    let (schema, encoder, loss) = model.applicable().with_context(name)?;
    let weights = model.weights_of(args.agent.as_deref()).with_context(name)?;
    let (new, kept) = files::read_new(&args.data, schema, &args.format)?;
    let records = encoder.encode_table(&new);
    let answers = model.answers(&records, weights, threshold).with_context(name)?;
    let labelled: Vec<usize> = (0..new.len()).filter(|&i| !new.labels()[i].is_nan()).collect();
    let metrics = if labelled.len() == new.len() {
        Metrics::of(loss, &records, weights, threshold)
    } else {
        Metrics::of(loss, &records.select(&labelled), weights, threshold)
    };
    let rows = aligned(&kept, &answers);
    if let Some(path) = &args.out {
        let text = csv(&rows, schema, args.proba);
        fs::write(path, text)
            .map_err(|e| Failure::Run(anyhow!("{}: cannot be written: {e}", path.display())))?;
    }
    let skipped = rows.iter().filter(|r| r.is_none()).count();
    if json {
        let one = |(row, answer): (usize, &Option<&Answer>)| to_json(row + 1, *answer);
        let rows: Vec<Value> = rows.iter().enumerate().map(one).collect();
        output::print_json(&json!({
            "model": place, "rows": rows, "metrics": metrics, "skipped": skipped, "clamped": new.report().clamped,
            "classes": model.classes, "out": args.out,
        }));
        return Ok(());
    }
    if args.out.is_none() {
        output::print(csv(&rows, schema, args.proba).trim_end());
    }
    eprintln!("{}", spoken(&place.display().to_string(), rows.len(), skipped, metrics.as_ref()));
    for (column, count) in &new.report().clamped {
        let (values, were) = if *count == 1 { ("value", "was") } else { ("values", "were") };
        eprintln!(
            "warning: {count} {values} of column \"{column}\" {were} outside its declared range and clamped"
        );
    }
    Ok(())
}

/// The answer for every record of the file, in order: none where a value was missing.
fn aligned<'a>(kept: &[bool], answers: &'a [Answer]) -> Vec<Option<&'a Answer>> {
    let mut next = answers.iter();
    kept.iter().map(|&kept| if kept { next.next() } else { None }).collect()
}

fn to_json(row: usize, answer: Option<&Answer>) -> Value {
    let Some(answer) = answer else {
        return json!({ "row": row, "prediction": null, "reason": "a value is missing" });
    };
    match answer.probabilities[..] {
        [] => json!({ "row": row, "prediction": answer.prediction }),
        [p] => json!({ "row": row, "prediction": answer.prediction, "probability": p }),
        _ => {
            json!({ "row": row, "prediction": answer.prediction, "probabilities": answer.probabilities })
        }
    }
}

/// A line per record of the file, numbered from 1.
fn csv(rows: &[Option<&Answer>], schema: &Schema, proba: bool) -> String {
    let classes = match schema.label() {
        Label::Classes(classes) => &classes[..],
        Label::Range { .. } => &[],
    };
    let quoted = |text: &str| {
        if text.contains([',', '"', '\n']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.into()
        }
    };
    let mut out = "row,prediction".to_owned();
    if proba && classes.len() == 2 {
        out += ",probability";
    } else if proba {
        classes.iter().for_each(|c| out += &format!(",{}", quoted(&format!("probability of {c}"))));
    }
    out.push('\n');
    for (row, answer) in (1..).zip(rows) {
        let prediction = match answer.map(|a| &a.prediction) {
            None => String::new(),
            Some(Prediction::Class(class)) => quoted(class),
            Some(Prediction::Number(number)) => number.to_string(),
        };
        let _ = write!(out, "{row},{prediction}");
        if proba {
            let width = if classes.len() == 2 { 1 } else { classes.len() };
            match answer {
                Some(answer) => answer.probabilities.iter().for_each(|p| out += &format!(",{p}")),
                None => out += &",".repeat(width),
            }
        }
        out.push('\n');
    }
    out
}

fn spoken(place: &str, rows: usize, skipped: usize, metrics: Option<&Metrics>) -> String {
    let missing = match skipped {
        0 => String::new(),
        n => format!(", {n} of them without a prediction because a value is missing"),
    };
    let judged = metrics.map_or_else(
        || "; no labels, so nothing to judge it by".to_owned(),
        |m| format!("\n{}", table::metrics_line(m)),
    );
    format!("{rows} records by {place}{missing}{judged}")
}
