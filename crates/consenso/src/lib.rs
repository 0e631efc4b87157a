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
pub use consenso_engine::{
    Bounds, ConfigError, Fitted, Graph, Loss, Noise, Rows, Study, StudyError,
};

/// From an algorithm, public facts and a budget to noise and its price.
pub mod account {
    pub use consenso_engine::account::{
        Accounting, CalibratedSpec, NoiseSpec, NormName, PrivacySpec,
    };
}

/// Agents among messages, for a transport of one's own.
pub mod agent {
    pub use consenso_engine::agent::{
        AbsenceError, AddNeighbourError, Agent, Checkpoint, Core, Effect, Exchange, Message,
        NeighbourView, Player, Refusal, RejoinError, RestoreError, Timetable, Vectors,
    };
    pub use consenso_engine::gate::Round;
}

/// The black-box auditor: how much a sampler gives away, measured.
pub mod audit {
    pub use consenso_engine::audit::{
        Audit, AuditedClaim, ObservedEvent, Options, Side, Tail, Trial, Verdict, audit,
    };
}

/// Records: schemas, readers, encodings, data sets and their division among agents.
pub mod data {
    pub use consenso_engine::data::{
        Column, DataError, Dataset, DateForm, Day, DraftOptions, Encoder, FeaturePart, Format,
        Grouping, Kind, Label, LoadReport, Missing, Partition, PartitionError, PublicKnowledge,
        RawColumn, RawLayout, Reading, RecordKeys, Records, RowBounds, Schema, SchemaError, Shard,
        SharedRecords, StoredRows, Synthetic, SyntheticError, SyntheticTask, Table, Task,
        TextEncoding, Unknown, csv,
    };
}

/// Planning and running: experiments as files describe them, and what observes a run.
pub mod experiment {
    pub use consenso_engine::experiment::{
        AgentCosts, AgentSpec, AlgorithmAudit, AlgorithmPlan, AlgorithmSpec, Asking, AuditTarget,
        Balanced, ClassWeight, CommandCost, Constants, Covariance, DataOrigin, DataSpec, ErrorAt,
        ExchangeKind, Experiment, ExperimentSpec, Exposed, ExposedRecord, ExposureReport, Finished,
        FormatSpec, InferenceSpec, Inputs, LocalMaker, Machine, MapAttack, MaskedSite, Models,
        NearestPair, NoiseSpec, Notation, Numbers, ObjectiveSpec, Outlook, Part, PartitionSpec,
        Piece, Place, ProblemSpec, Questionnaire, QuestionsSpec, Recommendation, RecordsDigest,
        Share, SharingSite, SharingSpec, Site, SitePlan, Source, SpecError, SweepSpec, TaskCost,
        Threshold, ThresholdRule, Trained, Unfinished,
    };
}

/// The one door of private values, and noise that is exact in floating point.
pub mod gate {
    pub use consenso_engine::gate::exact::{Grid, Noise, NoiseError, release};
    pub use consenso_engine::gate::{
        Batches, Charge, DraftScratch, FilterCost, FilterPlan, FixedPoint, Gate, InsideCost,
        Ledger, MaskLabel, Masks, Pair, Pairs, Release, RoundNoise, SchedulePlan, ShareError,
        Shares, StopReason, Turn,
    };
}

/// Who talks to whom: graphs as experiments describe them.
pub mod graph {
    pub use consenso_engine::graph::{
        Arcs, Directed, EdgeProblem, Eigenvalue, GraphError, GraphSpec, LaplacianSpectrum, Mixing,
    };
}

/// Sums over slices in a fixed order: the same bits on every machine.
pub mod kernel {
    pub use consenso_engine::kernel::{axpy, distance, dot, norm};
}

/// Statistics of all records: questions, the sums that answer them, answers with intervals.
pub mod queries {
    pub use consenso_engine::queries::{
        Answer, Answered, ColumnInfo, ColumnKind, Columns, Expected, KnownPart, Norms, Plan,
        Question, QuestionError, QuestionKind, QuestionnaireFacts, Released, Strategy, Test,
    };
}

/// Models as files, what they predict and how good they are.
pub mod model {
    pub use consenso_engine::model::{
        AgentModel, Answer, BetweenSites, Calibration, CalibrationBin, ClaimNote, Coefficient,
        Estimate, Inference, Inferred, Metrics, Model, ModelError, ModelOrigin, OutcomeBin,
        Prediction, SurvivalPoint, TableFormat, WaldTest,
    };
}

/// Accounting: events, their composition, calibration and claims.
pub mod privacy {
    pub use consenso_engine::privacy::calibrate::{
        CertifiedCost, NoiseKind, Request, calibrate, complete_sensitivity,
    };
    pub use consenso_engine::privacy::compose::compose;
    pub use consenso_engine::privacy::filter::{ChargeError, OverBudget, RenyiFilter, SumFilter};
    pub use consenso_engine::privacy::renyi_table::{ChargeScratch, RoundCosts};
    pub use consenso_engine::privacy::studies::{EpsilonDelta, StudyCost};
    pub use consenso_engine::privacy::{
        AccountingError, Adversary, Bound, Calibration, Claim, Coalition, Composition, Event,
        Mechanism, Method, NeighbourRelation, Sampling, parse_events, printed_up,
    };
    pub use consenso_engine::views::{CoalitionView, PairwiseMap};
}

/// What each agent minimises.
pub mod problem {
    pub use consenso_engine::problem::coupling::{Block, CouplingError, Relation};
    pub use consenso_engine::problem::losses;
    pub use consenso_engine::problem::weights::SiteWeight;
    pub use consenso_engine::problem::{
        Constraint, Costs, Coupling, LocalObjective, LossKind, MeanLoss, Objective, Score,
        Sensitivity, SiteWeights, WeightRule, Workspace,
    };
}

/// Algorithms, and what it takes to add one.
pub mod protocol {
    pub use consenso_engine::protocol::schedule::ScheduleShape;
    pub use consenso_engine::protocol::scouted::MethodPart;
    pub use consenso_engine::protocol::{
        Admm, Aggregation, Algorithms, Assessed, Capabilities, CommonSummary, Configured,
        ConsensusAdmm, CoordinateDescent, CoordinateOrder, Couplable, Decor, Dgd, Drift,
        DualVariablePerturbation, Extra, GradientDescent, GradientTracking, LinearAdmm, Memory,
        MixName, MixRule, Muffliato, Needs, NeighbourhoodDescent, OutputAdmm, Pairwise, Parameters,
        Partial, Parts, Pdop, PenaltyPerturbation, Priced, PricedNoise, PricedRound, Protocol,
        PublicFacts, PublishedCost, Randomized, Relaying, Remembering, Response, Schedule,
        Scouting, Summed, View, Weights, parse,
    };
}

/// Randomness as a function of a seed, an agent, a round and a purpose.
pub mod random {
    pub use consenso_engine::random::{Purpose, Seed};
}

/// What a run leaves: its curves, its claims and what may be shared.
pub mod record {
    pub use consenso_engine::record::{
        AcrossRuns, AlgorithmRecord, Baselines, CertifiedCurve, CurvePoint, DelayRecord,
        EpsilonRecord, Estimates, PersonalRecord, ProblemRecord, Processes, PublishedRecord,
        Record, Reference, ResultKind, Shareable, Spread, SweepPoint, TotalEpsilon, TraceRow,
        TrafficRecord, TranscriptDigest, ZeroModel,
    };
}

/// Exchanges that reveal sums only: secret shares and masked sums.
pub mod sharing {
    pub use consenso_engine::sharing::{
        MaskedMessage, MaskedSums, Phase, SecretShares, ShareMessage,
    };
}

/// All agents on one machine or several.
pub mod simulate {
    pub use consenso_engine::simulate::{
        Bursts, Compression, Delays, DropOut, LinkPattern, MessageLoss, RankError, SimulationError,
        Sleep, TwoStateChain,
    };
}

/// What a study is made of, beside [`Study`] itself.
pub mod study {
    pub use consenso_engine::study::Topology;
}

/// What theorems certify and working rules predict of a choice of parameters.
pub mod theory {
    pub use consenso_engine::theory::{
        Assessment, Certainty, CertifiedBound, TheoremInputs, admm, descent,
    };
}
