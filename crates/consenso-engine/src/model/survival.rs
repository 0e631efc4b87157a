//! What models of hazards are judged by.

use super::Metrics;
use super::metrics::CalibrationBin;
use crate::problem::proportional::Proportional;

/// Bins of predicted probabilities.
const BINS: usize = 10;

/// Harrell's C and the calibration of the probability of an event within the first half of the
/// intervals. Scores are margins, one per interval; labels are times counted in intervals, negative
/// where the event was not seen.
pub(super) fn figures(intervals: usize, scores: &[f64], labels: &[f64]) -> Metrics {
    let hazards: Vec<f64> = scores.chunks_exact(intervals).map(|m| m[0]).collect();
    let horizon = intervals.div_ceil(2);
    let loss = Proportional::Hazards { intervals };
    let risks: Vec<f64> =
        scores.chunks_exact(intervals).map(|m| 1.0 - loss.probabilities(m)[horizon - 1]).collect();
    Metrics {
        c_index: concordance(&hazards, labels),
        calibration: calibration(&risks, labels, horizon as f64),
        ..Metrics::default()
    }
}

/// Of the pairs of which it is known who had the event first, the share in which that one has the
/// higher hazard; equal hazards count half. Of two times that are the same, one with the event comes
/// before one without it, and two events are no pair.
pub(crate) fn concordance(hazards: &[f64], labels: &[f64]) -> Option<f64> {
    let mut sorted = hazards.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    let rank = |h: f64| sorted.partition_point(|s| *s < h);
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|&a, &b| labels[b].abs().total_cmp(&labels[a].abs()));
    let mut later = Counts(vec![0; sorted.len() + 1]);
    let (mut agree, mut pairs, mut at) = (0.0, 0.0, 0);
    while at < order.len() {
        let time = labels[order[at]].abs();
        let same = order[at..].iter().take_while(|&&j| labels[j].abs() == time).count();
        let (events, others): (Vec<usize>, Vec<usize>) =
            order[at..at + same].iter().partition(|&&j| labels[j] > 0.0);
        others.iter().for_each(|&j| later.add(rank(hazards[j])));
        for &j in &events {
            let place = rank(hazards[j]);
            let (below, upto) = (later.below(place), later.below(place + 1));
            agree += below as f64 + 0.5 * (upto - below) as f64;
            pairs += later.below(sorted.len()) as f64;
        }
        events.iter().for_each(|&j| later.add(rank(hazards[j])));
        at += same;
    }
    (pairs > 0.0).then(|| agree / pairs)
}

/// How many there are of each rank, as a tree of partial sums.
struct Counts(Vec<u64>);

impl Counts {
    fn add(&mut self, rank: usize) {
        let mut at = rank + 1;
        while at < self.0.len() {
            self.0[at] += 1;
            at += at & at.wrapping_neg();
        }
    }

    /// How many have a smaller rank.
    fn below(&self, rank: usize) -> u64 {
        let (mut at, mut sum) = (rank, 0);
        while at > 0 {
            sum += self.0[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }
}

/// Predicted probabilities of an event until `horizon` beside what Kaplan and Meier's estimate says
/// of the records in each tenth.
fn calibration(risks: &[f64], labels: &[f64], horizon: f64) -> Vec<CalibrationBin> {
    let bin_of = |p: f64| ((p * BINS as f64) as usize).min(BINS - 1);
    (0..BINS)
        .filter_map(|bin| {
            let rows: Vec<usize> = (0..risks.len()).filter(|&j| bin_of(risks[j]) == bin).collect();
            let count = rows.len() as f64;
            let predicted = rows.iter().map(|&j| risks[j]).sum::<f64>() / count;
            let own: Vec<f64> = rows.iter().map(|&j| labels[j]).collect();
            let observed = 1.0 - survived(&own, horizon);
            (count > 0.0).then_some(CalibrationBin { bin, count, predicted, observed })
        })
        .collect()
}

/// Kaplan and Meier's estimate of the probability to be without the event until `horizon`.
fn survived(labels: &[f64], horizon: f64) -> f64 {
    let mut events: Vec<f64> =
        labels.iter().copied().filter(|y| *y > 0.0 && *y <= horizon).collect();
    events.sort_by(f64::total_cmp);
    let (mut share, mut at) = (1.0, 0);
    while at < events.len() {
        let same = events[at..].iter().take_while(|t| **t == events[at]).count();
        let seen = labels.iter().filter(|y| y.abs() >= events[at]).count();
        share *= 1.0 - same as f64 / seen as f64;
        at += same;
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition, pair by pair.
    #[test]
    fn concordance_counts_the_pairs_that_are_known() {
        let hazards = [0.5f64, 1.0, 0.5, -1.0, 2.0, 0.1, 0.5];
        let labels = [3.0f64, 1.0, -3.0, -5.0, 0.5, 1.0, 2.0];
        let (mut agree, mut pairs) = (0.0, 0.0);
        for i in 0..7 {
            for j in 0..7 {
                let (a, b) = (labels[i], labels[j]);
                if a > 0.0 && (b.abs() > a || b == -a) {
                    pairs += 1.0;
                    agree += match hazards[i].total_cmp(&hazards[j]) {
                        std::cmp::Ordering::Greater => 1.0,
                        std::cmp::Ordering::Equal => 0.5,
                        std::cmp::Ordering::Less => 0.0,
                    };
                }
            }
        }
        let found = concordance(&hazards, &labels).unwrap();
        assert!((found - agree / pairs).abs() < 1e-15, "{found} {agree} {pairs}");
        assert_eq!(concordance(&[1.0], &[1.0]), None);
    }

    /// The textbook's: who is no longer seen counts until then.
    #[test]
    fn kaplan_and_meier_count_who_is_seen() {
        let labels = [1.0, -1.5, 2.0, 2.0, -3.0, 4.0];
        assert!((survived(&labels, 2.0) - (5.0 / 6.0) * (2.0 / 4.0)).abs() < 1e-15);
        assert_eq!(survived(&labels, 0.5), 1.0);
    }
}
