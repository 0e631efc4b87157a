//! The life of studies in one ledger: which there are, where each stands, and how one is given up.
//!
//! A study reserves its whole claim when it begins. When it is given up, what was never released is
//! given back: from then on it counts for what its charged releases cost. When to give up may be
//! decided after looking at the releases, so only what adds up under such choices is given back: Σ
//! μ_k² of Gaussian releases and Σ ρ_k (filters, whose limit was fixed with the first study), and
//! the sum of pure ε. An (ε, δ) that a claim's own theorem gave for the whole schedule is not
//! divided: under the rule "sum" a study with δ > 0 that has released anything costs what it
//! reserved.

use crate::admission;
use crate::agreement::AgreementSummary;
use crate::claim::{self, AuditError};
use crate::error::NodeError;
use crate::folder::Folder;
use crate::node::lock;
use crate::spending::ChargeRow;
use crate::store::{Entry, Row, Store, StoreError};
use consenso_engine::privacy::studies::StudyCost;
use consenso_engine::privacy::{Claim, Mechanism};
use consenso_ledger::{Edited, RecordsLedger};
use serde::Serialize;

/// One study of a ledger.
#[derive(Clone, Debug, Serialize)]
pub struct StudyLine {
    /// Its number.
    pub study: i64,
    /// SHA-256 of what is run.
    pub experiment: String,
    /// When it began.
    pub began: String,
    /// `unfinished`, `finished` or `abandoned`.
    pub state: &'static str,
    /// Releases so far.
    pub releases: u32,
    /// Those that used records.
    pub charged: u32,
    /// ε that was reserved when it began; nothing where nothing is claimed.
    pub reserved: Option<f64>,
    /// ε that its charges prove so far.
    pub spent: Option<f64>,
    /// What counts for it among all studies.
    pub counts: Option<StudyCost>,
    /// What the sites agreed to change since it began.
    pub changes: Vec<AgreementSummary>,
}

/// Lists the studies of a verified ledger.
///
/// # Errors
/// Events that no accountant takes.
pub fn list(rows: &[Row]) -> Result<Vec<StudyLine>, AuditError> {
    let audited = claim::audit(rows)?;
    let line = |study: claim::Audited| StudyLine {
        state: match (&study.ended, given_up(rows, study.study)) {
            (_, Some(_)) => "abandoned",
            (Some(_), None) => "finished",
            (None, None) => "unfinished",
        },
        counts: cost_of(rows, study.study),
        study: study.study,
        experiment: study.experiment,
        began: study.began,
        releases: study.releases,
        charged: study.charged,
        reserved: study.claimed.as_ref().map(|c| c.epsilon),
        spent: study.recomputed.map(|r| r.epsilon),
        changes: study.changes,
    };
    Ok(audited.into_iter().map(line).collect())
}

/// What a study that was given up costs; `None` for all others.
pub(crate) fn given_up(rows: &[Row], study: i64) -> Option<StudyCost> {
    rows.iter().find_map(|row| match &row.entry {
        Entry::Abandoned { cost, .. } if row.study == study => Some(*cost),
        _ => None,
    })
}

/// What counts for a study among all: what it reserved, or what is left of that.
pub(crate) fn cost_of(rows: &[Row], study: i64) -> Option<StudyCost> {
    given_up(rows, study).or_else(|| {
        rows.iter().find_map(|row| match &row.entry {
            Entry::Study { claim: Some(claim), cost, .. } if row.study == study => {
                Some(reserved(claim, *cost))
            }
            _ => None,
        })
    })
}

fn reserved(claim: &Claim, cost: Option<StudyCost>) -> StudyCost {
    cost.unwrap_or_else(|| StudyCost::claimed(claim.epsilon, claim.delta))
}

/// What charged releases cost of what was reserved, however their number was chosen.
#[must_use]
pub fn spent(charges: &[ChargeRow], reserved: StudyCost) -> StudyCost {
    if charges.is_empty() {
        return StudyCost { mu: Some(0.0), rho: Some(0.0), ..StudyCost::claimed(0.0, 0.0) };
    }
    // Every entry of a charge is a valid description of the same release: the cheapest of a kind
    // counts.
    let sum = |of: fn(&Mechanism) -> Option<f64>| {
        charges.iter().try_fold(0.0f64, |total, charge| {
            let one = charge
                .values()
                .filter_map(|e| Some(of(&e.mechanism)? * e.count as f64))
                .reduce(f64::min)?;
            Some((total + one).next_up())
        })
    };
    let mu_squared = sum(|m| match m {
        Mechanism::Gaussian { mu } => Some((mu * mu).next_up()),
        _ => None,
    });
    let rho = sum(|m| match m {
        Mechanism::Gaussian { mu } => Some((0.5 * mu * mu).next_up()),
        Mechanism::Laplace { epsilon } | Mechanism::Pure { epsilon } => {
            Some((0.5 * epsilon * epsilon).next_up())
        }
        Mechanism::Zcdp { rho } => Some(*rho),
        _ => None,
    });
    let pure = sum(|m| match m {
        Mechanism::Laplace { epsilon } | Mechanism::Pure { epsilon } => Some(*epsilon),
        _ => None,
    });
    let least = |found: Option<f64>, reserved: Option<f64>| match (found, reserved) {
        (Some(found), Some(reserved)) => Some(found.min(reserved)),
        // What the whole study has no μ or ρ for has something beside its charges, a δ for rounding
        // say: its parts have none either.
        (_, reserved) => reserved,
    };
    StudyCost {
        epsilon: pure.map_or(reserved.epsilon, |pure| pure.min(reserved.epsilon)),
        // Also where charges are pure: a proof may leave out events of its own.
        delta: reserved.delta,
        mu: least(mu_squared.map(|m| m.sqrt().next_up()), reserved.mu),
        rho: least(rho, reserved.rho),
        tau: reserved.tau,
    }
}

/// A study that was given up.
#[derive(Clone, Debug, Serialize)]
pub struct GivenUp {
    /// Its number.
    pub study: i64,
    /// What it reserved.
    pub reserved: Option<StudyCost>,
    /// What stays spent.
    pub spent: Option<StudyCost>,
    /// Whether the folder is an old copy, so that nobody knows what else was released: all of it
    /// stays spent.
    pub old_copy: bool,
}

/// Gives up an unfinished study: what it charged stays spent, the rest of what it reserved is free
/// again. `which` is its number, or the beginning of its digest. Called again it changes nothing.
///
/// # Errors
/// A site that runs, no such study, or one that is finished.
pub fn abandon(folder: &Folder, which: &str) -> Result<GivenUp, NodeError> {
    let _lock = lock(folder)?;
    let mut store: Store = admission::ledger(folder, 1)?;
    let outrun = match store.witnessed_by(folder.witness().as_deref()) {
        Err(StoreError::Witness { behind: true, .. }) => true,
        found => found.map(|()| false)?,
    };
    let rows = store.rows()?;
    let listed = list(&rows)?;
    let found: Vec<&StudyLine> = listed
        .iter()
        .filter(|s| {
            s.study.to_string() == which || (which.len() >= 4 && s.experiment.starts_with(which))
        })
        .collect();
    let [study] = found[..] else {
        return Err(NodeError::Experiment(format!(
            "{which}: {} studies of this ledger have that number or digest\n  help: `consenso node studies` lists them",
            found.len()
        )));
    };
    if study.state == "finished" {
        return Err(NodeError::Experiment(format!(
            "study {} is finished: all of it is spent",
            study.study
        )));
    }
    let (number, opened) = (
        study.study,
        rows.iter()
            .find(|row| row.study == study.study && matches!(row.entry, Entry::Study { .. })),
    );
    let Some(Entry::Study { claim, cost, id, .. }) = opened.map(|row| &row.entry) else {
        return Err(NodeError::Experiment(format!("study {number} never began")));
    };
    let reserved = claim.as_deref().map(|claim| reserved(claim, *cost));
    let old_copy = outrun || behind(&rows, number).is_some();
    let spent = match (given_up(&rows, number), reserved) {
        (Some(before), _) => Some(before),
        (None, Some(reserved)) if old_copy => Some(reserved),
        // Rounds that may have been released before a disk was lost are not booked one by one yet.
        (None, Some(reserved)) if spared_until(&rows, number) > study.releases => Some(reserved),
        (None, Some(reserved)) => {
            let charges: Vec<ChargeRow> =
                rows.iter().filter(|row| row.study == number).filter_map(charged).collect();
            Some(spent(&charges, reserved))
        }
        (None, None) => None,
    };
    crate::edges::destroy(&folder.path, number)
        .map_err(|cause| NodeError::System { what: "the secrets of the edges".into(), cause })?;
    if study.state != "abandoned" {
        let none = StudyCost { mu: None, rho: None, ..StudyCost::claimed(0.0, 0.0) };
        store.abandon(number, spent.unwrap_or(none))?;
    }
    // The ledger beside the records comes second: after a crash between the two it still has the
    // whole reservation.
    if let (Some(id), Some(spent)) = (id, spent) {
        RecordsLedger::open(&folder.records(), folder.ledger().as_deref(), Edited::Ask)?
            .give_back(id, spent)?;
    }
    Ok(GivenUp { study: number, reserved, spent, old_copy })
}

/// The last exchange that a neighbour proved to have and this ledger does not, and who that was, if
/// what neighbours hold was not put back since.
pub(crate) fn behind(rows: &[Row], study: i64) -> Option<(u32, u32)> {
    rows.iter().filter(|row| row.study == study).fold(None, |found, row| match row.entry {
        Entry::Behind { round, neighbour, .. } => found.max(Some((round, neighbour))),
        Entry::Restored { .. } => None,
        _ => found,
    })
}

/// Up to which exchange there may have been releases that the ledger lost: the furthest that any
/// return of the site found, for a later one may know less.
pub(crate) fn spared_until(rows: &[Row], study: i64) -> u32 {
    let until = |row: &Row| match row.entry {
        Entry::Restored { until, .. } if row.study == study => Some(until),
        _ => None,
    };
    rows.iter().filter_map(until).max().unwrap_or(0)
}

fn charged(row: &Row) -> Option<ChargeRow> {
    match &row.entry {
        Entry::Release { charge, .. } if !charge.is_empty() => Some(charge.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consenso_engine::privacy::Event;

    fn charge(norm: &str, mechanism: Mechanism) -> ChargeRow {
        ChargeRow::from([(norm.to_owned(), Event::once(mechanism))])
    }

    #[test]
    fn exactly_the_charged_part_stays() {
        let reserved = StudyCost::gaussian(1.0, 1e-6, 0.2);
        let charges: Vec<ChargeRow> =
            (0..4).map(|_| charge("l2", Mechanism::Gaussian { mu: 0.02 })).collect();
        let part = spent(&charges, reserved);
        assert!((part.mu.unwrap() / 0.04 - 1.0).abs() < 1e-9, "√4·0.02: {part:?}");
        assert!(
            part.mu.unwrap() >= 0.04 && part.rho.unwrap() >= 0.0008,
            "never less than was spent"
        );
        assert_eq!(
            (part.epsilon, part.delta),
            (1.0, 1e-6),
            "an (ε, δ) of the whole schedule is not divided"
        );
        let none = spent(&[], reserved);
        assert_eq!((none.epsilon, none.mu), (0.0, Some(0.0)));
    }

    #[test]
    fn what_is_pure_adds_up_and_what_a_filter_charged_is_kept_whole() {
        let reserved = StudyCost::claimed(1.0, 0.0);
        let pure = spent(&[charge("l1", Mechanism::Laplace { epsilon: 0.1 })], reserved);
        assert!(
            (pure.epsilon - 0.1).abs() < 1e-12 && pure.epsilon >= 0.1 && pure.delta == 0.0,
            "{pure:?}"
        );
        let filter = Mechanism::IntervalGaussian { orders: vec![2.0], costs: vec![0.1], mu: None };
        let reserved = StudyCost::claimed(1.0, 1e-6);
        assert_eq!(spent(&[charge("filter", filter)], reserved), reserved);
    }

    /// Earlier versions reserved no μ for noise that several agents add: giving such a study up must
    /// not make one of its charges. Today's has a μ and a distance, which stays whole.
    #[test]
    fn what_was_reserved_without_a_mu_is_given_up_without_one() {
        let reserved = StudyCost::claimed(1.0, 1e-6);
        let part = spent(&[charge("l2", Mechanism::Gaussian { mu: 0.02 })], reserved);
        assert_eq!(part, reserved);
        let pure = spent(&[charge("l1", Mechanism::Pure { epsilon: 0.1 })], reserved);
        assert_eq!((pure.delta, pure.mu), (1e-6, None), "the δ of the proof stays");
        assert!(pure.epsilon < 0.11);
        let reserved = StudyCost::gaussian(1.0, 1e-6, 0.2).within(1e-60);
        let part = spent(&[charge("l2", Mechanism::Gaussian { mu: 0.02 })], reserved);
        assert!(part.mu.is_some_and(|mu| mu < 0.03) && part.tau == 1e-60, "{part:?}");
    }
}
