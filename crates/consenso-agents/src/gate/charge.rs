//! What a release was charged, as the ledger says when it charges.

use super::Noise;
use crate::privacy::{Event, Mechanism, Sampling};
use crate::problem::Sensitivity;

/// The most Rényi orders that a ledger's filter has: each has its share of δ, so there are few.
pub(crate) const MOST_ORDERS: usize = 4;

/// What one release was charged: what a [`Ledger`](super::Ledger) says when it charges, and what is
/// written down of it.
///
/// It is plain numbers, so that a simulation of millions of releases makes none of them on the
/// heap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Charge {
    /// Nothing: the message is a function of what was released before, or nothing is claimed of it.
    #[default]
    Nothing,
    /// Noise on a private step, at a price that was composed in advance.
    Step {
        /// How far the step moves between neighbouring data sets.
        shift: Sensitivity,
        /// What hides it.
        noise: Noise,
        /// How many numbers it has.
        dim: usize,
        /// How the records it is about were drawn, where not all were.
        sampling: Option<Sampling>,
    },
    /// Noise inside a problem, at a price of its own.
    Inside(InsideCost),
    /// Noise on a step, priced at the actual widths of its interval: through a filter, and not
    /// otherwise.
    Filter(FilterCost),
}

/// What a release costs whose noise stood inside a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum InsideCost {
    /// It is ε-differentially private, and nothing else is known.
    Pure {
        /// ε.
        epsilon: f64,
    },
    /// Its Rényi divergence is known at one order.
    Renyi {
        /// The order, above 1.
        order: f64,
        /// The cost.
        cost: f64,
    },
}

/// What a release costs that a filter let through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterCost {
    /// How many orders there are.
    count: usize,
    orders: [f64; MOST_ORDERS],
    costs: [f64; MOST_ORDERS],
    bound: WidestCost,
}

/// What a release costs whatever the widths are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum WidestCost {
    /// A pure ε, under Laplace noise.
    Pure(f64),
    /// The l2 shift over σ, under Gaussian noise, where the filter adds up Σ μ².
    Mu(Option<f64>),
}

impl FilterCost {
    pub(super) fn new(orders: &[f64], costs: &[f64], bound: WidestCost) -> Self {
        let mut all = [[0.0; MOST_ORDERS]; 2];
        for (room, values) in all.iter_mut().zip([orders, costs]) {
            room[..values.len()].copy_from_slice(values);
        }
        let [first, second] = all;
        Self { count: orders.len(), orders: first, costs: second, bound }
    }

    fn mechanism(&self) -> Mechanism {
        let all = |values: &[f64; MOST_ORDERS]| values[..self.count].to_vec();
        let (orders, costs) = (all(&self.orders), all(&self.costs));
        match self.bound {
            WidestCost::Pure(pure) => Mechanism::IntervalLaplace { orders, costs, pure },
            WidestCost::Mu(mu) => Mechanism::IntervalGaussian { orders, costs, mu },
        }
    }
}

impl InsideCost {
    /// The name and the event of it: costs at an order are added up by a filter, whatever they are
    /// of.
    fn event(self) -> (&'static str, Event) {
        match self {
            Self::Pure { epsilon } => ("inside", Event::pure(epsilon, 1)),
            Self::Renyi { order, cost } => {
                ("filter", Event::once(Mechanism::Renyi { orders: vec![order], costs: vec![cost] }))
            }
        }
    }
}

impl Charge {
    /// Whether nothing was charged.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// The events to write down: for noise on a step one by the norm its shift was measured in,
    /// else one that is named `filter` or `inside`. Each alone is a valid description of the
    /// release, and the best one counts; none where nothing was charged.
    #[must_use]
    pub fn events(&self) -> Vec<(&'static str, Event)> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Step { shift, noise, dim, sampling } => {
                let one = |norm: &Norm| (norm.name(), norm.event(shift, *noise, *dim, *sampling));
                Norm::that_bound(*noise, *sampling).iter().map(one).collect()
            }
            Self::Inside(cost) => vec![cost.event()],
            Self::Filter(cost) => vec![("filter", Event::once(cost.mechanism()))],
        }
    }
}

/// A norm that a shift is measured in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Norm {
    L1,
    L2,
    Linf,
}

impl Norm {
    /// The norms whose sensitivity says something under this noise. The coordinates of a sampled
    /// release share one draw, so that they are no releases apart.
    pub(crate) fn that_bound(noise: Noise, sampling: Option<Sampling>) -> &'static [Self] {
        match noise {
            Noise::Gaussian { .. } => &[Self::L2],
            Noise::Laplace { .. } if sampling.is_some() => &[Self::L1],
            Noise::Laplace { .. } => &[Self::L1, Self::L2, Self::Linf],
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::Linf => "linf",
        }
    }

    /// What a release of `dim` numbers under this noise is, by this norm of its shift.
    pub(crate) fn event(
        self,
        shift: &Sensitivity,
        noise: Noise,
        dim: usize,
        sampling: Option<Sampling>,
    ) -> Event {
        let whole = self.whole(shift, noise, dim);
        let Some(sampling) = sampling else { return whole };
        // A norm that bounds no sampled release has its event of one that draws every record, which
        // costs no less.
        let sampled = whole.drawn(sampling).filter(|_| self != Self::Linf);
        sampled.unwrap_or_else(|| self.whole(&shift.scaled(1.0 + sampling.undrawn), noise, dim))
    }

    /// The event of a release that every record is in.
    fn whole(self, shift: &Sensitivity, noise: Noise, dim: usize) -> Event {
        // What moves nothing costs nothing: a round that an earlier one was charged for.
        let ratio = |a: f64, b: f64| if a == 0.0 { 0.0 } else { (a / b).next_up() };
        match (noise, self) {
            (Noise::Gaussian { sigma }, _) => Event::gaussian(ratio(shift.l2, sigma), 1),
            (Noise::Laplace { scale }, Self::L1) => Event::laplace(ratio(shift.l1, scale), 1),
            (Noise::Laplace { scale }, Self::Linf) => {
                Event::laplace(ratio(shift.linf, scale), dim as u64)
            }
            // D_a of a Laplace shift v is at most a·v²/2, so a vector costs at most a·‖t‖₂²/(2b²):
            // ρ-zCDP.
            (Noise::Laplace { scale }, Self::L2) => {
                let v = ratio(shift.l2, scale);
                Event::zcdp((0.5 * v * v).next_up(), 1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands in a ledger on disk, whatever the type is called that it was made from.
    #[test]
    fn a_charge_is_written_down_as_it_always_was() {
        let written = |charge: Charge| {
            let rows: std::collections::BTreeMap<_, _> = charge.events().into_iter().collect();
            serde_json::to_string(&rows).unwrap()
        };
        let shift = Sensitivity { l1: 0.5, l2: 0.25, linf: 0.125 };
        let step = |shift, noise, sampling| Charge::Step { shift, noise, dim: 4, sampling };
        let laplace = step(shift, Noise::Laplace { scale: 1.0 }, None);
        assert_eq!(written(Charge::Nothing), "{}");
        assert_eq!(
            written(laplace),
            "{\"l1\":{\"mechanism\":\"laplace\",\"epsilon\":0.5000000000000001,\"count\":1},\
             \"l2\":{\"mechanism\":\"zcdp\",\"rho\":0.03125000000000002,\"count\":1},\
             \"linf\":{\"mechanism\":\"laplace\",\"epsilon\":0.12500000000000003,\"count\":4}}"
        );
        let still = Sensitivity { l1: 0.0, l2: 0.0, linf: 0.0 };
        assert_eq!(
            written(step(still, Noise::Gaussian { sigma: 2.0 }, None)),
            "{\"l2\":{\"mechanism\":\"gaussian\",\"mu\":0.0,\"count\":1}}"
        );
        let neighbours = crate::privacy::NeighbourRelation::ReplaceOne;
        let sampling = Some(Sampling::new(0.125, neighbours));
        assert_eq!(
            written(step(shift, Noise::Gaussian { sigma: 1.0 }, sampling)),
            "{\"l2\":{\"mechanism\":\"gaussian\",\"mu\":0.25000000000000006,\"sampling\":0.125,\
             \"neighbours\":\"replace-one\",\"count\":1}}"
        );
        assert_eq!(
            written(step(shift, Noise::Laplace { scale: 1.0 }, sampling)),
            "{\"l1\":{\"mechanism\":\"laplace\",\"epsilon\":0.5000000000000001,\"sampling\":0.125,\
             \"neighbours\":\"replace-one\",\"count\":1}}"
        );
        assert_eq!(
            written(Charge::Inside(InsideCost::Pure { epsilon: 0.1 })),
            "{\"inside\":{\"mechanism\":\"pure\",\"epsilon\":0.1,\"count\":1}}"
        );
        assert_eq!(
            written(Charge::Inside(InsideCost::Renyi { order: 8.0, cost: 0.25 })),
            "{\"filter\":{\"mechanism\":\"renyi\",\"orders\":[8.0],\"costs\":[0.25],\"count\":1}}"
        );
        let filtered = |bound| Charge::Filter(FilterCost::new(&[8.0, 9.0], &[0.25, 0.5], bound));
        assert_eq!(
            written(filtered(WidestCost::Pure(0.5))),
            "{\"filter\":{\"mechanism\":\"interval-laplace\",\"orders\":[8.0,9.0],\"costs\":[0.25,0.5],\"pure\":0.5,\"count\":1}}"
        );
        assert_eq!(
            written(filtered(WidestCost::Mu(None))),
            "{\"filter\":{\"mechanism\":\"interval-gaussian\",\"orders\":[8.0,9.0],\"costs\":[0.25,0.5],\"count\":1}}"
        );
        assert_eq!(
            written(Charge::Filter(FilterCost::new(&[], &[], WidestCost::Mu(Some(0.5))))),
            "{\"filter\":{\"mechanism\":\"interval-gaussian\",\"orders\":[],\"costs\":[],\"mu\":0.5,\"count\":1}}"
        );
    }
}
