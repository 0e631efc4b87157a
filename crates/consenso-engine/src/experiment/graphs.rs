//! Who talks to whom, run by run, and what everybody may know of a problem on these graphs.

use super::spec::ExperimentSpec;
use crate::config_error::ConfigError;
use crate::data::RowBounds;
use crate::graph::{Graph, GraphError, GraphSpec, Mixing};
use crate::problem::Objective;
use crate::protocol::PublicFacts;
use crate::random::Seed;
use std::sync::Arc;

/// One graph for all runs.
pub(super) fn given_graphs(
    graph: &Arc<Graph>,
    agents: usize,
    runs: u32,
) -> Result<Vec<Arc<Graph>>, ConfigError> {
    if graph.agents() != agents {
        let has = graph.agents();
        let message = format!("the graph is of {has} agents, and there are {agents} sites");
        return Err(ConfigError::at("graph", message).with_help("make it of as many"));
    }
    Ok(vec![Arc::clone(graph); runs as usize])
}

pub(super) fn graphs(
    spec: &ExperimentSpec,
    agents: usize,
    seed: &Seed,
    edges: Option<&(String, String)>,
) -> Result<Vec<Arc<Graph>>, ConfigError> {
    let wrong = |error: GraphError| ConfigError::at("graph", error.to_string());
    let fixed = match (&spec.graph, edges) {
        (GraphSpec::File { directed, .. }, Some((name, text))) => {
            let read = match directed {
                true => Graph::from_link_list(text.as_bytes(), name, agents),
                false => Graph::from_edge_list(text.as_bytes(), name, agents),
            };
            Some(Arc::new(read.map_err(wrong)?))
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

pub(super) fn facts(
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
