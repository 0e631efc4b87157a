//! What an agent minimises: f_i(x) = (1/b) Σ_j φ(x; z_j, y_j) + (μ/2)‖x‖², the mean multiplied by N·w_i where sites have weights w_i, so that
//! (1/N) Σ_i f_i is the weighted objective.
//!
//! The data term is private; the regulariser is public, and is kept apart so that a protocol can put it on the public side of its
//! draft. Every loss has a gradient that one record moves by a bounded amount (see [`sensitivity`]).

pub(crate) mod clipped;
pub mod constraint;
pub mod costs;
pub mod coupled;
pub mod coupling;
pub mod loss;
mod losses;
mod neighbours;
pub mod sensitivity;
pub mod solve;
pub(crate) mod weights;

pub use clipped::rounding as rounding_of_unit_sum;
pub use constraint::Constraint;
pub use costs::Costs;
pub use coupling::Coupling;
pub use loss::{Loss, LossKind};
pub use neighbours::NeighbourRelation;
pub use sensitivity::Sensitivity;
pub use weights::{SiteWeights, WeightRule};

use crate::data::{Layout, Records, RowBounds};
use crate::kernel;
use std::sync::Arc;

/// A loss and its regularisation: the public part of a problem, the same for every agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The loss of one record.
    pub loss: Loss,
    /// μ of (μ/2)‖x‖².
    pub regularization: f64,
}

impl Objective {
    /// Length of the model for records of `features` features.
    #[must_use]
    pub fn dim(&self, features: usize) -> usize {
        self.loss.outputs() * features
    }

    /// M: ∇f is M-Lipschitz for every data set within the bounds.
    #[must_use]
    pub fn smoothness(&self, bounds: &RowBounds) -> f64 {
        self.loss.curvature() * bounds.l2 * bounds.l2 + self.regularization
    }

    /// M̂: along any one coordinate ∇f is M̂-Lipschitz for every data set within the bounds: no feature is longer than the longest row.
    #[must_use]
    pub fn coordinate_smoothness(&self, bounds: &RowBounds) -> f64 {
        let longest = bounds.linf.min(bounds.l2);
        self.loss.curvature() * longest * longest + self.regularization
    }

    /// m: f − (m/2)‖x‖² is convex for every data set.
    #[must_use]
    pub fn strong_convexity(&self) -> f64 {
        self.regularization
    }
}

/// One agent's f_i: the objective on its own records.
#[derive(Clone, Debug)]
pub struct LocalObjective {
    objective: Objective,
    records: Arc<Records>,
    costs: Option<Arc<Costs>>,
    /// Records that are kept raw until their columns are scouted.
    raw: Option<Arc<clipped::Raw>>,
    /// N·w_i, which the mean over the records is multiplied by.
    weight: f64,
}

/// Scratch space for gradients: one a thread, reused for every agent.
#[derive(Default)]
pub struct Workspace {
    scratch: kernel::Scratch,
    margins: Vec<f64>,
    whole: Vec<f64>,
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workspace(..)")
    }
}

impl LocalObjective {
    /// f_i on `records`.
    #[must_use]
    pub fn new(objective: Objective, records: impl Into<Arc<Records>>) -> Self {
        Self { objective, records: records.into(), costs: None, raw: None, weight: 1.0 }
    }

    /// f_i as costs instead of records: the function itself counts as the one record.
    #[must_use]
    pub fn from_costs(costs: impl Into<Arc<Costs>>) -> Self {
        let costs = costs.into();
        let mut records = Records::with_capacity(costs.dim(), 1);
        records.push(&vec![0.0; costs.dim()], 0.0);
        let objective = Objective { loss: Loss::Ridge { clip: f64::INFINITY }, regularization: 0.0 };
        Self { objective, records: records.into(), costs: Some(costs), raw: None, weight: 1.0 }
    }

    /// Raw records, to be standardised in a run whose messages have `width` numbers.
    pub(crate) fn from_raw(
        objective: Objective,
        records: impl Into<Arc<Records>>,
        layout: &Arc<crate::data::RawLayout>,
        width: usize,
    ) -> Self {
        let raw = Some(Arc::new(clipped::Raw::new(Arc::clone(layout), width)));
        Self { objective, records: records.into(), costs: None, raw, weight: 1.0 }
    }

    /// The same objective with room of its own for standardised rows, for runs side by side.
    pub(crate) fn apart(&self) -> Self {
        let raw = self.raw.as_ref().map(|raw| Arc::new(raw.apart()));
        Self { raw, ..self.clone() }
    }

    /// What is known of its records if they are raw.
    pub(crate) fn raw(&self) -> Option<&clipped::Raw> {
        self.raw.as_deref()
    }

    /// Multiplies the mean over the records by `weight` = N·w_i, what this site counts beside the others; the regulariser stays as it is, for the weights of
    /// all sites add up to N.
    #[must_use]
    pub fn weighted(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Returns N·w_i, 1 where all sites count the same.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Returns the same function of other records.
    pub(crate) fn on(&self, records: impl Into<Arc<Records>>) -> Self {
        Self::new(self.objective, records).weighted(self.weight)
    }

    /// What is public of this agent.
    pub(crate) fn stake(&self) -> weights::Stake {
        weights::Stake { records: self.records.len(), weight: self.weight }
    }

    /// What a record's loss counts for.
    fn per_record(&self) -> f64 {
        self.weight / self.records.len() as f64
    }

    /// The same records under another μ.
    #[must_use]
    pub(crate) fn with_regularization(mut self, regularization: f64) -> Self {
        self.objective.regularization = regularization;
        self
    }

    /// Its costs, if it has no records.
    #[must_use]
    pub fn costs(&self) -> Option<&Costs> {
        self.costs.as_deref()
    }

    /// The public part.
    #[must_use]
    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    /// The records, private to this agent.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Length of the model.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.raw.as_ref().map_or_else(|| self.objective.dim(self.records.dim()), |raw| raw.width())
    }

    /// f_i(x), regulariser included.
    #[must_use]
    pub fn value(&self, x: &[f64], work: &mut Workspace) -> f64 {
        if let Some(costs) = &self.costs {
            return costs.value(x);
        }
        let data =
            self.weight * (self.objective.loss.total(&self.records, x, work) / self.records.len() as f64);
        0.5 * self.objective.regularization * kernel::dot(x, x) + data
    }

    /// The function whose gradient [`Self::gradient`] is: f_i, with Huber's loss in place of a ridge loss that is clipped.
    fn potential(&self, x: &[f64], work: &mut Workspace) -> f64 {
        let loss = match self.objective.loss {
            Loss::Ridge { clip } => Loss::Huber { delta: clip },
            loss => loss,
        };
        let data = self.weight * (loss.total(&self.records, x, work) / self.records.len() as f64);
        0.5 * self.objective.regularization * kernel::dot(x, x) + data
    }

    /// The private part of the gradient: (1/b) Σ_j ∇φ(x; z_j, y_j), clipped where the loss says so, times the [weight](Self::weight).
    pub fn data_gradient(&self, x: &[f64], out: &mut [f64], work: &mut Workspace) {
        if let Some(costs) = &self.costs {
            return costs.gradient(x, out);
        }
        self.objective.loss.gradient(&self.records, x, out, work);
        let scale = self.per_record();
        for g in out {
            *g *= scale;
        }
    }

    /// Some coordinates of [`Self::data_gradient`] at the point that `x` writes, if it is needed at all: rows kept as their non-zeros may have none of
    /// the coordinates.
    pub fn data_gradient_at(
        &self,
        x: impl FnOnce(&mut [f64]),
        coordinates: &[u32],
        out: &mut [f64],
        work: &mut Workspace,
    ) {
        let mut both = std::mem::take(&mut work.whole);
        both.resize(2 * self.dim(), 0.0);
        let (point, gradient) = both.split_at_mut(self.dim());
        match (self.records.layout(), self.objective.loss) {
            (Layout::Sparse(rows), loss) if self.costs.is_none() && loss.outputs() == 1 => {
                loss.sparse_gradient_at((rows, &self.records), x, point, coordinates, out);
                let scale = self.per_record();
                out.iter_mut().for_each(|g| *g *= scale);
            }
            _ => {
                x(point);
                self.data_gradient(point, gradient, work);
                for (out, &l) in out.iter_mut().zip(coordinates) {
                    *out = gradient[l as usize];
                }
            }
        }
        work.whole = both;
    }

    /// ∇f_i(x), regulariser included.
    pub fn gradient(&self, x: &[f64], out: &mut [f64], work: &mut Workspace) {
        self.data_gradient(x, out, work);
        kernel::axpy(self.objective.regularization, x, out);
    }
}

impl LocalObjective {
    /// ∇²f_i(x) of records, regulariser included, for small dimensions.
    fn hessian(&self, x: &[f64], work: &mut Workspace) -> nalgebra::DMatrix<f64> {
        let dim = x.len();
        let mut hessian = nalgebra::DMatrix::zeros(dim, dim);
        let curvature = self.objective.loss.curvature_at(&self.records, x, work);
        let (mut unit, mut column) = (vec![0.0; dim], vec![0.0; dim]);
        for c in 0..dim {
            unit[c] = 1.0;
            curvature.apply(&unit, &mut column, work);
            unit[c] = 0.0;
            for (r, v) in column.iter().enumerate() {
                hessian[(r, c)] = self.weight * (v / self.records.len() as f64);
            }
            hessian[(c, c)] += self.objective.regularization;
        }
        hessian
    }
}

/// What the model `x` gives for every record: one number zᵀx, or one for every class, record after record, for softmax.
#[must_use]
pub fn scores(loss: &Loss, records: &Records, x: &[f64]) -> Vec<f64> {
    let mut work = Workspace::default();
    match loss {
        Loss::Softmax { classes } => {
            let features = records.dim();
            let of_row = |row: usize| {
                let z = records.row(row);
                (0..*classes).map(move |c| kernel::dot(&z, &x[c * features..(c + 1) * features]))
            };
            (0..records.len()).flat_map(of_row).collect()
        }
        _ => {
            loss::margins(records, x, &mut work);
            work.margins
        }
    }
}

/// The fraction of `records` that the model `x` labels as they are labelled; `None` for regression.
#[must_use]
pub fn accuracy(loss: &Loss, records: &Records, x: &[f64]) -> Option<f64> {
    accuracy_above(loss, records, x, 0.5)
}

/// [`accuracy`] of a model that answers the positive of two classes above this probability.
#[must_use]
pub fn accuracy_above(loss: &Loss, records: &Records, x: &[f64], threshold: f64) -> Option<f64> {
    let rows = records.len();
    if rows == 0 || !loss.classifies() {
        return None;
    }
    let mut work = Workspace::default();
    let right = match loss {
        Loss::Softmax { classes } => {
            let features = records.dim();
            let best = |row: usize| {
                let z = records.row(row);
                let score = |c: usize| kernel::dot(&z, &x[c * features..(c + 1) * features]);
                (0..*classes).map(|c| (c, score(c))).max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |b| b.0)
            };
            (0..rows).filter(|&row| best(row) as f64 == records.labels()[row]).count()
        }
        _ => {
            loss::margins(records, x, &mut work);
            // A margin of zero decides nothing; it counts as the negative class, so that the zero model is the majority's.
            let cut = libm::log(threshold / (1.0 - threshold));
            let agrees = |(m, y): (&f64, &f64)| (*m > cut) == (*y > 0.0);
            work.margins.iter().zip(records.labels()).filter(|&pair| agrees(pair)).count()
        }
    };
    Some(right as f64 / rows as f64)
}

/// The area under the ROC curve of the margins, ties counted half; `None` unless there are two classes, both present.
#[must_use]
pub fn auc(loss: &Loss, records: &Records, x: &[f64]) -> Option<f64> {
    if !loss.is_binary() {
        return None;
    }
    let mut work = Workspace::default();
    loss::margins(records, x, &mut work);
    let mut scored: Vec<(f64, bool)> =
        work.margins.iter().zip(records.labels()).map(|(&m, &y)| (m, y > 0.0)).collect();
    scored.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let positives = scored.iter().filter(|s| s.1).count();
    let negatives = scored.len() - positives;
    if positives == 0 || negatives == 0 {
        return None;
    }
    // Rank-sum with mid-ranks for ties.
    let mut rank_sum = 0.0;
    let mut start = 0;
    while start < scored.len() {
        let end = start + scored[start..].iter().take_while(|s| s.0 == scored[start].0).count();
        let mid_rank = (start + end + 1) as f64 / 2.0;
        rank_sum += mid_rank * scored[start..end].iter().filter(|s| s.1).count() as f64;
        start = end;
    }
    let (p, n) = (positives as f64, negatives as f64);
    Some((rank_sum - p * (p + 1.0) / 2.0) / (p * n))
}
