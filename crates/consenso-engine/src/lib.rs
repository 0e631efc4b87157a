//! What the crates of Consenso share: the mathematics, the accounting, the agents and the
//! simulator.
//!
//! Whoever builds on Consenso adds the crate `consenso`, which shows a part of this one and keeps
//! it; this one changes with the files, the network, the command and the Python package that are
//! made of it. The modules follow the arrow of `ARCHITECTURE.md`: problem → graph → protocol → gate
//! → transport → ledger → record.

pub mod account;
pub mod agent;
pub mod audit;
pub mod data;
pub mod experiment;
mod facts;
mod fault;
pub mod gate;
pub mod graph;
pub mod kernel;
pub mod model;
pub mod privacy;
pub mod problem;
pub mod protocol;
pub mod random;
pub mod record;
pub mod sharing;
pub mod simulate;
pub mod study;
pub mod theory;

pub use fault::Fault;
pub use graph::Graph;
pub use problem::Loss;
pub use study::{Bounds, Fitted, Rows, Study, StudyError};
