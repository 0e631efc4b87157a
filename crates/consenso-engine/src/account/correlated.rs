//! Accounts of noise that neighbours share: who it is calibrated against, and what an agent adds of
//! it.

use super::NoiseKind;
use super::wanted::{Accounting, NoiseSpec};
use super::{Account, RESERVED, Terms};
use crate::fault::Fault;
use crate::gate::{Gate, Grid, Noise, Pair, Pairs, RoundNoise};
use crate::graph::Graph;
use crate::privacy::correlated::{self, Exposure};
use crate::privacy::{Adversary, Claim};
use crate::protocol::{Pairwise, PublicFacts};
use crate::random::Seed;
use std::sync::Arc;

/// Pairwise noise of one algorithm, over all its graphs.
#[derive(Clone, Debug)]
pub(crate) struct Correlated {
    pub(crate) pairwise: Pairwise,
    /// The worst over coalitions, agents and the graphs of all runs.
    exposure: Exposure,
    /// Edges and largest degree of the largest graph.
    edges: usize,
    degree: usize,
}

impl Correlated {
    /// What `pairwise` noise leaves of an agent's privacy on these graphs; the text begins with the
    /// key at fault.
    pub(crate) fn new(
        pairwise: Pairwise,
        noise: Option<&NoiseSpec>,
        facts: &PublicFacts,
        terms: &Terms<'_>,
        graphs: &[Arc<Graph>],
    ) -> Result<Option<Self>, Fault> {
        let Pairwise { colluders, correlation } = pairwise;
        let agents = facts.agents;
        if colluders + 2 > agents {
            return Err(Fault::at(
                "colluders",
                format!(
                    "colluders = {colluders} of {agents} agents is too many: at most {}; against all others every agent hides itself, use kind = \"dgd\"",
                    agents.saturating_sub(2)
                ),
            ));
        }
        if !(correlation > 0.0 && correlation <= correlated::MOST_CORRELATION) {
            return Err(Fault::at(
                "correlation",
                format!(
                    "correlation = {correlation} must be above 0 and at most {}: it is σ_cor/σ",
                    correlated::MOST_CORRELATION
                ),
            ));
        }
        let Some(privacy) = terms.privacy.filter(|_| facts.private) else {
            if noise.is_some_and(|n| *n != NoiseSpec::None) {
                return Err(Fault::at(
                    "noise",
                    "noise of kind decor is accounted for as correlated: add [privacy] with a delta, or set noise = \"none\"",
                ));
            }
            return Ok(None);
        };
        if privacy.accounting == Accounting::Filter {
            return Err(Fault::at(
                "privacy.accounting",
                "kind decor has no intervals whose width could count: set privacy.accounting = \"schedule\"",
            ));
        }
        let calibrated = noise.is_none();
        if privacy.mechanism == Some(NoiseKind::Laplace)
            || !(calibrated || matches!(noise, Some(NoiseSpec::Gaussian(_))))
        {
            return Err(Fault::at(
                "noise",
                "noise must be Gaussian for kind decor: the noises of neighbours add up, and only Gaussian ones stay what they are; \
                 leave privacy.mechanism out, and give noise = { gaussian = … } or none",
            ));
        }
        let mut seen: Vec<&Arc<Graph>> = graphs.iter().collect();
        seen.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let r = correlation * correlation;
        let exposure = seen
            .iter()
            .map(|g| correlated::worst(g, colluders, r))
            .max_by(|a, b| a.resistance.total_cmp(&b.resistance))
            .ok_or_else(|| Fault::of("no graph"))?;
        let edges = seen.iter().map(|g| g.edges()).max().unwrap_or(0);
        let degree = seen.iter().map(|g| g.max_degree()).max().unwrap_or(0);
        Ok(Some(Self { pairwise, exposure, edges, degree }))
    }

    /// How many times larger the deviation that hides an agent is than that of its own noise;
    /// rounded down.
    pub(crate) fn gain(&self) -> f64 {
        (1.0 / self.exposure.resistance.sqrt()) * (1.0 - 1e-12)
    }

    /// The largest σ²·[Σ_H⁻¹]_ii over coalitions and agents.
    pub(crate) fn resistance(&self) -> f64 {
        self.exposure.resistance
    }

    /// Gives `gate` the pairwise noise of its agent's edges, whose ends have still to agree on
    /// their secrets.
    pub(crate) fn equip_later(&self, gate: Gate, agent: usize, neighbours: &[u32]) -> Gate {
        let pairs: Vec<Pair> = neighbours.iter().map(|&j| Pair::awaited(agent as u32, j)).collect();
        gate.with_pairs(Pairs::new(pairs, self.pairwise.correlation))
    }

    /// Gives `gate` the pairwise noise of its agent's edges. In a simulation all secrets come from
    /// the run's own seed.
    pub(crate) fn equip(&self, gate: Gate, agent: usize, neighbours: &[u32], seed: &Seed) -> Gate {
        let pairs: Vec<Pair> =
            neighbours.iter().map(|&j| Pair::new(agent as u32, j, seed.clone())).collect();
        gate.with_pairs(Pairs::new(pairs, self.pairwise.correlation))
    }
}

/// Gives every agent its own part of the noise that was priced, and says in the claim what that
/// assumes and adds to δ.
pub(crate) fn correlate(
    account: &mut Account,
    facts: &PublicFacts,
    terms: &Terms<'_>,
) -> Result<(), Fault> {
    let (Some(correlated), Some(privacy)) = (account.correlated.clone(), terms.privacy) else {
        return Ok(());
    };
    let Correlated { pairwise, exposure, edges, degree } = &correlated;
    let own: Vec<f64> =
        account.noise().iter().map(|n| (n.noise().scale() / correlated.gain()).next_up()).collect();
    let noise: Arc<[RoundNoise]> = own
        .iter()
        .map(|&sigma| RoundNoise::new(Noise::Gaussian { sigma }))
        .collect::<Result<_, _>>()
        .map_err(Fault::no_claim)?;
    let distance = |n: &RoundNoise| {
        let own = n.noise().scale() / Grid::step(n.grid());
        correlated::rounding_distance(*edges, *degree, own, own * pairwise.correlation)
    };
    let distance: f64 = noise.iter().map(distance).sum::<f64>() * facts.dim as f64 * (1.0 + 1e-9);
    for allotment in account.allotments_mut() {
        allotment.share_noise(&noise);
        let Some(price) = &mut allotment.price else { continue };
        let epsilon = privacy.epsilon.map_or(price.claim.epsilon, |e| e.min(price.claim.epsilon));
        let extra = (1.0 + libm::exp(epsilon)) * distance;
        if extra.is_nan() || extra > privacy.delta * RESERVED {
            return Err(Fault::at(
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
        claim.caveats.push(caveat(exposure, pairwise, extra));
    }
    account.settle();
    Ok(())
}

fn caveat(exposure: &Exposure, pairwise: &Pairwise, extra: f64) -> String {
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
    format!(
        "correlated noise: each agent's own hides it as {:.1} times its variance would, σ_cor = {:.3}·σ; {found}. δ has {extra:.1e} for \
         rounding every term by itself",
        1.0 / exposure.resistance,
        pairwise.correlation
    )
}

/// Refuses a claim that does not protect from whom the file fears.
pub(crate) fn protects(claim: &Claim, wanted: Adversary, agents: usize) -> Result<(), Fault> {
    if claim.against.covers(wanted, agents) {
        return Ok(());
    }
    Err(Fault::at(
        "privacy.adversary",
        format!(
            "privacy.adversary = {wanted} is feared, and this algorithm's claim is against {}: raise its colluders, or use an algorithm with \
         local noise (dgd, admm, gd)",
            claim.against
        ),
    ).refusing_claim())
}
