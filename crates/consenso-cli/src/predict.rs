//! `consenso predict`: a model applied to new records.

use crate::model_file::{self, Found};
use crate::{Failure, files, output, table};
use anyhow::{Context as _, anyhow};
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use consenso_engine::data::{Label, Schema, Unknown};
use consenso_engine::model::{Answer, Metrics, Model, Prediction};
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
  consenso predict runs/mine-7 new.csv --interval 0.9        where 90 % of such labels lie: counts, amounts, numbers
  consenso predict runs/mine-7 new.csv --keep id --unknown ignore

With --json: {rows: [{row, prediction, probability or probabilities, low, high, kept}], metrics, …}; metrics is null without
labels; interval {level, covered} has the share of the labels that lie within.")]
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
    /// Also give the interval in which the label lies with this probability, such as 0.9: the spread
    /// of labels around their mean and the uncertainty of the model
    #[arg(long, value_name = "LEVEL")]
    interval: Option<f64>,
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
    /// What becomes of a category that the model's schema does not declare: "error" refuses the
    /// file, "ignore" predicts without that column, "other" takes the category called "other"
    #[arg(long, value_name = "POLICY", default_value = "error", value_parser = unknown())]
    unknown: Unknown,
    /// Write these columns of the records beside their predictions; separate names by commas
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    keep: Vec<String>,
    #[command(flatten)]
    format: files::FormatArgs,
}

fn unknown() -> impl clap::builder::TypedValueParser<Value = Unknown> {
    let names = Unknown::ALL.map(Unknown::name);
    PossibleValuesParser::new(names).map(|name| {
        Unknown::ALL.into_iter().find(|policy| policy.name() == name).unwrap_or_default()
    })
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    if let Some(threshold) = args.threshold.filter(|t| !(*t > 0.0 && *t < 1.0)) {
        return Err(anyhow!(
            "--threshold {threshold}: a probability between 0 and 1, for example 0.5"
        )
        .into());
    }
    if args.interval.is_some() && args.agent.is_some() {
        return Err(anyhow!("--interval is of the shared model: leave --agent out").into());
    }
    let Found { model, place } = model_file::find(&args.model, args.algorithm.as_deref())?;
    let name = || place.display().to_string();
    let threshold = args.threshold.or(model.threshold).unwrap_or(0.5);
    let (schema, encoder, _) = model.applicable().with_context(name)?;
    let weights = model.weights_of(args.agent.as_deref()).with_context(name)?;
    let (new, kept) = files::read_new(&args.data, schema, &args.format, args.unknown)?;
    let passed = match &args.keep[..] {
        [] => Vec::new(),
        names => files::read_texts(&args.data, schema, &args.format, names)?,
    };
    let records = encoder.encode_table(&new);
    let answers = model.answers(&records, weights, threshold).with_context(name)?;
    let ends = args.interval.map(|level| model.intervals(&records, level)).transpose();
    let ends = ends.with_context(name)?;
    let labelled: Vec<usize> = (0..new.len()).filter(|&i| !new.labels()[i].is_nan()).collect();
    let metrics = if labelled.len() == new.len() {
        model.judge(&records, weights, threshold)
    } else {
        model.judge(&records.select(&labelled), weights, threshold)
    };
    let within = ends.as_deref().and_then(|ends| covered(ends, new.labels()));
    let rows = aligned(&kept, &answers);
    let shown = Shown {
        probabilities: probability_names(&model, schema, args.proba),
        ends: ends.as_deref().map(|ends| aligned(&kept, ends)),
        beside: Beside { names: &args.keep, cells: &passed },
    };
    if let Some(path) = &args.out {
        fs::write(path, csv(&rows, &shown))
            .map_err(|e| Failure::Run(anyhow!("{}: cannot be written: {e}", path.display())))?;
    }
    let skipped = rows.iter().filter(|r| r.is_none()).count();
    if json {
        let one = |(row, answer): (usize, &Option<&Answer>)| {
            let mut value = to_json(row + 1, *answer);
            if let Some((low, high)) = shown.ends_of(row) {
                (value["low"], value["high"]) = (json!(low), json!(high));
            }
            if !args.keep.is_empty() {
                value["kept"] = shown.beside.object(row);
            }
            value
        };
        let rows: Vec<Value> = rows.iter().enumerate().map(one).collect();
        output::print_json(&json!({
            "model": place, "rows": rows, "metrics": metrics, "skipped": skipped, "clamped": new.report().clamped,
            "classes": model.classes, "out": args.out, "unknown": new.report().unknown,
            "interval": args.interval.map(|level| json!({ "level": level, "covered": within })),
        }));
        return Ok(());
    }
    if args.out.is_none() {
        output::print(csv(&rows, &shown).trim_end());
    }
    eprintln!("{}", spoken(&place.display().to_string(), rows.len(), skipped, metrics.as_ref()));
    if let Some((level, within)) = args.interval.zip(within) {
        eprintln!(
            "{:.1} % of the labels lie within their intervals, which are made to hold {:.4} %",
            100.0 * within,
            100.0 * level
        );
    }
    for (column, count) in &new.report().unknown {
        let values = if *count == 1 { "value" } else { "values" };
        let fate = match args.unknown {
            Unknown::Other => "counted as \"other\"",
            _ => "ignored",
        };
        eprintln!("warning: {count} {values} of column \"{column}\" not declared and {fate}");
    }
    for (column, count) in &new.report().clamped {
        let (values, were) = if *count == 1 { ("value", "was") } else { ("values", "were") };
        eprintln!(
            "warning: {count} {values} of column \"{column}\" {were} outside its declared range and clamped"
        );
    }
    Ok(())
}

/// The share of known labels that lie within their intervals; `None` where no label is known.
fn covered(ends: &[(f64, f64)], labels: &[f64]) -> Option<f64> {
    let known: Vec<bool> = ends
        .iter()
        .zip(labels)
        .filter(|(_, label)| !label.is_nan())
        .map(|((low, high), label)| (low..=high).contains(&label))
        .collect();
    let inside = known.iter().filter(|inside| **inside).count();
    (!known.is_empty()).then(|| inside as f64 / known.len() as f64)
}

/// What is written beside predictions.
struct Shown<'a> {
    /// Names of the probabilities.
    probabilities: Vec<String>,
    /// The interval of every record of the file, where intervals are asked for.
    ends: Option<Vec<Option<&'a (f64, f64)>>>,
    beside: Beside<'a>,
}

impl Shown<'_> {
    fn ends_of(&self, row: usize) -> Option<(f64, f64)> {
        self.ends.as_ref().and_then(|ends| ends[row].copied())
    }
}

/// Columns of the records that are written beside their predictions.
struct Beside<'a> {
    names: &'a [String],
    cells: &'a [String],
}

impl Beside<'_> {
    fn of(&self, row: usize) -> &[String] {
        &self.cells[row * self.names.len()..(row + 1) * self.names.len()]
    }

    fn object(&self, row: usize) -> Value {
        let pairs = self.names.iter().zip(self.of(row));
        Value::Object(pairs.map(|(name, cell)| (name.clone(), cell.as_str().into())).collect())
    }
}

/// What belongs to every record of the file, in order: none where a value was missing.
fn aligned<'a, T>(kept: &[bool], answers: &'a [T]) -> Vec<Option<&'a T>> {
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

/// What the probabilities of an answer are called, where they are asked for.
fn probability_names(model: &Model, schema: &Schema, asked: bool) -> Vec<String> {
    let times = model.inference.as_ref().map_or(&[][..], |i| &i.times);
    match schema.label() {
        _ if !asked => Vec::new(),
        _ if !times.is_empty() => times.iter().map(|t| format!("without event to {t}")).collect(),
        Label::Classes(classes) if classes.len() == 2 => vec!["probability".to_owned()],
        Label::Classes(classes) => classes.iter().map(|c| format!("probability of {c}")).collect(),
        Label::Range { .. } => Vec::new(),
    }
}

/// A line per record of the file, numbered from 1.
fn csv(rows: &[Option<&Answer>], shown: &Shown<'_>) -> String {
    let Shown { probabilities, ends, beside } = shown;
    let quoted = |text: &str| {
        if text.contains([',', '"', '\n']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.into()
        }
    };
    let mut out = "row".to_owned();
    beside.names.iter().for_each(|name| out += &format!(",{}", quoted(name)));
    out += ",prediction";
    out += if ends.is_some() { ",low,high" } else { "" };
    probabilities.iter().for_each(|name| out += &format!(",{}", quoted(name)));
    out.push('\n');
    for (row, answer) in (1..).zip(rows) {
        let prediction = match answer.map(|a| &a.prediction) {
            None => String::new(),
            Some(Prediction::Class(class)) => quoted(class),
            Some(Prediction::Number(number)) => number.to_string(),
        };
        let _ = write!(out, "{row}");
        beside.of(row - 1).iter().for_each(|cell| out += &format!(",{}", quoted(cell)));
        let _ = write!(out, ",{prediction}");
        match shown.ends_of(row - 1) {
            Some((low, high)) => out += &format!(",{low},{high}"),
            None => out += if ends.is_some() { ",," } else { "" },
        }
        match answer {
            _ if probabilities.is_empty() => {}
            Some(answer) => answer.probabilities.iter().for_each(|p| out += &format!(",{p}")),
            None => out += &",".repeat(probabilities.len()),
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
