//! Who gets which records.
//!
//! Every division is a pure function of the seed ([`Purpose::Data`]) and the data's shape; rows are
//! disjoint. Records that a claim protects are divided by a [`StablePartition`] alone, which maps
//! neighbours to neighbours.

use std::collections::HashMap;

use rand::Rng as _;
use serde::{Deserialize, Serialize};

use super::dataset::FILE;
use super::{
    DataError, Dataset, Grouping, Kind, Records, SHARED, Task, below, normal, open_unit, shuffle,
};
use crate::random::{Purpose, Seed, Stream};
use consenso_tables::class_of;

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
    /// Label skew of records that a claim protects.
    #[error(
        "`dirichlet` divides by the labels: one changed label would move other people's records to other agents, and the agents' numbers of \
         records would show it; divide by site (`by`), or leave `partition` out for equal shares"
    )]
    ByLabel,
    /// Groups of a feature of records that a claim protects.
    #[error(
        "`by = \"{column}\"` makes the number of records of every value of that feature public, and no claim covers that; divide by a \
         column of kind \"site\" or by \"file\", or leave `partition` out for equal shares"
    )]
    ByFeature {
        /// The column.
        column: String,
    },
    /// Shares of a fixed size, of records that may be more or fewer.
    #[error(
        "`records_per_agent` fixes how many records an agent has: where one may be added or removed, another would take its place; \
         leave it out"
    )]
    FixedSize,
    /// An agent to whom no record fell.
    #[error("no record falls to agent {agent} of {agents}; use fewer agents")]
    NoRecordFor {
        /// The agent.
        agent: usize,
        /// How many there are.
        agents: usize,
    },
}

/// What decides where a record goes: to which agent, or among those held out.
///
/// Both keep the promise of a [`StablePartition`], each for its own kind of neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordKeys {
    /// Its position among the others, whose number is fixed: for neighbours that differ in what one
    /// record says.
    #[default]
    Position,
    /// What it says, and how many equal records stand before it: for neighbours of which one has a
    /// record more.
    Content,
}

/// A division of records that a claim protects.
///
/// # Promise
/// *Records → agents → hold-out maps neighbours to neighbours.* Where two data sets differ in one
/// record, by [`RecordKeys::Position`] in what it says, by [`RecordKeys::Content`] in whether it is
/// there, so do the records of one agent, or those that were held out, and all others have the same
/// records on both sides (equal records are the same). So a claim of every agent about its own
/// records is a claim about the records of all.
///
/// By position, whoever gets the i-th record of n is a function of i, n and the seed. By content
/// it is a function of the record and the seed: of k equal records the same k places are taken,
/// whatever else there is, and of k − 1 all of them but the last.
#[derive(Clone, Debug, PartialEq)]
pub struct StablePartition {
    partition: Partition,
    keys: RecordKeys,
}

impl StablePartition {
    /// Takes a division that keeps the promise.
    ///
    /// # Errors
    /// [`PartitionError`] for one that does not: by label, by a feature, or of a fixed size where
    /// the number of records is not.
    pub fn new(
        partition: Partition,
        keys: RecordKeys,
        data: &Dataset,
    ) -> Result<Self, PartitionError> {
        match &partition {
            Partition::Dirichlet { .. } => return Err(PartitionError::ByLabel),
            Partition::By { column } => {
                let is_feature = |c: &&super::Column| c.name == *column && c.kind != Kind::Site;
                if column != FILE && data.schema.columns().iter().any(|c| is_feature(&c)) {
                    return Err(PartitionError::ByFeature { column: column.clone() });
                }
            }
            Partition::Equal { records_per_agent: Some(_), .. } if keys == RecordKeys::Content => {
                return Err(PartitionError::FixedSize);
            }
            Partition::Equal { .. } => {}
        }
        Ok(Self { partition, keys })
    }

    /// Divides the training records of `data`.
    ///
    /// # Errors
    /// [`PartitionError`], with what would help.
    pub fn divide(&self, data: &Dataset, seed: &Seed) -> Result<Vec<Shard>, PartitionError> {
        match (&self.partition, self.keys) {
            (Partition::Equal { agents, .. }, RecordKeys::Content) => {
                Ok(numbered(by_content(data, *agents, seed)?))
            }
            (partition, _) => partition.divide(data, seed),
        }
    }
}

/// Each record to the agent that its content names: counts differ by chance.
fn by_content(
    data: &Dataset,
    agents: usize,
    seed: &Seed,
) -> Result<Vec<Vec<usize>>, PartitionError> {
    enough(data.rows(), agents, 1)?;
    let mut shards = vec![Vec::new(); agents];
    let draw = |stream: &mut Stream| below(stream, agents as u64) as usize;
    for (row, agent) in drawn_by_content(data, None, seed, 0, draw)?.into_iter().enumerate() {
        shards[agent].push(row);
    }
    match shards.iter().position(Vec::is_empty) {
        Some(agent) => Err(PartitionError::NoRecordFor { agent, agents }),
        None => Ok(shards),
    }
}

/// Which training records a share of them is held out of, each by itself, by its content.
pub(super) fn held_by_content(
    data: &Dataset,
    by: Option<&str>,
    share: f64,
    seed: &Seed,
    purpose: u64,
) -> Result<Vec<bool>, DataError> {
    drawn_by_content(data, by, seed, purpose, |stream| open_unit(stream) < share)
}

/// A draw for every training record, from a stream that is a function of the seed, of what the
/// record says (the group of `by` that it is in included, if records are divided by one), and of
/// how many equal ones stand before it.
fn drawn_by_content<T>(
    data: &Dataset,
    by: Option<&str>,
    seed: &Seed,
    purpose: u64,
    draw: impl Fn(&mut Stream) -> T,
) -> Result<Vec<T>, DataError> {
    let group = by.and_then(|by| data.grouping(by).ok()).filter(|g| !g.codes.is_empty());
    let mut before = HashMap::<[u8; 32], u64>::new();
    let mut drawn = Vec::with_capacity(data.rows());
    data.for_each_train_row(|records, row, number| {
        let mut label = vec![purpose];
        if let Some(group) = group {
            // Files have numbers of their own; those of sites depend on whose record comes first.
            let code = group.codes[number];
            match group.column == FILE {
                true => label.push(u64::from(code)),
                false => push_text(&mut label, &group.names[code as usize]),
            }
        }
        push_record(&mut label, records, row);
        let key = seed.labelled(&label);
        let mut equal = [0; 32];
        key.stream(Purpose::Data, SHARED, 0).fill_bytes(&mut equal);
        let count = before.entry(equal).or_insert(0);
        *count += 1;
        drawn.push(draw(&mut key.stream(Purpose::Data, 0, *count)));
    })?;
    Ok(drawn)
}

fn push_text(words: &mut Vec<u64>, text: &str) {
    words.push(text.len() as u64);
    words.extend(
        text.as_bytes()
            .chunks(8)
            .map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))),
    );
}

/// What a record says, as words: equal ones for equal records alone.
fn push_record(words: &mut Vec<u64>, records: &Records, row: usize) {
    let start = words.len();
    words.push(0);
    for (column, value) in records.entries(row).filter(|e| e.1 != 0.0) {
        words.extend([u64::from(column), value.to_bits()]);
    }
    words[start] = (words.len() - start) as u64;
    words.push(records.labels()[row].to_bits());
}

/// How many test records stand among the training records too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedRecords {
    /// Test records that equal a training record.
    pub found: usize,
    /// Test records.
    pub of: usize,
    /// Training records that equal another training record.
    pub twins: usize,
    /// Training records.
    pub train: usize,
}

impl SharedRecords {
    /// Whether so many are found that test records must have been taken from the training records.
    ///
    /// A test record of the same kind as the training records equals one of them as often as these
    /// equal each other. Of those that chance does not explain so, most must be no training
    /// records: records that are the points of a grid share some.
    #[must_use]
    pub fn is_more_than_chance(&self) -> bool {
        let chance = self.twins as f64 / self.train.max(1) as f64;
        self.found as f64 > self.of as f64 * (chance + 0.5 * (1.0 - chance))
    }
}

impl Dataset {
    /// Compares the test records with the training records; `None` without test records.
    ///
    /// # Errors
    /// [`DataError::Scratch`] if rows outside memory cannot be read.
    pub fn shared_records(&self) -> Result<Option<SharedRecords>, DataError> {
        let Some(test) = self.test.as_ref().filter(|test| !test.is_empty()) else {
            return Ok(None);
        };
        let words = |records: &Records, row: usize| {
            let mut words = Vec::new();
            push_record(&mut words, records, row);
            words
        };
        let mut looked_for: HashMap<Vec<u64>, usize> = HashMap::new();
        for row in 0..test.len() {
            *looked_for.entry(words(test, row)).or_default() += 1;
        }
        let (mut seen, mut found, mut train) = (HashMap::<u128, u32>::new(), 0, 0);
        let mix = Seed::from(0);
        self.for_each_train_row(|records, row, _| {
            let words = words(records, row);
            found += looked_for.remove(&words).unwrap_or(0);
            let mut key = [0; 16];
            mix.labelled(&words).stream(Purpose::Data, SHARED, 0).fill_bytes(&mut key);
            *seen.entry(u128::from_le_bytes(key)).or_default() += 1;
            train += 1;
        })?;
        let twins = seen.values().filter(|&&count| count > 1).map(|&count| count as usize).sum();
        Ok(Some(SharedRecords { found, of: test.len(), twins, train }))
    }
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
