//! Auditing a ledger: what its events alone prove, next to what was claimed.

use crate::agreement::{Agreement, AgreementSummary};
use crate::decisions::DecidedBy;
use crate::spending::ChargeRow;
use crate::store::{Entry, Row};
use consenso_engine::privacy::calibrate::{self, LaplaceShift};
use consenso_engine::privacy::filter::{ChargeError, RenyiFilter};
use consenso_engine::privacy::{AccountingError, Claim, Event, Mechanism, Method, compose};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One study of a ledger.
#[derive(Clone, Debug, Serialize)]
pub struct Audited {
    /// Its number.
    pub study: i64,
    /// SHA-256 of what was run.
    pub experiment: String,
    /// When it began.
    pub began: String,
    /// Whether its noise came from a seed, so that it protects nobody.
    pub seeded: bool,
    /// Releases that used records.
    pub charged: u32,
    /// Releases in all.
    pub releases: u32,
    /// Whether it ended, and why.
    pub ended: Option<String>,
    /// What was claimed and reserved when it began.
    pub claimed: Option<Claim>,
    /// What the events prove.
    pub recomputed: Option<Recomputed>,
    /// Whether what the events prove is within what was claimed.
    pub holds: bool,
    /// Neighbours the run went on without: (agent, first round, weight).
    pub without: Vec<(u32, u32, f64)>,
    /// What the sites agreed to change since it began, each signed by all that remained.
    pub changes: Vec<AgreementSummary>,
    /// By whose word the site answers, where the study asks questions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answers: Option<AnswersBy>,
}

/// By whose word a site answers the questions of a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AnswersBy {
    /// Whose.
    pub by: DecidedBy,
    /// Hash of the line of `decisions.jsonl` that says so.
    pub decision: String,
    /// When it was decided.
    pub time: String,
}

/// An ε from events alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recomputed {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// The theorem.
    pub method: Method,
    /// The norm the sensitivity was measured in, or `filter`.
    pub norm: String,
}

/// Why a verified ledger cannot be audited.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A round follows one that it cannot follow.
    #[error("row {row}: round {round} after round {before}")]
    OutOfOrder {
        /// The row.
        row: i64,
        /// Its round.
        round: u32,
        /// The round before.
        before: u32,
    },
    /// A row has no agreement of its number, or one that is not signed.
    #[error("row {row}: no agreement {number}")]
    NoAgreement {
        /// The row.
        row: i64,
        /// The agreement's number.
        number: u32,
    },
    /// A study's charges prove nothing.
    #[error("study {study}: {cause}")]
    Unproved {
        /// The study.
        study: i64,
        /// Why.
        cause: Unproved,
    },
    /// A study has charges and claims nothing.
    #[error("study {study}: charges without a claim")]
    NoClaim {
        /// The study.
        study: i64,
    },
}

/// Why charges prove no ε.
#[derive(Debug, thiserror::Error)]
pub enum Unproved {
    /// An accountant does not take them.
    #[error(transparent)]
    Refused(#[from] AccountingError),
    /// No theorem is about them.
    #[error("no theorem covers these events")]
    NoTheorem,
    /// A charge among those of a filter is not one of its own.
    #[error("charge {0} is not a filter's")]
    NotAFilters(usize),
    /// A charge is of another filter.
    #[error("charge {0} has other orders than the first")]
    OtherOrders(usize),
    /// A filter of the claim's budget does not let it through.
    #[error("charge {index}: {cause}")]
    Filtered {
        /// Which, from 0.
        index: usize,
        /// Why.
        cause: ChargeError,
    },
}

/// Audits every study of a verified ledger.
///
/// # Errors
/// Events that no accountant takes, or rounds out of order.
pub fn audit(rows: &[Row]) -> Result<Vec<Audited>, AuditError> {
    let mut auditor = Auditor::default();
    rows.iter().for_each(|row| auditor.see(row));
    auditor.finish()
}

/// Audits a ledger row by row. What it remembers grows with the number of different charges, not
/// with the number of rows: Gaussian releases with the same noise are counted.
#[derive(Debug, Default)]
pub struct Auditor {
    studies: Vec<(Audited, Tally)>,
    wrong: Option<AuditError>,
}

/// Charges, equal ones counted.
#[derive(Debug, Default)]
struct Tally {
    counted: BTreeMap<String, (ChargeRow, u64)>,
    others: Vec<ChargeRow>,
}

impl Tally {
    fn add(&mut self, charge: &ChargeRow) {
        let gaussian = |e: &Event| {
            e.count == 1
                && matches!(
                    e.mechanism,
                    Mechanism::Gaussian { .. } | Mechanism::SampledGaussian { .. }
                )
        };
        match serde_json::to_string(charge) {
            Ok(key) if charge.values().all(gaussian) => {
                self.counted.entry(key).or_insert_with(|| (charge.clone(), 0)).1 += 1;
            }
            _ => self.others.push(charge.clone()),
        }
    }

    fn charges(self) -> Vec<ChargeRow> {
        let counted = self.counted.into_values().map(|(mut charge, count)| {
            charge.values_mut().for_each(|event| event.count = count);
            charge
        });
        counted.chain(self.others).collect()
    }
}

impl Auditor {
    /// Takes in the next row of a verified ledger.
    pub fn see(&mut self, row: &Row) {
        let studies = &mut self.studies;
        if let Entry::Study { experiment, claim, seeded, time, .. } = &row.entry {
            let study = Audited {
                study: row.study,
                experiment: experiment.clone(),
                began: time.clone(),
                seeded: *seeded,
                charged: 0,
                releases: 0,
                ended: None,
                claimed: claim.as_deref().cloned(),
                recomputed: None,
                holds: true,
                without: Vec::new(),
                changes: Vec::new(),
                answers: None,
            };
            studies.push((study, Tally::default()));
            return;
        }
        let Some((study, charges)) = studies.iter_mut().rfind(|s| s.0.study == row.study) else {
            return;
        };
        match &row.entry {
            Entry::Release { round, charge, .. } => {
                // Masked sums pass numbers over when the run goes on without somebody, and only
                // then.
                let passed = !study.without.is_empty() && *round > study.releases;
                if *round != study.releases + 1 && !passed {
                    let (row, round, before) = (row.number, *round, study.releases);
                    self.wrong.get_or_insert(AuditError::OutOfOrder { row, round, before });
                }
                study.releases = *round;
                if !charge.is_empty() {
                    study.charged += 1;
                    charges.add(charge);
                }
            }
            Entry::Absent { round, neighbour, weight } => {
                study.without.push((*neighbour, *round, *weight));
            }
            Entry::Changed { number, change, agreement, .. } => {
                // Whose keys these are was checked when it was taken up.
                match Agreement::parse_kept(agreement) {
                    Ok(read)
                        if !read.signatures.is_empty()
                            && (read.number, read.change.to_string())
                                == (*number, change.clone()) =>
                    {
                        study.changes.push(read.summary());
                    }
                    _ => {
                        let (row, number) = (row.number, *number);
                        self.wrong.get_or_insert(AuditError::NoAgreement { row, number });
                    }
                }
            }
            Entry::Answers { by, decision, time } => {
                let (by, decision, time) = (*by, decision.clone(), time.clone());
                study.answers = Some(AnswersBy { by, decision, time });
            }
            Entry::Done { reason, .. } => study.ended = Some(reason.clone()),
            Entry::Budget { .. }
            | Entry::Witness { .. }
            | Entry::Study { .. }
            | Entry::Confirmed { .. }
            | Entry::Abandoned { .. }
            | Entry::Restored { .. }
            | Entry::Behind { .. }
            | Entry::Settled { .. } => {}
        }
    }

    /// What all rows come to.
    ///
    /// # Errors
    /// Events that no accountant takes, or rounds out of order.
    pub fn finish(self) -> Result<Vec<Audited>, AuditError> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        let judged = self.studies.into_iter().map(|(mut study, charges)| {
            let charges = charges.charges();
            if let Some(claim) = &study.claimed {
                let found = recompute(&charges, claim)
                    .map_err(|cause| AuditError::Unproved { study: study.study, cause })?;
                study.holds = found.epsilon <= claim.epsilon * (1.0 + 1e-9);
                study.recomputed = Some(found);
            } else if !charges.is_empty() {
                return Err(AuditError::NoClaim { study: study.study });
            }
            Ok(study)
        });
        judged.collect()
    }
}

/// The smallest ε the charges prove, at the claim's δ.
///
/// # Errors
/// Events that are refused, or that no theorem covers.
pub fn recompute(charges: &[ChargeRow], claim: &Claim) -> Result<Recomputed, Unproved> {
    let norms: BTreeSet<&String> = charges.iter().flat_map(ChargeRow::keys).collect();
    let none =
        || Recomputed { epsilon: 0.0, delta: 0.0, method: Method::Pure, norm: "none".into() };
    if charges.is_empty() {
        return Ok(none());
    }
    if norms.iter().any(|n| n.as_str() == "filter") {
        return replay(charges, claim);
    }
    let mut best: Option<Recomputed> = None;
    for norm in norms {
        // A norm says something only if every release was measured in it.
        let events: Option<Vec<Event>> = charges.iter().map(|c| c.get(norm).cloned()).collect();
        let Some(events) = events else { continue };
        // A pure claim has δ = 0, where only pure bounds answer; any δ serves to ask for them.
        let composed = compose(&events, if claim.delta > 0.0 { claim.delta } else { 1e-9 })?;
        let found = if claim.delta > 0.0 {
            composed.best()
        } else {
            composed.pure.value().map(|e| (Method::Pure, e))
        };
        if let Some((method, epsilon)) = found
            && best.as_ref().is_none_or(|b| epsilon < b.epsilon)
        {
            let delta = if method == Method::Pure { 0.0 } else { claim.delta };
            best = Some(Recomputed { epsilon, delta, method, norm: norm.clone() });
        }
    }
    if let Some(shifts) = charges.iter().map(shift).collect::<Option<Vec<LaplaceShift>>>()
        && claim.delta > 0.0
    {
        let (method, epsilon) = calibrate::joint_epsilon(&shifts, claim.delta);
        if best.as_ref().is_none_or(|b| epsilon < b.epsilon) {
            let (delta, norm) = (claim.delta, "l1, l2 and linf at once".into());
            best = Some(Recomputed { epsilon, delta, method, norm });
        }
    }
    best.ok_or(Unproved::NoTheorem)
}

/// What a charge of Laplace noise says in every norm: together they may prove less than the best of
/// them alone.
fn shift(charge: &ChargeRow) -> Option<LaplaceShift> {
    let laplace = |norm: &str| match charge.get(norm)? {
        Event { mechanism: Mechanism::Laplace { epsilon }, count, .. } => Some((*epsilon, *count)),
        _ => None,
    };
    let ((l1, 1), (linf, dim)) = (laplace("l1")?, laplace("linf")?) else { return None };
    // The event of the l2 norm is ρ = ½(‖shift‖₂/b)².
    let Mechanism::Zcdp { rho } = charge.get("l2")?.mechanism else { return None };
    Some(LaplaceShift { l1, l2: (2.0 * rho).sqrt().next_up(), linf, dim, count: 1 })
}

/// Charges a filter of the claim's budget again: what it let through once it must let through now.
fn replay(charges: &[ChargeRow], claim: &Claim) -> Result<Recomputed, Unproved> {
    let mut filter: Option<RenyiFilter> = None;
    for (index, charge) in charges.iter().enumerate() {
        let event = charge.get("filter").ok_or(Unproved::NotAFilters(index))?;
        let (orders, costs, mu) = match &event.mechanism {
            Mechanism::IntervalLaplace { orders, costs, .. }
            | Mechanism::Renyi { orders, costs } => (orders, costs, None),
            Mechanism::IntervalGaussian { orders, costs, mu } => (orders, costs, *mu),
            _ => return Err(Unproved::NotAFilters(index)),
        };
        if filter.is_none() {
            // Ledgers from before Σ μ² was added up have charges without a μ, and the filter they
            // were let through by.
            let new = if mu.is_some() { RenyiFilter::with_gaussian } else { RenyiFilter::new };
            filter = Some(new(orders, claim.epsilon, claim.delta)?);
        }
        let filter = filter.as_mut().expect("just made");
        if filter.orders() != orders || filter.gaussian().is_some() != mu.is_some() {
            return Err(Unproved::OtherOrders(index));
        }
        match mu {
            Some(mu) => filter.try_charge_gaussian(costs, mu),
            None => filter.try_charge(costs),
        }
        .map_err(|cause| Unproved::Filtered { index, cause })?;
    }
    Ok(Recomputed {
        epsilon: claim.epsilon,
        delta: claim.delta,
        method: Method::RenyiFilter,
        norm: "filter".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use consenso_engine::privacy::{Adversary, NeighbourRelation};

    fn claim() -> Claim {
        Claim {
            epsilon: 1.0,
            delta: 1e-6,
            method: Method::RenyiFilter,
            neighbours: NeighbourRelation::ReplaceOne,
            adversary: Claim::COLLUDING_NEIGHBOURS.into(),
            against: Adversary::Local,
            sampler: "exact Gaussian".into(),
            caveats: Vec::new(),
            bounds: None,
        }
    }

    /// As `state.db` has it: the first as written before Σ μ² was added up, the others since.
    fn charges(text: &str, count: usize) -> Vec<ChargeRow> {
        vec![serde_json::from_str(text).unwrap(); count]
    }

    #[test]
    fn a_filter_is_replayed_by_the_rule_its_charges_were_made_under() {
        let old = r#"{"filter":{"mechanism":"interval-gaussian","orders":[20.0,30.0],"costs":[0.01,0.015],"count":1}}"#;
        // B(20) = 1 + ln(1e-5)/19 − ln(0.95) = 0.4453: 44 releases, and one more was never let
        // through.
        assert_eq!(recompute(&charges(old, 44), &claim()).unwrap().method, Method::RenyiFilter);
        assert!(
            recompute(&charges(old, 45), &claim()).unwrap_err().to_string().contains("charge 44")
        );
        let new = r#"{"filter":{"mechanism":"interval-gaussian","orders":[],"costs":[],"mu":0.05,"count":1}}"#;
        // μ² = 0.2367² = 0.05603: 22 releases of 0.0025.
        assert_eq!(recompute(&charges(new, 22), &claim()).unwrap().epsilon, 1.0);
        assert!(
            recompute(&charges(new, 23), &claim()).unwrap_err().to_string().contains("charge 22")
        );
        let mixed: Vec<ChargeRow> = [charges(new, 1), charges(old, 1)].concat();
        assert!(recompute(&mixed, &claim()).is_err(), "two filters are not one");
        let both = r#"{"filter":{"mechanism":"interval-gaussian","orders":[20.0],"costs":[0.01],"mu":0.05,"count":1}}"#;
        let mixed: Vec<ChargeRow> =
            [charges(both, 1), charges(&both.replace(",\"mu\":0.05", ""), 1)].concat();
        assert!(recompute(&mixed, &claim()).unwrap_err().to_string().contains("other orders"));
    }
}
