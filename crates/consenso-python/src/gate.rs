//! The door for gradients that come from Python: it clips every record's, adds up, noises and
//! charges.

use crate::{ConsensoError, contiguous, entropy, input};
use consenso_engine::gate::exact::{self, Grid, Noise};
use consenso_engine::privacy::calibrate::{NoiseKind, Request, calibrate};
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
    seed: Seed,
    site: u64,
    claim: Option<Value>,
}

#[pymethods]
impl Gate {
    #[new]
    #[pyo3(signature = (epsilon, delta, rounds, dim, clip, records, seed, site))]
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
    ) -> PyResult<Self> {
        let seeded = seed.is_some();
        let seed = match seed {
            Some(seed) => Seed::from(seed),
            None => Seed::from_entropy(entropy()?),
        };
        let (mut schedule, mut claim) = (Vec::new(), None);
        if let Some(epsilon) = epsilon {
            // A replaced record takes one unit vector out of the sum and puts another in.
            let step = Sensitivity::from_l2(2.0 + rounding_of_unit_sum(records), dim);
            let mut request = Request::new(epsilon, delta, rounds, dim, step);
            request.noise = Some(NoiseKind::Gaussian);
            let found = calibrate(&request).map_err(input)?;
            let sampler = if seeded {
                "exact Gaussian rounded to a public grid, a seeded stream: the claim holds only for noise of the operating system"
            } else {
                "exact Gaussian rounded to a public grid, noise of the operating system"
            };
            claim = Some(json!({
                "epsilon": found.spent.epsilon, "delta": delta, "method": found.spent.method,
                "neighbours": "replace-one", "adversary": "every other site colludes and sees every sum",
                "sampler": sampler, "transcripts": 1, "sigma": found.schedule.first(),
                "caveats": ["every site's number of records is taken as public"],
            }));
            schedule = found.schedule;
        }
        Ok(Self { dim, clip, records, schedule, rounds, released: 0, seed, site, claim })
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
        if rows.len() != self.records * self.dim {
            return Err(input(format!(
                "{} numbers instead of {} records of {}",
                rows.len(),
                self.records,
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

    /// What is claimed, as JSON; `None` without privacy.
    fn claim(&self) -> Option<String> {
        self.claim.as_ref().map(Value::to_string)
    }
}

impl Gate {
    /// Σ g/max(‖g‖, clip): each term has length at most one, its rounding being on the safe side.
    fn clipped_sum(&self, rows: &[f64]) -> Vec<f64> {
        let up = 1.0 + (self.dim + 8) as f64 * f64::EPSILON;
        let private = !self.schedule.is_empty();
        let mut sum = vec![0.0; self.dim];
        for row in rows.chunks_exact(self.dim) {
            let length = row.iter().map(|g| g * g).sum::<f64>().sqrt() * up;
            if !length.is_finite() {
                continue;
            }
            let divisor = if private { length.max(self.clip) } else { self.clip };
            for (s, g) in sum.iter_mut().zip(row) {
                *s += g / divisor;
            }
        }
        sum
    }
}
