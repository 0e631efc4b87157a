//! `mpirun -n R consenso run`, one simulation over several processes, and `consenso run --stream`,
//! one beyond the memory of a machine.

use crate::files::Outline;
use crate::folder::{self, RunFolder};
use crate::pieces::{self, CheckpointInterval};
use crate::{Failure, machine, output, run, table};
use anyhow::{Context as _, Result, bail};
use consenso_engine::data::Scratch;
use consenso_engine::experiment::{
    self, AfterRound, CallerError, Experiment, LargeOutcome, LargeProgress, LargeRecord, LargeRun,
    Part, Place, RankObserver,
};
use consenso_engine::record::ResultKind;
use consenso_engine::simulate::{Ranks, SingleRank};
use consenso_study::scratch::ScratchFolder;
use serde_json::json;
use std::cell::OnceCell;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How such a simulation is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// How often it is written down how far it is; 0 rounds is never.
    pub(crate) every: CheckpointInterval,
    /// When it stops by itself.
    pub(crate) limit: Option<Instant>,
    pub(crate) resume: bool,
    /// Holds no records.
    pub(crate) streamed: bool,
    pub(crate) json: bool,
}

impl How {
    /// Whether checkpoints are to be expected.
    fn saves(&self) -> bool {
        self.every != CheckpointInterval::Rounds(0) || self.limit.is_some() || self.resume
    }
}

/// Joins the other processes, if `mpirun` started any, reads what this one needs and does its
/// share; rank 0 writes and prints.
pub(crate) fn command(
    how: How,
    prepare: impl FnOnce(&mut dyn Ranks) -> Result<(Experiment, RunFolder), Failure>,
) -> Result<(), Failure> {
    let work = |ranks: &mut dyn Ranks| {
        let (experiment, folder) = prepare(ranks)?;
        share(&experiment, &folder, how, ranks)
    };
    #[cfg(feature = "mpi")]
    if consenso_mpi::launched().is_some() {
        let mut mpi = consenso_mpi::Mpi::join().map_err(|error| Failure::Run(error.into()))?;
        let done = work(&mut mpi);
        if let Err(Failure::Input(error) | Failure::Run(error)) = &done {
            // The others would wait for ever.
            mpi.abort(&format!("error: {error:#}"));
        }
        return done;
    }
    work(&mut SingleRank)
}

fn share(
    experiment: &Experiment,
    folder: &RunFolder,
    how: How,
    ranks: &mut dyn Ranks,
) -> Result<(), Failure> {
    // Before anything is said of a run that cannot be.
    experiment.check_parted().map_err(|error| Failure::Run(error.into()))?;
    if how.streamed {
        say(experiment, folder, how, ranks).map_err(Failure::Run)?;
    }
    let finished = simulate(experiment, folder, how, ranks).map_err(Failure::Run)?;
    if finished { Ok(()) } else { Err(Failure::Interrupted) }
}

/// Does this process's share; says whether it was done to the end.
fn simulate(
    experiment: &Experiment,
    folder: &RunFolder,
    how: How,
    ranks: &mut dyn Ranks,
) -> Result<bool> {
    let saved = Checkpoints {
        folder: folder.checkpoints(),
        experiment,
        stamp: OnceCell::new(),
        rank: ranks.rank(),
        ranks: ranks.ranks(),
    };
    let (slot, from) = if how.resume { saved.agreed(ranks)? } else { (0, None) };
    if let (Some(progress), 0) = (&from, ranks.rank()) {
        let (runs, round) = progress.place();
        eprintln!("going on: {runs} runs are done, the next is at round {round}");
    }
    let began = Instant::now();
    let mut watch = PeriodicSaver::new(&saved, how, slot);
    match experiment::run_watched(experiment, ranks, how.streamed, from, &mut watch)? {
        LargeOutcome::Done(record) => {
            if let Some(record) = record {
                finish(experiment, folder, &record, (began.elapsed().as_secs_f64(), how.json))?;
            }
            together(ranks)?;
            saved.remove();
            Ok(true)
        }
        LargeOutcome::Stopped { runs, round } => {
            together(ranks)?;
            if ranks.rank() == 0 {
                let why = if watch.over() { "the time limit is near" } else { "told to stop" };
                eprintln!(
                    "{why}: {runs} runs are done, and {round} rounds of the next, which are kept in {}; the same command with --resume{} goes on",
                    saved.folder.display(),
                    if ranks.ranks() > 1 {
                        format!(", on {} processes again,", ranks.ranks())
                    } else {
                        String::new()
                    }
                );
            }
            Ok(false)
        }
    }
}

/// Waits until everybody is here: nobody leaves, or takes away what somebody may still need,
/// before.
fn together(ranks: &mut dyn Ranks) -> Result<()> {
    ranks.sent_to_first(vec![0.0], &vec![1; ranks.ranks()])?;
    ranks.sent_by_first(vec![0.0], 1)?;
    Ok(())
}

/// Saves a simulation from time to time, and stops it when somebody says so or its time is up.
struct PeriodicSaver<'a> {
    saved: &'a Checkpoints<'a>,
    how: How,
    /// Where the last state is.
    slot: u32,
    stop: Arc<AtomicBool>,
    asked: Option<Instant>,
    /// Rounds since then.
    rounds: u32,
    /// The longest time between two questions.
    longest: Duration,
    written: Instant,
    /// How long writing takes.
    writing: Duration,
}

/// How often processes ask each other, if rounds are short.
const ASKS: Duration = Duration::from_millis(200);

impl<'a> PeriodicSaver<'a> {
    fn new(saved: &'a Checkpoints<'a>, how: How, slot: u32) -> Self {
        let (stop, written) = (crate::progress::told_to_stop(), Instant::now());
        let (longest, writing) = (Duration::ZERO, Duration::ZERO);
        Self { saved, how, slot, stop, asked: None, rounds: 1, longest, written, writing }
    }

    /// Whether there may not be time for as many rounds as before and for saving.
    fn over(&self) -> bool {
        let needed = self.longest + self.longest / 2 + 2 * self.writing;
        self.how.limit.is_some_and(|limit| Instant::now() + needed >= limit)
    }
}

impl RankObserver for PeriodicSaver<'_> {
    fn save(&mut self, progress: &LargeProgress) -> Result<(), CallerError> {
        let began = Instant::now();
        self.slot = 1 - self.slot;
        self.saved.save(progress, self.slot)?;
        self.written = Instant::now();
        self.writing = self.writing.max(began.elapsed());
        Ok(())
    }

    fn every(&self) -> u32 {
        match self.how.every {
            CheckpointInterval::Rounds(rounds) => rounds,
            CheckpointInterval::Time(_) => 0,
        }
    }

    fn asks(&self) -> bool {
        true
    }

    fn told(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// By the clock of rank 0: the others' need not agree with it.
    fn decide(&mut self, told: bool) -> (AfterRound, u32) {
        // The first round has all that comes before it.
        let passed = self.asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        self.longest = self.longest.max(passed);
        let each = passed.as_secs_f64() / f64::from(self.rounds);
        // Not many more at once than last time, for the first rounds may be the shortest.
        let rounds = (ASKS.as_secs_f64() / each.max(1e-9)).min(2.0 * f64::from(self.rounds));
        (self.asked, self.rounds) = (Some(Instant::now()), (rounds as u32).max(1));
        let due = matches!(self.how.every, CheckpointInterval::Time(time) if self.written.elapsed() >= time);
        let order = match (told || self.over(), due) {
            (true, _) => AfterRound::Stop,
            (_, true) => AfterRound::Save,
            _ => AfterRound::GoOn,
        };
        (order, self.rounds)
    }
}

/// What happens before records are kept outside memory: it is said what that takes, and refused if
/// there is no room for it.
pub(crate) fn before_storing(
    folder: &Path,
    outline: &Outline,
    first: bool,
) -> Result<(), CallerError> {
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let needed = outline.bytes * if outline.again == Some(true) { 2 } else { 1 };
    let free = machine::free_disk(folder);
    let room = free.map_or_else(|| "an unknown amount".into(), gigabytes);
    if free.is_some_and(|free| needed > free) {
        return Err(format!(
            "{}: the encoded records need about {} of disk, and {room} are free\n  help: give a folder on a larger disk with --out, or run without --stream if they fit into memory",
            folder.display(),
            gigabytes(needed)
        )
        .into());
    }
    if first {
        let again = match outline.again {
            Some(true) => ", once in the order of the files and once agent by agent",
            Some(false) => "",
            None => ", and as much again if the records of a group do not lie together",
        };
        eprintln!(
            "disk: about {} records are {} of encoded rows in {}{again}; {room} free. Nobody else may open them, and they are removed at the end",
            outline.rows,
            gigabytes(needed),
            folder.display()
        );
    }
    Ok(())
}

/// Opens the place for records outside memory, of one process among several. What processes left
/// there that were killed goes.
pub(crate) fn scratch(
    folder: &Path,
    (rank, ranks): (usize, usize),
) -> Result<Arc<dyn Scratch>, CallerError> {
    let failed = |e: std::io::Error| format!("{}: cannot be made: {e}", folder.display());
    Ok(Arc::new(ScratchFolder::new(folder, rank, ranks).map_err(failed)?))
}

/// Says what a streamed run does and how much memory it takes; refuses one that does not fit.
fn say(experiment: &Experiment, folder: &RunFolder, how: How, ranks: &dyn Ranks) -> Result<()> {
    let memory = experiment.streamed_memory(ranks.ranks(), how.saves());
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let machine = machine::look();
    let free = machine.memory.map_or_else(|| "an unknown amount".into(), gigabytes);
    if machine.memory.is_some_and(|free| memory > free) {
        bail!(
            "streamed, this run needs about {} of memory in each process, and {free} are free\n  help: use fewer agents or dimensions, or more machines (mpirun)",
            gigabytes(memory)
        );
    }
    let scratch = experiment.scratch_bytes();
    let (again, room) = (scratch.map_or(0, |s| s.1), machine::free_disk(&folder.scratch()));
    if let Some(room) = room.filter(|&room| again > room) {
        bail!(
            "the records of agents do not lie together: writing them agent by agent needs {} of disk, and {} are free\n  help: give a folder on a larger disk with --out",
            gigabytes(again),
            gigabytes(room)
        );
    }
    if ranks.rank() == 0 {
        let records = match (experiment.spec().data.dim, scratch) {
            (Some(_), _) => "made anew from the seed in every round".to_owned(),
            (_, Some((bytes, again))) => {
                format!("read in every round from {} on disk", gigabytes(bytes.max(again)))
            }
            _ => "looked up in every round among those in memory".to_owned(),
        };
        let agents = experiment.facts().agents;
        eprintln!(
            "streaming: of {agents} agents none is held; its records are {records}. Curves have the mean model only, and there is no optimum and no reference."
        );
        eprintln!("memory: about {} in each process, {free} free", gigabytes(memory));
    }
    Ok(())
}

/// Writes the folder that a run in one process has, and prints what it gave.
fn finish(
    experiment: &Experiment,
    folder: &RunFolder,
    large: &LargeRecord,
    (seconds, json): (f64, bool),
) -> Result<()> {
    let mut finished = large.finished(experiment, seconds);
    let models = folder::name_models(experiment, &mut finished);
    let record = &finished.record;
    let out = folder.write(|path| folder::write_record(path, record, &models, None))?;
    if json {
        let mut value = run::summary(record, Some(&out));
        (value["agents"], value["dim"]) = (json!(large.agents), json!(large.dim));
        (value["ranks"], value["seconds"]) = (json!(large.ranks), json!(seconds));
        (value["halo_rows"], value["halo_bytes"]) =
            (json!(large.halo_rows), json!(large.halo_bytes));
        for (index, algorithm) in large.algorithms.iter().enumerate() {
            let run = |r: &LargeRun| json!({ "run": r.run, "transcript": r.transcript, "objective": r.objective, "test_accuracy": r.test_accuracy });
            value["algorithms"][index]["runs"] = algorithm.runs.iter().map(run).collect();
        }
        output::print_json(&value);
        return Ok(());
    }
    let LargeRecord { agents, dim, ranks, halo_rows, halo_bytes, .. } = large;
    let mut text = format!(
        "{agents} agents, d = {dim}, on {ranks} process{}; {halo_rows} rows ({halo_bytes} bytes) cross between them in a round\n",
        if *ranks == 1 { "" } else { "es" }
    );
    for algorithm in &large.algorithms {
        for run in &algorithm.runs {
            let hash = run.transcript.get(..16).unwrap_or_default();
            let _ = writeln!(text, "{}, run {}: transcript {hash}", algorithm.label, run.run);
        }
    }
    if record.kind == ResultKind::Seeded {
        text += "noise from a seed protects nobody: keep this folder like the records\n";
    }
    output::print(&table::summary(record, output::columns()));
    output::print(&format!("{text}{seconds:.1} s, written to {}", out.display()));
    Ok(())
}

/// What ranks have saved: two states each, so that one is whole whenever the job ends.
struct Checkpoints<'a> {
    folder: PathBuf,
    experiment: &'a Experiment,
    /// Of the experiment and its records, which have to be read for it.
    stamp: OnceCell<String>,
    rank: usize,
    ranks: usize,
}

impl Checkpoints<'_> {
    fn file(&self, slot: u32) -> PathBuf {
        self.folder.join(format!("rank-{}-of-{}-{slot}.bin", self.rank, self.ranks))
    }

    fn stamp(&self) -> Result<&str> {
        if self.stamp.get().is_none() {
            let first = Place { point: 0, run: 0, part: Part::RunReferences };
            let records = self.experiment.records_digest();
            let stamp = self.experiment.stamp(&records, first).context("the experiment")?;
            let _ = self.stamp.set(stamp);
        }
        Ok(self.stamp.get().map_or("", String::as_str))
    }

    fn save(&self, progress: &LargeProgress, slot: u32) -> Result<()> {
        let stamp = self.stamp()?;
        pieces::private_folder(&self.folder)?;
        pieces::keep(&self.file(slot), &(stamp, progress))
    }

    /// What fits, with where it is.
    fn load(&self) -> Vec<(u32, LargeProgress)> {
        let one = |slot| {
            let (stamp, progress): (String, LargeProgress) = pieces::kept(&self.file(slot))?;
            self.stamp().is_ok_and(|mine| mine == stamp).then_some((slot, progress))
        };
        (0..2).filter_map(one).collect()
    }

    /// How many processes saved what is here, if it were not as many as there are now.
    fn others(&self) -> Option<usize> {
        let names = fs::read_dir(&self.folder)
            .ok()?
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok());
        let of = |name: String| name.split_once("-of-")?.1.split('-').next()?.parse().ok();
        let all: Vec<usize> = names.filter_map(of).collect();
        all.iter().all(|&ranks| ranks != self.ranks).then(|| all.first().copied())?
    }

    /// The latest state that every rank has, and where it is: the next one must not be written over
    /// it.
    fn agreed(&self, ranks: &mut dyn Ranks) -> Result<(u32, Option<LargeProgress>)> {
        if let Some(others) = self.others() {
            bail!(
                "{}: was saved by {others} process{}, and there are {} now\n  help: start as many as then, or leave --resume away to begin anew",
                self.folder.display(),
                if others == 1 { "" } else { "es" },
                self.ranks
            );
        }
        let mut mine = self.load();
        let code = |p: &LargeProgress| f64::from(p.place().0) * 4e9 + f64::from(p.place().1);
        let mut codes: Vec<f64> = mine.iter().map(|(_, p)| code(p)).collect();
        codes.resize(2, -1.0);
        let all = ranks.sent_to_first(codes, &vec![2; self.ranks])?;
        let common = all.first().map_or(-1.0, |first| {
            let everywhere =
                first.iter().copied().filter(|c| all.iter().all(|other| other.contains(c)));
            everywhere.fold(-1.0, f64::max)
        });
        let agreed = ranks.sent_by_first(vec![common], 1)?;
        let place = mine.iter().position(|(_, p)| agreed.first() == Some(&code(p)));
        let (slot, progress) = place.map(|place| mine.swap_remove(place)).unzip();
        Ok((slot.unwrap_or(0), progress))
    }

    fn remove(&self) {
        for slot in 0..2 {
            let _ = fs::remove_file(self.file(slot));
        }
        // The last one to leave takes the folder away.
        let _ = fs::remove_dir(&self.folder);
    }
}
