//! The folder of a run: checked before the run, written in one go after it.

use anyhow::{Context as _, Result, bail};
use consenso::experiment::{Experiment, Finished};
use consenso::model::{self, Model};
use consenso::record::Record;
use consenso::report;
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

/// The files of a run.
pub(crate) fn write_record(folder: &Path, record: &Record, models: &[Model]) -> Result<()> {
    make(&folder.join("models"))?;
    for (model, file) in models.iter().zip(record.algorithms.iter().filter_map(|a| a.model.as_ref())) {
        put(folder, file, model.to_json().as_bytes())?;
        put(folder, &file.replace(".json", ".npz"), &model.to_npz())?;
    }
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
    put(folder, "report.html", report::report_html(record).as_bytes())?;
    make(&folder.join("figures"))?;
    for (name, figure) in report::figures(record) {
        put(folder, &format!("figures/{name}.svg"), figure.to_svg().as_bytes())?;
    }
    Ok(())
}
