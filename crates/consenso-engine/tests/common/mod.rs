//! What the tests of whole runs share.

use consenso_engine::account::testing;
use consenso_engine::agent::{Player, Timetable};
use consenso_engine::gate::{Gate, Ledger, Noise, RoundNoise};
use consenso_engine::problem::LocalObjective;
use consenso_engine::protocol::Protocol;
use consenso_engine::random::Seed;
use std::sync::Arc;

/// What stands between the agents and the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Door {
    /// No noise.
    Open,
    /// The noise of every round from 1, and how many releases the budget is for, if there is one.
    Noisy { noise: fn(u32) -> Noise, budget: Option<u32> },
}

impl Door {
    fn gate(self, agent: u64, rounds: u32, seed: &Seed) -> Gate {
        let Self::Noisy { noise, budget } = self else {
            return Gate::open(agent, seed.clone());
        };
        let noise: Arc<[RoundNoise]> =
            (1..=rounds).map(|k| RoundNoise::new(noise(k)).expect("a scale")).collect();
        let ledger = budget.map_or(Ledger::Open, |allowed| testing::ledger(allowed, rounds));
        testing::gate(agent, seed.clone(), noise, ledger)
    }
}

/// A player an agent, all of one protocol.
pub(crate) fn players(
    locals: &[LocalObjective],
    protocol: &Arc<dyn Protocol>,
    timetable: &Timetable,
    door: Door,
    seed: &Seed,
) -> Vec<Player> {
    let timetable = Arc::new(timetable.clone());
    let player = |(i, local): (usize, &LocalObjective)| {
        let gate = door.gate(i as u64, timetable.rounds, seed);
        Player::new(local.clone(), Arc::clone(protocol), Arc::clone(&timetable), gate)
    };
    locals.iter().enumerate().map(player).collect()
}
