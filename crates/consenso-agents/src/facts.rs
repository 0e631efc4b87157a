//! What everybody may know before the first round, and how parameters are written down.

use serde_json::Value;

/// What an agent knows before the first round and everyone may know: from it open parameters are
/// resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublicFacts {
    /// N.
    pub agents: usize,
    /// Length of the model.
    pub dim: usize,
    /// Records of the smallest agent.
    pub records: usize,
    /// M, from the public bounds.
    pub smoothness: f64,
    /// M̂: along any one coordinate ∇f is M̂-Lipschitz.
    pub coordinate_smoothness: f64,
    /// B^c/B₂ ≥ 1: how much more a gradient moves when every coordinate is asked at a point of its
    /// own.
    pub coordinate_sensitivity: f64,
    /// m.
    pub strong_convexity: f64,
    /// Largest eigenvalue of the graph's Laplacian, or an upper bound.
    pub laplacian_max: f64,
    /// Second largest eigenvalue modulus of W.
    pub mixing: f64,
    /// Smallest eigenvalue of W, or a lower bound: gradient steps beyond (1 + it)/M can make
    /// neighbours swing against each other.
    pub mixing_min: f64,
    /// Smallest and largest degree.
    pub degrees: (usize, usize),
    /// Whether the graph is complete.
    pub complete: bool,
    /// Rounds of the run.
    pub rounds: u32,
    /// Whether noise will be added.
    pub private: bool,
    /// μ/B₂: the Gaussian-DP budget that noise will be calibrated to, if it will be, over the
    /// gradient's sensitivity.
    pub budget: Option<f64>,
}

/// Σ steps after which a gradient method on unit rows has as good as converged.
pub const ENOUGH_STEPS: f64 = 2000.0;

impl PublicFacts {
    /// Σ steps worth taking, at most `most`.
    ///
    /// Under a fixed budget the noise of the network's mean model grows with T = Σ η_k alone,
    /// however T is divided into rounds: to about T·B₂/(√N·μ) a coordinate where the loss is flat.
    /// T = 2√N·μ/B₂ keeps that at the size of a model of unit rows.
    pub fn worthwhile(&self, most: f64) -> f64 {
        let limit = |budget: f64| 2.0 * (self.agents as f64).sqrt() * budget;
        self.budget.map_or(most, |budget| limit(budget).min(most))
    }
}

/// The keys of an algorithm with their values, as an `[[algorithm]]` of an experiment file has
/// them.
pub type Parameters = serde_json::Map<String, Value>;
