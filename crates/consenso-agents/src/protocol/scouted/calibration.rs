//! The third stage: slope and offsets of the score.
//!
//! A clipped gradient counts how many records pull the intercept, not how much, and follows the
//! commonest class; columns whose centre nobody could afford to find push all scores to one side; a
//! ridge makes scores too small. A direction can so be found and its threshold lost. Six gradients
//! of the loss of a·z + b mend it, z being the trained score without its intercept: damped Newton
//! steps with a public curvature H, from a = 1 and the trained intercept, the last four averaged.
//!
//! What they find is **shrunk by its own noise towards no change**: with a prior of deviation σ
//! around what training ended with, and noise ν that all six leave, the estimate of least error has
//! a ridge ν²/(Hσ²) towards it. Where noise is large nothing changes; where there is none the
//! equations are those of the likelihood itself.

use super::lengths::LOOKS_AT_LENGTHS;
use super::{Recipe, State};
use crate::problem::Loss;

/// Share of μ² that calibration gets.
pub(super) const CALIBRATION: f64 = 0.05;
/// Gradients in slope and offsets, and how many of them are left out of the mean.
pub(super) const CALIBRATION_STEPS: u32 = 6;
const CALIBRATION_SKIPPED: u32 = 2;
/// What part of a Newton step is made, in those that are left out and in the others, and how long
/// it may be.
const DAMPING: (f64, f64) = (0.7, 0.5);
const LONGEST: f64 = 2.0;
/// Shortest that a record's calibration gradient is clipped to, and from where on the clip grows
/// with the root of what noise allows only, so that noise falls too: few gradients are longer.
const CALIBRATION_CLIP: (f64, f64) = (0.7, 3.2);
/// Noise of a calibration step that the clip is chosen for, where noise is large.
pub(super) const CALIBRATION_AIM: f64 = 0.05;
/// Scores count up to this in calibration: as far as any that means something. (Offsets that were
/// found for scores cut to ±3 are wrong for scores that are not, whatever the budget.)
pub(super) const SCORE_REACH: f64 = 64.0;
/// Deviations of slope and offset around what training ended with.
const CALIBRATION_PRIOR: (f64, f64) = (0.5, 1.0);

/// The clip whose noise is what is aimed at, or between that and none.
pub(super) fn calibration_clip(wanted: f64) -> f64 {
    let (shortest, long) = CALIBRATION_CLIP;
    if wanted > long { (wanted * long).sqrt() } else { wanted.max(shortest) }
}

impl Recipe {
    /// One step of slope and offsets.
    pub(super) fn recalibrate(&self, number: u32, mean: &[f64], state: &mut State<'_>) {
        let Some(mu) = self.request.mu else { return };
        let classes = self.request.loss.outputs();
        let curvature = self.calibration_curvature(state.standard, state.mean);
        let noise =
            self.calibration_clip * self.request.change_factor * self.r / (mu * CALIBRATION.sqrt());
        let trained = self.trained(state.mean);
        // The slope and the offsets, their means so far, and how many are in those.
        let (at, rest) = state.tally[1..].split_at_mut(1 + classes);
        let (means, count) = rest.split_at_mut(1 + classes);
        if number == 0 {
            at.copy_from_slice(&trained);
        }
        let damping = if number < CALIBRATION_SKIPPED { DAMPING.0 } else { DAMPING.1 };
        for (c, at) in at.iter_mut().enumerate() {
            let deviation = if c == 0 { CALIBRATION_PRIOR.0 } else { CALIBRATION_PRIOR.1 };
            let ridge = noise * noise / (curvature[c] * deviation * deviation);
            let gradient = self.calibration_clip * mean[c] + ridge * (*at - trained[c]);
            *at -= (damping * gradient / (curvature[c] + ridge)).clamp(-LONGEST, LONGEST);
        }
        if number >= CALIBRATION_SKIPPED {
            count[0] += 1.0;
            for (mean, at) in means.iter_mut().zip(at) {
                *mean += (*at - *mean) / count[0];
            }
        }
    }

    /// What the loss curves by in the slope, and in each offset, if scores are spread as their
    /// weights on standardised columns say.
    fn calibration_curvature(&self, standard: &[f64], x: &[f64]) -> Vec<f64> {
        let width = self.request.layout.features() + 1;
        let part = self.request.layout.label_part(standard);
        let least = 0.3 / part.len() as f64;
        let of = |p: f64| (p * (1.0 - p)).max(least * (1.0 - least));
        let spread = |block: &[f64]| -> f64 {
            block[..width - 1].iter().map(|x| x * x).sum::<f64>().max(0.1)
        };
        let blocks = x.chunks_exact(width);
        let offsets: Vec<f64> = match self.request.loss {
            Loss::Softmax { .. } => part.iter().map(|p| of(*p)).collect(),
            _ => vec![of(part[1])],
        };
        let slope: f64 = blocks.zip(&offsets).map(|(block, h)| h * spread(block)).sum();
        let mut all = vec![slope];
        all.extend(offsets);
        all
    }

    /// Slope and offsets as training ended.
    pub(super) fn trained(&self, x: &[f64]) -> Vec<f64> {
        let width = self.request.layout.features() + 1;
        let intercepts = x.chunks_exact(width).map(|block| block[width - 1]);
        std::iter::once(1.0).chain(intercepts).collect()
    }

    /// Numbers of [`State::tally`]: iterates in the mean, slope and offsets, their means, how many
    /// are in those, what steps were shortened to, and what looks at lengths found.
    pub(super) fn tally(&self) -> usize {
        self.shortened_at() + 1 + LOOKS_AT_LENGTHS
    }

    /// Where in them is what steps were shortened to.
    pub(super) fn shortened_at(&self) -> usize {
        4 + 2 * self.request.loss.outputs()
    }

    /// The model of a state: where a third stage is over, with its slope and offset.
    pub(super) fn model(&self, state: &State<'_>, out: &mut [f64]) {
        let width = self.request.layout.features() + 1;
        let begun = state.tally[0] > 0.0 || self.request.mu.is_none();
        out.copy_from_slice(if begun { state.mean } else { state.x });
        let classes = self.request.loss.outputs();
        let means = &state.tally[2 + classes..];
        if means[1 + classes] > 0.0 {
            for (block, offset) in out.chunks_exact_mut(width).zip(&means[1..]) {
                block[..width - 1].iter_mut().for_each(|x| *x *= means[0].max(0.05));
                block[width - 1] = *offset;
            }
        }
    }
}
