//! One algorithm, ready to run: its open choices made, its noise found and priced.

use super::objective::budget_per_sensitivity;
use super::problem::CoupledProblem;
use super::shared::SharingSpec;
use super::spec::{self, AlgorithmSpec, ExperimentSpec};
use super::{range, shared};
use crate::account::{
    self, Account, Correlated, DeclaredCosts, HidingSet, NoiseSpec, PricingFacts, PrivacySpec,
};
use crate::agent::Timetable;
use crate::config_error::ConfigError;
use crate::graph::Graph;
use crate::protocol::scouted::Scouted;
use crate::protocol::staged::Staged;
use crate::protocol::{MixRule, Parameters, Protocol, PublicFacts};
use crate::sharing::FixedPoint;
use std::sync::Arc;

/// What all algorithms of an experiment share when they are planned.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// Which algorithm of the file is planned, from 1.
    pub(super) place: u64,
    pub(super) spec: &'a ExperimentSpec,
    pub(super) terms: PricingFacts<'a>,
    /// The linear constraint, if the agents share one.
    pub(super) coupled: Option<&'a CoupledProblem>,
    /// Whether classes are balanced by shares that the run estimates.
    pub(super) balanced: bool,
    /// How many records one person has at most.
    pub(super) person: u32,
}

/// What is declared of costs, where agents have them instead of records.
pub(super) fn declared_costs(
    spec: &ExperimentSpec,
    coupled: Option<&CoupledProblem>,
) -> Option<DeclaredCosts> {
    let problem = spec.problem.as_ref().filter(|p| !p.agent.is_empty())?;
    let marginal = problem.marginal.unwrap_or([f64::NAN; 2]);
    Some(DeclaredCosts { marginal, gradient: coupled.and_then(|t| t.gradient) })
}

/// One algorithm, ready to run.
#[derive(Debug)]
pub(super) struct Planned {
    /// Which algorithm of the file it is, from 1: under entropy its noise is its own.
    pub(super) place: u64,
    pub(super) label: String,
    pub(super) protocol: Arc<dyn Protocol>,
    pub(super) timetable: Arc<Timetable>,
    pub(super) account: Account,
    /// Secret shares instead of vectors.
    pub(super) sharing: Option<FixedPoint>,
    /// Where `sharing` is under masks instead of in shares.
    pub(super) masking: Option<shared::Masking>,
    /// How agents combine their neighbours' vectors.
    pub(super) mixing: MixRule,
    /// How many rounds old a neighbour's vector may be.
    pub(super) staleness: u32,
    /// The largest number of an honest agent's message, where a rule gives one.
    pub(super) release_bound: Option<f64>,
    /// What scouts the columns, where they are scouted; `protocol` is the same, or has it as its
    /// first stage.
    pub(super) scouted: Option<Arc<Scouted>>,
    /// The algorithm behind that stage, if it is another one; `protocol` is the same.
    pub(super) staged: Option<Arc<Staged>>,
}

impl Planned {
    /// How it trains, whatever the file calls it.
    pub(super) fn method(&self) -> String {
        let kind = self.protocol.kind();
        match (&self.scouted, &self.staged) {
            (None, _) => kind.to_owned(),
            (Some(_), None) => "scouted".to_owned(),
            (Some(_), Some(_)) => format!("scouted, then {kind}"),
        }
    }

    /// Whether every message is a fixed linear function of noise and private steps, so that what a
    /// single node can tell is known exactly.
    pub(super) fn has_linear_view(&self) -> bool {
        self.protocol.capabilities().linear
            && self.mixing == MixRule::Average
            && self.staleness == 0
            && self.account.batch.is_none()
            && self.account.price.is_some()
            && self.account.is_gaussian()
    }
}

pub(super) fn plan(
    algorithm: AlgorithmSpec,
    mut facts: PublicFacts,
    context: &Context<'_>,
    graphs: &[Arc<Graph>],
) -> Result<(Planned, Vec<String>), ConfigError> {
    let AlgorithmSpec {
        label,
        rounds,
        noise,
        max_dim,
        tail,
        gossip,
        sharing,
        mixing,
        staleness,
        batch,
        mut protocol,
        ..
    } = algorithm;
    // How far a record moves a round follows from how records are drawn for it.
    let context = &Context { terms: PricingFacts { batch, ..context.terms }, ..*context };
    if let Some(most) = max_dim.filter(|&most| most < facts.dim) {
        return Err(ConfigError::at(
            "max_dim",
            format!(
                "max_dim = {most} leaves points of a [sweep] out, and the file itself has d = {}: lower data.dim",
                facts.dim
            ),
        ));
    }
    // How noise is calibrated is one thing, noise that is fixed another.
    let (given, how) = (noise.clone(), noise.as_ref().and_then(NoiseSpec::calibrated));
    let noise = noise.filter(|_| how.is_none());
    if let Some(coupled) = context.coupled {
        let coupled = protocol.couple(&coupled.coupling);
        protocol = coupled.ok_or_else(|| ConfigError::of("it brings all agents to one model"))?;
    }
    facts.private = context.spec.privacy.is_some() && noise != Some(NoiseSpec::None);
    let masking = sharing.as_ref().and_then(|s| shared::masking(s, facts.private, graphs));
    if masking.is_some() {
        shared::as_complete(&mut facts);
    }
    let privacy = context.spec.privacy.filter(|_| noise.is_none());
    // Before steps are chosen for a budget that pays for none.
    if privacy.is_some_and(|p| p.epsilon.is_some()) {
        account::bounded(&context.terms)?;
    }
    facts.budget = privacy.and_then(|p| budget(&p, &facts, &context.terms));
    let hiding =
        hiding_set(&*protocol, sharing.as_ref(), noise.as_ref(), &mut facts, context, graphs)?;
    facts.rounds = rounds.unwrap_or_else(|| protocol.default_rounds(&facts)).min(spec::MAX_ROUNDS);
    protocol.resolve(&facts);
    let label = label.unwrap_or_else(|| protocol.kind().to_owned());
    let warning = protocol.check(&facts)?;
    let calibrated = facts.private && noise.is_none();
    let mixes = context.coupled.is_none() && !protocol.capabilities().directed && sharing.is_none();
    let timetable = timetable(tail, gossip, calibrated, mixes, &facts);
    let protocol: Arc<dyn Protocol> = Arc::from(protocol);
    let mut account =
        account::plan(&*protocol, noise.as_ref(), how, &facts, &context.terms, graphs, hiding)?;
    account::correlate(&mut account, &facts, &context.terms)?;
    account.noise_spec = given;
    let sharing = sharing
        .map(|spec| shared::code(&spec, &*protocol, &facts, context, &account))
        .transpose()?;
    if let Some(code) = &sharing {
        shared::distribute(&mut account, masking.is_some(), code, &facts, context)?;
    }
    if let (Some(price), Some(wanted)) =
        (&account.price, context.spec.privacy.and_then(|p| p.adversary))
    {
        account::protects(&price.claim, wanted, facts.agents)?;
    }
    let warnings = warning
        .into_iter()
        .map(|w| format!("{label}: {w}"))
        .chain(account.warnings.iter().cloned())
        .collect();
    Ok((
        Planned {
            release_bound: range::release_bound(&*protocol, mixing, &facts, context, &account),
            place: context.place,
            label,
            protocol,
            timetable: Arc::new(timetable),
            account,
            sharing,
            masking,
            mixing,
            staleness,
            scouted: None,
            staged: None,
        },
        warnings,
    ))
}

/// The budget over the largest sensitivity of a gradient, which steps are chosen for.
fn budget(privacy: &PrivacySpec, facts: &PublicFacts, terms: &PricingFacts<'_>) -> Option<f64> {
    let PricingFacts { objective, bounds, weights, .. } = *terms;
    if weights.is_empty() {
        budget_per_sensitivity(privacy, objective, bounds, std::iter::once(terms.loudest(facts)))
    } else {
        budget_per_sensitivity(privacy, objective, bounds, terms.site_weights())
    }
}

/// Whose noise hides an agent beside its own. Steps may be as large as if the budget were larger by
/// what that gains, so `facts.budget` grows with it.
fn hiding_set(
    protocol: &dyn Protocol,
    sharing: Option<&SharingSpec>,
    noise: Option<&NoiseSpec>,
    facts: &mut PublicFacts,
    context: &Context<'_>,
    graphs: &[Arc<Graph>],
) -> Result<HidingSet, ConfigError> {
    let distributed_noise = match sharing {
        Some(spec) => shared::distributed_noise(spec, noise, facts, context, graphs)?,
        None => None,
    };
    let hiding_set_sizes =
        sharing.and_then(|s| shared::hiding_set_sizes(distributed_noise, s, graphs));
    if let Some(distributed_noise) = distributed_noise {
        // So many of them hide each other: the mean has that many times less variance than if
        // everybody hid itself.
        let hiding_set_size =
            shared::typical_hiding_set(distributed_noise, hiding_set_sizes.as_ref());
        facts.budget = facts.budget.map(|b| b * hiding_set_size.sqrt());
    }
    let correlated = match protocol.pairwise(facts) {
        Some(pairwise) => Correlated::new(pairwise, noise, facts, &context.terms, graphs)?,
        None => None,
    };
    if let Some(correlated) = &correlated {
        facts.budget = facts.budget.map(|b| b * correlated.typical_gain());
    }
    Ok(HidingSet { distributed_noise, hiding_set_sizes, correlated })
}

/// How long the algorithm runs, averages and mixes. Averaging and mixing are free after the noise is
/// paid for, so they are what happens by default under `calibrated` noise; without noise they would
/// only slow convergence down.
fn timetable(
    tail: Option<f64>,
    gossip: Option<u32>,
    calibrated: bool,
    mixes: bool,
    facts: &PublicFacts,
) -> Timetable {
    let tail = tail.unwrap_or(if calibrated { 0.5 } else { 0.0 });
    let gossip = gossip.unwrap_or_else(|| match calibrated && mixes {
        true => account::default_gossip(facts),
        false => 0,
    });
    let tail_rounds = ((tail * f64::from(facts.rounds)).round() as u32).max(1);
    Timetable { rounds: facts.rounds, tail_from: facts.rounds + 1 - tail_rounds, gossip }
}

/// Two algorithms of one name get numbers.
pub(super) fn distinct_labels(planned: &mut [Planned]) {
    for i in 1..planned.len() {
        let base = planned[i].label.clone();
        let mut count = 1;
        while planned[..i].iter().any(|p| p.label == planned[i].label) {
            count += 1;
            planned[i].label = format!("{base} {count}");
        }
    }
}

pub(super) fn resolved_algorithm(planned: &Planned) -> Parameters {
    let mut table = Parameters::new();
    table.insert("kind".into(), planned.protocol.kind().into());
    table.insert("label".into(), planned.label.clone().into());
    if let Some(staged) = &planned.staged {
        let (rounds, tail, gossip) = staged.timetable();
        table.insert("rounds".into(), i64::from(rounds).into());
        table.insert("tail".into(), tail.into());
        table.insert("gossip".into(), i64::from(gossip).into());
        table.extend(planned.protocol.parameters());
        return table;
    }
    if let Some(scouted) = &planned.scouted {
        // All else follows from public numbers.
        table.insert("rounds".into(), i64::from(scouted.steps()).into());
        table.extend(planned.protocol.parameters());
        return table;
    }
    table.insert("rounds".into(), i64::from(planned.timetable.rounds).into());
    let tail = f64::from(planned.timetable.rounds + 1 - planned.timetable.tail_from)
        / f64::from(planned.timetable.rounds);
    table.insert("tail".into(), tail.into());
    table.insert("gossip".into(), i64::from(planned.timetable.gossip).into());
    table.extend(planned.protocol.parameters());
    table.extend(shared::keys(planned));
    table.extend(range::keys(planned.mixing));
    if planned.staleness > 0 {
        table.insert("staleness".into(), planned.staleness.into());
    }
    if let Some(rate) = planned.account.batch {
        table.insert("batch".into(), rate.into());
    }
    if let Some(noise) = &planned.account.noise_spec
        && let Ok(noise) = serde_json::to_value(noise)
    {
        table.insert("noise".into(), noise);
    }
    table
}
