//! Sweeps: one experiment at several budgets and sizes, as one record.

use super::check::Experiment;
use super::spec::ExperimentSpec;
use crate::config_error::ConfigError;
use crate::protocol::Parameters;
use crate::record::{AlgorithmRecord, Record, SweepPoint};
use serde_json::Value;

/// Most points of a sweep.
const MAX_POINTS: usize = 1000;

/// The experiments a sweep adds to the file's own settings: every combination but those.
pub(super) fn points(spec: &ExperimentSpec) -> Result<Vec<ExperimentSpec>, ConfigError> {
    let Some(sweep) = &spec.sweep else { return Ok(Vec::new()) };
    if sweep.epsilon.is_empty() && sweep.agents.is_empty() && sweep.dim.is_empty() {
        let text = "there is nothing to vary: give epsilon = [...], agents = [...] or dim = [...]";
        return Err(ConfigError::at("sweep", text));
    }
    if let Some(bad) = sweep.epsilon.iter().find(|e| !(**e > 0.0 && e.is_finite())) {
        return Err(ConfigError::at(
            "epsilon",
            format!("{bad} in [sweep] must be a positive number"),
        ));
    }
    let own_epsilon = spec.privacy.and_then(|p| p.epsilon);
    let mut seen = vec![(spec.data.agents, own_epsilon.map(f64::to_bits), spec.data.dim)];
    let mut points = Vec::new();
    for agents in or_own(&sweep.agents, spec.data.agents) {
        for dim in or_own(&sweep.dim, spec.data.dim) {
            for epsilon in or_own(&sweep.epsilon, own_epsilon) {
                let place = (agents, epsilon.map(f64::to_bits), dim);
                if !seen.contains(&place) {
                    seen.push(place);
                    points.push(at(spec, agents, epsilon, dim));
                }
            }
        }
    }
    if points.len() > MAX_POINTS {
        return Err(ConfigError::at(
            "sweep",
            format!("{} points are more than {MAX_POINTS}", points.len()),
        ));
    }
    Ok(points)
}

/// The experiment at one point, without the algorithms that are not for so many dimensions.
fn at(
    spec: &ExperimentSpec,
    agents: Option<usize>,
    epsilon: Option<f64>,
    dim: Option<usize>,
) -> ExperimentSpec {
    let mut point = ExperimentSpec { sweep: None, ..spec.clone() };
    (point.data.agents, point.data.dim) = (agents, dim);
    if let Some(privacy) = &mut point.privacy {
        privacy.epsilon = epsilon;
    }
    let fits = |algorithm: &Parameters| {
        let most = algorithm.get("max_dim").and_then(Value::as_u64);
        most.zip(dim).is_none_or(|(most, dim)| dim as u64 <= most)
    };
    point.algorithm.retain(fits);
    point
}

fn or_own<T: Copy>(values: &[T], own: Option<T>) -> Vec<Option<T>> {
    if values.is_empty() { vec![own] } else { values.iter().copied().map(Some).collect() }
}

/// A point in words.
pub(super) fn place(spec: &ExperimentSpec) -> String {
    let agents = spec.data.agents.map(|n| format!("agents = {n}"));
    let epsilon = spec.privacy.and_then(|p| p.epsilon).map(|e| format!("epsilon = {e}"));
    let dim = spec.data.dim.map(|d| format!("dim = {d}"));
    agents.into_iter().chain(epsilon).chain(dim).collect::<Vec<_>>().join(", ")
}

/// Points in the order of agents, then d where it is varied, then ε. (Messages on scouted columns
/// are as long as the budget allows, which is no dimension.)
pub(super) fn in_order(mut points: Vec<SweepPoint>, varies_dim: bool) -> Vec<SweepPoint> {
    points.sort_by(|a, b| {
        let key = |p: &SweepPoint| p.epsilon.unwrap_or(f64::INFINITY);
        let size = |p: &SweepPoint| (p.agents, if varies_dim { p.dim } else { 0 });
        size(a).cmp(&size(b)).then(key(a).total_cmp(&key(b)))
    });
    points
}

/// What a record says about one point.
pub(super) fn point(experiment: &Experiment, record: Record) -> SweepPoint {
    let without_curve =
        |a: AlgorithmRecord| AlgorithmRecord { curve: Vec::new(), trace: Vec::new(), ..a };
    SweepPoint {
        agents: experiment.facts.agents,
        dim: experiment.facts.dim,
        epsilon: experiment.spec.privacy.and_then(|p| p.epsilon),
        runs: record.runs,
        algorithms: record.algorithms.into_iter().map(without_curve).collect(),
        baselines: record.baselines,
    }
}
