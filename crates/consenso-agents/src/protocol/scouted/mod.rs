//! Gradient descent on columns that were scouted first: what `kind = "dgd"` means with
//! `encoding = "scouted"`.
//!
//! Three stages, one composition (Gaussian noise, Σ μ_k² = μ²). In each, every site releases a
//! **sum over its records** in which one record has a bounded share, and all sites learn Σ_i
//! (w_i/b_i)·release_i exactly, so all derive the same result, bit for bit:
//!
//! 1. **Scout** (a tenth of μ²; `histograms.rs`): one histogram per column and one of the label,
//!    which counts as much as a quarter of the columns. Centre and scale of every number
//!    (`problem::noised_histogram`) and the shares of levels and classes follow from the noised sums. Where noise leaves room for it,
//!    four tenths of the share are kept for three **second looks** at the columns whose scale is
//!    hidden in a cell, label included: not at those that visibly lie elsewhere too, nor at more
//!    than the noise of the look lets see, and an amount that is mostly nothing keeps the scale of
//!    its tail. How far a record moves each of these sums is known before anything is scouted,
//!    whatever is looked at.
//! 2. **Train** (`training.rs`): K noisy sums of gradients on standardised rows, each record's
//!    gradient clipped to length G and divided by G ([`clipped`](crate::problem), with the proof):
//!    replacing a record moves a sum by at most 2, whatever the records are. Noise and claim are
//!    therefore known before anything is scouted; G itself follows from the public result of
//!    stage 1 and, for several classes and for numbers, from three looks at how long gradients are by
//!    then (a fiftieth of μ², where noise lets them say anything; `lengths.rs`): a model that fits has
//!    shorter ones, and less noise.
//! 3. **Calibrate** (two classes; a twentieth of μ²; `calibration.rs`): slope and offset of the
//!    score, shrunk by their own noise towards no change. A model for numbers is shrunk towards the
//!    mean by what noise alone makes of its answers, as far as that can be known (`noise.rs`).
//!
//! # Numbers of the plan
//! With w_i ∝ b_i²/(b_i + 4D/μ²), r = √Σ(w_i/b_i)² turns the noise of a site's sum into the noise
//! of the weighted mean. q = 4D(k/2)r/μ compares the noise of a fitted model with the signal there
//! is to fit (D columns, k classes). All gradients together tell a gradient of the mean loss up to
//! noise of deviation ν = 2Gr/μ₂ a coordinate, however many they are. Let coefficients have prior
//! deviation τ, τ²d_eff = 0.49 (a score with a signal of 0.7), times (log₂k)² where k classes are
//! told apart. Along a direction of curvature λ the estimate of least expected error is Wiener's,
//! λτ²/(λ²τ² + ν²) of what Newton's step would be times the gradient:
//!
//! - it follows the data where λ > ν/τ and gives up below. Gradient descent of total length S = Σ η
//!   follows directions of λ > 1/S, so **S = (8/5)τ/ν**: the mean of the last three quarters of the
//!   iterates, which is the model, has travelled five eighths of the way. The noise of the mean
//!   model depends on the steps through S alone: splitting it into more rounds costs nothing, and
//!   **momentum** makes up for steps that are fewer, as far as what a step does is over in a third
//!   of all: 240 go as far as T = 3,840, and beyond that rounds grow with √T, to the 400 of a run without
//!   noise. Two gradients that point against each other
//!   beyond their noise say that a step was too long: it is shortened, for both are public.
//! - At λ = h, the curvature of a standardised column, it is a **ridge ρ = ν²/(hτ²)**. The noise
//!   then has ρ/(h + ρ) of the scores' variance (`plan` predicts more: columns go together). Σ
//!   w_i²/b_i is added to it: what records are too few for without any noise.
//! - S grows and ρ falls with μ: with a larger budget the filter is closer to the optimum in every
//!   direction, so that **more budget is never worse** beyond the noise of a run: at fixed records
//!   the expected error λν²τ²/(λ²τ² + ν²) of each direction is increasing in ν, and ν ∝ 1/μ.
//!
//! **As ε grows every choice tends to what it is without privacy**: the clip, the time and the bound
//! of numbers to infinity, ridge, floors of variance and the pull of priors to (nearly) nothing.
//! The clip is g usual gradients, g = 0.35/√q and at least 0.4, for a shorter clip trades bias for
//! noise. A class that is rare has the longest gradients at the start: clips up to that length
//! silence it, so g may reach it, and 0.12/√q beyond it. A regression's residuals have no bound, nor
//! has the clip. A number counts up to the distance from its centre at which it alone would have
//! half of a clipped gradient's squared length, and up to 2.5 scales in any case: with little noise
//! long tails are signal.
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

mod between;
mod calibration;
mod compared;
mod histograms;
pub mod inference;
mod lengths;
mod noise;
mod parts;
mod protocol;
mod reach;
mod residual;
mod rules;
mod sums;
mod times;
mod training;

use super::Pairwise;
use crate::config_error::ConfigError;
use crate::data::RawLayout;
use crate::graph::{Graph, Tree};
use crate::kernel;
use crate::problem::weights::SiteWeights;
use crate::problem::{LocalObjective, Loss};
use calibration::CALIBRATION;
pub use compared::PredictionsBesideOutcomes;
use histograms::Weights;
pub use parts::MethodPart;
use std::sync::Arc;
pub use training::loss_under;

/// Vectors of a message's length that an agent remembers: two sums and its state.
pub(crate) const MEMORY: usize = 6;
/// Between sites: the share of a coefficient's prior variance by which coefficients vary, and the
/// deviation of intercepts.
const PERSONAL_SHARE: f64 = 0.1;
const PERSONAL_OFFSET: f64 = 0.5;

/// What is public before the first release, and all open choices.
#[derive(Clone, Debug)]
pub struct ScoutingRequest {
    /// The columns as they are before they are standardised.
    pub layout: Arc<RawLayout>,
    /// What is trained.
    pub loss: Loss,
    /// Whether the two classes count half each, by the shares that scouting finds.
    pub balanced: bool,
    /// How sites count.
    pub weights: SiteWeights,
    /// μ of the budget; `None` for a run that protects nobody.
    pub mu: Option<f64>,
    /// How often a record's share can move a sum: 2 for replacing a record, 1 for adding or
    /// removing one.
    pub change_factor: f64,
    /// Records that one person has at most: all of them may be replaced at once.
    pub person: u32,
    /// Ridge of a run without noise.
    pub ridge: f64,
    /// Training steps, if the file says.
    pub steps: Option<u32>,
    /// Whether standard errors are found.
    pub inference: bool,
    /// Whether sampling error is that of the model, not of the scores themselves.
    pub model_based: bool,
    /// Whether sites are a sample of sites: what varies between them is part of standard errors.
    pub between: bool,
    /// Whether predictions are compared with outcomes, which costs a share of the budget.
    pub compares: bool,
    /// Second looks, where that is settled.
    pub looks: Option<u32>,
    /// What is left out of the method, to see what it is worth.
    pub without: Vec<MethodPart>,
    /// Noise that neighbours share, and how much smaller a site's own noise may be for it: √R.
    pub pairwise: Option<(Pairwise, f64)>,
}

/// What every run of an experiment has in common: its timetable.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScoutingTimetable {
    /// Training steps K.
    steps: u32,
    /// Whether there is a third stage.
    calibrates: bool,
    /// Second looks at columns, and looks at the lengths of gradients.
    looks: u32,
    lengths: u32,
    /// Numbers in a message.
    pub width: usize,
    /// Exchanges a sum takes.
    exchanges: u32,
    /// Whether everybody hears everybody.
    complete: bool,
    /// Most records of a site.
    records: usize,
    /// What a record adds to the histograms.
    counted: Weights,
    /// Most neighbours of a site.
    degree: usize,
    /// Whether standard errors are found.
    inference: bool,
    /// Whether predictions are compared with outcomes.
    compares: bool,
    /// Whether there is noise.
    noised: bool,
}

impl ScoutingTimetable {
    /// Share of μ² of the first stage.
    fn scouting(&self) -> f64 {
        self.counted.share()
    }

    /// Share of μ² of the training steps.
    fn training(&self) -> f64 {
        1.0 - self.scouting() - self.calibration() - self.lengths_share() - self.inference_share()
    }

    /// Share of μ² of the last stage.
    fn calibration(&self) -> f64 {
        if self.calibrates { CALIBRATION } else { 0.0 }
    }
}

/// The choices for sites of given sizes.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    request: ScoutingRequest,
    /// w_i/b_i.
    factors: Vec<f64>,
    /// w_i.
    pub(crate) weights: Vec<f64>,
    /// r.
    pub(crate) r: f64,
    /// q.
    pub(crate) q: f64,
    /// Σ w_i²/b_i: the variance of the weighted mean of records that vary by one.
    spread: f64,
    /// Deviation of the noise of a cell of the mean histogram, and of one in a second look that is
    /// at one column alone.
    cell_noise: f64,
    look_noise: f64,
    looks: u32,
    /// The most cells of a second look.
    look_cells: usize,
    /// Cells of a number's histogram, and of a regression's label.
    bins: usize,
    label_bins: usize,
    counted: Weights,
    floor: f64,
    /// Length a record's calibration gradient is clipped to.
    calibration_clip: f64,
    calibrates: bool,
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
    /// Iterates in it; slope and offsets; their means; how many are in those; what steps were
    /// shortened to; lengths of gradients.
    tally: &'a mut [f64],
    /// How far the last step went, and the sum it followed.
    velocity: &'a mut [f64],
    before: &'a mut [f64],
    /// How wide the cells were that each number was found with.
    widths: &'a mut [f64],
    /// The mean of the scores, their information and their second moment; empty unless standard
    /// errors are found.
    gradient: &'a mut [f64],
    curvature: &'a mut [f64],
    moment: &'a mut [f64],
    /// How sites' mean scores vary, where that is asked for.
    between: &'a mut [f64],
    /// Which columns vary within sites, where that is asked for.
    varies: &'a mut [f64],
    /// Predictions beside outcomes, where that is asked for.
    compared: &'a mut [f64],
}

/// Where an agent stands in the tree.
#[derive(Clone, Debug)]
struct TreePosition {
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

/// The algorithm, before or after it knows whose it is.
#[derive(Clone, Debug)]
pub struct Scouted {
    pub(crate) recipe: Arc<Recipe>,
    /// How long its messages are.
    pub shape: ScoutingTimetable,
    position: Option<TreePosition>,
}

/// The largest of some shares, and whose it is.
pub fn largest(shares: impl Iterator<Item = f64>) -> (usize, f64) {
    shares.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
}

impl Scouted {
    /// The algorithm for all runs of an experiment: each has its numbers of records and its graph.
    ///
    /// # Errors
    /// Weights that do not fit.
    pub fn plan(
        request: &ScoutingRequest,
        records: &[Vec<usize>],
        graphs: &[Arc<Graph>],
    ) -> Result<Self, ConfigError> {
        let looks = Some(Recipe::new(request, &records[0])?.looks);
        let request = &ScoutingRequest { looks, ..request.clone() };
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
        let state =
            request.layout.standard_len() + coefficients + first.tally() + first.inference_len();
        let exchanges = if complete { 1 } else { 2 * heights.into_iter().max().unwrap_or(1) };
        let cells = |r: &Recipe| r.cells().max(r.look_cells);
        let steps = request.steps.unwrap_or_else(|| first.default_steps(exchanges));
        let shape = ScoutingTimetable {
            steps,
            lengths: first.looks_at_lengths(steps),
            calibrates: first.calibrates,
            looks: first.looks,
            width: recipes.iter().map(cells).max().unwrap_or(0).max(state),
            exchanges,
            complete,
            // One more than announced may be there where neighbours differ in their number.
            records: records.iter().flatten().copied().max().unwrap_or(1)
                + usize::from(request.change_factor < 2.0),
            counted: first.counted,
            degree: graphs.iter().map(|g| g.max_degree()).max().unwrap_or(0),
            inference: request.inference,
            compares: request.inference && request.compares,
            noised: request.mu.is_some(),
        };
        Ok(Self { recipe: Arc::new(recipes.swap_remove(0)), shape, position: None })
    }

    /// Makes messages longer; the numbers behind a sum's own are not used.
    pub fn with_width(&self, width: usize) -> Self {
        let shape = ScoutingTimetable { width: self.shape.width.max(width), ..self.shape };
        Self { recipe: Arc::clone(&self.recipe), shape, position: None }
    }

    /// The standard of all records without noise.
    pub fn exact_standard(
        layout: &Arc<RawLayout>,
        loss: Loss,
        records: &[usize],
        locals: &[LocalObjective],
    ) -> Option<Vec<f64>> {
        let weights = SiteWeights::Rule(crate::problem::WeightRule::Records);
        let layout = Arc::clone(layout);
        let (mu, steps, balanced) = (None, None, false);
        let request = ScoutingRequest {
            layout,
            loss,
            balanced,
            weights,
            mu,
            change_factor: 2.0,
            person: 1,
            ridge: 0.0,
            steps,
            inference: false,
            model_based: false,
            between: false,
            compares: false,
            looks: Some(0),
            without: Vec::new(),
            pairwise: None,
        };
        let recipe = Recipe::new(&request, records).ok()?;
        let (mut cells, mut total) = (vec![0.0; recipe.cells()], vec![0.0; recipe.cells()]);
        for (local, factor) in locals.iter().zip(&recipe.factors) {
            recipe.count(local, &mut cells);
            kernel::axpy(*factor, &cells, &mut total);
        }
        Some(recipe.standard(&total).0)
    }

    /// The algorithm as agent `agent` of this graph runs it.
    pub(crate) fn placed(&self, agent: usize, graph: &Graph, records: &[usize]) -> Option<Self> {
        let recipe = Recipe::new(&self.recipe.request, records).ok()?;
        let neighbours: Vec<usize> = graph.neighbours(agent).iter().map(|&j| j as usize).collect();
        let position = if self.shape.complete {
            TreePosition {
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
            TreePosition {
                agent,
                neighbours,
                children: children.filter_map(|j| Some((place(j)?, j))).collect(),
                parent,
                height: tree.height[agent],
                depth: tree.depth[agent],
                tree: tree.height(),
            }
        };
        Some(Self { recipe: Arc::new(recipe), shape: self.shape, position: Some(position) })
    }

    /// Exchanges after which everybody knows the standard.
    pub(crate) fn scouting_rounds(&self) -> u32 {
        (1 + self.shape.looks) * self.shape.exchanges
    }

    /// Numbers of a message that scouting uses.
    pub(crate) fn scouted_numbers(&self) -> usize {
        self.recipe.cells().max(self.recipe.look_cells)
    }

    /// Numbers of a message of this algorithm alone.
    pub(crate) fn message_width(&self) -> usize {
        self.shape.width
    }

    /// Numbers of the memory that scouting uses.
    pub(crate) fn scouting_memory(&self) -> usize {
        MEMORY * self.shape.width
    }

    /// The share of μ² that a round of scouting has.
    pub(crate) fn scouting_share_of(&self, round: u32) -> f64 {
        self.share_of(self.place(round).0)
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
    pub fn scouting_share(&self) -> f64 {
        self.shape.scouting()
    }

    /// The usual length of a row under a standard.
    pub(crate) fn usual_length(&self, standard: &[f64]) -> f64 {
        (self.recipe.request.layout.effective_dim(standard) + 1.0).sqrt()
    }

    /// How the budget is divided, for the claim.
    pub fn split_of_the_budget(&self) -> String {
        let split = self.split_by_stage();
        match self.recipe.request.person {
            0 | 1 => split,
            most => format!(
                "{split}; the claim is about a person: noise hides all of the at most {most} records that one person has at a site, \
                 together: their gradients are added up and bounded as one, and histograms are noised for all of them"
            ),
        }
    }

    fn split_by_stage(&self) -> String {
        // Rounded once, so that the parts add up as printed.
        let percent = |share: f64| (100.0 * share).round();
        let scouting = percent(self.shape.scouting());
        if self.infers() {
            let compared = percent(self.shape.comparing());
            let inference = percent(self.shape.inference_share());
            let compares = match self.shape.compares {
                true => format!(", {compared:.0} % compares predictions with outcomes"),
                false => String::new(),
            };
            let bounded = match self.recipe.request.loss.is_of_pairs() {
                true => {
                    "scores of pairs are bounded one by one, a record's place among those of its site says whose pair it is in"
                }
                false => "records' scores are bounded one by one",
            };
            return format!(
                "one budget for all stages, as parts of μ²: {scouting:.0} % scouts the columns, {:.0} % trains, {:.0} % finds the \
                 standard errors{compares}; {bounded}, and sites weigh by their announced numbers of records",
                100.0 - scouting - inference,
                inference - compared
            );
        }
        let (calibration, lengths) =
            (percent(self.shape.calibration()), percent(self.shape.lengths_share()));
        let looks = match self.shape.lengths {
            0 => String::new(),
            _ => format!(", {lengths:.0} % asks how long gradients are"),
        };
        format!(
            "one budget for all stages, as parts of μ²: {scouting:.0} % scouts the columns, {:.0} % trains{looks}, {calibration:.0} % calibrates the score; \
             records' gradients are clipped one by one, and sites weigh by their announced numbers of records",
            100.0 - scouting - calibration - lengths
        )
    }

    /// The part of the trained scores' variance that is noise, as it looks before anything is
    /// scouted; `None` without noise.
    ///
    /// Along a direction of curvature h a model of prior deviation τ, with τ²·d_eff = 0.49, is
    /// found with noise of deviation ν/h: the noise has ν²/(ν² + τ²h²) of the variance. That is
    /// ρ/(h + ρ) for the ridge ρ = ν²/(hτ²) of the plan. Columns that go together leave half of the
    /// curvature along each, so that noise has four times as much.
    pub fn noise_share(&self) -> Option<f64> {
        let recipe = &self.recipe;
        let mu = recipe.request.mu?;
        let blind = recipe.request.layout.blind(recipe.floor);
        let (h, ridge) =
            (recipe.curvature(&blind), recipe.ridge(self.shape.training(), &blind, 1.0, mu));
        Some(ridge / (h * noise::SHARED_CURVATURE.powi(2) + ridge))
    }

    /// The AUC of a model of two classes that would have 0.8 without noise, or the R² of one that
    /// would have 0.5, as it looks before anything is scouted; `positives` is the share of the
    /// positive class, and noise is `less` times what it is. `None` for several classes, for hazards,
    /// and without noise.
    ///
    /// A score that tells classes apart with AUC Φ(a) has a signal of variance 2a²; noise of
    /// [this share](Self::noise_share) of the scores' variance leaves Φ(√(1 − share)·a), or 1 −
    /// share of R². A clip takes from the signal what it takes from a usual gradient. (On thirteen
    /// sets that it was not made on, at ε = 0.5, 1 and 3, for what each would have without noise, it
    /// is off by 0.08 of AUC and 0.13 of R² on the mean: how columns go together, and where they lie
    /// in their ranges, is not public.)
    pub fn expected(&self, positives: f64, less: f64) -> Option<f64> {
        let recipe = &self.recipe;
        if recipe.request.loss.proportional().is_some() {
            return None;
        }
        let (mu, layout) = (recipe.request.mu?, &recipe.request.layout);
        let mut standard = layout.blind(recipe.floor);
        let binary = match (layout.classes(), layout.prevalence()) {
            (Some(2), known) => {
                let share = known.map_or(positives, |known| known[1]);
                let at = standard.len() - 4;
                standard[at..at + 2].copy_from_slice(&[1.0 - share, share]);
                Some(share * (1.0 - share))
            }
            (Some(_), _) => return None,
            (None, _) => None,
        };
        let (quantile, plain) = (0.841_621_233_572_914_3, 0.5);
        let signal = if binary.is_some() { 2.0 * quantile * quantile } else { plain };
        let curvature =
            noise::SHARED_CURVATURE * binary.unwrap_or(1.0) * recipe.clip_share(&standard).min(1.0);
        let prior = signal / layout.effective_dim(&standard).max(1.0);
        let noise = less * recipe.noise(self.shape.training(), &standard, 1.0, mu);
        let kept = 1.0 - 1.0 / (1.0 + prior * (curvature / noise).powi(2));
        Some(match binary {
            Some(_) => 0.5 * libm::erfc(-kept.sqrt() * quantile / std::f64::consts::SQRT_2),
            None => plain * kept,
        })
    }

    /// How many sites there are.
    pub fn sites(&self) -> usize {
        self.recipe.weights.len()
    }

    /// Whether neighbours share noise.
    pub fn shares_noise(&self) -> bool {
        self.recipe.request.pairwise.is_some()
    }

    /// Whether a number is predicted.
    pub fn predicts_a_number(&self) -> bool {
        self.recipe.request.layout.classes().is_none()
    }

    /// Whether two classes are told apart, with shares that nobody knows beforehand.
    pub fn has_open_shares(&self) -> bool {
        let layout = &self.recipe.request.layout;
        layout.classes() == Some(2) && layout.prevalence().is_none()
    }

    /// How far a site's own coefficients lie from the shared model's, and its intercept from the
    /// shared one, as deviations (`experiment::personal` has the derivation).
    pub fn personal_deviation(&self, standard: &[f64]) -> (f64, f64) {
        let recipe = &self.recipe;
        let prior = recipe.prior(standard);
        let error = |prior: f64| match recipe.request.mu {
            Some(mu) => {
                let noise = recipe.noise(self.shape.training(), standard, 1.0, mu);
                1.0 / (1.0 / prior + (recipe.curvature(standard) / noise).powi(2))
            }
            None => 0.0,
        };
        let between = (PERSONAL_SHARE * prior, PERSONAL_OFFSET * PERSONAL_OFFSET);
        ((between.0 + error(prior)).sqrt(), (between.1 + error(1.0)).sqrt())
    }

    /// Exchanges of messages that one sum takes.
    pub fn exchanges(&self) -> u32 {
        self.shape.exchanges
    }

    /// Whether slope and offset of the score are found at the end.
    pub fn calibrates(&self) -> bool {
        self.shape.calibrates
    }

    /// Training steps.
    pub fn steps(&self) -> u32 {
        self.shape.steps
    }

    /// What the last stage multiplied the weights of a model by.
    pub fn scaled_by(&self, model: &[f64]) -> f64 {
        let at = self.recipe.request.layout.standard_len() + self.recipe.coefficients();
        model.get(at).copied().unwrap_or(1.0)
    }

    /// What looks at the lengths of gradients found, in a model as agents have it.
    pub fn lengths_of<'a>(&self, model: &'a [f64]) -> &'a [f64] {
        let at = self.recipe.request.layout.standard_len() + self.recipe.coefficients() + 1;
        model.get(at..at + lengths::LOOKS_AT_LENGTHS).unwrap_or(&[])
    }

    /// Splits a model as agents have it into the standard and the coefficients under it.
    pub fn split<'a>(&self, model: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        let standard = self.recipe.request.layout.standard_len();
        (&model[..standard], &model[standard..standard + self.recipe.coefficients()])
    }
}
