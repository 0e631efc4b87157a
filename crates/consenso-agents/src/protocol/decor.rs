//! DECOR: decentralized gradient descent with noise that neighbours share (Allouah, Koloskova, El
//! Firdoussi, Jaggi and Guerraoui, 2024).

use super::{
    Assessed, Capabilities, Configured, Memory, Pairwise, Parameters, Parts, Protocol, PublicFacts,
    Schedule, Scouting, View, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};

/// x_i⁺ = (1 − ημ)·z_i − η·∇f_i((1 − ημ)·z_i) + n_i + Σ_{j∈N_i} ±v_ij, z_i = Σ_j W_ij x_j with
/// Metropolis weights: gradients are taken where neighbours' noise has been mixed already. The gate
/// adds n and v; v_ij is the same for both ends of the edge but for its sign, so the mean of all
/// models moves with n alone. What it costs is in [`correlated`](crate::privacy::correlated).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decor {
    /// η_k.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Schedule>,
    /// c: how many agents may pool what they know. One, unless a file says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colluders: Option<usize>,
    /// c as a share of all agents, rounded down, where `colluders` is open: 0.25 for a quarter of
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colluder_share: Option<f64>,
    /// σ_cor/σ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<f64>,
}

/// How much stronger the noise of an agent's edges is than what would hide it alone, when the file
/// leaves it open.
///
/// With a = σ_cor²·deg/σ_local² (σ_local is what an agent alone would need) the mean's noise has
/// a/(a − 1) times the least variance that m honest agents can have, σ_local²/m each, while models
/// differ by about a·σ_local²/deg: at 2 the first is within √2 of its least deviation, and larger
/// values buy little of that for a disagreement that grows in proportion.
const STRENGTH: f64 = 2.0;

impl Decor {
    fn colluders(&self, facts: &PublicFacts) -> usize {
        // A share that is none asks for too many, which is refused with their number.
        let number = |share: f64| {
            if (0.0..1.0).contains(&share) {
                (share * facts.agents as f64) as usize
            } else {
                facts.agents
            }
        };
        let share = self.colluder_share.map(number);
        self.colluders.or(share).unwrap_or(1)
    }

    /// r·deg = (a − 1)·m, see [`STRENGTH`].
    fn correlation(&self, facts: &PublicFacts) -> f64 {
        let honest = facts.agents.saturating_sub(self.colluders(facts)).max(1) as f64;
        let degree = 0.5 * (facts.degrees.0 + facts.degrees.1) as f64;
        let open = ((STRENGTH - 1.0) * honest / degree.max(1.0)).sqrt();
        self.correlation.unwrap_or(open.clamp(0.5, crate::privacy::correlated::MOST_CORRELATION))
    }
}

impl Protocol for Decor {
    fn kind(&self) -> &'static str {
        "decor"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            linear: true,
            pairwise: true,
            correlated: Some("decor"),
            scouting: Scouting::Replaces,
            ..Capabilities::default()
        }
    }

    fn parts(&self) -> Parts<'_> {
        Parts { configured: Some(self), assessed: Some(self), ..Parts::default() }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        gradient: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        gradient.scaled(super::dgd::eta(self.step.as_ref(), round))
    }

    fn interval(&self, view: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        view.mix(low);
        let shrink =
            1.0 - super::dgd::eta(self.step.as_ref(), view.round() + 1) * view.regularization();
        low.iter_mut().for_each(|x| *x *= shrink);
        high.copy_from_slice(low);
    }

    fn step(
        &self,
        view: &View<'_>,
        _: Memory<'_>,
        point: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        local.data_gradient(point, step, work);
        let eta = super::dgd::eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }
}

impl Configured for Decor {
    fn pairwise(&self, facts: &PublicFacts) -> Option<Pairwise> {
        Some(Pairwise { colluders: self.colluders(facts), correlation: self.correlation(facts) })
    }

    fn resolve(&mut self, facts: &PublicFacts) {
        self.colluders = Some(self.colluders(facts));
        self.colluder_share = None;
        self.correlation = Some(self.correlation(facts));
        self.step.get_or_insert_with(|| super::dgd::default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        super::dgd::check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for Decor {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let rounds = 1..=inputs.facts.rounds.max(1);
        let largest = rounds.map(|k| super::dgd::eta(self.step.as_ref(), k)).fold(0.0, f64::max);
        super::dgd::open(
            largest * inputs.facts.smoothness,
            "no theorem here covers correlated noise",
        )
    }
}
