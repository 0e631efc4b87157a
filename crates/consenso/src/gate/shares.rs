//! A vector that leaves an agent in pieces (Algorithm 3): each of them uniform, and the whole with nobody.

use super::{Draft, Gate};
use crate::problem::LocalObjective;
use crate::protocol::{Protocol, View};
use crate::random::{Purpose, Stream};
use crate::sharing::{FixedPoint, ShareError};
use rand::Rng;

/// An agent's vector in N shares, which only the gate can make. They cost nothing against up to N − 2 colluders; the sum of all
/// agents' vectors is revealed as it is.
pub struct Shares<'a> {
    round: u32,
    dim: usize,
    words: &'a [u64],
}

impl std::fmt::Debug for Shares<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shares(round={}, dim={})", self.round, self.dim)
    }
}

impl<'a> Shares<'a> {
    /// Which round they belong to, from 1.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// The share for `agent` alone.
    #[must_use]
    pub fn of(&self, agent: usize) -> &'a [u64] {
        &self.words[agent * self.dim..][..self.dim]
    }
}

impl Gate {
    /// Drafts the next vector into `own`, which stays with the agent, and its shares into `words`: N of them, one after the other.
    ///
    /// # Errors
    /// A gate with noise, or a number outside the declared range; nothing is shared then.
    #[expect(clippy::too_many_arguments, reason = "those of `release`, the code, and one buffer more")]
    pub fn share<'a>(
        &mut self,
        protocol: &dyn Protocol,
        view: &View<'_>,
        memory: &mut [f64],
        local: &LocalObjective,
        draft: &mut Draft,
        code: &FixedPoint,
        own: &mut [f64],
        words: &'a mut [u64],
    ) -> Result<Shares<'a>, ShareError> {
        if !self.noise.is_empty() {
            // Its account is of what this agent releases; of a sum it says nothing.
            return Err(ShareError::Noise);
        }
        self.release(protocol, view, memory, local, draft, own);
        self.share_again(view.round() + 1, code, own, draft, words)
    }

    /// The shares of a vector that needs no further charge.
    ///
    /// # Errors
    /// A number outside the declared range.
    pub(crate) fn share_again<'a>(
        &self,
        round: u32,
        code: &FixedPoint,
        values: &[f64],
        draft: &mut Draft,
        words: &'a mut [u64],
    ) -> Result<Shares<'a>, ShareError> {
        let outside = ShareError::OutOfRange { agent: self.agent, round, range: code.range() };
        draft.steps.clear();
        for &value in values {
            draft.steps.push(code.encode(value).ok_or_else(|| outside.clone())?);
        }
        Ok(self.split(round, &draft.steps, words))
    }

    /// r_ij uniform for j ≠ i, r_ii the rest.
    fn split<'a>(&self, round: u32, secret: &[i64], words: &'a mut [u64]) -> Shares<'a> {
        let mut stream = self.seed.stream(Purpose::Share, self.agent, u64::from(round));
        split(secret, self.agent as usize, &mut stream, words);
        Shares { round, dim: secret.len(), words }
    }
}

fn split(secret: &[i64], me: usize, stream: &mut Stream, words: &mut [u64]) {
    let (before, rest) = words.split_at_mut(me * secret.len());
    let (own, after) = rest.split_at_mut(secret.len());
    for (own, q) in own.iter_mut().zip(secret) {
        *own = q.cast_unsigned();
    }
    for share in before.chunks_exact_mut(secret.len()).chain(after.chunks_exact_mut(secret.len())) {
        for (word, own) in share.iter_mut().zip(&mut *own) {
            *word = stream.next_u64();
            *own = own.wrapping_sub(*word);
        }
    }
}
