//! One simulation too large for one machine, or for its memory: agents are divided among ranks, and
//! no rank holds the records of all; or no records are held at all, and every agent is made anew in
//! every round.
//!
//! The transcript is that of [`run`](super::run()), bit for bit, and so is the record, as far as it
//! can be had without all records in one place ([`LargeRecord::finished`]): the objective and
//! accuracy of the mean model by round, its figures and its file, and a hash of the transcript; no
//! optimum, no references.

use super::check::{Experiment, Source};
use super::division::shards;
use super::error::{CallerError, RunError};
use super::pieces::{Content, Outcome, Part, Piece, Place, RunReferences, StoredMetrics};
use super::planned::Planned;
use super::rules;
use super::run::{Finished, majority, mean_row, player, put_together, worst_so_far};
use crate::agent::Player;
use crate::config_error::ConfigError;
use crate::graph::Mixing;
use crate::kernel;
use crate::model::sha256;
use crate::privacy::Claim;
use crate::problem::{self, LocalObjective};
use crate::random::Seed;
use crate::record::{Processes, ResultKind, Spread, TraceRow, TranscriptDigest};
use crate::simulate::{RankBlocks, RankPartition, RankState, Ranks, SimulationError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a simulation over several processes gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LargeRecord {
    /// The experiment's name.
    pub name: String,
    /// Who may see these results: the noise of such a run is a seed's, so that somebody's records
    /// are not protected.
    #[serde(default)]
    pub result_kind: ResultKind,
    /// Its seed.
    pub seed: u64,
    /// How many processes there were.
    pub ranks: usize,
    /// N.
    pub agents: usize,
    /// Length of a model.
    pub dim: usize,
    /// Rows that cross from rank to rank in a round.
    pub halo_rows: usize,
    /// Bytes that they are.
    pub halo_bytes: usize,
    /// One entry per algorithm, in the order of the file.
    pub algorithms: Vec<LargeAlgorithm>,
}

impl LargeRecord {
    /// The record and the models as one process gives them, without the optimum and what is
    /// compared with it: no process has all records. Of the agents' models there is the mean.
    #[must_use]
    pub fn finished(&self, experiment: &Experiment, seconds: f64) -> Finished {
        let runs = self.algorithms.iter().map(|a| a.runs.len()).sum::<usize>().max(1);
        let piece = |run: u32, part: Part, content: Content| Piece {
            place: Place { point: 0, run, part },
            stamp: String::new(),
            seconds: seconds / runs as f64,
            content,
        };
        let mut pieces: Vec<Piece> = (0..experiment.spec.runs)
            .map(|run| {
                let mut references = RunReferences::none(self.algorithms.len());
                let classifies = experiment.objective.loss.classifies();
                references.majority =
                    experiment.test_records(run).filter(|_| classifies).map(|t| majority(&t));
                piece(run, Part::RunReferences, Content::RunReferences(references))
            })
            .collect();
        let mut transcripts = Vec::new();
        for (index, (algorithm, planned)) in
            (0..).zip(self.algorithms.iter().zip(&experiment.planned))
        {
            for run in &algorithm.runs {
                let outcome = Content::Outcome(run.outcome(experiment, planned));
                pieces.push(piece(run.run, Part::Algorithm(index), outcome));
                transcripts.push(TranscriptDigest {
                    label: algorithm.label.clone(),
                    run: run.run,
                    transcript: run.transcript.clone(),
                });
            }
        }
        let mut finished = put_together(experiment, pieces, false);
        let (halo_rows, halo_bytes) = (self.halo_rows, self.halo_bytes);
        finished.record.processes =
            Some(Processes { ranks: self.ranks, halo_rows, halo_bytes, transcripts });
        finished
    }
}

/// What one algorithm did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LargeAlgorithm {
    /// The algorithm, as experiment files write it.
    pub kind: String,
    /// Its name in tables and figures.
    pub label: String,
    /// Rounds that used records.
    pub rounds: u32,
    /// ε of its claim, if privacy was asked for.
    pub epsilon: Option<f64>,
    /// What is claimed of one run's transcript; it holds for noise of the operating system, not of
    /// a seed.
    #[serde(default)]
    pub claim: Option<Claim>,
    /// One entry per run.
    pub runs: Vec<LargeRun>,
}

/// One run of one algorithm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LargeRun {
    /// Which run, from 0.
    pub run: u32,
    /// SHA-256 over the hashes of what each agent released, in the agents' order.
    pub transcript: String,
    /// Points of the curve.
    pub curve: Vec<LargePoint>,
    /// F at the mean of the final models.
    pub objective: f64,
    /// Accuracy of the mean of the final models on test records.
    pub test_accuracy: Option<f64>,
    /// The mean of the final models.
    pub mean_model: Vec<f64>,
}

impl LargeRun {
    /// What a piece of a record says of this run.
    fn outcome(&self, experiment: &Experiment, planned: &Planned) -> Outcome {
        let (loss, mean) = (&experiment.objective.loss, &self.mean_model);
        let unknown = Spread { min: f64::NAN, mean: f64::NAN, max: f64::NAN };
        let row = |point: &LargePoint| TraceRow {
            run: self.run,
            round: point.round,
            objective: point.objective,
            optimum_gap: f64::NAN,
            log_error: unknown,
            disagreement: point.disagreement,
            test_accuracy: point.test_accuracy,
            epsilon_worst: worst_so_far(planned, point.round),
            epsilon_realised: None,
            epsilon_published: None,
            sent: None,
        };
        Outcome {
            models: if self.run == 0 { vec![mean.clone()] } else { Vec::new() },
            trace: self.curve.iter().map(row).collect(),
            accuracy: Spread::of(self.test_accuracy),
            auc: experiment.test_records(self.run).and_then(|t| problem::auc(loss, &t, mean)),
            metrics: experiment.metrics(self.run, mean).map(StoredMetrics),
            objective: self.objective,
            optimum_gap: f64::NAN,
            log_error: f64::NAN,
            stopped: 0,
            diverged: mean.iter().any(|x| !x.is_finite() || x.abs() > 1e12),
            violation: None,
            personal: None,
            sent: None,
        }
    }
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LargePoint {
    /// Rounds exchanged.
    pub round: u32,
    /// F at the network's mean model.
    pub objective: f64,
    /// Root mean square distance of the agents from their mean.
    pub disagreement: f64,
    /// Accuracy of the mean model on test records.
    pub test_accuracy: Option<f64>,
}

/// How far a rank has come, to be written down and gone on from.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LargeProgress {
    /// Runs that are finished, algorithm by algorithm; rank 0's alone to know.
    finished: Vec<LargeRun>,
    /// How many are, on every rank.
    done: u32,
    /// The curve of the run under way.
    curve: Vec<LargePoint>,
    /// The agents of this rank.
    state: Option<RankState>,
}

impl LargeProgress {
    /// Where it stands: runs finished, and rounds of the next.
    #[must_use]
    pub fn place(&self) -> (u32, u32) {
        (self.done, self.state.as_ref().map_or(0, RankState::round))
    }
}

/// What all processes do after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AfterRound {
    /// The next round.
    GoOn,
    /// Write down how far they are, and then the next round.
    Save,
    /// Write down how far they are, and end.
    Stop,
}

/// Whoever watches over a long simulation, on every process: says when it is written down how far
/// all are, and when they stop.
pub trait RankObserver {
    /// Writes down how far this process has come.
    ///
    /// # Errors
    /// What ends the simulation.
    fn save(&mut self, progress: &LargeProgress) -> Result<(), CallerError>;

    /// Rounds between two saves, the same on all processes; 0 is never.
    fn every(&self) -> u32 {
        0
    }

    /// Whether processes ask each other between rounds, which costs two messages each time; the
    /// same on all processes.
    fn asks(&self) -> bool {
        false
    }

    /// Whether this process was told to stop.
    fn told(&mut self) -> bool {
        false
    }

    /// What all processes do now, and how many rounds later they ask again. Rank 0 decides, knowing
    /// whether any of them was told to stop.
    fn decide(&mut self, told: bool) -> (AfterRound, u32) {
        (if told { AfterRound::Stop } else { AfterRound::GoOn }, 1)
    }
}

/// A watch that only saves.
struct SaveOnly<F> {
    every: u32,
    save: F,
}

impl<F: FnMut(&LargeProgress) -> Result<(), CallerError>> RankObserver for SaveOnly<F> {
    fn save(&mut self, progress: &LargeProgress) -> Result<(), CallerError> {
        (self.save)(progress)
    }

    fn every(&self) -> u32 {
        self.every
    }
}

/// How a watched simulation ended.
#[derive(Debug)]
pub enum LargeOutcome {
    /// It was finished; rank 0 has the record.
    Done(Option<Box<LargeRecord>>),
    /// It was stopped after this many runs and this many rounds of the next, and saved there.
    Stopped {
        /// Runs that are finished.
        runs: u32,
        /// Rounds of the next one.
        round: u32,
    },
}

/// Runs an experiment over several processes; rank 0 gets the record.
///
/// `save` is called with how far this rank has come, every `every` rounds; 0 is never. `from` is
/// what an earlier run saved, on the same number of ranks.
///
/// # Errors
/// [`RunError`]: what such a run cannot do, that messages are lost, or what `save` says.
pub fn run_parted(
    experiment: &Experiment,
    ranks: &mut dyn Ranks,
    from: Option<LargeProgress>,
    every: u32,
    save: impl FnMut(&LargeProgress) -> Result<(), CallerError>,
) -> Result<Option<LargeRecord>, RunError> {
    unwatched(experiment, ranks, false, from, SaveOnly { every, save })
}

/// Runs an experiment as [`run_parted`] does, holding no agent's records and no agent: in every
/// round each is made, plays and is gone. Synthetic records are drawn again every time; records of
/// files lie in memory once, or outside it ([`DatasetWriter`](crate::data::DatasetWriter)), where they are read
/// block by block. The transcript is the same, bit for bit; a round takes longer by what making or
/// reading the records takes.
///
/// On one machine `ranks` is [`SingleRank`](crate::simulate::SingleRank).
///
/// # Errors
/// As for [`run_parted`].
pub fn run_streamed(
    experiment: &Experiment,
    ranks: &mut dyn Ranks,
    from: Option<LargeProgress>,
    every: u32,
    save: impl FnMut(&LargeProgress) -> Result<(), CallerError>,
) -> Result<Option<LargeRecord>, RunError> {
    unwatched(experiment, ranks, true, from, SaveOnly { every, save })
}

fn unwatched(
    experiment: &Experiment,
    ranks: &mut dyn Ranks,
    streamed: bool,
    from: Option<LargeProgress>,
    mut watch: impl RankObserver,
) -> Result<Option<LargeRecord>, RunError> {
    match run_watched(experiment, ranks, streamed, from, &mut watch)? {
        LargeOutcome::Done(record) => Ok(record.map(|record| *record)),
        LargeOutcome::Stopped { .. } => Ok(None),
    }
}

/// Runs an experiment as [`run_parted`] does, or as [`run_streamed`], under a watch that can save
/// and stop it at the end of a round: all processes at the same one.
///
/// # Errors
/// As for [`run_parted`].
pub fn run_watched(
    experiment: &Experiment,
    ranks: &mut dyn Ranks,
    streamed: bool,
    from: Option<LargeProgress>,
    watch: &mut dyn RankObserver,
) -> Result<LargeOutcome, RunError> {
    experiment.check_parted()?;
    let mut progress = from.unwrap_or_default();
    let all =
        experiment.planned.iter().flat_map(|p| (0..experiment.spec.runs).map(move |run| (p, run)));
    let count = experiment.planned.len() as u32 * experiment.spec.runs;
    for (number, (planned, run)) in (0..).zip(all) {
        if number < progress.done {
            continue;
        }
        let Some(finished) =
            one_run(experiment, (planned, run, streamed), ranks, &mut progress, watch)?
        else {
            let (runs, round) = progress.place();
            return Ok(LargeOutcome::Stopped { runs, round });
        };
        progress.finished.extend(finished);
        progress.done = number + 1;
        (progress.curve, progress.state) = (Vec::new(), None);
        let mut order = if watch.every() > 0 { AfterRound::Save } else { AfterRound::GoOn };
        if watch.asks() && progress.done < count {
            order = order.max(ask(ranks, watch)?.0);
        }
        if order > AfterRound::GoOn {
            watch.save(&progress).map_err(RunError::Caller)?;
        }
        if order == AfterRound::Stop {
            return Ok(LargeOutcome::Stopped { runs: progress.done, round: 0 });
        }
    }
    Ok(LargeOutcome::Done(record(experiment, ranks, progress).map(Box::new)))
}

/// All processes hear what rank 0 decides once it knows who was told to stop, and after how many
/// rounds they ask again.
fn ask(ranks: &mut dyn Ranks, watch: &mut dyn RankObserver) -> Result<(AfterRound, u32), RunError> {
    let told = f64::from(u8::from(watch.told()));
    let all = ranks.sent_to_first(vec![told], &vec![1; ranks.ranks()])?;
    let mut mine = Vec::new();
    if ranks.rank() == 0 {
        let (order, rounds) = watch.decide(all.iter().flatten().any(|&told| told > 0.0));
        mine = vec![f64::from(order as u8), f64::from(rounds.max(1))];
    }
    let answer = ranks.sent_by_first(mine, 2)?;
    let order = match answer[0] {
        0.0 => AfterRound::GoOn,
        1.0 => AfterRound::Save,
        _ => AfterRound::Stop,
    };
    Ok((order, answer[1] as u32))
}

/// What all runs together give; rank 0's alone.
fn record(
    experiment: &Experiment,
    ranks: &dyn Ranks,
    progress: LargeProgress,
) -> Option<LargeRecord> {
    if ranks.rank() > 0 {
        return None;
    }
    let mut runs = progress.finished.into_iter();
    let algorithm = |(place, planned): (usize, &Planned)| {
        let claim = experiment.claim(place);
        LargeAlgorithm {
            kind: planned.protocol.kind().into(),
            label: planned.label.clone(),
            rounds: planned.timetable.rounds,
            epsilon: claim.as_ref().map(|claim| claim.epsilon),
            claim,
            runs: runs.by_ref().take(experiment.spec.runs as usize).collect(),
        }
    };
    let algorithms = experiment.planned.iter().enumerate().map(algorithm).collect();
    let graph = &experiment.graphs[0];
    let halo_rows =
        if ranks.ranks() > 1 { RankBlocks::new(graph, ranks.ranks()).halo(graph) } else { 0 };
    Some(LargeRecord {
        name: experiment.spec.name.clone(),
        result_kind: experiment.result_kind(),
        seed: experiment.spec.seed,
        ranks: ranks.ranks(),
        agents: experiment.facts.agents,
        dim: experiment.facts.dim,
        halo_rows,
        halo_bytes: halo_rows * experiment.facts.dim * size_of::<f64>(),
        algorithms,
    })
}

/// The graph whose shape decides who works where: that of the run, or of the first one if records
/// were read by whoever needs them there.
fn divided(experiment: &Experiment, run: u32) -> &crate::graph::Graph {
    let fixed = matches!(&*experiment.source, Source::Data(data) if data.elsewhere.is_some());
    &experiment.graphs[if fixed { 0 } else { run as usize }]
}

impl Experiment {
    /// Whether this can run over several processes, or streamed.
    ///
    /// # Errors
    /// [`ConfigError`]: what such a run cannot do yet.
    pub fn check_parted(&self) -> Result<(), ConfigError> {
        rules::check_run(rules::PROCESSES, self)
    }
}

/// One run, which rank 0 gets; nothing if it was stopped.
fn one_run(
    experiment: &Experiment,
    (planned, run, streamed): (&Planned, u32, bool),
    ranks: &mut dyn Ranks,
    progress: &mut LargeProgress,
    watch: &mut dyn RankObserver,
) -> Result<Option<Option<LargeRun>>, RunError> {
    let division = RankBlocks::new(divided(experiment, run), ranks.ranks());
    let mut network =
        agents_of_rank(experiment, planned, run, (&division, ranks.rank(), streamed))?;
    if let Some(state) = progress.state.take() {
        network.resume(state)?;
    }
    let rounds = planned.timetable.rounds;
    let due = |round: u32| {
        round <= rounds && (round.is_multiple_of(experiment.trace_every) || round == rounds)
    };
    if network.round() == 0 {
        progress.curve =
            measure(experiment, run, &network, &division, network.current_models()?, ranks)?
                .map(|m| m.point)
                .into_iter()
                .collect();
    }
    let mut asks_at = if watch.asks() { network.round() + 1 } else { u32::MAX };
    while network.round() < planned.timetable.exchanges() {
        network.advance(ranks)?;
        if due(network.round()) {
            let models = network.current_models()?;
            progress.curve.extend(
                measure(experiment, run, &network, &division, models, ranks)?.map(|m| m.point),
            );
        }
        let round = network.round();
        let due = watch.every() > 0 && round.is_multiple_of(watch.every());
        let mut order = if due { AfterRound::Save } else { AfterRound::GoOn };
        if round >= asks_at {
            let (said, rounds) = ask(ranks, watch)?;
            (order, asks_at) = (order.max(said), round.saturating_add(rounds));
        }
        if order > AfterRound::GoOn {
            progress.state = Some(network.state());
            watch.save(progress).map_err(RunError::Caller)?;
        }
        if order == AfterRound::Stop {
            return Ok(None);
        }
    }
    let models = network.finish()?;
    let last = measure(experiment, run, &network, &division, models, ranks)?;
    // Bits travel as numbers.
    let digests = network.digests().into_iter().map(f64::from_bits).collect();
    let digests = in_order(ranks.sent_to_first(digests, &division.counts())?, &division, 1);
    let Some(last) = last else { return Ok(Some(None)) };
    let bytes: Vec<u8> = digests.iter().flat_map(|d| d.to_bits().to_le_bytes()).collect();
    Ok(Some(Some(LargeRun {
        run,
        transcript: sha256::hex(&bytes),
        curve: std::mem::take(&mut progress.curve),
        objective: last.point.objective,
        test_accuracy: last.point.test_accuracy,
        mean_model: last.mean,
    })))
}

/// The agents of one rank, with their records and no others'.
fn agents_of_rank<'a>(
    experiment: &'a Experiment,
    planned: &'a Planned,
    run: u32,
    (division, rank, streamed): (&RankBlocks, usize, bool),
) -> Result<RankPartition<'a>, RunError> {
    let graph = &experiment.graphs[run as usize];
    let seed = Seed::from(experiment.spec.seed).for_run(u64::from(run));
    let noise = experiment.noise_seed(run, planned);
    type Local<'a> = Box<dyn Fn(usize) -> Result<LocalObjective, SimulationError> + Sync + 'a>;
    let (counts, local): (Vec<usize>, Local<'a>) = match &*experiment.source {
        Source::Costs => {
            return Err(ConfigError::of("a simulation over several processes needs records").into());
        }
        Source::Synthetic(problem) => {
            let records = problem.maker(&seed).map_err(ConfigError::of)?;
            let counts = vec![problem.records_per_agent; problem.agents];
            (
                counts,
                Box::new(move |agent: usize| Ok(experiment.objective_on(records(agent as u64)))),
            )
        }
        Source::Data(data) => {
            let shards = shards(&experiment.spec, data, &seed)?;
            let counts = shards.iter().map(|s| s.rows.len()).collect();
            let unread = |agent: usize| {
                move |e: std::io::Error| SimulationError::Rows { agent, cause: e.kind() }
            };
            let local: Local<'a> = match &data.stored {
                None => Box::new(move |agent| {
                    Ok(experiment.objective_on(data.train.select(&shards[agent].rows)))
                }),
                Some(stored) => {
                    let rows = stored
                        .of_agents(&shards, division.agents(rank))
                        .map_err(ConfigError::of)?;
                    // Whose rows are where is known now.
                    drop(shards);
                    Box::new(move |agent| {
                        Ok(experiment.objective_on(rows.records(agent).map_err(unread(agent))?))
                    })
                }
            };
            (counts, local)
        }
    };
    let make = move |agent: usize| -> Result<Player, SimulationError> {
        let local = local(agent)?.weighted(experiment.weight(run, agent));
        Ok(player(experiment, planned, (agent, graph, &counts), local, &noise, true))
    };
    let mixing = Arc::new(Mixing::metropolis(graph));
    Ok(match streamed {
        true => RankPartition::streamed(graph, mixing, division, rank, make)?,
        false => RankPartition::new(graph, mixing, division, rank, make)?,
    })
}

struct Measured {
    point: LargePoint,
    mean: Vec<f64>,
}

/// The figures of the mean model; rank 0's alone. Everything is added up in the order of the
/// agents, so that it does not depend on the division.
fn measure(
    experiment: &Experiment,
    run: u32,
    network: &RankPartition<'_>,
    division: &RankBlocks,
    rows: Vec<f64>,
    ranks: &mut dyn Ranks,
) -> Result<Option<Measured>, RunError> {
    let (dim, agents) = (network.model_dim(), experiment.facts.agents);
    let first = ranks.rank() == 0;
    let counts = division.counts();
    let lengths: Vec<usize> = counts.iter().map(|c| c * dim).collect();
    let rows = in_order(ranks.sent_to_first(rows, &lengths)?, division, dim);
    let mean = if first { mean_row(rows.chunks_exact(dim), dim) } else { Vec::new() };
    let mean = ranks.sent_by_first(mean, dim)?;
    let values = network.values(&mean)?;
    let values = in_order(ranks.sent_to_first(values, &counts)?, division, 1);
    if !first {
        return Ok(None);
    }
    let spread: f64 = rows.chunks_exact(dim).map(|x| kernel::distance(x, &mean).powi(2)).sum();
    let test = experiment.test_records(run);
    let point = LargePoint {
        round: network.round(),
        objective: values.iter().sum::<f64>() / agents as f64,
        disagreement: (spread / agents as f64).sqrt(),
        test_accuracy: test.and_then(|t| {
            problem::accuracy_above(&experiment.objective.loss, &t, &mean, experiment.threshold)
        }),
    };
    Ok(Some(Measured { point, mean }))
}

/// What the ranks sent, agent by agent: `width` numbers each. Nothing where nothing was sent.
fn in_order(mut parts: Vec<Vec<f64>>, division: &RankBlocks, width: usize) -> Vec<f64> {
    if parts.len() < 2 {
        return parts.pop().unwrap_or_default();
    }
    let mut all = vec![0.0; parts.iter().map(Vec::len).sum()];
    for (rank, part) in parts.iter().enumerate() {
        for (agent, numbers) in division.agents(rank).zip(part.chunks_exact(width)) {
            all[agent * width..][..width].copy_from_slice(numbers);
        }
    }
    all
}

impl Experiment {
    /// Bytes that rows of records take outside memory: those that are there already, in the order
    /// of their files, and those that the run adds to bring the rows of every agent together, where
    /// they are not. `None` where no records lie outside memory.
    #[must_use]
    pub fn scratch_bytes(&self) -> Option<(u64, u64)> {
        let Source::Data(data) = &*self.source else { return None };
        let stored = data.stored.as_ref()?;
        let together = |run: u32| {
            let seed = Seed::from(self.spec.seed).for_run(u64::from(run));
            shards(&self.spec, data, &seed)
                .is_ok_and(|shards| shards.iter().all(|shard| stored.lie_together(&shard.rows)))
        };
        Some((stored.bytes(), if (0..self.spec.runs).all(together) { 0 } else { stored.bytes() }))
    }

    /// Bytes of memory that records take in a streamed run: what says whose they are, those of the
    /// agents at work, and those to test on.
    pub(super) fn streamed_records(&self) -> u64 {
        let Source::Data(data) = &*self.source else { return 0 };
        let test = data.test.as_ref().map_or(0, |test| 8 * (test.stored() + test.len()) as u64);
        let Some(stored) = &data.stored else {
            return test + 8 * (data.train.stored() + data.train.len()) as u64;
        };
        let rows = stored.len() as u64;
        let largest =
            self.counts.iter().max().map_or(0, |&most| most as u64) * stored.bytes() / rows.max(1);
        // The bytes of an agent (and its neighbours on disk) as they are read, and its rows.
        let working = rayon::current_num_threads() as u64 * (2 * largest + (1 << 20)) + (1 << 26);
        test + rows * 20 + stored.index_bytes() + self.facts.agents as u64 * 64 + working
    }
}
