//! Data sets: encoded records, their division among agents, and records that are made up.
//!
//! ```text
//! consenso_tables: Table ─► Encoder ─► Dataset ─► partition ─► one Records per agent
//! ```

mod dataset;
pub mod partition;
mod stored;
mod storing;
mod synthetic;

pub use consenso_tables::{
    ClassCount, CodeLayout, Codes, Column, ColumnSummary, ColumnValues, Columns, DataError,
    DateForm, Day, Draft, DraftOptions, Encoder, Encoding, EncodingSummary, FeaturePart, Format,
    HIGH_CLAMPING, Kind, LANES, LEVELS, Label, Lanes8, Layout, LoadReport, MISSING_CATEGORY,
    Missing, Nonzeros, PublicKnowledge, RawColumn, RawLayout, Reading, Records, RowBounds, Schema,
    SchemaError, SchemaSpec, Summary, Table, Task, TextEncoding, Unknown, csv, libsvm, nearest,
    scouted,
};
pub use dataset::FILE;
pub use dataset::{Dataset, Grouping};
pub use partition::{Partition, PartitionError, RecordKeys, Shard, SharedRecords, StablePartition};
pub use stored::{ReadAt, Scratch, ScratchFile, StoredRows};
pub use storing::DatasetWriter;
pub use synthetic::{Synthetic, SyntheticError, SyntheticTask, some_columns};

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
