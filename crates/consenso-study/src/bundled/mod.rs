//! Records that come with the software: UCI Adult and UCI Heart Disease (`data/ATTRIBUTION.md`).

mod adult;
mod heart;

pub use adult::{adult, adult_schema, adult_tables};
pub(crate) use heart::flamby_published;
pub use heart::{heart, heart_flamby, heart_schema};
