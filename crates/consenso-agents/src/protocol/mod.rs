//! Protocols: what an agent drafts in a round.
//!
//! In every algorithm of the paper an agent's next message is, per coordinate,
//!
//! ```text
//! message = uniform point of a public interval [low, high]  +  private step  +  noise
//! ```
//!
//! A protocol states the interval, the private step and the step's sensitivity. It never draws
//! noise and never sends: that is the [gate](crate::gate)'s. Three placements of the step are known
//! ([`Response`]): beside the drawn point, computed at it, or computed with the noise already in
//! it, as objective perturbation does. Everything a protocol sees in a [`View`] is public, for it
//! was released; only `local` is private.
//!
//! An algorithm is one file here that implements [`Protocol`] and those of its [parts](Parts) that
//! it has, and one line in [`algorithms!`](self) below.

mod accelerated;
mod admm;
mod atc_tracking;
mod aug_dgm;
mod capabilities;
mod choco;
pub(crate) mod compressed;
mod consensus_admm;
mod decor;
mod dgd;
mod diffusion;
mod dlm;
mod dp_csgp;
mod dvp;
mod dyn_d2p;
mod exact_diffusion;
mod extra;
mod gradient_descent;
mod gradient_tracking;
mod gt_svrg;
mod lead;
mod led;
pub mod linear_admm;
mod local_steps;
mod mixing;
mod muffliato;
mod neighbourhood;
mod nids;
mod output_admm;
mod parameters;
mod parts;
mod pdop;
mod pp;
mod proxskip;
mod published;
mod push_diging;
mod push_sum;
mod rcd;
pub mod schedule;
pub mod scouted;
pub mod staged;

pub use accelerated::Accelerated;
pub(crate) use admm::ASSUMED_RESIDUAL;
pub use admm::Admm;
pub use atc_tracking::AtcTracking;
pub use aug_dgm::AugDgm;
pub use capabilities::{Capabilities, Scouting};
pub use choco::Choco;
pub use compressed::Compressor;
pub use consensus_admm::ConsensusAdmm;
pub use decor::Decor;
pub use dgd::Dgd;
pub use diffusion::Diffusion;
pub use dlm::Dlm;
pub use dp_csgp::DpCsgp;
pub use dvp::DualVariablePerturbation;
pub use dyn_d2p::DynD2p;
pub use exact_diffusion::ExactDiffusion;
pub use extra::Extra;
pub use gradient_descent::GradientDescent;
pub use gradient_tracking::GradientTracking;
pub use gt_svrg::GtSvrg;
pub use lead::Lead;
pub use led::Led;
pub use linear_admm::LinearAdmm;
pub use mixing::MixName;
pub use mixing::MixRule;
pub use muffliato::Muffliato;
pub use neighbourhood::NeighbourhoodDescent;
pub use nids::Nids;
pub use output_admm::OutputAdmm;
pub use parameters::parse;
pub use parts::{
    Assessed, Configured, Couplable, Partial, Parts, Priced, Randomized, Relaying, Summed,
};
pub use pdop::Pdop;
pub use pp::PenaltyPerturbation;
pub use proxskip::ProxSkip;
pub(crate) use published::totals as published_totals;
pub use published::{PricedNoise, PricedRound, PublishedCost};
pub use push_diging::PushDiging;
pub use push_sum::PushSum;
pub use rcd::{CoordinateDescent, CoordinateOrder};
pub use schedule::Schedule;

use crate::ConfigError;
pub use crate::facts::ENOUGH_STEPS;
pub use crate::facts::{Parameters, PublicFacts};
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Everybody's released vectors as one agent sees them: its own row and its neighbours', in order
/// of agent number.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    rows: &'a [f64],
    dim: usize,
    /// Numbers from one row to the next, and where the part that is seen begins in each.
    stride: usize,
    offset: usize,
    me: u32,
    neighbours: &'a [u32],
    weights: Weights<'a>,
    place: usize,
    round: u32,
    regularization: f64,
    constraint: Constraint,
    common: Option<&'a CommonSummary>,
    mixing: MixRule,
}

impl<'a> View<'a> {
    /// The view of the agent whose row is `me`, with neighbours in the rows `neighbours`, after
    /// `round` exchanges.
    ///
    /// `place` is where the agent's own number would stand among its neighbours' (so that sums over
    /// both keep the order of agents).
    #[must_use]
    pub fn new(
        rows: &'a [f64],
        dim: usize,
        me: u32,
        neighbours: &'a [u32],
        place: usize,
        weights: Weights<'a>,
        round: u32,
    ) -> Self {
        Self {
            rows,
            dim,
            stride: dim,
            offset: 0,
            me,
            neighbours,
            weights,
            place,
            round,
            regularization: 0.0,
            constraint: Constraint::None,
            common: None,
            mixing: MixRule::Average,
        }
    }

    /// A part of every message, of `dim` numbers from `offset` on, as an algorithm that began after
    /// `done` rounds sees it.
    pub(crate) fn part(mut self, offset: usize, dim: usize, done: u32) -> Self {
        (self.offset, self.dim, self.common) = (self.offset + offset, dim, None);
        self.round = self.round.saturating_sub(done);
        self
    }

    /// Adds what all agents would compute alike, computed once.
    #[must_use]
    pub fn with_common(mut self, common: Option<&'a CommonSummary>) -> Self {
        self.common = common;
        self
    }

    /// Replaces the weighted average of [`Self::mix`] by another rule.
    #[must_use]
    pub fn with_mixing(mut self, mixing: MixRule) -> Self {
        self.mixing = mixing;
        self
    }

    /// Adds μ, which protocols keep on the public side of their drafts.
    #[must_use]
    pub fn with_regularization(mut self, regularization: f64) -> Self {
        self.regularization = regularization;
        self
    }

    /// Adds the set C that models must lie in, which exact minimisers keep to.
    #[must_use]
    pub fn with_constraint(mut self, constraint: Constraint) -> Self {
        self.constraint = constraint;
        self
    }

    /// The set C; what the gate releases is moved into it in any case.
    #[must_use]
    pub fn constraint(&self) -> &Constraint {
        &self.constraint
    }

    /// μ of the public regulariser.
    #[must_use]
    pub fn regularization(&self) -> f64 {
        self.regularization
    }

    /// Rounds exchanged so far; the draft is for round `round() + 1`.
    #[must_use]
    pub fn round(&self) -> u32 {
        self.round
    }

    /// Length of a vector.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// This agent's own last release.
    #[must_use]
    pub fn own(&self) -> &'a [f64] {
        self.row(self.me)
    }

    /// The neighbours' last releases, by agent number.
    pub fn neighbours(&self) -> impl ExactSizeIterator<Item = &'a [f64]> + '_ {
        self.neighbours.iter().map(|&j| self.row(j))
    }

    /// This agent's release and its neighbours', by agent number.
    pub fn everyone(&self) -> impl Iterator<Item = &'a [f64]> + '_ {
        let (before, after) = self.neighbours.split_at(self.place);
        before.iter().chain(std::iter::once(&self.me)).chain(after).map(|&j| self.row(j))
    }

    /// How many neighbours have a smaller number: on a complete graph, this agent's own number.
    #[must_use]
    pub fn place(&self) -> usize {
        self.place
    }

    /// How many neighbours.
    #[must_use]
    pub fn degree(&self) -> usize {
        self.neighbours.len()
    }

    /// `out = Σ_{j∈N_i} x_j`.
    pub fn neighbour_sum(&self, out: &mut [f64]) {
        out.fill(0.0);
        for row in self.neighbours() {
            for (o, x) in out.iter_mut().zip(row) {
                *o += x;
            }
        }
    }

    /// `out = Σ_j W_ij x_j` with the graph's mixing weights, own row included; or what another
    /// [rule](MixRule) makes of these rows.
    pub fn mix(&self, out: &mut [f64]) {
        self.mix_from(0, out);
    }

    /// Writes the part of Σ_j W_ij x_j that begins at coordinate `from` and is as long as `out`.
    pub fn mix_from(&self, from: usize, out: &mut [f64]) {
        if self.mixing != MixRule::Average && (from, out.len()) == (0, self.dim) {
            return self.mixing.mix(self, out);
        }
        let part = from..from + out.len();
        for (o, x) in out.iter_mut().zip(&self.own()[part.clone()]) {
            *o = self.weights.own * x;
        }
        for (row, &w) in self.neighbours().zip(self.weights.neighbours) {
            crate::kernel::axpy(w, &row[part.clone()], out);
        }
    }

    /// `(Σ_j W_ij x_j)[l]`: one coordinate of [`Self::mix`].
    #[must_use]
    pub fn mix_at(&self, coordinate: usize) -> f64 {
        if self.mixing != MixRule::Average {
            let mut all = vec![0.0; self.dim];
            self.mix(&mut all);
            return all[coordinate];
        }
        let others =
            self.neighbours().zip(self.weights.neighbours).map(|(row, w)| w * row[coordinate]);
        self.weights.own * self.own()[coordinate] + others.sum::<f64>()
    }

    /// Σ_j W_ij, own weight included: one, unless links lead one way and weights hand out what a
    /// sender has instead of averaging what a receiver hears.
    #[must_use]
    pub fn weight_total(&self) -> f64 {
        self.weights.own + self.weights.neighbours.iter().sum::<f64>()
    }

    /// What all agents of a complete graph compute alike (see [`CommonSummary`]).
    #[must_use]
    pub fn common(&self) -> std::borrow::Cow<'a, CommonSummary> {
        match self.common {
            Some(common) => std::borrow::Cow::Borrowed(common),
            None => {
                std::borrow::Cow::Owned(CommonSummary::of(&self.everyone().collect::<Vec<_>>()))
            }
        }
    }

    /// Σ of what agents contribute, if the exchange revealed that and no rows.
    #[must_use]
    pub fn total(&self) -> Option<&'a [f64]> {
        self.common?.total.as_deref()
    }

    fn row(&self, j: u32) -> &'a [f64] {
        let start = j as usize * self.stride + self.offset;
        &self.rows[start..start + self.dim]
    }
}

/// An agent's row of the mixing matrix W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights<'a> {
    /// W_ii.
    pub own: f64,
    /// W_ij, in the order of the neighbours.
    pub neighbours: &'a [f64],
}

/// What every agent of a complete graph computes alike from the released rows. A simulator computes
/// it once a round.
#[derive(Clone, Debug, PartialEq)]
pub struct CommonSummary {
    /// The mean of all rows.
    pub mean: Vec<f64>,
    /// The two rows farthest apart in l1, by agent number.
    pub farthest: (usize, usize),
    /// Σ of what agents contribute, where that was revealed instead of rows ([`Needs::Total`]).
    pub total: Option<Vec<f64>>,
}

impl CommonSummary {
    /// Of all agents' rows, in order of agent number.
    ///
    /// The farthest pair is exact. Rows are sorted by their l1 distance r from the mean; r_p + r_q
    /// bounds the distance of a pair, so pairs are tried from the largest bound down and the search
    /// stops at the first bound that cannot win: O(N·d) when a few rows stand out, O(N²·d) only
    /// when all rows are about equally far from the mean.
    #[must_use]
    pub fn of(rows: &[&[f64]]) -> Self {
        let dim = rows.first().map_or(0, |r| r.len());
        let mut mean = vec![0.0; dim];
        for row in rows {
            for (m, x) in mean.iter_mut().zip(*row) {
                *m += x;
            }
        }
        mean.iter_mut().for_each(|m| *m /= rows.len() as f64);
        let l1 = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>();
        let mut far: Vec<(f64, usize)> =
            rows.iter().enumerate().map(|(i, r)| (l1(r, &mean), i)).collect();
        far.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut best = (-1.0, 0, 1.min(rows.len().saturating_sub(1)));
        for (rank, &(r, i)) in far.iter().enumerate() {
            // Rounding can make a bound fall short of its distance by an ulp a coordinate: hence
            // the margin.
            let beaten = |bound: f64| bound * (1.0 + 1e-12) < best.0;
            if beaten(r + r) {
                break;
            }
            for &(s, j) in &far[rank + 1..] {
                if (r + s) * (1.0 + 1e-12) < best.0 {
                    break;
                }
                let (p, q) = (i.min(j), i.max(j));
                let distance = l1(rows[p], rows[q]);
                if distance > best.0 || (distance == best.0 && (p, q) < (best.1, best.2)) {
                    best = (distance, p, q);
                }
            }
        }
        Self { mean, farthest: (best.1, best.2), total: None }
    }
}

/// The chance that a message of an honest run is beyond what honest agents are held to.
pub const CHANCE: f64 = 1e-12;

/// Where the private step is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Response {
    /// The step does not depend on the point drawn from the interval: the release is interval +
    /// step + noise, and a wide interval lowers its cost.
    Shift,
    /// The step is computed at the drawn point: it is x − point with x the minimiser of f(x) +
    /// (D/2)‖x − point‖². The interval randomises the algorithm, but its width buys no privacy.
    AtPoint {
        /// D.
        weight: f64,
    },
    /// The noise comes first: the gate adds it to the drawn point, and the step is computed at the
    /// sum (objective perturbation). The step must be x − point with x the minimiser of f(x) +
    /// (D/2)‖x − point‖²; what it costs is in
    /// [`objective_perturbation`](crate::privacy::objective_perturbation). Width buys no privacy.
    AtNoisedPoint {
        /// D.
        weight: f64,
    },
}

impl Response {
    /// D of the problem that is solved; not a number where none is.
    pub(crate) fn weight(self) -> f64 {
        match self {
            Self::Shift => f64::NAN,
            Self::AtPoint { weight } | Self::AtNoisedPoint { weight } => weight,
        }
    }
}

/// What of the other agents' vectors an algorithm looks at: only sums can be exchanged in secret
/// shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Each neighbour's own vector.
    Rows,
    /// Its own vector and the sum over its neighbours.
    Sum,
    /// The mean of all and nothing else, not even its own.
    Mean,
    /// Its own vector and the sum of what [`Summed::contribute`] makes of everybody's.
    Total,
}

/// Noise that the two ends of every edge share, see [`correlated`](crate::privacy::correlated).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pairwise {
    /// How many agents may pool what they know.
    pub colluders: usize,
    /// σ_cor/σ.
    pub correlation: f64,
}

/// `|x⁺[l]| ≤ factor·max_j |x_j[l]| + step`, noise apart: see [`Assessed::drift`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// What the largest of the last releases is multiplied by, at least 1.
    pub factor: f64,
    /// What comes on top.
    pub step: f64,
    /// Whether the message is a fixed combination of the last releases with weights that are not
    /// negative and add up to at most `factor`, plus the step: then independent noise of many
    /// rounds adds up as its variances do.
    pub linear: bool,
}

/// What an agent remembers, as [`Protocol::step`] sees it: it reads what is public and keeps what
/// depends on the records apart. Nothing else of a protocol is handed the private part.
#[derive(Debug, Default)]
pub struct Memory<'a> {
    /// Functions of what was released.
    pub public: &'a [f64],
    /// What depends on the records ([`Protocol::private_memory`]).
    pub private: &'a mut [f64],
}

/// One private decentralized algorithm, as one agent runs it: the mathematics of a round.
///
/// Three methods are required: what is public of the next message ([`Self::interval`]), what the
/// records contribute ([`Self::step`]), and how far one record moves that
/// ([`Self::step_sensitivity`]). All else has a default, and what only some algorithms have stands
/// in [`Parts`].
pub trait Protocol: std::fmt::Debug + Send + Sync {
    /// Its name in experiment files, records and messages: the name of the type, unless it says
    /// otherwise.
    fn kind(&self) -> &'static str {
        let path = std::any::type_name::<Self>();
        let path = path.split('<').next().unwrap_or(path);
        path.rsplit("::").next().unwrap_or(path)
    }

    /// What it needs and offers, as plain data: what goes with it follows from these.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// What it offers beyond a round: parameters, certificates, a published price, and more.
    /// Nothing, unless it says otherwise.
    fn parts(&self) -> Parts<'_> {
        Parts::default()
    }

    /// [`Parts::configured`], to resolve what the user left open.
    fn configure(&mut self) -> Option<&mut dyn Configured> {
        None
    }

    /// Bounds on how far the private step of round `round` (from 1) moves between neighbours, given
    /// those of the gradient.
    ///
    /// For [`Response::AtNoisedPoint`] it is how far the noise would have to move to make up for
    /// it: ∇f/D.
    fn step_sensitivity(
        &self,
        round: u32,
        degree: usize,
        gradient: &Sensitivity,
        facts: &PublicFacts,
    ) -> Sensitivity;

    /// Writes the public interval of the next message, the regulariser's part of a gradient step
    /// included. `low[l]` need not be below `high[l]`.
    fn interval(&self, view: &View<'_>, memory: &[f64], low: &mut [f64], high: &mut [f64]);

    /// Writes the private step: what the records contribute, and nothing public. `point` is the
    /// drawn point for [`Response::AtPoint`], the same with the noise in it for
    /// [`Response::AtNoisedPoint`], and `low` otherwise.
    fn step(
        &self,
        view: &View<'_>,
        memory: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    );

    /// Updates the memory once everybody's new rows are in `view`.
    fn absorb(&self, _view: &View<'_>, _memory: &mut [f64]) {}

    /// The model an agent would use after the exchange in `view`, given also what it remembers of
    /// releases: its own release, unless the algorithm says otherwise. It is computed from
    /// releases, and costs nothing.
    fn model(&self, view: &View<'_>, _memory: &[f64], model: &mut [f64]) {
        model.copy_from_slice(view.own());
    }

    /// How the private step of round `round` (from 1) relates to the drawn point, for an agent with
    /// `degree` neighbours. The kind of answer is the same in all rounds.
    fn response(&self, _round: u32, _degree: usize) -> Response {
        Response::Shift
    }

    /// How many numbers a message has where models have `dim`. The first `dim` of a longer message
    /// are a model: the constraint set, averages and the last exchanges of gossip are about them.
    fn width(&self, dim: usize) -> usize {
        dim
    }

    /// Bytes of a message of `width` numbers on its way, for the count of a simulation: eight per
    /// number, unless it is compressed.
    fn bytes(&self, width: usize) -> u64 {
        8 * width as u64
    }

    /// How many vectors as long as a message an agent keeps between rounds (duals, a previous
    /// iterate): functions of what was released, which everybody may know.
    fn memory(&self) -> usize {
        0
    }

    /// How many vectors as long as a message an agent keeps between rounds that depend on its
    /// records, such as a previous gradient. Only [`Self::step`] sees them: whatever else is
    /// computed from is public.
    fn private_memory(&self) -> usize {
        0
    }

    /// Keeps of `view` what the next round needs, once the interval is drafted; `memory` is the
    /// public part.
    fn keep(&self, _view: &View<'_>, _memory: &mut [f64]) {}

    /// Sees the release before it is moved into the constraint set: it is paid for, so it is
    /// public.
    fn remember(&self, _release: &[f64], _memory: &mut [f64]) {}

    /// Puts what is sent in the place of the release: a function of it and of what was released
    /// before, such as a compressed change. It is post-processing, which costs nothing. What is
    /// sent is what the agent and its neighbours find in their next views.
    fn send(&self, _view: &View<'_>, _memory: &[f64], _release: &mut [f64]) {}

    /// What an agent sends when its budget allows no release: a function of what was released
    /// before.
    fn idle(&self, view: &View<'_>, out: &mut [f64]) {
        view.mix(out);
    }
}

/// How the random point of an interval is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// Uniform over the interval, fresh per agent, round and coordinate: the paper's method.
    #[default]
    Random,
    /// The fixed-weight twin: the middle of the interval.
    Fixed,
}

/// Shrinks an interval to its middle for fixed weights.
fn settle(aggregation: Aggregation, low: &mut [f64], high: &mut [f64]) {
    if aggregation == Aggregation::Fixed {
        for (l, h) in low.iter_mut().zip(high) {
            *l = 0.5 * (*l + *h);
            *h = *l;
        }
    }
}

/// The table of algorithms: its name in a file, and the type that implements it.
macro_rules! algorithms {
    ($($name:literal => $type:ty),+ $(,)?) => {
        /// Names of all algorithms, as experiment files write them.
        pub const KINDS: &[&str] = &[$($name),+];

        /// The algorithm `kind` with the given parameters; `Err` names the unknown or missing key.
        /// `None`: no such algorithm.
        #[must_use]
        pub fn from_table(kind: &str, parameters: Parameters) -> Option<Result<Box<dyn Protocol>, ConfigError>> {
            match kind {
                $($name => Some(parse::<$type>(parameters).map(|p| Box::new(p) as Box<dyn Protocol>)),)+
                _ => None,
            }
        }
    };
}

algorithms! {
    "admm" => Admm,
    "gd" => GradientDescent,
    "gd-star" => NeighbourhoodDescent,
    "dgd" => Dgd,
    "decor" => Decor,
    "muffliato" => Muffliato,
    "extra" => Extra,
    "gradient-tracking" => GradientTracking,
    "diffusion" => Diffusion,
    "exact-diffusion" => ExactDiffusion,
    "nids" => Nids,
    "dlm" => Dlm,
    "led" => Led,
    "atc-tracking" => AtcTracking,
    "push-sum" => PushSum,
    "push-diging" => PushDiging,
    "choco" => Choco,
    "lead" => Lead,
    "aug-dgm" => AugDgm,
    "proxskip" => ProxSkip,
    "gt-svrg" => GtSvrg,
    "accelerated" => Accelerated,
    "dyn-d2p" => DynD2p,
    "dp-csgp" => DpCsgp,
    "consensus-admm" => ConsensusAdmm,
    "pp" => PenaltyPerturbation,
    "dvp" => DualVariablePerturbation,
    "output-admm" => OutputAdmm,
    "pdop" => Pdop,
    "linear-admm" => LinearAdmm,
    "rcd" => CoordinateDescent,
}

/// The algorithms an experiment may name: those that come with the library, and your own.
///
/// ```
/// use consenso_agents::protocol::{self, Algorithms, Dgd};
///
/// // A kind of one's own reads its parameters from the same table as the others.
/// let algorithms = Algorithms::builtin().with("mine", protocol::parse::<Dgd>);
/// assert!(algorithms.names().any(|name| name == "mine"));
/// ```
#[derive(Clone, Default)]
pub struct Algorithms {
    own: Vec<(String, Build)>,
}

type Build = Arc<dyn Fn(Parameters) -> Result<Box<dyn Protocol>, ConfigError> + Send + Sync>;

impl Algorithms {
    /// Returns the algorithms of [`KINDS`].
    #[must_use]
    pub fn builtin() -> Self {
        Self::default()
    }

    /// Adds an algorithm: `build` makes it from the keys of its `[[algorithm]]` table. A name that
    /// is known already is replaced.
    #[must_use]
    pub fn with<P: Protocol + 'static>(
        mut self,
        name: impl Into<String>,
        build: impl Fn(Parameters) -> Result<P, ConfigError> + Send + Sync + 'static,
    ) -> Self {
        let build: Build =
            Arc::new(move |table| build(table).map(|p| Box::new(p) as Box<dyn Protocol>));
        self.own.insert(0, (name.into(), build));
        self
    }

    /// Adds those of `others`, unless their names are known already.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.own.extend(others.own);
        self
    }

    /// Returns the names that `kind` may have.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        KINDS.iter().copied().chain(self.own.iter().map(|(name, _)| name.as_str()))
    }

    /// Returns what the algorithm `kind` needs and offers where its parameters are left open; for
    /// an unknown one, what holds of any.
    #[must_use]
    pub fn capabilities(&self, kind: &str) -> Capabilities {
        let open = self.build(kind, Parameters::new()).and_then(Result::ok);
        open.map_or_else(Capabilities::default, |algorithm| algorithm.capabilities())
    }

    /// Makes the algorithm `kind` from its parameters; `Err` names the unknown or missing key.
    /// `None`: no such algorithm.
    #[must_use]
    pub fn build(
        &self,
        kind: &str,
        parameters: Parameters,
    ) -> Option<Result<Box<dyn Protocol>, ConfigError>> {
        match self.own.iter().find(|(name, _)| name == kind) {
            Some((_, build)) => Some(build(parameters)),
            None => from_table(kind, parameters),
        }
    }
}

impl std::fmt::Debug for Algorithms {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// A parameter struct as a table, for the resolved experiment.
fn table_of(parameters: &impl Serialize) -> Parameters {
    match serde_json::to_value(parameters) {
        Ok(Value::Object(table)) => given(table),
        _ => Parameters::new(),
    }
}

/// The table without the keys that are left open.
fn given(table: Parameters) -> Parameters {
    let keep = |(key, value)| match value {
        Value::Null => None,
        Value::Object(inner) => Some((key, Value::Object(given(inner)))),
        other => Some((key, other)),
    };
    table.into_iter().filter_map(keep).collect()
}
