//! PrivSGP-VR: push-sum whose samples are corrected by what every record said when it was drawn last
//! (Zhu, Huang, Wang and Xu, 2024).

use super::push_sum::like_push_sum;
use super::{
    Assessed, Capabilities, Configured, Memory, Parameters, Partial, Parts, Protocol, PublicFacts,
    PushSum, Remembering, Schedule, View, dgd, table_of,
};
use crate::config_error::ConfigError;
use crate::graph::Graph;
use crate::problem::{Drawn, LocalObjective, Sensitivity, Workspace};
use crate::theory::{Assessment, TheoremInputs};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// v = (1/qb) Σ_{r∈S} (∇f_r(z) − φ_r) + (1/b) Σ_r φ_r, then φ_r = ∇f_r(z) for r ∈ S: the step of
/// [`PushSum`] with v in place of the gradient.
///
/// S is a secret sample that every record is in with probability q = `batch`, and φ a table of the
/// last gradient of every record, all of them at the start in the first round. Both parts of v come
/// together at the optimum, so that what is left of drawing vanishes there. Without `batch` v is the
/// gradient, and this is push-sum.
///
/// One record moves a message by 2ηL·R/b in every round, through the table, and by 2ηL·R/(qb) more in
/// those that draw it, for a slope of one sign changes by no more than it can be. That the two
/// together cost no more than a Gaussian and a sampled release is proved in
/// [`sampled`](crate::privacy::sampled); the noise must be Gaussian.
///
/// Its authors draw one record a round, by what is known of it from their abstract, which is all that
/// was read.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivSgpVr {
    /// η_k.
    pub step: Option<Schedule>,
    /// b.
    #[serde(skip)]
    records: usize,
}

impl PrivSgpVr {
    /// Steps, for an agent of so many records.
    #[must_use]
    pub fn new(step: Schedule, records: usize) -> Self {
        Self { step: Some(step), records }
    }

    fn descent(&self) -> PushSum {
        PushSum { step: self.step.clone() }
    }

    /// Writes v, and keeps what the drawn records say.
    ///
    /// The table is added up anew in every round: its sum is then rounded as that of a gradient is,
    /// which the sensitivity counts.
    fn corrected(
        &self,
        (local, drawn): (&LocalObjective, &Drawn<'_>),
        (first, z): (bool, &[f64]),
        private: &mut [f64],
        work: &mut Workspace,
        v: &mut [f64],
    ) {
        let one = |of: &LocalObjective, row: usize, out: &mut [f64], work: &mut Workspace| {
            let record = of.of_some(&[row], 1.0).expect("a sample was drawn from these");
            record.data_gradient(z, out, work);
        };
        let (dim, records) = (v.len(), drawn.whole.site_weight().records);
        let (table, rest) = private.split_at_mut(records * dim);
        let now = &mut rest[..dim];
        if first {
            for (row, last) in table.chunks_exact_mut(dim).enumerate() {
                one(&drawn.whole, row, last, work);
            }
        }
        v.fill(0.0);
        for last in table.chunks_exact(dim) {
            v.iter_mut().zip(last).for_each(|(v, last)| *v += last);
        }
        v.iter_mut().for_each(|v| *v /= records as f64);
        for (place, &row) in drawn.rows.iter().enumerate() {
            one(local, place, now, work);
            let last = &mut table[row * dim..][..dim];
            for ((v, last), now) in v.iter_mut().zip(last).zip(&*now) {
                *v += (now - *last) / drawn.divisor;
                *last = *now;
            }
        }
    }
}

impl Protocol for PrivSgpVr {
    fn kind(&self) -> &'static str {
        "privsgp-vr"
    }

    fn capabilities(&self) -> Capabilities {
        self.descent().capabilities()
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            remembering: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    like_push_sum!(messages);
    like_push_sum!(mixing);

    /// φ, and room for a gradient.
    fn private_memory(&self) -> usize {
        self.records + 1
    }

    fn step_sensitivity(
        &self,
        round: u32,
        degree: usize,
        gradient: &Sensitivity,
        facts: &PublicFacts,
    ) -> Sensitivity {
        self.descent().step_sensitivity(round, degree, gradient, facts)
    }

    fn step(
        &self,
        view: &View<'_>,
        memory: Memory<'_>,
        _: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        let (_, _, z) = PushSum::state(view, memory.public);
        match local.drawn() {
            None => local.data_gradient(z, step, work),
            Some(drawn) => {
                let at = (view.round() == 0, z);
                self.corrected((local, &drawn), at, memory.private, work, step);
            }
        }
        let eta = dgd::eta(self.step.as_ref(), view.round() + 1);
        step.iter_mut().for_each(|s| *s *= -eta);
    }
}

impl Configured for PrivSgpVr {
    fn resolve(&mut self, facts: &PublicFacts) {
        self.records = facts.records;
        self.step.get_or_insert_with(|| dgd::default_step(facts));
    }

    fn check(&self, facts: &PublicFacts) -> Result<Option<String>, ConfigError> {
        self.descent().check(facts)
    }

    fn parameters(&self) -> Parameters {
        table_of(self)
    }

    /// With room for this agent's records.
    fn of_agent(&self, agent: usize, _: &Graph, records: &[usize]) -> Option<Arc<dyn Protocol>> {
        Some(Arc::new(Self { records: *records.get(agent)?, ..self.clone() }))
    }
}

impl Assessed for PrivSgpVr {
    fn assess(&self, inputs: &TheoremInputs) -> Assessment {
        self.descent().assess(inputs)
    }
}

impl Partial for PrivSgpVr {
    like_push_sum!(active);
}

impl Remembering for PrivSgpVr {
    fn undrawn(&self, round: u32, gradient: &Sensitivity) -> f64 {
        dgd::eta(self.step.as_ref(), round) * gradient.l2
    }
}
