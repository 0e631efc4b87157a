//! What the user should know of records and a budget before a run.

use super::spec::ExperimentSpec;
use crate::data::{HIGH_CLAMPING, LoadReport};
use crate::protocol::scouted::largest;

/// What deserves a second thought in a budget.
pub(super) fn notes(spec: &ExperimentSpec, records: usize) -> Vec<String> {
    let Some(privacy) = spec.privacy else { return Vec::new() };
    let mut notes = Vec::new();
    if let Some(epsilon) = privacy.epsilon.filter(|&epsilon| epsilon > 10.0) {
        notes.push(format!(
            "privacy.epsilon = {epsilon} promises little: one record may change the odds of what is seen by a factor of e^{epsilon}; \
             1 is a usual choice, 10 a large one"
        ));
    }
    if records > 0 && privacy.delta * records as f64 > 1.0 {
        notes.push(format!(
            "privacy.delta = {} is above 1/b for an agent of b = {records} records: publishing one of them at random would satisfy it; \
             choose a delta well below 1/b",
            privacy.delta
        ));
    }
    notes
}

/// Where all sites count the same, noise of a site's mean grows with 1/b: one small site can bring
/// most of it.
pub(super) fn loudest_site(records: &[usize], weights: Option<&[f64]>) -> Option<String> {
    let weight = |i: usize| weights.map_or(1.0, |w| w[i]);
    let noise: Vec<f64> =
        records.iter().enumerate().map(|(i, &b)| (weight(i) / b as f64).powi(2)).collect();
    let all: f64 = noise.iter().sum();
    let (site, share) = largest(noise.iter().map(|n| n / all));
    let (heavy, heaviest) = largest((0..records.len()).map(|i| weight(i) / records.len() as f64));
    let mut said = Vec::new();
    if records.len() > 2 && heaviest > 0.5 {
        said.push(format!(
            "site {} has {:.0} % of the weight: the model is mostly about its records; weights = \"equal\" under [data] makes all sites count the same, at \
             the price of more noise",
            heavy + 1,
            100.0 * heaviest
        ));
    }
    if records.len() > 2 && share > 0.5 && (weights.is_none() || site != heavy) {
        let why = if weights.is_none() { ", because sites count the same" } else { "" };
        said.push(format!(
            "site {} with its {} records brings {:.0} % of all noise{why}; weights = \"precision\" under [data] lets it count for less",
            site + 1,
            records[site],
            100.0 * share
        ));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// What reading files found that the user should know.
pub(super) fn loading_notes(spec: &ExperimentSpec, report: &LoadReport) -> Vec<String> {
    let mut notes = Vec::new();
    for (column, count) in &report.clamped {
        let share = *count as f64 / (report.rows as f64).max(1.0);
        let much = match share > HIGH_CLAMPING {
            true => {
                format!(
                    " ({:.0} % of them): widen the range, if a wider one is public",
                    100.0 * share
                )
            }
            false => String::new(),
        };
        let (values, were) = if *count == 1 { ("value", "was") } else { ("values", "were") };
        notes.push(format!(
            "{count} {values} of column \"{column}\" {were} outside its declared range and clamped{much}"
        ));
    }
    for (column, count) in &report.inexact {
        let integers = if *count == 1 { "integer" } else { "integers" };
        notes.push(format!(
            "column \"{column}\" holds {count} {integers} beyond 2^53, which a number cannot tell apart; is it an identifier?"
        ));
    }
    if spec.data.path.is_some() {
        notes.extend(missing_notes(report));
    }
    notes
}

/// What became of records with missing values.
pub(super) fn missing_notes(report: &LoadReport) -> Vec<String> {
    let mut notes = Vec::new();
    if report.dropped_missing > 0 {
        let (dropped, all) = (report.dropped_missing, report.rows + report.dropped_missing);
        let (miss, were) = if dropped == 1 { ("misses", "was") } else { ("miss", "were") };
        notes.push(format!(
            "{dropped} of {all} records {miss} a value and {were} dropped; `missing` in the schema can keep such records"
        ));
    }
    for (column, &count) in &report.imputed {
        let (values, were) = if count == 1 { ("value", "was") } else { ("values", "were") };
        notes.push(format!(
            "{count} missing {values} of column \"{column}\" {were} filled in as the schema says"
        ));
    }
    if report.dropped_person > 0 {
        let dropped = report.dropped_person;
        notes.push(format!(
            "{dropped} records were beyond what the schema allows one person and were dropped"
        ));
    }
    notes
}
