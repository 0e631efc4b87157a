//! Privacy filters: adding up costs that depend on what was released before.
//!
//! When the next release's cost is chosen by looking at the transcript (the interval mechanism: its width is a function of
//! it), a composition theorem for fixed costs does not apply. A filter does: its budget is fixed in advance, it is asked
//! *before* every release, and the release happens only if it says yes. The whole run is then private at the budget,
//! whatever the costs turned out to be. The claim is the budget, not the sum of what was spent.
//!
//! **One order.** If every release that happens keeps `Σ cost_t(a) ≤ B(a)` on every path, the run is `(a, B(a))`-RDP
//! (Feldman and Zrnic 2021, Theorem 3.1), so `B(a) = ε + ln(δa)/(a−1) − ln(1 − 1/a)` gives (ε, δ)-DP.
//!
//! **Several orders.** "Continue while some order is within its budget" keeps no single order within its budget on every
//! path, so the theorem does not cover it as it stands: a transcript could steer to the order that happens to suit it.
//! It does hold with δ divided among the `m` orders. Let `E_i` be the event that order `i` is the first in the list whose
//! spending never passed `B(a_i)`; it is a function of the transcript. On `E_i` the run coincides with the run of the
//! one-order filter of `a_i` (spending only grows, so on `E_i` that filter let through whatever this one did; and what this one refuses, no order can
//! pay for, so that one refuses it too; both have the same law given the same past), whose `E(1 − e^{ε−L})₊` is at
//! most `δ_i`. Some `E_i` always holds, so `δ(ε) = Σ_i E[(1 − e^{ε−L})₊; E_i] ≤ Σ_i δ_i = δ`. With `δ_i = δ/m` the price is
//! `ln m/(a−1)` of ε, nothing for one order.
//!
//! **zCDP.** `Σ ρ_t ≤ ρ` keeps *every* order within `ρ·a`, so no division is needed there. **Pure.** `Σ ε_t ≤ ε` is a filter
//! as it stands (Rogers, Roth, Ullman and Vadhan 2016).

use super::error::{check_delta, check_epsilon};
use super::{AccountingError, rdp, zcdp};
use serde::{Deserialize, Serialize};

/// A release was refused: it would have taken the spending past the budget. Nothing was charged.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("the release would bring the privacy cost to {spent}, past the limit of {limit}")]
pub struct OverBudget {
    /// What the spending would have become (at the order with the most left, for the Rényi filter).
    pub spent: f64,
    /// The budget it would have passed.
    pub limit: f64,
}

/// A charge that did not go through.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ChargeError {
    /// The release must not happen.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The cost itself is no cost.
    #[error(transparent)]
    BadCost(#[from] AccountingError),
}

/// Rényi filter over orders and budgets fixed in advance.
///
/// ```
/// use consenso::privacy::filter::RenyiFilter;
/// let mut filter = RenyiFilter::new(&[16.0], 1.0, 1e-6)?;
/// let mut released = 0;
/// while filter.try_charge(&[0.01]).is_ok() {
///     released += 1; // only now may the message leave
/// }
/// assert_eq!(released, 32); // B(16) = 0.3283…
/// # Ok::<(), consenso::privacy::AccountingError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RenyiFilter {
    epsilon: f64,
    delta: f64,
    orders: Vec<f64>,
    budgets: Vec<f64>,
    spent: Vec<f64>,
}

impl RenyiFilter {
    /// A filter that keeps the run (ε, δ)-DP. Budgets are `B(a) = ε + ln(δa/m)/(a−1) − ln(1 − 1/a)`, `m` orders, rounded
    /// down; orders whose budget is not positive can never pass and are kept only to keep the costs' positions.
    ///
    /// # Errors
    /// ε or δ out of range, no orders, an order not above 1, or a budget so small that no order has anything to spend.
    pub fn new(orders: &[f64], epsilon: f64, delta: f64) -> Result<Self, AccountingError> {
        check_epsilon(epsilon)?;
        check_delta(delta)?;
        if orders.is_empty() {
            return Err(AccountingError::BadLength { name: "orders", expected: 1, found: 0 });
        }
        for &order in orders {
            if !(order.is_finite() && order > 1.0) {
                return Err(AccountingError::BadParameter {
                    name: "order",
                    expected: "a finite number above 1",
                    found: order,
                });
            }
        }
        let share = (delta / orders.len() as f64).next_down();
        let budget = |&order: &f64| {
            let allowance = rdp::order_allowance(order, share);
            (epsilon + allowance).next_down() - f64::EPSILON * (epsilon + allowance.abs())
        };
        let budgets: Vec<f64> = orders.iter().map(budget).collect();
        if budgets.iter().all(|&b| b <= 0.0) {
            let reason = "at every order the conversion alone costs more than ε; choose larger orders";
            return Err(AccountingError::Unreachable { epsilon, delta, reason });
        }
        Ok(Self { epsilon, delta, orders: orders.to_vec(), spent: vec![0.0; orders.len()], budgets })
    }

    /// Charges one release before it happens: `costs[i]` is its Rényi cost at `orders()[i]`, rounded up. The release may
    /// happen if and only if this returns `Ok`.
    ///
    /// # Errors
    /// [`ChargeError::OverBudget`] if no order would stay within its budget; nothing is charged then.
    /// [`ChargeError::BadCost`] if there is not one finite, non-negative cost an order.
    pub fn try_charge(&mut self, costs: &[f64]) -> Result<(), ChargeError> {
        if costs.len() != self.orders.len() {
            let (expected, found) = (self.orders.len(), costs.len());
            return Err(AccountingError::BadLength { name: "costs", expected, found }.into());
        }
        costs.iter().try_for_each(|&cost| check_cost(cost))?;
        let after = || self.spent.iter().zip(costs).map(|(&spent, &cost)| add_up(spent, cost));
        if after().zip(&self.budgets).any(|(spent, budget)| spent <= *budget) {
            for (spent, &cost) in self.spent.iter_mut().zip(costs) {
                *spent = add_up(*spent, cost);
            }
            return Ok(());
        }
        let margin = |&(spent, limit): &(f64, f64)| spent - limit;
        let least = after().zip(self.budgets.iter().copied());
        let (spent, limit) =
            least.min_by(|a, b| margin(a).total_cmp(&margin(b))).expect("orders are not empty");
        Err(OverBudget { spent, limit }.into())
    }

    /// The orders, as given.
    pub fn orders(&self) -> &[f64] {
        &self.orders
    }

    /// The budget at each order.
    pub fn budgets(&self) -> &[f64] {
        &self.budgets
    }

    /// The spending at each order.
    pub fn spent(&self) -> &[f64] {
        &self.spent
    }

    /// Puts back the spending of an earlier process; false, and nothing changed, unless there is one amount an order.
    pub(crate) fn resume(&mut self, spent: &[f64]) -> bool {
        let fits = spent.len() == self.spent.len() && spent.iter().all(|&cost| check_cost(cost).is_ok());
        if fits {
            self.spent.copy_from_slice(spent);
        }
        fits
    }

    /// The (ε, δ) the run is private at, whatever happens.
    pub fn guarantee(&self) -> (f64, f64) {
        (self.epsilon, self.delta)
    }

    /// The share of the budget used at the order that has the most left, from 0 to 1: for a progress line, not a claim.
    pub fn used(&self) -> f64 {
        let shares = self.spent.iter().zip(&self.budgets).filter(|(_, budget)| **budget > 0.0);
        shares.map(|(spent, budget)| spent / budget).fold(f64::INFINITY, f64::min).min(1.0)
    }
}

/// A filter on one additive number: Σ ε_t ≤ ε (pure), or Σ ρ_t ≤ ρ (zCDP).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SumFilter {
    limit: f64,
    spent: f64,
}

impl SumFilter {
    /// Pure filter: the run is ε-DP.
    ///
    /// # Errors
    /// ε not positive and finite.
    pub fn pure(epsilon: f64) -> Result<Self, AccountingError> {
        check_epsilon(epsilon)?;
        Ok(Self { limit: epsilon, spent: 0.0 })
    }

    /// zCDP filter: the run is ρ-zCDP with the largest ρ that gives (ε, δ)-DP, and hence (ε, δ)-DP.
    ///
    /// # Errors
    /// ε or δ out of range.
    pub fn zcdp(epsilon: f64, delta: f64) -> Result<Self, AccountingError> {
        check_epsilon(epsilon)?;
        check_delta(delta)?;
        // ρ ↦ ε(ρ) increases and ρ ≤ ε(ρ) for δ < ½; the accepted end is the smaller one.
        let (mut low, mut high) = (0.0, 4.0 * epsilon + 4.0);
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            let fits = zcdp::epsilon_of_rho(middle, delta) * (1.0 + super::round::SLACK) <= epsilon;
            if fits { low = middle } else { high = middle }
        }
        if low <= 0.0 {
            let reason = "no positive ρ converts to so small an ε";
            return Err(AccountingError::Unreachable { epsilon, delta, reason });
        }
        Ok(Self { limit: low, spent: 0.0 })
    }

    /// Charges one release before it happens.
    ///
    /// # Errors
    /// [`ChargeError::OverBudget`] if the sum would pass the limit, with nothing charged; [`ChargeError::BadCost`] if the
    /// cost is negative or not finite.
    pub fn try_charge(&mut self, cost: f64) -> Result<(), ChargeError> {
        check_cost(cost)?;
        let spent = add_up(self.spent, cost);
        if spent > self.limit {
            return Err(OverBudget { spent, limit: self.limit }.into());
        }
        self.spent = spent;
        Ok(())
    }

    /// The limit.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// The sum so far, rounded up.
    pub fn spent(&self) -> f64 {
        self.spent
    }
}

fn add_up(spent: f64, cost: f64) -> f64 {
    // Adding to or from zero is exact, and a single release may use the whole budget.
    if cost == 0.0 || spent == 0.0 {
        return spent + cost;
    }
    (spent + cost).next_up()
}

fn check_cost(cost: f64) -> Result<(), AccountingError> {
    if cost.is_finite() && cost >= 0.0 {
        return Ok(());
    }
    Err(AccountingError::BadParameter { name: "cost", expected: "a finite number, 0 or more", found: cost })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_release_is_not_charged_and_a_smaller_one_may_follow() {
        let mut filter = SumFilter::pure(1.0).unwrap();
        filter.try_charge(0.75).unwrap();
        let refusal = filter.try_charge(0.5).unwrap_err();
        assert!(matches!(refusal, ChargeError::OverBudget(OverBudget { limit: 1.0, .. })));
        assert_eq!(filter.spent(), 0.75);
        filter.try_charge(0.125).unwrap();
    }

    #[test]
    fn one_order_spends_exactly_its_conversion() {
        let filter = RenyiFilter::new(&[32.0], 1.0, 1e-6).unwrap();
        let budget = filter.budgets()[0];
        let epsilon = rdp::convert(budget, 32.0, 1e-6);
        assert!(epsilon <= 1.0 && epsilon > 1.0 - 1e-12, "{epsilon}");
    }

    #[test]
    fn several_orders_share_delta() {
        let (one, two) =
            (RenyiFilter::new(&[32.0], 1.0, 1e-6).unwrap(), RenyiFilter::new(&[32.0, 64.0], 1.0, 1e-6));
        let price = one.budgets()[0] - two.unwrap().budgets()[0];
        assert!((price - 2f64.ln() / 31.0).abs() < 1e-12, "{price}");
    }

    #[test]
    fn any_order_within_its_budget_keeps_the_run_going() {
        let mut filter = RenyiFilter::new(&[16.0, 64.0], 1.0, 1e-6).unwrap();
        // Costs that grow fast with the order exhaust 64 first; 16 carries on alone until its own budget.
        let budget = filter.budgets()[0];
        let mut spent = 0.0;
        while filter.try_charge(&[0.001, 0.1]).is_ok() {
            spent += 0.001;
        }
        assert!(spent <= budget && spent + 0.001 > budget * (1.0 - 1e-9));
        assert!(filter.spent()[1] > filter.budgets()[1]);
    }

    #[test]
    fn a_filter_never_passes_its_limit_by_rounding() {
        let mut filter = SumFilter::pure(1.0).unwrap();
        let mut releases = 0;
        while filter.try_charge(0.1).is_ok() {
            releases += 1;
        }
        // Ten times the float 0.1 is above 1.
        assert_eq!(releases, 9);
    }

    #[test]
    fn the_zcdp_filter_fits_its_budget() {
        let filter = SumFilter::zcdp(1.0, 1e-6).unwrap();
        let epsilon = zcdp::epsilon_of_rho(filter.limit(), 1e-6);
        assert!(epsilon <= 1.0 && epsilon > 1.0 - 1e-9);
    }

    #[test]
    fn bad_requests_are_refused() {
        assert!(RenyiFilter::new(&[], 1.0, 1e-6).is_err());
        assert!(RenyiFilter::new(&[1.0], 1.0, 1e-6).is_err());
        assert!(RenyiFilter::new(&[f64::NAN], 1.0, 1e-6).is_err());
        assert!(RenyiFilter::new(&[2.0], 1.0, 1e-6).unwrap_err().to_string().contains("larger orders"));
        assert!(RenyiFilter::new(&[32.0], 0.0, 1e-6).is_err());
        assert!(SumFilter::pure(f64::INFINITY).is_err());
        let mut filter = RenyiFilter::new(&[32.0], 1.0, 1e-6).unwrap();
        assert!(matches!(filter.try_charge(&[f64::NAN]), Err(ChargeError::BadCost(_))));
        assert!(matches!(filter.try_charge(&[-1.0]), Err(ChargeError::BadCost(_))));
        assert!(matches!(filter.try_charge(&[0.0, 0.0]), Err(ChargeError::BadCost(_))));
    }
}
