//! Records as people export them, and rows that kernels can read, under a public schema.
//!
//! ```text
//! public schema ──┐
//! CSV, LIBSVM, ────┴─► Table ─► Encoder ─► Records
//! columns
//! ```
//!
//! The **public schema** ([`Schema`]) declares ranges and categories; a range computed from the
//! records would leak them. Every bound a privacy claim rests on ([`RowBounds`]) follows from the
//! schema alone, and values outside it are clamped ([`LoadReport`] counts them). Readers take any
//! `impl Read`; opening files is the caller's business. A [`Draft`] proposes a schema to somebody
//! who knows what is public.

mod cells;
mod codes;
mod columns;
pub mod csv;
mod cut;
mod date;
mod draft;
mod encode;
mod error;
mod format;
pub mod libsvm;
mod records;
mod schema;
pub mod scouted;
mod summary;
mod table;
mod task;
mod unknown;
mod words;

pub use codes::{CodeLayout, Codes, Group, LEVELS};
pub use columns::{ColumnValues, Columns};
pub use date::{DateForm, Day};
pub use draft::{Draft, DraftOptions};
pub use encode::{Encoder, Encoding, FeaturePart, Keeping, to_unit_norm, unit_bounds};
#[doc(hidden)] // for "did you mean" of the command line
pub use error::nearest;
pub use error::{DataError, SchemaError};
pub use format::{Format, Reading, TextEncoding};
pub use records::{LANES, Lanes8, Layout, Nonzeros, Records, RowBounds};
pub use schema::{
    Column, Kind, Label, MISSING_CATEGORY, Missing, PublicKnowledge, Schema, SchemaSpec,
};
pub use scouted::{RawColumn, RawLayout};
pub use summary::{ClassCount, ColumnSummary, EncodingSummary, HIGH_CLAMPING, Summary};
pub use table::{LoadReport, Table, class_of};
pub use task::Task;
pub use unknown::Unknown;
