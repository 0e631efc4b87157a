//! The ledger: what an agent has been charged, and whether it may release more.

use serde::{Deserialize, Serialize};

/// Why an agent stopped using its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// All rounds are done.
    Finished,
    /// The next release would have exceeded the budget. The model so far is kept.
    BudgetSpent,
    /// The user asked.
    Interrupted,
}

/// One agent's account.
#[derive(Clone, Debug, Default)]
pub enum Ledger {
    /// No budget: nothing is claimed.
    #[default]
    Open,
}

impl Ledger {
    /// Charges the release of `round` whose public interval is [`low`, `high`].
    pub(super) fn charge(&mut self, _round: u32, _low: &[f64], _high: &[f64]) -> Result<(), StopReason> {
        match self {
            Self::Open => Ok(()),
        }
    }
}
