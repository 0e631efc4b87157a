//! Private decentralized optimisation.
//!
//! Several agents on a graph minimise `Σ f_i(x)` together; no server, no trusted party. Each agent keeps its records,
//! exchanges only noised vectors with its neighbours and accounts, with local differential privacy, for what it gave away.
//!
//! Three clinics fit one model without showing each other a record; here a reading above 120 is dangerous:
//!
//! ```
//! use consenso::{Bounds, Graph, Loss, Rows, Study, protocol::Dgd};
//!
//! // What everybody may know: age lies between 18 and 90, the reading between 60 and 200.
//! let bounds = Bounds::ranges([(18.0, 90.0), (60.0, 200.0)]);
//! let clinic = |first: u32| {
//!     let patients = (first..first + 4000).map(|i| [f64::from(18 + i * 7 % 73), f64::from(60 + i * 13 % 141)]);
//!     let rows: Vec<[f64; 2]> = patients.collect();
//!     let labels: Vec<f64> = rows.iter().map(|r| if r[1] > 120.0 { 1.0 } else { -1.0 }).collect();
//!     Rows::clip(&rows, &labels, &bounds) // or Rows::check, which refuses a row outside the bounds
//! };
//! let sites = [clinic(0)?, clinic(1000)?, clinic(5000)?];
//! let fitted = Study::new(&sites, Loss::Logistic)
//!     .graph(Graph::complete(sites.len()))
//!     .budget(1.0, 1e-6)
//!     .algorithm(Dgd::default())
//!     .run()?;
//! println!("{}", fitted.claim().expect("there is a budget"));
//! assert_eq!(fitted.predict(&[[50.0, 65.0], [50.0, 195.0]])?, [-1.0, 1.0]);
//! assert_eq!((fitted.models().len(), fitted.record().algorithms[0].kind.as_str()), (3, "dgd"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The noise of such a run comes from the operating system, and the claim holds for it; [`Study::seed`] repeats a run bit for bit instead.
//! `examples/` has a file for each next step: accounting alone, secret shares, an algorithm of your own, your own transport. What comes
//! in files (experiments, a CSV of your own, a linear constraint, reading a record) is in the crate `consenso-study`, with its examples.
//!
//! The modules follow the arrow of `ARCHITECTURE.md`:
//! problem → graph → protocol → gate → transport → ledger → record.

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
