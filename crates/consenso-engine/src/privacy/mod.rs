//! The privacy engine: what a release costs, and what all of them cost together.
//!
//! A release is recorded as a frozen [`event::Event`]; the files named after a composition theorem
//! interpret it. Every ε that leaves this module is an upper bound: rounded up, with truncation and
//! round-off charged to δ, and a method that is not valid for what happened answers with its reason
//! instead of a number (docs/paper.md section 4).
//!
//! | file | theorem | Laplace | Gaussian | any ε-DP | ρ-zCDP |
//! |---|---|---|---|---|---|
//! | [`basic`] | sum of ε | yes | no | yes | no |
//! | [`advanced`] | tightened advanced composition (the paper's footnote) | yes | no | yes | no |
//! | [`kov`] | Kairouz–Oh–Viswanath optimal composition | yes | no | yes | no |
//! | [`zcdp`] | concentrated differential privacy | yes | yes | yes | yes |
//! | [`rdp`] | Rényi differential privacy | yes | yes | yes | yes |
//! | [`gdp`] | Gaussian differential privacy, exact | no | yes | no | no |
//! | [`pld`] | privacy loss distribution | yes | yes | yes | no |
//!
//! [`objective_perturbation`] is the pure ε of a release whose noise stands inside the problem it
//! solves. [`distributed_noise`] is what a sum costs when every agent adds a part of its noise.
//! [`correlated`] is what messages cost when both ends of every edge add ± the same secret noise.
//! [`masked`] is what sums cost that only many agents together can read, while some of them die.
//! [`views`] is what a single agent of a gossip can tell about each other one. Costs that depend on
//! the transcript (the interval mechanism) compose through a [`filter`] only. [`studies`] adds up
//! whole studies of the same records.

pub mod advanced;
pub mod adversary;
pub mod basic;
pub mod calibrate;
pub mod claim;
pub mod compose;
pub mod correlated;
pub mod distributed_noise;
pub mod error;
pub mod event;
pub mod filter;
pub mod gaussian_interval;
pub mod gdp;
pub mod kov;
pub mod masked;
pub mod meaning;
pub mod mixture;
mod normal;
pub mod objective_perturbation;
pub mod pld;
mod quadrature;
pub mod rdp;
pub mod renyi_table;
mod round;
pub mod studies;
pub mod views;
pub mod zcdp;

pub use crate::problem::NeighbourRelation;
pub use adversary::{Adversary, Coalition};
pub use calibrate::{Calibration, calibrate};
pub use claim::Claim;
pub use compose::{Bound, Composition, Method, Profile, compose};
pub use error::AccountingError;
pub use event::{Event, Mechanism, parse_events};
pub use meaning::Meaning;
pub use round::{printed_down, printed_up};
