//! Going on inside a run: how far one transcript has come, and whether an experiment can go on from
//! there.

use super::check::Experiment;
use super::pieces::{Part, Place, RecordsDigest};
use super::planned::{Planned, resolved_algorithm};
use super::run::Instance;
use crate::gate::Ledger;
use crate::model::sha256;
use crate::record::TraceRow;
use crate::simulate::LockstepState;
use serde::{Deserialize, Serialize};

/// How far one run of one algorithm has come, to be written down and gone on from with
/// [`Job::unfinished`](super::Job::unfinished).
///
/// It holds what agents keep to themselves, so it is as private as their records. Noise that was
/// not drawn yet is not in it: whoever goes on under the operating system's entropy draws it
/// afresh, and what was drawn after this state and lost has been charged all the same.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Unfinished {
    pub(super) place: Place,
    /// What all rounds so far are a function of.
    pub(super) stamp: String,
    /// How long they took.
    pub(super) seconds: f64,
    pub(super) trace: Vec<TraceRow>,
    /// The largest number a message could have.
    pub(super) release_bound: Option<f64>,
    pub(super) network: LockstepState,
}

impl Unfinished {
    /// Where in the experiment it belongs.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Rounds exchanged.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.network.round()
    }
}

impl Experiment {
    /// Whether this experiment would have come to the same state, bit for bit: then it can go on
    /// from there. An experiment that differs in what comes later only, such as its number of
    /// rounds, can as well.
    #[must_use]
    pub fn continues(&self, records: &RecordsDigest, unfinished: &Unfinished) -> bool {
        let Some(here) = self.at_point(unfinished.place.point) else { return false };
        let Part::Algorithm(algorithm) = unfinished.place.part else { return false };
        let Some(planned) = here.planned.get(algorithm as usize) else { return false };
        let round = unfinished.round();
        // A bound for more rounds is wider. It makes no difference where no message ever came near
        // it.
        let wider = match (unfinished.release_bound, planned.release_bound) {
            (Some(old), Some(new)) => old <= new,
            (_, new) => new.is_none(),
        };
        (unfinished.release_bound == planned.release_bound
            || (wider && !unfinished.network.clamped()))
            && round <= planned.timetable.exchanges()
            && self
                .stamp_after(records, unfinished.place, round)
                .is_some_and(|s| s == unfinished.stamp)
            && here
                .curve_up_to(planned, round)
                .all(|due| unfinished.trace.iter().any(|row| row.round == due))
    }

    /// A hash of all that the first rounds of a transcript are a function of. `None` for a place
    /// without rounds.
    pub(super) fn stamp_after(
        &self,
        records: &RecordsDigest,
        place: Place,
        round: u32,
    ) -> Option<String> {
        let here = self.at_point(place.point)?;
        let Part::Algorithm(algorithm) = place.part else { return None };
        let planned = here.planned.get(algorithm as usize)?;
        // Whoever dropped out stands where it died, and a state is of one round.
        if planned.masking.is_some() && here.spec.drop_out.iter().any(|d| d.round <= round) {
            return None;
        }
        let mut spec = here.spec.clone();
        (spec.runs, spec.sweep, spec.name, spec.trace_every) = (0, None, String::new(), None);
        spec.algorithm.clear();
        let mut text = format!(
            "{} {} {} {:?} {}\n{}\n",
            env!("CARGO_PKG_VERSION"),
            if self.is_seeded() { "seed" } else { "entropy" },
            records.text(),
            here.objective,
            here.with_references,
            serde_json::to_string(&spec).ok()?,
        );
        let graph = here.graphs.get(place.run as usize)?;
        for agent in 0..graph.agents() {
            text += &format!("{:?};", graph.neighbours(agent));
        }
        if let Some(directed) = graph.directed() {
            text += &format!("{directed:?};");
        }
        let Planned { protocol, timetable, mixing, staleness, sharing, masking, account, .. } =
            planned;
        // Everything an algorithm knows: where its plan depends on the number of rounds, so does
        // this text.
        text += &format!(
            "{protocol:?} {mixing:?} {staleness} {sharing:?} {masking:?} place {}",
            planned.place
        );
        if let Some(rate) = account.batch {
            text += &format!(" batch {rate}");
        }
        text += &format!(" averages from {}\n", timetable.tail_from.min(round));
        let mut whole =
            round > timetable.rounds || planned.scouted.is_some() || account.correlated.is_some();
        for noise_schedule in account.noise_schedules() {
            let drawn = noise_schedule.noise.iter().take(round as usize);
            text +=
                &format!("{:016x};", drawn.fold(0xcbf2_9ce4_8422_2325, |h, noise| noise.hashed(h)));
            match &noise_schedule.ledger {
                Ledger::Open => {}
                Ledger::Schedule { plan, .. } => {
                    text += &format!("allowed {};", plan.allowed().min(round));
                }
                // What a filter stops depends on how it was made.
                Ledger::Filter { .. } => whole = true,
            }
        }
        if whole {
            text += &serde_json::to_string(&resolved_algorithm(planned)).ok()?;
            for noise_schedule in account.noise_schedules() {
                let hash = noise_schedule
                    .noise
                    .iter()
                    .fold(0xcbf2_9ce4_8422_2325, |h, noise| noise.hashed(h));
                text += &format!("{} {hash:016x};", noise_schedule.noise.len());
            }
        }
        Some(sha256::hex(text.as_bytes()))
    }

    /// Rounds up to this one after which a point of the curve is due.
    fn curve_up_to(&self, planned: &Planned, round: u32) -> impl Iterator<Item = u32> {
        let (every, rounds, with_references) =
            (self.trace_every, planned.timetable.rounds, self.with_references);
        (0..=round.min(rounds))
            .filter(move |r| with_references && (r.is_multiple_of(every) || *r == rounds))
    }

    /// The points of a curve so far that are due here too. What was spent by then is looked up
    /// again, for a price is of all rounds.
    pub(super) fn curve_from(
        &self,
        planned: &Planned,
        instance: &Instance,
        unfinished: &Unfinished,
    ) -> Vec<TraceRow> {
        let row = |due: u32| {
            let row = unfinished.trace.iter().find(|row| row.round == due)?;
            Some(TraceRow {
                epsilon_worst: super::run::worst_so_far(planned, due),
                epsilon_published: super::run::published_so_far(self, planned, instance, due),
                ..row.clone()
            })
        };
        self.curve_up_to(planned, unfinished.round()).filter_map(row).collect()
    }
}
