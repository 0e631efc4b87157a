//! `mpirun -n R consenso run`, one simulation over several processes, and `consenso run --stream`, one beyond the memory of a machine.

use crate::Failure;
use crate::folder::{self, RunFolder};
use crate::output;
use anyhow::{Context as _, Result, bail};
use consenso_engine::experiment::{self, Experiment, LargeProgress, LargeRecord, Part, Place};
use consenso_engine::record::ResultKind;
use consenso_engine::simulate::{Alone, Ranks};
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// How such a simulation is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// Rounds between two checkpoints; 0 is never.
    pub(crate) every: u32,
    pub(crate) resume: bool,
    /// Holds no records.
    pub(crate) streamed: bool,
    pub(crate) json: bool,
}

/// Joins the other processes, if `mpirun` started any, reads what this one needs and does its share; rank 0 writes and prints.
pub(crate) fn command(
    how: How,
    prepare: impl FnOnce(&mut dyn Ranks) -> Result<(Experiment, RunFolder), Failure>,
) -> Result<(), Failure> {
    let work = |ranks: &mut dyn Ranks| {
        let (experiment, folder) = prepare(ranks)?;
        share(&experiment, &folder, how, ranks).map_err(Failure::Run)
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
    work(&mut Alone)
}

fn share(experiment: &Experiment, folder: &RunFolder, how: How, ranks: &mut dyn Ranks) -> Result<()> {
    // Before anything is said of a run that cannot be.
    experiment.check_parted()?;
    if how.streamed {
        say(experiment, how, ranks)?;
    }
    let first = Place { point: 0, run: 0, part: Part::Grounds };
    let stamp = match how.every > 0 || how.resume {
        true => experiment.stamp(&experiment.records_digest(), first).context("the experiment")?,
        false => String::new(),
    };
    let saved = Checkpoints { folder: folder.checkpoints(), stamp, rank: ranks.rank(), ranks: ranks.ranks() };
    let from = if how.resume { saved.agreed(ranks)? } else { None };
    if let (Some(progress), 0) = (&from, ranks.rank()) {
        let (runs, round) = progress.place();
        eprintln!("going on: {runs} runs are done, the next is at round {round}");
    }
    let mut slot = 0;
    let save = |progress: &LargeProgress| {
        slot += 1;
        Ok(saved.save(progress, slot % 2)?)
    };
    let began = std::time::Instant::now();
    let record = match how.streamed {
        true => experiment::run_streamed(experiment, ranks, from, how.every, save),
        false => experiment::run_parted(experiment, ranks, from, how.every, save),
    };
    if let Some(record) = record? {
        let out = folder.write(|path| write(path, experiment, &record))?;
        print(&record, &out, began.elapsed().as_secs_f64(), how.json);
    }
    // Nobody takes away what somebody may still need.
    ranks.sent_by_first(vec![0.0], 1)?;
    saved.remove();
    Ok(())
}

/// Says what a streamed run does and how much memory it takes; refuses one that does not fit.
fn say(experiment: &Experiment, how: How, ranks: &dyn Ranks) -> Result<()> {
    let memory = experiment.streamed_memory(ranks.ranks(), how.every > 0);
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let machine = crate::machine::look();
    let free = machine.memory.map_or_else(|| "an unknown amount".into(), gigabytes);
    if machine.memory.is_some_and(|free| memory > free) {
        bail!(
            "streamed, this run needs about {} of memory in each process, and {free} are free\n  help: use fewer agents or dimensions, or more machines (mpirun)",
            gigabytes(memory)
        );
    }
    if ranks.rank() == 0 {
        let records = match experiment.spec().data.dim {
            Some(_) => "made anew from the seed in every round",
            None => "looked up in every round among those of the files, which are in memory once",
        };
        let agents = experiment.facts().agents;
        eprintln!(
            "streaming: of {agents} agents none is held; its records are {records}. Curves have the mean model only, and there is no optimum and no reference."
        );
        eprintln!("memory: about {} in each process, {free} free", gigabytes(memory));
    }
    Ok(())
}

fn write(path: &Path, experiment: &Experiment, record: &LargeRecord) -> Result<()> {
    folder::put(path, "experiment.toml", experiment.resolved().as_bytes())?;
    folder::put(path, "record.json", &serde_json::to_vec_pretty(record)?)?;
    let mut trace = String::from("algorithm,run,round,objective,disagreement,test_accuracy\n");
    for algorithm in &record.algorithms {
        for run in &algorithm.runs {
            for p in &run.curve {
                let accuracy = p.test_accuracy.map(|a| a.to_string()).unwrap_or_default();
                let label = algorithm.label.replace('"', "\"\"");
                writeln!(
                    trace,
                    "\"{label}\",{},{},{},{},{accuracy}",
                    run.run, p.round, p.objective, p.disagreement
                )?;
            }
        }
    }
    folder::put(path, "trace.csv", trace.as_bytes())
}

fn print(record: &LargeRecord, out: &Path, seconds: f64, json: bool) {
    if json {
        let mut value = json!(record);
        for run in value["algorithms"]
            .as_array_mut()
            .into_iter()
            .flatten()
            .flat_map(|a| a["runs"].as_array_mut())
            .flatten()
        {
            run.as_object_mut().map(|r| (r.remove("curve"), r.remove("mean_model")));
        }
        (value["out"], value["seconds"]) = (json!(out), json!(seconds));
        output::print_json(&value);
        return;
    }
    let LargeRecord { name, agents, dim, ranks, halo_rows, halo_bytes, .. } = record;
    let mut text = format!(
        "{name}: {agents} agents, d = {dim}, on {ranks} process{}; {halo_rows} rows ({halo_bytes} bytes) cross between them in a round\n",
        if *ranks == 1 { "" } else { "es" }
    );
    for a in &record.algorithms {
        for r in &a.runs {
            let accuracy =
                r.test_accuracy.map_or_else(String::new, |x| format!(", accuracy {:.1} %", 100.0 * x));
            let hash = r.transcript.get(..16).unwrap_or_default();
            let _ = writeln!(
                text,
                "{}, run {}: objective {:.6}{accuracy}, transcript {hash}",
                a.label, r.run, r.objective
            );
        }
        if let Some(claim) = &a.claim {
            let _ = write!(text, "\n{}, each run by itself: {claim}\n", a.label);
        }
    }
    if record.result_kind == ResultKind::Seeded {
        text += "noise from a seed protects nobody: keep this folder like the records\n";
    }
    output::print(&format!("{text}{seconds:.1} s, written to {}", out.display()));
}

/// What ranks have saved: two states each, so that one is whole whenever the job ends.
struct Checkpoints {
    folder: PathBuf,
    stamp: String,
    rank: usize,
    ranks: usize,
}

impl Checkpoints {
    fn file(&self, slot: u32) -> PathBuf {
        self.folder.join(format!("rank-{}-of-{}-{slot}.bin", self.rank, self.ranks))
    }

    fn save(&self, progress: &LargeProgress, slot: u32) -> Result<()> {
        crate::pieces::private_folder(&self.folder)?;
        let file = self.file(slot);
        // Written beside and moved, so that a file that has the name is whole.
        let beside = file.with_extension("new");
        let written = || -> Result<()> {
            let to = std::io::BufWriter::new(fs::File::create(&beside)?);
            postcard::to_io(&(&self.stamp, progress), to)?
                .into_inner()
                .map_err(std::io::IntoInnerError::into_error)?;
            Ok(fs::rename(&beside, &file)?)
        };
        written().with_context(|| format!("{}: cannot be written", file.display()))
    }

    fn load(&self) -> Vec<LargeProgress> {
        let one = |slot| {
            let bytes = fs::read(self.file(slot)).ok()?;
            let (stamp, progress): (String, LargeProgress) = postcard::from_bytes(&bytes).ok()?;
            (stamp == self.stamp).then_some(progress)
        };
        (0..2).filter_map(one).collect()
    }

    /// The latest state that every rank has.
    fn agreed(&self, ranks: &mut dyn Ranks) -> Result<Option<LargeProgress>> {
        let mut mine = self.load();
        let code = |p: &LargeProgress| f64::from(p.place().0) * 4e9 + f64::from(p.place().1);
        let mut codes: Vec<f64> = mine.iter().map(code).collect();
        codes.resize(2, -1.0);
        let all = ranks.sent_to_first(codes, &vec![2; self.ranks])?;
        let common = all.first().map_or(-1.0, |first| {
            let everywhere = first.iter().copied().filter(|c| all.iter().all(|other| other.contains(c)));
            everywhere.fold(-1.0, f64::max)
        });
        let agreed = ranks.sent_by_first(vec![common], 1)?;
        let place = mine.iter().position(|p| agreed.first() == Some(&code(p)));
        Ok(place.map(|place| mine.swap_remove(place)))
    }

    fn remove(&self) {
        for slot in 0..2 {
            let _ = fs::remove_file(self.file(slot));
        }
        // The last one to leave takes the folder away.
        let _ = fs::remove_dir(&self.folder);
    }
}
