//! Algorithm 2: private decentralized gradient descent on a complete graph (docs/paper.md section
//! 2).

use super::schedule::ScheduleShape;
use super::{
    Aggregation, Assessed, Capabilities, Configured, Memory, Needs, Parameters, Parts, Protocol,
    PublicFacts, Schedule, View, settle, table_of,
};
use crate::config_error::ConfigError;
use crate::problem::{Constraint, LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, Certainty, CertifiedBound, TheoremInputs, descent, short};
use serde::{Deserialize, Serialize};

/// Algorithm 2. With (p, q) the two agents farthest apart in l1 and x̄ the mean of all,
///
/// ```text
/// w ~ U(0,1) per coordinate
/// x_i⁺ = (2w/N)·x_p + (2(1−w)/N)·x_q + (1/N) Σ_{j≠p,q} x_j − η·∇f_i(x̄) + Δ_i
/// ```
///
/// so the interval is x̄ ± (x_p − x_q)/N. The fixed twin is the plain mean, w = ½.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GradientDescent {
    /// η_k.
    pub step: Option<Schedule>,
    /// Random weights, or the plain mean.
    #[serde(default)]
    pub aggregation: Aggregation,
}

impl Protocol for GradientDescent {
    fn kind(&self) -> &'static str {
        "gd"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            // The farthest pair takes everybody's row, the plain mean takes the mean.
            needs: match self.aggregation {
                Aggregation::Random => Needs::Rows,
                Aggregation::Fixed => Needs::Mean,
            },
            complete: true,
            common: true,
            intervals: self.aggregation != Aggregation::Fixed,
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
        let common = view.common();
        let agents = (view.degree() + 1) as f64;
        let shrink =
            1.0 - super::dgd::eta(self.step.as_ref(), view.round() + 1) * view.regularization();
        let row =
            |index: usize| view.everyone().nth(index).expect("an agent of the complete graph");
        let (p, q) = (row(common.farthest.0), row(common.farthest.1));
        for (l, mean) in common.mean.iter().enumerate() {
            let (reach, centre) = ((p[l] - q[l]) / agents, shrink * mean);
            low[l] = centre - reach;
            high[l] = centre + reach;
        }
        settle(self.aggregation, low, high);
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
        local.data_gradient(&view.common().mean, step, work);
        let eta = super::dgd::eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }
}

impl Configured for GradientDescent {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.step.get_or_insert_with(|| super::dgd::default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        super::dgd::check_step(self.step.as_ref(), facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }
}

impl Assessed for GradientDescent {
    /// Theorem 4.1 or 4.2, whichever promises more, for the plain mean and a constant step of at
    /// most 1/M; Theorem 3.4 for a step of 1/(c√k) and bounded gradients.
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        let facts = &inputs.facts;
        let (m, smoothness) = (facts.strong_convexity, facts.smoothness);
        let first = super::dgd::eta(self.step.as_ref(), 1);
        let product = first * smoothness;
        match &self.step {
            Some(Schedule::Constant(step))
                if self.aggregation == Aggregation::Fixed
                    && product <= 1.0 + 1e-12
                    && m > 0.0
                    && inputs.constraint == Constraint::None =>
            {
                let (theorem, envelope) =
                    descent::Envelope::theorem_4(inputs, *step).swap_remove(0);
                let floor = envelope.curve(0.0, facts.rounds).last().copied().unwrap_or(0.0);
                Assessment {
                    rate: Some(envelope.factor),
                    promise: Some(format!(
                        "E F(x̄) − F* shrinks by 1 − ηm a round, down to {} at the end",
                        short(floor)
                    )),
                    bound: Some(CertifiedBound::Value(envelope)),
                    ..Assessment::new(
                        Certainty::Certified,
                        theorem,
                        format!("step·M = {} ≤ 1", short(product)),
                    )
                }
            }
            Some(Schedule::Shape(ScheduleShape::InverseSqrt { .. })) => theorem_3_4(inputs, first),
            _ => {
                let nearest = Self {
                    step: Some(Schedule::Constant(1.0 / smoothness)),
                    aggregation: Aggregation::Fixed,
                };
                let why = "Theorem 4.1 needs aggregation = \"fixed\", a constant step ≤ 1/M and m > 0, without a constraint set; \
                           Theorem 3.4 a step of 1/(c√k)";
                Assessment {
                    nearest_certified: Some(table_of(&nearest)),
                    ..super::dgd::open(product, why)
                }
            }
        }
    }

    /// |x_i⁺| ≤ |1 − ημ|·|x̄| + η·G.
    fn message_bound(
        &self,
        round: u32,
        before: f64,
        gradient: f64,
        facts: &PublicFacts,
    ) -> Option<f64> {
        let eta = super::dgd::eta(self.step.as_ref(), round);
        Some((1.0 - eta * facts.strong_convexity).abs() * before + eta * gradient)
    }
}

/// Theorem 3.4 needs ‖∇f‖ ≤ G everywhere a run can go: without a regulariser that is the data
/// term's bound, with one the set must be bounded.
fn theorem_3_4(inputs: &TheoremInputs, first: f64) -> Assessment {
    let (facts, rule) = (&inputs.facts, "Theorem 3.4");
    let radius = inputs.constraint.radius(facts.dim);
    if facts.strong_convexity > 0.0 && radius.is_none() {
        let why = "gradients are unbounded: a regulariser needs a bounded constraint set (objective.constraint), or regularization = 0";
        let rule = format!("{rule}: {why}");
        return Assessment {
            not_certified: Some(rule),
            ..super::dgd::open(first * facts.smoothness, why)
        };
    }
    let gradient = inputs.gradient.l2 + facts.strong_convexity * radius.unwrap_or(0.0);
    // V bounds ‖Δ/η‖ over the rounds.
    let eta = |k: usize| first / ((k + 1) as f64).sqrt();
    let noise = inputs
        .noise
        .iter()
        .enumerate()
        .map(|(k, s)| s * (facts.dim as f64).sqrt() / eta(k))
        .fold(0.0, f64::max);
    let promise = match radius {
        Some(radius) => {
            // Start and optimum both lie in the set.
            let start = 4.0 * radius * radius;
            let bound = descent::theorem_3_4(facts.rounds, 1.0 / first, start, gradient, noise);
            format!("E F of the mean of all mean models is within {} of F*", short(bound))
        }
        None => {
            let drift = descent::theorem_3_4(facts.rounds, 1.0 / first, 0.0, gradient, noise);
            let start = 1.0 / (first * f64::from(facts.rounds).sqrt());
            format!(
                "E F of the mean of all mean models is within {}·‖x*‖² + {} of F*",
                short(start),
                short(drift)
            )
        }
    };
    let inequality = format!("step = 1/(c√k), ‖∇f‖ ≤ G = {}", short(gradient));
    Assessment { promise: Some(promise), ..Assessment::new(Certainty::Certified, rule, inequality) }
}
