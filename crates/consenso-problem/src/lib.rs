//! What agents minimise, and who talks to whom.
//!
//! Data sets and their division among agents ([`data`]), losses with gradient and sensitivity,
//! constraints and couplings ([`problem`]), graphs and mixing weights ([`graph`]), and the inner
//! loops, which give the same bits on every machine ([`kernel`]). Reading records is in
//! `consenso-tables`, what a release costs in `consenso-dp`.

pub mod config_error;
pub mod data;
pub mod graph;
pub mod kernel;
pub mod problem;

pub use config_error::ConfigError;
pub use graph::Graph;
pub use problem::Loss;

use consenso_dp::random;
