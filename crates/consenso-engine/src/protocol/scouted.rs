//! Gradient descent on columns that were scouted first: what `kind = "dgd"` means with
//! `encoding = "scouted"`.
//!
//! Three stages, one composition (Gaussian noise, Σ μ_k² = μ²). In each, every site releases a
//! **sum over its records** in which one record has a bounded share, and all sites learn Σ_i
//! (w_i/b_i)·release_i exactly, so all derive the same result, bit for bit:
//!
//! 1. **Scout** (a tenth of μ²): one histogram per column and one of the label. A record adds one
//!    count to each of the m histograms, so replacing it moves them by at most √(2m) in l2. Centre
//!    and scale of every number, the shares of levels and classes follow from the noised sums.
//! 2. **Train**: K noisy sums of gradients on standardised rows, each record's gradient clipped to
//!    length G and divided by G ([`clipped`](crate::problem), with the proof): replacing a record
//!    moves a sum by at most 2, whatever the records are. Noise and claim are therefore known
//!    before anything is scouted; G itself follows from the public result of stage 1.
//! 3. **Calibrate** (classes; a twentieth of μ²): slope and offset of the score, one offset a class
//!    where there are several, [in one of two ways](self#calibration-where-noise-is-large).
//!
//! # Numbers of the plan
//! With w_i ∝ b_i²/(b_i + 4D/μ²), r = √Σ(w_i/b_i)² turns the noise of a site's sum into the noise
//! of the weighted mean. q = 4D(k − 1)r/μ compares the noise of a fitted model with the signal
//! there is to fit (D columns, k classes). All gradients together tell a gradient of the mean loss
//! up to noise of deviation ν = 2Gr/μ₂ a coordinate, however many they are. Let coefficients have
//! prior deviation τ, τ²d_eff = 0.49 (a score with a signal of 0.7). Along a direction of curvature
//! λ the estimate of least expected error is Wiener's, λτ²/(λ²τ² + ν²) of what Newton's step would
//! be times the gradient:
//!
//! - it follows the data where λ > ν/τ and gives up below. Gradient descent of total length S = Σ η
//!   follows directions of λ > 1/S, so **S = (8/5)τ/ν**: the mean of the last three quarters of the
//!   iterates, which is the model, has travelled five eighths of the way. The noise of the mean
//!   model depends on the steps through S alone: splitting it into more rounds costs nothing.
//! - At λ = h, the curvature of a standardised column, it is a **ridge ρ = ν²/(hτ²)** =
//!   ν²d_eff/(0.49h). The noise then has ρ/(h + ρ) of the scores' variance, which is what `plan`
//!   predicts.
//! - S grows and ρ falls with μ: with a larger budget the filter is closer to the optimum in every
//!   direction, so that **more budget is never worse** beyond the noise of a run: at fixed records
//!   the expected error λν²τ²/(λ²τ² + ν²) of each direction is increasing in ν, and ν ∝ 1/μ.
//!
//! The clip shrinks with √q, for a shorter clip trades bias for noise. Where slopes are bounded
//! (classes) nothing is gained by a clip beyond a record's usual length at the start. A
//! regression's residuals have no bound: a fixed clip would bias long-tailed labels for ever,
//! however large the budget, so there the clip grows as q falls, and its noise, which goes with
//! clip·q, still falls with √q. A number counts up to the distance from its centre at which it
//! alone would have half of a clipped gradient's squared length, and up to 2.5 scales in any case:
//! with little noise long tails are signal. Fine calibration clips so that its noise stays below
//! 0.05 a step: where a budget allows it nothing is clipped there, and its equations are those of
//! the likelihood itself.
//!
//! # Calibration where noise is large
//! A clipped gradient counts how many records pull the intercept, not how much, and follows the
//! commonest class; columns whose centre nobody could afford to find push all scores to one side; a
//! ridge makes scores too small. A direction can so be found (AUC 0.96) and its threshold lost
//! (accuracy 0.65). Five sums of little sensitivity mend it. Scores are divided by ω, the root of
//! the weights' mean square over score functions, times √features: standardised columns then give
//! scores of deviation near one whatever the ridge did.
//!
//! 1. The **mean score** m (a quarter of the stage), each record's clipped to ±4, shrunk by its
//!    known noise towards 0.
//! 2. **Four gradients** of the logistic loss in slope and offset of u = s/ω − m, |u| ≤ 2.5, each
//!    clipped. Let ν be what all of them leave of noise. With a prior of deviation τ the estimate
//!    of least error has a ridge ρ = ν²/(Hτ²) towards the prior's mean, as in training, and step k
//!    is a Newton step of length 1/k (H is public: 0.8 of what the loss has at even classes), so
//!    that the result is the mean of four Newton steps. The prior's slope is 1 ± 1 per deviation: a
//!    score with an AUC of 0.58 has a slope near 0.3, one of 0.96 near 2.5, and both must stay
//!    likely. Its offset ± 1 is where the scouted class shares lie if scores have deviation one,
//!    ln(π/(1 − π))·√(1 + π·1²/8), with shares shrunk by the noise of their cells.
//! 3. What is known of the offset has variance v, so **probabilities are moderated**: scores are
//!    divided by √(1 + πv/8), which leaves the threshold where it is and keeps the log loss of a
//!    guess from being that of a certainty.
//!
//! Where a calibration step's noise is below 0.02 at the shortest clip, slope and offset are found
//! by twelve plain gradients from where training ended, the last eight averaged.
//!
//! # Noise that neighbours share
//! Under `kind = "decor"` the two ends of every edge also add ± the same secret noise to their sums
//! ([`correlated`](crate::privacy::correlated)). The theorem there takes all messages as seen by
//! the coalition, so that sums may travel as below, and rounds as adaptive, so that stages may
//! follow one another. All sites weigh alike (w_i/b_i is one number), so shared noise cancels in
//! every total, and models, which are functions of totals, never hold any of it: nothing is lost by
//! making it as strong as its account goes. The mean-squared error of a total is N·σ², and σ² =
//! σ_local²·R with R the worst resistance, which falls with σ_cor/σ (Rayleigh): the largest ratio
//! has the least error. r below is multiplied by √R, and everything follows.
//!
//! # How sums travel
//! On a complete graph everybody hears everybody: one exchange a sum. Elsewhere partial sums go up
//! a breadth-first tree from a centre of the graph and the total comes down, 2·height exchanges,
//! each a public function of releases and free. Every connected graph gives the same model.

use super::{
    Assessed, Configured, Memory, Pairwise, Parameters, Partial, Parts, Protocol, PublicFacts,
    Relaying, View,
};
use crate::data::scouted::{BLIND_SCALE, LIMIT};
use crate::data::{RawColumn, RawLayout};
use crate::fault::Fault;
use crate::graph::Graph;
use crate::kernel;
use crate::problem::clipped::{self, ScoreRule, Standardised};
use crate::problem::loss::balanced_weights;
use crate::problem::weights::SiteWeights;
use crate::problem::{LocalObjective, Loss, Sensitivity, Workspace};
use crate::theory::{Assessment, Ground, Standing, short};
use std::sync::Arc;

/// Share of μ² that scouting gets.
const SCOUTING: f64 = 0.1;
/// Share of μ² that calibration gets.
const CALIBRATION: f64 = 0.05;
/// Gradients in (slope, offset), and how many of them are left out of the mean.
const CALIBRATION_STEPS: u32 = 12;
const CALIBRATION_SKIPPED: u32 = 4;
/// Shortest and longest that a record's calibration gradient is clipped to: none is longer than
/// √(1 + 3²) for scores within ±3.
const CALIBRATION_CLIP: (f64, f64) = (0.7, 3.2);
/// Noise of a calibration step that the clip is chosen for.
const CALIBRATION_AIM: f64 = 0.05;
/// Noise of a step of fine calibration, at its shortest clip, below which it is done.
const FINE_BELOW: f64 = 0.02;
/// Scores count up to this in calibration.
const SCORE_REACH: f64 = 3.0;
/// Part of coarse calibration that finds the mean score.
const COARSE_CENTRE: f64 = 0.25;
/// Newton steps of coarse calibration, and how long one may be.
const COARSE_STEPS: u32 = 4;
const COARSE_STEP: f64 = 3.0;
/// In deviations of a score: how far the mean score is looked for, and how far from it scores
/// count.
const COARSE_REACH: (f64, f64) = (4.0, 2.5);
/// What slopes are before anything is known, their deviation, and that of an offset.
const COARSE_PRIOR: (f64, f64, f64) = (1.0, 1.0, 1.0);
/// A class share's deviation before anything is known, times the number of classes.
const COARSE_SHARES: f64 = 0.4;
/// Cells below so many deviations of their noise count as empty.
const EMPTY_BELOW: f64 = 3.0;
/// A histogram that keeps less of its mass says nothing.
const MASS_NEEDED: f64 = 0.75;
/// Share of the last iterates whose mean is the model.
const AVERAGED: f64 = 0.75;
/// What a level's variance is raised by before it scales its feature: a level rarer than this
/// counts for less, the more so the noisier the run.
const RARE: (f64, f64) = (0.03, 0.1);
/// Squared deviation of the score that the noise is weighed against.
const SIGNAL: f64 = 0.49;
/// Between sites: the share of a coefficient's prior variance by which coefficients vary, and the
/// deviation of intercepts.
const PERSONAL_SHARE: f64 = 0.1;
const PERSONAL_OFFSET: f64 = 0.5;
/// Rounds of a run without noise, which uses accelerated steps.
const EXACT_STEPS: u32 = 400;

/// What is public before the first release, and all open choices.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) layout: Arc<RawLayout>,
    pub(crate) loss: Loss,
    /// Whether the two classes count half each, by the shares that scouting finds.
    pub(crate) balanced: bool,
    pub(crate) weights: SiteWeights,
    /// μ of the budget; `None` for a run that protects nobody.
    pub(crate) mu: Option<f64>,
    /// How often a record's share can move a sum: 2 for replacing a record, 1 for adding or
    /// removing one.
    pub(crate) reach: f64,
    /// Ridge of a run without noise.
    pub(crate) ridge: f64,
    /// Training steps, if the file says.
    pub(crate) steps: Option<u32>,
    /// Noise that neighbours share, and how much smaller a site's own noise may be for it: √R.
    pub(crate) pairwise: Option<(Pairwise, f64)>,
}

/// How slope and offset of the score are found.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Calibration {
    /// Twelve gradients from where training ended.
    Fine,
    /// The mean score, then four Newton steps around a prior.
    Coarse,
}

impl Calibration {
    fn sums(self) -> u32 {
        match self {
            Self::Fine => CALIBRATION_STEPS,
            Self::Coarse => 1 + COARSE_STEPS,
        }
    }

    /// Share of μ² of one of its sums.
    fn share_of(self, number: u32) -> f64 {
        match self {
            Self::Fine => CALIBRATION / f64::from(CALIBRATION_STEPS),
            Self::Coarse if number == 0 => CALIBRATION * COARSE_CENTRE,
            Self::Coarse => CALIBRATION * (1.0 - COARSE_CENTRE) / f64::from(COARSE_STEPS),
        }
    }
}

/// What every run of an experiment has in common: its timetable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// Training steps K.
    steps: u32,
    /// The third stage, if there is one.
    calibration: Option<Calibration>,
    /// Numbers in a message.
    pub(crate) width: usize,
    /// Exchanges a sum takes.
    exchanges: u32,
    /// Whether everybody hears everybody.
    complete: bool,
    /// Most records of a site.
    records: usize,
    /// Histograms that are released.
    histograms: usize,
    /// Share of μ² for them.
    scouting: f64,
    /// Most neighbours of a site.
    degree: usize,
}

impl Shape {
    /// Share of μ² of the first stage.
    fn scouting(&self) -> f64 {
        if self.histograms > 0 { self.scouting } else { 0.0 }
    }

    /// Share of μ² of the training steps.
    fn training(&self) -> f64 {
        1.0 - self.scouting() - self.calibration()
    }

    /// Share of μ² of the last stage.
    fn calibration(&self) -> f64 {
        self.calibration.map_or(0.0, |_| CALIBRATION)
    }

    /// Share of μ² of one of the sums of the last stage.
    fn calibration_of(&self, number: u32) -> f64 {
        self.calibration.map_or(0.0, |stage| stage.share_of(number))
    }
}

/// The choices for sites of given sizes.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    request: Request,
    /// w_i/b_i.
    factors: Vec<f64>,
    /// w_i.
    pub(crate) weights: Vec<f64>,
    /// r.
    pub(crate) r: f64,
    /// q.
    pub(crate) q: f64,
    /// Deviation of the noise of a cell of the mean histogram.
    cell_noise: f64,
    /// Cells of a number's histogram, 1 for none, and of a regression's label.
    bins: usize,
    label_bins: usize,
    /// Whether the numbers' histograms borrow from each other.
    pooled: bool,
    floor: f64,
    clip_share: f64,
    /// Length a record's calibration gradient is clipped to.
    calibration_clip: f64,
    calibration: Option<Calibration>,
    histograms: usize,
}

/// Share of μ² for scouting: what is known already needs none, and the noise of the other
/// histograms stays what it was.
fn scouting_share(layout: &RawLayout) -> f64 {
    let (unknown, all) = layout.unknown();
    SCOUTING * unknown.max(1) as f64 / all as f64
}

/// The longest clip, in units of a record's gradient at the start.
fn longest_clip(loss: Loss) -> f64 {
    match loss {
        Loss::Ridge { .. } => 64.0,
        // No residual counts for more than δ deviations.
        Loss::Huber { delta } => (1.5 * delta).clamp(1.0, 64.0),
        _ => 1.0,
    }
}

fn bins(noise: f64) -> usize {
    let most = 64.0;
    let wanted =
        libm::exp2(libm::floor(libm::log2((1.0 / (EMPTY_BELOW * noise)).clamp(1.0, most))));
    if wanted >= 8.0 { wanted as usize } else { 1 }
}

impl Recipe {
    /// The choices for sites with these numbers of records.
    ///
    /// # Errors
    /// Weights that do not fit.
    pub(crate) fn new(request: &Request, records: &[usize]) -> Result<Self, Fault> {
        let layout = &request.layout;
        let columns = layout.features() as f64;
        let even = request.mu.map_or(0.0, |mu| request.reach * 2.0 * columns / (mu * mu));
        let weights = request
            .weights
            .of(records, even)
            .map_err(|fault| Fault::at("weights", format!("weights: {fault}")))?;
        let factors: Vec<f64> = weights.iter().zip(records).map(|(w, &b)| w / b as f64).collect();
        let own = request.pairwise.map_or(1.0, |(_, own)| own);
        let r = own * factors.iter().map(|f| f * f).sum::<f64>().sqrt();
        let others = layout.classes().map_or(1, |k| k - 1) as f64;
        let per_mu = request.mu.map_or(0.0, |mu| request.reach / 2.0 * r / mu);
        let q = 4.0 * columns * others * per_mu;
        let all = layout.unknown().0.max(1);
        let per_cell = request.mu.map_or(0.0, |mu| r / (mu * scouting_share(layout).sqrt()));
        let cells = |m: usize| (request.reach * m as f64).sqrt() * per_cell;
        let p = layout.numbers();
        let pooled = p >= 4 && bins(cells(all)) < 16;
        let bins_found = if p == 0 {
            1
        } else if pooled {
            bins(cells(all) / (p as f64).sqrt())
        } else {
            bins(cells(all))
        };
        let label_bins = if layout.classes().is_some() { 1 } else { bins(cells(all)) };
        let levels =
            layout.columns().iter().filter(|c| matches!(c, RawColumn::Levels(k) if *k > 1)).count();
        let label = usize::from(if layout.classes().is_some() {
            layout.prevalence().is_none()
        } else {
            label_bins > 1
        });
        let histograms = levels + label + if bins_found > 1 { p } else { 0 };
        let per_clip = 2.0 * per_mu * (f64::from(CALIBRATION_STEPS) / CALIBRATION).sqrt();
        // The noise of a slope and an offset a class, as long as that of one slope and one offset
        // would be times this.
        let several = (0.5 * (1 + request.loss.outputs()) as f64).sqrt();
        Ok(Self {
            factors,
            weights,
            r,
            q,
            cell_noise: cells(histograms),
            bins: bins_found,
            label_bins,
            pooled,
            floor: q.clamp(RARE.0, RARE.1),
            clip_share: (0.35 / q.sqrt()).clamp(0.4, longest_clip(request.loss)),
            calibration_clip: (CALIBRATION_AIM / per_clip)
                .clamp(CALIBRATION_CLIP.0, CALIBRATION_CLIP.1),
            // Weighted classes have no probabilities to calibrate.
            calibration: (request.mu.is_some()
                && matches!(request.loss, Loss::Logistic | Loss::Softmax { .. })
                && !request.balanced)
                .then_some(if CALIBRATION_CLIP.0 * per_clip * several < FINE_BELOW {
                    Calibration::Fine
                } else {
                    Calibration::Coarse
                }),
            histograms,
            request: request.clone(),
        })
    }

    /// Enough steps that each is a fifth of 1/h at most, as it looks before anything is scouted.
    fn default_steps(&self) -> u32 {
        let Some(mu) = self.request.mu else { return EXACT_STEPS };
        let training = 1.0 - SCOUTING - self.calibration.map_or(0.0, |_| CALIBRATION);
        let blind = self.request.layout.blind(self.floor);
        libm::ceil(5.0 * self.time(training, &blind, mu)).clamp(32.0, 240.0) as u32
    }

    /// ν: the noise that all training gradients together leave in one, with this share of μ².
    fn noise(&self, training: f64, standard: &[f64], mu: f64) -> f64 {
        self.request.reach * self.longest(standard) * self.r / (mu * training.sqrt())
    }

    /// What a unit of the released sums stands for: a record counts at most as the heaviest class.
    fn longest(&self, standard: &[f64]) -> f64 {
        self.clip(standard) * self.loss(standard).heaviest()
    }

    /// T = (8/5)hτ/ν, divided by the number of score functions that share the signal.
    fn time(&self, training: f64, standard: &[f64], mu: f64) -> f64 {
        let others = self.request.layout.classes().map_or(1, |k| k - 1) as f64;
        let prior = (SIGNAL / self.request.layout.effective_dim(standard).max(1.0)).sqrt();
        let travelled = 1.0 - AVERAGED / 2.0;
        let noise = self.noise(training, standard, mu) * travelled * others;
        (self.curvature(standard) * prior / noise).clamp(3.0, 60.0)
    }

    /// How far from its centre a number counts.
    fn limit(&self, standard: &[f64]) -> f64 {
        let deff = self.request.layout.effective_dim(standard);
        (self.clip_share * ((deff + 1.0) / 2.0).sqrt()).max(LIMIT)
    }

    fn coefficients(&self) -> usize {
        self.request.loss.outputs() * (self.request.layout.features() + 1)
    }

    fn cells(&self) -> usize {
        let layout = &self.request.layout;
        (0..layout.columns().len()).map(|c| self.column_cells(c)).sum::<usize>()
            + self.label_cells()
    }

    fn column_cells(&self, column: usize) -> usize {
        match self.request.layout.columns()[column] {
            RawColumn::Number if self.request.layout.known(column).is_some() => 0,
            RawColumn::Number if self.bins > 1 => self.bins,
            RawColumn::Levels(levels) if levels > 1 => levels,
            _ => 0,
        }
    }

    fn label_cells(&self) -> usize {
        match self.request.layout.classes() {
            Some(_) if self.request.layout.prevalence().is_some() => 0,
            Some(classes) => classes,
            None if self.label_bins > 1 => self.label_bins,
            None => 0,
        }
    }

    /// Counts this site's records into `cells`.
    fn count(&self, local: &LocalObjective, cells: &mut [f64]) {
        cells.fill(0.0);
        let records = local.mean_loss().expect("only records have columns").records();
        let layout = &self.request.layout;
        let cell = |value: f64, bins: usize| ((value * bins as f64) as usize).min(bins - 1);
        for index in 0..records.len() {
            let mut at = 0;
            for (c, (value, &column)) in
                records.row(index).into_iter().zip(layout.columns()).enumerate()
            {
                let width = self.column_cells(c);
                if width > 0 {
                    let place = if column == RawColumn::Number {
                        cell(value, width)
                    } else {
                        value as usize
                    };
                    cells[at + place.min(width - 1)] += 1.0;
                }
                at += width;
            }
            let label = records.labels()[index];
            let width = self.label_cells();
            if width > 0 {
                let place = match layout.task() {
                    crate::data::Task::Binary => usize::from(label > 0.0),
                    crate::data::Task::MultiClass { .. } => label as usize,
                    crate::data::Task::Regression { min, max } => {
                        cell((label - min) / (max - min), width)
                    }
                };
                cells[at + place.min(width - 1)] += 1.0;
            }
        }
    }

    /// The standard that the sum of all noised histograms gives.
    fn standard(&self, cells: &[f64]) -> Vec<f64> {
        let (layout, noise) = (&self.request.layout, self.cell_noise);
        let (bins, p) = (self.bins, layout.numbers());
        let (mut pooled, mut keep, mut left) = (vec![0.0; bins], 1.0, noise);
        if bins > 1 && self.pooled {
            let mut at = 0;
            let mut numbers = Vec::new();
            for (c, &column) in layout.columns().iter().enumerate() {
                let width = self.column_cells(c);
                if column == RawColumn::Number && width > 0 {
                    numbers.push(&cells[at..at + width]);
                }
                at += width;
            }
            for h in &numbers {
                pooled.iter_mut().zip(*h).for_each(|(m, h)| *m += h / p as f64);
            }
            let squares =
                |h: &&[f64]| h.iter().zip(&pooled).map(|(h, m)| (h - m) * (h - m)).sum::<f64>();
            let between = numbers.iter().map(squares).sum::<f64>() / ((p - 1) * bins) as f64;
            keep = (1.0 - noise * noise / between.max(f64::MIN_POSITIVE)).max(0.0);
            let alone = noise / (p as f64).sqrt();
            left = ((keep * noise).powi(2) + ((1.0 - keep) * alone).powi(2)).sqrt();
        }
        let mut standard = Vec::with_capacity(layout.standard_len());
        let mut at = 0;
        for (c, &column) in layout.columns().iter().enumerate() {
            let width = self.column_cells(c);
            let found = &cells[at..at + width];
            match column {
                RawColumn::Number if width > 0 => {
                    let shrunk = found.iter().zip(&pooled).map(|(h, m)| m + keep * (h - m));
                    standard.extend(centre_and_scale(shrunk, left));
                }
                RawColumn::Number => standard.extend(layout.known(c).unwrap_or([0.5, BLIND_SCALE])),
                RawColumn::Levels(levels) if width > 0 => {
                    standard.extend(shares(found, noise, levels));
                }
                RawColumn::Levels(levels) => standard.extend(vec![1.0; levels]),
            }
            at += width;
        }
        match layout.classes() {
            Some(classes) => {
                let mut found = match layout.prevalence() {
                    Some(known) => known.to_vec(),
                    None => shares(&cells[at..at + classes], noise, classes),
                };
                found.iter_mut().for_each(|p| *p = p.max(0.02));
                let total: f64 = found.iter().sum();
                standard.extend(found.iter().map(|p| p / total));
            }
            None if self.label_bins > 1 => {
                let found = &cells[at..at + self.label_bins];
                standard.extend(centre_and_scale(found.iter().copied(), noise));
            }
            None => standard.extend([0.5, BLIND_SCALE]),
        }
        standard.extend([self.floor, LIMIT]);
        let last = standard.len() - 1;
        standard[last] = self.limit(&standard);
        standard
    }

    /// The model before the first step: the class shares alone.
    fn start(&self, standard: &[f64], x: &mut [f64]) {
        let part = self.request.layout.label_part(standard);
        let width = self.request.layout.features() + 1;
        x.fill(0.0);
        match self.request.loss {
            Loss::Softmax { .. } => {
                for (x, share) in x.chunks_exact_mut(width).zip(part) {
                    x[width - 1] = libm::log(*share);
                }
            }
            loss if loss.is_logistic() => {
                let loss = self.loss(standard);
                x[width - 1] =
                    libm::log(loss.weight(1.0) * part[1] / (loss.weight(-1.0) * part[0]));
            }
            _ => {}
        }
    }

    /// The loss of a run that found this standard.
    fn loss(&self, standard: &[f64]) -> Loss {
        loss_under(&self.request.layout, self.request.loss, self.request.balanced, standard)
    }

    /// G; infinite without noise.
    fn clip(&self, standard: &[f64]) -> f64 {
        if self.request.mu.is_none() {
            return f64::INFINITY;
        }
        let part = self.request.layout.label_part(standard);
        let slope = match self.request.loss {
            Loss::Softmax { .. } => (1.0 - part.iter().map(|p| p * p).sum::<f64>()).sqrt(),
            loss if loss.is_binary()
                && loss.weight(1.0) == loss.weight(-1.0)
                && !self.request.balanced =>
            {
                (part[0] * part[1]).sqrt()
            }
            loss if loss.is_binary() => {
                // Slopes before they are weighted, at the start.
                let loss = self.loss(standard);
                let (no, yes) = (loss.weight(-1.0) * part[0], loss.weight(1.0) * part[1]);
                let s = yes / (no + yes);
                (part[1] * (1.0 - s) * (1.0 - s) + part[0] * s * s).sqrt()
            }
            _ => 1.0,
        };
        self.clip_share * slope * (self.request.layout.effective_dim(standard) + 1.0).sqrt()
    }

    /// h: the curvature of the loss at the start.
    fn curvature(&self, standard: &[f64]) -> f64 {
        match self.loss(standard) {
            Loss::Softmax { classes } => 1.0 / classes as f64,
            Loss::WeightedLogistic { negative, positive, .. } => {
                let part = self.request.layout.label_part(standard);
                0.25 * (negative * part[0] + positive * part[1])
            }
            Loss::WeightedSquaredHinge { negative, positive, .. } => {
                let part = self.request.layout.label_part(standard);
                negative * part[0] + positive * part[1]
            }
            loss => loss.curvature(),
        }
    }

    /// ρ = ν²d_eff/(0.49h).
    fn ridge(&self, training: f64, standard: &[f64], mu: f64) -> f64 {
        let noise = self.noise(training, standard, mu);
        noise * noise * self.request.layout.effective_dim(standard)
            / (SIGNAL * self.curvature(standard))
    }

    /// One training step with the mean of the clipped gradients over G (or of the plain ones
    /// without a clip).
    fn descend(
        &self,
        shape: &Shape,
        number: u32,
        standard: &[f64],
        mean: &[f64],
        state: &mut State<'_>,
    ) {
        let layout = &self.request.layout;
        let (h, width) = (self.curvature(standard), layout.features() + 1);
        let steps = f64::from(shape.steps);
        let mut start = vec![0.0; state.x.len()];
        self.start(standard, &mut start);
        let Some(mu) = self.request.mu else {
            // Nesterov's steps, for a curvature that no records within these histograms exceed.
            let steepest =
                self.loss(standard).curvature() * 1.1 * (layout.effective_dim(standard) + 1.0);
            let eta = 1.0 / (steepest + self.request.ridge);
            let momentum = f64::from(number) / (f64::from(number) + 3.0);
            for (l, (y, x)) in state.x.iter_mut().zip(state.mean.iter_mut()).enumerate() {
                let ridge = if l % width == width - 1 { 0.0 } else { self.request.ridge };
                let next = *y - eta * (mean[l] + ridge * *y);
                let before = if number == 0 { start[l] } else { *x };
                (*y, *x) = (next + momentum * (next - before), next);
            }
            return;
        };
        let training = shape.training();
        let (clip, mut ridge) = (self.longest(standard), self.ridge(training, standard, mu));
        if matches!(self.request.loss, Loss::Softmax { .. }) {
            ridge = ridge.min(h);
        }
        // No step is longer than a third of 1/h: columns that go together have more curvature than
        // one.
        let time = self.time(training, standard, mu).min(steps / 3.0);
        let eta = |time: f64| (time / steps).min(1.0) / h;
        let (slow, fast) = (eta(time), eta(time.max(8.0)));
        for (l, x) in state.x.iter_mut().enumerate() {
            let (eta, ridge) = if l % width == width - 1 { (fast, 0.0) } else { (slow, ridge) };
            *x = (*x - eta * clip * mean[l] + eta * ridge * start[l]) / (1.0 + eta * ridge);
        }
        if f64::from(number) >= steps * (1.0 - AVERAGED) {
            state.tally[0] += 1.0;
            for (mean, x) in state.mean.iter_mut().zip(state.x.iter()) {
                *mean += (x - *mean) / state.tally[0];
            }
        }
    }

    /// One sum of the last stage.
    fn recalibrate(&self, stage: Calibration, number: u32, mean: &[f64], state: &mut State<'_>) {
        match stage {
            Calibration::Fine => self.calibrate_finely(number, mean, state),
            Calibration::Coarse => self.calibrate_coarsely(number, mean, state),
        }
    }

    /// One step of slope and offset.
    fn calibrate_finely(&self, number: u32, mean: &[f64], state: &mut State<'_>) {
        let classes = self.request.loss.outputs();
        let offset_step = 0.75 / self.curvature(state.standard);
        let (intercepts, tally) = (self.intercepts(state.mean), &mut *state.tally);
        // The slope and the offsets, their means so far, and how many are in those.
        let (at, rest) = tally[1..].split_at_mut(1 + classes);
        let (means, count) = rest.split_at_mut(1 + classes);
        if number == 0 {
            at[0] = 1.0;
            at[1..].copy_from_slice(&intercepts);
        }
        for (c, (at, gradient)) in at.iter_mut().zip(mean).enumerate() {
            let step = if c == 0 { 1.0 } else { offset_step };
            *at -= step * self.calibration_clip * gradient;
        }
        if number >= CALIBRATION_SKIPPED {
            count[0] += 1.0;
            for (mean, at) in means.iter_mut().zip(at) {
                *mean += (*at - *mean) / count[0];
            }
        }
    }

    /// The mean score, then Newton steps in slope and offsets.
    fn calibrate_coarsely(&self, number: u32, mean: &[f64], state: &mut State<'_>) {
        let classes = self.request.loss.outputs();
        let prior = self.calibration_prior(state.standard);
        // The slope and the offsets, the mean scores, and how many sums there were.
        let (at, rest) = state.tally[1..].split_at_mut(1 + classes);
        let (centres, count) = rest.split_at_mut(1 + classes);
        count[0] = f64::from(number) + 1.0;
        if number == 0 {
            let longest = self.centre_clip();
            let noise = longest * self.coarse_noise(CALIBRATION * COARSE_CENTRE);
            for (centre, mean) in centres.iter_mut().zip(mean) {
                *centre = (longest * mean / (1.0 + noise * noise)).clamp(-longest, longest);
            }
            at.copy_from_slice(&prior);
            return;
        }
        let noise = CALIBRATION_CLIP.0 * self.coarse_noise(CALIBRATION * (1.0 - COARSE_CENTRE));
        for (c, ((at, gradient), prior)) in at.iter_mut().zip(mean).zip(&prior).enumerate() {
            let curvature = self.calibration_curvature(c == 0);
            let deviation = if c == 0 { COARSE_PRIOR.1 } else { COARSE_PRIOR.2 };
            let ridge = noise * noise / (curvature * deviation * deviation);
            let step =
                (CALIBRATION_CLIP.0 * gradient + ridge * (*at - prior)) / (curvature + ridge);
            *at -= step.clamp(-COARSE_STEP, COARSE_STEP) / f64::from(number);
        }
    }

    /// Deviation of the noise that sums with this share of μ² leave in the mean of vectors of at
    /// most unit length.
    fn coarse_noise(&self, share: f64) -> f64 {
        self.request.mu.map_or(0.0, |mu| self.request.reach * self.r / (mu * share.sqrt()))
    }

    /// Length that a record's scores are clipped to before their mean is taken.
    fn centre_clip(&self) -> f64 {
        COARSE_REACH.0 * (self.request.loss.outputs() as f64).sqrt()
    }

    /// How coarse calibration reads the scores of a model.
    fn coarse_rule<'a>(&self, x: &[f64], centres: &'a [f64], reach: f64) -> ScoreRule<'a> {
        let width = self.request.layout.features() + 1;
        let squares: f64 =
            x.chunks_exact(width).map(|b| kernel::dot(&b[..width - 1], &b[..width - 1])).sum();
        let size = (squares / self.request.loss.outputs() as f64).sqrt();
        ScoreRule { scale: if size > 0.0 { 1.0 / size } else { 0.0 }, centres, reach }
    }

    /// What the loss curves by in the slope, or in an offset, of scores of deviation one.
    fn calibration_curvature(&self, slope: bool) -> f64 {
        0.8 * match self.request.loss {
            Loss::Softmax { classes } if slope => 1.0 - 1.0 / classes as f64,
            Loss::Softmax { classes } => (1.0 - 1.0 / classes as f64) / classes as f64,
            _ => 0.25,
        }
    }

    /// Slope and offsets before anything is known of the scores but the class shares.
    fn calibration_prior(&self, standard: &[f64]) -> Vec<f64> {
        let part = self.request.layout.label_part(standard);
        let classes = part.len() as f64;
        let noise = if self.request.layout.prevalence().is_some() {
            0.0
        } else {
            classes * self.cell_noise
        };
        // Shares were shrunk once already, for a wider prior.
        let keep = (1.0 + noise * noise) / (1.0 + (noise / COARSE_SHARES).powi(2));
        let shares: Vec<f64> =
            part.iter().map(|p| 1.0 / classes + keep * (p - 1.0 / classes)).collect();
        let slope = COARSE_PRIOR.0;
        let spread = (1.0 + std::f64::consts::PI * slope * slope / 8.0).sqrt();
        let mut prior = vec![slope];
        match self.request.loss {
            Loss::Softmax { .. } => prior.extend(shares.iter().map(|p| spread * libm::log(*p))),
            _ => prior.push(spread * libm::log(shares[1] / shares[0])),
        }
        prior
    }

    /// What moderates probabilities for the noise in an offset: 1/√(1 + πv/8).
    fn moderation(&self) -> f64 {
        let noise = CALIBRATION_CLIP.0 * self.coarse_noise(CALIBRATION * (1.0 - COARSE_CENTRE));
        let curvature = self.calibration_curvature(false);
        let known = (curvature / noise).powi(2) + COARSE_PRIOR.2.powi(-2);
        1.0 / (1.0 + std::f64::consts::PI / (8.0 * known)).sqrt()
    }

    /// The intercepts of the scores.
    fn intercepts(&self, x: &[f64]) -> Vec<f64> {
        let width = self.request.layout.features() + 1;
        x.chunks_exact(width).map(|block| block[width - 1]).collect()
    }

    /// Numbers of [`State::tally`]: iterates in the mean, slope and offsets, their means, how many
    /// are in those.
    fn tally(&self) -> usize {
        4 + 2 * self.request.loss.outputs()
    }

    /// The model of a state: where a third stage is over, with its slope and offset.
    fn model(&self, stage: Option<Calibration>, state: &State<'_>, out: &mut [f64]) {
        let width = self.request.layout.features() + 1;
        let begun = state.tally[0] > 0.0 || self.request.mu.is_none();
        out.copy_from_slice(if begun { state.mean } else { state.x });
        let classes = self.request.loss.outputs();
        let means = &state.tally[2 + classes..];
        if means[1 + classes] > 0.0 && stage == Some(Calibration::Coarse) {
            let (at, moderation) = (&state.tally[1..2 + classes], self.moderation());
            let slope = moderation * at[0].max(0.05);
            let scale = slope * self.coarse_rule(out, &[], 1.0).scale;
            for ((block, offset), centre) in
                out.chunks_exact_mut(width).zip(&at[1..]).zip(&means[1..])
            {
                block[..width - 1].iter_mut().for_each(|x| *x *= scale);
                block[width - 1] = moderation * offset - slope * centre;
            }
        } else if means[1 + classes] > 0.0 {
            for (block, offset) in out.chunks_exact_mut(width).zip(&means[1..]) {
                block[..width - 1].iter_mut().for_each(|x| *x *= means[0].max(0.05));
                block[width - 1] = *offset;
            }
        }
    }
}

/// The largest of some shares, and whose it is.
pub(crate) fn largest(shares: impl Iterator<Item = f64>) -> (usize, f64) {
    shares.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
}

/// The loss of a run that found this standard: where classes are balanced by estimated shares, with
/// their weights.
pub(crate) fn loss_under(layout: &RawLayout, loss: Loss, balanced: bool, standard: &[f64]) -> Loss {
    match *layout.label_part(standard) {
        [negative, positive] if balanced && loss.is_logistic() => {
            Loss::balanced(negative, positive)
        }
        [negative, positive] if balanced => {
            loss.with_class_weights(balanced_weights(negative, positive)).unwrap_or(loss)
        }
        _ => loss,
    }
}

fn centre_and_scale(histogram: impl Iterator<Item = f64>, noise: f64) -> [f64; 2] {
    let kept: Vec<f64> = histogram.map(|h| if h > EMPTY_BELOW * noise { h } else { 0.0 }).collect();
    let total: f64 = kept.iter().sum();
    if total.is_nan() || total <= MASS_NEEDED {
        return [0.5, BLIND_SCALE];
    }
    let bin = 1.0 / kept.len() as f64;
    let middle = |k: usize| (k as f64 + 0.5) * bin;
    let centre: f64 = kept.iter().enumerate().map(|(k, h)| h / total * middle(k)).sum();
    let variance: f64 =
        kept.iter().enumerate().map(|(k, h)| h / total * (middle(k) - centre).powi(2)).sum();
    [centre, (variance + bin * bin / 12.0).sqrt()]
}

fn shares(histogram: &[f64], noise: f64, levels: usize) -> Vec<f64> {
    let k = levels as f64;
    let total = histogram.iter().map(|h| h.max(0.0)).sum::<f64>().max(1e-9);
    let keep = 1.0 / (1.0 + (k * noise) * (k * noise));
    histogram.iter().map(|h| keep * h.max(0.0) / total + (1.0 - keep) / k).collect()
}

/// What an agent remembers between rounds, all of it a function of releases.
struct State<'a> {
    /// The sum on its way up, then the total.
    partial: &'a mut [f64],
    total: &'a mut [f64],
    standard: &'a mut [f64],
    /// Where the next gradient is taken.
    x: &'a mut [f64],
    /// The mean of the iterates.
    mean: &'a mut [f64],
    /// Iterates in it; slope and offsets; their means; how many are in those.
    tally: &'a mut [f64],
}

/// The algorithm, before or after it knows whose it is.
#[derive(Clone, Debug)]
pub(crate) struct Scouted {
    pub(crate) recipe: Arc<Recipe>,
    pub(crate) shape: Shape,
    seat: Option<Seat>,
}

/// Where an agent stands in the tree.
#[derive(Clone, Debug)]
struct Seat {
    agent: usize,
    /// The numbers of its neighbours.
    neighbours: Vec<usize>,
    /// Its children's places among its neighbours, with their numbers.
    children: Vec<(usize, usize)>,
    /// Its parent's place among its neighbours.
    parent: Option<usize>,
    height: u32,
    depth: u32,
    /// The height of the whole tree.
    tree: u32,
}

/// A breadth-first tree from a vertex of least eccentricity: parent (itself at the root), depth and
/// height of everybody.
struct Tree {
    parent: Vec<usize>,
    depth: Vec<u32>,
    height: Vec<u32>,
}

impl Tree {
    fn of(graph: &Graph) -> Self {
        let search = |root: usize| {
            let mut parent = vec![usize::MAX; graph.agents()];
            let mut depth = vec![0; graph.agents()];
            let mut order = vec![root];
            parent[root] = root;
            let mut next = 0;
            while let Some(&i) = order.get(next) {
                next += 1;
                for &j in graph.neighbours(i) {
                    let j = j as usize;
                    if parent[j] == usize::MAX {
                        (parent[j], depth[j]) = (i, depth[i] + 1);
                        order.push(j);
                    }
                }
            }
            (parent, depth, order)
        };
        // Of very large graphs the first vertices are tried alone: any tree is right, and a lower
        // one is faster.
        let tried = graph.agents().min(2000);
        let best = (0..tried).min_by_key(|&root| search(root).1.into_iter().max()).unwrap_or(0);
        let (parent, depth, order) = search(best);
        let mut height = vec![0; graph.agents()];
        for &i in order.iter().rev() {
            if parent[i] != i {
                height[parent[i]] = height[parent[i]].max(height[i] + 1);
            }
        }
        Self { parent, depth, height }
    }

    fn height(&self) -> u32 {
        self.height.iter().copied().max().unwrap_or(0)
    }
}

impl Scouted {
    /// The algorithm for all runs of an experiment: each has its numbers of records and its graph.
    ///
    /// # Errors
    /// Weights that do not fit.
    pub(crate) fn plan(
        request: &Request,
        records: &[Vec<usize>],
        graphs: &[Arc<Graph>],
    ) -> Result<Self, Fault> {
        let mut recipes = Vec::new();
        for (run, counts) in records.iter().enumerate() {
            if run == 0 || records[run - 1] != *counts {
                recipes.push(Recipe::new(request, counts)?);
            }
        }
        let complete = graphs.iter().all(|g| g.is_complete());
        let mut heights: Vec<u32> = vec![1];
        for (run, graph) in graphs.iter().enumerate().filter(|_| !complete) {
            if run == 0 || !Arc::ptr_eq(graph, &graphs[run - 1]) {
                heights.push(Tree::of(graph).height());
            }
        }
        let first = &recipes[0];
        let coefficients = first.coefficients();
        let state = request.layout.standard_len() + coefficients + first.tally();
        let shape = Shape {
            steps: request.steps.unwrap_or_else(|| first.default_steps()),
            calibration: first.calibration,
            width: recipes.iter().map(Recipe::cells).max().unwrap_or(0).max(state),
            exchanges: if complete { 1 } else { 2 * heights.into_iter().max().unwrap_or(1) },
            complete,
            records: records.iter().flatten().copied().max().unwrap_or(1),
            histograms: recipes.iter().map(|r| r.histograms).max().unwrap_or(1),
            scouting: scouting_share(&request.layout),
            degree: graphs.iter().map(|g| g.max_degree()).max().unwrap_or(0),
        };
        Ok(Self { recipe: Arc::new(recipes.swap_remove(0)), shape, seat: None })
    }

    /// Makes messages longer; the numbers behind a sum's own are not used.
    pub(crate) fn with_width(&self, width: usize) -> Self {
        let shape = Shape { width: self.shape.width.max(width), ..self.shape };
        Self { recipe: Arc::clone(&self.recipe), shape, seat: None }
    }

    /// The standard of all records without noise.
    pub(crate) fn exact_standard(
        layout: &Arc<RawLayout>,
        loss: Loss,
        records: &[usize],
        locals: &[LocalObjective],
    ) -> Option<Vec<f64>> {
        let weights = SiteWeights::Rule(crate::problem::WeightRule::Records);
        let layout = Arc::clone(layout);
        let (mu, steps, balanced) = (None, None, false);
        let request = Request {
            layout,
            loss,
            balanced,
            weights,
            mu,
            reach: 2.0,
            ridge: 0.0,
            steps,
            pairwise: None,
        };
        let recipe = Recipe::new(&request, records).ok()?;
        let (mut cells, mut total) = (vec![0.0; recipe.cells()], vec![0.0; recipe.cells()]);
        for (local, factor) in locals.iter().zip(&recipe.factors) {
            recipe.count(local, &mut cells);
            kernel::axpy(*factor, &cells, &mut total);
        }
        Some(recipe.standard(&total))
    }

    /// The same as agent `agent` of this graph runs it.
    pub(crate) fn at_seat(&self, agent: usize, graph: &Graph, records: &[usize]) -> Option<Self> {
        let recipe = Recipe::new(&self.recipe.request, records).ok()?;
        let neighbours: Vec<usize> = graph.neighbours(agent).iter().map(|&j| j as usize).collect();
        let seat = if self.shape.complete {
            Seat {
                agent,
                neighbours,
                children: Vec::new(),
                parent: None,
                height: 0,
                depth: 0,
                tree: 1,
            }
        } else {
            let tree = Tree::of(graph);
            let place = |j: usize| graph.neighbours(agent).binary_search(&(j as u32)).ok();
            let children = (0..graph.agents()).filter(|&j| j != agent && tree.parent[j] == agent);
            let parent = Some(tree.parent[agent]).filter(|&p| p != agent).and_then(place);
            Seat {
                agent,
                neighbours,
                children: children.filter_map(|j| Some((place(j)?, j))).collect(),
                parent,
                height: tree.height[agent],
                depth: tree.depth[agent],
                tree: tree.height(),
            }
        };
        Some(Self { recipe: Arc::new(recipe), shape: self.shape, seat: Some(seat) })
    }

    /// Exchanges after which everybody knows the standard.
    pub(crate) fn scouting_rounds(&self) -> u32 {
        self.shape.exchanges
    }

    /// Numbers of a message that scouting uses.
    pub(crate) fn scouted_numbers(&self) -> usize {
        self.recipe.cells()
    }

    /// Numbers of the memory that scouting uses.
    pub(crate) fn scouting_memory(&self) -> usize {
        4 * self.shape.width
    }

    /// The standard in the memory of an agent; all of it is a function of releases.
    pub(crate) fn known_standard<'a>(&self, memory: &'a [f64]) -> &'a [f64] {
        &memory[2 * self.shape.width..][..self.recipe.request.layout.standard_len()]
    }

    /// The standard before anything is scouted.
    pub(crate) fn blind_standard(&self) -> Vec<f64> {
        self.recipe.request.layout.blind(self.recipe.floor)
    }

    /// The share of μ² that scouting has.
    pub(crate) fn scouting_share(&self) -> f64 {
        self.shape.scouting()
    }

    /// The usual length of a row under a standard.
    pub(crate) fn usual_length(&self, standard: &[f64]) -> f64 {
        (self.recipe.request.layout.effective_dim(standard) + 1.0).sqrt()
    }

    /// Sums that are made: one of histograms, one for every step.
    fn sums(&self) -> u32 {
        1 + self.shape.steps + self.shape.calibration.map_or(0, Calibration::sums)
    }

    /// Exchanges in all.
    pub(crate) fn rounds(&self) -> u32 {
        self.sums() * self.shape.exchanges
    }

    /// How the budget is divided, for the claim.
    pub(crate) fn split_of_the_budget(&self) -> String {
        let (scouting, calibration) =
            (100.0 * self.shape.scouting(), 100.0 * self.shape.calibration());
        // Rounded once, so that the three parts add up as printed.
        let (scouting, calibration) = (scouting.round(), calibration.round());
        format!(
            "one budget for all stages, as parts of μ²: {scouting:.0} % scouts the columns, {:.0} % trains, {calibration:.0} % calibrates the score; \
             records' gradients are clipped one by one, and sites weigh by their announced numbers of records",
            100.0 - scouting - calibration
        )
    }

    /// The part of the trained scores' variance that is noise, as it looks before anything is
    /// scouted; `None` without noise.
    ///
    /// Along a direction of curvature h a model of prior deviation τ, with τ²·d_eff = 0.49, is
    /// found with noise of deviation ν/h: the noise has ν²/(ν² + τ²h²) of the variance. That is
    /// ρ/(h + ρ) for the ridge ρ = ν²/(hτ²) of the plan.
    pub(crate) fn noise_share(&self) -> Option<f64> {
        let recipe = &self.recipe;
        let mu = recipe.request.mu?;
        let blind = recipe.request.layout.blind(recipe.floor);
        let (h, ridge) =
            (recipe.curvature(&blind), recipe.ridge(self.shape.training(), &blind, mu));
        Some(ridge / (h + ridge))
    }

    /// How far a site's own coefficients lie from the shared model's, and its intercept from the
    /// shared one, as deviations ([`personal`](crate::experiment) has the derivation).
    pub(crate) fn personal_deviation(&self, standard: &[f64]) -> (f64, f64) {
        let recipe = &self.recipe;
        let prior = SIGNAL / recipe.request.layout.effective_dim(standard).max(1.0);
        let error = |prior: f64| match recipe.request.mu {
            Some(mu) => {
                let noise = recipe.noise(self.shape.training(), standard, mu);
                1.0 / (1.0 / prior + (recipe.curvature(standard) / noise).powi(2))
            }
            None => 0.0,
        };
        let between = (PERSONAL_SHARE * prior, PERSONAL_OFFSET * PERSONAL_OFFSET);
        ((between.0 + error(prior)).sqrt(), (between.1 + error(1.0)).sqrt())
    }

    /// Exchanges of messages that one sum takes.
    pub(crate) fn exchanges(&self) -> u32 {
        self.shape.exchanges
    }

    /// Whether slope and offset of the score are found at the end.
    pub(crate) fn calibrates(&self) -> bool {
        self.shape.calibration.is_some()
    }

    /// Training steps.
    pub(crate) fn steps(&self) -> u32 {
        self.shape.steps
    }

    /// Splits a model as agents have it into the standard and the coefficients under it.
    pub(crate) fn split<'a>(&self, model: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        let standard = self.recipe.request.layout.standard_len();
        (&model[..standard], &model[standard..standard + self.recipe.coefficients()])
    }

    /// What one of these sums is, and which exchange of it a round is.
    fn place(&self, round: u32) -> (u32, u32) {
        ((round - 1) / self.shape.exchanges, (round - 1) % self.shape.exchanges)
    }

    /// How many numbers a sum has.
    fn length(&self, sum: u32) -> usize {
        if sum == 0 {
            self.recipe.cells()
        } else if sum <= self.shape.steps {
            self.recipe.coefficients()
        } else {
            1 + self.recipe.request.loss.outputs()
        }
    }

    /// The l2 norm of a record's share in a sum; `None` where nothing bounds it.
    fn largest_share(&self, sum: u32) -> Option<f64> {
        match sum {
            0 => Some((self.shape.histograms.max(1) as f64).sqrt() * (1.0 + 1e-9)),
            _ => self.recipe.request.mu.map(|_| 1.0 + 1e-9),
        }
    }

    /// What a site's sum of clipped gradients can be off by in floating point, on two neighbours
    /// together.
    fn rounding(&self) -> f64 {
        let factor = self.recipe.request.layout.coded_rounding(self.recipe.floor);
        clipped::rounding_by_codes(self.shape.records, factor)
    }

    /// The l2 norm of the noise on one site's sum, but for a chance of 10^−12 in a whole run: √d +
    /// √(2·log) deviations (Gaussian concentration).
    fn largest_noise(&self, sum: u32) -> f64 {
        let Some(mu) = self.recipe.request.mu else { return 0.0 };
        let share = match sum {
            0 => self.shape.scouting(),
            _ if sum <= self.shape.steps => {
                (1.0 - self.shape.scouting() - self.shape.calibration())
                    / f64::from(self.shape.steps)
            }
            _ => self.shape.calibration_of(sum - 1 - self.shape.steps),
        };
        if share <= 0.0 {
            return 0.0;
        }
        let reach = self.recipe.request.reach;
        let moves = if sum == 0 { (reach * self.shape.histograms as f64).sqrt() } else { reach };
        // Noise is rounded up to its grid, and no more than a little. What neighbours share beside
        // their own is in a site's message too, and cancels only in the total.
        let company = self.recipe.request.pairwise.map_or(1.0, |(pairwise, own)| {
            own * (1.0 + pairwise.correlation.powi(2) * self.shape.degree as f64).sqrt()
        });
        let sigma = 1.01 * company * (moves + self.rounding()) / (mu * share.sqrt());
        let releases = f64::from(self.sums()) * self.recipe.weights.len() as f64;
        let log = libm::log(releases / super::CHANCE);
        sigma * ((self.length(sum) as f64).sqrt() + (2.0 * log).sqrt())
    }

    /// The l2 norm of a weighted sum over any sites.
    fn largest_mean(&self, sum: u32) -> Option<f64> {
        let (weights, factors) =
            (self.recipe.weights.iter().sum::<f64>(), self.recipe.factors.iter().sum::<f64>());
        Some(
            (weights * self.largest_share(sum)? + factors * self.largest_noise(sum)) * (1.0 + 1e-9),
        )
    }

    fn state<'a>(&self, memory: &'a mut [f64]) -> State<'a> {
        let width = self.shape.width;
        let (partial, rest) = memory.split_at_mut(width);
        let (total, rest) = rest.split_at_mut(width);
        let (standard, rest) = rest.split_at_mut(self.recipe.request.layout.standard_len());
        let (x, rest) = rest.split_at_mut(self.recipe.coefficients());
        let (mean, rest) = rest.split_at_mut(self.recipe.coefficients());
        State { partial, total, standard, x, mean, tally: &mut rest[..self.recipe.tally()] }
    }

    /// Applies the total of a sum.
    fn apply(&self, sum: u32, state: &mut State<'_>) {
        let total = state.total[..self.length(sum)].to_vec();
        if sum == 0 {
            let standard = self.recipe.standard(&total);
            self.recipe.start(&standard, state.x);
            state.standard.copy_from_slice(&standard);
        } else if sum <= self.shape.steps {
            let standard = state.standard.to_vec();
            self.recipe.descend(&self.shape, sum - 1, &standard, &total, state);
        } else if let Some(stage) = self.shape.calibration {
            self.recipe.recalibrate(stage, sum - 1 - self.shape.steps, &total, state);
        }
    }
}

impl Protocol for Scouted {
    fn kind(&self) -> &'static str {
        if self.recipe.request.pairwise.is_some() { "decor" } else { "dgd" }
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            configured: Some(self),
            assessed: Some(self),
            partial: Some(self),
            relaying: Some(self),
            ..Parts::default()
        }
    }

    fn configure(&mut self) -> Option<&mut dyn Configured> {
        Some(self)
    }

    fn memory(&self) -> usize {
        // Two sums and the state; the means of the iterates may not fit beside the standard.
        4
    }

    fn step_sensitivity(
        &self,
        round: u32,
        _: usize,
        _: &Sensitivity,
        _: &PublicFacts,
    ) -> Sensitivity {
        let (sum, _) = self.place(round);
        if self.passes_on(round) {
            return Sensitivity { l1: 0.0, l2: 0.0, linf: 0.0 };
        }
        let reach = self.recipe.request.reach;
        if sum == 0 {
            // Counts are whole numbers, so their sums are exact.
            let m = self.shape.histograms as f64;
            return Sensitivity { l1: reach * m, l2: (reach * m).sqrt().next_up(), linf: 1.0 };
        }
        Sensitivity::from_l2(reach + self.rounding(), self.length(sum))
    }

    fn interval(&self, _: &View<'_>, _: &[f64], low: &mut [f64], high: &mut [f64]) {
        low.fill(0.0);
        high.fill(0.0);
    }

    fn step(
        &self,
        view: &View<'_>,
        memory: Memory<'_>,
        _: &[f64],
        local: &LocalObjective,
        work: &mut Workspace,
        step: &mut [f64],
    ) {
        let (sum, _) = self.place(view.round() + 1);
        if sum == 0 {
            return self.recipe.count(local, step);
        }
        let (_, rest) = memory.public.split_at(2 * self.shape.width);
        let (standard, rest) = rest.split_at(self.recipe.request.layout.standard_len());
        let (x, rest) = rest.split_at(self.recipe.coefficients());
        let (mean, tally) = rest.split_at(self.recipe.coefficients());
        let records = local.mean_loss().expect("only records have columns");
        let rows: Arc<Standardised> = records.under(standard).expect("scouted records are raw");
        let (loss, clip) = (self.recipe.loss(standard), self.recipe.clip(standard));
        if sum <= self.shape.steps {
            rows.clipped_sum(loss, x, clip, step, work);
        } else if self.shape.calibration == Some(Calibration::Coarse) {
            let outputs = self.recipe.request.loss.outputs();
            if sum == self.shape.steps + 1 {
                let clip = self.recipe.centre_clip();
                rows.score_sum(mean, &self.recipe.coarse_rule(mean, &[], clip), clip, step);
            } else {
                let (at, centres) = (&tally[1..2 + outputs], &tally[3 + outputs..3 + 2 * outputs]);
                let rule = self.recipe.coarse_rule(mean, centres, COARSE_REACH.1);
                rows.calibration_sum(
                    self.recipe.request.loss,
                    mean,
                    &rule,
                    at,
                    CALIBRATION_CLIP.0,
                    step,
                );
            }
        } else {
            let mut at = vec![1.0];
            if sum == self.shape.steps + 1 {
                at.extend(self.recipe.intercepts(mean));
            } else {
                at = tally[1..2 + self.recipe.request.loss.outputs()].to_vec();
            }
            let clip = self.recipe.calibration_clip;
            let rule = ScoreRule { scale: 1.0, centres: &[], reach: SCORE_REACH };
            rows.calibration_sum(self.recipe.request.loss, mean, &rule, &at, clip, step);
        }
    }

    fn absorb(&self, view: &View<'_>, memory: &mut [f64]) {
        let Some(seat) = &self.seat else { return };
        let (sum, exchange) = self.place(view.round());
        let (length, last) = (self.length(sum), exchange + 1 == self.shape.exchanges);
        let mut state = self.state(memory);
        let factors = &self.recipe.factors;
        if self.shape.complete {
            let total = &mut state.total[..length];
            total.fill(0.0);
            for (row, &factor) in view.everyone().zip(factors) {
                kernel::axpy(factor, &row[..length], total);
            }
        } else {
            if exchange == 0 {
                state.partial[..length].fill(0.0);
                kernel::axpy(
                    factors[seat.agent],
                    &view.own()[..length],
                    &mut state.partial[..length],
                );
            }
            if exchange + 1 == seat.height {
                for &(place, child) in &seat.children {
                    let row = view.neighbours().nth(place).expect("a child is a neighbour");
                    let factor = if exchange == 0 { factors[child] } else { 1.0 };
                    kernel::axpy(factor, &row[..length], &mut state.partial[..length]);
                }
            }
            if seat.parent.is_none() && exchange + 1 == seat.tree.max(1) {
                state.total[..length].copy_from_slice(&state.partial[..length]);
            }
            if let Some(parent) = seat.parent
                && exchange + 1 == seat.tree + seat.depth
            {
                let row = view.neighbours().nth(parent).expect("a parent is a neighbour");
                state.total[..length].copy_from_slice(&row[..length]);
            }
        }
        if last {
            self.apply(sum, &mut state);
        }
    }

    fn model(&self, view: &View<'_>, memory: &[f64], model: &mut [f64]) {
        let mut memory = memory.to_vec();
        let state = self.state(&mut memory);
        let length = state.standard.len();
        model.fill(0.0);
        // Before the columns are scouted nothing is known of them.
        if view.round() <= self.shape.exchanges && state.standard[length - 1] == 0.0 {
            let blind = self.recipe.request.layout.blind(self.recipe.floor);
            self.recipe.start(&blind, &mut model[length..length + state.x.len()]);
            model[..length].copy_from_slice(&blind);
        } else {
            model[..length].copy_from_slice(state.standard);
            self.recipe.model(
                self.shape.calibration,
                &state,
                &mut model[length..length + state.x.len()],
            );
        }
    }
}

impl Configured for Scouted {
    fn pairwise(&self, _: &PublicFacts) -> Option<Pairwise> {
        self.recipe.request.pairwise.map(|(pairwise, _)| pairwise)
    }

    fn resolve(&mut self, _: &PublicFacts) {}

    fn default_rounds(&self, _: &PublicFacts) -> u32 {
        self.rounds()
    }

    fn check(&self, _: &PublicFacts) -> Result<Option<String>, Fault> {
        let recipe = &self.recipe;
        let (heavy, weight) = largest(recipe.weights.iter().copied());
        let all: f64 = recipe.factors.iter().map(|f| f * f).sum();
        let (loud, noise) = largest(recipe.factors.iter().map(|f| f * f / all));
        let several = recipe.weights.len() > 2;
        let noisy = several
            && recipe.request.mu.is_some()
            && noise > 0.5
            && !recipe.request.weights.is_precise();
        let mut said = Vec::new();
        if several && weight > 0.5 {
            said.push(format!(
                "site {} has {:.0} % of the weight: the model is mostly about its records; data.weights = \"equal\" makes all sites count \
                 the same, at the price of more noise",
                heavy + 1,
                100.0 * weight
            ));
        }
        if noisy {
            said.push(format!(
                "site {} brings {:.0} % of the noise; data.weights = \"precision\" lets it count for less",
                loud + 1,
                100.0 * noise
            ));
        }
        Ok((!said.is_empty()).then(|| said.join("; ")))
    }

    fn parameters(&self) -> Parameters {
        let mut table = Parameters::new();
        if let Some((pairwise, _)) = self.recipe.request.pairwise {
            table.insert("colluders".into(), pairwise.colluders.into());
            table.insert("correlation".into(), pairwise.correlation.into());
        }
        table
    }

    fn seated(&self, agent: usize, graph: &Graph, records: &[usize]) -> Option<Arc<dyn Protocol>> {
        Some(Arc::new(self.at_seat(agent, graph, records)?))
    }
}

impl Assessed for Scouted {
    fn assess(&self, _: &Ground) -> Assessment {
        let recipe = &self.recipe;
        let steps = f64::from(self.shape.steps);
        let blind = recipe.request.layout.blind(recipe.floor);
        let time = |mu| recipe.time(self.shape.training(), &blind, mu);
        let product = recipe.request.mu.map_or(1.0, |mu| (time(mu) / steps).min(1.0 / 3.0));
        let inequality = format!("step·h = {} ≤ 1 on standardised columns", short(product));
        let promise = format!(
            "all sites end with the same model; noise-to-signal q = {}, {} exchanges a step",
            short(recipe.q),
            self.shape.exchanges
        );
        let why = "no theorem here covers gradients that are clipped record by record";
        Assessment {
            promise: Some(promise),
            not_certified: Some(why.into()),
            ..Assessment::new(Standing::PredictedStable, "bounded steps", inequality)
        }
    }

    /// A record's share in a sum is bounded, so a site of b records releases a vector of at most
    /// b·s, s the bound, plus noise: a site that lies has no more influence than one whose records
    /// are as bad as they can be. What is passed on is a weighted mean of such vectors.
    fn admits(&self, round: u32, place: usize) -> Option<(usize, f64)> {
        let (sum, exchange) = self.place(round);
        let length = self.length(sum);
        if exchange > 0 {
            return Some((length, self.largest_mean(sum)?));
        }
        let seat = self.seat.as_ref()?;
        let sender = *seat.neighbours.get(place)?;
        let records = self.recipe.weights.get(sender)? / self.recipe.factors.get(sender)?;
        Some((length, records * self.largest_share(sum)? + self.largest_noise(sum)))
    }
}

impl Partial for Scouted {
    fn active(&self, round: u32, _: usize) -> Vec<u32> {
        (0..self.length(self.place(round).0) as u32).collect()
    }
}

impl Relaying for Scouted {
    fn passes_on(&self, round: u32) -> bool {
        // Where everything is known already the first sum is empty.
        let (sum, exchange) = self.place(round);
        exchange > 0 || sum == 0 && self.shape.histograms == 0
    }

    fn pass_on(&self, view: &View<'_>, memory: &[f64], out: &mut [f64]) {
        let exchange = self.place(view.round() + 1).1;
        let down = self.seat.as_ref().is_some_and(|s| exchange >= s.tree);
        out.copy_from_slice(if down {
            &memory[self.shape.width..2 * self.shape.width]
        } else {
            &memory[..self.shape.width]
        });
        // Several neighbours that lie within their limits may lead an honest sum beyond its own.
        let sum = self.place(view.round() + 1).0;
        let counted = &mut out[..self.length(sum)];
        if let Some(most) = self.largest_mean(sum) {
            let norm = kernel::norm(counted);
            if norm > most {
                // A little less, so that rounding does not lead it out again.
                let scale = most / norm * (1.0 - 1e-12);
                counted.iter_mut().for_each(|x| *x *= scale);
            }
        }
    }

    fn shares(&self) -> Option<Vec<f64>> {
        self.recipe.request.mu?;
        let scouting = self.shape.scouting();
        let training = self.shape.training() / f64::from(self.shape.steps);
        let share = |round: u32| match self.place(round) {
            _ if self.passes_on(round) => 0.0,
            (0, _) => scouting,
            (sum, _) if sum <= self.shape.steps => training,
            (sum, _) => self.shape.calibration_of(sum - 1 - self.shape.steps),
        };
        Some((1..=self.rounds()).map(share).collect())
    }
}
