//! The ledgers of the records a run uses: opened and charged before the first release.

use crate::{Failure, files, table};
use anyhow::{Context as _, anyhow};
use consenso_engine::experiment::Experiment;
use consenso_engine::privacy::studies::StudyCost;
use consenso_engine::record::ResultKind;
use consenso_ledger::{Booking, Edited, LedgerError, RecordsLedger, Standing};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What a file of records is that has changed since its ledger knew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Changed {
    // The same people's records, edited: what was spent stays spent.
    Same,
    // Other people's records: a new ledger.
    Other,
}

/// Reads `--limit`: an ε, or an ε and a δ with a comma between.
pub(crate) fn limit(text: &str) -> Result<(f64, Option<f64>), anyhow::Error> {
    let number = |part: &str| match part.trim().parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(anyhow!("{part:?} is not a positive number; say 3 or 3,1e-5")),
    };
    match text.split_once(',') {
        None => Ok((number(text)?, None)),
        Some((epsilon, delta)) => match number(delta)? {
            delta if delta < 1.0 => Ok((number(epsilon)?, Some(delta))),
            delta => Err(anyhow!("δ = {delta} must be below 1")),
        },
    }
}

/// Reserves what these transcripts cost in the ledger of every file of records, before anything is
/// released. Runs that protect nobody, and records that are everybody's, have no ledger.
pub(crate) fn reserve(
    experiment: &Experiment,
    transcripts: &[consenso_engine::experiment::Place],
    place: Option<&Path>,
    limit: Option<(f64, Option<f64>)>,
    changed: Option<Changed>,
) -> Result<Vec<Standing>, Failure> {
    let path = experiment.spec().data.path.as_deref();
    let (ResultKind::Shareable { .. }, Some(pattern)) = (experiment.result_kind(), path) else {
        if limit.is_some() {
            return Err(anyhow!(
                "--limit: this run has no ledger: that is for records of your own, a claim and --entropy os"
            )
            .into());
        }
        return Ok(Vec::new());
    };
    let own = experiment.spec().privacy.map_or(0.0, |p| p.delta);
    let limit = limit.map(|(epsilon, delta)| (epsilon, delta.unwrap_or(own)));
    let cost = experiment.cost_of(transcripts).map_err(anyhow::Error::from)?;
    let mut id = [0u8; 16];
    getrandom::fill(&mut id).map_err(|e| anyhow!("the operating system gave no entropy: {e}"))?;
    let study = Booking {
        id: id.iter().fold(String::from("run-"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
        name: experiment.spec().name.clone(),
        cost: cost.cost,
        relation: cost.relation,
        adversary: cost.adversary,
        seeded: false,
    };
    let edited = match changed {
        None => Edited::Ask,
        Some(Changed::Same) => Edited::Same,
        Some(Changed::Other) => Edited::Other,
    };
    let books: Vec<PathBuf> = files::expand(Path::new(""), pattern)?;
    // One after the other, for two files of the same content may have one ledger.
    let open = |records: &PathBuf| {
        RecordsLedger::open(records, place, edited).map_err(|error| explained(records, error))
    };
    // What one file's ledger refuses must leave no trace in another's.
    for records in &books {
        let ledger = open(records)?;
        if let Some((epsilon, delta)) = limit {
            ledger.check_limit(epsilon, delta, None).map_err(|error| explained(records, error))?;
        }
    }
    if let Some((epsilon, delta)) = limit {
        for records in &books {
            open(records)?
                .set_limit(epsilon, delta, None)
                .map_err(|error| explained(records, error))?;
        }
    }
    // Going on with a run may cost nothing more.
    if !transcripts.is_empty() {
        for (k, records) in books.iter().enumerate() {
            let reserved = open(records)?.reserve(&study);
            if let Err(refused) = reserved {
                // The run does not begin, so nothing of it is spent anywhere.
                let nothing = StudyCost { epsilon: 0.0, delta: 0.0, mu: Some(0.0), rho: Some(0.0) };
                for before in &books[..k] {
                    open(before)?
                        .give_back(&study.id, nothing)
                        .map_err(|error| explained(before, error))?;
                }
                return Err(explained(records, refused));
            }
        }
    }
    books.iter().map(|records| Ok(open(records)?.standing())).collect()
}

fn explained(records: &Path, error: LedgerError) -> Failure {
    let asked = matches!(error, LedgerError::Changed { .. });
    let error = anyhow::Error::new(error).context(format!("the ledger of {}", records.display()));
    match asked {
        true => error
            .context("help: --records same (edited, what was spent stays spent) or --records other (other people's)")
            .into(),
        false => error.into(),
    }
}

/// What the ledgers say after the run was charged.
pub(crate) fn text(standings: &[Standing]) -> String {
    let mut out = String::new();
    for s in standings {
        let _ = write!(
            out,
            "\nledger {}: {} stud{} of these records cost ε = {} at δ = {:e} together ({}; added up ε = {})",
            s.ledger.display(),
            s.studies,
            if s.studies == 1 { "y" } else { "ies" },
            table::rounded_up(s.spent.epsilon, 5),
            s.spent.delta,
            s.rule.meaning(),
            table::rounded_up(s.sum.epsilon, 5),
        );
        if let (Some(limit), Some(left)) = (s.limit, s.remaining) {
            let _ = write!(
                out,
                "; limit ε = {}, remaining: ε = {}, δ = {:e}",
                limit.epsilon,
                consenso_engine::privacy::printed_down(left.epsilon, 4),
                left.delta
            );
        }
        out.push('\n');
    }
    out
}

/// The ledgers for a script.
pub(crate) fn json(standings: &[Standing]) -> Result<serde_json::Value, Failure> {
    Ok(serde_json::to_value(standings).context("the ledgers")?)
}
