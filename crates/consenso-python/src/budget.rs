//! What several fits on the same records may cost together: the ledger of a program's records.

use crate::input;
use consenso_engine::privacy::NeighbourRelation;
use consenso_engine::privacy::studies::StudyCost;
use consenso_ledger::LedgerError;
use consenso_ledger::fits::{FitBudget, FitCost};
use pyo3::prelude::*;
use serde_json::json;
use std::path::PathBuf;

/// A limit and what was charged to it, in memory or in a file that processes share.
#[pyclass(module = "consenso._core")]
#[derive(Debug)]
pub(crate) struct Budget(FitBudget);

#[pymethods]
impl Budget {
    #[new]
    #[pyo3(signature = (epsilon, delta, rule, path))]
    fn new(epsilon: f64, delta: f64, rule: Option<&str>, path: Option<PathBuf>) -> PyResult<Self> {
        let sums = match rule {
            None => false,
            Some("sum") => true,
            Some(other) => {
                return Err(input(format!("rule=\"{other}\" must be None or \"sum\"")));
            }
        };
        let by = if path.is_some() { "BudgetAccountant(path=…)" } else { "BudgetAccountant" };
        Ok(Self(FitBudget::new(epsilon, delta, by, sums, path)))
    }

    /// Books a cost before the work that has it begins; returns why not, if the limit is in the
    /// way. `copies` are records that may be of one person.
    fn spend(
        &self,
        py: Python<'_>,
        name: &str,
        charge: &str,
        copies: u32,
    ) -> PyResult<Option<String>> {
        let charge: FitCost = serde_json::from_str(charge).map_err(input)?;
        match py.detach(|| self.0.spend(name, charge, copies)) {
            Ok(()) => Ok(None),
            Err(error @ LedgerError::StudyRefused { .. }) => Ok(Some(error.to_string())),
            Err(error) => Err(input(error)),
        }
    }

    /// What was spent and what is left, as JSON.
    fn standing(&self, py: Python<'_>) -> PyResult<String> {
        let found = py.detach(|| self.0.standing()).map_err(input)?;
        let rule = (found.studies > 0).then_some(found.rule);
        Ok(json!({
            "spent": found.spent, "sum": found.sum, "remaining": found.remaining, "rule": rule,
            "studies": found.studies,
        })
        .to_string())
    }
}

/// What Gaussian releases of μ² = Σ μ_k² cost, as JSON.
pub(crate) fn gaussian(epsilon: f64, delta: f64, mu: f64, seeded: bool) -> String {
    json!({
        "cost": StudyCost::gaussian(epsilon, delta, mu), "relation": NeighbourRelation::ReplaceOne,
        "seeded": seeded,
    })
    .to_string()
}

/// What releases over secret samples cost, as JSON: (ε, δ) and nothing simpler.
pub(crate) fn sampled(epsilon: f64, delta: f64, seeded: bool) -> String {
    json!({
        "cost": StudyCost::claimed(epsilon, delta), "relation": NeighbourRelation::ReplaceOne,
        "seeded": seeded,
    })
    .to_string()
}

/// What a claim (ε, δ) costs, as JSON; `mu` says that its noise is Gaussian.
#[pyfunction]
#[pyo3(signature = (epsilon, delta, mu=None, seeded=false))]
pub(crate) fn claimed(epsilon: f64, delta: f64, mu: Option<f64>, seeded: bool) -> String {
    match mu {
        Some(mu) => gaussian(epsilon, delta, mu, seeded),
        None => json!({ "cost": StudyCost::claimed(epsilon, delta) }).to_string(),
    }
}
