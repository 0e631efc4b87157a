//! A [`Player`] among messages that carry shares: two exchanges a round, the sum revealed and nothing else.

use super::{FixedPoint, ShareError, Sight, add, revealed};
use crate::agent::{Checkpoint, Player, RestoreError};
use crate::gate::{Charge, Draft, StopReason};
use std::collections::VecDeque;
use std::sync::Arc;

/// Which of a round's two exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// A share, for its receiver alone: the channel must be encrypted.
    Share,
    /// The sum of the shares its sender holds, the same for everybody.
    Sum,
}

/// One vector of words on its way. Agents make their own from [`Shares`](crate::gate::Shares) alone; a driver builds what it *received*.
#[derive(Clone, PartialEq, Eq)]
pub struct ShareMessage {
    from: u32,
    to: u32,
    round: u32,
    phase: Phase,
    words: Arc<[u64]>,
}

impl std::fmt::Debug for ShareMessage {
    // All shares of one agent in one log would be its vector.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { from, to, round, phase, words } = self;
        write!(f, "ShareMessage({phase:?}, from={from}, to={to}, round={round}, words={})", words.len())
    }
}

impl ShareMessage {
    /// What somebody else sent, as it came in: nothing about it is checked before [`SharingAgent::handle`].
    #[must_use]
    pub fn received(from: u32, to: u32, round: u32, phase: Phase, words: impl Into<Arc<[u64]>>) -> Self {
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
    pub fn round(&self) -> u32 {
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

/// What an agent wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum ShareEffect {
    /// Make the state durable, and the messages that follow: the shares of this round were drawn and charged. They must be on disk before
    /// one of them leaves.
    Charge {
        /// The round charged.
        round: u32,
        /// What it was charged.
        charge: Charge,
    },
    /// The same for the sums of this round, which charge nothing: who gets one knows that the shares before it are safe.
    Keep {
        /// The round.
        round: u32,
    },
    /// Send to its receiver alone.
    Send(ShareMessage),
    /// Nothing more will come; the model is ready.
    Done(StopReason),
}

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
        round: u32,
        /// Its exchange.
        phase: Phase,
        /// Words received.
        got: usize,
        /// Words expected.
        want: usize,
    },
    /// It was taken before, or belongs to a round that is over: it is not used twice. A network sends things again, so this alone is no offence.
    #[error("the {phase:?} of round {round} from agent {from} was received before")]
    Replayed {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
        /// Its exchange.
        phase: Phase,
    },
    /// It was taken before with other content: two shares of one round would be two equations for one vector.
    #[error("agent {from} sent the {phase:?} of round {round} twice with different content")]
    Equivocation {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
        /// Its exchange.
        phase: Phase,
    },
    /// Its sender cannot be there yet.
    #[error("the {phase:?} of round {round} from agent {from} comes before its turn")]
    OutOfTurn {
        /// Sender.
        from: u32,
        /// Its round.
        round: u32,
        /// Its exchange.
        phase: Phase,
    },
    /// The run is over for this agent.
    #[error("the run has failed: {0}")]
    Failed(String),
}

/// An agent of a secret-shared exchange.
///
/// Exchanges are numbered from 1, shares of round r being 2r − 1 and sums 2r. A peer can be one exchange ahead and never two, for it needs
/// this agent's message to go on; so two slots a peer hold all that can arrive.
#[derive(Debug)]
pub struct SharingAgent {
    id: u32,
    code: FixedPoint,
    player: Player,
    sight: Sight,
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
    queue: VecDeque<ShareEffect>,
    draft: Draft,
    failed: Option<ShareError>,
    model: Option<Vec<f64>>,
}

impl SharingAgent {
    /// Agent `id` of a complete graph of `code.agents()` agents.
    ///
    /// # Errors
    /// An algorithm that looks at more than sums.
    ///
    /// # Panics
    /// Without such an agent.
    pub fn new(id: u32, code: FixedPoint, player: Player) -> Result<Self, ShareError> {
        assert!((id as usize) < code.agents(), "an agent of the graph");
        let (start, n) = (player.start(), code.agents());
        let protocol = player.protocol();
        let refused = ShareError::NeedsRows { kind: protocol.kind() };
        let sight = Sight::new(id as usize, n, protocol, &start).ok_or(refused)?;
        Ok(Self {
            id,
            done: 0,
            sent: false,
            total: vec![0; sight.revealed().len()],
            own: start,
            sight,
            waiting: [vec![None; n], vec![None; n]],
            taken: vec![None; n],
            queue: VecDeque::new(),
            draft: Draft::default(),
            failed: None,
            model: None,
            code,
            player,
        })
    }

    /// The player inside.
    #[must_use]
    pub fn player(&self) -> &Player {
        &self.player
    }

    /// Rounds complete: their sums are known.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.done / 2
    }

    /// The mean of all agents' vectors of the last complete round, or the sum of what they contributed: all that was revealed of them.
    #[must_use]
    pub fn revealed(&self) -> &[f64] {
        self.sight.revealed()
    }

    /// The model, once [`ShareEffect::Done`] was polled.
    #[must_use]
    pub fn model(&self) -> Option<&[f64]> {
        self.model.as_deref()
    }

    /// Why the run failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&ShareError> {
        self.failed.as_ref()
    }

    /// Exchanges complete: two a round.
    #[must_use]
    pub fn exchanges(&self) -> u32 {
        self.done
    }

    /// Exchanges of the whole run.
    #[must_use]
    pub fn last(&self) -> u32 {
        2 * self.player.timetable().exchanges()
    }

    /// Everybody else.
    #[must_use]
    pub fn neighbours(&self) -> Vec<u32> {
        self.others().map(|j| j as u32).collect()
    }

    /// Agents whose part of the exchange under way has not come in.
    #[must_use]
    pub fn awaited(&self) -> Vec<u32> {
        let open = self.sent && self.model.is_none();
        let missing = |&j: &usize| open && self.waiting[0][j].is_none();
        self.others().filter(missing).map(|j| j as u32).collect()
    }

    /// The state to make durable when [`ShareEffect::Charge`], [`ShareEffect::Keep`] or [`ShareEffect::Done`] asks for it. The messages that are out
    /// are not in it: whoever saves it saves them too, for nobody could make the same shares again. What others sent is left out, they send it again.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            agent: self.id,
            round: self.done,
            own: Some(self.own.clone()),
            away: Vec::new(),
            model: self.model.clone(),
            player: self.player.state(),
            shares: Some(self.total.clone()),
        }
    }

    /// Puts a fresh agent where a checkpoint left off: its part of the exchange under way is out, and nothing is drawn or sent again.
    ///
    /// # Errors
    /// A checkpoint of another agent or another experiment; the agent must not be used then.
    pub fn restore(&mut self, saved: &Checkpoint) -> Result<(), RestoreError> {
        if saved.agent != self.id {
            return Err(RestoreError::Agent { agent: self.id, found: saved.agent });
        }
        let shape = |what| RestoreError::Shape { what };
        let total = saved.shares.as_ref().filter(|total| total.len() == self.total.len());
        let total = total.ok_or(shape("the exchange"))?;
        let own = saved.own.as_ref().filter(|own| own.len() == self.own.len()).ok_or(shape("the model"))?;
        if saved.model.as_ref().is_some_and(|model| model.len() != own.len()) {
            return Err(shape("the model"));
        }
        if saved.round > self.last() || (saved.round == self.last()) != saved.model.is_some() {
            return Err(shape("the timetable"));
        }
        self.player.resume(&saved.player)?;
        (self.done, self.sent) = (saved.round, true);
        self.total.copy_from_slice(total);
        self.own.copy_from_slice(own);
        self.model.clone_from(&saved.model);
        self.queue.clear();
        Ok(())
    }

    /// Ends the run because `from` is gone: its shares cannot be replaced, and what was exchanged in this round stays hidden.
    pub fn dropped(&mut self, from: u32) -> ShareError {
        let error = ShareError::Dropped { from, round: self.round() + 1 };
        self.queue.clear();
        self.failed.get_or_insert(error).clone()
    }

    /// Takes a message in.
    ///
    /// # Errors
    /// A [`ShareRefusal`] that says why; the state is as it was.
    pub fn handle(&mut self, message: &ShareMessage) -> Result<(), ShareRefusal> {
        let &ShareMessage { from, to, round, phase, ref words } = message;
        if let Some(failure) = &self.failed {
            return Err(ShareRefusal::Failed(failure.to_string()));
        }
        if to != self.id || from == self.id || from as usize >= self.code.agents() {
            return Err(ShareRefusal::Stranger { from, to, agent: self.id });
        }
        let (got, want) = (words.len(), self.total.len());
        if got != want {
            return Err(ShareRefusal::Length { from, round, phase, got, want });
        }
        if round == 0 || round > self.player.timetable().exchanges() {
            return Err(ShareRefusal::OutOfTurn { from, round, phase });
        }
        let exchange = 2 * (round - 1) + phase as u32 + 1;
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

    /// What to do next; `None` until another message comes.
    ///
    /// # Errors
    /// A vector that does not fit the declared range, or a run that failed before: nothing more is sent.
    pub fn poll(&mut self) -> Result<Option<ShareEffect>, ShareError> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        while self.queue.is_empty() && self.model.is_none() {
            if !self.sent {
                if let Err(error) = self.send() {
                    self.queue.clear();
                    return Err(self.failed.insert(error).clone());
                }
            } else if !self.take_in() {
                break;
            }
            if let Some(failure) = &self.failed {
                return Err(failure.clone());
            }
        }
        Ok(self.queue.pop_front())
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.id as usize;
        (0..self.code.agents()).filter(move |&j| j != me)
    }

    /// Queues this agent's part of the next exchange.
    fn send(&mut self) -> Result<(), ShareError> {
        let round = self.round() + 1;
        let message = |to: usize, phase, words| {
            ShareEffect::Send(ShareMessage { from: self.id, to: to as u32, round, phase, words })
        };
        if self.done.is_multiple_of(2) {
            let mut words = vec![0; self.code.agents() * self.total.len()];
            let seat = self.sight.seat(self.done / 2);
            let shares = self.player.share(&seat, &mut self.draft, &self.code, &mut self.own, &mut words)?;
            self.total.copy_from_slice(shares.of(self.id as usize));
            self.queue.push_back(ShareEffect::Charge { round, charge: shares.charge() });
            for to in self.others() {
                self.queue.push_back(message(to, Phase::Share, shares.of(to).into()));
            }
        } else {
            let sum: Arc<[u64]> = self.total.as_slice().into();
            self.queue.push_back(ShareEffect::Keep { round });
            for to in self.others() {
                self.queue.push_back(message(to, Phase::Sum, Arc::clone(&sum)));
            }
        }
        self.sent = true;
        Ok(())
    }

    /// Completes the exchange if everybody's part is here.
    fn take_in(&mut self) -> bool {
        if self.others().any(|j| self.waiting[0][j].is_none()) {
            return false;
        }
        self.waiting[0].iter().flatten().for_each(|words| add(&mut self.total, words));
        self.waiting.swap(0, 1);
        std::mem::swap(&mut self.taken, &mut self.waiting[1]);
        self.waiting[1].fill(None);
        (self.done, self.sent) = (self.done + 1, false);
        if !self.done.is_multiple_of(2) {
            return true;
        }
        if !self.code.adds_up_to(&self.total) {
            let (round, agents, range) = (self.round(), self.code.agents(), self.code.range());
            self.failed = Some(ShareError::Forged { round, agents, range });
            return true;
        }
        let set = self.player.gate().constraint();
        let revealed = revealed(&self.code, self.sight.needs(), set, &self.total, self.code.agents());
        self.sight.reveal(&self.own, &revealed);
        if self.round() == self.player.timetable().exchanges() {
            self.model = Some(self.player.finish(&self.sight.seat(self.done / 2)));
            let reason = self.player.stopped().map_or(StopReason::Finished, |s| s.1);
            self.queue.push_back(ShareEffect::Done(reason));
        }
        true
    }
}
