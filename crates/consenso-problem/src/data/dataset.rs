//! Encoded data ready to be divided among agents.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::{
    DataError, Encoder, Encoding, Kind, Label, LoadReport, Partition, PartitionError, RecordKeys,
    Records, RowBounds, SHARED, Schema, Shard, StoredRows, Table, Task, partition, shuffle,
};
use crate::random::{Purpose, Seed};
use consenso_tables::class_of;

/// A division of the training records into named groups: a site, a file, or the values of a
/// categorical column.
///
/// `Debug` prints the shape: which group a record is in is private.
#[derive(Clone, PartialEq, Eq)]
pub struct Grouping {
    /// The column, or `file`.
    pub column: String,
    /// Names of the groups.
    pub names: Vec<String>,
    /// The group of each training record, an index of `names`.
    pub codes: Vec<u32>,
}

impl fmt::Debug for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Grouping({:?}, groups={}, rows={})",
            self.column,
            self.names.len(),
            self.codes.len()
        )
    }
}

/// Encoded training and test records with all that is publicly known about them.
///
/// `Debug` prints shapes; the schema and the encoder would fill pages.
#[derive(Clone, PartialEq)]
pub struct Dataset {
    /// Where it comes from, for reports.
    pub source: String,
    /// Training records of all agents.
    pub train: Arc<Records>,
    /// Test records, if there are any. They are taken to be public.
    pub test: Option<Records>,
    /// Public bounds of every row.
    pub bounds: RowBounds,
    /// What is predicted.
    pub task: Task,
    /// Names of the classes in the order of their labels; empty for regression.
    pub classes: Vec<String>,
    /// Names of the features.
    pub features: Vec<String>,
    /// How records became rows.
    pub encoding: Encoding,
    /// The public schema of the records.
    pub schema: Schema,
    /// What made rows of them: a model's owner encodes new records with it.
    pub encoder: Encoder,
    /// Divisions of the training records: `file` if there were several, the site column, every
    /// categorical column.
    pub groupings: Vec<Grouping>,
    /// The column that says whom a record is about, and how many records of one person a file has
    /// at most.
    pub person: Option<(String, u32)>,
    /// What happened while loading the training records.
    pub report: LoadReport,
    /// What happened while loading the test records.
    pub test_report: Option<LoadReport>,
    /// Which site each test record is of, where that is known.
    pub test_sites: Option<Vec<u32>>,
    /// How the test records are divided, where that is known.
    pub test_groupings: Vec<Grouping>,
    /// How many training records each file has, where some of them are with other processes.
    pub elsewhere: Option<Vec<usize>>,
    /// The training records, where they lie outside memory; `train` is empty then.
    pub stored: Option<StoredRows>,
}

/// What a table says of all records of its schema.
pub(super) struct Known {
    pub(super) schema: Schema,
    pub(super) source: String,
    pub(super) encoder: Encoder,
}

impl Known {
    /// A dataset of rows that are encoded.
    pub(super) fn dataset(
        self,
        train: Records,
        test: Option<&Table>,
        groupings: Vec<Grouping>,
        report: LoadReport,
        source: String,
    ) -> Dataset {
        let Self { schema, encoder, .. } = self;
        let (task, classes) = task_of(&schema);
        Dataset {
            train: Arc::new(train),
            test: test.map(|test| encoder.encode_table(test)),
            bounds: encoder.bounds(),
            task,
            classes,
            features: encoder.features().to_vec(),
            encoding: encoder.encoding(),
            groupings,
            person: schema.columns().iter().find_map(|column| match column.kind {
                Kind::Person { most } => Some((column.name.clone(), most)),
                _ => None,
            }),
            schema,
            encoder,
            report,
            test_report: test.map(|test| test.report().clone()),
            test_sites: None,
            test_groupings: test.map(self::groupings).unwrap_or_default(),
            elsewhere: None,
            stored: None,
            source,
        }
    }
}

impl fmt::Debug for Dataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dataset")
            .field("source", &self.source)
            .field("train", &self.train)
            .field("test", &self.test)
            .field("bounds", &self.bounds)
            .field("task", &self.task)
            .field("classes", &self.classes)
            .field("encoding", &self.encoding)
            .field("groupings", &self.groupings)
            .finish_non_exhaustive()
    }
}

/// The column name of the grouping by file.
pub const FILE: &str = "file";

impl Dataset {
    /// One dataset from the tables of one or more files that share a schema, and optionally a test
    /// file.
    ///
    /// With several files there is a grouping `file`, so that each can be an agent.
    ///
    /// # Errors
    /// [`DataError`] if schemas differ, there is no table, or the encoding does not fit. Records of
    /// one class are taken: see [`Self::at_least_two_classes`].
    pub fn new(
        train: Vec<Table>,
        test: Option<&Table>,
        encoding: Encoding,
    ) -> Result<Self, DataError> {
        Self::encoded(train, test, encoding)
    }

    /// Refuses training records that all have the same class, from which nothing can be learnt.
    ///
    /// Never ask this of records that a claim protects: one record would decide whether there is a
    /// run at all, and its absence tells. Nor of scouted ones, for a site of few records helps the
    /// others all the same.
    ///
    /// # Errors
    /// [`DataError::OneClass`].
    pub fn at_least_two_classes(&self) -> Result<(), DataError> {
        match self.only_class() {
            Some(class) if self.encoding != Encoding::Scouted => Err(DataError::OneClass {
                file: self.source.clone(),
                rows: self.rows(),
                class: class.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the class that all training records have, if they have but one.
    #[must_use]
    pub fn only_class(&self) -> Option<&str> {
        let label = match &self.stored {
            Some(stored) => stored.only_label?,
            None => {
                let (first, others) = self.train.labels().split_first()?;
                others.iter().all(|label| label == first).then_some(*first)?
            }
        };
        let classes = self.classes.len();
        (classes > 0).then(|| self.classes[class_of(label, classes)].as_str())
    }

    /// Shows all training records: a block of them, the row in it, and the record's number.
    pub(super) fn for_each_train_row(
        &self,
        mut show: impl FnMut(&Records, usize, usize),
    ) -> Result<(), DataError> {
        let Some(stored) = &self.stored else {
            (0..self.train.len()).for_each(|row| show(&self.train, row, row));
            return Ok(());
        };
        let all: Vec<usize> = (0..stored.len()).collect();
        for rows in all.chunks(4096) {
            let block = stored.select(rows).map_err(|source| DataError::Scratch { source })?;
            rows.iter().enumerate().for_each(|(row, &number)| show(&block, row, number));
        }
        Ok(())
    }

    /// The part of a dataset of one process among several: the tables of some of the files, by
    /// their numbers, and how many records every file has. Each file is an agent.
    ///
    /// # Errors
    /// As for [`Self::new`].
    ///
    /// # Panics
    /// Unless every table has a number among `counts`.
    pub fn part(
        train: Vec<(usize, Table)>,
        test: Option<&Table>,
        encoding: Encoding,
        counts: Vec<usize>,
    ) -> Result<Self, DataError> {
        let lengths: Vec<(usize, usize)> =
            train.iter().map(|(file, table)| (*file, table.len())).collect();
        let mut dataset = Self::encoded(train.into_iter().map(|t| t.1).collect(), test, encoding)?;
        let codes = lengths
            .iter()
            .flat_map(|&(file, rows)| std::iter::repeat_n(file as u32, rows))
            .collect();
        assert!(
            lengths.iter().all(|&(file, rows)| counts.get(file) == Some(&rows)),
            "a number for every table"
        );
        // Names of files elsewhere are theirs.
        let names = (0..counts.len()).map(|file| format!("file {}", file + 1)).collect();
        dataset.groupings.retain(|grouping| grouping.column != FILE);
        dataset.groupings.push(Grouping { column: FILE.to_owned(), names, codes });
        dataset.elsewhere = Some(counts);
        Ok(dataset)
    }

    fn encoded(
        train: Vec<Table>,
        test: Option<&Table>,
        encoding: Encoding,
    ) -> Result<Self, DataError> {
        let by_file = (train.len() > 1).then(|| file_grouping(&train));
        let mut tables = train.into_iter();
        let Some(mut all) = tables.next() else {
            return Err(DataError::Empty { file: "no file".to_owned(), header: false });
        };
        let mut source = all.source().to_owned();
        for table in tables {
            same_schema((all.schema(), all.source()), &table)?;
            source = format!("{source}, {}", table.source());
            all.append(&table);
        }
        test.map_or(Ok(()), |test| same_schema((all.schema(), all.source()), test))?;
        let encoder = Encoder::new(all.schema(), encoding)?;
        let groupings = by_file.into_iter().chain(groupings(&all)).collect();
        let (train, schema) =
            (encoder.encode_table(&all).about(all.persons()), all.schema().clone());
        let known = Known { schema, source: all.source().to_owned(), encoder };
        Ok(known.dataset(train, test, groupings, all.report().clone(), source))
    }

    /// How many training records there are.
    pub(crate) fn rows(&self) -> usize {
        self.stored.as_ref().map_or_else(|| self.train.len(), StoredRows::len)
    }

    /// The labels of the training records; of those outside memory, where they are divided by
    /// class.
    pub(crate) fn labels(&self) -> &[f64] {
        self.stored.as_ref().map_or_else(|| self.train.labels(), |stored| &stored.labels)
    }

    /// Returns where the records come from, for reports.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the training records of all agents.
    #[must_use]
    pub fn train(&self) -> &Records {
        &self.train
    }

    /// Returns the test records, if there are any. They are taken to be public.
    #[must_use]
    pub fn test(&self) -> Option<&Records> {
        self.test.as_ref()
    }

    /// Returns the public bounds of every row.
    #[must_use]
    pub fn bounds(&self) -> RowBounds {
        self.bounds
    }

    /// Returns what is predicted.
    #[must_use]
    pub fn task(&self) -> Task {
        self.task
    }

    /// Returns the names of the classes in the order of their labels; empty for regression.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the names of the features.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// Returns what made rows of the records: a model's owner encodes new records with it.
    #[must_use]
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// Returns the divisions of the training records: `file` if there were several, the site
    /// column, every categorical column.
    #[must_use]
    pub fn groupings(&self) -> &[Grouping] {
        &self.groupings
    }

    /// Returns the column that says whom a record is about, and how many records of one person a
    /// file has at most.
    #[must_use]
    pub fn person(&self) -> Option<&(String, u32)> {
        self.person.as_ref()
    }

    /// Returns what happened while loading the training records.
    #[must_use]
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// Says which site each test record is of, so that a model is also judged by the mean over the
    /// sites' test parts.
    ///
    /// # Panics
    /// Unless there is a number for every test record.
    #[must_use]
    pub fn with_test_sites(mut self, sites: Vec<u32>) -> Self {
        assert_eq!(
            sites.len(),
            self.test.as_ref().map_or(0, Records::len),
            "a site for every test record"
        );
        let by_file = self.groupings.iter().find(|g| g.column == FILE);
        self.test_groupings.extend(by_file.map(|g| Grouping { codes: sites.clone(), ..g.clone() }));
        self.test_sites = Some(sites);
        self
    }

    /// Leaves the test records out.
    #[must_use]
    pub fn without_test(self) -> Self {
        Self { test: None, test_report: None, test_sites: None, test_groupings: Vec::new(), ..self }
    }

    /// Returns what happened while loading the test records.
    #[must_use]
    pub fn test_report(&self) -> Option<&LoadReport> {
        self.test_report.as_ref()
    }

    /// Features a row.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.train.dim()
    }

    /// The division of the training records by a column, or by `file`.
    ///
    /// # Errors
    /// [`DataError::UnknownGrouping`], with the names there are.
    pub fn grouping(&self, column: &str) -> Result<&Grouping, DataError> {
        self.groupings.iter().find(|grouping| grouping.column == column).ok_or_else(|| {
            let known = self.groupings.iter().map(|grouping| grouping.column.clone()).collect();
            DataError::UnknownGrouping { column: column.to_owned(), known }
        })
    }

    /// Divides the training records among agents; those that a claim protects are divided by a
    /// [`StablePartition`](super::StablePartition) alone.
    ///
    /// # Errors
    /// [`PartitionError`] if it cannot be done, with what would help.
    pub fn partition(
        &self,
        partition: &Partition,
        seed: &Seed,
    ) -> Result<Vec<Shard>, PartitionError> {
        partition.divide(self, seed)
    }

    /// Returns how many of so many records [`Self::hold_out`] moves to the test records.
    ///
    /// # Errors
    /// [`DataError::HoldOut`] if either side would be empty.
    pub fn held_out(share: f64, rows: usize) -> Result<usize, DataError> {
        let held = (share * rows as f64).round() as usize;
        match share > 0.0 && share < 1.0 && held > 0 && held < rows {
            true => Ok(held),
            false => Err(DataError::HoldOut { share, rows }),
        }
    }

    /// Moves a random share of the training records to the test records, which must not exist yet.
    /// It maps neighbours to neighbours: see [`StablePartition`](super::StablePartition); `by` is
    /// the column, or `file`, that the others will be divided by, if they will.
    ///
    /// # Errors
    /// [`DataError::HoldOut`] if either side would be empty, [`DataError::TestExists`] if there are
    /// test records.
    pub fn hold_out(
        mut self,
        share: f64,
        keys: RecordKeys,
        by: Option<&str>,
        seed: &Seed,
    ) -> Result<Self, DataError> {
        let rows = self.rows();
        if let Some(test) = &self.test {
            return Err(DataError::TestExists { source_name: self.source, rows: test.len() });
        }
        let held = Self::held_out(share, rows)?;
        let persons = self.train.persons();
        let (test, train): (Vec<usize>, Vec<usize>) = match keys {
            RecordKeys::Position if !persons.is_empty() => {
                let mut stream = seed.stream(Purpose::Data, SHARED, HOLD_OUT_ROUND);
                hold_persons_out(persons, held, |order| shuffle(&mut stream, order))
            }
            RecordKeys::Position => {
                let mut order: Vec<usize> = (0..rows).collect();
                shuffle(&mut seed.stream(Purpose::Data, SHARED, HOLD_OUT_ROUND), &mut order);
                let mut train = order.split_off(held);
                order.sort_unstable();
                train.sort_unstable();
                (order, train)
            }
            RecordKeys::Content => {
                let mut held = partition::held_by_content(&self, by, share, seed, HOLD_OUT_ROUND)?;
                // All records of a person go where the first goes.
                let mut first = HashMap::new();
                for (row, person) in persons.iter().enumerate() {
                    held[row] = *first.entry(person).or_insert(held[row]);
                }
                (0..rows).partition(|&row| held[row])
            }
        };
        if test.is_empty() || train.is_empty() {
            return Err(DataError::HoldOut { share, rows });
        }
        let (test, train) = (&test[..], &train[..]);
        match &mut self.stored {
            Some(stored) => {
                self.test =
                    Some(stored.select(test).map_err(|source| DataError::Scratch { source })?);
                stored.keep(train);
            }
            None => {
                self.test = Some(self.train.select(test));
                self.train = Arc::new(self.train.select(train));
            }
        }
        // Groups that nobody divides by have no codes outside memory.
        let some = |g: &Grouping, rows: &[usize]| {
            rows.iter().filter_map(|&row| g.codes.get(row).copied()).collect()
        };
        let by_file = self.groupings.iter().find(|g| g.column == FILE && !g.codes.is_empty());
        self.test_sites = by_file.map(|g| some(g, test));
        self.test_groupings = self
            .groupings
            .iter()
            .filter(|g| !g.codes.is_empty())
            .map(|g| Grouping { codes: some(g, test), ..g.clone() })
            .collect();
        for grouping in &mut self.groupings {
            grouping.codes = some(grouping, train);
        }
        Ok(self)
    }
}

/// Chooses whole persons, in the order that `shuffle` gives them, whose records are `held` together
/// at most: rows to test on, and to train on, in order.
///
/// How many are trained on is public, so it is never another number: where persons do not add up to
/// `held`, a few records of one more person are left out of both, and nobody is on both sides.
fn hold_persons_out(
    persons: &[u32],
    held: usize,
    shuffle: impl FnOnce(&mut Vec<usize>),
) -> (Vec<usize>, Vec<usize>) {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut places = HashMap::new();
    for (row, person) in persons.iter().enumerate() {
        let place = *places.entry(person).or_insert(rows.len());
        if place == rows.len() {
            rows.push(Vec::new());
        }
        rows[place].push(row);
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    shuffle(&mut order);
    let (mut test, mut train) = (Vec::new(), Vec::new());
    let mut others = Vec::new();
    for person in order {
        match test.len() + rows[person].len() <= held {
            true => test.extend(&rows[person]),
            false => others.push(person),
        }
    }
    let mut left = held - test.len();
    for person in others {
        let own = &rows[person];
        let out = left.min(own.len());
        train.extend(&own[out..]);
        left -= out;
    }
    test.sort_unstable();
    train.sort_unstable();
    (test, train)
}

/// Keeps the draws of a hold-out apart from those of a partition.
const HOLD_OUT_ROUND: u64 = 1 << 20;

pub(super) fn same_schema(
    (schema, file): (&Schema, &str),
    second: &Table,
) -> Result<(), DataError> {
    if schema == second.schema() {
        return Ok(());
    }
    let (first, second) = (file.to_owned(), second.source().to_owned());
    Err(DataError::SchemasDiffer { first, second })
}

fn task_of(schema: &Schema) -> (Task, Vec<String>) {
    if let Some(max) = schema.longest_time() {
        return (Task::Regression { min: -max, max }, Vec::new());
    }
    match schema.label() {
        Label::Range { min, max } if schema.has_log_label() => {
            (Task::Regression { min: libm::log(*min), max: libm::log(*max) }, Vec::new())
        }
        Label::Range { min, max } => (Task::Regression { min: *min, max: *max }, Vec::new()),
        Label::Classes(classes) if classes.len() == 2 => (Task::Binary, classes.clone()),
        Label::Classes(classes) => (Task::MultiClass { classes: classes.len() }, classes.clone()),
    }
}

fn file_grouping(tables: &[Table]) -> Grouping {
    let names = tables.iter().map(|table| table.source().to_owned()).collect();
    let codes = tables
        .iter()
        .zip(0..)
        .flat_map(|(table, file)| std::iter::repeat_n(file, table.len()))
        .collect();
    Grouping { column: FILE.to_owned(), names, codes }
}

fn groupings(table: &Table) -> Vec<Grouping> {
    let mut groupings = Vec::new();
    let mut feature = 0;
    for column in table.schema().columns() {
        match &column.kind {
            Kind::Site => groupings.push(Grouping {
                column: column.name.clone(),
                names: table.site_names().to_vec(),
                codes: table.sites().to_vec(),
            }),
            Kind::Categorical { categories } => {
                let codes = (0..table.len()).map(|row| table.row(row)[feature] as u32).collect();
                groupings.push(Grouping {
                    column: column.name.clone(),
                    names: categories.clone(),
                    codes,
                });
            }
            _ => {}
        }
        feature += usize::from(column.kind.is_feature());
    }
    groupings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A person whose records were tested and trained on would be known by heart.
    #[test]
    fn no_person_is_on_both_sides_of_a_hold_out() {
        let sizes = [7, 7, 3, 1, 5, 7, 2, 4];
        let persons: Vec<u32> =
            (0..).zip(sizes).flat_map(|(person, k)| std::iter::repeat_n(person, k)).collect();
        for held in 1..persons.len() {
            for turn in 0..sizes.len() {
                let (test, train) = hold_persons_out(&persons, held, |o| o.rotate_left(turn));
                assert_eq!(train.len(), persons.len() - held, "{held} {turn}");
                assert!(test.len() <= held && held - test.len() < 7, "{held} {turn}");
                let about = |rows: &[usize]| -> std::collections::BTreeSet<u32> {
                    rows.iter().map(|&row| persons[row]).collect()
                };
                assert!(about(&test).is_disjoint(&about(&train)), "{held} {turn}");
            }
        }
    }
}
