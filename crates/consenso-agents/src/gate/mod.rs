//! The gate: the only door out of an agent.
//!
//! It asks the [`Ledger`] whether the budget allows the release, draws the uniform point and the
//! noise, and returns a [`Release`], which nothing else can construct:
//!
//! ```compile_fail
//! let forged = consenso_agents::gate::Release { round: 1, values: &[0.0] };
//! ```

mod charge;
pub use consenso_dp::exact;
mod fixed_point;
mod inside;
mod ledger;
mod masks;
mod pairs;
mod shares;

pub use charge::{Charge, FilterCost, InsideCost};
pub(crate) use charge::{MOST_ORDERS, Norm};
use ledger::LedgerState;
pub use ledger::{FilterPlan, Ledger, SchedulePlan, StopReason};

pub use exact::{Grid, Noise, NoiseError};
pub use fixed_point::{FixedPoint, ShareError};
pub use masks::{MaskLabel, Masked, Masks};
pub use pairs::{Pair, Pairs};
pub use shares::Shares;

use crate::kernel;
use crate::problem::{Constraint, LocalObjective, Workspace, solve};
use crate::protocol::{Memory, Protocol, Randomized, Response, View};
use crate::random::{Purpose, Seed, Stream};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How the coordinates of a noise vector belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Law {
    /// They are independent.
    Independent,
    /// The vector has density ∝ e^{−‖n‖₂/s}; only ever inside a problem.
    GammaNorm,
}

/// The noise of one round and the grid its releases live on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundNoise {
    noise: Noise,
    grid: Grid,
    law: Law,
}

impl RoundNoise {
    /// Noise on the grid that goes with its scale.
    ///
    /// # Errors
    /// A scale that is not positive and finite, or too extreme.
    pub fn new(noise: Noise) -> Result<Self, NoiseError> {
        Ok(Self { noise, grid: Grid::for_scale(noise.scale())?, law: Law::Independent })
    }

    /// Takes the noise into a hash: the same noise on the same grid gives the same number.
    pub fn hashed(&self, hash: u64) -> u64 {
        let kind = match (self.noise, self.law) {
            (Noise::Gaussian { .. }, _) => 1,
            (Noise::Laplace { .. }, Law::Independent) => 2,
            (Noise::Laplace { .. }, Law::GammaNorm) => 3,
        };
        [kind, self.noise.scale().to_bits(), self.grid.value(1).to_bits()]
            .into_iter()
            .fold(hash, |h, bits| (h ^ bits).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17))
    }

    /// Noise on a grid chosen for other reasons; see [`exact`] for why any grid is as private as
    /// any other.
    #[must_use]
    pub fn on_grid(noise: Noise, grid: Grid) -> Self {
        Self { noise, grid, law: Law::Independent }
    }

    /// Noise of density ∝ e^{−‖n‖₂/scale}, whose norm is Gamma(d, scale): for problems that are
    /// solved with the noise inside ([`Response::AtNoisedPoint`]), and for nothing else.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn gamma_norm(scale: f64) -> Result<Self, NoiseError> {
        Ok(Self { law: Law::GammaNorm, ..Self::new(Noise::Laplace { scale })? })
    }

    /// The distribution.
    #[must_use]
    pub fn noise(&self) -> Noise {
        self.noise
    }

    /// β of Laplace noise.
    #[must_use]
    pub fn laplace_rate(&self) -> Option<f64> {
        let laplace = matches!(self.noise, Noise::Laplace { .. }) && self.law == Law::Independent;
        laplace.then(|| 1.0 / self.noise.scale())
    }

    /// α of noise of density ∝ e^{−α‖n‖₂}.
    #[must_use]
    pub fn gamma_rate(&self) -> Option<f64> {
        (self.law == Law::GammaNorm).then(|| 1.0 / self.noise.scale())
    }

    /// σ of Gaussian noise.
    #[must_use]
    pub fn gaussian_sigma(&self) -> Option<f64> {
        matches!(self.noise, Noise::Gaussian { .. }).then(|| self.noise.scale())
    }

    /// The grid.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }
}

/// A vector that may leave the agent: charged for, noised, or computed from releases alone.
#[derive(Debug)]
pub struct Release<'a> {
    round: u32,
    values: &'a [f64],
    charge: Charge,
}

impl<'a> Release<'a> {
    /// Which exchange it belongs to, from 1.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// What is sent.
    #[must_use]
    pub fn values(&self) -> &'a [f64] {
        self.values
    }

    /// What it was charged.
    #[must_use]
    pub fn charge(&self) -> Charge {
        self.charge
    }
}

/// The number of a round, from 1, or how many there were. Exchanges are numbers of their own: with
/// shares or masks a round has several, and the two are told apart by the type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Round(pub u32);

impl std::fmt::Display for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::ops::Add<u32> for Round {
    type Output = Self;

    fn add(self, more: u32) -> Self {
        Self(self.0 + more)
    }
}

/// One agent's turn: what its next message is drafted from.
pub struct Turn<'a> {
    /// The algorithm.
    pub protocol: &'a dyn Protocol,
    /// What it sees: releases, and where it stands among those who made them.
    pub view: &'a View<'a>,
    /// What it remembers: the public part first, then the private one.
    pub memory: &'a mut [f64],
    /// What it minimises.
    pub local: &'a LocalObjective,
}

impl std::fmt::Debug for Turn<'_> {
    // What an agent remembers may depend on its records.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Turn({}, round={})", self.protocol.kind(), self.round())
    }
}

impl Turn<'_> {
    /// The exchange that the message is for.
    fn round(&self) -> u32 {
        self.view.round() + 1
    }

    /// What the agent remembers, in its two parts.
    fn memory(&mut self) -> Memory<'_> {
        let (public, private) = self.memory.split_at_mut(self.protocol.memory() * self.view.dim());
        Memory { public, private }
    }

    /// What the agent remembers that everybody could compute.
    fn public_memory(&mut self) -> &mut [f64] {
        &mut self.memory[..self.protocol.memory() * self.view.dim()]
    }

    /// Writes what the agent sends that must not use its records.
    fn idle(&self, out: &mut [f64]) {
        self.protocol.idle(self.view, out);
    }
}

/// Scratch space of a draft: one a thread.
#[derive(Debug, Default)]
pub struct DraftScratch {
    low: Vec<f64>,
    high: Vec<f64>,
    step: Vec<f64>,
    point: Vec<f64>,
    widths: Vec<f64>,
    steps: Vec<i64>,
    /// Scratch of pairwise noise.
    zeros: Vec<f64>,
    drawn: Vec<i64>,
    /// Scratch of the gradient.
    pub work: Workspace,
}

/// One agent's door.
#[derive(Clone, Debug)]
pub struct Gate {
    agent: u64,
    seed: Seed,
    /// One entry a round; empty for a run that protects nobody.
    noise: Arc<[RoundNoise]>,
    ledger: Ledger,
    realised: Option<f64>,
    constraint: Constraint,
    /// Limits of this agent's own, coordinate by coordinate.
    limits: Option<Arc<[[f64; 2]]>>,
    /// No number of a release is larger.
    release_bound: Option<f64>,
    /// Whether one ever would have been.
    clamped: bool,
    /// M, from the public bounds of the rows; unit rows where nobody said.
    smoothness: Option<f64>,
    /// How long a model is, where messages are longer.
    model: Option<usize>,
    /// Noise that cancels over edges; `None` for algorithms whose agents hide themselves.
    pairs: Option<Pairs>,
    /// What hides its vectors but for sums of many; `None` where they leave as they are or in
    /// shares.
    masks: Option<Masks>,
    /// How records are drawn for a round; `None` where all are in it.
    batches: Option<Batches>,
}

/// Secret samples of an agent's records, one a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batches {
    /// The chance of a record to be drawn.
    pub rate: f64,
    /// How many records were announced: sums are divided by the expected number of draws, which is
    /// public, and not by how many there happened to be.
    pub records: usize,
}

/// What a gate must not forget; see [`Agent::checkpoint`](crate::agent::Agent::checkpoint).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GateState {
    ledger: LedgerState,
    realised: Option<f64>,
}

impl Gate {
    /// A gate without noise or budget: what passes it is not private, and nothing is claimed.
    #[must_use]
    pub fn open(agent: u64, seed: Seed) -> Self {
        Self {
            agent,
            seed,
            noise: Arc::from([]),
            ledger: Ledger::Open,
            realised: None,
            constraint: Constraint::None,
            limits: None,
            release_bound: None,
            clamped: false,
            smoothness: None,
            model: None,
            pairs: None,
            masks: None,
            batches: None,
        }
    }

    /// The gate of `agent` with the noise of every round, drawing from `seed`, charging `ledger`.
    /// Noise and price belong together, so it is an [`account`](crate::account) that makes one.
    #[must_use]
    pub(crate) fn new(agent: u64, seed: Seed, noise: Arc<[RoundNoise]>, ledger: Ledger) -> Self {
        Self { noise, ledger, ..Self::open(agent, seed) }
    }

    /// Keeps the sum of the gate's realised losses (Theorem 2.2). It is this agent's own to see: the sum depends on its records, and must never be sent.
    #[must_use]
    pub fn with_realised_losses(mut self) -> Self {
        self.realised = Some(0.0);
        self
    }

    /// Moves what the gate releases into a set: post-processing, which costs nothing. Charges and noise are as without it.
    #[must_use]
    pub fn with_constraint(mut self, constraint: Constraint) -> Self {
        self.constraint = constraint;
        self
    }

    /// Keeps every coordinate of what the gate releases within public limits of this agent's own.
    #[must_use]
    pub fn with_limits(mut self, limits: Arc<[[f64; 2]]>) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Keeps every number of what it releases within ±`bound`, a public bound that agents among
    /// honest neighbours stay within: post-processing.
    #[must_use]
    pub fn with_release_bound(mut self, bound: f64) -> Self {
        self.release_bound = Some(bound);
        self
    }

    /// Says how smooth public bounds of the records make ∇f: what local problems may be posed
    /// follows from it.
    #[must_use]
    pub fn with_smoothness(mut self, smoothness: f64) -> Self {
        self.smoothness = Some(smoothness);
        self
    }

    /// Says that models have `dim` numbers, however long messages are: the set and the limits are
    /// about the first `dim`.
    pub(crate) fn with_model(mut self, dim: usize) -> Self {
        self.model = Some(dim);
        self
    }

    /// Adds noise that the other ends of this agent's edges subtract to every noised release.
    #[must_use]
    pub fn with_pairs(mut self, pairs: Pairs) -> Self {
        self.pairs = Some(pairs);
        self
    }

    /// Hides vectors under masks that the other ends of this agent's edges subtract: for [masked
    /// sums](crate::sharing::MaskedAgent).
    #[must_use]
    pub fn with_masks(mut self, masks: Masks) -> Self {
        self.masks = Some(masks);
        self
    }

    /// Drafts the private step of every round from a secret sample of the records, drawn for that
    /// round when it is released and for no other: what was released is not drafted again.
    #[must_use]
    pub fn with_batches(mut self, batches: Option<Batches>) -> Self {
        self.batches = batches;
        self
    }

    /// The function of the records that are drawn for a round; `None` where all are in it.
    ///
    /// # Panics
    /// For costs and raw records, of which nothing can be drawn; the rules of experiments refuse
    /// them.
    fn batch(&self, round: u32, local: &LocalObjective) -> Option<LocalObjective> {
        let Batches { rate, records } = self.batches?;
        let mut stream = self.seed.stream(Purpose::Batch, self.agent, u64::from(round));
        let drawn = consenso_dp::sampled::draw(&mut stream, rate, local.site_weight().records);
        let batch = local.of_some(&drawn, rate * records as f64);
        Some(batch.expect("batches are drawn from records"))
    }

    /// Neighbours with whom this agent has still to agree on the secret of their edge; nothing is
    /// released before.
    pub fn awaited_secrets(&self) -> impl Iterator<Item = u32> + '_ {
        let (pairs, masks) =
            (self.pairs.iter().map(|p| &p.edges), self.masks.iter().map(|m| &m.edges));
        pairs.chain(masks).flat_map(pairs::Edges::awaited)
    }

    /// Takes in the secret that this agent and a neighbour have agreed on, and nobody else knows.
    /// One that is known stays as it is.
    pub fn agree(&mut self, neighbour: u32, secret: &Seed) {
        if let Some(pairs) = &mut self.pairs {
            pairs.edges.agree(neighbour, secret);
        }
        if let Some(masks) = &mut self.masks {
            masks.edges.agree(neighbour, secret);
        }
    }

    /// Whether neighbours subtract a part of its noise.
    pub(crate) fn is_correlated(&self) -> bool {
        self.pairs.is_some()
    }

    /// Whether a local problem around this public centre is one that is solved as well as its
    /// sensitivity assumes, whatever the records are.
    ///
    /// This must be decided from public numbers: were an agent to stop because *its* solver failed,
    /// one record could decide it, and everybody would see it. Neighbours choose the centre.
    fn solvable(&self, turn: &Turn<'_>, weight: f64, centre: f64) -> bool {
        let (view, local) = (turn.view, turn.local);
        let iterate = match turn.protocol.parts().partial {
            Some(partial) => partial.iterate(view),
            None => view.own(),
        };
        // No problem may be posed that the solver would take for one beyond rounding.
        let assumed = local.assumed_smoothness();
        let smoothness = self.smoothness.map_or(assumed, |public| public.max(assumed));
        let weight = weight + local.regularization();
        // Around the centre, moved into the set, the solution is no farther than the records pull;
        // costs are solved in closed form.
        let pull = local
            .mean_loss()
            .map_or(0.0, |f| f.objective().steepness(smoothness, f.weight()) / weight);
        let farthest = centre + 2.0 * kernel::norm(iterate) + pull;
        farthest <= solve::largest_solvable(weight, smoothness, view.dim())
    }

    /// Moves a release into the set and the limits: post-processing.
    fn confine(&mut self, out: &mut [f64]) {
        let length = self.model.unwrap_or(out.len());
        self.constraint.project(&mut out[..length]);
        for (x, [low, high]) in out.iter_mut().zip(self.limits.as_deref().unwrap_or_default()) {
            *x = x.clamp(*low, *high);
        }
        if let Some(bound) = self.release_bound {
            for x in out {
                self.clamped |= x.abs() > bound;
                *x = x.clamp(-bound, bound);
            }
        }
    }

    /// Whether a number of any release so far had to be moved within the bound.
    pub(crate) fn clamped(&self) -> bool {
        self.clamped
    }

    /// The largest number of a release, if anything bounds it.
    #[must_use]
    pub fn release_bound(&self) -> Option<f64> {
        self.release_bound
    }

    /// Whether every agent moves its releases into [`Self::constraint`], so that what lies outside
    /// is no release.
    pub(crate) fn shares_constraint(&self) -> bool {
        self.limits.is_none() && self.constraint != Constraint::None
    }

    pub(crate) fn state(&self) -> GateState {
        GateState { ledger: self.ledger.state(), realised: self.realised }
    }

    /// False when the state is of another kind of account.
    pub(crate) fn resume(&mut self, state: &GateState) -> bool {
        // A gate that keeps no realised losses forgets those that an earlier version wrote down.
        if self.realised.is_some() && state.realised.is_none() {
            return false;
        }
        self.realised = self.realised.and(state.realised);
        self.ledger.resume(&state.ledger)
    }

    /// The state after the charges of rounds 1 to `charged`; `None` where their costs depend on the
    /// transcript.
    pub(crate) fn state_after(&self, charged: u32) -> Option<GateState> {
        Some(GateState { ledger: self.ledger.after(charged)?.state(), realised: self.realised })
    }

    /// Charges a round whose message uses no record.
    fn spend(&mut self, round: u32) -> Result<Charge, StopReason> {
        match self.noise(round) {
            Some(noise) => self.ledger.charge(round, noise, &[]),
            // A gate without noise or account has nothing to charge; one whose schedule is over has
            // nothing left.
            None if self.noise.is_empty() || matches!(self.ledger, Ledger::Open) => {
                Ok(Charge::Nothing)
            }
            None => Err(StopReason::BudgetSpent),
        }
    }

    /// Charges a round in which nothing is released.
    pub(crate) fn rest(&mut self, round: u32) -> Option<StopReason> {
        self.spend(round).err()
    }

    /// Sends what uses no record as if it had used one, where it may have been said before: the
    /// round is charged.
    pub(crate) fn spare<'a>(
        &mut self,
        turn: &Turn<'_>,
        out: &'a mut [f64],
    ) -> (Release<'a>, Option<StopReason>) {
        let charged = self.spend(turn.round());
        let release = self.forward(turn.round(), out, |out| turn.idle(out));
        (Release { charge: charged.unwrap_or_default(), ..release }, charged.err())
    }

    /// What the release of `round` costs by the schedule, which is known before it; `None` where it
    /// depends on the transcript.
    #[must_use]
    pub fn scheduled(&self, round: u32) -> Option<Charge> {
        match self.noise(round) {
            Some(noise) => self.ledger.scheduled(round, noise),
            None => self.ledger.after(round).map(|_| Charge::Nothing),
        }
    }

    /// The noise of a round, from 1; `None` beyond the schedule and for an open gate.
    #[must_use]
    pub fn noise(&self, round: u32) -> Option<Noise> {
        self.noise.get((round as usize).checked_sub(1)?).map(RoundNoise::noise)
    }

    /// The set that all releases lie in.
    #[must_use]
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// What has been charged.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The realised loss so far, if it is kept.
    #[must_use]
    pub fn realised(&self) -> Option<f64> {
        self.realised
    }

    /// Drafts, charges and noises the next message into `out`.
    ///
    /// When the budget does not allow it, the message is a mix of what was released before, which
    /// costs nothing: the others are not held up, the records are not touched, and the reason is
    /// returned.
    pub fn release<'a>(
        &mut self,
        mut turn: Turn<'_>,
        draft: &mut DraftScratch,
        out: &'a mut [f64],
    ) -> (Release<'a>, Option<StopReason>) {
        let round = turn.round();
        if self.awaited_secrets().next().is_none()
            && let Some(relaying) = turn.protocol.parts().relaying.filter(|r| r.passes_on(round))
        {
            // It stands in the ledger at nothing, so that rounds are charged in order and without a
            // gap.
            let charged = self.spend(round);
            let view = turn.view;
            let release =
                self.forward(round, out, |out| relaying.pass_on(view, turn.public_memory(), out));
            return (Release { charge: charged.unwrap_or_default(), ..release }, charged.err());
        }
        let (charge, refused) = match self.draft(&mut turn, draft, out) {
            Ok(charge) => {
                let (protocol, view) = (turn.protocol, turn.view);
                protocol.send(view, turn.public_memory(), out);
                (charge, None)
            }
            Err(Refused { charge, reason }) => {
                turn.idle(out);
                (charge, Some(reason))
            }
        };
        self.confine(out);
        (Release { round, values: out, charge }, refused)
    }

    /// Writes the next message to `out`, but for what confines it, and says what it was charged.
    fn draft(
        &mut self,
        turn: &mut Turn<'_>,
        draft: &mut DraftScratch,
        out: &mut [f64],
    ) -> Result<Charge, Refused> {
        let (round, protocol, view, local) = (turn.round(), turn.protocol, turn.view, turn.local);
        if self.awaited_secrets().next().is_some() {
            // Its own noise alone hides too little.
            return Err(StopReason::Interrupted.into());
        }
        // What a protocol does not draft is held before the records are touched: the gate has no
        // place for anything else.
        let active = protocol.parts().partial.map(|partial| {
            partial.hold(view, turn.public_memory(), out);
            partial.active(round, view.dim())
        });
        self.lay_out(turn, draft, active.as_ref().map_or(view.dim(), Vec::len));
        let noise = self.noise.get(round as usize - 1).copied();
        let mut stream = self.seed.stream(Purpose::Release, self.agent, u64::from(round));
        let DraftScratch { low, high, step, point, work, .. } = draft;
        let Some(noise) = noise else {
            if !self.noise.is_empty() {
                // The schedule is over: there is no noise for this round, so there is no release.
                return Err(StopReason::BudgetSpent.into());
            }
            for ((point, low), high) in point.iter_mut().zip(&*low).zip(&*high) {
                *point =
                    if low == high { *low } else { low + stream.random::<f64>() * (high - low) };
            }
            let batch = self.batch(round, local);
            let local = batch.as_ref().unwrap_or(local);
            protocol.step(view, turn.memory(), point, local, work, step);
            point.iter_mut().zip(&*step).for_each(|(point, step)| *point += step);
            fill(out, active.as_deref(), point);
            protocol.remember(out, turn.public_memory());
            return Ok(Charge::Nothing);
        };
        let response = protocol.response(round, view.degree());
        if response != Response::Shift {
            // The step depends on the point, so the interval cannot hide it: from here on the point
            // is all there is of it.
            for (low, high) in low.iter_mut().zip(high.iter_mut()) {
                *low += stream.random::<f64>() * (*high - *low);
                *high = *low;
            }
        }
        let charge = match response {
            Response::AtNoisedPoint { weight } => {
                self.draft_solved(turn, draft, noise, weight, &mut stream)?
            }
            Response::AtPoint { weight }
                if !self.solvable(turn, weight, kernel::norm(&draft.low)) =>
            {
                return Err(StopReason::OutOfRange.into());
            }
            _ => self.draft_step(turn, draft, noise, &mut stream)?,
        };
        fill(out, active.as_deref(), &draft.point);
        protocol.remember(out, turn.public_memory());
        Ok(charge)
    }

    /// Has the algorithm draft the public interval of `count` numbers, with the coins that it
    /// tosses for it.
    fn lay_out(&self, turn: &mut Turn<'_>, draft: &mut DraftScratch, count: usize) {
        for v in [&mut draft.low, &mut draft.high, &mut draft.step, &mut draft.point] {
            v.resize(count, 0.0);
        }
        let (protocol, view, round) = (turn.protocol, turn.view, turn.round());
        self.toss(protocol.parts().tossing, round, turn.public_memory());
        protocol.interval(view, turn.public_memory(), &mut draft.low, &mut draft.high);
        protocol.keep(view, turn.public_memory());
    }

    /// Charges for the `number`-th release, and writes its private step to `draft.steps`: held
    /// within `clip`, uniform on the interval's width and noised, in steps of the grid from the
    /// interval's lower end. A step that does not fit the grid is [`StopReason::OutOfRange`], and
    /// charged.
    fn draw(
        &mut self,
        turn: &mut Turn<'_>,
        draft: &mut DraftScratch,
        (number, noise): (u32, RoundNoise),
        clip: Option<f64>,
        stream: &mut Stream,
    ) -> Result<Charge, Refused> {
        let charge = self.ledger.charge(number, noise.noise, &draft.widths)?;
        let DraftScratch { low, step, work, widths, steps, .. } = &mut *draft;
        let batch = self.batch(turn.round(), turn.local);
        let (protocol, view) = (turn.protocol, turn.view);
        let local = batch.as_ref().unwrap_or(turn.local);
        protocol.step(view, turn.memory(), low, local, work, step);
        if let Some(most) = clip {
            step.iter_mut().for_each(|s| *s = s.clamp(-most, most));
        }
        steps.resize(step.len(), 0);
        let fixed = widths.iter().all(|&w| w == 0.0);
        let widths = if fixed { &[][..] } else { &widths[..] };
        let released = exact::release(stream, step, widths, noise.noise, noise.grid, steps);
        // A step is bounded by its sensitivity's bounds, so only a diverged run fails here, and its
        // iterates are public.
        released.map_err(|_| Refused { reason: StopReason::OutOfRange, charge })?;
        Ok(charge)
    }

    /// Charges, and writes the drafted step with its noise to `draft.point`.
    fn draft_step(
        &mut self,
        turn: &mut Turn<'_>,
        draft: &mut DraftScratch,
        noise: RoundNoise,
        stream: &mut Stream,
    ) -> Result<Charge, Refused> {
        let round = turn.round();
        if noise.law != Law::Independent || !draft.snap(noise.grid) {
            return Err(StopReason::OutOfRange.into());
        }
        let charge = self.draw(turn, draft, (round, noise), None, stream)?;
        let DraftScratch { low, point, steps, zeros, drawn, .. } = &mut *draft;
        if let Some(pairs) = &self.pairs {
            pairs
                .add(round, noise.grid, zeros, drawn, steps)
                .map_err(|_| Refused { reason: StopReason::OutOfRange, charge })?;
        }
        // Both are multiples of γ below 2^53·γ, so the sum is exact.
        for ((point, low), q) in point.iter_mut().zip(&*low).zip(&*steps) {
            *point = low + noise.grid.value(*q);
        }
        if let Some(realised) = &mut self.realised {
            *realised += self.ledger.realised_loss(round, noise.noise, draft, &draft.point);
        }
        Ok(charge)
    }

    /// The noise comes first: the protocol solves at the noised centre, and the solution leaves
    /// with a finishing noise.
    fn draft_solved(
        &mut self,
        turn: &mut Turn<'_>,
        draft: &mut DraftScratch,
        noise: RoundNoise,
        weight: f64,
        stream: &mut Stream,
    ) -> Result<Charge, Refused> {
        let (round, protocol, view, local) = (turn.round(), turn.protocol, turn.view, turn.local);
        let finishing = inside::finishing(noise).ok().filter(|f| draft.snap(f.grid));
        let centre = kernel::norm(&draft.low) + inside::length(noise, view.dim());
        let reachable =
            inside::within_reach(&draft.low, noise) && self.solvable(turn, weight, centre);
        let finishing = finishing.filter(|_| reachable).ok_or(StopReason::OutOfRange)?;
        let charge = self.ledger.charge(round, noise.noise, &draft.widths)?;
        let DraftScratch { low, high, step, point, steps, work, .. } = &mut *draft;
        // The interval is a point by now: its upper end serves as room for the noise.
        let inner = high;
        let solved = inside::draw(stream, noise, steps, inner).and_then(|()| {
            for ((point, low), n) in point.iter_mut().zip(&*low).zip(&*inner) {
                *point = low + n;
            }
            protocol.step(view, turn.memory(), point, local, work, step);
            // x − low, which the step gives from the noised point.
            step.iter_mut().zip(&*inner).for_each(|(step, n)| *step += n);
            exact::release(stream, step, &[], finishing.noise, finishing.grid, steps)
        });
        // Only a diverged run fails here, and its iterates are public.
        solved.map_err(|_| Refused { reason: StopReason::OutOfRange, charge })?;
        for ((point, low), q) in point.iter_mut().zip(&*low).zip(&*steps) {
            *point = low + finishing.grid.value(*q);
        }
        Ok(charge)
    }

    /// Draws the coins an algorithm needs beside its intervals, from a stream of their own.
    fn toss(&self, tossing: Option<&dyn Randomized>, round: u32, memory: &mut [f64]) {
        let Some(tossing) = tossing else { return };
        let count = tossing.coins();
        if count > 0 {
            let mut stream = self.seed.stream(Purpose::Coins, self.agent, u64::from(round));
            let coins: Vec<f64> = (0..count).map(|_| stream.random()).collect();
            tossing.toss(&coins, memory);
        }
    }

    /// A message computed from releases alone: post-processing, which costs nothing.
    pub(crate) fn forward<'a>(
        &mut self,
        round: u32,
        out: &'a mut [f64],
        public: impl FnOnce(&mut [f64]),
    ) -> Release<'a> {
        public(out);
        self.confine(out);
        Release { round, values: out, charge: Charge::Nothing }
    }
}

/// Why a message could not be drafted, and what was charged for it all the same.
struct Refused {
    reason: StopReason,
    charge: Charge,
}

impl From<StopReason> for Refused {
    fn from(reason: StopReason) -> Self {
        Self { reason, charge: Charge::Nothing }
    }
}

/// Puts the drafted coordinates into a message; those that are not active are held there already.
fn fill(out: &mut [f64], active: Option<&[u32]>, drafted: &[f64]) {
    let Some(active) = active else { return out.copy_from_slice(drafted) };
    for (&l, &x) in active.iter().zip(drafted) {
        out[l as usize] = x;
    }
}

/// The nearest integer, of a number below 2^51 in size; anything larger is out of the grid's range
/// anyway.
pub(crate) fn round(x: f64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5·2^52
    if x.abs() < (1i64 << 51) as f64 { (x + SHIFT) - SHIFT } else { x }
}

impl DraftScratch {
    /// Puts the public interval on the grid: its lower end becomes a multiple of γ, its width
    /// stays. Both are public, so this is post-processing; it makes the final addition exact. False
    /// when the interval is outside the grid's range.
    fn snap(&mut self, grid: Grid) -> bool {
        self.widths.resize(self.low.len(), 0.0);
        let (step, inverse) = (grid.step(), 1.0 / grid.step());
        for ((low, high), width) in self.low.iter_mut().zip(&mut self.high).zip(&mut self.widths) {
            let (least, most) = (low.min(*high), low.max(*high));
            *width = most - least;
            *low = round(least * inverse) * step;
            *high = *low + *width;
        }
        let range = step * (1i64 << 51) as f64;
        self.low.iter().zip(&self.widths).all(|(low, width)| low.abs() + width < range)
    }
}
