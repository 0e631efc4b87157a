//! What several fits on the same records may cost together: a limit and what was charged to it, for
//! programs in other languages.

use crate::{LedgerError, LedgerSummary, LimitRequest, RecordsLedger, StudyRequest};
use consenso_engine::privacy::studies::StudyCost;
use consenso_engine::privacy::{Adversary, NeighbourRelation};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A limit and what was charged to it, in memory or in a file that processes share.
#[derive(Debug)]
pub struct FitBudget {
    limit: LimitRequest,
    /// Whether costs are added up, whatever is known of them.
    sums: bool,
    path: Option<PathBuf>,
    /// Whether a seeded fit counts as one with real noise.
    seeded_count: bool,
    memory: Mutex<RecordsLedger>,
}

/// What a fit costs, as `consenso_study::frames::cost` says it.
#[derive(Clone, Debug, Deserialize)]
pub struct FitCost {
    /// What it costs.
    pub cost: StudyCost,
    /// Which data sets are neighbours.
    #[serde(default)]
    pub relation: Option<NeighbourRelation>,
    /// Who may look, in words.
    #[serde(default)]
    pub adversary: Option<String>,
    /// Who may look.
    #[serde(default)]
    pub against: Option<Adversary>,
    /// Whether the noise comes from a seed.
    #[serde(default)]
    pub seeded: bool,
}

impl FitBudget {
    /// A budget in memory, or in a file. With `sums`, ε and δ are added up whatever the noise.
    ///
    /// The limit of a file is for life. Its fits draw real noise; in memory a seeded fit counts as
    /// one that does.
    #[must_use]
    pub fn new(epsilon: f64, delta: f64, by: &str, sums: bool, path: Option<PathBuf>) -> Self {
        let limit = LimitRequest::new(epsilon, delta, by).for_life();
        let (seeded_count, memory) = (path.is_none(), Mutex::new(RecordsLedger::in_memory()));
        Self { limit, sums, path, seeded_count, memory }
    }

    /// Lets a file of one session take seeded fits, as a budget in memory does.
    #[must_use]
    pub fn with_seeded(self) -> Self {
        Self { seeded_count: true, ..self }
    }

    /// Books a cost before the work that has it begins. `copies` are records that may be of one
    /// person.
    ///
    /// # Errors
    /// [`LedgerError::StudyRefused`] where the limit is in the way; a file that cannot be read or
    /// written.
    pub fn spend(&self, name: &str, charge: FitCost, copies: u32) -> Result<(), LedgerError> {
        let FitCost { cost, relation, adversary, against, seeded } = charge;
        let cost = self.known(grouped(cost, copies));
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|e| LedgerError::Entropy(e.to_string()))?;
        let id = bytes.iter().fold(String::from("fit-"), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        self.with(|ledger| {
            // What is spent by hand is a claim as those before it.
            let first = ledger.studies().next().cloned();
            let first = first.as_ref();
            let study = StudyRequest {
                id,
                name: name.to_owned(),
                cost,
                relation: relation.or(first.map(|f| f.relation)).unwrap_or_default(),
                adversary: adversary
                    .or_else(|| first.map(|f| f.adversary.clone()))
                    .unwrap_or_else(|| "every other site".into()),
                // A claim against everybody holds against whomever those before it fear.
                against: against
                    .or_else(|| first.and_then(|f| f.against))
                    .or(Some(Adversary::Local)),
                seeded: seeded && !self.seeded_count,
            };
            ledger.book(Some(&self.limit), Some(&study))
        })
    }

    /// What was spent and what is left.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn standing(&self) -> Result<LedgerSummary, LedgerError> {
        self.with(|ledger| Ok(ledger.standing()))
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut RecordsLedger) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        match &self.path {
            Some(path) => work(&mut RecordsLedger::at(path)?),
            None => work(&mut self.memory.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// The cost as it is counted.
    fn known(&self, cost: StudyCost) -> StudyCost {
        if self.sums { StudyCost { mu: None, rho: None, tau: 0.0, ..cost } } else { cost }
    }
}

/// What a cost is to somebody who has so many of the records: kε with δ(e^{kε} − 1)/(e^ε − 1), kμ,
/// k²ρ.
fn grouped(cost: StudyCost, copies: u32) -> StudyCost {
    if copies <= 1 {
        return cost;
    }
    let (k, up) = (f64::from(copies), 1.0 + 1e-12);
    // At a δ of zero no theorem but group privacy itself speaks.
    let plain = StudyCost { mu: None, rho: None, ..cost }.for_group(copies, 0.0);
    StudyCost {
        epsilon: plain.epsilon,
        delta: plain.delta,
        mu: cost.mu.map(|mu| k * mu * up),
        rho: cost.rho.map(|rho| k * k * rho * up),
        tau: cost.tau,
    }
}
