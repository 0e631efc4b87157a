//! What the records would give to somebody who may see them all: the reference that privacy is
//! judged against.
//!
//! The optimum x* of the stated objective is not that: it has the file's μ, weighs agents alike
//! whatever they hold, clips slopes and keeps rows scaled. This model pools all records with equal
//! weight, undoes the scaling of rows where it can, scales columns to unit variance, adds an
//! intercept, and chooses μ on records it did not train on.

use super::check::Experiment;
use crate::data::Records;
use crate::model::Metrics;
use crate::problem::solve::central_optimum;
use crate::problem::{Constraint, LocalObjective, Objective};
use crate::record::Reference;

/// Values of μ that are tried, from strong to none to speak of.
const GRID: [f64; 8] = [1.0, 0.1, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6];

/// Most features that are kept of all records: a larger problem has no reference, for it would take
/// longer than the run.
const MOST: usize = 40_000_000;

/// An intercept so large that its weight is hardly regularised.
const INTERCEPT: f64 = 10.0;

/// The tuned model without privacy, of the records of the first run and judged on its test records.
pub(super) fn reference(experiment: &Experiment, locals: &[LocalObjective]) -> Option<Reference> {
    let mut test = experiment.test_records(0)?;
    // Raw columns are standardised first, as they are on the whole.
    let standardised = experiment.reference(locals);
    let mut unit = 1.0;
    if let Some((standard, _)) = &standardised {
        test = std::borrow::Cow::Owned(experiment.under(standard, &test)?);
        unit = experiment.layout.as_ref()?.label_scale(standard);
    }
    let locals = standardised.as_ref().map_or(locals, |s| std::slice::from_ref(&s.1));
    let loss = experiment.loss_under(standardised.as_ref().map(|s| &s.0[..])).without_clip();
    let records = locals.iter().map(|l| Some(l.mean_loss()?.records()));
    let records: Vec<&Records> = records.collect::<Option<_>>()?;
    let stored: usize = records.iter().map(|r| r.stored()).sum();
    let dim = records.first()?.dim();
    if stored > MOST || dim > 20_000 {
        return None;
    }
    let bias = experiment.unscaled_by();
    let all = Records::joined(&records);
    let scales = scales(&all, bias)?;
    let prepare =
        |records: &Records, rows: &[usize]| records.rescaled(rows, bias, &scales, INTERCEPT);
    // Every fifth record validates; shards are in random or in site order, so each agent gives its
    // share.
    let (held, fit): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(|i| i % 5 == 4);
    if fit.is_empty() || held.is_empty() {
        return None;
    }
    let (fit, held) = (prepare(&all, &fit), prepare(&all, &held));
    let solve = |records: Records, grid: &[f64]| {
        let mut local = LocalObjective::new(Objective { loss, regularization: 0.0 }, records);
        let mut found: Vec<(f64, Vec<f64>)> = Vec::new();
        for &regularization in grid {
            local = local.with_regularization(regularization);
            let start = found.last().map(|f| f.1.as_slice());
            let x = central_optimum(std::slice::from_ref(&local), &Constraint::None, start).x;
            found.push((regularization, x));
        }
        found
    };
    let worth = |x: &[f64]| {
        let metrics = Metrics::of(&loss, &held, x, 0.5);
        metrics
            .and_then(|m| m.log_loss.or(m.rmse).or(m.c_index.map(|c| 1.0 - c)))
            .filter(|v| v.is_finite())
            .unwrap_or(f64::INFINITY)
    };
    let tried = solve(fit, &GRID);
    let best = tried.iter().map(|(mu, x)| (*mu, worth(x))).min_by(|a, b| a.1.total_cmp(&b.1))?.0;
    let every = |records: &Records| prepare(records, &(0..records.len()).collect::<Vec<_>>());
    let (_, x) = solve(every(&all), &[best]).pop()?;
    let test = every(&test);
    if let Some(units) = experiment.log_units(standardised.as_ref().map(|s| &s.0[..])) {
        let scores = crate::problem::scores(&loss, &test, &x);
        return Some(named(best, Metrics::of_logs(&scores, test.labels(), units)?));
    }
    let metrics = Metrics::of(&loss, &test, &x, experiment.threshold)?;
    Some(named(best, metrics.in_units(unit)))
}

/// The reference with the words that go with it.
pub(super) fn named(regularization: f64, metrics: Metrics) -> Reference {
    Reference { regularization, about: ABOUT.into(), metrics }
}

const ABOUT: &str = "all records in one place, every record the same weight, columns scaled to unit variance, \
                     regularization chosen on a fifth of the training records; no privacy";

/// One over the standard deviation of every column, 0 for a column that never changes.
fn scales(records: &Records, bias: Option<u32>) -> Option<Vec<f64>> {
    let (mut sums, mut squares) = (vec![0.0; records.dim()], vec![0.0; records.dim()]);
    for row in 0..records.len() {
        let whole = records.unit_of(row, bias);
        for (column, v) in records.entries(row) {
            let v = v / whole;
            sums[column as usize] += v;
            squares[column as usize] += v * v;
        }
    }
    let rows = records.len() as f64;
    let scale = |(sum, square): (&f64, &f64)| {
        let variance: f64 = square / rows - (sum / rows) * (sum / rows);
        if variance > 1e-12 * (square / rows) { 1.0 / variance.sqrt() } else { 0.0 }
    };
    (rows > 0.0).then(|| sums.iter().zip(&squares).map(scale).collect())
}
