//! What the records would give to somebody who may see them all: the reference that privacy is
//! judged against.
//!
//! The optimum x* of the stated objective is not that: it has the file's μ, weighs agents alike
//! whatever they hold, clips slopes and keeps rows scaled. This model pools all records with equal
//! weight, undoes the scaling of rows where it can, scales columns to unit variance, adds an
//! intercept, and chooses μ on records it did not train on.

use super::check::Experiment;
use crate::config_error::ConfigError;
use crate::data::Records;
use crate::model::Metrics;
use crate::problem::solve::central_optimum;
use crate::problem::{Constraint, LocalObjective, Objective};
use crate::record::Reference;
use std::borrow::Cow;

/// Values of μ that are tried, from strong to none to speak of.
const GRID: [f64; 8] = [1.0, 0.1, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6];

/// About how many numbers the reference is made of at most: of more, every k-th record is taken, for
/// it would take more time and memory than the run, and many fewer would do for a model of so many
/// coefficients.
const MOST: usize = 8_000_000;

/// An intercept so large that its weight is hardly regularised.
const INTERCEPT: f64 = 10.0;

/// The tuned model without privacy, of the records of the first run and judged on its test records.
///
/// # Errors
/// Records that are not in memory, or cannot be divided as asked.
pub(super) fn reference(experiment: &Experiment) -> Result<Option<Reference>, ConfigError> {
    // Without test records there is nothing to judge it on, and no need for another copy of the
    // records.
    Ok(match experiment.test_records(0) {
        Some(test) => tuned(experiment, &some_locals(experiment)?, test),
        None => None,
    })
}

fn tuned(
    experiment: &Experiment,
    locals: &[LocalObjective],
    mut test: Cow<'_, Records>,
) -> Option<Reference> {
    // Raw columns are standardised first, as they are on the whole.
    let standardised = experiment.reference(locals);
    let mut unit = 1.0;
    if let Some((standard, _)) = &standardised {
        test = Cow::Owned(experiment.under(standard, &test)?);
        unit = experiment.layout.as_ref()?.label_scale(standard);
    }
    let locals = standardised.as_ref().map_or(locals, |s| std::slice::from_ref(&s.1));
    let loss = experiment.loss_under(standardised.as_ref().map(|s| &s.0[..])).without_clip();
    let records = locals.iter().map(|l| Some(l.mean_loss()?.records()));
    let records: Vec<&Records> = records.collect::<Option<_>>()?;
    if records.first()?.dim() > 20_000 {
        return None;
    }
    let bias = experiment.unscaled_by();
    let all = match records[..] {
        [all] => Cow::Borrowed(all),
        _ => Cow::Owned(Records::joined(&records)),
    };
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

/// The records of all agents, or every k-th of each where they hold more than [`MOST`] numbers.
fn some_locals(experiment: &Experiment) -> Result<Vec<LocalObjective>, ConfigError> {
    let Some(layout) = &experiment.layout else {
        return Ok(sample(experiment, experiment.locals(0)?, MOST));
    };
    // Rows that are standardised later have one width: those that are left out are never copied.
    let rows: usize = experiment.counts.iter().sum();
    experiment.locals_of_every(0, (rows * (layout.features() + 1)).div_ceil(MOST).max(1))
}

/// The records of all agents, or every k-th of each where they hold more than `most` numbers.
fn sample(
    experiment: &Experiment,
    locals: Vec<LocalObjective>,
    most: usize,
) -> Vec<LocalObjective> {
    let records = || locals.iter().filter_map(|local| Some(local.mean_loss()?.records()));
    let step = records().map(Records::stored).sum::<usize>().div_ceil(most);
    if step <= 1 {
        return locals;
    }
    let some = |records: &Records| {
        let rows: Vec<usize> = (0..records.len()).step_by(step).collect();
        experiment.objective_on(records.select(&rows))
    };
    records().map(some).collect()
}

/// The reference with the words that go with it.
pub(super) fn named(regularization: f64, metrics: Metrics) -> Reference {
    Reference { regularization, about: ABOUT.into(), metrics }
}

const ABOUT: &str = "all records in one place (every k-th where they are more than eight million numbers), \
                     every record the same weight, columns scaled to unit variance, \
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

#[cfg(test)]
mod tests {
    use super::super::{Inputs, Source, spec::ExperimentSpec};
    use super::*;

    #[test]
    fn a_reference_of_too_many_numbers_is_made_of_every_kth_record() {
        let text = "name = \"many\"\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 3\n\
                    records_per_agent = 100\ndim = 8\n[graph]\nkind = \"ring\"\n\
                    [[algorithm]]\nkind = \"dgd\"\nrounds = 2\n";
        let spec: ExperimentSpec = toml::from_str(text).unwrap();
        let source = Source::Synthetic(spec.synthetic().unwrap().unwrap());
        let (file, text) = ("many".into(), text.into());
        let inputs = Inputs { file, text, spec, source, edges: None, entropy: None };
        let experiment = Experiment::check(inputs).unwrap();
        let locals = || experiment.locals(0).unwrap();
        let rows = |locals: &[LocalObjective]| {
            let records = |l: &LocalObjective| l.mean_loss().unwrap().records().clone();
            locals.iter().map(records).collect::<Vec<_>>()
        };
        let (all, whole) = (rows(&locals()), sample(&experiment, locals(), MOST));
        assert_eq!(rows(&whole), all);
        let stored: usize = all.iter().map(Records::stored).sum();
        let some = rows(&sample(&experiment, locals(), stored.div_ceil(7)));
        let every: Vec<usize> = (0..100).step_by(7).collect();
        let expected: Vec<Records> = all.iter().map(|records| records.select(&every)).collect();
        assert_eq!(some, expected);
    }

    #[test]
    fn blocks_that_are_gathered_one_by_one_are_those_that_are_joined() {
        let dense = |from: usize, rows: usize| {
            let mut records = Records::with_capacity(3, rows);
            for row in from..from + rows {
                records.push(&[row as f64, 0.0, 1.0 / (1 + row) as f64], (row % 2) as f64);
            }
            records
        };
        let blocks = [dense(0, 5), dense(5, 8), dense(13, 1)];
        let joined = Records::joined(&blocks.iter().collect::<Vec<_>>());
        assert_eq!(Records::gathered(14, blocks.clone().into_iter()), joined);
        assert_eq!(joined, dense(0, 14));
        let sparse = blocks.map(|block| {
            let mut out = Records::sparse(3);
            (0..block.len()).for_each(|i| out.push(&block.row(i), block.labels()[i]));
            out
        });
        let joined = Records::joined(&sparse.iter().collect::<Vec<_>>());
        assert_eq!(Records::gathered(14, sparse.into_iter()), joined);
    }
}
