//! What noise alone does to a trained weight: public, so that it can be printed beside the weight.

use super::rules::SIGNAL;
use super::training::averaged;
use super::{MethodPart, Recipe, Scouted};
use crate::data::RawColumn;
use crate::problem::Loss;

/// Columns that go together leave less curvature along each of them than one column has by itself.
pub(super) const SHARED_CURVATURE: f64 = 0.5;

impl Scouted {
    /// The standard deviation that the noise of training gives each coefficient, before the last
    /// stage scales them, if looks found gradients of these `lengths`; `None` without noise.
    ///
    /// Where the loss is a parabola a step is linear in the noised gradient, and so is the model. How
    /// far it moves with each is found backwards, from the models that are averaged; noise of
    /// different rounds is independent.
    pub fn noise_deviation(&self, standard: &[f64], lengths: &[f64]) -> Option<Vec<f64>> {
        Some(self.response(standard, lengths, SHARED_CURVATURE)?.noise)
    }

    /// The response where so much of a column's curvature is its own.
    fn response(&self, standard: &[f64], lengths: &[f64], own: f64) -> Option<Response> {
        let (recipe, shape) = (&self.recipe, &self.shape);
        let mu = recipe.request.mu.filter(|_| !self.infers())?;
        let curvatures = recipe.curvatures(standard, own);
        let width = recipe.request.layout.features() + 1;
        let count = (0..shape.steps).filter(|&n| averaged(n, shape.steps)).count() as f64;
        // What the model moves by with an iterate, and with how far the step to it went.
        let (mut place, mut speed) = (vec![0.0; curvatures.len()], vec![0.0; curvatures.len()]);
        let mut variances = vec![0.0; curvatures.len()];
        let mut kept = vec![0.0; curvatures.len()];
        for round in (0..shape.steps).rev() {
            let usual = shape.looked_before(round).and_then(|look| lengths.get(look as usize));
            let usual = usual.copied().filter(|l| *l > 0.0).unwrap_or(1.0);
            let step = recipe.step_of(shape, standard, usual, 1.0);
            let noise =
                recipe.request.change_factor * recipe.r / (mu * shape.training_of(round).sqrt());
            let part = if averaged(round, shape.steps) { 1.0 / count } else { 0.0 };
            for (l, curvature) in curvatures.iter().enumerate() {
                let (eta, ridge) =
                    if l % width == width - 1 { (step.fast, 0.0) } else { (step.slow, step.ridge) };
                let after = (place[l] + part + speed[l]) / (1.0 + eta * ridge);
                variances[l] += (eta * step.clip * noise * after).powi(2);
                kept[l] += if l % width == width - 1 { 0.0 } else { eta * curvature * after };
                place[l] = after * (1.0 - eta * curvature) - speed[l];
                speed[l] = after * step.momentum;
            }
        }
        let noise = variances.into_iter().map(f64::sqrt).collect();
        Some(Response { noise, kept: kept.into_iter().fold(0.0, f64::max) })
    }

    /// Shrinks the weights of a model for numbers by what noise alone makes of its answers, as
    /// calibration does for classes. Weights and noise are both public.
    ///
    /// Scores without noise would be s; those found are κs + e: ridge and time leave κ of them, and
    /// n² = E e² is known, as is their variance v². Of all multiples of them the one nearest to s has
    /// the factor κs²/(κ²s² + n²), and one at most: what the ridge has taken is not given back. What
    /// is found of s² is (v² − n²)/κ², off by √(2/d)·n²/κ² for chance alone, d the columns. Where that
    /// is more than s² is likely to be ([`SIGNAL`], give or take as much) nothing is known of it, and
    /// the ridge has done what can be done: so both are weighed by what they are off by. (A factor
    /// of what is found alone took weights away or left them by chance: at small budgets κ is small.)
    /// Noise is taken to be the least that it can be, that of columns that do not go together.
    pub(super) fn shrink_by_noise(&self, standard: &[f64], tally: &[f64], x: &mut [f64]) {
        let recipe = &self.recipe;
        let numbers = matches!(recipe.request.loss, Loss::Ridge { .. } | Loss::Huber { .. });
        if !numbers || !recipe.request.has(MethodPart::Shrinkage) {
            return;
        }
        let Some(Response { noise, kept }) = self.response(standard, recipe.lengths(tally), 1.0)
        else {
            return;
        };
        let weights = x.len() - 1;
        let n2 = recipe.score_variance(standard, &noise, true);
        let kept2 = (kept * kept).max(1e-100);
        let found = (recipe.score_variance(standard, x, false) - n2) / kept2;
        let columns = recipe.request.layout.effective_dim(standard).max(1.0);
        let unsure = (2.0 / columns).sqrt() * n2 / kept2;
        let known = 1.0 / (1.0 + (unsure / SIGNAL).powi(2));
        let s2 = (known * found + (1.0 - known) * SIGNAL).max(0.0);
        let factor = kept * s2 / (kept2 * s2 + n2);
        x[..weights].iter_mut().for_each(|x| *x *= factor.min(1.0));
    }
}

/// What training makes of noise and of a signal.
struct Response {
    /// The deviation of each coefficient.
    noise: Vec<f64>,
    /// The part of a coefficient that is found, of a column that has its whole curvature.
    kept: f64,
}

impl Recipe {
    /// The variance of the scores of these weights over records as the standard sees them, columns
    /// being independent of each other; or, of `apart` weights, the sum of what each gives alone.
    fn score_variance(&self, standard: &[f64], x: &[f64], apart: bool) -> f64 {
        let layout = &self.request.layout;
        let floor = layout.floor_and_limit(standard).0;
        let (mut weights, mut at, mut total) = (x.iter(), 0, 0.0);
        for column in layout.columns() {
            match *column {
                RawColumn::Number => {
                    total += weights.next().map_or(0.0, |w| w * w);
                    at += 2;
                }
                RawColumn::Levels(levels) => {
                    let shares = &standard[at..at + levels];
                    at += levels;
                    if levels == 2 {
                        let v = 4.0 * shares[1] * (1.0 - shares[1]);
                        total += weights.next().map_or(0.0, |w| w * w * v / (v + floor));
                    } else if levels > 2 {
                        let of = |(p, w): (&f64, &f64)| (*p, w / (p * (1.0 - p) + floor).sqrt());
                        let all: Vec<(f64, f64)> =
                            shares.iter().zip(weights.by_ref()).map(of).collect();
                        let square: f64 = all.iter().map(|(p, a)| p * a * a).sum();
                        let off = if apart {
                            all.iter().map(|(p, a)| (p * a).powi(2)).sum::<f64>()
                        } else {
                            all.iter().map(|(p, a)| p * a).sum::<f64>().powi(2)
                        };
                        total += square - off;
                    }
                }
            }
        }
        total
    }

    /// The curvature along every coefficient, as far as the standard knows it, if columns that go
    /// together leave `own` of it to each.
    fn curvatures(&self, standard: &[f64], own: f64) -> Vec<f64> {
        let layout = &self.request.layout;
        let part = layout.label_part(standard);
        let h = match self.request.loss {
            loss if loss.is_logistic() && !self.request.balanced => part[0] * part[1],
            _ => self.curvature(standard),
        };
        let floor = layout.floor_and_limit(standard).0;
        let (mut one, mut at) = (Vec::with_capacity(layout.features() + 1), 0);
        for column in layout.columns() {
            match *column {
                RawColumn::Number => {
                    one.push(1.0);
                    at += 2;
                }
                RawColumn::Levels(levels) => {
                    let shares = &standard[at..at + levels];
                    let spread = |p: f64, times: f64| {
                        let v = times * p * (1.0 - p);
                        v / (v + floor)
                    };
                    match levels {
                        0 | 1 => {}
                        2 => one.push(spread(shares[1], 4.0)),
                        _ => one.extend(shares.iter().map(|p| spread(*p, 1.0))),
                    }
                    at += levels;
                }
            }
        }
        one.push(1.0);
        let one: Vec<f64> = one.iter().map(|v| own * h * v).collect();
        one.repeat(self.request.loss.outputs())
    }
}
