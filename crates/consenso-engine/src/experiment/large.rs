//! One simulation too large for one machine, or for its memory: agents are divided among ranks, and no rank holds the records of all; or no records are held at all, and
//! every agent is made anew in every round.
//!
//! The transcript is that of [`run`](super::run()), bit for bit. Of the record there is what can be had without all records in one place: the
//! objective and accuracy of the mean model by round, and a hash of the transcript; no optimum, no references.

use super::check::{Experiment, Planned, Source, shards};
use super::error::{CallerError, RunError};
use super::run::{mean_row, player};
use crate::agent::Player;
use crate::fault::Fault;
use crate::graph::Mixing;
use crate::kernel;
use crate::model::sha256;
use crate::privacy::Claim;
use crate::problem::{self, LocalObjective};
use crate::random::Seed;
use crate::record::ResultKind;
use crate::simulate::{Division, Parted, PartedState, Ranks};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What a simulation over several processes gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LargeRecord {
    /// The experiment's name.
    pub name: String,
    /// Who may see these results: the noise of such a run is a seed's, so that somebody's records are not protected.
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
    /// What is claimed of one run's transcript; it holds for noise of the operating system, not of a seed.
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
    state: Option<PartedState>,
}

impl LargeProgress {
    /// Where it stands: runs finished, and rounds of the next.
    #[must_use]
    pub fn place(&self) -> (u32, u32) {
        (self.done, self.state.as_ref().map_or(0, PartedState::round))
    }
}

/// Runs an experiment over several processes; rank 0 gets the record.
///
/// `save` is called with how far this rank has come, every `every` rounds; 0 is never. `from` is what an earlier run saved, on the same number of
/// ranks.
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
    simulate(experiment, ranks, false, from, every, save)
}

/// Runs an experiment as [`run_parted`] does, holding no agent's records and no agent: in every round each is made, plays and is gone. Synthetic records are drawn
/// again every time, records of files lie in memory once. The transcript is the same, bit for bit; a round takes longer by what making the records takes.
///
/// On one machine `ranks` is [`Alone`](crate::simulate::Alone).
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
    simulate(experiment, ranks, true, from, every, save)
}

fn simulate(
    experiment: &Experiment,
    ranks: &mut dyn Ranks,
    streamed: bool,
    from: Option<LargeProgress>,
    every: u32,
    mut save: impl FnMut(&LargeProgress) -> Result<(), CallerError>,
) -> Result<Option<LargeRecord>, RunError> {
    experiment.check_parted()?;
    let mut progress = from.unwrap_or_default();
    let all = experiment.planned.iter().flat_map(|p| (0..experiment.spec.runs).map(move |run| (p, run)));
    for (number, (planned, run)) in (0..).zip(all) {
        if number < progress.done {
            continue;
        }
        let finished = one_run(experiment, (planned, run, streamed), ranks, &mut progress, every, &mut save)?;
        progress.finished.extend(finished);
        progress.done = number + 1;
        (progress.curve, progress.state) = (Vec::new(), None);
        if every > 0 {
            save(&progress).map_err(RunError::Caller)?;
        }
    }
    if ranks.rank() > 0 {
        return Ok(None);
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
    let halo_rows = if ranks.ranks() > 1 { Division::new(graph, ranks.ranks()).halo(graph) } else { 0 };
    Ok(Some(LargeRecord {
        name: experiment.spec.name.clone(),
        result_kind: experiment.result_kind(),
        seed: experiment.spec.seed,
        ranks: ranks.ranks(),
        agents: experiment.facts.agents,
        dim: experiment.facts.dim,
        halo_rows,
        halo_bytes: halo_rows * experiment.facts.dim * size_of::<f64>(),
        algorithms,
    }))
}

/// The graph whose shape decides who works where: that of the run, or of the first one if records were read by whoever needs them there.
fn divided(experiment: &Experiment, run: u32) -> &crate::graph::Graph {
    let fixed = matches!(&*experiment.source, Source::Data(data) if data.elsewhere.is_some());
    &experiment.graphs[if fixed { 0 } else { run as usize }]
}

impl Experiment {
    /// Whether this can run over several processes, or streamed.
    ///
    /// # Errors
    /// [`Fault`]: what such a run cannot do yet.
    pub fn check_parted(&self) -> Result<(), Fault> {
        let refused = [
            (!self.is_seeded(), None, "--entropy os: every process would need the same secret"),
            (self.tied.is_some(), Some("problem"), "[problem]: variables of each agent's own"),
            (self.layout.is_some(), Some("data.encoding"), "data.encoding = \"scouted\""),
            (self.spec.sweep.is_some(), Some("sweep"), "[sweep]: use --shard for its points"),
            (self.spec.start.is_some(), Some("start"), "start"),
            (self.spec.delays.is_some(), Some("delays"), "[delays]"),
            (self.planned.iter().any(|p| p.masking.is_some()), Some("exchange"), "exchange = \"masked\""),
            (
                self.planned.iter().any(|p| p.sharing.is_some()),
                Some("exchange"),
                "exchange = \"secret-shared\"",
            ),
            (
                self.planned.iter().any(|p| p.account.correlated.is_some()),
                None,
                "noise that neighbours share",
            ),
        ];
        match refused.into_iter().find(|r| r.0) {
            Some((_, key, what)) => {
                let message = format!("a run over several processes, or with --stream, has no {what}");
                Err(match key {
                    Some(key) => Fault::at(key, message),
                    None => Fault::of(message),
                })
            }
            None => Ok(()),
        }
    }
}

fn one_run(
    experiment: &Experiment,
    (planned, run, streamed): (&Planned, u32, bool),
    ranks: &mut dyn Ranks,
    progress: &mut LargeProgress,
    every: u32,
    save: &mut impl FnMut(&LargeProgress) -> Result<(), CallerError>,
) -> Result<Option<LargeRun>, RunError> {
    let division = Division::new(divided(experiment, run), ranks.ranks());
    let mut network = residents(experiment, planned, run, (&division, ranks.rank(), streamed))?;
    if let Some(state) = progress.state.take() {
        network.resume(state)?;
    }
    let rounds = planned.timetable.rounds;
    let due =
        |round: u32| round <= rounds && (round.is_multiple_of(experiment.trace_every) || round == rounds);
    if network.round() == 0 {
        progress.curve = measure(experiment, run, &network, &division, network.current_models()?, ranks)?
            .map(|m| m.point)
            .into_iter()
            .collect();
    }
    while network.round() < planned.timetable.exchanges() {
        network.advance(ranks)?;
        if due(network.round()) {
            let models = network.current_models()?;
            progress
                .curve
                .extend(measure(experiment, run, &network, &division, models, ranks)?.map(|m| m.point));
        }
        if every > 0 && network.round().is_multiple_of(every) {
            progress.state = Some(network.state());
            save(progress).map_err(RunError::Caller)?;
        }
    }
    let models = network.finish()?;
    let last = measure(experiment, run, &network, &division, models, ranks)?;
    // Bits travel as numbers.
    let digests = network.digests().into_iter().map(f64::from_bits).collect();
    let digests = in_order(ranks.sent_to_first(digests, &division.counts())?, &division, 1);
    let Some(last) = last else { return Ok(None) };
    let bytes: Vec<u8> = digests.iter().flat_map(|d| d.to_bits().to_le_bytes()).collect();
    Ok(Some(LargeRun {
        run,
        transcript: sha256::hex(&bytes),
        curve: std::mem::take(&mut progress.curve),
        objective: last.point.objective,
        test_accuracy: last.point.test_accuracy,
        mean_model: last.mean,
    }))
}

/// The agents of one rank, with their records and no others'.
fn residents<'a>(
    experiment: &'a Experiment,
    planned: &'a Planned,
    run: u32,
    (division, rank, streamed): (&Division, usize, bool),
) -> Result<Parted<'a>, Fault> {
    let graph = &experiment.graphs[run as usize];
    let seed = Seed::from(experiment.spec.seed).for_run(u64::from(run));
    let noise = experiment.noise_seed(run, planned);
    type Local<'a> = Box<dyn Fn(usize) -> LocalObjective + Sync + 'a>;
    let (counts, local): (Vec<usize>, Local<'a>) = match &*experiment.source {
        Source::Costs => return Err(Fault::of("a simulation over several processes needs records")),
        Source::Synthetic(problem) => {
            let records = problem.maker(&seed).map_err(Fault::of)?;
            let counts = vec![problem.records_per_agent; problem.agents];
            (counts, Box::new(move |agent: usize| experiment.objective_on(records(agent as u64))))
        }
        Source::Data(data) => {
            let shards = shards(&experiment.spec, data, &seed)?;
            let counts = shards.iter().map(|s| s.rows.len()).collect();
            let make = move |agent: usize| experiment.objective_on(data.train.select(&shards[agent].rows));
            (counts, Box::new(make))
        }
    };
    let make = move |agent: usize| -> Player {
        let local = local(agent).weighted(experiment.weight(run, agent));
        player(experiment, planned, (agent, graph, &counts), local, &noise, true)
    };
    let mixing = Arc::new(Mixing::metropolis(graph));
    Ok(match streamed {
        true => Parted::streamed(graph, mixing, division, rank, make),
        false => Parted::new(graph, mixing, division, rank, make),
    })
}

struct Measured {
    point: LargePoint,
    mean: Vec<f64>,
}

/// The figures of the mean model; rank 0's alone. Everything is added up in the order of the agents, so that it does not depend on the division.
fn measure(
    experiment: &Experiment,
    run: u32,
    network: &Parted<'_>,
    division: &Division,
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
fn in_order(mut parts: Vec<Vec<f64>>, division: &Division, width: usize) -> Vec<f64> {
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
