//! Privacy filters: adding up costs that depend on what was released before.
//!
//! When the next release's cost is chosen by looking at the transcript (the interval mechanism: its
//! width is a function of it), a composition theorem for fixed costs does not apply. A filter does:
//! its budget is fixed in advance, it is asked *before* every release, and the release happens only
//! if it says yes. The whole run is then private at the budget, whatever the costs turned out to
//! be. The claim is the budget, not the sum of what was spent.
//!
//! **One order.** If every release that happens keeps `Σ cost_t(a) ≤ B(a)` on every path, the run
//! is `(a, B(a))`-RDP (Feldman and Zrnic 2021, Theorem 3.1), so
//! `B(a) = ε + ln(δa)/(a−1) − ln(1 − 1/a)` gives (ε, δ)-DP.
//!
//! **Several orders.** "Continue while some order is within its budget" keeps no single order
//! within its budget on every path, so the theorem does not cover it as it stands: a transcript
//! could steer to the order that happens to suit it. It does hold with δ divided among the `m`
//! orders. Let `E_i` be the event that order `i` is the first in the list whose spending never
//! passed `B(a_i)`; it is a function of the transcript. On `E_i` the run coincides with the run of
//! the one-order filter of `a_i` (spending only grows, so on `E_i` that filter let through whatever
//! this one did; and what this one refuses, no order can pay for, so that one refuses it too; both
//! have the same law given the same past), whose `E(1 − e^{ε−L})₊` is at most `δ_i`. Some `E_i`
//! always holds, so `δ(ε) = Σ_i E[(1 − e^{ε−L})₊; E_i] ≤ Σ_i δ_i = δ`. With `δ_i = δ/m` the price
//! is `ln m/(a−1)` of ε, nothing for one order.
//!
//! **A Gaussian track.** Noise that is Gaussian costs a release no more than its μ, the l2 shift
//! over σ, whatever the width of the interval: the uniform point does not depend on the records, so
//! the release is a function of that point and of a Gaussian release. `Σ μ_t² ≤ μ²` is a filter of
//! its own, exact and fully adaptive (proof in [`studies`](super::studies)), and with a share of δ
//! it is one more track of the argument above, which asks nothing of a track but that the run it
//! lets through alone is (ε, δ_i)-DP. Alone it has all of δ ([`RenyiFilter::with_gaussian`] without
//! orders); beside orders it has half, and they share the other half. At width 0 the orders alone
//! are 14 % (ε = 1, δ = 1e-6) to 24 % (2, 1e-3) too noisy; the track alone is exact.
//!
//! **zCDP.** `Σ ρ_t ≤ ρ` keeps *every* order within `ρ·a`, so no division is needed there.
//! **Pure.** `Σ ε_t ≤ ε` is a filter as it stands (Rogers, Roth, Ullman and Vadhan 2016).

use super::error::{check_delta, check_epsilon};
use super::{AccountingError, gdp, rdp, zcdp};
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
/// use consenso_dp::filter::RenyiFilter;
/// let mut filter = RenyiFilter::new(&[16.0], 1.0, 1e-6)?;
/// let mut released = 0;
/// while filter.try_charge(&[0.01]).is_ok() {
///     released += 1; // only now may the message leave
/// }
/// assert_eq!(released, 32); // B(16) = 0.3283…
/// # Ok::<(), consenso_dp::AccountingError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RenyiFilter {
    epsilon: f64,
    delta: f64,
    orders: Vec<f64>,
    budgets: Vec<f64>,
    spent: Vec<f64>,
    /// Σ μ², where the noise is Gaussian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gaussian: Option<SumFilter>,
}

impl RenyiFilter {
    /// A filter that keeps the run (ε, δ)-DP. Budgets are
    /// `B(a) = ε + ln(δa/m)/(a−1) − ln(1 − 1/a)`, `m` orders, rounded down; orders whose budget is
    /// not positive can never pass and are kept only to keep the costs' positions.
    ///
    /// # Errors
    /// ε or δ out of range, no orders, an order not above 1, or a budget so small that no order has
    /// anything to spend.
    pub fn new(orders: &[f64], epsilon: f64, delta: f64) -> Result<Self, AccountingError> {
        if orders.is_empty() {
            return Err(AccountingError::BadLength { name: "orders", expected: 1, found: 0 });
        }
        Self::tracks(orders, epsilon, delta, false)
    }

    /// A filter for Gaussian noise that also adds up `Σ μ²`: alone, with all of δ, if `orders` is
    /// empty, else with half of δ. A run goes on while `Σ μ²` or one of the orders is within its
    /// budget. It is charged with [`Self::try_charge_gaussian`].
    ///
    /// # Errors
    /// As [`Self::new`], but that there may be no orders.
    pub fn with_gaussian(
        orders: &[f64],
        epsilon: f64,
        delta: f64,
    ) -> Result<Self, AccountingError> {
        Self::tracks(orders, epsilon, delta, true)
    }

    fn tracks(
        orders: &[f64],
        epsilon: f64,
        delta: f64,
        gaussian: bool,
    ) -> Result<Self, AccountingError> {
        check_epsilon(epsilon)?;
        check_delta(delta)?;
        for &order in orders {
            if !(order.is_finite() && order > 1.0) {
                return Err(AccountingError::BadParameter {
                    name: "order",
                    expected: "a finite number above 1",
                    found: order,
                });
            }
        }
        let (for_gaussian, share) = shares(delta, orders.len(), gaussian);
        let budget = |&order: &f64| {
            let allowance = rdp::order_allowance(order, share);
            (epsilon + allowance).next_down() - f64::EPSILON * (epsilon + allowance.abs())
        };
        let budgets: Vec<f64> = orders.iter().map(budget).collect();
        let gaussian = if gaussian {
            let mu = gdp::mu_for(epsilon, for_gaussian)?;
            Some(SumFilter { limit: (mu * mu).next_down(), spent: 0.0 })
        } else {
            None
        };
        if gaussian.is_none() && budgets.iter().all(|&b| b <= 0.0) {
            let reason =
                "at every order the conversion alone costs more than ε; choose larger orders";
            return Err(AccountingError::Unreachable { epsilon, delta, reason });
        }
        Ok(Self {
            epsilon,
            delta,
            orders: orders.to_vec(),
            spent: vec![0.0; orders.len()],
            budgets,
            gaussian,
        })
    }

    /// Charges one release before it happens: `costs[i]` is its Rényi cost at `orders()[i]`,
    /// rounded up. The release may happen if and only if this returns `Ok`.
    ///
    /// # Errors
    /// [`ChargeError::OverBudget`] if no order would stay within its budget; nothing is charged
    /// then. [`ChargeError::BadCost`] if there is not one finite, non-negative cost an order, or if
    /// this filter adds up `Σ μ²` too.
    pub fn try_charge(&mut self, costs: &[f64]) -> Result<(), ChargeError> {
        self.charge(costs, None)
    }

    /// Charges one release of Gaussian noise before it happens: `mu` is its l2 shift over σ,
    /// rounded up, `costs` as in [`Self::try_charge`].
    ///
    /// # Errors
    /// As [`Self::try_charge`]; [`ChargeError::BadCost`] also for a filter that does not add up
    /// `Σ μ²`.
    pub fn try_charge_gaussian(&mut self, costs: &[f64], mu: f64) -> Result<(), ChargeError> {
        check_cost(mu)?;
        self.charge(costs, Some(mu))
    }

    fn charge(&mut self, costs: &[f64], mu: Option<f64>) -> Result<(), ChargeError> {
        if mu.is_some() != self.gaussian.is_some() {
            let (expected, found) = (self.gaussian.iter().len(), mu.iter().len());
            return Err(AccountingError::BadLength { name: "mu", expected, found }.into());
        }
        if costs.len() != self.orders.len() {
            let (expected, found) = (self.orders.len(), costs.len());
            return Err(AccountingError::BadLength { name: "costs", expected, found }.into());
        }
        costs.iter().try_for_each(|&cost| check_cost(cost))?;
        let after = || self.spent.iter().zip(costs).map(|(&spent, &cost)| add_up(spent, cost));
        let squared = mu.map(|mu| if mu == 0.0 { 0.0 } else { (mu * mu).next_up() });
        let gaussian = self.gaussian.zip(squared).map(|(g, cost)| (add_up(g.spent, cost), g.limit));
        let tracks = || after().zip(self.budgets.iter().copied()).chain(gaussian);
        if tracks().any(|(spent, budget)| spent <= budget) {
            for (spent, &cost) in self.spent.iter_mut().zip(costs) {
                *spent = add_up(*spent, cost);
            }
            if let (Some(track), Some((spent, _))) = (&mut self.gaussian, gaussian) {
                track.spent = spent;
            }
            return Ok(());
        }
        let margin = |&(spent, limit): &(f64, f64)| spent - limit;
        let (spent, limit) =
            tracks().min_by(|a, b| margin(a).total_cmp(&margin(b))).expect("a filter has a track");
        Err(OverBudget { spent, limit }.into())
    }

    /// What `Σ μ²` has come to, of a filter that adds it up.
    pub fn gaussian(&self) -> Option<&SumFilter> {
        self.gaussian.as_ref()
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

    /// The spending of every track: the orders, and Σ μ² last where there is one.
    pub fn state(&self) -> Vec<f64> {
        self.spent.iter().copied().chain(self.gaussian.map(|g| g.spent)).collect()
    }

    /// Puts back the spending of an earlier process; false, and nothing changed, unless there is
    /// one amount a track.
    pub fn resume(&mut self, spent: &[f64]) -> bool {
        let tracks = self.spent.len() + self.gaussian.iter().len();
        let fits = spent.len() == tracks && spent.iter().all(|&cost| check_cost(cost).is_ok());
        if fits {
            let (orders, gaussian) = spent.split_at(self.spent.len());
            self.spent.copy_from_slice(orders);
            if let (Some(track), Some(&spent)) = (&mut self.gaussian, gaussian.first()) {
                track.spent = spent;
            }
        }
        fits
    }

    /// The (ε, δ) the run is private at, whatever happens.
    pub fn guarantee(&self) -> (f64, f64) {
        (self.epsilon, self.delta)
    }

    /// The share of the budget used at the order that has the most left, from 0 to 1: for a
    /// progress line, not a claim.
    pub fn used(&self) -> f64 {
        let orders = self.spent.iter().copied().zip(self.budgets.iter().copied());
        let tracks = orders.chain(self.gaussian.map(|g| (g.spent, g.limit)));
        let shares = tracks.filter(|(_, budget)| *budget > 0.0);
        shares.map(|(spent, budget)| spent / budget).fold(f64::INFINITY, f64::min).min(1.0)
    }
}

/// How δ is divided: the part of `Σ μ²`, and the part of each of `orders` orders.
fn shares(delta: f64, orders: usize, gaussian: bool) -> (f64, f64) {
    let for_gaussian = match (gaussian, orders) {
        (false, _) => 0.0,
        (true, 0) => delta,
        (true, _) => 0.5 * delta,
    };
    // Division by a number of orders is the only rounding.
    let each = if gaussian { 0.5 * delta } else { delta } / orders.max(1) as f64;
    (for_gaussian, each.next_down())
}

/// The smallest ε whose filter at `delta` would have let through releases that cost `spent[i]` at
/// `orders[i]` and `Σ μ²` in all, if that is known: how much of a budget is used so far, for a
/// gauge. The claim of a run is its filter's budget, fixed in advance.
#[must_use]
pub fn epsilon_spent(orders: &[f64], spent: &[f64], mu_squared: Option<f64>, delta: f64) -> f64 {
    let (for_gaussian, share) = shares(delta, orders.len(), mu_squared.is_some());
    let one = |(&order, &cost): (&f64, &f64)| (cost - rdp::order_allowance(order, share)).max(0.0);
    let orders = orders.iter().zip(spent).map(one);
    let gaussian =
        mu_squared.map(|square| gdp::epsilon_of_mu(square.sqrt().next_up(), for_gaussian));
    orders.chain(gaussian).fold(f64::INFINITY, f64::min)
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
    /// [`ChargeError::OverBudget`] if the sum would pass the limit, with nothing charged;
    /// [`ChargeError::BadCost`] if the cost is negative or not finite.
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
    Err(AccountingError::BadParameter {
        name: "cost",
        expected: "a finite number, 0 or more",
        found: cost,
    })
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
        let (one, two) = (
            RenyiFilter::new(&[32.0], 1.0, 1e-6).unwrap(),
            RenyiFilter::new(&[32.0, 64.0], 1.0, 1e-6),
        );
        let price = one.budgets()[0] - two.unwrap().budgets()[0];
        assert!((price - 2f64.ln() / 31.0).abs() < 1e-12, "{price}");
    }

    #[test]
    fn any_order_within_its_budget_keeps_the_run_going() {
        let mut filter = RenyiFilter::new(&[16.0, 64.0], 1.0, 1e-6).unwrap();
        // Costs that grow fast with the order exhaust 64 first; 16 carries on alone until its own
        // budget.
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

    /// The largest μ at (ε, δ), by scipy's normal distribution and root finder. At width 0 the run
    /// may spend all of it; four orders may spend 12 to 19 % less.
    #[test]
    fn without_widths_gaussian_noise_spends_the_whole_budget_and_no_more() {
        for (epsilon, delta, mu, orders_alone) in [
            (1.0, 1e-6, 0.236_704_380_663_436_6, 0.8795),
            (2.0, 1e-3, 0.691_927_002_141_748_1, 0.8100),
            (0.25, 1e-5, 0.075_269_888_254_683_67, 0.8381),
            (4.0, 1e-9, 0.672_131_690_080_813_1, 0.9247),
        ] {
            let lets = |mut filter: RenyiFilter, mu: f64| {
                let one = mu / 10.0;
                let costs: Vec<f64> = filter.orders().iter().map(|a| 0.5 * a * one * one).collect();
                (0..100).all(|_| match filter.gaussian() {
                    Some(_) => filter.try_charge_gaussian(&costs, one).is_ok(),
                    None => filter.try_charge(&costs).is_ok(),
                })
            };
            let alone = || RenyiFilter::with_gaussian(&[], epsilon, delta).unwrap();
            assert!(lets(alone(), mu * (1.0 - 1e-9)), "{epsilon} {delta}");
            assert!(!lets(alone(), mu * (1.0 + 1e-9)), "{epsilon} {delta}");
            // The best four orders, all the same: what a filter of four orders can spend at most.
            let best = (3..4000)
                .map(|k| 1.0 + f64::from(k) * 0.1)
                .filter_map(|a| RenyiFilter::new(&[a; 4], epsilon, delta).ok())
                .map(|f| (2.0 * f.budgets()[0].max(0.0) / f.orders()[0]).sqrt())
                .fold(0.0, f64::max);
            assert!((best / mu - orders_alone).abs() < 1e-3, "{epsilon} {delta}: {}", best / mu);
        }
    }

    #[test]
    fn a_gaussian_track_beside_orders_has_half_of_delta_and_charges_both() {
        let mut both = RenyiFilter::with_gaussian(&[16.0, 40.0], 1.0, 1e-6).unwrap();
        let half = gdp::mu_for(1.0, 5e-7).unwrap();
        assert!((both.gaussian().unwrap().limit() / (half * half) - 1.0).abs() < 1e-12);
        assert_eq!(both.budgets(), RenyiFilter::new(&[16.0, 40.0], 1.0, 5e-7).unwrap().budgets());
        // Orders that are spent do not stop Σ μ², nor the other way round.
        while both.try_charge_gaussian(&[0.1, 0.1], 0.01).is_ok() {}
        assert!(both.spent().iter().zip(both.budgets()).all(|(s, b)| s > b));
        assert!(both.gaussian().unwrap().spent() <= both.gaussian().unwrap().limit());
        let mut wide = RenyiFilter::with_gaussian(&[16.0, 40.0], 1.0, 1e-6).unwrap();
        while wide.try_charge_gaussian(&[1e-4, 1e-4], 0.1).is_ok() {}
        assert!(wide.gaussian().unwrap().spent() > wide.gaussian().unwrap().limit());
        let kept = wide.state();
        let mut again = RenyiFilter::with_gaussian(&[16.0, 40.0], 1.0, 1e-6).unwrap();
        assert!(again.resume(&kept) && again == wide);
        assert!(!again.resume(&kept[..2]), "spending of a filter without Σ μ²");
        assert!(
            wide.try_charge(&[0.0, 0.0]).is_err()
                && wide.try_charge_gaussian(&[0.0, 0.0], f64::NAN).is_err()
        );
        let mut orders_only = RenyiFilter::new(&[16.0], 1.0, 1e-6).unwrap();
        assert!(matches!(
            orders_only.try_charge_gaussian(&[0.0], 0.0),
            Err(ChargeError::BadCost(_))
        ));
    }

    #[test]
    fn what_was_spent_is_the_budget_that_would_just_have_let_it_through() {
        for (orders, spent, square) in [
            (&[][..], &[][..], Some(0.01)),
            (&[20.0, 30.0], &[0.1, 0.2], Some(0.05)),
            (&[20.0], &[0.1], None),
        ] {
            let epsilon = epsilon_spent(orders, spent, square, 1e-6);
            for (factor, fits) in [(1.0 + 1e-9, true), (1.0 - 1e-9, false)] {
                let new =
                    if square.is_some() { RenyiFilter::with_gaussian } else { RenyiFilter::new };
                let mut filter = new(orders, epsilon * factor, 1e-6).unwrap();
                let charged = match square {
                    Some(square) => filter.try_charge_gaussian(spent, square.sqrt()),
                    None => filter.try_charge(spent),
                };
                assert_eq!(charged.is_ok(), fits, "{orders:?} {factor}");
            }
        }
    }

    #[test]
    fn bad_requests_are_refused() {
        assert!(RenyiFilter::new(&[], 1.0, 1e-6).is_err());
        assert!(RenyiFilter::new(&[1.0], 1.0, 1e-6).is_err());
        assert!(RenyiFilter::new(&[f64::NAN], 1.0, 1e-6).is_err());
        assert!(
            RenyiFilter::new(&[2.0], 1.0, 1e-6).unwrap_err().to_string().contains("larger orders")
        );
        assert!(RenyiFilter::new(&[32.0], 0.0, 1e-6).is_err());
        assert!(SumFilter::pure(f64::INFINITY).is_err());
        let mut filter = RenyiFilter::new(&[32.0], 1.0, 1e-6).unwrap();
        assert!(matches!(filter.try_charge(&[f64::NAN]), Err(ChargeError::BadCost(_))));
        assert!(matches!(filter.try_charge(&[-1.0]), Err(ChargeError::BadCost(_))));
        assert!(matches!(filter.try_charge(&[0.0, 0.0]), Err(ChargeError::BadCost(_))));
    }
}
