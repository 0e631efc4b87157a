//! The folder of a run: checked before the run, written in one go after it.

use crate::pieces;
use anyhow::{Context as _, Result, bail};
use consenso_engine::experiment::{Experiment, Finished};
use consenso_engine::model::{self, Model};
use consenso_engine::record::{Record, ResultKind, Shareable};
use consenso_study::report;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a run will be written.
#[derive(Debug)]
pub(crate) struct RunFolder {
    path: PathBuf,
    /// Name and seed, if the folder's name was ours to choose: another will do if it is taken
    /// meanwhile.
    chosen: Option<(String, u64)>,
    /// Whether a run that is there already is replaced by one that goes on from it.
    replaces: bool,
}

impl RunFolder {
    /// Checks that the folder can be made and nothing is there yet.
    pub(crate) fn check(asked: Option<&Path>, name: &str, seed: u64) -> Result<Self> {
        let folder = match asked {
            Some(path) => Self { path: path.to_path_buf(), chosen: None, replaces: false },
            None => {
                let chosen = Some((name.to_owned(), seed));
                Self { path: free(name, seed), chosen, replaces: false }
            }
        };
        let path = &folder.path;
        if path.symlink_metadata().is_ok() {
            bail!(
                "{}: exists already, and nothing is written over\n  help: give another folder with --out, or leave --out away",
                path.display()
            );
        }
        let existing = path.ancestors().skip(1).find(|a| a.exists() || a.as_os_str().is_empty());
        if let Some(place) = existing.filter(|a| !a.as_os_str().is_empty() && !a.is_dir()) {
            bail!("{}: cannot be made, {} is not a folder", path.display(), place.display());
        }
        Ok(folder)
    }

    /// The folder of a run to go on with: the one asked for, or the last of this name and seed. A
    /// run that was never begun begins; what is there and is not a run of this software is refused.
    pub(crate) fn resume(asked: Option<&Path>, name: &str, seed: u64) -> Result<Self> {
        let last = || {
            let checkpoints = |path: &PathBuf| beside(path).with_extension("checkpoint").exists();
            let known =
                |path: &PathBuf| path.exists() || beside(path).exists() || checkpoints(path);
            numbered(name, seed).take_while(known).last().unwrap_or_else(|| free(name, seed))
        };
        let path = asked.map_or_else(last, Path::to_path_buf);
        if path.symlink_metadata().is_err() {
            return Self::check(Some(&path), name, seed);
        }
        if pieces::within(&path).is_none() {
            bail!(
                "{}: has no {}, so there is nothing to go on from\n  help: give the folder of a run, or one that does not exist yet",
                path.display(),
                pieces::NAME
            );
        }
        Ok(Self { path, chosen: None, replaces: true })
    }

    /// Where pieces are kept while the run is under way.
    pub(crate) fn pieces(&self) -> PathBuf {
        beside(&self.path)
    }

    /// Where transcripts under way, and the processes of a large simulation, keep how far they are.
    pub(crate) fn checkpoints(&self) -> PathBuf {
        beside(&self.path).with_extension("checkpoint")
    }

    /// Where encoded records lie that are too many for memory, as long as the run is under way.
    pub(crate) fn scratch(&self) -> PathBuf {
        beside(&self.path).with_extension("scratch")
    }

    /// Brings the pieces of a finished run to where a run under way keeps them, unless a run is
    /// under way already; says whether there are any.
    pub(crate) fn fetch_pieces(&self) -> Result<bool> {
        let place = self.pieces();
        if let (false, Some(within)) = (place.exists(), pieces::within(&self.path)) {
            fs::copy(&within, &place)
                .with_context(|| format!("{}: cannot be written", place.display()))?;
        }
        Ok(place.exists())
    }

    /// Has everything written beside its place and moves it there at the end: a crash leaves no
    /// half-written run.
    pub(crate) fn write(&self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let parent =
            self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent)
            .with_context(|| format!("{}: cannot be made", parent.display()))?;
        let partial = parent.join(format!(".consenso-{}.partial", std::process::id()));
        let written =
            make(&partial).and_then(|()| fill(&partial)).and_then(|()| self.settle(&partial));
        if written.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        written
    }

    fn settle(&self, partial: &Path) -> Result<PathBuf> {
        let path = self
            .chosen
            .as_ref()
            .map_or_else(|| self.path.clone(), |(name, seed)| free(name, *seed));
        let moved = |from: &Path, to: &Path| {
            fs::rename(from, to).with_context(|| format!("{}: cannot be made", to.display()))
        };
        if self.replaces {
            let old = partial.with_extension("old");
            moved(&path, &old)?;
            moved(partial, &path)?;
            fs::remove_dir_all(&old)
                .with_context(|| format!("{}: cannot be removed", old.display()))?;
            return Ok(path);
        }
        if path.symlink_metadata().is_ok() {
            bail!("{}: was made by somebody else during the run", path.display());
        }
        moved(partial, &path)?;
        Ok(path)
    }
}

/// Where the pieces of a run go until its folder is written: a hidden file beside it.
fn beside(folder: &Path) -> PathBuf {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    folder.with_file_name(format!(".{name}.pieces"))
}

/// The first of `runs/name-seed`, `runs/name-seed-2`, … that is free.
fn free(name: &str, seed: u64) -> PathBuf {
    numbered(name, seed).find(|path| path.symlink_metadata().is_err()).unwrap_or_default()
}

fn numbered(name: &str, seed: u64) -> impl Iterator<Item = PathBuf> {
    let plain = |c: char| if c.is_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String = name.chars().take(80).map(plain).collect();
    let base = format!("runs/{}-{seed}", if name.is_empty() { "run" } else { &name });
    (1u32..).map(move |n| PathBuf::from(if n == 1 { base.clone() } else { format!("{base}-{n}") }))
}

/// Makes one folder.
pub(crate) fn make(path: &Path) -> Result<()> {
    fs::create_dir(path).with_context(|| format!("{}: cannot be made", path.display()))
}

/// Makes one folder that nobody else may look into.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).with_context(|| format!("{}: cannot be made", path.display()))
}

/// Writes one file of a folder.
pub(crate) fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, bytes).with_context(|| format!("{}: cannot be written", path.display()))
}

/// The models of a run; the record gets their file names.
pub(crate) fn name_models(experiment: &Experiment, finished: &mut Finished) -> Vec<Model> {
    let mut taken: Vec<String> = Vec::new();
    let mut models = Vec::new();
    for (index, model) in finished.model_files(experiment) {
        let base = model::file_stem(&model.study.label);
        let numbered = (1u32..).map(|n| if n == 1 { base.clone() } else { format!("{base}-{n}") });
        let stem = numbered.into_iter().find(|s| !taken.contains(s)).unwrap_or_default();
        finished.record.algorithms[index].model = Some(format!("models/{stem}.json"));
        taken.push(stem);
        models.push(model);
    }
    models
}

/// The folder inside a run's folder for what only the holder of the records may see.
pub(crate) const PRIVATE: &str = "private";

pub(crate) const WARNING: &str = "PRIVATE: exact functions of the records. One record changes these numbers for certain; keep this folder as you keep the records, and do not share it.";

/// The files of a run. Where the records are somebody's and the noise was real, the folder holds
/// what may be shared, and `private/` in it the rest.
pub(crate) fn write_record(
    folder: &Path,
    record: &Record,
    models: &[Model],
    pieces: Option<&[u8]>,
) -> Result<()> {
    match record.kind {
        ResultKind::Simulation | ResultKind::Seeded | ResultKind::Private => {
            if let Some(pieces) = pieces {
                put(folder, pieces::NAME, pieces)?;
            }
            return write_all(folder, record, models);
        }
        ResultKind::Unprotected => {
            let nothing = serde_json::json!({ "kind": "unprotected", "note": "an algorithm has no claim: nothing of this run may be shared" });
            put(folder, "record.json", &serde_json::to_vec_pretty(&nothing)?)?;
        }
        ResultKind::Shareable { .. } => {
            put(folder, "experiment.toml", record.resolved.as_bytes())?;
            let shareable = Shareable::of(record).context("what may be shared")?;
            put(folder, "record.json", &serde_json::to_vec_pretty(&shareable)?)?;
            put(folder, "report.html", report::shareable_html(&shareable).as_bytes())?;
            // A model is a function of released vectors, which the claim covers.
            write_models(folder, record, models)?;
        }
    }
    let mut record = Record { kind: ResultKind::Private, ..record.clone() };
    let shared = folder.join("models").is_dir();
    for algorithm in record.algorithms.iter_mut().filter(|_| shared) {
        // There is one place for models.
        algorithm.model = algorithm.model.take().map(|file| format!("../{file}"));
    }
    let private = folder.join(PRIVATE);
    make_private(&private)?;
    put(&private, "README.txt", format!("{WARNING}\n").as_bytes())?;
    if let Some(pieces) = pieces {
        put(&private, pieces::NAME, pieces)?;
    }
    write_all(&private, &record, if shared { &[] } else { models })
}

/// The files of one share of a run: what it was asked for, and its pieces, which stay with the
/// records where those are somebody's.
pub(crate) fn write_share(
    folder: &Path,
    record: &Record,
    about: &serde_json::Value,
    pieces: &[u8],
) -> Result<()> {
    put(folder, "experiment.toml", record.resolved.as_bytes())?;
    put(folder, "shard.json", &serde_json::to_vec_pretty(about)?)?;
    if record.kind == ResultKind::Simulation {
        return put(folder, pieces::NAME, pieces);
    }
    let private = folder.join(PRIVATE);
    make_private(&private)?;
    put(&private, "README.txt", format!("{WARNING}\n").as_bytes())?;
    put(&private, pieces::NAME, pieces)
}

fn write_models(folder: &Path, record: &Record, models: &[Model]) -> Result<()> {
    if models.is_empty() {
        return Ok(());
    }
    make(&folder.join("models"))?;
    for (model, file) in
        models.iter().zip(record.algorithms.iter().filter_map(|a| a.model.as_ref()))
    {
        put(folder, file, model.to_json().as_bytes())?;
        put(folder, &file.replace(".json", ".npz"), &model.to_npz())?;
    }
    Ok(())
}

/// Everything there is, in one folder.
fn write_all(folder: &Path, record: &Record, models: &[Model]) -> Result<()> {
    write_models(folder, record, models)?;
    put(folder, "experiment.toml", record.resolved.as_bytes())?;
    put(folder, "record.json", &serde_json::to_vec_pretty(record)?)?;
    let mut trace = Vec::new();
    record.write_trace(&mut trace)?;
    put(folder, "trace.csv", &trace)?;
    if !record.sweep.is_empty() {
        let mut sweep = Vec::new();
        record.write_sweep(&mut sweep)?;
        put(folder, "sweep.csv", &sweep)?;
    }
    let mut page = report::report_html(record);
    if record.kind == ResultKind::Private {
        page = page.replacen(
            "<main>",
            &format!("<main>\n<p role=\"alert\"><strong>{WARNING}</strong></p>"),
            1,
        );
    }
    put(folder, "report.html", page.as_bytes())?;
    make(&folder.join("figures"))?;
    for (name, figure) in report::figures(record) {
        put(folder, &format!("figures/{name}.svg"), figure.to_svg().as_bytes())?;
    }
    Ok(())
}
