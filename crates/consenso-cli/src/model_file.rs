//! `consenso model`, and finding the model that a path names.

use crate::{Failure, output, table};
use anyhow::{Context as _, Result, anyhow};
use consenso_engine::model::{Model, SurvivalPoint, TableFormat};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Look at trained models
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso model show runs/adult-7                            what it learned, largest effect first
  consenso model show runs/trial-7 --at age=60,ward=b         the survival curve of such a record, with a band
  consenso model compare runs/adult-7/models/dgd.json hospital-a
  consenso model export runs/adult-7 --format onnx --out adult.onnx")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Show(Show),
    Compare(Compare),
    Export(Export),
}

/// Show a model: named coefficients (largest first), intercept, classes, claim
#[derive(clap::Args)]
struct Show {
    /// A model file, the folder of a run, or the folder of a finished site
    model: PathBuf,
    /// The algorithm whose model to show, where a run has several [default: the first]
    #[arg(long, value_name = "LABEL")]
    algorithm: Option<String>,
    /// Show this many coefficients, 0 for all
    #[arg(long, value_name = "N", default_value_t = 25)]
    top: usize,
    /// Print the regression table alone, for a paper or a page; needs [inference] in the study
    #[arg(long, value_enum)]
    format: Option<Paper>,
    /// Columns of a record whose survival curve to show, such as age=60,ward=b, for a model of
    /// hazards; others have their middle, categories their reference level
    #[arg(long, value_name = "COLUMN=VALUE,…", value_delimiter = ',')]
    at: Vec<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Paper {
    /// Pipes
    Markdown,
    /// A tabular
    Latex,
    /// A table element
    Html,
}

/// Compare two models of the same features: how far apart they are, and where
#[derive(clap::Args)]
struct Compare {
    /// One model: a file, the folder of a run, or the folder of a finished site
    a: PathBuf,
    /// The other
    b: PathBuf,
    /// Show this many differences, 0 for all
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
}

/// Write a model for other programs
///
/// ONNX: inputs are the columns of the schema, numbers as double and categories as text, each of
/// shape [rows, 1]; outputs are `prediction` and `probability` (of the positive class) or
/// `probabilities`. Missing values have to be filled in before.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  consenso model export runs/mine-7 --format onnx --out mine.onnx
  python3 docs/apply_onnx.py mine.onnx new.csv")]
struct Export {
    /// A model file, the folder of a run, or the folder of a finished site
    model: PathBuf,
    /// The kind of file
    #[arg(long, value_enum, default_value_t = Kind::Onnx)]
    format: Kind,
    /// The file to write, which must not exist yet
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The algorithm whose model to take, where a run has several [default: the first]
    #[arg(long, value_name = "LABEL")]
    algorithm: Option<String>,
    /// The model of this agent instead of the mean of all
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// Open Neural Network Exchange, for onnxruntime and others
    Onnx,
    /// NumPy's archive: the array `model`, and `agents`
    Npz,
    /// This program's own, with schema and encoding
    Json,
}

fn export(args: &Export, json: bool) -> Result<(), Failure> {
    let Found { model, place } = find(&args.model, args.algorithm.as_deref())?;
    let name = || place.display().to_string();
    let bytes = match args.format {
        Kind::Onnx => model.to_onnx(args.agent.as_deref()).with_context(name)?,
        Kind::Npz => model.to_npz(),
        Kind::Json => model.to_json().into_bytes(),
    };
    let out = args.out.display();
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).open(&args.out);
    file.and_then(|mut file| std::io::Write::write_all(&mut file, &bytes))
        .with_context(|| format!("{out}: cannot be written; nothing is written over"))?;
    if json {
        output::print_json(&json!({ "model": place, "out": args.out, "bytes": bytes.len() }));
    } else {
        eprintln!("{}: written, {} bytes, the model of {}", out, bytes.len(), place.display());
    }
    Ok(())
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    match &args.command {
        Command::Show(args) => show(args, json),
        Command::Compare(args) => compare(args, json),
        Command::Export(args) => export(args, json),
    }
}

/// A model and where it was found.
pub(crate) struct Found {
    pub(crate) model: Model,
    pub(crate) place: PathBuf,
}

/// The model at a path: the file itself, or that of a run's or a site's folder.
pub(crate) fn find(path: &Path, algorithm: Option<&str>) -> Result<Found, Failure> {
    if path.is_dir() {
        let models = path.join("models");
        if models.is_dir() {
            return Ok(in_run(path, algorithm)?);
        }
        // What may be shared and what may not have one place for models.
        if let Some(run) =
            path.parent().filter(|run| path.ends_with("private") && run.join("models").is_dir())
        {
            return Ok(in_run(run, algorithm)?);
        }
        #[cfg(feature = "network")]
        if path.join("site.toml").exists() {
            return Ok(Found { model: crate::node::site_model(path)?, place: path.to_path_buf() });
        }
        return Err(anyhow!(
            "{}: is neither the folder of a run (it has no models/) nor of a site (it has no site.toml)\n  \
             help: give a model file, or a folder that `consenso run` or `consenso node run` wrote",
            path.display()
        )
        .into());
    }
    Ok(read(path)?)
}

fn read(path: &Path) -> Result<Found> {
    let text = fs::read_to_string(path).with_context(|| {
        format!("{}: cannot be read; give a model file, a run's folder or a site's", path.display())
    })?;
    let model = Model::from_json(&text).with_context(|| path.display().to_string())?;
    Ok(Found { model, place: path.to_path_buf() })
}

/// The first algorithm's, or the one that is asked for by label, kind or file name.
fn in_run(run: &Path, algorithm: Option<&str>) -> Result<Found> {
    let folder = run.join("models");
    let listed =
        fs::read_dir(&folder).with_context(|| format!("{}: cannot be listed", folder.display()))?;
    let mut files: Vec<PathBuf> = listed.filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "json"));
    files.sort();
    // The record knows the order of the experiment.
    let record: Option<serde_json::Value> = fs::read_to_string(run.join("record.json"))
        .ok()
        .and_then(|text| serde_json::from_str(&text).ok());
    let ordered = record.as_ref().and_then(|r| r["algorithms"].as_array()).into_iter().flatten();
    let ordered: Vec<PathBuf> =
        ordered.filter_map(|a| Some(run.join(a["model"].as_str()?))).collect();
    files.sort_by_key(|p| ordered.iter().position(|o| o == p).unwrap_or(usize::MAX));
    let Some(wanted) = algorithm else {
        let first =
            files.first().with_context(|| format!("{}: holds no model", folder.display()))?;
        return read(first);
    };
    let mut labels = Vec::new();
    for file in &files {
        let found = read(file)?;
        let study = &found.model.study;
        let stem = file.file_stem().is_some_and(|s| s == wanted);
        if study.label == wanted || study.algorithm == wanted || stem {
            return Ok(found);
        }
        labels.push(study.label.clone());
    }
    Err(anyhow!(
        "{}: there is no algorithm \"{wanted}\"; there are {}",
        run.display(),
        labels.join(", ")
    ))
}

fn show(args: &Show, json: bool) -> Result<(), Failure> {
    let Found { model, place } = find(&args.model, args.algorithm.as_deref())?;
    let curve = curve_at(&model, &args.at).with_context(|| place.display().to_string())?;
    if json {
        let mut value = json!(model);
        if let Some(curve) = &curve {
            value["survival"] = json!(curve);
        }
        value["coefficients"] = json!(model.coefficients());
        value["file"] = json!(place);
        output::print_json(&value);
        return Ok(());
    }
    if let Some(format) = args.format {
        let format = match format {
            Paper::Markdown => TableFormat::Markdown,
            Paper::Latex => TableFormat::Latex,
            Paper::Html => TableFormat::Html,
        };
        let table = model.regression_table(format).ok_or_else(|| {
            anyhow!(
                "{}: has no standard errors\n  help: add [inference] with level = 0.95 to the experiment and run it again",
                place.display()
            )
        })?;
        output::print(table.trim_end());
        return Ok(());
    }
    let study = &model.study;
    let mut text =
        format!("{} of {} ({}), {}\n", study.label, study.name, study.algorithm, study.software);
    if let Some(target) = &model.target {
        let of = match (&model.positive, &model.classes[..]) {
            (Some(positive), [negative, _]) => {
                format!("“{positive}” (positive) against “{negative}”")
            }
            (_, []) => "a number".to_owned(),
            (_, classes) => format!("one of {}", classes.join(", ")),
        };
        text += &format!("predicts {target}: {of}\n");
    }
    match &model.claim {
        // The first lines of a claim say what it is worth; the rest is in the file and in the
        // report.
        Some(claim) => {
            let told = ["privacy claim", "neighbours", "adversary"];
            let lines = claim
                .statement
                .lines()
                .filter(|l| told.iter().any(|t| l.trim_start().starts_with(t)));
            let short: Vec<&str> = lines.collect();
            let whole = if short.is_empty() { vec![claim.statement.trim()] } else { short };
            text += &format!("{}\n", whole.join("\n"));
        }
        None => text += "trained without privacy: nobody's records are protected\n",
    }
    if model.claim.as_ref().is_some_and(|c| c.seeded) {
        text += "seeded simulation: the claim holds only for a run on OS entropy\n";
    }
    if let (Some(threshold), Some(positive)) = (model.threshold, &model.positive) {
        text += &format!("answers “{positive}” above a probability of {threshold}\n");
    }
    if let Some(metrics) = &model.metrics {
        text += &format!("on {} test records: {}\n", metrics.rows, table::metrics_line(metrics));
    }
    for note in &model.notes {
        text += &format!("note: {note}\n");
    }
    text.push('\n');
    text += &match (model.regression_rows(), model.weights.is_empty()) {
        (Some(rows), _) => regression(&model, rows),
        (None, true) => variables(&model),
        (None, false) => coefficients(&model, args.top),
    };
    if let Some(curve) = &curve {
        text += &survival(curve, &args.at);
    }
    output::print(text.trim_end());
    Ok(())
}

/// The survival curve of a record with these columns, where the model is one of hazards.
fn curve_at(model: &Model, at: &[String]) -> Result<Option<Vec<SurvivalPoint>>> {
    let mut columns = Vec::new();
    for text in at {
        let pair = text.split_once('=');
        columns.push(pair.with_context(|| format!("--at {text}: write COLUMN=VALUE"))?);
    }
    let hazards = model.inference.as_ref().is_some_and(|i| !i.times.is_empty());
    if !hazards && !at.is_empty() {
        return Err(anyhow!("--at: only models of loss = \"hazards\" have survival curves"));
    }
    if hazards { Ok(model.survival(&columns)?) } else { Ok(None) }
}

/// A survival curve as a table.
fn survival(curve: &[SurvivalPoint], at: &[String]) -> String {
    let of = if at.is_empty() { "in the middle of all columns".into() } else { at.join(", ") };
    let mut table = table::plain(&["time", "without event", "low", "high"], 0);
    for point in curve {
        let share = |p: f64| format!("{:.1} %", 100.0 * p);
        let time = format!("{:.4}", point.time);
        let time = time.trim_end_matches('0').trim_end_matches('.').to_owned();
        table.add_row(vec![time, share(point.estimate), share(point.low), share(point.high)]);
    }
    format!("\nsurvival of a record {of}:\n{}", table::text(&table))
}

/// The regression table with what a reader must know of it.
pub(crate) fn regression(model: &Model, (header, rows): (Vec<String>, Vec<Vec<String>>)) -> String {
    let columns = output::columns();
    let mut text = regression_tables(&header, &rows, columns);
    let Some(inference) = &model.inference else { return text };
    for test in &inference.tests {
        let p = if test.p < 0.001 { "< 0.001".to_owned() } else { format!("= {:.3}", test.p) };
        let said = format!(
            "{}: Wald χ² = {:.2} on {} degrees of freedom, p {p}\n",
            test.column, test.statistic, test.df
        );
        text += &output::folded(&said, columns);
    }
    if let Some(calibration) = &inference.calibration {
        let (header, rows) = calibration.rows(inference.level);
        let mut table = table::plain(&header.iter().map(String::as_str).collect::<Vec<_>>(), 1);
        rows.into_iter().for_each(|row| {
            table.add_row(row);
        });
        let verdict = output::folded(&calibration.verdict(), columns);
        text += &format!("\n{}{}\n", table::text(&table), verdict.trim_end());
    }
    let refused: Vec<_> =
        inference.coefficients.iter().filter_map(|c| c.refused.as_ref()).collect();
    if let Some(why) = refused.first() {
        let said = format!("{} of {} {why}\n", refused.len(), inference.coefficients.len());
        text += &output::folded(&said, columns);
    }
    for note in &inference.notes {
        text += &output::folded(&format!("{note}\n"), columns);
    }
    text
}

/// The table of coefficients; in two where one is wider than the terminal, ratios in the second.
fn regression_tables(header: &[String], rows: &[Vec<String>], columns: Option<usize>) -> String {
    const LOGS: usize = 5;
    let of = |places: &[usize], rows: &[&Vec<String>]| {
        let header: Vec<&str> = places.iter().map(|&at| header[at].as_str()).collect();
        let mut table = table::plain(&header, 1);
        for row in rows {
            table.add_row(places.iter().map(|&at| row[at].clone()));
        }
        table::text(&table)
    };
    let (all, every): (Vec<usize>, Vec<_>) = ((0..header.len()).collect(), rows.iter().collect());
    let whole = of(&all, &every);
    let wide = whole.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    if header.len() <= LOGS || columns.is_none_or(|columns| wide <= columns) {
        return whole;
    }
    let (logs, ratios) = all.split_at(LOGS);
    let says = |row: &&Vec<String>| row[LOGS..].iter().any(|cell| cell != "–");
    let some: Vec<_> = rows.iter().filter(says).collect();
    let ratios = match some.is_empty() {
        true => String::new(),
        false => format!("\n{}", of(&[&[0], ratios].concat(), &some)),
    };
    of(logs, &every) + &ratios
}

fn coefficients(model: &Model, top: usize) -> String {
    let all = model.coefficients();
    let shown = if top == 0 { all.len() } else { top.min(all.len()) };
    let many = all.iter().any(|c| c.class.is_some());
    let ratios = all.iter().any(|c| c.odds_ratio.is_some());
    let rates = all.iter().any(|c| c.rate_ratio.is_some());
    let noisy = all.iter().any(|c| c.noise.is_some());
    let mut header = vec!["feature"];
    header.extend(many.then_some("class"));
    header.push("weight");
    header.extend(noisy.then_some("± noise"));
    header.push("per unit of the column");
    header.extend(noisy.then_some("± noise"));
    header.extend(ratios.then_some("odds ratio of a unit"));
    header.extend(rates.then_some("rate ratio of a unit"));
    let mut table = table::plain(&header, 1 + usize::from(many));
    for c in &all[..shown] {
        let is_intercept = model.intercept.as_deref() == Some(&*c.feature);
        let mut row = vec![if is_intercept {
            format!("{} (intercept)", c.feature)
        } else {
            c.feature.clone()
        }];
        row.extend(many.then(|| c.class.clone().unwrap_or_default()));
        row.push(format!("{:+.4}", c.weight));
        let noise = |value: Option<f64>| value.map_or("–".into(), |v| significant(v)[1..].into());
        row.extend(noisy.then(|| noise(c.noise)));
        row.push(c.per_unit.map_or("–".into(), significant));
        row.extend(noisy.then(|| noise(c.per_unit_noise)));
        row.extend(ratios.then(|| between(c.odds_ratio)));
        row.extend(rates.then(|| between(c.rate_ratio)));
        table.add_row(row);
    }
    let mut text = table::text(&table);
    if shown < all.len() {
        text += &format!("… and {} more: --top 0 shows all\n", all.len() - shown);
    }
    if let Some(words) = model.noise_words() {
        text += &format!("\n{words}\n");
    }
    text
}

fn between(ends: Option<(f64, f64)>) -> String {
    match ends {
        None => "–".into(),
        Some((low, high)) if ratio(low) == ratio(high) => ratio(low),
        Some((low, high)) => format!("{} to {}", ratio(low), ratio(high)),
    }
}

/// A ratio with three decimals, or its order of magnitude where that says nothing.
fn ratio(value: f64) -> String {
    if (1e-3..1e4).contains(&value) { format!("{value:.3}") } else { format!("{value:.0e}") }
}

fn significant(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        format!("{value:+.4}")
    } else {
        format!("{value:+.3e}")
    }
}

/// What every agent ends with, where each has variables of its own.
fn variables(model: &Model) -> String {
    let header: Vec<&str> =
        std::iter::once("agent").chain(model.features.iter().map(String::as_str)).collect();
    let wide = header.len() > 13;
    let mut table = table::plain(&header[..header.len().min(13)], 1);
    for agent in &model.agents {
        let cells = agent.weights.iter().take(12).map(|v| significant(*v));
        table.add_row(std::iter::once(agent.name.clone()).chain(cells).collect::<Vec<_>>());
    }
    table::text(&table) + if wide { "… more variables in the file\n" } else { "" }
}

fn compare(args: &Compare, json: bool) -> Result<(), Failure> {
    let (a, b) = (find(&args.a, None)?, find(&args.b, None)?);
    let (first, second) = (&a.model, &b.model);
    if first.features != second.features || first.weights.len() != second.weights.len() {
        return Err(anyhow!(
            "{} and {}: have other features, so their weights cannot be compared ({} and {} of them)",
            a.place.display(),
            b.place.display(),
            first.features.len(),
            second.features.len()
        )
        .into());
    }
    if first.weights.is_empty() {
        return Err(anyhow!(
            "{}: agents have variables of their own, no common model",
            a.place.display()
        )
        .into());
    }
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|x| x * x).sum::<f64>().sqrt();
    let pairs = || first.weights.iter().zip(&second.weights);
    let distance = norm(&mut pairs().map(|(x, y)| x - y));
    let (length_a, length_b) =
        (norm(&mut first.weights.iter().copied()), norm(&mut second.weights.iter().copied()));
    let cosine = pairs().map(|(x, y)| x * y).sum::<f64>() / (length_a * length_b);
    let mut rows: Vec<(&str, Option<String>, f64, f64)> = first
        .explain()
        .into_iter()
        .zip(pairs())
        .zip(first.features.iter().cycle())
        .map(|((c, (x, y)), name)| (name.as_str(), c.class, *x, *y))
        .collect();
    rows.sort_by(|l, r| (r.2 - r.3).abs().total_cmp(&(l.2 - l.3).abs()));
    let same_encoding = first.encoder == second.encoder && first.schema == second.schema;
    if json {
        let differences: Vec<_> = rows
            .iter()
            .map(|(name, class, x, y)| json!({ "feature": name, "class": class, "a": x, "b": y, "difference": y - x }))
            .collect();
        output::print_json(&json!({
            "a": a.place, "b": b.place, "distance": distance, "norm_a": length_a, "norm_b": length_b, "cosine": cosine,
            "same_study": first.study.sha256 == second.study.sha256, "same_encoding": same_encoding,
            "differences": differences,
        }));
        return Ok(());
    }
    let shown = if args.top == 0 { rows.len() } else { args.top.min(rows.len()) };
    let mut table = table::plain(&["feature", "A", "B", "B − A"], 1);
    for (name, class, x, y) in &rows[..shown] {
        let name =
            class.as_ref().map_or_else(|| (*name).to_owned(), |class| format!("{name} · {class}"));
        table.add_row([name, format!("{x:+.4}"), format!("{y:+.4}"), format!("{:+.4}", y - x)]);
    }
    let mut text = format!(
        "A {} (norm {length_a:.4})\nB {} (norm {length_b:.4})\ndistance {distance:.4}, cosine {cosine:.4}\n",
        a.place.display(),
        b.place.display()
    );
    if !same_encoding {
        text += "their schemas or encodings differ: equal weights need not mean equal answers\n";
    }
    output::print(format!("{text}\n{}", table::text(&table)).trim_end());
    Ok(())
}
