//! The noise of an algorithm and what it costs: calibrated to a budget, or fixed by the user and priced.

use super::correlated::Correlated;
use super::perturbed::Rounds;
use super::problem::Tied;
use super::shared;
use super::spec::{Accounting, CalibratedSpec, ExperimentSpec, Mechanism, NoiseSpec, NormName, PrivacySpec};
use crate::data::RowBounds;
use crate::gate::{FilterPlan, Gate, Ledger, Noise, RoundNoise, SchedulePlan};
use crate::graph::Graph;
use crate::privacy::calibrate::{self, Calibration, Request};
use crate::privacy::distributed_noise::Together;
use crate::privacy::filter::RenyiFilter;
use crate::privacy::renyi_table::{IntervalNoise, RenyiTable, RoundCosts, ShiftNorms};
use crate::privacy::{Adversary, Claim, Composition, Event, Method, NeighbourRelation, compose};
use crate::problem::weights::Stake;
use crate::problem::{Loss, Objective, Sensitivity};
use crate::protocol::{self, PricedNoise, PricedRound, Protocol, PublicFacts, Response, Schedule};
use crate::random::Seed;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What all algorithms of an experiment share.
pub(super) struct Context<'a> {
    /// Which algorithm of the file is planned, from 1.
    pub(super) place: u64,
    pub(super) spec: &'a ExperimentSpec,
    pub(super) objective: &'a Objective,
    pub(super) bounds: &'a RowBounds,
    /// Records of every agent, by run.
    pub(super) counts: &'a [Vec<usize>],
    /// What the objective of every agent is multiplied by, by run; empty where all agents count the same.
    pub(super) weights: &'a [Vec<f64>],
    /// The linear constraint, if the agents share one.
    pub(super) tied: Option<&'a Tied>,
    /// Whether classes are balanced by shares that the run estimates.
    pub(super) balanced: bool,
    /// Whether noise is drawn from a seed, so that nothing is really protected.
    pub(super) seeded: bool,
}

impl Context<'_> {
    /// What is public of agent `agent` of run `run`.
    pub(super) fn stake(&self, run: usize, agent: usize) -> Stake {
        let weight = self.weights.get(run).map_or(1.0, |w| w[agent]);
        Stake { records: self.counts[run][agent], weight }
    }

    /// All agents of all runs.
    pub(super) fn stakes(&self) -> impl Iterator<Item = Stake> + '_ {
        let run = move |run: usize| (0..self.counts[run].len()).map(move |agent| self.stake(run, agent));
        (0..self.counts.len()).flat_map(run)
    }

    /// How far one record moves the gradient of such an agent.
    fn sensitivity(&self, stake: Stake, neighbours: NeighbourRelation) -> Sensitivity {
        self.objective.sensitivity_of(self.bounds, stake, neighbours)
    }

    /// The agent whose gradient one record moves farthest: with equal weights the smallest one.
    pub(super) fn loudest(&self, facts: &PublicFacts) -> Stake {
        if self.weights.is_empty() {
            return Stake { records: facts.records, weight: 1.0 };
        }
        let moves = |s: &Stake| self.sensitivity(*s, NeighbourRelation::ReplaceOne).l2;
        let smallest = Stake { records: facts.records, weight: 1.0 };
        self.stakes().max_by(|a, b| moves(a).total_cmp(&moves(b))).unwrap_or(smallest)
    }

    /// The largest N·w_i.
    pub(super) fn heaviest(&self) -> f64 {
        heaviest(self.weights)
    }

    /// The largest number of any agent's data gradient: one record alone is an upper bound on the mean of many.
    pub(super) fn steepest(&self) -> f64 {
        let one = Stake { records: 1, weight: self.heaviest() };
        self.sensitivity(one, NeighbourRelation::ZeroOut).linf
    }
}

/// The largest of the weights of all runs, 1 where there are none.
pub(super) fn heaviest(weights: &[Vec<f64>]) -> f64 {
    let largest = weights.iter().flatten().copied().fold(0.0, f64::max);
    if weights.is_empty() { 1.0 } else { largest }
}

/// Agents with as many records, the same weight and as many neighbours have the same sensitivity, so the same noise and account.
type Class = ((usize, u64), usize);

/// The noise and the account of every class of agents.
#[derive(Debug)]
pub(super) struct Budget {
    accounts: BTreeMap<Class, Account>,
    degree_matters: bool,
    pub(super) noise_spec: Option<NoiseSpec>,
    pub(super) price: Option<Price>,
    pub(super) warnings: Vec<String>,
    /// Who adds the noise of a secret-shared sum, and how many of them may collude.
    pub(super) together: Option<Together>,
    /// Noise that neighbours share over their edge.
    pub(super) correlated: Option<Correlated>,
    /// M.
    smoothness: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Account {
    /// How far the private step of each round moves between neighbours: what noise and price were computed from.
    pub(super) steps: Arc<[Sensitivity]>,
    /// What the agent draws.
    pub(super) noise: Arc<[RoundNoise]>,
    /// What hides it, where others draw a part of that; empty where it is the agent's own noise.
    pub(super) hidden_by: Arc<[Noise]>,
    pub(super) ledger: Ledger,
    pub(super) price: Option<Price>,
    /// ε after each round as the algorithm's authors would have it; empty where they published nothing.
    pub(super) published: Vec<f64>,
    /// The event of every round, where the noise stands inside a problem; empty elsewhere, where sensitivity and noise say it.
    pub(super) inside: Vec<Event>,
}

/// What the dearest agent pays.
#[derive(Clone, Debug)]
pub(super) struct Price {
    pub(super) claim: Claim,
    /// ε by sensitivity norm and method.
    pub(super) bounds: serde_json::Value,
    /// Worst-case pure ε of the whole run, by the better of the l1 and l∞ norms; `None` under Gaussian noise.
    pub(super) worst_case_pure: Option<f64>,
    /// The paper's worst case d·Σ α_k β_k B_∞ after each round; empty under Gaussian noise.
    pub(super) paper_worst_case: Vec<f64>,
    /// Whether Theorem 2.2 gives a realised loss: it is about noise on the step.
    pub(super) realised: bool,
}

impl Budget {
    /// The gate of one agent with `degree` neighbours. Only a simulation keeps realised losses: they depend on the
    /// records, and a site's durable state needs none of them.
    pub(super) fn gate(
        &self,
        agent: usize,
        stake: Stake,
        degree: usize,
        seed: &Seed,
        simulated: bool,
    ) -> Gate {
        let Some(account) = self.account(stake, degree) else {
            // An agent nobody planned for must not go out without noise.
            assert!(
                self.accounts.is_empty(),
                "agent {agent} has no account for {stake:?}, {degree} neighbours"
            );
            return Gate::open(agent as u64, seed.clone());
        };
        let gate = Gate::new(agent as u64, seed.clone(), Arc::clone(&account.noise), account.ledger.clone())
            .with_smoothness(self.smoothness);
        // Every realised loss costs logarithms; it is worth them where the paper looks at it.
        let realised = simulated && account.price.as_ref().is_some_and(|p| p.realised);
        if realised { gate.with_realised_losses() } else { gate }
    }

    /// The account of such an agent, if it has one.
    pub(super) fn account(&self, stake: Stake, degree: usize) -> Option<&Account> {
        self.accounts.get(&(stake.key(), if self.degree_matters { degree } else { 0 }))
    }

    /// Standard deviation of a coordinate's noise by round, of the agents with the most; empty without noise.
    pub(super) fn deviations(&self, rounds: u32) -> Vec<f64> {
        let deviation = |n: &RoundNoise| match n.noise() {
            Noise::Laplace { scale } => scale * std::f64::consts::SQRT_2,
            Noise::Gaussian { sigma } => sigma,
        };
        let at = |k: usize| {
            self.accounts.values().filter_map(|a| a.noise.get(k)).map(deviation).fold(0.0, f64::max)
        };
        if self.accounts.is_empty() { Vec::new() } else { (0..rounds as usize).map(at).collect() }
    }

    /// Every account there is, to look at.
    pub(super) fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values()
    }

    /// Every account there is.
    pub(super) fn accounts_mut(&mut self) -> impl Iterator<Item = &mut Account> {
        self.accounts.values_mut()
    }

    /// The noise of every account, round by round.
    pub(super) fn all_noise(&self) -> impl Iterator<Item = &[RoundNoise]> {
        self.accounts.values().map(|account| &*account.noise)
    }

    /// The noise of every round, as it was priced; all agents' where they add it together.
    pub(super) fn noise(&self) -> &[RoundNoise] {
        self.accounts.values().next().map_or(&[], |account| &account.noise)
    }

    /// Takes the dearest agent's price for all.
    pub(super) fn settle(&mut self) {
        let prices = self.accounts.values().filter_map(|a| a.price.clone());
        self.price = prices.max_by(|a, b| a.claim.epsilon.total_cmp(&b.claim.epsilon));
    }

    /// Whether the noise is Gaussian.
    pub(super) fn is_gaussian(&self) -> bool {
        self.accounts.values().any(|a| a.noise.iter().any(|n| n.gaussian_sigma().is_some()))
    }

    /// The noise in words.
    pub(super) fn describe(&self) -> String {
        let all: Vec<&RoundNoise> = self.accounts.values().flat_map(|a| a.noise.iter()).collect();
        let scales = || all.iter().map(|n| n.noise().scale());
        let (low, high) = (scales().fold(f64::INFINITY, f64::min), scales().fold(0.0, f64::max));
        let range =
            if high <= low * 1.0001 { format!("{high:.3e}") } else { format!("{low:.3e} to {high:.3e}") };
        match all.first() {
            None => "none".into(),
            Some(n) if n.gaussian_sigma().is_some() => format!("Gaussian, σ {range}"),
            Some(n) if n.gamma_rate().is_some() => format!("Gamma norm, scale {range}"),
            Some(_) => format!("Laplace, scale {range}"),
        }
    }
}

/// Mixing rounds when the file leaves them open: enough to shrink the agents' differences a hundredfold.
pub(super) fn default_gossip(facts: &PublicFacts) -> u32 {
    let rate = facts.mixing.clamp(0.0, 0.999);
    if rate < 1e-3 { 1 } else { (libm::log(0.01) / libm::log(rate)).ceil().clamp(1.0, 100.0) as u32 }
}

/// Whose noise hides an agent, beside its own.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// Everybody's in a secret-shared sum.
    pub(super) together: Option<Together>,
    /// The neighbours', over edges.
    pub(super) correlated: Option<Correlated>,
}

impl Company {
    /// What hides an agent over the noise it adds itself, where the account is not the agent's alone.
    fn gain(&self) -> Option<f64> {
        match (&self.correlated, self.together) {
            (Some(correlated), _) => Some(correlated.gain()),
            (None, together) => together.map(|_| 1.0),
        }
    }
}

/// Chooses or takes the noise, and prices it.
pub(super) fn plan(
    protocol: &dyn Protocol,
    noise: Option<&NoiseSpec>,
    how: Option<CalibratedSpec>,
    facts: &PublicFacts,
    context: &Context<'_>,
    graphs: &[Arc<Graph>],
    company: Company,
) -> Result<Budget, String> {
    let gain = company.gain();
    let drop_outs = company.together.map_or(0, |t| t.drop_outs() as u32);
    let charges = PublicFacts { rounds: facts.rounds + drop_outs, ..*facts };
    let mut budget = Budget {
        together: company.together,
        correlated: company.correlated,
        smoothness: facts.smoothness,
        accounts: BTreeMap::new(),
        degree_matters: false,
        noise_spec: noise.cloned(),
        price: None,
        warnings: Vec::new(),
    };
    if noise == Some(&NoiseSpec::None) || (noise.is_none() && context.spec.privacy.is_none()) {
        return Ok(budget);
    }
    if let Some(
        NoiseSpec::LaplaceRate(s)
        | NoiseSpec::LaplaceScale(s)
        | NoiseSpec::GammaRate(s)
        | NoiseSpec::Gaussian(s),
    ) = noise
        && let Some(problem) = s.problem(facts.rounds)
    {
        return Err(format!("noise: {problem}"));
    }
    if context.spec.privacy.is_some() {
        sound(context, noise)?;
    }
    let how = how.unwrap_or_default();
    if how != CalibratedSpec::default() && protocol.response() == Response::AtNoisedPoint {
        return Err(
            "noise: calibrated says how noise on a step is chosen; this kind has its noise inside a problem"
                .into(),
        );
    }
    let neighbours = context.spec.privacy.map(|p| p.neighbours).unwrap_or_default();
    let declared = context.tied.and_then(|t| t.gradient);
    let gradient = |stake: Stake| declared.unwrap_or_else(|| context.sensitivity(stake, neighbours));
    let steps = |stake: Stake, degree: usize| -> Vec<Sensitivity> {
        let gradient = gradient(stake);
        let step = |k| known_in(how.norm, protocol.step_sensitivity(k, degree, &gradient, facts), facts.dim);
        // The k-th charge is for round k, or for an earlier one that is tried again, once for every agent that drops out.
        let charge = |k: u32| {
            let tried = k.saturating_sub(drop_outs).max(1)..=k.min(facts.rounds);
            tried.map(step).reduce(Sensitivity::larger).expect("at least one round")
        };
        (1..=facts.rounds + drop_outs).map(charge).collect()
    };
    let loudest = context.loudest(facts);
    budget.degree_matters = steps(loudest, facts.degrees.0) != steps(loudest, facts.degrees.1);
    for (run, (graph, counts)) in graphs.iter().zip(context.counts).enumerate() {
        for agent in 0..counts.len() {
            let stake = context.stake(run, agent);
            let class = (stake.key(), if budget.degree_matters { graph.degree(agent) } else { 0 });
            if let std::collections::btree_map::Entry::Vacant(entry) = budget.accounts.entry(class) {
                let degree = if budget.degree_matters { class.1 } else { facts.degrees.0 };
                // What hides a sum must hide its most sensitive summand; all agents have one schedule, so that they stop together.
                let steps = steps(gain.map_or(stake, |_| loudest), degree);
                let mut account = if protocol.response() == Response::AtNoisedPoint {
                    Rounds::new(protocol, (stake, degree), steps, facts, context)?.account(noise)?
                } else {
                    let kinds = (protocol.charges_ahead(), gain, protocol.has_intervals());
                    let shares = protocol.shares();
                    account(&steps, noise, how.mechanism, &charges, context, kinds, shares.as_deref())?
                };
                account.published = published(protocol, &account.noise, stake, degree, facts, context);
                entry.insert(account);
            }
        }
    }
    budget.settle();
    if let Some((epsilon, price)) = context.spec.privacy.and_then(|p| p.epsilon).zip(budget.price.as_ref())
        && price.claim.epsilon > epsilon
    {
        budget.warnings.push(format!(
            "the noise given would cost ε = {} over all rounds; agents stop when ε = {epsilon} is spent",
            crate::privacy::printed_up(price.claim.epsilon, 4)
        ));
    }
    Ok(budget)
}

/// What the algorithm's authors would charge. Their accounts are for classification with rows of at most unit length, where all agents count the same.
fn published(
    protocol: &dyn Protocol,
    noise: &[RoundNoise],
    stake: Stake,
    degree: usize,
    facts: &PublicFacts,
    context: &Context<'_>,
) -> Vec<f64> {
    let Some(privacy) = context.spec.privacy else { return Vec::new() };
    let records = stake.records;
    if context.objective.loss != Loss::Logistic || context.bounds.l2 > 1.0 + 1e-9 || stake.weight != 1.0 {
        return Vec::new();
    }
    let gradient = context.sensitivity(stake, privacy.neighbours);
    let price = |(round, noise): (u32, &RoundNoise)| {
        let laplace = noise.laplace_rate().map(|rate| PricedNoise::Laplace { rate });
        let gamma = || noise.gamma_rate().map(|rate| PricedNoise::Gamma { rate });
        let gaussian = || noise.gaussian_sigma().map(|sigma| PricedNoise::Gaussian { sigma });
        let noise = laplace.or_else(gamma).or_else(gaussian)?;
        protocol.published_cost(&PricedRound { round, degree, records, noise, gradient: &gradient, facts })
    };
    protocol::published_totals((1..).zip(noise).map(price), privacy.delta)
}

/// Refuses what no claim can rest on.
fn sound(context: &Context<'_>, noise: Option<&NoiseSpec>) -> Result<(), String> {
    let PrivacySpec { epsilon, delta, .. } = context.spec.privacy.expect("asked for");
    if !(delta > 0.0 && delta < 1.0) {
        return Err(format!("privacy.delta = {delta} must be between 0 and 1, both excluded"));
    }
    if let Some(epsilon) = epsilon
        && !(epsilon > 0.0 && epsilon.is_finite())
    {
        return Err(format!("privacy.epsilon = {epsilon} must be a positive number"));
    }
    if epsilon.is_none() && noise.is_none() {
        return Err(
            "there is neither privacy.epsilon to calibrate noise to nor a noise of its own: set one of them"
                .into(),
        );
    }
    if !context.bounds.public {
        return Err("the bounds of the rows were computed from the records, so no privacy claim can rest on them: review the \
             schema and set reviewed = true in it, or leave [privacy] out"
            .into());
    }
    bounded(context)
}

/// Whether a record can move a gradient by a bounded amount only.
pub(super) fn bounded(context: &Context<'_>) -> Result<(), String> {
    if let Loss::Ridge { clip } = context.objective.loss
        && clip.is_infinite()
        && context.spec.data.encoding != crate::data::Encoding::Scouted
        && context.tied.is_none_or(|t| t.costs.is_empty())
    {
        return Err("the gradient of ridge regression is unbounded: set objective.clip, the largest residual that counts".into());
    }
    Ok(())
}

/// `ahead` says that some rounds are charged for others ([`Protocol::charges_ahead`]), `gain` that others' noise hides the agent too, and how much, `intervals` that
/// widths may lower a cost ([`Protocol::has_intervals`]).
fn account(
    steps: &[Sensitivity],
    noise: Option<&NoiseSpec>,
    mechanism: Option<Mechanism>,
    facts: &PublicFacts,
    context: &Context<'_>,
    (ahead, gain, intervals): (bool, Option<f64>, bool),
    shares: Option<&[f64]>,
) -> Result<Account, String> {
    let asked = context.spec.privacy.map(|p| PrivacySpec { mechanism: mechanism.or(p.mechanism), ..p });
    let privacy = asked.map(|p| if gain.is_some() { shared::of_the_sum(p) } else { p });
    let mut calibration = None;
    let noise: Vec<Noise> = match noise {
        Some(NoiseSpec::LaplaceRate(s)) => each(facts, s, |v| Noise::Laplace { scale: 1.0 / v }),
        Some(NoiseSpec::LaplaceScale(s)) => each(facts, s, |v| Noise::Laplace { scale: v }),
        Some(NoiseSpec::Gaussian(s)) => {
            each(facts, s, |v| Noise::Gaussian { sigma: v * gain.unwrap_or(1.0) })
        }
        Some(NoiseSpec::GammaRate(_)) => {
            return Err(
                "noise: gamma_rate is noise inside a problem; only pp and dvp solve one with it".into()
            );
        }
        Some(NoiseSpec::None | NoiseSpec::Calibrated(_)) | None => {
            let privacy = privacy.as_ref().ok_or("no budget")?;
            let found = match shares {
                _ if ahead => calibrated_ahead(steps, facts, privacy)?,
                Some(shares) => calibrated_by_shares(steps, shares, facts, privacy)?,
                None => calibrated(steps, facts, privacy)?,
            };
            let found = calibration.insert(found);
            let one = |&scale: &f64| match found.mechanism {
                calibrate::Noise::Laplace => Noise::Laplace { scale },
                calibrate::Noise::Gaussian => Noise::Gaussian { sigma: scale },
            };
            found.schedule.iter().map(one).collect()
        }
    };
    let rounds: Arc<[RoundNoise]> =
        noise.iter().map(|&n| RoundNoise::new(n)).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let Some(privacy) = privacy else {
        return Ok(Account {
            steps: steps.into(),
            noise: rounds,
            hidden_by: Arc::from([]),
            ledger: Ledger::Open,
            price: None,
            published: Vec::new(),
            inside: Vec::new(),
        });
    };
    if ahead {
        chargeable_ahead(&noise, &privacy)?;
    }
    if shares.is_some() && privacy.accounting == Accounting::Filter {
        return Err("privacy.accounting = \"filter\" charges by the width of intervals, and neither scouted columns nor muffliato have any: use \
             accounting = \"schedule\""
            .into());
    }
    let shifts: Vec<f64> = steps.iter().map(|s| s.linf.min(s.l2)).collect();
    if privacy.accounting == Accounting::Filter {
        let (ledger, claim) = filtered(steps, &noise, (shifts, intervals), &privacy, context)?;
        let price = price_around(claim, serde_json::Value::Null, steps, &noise, facts);
        return Ok(Account {
            steps: steps.into(),
            noise: rounds,
            hidden_by: Arc::from([]),
            ledger,
            price: Some(price),
            published: Vec::new(),
            inside: Vec::new(),
        });
    }
    let price = price(steps, &noise, calibration.as_ref(), facts, &privacy, context)?;
    let allowed = match privacy.epsilon {
        Some(limit) if price.claim.epsilon > limit => allowed(steps, &noise, facts, &privacy, limit)?,
        _ => facts.rounds,
    };
    let ledger = Ledger::schedule(Arc::new(SchedulePlan::new(allowed, shifts)));
    Ok(Account {
        steps: steps.into(),
        noise: rounds,
        hidden_by: Arc::from([]),
        ledger,
        price: Some(price),
        published: Vec::new(),
        inside: Vec::new(),
    })
}

pub(super) fn each<T>(facts: &PublicFacts, schedule: &Schedule, noise: impl Fn(f64) -> T) -> Vec<T> {
    (1..=facts.rounds).map(|k| noise(schedule.at(k))).collect()
}

/// What is left of a sensitivity when only one of its norms is known: ‖t‖₁ ≤ √d‖t‖₂ ≤ d‖t‖_∞ and ‖t‖_∞ ≤ ‖t‖₂ ≤ ‖t‖₁.
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

/// Noise in proportion to each round's sensitivity, as little as the budget allows: Gaussian or Laplace, whichever certifies less.
fn calibrated(
    steps: &[Sensitivity],
    facts: &PublicFacts,
    privacy: &PrivacySpec,
) -> Result<Calibration, String> {
    let epsilon = privacy.epsilon.ok_or("privacy.epsilon is missing")?;
    // Rounds differ by a factor α_k; the bounds before it are the largest quotients, so that they hold in every round.
    let factors: Vec<f64> = steps.iter().map(|s| s.l2 / steps[0].l2).collect();
    let largest = |norm: fn(&Sensitivity) -> f64| {
        steps.iter().zip(&factors).map(|(s, f)| (norm(s) / f).next_up()).fold(0.0, f64::max)
    };
    let sensitivity = Sensitivity { l1: largest(|s| s.l1), l2: largest(|s| s.l2), linf: largest(|s| s.linf) };
    let request = Request {
        epsilon,
        delta: privacy.delta,
        dim: facts.dim,
        sensitivity,
        steps: factors.clone(),
        shape: factors,
        noise: privacy.mechanism.map(|m| match m {
            Mechanism::Laplace => calibrate::Noise::Laplace,
            Mechanism::Gaussian => calibrate::Noise::Gaussian,
        }),
    };
    calibrate::calibrate(&request).map_err(|e| e.to_string())
}

/// The same where rounds are charged for others: only those that are charged say what noise is needed, and all get it.
fn calibrated_ahead(
    steps: &[Sensitivity],
    facts: &PublicFacts,
    privacy: &PrivacySpec,
) -> Result<Calibration, String> {
    if privacy.mechanism == Some(Mechanism::Laplace) {
        return Err(GAUSSIAN_ONLY.into());
    }
    let charged: Vec<Sensitivity> = steps.iter().copied().filter(|s| s.l2 > 0.0).collect();
    let gaussian = PrivacySpec { mechanism: Some(Mechanism::Gaussian), ..*privacy };
    let mut found = calibrated(&charged, facts, &gaussian)?;
    // They are all the same: an account of rounds that charge ahead has one σ.
    found.schedule = vec![found.schedule[0]; steps.len()];
    Ok(found)
}

/// The same where every round has its share of μ²: Gaussian noise, σ_k ∝ B_k/√share_k. Rounds without a share move nothing and draw nothing; their
/// entry keeps the place of the round.
fn calibrated_by_shares(
    steps: &[Sensitivity],
    shares: &[f64],
    facts: &PublicFacts,
    privacy: &PrivacySpec,
) -> Result<Calibration, String> {
    if privacy.mechanism == Some(Mechanism::Laplace) {
        return Err(
            "noise: rounds that share a budget unevenly (stages of scouted columns, steps of muffliato) have Gaussian noise: leave mechanism out".into()
        );
    }
    let charged = || steps.iter().zip(shares).filter(|(step, _)| step.l2 > 0.0);
    let largest = charged().map(|(step, _)| step.l2).fold(0.0, f64::max);
    let request = Request {
        epsilon: privacy.epsilon.ok_or("privacy.epsilon is missing")?,
        delta: privacy.delta,
        dim: facts.dim,
        sensitivity: Sensitivity::from_l2(largest, facts.dim),
        steps: charged().map(|(step, _)| (step.l2 / largest).next_up()).collect(),
        shape: charged().map(|(step, share)| step.l2 / largest / share.sqrt()).collect(),
        noise: Some(calibrate::Noise::Gaussian),
    };
    let mut found = calibrate::calibrate(&request).map_err(|e| e.to_string())?;
    let least = found.schedule.iter().copied().fold(f64::INFINITY, f64::min);
    let mut scales = found.schedule.iter().copied();
    let one = |step: &Sensitivity| if step.l2 > 0.0 { scales.next().unwrap_or(f64::NAN) } else { least };
    found.schedule = steps.iter().map(one).collect();
    Ok(found)
}

const GAUSSIAN_ONLY: &str =
    "noise: coordinates are accounted for in the l2 norm, over rounds: only Gaussian noise will do";

/// Refuses what an account that charges some rounds for others cannot rest on.
fn chargeable_ahead(noise: &[Noise], privacy: &PrivacySpec) -> Result<(), String> {
    if privacy.accounting == Accounting::Filter {
        return Err("privacy.accounting = \"filter\" charges each round by itself, and a coordinate's rounds are charged together: use \
             accounting = \"schedule\""
            .into());
    }
    if noise.iter().any(|n| !matches!(n, Noise::Gaussian { .. })) {
        return Err(GAUSSIAN_ONLY.into());
    }
    match noise.windows(2).position(|w| w[0] != w[1]) {
        None => Ok(()),
        Some(k) => Err(format!(
            "noise: σ changes in round {}, and one charge covers a whole epoch of coordinates: give one number",
            k + 2
        )),
    }
}

/// The events of a schedule under one norm of the sensitivity.
pub(super) fn events(norm: Norm, steps: &[Sensitivity], noise: &[Noise], dim: usize) -> Vec<Event> {
    // What moves nothing costs nothing: a round that an earlier one was charged for.
    let ratio = |a: f64, b: f64| if a == 0.0 { 0.0 } else { (a / b).next_up() };
    let one = |(s, n): (&Sensitivity, &Noise)| match (*n, norm) {
        (Noise::Gaussian { sigma }, _) => Event::gaussian(ratio(s.l2, sigma), 1),
        (Noise::Laplace { scale }, Norm::L1) => Event::laplace(ratio(s.l1, scale), 1),
        (Noise::Laplace { scale }, Norm::Linf) => Event::laplace(ratio(s.linf, scale), dim as u64),
        // D_a of a Laplace shift v is at most a·v²/2, so a vector costs at most a·‖t‖₂²/(2b²): ρ-zCDP.
        (Noise::Laplace { scale }, Norm::L2) => {
            let v = ratio(s.l2, scale);
            Event::zcdp((0.5 * v * v).next_up(), 1)
        }
    };
    steps.iter().zip(noise).map(one).collect()
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Norm {
    L1,
    L2,
    Linf,
}

impl Norm {
    /// The norms whose sensitivity says something under this noise.
    pub(super) fn that_bound(noise: Noise) -> &'static [Self] {
        match noise {
            Noise::Gaussian { .. } => &[Self::L2],
            Noise::Laplace { .. } => &[Self::L1, Self::L2, Self::Linf],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::Linf => "linf",
        }
    }
}

/// The compositions of a schedule, one for every norm that bounds it.
fn compositions(
    steps: &[Sensitivity],
    noise: &[Noise],
    dim: usize,
    delta: f64,
) -> Result<Vec<(Norm, Composition)>, String> {
    let norms = noise.first().map_or(&[][..], |&noise| Norm::that_bound(noise));
    let one = |&norm: &Norm| {
        let composed = compose(&events(norm, steps, noise, dim), delta).map_err(|e| e.to_string())?;
        Ok((norm, composed))
    };
    norms.iter().map(one).collect()
}

fn price(
    steps: &[Sensitivity],
    noise: &[Noise],
    calibration: Option<&Calibration>,
    facts: &PublicFacts,
    privacy: &PrivacySpec,
    context: &Context<'_>,
) -> Result<Price, String> {
    let compositions = compositions(steps, noise, facts.dim, privacy.delta)?;
    let bounds: serde_json::Map<String, serde_json::Value> = compositions
        .iter()
        .map(|(norm, c)| (norm.name().to_owned(), serde_json::to_value(c).unwrap_or_default()))
        .collect();
    let best = |c: &Composition| c.best().map_or(f64::INFINITY, |b| b.1);
    let (norm, composition) = compositions
        .into_iter()
        .min_by(|a, b| best(&a.1).total_cmp(&best(&b.1)))
        .ok_or("no bound is valid for this schedule")?;
    let mut claim = Claim::from_composition(composition, privacy.neighbours, sampler(noise, context.seeded))
        .ok_or("no bound is valid for this schedule")?;
    let mut norms = format!("sensitivity in the {} norm, the best of those known", norm.name());
    // Calibration certified the very same schedule; where it used all norms at once its bound is the smaller one.
    if let Some(Calibration { spent, .. }) = calibration
        && spent.epsilon < claim.epsilon
    {
        if spent.method != claim.method {
            norms = "sensitivity in the l1, l2 and l∞ norms at once".into();
            claim.bounds = None;
        }
        (claim.epsilon, claim.delta, claim.method) = (spent.epsilon, spent.delta, spent.method);
    }
    let claim = caveats(claim, context).with_caveat(norms);
    Ok(price_around(claim, bounds.into(), steps, noise, facts))
}

fn price_around(
    claim: Claim,
    bounds: serde_json::Value,
    steps: &[Sensitivity],
    noise: &[Noise],
    facts: &PublicFacts,
) -> Price {
    let dim = facts.dim as f64;
    let (mut l1, mut linf, mut laplace) = (0.0, 0.0, true);
    let paper_worst_case: Vec<f64> = steps
        .iter()
        .zip(noise)
        .map(|(s, n)| {
            laplace &= matches!(n, Noise::Laplace { .. });
            l1 += s.l1 / n.scale();
            linf += dim * s.linf / n.scale();
            linf
        })
        .collect();
    let up = |x: f64| x * (1.0 + 1e-12);
    Price {
        claim,
        bounds,
        worst_case_pure: laplace.then(|| up(l1.min(linf))),
        paper_worst_case: if laplace { paper_worst_case } else { Vec::new() },
        realised: laplace,
    }
}

fn sampler(noise: &[Noise], seeded: bool) -> String {
    let kind = match noise.first() {
        Some(Noise::Laplace { .. }) => "Laplace",
        _ => "Gaussian",
    };
    let source = if seeded { "a seeded ChaCha12 stream" } else { "ChaCha12 keyed by OS entropy" };
    format!("exact {kind} rounded to a public grid, {source}")
}

pub(super) fn caveats(claim: Claim, context: &Context<'_>) -> Claim {
    let mut claim = match &context.spec.problem {
        Some(problem) if !problem.agent.is_empty() => {
            let [low, high] = problem.marginal.unwrap_or([f64::NAN; 2]);
            claim.with_caveat(format!(
                "an agent's record is its whole cost function: neighbours are any two with marginal costs within {low} and {high}, \
                 and second derivatives within the declared range; \
                 limits and constraint matrices are public"
            ))
        }
        _ => claim.with_caveat("every agent's number of records is taken as public"),
    };
    if !context.weights.is_empty() {
        claim = claim.with_caveat(format!(
            "{}: a site's gradient, and how far one record moves it, is multiplied by up to {:.3}",
            context.spec.data.weights.in_words(),
            context.heaviest()
        ));
    }
    if context.spec.privacy.is_some_and(|p| p.neighbours == crate::privacy::NeighbourRelation::Paper) {
        claim = claim.with_caveat(
            "the paper's convention B = 1/b; replacing a record moves the gradient by up to twice that",
        );
    }
    if context.seeded {
        claim = claim.with_caveat("seeded simulation: these figures hold only for a run on OS entropy");
    }
    claim
}

/// The longest prefix of the schedule that stays within ε.
fn allowed(
    steps: &[Sensitivity],
    noise: &[Noise],
    facts: &PublicFacts,
    privacy: &PrivacySpec,
    limit: f64,
) -> Result<u32, String> {
    let (mut low, mut high) = (0, steps.len());
    while low + 1 < high {
        let middle = low.midpoint(high);
        let all = compositions(&steps[..middle], &noise[..middle], facts.dim, privacy.delta)?;
        let epsilon = all.iter().filter_map(|c| c.1.best()).map(|b| b.1).fold(f64::INFINITY, f64::min);
        if epsilon <= limit { low = middle } else { high = middle }
    }
    Ok(low as u32)
}

/// Orders of the filter around the best one for the schedule: each has its share of δ, so there are few.
const FILTER_ORDERS: [f64; 4] = [0.75, 1.0, 1.35, 1.9];

fn filtered(
    steps: &[Sensitivity],
    noise: &[Noise],
    (shifts, intervals): (Vec<f64>, bool),
    privacy: &PrivacySpec,
    context: &Context<'_>,
) -> Result<(Ledger, Claim), String> {
    let epsilon =
        privacy.epsilon.ok_or("privacy.accounting = \"filter\" needs privacy.epsilon, fixed in advance")?;
    let rates: Vec<f64> = noise.iter().map(|n| 1.0 / n.scale()).collect();
    let norms: Vec<ShiftNorms> = steps
        .iter()
        .zip(&rates)
        .map(|(s, r)| ShiftNorms {
            inf: (s.linf * r).next_up(),
            two: Some((s.l2 * r).next_up()),
            one: Some((s.l1 * r).next_up()),
        })
        .collect();
    let gaussian = noise.iter().all(|n| matches!(n, Noise::Gaussian { .. }));
    let mu: Vec<f64> = if gaussian {
        let ratio = |(s, n): (&Sensitivity, &Noise)| (s.l2 / n.scale()).next_up();
        steps.iter().zip(noise).map(ratio).collect()
    } else {
        Vec::new()
    };
    let (filter, rounds) = tracks(&norms, &mu, intervals, epsilon, privacy.delta)?;
    let plan = FilterPlan::new(rounds, rates, shifts).with_gaussian(mu);
    let claim = Claim {
        epsilon,
        delta: privacy.delta,
        method: Method::RenyiFilter,
        neighbours: privacy.neighbours,
        adversary: Claim::COLLUDING_NEIGHBOURS.into(),
        against: Adversary::Local,
        sampler: sampler(noise, context.seeded),
        caveats: vec![if filter.orders().is_empty() {
            "filter over Σ μ²: the budget fixed in advance is the claim; releases stop before it is exceeded"
                .into()
        } else {
            "Rényi filter: the budget fixed in advance is the claim; releases stop before it is exceeded"
                .into()
        }],
        bounds: None,
    };
    Ok((Ledger::filter(Arc::new(plan), filter), caveats(claim, context)))
}

/// The filter of a schedule, and what each round costs at its orders.
///
/// Gaussian noise has Σ μ² in it, which widths do not touch. It stands alone, with all of δ, where widths can add nothing: the algorithm has no intervals, or the
/// whole schedule fits without them. All of this is decided from public numbers before the first release.
fn tracks(
    norms: &[ShiftNorms],
    mu: &[f64],
    intervals: bool,
    epsilon: f64,
    delta: f64,
) -> Result<(RenyiFilter, Vec<RoundCosts>), String> {
    let gaussian = !mu.is_empty();
    if gaussian {
        let filter = RenyiFilter::with_gaussian(&[], epsilon, delta).map_err(|e| e.to_string())?;
        let mut all = filter.clone();
        if !intervals || mu.iter().all(|&mu| all.try_charge_gaussian(&[], mu).is_ok()) {
            return Ok((filter, Vec::new()));
        }
    }
    let rho: f64 = norms.iter().filter_map(|n| n.two).map(|v| 0.5 * v * v).sum();
    // The order that zCDP would use for this budget, from public numbers alone.
    let best = 1.0 + (libm::log(1.0 / delta) / rho.max(1e-300)).sqrt();
    let best = best.clamp(1.5, 1.0 + 2.0 * libm::log(1.0 / delta) / epsilon);
    let orders: Vec<f64> = FILTER_ORDERS.iter().map(|f| 1.0 + (best - 1.0) * f).collect();
    let (filter, kind) = if gaussian {
        (RenyiFilter::with_gaussian(&orders, epsilon, delta), IntervalNoise::Gaussian)
    } else {
        (RenyiFilter::new(&orders, epsilon, delta), IntervalNoise::Laplace)
    };
    let reach = || norms.iter().map(|n| n.inf.min(n.two.unwrap_or(n.inf)).min(n.one.unwrap_or(n.inf)));
    let (low, high) = (reach().fold(f64::INFINITY, f64::min), reach().fold(0.0, f64::max));
    let table = RenyiTable::new(kind, low, high, &orders).map_err(|e| e.to_string())?;
    let rounds =
        norms.iter().map(|&n| table.round(n)).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    Ok((filter.map_err(|e| e.to_string())?, rounds))
}
