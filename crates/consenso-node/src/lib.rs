//! The real network: agents as processes that trust nobody and lose nothing.
//!
//! It drives the same state machine as the simulator ([`consenso_engine::agent::Agent`]) over gRPC
//! streams with mutual TLS, and keeps what must not be lost in SQLite. For the same seed the
//! transcript is the simulator's, bit for bit.

#[cfg(not(unix))]
compile_error!(
    "sites run on Linux and macOS: their keys and ledgers lean on permissions of Unix files. On other \
     systems build the rest: cargo build -p consenso-cli --no-default-features --features mpi"
);

mod admission;
pub mod agreement;
pub mod audit_log;
pub mod books;
mod call;
mod callers;
pub mod changes;
pub mod claim;
pub mod decisions;
mod differences;
mod driven;
mod edges;
mod equivocation;
mod error;
pub mod folder;
pub mod frame;
#[cfg(test)]
#[path = "../simulated/free_ports.rs"]
mod free_ports;
mod handshake;
pub mod identity;
mod link;
#[cfg(test)]
#[path = "../simulated/lying_peers.rs"]
mod lying_peers;
mod marks;
pub mod metrics;
pub mod network;
pub mod node;
pub mod progress;
mod proxy;
pub mod receipts;
pub mod rejoin;
mod release_cache;
pub mod release_signature;
pub mod signer;
#[cfg(test)]
#[path = "../simulated/mod.rs"]
mod simulated;
mod spending;
mod storage;
pub mod store;
pub mod studies;
pub mod surroundings;
mod watchdog;
mod wire;
mod witness;

pub use consenso_ledger::clock;

pub use call::{CallFailure, reach};
pub use folder::Folder;
pub use node::{NodeError, Options, Outcome, run};
pub use progress::{Convergence, Progress, Watched};
