//! Quantiles and histograms from bins that a strategy measured.

use super::{Answer, Expected, Reader, Slice, group_sizes};
use crate::columns::ColumnKind;
use crate::normal;
use crate::part::{Axis, Content, round};
use crate::plan::Plan;
use crate::question::Question;
use crate::strategy::Measured;

/// The quantiles of a question that names none.
const QUARTILES: [f64; 3] = [0.25, 0.5, 0.75];

pub(super) fn wanted(question: &Question) -> Vec<f64> {
    if question.q.is_empty() { QUARTILES.to_vec() } else { question.q.clone() }
}

/// The bins of a part: their axis, how they were measured, and the ends of the range.
pub(super) fn bins_of(plan: &Plan, part: usize) -> (&Axis, &Measured, [f64; 2]) {
    let Content::Bins { axis, measured, .. } = &plan.parts[part].content else {
        unreachable!("a route to bins leads to a part of bins")
    };
    let ColumnKind::Number { min, max } = plan.columns.get(axis.column).kind else {
        unreachable!("bins are of a number")
    };
    (axis, measured, [min, max])
}

/// The bins that lie in one bar of a histogram, as weights.
pub(crate) fn of_bar(bins: &Axis, bars: &Axis, bar: usize) -> Vec<f64> {
    let inside = |bin: usize| bars.cell(bins.inside(bin)) == bar;
    (0..bins.cells()).map(|bin| f64::from(u8::from(inside(bin)))).collect()
}

/// The nearest numbers that do not decrease: pools of neighbours that violate it.
pub(super) fn increasing(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for &v in values {
        let mut pool = (v, 1);
        while let Some(&(mean, size)) = pools.last().filter(|(mean, _)| *mean > pool.0) {
            pool = (
                (mean * size as f64 + pool.0 * pool.1 as f64) / (size + pool.1) as f64,
                size + pool.1,
            );
            pools.pop();
        }
        pools.push(pool);
    }
    pools.into_iter().flat_map(|(mean, size)| std::iter::repeat_n(mean, size)).collect()
}

/// Where a quantile lies among bins.
struct Found {
    /// Its bin, and the part of this that is below it.
    bin: usize,
    within: f64,
    /// The first bin of its interval, and the end of the last one.
    ends: [usize; 2],
    /// How likely noise has moved it out of each bin.
    chances: Vec<f64>,
}

impl Reader<'_> {
    pub(super) fn quantiles(&self, question: &Question, part: usize) -> Vec<Answer> {
        let (axis, measured, [min, max]) = bins_of(self.plan, part);
        let mut answers = Vec::new();
        for slice in self.slices(question, part) {
            let counts = measured.estimate(&slice.values);
            for q in wanted(question) {
                let found = self.quantile(&slice, measured, &counts, q);
                let unit = |k: f64| min + (max - min) * (k / counts.len() as f64).clamp(0.0, 1.0);
                let ([estimate, low, high], noise) = match axis.step {
                    Some(step) => {
                        let value = |k: usize| min + step * k as f64;
                        let (low, high) = (found.ends[0], found.ends[1] - 1);
                        let ends = [found.bin, low.min(found.bin), high.max(found.bin)].map(value);
                        let off = |(k, p): (usize, &f64)| p * (value(k) - ends[0]).powi(2);
                        let square: f64 = found.chances.iter().enumerate().map(off).sum();
                        (ends, square.sqrt())
                    }
                    None => {
                        let [low, high] = found.ends.map(|k| unit(k as f64));
                        let estimate = unit(found.bin as f64 + found.within);
                        let [low, high] = [low.min(estimate), high.max(estimate)];
                        ([estimate, low, high], (high - low) / (2.0 * self.z))
                    }
                };
                // What noise hardly ever moves is not exact.
                let noise = if slice.sigma > 0.0 { noise.max(1e-9 * (max - min)) } else { noise };
                let mut answer = Answer::new(&slice.group, "quantile", round(estimate))
                    .between(low, high, [min, max])
                    .noise(noise);
                answer.q = Some(q);
                let sum: f64 = counts.iter().sum();
                let all = slice.sigma * measured.prefix_variance(counts.len(), 0.0).sqrt();
                answer.below_noise = slice.records.is_none() && sum < self.z * all;
                answers.push(answer);
            }
        }
        answers
    }

    /// A quantile, and its interval: all bins where the distribution function cannot be told from
    /// q.
    fn quantile(&self, slice: &Slice, measured: &Measured, counts: &[f64], q: f64) -> Found {
        let (bins, z) = (counts.len(), self.z);
        // F(k) − q·n, with the sum of the bins as n where their number is not public.
        let mut below = Vec::with_capacity(bins + 1);
        let mut before = 0.0;
        let total: f64 = slice.records.unwrap_or_else(|| counts.iter().sum());
        for k in 0..=bins {
            below.push(before - q * total);
            before += counts.get(k).copied().unwrap_or(0.0);
        }
        let share = if slice.records.is_some() { 0.0 } else { q };
        let sampling = if self.plan.sampling { total.max(0.0) * q * (1.0 - q) } else { 0.0 };
        let variance = |k: usize| slice.sigma * slice.sigma * measured.prefix_variance(k, share);
        let deviation = |k: usize| (variance(k) + sampling).sqrt();
        let deviations: Vec<f64> = (0..=bins).map(deviation).collect();
        let open = |k: &usize| below[*k] > -z * deviations[*k];
        let shut = |k: &usize| below[*k] < z * deviations[*k];
        // The true quantile lies in a bin whose upper end has F ≥ q·n and whose lower end has less.
        let low = (1..=bins).find(open).unwrap_or(bins) - 1;
        let high = (0..bins).rev().find(shut).unwrap_or(0) + 1;
        let smooth = increasing(&below);
        let at = smooth.partition_point(|f| *f < 0.0).clamp(1, bins);
        let (a, b) = (smooth[at - 1], smooth[at]);
        let within = if b > a { ((0.0 - a) / (b - a)).clamp(0.0, 1.0) } else { 0.5 };
        // How likely the quantile lies below each end of a bin, which cannot decrease.
        let mut before = 0.0f64;
        let chance = |k: usize| {
            let deviation = deviations[k + 1];
            let below = match deviation > 0.0 {
                true => normal::cdf(smooth[k + 1] / deviation),
                false => f64::from(u8::from(k + 1 >= at)),
            };
            let chance = (below - before).max(0.0);
            before = before.max(below);
            chance
        };
        let chances = (0..bins).map(chance).collect();
        Found { bin: at - 1, within, ends: [low, high], chances }
    }

    /// A histogram that shares its bins with quantiles.
    pub(super) fn bars(&self, question: &Question, part: usize) -> Vec<Answer> {
        let (axis, measured, [min, max]) = bins_of(self.plan, part);
        let shown = question.bins.unwrap_or(16);
        let Some(bars) = Axis::equal(&self.plan.columns, axis.column, shown) else {
            return Vec::new();
        };
        let label = |k: usize| {
            let end = |k: usize| round(min + (max - min) * k as f64 / shown as f64);
            format!("[{}, {}{}", end(k), end(k + 1), if k + 1 == shown { "]" } else { ")" })
        };
        let mut answers = Vec::new();
        for slice in self.slices(question, part) {
            let counts = measured.estimate(&slice.values);
            let most = slice.records.unwrap_or_else(|| self.plan.records());
            for k in 0..shown {
                let w = of_bar(axis, &bars, k);
                let x: f64 = counts.iter().zip(&w).map(|(count, w)| count * w).sum();
                let noise = slice.sigma * measured.variance(&w).sqrt();
                let p = (x / most).clamp(0.0, 1.0);
                let sampling = if self.plan.sampling { most * p * (1.0 - p) } else { 0.0 };
                let half = self.z * (noise * noise + sampling).sqrt();
                let mut answer = Answer::new(&slice.group, "count", x)
                    .between(x - half, x + half, [0.0, most])
                    .noise(noise)
                    .level(&label(k));
                answer.below_noise = noise > 0.0 && x < self.z * noise;
                answers.push(answer);
            }
        }
        answers
    }
}

pub(super) fn expected(plan: &Plan, question: &Question, part: usize, sigma: f64) -> Vec<Expected> {
    let (axis, measured, range) = bins_of(plan, part);
    let (bins, info) = (axis.cells(), plan.columns.get(axis.column));
    if question.kind == crate::question::QuestionKind::Histogram {
        let bars = Axis::equal(&plan.columns, axis.column, question.bins.unwrap_or(16));
        let noise = bars.map_or(0.0, |bars| {
            sigma * measured.variance(&of_bar(axis, &bars, bars.cells() / 2)).sqrt()
        });
        return vec![Expected::of("count", None, noise, "records in each bar", "")];
    }
    let counted = question.by.as_deref().is_some_and(|by| by != "site");
    let mut all = Vec::new();
    for (group, records, assumed) in group_sizes(plan, question, part) {
        for q in wanted(question) {
            let share = if counted { q } else { 0.0 };
            // The estimate lies between two ends of bins, somewhere: its variance is the mean of that
            // of a weighted mean of both, which is a sixth of a bin's below that of an end. A bin of
            // one value is left where the rank passes its end.
            let rank = |k: usize| {
                let mut one = vec![0.0; bins];
                one[k.min(bins - 1)] = 1.0;
                let end = measured.prefix_variance(k.min(bins), share);
                let within = if axis.step.is_some() { 0.0 } else { measured.variance(&one) / 6.0 };
                sigma * (end - within).max(0.0).sqrt() / records
            };
            let sizes = if assumed { "groups of one size" } else { "" };
            let (Some(mean), Some(sd)) = (info.mean, info.sd) else {
                let (noise, unit) = (rank((q * bins as f64) as usize), "of the records, as a rank");
                let one = Expected::of("quantile", group.clone(), noise, unit, sizes);
                all.push(Expected { q: Some(q), ..one });
                continue;
            };
            // What a rank is in the column's unit where it is normal, and where the quantile lies.
            let [min, max] = range;
            let at = ((mean + sd * normal::quantile(q) - min) / (max - min)).clamp(0.0, 1.0);
            let density = normal::density(normal::quantile(q)) / sd;
            let noise = (rank((at * bins as f64) as usize) / density).min(max - min);
            let words: Vec<&str> =
                [sizes, "a normal column"].into_iter().filter(|w| !w.is_empty()).collect();
            let unit = format!("in the unit of {}", info.name);
            let mut one = Expected::of("quantile", group.clone(), noise, unit, words.join(", "));
            if axis.step.is_none() {
                one.resolution = 0.5 * (max - min) / bins as f64;
            }
            one.q = Some(q);
            one.range = Some(error_range(noise, one.resolution, axis.step));
            all.push(one);
        }
    }
    all
}

/// Between which the mean size of a quantile's error lies, where noise of this deviation in the
/// column's unit is expected of a normal column. Before it is asked nobody knows how many records
/// lie around a quantile, nor where among equal values it lies: the range is of columns that have
/// there between half and twice the records of a normal one.
///
/// Of values a step apart, a rank that is off by t steps' records gives floor(u + t), u being how
/// far the quantile lies into the records of its value, in \[0, 1). Over all u this is off by |t|
/// on average, exactly as on a line; for one u by Σ_k P(t ≥ k + 1 − u) + P(t < −(k + u)), which is
/// least at u = ½ and most at the ends. Where nobody says how far apart values are, many may be
/// equal, and the error may be 0.
fn error_range(noise: f64, resolution: f64, step: Option<f64>) -> [f64; 2] {
    let on_a_line = (2.0 / std::f64::consts::PI).sqrt();
    let Some(step) = step else { return [0.0, 2.0 * on_a_line * noise + resolution] };
    let beyond = |deviation: f64, from: f64| -> f64 {
        let tail = |k: usize| 1.0 - normal::cdf((k as f64 + from) * step / deviation);
        (0..).map(tail).take(10_000).take_while(|p| *p > 1e-12).sum()
    };
    let (few, many) = (2.0 * noise, 0.5 * noise);
    match noise > 0.0 {
        true => [2.0 * step * beyond(many, 0.5), step * (0.5 + 2.0 * beyond(few, 1.0))],
        false => [0.0, 0.0],
    }
}
