//! Survival curves with their log-rank test and restricted means, and ROC curves.
//!
//! Times and scores lie in bins. In a bin with d events, c censored and r at risk at its beginning
//! the hazard is d/(r − c/2), so that who is censored was at risk for half of it; S = exp(−Σ d/e).
//! With bins this fine that is the Kaplan–Meier estimate up to Σ h²/2, and it is linear in what is
//! noised most.

use super::bins::{bins_of, increasing};
use super::{Answer, Expected, Reader, Slice, Test, group_sizes};
use crate::linear;
use crate::normal;
use crate::part::round;
use crate::plan::Plan;
use crate::question::{Question, QuestionKind};
use crate::strategy::Measured;

/// Points of a curve that are answered.
const POINTS: usize = 16;

/// Events of one group, and who was exposed to them, by bin.
struct Times {
    events: Vec<f64>,
    /// r − c/2.
    exposed: Vec<f64>,
}

impl Times {
    fn new(events: Vec<f64>, censored: &[f64]) -> Self {
        let mut at_risk = 0.0;
        let mut exposed = vec![0.0; events.len()];
        for k in (0..events.len()).rev() {
            at_risk += events[k] + censored[k];
            exposed[k] = at_risk - 0.5 * censored[k];
        }
        Self { events, exposed }
    }

    /// The cumulative hazard after every bin, up to the first in which as few are at risk as noise
    /// could be.
    ///
    /// The noise of d is part of that of e. To second order E\[d̂/ê\] = d/e − Cov(d̂, ê)/e² +
    /// d·Var(ê)/e³: over a hundred bins this adds up, so it is taken off; `noise` has both of every
    /// bin.
    fn hazard(&self, least: f64, noise: &[[f64; 2]]) -> Vec<f64> {
        let mut sum = 0.0;
        let enough = |e: &f64| *e > least.max(0.5);
        let bins = self.exposed.iter().zip(&self.events).take_while(|(e, _)| enough(e));
        bins.zip(noise)
            .map(|((e, d), [covariance, variance])| {
                sum += d / e + (covariance - d * variance / e) / (e * e);
                sum
            })
            .collect()
    }

    /// How Σ_m w_m·(d_m/e_m) moves with every event and every censored record, by bin.
    fn gradient(&self, w: &[f64]) -> [Vec<f64>; 2] {
        let bins = self.events.len();
        let (mut events, mut censored) = (vec![0.0; bins], vec![0.0; bins]);
        let mut before = 0.0;
        for j in 0..bins {
            let weight = w.get(j).copied().unwrap_or(0.0);
            if weight != 0.0 {
                let e = self.exposed[j];
                let own = weight * self.events[j] / (e * e);
                before += own;
                events[j] = weight / e - before;
                censored[j] = -(before - 0.5 * own);
            } else {
                (events[j], censored[j]) = (-before, -before);
            }
        }
        [events, censored]
    }
}

/// The variance of a functional of both halves.
fn variance(measured: &Measured, sigma: f64, gradient: &[Vec<f64>; 2]) -> f64 {
    sigma * sigma * gradient.iter().map(|g| measured.variance(g)).sum::<f64>()
}

/// Cov(d̂, ê) and Var(ê) of every bin over σ²: d is of events, e of events and censored records from
/// the bin on, with half of those that are censored in it.
fn noise_of_hazard(measured: &Measured, bins: usize) -> Vec<[f64; 2]> {
    let of_bin = |k: usize| {
        let unit: Vec<f64> = (0..bins).map(|i| f64::from(u8::from(i == k))).collect();
        let mut from: Vec<f64> = (0..bins).map(|i| f64::from(u8::from(i >= k))).collect();
        let (covariance, of_events) = (measured.covariance(&unit, &from), measured.variance(&from));
        from[k] = 0.5;
        [covariance, of_events + measured.variance(&from)]
    };
    (0..bins).map(of_bin).collect()
}

/// The halves of a group: the records of the first category, and of the second.
fn halves(measured: &Measured, slice: &Slice) -> [Vec<f64>; 2] {
    let (first, second) = slice.values.split_at(slice.values.len() / 2);
    [measured.estimate(first), measured.estimate(second)]
}

impl Reader<'_> {
    pub(super) fn survival(&self, question: &Question, part: usize) -> (Vec<Answer>, Vec<Test>) {
        let (axis, measured, [min, max]) = bins_of(self.plan, part);
        let (bins, width) = (axis.cells(), (max - min) / axis.cells() as f64);
        let horizon = question.horizon.unwrap_or(max);
        let until = (((horizon - min) / width).round() as usize).clamp(1, bins);
        let slices = self.slices(question, part);
        let all = measured.prefix_variance(bins, 0.0);
        let noise = noise_of_hazard(measured, bins);
        let curve = |slice: &Slice| {
            let [censored, events] = halves(measured, slice);
            let times = Times::new(events, &censored);
            let square = slice.sigma * slice.sigma;
            let noise: Vec<[f64; 2]> = noise.iter().map(|both| both.map(|v| square * v)).collect();
            let hazard = times.hazard(2.0 * self.z * slice.sigma * (2.0 * all).sqrt(), &noise);
            (times, hazard)
        };
        let curves: Vec<_> = slices.iter().map(curve).collect();
        // Where nobody says up to when, as far as all curves are known that are known for long
        // enough: means up to different times cannot be compared.
        let known = curves.iter().map(|(_, hazard)| hazard.len()).filter(|k| *k >= bins / 4);
        let until = match question.horizon {
            None => known.min().unwrap_or(until).min(until),
            Some(_) => until,
        };
        let (mut answers, mut groups) = (Vec::new(), Vec::new());
        for (slice, (times, hazard)) in slices.iter().zip(curves) {
            let of_time = |k: usize| min + width * k as f64;
            answers.extend(self.curve(slice, measured, &times, &hazard, &of_time));
            answers.push(self.restricted(
                slice,
                measured,
                (&times, &hazard),
                [until, bins],
                [min, max],
            ));
            groups.push(times);
        }
        let sigma: Vec<f64> = slices.iter().map(|s| s.sigma).collect();
        let test = log_rank(&groups, measured, &sigma);
        (answers, test.into_iter().collect())
    }

    /// S at some points, and the median.
    fn curve(
        &self,
        slice: &Slice,
        measured: &Measured,
        times: &Times,
        hazard: &[f64],
        of_time: &dyn Fn(usize) -> f64,
    ) -> Vec<Answer> {
        let bins = times.events.len();
        let smooth = increasing(hazard);
        let mut answers = Vec::new();
        for point in 1..=POINTS {
            let k = point * bins / POINTS;
            let answer = Answer::new(&slice.group, "survival", 0.0).at(round(of_time(k)));
            if k > hazard.len() {
                let nothing = answer.noise(0.5).between(0.0, 1.0, [0.0, 1.0]);
                answers.push(Answer { below_noise: true, ..nothing });
                continue;
            }
            let w: Vec<f64> = (0..bins).map(|i| f64::from(u8::from(i < k))).collect();
            let noise = variance(measured, slice.sigma, &times.gradient(&w));
            let greenwood: f64 = (0..k)
                .map(|i| times.events[i].max(0.0) / (times.exposed[i] * times.exposed[i]))
                .sum();
            let sampling = if self.plan.sampling { greenwood } else { 0.0 };
            let half = self.z * (noise + sampling).sqrt();
            let h = hazard[k - 1];
            let s = libm::exp(-smooth[k - 1].max(0.0));
            // Noise that lifts a curve above 1 must not make its interval narrow.
            let above = (libm::exp(-h) - 1.0).max(0.0);
            let (low, high) = (libm::exp(-h - half) - above, libm::exp(-h + half));
            // A curve that falls, in an interval that holds it: wider never covers less.
            let answer = Answer { estimate: s, ..answer }.between(low, high, [0.0, 1.0]);
            answers.push(answer.noise(s * noise.sqrt()));
        }
        answers
    }

    /// The mean time up to the horizon: the area under the curve.
    fn restricted(
        &self,
        slice: &Slice,
        measured: &Measured,
        (times, hazard): (&Times, &[f64]),
        [until, bins]: [usize; 2],
        [min, max]: [f64; 2],
    ) -> Answer {
        let width = (max - min) / bins as f64;
        let horizon = min + width * until as f64;
        let answer = Answer::new(&slice.group, "restricted mean", 0.0).at(round(horizon));
        let until_known = until.min(hazard.len());
        if until_known < until {
            let half = 0.5 * (horizon - min);
            let middle = Answer { estimate: min + half, ..answer }.noise(half);
            return Answer { below_noise: true, ..middle.between(min, horizon, [min, horizon]) };
        }
        // The mean of S over a bin, between its ends.
        let s = |k: usize| if k == 0 { 1.0 } else { libm::exp(-hazard[k - 1]) };
        let mean = |k: usize| 0.5 * (s(k) + s(k + 1));
        let area = min.max(0.0) + width * (0..until).map(mean).sum::<f64>();
        // −∂/∂h_m = width·(½S_m + Σ_{k>m} …): the area after bin m.
        let mut after = 0.0;
        let mut w = vec![0.0; bins];
        for m in (0..until).rev() {
            w[m] = -(width * 0.5 * s(m + 1) + after);
            after += width * mean(m);
        }
        let noise = variance(measured, slice.sigma, &times.gradient(&w));
        let greenwood = |m: usize| {
            w[m] * w[m] * times.events[m].max(0.0) / (times.exposed[m] * times.exposed[m])
        };
        let sampling =
            if self.plan.sampling { (0..until).map(greenwood).sum::<f64>() } else { 0.0 };
        let half = self.z * (noise + sampling).sqrt();
        Answer { estimate: area, ..answer }
            .between(area - half, area + half, [min.min(0.0), horizon])
            .noise(noise.sqrt())
    }

    pub(super) fn roc(&self, question: &Question, part: usize) -> Vec<Answer> {
        let (axis, measured, [min, max]) = bins_of(self.plan, part);
        let bins = axis.cells();
        let mut answers = Vec::new();
        for slice in self.slices(question, part) {
            let both = halves(measured, &slice);
            let (auc, noise, below) = area(measured, slice.sigma, &both, self.z);
            let [n0, n1] = [0, 1].map(|i: usize| both[i].iter().sum::<f64>());
            // Hanley and McNeil.
            let (q1, q2) = (auc / (2.0 - auc), 2.0 * auc * auc / (1.0 + auc));
            let hanley =
                (auc * (1.0 - auc) + (n1 - 1.0) * (q1 - auc * auc) + (n0 - 1.0) * (q2 - auc * auc))
                    / (n0 * n1);
            let sampling = if self.plan.sampling { hanley.max(0.0) } else { 0.0 };
            let half = self.z * (noise + sampling).sqrt();
            let answer = Answer::new(&slice.group, "auc", auc).noise(noise.sqrt());
            if below {
                let nothing = answer.noise(0.5).between(0.0, 1.0, [0.0, 1.0]);
                answers.push(Answer { below_noise: true, ..nothing });
                continue;
            }
            answers.push(answer.between(auc - half, auc + half, [0.0, 1.0]));
            for (class, what) in [(0, "false positive rate"), (1, "true positive rate")] {
                let falling = not_increasing(&both[class]);
                for point in 1..POINTS {
                    let k = point * bins / POINTS;
                    let answer = self.rate(&slice, measured, (&both[class], falling[k]), k, what);
                    answers.push(answer.at(round(min + (max - min) * k as f64 / bins as f64)));
                }
            }
        }
        answers
    }

    /// The share of one class with a score above the lower end of bin k, and how many these are where
    /// a higher threshold never has more.
    fn rate(
        &self,
        slice: &Slice,
        measured: &Measured,
        (counts, shown): (&[f64], f64),
        k: usize,
        what: &'static str,
    ) -> Answer {
        let bins = counts.len();
        let (above, all): (f64, f64) = (counts[k..].iter().sum(), counts.iter().sum());
        let w: Vec<f64> = (0..bins).map(|i| f64::from(u8::from(i >= k))).collect();
        let ones = vec![1.0; bins];
        let v = slice.sigma * slice.sigma;
        let p = (above / all).clamp(0.0, 1.0);
        let sampling = if self.plan.sampling { all.max(0.0) * p * (1.0 - p) } else { 0.0 };
        let variances = [
            v * measured.variance(&w) + sampling,
            v * measured.variance(&ones),
            v * measured.covariance(&w, &ones),
        ];
        let noise = (variances[0] - sampling - 2.0 * p * variances[2] + p * p * variances[1])
            .max(0.0)
            .sqrt()
            / all;
        let [low, high] = super::fieller(above, all, variances, self.z).unwrap_or([0.0, 1.0]);
        // The nearest curve that falls, in an interval that holds it: wider never covers less.
        let estimate = (shown / all).clamp(0.0, 1.0);
        Answer::new(&slice.group, what, estimate).between(low, high, [0.0, 1.0]).noise(noise)
    }
}

/// How many records lie in a bin or above it, made to fall: the nearest numbers that do.
fn not_increasing(counts: &[f64]) -> Vec<f64> {
    let mut below = 0.0;
    let negative = counts.iter().map(|count| {
        below += count;
        below - count
    });
    let all: f64 = counts.iter().sum();
    let rising: Vec<f64> = negative.collect();
    increasing(&rising).into_iter().map(|below| all - below).collect()
}

/// The area under the ROC curve, the variance of what noise does to it, and whether a class could
/// be noise alone.
fn area(
    measured: &Measured,
    sigma: f64,
    [negative, positive]: &[Vec<f64>; 2],
    z: f64,
) -> (f64, f64, bool) {
    let bins = negative.len();
    let (n0, n1): (f64, f64) = (negative.iter().sum(), positive.iter().sum());
    let ones = sigma * measured.variance(&vec![1.0; bins]).sqrt();
    let below = n0.min(n1) < 2.0 * z * ones || n0.min(n1) < 1.0;
    let (mut before, mut wins) = (0.0, 0.0);
    let mut rank_of_positive = vec![0.0; bins];
    for k in 0..bins {
        rank_of_positive[k] = before + 0.5 * negative[k];
        wins += positive[k] * rank_of_positive[k];
        before += negative[k];
    }
    let (mut after, mut rank_of_negative) = (0.0, vec![0.0; bins]);
    for k in (0..bins).rev() {
        rank_of_negative[k] = after + 0.5 * positive[k];
        after += positive[k];
    }
    let auc = wins / (n0 * n1);
    // ∂AUC/∂x = rank/(n0·n1) − AUC/n of its class.
    let by = |ranks: &[f64], n: f64| -> Vec<f64> {
        ranks.iter().map(|r| r / (n0 * n1) - auc / n).collect()
    };
    let noise = sigma
        * sigma
        * (measured.variance(&by(&rank_of_positive, n1))
            + measured.variance(&by(&rank_of_negative, n0)));
    (auc.clamp(0.0, 1.0), noise, below)
}

/// Whether groups survive alike: Σ over bins of observed less expected events of each group, with
/// the variance that chance and noise give it together.
fn log_rank(groups: &[Times], measured: &Measured, sigma: &[f64]) -> Option<Test> {
    let g = groups.len();
    if g < 2 {
        return None;
    }
    let bins = groups[0].events.len();
    let all = |f: &dyn Fn(&Times) -> f64| groups.iter().map(f).sum::<f64>();
    let events: Vec<f64> = (0..bins).map(|k| all(&|t| t.events[k])).collect();
    let exposed: Vec<f64> = (0..bins).map(|k| all(&|t| t.exposed[k])).collect();
    let ones = measured.variance(&vec![1.0; bins]);
    let noise: f64 = sigma.iter().map(|s| 2.0 * s * s * ones).sum::<f64>().sqrt();
    let until = exposed.iter().position(|e| *e <= (4.0 * noise).max(1.0)).unwrap_or(bins);
    if until == 0 {
        return None;
    }
    let k = g - 1;
    let (mut score, mut covariance) = (vec![0.0; k], vec![0.0; k * k]);
    for bin in 0..until {
        let (d, e) = (events[bin], exposed[bin]);
        for i in 0..k {
            let share = groups[i].exposed[bin] / e;
            score[i] += groups[i].events[bin] - d * share;
            for j in 0..k {
                let other = groups[j].exposed[bin] / e;
                let same = if i == j { share } else { 0.0 };
                covariance[i * k + j] += d * (same - share * other);
            }
        }
    }
    // How every score moves with every cell of every group.
    for (h, &sigma) in sigma.iter().enumerate() {
        let gradients: Vec<[Vec<f64>; 2]> =
            (0..k).map(|i| score_gradient(groups, (i, h), (&events, &exposed), until)).collect();
        for i in 0..k {
            for j in 0..k {
                let half = |c: usize| measured.covariance(&gradients[i][c], &gradients[j][c]);
                covariance[i * k + j] += sigma * sigma * (half(0) + half(1));
            }
        }
    }
    let inverse = linear::inverse(&covariance, k)?;
    let statistic = linear::form(&inverse, &score);
    let p = normal::chi_squared_tail(statistic, k);
    Some(Test { name: "log-rank", group: None, statistic, df: k, p })
}

/// How the score of group i moves with the events and the censored records of group h.
fn score_gradient(
    groups: &[Times],
    (i, h): (usize, usize),
    (events, exposed): (&[f64], &[f64]),
    until: usize,
) -> [Vec<f64>; 2] {
    let bins = events.len();
    let (mut by_event, mut by_censored) = (vec![0.0; bins], vec![0.0; bins]);
    let mut before = 0.0;
    for j in 0..bins {
        if j >= until {
            (by_event[j], by_censored[j]) = (-before, -before);
            continue;
        }
        let e = exposed[j];
        let share = groups[i].exposed[j] / e;
        let same = f64::from(u8::from(i == h));
        let own = events[j] * (same - share) / e;
        before += own;
        by_event[j] = same - share - before;
        by_censored[j] = -(before - 0.5 * own);
    }
    [by_event, by_censored]
}

pub(super) fn expected(plan: &Plan, question: &Question, part: usize, sigma: f64) -> Vec<Expected> {
    let (axis, measured, _) = bins_of(plan, part);
    let bins = axis.cells();
    let one = |(group, records, _): (Option<String>, f64, bool)| {
        if question.kind == QuestionKind::Roc {
            let each = vec![0.5 * records / bins as f64; bins];
            let (_, noise, _) = area(measured, sigma, &[each.clone(), each], 0.0);
            let assuming = "classes of one size that the score does not tell apart";
            return Expected::of("auc", group, noise.sqrt(), "", assuming);
        }
        let (times, assuming) = typical_times(plan, part, records);
        let middle = bins / 2;
        let w: Vec<f64> = (0..bins).map(|k| f64::from(u8::from(k < middle))).collect();
        let hazard =
            times.hazard(0.0, &vec![[0.0; 2]; bins]).get(middle - 1).copied().unwrap_or(0.0);
        let noise = variance(measured, sigma, &times.gradient(&w)).sqrt() * libm::exp(-hazard);
        Expected::of("survival", group, noise, "in the middle of the range", assuming)
    };
    group_sizes(plan, question, part).into_iter().map(one).collect()
}

/// Times as public numbers have them: exponential where the schema knows the mean of the column,
/// with the share of events that it knows; else spread evenly, half of them events.
fn typical_times(plan: &Plan, part: usize, records: f64) -> (Times, &'static str) {
    let (axis, _, [min, max]) = bins_of(plan, part);
    let bins = axis.cells();
    let known = plan.parts[part].outer.last().and_then(|two| two.shares.as_ref());
    let share = known.map_or(0.5, |shares| shares[1]);
    let mean = plan.columns.get(axis.column).mean.map(|m| (m - min) / (max - min));
    let Some(mean) = mean.filter(|m| *m > 0.01 && *m < 0.99) else {
        let each = |share: f64| vec![share * records / bins as f64; bins];
        let assuming = match known {
            Some(_) => "times spread evenly over the range",
            None => "times spread evenly over the range, half of them events",
        };
        return (Times::new(each(share), &each(1.0 - share)), assuming);
    };
    // The mean of an exponential time that is cut at 1 is (1 − e^(−r))/r, which falls with r.
    let (mut low, mut high) = (1e-3, 1e3);
    for _ in 0..60 {
        let r = f64::sqrt(low * high);
        let cut = -libm::expm1(-r) / r;
        if cut > mean { low = r } else { high = r }
    }
    let rate = f64::sqrt(low * high);
    let left = |k: usize| libm::exp(-rate * k as f64 / bins as f64);
    // Whoever is there at the end of the range has had no event.
    let within = (share / (1.0 - left(bins))).min(1.0);
    let mass = |k: usize| records * (left(k) - left(k + 1));
    let events = (0..bins).map(|k| within * mass(k)).collect();
    let mut censored: Vec<f64> = (0..bins).map(|k| (1.0 - within) * mass(k)).collect();
    censored[bins - 1] += records * left(bins);
    let assuming = match known {
        Some(_) => "exponential times",
        None => "exponential times, half of them events",
    };
    (Times::new(events, &censored), assuming)
}
