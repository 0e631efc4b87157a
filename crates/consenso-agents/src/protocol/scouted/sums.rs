//! The sums that are made: how long each is, how large it can be, and what it changes.

use super::calibration::{CALIBRATION, CALIBRATION_STEPS};
use super::histograms::LOOKS;
use super::inference::Part;
use super::rules::LOOKING;
use super::{Scouted, State};
use crate::data::RawLayout;
use crate::problem::clipped;
use crate::problem::scores::triangle;
use std::cell::RefCell;
use std::sync::Arc;

/// What a sum is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stage {
    /// The first histograms.
    Scout,
    /// A second look, from 0.
    Look(u32),
    /// A training step, from 0.
    Train(u32),
    /// A look at the lengths of gradients, from 0.
    Length(u32),
    /// A step of calibration, from 0.
    Calibrate(u32),
    /// A sum that standard errors are made of, from 0.
    Infer(u32),
}

/// A standard that was found, and what it was found from.
struct FoundStandard {
    layout: Arc<RawLayout>,
    asked: Vec<f64>,
    standard: Vec<f64>,
    widths: Vec<f64>,
}

impl Scouted {
    /// Sums that are made.
    pub(super) fn sums(&self) -> u32 {
        let calibration = if self.shape.calibrates { CALIBRATION_STEPS } else { 0 };
        1 + self.shape.looks + self.trained_sums() + calibration + self.shape.inference_sums()
    }

    /// Exchanges in all.
    pub fn rounds(&self) -> u32 {
        self.sums() * self.shape.exchanges
    }

    /// What the sum of a round is for, and which exchange of it the round is.
    pub(super) fn place(&self, round: u32) -> (Stage, u32) {
        let (sum, looks) = ((round - 1) / self.shape.exchanges, self.shape.looks);
        let stage = match sum {
            0 => Stage::Scout,
            _ if sum <= looks => Stage::Look(sum - 1),
            _ if sum <= looks + self.trained_sums() => self.shape.in_training(sum - 1 - looks),
            _ if self.infers() => Stage::Infer(sum - 1 - looks - self.trained_sums()),
            _ => Stage::Calibrate(sum - 1 - looks - self.trained_sums()),
        };
        (stage, (round - 1) % self.shape.exchanges)
    }

    /// Training steps and the looks between them.
    fn trained_sums(&self) -> u32 {
        self.shape.steps + self.shape.lengths
    }

    /// Share of μ² of a sum.
    pub(super) fn share_of(&self, stage: Stage) -> f64 {
        let (scouting, looks) = (self.shape.scouting(), self.shape.looks > 0);
        match stage {
            Stage::Scout => scouting * if looks { 1.0 - LOOKING } else { 1.0 },
            Stage::Look(_) => scouting * LOOKING / f64::from(LOOKS),
            Stage::Train(number) => self.shape.training_of(number),
            Stage::Length(_) => self.shape.lengths_share() / f64::from(self.shape.lengths),
            Stage::Infer(number) => self.shape.inference_of(number),
            Stage::Calibrate(_) => CALIBRATION / f64::from(CALIBRATION_STEPS),
        }
    }

    /// How many numbers a sum has.
    pub(super) fn length(&self, stage: Stage) -> usize {
        match stage {
            Stage::Scout => self.recipe.cells(),
            Stage::Look(_) => self.recipe.look_cells,
            Stage::Train(_) => self.recipe.coefficients(),
            Stage::Length(_) => 1,
            Stage::Calibrate(_) => 1 + self.recipe.request.loss.outputs(),
            Stage::Infer(number) => match self.shape.inference_part(number) {
                Part::Score => self.recipe.coefficients(),
                Part::Matrix(_) => triangle(self.recipe.kept_len()),
                Part::Compared => self.recipe.compared_len(),
            },
        }
    }

    /// How far one person's records move a site's sum: a histogram k times as far as one record at
    /// most, for whoever replaces k of them one after the other; all else as far as one record, for
    /// a person's vectors are added up and cut together (`problem/clipped.rs`, `problem/scores.rs`).
    pub(super) fn moves(&self, stage: Stage) -> f64 {
        let one = self.record_moves(stage);
        match (self.recipe.request.person, stage) {
            (most @ 2.., Stage::Scout | Stage::Look(_)) => (f64::from(most) * one).next_up(),
            _ => one,
        }
    }

    /// How far one record moves a site's sum.
    fn record_moves(&self, stage: Stage) -> f64 {
        let factor = self.recipe.request.change_factor;
        match stage {
            // A positive matrix moves by the root of what a vector moves by (`problem/scores.rs`), and
            // so do outcomes in bins (`compared.rs`).
            Stage::Infer(number) if self.shape.inference_part(number) != Part::Score => {
                factor.sqrt().next_up() + self.rounding()
            }
            Stage::Infer(_) => factor + self.rounding(),
            Stage::Scout => (factor.sqrt() * self.shape.counted.length()).next_up(),
            Stage::Look(_) => factor.sqrt().next_up() + clipped::rounding(self.shape.records),
            // From a number within nought and one to another (`lengths.rs`).
            Stage::Length(_) => 1.0 + self.rounding(),
            Stage::Train(_) | Stage::Calibrate(_) => factor + self.rounding(),
        }
    }

    /// The l2 norm of a record's share in a sum; `None` where nothing bounds it.
    pub(super) fn largest_share(&self, stage: Stage) -> Option<f64> {
        match stage {
            Stage::Scout => Some(self.shape.counted.length().max(1.0) * (1.0 + 1e-9)),
            Stage::Look(_) => Some(1.0 + 1e-9),
            _ => self.recipe.request.mu.map(|_| 1.0 + 1e-9),
        }
    }

    /// What a site's sum of clipped gradients can be off by in floating point, on two neighbours
    /// together.
    pub(super) fn rounding(&self) -> f64 {
        let factor = self.recipe.request.layout.coded_rounding(self.recipe.floor);
        clipped::rounding_by_codes(self.shape.records, factor)
    }

    /// The l2 norm of the noise on one site's sum, but for a chance of 10^−12 in a whole run: √d +
    /// √(2·log) deviations (Gaussian concentration).
    pub(super) fn largest_noise(&self, stage: Stage) -> f64 {
        let Some(mu) = self.recipe.request.mu else { return 0.0 };
        let share = self.share_of(stage);
        if share <= 0.0 {
            return 0.0;
        }
        // Noise is rounded up to its grid, and no more than a little. What neighbours share beside
        // their own is in a site's message too, and cancels only in the total.
        let beside_shared_noise = self.recipe.request.pairwise.map_or(1.0, |(pairwise, own)| {
            own * (1.0 + pairwise.correlation.powi(2) * self.shape.degree as f64).sqrt()
        });
        let sigma = 1.01 * beside_shared_noise * self.moves(stage) / (mu * share.sqrt());
        let releases = f64::from(self.sums()) * self.recipe.weights.len() as f64;
        let log = libm::log(releases / crate::protocol::CHANCE);
        sigma * ((self.length(stage) as f64).sqrt() + (2.0 * log).sqrt())
    }

    /// The l2 norm of a weighted sum over any sites.
    pub(super) fn largest_mean(&self, stage: Stage) -> Option<f64> {
        let (weights, factors) =
            (self.recipe.weights.iter().sum::<f64>(), self.recipe.factors.iter().sum::<f64>());
        Some(
            (weights * self.largest_share(stage)? + factors * self.largest_noise(stage))
                * (1.0 + 1e-9),
        )
    }

    pub(super) fn state<'a>(&self, memory: &'a mut [f64]) -> State<'a> {
        let width = self.shape.width;
        let (partial, rest) = memory.split_at_mut(width);
        let (total, rest) = rest.split_at_mut(width);
        let (standard, rest) = rest.split_at_mut(self.recipe.request.layout.standard_len());
        let (x, rest) = rest.split_at_mut(self.recipe.coefficients());
        let (mean, rest) = rest.split_at_mut(self.recipe.coefficients());
        let (tally, rest) = rest.split_at_mut(self.recipe.tally());
        let (velocity, rest) = rest.split_at_mut(self.recipe.coefficients());
        let (before, rest) = rest.split_at_mut(self.recipe.coefficients());
        let (widths, rest) = rest.split_at_mut(self.recipe.request.layout.columns().len() + 1);
        let (scores, matrix) = if self.infers() {
            (self.recipe.coefficients(), triangle(self.recipe.kept_len()))
        } else {
            (0, 0)
        };
        let (gradient, rest) = rest.split_at_mut(scores);
        let (curvature, rest) = rest.split_at_mut(matrix);
        let (moment, rest) = rest.split_at_mut(matrix);
        let between = if self.recipe.request.between { matrix } else { 0 };
        let (between, rest) = rest.split_at_mut(between);
        let (varies, rest) = rest.split_at_mut(self.recipe.varies_len());
        State {
            partial,
            total,
            standard,
            x,
            mean,
            tally,
            velocity,
            before,
            widths,
            gradient,
            curvature,
            moment,
            between,
            varies,
            compared: &mut rest[..self.recipe.compared_len()],
        }
    }

    /// How wide the cells were that numbers were found with, in the memory of an agent.
    pub(super) fn widths<'a>(&self, memory: &'a [f64]) -> &'a [f64] {
        let layout = &self.recipe.request.layout;
        let before = layout.standard_len() + 4 * self.recipe.coefficients() + self.recipe.tally();
        &memory[2 * self.shape.width + before..][..layout.columns().len() + 1]
    }

    /// Applies the total of a sum.
    pub(super) fn apply(&self, stage: Stage, state: &mut State<'_>) {
        let total = state.total[..self.length(stage)].to_vec();
        match stage {
            Stage::Scout => self.scout(None, &total, state),
            Stage::Look(number) => self.scout(Some(number), &total, state),
            Stage::Train(number) => {
                let (standard, recipe) = (state.standard.to_vec(), &self.recipe);
                if self.infers() && self.shape.noised {
                    recipe.descend_for_inference(&self.shape, number, &standard, &total, state);
                } else {
                    recipe.descend(&self.shape, number, &standard, &total, state);
                }
            }
            Stage::Length(number) => {
                let standard = state.standard.to_vec();
                self.recipe.measure(number, &standard, total[0], state);
            }
            Stage::Calibrate(number) => self.recipe.recalibrate(number, &total, state),
            Stage::Infer(number) => {
                let standard = state.standard.to_vec();
                self.recipe.infer(&self.shape, number, &standard, &total, state);
            }
        }
    }

    /// Finds the standard of a total. All agents have the same total, so a thread that has just
    /// found it for one has it for the next.
    fn scout(&self, look: Option<u32>, total: &[f64], state: &mut State<'_>) {
        thread_local! {
            static LAST: RefCell<Option<FoundStandard>> = const { RefCell::new(None) };
        }
        let recipe = &self.recipe;
        let layout = &recipe.request.layout;
        let mut asked = vec![recipe.cell_noise, recipe.look_noise, recipe.q];
        asked.push(look.map_or(-1.0, f64::from));
        if look.is_some() {
            asked.extend(&*state.standard);
            asked.extend(&*state.widths);
        }
        asked.extend(total);
        let known = LAST.with_borrow(|last| {
            let found = last.as_ref().filter(|f| f.layout == *layout && f.asked == asked)?;
            Some((found.standard.clone(), found.widths.clone()))
        });
        if let Some((standard, widths)) = known {
            state.standard.copy_from_slice(&standard);
            state.widths.copy_from_slice(&widths);
        } else {
            recipe.scout(look.is_some(), total, state);
            let (standard, widths) = (state.standard.to_vec(), state.widths.to_vec());
            LAST.set(Some(FoundStandard { layout: Arc::clone(layout), asked, standard, widths }));
        }
        recipe.finish_standard(state.standard);
        recipe.start(state.standard, state.x);
    }
}
