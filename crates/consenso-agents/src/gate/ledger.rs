//! The ledger: what an agent has been charged, and whether it may release more.
//!
//! A charge comes before its release: the gate asks, the ledger answers and has written the cost
//! down by then.

use super::charge::{Charge, FilterCost, InsideCost, MOST_ORDERS, WidestCost};
use super::{DraftScratch, Noise};
use crate::privacy::filter::RenyiFilter;
use crate::privacy::renyi_table::{ChargeScratch, RoundCosts};
use crate::privacy::{Sampling, gaussian_interval, mixture};
use crate::problem::Sensitivity;
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
#[derive(Clone, Debug)]
pub struct SchedulePlan {
    /// Releases whose composition stays within the budget.
    allowed: u32,
    /// How far the private step of each round moves, and how many numbers it has.
    steps: Arc<[Sensitivity]>,
    dim: usize,
    /// What hides each round, where others add a part of that; empty where it is the gate's own
    /// noise.
    hidden_by: Arc<[Noise]>,
    /// What each round costs, where the noise stands inside a problem; empty elsewhere.
    inside: Vec<InsideCost>,
    /// How records are drawn for a round, where not all are.
    sampling: Option<Sampling>,
}

impl SchedulePlan {
    /// A schedule of which the first `allowed` releases may be made; `steps` bounds how far the
    /// private step of each round moves between neighbouring data sets, a vector of `dim` numbers.
    #[must_use]
    pub fn new(allowed: u32, steps: impl Into<Arc<[Sensitivity]>>, dim: usize) -> Self {
        Self {
            allowed,
            steps: steps.into(),
            dim,
            hidden_by: Arc::from([]),
            inside: Vec::new(),
            sampling: None,
        }
    }

    /// Says how records are drawn for a round.
    #[must_use]
    pub(crate) fn with_sampling(self, sampling: Option<Sampling>) -> Self {
        Self { sampling, ..self }
    }

    /// Whether only some records are in a release.
    pub(crate) fn is_sampled(&self) -> bool {
        self.sampling.is_some()
    }

    /// Sets what each release costs whose noise stands inside a problem.
    #[must_use]
    pub(crate) fn with_inside(self, inside: Vec<InsideCost>) -> Self {
        Self { inside, ..self }
    }

    /// Releases whose composition stays within the budget.
    pub fn allowed(&self) -> u32 {
        self.allowed
    }

    /// Whether the noise stands inside a problem.
    pub(crate) fn is_inside(&self) -> bool {
        !self.inside.is_empty()
    }

    /// What a round costs under this noise of the gate's own; `None` for one that has no price.
    fn price(&self, round: u32, noise: Noise) -> Option<Charge> {
        let index = round as usize - 1;
        if let Some(cost) = self.inside.get(index) {
            return Some(Charge::Inside(*cost));
        }
        let noise = self.hidden_by.get(index).copied().unwrap_or(noise);
        let shift = *self.steps.get(index)?;
        Some(Charge::Step { shift, noise, dim: self.dim, sampling: self.sampling })
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
    /// How far the private step of each round moves, and how many numbers it has.
    steps: Arc<[Sensitivity]>,
    dim: usize,
}

impl FilterPlan {
    /// What releases cost by round, at rates β_k or 1/σ_k; `steps` bounds how far the private step
    /// of each round moves between neighbouring data sets, a vector of `dim` numbers.
    #[must_use]
    pub fn new(
        rounds: Vec<RoundCosts>,
        rates: Vec<f64>,
        steps: impl Into<Arc<[Sensitivity]>>,
        dim: usize,
    ) -> Self {
        Self { rounds, mu: Vec::new(), rates, steps: steps.into(), dim }
    }

    /// Adds bounds on the l2 shift over σ, by round, for a filter that adds up Σ μ².
    #[must_use]
    pub fn with_gaussian(self, mu: Vec<f64>) -> Self {
        Self { mu, ..self }
    }

    /// What a release costs whatever its widths are.
    fn widest(&self, index: usize, noise: Noise, adds_mu: bool) -> Option<WidestCost> {
        Some(match noise {
            Noise::Gaussian { .. } if adds_mu => WidestCost::Mu(Some(*self.mu.get(index)?)),
            Noise::Gaussian { .. } => WidestCost::Mu(None),
            Noise::Laplace { scale } => {
                let step = self.steps.get(index)?;
                WidestCost::Pure((step.l1.min(self.dim as f64 * step.linf) / scale).next_up())
            }
        })
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
    ///
    /// # Panics
    /// For a filter of more than four orders.
    #[must_use]
    pub fn filter(plan: Arc<FilterPlan>, filter: RenyiFilter) -> Self {
        assert!(
            filter.orders().len() <= MOST_ORDERS,
            "a ledger's filter has at most {MOST_ORDERS} orders"
        );
        let costs = vec![0.0; filter.orders().len()];
        Self::Filter { plan, filter, charged: 0, costs, scratch: ChargeScratch::default() }
    }

    /// Charges for a gate that adds only a part of the noise that hides it: `noise` is the whole, by
    /// round.
    #[must_use]
    pub(crate) fn hidden_by(self, noise: Arc<[Noise]>) -> Self {
        match self {
            Self::Schedule { plan, charged } => {
                let plan = SchedulePlan { hidden_by: noise, ..(*plan).clone() };
                Self::Schedule { plan: Arc::new(plan), charged }
            }
            // What a filter charges was computed from the whole already.
            other => other,
        }
    }

    /// Whether the noise stands inside a problem.
    #[doc(hidden)]
    pub fn is_inside(&self) -> bool {
        matches!(self, Self::Schedule { plan, .. } if plan.is_inside())
    }

    /// Releases charged so far.
    #[must_use]
    pub fn charged(&self) -> u32 {
        match self {
            Self::Open => 0,
            Self::Schedule { charged, .. } | Self::Filter { charged, .. } => *charged,
        }
    }

    /// What the release of `round` costs under this noise by the schedule, which is known before
    /// it: nothing where the budget does not allow it. `None` where costs depend on the transcript.
    pub(super) fn scheduled(&self, round: u32, noise: Noise) -> Option<Charge> {
        match self {
            Self::Open => Some(Charge::Nothing),
            Self::Schedule { plan, .. } if round > plan.allowed => Some(Charge::Nothing),
            Self::Schedule { plan, .. } => Some(plan.price(round, noise).unwrap_or_default()),
            Self::Filter { .. } => None,
        }
    }

    /// The account after rounds 1 to `charged`, as far as the budget allowed them; `None` where
    /// costs depend on the transcript.
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

    /// Books everything up to a charge as spent, released or not; a schedule's, for other accounts
    /// have none.
    pub(super) fn spend_until(&mut self, until: u32) {
        if let Self::Schedule { plan, charged } = self {
            *charged = until.min(plan.allowed).max(*charged);
        }
    }

    /// Charges the release of `round` under `noise` whose public interval has these widths, and
    /// says what it charged; the release may happen only after `Ok`.
    pub(super) fn charge(
        &mut self,
        round: u32,
        noise: Noise,
        widths: &[f64],
    ) -> Result<Charge, StopReason> {
        let spent = StopReason::BudgetSpent;
        match self {
            // Noise without an account claims nothing.
            Self::Open => Ok(Charge::Nothing),
            Self::Schedule { plan, charged } => {
                // Rounds are charged in order and once: a gap or a repetition would not be the
                // schedule that was composed.
                if round > plan.allowed || round != *charged + 1 {
                    return Err(spent);
                }
                let charge = plan.price(round, noise).ok_or(spent)?;
                *charged = round;
                Ok(charge)
            }
            Self::Filter { plan, filter, charged, costs, scratch } => {
                let index = round as usize - 1;
                let rate = *plan.rates.get(index).ok_or(spent)?;
                let adds_mu = filter.gaussian().is_some();
                let bound = plan.widest(index, noise, adds_mu).ok_or(spent)?;
                if !filter.orders().is_empty() {
                    plan.rounds.get(index).ok_or(spent)?.charge(widths, rate, scratch, costs);
                }
                let charged_now = if adds_mu {
                    filter.try_charge_gaussian(costs, *plan.mu.get(index).ok_or(spent)?)
                } else {
                    filter.try_charge(costs)
                };
                charged_now.map_err(|_| spent)?;
                *charged += 1;
                Ok(Charge::Filter(FilterCost::new(filter.orders(), costs, bound)))
            }
        }
    }

    /// The realised loss of a release (Theorem 2.2): Σ_l Θ_l. A function of the private step, for
    /// the agent's own report only.
    pub(super) fn realised_loss(
        &self,
        round: u32,
        noise: Noise,
        draft: &DraftScratch,
        out: &[f64],
    ) -> f64 {
        let steps = match self {
            Self::Open => return 0.0,
            Self::Schedule { plan, .. } => &plan.steps,
            Self::Filter { plan, .. } => &plan.steps,
        };
        let shift =
            steps.get(round as usize - 1).map_or(f64::INFINITY, |step| step.linf.min(step.l2));
        let coordinates = draft.low.iter().zip(&draft.high).zip(&draft.step).zip(out);
        coordinates
            .map(|(((low, high), step), &y)| {
                let (low, high) = (low + step, high + step);
                let loss = match noise {
                    Noise::Laplace { scale } => {
                        mixture::realised_loss(low, high, 1.0 / scale, shift, y)
                    }
                    Noise::Gaussian { sigma } => {
                        gaussian_interval::realised_loss(low, high, sigma, shift, y)
                    }
                };
                loss.map_or(f64::INFINITY, |l| l.loss)
            })
            .sum()
    }
}
