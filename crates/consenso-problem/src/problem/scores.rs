//! Sums that standard errors are made of: scores, and the matrices they are weighed with.
//!
//! For the records (z_j, y_j) of one site, standardised, with scores ψ_j = ψ(z_jᵀx, y_j) of the loss
//! (`losses`), this computes, over the features that are kept,
//!
//! ```text
//! Σ_j w_j ψ_j z_j / G,      Σ_j w_j i_j z_j z_jᵀ / H,      Σ_j (w_j ψ_j)² z_j z_jᵀ / G²,
//! w_j = min(1, G/(b_j‖z_j‖), H/(i_j‖z_j‖²)),
//! ```
//!
//! where b_j ≥ |ψ| for every label and i_j ≥ the information of every label at this margin. The
//! weight of a record so depends on its columns alone and never on its label (Mallows), so that
//! E\[w_j ψ_j z_j\] = 0 at the true model: bounding what a record adds costs precision and no bias.
//!
//! **Sensitivity.** |w_jψ_j|·‖z_j‖ ≤ w_j b_j‖z_j‖ ≤ G, so a summand of the first sum is at most one
//! long, and replacing a record moves the sum by at most 2. A summand of the matrices is a rank-one
//! matrix a·z zᵀ with a ≥ 0, of Frobenius norm a‖z‖² ≤ 1: w_j i_j‖z_j‖² ≤ H, (w_jψ_j)²‖z_j‖² ≤ G². Two
//! such matrices A and B have ⟨A, B⟩ = a·b·(zᵀz')² ≥ 0, so that ‖A − B‖² ≤ ‖A‖² + ‖B‖² ≤ 2: replacing
//! a record moves a matrix by at most √2, setting its summand to zero by 1. Written as its upper
//! triangle with √2 times what stands beside the diagonal, a symmetric matrix has its Frobenius norm
//! as length. Lengths are rounded up before they divide and every summand is cut to length one again
//! as computed; a number that is not finite counts as zero; the rounding of sums is that of
//! [`clipped`](super::clipped).
//!
//! **Several intercepts** ([`proportional`](super::proportional)). A record's score is the vector
//! g = ((Σ_k ρ_k)·z, s·ρ) over the kept columns and the intercepts, which are counted in units of s,
//! and its information the matrix A of the Hessian there. Both have bounds whatever the label is,
//!
//! ```text
//! ‖g‖² ≤ T²‖z‖² + s²S,      ‖A‖ ≤ tr A ≤ I‖z‖² + s²Q,
//! ```
//!
//! T, S, I and Q from [`LargestDerivatives`](super::proportional::LargestDerivatives), functions of the margins alone: the same
//! weights w_j follow, and with them every sum as above, for A is positive semi-definite and two
//! such matrices have an inner product of at least zero.
//!
//! **Persons.** Where a person may have several records, g, A and their bounds are sums over the
//! person's records, and one weight is that of all of them: one person moves every sum as one record
//! does above. The second moment is that of persons, so that errors are robust by person.

use super::Loss;
use super::clipped::Standardised;
use super::proportional::{Derivatives, Proportional, intercepts};
use crate::kernel;

/// What a record may add to the sums, and over which features they are taken.
#[derive(Clone, Copy, Debug)]
pub struct ScoreBounds<'a> {
    /// The features that are kept, in order.
    pub kept: &'a [usize],
    /// G; infinite where nothing is bounded, and then nothing is divided.
    pub gradient: f64,
    /// H; infinite with G.
    pub curvature: f64,
    /// s, where there are several intercepts: the last of `kept`, each at the end of its block.
    pub scale: f64,
}

/// Which matrix is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixSum {
    /// The information of the records' scores.
    Curvature,
    /// The second moment of the records' scores.
    Moment,
}

/// How many numbers a symmetric matrix has.
pub const fn triangle(size: usize) -> usize {
    size * (size + 1) / 2
}

/// A record's weighted score, its weighted information, and its row.
struct Weighted {
    score: f64,
    information: f64,
    norm: f64,
}

impl ScoreBounds<'_> {
    fn is_exact(&self) -> bool {
        self.gradient.is_infinite()
    }

    fn weighted(&self, loss: Loss, margin: f64, label: f64, norm: f64) -> Option<Weighted> {
        if self.is_exact() {
            let (score, information) = loss.slope_and_curvature(margin, label);
            return Some(Weighted { score, information, norm });
        }
        let one = loss.score(margin, label)?;
        let by_score = self.gradient / (one.bound * norm);
        let by_information = self.curvature / (one.most_information * norm * norm);
        let weight = by_score.min(by_information).min(1.0);
        let (score, information) = (weight * one.value, weight * one.information);
        let finite = score.is_finite() && information.is_finite();
        finite.then_some(Weighted { score, information, norm })
    }
}

impl Standardised {
    /// Calls `add` with the kept features of every record and what its score weighs.
    fn each(
        &self,
        loss: Loss,
        x: &[f64],
        bounds: &ScoreBounds<'_>,
        mut add: impl FnMut(&[f64], &Weighted),
    ) {
        let records = &self.records;
        let mut margins = vec![0.0; records.len()];
        kernel::all_margins(records.layout(), x, &mut margins);
        let up = 1.0 + (records.dim() + 8) as f64 * f64::EPSILON;
        let mut kept = vec![0.0; bounds.kept.len()];
        for (j, (&margin, &label)) in margins.iter().zip(records.labels()).enumerate() {
            let row = records.row(j);
            kept.iter_mut().zip(bounds.kept).for_each(|(kept, &l)| *kept = row[l]);
            let norm = kernel::norm(&kept) * up;
            if let Some(one) = bounds.weighted(loss, margin, label, norm) {
                add(&kept, &one);
            }
        }
    }

    /// The first sum of the [module](self) into the kept features of `sum`; the others are zero.
    pub fn scores_sum(&self, loss: Loss, x: &[f64], bounds: &ScoreBounds<'_>, sum: &mut [f64]) {
        sum.fill(0.0);
        if let Some(persons) = self.persons() {
            return self.each_person(persons, loss, x, bounds, |person| {
                bounds.kept.iter().zip(&person.score).for_each(|(&l, v)| sum[l] += v);
            });
        }
        if let Some(loss) = loss.proportional() {
            return self.each_of_several(loss, x, bounds, |record| {
                let vector = record.score(bounds);
                bounds.kept.iter().zip(vector).for_each(|(&l, v)| sum[l] += v);
            });
        }
        let unit = if bounds.is_exact() { 1.0 } else { bounds.gradient };
        self.each(loss, x, bounds, |z, one| {
            let mut factor = one.score / unit;
            if !bounds.is_exact() {
                let most = (1.0 - 4.0 * f64::EPSILON) / one.norm;
                factor = factor.clamp(-most, most);
            }
            bounds.kept.iter().zip(z).for_each(|(&l, z)| sum[l] += factor * z);
        });
    }

    /// One of the matrices of the [module](self) as its upper triangle, row by row, √2 times what
    /// stands beside the diagonal.
    pub fn matrix_sum(
        &self,
        loss: Loss,
        x: &[f64],
        bounds: &ScoreBounds<'_>,
        matrix: MatrixSum,
        sum: &mut [f64],
    ) {
        sum.fill(0.0);
        if let Some(persons) = self.persons() {
            let mut square = vec![0.0; sum.len()];
            return self.each_person(persons, loss, x, bounds, |person| {
                let made = match matrix {
                    MatrixSum::Curvature => &person.information,
                    MatrixSum::Moment => {
                        let score = &person.score;
                        fill_triangle(score.len(), &mut square, |a, b| score[a] * score[b]);
                        if !bounds.is_exact() {
                            shorten(&mut square);
                        }
                        &square
                    }
                };
                sum.iter_mut().zip(made).for_each(|(sum, made)| *sum += made);
            });
        }
        if let Some(loss) = loss.proportional() {
            let mut made = vec![0.0; sum.len()];
            return self.each_of_several(loss, x, bounds, |record| {
                match matrix {
                    MatrixSum::Curvature => record.information(bounds, &mut made),
                    MatrixSum::Moment => record.square(bounds, &mut made),
                }
                sum.iter_mut().zip(&made).for_each(|(sum, made)| *sum += made);
            });
        }
        let unit = match matrix {
            _ if bounds.is_exact() => 1.0,
            MatrixSum::Curvature => bounds.curvature,
            MatrixSum::Moment => bounds.gradient * bounds.gradient,
        };
        self.each(loss, x, bounds, |z, one| {
            let mut factor = match matrix {
                MatrixSum::Curvature => one.information / unit,
                MatrixSum::Moment => one.score * one.score / unit,
            };
            if !bounds.is_exact() {
                factor = factor.min((1.0 - 8.0 * f64::EPSILON) / (one.norm * one.norm));
            }
            let mut at = 0;
            for (a, &first) in z.iter().enumerate() {
                let (own, beside) = (factor * first, factor * first * std::f64::consts::SQRT_2);
                sum[at] += own * first;
                let end = at + z.len() - a;
                sum[at + 1..end].iter_mut().zip(&z[a + 1..]).for_each(|(s, z)| *s += beside * z);
                at = end;
            }
        });
    }
}

impl Standardised {
    /// By bin of the scores zᵀx, which end at `ends`, two numbers: how many records there are, and
    /// their outcomes less what x predicts, in units of `unit` and cut to ±1 each; both over √2, so
    /// that one record adds a vector that is at most one long.
    pub fn outcomes_sum(&self, loss: Loss, x: &[f64], ends: &[f64], unit: f64, sum: &mut [f64]) {
        sum.fill(0.0);
        let records = &self.records;
        let mut margins = vec![0.0; records.len()];
        kernel::all_margins(records.layout(), x, &mut margins);
        // A little less, so that a record's vector is no longer than one as computed.
        let one = std::f64::consts::FRAC_1_SQRT_2 * (1.0 - 4.0 * f64::EPSILON);
        for (&margin, &label) in margins.iter().zip(records.labels()) {
            let off = (loss.outcome_less_mean(margin, label) / unit).clamp(-1.0, 1.0);
            let bin = ends.iter().filter(|end| margin >= **end).count();
            if off.is_finite() && margin.is_finite() {
                sum[2 * bin] += one;
                sum[2 * bin + 1] += one * off;
            }
        }
    }
}

/// A record with several intercepts: its kept columns, its derivatives, and its weight.
struct OfSeveral<'a> {
    z: &'a [f64],
    one: &'a Derivatives,
    weight: f64,
}

impl OfSeveral<'_> {
    /// w·g/G, at most one long; w·g where nothing is bounded.
    fn score(&self, bounds: &ScoreBounds<'_>) -> Vec<f64> {
        let unit = if bounds.is_exact() { 1.0 } else { bounds.gradient };
        let factor = self.weight / unit;
        let total = factor * self.one.total;
        let residuals = self.one.residuals.iter().map(|r| factor * bounds.scale * r);
        let mut vector: Vec<f64> = self.z.iter().map(|z| total * z).chain(residuals).collect();
        if !bounds.is_exact() {
            shorten(&mut vector);
        }
        vector
    }

    /// w²·g gᵀ/G² as its upper triangle.
    fn square(&self, bounds: &ScoreBounds<'_>, out: &mut [f64]) {
        let vector = self.score(bounds);
        fill_triangle(vector.len(), out, |a, b| vector[a] * vector[b]);
        if !bounds.is_exact() {
            shorten(out);
        }
    }

    /// w·A/H as its upper triangle.
    fn information(&self, bounds: &ScoreBounds<'_>, out: &mut [f64]) {
        let unit = if bounds.is_exact() { 1.0 } else { bounds.curvature };
        let (factor, s, columns) = (self.weight / unit, bounds.scale, self.z.len());
        let rows = &self.one.sums;
        let (count, whole) = (rows.len(), rows.iter().sum::<f64>());
        fill_triangle(columns + count, out, |a, b| match (a < columns, b < columns) {
            (true, true) => factor * whole * self.z[a] * self.z[b],
            (true, false) => factor * s * self.z[a] * rows[b - columns],
            _ => {
                let (k, l) = (a - columns, b - columns);
                let entry = match l - k {
                    0 => self.one.own(k),
                    1 => self.one.beside[k],
                    _ => 0.0,
                };
                factor * s * s * entry
            }
        });
        if !bounds.is_exact() {
            shorten(out);
        }
    }
}

/// A person's weighted score and information, over G and H.
struct OfPerson {
    score: Vec<f64>,
    information: Vec<f64>,
}

/// A record's score and information over the kept features, not weighted, and what they are at most
/// whatever its label is.
struct Part {
    score: Vec<f64>,
    information: Vec<f64>,
    most_score: f64,
    most_information: f64,
}

impl Standardised {
    /// Calls `add` with what every person adds to the sums.
    fn each_person(
        &self,
        persons: &[Vec<u32>],
        loss: Loss,
        x: &[f64],
        bounds: &ScoreBounds<'_>,
        mut add: impl FnMut(&OfPerson),
    ) {
        let mut margins = vec![0.0; self.records.len()];
        kernel::all_margins(self.records.layout(), &x[..self.records.dim()], &mut margins);
        let size = bounds.kept.len();
        for rows in persons {
            let mut person =
                OfPerson { score: vec![0.0; size], information: vec![0.0; triangle(size)] };
            let (mut most_score, mut most_information) = (0.0, 0.0);
            for &row in rows {
                let row = row as usize;
                let Some(part) = self.part(row, margins[row], loss, x, bounds) else { continue };
                kernel::axpy(1.0, &part.score, &mut person.score);
                kernel::axpy(1.0, &part.information, &mut person.information);
                most_score += part.most_score;
                most_information += part.most_information;
            }
            if !bounds.is_exact() {
                let by_score = bounds.gradient / most_score;
                let weight = by_score.min(bounds.curvature / most_information).min(1.0);
                if !weight.is_finite() {
                    continue;
                }
                let (g, h) = (weight / bounds.gradient, weight / bounds.curvature);
                person.score.iter_mut().for_each(|v| *v *= g);
                person.information.iter_mut().for_each(|v| *v *= h);
                shorten(&mut person.score);
                shorten(&mut person.information);
            }
            add(&person);
        }
    }

    /// One record's part; `None` where a number is not finite.
    fn part(
        &self,
        row: usize,
        margin: f64,
        loss: Loss,
        x: &[f64],
        bounds: &ScoreBounds<'_>,
    ) -> Option<Part> {
        let (records, size) = (&self.records, bounds.kept.len());
        let (z, label) = (records.row(row), records.labels()[row]);
        let mut information = vec![0.0; triangle(size)];
        let exact = ScoreBounds { gradient: f64::INFINITY, curvature: f64::INFINITY, ..*bounds };
        if let Some(loss) = loss.proportional() {
            let (count, columns) = (loss.intercepts(), records.dim() - 1);
            let kept = &bounds.kept[..size - count];
            let z: Vec<f64> = kept.iter().map(|&l| z[l]).collect();
            let (mut margins, mut one) = (vec![0.0; count], Derivatives::new(count));
            loss.margins(margin - x[columns], intercepts(x, columns), &mut margins);
            loss.derivatives(&margins, label, &mut one);
            let (most, s) = (loss.most(&margins), bounds.scale * bounds.scale);
            let square: f64 = z.iter().map(|z| z * z).sum();
            let record = OfSeveral { z: &z, one: &one, weight: 1.0 };
            record.information(&exact, &mut information);
            return Some(Part {
                score: record.score(&exact),
                information,
                most_score: (most.total * most.total * square + s * most.squares).sqrt(),
                most_information: most.information * square + s * most.trace,
            });
        }
        let kept: Vec<f64> = bounds.kept.iter().map(|&l| z[l]).collect();
        let norm = kernel::norm(&kept) * (1.0 + (records.dim() + 8) as f64 * f64::EPSILON);
        let (value, weight, most_score, most_information) = if bounds.is_exact() {
            let (slope, curvature) = loss.slope_and_curvature(margin, label);
            (slope, curvature, 0.0, 0.0)
        } else {
            let one = loss.score(margin, label)?;
            let most = one.most_information * norm * norm;
            (one.value, one.information, one.bound * norm, most)
        };
        if !(value.is_finite() && weight.is_finite()) {
            return None;
        }
        fill_triangle(size, &mut information, |a, b| weight * kept[a] * kept[b]);
        let score = kept.iter().map(|z| value * z).collect();
        Some(Part { score, information, most_score, most_information })
    }
}

/// Writes a symmetric matrix as its upper triangle, √2 times what stands beside the diagonal.
fn fill_triangle(size: usize, out: &mut [f64], entry: impl Fn(usize, usize) -> f64) {
    let places = (0..size).flat_map(|a| (a..size).map(move |b| (a, b)));
    for (out, (a, b)) in out.iter_mut().zip(places) {
        *out = if a == b { entry(a, b) } else { std::f64::consts::SQRT_2 * entry(a, b) };
    }
}

/// Cuts a vector to length one; one that is not finite counts as zero.
fn shorten(vector: &mut [f64]) {
    let up = 1.0 + (vector.len() + 8) as f64 * f64::EPSILON;
    let norm = kernel::norm(vector) * up;
    if !norm.is_finite() {
        vector.fill(0.0);
    } else if norm > 1.0 {
        let by = 1.0 / (norm * (1.0 + 4.0 * f64::EPSILON));
        vector.iter_mut().for_each(|v| *v *= by);
    }
}

impl Standardised {
    /// Calls `add` with every record of a loss of several intercepts.
    fn each_of_several(
        &self,
        loss: Proportional,
        x: &[f64],
        bounds: &ScoreBounds<'_>,
        mut add: impl FnMut(&OfSeveral<'_>),
    ) {
        let (records, count) = (&self.records, loss.intercepts());
        let columns = records.dim() - 1;
        let kept = &bounds.kept[..bounds.kept.len() - count];
        let mut etas = vec![0.0; records.len()];
        kernel::all_margins(records.layout(), &x[..=columns], &mut etas);
        let (mut margins, mut one) = (vec![0.0; count], Derivatives::new(count));
        let mut z = vec![0.0; kept.len()];
        for (j, (&margin, &label)) in etas.iter().zip(records.labels()).enumerate() {
            let row = records.row(j);
            z.iter_mut().zip(kept).for_each(|(z, &l)| *z = row[l]);
            loss.margins(margin - x[columns], intercepts(x, columns), &mut margins);
            loss.derivatives(&margins, label, &mut one);
            let mut weight = 1.0;
            if !bounds.is_exact() {
                let (most, s) = (loss.most(&margins), bounds.scale * bounds.scale);
                let square: f64 = z.iter().map(|z| z * z).sum();
                let score = (most.total * most.total * square + s * most.squares).sqrt();
                let information = most.information * square + s * most.trace;
                weight = (bounds.gradient / score).min(bounds.curvature / information).min(1.0);
                if !weight.is_finite() {
                    continue;
                }
            }
            add(&OfSeveral { z: &z, one: &one, weight });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Records;

    /// However many records a person has, and whatever they are, their scores are at most one long
    /// together, and their matrices too.
    #[test]
    fn a_person_of_several_records_moves_sums_as_one_record() {
        let rows = [[2.5, -2.5, 1.0], [-2.5, 2.5, 1.0], [1e150, 1.0, 1.0], [9.0, -0.1, 1.0]];
        let all = [(Loss::Logistic, [-1.0, 1.0]), (Loss::Hazards { intervals: 2 }, [-1.5, 0.5])];
        for (loss, labels) in all {
            for scale in [0.0, 1.0, 30.0] {
                let kept = [0, 1, 2, 5];
                let kept = &kept[..2 + loss.outputs()];
                let bounds = ScoreBounds { kept, gradient: 1.5, curvature: 0.7, scale: 1.2 };
                let x: Vec<f64> = (0..6).map(|l| scale * [1.0, -0.5, 0.25][l % 3]).collect();
                let x = &x[..3 * loss.outputs()];
                let (mut sums, mut matrices) = (Vec::new(), Vec::new());
                for count in [1, 2, 7] {
                    for start in 0..8 {
                        let mut records = Records::with_capacity(3, count);
                        for j in 0..count {
                            records.push(&rows[(start + j) % 4], labels[(start + j / 2) % 2]);
                        }
                        let rows = Standardised::new(records.about(&vec![5; count]));
                        let mut sum = vec![0.0; x.len()];
                        rows.scores_sum(loss, x, &bounds, &mut sum);
                        sums.push(sum);
                        for kind in [MatrixSum::Curvature, MatrixSum::Moment] {
                            let mut matrix = vec![0.0; triangle(kept.len())];
                            rows.matrix_sum(loss, x, &bounds, kind, &mut matrix);
                            matrices.push(matrix);
                        }
                    }
                }
                for (all, most) in [(&sums, 2.0), (&matrices, 2f64.sqrt())] {
                    for a in all {
                        assert!(kernel::norm(a) <= 1.0, "{loss:?} {scale} {a:?}");
                        let near = |b: &Vec<f64>| kernel::distance(a, b) <= most + 1e-12;
                        assert!(all.iter().all(near), "{loss:?} {scale}");
                    }
                }
            }
        }
    }

    /// Replacing a record moves the outcomes in bins by at most √2, whatever it is.
    #[test]
    fn one_record_moves_outcomes_by_the_root_of_two() {
        let rows = [[2.5, -2.5, 1.0], [-0.1, 0.2, 1.0], [1e150, 1.0, 1.0], [9.0, -0.1, 1.0]];
        for (loss, labels) in LOSSES {
            let mut made: Vec<Vec<f64>> = vec![vec![0.0; 10]];
            for (row, label) in rows.into_iter().flat_map(|r| labels.map(|y| (r, y))) {
                let mut records = Records::with_capacity(3, 1);
                records.push(&row, label);
                let mut sum = vec![0.0; 10];
                let rows = Standardised::new(records);
                let ends = [-1.0, -0.2, 0.2, 1.0];
                rows.outcomes_sum(loss, &[0.3, -0.2, 0.1], &ends, 2.0, &mut sum);
                assert!(kernel::norm(&sum) <= 1.0, "{loss:?} {sum:?}");
                made.push(sum);
            }
            let apart =
                |a: &Vec<f64>| made.iter().map(|b| kernel::distance(a, b)).fold(0.0, f64::max);
            assert!(made.iter().map(apart).fold(0.0, f64::max) <= 2f64.sqrt(), "{loss:?}");
        }
    }

    /// Losses with several intercepts, whatever a record, the model and the label are.
    #[test]
    fn one_record_of_several_intercepts_moves_scores_by_two_and_matrices_by_the_root_of_two() {
        let rows = [[2.5, -2.5, 1.0], [-2.5, 2.5, 1.0], [1e150, 1.0, 1.0], [9.0, -0.1, 1.0]];
        let cases = [
            (Loss::Hazards { intervals: 3 }, [0.2, -0.2, 2.9, -3.0, 7.0]),
            (Loss::Ordinal { classes: 4 }, [0.0, 1.0, 2.0, 3.0, 3.0]),
        ];
        for (loss, labels) in cases {
            for scale in [0.0, 1.0, 30.0, 1e200] {
                for (gradient, curvature) in [(1e-3, 1e-3), (1.5, 0.7), (40.0, 900.0)] {
                    let kept = [0, 2, 5, 8];
                    let bounds = ScoreBounds { kept: &kept, gradient, curvature, scale: 1.4 };
                    let x: Vec<f64> = (0..9).map(|l| scale * [1.0, -0.5, 0.25][l % 3]).collect();
                    let mut made: [Vec<Vec<f64>>; 3] = Default::default();
                    for (row, label) in rows.into_iter().flat_map(|r| labels.map(|y| (r, y))) {
                        let mut records = Records::with_capacity(3, 1);
                        records.push(&row, label);
                        let rows = Standardised::new(records);
                        let (mut sum, mut matrix) = (vec![0.0; 9], vec![0.0; triangle(4)]);
                        rows.scores_sum(loss, &x, &bounds, &mut sum);
                        made[0].push(sum);
                        for (kind, made) in [MatrixSum::Curvature, MatrixSum::Moment]
                            .into_iter()
                            .zip(&mut made[1..])
                        {
                            rows.matrix_sum(loss, &x, &bounds, kind, &mut matrix);
                            made.push(matrix.clone());
                        }
                    }
                    for (sums, most) in made.iter().zip([2.0, 2f64.sqrt(), 2f64.sqrt()]) {
                        for a in sums {
                            assert!(kernel::norm(a) <= 1.0, "{loss:?} {scale} {a:?}");
                            let near = |b: &Vec<f64>| kernel::distance(a, b) <= most + 1e-12;
                            assert!(sums.iter().all(near), "{loss:?} {scale} {a:?}");
                        }
                    }
                }
            }
        }
    }

    const LOSSES: [(Loss, [f64; 2]); 6] = [
        (Loss::Logistic, [-1.0, 1.0]),
        (Loss::Probit { clip: 8.0 }, [-1.0, 1.0]),
        (Loss::Ridge { clip: f64::INFINITY }, [-1e12, 1e12]),
        (Loss::Poisson { clip: 50.0, most: 50.0 }, [0.0, 50.0]),
        (Loss::NegativeBinomial { clip: 9.0, dispersion: Some(0.7), most: 9.0 }, [0.0, 9.0]),
        (Loss::Gamma { clip: 20.0, dispersion: 0.6 }, [1e-3, 1e6]),
    ];

    /// Whatever a record, the model and the label are: its scores are at most one long, its matrices
    /// have norm at most one, and those of neighbours are at most 2 and √2 apart.
    #[test]
    fn one_record_moves_scores_by_two_and_matrices_by_the_root_of_two() {
        let rows = [
            [2.5, -2.5, 1.0],
            [-2.5, 2.5, 1.0],
            [1e-9, 0.0, 1.0],
            [1e150, 1.0, 1.0],
            [9.0, -0.1, 1.0],
        ];
        for (loss, labels) in LOSSES {
            for scale in [0.0, 1.0, 30.0, 1e200] {
                for (gradient, curvature) in [(1e-3, 1e-3), (1.5, 0.7), (40.0, 900.0)] {
                    let bounds = ScoreBounds { kept: &[0, 2], gradient, curvature, scale: 1.0 };
                    let x = [scale, -0.5 * scale, 0.25 * scale];
                    let mut made: [Vec<Vec<f64>>; 3] = Default::default();
                    for (row, label) in rows.into_iter().flat_map(|r| labels.map(|y| (r, y))) {
                        let mut records = Records::with_capacity(3, 1);
                        records.push(&row, label);
                        let rows = Standardised::new(records);
                        let (mut sum, mut matrix) = (vec![0.0; 3], vec![0.0; triangle(2)]);
                        rows.scores_sum(loss, &x, &bounds, &mut sum);
                        assert_eq!(sum[1], 0.0);
                        made[0].push(sum);
                        for (kind, made) in [MatrixSum::Curvature, MatrixSum::Moment]
                            .into_iter()
                            .zip(&mut made[1..])
                        {
                            rows.matrix_sum(loss, &x, &bounds, kind, &mut matrix);
                            made.push(matrix.clone());
                        }
                    }
                    for (sums, most) in made.iter().zip([2.0, 2f64.sqrt(), 2f64.sqrt()]) {
                        for a in sums {
                            assert!(kernel::norm(a) <= 1.0, "{loss:?} {scale} {a:?}");
                            let near = |b: &Vec<f64>| kernel::distance(a, b) <= most + 1e-12;
                            assert!(sums.iter().all(near), "{loss:?} {scale} {a:?}");
                        }
                    }
                }
            }
        }
    }
}
