//! Records, where they come from and how they are encoded.
//!
//! ```text
//! public schema ──┐
//! CSV, LIBSVM ────┴─► Table ─► Encoder ─► Dataset ─► partition ─► one Records an agent
//! ```
//!
//! The **public schema** ([`Schema`]) declares ranges and categories; a range computed from the
//! records would leak them. Every bound a privacy claim rests on ([`RowBounds`]) follows from the
//! schema alone, and values outside it are clamped ([`LoadReport`] counts them). Loaders read from
//! any `impl Read`; opening files is the caller's business.

mod codes;
pub mod csv;
mod dataset;
mod date;
mod draft;
mod encode;
mod error;
mod format;
pub mod libsvm;
pub mod partition;
mod records;
mod schema;
pub(crate) mod scouted;
mod stored;
mod storing;
mod summary;
mod synthetic;
mod table;

#[cfg(test)]
pub(crate) use codes::Shape;
pub(crate) use codes::{Codes, LEVELS};
pub(crate) use dataset::FILE;
pub use dataset::{Dataset, Grouping, Task};
pub use date::{DateForm, Day};
pub use draft::{Draft, DraftOptions};
pub use encode::{Encoder, Encoding, Piece};
#[doc(hidden)] // for "did you mean" of the command line
pub use error::nearest;
pub use error::{DataError, SchemaError};
pub use format::{Format, Reading, TextEncoding};
pub use partition::{Partition, PartitionError, Shard};
pub use records::{LANES, Records, RowBounds};
pub(crate) use records::{Lanes8, Layout, Nonzeros};
pub use schema::{Column, Kind, Known, Label, MISSING_CATEGORY, Missing, Schema, SchemaSpec};
pub use scouted::{RawColumn, RawLayout};
pub(crate) use stored::Stored;
pub use stored::{ReadAt, Scratch, ScratchFile};
pub use storing::Storing;
pub(crate) use summary::HIGH_CLAMPING;
pub use summary::{ClassCount, ColumnSummary, EncodingSummary, Summary};
pub(crate) use synthetic::some_columns;
pub use synthetic::{Synthetic, SyntheticError, SyntheticTask};
pub use table::{LoadReport, Table};

/// Streams that are not one agent's use this number in its place.
const SHARED: u64 = u64::MAX;

/// A uniform integer in `0..bound`, without bias (Lemire, 2019). Kept here rather than taken from a
/// library so that a seed names the same shards whatever the library's version.
fn below(rng: &mut crate::random::Stream, bound: u64) -> u64 {
    use rand::Rng;
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        if product as u64 >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

/// Fisher–Yates.
fn shuffle<T>(rng: &mut crate::random::Stream, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(rng, last as u64 + 1) as usize);
    }
}

/// A uniform real in the open interval (0, 1), on a grid of 2⁻⁵³.
fn open_unit(rng: &mut crate::random::Stream) -> f64 {
    use rand::Rng;
    ((rng.next_u64() >> 11) as f64 + 0.5) * f64::powi(2.0, -53)
}

/// A standard normal draw (Box–Muller; one of the pair is discarded, these draws are not where time
/// goes).
fn normal(rng: &mut crate::random::Stream) -> f64 {
    let radius = (-2.0 * libm::log(open_unit(rng))).sqrt();
    radius * libm::cos(std::f64::consts::TAU * open_unit(rng))
}
