//! `consenso benchmark`.

use crate::machine::{self, Threads};
use crate::progress::{self, TimeLimit};
use crate::run::Shard;
use crate::{Failure, files, output, table};
use anyhow::{Context as _, Result, anyhow, bail};
use consenso_board::cell::{self, Cell, Outcome, Unit};
use consenso_board::claimed::Claimed;
use consenso_board::results::Results;
use consenso_board::spec::{Board, Method, Problem, Setting, Tuning};
use consenso_board::{BUILT_IN, built_in, school, show};
use consenso_engine::data::Records;
use consenso_engine::experiment::{self, Experiment, ExperimentSpec, Job, Machine, Observer};
use consenso_engine::graph::Graph;
use consenso_engine::model::fingerprint;
use consenso_engine::record::Record;
use consenso_study::ExperimentFile as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Compare methods on a board: the same problems, graphs, conditions and budgets for all
///
/// Every cell of a board is an ordinary experiment, its noise calibrated to the budget and its ε
/// certified. The page has ranks with their confidence, which methods cannot be told apart, what a
/// budget and what bytes buy, and the certified ε beside every result.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso benchmark run                          the built-in board `quick`, into boards/quick
  consenso benchmark run mine.toml --dry-run      what would run, and what does not go together
  consenso benchmark show boards/quick            ranks and figures again, and where the page is
  consenso benchmark run --print quick > mine.toml   a board to change; then: consenso benchmark run mine.toml
  consenso benchmark add mine.json boards/quick   somebody else's results beside them, as claimed
  consenso benchmark run anchors --school school.mat   published figures beside ours

A board stopped by Ctrl-C, a time limit or a crash goes on when the same command is given again. On many machines that
share a folder: --shard i/n in each job (`--shard slurm` in a job array), then `consenso benchmark show DIR`.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Run(RunArgs),
    Show(ShowArgs),
    Add(AddArgs),
    Export(ExportArgs),
}

/// Run every cell of a board that is not there yet, and write its page
///
/// A board file has `[[problem]]`, `[[graph]]`, `[[condition]]` and `[[method]]` tables, budgets
/// and seeds; docs/benchmark.md explains its keys. A finished cell is a file with a digest of all
/// it depends on: what has changed is made again, nothing else.
#[derive(clap::Args)]
struct RunArgs {
    /// A board file, or the name of a built-in board: quick, full or anchors
    #[arg(default_value = "quick")]
    board: String,
    /// Folder of the board; what is finished there is kept [default: boards/<name>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Do the i-th of n shares of the settings, i from 1; `slurm` takes both from a job array. All
    /// shares can write to one folder
    #[arg(long, value_name = "i/n")]
    shard: Option<Shard>,
    /// Stop after that time as Ctrl-C does: 90s, 55m, 2h, or `slurm`
    #[arg(long, value_name = "TIME")]
    time_limit: Option<TimeLimit>,
    /// The records of the London schools, school.mat, for the board `anchors`: they are not bundled
    #[arg(long, value_name = "FILE")]
    school: Option<PathBuf>,
    /// Check every method in every setting and say what does not go together; run and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    threads: Threads,
    /// List the built-in boards
    #[arg(long, conflicts_with_all = ["print", "out", "shard"])]
    list: bool,
    /// Print the file of a built-in board, to copy and change
    #[arg(long, value_name = "NAME", conflicts_with_all = ["out", "shard"])]
    print: Option<String>,
}

/// Show a board: ranks, figures, and the page with everything
///
/// Writes index.html (one file that works offline), results.csv, ranks.csv, tables.tex and
/// figures/*.svg into the board's folder, and prints the ranks and figures.
#[derive(clap::Args)]
struct ShowArgs {
    /// The folder of a board
    dir: PathBuf,
}

/// Put somebody else's results on a board, marked as claimed and not certified
///
/// The file is a small JSON that any program can write; from Python, a function with the decorator
/// @consenso.benchmark.method writes it. docs/benchmark.md has the format.
#[derive(clap::Args)]
struct AddArgs {
    /// The results, a JSON file
    file: PathBuf,
    /// The folder of the board
    dir: PathBuf,
}

/// Write the records of a board's problems, divided among agents as its experiments divide them
///
/// For those who run a method of their own on the same records: DIR/tasks.json lists every setting
/// and seed with its file, which has `sites` and `test` (rows `x` and labels `y`: -1 and 1 for two
/// classes, their number for several) and the edges of every graph (sender first where links lead
/// one way). It asks for bundled and made-up records only.
#[derive(clap::Args)]
struct ExportArgs {
    /// A board file, the folder of a board, or the name of a built-in board
    board: String,
    /// Folder to write
    dir: PathBuf,
    /// Only these problems, as often as needed
    #[arg(long, value_name = "NAME")]
    problem: Vec<String>,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    match &args.command {
        Command::Run(args) => run(args, json),
        Command::Show(args) => {
            let found = Found::read(&args.dir)?;
            present(&found, &args.dir, json)
        }
        Command::Add(args) => add(args, json),
        Command::Export(args) => export(args, json),
    }
}

/// The file of a board within its folder.
const BOARD: &str = "board.toml";

fn run(args: &RunArgs, json: bool) -> Result<(), Failure> {
    if args.list {
        list(json);
        return Ok(());
    }
    if let Some(name) = &args.print {
        return print(name, json);
    }
    args.threads.start()?;
    let (text, folder) = board_text(&args.board)?;
    let mut board = Board::from_toml(&text, &args.board)?;
    let out = args.out.clone().unwrap_or_else(|| Path::new("boards").join(&board.name));
    if !args.dry_run {
        claim_folder(&out, &board, &text)?;
    }
    needed_files(&mut board, args.school.as_deref(), &out)?;
    let limit = args.time_limit.map(TimeLimit::ends);
    let share = args.shard.map(|shard| shard.0);
    let settings: Vec<usize> = (0..board.settings().len())
        .filter(|&s| share.is_none_or(|share| s as u32 % share.of() == share.index() - 1))
        .collect();
    let runner = Runner::new(&board, &out, &folder, limit)?;
    if args.dry_run {
        return rehearse(&runner, &settings, json);
    }
    let began = Instant::now();
    let validation = board.validation_seeds();
    let tuned = runner.units(&settings, &validation, &Choices::new()).and_then(|()| {
        let choices = runner.choices(&settings)?;
        runner.units(&settings, &board.seeds, &choices)
    });
    runner.bar.finish_and_clear();
    tuned.map_err(Failure::Run)?;
    if runner.watch.cancelled() {
        eprintln!(
            "stopped: finished cells are kept in {}; the same command goes on",
            out.display()
        );
        return Err(Failure::Interrupted);
    }
    eprintln!(
        "{} experiments in {:.0} s, {} were there already",
        runner.made.load(Ordering::Relaxed),
        began.elapsed().as_secs_f64(),
        runner.kept.load(Ordering::Relaxed)
    );
    let found = Found::read(&out)?;
    present(&found, &out, json)
}

/// What goes together: settings checked, and those that a method does not go with, by its reason.
struct Rehearsal {
    settings: usize,
    refusals: BTreeMap<(usize, String), Vec<usize>>,
}

/// Checks every method in these settings, runs nothing, and says what does not go together.
fn rehearse(runner: &Runner<'_>, settings: &[usize], json: bool) -> Result<(), Failure> {
    let Rehearsal { settings: checked, refusals } = runner.rehearsal(settings)?;
    let board = runner.board;
    let share = board.seeds.len() + board.validation_seeds().len();
    let experiments = checked * share;
    if json {
        let one = |((method, reason), at): (&(usize, String), &Vec<usize>)| {
            let settings: Vec<String> =
                at.iter().map(|&s| board.names(board.settings()[s]).join(", ")).collect();
            json!({ "method": board.methods[*method].name, "reason": reason, "settings": settings })
        };
        let refused: Vec<Value> = refusals.iter().map(one).collect();
        output::print_json(&json!({
            "settings": checked, "experiments": experiments, "refused": refused,
        }));
        return Ok(());
    }
    let mut shown = table::plain(&["method", "settings", "goes with"], 1);
    for (m, method) in board.methods.iter().enumerate() {
        let asked = settings
            .iter()
            .filter(|&&s| board.methods_in(board.settings()[s]).any(|other| other == m));
        let (asked, of) = (asked.count(), |key: &&(usize, String)| key.0 == m);
        let refused: usize = refusals.keys().filter(of).map(|key| refusals[key].len()).sum();
        shown.add_row(vec![method.name.clone(), asked.to_string(), (asked - refused).to_string()]);
    }
    output::print(&table::text(&shown));
    for ((method, reason), at) in &refusals {
        let first = board.names(board.settings()[at[0]]).join(", ");
        let more = if at.len() > 1 { ", …" } else { "" };
        output::print(&format!(
            "{}, {} settings: {reason} ({first}{more})",
            board.methods[*method].name,
            at.len()
        ));
    }
    output::print(&format!(
        "\n{experiments} experiments would be made; nothing was run or written"
    ));
    Ok(())
}

/// The text of a board and the folder that its paths start from.
fn board_text(name: &str) -> Result<(String, PathBuf)> {
    if let Some(text) = built_in(name) {
        return Ok((text.to_owned(), PathBuf::new()));
    }
    let text = fs::read_to_string(name).with_context(|| {
        let names: Vec<&str> = BUILT_IN.iter().map(|b| b.0).collect();
        format!(
            "{name}: cannot be read\n  help: give a board file or a built-in board: {}",
            names.join(", ")
        )
    })?;
    let folder = Path::new(name).parent().map(Path::to_path_buf).unwrap_or_default();
    Ok((text, folder))
}

/// Makes the folder, or makes sure that it is this board's.
fn claim_folder(out: &Path, board: &Board, text: &str) -> Result<()> {
    let file = out.join(BOARD);
    if let Ok(before) = fs::read_to_string(&file) {
        let other = Board::from_toml(&before, &file.display().to_string())?;
        if other.name != board.name {
            bail!(
                "{}: the board \"{}\" is there already\n  help: give another folder with --out",
                out.display(),
                other.name
            );
        }
    } else if fs::read_dir(out).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{}: the folder holds something else than a board", out.display());
    }
    write_file(&file, text.as_bytes())
}

/// Where a board's own copies of records that are not bundled lie.
const RECORDS: &str = "records";

/// Opens what a board needs beside itself; a problem whose records are not there is left out.
fn needed_files(board: &mut Board, school: Option<&Path>, out: &Path) -> Result<()> {
    let needs = |problem: &Problem| problem.path() == Some("school.mat");
    let Some(index) = board.problems.iter().position(needs) else {
        if school.is_some() {
            bail!("--school: this board has no problem of the London schools");
        }
        return Ok(());
    };
    let place = out.join(RECORDS);
    let (train, schema) = (place.join("school.csv"), place.join("school-schema.toml"));
    if let Some(path) = school {
        let bytes =
            fs::read(path).with_context(|| format!("{}: cannot be read", path.display()))?;
        let read = school::read(&bytes, &path.display().to_string())?;
        write_file(&train, read.csv.as_bytes())?;
        write_file(&schema, read.schema.as_bytes())?;
    }
    if train.is_file() {
        let problem = &mut board.problems[index];
        let absolute = |path: &Path| std::path::absolute(path).map(|p| p.display().to_string());
        problem.set_data("path", &absolute(&train)?);
        problem.set_data("schema", &absolute(&schema)?);
        return Ok(());
    }
    let name = board.problems[index].name.clone();
    eprintln!(
        "note: {name} is left out: its records are not bundled; `--school school.mat` names them"
    );
    board.leave_out(&name);
    Ok(())
}

/// What tuning chose: parameters by setting and method.
type Choices = BTreeMap<(usize, usize), toml::Table>;

/// A method in an experiment: its index, what a trial adds to its parameters, and its label there.
type Entry = (usize, toml::Table, String);

/// An entry, and the digest of its cell.
type Member<'a> = (&'a Entry, String);

/// Whoever watches the experiments of a board.
struct Watch {
    began: Instant,
    stop: Arc<AtomicBool>,
    limit: Option<Instant>,
}

impl Observer for Watch {
    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn cancelled(&self) -> bool {
        if self.limit.is_some_and(|limit| Instant::now() >= limit) {
            self.stop.store(true, Ordering::Relaxed);
        }
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs the experiments of a board, several side by side.
struct Runner<'a> {
    board: &'a Board,
    out: &'a Path,
    /// Where paths of the board start.
    folder: &'a Path,
    machine: Machine,
    watch: Watch,
    bar: ProgressBar,
    /// Digests of the files of problems that name some.
    files: Vec<String>,
    /// What does not go together, so that it is found out once and not for every seed.
    refusals: Mutex<BTreeMap<(usize, String), String>>,
    made: AtomicUsize,
    kept: AtomicUsize,
}

impl<'a> Runner<'a> {
    fn new(
        board: &'a Board,
        out: &'a Path,
        folder: &'a Path,
        limit: Option<Instant>,
    ) -> Result<Self> {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let template =
            "{spinner} {bar:24} {percent:>3} %  {msg}: {pos}/{len} experiments, {eta} left";
        bar.set_style(
            ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let files = board
            .problems
            .iter()
            .map(|problem| file_digest(problem, folder))
            .collect::<Result<Vec<_>>>()?;
        let watch = Watch { began: Instant::now(), stop: progress::told_to_stop(), limit };
        Ok(Self {
            board,
            out,
            folder,
            machine: machine::look(),
            watch,
            bar,
            files,
            refusals: Mutex::default(),
            made: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
        })
    }

    /// Makes every unit of these settings and seeds.
    fn units(&self, settings: &[usize], seeds: &[u64], choices: &Choices) -> Result<()> {
        self.all(settings, seeds, |setting, seed, threads| {
            self.unit(setting, seed, &self.entries(setting, seed, choices), threads)
        })
    }

    /// Checks every method in these settings, with the parameters that the board gives it.
    fn rehearsal(&self, settings: &[usize]) -> Result<Rehearsal> {
        let found: Mutex<BTreeMap<(usize, String), Vec<usize>>> = Mutex::default();
        self.all(settings, &self.board.seeds[..1], |setting, seed, _| {
            let at = self.board.settings()[setting];
            self.bar.set_message(self.board.names(at)[..3].join(", "));
            let entries = self.entries(setting, seed, &Choices::new());
            let members: Vec<Member<'_>> =
                entries.iter().map(|entry| (entry, String::new())).collect();
            let all: Vec<usize> = entries.iter().map(|entry| entry.0).collect();
            for group in self.board.groups(&all) {
                let of: Vec<&Member<'_>> =
                    members.iter().filter(|(entry, _)| group.contains(&entry.0)).collect();
                self.sound(setting, seed, of, &mut |member, reason| {
                    let reason = self.board.reason(at, &reason);
                    lock(&found).entry((member.0.0, reason)).or_default().push(setting);
                });
            }
            Ok(())
        })?;
        self.bar.finish_and_clear();
        let mut refusals = lock(&found).clone();
        refusals.values_mut().for_each(|at| at.sort_unstable());
        Ok(Rehearsal { settings: settings.len(), refusals })
    }

    /// Does something for these settings and seeds, as many side by side as there are threads.
    ///
    /// Each has threads of its own, one as a rule: experiments of a board are many and small, and
    /// nothing waits for anything. Where fewer are left than there are threads, the last ones have
    /// several.
    fn all(
        &self,
        settings: &[usize],
        seeds: &[u64],
        work: impl Fn(usize, u64, usize) -> Result<()> + Sync,
    ) -> Result<()> {
        // Seed by seed: what does not go together is known before the second one.
        let jobs: Vec<(usize, u64)> =
            seeds.iter().flat_map(|&seed| settings.iter().map(move |&s| (s, seed))).collect();
        self.bar.inc_length(jobs.len() as u64);
        let threads = self.machine.threads.max(1);
        let next = AtomicUsize::new(0);
        let failure: Mutex<Option<anyhow::Error>> = Mutex::new(None);
        let worker = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(&(setting, seed)) = jobs.get(at) else { return };
                if self.watch.cancelled() || lock(&failure).is_some() {
                    return;
                }
                let own = (threads / (jobs.len() - at)).max(1);
                let made = rayon::ThreadPoolBuilder::new()
                    .num_threads(own)
                    .build()
                    .context("threads")
                    .and_then(|pool| pool.install(|| work(setting, seed, own)));
                if let Err(error) = made {
                    lock(&failure).get_or_insert(error);
                }
                self.bar.inc(1);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads.min(jobs.len()) {
                scope.spawn(worker);
            }
        });
        let failed = lock(&failure).take();
        failed.map_or(Ok(()), Err)
    }

    /// What is run in a setting: every method as it was tuned, or, on validation seeds, every
    /// trial of it.
    fn entries(&self, setting: usize, seed: u64, choices: &Choices) -> Vec<Entry> {
        let at = self.board.settings()[setting];
        let trials = match self.board.tuning {
            Tuning::Trials { trials, .. } if !self.board.seeds.contains(&seed) => Some(trials),
            _ => None,
        };
        let mut entries = Vec::new();
        for method in self.board.methods_in(at) {
            let name = &self.board.methods[method].name;
            match trials {
                Some(most) => {
                    for (k, trial) in
                        self.board.methods[method].trials(most).into_iter().enumerate()
                    {
                        entries.push((method, trial, trial_label(name, k)));
                    }
                }
                None => {
                    let chosen = choices.get(&(setting, method)).cloned().unwrap_or_default();
                    entries.push((method, chosen, name.clone()));
                }
            }
        }
        entries
    }

    /// Makes one unit, or what is missing of it.
    fn unit(&self, setting: usize, seed: u64, entries: &[Entry], threads: usize) -> Result<()> {
        let at = self.board.settings()[setting];
        self.bar.set_message(self.board.names(at)[..3].join(", "));
        let path = self.out.join(cell::file(self.board, at, seed));
        let before = read_unit(&path);
        let mut unit = Unit::empty(self.board, at, seed);
        let mut missing = Vec::new();
        for entry in entries {
            let digest = self.digest(at, seed, entry);
            let kept = before.as_ref().and_then(|unit| {
                unit.cells.iter().find(|c| c.method == entry.2 && c.digest == digest)
            });
            match kept {
                Some(cell) => unit.cells.push(cell.clone()),
                None => missing.push((entry, digest)),
            }
        }
        if missing.is_empty() {
            self.kept.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        unit.baselines = before.map(|unit| unit.baselines).unwrap_or_default();
        let indices: Vec<usize> = missing.iter().map(|(entry, _)| entry.0).collect();
        let mut unique = indices.clone();
        unique.dedup();
        for group in self.board.groups(&unique) {
            let members: Vec<&Member<'_>> =
                missing.iter().filter(|(entry, _)| group.contains(&entry.0)).collect();
            if !self.group(setting, seed, &members, &mut unit, threads)? {
                return Ok(()); // stopped: what is not finished is not written
            }
        }
        let place = |cell: &Cell| entries.iter().position(|e| e.2 == cell.method);
        unit.cells.sort_by_key(place);
        let text = serde_json::to_string_pretty(&unit).context("a cell")?;
        write_file(&path, text.as_bytes())?;
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Runs methods that can share an experiment; whether they were run to the end.
    fn group(
        &self,
        setting: usize,
        seed: u64,
        members: &[&Member<'_>],
        unit: &mut Unit,
        threads: usize,
    ) -> Result<bool> {
        let mut open: Vec<&Member<'_>> = Vec::new();
        let refuse = |unit: &mut Unit, member: &Member<'_>, reason: String| {
            let (method, digest) = (member.0.2.clone(), member.1.clone());
            unit.cells.push(Cell { method, digest, refused: Some(reason), outcome: None });
        };
        for member in members {
            let known = lock(&self.refusals).get(&(setting, member.0.2.clone())).cloned();
            match known {
                Some(reason) => refuse(unit, member, reason),
                None => open.push(member),
            }
        }
        let found = self.sound(setting, seed, open, &mut |member, reason| {
            let key = (setting, member.0.2.clone());
            lock(&self.refusals).insert(key, reason.clone());
            refuse(unit, member, reason);
        });
        let Some((experiment, open)) = found else { return Ok(true) };
        let share = |bytes: u64| bytes / self.machine.threads.max(1) as u64;
        let machine = Machine {
            threads,
            shared_cache: share(self.machine.shared_cache),
            memory: self.machine.memory.map(share),
        };
        let job = Job { machine, ..Job::default() };
        let (pieces, stopped) = match experiment::run_pieces(&experiment, job, &self.watch) {
            Ok(made) => made,
            Err(error) => {
                for member in open {
                    refuse(unit, member, error.to_string());
                }
                return Ok(true);
            }
        };
        if stopped {
            return Ok(false);
        }
        let record = experiment::put_together(&experiment, pieces, false).record;
        unit.compare(&record);
        for member in open {
            let outcome = self.outcome(&experiment, &record, member.0);
            let refused = outcome.is_none().then(|| "the run gave no result of it".to_owned());
            let (method, digest) = (member.0.2.clone(), member.1.clone());
            unit.cells.push(Cell { method, digest, refused, outcome });
        }
        Ok(true)
    }

    /// The experiment of those who go together with a setting, and who they are; `refuse` is told
    /// why the others do not.
    fn sound<'m>(
        &self,
        setting: usize,
        seed: u64,
        members: Vec<&'m Member<'m>>,
        refuse: &mut dyn FnMut(&Member<'_>, String),
    ) -> Option<(Experiment, Vec<&'m Member<'m>>)> {
        let at = self.board.settings()[setting];
        let (&first, others) = members.split_first()?;
        match self.check(at, seed, &members) {
            Ok(experiment) => return Some((experiment, members)),
            Err(error) if others.is_empty() => {
                refuse(first, reason(&error));
                return None;
            }
            Err(_) => {}
        }
        // Who is it? Each alone; the others go on together.
        let alone = |member: &&'m Member<'m>| match self.check(at, seed, &[member]) {
            Ok(_) => true,
            Err(error) => {
                refuse(member, reason(&error));
                false
            }
        };
        let sound: Vec<_> = members.into_iter().filter(alone).collect();
        if sound.is_empty() {
            return None;
        }
        match self.check(at, seed, &sound) {
            Ok(experiment) => Some((experiment, sound)),
            Err(error) => {
                sound.into_iter().for_each(|member| refuse(member, reason(&error)));
                None
            }
        }
    }

    fn outcome(&self, experiment: &Experiment, record: &Record, entry: &Entry) -> Option<Outcome> {
        let algorithm = record.algorithms.iter().find(|a| a.label == entry.2)?;
        let personal = self.board.methods[entry.0].personal;
        let mut outcome = Outcome::of(experiment, record, algorithm, personal);
        if !matches!(self.board.tuning, Tuning::None) {
            outcome.tuned = serde_json::to_value(&entry.1).ok();
        }
        Some(outcome)
    }

    fn check(&self, at: Setting, seed: u64, members: &[&Member<'_>]) -> Result<Experiment> {
        let methods: Vec<(usize, &toml::Table, String)> =
            members.iter().map(|(entry, _)| (entry.0, &entry.1, entry.2.clone())).collect();
        let text = self.board.experiment(at, seed, &methods);
        let file = self.board.names(at).join(", ");
        let spec = ExperimentSpec::from_toml(&text, &file)?;
        let text = files::Text { file, text, folder: self.folder.to_path_buf() };
        Ok(Experiment::check(files::inputs(text, spec, None)?)?)
    }

    /// What a cell is a function of.
    fn digest(&self, at: Setting, seed: u64, entry: &Entry) -> String {
        let alone = [(entry.0, &entry.1, entry.2.clone())];
        fingerprint(&format!(
            "{} {}\n{}",
            env!("CARGO_PKG_VERSION"),
            self.files[at.problem],
            self.board.experiment(at, seed, &alone)
        ))
    }

    /// The best trial of every method in every setting: the smallest objective on the training
    /// records, mean over validation seeds. Test records are not looked at.
    fn choices(&self, settings: &[usize]) -> Result<Choices> {
        let mut choices = Choices::new();
        let Tuning::Trials { trials, .. } = self.board.tuning else { return Ok(choices) };
        if self.watch.cancelled() {
            return Ok(choices);
        }
        for &setting in settings {
            let at = self.board.settings()[setting];
            let units: Vec<Unit> = self
                .board
                .validation_seeds()
                .iter()
                .filter_map(|&seed| read_unit(&self.out.join(cell::file(self.board, at, seed))))
                .collect();
            for method in self.board.methods_in(at) {
                let best = best_trial(&self.board.methods[method], &units, trials);
                choices.insert((setting, method), best);
            }
        }
        Ok(choices)
    }
}

/// What a trial is called in its experiment.
fn trial_label(method: &str, trial: usize) -> String {
    format!("{method}, trial {}", trial + 1)
}

fn best_trial(method: &Method, units: &[Unit], most: u32) -> toml::Table {
    let trials = method.trials(most);
    let mean = |k: usize| -> f64 {
        let label = trial_label(&method.name, k);
        let objective = |unit: &Unit| {
            let cell = unit.cells.iter().find(|c| c.method == label)?;
            let outcome = cell.outcome.as_ref().filter(|o| !o.diverged)?;
            outcome.objective
        };
        let all: Option<Vec<f64>> = units.iter().map(objective).collect();
        let all = all.filter(|all| !all.is_empty());
        all.map_or(f64::INFINITY, |all| all.iter().sum::<f64>() / all.len() as f64)
    };
    let best = (0..trials.len()).map(|k| (mean(k), k)).min_by(|a, b| a.0.total_cmp(&b.0));
    best.and_then(|(_, k)| trials.into_iter().nth(k)).unwrap_or_default()
}

/// Why something is refused, in one line.
fn reason(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// A digest of the files that a problem names.
fn file_digest(problem: &Problem, folder: &Path) -> Result<String> {
    let Some(pattern) = problem.path() else { return Ok(String::new()) };
    let mut all = String::new();
    for path in files::expand(folder, pattern)? {
        let text =
            fs::read(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
        all += &fingerprint(&String::from_utf8_lossy(&text));
    }
    Ok(all)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A unit that is there and whole.
fn read_unit(path: &Path) -> Option<Unit> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a file beside the one that was there and moves it to its place.
fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        // Two shares may write the same page at the same time.
        let beside = path.with_extension(format!("{}.new", std::process::id()));
        fs::write(&beside, bytes)?;
        fs::rename(&beside, path)
    };
    write().with_context(|| format!("{}: cannot be written", path.display()))
}

/// A board's folder, read.
struct Found {
    board: Board,
    units: Vec<Unit>,
    claimed: Vec<Claimed>,
}

impl Found {
    fn read(dir: &Path) -> Result<Self> {
        let file = dir.join(BOARD);
        let text = fs::read_to_string(&file).with_context(|| {
            format!(
                "{}: this is no folder of a board\n  help: `consenso benchmark run` makes one",
                dir.display()
            )
        })?;
        let mut board = Board::from_toml(&text, &file.display().to_string())?;
        // A problem whose records were never given is not on the page.
        if !dir.join(RECORDS).join("school.csv").is_file() {
            let missing = board.problems.iter().find(|p| p.path() == Some("school.mat"));
            if let Some(name) = missing.map(|p| p.name.clone()) {
                board.leave_out(&name);
            }
        }
        let mut units = Vec::new();
        for &setting in board.settings() {
            for &seed in &board.seeds {
                units.extend(read_unit(&dir.join(cell::file(&board, setting, seed))));
            }
        }
        let mut claimed = Vec::new();
        let mut files: Vec<PathBuf> = fs::read_dir(dir.join(CLAIMED))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "json"))
            .collect();
        files.sort();
        for path in files {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("{}: cannot be read", path.display()))?;
            claimed.push(Claimed::read(&text, &path.display().to_string(), &board)?);
        }
        Ok(Self { board, units, claimed })
    }

    fn results(&self) -> Results<'_> {
        Results::new(&self.board, &self.units, self.claimed.clone())
    }
}

/// Where claimed results lie in the folder of a board.
const CLAIMED: &str = "claimed";

fn add(args: &AddArgs, json: bool) -> Result<(), Failure> {
    let found = Found::read(&args.dir)?;
    let shown = args.file.display().to_string();
    let text =
        fs::read_to_string(&args.file).with_context(|| format!("{shown}: cannot be read"))?;
    let claimed = Claimed::read(&text, &shown, &found.board)?;
    let place = args.dir.join(CLAIMED).join(format!("{}.json", cell::stem(&claimed.method)));
    let replaced = place.is_file();
    write_file(&place, text.as_bytes())?;
    let words = if replaced { "replaced" } else { "added" };
    eprintln!(
        "{}: {} results {words}, as claimed and not certified",
        claimed.method,
        claimed.results.len()
    );
    let found = Found::read(&args.dir)?;
    present(&found, &args.dir, json)
}

fn export(args: &ExportArgs, json: bool) -> Result<(), Failure> {
    let within = Path::new(&args.board).join(BOARD);
    let name = if within.is_file() { within.display().to_string() } else { args.board.clone() };
    let (text, folder) = board_text(&name)?;
    let board = Board::from_toml(&text, &name)?;
    let unknown = args.problem.iter().find(|n| board.problems.iter().all(|p| p.name != **n));
    if let Some(unknown) = unknown {
        return Err(anyhow!("--problem {unknown}: the board has no such problem").into());
    }
    let wanted = |p: usize| {
        let problem = &board.problems[p];
        problem.path().is_none()
            && (args.problem.is_empty() || args.problem.contains(&problem.name))
    };
    let mut tasks = Vec::new();
    let mut written = BTreeMap::<(usize, u64), (String, Value)>::new();
    for &setting in board.settings().iter().filter(|s| wanted(s.problem)) {
        let problem = &board.problems[setting.problem];
        for &seed in &board.seeds {
            let file = format!("{}-seed-{seed}.json", cell::stem(&problem.name));
            let graph = &board.graphs[setting.graph].name;
            let known =
                written.entry((setting.problem, seed)).or_insert((file.clone(), Value::Null));
            if known.1["edges"].get(graph).is_none() {
                divide(&board, setting, seed, &folder, graph, &mut known.1)?;
            }
            tasks.push(json!({
                "problem": problem.name, "graph": graph, "epsilon": setting.epsilon, "seed": seed,
                "condition": board.conditions[setting.condition].name,
                "conditions": board.condition_keys(setting.condition),
                "delta": setting.epsilon.map(|_| problem.delta),
                "measure": problem.measure.figure, "file": file,
            }));
        }
    }
    for (file, value) in written.into_values() {
        write_file(&args.dir.join(file), value.to_string().as_bytes()).map_err(Failure::Run)?;
    }
    let list = json!({ "format": "consenso-board-tasks-1", "board": board.name, "tasks": tasks });
    let place = args.dir.join("tasks.json");
    write_file(&place, format!("{list:#}").as_bytes()).map_err(Failure::Run)?;
    if json {
        output::print_json(&json!({ "tasks": tasks.len(), "out": args.dir }));
    } else {
        output::print(&format!("{} tasks in {}", tasks.len(), place.display()));
    }
    Ok(())
}

/// The records of a setting as its agents have them, and the edges of its graph.
fn divide(
    board: &Board,
    setting: Setting,
    seed: u64,
    folder: &Path,
    graph: &str,
    into: &mut Value,
) -> Result<()> {
    let (text, file) = (board.division(setting, seed), board.names(setting).join(", "));
    let spec = ExperimentSpec::from_toml(&text, &file)?;
    let text = files::Text { file, text, folder: folder.to_path_buf() };
    let experiment = Experiment::check(files::inputs(text, spec, None)?)?;
    let rows = |records: &Records| {
        let mut x = vec![vec![0.0; records.dim()]; records.len()];
        for (row, x) in x.iter_mut().enumerate() {
            for (column, value) in records.entries(row) {
                x[column as usize] = value;
            }
        }
        json!({ "x": x, "y": records.labels() })
    };
    if into.is_null() {
        let locals = experiment.locals(0)?;
        let sites: Vec<Value> =
            locals.iter().filter_map(|l| Some(rows(l.mean_loss()?.records()))).collect();
        let test = experiment.test_records(0).map(|test| rows(&test));
        let objective = &experiment.spec().objective;
        *into = json!({
            "sites": sites, "test": test, "loss": objective.loss,
            "regularization": objective.regularization, "edges": {},
        });
    }
    into["edges"][graph] = json!(edges(experiment.graph()));
    Ok(())
}

/// The edges of a graph, each once; where links lead one way, every link of any round, sender first.
fn edges(graph: &Graph) -> Vec<(usize, usize)> {
    let agents = 0..graph.agents();
    let mut edges: Vec<(usize, usize)> = match graph.directed() {
        None => agents
            .flat_map(|a| graph.neighbours(a).iter().map(move |&b| (a, b as usize)))
            .filter(|(a, b)| a < b)
            .collect(),
        Some(links) => (0..links.period() as u32)
            .flat_map(|round| agents.clone().map(move |to| (round, to)))
            .flat_map(|(round, to)| {
                links.at(round).senders(to).iter().map(move |&a| (a as usize, to))
            })
            .collect(),
    };
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// Writes the page and its tables, and prints what they say.
fn present(found: &Found, dir: &Path, json: bool) -> Result<(), Failure> {
    let results = found.results();
    if results.rows.is_empty() {
        return Err(Failure::Input(anyhow!(
            "{}: no cell is finished yet\n  help: `consenso benchmark run … --out {0}` makes them",
            dir.display()
        )));
    }
    for (name, text) in show::files(&results) {
        write_file(&dir.join(name), text.as_bytes()).map_err(Failure::Run)?;
    }
    let page = dir.join("index.html");
    if json {
        let mut value = show::summary(&results);
        value["out"] = json!(dir);
        value["page"] = json!(page);
        output::print_json(&value);
        return Ok(());
    }
    let (there, asked) = results.units;
    if there < asked {
        output::print(&format!(
            "{there} of {asked} experiments are there: not the whole board yet\n"
        ));
    }
    for part in show::terminal(&results) {
        let mut header: Vec<&str> = vec![&part.columns[0]];
        header.extend(part.columns[1..].iter().map(String::as_str));
        let mut shown = table::plain(&header, 1);
        for row in &part.rows {
            shown.add_row(row);
        }
        output::print(&format!("{}\n{}", part.title, table::text(&shown)));
        for note in &part.notes {
            output::print(note);
        }
        output::print("");
    }
    output::print(&format!("the page: {}", page.display()));
    Ok(())
}

fn list(json: bool) {
    if json {
        let entry = |b: &(&str, &str, &str)| json!({ "name": b.0, "about": b.1 });
        let boards: Vec<Value> = BUILT_IN.iter().map(entry).collect();
        output::print_json(&json!({ "boards": boards }));
        return;
    }
    let width = BUILT_IN.iter().map(|b| b.0.len()).max().unwrap_or(0);
    for (name, about, _) in BUILT_IN {
        output::print(&format!("{name:width$}  {about}"));
    }
}

fn print(name: &str, json: bool) -> Result<(), Failure> {
    let text = built_in(name).with_context(|| {
        let names: Vec<&str> = BUILT_IN.iter().map(|b| b.0).collect();
        format!("--print {name}: there is no such built-in board; there are {}", names.join(", "))
    })?;
    if json {
        output::print_json(&json!({ "name": name, "toml": text }));
    } else {
        output::print(text);
    }
    Ok(())
}
