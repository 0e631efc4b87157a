//! Private decentralized optimisation.
//!
//! Several agents on a graph minimise `Σ f_i(x)` together; no server, no trusted party. Each agent keeps its records,
//! exchanges only noised vectors with its neighbours and accounts, with local differential privacy, for what it gave away.
//!
//! The modules follow the arrow of `ARCHITECTURE.md`:
//! problem → graph → protocol → gate → transport → ledger → record → report.

pub mod agent;
pub mod data;
pub mod experiment;
pub mod gate;
pub mod graph;
pub mod kernel;
pub mod model;
pub mod privacy;
pub mod problem;
pub mod protocol;
pub mod random;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod sharing;
pub mod simulate;
pub mod theory;
