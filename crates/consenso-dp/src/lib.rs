//! Differential privacy that adds up: what a release costs, what all of them cost together, and the
//! noise itself, exact on a computer.
//!
//! Two hundred Gaussian releases, priced by every theorem that holds of them; the claim says its
//! neighbours, its adversary and its method:
//!
//! ```
//! use consenso_dp::{Event, Method, compose};
//!
//! let releases = [Event::gaussian(0.05, 200)]; // sensitivity over deviation, and how many
//! let all = compose(&releases, 1e-6)?;
//! let (method, epsilon) = all.best().expect("a Gaussian has a finite ε");
//! assert!(method == Method::Gdp && epsilon < 3.4);
//! # Ok::<(), consenso_dp::AccountingError>(())
//! ```
//!
//! Noise whose ε is the ideal one whatever the low bits say, on one number, on many, or on `f32`;
//! it knows its cost:
//!
//! ```
//! use consenso_dp::compose;
//! use consenso_dp::exact::{Noise, Sampler};
//!
//! let entropy = [7; 32]; // of the operating system, such as `getrandom::fill` gives
//! let mut noise = Sampler::new(Noise::Laplace { scale: 2.0 }, entropy)?;
//! println!("{:.1}", noise.release(1280.0)?); // a count under ε = 0.5
//! let spent = compose(&[noise.event(1.0)], 1e-6)?; // which one record changes by 1
//! assert!(spent.best().is_some_and(|(_, epsilon)| epsilon <= 0.5 + 1e-9));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A release is recorded as a frozen [`Event`]; the modules named after a composition theorem
//! interpret it. Every ε that leaves this crate is an upper bound: rounded up, with truncation and
//! round-off charged to δ, and a method that is not valid for what happened answers with its reason
//! instead of a number.
//!
//! | module | theorem | Laplace | Gaussian | any ε-DP | ρ-zCDP | sampled Laplace | sampled Gaussian |
//! |---|---|---|---|---|---|---|---|
//! | [`basic`] | sum of ε | yes | no | yes | no | yes | no |
//! | [`advanced`] | tightened advanced composition (the paper's footnote) | yes | no | yes | no | yes | no |
//! | [`kov`] | Kairouz–Oh–Viswanath optimal composition | yes | no | yes | no | yes | no |
//! | [`zcdp`] | concentrated differential privacy | yes | yes | yes | yes | yes | no |
//! | [`rdp`] | Rényi differential privacy | yes | yes | yes | yes | yes | yes |
//! | [`gdp`] | Gaussian differential privacy, exact | no | yes | no | no | no | no |
//! | [`pld`] | privacy loss distribution | yes | yes | yes | no | yes | yes |
//!
//! Sampled releases draw every record with a secret chance ([`sampled`], amplification by
//! subsampling).
//!
//! Costs that depend on the transcript (the interval mechanism: [`mixture`], [`gaussian_interval`])
//! compose through a [`filter`] only. [`objective_perturbation`] is the price of a release whose
//! noise stands inside the problem it solves. [`calibrate()`] finds the noise for a budget.
//! [`studies`] adds up whole studies of the same records and decides which may still begin.
//! [`exact`] draws the noise; [`random`] says from which stream.

pub mod advanced;
pub mod adversary;
pub mod basic;
pub mod calibrate;
pub mod claim;
pub mod compose;
pub mod error;
pub mod event;
pub mod exact;
pub mod filter;
pub mod gaussian_interval;
pub mod gdp;
pub mod kov;
pub mod meaning;
pub mod mixture;
mod neighbours;
mod normal;
pub mod objective_perturbation;
pub mod pld;
mod quadrature;
pub mod random;
pub mod rdp;
pub mod renyi_table;
pub mod round;
pub mod sampled;
mod sensitivity;
pub mod studies;
pub mod zcdp;

pub use adversary::{Adversary, Coalition};
pub use calibrate::{Calibration, calibrate};
pub use claim::Claim;
pub use compose::{Bound, Composition, Method, Profile, compose};
pub use error::AccountingError;
pub use event::{Event, Mechanism, parse_events};
pub use meaning::{GaussianMeaning, Meaning};
pub use neighbours::NeighbourRelation;
pub use round::{printed_down, printed_up};
pub use sampled::Sampling;
pub use sensitivity::Sensitivity;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
