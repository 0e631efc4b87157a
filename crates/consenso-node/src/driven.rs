//! The agent a node drives: one that sends its vectors, one that sends shares of them, or one that sends them masked.
//!
//! To a node all are the same: numbered exchanges, in each of which something is made durable, sent to every neighbour and awaited from every
//! neighbour. Shares take two exchanges a round, 2r − 1 for the shares and 2r for the sums, and every neighbour has a frame of its own.
//! Masked vectors take as many exchanges a round as there are hops between the two sites farthest apart, and all neighbours have the same frame; a round that is tried again without
//! somebody has numbers of its own (see [`MaskedAgent`]).

use crate::frame::{self, Frame};
use crate::progress::Convergence;
use bytes::Bytes;
use consenso_engine::agent::{Agent, Checkpoint, Effect, Message, Player, RestoreError};
use consenso_engine::experiment::{Experiment, MaskedSite, SharingSite, Site, SitePlan};
use consenso_engine::gate::{Charge, Label, StopReason};
use consenso_engine::random::Seed;
use consenso_engine::sharing::{MaskedAgent, MaskedEffect, MaskedMessage};
use consenso_engine::sharing::{Phase, ShareEffect, ShareError, ShareMessage, ShareRefusal, SharingAgent};

/// What an agent wants done.
pub(crate) enum Wanted {
    /// These bytes made durable with the agent's state, and then sent: to each neighbour its [part](Driven::part).
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

/// An agent of either kind.
pub(crate) enum Driven {
    Plain(Box<Agent>, Apart),
    Shared(Box<SharingAgent>, Steps),
    Masked(Box<MaskedAgent>, Steps),
}

/// A mean over about the latest share of the rounds: noise of single rounds goes, what the run does stays.
#[derive(Default)]
struct Moving(Vec<f64>);

impl Moving {
    /// Takes in the vector of a round; the first after a start is the mean.
    fn add(&mut self, share: f64, round: u32, vector: &[f64]) {
        if self.0.len() != vector.len() {
            self.0 = vector.to_vec();
            return;
        }
        let weight = (1.0 / (share * f64::from(round.max(1)))).min(1.0);
        self.0.iter_mut().zip(vector).for_each(|(mean, x)| *mean += weight * (x - *mean));
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// How far the mean of what an agent released of late is from that of each neighbour's releases.
#[derive(Default)]
pub(crate) struct Apart {
    round: u32,
    /// Its own, then its neighbours', one after the other.
    means: Moving,
}

impl Apart {
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
pub(crate) struct Steps {
    round: u32,
    /// Means of what was revealed, over an eighth and over half of the rounds; empty after a start, when it is not known.
    means: (Moving, Moving),
    length: Option<f64>,
}

impl Steps {
    /// Of a run that stands after this round.
    fn after(round: u32) -> Self {
        Self { round, ..Self::default() }
    }

    fn look(&mut self, round: u32, revealed: &[f64]) {
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

impl Driven {
    pub(crate) fn new(experiment: &Experiment, me: usize) -> Result<(Self, SitePlan), String> {
        if experiment.is_masked() {
            let MaskedSite { agent, plan } = experiment.masked_site(me).map_err(|e| e.to_string())?;
            return Ok((Self::Masked(Box::new(agent), Steps::default()), plan));
        }
        if experiment.is_shared() {
            let SharingSite { agent, plan } = experiment.sharing_site(me).map_err(|e| e.to_string())?;
            return Ok((Self::Shared(Box::new(agent), Steps::default()), plan));
        }
        let Site { agent, plan } = experiment.site(me).map_err(|e| e.to_string())?;
        Ok((Self::Plain(Box::new(agent), Apart::default()), plan))
    }

    pub(crate) fn neighbours(&self) -> Vec<u32> {
        match self {
            Self::Plain(agent, _) => agent.neighbours().to_vec(),
            Self::Shared(agent, _) => agent.neighbours(),
            Self::Masked(agent, _) => agent.neighbours().to_vec(),
        }
    }

    fn player(&self) -> &Player {
        match self {
            Self::Plain(agent, _) => agent.player(),
            Self::Shared(agent, _) => agent.player(),
            Self::Masked(agent, _) => agent.player(),
        }
    }

    /// Exchanges complete.
    pub(crate) fn round(&self) -> u32 {
        match self {
            Self::Plain(agent, _) => agent.round(),
            Self::Shared(agent, _) => agent.exchanges(),
            Self::Masked(agent, _) => agent.exchanges(),
        }
    }

    /// The number that says to neighbours that this site needs nothing more of them, once it does not.
    pub(crate) fn mark(&self, plan: &SitePlan) -> u32 {
        if self.model().is_some() { self.last(plan) } else { self.round() }
    }

    /// The longest message, in numbers.
    pub(crate) fn longest(&self, plan: &SitePlan) -> usize {
        match self {
            Self::Masked(agent, _) => frame::longest_masked(plan.width, agent.agents()),
            _ => plan.width,
        }
    }

    /// How many rounds old a mixed vector may be.
    pub(crate) fn staleness(&self) -> u32 {
        match self {
            Self::Plain(agent, _) => agent.player().staleness(),
            Self::Shared(..) | Self::Masked(..) => 0,
        }
    }

    /// How old the vectors were that the last exchange mixed, by neighbour; empty where they are all of its round.
    pub(crate) fn ages(&self) -> Vec<u32> {
        match self {
            Self::Plain(agent, _) => agent.ages().to_vec(),
            Self::Shared(..) | Self::Masked(..) => Vec::new(),
        }
    }

    /// Of every neighbour a site that has so many exchanges complete had releases up to here.
    pub(crate) fn surely_had(&self, complete: u32, plan: &SitePlan) -> u32 {
        if let Self::Masked(agent, _) = self {
            // Numbers are passed over when somebody is given up: only this one says what was complete.
            return agent.exchanges();
        }
        if complete == self.last(plan) { complete } else { complete.saturating_sub(self.staleness()) }
    }

    /// Exchanges of the whole run.
    pub(crate) fn last(&self, plan: &SitePlan) -> u32 {
        match self {
            Self::Plain(..) => plan.timetable.exchanges(),
            Self::Shared(agent, _) => agent.last(),
            Self::Masked(agent, _) => agent.last(),
        }
    }

    pub(crate) fn model(&self) -> Option<&[f64]> {
        match self {
            Self::Plain(agent, _) => agent.model(),
            Self::Shared(agent, _) => agent.model(),
            Self::Masked(agent, _) => agent.model(),
        }
    }

    pub(crate) fn awaited(&self) -> Vec<u32> {
        match self {
            // Before the first release it is secrets that are waited for.
            Self::Plain(agent, _) => match self.awaited_secrets() {
                none if none.is_empty() => agent.awaited().collect(),
                secrets => secrets,
            },
            Self::Shared(agent, _) => agent.awaited(),
            Self::Masked(agent, _) => match self.awaited_secrets() {
                none if none.is_empty() => agent.awaited(),
                secrets => secrets,
            },
        }
    }

    /// How many deadlines a site that is done waits for one that is not.
    pub(crate) fn patience(&self) -> u32 {
        match self {
            Self::Masked(agent, _) => 2 + agent.spare() as u32,
            _ => 1,
        }
    }

    /// How many sites take part, of all there are, where that is not only a matter of neighbours.
    pub(crate) fn taking_part(&self) -> Option<usize> {
        match self {
            Self::Masked(agent, _) => Some(agent.agents() - agent.gone().count()),
            _ => None,
        }
    }

    pub(crate) fn away(&self) -> Vec<(u32, u32)> {
        match self {
            Self::Plain(agent, _) => agent.away().collect(),
            Self::Shared(..) => Vec::new(),
            Self::Masked(agent, _) => agent.gone().collect(),
        }
    }

    pub(crate) fn go_without(&mut self, neighbour: u32) -> Result<(), String> {
        match self {
            Self::Plain(agent, _) => agent.go_without(neighbour).map_err(|e| e.to_string()),
            Self::Masked(agent, _) => agent.go_without(neighbour).map_err(|e| e.to_string()),
            Self::Shared(..) => self.may_go_without(),
        }
    }

    /// Whether the algorithm can go on without a neighbour, each site from its own next exchange on; why not.
    pub(crate) fn may_go_without(&self) -> Result<(), String> {
        match self {
            Self::Plain(agent, _) => agent.may_go_without().map_err(|e| e.to_string()),
            Self::Shared(..) => {
                Err("a sum of secret shares needs everybody's: without one it stays hidden".into())
            }
            Self::Masked(..) => Err(
                "all sites of a masked sum must do without the same ones in the same round, which they agree on by themselves: drop_outs in the experiment and away = \"continue-without\" in site.toml"
                    .into(),
            ),
        }
    }

    /// Whether its claim stands with another neighbour; why not.
    pub(crate) fn may_join(&self) -> Result<(), String> {
        match self {
            Self::Plain(agent, _) => agent.may_join().map_err(|e| e.to_string()),
            Self::Shared(..) => {
                Err("in secret shares every site is a neighbour of every other already".into())
            }
            Self::Masked(..) => Err(
                "the masks of a sum were made for the edges there were when it began, and the claim rests on them".into(),
            ),
        }
    }

    /// Gives it another neighbour from an exchange on.
    pub(crate) fn join(&mut self, neighbour: u32, weight: f64, from: u32) -> Result<(), String> {
        match self {
            Self::Plain(agent, _) => agent.join(neighbour, weight, from).map_err(|e| e.to_string()),
            Self::Shared(..) | Self::Masked(..) => self.may_join(),
        }
    }

    /// Neighbours that it gets or got after the start, each with its first exchange.
    pub(crate) fn joined(&self) -> Vec<(u32, u32)> {
        match self {
            Self::Plain(agent, _) => agent.joined().collect(),
            Self::Shared(..) | Self::Masked(..) => Vec::new(),
        }
    }

    /// Whether the run failed because of what somebody else shared.
    pub(crate) fn is_forged(&self) -> bool {
        match self {
            Self::Plain(_, _) => false,
            Self::Shared(agent, _) => matches!(agent.failure(), Some(ShareError::Forged { .. })),
            Self::Masked(agent, _) => {
                matches!(agent.failure(), Some(ShareError::Forged { .. } | ShareError::TwoVersions { .. }))
            }
        }
    }

    /// Whether vectors leave in shares or under masks, and not as they are.
    pub(crate) fn is_shared(&self) -> bool {
        !matches!(self, Self::Plain(..))
    }

    /// Whether vectors leave under masks.
    pub(crate) fn is_masked(&self) -> bool {
        matches!(self, Self::Masked(..))
    }

    /// Whether every neighbour has a message of its own.
    pub(crate) fn is_addressed(&self) -> bool {
        matches!(self, Self::Shared(..))
    }

    /// Rounds that so many exchanges make.
    pub(crate) fn rounds(&self, exchanges: u32) -> u32 {
        match self {
            Self::Plain(..) => exchanges,
            Self::Shared(..) => exchanges / 2,
            Self::Masked(agent, _) => agent.rounds_in(exchanges),
        }
    }

    /// Rounds that so many exchanges begin.
    pub(crate) fn begun(&self, exchanges: u32) -> u32 {
        match self {
            Self::Plain(..) => exchanges,
            Self::Shared(..) => exchanges.div_ceil(2),
            Self::Masked(agent, _) => agent.rounds_in(exchanges.next_multiple_of(agent.hops())),
        }
    }

    /// What can be said of convergence from what all sites know: releases, or sums.
    pub(crate) fn convergence(&self) -> Convergence {
        match self {
            Self::Plain(agent, apart) => Convergence::Disagreement(apart.largest(agent.neighbours().len())),
            Self::Shared(_, steps) | Self::Masked(_, steps) => Convergence::Step(steps.length),
        }
    }

    pub(crate) fn checkpoint(&self) -> Checkpoint {
        match self {
            Self::Plain(agent, _) => agent.checkpoint(),
            Self::Shared(agent, _) => agent.checkpoint(),
            Self::Masked(agent, _) => agent.checkpoint(),
        }
    }

    pub(crate) fn restore(&mut self, saved: &Checkpoint) -> Result<(), RestoreError> {
        match self {
            Self::Plain(agent, _) => agent.restore(saved),
            Self::Shared(agent, steps) => {
                agent.restore(saved)?;
                *steps = Steps::after(agent.round());
                Ok(())
            }
            Self::Masked(agent, steps) => {
                agent.restore(saved)?;
                *steps = Steps::after(agent.round());
                Ok(())
            }
        }
    }

    /// The state after `released` exchanges, of which others still have the last; why not, if the algorithm remembers more.
    pub(crate) fn rejoined(&self, released: u32, own: Option<&[f64]>) -> Result<Checkpoint, String> {
        match self {
            Self::Plain(agent, _) => agent.rejoined(released, own).map_err(|e| e.to_string()),
            Self::Shared(..) => {
                Err("a vector that left in shares is with nobody: no neighbour can give it back".into())
            }
            Self::Masked(..) => Err(
                "a vector that left under masks is with nobody, and the secrets of the edges are gone: the others can go on without this site (drop_outs)".into(),
            ),
        }
    }

    /// Neighbours with whom the secret of the edge is still to be agreed on: nothing is released before.
    pub(crate) fn awaited_secrets(&self) -> Vec<u32> {
        let all = self.player().gate().awaited_secrets();
        match self {
            Self::Masked(agent, _) => {
                let gone: Vec<u32> = agent.gone().map(|g| g.0).collect();
                all.filter(|j| !gone.contains(j)).collect()
            }
            _ => all.collect(),
        }
    }

    /// Takes in the secret of an edge.
    pub(crate) fn agree(&mut self, neighbour: u32, secret: &Seed) {
        match self {
            Self::Plain(agent, _) => agent.agree(neighbour, secret),
            Self::Masked(agent, _) => agent.agree(neighbour, secret),
            Self::Shared(..) => {}
        }
    }

    /// What an exchange costs by the schedule; `None` where that depends on the transcript.
    pub(crate) fn scheduled(&self, round: u32) -> Option<Charge> {
        self.player().gate().scheduled(round)
    }

    /// Has exchanges up to this one charged without using the records.
    pub(crate) fn spare(&mut self, until: u32) {
        if let Self::Plain(agent, _) = self {
            agent.spare(until);
        }
    }

    /// What to do next; `None` until another message comes.
    pub(crate) fn poll(&mut self) -> Result<Option<Wanted>, String> {
        match self {
            Self::Plain(agent, apart) => {
                let effect = agent.poll();
                apart.look(agent);
                Ok(effect.map(|effect| match effect {
                    Effect::Charge { round, charge } => {
                        let Some(Effect::Send(m)) = agent.poll() else {
                            unreachable!("an agent's charge is followed by its message")
                        };
                        Wanted::Commit { round, bytes: frame::release(m.from(), round, m.values()), charge }
                    }
                    Effect::Send(_) => Wanted::Nothing,
                    Effect::Done(reason) => Wanted::Done(reason),
                }))
            }
            Self::Shared(agent, steps) => {
                let effect = agent.poll().map_err(|e| e.to_string())?;
                steps.look(agent.round(), agent.revealed());
                let Some(effect) = effect else { return Ok(None) };
                let (round, charge) = match effect {
                    ShareEffect::Charge { round, charge } => (2 * round - 1, charge),
                    // A sum of shares is a function of what others sent.
                    ShareEffect::Keep { round } => (2 * round, Charge::Nothing),
                    ShareEffect::Done(reason) => return Ok(Some(Wanted::Done(reason))),
                    ShareEffect::Send(_) => unreachable!("messages follow what makes them durable"),
                };
                let mut bytes = Vec::new();
                for _ in agent.neighbours() {
                    let Ok(Some(ShareEffect::Send(m))) = agent.poll() else {
                        unreachable!("a message a neighbour follows")
                    };
                    bytes.extend_from_slice(&frame::words(m.from(), m.to(), round, m.words()));
                }
                Ok(Some(Wanted::Commit { round, bytes: bytes.into(), charge }))
            }
            Self::Masked(agent, steps) => {
                let effect = agent.poll().map_err(|e| e.to_string())?;
                steps.look(agent.round(), agent.revealed());
                let (exchange, charge) = match effect {
                    None => return Ok(None),
                    Some(MaskedEffect::Done(reason)) => return Ok(Some(Wanted::Done(reason))),
                    Some(MaskedEffect::Charge { exchange, charge }) => (exchange, charge),
                    // What passes others' vectors on, or tells what was revealed, costs nothing.
                    Some(MaskedEffect::Keep { exchange }) => (exchange, Charge::Nothing),
                    Some(MaskedEffect::Send(_)) => unreachable!("a message follows what makes it durable"),
                };
                let Ok(Some(MaskedEffect::Send(message))) = agent.poll() else {
                    unreachable!("what is durable is followed by its message")
                };
                let bytes = frame::masked(exchange, &message);
                Ok(Some(Wanted::Commit { round: exchange, bytes, charge }))
            }
        }
    }

    /// Of everybody's parts the one for this neighbour, and never another's: shares say for whom they are.
    pub(crate) fn part(&self, neighbour: u32, bytes: &Bytes) -> Option<Bytes> {
        let Self::Shared(agent, _) = self else { return Some(bytes.clone()) };
        let neighbours = agent.neighbours();
        let place = neighbours.iter().position(|&j| j == neighbour)?;
        let length = bytes.len() / neighbours.len();
        let part = bytes.slice(place * length..(place + 1) * length);
        (frame::receiver(&part) == Some(neighbour)).then_some(part)
    }

    /// Takes in what `peer` sent and remembers the largest number it ever sent, with its exchange; see [`Self::handle`].
    pub(crate) fn take(&mut self, peer: u32, frame: Frame, largest: &mut (f64, u32)) -> Result<u32, String> {
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

    /// Takes in what `peer` sent for an exchange; its number. What was known already changes nothing.
    pub(crate) fn handle(&mut self, peer: u32, frame: Frame) -> Result<u32, String> {
        match (self, frame) {
            (Self::Plain(agent, _), Frame::Release { from, round, values }) => {
                if from != peer {
                    return Err(format!("a release of agent {from} on the edge to agent {peer}"));
                }
                agent.handle(&Message::received(from, round, values)).map_err(|e| e.to_string())?;
                Ok(round)
            }
            (Self::Masked(agent, _), Frame::Masked { from, exchange, round, hop, gone, before, vectors }) => {
                if from != peer {
                    return Err(format!("masked vectors of agent {from} on the edge to agent {peer}"));
                }
                let (dropped, since) = gone.into_iter().unzip::<_, _, Vec<u32>, Vec<u32>>();
                let label = Label::new(round, dropped);
                if agent.number_of(&label, hop) != Some(exchange) {
                    return Err(format!("exchange {exchange} is not number {hop} of round {round}"));
                }
                let message = MaskedMessage::received(from, label, since, hop, before, vectors);
                agent.handle(&message).map_err(|e| e.to_string())?;
                Ok(exchange)
            }
            (Self::Shared(agent, _), Frame::Words { from, to, round, words }) => {
                if from != peer {
                    return Err(format!("a share of agent {from} on the edge to agent {peer}"));
                }
                let phase = if round.is_multiple_of(2) { Phase::Sum } else { Phase::Share };
                match agent.handle(&ShareMessage::received(from, to, round.div_ceil(2), phase, words)) {
                    Ok(()) | Err(ShareRefusal::Replayed { .. }) => Ok(round),
                    Err(refusal) => Err(refusal.to_string()),
                }
            }
            _ => Err("a frame out of place".into()),
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
            Ok(Some(Wanted::Commit { round, bytes, charge })) => (round, bytes, charge.events().len()),
            _ => panic!("something to commit"),
        }
    }

    #[test]
    fn a_share_is_for_its_receiver_and_for_nobody_else() {
        let (mut agent, plan) = driven(0);
        let (round, bytes, charged) = committed(&mut agent);
        assert_eq!((round, agent.round(), agent.last(&plan)), (1, 0, 6));
        assert_eq!(
            [0, 1, 2, 3, 6].map(|n| (agent.rounds(n), agent.begun(n))),
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

    /// Three agents talk until all are done, the first of them put back from its checkpoint on the way; the steps that each of them tells.
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
                    if agent.rounds(agent.round()) > told[me].len() as u32 {
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

    /// All sites know the sums, so all tell the same steps; the first round has nothing before it, nor has the first after a restart.
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
                        [0, 1, 2].into_iter().filter_map(|j| Some((me as u32, j, agent.part(j, &bytes)?))),
                    ),
                    Err(words) => ends.push((words, agent.is_forged())),
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
            assert!(refused.contains(reason), "{reason}: {refused}");
        }
        assert_eq!((agent.handle(1, good()), agent.handle(1, good())), (Ok(1), Ok(1)));
        let refused = agent.handle(1, words(1, 0, 1, &[5, 7])).unwrap_err();
        assert!(refused.contains("twice with different content"), "{refused}");
        assert_eq!(agent.awaited(), [2]);
        assert!(agent.poll().is_ok_and(|w| w.is_none()), "one share is missing");
        assert_eq!(agent.handle(2, words(2, 0, 1, &[1, 1])), Ok(1));
        let (round, _, charged) = committed(&mut agent);
        assert_eq!((round, charged), (2, 0), "sums are free");
        // What belongs to an exchange that is over: the same is known, another is an offence.
        assert_eq!(agent.handle(1, good()), Ok(1));
        assert!(agent.handle(1, words(1, 0, 1, &[9, 9])).is_err());
        assert!(agent.go_without(2).is_err());
    }
}
