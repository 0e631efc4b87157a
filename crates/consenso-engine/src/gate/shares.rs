//! A vector that leaves an agent in pieces (Algorithm 3): each of them uniform, and the whole with nobody.

use super::{Draft, Gate, StopReason, exact};
use super::{FixedPoint, ShareError};
#[cfg(doc)]
use crate::privacy::distributed_noise::{self, TAIL};
use crate::problem::LocalObjective;
use crate::protocol::{Memory, Needs, Protocol, Response, View};
use crate::random::{Purpose, Stream};
use rand::Rng;

/// An agent's vector in N shares, which only the gate can make. They cost nothing against up to N − 2 colluders; the sum of all
/// agents' vectors is revealed, with the noise they put into it.
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
    /// A gate with noise adds this agent's part of what hides all (see [`distributed_noise`]) and charges before it looks at the records. The
    /// vector is low + step, the first public and on the grid, the second private; what is shared is, in steps of the grid,
    ///
    /// > q = low + ⌊step + noise + ½⌋, held within ±range
    ///
    /// With |low| ≤ range/2 (else the agent stops, as all do, for it is public), |step| ≤ range/4 (clipped, which moves no two steps apart) and
    /// [`TAIL`] deviations of the noise within the rest, holding it within the range is as rare as the account assumes. Only the revealed mean is moved
    /// into a constraint set. When the budget is spent, what everybody knows already is shared again, and the reason returned.
    ///
    /// # Errors
    /// An algorithm whose account would not hold, noise that does not fit the code, or a number outside the declared range; nothing is
    /// shared then.
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
    ) -> Result<(Shares<'a>, Option<StopReason>), ShareError> {
        let round = view.round() + 1;
        let stopped = self.next_steps(protocol, view, memory, local, draft, code, own, round)?;
        Ok((self.split(round, draft, words), stopped))
    }

    /// Drafts the next vector into `own` and what is to be hidden of it into `draft.steps`, as the `charge`-th that is charged; a reason if it is what everybody knows already.
    #[expect(clippy::too_many_arguments, reason = "those of `share`")]
    pub(crate) fn next_steps(
        &mut self,
        protocol: &dyn Protocol,
        view: &View<'_>,
        memory: &mut [f64],
        local: &LocalObjective,
        draft: &mut Draft,
        code: &FixedPoint,
        own: &mut [f64],
        charge: u32,
    ) -> Result<Option<StopReason>, ShareError> {
        let round = view.round() + 1;
        if self.noise.is_empty() {
            self.release(protocol, view, memory, local, draft, own);
            self.same_steps(protocol, view, code, own, draft)?;
            return Ok(None);
        }
        let kind = protocol.kind();
        if protocol.needs() != Needs::Mean || protocol.response(round, view.degree()) != Response::Shift {
            // What an agent goes on from would be a private vector of its own: shifts of earlier rounds would add up in it.
            return Err(ShareError::Noise { kind });
        }
        let stopped = self.draw_part(protocol, view, memory, local, draft, code, charge)?;
        if stopped.is_some() {
            self.forward(round, own, |own| protocol.idle(view, own));
            self.same_steps(protocol, view, code, own, draft)?;
            return Ok(stopped);
        }
        for (own, &q) in own.iter_mut().zip(&draft.steps) {
            *own = code.value(q);
        }
        Ok(None)
    }

    /// Charges, and writes q to `draft.steps`; a reason if there is none.
    #[expect(clippy::too_many_arguments, reason = "those of `share`")]
    fn draw_part(
        &mut self,
        protocol: &dyn Protocol,
        view: &View<'_>,
        memory: &mut [f64],
        local: &LocalObjective,
        draft: &mut Draft,
        code: &FixedPoint,
        charge: u32,
    ) -> Result<Option<StopReason>, ShareError> {
        let (round, dim) = (view.round() + 1, view.dim());
        let Some(noise) = self.noise.get(charge as usize - 1).copied() else {
            return Ok(Some(StopReason::BudgetSpent));
        };
        code.holds(&noise)?;
        for v in [&mut draft.low, &mut draft.high, &mut draft.step] {
            v.resize(dim, 0.0);
        }
        let (memory, private) = memory.split_at_mut(protocol.memory() * dim);
        self.toss(protocol.parts().tossing, round, memory);
        protocol.interval(view, memory, &mut draft.low, &mut draft.high);
        protocol.keep(view, memory);
        let half = 0.5 * code.range();
        if !draft.snap(noise.grid) || draft.low.iter().any(|low| low.abs() > half) {
            return Ok(Some(StopReason::OutOfRange));
        }
        if draft.widths.iter().any(|&w| w > 0.0) {
            return Err(ShareError::Noise { kind: protocol.kind() });
        }
        if charge > round {
            // Tries that this agent heard of too late to take part in.
            self.ledger.spend_until(charge - 1);
        }
        if let Err(reason) = self.ledger.charge(charge, &draft.widths) {
            return Ok(Some(reason));
        }
        let mut stream = self.seed.stream(Purpose::Release, self.agent, u64::from(charge));
        let Draft { low, step, work, steps, .. } = &mut *draft;
        protocol.step(view, Memory { public: memory, private }, low, local, work, step);
        step.iter_mut().for_each(|s| *s = s.clamp(-0.5 * half, 0.5 * half));
        steps.resize(dim, 0);
        let outside = ShareError::OutOfRange { agent: self.agent, round, range: code.range() };
        exact::release(&mut stream, step, &[], noise.noise, noise.grid, steps).map_err(|_| outside)?;
        for (q, low) in steps.iter_mut().zip(&*low) {
            // The lower end is a multiple of γ below 2^51·γ, so the quotient is an integer.
            *q = code.saturate(*q + (low / noise.grid.step()) as i64);
        }
        Ok(None)
    }

    /// Writes what a vector contributes that needs no further charge to `draft.steps`.
    ///
    /// # Errors
    /// A number outside the declared range.
    pub(crate) fn same_steps(
        &self,
        protocol: &dyn Protocol,
        view: &View<'_>,
        code: &FixedPoint,
        own: &[f64],
        draft: &mut Draft,
    ) -> Result<(), ShareError> {
        let round = view.round() + 1;
        draft.point.resize(protocol.contribution(own.len()), 0.0);
        protocol.contribute(view.place(), own, &mut draft.point);
        let outside = ShareError::OutOfRange { agent: self.agent, round, range: code.range() };
        draft.steps.clear();
        for &value in &draft.point {
            draft.steps.push(code.encode(value).ok_or_else(|| outside.clone())?);
        }
        Ok(())
    }

    /// r_ij uniform for j ≠ i, r_ii the rest of what `draft` holds in steps of the grid, which was charged.
    pub(crate) fn split<'a>(&self, round: u32, draft: &Draft, words: &'a mut [u64]) -> Shares<'a> {
        let mut stream = self.seed.stream(Purpose::Share, self.agent, u64::from(round));
        split(&draft.steps, self.agent as usize, &mut stream, words);
        Shares { round, dim: draft.steps.len(), words }
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
