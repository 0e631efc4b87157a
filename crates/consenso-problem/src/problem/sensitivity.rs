//! How far one record can move a gradient: B_q ≥ sup ‖∇f(x) − ∇f̂(x)‖_q over all x and all
//! neighbouring data sets (docs/paper.md section 1).
//!
//! With ‖z‖_q ≤ R_q and slope at most L, one record contributes at most L·R_q/b to the mean
//! gradient. Replacing it moves the gradient by at most 2L·R_q/b, setting its contribution to zero
//! by L·R_q/b. Removing it also changes the weight of all others: with gradients g_j of the b
//! records,
//!
//! ```text
//! (1/b) Σ_j g_j − (1/(b−1)) Σ_{j≠k} g_j = g_k/b − (1/b)·mean of the others' g_j,     at most 2L·R_q/b,
//! ```
//!
//! and adding one to b records moves it by at most 2L·R_q/(b+1). Everything here is computed from
//! public bounds; nothing looks at a record.

use super::weights::SiteWeight;
use super::{Loss, Objective};
use crate::data::RowBounds;
use consenso_dp::{NeighbourRelation, Sensitivity};

impl Objective {
    /// The gradient's sensitivity for an agent with `records` rows within `bounds`, the rounding of
    /// its floating-point sum included.
    ///
    /// The computed mean differs from the real one by at most (b + `SLACK`)·2^−53·L·R_q in the
    /// q-norm (a recursive sum of b terms, each a margin, a slope and a product), on both
    /// neighbours, so twice that is added to B_q.
    #[must_use]
    pub fn sensitivity(
        &self,
        bounds: &RowBounds,
        records: usize,
        neighbours: NeighbourRelation,
    ) -> Sensitivity {
        let b = records as f64;
        let factor = match neighbours {
            NeighbourRelation::ReplaceOne | NeighbourRelation::AddRemove => 2.0,
            NeighbourRelation::ZeroOut | NeighbourRelation::Paper => 1.0,
        };
        let rounding = 2.0 * (b + SLACK) * (f64::EPSILON / 2.0);
        let (l1, l2, mut linf) = self.loss.record_gradient(bounds);
        if neighbours == NeighbourRelation::Paper {
            // The paper's B_∞ is 1/b whatever the encoding; a tighter bound would not reproduce its
            // figures.
            linf = linf.max(1.0);
        }
        let bound = |r: f64| (r * (factor / b + rounding)).next_up().next_up();
        let mut all = Sensitivity { l1: bound(l1), l2: bound(l2), linf: bound(linf) };
        if let (Loss::Linear {}, true) = (self.loss, factor > 1.0) {
            // The gradient is the mean of the rows themselves. One replaced by another moves it by
            // their distance over b; one removed by its distance from the others' mean, which is
            // no farther than the farthest of them.
            all.l2 = all.l2.min((bounds.apart() / b + l2 * rounding).next_up().next_up());
        }
        all
    }
}

impl Objective {
    /// The sensitivity of Σ ∇φ/(q·b) over a secret sample of the records, each drawn with
    /// probability `rate` = q, for an agent that announced `records` = b of them: how far the
    /// record in question moves it in a round that draws it.
    ///
    /// The divisor is public, so that a record adds its own gradient and changes nobody's weight:
    /// L·R_q/(q·b) where it is added, removed or set to zero, twice as much where it is replaced.
    /// The bound of a replacement is twice that of a contribution, as
    /// [`Sampling`](consenso_dp::Sampling) needs it, rounding included: a sum of up to b terms is
    /// off by at most (b + `SLACK`)·2^−53·L·R_q/q.
    #[doc(hidden)]
    pub fn sampled_sensitivity(
        &self,
        bounds: &RowBounds,
        site_weight: SiteWeight,
        rate: f64,
        neighbours: NeighbourRelation,
    ) -> Sensitivity {
        let b = site_weight.records as f64;
        let factor = match neighbours {
            NeighbourRelation::AddRemove | NeighbourRelation::ZeroOut => 1.0,
            NeighbourRelation::ReplaceOne | NeighbourRelation::Paper => 2.0,
        };
        let rounding = 2.0 * (b + SLACK) * (f64::EPSILON / 2.0);
        let one = (1.0 / b + rounding) / rate * (1.0 + 8.0 * f64::EPSILON);
        let (l1, l2, linf) = self.loss.record_gradient(bounds);
        let all = Sensitivity { l1, l2, linf }.scaled(factor * one);
        if site_weight.weight == 1.0 { all } else { all.scaled(site_weight.weight) }
    }
}

impl Objective {
    /// [`Self::sensitivity`] of an agent whose mean counts N·w_i times: the gradient is multiplied
    /// by a public number.
    #[doc(hidden)]
    pub fn sensitivity_of(
        &self,
        bounds: &RowBounds,
        site_weight: SiteWeight,
        neighbours: NeighbourRelation,
    ) -> Sensitivity {
        let plain = self.sensitivity(bounds, site_weight.records, neighbours);
        // The product with the weight is rounded once more, which the slack of a term covers.
        if site_weight.weight == 1.0 { plain } else { plain.scaled(site_weight.weight) }
    }
}

impl Objective {
    /// A bound on |log det(D·I + ∇²f) − log det(D·I + ∇²f̂)| between neighbours: what objective
    /// perturbation pays beside its noise.
    ///
    /// What one record contributes to ∇²f is positive, of rank r (the classes of a softmax, 1
    /// otherwise) and norm at most c₁R²/b; what is left without it is at least m. So each
    /// determinant lies between that of the rest and (1 + c₁R²/(b(D + m)))^r times it.
    #[must_use]
    pub fn volume_sensitivity(&self, bounds: &RowBounds, records: usize, weight: f64) -> f64 {
        let one = self.loss.curvature() * bounds.l2() * bounds.l2() / records as f64;
        let relative = one / (weight + self.strong_convexity());
        self.loss.outputs() as f64 * libm::log1p(relative) * (1.0 + 1e-14)
    }

    /// What one record may add to the curvature of f + (weight/2)‖x‖², relative to what is there
    /// without it: τ = c₁R²/(b(weight + m)), and in how many directions (the classes of a softmax,
    /// 1 otherwise).
    #[must_use]
    #[doc(hidden)]
    pub fn curvature_sensitivity(
        &self,
        bounds: &RowBounds,
        records: usize,
        weight: f64,
    ) -> (f64, usize) {
        let one = self.loss.curvature() * bounds.l2() * bounds.l2() / records as f64;
        (one / (weight + self.strong_convexity()) * (1.0 + 1e-14), self.loss.outputs())
    }

    /// [`Self::volume_sensitivity`] between neighbours of any relation.
    ///
    /// Where a record is removed the others' weight grows from 1/b to 1/(b−1). Let S be the sum of
    /// their Hessians, each positive with a trace of at most r·c₁R², and A = (D + m)I + S/b. Then
    /// log det(A + S/(b(b−1))) − log det A ≤ tr(A⁻¹S)/(b(b−1)) ≤ r·c₁R²/(b(D + m)) = r·x, while the
    /// record itself had added between 0 and r·ln(1 + x). The two have opposite signs: the larger
    /// one, r·x, bounds the difference.
    #[must_use]
    #[doc(hidden)]
    pub fn volume_sensitivity_between(
        &self,
        bounds: &RowBounds,
        records: usize,
        weight: f64,
        neighbours: NeighbourRelation,
    ) -> f64 {
        let fixed = self.volume_sensitivity(bounds, records, weight);
        if neighbours != NeighbourRelation::AddRemove {
            return fixed;
        }
        let one = self.loss.curvature() * bounds.l2() * bounds.l2() / records as f64;
        let removed = self.loss.outputs() as f64 * one / (weight + self.strong_convexity());
        fixed.max(removed * (1.0 + 1e-14))
    }
}

impl Objective {
    /// B^c/B₂, where B^c = (Σ_l sup_x |∇f(x)\[l\] − ∇f̂(x)\[l\]|²)^½ lets every coordinate have an
    /// x of its own (docs/paper.md section 2).
    ///
    /// Let (z, y) be replaced by (z', y'). Where a record's gradient is φ'(zᵀx, y)·z with |φ'| ≤ L,
    /// at every x
    /// |∇f\[l\] − ∇f̂\[l\]| ≤ L(|z_l| + |z'_l|)/b, and Σ_l (|z_l| + |z'_l|)² ≤ (‖z‖₂ + ‖z'‖₂)² ≤ (2R₂)²: B^c = 2L·R₂/b = B₂, and half of both where z
    /// contributes zero instead; where z is removed the mean of the others' |z_l| stands in place
    /// of |z'_l|, with the same bound. The slack for rounding is a sum of such terms too. A softmax
    /// has C blocks (p_c − 1\[y = c\])·z of slope at most 1 each, so B^c = √C·2R₂/b against B₂ =
    /// √2·2R₂/b.
    #[must_use]
    pub fn coordinate_sensitivity(&self) -> f64 {
        match self.loss {
            Loss::Softmax { classes } => (0.5 * classes as f64).sqrt().next_up().max(1.0),
            _ => 1.0,
        }
    }
}

impl Objective {
    /// A bound on the data term's ‖∇f‖₂ for rows so long that ∇f is `smoothness`-Lipschitz (M ≥
    /// w·c₁R² + μ bounds R), w = N·w_i being the agent's weight.
    #[must_use]
    #[doc(hidden)]
    pub fn steepness(&self, smoothness: f64, weight: f64) -> f64 {
        let l2 =
            ((smoothness - self.regularization).max(0.0) / (weight * self.loss.curvature())).sqrt();
        weight * self.loss.record_gradient(&RowBounds::declared(l2, l2, l2)).1
    }
}

/// Roundings a single term can meet before it is summed, generously: margin of up to 2^20 features,
/// exponential, division, products.
const SLACK: f64 = 64.0;

impl Loss {
    /// Bounds on ‖∇φ(x; z, y)‖ in l1, l2 and l∞ over all x and all records within `bounds`.
    fn record_gradient(&self, bounds: &RowBounds) -> (f64, f64, f64) {
        let Some((slope, _)) = self.saturation() else {
            // (p − e_y) ⊗ z: ‖p − e_y‖ is at most 2, √2 and 1.
            return (2.0 * bounds.l1(), 2f64.sqrt().next_up() * bounds.l2(), bounds.linf());
        };
        (slope * bounds.l1(), slope * bounds.l2(), slope * bounds.linf())
    }
}
