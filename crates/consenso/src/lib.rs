//! Private decentralized optimisation.
//!
//! Several agents on a graph minimise `Σ f_i(x)` together; no server, no trusted party. Each agent
//! keeps its records, exchanges only noised vectors with its neighbours and accounts, with local
//! differential privacy, for what it gave away.
//!
//! Three clinics fit one model without showing each other a record; here a reading above 120 is
//! dangerous:
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
//! The noise of such a run comes from the operating system, and the claim holds for it;
//! [`Study::seed`] repeats a run bit for bit instead. `examples/` has a file for each next step:
//! accounting alone, secret shares, an algorithm of your own, your own transport. What comes in
//! files (experiments, a CSV of your own, a linear constraint, reading a record) is in the crate
//! `consenso-study`, with its examples.
//!
//! The modules follow the arrow of `ARCHITECTURE.md`: problem → graph → protocol → gate → transport
//! → ledger → record. What is here is kept for those who build on it; the rest of the mathematics
//! is in `consenso-engine`, which the other crates of this project share and which may change with
//! any of them.

pub use consenso_engine::data::Encoding;
pub use consenso_engine::experiment::{Observer, RunError};
pub use consenso_engine::{Bounds, Fault, Fitted, Graph, Loss, Rows, Study, StudyError};

/// Agents among messages, for a transport of one's own.
pub mod agent {
    pub use consenso_engine::agent::{Agent, Effect, Message, Refusal};
    pub use consenso_engine::gate::Round;
}

/// The black-box auditor: how much a sampler gives away, measured.
pub mod audit {
    pub use consenso_engine::audit::{Audit, Claimed, Options, Trial, Verdict, audit};
}

/// The one door of private values, and noise that is exact in floating point.
pub mod gate {
    pub use consenso_engine::gate::exact::{Grid, Noise, NoiseError, release};
    pub use consenso_engine::gate::{Charge, Release, StopReason};
}

/// Who talks to whom: graphs as experiments describe them.
pub mod graph {
    pub use consenso_engine::graph::{GraphError, GraphSpec};
}

/// Sums over slices in a fixed order: the same bits on every machine.
pub mod kernel {
    pub use consenso_engine::kernel::{axpy, distance, dot, norm};
}

/// Models as files, what they predict and how good they are.
pub mod model {
    pub use consenso_engine::model::{Metrics, Model, ModelError, Prediction};
}

/// Accounting: events, their composition, calibration and claims.
pub mod privacy {
    pub use consenso_engine::privacy::calibrate::{
        NoiseKind, Request, calibrate, complete_sensitivity,
    };
    pub use consenso_engine::privacy::compose::compose;
    pub use consenso_engine::privacy::{
        AccountingError, Adversary, Bound, Calibration, Claim, Coalition, Composition, Event,
        Mechanism, Method, NeighbourRelation, parse_events, printed_up,
    };
}

/// What each agent minimises.
pub mod problem {
    pub use consenso_engine::problem::{
        Constraint, LocalObjective, Sensitivity, SiteWeights, Workspace,
    };
}

/// Algorithms, and what it takes to add one.
pub mod protocol {
    pub use consenso_engine::protocol::{
        Admm, Aggregation, Algorithms, Configured, ConsensusAdmm, CoordinateDescent, Decor, Dgd,
        DualVariablePerturbation, Extra, GradientDescent, GradientTracking, LinearAdmm, Memory,
        MixRule, Muffliato, NeighbourhoodDescent, Order, OutputAdmm, Parameters, Partial, Parts,
        Pdop, PenaltyPerturbation, Protocol, PublicFacts, Response, Schedule, Summed, Tolerant,
        Tossing, View, parse,
    };
}

/// Randomness as a function of a seed, an agent, a round and a purpose.
pub mod random {
    pub use consenso_engine::random::{Purpose, Seed};
}

/// What a run leaves: its curves, its claims and what may be shared.
pub mod record {
    pub use consenso_engine::record::{
        AlgorithmRecord, CurvePoint, EpsilonRecord, Record, ResultKind, Shareable, Spread, TraceRow,
    };
}
