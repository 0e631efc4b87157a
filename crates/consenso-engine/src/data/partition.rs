//! Who gets which records.
//!
//! Every division is a pure function of the seed ([`Purpose::Data`]) and the data's shape; rows are
//! disjoint.

use serde::{Deserialize, Serialize};

use super::table::class_of;
use super::{DataError, Dataset, Grouping, SHARED, Task, normal, open_unit, shuffle};
use crate::random::{Purpose, Seed, Stream};

/// The records of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// `agent-0` …, or the name of the group.
    pub name: String,
    /// Indices of the training records, increasing.
    pub rows: Vec<usize>,
}

/// How training records are divided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Partition {
    /// At random, each agent the same number.
    Equal {
        /// Agents.
        agents: usize,
        /// Records an agent; by default all records are used and counts differ by at most one.
        records_per_agent: Option<usize>,
    },
    /// One agent a group of a column (or of `file`); groups without a record are left out.
    By {
        /// The column.
        column: String,
    },
    /// Label skew: the records of each class are divided in proportions drawn from a symmetric
    /// Dirichlet distribution; the smaller `alpha`, the more agents differ. All records are used.
    Dirichlet {
        /// Agents.
        agents: usize,
        /// Concentration, above 0.
        alpha: f64,
    },
}

/// Why records cannot be divided so.
#[derive(Debug, thiserror::Error)]
pub enum PartitionError {
    /// No agent at all.
    #[error("`agents` must be at least 1")]
    NoAgent,
    /// No records for an agent.
    #[error("`records_per_agent` must be at least 1")]
    NoRecords,
    /// Fewer records than asked for.
    #[error(
        "{agents} agents of {records_per_agent} records need {needed} records and there are {rows}; \
         use at most {} agents or {} records an agent", rows / records_per_agent, rows / agents
    )]
    TooFewRecords {
        /// Agents asked for.
        agents: usize,
        /// Records an agent asked for.
        records_per_agent: usize,
        /// Their product.
        needed: u128,
        /// Records there are.
        rows: usize,
    },
    /// An agent would have no record.
    #[error(
        "agent {agent} of {agents} gets no record; use a larger `dirichlet` than {alpha} or fewer agents"
    )]
    EmptyAgent {
        /// The agent.
        agent: usize,
        /// How many there are.
        agents: usize,
        /// The concentration.
        alpha: f64,
    },
    /// A concentration that is not a positive number.
    #[error("`dirichlet` = {alpha} must be a number above 0")]
    Alpha {
        /// The concentration.
        alpha: f64,
    },
    /// Label skew needs classes.
    #[error("`dirichlet` divides by class and the label is a number; use equal shares or a column")]
    NoClasses,
    /// No such column.
    #[error(transparent)]
    Grouping(#[from] DataError),
}

impl Partition {
    /// Divides the training records of `data`.
    ///
    /// # Errors
    /// [`PartitionError`], with what would help.
    pub(crate) fn divide(&self, data: &Dataset, seed: &Seed) -> Result<Vec<Shard>, PartitionError> {
        match self {
            Self::Equal { agents, records_per_agent } => {
                Ok(numbered(equal(data.rows(), *agents, *records_per_agent, seed)?))
            }
            Self::By { column } => Ok(by_group(data.grouping(column)?)),
            Self::Dirichlet { agents, alpha } => {
                let classes = match data.task {
                    Task::Binary => 2,
                    Task::MultiClass { classes } => classes,
                    Task::Regression { .. } => return Err(PartitionError::NoClasses),
                };
                let of: Vec<usize> =
                    data.labels().iter().map(|&label| class_of(label, classes)).collect();
                Ok(numbered(dirichlet(&of, *agents, *alpha, seed)?))
            }
        }
    }
}

fn numbered(shards: Vec<Vec<usize>>) -> Vec<Shard> {
    let shard = |(agent, rows)| Shard { name: format!("agent-{agent}"), rows };
    shards.into_iter().enumerate().map(shard).collect()
}

/// Equal random shares of `rows` records: `records_per_agent` each, or all of them with counts that
/// differ by at most one.
///
/// # Errors
/// [`PartitionError`] if there are fewer records than needed, or nothing is asked for.
pub fn equal(
    rows: usize,
    agents: usize,
    records_per_agent: Option<usize>,
    seed: &Seed,
) -> Result<Vec<Vec<usize>>, PartitionError> {
    enough(rows, agents, records_per_agent.unwrap_or(1))?;
    let mut order: Vec<usize> = (0..rows).collect();
    shuffle(&mut stream(seed, 0), &mut order);
    let size =
        |agent| records_per_agent.unwrap_or(rows / agents + usize::from(agent < rows % agents));
    let mut rest = order.as_slice();
    let shards = (0..agents).map(|agent| {
        let (mine, others) = rest.split_at(size(agent));
        rest = others;
        sorted(mine.to_vec())
    });
    Ok(shards.collect())
}

/// One shard a group that has a record, in the order of the names.
#[must_use]
pub(crate) fn by_group(grouping: &Grouping) -> Vec<Shard> {
    let shard = |name: &String| Shard { name: name.clone(), rows: Vec::new() };
    let mut shards: Vec<Shard> = grouping.names.iter().map(shard).collect();
    for (row, &group) in grouping.codes.iter().enumerate() {
        shards[group as usize].rows.push(row);
    }
    shards.retain(|shard| !shard.rows.is_empty());
    shards
}

/// Label skew: for each class, proportions over agents from Dirichlet(α, …, α), and its records cut
/// accordingly.
///
/// `class_of` is the class of each record. Proportions that leave an agent without a record are
/// drawn again, up to 100 times.
///
/// # Errors
/// [`PartitionError`] if an agent still has no record, or the parameters are unsound.
pub fn dirichlet(
    class_of: &[usize],
    agents: usize,
    alpha: f64,
    seed: &Seed,
) -> Result<Vec<Vec<usize>>, PartitionError> {
    enough(class_of.len(), agents, 1)?;
    if !(alpha > 0.0 && alpha.is_finite()) {
        return Err(PartitionError::Alpha { alpha });
    }
    let mut by_class = vec![Vec::new(); class_of.iter().max().map_or(0, |largest| largest + 1)];
    for (row, &class) in class_of.iter().enumerate() {
        by_class[class].push(row);
    }
    let mut empty = 0;
    for attempt in 0..100 {
        let rng = &mut stream(seed, attempt);
        let mut shards = vec![Vec::new(); agents];
        for rows in &by_class {
            let mut rows = rows.clone();
            shuffle(rng, &mut rows);
            cut(&rows, &dirichlet_proportions(rng, agents, alpha), &mut shards);
        }
        match shards.iter().position(Vec::is_empty) {
            Some(agent) => empty = agent,
            None => return Ok(shards.into_iter().map(sorted).collect()),
        }
    }
    Err(PartitionError::EmptyAgent { agent: empty, agents, alpha })
}

fn enough(rows: usize, agents: usize, records_per_agent: usize) -> Result<(), PartitionError> {
    if agents == 0 {
        return Err(PartitionError::NoAgent);
    }
    if records_per_agent == 0 {
        return Err(PartitionError::NoRecords);
    }
    let needed = agents as u128 * records_per_agent as u128;
    if needed > rows as u128 {
        return Err(PartitionError::TooFewRecords { agents, records_per_agent, needed, rows });
    }
    Ok(())
}

fn stream(seed: &Seed, attempt: u64) -> Stream {
    seed.stream(Purpose::Data, SHARED, attempt)
}

fn sorted(mut rows: Vec<usize>) -> Vec<usize> {
    rows.sort_unstable();
    rows
}

/// Gives `rows` to the shards in order, cut at the cumulative proportions.
fn cut(rows: &[usize], proportions: &[f64], shards: &mut [Vec<usize>]) {
    let (mut start, mut total) = (0, 0.0);
    for (agent, shard) in shards.iter_mut().enumerate() {
        total += proportions[agent];
        let end = (total * rows.len() as f64).round() as usize;
        // The last agent takes what rounding left over.
        let end =
            if agent + 1 == proportions.len() { rows.len() } else { end.clamp(start, rows.len()) };
        shard.extend_from_slice(&rows[start..end]);
        start = end;
    }
}

/// One draw of Dirichlet(α, …, α), through logarithms because Gamma(α) underflows for small α.
fn dirichlet_proportions(rng: &mut Stream, agents: usize, alpha: f64) -> Vec<f64> {
    let logs: Vec<f64> = (0..agents).map(|_| log_gamma_draw(rng, alpha)).collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| libm::exp(log - largest)).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// The logarithm of a Gamma(α, 1) draw: Marsaglia and Tsang (2000), with G(α) = G(α+1)·U^{1/α}
/// below α = 1.
fn log_gamma_draw(rng: &mut Stream, alpha: f64) -> f64 {
    if alpha < 1.0 {
        return log_gamma_draw(rng, alpha + 1.0) + libm::log(open_unit(rng)) / alpha;
    }
    let d = alpha - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && libm::log(open_unit(rng)) < 0.5 * x * x + d * (1.0 - v + libm::log(v)) {
            return libm::log(d * v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E[p^k] of one proportion of Dirichlet(α × n), which is Beta(α, (n−1)α).
    fn moment(alpha: f64, agents: f64, k: u32) -> f64 {
        (0..k).map(|i| (alpha + f64::from(i)) / (agents * alpha + f64::from(i))).product()
    }

    #[test]
    fn dirichlet_proportions_have_the_moments_of_the_distribution() {
        // Two-sided z test at 10⁻⁶ over six comparisons: |z| < 5.3. Seed fixed.
        let draws = 4_000;
        for (case, alpha) in [0.1, 1.0, 30.0].into_iter().enumerate() {
            let rng = &mut stream(&Seed::from(11), case as u64);
            let firsts: Vec<f64> =
                (0..draws).map(|_| dirichlet_proportions(rng, 5, alpha)[0]).collect();
            for k in [1, 2] {
                let mean = firsts.iter().map(|p| p.powi(k)).sum::<f64>() / f64::from(draws);
                let expected = moment(alpha, 5.0, k.unsigned_abs());
                let variance = moment(alpha, 5.0, 2 * k.unsigned_abs()) - expected * expected;
                let z = (mean - expected) / (variance / f64::from(draws)).sqrt();
                assert!(z.abs() < 5.3, "alpha {alpha}, moment {k}: z = {z}");
            }
        }
    }

    #[test]
    fn tiny_alpha_gives_proportions_not_nan() {
        let proportions = dirichlet_proportions(&mut stream(&Seed::from(1), 0), 4, 1e-4);
        assert!((proportions.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{proportions:?}");
    }

    #[test]
    fn shuffle_gives_every_order_equally_often() {
        // 24 counts, each within 5.6 standard deviations: false alarm below 10⁻⁶.
        let rng = &mut stream(&Seed::from(3), 0);
        let mut counts = std::collections::HashMap::new();
        for _ in 0..24_000 {
            let mut order = [0, 1, 2, 3];
            shuffle(rng, &mut order);
            *counts.entry(order).or_insert(0_u32) += 1;
        }
        let deviation = (24_000.0_f64 / 24.0 * (23.0 / 24.0)).sqrt();
        assert_eq!(counts.len(), 24);
        assert!(
            counts.values().all(|&count| (f64::from(count) - 1000.0).abs() < 5.6 * deviation),
            "{counts:?}"
        );
    }
}
