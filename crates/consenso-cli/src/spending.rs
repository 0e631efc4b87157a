//! The ledgers of the records a run uses: opened and charged before the first release.

use crate::{Failure, files, table};
use anyhow::{Context as _, anyhow};
use consenso_engine::experiment::Experiment;
use consenso_engine::privacy::studies::StudyCost;
use consenso_engine::record::ResultKind;
use consenso_ledger::policy;
use consenso_ledger::{
    Edited, LedgerError, LedgerSummary, LimitRequest, RecordsLedger, StudyRequest,
};
use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal as _, Write};
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

/// The limit that a command asks for: what all studies of these records may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedLimit {
    /// ε, and δ unless it is the study's.
    pub(crate) amount: (f64, Option<f64>),
    /// Whether it can be lowered only.
    pub(crate) for_life: bool,
    /// Whether somebody sits at a terminal who can say that it is.
    pub(crate) may_ask: bool,
}

impl AskedLimit {
    fn request(self, delta: f64) -> LimitRequest {
        let (epsilon, delta) = (self.amount.0, self.amount.1.unwrap_or(delta));
        match self.for_life {
            true => LimitRequest::new(epsilon, delta, "run --limit-for-life").for_life(),
            false => LimitRequest::new(epsilon, delta, "run --limit"),
        }
    }
}

/// Whether somebody at a terminal can be asked, and read the question.
pub(crate) fn at_a_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Shows a limit that is about to be the first of these records, and asks whether it is for life;
/// whatever is no clear yes is a no.
fn is_for_life(
    limit: &LimitRequest,
    answer: &mut impl BufRead,
    out: &mut impl Write,
) -> std::io::Result<bool> {
    write!(
        out,
        "{limit}, until another --limit changes it. For life, it can be lowered and never raised.\n\
         Should it be for life? [y/N] "
    )?;
    out.flush()?;
    let mut line = String::new();
    answer.read_line(&mut line)?;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Reserves what these transcripts cost in the ledger of every file of records, before anything is
/// released. Runs that protect nobody, and records that are everybody's, have no ledger.
pub(crate) fn reserve(
    experiment: &Experiment,
    transcripts: &[consenso_engine::experiment::Place],
    place: Option<&Path>,
    limit: Option<AskedLimit>,
    changed: Option<Changed>,
) -> Result<Vec<LedgerSummary>, Failure> {
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
    let may_ask = limit.is_some_and(|limit| limit.may_ask && !limit.for_life);
    let mut limit = limit.map(|limit| limit.request(own));
    let cost = experiment.cost_of(transcripts).map_err(anyhow::Error::from)?;
    let mut id = [0u8; 16];
    getrandom::fill(&mut id).map_err(|e| anyhow!("the operating system gave no entropy: {e}"))?;
    let study = StudyRequest {
        id: id.iter().fold(String::from("run-"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
        name: experiment.spec().name.clone(),
        cost: cost.cost,
        relation: cost.relation,
        adversary: cost.adversary,
        against: Some(cost.against),
        seeded: false,
    };
    // Going on with a run may cost nothing more.
    let study = (!transcripts.is_empty()).then_some(&study);
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
    // What one file's ledger refuses must leave no trace, in this one or in another's.
    let mut first_limit = true;
    for records in &books {
        let ledger = open(records)?;
        ledger.check(limit.as_ref(), study).map_err(|error| explained(records, error))?;
        first_limit &= ledger.limit().is_none();
        let count: usize = experiment.records().iter().sum();
        let total = &cost.cost;
        if limit.is_none() && first_limit && !policy::is_careful(total.epsilon, total.delta, count)
        {
            eprintln!(
                "note: ε = {} at δ = {:e} is more than a site of a network would spend on {count} records without a word (ε = {}, δ below 1/{count}): \
                 --limit says what all studies of {} may cost",
                table::rounded_up(total.epsilon, 4),
                total.delta,
                policy::LARGEST_UNSAID_EPSILON,
                records.display()
            );
        }
        if ledger.is_new() {
            eprintln!(
                "note: a new ledger begins beside {}: as far as is known here, nothing was spent on these records; \
                 if they were used elsewhere, move the folder {} along with them",
                records.display(),
                consenso_ledger::FOLDER
            );
        }
    }
    // Asked once: before the first limit of these records is set.
    if let Some(asked) = limit.as_ref().filter(|_| may_ask && first_limit) {
        let said = is_for_life(asked, &mut std::io::stdin().lock(), &mut std::io::stderr());
        if said.context("--limit")? {
            limit = limit.map(LimitRequest::for_life);
        }
    } else if let Some(limit) = limit.as_ref().filter(|limit| limit.is_for_life()) {
        eprintln!("note: {limit}");
    }
    for (k, records) in books.iter().enumerate() {
        if let Err(refused) = open(records)?.book(limit.as_ref(), study) {
            // Another process came between. The run does not begin, so nothing of it is spent
            // anywhere.
            let nothing =
                StudyCost { mu: Some(0.0), rho: Some(0.0), ..StudyCost::claimed(0.0, 0.0) };
            let id = study.map_or("", |study| &study.id);
            for before in &books[..k] {
                open(before)?.give_back(id, nothing).map_err(|error| explained(before, error))?;
            }
            return Err(explained(records, refused));
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
pub(crate) fn text(standings: &[LedgerSummary]) -> String {
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
                "; limit ε = {}{}, remaining: ε = {}, δ = {:e}",
                limit.epsilon,
                if s.limit_for_life { " for life" } else { "" },
                consenso_engine::privacy::printed_down(left.epsilon, 4),
                left.delta
            );
        }
        out.push('\n');
    }
    out
}

/// The ledgers for a script.
pub(crate) fn json(standings: &[LedgerSummary]) -> Result<serde_json::Value, Failure> {
    Ok(serde_json::to_value(standings).context("the ledgers")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A limit that cannot be taken back is set by a word that says so, and shown before.
    #[test]
    fn a_limit_is_for_life_by_a_clear_yes_only_and_is_shown_first() {
        let limit = LimitRequest::new(3.0, 1e-6, "run --limit");
        let asked = |answer: &str| {
            let mut shown = Vec::new();
            let said = is_for_life(&limit, &mut answer.as_bytes(), &mut shown).unwrap();
            let shown = String::from_utf8(shown).unwrap();
            assert!(shown.contains("ε = 3") && shown.contains("never raised"), "{shown}");
            said
        };
        assert!(asked("y\n") && asked(" Yes\n"));
        for no in ["", "\n", "n\n", "no\n", "3\n", "for life\n"] {
            assert!(!asked(no), "{no:?}");
        }
    }
}
