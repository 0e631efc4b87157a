//! How far one record can move a gradient: B_q ≥ sup ‖∇f(x) − ∇f̂(x)‖_q over all x and all neighbouring data sets (docs/paper.md section 1).
//!
//! With ‖z‖_q ≤ R_q and slope at most L, one record contributes at most L·R_q/b to the mean gradient. Replacing it moves the
//! gradient by at most 2L·R_q/b, adding or removing it (b fixed and public) by L·R_q/b. Everything here is computed from public
//! bounds; nothing looks at a record.

use super::{Loss, Objective};
use crate::data::RowBounds;
use crate::privacy::NeighbourRelation;
use serde::{Deserialize, Serialize};

/// Bounds on how far a private vector moves between neighbouring data sets, in three norms; all hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// B_1.
    pub l1: f64,
    /// B_2.
    pub l2: f64,
    /// B_∞.
    pub linf: f64,
}

impl Sensitivity {
    /// The bounds of a vector multiplied by `factor` ≥ 0, rounded up.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let up = |b: f64| (b * factor).next_up();
        Self { l1: up(self.l1), l2: up(self.l2), linf: up(self.linf) }
    }

    /// The bounds when only an l2 bound is known, in dimension `dim`: ‖t‖₁ ≤ √d‖t‖₂, ‖t‖_∞ ≤ ‖t‖₂.
    #[must_use]
    pub fn from_l2(l2: f64, dim: usize) -> Self {
        // Two ulps cover the rounding of the sum and quotient such a bound comes from.
        let l2 = l2.next_up().next_up();
        Self { l1: (l2 * (dim as f64).sqrt().next_up()).next_up(), l2, linf: l2 }
    }
}

impl Objective {
    /// The gradient's sensitivity for an agent with `records` rows within `bounds`, the rounding of its floating-point sum included.
    ///
    /// The computed mean differs from the real one by at most (b + `SLACK`)·2^−53·L·R_q in the q-norm (a recursive sum
    /// of b terms, each a margin, a slope and a product), on both neighbours, so twice that is added to B_q.
    #[must_use]
    pub fn sensitivity(
        &self,
        bounds: &RowBounds,
        records: usize,
        neighbours: NeighbourRelation,
    ) -> Sensitivity {
        let b = records as f64;
        let reach = match neighbours {
            NeighbourRelation::ReplaceOne => 2.0,
            NeighbourRelation::AddRemove | NeighbourRelation::Paper => 1.0,
        };
        let rounding = 2.0 * (b + SLACK) * (f64::EPSILON / 2.0);
        let (l1, l2, mut linf) = self.loss.record_gradient(bounds);
        if neighbours == NeighbourRelation::Paper {
            // The paper's B_∞ is 1/b whatever the encoding; a tighter bound would not reproduce its figures.
            linf = linf.max(1.0);
        }
        let bound = |r: f64| (r * (reach / b + rounding)).next_up().next_up();
        Sensitivity { l1: bound(l1), l2: bound(l2), linf: bound(linf) }
    }
}

impl Objective {
    /// A bound on |log det(D·I + ∇²f) − log det(D·I + ∇²f̂)| between neighbours: what objective perturbation pays beside its noise.
    ///
    /// What one record contributes to ∇²f is positive, of rank r (the classes of a softmax, 1 otherwise) and norm at most c₁R²/b; what is left
    /// without it is at least m. So each determinant lies between that of the rest and (1 + c₁R²/(b(D + m)))^r times it.
    #[must_use]
    pub fn volume_sensitivity(&self, bounds: &RowBounds, records: usize, weight: f64) -> f64 {
        let one = self.loss.curvature() * bounds.l2 * bounds.l2 / records as f64;
        let relative = one / (weight + self.strong_convexity());
        self.loss.outputs() as f64 * libm::log1p(relative) * (1.0 + 1e-14)
    }
}

impl Objective {
    /// B^c/B₂, where B^c = (Σ_l sup_x |∇f(x)\[l\] − ∇f̂(x)\[l\]|²)^½ lets every coordinate have an x of its own (docs/paper.md section 2).
    ///
    /// Let (z, y) be replaced by (z', y'). Where a record's gradient is φ'(zᵀx, y)·z with |φ'| ≤ L, at every x
    /// |∇f\[l\] − ∇f̂\[l\]| ≤ L(|z_l| + |z'_l|)/b, and Σ_l (|z_l| + |z'_l|)² ≤ (‖z‖₂ + ‖z'‖₂)² ≤ (2R₂)²: B^c = 2L·R₂/b = B₂, and half of both without
    /// z'. The slack for rounding is a sum of such terms too. A softmax has C blocks (p_c − 1\[y = c\])·z of slope at most 1 each, so B^c = √C·2R₂/b against
    /// B₂ = √2·2R₂/b.
    #[must_use]
    pub fn coordinate_sensitivity(&self) -> f64 {
        match self.loss {
            Loss::Softmax { classes } => (0.5 * classes as f64).sqrt().next_up().max(1.0),
            _ => 1.0,
        }
    }
}

impl Objective {
    /// A bound on the data term's ‖∇f‖₂ for rows so long that ∇f is `smoothness`-Lipschitz (M = c₁R² + μ gives R).
    #[must_use]
    pub(crate) fn steepness(&self, smoothness: f64) -> f64 {
        let l2 = ((smoothness - self.regularization).max(0.0) / self.loss.curvature()).sqrt();
        self.loss.record_gradient(&RowBounds { l1: l2, l2, linf: l2, public: true }).1
    }
}

/// Roundings a single term can meet before it is summed, generously: margin of up to 2^20 features, exponential, division, products.
const SLACK: f64 = 64.0;

impl Loss {
    /// Bounds on ‖∇φ(x; z, y)‖ in l1, l2 and l∞ over all x and all records within `bounds`.
    fn record_gradient(&self, bounds: &RowBounds) -> (f64, f64, f64) {
        let slope = match *self {
            Self::Logistic => 1.0,
            Self::ClippedLogistic { clip } | Self::Ridge { clip } | Self::Huber { delta: clip } => clip,
            // (p − e_y) ⊗ z: ‖p − e_y‖ is at most 2, √2 and 1.
            Self::Softmax { .. } => return (2.0 * bounds.l1, 2f64.sqrt().next_up() * bounds.l2, bounds.linf),
        };
        (slope * bounds.l1, slope * bounds.l2, slope * bounds.linf)
    }
}
