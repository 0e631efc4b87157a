//! What a release costs among agents of a graph; prices that need no graph are those of
//! [`consenso_dp`].
//!
//! [`distributed_noise`] is what a sum costs when every agent adds a part of its noise.
//! [`correlated`] is what messages cost when both ends of every edge add ± the same secret noise.
//! [`masked`] is what sums cost that only many agents together can read, while some of them die.

pub mod distributed_noise;
pub mod masked;

pub use consenso_problem::graph::correlated;

pub use consenso_dp::{
    AccountingError, Adversary, Bound, Calibration, Claim, Coalition, Composition, Event,
    GaussianMeaning, Meaning, Mechanism, Method, NeighbourRelation, Profile, Sampling, advanced,
    adversary, basic, calibrate, claim, compose, error, event, filter, gaussian_interval, gdp, kov,
    meaning, mixture, objective_perturbation, parse_events, pld, printed_down, printed_up, rdp,
    renyi_table, round, sampled, studies, zcdp,
};
