//! The second stage: steps along noised sums of clipped gradients.

use super::rules::{AVERAGED, LEAST_LEFT, LONGEST_STEP, SHORTEST_TIME};
use super::{MethodPart, Recipe, ScoutingTimetable, State};
use crate::data::RawLayout;
use crate::kernel;
use crate::problem::Loss;
use crate::problem::loss::balanced_weights;

/// The shortest and the longest clip, in usual gradients at the start.
const SHORTEST_CLIP: f64 = 0.4;
const LONGEST_CLIP: f64 = 64.0;
/// The most that a step keeps of the one before, in few rounds.
const MOST_MOMENTUM: f64 = 0.95;

/// Lengths of slopes.
pub(super) struct StartSlopes {
    /// Their root mean square, and the longest of them over it: the slopes of the rarest class.
    usual: f64,
    longest: f64,
    /// The part of all their squares that one class has at most.
    pub(super) of_one_class: f64,
}

/// How a step is made.
pub(super) struct Step {
    /// What a unit of the released sums stands for.
    pub(super) clip: f64,
    pub(super) ridge: f64,
    pub(super) momentum: f64,
    /// How long it is, and how long it is for intercepts.
    pub(super) slow: f64,
    pub(super) fast: f64,
}

impl Recipe {
    /// The model before the first step: the class shares alone.
    pub(super) fn start(&self, standard: &[f64], x: &mut [f64]) {
        let part = self.request.layout.label_part(standard);
        let width = self.request.layout.features() + 1;
        x.fill(0.0);
        if let Some(offset) = self.request.layout.offset_feature() {
            x[offset] = 1.0;
        }
        match self.request.loss {
            Loss::Hazards { .. } => {
                let rate = libm::log(part[part.len() - 1]);
                x.chunks_exact_mut(width).for_each(|block| block[width - 1] = rate);
            }
            Loss::Ordinal { .. } => {
                let mut above: f64 = part.iter().sum();
                for (block, share) in x.chunks_exact_mut(width).zip(part) {
                    above -= share;
                    block[width - 1] = libm::log(above / (1.0 - above));
                }
            }
            Loss::Softmax { .. } => {
                for (x, share) in x.chunks_exact_mut(width).zip(part) {
                    x[width - 1] = libm::log(*share);
                }
            }
            loss if loss.is_logistic() => {
                let loss = self.loss(standard);
                x[width - 1] =
                    libm::log(loss.weight(1.0) * part[1] / (loss.weight(-1.0) * part[0]));
            }
            loss if loss.has_probabilities() => x[width - 1] = loss.margin_of(part[1]),
            loss => {
                if let Some((mean, _)) = self.label_moments(standard) {
                    x[width - 1] = loss.margin_of(mean);
                }
            }
        }
    }

    /// Mean and deviation of labels that stay as they are.
    pub(super) fn label_moments(&self, standard: &[f64]) -> Option<(f64, f64)> {
        let layout = &self.request.layout;
        layout.label_moments(standard).filter(|_| layout.keeps_labels())
    }

    /// The loss of a run that found this standard.
    pub(super) fn loss(&self, standard: &[f64]) -> Loss {
        loss_under(&self.request.layout, self.request.loss, self.request.balanced, standard)
    }

    /// G; infinite without noise.
    pub(super) fn clip(&self, standard: &[f64]) -> f64 {
        if self.request.mu.is_none() {
            return f64::INFINITY;
        }
        self.clip_share(standard) * self.usual_gradient(standard)
    }

    /// How long a usual gradient is at the start.
    pub(super) fn usual_gradient(&self, standard: &[f64]) -> f64 {
        let usual = self.start_slopes(standard).usual;
        let dim = self.request.layout.effective_dim(standard);
        usual * (dim + 1.0).sqrt() * self.person_length()
    }

    /// Records' slopes at the start, before they are weighted.
    pub(super) fn start_slopes(&self, standard: &[f64]) -> StartSlopes {
        let part = self.request.layout.label_part(standard);
        // Of classes with these shares and squared slopes.
        let of = |classes: &[(f64, f64)]| {
            let square: f64 = classes.iter().map(|(share, square)| share * square).sum();
            let square = square.max(f64::MIN_POSITIVE);
            let largest =
                |of: &dyn Fn(&(f64, f64)) -> f64| classes.iter().map(of).fold(0.0, f64::max);
            StartSlopes {
                usual: square.sqrt(),
                longest: (largest(&|c| c.1) / square).sqrt(),
                of_one_class: largest(&|c| c.0 * c.1) / square,
            }
        };
        match self.request.loss {
            Loss::Softmax { .. } => {
                let squares: f64 = part.iter().map(|p| p * p).sum();
                let one = |p: &f64| (*p, (1.0 - 2.0 * p + squares).max(0.0));
                of(&part.iter().map(one).collect::<Vec<_>>())
            }
            loss if loss.is_family() => {
                let (mean, deviation) = self.label_moments(standard).unwrap_or((part[1], 1.0));
                let usual = self.loss(standard).usual_slope(mean, deviation);
                StartSlopes { usual, longest: 1.0, of_one_class: 0.0 }
            }
            loss if loss.is_binary() => {
                let loss = self.loss(standard);
                let (no, yes) = (loss.weight(-1.0) * part[0], loss.weight(1.0) * part[1]);
                let s = yes / (no + yes);
                of(&[(part[0], s * s), (part[1], (1.0 - s) * (1.0 - s))])
            }
            _ => StartSlopes { usual: 1.0, longest: 1.0, of_one_class: 0.0 },
        }
    }

    /// g: how long the clip is, in usual gradients at the start. A shorter clip trades bias for
    /// noise, so it shrinks with √q. Up to the longest gradient at the start, which is a rare
    /// class's, a clip silences that class; beyond it a longer one pays only where there is hardly
    /// any noise. A regression's residuals have no bound, nor has the clip.
    pub(super) fn clip_share(&self, standard: &[f64]) -> f64 {
        if self.request.mu.is_none() {
            return LONGEST_CLIP;
        }
        let root = self.q.sqrt();
        let most = match self.request.loss {
            _ if !self.request.has(MethodPart::LongClips) => 1.0,
            Loss::Ridge { .. } => LONGEST_CLIP,
            loss if loss.keeps_labels() => LONGEST_CLIP,
            // No residual counts for more than δ deviations.
            Loss::Huber { delta } => (1.5 * delta).clamp(1.0, LONGEST_CLIP),
            _ => self.start_slopes(standard).longest.max(0.12 / root).min(LONGEST_CLIP),
        };
        (0.35 / root).clamp(SHORTEST_CLIP, most.max(SHORTEST_CLIP))
    }

    /// h: the curvature of the loss at the start.
    pub(super) fn curvature(&self, standard: &[f64]) -> f64 {
        match self.loss(standard) {
            Loss::Softmax { classes } => 1.0 / classes as f64,
            Loss::WeightedLogistic { negative, positive, .. } => {
                let part = self.request.layout.label_part(standard);
                0.25 * (negative * part[0] + positive * part[1])
            }
            Loss::WeightedSquaredHinge { negative, positive, .. } => {
                let part = self.request.layout.label_part(standard);
                negative * part[0] + positive * part[1]
            }
            loss if loss.is_family() => {
                let part = self.request.layout.label_part(standard);
                loss.usual_curvature(self.label_moments(standard).map_or(part[1], |m| m.0))
            }
            loss => loss.curvature(),
        }
    }

    /// ρ = ν²/(hτ²), and what the records themselves are too few for.
    pub(super) fn ridge(&self, training: f64, standard: &[f64], usual: f64, mu: f64) -> f64 {
        let noise = self.noise(training, standard, usual, mu);
        noise * noise / (self.prior(standard) * self.curvature(standard)) + self.spread
    }

    /// Whether this gradient points against the last one beyond what their noise explains: the
    /// step between them was too long. Both are public, so that asking costs nothing.
    fn overshoots(
        &self,
        shape: &ScoutingTimetable,
        standard: &[f64],
        mu: f64,
        mean: &[f64],
        before: &[f64],
    ) -> bool {
        let width = self.request.layout.features() + 1;
        let of_columns = |v: &[f64], w: &[f64]| -> f64 {
            let blocks = v.chunks_exact(width).zip(w.chunks_exact(width));
            blocks.map(|(v, w)| kernel::dot(&v[..width - 1], &w[..width - 1])).sum()
        };
        let noise = self.noise(shape.training(), standard, 1.0, mu) * f64::from(shape.steps).sqrt();
        // Sums are in units of the clip.
        let noise = noise / self.longest(standard);
        let count = (self.coefficients() - self.request.loss.outputs()) as f64;
        let (variance, along) = (noise * noise, of_columns(mean, before));
        let signal = (of_columns(before, before) - count * variance).max(0.0).sqrt();
        // As far as no step of so many goes by noise alone.
        let far = 1.0 + (2.0 * libm::log(f64::from(shape.steps))).sqrt();
        along < -far * (variance * count.sqrt() + noise * signal)
    }

    /// How a step is made where gradients are `usual` times as long as at the start and steps were
    /// shortened.
    ///
    /// Steps that were shortened go as far in all: with more momentum, which allows for as much
    /// curvature. Without it a budget that shows that steps are too long had a worse model.
    pub(super) fn step_of(
        &self,
        shape: &ScoutingTimetable,
        standard: &[f64],
        usual: f64,
        shortened: f64,
    ) -> Step {
        let (steps, training) = (f64::from(shape.steps), shape.training());
        let mu = self.request.mu.unwrap_or(f64::INFINITY);
        let time = self.time_at(training, standard, usual, mu);
        let length = (time / steps).min(LONGEST_STEP);
        let most = match self.request.has(MethodPart::Momentum) {
            true => MOST_MOMENTUM.max(1.0 - LEAST_LEFT / steps),
            false => 0.0,
        };
        let shorter = shortened / self.curvature(standard);
        Step {
            clip: usual * self.longest(standard),
            ridge: self.ridge(training, standard, usual, mu),
            momentum: (1.0 - steps * length * shortened / time).clamp(0.0, most),
            slow: shorter * length,
            fast: shorter * (time.max(SHORTEST_TIME.1) / steps).min(LONGEST_STEP),
        }
    }

    /// One training step with the mean of the clipped gradients over G (or of the plain ones
    /// without a clip).
    pub(super) fn descend(
        &self,
        shape: &ScoutingTimetable,
        number: u32,
        standard: &[f64],
        mean: &[f64],
        state: &mut State<'_>,
    ) {
        let layout = &self.request.layout;
        let width = layout.features() + 1;
        let mut start = vec![0.0; state.x.len()];
        self.start(standard, &mut start);
        if self.request.loss.proportional().is_some() {
            // Without noise Newton's steps begin where nothing is known of the columns.
            state.x.copy_from_slice(&start);
            state.mean.copy_from_slice(&start);
            return;
        }
        let fixed = layout.offset_feature();
        let Some(mu) = self.request.mu else {
            // Nesterov's steps, for a curvature that no records within these histograms exceed.
            let steepest =
                self.loss(standard).curvature() * 1.1 * (layout.effective_dim(standard) + 1.0);
            let eta = 1.0 / (steepest + self.request.ridge);
            let momentum = f64::from(number) / (f64::from(number) + 3.0);
            for (l, (y, x)) in state.x.iter_mut().zip(state.mean.iter_mut()).enumerate() {
                if fixed == Some(l) {
                    (*y, *x) = (1.0, 1.0);
                    continue;
                }
                let ridge = if l % width == width - 1 { 0.0 } else { self.request.ridge };
                let next = *y - eta * (mean[l] + ridge * *y);
                let before = if number == 0 { start[l] } else { *x };
                (*y, *x) = (next + momentum * (next - before), next);
            }
            return;
        };
        let usual = self.usual_now(state.tally);
        let at = self.shortened_at();
        if number == 0 {
            state.tally[at] = 1.0;
        } else if self.overshoots(shape, standard, mu, mean, state.before) {
            state.tally[at] *= 0.7;
            state.velocity.fill(0.0);
        }
        let Step { clip, ridge, momentum, slow, fast } =
            self.step_of(shape, standard, usual, state.tally[at]);
        for (l, x) in state.x.iter_mut().enumerate().filter(|(l, _)| fixed != Some(*l)) {
            let (eta, ridge) = if l % width == width - 1 { (fast, 0.0) } else { (slow, ridge) };
            let moved = *x + momentum * state.velocity[l] - eta * clip * mean[l];
            let next = (moved + eta * ridge * start[l]) / (1.0 + eta * ridge);
            (state.velocity[l], *x) = (next - *x, next);
        }
        state.before.copy_from_slice(mean);
        if averaged(number, shape.steps) {
            state.tally[0] += 1.0;
            for (mean, x) in state.mean.iter_mut().zip(state.x.iter()) {
                *mean += (x - *mean) / state.tally[0];
            }
        }
    }
}

/// Whether the model of this round is one of those that are averaged: the last three quarters.
pub(super) fn averaged(number: u32, steps: u32) -> bool {
    f64::from(number) >= f64::from(steps) * (1.0 - AVERAGED)
}

/// The loss of a run that found this standard: where classes are balanced by estimated shares, with
/// their weights.
pub fn loss_under(layout: &RawLayout, loss: Loss, balanced: bool, standard: &[f64]) -> Loss {
    match *layout.label_part(standard) {
        [negative, positive] if balanced && loss.is_logistic() => {
            Loss::balanced(negative, positive)
        }
        [negative, positive] if balanced => {
            loss.with_class_weights(balanced_weights(negative, positive)).unwrap_or(loss)
        }
        _ => layout
            .label_moments(standard)
            .map_or(loss, |(mean, deviation)| loss.fitted_to(mean, deviation)),
    }
}
