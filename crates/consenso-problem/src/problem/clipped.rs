//! Gradients that one record moves by a bounded amount whatever its features and label are.
//!
//! For the records (z_j, y_j) of one site, standardised, this computes
//!
//! ```text
//! S(x) = Σ_j ∇φ(x; z_j, y_j) · min(1/G, 1/‖∇φ(x; z_j, y_j)‖₂)
//! ```
//!
//! the sum of the records' gradients, each clipped to length G and then divided by G; where classes
//! are weighted, times w_y/max w ≤ 1 after that.
//!
//! **Sensitivity.** Every summand is c_j·(s_j ⊗ z_j), with s_j the slope (a number, or one per class
//! for a softmax) and c_j ≤ 1/(‖s_j‖₂‖z_j‖₂), so its l2 norm, over all classes together, is at most
//! 1: ‖s ⊗ z‖₂ = ‖s‖₂‖z‖₂. Replacing one record moves the sum by at most 2, setting one's summand
//! to zero by at most 1, at every x. It follows that ‖·‖_∞ ≤ 2 and ‖·‖₁ ≤ 2√d. The norms in
//! floating point are rounded up before they divide (as [`to_unit_norm`](crate::data) does), and a
//! slope that is not finite counts as zero, so the bound holds for the stored numbers too; summing
//! b of them adds at most (b + 64)·2⁻⁵³·b on either neighbour, which [`rounding`] bounds.
//!
//! **Persons.** Where a person may have several records ([`Records::persons`]), the summand is the
//! person's: the gradients of all their records are added up first, and their sum is clipped to
//! length G. One person then moves the sum as one record does without persons, however many records
//! they have. Where it is not known whom records are about, each counts for one over the most
//! records that a person has, so that a person's records are no longer than one together.
//!
//! **By codes.** Where rows are kept as codes ([`Codes`](crate::data)), z_j = base + its numbers +
//! Σ_p value_p(c_jp)·e, the sum is taken as base·Σ_j t_j + (numbers) + Σ value·B with t_j = c_j·s_j
//! and B_l the sum of t_j over the rows of level l. |t_j| ≤ 1/‖z_j‖₂ ≤ 1, for the intercept is 1,
//! so with u = 2⁻⁵³ and n = b + 300 (no number is the sum of more: b rows, 256 combinations of
//! levels, a few products) feature l of a category is off by at most
//! n·u·(|base_l|·b + |value_l|·b_l), b_l the rows of that level. No level adds more than v =
//! 2/√floor to a row, base_l = −p_l·value_l with shares Σp_l ≤ 1 in each of the S categories, and
//! Σ_l b_l = b, so over all features ‖·‖₂ ≤ n·u·b·2√S·v; the numbers add n·u·b as above (each
//! record's vector has length at most one), and second-order terms fit between n and b + 512:
//! [`rounding_by_codes`].

use super::{Loss, Workspace};
use crate::data::{RawLayout, Records};
use crate::kernel::{self, Clipping};
use std::sync::{Arc, Mutex, OnceLock};

/// Records of one site whose features are standardised once the standard is known.
pub(crate) struct Raw {
    layout: Arc<RawLayout>,
    /// Length of the messages that are exchanged about them.
    width: usize,
    /// The last standard asked for, and the rows under it.
    encoded: Mutex<Option<(Vec<f64>, Arc<Standardised>)>>,
}

/// Standardised rows with the lengths that clipping needs.
pub struct Standardised {
    pub(crate) records: Records,
    /// ‖z_j‖₂, rounded up.
    norms: Vec<f64>,
    /// The rows of every person; empty where every record is somebody else's.
    persons: Vec<Vec<u32>>,
    /// The rows cut to at most unit length, once an algorithm asked for them.
    unit: OnceLock<super::LocalObjective>,
    /// The rows of pairs, once a loss of pairs asked for them.
    pairs: OnceLock<Box<Standardised>>,
}

impl std::fmt::Debug for Standardised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Standardised(rows={})", self.norms.len())
    }
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Raw(width={})", self.width)
    }
}

impl Raw {
    pub(crate) fn new(layout: Arc<RawLayout>, width: usize) -> Self {
        Self { layout, width, encoded: Mutex::new(None) }
    }

    /// A copy that has kept nothing yet.
    pub(crate) fn apart(&self) -> Self {
        Self::new(Arc::clone(&self.layout), self.width)
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// The rows under a standard; the last one asked for is kept, for a run asks for one only.
    pub(crate) fn under(&self, standard: &[f64], raw: &Records) -> Arc<Standardised> {
        let mut last = self.encoded.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((known, rows)) = &*last
            && known == standard
        {
            return Arc::clone(rows);
        }
        let rows = Arc::new(Standardised::new(self.layout.encode(standard, raw)));
        *last = Some((standard.to_vec(), Arc::clone(&rows)));
        rows
    }
}

impl Standardised {
    pub(super) fn new(records: Records) -> Self {
        let up = 1.0 + (records.dim() + 8) as f64 * f64::EPSILON;
        let mut row = Vec::new();
        let norm = |j: usize| {
            records.row_into(j, &mut row);
            kernel::norm(&row) * up
        };
        let norms = (0..records.len()).map(norm).collect();
        let persons = rows_by_person(records.persons());
        Self { records, norms, persons, unit: OnceLock::new(), pairs: OnceLock::new() }
    }

    /// Rows that are standardised already.
    #[doc(hidden)]
    #[must_use]
    pub fn of(records: Records) -> Self {
        Self::new(records)
    }

    /// The rows that a loss is of: these, or those of their pairs.
    pub fn of_loss(&self, loss: Loss) -> &Self {
        if loss.is_of_pairs() {
            self.pairs.get_or_init(|| Box::new(Self::new(super::pairs::of(&self.records))))
        } else {
            self
        }
    }

    /// The rows of every person, where it is known whom records are about.
    pub(super) fn persons(&self) -> Option<&[Vec<u32>]> {
        (!self.persons.is_empty()).then_some(&self.persons[..])
    }

    /// Adds, for every person, the vectors of their records, which `add` adds to what it is given,
    /// cut to length `clip` and divided by it.
    fn sum_by_person(
        &self,
        persons: &[Vec<u32>],
        clip: f64,
        out: &mut [f64],
        add: impl FnMut(usize, &mut [f64]),
    ) {
        out.fill(0.0);
        each_person(persons, out.len(), add, |length, own| {
            kernel::axpy(1.0 / length.max(clip), own, out);
        });
    }

    /// Σ_j min(1, ‖∇φ(x; z_j, y_j)‖²/`reach`²): how long gradients are, before classes are weighted.
    /// Every record, or person, adds a number from nought to one, whatever the records are.
    pub fn length_sum(&self, loss: Loss, x: &[f64], reach: f64) -> f64 {
        let (rows, features, loss) =
            (self.records.len(), self.records.dim(), loss.without_class_weights());
        let outputs = loss.outputs();
        let mut scores = vec![0.0; rows * outputs];
        for (x, scores) in x.chunks_exact(features).zip(scores.chunks_exact_mut(rows.max(1))) {
            kernel::all_margins(self.records.layout(), x, scores);
        }
        let labels = self.records.labels();
        let slopes = |j: usize, own: &mut [f64]| {
            own.iter_mut().enumerate().for_each(|(c, s)| *s = scores[c * rows + j]);
            match own {
                [one] => *one = loss.slope(*one, labels[j]),
                several => softmax_slopes(labels[j], several),
            }
        };
        // One that is not finite counts as nothing.
        let counted = |length: f64| {
            let part = if length.is_finite() { (length / reach).min(1.0) } else { 0.0 };
            part * part
        };
        let (mut own, mut sum) = (vec![0.0; outputs], 0.0);
        if let Some(persons) = self.persons() {
            let add = |j: usize, vector: &mut [f64]| {
                slopes(j, &mut own);
                let z = self.records.row(j);
                for (vector, s) in vector.chunks_exact_mut(features).zip(&own) {
                    kernel::axpy(*s, &z, vector);
                }
            };
            each_person(persons, x.len(), add, |length, _| sum += counted(length));
            return sum;
        }
        for (j, norm) in self.norms.iter().enumerate() {
            slopes(j, &mut own);
            sum += counted(kernel::norm(&own) * norm);
        }
        sum
    }

    /// The objective on these rows, each shortened to `length` where it is longer and divided by
    /// it: z·min(1/length, 1/‖z‖), so that no row is longer than one whatever the record was (norms
    /// are rounded up before they divide). A run asks for one objective and length only.
    pub fn in_units(
        &self,
        objective: super::Objective,
        length: f64,
        weight: f64,
    ) -> &super::LocalObjective {
        self.unit.get_or_init(|| {
            let mut records = Records::with_capacity(self.records.dim(), self.records.len());
            for (j, (&label, &norm)) in self.records.labels().iter().zip(&self.norms).enumerate() {
                // Two roundings more: of the product, and of the length itself.
                let by = length.max(norm) * (1.0 + 4.0 * f64::EPSILON);
                let row: Vec<f64> = self.records.row(j).iter().map(|z| z / by).collect();
                records.push(&row, label);
            }
            super::LocalObjective::new(objective, records).weighted(weight)
        })
    }

    /// S(x) for the clip G; without a clip (G infinite) the plain sum of the gradients.
    pub fn clipped_sum(
        &self,
        loss: Loss,
        x: &[f64],
        clip: f64,
        out: &mut [f64],
        work: &mut Workspace,
    ) {
        let (rows, features) = (self.records.len(), self.records.dim());
        let outputs = loss.outputs();
        // Slopes are clipped before classes are weighted, so that both are clipped alike; divided
        // by the heaviest weight no record exceeds one.
        let plain = loss.without_class_weights();
        let unit = if clip.is_infinite() { 1.0 } else { loss.heaviest() };
        let (labels, norms) = (self.records.labels(), &self.norms);
        let persons = self.persons().filter(|_| clip.is_finite());
        if outputs == 1 && persons.is_none() {
            let weights = [1.0, -1.0].map(|label| loss.weight(label) / unit);
            let how = Clipping { clip, up: 1.0 + 9.0 * f64::EPSILON, weights };
            let room = (&mut work.scratch, &mut work.margins);
            let (layout, x, out) = (self.records.layout(), &x[..features], &mut out[..features]);
            return kernel::sum_of_slopes(layout, rows, x, room, out, |some, slopes| {
                let labels = &labels[some.clone()];
                plain.slopes(labels, slopes);
                kernel::clip_slopes(how, labels, &norms[some], slopes);
            });
        }
        let mut slopes = vec![0.0; rows * outputs];
        for (x, slopes) in x.chunks_exact(features).zip(slopes.chunks_exact_mut(rows.max(1))) {
            kernel::all_margins(self.records.layout(), x, slopes);
        }
        // What a record's slopes are multiplied by, given their length. (A NaN is no larger than
        // the clip, and then not finite.)
        let factor = |length: f64, label: f64| {
            let factor = if clip.is_infinite() { 1.0 } else { 1.0 / length.max(clip) };
            if length.is_finite() { factor * (loss.weight(label) / unit) } else { 0.0 }
        };
        if let Some(persons) = persons {
            if outputs == 1 {
                plain.slopes(labels, &mut slopes);
            } else {
                let mut own = vec![0.0; outputs];
                for (j, &label) in labels.iter().enumerate() {
                    own.iter_mut().enumerate().for_each(|(c, s)| *s = slopes[c * rows + j]);
                    softmax_slopes(label, &mut own);
                    own.iter().enumerate().for_each(|(c, s)| slopes[c * rows + j] = *s);
                }
            }
            return self.sum_by_person(persons, clip, out, |j, own| {
                let (z, weight) = (self.records.row(j), loss.weight(labels[j]) / unit);
                for (c, own) in own.chunks_exact_mut(features).enumerate() {
                    kernel::axpy(weight * slopes[c * rows + j], &z, own);
                }
            });
        }
        // Where a factor is zero its slope may be infinite.
        let clipped = |slope: f64, factor: f64| if factor == 0.0 { 0.0 } else { slope * factor };
        let mut own = vec![0.0; outputs];
        let up = 1.0 + (outputs + 8) as f64 * f64::EPSILON;
        for (j, (&label, &norm)) in labels.iter().zip(norms).enumerate() {
            for (c, s) in own.iter_mut().enumerate() {
                *s = slopes[c * rows + j];
            }
            softmax_slopes(label, &mut own);
            let factor = factor(kernel::norm(&own) * up * norm, label);
            for (c, s) in own.iter().enumerate() {
                slopes[c * rows + j] = clipped(*s, factor);
            }
        }
        let blocks = out.chunks_exact_mut(features).zip(slopes.chunks_exact(rows.max(1)));
        for (out, slopes) in blocks {
            kernel::weighted_sum(self.records.layout(), slopes, &mut work.scratch, out);
        }
    }

    /// The gradient for scores that were trained, in their slope a and offsets b_c: that of the
    /// loss of a·z_c + b_c, z_c the score of class c (one score for two classes) without its
    /// intercept, kept within ±`reach`. `at` holds a, then the b_c.
    ///
    /// A record's summand is (Σ_c s_c z_c, s) over its length or the clip, whichever is longer, s
    /// being its slopes: at most one long, as before.
    pub fn calibration_sum(
        &self,
        loss: Loss,
        x: &[f64],
        reach: f64,
        at: &[f64],
        clip: f64,
        sum: &mut [f64],
    ) {
        let (rows, outputs) = (self.records.len(), at.len() - 1);
        let scores = self.scores(x, outputs);
        let read = |s: f64| if s.is_finite() { s.clamp(-reach, reach) } else { 0.0 };
        sum.fill(0.0);
        let (mut z, mut own) = (vec![0.0; outputs], vec![0.0; outputs]);
        if let Some(persons) = self.persons() {
            let labels = self.records.labels();
            return self.sum_by_person(persons, clip, sum, |j, sum| {
                for (c, z) in z.iter_mut().enumerate() {
                    *z = read(scores[c * rows + j]);
                    own[c] = at[0] * *z + at[1 + c];
                }
                match loss {
                    Loss::Softmax { .. } => softmax_slopes(labels[j], &mut own),
                    margin => own[0] = margin.slope(own[0], labels[j]),
                }
                sum[0] += kernel::dot(&own, &z);
                sum[1..].iter_mut().zip(&own).for_each(|(sum, own)| *sum += own);
            });
        }
        for (j, &label) in self.records.labels().iter().enumerate() {
            for (c, z) in z.iter_mut().enumerate() {
                *z = read(scores[c * rows + j]);
                own[c] = at[0] * *z + at[1 + c];
            }
            match loss {
                Loss::Softmax { .. } => softmax_slopes(label, &mut own),
                margin => own[0] = margin.slope(own[0], label),
            }
            let along = kernel::dot(&own, &z);
            let length = (along * along + kernel::dot(&own, &own)).sqrt()
                * (1.0 + 16.0 * (outputs + 8) as f64 * f64::EPSILON);
            if length.is_finite() {
                let factor = 1.0 / length.max(clip);
                sum[0] += factor * along;
                for (sum, own) in sum[1..].iter_mut().zip(&own) {
                    *sum += factor * own;
                }
            }
        }
    }

    /// The scores of all records without their intercepts, one block per score function.
    fn scores(&self, x: &[f64], outputs: usize) -> Vec<f64> {
        let (rows, features) = (self.records.len(), self.records.dim());
        let mut scores = vec![0.0; rows * outputs];
        for (x, scores) in x.chunks_exact(features).zip(scores.chunks_exact_mut(rows.max(1))) {
            let mut plain = x.to_vec();
            plain[features - 1] = 0.0;
            kernel::all_margins(self.records.layout(), &plain, scores);
        }
        scores
    }
}

/// Adds up the vectors of every person's records, which `add` adds to what it is given, and hands
/// on what has a finite length, with the length rounded up.
fn each_person(
    persons: &[Vec<u32>],
    size: usize,
    mut add: impl FnMut(usize, &mut [f64]),
    mut found: impl FnMut(f64, &[f64]),
) {
    let mut own = vec![0.0; size];
    let up = 1.0 + (size + 8) as f64 * f64::EPSILON;
    for rows in persons {
        own.fill(0.0);
        rows.iter().for_each(|&row| add(row as usize, &mut own));
        let length = kernel::norm(&own) * up;
        if length.is_finite() {
            found(length, &own);
        }
    }
}

/// The rows of every person, in the order of their numbers.
fn rows_by_person(persons: &[u32]) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..persons.len() as u32).collect();
    order.sort_by_key(|&row| persons[row as usize]);
    let same = |a: &u32, b: &u32| persons[*a as usize] == persons[*b as usize];
    order.chunk_by(same).map(<[u32]>::to_vec).collect()
}

/// What a sum of `records` vectors of length at most one can be off by in floating point, on two
/// neighbours together: to be added to how far one record moves it.
#[must_use]
pub fn rounding(records: usize) -> f64 {
    let b = records as f64;
    2.0 * (b + 64.0) * b * (f64::EPSILON / 2.0)
}

/// The rounding of a sum that may be taken by codes: `factor` is 1 + 2√S·v
/// ([`RawLayout::coded_rounding`]).
pub fn rounding_by_codes(records: usize, factor: f64) -> f64 {
    let b = records as f64;
    2.0 * (b + 512.0) * b * (f64::EPSILON / 2.0) * factor
}

/// φ' of a softmax at the scores in `own`, in place.
fn softmax_slopes(label: f64, own: &mut [f64]) {
    let top = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut total = 0.0;
    for s in own.iter_mut() {
        *s = libm::exp(*s - top);
        total += *s;
    }
    own.iter_mut().for_each(|s| *s /= total);
    own[label as usize] -= 1.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sensitivity of the slope and the offsets of scores, of one score and of several.
    #[test]
    fn one_record_moves_a_calibration_sum_by_at_most_two() {
        for (loss, labels) in
            [(Loss::Logistic, [-1.0, 1.0]), (Loss::Softmax { classes: 3 }, [0.0, 2.0])]
        {
            for scale in [0.0, 0.3, 5.0, 1e200, f64::MAX] {
                let x: Vec<f64> =
                    (0..3 * loss.outputs()).map(|l| scale * [1.0, -0.5, 0.25][l % 3]).collect();
                for at in [vec![1.0; 1 + loss.outputs()], vec![-40.0; 1 + loss.outputs()]] {
                    for (row, label) in [[2.5, -2.5, 1.0], [1e-9, 0.0, 1.0], [1e160, 1.0, 1.0]]
                        .into_iter()
                        .flat_map(|row| labels.map(|label| (row, label)))
                    {
                        for clip in [1e-3, 0.7, 10.0] {
                            let mut records = Records::with_capacity(3, 1);
                            records.push(&row, label);
                            let mut sum = vec![0.0; 1 + loss.outputs()];
                            let rows = Standardised::new(records);
                            rows.calibration_sum(loss, &x, 3.0, &at, clip, &mut sum);
                            assert!(
                                kernel::norm(&sum) <= 1.0 + 1e-15,
                                "{loss:?} {row:?} {scale} {sum:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Whatever the record is, a look at lengths counts it between nought and one; and what it
    /// counts is a figure of a program in numpy.
    #[test]
    fn a_record_counts_by_its_length_and_never_for_more_than_one() {
        for (loss, label) in [
            (Loss::Logistic, -1.0),
            (Loss::Softmax { classes: 3 }, 2.0),
            (Loss::Ridge { clip: f64::INFINITY }, -1e12),
        ] {
            for scale in [0.0, 1.0, 1e3, 1e200, f64::MAX] {
                for row in [[2.5, -2.5, 1.0], [1e160, 1.0, 1.0], [0.0, 0.0, 1.0]] {
                    let x: Vec<f64> =
                        (0..3 * loss.outputs()).map(|l| scale * [1.0, -0.5, 0.25][l % 3]).collect();
                    let mut records = Records::with_capacity(3, 1);
                    records.push(&row, label);
                    let part = Standardised::new(records).length_sum(loss, &x, 0.7);
                    assert!((0.0..=1.0).contains(&part), "{loss:?} {row:?} {scale}: {part}");
                }
            }
        }
        let rows = |labels: [f64; 2]| {
            let mut records = Records::with_capacity(2, 2);
            records.push(&[0.5, 1.0], labels[0]);
            records.push(&[-2.0, 1.0], labels[1]);
            Standardised::new(records)
        };
        let ridge = Loss::Ridge { clip: f64::INFINITY };
        let softmax = Loss::Softmax { classes: 3 };
        for (found, expected) in [
            (rows([1.0, -1.0]).length_sum(Loss::Logistic, &[0.4, -0.1], 2.0), 0.174_951_728_9),
            (rows([0.3, 4.0]).length_sum(ridge, &[0.4, -0.1], 2.0), 1.012_5),
            (
                rows([0.0, 2.0]).length_sum(softmax, &[0.4, -0.1, 0.0, 0.2, -0.3, 0.1], 2.0),
                0.612_992_513_1,
            ),
        ] {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    /// Messages may be longer than coefficients: of other stages.
    #[test]
    fn a_sum_leaves_the_rest_of_a_message_as_it_is() {
        let mut records = Records::with_capacity(3, 9);
        (0..9).for_each(|j| records.push(&[0.1 * f64::from(j), -0.5, 1.0], 1.0));
        let (rows, mut work) = (Standardised::new(records), Workspace::default());
        let (x, mut sum, mut message) = ([0.3, -0.2, 0.1], [0.0; 3], [7.0; 5]);
        rows.clipped_sum(Loss::Logistic, &x, 0.7, &mut sum, &mut work);
        rows.clipped_sum(Loss::Logistic, &x, 0.7, &mut message, &mut work);
        assert_eq!((&message[..3], &message[3..]), (&sum[..], &[7.0, 7.0][..]));
    }

    /// Whatever the record, the model and the label are, it adds a vector of length at most one;
    /// neighbours are at most two apart.
    #[test]
    fn one_record_moves_a_clipped_sum_by_at_most_two() {
        let rows: [[f64; 3]; 6] = [
            [2.5, -2.5, 1.0],
            [-2.5, 2.5, 1.0],
            [1e-9, 0.0, 1.0],
            [1e160, 1.0, 1.0],
            [0.3, -0.1, 1.0],
            [0.0, 0.0, 1.0],
        ];
        let mut work = Workspace::default();
        for (loss, labels) in [
            (Loss::Logistic, [-1.0, 1.0]),
            (Loss::balanced(0.97, 0.03), [-1.0, 1.0]),
            (Loss::Softmax { classes: 3 }, [0.0, 2.0]),
            (Loss::Ridge { clip: f64::INFINITY }, [-1e12, 1e12]),
            (Loss::Huber { delta: 2.0 }, [-50.0, 50.0]),
        ] {
            for scale in [0.0, 1.0, 1e3, 1e200, f64::MAX] {
                for clip in [1e-3, 0.7, 10.0] {
                    let x: Vec<f64> =
                        (0..3 * loss.outputs()).map(|l| scale * [1.0, -0.5, 0.25][l % 3]).collect();
                    let mut sums = Vec::new();
                    for row in rows {
                        for label in labels {
                            let mut records = Records::with_capacity(3, 1);
                            records.push(&row, label);
                            let mut out = vec![0.0; x.len()];
                            Standardised::new(records)
                                .clipped_sum(loss, &x, clip, &mut out, &mut work);
                            assert!(
                                kernel::norm(&out) <= 1.0 + 1e-15,
                                "{loss:?} {row:?} {scale} {out:?}"
                            );
                            sums.push(out);
                        }
                    }
                    for a in &sums {
                        assert!(sums.iter().all(|b| kernel::distance(a, b) <= 2.0 + 1e-15));
                    }
                }
            }
        }
    }
}
