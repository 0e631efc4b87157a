//! What a node knows of a neighbour.

use crate::frame::Digest;
use crate::release_signature::ReleaseSignature;
use bytes::Bytes;
use std::collections::BTreeSet;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Exchanges of a neighbour that are remembered by number: more than it can be ahead or behind.
pub(super) const TAKEN: usize = 32;

/// What the node knows of a neighbour.
#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) name: String,
    /// What its vectors weigh in this site's mix.
    pub(super) weight: f64,
    pub(super) outgoing: Option<(u64, mpsc::Sender<Bytes>)>,
    /// It has our releases up to here, durably.
    pub(super) acked: u32,
    pub(super) heard: u32,
    /// Exchanges of its that were taken of late, in whatever order they came.
    taken: BTreeSet<u32>,
    /// Exchanges up to here are no news.
    known: u32,
    /// The last round that was put on a link to it: sending it again is a resend.
    pub(super) sent: u32,
    /// Since when there has been no link to it.
    pub(super) lost: Option<Instant>,
    /// Since when it has said that it has more than was released here, and how much.
    pub(super) ahead: Option<(Instant, u32)>,
    /// It said that it has more than was released here, and nothing proves it wrong: how much.
    pub(super) suspected: Option<u32>,
    /// When something was last heard of it on a link.
    pub(super) spoke: Instant,
    /// Whether it has said something on this link.
    pub(super) has_spoken: bool,
    /// It sent something wrong and nothing right since: what.
    pub(super) refused: Option<String>,
    /// Its signature under the release that follows.
    pub(super) signature: Option<(u32, ReleaseSignature)>,
    /// The newest of its releases that was taken, as it signed it.
    pub(super) last: Option<(u32, Digest, ReleaseSignature)>,
    /// It told different neighbours different things, which is proved: nothing is taken from it any
    /// more.
    pub(super) banned: Option<String>,
    /// The largest number it sent, and in which exchange.
    pub(super) largest: (f64, u32),
    pub(super) ever_up: bool,
    /// The hash of the model that it ended with, where all must have the same.
    pub(super) model: Option<Digest>,
    /// The ledger says that it has everything.
    pub(super) confirmed: bool,
    /// It was told goodbye on this link. Once is enough: two sites that wait for a third would
    /// answer each other's goodbyes for as long as they wait.
    pub(super) said_goodbye: bool,
    pub(super) bye: bool,
    /// On this link it got back what is kept of it.
    pub(super) given_back: bool,
    /// On this link it was sent the agreements after so many.
    agreements_after: Option<u32>,
}

impl Neighbour {
    /// One of whom exchanges up to `heard` are known.
    pub(super) fn new(name: &str, weight: f64, heard: u32) -> Self {
        Self {
            name: name.to_owned(),
            weight,
            outgoing: None,
            acked: 0,
            heard,
            known: heard,
            taken: BTreeSet::new(),
            sent: 0,
            lost: Some(Instant::now()),
            ahead: None,
            suspected: None,
            spoke: Instant::now(),
            has_spoken: false,
            refused: None,
            largest: (0.0, 0),
            signature: None,
            last: None,
            banned: None,
            ever_up: false,
            model: None,
            confirmed: false,
            said_goodbye: false,
            bye: false,
            given_back: false,
            agreements_after: None,
        }
    }

    /// A new link to it is up.
    pub(super) fn begin_link(&mut self) {
        (self.spoke, self.signature, self.agreements_after) = (Instant::now(), None, None);
        (self.has_spoken, self.said_goodbye, self.given_back) = (false, false, false);
    }

    /// Whether it is to be sent the agreements after those that it has: once a link for as many as
    /// it has, for agreements are never taken back.
    pub(super) fn lacks_agreements_after(&mut self, number: u32) -> bool {
        let more = self.agreements_after.is_none_or(|before| number > before);
        if more {
            self.agreements_after = Some(number);
        }
        more
    }

    /// Whether there is a link to it.
    pub(super) fn is_linked(&self) -> bool {
        self.outgoing.is_some()
    }

    /// The run goes on without it: nothing is sent to it, and nobody waits for it.
    pub(super) fn leave(&mut self) {
        (self.outgoing, self.bye, self.acked) = (None, true, u32::MAX);
    }

    /// Takes note of an exchange that it sent; whether it is the first time. Whoever sends its next
    /// release before its last one is watched in both.
    pub(super) fn is_news(&mut self, round: u32) -> bool {
        if round <= self.known || !self.taken.insert(round) {
            return false;
        }
        self.heard = self.heard.max(round);
        if self.taken.len() > TAKEN
            && let Some(oldest) = self.taken.pop_first()
        {
            self.known = oldest;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A few bytes were answered with up to eight agreements, as often as they came.
    #[test]
    fn agreements_are_sent_once_a_link_for_as_many_as_are_there() {
        let mut n = Neighbour::new("b", 0.5, 0);
        let sent = [0, 0, 2, 1, 0, 2, 3].map(|number| n.lacks_agreements_after(number));
        assert_eq!(sent, [true, false, true, false, false, false, true]);
        n.begin_link();
        assert!(n.lacks_agreements_after(0));
    }

    /// Whoever sent its next release first kept its last one out of logs and comparisons.
    #[test]
    fn a_release_that_comes_after_the_next_one_is_news_once() {
        let mut n = Neighbour::new("b", 0.5, 4);
        let news = [6, 5, 5, 4, 6, 7, 1].map(|round| n.is_news(round));
        assert_eq!(news, [true, true, false, false, false, true, false]);
        assert_eq!(n.heard, 7);
        (8..100).for_each(|round| assert!(n.is_news(round) && !n.is_news(round)));
        assert!(n.taken.len() <= TAKEN && !n.is_news(60) && !n.is_news(9));
    }
}
