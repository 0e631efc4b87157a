//! From a file to an experiment that can run: everything that can be wrong is found here, and every
//! open choice made.
//!
//! ```text
//! Problem (what is solved, on whose records) ─► Network (graphs) ─► PublicFacts ─► Plan (every algorithm with its account) ─► Experiment
//! ```

use super::division::{shard_counts, shards};
use super::graphs::{facts, given_graphs, graphs};
use super::notes::{loading_notes, loudest_site, notes};
use super::objective::{judge, objective, open_clip, public_shares, site_weights, tie};
use super::own_records;
use super::planned::{Context, Planned, declared_costs, distinct_labels, plan, resolved_algorithm};
use super::problem::CoupledProblem;
use super::questions::{self, Asking, Budget, QuestionKeys, Questionnaire};
use super::rules::{self, Combination};
use super::scouted;
use super::shared;
use super::source::Source;
use super::spec::{self, AlgorithmSpec, ExperimentSpec, SpecError};
use super::sweep;
use crate::account::{self, PricingFacts};
use crate::config_error::ConfigError;
use crate::data::{Dataset, Encoding, RawLayout, Records, RowBounds, Synthetic, SyntheticTask};
use crate::gate::{Noise, RoundNoise, exact};
use crate::graph::{Directed, Graph};
use crate::privacy::Claim;
use crate::problem::weights::SiteWeight;
use crate::problem::{LocalObjective, Loss, Objective, Sensitivity, SiteWeights, WeightRule};
use crate::protocol::{Algorithms, PublicFacts};
use crate::random::{Purpose, Seed};
use crate::record::DelayRecord;
use crate::simulate::Clock;
use consenso_queries::KnownPart;
use rayon::prelude::*;
use std::sync::Arc;

/// An experiment file with what it refers to: the library opens no files itself.
#[derive(Debug)]
pub struct Inputs {
    /// The file's name.
    pub file: String,
    /// Its text, for the lines of errors.
    pub text: String,
    /// What it says.
    pub spec: ExperimentSpec,
    /// The records, or what else the agents have an objective of.
    pub source: Box<dyn Source>,
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
    /// [`ConfigError`]: what is wrong with the graph.
    pub fn first_graph(
        &self,
        agents: usize,
        edges: Option<&(String, String)>,
    ) -> Result<Arc<Graph>, ConfigError> {
        let one = Self { runs: 1, ..self.clone() };
        graphs(&one, agents, &Seed::from(self.seed), edges)?
            .pop()
            .ok_or_else(|| ConfigError::of("there is no run"))
    }

    /// The synthetic problem the file asks for, if it asks for one.
    ///
    /// # Errors
    /// [`ConfigError`]: a missing size.
    pub fn synthetic(&self) -> Option<Result<Synthetic, ConfigError>> {
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
                ConfigError::at(format!("data.{key}"), message)
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
            problem.check().map_err(ConfigError::of)?;
            Ok(problem)
        })())
    }
}

/// A sound experiment.
#[derive(Debug)]
pub struct Experiment {
    pub(super) spec: ExperimentSpec,
    pub(super) source: Arc<dyn Source>,
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
    pub(super) with_references: bool,
    pub(super) graphs: Vec<Arc<Graph>>,
    /// The linear constraint, if the agents share one instead of a model.
    pub(super) coupled: Option<CoupledProblem>,
    /// The raw columns, where they are scouted.
    pub(super) layout: Option<Arc<RawLayout>>,
    pub(super) planned: Vec<Planned>,
    pub(super) trace_every: u32,
    /// The points of a sweep; empty without one.
    pub(super) points: Vec<Experiment>,
    /// Which point of a sweep this is, so that under entropy no two share their noise.
    point: u64,
    pub(super) entropy: Option<Seed>,
    warnings: Vec<String>,
    /// The questions, where the study asks instead of training.
    pub(super) questions: Option<Arc<Questionnaire>>,
}

/// What was read, apart from the spec itself.
#[derive(Clone, Copy)]
struct FileContext<'a> {
    file: &'a str,
    text: &'a str,
    edges: Option<&'a (String, String)>,
    /// A graph in memory, instead of what the spec says.
    graph: Option<&'a Arc<Graph>>,
    entropy: Option<[u8; 32]>,
    /// Records of every agent, when those of one agent alone are here.
    site: Option<&'a [usize]>,
    known: &'a Algorithms,
}

/// Most repetitions: each has a graph of its own before the first one runs.
const MAX_RUNS: u32 = 10_000;

impl FileContext<'_> {
    fn fail(&self, key: &str, message: impl Into<String>) -> SpecError {
        SpecError::at_key(self.file, self.text, key, &message.into(), None)
    }

    /// A fault, at the key it names.
    fn placed(&self, fault: &ConfigError) -> SpecError {
        self.at(fault.key().unwrap_or_default(), fault)
    }

    /// A fault of what this table or key says.
    fn at(&self, key: &str, fault: &ConfigError) -> SpecError {
        SpecError {
            refuses_claim: fault.refuses_claim(),
            help: fault.help().map(str::to_owned),
            ..self.fail(key, fault.message())
        }
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

/// What the objective of every agent is multiplied by, by run. `staged` says that another algorithm
/// follows the one that scouts the columns of `layout`.
fn weights(
    spec: &ExperimentSpec,
    counts: &[Vec<usize>],
    features: usize,
    layout: Option<&RawLayout>,
    staged: bool,
) -> Result<Vec<Vec<f64>>, ConfigError> {
    match layout {
        None => site_weights(spec, counts, features),
        // What scouting itself makes is weighted when it is added up; an algorithm after it has
        // weights in its objective.
        Some(layout) if staged => {
            let mut precise = spec.clone();
            if spec.data.weights.is_open() {
                precise.data.weights = SiteWeights::Rule(WeightRule::Precision);
            }
            site_weights(&precise, counts, layout.features())
        }
        Some(_) => Ok(Vec::new()),
    }
}

/// What the user should know of records from files.
///
/// # Errors
/// Records that cannot be tested on, or divided, as the file asks.
fn records_notes(
    read: &FileContext<'_>,
    spec: &ExperimentSpec,
    data: &Dataset,
) -> Result<Vec<String>, SpecError> {
    let fail = |fault: ConfigError| read.placed(&fault);
    let mut notes = Vec::new();
    // A site judges by what it was given, or not at all: that it starts says nothing.
    if read.site.is_none() {
        let real = read.entropy.is_some();
        notes.extend(own_records::check_test(spec, data, real).map_err(fail)?);
        notes.extend(own_records::check_division(spec, data, real).map_err(fail)?);
    }
    notes.extend(loading_notes(spec, &data.report));
    notes.extend(data.only_class().map(|class| {
        format!("all training records have the label \"{class}\": the model can learn no other")
    }));
    Ok(notes)
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
    coupled: Option<CoupledProblem>,
    /// What the user should know of the records.
    notes: Vec<String>,
    /// How many records one person has at most.
    person: u32,
}

impl Problem {
    fn new(
        read: &FileContext<'_>,
        spec: &ExperimentSpec,
        source: &dyn Source,
        algorithms: &[AlgorithmSpec],
    ) -> Result<Self, SpecError> {
        let fail = |fault: ConfigError| read.placed(&fault);
        let (features, bounds) = (source.features(), source.bounds());
        let mut objective = if source.has_records() {
            objective(spec, source.task()).map_err(fail)?
        } else {
            Objective { loss: Loss::Ridge { clip: f64::INFINITY }, regularization: 0.0 }
        };
        let shares = public_shares(source);
        rules::check_study(&rules::StudyCombination {
            spec,
            source,
            loss: &objective.loss,
            shares: shares.is_some_and(|s| s.iter().all(|&share| share > 0.0)),
            site: read.site.is_some(),
        })
        .map_err(fail)?;
        let (threshold, balanced) = judge(spec, &mut objective.loss, shares).map_err(fail)?;
        let counts = match read.site {
            Some(counts) => vec![counts.to_vec()],
            None => shard_counts(spec, source, &Seed::from(spec.seed))
                .map_err(|fault| read.at(fault.key().unwrap_or("data"), &fault))?,
        };
        let agents = counts[0].len();
        for algorithm in algorithms {
            let can = algorithm.protocol.capabilities();
            let public_bounds = bounds.is_public();
            let complete = false;
            let (directed, averages) = (false, true);
            let asks = Combination {
                spec,
                algorithm,
                can,
                agents,
                complete,
                directed,
                averages,
                public_bounds,
                balanced,
            };
            rules::check_agents(&asks).map_err(fail)?;
        }
        let layout = scouted::layout(spec, source, objective.loss);
        if let Some(inference) = super::inference::asked(spec, objective.loss) {
            inference.check(objective.loss, balanced).map_err(fail)?;
            if layout.is_none() || algorithms.iter().any(scouted::is_staged) {
                let message = "standard errors are found by kind = \"dgd\" or \"decor\" on scouted columns; set data.encoding = \"scouted\" and \
                               one of these, or leave [inference] out";
                return Err(read.fail("inference", message));
            }
        }
        let staged = algorithms.iter().any(scouted::is_staged);
        let weights = weights(spec, &counts, features, layout.as_deref(), staged)
            .map_err(|fault| read.at("weights", &fault))?;
        let mut notes = notes(spec, counts.iter().flatten().copied().min().unwrap_or(0));
        if let Some(data) = source.dataset() {
            notes.extend(records_notes(read, spec, data)?);
        }
        let person = scouted::records_per_person(source);
        if person > 1 && (layout.is_none() || staged) && spec.privacy.is_some() {
            notes.push(format!(
                "the claim is about one record, and a person may have {person}: {person} times as much is known of such a person; \
                 kind = \"dgd\" with data.encoding = \"scouted\" calibrates noise to the person"
            ));
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
            coupled: None,
            notes,
            person,
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
        read: &FileContext<'_>,
        spec: &ExperimentSpec,
        facts: &mut PublicFacts,
    ) -> Result<(), SpecError> {
        self.coupled =
            tie(spec, self.counts[0].len(), facts.dim).map_err(|fault| read.placed(&fault))?;
        if let Some(coupled) = self.coupled.as_ref().filter(|t| !t.costs.is_empty()) {
            facts.dim = coupled.dim;
            (facts.strong_convexity, facts.smoothness) = coupled.curvature;
            facts.coordinate_smoothness = facts.smoothness;
        }
        Ok(())
    }
}

/// Who sends to whom, by run.
struct Network {
    graphs: Vec<Arc<Graph>>,
}

impl Network {
    fn new(
        read: &FileContext<'_>,
        spec: &ExperimentSpec,
        agents: usize,
    ) -> Result<Self, SpecError> {
        let graphs = match read.graph {
            Some(graph) => given_graphs(graph, agents, spec.runs),
            None => graphs(spec, agents, &Seed::from(spec.seed), read.edges),
        }
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
        read: &FileContext<'_>,
        spec: &ExperimentSpec,
        algorithms: Vec<AlgorithmSpec>,
        problem: &Problem,
        network: &Network,
        facts: &mut PublicFacts,
    ) -> Result<Self, SpecError> {
        let Problem { features, bounds, objective, balanced, counts, layout, weights, .. } =
            problem;
        let (coupled, mut warnings) = (problem.coupled.as_ref(), problem.notes.clone());
        let mut planned = Vec::new();
        for (index, algorithm) in algorithms.into_iter().enumerate() {
            let place = |fault: ConfigError| SpecError {
                line: spec::line_of(read.text, index, fault.key()),
                file: read.file.to_owned(),
                message: format!("algorithm {}: {}", index + 1, fault.message()),
                help: fault.help().map(str::to_owned),
                refuses_claim: fault.refuses_claim(),
            };
            rules::check_algorithm(&Combination {
                spec,
                algorithm: &algorithm,
                can: algorithm.protocol.capabilities(),
                agents: facts.agents,
                complete: network.graphs.iter().all(|g| g.is_complete()),
                directed: network.graphs.iter().any(|g| g.directed().is_some()),
                averages: network
                    .graphs
                    .iter()
                    .all(|g| g.directed().is_none_or(Directed::is_balanced)),
                public_bounds: bounds.is_public(),
                balanced: *balanced,
            })
            .map_err(place)?;
            let context = Context {
                place: index as u64 + 1,
                spec,
                terms: PricingFacts {
                    batch: None,
                    privacy: spec.privacy,
                    objective,
                    bounds,
                    counts,
                    weights,
                    weighting: &spec.data.weights,
                    costs: declared_costs(spec, coupled),
                    clipped: spec.data.encoding == Encoding::Scouted,
                    seeded: read.entropy.is_none(),
                },
                balanced: *balanced,
                coupled,
                person: problem.person,
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
        let sums = matches!(problem.objective.loss, Loss::Linear(_));
        if layout.is_none() && !sums && spec.privacy.is_some_and(|p| p.epsilon.is_some()) {
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
        Self::check_with(inputs, None, &Algorithms::builtin(), None)
    }

    /// Checks an experiment with the records of one agent alone in `inputs`; `records` says how many
    /// every agent has, which is public.
    ///
    /// # Errors
    /// The first thing that cannot work, with its place and what to do.
    pub fn check_site(inputs: Inputs, records: &[usize]) -> Result<Self, SpecError> {
        Self::check_with(inputs, Some(records), &Algorithms::builtin(), None)
    }

    /// Checks an experiment whose algorithms may be your own, those of `known` instead of the
    /// built-in ones alone, and whose graph may be one in memory.
    ///
    /// # Errors
    /// The first thing that cannot work, with its place and what to do.
    pub(crate) fn check_among(
        inputs: Inputs,
        known: &Algorithms,
        graph: Option<&Arc<Graph>>,
    ) -> Result<Self, SpecError> {
        Self::check_with(inputs, None, known, graph)
    }

    fn check_with(
        inputs: Inputs,
        site: Option<&[usize]>,
        known: &Algorithms,
        graph: Option<&Arc<Graph>>,
    ) -> Result<Self, SpecError> {
        let Inputs { file, text, spec, source, edges, entropy } = inputs;
        let edges = edges.as_ref();
        let read = FileContext { file: &file, text: &text, edges, graph, entropy, site, known };
        if spec.asks_only() {
            return match Self::check_questions(&read, &spec, source, &[])? {
                Asking::ToAsk(experiment) => Ok(*experiment),
                Asking::Known(_) => {
                    let message = "how many records sites have is announced: there is nothing to ask; add a question about a column";
                    Err(read.fail("query", message))
                }
            };
        }
        let points = sweep::points(&spec).map_err(|fault| read.placed(&fault))?;
        let source: Arc<dyn Source> = Arc::from(source);
        let mut experiment = Self::check_one(&read, spec, Arc::clone(&source), 0)?;
        for (point, spec) in (1..).zip(points) {
            let place = sweep::place(&spec);
            let at_point = |mut e: SpecError| {
                e.message = format!("at the point {place} of the sweep: {}", e.message);
                e
            };
            let source: Arc<dyn Source> = match spec.synthetic() {
                None => Arc::clone(&source),
                Some(problem) => {
                    Arc::new(problem.map_err(|fault| at_point(read.at("data", &fault)))?)
                }
            };
            experiment.points.push(Self::check_one(&read, spec, source, point).map_err(at_point)?);
        }
        Ok(experiment)
    }

    /// Plans the questions of a study that trains nothing; what is `known` already is not released
    /// again.
    fn check_questions(
        read: &FileContext<'_>,
        spec: &ExperimentSpec,
        source: Box<dyn Source>,
        known: &[KnownPart],
    ) -> Result<Asking, SpecError> {
        let fail = |fault: ConfigError| read.placed(&fault);
        let raw = questions::raw_records(source).map_err(fail)?;
        let real_noise = read.entropy.is_some();
        let asking = QuestionKeys { spec, raw: &raw, site: read.site, real_noise, known };
        if let Some(answers) = questions::known(&asking).map_err(fail)? {
            return Ok(Asking::Known(answers));
        }
        let to_ask = |experiment| Ok(Asking::ToAsk(Box::new(experiment)));
        let planned = |epsilon, sigma| -> Result<Self, SpecError> {
            let prepared = questions::prepare(&asking, epsilon, sigma).map_err(fail)?;
            let (one, source) = (prepared.spec.clone(), Arc::clone(&prepared.source));
            let mut experiment = Self::check_one(read, one, source, 0)?;
            experiment.questions = Some(Arc::new(prepared.questionnaire(&experiment)));
            experiment.with_references = false;
            Ok(experiment)
        };
        let precise = spec.query.iter().any(|q| q.precision.is_some());
        let open = "say how much may be spent: [privacy] epsilon, [questions] epsilon, or a precision for every question";
        let epsilon = match questions::budget(spec) {
            Budget::Given(epsilon) if !precise || spec.privacy.is_none() => {
                return to_ask(planned(epsilon, None)?);
            }
            Budget::Given(epsilon) => epsilon,
            Budget::Wanted if !precise => return Err(read.fail("privacy", open)),
            Budget::Wanted => {
                let trial = planned(Some(1.0), None)?;
                let sigma = questions::noise_of_sums(&trial);
                let needed = questions::needed(&asking).map_err(fail)?;
                let delta = spec.privacy.map_or(1e-6, |p| p.delta);
                Some(questions::epsilon_for(needed, sigma[0], delta).map_err(fail)?)
            }
        };
        let sigma = questions::noise_of_sums(&planned(epsilon, None)?);
        to_ask(planned(epsilon, Some(sigma))?)
    }

    /// Checks a study of questions of which some were answered before: what is known is not released
    /// again, and costs nothing.
    ///
    /// # Errors
    /// The first thing that cannot work, with its place and what to do.
    pub fn check_asking(inputs: Inputs, known: &[KnownPart]) -> Result<Asking, SpecError> {
        let Inputs { file, text, spec, source, edges, entropy } = inputs;
        let (algorithms, edges) = (Algorithms::builtin(), edges.as_ref());
        let read = FileContext {
            file: &file,
            text: &text,
            edges,
            graph: None,
            entropy,
            site: None,
            known: &algorithms,
        };
        Self::check_questions(&read, &spec, source, known)
    }

    fn check_one(
        read: &FileContext<'_>,
        mut spec: ExperimentSpec,
        source: Arc<dyn Source>,
        point: u64,
    ) -> Result<Self, SpecError> {
        read.sizes(&spec)?;
        let algorithms = spec.algorithms_of(read.known, read.text, read.file)?;
        let mut problem = Problem::new(read, &spec, &*source, &algorithms)?;
        let network = Network::new(read, &spec, problem.counts[0].len())?;
        let mut facts = network.facts(&spec, &problem);
        problem.settle(&mut spec, &facts);
        problem.tie(read, &spec, &mut facts)?;
        let Plan { planned, warnings, trace_every } =
            Plan::new(read, &spec, algorithms, &problem, &network, &mut facts)?;
        let Problem { objective, threshold, balanced, layout, weights, counts, coupled, .. } =
            problem;
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
            with_references: true,
            graphs: network.graphs,
            coupled,
            layout,
            planned,
            trace_every,
            points: Vec::new(),
            point,
            entropy: read.entropy.map(Seed::from_entropy),
            warnings,
            questions: None,
        })
    }

    /// Returns what is claimed about the privacy of an algorithm, by its place in the file; `None`
    /// where it is not private.
    #[must_use]
    pub fn claim(&self, algorithm: usize) -> Option<Claim> {
        let price = self.planned.get(algorithm)?.account.price.as_ref()?;
        Some(price.claim.clone().within(self.spec.privacy.and_then(|p| p.epsilon)))
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
        site_weight: SiteWeight,
        neighbours: crate::privacy::NeighbourRelation,
    ) -> Sensitivity {
        let declared = self.coupled.as_ref().and_then(|t| t.gradient);
        declared.unwrap_or_else(|| {
            self.objective.sensitivity_of(&self.row_bounds(), site_weight, neighbours)
        })
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
    pub(super) fn site_weight(&self, agent: usize) -> SiteWeight {
        SiteWeight { records: self.counts[agent], weight: self.weight(0, agent) }
    }

    /// Whether the noise comes from the experiment's seed.
    #[must_use]
    pub fn is_seeded(&self) -> bool {
        self.entropy.is_none()
    }

    /// Trains only: no optimum, no objective by round and no figure of test records is computed.
    pub(crate) fn without_references(mut self) -> Self {
        self.with_references = false;
        self
    }

    /// Returns the agents' objectives in repetition `run`, with the records that they are of: as
    /// private as those.
    ///
    /// # Errors
    /// Records that are not in memory, or cannot be divided as asked.
    pub fn locals(&self, run: u32) -> Result<Vec<LocalObjective>, ConfigError> {
        self.locals_of_every(run, 1)
    }

    /// [`Self::locals`] of every `step`-th record of each agent; of all of them where records are
    /// of no data set.
    pub(super) fn locals_of_every(
        &self,
        run: u32,
        step: usize,
    ) -> Result<Vec<LocalObjective>, ConfigError> {
        match self.source.dataset() {
            Some(_) if self.alone => {
                Err(ConfigError::of("the records of the other agents are not here"))
            }
            Some(data) if data.stored.is_some() => {
                Err(ConfigError::of("the records are not in memory"))
            }
            Some(data) if step > 1 => {
                let seed = Seed::from(self.spec.seed).for_run(u64::from(run));
                let shards = shards(&self.spec, data, &seed)?;
                let some =
                    |rows: &[usize]| -> Vec<usize> { rows.iter().copied().step_by(step).collect() };
                let records = shards.iter().map(|shard| data.train.select(&some(&shard.rows)));
                Ok(records.enumerate().map(|(i, r)| self.objective_of(r, run, i)).collect())
            }
            _ => {
                let all: Vec<usize> = (0..self.counts.len()).collect();
                let local = self.source.locals(self, run, &all)?;
                let made: Result<_, _> = all.par_iter().map(|&agent| local(agent)).collect();
                made.map_err(ConfigError::of)
            }
        }
    }

    /// The feature that every row was divided by together with the others, so that dividing by it
    /// undoes the scaling of rows.
    pub(super) fn unscaled_by(&self) -> Option<u32> {
        let encoder = &self.source.dataset()?.encoder;
        encoder.bias().filter(|_| encoder.unit_rows()).map(|b| b as u32)
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

    /// Returns the local objective of an agent with these records, as it counts in repetition `run`.
    #[must_use]
    pub fn objective_of(&self, records: Records, run: u32, agent: usize) -> LocalObjective {
        self.objective_on(records).weighted(self.weight(run, agent))
    }

    /// Returns the records that nobody trains on in repetition `run`, if there are any.
    #[must_use]
    pub fn test_records(&self, run: u32) -> Option<std::borrow::Cow<'_, Records>> {
        if self.coupled.is_some() {
            // A model that serves a common budget is not judged by how well it predicts.
            return None;
        }
        self.source.test(&Seed::from(self.spec.seed).for_run(u64::from(run)))
    }
}
