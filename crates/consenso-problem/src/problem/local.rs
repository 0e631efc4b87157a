//! One agent's f_i: the mean loss of its records, or costs.

use super::loss::Curvature;
use super::{Costs, Loss, Objective, Workspace, clipped, weights};
use crate::data::{Layout, RawLayout, Records};
use crate::kernel;
use std::sync::Arc;

/// What one agent minimises, f_i. It is private: protocols read it in
/// `Protocol::step` only.
#[derive(Clone, Debug)]
pub enum LocalObjective {
    /// The mean loss of the agent's records.
    Records(MeanLoss),
    /// What the agent pays for each of its variables. The function itself counts as one record.
    Costs(Arc<Costs>),
}

/// The mean loss of one agent's records, multiplied by what the agent counts beside the others,
/// plus the public regulariser.
#[derive(Clone, Debug)]
pub struct MeanLoss {
    objective: Objective,
    records: Arc<Records>,
    /// What raw records need until their columns are scouted.
    raw: Option<Arc<clipped::Raw>>,
    /// N·w_i, which the mean over the records is multiplied by.
    weight: f64,
    /// What sums over records are divided by, where it is not their number.
    divisor: Option<f64>,
    /// Which of an agent's records these are, where they are some.
    drawn: Option<Arc<(Vec<usize>, Arc<Records>)>>,
}

/// A sample of an agent's records.
#[derive(Debug)]
pub struct Drawn<'a> {
    /// Their places among all of them.
    pub rows: &'a [usize],
    /// What sums over them are divided by.
    pub divisor: f64,
    /// The function of all of them.
    pub whole: LocalObjective,
}

impl LocalObjective {
    /// f_i on `records`.
    #[must_use]
    pub fn new(objective: Objective, records: impl Into<Arc<Records>>) -> Self {
        Self::Records(MeanLoss {
            objective,
            records: records.into(),
            raw: None,
            weight: 1.0,
            divisor: None,
            drawn: None,
        })
    }

    /// f_i as costs instead of records.
    #[must_use]
    pub fn from_costs(costs: impl Into<Arc<Costs>>) -> Self {
        Self::Costs(costs.into())
    }

    /// Raw records, to be standardised in a run whose messages have `width` numbers.
    #[doc(hidden)]
    pub fn from_raw(
        objective: Objective,
        records: impl Into<Arc<Records>>,
        layout: &Arc<RawLayout>,
        width: usize,
    ) -> Self {
        let raw = Some(Arc::new(clipped::Raw::new(Arc::clone(layout), width)));
        Self::Records(MeanLoss {
            objective,
            records: records.into(),
            raw,
            weight: 1.0,
            divisor: None,
            drawn: None,
        })
    }

    /// Gives the objective room of its own for standardised rows, for runs side by side.
    #[doc(hidden)]
    pub fn apart(&self) -> Self {
        match self {
            Self::Records(f) => {
                let raw = f.raw.as_ref().map(|raw| Arc::new(raw.apart()));
                Self::Records(MeanLoss { raw, ..f.clone() })
            }
            Self::Costs(costs) => Self::Costs(Arc::clone(costs)),
        }
    }

    /// Multiplies the mean over the records by `weight` = N·w_i, what this site counts beside the
    /// others; the regulariser stays as it is, for the weights of all sites add up to N. Costs have
    /// no weight.
    #[must_use]
    pub fn weighted(mut self, weight: f64) -> Self {
        if let Self::Records(f) = &mut self {
            f.weight = weight;
        }
        self
    }

    /// The function of some of its records, sums over which are divided by `divisor`, a public
    /// number. `None` where the agent has costs, or records that are still raw.
    #[must_use]
    #[doc(hidden)]
    pub fn of_some(&self, rows: &[usize], divisor: f64) -> Option<Self> {
        let f = self.mean_loss().filter(|f| f.raw.is_none())?;
        let records = Arc::new(f.records.select(rows));
        let drawn = Some(Arc::new((rows.to_vec(), Arc::clone(&f.records))));
        Some(Self::Records(MeanLoss { records, divisor: Some(divisor), drawn, ..f.clone() }))
    }

    /// The sample that these records are, if they were [drawn](Self::of_some).
    #[must_use]
    #[doc(hidden)]
    pub fn drawn(&self) -> Option<Drawn<'_>> {
        let f = self.mean_loss()?;
        let (rows, all) = &**f.drawn.as_ref()?;
        let records = Arc::clone(all);
        let whole = Self::Records(MeanLoss { records, divisor: None, drawn: None, ..f.clone() });
        Some(Drawn { rows, divisor: f.divisor?, whole })
    }

    /// Replaces μ; costs have none.
    #[must_use]
    #[doc(hidden)]
    pub fn with_regularization(mut self, regularization: f64) -> Self {
        if let Self::Records(f) = &mut self {
            f.objective.regularization = regularization;
        }
        self
    }

    /// Returns the records and what is minimised on them, or nothing where the agent has costs.
    #[must_use]
    pub fn mean_loss(&self) -> Option<&MeanLoss> {
        match self {
            Self::Records(f) => Some(f),
            Self::Costs(_) => None,
        }
    }

    /// Returns N·w_i, 1 where all sites count the same.
    pub fn weight(&self) -> f64 {
        self.mean_loss().map_or(1.0, MeanLoss::weight)
    }

    /// What is public of this agent.
    #[doc(hidden)]
    pub fn site_weight(&self) -> weights::SiteWeight {
        let records = self.mean_loss().map_or(1, |f| f.records.len());
        weights::SiteWeight { records, weight: self.weight() }
    }

    /// Where its rows lie in memory; nothing is known of rows that are not standardised yet, and of
    /// costs.
    #[doc(hidden)]
    pub fn rows_in_memory(&self) -> kernel::RowsInMemory {
        match self {
            Self::Records(f) if f.raw.is_none() => {
                kernel::RowsInMemory::of(f.records.layout(), f.records.labels())
            }
            Self::Records(_) | Self::Costs(_) => kernel::RowsInMemory::default(),
        }
    }

    /// How many numbers a gradient reads, about.
    #[doc(hidden)]
    pub fn stored(&self) -> usize {
        match self {
            Self::Records(f) => f.records.stored(),
            Self::Costs(costs) => costs.dim(),
        }
    }

    /// Returns μ of the public regulariser; 0 for costs, which have none.
    #[must_use]
    pub fn regularization(&self) -> f64 {
        self.mean_loss().map_or(0.0, |f| f.objective.regularization)
    }

    /// How smooth the solver of local problems takes f_i for, which is public: rows for unit rows,
    /// and costs, which have a closed form, for as smooth.
    #[doc(hidden)]
    pub fn assumed_smoothness(&self) -> f64 {
        self.mean_loss().map_or(1.0, |f| {
            f.weight.max(1.0) * f.objective.loss.curvature() + f.objective.regularization
        })
    }

    /// Length of the model.
    #[must_use]
    pub fn dim(&self) -> usize {
        match self {
            Self::Records(f) => f.dim(),
            Self::Costs(costs) => costs.dim(),
        }
    }

    /// f_i(x), regulariser included.
    #[must_use]
    pub fn value(&self, x: &[f64], work: &mut Workspace) -> f64 {
        match self {
            Self::Records(f) => f.with_loss(f.objective.loss, x, work),
            Self::Costs(costs) => costs.value(x),
        }
    }

    /// The function whose gradient [`Self::gradient`] is: f_i, with Huber's loss in place of a
    /// ridge loss that is clipped.
    pub(super) fn potential(&self, x: &[f64], work: &mut Workspace) -> f64 {
        match self {
            Self::Records(f) => match f.objective.loss {
                Loss::Ridge { clip } => f.with_loss(Loss::Huber { delta: clip }, x, work),
                loss => f.with_loss(loss, x, work),
            },
            Self::Costs(costs) => costs.value(x),
        }
    }

    /// The private part of the gradient: (1/b) Σ_j ∇φ(x; z_j, y_j), clipped where the loss says so,
    /// times the agent's weight; all of it for costs.
    pub fn data_gradient(&self, x: &[f64], out: &mut [f64], work: &mut Workspace) {
        match self {
            Self::Records(f) => {
                f.objective.loss.gradient(&f.records, x, out, work);
                let scale = f.per_record();
                out.iter_mut().for_each(|g| *g *= scale);
            }
            Self::Costs(costs) => costs.gradient(x, out),
        }
    }

    /// [`Self::data_gradient`] with no record's part longer than `share` (up to 1) of what its bound
    /// allows: the slope is clipped there where the loss has one that can be, and elsewhere the
    /// whole is multiplied by `share`. Either way one record moves it by `share` times what it moves
    /// the gradient.
    #[doc(hidden)]
    pub fn clipped_gradient(&self, share: f64, x: &[f64], out: &mut [f64], work: &mut Workspace) {
        let clipped = self.mean_loss().and_then(|f| {
            let loss = f.objective.loss.with_share_of_slopes(share)?;
            Some(MeanLoss { objective: Objective { loss, ..f.objective }, ..f.clone() })
        });
        match clipped {
            Some(f) => Self::Records(f).data_gradient(x, out, work),
            None => {
                self.data_gradient(x, out, work);
                out.iter_mut().for_each(|g| *g *= share);
            }
        }
    }

    /// Some coordinates of [`Self::data_gradient`] at the point that `x` writes, if it is needed at
    /// all: rows kept as their non-zeros may have none of the coordinates.
    #[doc(hidden)]
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
        let sparse = self.mean_loss().filter(|f| f.raw.is_none());
        let sparse = sparse.and_then(|f| match f.records.layout() {
            Layout::Sparse(rows) if f.objective.loss.outputs() == 1 => Some((f, rows)),
            _ => None,
        });
        if let Some((f, rows)) = sparse {
            f.objective.loss.sparse_gradient_at((rows, &f.records), x, point, coordinates, out);
            let scale = f.per_record();
            out.iter_mut().for_each(|g| *g *= scale);
        } else {
            x(point);
            self.data_gradient(point, gradient, work);
            for (out, &l) in out.iter_mut().zip(coordinates) {
                *out = gradient[l as usize];
            }
        }
        work.whole = both;
    }

    /// ∇f_i(x), regulariser included.
    pub fn gradient(&self, x: &[f64], out: &mut [f64], work: &mut Workspace) {
        self.data_gradient(x, out, work);
        kernel::axpy(self.regularization(), x, out);
    }

    /// The Hessian at x, regulariser apart, to be multiplied with vectors.
    pub(super) fn bend_at<'a>(&'a self, x: &'a [f64], work: &mut Workspace) -> HessianAt<'a> {
        match self {
            Self::Records(f) => {
                HessianAt::Records(f, f.objective.loss.curvature_at(&f.records, x, work))
            }
            Self::Costs(costs) => HessianAt::Costs(costs, x),
        }
    }
}

impl MeanLoss {
    /// The loss and its regularisation, which are public.
    #[must_use]
    pub fn objective(&self) -> &Objective {
        &self.objective
    }

    /// The records, private to this agent.
    #[must_use]
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Returns N·w_i, which the mean over the records is multiplied by: 1 where all sites count the
    /// same.
    #[must_use]
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Returns the same function of other records.
    #[doc(hidden)]
    pub fn on(&self, records: impl Into<Arc<Records>>) -> LocalObjective {
        LocalObjective::new(self.objective, records).weighted(self.weight)
    }

    /// Its rows under a standard of their columns; `None` unless they are raw.
    #[doc(hidden)]
    pub fn under(&self, standard: &[f64]) -> Option<Arc<clipped::Standardised>> {
        Some(self.raw.as_ref()?.under(standard, &self.records))
    }

    fn dim(&self) -> usize {
        self.raw.as_ref().map_or_else(|| self.objective.dim(self.records.dim()), |raw| raw.width())
    }

    /// What a record's loss counts for.
    fn per_record(&self) -> f64 {
        self.weight / self.divisor.unwrap_or(self.records.len() as f64)
    }

    fn with_loss(&self, loss: Loss, x: &[f64], work: &mut Workspace) -> f64 {
        let data = self.weight * (loss.total(&self.records, x, work) / self.records.len() as f64);
        0.5 * self.objective.regularization * kernel::dot(x, x) + data
    }

    /// ∇²f_i(x), regulariser included, for small dimensions.
    pub(super) fn hessian(&self, x: &[f64], work: &mut Workspace) -> nalgebra::DMatrix<f64> {
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

/// A Hessian at a point, regulariser apart.
pub(super) enum HessianAt<'a> {
    Records(&'a MeanLoss, Curvature<'a>),
    Costs(&'a Costs, &'a [f64]),
}

impl HessianAt<'_> {
    /// `out = H·v`.
    pub(super) fn apply(&self, v: &[f64], out: &mut [f64], work: &mut Workspace) {
        match self {
            Self::Records(f, curvature) => {
                curvature.apply(v, out, work);
                let scale = f.per_record();
                out.iter_mut().for_each(|o| *o *= scale);
            }
            Self::Costs(costs, x) => costs.bend(x, v, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::losses::{Poisson, Probit};
    use crate::problem::{Constraint, solve};

    /// Costs are what they are: no record, no regulariser, no weight, and minimisers know how they
    /// bend.
    #[test]
    fn costs_are_costs_and_not_a_loss_of_records() {
        let costs = Costs::new(vec![2.0, 4.0], vec![-6.0, 8.0], vec![[-9.0, 9.0]; 2]);
        let local = LocalObjective::from_costs(costs).weighted(3.0).with_regularization(1.0);
        assert!(local.mean_loss().is_none());
        assert_eq!((local.dim(), local.weight(), local.regularization()), (2, 1.0, 0.0));
        assert_eq!(local.site_weight().records, 1);
        assert_eq!(format!("{local:?}"), "Costs(Costs(variables=2))");
        let (mut g, mut work) = (vec![0.0; 2], Workspace::default());
        local.gradient(&[1.0, 1.0], &mut g, &mut work);
        assert_eq!(g, [-4.0, 12.0]);
        local.data_gradient_at(|x| x.fill(1.0), &[1], &mut g[..1], &mut work);
        assert_eq!(g[0], 12.0);
        let found = solve::central_optimum(std::slice::from_ref(&local), &Constraint::None, None);
        assert!(kernel::distance(&found.x, &[3.0, -2.0]) < 1e-9 && found.steps <= 2, "{found:?}");
        // Their local problem has a closed form, which keeps to the limits.
        let proximal = solve::Proximal { centre: &[100.0, 0.0], weight: 2.0 };
        let mut x = vec![0.0; 2];
        assert_eq!(
            solve::proximal_step(&local, proximal, &Constraint::None, &mut x, 1e-12, &mut work),
            0.0
        );
        assert_eq!(x, [9.0, -8.0 / 6.0]);
    }

    /// A public divisor in place of the number of records: what is drawn adds up, and nothing is
    /// nothing.
    #[test]
    fn sums_over_some_records_are_divided_by_what_is_said() {
        let mut records = Records::with_capacity(2, 3);
        for (row, label) in [([1.0, 0.5], 1.0), ([-0.3, 0.2], -1.0), ([0.4, -0.9], 1.0)] {
            records.push(&row, label);
        }
        let objective = Objective { loss: Loss::Logistic, regularization: 0.1 };
        let local = LocalObjective::new(objective, records).weighted(2.0);
        let (x, mut work) = ([0.3, -0.7], Workspace::default());
        let mut gradient = |rows: &[usize], divisor: f64| {
            let mut out = vec![f64::NAN; 2];
            local.of_some(rows, divisor).unwrap().data_gradient(&x, &mut out, &mut work);
            out
        };
        let mut all = vec![0.0; 2];
        local.data_gradient(&x, &mut all, &mut Workspace::default());
        assert_eq!(gradient(&[0, 1, 2], 3.0), all);
        assert_eq!(gradient(&[], 1.5), [0.0, 0.0]);
        let (one, two) = (gradient(&[1], 1.5), gradient(&[0, 2], 1.5));
        for ((a, b), c) in one.iter().zip(&two).zip(&all) {
            assert!((a + b - 2.0 * c).abs() < 1e-15);
        }
        let costs = Costs::new(vec![2.0], vec![-6.0], vec![[-9.0, 9.0]]);
        assert!(LocalObjective::from_costs(costs).of_some(&[0], 1.0).is_none());
    }

    /// Whatever the loss, one record's part is at most the share of the longest it may have; and a
    /// clip leaves alone what is shorter.
    #[test]
    fn a_clipped_gradient_moves_by_a_share_of_what_a_gradient_moves_by() {
        let mut work = Workspace::default();
        let losses = [
            (Loss::Logistic, 1.0),
            (Loss::ClippedLogistic { clip: 0.5 }, 0.5),
            (Loss::WeightedLogistic { clip: 0.8, negative: 0.5, positive: 3.0 }, 2.4),
            (Loss::Ridge { clip: 2.0 }, 2.0),
            (Loss::Huber { delta: 1.5 }, 1.5),
            (Loss::SquaredHinge { clip: 1.0 }, 1.0),
            (Loss::WeightedSquaredHinge { clip: 0.7, negative: 2.0, positive: 1.0 }, 1.4),
            (Loss::Poisson(Poisson { clip: 4.0, most: 4.0 }), 4.0),
            (Loss::Probit(Probit { clip: 2.0 }), 2.0),
            (Loss::Softmax { classes: 2 }, 2f64.sqrt()),
        ];
        for (loss, most) in losses {
            let objective = Objective { loss, regularization: 0.1 };
            let mut long = false;
            for label in [-1.0, 0.0, 1.0] {
                if (loss.is_binary() && label == 0.0) || (loss.outputs() == 2 && label < 0.0) {
                    continue;
                }
                let mut records = Records::with_capacity(1, 1);
                records.push(&[1.0], label);
                let local = LocalObjective::new(objective, records);
                for x in [-50.0, -3.0, -0.1, 0.0, 0.4, 2.0, 50.0] {
                    let x = vec![x; local.dim()];
                    let (mut whole, mut clipped) = (x.clone(), x.clone());
                    local.data_gradient(&x, &mut whole, &mut work);
                    for share in [1.0, 0.7, 0.1] {
                        local.clipped_gradient(share, &x, &mut clipped, &mut work);
                        let length = kernel::norm(&clipped);
                        let bound = share * most;
                        assert!(length <= bound * (1.0 + 1e-12), "{loss:?}: {length} of {bound}");
                        assert!(share < 1.0 || clipped == whole, "{loss:?}");
                        long |= length >= 0.999 * bound;
                        let clips = loss.with_share_of_slopes(share).is_some();
                        if clips
                            && kernel::norm(&whole)
                                <= share * loss.weight(label) * most / loss.heaviest()
                        {
                            assert!((clipped[0] - whole[0]).abs() < 1e-12, "{loss:?}: {clipped:?}");
                        }
                    }
                }
            }
            assert!(long || loss.outputs() > 1, "{loss:?} never reaches its bound");
        }
    }

    /// A log may show how many records there are, and nothing of them.
    #[test]
    fn debug_shows_no_record() {
        let mut records = Records::with_capacity(2, 1);
        records.push(&[0.123, 0.456], 1.0);
        let local =
            LocalObjective::new(Objective { loss: Loss::Logistic, regularization: 0.1 }, records)
                .weighted(2.0);
        let shown = format!("{local:?}");
        assert!(
            shown.contains("Records(") && !shown.contains("0.123") && !shown.contains("0.456"),
            "{shown}"
        );
    }
}
