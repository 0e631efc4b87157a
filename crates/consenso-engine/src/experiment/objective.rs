//! What is minimised, by a file: the loss with its class weights, clips that are left open, and how
//! much each site counts.

use super::check::Source;
use super::problem::CoupledProblem;
use super::scouted;
use super::spec::{ClassWeight, ExperimentSpec, Threshold};
use crate::config_error::ConfigError;
use crate::data::{Kind, RowBounds, Task};
use crate::privacy::gdp;
use crate::problem::loss::balanced_weights;
use crate::problem::weights::SiteWeight;
use crate::problem::{Loss, Objective};
use crate::protocol::PublicFacts;

pub(super) fn objective(spec: &ExperimentSpec, task: Task) -> Result<Objective, ConfigError> {
    let o = &spec.objective;
    if !(o.regularization >= 0.0 && o.regularization.is_finite()) {
        return Err(ConfigError::at(
            "regularization",
            format!("{} must be a number ≥ 0", o.regularization),
        ));
    }
    if let Some(problem) = o.constraint.problem() {
        return Err(ConfigError::at("constraint", problem));
    }
    let loss = Loss::named(o.loss, task, &o.loss_options())?;
    check_cuts(spec, loss, task)?;
    Ok(Objective { loss, regularization: o.regularization })
}

/// Refuses ends of intervals that are no such.
fn check_cuts(spec: &ExperimentSpec, loss: Loss, task: Task) -> Result<(), ConfigError> {
    let o = &spec.objective;
    let hazards = matches!(loss, Loss::Hazards { .. });
    for (key, said) in [("cuts", o.cuts.is_some()), ("intervals", o.intervals.is_some())] {
        if said && !hazards {
            return Err(ConfigError::at(key, format!("{key} is for loss = \"hazards\"")));
        }
    }
    let (Some(cuts), Task::Regression { max, .. }) = (&o.cuts, task) else { return Ok(()) };
    if o.intervals.is_some_and(|intervals| intervals != cuts.len()) {
        return Err(ConfigError::at("intervals", "cuts says how many there are: leave one out"));
    }
    let ordered = cuts.windows(2).all(|c| c[0] < c[1]);
    if !ordered || cuts.first().is_none_or(|c| *c <= 0.0) || cuts.last().is_some_and(|c| *c > max) {
        return Err(ConfigError::at(
            "cuts",
            format!(
                "must be the ends of intervals, increasing, above 0 and at most {max}, the longest time"
            ),
        ));
    }
    Ok(())
}

/// The declared shares of the two classes of the label, negative and positive.
pub(super) fn public_shares(source: &Source) -> Option<[f64; 2]> {
    let Source::Data(data) = source else { return None };
    let label = data.schema.columns().iter().find(|c| matches!(c.kind, Kind::Label(_)))?;
    label.known.prevalence.as_deref()?.try_into().ok()
}

/// Applies the class weights of the file to a loss, and says which threshold is asked for and
/// whether weights wait for shares that are estimated.
pub(super) fn judge(
    spec: &ExperimentSpec,
    loss: &mut Loss,
    shares: Option<[f64; 2]>,
) -> Result<(f64, bool), ConfigError> {
    let (weight, threshold) = (spec.objective.class_weight, spec.objective.threshold);
    let weigh = |loss: &mut Loss, weights| {
        *loss = loss.with_class_weights(weights).unwrap_or(*loss);
    };
    let mut estimated = false;
    match (weight, shares) {
        (None, _) => {}
        (Some(ClassWeight::Given([negative, positive])), _) => {
            if ![negative, positive].iter().all(|w| (1e-3..=1e3).contains(w)) {
                return Err(ConfigError::at(
                    "class_weight",
                    "weights must lie between 0.001 and 1000",
                ));
            }
            weigh(loss, [negative, positive]);
        }
        (Some(ClassWeight::Rule(_)), Some([negative, positive]))
            if negative > 0.0 && positive > 0.0 =>
        {
            weigh(loss, balanced_weights(negative, positive));
        }
        // Without public shares columns are scouted, which estimates them within the budget.
        (Some(ClassWeight::Rule(_)), _) => estimated = true,
    }
    let threshold = match (threshold, shares) {
        (None, _) => 0.5,
        (Some(Threshold::At(t)), _) if t > 0.0 && t < 1.0 => t,
        (Some(Threshold::At(t)), _) => {
            return Err(ConfigError::at(
                "threshold",
                format!("{t} must be a probability between 0 and 1, for example 0.5"),
            ));
        }
        (Some(Threshold::Rule(_)), shares) => shares.map_or(0.5, |[_, positive]| positive),
    };
    Ok((threshold, estimated))
}

/// The clip of a logistic slope that was left open under a budget: ½ if, without it, the budget
/// would not pay for the steps a gradient method needs to converge. It halves the noise, and the
/// bias costs less than that is worth.
pub(super) fn open_clip(
    spec: &ExperimentSpec,
    objective: &Objective,
    bounds: &RowBounds,
    facts: &PublicFacts,
) -> Option<f64> {
    let privacy =
        spec.privacy.filter(|_| objective.loss.is_logistic() && spec.objective.clip.is_none())?;
    let one = SiteWeight { records: facts.records, weight: 1.0 };
    let budget = budget_per_sensitivity(&privacy, objective, bounds, std::iter::once(one))?;
    let scarce = PublicFacts { budget: Some(budget), ..*facts }.worthwhile(f64::INFINITY)
        < crate::protocol::ENOUGH_STEPS;
    scarce.then_some(0.5)
}

/// μ/B₂ of a budget, if there is one: of a mean of several agents, with B₂ the root of the mean of
/// their squares, for noise adds up so.
pub(super) fn budget_per_sensitivity(
    privacy: &super::PrivacySpec,
    objective: &Objective,
    bounds: &RowBounds,
    site_weights: impl Iterator<Item = SiteWeight>,
) -> Option<f64> {
    let all: Vec<f64> = site_weights
        .map(|site_weight| objective.sensitivity_of(bounds, site_weight, privacy.neighbours).l2)
        .collect();
    let gradient = match &all[..] {
        [one] => *one,
        all => (all.iter().map(|b| b * b).sum::<f64>() / all.len() as f64).sqrt(),
    };
    Some(gdp::mu_for(privacy.epsilon?, privacy.delta).ok()? / gradient)
}

/// N·w_i of every agent, by run; empty where all agents count the same.
pub(super) fn site_weights(
    spec: &ExperimentSpec,
    counts: &[Vec<usize>],
    features: usize,
) -> Result<Vec<Vec<f64>>, ConfigError> {
    if spec.data.weights.is_open() {
        return Ok(Vec::new());
    }
    // Noise of variance factor²·D/(μb)² in a gradient's D numbers against a sampling variance of
    // 1/b: both are equal at c records.
    let mu =
        spec.privacy.and_then(|p| Some((gdp::mu_for(p.epsilon?, p.delta).ok()?, p.neighbours)));
    let even = mu.map_or(0.0, |(mu, neighbours)| {
        let factor = scouted::change_factor(neighbours);
        factor * factor * features as f64 / (mu * mu)
    });
    let all: Vec<Vec<f64>> = counts
        .iter()
        .map(|records| spec.data.weights.multiples(records, even))
        .collect::<Result<_, _>>()?;
    Ok(if all.iter().flatten().all(|&w| w == 1.0) { Vec::new() } else { all })
}

/// The linear constraint of `[problem]`, if there is one.
pub(super) fn tie(
    spec: &ExperimentSpec,
    agents: usize,
    dim: usize,
) -> Result<Option<CoupledProblem>, ConfigError> {
    let Some(problem) = &spec.problem else { return Ok(None) };
    problem.tie(agents, dim, spec.privacy.is_some()).map(Some)
}
