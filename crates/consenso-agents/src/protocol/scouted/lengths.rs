//! Looks at how long gradients are while a model is trained.
//!
//! A clip is chosen in units of a usual gradient, and a gradient is as long as its residual: with a
//! model that fits, most are shorter than those at the start. A clip that stayed would keep noise
//! as large as residuals were, so that a good fit was never worth more than a bad one. After an
//! eighth, a quarter and a half of the steps all sites therefore add up
//!
//! ```text
//! Σ_j min(1, l_j²/L²),      L = max(2, g)·u,
//! ```
//!
//! l_j the length of a record's gradient, u that of a usual one at the start, both before clipping.
//! **Sensitivity.** A record's part lies between nought and one, whatever the record and the model
//! are, so that replacing it moves the sum by one at most. Two hundredths of μ² are for these looks.
//!
//! From the total m and the deviation s of its noise ϱ² = (L/u)²(m + s) follows, one at most: the
//! clip is ϱ·G from then on, and ν, the time that is travelled and the ridge follow it as they follow
//! G. In doubt gradients count as longer than they are, and never as shorter than they would be on
//! the mean if those of all classes but one had vanished and that one's were as at the start: the
//! gradients of a rare class are long when all others are short, and are not to be cut for it. Where
//! the noise of ϱ² is more than a half nothing could be learned, and no look is made. Nor is one for
//! two classes: one of them has half of all squares at least, so that ϱ ≥ 0.71, and on six sets
//! looks were worth nothing.

use super::sums::Stage;
use super::{MethodPart, Recipe, ScoutingTimetable, State};

/// Share of μ² of all looks together.
pub(super) const LENGTHS: f64 = 0.02;
/// After what parts of all steps they are, as divisors.
const AFTER: [u32; 3] = [8, 4, 2];
/// As many as there are.
pub(super) const LOOKS_AT_LENGTHS: usize = AFTER.len();
/// Steps that make looks in between worthwhile.
const FEWEST_STEPS: u32 = 16;
/// Lengths count up to this many usual ones.
const REACH: f64 = 2.0;
/// The part of all squares that one class has of two.
const MOST_OF_ONE_CLASS: f64 = 0.499;
/// The most noise of a squared length that still tells anything.
const MOST_NOISE: f64 = 0.5;

impl ScoutingTimetable {
    /// Share of μ² of looks at lengths.
    pub(super) fn lengths_share(&self) -> f64 {
        if self.lengths > 0 { LENGTHS } else { 0.0 }
    }

    /// The step before which a look is made.
    pub(super) fn look_before(&self, number: u32) -> u32 {
        self.steps / AFTER[number as usize]
    }

    /// What the sum of this number after scouting is for: a step, or a look between two.
    pub(super) fn in_training(&self, sum: u32) -> Stage {
        let before = (0..self.lengths).filter(|&n| self.look_before(n) + n < sum).count() as u32;
        match (0..self.lengths).find(|&n| self.look_before(n) + n == sum) {
            Some(look) => Stage::Length(look),
            None => Stage::Train(sum - before),
        }
    }

    /// The last look before a step.
    pub(super) fn looked_before(&self, step: u32) -> Option<u32> {
        (0..self.lengths).rev().find(|&n| self.look_before(n) <= step)
    }
}

impl Recipe {
    /// Looks at lengths in so many steps.
    pub(super) fn looks_at_lengths(&self, steps: u32) -> u32 {
        let blind = self.request.layout.blind(self.floor);
        let looks = self.request.mu.is_some()
            && !self.request.inference
            && self.request.has(MethodPart::Lengths)
            && steps >= FEWEST_STEPS
            && self.start_slopes(&blind).of_one_class < MOST_OF_ONE_CLASS
            && self.length_noise(&blind) <= MOST_NOISE;
        if looks { LOOKS_AT_LENGTHS as u32 } else { 0 }
    }

    /// L.
    pub(super) fn length_reach(&self, standard: &[f64]) -> f64 {
        self.reach(standard) * self.usual_gradient(standard)
    }

    fn reach(&self, standard: &[f64]) -> f64 {
        self.clip_share(standard).max(REACH)
    }

    /// The deviation of ϱ² for its noise.
    fn length_noise(&self, standard: &[f64]) -> f64 {
        let share = LENGTHS / LOOKS_AT_LENGTHS as f64;
        let mu = self.request.mu.unwrap_or(f64::INFINITY);
        self.reach(standard).powi(2) * self.r / (mu * share.sqrt())
    }

    /// Takes in the total of a look.
    pub(super) fn measure(&self, number: u32, standard: &[f64], total: f64, state: &mut State<'_>) {
        let noise = self.length_noise(standard);
        let square = self.reach(standard).powi(2) * total + noise;
        let least = noise.max(self.start_slopes(standard).of_one_class);
        state.tally[self.lengths_at() + number as usize] = square.max(least).min(1.0).sqrt();
    }

    fn lengths_at(&self) -> usize {
        self.tally() - LOOKS_AT_LENGTHS
    }

    /// What looks found, in the order they were made; 0 for those that were not.
    pub(super) fn lengths<'a>(&self, tally: &'a [f64]) -> &'a [f64] {
        &tally[self.lengths_at()..self.tally()]
    }

    /// ϱ: how long a usual gradient is by now, in units of what it was at the start.
    pub(super) fn usual_now(&self, tally: &[f64]) -> f64 {
        self.lengths(tally).iter().rev().copied().find(|l| *l > 0.0).unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks lie between steps, and no step is left out.
    #[test]
    fn looks_lie_after_an_eighth_a_quarter_and_a_half_of_the_steps() {
        for (steps, places) in [(16, [2, 5, 10]), (37, [4, 10, 20]), (240, [30, 61, 122])] {
            let shape = ScoutingTimetable { steps, lengths: 3, ..ScoutingTimetable::default() };
            let all: Vec<Stage> = (0..steps + 3).map(|sum| shape.in_training(sum)).collect();
            let trained: Vec<u32> = all
                .iter()
                .filter_map(|s| if let Stage::Train(step) = s { Some(*step) } else { None })
                .collect();
            assert_eq!(trained, (0..steps).collect::<Vec<_>>());
            for (number, place) in (0..).zip(places) {
                assert_eq!(all[place], Stage::Length(number), "{steps}");
                let next = shape.look_before(number);
                assert_eq!(all[place + 1], Stage::Train(next), "{steps}");
                assert_eq!(shape.looked_before(next), Some(number));
            }
            assert_eq!(shape.looked_before(0), None);
        }
        let none = ScoutingTimetable { steps: 5, ..ScoutingTimetable::default() };
        assert_eq!(none.in_training(4), Stage::Train(4));
    }
}
