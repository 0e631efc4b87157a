//! Means, standard deviations and sums of a number.

use super::{Answer, Expected, Reader, Slice, assumption, fieller, group_sizes};
use crate::columns::ColumnKind;
use crate::part::{Content, Part, SQUARE};
use crate::plan::Plan;
use crate::question::{Question, QuestionKind};

/// How far from the middle of its range a mean is taken to lie where nothing is known, as a part
/// of half the range.
const OFF: f64 = 0.4;

/// Sums of one group: records, u, 2u² − 1, each with the variance of its noise.
pub(super) struct Sums {
    pub(super) n: f64,
    pub(super) s: f64,
    pub(super) a: f64,
    pub(super) noise: [f64; 3],
}

impl Sums {
    pub(super) fn of(part: &Part, slice: &Slice) -> Self {
        let [count, _, _] = part.moment_weights();
        let (n, vn) = match slice.records {
            Some(records) => (records, 0.0),
            None => (slice.values[0] / count, (slice.sigma / count).powi(2)),
        };
        let v = slice.sigma * slice.sigma;
        let noise = [vn, v, v / (SQUARE * SQUARE)];
        Self { n, s: slice.values[1], a: slice.values[2] / SQUARE, noise }
    }

    /// The mean of u.
    pub(super) fn mean(&self) -> f64 {
        (self.s / self.n).clamp(-1.0, 1.0)
    }

    /// The variance of u: A/2n + ½ − (S/n)², at most what its mean allows.
    pub(super) fn variance(&self) -> f64 {
        let mean = self.mean();
        (0.5 * self.a / self.n + 0.5 - mean * mean).clamp(0.0, 1.0 - mean * mean)
    }

    /// What noise does to the variance of u.
    fn variance_noise(&self) -> f64 {
        let (n, s) = (self.n, self.s);
        let by_n = -self.a / (2.0 * n * n) + 2.0 * s * s / (n * n * n);
        let [vn, vs, va] = self.noise;
        by_n * by_n * vn + (2.0 * s / (n * n)).powi(2) * vs + va / (4.0 * n * n)
    }

    /// Whether there are so few records that noise could be all of them.
    pub(super) fn below(&self, z: f64) -> bool {
        self.n <= z * self.noise[0].sqrt() || self.n < 1.0
    }

    /// What noise does to the mean of u.
    pub(super) fn mean_noise(&self) -> f64 {
        let mean = self.mean();
        (self.noise[1] + mean * mean * self.noise[0]) / (self.n * self.n)
    }
}

fn column_of(part: &Part) -> usize {
    match part.content {
        Content::Moments { column, .. } => column,
        _ => 0,
    }
}

/// The ends of a number's range.
fn range(plan: &Plan, column: usize) -> (f64, f64) {
    match plan.columns.get(column).kind {
        ColumnKind::Number { min, max } => (min, max),
        ColumnKind::Levels(_) => (0.0, 1.0),
    }
}

impl Reader<'_> {
    pub(super) fn moments(&self, question: &Question, number: usize) -> Vec<Answer> {
        let part = &self.plan.parts[number];
        let mut answers = Vec::new();
        for slice in self.slices(question, number) {
            let sums = Sums::of(part, &slice);
            match question.kind {
                QuestionKind::Sum => answers.push(self.sum(column_of(part), &slice, &sums)),
                _ => answers.extend(self.mean_and_sd(column_of(part), &slice, &sums)),
            }
        }
        answers
    }

    pub(super) fn mean_and_sd(&self, column: usize, slice: &Slice, sums: &Sums) -> [Answer; 2] {
        let (min, max) = range(self.plan, column);
        let (half, possible) = (0.5 * (max - min), [min, max]);
        let unit = |u: f64| min + half * (u + 1.0);
        let (mean, sd) = ("mean", "sd");
        if sums.below(self.z) {
            let nothing = |what, possible: [f64; 2]| {
                let middle = 0.5 * (possible[0] + possible[1]);
                let answer = Answer::new(&slice.group, what, middle).noise(half);
                let all = answer.between(possible[0], possible[1], possible);
                Answer { below_noise: true, ..all }
            };
            return [nothing(mean, possible), nothing(sd, [0.0, half])];
        }
        let sampling = if self.plan.sampling { sums.n * sums.variance() } else { 0.0 };
        let within = [sums.noise[1] + sampling, sums.noise[0], 0.0];
        let [low, high] = fieller(sums.s, sums.n, within, self.z).unwrap_or([-1.0, 1.0]);
        let mut mean = Answer::new(&slice.group, mean, unit(sums.s / sums.n))
            .between(unit(low), unit(high), possible)
            .noise(half * sums.mean_noise().sqrt());
        // Noise as wide as half the range could have made any mean.
        mean.below_noise = self.z * mean.noise >= half;
        let (v, noise) = (sums.variance(), sums.variance_noise());
        let sampling = if self.plan.sampling { 2.0 * v * v / sums.n } else { 0.0 };
        let by = self.z * (noise + sampling).sqrt();
        let root = |v: f64| half * v.max(0.0).sqrt();
        // How far one deviation of the variance moves its root: at 0 the slope has no end.
        let moved = 0.5 * (root(v + noise.sqrt()) - root(v - noise.sqrt()));
        let mut sd = Answer::new(&slice.group, sd, root(v))
            .between(root(v - by), root(v + by), [0.0, half])
            .noise(moved);
        sd.below_noise = noise > 0.0 && v < self.z * noise.sqrt();
        [mean, sd]
    }

    fn sum(&self, column: usize, slice: &Slice, sums: &Sums) -> Answer {
        let (min, max) = range(self.plan, column);
        let (half, middle) = (0.5 * (max - min), 0.5 * (max + min));
        let estimate = half * sums.s + middle * sums.n;
        let noise = (half * half * sums.noise[1] + middle * middle * sums.noise[0]).sqrt();
        let sampling =
            if self.plan.sampling { half * half * sums.n.max(0.0) * sums.variance() } else { 0.0 };
        let by = self.z * (noise * noise + sampling).sqrt();
        let most = slice.records.unwrap_or_else(|| self.plan.records());
        let possible = [(most * min).min(0.0), (most * max).max(0.0)];
        let possible = if slice.records.is_some() { [most * min, most * max] } else { possible };
        Answer::new(&slice.group, "sum", estimate)
            .between(estimate - by, estimate + by, possible)
            .noise(noise)
    }
}

pub(super) fn expected(
    plan: &Plan,
    question: &Question,
    number: usize,
    sigma: f64,
) -> Vec<Expected> {
    let part = &plan.parts[number];
    let column = column_of(part);
    let (min, max) = range(plan, column);
    let (half, middle) = (0.5 * (max - min), 0.5 * (max + min));
    let known = plan.columns.get(column).mean.map(|m| (m - middle) / half);
    let [count, _, _] = part.moment_weights();
    let noise_of_count = if count > 0.0 { sigma / count } else { 0.0 };
    let one = |(group, records, assumed): (Option<String>, f64, bool)| {
        let sum = question.kind == QuestionKind::Sum;
        let noise = if sum {
            libm::hypot(half * sigma, middle * noise_of_count)
        } else {
            half * libm::hypot(sigma, known.unwrap_or(OFF) * noise_of_count) / records
        };
        let open = known.is_none() && count > 0.0 && !sum;
        let assuming = match (assumed, open) {
            (true, true) => "groups of one size, a mean off the middle of the range",
            (true, false) => "groups of one size",
            (false, true) => "a mean off the middle of the range",
            (false, false) => "",
        };
        let unit = format!("in the unit of {}", plan.columns.get(column).name);
        let assuming = if assumed && !open { assumption(true) } else { assuming.into() };
        Expected::of(if sum { "sum" } else { "mean" }, group, noise, unit, assuming)
    };
    group_sizes(plan, question, number).into_iter().map(one).collect()
}
