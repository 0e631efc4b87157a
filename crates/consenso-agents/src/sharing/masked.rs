//! A [`Player`] among messages that carry masked vectors: everybody's reach everybody by way of
//! neighbours, and whoever dies is left out.
//!
//! # A round
//! An agent sends its own masked vector to its neighbours, then what it heard for the first time,
//! and so on: as many exchanges as there are hops between the two agents farthest apart, whoever is
//! gone. Then everybody has everybody's, and their sum.
//!
//! # When somebody is gone
//! An agent that gives a neighbour up begins the round again under a new [`MaskLabel`], with fresh
//! noise and fresh masks, and its next message says so. Whoever hears of a label with more agents
//! given up adopts it: D becomes the union of both. Whoever has completed a round that others are
//! still in says in the first message under the new label what was revealed; they go on from that.
//!
//! # What a neighbour's word can do
//! Whoever lies may end a run, or spoil a sum by its own vector. It never makes an agent send less
//! noise: every vector carries its part or the run fails (see [`Gate::share`]). Words are taken
//! within bounds, and refused before anything is changed:
//!
//! - a label that gives up more than t agents with those known, that leaves others who cannot reach
//!   each other, or that gives up the receiver (nobody tells a site that it was given up: it is told
//!   nothing);
//! - vectors of others that are not exactly those that the sender must have heard of last: nobody
//!   holds one back, or adds one, unnoticed (that it changes none is for signatures to show);
//! - what a round revealed, where nobody is given up or beyond half the range;
//! - what a round revealed, where this agent added it up itself and has another mean. Where it went
//!   on from a word, and another word differs, the run fails.
//!
//! **All that are left complete a round alike.** Let a and b be left, and complete round r under
//! D_a and D_b. To do so a had b's vector under (r, D_a), so D_a ⊆ D_b, for at one agent D only
//! grows and b's last label of the round is D_b. Likewise D_b ⊆ D_a. What is passed on afterwards
//! is the same sum. And nobody completes round r + 1 before everybody left has completed round r,
//! for that takes a vector of r + 1 of everybody.
//!
//! # Numbers
//! The h-th exchange under the label (r, D) has the number (r − 1 + |D|)·H + h, with H exchanges a
//! round. It grows at every agent, from one message to its next.

use super::{FixedPoint, MeanView, ShareError, add, remaining, revealed};
use crate::agent::{
    AbsenceError, AddNeighbourError, Agent, Checkpoint, Core, Effect, Exchange, Player,
    RejoinError, RestoreError,
};
#[cfg(doc)]
use crate::gate::Gate;
use crate::gate::{Charge, MaskLabel, Round};
use crate::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What an agent sends to all its neighbours in one exchange. Agents make their own from
/// [`Masked`](crate::gate::Masked) and from what they received; a driver builds what it *received*.
#[derive(Clone, Debug, PartialEq)]
pub struct MaskedMessage {
    from: u32,
    label: MaskLabel,
    /// By agent given up: the first round whose sum it is not in.
    since: Vec<Round>,
    hop: u32,
    before: Option<Arc<[f64]>>,
    vectors: Vec<(u32, Arc<[u64]>)>,
}

impl MaskedMessage {
    /// What somebody else sent, as it came in: nothing about it is checked before
    /// [`Agent::handle`].
    #[must_use]
    pub fn received(
        from: u32,
        label: MaskLabel,
        since: Vec<Round>,
        hop: u32,
        before: Option<Arc<[f64]>>,
        vectors: Vec<(u32, Arc<[u64]>)>,
    ) -> Self {
        Self { from, label, since, hop, before, vectors }
    }

    /// Who sent it.
    #[must_use]
    pub fn from(&self) -> u32 {
        self.from
    }

    /// What its vectors are masked under.
    #[must_use]
    pub fn label(&self) -> &MaskLabel {
        &self.label
    }

    /// For each agent that was given up the first round whose sum it is not in, as far as the
    /// sender knows.
    #[must_use]
    pub fn since(&self) -> &[Round] {
        &self.since
    }

    /// Which exchange under the label, from 1.
    #[must_use]
    pub fn hop(&self) -> u32 {
        self.hop
    }

    /// What the round before revealed, where somebody may have missed it.
    #[must_use]
    pub fn before(&self) -> Option<&[f64]> {
        self.before.as_deref()
    }

    /// Masked vectors, with whose they are.
    #[must_use]
    pub fn vectors(&self) -> &[(u32, Arc<[u64]>)] {
        &self.vectors
    }
}

/// What an agent among masked sums wants done; every neighbour that was not given up gets the same
/// message.
pub type MaskedEffect = Effect<MaskedMessage>;

/// Why a message was not taken; the state is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MaskedRefusal {
    /// It is not from a neighbour.
    #[error("a message from agent {from} is not from a neighbour of agent {agent}")]
    Stranger {
        /// Sender.
        from: u32,
        /// Who refused.
        agent: u32,
    },
    /// Its sender was given up.
    #[error("the run went on without agent {from} from round {round}")]
    GivenUp {
        /// Sender.
        from: u32,
        /// Since when.
        round: Round,
    },
    /// It cannot be of this run.
    #[error("a message of agent {from} for round {round} has {what}")]
    Shape {
        /// Sender.
        from: u32,
        /// Its round.
        round: Round,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It would have more agents given up than may be.
    #[error(
        "agent {from} has given up agents in round {round}, which with those known makes {gone}: the claim is for at most {most} (drop_outs = {most})"
    )]
    TooManyGone {
        /// Sender.
        from: u32,
        /// Its round.
        round: Round,
        /// How many there would be.
        gone: usize,
        /// t.
        most: usize,
    },
    /// It says that a round revealed what it did not.
    #[error(
        "agent {from} says that round {round} revealed another mean than this agent added up itself"
    )]
    OtherMean {
        /// Sender.
        from: u32,
        /// The round.
        round: Round,
    },
    /// It was taken before with other content.
    #[error("agent {from} sent exchange {hop} of round {round} twice with different content")]
    Equivocation {
        /// Sender.
        from: u32,
        /// Its round.
        round: Round,
        /// Its exchange.
        hop: u32,
    },
    /// Its sender cannot be there yet.
    #[error("exchange {hop} of round {round} from agent {from} comes before its turn")]
    OutOfTurn {
        /// Sender.
        from: u32,
        /// Its round.
        round: Round,
        /// Its exchange.
        hop: u32,
    },
    /// The run is over for this agent.
    #[error("the run has failed: {0}")]
    Failed(String),
}

/// The exchange of masked vectors on any connected graph, of which only sums are revealed.
#[derive(Debug)]
pub struct MaskedSums {
    id: u32,
    code: FixedPoint,
    sight: MeanView,
    graph: Arc<Graph>,
    /// t.
    most: usize,
    /// H.
    hops: u32,
    /// Rounds complete.
    round: Round,
    /// D, and the first round whose sum each is not in.
    gone: BTreeMap<u32, Round>,
    /// The exchange under way, from 1.
    hop: u32,
    /// Whether this agent's own part of it is out.
    sent: bool,
    /// Whether a vector of the round under way was made, under this label or an earlier one.
    drafted: bool,
    /// The number of the last exchange that was complete with everybody.
    done: u32,
    own: Vec<f64>,
    /// Whose word the last mean was, if it was somebody's.
    word_of: Option<u32>,
    /// The sum of the vectors that are here.
    total: Vec<u64>,
    /// Whose they are.
    here: BTreeSet<u32>,
    /// The vectors themselves, as far as they are remembered.
    known: BTreeMap<u32, Arc<[u64]>>,
    /// Those to pass on.
    news: Vec<(u32, Arc<[u64]>)>,
    /// What came in for this exchange and the next, under the label of this agent, and what the
    /// last complete one had.
    waiting: BTreeMap<(Round, u32, u32), MaskedMessage>,
}

/// An agent of masked sums.
pub type MaskedAgent = Agent<MaskedSums>;

/// Most steps that finding the exchanges of a round may take.
const SEARCH: u64 = 50_000_000;

/// H: hops between the two agents farthest apart, when any `most` agents or fewer are gone and the
/// others still reach each other. At most N − 1, which stands for graphs too large to try.
fn hops(graph: &Graph, most: usize) -> u32 {
    let n = graph.agents();
    let sets = (0..=most.min(n)).fold((0u64, 1u64), |(all, k), i| {
        (all.saturating_add(k), k.saturating_mul((n - i.min(n)) as u64) / (i as u64 + 1))
    });
    let work =
        sets.0.saturating_mul((n as u64).saturating_mul(2 * graph.edges() as u64 + n as u64));
    if graph.is_complete() {
        return 1;
    }
    if work > SEARCH {
        return n as u32 - 1;
    }
    fn farthest(graph: &Graph, gone: &mut BTreeSet<u32>, from: u32, left: usize) -> u32 {
        let mut most = graph.diameter_without(gone).unwrap_or(0);
        if left > 0 {
            for agent in from..graph.agents() as u32 {
                gone.insert(agent);
                most = most.max(farthest(graph, gone, agent + 1, left - 1));
                gone.remove(&agent);
            }
        }
        most
    }
    farthest(graph, &mut BTreeSet::new(), 0, most).max(1)
}

/// Rounds complete, in the words that [`Agent::checkpoint`] keeps for so many agents.
pub(super) fn rounds_kept(words: &[u64], agents: usize) -> u32 {
    words
        .len()
        .checked_sub(agents + 3)
        .and_then(|at| words.get(at))
        .map_or(0, |&round| round as u32)
}

impl Agent<MaskedSums> {
    /// Agent `id` of this graph, of which `most` agents may drop out. Its gate must have
    /// [masks](crate::gate::Gate::with_masks).
    ///
    /// # Errors
    /// An algorithm that looks at more than sums.
    ///
    /// # Panics
    /// Without such an agent.
    pub fn masked(
        id: u32,
        code: FixedPoint,
        graph: Arc<Graph>,
        most: usize,
        player: Player,
    ) -> Result<Self, ShareError> {
        assert!(
            (id as usize) < code.agents() && code.agents() == graph.agents(),
            "an agent of the graph"
        );
        let sight = MeanView::of(id as usize, code.agents(), &player)?;
        let exchange = MaskedSums {
            id,
            hops: hops(&graph, most),
            most,
            graph,
            round: Round(0),
            gone: BTreeMap::new(),
            hop: 1,
            sent: false,
            drafted: false,
            done: 0,
            total: vec![0; sight.revealed().len()],
            own: player.start(),
            word_of: None,
            sight,
            here: BTreeSet::new(),
            known: BTreeMap::new(),
            news: Vec::new(),
            waiting: BTreeMap::new(),
            code,
        };
        Ok(Self { core: Core::new(id, player), exchange })
    }

    /// What to do next; `None` until another message comes.
    ///
    /// # Errors
    /// A vector that does not fit the declared range, or a run that failed before: nothing more is
    /// sent.
    pub fn poll(&mut self) -> Result<Option<MaskedEffect>, ShareError> {
        self.try_poll()
    }

    /// What the last complete round revealed: the mean of those left.
    #[must_use]
    pub fn revealed(&self) -> &[f64] {
        self.exchange.sight.revealed()
    }

    /// How many more agents may drop out.
    #[must_use]
    pub fn may_drop_out(&self) -> usize {
        self.exchange.most.saturating_sub(self.exchange.gone.len())
    }

    /// N.
    #[must_use]
    pub fn agents(&self) -> usize {
        self.exchange.code.agents()
    }

    /// H: the exchanges of a round.
    #[must_use]
    pub fn hops(&self) -> u32 {
        self.exchange.hops
    }

    /// The number of an exchange under a label; `None` for one that no run has.
    #[must_use]
    pub fn number_of(&self, label: &MaskLabel, hop: u32) -> Option<u32> {
        let before = label.charge().checked_sub(1)?;
        before.checked_mul(self.exchange.hops)?.checked_add(hop)
    }
}

impl MaskedSums {
    fn label(&self) -> MaskLabel {
        MaskLabel::new(self.round + 1, self.gone.keys().copied())
    }

    fn number(&self, round: Round, hop: u32) -> u32 {
        (round.0 - 1 + self.gone.len() as u32) * self.hops + hop
    }

    /// What this agent says in an exchange of the round under way.
    fn message(
        &self,
        hop: u32,
        before: Option<Arc<[f64]>>,
        vectors: Vec<(u32, Arc<[u64]>)>,
    ) -> MaskedMessage {
        let since = self.gone.values().copied().collect();
        MaskedMessage { from: self.id, label: self.label(), since, hop, before, vectors }
    }

    fn others(&self) -> impl Iterator<Item = u32> + '_ {
        self.neighbours().iter().copied().filter(|j| !self.gone.contains_key(j))
    }

    fn give_up(
        &mut self,
        core: &mut Core<MaskedMessage>,
        more: impl IntoIterator<Item = u32>,
    ) -> Result<(), ShareError> {
        let round = self.round + 1;
        let before = self.gone.len();
        for agent in more {
            self.gone.entry(agent).or_insert(round);
        }
        if self.gone.len() == before {
            return Ok(());
        }
        let gone: BTreeSet<u32> = self.gone.keys().copied().collect();
        if let Err(error) = remaining(&self.graph, &gone, self.most, round) {
            core.queue.clear();
            return Err(core.failed.get_or_insert(error).clone());
        }
        core.queue.retain(|effect| matches!(effect, Effect::Done(_)));
        if core.model.is_some() {
            // Whoever is still in the last round learns what it revealed.
            let message = self.message(1, Some(self.sight.revealed().into()), Vec::new());
            core.send(self.number(round, 1), Charge::Nothing, [message]);
            return Ok(());
        }
        self.begin_again();
        Ok(())
    }

    /// The first exchange under another label.
    fn begin_again(&mut self) {
        (self.hop, self.sent) = (1, false);
        self.here.clear();
        self.known.clear();
        self.news.clear();
        let label = self.label();
        self.waiting.retain(|_, message| message.label.dropped() == label.dropped());
    }

    /// Whether a message can be of this run at all.
    fn admit(
        &self,
        core: &Core<MaskedMessage>,
        message: &MaskedMessage,
    ) -> Result<(), MaskedRefusal> {
        let &MaskedMessage { from, ref label, ref since, hop, ref before, ref vectors } = message;
        let (round, agents) = (label.round(), self.code.agents() as u32);
        if self.neighbours().binary_search(&from).is_err() {
            return Err(MaskedRefusal::Stranger { from, agent: self.id });
        }
        if let Some(&round) = self.gone.get(&from) {
            return Err(MaskedRefusal::GivenUp { from, round });
        }
        let last = core.rounds();
        let bad = |what| Err(MaskedRefusal::Shape { from, round, what });
        if round == Round(0) || round > last + 1 || hop == 0 || hop > self.hops {
            return bad("an exchange that this run does not have");
        }
        let never = since.len() != label.dropped().len()
            || since.iter().any(|&s| s == Round(0) || s > round);
        let cannot = |j: u32| j >= agents || j == from || j == self.id;
        if never || label.dropped().iter().any(|&j| cannot(j)) {
            return bad("agents given up that it cannot have given up");
        }
        let gone: BTreeSet<u32> = self.gone.keys().chain(label.dropped().iter()).copied().collect();
        match remaining(&self.graph, &gone, self.most, round) {
            _ if gone.len() == self.gone.len() => {}
            Ok(()) => {}
            Err(ShareError::TooManyGone { gone, most, .. }) => {
                return Err(MaskedRefusal::TooManyGone { from, round, gone, most });
            }
            Err(_) => {
                return bad("agents given up without whom the others have no way to each other");
            }
        }
        let mut whose = BTreeSet::new();
        if vectors.iter().any(|(j, words)| {
            *j >= agents
                || label.gave_up(*j)
                || !whose.insert(*j)
                || words.len() != self.total.len()
        }) {
            return bad("vectors that are not of its agents, or not of the right length");
        }
        if round <= last && hop == 1 && (vectors.len() != 1 || vectors[0].0 != from) {
            return bad("not its own vector and nothing else, with which a round begins");
        }
        if hop > 1 && whose != self.passed_on(from, label, hop) {
            return bad("not the vectors that it must have heard of last, which it passes on");
        }
        // What no agent goes on from needs no room for a step and for noise.
        let most = if round > last { self.code.range() } else { self.code.half() };
        if let Some(before) = before
            && (label.dropped().is_empty()
                || before.len() != self.sight.revealed().len()
                || hop > 1
                || before.iter().any(|x| !x.is_finite() || x.abs() > most))
        {
            return bad("a mean that is out of range or out of place");
        }
        Ok(())
    }

    /// Whose vectors an agent passes on in an exchange after a round's first: of those so many hops
    /// away it has just heard, if all of them follow the protocol under one label.
    fn passed_on(&self, from: u32, label: &MaskLabel, hop: u32) -> BTreeSet<u32> {
        let mut known = BTreeSet::from([from]);
        let mut news = known.clone();
        for _ in 1..hop {
            let near = news.iter().flat_map(|&agent| self.graph.neighbours(agent as usize));
            news = near.copied().filter(|j| !label.gave_up(*j) && !known.contains(j)).collect();
            known.extend(&news);
        }
        news
    }

    /// Compares what somebody says that the last complete round revealed with what is known.
    fn compare(
        &self,
        core: &mut Core<MaskedMessage>,
        message: &MaskedMessage,
    ) -> Result<(), MaskedRefusal> {
        let (from, round) = (message.from, self.round);
        let before = message.before.as_deref().filter(|_| message.label.round() == round + 1);
        let known = self.sight.revealed();
        let same = |before: &[f64]| {
            before.iter().zip(known).all(|(said, known)| said.to_bits() == known.to_bits())
        };
        if round == Round(0) || before.is_none_or(same) {
            return Ok(());
        }
        let Some(word_of) = self.word_of.filter(|_| core.model.is_none()) else {
            return Err(MaskedRefusal::OtherMean { from, round });
        };
        let failure = core.failed.insert(ShareError::TwoMeans { by: from, word_of, round });
        Err(MaskedRefusal::Failed(failure.to_string()))
    }

    /// Goes on from what somebody says that the round under way revealed.
    fn take_word(&mut self, core: &mut Core<MaskedMessage>, from: u32, mean: &[f64]) {
        if !self.drafted {
            core.player.take_in(&self.sight.neighbourhood(self.round.0));
        }
        self.revealed_is(core, mean, Some(from));
    }

    /// The round under way is complete.
    fn revealed_is(&mut self, core: &mut Core<MaskedMessage>, mean: &[f64], word_of: Option<u32>) {
        self.word_of = word_of;
        self.sight.reveal(&self.own, mean);
        self.round = self.round + 1;
        self.drafted = false;
        self.begin_again();
        if self.round == core.rounds() {
            core.finish(&self.sight.neighbourhood(self.round.0));
        }
    }
}

impl Exchange for MaskedSums {
    type Message = MaskedMessage;
    type Refusal = MaskedRefusal;

    /// The number of the last exchange that was complete with all neighbours.
    fn complete(&self) -> u32 {
        self.done
    }

    fn round(&self) -> Round {
        self.round
    }

    /// A number above that of every exchange there can be.
    fn last(&self, core: &Core<MaskedMessage>) -> u32 {
        (core.rounds().0 + self.most as u32) * self.hops + 1
    }

    /// As far as that can be said without knowing who was gone then.
    fn rounds_in(&self, core: &Core<MaskedMessage>, exchanges: u32) -> Round {
        let last = core.rounds();
        if core.model.is_some() || exchanges >= self.last(core) {
            return last;
        }
        Round((exchanges / self.hops).saturating_sub(self.gone.len() as u32)).min(last)
    }

    fn begun_in(&self, core: &Core<MaskedMessage>, exchanges: u32) -> Round {
        self.rounds_in(core, exchanges.next_multiple_of(self.hops))
    }

    /// Those that were given up among them.
    fn neighbours(&self) -> &[u32] {
        self.graph.neighbours(self.id as usize)
    }

    fn is_out(&self) -> bool {
        self.sent
    }

    fn awaited(&self, _: &Core<MaskedMessage>) -> Vec<u32> {
        self.others()
            .filter(|&j| !self.waiting.contains_key(&(self.round + 1, self.hop, j)))
            .collect()
    }

    fn send(&mut self, core: &mut Core<MaskedMessage>) -> Result<(), ShareError> {
        let (label, hop) = (self.label(), self.hop);
        let exchange = self.number(self.round + 1, hop);
        if hop > 1 {
            // What passes others' vectors on costs nothing.
            let news = std::mem::take(&mut self.news);
            core.send(exchange, Charge::Nothing, [self.message(hop, None, news)]);
        } else {
            let neighbourhood = self.sight.neighbourhood(self.round.0);
            let (draft, total) = (&mut core.draft, &mut self.total);
            let masked = core.player.mask(
                &neighbourhood,
                &label,
                self.drafted,
                draft,
                &self.code,
                &mut self.own,
                total,
            )?;
            let (words, charge): (Arc<[u64]>, _) = (masked.words().into(), masked.charge());
            self.news.clear();
            self.here = [self.id].into();
            self.known = [(self.id, Arc::clone(&words))].into();
            self.drafted = true;
            // Somebody may have missed what the last round revealed because it gave somebody up in
            // it.
            let before = (self.round > Round(0) && !self.gone.is_empty())
                .then(|| self.sight.revealed().into());
            core.send(exchange, charge, [self.message(hop, before, vec![(self.id, words)])]);
        }
        self.sent = true;
        Ok(())
    }

    fn take_in(&mut self, core: &mut Core<MaskedMessage>) -> Result<(), ShareError> {
        let turn = (self.round + 1, self.hop);
        let others: Vec<u32> = self.others().collect();
        for from in others {
            let Some(message) = self.waiting.get(&(turn.0, turn.1, from)) else {
                continue;
            };
            for (whose, words) in &message.vectors {
                if self.here.insert(*whose) {
                    add(&mut self.total, words);
                    self.known.insert(*whose, Arc::clone(words));
                    self.news.push((*whose, Arc::clone(words)));
                } else if self.known.get(whose).is_some_and(|known| known != words) {
                    return Err(ShareError::TwoVersions { of: *whose, by: from, round: turn.0 });
                }
            }
        }
        self.done = self.number(turn.0, turn.1);
        (self.hop, self.sent) = (self.hop + 1, false);
        // What was taken is remembered for one exchange: the same may come again, and another may
        // not.
        self.waiting.retain(|&(round, hop, _), _| (round, hop) >= turn);
        if self.hop <= self.hops {
            return Ok(());
        }
        let members = self.code.agents() - self.gone.len();
        if self.here.len() != members || !self.code.adds_up_to(&self.total) {
            let (agents, range) = (members, self.code.range());
            return Err(ShareError::Forged { round: turn.0, agents, range });
        }
        let set = core.player.gate().constraint();
        let mean = revealed(&self.code, self.sight.needs(), set, &self.total, members);
        self.revealed_is(core, &mean, None);
        Ok(())
    }

    fn handle(
        &mut self,
        core: &mut Core<MaskedMessage>,
        message: &MaskedMessage,
    ) -> Result<(), MaskedRefusal> {
        if let Some(failure) = &core.failed {
            return Err(MaskedRefusal::Failed(failure.to_string()));
        }
        let &MaskedMessage { from, ref label, hop, .. } = message;
        self.admit(core, message)?;
        // All that are left complete a round alike, whoever they had given up then.
        self.compare(core, message)?;
        let round = label.round();
        self.give_up(core, label.dropped().iter().copied())
            .map_err(|failure| MaskedRefusal::Failed(failure.to_string()))?;
        // Whoever has completed a round with somebody in it knows best: all that are left complete
        // it alike.
        for (agent, &since) in label.dropped().iter().zip(&message.since) {
            let known = self.gone.entry(*agent).or_insert(since);
            *known = since.max(*known);
        }
        if label.dropped().len() != self.gone.len() || core.model.is_some() {
            // It has not heard yet who is gone, and will be told; or it is late.
            return Ok(());
        }
        if let Some(before) = message.before.as_deref().filter(|_| round == self.round + 2) {
            self.take_word(core, from, before);
        }
        if core.model.is_some() {
            return Ok(());
        }
        let turn = (round, hop);
        if turn < (self.round + 1, self.hop) {
            let known = self.waiting.get(&(round, hop, from));
            return match known {
                Some(known) if known != message => {
                    Err(MaskedRefusal::Equivocation { from, round, hop })
                }
                _ => Ok(()),
            };
        }
        let next = if self.hop == self.hops {
            (self.round + 2, 1)
        } else {
            (self.round + 1, self.hop + 1)
        };
        if turn > next {
            return Err(MaskedRefusal::OutOfTurn { from, round, hop });
        }
        match self.waiting.get(&(round, hop, from)) {
            Some(known) if known != message => {
                Err(MaskedRefusal::Equivocation { from, round, hop })
            }
            Some(_) => Ok(()),
            None => {
                self.waiting.insert((round, hop, from), message.clone());
                Ok(())
            }
        }
    }

    fn checkpoint(&self, core: &Core<MaskedMessage>) -> Checkpoint {
        let agents = self.code.agents();
        let mut words = self.total.clone();
        let flags = u64::from(self.sent) | u64::from(self.drafted) << 1;
        words.extend([u64::from(self.round.0), u64::from(self.hop), flags]);
        words.extend((0..agents as u32).map(|j| u64::from(self.here.contains(&j))));
        let mut own = self.own.clone();
        own.extend_from_slice(self.sight.revealed());
        let away = (0..agents as u32).map(|j| Some(self.gone.get(&j)?.0)).collect();
        Checkpoint { own: Some(own), away, shares: Some(words), ..core.checkpoint(self.done) }
    }

    fn restore(
        &mut self,
        core: &mut Core<MaskedMessage>,
        saved: &Checkpoint,
    ) -> Result<(), RestoreError> {
        let shape = |what| RestoreError::Shape { what };
        let (agents, width) = (self.code.agents(), self.total.len());
        let words = saved.shares.as_ref().filter(|words| words.len() == width + 3 + agents);
        let words = words.ok_or(shape("the exchange"))?;
        let revealed = self.sight.revealed().len();
        let own = saved.own.as_ref().filter(|own| own.len() == self.own.len() + revealed);
        let (own, revealed) = own.ok_or(shape("the model"))?.split_at(self.own.len());
        let (round, hop, flags) = (words[width], words[width + 1], words[width + 2]);
        let last = u64::from(core.rounds().0);
        if saved.away.len() != agents
            || round > last
            || hop == 0
            || hop > u64::from(self.hops)
            || flags > 3
        {
            return Err(shape("the timetable"));
        }
        if (round == last) != saved.model.is_some() {
            return Err(shape("the timetable"));
        }
        core.player.resume(&saved.player)?;
        self.total.copy_from_slice(&words[..width]);
        (self.round, self.hop) = (Round(round as u32), hop as u32);
        (self.sent, self.drafted) = (flags & 1 == 1, flags & 2 == 2);
        self.done = saved.round;
        self.here = (0..agents as u32).filter(|&j| words[width + 3 + j as usize] == 1).collect();
        let gone = saved.away.iter().enumerate();
        self.gone = gone.filter_map(|(j, round)| Some((j as u32, Round((*round)?)))).collect();
        self.own.copy_from_slice(own);
        if self.round > Round(0) {
            self.sight.reveal(own, revealed);
        }
        Ok(())
    }

    fn away(&self) -> Vec<(u32, Round)> {
        self.gone.iter().map(|(&agent, &round)| (agent, round)).collect()
    }

    fn may_go_without(&self, _: &Core<MaskedMessage>) -> Result<(), AbsenceError> {
        let why = "all sites of a masked sum must do without the same ones in the same round, which they agree on by themselves: \
                   drop_outs in the experiment and away = \"continue-without\" in site.toml";
        Err(AbsenceError::Exchange { why })
    }

    /// The round begins again under a new label.
    fn go_without(
        &mut self,
        core: &mut Core<MaskedMessage>,
        from: u32,
    ) -> Result<(), AbsenceError> {
        Ok(self.give_up(core, [from])?)
    }

    fn may_join(&self, _: &Core<MaskedMessage>) -> Result<(), AddNeighbourError> {
        let why = "the masks of a sum were made for the edges there were when it began, and the claim rests on them";
        Err(AddNeighbourError::Exchange { why })
    }

    fn rejoined(
        &self,
        _: &Core<MaskedMessage>,
        _: u32,
        _: Option<&[f64]>,
    ) -> Result<Checkpoint, RejoinError> {
        let why = "a vector that left under masks is with nobody, and the secrets of the edges are gone: \
                   the others can go on without this site (drop_outs)";
        Err(RejoinError::Hidden { why })
    }
}
