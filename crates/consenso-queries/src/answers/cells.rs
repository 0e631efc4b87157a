//! Counts, shares, histograms and tables with their test of independence.

use super::{Answer, Expected, Reader, Slice, Test, assumption, fieller, group_sizes};
use crate::linear;
use crate::normal;
use crate::part::Axis;
use crate::plan::Plan;
use crate::question::{Question, QuestionKind};

/// A level of the axes that a group leaves, in words.
fn level(axes: &[Axis], mut cell: usize) -> String {
    let mut words = Vec::new();
    for axis in axes.iter().rev() {
        words.push(axis.labels[cell % axis.cells()].clone());
        cell /= axis.cells();
    }
    words.reverse();
    words.join(" × ")
}

impl Slice {
    /// Variance of a sum of cells with weights whose squares, and which themselves, add up to
    /// these numbers.
    pub(super) fn variance(&self, squares: f64, sum: f64) -> f64 {
        let tied = self.settled.map_or(0.0, |cells| sum * sum / cells as f64);
        self.sigma * self.sigma * (squares - tied).max(0.0)
    }
}

impl Reader<'_> {
    pub(super) fn cells(&self, question: &Question, part: usize) -> (Vec<Answer>, Vec<Test>) {
        let skip = usize::from(question.by.as_deref().is_some_and(|by| by != "site"));
        let axes = &self.plan.parts[part].outer[skip.min(self.plan.parts[part].outer.len())..];
        let (mut answers, mut tests) = (Vec::new(), Vec::new());
        for slice in self.slices(question, part) {
            let share = question.kind == QuestionKind::Share;
            for cell in 0..slice.values.len() {
                let answer =
                    if share { self.share(&slice, cell) } else { self.count(&slice, cell) };
                let named = !axes.is_empty();
                answers.push(if named { answer.level(&level(axes, cell)) } else { answer });
            }
            if question.kind == QuestionKind::Crosstab {
                tests.extend(independence(&slice, axes, self.plan.sampling));
            }
        }
        (answers, tests)
    }

    /// One cell as a number of records.
    pub(super) fn count(&self, slice: &Slice, cell: usize) -> Answer {
        let (x, noise) = (slice.values[cell], slice.variance(1.0, 1.0).sqrt());
        let most = slice.records.unwrap_or_else(|| self.plan.records());
        let p = (x / most).clamp(0.0, 1.0);
        let sampling = if self.plan.sampling { most * p * (1.0 - p) } else { 0.0 };
        let half = self.z * (noise * noise + sampling).sqrt();
        let mut answer = Answer::new(&slice.group, "count", x)
            .between(x - half, x + half, [0.0, most])
            .noise(noise);
        answer.below_noise = noise > 0.0 && x < self.z * noise;
        answer
    }

    /// One cell as a share of its group.
    pub(super) fn share(&self, slice: &Slice, cell: usize) -> Answer {
        let (x, cells) = (slice.values[cell], slice.values.len() as f64);
        let (sum, variance_of_sum, covariance) = match slice.records {
            Some(records) => (records, 0.0, 0.0),
            None => {
                let covariance = {
                    // Cov(x, Σ) = (Var(x + Σ) − Var(x) − Var(Σ))/2.
                    let (one, all) = (slice.variance(1.0, 1.0), slice.variance(cells, cells));
                    0.5 * (slice.variance(cells + 3.0, cells + 1.0) - one - all)
                };
                let sum = slice.values.iter().sum();
                (sum, slice.variance(cells, cells), covariance)
            }
        };
        let p = (x / sum).clamp(0.0, 1.0);
        let sampling = if self.plan.sampling { sum.max(0.0) * p * (1.0 - p) } else { 0.0 };
        let variance = slice.variance(1.0, 1.0);
        let within = [variance + sampling, variance_of_sum, covariance];
        let noise = ((variance - 2.0 * p * covariance + p * p * variance_of_sum).max(0.0)).sqrt()
            / sum.max(1.0);
        let raw = if sum > 0.0 { x / sum } else { p };
        let answer = Answer::new(&slice.group, "share", raw).noise(noise);
        match fieller(x, sum, within, self.z) {
            Some([low, high]) => {
                let mut answer = answer.between(low, high, [0.0, 1.0]);
                answer.below_noise = variance > 0.0 && x < self.z * variance.sqrt();
                answer
            }
            None => Answer { below_noise: true, ..answer.between(0.0, 1.0, [0.0, 1.0]) },
        }
    }
}

/// Whether the axes of a table are independent of each other: the least distance of the noised
/// table from one of independent axes, measured by the covariance that sampling and noise have
/// together, Σ = n(diag π − ππᵀ) + σ²I (Kifer and Rogers, 2017), which is χ² in distribution. The
/// margins are those of the noised table.
fn independence(slice: &Slice, axes: &[Axis], _sampling: bool) -> Option<Test> {
    let cells = slice.values.len();
    let n: f64 = slice.values.iter().sum();
    if n <= 0.0 || cells > 400 {
        return None;
    }
    let sizes: Vec<usize> = axes.iter().map(Axis::cells).collect();
    let place = |mut cell: usize| {
        let mut at = vec![0; sizes.len()];
        for (a, size) in sizes.iter().enumerate().rev() {
            (at[a], cell) = (cell % size, cell / size);
        }
        at
    };
    let places: Vec<Vec<usize>> = (0..cells).map(place).collect();
    let mut margins: Vec<Vec<f64>> = sizes.iter().map(|&s| vec![0.0; s]).collect();
    for (value, at) in slice.values.iter().zip(&places) {
        at.iter().zip(&mut margins).for_each(|(&k, margin)| margin[k] += value / n);
    }
    // A margin below noise would make shares negative.
    for margin in &mut margins {
        margin.iter_mut().for_each(|m| *m = m.max(0.5 / n));
        let sum: f64 = margin.iter().sum();
        margin.iter_mut().for_each(|m| *m /= sum);
    }
    let pi: Vec<f64> =
        places.iter().map(|at| at.iter().zip(&margins).map(|(&k, m)| m[k]).product()).collect();
    let noise = slice.sigma * slice.sigma;
    let mut covariance = vec![0.0; cells * cells];
    for i in 0..cells {
        for j in 0..cells {
            covariance[i * cells + j] = -n * pi[i] * pi[j];
        }
        covariance[i * cells + i] += n * pi[i] + noise + 1e-9 * n;
    }
    let inverse = linear::inverse(&covariance, cells)?;
    // What moves with the margins, and the total, is not evidence: their directions are taken out.
    let mut directions: Vec<Vec<f64>> = vec![pi.clone()];
    for (a, size) in sizes.iter().enumerate() {
        for k in 1..*size {
            let towards = |(at, p): (&Vec<usize>, &f64)| match at[a] {
                x if x == k => p / margins[a][k],
                0 => -p / margins[a][0],
                _ => 0.0,
            };
            directions.push(places.iter().zip(&pi).map(towards).collect());
        }
    }
    let residual: Vec<f64> = slice.values.iter().zip(&pi).map(|(x, p)| x - n * p).collect();
    let product = |v: &[f64], w: &[f64]| -> f64 {
        let row =
            |i: usize| inverse[i * cells..][..cells].iter().zip(w).map(|(a, b)| a * b).sum::<f64>();
        (0..cells).map(|i| v[i] * row(i)).sum()
    };
    let k = directions.len();
    let mut gram = vec![0.0; k * k];
    for i in 0..k {
        for j in 0..k {
            gram[i * k + j] = product(&directions[i], &directions[j]);
        }
    }
    let gram = linear::inverse(&gram, k)?;
    let along: Vec<f64> = directions.iter().map(|d| product(d, &residual)).collect();
    let statistic = (product(&residual, &residual) - linear::form(&gram, &along)).max(0.0);
    let df = cells - k;
    let p = normal::chi_squared_tail(statistic, df);
    Some(Test { name: "chi-squared", group: slice.group.clone(), statistic, df, p })
}

pub(super) fn expected(plan: &Plan, question: &Question, part: usize, sigma: f64) -> Vec<Expected> {
    let cells = plan.parts[part].groups() as f64;
    let noise = if cells > 1.0 { sigma * (1.0 - 1.0 / cells).sqrt() } else { 0.0 };
    let what = if question.kind == QuestionKind::Share { "share" } else { "count" };
    if question.kind != QuestionKind::Share && question.kind != QuestionKind::Summary {
        return vec![Expected::of(what, None, noise, "records in each cell", "")];
    }
    // Of groups whose size is noised, too: the variance of x − p·Σ is 1 − 2p + L·p² of a cell's, for
    // one of L levels. Shares of all levels are expected to be equal where nobody knows better.
    let noise = match (question.by.as_deref(), plan.parts[part].outer.last()) {
        (Some(by), Some(axis)) if by != "site" => {
            let levels = axis.cells() as f64;
            let squares = axis
                .shares
                .as_ref()
                .map_or(1.0 / levels, |all| all.iter().map(|share| share * share).sum());
            sigma * (1.0 - 2.0 / levels + squares).max(0.0).sqrt()
        }
        _ => noise,
    };
    let one = |(group, records, assumed): (Option<String>, f64, bool)| {
        Expected::of("share", group, noise / records, "of the records", assumption(assumed))
    };
    group_sizes(plan, question, part).into_iter().map(one).collect()
}
