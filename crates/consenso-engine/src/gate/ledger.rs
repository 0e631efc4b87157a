//! The ledger: what an agent has been charged, and whether it may release more.
//!
//! A charge comes before its release: the gate asks, the ledger answers and has written the cost down by then.

use super::{Draft, Noise};
use crate::privacy::filter::RenyiFilter;
use crate::privacy::renyi_table::{ChargeScratch, RoundCosts};
use crate::privacy::{gaussian_interval, mixture};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Why an agent stopped using its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// All rounds are done.
    Finished,
    /// The next release would have exceeded the budget. The model so far is kept.
    BudgetSpent,
    /// The iterates left the range of the grid: the run diverged.
    OutOfRange,
    /// The user asked.
    Interrupted,
}

/// A schedule that was composed in advance.
#[derive(Debug)]
pub struct SchedulePlan {
    /// Releases whose composition stays within the budget.
    allowed: u32,
    /// Bound on one coordinate's shift, by round.
    shifts: Vec<f64>,
}

impl SchedulePlan {
    /// A schedule of which the first `allowed` releases may be made; `shifts` bounds one coordinate's shift, by round.
    #[must_use]
    pub fn new(allowed: u32, shifts: Vec<f64>) -> Self {
        Self { allowed, shifts }
    }

    /// Releases whose composition stays within the budget.
    pub(crate) fn allowed(&self) -> u32 {
        self.allowed
    }
}

/// What a filter charges by the round.
#[derive(Debug)]
pub struct FilterPlan {
    /// Costs by round, for the orders of the filter; empty for a filter without orders.
    rounds: Vec<RoundCosts>,
    /// Bound on the l2 shift over σ, by round, for a filter that adds up Σ μ²; empty for others.
    mu: Vec<f64>,
    /// β_k, or 1/σ_k, by round.
    rates: Vec<f64>,
    /// Bound on one coordinate's shift, by round.
    shifts: Vec<f64>,
}

impl FilterPlan {
    /// What releases cost by round, at rates β_k or 1/σ_k; `shifts` bounds one coordinate's shift, by round.
    #[must_use]
    pub fn new(rounds: Vec<RoundCosts>, rates: Vec<f64>, shifts: Vec<f64>) -> Self {
        Self { rounds, mu: Vec::new(), rates, shifts }
    }

    /// Adds bounds on the l2 shift over σ, by round, for a filter that adds up Σ μ².
    #[must_use]
    pub fn with_gaussian(self, mu: Vec<f64>) -> Self {
        Self { mu, ..self }
    }
}

/// One agent's account.
#[derive(Clone, Debug, Default)]
pub enum Ledger {
    /// No budget: nothing is claimed.
    #[default]
    Open,
    /// The cost of every round is known in advance, whatever the transcript.
    Schedule {
        /// What was composed.
        plan: Arc<SchedulePlan>,
        /// Releases charged.
        charged: u32,
    },
    /// The cost of a round depends on the transcript: a filter fixed in advance decides.
    Filter {
        /// What releases cost.
        plan: Arc<FilterPlan>,
        /// The budget.
        filter: RenyiFilter,
        /// Releases charged.
        charged: u32,
        /// Scratch: the costs of one release.
        costs: Vec<f64>,
        /// Scratch of the table.
        scratch: ChargeScratch,
    },
}

/// What an account must not forget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LedgerState {
    charged: u32,
    /// By track of the filter; empty for a schedule.
    spent: Vec<f64>,
}

impl Ledger {
    /// An account for a schedule composed in advance.
    #[must_use]
    pub fn schedule(plan: Arc<SchedulePlan>) -> Self {
        Self::Schedule { plan, charged: 0 }
    }

    /// An account kept by a filter.
    #[must_use]
    pub fn filter(plan: Arc<FilterPlan>, filter: RenyiFilter) -> Self {
        let costs = vec![0.0; filter.orders().len()];
        Self::Filter { plan, filter, charged: 0, costs, scratch: ChargeScratch::default() }
    }

    /// Releases charged so far.
    #[must_use]
    pub fn charged(&self) -> u32 {
        match self {
            Self::Open => 0,
            Self::Schedule { charged, .. } | Self::Filter { charged, .. } => *charged,
        }
    }

    /// The orders of a filter and what the last release, of round `round`, cost at each of them, with its μ if the filter adds up Σ μ²; `None` before the first
    /// release, and for other accounts.
    #[must_use]
    pub fn last_costs(&self, round: u32) -> Option<(&[f64], &[f64], Option<f64>)> {
        match self {
            Self::Filter { plan, filter, charged, costs, .. } if *charged > 0 => {
                let mu = filter.gaussian().and_then(|_| plan.mu.get(round as usize - 1).copied());
                Some((filter.orders(), costs, mu))
            }
            _ => None,
        }
    }

    /// The account after rounds 1 to `charged`, as far as the budget allowed them; `None` where costs depend on the transcript.
    #[must_use]
    pub fn after(&self, charged: u32) -> Option<Self> {
        match self {
            Self::Open => Some(Self::Open),
            Self::Schedule { plan, .. } => {
                Some(Self::Schedule { plan: Arc::clone(plan), charged: charged.min(plan.allowed) })
            }
            Self::Filter { .. } => None,
        }
    }

    /// How many releases a schedule that was composed in advance allows; `None` for other accounts.
    #[must_use]
    pub fn allowed(&self) -> Option<u32> {
        match self {
            Self::Schedule { plan, .. } => Some(plan.allowed),
            _ => None,
        }
    }

    pub(super) fn state(&self) -> LedgerState {
        let spent = match self {
            Self::Filter { filter, .. } => filter.state(),
            _ => Vec::new(),
        };
        LedgerState { charged: self.charged(), spent }
    }

    /// False when the state is of another kind of account.
    pub(super) fn resume(&mut self, state: &LedgerState) -> bool {
        match self {
            Self::Open => state.charged == 0 && state.spent.is_empty(),
            Self::Schedule { charged, .. } => {
                *charged = state.charged;
                state.spent.is_empty()
            }
            Self::Filter { filter, charged, .. } => {
                *charged = state.charged;
                filter.resume(&state.spent)
            }
        }
    }

    /// Books everything up to a charge as spent, released or not; a schedule's, for other accounts have none.
    pub(super) fn spend_until(&mut self, until: u32) {
        if let Self::Schedule { plan, charged } = self {
            *charged = until.min(plan.allowed).max(*charged);
        }
    }

    /// Charges the release of `round` whose public interval has these widths; the release may happen only after `Ok`.
    pub(super) fn charge(&mut self, round: u32, widths: &[f64]) -> Result<(), StopReason> {
        match self {
            // Noise without an account claims nothing.
            Self::Open => Ok(()),
            Self::Schedule { plan, charged } => {
                // Rounds are charged in order and once: a gap or a repetition would not be the schedule that was composed.
                if round > plan.allowed || round != *charged + 1 {
                    return Err(StopReason::BudgetSpent);
                }
                *charged = round;
                Ok(())
            }
            Self::Filter { plan, filter, charged, costs, scratch } => {
                let index = round as usize - 1;
                let spent = StopReason::BudgetSpent;
                let rate = *plan.rates.get(index).ok_or(spent)?;
                if !filter.orders().is_empty() {
                    plan.rounds.get(index).ok_or(spent)?.charge(widths, rate, scratch, costs);
                }
                let charged_now = match filter.gaussian() {
                    Some(_) => filter.try_charge_gaussian(costs, *plan.mu.get(index).ok_or(spent)?),
                    None => filter.try_charge(costs),
                };
                charged_now.map_err(|_| spent)?;
                *charged += 1;
                Ok(())
            }
        }
    }

    /// The realised loss of a release (Theorem 2.2): Σ_l Θ_l. A function of the private step, for the agent's own report only.
    pub(super) fn realised_loss(&self, round: u32, noise: Noise, draft: &Draft, out: &[f64]) -> f64 {
        let shifts = match self {
            Self::Open => return 0.0,
            Self::Schedule { plan, .. } => &plan.shifts,
            Self::Filter { plan, .. } => &plan.shifts,
        };
        let shift = shifts.get(round as usize - 1).copied().unwrap_or(f64::INFINITY);
        let coordinates = draft.low.iter().zip(&draft.high).zip(&draft.step).zip(out);
        coordinates
            .map(|(((low, high), step), &y)| {
                let (low, high) = (low + step, high + step);
                let loss = match noise {
                    Noise::Laplace { scale } => mixture::realised_loss(low, high, 1.0 / scale, shift, y),
                    Noise::Gaussian { sigma } => gaussian_interval::realised_loss(low, high, sigma, shift, y),
                };
                loss.map_or(f64::INFINITY, |l| l.loss)
            })
            .sum()
    }
}
