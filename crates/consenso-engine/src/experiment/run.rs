//! Running a checked experiment.

use super::check::{Experiment, Source};
use super::error::{CallerError, RunError};
use super::personal;
use super::pieces::{
    Content, Outcome, Part, Piece, Place, RecordsDigest, RunReferences, Share, StoredMetrics, Tuned,
};
use super::planned::Planned;
use super::pool::{self, Board, Demand, Machine, Outlook, TaskCost};
use super::scouted::StandardisedView;
use super::unfinished::Unfinished;
use super::{reference, shared, sweep};
use crate::agent::Player;
use crate::data::Records;
use crate::gate::Gate;
use crate::graph::{Graph, Mixing};
use crate::kernel;
use crate::model::Metrics;
use crate::privacy::Claim;
use crate::problem::solve::{self, Minimiser};
use crate::problem::{self, LocalObjective, Loss, Workspace, coupled};
use crate::protocol::Parameters;
use crate::random::Seed;
use crate::record::{
    AcrossRuns, AlgorithmRecord, Baselines, CurvePoint, EpsilonRecord, PersonalRecord,
    ProblemRecord, PublishedRecord, Record, Spread, TraceRow, TrafficRecord, ZeroModel,
};
use crate::sharing::ShareError;
use crate::simulate::{DropOut, Lockstep, LossyLinks};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Who watches a run: a progress bar, a clock, a Ctrl-C handler. The library has none of these
/// itself.
pub trait Observer: Sync {
    /// Something is begun: the references of a run, or one algorithm in it. Several are under way
    /// at a time, on threads of their own.
    fn stage(&self, _name: &str, _exchanges: u64) {}
    /// So many exchanges were made since the last call.
    fn advanced(&self, _exchanges: u64) {}
    /// Returns the seconds since any fixed moment, if somebody counts.
    fn seconds(&self) -> f64 {
        0.0
    }
    /// A transcript is about to be made: the noise of one run of one algorithm will be drawn.
    ///
    /// # Errors
    /// Whatever it returns ends the run, as [`RunError::Caller`].
    fn begins(&self, _place: Place) -> Result<(), CallerError> {
        Ok(())
    }
    /// Whether to write down how far a transcript has come, after this round of it; `last` is the
    /// last round that uses records.
    fn keeps(&self, _place: Place, _round: u32, _last: bool) -> bool {
        false
    }
    /// How far a transcript has come: asked for by [`Self::keeps`], or because the run was
    /// cancelled.
    ///
    /// # Errors
    /// Whatever it returns ends the run, as [`RunError::Caller`].
    fn reached(&self, _so_far: &Unfinished, _last: bool) -> Result<(), CallerError> {
        Ok(())
    }
    /// A piece is finished; whoever keeps it can go on from there after a crash (see
    /// [`Job::done`]).
    ///
    /// # Errors
    /// Whatever it returns ends the run, as [`RunError::Caller`].
    fn finished(&self, _piece: &Piece) -> Result<(), CallerError> {
        Ok(())
    }
    /// Whether to stop as soon as possible and keep what is done.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// One repetition: its shards, and what they could give at best.
pub(super) struct Instance {
    pub(super) run: u32,
    pub(super) locals: Vec<LocalObjective>,
    optimum: Minimiser,
    /// λ* of a linear constraint.
    multiplier: Vec<f64>,
    /// The objective of the optimum at zero.
    zero_objective: f64,
    local_only_accuracy: Option<f64>,
    /// What columns look like without noise, where they are scouted.
    reference: Option<Vec<f64>>,
}

impl Instance {
    /// Test records as the optimum sees them.
    fn test<'a>(&self, experiment: &'a Experiment) -> Option<std::borrow::Cow<'a, Records>> {
        let test = experiment.test_records(self.run)?;
        match &self.reference {
            Some(standard) => experiment.under(standard, &test).map(std::borrow::Cow::Owned),
            None => Some(test),
        }
    }
}

/// How often a long run looks whether it was cancelled.
const CHECK_EVERY: u32 = 8;

/// What a run leaves behind: the record of what happened, and the models it trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Metrics, curves and claims: means over all runs.
    pub record: Record,
    /// The models of every algorithm in [`Record::algorithms`], in the same order.
    pub models: Vec<Trained>,
}

/// What one algorithm trained, in the first of its runs: runs have other shards and other noise, so
/// their models are not averaged.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// The algorithm's name in tables and figures.
    pub label: String,
    /// The final model of every agent, in order.
    pub agents: Vec<Vec<f64>>,
    /// Their mean. Where a linear constraint ties variables of each agent's own, it has no meaning.
    pub mean: Vec<f64>,
}

/// What of an experiment to run, and where.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The machine it runs on.
    pub machine: Machine,
    /// One share of the experiment instead of all of it.
    pub share: Option<Share>,
    /// Pieces that exist already, from an earlier run of the same experiment: they are not made
    /// again. Whoever hands them in has compared their stamps.
    pub done: Vec<Piece>,
    /// How far others have come: they are gone on with. Whoever hands them in has asked
    /// [`Experiment::continues`].
    pub unfinished: Vec<Unfinished>,
    /// What [`Experiment::records_digest`] gave, where pieces are to be kept; without it they carry
    /// no stamp.
    pub records: Option<RecordsDigest>,
}

/// Runs everything; a cancelled run gives what was finished.
///
/// # Errors
/// [`RunError`], for example when records cannot be divided as asked in a later run.
pub fn run(experiment: &Experiment, observer: &dyn Observer) -> Result<Finished, RunError> {
    let (pieces, cancelled) = run_pieces(experiment, Job::default(), observer)?;
    Ok(put_together(experiment, pieces, cancelled))
}

/// Makes the pieces of a job that are not done yet, side by side on all threads, and returns them
/// with those that were; and whether the observer cancelled it before the end.
///
/// # Errors
/// [`RunError`] when records cannot be divided as asked in a later run, when memory does not
/// suffice, or when the observer fails.
pub fn run_pieces(
    experiment: &Experiment,
    job: Job,
    observer: &dyn Observer,
) -> Result<(Vec<Piece>, bool), RunError> {
    let Job { machine, share, done, unfinished, records } = job;
    let outlook = experiment.outlook(&machine, share);
    if let Some(memory) = machine.memory.filter(|&memory| outlook.least > memory) {
        return Err(RunError::Memory { needed: outlook.least, free: memory });
    }
    let all = Mutex::new(BTreeMap::<Place, Piece>::new());
    let mut tasks = tasks(experiment, share, &done);
    for piece in done {
        all.lock().unwrap_or_else(PoisonError::into_inner).insert(piece.place, piece);
    }
    let made = |place: Place, began: f64, content: Content| -> Result<(), RunError> {
        let stamp = records.as_ref().and_then(|r| experiment.stamp(r, place)).unwrap_or_default();
        let piece = Piece { place, stamp, seconds: observer.seconds() - began, content };
        observer.finished(&piece).map_err(RunError::Caller)?;
        all.lock().unwrap_or_else(PoisonError::into_inner).insert(place, piece);
        Ok(())
    };
    let references =
        tasks.iter().position(|t| matches!(t, Task::Reference)).map(|at| tasks.remove(at));
    let board: Board<Task, RunError> =
        Board::new(outlook.side_by_side, references.into_iter().collect(), tasks);
    board.work(
        || observer.cancelled(),
        |task| {
            let began = observer.seconds();
            match task {
                Task::Reference => {
                    observer.stage("tuned reference without privacy", 0);
                    let found = reference::reference(experiment)?;
                    let place = Place { point: 0, run: 0, part: Part::Reference };
                    made(place, began, Content::Reference(found.as_ref().map(Tuned::of)))?;
                    Ok(Vec::new())
                }
                Task::Build { point, run, references, algorithms } => {
                    observer.stage("shards and reference optimum", 0);
                    let Some(here) = experiment.at_point(point) else { return Ok(Vec::new()) };
                    let instance = Arc::new(instance(here, run)?);
                    if references {
                        let place = Place { point, run, part: Part::RunReferences };
                        made(
                            place,
                            began,
                            Content::RunReferences(self::references(here, &instance)),
                        )?;
                    }
                    let play = |&algorithm: &u32| Task::Play {
                        point,
                        algorithm,
                        instance: Arc::clone(&instance),
                    };
                    Ok(algorithms.iter().map(play).collect())
                }
                Task::Play { point, algorithm, instance } => {
                    let Some(here) = experiment.at_point(point) else { return Ok(Vec::new()) };
                    let planned = &here.planned[algorithm as usize];
                    observer.stage(&planned.label, u64::from(planned.timetable.exchanges()));
                    let place =
                        Place { point, run: instance.run, part: Part::Algorithm(algorithm) };
                    observer.begins(place).map_err(RunError::Caller)?;
                    let from = unfinished.iter().find(|u| u.place == place);
                    let began = began - from.map_or(0.0, |u| u.seconds);
                    // Without a digest of the records nobody could go on from anywhere.
                    let keep = |round: u32, network: &Lockstep, trace: &[TraceRow], last: bool| {
                        let stamp =
                            records.as_ref().and_then(|r| experiment.stamp_after(r, place, round));
                        let Some(stamp) = stamp else { return Ok(()) };
                        let seconds = observer.seconds() - began;
                        let (network, trace, release_bound) =
                            (network.state(), trace.to_vec(), planned.release_bound);
                        observer.reached(
                            &Unfinished { place, stamp, seconds, trace, release_bound, network },
                            last,
                        )
                    };
                    if let Some(outcome) =
                        one_run(here, planned, &instance, observer, (place, from), keep)?
                    {
                        made(place, began, Content::Outcome(outcome))?;
                    }
                    Ok(Vec::new())
                }
            }
        },
    )?;
    let pieces = all.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect();
    Ok((pieces, observer.cancelled()))
}

/// Something a thread can do.
enum Task {
    /// The tuned model without privacy.
    Reference,
    /// The shards and references of a run; then its algorithms can go.
    Build { point: u32, run: u32, references: bool, algorithms: Vec<u32> },
    /// One algorithm on the shards of a run.
    Play { point: u32, algorithm: u32, instance: Arc<Instance> },
}

/// What is left to do, in order.
fn tasks(experiment: &Experiment, share: Option<Share>, done: &[Piece]) -> Vec<Task> {
    let done: std::collections::BTreeSet<Place> = done.iter().map(|p| p.place).collect();
    let mut tasks: Vec<Task> = Vec::new();
    for place @ Place { point, run, part } in experiment.places(share) {
        if done.contains(&place) {
            continue;
        }
        if part == Part::Reference {
            tasks.push(Task::Reference);
            continue;
        }
        let same = |task: &&mut Task| matches!(task, Task::Build { point: p, run: r, .. } if (*p, *r) == (point, run));
        if tasks.last_mut().filter(same).is_none() {
            tasks.push(Task::Build { point, run, references: false, algorithms: Vec::new() });
        }
        if let Some(Task::Build { references, algorithms, .. }) = tasks.last_mut() {
            match part {
                Part::Algorithm(algorithm) => algorithms.push(algorithm),
                _ => *references = true,
            }
        }
    }
    tasks
}

impl Experiment {
    /// Tells how much memory a run will take and how many of its pieces go side by side, before it
    /// starts.
    #[must_use]
    pub fn outlook(&self, machine: &Machine, share: Option<Share>) -> Outlook {
        let demands = std::iter::once(self).chain(&self.points).map(Self::demand);
        // The largest point of a sweep is the one that must fit.
        let largest = demands.max_by_key(|d| d.records + d.state).unwrap_or_default();
        let pieces =
            self.places(share).iter().filter(|p| matches!(p.part, Part::Algorithm(_))).count();
        pool::outlook(machine, pieces, &largest)
    }

    /// Estimates the bytes of memory that each of so many processes takes for
    /// [`run_streamed`](super::run_streamed), where no agent is held.
    #[must_use]
    pub fn streamed_memory(&self, ranks: usize, checkpoints: bool) -> u64 {
        let (agents, dim) = (self.facts.agents as u64, self.facts.dim as u64);
        let vectors = self.planned.iter().map(|p| {
            let tail = u64::from(p.timetable.tail_from < p.timetable.rounds);
            (p.protocol.memory() + p.protocol.private_memory()) as u64
                * p.protocol.width(dim as usize) as u64
                + tail * dim
        });
        let ends = self.graphs.iter().map(|g| 2 * g.edges() as u64).max().unwrap_or(0);
        // What an agent must not forget; two rows, and a copy of one for a point of the curve; its
        // place among its neighbours.
        let kept = vectors.max().unwrap_or(0) * 8 + 2 * dim * 8 + 170;
        let each = kept + if checkpoints { kept } else { dim * 8 };
        // Graph and weights are everywhere.
        agents.div_ceil(ranks.max(1) as u64) * each
            + agents * 40
            + ends * 16
            + self.streamed_records()
    }

    /// What one run of these settings asks of a machine.
    fn demand(&self) -> Demand {
        let (agents, dim) = (self.facts.agents as u64, self.facts.dim as u64);
        let rows: u64 = self.counts.iter().map(|&c| c as u64).sum();
        let (stored, sparse) = match &*self.source {
            Source::Costs => (dim, false),
            Source::Synthetic(p) => (p.nonzeros.unwrap_or(p.dim) as u64, p.nonzeros.is_some()),
            Source::Data(data) => {
                let stored = data.train.stored() as u64;
                (
                    stored.div_ceil(data.train.len().max(1) as u64),
                    stored < data.train.len() as u64 * dim,
                )
            }
        };
        // A number and, where rows are sparse, its column; and a label.
        let records = rows * (stored * if sparse { 12 } else { 8 } + 8);
        let vectors = self
            .planned
            .iter()
            .map(|p| (p.protocol.memory() + p.protocol.private_memory()) as u64 + 9)
            .max()
            .unwrap_or(9);
        Demand {
            // Rows whose columns are scouted are there as they were read and divided, and
            // standardised, with their lengths and slopes, for agents and for all to see.
            records: if self.layout.is_some() { 4 * records + 16 * rows } else { records },
            state: agents * (vectors * dim * 8 + 1024),
            round: agents * 100 * dim + 2 * rows * stored,
            algorithms: self.planned.len() as u64,
        }
    }

    /// Estimates the cost of every task of a run, in multiply-adds, for the model of the schedule
    /// ([`makespan`](super::makespan)).
    #[must_use]
    pub fn task_costs(&self) -> Vec<TaskCost> {
        let mut tasks = Vec::new();
        for (point, run) in self.units(None) {
            let Some(here) = self.at_point(point) else { continue };
            let Demand { round, .. } = here.demand();
            if (point, run) == (0, 0) && self.has_reference() {
                // Nine solutions by Newton's method, some twenty passes over all records each; one
                // thread.
                tasks.push(TaskCost { cost: 180.0 * round as f64, shares: 1, after: None });
            }
            let shares = here.facts.agents;
            // The optimum and, in three runs, what every agent reaches alone: some thirty passes
            // each.
            let passes = if run < 3 { 60.0 } else { 30.0 };
            let build = tasks.len();
            tasks.push(TaskCost { cost: passes * round as f64, shares, after: None });
            for planned in &here.planned {
                let rounds = f64::from(planned.timetable.exchanges());
                // A point of a curve costs about half a round.
                let points = rounds / f64::from(here.trace_every);
                let cost = (rounds + 0.5 * points) * round as f64;
                tasks.push(TaskCost { cost, shares, after: Some(build) });
            }
        }
        tasks
    }
}

/// The record and the models of an experiment, from its pieces: whoever made them, and in whatever
/// order. Where some are missing, it is the record of what is there.
#[must_use]
pub fn put_together(experiment: &Experiment, pieces: Vec<Piece>, interrupted: bool) -> Finished {
    let mut pieces: BTreeMap<Place, Piece> = pieces.into_iter().map(|p| (p.place, p)).collect();
    let reference = pieces.remove(&Place { point: 0, run: 0, part: Part::Reference });
    let mut finished = put_point_together(experiment, 0, &mut pieces, interrupted);
    if let Some(Piece { content: Content::Reference(tuned), .. }) = reference {
        finished.record.baselines.reference =
            tuned.map(|t| reference::named(t.regularization, t.metrics.0));
    }
    if let Some(sweep_of) = &experiment.spec.sweep {
        let varies_dim = !sweep_of.dim.is_empty();
        let mut points = vec![sweep::point(experiment, finished.record.clone())];
        for (number, other) in (1..).zip(&experiment.points) {
            let record = put_point_together(other, number, &mut pieces, interrupted).record;
            // A point that was cut short would say something else than the others.
            let whole =
                record.runs == other.spec.runs && record.algorithms.len() == other.planned.len();
            if whole {
                points.push(sweep::point(other, record));
            }
        }
        finished.record.sweep = sweep::in_order(points, varies_dim);
    }
    finished
}

/// One setting, without its sweep.
fn put_point_together(
    experiment: &Experiment,
    point: u32,
    pieces: &mut BTreeMap<Place, Piece>,
    interrupted: bool,
) -> Finished {
    let runs = experiment.spec.runs;
    let mut take = |run: u32, part: Part| pieces.remove(&Place { point, run, part });
    let references: Vec<RunReferences> = (0..runs)
        .filter_map(|run| match take(run, Part::RunReferences)?.content {
            Content::RunReferences(references) => Some(references),
            _ => None,
        })
        .collect();
    let baselines = baselines(&references, experiment.objective.loss);
    let (mut algorithms, mut models) = (Vec::new(), Vec::new());
    let mut finished = references.len() as u32;
    for (index, planned) in experiment.planned.iter().enumerate() {
        let (mut outcomes, mut seconds) = (Vec::new(), 0.0);
        for run in 0..runs {
            let Some(piece) = take(run, Part::Algorithm(index as u32)) else { continue };
            if let Content::Outcome(outcome) = piece.content {
                outcomes.push(outcome);
                seconds += piece.seconds;
            }
        }
        let Some(first) = outcomes.iter_mut().find(|o| !o.models.is_empty()) else { continue };
        let agents = std::mem::take(&mut first.models);
        let mean = mean_row(agents.iter().map(Vec::as_slice), experiment.facts.dim);
        models.push(Trained { label: planned.label.clone(), agents, mean });
        finished = finished.min(outcomes.len() as u32);
        let mut record = summarise(experiment, planned, outcomes, seconds);
        record.certified = references.first().and_then(|g| g.certified.get(index)?.clone());
        record.findings = findings(experiment, &record, &baselines);
        record.estimates = models.last().and_then(|trained| experiment.estimates(trained));
        algorithms.push(record);
    }
    let record = Record {
        kind: experiment.result_kind(),
        total_epsilon: experiment.total_epsilon(),
        processes: None,
        map: experiment.page_map(),
        name: experiment.spec.name.clone(),
        seed: experiment.spec.seed,
        runs: if algorithms.is_empty() { 0 } else { finished },
        runs_asked: runs,
        interrupted,
        version: env!("CARGO_PKG_VERSION").into(),
        problem: problem_record(experiment),
        algorithms,
        baselines,
        sweep: Vec::new(),
        warnings: experiment.warnings().to_vec(),
        resolved: experiment.resolved(),
    };
    Finished { record, models }
}

fn instance(experiment: &Experiment, run: u32) -> Result<Instance, RunError> {
    let locals = experiment.locals(run)?;
    let constraint = &experiment.spec.objective.constraint;
    if !experiment.with_references {
        let x = vec![f64::NAN; experiment.facts.dim];
        let optimum = Minimiser { x, value: f64::NAN, residual: f64::NAN, steps: 0 };
        return Ok(Instance {
            run,
            locals,
            optimum,
            multiplier: Vec::new(),
            zero_objective: f64::NAN,
            local_only_accuracy: None,
            reference: None,
        });
    }
    if let Some(coupled) = &experiment.coupled {
        let found = coupled::coupled_optimum(&locals, &coupled.coupling)?;
        let optimum =
            Minimiser { x: found.x, value: found.value, residual: found.residual, steps: 0 };
        let zero = vec![0.0; experiment.facts.dim];
        return Ok(Instance {
            run,
            zero_objective: solve::mean_value(&locals, &zero),
            locals,
            optimum,
            multiplier: found.dual,
            local_only_accuracy: None,
            reference: None,
        });
    }
    // All records once more, where columns are scouted; they are needed for this alone.
    let (reference, pooled) = experiment.reference(&locals).unzip();
    let all = pooled.as_ref().map_or(&locals[..], std::slice::from_ref);
    let optimum = solve::central_optimum(all, constraint, None);
    let zero_objective = solve::mean_value(all, &vec![0.0; optimum.x.len()]);
    drop(pooled);
    // Training alone is the same experiment with one agent; three runs of it say enough.
    let test = if run < 3 { experiment.test_records(run) } else { None };
    let test = test.and_then(|test| match &reference {
        Some(standard) => experiment.under(standard, &test).map(std::borrow::Cow::Owned),
        None => Some(test),
    });
    let local_only_accuracy = test.and_then(|test| {
        let alone = |local: &LocalObjective| {
            let encoded = reference.as_ref().and_then(|r| experiment.alone(r, local));
            let local = encoded.as_ref().unwrap_or(local);
            let own =
                solve::central_optimum(std::slice::from_ref(local), constraint, Some(&optimum.x));
            problem::accuracy_above(&experiment.objective.loss, &test, &own.x, experiment.threshold)
        };
        // A sample of agents bounds the work of a large network.
        let sample = locals.len().div_ceil(20);
        let each: Vec<f64> = locals.par_iter().step_by(sample).filter_map(alone).collect();
        Spread::of(each).map(|s| s.mean)
    });
    Ok(Instance {
        run,
        locals,
        optimum,
        multiplier: Vec::new(),
        zero_objective,
        local_only_accuracy,
        reference,
    })
}

fn one_run(
    experiment: &Experiment,
    planned: &Planned,
    instance: &Instance,
    observer: &dyn Observer,
    (place, from): (Place, Option<&Unfinished>),
    keep: impl Fn(u32, &Lockstep, &[TraceRow], bool) -> Result<(), CallerError>,
) -> Result<Option<Outcome>, RunError> {
    let mut network = network(experiment, planned, instance)?;
    let test = experiment.test_records(instance.run).filter(|_| experiment.with_references);
    let mut view = StandardisedView::default();
    let mut trace = Vec::new();
    if let Some(from) = from {
        let label = || planned.label.clone();
        network
            .resume(&from.network)
            .map_err(|cause| RunError::Resume { label: label(), cause })?;
        trace = experiment.curve_from(planned, instance, from);
        observer.advanced(u64::from(network.round()));
    } else if experiment.with_references {
        trace.push(observe(experiment, planned, instance, &network, test.as_deref(), &mut view));
    }
    let (rounds, exchanges) = (planned.timetable.rounds, planned.timetable.exchanges());
    let mut unreported = 0;
    while network.round() < exchanges {
        network.advance();
        if let Some(failure) = network.failure() {
            return Err(RunError::Sum { label: planned.label.clone(), cause: failure.clone() });
        }
        unreported += 1;
        let round = network.round();
        let due =
            round <= rounds && (round.is_multiple_of(experiment.trace_every) || round == rounds);
        if due && experiment.with_references {
            trace.push(observe(
                experiment,
                planned,
                instance,
                &network,
                test.as_deref(),
                &mut view,
            ));
        }
        let mut cancelled = false;
        if round.is_multiple_of(CHECK_EVERY) || round == exchanges {
            observer.advanced(unreported);
            unreported = 0;
            cancelled = observer.cancelled();
        }
        let last = round == rounds;
        if cancelled || observer.keeps(place, round, last) {
            keep(round, &network, &trace, last).map_err(RunError::Caller)?;
        }
        if cancelled {
            return Ok(None);
        }
    }
    Ok(Some(ended(experiment, planned, instance, network, trace, test.as_deref(), view)))
}

/// The agents of an algorithm at the start of repetition `instance.run`, and the network between
/// them.
fn network(
    experiment: &Experiment,
    planned: &Planned,
    instance: &Instance,
) -> Result<Lockstep, RunError> {
    let seed = experiment.noise_seed(instance.run, planned);
    let graph = &experiment.graphs[instance.run as usize];
    let counts: Vec<usize> = instance.locals.iter().map(|l| l.site_weight().records).collect();
    let players = instance.locals.iter().enumerate().map(|(i, local)| {
        player(experiment, planned, (i, graph, &counts), local.clone(), &seed, true)
    });
    let mut network =
        Lockstep::new(players.collect(), Arc::clone(graph), Arc::new(Mixing::metropolis(graph)));
    if let Some(rows) = experiment.start(instance.run) {
        network.start_from(&rows);
    }
    network = summed(network, planned, &experiment.spec.drop_out)
        .map_err(|cause| RunError::Sum { label: planned.label.clone(), cause })?;
    if let Some(delays) = &experiment.spec.delays {
        network = network.delayed(delays.clone(), &experiment.delay_seed(instance.run));
    }
    Ok(under_conditions(network, experiment, instance.run))
}

/// What came out of a run that has ended, judged if the experiment judges.
fn ended(
    experiment: &Experiment,
    planned: &Planned,
    instance: &Instance,
    mut network: Lockstep,
    trace: Vec<TraceRow>,
    test: Option<&Records>,
    mut view: StandardisedView,
) -> Outcome {
    let models = network.finish();
    let diverged = models.iter().flatten().any(|x| !x.is_finite() || x.abs() > 1e12);
    let stopped = network.players().iter().filter(|p| p.stopped().is_some()).count();
    let mut outcome = Outcome {
        models: Vec::new(),
        trace,
        accuracy: None,
        auc: None,
        metrics: None,
        objective: f64::NAN,
        optimum_gap: f64::NAN,
        log_error: f64::NAN,
        stopped,
        diverged,
        violation: None,
        personal: None,
        sent: traffic(experiment, planned, &network),
    };
    if !experiment.with_references {
        outcome.models = if instance.run == 0 { models } else { Vec::new() };
        return outcome;
    }
    if let Some(model) = models.first() {
        view.open(experiment, planned, &instance.locals, test, model);
    }
    let coefficients: Vec<Vec<f64>> =
        models.iter().map(|m| view.coefficients(planned, m).to_vec()).collect();
    let train = view.train().unwrap_or(&instance.locals);
    let test = view.test().or(test);
    outcome = judge(experiment, train, instance, &coefficients, test, outcome);
    // Scouted sites end with one model, which is judged as it stands in its file: with the label in
    // its own unit.
    if let (Some(_), Some(model)) = (&experiment.layout, models.first()) {
        outcome.metrics = experiment.metrics(instance.run, model).map(StoredMetrics);
        outcome.personal = personal::judge(experiment, planned, instance, model)
            .map(|j| Box::new((j.sites, StoredMetrics(j.shared), StoredMetrics(j.personal))));
    }
    if instance.run == 0 {
        outcome.models = models;
    }
    outcome
}

/// What the simulated network does to messages of repetition `run`.
fn under_conditions(mut network: Lockstep, experiment: &Experiment, run: u32) -> Lockstep {
    let (conditions, seed) = (&experiment.spec.conditions, experiment.delay_seed(run));
    if !conditions.loss.is_never() {
        let graph = Arc::clone(&experiment.graphs[run as usize]);
        network = network.lossy(LossyLinks::new(conditions.loss, graph, &seed));
    }
    if conditions.vary() {
        network = network.varying(conditions.links, conditions.asleep, &seed);
    }
    if let Some(compression) = conditions.compression {
        network = network.compressed(compression, &seed);
    }
    network.over(conditions.link_model().unwrap_or_default())
}

/// What was sent so far, where `[conditions]` asks for it and vectors go over links as they are.
fn traffic(
    experiment: &Experiment,
    planned: &Planned,
    network: &Lockstep,
) -> Option<TrafficRecord> {
    let conditions = &experiment.spec.conditions;
    if conditions.are_perfect() || planned.sharing.is_some() {
        return None;
    }
    let sent = network.sent();
    Some(TrafficRecord {
        messages: sent.messages as f64,
        bytes: sent.bytes as f64,
        seconds: conditions.link_model().map(|_| sent.seconds),
    })
}

/// One agent of one algorithm at the start, among agents with these numbers of records: in a
/// simulation and in a real network alike.
pub(super) fn player(
    experiment: &Experiment,
    planned: &Planned,
    (agent, graph, records): (usize, &Graph, &[usize]),
    local: LocalObjective,
    seed: &Seed,
    simulated: bool,
) -> Player {
    let gate =
        planned.account.gate(agent, local.site_weight(), graph.degree(agent), seed, simulated);
    // Who knows the seed of a simulation, or of a study for science, knows all noise anyway.
    let known = simulated || experiment.is_seeded();
    let gate = match &planned.account.correlated {
        Some(correlated) if known => correlated.equip(gate, agent, graph.neighbours(agent), seed),
        Some(correlated) => correlated.equip_later(gate, agent, graph.neighbours(agent)),
        None => gate,
    };
    player_behind(gate, experiment, planned, (agent, graph, records), local, known.then_some(seed))
}

/// An agent behind a gate that draws its noise: whoever makes a player, an auditor too, makes it
/// here. Masks are made from `edges`, or from secrets that neighbours agree on later.
pub(super) fn player_behind(
    gate: Gate,
    experiment: &Experiment,
    planned: &Planned,
    (agent, graph, records): (usize, &Graph, &[usize]),
    local: LocalObjective,
    edges: Option<&Seed>,
) -> Player {
    let gate = match planned.masking {
        Some(_) => gate.with_masks(shared::masks(agent, graph, edges)),
        None => gate,
    };
    let gate = match &local {
        LocalObjective::Costs(costs) if experiment.coupled.as_ref().is_some_and(|t| t.limited) => {
            gate.with_limits(costs.limits().into())
        }
        _ => gate.with_constraint(experiment.spec.objective.constraint),
    };
    let protocol = planned
        .protocol
        .seated(agent, graph, records)
        .unwrap_or_else(|| Arc::clone(&planned.protocol));
    let gate = match planned.release_bound {
        Some(release_bound) => gate.with_release_bound(release_bound),
        None => gate,
    };
    Player::new(local, protocol, Arc::clone(&planned.timetable), gate)
        .with_mixing(planned.mixing)
        .with_staleness(planned.staleness)
}

/// Switches a simulation to the exchange that was planned.
pub(super) fn summed(
    network: Lockstep,
    planned: &Planned,
    drop_outs: &[DropOut],
) -> Result<Lockstep, ShareError> {
    match (planned.sharing, planned.masking) {
        (None, _) => Ok(network),
        (Some(code), None) => network.secret_shared(code),
        (Some(code), Some(masking)) => network.masked(code, masking.drop_outs, drop_outs.to_vec()),
    }
}

/// How far an objective lies above the optimum. Under columns that were scouted with noise it is
/// measured on another scale than the optimum is, and may come out below it: nothing is left then.
fn gap(experiment: &Experiment, objective: f64, instance: &Instance) -> f64 {
    let gap = objective - instance.optimum.value;
    if experiment.layout.is_some() { gap.max(0.0) } else { gap }
}

/// Most agents whose models are tested one by one; of more, a fixed sample is.
const TESTED_AGENTS: usize = 100;

fn judge(
    experiment: &Experiment,
    locals: &[LocalObjective],
    instance: &Instance,
    models: &[Vec<f64>],
    test: Option<&Records>,
    mut outcome: Outcome,
) -> Outcome {
    let loss = &experiment.objective.loss;
    let dim = models.first().map_or(0, Vec::len);
    outcome.objective = objective(experiment, locals, models.iter().map(Vec::as_slice), dim);
    outcome.violation =
        experiment.coupled.as_ref().map(|t| t.coupling.violation(models.iter().map(Vec::as_slice)));
    outcome.optimum_gap = gap(experiment, outcome.objective, instance);
    outcome.log_error = log_errors(models.iter().map(Vec::as_slice), &instance.optimum.x, dim).mean;
    if let Some(test) = test {
        let sample = models.len().div_ceil(TESTED_AGENTS);
        let sampled: Vec<&Vec<f64>> = models.iter().step_by(sample).collect();
        let accuracies: Vec<f64> = sampled
            .par_iter()
            .filter_map(|x| problem::accuracy_above(loss, test, x, experiment.threshold))
            .collect();
        outcome.accuracy = Spread::of(accuracies);
        // Ranking all test records is the dear part; ten agents tell the mean.
        let few = sampled.len().div_ceil(10);
        let aucs: Vec<f64> =
            sampled.par_iter().step_by(few).filter_map(|x| problem::auc(loss, test, x)).collect();
        outcome.auc = Spread::of(aucs).map(|s| s.mean);
        // Where all agree their mean is one of them, to the last bit: what the model file holds.
        let mean = match models.iter().all(|x| *x == models[0]) {
            true => models[0].clone(),
            false => mean_row(models.iter().map(Vec::as_slice), dim),
        };
        outcome.metrics = match &experiment.layout {
            // Through a standard these are means of what the model file says, which is asked below.
            Some(_) => Metrics::of(loss, test, &mean, experiment.threshold),
            None => experiment.metrics(instance.run, &mean),
        }
        .map(StoredMetrics);
    }
    outcome
}

/// F at the network's mean model; with a linear constraint (1/N) Σ f_i(x_i), every agent at its own
/// point.
fn objective<'a>(
    experiment: &Experiment,
    locals: &[LocalObjective],
    rows: impl Iterator<Item = &'a [f64]>,
    dim: usize,
) -> f64 {
    if experiment.coupled.is_some() {
        let mut work = Workspace::default();
        let total: f64 = locals.iter().zip(rows).map(|(f, x)| f.value(x, &mut work)).sum();
        return total / locals.len() as f64;
    }
    solve::mean_value(locals, &mean_row(rows, dim))
}

pub(super) fn mean_row<'a>(rows: impl Iterator<Item = &'a [f64]>, dim: usize) -> Vec<f64> {
    let (mut mean, mut count) = (vec![0.0; dim], 0.0);
    for row in rows {
        kernel::axpy(1.0, row, &mut mean);
        count += 1.0;
    }
    mean.iter_mut().for_each(|m| *m /= count);
    mean
}

/// ln(‖x_i − x*‖/d) over the agents, the paper's accuracy metric. `optimum` is everybody's, or one
/// an agent after the other.
fn log_errors<'a>(rows: impl Iterator<Item = &'a [f64]>, optimum: &[f64], dim: usize) -> Spread {
    let each = rows.zip(optimum.chunks_exact(dim).cycle());
    // A variable at its limit can be exact; its logarithm would hide all others' in a mean.
    let least = if optimum.len() > dim { f64::EPSILON * kernel::norm(optimum) } else { 0.0 };
    Spread::of(each.map(|(x, o)| libm::log(kernel::distance(x, o).max(least) / dim as f64)))
        .unwrap_or(Spread { min: f64::NAN, mean: f64::NAN, max: f64::NAN })
}

fn observe(
    experiment: &Experiment,
    planned: &Planned,
    instance: &Instance,
    network: &Lockstep,
    test: Option<&Records>,
    standardised: &mut StandardisedView,
) -> TraceRow {
    let models = network.current_models();
    let held = || models.chunks_exact(network.model_dim());
    if let Some(model) = held().next() {
        standardised.open(experiment, planned, &instance.locals, test, model);
    }
    let standardised = &*standardised;
    let (locals, test) =
        (standardised.train().unwrap_or(&instance.locals), standardised.test().or(test));
    let rows = || held().map(|model| standardised.coefficients(planned, model));
    let dim = rows().next().map_or(0, <[f64]>::len);
    let mean = mean_row(rows(), dim);
    let spread: f64 = rows().map(|x| kernel::distance(x, &mean).powi(2)).sum();
    let objective = objective(experiment, locals, rows(), dim);
    TraceRow {
        run: instance.run,
        round: network.round(),
        objective,
        optimum_gap: gap(experiment, objective, instance),
        log_error: log_errors(rows(), &instance.optimum.x, dim),
        disagreement: experiment
            .coupled
            .as_ref()
            .map_or((spread / network.players().len() as f64).sqrt(), |t| {
                t.coupling.violation(rows())
            }),
        test_accuracy: test.and_then(|t| {
            problem::accuracy_above(&experiment.objective.loss, t, &mean, experiment.threshold)
        }),
        epsilon_worst: worst_so_far(planned, network.round()),
        epsilon_realised: Spread::of(network.players().iter().filter_map(|p| p.gate().realised())),
        epsilon_published: published_so_far(experiment, planned, instance, network.round()),
        sent: traffic(experiment, planned, network),
    }
}

/// The paper's worst case after so many rounds.
pub(super) fn worst_so_far(planned: &Planned, round: u32) -> Option<f64> {
    let spent = &planned.account.price.as_ref()?.paper_worst_case;
    match round as usize {
        0 => (!spent.is_empty()).then_some(0.0),
        round => spent.get(round - 1).copied(),
    }
}

pub(super) fn published_so_far(
    experiment: &Experiment,
    planned: &Planned,
    instance: &Instance,
    round: u32,
) -> Option<Spread> {
    let graph = &experiment.graphs[instance.run as usize];
    Spread::of(instance.locals.iter().enumerate().filter_map(|(i, local)| {
        let published =
            &planned.account.noise_schedule(i, local.site_weight(), graph.degree(i))?.published;
        match round as usize {
            0 => (!published.is_empty()).then_some(0.0),
            round => published.get(round - 1).copied(),
        }
    }))
}

fn summarise(
    experiment: &Experiment,
    planned: &Planned,
    outcomes: Vec<Outcome>,
    seconds: f64,
) -> AlgorithmRecord {
    let mean = |f: &dyn Fn(&Outcome) -> Option<f64>| {
        Spread::of(outcomes.iter().filter_map(f)).map(|s| s.mean)
    };
    let accuracy = |f: fn(&Spread) -> f64| mean(&|o| o.accuracy.as_ref().map(f));
    let per_agent_accuracy = accuracy(|s| s.mean).map(|mean| Spread {
        min: accuracy(|s| s.min).unwrap_or(mean),
        mean,
        max: accuracy(|s| s.max).unwrap_or(mean),
    });
    let judged = outcomes.iter().filter_map(|o| Some(o.metrics.as_ref()?.0.clone()));
    let judged: Vec<Metrics> = judged.collect();
    AlgorithmRecord {
        kind: planned.protocol.kind().into(),
        method: planned.method(),
        label: planned.label.clone(),
        rounds: planned.timetable.rounds,
        gossip: planned.timetable.gossip,
        test_accuracy: per_agent_accuracy.map(|s| s.mean),
        test_auc: mean(&|o| o.auc),
        per_agent_accuracy,
        across_runs: AcrossRuns::of(&judged),
        metrics: Metrics::mean(&judged),
        findings: Vec::new(),
        model: None,
        objective: mean(&|o| Some(o.objective)).unwrap_or(f64::NAN),
        optimum_gap: mean(&|o| Some(o.optimum_gap)).unwrap_or(f64::NAN),
        log_error: mean(&|o| Some(o.log_error)).unwrap_or(f64::NAN),
        epsilon: epsilon(experiment, planned, &outcomes),
        published: published(experiment, planned, &outcomes),
        seconds,
        parameters: serde_json::to_value(parameters(planned)).unwrap_or_default(),
        noise: super::shared::describe(planned),
        agents_stopped: mean(&|o| Some(o.stopped as f64)).unwrap_or(0.0),
        diverged: outcomes.iter().any(|o| o.diverged),
        curve: curve(&outcomes),
        certified: None,
        violation: mean(&|o| o.violation),
        delays: experiment.delayed(planned),
        traffic: TrafficRecord::mean(outcomes.iter().filter_map(|o| o.sent)),
        personal: personal_record(&outcomes),
        estimates: None,
        trace: outcomes.into_iter().flat_map(|o| o.trace).collect(),
    }
}

fn personal_record(outcomes: &[Outcome]) -> Option<PersonalRecord> {
    let all: Vec<_> = outcomes.iter().filter_map(|o| o.personal.as_ref()).collect();
    let shared: Vec<Metrics> = all.iter().map(|p| p.1.0.clone()).collect();
    let personal: Vec<Metrics> = all.iter().map(|p| p.2.0.clone()).collect();
    Some(PersonalRecord {
        sites: all.first()?.0,
        shared: Metrics::mean(&shared)?,
        personal: Metrics::mean(&personal)?,
    })
}

fn parameters(planned: &Planned) -> Parameters {
    let mut table = planned.protocol.parameters();
    table.extend(super::shared::keys(planned));
    table
}

fn epsilon(
    experiment: &Experiment,
    planned: &Planned,
    outcomes: &[Outcome],
) -> Option<EpsilonRecord> {
    let price = planned.account.price.as_ref()?;
    let budget = experiment.spec.privacy.and_then(|p| p.epsilon);
    let claim = price.claim.clone().within(budget).epsilon;
    let last = || outcomes.iter().filter_map(|o| o.trace.last()?.epsilon_realised);
    Some(EpsilonRecord {
        claim,
        delta: price.claim.delta,
        method: price.claim.method.to_string(),
        worst_case_pure: price.worst_case_pure,
        paper_worst_case: price.paper_worst_case.last().copied(),
        realised_mean: Spread::of(last().map(|s| s.mean)).map(|s| s.mean),
        realised_range: Spread::of(last().map(|s| s.min))
            .zip(Spread::of(last().map(|s| s.max)))
            .map(|(a, b)| (a.min, b.max)),
        bounds: price.bounds.clone(),
        statement: stated(experiment, Claim { epsilon: claim, ..price.claim.clone() }).to_string(),
        seeded: experiment.is_seeded(),
    })
}

/// The claim, and how much of what the command made it covers.
fn stated(experiment: &Experiment, claim: Claim) -> Claim {
    let Some(total) = experiment.total_epsilon() else { return claim };
    let claim = match experiment.groups() {
        Some(groups) => claim.with_caveat(groups),
        None => claim,
    };
    match total.transcripts {
        1 => claim.with_caveat("covers the one transcript of this command"),
        _ => claim.with_caveat(format!(
            "covers one of the {} transcripts of this command; together they cost ε = {}, δ = {:e}",
            total.transcripts,
            crate::privacy::printed_up(total.epsilon, 4),
            total.delta
        )),
    }
}

fn published(
    experiment: &Experiment,
    planned: &Planned,
    outcomes: &[Outcome],
) -> Option<PublishedRecord> {
    let last = || outcomes.iter().filter_map(|o| o.trace.last()?.epsilon_published);
    Some(PublishedRecord {
        epsilon: widest(last)?,
        delta: experiment.spec.privacy.filter(|_| planned.account.is_gaussian()).map(|p| p.delta),
        formula: planned.protocol.published_formula().into(),
    })
}

/// Of spreads over the agents of a run: the mean over all, the range from the smallest to the
/// largest.
fn widest<I: Iterator<Item = Spread>>(spreads: impl Fn() -> I) -> Option<Spread> {
    Some(Spread {
        min: Spread::of(spreads().map(|s| s.min))?.min,
        mean: Spread::of(spreads().map(|s| s.mean))?.mean,
        max: Spread::of(spreads().map(|s| s.max))?.max,
    })
}

fn curve(outcomes: &[Outcome]) -> Vec<CurvePoint> {
    let points = outcomes.iter().map(|o| o.trace.len()).min().unwrap_or(0);
    (0..points)
        .filter_map(|k| {
            let rows = || outcomes.iter().map(|o| &o.trace[k]);
            let over = |f: fn(&TraceRow) -> f64| Spread::of(rows().map(f));
            Some(CurvePoint {
                round: outcomes[0].trace[k].round,
                objective: over(|r| r.objective)?,
                log_error: widest(|| rows().map(|r| r.log_error))?,
                test_accuracy: Spread::of(rows().filter_map(|r| r.test_accuracy)),
                disagreement: over(|r| r.disagreement)?,
                epsilon_worst: Spread::of(rows().filter_map(|r| r.epsilon_worst)).map(|s| s.max),
                epsilon_realised: widest(|| rows().filter_map(|r| r.epsilon_realised)),
                epsilon_published: widest(|| rows().filter_map(|r| r.epsilon_published)),
                sent: TrafficRecord::mean(rows().filter_map(|r| r.sent)),
            })
        })
        .collect()
}

/// What one run can be compared with.
fn references(experiment: &Experiment, instance: &Instance) -> RunReferences {
    if !experiment.with_references {
        return RunReferences::none(experiment.planned.len());
    }
    let loss = &experiment.objective.loss;
    let test = instance.test(experiment);
    let optimum = &instance.optimum;
    let columns = instance.reference.is_some();
    let dim = if columns { optimum.x.len() } else { experiment.facts.dim };
    let zero = vec![0.0; dim];
    let rows = std::iter::repeat_n(&zero[..], optimum.x.len() / zero.len());
    let certified = |planned: &Planned| {
        // A certificate is about the first run's graph and shards.
        let first = instance.run == 0;
        first
            .then(|| experiment.certified(planned, &instance.locals, optimum, &instance.multiplier))
            .flatten()
    };
    RunReferences {
        majority: test.as_deref().and_then(|t| loss.classifies().then(|| majority(t))),
        zero_accuracy: test.as_deref().and_then(|t| problem::accuracy(loss, t, &zero)),
        zero_log_error: log_errors(rows, &optimum.x, zero.len()).mean,
        zero_objective: instance.zero_objective,
        central_accuracy: test
            .as_deref()
            .and_then(|t| problem::accuracy_above(loss, t, &optimum.x, experiment.threshold)),
        central_ranked: test.as_deref().and_then(|t| match loss {
            Loss::Ridge { .. } | Loss::Huber { .. } => {
                match experiment.log_units(instance.reference.as_deref()) {
                    Some(units) => {
                        let scores = problem::scores(loss, t, &optimum.x);
                        Metrics::of_logs(&scores, t.labels(), units).and_then(|m| m.r2)
                    }
                    None => r2(t, &optimum.x),
                }
            }
            _ => problem::auc(loss, t, &optimum.x),
        }),
        central_objective: optimum.value,
        local_only_accuracy: instance.local_only_accuracy,
        certified: experiment.planned.iter().map(certified).collect(),
    }
}

/// R² of a linear model; the same whatever unit labels and answers are in.
fn r2(records: &Records, x: &[f64]) -> Option<f64> {
    let labels = records.labels();
    let mean = labels.iter().sum::<f64>() / labels.len().max(1) as f64;
    let answer = |index: usize| kernel::dot(&records.row(index), x);
    let left: f64 = labels.iter().enumerate().map(|(i, y)| (y - answer(i)).powi(2)).sum();
    let all: f64 = labels.iter().map(|y| (y - mean).powi(2)).sum();
    (all > 0.0).then(|| 1.0 - left / all)
}

/// Means over the runs; what does not depend on shards is the first run's.
fn baselines(references: &[RunReferences], loss: Loss) -> Baselines {
    let Some(first) = references.first() else { return Baselines::default() };
    let over = |f: fn(&RunReferences) -> Option<f64>| {
        Spread::of(references.iter().filter_map(f)).map(|s| s.mean)
    };
    let ranked = over(|g| g.central_ranked);
    Baselines {
        majority_accuracy: first.majority,
        zero_model: ZeroModel {
            accuracy: first.zero_accuracy,
            log_error: over(|g| Some(g.zero_log_error)).unwrap_or(f64::NAN),
            objective: over(|g| Some(g.zero_objective)).unwrap_or(f64::NAN),
        },
        central_optimum_accuracy: over(|g| g.central_accuracy),
        central_optimum_auc: ranked.filter(|_| loss.classifies()),
        central_optimum_r2: ranked.filter(|_| !loss.classifies()),
        central_optimum_objective: over(|g| Some(g.central_objective)).unwrap_or(f64::NAN),
        local_only_accuracy: over(|g| g.local_only_accuracy),
        reference: None,
    }
}

/// By how much an accuracy on the test records may fall below the majority's before it is worth a
/// word.
const BELOW_MAJORITY: f64 = 0.01;

/// What a reader must know before believing an algorithm's figures.
fn findings(
    experiment: &Experiment,
    record: &AlgorithmRecord,
    baselines: &Baselines,
) -> Vec<String> {
    let mut found = Vec::new();
    if experiment.coupled.is_some() || record.diverged {
        return found;
    }
    if let Some(metrics) = &record.metrics {
        if let Some(class) = metrics.only_answer() {
            let name =
                experiment.classes().get(class).cloned().unwrap_or_else(|| class.to_string());
            found.push(match metrics.auc.filter(|_| metrics.ranks()) {
                Some(auc) => format!(
                    "answers “{name}” for all at its threshold, though it tells classes apart: AUC = \
                     {auc:.3}; another threshold, or class_weight = \"balanced\", makes use of it"
                ),
                None => format!("learned nothing: answers “{name}” for all"),
            });
        } else if let (Some(accuracy), Some(majority)) =
            (record.test_accuracy, baselines.majority_accuracy)
            && accuracy < majority - BELOW_MAJORITY
        {
            found.push(format!(
                "worse than answering the most frequent class for all: {:.1} % against {:.1} %",
                100.0 * accuracy,
                100.0 * majority
            ));
        }
        if let Some(r2) = metrics.r2.filter(|r2| *r2 <= 0.0) {
            found.push(format!(
                "learned nothing: R² = {r2:.3}, no better than answering the mean for all"
            ));
        }
    }
    let (zero, best) = (baselines.zero_model.objective, baselines.central_optimum_objective);
    // Under columns that were scouted with noise the objective has another scale than the
    // references.
    if experiment.layout.is_some() {
        return found;
    }
    if record.objective > zero {
        found.push(format!(
            "did not converge: it ends with an objective of {:.4}, above the {zero:.4} it began with",
            record.objective
        ));
    } else if record.epsilon.is_none() && still_falling(&record.curve, zero, best) {
        found.push(format!(
            "did not converge: after {} rounds its objective is still falling; give it more rounds",
            record.rounds
        ));
    }
    found
}

/// Whether the objective, without noise, had a way to go when the rounds were over: more than a
/// hundredth of the whole way is left, and the last tenth of the rounds took more than a twentieth
/// off that.
fn still_falling(curve: &[CurvePoint], zero: f64, best: f64) -> bool {
    let Some(last) = curve.last() else { return false };
    let before = curve.iter().rev().find(|p| p.round <= last.round - last.round / 10);
    let gap = |p: &CurvePoint| p.objective.mean - best;
    before.is_some_and(|b| b.round < last.round && gap(b) - gap(last) > 0.05 * gap(last))
        && gap(last) > 0.01 * (zero - best)
}

pub(super) fn majority(test: &Records) -> f64 {
    let mut labels = test.labels().to_vec();
    labels.sort_unstable_by(f64::total_cmp);
    let largest = labels.chunk_by(|a, b| a == b).map(<[f64]>::len).max().unwrap_or(0);
    largest as f64 / labels.len().max(1) as f64
}

fn problem_record(experiment: &Experiment) -> ProblemRecord {
    let graph = &experiment.graphs[0];
    let spectrum = graph.laplacian_spectrum();
    let kind = serde_json::to_value(&experiment.spec.graph).ok();
    let (source, encoding) = match &*experiment.source {
        Source::Data(data) => (data.source.clone(), data.encoding.name().to_owned()),
        Source::Costs => ("costs of the agents".into(), "none".into()),
        Source::Synthetic(problem) => {
            (format!("synthetic {:?}", problem.task).to_lowercase(), "none".into())
        }
    };
    ProblemRecord {
        source,
        encoding,
        loss: match experiment.objective.loss {
            _ if matches!(*experiment.source, Source::Costs) => "quadratic".into(),
            Loss::ClippedLogistic { clip } => format!("logistic (slopes clipped at {clip})"),
            Loss::WeightedLogistic { clip, negative, positive } => {
                let clipped =
                    if clip < 1.0 { format!("; slopes clipped at {clip}") } else { String::new() };
                format!("logistic (classes weighted {negative:.3} and {positive:.3}{clipped})")
            }
            Loss::WeightedSquaredHinge { negative, positive, .. } => {
                format!("squared-hinge (classes weighted {negative:.3} and {positive:.3})")
            }
            Loss::SquaredHinge { .. } if experiment.balanced => {
                "squared-hinge (classes balanced by shares estimated within the budget)".into()
            }
            Loss::Logistic if experiment.balanced => {
                "logistic (classes balanced by shares estimated within the budget)".into()
            }
            _ => experiment.spec.objective.loss.to_string(),
        },
        classes: experiment.classes(),
        regularization: experiment.objective.regularization,
        agents: experiment.facts.agents,
        // Where columns are scouted, messages carry more than the model.
        dim: experiment
            .layout
            .as_ref()
            .map_or(experiment.facts.dim, |layout| experiment.objective.dim(layout.features() + 1)),
        records: experiment.records,
        edges: graph.edges(),
        graph: kind.and_then(|k| Some(k.get("kind")?.as_str()?.to_owned())).unwrap_or_default(),
        laplacian: (spectrum.connectivity.value, spectrum.largest.value),
        mixing_gap: Mixing::metropolis(graph).spectral_gap(graph).value,
        smoothness: (experiment.facts.smoothness, experiment.facts.strong_convexity),
    }
}
