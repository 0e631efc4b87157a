//! Records, where they come from and how they are encoded.

mod records;

pub use records::{LANES, Records, RowBounds};
