//! What the R package `consenso` asks of the library: text in, JSON out.
//!
//! R hands over texts by name (an experiment, a schema, the text of a table) and gets JSON back, so
//! that nothing here knows R and nothing of R must be installed to compile it. `ffi.rs` is the C
//! interface that the package links; a run works on a thread of its own while R's thread looks for
//! Ctrl-C.

mod calls;
mod error;
mod ffi;
mod threads;
mod watch;

pub use calls::{Arguments, call};
pub use error::CallError;
pub use ffi::{consenso_call, consenso_free};
pub use watch::Watch;

#[cfg(test)]
mod tests;
