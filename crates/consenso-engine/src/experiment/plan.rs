//! What is known of an experiment's parameters before it runs, and the certified curve once it has
//! run.

use super::check::Experiment;
use super::planned::Planned;
use super::problem::CoupledProblem;
use super::scouted;
use crate::graph::Graph;
use crate::kernel;
use crate::problem::solve::Minimiser;
use crate::problem::weights::SiteWeight;
use crate::problem::{Constraint, LocalObjective, Workspace};
use crate::protocol::scouted::Scouted;
use crate::protocol::{Parameters, PublicFacts};
use crate::record::CertifiedCurve;
use crate::theory::{Assessment, Certainty, CertifiedBound, TheoremInputs};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// The constants every certificate rests on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Constants {
    /// N.
    pub agents: usize,
    /// d.
    pub dim: usize,
    /// m.
    pub strong_convexity: f64,
    /// M.
    pub smoothness: f64,
    /// σ²_max of the agents' constraint matrices: the largest degree for consensus.
    pub sigma_max_squared: f64,
    /// σ²_min of all of them together: λ_2 of the Laplacian for consensus, of the worst run's
    /// graph.
    pub sigma_min_squared: f64,
    /// ‖A‖² of all of them together: λ_max of the Laplacian for consensus, of the worst run's
    /// graph.
    pub norm_squared: f64,
}

/// What is known of one algorithm.
#[derive(Clone, Debug, Serialize)]
pub struct AlgorithmPlan {
    /// Its kind.
    pub kind: String,
    /// Its name in tables.
    pub label: String,
    /// Rounds that use records.
    pub rounds: u32,
    /// The parameters, open ones chosen.
    pub parameters: Parameters,
    /// The verdict.
    #[serde(flatten)]
    pub assessment: Assessment,
}

/// What `consenso plan` ends in.
#[derive(Clone, Debug, Serialize)]
pub struct Recommendation {
    /// What to do, in plain words.
    pub text: String,
    /// The part of the trained scores' variance that noise is predicted to be, if this is done;
    /// `None` where nothing is private or nothing is known of it.
    pub noise_share: Option<f64>,
}

/// What a model is expected to be worth, and what trust would buy many small sites.
fn what_it_is_worth(best: &Scouted) -> String {
    let Some(even) = best.expected(0.5, 1.0) else { return String::new() };
    let two = best.has_open_shares();
    let mut text = if best.predicts_a_number() {
        format!(" A model with R² = 0.50 without noise should have about {even:.2}")
    } else {
        format!(" A model with an AUC of 0.80 without noise should have about {even:.2}")
    };
    if let (true, Some(rare)) = (two, best.expected(0.1, 1.0)) {
        text += &format!(", or {rare:.2} where one record in ten is positive");
    }
    let honest = (best.sites().saturating_sub(1).max(1) as f64).sqrt();
    let trusting = best.expected(0.5, 1.0 / honest).unwrap_or(even);
    if best.sites() > 2 && !best.shares_noise() && trusting > even + 0.02 {
        text += &format!(
            "; if no two sites pool what they know, noise that neighbours share (privacy.adversary = {{ \
             colluders = 1, eavesdropper = true }}) leaves about {trusting:.2}"
        );
    }
    let off = if best.predicts_a_number() { "0.13" } else { "0.08" };
    text + &format!(
        " (off by {off} on the mean of thirteen sets: how columns go together is not public)."
    )
}

impl Experiment {
    /// Recommends one way to run this experiment, from public numbers alone.
    #[must_use]
    pub fn recommendation(&self) -> Recommendation {
        let shaky = self.plan().into_iter().find(|p| p.assessment.standing == Certainty::Unstable);
        if let Some(plan) = shaky {
            let label = &plan.label;
            let text = match &plan.assessment.nearest_certified {
                Some(choice) => {
                    let keys: Vec<String> =
                        choice.iter().map(|(k, v)| format!("{k} = {v}")).collect();
                    format!(
                        "Do not run {label} like this: it is predicted to diverge. {} is certified.",
                        keys.join(", ")
                    )
                }
                None => format!(
                    "Do not run {label} like this: it is predicted to diverge. Leave its parameters out to have safe ones chosen."
                ),
            };
            return Recommendation { text, noise_share: None };
        }
        let Some(epsilon) = self.spec.privacy.and_then(|p| p.epsilon) else {
            let text = match self.spec.privacy {
                None => {
                    "Run it as it is; nothing is private: add [privacy] with epsilon to protect records."
                }
                Some(_) => {
                    "Run it as it is; its noise is fixed by the file. Setting privacy.epsilon instead has it calibrated."
                }
            };
            return Recommendation { text: text.into(), noise_share: None };
        };
        let scouting =
            self.planned.iter().filter(|p| p.staged.is_none()).find_map(|p| p.scouted.as_deref());
        let found = scouted::instead(self, epsilon);
        let Some(best) = scouting.or(found.as_ref()) else {
            let text = "Run it as it is: the budget decides the noise, and open parameters follow from it.";
            return Recommendation { text: text.into(), noise_share: None };
        };
        let share = best.noise_share();
        let percent = |share: Option<f64>| (100.0 * share.unwrap_or(0.0)).round().clamp(1.0, 99.0);
        let mut text = if scouting.is_some() {
            "Run it as it is".to_owned()
        } else {
            "Set encoding = \"scouted\" under [data] and kind = \"auto\"".to_owned()
        };
        let (steps, each) = (best.steps(), best.exchanges());
        text += &format!(": a look at the columns, then {steps} steps of gradient descent");
        text += if best.calibrates() { " and a calibration of the score" } else { "" };
        if each > 1 {
            text += &format!(", {each} exchanges each");
        }
        text += &format!(
            ", at ε = {epsilon} in all. About {} % of what the trained scores say will be noise.",
            percent(share)
        );
        text += &what_it_is_worth(best);
        let rounds = best.rounds();
        let seconds = 0.1 * f64::from(rounds);
        text += &format!(
            " All of it takes {rounds} exchanges: {seconds:.0} s where a round trip takes 100 ms."
        );
        if share.is_some_and(|s| s > 0.5) {
            let enough = (1..8).map(|k| epsilon * f64::from(1u32 << k)).find_map(|epsilon| {
                let there = scouted::instead(self, epsilon)?.noise_share().filter(|s| *s < 0.5);
                Some((epsilon, there?))
            });
            text += " That is much: more records a site, fewer columns or levels, or a larger budget help";
            text += &enough.map_or_else(
                || ".".to_owned(),
                |(e, s)| format!("; at ε = {e} it would be {} %.", percent(Some(s))),
            );
        }
        Recommendation { text, noise_share: share }
    }

    /// The constants of the problem, from public quantities alone.
    #[must_use]
    pub fn constants(&self) -> Constants {
        let facts = &self.facts;
        if let Some(CoupledProblem { coupling, .. }) = &self.coupled {
            return Constants {
                agents: facts.agents,
                dim: facts.dim,
                strong_convexity: facts.strong_convexity,
                smoothness: facts.smoothness,
                sigma_max_squared: coupling.sigma_squared().iter().copied().fold(0.0, f64::max),
                sigma_min_squared: coupling.sigma_min_squared(),
                norm_squared: coupling.norm_squared(),
            };
        }
        Constants {
            agents: facts.agents,
            dim: facts.dim,
            strong_convexity: facts.strong_convexity,
            smoothness: facts.smoothness,
            sigma_max_squared: facts.degrees.1 as f64,
            sigma_min_squared: self.connectivity(),
            norm_squared: facts.laplacian_max,
        }
    }

    /// Whether each algorithm's parameters are certified, predicted stable or unstable, and which
    /// inequality says so.
    #[must_use]
    pub fn plan(&self) -> Vec<AlgorithmPlan> {
        let connectivity = self.connectivity();
        let one = |planned: &Planned| AlgorithmPlan {
            kind: planned.protocol.kind().into(),
            label: planned.label.clone(),
            rounds: planned.timetable.rounds,
            parameters: planned.protocol.parameters(),
            assessment: planned.protocol.assess(&self.inputs(planned, connectivity)),
        };
        self.planned.iter().map(one).collect()
    }

    /// λ_2 of the worst run's graph, or a bound below it.
    fn connectivity(&self) -> f64 {
        let mut seen: Vec<&Arc<Graph>> = self.graphs.iter().collect();
        seen.dedup_by(|a, b| Arc::ptr_eq(a, b));
        seen.iter()
            .map(|g| g.laplacian_spectrum().connectivity_lower_bound)
            .fold(f64::INFINITY, f64::min)
    }

    fn inputs(&self, planned: &Planned, connectivity: f64) -> TheoremInputs {
        TheoremInputs {
            facts: PublicFacts { rounds: planned.timetable.rounds, ..self.facts },
            connectivity,
            // One record alone is an upper bound on the mean of many.
            gradient: self.gradient_sensitivity(
                SiteWeight { records: 1, weight: self.heaviest() },
                crate::privacy::NeighbourRelation::ZeroOut,
            ),
            outputs: self.objective.loss.outputs(),
            constraint: match &self.coupled {
                Some(coupled) if coupled.limited => {
                    Constraint::Box { low: f64::MIN, high: f64::MAX }
                }
                _ => self.spec.objective.constraint,
            },
            noise: planned.account.deviations(planned.timetable.rounds),
        }
    }

    /// The certified bound on what a run's curve shows, if there is one: for the agents' distances
    /// or for the gap of the mean model.
    pub(super) fn certified(
        &self,
        planned: &Planned,
        locals: &[LocalObjective],
        optimum: &Minimiser,
        multiplier: &[f64],
    ) -> Option<CertifiedCurve> {
        let limited = self.coupled.as_ref().is_some_and(|t| t.limited);
        // The bounds below start at zero.
        if self.spec.objective.constraint != Constraint::None
            || limited
            || self.spec.start.is_some()
        {
            return None;
        }
        let connectivity = self.connectivity();
        let inputs = self.inputs(planned, connectivity);
        let assessment = planned.protocol.assess(&inputs);
        let (rounds, agents) = (planned.timetable.rounds, locals.len() as f64);
        let (quantity, values) = match assessment.bound? {
            CertifiedBound::Value(envelope) => {
                let start = crate::problem::solve::mean_value(locals, &vec![0.0; self.facts.dim])
                    - optimum.value;
                ("optimum_gap", envelope.curve(start, rounds))
            }
            CertifiedBound::Distance(envelope) => {
                let table = planned.protocol.parameters();
                let number = |key: &str| table.get(key).and_then(Value::as_f64);
                let (penalty, dual_step) = (number("penalty")?, number("dual_step")?);
                // ‖u⁰ − u*‖²_G with x⁰ = 0 and λ⁰ = 0.
                let (models, duals) = if self.coupled.is_some() {
                    (kernel::dot(&optimum.x, &optimum.x), kernel::dot(multiplier, multiplier))
                } else {
                    // A_iᵀλ* = ∇f_i(x*), so ‖λ*‖² ≤ Σ‖∇f_i(x*)‖²/λ_2.
                    let squares = gradient_squares(locals, &optimum.x);
                    (agents * kernel::dot(&optimum.x, &optimum.x), squares / connectivity)
                };
                let start = penalty * models + duals / dual_step;
                // Σ D‖x_i − x*‖² ≤ ‖u − u*‖²_G, and the mean of logarithms is at most the logarithm
                // of the root mean square.
                let dim = self.facts.dim as f64;
                let log = |u: f64| 0.5 * libm::log(u / (penalty * agents)) - libm::log(dim);
                ("log_error", envelope.curve(start, rounds).into_iter().map(log).collect())
            }
        };
        let points = values.into_iter().enumerate();
        let kept = points
            .filter(|(k, _)| (*k as u32).is_multiple_of(self.trace_every) || *k as u32 == rounds);
        Some(CertifiedCurve {
            theorem: assessment.rule,
            quantity: quantity.into(),
            points: kept.map(|(k, v)| (k as u32, v)).collect(),
        })
    }
}

/// Σ_i ‖∇f_i(x)‖².
fn gradient_squares(locals: &[LocalObjective], x: &[f64]) -> f64 {
    let (mut work, mut g) = (Workspace::default(), vec![0.0; x.len()]);
    let square = |local: &LocalObjective| {
        local.gradient(x, &mut g, &mut work);
        kernel::dot(&g, &g)
    };
    locals.iter().map(square).sum()
}
