//! Personal models (`models = "personal"`): what each site adds to the shared model, for itself.
//!
//! A mixed-effects model. Site i's own best coefficients are x_i = x* + u_i, with u_i drawn around
//! 0 between sites, and the shared model is x = x* + e with the error e that its noise leaves. So
//! x_i lies around x with variance σ² = Var u + Var e in each coefficient, and what a site's own b
//! records say on top is the most likely x_i,
//!
//! ```text
//! argmin  Σ_j φ(x_i; record j) + ½ Σ_l (x_il − x_l)²/σ_l²
//! ```
//!
//! The penalty comes from public numbers alone. With τ² = 0.49/d_eff, the prior variance of a
//! coefficient that training is planned for, and ν its noise ([`scouted`](crate::protocol)), Var
//! e = 1/(1/τ² + h²/ν²), what Wiener's filter leaves; between sites coefficients vary by a tenth of
//! τ², and intercepts by 0.5², the usual size of random effects of sites. A site with few records,
//! or a shared model with little noise, so stays close to the shared model; a large site under much
//! noise finds its own.
//!
//! **Privacy.** x is a function of releases. x_i is a function of x and of site i's records,
//! exactly and without noise: it never leaves the site, nothing that does is computed from it, and
//! so nothing is charged. It is as private as the records.

use super::check::{Experiment, Source};
use super::planned::Planned;
use super::run::Instance;
use super::scouted::split;
use super::spec::PartitionSpec;
use crate::data::Records;
use crate::model::{Metrics, Model};
use crate::problem::solve::{Proximal, proximal_step};
use crate::problem::{self, Constraint, LocalObjective, Objective, Workspace};
use rayon::prelude::*;

/// How well own records are solved for: far below what any record moves.
const TOLERANCE: f64 = 1e-9;

/// The personal model of a site with these standardised records, around the shared coefficients
/// `x`; `deviation` is σ of a coefficient and of an intercept.
fn fit(objective: Objective, records: &Records, x: &[f64], deviation: (f64, f64)) -> Vec<f64> {
    let features = records.dim();
    if records.is_empty() {
        return x.to_vec();
    }
    let sigma = |l: usize| if l % features == features - 1 { deviation.1 } else { deviation.0 };
    // In units of σ the penalty is the same everywhere. Rescaled rows have one more feature, which
    // stays empty.
    let all: Vec<usize> = (0..records.len()).collect();
    let scaled = records.rescaled(&all, None, &(0..features).map(sigma).collect::<Vec<_>>(), 0.0);
    let local = LocalObjective::new(Objective { regularization: 0.0, ..objective }, scaled);
    let mut centre = Vec::with_capacity(x.len() + x.len() / features);
    for block in x.chunks_exact(features) {
        centre.extend(block.iter().enumerate().map(|(l, x)| x / sigma(l)));
        centre.push(0.0);
    }
    let weight = 1.0 / records.len() as f64;
    let mut found = centre.clone();
    let proximal = Proximal { centre: &centre, weight };
    proximal_step(
        &local,
        proximal,
        &Constraint::None,
        &mut found,
        TOLERANCE,
        &mut Workspace::default(),
    );
    let own = found.chunks_exact(features + 1).flat_map(|block| &block[..features]);
    let back: Vec<f64> = own.enumerate().map(|(l, x)| x * sigma(l)).collect();
    if back.iter().all(|x| x.is_finite()) { back } else { x.to_vec() }
}

/// What sites' own models are worth on records that those sites held out: of the shared model, and
/// of each site's own.
pub(super) struct HeldOutScores {
    pub(super) sites: usize,
    pub(super) shared: Metrics,
    pub(super) personal: Metrics,
}

/// Judges the models of one run; `None` where nobody asked for personal ones, or no held-out record
/// says whose it is.
pub(super) fn judge(
    experiment: &Experiment,
    planned: &Planned,
    instance: &Instance,
    model: &[f64],
) -> Option<HeldOutScores> {
    if !experiment.spec.models.is_personal() {
        return None;
    }
    let (layout, scouted) = (experiment.layout.as_ref()?, planned.scouted.as_ref()?);
    let (standard, x) = split(planned, model)?;
    let Source::Data(data) = &*experiment.source else { return None };
    let whose = data
        .test_groupings
        .iter()
        .find(|g| g.column == experiment.grouping().unwrap_or_default())?;
    let names = experiment.agent_names();
    let agents: Vec<Option<usize>> =
        whose.names.iter().map(|name| names.iter().position(|n| n == name)).collect();
    // Held-out records of a group that trains nothing have the shared model.
    let agent_of = |row: usize| agents[whose.codes[row] as usize];
    let test = experiment.test_records(instance.run)?;
    let test = layout.encode(standard, &test);
    let loss = experiment.loss_under(Some(standard));
    let objective = Objective { loss, ..experiment.objective };
    let deviation = scouted.personal_deviation(standard);
    let own: Vec<Vec<f64>> = instance
        .locals
        .par_iter()
        .filter_map(LocalObjective::mean_loss)
        .map(|local| fit(objective, &layout.encode(standard, local.records()), x, deviation))
        .collect();
    let unit = layout.label_scale(standard);
    let outputs = loss.outputs();
    let shared = problem::scores(&loss, &test, x);
    let mut scores = shared.clone();
    for (site, own) in own.iter().enumerate() {
        let theirs = problem::scores(&loss, &test, own);
        for row in (0..test.len()).filter(|&row| agent_of(row) == Some(site)) {
            scores[row * outputs..][..outputs].copy_from_slice(&theirs[row * outputs..][..outputs]);
        }
    }
    let figures = |scores: &[f64]| {
        if let Some(units) = experiment.log_units(Some(standard)) {
            return Metrics::of_logs(scores, test.labels(), units);
        }
        let metrics = Metrics::of_scores(&loss, scores, test.labels(), experiment.threshold)?;
        Some(
            metrics
                .by_site(&loss, scores, test.labels(), experiment.threshold, &whose.codes)
                .in_units(unit),
        )
    };
    let sites =
        (0..test.len()).filter_map(agent_of).collect::<std::collections::BTreeSet<_>>().len();
    Some(HeldOutScores { sites, shared: figures(&shared)?, personal: figures(&scores)? })
}

impl Experiment {
    /// What agents are divided by, if they are groups of records: the column, or `file`.
    fn grouping(&self) -> Option<&str> {
        match &self.spec.data.partition {
            Some(PartitionSpec::By(column)) => Some(column),
            None if self.spec.data.agents.is_none() => Some(crate::data::FILE),
            _ => None,
        }
    }

    /// The personal model of agent `agent` of a network, as a model file, and what it is worth on
    /// test records: for that site alone, never to be shared. `None` unless the study says
    /// `models = "personal"`.
    #[must_use]
    pub fn personal_model(&self, agent: usize, shared: &[f64]) -> Option<(Model, Option<Metrics>)> {
        let [planned] = &self.planned[..] else { return None };
        if !self.spec.models.is_personal() {
            return None;
        }
        let (layout, scouted) = (self.layout.as_ref()?, planned.scouted.as_ref()?);
        let (standard, x) = split(planned, shared)?;
        let objective = Objective { loss: self.loss_under(Some(standard)), ..self.objective };
        let records = layout.encode(standard, self.local(agent).ok()?.mean_loss()?.records());
        let own = fit(objective, &records, x, scouted.personal_deviation(standard));
        let held = [standard, &own[..]].concat();
        let mut model = self.site_model(&held, None);
        model.notes.push(
            "a personal model: an exact function of this site's records, which no claim covers. It must not leave the site.".into(),
        );
        let metrics = self.metrics(0, &held);
        Some((model, metrics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Loss;

    fn records(offset: f64, count: usize) -> Records {
        let mut records = Records::with_capacity(2, count);
        for k in 0..count {
            let z = (k as f64 * 0.7).sin();
            let label = if z + offset + 0.8 * (k as f64 * 1.3).cos() > 0.0 { 1.0 } else { -1.0 };
            records.push(&[z, 1.0], label);
        }
        records
    }

    const LOGISTIC: Objective = Objective { loss: Loss::Logistic, regularization: 0.1 };

    /// The gradient of the penalised sum vanishes at the personal model, for every scale of the
    /// penalty.
    #[test]
    fn a_personal_model_is_the_most_likely_one() {
        let (records, shared) = (records(0.6, 40), [1.2, -0.3]);
        for deviation in [(0.3, 0.5), (1e-3, 0.5), (2.0, 0.05)] {
            let own = fit(LOGISTIC, &records, &shared, deviation);
            let mut sum = [0.0; 2];
            for row in 0..records.len() {
                let z: Vec<f64> = records.row(row);
                let label = records.labels()[row];
                let slope = -label / (1.0 + (label * (z[0] * own[0] + z[1] * own[1])).exp());
                sum.iter_mut().zip(&z).for_each(|(s, z)| *s += slope * z);
            }
            for (l, sigma) in [deviation.0, deviation.1].into_iter().enumerate() {
                let whole = sum[l] + (own[l] - shared[l]) / (sigma * sigma);
                assert!(whole.abs() < 1e-5 / (sigma * sigma), "{deviation:?} {l} {whole}");
            }
        }
    }

    /// With few records or a narrow prior a site keeps the shared model; with many it finds its
    /// own.
    #[test]
    fn sites_shrink_towards_the_shared_model() {
        let shared = [1.0, 0.0];
        let moved = |count, sigma| {
            (fit(LOGISTIC, &records(1.0, count), &shared, (0.1, sigma))[1] - shared[1]).abs()
        };
        assert!(moved(5, 0.5) < moved(50, 0.5) && moved(50, 0.5) < moved(2000, 0.5));
        assert!(moved(50, 0.01) < 0.01);
        assert_eq!(fit(LOGISTIC, &Records::with_capacity(2, 0), &shared, (0.1, 0.5)), shared);
    }
}
