//! Accounts: from an algorithm, what is public of its problem and a budget to the noise of every
//! agent, what it costs, and the gates that add it.
//!
//! ```text
//! Protocol + PublicFacts + Terms ─► plan ─► Account ─► gate of each agent, claim
//! ```
//!
//! Noise is calibrated to a budget, or fixed by the user and priced: `schedule` for noise on a
//! step, `perturbed` for noise inside a problem, `correlated` for noise that neighbours share. An
//! account knows nothing of files or experiments.

mod correlated;
mod cost;
mod perturbed;
mod schedule;
#[doc(hidden)]
pub mod testing;
mod wanted;

pub use crate::privacy::calibrate::NoiseKind;
pub use correlated::{Correlated, correlate, protects};
pub use wanted::{Accounting, CalibratedSpec, NoiseSpec, NormName, PrivacySpec};

use crate::config_error::ConfigError;
use crate::data::RowBounds;
use crate::gate::{Batches, Gate, Ledger, Noise, RoundNoise};
use crate::graph::Graph;
use crate::privacy::distributed_noise::DistributedNoise;
use crate::privacy::{Claim, NeighbourRelation, Sampling};
use crate::problem::weights::SiteWeight;
use crate::problem::{Loss, Objective, Sensitivity, SiteWeights};
use crate::protocol::{self, PricedNoise, PricedRound, Protocol, PublicFacts, Schedule};
use crate::random::Seed;
use schedule::UnpricedSchedule;
pub use schedule::no_bound;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

// The share of δ that rounding and the ends of a range may cost at most, where others' noise hides
// an agent; the rest is the Gaussian mechanism's.
pub use crate::privacy::studies::RESERVED;

/// What is public of the problem that an algorithm is run on, as far as it bears on what releases
/// cost.
#[derive(Clone, Copy, Debug)]
pub struct PricingFacts<'a> {
    /// The budget or what is asked of noise; `None` where nothing is claimed.
    pub privacy: Option<PrivacySpec>,
    /// What the agents minimise.
    pub objective: &'a Objective,
    /// How long their rows can be.
    pub bounds: &'a RowBounds,
    /// Records of every agent, by run.
    pub counts: &'a [Vec<usize>],
    /// What the objective of every agent is multiplied by, by run; empty where all agents count the
    /// same.
    pub weights: &'a [Vec<f64>],
    /// Whence these weights.
    pub weighting: &'a SiteWeights,
    /// What agents have instead of records, if they have.
    pub costs: Option<DeclaredCosts>,
    /// Whether the algorithm clips the gradient of every record as a whole.
    pub clipped: bool,
    /// The chance with which every record is drawn for a round, in secret; all are if `None`.
    pub batch: Option<f64>,
    /// Whether noise is drawn from a seed, so that nothing is really protected.
    pub seeded: bool,
}

/// What is declared of agents' cost functions.
#[derive(Clone, Copy, Debug)]
pub struct DeclaredCosts {
    /// The least and the largest marginal cost.
    pub marginal: [f64; 2],
    /// How far two cost functions' gradients can be apart; `None` where nothing is claimed.
    pub gradient: Option<Sensitivity>,
}

impl PricingFacts<'_> {
    /// What is public of agent `agent` of run `run`.
    pub(crate) fn site_weight(&self, run: usize, agent: usize) -> SiteWeight {
        let weight = self.weights.get(run).map_or(1.0, |w| w[agent]);
        SiteWeight { records: self.counts[run][agent], weight }
    }

    /// All agents of all runs.
    pub fn site_weights(&self) -> impl Iterator<Item = SiteWeight> + '_ {
        let run = move |run: usize| {
            (0..self.counts[run].len()).map(move |agent| self.site_weight(run, agent))
        };
        (0..self.counts.len()).flat_map(run)
    }

    /// How far one record moves the gradient of such an agent.
    fn sensitivity(&self, site_weight: SiteWeight, neighbours: NeighbourRelation) -> Sensitivity {
        match self.batch {
            Some(rate) => {
                self.objective.sampled_sensitivity(self.bounds, site_weight, rate, neighbours)
            }
            None => self.objective.sensitivity_of(self.bounds, site_weight, neighbours),
        }
    }

    /// The agent whose gradient one record moves farthest: with equal weights the smallest one.
    pub fn loudest(&self, facts: &PublicFacts) -> SiteWeight {
        if self.weights.is_empty() {
            return SiteWeight { records: facts.records, weight: 1.0 };
        }
        let moves = |s: &SiteWeight| self.sensitivity(*s, NeighbourRelation::ReplaceOne).l2;
        let smallest = SiteWeight { records: facts.records, weight: 1.0 };
        self.site_weights().max_by(|a, b| moves(a).total_cmp(&moves(b))).unwrap_or(smallest)
    }

    /// The largest N·w_i.
    pub fn heaviest(&self) -> f64 {
        heaviest(self.weights)
    }

    /// The largest number of any agent's data gradient: one record alone is an upper bound on the
    /// mean of many, and on a sum over a sample that happens to have all of them, over its rate.
    pub fn steepest(&self) -> f64 {
        let one = SiteWeight { records: 1, weight: self.heaviest() };
        self.sensitivity(one, NeighbourRelation::ZeroOut).linf
    }
}

/// The largest of the weights of all runs, 1 where there are none.
pub fn heaviest(weights: &[Vec<f64>]) -> f64 {
    let largest = weights.iter().flatten().copied().fold(0.0, f64::max);
    if weights.is_empty() { 1.0 } else { largest }
}

/// Agents with as many records, the same weight and as many neighbours have the same sensitivity,
/// so the same noise and account, where they are also hidden alike by others' noise (the last
/// number, which [`HidingSet::classes`] gives).
type Class = ((usize, u64), usize, u32);

/// The noise and the account of every class of agents.
#[derive(Debug)]
pub struct Account {
    noise_schedules: BTreeMap<Class, NoiseSchedule>,
    degree_matters: bool,
    /// How others' noise hides each agent, where it does not hide all alike.
    hiding: Option<Arc<[u32]>>,
    /// The noise, as a file would state it.
    pub noise_spec: Option<NoiseSpec>,
    /// What the dearest agent pays.
    pub price: Option<Price>,
    /// What the user is to know beside it.
    pub warnings: Vec<String>,
    /// Who adds the noise of a secret-shared sum, and how many of them may collude.
    pub distributed_noise: Option<DistributedNoise>,
    /// Noise that neighbours share over their edge.
    pub correlated: Option<Correlated>,
    /// The chance with which every record is drawn for a round, in secret; all are if `None`.
    pub batch: Option<f64>,
    /// M.
    smoothness: f64,
}

/// The noise of every round of one agent, and what it is charged.
#[derive(Clone, Debug)]
pub struct NoiseSchedule {
    /// How far the private step of each round moves between neighbours: what noise and price were
    /// computed from.
    pub steps: Arc<[Sensitivity]>,
    /// What the agent draws.
    pub noise: Arc<[RoundNoise]>,
    /// What hides it, where others draw a part of that; empty where it is the agent's own noise.
    pub hidden_by: Arc<[Noise]>,
    /// How far the transcript is from that of the noise that was priced, in total variation and on
    /// every data set: what rounding term by term, and a range with ends, cost.
    pub distance: f64,
    /// What lets its releases through.
    pub ledger: Ledger,
    /// What they cost.
    pub price: Option<Price>,
    /// ε after each round as the algorithm's authors would have it; empty where they published
    /// nothing.
    pub published: Vec<f64>,
}

impl NoiseSchedule {
    /// Noise of the agent's own that nothing is claimed of yet.
    fn of(steps: &[Sensitivity], noise: Arc<[RoundNoise]>) -> Self {
        Self {
            steps: steps.into(),
            noise,
            hidden_by: Arc::from([]),
            distance: 0.0,
            ledger: Ledger::Open,
            price: None,
            published: Vec::new(),
        }
    }

    /// Has others draw a part of the noise that was priced: what the agent draws of it is `part`, and
    /// all together are within `distance` of it.
    pub fn share_noise(&mut self, part: &Arc<[RoundNoise]>, distance: f64) {
        self.distance = distance;
        self.hidden_by = self.noise.iter().map(RoundNoise::noise).collect();
        self.noise = Arc::clone(part);
        self.ledger = self.ledger.clone().hidden_by(Arc::clone(&self.hidden_by));
    }
}

/// What the dearest agent pays.
#[derive(Clone, Debug)]
pub struct Price {
    /// What is claimed.
    pub claim: Claim,
    /// ε by sensitivity norm and method.
    pub bounds: serde_json::Value,
    /// Worst-case pure ε of the whole run, by the better of the l1 and l∞ norms; `None` under
    /// Gaussian noise.
    pub worst_case_pure: Option<f64>,
    /// The paper's worst case d·Σ α_k β_k B_∞ after each round; empty under Gaussian noise.
    pub paper_worst_case: Vec<f64>,
    /// Whether Theorem 2.2 gives a realised loss: it is about noise on the step.
    pub(crate) realised: bool,
}

impl Account {
    /// The gate of one agent with `degree` neighbours. Only a simulation keeps realised losses:
    /// they depend on the records, and a site's durable state needs none of them.
    pub fn gate(
        &self,
        agent: usize,
        site_weight: SiteWeight,
        degree: usize,
        seed: &Seed,
        simulated: bool,
    ) -> Gate {
        // The number of records that was announced, whatever there are.
        let batches = self.batch.map(|rate| Batches { rate, records: site_weight.records });
        let Some(noise_schedule) = self.noise_schedule(agent, site_weight, degree) else {
            // An agent nobody planned for must not go out without noise.
            assert!(
                self.noise_schedules.is_empty(),
                "agent {agent} has no account for {site_weight:?}, {degree} neighbours"
            );
            return Gate::open(agent as u64, seed.clone()).with_batches(batches);
        };
        let gate = Gate::new(
            agent as u64,
            seed.clone(),
            Arc::clone(&noise_schedule.noise),
            noise_schedule.ledger.clone(),
        )
        .with_smoothness(self.smoothness)
        .with_batches(batches);
        // Every realised loss costs logarithms; it is worth them where the paper looks at it.
        let realised = simulated && noise_schedule.price.as_ref().is_some_and(|p| p.realised);
        if realised { gate.with_realised_losses() } else { gate }
    }

    /// The account of such an agent, if it has one.
    pub fn noise_schedule(
        &self,
        agent: usize,
        site_weight: SiteWeight,
        degree: usize,
    ) -> Option<&NoiseSchedule> {
        self.noise_schedules.get(&self.class(agent, site_weight, degree))
    }

    fn class(&self, agent: usize, site_weight: SiteWeight, degree: usize) -> Class {
        let hiding = self.hiding.as_ref().map_or(0, |classes| classes[agent]);
        (site_weight.key(), if self.degree_matters { degree } else { 0 }, hiding)
    }

    /// Standard deviation of a coordinate's noise by round, of the agents with the most; empty
    /// without noise.
    pub fn deviations(&self, rounds: u32) -> Vec<f64> {
        let deviation = |n: &RoundNoise| match n.noise() {
            Noise::Laplace { scale } => scale * std::f64::consts::SQRT_2,
            Noise::Gaussian { sigma } => sigma,
        };
        let at = |k: usize| {
            self.noise_schedules
                .values()
                .filter_map(|a| a.noise.get(k))
                .map(deviation)
                .fold(0.0, f64::max)
        };
        if self.noise_schedules.is_empty() {
            Vec::new()
        } else {
            (0..rounds as usize).map(at).collect()
        }
    }

    /// Every account there is, to look at.
    pub fn noise_schedules(&self) -> impl Iterator<Item = &NoiseSchedule> {
        self.noise_schedules.values()
    }

    /// Every account there is.
    pub fn noise_schedules_mut(&mut self) -> impl Iterator<Item = &mut NoiseSchedule> {
        self.noise_schedules.values_mut()
    }

    /// Every account there is, with the class of agents whose it is as `HidingSet::classes` has
    /// it.
    pub fn noise_schedules_by_hiding_mut(
        &mut self,
    ) -> impl Iterator<Item = (u32, &mut NoiseSchedule)> {
        self.noise_schedules.iter_mut().map(|(class, noise_schedule)| (class.2, noise_schedule))
    }

    /// The fewest and the most that hide an agent under noise that agents add together.
    pub fn hiding_set_sizes(&self, distributed_noise: DistributedNoise) -> (usize, usize) {
        let all = || self.hiding.iter().flat_map(|classes| classes.iter().map(|&m| m as usize));
        let hiding_set_size = distributed_noise.hiding_set_size();
        (all().min().unwrap_or(hiding_set_size), all().max().unwrap_or(hiding_set_size))
    }

    /// How many hide an agent under noise that agents add together, itself among them.
    pub fn hiding_set_size(&self, distributed_noise: DistributedNoise, agent: usize) -> usize {
        self.hiding
            .as_ref()
            .map_or(distributed_noise.hiding_set_size(), |classes| classes[agent] as usize)
    }

    /// The noise of every account, round by round.
    pub fn all_noise(&self) -> impl Iterator<Item = &[RoundNoise]> {
        self.noise_schedules.values().map(|account| &*account.noise)
    }

    /// The noise of every round, as it was priced; all agents' where they add it together.
    pub fn noise(&self) -> &[RoundNoise] {
        self.noise_schedules.values().next().map_or(&[], |account| &account.noise)
    }

    /// Takes the dearest agent's price for all.
    pub fn settle(&mut self) {
        let prices = self.noise_schedules.values().filter_map(|a| a.price.clone());
        self.price = prices.max_by(|a, b| a.claim.epsilon.total_cmp(&b.claim.epsilon));
    }

    /// Whether the noise is Gaussian.
    pub fn is_gaussian(&self) -> bool {
        self.noise_schedules.values().any(|a| a.noise.iter().any(|n| n.gaussian_sigma().is_some()))
    }

    /// The noise in words.
    pub fn describe(&self) -> String {
        let all: Vec<&RoundNoise> =
            self.noise_schedules.values().flat_map(|a| a.noise.iter()).collect();
        let scales = || all.iter().map(|n| n.noise().scale());
        let (low, high) = (scales().fold(f64::INFINITY, f64::min), scales().fold(0.0, f64::max));
        let range = if high <= low * 1.0001 {
            format!("{high:.3e}")
        } else {
            format!("{low:.3e} to {high:.3e}")
        };
        match all.first() {
            None => "none".into(),
            Some(n) if n.gaussian_sigma().is_some() => format!("Gaussian, σ {range}"),
            Some(n) if n.gamma_rate().is_some() => format!("Gamma norm, scale {range}"),
            Some(_) => format!("Laplace, scale {range}"),
        }
    }
}

/// Mixing rounds when the file leaves them open: enough to shrink the agents' differences a
/// hundredfold.
pub fn default_gossip(facts: &PublicFacts) -> u32 {
    let rate = facts.mixing.clamp(0.0, 0.999);
    if rate < 1e-3 {
        1
    } else {
        (libm::log(0.01) / libm::log(rate)).ceil().clamp(1.0, 100.0) as u32
    }
}

/// Whose noise hides an agent, beside its own.
#[derive(Debug, Default)]
pub struct HidingSet {
    /// Everybody's in a secret-shared sum.
    pub distributed_noise: Option<DistributedNoise>,
    /// How many hide each agent in masked sums, where that differs.
    pub hiding_set_sizes: Option<Arc<[u32]>>,
    /// The neighbours', over edges.
    pub correlated: Option<Correlated>,
}

impl HidingSet {
    /// A number for each agent: those who have the same need the same part of the noise. In masked
    /// sums it is how many hide each other. `None` where all agents are hidden alike.
    fn classes(&self) -> Option<Arc<[u32]>> {
        let correlated = self.correlated.as_ref().and_then(Correlated::classes);
        correlated.map(|(classes, _)| classes).or_else(|| self.hiding_set_sizes.clone())
    }

    /// What hides an agent over the noise it adds itself, where the account is not the agent's
    /// alone.
    fn gain(&self) -> Option<f64> {
        match (&self.correlated, self.distributed_noise) {
            (Some(correlated), _) => Some(correlated.gain()),
            (None, distributed_noise) => distributed_noise.map(|_| 1.0),
        }
    }
}

/// Chooses or takes the noise, and prices it.
pub fn plan(
    protocol: &dyn Protocol,
    noise: Option<&NoiseSpec>,
    how: Option<CalibratedSpec>,
    facts: &PublicFacts,
    terms: &PricingFacts<'_>,
    graphs: &[Arc<Graph>],
    hiding_set_size: HidingSet,
) -> Result<Account, ConfigError> {
    let gain = hiding_set_size.gain();
    let drop_outs = hiding_set_size.distributed_noise.map_or(0, |t| t.drop_outs() as u32);
    let mut account = Account {
        hiding: hiding_set_size.classes(),
        distributed_noise: hiding_set_size.distributed_noise,
        correlated: hiding_set_size.correlated,
        batch: terms.batch,
        smoothness: facts.smoothness,
        noise_schedules: BTreeMap::new(),
        degree_matters: false,
        noise_spec: noise.cloned(),
        price: None,
        warnings: Vec::new(),
    };
    if noise == Some(&NoiseSpec::None) || (noise.is_none() && terms.privacy.is_none()) {
        return Ok(account);
    }
    if let Some(
        NoiseSpec::LaplaceRate(s)
        | NoiseSpec::LaplaceScale(s)
        | NoiseSpec::GammaRate(s)
        | NoiseSpec::Gaussian(s),
    ) = noise
        && let Some(problem) = s.problem(facts.rounds)
    {
        return Err(ConfigError::at("noise", format!("noise: {problem}")));
    }
    if terms.privacy.is_some() {
        sound(terms, noise)?;
    }
    let how = how.unwrap_or_default();
    if how != CalibratedSpec::default() && protocol.perturbs_objective() {
        return Err(no_bound());
    }
    let steps = Steps { protocol, how, facts, terms, drop_outs };
    account.degree_matters = steps.depend_on_degree(graphs);
    // What hides a sum must hide its most sensitive summand; all agents have one schedule, so that
    // they stop together, and it is priced once.
    let mut common: BTreeMap<usize, NoiseSchedule> = BTreeMap::new();
    for (run, (graph, counts)) in graphs.iter().zip(terms.counts).enumerate() {
        for agent in 0..counts.len() {
            let site_weight = terms.site_weight(run, agent);
            let class = account.class(agent, site_weight, graph.degree(agent));
            if account.noise_schedules.contains_key(&class) {
                continue;
            }
            let degree = if account.degree_matters { class.1 } else { facts.degrees.0 };
            let known = common.get(&degree).filter(|_| gain.is_some()).cloned();
            let mut noise_schedule = match known {
                Some(known) => known,
                None => steps.allot(noise, gain, site_weight, degree)?,
            };
            if gain.is_some() {
                common.insert(degree, noise_schedule.clone());
            }
            noise_schedule.published =
                published(protocol, &noise_schedule.noise, site_weight, degree, facts, terms);
            account.noise_schedules.insert(class, noise_schedule);
        }
    }
    account.settle();
    if let Some((epsilon, price)) =
        terms.privacy.and_then(|p| p.epsilon).zip(account.price.as_ref())
        && price.claim.epsilon > epsilon
    {
        account.warnings.push(format!(
            "the noise given would cost ε = {} over all rounds; agents stop when ε = {epsilon} is spent",
            crate::privacy::printed_up(price.claim.epsilon, 4)
        ));
    }
    Ok(account)
}

/// How far the private steps of an agent move between neighbours, charge by charge.
struct Steps<'a> {
    protocol: &'a dyn Protocol,
    how: CalibratedSpec,
    facts: &'a PublicFacts,
    terms: &'a PricingFacts<'a>,
    /// How many agents may drop out, each of which has a round tried again.
    drop_outs: u32,
}

impl Steps<'_> {
    fn of(&self, site_weight: SiteWeight, degree: usize) -> Vec<Sensitivity> {
        let Self { protocol, how, facts, terms, drop_outs } = *self;
        let neighbours = terms.privacy.map(|p| p.neighbours).unwrap_or_default();
        let declared = terms.costs.and_then(|c| c.gradient);
        let gradient =
            declared.unwrap_or_else(|| match (terms.batch, protocol.parts().remembering) {
                (Some(rate), Some(_)) => {
                    terms.objective.sampled_change(terms.bounds, site_weight, rate, neighbours)
                }
                _ => terms.sensitivity(site_weight, neighbours),
            });
        let step = |k| {
            known_in(how.norm, protocol.step_sensitivity(k, degree, &gradient, facts), facts.dim)
        };
        // The k-th charge is for round k, or for an earlier one that is tried again, once for every
        // agent that drops out.
        let charge = |k: u32| {
            let tried = k.saturating_sub(drop_outs).max(1)..=k.min(facts.rounds);
            tried.map(step).reduce(Sensitivity::larger).expect("at least one round")
        };
        (1..=facts.rounds + drop_outs).map(charge).collect()
    }

    /// How records are drawn for a round, where they are, and how far one moves a round of these
    /// `steps` whether it is drawn or not.
    fn sampling(&self, site_weight: SiteWeight, steps: &[Sensitivity]) -> Option<Sampling> {
        let Self { protocol, terms, .. } = *self;
        let neighbours = terms.privacy.map(|p| p.neighbours).unwrap_or_default();
        let sampling = Sampling::new(terms.batch?, neighbours);
        let Some(remembering) = protocol.parts().remembering else { return Some(sampling) };
        let whole = terms.objective.sensitivity_of(terms.bounds, site_weight, neighbours);
        let share = |(round, step): (u32, &Sensitivity)| {
            (remembering.undrawn(round, &whole) / step.l2 * (1.0 + 4.0 * f64::EPSILON)).next_up()
        };
        let undrawn = (1..).zip(steps).map(share).fold(0.0, f64::max);
        Some(Sampling { undrawn, ..sampling })
    }

    /// Whether agents with other numbers of neighbours have other steps.
    fn depend_on_degree(&self, graphs: &[Arc<Graph>]) -> bool {
        let loudest = self.terms.loudest(self.facts);
        let (least, most) = self.facts.degrees;
        let all = graphs.iter().flat_map(|g| (0..g.agents()).map(|i| g.degree(i)));
        let between: BTreeSet<usize> = all.filter(|d| (least..=most).contains(d)).collect();
        let first = self.of(loudest, least);
        between.into_iter().chain([most]).any(|degree| self.of(loudest, degree) != first)
    }

    /// The noise of an agent, given or calibrated, and its price; with `gain` where others' noise
    /// hides it as well, which must be enough for the most sensitive of them.
    fn allot(
        &self,
        noise: Option<&NoiseSpec>,
        gain: Option<f64>,
        site_weight: SiteWeight,
        degree: usize,
    ) -> Result<NoiseSchedule, ConfigError> {
        let Self { protocol, how, facts, terms, drop_outs } = *self;
        let steps = self.of(gain.map_or(site_weight, |_| terms.loudest(facts)), degree);
        if protocol.perturbs_objective() {
            let rounds = perturbed::UnpricedRounds::new(
                protocol,
                (site_weight, degree),
                steps,
                facts,
                terms,
            )?;
            return rounds.allot(noise);
        }
        let shares = protocol.shares();
        let priced = UnpricedSchedule {
            steps: &steps,
            facts: &PublicFacts { rounds: facts.rounds + drop_outs, ..*facts },
            terms,
            ahead: protocol.capabilities().charges_ahead,
            gain,
            intervals: protocol.capabilities().intervals,
            shares: shares.as_deref(),
            sampling: self.sampling(site_weight, &steps),
        };
        priced.allot(noise, how.mechanism)
    }
}

/// What the algorithm's authors would charge. Their accounts are for classification with rows of at
/// most unit length, where all agents count the same.
fn published(
    protocol: &dyn Protocol,
    noise: &[RoundNoise],
    site_weight: SiteWeight,
    degree: usize,
    facts: &PublicFacts,
    terms: &PricingFacts<'_>,
) -> Vec<f64> {
    let Some(privacy) = terms.privacy else { return Vec::new() };
    let records = site_weight.records;
    if terms.objective.loss != Loss::Logistic
        || terms.bounds.l2() > 1.0 + 1e-9
        || site_weight.weight != 1.0
    {
        return Vec::new();
    }
    let gradient = terms.sensitivity(site_weight, privacy.neighbours);
    let price = |(round, noise): (u32, &RoundNoise)| {
        let laplace = noise.laplace_rate().map(|rate| PricedNoise::Laplace { rate });
        let gamma = || noise.gamma_rate().map(|rate| PricedNoise::Gamma { rate });
        let gaussian = || noise.gaussian_sigma().map(|sigma| PricedNoise::Gaussian { sigma });
        let noise = laplace.or_else(gamma).or_else(gaussian)?;
        protocol.published_cost(&PricedRound {
            round,
            degree,
            records,
            noise,
            gradient: &gradient,
            facts,
        })
    };
    protocol::published_totals((1..).zip(noise).map(price), privacy.delta)
}

/// Refuses what no claim can rest on.
fn sound(terms: &PricingFacts<'_>, noise: Option<&NoiseSpec>) -> Result<(), ConfigError> {
    let PrivacySpec { epsilon, delta, .. } = terms.privacy.expect("asked for");
    if !(delta > 0.0 && delta < 1.0) {
        return Err(ConfigError::at(
            "privacy.delta",
            format!("privacy.delta = {delta} must be between 0 and 1, both excluded"),
        ));
    }
    if let Some(epsilon) = epsilon
        && !(epsilon > 0.0 && epsilon.is_finite())
    {
        return Err(ConfigError::at(
            "privacy.epsilon",
            format!("privacy.epsilon = {epsilon} must be a positive number"),
        ));
    }
    if epsilon.is_none() && noise.is_none() || !terms.bounds.is_public() {
        return Err(no_bound());
    }
    bounded(terms)
}

/// Whether a record can move a gradient by a bounded amount only.
pub fn bounded(terms: &PricingFacts<'_>) -> Result<(), ConfigError> {
    if let Loss::Ridge { clip } = terms.objective.loss
        && clip.is_infinite()
        && !terms.clipped
        && terms.costs.is_none()
    {
        return Err(no_bound());
    }
    Ok(())
}

pub(crate) fn each<T>(
    facts: &PublicFacts,
    schedule: &Schedule,
    noise: impl Fn(f64) -> T,
) -> Vec<T> {
    (1..=facts.rounds).map(|k| noise(schedule.at(k))).collect()
}

/// What is left of a sensitivity when only one of its norms is known: ‖t‖₁ ≤ √d‖t‖₂ ≤ d‖t‖_∞ and
/// ‖t‖_∞ ≤ ‖t‖₂ ≤ ‖t‖₁.
fn known_in(norm: Option<NormName>, bound: Sensitivity, dim: usize) -> Sensitivity {
    // What moves nothing moves nothing in any norm.
    if bound.l2 == 0.0 {
        return bound;
    }
    let d = dim as f64;
    match norm {
        None => bound,
        Some(NormName::L1) => Sensitivity { l1: bound.l1, l2: bound.l1, linf: bound.l1 },
        Some(NormName::L2) => Sensitivity::from_l2(bound.l2, dim),
        Some(NormName::Linf) => Sensitivity {
            l1: (d * bound.linf).next_up(),
            l2: (d.sqrt().next_up() * bound.linf).next_up(),
            linf: bound.linf,
        },
    }
}

pub(crate) fn caveats(claim: Claim, terms: &PricingFacts<'_>) -> Claim {
    let mut claim = match terms.costs {
        Some(DeclaredCosts { marginal: [low, high], .. }) => {
            claim.with_caveat(format!(
                "an agent's record is its whole cost function: neighbours are any two with marginal costs within {low} and {high}, \
                 and second derivatives within the declared range; \
                 limits and constraint matrices are public"
            ))
        }
        None if claim.neighbours == crate::privacy::NeighbourRelation::AddRemove => claim
            .with_caveat(
                "every agent's number of records is public and stands in record.json, in peers.toml and in the noise: the claim bounds what \
                 released vectors tell beyond that number, and whoever knows the true one as well knows whether a record was added or removed",
            ),
        None => claim.with_caveat("every agent's number of records is taken as public"),
    };
    if !terms.weights.is_empty() {
        claim = claim.with_caveat(format!(
            "{}: a site's gradient, and how far one record moves it, is multiplied by up to {:.3}",
            terms.weighting.in_words(),
            terms.heaviest()
        ));
    }
    if terms.privacy.is_some_and(|p| p.neighbours == crate::privacy::NeighbourRelation::Paper) {
        claim = claim.with_caveat(
            "the paper's convention B = 1/b; replacing a record moves the gradient by up to twice that",
        );
    }
    if let Some(rate) = terms.batch {
        claim = claim.with_caveat(format!(
            "amplified by sampling: every record is drawn for a round with probability {rate}, by a coin of its own that nobody sees, and \
             sums are divided by the expected number of draws"
        ));
    }
    if terms.seeded {
        claim =
            claim.with_caveat("seeded simulation: these figures hold only for a run on OS entropy");
    }
    claim
}
