//! What an algorithm needs and offers, as plain data: what goes with it follows from these alone,
//! by the one table of `experiment/rules.rs`.

use super::Needs;

/// What an algorithm needs and offers, see [`Protocol::capabilities`](super::Protocol::capabilities).
/// What is said by default is safe for any algorithm: it needs every vector of every round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What of the other agents' vectors it looks at: sums alone can be exchanged in secret.
    pub needs: Needs,
    /// Whether it needs everybody's releases, that is a complete graph.
    pub complete: bool,
    /// Whether agents of a complete graph compute something alike
    /// ([`View::common`](super::View::common)), so that a simulator should compute it once for all.
    pub common: bool,
    /// Whether its agents have variables of their own under a linear constraint. All others bring
    /// the agents to one model.
    pub coupled: bool,
    /// Whether one agent alone can run it.
    pub alone: bool,
    /// Whether an agent may go on without a neighbour, its place taken by the agent itself. Not
    /// where duals or trackers balance over every edge: dropping one would leave the answer off for
    /// good.
    pub absence: bool,
    /// Whether all it does with its neighbours' vectors is to [mix](super::View::mix) them, so that
    /// a robust [rule](super::MixRule) may do it instead.
    pub mixes: bool,
    /// Whether an agent may mix a neighbour's vector of an earlier round where the one of this
    /// round has not come in.
    pub stale: bool,
    /// Whether it needs no more of the weights than that what every agent hands out adds up to one,
    /// so that links may lead one way. Its messages carry a weight of their own beside a model,
    /// which neither a constraint set nor plain mixing knows of.
    pub directed: bool,
    /// Whether links may be there in one round and not in the next: all it does with its
    /// neighbours' vectors is to mix them with the weights of the round, and it stays right
    /// whatever these are as long as they average.
    pub varying: bool,
    /// Whether an interval may be wider than nothing, so that its width may lower the cost of a
    /// release. False only where it never is: a filter then does without what only widths need.
    pub intervals: bool,
    /// Whether the charge of one round covers rounds after it, whose
    /// [`step_sensitivity`](super::Protocol::step_sensitivity) is zero then. The noise must be
    /// Gaussian and the same in every round; an experiment that says otherwise is refused.
    pub charges_ahead: bool,
    /// Whether every message is a fixed linear function of earlier ones, the noise and the private
    /// steps, so that what a single node can tell is known exactly.
    pub linear: bool,
    /// Whether neighbours share noise over their edges
    /// ([`Configured::pairwise`](super::Configured::pairwise)).
    pub pairwise: bool,
    /// The kind that is this algorithm with noise that neighbours share (`noise = "correlated"`).
    pub correlated: Option<&'static str>,
    /// Whether the private step of a round is a public number times the gradient at a public point
    /// and nothing else of the records, so that it may be that of a secret sample of them, drawn
    /// afresh for every round. Where gradients are remembered they are used twice, which
    /// [`Remembering`](super::Remembering) has to say.
    pub batches: bool,
    /// What trains on columns that a part of the budget standardises.
    pub scouting: Scouting,
}

/// How an algorithm goes with columns that are scouted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scouting {
    /// Scouted training takes its place: clipped steps over exact sums.
    Replaces,
    /// It runs as it is, behind a stage that scouts.
    Precedes,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            needs: Needs::Rows,
            complete: false,
            common: false,
            coupled: false,
            alone: false,
            absence: false,
            mixes: false,
            stale: false,
            directed: false,
            varying: false,
            intervals: true,
            charges_ahead: false,
            linear: false,
            pairwise: false,
            correlated: None,
            batches: false,
            scouting: Scouting::Precedes,
        }
    }
}
