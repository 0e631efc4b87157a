//! One agent under attack: all the others are the adversary's.

use super::{Side, Trial, WorstNorm, WorstPair};
use crate::account::testing;
use crate::agent::{NeighbourView, Player, Timetable};
use crate::data::RowBounds;
use crate::gate::{DraftScratch, Gate, Ledger, Noise, RoundNoise};
use crate::privacy::NeighbourRelation;
use crate::problem::{Constraint, LocalObjective, Objective, Sensitivity, Workspace};
use crate::protocol::{Memory, MixRule, Protocol, PublicFacts, View, Weights};
use std::sync::Arc;

/// Records that one row of the played agent stands for, at most: with more the anchor would need
/// weights beyond the grid's range.
const RECORDS_PER_ROW: usize = 4096;

/// One agent with its real protocol, gate, noise and ledger, on records of the adversary's choice.
///
/// Its neighbours all belong to the adversary. They repeat what the agent released, so that no
/// interval has any width in the coordinates that matter, and steer the anchor of the [`WorstPair`]
/// to where both records have their full slope, in every round.
///
/// An agent of b records is played by one of a few, r, each scaled by r/b, in the coordinates that
/// the pair uses: one record moves the mean gradient exactly as far as before, rows of zeros do not
/// move it at all, and noise in the other coordinates tells nothing.
#[derive(Debug)]
pub struct AgentAttack {
    protocol: Arc<dyn Protocol>,
    timetable: Arc<Timetable>,
    noise: Arc<[RoundNoise]>,
    ledger: Ledger,
    pair: WorstPair,
    /// The agent's objective on the first data set, on the second, and on what the adversary knows.
    locals: [LocalObjective; 3],
    weights: (f64, Vec<f64>),
    /// Factor from gradient to step, by round.
    gains: Vec<f64>,
    rows: usize,
    released: AttackedExchange,
}

/// How an agent computes its numbers, as its study plans it: all of it public.
///
/// The public bound that honest agents' messages stay within is left out. To cut a message off
/// after its noise is drawn changes nothing that a claim rests on, and here the neighbours do not
/// keep to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttackedExchange {
    /// The set that models lie in.
    pub constraint: Constraint,
    /// How neighbours' vectors are combined.
    pub mixing: MixRule,
    /// How many rounds old a neighbour's vector may be.
    pub staleness: u32,
}

/// What an attack needs to know of the agent; all of it is public.
#[derive(Clone, Debug)]
pub struct AttackedAgent {
    /// b.
    pub records: usize,
    /// Features of a record.
    pub features: usize,
    /// W_ii.
    pub own_weight: f64,
    /// W_ij of its neighbours.
    pub weights: Vec<f64>,
}

impl AgentAttack {
    /// An attack on the agent that `neighbourhood` describes, protected by `noise` and `ledger`.
    #[must_use]
    #[expect(clippy::too_many_arguments, reason = "each is one public fact of the run")]
    pub fn new(
        objective: Objective,
        bounds: &RowBounds,
        neighbours: NeighbourRelation,
        protocol: Arc<dyn Protocol>,
        timetable: Arc<Timetable>,
        noise: Arc<[RoundNoise]>,
        ledger: Ledger,
        facts: &PublicFacts,
        neighbourhood: &AttackedAgent,
    ) -> Self {
        let rows = neighbourhood
            .records
            .div_ceil(RECORDS_PER_ROW)
            .max(2)
            .min(neighbourhood.records.max(1));
        let gaussian = noise.first().is_some_and(|n| matches!(n.noise(), Noise::Gaussian { .. }));
        let spread = if gaussian || timetable.rounds > 1 { WorstNorm::L2 } else { WorstNorm::L1 };
        let pair =
            WorstPair::new(objective.loss, bounds, neighbourhood.features, spread, neighbours)
                .compact()
                .scaled(rows as f64 / neighbourhood.records.max(1) as f64);
        let objective = Objective { loss: pair.loss(), ..objective };
        let local = |side| LocalObjective::new(objective, pair.records(side, rows));
        let locals =
            [local(Side::First), local(Side::Second), LocalObjective::new(objective, pair.known())];
        let facts = PublicFacts { dim: locals[0].dim(), ..*facts };
        let unit = Sensitivity { l1: 1.0, l2: 1.0, linf: 1.0 };
        let degree = neighbourhood.weights.len();
        let gain = |k| protocol.step_sensitivity(k, degree, &unit, &facts).l2;
        let gains = (1..=timetable.rounds).map(gain).collect();
        let weights = (neighbourhood.own_weight, neighbourhood.weights.clone());
        let released = AttackedExchange::default();
        Self { protocol, timetable, noise, ledger, pair, locals, weights, gains, rows, released }
    }

    /// Attacks the agent as its study makes it: what it releases is kept in a set, and neighbours'
    /// vectors are combined by a rule.
    #[must_use]
    pub fn released(self, released: AttackedExchange) -> Self {
        Self { released, ..self }
    }

    /// Attacks the same agent where its site counts `weight` = N·w_i times.
    #[must_use]
    pub fn weighted(mut self, weight: f64) -> Self {
        self.locals = self.locals.map(|local| local.weighted(weight));
        self
    }

    /// Plays all rounds and returns the log-likelihood ratio of the transcript, first against
    /// second data set.
    #[must_use]
    pub fn play(&self, trial: &Trial) -> f64 {
        let (noise, ledger) = (Arc::clone(&self.noise), self.ledger.clone());
        let gate = testing::gate(0, trial.seed.clone(), noise, ledger);
        self.play_through(trial.side, gate)
    }

    /// Attacks an agent whose gate the caller made.
    #[must_use]
    pub fn play_through(&self, side: Side, gate: Gate) -> f64 {
        let local = self.locals[usize::from(side == Side::Second)].clone();
        let (protocol, timetable) = (Arc::clone(&self.protocol), Arc::clone(&self.timetable));
        let AttackedExchange { constraint, mixing, staleness } = self.released;
        let gate = gate.with_constraint(constraint);
        let mut player = Player::new(local, protocol, timetable, gate)
            .with_mixing(mixing)
            .with_staleness(staleness);
        let dim = player.width();
        let degree = self.weights.1.len();
        let indices: Vec<u32> = (1..=degree as u32).collect();
        let mut rows = vec![0.0; (degree + 1) * dim];
        if let Some((anchor, value)) = self.pair.steering() {
            rows[anchor] = value;
        }
        let (mut draft, mut out) = (DraftScratch::default(), vec![0.0; dim]);
        let mut watch =
            ReleaseFollower::new(&*self.protocol, &self.pair, &self.locals[2], self.rows)
                .combining(mixing, constraint);
        for round in 0..self.timetable.rounds {
            self.echo(&mut rows);
            let neighbourhood = NeighbourView {
                rows: &rows,
                me: 0,
                neighbours: &indices,
                place: 0,
                weights: Weights { own: self.weights.0, neighbours: &self.weights.1 },
                round,
                common: None,
            };
            player.play(&neighbourhood, &mut draft, &mut out);
            if player.stopped().is_some() {
                // From here on its messages are computed from releases alone.
                break;
            }
            let noise = self.noise.get(round as usize).map(RoundNoise::noise);
            watch.see(&neighbourhood, self.gains[round as usize], noise, &out);
            rows[..dim].copy_from_slice(&out);
        }
        watch.ratio()
    }

    /// The neighbours say what the agent said, and keep the anchor where it is wanted.
    fn echo(&self, rows: &mut [f64]) {
        let (own, others) = rows.split_at_mut(self.protocol.width(self.locals[0].dim()));
        for row in others.chunks_exact_mut(own.len()) {
            row.copy_from_slice(own);
            if let Some((anchor, value)) = self.pair.steering() {
                row[anchor] = value;
            }
        }
    }
}

/// An adversary who follows one agent's releases and adds up what they say about the two data sets.
#[derive(Debug)]
pub struct ReleaseFollower<'a> {
    protocol: &'a dyn Protocol,
    /// The agent's records without the one in question: the adversary knows all the others.
    without: &'a LocalObjective,
    direction: Vec<f64>,
    multiples: (f64, f64),
    memory: Vec<f64>,
    private: Vec<f64>,
    low: Vec<f64>,
    high: Vec<f64>,
    step: Vec<f64>,
    work: Workspace,
    ratio: f64,
    mixing: MixRule,
    constraint: Constraint,
}

impl<'a> ReleaseFollower<'a> {
    /// Watches an agent of `records` records, one of which is of the `pair`.
    #[must_use]
    pub fn new(
        protocol: &'a dyn Protocol,
        pair: &WorstPair,
        without: &'a LocalObjective,
        records: usize,
    ) -> Self {
        let dim = protocol.width(without.dim());
        let direction =
            pair.direction().iter().map(|g| -g * without.weight() / records as f64).collect();
        Self {
            protocol,
            without,
            direction,
            multiples: pair.multiples(),
            memory: vec![0.0; protocol.memory() * dim],
            private: vec![0.0; protocol.private_memory() * dim],
            low: vec![0.0; dim],
            high: vec![0.0; dim],
            step: vec![0.0; dim],
            work: Workspace::default(),
            ratio: 0.0,
            mixing: MixRule::Average,
            constraint: Constraint::None,
        }
    }

    /// Follows an agent that combines its neighbours' vectors by a rule, and keeps its own in a
    /// set.
    #[must_use]
    pub fn combining(self, mixing: MixRule, constraint: Constraint) -> Self {
        Self { mixing, constraint, ..self }
    }

    /// Takes in the agent's next release, made from what `neighbourhood` shows; `gain` turns a gradient into
    /// a step.
    ///
    /// The interval counts as its middle, which is exact where it has no width and a fair
    /// approximation elsewhere: the bound is valid for any statistic.
    pub fn see(
        &mut self,
        neighbourhood: &NeighbourView<'_>,
        gain: f64,
        noise: Option<Noise>,
        released: &[f64],
    ) {
        let Self { protocol, without, direction, memory, private, low, high, step, work, .. } =
            self;
        let view = View::new(
            neighbourhood.rows,
            protocol.width(without.dim()),
            neighbourhood.me,
            neighbourhood.neighbours,
            neighbourhood.place,
            neighbourhood.weights,
            neighbourhood.round,
        )
        .with_regularization(without.regularization())
        .with_constraint(self.constraint)
        .with_common(neighbourhood.common)
        .with_mixing(self.mixing);
        if neighbourhood.round > 0 {
            protocol.absorb(&view, memory);
        }
        // What is not active is a function of what was released, and tells nothing.
        let active = protocol.active(neighbourhood.round + 1, view.dim());
        let active = active.unwrap_or_else(|| (0..view.dim() as u32).collect());
        for drafted in [&mut *low, &mut *high, &mut *step] {
            drafted.resize(active.len(), 0.0);
        }
        protocol.interval(&view, memory, low, high);
        protocol.keep(&view, memory);
        protocol.step(&view, Memory { public: memory, private }, low, without, work, step);
        protocol.remember(released, memory);
        for (i, l) in active.into_iter().map(|l| l as usize).enumerate() {
            // A longer message is made of vectors as long as a model.
            let g = direction[l % direction.len().max(1)];
            if g == 0.0 {
                continue;
            }
            let rest = released[l] - 0.5 * (low[i] + high[i]) - step[i];
            let (one, other) = self.multiples;
            let (first, second) = (rest - one * gain * g, rest - other * gain * g);
            self.ratio += match noise {
                Some(Noise::Laplace { scale }) => (second.abs() - first.abs()) / scale,
                Some(Noise::Gaussian { sigma }) => {
                    (second - first) * (second + first) / (2.0 * sigma * sigma)
                }
                // Without noise the nearer of the two is the truth.
                None => second.abs() - first.abs(),
            };
        }
    }

    /// The log-likelihood ratio so far.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.ratio
    }
}
