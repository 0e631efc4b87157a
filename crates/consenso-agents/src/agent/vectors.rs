//! The exchange of vectors as they are: everybody's to every neighbour, one exchange a round.

use super::{
    AbsenceError, AddNeighbourError, Agent, Checkpoint, Core, Effect, Exchange, LARGEST_RECEIVED,
    Message, NeighbourView, Player, Refusal, RejoinError, RestoreError,
};
use crate::gate::{Round, ShareError};
use crate::graph::{Graph, Mixing};
use crate::protocol::Weights;
use std::collections::VecDeque;
use std::sync::Arc;

/// A neighbour that an agent will have from an exchange on.
#[derive(Clone, Debug)]
struct Joining {
    neighbour: u32,
    weight: f64,
    from: u32,
    /// Its release of that exchange, which may come in before this agent is there.
    first: Option<Arc<[f64]>>,
    away: Option<u32>,
}

/// Vectors as they are released, to and from every neighbour.
///
/// A neighbour can be at most one round ahead, for it needs this agent's release to go on; so two
/// slots a neighbour hold all that can arrive, in whatever order and however often. Where vectors
/// may be s rounds old it can be s rounds further ahead, and there are s slots more.
#[derive(Debug)]
pub struct Vectors {
    id: u32,
    neighbours: Vec<u32>,
    dim: usize,
    /// Exchanges complete: every neighbour's release of this round is in `rows`.
    round: u32,
    /// Row 0 is this agent's, then its neighbours', all of `round`.
    rows: Vec<f64>,
    /// Whether `rows` is that: not after a restore, until the next exchange. Nobody needs them to
    /// go on, only to catch a neighbour that sends a round twice.
    remembers: bool,
    indices: Vec<u32>,
    own_weight: f64,
    weights: Vec<f64>,
    /// Releases of `round + 1`, `round + 2` and so on, a slot a neighbour.
    waiting: VecDeque<Vec<Option<Arc<[f64]>>>>,
    /// The newest release of each neighbour up to `round`, where older ones may be mixed; empty
    /// where they may not.
    latest: Vec<Option<(u32, Arc<[f64]>)>>,
    /// How many rounds old each neighbour's vector was in the last exchange; empty where none may
    /// be.
    ages: Vec<u32>,
    /// Neighbours it goes on without, each since which round.
    away: Vec<Option<u32>>,
    /// Neighbours to come.
    joining: Vec<Joining>,
    /// Neighbours that came after the start, and from which exchange on.
    joined: Vec<(u32, u32)>,
    own: Option<Arc<[f64]>>,
}

impl Agent {
    /// Agent `id` of the graph; everybody starts from the point of the common constraint set
    /// nearest to zero.
    #[must_use]
    pub fn new(id: u32, graph: &Graph, mixing: &Mixing, player: Player) -> Self {
        let neighbours = graph.neighbours(id as usize).to_vec();
        let dim = player.width();
        let n = neighbours.len();
        let stale = player.staleness() as usize;
        // Where everybody starts is public.
        let start: Arc<[f64]> = player.start().into();
        let known = if stale > 0 { n } else { 0 };
        let exchange = Vectors {
            id,
            dim,
            round: 0,
            rows: start.repeat(n + 1),
            remembers: true,
            indices: (1..=n as u32).collect(),
            own_weight: mixing.own(id as usize),
            weights: mixing.neighbours(id as usize).to_vec(),
            waiting: std::iter::repeat_n(vec![None; n], 2 + stale).collect(),
            latest: vec![Some((0, start)); known],
            ages: Vec::new(),
            away: vec![None; n],
            joining: Vec::new(),
            joined: Vec::new(),
            own: None,
            neighbours,
        };
        Self { core: Core::new(id, player), exchange }
    }

    /// What to do next; `None` until another message comes.
    pub fn poll(&mut self) -> Option<Effect> {
        self.try_poll().expect("vectors are sent as they are: no exchange of them fails")
    }

    /// Returns what was released in the last complete exchange, one vector after the other: its
    /// own, then its neighbours'. Empty after it was restored, until an exchange is complete.
    #[must_use]
    pub fn releases(&self) -> &[f64] {
        if self.exchange.remembers { &self.exchange.rows } else { &[] }
    }

    /// How many rounds old each neighbour's vector was in the last complete exchange, by agent
    /// number; empty where all are of the same round.
    #[must_use]
    pub fn ages(&self) -> &[u32] {
        &self.exchange.ages
    }
}

impl Vectors {
    /// Where the agent sits after the last complete exchange.
    fn neighbourhood(&self) -> NeighbourView<'_> {
        NeighbourView {
            rows: &self.rows,
            me: 0,
            neighbours: &self.indices,
            place: self.neighbours.partition_point(|&j| j < self.id),
            weights: Weights { own: self.own_weight, neighbours: &self.weights },
            round: self.round,
            common: None,
        }
    }

    /// Places of neighbours whose newest vector is too old to be mixed, where older ones may be and
    /// enough of the others are fresh: at least half of them, and no more than all but one, so that
    /// a single slow link holds nobody up. `None`: everybody's vector of this round is waited for.
    fn too_old(&self, player: &Player) -> Option<Vec<usize>> {
        let oldest = player.oldest(self.round + 1);
        if oldest == 0 {
            return None;
        }
        let here = || (0..self.neighbours.len()).filter(|&place| self.away[place].is_none());
        let is_fresh = |place: &usize| self.waiting[0][*place].is_some();
        let (all, fresh) = (here().count(), here().filter(is_fresh).count());
        if fresh < all.div_ceil(2).min(all.saturating_sub(1)) {
            return None;
        }
        let least = (self.round + 1).saturating_sub(oldest);
        let old = |place: &usize| {
            !is_fresh(place) && self.latest[*place].as_ref().is_none_or(|known| known.0 < least)
        };
        Some(here().filter(old).collect())
    }

    /// Gives those a place whose first exchange is the one this agent has released for.
    fn seat_new(&mut self, released: u32) {
        let all = std::mem::take(&mut self.joining);
        for new in all {
            if new.from > released {
                self.joining.push(new);
                continue;
            }
            let slot = self.neighbours.partition_point(|&j| j < new.neighbour);
            self.neighbours.insert(slot, new.neighbour);
            self.weights.insert(slot, new.weight);
            self.own_weight -= new.weight;
            self.away.insert(slot, new.away);
            self.waiting.iter_mut().for_each(|slots| slots.insert(slot, None));
            self.waiting[0][slot] = new.first.filter(|_| new.from == self.round + 1);
            let at = (slot + 1) * self.dim;
            let own = self.rows[..self.dim].to_vec();
            self.rows.splice(at..at, own);
            self.indices.push(self.indices.len() as u32 + 1);
            self.joined.push((new.neighbour, new.from));
        }
    }
}

impl Exchange for Vectors {
    type Message = Message;
    type Refusal = Refusal;

    fn complete(&self) -> u32 {
        self.round
    }

    fn round(&self) -> Round {
        Round(self.round)
    }

    fn last(&self, core: &Core<Message>) -> u32 {
        core.rounds().0
    }

    fn rounds_in(&self, _: &Core<Message>, exchanges: u32) -> Round {
        Round(exchanges)
    }

    fn begun_in(&self, _: &Core<Message>, exchanges: u32) -> Round {
        Round(exchanges)
    }

    fn neighbours(&self) -> &[u32] {
        &self.neighbours
    }

    fn is_out(&self) -> bool {
        self.own.is_some()
    }

    fn awaited(&self, core: &Core<Message>) -> Vec<u32> {
        let too_old = self.too_old(&core.player);
        let waits = |slot: &usize| too_old.as_ref().is_none_or(|old| old.contains(slot));
        let missing = |slot: &usize| self.waiting[0][*slot].is_none() && self.away[*slot].is_none();
        let slots = (0..self.neighbours.len()).filter(missing).filter(waits);
        slots.map(|slot| self.neighbours[slot]).collect()
    }

    fn send(&mut self, core: &mut Core<Message>) -> Result<(), ShareError> {
        // Round `round` is complete: draft the next message.
        let mut out = vec![0.0; self.dim];
        let release = core.player.play(&self.neighbourhood(), &mut core.draft, &mut out);
        let charge = release.charge();
        let message = Message::released(self.id, &release);
        self.own = Some(Arc::clone(&message.values));
        // Whoever joins in this exchange is waited for in it.
        self.seat_new(message.round);
        core.send(message.round, charge, [message]);
        Ok(())
    }

    fn take_in(&mut self, core: &mut Core<Message>) -> Result<(), ShareError> {
        let Some(own) = self.own.take() else { return Ok(()) };
        self.rows[..self.dim].copy_from_slice(&own);
        let mut fresh = self.waiting.pop_front().expect("a slot a round");
        self.ages = vec![0; self.latest.len()];
        for (slot, known) in self.latest.iter_mut().enumerate() {
            match &fresh[slot] {
                Some(values) => *known = Some((self.round + 1, Arc::clone(values))),
                None => fresh[slot] = known.as_ref().map(|known| Arc::clone(&known.1)),
            }
            let here = known.as_ref().filter(|_| self.away[slot].is_none());
            self.ages[slot] = here.map_or(0, |known| self.round + 1 - known.0);
        }
        let rows = self.rows[self.dim..].chunks_exact_mut(self.dim);
        for ((row, values), away) in rows.zip(&mut fresh).zip(&self.away) {
            let values = values.take().filter(|_| away.is_none());
            row.copy_from_slice(values.as_deref().unwrap_or(&own));
        }
        self.waiting.push_back(fresh);
        self.remembers = true;
        self.round += 1;
        if self.round == core.rounds().0 {
            core.finish(&self.neighbourhood());
        }
        Ok(())
    }

    /// Duplicates of what is known are accepted and change nothing.
    fn handle(&mut self, core: &mut Core<Message>, message: &Message) -> Result<(), Refusal> {
        let &Message { from, round, ref values } = message;
        let stranger = Refusal::Stranger { from, agent: self.id };
        let joining = self.joining.iter().position(|j| j.neighbour == from);
        let slot = match joining {
            Some(_) => self.neighbours.partition_point(|&j| j < from),
            None => self.neighbours.binary_search(&from).map_err(|_| stranger)?,
        };
        if values.len() != self.dim {
            return Err(Refusal::Dimension { from, round, got: values.len(), want: self.dim });
        }
        if let Some(index) = values.iter().position(|v| !v.is_finite()) {
            return Err(Refusal::NotFinite { from, round, index });
        }
        if let Some(index) = values.iter().position(|v| v.abs() > LARGEST_RECEIVED) {
            return Err(Refusal::TooLarge { from, round, index });
        }
        if let Some(what) = core.player.out_of_range(round, slot, values) {
            return Err(Refusal::OutOfRange { from, round, what });
        }
        if let Some(new) = joining.map(|index| &mut self.joining[index]) {
            // It may be where the edge begins, before this agent is; further it cannot be without
            // this agent's release.
            return match &new.first {
                _ if round < new.from => Ok(()),
                _ if round > new.from => {
                    Err(Refusal::OutOfTurn { from, round, expected: new.from })
                }
                Some(known) if !same(known, values) => Err(Refusal::Equivocation { from, round }),
                _ => {
                    new.first = Some(Arc::clone(values));
                    Ok(())
                }
            };
        }
        if self.joined.iter().any(|&(j, first)| j == from && round < first) {
            // Of a time when there was no edge.
            return Ok(());
        }
        if round >= 1 && round <= self.round && !self.latest.is_empty() {
            return match &mut self.latest[slot] {
                Some((known, mine)) if *known == round && !same(mine, values) => {
                    Err(Refusal::Equivocation { from, round })
                }
                Some((known, _)) if *known >= round => Ok(()),
                // It was held up, and is still newer than what was mixed in its place.
                late => {
                    *late = Some((round, Arc::clone(values)));
                    Ok(())
                }
            };
        }
        if round >= 1 && round <= self.round {
            let start = (slot + 1) * self.dim;
            let compared = self.remembers && round == self.round;
            let known = !compared || same(&self.rows[start..start + self.dim], values);
            return if known { Ok(()) } else { Err(Refusal::Equivocation { from, round }) };
        }
        let expected = self.round + 1;
        let ahead = round.wrapping_sub(expected) as usize;
        if ahead >= self.waiting.len() || round > core.rounds().0 {
            return Err(Refusal::OutOfTurn { from, round, expected });
        }
        match &mut self.waiting[ahead][slot] {
            Some(known) if !same(known, values) => Err(Refusal::Equivocation { from, round }),
            Some(_) => Ok(()),
            empty => {
                *empty = Some(Arc::clone(values));
                Ok(())
            }
        }
    }

    /// What neighbours sent for rounds that are over is left out, too: the next message was drafted
    /// from it already.
    fn checkpoint(&self, core: &Core<Message>) -> Checkpoint {
        let own = self.own.as_deref().map(<[f64]>::to_vec);
        Checkpoint { own, away: self.away.clone(), ..core.checkpoint(self.round) }
    }

    fn restore(
        &mut self,
        core: &mut Core<Message>,
        saved: &Checkpoint,
    ) -> Result<(), RestoreError> {
        let fits =
            |vector: &Option<Vec<f64>>, length| vector.as_ref().is_none_or(|v| v.len() == length);
        self.seat_new(saved.round + u32::from(saved.own.is_some()));
        if saved.away.len() != self.away.len() || saved.shares.is_some() {
            return Err(RestoreError::Shape { what: "the neighbourhood" });
        }
        if !fits(&saved.own, self.dim) || !fits(&saved.model, core.player.local().dim()) {
            return Err(RestoreError::Shape { what: "the model" });
        }
        if saved.round > core.rounds().0 {
            return Err(RestoreError::Shape { what: "the timetable" });
        }
        core.player.resume(&saved.player)?;
        if saved.round > 0 {
            // They send again what they have released since.
            self.latest.fill(None);
        }
        if saved.round > 0 && saved.own.is_none() && saved.model.is_none() {
            return Err(RestoreError::Shape { what: "the model" });
        }
        (self.round, self.remembers) = (saved.round, saved.round == 0);
        self.away.clone_from(&saved.away);
        self.own = saved.own.as_deref().map(Arc::from);
        Ok(())
    }

    fn again(&self, _: &Core<Message>) -> Option<Message> {
        let values = Arc::clone(self.own.as_ref()?);
        Some(Message { from: self.id, round: self.round + 1, values })
    }

    fn away(&self) -> Vec<(u32, Round)> {
        self.neighbours
            .iter()
            .zip(&self.away)
            .filter_map(|(&j, since)| Some((j, Round((*since)?))))
            .collect()
    }

    fn may_go_without(&self, core: &Core<Message>) -> Result<(), AbsenceError> {
        let protocol = core.player.protocol();
        let kind = protocol.kind();
        if core.player.gate().is_correlated() {
            return Err(AbsenceError::Shares { kind });
        }
        if !protocol.capabilities().absence {
            return Err(AbsenceError::Needed { kind });
        }
        Ok(())
    }

    fn go_without(&mut self, core: &mut Core<Message>, from: u32) -> Result<(), AbsenceError> {
        let next = self.round + 1;
        if let Some(joining) = self.joining.iter_mut().find(|j| j.neighbour == from) {
            joining.away.get_or_insert(next);
            return Ok(());
        }
        let stranger = AbsenceError::Stranger { from, agent: self.id };
        let slot = self.neighbours.binary_search(&from).map_err(|_| stranger)?;
        self.may_go_without(core)?;
        self.away[slot].get_or_insert(next);
        Ok(())
    }

    fn may_join(&self, core: &Core<Message>) -> Result<(), AddNeighbourError> {
        let protocol = core.player.protocol();
        let kind = protocol.kind();
        if core.player.gate().is_correlated() {
            return Err(AddNeighbourError::Shares { kind });
        }
        if !protocol.capabilities().mixes || !protocol.capabilities().absence {
            return Err(AddNeighbourError::Needed { kind });
        }
        match core.player.staleness() {
            0 => Ok(()),
            rounds => Err(AddNeighbourError::Stale { rounds }),
        }
    }

    fn join(
        &mut self,
        core: &mut Core<Message>,
        neighbour: u32,
        weight: f64,
        from: u32,
    ) -> Result<(), AddNeighbourError> {
        let known = self.joining.iter().any(|j| j.neighbour == neighbour);
        if known || neighbour == self.id || self.neighbours.binary_search(&neighbour).is_ok() {
            return Err(AddNeighbourError::Known { from: neighbour, agent: self.id });
        }
        self.may_join(core)?;
        let (round, last) = (self.round, core.rounds().0);
        if from <= round || from > last {
            return Err(AddNeighbourError::Passed { from, round, last });
        }
        let own = self.own_weight - self.joining.iter().map(|j| j.weight).sum::<f64>();
        if !(weight > 0.0 && weight < own) {
            return Err(AddNeighbourError::Weight { weight, own });
        }
        self.joining.push(Joining { neighbour, weight, from, first: None, away: None });
        let released = self.round + u32::from(self.own.is_some());
        self.seat_new(released);
        Ok(())
    }

    fn joined(&self) -> Vec<(u32, u32)> {
        self.joined
            .iter()
            .copied()
            .chain(self.joining.iter().map(|j| (j.neighbour, j.from)))
            .collect()
    }

    fn rejoined(
        &self,
        core: &Core<Message>,
        released: u32,
        own: Option<&[f64]>,
    ) -> Result<Checkpoint, RejoinError> {
        let player = core.player.state_after(released)?;
        let joined = self.joining.iter().filter(|j| j.from <= released).count();
        let away = vec![None; self.away.len() + joined];
        let own = own.filter(|_| released > 0).map(<[f64]>::to_vec);
        let complete = released.saturating_sub(1);
        Ok(Checkpoint { own, away, model: None, player, ..core.checkpoint(complete) })
    }
}

/// Whether two vectors have the same bits: 0 and −0 are different bytes on the wire.
fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
