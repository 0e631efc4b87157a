//! `consenso._core`: what the Python package `consenso` asks of the library.
//!
//! Arrays of C-ordered float64 are read where numpy has them, everything else crosses the border as
//! JSON; the pure-Python layer in `python/consenso` makes both. Long work runs on a thread of its
//! own while the caller's thread, without the interpreter's lock, looks for Ctrl-C and reports
//! progress.

mod budget;
mod gate;
mod threads;

use consenso_engine::Loss;
use consenso_engine::data::{self, ColumnValues, DraftOptions, Kind, Table, Unknown};
use consenso_engine::experiment::{
    self, Experiment, Job, Observer, Part, Piece, Share, put_together, run_pieces,
};
use consenso_engine::gate::exact::{self, Grid, Noise};
use consenso_engine::graph::GraphSpec;
use consenso_engine::privacy::calibrate::{
    NoiseKind, Request, calibrate as calibrated, complete_sensitivity,
};
use consenso_engine::privacy::{
    NeighbourRelation, Sampling, compose as composed, mixture, parse_events,
};
use consenso_engine::random::{Purpose, Seed};
use consenso_engine::study::{Bounds, Rows, Study, StudyError};
use consenso_study::bundled::adult_tables;
use consenso_study::frames::{self, AskNoise, FrameColumns, FrameError, Frames, NewRecords};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::json;
use std::borrow::Cow;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Records are read from memory once per round: huge pages make that faster.
#[global_allocator]
static ALLOCATOR: consenso_memory::HugePages = consenso_memory::HugePages;

create_exception!(consenso, ConsensoError, PyException, "A run failed; the text says why.");
create_exception!(
    consenso,
    InputError,
    PyValueError,
    "Something given is not as it should be; the text says what to do."
);

fn input(error: impl std::fmt::Display) -> PyErr {
    InputError::new_err(error.to_string())
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    ConsensoError::new_err(error.to_string())
}

/// What a run on another thread tells the caller's, and the other way round.
struct Watch {
    began: Instant,
    cancelled: AtomicBool,
    done: AtomicU64,
    /// Exchanges there will be; 0 where nobody knows yet.
    total: AtomicU64,
    /// Whether the total is known from the beginning.
    fixed: bool,
    stage: Mutex<String>,
}

impl Watch {
    fn new(total: Option<u64>) -> Self {
        Self {
            began: Instant::now(),
            cancelled: AtomicBool::new(false),
            done: AtomicU64::new(0),
            total: AtomicU64::new(total.unwrap_or(0)),
            fixed: total.is_some(),
            stage: Mutex::default(),
        }
    }

    fn report(&self) -> (u64, u64, String) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed), stage)
    }
}

impl Observer for Watch {
    fn stage(&self, name: &str, exchanges: u64) {
        name.clone_into(&mut self.stage.lock().unwrap_or_else(PoisonError::into_inner));
        if !self.fixed {
            self.total.fetch_add(exchanges, Ordering::Relaxed);
        }
    }

    fn advanced(&self, exchanges: u64) {
        self.done.fetch_add(exchanges, Ordering::Relaxed);
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread of its own, without the interpreter's lock; Ctrl-C cancels it,
/// `progress(done, total, stage)` is called about ten times a second.
fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Py<PyAny>>,
    watch: &Watch,
    work: impl FnOnce(&dyn Observer) -> Result<T, PyErr> + Send,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let _ = sender.send(threads::on_ours(|| work(watch)).and_then(|done| done));
        });
        let mut stopped: Option<PyErr> = None;
        let result = loop {
            let received = py.detach(|| {
                let receiver = receiver.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
                receiver.recv_timeout(Duration::from_millis(100))
            });
            match received {
                Ok(result) => break result,
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(PyRuntimeError::new_err("consenso failed inside; please report it"));
                }
                Err(RecvTimeoutError::Timeout) if stopped.is_some() => {}
                Err(RecvTimeoutError::Timeout) => {
                    let told = progress.map(|p| p.call1(py, watch.report()));
                    if let Err(error) = py.check_signals().and(told.transpose().map(|_| ())) {
                        watch.cancelled.store(true, Ordering::Relaxed);
                        stopped = Some(error);
                    }
                }
            }
        };
        // A thread that panicked must not take this one along.
        let _ = py.detach(|| worker.join());
        if let (None, Some(progress)) = (&stopped, progress) {
            progress.call1(py, watch.report())?;
        }
        stopped.map_or(result, Err)
    })
}

/// What an estimator asks for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fit {
    loss: Loss,
    dim: usize,
    /// Rows of every site, in order.
    counts: Vec<usize>,
    names: Vec<String>,
    norm: f64,
    intercept: bool,
    /// How columns are scaled before their norm counts; as they are without.
    #[serde(default)]
    scale: Option<Scale>,
    /// Public ranges of the columns, instead of a norm.
    #[serde(default)]
    ranges: Option<Vec<(String, f64, f64)>>,
    #[serde(default)]
    labels: Option<(f64, f64)>,
    epsilon: Option<f64>,
    delta: f64,
    neighbours: NeighbourRelation,
    graph: GraphSpec,
    algorithm: serde_json::Map<String, serde_json::Value>,
    regularization: f64,
    seed: Option<u64>,
    /// Level of the intervals, if standard errors are asked for.
    #[serde(default)]
    inference: Option<f64>,
}

/// Columns become (value − centre)/width, within [−1, 1] where `clamp` is set.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    centre: Vec<f64>,
    width: Vec<f64>,
    clamp: bool,
}

impl Scale {
    fn row(&self, row: &[f64]) -> Vec<f64> {
        let scaled =
            row.iter().zip(self.centre.iter().zip(&self.width)).map(|(v, (c, w))| (v - c) / w);
        if self.clamp { scaled.map(|v| v.clamp(-1.0, 1.0)).collect() } else { scaled.collect() }
    }
}

/// The numbers of an array that lies in memory row after row, where they are.
fn contiguous<'a, D: numpy::ndarray::Dimension, T: numpy::Element>(
    array: &'a numpy::PyReadonlyArray<'_, T, D>,
) -> PyResult<&'a [T]> {
    array
        .as_slice()
        .map_err(|_| input("an array is not contiguous: numpy.ascontiguousarray makes it so"))
}

/// A study of rows that stay where Python has them; each site's are copied once, when they are
/// clipped.
fn study(fit: &Fit, rows: &[f64], labels: &[f64], order: Option<&[i64]>) -> Result<Study, PyErr> {
    let total: usize = fit.counts.iter().sum();
    if fit.dim == 0
        || rows.len() != total * fit.dim
        || labels.len() != total
        || order.is_some_and(|o| o.len() != total)
    {
        return Err(input("rows, labels and sites do not have the same length"));
    }
    let at = |place: usize| {
        let row = order.map_or(place, |o| usize::try_from(o[place]).unwrap_or(usize::MAX));
        if row < total {
            Ok(row)
        } else {
            Err(input("the order of the rows leads outside of them"))
        }
    };
    let mut bounds = match &fit.ranges {
        Some(ranges) => Bounds::named(ranges.iter().map(|(name, low, high)| (name, *low, *high))),
        None if fit.intercept => Bounds::norm(fit.norm).with_intercept(),
        None => Bounds::norm(fit.norm),
    };
    if let Some((low, high)) = fit.labels {
        bounds = bounds.labels(low, high);
    }
    let mut start = 0;
    let mut sites = Vec::with_capacity(fit.counts.len());
    for (count, name) in fit.counts.iter().zip(&fit.names) {
        let own = (start..start + count).map(at).collect::<Result<Vec<usize>, _>>()?;
        start += count;
        let labels: Vec<f64> = own.iter().map(|&i| labels[i]).collect();
        let row = |&i: &usize| {
            let row = &rows[i * fit.dim..(i + 1) * fit.dim];
            fit.scale.as_ref().map_or(Cow::Borrowed(row), |scale| Cow::Owned(scale.row(row)))
        };
        sites.push(
            Rows::clip(own.iter().map(row), &labels, &bounds)
                .map_err(|e| input(format!("site \"{name}\": {e}")))?,
        );
    }
    let mut study = Study::new(&sites, fit.loss)
        .graph(fit.graph.clone())
        .names(fit.names.iter().map(String::as_str))
        .regularization(fit.regularization)
        .algorithm_table(fit.algorithm.clone());
    if let Some(epsilon) = fit.epsilon {
        // What the records could give at best is no part of a private fit: it would take as long
        // again.
        study = study.budget(epsilon, fit.delta).neighbours(fit.neighbours).without_references();
    }
    if let Some(level) = fit.inference {
        study = study.inference(level);
    }
    Ok(match fit.seed {
        Some(seed) => study.seed(seed),
        None => study,
    })
}

/// Fits models on the rows of several sites; see `consenso._estimators`. Rows are read where numpy
/// has them. `charge` is called with what the fit costs, as JSON, before anything is released.
#[pyfunction]
#[pyo3(signature = (options, rows, labels, order, progress, charge=None))]
fn fit(
    py: Python<'_>,
    options: &str,
    rows: PyReadonlyArray2<'_, f64>,
    labels: PyReadonlyArray1<'_, f64>,
    order: Option<PyReadonlyArray1<'_, i64>>,
    progress: Option<Py<PyAny>>,
    charge: Option<Py<PyAny>>,
) -> PyResult<String> {
    let fit: Fit = serde_json::from_str(options).map_err(input)?;
    let (rows, labels) = (contiguous(&rows)?, contiguous(&labels)?);
    let order = order.as_ref().map(contiguous).transpose()?;
    watched(py, progress.as_ref(), &Watch::new(None), move |observer| {
        charged(study(&fit, rows, labels, order)?, observer, charge.as_ref())
    })
}

/// Fits models on tables under a schema, given as the task of an experiment; without a seed the
/// noise is the operating system's. `charge` is called as for `fit`.
#[pyfunction]
#[pyo3(signature = (task, seed, judged, progress, charge=None))]
fn fit_tables(
    py: Python<'_>,
    task: Task,
    seed: Option<u64>,
    judged: bool,
    progress: Option<Py<PyAny>>,
    charge: Option<Py<PyAny>>,
) -> PyResult<String> {
    watched(py, progress.as_ref(), &Watch::new(None), move |observer| {
        let study = task.frames()?.study(seed).map_err(caused)?;
        let study = if judged { study } else { study.without_references() };
        charged(study, observer, charge.as_ref())
    })
}

/// Asks for statistics of tables under a schema, in one exchange; `charge` is called as for `fit`.
#[pyfunction]
#[pyo3(signature = (task, questions, seed, progress, charge=None))]
fn ask(
    py: Python<'_>,
    task: Task,
    questions: Vec<String>,
    seed: Option<u64>,
    progress: Option<Py<PyAny>>,
    charge: Option<Py<PyAny>>,
) -> PyResult<String> {
    let noise = match seed {
        Some(seed) => AskNoise::Seed(seed),
        None => AskNoise::Entropy(entropy()?),
    };
    watched(py, progress.as_ref(), &Watch::new(None), move |observer| {
        let (refused, charge) = (Mutex::new(None), charge.as_ref());
        task.frames()?
            .ask(&questions, noise, observer, |experiment| agreed(charge, experiment, &refused))
            .map(|answers| answers.to_string())
            .map_err(|error| {
                let own = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
                own.unwrap_or_else(|| match error {
                    FrameError::Run(_) | FrameError::Unanswered => failed(error),
                    error => caused(error),
                })
            })
    })
}

/// Has `charge` agree to what a study costs; what it says instead is kept as it was.
fn agreed(
    charge: Option<&Py<PyAny>>,
    experiment: &Experiment,
    refused: &Mutex<Option<PyErr>>,
) -> Result<(), experiment::CallerError> {
    let (Some(charge), Some(cost)) = (charge, frames::cost(experiment)) else { return Ok(()) };
    Python::attach(|py| charge.call1(py, (cost.to_string(),))).map(drop).map_err(|error| {
        let text = error.to_string();
        *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        text.into()
    })
}

/// Runs a study once `charge` has agreed to what it costs.
fn charged(study: Study, observer: &dyn Observer, charge: Option<&Py<PyAny>>) -> PyResult<String> {
    let refused = Mutex::new(None);
    let before = |experiment: &Experiment| agreed(charge, experiment, &refused);
    let fitted = study.run_charged(observer, before).map_err(|error| {
        let own = refused.lock().unwrap_or_else(PoisonError::into_inner).take();
        own.unwrap_or_else(|| study_error(error))
    })?;
    Ok(frames::answer(&fitted).to_string())
}

/// Applies a model file to the text of a table, or to columns; see `consenso_study::frames`.
#[pyfunction]
#[pyo3(signature = (model, name, text, agent, unknown, interval = None, columns = None))]
#[expect(clippy::too_many_arguments, reason = "those of Python's")]
fn predict(
    py: Python<'_>,
    model: &str,
    name: &str,
    text: &[u8],
    agent: Option<&str>,
    unknown: &str,
    interval: Option<f64>,
    columns: Option<Py<Columns>>,
) -> PyResult<String> {
    let columns = columns.map(|columns| columns.borrow_mut(py).take()).transpose()?;
    let records = match &columns {
        Some(given) => NewRecords::Columns(&given.columns),
        None => NewRecords::Text(text),
    };
    let known = Unknown::ALL.into_iter().find(|policy| policy.name() == unknown);
    let unknown = known.ok_or_else(|| {
        input(format!("unknown=\"{unknown}\" must be \"error\", \"ignore\" or \"other\""))
    })?;
    let answer = || frames::predict(model, name, records, agent, unknown, interval).map_err(caused);
    Ok(py.detach(|| threads::on_ours(answer))??.to_string())
}

/// Drafts a schema from the text of a table: its TOML and what deserves a look.
#[pyfunction]
#[pyo3(signature = (name, text, label, site, positive))]
fn draft(
    py: Python<'_>,
    name: &str,
    text: &[u8],
    label: Option<String>,
    site: Option<String>,
    positive: Option<String>,
) -> PyResult<(String, Vec<String>)> {
    let options = DraftOptions { label, site, positive, ..DraftOptions::default() };
    py.detach(|| threads::on_ours(|| frames::draft(name, text, &options)))?.map_err(caused)
}

/// An error with what caused it.
fn caused(error: impl std::error::Error) -> PyErr {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    input(text)
}

fn study_error(error: StudyError) -> PyErr {
    match error {
        StudyError::Run(_) | StudyError::Entropy(_) => failed(error),
        error => input(error),
    }
}

/// What an experiment is made from: its name, its TOML text, and the files it names as (name,
/// content).
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Task {
    file: String,
    text: String,
    files: Vec<(String, Vec<u8>)>,
    #[pyo3(default)]
    columns: Option<Py<Columns>>,
    schema: Option<String>,
    test: Option<(String, Vec<u8>)>,
    edges: Option<(String, String)>,
    #[pyo3(default)]
    spare: Option<String>,
}

impl Task {
    /// What the library reads; columns are handed over and gone from Python.
    fn frames(self) -> PyResult<Frames> {
        let Self { file, text, files, columns, schema, test, edges, spare } = self;
        let columns = columns.map(|columns| Python::attach(|py| columns.borrow_mut(py).take()));
        let columns = columns.transpose()?;
        Ok(Frames { file, text, files, columns, schema, test, edges, spare })
    }
}

/// The columns of a frame on their way to the library, and which of its rows each file would have.
#[pyclass]
#[derive(Default)]
struct Columns {
    columns: Vec<(String, ColumnValues)>,
    files: Vec<(String, Vec<u32>)>,
}

#[pymethods]
impl Columns {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Adds a column of numbers, NaN where one is missing; `plain` says whether whole ones are
    /// written without a decimal point.
    fn numbers(
        &mut self,
        name: String,
        values: PyReadonlyArray1<'_, f64>,
        plain: bool,
    ) -> PyResult<()> {
        let values = contiguous(&values)?.to_vec();
        self.columns.push((name, ColumnValues::Numbers { values, plain }));
        Ok(())
    }

    /// Adds a column of words by their codes; 2^32 − 1 where one is missing.
    fn words(
        &mut self,
        name: String,
        words: Vec<String>,
        codes: PyReadonlyArray1<'_, u32>,
    ) -> PyResult<()> {
        let codes = contiguous(&codes)?.to_vec();
        self.columns.push((name, ColumnValues::Words { words, codes }));
        Ok(())
    }

    /// Says which rows a file has.
    fn file(&mut self, name: String, rows: PyReadonlyArray1<'_, u32>) -> PyResult<()> {
        self.files.push((name, contiguous(&rows)?.to_vec()));
        Ok(())
    }
}

impl Columns {
    fn take(&mut self) -> PyResult<FrameColumns> {
        let Self { columns, files } = std::mem::take(self);
        let columns = data::Columns::new(columns).map_err(input)?;
        let outside = |rows: &Vec<u32>| rows.iter().any(|&row| row as usize >= columns.rows());
        if files.iter().any(|(_, rows)| outside(rows)) {
            return Err(input("the rows of a file lead outside of the frame"));
        }
        Ok(FrameColumns { columns, files })
    }
}

impl Task {
    fn check(self, entropy: Option<[u8; 32]>) -> PyResult<Experiment> {
        Experiment::check(self.frames()?.inputs(entropy).map_err(caused)?).map_err(input)
    }
}

fn finished(finished: &experiment::Finished) -> String {
    let model =
        |m: &experiment::Trained| json!({ "label": m.label, "agents": m.agents, "mean": m.mean });
    let models: Vec<_> = finished.models.iter().map(model).collect();
    json!({ "record": finished.record, "models": models }).to_string()
}

/// Runs an experiment and returns the record and the models as JSON.
#[pyfunction]
fn run(
    py: Python<'_>,
    task: Task,
    os_entropy: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let entropy = if os_entropy { Some(entropy()?) } else { None };
    let experiment = py.detach(|| threads::on_ours(|| task.check(entropy)))??;
    watched(py, progress.as_ref(), &Watch::new(Some(experiment.exchanges())), |observer| {
        let done = experiment::run(&experiment, observer).map_err(failed)?;
        Ok(finished(&done))
    })
}

/// Returns how many shares an experiment can be divided into: its runs at every point of a sweep.
#[pyfunction]
fn shares(py: Python<'_>, task: Task) -> PyResult<usize> {
    let experiment = py.detach(|| threads::on_ours(|| task.check(None)))??;
    Ok(experiment.places(None).iter().filter(|p| p.part == Part::RunReferences).count())
}

/// Does one share of an experiment, from 1, and returns its pieces; see `merge`.
#[pyfunction]
fn share<'py>(
    py: Python<'py>,
    task: Task,
    index: u32,
    of: u32,
    os_entropy: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let share =
        Share::new(index, of).ok_or_else(|| input(format!("share {index} of {of} is none")))?;
    let entropy = if os_entropy { Some(entropy()?) } else { None };
    let experiment = py.detach(|| threads::on_ours(|| task.check(entropy)))??;
    let pieces = watched(py, None, &Watch::new(None), |observer| {
        let job = Job { share: Some(share), ..Job::default() };
        let (pieces, _) = run_pieces(&experiment, job, observer).map_err(failed)?;
        postcard::to_stdvec(&pieces).map_err(|e| ConsensoError::new_err(e.to_string()))
    })?;
    Ok(PyBytes::new(py, &pieces))
}

/// Puts the shares of an experiment together: the record of one run, bit for bit.
#[pyfunction]
fn merge(py: Python<'_>, task: Task, shares: Vec<Vec<u8>>, os_entropy: bool) -> PyResult<String> {
    // Nothing is drawn here: the experiment only says what noise it was that its shares drew.
    let entropy = if os_entropy { Some(entropy()?) } else { None };
    let merged = || {
        let experiment = task.check(entropy)?;
        let mut pieces = Vec::new();
        for bytes in &shares {
            let part: Vec<Piece> = postcard::from_bytes(bytes)
                .map_err(|e| input(format!("a share is not of this version: {e}")))?;
            pieces.extend(part);
        }
        Ok(finished(&put_together(&experiment, pieces, false)))
    };
    py.detach(|| threads::on_ours(merged))?
}

fn entropy() -> PyResult<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|e| {
        ConsensoError::new_err(format!("the operating system gave no entropy: {e}"))
    })?;
    Ok(bytes)
}

/// Returns the text of a built-in experiment.
#[pyfunction]
fn built_in(name: &str) -> Option<&'static str> {
    consenso_study::experiment::built_in(name)
}

/// Returns (name, one line about it) of every built-in experiment.
#[pyfunction]
fn built_ins() -> Vec<(&'static str, &'static str)> {
    consenso_study::experiment::BUILT_IN.iter().map(|e| (e.0, e.1)).collect()
}

/// Returns what releases cost together, by every method.
#[pyfunction]
fn compose(py: Python<'_>, events: &str, delta: f64) -> PyResult<String> {
    let events = parse_events(events).map_err(input)?;
    let found = py.detach(|| threads::on_ours(|| composed(&events, delta)))?.map_err(input)?;
    let mut value = json!(found);
    value["best"] = json!(found.best().map(|(method, epsilon)| json!({
        "method": method.name(), "epsilon": epsilon, "theorem": method.theorem() })));
    Ok(value.to_string())
}

/// Returns the least noise that keeps a schedule of releases within a budget.
#[pyfunction]
#[pyo3(signature = (epsilon, delta, rounds, dim, l1, l2, linf, mechanism, sampling=None, neighbours=None))]
#[expect(clippy::too_many_arguments, reason = "the Python layer calls it, by keyword")]
fn calibrate(
    py: Python<'_>,
    epsilon: f64,
    delta: f64,
    rounds: u32,
    dim: u32,
    l1: Option<f64>,
    l2: Option<f64>,
    linf: Option<f64>,
    mechanism: Option<&str>,
    sampling: Option<f64>,
    neighbours: Option<&str>,
) -> PyResult<String> {
    let step = complete_sensitivity(l1, l2, linf, dim as usize).map_err(input)?;
    let mut request = Request::new(epsilon, delta, rounds as usize, dim as usize, step);
    request.noise = match mechanism {
        None => None,
        Some("laplace") => Some(NoiseKind::Laplace),
        Some("gaussian") => Some(NoiseKind::Gaussian),
        Some(other) => {
            return Err(input(format!("mechanism \"{other}\" is not laplace or gaussian")));
        }
    };
    let neighbours: NeighbourRelation =
        serde_json::from_value(json!(neighbours.unwrap_or("add-remove")))
            .map_err(|_| input("neighbours is \"add-remove\", \"replace-one\" or \"zero-out\""))?;
    request.sampling = sampling.map(|rate| Sampling::new(rate, neighbours));
    let found = py.detach(|| threads::on_ours(|| calibrated(&request)))?.map_err(input)?;
    Ok(json!(found).to_string())
}

/// Returns (exact, printed, bound) of the paper's Theorem 2.3.
#[pyfunction]
fn gamma(omega: f64, beta: f64, shift: f64) -> PyResult<(f64, Option<f64>, f64)> {
    let found = mixture::gamma(omega, beta, shift).map_err(input)?;
    Ok((found.exact, found.printed, found.bound))
}

/// Returns (loss, worst case) of one released value.
#[pyfunction]
fn loss(omega: f64, beta: f64, shift: f64, x: f64) -> PyResult<(f64, f64)> {
    let found = mixture::loss(omega, beta, shift, x).map_err(input)?;
    Ok((found.loss, found.worst))
}

/// Returns the Rényi cost of one released coordinate.
#[pyfunction]
fn renyi(omega: f64, beta: f64, shift: f64, order: f64) -> PyResult<f64> {
    mixture::renyi(omega, beta, shift, order).map_err(input)
}

/// Returns values with exact noise on a grid of the noise's scale, and the grid's step.
#[pyfunction]
fn noise<'py>(
    py: Python<'py>,
    kind: &str,
    values: PyReadonlyArray1<'py, f64>,
    scale: f64,
    seed: Option<u64>,
) -> PyResult<(Bound<'py, PyArray1<f64>>, f64)> {
    let noise = match kind {
        "laplace" => Noise::Laplace { scale },
        _ => Noise::Gaussian { sigma: scale },
    };
    let values = contiguous(&values)?;
    let grid = Grid::for_scale(noise.scale()).map_err(input)?;
    let seed = match seed {
        Some(seed) => Seed::from(seed),
        None => Seed::from_entropy(entropy()?),
    };
    let draw = || {
        let mut released = vec![0.0; values.len()];
        let mut stream = seed.stream(Purpose::Release, 0, 0);
        exact::release_values(&mut stream, values, noise, grid, &mut released).map(|()| released)
    };
    let released = py.detach(|| threads::on_ours(draw))?;
    Ok((PyArray1::from_vec(py, released.map_err(input)?), grid.step()))
}

/// What the bundled Adult records are as numbers: features row after row (categories as their place
/// in the list of names), labels 0 or 1, the same of the test records, and about the columns, as
/// JSON.
type Bundled<'py> = (
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    String,
);

/// Returns the bundled Adult records as numbers.
#[pyfunction]
fn adult(py: Python<'_>) -> PyResult<Bundled<'_>> {
    let (train, test) = py.detach(|| threads::on_ours(adult_tables))?.map_err(failed)?;
    let column = |c: &consenso_engine::data::Column| match &c.kind {
        Kind::Numeric { min, max } => json!({ "name": c.name, "low": min, "high": max }),
        Kind::Categorical { categories } => {
            json!({ "name": c.name, "low": 0, "high": categories.len() - 1, "categories": categories })
        }
        _ => json!({ "name": c.name }),
    };
    let columns: Vec<_> = train.schema().features().map(column).collect();
    let rows = |t: &Table| (0..t.len()).flat_map(|i| t.row(i).into_owned()).collect::<Vec<f64>>();
    let labels = |t: &Table| t.labels().iter().map(|y| (y + 1.0) / 2.0).collect::<Vec<f64>>();
    let array = |values| PyArray1::from_vec(py, values);
    let about = serde_json::Value::from(columns).to_string();
    Ok((
        array(rows(&train)),
        array(labels(&train)),
        array(rows(&test)),
        array(labels(&test)),
        about,
    ))
}

/// Runs the command line with these words and returns its exit code; `again` is what starts Python
/// with this package anew.
#[pyfunction]
fn command(py: Python<'_>, words: Vec<OsString>, again: Vec<OsString>) -> u8 {
    py.detach(|| consenso_cli::command(words, Some(again)))
}

/// The compiled half of the package.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("OPTIMIZED", !cfg!(debug_assertions))?;
    module.add("ConsensoError", module.py().get_type::<ConsensoError>())?;
    module.add_class::<gate::Gate>()?;
    module.add_class::<budget::Budget>()?;
    module.add_class::<Columns>()?;
    module.add("InputError", module.py().get_type::<InputError>())?;
    for function in [
        wrap_pyfunction!(fit, module)?,
        wrap_pyfunction!(fit_tables, module)?,
        wrap_pyfunction!(ask, module)?,
        wrap_pyfunction!(budget::claimed, module)?,
        wrap_pyfunction!(predict, module)?,
        wrap_pyfunction!(draft, module)?,
        wrap_pyfunction!(run, module)?,
        wrap_pyfunction!(shares, module)?,
        wrap_pyfunction!(share, module)?,
        wrap_pyfunction!(merge, module)?,
        wrap_pyfunction!(adult, module)?,
        wrap_pyfunction!(built_in, module)?,
        wrap_pyfunction!(built_ins, module)?,
        wrap_pyfunction!(compose, module)?,
        wrap_pyfunction!(calibrate, module)?,
        wrap_pyfunction!(gamma, module)?,
        wrap_pyfunction!(loss, module)?,
        wrap_pyfunction!(renyi, module)?,
        wrap_pyfunction!(noise, module)?,
        wrap_pyfunction!(command, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
