//! The real network: agents as processes that trust nobody and lose nothing.
//!
//! It drives the same state machine as the simulator ([`consenso_engine::agent::Agent`]) over gRPC
//! streams with mutual TLS, and keeps what must not be lost in SQLite. For the same seed the
//! transcript is the simulator's, bit for bit.

mod admission;
pub mod agreement;
pub mod audit_log;
pub mod books;
mod call;
pub mod changes;
pub mod claim;
pub mod clock;
mod differences;
mod driven;
mod edges;
mod equivocation;
mod error;
pub mod folder;
pub mod frame;
mod held;
pub mod identity;
#[cfg(test)]
mod liars;
mod link;
mod marks;
pub mod metrics;
pub mod network;
pub mod node;
pub mod progress;
pub mod receipts;
pub mod rejoin;
pub mod seal;
pub mod signer;
#[cfg(test)]
mod simulated;
mod spending;
mod storage;
pub mod store;
pub mod studies;
pub mod surroundings;
mod wire;
mod witness;

pub use call::{Unreached, reach};
pub use folder::Folder;
pub use node::{NodeError, Options, Outcome, run};
pub use progress::{Convergence, Progress, Watched};
