//! A [`Player`] among messages that carry shares: two exchanges a round, the sum revealed and
//! nothing else.

use super::{FixedPoint, MeanView, ShareError, add, revealed};
use crate::agent::{
    AbsenceError, AddNeighbourError, Agent, Checkpoint, Core, Effect, Exchange, Player,
    RejoinError, RestoreError,
};
use crate::gate::{Charge, Round};
use std::sync::Arc;

/// Which of a round's two exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// A share, for its receiver alone: the channel must be encrypted.
    Share,
    /// The sum of the shares its sender holds, the same for everybody.
    Sum,
}

/// One vector of words on its way. Agents make their own from [`Shares`](crate::gate::Shares)
/// alone; a driver builds what it *received*.
#[derive(Clone, PartialEq, Eq)]
pub struct ShareMessage {
    from: u32,
    to: u32,
    round: Round,
    phase: Phase,
    words: Arc<[u64]>,
}

impl std::fmt::Debug for ShareMessage {
    // All shares of one agent in one log would be its vector.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { from, to, round, phase, words } = self;
        write!(
            f,
            "ShareMessage({phase:?}, from={from}, to={to}, round={round}, words={})",
            words.len()
        )
    }
}

impl ShareMessage {
    /// What somebody else sent, as it came in: nothing about it is checked before
    /// [`Agent::handle`].
    #[must_use]
    pub fn received(
        from: u32,
        to: u32,
        round: Round,
        phase: Phase,
        words: impl Into<Arc<[u64]>>,
    ) -> Self {
        Self { from, to, round, phase, words: words.into() }
    }

    /// Sender.
    #[must_use]
    pub fn from(&self) -> u32 {
        self.from
    }

    /// Receiver.
    #[must_use]
    pub fn to(&self) -> u32 {
        self.to
    }

    /// In which round.
    #[must_use]
    pub fn round(&self) -> Round {
        self.round
    }

    /// In which exchange of the round.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}

/// What an agent among shares wants done; each message is for its receiver alone.
pub type ShareEffect = Effect<ShareMessage>;

/// Why a message was not taken; the state is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShareRefusal {
    /// It is not from another agent to this one.
    #[error("a message from agent {from} to agent {to} is not for agent {agent}")]
    Stranger {
        /// Sender.
        from: u32,
        /// Receiver named.
        to: u32,
        /// Who refused.
        agent: u32,
    },
    /// It has another length than the model.
    #[error("the {phase:?} of round {round} from agent {from} has {got} words, not {want}")]
    Length {
        /// Sender.
        from: u32,
        /// Its round.
        round: Round,
        /// Its exchange.
        phase: Phase,
        /// Words received.
        got: usize,
        /// Words expected.
        want: usize,
    },
    /// It was taken before, or belongs to a round that is over: it is not used twice. A network
    /// sends things again, so this alone is no offence.
    #[error("the {phase:?} of round {round} from agent {from} was received before")]
    Replayed {
        /// Sender.
        from: u32,
        /// Its round.
        round: Round,
        /// Its exchange.
        phase: Phase,
    },
    /// It was taken before with other content: two shares of one round would be two equations for
    /// one vector.
    #[error("agent {from} sent the {phase:?} of round {round} twice with different content")]
    Equivocation {
        /// Sender.
        from: u32,
        /// Its round.
        round: Round,
        /// Its exchange.
        phase: Phase,
    },
    /// Its sender cannot be there yet.
    #[error("the {phase:?} of round {round} from agent {from} comes before its turn")]
    OutOfTurn {
        /// Sender.
        from: u32,
        /// Its round.
        round: Round,
        /// Its exchange.
        phase: Phase,
    },
    /// The run is over for this agent.
    #[error("the run has failed: {0}")]
    Failed(String),
}

/// The exchange of secret shares among all agents.
///
/// Exchanges are numbered from 1, shares of round r being 2r − 1 and sums 2r. A peer can be one
/// exchange ahead and never two, for it needs this agent's message to go on; so two slots a peer
/// hold all that can arrive.
#[derive(Debug)]
pub struct SecretShares {
    id: u32,
    /// Everybody else.
    others: Vec<u32>,
    code: FixedPoint,
    sight: MeanView,
    /// Exchanges complete.
    done: u32,
    /// Whether this agent's own part of the next exchange is out.
    sent: bool,
    own: Vec<f64>,
    /// This agent's own share, then the sum of the shares it holds, then of everybody's sums.
    total: Vec<u64>,
    waiting: [Vec<Option<Arc<[u64]>>>; 2],
    /// What came in the last exchange that is complete, as far as it is remembered.
    taken: Vec<Option<Arc<[u64]>>>,
}

/// An agent of a secret-shared exchange.
pub type SharingAgent = Agent<SecretShares>;

impl Agent<SecretShares> {
    /// Agent `id` of a complete graph of `code.agents()` agents.
    ///
    /// # Errors
    /// An algorithm that looks at more than sums.
    ///
    /// # Panics
    /// Without such an agent.
    pub fn sharing(id: u32, code: FixedPoint, player: Player) -> Result<Self, ShareError> {
        assert!((id as usize) < code.agents(), "an agent of the graph");
        let n = code.agents();
        let sight = MeanView::of(id as usize, n, &player)?;
        let exchange = SecretShares {
            id,
            others: (0..n as u32).filter(|&j| j != id).collect(),
            done: 0,
            sent: false,
            total: vec![0; sight.revealed().len()],
            own: player.start(),
            sight,
            waiting: [vec![None; n], vec![None; n]],
            taken: vec![None; n],
            code,
        };
        Ok(Self { core: Core::new(id, player), exchange })
    }

    /// What to do next; `None` until another message comes.
    ///
    /// # Errors
    /// A vector that does not fit the declared range, or a run that failed before: nothing more is
    /// sent.
    pub fn poll(&mut self) -> Result<Option<ShareEffect>, ShareError> {
        self.try_poll()
    }

    /// The mean of all agents' vectors of the last complete round, or the sum of what they
    /// contributed: all that was revealed of them.
    #[must_use]
    pub fn revealed(&self) -> &[f64] {
        self.exchange.sight.revealed()
    }

    /// Ends the run because `from` is gone: its shares cannot be replaced, and what was exchanged
    /// in this round stays hidden.
    pub fn dropped(&mut self, from: u32) -> ShareError {
        let error = ShareError::Dropped { from, round: self.round() + 1 };
        self.core.queue.clear();
        self.core.failed.get_or_insert(error).clone()
    }
}

impl Exchange for SecretShares {
    type Message = ShareMessage;
    type Refusal = ShareRefusal;

    fn complete(&self) -> u32 {
        self.done
    }

    fn round(&self) -> Round {
        Round(self.done / 2)
    }

    fn last(&self, core: &Core<ShareMessage>) -> u32 {
        2 * core.rounds().0
    }

    fn rounds_in(&self, _: &Core<ShareMessage>, exchanges: u32) -> Round {
        Round(exchanges / 2)
    }

    fn begun_in(&self, _: &Core<ShareMessage>, exchanges: u32) -> Round {
        Round(exchanges.div_ceil(2))
    }

    fn neighbours(&self) -> &[u32] {
        &self.others
    }

    fn is_out(&self) -> bool {
        self.sent
    }

    fn awaited(&self, _: &Core<ShareMessage>) -> Vec<u32> {
        self.others.iter().copied().filter(|&j| self.waiting[0][j as usize].is_none()).collect()
    }

    fn send(&mut self, core: &mut Core<ShareMessage>) -> Result<(), ShareError> {
        let (from, round) = (self.id, self.round() + 1);
        let message = |to: u32, phase, words| ShareMessage { from, to, round, phase, words };
        if self.done.is_multiple_of(2) {
            let mut words = vec![0; self.code.agents() * self.total.len()];
            let neighbourhood = self.sight.neighbourhood(self.done / 2);
            let shares = core.player.share(
                &neighbourhood,
                &mut core.draft,
                &self.code,
                &mut self.own,
                &mut words,
            )?;
            self.total.copy_from_slice(shares.of(from as usize));
            let all = self
                .others
                .iter()
                .map(|&to| message(to, Phase::Share, shares.of(to as usize).into()));
            core.send(self.done + 1, shares.charge(), all);
        } else {
            let sum: Arc<[u64]> = self.total.as_slice().into();
            // A sum of shares is a function of what others sent; who gets one knows that the shares
            // before it are safe.
            let all = self.others.iter().map(|&to| message(to, Phase::Sum, Arc::clone(&sum)));
            core.send(self.done + 1, Charge::Nothing, all);
        }
        self.sent = true;
        Ok(())
    }

    fn take_in(&mut self, core: &mut Core<ShareMessage>) -> Result<(), ShareError> {
        self.waiting[0].iter().flatten().for_each(|words| add(&mut self.total, words));
        self.waiting.swap(0, 1);
        std::mem::swap(&mut self.taken, &mut self.waiting[1]);
        self.waiting[1].fill(None);
        (self.done, self.sent) = (self.done + 1, false);
        if !self.done.is_multiple_of(2) {
            return Ok(());
        }
        let (round, agents) = (self.round(), self.code.agents());
        if !self.code.adds_up_to(&self.total) {
            return Err(ShareError::Forged { round, agents, range: self.code.range() });
        }
        let set = core.player.gate().constraint();
        let revealed = revealed(&self.code, self.sight.needs(), set, &self.total, agents);
        self.sight.reveal(&self.own, &revealed);
        if round == core.rounds() {
            core.finish(&self.sight.neighbourhood(round.0));
        }
        Ok(())
    }

    fn handle(
        &mut self,
        core: &mut Core<ShareMessage>,
        message: &ShareMessage,
    ) -> Result<(), ShareRefusal> {
        let &ShareMessage { from, to, round, phase, ref words } = message;
        if let Some(failure) = &core.failed {
            return Err(ShareRefusal::Failed(failure.to_string()));
        }
        if to != self.id || from == self.id || from as usize >= self.code.agents() {
            return Err(ShareRefusal::Stranger { from, to, agent: self.id });
        }
        let (got, want) = (words.len(), self.total.len());
        if got != want {
            return Err(ShareRefusal::Length { from, round, phase, got, want });
        }
        if round == Round(0) || round > core.rounds() {
            return Err(ShareRefusal::OutOfTurn { from, round, phase });
        }
        let exchange = 2 * (round.0 - 1) + phase as u32 + 1;
        let again = |known: Option<&Arc<[u64]>>| match known {
            Some(known) if known != words => ShareRefusal::Equivocation { from, round, phase },
            _ => ShareRefusal::Replayed { from, round, phase },
        };
        let Some(ahead) = exchange.checked_sub(self.done + 1) else {
            let known = self.taken[from as usize].as_ref().filter(|_| exchange == self.done);
            return Err(again(known));
        };
        let Some(slots) = self.waiting.get_mut(ahead as usize) else {
            return Err(ShareRefusal::OutOfTurn { from, round, phase });
        };
        match &mut slots[from as usize] {
            Some(known) => Err(again(Some(known))),
            empty => {
                *empty = Some(Arc::clone(words));
                Ok(())
            }
        }
    }

    fn checkpoint(&self, core: &Core<ShareMessage>) -> Checkpoint {
        let (own, shares) = (Some(self.own.clone()), Some(self.total.clone()));
        Checkpoint { own, shares, ..core.checkpoint(self.done) }
    }

    fn restore(
        &mut self,
        core: &mut Core<ShareMessage>,
        saved: &Checkpoint,
    ) -> Result<(), RestoreError> {
        let shape = |what| RestoreError::Shape { what };
        let total = saved.shares.as_ref().filter(|total| total.len() == self.total.len());
        let total = total.ok_or(shape("the exchange"))?;
        let own = saved
            .own
            .as_ref()
            .filter(|own| own.len() == self.own.len())
            .ok_or(shape("the model"))?;
        if saved.model.as_ref().is_some_and(|model| model.len() != own.len()) {
            return Err(shape("the model"));
        }
        let last = self.last(core);
        if saved.round > last || (saved.round == last) != saved.model.is_some() {
            return Err(shape("the timetable"));
        }
        core.player.resume(&saved.player)?;
        (self.done, self.sent) = (saved.round, true);
        self.total.copy_from_slice(total);
        self.own.copy_from_slice(own);
        Ok(())
    }

    fn may_go_without(&self, _: &Core<ShareMessage>) -> Result<(), AbsenceError> {
        let why = "a sum of secret shares needs everybody's: without one it stays hidden";
        Err(AbsenceError::Exchange { why })
    }

    fn may_join(&self, _: &Core<ShareMessage>) -> Result<(), AddNeighbourError> {
        Err(AddNeighbourError::Exchange {
            why: "in secret shares every site is a neighbour of every other already",
        })
    }

    fn rejoined(
        &self,
        _: &Core<ShareMessage>,
        _: u32,
        _: Option<&[f64]>,
    ) -> Result<Checkpoint, RejoinError> {
        let why = "a vector that left in shares is with nobody: no neighbour can give it back";
        Err(RejoinError::Hidden { why })
    }
}
