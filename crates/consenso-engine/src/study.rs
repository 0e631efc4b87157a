//! The front door: from the rows of several sites to models, and to what is claimed about their
//! privacy.
//!
//! A [`Study`] is built from rows in memory or from an experiment file, checked as a whole, and run
//! in the simulator. Rows enter as [`Rows`], which clips them to their public [`Bounds`] or refuses
//! them, so that no claim rests on unchecked rows.

use crate::data::{
    Column, DataError, Dataset, Encoder, Encoding, Format, Grouping, Kind, Label, LoadReport,
    Records, RowBounds, Schema, SchemaError, Table, Task,
};
use crate::experiment::{
    self, ClassWeight, DataSpec, Experiment, ExperimentSpec, Finished, Inputs, ObjectiveSpec,
    Observer, PrivacySpec, RunError, Silent, SpecError,
};
use crate::graph::{Graph, GraphError, GraphSpec};
use crate::kernel;
use crate::model::Model;
use crate::privacy::{Claim, NeighbourRelation};
use crate::problem::proportional::Proportional;
use crate::problem::{Constraint, Loss, LossOptions, SiteWeights};
use crate::protocol::{Algorithms, Parameters, Protocol};
use crate::record::{Record, ResultKind, Shareable};
use serde_json::Value;
use std::rc::Rc;
use std::sync::Arc;

/// What is publicly known about every row, whatever the records are. Never compute it from the
/// records themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    shape: Shape,
    labels: Option<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    Norm { most: f64, intercept: bool },
    Ranges(Vec<(String, f64, f64)>),
}

impl Bounds {
    /// Every row is at most `most` long (Euclidean norm). Rows are used as they are; there is no
    /// intercept.
    #[must_use]
    pub fn norm(most: f64) -> Self {
        Self { shape: Shape::Norm { most, intercept: false }, labels: None }
    }

    /// Every feature lies in its range. Rows are encoded by these ranges, with an intercept.
    #[must_use]
    pub fn ranges(ranges: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let named = ranges
            .into_iter()
            .enumerate()
            .map(|(i, (low, high))| (format!("x{}", i + 1), low, high));
        Self { shape: Shape::Ranges(named.collect()), labels: None }
    }

    /// Every named feature lies in its range.
    #[must_use]
    pub fn named<N: Into<String>>(ranges: impl IntoIterator<Item = (N, f64, f64)>) -> Self {
        let named = ranges.into_iter().map(|(name, low, high)| (name.into(), low, high));
        Self { shape: Shape::Ranges(named.collect()), labels: None }
    }

    /// Adds the range that labels of a regression lie in; −1 to 1 where none is given.
    #[must_use]
    pub fn labels(mut self, low: f64, high: f64) -> Self {
        self.labels = Some((low, high));
        self
    }

    /// Adds a column of ones to rows bounded by their norm.
    #[must_use]
    pub fn with_intercept(mut self) -> Self {
        if let Shape::Norm { intercept, .. } = &mut self.shape {
            *intercept = true;
        }
        self
    }

    fn label_range(&self) -> (f64, f64) {
        self.labels.unwrap_or((-1.0, 1.0))
    }

    fn problem(&self) -> Option<String> {
        let range = |low: f64, high: f64| low < high && low.is_finite() && high.is_finite();
        if let Some((low, high)) = self.labels.filter(|&(low, high)| !range(low, high)) {
            return Some(format!(
                "the range of labels {low} to {high} must go from a number to a larger one"
            ));
        }
        match &self.shape {
            Shape::Norm { most, .. } if !(*most > 0.0 && most.is_finite()) => {
                Some(format!("the norm {most} must be a positive number"))
            }
            Shape::Norm { .. } => None,
            Shape::Ranges(ranges) if ranges.is_empty() => Some("there is no feature".into()),
            Shape::Ranges(ranges) => {
                let (name, low, high) = ranges.iter().find(|r| !range(r.1, r.2))?;
                Some(format!(
                    "{name}: the range {low} to {high} must go from a number to a larger one"
                ))
            }
        }
    }
}

/// The rows and labels of one site, each within the public bounds.
///
/// `Debug` prints the shape, never a value.
#[derive(Clone)]
pub struct Rows {
    bounds: Arc<Bounds>,
    dim: usize,
    /// Row after row.
    values: Arc<Vec<f64>>,
    labels: Arc<[f64]>,
    clipped: usize,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rows(rows={}, features={})", self.len(), self.dim)
    }
}

impl Rows {
    /// Takes rows and labels, and moves what lies outside the bounds inside: rows that are too long
    /// are shortened, features go to the nearest end of their range.
    ///
    /// # Errors
    /// [`StudyError::Rows`] for bounds that bound nothing, rows of several lengths, a number that
    /// is not finite, or no row at all.
    pub fn clip<R: AsRef<[f64]>>(
        rows: impl IntoIterator<Item = R>,
        labels: &[f64],
        bounds: &Bounds,
    ) -> Result<Self, StudyError> {
        Self::read(rows, labels, bounds, None)
    }

    /// Takes rows and labels, and refuses them all if one lies outside the bounds.
    ///
    /// # Errors
    /// As [`Self::clip`], and for the first row outside the bounds. The text names its number: it
    /// is for the records' owner.
    pub fn check<R: AsRef<[f64]>>(
        rows: impl IntoIterator<Item = R>,
        labels: &[f64],
        bounds: &Bounds,
    ) -> Result<Self, StudyError> {
        Self::read(
            rows,
            labels,
            bounds,
            Some("outside the public bounds; clip it with Rows::clip, or widen them"),
        )
    }

    fn read<R: AsRef<[f64]>>(
        rows: impl IntoIterator<Item = R>,
        labels: &[f64],
        bounds: &Bounds,
        refuse: Option<&str>,
    ) -> Result<Self, StudyError> {
        let fail = |message: String| Err(StudyError::Rows(message));
        if let Some(problem) = bounds.problem() {
            return fail(format!("bounds: {problem}"));
        }
        let mut dim =
            if let Shape::Ranges(ranges) = &bounds.shape { Some(ranges.len()) } else { None };
        let (mut values, mut outside) = (Vec::new(), Vec::new());
        for (index, row) in rows.into_iter().enumerate() {
            let (row, number) = (row.as_ref(), index + 1);
            let dim = *dim.get_or_insert(row.len());
            if row.len() != dim || dim == 0 {
                return fail(format!(
                    "row {number} has {} features, not {}",
                    row.len(),
                    dim.max(1)
                ));
            }
            if values.is_empty() {
                // As many as there are labels: a vector that grows would need up to three times the
                // room.
                values.reserve_exact(labels.len().saturating_mul(dim));
            }
            let start = values.len();
            values.extend_from_slice(row);
            // What is looked at is the copy that is kept.
            let row = &mut values[start..];
            if let Some(place) = row.iter().position(|v| !v.is_finite()) {
                return fail(format!(
                    "row {number}, feature {}: {} is not a finite number",
                    place + 1,
                    row[place]
                ));
            }
            if bounds.shape.confine(row) {
                outside.push(index);
                if let Some(refused) = refuse {
                    return fail(format!("row {number} lies {refused}"));
                }
            }
        }
        let dim = dim.unwrap_or(0);
        let rows = values.len() / dim.max(1);
        if rows == 0 {
            return fail("there is no row: a site needs at least one".into());
        }
        if rows != labels.len() {
            return fail(format!("there are {rows} rows and {} labels", labels.len()));
        }
        if let Some(bad) = labels.iter().position(|y| !y.is_finite()) {
            return fail(format!("label {} is {}, not a finite number", bad + 1, labels[bad]));
        }
        let mut labels = labels.to_vec();
        let mut clipped = outside.len();
        if let Some((low, high)) = bounds.labels {
            for (index, label) in
                labels.iter_mut().enumerate().filter(|(_, y)| !(low..=high).contains(*y))
            {
                if let Some(refused) = refuse {
                    return fail(format!("label {} lies {refused}", index + 1));
                }
                *label = label.clamp(low, high);
                clipped += usize::from(outside.binary_search(&index).is_err());
            }
        }
        Ok(Self {
            bounds: Arc::new(bounds.clone()),
            dim,
            values: Arc::new(values),
            labels: labels.into(),
            clipped,
        })
    }

    /// Returns how many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there is no row, which never happens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns how many records were moved inside the bounds, by their row, their label or both. It
    /// depends on the records: it is for their owner.
    #[must_use]
    pub fn clipped(&self) -> usize {
        self.clipped
    }

    fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.dim)
    }

    /// The rows one after the other; their memory is free once the last was used. They may fill
    /// most of it.
    fn let_go(self) -> impl Iterator<Item = Row> {
        let (site, rows) = (Rc::new(self), 0..);
        rows.take(site.len()).map(move |index| Row(Rc::clone(&site), index))
    }
}

/// One row of a site that is let go.
struct Row(Rc<Rows>, usize);

impl AsRef<[f64]> for Row {
    fn as_ref(&self) -> &[f64] {
        let Self(site, index) = self;
        &site.values[index * site.dim..][..site.dim]
    }
}

impl Shape {
    /// Moves a row inside; whether it was outside.
    fn confine(&self, row: &mut [f64]) -> bool {
        match self {
            Self::Norm { most, .. } => {
                let largest = row.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
                let scaled = row.iter().map(|v| (v / largest).powi(2)).sum::<f64>().sqrt();
                let norm = if largest > 0.0 { largest * scaled } else { 0.0 };
                // A rounding error is not a row outside its bounds; the sensitivity has room for it
                // below.
                if norm <= most * (1.0 + NORM_ROOM) {
                    return false;
                }
                row.iter_mut().for_each(|v| *v = *v / largest * (most / scaled));
                true
            }
            Self::Ranges(ranges) => {
                let mut outside = false;
                for (value, (_, low, high)) in row.iter_mut().zip(ranges) {
                    outside |= *value < *low || *value > *high;
                    *value = value.clamp(*low, *high);
                }
                outside
            }
        }
    }
}

/// How much longer than its bound a row of a million features can be by rounding alone, generously;
/// part of every sensitivity.
const NORM_ROOM: f64 = 1e-9;

/// How rows become what a model is multiplied with.
#[derive(Clone, Debug)]
enum Encode {
    Ranged { encoder: Box<Encoder>, ranges: Vec<(f64, f64)> },
    Plain { shape: Shape, dim: usize },
}

impl Encode {
    fn dim(&self) -> usize {
        match self {
            Self::Ranged { encoder, .. } => encoder.dim(),
            Self::Plain { shape, dim } => dim + usize::from(shape.intercept()),
        }
    }

    fn encode(&self, row: &[f64], out: &mut [f64]) {
        match self {
            Self::Ranged { encoder, ranges } => {
                let inside: Vec<f64> =
                    row.iter().zip(ranges).map(|(v, r)| v.clamp(r.0, r.1)).collect();
                out.fill(0.0);
                encoder.encode(&inside, out);
            }
            Self::Plain { shape, dim } => {
                out[..*dim].copy_from_slice(row);
                if shape.intercept() {
                    out[*dim] = 1.0;
                }
            }
        }
    }
}

impl Shape {
    fn intercept(&self) -> bool {
        matches!(self, Self::Norm { intercept: true, .. })
    }
}

/// Who talks to whom in a study: a graph, the result of making one, or a description that is built
/// for as many sites as there are.
#[derive(Debug)]
pub enum Topology {
    /// This graph.
    Fixed(Graph),
    /// A kind of graph.
    Kind(GraphSpec),
    /// A graph that could not be made; [`Study::run`] says why.
    Failed(GraphError),
}

impl From<Graph> for Topology {
    fn from(graph: Graph) -> Self {
        Self::Fixed(graph)
    }
}

impl From<GraphSpec> for Topology {
    fn from(kind: GraphSpec) -> Self {
        Self::Kind(kind)
    }
}

impl From<Result<Graph, GraphError>> for Topology {
    fn from(made: Result<Graph, GraphError>) -> Self {
        made.map_or_else(Self::Failed, Self::Fixed)
    }
}

/// A decentralized training that can be run: sites with their rows, a loss, a graph, a budget and
/// an algorithm.
///
/// ```
/// # use consenso_engine as consenso;
/// use consenso::{Bounds, Graph, Loss, Rows, Study, protocol::Dgd};
///
/// let bounds = Bounds::ranges([(0.0, 100.0)]);
/// let site = || Rows::clip([[10.0], [35.0], [60.0], [90.0]], &[-1.0, -1.0, 1.0, 1.0], &bounds);
/// let sites = [site()?, site()?, site()?];
/// let fitted = Study::new(&sites, Loss::Logistic)
///     .graph(Graph::complete(sites.len()))
///     .algorithm(Dgd::default())
///     .run()?;
/// assert_eq!(fitted.predict(&[[5.0], [95.0]])?, [-1.0, 1.0]);
/// assert!(fitted.claim().is_none(), "no budget, no claim");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Study {
    input: Input,
    spec: ExperimentSpec,
    topology: Option<Topology>,
    algorithms: Algorithms,
    /// Which data sets the budget makes indistinguishable, where the caller says so.
    neighbours: Option<NeighbourRelation>,
    /// Keys of the algorithm's table.
    settings: Vec<(String, Value)>,
    noise: Noise,
    /// Secret bytes of the caller's own, instead of the operating system's.
    entropy: Option<[u8; 32]>,
    /// A call that has no place in such a study, and what to do instead.
    misplaced: Option<(&'static str, &'static str)>,
    /// Whether the encoding was chosen by the caller.
    encoded: bool,
    /// Whether models are compared with what the records could give at best.
    with_references: bool,
}

#[derive(Debug)]
enum Input {
    Rows { sites: Vec<Rows>, names: Vec<String>, test: Option<Rows>, loss: Loss },
    File(Box<Inputs>),
    Opened(Open),
}

/// Opens the records of a study once all else is said.
struct Open(Box<dyn FnOnce(ExperimentSpec) -> Result<Inputs, experiment::CallerError> + Send>);

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Open")
    }
}

/// Where the noise of a study comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// From the operating system, so that the claim holds; no run can be repeated.
    Os,
    /// From a seed, with everything else that is random: a run repeats bit for bit, for science.
    /// The claim says that it holds only for a run on noise of the operating system.
    Seed(u64),
}

/// Builds a study from an experiment file that was read, with the records it names.
///
/// Records of one's own get noise of the operating system, bundled and synthetic ones that of the
/// file's seed; [`Study::noise`] says otherwise.
impl From<Inputs> for Study {
    fn from(inputs: Inputs) -> Self {
        let (spec, entropy) = (inputs.spec.clone(), inputs.entropy);
        let own = inputs.source.is_private(&spec);
        let noise = if own || entropy.is_some() { Noise::Os } else { Noise::Seed(spec.seed) };
        let encoded = true;
        Self { noise, entropy, encoded, ..Self::of(Input::File(Box::new(inputs)), spec) }
    }
}

impl Study {
    /// Begins a study of the rows of each site; all must have the same bounds. Without further
    /// words everybody talks to everybody, the algorithm is `dgd`, and nothing is private. Under a
    /// [budget](Self::budget) `dgd` with open parameters scouts columns with ranges first, which is
    /// what works on features of any scale and on sites of any size; see [`Self::encoding`].
    pub fn new(sites: &[Rows], loss: Loss) -> Self {
        let (kind, LossOptions { clip, huber_delta, dispersion, quantile, intervals }) =
            loss.name();
        let class_weight = match loss {
            Loss::WeightedLogistic { negative, positive, .. }
            | Loss::WeightedSquaredHinge { negative, positive, .. } => {
                Some(ClassWeight::Given([negative, positive]))
            }
            _ => None,
        };
        let objective = ObjectiveSpec {
            loss: kind,
            clip,
            huber_delta,
            dispersion,
            quantile,
            intervals,
            class_weight,
            ..ObjectiveSpec::default()
        };
        let spec = ExperimentSpec {
            data: DataSpec { partition: Some(by_file()), ..DataSpec::default() },
            objective,
            ..ExperimentSpec::named("study")
        };
        let names = (1..=sites.len()).map(|i| format!("site {i}")).collect();
        Self::of(Input::Rows { sites: sites.to_vec(), names, test: None, loss }, spec)
    }

    /// Begins a study whose records `open` opens once all else is said: it gets the study as an
    /// experiment, with the encoding that was chosen. Noise is the operating system's.
    pub fn opening(
        spec: ExperimentSpec,
        open: impl FnOnce(ExperimentSpec) -> Result<Inputs, experiment::CallerError> + Send + 'static,
    ) -> Self {
        Self::of(Input::Opened(Open(Box::new(open))), spec)
    }

    fn of(input: Input, spec: ExperimentSpec) -> Self {
        Self {
            input,
            spec,
            topology: None,
            algorithms: Algorithms::builtin(),
            neighbours: None,
            settings: Vec::new(),
            noise: Noise::Os,
            entropy: None,
            misplaced: None,
            encoded: false,
            with_references: true,
        }
    }

    /// Sets who talks to whom.
    pub fn graph(mut self, graph: impl Into<Topology>) -> Self {
        self.topology = Some(graph.into());
        self
    }

    /// Sets the privacy budget of every site: noise is calibrated so that the whole transcript is
    /// (ε, δ)-differentially private.
    pub fn budget(mut self, epsilon: f64, delta: f64) -> Self {
        let open = PrivacySpec {
            epsilon: None,
            delta,
            neighbours: NeighbourRelation::default(),
            mechanism: None,
            accounting: experiment::Accounting::default(),
            adversary: None,
        };
        let said = self.spec.privacy.unwrap_or(open);
        self.spec.privacy = Some(PrivacySpec { epsilon: Some(epsilon), delta, ..said });
        self
    }

    /// Sets which data sets the budget makes indistinguishable. Without a budget
    /// [`Self::check`] and [`Self::run`] refuse it.
    pub fn neighbours(mut self, neighbours: NeighbourRelation) -> Self {
        self.neighbours = Some(neighbours);
        self
    }

    /// Sets the algorithm, one of this library's or your own; what it leaves open is chosen from
    /// public quantities.
    pub fn algorithm<P: Protocol + Clone + 'static>(mut self, algorithm: P) -> Self {
        let mut table = (&algorithm as &dyn Protocol).parameters();
        table.insert("kind".into(), algorithm.kind().into());
        self.algorithms = self.algorithms.with(algorithm.kind(), move |_| Ok(algorithm.clone()));
        self.spec.algorithm = vec![table];
        self
    }

    /// Sets a key of the algorithm's table, such as `rounds`, `gossip` or `exchange`, whichever
    /// algorithm is set, before or after.
    pub fn setting(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.settings.push((key.to_owned(), value.into()));
        self
    }

    /// Sets the algorithm as an experiment file writes it.
    pub fn algorithm_table(mut self, table: Parameters) -> Self {
        self.spec.algorithm = vec![table];
        self
    }

    /// Adds kinds of algorithm that [`Self::algorithm_table`] and experiment files may name.
    pub fn algorithms(mut self, known: Algorithms) -> Self {
        self.algorithms = self.algorithms.and(known);
        self
    }

    /// Sets μ of the regulariser (μ/2)‖x‖², 0.001 by default.
    pub fn regularization(mut self, regularization: f64) -> Self {
        self.spec.objective.regularization = regularization;
        self
    }

    /// Sets the set that models must lie in.
    pub fn constraint(mut self, constraint: Constraint) -> Self {
        self.spec.objective.constraint = constraint;
        self
    }

    /// Sets how rows with ranges are encoded, instead of [`Encoding::Scouted`] where a budget and
    /// `dgd` allow it and [`Encoding::OneHot`] elsewhere.
    pub fn encoding(mut self, encoding: Encoding) -> Self {
        (self.spec.data.encoding, self.encoded) = (encoding, true);
        self
    }

    /// Asks for standard errors, intervals of this level and p-values of all coefficients, which
    /// [`Fitted::model_file`] has: `0.95` for intervals that cover in 95 of 100 studies. Rows need
    /// ranges, and the algorithm is `dgd` on scouted columns.
    pub fn inference(mut self, level: f64) -> Self {
        self.spec.inference.get_or_insert_default().level = level;
        self
    }

    /// Asks for predictions beside outcomes as well, where [`Self::inference`] was asked for: a
    /// release of its own, with a twentieth of the budget.
    pub fn calibration(mut self) -> Self {
        self.spec.inference.get_or_insert_default().calibration = true;
        self
    }

    /// Sets how much each site counts. Where columns are scouted it is by precision, a function of
    /// announced sizes and budget, by default; elsewhere all sites count the same by default.
    pub fn weights(mut self, weights: SiteWeights) -> Self {
        self.spec.data.weights = weights;
        self
    }

    /// Draws everything from a seed, so that a run repeats bit for bit: for science. The claim then
    /// says that it holds only for a run on noise of the operating system, which is the default.
    pub fn seed(self, seed: u64) -> Self {
        self.noise(Noise::Seed(seed))
    }

    /// Sets where the noise comes from: the operating system, unless somebody says otherwise.
    pub fn noise(mut self, noise: Noise) -> Self {
        (self.noise, self.entropy) = (noise, None);
        self
    }

    /// Draws the noise from these secret bytes instead of asking the operating system for some.
    /// Never use them twice.
    pub fn entropy(mut self, bytes: [u8; 32]) -> Self {
        (self.noise, self.entropy) = (Noise::Os, Some(bytes));
        self
    }

    /// Adds public rows that the models are tested on; the record then has an accuracy.
    pub fn test(mut self, rows: Rows) -> Self {
        match &mut self.input {
            Input::Rows { test, .. } => *test = Some(rows),
            _ => self.misplaced = Some(("test", "name a file of test records: data.test")),
        }
        self
    }

    /// Sets the names of the sites, in order.
    pub fn names<N: Into<String>>(mut self, given: impl IntoIterator<Item = N>) -> Self {
        match &mut self.input {
            Input::Rows { names, .. } => *names = given.into_iter().map(Into::into).collect(),
            _ => {
                let instead = "sites are called after their files, or after data.partition";
                self.misplaced = Some(("names", instead));
            }
        }
        self
    }

    /// Trains and nothing else: the record has models, parameters and claims, and neither the
    /// optimum without privacy nor the objective by round nor figures of test rows, which need the
    /// records once more and take as long as a fit.
    pub fn without_references(mut self) -> Self {
        self.with_references = false;
        self
    }

    /// Checks everything and makes every open choice, without running.
    ///
    /// # Errors
    /// The first thing that cannot work, and what to do.
    pub fn check(self) -> Result<Experiment, StudyError> {
        Ok(self.prepare()?.0)
    }

    /// Checks everything and runs it.
    ///
    /// # Errors
    /// The first thing that cannot work, and what to do.
    pub fn run(self) -> Result<Fitted, StudyError> {
        self.run_watched(&Silent)
    }

    /// Checks everything and runs it while `observer` draws progress, counts seconds or cancels.
    ///
    /// # Errors
    /// As [`Self::run`], and [`StudyError::Cancelled`].
    pub fn run_watched(self, observer: &dyn Observer) -> Result<Fitted, StudyError> {
        self.run_charged(observer, |_| Ok(()))
    }

    /// Checks everything, hands it to `charge`, and runs it if that agrees: whoever keeps a budget
    /// books [`Experiment::cost`] there, before anything is released.
    ///
    /// # Errors
    /// As [`Self::run_watched`], and [`RunError::Caller`] with what `charge` says.
    pub fn run_charged(
        self,
        observer: &dyn Observer,
        charge: impl FnOnce(&Experiment) -> Result<(), experiment::CallerError>,
    ) -> Result<Fitted, StudyError> {
        let rows_in_memory = match &self.input {
            Input::Rows { test, .. } => Some(test.is_some()),
            Input::File(_) | Input::Opened(_) => None,
        };
        let with_references = self.with_references;
        let (mut experiment, mut encode, loss) = self.prepare()?;
        if !with_references {
            experiment = experiment.without_references();
        }
        charge(&experiment).map_err(RunError::Caller)?;
        let mut finished = experiment::run(&experiment, observer)?;
        if finished.models.is_empty() {
            return Err(StudyError::Cancelled);
        }
        if let Some(public_test) = rows_in_memory {
            // Rows that a caller brings are somebody's records, unlike bundled ones.
            finished.record.kind = match (experiment.is_seeded(), experiment.cost()) {
                (true, _) => ResultKind::Seeded,
                (false, Err(_)) => ResultKind::Unprotected,
                (false, Ok(_)) => ResultKind::Shareable { public_test },
            };
        }
        let file = finished.model_files(&experiment).into_iter().next().map(|(_, file)| file);
        let shared = finished.models[0].agents.iter().enumerate();
        let own = |(site, held): (usize, &Vec<f64>)| Some(experiment.personal_model(site, held)?.0);
        let personal = experiment.agent_names().into_iter().zip(shared.map_while(own)).collect();
        if let Some(Encode::Ranged { encoder, .. }) = &mut encode
            && experiment.spec().data.encoding == Encoding::Scouted
        {
            // Agents hold what was scouted beside the coefficients; a caller gets an encoder and
            // coefficients on its features.
            for models in &mut finished.models {
                for model in &mut models.agents {
                    if let Some((found, x)) = experiment.fitted(&models.label, model) {
                        (**encoder, *model) = (found, x);
                    }
                }
                // All have the same model.
                models.mean.clone_from(&models.agents[0]);
            }
        }
        Ok(Fitted { claim: experiment.claim(0), finished, encode, loss, file, personal })
    }

    fn prepare(mut self) -> Result<(Experiment, Option<Encode>, Option<Loss>), StudyError> {
        let graph = self.settle()?;
        let entropy = self.entropy;
        let (inputs, encode, loss) = match self.input {
            Input::File(mut inputs) => {
                (inputs.spec, inputs.entropy) = (self.spec, entropy);
                (*inputs, None, None)
            }
            Input::Opened(open) => {
                if !self.encoded && self.spec.leaves_encoding_open() {
                    self.spec.data.encoding = Encoding::Scouted;
                }
                let inputs = (open.0)(self.spec).map_err(StudyError::Open)?;
                (Inputs { entropy, ..inputs }, None, None)
            }
            Input::Rows { sites, names, test, loss } => {
                let ranged =
                    sites.first().is_some_and(|s| matches!(s.bounds.shape, Shape::Ranges(_)));
                let scouts = self.spec.inference.is_some() || self.spec.leaves_encoding_open();
                if ranged && !self.encoded && scouts {
                    self.spec.data.encoding = Encoding::Scouted;
                }
                let (data, encode) =
                    dataset(sites, &names, test.as_ref(), loss, self.spec.data.encoding)?;
                // Under a claim one record must not decide whether there is a run.
                if self.spec.privacy.is_none() && loss.classifies() {
                    let labels = data.train.labels();
                    if labels.iter().all(|y| *y == labels[0]) {
                        let message =
                            format!("all labels are {}: two classes are needed", labels[0]);
                        return Err(StudyError::Rows(message));
                    }
                }
                let inputs = Inputs {
                    file: self.spec.name.clone(),
                    text: String::new(),
                    spec: self.spec,
                    source: Box::new(data),
                    edges: None,
                    entropy,
                };
                (inputs, Some(encode), Some(loss))
            }
        };
        let known = &self.algorithms;
        Ok((Experiment::check_among(inputs, known, graph.as_ref())?, encode, loss))
    }

    /// Brings together what calls said, in whatever order they came: neighbours and settings go
    /// where they belong, noise has its source. Returns a graph that was given as it is.
    fn settle(&mut self) -> Result<Option<Arc<Graph>>, StudyError> {
        if let Some((call, instead)) = self.misplaced {
            return Err(StudyError::Misplaced { call, instead });
        }
        if let Some(neighbours) = self.neighbours.take() {
            let instead = "call budget too: neighbours are of a budget";
            let call = "neighbours";
            let privacy = self.spec.privacy.as_mut();
            privacy.ok_or(StudyError::Misplaced { call, instead })?.neighbours = neighbours;
        }
        for (key, value) in self.settings.drain(..) {
            for algorithm in &mut self.spec.algorithm {
                algorithm.insert(key.clone(), value.clone());
            }
        }
        match self.noise {
            Noise::Seed(seed) => self.spec.seed = seed,
            Noise::Os if self.entropy.is_none() && self.spec.privacy.is_some() => {
                let mut bytes = [0; 32];
                getrandom::fill(&mut bytes).map_err(StudyError::Entropy)?;
                self.entropy = Some(bytes);
            }
            Noise::Os => {}
        }
        match self.topology.take() {
            None => Ok(None),
            Some(Topology::Failed(error)) => Err(error.into()),
            Some(Topology::Kind(kind)) => {
                self.spec.graph = kind;
                Ok(None)
            }
            Some(Topology::Fixed(graph)) => {
                self.spec.graph =
                    GraphSpec::File { path: "the study's graph".into(), directed: false };
                Ok(Some(Arc::new(graph)))
            }
        }
    }
}

fn by_file() -> experiment::PartitionSpec {
    experiment::PartitionSpec::By("file".into())
}

/// The rows of all sites as one data set, divided by site, and how to encode further rows.
fn dataset(
    sites: Vec<Rows>,
    names: &[String],
    test: Option<&Rows>,
    loss: Loss,
    encoding: Encoding,
) -> Result<(Dataset, Encode), StudyError> {
    let fail = |message: String| StudyError::Rows(message);
    let first = sites.first().ok_or_else(|| fail("there is no site".into()))?;
    if names.len() != sites.len() {
        return Err(fail(format!("there are {} names for {} sites", names.len(), sites.len())));
    }
    let (bounds, features) = (Arc::clone(&first.bounds), first.dim);
    let different = |site: &&Rows| *site.bounds != *bounds || site.dim != features;
    if sites.iter().chain(test).any(|site| different(&site)) {
        return Err(fail("all sites need the same public bounds and as many features".into()));
    }
    for site in sites.iter().chain(test) {
        check_labels(loss, &site.labels)?;
    }
    let task = loss.task(bounds.label_range());
    let classes: Vec<String> = match task {
        Task::Binary => vec!["-1".into(), "1".into()],
        Task::MultiClass { classes } => (0..classes).map(|c| c.to_string()).collect(),
        Task::Regression { .. } => Vec::new(),
    };
    let codes =
        (0..).zip(&sites).flat_map(|(i, site)| std::iter::repeat_n(i, site.len())).collect();
    let grouping = Grouping { column: "file".into(), names: names.to_vec(), codes };
    let (mut data, encode) = match &bounds.shape {
        Shape::Ranges(ranges) => {
            let label = match task {
                Task::Regression { min, max } => Label::Range { min, max },
                _ => Label::Classes(classes),
            };
            let mut columns: Vec<Column> = ranges
                .iter()
                .map(|(name, min, max)| Column::new(name, Kind::Numeric { min: *min, max: *max }))
                .collect();
            columns.push(Column::new(label_name(ranges), Kind::Label(label)));
            let schema = Schema::new(columns, Format::default(), true)?;
            let labels: Vec<f64> = sites.iter().flat_map(|s| s.labels.iter().copied()).collect();
            let rows = sites.into_iter().flat_map(Rows::let_go);
            let table = Table::from_rows(&schema, "rows in memory", rows, &labels)?;
            let test = test
                .map(|t| Table::from_rows(&schema, "test rows", t.rows(), &t.labels))
                .transpose()?;
            let data = Dataset::new(vec![table], test.as_ref(), encoding)?;
            let encoder = Box::new(data.encoder.clone());
            (data, Encode::Ranged { encoder, ranges: ranges.iter().map(|r| (r.1, r.2)).collect() })
        }
        shape @ Shape::Norm { most, intercept } => {
            let encode = Encode::Plain { shape: shape.clone(), dim: features };
            let (dim, rows) = (encode.dim(), sites.iter().map(Rows::len).sum::<usize>());
            let records = |all: Vec<Rows>| {
                let mut records = Records::with_capacity(dim, all.iter().map(Rows::len).sum());
                let mut out = vec![0.0; dim];
                for site in all {
                    for (row, label) in site.rows().zip(site.labels.iter()) {
                        encode.encode(row, &mut out);
                        records.push(&out, *label);
                    }
                }
                records.compressed()
            };
            let label = match task {
                Task::Regression { min, max } => Label::Range { min, max },
                _ => Label::Classes(classes.clone()),
            };
            let numeric =
                |i| Column::new(format!("x{i}"), Kind::Numeric { min: -most, max: *most });
            let mut columns: Vec<Column> = (1..=dim).map(numeric).collect();
            columns.push(Column::new("label", Kind::Label(label)));
            let schema = Schema::new(columns, Format::default(), true)?;
            let data = Dataset {
                source: "rows in memory".into(),
                train: Arc::new(records(sites)),
                test: test.map(|t| records(vec![t.clone()])),
                bounds: norm_bounds(*most, *intercept, features),
                task,
                classes,
                features: (1..=dim).map(|i| format!("x{i}")).collect(),
                encoding: Encoding::Numeric,
                encoder: Encoder::new(&schema, Encoding::Numeric)?,
                schema,
                person: None,
                groupings: Vec::new(),
                report: LoadReport { rows: rows as u64, ..LoadReport::default() },
                test_report: None,
                test_sites: None,
                test_groupings: Vec::new(),
                elsewhere: None,
                stored: None,
            };
            (data, encode)
        }
    };
    data.groupings = vec![grouping];
    data.source = "rows in memory".into();
    Ok((data, encode))
}

/// A name for the label that no feature has.
fn label_name(ranges: &[(String, f64, f64)]) -> String {
    let mut name = "label".to_owned();
    while ranges.iter().any(|r| r.0 == name) {
        name.push('_');
    }
    name
}

/// Bounds of rows of `dim` features that are at most `most` long, rounded up.
fn norm_bounds(most: f64, intercept: bool, dim: usize) -> RowBounds {
    let up = |x: f64| (x * (1.0 + 2.0 * NORM_ROOM)).next_up();
    let one = f64::from(u8::from(intercept));
    RowBounds::declared(
        up(most * (dim as f64).sqrt() + one),
        up(libm::hypot(most, one)),
        up(most.max(one)),
    )
}

fn check_labels(loss: Loss, labels: &[f64]) -> Result<(), StudyError> {
    let wrong = |index: usize, not: &str| {
        StudyError::Rows(format!("label {} is {}, not {not}", index + 1, labels[index]))
    };
    match loss {
        loss if loss.is_binary() => {
            let bad = labels.iter().position(|y| y.abs() != 1.0);
            bad.map_or(Ok(()), |i| Err(wrong(i, "−1 or 1")))
        }
        Loss::Softmax { classes } | Loss::Ordinal { classes } => {
            let class = |y: f64| y >= 0.0 && y < classes as f64 && y.fract() == 0.0;
            let bad = labels.iter().position(|y| !class(*y));
            let range = format!("one of 0 to {}", classes.saturating_sub(1));
            bad.map_or(Ok(()), |i| Err(wrong(i, &range)))
        }
        _ => Ok(()),
    }
}

/// What a study trained: a model for every site, and what is claimed about it.
#[derive(Clone, Debug)]
pub struct Fitted {
    claim: Option<Claim>,
    finished: Finished,
    encode: Option<Encode>,
    loss: Option<Loss>,
    file: Option<Model>,
    personal: Vec<(String, Model)>,
}

impl Fitted {
    /// Returns the model of every site, in order.
    #[must_use]
    pub fn models(&self) -> &[Vec<f64>] {
        &self.finished.models[0].agents
    }

    /// Returns the mean of the sites' models, which [`Self::predict`] uses: it is made of releases,
    /// and costs nothing.
    #[must_use]
    pub fn model(&self) -> &[f64] {
        &self.finished.models[0].mean
    }

    /// Returns what is claimed about privacy; `None` without a budget.
    #[must_use]
    pub fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Returns everything that happened: parameters, curves, metrics on test rows. Much of it is
    /// exact, and as private as the rows.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.finished.record
    }

    /// Returns the part of the record that may be shared: functions of charged releases and of
    /// public facts. `None` unless the noise was the operating system's and the algorithm has a
    /// claim.
    #[must_use]
    pub fn shareable(&self) -> Option<Shareable> {
        Shareable::of(&self.finished.record)
    }

    /// Returns the model as the file that the command line writes and reads: schema, encoding,
    /// names, weights and claim. `None` where it did not end with finite numbers.
    #[must_use]
    pub fn model_file(&self) -> Option<&Model> {
        self.file.as_ref()
    }

    /// Returns the name and the personal model of every site where the study says
    /// `models = "personal"`; nothing otherwise. Each is an exact function of its site's records,
    /// which no claim covers: for that site alone.
    #[must_use]
    pub fn personal_models(&self) -> &[(String, Model)] {
        &self.personal
    }

    /// Returns the record and all models.
    #[must_use]
    pub fn into_finished(self) -> Finished {
        self.finished
    }

    /// Returns a prediction for every row, in the terms of the labels: −1 or 1, a class, or a
    /// number.
    ///
    /// # Errors
    /// A row of another length than those of training, or a study that was not of rows in memory.
    pub fn predict<R: AsRef<[f64]>>(&self, rows: &[R]) -> Result<Vec<f64>, StudyError> {
        let scores = self.scores(rows)?;
        let decide = |scores: &[f64]| match self.loss {
            Some(loss) if loss.is_binary() => {
                if scores[0] > 0.0 {
                    1.0
                } else {
                    -1.0
                }
            }
            Some(Loss::Ordinal { classes }) => {
                let odds = Proportional::Odds { classes }.probabilities(scores);
                (0..classes).max_by(|&a, &b| odds[a].total_cmp(&odds[b])).unwrap_or(0) as f64
            }
            // The probability of an event within all intervals.
            Some(Loss::Hazards { intervals }) => {
                let survived = Proportional::Hazards { intervals }.probabilities(scores);
                1.0 - survived.last().copied().unwrap_or(1.0)
            }
            Some(Loss::Softmax { .. }) => {
                let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
                best.unwrap_or(0) as f64
            }
            Some(loss) => loss.mean(scores[0]),
            None => scores[0],
        };
        Ok(scores.chunks_exact(self.loss.map_or(1, |l| l.outputs())).map(decide).collect())
    }

    /// Returns zᵀx of every row, one number per row, or one per class for softmax: row after row.
    ///
    /// # Errors
    /// As [`Self::predict`].
    pub fn scores<R: AsRef<[f64]>>(&self, rows: &[R]) -> Result<Vec<f64>, StudyError> {
        let (Some(encode), Some(loss)) = (&self.encode, self.loss) else {
            let text = "this study came from a file; predict with its model file";
            return Err(StudyError::Rows(text.into()));
        };
        let (features, dim) = (self.features(), encode.dim());
        let mut encoded = vec![0.0; dim];
        let mut scores = Vec::with_capacity(rows.len() * loss.outputs());
        for (index, row) in rows.iter().enumerate() {
            let row = row.as_ref();
            if row.len() != features {
                let text = format!("row {} has {} features, not {features}", index + 1, row.len());
                return Err(StudyError::Rows(text));
            }
            if let Some(bad) = row.iter().find(|v| !v.is_finite()) {
                return Err(StudyError::Rows(format!(
                    "row {}: {bad} is not a finite number",
                    index + 1
                )));
            }
            encode.encode(row, &mut encoded);
            scores.extend(self.model().chunks_exact(dim).map(|x| kernel::dot(x, &encoded)));
        }
        Ok(scores)
    }

    /// Returns the probability of every row's label being 1, or for softmax of each class, row after
    /// row.
    ///
    /// # Errors
    /// As [`Self::predict`], and for a loss that gives no probabilities.
    pub fn probabilities<R: AsRef<[f64]>>(&self, rows: &[R]) -> Result<Vec<f64>, StudyError> {
        let mut scores = self.scores(rows)?;
        match self.loss {
            Some(loss) if loss.is_logistic() => {
                scores.iter_mut().for_each(|s| *s = 1.0 / (1.0 + libm::exp(-*s)));
            }
            Some(Loss::Softmax { classes }) => {
                for row in scores.chunks_exact_mut(classes.max(1)) {
                    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    row.iter_mut().for_each(|s| *s = libm::exp(*s - most));
                    let all: f64 = row.iter().sum();
                    row.iter_mut().for_each(|s| *s /= all);
                }
            }
            _ => {
                let text = "this loss gives no probabilities: use Loss::Logistic or Loss::Softmax";
                return Err(StudyError::Rows(text.into()));
            }
        }
        Ok(scores)
    }

    fn features(&self) -> usize {
        match &self.encode {
            Some(Encode::Plain { dim, .. }) => *dim,
            Some(Encode::Ranged { ranges, .. }) => ranges.len(),
            None => 0,
        }
    }
}

/// Why a study cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// Rows, labels or bounds are not as they should be.
    #[error("{0}")]
    Rows(String),
    /// Records cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Bounds do not make a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The graph cannot be made.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// What was asked for does not fit together.
    #[error(transparent)]
    Spec(SpecError),
    /// It fits together, but the privacy that was asked for cannot be promised: no noise keeps the
    /// budget, or nothing bounds what one record can change.
    #[error(transparent)]
    Claim(SpecError),
    /// A call has no place in a study like this one.
    #[error("{call} has no place in this study: {instead}")]
    Misplaced {
        /// The method.
        call: &'static str,
        /// What to do instead.
        instead: &'static str,
    },
    /// Its records cannot be opened.
    #[error(transparent)]
    Open(experiment::CallerError),
    /// The run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The observer cancelled the run before a model was trained.
    #[error("the run was cancelled")]
    Cancelled,
    /// Without entropy no noise protects anybody.
    #[error("the operating system gave no entropy: {0}")]
    Entropy(getrandom::Error),
}

impl From<SpecError> for StudyError {
    fn from(error: SpecError) -> Self {
        if error.refuses_claim { Self::Claim(error) } else { Self::Spec(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Dgd;

    fn sites(bounds: &Bounds, count: usize) -> Vec<Rows> {
        let site = |i: usize| {
            let rows: Vec<[f64; 2]> = (i..i + 600)
                .map(|k| [(k * 7 % 101) as f64 / 100.0, (k * 13 % 97) as f64 / 96.0])
                .collect();
            let labels: Vec<f64> =
                rows.iter().map(|r| if r[0] > 0.5 { 1.0 } else { -1.0 }).collect();
            Rows::clip(&rows, &labels, bounds).unwrap()
        };
        (0..count).map(site).collect()
    }

    #[test]
    fn rows_are_clipped_or_refused_and_never_let_through() {
        let norm = Bounds::norm(1.0);
        let long = Rows::clip([[3.0, 4.0], [0.6, 0.8]], &[1.0, -1.0], &norm).unwrap();
        assert_eq!(
            (&long.values[..], long.clipped()),
            (&[0.6000000000000001, 0.8, 0.6, 0.8][..], 1)
        );
        assert!(
            Rows::check([[3.0, 4.0]], &[1.0], &norm).unwrap_err().to_string().contains("row 1")
        );
        let huge = Rows::clip([[1e300, -1e300]], &[1.0], &norm).unwrap();
        assert!(huge.values.iter().map(|v| v * v).sum::<f64>() <= 1.0 + 1e-12);
        // A label that was clamped counts too, and a record once.
        let labelled = Bounds::norm(1.0).labels(0.0, 1.0);
        let moved = Rows::clip([[3.0], [0.5], [2.0], [0.1]], &[0.5, 7.0, -1.0, 0.2], &labelled);
        assert_eq!(moved.unwrap().clipped(), 3);
        let ranges = Bounds::ranges([(0.0, 1.0), (-2.0, 2.0)]).labels(0.0, 1.0);
        let inside = Rows::clip([[7.0, -9.0]], &[5.0], &ranges).unwrap();
        assert_eq!((&inside.values[..], inside.labels[0]), (&[1.0, -2.0][..], 1.0));
        for bad in [f64::NAN, f64::INFINITY] {
            assert!(Rows::clip([[bad, 0.0]], &[1.0], &norm).is_err());
            assert!(Rows::clip([[0.0, 0.0]], &[bad], &norm).is_err());
            assert!(Rows::clip([[0.0]], &[1.0], &Bounds::norm(bad)).is_err());
        }
        assert!(Rows::clip::<[f64; 1]>([], &[], &norm).is_err());
        assert!(Rows::clip([vec![1.0], vec![1.0, 2.0]], &[1.0, 1.0], &norm).is_err());
    }

    #[test]
    fn a_seed_repeats_a_study_and_entropy_does_not() {
        let sites = sites(&Bounds::ranges([(0.0, 1.0); 2]), 3);
        let study = || Study::new(&sites, Loss::Logistic).graph(Graph::ring(3)).budget(1.0, 1e-6);
        let seeded = |seed| study().seed(seed).run().unwrap();
        assert_eq!(seeded(1).models(), seeded(1).models());
        assert_ne!(seeded(1).models(), seeded(2).models());
        let (one, other) = (study().run().unwrap(), study().run().unwrap());
        assert_ne!(one.models(), other.models());
        assert!(one.claim().unwrap().epsilon <= 1.0);
        assert!(seeded(1).claim().unwrap().to_string().contains("seeded"));
        let shared = one.shareable().unwrap().value().to_string();
        assert!(
            shared.contains("claim")
                && !shared.contains("objective\":")
                && !shared.contains("curve")
        );
        assert_eq!(
            seeded(1).shareable(),
            None,
            "noise that somebody can draw again protects nothing"
        );
        let open = Study::new(&sites, Loss::Logistic).run().unwrap();
        assert_eq!((open.record().kind, open.shareable()), (ResultKind::Seeded, None));
        assert!(!one.claim().unwrap().to_string().contains("seeded"));
    }

    #[test]
    fn a_wrong_input_a_refused_claim_and_a_failed_run_are_told_apart() {
        struct Full;
        impl Observer for Full {
            fn begins(&self, _: experiment::Place) -> Result<(), experiment::CallerError> {
                Err("the disk is full".into())
            }
        }
        let sites = sites(&Bounds::norm(2.0), 3);
        let study = || Study::new(&sites, Loss::Logistic).seed(1);
        let negative = study().budget(-1.0, 1e-6).run().unwrap_err();
        assert!(
            matches!(&negative, StudyError::Spec(e) if e.message.contains("positive")),
            "{negative}"
        );
        let tiny = || {
            study().budget(1e-7, 1e-6).algorithm(crate::protocol::PenaltyPerturbation::default())
        };
        let refused = tiny().run().unwrap_err();
        assert!(
            matches!(&refused, StudyError::Claim(e) if e.message.contains("does not even pay for")),
            "{refused}"
        );
        let failed = study().budget(1.0, 1e-6).run_watched(&Full).unwrap_err();
        assert!(matches!(&failed, StudyError::Run(RunError::Caller(_))), "{failed}");
        assert_eq!(failed.to_string(), "the disk is full");
    }

    /// Under a budget the front door scouts: a column that fills a thousandth of its range is
    /// found, and three sites of very different size give one model whose coefficients go with the
    /// encoder that was found.
    #[test]
    fn a_budget_scouts_columns_with_ranges() {
        let bounds = Bounds::ranges([(0.0, 40.0), (-500.0, 500.0)]);
        let site = |rows: usize| {
            let row = |k: usize| [(k * 7 % 101) as f64 / 100.0, 4.0 * (k * 13 % 97) as f64 / 96.0];
            let rows: Vec<[f64; 2]> = (0..rows).map(row).collect();
            let labels: Vec<f64> =
                rows.iter().map(|r| if r[0] > 0.5 { 1.0 } else { -1.0 }).collect();
            Rows::clip(&rows, &labels, &bounds).unwrap()
        };
        let sites = [site(40), site(700), site(9000)];
        let study =
            || Study::new(&sites, Loss::Logistic).graph(Graph::path(3)).budget(1.0, 1e-6).seed(3);
        let fitted = study().run().unwrap();
        assert_eq!(fitted.model().len(), 3);
        assert!(fitted.models().iter().all(|m| m == fitted.model()), "one model for all");
        assert_eq!(
            fitted.predict(&[[0.1, 2.0], [0.9, 2.0], [0.1, 0.1]]).unwrap(),
            [-1.0, 1.0, -1.0]
        );
        assert!(fitted.claim().unwrap().epsilon <= 1.0);
        assert!(fitted.claim().unwrap().caveats.iter().any(|c| c.contains("scouts the columns")));
        let plain = study().encoding(Encoding::OneHot).run().unwrap();
        assert!(plain.claim().unwrap().caveats.iter().all(|c| !c.contains("scouts")));
    }

    #[test]
    fn without_references_the_models_are_the_same_and_nothing_exact_is_computed() {
        let named = Bounds::named([("a", -1.0, 1.0), ("b", -1.0, 1.0)]);
        for (bounds, test) in [(Bounds::norm(1.0), true), (named, false)] {
            let rows = sites(&bounds, 3);
            let tested = Rows::clip([[0.31, 0.2], [0.83, 0.4]], &[-1.0, 1.0], &bounds).unwrap();
            let study = || {
                let study = Study::new(&rows, Loss::Logistic).budget(2.0, 1e-6).seed(5);
                if test { study.test(tested.clone()) } else { study }
            };
            let (full, bare) =
                (study().run().unwrap(), study().without_references().run().unwrap());
            assert_eq!((full.models(), full.model()), (bare.models(), bare.model()));
            assert_eq!(full.model_file(), bare.model_file());
            assert_eq!(
                full.claim().map(ToString::to_string),
                bare.claim().map(ToString::to_string)
            );
            let (full, bare) = (full.record(), bare.record());
            assert!(
                full.algorithms[0].objective.is_finite() && !full.algorithms[0].curve.is_empty()
            );
            assert!(bare.algorithms[0].objective.is_nan() && bare.algorithms[0].curve.is_empty());
            assert!(
                bare.baselines.central_optimum_objective.is_nan()
                    && bare.algorithms[0].metrics.is_none()
            );
        }
    }

    #[test]
    fn the_order_of_calls_does_not_matter() {
        let sites = sites(&Bounds::norm(2.0), 3);
        let study = || Study::new(&sites, Loss::Logistic).seed(4);
        let one = study()
            .budget(2.0, 1e-6)
            .neighbours(NeighbourRelation::ZeroOut)
            .algorithm(Dgd::default())
            .setting("rounds", 7);
        let other = study()
            .setting("rounds", 7)
            .neighbours(NeighbourRelation::ZeroOut)
            .algorithm(Dgd::default())
            .budget(2.0, 1e-6);
        let (one, other) = (one.run().unwrap(), other.run().unwrap());
        assert_eq!(one.record().algorithms[0].rounds, 7);
        assert_eq!(other.record().algorithms[0].rounds, 7);
        assert_eq!(one.claim().unwrap().neighbours, NeighbourRelation::ZeroOut);
        assert_eq!(one.models(), other.models());
        let unpaid = study().neighbours(NeighbourRelation::ZeroOut).run().unwrap_err();
        assert!(unpaid.to_string().contains("call budget"), "{unpaid}");
    }

    /// What people copy must not make noise that everybody can draw again.
    #[test]
    fn records_of_ones_own_have_no_seeded_default() {
        let rows = sites(&Bounds::ranges([(0.0, 1.0); 2]), 3);
        let made = || {
            let encoding = Encoding::OneHot;
            let names = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
            let (data, _) = dataset(rows.clone(), &names, None, Loss::Logistic, encoding).unwrap();
            let mut spec = ExperimentSpec::named("own");
            spec.data.path = Some("own.csv".into());
            spec.data.partition = Some(by_file());
            let source = Box::new(data);
            let (file, text) = ("own.toml".to_owned(), String::new());
            Study::from(Inputs { file, text, spec, source, edges: None, entropy: None })
        };
        let fitted = made().budget(1.0, 1e-6).run().unwrap();
        assert!(!fitted.claim().unwrap().to_string().contains("seeded"));
        assert_ne!(fitted.models(), made().budget(1.0, 1e-6).run().unwrap().models());
        let seeded = || made().budget(1.0, 1e-6).noise(Noise::Seed(7)).run().unwrap();
        assert_eq!(seeded().models(), seeded().models());
        let misplaced = made().test(rows[0].clone()).run().unwrap_err();
        assert!(misplaced.to_string().contains("data.test"), "{misplaced}");
        assert!(made().names(["a", "b", "c"]).run().is_err());
    }

    #[test]
    fn probabilities_agree_with_predictions() {
        let sites = sites(&Bounds::norm(2.0).with_intercept(), 2);
        let fitted = Study::new(&sites, Loss::Logistic).run().unwrap();
        let rows = [[0.1, 0.4], [0.9, 0.4], [0.45, 0.9]];
        let (sure, said) = (fitted.probabilities(&rows).unwrap(), fitted.predict(&rows).unwrap());
        for (p, y) in sure.iter().zip(said) {
            assert!((0.0..=1.0).contains(p) && (*p > 0.5) == (y > 0.0), "{p} {y}");
        }
    }

    #[test]
    fn one_site_alone_descends_and_is_claimed() {
        let sites = sites(&Bounds::norm(2.0).with_intercept(), 1);
        let fitted = Study::new(&sites, Loss::Logistic)
            .algorithm(Dgd::default())
            .budget(8.0, 1e-6)
            .run()
            .unwrap();
        assert_eq!(fitted.models().len(), 1);
        assert_eq!(fitted.model().len(), 3);
        assert!(fitted.claim().unwrap().epsilon <= 8.0);
        assert_eq!(fitted.predict(&[[0.0, 0.5], [1.0, 0.5]]).unwrap(), [-1.0, 1.0]);
        assert!(fitted.predict(&[[0.0]]).is_err());
    }

    #[test]
    fn what_does_not_fit_together_is_an_error() {
        let sites = sites(&Bounds::ranges([(0.0, 1.0); 2]), 3);
        let text = |study: Study| study.run().unwrap_err().to_string();
        assert!(text(Study::new(&[], Loss::Logistic)).contains("no site"));
        assert!(text(Study::new(&sites, Loss::Softmax { classes: 3 })).contains("label"));
        assert!(
            text(Study::new(&sites, Loss::Logistic).graph(Graph::complete(1)))
                .contains("at least 2")
        );
        assert!(text(Study::new(&sites, Loss::Logistic).graph(Graph::ring(4))).contains("agent"));
        assert!(text(Study::new(&sites, Loss::Logistic).budget(-1.0, 1e-6)).contains("epsilon"));
        // Scouted columns need no clip; rows that are used as they are do.
        let ridge = Study::new(&sites, Loss::Ridge { clip: f64::INFINITY }).budget(1.0, 1e-6);
        assert!(text(ridge.encoding(Encoding::OneHot)).contains("clip"));
        let other = Rows::clip([[0.1, 0.2]], &[1.0], &Bounds::norm(1.0)).unwrap();
        assert!(
            text(Study::new(&[sites[0].clone(), other], Loss::Logistic))
                .contains("same public bounds")
        );
    }
}
