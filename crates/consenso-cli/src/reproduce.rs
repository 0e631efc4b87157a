//! `consenso reproduce`.

use crate::folder::{self, RunFolder};
use crate::machine::{self, Threads};
use crate::progress::{self, Progress};
use crate::{Failure, files, output, overrides, png, table};
use anyhow::{Result, bail};
use consenso_engine::experiment::{self, Experiment, Job, Observer as _};
use consenso_paper::{self as reproduce, Part, Reproduction};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Compute the paper's figures again, with their data and a verdict on each claim
///
/// Writes a folder with figures/*.svg, data/*.csv (their columns explained in data/README.md),
/// record.json and report.html, one page that works offline: every figure with its parameters, the
/// paper's claim beside the measured value, the errata, and the same run under the paper's
/// accounting and ours.
#[derive(clap::Args)]
#[command(after_help = "\
Figures:
  1    privacy amplification over interval width and noise
  2    Algorithm 1 beside private ADMM of others, 10 agents: accuracy and privacy loss
  B    the same with 100 agents
  C    Algorithm 2* beside PDOP and Algorithm 1
  D    random weights beside fixed ones, without noise
  all  every figure, and the setting people should use beside the paper's

Examples:
  consenso reproduce                       all figures, into runs/reproduce-all-8
  consenso reproduce 2 --out figure-2      one figure
  consenso reproduce all --json            verdicts and values for a script

The same seed gives the same data, bit for bit, on any number of threads.")]
pub(crate) struct Args {
    /// The figures to compute: 1, 2, B, C, D or all
    #[arg(value_name = "FIGURE", default_value = "all")]
    figures: Vec<String>,
    /// Folder to write, which must not exist yet [default: runs/reproduce-<figures>-<seed>, or the
    /// next free number]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of everything random, instead of the experiments' own
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Runs of every experiment, instead of the paper's 10
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: Option<u32>,
    /// Write figures/*.png as well, at twice the size
    #[arg(long)]
    png: bool,
    #[command(flatten)]
    threads: Threads,
}

/// The seed of the paper's experiments, for the folder's name.
const SEED: u64 = 8;

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    let parts = parts(&args.figures)?;
    if args.png {
        png::check()?;
    }
    args.threads.start()?;
    let folder =
        RunFolder::check(args.out.as_deref(), &folder_name(&parts), args.seed.unwrap_or(SEED))?;
    let experiments = reproduce::experiments(&parts)
        .into_iter()
        .map(|name| prepare(name, args))
        .collect::<Result<Vec<_>>>()?;
    let records = run(&experiments)?;
    let reproduction = Reproduction::new(&parts, records);
    if reproduction.interrupted() && reproduction.records.is_empty() {
        eprintln!("interrupted: nothing was finished, so nothing is written");
        return Err(Failure::Interrupted);
    }
    let out = folder.write(|path| write(path, &reproduction, args.png)).map_err(Failure::Run)?;
    if json {
        output::print_json(&summary(&reproduction, &out));
    } else {
        output::print(&table::verdicts(&reproduction));
        output::print(&format!("\nwritten to {}", out.display()));
    }
    if reproduction.interrupted() {
        eprintln!("interrupted: what was done is kept");
        return Err(Failure::Interrupted);
    }
    Ok(())
}

/// The figures a user names, in the paper's order, each once.
fn parts(names: &[String]) -> Result<Vec<Part>> {
    let mut parts = Vec::new();
    for name in names {
        if name.eq_ignore_ascii_case("all") {
            parts.extend(Part::ALL);
        } else if let Some(part) = Part::named(name) {
            parts.push(part);
        } else {
            let known: Vec<&str> = Part::ALL.iter().map(|part| part.name()).collect();
            bail!(
                "{name}: the paper has no such figure\n  help: there are {}, and all",
                known.join(", ")
            );
        }
    }
    parts.sort_unstable();
    parts.dedup();
    Ok(parts)
}

fn folder_name(parts: &[Part]) -> String {
    if parts.len() == Part::ALL.len() {
        return "reproduce-all".into();
    }
    parts.iter().fold("reproduce".into(), |name, part| format!("{name}-{}", part.name()))
}

fn prepare(name: &str, args: &Args) -> Result<Experiment> {
    let text = files::experiment(name)?;
    let mut spec = overrides::read(&text.text, &text.file, &[])?;
    spec.seed = args.seed.unwrap_or(spec.seed);
    spec.runs = args.runs.unwrap_or(spec.runs);
    Ok(Experiment::check(files::inputs(text, spec, None)?)?)
}

/// One experiment after the other under one bar; after Ctrl-C what has results is kept.
fn run(experiments: &[Experiment]) -> Result<Vec<consenso_engine::record::Record>, Failure> {
    if experiments.is_empty() {
        return Ok(Vec::new());
    }
    let exchanges = experiments.iter().map(Experiment::exchanges).sum();
    let progress = Progress::new(exchanges, progress::told_to_stop());
    let mut records = Vec::new();
    for experiment in experiments {
        progress.within(experiment.name());
        let job = Job { machine: machine::look(), ..Job::default() };
        let (pieces, cancelled) = experiment::run_pieces(experiment, job, &progress)
            .map_err(|error| Failure::Run(error.into()))?;
        let record = experiment::put_together(experiment, pieces, cancelled).record;
        if !record.algorithms.is_empty() {
            records.push(record);
        }
        if progress.cancelled() {
            break;
        }
    }
    progress.finish();
    Ok(records)
}

fn write(path: &Path, reproduction: &Reproduction, with_png: bool) -> Result<()> {
    folder::make(&path.join("figures"))?;
    folder::make(&path.join("data"))?;
    let put = |name: String, bytes: &[u8]| folder::put(path, &name, bytes);
    for figure in reproduction.figures() {
        let svg = figure.figure.to_svg();
        put(format!("figures/{}.svg", figure.name), svg.as_bytes())?;
        if with_png {
            put(format!("figures/{}.png", figure.name), &png::render(&svg)?)?;
        }
    }
    for table in reproduction.tables() {
        put(format!("data/{}.csv", table.name), table.to_csv().as_bytes())?;
    }
    put("data/README.md".into(), reproduction.data_guide().as_bytes())?;
    put("record.json".into(), &serde_json::to_vec_pretty(&record(reproduction))?)?;
    put("report.html".into(), reproduce::paper_html(reproduction).as_bytes())
}

/// Everything, for a program.
fn record(reproduction: &Reproduction) -> serde_json::Value {
    let mut value = json!(reproduction);
    value["findings"] = json!(reproduction.findings());
    value["checks"] = json!(reproduction.reference_checks());
    value
}

/// The record without its curves, and where it went.
fn summary(reproduction: &Reproduction, out: &Path) -> serde_json::Value {
    let (worse, private) = reproduction.worse_than_zero();
    let algorithm = |record: &consenso_engine::record::Record| {
        let mut value = json!(record);
        for algorithm in value["algorithms"].as_array_mut().into_iter().flatten() {
            algorithm.as_object_mut().map(|a| a.remove("curve"));
        }
        value
    };
    json!({
        "figures": reproduction.parts,
        "findings": reproduction.findings(),
        "checks": reproduction.reference_checks(),
        "worse_than_zero_model": { "private_methods": private, "worse": worse },
        "experiments": reproduction.records.iter().map(algorithm).collect::<Vec<_>>(),
        "out": out,
    })
}
