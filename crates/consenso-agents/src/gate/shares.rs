//! A vector that leaves an agent in pieces (Algorithm 3): each of them uniform, and the whole with
//! nobody.

use super::{Charge, DraftScratch, Gate, Refused, Round, StopReason, Turn};
use super::{FixedPoint, ShareError};
#[cfg(doc)]
use crate::privacy::distributed_noise::{self, TAIL};
use crate::protocol::{Needs, Protocol, Response, View};
use crate::random::{Purpose, Stream};
use rand::Rng;

/// An agent's vector in N shares, which only the gate can make. They cost nothing against up to N −
/// 2 colluders; the sum of all agents' vectors is revealed, with the noise they put into it.
pub struct Shares<'a> {
    round: Round,
    dim: usize,
    words: &'a [u64],
    charge: Charge,
}

impl std::fmt::Debug for Shares<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shares(round={}, dim={})", self.round, self.dim)
    }
}

impl<'a> Shares<'a> {
    /// Which round they belong to, from 1.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    /// What the vector was charged.
    #[must_use]
    pub fn charge(&self) -> Charge {
        self.charge
    }

    /// The share for `agent` alone.
    #[must_use]
    pub fn of(&self, agent: usize) -> &'a [u64] {
        &self.words[agent * self.dim..][..self.dim]
    }
}

impl Gate {
    /// Drafts the next vector into `own`, which stays with the agent, and its shares into `words`:
    /// N of them, one after the other.
    ///
    /// A gate with noise adds this agent's part of what hides all (see [`distributed_noise`]) and
    /// charges before it looks at the records. The vector is low + step, the first public and on
    /// the grid, the second private; what is shared is, in steps of the grid,
    ///
    /// > q = low + ⌊step + noise + ½⌋, held within ±range
    ///
    /// With |low| ≤ range/2, |step| ≤ range/4 (clipped, which moves no two steps apart) and [`TAIL`]
    /// deviations of the noise within the rest, holding it within the range is as rare as the
    /// account assumes. Only the revealed mean is moved into a constraint set.
    ///
    /// **Every vector carries its part of the noise, or the run fails.** Others are hidden by this
    /// agent's part too, and it cannot know whether they use their records: the lower end is what
    /// *this* agent was told, and somebody may have told it what nobody else heard. So no reason of
    /// its own lets it share without noise. The one exception is the same for all agents: under a
    /// number above `last_private` nobody uses a record, and what everybody knows already
    /// is shared again, with the reason returned.
    ///
    /// # Errors
    /// An algorithm whose account would not hold, noise that does not fit the code, a lower end
    /// beyond half the range, a charge out of turn, or a number outside the declared range; nothing
    /// is shared then, and the run must end.
    pub fn share<'a>(
        &mut self,
        turn: Turn<'_>,
        draft: &mut DraftScratch,
        code: &FixedPoint,
        own: &mut [f64],
        words: &'a mut [u64],
    ) -> Result<(Shares<'a>, Option<StopReason>), ShareError> {
        let round = turn.round();
        let (charge, stopped) = self.next_steps(turn, draft, code, own, round)?;
        Ok((self.split(round, charge, draft, words), stopped))
    }

    /// Drafts the next vector into `own` and what is to be hidden of it into `draft.steps`, as the
    /// `number`-th that is charged. What it was charged, and a reason if it is what everybody knows
    /// already.
    pub(crate) fn next_steps(
        &mut self,
        mut turn: Turn<'_>,
        draft: &mut DraftScratch,
        code: &FixedPoint,
        own: &mut [f64],
        number: u32,
    ) -> Result<(Charge, Option<StopReason>), ShareError> {
        let (round, protocol, view) = (turn.round(), turn.protocol, turn.view);
        if self.noise.is_empty() {
            self.release(turn, draft, own);
            self.same_steps(protocol, view, code, own, draft)?;
            return Ok((Charge::Nothing, None));
        }
        if protocol.capabilities().needs != Needs::Mean
            || protocol.response(round, view.degree()) != Response::Shift
        {
            // What an agent goes on from would be a private vector of its own: shifts of earlier
            // rounds would add up in it.
            return Err(ShareError::Noise { kind: protocol.kind() });
        }
        if number > self.last_private() {
            self.forward(round, own, |own| turn.idle(own));
            self.same_steps(protocol, view, code, own, draft)?;
            return Ok((Charge::Nothing, Some(StopReason::BudgetSpent)));
        }
        let charge = self.draw_part(&mut turn, draft, code, number)?;
        for (own, &q) in own.iter_mut().zip(&draft.steps) {
            *own = code.value(q);
        }
        Ok((charge, None))
    }

    /// The last charge under which any agent uses its records, in an exchange that reveals sums:
    /// all agents have one schedule, so it is the same for everybody.
    fn last_private(&self) -> u32 {
        self.ledger.allowed().unwrap_or(u32::MAX).min(self.noise.len() as u32)
    }

    /// Whether it adds a part of the noise that hides others too.
    pub(crate) fn adds_part(&self) -> bool {
        !self.noise.is_empty()
    }

    /// Charges, and writes q to `draft.steps`.
    ///
    /// # Errors
    /// Whatever keeps the agent from adding its noise: it must send nothing then.
    fn draw_part(
        &mut self,
        turn: &mut Turn<'_>,
        draft: &mut DraftScratch,
        code: &FixedPoint,
        number: u32,
    ) -> Result<Charge, ShareError> {
        let round = Round(turn.round());
        let noise = self.noise[number as usize - 1];
        code.holds(&noise)?;
        self.lay_out(turn, draft, turn.view.dim());
        let half = code.half();
        if !draft.snap(noise.grid) || draft.low.iter().any(|low| low.abs() > half) {
            return Err(ShareError::MeanOutOfRange { round, half });
        }
        if draft.widths.iter().any(|&w| w > 0.0) {
            return Err(ShareError::Noise { kind: turn.protocol.kind() });
        }
        if number > turn.round() {
            // Tries that this agent heard of too late to take part in.
            self.ledger.spend_until(number - 1);
        }
        let mut stream = self.seed.stream(Purpose::Release, self.agent, u64::from(number));
        let drawn = self.draw(turn, draft, (number, noise), Some(0.5 * half), &mut stream);
        let charge = drawn.map_err(|Refused { reason, .. }| match reason {
            StopReason::OutOfRange => {
                ShareError::OutOfRange { agent: self.agent, round, range: code.range() }
            }
            // A number that was charged before, or one that follows none.
            _ => ShareError::ChargeOutOfTurn { number, charged: self.ledger.charged() },
        })?;
        for (q, low) in draft.steps.iter_mut().zip(&draft.low) {
            // The lower end is a multiple of γ below 2^51·γ, so the quotient is an integer.
            *q = code.saturate(*q + (low / noise.grid.step()) as i64);
        }
        Ok(charge)
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
        draft: &mut DraftScratch,
    ) -> Result<(), ShareError> {
        let round = view.round() + 1;
        draft.point.resize(protocol.contribution(own.len()), 0.0);
        protocol.contribute(view.place(), own, &mut draft.point);
        let outside =
            ShareError::OutOfRange { agent: self.agent, round: Round(round), range: code.range() };
        draft.steps.clear();
        for &value in &draft.point {
            draft.steps.push(code.encode(value).ok_or_else(|| outside.clone())?);
        }
        Ok(())
    }

    /// r_ij uniform for j ≠ i, r_ii the rest of what `draft` holds in steps of the grid, which was
    /// charged.
    pub(crate) fn split<'a>(
        &self,
        round: u32,
        charge: Charge,
        draft: &DraftScratch,
        words: &'a mut [u64],
    ) -> Shares<'a> {
        let mut stream = self.seed.stream(Purpose::Share, self.agent, u64::from(round));
        split(&draft.steps, self.agent as usize, &mut stream, words);
        Shares { round: Round(round), dim: draft.steps.len(), words, charge }
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
