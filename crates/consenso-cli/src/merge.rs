//! `consenso merge`.

use crate::folder::{self, RunFolder};
use crate::pieces::{self, PieceFile};
use crate::{Failure, files, run};
use anyhow::{Context as _, bail};
use consenso_engine::experiment::{self, Experiment, ExperimentSpec};
use consenso_study::ExperimentFile as _;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Put the shares of a run together: the record is that of one run, bit for bit
///
/// The shares come from `consenso run --shard i/n`, on one machine or on many. The records must be
/// where the shares found them: what a share was made from is compared with what is there.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  for i in 1 2 3; do consenso run --shard $i/3 --out part-$i; done
  consenso merge part-1 part-2 part-3 --out whole")]
pub(crate) struct Args {
    /// The folders of all shares, in any order
    #[arg(required = true, value_name = "DIR")]
    shares: Vec<PathBuf>,
    /// Folder to write, which must not exist yet [default: runs/<name>-<seed>, or the next free
    /// number]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    let mut shares = Vec::new();
    for folder in &args.shares {
        let shown = folder.display();
        let path = pieces::within(folder).with_context(|| {
            format!(
                "{shown}: has no {}; give folders that `consenso run --shard i/n` wrote",
                pieces::NAME
            )
        })?;
        shares.push((path.clone(), PieceFile::read(&path)?));
    }
    let (_, first) = shares.first().context("a share")?;
    let (file, text, entropy) = (first.file.clone(), first.spec.clone(), first.entropy);
    for ((_, other), folder) in shares.iter().zip(&args.shares) {
        if other.spec != text || other.entropy != entropy {
            let (a, b) = (args.shares[0].display(), folder.display());
            return Err(anyhow::anyhow!("{b}: is a share of another experiment than {a}").into());
        }
    }
    let spec = ExperimentSpec::from_toml(&text, &file)?;
    let place = RunFolder::check(args.out.as_deref(), &spec.name, spec.seed)?;
    let text = files::Text { file, text, folder: PathBuf::new() };
    // The noise was drawn by the shares; none is drawn here.
    let inputs = files::inputs(text, spec, entropy.then_some([0; 32]))?;
    let asked = (inputs.file.clone(), inputs.spec.clone());
    let experiment = Experiment::check(inputs)?;
    let records = experiment.records_digest();
    let mut all = Vec::new();
    for ((path, kept), folder) in shares.iter_mut().zip(&args.shares) {
        let (fit, other) = kept.fitting(&experiment, &records, None);
        if other > 0 {
            return Err(differs(path, folder, other));
        }
        all.extend(fit);
    }
    complete(&experiment, &all, &shares)?;
    let mut finished = experiment::put_together(&experiment, all, false);
    let models = folder::name_models(&experiment, &mut finished);
    let paths: Vec<PathBuf> = shares.into_iter().map(|share| share.0).collect();
    let bytes = pieces::joined(&paths, (&asked.0, &asked.1), entropy).map_err(Failure::Run)?;
    let out = place
        .write(|path| folder::write_record(path, &finished.record, &models, Some(&bytes)))
        .map_err(Failure::Run)?;
    run::print(&finished.record, &models, Some(&out), (&[], None), json)
}

fn differs(path: &Path, folder: &Path, other: usize) -> Failure {
    anyhow::anyhow!(
        "{}: {other} pieces were made from other records or by another version than what is here\n  \
         help: the records of the experiment must be the same file as when {} was made",
        path.display(),
        folder.display()
    )
    .into()
}

/// Every piece must be there once.
fn complete(
    experiment: &Experiment,
    all: &[experiment::Piece],
    shares: &[(PathBuf, PieceFile)],
) -> anyhow::Result<()> {
    let have: BTreeSet<_> = all.iter().map(experiment::Piece::place).collect();
    if have.len() < all.len() {
        bail!(
            "the same share was given twice: {} pieces are there more than once",
            all.len() - have.len()
        );
    }
    let places = experiment.places(None);
    let missing = places.iter().filter(|place| !have.contains(place)).count();
    if missing > 0 {
        let given: BTreeSet<_> = shares.iter().filter_map(|s| s.1.share).collect();
        let of = given.first().map_or(1, |s| s.1);
        let gone: Vec<String> =
            (1..=of).filter(|i| !given.contains(&(*i, of))).map(|i| format!("{i}/{of}")).collect();
        bail!(
            "{missing} of {} pieces are missing; shares not given: {}",
            places.len(),
            gone.join(", ")
        );
    }
    Ok(())
}
