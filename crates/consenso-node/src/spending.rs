//! What releases have cost so far, by bounds that are quick to compute after every round.

use consenso_engine::gate::Charge;
use consenso_engine::privacy::{Event, Mechanism, Profile, filter, gdp, rdp, zcdp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one release cost, as a row of the ledger has it: an event by the name that
/// [`Charge::events`] gives it.
pub(crate) type ChargeRow = BTreeMap<String, Event>;

/// What is written down of a charge.
pub(crate) fn row(charge: &Charge) -> ChargeRow {
    charge.events().into_iter().map(|(name, event)| (name.to_owned(), event)).collect()
}

/// Sums from which an ε is read off.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Spending {
    mu_squared: f64,
    rho: f64,
    pure: f64,
    gaussian_only: bool,
    /// The orders of a filter, what was spent at each, and Σ μ² where it is added up.
    filter: Option<(Vec<f64>, Vec<f64>, Option<f64>)>,
    /// Releases that draw records, equal ones counted; no mark has them ([`Self::draws`]).
    #[serde(skip)]
    sampled: Vec<Event>,
    charged: u32,
}

impl Spending {
    pub(crate) fn new() -> Self {
        Self { gaussian_only: true, ..Self::default() }
    }

    /// Whether releases drew records: what these cost is in no mark, whose bytes are what they
    /// always were.
    pub(crate) fn draws(&self) -> bool {
        !self.sampled.is_empty()
    }

    pub(crate) fn add(&mut self, charge: &ChargeRow) {
        if charge.is_empty() {
            return;
        }
        self.charged += 1;
        let event = |norm: &str| charge.get(norm).map(|e| &e.mechanism);
        let filtered = match event("filter") {
            Some(Mechanism::IntervalGaussian { orders, costs, mu }) => Some((orders, costs, *mu)),
            Some(
                Mechanism::IntervalLaplace { orders, costs, .. }
                | Mechanism::Renyi { orders, costs },
            ) => Some((orders, costs, None)),
            _ => None,
        };
        if let Some((orders, costs, mu)) = filtered {
            let (known, sums, mu_squared) = self.filter.get_or_insert_default();
            known.clone_from(orders);
            sums.resize(orders.len(), 0.0);
            sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
            if let Some(mu) = mu {
                *mu_squared.get_or_insert(0.0) += mu * mu;
            }
            return;
        }
        // Noise inside a problem has a pure cost of its own, and what costs ε costs at most ½ε² in
        // zCDP.
        if let Some(&Mechanism::Pure { epsilon }) = event("inside") {
            self.gaussian_only = false;
            self.rho += 0.5 * epsilon * epsilon;
            self.pure += epsilon;
            return;
        }
        let drawn = charge.values().find(|e| {
            matches!(
                e.mechanism,
                Mechanism::SampledGaussian { .. } | Mechanism::SampledLaplace { .. }
            )
        });
        if let Some(drawn) = drawn {
            match self.sampled.iter_mut().find(|e| e.mechanism == drawn.mechanism) {
                Some(known) => known.count += drawn.count,
                None => self.sampled.push(drawn.clone()),
            }
            return;
        }
        match event("l2") {
            Some(Mechanism::Gaussian { mu }) => {
                self.mu_squared += mu * mu;
                self.rho += 0.5 * mu * mu;
                self.pure = f64::INFINITY;
            }
            Some(Mechanism::Zcdp { rho }) => {
                self.gaussian_only = false;
                self.rho += rho;
                self.pure += ["l1", "linf"]
                    .iter()
                    .filter_map(|n| charge.get(*n))
                    .map(pure)
                    .fold(f64::INFINITY, f64::min);
            }
            _ => {
                self.gaussian_only = false;
                (self.rho, self.pure) = (f64::INFINITY, f64::INFINITY);
            }
        }
    }

    /// An upper bound on ε at δ, up to rounding in the last digits: for a gauge, not a claim.
    pub(crate) fn epsilon(&self, delta: f64) -> f64 {
        if self.charged == 0 {
            return 0.0;
        }
        if !self.sampled.is_empty() {
            // A run draws for every release or for none.
            let profile = Profile::new(&self.sampled).ok();
            let found = profile.and_then(|p| rdp::epsilon(&p, delta).ok()?.value());
            return found.unwrap_or(f64::INFINITY);
        }
        if let Some((orders, spent, mu_squared)) = &self.filter {
            return filter::epsilon_spent(orders, spent, *mu_squared, delta);
        }
        let gaussian = if self.gaussian_only {
            gdp::epsilon_of_mu(self.mu_squared.sqrt(), delta)
        } else {
            f64::INFINITY
        };
        self.pure.min(gaussian).min(zcdp::epsilon_of_rho(self.rho, delta))
    }
}

fn pure(event: &Event) -> f64 {
    match event.mechanism {
        Mechanism::Laplace { epsilon } | Mechanism::Pure { epsilon } => {
            epsilon * event.count as f64
        }
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consenso_engine::privacy::NeighbourRelation;

    /// The gauge of `pp` and `dvp` showed the whole budget from the first round on.
    #[test]
    fn the_gauge_knows_what_noise_inside_a_problem_costs() {
        let mut spending = Spending::new();
        let charge = ChargeRow::from([("inside".to_owned(), Event::pure(0.01, 1))]);
        spending.add(&charge);
        assert!((spending.epsilon(1e-6) - 0.01).abs() < 1e-12);
        (1..400).for_each(|_| spending.add(&charge));
        let drawn = Event::gaussian(0.5, 1).sampled(0.02, NeighbourRelation::ReplaceOne).unwrap();
        let mut sampled = Spending::new();
        let row = ChargeRow::from([("l2".to_owned(), drawn)]);
        (0..300).for_each(|_| sampled.add(&row));
        let gauge = sampled.epsilon(1e-6);
        assert!(gauge > 0.1 && gauge < 2.0, "300 rounds of a fiftieth of the records: {gauge}");
        let found = spending.epsilon(1e-6);
        assert!(found > 0.2 && found < 1.5, "400 rounds of 0.01 are less than their sum: {found}");
    }
}
