//! `consenso run`.

use crate::ask::{self, Asked, Books};
use crate::folder::{self, RunFolder};
use crate::machine::{self, Threads};
use crate::overrides::{self, Override};
use crate::pieces::{self, CheckpointInterval, Keeper, PieceFile, States};
use crate::progress::{self, Progress, TimeLimit};
use crate::spending::{self, AskedLimit, Changed};
use crate::{Failure, files, large, model_file, output, table};
use anyhow::{Context as _, anyhow};
use consenso_engine::experiment::{
    self, Experiment, ExperimentSpec, Job, Part, Piece, Place, RecordsDigest, Share, SpecError,
    Unfinished,
};
use consenso_engine::model::Model;
use consenso_engine::record::{Record, ResultKind};
use consenso_engine::simulate::{Ranks, SingleRank};
use consenso_ledger::LedgerSummary;
use consenso_study::experiment::{BUILT_IN, built_in};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Simulate an experiment: several algorithms side by side on the same records, graphs and budget
///
/// Prints a table of results and baselines, and writes a folder with the resolved experiment, all
/// figures, a report that works offline, and the data behind them.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso run                                            the built-in experiment `adult`
  consenso run paper-2a --set runs=3 --json               another built-in, changed, for a script
  consenso run mine.toml --out results/first              your own
  consenso run heart-flamby --inference --set 'algorithm=[{kind=\"dgd\"}]'   with standard errors
  consenso run --set privacy.epsilon=0.5 --set algorithm.0.rounds=100 --seed 1

A run's folder holds models/*.json (for `consenso predict` and `consenso model show`; *.npz for NumPy),
experiment.toml (every choice made: running it repeats the run), record.json,
trace.csv (a row an algorithm, run and round), report.html and figures/*.svg; with a [sweep] also sweep.csv.
With --entropy os on records of your own it holds only what may be shared, and private/ the rest;
what the command costs is added to a ledger beside the records before it begins.
Ctrl-C stops and keeps what is done; a second Ctrl-C stops at once. After either, and after a crash, the same command with
--resume goes on: runs that were under way from their last checkpoint (--checkpoint-every), bit for bit. With --entropy os
they are charged once more, for noise that was drawn after it is lost. In a folder that is finished, --resume with more runs
or more rounds adds those; rounds of an algorithm whose noise or steps change with their number are made anew.

On many machines: each of n jobs does its share with --shard i/n, and `consenso merge` puts the folders together.
One simulation too large for one machine: mpirun -n R consenso run big.toml divides its agents among R processes, with
the same transcript, bit for bit (MPICH 5, or any MPI with the standard ABI; `pip install mpich` brings one, and
deploy/mpi/abi.c makes one of any other). Too large for the memory of one: --stream, alone or under mpirun; ten million
agents of 14 parameters take about 5 GB. Records of files then lie encoded in a private folder beside the results until
the end: once, or twice where those of an agent do not lie together.")]
pub(crate) struct Args {
    /// An experiment file, or the name of a built-in experiment [default: adult]
    experiment: Option<String>,
    /// Change a key of the experiment, as often as needed: data.agents=20, graph.kind=ring,
    /// algorithm.0.rounds=50, or algorithm.rounds=50 for all algorithms; an empty value removes the
    /// key
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Give every coefficient a standard error, an interval and a p-value, as [inference] does in a
    /// file: half of the budget goes there
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "0.95")]
    inference: Option<f64>,
    #[command(flatten)]
    format: files::FormatArgs,
    /// Folder to write, which must not exist yet [default: runs/<name>-<seed>, or the next free
    /// number]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in that folder, or with the last one of this name and seed: only what is
    /// missing is done
    #[arg(long)]
    resume: bool,
    /// Do the i-th of n shares of all runs and points of a sweep, i from 1; `slurm` takes both from
    /// a job array
    #[arg(long, value_name = "i/n")]
    shard: Option<Shard>,
    /// How often the state of a run under way is written down for --resume: a number of rounds
    /// (200), or a time (30s, 10m); 0 is never [default: 30s; over several processes and with
    /// --stream when it is stopped]
    #[arg(long, value_name = "ROUNDS|TIME")]
    checkpoint_every: Option<CheckpointInterval>,
    /// Stop after that time as Ctrl-C does, with what --resume goes on from: 90s, 55m, 2h; `slurm`
    /// is a minute before the job's time is up. SIGTERM stops so, too. Several processes stop at
    /// the same round
    #[arg(long, value_name = "TIME")]
    time_limit: Option<TimeLimit>,
    /// Hold no agent and no records in memory: every agent is made anew in every round, from
    /// records of files as they were written to disk once. Slower, and for far more agents; of the
    /// record there is what can be had so: the curve of the mean model, and a hash of the
    /// transcript
    #[arg(long, conflicts_with = "shard")]
    stream: bool,
    /// Seed of everything random, instead of the file's
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Where the noise comes from: `seed` repeats bit for bit, for science; `os` is what a privacy
    /// claim holds for
    #[arg(long, value_enum, default_value_t = Entropy::Seed)]
    entropy: Entropy,
    /// What a file of records is that has changed since its ledger knew it (--entropy os)
    #[arg(long, value_enum, value_name = "WHICH")]
    records: Option<Changed>,
    /// Folder of the ledger of spent privacy [default: consenso-ledger, beside the records]
    #[arg(long, value_name = "DIR")]
    ledger: Option<PathBuf>,
    /// The most that all studies of these records may cost, as 3 or 3,1e-5; kept in the ledger
    /// until another --limit changes it. The first one at a terminal is asked about: it may be for
    /// life
    #[arg(long, value_name = "EPSILON[,DELTA]", value_parser = spending::limit)]
    limit: Option<(f64, Option<f64>)>,
    /// The same for life: no later command can raise it, only lower it
    #[arg(long, value_name = "EPSILON[,DELTA]", value_parser = spending::limit,
        conflicts_with = "limit")]
    limit_for_life: Option<(f64, Option<f64>)>,
    #[command(flatten)]
    threads: Threads,
    /// List the built-in experiments
    #[arg(long, conflicts_with_all = ["experiment", "print"])]
    list: bool,
    /// Print the file of a built-in experiment, to copy and change
    #[arg(long, value_name = "NAME", conflicts_with = "experiment")]
    print: Option<String>,
}

impl Args {
    /// The limit that is asked for.
    fn limit(&self, json: bool) -> Option<AskedLimit> {
        let (for_life, may_ask) =
            (self.limit_for_life.is_some(), !json && spending::at_a_terminal());
        self.limit.or(self.limit_for_life).map(|amount| AskedLimit { amount, for_life, may_ask })
    }
}

/// Which share of a run to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shard(pub(crate) Share);

impl std::str::FromStr for Shard {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, anyhow::Error> {
        let help = "write i/n with 1 <= i <= n, for example 2/8, or slurm";
        if text == "slurm" {
            let number = |name: &str, open: Option<u32>| match std::env::var(name) {
                Ok(value) => value.parse().map_err(|_| anyhow!("{name} = {value} is not a number")),
                Err(_) => open
                    .ok_or_else(|| anyhow!("{name} is not set: this is no job array of Slurm's")),
            };
            let (id, count) =
                (number("SLURM_ARRAY_TASK_ID", None)?, number("SLURM_ARRAY_TASK_COUNT", None)?);
            let (first, step) = (
                number("SLURM_ARRAY_TASK_MIN", Some(1))?,
                number("SLURM_ARRAY_TASK_STEP", Some(1))?,
            );
            let index =
                (id.checked_sub(first)).filter(|d| step > 0 && d % step == 0).map(|d| d / step + 1);
            return index.and_then(|i| Share::new(i, count)).map(Self).ok_or_else(|| anyhow!(
                "task {id} of an array of {count} that begins at {first}: number the array without gaps, as in --array=1-{count}"
            ));
        }
        let numbers =
            text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        numbers.and_then(|(i, n)| Share::new(i, n)).map(Self).ok_or_else(|| anyhow!(help))
    }
}

/// Where noise comes from. Shards and graphs are the seed's in either case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Entropy {
    Seed,
    Os,
}

impl Entropy {
    pub(crate) fn draw(self) -> Result<Option<[u8; 32]>, Failure> {
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
        return print_built_in(name, json);
    }
    args.threads.start()?;
    let asked = questions(args, json)?;
    if let Some(Questions { alone: true, asked, folder }) = asked {
        let out = folder.write(|path| ask::write(path, &asked)).map_err(Failure::Run)?;
        return ask::print(&asked, Some(&out), json);
    }
    let queries = asked.map(|q| q.asked);
    let limit = args.time_limit.map(TimeLimit::ends);
    #[cfg(feature = "mpi")]
    let several = consenso_mpi::launched().is_some() && args.shard.is_none();
    #[cfg(not(feature = "mpi"))]
    let several = false;
    if several || args.stream {
        let every = args.checkpoint_every.unwrap_or(CheckpointInterval::Rounds(0));
        let how = large::How { every, limit, resume: args.resume, streamed: args.stream, json };
        return large::command(how, |ranks| {
            let (experiment, _, folder) = prepare(args, RunFolder::check, ranks)?;
            Ok((experiment, folder))
        });
    }
    let place = if args.resume { RunFolder::resume } else { RunFolder::check };
    let (experiment, asked, folder) = prepare(args, place, &mut SingleRank)?;
    for warning in experiment.warnings() {
        eprintln!("warning: {warning}");
    }
    let share = args.shard.map(|s| s.0);
    let records = experiment.records_digest();
    let mut kept = if args.resume && folder.fetch_pieces()? {
        Some(PieceFile::read(&folder.pieces())?)
    } else {
        None
    };
    let (done, other) =
        kept.as_mut().map_or_else(Default::default, |k| k.fitting(&experiment, &records, share));
    if kept.is_some() {
        let (have, all) = (done.len(), experiment.places(share).len());
        let lost = if other > 0 {
            format!("; {other} of another setting are left out")
        } else {
            String::new()
        };
        eprintln!("going on: {have} of {all} pieces are done{lost}");
    }
    let every = args.checkpoint_every.unwrap_or(CheckpointInterval::Time(CHECKPOINTS));
    let states = States::new(folder.checkpoints(), every);
    let unfinished = if args.resume {
        let ends = kept.as_mut().map(|k| std::mem::take(&mut k.ends)).unwrap_or_default();
        going_on(&experiment, &records, &done, states.read().into_iter().chain(ends))
    } else {
        Vec::new()
    };
    let job =
        Job { machine: machine::look(), share, done, unfinished, records: Some(records.clone()) };
    machine::say(&experiment, &job).map_err(Failure::Run)?;
    let have: BTreeSet<_> = job.done.iter().map(Piece::place).collect();
    let missing = experiment.places(share).into_iter().filter(|place| !have.contains(place));
    let missing = pieces::transcripts(&experiment, &records, missing);
    let unpaid = kept.as_ref().map_or_else(|| missing.clone(), |k| k.unpaid(&missing));
    let begun = |t: &(Place, String)| {
        kept.as_ref().is_some_and(|k| k.cut_off(t))
            || job.unfinished.iter().any(|state| state.place() == t.0)
    };
    if !experiment.is_seeded() && unpaid.iter().any(begun) {
        eprintln!(
            "noise that was drawn and not kept is lost, and drawn afresh: each transcript that had begun is charged once more"
        );
    }
    let places: Vec<_> = unpaid.iter().map(|t| t.0).collect();
    let (place, asked_limit) = (args.ledger.as_deref(), args.limit(json));
    let standings = spending::reserve(&experiment, &places, place, asked_limit, args.records)?;
    let asked = (asked.0.as_str(), &asked.1);
    let small = (experiment.facts().agents * experiment.facts().dim) as u64 <= MOST_NUMBERS;
    let kept_as = (states, args.resume, small);
    let mut keeper =
        Keeper::new(folder.pieces(), asked, !experiment.is_seeded(), share, kept.as_ref(), kept_as)
            .map_err(Failure::Run)?;
    keeper.reserved(missing, unpaid).map_err(Failure::Run)?;
    let progress = Progress::new(experiment.exchanges(), progress::told_to_stop())
        .until(limit)
        .keeping(keeper);
    let pieces = experiment::run_pieces(&experiment, job, &progress);
    progress.finish();
    let (pieces, cancelled) = pieces.map_err(|error| Failure::Run(error.into()))?;
    let keeper = progress.into_keeper().context("whoever keeps the pieces")?;
    let count = pieces.len();
    let mut finished = experiment::put_together(&experiment, pieces, cancelled);
    if let Some(share) = share {
        return finish_share(&finished.record, count, share, &folder, keeper, json);
    }
    let models = folder::name_models(&experiment, &mut finished);
    let asked = queries.as_ref();
    finish(&finished.record, &models, &folder, keeper, (&standings, asked), json)
}

/// The questions of the file, asked.
struct Questions {
    /// Whether the file trains nothing.
    alone: bool,
    asked: Asked,
    folder: RunFolder,
}

/// Asks the questions of the file, if it has any: they cost what they cost before training begins.
fn questions(args: &Args, json: bool) -> Result<Option<Questions>, Failure> {
    let text = files::experiment(args.experiment.as_deref().unwrap_or("adult"))?;
    let changes = args.set.iter().map(|s| s.parse()).collect::<Result<Vec<Override>, _>>()?;
    let mut spec = overrides::read(&text.text, &text.file, &changes)?;
    if spec.query.is_empty() || (args.resume && !spec.asks_only()) {
        return Ok(None);
    }
    args.format.set(&mut spec);
    spec.seed = args.seed.unwrap_or(spec.seed);
    if args.shard.is_some() || args.stream {
        return Err(anyhow!("--shard and --stream do not go with [[query]]: ask with `consenso ask`, and leave the tables out of this file").into());
    }
    let folder = RunFolder::check(args.out.as_deref(), &spec.name, spec.seed)?;
    let original = text.text.clone();
    let located = |error: SpecError| overrides::relocate(error, &original, &changes);
    // What is wrong with the algorithms is said before anything is spent.
    if !spec.asks_only() {
        let again = files::experiment(args.experiment.as_deref().unwrap_or("adult"))?;
        let inputs = files::opened(again, spec.clone(), None, located)?;
        Experiment::check(inputs).map_err(located)?;
    }
    let books =
        Books { place: args.ledger.as_deref(), limit: args.limit(json), changed: args.records };
    let alone = spec.asks_only();
    let asked = ask::ask(text, &spec, args.entropy.draw()?, &books, located)?;
    Ok(Some(Questions { alone, asked, folder }))
}

/// How often the state of a run under way is written down, unless the user says.
const CHECKPOINTS: std::time::Duration = std::time::Duration::from_secs(30);

/// Last states are kept for rounds to be added where the models of all agents have at most so many
/// numbers.
const MOST_NUMBERS: u64 = 1 << 16;

/// Of transcripts that are not done, the furthest state that this experiment can go on from.
fn going_on(
    experiment: &Experiment,
    records: &RecordsDigest,
    done: &[Piece],
    found: impl Iterator<Item = Unfinished>,
) -> Vec<Unfinished> {
    let mut best = BTreeMap::<Place, Unfinished>::new();
    for state in found {
        let place = state.place();
        let better = best.get(&place).is_none_or(|known| known.round() < state.round());
        if better
            && done.iter().all(|p| p.place() != place)
            && experiment.continues(records, &state)
        {
            best.insert(place, state);
        }
    }
    for state in best.values() {
        let Place { point, run, part } = state.place();
        let label = match part {
            Part::Algorithm(a) => experiment.labels().nth(a as usize).unwrap_or("?"),
            _ => "?",
        };
        let point = if point > 0 { format!(", point {}", point + 1) } else { String::new() };
        eprintln!("going on with {label}, run {}{point}: from round {}", run + 1, state.round());
    }
    best.into_values().collect()
}

/// How the folder for the results is found: by the one asked for, the experiment's name and its
/// seed.
type FindFolder = fn(Option<&Path>, &str, u64) -> anyhow::Result<RunFolder>;

/// Reads and checks everything, the place of the results included. What was asked for comes too:
/// the file's name and the experiment before any open choice was made.
fn prepare(
    args: &Args,
    place: FindFolder,
    ranks: &mut dyn Ranks,
) -> Result<(Experiment, (String, ExperimentSpec), RunFolder), Failure> {
    let text = files::experiment(args.experiment.as_deref().unwrap_or("adult"))?;
    let inference = args.inference.map(|level| format!("inference.level={level}"));
    let changes = args.set.iter().chain(&inference).map(|s| s.parse());
    let changes = changes.collect::<Result<Vec<Override>, _>>()?;
    let mut spec = overrides::read(&text.text, &text.file, &changes)?;
    args.format.set(&mut spec);
    spec.seed = args.seed.unwrap_or(spec.seed);
    // Every run under such noise is a release of its own, which the budget pays for.
    if args.entropy == Entropy::Os && !overrides::set("runs", &text.text, &changes) {
        spec.runs = 1;
    }
    let name = match args.shard {
        Some(Shard(share)) => format!("{}-{}-of-{}", spec.name, share.index(), share.of()),
        None => spec.name.clone(),
    };
    let folder = place(args.out.as_deref(), &name, spec.seed)?;
    let original = text.text.clone();
    let located = |error: SpecError| overrides::relocate(error, &original, &changes);
    let entropy = args.entropy.draw()?;
    let inputs = if args.stream {
        let (place, who) = (folder.scratch(), (ranks.rank(), ranks.ranks()));
        let mut store = files::RowStore {
            open: &mut || large::scratch(&place, who),
            before: &mut |outline| large::before_storing(&place, outline, who.0 == 0),
        };
        files::opened_streamed(text, spec, entropy, ranks, &mut store, located)?
    } else {
        files::opened_among(text, spec, entropy, ranks, located)?
    };
    let asked = (inputs.file.clone(), inputs.spec.clone());
    Ok((Experiment::check(inputs).map_err(located)?, asked, folder))
}

/// Writes the folder of one share.
fn finish_share(
    record: &Record,
    pieces: usize,
    share: Share,
    folder: &RunFolder,
    keeper: Keeper,
    json: bool,
) -> Result<(), Failure> {
    if record.interrupted {
        eprintln!("interrupted: {pieces} pieces are kept; the same command with --resume goes on");
        return Err(Failure::Interrupted);
    }
    let mut about = json!({ "name": record.name, "seed": record.seed, "pieces": pieces,
                            "shard": { "index": share.index(), "of": share.of() } });
    let bytes = keeper.bytes().map_err(Failure::Run)?.unwrap_or_else(|| keeper.empty());
    let out = folder
        .write(|path| folder::write_share(path, record, &about, &bytes))
        .map_err(Failure::Run)?;
    keeper.remove().map_err(Failure::Run)?;
    if json {
        about["out"] = json!(out);
        output::print_json(&about);
    } else {
        let (i, n) = (share.index(), share.of());
        output::print(&format!("share {i} of {n}: {pieces} pieces, written to {}", out.display()));
        output::print("when all shares are there: consenso merge DIR...");
    }
    Ok(())
}

fn finish(
    record: &Record,
    models: &[Model],
    folder: &RunFolder,
    keeper: Keeper,
    (standings, asked): (&[LedgerSummary], Option<&Asked>),
    json: bool,
) -> Result<(), Failure> {
    let kept = !record.algorithms.is_empty();
    let bytes = keeper.bytes().map_err(Failure::Run)?;
    let write = |path: &Path| {
        folder::write_record(path, record, models, bytes.as_deref())?;
        asked.map_or(Ok(()), |asked| ask::write(path, asked))
    };
    let out = kept.then(|| folder.write(write)).transpose().map_err(Failure::Run)?;
    if kept {
        keeper.remove().map_err(Failure::Run)?;
    }
    print(record, models, out.as_deref(), (standings, asked), json)?;
    if record.interrupted {
        let what = match (kept, bytes) {
            (true, _) => "what was done is kept; the same command with --resume goes on",
            (false, Some(_)) => "no algorithm was finished; the same command with --resume goes on",
            (false, None) => "nothing was finished, so nothing is written",
        };
        eprintln!("interrupted: {what}");
        return Err(Failure::Interrupted);
    }
    Ok(())
}

/// Prints what a run gave and where it was written.
pub(crate) fn print(
    record: &Record,
    models: &[Model],
    out: Option<&Path>,
    (standings, asked): (&[LedgerSummary], Option<&Asked>),
    json: bool,
) -> Result<(), Failure> {
    if json {
        let mut value = summary(record, out);
        if let Some(asked) = asked {
            value["queries"] = ask::value(asked);
        }
        for (index, algorithm) in record.algorithms.iter().enumerate() {
            let model = models.iter().find(|m| m.study.label == algorithm.label);
            if let Some(inference) = model.and_then(|m| m.inference.as_ref()) {
                value["algorithms"][index]["inference"] = serde_json::json!(inference);
            }
        }
        if !standings.is_empty() {
            value["ledger"] = spending::json(standings)?;
        }
        output::print_json(&value);
    } else {
        if let Some(asked) = asked {
            output::print(&ask::text(asked));
        }
        output::print(&table::summary(record, output::columns()));
        for model in models {
            if let Some(rows) = model.regression_rows() {
                let label = &model.study.label;
                output::print(&format!("\n{label}\n{}", model_file::regression(model, rows)));
            }
        }
        if !standings.is_empty() {
            output::print(&spending::text(standings));
        }
        if !matches!(record.kind, ResultKind::Simulation) {
            output::print(&output::folded(
                "what is printed here holds exact functions of the records: it is for whoever holds them, not to be shared",
                output::columns(),
            ));
        }
        if let Some(out) = out {
            output::print(&format!("\nwritten to {}", out.display()));
            if models.iter().any(|m| m.encoder.is_some()) {
                let out = out.display();
                output::print(&format!(
                    "the model: consenso model show {out}; on new records: consenso predict {out} FILE.csv"
                ));
            }
        }
    }
    Ok(())
}

/// The record without its curves, and where it went.
pub(crate) fn summary(record: &Record, out: Option<&std::path::Path>) -> serde_json::Value {
    let mut value = json!(record);
    for algorithm in value["algorithms"].as_array_mut().into_iter().flatten() {
        algorithm.as_object_mut().map(|a| a.remove("curve"));
        if let (Some(out), Some(file)) = (out, algorithm["model"].as_str()) {
            algorithm["model"] = json!(out.join(file));
        }
    }
    let points = value["sweep"].as_array_mut().into_iter().flatten();
    for algorithm in
        points.flat_map(|point| point["algorithms"].as_array_mut().into_iter().flatten())
    {
        algorithm.as_object_mut().map(|a| a.remove("curve"));
    }
    value["out"] = json!(out);
    value
}

fn list(json: bool) {
    if json {
        let entry = |e: &(&str, &str, &str)| json!({ "name": e.0, "about": e.1 });
        output::print_json(
            &json!({ "experiments": BUILT_IN.iter().map(entry).collect::<Vec<_>>() }),
        );
        return;
    }
    let width = BUILT_IN.iter().map(|e| e.0.len()).max().unwrap_or(0);
    for (name, about, _) in BUILT_IN {
        output::print(&format!("{name:width$}  {about}"));
    }
}

fn print_built_in(name: &str, json: bool) -> Result<(), Failure> {
    let text = built_in(name).with_context(|| {
        let names: Vec<&str> = BUILT_IN.iter().map(|e| e.0).collect();
        format!(
            "--print {name}: there is no such built-in experiment; there are {}",
            names.join(", ")
        )
    })?;
    if json {
        output::print_json(&json!({ "name": name, "toml": text }));
    } else {
        output::print(text);
    }
    Ok(())
}
