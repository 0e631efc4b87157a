//! `consenso data`.

use crate::files::FormatArgs;
use crate::progress::ReadingProgress;
use crate::{Failure, files, output, table};
use anyhow::{Context as _, Result, bail};
use consenso_engine::data::{
    ColumnSummary, DraftOptions, EncodingSummary, Format, Schema, Summary, Table,
};
use consenso_study::{SchemaFile as _, bundled};
use serde_json::json;
use std::collections::BTreeMap;
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
  consenso data schema \"sites/*.csv\" --label readmitted --positive yes --encoding latin-1 --out schema.toml

Delimiter, decimal mark and missing values are found out and shown; text that is not UTF-8 is read with --encoding.
The draft takes ranges and categories from the records, which would give private facts away.
Replace them by what is public without the data, then set reviewed = true.")]
    Schema(DraftArgs),
}

#[derive(clap::Args)]
struct Records {
    /// A CSV or LIBSVM file (.csv .tsv .data, .libsvm .svm; else told by its first line), or
    /// `adult`
    path: PathBuf,
    /// The public schema of the file
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(clap::Args)]
struct DraftArgs {
    /// CSV files or patterns such as "sites/*.csv", a LIBSVM file, or `adult`
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The column to predict [default: the last one]
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// The column that says where a record comes from
    #[arg(long, value_name = "COLUMN")]
    site: Option<String>,
    /// The class to find, of a label with two
    #[arg(long, value_name = "CLASS")]
    positive: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
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
        return Ok(bundled::adult_tables()?.0);
    }
    let schema = match &records.schema {
        Some(path) => files::read_schema(path)?,
        None if may_draft => {
            let options = DraftOptions {
                format: records.format.over(&Format::default()),
                ..DraftOptions::default()
            };
            let draft = files::draft_schema(std::slice::from_ref(&records.path), options)?;
            eprintln!(
                "note: no --schema was given: ranges and categories below are computed from the records"
            );
            draft.schema().clone()
        }
        None => bail!(
            "check needs --schema FILE\n  help: draft one with `consenso data schema {} --out schema.toml`, then review it",
            records.path.display()
        ),
    };
    files::read_table_as(&records.path, &schema, &records.format)
}

const REVIEW: &str = "this draft was computed from the records: review it before use, replacing every range and category by what is \
     public without them, then set reviewed = true";

fn schema(args: &DraftArgs, json: bool) -> Result<()> {
    let (schema, text, warnings, readings) = drafted(args)?;
    if let Some(out) = &args.out {
        std::fs::File::create_new(out)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .with_context(|| {
                format!("{}: cannot be made (nothing is written over)", out.display())
            })?;
    }
    match (&args.out, json) {
        (out, true) => {
            let reviewed = schema.is_reviewed();
            output::print_json(
                &json!({ "schema": text, "reviewed": reviewed, "out": out, "warnings": warnings, "read_as": readings }),
            );
        }
        (Some(out), false) => output::print(&format!("written to {}", out.display())),
        (None, false) => output::print(&text),
    }
    for (file, reading) in &readings {
        eprintln!("{file}: read as {reading}");
    }
    for warning in &warnings {
        eprintln!("note: {warning}");
    }
    if !schema.is_reviewed() {
        eprintln!("note: {REVIEW}");
    }
    Ok(())
}

type Drafted = (Schema, String, Vec<String>, BTreeMap<String, String>);

/// The schema, its text, what deserves a look, and how each file was read.
fn drafted(args: &DraftArgs) -> Result<Drafted> {
    if let [path] = &args.paths[..]
        && is_adult(path)
    {
        let schema = bundled::adult_schema()?;
        let text = schema.to_toml();
        return Ok((schema, text, Vec::new(), BTreeMap::new()));
    }
    let mut paths = Vec::new();
    for pattern in &args.paths {
        let pattern =
            pattern.to_str().with_context(|| format!("{}: is not UTF-8", pattern.display()))?;
        paths.extend(files::expand(Path::new(""), pattern)?);
    }
    let options = DraftOptions {
        format: Format { header: !args.no_header, ..args.format.over(&Format::default()) },
        label: args.label.clone(),
        site: args.site.clone(),
        positive: args.positive.clone(),
    };
    let draft = {
        let _progress = ReadingProgress::begin();
        files::draft_schema(&paths, options)?
    };
    Ok(match draft {
        files::Drafted::Csv(draft) => {
            let read_as =
                draft.readings().iter().map(|(file, r)| (file.clone(), r.to_string())).collect();
            (
                draft.schema().clone(),
                consenso_study::schema::drafted(&draft),
                draft.warnings().to_vec(),
                read_as,
            )
        }
        files::Drafted::Libsvm(schema) => {
            let text = schema.to_toml();
            (*schema, text, Vec::new(), BTreeMap::new())
        }
    })
}

fn show(table: &Table, json: bool) {
    let summary = Summary::of(table);
    let reading = table.reading().map(ToString::to_string);
    if json {
        let mut value = json!(summary);
        value["read_as"] = json!(reading);
        output::print_json(&value);
    } else {
        output::print(&describe(&summary, reading.as_deref()));
    }
}

fn describe(summary: &Summary, reading: Option<&str>) -> String {
    let mut out = format!(
        "{}: {} records ({} dropped for a missing value), schema {}\n",
        summary.source,
        summary.rows,
        summary.dropped_missing,
        if summary.reviewed { "reviewed" } else { "NOT reviewed" }
    );
    if let Some(reading) = reading {
        let _ = writeln!(out, "read as {reading}");
    }
    out.push('\n');
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
    let [l1, l2, linf] =
        [e.bounds.l1(), e.bounds.l2(), e.bounds.linf()].map(|v| table::rounded_up(v, 4));
    let [b1, b2, binf] = e.replace_one.map(|b| table::rounded_up(b, 4));
    [e.encoding.name().to_owned(), e.dim.to_string(), l1, l2, linf, b1, b2, binf]
}
