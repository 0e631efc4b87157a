//! Where a node stands, for people and machines that watch it. Nothing here depends on the records.

use serde::Serialize;
use std::sync::{Arc, Mutex};

/// A node's state.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Progress {
    /// The site's name.
    pub site: String,
    /// Rounds complete.
    pub round: u32,
    /// Rounds whose release is out.
    pub released: u32,
    /// Rounds in all.
    pub rounds: u32,
    /// How far the last round was from the end, by what all sites know.
    pub convergence: Convergence,
    /// How far rounds before were from the end: (round, value), evenly spaced, at most [`HISTORY`]
    /// of them.
    pub history: Vec<(u32, f64)>,
    /// What the releases so far cost, an upper bound that is quick to compute; the claim of the
    /// whole run may be smaller than its last value.
    pub epsilon: Option<f64>,
    /// What the study may cost.
    pub budget: Option<f64>,
    /// Messages sent again because a link was lost.
    pub resends: u64,
    /// Messages and callers that were refused.
    pub refusals: u64,
    /// Neighbours that signed two versions of one exchange.
    pub equivocations: u32,
    /// How often a neighbour came back with less than it had shown before: an old copy, or a lost
    /// disk.
    pub went_back: u32,
    /// Neighbours that say they have more of this site than it released: one lies, or this site's
    /// folder is an old copy.
    pub ahead: u32,
    /// Agreements that hold here.
    pub agreements: u32,
    /// Whether it waits for an agreement that it signed.
    pub awaits_agreement: bool,
    /// Sites that the run goes on without.
    pub absent: u32,
    /// Milliseconds of the last durable commit.
    pub commit_ms: f64,
    /// Seconds spent drafting and noising so far: the site's own to see.
    #[serde(skip)]
    pub drafting: f64,
    /// Seconds spent on durable commits so far.
    #[serde(skip)]
    pub committing: f64,
    /// Whose message of the round is missing, and for how many seconds nothing was heard from each
    /// of them.
    pub waiting: Vec<(String, f64)>,
    /// Seconds since the last release, of a run that is not over.
    pub since_round: f64,
    /// Certificate, disk and budget.
    pub around: crate::surroundings::Surroundings,
    /// Its neighbours.
    pub neighbours: Vec<Link>,
    /// Whether the model is ready.
    pub finished: bool,
    /// Seconds from the moment all links were up to now, or to the model.
    pub seconds: f64,
}

/// A number that falls as a run converges and is made of what was sent to everybody, never of
/// records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "measure", content = "value")]
pub enum Convergence {
    /// max_j ‖x̄_j − x̄_i‖: the largest distance to a neighbour, where x̄ is the mean of what each
    /// released in about the latest quarter of the rounds.
    Disagreement(f64),
    /// How far the mean of what about the latest eighth of the rounds revealed to all is from that
    /// of the latest half: under secret shares nothing but these sums is known. `None` before the
    /// second round after a start.
    Step(Option<f64>),
}

impl Default for Convergence {
    fn default() -> Self {
        Self::Disagreement(0.0)
    }
}

impl Convergence {
    /// The number, if there is one.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Disagreement(value) => Some(value),
            Self::Step(value) => value,
        }
    }
}

/// Longest history that is kept.
pub const HISTORY: usize = 200;

/// Seconds without a release after which a run counts as stalled.
pub const STALLED: f64 = 30.0;

impl Progress {
    /// Whether the run waits for somebody for longer than it should.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        !self.finished && self.since_round > STALLED && !self.waiting.is_empty()
    }

    /// Whom it waits for, in words; empty while that is nothing to speak of.
    #[must_use]
    pub fn waits(&self) -> String {
        if self.finished || self.since_round < 5.0 || self.waiting.is_empty() {
            return String::new();
        }
        let names: Vec<&str> = self.waiting.iter().map(|w| w.0.as_str()).collect();
        // Rounded, so that a line that says it is not a new one every second.
        let seconds = [5u32, 10, 20, 40]
            .into_iter()
            .rfind(|s| f64::from(*s) <= self.since_round)
            .unwrap_or(5);
        let seconds =
            if self.since_round >= 60.0 { 60 * (self.since_round / 60.0) as u32 } else { seconds };
        format!("waiting for {} since {seconds} s", names.join(", "))
    }

    /// Adds to the history what belongs there: every round at first, then every second, every
    /// fourth, …
    pub(crate) fn remember(&mut self, round: u32, value: impl FnOnce() -> Convergence) {
        let every = self.history.get(1).map_or(1, |second| second.0 - self.history[0].0);
        if round == 0
            || self.history.last().is_some_and(|last| round < last.0.saturating_add(every))
        {
            return;
        }
        let Some(value) = value().value() else { return };
        self.history.push((round, value));
        if self.history.len() > HISTORY {
            let mut index = 0;
            self.history.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }
}

/// The link to a neighbour.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Whether there is a connection.
    pub up: bool,
    /// The last round of which something was heard from it.
    pub heard: u32,
    /// Whether the run goes on without it.
    pub without: bool,
}

impl Link {
    /// How many rounds it is behind a node that has `released` so many: while this is not 0 the
    /// node waits for it.
    #[must_use]
    pub fn lag(&self, released: u32) -> u32 {
        if self.without { 0 } else { released.saturating_sub(self.heard) }
    }
}

/// A [`Progress`] that others may read while the node writes it.
#[derive(Clone, Debug, Default)]
pub struct Watched(Arc<Mutex<Progress>>);

impl Watched {
    /// A copy.
    #[must_use]
    pub fn get(&self) -> Progress {
        self.0.lock().map(|p| p.clone()).unwrap_or_default()
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Progress)) {
        if let Ok(mut progress) = self.0.lock() {
            change(&mut progress);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_waits_says_for_whom() {
        let waiting = vec![("s2".to_owned(), 41.0)];
        let mut progress = Progress { waiting, since_round: 47.0, ..Progress::default() };
        assert_eq!(progress.waits(), "waiting for s2 since 40 s");
        assert!(progress.is_stalled());
        progress.since_round = 1.0;
        assert!(progress.waits().is_empty() && !progress.is_stalled());
    }

    #[test]
    fn a_history_is_short_and_evenly_spaced() {
        let mut progress = Progress::default();
        for round in 1..=10_000 {
            progress.remember(round, || Convergence::Step(Some(f64::from(round))));
            assert!(progress.history.len() <= HISTORY);
        }
        let every: Vec<u32> = progress.history.windows(2).map(|w| w[1].0 - w[0].0).collect();
        assert!(every.len() > HISTORY / 2 - 2 && every.iter().all(|e| *e == 64), "{every:?}");
        assert!(progress.history.iter().all(|(round, value)| f64::from(*round) == *value));
    }
}
