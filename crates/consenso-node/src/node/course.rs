//! Where a run stands on its way to its end, and when it last moved.

use super::SLOW;
use consenso_engine::gate::StopReason;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// From the first link to the last goodbye.
pub(super) struct Course {
    /// Set from outside to have the run end.
    asked: Arc<AtomicBool>,
    /// Since when it is to end after the round.
    pub(super) stop: Option<Instant>,
    /// Since when all neighbours have been connected once.
    connected: Option<Instant>,
    /// Since when nothing more will be released, and why.
    pub(super) done: Option<(Instant, StopReason)>,
    /// Whether the ledger says that all neighbours have everything.
    pub(super) settled: bool,
    /// How long the last draft took.
    drafted: Duration,
    /// When the last release went out.
    pub(super) released_at: Instant,
    /// When those who wait for this site were last told that it waits too.
    pub(super) sign_of_life: Instant,
    /// Releases since it last had nothing to do.
    moves: u32,
}

impl Course {
    pub(super) fn new(asked: Arc<AtomicBool>, settled: bool) -> Self {
        Self {
            asked,
            stop: None,
            connected: None,
            done: None,
            settled,
            drafted: SLOW,
            released_at: Instant::now(),
            sign_of_life: Instant::now(),
            moves: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.done.is_some()
    }

    /// Nothing more will be released.
    pub(super) fn finish(&mut self, reason: StopReason) {
        self.done = Some((Instant::now(), reason));
    }

    /// Looks whether somebody asked for the end.
    pub(super) fn look_for_a_stop(&mut self) {
        if self.asked.load(Ordering::Relaxed) {
            self.stop.get_or_insert_with(Instant::now);
        }
    }

    /// All neighbours are connected.
    pub(super) fn connect(&mut self) {
        self.connected.get_or_insert_with(Instant::now);
    }

    /// Seconds since all neighbours were connected first.
    pub(super) fn seconds(&self) -> f64 {
        self.connected.map_or(0.0, |since| since.elapsed().as_secs_f64())
    }

    /// Whether drafts take so long that links need another thread meanwhile.
    pub(super) fn drafts_are_slow(&self) -> bool {
        self.drafted >= SLOW
    }

    /// A draft took so long. Sums of shares take no time, and the shares after them do.
    pub(super) fn drafted(&mut self, took: Duration) {
        self.drafted = took.max(self.drafted / 2);
    }

    /// A release went out.
    pub(super) fn released(&mut self) {
        (self.released_at, self.sign_of_life) = (Instant::now(), Instant::now());
    }

    /// Takes note of whether something went out just now; whether it is time to look for the end.
    /// Between two messages of a round there is nothing to end; but whoever never waits must look,
    /// too.
    pub(super) fn moved(&mut self, moved: bool) -> bool {
        self.moves = if moved { self.moves + 1 } else { 0 };
        !moved || self.moves.is_multiple_of(16)
    }
}
