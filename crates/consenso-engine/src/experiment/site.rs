//! One agent of an experiment, as a site of a real network runs it.

use super::check::{Experiment, Source};
use super::planned::Planned;
use super::rules;
use super::run::player;
use crate::account::{Accounting, NoiseSchedule};
use crate::agent::{Agent, Player, Timetable};
use crate::config_error::ConfigError;
use crate::data::Records;
use crate::graph::{Graph, Mixing};
use crate::privacy::studies::StudyCost;
use crate::privacy::{Claim, NeighbourRelation};
use crate::problem::LocalObjective;
use crate::problem::weights::SiteWeight;
use crate::sharing::{MaskedAgent, SharingAgent};
use std::sync::Arc;

/// One agent, ready to exchange messages, and what everybody may know about it.
#[derive(Debug)]
pub struct Site {
    /// The state machine.
    pub agent: Agent,
    /// What it is about to do.
    pub plan: SitePlan,
}

/// One agent, ready to exchange secret shares, and what everybody may know about it.
#[derive(Debug)]
pub struct SharingSite {
    /// The state machine.
    pub agent: SharingAgent,
    /// What it is about to do.
    pub plan: SitePlan,
}

/// An agent among masked sums.
#[derive(Debug)]
pub struct MaskedSite {
    /// The state machine.
    pub agent: MaskedAgent,
    /// What it is about to do.
    pub plan: SitePlan,
}

/// What an agent is about to do: all of it public.
#[derive(Debug)]
pub struct SitePlan {
    /// The algorithm, as experiment files write it.
    pub kind: &'static str,
    /// Its rounds.
    pub timetable: Arc<Timetable>,
    /// How many numbers of a message are charged for.
    pub dim: usize,
    /// Length of a message.
    pub width: usize,
    /// Records of this agent.
    pub records: usize,
    /// What it claims about its records; `None` for a run that protects nobody.
    pub claim: Option<Claim>,
    /// What all its releases cost in every way that is known, for a ledger that adds up studies;
    /// `None` for a run that protects nobody.
    pub cost: Option<StudyCost>,
    /// Whether its noise comes from the experiment's seed.
    pub seeded: bool,
    /// The largest number that a model can have; a larger one is no model.
    pub range: f64,
}

impl Experiment {
    /// Records of every agent in the first run.
    #[must_use]
    pub fn records(&self) -> &[usize] {
        &self.counts
    }

    /// The graph of the first run.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graphs[0]
    }

    /// The experiment of one algorithm of this one, run once, with every choice made.
    #[must_use]
    pub fn resolved_for_network(&self, label: &str) -> Option<super::ExperimentSpec> {
        let planned = self.planned.iter().find(|p| p.label == label)?;
        let mut spec = self.spec.clone();
        (spec.runs, spec.trace_every, spec.sweep, spec.delays) = (1, None, None, None);
        spec.drop_out.clear();
        spec.algorithm = vec![super::planned::resolved_algorithm(planned)];
        Some(spec)
    }

    /// Whether the records are this site's own file, and not ones that everybody can make or has.
    #[must_use]
    pub fn has_own_records(&self) -> bool {
        self.alone
    }

    /// Whether the only algorithm of a network exchanges secret shares: [`Self::sharing_site`]
    /// instead of [`Self::site`]; or [masked vectors](Self::is_masked).
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.planned.iter().any(|p| p.sharing.is_some())
    }

    /// Agent `agent` of the first run of the only algorithm.
    ///
    /// # Errors
    /// [`ConfigError`]: more than one algorithm, secret shares, no such agent, or as many records as were not announced.
    pub fn site(&self, agent: usize) -> Result<Site, ConfigError> {
        let (planned, player, plan) = self.seated(agent)?;
        if planned.sharing.is_some() {
            let message = "exchange = \"secret-shared\" and \"masked\" have no vectors to send";
            return Err(ConfigError::at("exchange", message));
        }
        let graph = &self.graphs[0];
        Ok(Site {
            agent: Agent::new(agent as u32, graph, &Mixing::metropolis(graph), player),
            plan,
        })
    }

    /// What agent `agent` is about to do, whichever way it exchanges.
    ///
    /// # Errors
    /// [`ConfigError`], as [`Self::site`].
    pub fn plan_of(&self, agent: usize) -> Result<SitePlan, ConfigError> {
        Ok(self.seated(agent)?.2)
    }

    /// Makes agent `agent` of an exchange in secret shares.
    ///
    /// # Errors
    /// [`ConfigError`], as [`Self::site`].
    pub fn sharing_site(&self, agent: usize) -> Result<SharingSite, ConfigError> {
        let (planned, player, mut plan) = self.seated(agent)?;
        let code = planned.sharing.filter(|_| planned.masking.is_none());
        let code = code.ok_or_else(|| {
            ConfigError::at("exchange", "only exchange = \"secret-shared\" has shares to send")
        })?;
        plan.dim = planned.protocol.contribution(plan.dim);
        plan.width = plan.dim;
        let agent = SharingAgent::sharing(agent as u32, code, player).map_err(ConfigError::of)?;
        Ok(SharingSite { agent, plan })
    }

    /// Agent `agent` of the first run of the only algorithm, among masked sums.
    ///
    /// # Errors
    /// [`ConfigError`], as [`Self::site`].
    pub fn masked_site(&self, agent: usize) -> Result<MaskedSite, ConfigError> {
        let (planned, player, mut plan) = self.seated(agent)?;
        let code = planned.sharing.zip(planned.masking);
        let (code, masking) = code
            .ok_or_else(|| ConfigError::at("exchange", "only exchange = \"masked\" has masks"))?;
        plan.dim = planned.protocol.contribution(plan.dim);
        plan.width = plan.dim;
        let graph = Arc::clone(&self.graphs[0]);
        let agent = MaskedAgent::masked(agent as u32, code, graph, masking.drop_outs, player)
            .map_err(ConfigError::of)?;
        Ok(MaskedSite { agent, plan })
    }

    /// Whether the only algorithm of a network adds up masked vectors: [`Self::masked_site`]
    /// instead of [`Self::site`].
    #[must_use]
    pub fn is_masked(&self) -> bool {
        self.planned.iter().any(|p| p.masking.is_some())
    }

    fn seated(&self, agent: usize) -> Result<(&Planned, Player, SitePlan), ConfigError> {
        rules::check_run(rules::NETWORK, self)?;
        let planned = &self.planned[0];
        let (graph, seed) = (&self.graphs[0], self.noise_seed(0, planned));
        if agent >= graph.agents() {
            return Err(ConfigError::of(format!(
                "there is no agent {agent} among {}",
                graph.agents()
            )));
        }
        let local = self.local(agent)?;
        let (records, announced) = (local.site_weight().records, self.counts[agent]);
        if records != announced {
            return Err(ConfigError::of(format!(
                "there are {records} records, but {announced} were announced to the other sites: the noise of all depends on it"
            )));
        }
        let plan = self.site_plan(planned, agent, local.site_weight(), graph.degree(agent));
        let player = player(self, planned, (agent, graph, &self.counts), local, &seed, false);
        Ok((planned, player, plan))
    }

    pub(super) fn local(&self, agent: usize) -> Result<LocalObjective, ConfigError> {
        match &*self.source {
            Source::Data(_) if self.alone && self.questions.is_some() => {
                let asked = self.questions.as_ref().map(|q| q.site_records(agent));
                let records = asked.unwrap_or_else(|| Records::sparse(self.facts.dim));
                Ok(self.objective_on(records).weighted(self.weight(0, agent)))
            }
            Source::Data(data) if self.alone => {
                let all: Vec<usize> = (0..data.train.len()).collect();
                Ok(self.objective_on(data.train.select(&all)).weighted(self.weight(0, agent)))
            }
            _ => Ok(self.locals(0)?.swap_remove(agent)),
        }
    }

    fn site_plan(
        &self,
        planned: &Planned,
        agent: usize,
        site_weight: SiteWeight,
        degree: usize,
    ) -> SitePlan {
        let noise_schedule = planned.account.noise_schedule(agent, site_weight, degree);
        SitePlan {
            kind: planned.protocol.kind(),
            timetable: Arc::clone(&planned.timetable),
            dim: self.facts.dim,
            width: planned.protocol.width(self.facts.dim),
            records: site_weight.records,
            claim: noise_schedule.and_then(|noise_schedule| self.account_claim(noise_schedule)),
            cost: noise_schedule.and_then(|noise_schedule| {
                Some(noise_schedule.cost(&self.account_claim(noise_schedule)?))
            }),
            seeded: self.is_seeded(),
            range: self.model_range(planned),
        }
    }

    /// No model is larger: what a rule or the constraint set gives, or a billion, for models of
    /// unit rows are a few units long.
    fn model_range(&self, planned: &Planned) -> f64 {
        let within =
            self.spec.objective.constraint.radius(self.facts.dim).map(|r| r * (1.0 + 1e-9) + 1e-9);
        // Variables that are tied together are in units of their own.
        let any = if self.coupled.is_some() { f64::MAX } else { 1e9 };
        // What is added up is a mean of vectors within the range.
        let shared = planned.sharing.filter(|_| self.coupled.is_none()).map(|code| code.range());
        planned.release_bound.into_iter().chain(within).chain(shared).fold(any, f64::min)
    }

    /// The account's claim; what stops at the budget never costs more than it.
    pub(super) fn account_claim(&self, noise_schedule: &NoiseSchedule) -> Option<Claim> {
        let claim = noise_schedule.price.as_ref()?.claim.clone();
        Some(claim.within(self.spec.privacy.and_then(|p| p.epsilon)))
    }

    /// How charges are kept, and which data sets are neighbours; `None` without `[privacy]`.
    #[must_use]
    pub fn accounting(&self) -> Option<(Accounting, NeighbourRelation)> {
        self.spec.privacy.map(|p| (p.accounting, p.neighbours))
    }

    /// Test accuracy of a model on records nobody trains on, if there are any and it classifies.
    #[must_use]
    pub fn test_accuracy(&self, model: &[f64]) -> Option<f64> {
        self.metrics(0, model)?.accuracy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Effect;
    use crate::experiment::{ExperimentSpec, Inputs};
    use crate::privacy::filter::RenyiFilter;
    use crate::privacy::{Event, Mechanism, compose};

    fn experiment(privacy: &str, algorithm: &str) -> Experiment {
        checked(privacy, algorithm).unwrap()
    }

    fn checked(privacy: &str, algorithm: &str) -> Result<Experiment, crate::experiment::SpecError> {
        let text = format!(
            "name = \"small\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 3\nrecords_per_agent = 30\ndim = 4\n\
             [graph]\nkind = \"complete\"\n[privacy]\nepsilon = 2.0\ndelta = 1e-5\n{privacy}\n[[algorithm]]\n{algorithm}\n"
        );
        let spec: ExperimentSpec = toml::from_str(&text).unwrap();
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        Experiment::check(Inputs {
            file: "small".into(),
            text,
            spec,
            source,
            edges: None,
            entropy: None,
        })
    }

    /// What a ledger has of a release.
    type Row = std::collections::BTreeMap<&'static str, Event>;

    /// The charges of agent 0 over all rounds; its neighbours echo what it releases.
    fn charges(experiment: &Experiment) -> (Vec<Row>, Claim) {
        let Site { mut agent, plan } = experiment.site(0).unwrap();
        let mut all = Vec::new();
        while let Some(effect) = agent.poll() {
            match effect {
                Effect::Charge { charge, .. } => {
                    all.push(charge.events().into_iter().collect::<Row>());
                }
                Effect::Send(m) => {
                    for j in [1, 2] {
                        agent
                            .handle(&crate::agent::Message::received(j, m.round(), m.values()))
                            .unwrap();
                    }
                }
                Effect::Done(_) => break,
            }
        }
        let charged = agent.player().gate().ledger().charged() as usize;
        assert!(all[charged..].iter().all(Row::is_empty), "mixing is free");
        all.truncate(charged);
        (all, plan.claim.unwrap())
    }

    #[test]
    fn the_charges_of_a_schedule_add_up_to_its_claim() {
        for (algorithm, norms) in [
            ("kind = \"dgd\"\nrounds = 9", 1),
            ("kind = \"dgd\"\nrounds = 9\nnoise = { laplace_scale = 6.0 }", 3),
            ("kind = \"rcd\"\nrounds = 9", 1),
            ("kind = \"rcd\"\nrounds = 9\norder = \"random\"", 1),
            ("kind = \"dvp\"\nrounds = 9\nmechanism", 1),
            ("kind = \"pp\"\nrounds = 9\nnoise = { gamma_rate = 0.4 }", 1),
        ] {
            let laplace = algorithm.strip_suffix("\nmechanism");
            let privacy = if laplace.is_some() { "mechanism = \"laplace\"" } else { "" };
            let (charges, claim) = charges(&experiment(privacy, laplace.unwrap_or(algorithm)));
            assert_eq!(charges.len(), 9);
            assert!(charges.iter().all(|c| c.len() == norms), "{charges:?}");
            let of = |norm: &&str| -> f64 {
                let events: Vec<Event> = charges.iter().map(|c| c[norm].clone()).collect();
                compose(&events, claim.delta.max(1e-5)).unwrap().best().unwrap().1
            };
            let recomputed = charges[0].keys().map(of).fold(f64::INFINITY, f64::min);
            assert!(
                (recomputed / claim.epsilon - 1.0).abs() < 2e-3,
                "{recomputed} {}",
                claim.epsilon
            );
        }
    }

    /// Charges of rounds that draw records compose to the claim, by both relations and both kinds
    /// of noise, and the noise is less than a round of all records has times 1/q.
    #[test]
    fn rounds_that_draw_records_are_charged_as_such() {
        let scale = |privacy: &str, algorithm: &str| {
            let site = experiment(privacy, algorithm).site(0).unwrap();
            site.agent.player().gate().noise(1).unwrap().scale()
        };
        for (privacy, rate) in [
            ("", 0.25),
            ("neighbours = \"add-remove\"", 0.1),
            ("neighbours = \"zero-out\"", 0.1),
            ("mechanism = \"laplace\"", 0.25),
        ] {
            let whole = "kind = \"dgd\"\nrounds = 9\nstep = 0.5";
            let drawn = format!("{whole}\nbatch = {rate}");
            let (charges, claim) = charges(&experiment(privacy, &drawn));
            assert!(claim.epsilon <= 2.0 && claim.epsilon > 1.99, "{}", claim.epsilon);
            assert!(claim.caveats.iter().any(|c| c.contains("by sampling")), "{:?}", claim.caveats);
            assert_eq!(charges.len(), 9);
            assert!(charges.iter().all(|c| c.len() == 1), "one norm bounds a draw: {charges:?}");
            let events: Vec<Event> = charges.iter().flat_map(|c| c.values().cloned()).collect();
            assert!(events.iter().all(|e| matches!(
                e.mechanism,
                Mechanism::SampledGaussian { .. } | Mechanism::SampledLaplace { .. }
            )));
            let recomputed = compose(&events, claim.delta).unwrap().best().unwrap().1;
            assert!((recomputed / claim.epsilon - 1.0).abs() < 2e-3, "{recomputed}");
            assert!(scale(privacy, &drawn) * rate < scale(privacy, whole), "{privacy}");
            let cost = experiment(privacy, &drawn).plan_of(0).unwrap().cost.unwrap();
            assert_eq!((cost.mu, cost.rho), (None, None), "known as (ε, δ) only");
        }
    }

    /// Where what records said before is in every round, each charge says how far they move that, and
    /// the charges compose to the claim. It takes more noise than draws alone, and no more than the
    /// sum of both shifts would.
    #[test]
    fn rounds_that_remember_records_are_charged_for_what_they_remember() {
        let scale = |algorithm: &str| {
            let site = experiment("", algorithm).site(0).unwrap();
            site.agent.player().gate().noise(1).unwrap().scale()
        };
        for (kind, plain) in [("privsgp-vr", "push-sum"), ("gt-svrg", "atc-tracking")] {
            let drawn = format!("kind = \"{kind}\"\nrounds = 9\nstep = 0.5\nbatch = 0.25");
            let (charges, claim) = charges(&experiment("", &drawn));
            assert!(claim.epsilon <= 2.0 && claim.epsilon > 1.99, "{kind}: {}", claim.epsilon);
            assert!(
                claim.caveats.iter().any(|c| c.contains("drawn or not")),
                "{:?}",
                claim.caveats
            );
            let events: Vec<Event> = charges.iter().flat_map(|c| c.values().cloned()).collect();
            for event in &events {
                let Mechanism::SampledGaussian { mu, undrawn, sampling, .. } = event.mechanism
                else {
                    panic!("{event:?}")
                };
                // A record is in the table's mean over b, and in the sample's over b/4.
                assert!((undrawn / (mu * sampling) - 1.0).abs() < 1e-6, "{event:?}");
            }
            let recomputed = compose(&events, claim.delta).unwrap().best().unwrap().1;
            assert!((recomputed / claim.epsilon - 1.0).abs() < 2e-3, "{recomputed}");
            let whole = scale(&format!("kind = \"{plain}\"\nrounds = 9\nstep = 0.5"));
            assert!(scale(&drawn) > 1.5 * whole && scale(&drawn) < 5.0 * whole, "{kind}");
            let refused = checked("mechanism = \"laplace\"", &drawn).unwrap_err();
            assert!(refused.to_string().contains("Laplace"), "{refused}");
        }
    }

    /// What a study costs beside others is what its releases cost: Σ μ² is the claim's own, Σ ρ
    /// that of the l2 norm.
    #[test]
    fn the_cost_of_a_study_is_that_of_its_releases() {
        use crate::privacy::gdp;
        let cost = |privacy: &str, algorithm: &str| {
            let plan = experiment(privacy, algorithm).plan_of(0).unwrap();
            (plan.cost.unwrap(), plan.claim.unwrap())
        };
        let (gaussian, claim) = cost("", "kind = \"dgd\"\nrounds = 9");
        let found = gdp::epsilon_of_mu(gaussian.mu.unwrap(), 1e-5);
        assert!((found / claim.epsilon - 1.0).abs() < 1e-6, "{found} {}", claim.epsilon);
        let (laplace, _) = cost("mechanism = \"laplace\"", "kind = \"dgd\"\nrounds = 9");
        assert!(laplace.mu.is_none() && laplace.rho.is_some_and(|rho| rho > 0.0), "{laplace:?}");
        let wide = "kind = \"gd-star\"\nrounds = 9\nnoise = { gaussian = 0.1 }";
        let (filter, _) = cost("accounting = \"filter\"", wide);
        assert_eq!((filter.mu, filter.rho), (None, None), "known as (ε, δ) only");
        // Where widths play no part the filter is Σ μ², and the study as Gaussian as its releases.
        let (filter, claim) = cost("accounting = \"filter\"", "kind = \"gd-star\"\nrounds = 9");
        let found = gdp::epsilon_of_mu(filter.mu.unwrap(), 1e-5);
        assert!((found / claim.epsilon - 1.0).abs() < 1e-9, "{found} {}", claim.epsilon);
        // Noise that is too small for the budget stops early, and what is never released is not
        // charged.
        let (stopped, claim) = cost("", "kind = \"dgd\"\nrounds = 90\nnoise = { gaussian = 0.4 }");
        assert!(gdp::epsilon_of_mu(stopped.mu.unwrap(), 1e-5) <= claim.epsilon * (1.0 + 1e-9));
    }

    /// Gradient descent whose step moves twice as far at agents with two neighbours.
    #[derive(Clone, Debug)]
    struct TwiceAtTwo;

    impl crate::protocol::Protocol for TwiceAtTwo {
        fn step_sensitivity(
            &self,
            _: u32,
            degree: usize,
            gradient: &crate::problem::Sensitivity,
            _: &crate::protocol::PublicFacts,
        ) -> crate::problem::Sensitivity {
            gradient.scaled(if degree == 2 { 2.0 } else { 1.0 })
        }

        fn interval(
            &self,
            view: &crate::protocol::View<'_>,
            _: &[f64],
            low: &mut [f64],
            high: &mut [f64],
        ) {
            view.mix(low);
            high.copy_from_slice(low);
        }

        fn step(
            &self,
            _: &crate::protocol::View<'_>,
            _: crate::protocol::Memory<'_>,
            _: &[f64],
            _: &LocalObjective,
            _: &mut crate::problem::Workspace,
            step: &mut [f64],
        ) {
            step.fill(0.0);
        }
    }

    /// Only agents of the fewest and of the most neighbours were compared: where they move alike,
    /// those between got the noise of both, however far they move.
    #[test]
    fn agents_between_the_fewest_and_the_most_neighbours_have_noise_of_their_own() {
        // A star of three with a tail: degrees 3, 1, 1, 2, 1.
        let edges = Some(("edges.txt".into(), "0 1\n0 2\n0 3\n3 4\n".into()));
        let text = "name = \"small\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 5\nrecords_per_agent = 30\ndim = 4\n\
             [graph]\nkind = \"file\"\npath = \"edges.txt\"\n[privacy]\nepsilon = 2.0\ndelta = 1e-5\n[[algorithm]]\nkind = \"mine\"\nrounds = 3\n";
        let spec: ExperimentSpec = toml::from_str(text).unwrap();
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let inputs =
            Inputs { file: "small".into(), text: text.into(), spec, source, edges, entropy: None };
        let known = crate::protocol::Algorithms::builtin().with("mine", |_| Ok(TwiceAtTwo));
        let experiment = Experiment::check_among(inputs, &known, None).unwrap();
        let noise = |agent: usize| {
            let site = experiment.site(agent).unwrap();
            site.agent.player().gate().noise(1).unwrap().scale()
        };
        assert_eq!(noise(0), noise(1), "three neighbours and one");
        assert!((noise(3) / noise(0) - 2.0).abs() < 1e-9, "two neighbours: {}", noise(3));
    }

    /// Rounds that an earlier charge covers are in the ledger all the same, at nothing.
    #[test]
    fn rounds_that_were_charged_ahead_are_recorded() {
        let (charges, _) = charges(&experiment("", "kind = \"rcd\"\nrounds = 9"));
        let mu = |c: &Row| match c["l2"].mechanism {
            Mechanism::Gaussian { mu } => mu,
            ref other => panic!("{other:?}"),
        };
        // Four coordinates: epochs begin in rounds 1, 5 and 9.
        let found: Vec<bool> = charges.iter().map(|c| mu(c) > 0.0).collect();
        assert_eq!(found, [true, false, false, false, true, false, false, false, true]);
    }

    /// Gaussian noise inside a problem: one order, fixed in advance, whose filter lets through what
    /// was released and not another round.
    #[test]
    fn gaussian_noise_inside_a_problem_is_charged_at_one_order() {
        for (kind, noise, all) in
            [("dvp", "", true), ("pp", "", true), ("dvp", "noise = { gaussian = 0.4 }", false)]
        {
            let algorithm = format!("kind = \"{kind}\"\nrounds = 9\n{noise}");
            let (charges, claim) = charges(&experiment("mechanism = \"gaussian\"", &algorithm));
            assert_eq!(charges.len() == 9, all, "{kind} {noise}: {}", charges.len());
            assert!(claim.epsilon <= 2.0 && claim.epsilon > 1.98, "{}", claim.epsilon);
            let mut filter = None;
            for charge in &charges {
                let Mechanism::Renyi { orders, costs } = &charge["filter"].mechanism else {
                    panic!("{charge:?}")
                };
                let filter = filter.get_or_insert_with(|| {
                    RenyiFilter::new(orders, claim.epsilon, claim.delta).unwrap()
                });
                filter.try_charge(costs).expect("what was released was within the claim");
            }
            let filter = filter.unwrap();
            let one = filter.spent()[0] / charges.len() as f64;
            assert!(
                filter.clone().try_charge(&[1.5 * one]).is_err(),
                "{kind} {noise}: {}",
                filter.used()
            );
        }
    }

    #[test]
    fn the_charges_of_a_filter_stay_within_its_claim() {
        for (noise, tracks, all) in [
            // Calibrated noise fits without any width: Σ μ² alone, and the whole run.
            ("", (0, true), true),
            ("noise = { gaussian = 1.0 }", (4, true), false),
            ("noise = { laplace_scale = 1.0 }", (4, false), false),
        ] {
            let algorithm = format!("kind = \"gd-star\"\nrounds = 9\n{noise}");
            let (charges, claim) = charges(&experiment("accounting = \"filter\"", &algorithm));
            assert_eq!(charges.len() == 9, all, "{noise}: {} charges", charges.len());
            let mut filter = None;
            for charge in &charges {
                let (orders, costs, mu) = match &charge["filter"].mechanism {
                    Mechanism::IntervalGaussian { orders, costs, mu } => (orders, costs, *mu),
                    Mechanism::IntervalLaplace { orders, costs, .. } => (orders, costs, None),
                    other => panic!("{other:?}"),
                };
                assert_eq!((orders.len(), mu.is_some()), tracks, "{noise}");
                let new = if mu.is_some() { RenyiFilter::with_gaussian } else { RenyiFilter::new };
                let filter =
                    filter.get_or_insert_with(|| new(orders, claim.epsilon, claim.delta).unwrap());
                match mu {
                    Some(mu) => filter.try_charge_gaussian(costs, mu),
                    None => filter.try_charge(costs),
                }
                .expect("what was released was within the budget");
            }
            let used = filter.expect("a release").used();
            assert!(used > if all { 0.99 } else { 0.3 }, "{noise}: {used}");
        }
    }

    /// Realised losses depend on the records; a simulation keeps them, and a site's checkpoint has
    /// no place for them.
    #[test]
    fn a_site_computes_no_realised_losses() {
        let experiment = experiment("mechanism = \"laplace\"", "kind = \"dgd\"\nrounds = 9");
        let mut agent = experiment.site(0).unwrap().agent;
        while !matches!(agent.poll(), None | Some(Effect::Send(_))) {}
        assert_eq!(agent.player().gate().ledger().charged(), 1);
        assert_eq!(agent.player().gate().realised(), None);
    }

    #[test]
    fn sites_that_announced_other_records_are_refused() {
        let mut other = experiment("", "kind = \"dgd\"\nrounds = 9");
        other.counts[1] = 29;
        assert!(
            other.site(1).unwrap_err().to_string().contains("30 records, but 29 were announced")
        );
        assert!(other.site(3).unwrap_err().to_string().contains("no agent 3"));
    }
}
