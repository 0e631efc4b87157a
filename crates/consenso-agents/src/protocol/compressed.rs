//! Messages of fewer numbers than a model, or of signs alone.

use super::parameters::share;
use crate::ConfigError;
use serde::{Deserialize, Serialize};

/// What is left of a vector on its way. Both shrink what they leave out, so that changes that are
/// sent again and again lose nothing for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compressor {
    /// The largest numbers alone, a share `keep` of them.
    #[default]
    TopK,
    /// One sign per number, and their mean size.
    Sign,
}

/// The share of numbers that are sent unless the file says.
pub(super) const KEEP: f64 = 0.25;

/// So many numbers of a vector are sent, one at least.
pub(crate) fn kept(keep: f64, length: usize) -> usize {
    ((keep * length as f64).ceil() as usize).clamp(1, length.max(1))
}

/// Binary digits that tell so many things apart.
pub(crate) fn digits(things: u64) -> u64 {
    u64::from(u64::BITS - things.saturating_sub(1).leading_zeros())
}

/// Bits of so many numbers of a vector with their places.
pub(crate) fn top_k_bits(count: usize, length: usize) -> u64 {
    count as u64 * (64 + digits(length as u64))
}

/// Bits of signs and one size.
pub(crate) fn sign_bits(length: usize) -> u64 {
    64 + length as u64
}

/// Leaves the largest numbers; of two equal ones the first.
pub(crate) fn top_k(x: &mut [f64], count: usize) {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&a, &b| x[b].abs().total_cmp(&x[a].abs()).then(a.cmp(&b)));
    order[count..].iter().for_each(|&l| x[l] = 0.0);
}

/// Leaves signs, and the mean size.
pub(crate) fn sign(x: &mut [f64]) {
    let size = x.iter().map(|x| x.abs()).sum::<f64>() / x.len().max(1) as f64;
    x.iter_mut().for_each(|x| *x = if *x < 0.0 { -size } else { size });
}

impl Compressor {
    /// How far an agent goes by default towards what its neighbours' copies say: as far as the share
    /// of a change that is left, for copies that lag behind say little.
    pub(super) fn consensus_step(self, keep: f64) -> f64 {
        let left = match self {
            Self::TopK => keep,
            Self::Sign => KEEP,
        };
        left.clamp(0.05, 1.0)
    }

    /// Bytes of a compressed change of so many numbers.
    pub(super) fn bytes(self, keep: f64, length: usize) -> u64 {
        let bits = match self {
            Self::TopK => top_k_bits(kept(keep, length), length),
            Self::Sign => sign_bits(length),
        };
        bits.div_ceil(8)
    }

    /// Puts `base` + C(x − `base`) in the place of x.
    pub(super) fn change(self, keep: f64, base: &[f64], x: &mut [f64]) {
        x.iter_mut().zip(base).for_each(|(x, b)| *x -= b);
        match self {
            Self::TopK => top_k(x, kept(keep, x.len())),
            Self::Sign => sign(x),
        }
        x.iter_mut().zip(base).for_each(|(x, b)| *x += b);
    }
}

/// Refuses a share that sends nothing.
pub(super) fn check_keep(keep: f64) -> Result<(), ConfigError> {
    share("keep", keep)
}
