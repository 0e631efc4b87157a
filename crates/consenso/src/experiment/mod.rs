//! Experiments: from an unchecked file to a record.
//!
//! ```text
//! ExperimentSpec (what the file says) ─► check ─► Experiment (sound, all open choices made) ─► run ─► Record
//! ```

mod audit;
mod budget;
mod check;
mod correlated;
mod cost;
mod large;
mod models;
mod perturbed;
mod pieces;
mod plan;
mod pool;
mod problem;
mod reference;
mod run;
mod scouted;
mod shared;
mod site;
mod spec;
mod sweep;
mod trust;

pub use audit::{AlgorithmAudit, AuditTarget};
pub use check::{Experiment, Inputs, Source};
pub use cost::CommandCost;
pub use large::{LargeAlgorithm, LargePoint, LargeProgress, LargeRecord, LargeRun, run_parted};
pub use pieces::{Part, Piece, Place, RecordsDigest, Share};
pub use plan::{AlgorithmPlan, Constants};
pub use pool::{Machine, Outlook, TaskCost, makespan};
pub use problem::{AgentSpec, Numbers, ProblemSpec};
pub use run::{Finished, Job, Observer, Silent, Trained, put_together, run, run_pieces};
pub use shared::SharingSpec;
pub use site::{Charge, SharingSite, Site, SitePlan};
pub use spec::{
    Accounting, AlgorithmSpec, CalibratedSpec, DataSpec, ExperimentSpec, LossKind, Mechanism, NoiseSpec,
    NormName, ObjectiveSpec, Origin, PartitionSpec, PrivacySpec, SpecError, SweepSpec,
};
pub use trust::{Exposed, ExposureReport, PairwiseMap};

/// Experiments that come with the software: name, one line about it, and the file.
pub const BUILT_IN: &[(&str, &str, &str)] = &[
    (
        "adult",
        "10 agents, 30,000 census records, logistic regression under (epsilon = 1, delta = 1e-6)",
        include_str!("../../experiments/adult.toml"),
    ),
    (
        "paper-2a",
        "Figure 2 of the paper: private ADMM, 10 agents of 100 records, Laplace noise of rate 1.02^k",
        include_str!("../../experiments/paper/2a.toml"),
    ),
    ("paper-b", "Figure B: the same with 100 agents", include_str!("../../experiments/paper/b.toml")),
    (
        "paper-c",
        "Figure C: PDOP, Algorithm 2* and Algorithm 1, 10 agents, 40 edges",
        include_str!("../../experiments/paper/c.toml"),
    ),
    (
        "paper-d1",
        "Figure D-1: random against fixed weights without privacy, 10 agents",
        include_str!("../../experiments/paper/d1.toml"),
    ),
    (
        "paper-d1-gd",
        "Figure D-1: Algorithm 2 against its fixed twin, complete graph",
        include_str!("../../experiments/paper/d1-gd.toml"),
    ),
    ("paper-d2", "Figure D-2: as D-1 with 100 agents", include_str!("../../experiments/paper/d2.toml")),
    (
        "paper-d2-gd",
        "Figure D-2: as D-1 with 100 agents, complete graph",
        include_str!("../../experiments/paper/d2-gd.toml"),
    ),
    (
        "paper-dual-sign",
        "Algorithm 1 with its dual step mended and as printed, which diverges",
        include_str!("../../experiments/paper/dual-sign.toml"),
    ),
    (
        "heart",
        "four real hospitals, 920 patients, under (epsilon = 5, delta = 1e-4): UCI Heart Disease",
        include_str!("../../experiments/heart.toml"),
    ),
    (
        "heart-flamby",
        "the same hospitals with the split of FLamby's benchmark, epsilon from 0.1 to 50",
        include_str!("../../experiments/heart-flamby.toml"),
    ),
    (
        "secret-shared",
        "agents that reveal the mean of their vectors and nothing else (Algorithm 3)",
        include_str!("../../experiments/secret-shared.toml"),
    ),
    (
        "distributed-noise",
        "accuracy against epsilon: every agent's own noise, and parts of a common one in secret shares (minutes)",
        include_str!("../../experiments/distributed-noise.toml"),
    ),
    (
        "frontier",
        "accuracy against epsilon from 0.1 to 10 for every private algorithm, 10 and 100 agents (minutes)",
        include_str!("../../experiments/frontier.toml"),
    ),
    (
        "dimension",
        "utility loss from 10 to 100,000 dimensions: flat or polynomial, by the norm that noise is priced in (minutes)",
        include_str!("../../experiments/dimension.toml"),
    ),
    (
        "dispatch-14",
        "economic dispatch of the IEEE 14-bus grid: 5 generators, one balance, costs kept by each",
        include_str!("../../experiments/dispatch-14.toml"),
    ),
    (
        "dispatch-118",
        "the same on the IEEE 118-bus grid: 54 generators",
        include_str!("../../experiments/dispatch-118.toml"),
    ),
    (
        "allocation",
        "four projects share two resources under capacities, with limits of their own",
        include_str!("../../experiments/allocation.toml"),
    ),
    (
        "sharing",
        "ten models on private records whose weights meet one budget, under (epsilon = 2, delta = 1e-6)",
        include_str!("../../experiments/sharing.toml"),
    ),
];

/// The text of a built-in experiment.
#[must_use]
pub fn built_in(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|e| e.0 == name).map(|e| e.2)
}
