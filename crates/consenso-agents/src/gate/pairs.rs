//! Noise that the two ends of an edge share: one adds it, the other subtracts it, and it cancels
//! exactly in the sum of all messages.

use super::RoundNoise;
use super::exact::{self, Grid, NoiseError};
use crate::random::{Purpose, Seed};
use std::sync::Arc;

/// The secret of one edge, as one of its ends knows it.
#[derive(Clone, Debug)]
pub struct Pair {
    /// Key of the stream that both ends draw from; `None` until they have agreed on it.
    pub(super) secret: Option<Seed>,
    /// The edge: its smaller end in the upper half, its larger one in the lower.
    pub(super) edge: u64,
    /// The end with the smaller number adds, the other one subtracts.
    pub(super) adds: bool,
}

impl Pair {
    /// The edge from `me` to `other` with the secret both know.
    #[must_use]
    pub fn new(me: u32, other: u32, secret: Seed) -> Self {
        Self { secret: Some(secret), ..Self::awaited(me, other) }
    }

    /// The edge from `me` to `other` before its ends have agreed on a secret: until then nothing is
    /// released.
    #[must_use]
    pub fn awaited(me: u32, other: u32) -> Self {
        let (low, high) = (me.min(other), me.max(other));
        Self { secret: None, edge: u64::from(low) << 32 | u64::from(high), adds: me == low }
    }

    /// The end that is not this agent's.
    pub(super) fn other(&self) -> u32 {
        if self.adds { self.edge as u32 } else { (self.edge >> 32) as u32 }
    }
}

/// The edges of one agent.
#[derive(Clone, Debug)]
pub(super) struct Edges(pub(super) Arc<[Pair]>);

impl Edges {
    /// The ends of those edges that have no secret yet.
    pub(super) fn awaited(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().filter(|pair| pair.secret.is_none()).map(Pair::other)
    }

    /// Takes in the secret of the edge to `other`. One that is known stays: what was drawn from it
    /// cancels with nothing else.
    pub(super) fn agree(&mut self, other: u32, secret: &Seed) {
        let agreed = |pair: &Pair| match pair.secret.is_none() && pair.other() == other {
            true => Pair { secret: Some(secret.clone()), ..pair.clone() },
            false => pair.clone(),
        };
        self.0 = self.0.iter().map(agreed).collect();
    }
}

#[doc(hidden)] // what the auditor must catch: for its tests
impl Pair {
    /// A broken edge: the noise of edge (0, 1) for every edge there is.
    pub fn reusing(me: u32, other: u32, secret: Seed) -> Self {
        Self { edge: 1, ..Self::new(me, other, secret) }
    }

    /// A broken edge: both ends add.
    pub fn adding(me: u32, other: u32, secret: Seed) -> Self {
        Self { adds: true, ..Self::new(me, other, secret) }
    }
}

/// The pairwise noise of an agent's edges (see [`correlated`](crate::privacy::correlated)).
#[derive(Clone, Debug)]
pub struct Pairs {
    pub(super) edges: Edges,
    /// What every edge adds, by round: the same for all agents, whatever their own noise is, or it
    /// would not cancel.
    shared: Arc<[RoundNoise]>,
}

impl Pairs {
    /// The edges of one agent, and the noise of any edge by round on the grid of all messages.
    #[must_use]
    pub fn new(edges: impl Into<Arc<[Pair]>>, shared: Arc<[RoundNoise]>) -> Self {
        Self { edges: Edges(edges.into()), shared }
    }

    /// What these edges add in `round` to the message of the agent whose they are: what the other
    /// ends of the edges know.
    ///
    /// # Errors
    /// A deviation that does not fit the grid, or a round that has no such noise.
    pub fn known(&self, round: u32, dim: usize) -> Result<Vec<f64>, NoiseError> {
        let mut steps = vec![0; dim];
        let grid = self.of(round)?.grid;
        self.add(round, grid, &mut Vec::new(), &mut Vec::new(), &mut steps)?;
        Ok(steps.into_iter().map(|q| grid.value(q)).collect())
    }

    /// The noise of one edge in `round`.
    fn of(&self, round: u32) -> Result<RoundNoise, NoiseError> {
        let index = (round as usize).checked_sub(1);
        index.and_then(|i| self.shared.get(i)).copied().ok_or(NoiseError::NoSecret)
    }

    /// Adds the pairwise noise of `round` to `steps`, in steps of the grid; `zeros` and `drawn` are
    /// scratch.
    ///
    /// # Errors
    /// Another grid than that of the edges, a deviation that does not fit it, or an edge without a
    /// secret; `steps` may hold some of the noise then and must not be released.
    pub(super) fn add(
        &self,
        round: u32,
        grid: Grid,
        zeros: &mut Vec<f64>,
        drawn: &mut Vec<i64>,
        steps: &mut [i64],
    ) -> Result<(), NoiseError> {
        let shared = self.of(round)?;
        if shared.grid != grid {
            return Err(NoiseError::Exponent { exponent: grid.exponent() });
        }
        let noise = shared.noise;
        zeros.clear();
        zeros.resize(steps.len(), 0.0);
        drawn.resize(steps.len(), 0);
        for pair in &*self.edges.0 {
            let secret = pair.secret.as_ref().ok_or(NoiseError::NoSecret)?;
            let mut stream = secret.stream(Purpose::Pair, pair.edge, u64::from(round));
            exact::release(&mut stream, zeros, &[], noise, grid, drawn)?;
            for (q, v) in steps.iter_mut().zip(&*drawn) {
                *q = if pair.adds { *q + v } else { *q - v };
            }
        }
        Ok(())
    }
}
