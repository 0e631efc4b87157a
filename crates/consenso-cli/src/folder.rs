//! The folder of a run: checked before the run, written in one go after it.

use anyhow::{Context as _, Result, bail};
use consenso::experiment::{Experiment, Finished};
use consenso::model::{self, Model};
use consenso::record::{Record, ResultKind, Shareable};
use consenso_study::report;
use std::fs;
use std::path::{Path, PathBuf};

/// Where a run will be written.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Name and seed, if the folder's name was ours to choose: another will do if it is taken meanwhile.
    chosen: Option<(String, u64)>,
}

impl Folder {
    /// Checks that the folder can be made and nothing is there yet.
    pub(crate) fn check(asked: Option<&Path>, name: &str, seed: u64) -> Result<Self> {
        let folder = match asked {
            Some(path) => Self { path: path.to_path_buf(), chosen: None },
            None => Self { path: free(name, seed), chosen: Some((name.to_owned(), seed)) },
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

    /// Has everything written beside its place and moves it there at the end: a crash leaves no half-written run.
    pub(crate) fn write(&self, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).with_context(|| format!("{}: cannot be made", parent.display()))?;
        let partial = parent.join(format!(".consenso-{}.partial", std::process::id()));
        let written = make(&partial).and_then(|()| fill(&partial)).and_then(|()| self.settle(&partial));
        if written.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        written
    }

    fn settle(&self, partial: &Path) -> Result<PathBuf> {
        let path = self.chosen.as_ref().map_or_else(|| self.path.clone(), |(name, seed)| free(name, *seed));
        if path.symlink_metadata().is_ok() {
            bail!("{}: was made by somebody else during the run", path.display());
        }
        fs::rename(partial, &path).with_context(|| format!("{}: cannot be made", path.display()))?;
        Ok(path)
    }
}

/// The first of `runs/name-seed`, `runs/name-seed-2`, … that is free.
fn free(name: &str, seed: u64) -> PathBuf {
    let plain = |c: char| if c.is_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String = name.chars().take(80).map(plain).collect();
    let base = format!("runs/{}-{seed}", if name.is_empty() { "run" } else { &name });
    (1u32..)
        .map(|n| PathBuf::from(if n == 1 { base.clone() } else { format!("{base}-{n}") }))
        .find(|path| path.symlink_metadata().is_err())
        .unwrap_or_default()
}

/// Makes one folder.
pub(crate) fn make(path: &Path) -> Result<()> {
    fs::create_dir(path).with_context(|| format!("{}: cannot be made", path.display()))
}

/// Makes one folder that nobody else may look into.
fn make_private(path: &Path) -> Result<()> {
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
const PRIVATE: &str = "private";

const WARNING: &str = "PRIVATE: exact functions of the records. One record changes these numbers for certain; keep this folder as you keep the records, and do not share it.";

/// The files of a run. Where the records are somebody's and the noise was real, the folder holds what may be shared, and `private/` in it the rest.
pub(crate) fn write_record(folder: &Path, record: &Record, models: &[Model]) -> Result<()> {
    match record.kind {
        ResultKind::Simulation | ResultKind::Seeded | ResultKind::Private => {
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
    write_all(&private, &record, if shared { &[] } else { models })
}

fn write_models(folder: &Path, record: &Record, models: &[Model]) -> Result<()> {
    if models.is_empty() {
        return Ok(());
    }
    make(&folder.join("models"))?;
    for (model, file) in models.iter().zip(record.algorithms.iter().filter_map(|a| a.model.as_ref())) {
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
        page =
            page.replacen("<main>", &format!("<main>\n<p role=\"alert\"><strong>{WARNING}</strong></p>"), 1);
    }
    put(folder, "report.html", page.as_bytes())?;
    make(&folder.join("figures"))?;
    for (name, figure) in report::figures(record) {
        put(folder, &format!("figures/{name}.svg"), figure.to_svg().as_bytes())?;
    }
    Ok(())
}
