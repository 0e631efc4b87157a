//! Correlated noise in an experiment: who it is calibrated against, and what an agent adds of it.

use super::budget::{Budget, Context};
use super::spec::{Accounting, Mechanism, NoiseSpec};
use crate::gate::{Gate, Grid, Noise, Pair, Pairs, RoundNoise};
use crate::graph::Graph;
use crate::privacy::correlated::{self, Exposure};
use crate::privacy::{Adversary, Claim};
use crate::protocol::{Pairwise, PublicFacts};
use crate::random::Seed;
use std::sync::Arc;

/// Pairwise noise of one algorithm, over all its graphs.
#[derive(Clone, Debug)]
pub(super) struct Correlated {
    pub(super) pairwise: Pairwise,
    /// The worst over coalitions, agents and the graphs of all runs.
    exposure: Exposure,
    /// Edges and largest degree of the largest graph.
    edges: usize,
    degree: usize,
}

impl Correlated {
    /// What `pairwise` noise leaves of an agent's privacy on these graphs; the text begins with the key at fault.
    pub(super) fn new(
        pairwise: Pairwise,
        noise: Option<&NoiseSpec>,
        facts: &PublicFacts,
        context: &Context<'_>,
        graphs: &[Arc<Graph>],
    ) -> Result<Option<Self>, String> {
        let Pairwise { colluders, correlation } = pairwise;
        let agents = facts.agents;
        if colluders + 2 > agents {
            return Err(format!(
                "colluders = {colluders} of {agents} agents is too many: at most {}; against all others every agent hides itself, use kind = \"dgd\"",
                agents.saturating_sub(2)
            ));
        }
        if !(correlation > 0.0 && correlation <= correlated::MOST_CORRELATION) {
            return Err(format!(
                "correlation = {correlation} must be above 0 and at most {}: it is σ_cor/σ",
                correlated::MOST_CORRELATION
            ));
        }
        let Some(privacy) = context.spec.privacy.filter(|_| facts.private) else {
            if noise.is_some_and(|n| *n != NoiseSpec::None) {
                return Err("noise of kind decor is accounted for as correlated: add [privacy] with a delta, or set noise = \"none\"".into());
            }
            return Ok(None);
        };
        if privacy.accounting == Accounting::Filter {
            return Err(
                "kind decor has no intervals whose width could count: set privacy.accounting = \"schedule\""
                    .into(),
            );
        }
        let calibrated = noise.is_none();
        if privacy.mechanism == Some(Mechanism::Laplace)
            || !(calibrated || matches!(noise, Some(NoiseSpec::Gaussian(_))))
        {
            return Err("noise must be Gaussian for kind decor: the noises of neighbours add up, and only Gaussian ones stay what they are; \
                 leave privacy.mechanism out, and give noise = { gaussian = … } or none"
                .into());
        }
        let mut seen: Vec<&Arc<Graph>> = graphs.iter().collect();
        seen.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let r = correlation * correlation;
        let exposure = seen
            .iter()
            .map(|g| correlated::worst(g, colluders, r))
            .max_by(|a, b| a.resistance.total_cmp(&b.resistance))
            .ok_or("no graph")?;
        let edges = seen.iter().map(|g| g.edges()).max().unwrap_or(0);
        let degree = seen.iter().map(|g| g.max_degree()).max().unwrap_or(0);
        Ok(Some(Self { pairwise, exposure, edges, degree }))
    }

    /// How many times larger the deviation that hides an agent is than that of its own noise; rounded down.
    pub(super) fn gain(&self) -> f64 {
        (1.0 / self.exposure.resistance.sqrt()) * (1.0 - 1e-12)
    }

    /// The largest σ²·[Σ_H⁻¹]_ii over coalitions and agents.
    pub(super) fn resistance(&self) -> f64 {
        self.exposure.resistance
    }

    /// Gives `gate` the pairwise noise of its agent's edges, whose ends have still to agree on their secrets.
    pub(super) fn equip_later(&self, gate: Gate, agent: usize, neighbours: &[u32]) -> Gate {
        let pairs: Vec<Pair> = neighbours.iter().map(|&j| Pair::awaited(agent as u32, j)).collect();
        gate.with_pairs(Pairs::new(pairs, self.pairwise.correlation))
    }

    /// Gives `gate` the pairwise noise of its agent's edges. In a simulation all secrets come from the run's own seed.
    pub(super) fn equip(&self, gate: Gate, agent: usize, neighbours: &[u32], seed: &Seed) -> Gate {
        let pairs: Vec<Pair> = neighbours.iter().map(|&j| Pair::new(agent as u32, j, seed.clone())).collect();
        gate.with_pairs(Pairs::new(pairs, self.pairwise.correlation))
    }
}

/// Gives every agent its own part of the noise that was priced, and says in the claim what that assumes and adds to δ.
pub(super) fn correlate(
    budget: &mut Budget,
    facts: &PublicFacts,
    context: &Context<'_>,
) -> Result<(), String> {
    let (Some(correlated), Some(privacy)) = (budget.correlated.clone(), context.spec.privacy) else {
        return Ok(());
    };
    let Correlated { pairwise, exposure, edges, degree } = &correlated;
    let own: Vec<f64> =
        budget.noise().iter().map(|n| (n.noise().scale() / correlated.gain()).next_up()).collect();
    let noise: Arc<[RoundNoise]> = own
        .iter()
        .map(|&sigma| RoundNoise::new(Noise::Gaussian { sigma }))
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    let distance = |n: &RoundNoise| {
        let own = n.noise().scale() / Grid::step(n.grid());
        correlated::rounding_distance(*edges, *degree, own, own * pairwise.correlation)
    };
    let distance: f64 = noise.iter().map(distance).sum::<f64>() * facts.dim as f64 * (1.0 + 1e-9);
    for account in budget.accounts_mut() {
        account.hidden_by = account.noise.iter().map(RoundNoise::noise).collect();
        account.noise = Arc::clone(&noise);
        let Some(price) = &mut account.price else { continue };
        let epsilon = privacy.epsilon.map_or(price.claim.epsilon, |e| e.min(price.claim.epsilon));
        let extra = (1.0 + libm::exp(epsilon)) * distance;
        if extra.is_nan() || extra > privacy.delta * super::shared::RESERVED {
            return Err(format!(
                "noise is so small (ε = {epsilon:.1}), or correlation so far from 1, that rounding every term by itself costs δ = {extra:.1e}: add more"
            ));
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
    budget.settle();
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
pub(super) fn protects(claim: &Claim, wanted: Adversary, agents: usize) -> Result<(), String> {
    if claim.against.covers(wanted, agents) {
        return Ok(());
    }
    Err(format!(
        "privacy.adversary = {wanted} is feared, and this algorithm's claim is against {}: raise its colluders, or use an algorithm with \
         local noise (dgd, admm, gd)",
        claim.against
    ))
}
