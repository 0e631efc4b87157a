//! How well a model does on labelled records, in the figures people judge by.

use crate::data::Records;
use crate::kernel;
use crate::problem::proportional::Proportional;
use crate::problem::{self, Loss};
use serde::{Deserialize, Serialize};

/// The figures of one model on one set of labelled records; those that mean nothing for the task
/// are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Labelled records.
    pub rows: usize,
    /// Share of records answered as they are labelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean over the classes of the share of their records that is answered right: 1/C for a model
    /// that answers one class for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balanced_accuracy: Option<f64>,
    /// Mean over the sites of the accuracy on each site's own test records, where it is known which
    /// are whose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_accuracy: Option<f64>,
    /// Area under the ROC curve, ties counted half. Two classes, both present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auc: Option<f64>,
    /// Average precision: the area under the precision–recall curve as a sum of steps. Two classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_precision: Option<f64>,
    /// F1 of the positive class; with more than two classes the mean of all classes' (macro F1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1: Option<f64>,
    /// Share of positive answers that are right. Two classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision: Option<f64>,
    /// Share of positive records that are found. Two classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall: Option<f64>,
    /// Mean negative logarithm of the probability given to the true class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_loss: Option<f64>,
    /// Probability from which the positive class is answered (above it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Records by true class (rows) and answered class (columns), in the order of the classes;
    /// means where several runs are averaged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<Vec<f64>>,
    /// Predicted probability against observed share, in ten bins; empty bins are left out. Two
    /// classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<CalibrationBin>,
    /// 1 − Σ(y − ŷ)² / Σ(y − ȳ)². Regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
    /// Root of the mean squared error. Regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    /// Mean absolute error. Regression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mae: Option<f64>,
    /// Mean unit deviance. Counts and amounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviance: Option<f64>,
    /// Harrell's C: of the pairs of which it is known who had the event first, the share in which that
    /// one had the higher hazard. Times until an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub c_index: Option<f64>,
    /// D², the share of the deviance around the mean label that is explained. Counts and amounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub d2: Option<f64>,
}

/// Records whose predicted probability lies in one tenth of \[0, 1\].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationBin {
    /// Which tenth, from 0.
    pub bin: usize,
    /// Records in it; a mean where several runs are averaged.
    pub count: f64,
    /// Their mean predicted probability of the positive class.
    pub predicted: f64,
    /// The share of them that is positive.
    pub observed: f64,
}

const BINS: usize = 10;

impl Metrics {
    /// Converts a regression's errors to units of which `scale` make one of these.
    pub(crate) fn in_units(mut self, scale: f64) -> Self {
        for error in [&mut self.rmse, &mut self.mae].into_iter().flatten() {
            *error *= scale;
        }
        self
    }

    /// The figures of model `x` on `records`, whose labels must all be known; `None` of no records.
    ///
    /// `threshold` is the probability above which the positive of two classes is answered: ½ where
    /// nothing else is said.
    #[must_use]
    pub fn of(loss: &Loss, records: &Records, x: &[f64], threshold: f64) -> Option<Self> {
        Self::of_scores(loss, &problem::scores(loss, records, x), records.labels(), threshold)
    }

    /// The figures of answers that were computed already: scores as [`problem::scores`] gives them,
    /// and true labels.
    #[must_use]
    pub(crate) fn of_scores(
        loss: &Loss,
        scores: &[f64],
        labels: &[f64],
        threshold: f64,
    ) -> Option<Self> {
        if labels.is_empty() {
            return None;
        }
        let metrics = match loss {
            Loss::Softmax { classes } => many(scores, labels, *classes),
            Loss::Ordinal { classes } => {
                let odds = Proportional::Odds { classes: *classes };
                let logs = |m: &[f64]| -> Vec<f64> {
                    odds.probabilities(m).into_iter().map(libm::log).collect()
                };
                let scores: Vec<f64> = scores.chunks_exact(classes - 1).flat_map(logs).collect();
                many(&scores, labels, *classes)
            }
            Loss::Hazards { intervals } => super::survival::figures(*intervals, scores, labels),
            Loss::StratifiedHazards(_) => {
                let c_index = super::survival::concordance(scores, labels);
                Self { c_index, ..Self::default() }
            }
            loss if loss.is_logistic() => two(scores, labels, threshold),
            loss if loss.has_probabilities() => {
                let odds: Vec<f64> = scores.iter().map(|m| margin_of(loss.mean(*m))).collect();
                two(&odds, labels, threshold)
            }
            // The scores of other margins are no log odds.
            loss if loss.is_binary() => Self {
                log_loss: None,
                threshold: None,
                calibration: Vec::new(),
                ..two(scores, labels, 0.5)
            },
            loss => link(loss, scores, labels),
        };
        Some(Self { rows: labels.len(), ..metrics })
    }

    /// The figures, in the label's own unit, of a model that learned its logarithm: both scores and
    /// labels are logarithms less `centre`, over `unit`.
    pub(crate) fn of_logs(
        scores: &[f64],
        labels: &[f64],
        (centre, unit): (f64, f64),
    ) -> Option<Self> {
        let back = |logs: &[f64]| -> Vec<f64> {
            logs.iter().map(|z| libm::exp(centre + unit * z)).collect()
        };
        (!labels.is_empty())
            .then(|| Self { rows: labels.len(), ..numbers(&back(scores), &back(labels)) })
    }

    /// Adds the mean accuracy over sites; `sites` says whose record each of these is.
    pub(crate) fn by_site(
        mut self,
        loss: &Loss,
        scores: &[f64],
        labels: &[f64],
        threshold: f64,
        sites: &[u32],
    ) -> Self {
        let width = scores.len() / labels.len().max(1);
        let all: std::collections::BTreeSet<u32> = sites.iter().copied().collect();
        let one = |site: &u32| {
            let rows = || (0..labels.len()).filter(|&row| sites[row] == *site);
            let scores: Vec<f64> =
                rows().flat_map(|row| &scores[row * width..][..width]).copied().collect();
            let labels: Vec<f64> = rows().map(|row| labels[row]).collect();
            Self::of_scores(loss, &scores, &labels, threshold)?.accuracy
        };
        let each: Option<Vec<f64>> = all.iter().map(one).collect();
        self.site_accuracy = each.map(|each| each.iter().sum::<f64>() / each.len() as f64);
        self
    }

    /// Means over runs: a bin of a calibration curve weighs by its records.
    #[must_use]
    pub fn mean(runs: &[Self]) -> Option<Self> {
        let first = runs.first()?;
        let over = |f: &dyn Fn(&Self) -> Option<f64>| {
            let each: Vec<f64> = runs.iter().filter_map(f).collect();
            (!each.is_empty()).then(|| each.iter().sum::<f64>() / each.len() as f64)
        };
        let count = runs.len() as f64;
        let cell = |r: usize, c: usize| runs.iter().map(|m| m.confusion[r][c]).sum::<f64>() / count;
        let size = first.confusion.len();
        let bin = |bin: usize| {
            let same = || runs.iter().flat_map(|m| &m.calibration).filter(move |b| b.bin == bin);
            let all: f64 = same().map(|b| b.count).sum();
            let mean =
                |f: fn(&CalibrationBin) -> f64| same().map(|b| b.count * f(b)).sum::<f64>() / all;
            let bin = |(predicted, observed)| CalibrationBin {
                bin,
                count: all / count,
                predicted,
                observed,
            };
            (all > 0.0).then(|| bin((mean(|b| b.predicted), mean(|b| b.observed))))
        };
        Some(Self {
            rows: first.rows,
            accuracy: over(&|m| m.accuracy),
            balanced_accuracy: over(&|m| m.balanced_accuracy),
            site_accuracy: over(&|m| m.site_accuracy),
            auc: over(&|m| m.auc),
            average_precision: over(&|m| m.average_precision),
            f1: over(&|m| m.f1),
            precision: over(&|m| m.precision),
            recall: over(&|m| m.recall),
            log_loss: over(&|m| m.log_loss),
            threshold: first.threshold,
            confusion: (0..size).map(|r| (0..size).map(|c| cell(r, c)).collect()).collect(),
            calibration: (0..BINS).filter_map(bin).collect(),
            r2: over(&|m| m.r2),
            rmse: over(&|m| m.rmse),
            mae: over(&|m| m.mae),
            deviance: over(&|m| m.deviance),
            c_index: over(&|m| m.c_index),
            d2: over(&|m| m.d2),
        })
    }

    /// The class that every record is answered with, if there is one and the records have several.
    #[must_use]
    pub(crate) fn only_answer(&self) -> Option<usize> {
        let answered = |class: usize| self.confusion.iter().any(|row| row[class] > 0.0);
        let present = self.confusion.iter().filter(|row| row.iter().any(|&n| n > 0.0)).count();
        let mut classes = (0..self.confusion.len()).filter(|&class| answered(class));
        let first = classes.next()?;
        (present > 1 && classes.next().is_none()).then_some(first)
    }

    /// Whether the area under the ROC curve can be told from one half, which records of two classes
    /// in no order have: by more than three of its standard errors, √((1/n₊ + 1/n₋)/12) there.
    pub(crate) fn ranks(&self) -> bool {
        let (Some(auc), [no, yes]) = (self.auc, &self.confusion[..]) else { return false };
        let of = |row: &Vec<f64>| 1.0 / row.iter().sum::<f64>();
        auc > 0.5 + 3.0 * ((of(no) + of(yes)) / 12.0).sqrt()
    }
}

/// σ(m): the probability of the positive class.
#[must_use]
pub fn probability(margin: f64) -> f64 {
    if margin >= 0.0 {
        1.0 / (1.0 + libm::exp(-margin))
    } else {
        let e = libm::exp(margin);
        e / (1.0 + e)
    }
}

/// The margin at which the positive class has this probability: 0 at ½, exactly.
#[must_use]
pub(crate) fn margin_of(threshold: f64) -> f64 {
    libm::log(threshold / (1.0 - threshold))
}

/// Class probabilities from the scores of one record.
#[must_use]
pub fn softmax(scores: &[f64]) -> Vec<f64> {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|s| libm::exp(s - top)).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|p| p / total).collect()
}

/// The class with the largest score; of equal ones the last, as everywhere in this software.
#[must_use]
pub(crate) fn best_class(scores: &[f64]) -> usize {
    scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |best| best.0)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn two(margins: &[f64], labels: &[f64], threshold: f64) -> Metrics {
    let cut = margin_of(threshold);
    let mut confusion = vec![vec![0.0; 2]; 2];
    for (&m, &y) in margins.iter().zip(labels) {
        confusion[usize::from(y > 0.0)][usize::from(m > cut)] += 1.0;
    }
    let precision = ratio(confusion[1][1], confusion[0][1] + confusion[1][1]);
    let recall = ratio(confusion[1][1], confusion[1][0] + confusion[1][1]);
    let pairs = || margins.iter().zip(labels);
    let (auc, average_precision) = ranking(pairs().map(|(&m, &y)| (m, y > 0.0)).collect());
    let mut losses: Vec<f64> = pairs().map(|(m, y)| -y * m).collect();
    kernel::all_log1p_exp(&mut losses);
    Metrics {
        auc,
        average_precision,
        f1: Some(ratio(2.0 * precision * recall, precision + recall)),
        precision: Some(precision),
        recall: Some(recall),
        log_loss: Some(losses.iter().sum::<f64>() / labels.len() as f64),
        threshold: Some(threshold),
        calibration: calibration(margins, labels),
        ..of_confusion(confusion)
    }
}

/// What follows from the confusion matrix alone, with macro F1.
fn of_confusion(confusion: Vec<Vec<f64>>) -> Metrics {
    let size = confusion.len();
    let total: f64 = confusion.iter().flatten().sum();
    let right: f64 = (0..size).map(|c| confusion[c][c]).sum();
    let of_class = |c: usize| confusion[c].iter().sum::<f64>();
    let answered = |c: usize| confusion.iter().map(|row| row[c]).sum::<f64>();
    let present: Vec<usize> = (0..size).filter(|&c| of_class(c) > 0.0).collect();
    let recalls: f64 = present.iter().map(|&c| confusion[c][c] / of_class(c)).sum();
    let f1 = |c: usize| ratio(2.0 * confusion[c][c], of_class(c) + answered(c));
    Metrics {
        accuracy: Some(right / total),
        balanced_accuracy: Some(recalls / present.len() as f64),
        f1: Some((0..size).map(f1).sum::<f64>() / size as f64),
        confusion,
        ..Metrics::default()
    }
}

/// AUC and average precision from scores and whether each is positive; `None` unless both classes
/// are there.
fn ranking(mut scored: Vec<(f64, bool)>) -> (Option<f64>, Option<f64>) {
    scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let positives = scored.iter().filter(|s| s.1).count();
    let negatives = scored.len() - positives;
    if positives == 0 || negatives == 0 {
        return (None, None);
    }
    let (p, n) = (positives as f64, negatives as f64);
    // Rank sum with mid-ranks for ties; precision at every threshold, from the least score up.
    let (mut rank_sum, mut precisions, mut start, mut below) = (0.0, 0.0, 0, 0);
    while start < scored.len() {
        let end = start + scored[start..].iter().take_while(|s| s.0 == scored[start].0).count();
        let here = scored[start..end].iter().filter(|s| s.1).count();
        rank_sum += (start + end + 1) as f64 / 2.0 * here as f64;
        let answered = (scored.len() - start) as f64;
        precisions += here as f64 / p * ((positives - below) as f64 / answered);
        below += here;
        start = end;
    }
    (Some((rank_sum - p * (p + 1.0) / 2.0) / (p * n)), Some(precisions))
}

fn calibration(margins: &[f64], labels: &[f64]) -> Vec<CalibrationBin> {
    let mut bins = [(0.0, 0.0, 0.0); BINS];
    for (&m, &y) in margins.iter().zip(labels) {
        let p = probability(m);
        if p.is_nan() {
            continue;
        }
        let bin = &mut bins[((p * BINS as f64) as usize).min(BINS - 1)];
        *bin = (bin.0 + 1.0, bin.1 + p, bin.2 + f64::from(u8::from(y > 0.0)));
    }
    let one = |(bin, &(count, predicted, observed)): (usize, &(f64, f64, f64))| {
        let bin =
            CalibrationBin { bin, count, predicted: predicted / count, observed: observed / count };
        (count > 0.0).then_some(bin)
    };
    bins.iter().enumerate().filter_map(one).collect()
}

fn many(scores: &[f64], labels: &[f64], classes: usize) -> Metrics {
    let mut confusion = vec![vec![0.0; classes]; classes];
    let mut loss = 0.0;
    for (scores, &y) in scores.chunks_exact(classes).zip(labels) {
        confusion[y as usize][best_class(scores)] += 1.0;
        let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = scores.iter().map(|s| libm::exp(s - top)).sum();
        loss += top + libm::log(total) - scores[y as usize];
    }
    Metrics { log_loss: Some(loss / labels.len() as f64), ..of_confusion(confusion) }
}

/// The figures of means that scores stand for, with the deviance where the loss is half of one.
fn link(loss: &Loss, scores: &[f64], labels: &[f64]) -> Metrics {
    let answers: Vec<f64> = scores.iter().map(|m| loss.mean(*m)).collect();
    let count = labels.len() as f64;
    let deviance = |margin: &dyn Fn(usize) -> f64| {
        let each = labels.iter().enumerate().map(|(j, &y)| loss.deviance(margin(j), y));
        each.sum::<Option<f64>>().map(|total| total / count)
    };
    let middle = loss.margin_of(labels.iter().sum::<f64>() / count);
    let (found, alone) = (deviance(&|j| scores[j]), deviance(&|_| middle));
    Metrics {
        deviance: found,
        d2: found.zip(alone).filter(|both| both.1 > 0.0).map(|(found, alone)| 1.0 - found / alone),
        ..numbers(&answers, labels)
    }
}

fn numbers(answers: &[f64], labels: &[f64]) -> Metrics {
    let count = labels.len() as f64;
    let mean = labels.iter().sum::<f64>() / count;
    let errors = || answers.iter().zip(labels).map(|(a, y)| a - y);
    let squares: f64 = errors().map(|e| e * e).sum();
    let spread: f64 = labels.iter().map(|y| (y - mean) * (y - mean)).sum();
    Metrics {
        r2: (spread > 0.0).then(|| 1.0 - squares / spread),
        rmse: Some((squares / count).sqrt()),
        mae: Some(errors().map(f64::abs).sum::<f64>() / count),
        ..Metrics::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Option<f64>, b: f64) {
        assert!((a.unwrap() - b).abs() < 1e-12, "{a:?} {b}");
    }

    /// Worked out by hand from the definitions that scikit-learn documents for `roc_auc_score`,
    /// `average_precision_score`, `f1_score`, `log_loss` and `balanced_accuracy_score`, on p =
    /// σ(margin), with a tie across the classes. A small site counts as much as a large one.
    #[test]
    fn accuracy_over_sites_is_the_mean_of_the_sites() {
        let (scores, labels, sites) = ([1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0], [0, 0, 0, 7]);
        let plain = Metrics::of_scores(&Loss::Logistic, &scores, &labels, 0.5).unwrap();
        assert_eq!((plain.accuracy, plain.site_accuracy), (Some(0.75), None));
        let judged = plain.by_site(&Loss::Logistic, &scores, &labels, 0.5, &sites);
        assert_eq!(judged.site_accuracy, Some(0.5));
        let softmax = Loss::Softmax { classes: 2 };
        let pairs = [0.0, 1.0, 1.0, 0.0, 0.0, 1.0];
        let labels = [1.0, 1.0, 1.0];
        let judged = Metrics::of_scores(&softmax, &pairs, &labels, 0.5).unwrap();
        assert_eq!(
            judged.by_site(&softmax, &pairs, &labels, 0.5, &[1, 1, 2]).site_accuracy,
            Some(0.75)
        );
    }

    #[test]
    fn two_classes_by_the_usual_definitions() {
        let margins = [-2.0, -1.0, -0.5, 0.25, 0.25, 1.0, 3.0, -0.75];
        let labels = [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0];
        let m = Metrics::of_scores(&Loss::Logistic, &margins, &labels, 0.5).unwrap();
        close(m.accuracy, 0.75);
        close(m.balanced_accuracy, 0.75);
        close(m.auc, 12.5 / 16.0);
        close(m.average_precision, 0.25 + 0.25 + 0.25 * 0.75 + 0.25 * 4.0 / 7.0);
        close(m.f1, 0.75);
        assert_eq!(m.confusion, [[3.0, 1.0], [1.0, 3.0]]);
        let loss: f64 =
            margins.iter().zip(labels).map(|(m, y)| (1.0 + (-y * m).exp()).ln()).sum::<f64>() / 8.0;
        close(m.log_loss, loss);
        assert_eq!(m.calibration.iter().map(|b| b.count).sum::<f64>(), 8.0);
        assert_eq!(m.only_answer(), None);
        let careful = Metrics::of_scores(&Loss::Logistic, &margins, &labels, 0.7).unwrap();
        assert_eq!(careful.confusion, [[4.0, 0.0], [2.0, 2.0]]);
    }

    #[test]
    fn one_answer_for_all_is_noticed() {
        let m = Metrics::of_scores(&Loss::Logistic, &[-1.0, -2.0, -0.1], &[-1.0, 1.0, -1.0], 0.5)
            .unwrap();
        assert_eq!(m.only_answer(), Some(0));
        close(m.balanced_accuracy, 0.5);
        // Records of one class cannot tell.
        let m = Metrics::of_scores(&Loss::Logistic, &[-1.0, -2.0], &[-1.0, -1.0], 0.5).unwrap();
        assert_eq!((m.only_answer(), m.auc), (None, None));
    }

    #[test]
    fn three_classes_and_numbers() {
        let scores = [2.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 3.0];
        let m =
            Metrics::of_scores(&Loss::Softmax { classes: 3 }, &scores, &[0.0, 1.0, 2.0, 2.0], 0.5);
        let m = m.unwrap();
        close(m.accuracy, 0.75);
        close(m.balanced_accuracy, 2.5 / 3.0);
        close(m.f1, (1.0 + 2.0 / 3.0 + 2.0 / 3.0) / 3.0);
        let ridge = Loss::Ridge { clip: f64::INFINITY };
        let m = Metrics::of_scores(&ridge, &[1.0, 2.0, 3.0], &[1.0, 2.0, 6.0], 0.5).unwrap();
        close(m.mae, 1.0);
        close(m.rmse, 3f64.sqrt());
        close(m.r2, 1.0 - 9.0 / 14.0);
        assert_eq!(m.accuracy, None);
    }

    #[test]
    fn means_over_runs() {
        let one = Metrics::of_scores(&Loss::Logistic, &[1.0, -1.0], &[1.0, -1.0], 0.5).unwrap();
        let other = Metrics::of_scores(&Loss::Logistic, &[1.0, -1.0], &[-1.0, -1.0], 0.5).unwrap();
        let mean = Metrics::mean(&[one.clone(), other]).unwrap();
        close(mean.accuracy, 0.75);
        close(mean.auc, 1.0);
        assert_eq!(mean.confusion, [[1.0, 0.5], [0.0, 0.5]]);
        assert_eq!(Metrics::mean(std::slice::from_ref(&one)).unwrap(), one);
    }
}
