//! Encoded data ready to be divided among agents.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::table::class_of;
use super::{
    DataError, Encoder, Encoding, Kind, Label, LoadReport, Partition, PartitionError, Records,
    RowBounds, SHARED, Schema, Shard, Stored, Table, shuffle,
};
use crate::random::{Purpose, Seed};

/// What is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Task {
    /// Labels −1 and +1.
    Binary,
    /// Labels 0 … classes − 1.
    MultiClass {
        /// How many, more than two.
        classes: usize,
    },
    /// Labels in a declared public range.
    Regression {
        /// Smallest label.
        min: f64,
        /// Largest label.
        max: f64,
    },
}

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
    pub(crate) source: String,
    /// Training records of all agents.
    pub(crate) train: Records,
    /// Test records, if there are any. They are taken to be public.
    pub(crate) test: Option<Records>,
    /// Public bounds of every row.
    pub(crate) bounds: RowBounds,
    /// What is predicted.
    pub(crate) task: Task,
    /// Names of the classes in the order of their labels; empty for regression.
    pub(crate) classes: Vec<String>,
    /// Names of the features.
    pub(crate) features: Vec<String>,
    /// How records became rows.
    pub(crate) encoding: Encoding,
    /// The public schema of the records.
    pub(crate) schema: Schema,
    /// What made rows of them: a model's owner encodes new records with it.
    pub(crate) encoder: Encoder,
    /// Divisions of the training records: `file` if there were several, the site column, every
    /// categorical column.
    pub(crate) groupings: Vec<Grouping>,
    /// The column that says whom a record is about, and how many records of one person a file has
    /// at most.
    pub(crate) person: Option<(String, u32)>,
    /// What happened while loading the training records.
    pub(crate) report: LoadReport,
    /// What happened while loading the test records.
    pub(crate) test_report: Option<LoadReport>,
    /// Which site each test record is of, where that is known.
    pub(crate) test_sites: Option<Vec<u32>>,
    /// How the test records are divided, where that is known.
    pub(crate) test_groupings: Vec<Grouping>,
    /// How many training records each file has, where some of them are with other processes.
    pub(crate) elsewhere: Option<Vec<usize>>,
    /// The training records, where they lie outside memory; `train` is empty then.
    pub(crate) stored: Option<Stored>,
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
            train,
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
pub(crate) const FILE: &str = "file";

impl Dataset {
    /// One dataset from the tables of one or more files that share a schema, and optionally a test
    /// file.
    ///
    /// With several files there is a grouping `file`, so that each can be an agent.
    ///
    /// # Errors
    /// [`DataError`] if schemas differ, there is no table, the training records have one class
    /// only, or the encoding does not fit.
    pub fn new(
        train: Vec<Table>,
        test: Option<&Table>,
        encoding: Encoding,
    ) -> Result<Self, DataError> {
        let dataset = Self::encoded(train, test, encoding)?;
        // A site of few records may well have one class; where columns are scouted it helps the
        // others all the same.
        if encoding != Encoding::Scouted {
            let labels = dataset.train.labels();
            at_least_two_classes(&dataset.source, labels, labels.len(), &dataset.classes)?;
        }
        Ok(dataset)
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
        let (train, schema) = (encoder.encode_table(&all), all.schema().clone());
        let known = Known { schema, source: all.source().to_owned(), encoder };
        Ok(known.dataset(train, test, groupings, all.report().clone(), source))
    }

    /// How many training records there are.
    pub(crate) fn rows(&self) -> usize {
        self.stored.as_ref().map_or_else(|| self.train.len(), Stored::len)
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

    /// Divides the training records among agents.
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
    ///
    /// # Errors
    /// [`DataError::HoldOut`] if either side would be empty, [`DataError::TestExists`] if there are
    /// test records.
    pub fn hold_out(mut self, share: f64, seed: &Seed) -> Result<Self, DataError> {
        let rows = self.rows();
        if let Some(test) = &self.test {
            return Err(DataError::TestExists { source_name: self.source, rows: test.len() });
        }
        let held = Self::held_out(share, rows)?;
        let mut order: Vec<usize> = (0..rows).collect();
        shuffle(&mut seed.stream(Purpose::Data, SHARED, HOLD_OUT_ROUND), &mut order);
        let (test, train) = order.split_at_mut(held);
        test.sort_unstable();
        train.sort_unstable();
        match &mut self.stored {
            Some(stored) => {
                self.test =
                    Some(stored.select(test).map_err(|source| DataError::Scratch { source })?);
                stored.keep(train);
            }
            None => {
                self.test = Some(self.train.select(test));
                self.train = self.train.select(train);
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
    match schema.label() {
        Label::Range { min, max } => (Task::Regression { min: *min, max: *max }, Vec::new()),
        Label::Classes(classes) if classes.len() == 2 => (Task::Binary, classes.clone()),
        Label::Classes(classes) => (Task::MultiClass { classes: classes.len() }, classes.clone()),
    }
}

pub(super) fn at_least_two_classes(
    source: &str,
    labels: &[f64],
    rows: usize,
    classes: &[String],
) -> Result<(), DataError> {
    let first = labels[0];
    if classes.is_empty() || labels.iter().any(|&label| label != first) {
        return Ok(());
    }
    let class = classes[class_of(first, classes.len())].clone();
    Err(DataError::OneClass { file: source.to_owned(), rows, class })
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
