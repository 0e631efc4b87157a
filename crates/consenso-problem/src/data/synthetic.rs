//! Seeded problems of any size.

use rand::{Rng, RngExt};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Records, RowBounds, SHARED, Task, normal, open_unit};
use crate::random::{Purpose, Seed, Stream};
use consenso_tables::{to_unit_norm, unit_bounds};

/// A generator of records for every agent.
///
/// The model. A shared truth w (one vector per class for softmax) is uniform on the cube \[−1, 1\]^d
/// scaled to unit norm; agent i's truth is w_i = w + h·v_i and the centre of its rows c_i = h·e_i,
/// with v_i and e_i drawn like w and h the heterogeneity. A row is c_i plus a uniform point of the
/// cube, scaled to unit ℓ2 norm (exactly: ‖z‖₂ ≤ 1 for the stored numbers). Labels:
///
/// - logistic: +1 with probability σ(m·√d·w_iᵀz), else −1;
/// - softmax: class c with probability ∝ exp(m·√d·w_{i,c}ᵀz);
/// - ridge: w_iᵀz + normal(0, 1/m²), clamped to \[−1 − h, 1 + h\].
///
/// With `nonzeros` = k a row has uniform values in k columns drawn at random and zeros elsewhere
/// (and no centre): few numbers in many dimensions.
///
/// With `informative` = k the problem is that of k dimensions, and so are its records, placed in k
/// columns drawn at random; all other features of every row are zero. Whatever d is, the same
/// models predict the same labels: what changes with d is only how many coordinates a model has.
///
/// m is the margin: the larger, the less noise in the labels (√d because wᵀz is about 1/√d). Agent
/// i's records are a function of (seed, i) alone.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    /// What is predicted.
    pub task: SyntheticTask,
    /// Agents.
    pub agents: usize,
    /// Records an agent.
    pub records_per_agent: usize,
    /// Features a row.
    pub dim: usize,
    /// h ≥ 0: how much agents differ; 0 for identically distributed agents.
    #[serde(default)]
    pub heterogeneity: f64,
    /// m > 0: how well labels can be predicted.
    #[serde(default = "default_margin")]
    pub margin: f64,
    /// Features of a row that are not zero; all of them unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonzeros: Option<usize>,
    /// Features that are not zero, the same ones in every row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub informative: Option<usize>,
}

fn default_margin() -> f64 {
    4.0
}

/// What a synthetic problem predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SyntheticTask {
    /// Two classes.
    Logistic,
    /// A number.
    Ridge,
    /// Several classes.
    Softmax {
        /// How many, at least 3.
        classes: usize,
    },
}

/// Why a synthetic problem cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SyntheticError {
    /// A count that is too small.
    #[error("`{key}` = {found} must be at least {least}")]
    TooSmall {
        /// The key.
        key: &'static str,
        /// Its value.
        found: usize,
        /// The least it may be.
        least: usize,
    },
    /// A real parameter outside its range.
    #[error("`{key}` = {found} must be a finite number {wanted}")]
    OutOfRange {
        /// The key.
        key: &'static str,
        /// Its value.
        found: f64,
        /// What it must be.
        wanted: &'static str,
    },
}

impl Synthetic {
    /// A problem of identical agents with the usual margin.
    #[must_use]
    pub fn new(task: SyntheticTask, agents: usize, records_per_agent: usize, dim: usize) -> Self {
        let margin = default_margin();
        Self {
            task,
            agents,
            records_per_agent,
            dim,
            heterogeneity: 0.0,
            margin,
            nonzeros: None,
            informative: None,
        }
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`SyntheticError`] names the key.
    pub fn check(&self) -> Result<(), SyntheticError> {
        let classes = if let SyntheticTask::Softmax { classes } = self.task { classes } else { 3 };
        let counts = [
            ("agents", self.agents, 1),
            ("records_per_agent", self.records_per_agent, 1),
            ("dim", self.dim, 1),
            ("classes", classes, 3),
        ];
        for (key, found, least) in counts {
            if found < least {
                return Err(SyntheticError::TooSmall { key, found, least });
            }
        }
        for (key, count) in [("nonzeros", self.nonzeros), ("informative", self.informative)] {
            if let Some(found) = count.filter(|&k| k == 0 || k > self.dim) {
                let wanted = "of at least 1 and at most `dim`";
                return Err(SyntheticError::OutOfRange { key, found: found as f64, wanted });
            }
        }
        if let (Some(k), Some(_)) = (self.informative, self.nonzeros) {
            let (found, wanted) = (k as f64, "without `nonzeros` beside it");
            return Err(SyntheticError::OutOfRange { key: "informative", found, wanted });
        }
        let (h, m) = (self.heterogeneity, self.margin);
        if !(h >= 0.0 && h.is_finite()) {
            return Err(SyntheticError::OutOfRange {
                key: "heterogeneity",
                found: h,
                wanted: "of at least 0",
            });
        }
        if !(m > 0.0 && m.is_finite()) {
            return Err(SyntheticError::OutOfRange { key: "margin", found: m, wanted: "above 0" });
        }
        Ok(())
    }

    /// All agents' records, made in parallel; the same whatever the number of threads.
    ///
    /// # Errors
    /// [`SyntheticError`] names the key that is wrong.
    pub fn generate(&self, seed: &Seed) -> Result<Vec<Records>, SyntheticError> {
        self.check()?;
        let agents = 0..self.agents as u64;
        let (small, columns) = self.small(seed);
        let truth = small.truth(seed);
        let agent = |agent| self.placed(small.agent_given(&truth, seed, agent), columns.as_deref());
        Ok(agents.into_par_iter().map(agent).collect())
    }

    /// One agent's records, as in [`Self::generate`].
    ///
    /// # Errors
    /// [`SyntheticError`] names the key that is wrong.
    pub fn agent(&self, seed: &Seed, agent: u64) -> Result<Records, SyntheticError> {
        self.check()?;
        let (small, columns) = self.small(seed);
        Ok(self.placed(small.agent_given(&small.truth(seed), seed, agent), columns.as_deref()))
    }

    /// Makes records agent by agent, as often as needed: what they have in common is drawn once.
    ///
    /// # Errors
    /// [`SyntheticError`] names the key that is wrong.
    #[doc(hidden)]
    pub fn maker(
        self,
        seed: &Seed,
    ) -> Result<impl Fn(u64) -> Records + Sync + 'static, SyntheticError> {
        self.check()?;
        let (small, columns) = self.small(seed);
        let (truth, seed) = (small.truth(seed), seed.clone());
        Ok(move |agent| self.placed(small.agent_given(&truth, &seed, agent), columns.as_deref()))
    }

    /// The problem that records are drawn for, and where its columns stand if it has fewer than
    /// this one.
    fn small(&self, seed: &Seed) -> (Self, Option<Vec<u32>>) {
        let Some(count) = self.informative else { return (*self, None) };
        let rng = &mut seed.stream(Purpose::Data, SHARED, COLUMNS_ROUND);
        let columns = some_columns(rng, self.dim, count);
        (Self { dim: count, informative: None, ..*self }, Some(columns))
    }

    fn placed(&self, records: Records, columns: Option<&[u32]>) -> Records {
        let Some(columns) = columns else { return records };
        let mut placed = Records::sparse(self.dim);
        for (row, &label) in records.labels().iter().enumerate() {
            placed.push_entries(records.entries(row).map(|(c, z)| (columns[c as usize], z)), label);
        }
        placed
    }

    /// Rows nobody trains on, drawn like those of an agent without heterogeneity.
    ///
    /// # Errors
    /// [`SyntheticError`] names the key that is wrong.
    pub fn test(&self, seed: &Seed, rows: usize) -> Result<Records, SyntheticError> {
        let shared = Self { heterogeneity: 0.0, records_per_agent: rows, ..*self };
        shared.agent(seed, TEST_AGENT)
    }

    /// What is publicly known about every row: they are scaled to unit norm.
    #[must_use]
    pub fn bounds(&self) -> RowBounds {
        let used = self.nonzeros.or(self.informative).unwrap_or(self.dim);
        let unit = unit_bounds(&vec![(0.0, 1.0); used]);
        RowBounds::declared(unit.l1(), unit.l2(), unit.linf())
    }

    /// What is predicted.
    #[must_use]
    pub fn task(&self) -> Task {
        match self.task {
            SyntheticTask::Logistic => Task::Binary,
            SyntheticTask::Softmax { classes } => Task::MultiClass { classes },
            SyntheticTask::Ridge => {
                Task::Regression { min: -1.0 - self.heterogeneity, max: 1.0 + self.heterogeneity }
            }
        }
    }

    /// One unit vector per class (one in all for logistic and ridge), one after the other.
    fn truth(&self, seed: &Seed) -> Vec<f64> {
        let rng = &mut seed.stream(Purpose::Data, SHARED, TRUTH_ROUND);
        let vectors = if let SyntheticTask::Softmax { classes } = self.task { classes } else { 1 };
        let mut truth = vec![0.0; vectors * self.dim];
        truth.chunks_exact_mut(self.dim).for_each(|w| unit_vector(rng, w));
        truth
    }

    fn agent_given(&self, shared: &[f64], seed: &Seed, agent: u64) -> Records {
        let rng = &mut seed.stream(Purpose::Data, agent, 0);
        let h = self.heterogeneity;
        let mut truth = shared.to_vec();
        let mut centre = vec![0.0; self.dim];
        if h > 0.0 {
            let mut other = vec![0.0; self.dim];
            for w in truth.chunks_exact_mut(self.dim) {
                unit_vector(rng, &mut other);
                w.iter_mut().zip(&other).for_each(|(w, v)| *w += h * v);
            }
            unit_vector(rng, &mut centre);
            centre.iter_mut().for_each(|c| *c *= h);
        }
        let mut logits = Vec::new();
        if let Some(count) = self.nonzeros {
            let mut records = Records::sparse(self.dim);
            let mut row = vec![0.0; count];
            for _ in 0..self.records_per_agent {
                let columns = some_columns(rng, self.dim, count);
                cube(rng, &mut row);
                to_unit_norm(&mut row);
                let entries = || columns.iter().copied().zip(row.iter().copied());
                logits.clear();
                let score = |w: &[f64]| entries().map(|(c, z)| w[c as usize] * z).sum::<f64>();
                logits.extend(truth.chunks_exact(self.dim).map(score));
                records.push_entries(entries(), self.label(rng, &logits));
            }
            return records;
        }
        let mut records = Records::with_capacity(self.dim, self.records_per_agent);
        for _ in 0..self.records_per_agent {
            records.push_with(|row| {
                cube(rng, row);
                row.iter_mut().zip(&centre).for_each(|(z, c)| *z += c);
                to_unit_norm(row);
                logits.clear();
                logits.extend(truth.chunks_exact(self.dim).map(|w| dot(w, row)));
                self.label(rng, &logits)
            });
        }
        records
    }

    fn label(&self, rng: &mut Stream, logits: &[f64]) -> f64 {
        let scale = self.margin * (self.dim as f64).sqrt();
        match self.task {
            SyntheticTask::Logistic => {
                let positive = 1.0 / (1.0 + libm::exp(-scale * logits[0]));
                if open_unit(rng) < positive { 1.0 } else { -1.0 }
            }
            SyntheticTask::Ridge => {
                let limit = 1.0 + self.heterogeneity;
                (logits[0] + normal(rng) / self.margin).clamp(-limit, limit)
            }
            // The largest of logit + Gumbel noise has the softmax distribution.
            SyntheticTask::Softmax { .. } => {
                let gumbel = |rng: &mut Stream| -libm::log(-libm::log(open_unit(rng)));
                let mut best = (f64::NEG_INFINITY, 0);
                for (class, logit) in logits.iter().enumerate() {
                    let score = scale * logit + gumbel(rng);
                    if score > best.0 {
                        best = (score, class);
                    }
                }
                best.1 as f64
            }
        }
    }
}

/// The stream of test rows: no agent has this number.
const TEST_AGENT: u64 = u64::MAX - 1;
/// Keeps the truth apart from the draws of a partition.
const TRUTH_ROUND: u64 = 1 << 21;
/// Keeps the columns apart from both.
const COLUMNS_ROUND: u64 = 1 << 22;

/// Independent uniform values on (−1, 1), 32 bits each: making rows is bound by the generator.
fn cube(rng: &mut Stream, row: &mut [f64]) {
    for value in row {
        *value = (f64::from(rng.next_u32()) + 0.5) * f64::powi(2.0, -31) - 1.0;
    }
}

/// `count` different columns below `dim`, all sets alike, in increasing order (Floyd's algorithm).
pub fn some_columns(rng: &mut Stream, dim: usize, count: usize) -> Vec<u32> {
    let mut chosen = std::collections::BTreeSet::new();
    for last in dim - count..dim {
        let column = rng.random_range(0..=last as u32);
        if !chosen.insert(column) {
            chosen.insert(last as u32);
        }
    }
    chosen.into_iter().collect()
}

fn unit_vector(rng: &mut Stream, vector: &mut [f64]) {
    cube(rng, vector);
    to_unit_norm(vector);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class_probabilities(problem: &Synthetic, truth: &[f64], row: &[f64]) -> Vec<f64> {
        let scale = problem.margin * (problem.dim as f64).sqrt();
        let mut logits: Vec<f64> =
            truth.chunks_exact(problem.dim).map(|w| scale * dot(w, row)).collect();
        if problem.task == SyntheticTask::Logistic {
            logits.insert(0, 0.0);
        }
        let total: f64 = logits.iter().map(|logit| logit.exp()).sum();
        logits.iter().map(|logit| logit.exp() / total).collect()
    }

    #[test]
    fn labels_follow_the_stated_model() {
        // z tests at 10⁻⁶ over five comparisons: |z| < 5.3. Seed fixed.
        let seed = Seed::from(5);
        for task in [SyntheticTask::Logistic, SyntheticTask::Softmax { classes: 3 }] {
            let problem = Synthetic::new(task, 1, 4_000, 7);
            let records = problem.agent(&seed, 0).expect("valid");
            let truth = problem.truth(&seed);
            let classes = if task == SyntheticTask::Logistic { 2 } else { 3 };
            let (mut excess, mut variance) = (vec![0.0; classes], vec![0.0; classes]);
            for (index, &label) in records.labels().iter().enumerate() {
                let label = if classes == 2 { f64::from(u8::from(label > 0.0)) } else { label };
                // Weighted by a feature, so that labels drawn regardless of the row would be
                // noticed.
                let weight = dot(&truth[..problem.dim], &records.row(index));
                for (class, p) in
                    class_probabilities(&problem, &truth, &records.row(index)).iter().enumerate()
                {
                    excess[class] += weight * (f64::from(u8::from(label == class as f64)) - p);
                    variance[class] += weight * weight * p * (1.0 - p);
                }
            }
            for (excess, variance) in excess.iter().zip(&variance) {
                assert!((excess / variance.sqrt()).abs() < 5.3, "{task:?}: {excess} of {variance}");
            }
        }
    }

    /// Of any two dimensions the rows have the same values, the same labels, and one model predicts
    /// both alike.
    #[test]
    fn an_informative_problem_does_not_change_with_its_dimension() {
        let seed = Seed::from(5);
        let problem = |dim| Synthetic {
            informative: Some(6),
            ..Synthetic::new(SyntheticTask::Logistic, 2, 50, dim)
        };
        let of = |dim| problem(dim).generate(&seed).expect("valid");
        let values = |r: &Records| -> Vec<Vec<f64>> {
            (0..r.len())
                .map(|row| r.entries(row).map(|e| e.1).filter(|z| *z != 0.0).collect())
                .collect()
        };
        for (small, large) in of(6).iter().zip(&of(5_000)) {
            assert_eq!((values(small), small.labels()), (values(large), large.labels()));
            assert!(
                (0..50)
                    .all(|row| large.entries(row).map(|e| e.0).eq(large.entries(0).map(|e| e.0)))
            );
        }
        assert_eq!(problem(6).bounds(), problem(5_000).bounds());
        let test = problem(5_000).test(&seed, 30).expect("valid");
        assert_eq!(test.labels(), problem(6).test(&seed, 30).expect("valid").labels());
        assert!(problem(5).check().unwrap_err().to_string().contains("informative"));
        let both = Synthetic { nonzeros: Some(3), ..problem(50) };
        assert!(both.check().unwrap_err().to_string().contains("without `nonzeros`"));
    }

    #[test]
    fn ridge_labels_are_the_truth_plus_noise_in_range() {
        let seed = Seed::from(5);
        let problem =
            Synthetic { margin: 20.0, ..Synthetic::new(SyntheticTask::Ridge, 1, 4_000, 7) };
        let records = problem.agent(&seed, 0).expect("valid");
        let truth = problem.truth(&seed);
        let squares: f64 = (0..records.len())
            .map(|row| (20.0 * (records.labels()[row] - dot(&truth, &records.row(row)))).powi(2))
            .sum();
        // Chi-square with 4,000 degrees: standard deviation √8000; 4.9 of them is 10⁻⁶. Clamping at
        // 1 hardly ever acts here.
        assert!((squares - 4_000.0).abs() < 4.9 * 8_000_f64.sqrt() + 20.0, "{squares}");
        assert!(records.labels().iter().all(|label| label.abs() <= 1.0));
    }
}
