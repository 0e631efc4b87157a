//! What the crates of Consenso share: the mathematics, the accounting, the agents and the
//! simulator.
//!
//! Whoever builds on Consenso adds the crate `consenso`, which shows a part of this one and keeps
//! it; this one changes with the files, the network, the command and the Python package that are
//! made of it. The modules follow the arrow of `ARCHITECTURE.md`: problem → graph → protocol → gate
//! → transport → ledger → record.

pub mod audit;
pub mod experiment;
pub mod model;
pub mod record;
pub mod study;
pub mod views;

pub use consenso_agents::{account, agent, gate, privacy, protocol, sharing, simulate, theory};
pub use consenso_dp::random;
pub use consenso_problem::{ConfigError, Graph, Loss, config_error, data, graph, kernel, problem};
pub use consenso_queries as queries;
pub use study::{Bounds, Fitted, Noise, Rows, Study, StudyError};
