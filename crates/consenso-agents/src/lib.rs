//! Agents that optimise together, and the one gate through which private values leave.
//!
//! An algorithm ([`protocol`]) drafts a message, [`gate`] draws its noise, charges and releases it;
//! [`account`] finds the noise for a budget and what it costs, with the theorems that need a graph
//! in [`privacy`]. [`agent`] is an agent among messages, [`sharing`] the exchanges that reveal sums
//! only, [`simulate`] drives all agents on one machine or on several. [`theory`] says what
//! theorems certify of a choice of parameters.

pub mod account;
pub mod agent;
pub mod facts;
pub mod gate;
pub mod privacy;
pub mod protocol;
pub mod sharing;
pub mod simulate;
pub mod theory;

use consenso_dp::random;
use consenso_problem::{ConfigError, config_error, data, graph, kernel, problem};
