//! What an algorithm may offer beyond the mathematics of a round. Each part is a trait of its own;
//! [`Protocol::parts`] hands out those that an algorithm has.
//!
//! What holds for an algorithm without a part is written here once, as methods of `dyn Protocol`.

use super::{Drift, Pairwise, Parameters, PricedRound, Protocol, PublicFacts, PublishedCost, View};
use crate::config_error::ConfigError;
use crate::graph::Graph;
use crate::problem::Coupling;
use crate::theory::{Assessment, TheoremInputs};
use std::sync::Arc;

/// The parts that an algorithm has, see [`Protocol::parts`]: none by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// It has parameters of its own.
    pub configured: Option<&'a dyn Configured>,
    /// Something is known of how it converges or how far its messages can lie.
    pub assessed: Option<&'a dyn Assessed>,
    /// Its authors published what it costs.
    pub priced: Option<&'a dyn Priced>,
    /// Sums of the other agents' vectors may be enough for it.
    pub summed: Option<&'a dyn Summed>,
    /// It solves problems whose agents are tied by a linear constraint.
    pub couplable: Option<&'a dyn Couplable>,
    /// Its messages change some coordinates only.
    pub partial: Option<&'a dyn Partial>,
    /// Some of its rounds only pass on what was released before.
    pub relaying: Option<&'a dyn Relaying>,
    /// It needs random numbers beside the points of its intervals.
    pub tossing: Option<&'a dyn Randomized>,
}

/// An algorithm with parameters, as an experiment file gives them. Without this part it has none,
/// takes as many rounds as a gradient method, and is run as it is.
pub trait Configured: Protocol {
    /// The parameters, as they would stand in an experiment file.
    fn parameters(&self) -> Parameters;

    /// Chooses what the user left open from public quantities alone.
    fn resolve(&mut self, facts: &PublicFacts);

    /// Says why the parameters cannot work, or what to be warned of.
    ///
    /// # Errors
    /// [`ConfigError`] with the key that is wrong, and what to write instead.
    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError>;

    /// Rounds when the user leaves them open.
    ///
    /// A gradient method with steps of 2.5/M needs about 200; fewer when the budget cannot pay for
    /// them, more among many agents.
    fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        super::dgd::default_rounds(facts)
    }

    /// The noise its agents share over edges beside their own; `None` for algorithms whose agents
    /// hide themselves. It is asked before [`Self::resolve`] and must answer the same afterwards.
    /// For [`Response::Shift`](super::Response::Shift) with intervals of width 0 only.
    fn pairwise(&self, _facts: &PublicFacts) -> Option<Pairwise> {
        None
    }

    /// The protocol as agent `agent` of this graph runs it, where all agents have these numbers of
    /// records; `None` where that makes no difference to it.
    fn seated(
        &self,
        _agent: usize,
        _graph: &Graph,
        _records: &[usize],
    ) -> Option<Arc<dyn Protocol>> {
        None
    }
}

/// An algorithm of which something is proved or predicted: how it converges, and how large honest
/// messages are.
pub trait Assessed: Protocol {
    /// What is known of these parameters: certified by a theorem, predicted stable, or unstable,
    /// and which inequality says so.
    fn assess(&self, _ground: &TheoremInputs) -> Assessment {
        unknown()
    }

    /// How far the message of round `round` can lie outside the range of the last releases, given
    /// the largest number of any data gradient; noise apart. `None` where nothing bounds it.
    fn drift(&self, _round: u32, _gradient: f64, _facts: &PublicFacts) -> Option<Drift> {
        None
    }

    /// The largest `|x[l]|` that a message of round `round` can have, given that of the means
    /// before it and of any data gradient; `None` where nothing bounds it. Noise comes on top.
    fn message_bound(
        &self,
        _round: u32,
        _before: f64,
        _gradient: f64,
        _facts: &PublicFacts,
    ) -> Option<f64> {
        None
    }

    /// What the neighbour at place `place` may send in round `round`: so many first numbers count,
    /// and their l2 norm is at most so large unless it lies (but for chances below 10^−12). `None`
    /// where the algorithm knows no such bound.
    fn admits(&self, _round: u32, _place: usize) -> Option<(usize, f64)> {
        None
    }
}

/// What is known of an algorithm that says nothing.
fn unknown() -> Assessment {
    Assessment::open("no theorem or working rule here covers this algorithm")
}

/// An algorithm whose authors published an account of their own: shown beside our claim, and never
/// a claim of ours.
pub trait Priced: Protocol {
    /// What they say this round costs one agent; `None` where nothing was published for such noise.
    fn published_cost(&self, round: &PricedRound<'_>) -> Option<PublishedCost>;

    /// The formula behind [`Self::published_cost`] and its source.
    fn published_formula(&self) -> &'static str;
}

/// An algorithm for which sums over other agents can be enough, so that they may be exchanged in
/// secret.
pub trait Summed: Protocol {
    /// How many numbers an agent contributes to a sum.
    fn contribution(&self, dim: usize) -> usize {
        dim
    }

    /// Writes what agent `agent` of a complete graph contributes: its vector, or for
    /// [`Needs::Total`](crate::protocol::Needs::Total) a public function of it.
    fn contribute(&self, _agent: usize, own: &[f64], out: &mut [f64]) {
        out.copy_from_slice(own);
    }
}

/// An algorithm for agents with variables of their own. All others bring the agents to one model.
pub trait Couplable: Protocol {
    /// The algorithm under the linear constraint Σ A_i x_i = c, which ties the agents together
    /// instead of consensus.
    fn couple(&self, coupling: &Arc<Coupling>) -> Box<dyn Protocol>;
}

/// An algorithm whose messages change some coordinates only. For
/// [`Response::Shift`](super::Response::Shift) only.
pub trait Partial: Protocol {
    /// The coordinates that the message of round `round` (from 1) changes, increasing.
    ///
    /// All others are as [`Self::hold`] says: nothing private and no noise can reach them.
    /// [`Protocol::interval`] and [`Protocol::step`] get one entry an active coordinate then.
    fn active(&self, round: u32, dim: usize) -> Vec<u32>;

    /// Writes what the coordinates that are not [active](Self::active) hold, a function of what was
    /// released: as the agent released them last, unless the algorithm says otherwise. The gate
    /// overwrites the active ones.
    fn hold(&self, view: &View<'_>, _memory: &[f64], out: &mut [f64]) {
        out.copy_from_slice(view.own());
    }

    /// The agent's iterate in what it released last: all of the message, unless messages hold other
    /// things beside it, or had no iterate yet.
    fn iterate<'a>(&self, view: &View<'a>) -> &'a [f64] {
        view.own()
    }
}

/// An algorithm with rounds that only pass on what was released before: they use no record, get no
/// noise and cost nothing.
pub trait Relaying: Protocol {
    /// Whether round `round` (from 1) is such a round.
    fn passes_on(&self, round: u32) -> bool;

    /// Writes the message of a round that [passes on](Self::passes_on): a function of what was
    /// released.
    fn pass_on(&self, view: &View<'_>, _memory: &[f64], out: &mut [f64]) {
        view.mix(out);
    }

    /// Every round's share of the budget, as a part of μ², where rounds do not share it in
    /// proportion to their sensitivities. Rounds that [pass on](Self::passes_on) have none. The
    /// noise is Gaussian then.
    fn shares(&self) -> Option<Vec<f64>>;
}

/// An algorithm that needs random numbers beside the points of its intervals. They do not depend on
/// the records, and no privacy is credited to them.
pub trait Randomized: Protocol {
    /// How many numbers uniform on (0, 1) it needs in a round.
    fn coins(&self) -> usize;

    /// Takes the round's coins, before [`Protocol::interval`].
    fn toss(&self, coins: &[f64], memory: &mut [f64]);
}

/// What each part says, and what holds without it: how drivers ask, whatever parts there are.
#[doc(hidden)]
impl<'p> dyn Protocol + 'p {
    /// Asks [`Configured::parameters`], if the algorithm has that part.
    pub fn parameters(&self) -> Parameters {
        self.parts().configured.map_or_else(Parameters::new, Configured::parameters)
    }

    /// Asks [`Configured::resolve`], if the algorithm has that part.
    pub fn resolve(&mut self, facts: &PublicFacts) {
        if let Some(configured) = self.configure() {
            configured.resolve(facts);
        }
    }

    /// Asks [`Configured::check`], if the algorithm has that part.
    ///
    /// # Errors
    /// What the algorithm refuses.
    pub fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        self.parts().configured.map_or(Ok(None), |c| c.check(facts))
    }

    /// Asks [`Configured::default_rounds`], if the algorithm has that part.
    pub fn default_rounds(&self, facts: &PublicFacts) -> u32 {
        let configured = self.parts().configured;
        configured.map_or_else(|| super::dgd::default_rounds(facts), |c| c.default_rounds(facts))
    }

    /// Asks [`Configured::pairwise`], if the algorithm has that part.
    pub fn pairwise(&self, facts: &PublicFacts) -> Option<Pairwise> {
        self.parts().configured?.pairwise(facts)
    }

    /// Asks [`Configured::seated`], if the algorithm has that part.
    pub fn seated(
        &self,
        agent: usize,
        graph: &Graph,
        records: &[usize],
    ) -> Option<Arc<dyn Protocol>> {
        self.parts().configured?.seated(agent, graph, records)
    }

    /// Asks [`Assessed::assess`], if the algorithm has that part.
    pub fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        self.parts().assessed.map_or_else(unknown, |a| a.assess(inputs))
    }

    /// Asks [`Assessed::drift`], if the algorithm has that part.
    pub fn drift(&self, round: u32, gradient: f64, facts: &PublicFacts) -> Option<Drift> {
        self.parts().assessed?.drift(round, gradient, facts)
    }

    /// Asks [`Assessed::message_bound`], if the algorithm has that part.
    pub fn message_bound(
        &self,
        round: u32,
        before: f64,
        gradient: f64,
        facts: &PublicFacts,
    ) -> Option<f64> {
        self.parts().assessed?.message_bound(round, before, gradient, facts)
    }

    pub(crate) fn admits(&self, round: u32, place: usize) -> Option<(usize, f64)> {
        self.parts().assessed?.admits(round, place)
    }

    pub(crate) fn published_cost(&self, round: &PricedRound<'_>) -> Option<PublishedCost> {
        self.parts().priced?.published_cost(round)
    }

    /// Asks [`Priced::published_formula`], if the algorithm has that part.
    pub fn published_formula(&self) -> &'static str {
        self.parts().priced.map_or("", Priced::published_formula)
    }

    /// Asks [`Summed::contribution`], if the algorithm has that part.
    pub fn contribution(&self, dim: usize) -> usize {
        self.parts().summed.map_or(dim, |s| s.contribution(dim))
    }

    pub(crate) fn contribute(&self, agent: usize, own: &[f64], out: &mut [f64]) {
        match self.parts().summed {
            Some(summed) => summed.contribute(agent, own, out),
            None => out.copy_from_slice(own),
        }
    }

    /// The algorithm under a linear constraint; `None` where it brings all agents to one model.
    pub fn couple(&self, coupling: &Arc<Coupling>) -> Option<Box<dyn Protocol>> {
        Some(self.parts().couplable?.couple(coupling))
    }

    /// The coordinates that round `round` changes; `None` for all.
    pub fn active(&self, round: u32, dim: usize) -> Option<Vec<u32>> {
        Some(self.parts().partial?.active(round, dim))
    }

    /// Asks [`Relaying::passes_on`], if the algorithm has that part.
    pub fn passes_on(&self, round: u32) -> bool {
        self.parts().relaying.is_some_and(|r| r.passes_on(round))
    }

    /// Asks [`Relaying::shares`], if the algorithm has that part.
    pub fn shares(&self) -> Option<Vec<f64>> {
        self.parts().relaying?.shares()
    }

    /// Whether the noise stands inside the local problem, which has an account of its own.
    pub fn perturbs_objective(&self) -> bool {
        matches!(self.response(1, 1), super::Response::AtNoisedPoint { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::coupling::{Block, Relation};
    use crate::problem::{LocalObjective, Sensitivity, Workspace};
    use crate::protocol::{KINDS, Memory, Needs, Response, from_table};
    use crate::theory::Certainty;

    #[derive(Debug)]
    struct Bare;

    impl Protocol for Bare {
        fn step_sensitivity(
            &self,
            _: u32,
            _: usize,
            b: &Sensitivity,
            _: &PublicFacts,
        ) -> Sensitivity {
            *b
        }

        fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
            view.mix(low);
            high.copy_from_slice(low);
        }

        fn step(
            &self,
            view: &View<'_>,
            _: Memory<'_>,
            _: &[f64],
            local: &LocalObjective,
            work: &mut Workspace,
            step: &mut [f64],
        ) {
            local.data_gradient(view.own(), step, work);
        }
    }

    fn facts() -> PublicFacts {
        PublicFacts {
            agents: 4,
            dim: 2,
            records: 100,
            smoothness: 0.25,
            coordinate_smoothness: 0.25,
            coordinate_sensitivity: 1.0,
            strong_convexity: 0.01,
            laplacian_max: 4.0,
            mixing: 0.5,
            mixing_min: 0.0,
            degrees: (2, 2),
            complete: false,
            rounds: 10,
            private: true,
            budget: None,
        }
    }

    /// Three methods make an algorithm: it has the name of its type, and of all else it has
    /// nothing, which is safe.
    #[test]
    fn the_mathematics_alone_is_an_algorithm() {
        let (mut bare, facts) = (Bare, facts());
        let bare: &mut dyn Protocol = &mut bare;
        assert_eq!(bare.kind(), "Bare");
        bare.resolve(&facts);
        assert_eq!((bare.check(&facts), bare.parameters().len()), (Ok(None), 0));
        assert_eq!(bare.default_rounds(&facts), crate::protocol::dgd::default_rounds(&facts));
        assert!(bare.pairwise(&facts).is_none());
        assert_eq!((bare.capabilities().needs, bare.contribution(2)), (Needs::Rows, 2));
        assert_eq!(bare.response(1, 2), Response::Shift);
        assert!(bare.active(1, 2).is_none() && !bare.passes_on(1) && bare.shares().is_none());
        let can = bare.capabilities();
        assert!(!can.charges_ahead && !can.absence && !can.mixes && !can.alone && !can.stale);
        assert!(bare.drift(1, 1.0, &facts).is_none() && bare.admits(1, 0).is_none());
        let assessment = unknown();
        assert_eq!(assessment.standing, Certainty::Open);
        let blocks = ["a", "b"].map(|name| (name.to_owned(), Block::from_rows(1, &[vec![1.0]])));
        let ties = Coupling::new(blocks.to_vec(), vec![1.0], vec![Relation::Equal]);
        assert!(bare.couple(&Arc::new(ties.unwrap())).is_none());
    }

    /// What an experiment file names can be resolved: both doors to its parameters are open.
    #[test]
    fn every_algorithm_of_the_table_hands_out_its_parameters() {
        for kind in KINDS {
            let mut algorithm = from_table(kind, Parameters::new()).unwrap().unwrap();
            assert!(
                algorithm.parts().configured.is_some() && algorithm.configure().is_some(),
                "{kind}"
            );
            assert_eq!(algorithm.kind(), *kind);
        }
    }
}
