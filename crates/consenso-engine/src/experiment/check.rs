//! From a file to an experiment that can run: everything that can be wrong is found here, and every
//! open choice made.
//!
//! ```text
//! Problem (what is solved, on whose records) ─► Network (graphs) ─► PublicFacts ─► Plan (every algorithm with its account) ─► Experiment
//! ```

use super::problem::Tied;
use super::range;
use super::scouted;
use super::shared;
use super::spec::{
    self, AlgorithmSpec, ClassWeight, ExperimentSpec, PartitionSpec, SpecError, Threshold,
};
use super::sweep;
use crate::account::{self, Account, Company, Correlated, DeclaredCosts, NoiseSpec, Terms};
use crate::agent::Timetable;
use crate::data::{
    Dataset, Encoding, HIGH_CLAMPING, Kind, LoadReport, Partition, RawLayout, Records, RowBounds,
    Shard, Synthetic, SyntheticTask, Task,
};
use crate::fault::Fault;
use crate::gate::{Noise, RoundNoise, exact};
use crate::graph::{Graph, GraphError, GraphSpec, Mixing};
use crate::privacy::{Claim, gdp};
use crate::problem::loss::balanced_weights;
use crate::problem::weights::Stake;
use crate::problem::{
    Constraint, LocalObjective, Loss, Objective, Sensitivity, SiteWeights, WeightRule,
};
use crate::protocol::scouted::{Scouted, largest};
use crate::protocol::staged::Staged;
use crate::protocol::{Algorithms, MixRule, Parameters, Protocol, PublicFacts};
use crate::random::{Purpose, Seed};
use crate::record::DelayRecord;
use crate::sharing::FixedPoint;
use crate::simulate::Clock;
use std::sync::Arc;

/// Where records come from, once files are read.
#[derive(Debug)]
pub enum Source {
    /// Records from files, or the bundled ones.
    Data(Box<Dataset>),
    /// Generated records.
    Synthetic(Synthetic),
    /// No records: the agents of `[problem]` have costs.
    Costs,
}

/// An experiment file with what it refers to: the library opens no files itself.
#[derive(Debug)]
pub struct Inputs {
    /// The file's name.
    pub file: String,
    /// Its text, for the lines of errors.
    pub text: String,
    /// What it says.
    pub spec: ExperimentSpec,
    /// The records.
    pub source: Source,
    /// The edge list of `graph.kind = "file"`: its name and text.
    pub edges: Option<(String, String)>,
    /// OS entropy for the noise: with it the privacy claim holds, and the run cannot be repeated.
    pub entropy: Option<[u8; 32]>,
}

impl ExperimentSpec {
    /// Builds the graph of the first run among so many agents, as [`Experiment::check`] will: who
    /// works with whose records can be decided before any is read.
    ///
    /// # Errors
    /// [`Fault`]: what is wrong with the graph.
    pub fn first_graph(
        &self,
        agents: usize,
        edges: Option<&(String, String)>,
    ) -> Result<Arc<Graph>, Fault> {
        let one = Self { runs: 1, ..self.clone() };
        graphs(&one, agents, &Seed::from(self.seed), edges)?
            .pop()
            .ok_or_else(|| Fault::of("there is no run"))
    }

    /// The synthetic problem the file asks for, if it asks for one.
    ///
    /// # Errors
    /// [`Fault`]: a missing size.
    pub fn synthetic(&self) -> Option<Result<Synthetic, Fault>> {
        let task = match self.data.source.as_deref()? {
            "logistic" => SyntheticTask::Logistic,
            "ridge" => SyntheticTask::Ridge,
            "softmax" => SyntheticTask::Softmax { classes: self.data.classes.unwrap_or(3) },
            _ => return None,
        };
        let need = |value: Option<usize>, key: &str| {
            value.ok_or_else(|| {
                let message = format!(
                    "data.{key} is missing: synthetic records need agents, records_per_agent and dim"
                );
                Fault::at(format!("data.{key}"), message)
            })
        };
        Some((|| {
            let data = &self.data;
            let (agents, records) =
                (need(data.agents, "agents")?, need(data.records_per_agent, "records_per_agent")?);
            let mut problem = Synthetic::new(task, agents, records, need(data.dim, "dim")?);
            problem.heterogeneity = data.heterogeneity.unwrap_or(0.0);
            problem.nonzeros = data.nonzeros;
            problem.informative = data.informative;
            problem.check().map_err(Fault::of)?;
            Ok(problem)
        })())
    }
}

/// What all algorithms of an experiment share when they are planned.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// Which algorithm of the file is planned, from 1.
    pub(super) place: u64,
    pub(super) spec: &'a ExperimentSpec,
    pub(super) terms: Terms<'a>,
    /// The linear constraint, if the agents share one.
    pub(super) tied: Option<&'a Tied>,
    /// Whether classes are balanced by shares that the run estimates.
    pub(super) balanced: bool,
}

/// What is declared of costs, where agents have them instead of records.
fn declared_costs(spec: &ExperimentSpec, tied: Option<&Tied>) -> Option<DeclaredCosts> {
    let problem = spec.problem.as_ref().filter(|p| !p.agent.is_empty())?;
    let marginal = problem.marginal.unwrap_or([f64::NAN; 2]);
    Some(DeclaredCosts { marginal, gradient: tied.and_then(|t| t.gradient) })
}

/// One algorithm, ready to run.
#[derive(Debug)]
pub(super) struct Planned {
    /// Which algorithm of the file it is, from 1: under entropy its noise is its own.
    pub(super) place: u64,
    pub(super) label: String,
    pub(super) protocol: Arc<dyn Protocol>,
    pub(super) timetable: Arc<Timetable>,
    pub(super) account: Account,
    /// Secret shares instead of vectors.
    pub(super) sharing: Option<FixedPoint>,
    /// Where `sharing` is under masks instead of in shares.
    pub(super) masking: Option<shared::Masking>,
    /// How agents combine their neighbours' vectors.
    pub(super) mixing: MixRule,
    /// How many rounds old a neighbour's vector may be.
    pub(super) staleness: u32,
    /// The largest number of an honest agent's message, where a rule gives one.
    pub(super) reach: Option<f64>,
    /// What scouts the columns, where they are scouted; `protocol` is the same, or has it as its
    /// first stage.
    pub(super) scouted: Option<Arc<Scouted>>,
    /// The algorithm behind that stage, if it is another one; `protocol` is the same.
    pub(super) staged: Option<Arc<Staged>>,
}

/// A sound experiment.
#[derive(Debug)]
pub struct Experiment {
    pub(super) spec: ExperimentSpec,
    pub(super) source: Arc<Source>,
    pub(super) objective: Objective,
    /// The probability above which the positive of two classes is answered.
    pub(super) threshold: f64,
    /// Whether classes are balanced by shares that the run estimates.
    pub(super) balanced: bool,
    pub(super) facts: PublicFacts,
    pub(super) records: (usize, usize),
    /// Records of every agent in the first run.
    pub(super) counts: Vec<usize>,
    /// What the objective of every agent is multiplied by, by run; empty where all agents count the
    /// same.
    weights: Vec<Vec<f64>>,
    /// Whether the source holds the records of one agent alone.
    pub(super) alone: bool,
    /// Whether models are compared with what the records could give at best, round by round.
    pub(super) judged: bool,
    pub(super) graphs: Vec<Arc<Graph>>,
    /// The linear constraint, if the agents share one instead of a model.
    pub(super) tied: Option<Tied>,
    /// The raw columns, where they are scouted.
    pub(super) layout: Option<Arc<RawLayout>>,
    pub(super) planned: Vec<Planned>,
    pub(super) trace_every: u32,
    /// The points of a sweep; empty without one.
    pub(super) points: Vec<Experiment>,
    /// Which point of a sweep this is, so that under entropy no two share their noise.
    point: u64,
    entropy: Option<Seed>,
    warnings: Vec<String>,
}

/// What was read, apart from the spec itself.
#[derive(Clone, Copy)]
struct Read<'a> {
    file: &'a str,
    text: &'a str,
    edges: Option<&'a (String, String)>,
    entropy: Option<[u8; 32]>,
    /// Records of every agent, when those of one agent alone are here.
    site: Option<&'a [usize]>,
    known: &'a Algorithms,
}

/// Most repetitions: each has a graph of its own before the first one runs.
const MAX_RUNS: u32 = 10_000;

impl Read<'_> {
    fn fail(&self, key: &str, message: impl Into<String>) -> SpecError {
        SpecError::at_key(self.file, self.text, key, &message.into(), None)
    }

    /// A fault, at the key it names.
    fn placed(&self, fault: &Fault) -> SpecError {
        self.at(fault.key().unwrap_or_default(), fault)
    }

    /// A fault of what this table or key says.
    fn at(&self, key: &str, fault: &Fault) -> SpecError {
        SpecError { refuses_claim: fault.refuses_claim(), ..self.fail(key, fault.to_string()) }
    }

    /// Refuses numbers that no experiment can have.
    fn sizes(&self, spec: &ExperimentSpec) -> Result<(), SpecError> {
        if !(1..=MAX_RUNS).contains(&spec.runs) {
            let message = format!("{} must be at least 1 and at most {MAX_RUNS}", spec.runs);
            return Err(self.fail("runs", message));
        }
        if spec.trace_every == Some(0) {
            return Err(self.fail("trace_every", "must be at least 1"));
        }
        if spec
            .start
            .is_some_and(|start| RoundNoise::new(Noise::Gaussian { sigma: start }).is_err())
        {
            return Err(
                self.fail("start", "must be a positive number; leave it out to start from zero")
            );
        }
        Ok(())
    }
}

/// What is to be solved, and how many records each agent has for it.
struct Problem {
    features: usize,
    bounds: RowBounds,
    objective: Objective,
    /// The probability above which the positive of two classes is answered.
    threshold: f64,
    /// Whether classes are balanced by shares that the run estimates.
    balanced: bool,
    /// Records of every agent, by run.
    counts: Vec<Vec<usize>>,
    /// The raw columns, where they are scouted.
    layout: Option<Arc<RawLayout>>,
    /// What the objective of every agent is multiplied by, by run; empty where all agents count the
    /// same.
    weights: Vec<Vec<f64>>,
    /// The linear constraint, if the agents share one instead of a model.
    tied: Option<Tied>,
    /// What the user should know of the records.
    notes: Vec<String>,
}

impl Problem {
    fn new(
        read: &Read<'_>,
        spec: &ExperimentSpec,
        source: &Source,
        algorithms: &[AlgorithmSpec],
    ) -> Result<Self, SpecError> {
        let fail = |fault: Fault| read.placed(&fault);
        let (task, features, bounds) = match source {
            Source::Data(data) => (data.task, data.dim(), data.bounds),
            Source::Synthetic(problem) => (problem.task(), problem.dim, problem.bounds()),
            // Costs look at nothing of these; their gradients have bounds of their own.
            Source::Costs => {
                (Task::Binary, 1, RowBounds { l1: 0.0, l2: 0.0, linf: 0.0, public: true })
            }
        };
        if let (Source::Data(_), data) = (source, &spec.data) {
            let foreign = [
                ("dim", data.dim.is_some()),
                ("nonzeros", data.nonzeros.is_some()),
                ("informative", data.informative.is_some()),
                ("classes", data.classes.is_some()),
                ("heterogeneity", data.heterogeneity.is_some()),
            ];
            if let Some((key, _)) = foreign.into_iter().find(|f| f.1) {
                return Err(read.fail(key, "belongs to synthetic records; leave it out"));
            }
        }
        let mut objective = match source {
            Source::Costs => {
                Objective { loss: Loss::Ridge { clip: f64::INFINITY }, regularization: 0.0 }
            }
            _ => objective(spec, task).map_err(fail)?,
        };
        let (threshold, balanced) =
            judge(spec, &mut objective.loss, public_shares(source)).map_err(fail)?;
        let counts = match read.site {
            Some(counts) if spec.runs == 1 => vec![counts.to_vec()],
            Some(_) => return Err(read.fail("runs", "a network of sites runs once: set runs = 1")),
            None => shard_counts(spec, source, &Seed::from(spec.seed))
                .map_err(|fault| read.at("data", &fault))?,
        };
        let agents = counts[0].len();
        if agents < 2 && !(agents == 1 && algorithms.iter().all(|a| a.protocol.runs_alone())) {
            let help = "use at least 2, or algorithms of kind \"dgd\" and \"rcd\" only, which one agent can run alone";
            return Err(
                read.fail("agents", format!("{agents} agent cannot be decentralized; {help}"))
            );
        }
        let layout = scouted::layout(spec, source).map_err(fail)?;
        if spec.models.is_personal() && layout.is_none() {
            let help = "set data.encoding = \"scouted\", or leave models out";
            let message = format!("personal models are fitted on scouted columns; {help}");
            return Err(read.fail("models", message));
        }
        let weights = match &layout {
            None => site_weights(spec, &counts, features),
            // What scouting itself makes is weighted when it is added up; an algorithm after it has
            // weights in its objective.
            Some(layout) if algorithms.iter().any(scouted::is_staged) => {
                let mut precise = spec.clone();
                if spec.data.weights.is_open() {
                    precise.data.weights = SiteWeights::Rule(WeightRule::Precision);
                }
                site_weights(&precise, &counts, layout.features())
            }
            Some(_) => Ok(Vec::new()),
        };
        let weights = weights.map_err(|fault| read.at("weights", &fault))?;
        let mut notes = notes(spec, counts.iter().flatten().copied().min().unwrap_or(0));
        if let Source::Data(data) = source {
            notes.extend(loading_notes(spec, &data.report));
        }
        Ok(Self {
            features,
            bounds,
            objective,
            threshold,
            balanced,
            counts,
            layout,
            weights,
            tied: None,
            notes,
        })
    }

    /// Chooses what the file leaves open of the objective.
    fn settle(&mut self, spec: &mut ExperimentSpec, facts: &PublicFacts) {
        if self.layout.is_some() {
            self.objective = scouted::objective(self.objective, spec, self.counts[0].iter().sum());
            return;
        }
        if let Some(clip) = open_clip(spec, &self.objective, &self.bounds, facts) {
            self.objective.loss = self.objective.loss.with_slopes_up_to(clip);
            // The points of a sweep choose for themselves, so its file keeps the choice open.
            if spec.sweep.is_none() {
                spec.objective.clip = Some(clip);
            }
        }
    }

    /// Ties agents by their linear constraint, if there is one: what is known of their costs is
    /// public then. Refuses gradients that nothing bounds.
    fn tie(
        &mut self,
        read: &Read<'_>,
        spec: &ExperimentSpec,
        facts: &mut PublicFacts,
    ) -> Result<(), SpecError> {
        self.tied = tie(spec, &self.objective, self.counts[0].len(), facts.dim)
            .map_err(|fault| read.placed(&fault))?;
        if let Some(tied) = self.tied.as_ref().filter(|t| !t.costs.is_empty()) {
            facts.dim = tied.dim;
            (facts.strong_convexity, facts.smoothness) = tied.curvature;
            facts.coordinate_smoothness = facts.smoothness;
        }
        // Scouted columns need no clip of their own: every record's gradient is clipped as a whole.
        if spec.privacy.is_some()
            && self.layout.is_none()
            && matches!(self.objective.loss, Loss::Ridge { clip } if clip.is_infinite())
            && self.tied.as_ref().is_none_or(|t| t.costs.is_empty())
        {
            let message = "ridge regression under [privacy] needs objective.clip: without it one record's residual, and so its \
                           gradient, is unbounded and no noise hides it";
            let help = "set objective.clip to the largest residual that counts, for example 1.0";
            return Err(SpecError {
                help: Some(help.to_owned()),
                refuses_claim: true,
                ..read.fail("loss", message)
            });
        }
        Ok(())
    }
}

/// Who sends to whom, by run.
struct Network {
    graphs: Vec<Arc<Graph>>,
}

impl Network {
    fn new(read: &Read<'_>, spec: &ExperimentSpec, agents: usize) -> Result<Self, SpecError> {
        let graphs = graphs(spec, agents, &Seed::from(spec.seed), read.edges)
            .map_err(|fault| read.at("graph", &fault))?;
        if let Some(delays) = &spec.delays {
            delays.check(&graphs).map_err(|fault| read.at("delays", &fault))?;
        }
        Ok(Self { graphs })
    }

    /// What everybody may know of the problem on it.
    fn facts(&self, spec: &ExperimentSpec, problem: &Problem) -> PublicFacts {
        let bounds = problem.bounds.stretched(account::heaviest(&problem.weights));
        let fewest = problem.counts.iter().flatten().copied().min().unwrap_or(0);
        facts(spec, &problem.objective, &bounds, &self.graphs, fewest, problem.features)
    }
}

/// All algorithms, ready to run, and what to say before they do.
struct Plan {
    planned: Vec<Planned>,
    warnings: Vec<String>,
    trace_every: u32,
}

impl Plan {
    fn new(
        read: &Read<'_>,
        spec: &ExperimentSpec,
        algorithms: Vec<AlgorithmSpec>,
        problem: &Problem,
        network: &Network,
        facts: &mut PublicFacts,
    ) -> Result<Self, SpecError> {
        let Problem { features, bounds, objective, balanced, counts, layout, weights, .. } =
            problem;
        let (tied, mut warnings) = (problem.tied.as_ref(), problem.notes.clone());
        let mut planned = Vec::new();
        for (index, algorithm) in algorithms.into_iter().enumerate() {
            let place = |fault: Fault| SpecError {
                line: spec::line_of(read.text, index, fault.key()),
                file: read.file.to_owned(),
                message: format!("algorithm {}: {fault}", index + 1),
                help: None,
                refuses_claim: fault.refuses_claim(),
            };
            let context = Context {
                place: index as u64 + 1,
                spec,
                terms: Terms {
                    privacy: spec.privacy,
                    objective,
                    bounds,
                    counts,
                    weights,
                    weighting: &spec.data.weights,
                    costs: declared_costs(spec, tied),
                    clipped: spec.data.encoding == Encoding::Scouted,
                    seeded: read.entropy.is_none(),
                },
                balanced: *balanced,
                tied,
            };
            let (one, mut warned) = match layout {
                Some(layout) => scouted::plan(algorithm, layout, facts, &context, &network.graphs),
                None => plan(algorithm, *facts, &context, &network.graphs),
            }
            .map_err(place)?;
            warnings.append(&mut warned);
            planned.push(one);
        }
        scouted::level(&mut planned, facts);
        if layout.is_none() && spec.privacy.is_some_and(|p| p.epsilon.is_some()) {
            warnings.extend(loudest_site(&counts[0], weights.first().map(Vec::as_slice)));
        }
        distinct_labels(&mut planned);
        shared::check_drop_outs(&spec.drop_out, &planned, &network.graphs)
            .map_err(|fault| read.at("drop_out", &fault))?;
        let rounds = planned.iter().map(|p| p.timetable.exchanges()).max().unwrap_or(1);
        let work = counts[0].iter().sum::<usize>() * features;
        // A point of a curve costs about half a round; small problems can afford one every round.
        let points = if work > 200_000 { 40 } else { 400 };
        let trace_every = spec.trace_every.unwrap_or(rounds.div_ceil(points)).max(1);
        Ok(Self { planned, warnings, trace_every })
    }
}

impl Experiment {
    /// Checks everything and makes every open choice from public quantities.
    ///
    /// # Errors
    /// The first thing that cannot work, with its place and what to do.
    pub fn check(inputs: Inputs) -> Result<Self, SpecError> {
        Self::check_with(inputs, None, &Algorithms::builtin())
    }

    /// The same with the records of one agent alone in `inputs`; `records` says how many every
    /// agent has, which is public.
    ///
    /// # Errors
    /// The first thing that cannot work, with its place and what to do.
    pub fn check_site(inputs: Inputs, records: &[usize]) -> Result<Self, SpecError> {
        Self::check_with(inputs, Some(records), &Algorithms::builtin())
    }

    /// Checks an experiment whose algorithms may be your own: those of `known` instead of the
    /// built-in ones alone.
    ///
    /// # Errors
    /// The first thing that cannot work, with its place and what to do.
    pub(crate) fn check_among(inputs: Inputs, known: &Algorithms) -> Result<Self, SpecError> {
        Self::check_with(inputs, None, known)
    }

    fn check_with(
        inputs: Inputs,
        site: Option<&[usize]>,
        known: &Algorithms,
    ) -> Result<Self, SpecError> {
        let Inputs { file, text, spec, source, edges, entropy } = inputs;
        let read = Read { file: &file, text: &text, edges: edges.as_ref(), entropy, site, known };
        let points = sweep::points(&spec).map_err(|fault| read.placed(&fault))?;
        let source = Arc::new(source);
        let mut experiment = Self::check_one(&read, spec, Arc::clone(&source), 0)?;
        for (point, spec) in (1..).zip(points) {
            let place = sweep::place(&spec);
            let at_point = |mut e: SpecError| {
                e.message = format!("at the point {place} of the sweep: {}", e.message);
                e
            };
            let source = match spec.synthetic() {
                None => Arc::clone(&source),
                Some(problem) => Arc::new(Source::Synthetic(
                    problem.map_err(|fault| at_point(read.at("data", &fault)))?,
                )),
            };
            experiment.points.push(Self::check_one(&read, spec, source, point).map_err(at_point)?);
        }
        Ok(experiment)
    }

    fn check_one(
        read: &Read<'_>,
        mut spec: ExperimentSpec,
        source: Arc<Source>,
        point: u64,
    ) -> Result<Self, SpecError> {
        read.sizes(&spec)?;
        let algorithms = spec.algorithms_of(read.known, read.text, read.file)?;
        let mut problem = Problem::new(read, &spec, &source, &algorithms)?;
        let network = Network::new(read, &spec, problem.counts[0].len())?;
        let mut facts = network.facts(&spec, &problem);
        problem.settle(&mut spec, &facts);
        problem.tie(read, &spec, &mut facts)?;
        let Plan { planned, warnings, trace_every } =
            Plan::new(read, &spec, algorithms, &problem, &network, &mut facts)?;
        let Problem { objective, threshold, balanced, layout, weights, counts, tied, .. } = problem;
        let all = || counts.iter().flatten().copied();
        Ok(Self {
            records: (all().min().unwrap_or(0), all().max().unwrap_or(0)),
            spec,
            source,
            objective,
            threshold,
            balanced,
            facts,
            counts: counts.into_iter().next().unwrap_or_default(),
            weights,
            alone: read.site.is_some(),
            judged: true,
            graphs: network.graphs,
            tied,
            layout,
            planned,
            trace_every,
            points: Vec::new(),
            point,
            entropy: read.entropy.map(Seed::from_entropy),
            warnings,
        })
    }

    /// Returns what is claimed about the privacy of an algorithm, by its place in the file; `None`
    /// where it is not private.
    #[must_use]
    pub fn claim(&self, algorithm: usize) -> Option<Claim> {
        let price = self.planned.get(algorithm)?.account.price.as_ref()?;
        // What stops at the budget never costs more than it.
        let budget = self.spec.privacy.and_then(|p| p.epsilon);
        let epsilon = budget.map_or(price.claim.epsilon, |budget| price.claim.epsilon.min(budget));
        Some(Claim { epsilon, ..price.claim.clone() })
    }

    /// What the user should know before running.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The file as it was read.
    #[must_use]
    pub fn spec(&self) -> &ExperimentSpec {
        &self.spec
    }

    /// Public facts of the problem.
    #[must_use]
    pub fn facts(&self) -> &PublicFacts {
        &self.facts
    }

    /// Exchanges of all agents over all runs and algorithms: what a progress bar counts.
    #[must_use]
    pub fn exchanges(&self) -> u64 {
        let rounds: u64 = self.planned.iter().map(|p| u64::from(p.timetable.exchanges())).sum();
        rounds * u64::from(self.spec.runs) + self.points.iter().map(Self::exchanges).sum::<u64>()
    }

    /// The experiment's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Names of the algorithms, in order.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        self.planned.iter().map(|p| p.label.as_str())
    }

    /// The experiment with every choice made, as a file that repeats it: in the notation of the
    /// file it came from, JSON without one.
    #[must_use]
    pub fn resolved(&self) -> String {
        let mut spec = self.spec.clone();
        // Every point of a sweep makes its own choices, so only the file itself repeats it.
        if spec.sweep.is_none() {
            spec.trace_every = Some(self.trace_every);
            spec.algorithm = self.planned.iter().map(resolved_algorithm).collect();
        }
        spec.written()
    }

    /// The seed of the noise of an algorithm in repetition `run`: the experiment's, or fresh
    /// entropy.
    ///
    /// Seeded algorithms share their noise, which makes comparing them sharper. Under entropy each
    /// has its own: two transcripts with the same noise on the same records would give the records
    /// away.
    pub(super) fn noise_seed(&self, run: u32, algorithm: &Planned) -> Seed {
        match &self.entropy {
            Some(entropy) => {
                entropy.for_run(u64::from(run) | algorithm.place << 32 | self.point << 48)
            }
            None => Seed::from(self.spec.seed).for_run(u64::from(run)),
        }
    }

    /// The seed of delays, which are no secret.
    pub(super) fn delay_seed(&self, run: u32) -> Seed {
        Seed::from(self.spec.seed).for_run(u64::from(run))
    }

    /// What delays came to for an algorithm, means over runs; `None` without `[delays]`. Times do
    /// not depend on what is sent.
    pub(super) fn delayed(&self, planned: &Planned) -> Option<DelayRecord> {
        let delays = self.spec.delays.as_ref()?;
        let (timetable, mut record) =
            (&planned.timetable, DelayRecord { time: 0.0, mean_age: 0.0, oldest: 0 });
        for (graph, run) in self.graphs.iter().zip(0..) {
            let mut clock =
                Clock::new(delays.clone(), graph, planned.staleness, &self.delay_seed(run));
            let (mut total, mut count) = (0u64, 0u64);
            for exchange in 1..=timetable.exchanges() {
                let exact = timetable.is_exact(exchange);
                for age in clock
                    .exchange(graph, if exact { 0 } else { planned.staleness })
                    .into_iter()
                    .flatten()
                {
                    if !exact {
                        (total, count) = (total + u64::from(age), count + 1);
                    }
                    record.oldest = record.oldest.max(age);
                }
            }
            record.time += clock.now() / self.graphs.len() as f64;
            record.mean_age += total as f64 / count.max(1) as f64 / self.graphs.len() as f64;
        }
        Some(record)
    }

    /// Where everybody starts in repetition `run`, row by row, if not from zero. It is public: a
    /// function of the file alone.
    pub(super) fn start(&self, run: u32) -> Option<Vec<f64>> {
        let noise = RoundNoise::new(Noise::Gaussian { sigma: self.spec.start? }).ok()?;
        let seed = Seed::from(self.spec.seed).for_run(u64::from(run));
        let zeros = vec![0.0; self.facts.agents * self.facts.dim];
        let mut steps = vec![0; zeros.len()];
        let mut stream = seed.stream(Purpose::Public, 0, 0);
        exact::release(&mut stream, &zeros, &[], noise.noise(), noise.grid(), &mut steps).ok()?;
        let mut rows: Vec<f64> = steps.iter().map(|&q| noise.grid().value(q)).collect();
        rows.chunks_exact_mut(self.facts.dim)
            .for_each(|row| self.spec.objective.constraint.project(row));
        Some(rows)
    }

    /// How far the gradient of such an agent moves between neighbours.
    pub(super) fn gradient_sensitivity(
        &self,
        stake: Stake,
        neighbours: crate::privacy::NeighbourRelation,
    ) -> Sensitivity {
        let declared = self.tied.as_ref().and_then(|t| t.gradient);
        declared
            .unwrap_or_else(|| self.objective.sensitivity_of(&self.row_bounds(), stake, neighbours))
    }

    /// N·w_i of an agent, 1 where all agents count the same or columns are scouted, whose sums are
    /// weighted when they are made.
    pub(super) fn weight(&self, run: u32, agent: usize) -> f64 {
        self.weights.get(run as usize).map_or(1.0, |weights| weights[agent])
    }

    /// The largest of them.
    pub(super) fn heaviest(&self) -> f64 {
        account::heaviest(&self.weights)
    }

    /// What is public of an agent of the first run.
    pub(super) fn stake(&self, agent: usize) -> Stake {
        Stake { records: self.counts[agent], weight: self.weight(0, agent) }
    }

    /// Whether the noise comes from the experiment's seed.
    #[must_use]
    pub fn is_seeded(&self) -> bool {
        self.entropy.is_none()
    }

    /// Trains only: no optimum, no objective by round and no figure of test records is computed.
    pub(crate) fn unjudged(mut self) -> Self {
        self.judged = false;
        self
    }

    /// The agents' objectives in repetition `run`.
    pub(super) fn locals(&self, run: u32) -> Result<Vec<LocalObjective>, Fault> {
        let seed = Seed::from(self.spec.seed).for_run(u64::from(run));
        let local = |(agent, records): (usize, Records)| {
            self.objective_on(records).weighted(self.weight(run, agent))
        };
        match &*self.source {
            Source::Synthetic(problem) => Ok(problem
                .generate(&seed)
                .map_err(Fault::of)?
                .into_iter()
                .enumerate()
                .map(local)
                .collect()),
            Source::Costs => {
                let costs = self.tied.iter().flat_map(|t| &t.costs);
                Ok(costs.map(|c| LocalObjective::from_costs(Arc::clone(c))).collect())
            }
            Source::Data(_) if self.alone => {
                Err(Fault::of("the records of the other agents are not here"))
            }
            Source::Data(data) if data.stored.is_some() => {
                Err(Fault::of("the records are not in memory"))
            }
            Source::Data(data) => {
                let shards = shards(&self.spec, data, &seed)?;
                Ok(shards
                    .iter()
                    .map(|shard| data.train.select(&shard.rows))
                    .enumerate()
                    .map(local)
                    .collect())
            }
        }
    }

    /// The feature that every row was divided by together with the others, so that dividing by it
    /// undoes the scaling of rows.
    pub(super) fn unscaled_by(&self) -> Option<u32> {
        match &*self.source {
            Source::Data(data) if data.encoder.unit_rows() => data.encoder.bias().map(|b| b as u32),
            _ => None,
        }
    }

    /// The objective of an agent with these records.
    pub(super) fn objective_on(&self, records: Records) -> LocalObjective {
        match &self.layout {
            Some(layout) => {
                LocalObjective::from_raw(self.objective, records, layout, self.facts.dim)
            }
            None => LocalObjective::new(self.objective, records),
        }
    }

    /// Records nobody trains on, if there are any.
    pub(super) fn test_records(&self, run: u32) -> Option<std::borrow::Cow<'_, Records>> {
        if self.tied.is_some() {
            // A model that serves a common budget is not judged by how well it predicts.
            return None;
        }
        match &*self.source {
            Source::Costs => None,
            Source::Data(data) => data.test.as_ref().map(std::borrow::Cow::Borrowed),
            Source::Synthetic(problem) => {
                let seed = Seed::from(self.spec.seed).for_run(u64::from(run));
                problem.test(&seed, 2000).ok().map(std::borrow::Cow::Owned)
            }
        }
    }
}

fn objective(spec: &ExperimentSpec, task: Task) -> Result<Objective, Fault> {
    let o = &spec.objective;
    if !(o.regularization >= 0.0 && o.regularization.is_finite()) {
        return Err(Fault::at(
            "regularization",
            format!("{} must be a number ≥ 0", o.regularization),
        ));
    }
    if let Some(problem) = o.constraint.problem() {
        return Err(Fault::at("constraint", problem));
    }
    let loss = Loss::named(o.loss, task, o.clip, o.huber_delta)?;
    Ok(Objective { loss, regularization: o.regularization })
}

/// The declared shares of the two classes of the label, negative and positive.
fn public_shares(source: &Source) -> Option<[f64; 2]> {
    let Source::Data(data) = source else { return None };
    let label = data.schema.columns().iter().find(|c| matches!(c.kind, Kind::Label(_)))?;
    label.known.prevalence.as_deref()?.try_into().ok()
}

/// Applies the class weights of the file to a loss, and says which threshold is asked for and
/// whether weights wait for shares that are estimated.
fn judge(
    spec: &ExperimentSpec,
    loss: &mut Loss,
    shares: Option<[f64; 2]>,
) -> Result<(f64, bool), Fault> {
    let (weight, threshold) = (spec.objective.class_weight, spec.objective.threshold);
    let declare = "declare prevalence = <share of the positive class> at the label in the schema, from public knowledge";
    if threshold.is_some() && !loss.is_logistic() {
        return Err(Fault::at(
            "threshold",
            "is for two classes and the logistic loss: leave it out",
        ));
    }
    if weight.is_some() && !loss.is_binary() {
        let why = "is for two classes, with the logistic or the squared-hinge loss: leave it out";
        return Err(Fault::at("class_weight", why));
    }
    let weigh = |loss: &mut Loss, weights| {
        *loss = loss.with_class_weights(weights).unwrap_or(*loss);
    };
    let mut estimated = false;
    match (weight, shares) {
        (None, _) => {}
        (Some(ClassWeight::Given([negative, positive])), _) => {
            if ![negative, positive].iter().all(|w| (1e-3..=1e3).contains(w)) {
                return Err(Fault::at("class_weight", "weights must lie between 0.001 and 1000"));
            }
            weigh(loss, [negative, positive]);
        }
        (Some(ClassWeight::Rule(_)), Some([negative, positive]))
            if negative > 0.0 && positive > 0.0 =>
        {
            weigh(loss, balanced_weights(negative, positive));
        }
        (Some(ClassWeight::Rule(_)), _) if spec.data.encoding == Encoding::Scouted => {
            estimated = true;
        }
        (Some(ClassWeight::Rule(_)), _) => {
            return Err(Fault::at(
                "class_weight",
                format!(
                    "\"balanced\" needs the classes’ shares without looking at the records: {declare}; or set data.encoding = \"scouted\", \
                     which estimates them within the budget; or give the weights, class_weight = [negative, positive]"
                ),
            ));
        }
    }
    let threshold = match (threshold, shares) {
        (None, _) => 0.5,
        (Some(Threshold::At(t)), _) if t > 0.0 && t < 1.0 => t,
        (Some(Threshold::At(t)), _) => {
            return Err(Fault::at(
                "threshold",
                format!("{t} must be a probability between 0 and 1, for example 0.5"),
            ));
        }
        (Some(Threshold::Rule(_)), Some([_, positive])) if positive > 0.0 && positive < 1.0 => {
            positive
        }
        (Some(Threshold::Rule(_)), _) => {
            return Err(Fault::at(
                "threshold",
                format!("\"prevalence\" needs a public share: {declare}; or give a number"),
            ));
        }
    };
    Ok((threshold, estimated))
}

/// What deserves a second thought in a budget.
fn notes(spec: &ExperimentSpec, records: usize) -> Vec<String> {
    let Some(privacy) = spec.privacy else { return Vec::new() };
    let mut notes = Vec::new();
    if let Some(epsilon) = privacy.epsilon.filter(|&epsilon| epsilon > 10.0) {
        notes.push(format!(
            "privacy.epsilon = {epsilon} promises little: one record may change the odds of what is seen by a factor of e^{epsilon}; \
             1 is a usual choice, 10 a large one"
        ));
    }
    if records > 0 && privacy.delta * records as f64 > 1.0 {
        notes.push(format!(
            "privacy.delta = {} is above 1/b for an agent of b = {records} records: publishing one of them at random would satisfy it; \
             choose a delta well below 1/b",
            privacy.delta
        ));
    }
    notes
}

/// Where all sites count the same, noise of a site's mean grows with 1/b: one small site can bring
/// most of it.
pub(super) fn loudest_site(records: &[usize], weights: Option<&[f64]>) -> Option<String> {
    let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
    let noise: Vec<f64> =
        records.iter().enumerate().map(|(i, &b)| (weight(i) / b as f64).powi(2)).collect();
    let all: f64 = noise.iter().sum();
    let (site, share) = largest(noise.iter().map(|n| n / all));
    let (heavy, heaviest) = largest((0..records.len()).map(|i| weight(i) / records.len() as f64));
    let mut said = Vec::new();
    if records.len() > 2 && heaviest > 0.5 {
        said.push(format!(
            "site {} has {:.0} % of the weight: the model is mostly about its records; weights = \"equal\" under [data] makes all sites count the same, at \
             the price of more noise",
            heavy + 1,
            100.0 * heaviest
        ));
    }
    if records.len() > 2 && share > 0.5 && (weights.is_none() || site != heavy) {
        let why = if weights.is_none() { ", because sites count the same" } else { "" };
        said.push(format!(
            "site {} with its {} records brings {:.0} % of all noise{why}; weights = \"precision\" under [data] lets it count for less",
            site + 1,
            records[site],
            100.0 * share
        ));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// What reading files found that the user should know.
fn loading_notes(spec: &ExperimentSpec, report: &LoadReport) -> Vec<String> {
    let mut notes = Vec::new();
    for (column, count) in &report.clamped {
        let share = *count as f64 / (report.rows as f64).max(1.0);
        let much = match share > HIGH_CLAMPING {
            true => {
                format!(
                    " ({:.0} % of them): widen the range, if a wider one is public",
                    100.0 * share
                )
            }
            false => String::new(),
        };
        let (values, were) = if *count == 1 { ("value", "was") } else { ("values", "were") };
        notes.push(format!(
            "{count} {values} of column \"{column}\" {were} outside its declared range and clamped{much}"
        ));
    }
    for (column, count) in &report.inexact {
        let integers = if *count == 1 { "integer" } else { "integers" };
        notes.push(format!(
            "column \"{column}\" holds {count} {integers} beyond 2^53, which a number cannot tell apart; is it an identifier?"
        ));
    }
    if spec.data.path.is_some() {
        notes.extend(missing_notes(report));
    }
    notes
}

/// What became of records with missing values.
fn missing_notes(report: &LoadReport) -> Vec<String> {
    let mut notes = Vec::new();
    if report.dropped_missing > 0 {
        let (dropped, all) = (report.dropped_missing, report.rows + report.dropped_missing);
        let (miss, were) = if dropped == 1 { ("misses", "was") } else { ("miss", "were") };
        notes.push(format!(
            "{dropped} of {all} records {miss} a value and {were} dropped; `missing` in the schema can keep such records"
        ));
    }
    for (column, &count) in &report.imputed {
        let (values, were) = if count == 1 { ("value", "was") } else { ("values", "were") };
        notes.push(format!(
            "{count} missing {values} of column \"{column}\" {were} filled in as the schema says"
        ));
    }
    if report.dropped_person > 0 {
        let dropped = report.dropped_person;
        notes.push(format!(
            "{dropped} records were beyond what the schema allows one person and were dropped"
        ));
    }
    notes
}

/// The clip of a logistic slope that was left open under a budget: ½ if, without it, the budget
/// would not pay for the steps a gradient method needs to converge. It halves the noise, and the
/// bias costs less than that is worth.
pub(super) fn open_clip(
    spec: &ExperimentSpec,
    objective: &Objective,
    bounds: &RowBounds,
    facts: &PublicFacts,
) -> Option<f64> {
    let privacy =
        spec.privacy.filter(|_| objective.loss.is_logistic() && spec.objective.clip.is_none())?;
    let one = Stake { records: facts.records, weight: 1.0 };
    let budget = budget_per_sensitivity(&privacy, objective, bounds, std::iter::once(one))?;
    let scarce = PublicFacts { budget: Some(budget), ..*facts }.worthwhile(f64::INFINITY)
        < crate::protocol::ENOUGH_STEPS;
    scarce.then_some(0.5)
}

/// μ/B₂ of a budget, if there is one: of a mean of several agents, with B₂ the root of the mean of
/// their squares, for noise adds up so.
pub(super) fn budget_per_sensitivity(
    privacy: &super::PrivacySpec,
    objective: &Objective,
    bounds: &RowBounds,
    stakes: impl Iterator<Item = Stake>,
) -> Option<f64> {
    let all: Vec<f64> = stakes
        .map(|stake| objective.sensitivity_of(bounds, stake, privacy.neighbours).l2)
        .collect();
    let gradient = match &all[..] {
        [one] => *one,
        all => (all.iter().map(|b| b * b).sum::<f64>() / all.len() as f64).sqrt(),
    };
    Some(gdp::mu_for(privacy.epsilon?, privacy.delta).ok()? / gradient)
}

/// N·w_i of every agent, by run; empty where all agents count the same.
fn site_weights(
    spec: &ExperimentSpec,
    counts: &[Vec<usize>],
    features: usize,
) -> Result<Vec<Vec<f64>>, Fault> {
    if spec.data.weights.is_open() {
        return Ok(Vec::new());
    }
    if spec.problem.is_some() {
        return Err(Fault::at(
            "weights",
            "agents of [problem] have variables of their own, so none counts more in a common model: leave weights out",
        ));
    }
    // Noise of variance reach²·D/(μb)² in a gradient's D numbers against a sampling variance of
    // 1/b: both are equal at c records.
    let mu =
        spec.privacy.and_then(|p| Some((gdp::mu_for(p.epsilon?, p.delta).ok()?, p.neighbours)));
    let even = mu.map_or(0.0, |(mu, neighbours)| {
        let reach = scouted::reach(neighbours);
        reach * reach * features as f64 / (mu * mu)
    });
    let all: Vec<Vec<f64>> = counts
        .iter()
        .map(|records| spec.data.weights.multiples(records, even))
        .collect::<Result<_, _>>()?;
    Ok(if all.iter().flatten().all(|&w| w == 1.0) { Vec::new() } else { all })
}

/// The linear constraint of `[problem]`, if there is one.
fn tie(
    spec: &ExperimentSpec,
    objective: &Objective,
    agents: usize,
    dim: usize,
) -> Result<Option<Tied>, Fault> {
    let Some(problem) = &spec.problem else { return Ok(None) };
    if spec.objective.constraint != Constraint::None {
        let text = "[problem] has no set common to all agents; limit a variable with low and high of its agent";
        return Err(Fault::at("constraint", text));
    }
    if problem.agent.is_empty() && objective.regularization <= 0.0 {
        return Err(Fault::at(
            "regularization",
            "must be positive for [problem]: every f_i must be strongly convex",
        ));
    }
    problem.tie(agents, dim, spec.privacy.is_some()).map(Some)
}

fn partition(spec: &ExperimentSpec, data: &Dataset) -> Result<Partition, Fault> {
    let agents = spec.data.agents;
    match &spec.data.partition {
        Some(PartitionSpec::By(column)) => Ok(Partition::By { column: column.clone() }),
        Some(PartitionSpec::Dirichlet(alpha)) => {
            let agents = agents.ok_or_else(|| Fault::at("agents", "agents is missing"))?;
            Ok(Partition::Dirichlet { agents, alpha: *alpha })
        }
        None => match agents {
            Some(agents) => {
                Ok(Partition::Equal { agents, records_per_agent: spec.data.records_per_agent })
            }
            None if data.grouping("file").is_ok() => Ok(Partition::By { column: "file".into() }),
            None => Err(Fault::at(
                "agents",
                "agents is missing: say how many agents share the records, or partition = { by = \"column\" }",
            )),
        },
    }
}

pub(super) fn shards(
    spec: &ExperimentSpec,
    data: &Dataset,
    seed: &Seed,
) -> Result<Vec<Shard>, Fault> {
    if data.elsewhere.is_some() {
        // Every file is an agent; those of other processes have no rows here.
        let grouping = data.grouping("file").map_err(Fault::of)?;
        let shard = |name: &String| Shard { name: name.clone(), rows: Vec::new() };
        let mut shards: Vec<Shard> = grouping.names.iter().map(shard).collect();
        for (row, &file) in grouping.codes.iter().enumerate() {
            shards[file as usize].rows.push(row);
        }
        return Ok(shards);
    }
    let shards = data.partition(&partition(spec, data)?, seed).map_err(Fault::of)?;
    if let (Some(agents), Some(PartitionSpec::By(column))) =
        (spec.data.agents, &spec.data.partition)
        && agents != shards.len()
    {
        let message = format!(
            "agents = {agents}, but column \"{column}\" has {} groups; leave agents out",
            shards.len()
        );
        return Err(Fault::at("agents", message));
    }
    Ok(shards)
}

/// Records of every agent, by run. They are public: b_i is part of every sensitivity.
fn shard_counts(
    spec: &ExperimentSpec,
    source: &Source,
    seed: &Seed,
) -> Result<Vec<Vec<usize>>, Fault> {
    let one = |run: u32| match source {
        Source::Synthetic(problem) => Ok(vec![problem.records_per_agent; problem.agents]),
        Source::Costs => Ok(vec![1; spec.problem.as_ref().map_or(0, |p| p.agent.len())]),
        Source::Data(data) => {
            if let Some(counts) = &data.elsewhere {
                return Ok(counts.clone());
            }
            let shards = shards(spec, data, &seed.for_run(u64::from(run)))?;
            Ok(shards.iter().map(|shard| shard.rows.len()).collect())
        }
    };
    (0..spec.runs).map(one).collect()
}

fn graphs(
    spec: &ExperimentSpec,
    agents: usize,
    seed: &Seed,
    edges: Option<&(String, String)>,
) -> Result<Vec<Arc<Graph>>, Fault> {
    let wrong = |error: GraphError| Fault::at("graph", error.to_string());
    let fixed = match (&spec.graph, edges) {
        (GraphSpec::File { .. }, Some((name, text))) => {
            Some(Arc::new(Graph::from_edge_list(text.as_bytes(), name, agents).map_err(wrong)?))
        }
        _ => None,
    };
    spec.graph.check(agents).map_err(wrong)?;
    (0..u64::from(spec.runs))
        .map(|run| match &fixed {
            Some(graph) => Ok(Arc::clone(graph)),
            None => spec.graph.build(agents, &seed.for_run(run)).map(Arc::new).map_err(wrong),
        })
        .collect()
}

fn facts(
    spec: &ExperimentSpec,
    objective: &Objective,
    bounds: &RowBounds,
    graphs: &[Arc<Graph>],
    records: usize,
    features: usize,
) -> PublicFacts {
    // The worst of the runs' graphs, so that one choice of parameters serves all runs.
    let mut seen: Vec<&Arc<Graph>> = graphs.iter().collect();
    seen.dedup_by(|a, b| Arc::ptr_eq(a, b));
    let laplacian_max = seen.iter().map(|g| g.laplacian_upper_bound()).fold(0.0, f64::max);
    let ends: Vec<_> = seen.iter().map(|g| Mixing::metropolis(g).spectrum(g)).collect();
    let mixing =
        ends.iter().map(|(low, high)| low.value.abs().max(high.value.abs())).fold(0.0, f64::max);
    let mixing_min =
        ends.iter().map(|(low, _)| low.value - low.residual).fold(0.0, f64::min).max(-1.0);
    let degrees = |g: &Graph| {
        (0..g.agents()).map(|i| g.degree(i)).fold((usize::MAX, 0), |(a, b), d| (a.min(d), b.max(d)))
    };
    let (low, high) =
        seen.iter().map(|g| degrees(g)).fold((usize::MAX, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    PublicFacts {
        agents: graphs[0].agents(),
        dim: objective.dim(features),
        records,
        smoothness: objective.smoothness(bounds),
        coordinate_smoothness: objective.coordinate_smoothness(bounds),
        coordinate_sensitivity: objective.coordinate_sensitivity(),
        strong_convexity: objective.strong_convexity(),
        laplacian_max,
        mixing,
        mixing_min,
        degrees: (low, high),
        complete: graphs.iter().all(|g| g.is_complete()),
        rounds: 0,
        private: spec.privacy.is_some(),
        budget: None,
    }
}

fn plan(
    algorithm: AlgorithmSpec,
    mut facts: PublicFacts,
    context: &Context<'_>,
    graphs: &[Arc<Graph>],
) -> Result<(Planned, Vec<String>), Fault> {
    let AlgorithmSpec {
        label,
        rounds,
        noise,
        max_dim,
        tail,
        gossip,
        sharing,
        mixing,
        staleness,
        mut protocol,
    } = algorithm;
    if let Some(most) = max_dim.filter(|&most| most < facts.dim) {
        return Err(Fault::at(
            "max_dim",
            format!(
                "max_dim = {most} leaves points of a [sweep] out, and the file itself has d = {}: lower data.dim",
                facts.dim
            ),
        ));
    }
    // How noise is calibrated is one thing, noise that is fixed another.
    let (given, how) = (noise.clone(), noise.as_ref().and_then(NoiseSpec::calibrated));
    let noise = noise.filter(|_| how.is_none());
    if how.is_some() && context.spec.privacy.and_then(|p| p.epsilon).is_none() {
        return Err(Fault::at(
            "noise",
            "noise: calibrated needs a budget: set epsilon in [privacy], or fix the noise",
        ));
    }
    if let Some(tied) = context.tied {
        protocol = protocol.couple(&tied.coupling)?;
        if gossip.is_some_and(|g| g > 0) {
            return Err(Fault::at(
                "gossip",
                "gossip would mix variables that are not the same thing; leave it out",
            ));
        }
    }
    facts.private = context.spec.privacy.is_some() && noise != Some(NoiseSpec::None);
    let masking = sharing.as_ref().and_then(|s| shared::masking(s, facts.private, graphs));
    if masking.is_some() {
        shared::as_complete(&mut facts);
    }
    let privacy = context.spec.privacy.filter(|_| noise.is_none());
    // Before steps are chosen for a budget that pays for none.
    if privacy.is_some_and(|p| p.epsilon.is_some()) {
        account::bounded(&context.terms)?;
    }
    facts.budget = privacy.and_then(|p| {
        let Terms { objective, bounds, weights, .. } = context.terms;
        if weights.is_empty() {
            budget_per_sensitivity(
                &p,
                objective,
                bounds,
                std::iter::once(context.terms.loudest(&facts)),
            )
        } else {
            budget_per_sensitivity(&p, objective, bounds, context.terms.stakes())
        }
    });
    let together = match &sharing {
        Some(spec) => shared::together(spec, noise.as_ref(), &facts, context, graphs)?,
        None => None,
    };
    if let Some(together) = together {
        // So many of them hide each other: the mean has that many times less variance than if
        // everybody hid itself.
        facts.budget = facts.budget.map(|b| b * (together.company() as f64).sqrt());
    }
    let correlated = match protocol.pairwise(&facts) {
        Some(pairwise) => {
            Correlated::new(pairwise, noise.as_ref(), &facts, &context.terms, graphs)?
        }
        None => None,
    };
    if let Some(correlated) = &correlated {
        facts.budget = facts.budget.map(|b| b * correlated.gain());
    }
    facts.rounds = rounds.unwrap_or_else(|| protocol.default_rounds(&facts)).min(spec::MAX_ROUNDS);
    protocol.resolve(&facts);
    let label = label.unwrap_or_else(|| protocol.kind().to_owned());
    let warning = protocol.check(&facts)?;
    if let Some(spec) = &sharing {
        shared::check(spec, &*protocol, &facts, context)?;
        let key = spec.key();
        if mixing != MixRule::Average {
            let text = format!(
                "mixing needs each vector, and {key} reveals sums alone: leave one of them out"
            );
            return Err(Fault::at("mixing", text));
        }
        if let Some(1..) = gossip {
            let text = format!("gossip has nothing to mix under {key}: leave it out");
            return Err(Fault::at("gossip", text));
        }
    }
    // Averaging and mixing are free after the noise is paid for; without noise they would only slow
    // convergence down.
    let calibrated = facts.private && noise.is_none();
    let tail = tail.unwrap_or(if calibrated { 0.5 } else { 0.0 });
    let gossip = gossip.unwrap_or(if calibrated && context.tied.is_none() && sharing.is_none() {
        account::default_gossip(&facts)
    } else {
        0
    });
    let tail_rounds = ((tail * f64::from(facts.rounds)).round() as u32).max(1);
    let timetable =
        Timetable { rounds: facts.rounds, tail_from: facts.rounds + 1 - tail_rounds, gossip };
    let protocol: Arc<dyn Protocol> = Arc::from(protocol);
    let company = Company { together, correlated };
    let mut account =
        account::plan(&*protocol, noise.as_ref(), how, &facts, &context.terms, graphs, company)?;
    account::correlate(&mut account, &facts, &context.terms)?;
    account.noise_spec = given;
    let sharing = sharing
        .map(|spec| shared::code(&spec, &*protocol, &facts, context, &account))
        .transpose()?;
    if let Some(code) = &sharing {
        shared::distribute(&mut account, masking.is_some(), code, &facts, context)?;
    }
    if let (Some(price), Some(wanted)) =
        (&account.price, context.spec.privacy.and_then(|p| p.adversary))
    {
        account::protects(&price.claim, wanted, facts.agents)?;
    }
    let warnings = warning
        .into_iter()
        .map(|w| format!("{label}: {w}"))
        .chain(account.warnings.iter().cloned())
        .collect();
    Ok((
        Planned {
            reach: range::reach(&*protocol, mixing, &facts, context, &account),
            place: context.place,
            label,
            protocol,
            timetable: Arc::new(timetable),
            account,
            sharing,
            masking,
            mixing,
            staleness,
            scouted: None,
            staged: None,
        },
        warnings,
    ))
}

/// Two algorithms of one name get numbers.
fn distinct_labels(planned: &mut [Planned]) {
    for i in 1..planned.len() {
        let base = planned[i].label.clone();
        let mut count = 1;
        while planned[..i].iter().any(|p| p.label == planned[i].label) {
            count += 1;
            planned[i].label = format!("{base} {count}");
        }
    }
}

pub(super) fn resolved_algorithm(planned: &Planned) -> Parameters {
    let mut table = Parameters::new();
    table.insert("kind".into(), planned.protocol.kind().into());
    table.insert("label".into(), planned.label.clone().into());
    if let Some(staged) = &planned.staged {
        let (rounds, tail, gossip) = staged.timetable();
        table.insert("rounds".into(), i64::from(rounds).into());
        table.insert("tail".into(), tail.into());
        table.insert("gossip".into(), i64::from(gossip).into());
        table.extend(planned.protocol.parameters());
        return table;
    }
    if let Some(scouted) = &planned.scouted {
        // All else follows from public numbers.
        table.insert("rounds".into(), i64::from(scouted.steps()).into());
        table.extend(planned.protocol.parameters());
        return table;
    }
    table.insert("rounds".into(), i64::from(planned.timetable.rounds).into());
    let tail = f64::from(planned.timetable.rounds + 1 - planned.timetable.tail_from)
        / f64::from(planned.timetable.rounds);
    table.insert("tail".into(), tail.into());
    table.insert("gossip".into(), i64::from(planned.timetable.gossip).into());
    table.extend(planned.protocol.parameters());
    table.extend(shared::keys(planned));
    table.extend(range::keys(planned.mixing));
    if planned.staleness > 0 {
        table.insert("staleness".into(), planned.staleness.into());
    }
    if let Some(noise) = &planned.account.noise_spec
        && let Ok(noise) = serde_json::to_value(noise)
    {
        table.insert("noise".into(), noise);
    }
    table
}
