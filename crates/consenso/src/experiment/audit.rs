//! Auditing an experiment: what an adversary sees of one agent, against what the experiment claims.

use super::budget::Account;
use super::check::{Experiment, Planned, Source};
use super::run::player;
use super::spec::Accounting;
use crate::agent::{Agent, Effect, LARGEST_RECEIVED, Message, Player, Seat};
use crate::audit::{
    AgentAttack, Audit, Claimed, Options, ReleaseAttack, Seated, Side, Spread, Trial, Verdict, Watch,
    WorstPair, audit,
};
use crate::data::{RawColumn, Records, RowBounds, Task};
use crate::gate::{Gate, Ledger, Noise, RoundNoise};
use crate::graph::{Graph, Mixing};
use crate::privacy::NeighbourRelation;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::protocol::{Memory, PublicFacts, View, Weights};
use crate::random::{Purpose, Seed};
use crate::simulate::Lockstep;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is put under attack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditTarget {
    /// The noise of the dearest round alone, on one number that moves as far as the sensitivity says.
    Mechanism,
    /// One agent with its gate, noise and ledger over all rounds, on the worst records; all others are the adversary's.
    #[default]
    Agent,
    /// The experiment as it is, with its real records and agents, but for one record of the first agent.
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
    /// What was found; `None` where nothing is claimed.
    #[serde(flatten)]
    pub audit: Option<Audit>,
}

/// Neighbours that leave the protocol, against an agent's silence: everybody sees it when an agent stops, so that no record may decide it.
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
    /// Under the paper's convention a record is replaced by another, as in the paper's definition of neighbours; its B is half of what
    /// that needs (docs/paper.md, erratum 3), so a sharp enough audit finds the claim violated.
    ///
    /// # Errors
    /// A text: options out of range, or records that cannot be divided.
    pub fn audit(&self, target: AuditTarget, options: Options) -> Result<Vec<AlgorithmAudit>, String> {
        if self.tied.is_some() {
            return Err("problems with a linear constraint cannot be audited yet".into());
        }
        let locals = self.locals(0)?;
        self.planned.iter().map(|planned| self.audit_one(planned, &locals, target, options)).collect()
    }

    fn audit_one(
        &self,
        planned: &Planned,
        locals: &[LocalObjective],
        target: AuditTarget,
        options: Options,
    ) -> Result<AlgorithmAudit, String> {
        if planned.budget.together.is_some() && target != AuditTarget::Experiment {
            return Err(format!(
                "{}: in secret shares an agent releases nothing of its own; --target experiment attacks the sum that is revealed",
                planned.label
            ));
        }
        if planned.budget.correlated.is_some() {
            return Err(format!(
                "{}: correlated noise is attacked by whole coalitions, which this auditor does not play; leave the algorithm out",
                planned.label
            ));
        }
        let neighbours = self.spec.privacy.map(|p| p.neighbours).unwrap_or_default();
        // The worst pair of an agent has few features, and a schedule of coordinates is for all of them.
        if planned.protocol.charges_ahead() && target == AuditTarget::Agent {
            return Err(format!(
                "{}: an agent whose coordinates take turns is audited with its real records; use --target experiment, or mechanism",
                planned.label
            ));
        }
        let (mut found, mut silence) = (None, Silence::default());
        if let Some(audited) = Audited::new(self, planned, locals) {
            let mut audit = audited.attack(target, options).map_err(|e| e.to_string())?;
            silence = audited.silence(options.seed);
            if silence.told_apart > 0 {
                audit.verdict = Verdict::Violated;
            }
            found = Some(audit);
        }
        Ok(AlgorithmAudit { label: planned.label.clone(), target, neighbours, silence, audit: found })
    }

    pub(super) fn row_bounds(&self) -> RowBounds {
        match &*self.source {
            Source::Data(data) => data.bounds,
            Source::Synthetic(problem) => problem.bounds(),
            Source::Costs => RowBounds { l1: 0.0, l2: 0.0, linf: 0.0, public: true },
        }
    }
}

/// The first agent of one algorithm, and what it claims.
struct Audited<'a> {
    experiment: &'a Experiment,
    planned: &'a Planned,
    locals: &'a [LocalObjective],
    graph: &'a Arc<Graph>,
    mixing: Arc<Mixing>,
    noise: Arc<[RoundNoise]>,
    /// What hides a step: the agent's own noise, or all that honest agents add together.
    hidden_by: Vec<Noise>,
    ledger: Ledger,
    claimed: Claimed,
    facts: PublicFacts,
    steps: Vec<Sensitivity>,
    neighbours: NeighbourRelation,
}

/// The agent under attack.
const AGENT: usize = 0;

impl<'a> Audited<'a> {
    /// `None` if nothing is claimed.
    fn new(experiment: &'a Experiment, planned: &'a Planned, locals: &'a [LocalObjective]) -> Option<Self> {
        let privacy = experiment.spec.privacy?;
        let graph = experiment.graphs.first()?;
        let (records, degree) = (locals[AGENT].records().len(), graph.degree(AGENT));
        let Account { noise, ledger, price, steps, hidden_by, .. } =
            planned.budget.account(records, degree)?;
        let own = || noise.iter().map(RoundNoise::noise).collect();
        let hidden_by: Vec<Noise> = if hidden_by.is_empty() { own() } else { hidden_by.to_vec() };
        let facts = PublicFacts { rounds: planned.timetable.rounds, private: true, ..experiment.facts };
        let claim = &price.as_ref()?.claim;
        let claimed = Claimed {
            // What stops at the budget never costs more than it.
            epsilon: privacy.epsilon.map_or(claim.epsilon, |budget| claim.epsilon.min(budget)),
            delta: claim.delta,
            mu: (privacy.accounting == Accounting::Schedule)
                .then(|| total_mu(steps, &hidden_by, ledger))
                .flatten(),
        };
        Some(Self {
            experiment,
            planned,
            locals,
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
                let stages = Stages::new(self);
                audit(|trial| stages.play(trial), self.claimed, options)
            }
            AuditTarget::Agent => {
                let attack = self.agent();
                audit(|trial| attack.play(trial), self.claimed, options)
            }
            AuditTarget::Experiment => {
                let whole = Whole::new(self);
                audit(|trial| whole.play(trial), self.claimed, options)
            }
        }
    }

    fn dearest_round(&self) -> (ReleaseAttack, Claimed) {
        let shift = |(s, n): (&Sensitivity, &RoundNoise)| match n.noise() {
            Noise::Laplace { .. } => s.l1,
            Noise::Gaussian { .. } => s.l2,
        };
        let rounds = self.steps.iter().zip(&*self.noise);
        let cost = |&(s, n): &(&Sensitivity, &RoundNoise)| shift((s, n)) / n.noise().scale();
        let dearest = rounds.max_by(|a, b| cost(a).total_cmp(&cost(b))).expect("an account has rounds");
        let claimed = match dearest.1.noise() {
            Noise::Laplace { .. } => Claimed::pure(cost(&dearest).next_up()),
            Noise::Gaussian { .. } => Claimed::gaussian(cost(&dearest).next_up(), self.claimed.delta),
        };
        (ReleaseAttack { noise: *dearest.1, shift: shift(dearest), width: 0.0 }, claimed)
    }

    /// Neighbours that send numbers of every size and sign, to the agent with one record or without it: it must take and refuse the same messages, and stop or go
    /// on alike.
    fn silence(&self, seed: u64) -> Silence {
        const TRIES: u32 = 48;
        const ROUNDS: u32 = 3;
        const SIZES: [f64; 8] = [f64::MAX, 1e300, 1e160, 1e13, LARGEST_RECEIVED, 1e9, 1e6, 1.0];
        let degree = self.graph.degree(AGENT);
        // Scouted columns have records of another kind, and steps that are clipped to a length whatever is received.
        if self.planned.sharing.is_some() || self.planned.protocol.shares().is_some() || degree == 0 {
            return Silence::default();
        }
        let edges: Vec<(u32, u32)> = (1..=degree as u32).map(|j| (0, j)).collect();
        let Ok(graph) = Graph::from_edges(degree + 1, &edges) else { return Silence::default() };
        let mixing = Mixing::metropolis(&graph);
        let counts = vec![self.locals[AGENT].records().len(); degree + 1];
        let whole = Whole::new(self);
        let behaviour = |local: &LocalObjective, k: u32| {
            let noise = Seed::from(seed).for_run(u64::from(k));
            let local = local.clone();
            let player =
                player(self.experiment, self.planned, (AGENT, &graph, &counts), local, &noise, false);
            let mut agent = Agent::new(0, &graph, &mixing, player);
            let dim = agent.player().width();
            let mut seen = Vec::new();
            while let Some(effect) = agent.poll() {
                let Effect::Send(message) = effect else { continue };
                seen.push((message.round(), 0, agent.player().stopped().is_some()));
                if message.round() > ROUNDS {
                    break;
                }
                for j in 1..=degree as u32 {
                    let place = u64::from(k) << 32 | u64::from(message.round());
                    let mut stream = Seed::from(seed).stream(Purpose::Public, u64::from(j), place);
                    let size = SIZES[(k as usize + j as usize) % SIZES.len()];
                    let signs = [-1.0, 0.0, 1.0, 1.0];
                    let values: Vec<f64> =
                        (0..dim).map(|_| size * signs[stream.random_range(0..signs.len())]).collect();
                    let taken = agent.handle(&Message::received(j, message.round(), values)).is_ok();
                    seen.push((message.round(), j, taken));
                    if !taken {
                        let zeros = vec![0.0; dim];
                        let _ = agent.handle(&Message::received(j, message.round(), zeros));
                    }
                }
            }
            seen
        };
        let differs = |k: &u32| behaviour(&whole.first[0], *k) != behaviour(&whole.first[2], *k);
        Silence { tried: TRIES, told_apart: (0..TRIES).filter(differs).count() as u32 }
    }

    fn agent(&self) -> AgentAttack {
        let local = &self.locals[AGENT];
        AgentAttack::new(
            self.experiment.objective,
            &self.experiment.row_bounds(),
            self.neighbours,
            Arc::clone(&self.planned.protocol),
            Arc::clone(&self.planned.timetable),
            Arc::clone(&self.noise),
            self.ledger.clone(),
            &self.facts,
            &Seated {
                records: local.records().len(),
                features: local.records().dim(),
                own_weight: self.mixing.own(AGENT),
                weights: self.mixing.neighbours(AGENT).to_vec(),
            },
        )
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

/// All stages of an experiment that scouts its columns. One record of the first agent lies at one end of every column or at the
/// other; the adversary knows all other records and takes the exact likelihood ratio of every release.
struct Stages<'a> {
    audited: &'a Audited<'a>,
    sides: [LocalObjective; 2],
    counts: Vec<usize>,
}

impl<'a> Stages<'a> {
    fn new(audited: &'a Audited<'a>) -> Self {
        let (local, experiment) = (&audited.locals[AGENT], audited.experiment);
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
            experiment.objective_on(records)
        };
        let last: Vec<f64> = layout.columns().iter().map(end).collect();
        let sides = [with(vec![0.0; last.len()], label), with(last, label)];
        Self { audited, sides, counts: audited.locals.iter().map(|l| l.records().len()).collect() }
    }

    fn play(&self, trial: &Trial) -> f64 {
        let Audited { experiment, planned, graph, mixing, locals, hidden_by, .. } = self.audited;
        let sides = [self.sides[0].apart(), self.sides[1].apart()];
        let players = locals.iter().enumerate().map(|(i, local)| {
            let side = usize::from(trial.side == Side::Second);
            let local = if i == AGENT { sides[side].apart() } else { local.apart() };
            player(experiment, planned, (i, graph, &self.counts), local, &trial.seed, false)
        });
        let mut network = Lockstep::new(players.collect(), Arc::clone(graph), Arc::clone(mixing));
        let protocol = planned
            .protocol
            .seated(AGENT, graph, &self.counts)
            .unwrap_or_else(|| Arc::clone(&planned.protocol));
        let (dim, mut ratio, mut work) = (network.dim(), 0.0, Workspace::default());
        for round in 0..planned.timetable.rounds {
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
            let view = View::new(network.rows(), dim, AGENT as u32, neighbours, 0, weights, round);
            // What it remembers is a function of releases, so the adversary has it too.
            let memory = network.players()[AGENT].memory();
            let (public, private) = memory.split_at(protocol.memory() * dim);
            let active = protocol.active(round + 1, dim).unwrap_or_else(|| (0..dim as u32).collect());
            let mut steps = [vec![0.0; active.len()], vec![0.0; active.len()]];
            for (step, local) in steps.iter_mut().zip(&sides) {
                let memory = Memory { public, private: &mut private.to_vec() };
                protocol.step(&view, memory, &[], local, &mut work, step);
            }
            let seen = active.iter().map(|&l| network.rows()[l as usize]);
            for ((x, a), b) in seen.zip(&steps[0]).zip(&steps[1]) {
                ratio += (a - b) * (2.0 * x - a - b) / (2.0 * sigma * sigma);
            }
        }
        ratio
    }
}

/// The whole experiment, one record of the first agent being the adversary's.
struct Whole<'a> {
    audited: &'a Audited<'a>,
    pair: WorstPair,
    /// The first agent's objective on either side, and with a row of zeros instead of the record.
    first: [LocalObjective; 3],
    /// Factor from gradient to step, by round.
    gains: Vec<f64>,
}

impl<'a> Whole<'a> {
    fn new(audited: &'a Audited<'a>) -> Self {
        let local = &audited.locals[AGENT];
        let bounds = audited.experiment.row_bounds();
        let features = local.records().dim();
        let pair = WorstPair::new(local.objective().loss, &bounds, features, Spread::L2, audited.neighbours);
        let with = |(row, label): (Vec<f64>, f64)| {
            let all = local.records();
            let mut records: Records = all.select(&(1..all.len()).collect::<Vec<_>>());
            records.push(&row, label);
            LocalObjective::new(*local.objective(), records)
        };
        let zero = (vec![0.0; features], pair.record(Side::First).1);
        // Where a record is removed, the second data set is the real others alone.
        let second = match audited.neighbours {
            NeighbourRelation::AddRemove => {
                let all = local.records();
                LocalObjective::new(*local.objective(), all.select(&(1..all.len()).collect::<Vec<_>>()))
            }
            _ => with(pair.record(Side::Second)),
        };
        let first = [with(pair.record(Side::First)), second, with(zero)];
        let unit = Sensitivity { l1: 1.0, l2: 1.0, linf: 1.0 };
        // Honest models stay near the origin, where a logistic slope is a half.
        let loss = local.objective().loss;
        let slope = loss.largest_slope().map_or(1.0, |slope| slope.min(0.5) * loss.heaviest());
        let degree = audited.graph.degree(AGENT);
        let step = |k| audited.planned.protocol.step_sensitivity(k, degree, &unit, &audited.facts).l2;
        let mut gains: Vec<f64> = (1..=audited.facts.rounds).map(|k| slope * step(k)).collect();
        if audited.planned.protocol.charges_ahead() {
            // A round that another one was charged for moves as far.
            let largest = gains.iter().copied().fold(0.0, f64::max);
            gains.fill(largest);
        }
        Self { audited, pair, first, gains }
    }

    fn play(&self, trial: &Trial) -> f64 {
        let Audited { planned, graph, mixing, locals, hidden_by, .. } = self.audited;
        // Colluders, the last agents, know their own part of the noise: they add none.
        let honest = planned.budget.together.map_or(locals.len(), |together| together.honest());
        let players = locals.iter().enumerate().map(|(i, local)| {
            let side = usize::from(trial.side == Side::Second);
            let local = if i == AGENT { self.first[side].clone() } else { local.clone() };
            let gate = if i < honest {
                planned.budget.gate(i, locals[i].records().len(), graph.degree(i), &trial.seed, false)
            } else {
                Gate::open(i as u64, trial.seed.clone())
            };
            Player::new(local, Arc::clone(&planned.protocol), Arc::clone(&planned.timetable), gate)
        });
        let mut network = Lockstep::new(players.collect(), Arc::clone(graph), Arc::clone(mixing));
        if let Some(code) = planned.sharing {
            network = network.secret_shared(code).expect("planned for this graph");
        }
        let without = &self.first[2];
        let mut watch = Watch::new(&*planned.protocol, &self.pair, without, without.records().len());
        let dim = network.dim();
        for round in 0..planned.timetable.rounds {
            let rows = network.rows().to_vec();
            network.advance();
            if network.players()[AGENT].stopped().is_some() || network.failure().is_some() {
                break;
            }
            let seat = Seat {
                rows: &rows,
                me: AGENT as u32,
                neighbours: graph.neighbours(AGENT),
                place: 0,
                weights: Weights { own: mixing.own(AGENT), neighbours: mixing.neighbours(AGENT) },
                round,
                common: None,
            };
            let mut seen = network.rows()[..dim].to_vec();
            if planned.sharing.is_some() {
                self.subtract_others(&seat, &mut seen);
            }
            let k = round as usize;
            watch.see(&seat, self.gains[k], hidden_by.get(k).copied(), &seen);
        }
        watch.ratio()
    }

    /// Turns the revealed mean into N times it less what all agents but the first put into it: the adversary knows their records.
    fn subtract_others(&self, seat: &Seat<'_>, seen: &mut [f64]) {
        let Audited { planned, locals, .. } = self.audited;
        let (protocol, dim) = (&*planned.protocol, seen.len());
        let view = View::new(seat.rows, dim, seat.me, seat.neighbours, seat.place, seat.weights, seat.round)
            .with_regularization(self.first[2].objective().regularization);
        let (mut low, mut high, mut step) = (vec![0.0; dim], vec![0.0; dim], vec![0.0; dim]);
        protocol.interval(&view, &[], &mut low, &mut high);
        seen.iter_mut().for_each(|x| *x *= locals.len() as f64);
        for local in &locals[1..] {
            protocol.step(&view, Memory::default(), &low, local, &mut Workspace::default(), &mut step);
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
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        Experiment::check(Inputs { file: "small".into(), text, spec, source, edges: None, entropy: None })
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

    /// Coordinates that take turns: an epoch is charged as one gradient. Were its rounds not to share that charge, μ would come out √c times too small, and
    /// an attack on the real run would find it.
    #[test]
    fn coordinate_descent_is_audited_as_it_runs() {
        let budget = BUDGET.replace("2.0", "8.0");
        let one = experiment(&budget, "kind = \"rcd\"\nepochs = 10\nstep = 1.0\norder = \"random\"");
        let found = audited(&one, AuditTarget::Experiment, 3_000);
        assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
        let mu = found.mu_claimed.expect("Gaussian noise");
        // Slopes are a half near the origin, and the busiest coordinate alone pays in full.
        assert!(found.mu_lower > 0.1 * mu, "{found:?}");
        let refused = one.audit(AuditTarget::Agent, Options::default()).unwrap_err();
        assert!(refused.contains("--target experiment"), "{refused}");
        assert_eq!(audited(&one, AuditTarget::Mechanism, 10_000).verdict, Verdict::Consistent);
    }

    /// Half of the agents collude and know their own noise: what is left hides a record as claimed. An audit that leaves them their noise would be blind to
    /// a claim that counts it.
    #[test]
    fn noise_that_agents_add_together_is_audited_against_colluders() {
        let budget = BUDGET.replace("2.0", "8.0");
        let shared =
            "kind = \"gd\"\naggregation = \"fixed\"\nrounds = 15\nstep = 1.0\nexchange = \"secret-shared\"";
        let one = experiment(&budget, shared);
        let found = audited(&one, AuditTarget::Experiment, 3_000);
        assert_eq!(found.verdict, Verdict::Consistent, "{found:?}");
        // Near the origin slopes are a half, and under this budget they are clipped there: the attack is as strong as the claim allows.
        let mu = found.mu_claimed.expect("Gaussian noise");
        assert!(found.mu_lower > 0.4 * mu, "{found:?}");
        assert!(
            one.audit(AuditTarget::Agent, Options::default()).unwrap_err().contains("--target experiment")
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

    #[test]
    fn nothing_claimed_is_nothing_audited() {
        let experiment = experiment("", "kind = \"dgd\"\nrounds = 5");
        let found = experiment.audit(AuditTarget::Agent, Options::default()).unwrap();
        assert!(found[0].audit.is_none());
    }
}
