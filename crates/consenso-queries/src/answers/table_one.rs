//! The first table of a paper: every column by group, with standardised differences.

use super::moments::Sums;
use super::{Answer, Reader, Slice};
use crate::plan::Route;
use crate::question::Question;

impl Reader<'_> {
    pub(super) fn table_one(&self, question: &Question, routes: &[(usize, Route)]) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (column, route) in routes {
            let name = self.plan.columns.get(*column).name.clone();
            let found = match route {
                Route::Moments(part) => self.number(question, *column, *part),
                Route::Cells(part) => self.categories(question, *part),
                _ => Vec::new(),
            };
            answers.extend(found.into_iter().map(|a| Answer { column: Some(name.clone()), ..a }));
        }
        answers
    }

    fn number(&self, question: &Question, column: usize, part: usize) -> Vec<Answer> {
        let slices = self.slices(question, part);
        let sums: Vec<Sums> = slices.iter().map(|s| Sums::of(&self.plan.parts[part], s)).collect();
        let mut answers: Vec<Answer> = slices
            .iter()
            .zip(&sums)
            .flat_map(|(slice, sums)| self.mean_and_sd(column, slice, sums))
            .collect();
        let first = &sums[0];
        for (slice, other) in slices.iter().zip(&sums).skip(1) {
            let spread = (0.5 * (first.variance() + other.variance())).sqrt();
            let noise = first.mean_noise() + other.mean_noise();
            let sampling = |s: &Sums| if self.plan.sampling { s.variance() / s.n } else { 0.0 };
            let variance = noise + sampling(first) + sampling(other);
            let by = [first.mean() - other.mean(), noise, variance];
            let below = first.below(self.z) || other.below(self.z);
            answers.push(self.difference(slice, by, spread, below));
        }
        answers
    }

    /// A difference in units of the pooled deviation.
    fn difference(&self, slice: &Slice, by: [f64; 3], spread: f64, below: bool) -> Answer {
        let [difference, noise, variance] = by;
        let (d, half) = (difference / spread, self.z * variance.sqrt() / spread);
        // No difference is larger than what a deviation of a tenth of the range allows.
        let possible = [-20.0, 20.0];
        if below || spread.is_nan() || spread <= 0.0 {
            let nothing = Answer::new(&slice.group, "difference", 0.0);
            return Answer { below_noise: true, ..nothing.between(-20.0, 20.0, possible) };
        }
        let mut answer = Answer::new(&slice.group, "difference", d)
            .between(d - half, d + half, possible)
            .noise(noise.sqrt() / spread);
        answer.below_noise = d.abs() < self.z * answer.noise;
        answer
    }

    fn categories(&self, question: &Question, part: usize) -> Vec<Answer> {
        let slices = self.slices(question, part);
        let axis = self.plan.parts[part].outer.last();
        let labels = axis.map(|a| a.labels.clone()).unwrap_or_default();
        let mut answers = Vec::new();
        for slice in &slices {
            for (cell, label) in labels.iter().enumerate() {
                answers.push(self.count(slice, cell).level(label));
                answers.push(self.share(slice, cell).level(label));
            }
        }
        for slice in slices.iter().skip(1) {
            for (cell, label) in labels.iter().enumerate() {
                let (p, q) = (self.share(&slices[0], cell), self.share(slice, cell));
                let spread = |a: &Answer| a.estimate * (1.0 - a.estimate);
                let both = (0.5 * (spread(&p) + spread(&q))).sqrt();
                let noise = p.noise.powi(2) + q.noise.powi(2);
                let sampling = |a: &Answer, s: &Slice| {
                    let n: f64 = s.records.unwrap_or_else(|| s.values.iter().sum());
                    if self.plan.sampling { spread(a) / n.max(1.0) } else { 0.0 }
                };
                let variance = noise + sampling(&p, &slices[0]) + sampling(&q, slice);
                let by = [p.estimate - q.estimate, noise, variance];
                let below = p.below_noise || q.below_noise;
                answers.push(self.difference(slice, by, both, below).level(label));
            }
        }
        answers
    }
}
