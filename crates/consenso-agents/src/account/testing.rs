//! Gates with noise that nobody priced: for tests and benchmarks of what stands behind a gate, and
//! for nothing else.
//!
//! A test of a mechanism wants a noise and a budget of its own choosing, which no calibration would
//! give it. What such a gate lets through is claimed by nobody, so no code of this project but
//! tests, benchmarks and examples of the engine may use this module; `tests/library/modules.rs`
//! holds it to that.

use crate::gate::{Gate, Ledger, RoundNoise, SchedulePlan};
use crate::problem::Sensitivity;
use crate::random::Seed;
use std::sync::Arc;

/// A gate of this noise, whatever it is worth.
#[must_use]
pub fn gate(agent: u64, seed: Seed, noise: Arc<[RoundNoise]>, ledger: Ledger) -> Gate {
    Gate::new(agent, seed, noise, ledger)
}

/// A ledger that lets `allowed` of `rounds` releases through, each of which moves by 1 in every
/// norm.
#[must_use]
pub fn ledger(allowed: u32, rounds: u32) -> Ledger {
    let unit = Sensitivity { l1: 1.0, l2: 1.0, linf: 1.0 };
    Ledger::schedule(Arc::new(SchedulePlan::new(allowed, vec![unit; rounds as usize], 1)))
}
