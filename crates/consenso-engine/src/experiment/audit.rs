//! Auditing an experiment: what an adversary sees of one agent, against what the experiment claims.

use super::check::Experiment;
use super::planned::Planned;
use super::rules;
use super::run::player_behind;
use crate::account::{Accounting, Correlated, NoiseSchedule};
use crate::agent::{Agent, Effect, LARGEST_RECEIVED, Message, NeighbourView, Player};
use crate::audit::{
    AgentAttack, AttackedAgent, AttackedExchange, Audit, AuditedClaim, Options, ReleaseAttack,
    ReleaseFollower, Side, Trial, Verdict, WorstNorm, WorstPair, audit,
};
use crate::config_error::ConfigError;
use crate::data::{RawColumn, Records, RowBounds, Task};
use crate::gate::{Gate, Ledger, Noise, Pair, Pairs, RoundNoise};
use crate::graph::{Graph, Mixing};
use crate::privacy::NeighbourRelation;
use crate::privacy::correlated::{best_guess, resistances};
use crate::problem::{Constraint, LocalObjective, MeanLoss, Sensitivity, Workspace};
use crate::protocol::{Memory, PublicFacts, View, Weights};
use crate::random::{Purpose, Seed};
use crate::simulate::{Clock, Lockstep, seen};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// What is put under attack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditTarget {
    /// The noise of the dearest round alone, on one number that moves as far as the sensitivity
    /// says.
    Mechanism,
    /// One agent with its gate, noise and ledger over all rounds, on the worst records; all others
    /// are the adversary's.
    #[default]
    Agent,
    /// The experiment as it is, with its real records and agents, but for one record of the first
    /// agent.
    Experiment,
}

/// The audit of one algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct AlgorithmAudit {
    /// Its name in tables.
    pub label: String,
    /// What was put under attack.
    pub target: AuditTarget,
    /// The neighbours that were told apart.
    pub neighbours: NeighbourRelation,
    /// Whether the agent ever fell silent because of a record.
    pub silence: Silence,
    /// Whether noise that neighbours share cancels in the sum of all messages; `None` where there
    /// is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cancels: Option<bool>,
    /// What was found; `None` where nothing is claimed.
    #[serde(flatten)]
    pub audit: Option<Audit>,
}

/// Neighbours that leave the protocol, against an agent's silence: everybody sees it when an agent
/// stops, so that no record may decide it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Silence {
    /// How many ways to misbehave were tried on two data sets.
    pub tried: u32,
    /// How many of them told the two apart.
    pub told_apart: u32,
}

impl Experiment {
    /// Audits every algorithm of the experiment, as its first agent runs it.
    ///
    /// Under the paper's convention a record is replaced by another, as in the paper's definition
    /// of neighbours; its B is half of what that needs (docs/paper.md, erratum 3), so a sharp
    /// enough audit finds the claim violated.
    ///
    /// # Errors
    /// [`ConfigError`]: options out of range, or records that cannot be divided.
    pub fn audit(
        &self,
        target: AuditTarget,
        options: Options,
    ) -> Result<Vec<AlgorithmAudit>, ConfigError> {
        rules::check_run(rules::AUDIT, self)?;
        let locals = self.locals(0)?;
        self.planned
            .iter()
            .map(|planned| self.audit_one(planned, &locals, target, options))
            .collect()
    }

    fn audit_one(
        &self,
        planned: &Planned,
        locals: &[LocalObjective],
        target: AuditTarget,
        options: Options,
    ) -> Result<AlgorithmAudit, ConfigError> {
        if planned.account.distributed_noise.is_some() && target != AuditTarget::Experiment {
            return Err(ConfigError::of(format!(
                "{}: in secret shares and masked sums an agent releases nothing of its own; --target experiment attacks the sum that is revealed",
                planned.label
            )));
        }
        if planned.account.correlated.is_some() && target != AuditTarget::Experiment {
            return Err(ConfigError::of(format!(
                "{}: noise that neighbours share hides an agent among others; --target experiment attacks it with a coalition that reads every message",
                planned.label
            )));
        }
        let neighbours = self.spec.privacy.map(|p| p.neighbours).unwrap_or_default();
        // The worst pair of an agent has few features, and a schedule of coordinates is for all of
        // them.
        if planned.protocol.capabilities().charges_ahead && target == AuditTarget::Agent {
            return Err(ConfigError::of(format!(
                "{}: an agent whose coordinates take turns is audited with its real records; use --target experiment, or mechanism",
                planned.label
            )));
        }
        let (mut found, mut silence, mut cancels) = (None, Silence::default(), None);
        if let Some(audited) = Audited::new(self, planned, locals) {
            let mut audit = audited.attack(target, options).map_err(ConfigError::of)?;
            silence = audited.silence(options.seed);
            cancels = audited.cancels(options.seed);
            if silence.told_apart > 0 || cancels == Some(false) {
                audit.verdict = Verdict::Violated;
            }
            found = Some(audit);
        }
        Ok(AlgorithmAudit {
            label: planned.label.clone(),
            target,
            neighbours,
            silence,
            cancels,
            audit: found,
        })
    }

    pub(super) fn row_bounds(&self) -> RowBounds {
        self.source.bounds()
    }
}

/// The first agent of one algorithm, and what it claims.
struct Audited<'a> {
    experiment: &'a Experiment,
    planned: &'a Planned,
    locals: &'a [LocalObjective],
    /// The records of the agent under attack, and what is minimised on them.
    attacked: &'a MeanLoss,
    graph: &'a Arc<Graph>,
    mixing: Arc<Mixing>,
    noise: Arc<[RoundNoise]>,
    /// What hides a step: the agent's own noise, or all that honest agents add together.
    hidden_by: Vec<Noise>,
    ledger: Ledger,
    claimed: AuditedClaim,
    facts: PublicFacts,
    steps: Vec<Sensitivity>,
    neighbours: NeighbourRelation,
    /// Who attacks noise that neighbours share, where there is some.
    pool: Option<PooledAdversary>,
    /// How agents are given such noise: tests put broken ways in its place.
    equip: Equip,
}

/// The agent under attack.
const AGENT: usize = 0;

type Equip = fn(&Correlated, Gate, usize, &[u32], &Seed) -> Gate;

/// A coalition against noise that neighbours share: it reads every message, knows all records but
/// one, and the noise of its own edges.
#[derive(Clone, Debug)]
struct PooledAdversary {
    coalition: Vec<u32>,
    /// What every edge adds, by round.
    shared: Arc<[RoundNoise]>,
    /// How everybody's noise is weighed to guess that of the agent under attack.
    weights: Vec<f64>,
    /// How much more hidden that agent is than is claimed, as a factor of a deviation.
    spared: f64,
}

/// What a coalition makes of what it knows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Guess {
    /// The best there is if all noise is as it should be.
    Covariance,
    /// Tries the noise of one of its own edges on all others: nothing, unless secrets are used
    /// twice.
    OwnEdge,
}

/// Noise that counts for less in a guess is left out of it.
const NEGLIGIBLE: f64 = 1e-7;

impl PooledAdversary {
    /// Of so many neighbours of the agent as may collude, those who leave it least hidden, one
    /// after the other.
    fn new(graph: &Graph, correlated: &Correlated) -> Self {
        let r = correlated.pairwise.correlation.powi(2);
        let (own, base) = correlated.own_variances();
        // Of equals the one with the smallest number.
        let better = |a: (f64, u32), b: (f64, u32)| if b.0 > a.0 * (1.0 + 1e-9) { b } else { a };
        let mut coalition: Vec<u32> = Vec::new();
        for _ in 0..correlated.pairwise.colluders {
            let with = |j: u32| {
                let mut tried = coalition.clone();
                tried.push(j);
                resistances(graph, &tried, &own, r)[AGENT]
            };
            let left = graph.neighbours(AGENT).iter().copied().filter(|j| !coalition.contains(j));
            let Some(next) = left.map(|j| (with(j), j)).reduce(better) else { break };
            coalition.push(next.1);
        }
        let weights = best_guess(graph, &coalition, AGENT, &own, r);
        let spared = (base / resistances(graph, &coalition, &own, r)[AGENT]).sqrt();
        Self { coalition, shared: correlated.shared_noise(), weights, spared }
    }

    /// What the coalition knows of the noise in agent `j`'s message.
    fn known(&self, graph: &Graph, j: usize, round: u32, dim: usize, seed: &Seed) -> Vec<f64> {
        let own = graph.neighbours(j).iter().filter(|a| self.coalition.contains(a));
        let pairs: Vec<Pair> = own.map(|&a| Pair::new(j as u32, a, seed.clone())).collect();
        Pairs::new(pairs, Arc::clone(&self.shared))
            .known(round, dim)
            .unwrap_or_else(|_| vec![0.0; dim])
    }

    /// Turns what the agent under attack sent into the best guess of it without the others' noise;
    /// `rest` is what any other agent's message holds beside its known part.
    fn see(
        &self,
        guess: Guess,
        graph: &Graph,
        round: u32,
        seed: &Seed,
        seen: &mut [f64],
        mut rest: impl FnMut(usize) -> Vec<f64>,
    ) {
        let dim = seen.len();
        let subtract = |from: &mut [f64], what: &[f64]| crate::kernel::axpy(-1.0, what, from);
        subtract(seen, &self.known(graph, AGENT, round, dim, seed));
        if guess == Guess::OwnEdge {
            let honest =
                graph.neighbours(AGENT).iter().filter(|j| !self.coalition.contains(j)).count()
                    as f64;
            let Some(&spy) = self.coalition.first() else { return };
            // The first agent has the smallest number of all: it adds on every edge.
            let pair = Pair::new(AGENT as u32, spy, seed.clone());
            if let Ok(v) = Pairs::new([pair], Arc::clone(&self.shared)).known(round, dim) {
                crate::kernel::axpy(-honest, &v, seen);
            }
            return;
        }
        for (j, &weight) in
            self.weights.iter().enumerate().filter(|(j, w)| *j != AGENT && w.abs() > NEGLIGIBLE)
        {
            let mut left = rest(j);
            subtract(&mut left, &self.known(graph, j, round, dim, seed));
            crate::kernel::axpy(weight, &left, seen);
        }
    }
}

impl<'a> Audited<'a> {
    /// `None` if nothing is claimed.
    fn new(
        experiment: &'a Experiment,
        planned: &'a Planned,
        locals: &'a [LocalObjective],
    ) -> Option<Self> {
        let privacy = experiment.spec.privacy?;
        let graph = experiment.graphs.first()?;
        let (site_weight, degree) = (locals[AGENT].site_weight(), graph.degree(AGENT));
        let NoiseSchedule { noise, ledger, price, steps, hidden_by, .. } =
            planned.account.noise_schedule(AGENT, site_weight, degree)?;
        let own = || noise.iter().map(RoundNoise::noise).collect();
        let hidden_by: Vec<Noise> = if hidden_by.is_empty() { own() } else { hidden_by.to_vec() };
        let facts =
            PublicFacts { rounds: planned.timetable.rounds, private: true, ..experiment.facts };
        let claim = &price.as_ref()?.claim;
        let claimed = AuditedClaim {
            epsilon: claim.clone().within(privacy.epsilon).epsilon,
            delta: claim.delta,
            // Noise inside a problem has an account of its own.
            mu: (privacy.accounting == Accounting::Schedule && !ledger.is_inside())
                .then(|| total_mu(steps, &hidden_by, ledger))
                .flatten(),
        };
        let pool = planned.account.correlated.as_ref().map(|c| PooledAdversary::new(graph, c));
        Some(Self {
            pool,
            equip: Correlated::equip,
            experiment,
            planned,
            locals,
            attacked: locals[AGENT].mean_loss()?,
            graph,
            mixing: Arc::new(Mixing::metropolis(graph)),
            noise: Arc::clone(noise),
            hidden_by,
            ledger: ledger.clone(),
            claimed,
            facts,
            steps: steps.to_vec(),
            neighbours: privacy.neighbours,
        })
    }

    fn attack(
        &self,
        target: AuditTarget,
        options: Options,
    ) -> Result<Audit, crate::privacy::AccountingError> {
        match target {
            AuditTarget::Mechanism => {
                let (attack, claimed) = self.dearest_round();
                audit(|trial| attack.play(trial), claimed, options)
            }
            AuditTarget::Agent | AuditTarget::Experiment if self.planned.scouted.is_some() => {
                let stages = ScoutingStages::new(self);
                audit(|trial| stages.play(trial), self.claimed, options)
            }
            AuditTarget::Experiment if self.pool.is_some() => {
                let whole = WholeExperiment::new(self);
                // Two ways to guess, each with half of what the confidence leaves.
                let options = Options { confidence: 0.5 + 0.5 * options.confidence, ..options };
                let one =
                    audit(|trial| whole.play(trial, Guess::Covariance), self.claimed, options)?;
                let other =
                    audit(|trial| whole.play(trial, Guess::OwnEdge), self.claimed, options)?;
                let better = other.verdict == Verdict::Violated
                    || (one.verdict == Verdict::Consistent && other.mu_lower > one.mu_lower);
                Ok(if better { other } else { one })
            }
            AuditTarget::Agent => {
                let attack = self.agent();
                audit(|trial| attack.play(trial), self.claimed, options)
            }
            AuditTarget::Experiment => {
                let whole = WholeExperiment::new(self);
                audit(|trial| whole.play(trial, Guess::Covariance), self.claimed, options)
            }
        }
    }

    /// The gate of agent `i` among these agents, with the noise that it shares with its neighbours.
    /// It is that of the records that were announced, whichever the agent plays with.
    fn gate(&self, i: usize, graph: &Graph, seed: &Seed) -> Gate {
        let Self { planned, locals, .. } = self;
        let gate = planned.account.gate(i, locals[i].site_weight(), graph.degree(i), seed, false);
        match &planned.account.correlated {
            Some(correlated) => (self.equip)(correlated, gate, i, graph.neighbours(i), seed),
            None => gate,
        }
    }

    /// The player that a run makes of agent `i`, with these records behind this gate.
    fn player(
        &self,
        i: usize,
        (graph, counts): (&Graph, &[usize]),
        local: LocalObjective,
        gate: Gate,
        seed: &Seed,
    ) -> Player {
        let neighbourhood = (i, graph, counts);
        player_behind(gate, self.experiment, self.planned, neighbourhood, local, Some(seed))
    }

    /// The numbers of records that were announced.
    fn counts(&self) -> Vec<usize> {
        self.locals.iter().map(|l| l.site_weight().records).collect()
    }

    /// The attacked agent's records but for the first, as the second data set of its relation has
    /// them: fewer records, or a first one that counts for nothing.
    fn without_first(&self, with: impl FnOnce(Records) -> LocalObjective) -> LocalObjective {
        let all = self.attacked.records();
        let left = with(all.select(&(1..all.len()).collect::<Vec<_>>()));
        match self.neighbours {
            // A mean over all of them still, one of which is nothing.
            NeighbourRelation::ZeroOut => {
                let weight = left.weight() * (all.len() - 1) as f64 / all.len() as f64;
                left.weighted(weight)
            }
            _ => left,
        }
    }

    /// Whether noise that neighbours share cancels: the sum of all messages must hold the agents'
    /// own noise and no more. `None` where nobody shares any, and where columns are scouted (their
    /// totals are checked by what models become) or models lie in a set.
    fn cancels(&self, seed: u64) -> Option<bool> {
        const ROUNDS: u32 = 8;
        self.pool.as_ref().filter(|_| self.planned.scouted.is_none())?;
        // What is projected onto a set is no sum of noise any more.
        if self.experiment.spec.objective.constraint != Constraint::None {
            return None;
        }
        let Self { planned, graph, mixing, locals, .. } = self;
        let (seed, counts) = (Seed::from(seed).for_run(7), self.counts());
        let players = locals.iter().enumerate().map(|(i, local)| {
            let gate = self.gate(i, graph, &seed);
            self.player(i, (graph, &counts), local.clone(), gate, &seed)
        });
        let mut network = Lockstep::new(players.collect(), Arc::clone(graph), Arc::clone(mixing));
        let dim = network.dim();
        let (mut squares, mut count) = (0.0, 0.0);
        for round in 0..planned.timetable.rounds.min(ROUNDS) {
            let before = network.rows().to_vec();
            network.advance();
            let mut sum = vec![0.0; dim];
            for j in 0..locals.len() {
                let left = self.left(&before, &network.rows()[j * dim..][..dim], j, round);
                crate::kernel::axpy(1.0, &left, &mut sum);
            }
            let own = |(j, local): (usize, &LocalObjective)| {
                let of = planned.account.noise_schedule(j, local.site_weight(), graph.degree(j))?;
                Some(of.noise.get(round as usize)?.noise().scale().powi(2))
            };
            let variance = locals.iter().enumerate().map(own).sum::<Option<f64>>()?;
            squares += sum.iter().map(|x| x * x / variance).sum::<f64>();
            count += dim as f64;
        }
        // χ² of so many numbers exceeds its mean by eight deviations less than once in 10¹².
        Some(squares <= count + 8.0 * (2.0 * count).sqrt() + 40.0)
    }

    /// What a message of agent `j` holds beside what the adversary can compute of it from `rows`,
    /// all that was sent before, and from its records.
    fn left(&self, rows: &[f64], sent: &[f64], j: usize, round: u32) -> Vec<f64> {
        let (protocol, local, dim) = (&*self.planned.protocol, &self.locals[j], sent.len());
        let neighbours = self.graph.neighbours(j);
        let place = neighbours.partition_point(|&n| (n as usize) < j);
        let weights = Weights { own: self.mixing.own(j), neighbours: self.mixing.neighbours(j) };
        let view = View::new(rows, dim, j as u32, neighbours, place, weights, round)
            .with_regularization(local.regularization())
            .with_mixing(self.planned.mixing);
        let (mut low, mut high, mut step) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
        protocol.interval(&view, &[], &mut low, &mut high);
        protocol.step(&view, Memory::default(), &low, local, &mut Workspace::default(), &mut step);
        sent.iter().zip(&low).zip(&step).map(|((x, l), s)| x - l - s).collect()
    }

    fn dearest_round(&self) -> (ReleaseAttack, AuditedClaim) {
        let shift = |(s, n): (&Sensitivity, &RoundNoise)| match n.noise() {
            Noise::Laplace { .. } => s.l1,
            Noise::Gaussian { .. } => s.l2,
        };
        let rounds = self.steps.iter().zip(&*self.noise);
        let cost = |&(s, n): &(&Sensitivity, &RoundNoise)| shift((s, n)) / n.noise().scale();
        let dearest =
            rounds.max_by(|a, b| cost(a).total_cmp(&cost(b))).expect("an account has rounds");
        let claimed = match dearest.1.noise() {
            Noise::Laplace { .. } => AuditedClaim::pure(cost(&dearest).next_up()),
            Noise::Gaussian { .. } => {
                AuditedClaim::gaussian(cost(&dearest).next_up(), self.claimed.delta)
            }
        };
        (ReleaseAttack { noise: *dearest.1, shift: shift(dearest), width: 0.0 }, claimed)
    }

    /// Neighbours that send numbers of every size and sign, to the agent with one record or without
    /// it: it must take and refuse the same messages, and stop or go on alike.
    fn silence(&self, seed: u64) -> Silence {
        const TRIES: u32 = 48;
        const SIZES: [f64; 8] = [f64::MAX, 1e300, 1e160, 1e13, LARGEST_RECEIVED, 1e9, 1e6, 1.0];
        let degree = self.graph.degree(AGENT);
        // Among shares there is nothing to try: a share is any word there is, none is refused for
        // its value, their sum is a number of the fixed-point range, and a gradient at a point of
        // that range is finite whatever the records are. That an agent's own vector leaves the
        // range is counted in δ.
        if self.planned.sharing.is_some() || degree == 0 {
            return Silence::default();
        }
        // Scouted columns come in stages, the first of which are histograms; their record lies at
        // one end of every column or at the other.
        let (last, [one, other]) = if self.planned.scouted.is_some() {
            (12, ScoutingStages::new(self).sides)
        } else {
            let [one, _, other] = WholeExperiment::new(self).first;
            (3, [one, other])
        };
        let edges: Vec<(u32, u32)> = (1..=degree as u32).map(|j| (0, j)).collect();
        let Ok(graph) = Graph::from_edges(degree + 1, &edges) else { return Silence::default() };
        let mixing = Mixing::metropolis(&graph);
        let counts = vec![self.attacked.records().len(); degree + 1];
        let behaviour = |local: &LocalObjective, k: u32| {
            let noise = Seed::from(seed).for_run(u64::from(k));
            let gate = self.gate(AGENT, &graph, &noise);
            let player = self.player(AGENT, (&graph, &counts), local.apart(), gate, &noise);
            let mut agent = Agent::new(0, &graph, &mixing, player);
            let dim = agent.player().width();
            let mut seen = Vec::new();
            while let Some(effect) = agent.poll() {
                let Effect::Send(message) = effect else { continue };
                seen.push((message.round(), 0, agent.player().stopped().is_some()));
                if message.round() > last {
                    break;
                }
                for j in 1..=degree as u32 {
                    let place = u64::from(k) << 32 | u64::from(message.round());
                    let mut stream = Seed::from(seed).stream(Purpose::Public, u64::from(j), place);
                    let size = SIZES[(k as usize + j as usize) % SIZES.len()];
                    let signs = [-1.0, 0.0, 1.0, 1.0];
                    let values: Vec<f64> = (0..dim)
                        .map(|_| size * signs[stream.random_range(0..signs.len())])
                        .collect();
                    let taken =
                        agent.handle(&Message::received(j, message.round(), values)).is_ok();
                    seen.push((message.round(), j, taken));
                    if !taken {
                        let zeros = vec![0.0; dim];
                        let _ = agent.handle(&Message::received(j, message.round(), zeros));
                    }
                }
            }
            seen
        };
        let differs = |k: &u32| behaviour(&one, *k) != behaviour(&other, *k);
        Silence { tried: TRIES, told_apart: (0..TRIES).filter(differs).count() as u32 }
    }

    fn agent(&self) -> AgentAttack {
        let local = self.attacked;
        AgentAttack::new(
            self.experiment.objective,
            &self.experiment.row_bounds(),
            self.neighbours,
            Arc::clone(&self.planned.protocol),
            Arc::clone(&self.planned.timetable),
            Arc::clone(&self.noise),
            self.ledger.clone(),
            &self.facts,
            &AttackedAgent {
                records: local.records().len(),
                features: local.records().dim(),
                own_weight: self.mixing.own(AGENT),
                weights: self.mixing.neighbours(AGENT).to_vec(),
            },
        )
        .weighted(local.weight())
        .released(AttackedExchange {
            constraint: self.experiment.spec.objective.constraint,
            mixing: self.planned.mixing,
            staleness: self.planned.staleness,
        })
    }
}

/// μ of the rounds the ledger allows: μ² = Σ (‖step‖₂/σ)². `None` unless all noise is Gaussian.
fn total_mu(steps: &[Sensitivity], noise: &[Noise], ledger: &Ledger) -> Option<f64> {
    let Ledger::Schedule { plan, .. } = ledger else { return None };
    let mut squares = 0.0;
    for (step, noise) in steps.iter().zip(noise).take(plan.allowed() as usize) {
        let Noise::Gaussian { sigma } = *noise else { return None };
        squares += (step.l2 / sigma) * (step.l2 / sigma);
    }
    Some(squares.sqrt() * (1.0 + 1e-9))
}

/// All stages of an experiment that scouts its columns. One record of the first agent lies at one
/// end of every column, and on the second data set at the other, or it is removed, or counts for
/// nothing; the adversary knows all other records and takes the exact likelihood ratio of every
/// release.
struct ScoutingStages<'a> {
    audited: &'a Audited<'a>,
    sides: [LocalObjective; 2],
    counts: Vec<usize>,
}

impl<'a> ScoutingStages<'a> {
    fn new(audited: &'a Audited<'a>) -> Self {
        let (local, experiment) = (audited.attacked, audited.experiment);
        let layout = experiment.layout.as_ref().expect("scouted experiments have raw columns");
        let end = |column: &RawColumn| match *column {
            RawColumn::Number => 1.0,
            RawColumn::Levels(levels) => levels.saturating_sub(1) as f64,
        };
        // With one label, gradients at opposite ends of all columns point away from each other.
        let label = match layout.task() {
            Task::Binary => 1.0,
            Task::MultiClass { classes } => (classes - 1) as f64,
            Task::Regression { max, .. } => max,
        };
        let with = |row: Vec<f64>, label: f64| {
            let all = local.records();
            let mut records: Records = all.select(&(1..all.len()).collect::<Vec<_>>());
            records.push(&row, label);
            experiment.objective_on(records).weighted(local.weight())
        };
        let last: Vec<f64> = layout.columns().iter().map(end).collect();
        let second = match audited.neighbours {
            NeighbourRelation::ReplaceOne | NeighbourRelation::Paper => {
                with(vec![0.0; last.len()], label)
            }
            NeighbourRelation::AddRemove | NeighbourRelation::ZeroOut => audited
                .without_first(|records| experiment.objective_on(records).weighted(local.weight())),
        };
        Self { audited, sides: [with(last, label), second], counts: audited.counts() }
    }

    fn play(&self, trial: &Trial) -> f64 {
        let Audited { experiment, planned, graph, mixing, locals, hidden_by, .. } = self.audited;
        let sides = [self.sides[0].apart(), self.sides[1].apart()];
        let players = locals.iter().enumerate().map(|(i, local)| {
            let side = usize::from(trial.side == Side::Second);
            let local = if i == AGENT { sides[side].apart() } else { local.apart() };
            let gate = self.audited.gate(i, graph, &trial.seed);
            self.audited.player(i, (graph, &self.counts), local, gate, &trial.seed)
        });
        let mut network = Lockstep::new(players.collect(), Arc::clone(graph), Arc::clone(mixing));
        let protocol = planned
            .protocol
            .of_agent(AGENT, graph, &self.counts)
            .unwrap_or_else(|| Arc::clone(&planned.protocol));
        let (dim, mut ratio, mut work) = (network.dim(), 0.0, Workspace::default());
        for round in 0..planned.timetable.rounds {
            let rows = network.rows().to_vec();
            let mut memory = network.players()[AGENT].memory().to_vec();
            network.advance();
            if network.players()[AGENT].stopped().is_some() {
                break;
            }
            let (Some(Noise::Gaussian { sigma }), false) =
                (hidden_by.get(round as usize).copied(), protocol.passes_on(round + 1))
            else {
                continue;
            };
            let weights = Weights { own: mixing.own(AGENT), neighbours: mixing.neighbours(AGENT) };
            let neighbours = graph.neighbours(AGENT);
            let view = View::new(&rows, dim, AGENT as u32, neighbours, 0, weights, round)
                .with_regularization(experiment.objective.regularization);
            // What it remembers is a function of releases, so the adversary has it too; of a
            // private part it knows all but one record.
            let (public, private) = memory.split_at_mut(protocol.memory() * dim);
            if round > 0 {
                protocol.absorb(&view, public);
            }
            let active =
                protocol.active(round + 1, dim).unwrap_or_else(|| (0..dim as u32).collect());
            let (mut low, mut high) = (vec![0.0; active.len()], vec![0.0; active.len()]);
            protocol.interval(&view, public, &mut low, &mut high);
            // The middle of an interval is exact where it has no width, and a fair guess elsewhere.
            low.iter_mut().zip(&high).for_each(|(low, high)| *low = 0.5 * (*low + high));
            let mut steps = [vec![0.0; active.len()], vec![0.0; active.len()]];
            for (step, local) in steps.iter_mut().zip(&sides) {
                let memory = Memory { public, private: &mut private.to_vec() };
                protocol.step(&view, memory, &low, local, &mut work, step);
            }
            let mut seen: Vec<f64> =
                active.iter().zip(&low).map(|(&l, low)| network.rows()[l as usize] - low).collect();
            if let Some(pool) = &self.audited.pool {
                pool.see(Guess::Covariance, graph, round + 1, &trial.seed, &mut seen, |j| {
                    let (public, private) =
                        network.players()[j].memory().split_at(protocol.memory() * dim);
                    let memory = Memory { public, private: &mut private.to_vec() };
                    let neighbours = graph.neighbours(j);
                    let weights = Weights { own: mixing.own(j), neighbours: mixing.neighbours(j) };
                    let view =
                        View::new(network.rows(), dim, j as u32, neighbours, 0, weights, round);
                    let mut step = vec![0.0; active.len()];
                    protocol.step(&view, memory, &[], &locals[j], &mut work, &mut step);
                    active
                        .iter()
                        .zip(&step)
                        .map(|(&l, s)| network.rows()[j * dim + l as usize] - s)
                        .collect()
                });
            }
            for ((x, a), b) in seen.iter().zip(&steps[0]).zip(&steps[1]) {
                ratio += (a - b) * (2.0 * x - a - b) / (2.0 * sigma * sigma);
            }
        }
        ratio
    }
}

/// Messages that take time, where agents may mix older ones: which the attacked agent mixed.
struct StaleMixing<'a> {
    clock: Option<Clock>,
    graph: &'a Graph,
    staleness: u32,
    /// Rows before the last, the newest first.
    past: VecDeque<Vec<f64>>,
}

impl<'a> StaleMixing<'a> {
    fn new(audited: &Audited<'a>) -> Self {
        let Audited { experiment, planned, .. } = audited;
        let (graph, staleness): (&'a Graph, u32) = (audited.graph, planned.staleness);
        let delays = experiment.spec.delays.as_ref().filter(|_| staleness > 0);
        let clock =
            delays.map(|d| Clock::new(d.clone(), graph, staleness, &experiment.delay_seed(0)));
        Self { clock, graph, staleness, past: VecDeque::new() }
    }

    /// Plays a round, and returns how old the vectors were that the attacked agent mixed.
    fn advance(&mut self, network: &mut Lockstep) -> Vec<u32> {
        let Some(clock) = &mut self.clock else {
            network.advance();
            return Vec::new();
        };
        let oldest = network.players()[AGENT].oldest(network.round());
        let first = network.round() == 0;
        let ages = if first { Vec::new() } else { clock.exchange(self.graph, oldest) };
        network.advance_with(&ages);
        ages.get(AGENT).cloned().unwrap_or_default()
    }

    /// The rows that the attacked agent mixed, its own first, and their numbers; `None` where all
    /// were the newest.
    fn seen(&self, rows: &[f64], dim: usize, ages: &[u32]) -> Option<(Vec<f64>, Vec<u32>)> {
        ages.iter().any(|age| *age > 0).then(|| {
            let rows = seen(rows, &self.past, dim, AGENT, self.graph.neighbours(AGENT), ages);
            (rows, (1..=ages.len() as u32).collect())
        })
    }

    fn keep(&mut self, rows: Vec<f64>) {
        self.past.push_front(rows);
        self.past.truncate(self.staleness as usize);
    }
}

/// The whole experiment, one record of the first agent being the adversary's.
struct WholeExperiment<'a> {
    audited: &'a Audited<'a>,
    pair: WorstPair,
    /// The first agent's objective on either side, and with a row of zeros instead of the record.
    first: [LocalObjective; 3],
    /// Factor from gradient to step, by round.
    gains: Vec<f64>,
}

impl<'a> WholeExperiment<'a> {
    fn new(audited: &'a Audited<'a>) -> Self {
        let local = audited.attacked;
        let bounds = audited.experiment.row_bounds();
        let features = local.records().dim();
        let pair = WorstPair::new(
            local.objective().loss,
            &bounds,
            features,
            WorstNorm::L2,
            audited.neighbours,
        );
        let with = |(row, label): (Vec<f64>, f64)| {
            let all = local.records();
            let mut records: Records = all.select(&(1..all.len()).collect::<Vec<_>>());
            records.push(&row, label);
            local.on(records)
        };
        let zero = (vec![0.0; features], pair.record(Side::First).1);
        // Where a record is removed, the second data set is the real others alone.
        let second = match audited.neighbours {
            NeighbourRelation::AddRemove => audited.without_first(|records| local.on(records)),
            _ => with(pair.record(Side::Second)),
        };
        let first = [with(pair.record(Side::First)), second, with(zero)];
        let unit = Sensitivity { l1: 1.0, l2: 1.0, linf: 1.0 };
        // Honest models stay near the origin, where a logistic slope is a half.
        let loss = local.objective().loss;
        let slope = loss.largest_slope().map_or(1.0, |slope| slope.min(0.5) * loss.heaviest());
        let degree = audited.graph.degree(AGENT);
        let step =
            |k| audited.planned.protocol.step_sensitivity(k, degree, &unit, &audited.facts).l2;
        let mut gains: Vec<f64> = (1..=audited.facts.rounds).map(|k| slope * step(k)).collect();
        if audited.planned.protocol.capabilities().charges_ahead {
            // A round that another one was charged for moves as far.
            let largest = gains.iter().copied().fold(0.0, f64::max);
            gains.fill(largest);
        }
        Self { audited, pair, first, gains }
    }

    fn play(&self, trial: &Trial, guess: Guess) -> f64 {
        let Audited { planned, graph, mixing, locals, hidden_by, .. } = self.audited;
        // Colluders, the last agents, know their own part of the noise: they add none. In masked
        // sums neither does whoever they can cut off from the rest.
        let honest = self.honest();
        let counts = self.audited.counts();
        let players = locals.iter().enumerate().map(|(i, local)| {
            let side = usize::from(trial.side == Side::Second);
            let local = if i == AGENT { self.first[side].clone() } else { local.clone() };
            let gate = if i < honest {
                self.audited.gate(i, graph, &trial.seed)
            } else {
                Gate::open(i as u64, trial.seed.clone())
            };
            self.audited.player(i, (graph, &counts), local, gate, &trial.seed)
        });
        let mut network = Lockstep::new(players.collect(), Arc::clone(graph), Arc::clone(mixing));
        network = super::run::summed(network, planned, &[]).expect("planned for this graph");
        let without = &self.first[2];
        let constraint = self.audited.experiment.spec.objective.constraint;
        let mut watch = ReleaseFollower::new(
            &*planned.protocol,
            &self.pair,
            without,
            without.site_weight().records,
        )
        .combining(planned.mixing, constraint);
        let (dim, mut late) = (network.dim(), StaleMixing::new(self.audited));
        for round in 0..planned.timetable.rounds {
            let rows = network.rows().to_vec();
            let ages = late.advance(&mut network);
            if network.players()[AGENT].stopped().is_some() || network.failure().is_some() {
                break;
            }
            let mut neighbourhood = NeighbourView {
                rows: &rows,
                me: AGENT as u32,
                neighbours: graph.neighbours(AGENT),
                place: 0,
                weights: Weights { own: mixing.own(AGENT), neighbours: mixing.neighbours(AGENT) },
                round,
                common: None,
            };
            let mixed = late.seen(&rows, dim, &ages);
            if let Some((rows, indices)) = &mixed {
                (neighbourhood.rows, neighbourhood.me, neighbourhood.neighbours) =
                    (rows, 0, indices);
            }
            let mut seen = network.rows()[..dim].to_vec();
            if planned.sharing.is_some() {
                self.subtract_others(&neighbourhood, &mut seen);
            }
            let k = round as usize;
            let mut hidden = hidden_by.get(k).copied();
            if let (Some(pool), Some(&own), Some(Noise::Gaussian { sigma })) =
                (&self.audited.pool, self.audited.noise.get(k), hidden)
            {
                pool.see(guess, graph, round + 1, &trial.seed, &mut seen, |j| {
                    self.audited.left(&rows, &network.rows()[j * dim..][..dim], j, round)
                });
                let sigma =
                    if guess == Guess::OwnEdge { own.noise().scale() } else { sigma * pool.spared };
                hidden = Some(Noise::Gaussian { sigma });
            }
            watch.see(&neighbourhood, self.gains[k], hidden, &seen);
            late.keep(rows);
        }
        watch.ratio()
    }

    /// How many agents, the first ones, put their part of the noise into the sum that is attacked:
    /// as few as add up to what is claimed.
    fn honest(&self) -> usize {
        let Audited { planned, locals, .. } = self.audited;
        let Some(distributed_noise) = planned.account.distributed_noise else {
            return locals.len();
        };
        let part =
            |agent: usize| 1.0 / planned.account.hiding_set_size(distributed_noise, agent) as f64;
        let (mut count, mut added) = (0, 0.0);
        while count < locals.len() && added < 1.0 - 1e-9 {
            added += part(count);
            count += 1;
        }
        count
    }

    /// Turns the revealed mean into N times it less what all agents but the first put into it: the
    /// adversary knows their records.
    fn subtract_others(&self, neighbourhood: &NeighbourView<'_>, seen: &mut [f64]) {
        let Audited { planned, locals, .. } = self.audited;
        let (protocol, dim) = (&*planned.protocol, seen.len());
        let view = View::new(
            neighbourhood.rows,
            dim,
            neighbourhood.me,
            neighbourhood.neighbours,
            neighbourhood.place,
            neighbourhood.weights,
            neighbourhood.round,
        )
        .with_regularization(self.first[2].regularization());
        let (mut low, mut high, mut step) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
        protocol.interval(&view, &[], &mut low, &mut high);
        seen.iter_mut().for_each(|x| *x *= locals.len() as f64);
        for local in &locals[1..] {
            protocol.step(
                &view,
                Memory::default(),
                &low,
                local,
                &mut Workspace::default(),
                &mut step,
            );
            for ((seen, low), step) in seen.iter_mut().zip(&low).zip(&step) {
                *seen -= low + step;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{ExperimentSpec, Inputs};

    fn experiment(privacy: &str, algorithm: &str) -> Experiment {
        let text = format!(
            "name = \"small\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 4\nrecords_per_agent = 30\ndim = 4\n\
             [graph]\nkind = \"complete\"\n{privacy}\n[[algorithm]]\n{algorithm}\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let source = Box::new(spec.synthetic().unwrap().unwrap());
        Experiment::check(Inputs {
            file: "small".into(),
            text,
            spec,
            source,
            edges: None,
            entropy: None,
        })
        .unwrap()
    }

    const BUDGET: &str = "[privacy]\nepsilon = 2.0\ndelta = 1e-5\n";

    fn audited(experiment: &Experiment, target: AuditTarget, trials: u32) -> Audit {
        let options = Options { trials, confidence: 1.0 - 1e-6, seed: 3 };
        experiment.audit(target, options).unwrap()[0].audit.expect("a claim")
    }

    #[test]
    fn a_calibrated_experiment_is_consistent_whatever_is_attacked() {
        let experiment = experiment(BUDGET, "kind = \"dgd\"\nrounds = 20");
        for (target, trials, least) in [
            (AuditTarget::Mechanism, 100_000, 0.3),
            (AuditTarget::Agent, 8_000, 0.5),
            (AuditTarget::Experiment, 1_000, 0.0),
        ] {
            let found = audited(&experiment, target, trials);
            assert_eq!(found.verdict, Verdict::Consistent, "{target:?}: {found:?}");
            let mu = found.mu_claimed.expect("calibrated Gaussian noise");
            assert!(found.mu_lower >= least * mu, "{target:?}: {found:?}");
        }
        assert!((audited(&experiment, AuditTarget::Agent, 100).epsilon_claimed - 2.0).abs() < 1e-3);
    }

    /// Coordinates that take turns: an epoch is charged as one gradient. Were its rounds not to
    /// share that charge, μ would come out √c times too small, and an attack on the real run would
    /// find it.
    #[test]
    fn coordinate_descent_is_audited_as_it_runs() {
        let budget = BUDGET.replace("2.0", "8.0");
        let one =
            experiment(&budget, "kind = \"rcd\"\nepochs = 10\nstep = 1.0\norder = \"random\"");
        let found = audited(&one, AuditTarget::Experiment, 3_000);
        assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
        let mu = found.mu_claimed.expect("Gaussian noise");
        // Slopes are a half near the origin, and the busiest coordinate alone pays in full.
        assert!(found.mu_lower > 0.1 * mu, "{found:?}");
        let refused = one.audit(AuditTarget::Agent, Options::default()).unwrap_err();
        assert!(refused.to_string().contains("--target experiment"), "{refused}");
        assert_eq!(audited(&one, AuditTarget::Mechanism, 10_000).verdict, Verdict::Consistent);
    }

    /// Records that are drawn in secret: what is attacked is the run with its samples, and the claim
    /// that sampling lowered stands.
    #[test]
    fn batches_are_audited_as_they_are_drawn() {
        let budget = BUDGET.replace("2.0", "8.0");
        let one = experiment(&budget, "kind = \"dgd\"\nrounds = 15\nstep = 1.0\nbatch = 0.3");
        for target in [AuditTarget::Agent, AuditTarget::Experiment] {
            let found = audited(&one, target, 3_000);
            assert_eq!(found.verdict, Verdict::Consistent, "{target:?}: {found:?}");
            assert!((found.epsilon_claimed - 8.0).abs() < 1e-2, "{target:?}: {found:?}");
            assert!(found.epsilon_lower > 0.5, "{target:?}: {found:?}");
        }
    }

    /// Records that are in every round by what they said before, and drawn besides.
    #[test]
    fn what_records_said_before_is_audited_as_it_is_released() {
        let budget = BUDGET.replace("2.0", "8.0");
        let one =
            experiment(&budget, "kind = \"privsgp-vr\"\nrounds = 15\nstep = 1.0\nbatch = 0.3");
        let found = audited(&one, AuditTarget::Experiment, 3_000);
        assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
        assert!(found.epsilon_lower > 0.3, "{found:?}");
    }

    /// Half of the agents collude and know their own noise: what is left hides a record as claimed.
    /// An audit that leaves them their noise would be blind to a claim that counts it.
    #[test]
    fn noise_that_agents_add_together_is_audited_against_colluders() {
        let budget = BUDGET.replace("2.0", "8.0");
        let shared = "kind = \"gd\"\naggregation = \"fixed\"\nrounds = 15\nstep = 1.0\nexchange = \"secret-shared\"";
        let one = experiment(&budget, shared);
        let found = audited(&one, AuditTarget::Experiment, 3_000);
        assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
        // Near the origin slopes are a half, and under this budget they are clipped there: the
        // attack is as strong as the claim allows.
        let mu = found.mu_claimed.expect("Gaussian noise");
        assert!(found.mu_lower > 0.4 * mu, "{found:?}");
        assert!(
            one.audit(AuditTarget::Agent, Options::default())
                .unwrap_err()
                .to_string()
                .contains("--target experiment")
        );
    }

    #[test]
    fn the_papers_convention_fails_an_experiments_audit() {
        let paper = "[privacy]\ndelta = 1e-5\nneighbours = \"paper\"\n";
        // Noise of B_2 under that convention: μ² = 20·(η/(30σ))², doubled by replacing a record.
        let algorithm = "kind = \"dgd\"\nrounds = 20\nstep = 1.0\nnoise = { gaussian = 0.15 }";
        let found = audited(&experiment(paper, algorithm), AuditTarget::Agent, 4_000);
        assert_eq!(found.verdict, Verdict::Violated, "{found:?}");
        assert!(found.mu_lower <= 2.0 * found.mu_claimed.unwrap());
        let sound = "[privacy]\ndelta = 1e-5\n";
        let found = audited(&experiment(sound, algorithm), AuditTarget::Agent, 4_000);
        assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
    }

    /// An auditor that made players of its own would judge messages that nobody sends.
    #[test]
    fn the_auditor_plays_the_players_that_a_run_makes() {
        let set = format!(
            "[objective]\nconstraint = {{ kind = \"box\", low = -0.01, high = 0.01 }}\n{BUDGET}"
        );
        let one = experiment(&set, "kind = \"dgd\"\nrounds = 12\nmixing = \"median\"");
        let locals = one.locals(0).unwrap();
        let audited = Audited::new(&one, &one.planned[0], &locals).unwrap();
        let (seed, counts, graph) = (Seed::from(5), audited.counts(), &one.graphs[0]);
        let network = |players: Vec<Player>| {
            let mut network =
                Lockstep::new(players, Arc::clone(graph), Arc::new(Mixing::metropolis(graph)));
            (0..12).for_each(|_| network.advance());
            network.rows().to_vec()
        };
        let each = || locals.iter().cloned().enumerate();
        let of_run = each().map(|(i, local)| {
            super::super::run::player(
                &one,
                audited.planned,
                (i, graph, &counts),
                local,
                &seed,
                true,
            )
        });
        let of_audit = each().map(|(i, local)| {
            audited.player(i, (graph, &counts), local, audited.gate(i, graph, &seed), &seed)
        });
        let rows = network(of_audit.collect());
        assert_eq!(rows, network(of_run.collect()));
        assert!(rows.iter().all(|x| x.abs() <= 0.01) && rows.iter().any(|x| *x != 0.0));
        let found = audited_by(&one, 400);
        assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
    }

    fn audited_by(experiment: &Experiment, trials: u32) -> Audit {
        audited(experiment, AuditTarget::Experiment, trials)
    }

    /// What an agent mixes may be older where messages take time: so it is under attack.
    #[test]
    fn older_vectors_are_mixed_under_attack_as_in_a_run() {
        let late = format!("[delays]\nslow = [[0, 1]]\nfactor = 4.0\n{BUDGET}");
        let one = experiment(&late, "kind = \"dgd\"\nrounds = 12\nstaleness = 2");
        let locals = one.locals(0).unwrap();
        let audited = Audited::new(&one, &one.planned[0], &locals).unwrap();
        let (seed, counts, graph) = (Seed::from(5), audited.counts(), &one.graphs[0]);
        let players = || {
            let player = |(i, local): (usize, &LocalObjective)| {
                let gate = audited.gate(i, graph, &seed);
                audited.player(i, (graph, &counts), local.clone(), gate, &seed)
            };
            let players = locals.iter().enumerate().map(player).collect();
            Lockstep::new(players, Arc::clone(graph), Arc::new(Mixing::metropolis(graph)))
        };
        let delays = one.spec.delays.clone().unwrap();
        let mut run = players().delayed(delays, &one.delay_seed(0));
        let (mut attacked, mut late, mut older) = (players(), StaleMixing::new(&audited), 0);
        for _ in 0..12 {
            run.advance();
            let rows = attacked.rows().to_vec();
            let ages = late.advance(&mut attacked);
            older += u32::from(late.seen(&rows, attacked.dim(), &ages).is_some());
            late.keep(rows);
            assert_eq!(run.rows(), attacked.rows());
        }
        assert!(older > 0, "delays that nobody notices test nothing");
    }

    #[test]
    fn nothing_claimed_is_nothing_audited() {
        let experiment = experiment("", "kind = \"dgd\"\nrounds = 5");
        let found = experiment.audit(AuditTarget::Agent, Options::default()).unwrap();
        assert!(found[0].audit.is_none());
    }
}

#[cfg(test)]
mod correlated_tests {
    use super::*;
    use crate::experiment::{ExperimentSpec, Inputs};

    fn experiment(graph: &str, algorithm: &str) -> Experiment {
        let text = format!(
            "name = \"small\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 10\nrecords_per_agent = 20\ndim = 2\n\
             [graph]\n{graph}\n[privacy]\nepsilon = 6.0\ndelta = 1e-5\n[[algorithm]]\nkind = \"decor\"\nrounds = 4\ncorrelation = 20.0\n{algorithm}\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let source = Box::new(spec.synthetic().unwrap().unwrap());
        Experiment::check(Inputs {
            file: "small".into(),
            text,
            spec,
            source,
            edges: None,
            entropy: None,
        })
        .unwrap()
    }

    const OPTIONS: Options = Options { trials: 500, confidence: 1.0 - 1e-6, seed: 11 };

    fn attacked(
        experiment: &Experiment,
        equip: Equip,
        coalition: Option<usize>,
    ) -> (Audit, Option<bool>) {
        let locals = experiment.locals(0).unwrap();
        let mut audited = Audited::new(experiment, &experiment.planned[0], &locals).unwrap();
        audited.equip = equip;
        if let (Some(size), Some(correlated)) =
            (coalition, &experiment.planned[0].account.correlated)
        {
            let mut larger = correlated.clone();
            larger.pairwise.colluders = size;
            audited.pool = Some(PooledAdversary::new(audited.graph, &larger));
        }
        (audited.attack(AuditTarget::Experiment, OPTIONS).unwrap(), audited.cancels(3))
    }

    /// As it should be: the coalition sees much of what is claimed, and no more.
    #[test]
    fn a_coalition_stays_below_the_claim_of_correlated_noise() {
        for (graph, algorithm, seen) in [
            ("kind = \"complete\"", "colluders = 2", true),
            ("kind = \"ring\"", "colluders = 1", true),
            // An end, which has the most own noise of all and hides itself.
            ("kind = \"path\"", "colluders = 1", true),
            // The hub, which has the least: the leaves hide it better than is claimed.
            ("kind = \"star\"", "colluders = 1", false),
        ] {
            let (audit, cancels) = attacked(&experiment(graph, algorithm), Correlated::equip, None);
            assert_eq!(
                (audit.verdict, cancels),
                (Verdict::Consistent, Some(true)),
                "{graph}: {audit:?}"
            );
            let claimed = audit.mu_claimed.unwrap();
            let enough = !seen || audit.mu_lower > 0.05 * claimed;
            assert!(enough, "{graph}: {} of {claimed}", audit.mu_lower);
        }
    }

    /// Every edge with the noise of one edge: whoever stands at that edge subtracts it everywhere.
    #[test]
    fn a_reused_edge_secret_is_caught() {
        let reused: Equip = |c, gate, agent, neighbours, seed| {
            let pairs: Vec<Pair> =
                neighbours.iter().map(|&j| Pair::reusing(agent as u32, j, seed.clone())).collect();
            gate.with_pairs(Pairs::new(pairs, c.shared_noise()))
        };
        // The spy is agent 1, whose edge with agent 0 is the one that is used everywhere.
        let (audit, _) =
            attacked(&experiment("kind = \"complete\"", "colluders = 1"), reused, None);
        assert_eq!(audit.verdict, Verdict::Violated, "{audit:?}");
    }

    /// Planned as if nobody colluded, with both neighbours of an agent in the coalition.
    #[test]
    fn a_coalitions_edge_that_was_counted_as_honest_is_caught() {
        let planned = experiment("kind = \"ring\"", "colluders = 0");
        let (audit, _) = attacked(&planned, Correlated::equip, Some(2));
        assert_eq!(audit.verdict, Verdict::Violated, "{audit:?}");
    }

    #[test]
    fn a_sign_that_does_not_cancel_is_caught() {
        let adding: Equip = |c, gate, agent, neighbours, seed| {
            let pairs: Vec<Pair> =
                neighbours.iter().map(|&j| Pair::adding(agent as u32, j, seed.clone())).collect();
            gate.with_pairs(Pairs::new(pairs, c.shared_noise()))
        };
        let one = experiment("kind = \"ring\"", "colluders = 1");
        let locals = one.locals(0).unwrap();
        let mut audited = Audited::new(&one, &one.planned[0], &locals).unwrap();
        assert_eq!(audited.cancels(3), Some(true));
        audited.equip = adding;
        assert_eq!(audited.cancels(3), Some(false));
    }
}
