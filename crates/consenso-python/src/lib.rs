//! `consenso._core`: what the Python package `consenso` asks of the library.
//!
//! Arrays cross the border as the bytes of C-ordered float64, everything else as JSON; the pure-Python layer in `python/consenso` makes both.
//! Long work runs on a thread of its own while the caller's thread, without the interpreter's lock, looks for Ctrl-C and reports progress.

mod gate;

use consenso::Loss;
use consenso::data::Schema;
use consenso::experiment::{self, Experiment, ExperimentSpec, Inputs, Observer, Source};
use consenso::gate::exact::{self, Grid, Noise};
use consenso::graph::GraphSpec;
use consenso::privacy::calibrate::{
    Noise as NoiseKind, Request, calibrate as calibrated, complete_sensitivity,
};
use consenso::privacy::{NeighbourRelation, compose as composed, mixture, parse_events};
use consenso::random::{Purpose, Seed};
use consenso::study::{Bounds, Rows, Study, StudyError};
use consenso_study::files::{self, Tables, table_of};
use consenso_study::{ExperimentFile as _, SchemaFile as _};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::json;
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

create_exception!(consenso, ConsensoError, PyException, "Whatever goes wrong in Consenso.");
create_exception!(
    consenso,
    InputError,
    PyValueError,
    "Something given is not as it should be; the text says what to do."
);

fn input(error: impl std::fmt::Display) -> PyErr {
    InputError::new_err(error.to_string())
}

/// What a run on another thread tells the caller's.
#[derive(Default)]
struct Watch {
    cancelled: AtomicBool,
    done: AtomicU64,
}

struct Watcher {
    watch: Arc<Watch>,
    stage: std::sync::Mutex<Instant>,
}

impl Observer for Watcher {
    fn stage(&self, _: &str, _: u64) {
        if let Ok(mut began) = self.stage.lock() {
            *began = Instant::now();
        }
    }

    fn advanced(&self, exchanges: u64) {
        self.watch.done.fetch_add(exchanges, Ordering::Relaxed);
    }

    fn seconds(&self) -> f64 {
        self.stage.lock().map_or(0.0, |began| began.elapsed().as_secs_f64())
    }

    fn cancelled(&self) -> bool {
        self.watch.cancelled.load(Ordering::Relaxed)
    }
}

/// Runs `work` on a thread of its own; Ctrl-C cancels it, `progress(done)` is called about ten times a second.
fn watched<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&dyn Observer) -> Result<T, PyErr> + Send + 'static,
) -> PyResult<T> {
    let watch = Arc::new(Watch::default());
    let (sender, receiver) = channel();
    let shared = Arc::clone(&watch);
    let worker = std::thread::spawn(move || {
        let watcher = Watcher { watch: shared, stage: std::sync::Mutex::new(Instant::now()) };
        let _ = sender.send(work(&watcher));
    });
    let receiver = std::sync::Mutex::new(receiver);
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
            Err(RecvTimeoutError::Timeout) => {
                if stopped.is_some() {
                    continue;
                }
                let told = progress.as_ref().map(|p| p.call1(py, (watch.done.load(Ordering::Relaxed),)));
                if let Err(error) = py.check_signals().and(told.transpose().map(|_| ())) {
                    watch.cancelled.store(true, Ordering::Relaxed);
                    stopped = Some(error);
                }
            }
        }
    };
    let _ = py.detach(|| worker.join());
    stopped.map_or(result, Err)
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
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    bytes.chunks_exact(8).map(|b| f64::from_ne_bytes(b.try_into().unwrap_or_default()))
}

fn study(fit: &Fit, rows: &[u8], labels: &[u8]) -> Result<Study, PyErr> {
    let (rows, labels): (Vec<f64>, Vec<f64>) = (floats(rows).collect(), floats(labels).collect());
    let total: usize = fit.counts.iter().sum();
    if fit.dim == 0 || rows.len() != total * fit.dim || labels.len() != total {
        return Err(input("rows, labels and sites do not have the same length"));
    }
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
        let range = start..start + count;
        start += count;
        let own = rows[range.start * fit.dim..range.end * fit.dim].chunks_exact(fit.dim);
        sites.push(
            Rows::clip(own, &labels[range], &bounds).map_err(|e| input(format!("site \"{name}\": {e}")))?,
        );
    }
    let mut study = Study::new(&sites, fit.loss)
        .graph(fit.graph.clone())
        .names(fit.names.iter().map(String::as_str))
        .regularization(fit.regularization)
        .algorithm_table(fit.algorithm.clone());
    if let Some(epsilon) = fit.epsilon {
        study = study.budget(epsilon, fit.delta).neighbours(fit.neighbours);
    }
    Ok(match fit.seed {
        Some(seed) => study.seed(seed),
        None => study,
    })
}

/// Fits models on the rows of several sites; see `consenso._estimators`.
#[pyfunction]
fn fit(
    py: Python<'_>,
    options: &str,
    rows: &[u8],
    labels: &[u8],
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let fit: Fit = serde_json::from_str(options).map_err(input)?;
    let study = study(&fit, rows, labels)?;
    watched(py, progress, move |observer| {
        let fitted = study.run_watched(observer).map_err(study_error)?;
        let claim = fitted.claim().map(|c| {
            json!({ "epsilon": c.epsilon, "delta": c.delta, "method": c.method.to_string(),
                "neighbours": c.neighbours.name(), "adversary": c.adversary, "sampler": c.sampler,
                "caveats": c.caveats, "statement": c.to_string() })
        });
        let answer = json!({
            "models": fitted.models(), "mean": fitted.model(), "claim": claim, "record": fitted.record(),
            "file": fitted.model_file(),
        });
        Ok(answer.to_string())
    })
}

fn study_error(error: StudyError) -> PyErr {
    match error {
        StudyError::Run(message) => ConsensoError::new_err(message),
        StudyError::Entropy(_) => ConsensoError::new_err(error.to_string()),
        error => input(error),
    }
}

/// Runs an experiment: its TOML text, and the files it names as (name, bytes). Returns the record and the models as JSON.
#[pyfunction]
#[pyo3(signature = (file, text, files, schema, test, edges, os_entropy, progress))]
#[expect(clippy::too_many_arguments, reason = "the Python layer calls it, by keyword")]
fn run(
    py: Python<'_>,
    file: String,
    text: String,
    files: Vec<(String, Vec<u8>)>,
    schema: Option<String>,
    test: Option<(String, Vec<u8>)>,
    edges: Option<(String, String)>,
    os_entropy: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let spec = ExperimentSpec::from_toml(&text, &file).map_err(input)?;
    let entropy = if os_entropy { Some(entropy()?) } else { None };
    let source = source(&spec, &text, &file, files, schema.as_deref(), test)?;
    watched(py, progress, move |observer| {
        let inputs = Inputs { file, text, spec, source, edges, entropy };
        let experiment = Experiment::check(inputs).map_err(input)?;
        let finished = experiment::run(&experiment, observer).map_err(ConsensoError::new_err)?;
        let model = |m: &experiment::Trained| json!({ "label": m.label, "agents": m.agents, "mean": m.mean });
        let models: Vec<_> = finished.models.iter().map(model).collect();
        Ok(json!({ "record": finished.record, "models": models }).to_string())
    })
}

fn source(
    spec: &ExperimentSpec,
    text: &str,
    file: &str,
    files: Vec<(String, Vec<u8>)>,
    schema: Option<&str>,
    test: Option<(String, Vec<u8>)>,
) -> PyResult<Source> {
    let schema = schema.map(Schema::from_toml).transpose().map_err(input)?;
    let read =
        |(name, bytes): (String, Vec<u8>)| table_of(std::path::Path::new(&name), bytes, schema.as_ref());
    let tables = |_: &str| {
        let train = files.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Tables { train, test: test.map(read).transpose()? })
    };
    files::source(spec, text, file, tables).map_err(input)
}

fn entropy() -> PyResult<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|e| ConsensoError::new_err(format!("the operating system gave no entropy: {e}")))?;
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
    let found = py.detach(|| composed(&events, delta)).map_err(input)?;
    let mut value = json!(found);
    value["best"] = json!(found.best().map(|(method, epsilon)| json!({
        "method": method.name(), "epsilon": epsilon, "theorem": method.theorem() })));
    Ok(value.to_string())
}

/// Returns the least noise that keeps a schedule of releases within a budget.
#[pyfunction]
#[pyo3(signature = (epsilon, delta, rounds, dim, l1, l2, linf, mechanism))]
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
) -> PyResult<String> {
    let step = complete_sensitivity(l1, l2, linf, dim as usize).map_err(input)?;
    let mut request = Request::new(epsilon, delta, rounds as usize, dim as usize, step);
    request.noise = match mechanism {
        None => None,
        Some("laplace") => Some(NoiseKind::Laplace),
        Some("gaussian") => Some(NoiseKind::Gaussian),
        Some(other) => return Err(input(format!("mechanism \"{other}\" is not laplace or gaussian"))),
    };
    let found = py.detach(|| calibrated(&request)).map_err(input)?;
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

/// Returns values with exact noise on a grid of the noise's scale, as bytes of float64.
#[pyfunction]
fn noise<'py>(
    py: Python<'py>,
    kind: &str,
    values: &[u8],
    scale: f64,
    seed: Option<u64>,
) -> PyResult<(Bound<'py, PyBytes>, f64)> {
    let noise = match kind {
        "laplace" => Noise::Laplace { scale },
        _ => Noise::Gaussian { sigma: scale },
    };
    let values: Vec<f64> = floats(values).collect();
    let grid = Grid::for_scale(noise.scale()).map_err(input)?;
    let seed = match seed {
        Some(seed) => Seed::from(seed),
        None => Seed::from_entropy(entropy()?),
    };
    let released = py.detach(|| {
        let mut steps = vec![0; values.len()];
        let mut stream = seed.stream(Purpose::Release, 0, 0);
        exact::release(&mut stream, &values, &[], noise, grid, &mut steps)?;
        Ok::<_, exact::NoiseError>(
            steps.iter().flat_map(|&q| grid.value(q).to_ne_bytes()).collect::<Vec<u8>>(),
        )
    });
    Ok((PyBytes::new(py, &released.map_err(input)?), grid.step()))
}

/// Runs the command line with these words and returns its exit code; `again` is what starts Python with this package anew.
#[pyfunction]
fn command(py: Python<'_>, words: Vec<OsString>, again: Vec<OsString>) -> u8 {
    py.detach(|| consenso_cli::command(words, Some(again)))
}

/// The compiled half of the package.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ConsensoError", module.py().get_type::<ConsensoError>())?;
    module.add_class::<gate::Gate>()?;
    module.add("InputError", module.py().get_type::<InputError>())?;
    for function in [
        wrap_pyfunction!(fit, module)?,
        wrap_pyfunction!(run, module)?,
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
