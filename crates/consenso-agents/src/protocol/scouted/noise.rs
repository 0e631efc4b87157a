//! What noise alone does to a trained weight: public, so that it can be printed beside the weight.

use super::training::averaged;
use super::{Recipe, Scouted, ScoutingTimetable, State};
use crate::data::RawColumn;
use crate::problem::Loss;

/// Columns that go together leave less curvature along each of them than one column has by itself.
pub(super) const SHARED_CURVATURE: f64 = 0.5;

impl Scouted {
    /// The standard deviation that the noise of training gives each coefficient, before the last
    /// stage scales them; `None` without noise.
    ///
    /// Steps are linear in the noised gradients where the loss is a parabola, and every step is the
    /// same. So training is played once with a gradient that is off by one in its first round; an
    /// error of a later round has the same course, later. What the mean model moves by, times the
    /// noise of the round, is that round's part, and parts are independent.
    pub fn noise_deviation(&self, standard: &[f64]) -> Option<Vec<f64>> {
        self.noise_under(standard, SHARED_CURVATURE)
    }

    /// The noise where so much of a column's curvature is its own.
    fn noise_under(&self, standard: &[f64], own: f64) -> Option<Vec<f64>> {
        let recipe = &self.recipe;
        let mu = recipe.request.mu.filter(|_| !self.infers())?;
        let length = recipe.coefficients();
        let courses = recipe.courses(&self.shape, standard, own);
        let steps = self.shape.steps;
        let first = (0..steps).find(|&n| averaged(n, steps)).unwrap_or(steps);
        let count = f64::from(steps - first);
        // What an error moves all models of the first so many rounds by, together.
        let up_to = |rounds: u32, l: usize| courses[rounds as usize * length + l];
        let mut variances = vec![0.0; length];
        for round in 0..steps {
            let share = self.shape.training_of(round);
            let noise = recipe.request.change_factor * recipe.r / (mu * share.sqrt());
            for (l, variance) in variances.iter_mut().enumerate() {
                let all = up_to(steps - round, l);
                let before = up_to(first.saturating_sub(round), l);
                *variance += ((all - before) / count * noise).powi(2);
            }
        }
        Some(variances.into_iter().map(f64::sqrt).collect())
    }

    /// Shrinks the weights of a model for numbers by what noise alone makes of its answers, as
    /// calibration does for classes: to nothing where they are no longer than their noise, for the
    /// model would be worse than the mean. Weights and noise are both public.
    ///
    /// Scores without noise would be s; those found are κs + e: the ridge leaves κ = h/(h + ρ) of
    /// them, and n² = E e² is known, as is their variance v² = κ²s² + n². Of all multiples of them
    /// the one nearest to s has the factor κs²/(κ²s² + n²) = (1 − n²/v²)/κ (James and Stein's),
    /// and one at most: what the ridge has taken is not given back. Noise is taken to be the least
    /// that it can be, that of columns that do not go together.
    pub(super) fn shrink_by_noise(&self, standard: &[f64], x: &mut [f64]) {
        let recipe = &self.recipe;
        if !matches!(recipe.request.loss, Loss::Ridge { .. } | Loss::Huber { .. }) {
            return;
        }
        let (Some(mu), Some(noise)) = (recipe.request.mu, self.noise_deviation(standard)) else {
            return;
        };
        let weights = x.len() - 1;
        let square = |v: &[f64]| v[..weights].iter().map(|v| v * v).sum::<f64>();
        if square(x) <= square(&noise) {
            return x[..weights].fill(0.0);
        }
        let Some(least) = self.noise_under(standard, 1.0) else { return };
        let h = recipe.curvature(standard);
        let kept = h / (h + recipe.ridge(self.shape.training(), standard, mu));
        let all = recipe.score_variance(standard, x, false);
        let signal = 1.0 - recipe.score_variance(standard, &least, true) / all;
        let factor = (signal / kept).clamp(0.0, 1.0);
        x[..weights].iter_mut().for_each(|x| *x *= factor);
    }
}

impl Recipe {
    /// What an error of one in every coordinate of the first gradient moves the model by, added up
    /// over the first 0, 1, … rounds: a row of coefficients for each.
    fn courses(&self, shape: &ScoutingTimetable, standard: &[f64], own: f64) -> Vec<f64> {
        let length = self.coefficients();
        let curvatures = self.curvatures(standard, own);
        let mut start = vec![0.0; length];
        self.start(standard, &mut start);
        let unit = self.longest(standard);
        // So small that nobody takes it for a step that went too far.
        const OFF: f64 = 1e-6;
        let mut memory = vec![0.0; 5 * length + self.tally()];
        let (x, rest) = memory.split_at_mut(length);
        let (mean, rest) = rest.split_at_mut(length);
        let (gradient, rest) = rest.split_at_mut(length);
        let (velocity, rest) = rest.split_at_mut(length);
        let (before, tally) = rest.split_at_mut(length);
        x.copy_from_slice(&start);
        let mut state = State {
            partial: &mut [],
            total: &mut [],
            standard: &mut [],
            x,
            mean,
            tally,
            velocity,
            before,
            widths: &mut [],
            gradient: &mut [],
            curvature: &mut [],
            moment: &mut [],
            between: &mut [],
            compared: &mut [],
        };
        let mut courses = vec![0.0; length];
        for number in 0..shape.steps {
            let off = if number == 0 { OFF } else { 0.0 };
            let pulls = state.x.iter().zip(&start).zip(&curvatures);
            for (gradient, ((x, start), curvature)) in gradient.iter_mut().zip(pulls) {
                *gradient = curvature * (x - start) / unit + off;
            }
            self.descend(shape, number, standard, gradient, &mut state);
            let last = courses.len() - length;
            for l in 0..length {
                courses.push(courses[last + l] + (state.x[l] - start[l]) / OFF);
            }
        }
        courses
    }

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
