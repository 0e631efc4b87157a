//! The door for gradients that come from Python: it clips every record's, adds up, noises and
//! charges.

use crate::{ConsensoError, budget, contiguous, entropy, input};
use consenso_engine::gate::exact::{self, Grid, Noise};
use consenso_engine::privacy::calibrate::{NoiseKind, Request, calibrate};
use consenso_engine::privacy::{NeighbourRelation, Sampling, sampled};
use consenso_engine::problem::{Sensitivity, rounding_of_unit_sum};
use consenso_engine::random::{Purpose, Seed};
use numpy::{PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde_json::{Value, json};

/// One site's door. Its noise is calibrated for a number of releases; there is no further one.
#[pyclass(module = "consenso._core")]
#[derive(Debug)]
pub(crate) struct Gate {
    dim: usize,
    clip: f64,
    records: usize,
    /// σ of every release on a sum of unit vectors; empty without privacy.
    schedule: Vec<f64>,
    rounds: usize,
    released: usize,
    /// The chance of every record to be drawn for a release; all are in it if `None`.
    sampling: Option<f64>,
    seed: Seed,
    site: u64,
    claim: Option<Value>,
    /// What all releases cost, for a budget.
    cost: Option<String>,
}

#[pymethods]
impl Gate {
    #[new]
    #[pyo3(signature = (epsilon, delta, rounds, dim, clip, records, seed, site, sampling=None))]
    #[expect(clippy::too_many_arguments, reason = "the Python layer calls it")]
    fn new(
        epsilon: Option<f64>,
        delta: f64,
        rounds: usize,
        dim: usize,
        clip: f64,
        records: usize,
        seed: Option<u64>,
        site: u64,
        sampling: Option<f64>,
    ) -> PyResult<Self> {
        if let Some(rate) = sampling
            && !(rate > 0.0 && rate <= 1.0)
        {
            return Err(input(format!("batch={rate} must be a share above 0 and at most 1")));
        }
        let sampling = sampling.filter(|&rate| rate < 1.0);
        let seeded = seed.is_some();
        let seed = match seed {
            Some(seed) => Seed::from(seed),
            None => Seed::from_entropy(entropy()?),
        };
        let (mut schedule, mut claim, mut cost) = (Vec::new(), None, None);
        if let Some(epsilon) = epsilon {
            // A replaced record takes one unit vector out of the sum and puts another in. Where
            // records are drawn, each of the two moves it by at most half of the bound.
            let rounding = rounding_of_unit_sum(records);
            let reach = if sampling.is_some() { 2.0 + 2.0 * rounding } else { 2.0 + rounding };
            let step = Sensitivity::from_l2(reach, dim);
            let mut request = Request::new(epsilon, delta, rounds, dim, step);
            request.noise = Some(NoiseKind::Gaussian);
            let neighbours = NeighbourRelation::ReplaceOne;
            request.sampling = sampling.map(|rate| Sampling::new(rate, neighbours));
            let found = calibrate(&request).map_err(input)?;
            let sampler = if seeded {
                "exact Gaussian rounded to a public grid, a seeded stream: the claim holds only for noise of the operating system"
            } else {
                "exact Gaussian rounded to a public grid, noise of the operating system"
            };
            let mut caveats = vec!["every site's number of records is taken as public".to_owned()];
            caveats.extend(sampling.map(|rate| {
                format!("amplified by sampling: every record is drawn for a round with probability {rate}, by a coin of its own that nobody sees")
            }));
            claim = Some(json!({
                "epsilon": found.spent.epsilon, "delta": delta, "method": found.spent.method,
                "neighbours": "replace-one", "adversary": "every other site colludes and sees every sum",
                "sampler": sampler, "transcripts": 1, "sigma": found.schedule.first(),
                "caveats": caveats,
            }));
            // Each release is (‖step‖₂/σ)-GDP: a little more covers the rounding of the sum.
            let squares: f64 = found.schedule.iter().map(|sigma| (step.l2 / sigma).powi(2)).sum();
            let mu = squares.sqrt() * (1.0 + (rounds + 8) as f64 * f64::EPSILON);
            cost = Some(match sampling {
                None => budget::gaussian(found.spent.epsilon, delta, mu, seeded),
                Some(_) => budget::sampled(found.spent.epsilon, delta, seeded),
            });
            schedule = found.schedule;
        }
        Ok(Self {
            dim,
            clip,
            records,
            schedule,
            rounds,
            released: 0,
            sampling,
            seed,
            site,
            claim,
            cost,
        })
    }

    /// Returns the places of the records that the next release is about: all, or a secret sample
    /// that is the same until it is released.
    fn draw<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let all: Vec<usize> = match self.sampling {
            None => (0..self.records).collect(),
            Some(rate) => {
                let next = self.released as u64 + 1;
                let mut stream = self.seed.stream(Purpose::Batch, self.site, next);
                sampled::draw(&mut stream, rate, self.records)
            }
        };
        PyArray1::from_iter(py, all.into_iter().map(|place| place as i64))
    }

    /// Clips every row of float64 gradients, adds them up, noises and charges; returns the sum in
    /// the rows' unit.
    ///
    /// A row that is not finite counts as zero: an exception would tell that there is one.
    fn release<'py>(
        &mut self,
        py: Python<'py>,
        rows: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let rows = contiguous(&rows)?;
        let expected = match self.sampling {
            None => self.records,
            Some(_) => self.draw(py).len()?,
        };
        if rows.len() != expected * self.dim {
            return Err(input(format!(
                "{} numbers instead of {expected} records of {}",
                rows.len(),
                self.dim
            )));
        }
        if self.released == self.rounds {
            return Err(ConsensoError::new_err(format!(
                "the budget is spent: the noise was calibrated for {} releases",
                self.rounds
            )));
        }
        // Charged before anything is drawn.
        self.released += 1;
        let sum = py.detach(|| self.clipped_sum(rows));
        let Some(&sigma) = self.schedule.get(self.released - 1) else {
            return Ok(PyArray1::from_iter(py, sum.iter().map(|s| s * self.clip)));
        };
        let noise = Noise::Gaussian { sigma };
        let grid = Grid::for_scale(sigma).map_err(input)?;
        let mut steps = vec![0; self.dim];
        let mut stream = self.seed.stream(Purpose::Release, self.site, self.released as u64);
        exact::release(&mut stream, &sum, &[], noise, grid, &mut steps).map_err(input)?;
        Ok(PyArray1::from_iter(py, steps.iter().map(|&q| grid.value(q) * self.clip)))
    }

    /// What all releases together cost, as JSON; `None` without privacy.
    fn cost(&self) -> Option<&str> {
        self.cost.as_deref()
    }

    /// What is claimed, as JSON; `None` without privacy.
    fn claim(&self) -> Option<String> {
        self.claim.as_ref().map(Value::to_string)
    }
}

impl Gate {
    /// Σ g/max(‖g‖, clip): each term has length at most one, its rounding being on the safe side.
    ///
    /// Rows are scaled by a power of two first, which changes no bit of a row of ordinary size:
    /// squares of tiny numbers would be zero, and a row of them longer than `clip` would count as
    /// shorter.
    fn clipped_sum(&self, rows: &[f64]) -> Vec<f64> {
        let up = 1.0 + (self.dim + 8) as f64 * f64::EPSILON;
        let private = !self.schedule.is_empty();
        let mut sum = vec![0.0; self.dim];
        let mut scaled = vec![0.0; self.dim];
        for row in rows.chunks_exact(self.dim) {
            if !row.iter().all(|g| g.is_finite()) {
                continue;
            }
            if !private {
                sum.iter_mut().zip(row).for_each(|(s, g)| *s += g / self.clip);
                continue;
            }
            let largest = row.iter().fold(0.0f64, |most, g| most.max(g.abs()));
            if largest == 0.0 {
                continue;
            }
            let exponent = libm::frexp(largest).1;
            scaled.iter_mut().zip(row).for_each(|(s, g)| *s = libm::ldexp(*g, -exponent));
            let length = scaled.iter().map(|g| g * g).sum::<f64>().sqrt() * up;
            // Of a clip that is too small to be scaled, or too large, only that is left.
            let divisor = length.max(libm::ldexp(self.clip, -exponent));
            for (s, g) in sum.iter_mut().zip(&scaled) {
                *s += g / divisor;
            }
        }
        sum
    }
}
