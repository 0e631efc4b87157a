//! Figure 1: γ over ω ∈ [0.1, 1] and β ∈ [2, 10], exactly and as printed.

use consenso_engine::privacy::mixture;
use serde::{Deserialize, Serialize};

/// αB_∞ in Figure 1.
pub(super) const FIGURE_SHIFT: f64 = 0.001;
/// Ten times that: one gradient step of Algorithm 1 at D = 1 with the paper's records, where the
/// error of the print shows.
pub(super) const LARGE_SHIFT: f64 = 0.01;

/// γ at one point.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GammaPoint {
    /// αB_∞.
    pub shift: f64,
    /// β, the rate of the Laplace noise.
    pub beta: f64,
    /// ω, the width of the interval.
    pub omega: f64,
    /// γ by certified quadrature.
    pub exact: f64,
    /// Theorem 2.3 as printed.
    pub printed: Option<f64>,
    /// The valid Jensen bound.
    pub bound: f64,
}

/// Both shifts, β in steps of 1, ω in steps of 0.05.
#[must_use]
pub fn gamma_grid() -> Vec<GammaPoint> {
    let mut points = Vec::new();
    for shift in [FIGURE_SHIFT, LARGE_SHIFT] {
        for beta in (2..=10).map(f64::from) {
            for omega in (2..=20).map(|step| f64::from(step) / 20.0) {
                if let Ok(gamma) = mixture::gamma(omega, beta, shift) {
                    let mixture::Gamma { exact, printed, bound } = gamma;
                    points.push(GammaPoint { shift, beta, omega, exact, printed, bound });
                }
            }
        }
    }
    points
}
