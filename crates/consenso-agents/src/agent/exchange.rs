//! One agent, whatever it exchanges.
//!
//! [`Agent`] has what all agents have: a [`Player`], a queue of what it wants done, a model in the
//! end. How vectors get to the others and back is an [`Exchange`]: as they are ([`Vectors`]), in
//! [secret shares](crate::sharing::SecretShares) or under [masks](crate::sharing::MaskedSums). A
//! round is one exchange or several; exchanges are numbered from 1 over the whole run, and each is
//! sent by everybody and awaited from everybody before the next.

use super::{
    AbsenceError, AddNeighbourError, Checkpoint, Message, NeighbourView, Player, RejoinError,
    RestoreError, Vectors,
};
use crate::gate::{Charge, DraftScratch, Round, ShareError, StopReason};
use crate::random::Seed;
use std::collections::VecDeque;

/// What an agent wants done, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect<M = Message> {
    /// Make the state durable, and the messages that follow: they were drawn and charged, and must
    /// be on disk before one of them leaves. Messages that pass on what is known are charged
    /// nothing.
    Charge {
        /// The exchange that they are for.
        exchange: u32,
        /// What they were charged.
        charge: Charge,
    },
    /// Send to every neighbour, or to the one it names, again and again until each has it.
    Send(M),
    /// Nothing more will come; the model is ready.
    Done(StopReason),
}

/// What agents have in common, whatever they exchange.
#[derive(Debug)]
pub struct Core<M> {
    pub(crate) id: u32,
    pub(crate) player: Player,
    pub(crate) draft: DraftScratch,
    pub(crate) queue: VecDeque<Effect<M>>,
    pub(crate) model: Option<Vec<f64>>,
    /// Why the run failed, if it did: nothing more is sent then.
    pub(crate) failed: Option<ShareError>,
}

impl<M> Core<M> {
    pub(crate) fn new(id: u32, player: Player) -> Self {
        Self {
            id,
            player,
            draft: DraftScratch::default(),
            queue: VecDeque::new(),
            model: None,
            failed: None,
        }
    }

    /// Rounds of the whole run.
    pub(crate) fn rounds(&self) -> Round {
        Round(self.player.timetable().exchanges())
    }

    /// Queues what makes messages durable, and the messages.
    pub(crate) fn send(
        &mut self,
        exchange: u32,
        charge: Charge,
        messages: impl IntoIterator<Item = M>,
    ) {
        self.queue.push_back(Effect::Charge { exchange, charge });
        self.queue.extend(messages.into_iter().map(Effect::Send));
    }

    /// The last round is complete, and this is what it left.
    pub(crate) fn finish(&mut self, neighbourhood: &NeighbourView<'_>) {
        self.queue.clear();
        self.model = Some(self.player.finish(neighbourhood));
        let reason = self.player.stopped().map_or(StopReason::Finished, |s| s.1);
        self.queue.push_back(Effect::Done(reason));
    }

    /// A checkpoint of what all agents keep, after so many complete exchanges.
    pub(crate) fn checkpoint(&self, complete: u32) -> Checkpoint {
        Checkpoint {
            agent: self.id,
            round: complete,
            own: None,
            away: Vec::new(),
            model: self.model.clone(),
            player: self.player.state(),
            shares: None,
        }
    }
}

/// How what agents release gets to the others: the state of an exchange under way, what this agent
/// has out and what came in.
///
/// An implementation needs the inside of [`Core`], so that all of them are in this crate.
pub trait Exchange: Sized + std::fmt::Debug {
    /// What is sent.
    type Message: Clone + std::fmt::Debug + PartialEq;
    /// Why a message is not taken.
    type Refusal: std::error::Error + Send + Sync + 'static;

    /// Exchanges complete.
    fn complete(&self) -> u32;

    /// Rounds complete.
    fn round(&self) -> Round;

    /// Exchanges of the whole run, or a number above that of every exchange there can be.
    fn last(&self, core: &Core<Self::Message>) -> u32;

    /// Rounds that so many exchanges make.
    fn rounds_in(&self, core: &Core<Self::Message>, exchanges: u32) -> Round;

    /// Rounds that so many exchanges begin.
    fn begun_in(&self, core: &Core<Self::Message>, exchanges: u32) -> Round;

    /// Its neighbours, by agent number.
    fn neighbours(&self) -> &[u32];

    /// Whether this agent's own part of the exchange under way is out.
    fn is_out(&self) -> bool;

    /// Neighbours whose part of the exchange under way has not come in, and is waited for.
    fn awaited(&self, core: &Core<Self::Message>) -> Vec<u32>;

    /// Drafts and queues this agent's part of the next exchange.
    ///
    /// # Errors
    /// A vector that cannot be sent: the run is over then.
    fn send(&mut self, core: &mut Core<Self::Message>) -> Result<(), ShareError>;

    /// Completes the exchange under way: everybody's part is here.
    ///
    /// # Errors
    /// Parts that do not fit together: the run is over then.
    fn take_in(&mut self, core: &mut Core<Self::Message>) -> Result<(), ShareError>;

    /// Takes a message in.
    ///
    /// # Errors
    /// Why not; the state is as it was.
    fn handle(
        &mut self,
        core: &mut Core<Self::Message>,
        message: &Self::Message,
    ) -> Result<(), Self::Refusal>;

    /// What must not be forgotten.
    fn checkpoint(&self, core: &Core<Self::Message>) -> Checkpoint;

    /// Goes on from a checkpoint of this agent's, and the player with it.
    ///
    /// # Errors
    /// What does not fit.
    fn restore(
        &mut self,
        core: &mut Core<Self::Message>,
        saved: &Checkpoint,
    ) -> Result<(), RestoreError>;

    /// What is sent again after a restart: the checkpoint alone has it.
    fn again(&self, _core: &Core<Self::Message>) -> Option<Self::Message> {
        None
    }

    /// Whom it goes on without, and from when on.
    fn away(&self) -> Vec<(u32, Round)> {
        Vec::new()
    }

    /// Whether the algorithm can go on without a neighbour, each agent from its own next exchange
    /// on.
    ///
    /// # Errors
    /// Why it cannot.
    fn may_go_without(&self, core: &Core<Self::Message>) -> Result<(), AbsenceError>;

    /// Goes on without a neighbour.
    ///
    /// # Errors
    /// Why it cannot.
    fn go_without(
        &mut self,
        core: &mut Core<Self::Message>,
        _from: u32,
    ) -> Result<(), AbsenceError> {
        self.may_go_without(core)
    }

    /// Whether the claim stands with another neighbour.
    ///
    /// # Errors
    /// Why it does not.
    fn may_join(&self, core: &Core<Self::Message>) -> Result<(), AddNeighbourError>;

    /// Gives the agent another neighbour from exchange `from` on.
    ///
    /// # Errors
    /// Why it cannot; the state is as it was.
    fn join(
        &mut self,
        core: &mut Core<Self::Message>,
        _neighbour: u32,
        _weight: f64,
        _from: u32,
    ) -> Result<(), AddNeighbourError> {
        self.may_join(core)
    }

    /// Neighbours that came after the start or will, each with its first exchange.
    fn joined(&self) -> Vec<(u32, u32)> {
        Vec::new()
    }

    /// The state of an agent that lost it after its message of exchange `released`, which others
    /// still have.
    ///
    /// # Errors
    /// Why nobody can say it.
    fn rejoined(
        &self,
        core: &Core<Self::Message>,
        released: u32,
        own: Option<&[f64]>,
    ) -> Result<Checkpoint, RejoinError>;
}

/// A [`Player`] among messages.
///
/// A neighbour can be at most one exchange ahead, for it needs this agent's message to go on; so
/// little is held of what arrives, in whatever order and however often.
#[derive(Debug)]
pub struct Agent<E: Exchange = Vectors> {
    pub(crate) core: Core<E::Message>,
    pub(crate) exchange: E,
}

impl<E: Exchange> Agent<E> {
    /// The player inside.
    #[must_use]
    pub fn player(&self) -> &Player {
        &self.core.player
    }

    /// The model, once [`Effect::Done`] was polled.
    #[must_use]
    pub fn model(&self) -> Option<&[f64]> {
        self.core.model.as_deref()
    }

    /// Why the run failed, if it did.
    #[must_use]
    pub fn failure(&self) -> Option<&ShareError> {
        self.core.failed.as_ref()
    }

    /// Exchanges complete.
    #[must_use]
    pub fn exchanges(&self) -> u32 {
        self.exchange.complete()
    }

    /// Rounds complete: what they revealed is known.
    #[must_use]
    pub fn round(&self) -> Round {
        self.exchange.round()
    }

    /// Exchanges of the whole run, or a number above that of every exchange there can be.
    #[must_use]
    pub fn last(&self) -> u32 {
        self.exchange.last(&self.core)
    }

    /// Rounds that were complete when so many exchanges were.
    #[must_use]
    pub fn rounds_in(&self, exchanges: u32) -> Round {
        self.exchange.rounds_in(&self.core, exchanges)
    }

    /// Rounds that had begun when so many exchanges had.
    #[must_use]
    pub fn begun_in(&self, exchanges: u32) -> Round {
        self.exchange.begun_in(&self.core, exchanges)
    }

    /// Its neighbours, by agent number.
    #[must_use]
    pub fn neighbours(&self) -> &[u32] {
        self.exchange.neighbours()
    }

    /// Neighbours whose part of the exchange under way has not come in, and is waited for.
    #[must_use]
    pub fn awaited(&self) -> Vec<u32> {
        let open = self.exchange.is_out() && self.core.model.is_none();
        if open { self.exchange.awaited(&self.core) } else { Vec::new() }
    }

    /// Neighbours with whom the secret of the edge is still to be agreed on: nothing is drafted
    /// before.
    #[must_use]
    pub fn awaited_secrets(&self) -> Vec<u32> {
        let mut awaited: Vec<u32> = self.core.player.gate().awaited_secrets().collect();
        if !awaited.is_empty() {
            let away = self.exchange.away();
            awaited.retain(|j| !away.iter().any(|gone| gone.0 == *j));
        }
        awaited
    }

    /// Takes in the secret of the edge to a neighbour; see
    /// [`Gate::agree`](crate::gate::Gate::agree).
    pub fn agree(&mut self, neighbour: u32, secret: &Seed) {
        self.core.player.agree(neighbour, secret);
    }

    /// Has rounds up to this one charged and not use the records; see [`Player::spare`].
    pub fn spare(&mut self, until: Round) {
        self.core.player.spare(until.0);
    }

    /// Whom it goes on without, and from which round on.
    #[must_use]
    pub fn away(&self) -> Vec<(u32, Round)> {
        self.exchange.away()
    }

    /// Goes on without a neighbour from the next exchange on: its place in every sum and its weight
    /// in every mix are the agent's own, as if the edge were gone, which is a function of what was
    /// released and costs nothing. A masked round begins again without it, under a new label.
    ///
    /// # Errors
    /// Nobody of that number, or an exchange that cannot. Masked sums that cannot be without one
    /// more have failed then; else the state is as it was.
    pub fn go_without(&mut self, from: u32) -> Result<(), AbsenceError> {
        self.exchange.go_without(&mut self.core, from)
    }

    /// Whether the algorithm can go on without a neighbour, each agent from its own next exchange
    /// on.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn may_go_without(&self) -> Result<(), AbsenceError> {
        self.exchange.may_go_without(&self.core)
    }

    /// Gives the agent another neighbour from exchange `from` on, whose weight in every mix is
    /// taken from the agent's own. The other end must do the same with the same weight and
    /// exchange: then the mixing matrix stays symmetric and doubly stochastic, and nobody else is
    /// concerned. What the agent released before is as it was. The releases it makes later cost
    /// what they always did: a mix of released vectors is public whoever released them, and the
    /// step's sensitivity does not depend on it.
    ///
    /// # Errors
    /// An exchange that cannot or is over, or a weight that the agent has not; the state is as it
    /// was.
    pub fn join(
        &mut self,
        neighbour: u32,
        weight: f64,
        from: u32,
    ) -> Result<(), AddNeighbourError> {
        self.exchange.join(&mut self.core, neighbour, weight, from)
    }

    /// Whether the algorithm's claim stands with another neighbour.
    ///
    /// # Errors
    /// Why it does not.
    pub fn may_join(&self) -> Result<(), AddNeighbourError> {
        self.exchange.may_join(&self.core)
    }

    /// Neighbours that it gets or got after the start, each with its first exchange.
    #[must_use]
    pub fn joined(&self) -> Vec<(u32, u32)> {
        self.exchange.joined()
    }

    /// The state to make durable when an effect asks for it. What neighbours sent for the exchange
    /// under way is left out: they send it again. Shares and masked vectors that are out are not in
    /// it: whoever saves it saves them too, for nobody could make the same again.
    #[must_use]
    pub fn checkpoint(&self) -> Checkpoint {
        self.exchange.checkpoint(&self.core)
    }

    /// Puts a fresh agent where a checkpoint left off. What was charged and may have been sent is
    /// never drawn again: the same bits are sent, by the agent or by whoever kept them.
    ///
    /// # Errors
    /// A checkpoint of another agent or another experiment; the agent must not be used then.
    pub fn restore(&mut self, saved: &Checkpoint) -> Result<(), RestoreError> {
        let Self { core, exchange } = self;
        if saved.agent != core.id {
            return Err(RestoreError::Agent { agent: core.id, found: saved.agent });
        }
        exchange.restore(core, saved)?;
        core.model.clone_from(&saved.model);
        core.queue.clear();
        core.queue.extend(exchange.again(core).map(Effect::Send));
        Ok(())
    }

    /// The state of an agent that lost it after its message of exchange `released`, which others
    /// still have; `None` if they have none.
    ///
    /// Only for algorithms whose next message is a function of the last releases and of the
    /// schedule. An average of the agent's own releases begins anew. Whoever cannot know whether
    /// there were more releases must [spare](Player::spare) their rounds.
    ///
    /// # Errors
    /// An algorithm that remembers more than that, or an exchange of which nobody else has
    /// anything.
    pub fn rejoined(&self, released: u32, own: Option<&[f64]>) -> Result<Checkpoint, RejoinError> {
        self.exchange.rejoined(&self.core, released, own)
    }

    /// Takes a message in.
    ///
    /// # Errors
    /// A refusal that says why; the state is as it was.
    pub fn handle(&mut self, message: &E::Message) -> Result<(), E::Refusal> {
        self.exchange.handle(&mut self.core, message)
    }

    /// What to do next; `None` until another message comes.
    ///
    /// # Errors
    /// A run that has failed: nothing more is sent. One that exchanges [`Vectors`] never does.
    pub fn try_poll(&mut self) -> Result<Option<Effect<E::Message>>, ShareError> {
        if let Some(failure) = &self.core.failed {
            return Err(failure.clone());
        }
        while self.core.queue.is_empty() && self.core.model.is_none() {
            let went = if !self.exchange.is_out() {
                if !self.awaited_secrets().is_empty() {
                    break;
                }
                self.exchange.send(&mut self.core)
            } else if self.exchange.awaited(&self.core).is_empty() {
                self.exchange.take_in(&mut self.core)
            } else {
                break;
            };
            if let Err(error) = went {
                self.core.queue.clear();
                return Err(self.core.failed.insert(error).clone());
            }
        }
        Ok(self.core.queue.pop_front())
    }

    /// Takes the messages that follow an [`Effect::Charge`]: made durable with it, and sent after.
    #[must_use]
    pub fn take_messages(&mut self) -> Vec<E::Message> {
        let mut messages = Vec::new();
        while let Some(effect) = self.core.queue.pop_front() {
            match effect {
                Effect::Send(message) => messages.push(message),
                other => {
                    self.core.queue.push_front(other);
                    break;
                }
            }
        }
        messages
    }
}
