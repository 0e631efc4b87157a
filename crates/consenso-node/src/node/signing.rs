//! A site's signatures under what it releases: made once for all who get the same bytes, and asked
//! for again where the signer failed.

use crate::frame::Digest;
use crate::identity::Identity;
use crate::release_signature::{ReleaseSignature, ReleaseSigner, ReleaseStatement, SignError};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Pause before a signature is asked for again: doubles from the first to the last.
const SIGN_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// Signs releases, and remembers which have to wait for their signature.
pub(super) struct Signing {
    signer: ReleaseSigner,
    /// The last signatures, by the hash of what they are under.
    made: VecDeque<(Digest, ReleaseSignature)>,
    /// Releases without a signature, by receiver and exchange.
    waiting: BTreeSet<(u32, u32)>,
    /// When the signer is asked again, and the pause before that.
    next: Option<Instant>,
    pause: Duration,
    /// Since when the signer fails, and what it says.
    since: Option<Instant>,
    reason: String,
}

impl Signing {
    pub(super) fn new(signer: ReleaseSigner) -> Self {
        Self {
            signer,
            made: VecDeque::new(),
            waiting: BTreeSet::new(),
            next: None,
            pause: Duration::ZERO,
            since: None,
            reason: String::new(),
        }
    }

    /// Signs with the key of an identity from now on. What was signed stays, if the key does.
    pub(super) fn renew(&mut self, identity: &Identity) {
        if self.signer.renew(identity) {
            self.made.clear();
        }
    }

    /// The signature under what has this hash, if it was made of late.
    pub(super) fn known(&self, blake3: &Digest) -> Option<ReleaseSignature> {
        self.made.iter().find(|(known, _)| known == blake3).map(|made| made.1.clone())
    }

    /// Signs a statement, and keeps that signature and so many before it.
    pub(super) fn sign(
        &mut self,
        said: &ReleaseStatement,
        keep: usize,
    ) -> Result<ReleaseSignature, SignError> {
        let signature = self.signer.sign(&said.bytes())?;
        // A signer that works now and then is asked again soon; only one that never does, ever
        // less often.
        if let Some(next) = &mut self.next {
            *next = (*next).min(Instant::now() + SIGN_AGAIN.0);
            self.pause = Duration::ZERO;
        }
        self.made.push_back((said.blake3, signature.clone()));
        while self.made.len() > keep {
            self.made.pop_front();
        }
        Ok(signature)
    }

    /// Whether a release must wait because one before it, to the same receiver, does. Then it waits,
    /// too.
    pub(super) fn waits_behind(&mut self, peer: u32, round: u32) -> bool {
        let before = self.waiting.range((peer, 0)..(peer, round)).next().is_some();
        if before {
            self.waiting.insert((peer, round));
        }
        before
    }

    /// A release has its signature.
    pub(super) fn signed(&mut self, peer: u32, round: u32) {
        self.waiting.remove(&(peer, round));
    }

    /// A release could not be signed; the pause before that is tried again, if this is the first
    /// failure since the last try.
    pub(super) fn failed(&mut self, peer: u32, round: u32, reason: &str) -> Option<Duration> {
        self.waiting.insert((peer, round));
        if self.next.is_some_and(|next| next > Instant::now()) {
            return None;
        }
        let pause = (2 * self.pause).clamp(SIGN_AGAIN.0, SIGN_AGAIN.1);
        self.since.get_or_insert_with(Instant::now);
        (self.next, self.pause) = (Some(Instant::now() + pause), pause);
        reason.clone_into(&mut self.reason);
        Some(pause)
    }

    /// What is to be tried again now, by receiver and exchange.
    pub(super) fn due(&mut self) -> Option<BTreeSet<(u32, u32)>> {
        let now = self.next.is_some_and(|next| next <= Instant::now());
        now.then(|| std::mem::take(&mut self.waiting))
    }

    /// After a try: how long the signer failed, if it does no more.
    pub(super) fn mended(&mut self) -> Option<Duration> {
        if !self.waiting.is_empty() {
            return None;
        }
        (self.next, self.pause) = (None, Duration::ZERO);
        self.reason.clear();
        Some(self.since.take().map_or(Duration::ZERO, |since| since.elapsed()))
    }

    /// What the signer says and for how long it has failed, if it does.
    pub(super) fn failing(&self) -> Option<(&str, Duration)> {
        self.since.map(|since| (self.reason.as_str(), since.elapsed()))
    }
}
