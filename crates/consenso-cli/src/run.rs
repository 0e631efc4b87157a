//! `consenso run`.

use crate::folder::{self, Folder};
use crate::overrides::{self, Override};
use crate::progress::{self, Progress};
use crate::spending::{self, Changed};
use crate::{Failure, files, output, table};
use anyhow::{Context as _, anyhow};
use consenso::experiment::{self, Experiment, SpecError};
use consenso::model::Model;
use consenso::record::{Record, ResultKind};
use consenso_ledger::Standing;
use consenso_study::experiment::{BUILT_IN, built_in};
use serde_json::json;
use std::path::PathBuf;

/// Simulate an experiment: several algorithms side by side on the same records, graphs and budget
///
/// Prints a table of results and baselines, and writes a folder with the resolved experiment, all figures, a report that
/// works offline, and the data behind them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso run                                            the built-in experiment `adult`
  consenso run paper-2a --set runs=3 --json               another built-in, changed, for a script
  consenso run mine.toml --out results/first              your own
  consenso run --set privacy.epsilon=0.5 --set algorithm.0.rounds=100 --seed 1

A run's folder holds models/*.json (for `consenso predict` and `consenso model show`; *.npz for NumPy),
experiment.toml (every choice made: running it repeats the run), record.json,
trace.csv (a row an algorithm, run and round), report.html and figures/*.svg; with a [sweep] also sweep.csv.
With --entropy os on records of your own it holds only what may be shared, and private/ the rest;
what the command costs is added to a ledger beside the records before it begins.
Ctrl-C stops and keeps the algorithms and runs that are done; a second Ctrl-C stops at once.")]
pub(crate) struct Args {
    /// An experiment file, or the name of a built-in experiment [default: adult]
    experiment: Option<String>,
    /// Change a key of the experiment, as often as needed: data.agents=20, graph.kind=ring, algorithm.0.rounds=50,
    /// or algorithm.rounds=50 for all algorithms; an empty value removes the key
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Folder to write, which must not exist yet [default: runs/<name>-<seed>, or the next free number]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Seed of everything random, instead of the file's
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Where the noise comes from: `seed` repeats bit for bit, for science; `os` is what a privacy claim holds for
    #[arg(long, value_enum, default_value_t = Entropy::Seed)]
    entropy: Entropy,
    /// What a file of records is that has changed since its ledger knew it (--entropy os)
    #[arg(long, value_enum, value_name = "WHICH")]
    records: Option<Changed>,
    /// Folder of the ledger of spent privacy [default: consenso-ledger, beside the records]
    #[arg(long, value_name = "DIR")]
    ledger: Option<PathBuf>,
    /// Threads; results do not depend on it [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// List the built-in experiments
    #[arg(long, conflicts_with_all = ["experiment", "print"])]
    list: bool,
    /// Print the file of a built-in experiment, to copy and change
    #[arg(long, value_name = "NAME", conflicts_with = "experiment")]
    print: Option<String>,
}

/// Where noise comes from. Shards and graphs are the seed's in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Entropy {
    Seed,
    Os,
}

impl Entropy {
    fn draw(self) -> Result<Option<[u8; 32]>, Failure> {
        if self == Self::Seed {
            return Ok(None);
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|e| Failure::Run(anyhow!("the operating system gave no entropy: {e}")))?;
        Ok(Some(bytes))
    }
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    if args.list {
        list(json);
        return Ok(());
    }
    if let Some(name) = &args.print {
        return print(name, json);
    }
    if let Some(threads) = args.threads {
        rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build_global().context("--threads")?;
    }
    let (experiment, folder) = prepare(args)?;
    for warning in experiment.warnings() {
        eprintln!("warning: {warning}");
    }
    let standings = spending::reserve(&experiment, args.ledger.as_deref(), args.records)?;
    let progress = Progress::new(experiment.exchanges(), progress::ctrl_c());
    let finished = experiment::run(&experiment, &progress);
    progress.finish();
    let mut finished = finished.map_err(|message| Failure::Run(anyhow!(message)))?;
    let models = folder::name_models(&experiment, &mut finished);
    finish(&finished.record, &models, &folder, &standings, json)
}

/// Reads and checks everything, the place of the results included.
fn prepare(args: &Args) -> Result<(Experiment, Folder), Failure> {
    let text = files::experiment(args.experiment.as_deref().unwrap_or("adult"))?;
    let changes = args.set.iter().map(|s| s.parse()).collect::<Result<Vec<Override>, _>>()?;
    let mut spec = overrides::read(&text.text, &text.file, &changes)?;
    spec.seed = args.seed.unwrap_or(spec.seed);
    let folder = Folder::check(args.out.as_deref(), &spec.name, spec.seed)?;
    let original = text.text.clone();
    let located = |error: SpecError| overrides::relocate(error, &original, &changes);
    let inputs = files::inputs(text, spec, args.entropy.draw()?).map_err(|error| {
        match error.downcast::<SpecError>() {
            Ok(error) => located(error).into(),
            Err(error) => error,
        }
    })?;
    Ok((Experiment::check(inputs).map_err(located)?, folder))
}

fn finish(
    record: &Record,
    models: &[Model],
    folder: &Folder,
    standings: &[Standing],
    json: bool,
) -> Result<(), Failure> {
    let kept = !record.algorithms.is_empty();
    let out = kept
        .then(|| folder.write(|path| folder::write_record(path, record, models)))
        .transpose()
        .map_err(Failure::Run)?;
    if json {
        let mut value = summary(record, out.as_deref());
        if !standings.is_empty() {
            value["ledger"] = spending::json(standings)?;
        }
        output::print_json(&value);
    } else {
        output::print(&table::summary(record));
        if !standings.is_empty() {
            output::print(&spending::text(standings));
        }
        if !matches!(record.kind, ResultKind::Simulation) {
            output::print(
                "what is printed here holds exact functions of the records: it is for whoever holds them, not to be shared",
            );
        }
        if let Some(out) = &out {
            output::print(&format!("\nwritten to {}", out.display()));
            if models.iter().any(|m| m.encoder.is_some()) {
                let out = out.display();
                output::print(&format!(
                    "the model: consenso model show {out}; on new records: consenso predict {out} FILE.csv"
                ));
            }
        }
    }
    if record.interrupted {
        let what = if kept { "what was done is kept" } else { "nothing was finished, so nothing is written" };
        eprintln!("interrupted: {what}");
        return Err(Failure::Interrupted);
    }
    Ok(())
}

/// The record without its curves, and where it went.
fn summary(record: &Record, out: Option<&std::path::Path>) -> serde_json::Value {
    let mut value = json!(record);
    for algorithm in value["algorithms"].as_array_mut().into_iter().flatten() {
        algorithm.as_object_mut().map(|a| a.remove("curve"));
        if let (Some(out), Some(file)) = (out, algorithm["model"].as_str()) {
            algorithm["model"] = json!(out.join(file));
        }
    }
    let points = value["sweep"].as_array_mut().into_iter().flatten();
    for algorithm in points.flat_map(|point| point["algorithms"].as_array_mut().into_iter().flatten()) {
        algorithm.as_object_mut().map(|a| a.remove("curve"));
    }
    value["out"] = json!(out);
    value
}

fn list(json: bool) {
    if json {
        let entry = |e: &(&str, &str, &str)| json!({ "name": e.0, "about": e.1 });
        output::print_json(&json!({ "experiments": BUILT_IN.iter().map(entry).collect::<Vec<_>>() }));
        return;
    }
    let width = BUILT_IN.iter().map(|e| e.0.len()).max().unwrap_or(0);
    for (name, about, _) in BUILT_IN {
        output::print(&format!("{name:width$}  {about}"));
    }
}

fn print(name: &str, json: bool) -> Result<(), Failure> {
    let text = built_in(name).with_context(|| {
        let names: Vec<&str> = BUILT_IN.iter().map(|e| e.0).collect();
        format!("--print {name}: there is no such built-in experiment; there are {}", names.join(", "))
    })?;
    if json {
        output::print_json(&json!({ "name": name, "toml": text }));
    } else {
        output::print(text);
    }
    Ok(())
}
