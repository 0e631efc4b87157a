//! Accounts of noise that neighbours share: who it is calibrated against, and what an agent adds of
//! it.

use super::NoiseKind;
use super::wanted::{Accounting, NoiseSpec};
use super::{Account, PricingFacts, RESERVED, no_bound};
use crate::config_error::ConfigError;
use crate::gate::{Gate, Grid, Noise, Pair, Pairs, RoundNoise};
use crate::graph::Graph;
use crate::privacy::correlated::{self, Exposure, OwnNoiseSplit};
use crate::privacy::{Adversary, Claim};
use crate::protocol::{Pairwise, PublicFacts};
use crate::random::Seed;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pairwise noise of one algorithm, over all its graphs.
#[derive(Clone, Debug)]
pub struct Correlated {
    /// What the algorithm asks for.
    pub pairwise: Pairwise,
    /// The worst over coalitions, agents and the graphs of all runs.
    exposure: Exposure,
    /// Own noise of each agent's own, where the graphs hide some better than others.
    division: Option<OwnNoiseSplit>,
    /// Edges and largest degree of the largest graph.
    edges: usize,
    degree: usize,
    /// What every edge adds, by round; [`correlate`] fills it in.
    shared: Arc<[RoundNoise]>,
}

impl Correlated {
    /// What `pairwise` noise leaves of an agent's privacy on these graphs; the text begins with the
    /// key at fault.
    pub fn new(
        pairwise: Pairwise,
        noise: Option<&NoiseSpec>,
        facts: &PublicFacts,
        terms: &PricingFacts<'_>,
        graphs: &[Arc<Graph>],
    ) -> Result<Option<Self>, ConfigError> {
        let Pairwise { colluders, correlation } = pairwise;
        let agents = facts.agents;
        if colluders + 2 > agents {
            return Err(ConfigError::at(
                "colluders",
                format!(
                    "colluders = {colluders} of {agents} agents is too many: at most {}; against all others every agent hides itself, use kind = \"dgd\"",
                    agents.saturating_sub(2)
                ),
            ));
        }
        if !(correlation > 0.0 && correlation <= correlated::MOST_CORRELATION) {
            return Err(ConfigError::at(
                "correlation",
                format!(
                    "correlation = {correlation} must be above 0 and at most {}: it is σ_cor/σ",
                    correlated::MOST_CORRELATION
                ),
            ));
        }
        let Some(privacy) = terms.privacy.filter(|_| facts.private) else {
            return Ok(None);
        };
        let calibrated = noise.is_none();
        // The rules refuse these with their reasons; nothing is proved of them.
        if privacy.accounting == Accounting::Filter
            || privacy.mechanism == Some(NoiseKind::Laplace)
            || !(calibrated || matches!(noise, Some(NoiseSpec::Gaussian(_))))
        {
            return Err(no_bound());
        }
        let mut seen: Vec<&Arc<Graph>> = graphs.iter().collect();
        seen.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let r = correlation * correlation;
        let exposure = seen
            .iter()
            .map(|g| correlated::worst(g, colluders, r))
            .reduce(Exposure::worse)
            .ok_or_else(|| ConfigError::of("no graph"))?;
        let edges = seen.iter().map(|g| g.edges()).max().unwrap_or(0);
        let degree = seen.iter().map(|g| g.max_degree()).max().unwrap_or(0);
        // Noise that a file fixes is the same for all.
        let division = if calibrated { correlated::divide(&exposure.by_agent) } else { None };
        Ok(Some(Self { pairwise, exposure, division, edges, degree, shared: Arc::from([]) }))
    }

    /// How many times larger the deviation that hides an agent is than that of its own noise, where
    /// all have the same; rounded down.
    pub fn gain(&self) -> f64 {
        (1.0 / self.exposure.resistance.sqrt()) * (1.0 - 1e-12)
    }

    /// How many times larger the deviation that hides an agent is than the root mean square of the
    /// agents' own.
    pub fn typical_gain(&self) -> f64 {
        match &self.division {
            Some(OwnNoiseSplit { own, .. }) => {
                (own.len() as f64 / own.iter().sum::<f64>()).sqrt() * (1.0 - 1e-12)
            }
            None => self.gain(),
        }
    }

    /// An own noise, over the deviation that hides everybody, to plan with as if it were everybody's:
    /// the root mean square of all, or more where some agent's message could be louder with its
    /// edges than such a noise and its edges are.
    pub fn planned_own(&self) -> f64 {
        let Some(OwnNoiseSplit { base, own }) = &self.division else { return 1.0 / self.gain() };
        let edges = self.pairwise.correlation.powi(2) * self.degree as f64;
        let most = own.iter().copied().fold(0.0, f64::max);
        let loudest = (most + edges * base) / (1.0 + edges);
        (own.iter().sum::<f64>() / own.len() as f64).max(loudest).sqrt()
    }

    /// σ_i² of every agent over s², which noise that neighbours share is measured by, and s² over
    /// the variance that hides everybody.
    pub fn own_variances(&self) -> (Vec<f64>, f64) {
        match &self.division {
            Some(OwnNoiseSplit { base, own }) => (own.iter().map(|o| o / base).collect(), *base),
            None => (vec![1.0; self.exposure.by_agent.len()], self.exposure.resistance),
        }
    }

    /// What every edge adds, by round.
    pub fn shared_noise(&self) -> Arc<[RoundNoise]> {
        Arc::clone(&self.shared)
    }

    /// Which agents have own noises of one size: the classes, and the size of each over the
    /// deviation that hides everybody. `None` where all have one.
    pub(super) fn classes(&self) -> Option<(Arc<[u32]>, Vec<f64>)> {
        let OwnNoiseSplit { own, .. } = self.division.as_ref()?;
        let sizes: BTreeSet<u64> = own.iter().map(|o| o.to_bits()).collect();
        // Positive numbers are in the order of their bits.
        let sizes: Vec<u64> = sizes.into_iter().collect();
        let class = |o: &f64| sizes.partition_point(|&s| s < o.to_bits()) as u32;
        let factors = sizes.iter().map(|&s| (f64::from_bits(s).sqrt() * (1.0 + 1e-12)).next_up());
        Some((own.iter().map(class).collect(), factors.collect()))
    }

    /// Gives `gate` the pairwise noise of its agent's edges, whose ends have still to agree on
    /// their secrets.
    pub fn equip_later(&self, gate: Gate, agent: usize, neighbours: &[u32]) -> Gate {
        let pairs: Vec<Pair> = neighbours.iter().map(|&j| Pair::awaited(agent as u32, j)).collect();
        gate.with_pairs(Pairs::new(pairs, self.shared_noise()))
    }

    /// Gives `gate` the pairwise noise of its agent's edges. In a simulation all secrets come from
    /// the run's own seed.
    pub fn equip(&self, gate: Gate, agent: usize, neighbours: &[u32], seed: &Seed) -> Gate {
        let pairs: Vec<Pair> =
            neighbours.iter().map(|&j| Pair::new(agent as u32, j, seed.clone())).collect();
        gate.with_pairs(Pairs::new(pairs, self.shared_noise()))
    }
}

/// Gives every agent its own part of the noise that was priced, and says in the claim what that
/// assumes and adds to δ.
pub fn correlate(
    account: &mut Account,
    facts: &PublicFacts,
    terms: &PricingFacts<'_>,
) -> Result<(), ConfigError> {
    let (Some(correlated), Some(privacy)) = (account.correlated.clone(), terms.privacy) else {
        return Ok(());
    };
    let Correlated { pairwise, exposure, division, edges, degree, .. } = &correlated;
    let hidden: Vec<f64> = account.noise().iter().map(|n| n.noise().scale()).collect();
    let gaussian = |sigma: f64| Noise::Gaussian { sigma };
    // s, whose grid all messages and all edges live on.
    let base = |&hides: &f64| match division {
        Some(OwnNoiseSplit { base, .. }) => (hides * base.sqrt()).next_up(),
        None => (hides / correlated.gain()).next_up(),
    };
    let base: Vec<RoundNoise> = hidden
        .iter()
        .map(|hides| RoundNoise::new(gaussian(base(hides))))
        .collect::<Result<_, _>>()
        .map_err(ConfigError::no_claim)?;
    let classes = correlated.classes();
    let own_of = |class: u32| -> Arc<[RoundNoise]> {
        let Some((_, factors)) = &classes else { return base.clone().into() };
        let own = |(base, hides): (&RoundNoise, &f64)| {
            let sigma = (hides * factors[class as usize]).next_up().max(base.noise().scale());
            RoundNoise::on_grid(gaussian(sigma), base.grid())
        };
        base.iter().zip(&hidden).map(own).collect()
    };
    let distance = |n: &RoundNoise| {
        let own = n.noise().scale() / Grid::step(n.grid());
        correlated::rounding_distance(*edges, *degree, own, own * pairwise.correlation)
    };
    let distance: f64 = base.iter().map(distance).sum::<f64>() * facts.dim as f64 * (1.0 + 1e-9);
    let shared = |n: &RoundNoise| {
        let sigma = n.noise().scale() * pairwise.correlation;
        RoundNoise::on_grid(gaussian(sigma), n.grid())
    };
    let said = CorrelatedClaim { exposure, division: division.as_ref(), pairwise };
    for (class, noise_schedule) in account.noise_schedules_by_hiding_mut() {
        noise_schedule.share_noise(&own_of(class), distance);
        let Some(price) = &mut noise_schedule.price else { continue };
        let epsilon = price.claim.clone().within(privacy.epsilon).epsilon;
        let extra = (1.0 + libm::exp(epsilon)) * distance;
        if extra.is_nan() || extra > privacy.delta * RESERVED {
            return Err(ConfigError::at(
                "noise",
                format!(
                    "noise is so small (ε = {epsilon:.1}), or correlation so far from 1, that rounding every term by itself costs δ = {extra:.1e}: add more"
                ),
            ).refusing_claim());
        }
        let claim = &mut price.claim;
        claim.delta = privacy.delta;
        claim.bounds = None;
        claim.against = Adversary::coalition(pairwise.colluders, true);
        claim.adversary = format!(
            "any {} of {} agents, fixed before the run, pool all they know and leave the protocol as they like, and somebody reads every \
             message on every link; all others follow the protocol and keep the secrets of their edges",
            pairwise.colluders, facts.agents
        );
        claim.sampler = format!("{}; pairwise noise cancels exactly", claim.sampler);
        claim.caveats.push(said.caveat(extra));
    }
    let shared = base.iter().map(shared).collect();
    account.correlated = Some(Correlated { shared, ..correlated });
    account.settle();
    Ok(())
}

/// What a claim says of correlated noise.
struct CorrelatedClaim<'a> {
    exposure: &'a Exposure,
    division: Option<&'a OwnNoiseSplit>,
    pairwise: &'a Pairwise,
}

impl CorrelatedClaim<'_> {
    fn caveat(&self, extra: f64) -> String {
        let Self { exposure, division, pairwise } = self;
        let found = match &exposure.worst {
            Some((coalition, agent)) if !coalition.is_empty() => {
                let names: Vec<String> = coalition.iter().map(u32::to_string).collect();
                format!(
                    "the worst coalition is agent {} against agent {agent}, found by trying all",
                    names.join(", ")
                )
            }
            Some(_) => "nobody colludes".into(),
            None => "the worst coalition is bounded by proof".into(),
        };
        let hides = match division {
            None => format!(
                "each agent's own hides it as {:.1} times its variance would, σ_cor = {:.3}·σ",
                1.0 / exposure.resistance,
                pairwise.correlation
            ),
            Some(OwnNoiseSplit { base, own }) => {
                let most = own.iter().copied().fold(0.0, f64::max);
                format!(
                    "agents' own noises have {base:.3} to {most:.3} of the variance that hides each of them, by how well the graph hides it, \
                     σ_cor = {:.3} of the least",
                    pairwise.correlation
                )
            }
        };
        format!(
            "correlated noise: {hides}; {found}. δ has {extra:.1e} for rounding every term by itself"
        )
    }
}

/// Refuses a claim that does not protect from whom the file fears.
pub fn protects(claim: &Claim, wanted: Adversary, agents: usize) -> Result<(), ConfigError> {
    if claim.against.covers(wanted, agents) {
        return Ok(());
    }
    Err(ConfigError::at(
        "privacy.adversary",
        format!(
            "privacy.adversary = {wanted} is feared, and this algorithm's claim is against {}: raise its colluders, or use an algorithm with \
         local noise (dgd, admm, gd)",
            claim.against
        ),
    ).refusing_claim())
}
