//! The noise of an algorithm and what it costs.

use super::spec::{ExperimentSpec, NoiseSpec};
use crate::data::RowBounds;
use crate::gate::{Gate, Ledger, Noise};
use crate::graph::Graph;
use crate::problem::Objective;
use crate::protocol::{Protocol, PublicFacts};
use crate::random::Seed;
use std::sync::Arc;

/// What all algorithms of an experiment share.
pub(super) struct Context<'a> {
    pub(super) spec: &'a ExperimentSpec,
    pub(super) objective: &'a Objective,
    pub(super) bounds: &'a RowBounds,
    pub(super) counts: &'a [usize],
}

/// The noise of every round.
#[derive(Debug)]
pub(super) struct Budget {
    noise: Arc<[Noise]>,
    pub(super) noise_spec: Option<NoiseSpec>,
    pub(super) warnings: Vec<String>,
}

impl Budget {
    /// The gate of one agent.
    pub(super) fn gate(&self, agent: usize, seed: &Seed) -> Gate {
        Gate::new(agent as u64, seed.clone(), Arc::clone(&self.noise), Ledger::Open)
    }

    /// The noise in words.
    pub(super) fn describe(&self) -> String {
        match (self.noise.first(), self.noise.last()) {
            (Some(Noise::Laplace { scale: a }), Some(Noise::Laplace { scale: b })) => {
                format!("Laplace, scale {a:.3e} to {b:.3e}")
            }
            (Some(Noise::Gaussian { sigma: a }), Some(Noise::Gaussian { sigma: b })) => {
                format!("Gaussian, σ {a:.3e} to {b:.3e}")
            }
            _ => "none".into(),
        }
    }
}

/// Rounds when the file leaves them open.
pub(super) fn default_rounds(_: &PublicFacts) -> u32 {
    200
}

/// Mixing rounds when the file leaves them open: enough to shrink the agents' differences a hundredfold.
pub(super) fn default_gossip(facts: &PublicFacts) -> u32 {
    let rate = facts.mixing.clamp(0.0, 0.999);
    if rate < 1e-3 { 1 } else { (0.01f64.ln() / rate.ln()).ceil().clamp(1.0, 100.0) as u32 }
}

pub(super) fn plan(
    _: &dyn Protocol,
    noise: Option<&NoiseSpec>,
    facts: &PublicFacts,
    context: &Context<'_>,
    _: &[Arc<Graph>],
) -> Result<Budget, String> {
    let _ = (context.spec, context.objective, context.bounds, context.counts);
    let each = |k: u32| match noise {
        None | Some(NoiseSpec::None) => Noise::None,
        Some(NoiseSpec::LaplaceRate(s)) => Noise::Laplace { scale: 1.0 / s.at(k) },
        Some(NoiseSpec::LaplaceScale(s)) => Noise::Laplace { scale: s.at(k) },
        Some(NoiseSpec::Gaussian(s)) => Noise::Gaussian { sigma: s.at(k) },
    };
    Ok(Budget {
        noise: (1..=facts.rounds).map(each).collect(),
        noise_spec: noise.cloned(),
        warnings: Vec::new(),
    })
}
