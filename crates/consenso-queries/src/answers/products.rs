//! Correlations and principal components.

use super::{Answer, Expected, Reader};
use crate::columns::ColumnKind;
use crate::linear;
use crate::part::{Content, LINEAR};
use crate::plan::Plan;

/// The part of half a range that a number's deviation is taken for where nothing is known.
const SPREAD: f64 = 0.4;

/// A correlation is not told closer to ±1 than this.
const EDGE: f64 = 0.999_999;

fn columns_of(plan: &Plan, part: usize) -> &[usize] {
    match &plan.parts[part].content {
        Content::Products { columns } => columns,
        _ => &[],
    }
}

/// Means of u_j and of u_j·u_l (j ≤ l), from their sums.
struct Means {
    linear: Vec<f64>,
    products: Vec<f64>,
    n: f64,
}

impl Means {
    fn place(&self, i: usize, j: usize) -> usize {
        let (i, j, k) = (i.min(j), i.max(j), self.linear.len());
        i * k - i * (i + 1) / 2 + j
    }

    fn covariance(&self, i: usize, j: usize) -> f64 {
        self.products[self.place(i, j)] - self.linear[i] * self.linear[j]
    }

    /// Whether noise of deviation `sigma` alone could have made the variance of u_i.
    fn is_noise(&self, i: usize, sigma: f64, z: f64) -> bool {
        let (of_sum, of_square) = (sigma / (LINEAR * self.n), sigma / self.n);
        let noise = libm::hypot(of_square, 2.0 * self.linear[i] * of_sum);
        self.covariance(i, i) <= z * noise
    }

    /// The correlation, and the variance of what noise of deviation `sigma` does to it.
    fn correlation(&self, i: usize, j: usize, sigma: f64) -> (f64, f64) {
        let least = 1e-6;
        let (vi, vj) = (self.covariance(i, i).max(least), self.covariance(j, j).max(least));
        let root = (vi * vj).sqrt();
        let r = self.covariance(i, j) / root;
        let (mi, mj) = (self.linear[i], self.linear[j]);
        let by_product = 1.0 / root;
        let (by_ii, by_jj) = (-0.5 * r / vi, -0.5 * r / vj);
        let by_mi = -mj / root + r * mi / vi;
        let by_mj = -mi / root + r * mj / vj;
        let (of_sum, of_square) = (sigma / (LINEAR * self.n), sigma / self.n);
        let of_product = of_square / std::f64::consts::SQRT_2;
        let variance = (by_product * of_product).powi(2)
            + (by_ii * of_square).powi(2)
            + (by_jj * of_square).powi(2)
            + (by_mi * of_sum).powi(2)
            + (by_mj * of_sum).powi(2);
        (r, variance)
    }
}

impl Reader<'_> {
    pub(super) fn products(&self, part: usize) -> Vec<Answer> {
        let columns = columns_of(self.plan, part);
        let (k, n) = (columns.len(), self.plan.records());
        let (values, sigma) = self.released.values(part, None);
        let mut at = k;
        let mut means = Means {
            linear: values[..k].iter().map(|v| v / (LINEAR * n)).collect(),
            products: Vec::new(),
            n,
        };
        for i in 0..k {
            for j in i..k {
                let twice = if i == j { 1.0 } else { std::f64::consts::SQRT_2 };
                means.products.push(values[at] / (twice * n));
                at += 1;
            }
        }
        let name = |c: usize| self.plan.columns.get(columns[c]).name.as_str();
        // Nothing is known of a correlation with a column whose variance could be noise.
        let unknown: Vec<bool> = (0..k).map(|i| means.is_noise(i, sigma, self.z)).collect();
        let (mut answers, mut matrix) = (Vec::new(), vec![0.0; k * k]);
        let (mut squares, mut fourths) = (0.0, 0.0);
        for i in 0..k {
            matrix[i * k + i] = 1.0;
            for j in i + 1..k {
                let level = format!("{} × {}", name(i), name(j));
                if unknown[i] || unknown[j] {
                    let nothing = Answer::new(&None, "correlation", 0.0).noise(1.0).level(&level);
                    let nothing = nothing.between(-1.0, 1.0, [-1.0, 1.0]);
                    answers.push(Answer { below_noise: sigma > 0.0, ..nothing });
                    (squares, fourths) = (squares + 1.0, fourths + 1.0);
                    continue;
                }
                let (r, noise) = means.correlation(i, j, sigma);
                let shown = r.clamp(-EDGE, EDGE);
                (matrix[i * k + j], matrix[j * k + i]) = (shown, shown);
                let sampling =
                    if self.plan.sampling { (1.0 - shown * shown).powi(2) / n } else { 0.0 };
                // Fisher's scale, on which a correlation's error does not depend on it.
                (squares, fourths) =
                    (squares + noise + sampling, fourths + (noise + sampling).powi(2));
                let half = self.z * (noise + sampling).sqrt() / (1.0 - shown * shown);
                let middle = libm::atanh(shown);
                let (low, high) = (libm::tanh(middle - half), libm::tanh(middle + half));
                let mut answer = Answer::new(&None, "correlation", shown)
                    .between(low, high, [-1.0, 1.0])
                    .noise(noise.sqrt())
                    .level(&level);
                answer.below_noise = shown.abs() < self.z * noise.sqrt();
                answers.push(answer);
            }
        }
        // ‖E‖² of the error E of the matrix, but for one tail of the level.
        let off = (2.0 * (squares + self.z * (2.0 * fourths).sqrt())).sqrt();
        answers.extend(components(&matrix, k, off, &name));
        answers
    }
}

/// The principal components of a matrix of correlations: the share of the variance that each has.
/// No eigenvalue moves further than the length of the matrix's error, `off` (Weyl), so that the
/// intervals of all components hold together.
fn components<'a>(
    matrix: &[f64],
    k: usize,
    off: f64,
    name: &dyn Fn(usize) -> &'a str,
) -> Vec<Answer> {
    let (values, vectors) = linear::eigen(matrix, k);
    // The eigenvalues of a matrix of correlations add up to its size.
    let (sum, off) = (k as f64, off / k as f64);
    let one = |(c, (value, vector)): (usize, (&f64, &Vec<f64>))| {
        let mut loads: Vec<(usize, f64)> = vector.iter().copied().enumerate().collect();
        loads.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        let words: Vec<String> =
            loads.iter().take(3).map(|(j, l)| format!("{:+.2} {}", l, name(*j))).collect();
        let share = value / sum;
        let below_noise = off > 0.0 && share <= off;
        // Nor are loads known where the share is not.
        let level = match below_noise {
            true => format!("{}", c + 1),
            false => format!("{}: {}", c + 1, words.join(" ")),
        };
        let mut answer = Answer::new(&None, "component", share)
            .between(share - off, share + off, [0.0, 1.0])
            .level(&level);
        answer.below_noise = below_noise;
        answer.noise = off;
        answer
    };
    values.iter().zip(&vectors).enumerate().take(3).map(one).collect()
}

pub(super) fn expected(plan: &Plan, part: usize, sigma: f64) -> Vec<Expected> {
    let columns = columns_of(plan, part);
    let spread = |c: usize| {
        let info = plan.columns.get(c);
        match (&info.kind, info.sd) {
            (ColumnKind::Number { min, max }, Some(sd)) => 2.0 * sd / (max - min),
            _ => SPREAD,
        }
    };
    let known = columns.iter().all(|&c| plan.columns.get(c).sd.is_some());
    let mut all = Vec::new();
    for (i, &a) in columns.iter().enumerate() {
        for &b in &columns[i + 1..] {
            let noise = sigma / std::f64::consts::SQRT_2 / (plan.records() * spread(a) * spread(b));
            let names = [a, b].map(|c| plan.columns.get(c).name.as_str()).join(" × ");
            let assuming = if known { "" } else { "deviations of a fifth of the range" };
            all.push(Expected::of("correlation", None, noise, format!("of {names}"), assuming));
        }
    }
    all
}
