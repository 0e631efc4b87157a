//! How far one record can move what is released.

use serde::{Deserialize, Serialize};

/// Bounds on how far a private vector moves between neighbouring data sets, in three norms; all
/// hold at once.
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

    /// Bounds that hold of both vectors.
    #[must_use]
    pub fn larger(self, other: Self) -> Self {
        let Self { l1, l2, linf } = self;
        Self { l1: l1.max(other.l1), l2: l2.max(other.l2), linf: linf.max(other.linf) }
    }

    /// The bounds when only an l2 bound is known, in dimension `dim`: ‖t‖₁ ≤ √d‖t‖₂, ‖t‖_∞ ≤ ‖t‖₂.
    #[must_use]
    pub fn from_l2(l2: f64, dim: usize) -> Self {
        // Two ulps cover the rounding of the sum and quotient such a bound comes from.
        let l2 = l2.next_up().next_up();
        Self { l1: (l2 * (dim as f64).sqrt().next_up()).next_up(), l2, linf: l2 }
    }
}
