//! `consenso data`.

use crate::{Failure, files, output, table};
use anyhow::{Context as _, Result, bail};
use consenso::data::{ColumnSummary, EncodingSummary, Schema, Summary, Table};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Look at files of records and their public schema
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// What a file holds: columns, classes, and the encodings and sensitivities it would get
    #[command(after_help = "\
Examples:
  consenso data info adult
  consenso data info patients.csv --schema schema.toml

Without a schema one is drafted from the records, only to describe them.
What is printed describes the records: it is for their owner.")]
    Info(Records),
    /// Check every record against its public schema
    #[command(after_help = "\
Example:
  consenso data check patients.csv --schema schema.toml

Exits with 2 and the file, line and column of the first problem.")]
    Check(Records),
    /// Draft the public schema of a file, to be reviewed by hand
    #[command(after_help = "\
Example:
  consenso data schema patients.csv --label readmitted --site hospital --out schema.toml

The draft takes ranges and categories from the records, which would give private facts away.
Replace them by what is public without the data, then set reviewed = true.")]
    Schema(Draft),
}

#[derive(clap::Args)]
struct Records {
    /// A CSV or LIBSVM file (.csv .tsv .data, .libsvm .svm; else told by its first line), or `adult`
    path: PathBuf,
    /// The public schema of the file
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Draft {
    /// A CSV or LIBSVM file, or `adult`
    path: PathBuf,
    /// The column to predict [default: the last one]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// The column that says where a record comes from
    #[arg(long, value_name = "COLUMN")]
    site: Option<String>,
    /// The first line is a record, not names of columns
    #[arg(long)]
    no_header: bool,
    /// Write to this file, which must not exist yet, instead of stdout
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    match &args.command {
        Command::Info(records) => {
            let table = read(records, true)?;
            show(&table, json);
        }
        Command::Check(records) => {
            let table = read(records, false)?;
            show(&table, json);
        }
        Command::Schema(draft) => schema(draft, json)?,
    }
    Ok(())
}

fn is_adult(path: &Path) -> bool {
    path == Path::new("adult") && !path.exists()
}

fn read(records: &Records, may_draft: bool) -> Result<Table> {
    if is_adult(&records.path) {
        return Ok(Table::adult()?.0);
    }
    let schema = match &records.schema {
        Some(path) => files::read_schema(path)?,
        None if may_draft => {
            let schema = files::draft_schema(&records.path, None, None, true)?;
            eprintln!(
                "note: no --schema was given: ranges and categories below are computed from the records"
            );
            schema
        }
        None => bail!(
            "check needs --schema FILE\n  help: draft one with `consenso data schema {} --out schema.toml`, then review it",
            records.path.display()
        ),
    };
    files::read_table(&records.path, Some(&schema))
}

const REVIEW: &str = "this draft was computed from the records: review it before use, replacing every range and category by what is \
     public without them, then set reviewed = true";

fn schema(draft: &Draft, json: bool) -> Result<()> {
    let schema = if is_adult(&draft.path) {
        Schema::adult()
    } else {
        files::draft_schema(&draft.path, draft.label.clone(), draft.site.clone(), !draft.no_header)?
    };
    let text = schema.to_toml();
    if let Some(out) = &draft.out {
        std::fs::File::create_new(out)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .with_context(|| format!("{}: cannot be made (nothing is written over)", out.display()))?;
    }
    match (&draft.out, json) {
        (out, true) => {
            output::print_json(&json!({ "schema": text, "reviewed": schema.is_reviewed(), "out": out }));
        }
        (Some(out), false) => output::print(&format!("written to {}", out.display())),
        (None, false) => output::print(&text),
    }
    if !schema.is_reviewed() {
        eprintln!("note: {REVIEW}");
    }
    Ok(())
}

fn show(table: &Table, json: bool) {
    let summary = Summary::of(table);
    if json {
        output::print_json(&json!(summary));
    } else {
        output::print(&describe(&summary));
    }
}

fn describe(summary: &Summary) -> String {
    let mut out = format!(
        "{}: {} records ({} dropped for a missing value), schema {}\n\n",
        summary.source,
        summary.rows,
        summary.dropped_missing,
        if summary.reviewed { "reviewed" } else { "NOT reviewed" }
    );
    let header = ["column", "kind", "declared", "observed", "values", "missing", "clamped"];
    let mut columns = table::plain(&header, 2);
    columns.add_rows(summary.columns.iter().map(column_row));
    out.push_str(&table::text(&columns));
    if !summary.classes.is_empty() {
        let mut classes = table::plain(&["class", "records", "share"], 1);
        for class in &summary.classes {
            let share = format!("{:.2} %", 100.0 * class.share);
            classes.add_row([class.name.clone(), class.count.to_string(), share]);
        }
        let _ = write!(out, "\n{}", table::text(&classes));
    }
    let header = ["encoding", "features", "|row|₁ ≤", "|row|₂ ≤", "|row|∞ ≤", "B₁", "B₂", "B∞"];
    let mut encodings = table::plain(&header, 1);
    encodings.add_rows(summary.encodings.iter().map(encoding_row));
    let _ = write!(out, "\n{}", table::text(&encodings));
    out.push_str(
        "B: sensitivity of the mean logistic gradient over all these records when one is replaced\n",
    );
    for remark in &summary.remarks {
        let _ = writeln!(out, "\nnote: {remark}");
    }
    out
}

fn column_row(column: &ColumnSummary) -> [String; 7] {
    let range = |r: Option<(f64, f64)>| r.map_or_else(String::new, |(a, b)| format!("{a} to {b}"));
    let mut values = column.categories.map_or_else(String::new, |n| n.to_string());
    if !column.unused.is_empty() {
        let _ = write!(values, " ({} unused)", column.unused.len());
    }
    [
        column.name.clone(),
        column.kind.to_owned(),
        range(column.declared),
        range(column.observed),
        values,
        column.missing.to_string(),
        column.clamped.to_string(),
    ]
}

fn encoding_row(e: &EncodingSummary) -> [String; 8] {
    let [l1, l2, linf] = [e.bounds.l1, e.bounds.l2, e.bounds.linf].map(|v| table::rounded_up(v, 4));
    let [b1, b2, binf] = e.replace_one.map(|b| table::rounded_up(b, 4));
    [e.encoding.name().to_owned(), e.dim.to_string(), l1, l2, linf, b1, b2, binf]
}
