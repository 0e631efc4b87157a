//! The agent a node drives: one that sends its vectors, one that sends shares of them, or one that
//! sends them masked.
//!
//! To a node all are the same: numbered exchanges, in each of which something is made durable, sent
//! to every neighbour and awaited from every neighbour. What they have in common is [`Agent`];
//! [`Framed`] is what an [`Exchange`] adds to be carried by a network. Shares take two exchanges a
//! round, 2r − 1 for the shares and 2r for the sums, and every neighbour has a frame of its own.
//! Masked vectors take as many exchanges a round as there are hops between the two sites farthest
//! apart, and all neighbours have the same frame; a round that is tried again without somebody has
//! numbers of its own (see [`MaskedSums`]).

use crate::frame::{self, Frame, Origin};
use crate::progress::Convergence;
use bytes::Bytes;
use consenso_engine::ConfigError;
use consenso_engine::agent::{
    AbsenceError, AddNeighbourError, Agent, Checkpoint, Effect, Exchange, Message, RejoinError,
    RestoreError, Vectors,
};
use consenso_engine::experiment::{Experiment, MaskedSite, SharingSite, Site, SitePlan};
use consenso_engine::gate::{Charge, MaskLabel, Round, StopReason};
use consenso_engine::random::Seed;
use consenso_engine::sharing::{MaskedMessage, MaskedSums, SecretShares};
use consenso_engine::sharing::{Phase, ShareError, ShareMessage, ShareRefusal};
use std::collections::BTreeMap;

/// What an agent wants done.
pub(crate) enum Wanted {
    /// These bytes made durable with the agent's state, and then sent: to each neighbour its
    /// [part](Drive::part).
    Commit {
        /// The exchange.
        round: u32,
        /// Everybody's parts.
        bytes: Bytes,
        /// What it was charged.
        charge: Charge,
    },
    /// Nothing more will come.
    Done(StopReason),
    /// Nothing: after a restart what is out is on disk already, and leaves for whoever connects.
    Nothing,
}

/// A mean over about the latest share of the rounds: noise of single rounds goes, what the run does
/// stays.
#[derive(Default)]
struct MovingMean(Vec<f64>);

impl MovingMean {
    /// Takes in the vector of a round; the first after a start is the mean.
    fn add(&mut self, share: f64, round: Round, vector: &[f64]) {
        if self.0.len() != vector.len() {
            self.0 = vector.to_vec();
            return;
        }
        let weight = (1.0 / (share * f64::from(round.0.max(1)))).min(1.0);
        self.0.iter_mut().zip(vector).for_each(|(mean, x)| *mean += weight * (x - *mean));
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// How far the mean of what an agent released of late is from that of each neighbour's releases.
#[derive(Default)]
struct NeighbourDistance {
    round: Round,
    /// Its own, then its neighbours', one after the other.
    means: MovingMean,
}

impl NeighbourDistance {
    fn look(&mut self, agent: &Agent) {
        if agent.round() != self.round && !agent.releases().is_empty() {
            self.round = agent.round();
            self.means.add(0.25, self.round, agent.releases());
        }
    }

    fn largest(&self, neighbours: usize) -> f64 {
        let mut means = self.means.0.chunks_exact((self.means.0.len() / (neighbours + 1)).max(1));
        let Some(own) = means.next() else { return 0.0 };
        means.map(|mean| distance(mean, own)).fold(0.0, f64::max)
    }
}

/// How far what the latest rounds reveal to everybody is from what the rounds before them did.
#[derive(Default)]
struct RevealedSteps {
    round: Round,
    /// Means of what was revealed, over an eighth and over half of the rounds; empty after a start,
    /// when it is not known.
    means: (MovingMean, MovingMean),
    length: Option<f64>,
}

impl RevealedSteps {
    /// Of a run that stands after this round.
    fn after(round: Round) -> Self {
        Self { round, ..Self::default() }
    }

    fn look(&mut self, round: Round, revealed: &[f64]) {
        if round == self.round {
            return;
        }
        let (late, long) = &mut self.means;
        late.add(0.125, round, revealed);
        self.length = (!long.0.is_empty()).then(|| distance(&late.0, &long.0));
        long.add(0.5, round, revealed);
        self.round = round;
    }
}

/// What an exchange adds to be carried by a network.
trait Framed: Exchange<Message: Send + Sync> + Send + Sync + 'static {
    /// What is known of convergence from what all sites know: releases, or sums.
    type Seen: Default + Send + Sync;
    /// Whether vectors leave in shares or under masks, and not as they are.
    const SHARED: bool;
    /// Whether vectors leave under masks.
    const MASKED: bool = false;
    /// Whether every neighbour has a message of its own.
    const ADDRESSED: bool = false;

    /// The bytes of what an agent sends in an exchange, everybody's parts one after the other.
    fn bytes(exchange: u32, messages: &[Self::Message], vouched: &SignedVectors) -> Bytes;

    /// The message in a frame on the edge to `peer`, and the exchange that it is for.
    fn message(
        agent: &Agent<Self>,
        peer: u32,
        frame: Frame,
    ) -> Result<(u32, Self::Message), FrameRefusal>;

    /// Whether a refusal says that the message was known already.
    fn was_known(_refusal: &Self::Refusal) -> bool {
        false
    }

    /// Looks at what an agent knows by now.
    fn look(agent: &Agent<Self>, seen: &mut Self::Seen);

    /// What can be said of a run that goes on from a checkpoint.
    fn seen_after(_agent: &Agent<Self>) -> Self::Seen {
        Self::Seen::default()
    }

    /// What can be said of convergence.
    fn convergence(agent: &Agent<Self>, seen: &Self::Seen) -> Convergence;

    /// The longest message, in numbers.
    fn longest(_agent: &Agent<Self>, plan: &SitePlan) -> usize {
        plan.width
    }

    /// How old the vectors were that the last exchange mixed, by neighbour; empty where they are
    /// all of its round.
    fn ages(_agent: &Agent<Self>) -> Vec<u32> {
        Vec::new()
    }

    /// Of every neighbour a site that has so many exchanges complete had releases up to here.
    fn surely_had(agent: &Agent<Self>, complete: u32) -> u32 {
        let stale = agent.player().staleness();
        if complete == agent.last() { complete } else { complete.saturating_sub(stale) }
    }

    /// How many deadlines a site that is done waits for one that is not.
    fn patience(_agent: &Agent<Self>) -> u32 {
        1
    }

    /// How many sites take part, of all there are, where that is not only a matter of neighbours.
    fn taking_part(_agent: &Agent<Self>) -> Option<usize> {
        None
    }

    /// Exchanges of a round.
    fn exchanges(_agent: &Agent<Self>) -> u32 {
        1
    }
}

impl Framed for Vectors {
    type Seen = NeighbourDistance;
    const SHARED: bool = false;

    fn bytes(exchange: u32, messages: &[Message], _: &SignedVectors) -> Bytes {
        let [message] = messages else { unreachable!("one message an exchange") };
        frame::release(message.from(), exchange, message.values())
    }

    fn message(_: &Agent<Self>, peer: u32, frame: Frame) -> Result<(u32, Message), FrameRefusal> {
        let Frame::Release { from, round, values } = frame else {
            return Err(FrameRefusal::OutOfPlace);
        };
        if from != peer {
            return Err(FrameRefusal::Misplaced { what: "a release", from, peer });
        }
        Ok((round, Message::received(from, round, values)))
    }

    fn look(agent: &Agent<Self>, seen: &mut NeighbourDistance) {
        seen.look(agent);
    }

    fn convergence(agent: &Agent<Self>, seen: &NeighbourDistance) -> Convergence {
        Convergence::Disagreement(seen.largest(agent.neighbours().len()))
    }

    fn ages(agent: &Agent<Self>) -> Vec<u32> {
        agent.ages().to_vec()
    }
}

impl Framed for SecretShares {
    type Seen = RevealedSteps;
    const SHARED: bool = true;
    const ADDRESSED: bool = true;

    fn bytes(exchange: u32, messages: &[ShareMessage], _: &SignedVectors) -> Bytes {
        let one = |m: &ShareMessage| frame::words(m.from(), m.to(), exchange, m.words());
        messages.iter().map(one).collect::<Vec<_>>().concat().into()
    }

    fn message(
        _: &Agent<Self>,
        peer: u32,
        frame: Frame,
    ) -> Result<(u32, ShareMessage), FrameRefusal> {
        let Frame::Words { from, to, round, words } = frame else {
            return Err(FrameRefusal::OutOfPlace);
        };
        if from != peer {
            return Err(FrameRefusal::Misplaced { what: "a share", from, peer });
        }
        let phase = if round.is_multiple_of(2) { Phase::Sum } else { Phase::Share };
        Ok((round, ShareMessage::received(from, to, Round(round.div_ceil(2)), phase, words)))
    }

    fn was_known(refusal: &ShareRefusal) -> bool {
        matches!(refusal, ShareRefusal::Replayed { .. })
    }

    fn look(agent: &Agent<Self>, seen: &mut RevealedSteps) {
        seen.look(agent.round(), agent.revealed());
    }

    fn seen_after(agent: &Agent<Self>) -> RevealedSteps {
        RevealedSteps::after(agent.round())
    }

    fn convergence(_: &Agent<Self>, seen: &RevealedSteps) -> Convergence {
        Convergence::Step(seen.length)
    }
}

impl Framed for MaskedSums {
    type Seen = RevealedSteps;
    const SHARED: bool = true;
    const MASKED: bool = true;

    fn bytes(exchange: u32, messages: &[MaskedMessage], vouched: &SignedVectors) -> Bytes {
        let [message] = messages else { unreachable!("one message an exchange") };
        let (hop, label) = (message.hop(), message.label());
        if hop == 1 {
            return frame::masked(exchange, message);
        }
        let since = message.since().iter().map(|round| round.0);
        let first = exchange.saturating_sub(hop - 1);
        let origin = |(whose, _): &(u32, _)| vouched.get(&(first, *whose)).cloned();
        Frame::Passed {
            from: message.from(),
            exchange,
            round: label.round().0,
            hop,
            gone: label.dropped().iter().copied().zip(since).collect(),
            origins: message.vectors().iter().filter_map(origin).collect(),
        }
        .encode()
    }

    fn message(
        agent: &Agent<Self>,
        peer: u32,
        frame: Frame,
    ) -> Result<(u32, MaskedMessage), FrameRefusal> {
        let (from, exchange, round, hop, gone, before, vectors) = match frame {
            Frame::Masked { hop, .. } if hop != 1 => return Err(FrameRefusal::Unvouched),
            Frame::Masked { from, exchange, round, hop, gone, before, vectors } => {
                (from, exchange, round, hop, gone, before, vectors)
            }
            Frame::Passed { from, exchange, round, hop, gone, origins } => {
                let vectors = vectors_of(round, hop, exchange, &gone, &origins)?;
                (from, exchange, round, hop, gone, None, vectors)
            }
            _ => return Err(FrameRefusal::OutOfPlace),
        };
        if from != peer {
            return Err(FrameRefusal::Misplaced { what: "masked vectors", from, peer });
        }
        let gone = gone.into_iter().map(|(agent, since)| (agent, Round(since)));
        let (dropped, since) = gone.unzip::<_, _, Vec<u32>, Vec<Round>>();
        let label = MaskLabel::new(Round(round), dropped);
        if agent.number_of(&label, hop) != Some(exchange) {
            return Err(FrameRefusal::Misnumbered { exchange, hop, round });
        }
        Ok((exchange, MaskedMessage::received(from, label, since, hop, before, vectors)))
    }

    fn look(agent: &Agent<Self>, seen: &mut RevealedSteps) {
        seen.look(agent.round(), agent.revealed());
    }

    fn seen_after(agent: &Agent<Self>) -> RevealedSteps {
        RevealedSteps::after(agent.round())
    }

    fn convergence(_: &Agent<Self>, seen: &RevealedSteps) -> Convergence {
        Convergence::Step(seen.length)
    }

    fn longest(agent: &Agent<Self>, plan: &SitePlan) -> usize {
        frame::longest_masked(plan.width, agent.agents())
    }

    fn surely_had(agent: &Agent<Self>, _: u32) -> u32 {
        // Numbers are passed over when somebody is given up: only this one says what was complete.
        agent.exchanges()
    }

    fn patience(agent: &Agent<Self>) -> u32 {
        2 + agent.may_drop_out() as u32
    }

    fn taking_part(agent: &Agent<Self>) -> Option<usize> {
        Some(agent.agents() - agent.away().len())
    }

    fn exchanges(agent: &Agent<Self>) -> u32 {
        agent.hops()
    }
}

/// Masked vectors as their origins signed them, by the number of the round's first exchange and by
/// whose they are.
pub(crate) type SignedVectors = BTreeMap<(u32, u32), Origin>;

/// Whose vector a frame with which a round begins has, and in which exchange, if it is such a frame.
pub(crate) fn origin_of(frame: &[u8]) -> Option<(u32, u32)> {
    match Frame::decode(frame) {
        Ok(Frame::Masked { from, exchange, hop: 1, vectors, .. })
            if vectors.len() == 1 && vectors[0].0 == from =>
        {
            Some((exchange, from))
        }
        _ => None,
    }
}

/// Vectors with whose they are.
type WordsOf = Vec<(u32, std::sync::Arc<[u64]>)>;

/// The vectors that somebody passes on: each from the first exchange of this round, under the same
/// label.
fn vectors_of(
    round: u32,
    hop: u32,
    exchange: u32,
    gone: &[(u32, u32)],
    origins: &[Origin],
) -> Result<WordsOf, FrameRefusal> {
    let first = exchange.checked_sub(hop.max(2) - 1);
    let of_label = |there: &[(u32, u32)]| there.iter().map(|g| g.0).eq(gone.iter().map(|g| g.0));
    let one = |origin: &Origin| match Frame::decode(&origin.frame) {
        Ok(Frame::Masked { from, exchange, round: its, hop: 1, gone, mut vectors, .. })
            if (its, Some(exchange)) == (round, first)
                && vectors.len() == 1
                && vectors[0].0 == from
                && of_label(&gone) =>
        {
            Ok(vectors.swap_remove(0))
        }
        _ => Err(FrameRefusal::OtherRound),
    };
    origins.iter().map(one).collect()
}

/// Why a frame was not taken; the agent is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameRefusal {
    /// No message of this exchange is in such a frame.
    #[error("a frame out of place")]
    OutOfPlace,
    /// It came on the edge to somebody else.
    #[error("{what} of agent {from} on the edge to agent {peer}")]
    Misplaced { what: &'static str, from: u32, peer: u32 },
    /// Its number is not that of what it says it is.
    #[error("exchange {exchange} is not number {hop} of round {round}")]
    Misnumbered { exchange: u32, hop: u32, round: u32 },
    /// It passes vectors on without what their origins signed.
    #[error("vectors of others without the signatures of whose they are")]
    Unvouched,
    /// It passes on what is no vector of this round.
    #[error("it passes on what nobody sent in the first exchange of this round")]
    OtherRound,
    /// The agent refused the message.
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
}

/// An agent of any exchange.
pub(crate) struct Driven(Box<dyn Drive>);

impl Driven {
    pub(crate) fn new(experiment: &Experiment, me: usize) -> Result<(Self, SitePlan), ConfigError> {
        fn driven<E: Framed>(agent: Agent<E>) -> Driven {
            let (seen, vouched) = (E::Seen::default(), SignedVectors::new());
            Driven(Box::new(Driver { agent, seen, vouched }))
        }
        if experiment.is_masked() {
            let MaskedSite { agent, plan } = experiment.masked_site(me)?;
            return Ok((driven(agent), plan));
        }
        if experiment.is_shared() {
            let SharingSite { agent, plan } = experiment.sharing_site(me)?;
            return Ok((driven(agent), plan));
        }
        let Site { agent, plan } = experiment.site(me)?;
        Ok((driven(agent), plan))
    }
}

impl std::ops::Deref for Driven {
    type Target = dyn Drive;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl std::ops::DerefMut for Driven {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

/// What a node asks of an agent, whatever it exchanges.
pub(crate) trait Drive: Send + Sync {
    /// Neighbours, those that it goes on without among them.
    fn neighbours(&self) -> Vec<u32>;

    /// Exchanges complete.
    fn exchanges(&self) -> u32;

    /// Exchanges of the whole run, or a number above that of every exchange there can be.
    fn last(&self) -> u32;

    /// Rounds that so many exchanges make.
    fn rounds_in(&self, exchanges: u32) -> Round;

    /// Rounds that so many exchanges begin.
    fn begun_in(&self, exchanges: u32) -> Round;

    /// The model, once there is one.
    fn model(&self) -> Option<&[f64]>;

    /// The number that says to neighbours that this site needs nothing more of them, once it does
    /// not.
    fn mark(&self) -> u32 {
        if self.model().is_some() { self.last() } else { self.exchanges() }
    }

    /// Who is waited for: before the first release for the secrets of edges.
    fn awaited(&self) -> Vec<u32>;

    /// Neighbours with whom the secret of the edge is still to be agreed on: nothing is released
    /// before.
    fn awaited_secrets(&self) -> Vec<u32>;

    /// Takes in the secret of an edge.
    fn agree(&mut self, neighbour: u32, secret: &Seed);

    /// The longest message, in numbers.
    fn longest(&self, plan: &SitePlan) -> usize;

    /// How many rounds old a mixed vector may be.
    fn staleness(&self) -> u32;

    /// How old the vectors were that the last exchange mixed, by neighbour; empty where they are
    /// all of its round.
    fn ages(&self) -> Vec<u32>;

    /// Of every neighbour a site that has so many exchanges complete had releases up to here.
    fn surely_had(&self, complete: u32) -> u32;

    /// How many deadlines a site that is done waits for one that is not.
    fn patience(&self) -> u32;

    /// How many sites take part, of all there are, where that is not only a matter of neighbours.
    fn taking_part(&self) -> Option<usize>;

    /// Whom it goes on without, and from when on.
    fn away(&self) -> Vec<(u32, Round)>;

    /// Goes on without a neighbour; why not.
    fn go_without(&mut self, neighbour: u32) -> Result<(), AbsenceError>;

    /// Whether the algorithm can go on without a neighbour, each site from its own next exchange
    /// on; why not.
    fn may_go_without(&self) -> Result<(), AbsenceError>;

    /// Whether its claim stands with another neighbour; why not.
    fn may_join(&self) -> Result<(), AddNeighbourError>;

    /// Gives it another neighbour from an exchange on.
    fn join(&mut self, neighbour: u32, weight: f64, from: u32) -> Result<(), AddNeighbourError>;

    /// Neighbours that it gets or got after the start, each with its first exchange.
    fn joined(&self) -> Vec<(u32, u32)>;

    /// Whether vectors leave in shares or under masks, and not as they are.
    fn is_shared(&self) -> bool;

    /// Whether vectors leave under masks.
    fn is_masked(&self) -> bool;

    /// Whether every neighbour has a message of its own.
    fn is_addressed(&self) -> bool;

    /// What can be said of convergence from what all sites know: releases, or sums.
    fn convergence(&self) -> Convergence;

    /// The state to make durable.
    fn checkpoint(&self) -> Checkpoint;

    /// Goes on from a checkpoint.
    fn restore(&mut self, saved: &Checkpoint) -> Result<(), RestoreError>;

    /// The state after `released` exchanges, of which others still have the last; why not, if the
    /// algorithm remembers more.
    fn rejoined(&self, released: u32, own: Option<&[f64]>) -> Result<Checkpoint, RejoinError>;

    /// What an exchange costs by the schedule; `None` where that depends on the transcript.
    fn scheduled(&self, round: u32) -> Option<Charge>;

    /// Has exchanges up to this one charged without using the records.
    fn spare(&mut self, until: Round);

    /// What to do next; `None` until another message comes.
    fn poll(&mut self) -> Result<Option<Wanted>, ShareError>;

    /// Of everybody's parts the one for this neighbour, and never another's: shares say for whom
    /// they are.
    fn part(&self, neighbour: u32, bytes: &Bytes) -> Option<Bytes>;

    /// Takes in what `peer` sent for an exchange; its number. What was known already changes
    /// nothing.
    fn handle(&mut self, peer: u32, frame: Frame) -> Result<u32, FrameRefusal>;

    /// The masked vector of a site as it signed it, by the number of the exchange and whose it is.
    fn vouched(&self, of: (u32, u32)) -> Option<&Origin>;

    /// Keeps masked vectors as they were signed, for as long as they may have to be passed on.
    fn vouch(&mut self, all: Vec<((u32, u32), Origin)>);

    /// Takes in what `peer` sent and remembers the largest number it ever sent, with its exchange;
    /// see [`Self::handle`].
    fn take(
        &mut self,
        peer: u32,
        frame: Frame,
        largest: &mut (f64, u32),
    ) -> Result<u32, FrameRefusal> {
        let sent = match &frame {
            Frame::Release { round, values, .. } => {
                (values.iter().fold(0.0, |most: f64, x| most.max(x.abs())), *round)
            }
            _ => (0.0, 0),
        };
        let round = self.handle(peer, frame)?;
        if sent.0 > largest.0 {
            *largest = sent;
        }
        Ok(round)
    }
}

/// An agent and what its site tells of it.
struct Driver<E: Framed> {
    agent: Agent<E>,
    seen: E::Seen,
    /// What can be passed on.
    vouched: SignedVectors,
}

impl<E: Framed> Drive for Driver<E> {
    fn neighbours(&self) -> Vec<u32> {
        self.agent.neighbours().to_vec()
    }

    fn exchanges(&self) -> u32 {
        self.agent.exchanges()
    }

    fn last(&self) -> u32 {
        self.agent.last()
    }

    fn rounds_in(&self, exchanges: u32) -> Round {
        self.agent.rounds_in(exchanges)
    }

    fn begun_in(&self, exchanges: u32) -> Round {
        self.agent.begun_in(exchanges)
    }

    fn model(&self) -> Option<&[f64]> {
        self.agent.model()
    }

    fn awaited(&self) -> Vec<u32> {
        match self.agent.awaited_secrets() {
            none if none.is_empty() => self.agent.awaited(),
            secrets => secrets,
        }
    }

    fn awaited_secrets(&self) -> Vec<u32> {
        self.agent.awaited_secrets()
    }

    fn agree(&mut self, neighbour: u32, secret: &Seed) {
        self.agent.agree(neighbour, secret);
    }

    fn longest(&self, plan: &SitePlan) -> usize {
        E::longest(&self.agent, plan)
    }

    fn staleness(&self) -> u32 {
        self.agent.player().staleness()
    }

    fn ages(&self) -> Vec<u32> {
        E::ages(&self.agent)
    }

    fn surely_had(&self, complete: u32) -> u32 {
        E::surely_had(&self.agent, complete)
    }

    fn patience(&self) -> u32 {
        E::patience(&self.agent)
    }

    fn taking_part(&self) -> Option<usize> {
        E::taking_part(&self.agent)
    }

    fn away(&self) -> Vec<(u32, Round)> {
        self.agent.away()
    }

    fn go_without(&mut self, neighbour: u32) -> Result<(), AbsenceError> {
        self.agent.go_without(neighbour)
    }

    fn may_go_without(&self) -> Result<(), AbsenceError> {
        self.agent.may_go_without()
    }

    fn may_join(&self) -> Result<(), AddNeighbourError> {
        self.agent.may_join()
    }

    fn join(&mut self, neighbour: u32, weight: f64, from: u32) -> Result<(), AddNeighbourError> {
        self.agent.join(neighbour, weight, from)
    }

    fn joined(&self) -> Vec<(u32, u32)> {
        self.agent.joined()
    }

    fn is_shared(&self) -> bool {
        E::SHARED
    }

    fn is_masked(&self) -> bool {
        E::MASKED
    }

    fn is_addressed(&self) -> bool {
        E::ADDRESSED
    }

    fn convergence(&self) -> Convergence {
        E::convergence(&self.agent, &self.seen)
    }

    fn checkpoint(&self) -> Checkpoint {
        self.agent.checkpoint()
    }

    fn restore(&mut self, saved: &Checkpoint) -> Result<(), RestoreError> {
        self.agent.restore(saved)?;
        self.seen = E::seen_after(&self.agent);
        Ok(())
    }

    fn rejoined(&self, released: u32, own: Option<&[f64]>) -> Result<Checkpoint, RejoinError> {
        self.agent.rejoined(released, own)
    }

    fn scheduled(&self, round: u32) -> Option<Charge> {
        self.agent.player().gate().scheduled(round)
    }

    fn spare(&mut self, until: Round) {
        self.agent.spare(until);
    }

    fn poll(&mut self) -> Result<Option<Wanted>, ShareError> {
        let effect = self.agent.try_poll()?;
        E::look(&self.agent, &mut self.seen);
        Ok(effect.map(|effect| match effect {
            Effect::Charge { exchange, charge } => {
                let bytes = E::bytes(exchange, &self.agent.take_messages(), &self.vouched);
                Wanted::Commit { round: exchange, bytes, charge }
            }
            Effect::Send(_) => Wanted::Nothing,
            Effect::Done(reason) => Wanted::Done(reason),
        }))
    }

    fn part(&self, neighbour: u32, bytes: &Bytes) -> Option<Bytes> {
        if !E::ADDRESSED {
            return Some(bytes.clone());
        }
        let neighbours = self.agent.neighbours();
        let place = neighbours.iter().position(|&j| j == neighbour)?;
        let length = bytes.len() / neighbours.len();
        let part = bytes.slice(place * length..(place + 1) * length);
        (frame::receiver(&part) == Some(neighbour)).then_some(part)
    }

    fn vouched(&self, of: (u32, u32)) -> Option<&Origin> {
        self.vouched.get(&of)
    }

    fn vouch(&mut self, all: Vec<((u32, u32), Origin)>) {
        let newest = all.iter().map(|((exchange, _), _)| *exchange).max();
        for (of, origin) in all {
            self.vouched.entry(of).or_insert(origin);
        }
        // A neighbour is one exchange ahead at most, so two rounds' worth of exchanges behind the
        // newest nobody asks for anything.
        if let Some(before) = newest.and_then(|n| n.checked_sub(2 * E::exchanges(&self.agent))) {
            self.vouched.retain(|(exchange, _), _| *exchange > before);
        }
    }

    fn handle(&mut self, peer: u32, frame: Frame) -> Result<u32, FrameRefusal> {
        let (exchange, message) = E::message(&self.agent, peer, frame)?;
        match self.agent.handle(&message) {
            Err(refusal) if !E::was_known(&refusal) => {
                Err(FrameRefusal::Refused(Box::new(refusal)))
            }
            _ => Ok(exchange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consenso_engine::experiment::{ExperimentSpec, Inputs, Source};

    const STUDY: &str = "name = \"three\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 3\nrecords_per_agent = 20\ndim = 2\n\
        [graph]\nkind = \"complete\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n\
        [[algorithm]]\nkind = \"gd\"\naggregation = \"fixed\"\nrounds = 3\nexchange = \"secret-shared\"\n";

    fn driven(me: usize) -> (Driven, SitePlan) {
        let spec: ExperimentSpec = toml::from_str(STUDY).unwrap();
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let (file, text) = ("three".into(), STUDY.into());
        let inputs = Inputs { file, text, spec, source, edges: None, entropy: None };
        Driven::new(&Experiment::check(inputs).unwrap(), me).unwrap()
    }

    fn committed(agent: &mut Driven) -> (u32, Bytes, usize) {
        match agent.poll() {
            Ok(Some(Wanted::Commit { round, bytes, charge })) => {
                (round, bytes, charge.events().len())
            }
            _ => panic!("something to commit"),
        }
    }

    #[test]
    fn a_share_is_for_its_receiver_and_for_nobody_else() {
        let (mut agent, _) = driven(0);
        let (round, bytes, charged) = committed(&mut agent);
        assert_eq!((round, agent.exchanges(), agent.last()), (1, 0, 6));
        assert_eq!(
            [0, 1, 2, 3, 6].map(|n| (agent.rounds_in(n).0, agent.begun_in(n).0)),
            [(0, 0), (0, 1), (1, 1), (1, 2), (3, 3)]
        );
        assert_eq!(charged, 1);
        let parts = [1, 2].map(|j| agent.part(j, &bytes).expect("a part"));
        assert_eq!(parts.each_ref().map(|p| frame::receiver(p)), [Some(1), Some(2)]);
        assert_ne!(parts[0][17..], parts[1][17..], "they are different shares");
        assert_eq!((agent.part(0, &bytes), agent.part(3, &bytes)), (None, None));
        // An outbox that was mixed up gives nothing away.
        let swapped: Bytes = [&parts[1][..], &parts[0][..]].concat().into();
        assert_eq!((agent.part(1, &swapped), agent.part(2, &swapped)), (None, None));
    }

    /// Three agents talk until all are done, the first of them put back from its checkpoint on the
    /// way; the steps that each of them tells.
    fn steps(restart: bool) -> Vec<Vec<Option<f64>>> {
        let mut agents: Vec<Driven> = (0..3).map(|me| driven(me).0).collect();
        let mut told = vec![Vec::new(); 3];
        let mut flying = Vec::new();
        while agents.iter().any(|a| a.model().is_none()) {
            for (me, agent) in agents.iter_mut().enumerate() {
                while let Ok(Some(wanted)) = agent.poll() {
                    if let Wanted::Commit { round, bytes, .. } = wanted {
                        flying.extend(
                            [0, 1, 2]
                                .into_iter()
                                .filter_map(|j| Some((me as u32, j, agent.part(j, &bytes)?))),
                        );
                        if restart && (me, round) == (0, 3) {
                            let saved = agent.checkpoint();
                            *agent = driven(0).0;
                            agent.restore(&saved).unwrap();
                        }
                    }
                    if agent.rounds_in(agent.exchanges()).0 > told[me].len() as u32 {
                        told[me].push(agent.convergence().value());
                    }
                }
            }
            for (from, to, bytes) in flying.drain(..) {
                agents[to as usize].handle(from, Frame::decode(&bytes).unwrap()).unwrap();
            }
        }
        told
    }

    /// All sites know the sums, so all tell the same steps; the first round has nothing before it,
    /// nor has the first after a restart.
    #[test]
    fn the_step_of_a_round_is_what_everybody_knows() {
        let told = steps(false);
        assert!(
            told[0].len() == 3
                && told[0][0].is_none()
                && told[0][1..].iter().all(|s| s.is_some_and(|s| s > 0.0)),
            "{told:?}"
        );
        assert!(told.iter().all(|all| *all == told[0]), "{told:?}");
        let after = steps(true);
        assert_eq!(after[0], [None, None, told[0][2]]);
        assert_eq!(after[1..], told[1..]);
    }

    /// It was the victim's next vector that did not fit, and the victim that was blamed.
    #[test]
    fn what_is_no_share_is_not_blamed_on_whoever_received_it() {
        let mut agents: Vec<Driven> = (0..3).map(|me| driven(me).0).collect();
        let mut ends = Vec::new();
        for _ in 0..6 {
            let mut flying = Vec::new();
            for (me, agent) in agents.iter_mut().enumerate() {
                match agent.poll() {
                    Ok(Some(Wanted::Commit { bytes, .. })) => flying.extend(
                        [0, 1, 2]
                            .into_iter()
                            .filter_map(|j| Some((me as u32, j, agent.part(j, &bytes)?))),
                    ),
                    Err(words) => ends.push((words.to_string(), words.is_about_others())),
                    _ => {}
                }
            }
            for (from, to, bytes) in flying {
                let mut frame = Frame::decode(&bytes).unwrap();
                if let Frame::Words { round: 1, words, .. } = &mut frame
                    && (from, to) == (0, 1)
                {
                    *words = words.iter().map(|word| word ^ 0x5555_5555_5555_5555).collect();
                }
                agents[to as usize].handle(from, frame).unwrap();
            }
        }
        assert!(ends.len() >= 3, "{ends:?}");
        for (words, forged) in ends {
            assert!(forged && words.contains("somebody sent what is no share"), "{words}");
        }
    }

    #[test]
    fn bad_shares_are_refused_and_the_same_again_is_not() {
        let (mut agent, _) = driven(0);
        committed(&mut agent);
        let words = |from, to, round, words: &[u64]| {
            Frame::decode(&frame::words(from, to, round, words)).expect("a frame")
        };
        let good = || words(1, 0, 1, &[5, 6]);
        for (frame, reason) in [
            (words(2, 0, 1, &[5, 6]), "a share of agent 2 on the edge to agent 1"),
            (words(1, 2, 1, &[5, 6]), "is not for agent 0"),
            (words(1, 0, 1, &[5]), "has 1 words, not 2"),
            (words(1, 0, 0, &[5, 6]), "comes before its turn"),
            (words(1, 0, 3, &[5, 6]), "comes before its turn"),
            (Frame::Release { from: 1, round: 1, values: [0.0, 0.0].into() }, "out of place"),
        ] {
            let refused = agent.handle(1, frame).unwrap_err();
            assert!(refused.to_string().contains(reason), "{reason}: {refused}");
        }
        assert_eq!([good(), good()].map(|m| agent.handle(1, m).unwrap()), [1, 1]);
        let refused = agent.handle(1, words(1, 0, 1, &[5, 7])).unwrap_err();
        assert!(refused.to_string().contains("twice with different content"), "{refused}");
        assert_eq!(agent.awaited(), [2]);
        assert!(agent.poll().is_ok_and(|w| w.is_none()), "one share is missing");
        assert_eq!(agent.handle(2, words(2, 0, 1, &[1, 1])).unwrap(), 1);
        let (round, _, charged) = committed(&mut agent);
        assert_eq!((round, charged), (2, 0), "sums are free");
        // What belongs to an exchange that is over: the same is known, another is an offence.
        assert_eq!(agent.handle(1, good()).unwrap(), 1);
        assert!(agent.handle(1, words(1, 0, 1, &[9, 9])).is_err());
        assert!(agent.go_without(2).is_err());
    }
}
