//! Parsed rows, before encoding.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::date::DateForm;
use super::error::{nearest, shorten};
use super::format::{Reading, parse_number};
use super::records::Nonzeros;
use super::words::Words;
use super::{Column, DataError, Kind, Label, Missing, Schema, Unknown};

/// What happened while loading. Columns that lost nothing are not listed.
///
/// The counts depend on the records: they are for the data's owner, not for a peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadReport {
    /// Records kept.
    pub rows: u64,
    /// Records dropped because a value was missing.
    pub dropped_missing: u64,
    /// Missing cells a column.
    pub missing: BTreeMap<String, u64>,
    /// Values outside the declared range a column, moved to its nearest end.
    pub clamped: BTreeMap<String, u64>,
    /// Missing cells of kept records per column, which took the value its rule says.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub imputed: BTreeMap<String, u64>,
    /// Integers a column beyond 2^53, where not every integer is a number here: two identifiers may
    /// have become one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub inexact: BTreeMap<String, u64>,
    /// Records dropped because their person has more than the schema declares.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_person: u64,
    /// Categories a column that the schema does not declare, in records to predict; see
    /// [`Unknown`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unknown: BTreeMap<String, u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl LoadReport {
    /// Adds the counts of another file.
    pub fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.dropped_missing += other.dropped_missing;
        self.dropped_person += other.dropped_person;
        for (mine, theirs) in [
            (&mut self.missing, &other.missing),
            (&mut self.clamped, &other.clamped),
            (&mut self.imputed, &other.imputed),
            (&mut self.inexact, &other.inexact),
            (&mut self.unknown, &other.unknown),
        ] {
            for (column, count) in theirs {
                *mine.entry(column.clone()).or_default() += count;
            }
        }
    }
}

/// The records of one file under a schema: numbers clamped to their declared range, categories as
/// codes from 0.
///
/// `Debug` prints the shape, never a value.
#[derive(Clone, PartialEq)]
pub struct Table {
    schema: Arc<Schema>,
    source: String,
    width: usize,
    values: Values,
    labels: Vec<f64>,
    sites: Vec<u32>,
    site_names: Vec<String>,
    persons: Vec<u32>,
    rows: Vec<u64>,
    observed: Vec<(f64, f64)>,
    report: LoadReport,
    reading: Option<Reading>,
}

/// The features of all records.
#[derive(Clone, PartialEq)]
enum Values {
    /// Every number, record after record.
    Dense(Vec<f64>),
    /// What is not zero: files that list it alone can have more features than memory has room for.
    Sparse(Nonzeros),
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table(rows={}, columns={})", self.len(), self.schema.columns().len())
    }
}

impl Table {
    /// Records in memory under a schema of numbers and one label: values outside their declared
    /// range are moved to its nearest end and counted. Labels are what the schema makes of a
    /// file's: ±1 for two classes, 0…C−1 for more, a number for regression.
    ///
    /// # Errors
    /// [`DataError::InMemory`] for a row of another length, a value that is not a finite number, a
    /// label that is no class, or no row at all.
    pub fn from_rows<R: AsRef<[f64]>>(
        schema: &Schema,
        source: &str,
        rows: impl IntoIterator<Item = R>,
        labels: &[f64],
    ) -> Result<Self, DataError> {
        let fail =
            |message: String| DataError::InMemory { source_name: source.to_owned(), message };
        let features: Vec<(usize, &super::Column, (f64, f64))> = schema
            .columns()
            .iter()
            .enumerate()
            .filter_map(|(i, c)| match c.kind {
                Kind::Numeric { min, max } => Some((i, c, (min, max))),
                _ => None,
            })
            .collect();
        if schema.features().count() != features.len() {
            return Err(fail(
                "rows of numbers need a schema of numeric columns and a label".into(),
            ));
        }
        let plan = Plan::new(schema, source, None);
        let mut builder = Builder::new(&plan);
        if let Values::Dense(values) = &mut builder.table.values {
            // A vector that grows would need up to three times the room.
            values.reserve_exact(labels.len().saturating_mul(features.len()));
        }
        for (index, row) in rows.into_iter().enumerate() {
            let row = row.as_ref();
            let label = *labels.get(index).ok_or_else(|| {
                fail(format!("there are more rows than labels ({})", labels.len()))
            })?;
            if row.len() != features.len() {
                return Err(fail(format!(
                    "row {} has {} features and {} are declared",
                    index + 1,
                    row.len(),
                    features.len()
                )));
            }
            for (&value, &(column, about, (min, max))) in row.iter().zip(&features) {
                if !value.is_finite() {
                    let what = format!(
                        "row {}, column \"{}\": {value} is not a finite number",
                        index + 1,
                        about.name
                    );
                    return Err(fail(what));
                }
                let seen = &mut builder.table.observed[column];
                *seen = (seen.0.min(value), seen.1.max(value));
                builder.counts[column].clamped += u64::from(value < min || value > max);
                builder.push_value(value.clamp(min, max));
            }
            let label = match schema.label() {
                Label::Range { min, max } if label.is_finite() => label.clamp(*min, *max),
                Label::Classes(classes) if classes.len() == 2 && label.abs() == 1.0 => label,
                Label::Classes(classes)
                    if classes.len() > 2 && (0..classes.len()).any(|c| c as f64 == label) =>
                {
                    label
                }
                Label::Range { .. } => {
                    return Err(fail(format!(
                        "row {}: the label {label} is not a finite number",
                        index + 1
                    )));
                }
                Label::Classes(classes) if classes.len() == 2 => {
                    return Err(fail(format!(
                        "row {}: the label {label} must be −1 or 1",
                        index + 1
                    )));
                }
                Label::Classes(classes) => {
                    let last = classes.len() - 1;
                    return Err(fail(format!(
                        "row {}: the label {label} must be one of 0 to {last}",
                        index + 1
                    )));
                }
            };
            builder.table.labels.push(label);
            builder.read += 1;
            builder.table.report.rows += 1;
            builder.table.rows.push(builder.read - 1);
        }
        if builder.table.len() != labels.len() {
            return Err(fail(format!(
                "there are {} rows and {} labels",
                builder.table.len(),
                labels.len()
            )));
        }
        if builder.table.is_empty() {
            return Err(fail("there is no row".into()));
        }
        builder.finish()
    }

    /// The schema the rows follow.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Display name of the file.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Number of records kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether no record was kept; loaders do not return such a table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The features of one record, in the order of [`Schema::features`]: numbers, and codes from 0
    /// for categories.
    #[must_use]
    pub fn row(&self, index: usize) -> Cow<'_, [f64]> {
        match &self.values {
            Values::Dense(values) => {
                Cow::Borrowed(&values[index * self.width..(index + 1) * self.width])
            }
            Values::Sparse(nonzeros) => {
                let mut row = vec![0.0; self.width];
                let (columns, values) = nonzeros.row(index);
                columns
                    .iter()
                    .zip(values)
                    .for_each(|(&column, &value)| row[column as usize] = value);
                Cow::Owned(row)
            }
        }
    }

    /// Feature numbers and values of what is not zero in one record; `None` where all numbers are
    /// kept.
    pub(super) fn listed(&self, index: usize) -> Option<(&[u32], &[f64])> {
        match &self.values {
            Values::Dense(_) => None,
            Values::Sparse(nonzeros) => Some(nonzeros.row(index)),
        }
    }

    /// Whether records list what is not zero.
    #[doc(hidden)]
    pub fn is_listed(&self) -> bool {
        matches!(self.values, Values::Sparse(_))
    }

    /// A table of the same schema, source and kind, without records.
    #[doc(hidden)]
    pub fn emptied(&self) -> Self {
        Self {
            schema: Arc::clone(&self.schema),
            source: self.source.clone(),
            width: self.width,
            values: if self.is_listed() {
                Values::Sparse(Nonzeros::new())
            } else {
                Values::Dense(Vec::new())
            },
            labels: Vec::new(),
            sites: Vec::new(),
            site_names: Vec::new(),
            persons: Vec::new(),
            rows: Vec::new(),
            observed: self.observed.clone(),
            report: LoadReport::default(),
            reading: self.reading,
        }
    }

    /// The labels: ±1 for two classes, 0…C−1 for more, a number for regression, a time until an event,
    /// negative where the event was not seen.
    #[must_use]
    pub fn labels(&self) -> &[f64] {
        &self.labels
    }

    /// The site of each record as an index of [`Self::site_names`]; empty if the schema has no site
    /// column.
    #[must_use]
    pub fn sites(&self) -> &[u32] {
        &self.sites
    }

    /// Names of the sites, in order of first appearance.
    #[must_use]
    pub fn site_names(&self) -> &[String] {
        &self.site_names
    }

    /// Whom each record is about, as numbers from 0 in order of first appearance; empty if the
    /// schema has no person column.
    #[must_use]
    pub fn persons(&self) -> &[u32] {
        &self.persons
    }

    /// The number of each kept record among those of its file, from 0: where records were dropped,
    /// numbers are left out.
    #[must_use]
    pub fn row_numbers(&self) -> &[u64] {
        &self.rows
    }

    /// How the file was written, if it was CSV.
    #[must_use]
    pub fn reading(&self) -> Option<&Reading> {
        self.reading.as_ref()
    }

    /// Notes that the file was unpacked before it was read, for [`Self::reading`].
    #[must_use]
    pub fn unpacked(mut self, compression: &'static str) -> Self {
        if let Some(reading) = &mut self.reading {
            reading.compression = Some(compression);
        }
        self
    }

    /// What happened while loading.
    #[must_use]
    pub fn report(&self) -> &LoadReport {
        &self.report
    }

    /// Smallest and largest value seen in a column of the schema, before clamping, in kept records.
    /// Private.
    pub(super) fn observed(&self, column: usize) -> Option<(f64, f64)> {
        let (min, max) = self.observed[column];
        (min <= max).then_some((min, max))
    }

    /// Appends the records of `other`, whose schema must be the same.
    #[doc(hidden)]
    pub fn append(&mut self, other: &Self) {
        debug_assert_eq!(self.schema, other.schema);
        if let (Values::Sparse(_), Values::Dense(_)) = (&self.values, &other.values) {
            let rows = (0..self.len()).flat_map(|row| self.row(row).into_owned());
            self.values = Values::Dense(rows.collect());
        }
        for row in 0..other.len() {
            match &mut self.values {
                Values::Dense(values) => values.extend_from_slice(&other.row(row)),
                Values::Sparse(nonzeros) => {
                    let (columns, values) =
                        other.listed(row).expect("dense rows make this one dense");
                    nonzeros.push(columns.iter().copied().zip(values.iter().copied()));
                }
            }
        }
        self.labels.extend_from_slice(&other.labels);
        self.rows.extend_from_slice(&other.rows);
        // Persons of two files are taken to be different people: a file knows only its own numbers.
        let persons = self.persons.iter().max().map_or(0, |last| last + 1);
        self.persons.extend(other.persons.iter().map(|person| person + persons));
        self.append_sites(other);
        self.merge_notes(other);
    }

    /// Appends the next records of the same file, the first of which has the number `first`.
    pub(super) fn extend(&mut self, piece: &Self, first: u64) {
        if let (Values::Dense(all), Values::Dense(values)) = (&mut self.values, &piece.values) {
            all.extend_from_slice(values);
        }
        self.labels.extend_from_slice(&piece.labels);
        self.rows.extend(piece.rows.iter().map(|row| row + first));
        self.persons.extend_from_slice(&piece.persons);
        self.append_sites(piece);
        self.merge_notes(piece);
    }

    /// Numbers the records from `first` on instead of from 0.
    pub(super) fn numbered_from(mut self, first: u64) -> Self {
        self.rows.iter_mut().for_each(|row| *row += first);
        self
    }

    fn append_sites(&mut self, other: &Self) {
        let mut known: Words<String, u32> = self.site_names.iter().cloned().zip(0..).collect();
        let mut number = |name: &String| {
            *known.entry(name.clone()).or_insert_with(|| {
                self.site_names.push(name.clone());
                u32::try_from(self.site_names.len() - 1).expect("fewer than 2^32 sites")
            })
        };
        let renumbered: Vec<u32> = other.site_names.iter().map(&mut number).collect();
        self.sites.extend(other.sites.iter().map(|&site| renumbered[site as usize]));
    }

    fn merge_notes(&mut self, other: &Self) {
        for (mine, theirs) in self.observed.iter_mut().zip(&other.observed) {
            *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
        }
        self.report.merge(&other.report);
    }
}

/// What all records of a file are read with.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    schema: &'a Schema,
    shared: Arc<Schema>,
    source: String,
    reading: Option<Reading>,
    codes: Vec<Words<&'a str, u32>>,
    /// Whether records without a label are kept, with NaN in its place, and sites and persons left
    /// out.
    unlabelled: bool,
    unknown: Unknown,
}

impl<'a> Plan<'a> {
    pub(super) fn new(schema: &'a Schema, source: &str, reading: Option<Reading>) -> Self {
        let codes = schema
            .columns()
            .iter()
            .map(|column| match &column.kind {
                Kind::Categorical { categories: names } | Kind::Label(Label::Classes(names)) => {
                    names.iter().map(String::as_str).zip(0..).collect()
                }
                _ => Words::default(),
            })
            .collect();
        let shared = Arc::new(schema.clone());
        let (source, unlabelled, unknown) = (source.to_owned(), false, Unknown::Error);
        Self { schema, shared, source, reading, codes, unlabelled, unknown }
    }

    /// Keeps records without a label if these are new records to predict, which have none; sites
    /// and persons are left out then.
    pub(super) fn of_new(self, new: Option<Unknown>) -> Self {
        Self { unlabelled: new.is_some(), unknown: new.unwrap_or_default(), ..self }
    }

    /// Whether a record is kept or not depends on those before it.
    pub(super) fn counts_persons(&self) -> bool {
        let person = |column: &Column| matches!(column.kind, Kind::Person { .. });
        !self.unlabelled && self.schema.columns().iter().any(person)
    }
}

/// The number of each person and their records so far.
pub(super) type Persons = Words<String, (u32, u32)>;

/// Fills a table one record at a time: the one place where a cell's text becomes a value.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    plan: &'a Plan<'a>,
    table: Table,
    counts: Vec<Counts>,
    site_index: Words<String, u32>,
    pub(super) persons: Persons,
    reading: Reading,
    read: u64,
    /// How long the record at hand was seen, and whether for longer than counts.
    time: Option<(f64, bool)>,
}

/// A cell of a record.
#[derive(Clone, Copy)]
pub(super) enum Cell<'t> {
    /// As it is written, trimmed.
    Text(&'t str),
    /// A number, and whether a whole one is written without a decimal point.
    Number(f64, bool),
}

impl<'t> Cell<'t> {
    /// As it is written.
    pub(super) fn text(self) -> Cow<'t, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Number(number, true) => Cow::Owned(number.to_string()),
            Self::Number(number, false) => Cow::Owned(format!("{number:?}")),
        }
    }

    /// Whether it is written in digits alone.
    fn is_whole(self) -> bool {
        match self {
            Self::Text(text) => {
                text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'+' | b'-'))
            }
            Self::Number(number, plain) => plain && number.fract() == 0.0,
        }
    }
}

/// A cell of a feature: its number among the features, its column in the schema, and its text;
/// `None` where a value is missing.
pub(super) type ListedCell<'a> = (u32, usize, Option<&'a str>);

#[derive(Clone, Debug, Default)]
struct Counts {
    missing: u64,
    clamped: u64,
    imputed: u64,
    inexact: u64,
    unknown: u64,
    /// Kept records that list a value, of those that list some only.
    listed: u64,
}

impl<'a> Builder<'a> {
    pub(super) fn new(plan: &'a Plan<'a>) -> Self {
        let columns = plan.schema.columns().len();
        let table = Table {
            schema: Arc::clone(&plan.shared),
            source: plan.source.clone(),
            width: plan.schema.features().count(),
            values: Values::Dense(Vec::new()),
            labels: Vec::new(),
            sites: Vec::new(),
            site_names: Vec::new(),
            persons: Vec::new(),
            rows: Vec::new(),
            observed: vec![(f64::INFINITY, f64::NEG_INFINITY); columns],
            report: LoadReport::default(),
            reading: plan.reading,
        };
        Self {
            plan,
            table,
            counts: vec![Counts::default(); columns],
            site_index: Words::default(),
            persons: Persons::default(),
            reading: plan.reading.unwrap_or(Reading::PLAIN),
            read: 0,
            time: None,
        }
    }

    /// Begins a table of records that list what is not zero, with [`Self::push_listed`].
    pub(super) fn sparse(plan: &'a Plan<'a>) -> Self {
        let mut builder = Self::new(plan);
        builder.table.values = Values::Sparse(Nonzeros::new());
        builder
    }

    /// Adds a record of a [`Self::sparse`] table given its label, with its column, and numeric
    /// features by increasing number; all others are zero.
    pub(super) fn push_listed(
        &mut self,
        label: (usize, Option<&str>),
        cells: &[ListedCell<'_>],
        line: impl Fn() -> u64,
    ) -> Result<(), DataError> {
        let schema = self.plan.schema;
        self.read += 1;
        let columns = || cells.iter().map(|c| (c.1, c.2)).chain([label]);
        if columns().any(|(_, cell)| cell.is_none()) {
            let missing = columns().filter(|c| c.1.is_none());
            missing.for_each(|(column, _)| self.counts[column].missing += 1);
            self.table.report.dropped_missing += 1;
            return Ok(());
        }
        let mut entries = Vec::with_capacity(cells.len());
        for &(feature, column, cell) in cells {
            let (Some(cell), Kind::Numeric { min, max }) = (cell, &schema.columns()[column].kind)
            else {
                continue;
            };
            let value = self.number(column, Cell::Text(cell), (*min, *max), &line)?;
            entries.push((feature, value));
            self.counts[column].listed += 1;
        }
        if let Some(cell) = label.1 {
            self.push_label(label.0, Cell::Text(cell), &line)?;
        }
        if let Values::Sparse(nonzeros) = &mut self.table.values {
            nonzeros.push(entries.into_iter());
        }
        self.keep();
        Ok(())
    }

    fn push_label(
        &mut self,
        index: usize,
        cell: Cell<'_>,
        line: &impl Fn() -> u64,
    ) -> Result<(), DataError> {
        let label = match &self.plan.schema.columns()[index].kind {
            Kind::Label(Label::Range { min, max }) => {
                self.number(index, cell, (*min, *max), line)?
            }
            Kind::Label(Label::Classes(classes)) => {
                class_label(self.class(index, &cell.text(), classes, line)?, classes.len())
            }
            _ => return Ok(()),
        };
        self.table.labels.push(label);
        Ok(())
    }

    fn push_value(&mut self, value: f64) {
        if let Values::Dense(values) = &mut self.table.values {
            values.push(value);
        }
    }

    /// Adds a line given, by column of the schema, whether its value is known, and the cells of
    /// those that are: a record, or as many as its frequency says.
    pub(super) fn push<'t>(
        &mut self,
        known: &[bool],
        cell: impl Fn(usize) -> Cell<'t>,
        line: impl Fn() -> u64,
    ) -> Result<(), DataError> {
        let mut columns = self.plan.schema.columns().iter().enumerate();
        let times = columns.find_map(|(index, column)| match column.kind {
            Kind::Frequency { most } if known[index] => Some((index, most)),
            _ => None,
        });
        let times = match times.filter(|_| !self.plan.unlabelled) {
            Some((index, most)) => {
                self.number(index, cell(index), (0.0, f64::from(most)), &line)?.round() as u32
            }
            None => 1,
        };
        (0..times).try_for_each(|_| self.push_record(known, &cell, &line))
    }

    fn push_record<'t>(
        &mut self,
        known: &[bool],
        cell: impl Fn(usize) -> Cell<'t>,
        line: impl Fn() -> u64,
    ) -> Result<(), DataError> {
        self.read += 1;
        if self.count_missing(known) {
            self.table.report.dropped_missing += 1;
            return Ok(());
        }
        if !self.person_has_room(known, &cell) {
            self.table.report.dropped_person += 1;
            return Ok(());
        }
        let schema = self.plan.schema;
        for (index, column) in schema.columns().iter().enumerate() {
            match (&column.kind, known[index].then(|| cell(index))) {
                (Kind::Ignored | Kind::Person { .. } | Kind::Frequency { .. }, _) => {}
                // Its column has written it.
                _ if column.derived => {}
                (Kind::Time { max }, Some(cell)) => {
                    let before = self.counts[index].clamped;
                    let time = self.number(index, cell, (0.0, *max), &line)?;
                    let longer = time == *max && self.counts[index].clamped > before;
                    // An event at once has been seen for a moment.
                    self.time = Some((time.max(MOMENT * max), longer));
                }
                (Kind::Time { .. }, None) => {}
                (Kind::Exposure { min, max }, Some(cell)) => {
                    let value = self.number(index, cell, (*min, *max), &line)?;
                    self.push_value(value);
                }
                (Kind::Exposure { .. }, None) => self.push_value(f64::NAN),
                (Kind::Numeric { min, max }, Some(cell)) => {
                    let value = match &column.date {
                        Some(form) => self.date(index, &cell.text(), form, (*min, *max), &line)?,
                        None => self.number(index, cell, (*min, *max), &line)?,
                    };
                    self.push_value(value);
                    self.push_indicator(index, column, 0.0);
                }
                (Kind::Categorical { categories }, Some(cell)) => {
                    let code = self.category(index, &cell.text(), categories, &line)?;
                    self.push_value(code);
                    self.push_indicator(index, column, 0.0);
                }
                (Kind::Numeric { .. } | Kind::Categorical { .. }, None) => {
                    self.counts[index].imputed += 1;
                    self.push_value(stand_in(column));
                    self.push_indicator(index, column, 1.0);
                }
                (Kind::Label(_), Some(cell)) => self.push_label(index, cell, &line)?,
                (Kind::Label(_), None) => self.table.labels.push(f64::NAN),
                (Kind::Site, Some(cell)) if !self.plan.unlabelled => self.push_site(&cell.text()),
                (Kind::Site, _) => {}
            }
        }
        if let (Some((time, longer)), Some(label)) =
            (self.time.take(), self.table.labels.last_mut())
        {
            *label = if longer { -time } else { time.copysign(*label) };
        }
        self.keep();
        Ok(())
    }

    /// The code of a category, or what stands for one that is not declared.
    fn category(
        &mut self,
        index: usize,
        cell: &str,
        categories: &[String],
        line: &impl Fn() -> u64,
    ) -> Result<f64, DataError> {
        if let Some(&code) = self.plan.codes[index].get(cell) {
            return Ok(f64::from(code));
        }
        self.counts[index].unknown += 1;
        let unknown = || DataError::UnknownCategory {
            file: self.table.source.clone(),
            line: line(),
            column: self.plan.schema.columns()[index].name.clone(),
            cell: shorten(cell),
            declared: u32::try_from(categories.len()).unwrap_or(u32::MAX),
            nearest: nearest(cell, categories.iter().map(String::as_str)),
            new: self.plan.unlabelled.then_some(self.plan.unknown),
        };
        self.plan.unknown.stand_in(categories).ok_or_else(unknown)
    }

    fn keep(&mut self) {
        self.table.rows.push(self.read - 1);
        self.table.report.rows += 1;
    }

    fn push_indicator(&mut self, index: usize, column: &Column, value: f64) {
        if column.indicator {
            self.push_value(value);
            let seen = &mut self.table.observed[index + 1];
            *seen = (seen.0.min(value), seen.1.max(value));
        }
    }

    /// Counts missing values; true if one is needed, so that the record is dropped.
    fn count_missing(&mut self, known: &[bool]) -> bool {
        if known.iter().all(|&known| known) {
            return false;
        }
        let mut drop = false;
        let columns = self.plan.schema.columns().iter().zip(known).zip(&mut self.counts);
        for ((column, known), counts) in columns {
            if *known || column.derived || column.kind == Kind::Ignored {
                continue;
            }
            if self.plan.unlabelled && !column.kind.is_feature() {
                continue;
            }
            counts.missing += 1;
            drop |= column.missing == Missing::Drop;
        }
        drop
    }

    /// Whether the person a record is about has fewer records than the schema allows; counts it.
    fn person_has_room<'t>(&mut self, known: &[bool], cell: &impl Fn(usize) -> Cell<'t>) -> bool {
        if self.plan.unlabelled {
            return true;
        }
        for (index, column) in self.plan.schema.columns().iter().enumerate() {
            let (Kind::Person { most }, true) = (&column.kind, known[index]) else { continue };
            let next = u32::try_from(self.persons.len()).expect("fewer than 2^32 persons");
            let (number, records) =
                self.persons.entry(cell(index).text().into_owned()).or_insert((next, 0));
            if *records >= *most {
                return false;
            }
            *records += 1;
            self.table.persons.push(*number);
        }
        true
    }

    fn push_site(&mut self, cell: &str) {
        let index = match self.site_index.get(cell) {
            Some(&index) => index,
            None => {
                let next = u32::try_from(self.site_index.len()).expect("fewer than 2^32 sites");
                self.site_index.insert(cell.to_owned(), next);
                self.table.site_names.push(cell.to_owned());
                next
            }
        };
        self.table.sites.push(index);
    }

    fn number(
        &mut self,
        index: usize,
        cell: Cell<'_>,
        (min, max): (f64, f64),
        line: &impl Fn() -> u64,
    ) -> Result<f64, DataError> {
        let column = || self.table.schema.columns()[index].name.clone();
        let file = || self.table.source.clone();
        let value = match cell {
            Cell::Number(value, _) => value,
            Cell::Text(text) => self.reading.number(text).ok_or_else(|| DataError::NotANumber {
                file: file(),
                line: line(),
                column: column(),
                cell: shorten(text),
                hint: number_hint(text, &self.reading),
            })?,
        };
        if !value.is_finite() {
            return Err(DataError::NotFinite {
                file: file(),
                line: line(),
                column: column(),
                cell: shorten(&cell.text()),
            });
        }
        self.counts[index].inexact += u64::from(value.abs() >= EXACT && cell.is_whole());
        Ok(self.clamp(index, value, (min, max)))
    }

    fn date(
        &mut self,
        index: usize,
        cell: &str,
        form: &DateForm,
        range: (f64, f64),
        line: &impl Fn() -> u64,
    ) -> Result<f64, DataError> {
        let value = form.number(cell).ok_or_else(|| DataError::NotADate {
            file: self.table.source.clone(),
            line: line(),
            column: self.table.schema.columns()[index].name.clone(),
            cell: shorten(cell),
            format: form.format.clone(),
        })?;
        Ok(self.clamp(index, value, range))
    }

    fn clamp(&mut self, index: usize, value: f64, (min, max): (f64, f64)) -> f64 {
        let seen = &mut self.table.observed[index];
        *seen = (seen.0.min(value), seen.1.max(value));
        self.counts[index].clamped += u64::from(value < min || value > max);
        value.clamp(min, max)
    }

    /// The code of a class. Numbers match by value: files write 1, +1 and 1.0 for the same class.
    fn class(
        &self,
        index: usize,
        cell: &str,
        classes: &[String],
        line: &impl Fn() -> u64,
    ) -> Result<u32, DataError> {
        if let Some(&code) = self.plan.codes[index].get(cell) {
            return Ok(code);
        }
        let same_number = |value: f64| classes.iter().position(|class| class.parse() == Ok(value));
        if let Some(code) = cell.parse().ok().and_then(same_number) {
            return Ok(u32::try_from(code).expect("fewer than 2^32 classes"));
        }
        Err(DataError::UnknownLabel {
            file: self.table.source.clone(),
            line: line(),
            cell: shorten(cell),
            classes: classes.to_vec(),
            nearest: nearest(cell, classes.iter().map(String::as_str)),
        })
    }

    /// How many records were read, and the table of those that are kept.
    pub(super) fn piece(mut self) -> (u64, Table) {
        let (rows, sparse) =
            (self.table.report.rows, matches!(self.table.values, Values::Sparse(_)));
        let columns = self.table.schema.columns().iter().zip(&self.counts);
        for ((column, counts), seen) in columns.zip(&mut self.table.observed) {
            if sparse && column.kind.is_feature() && counts.listed < rows {
                // What some record leaves out is 0 there.
                *seen = (seen.0.min(0.0), seen.1.max(0.0));
            }
            for (map, count) in [
                (&mut self.table.report.missing, counts.missing),
                (&mut self.table.report.clamped, counts.clamped),
                (&mut self.table.report.imputed, counts.imputed),
                (&mut self.table.report.inexact, counts.inexact),
                (&mut self.table.report.unknown, counts.unknown),
            ] {
                if count > 0 {
                    map.insert(column.name.clone(), count);
                }
            }
        }
        (self.read, self.table)
    }

    /// The table, unless the file has no record that could be kept.
    pub(super) fn finish(self) -> Result<Table, DataError> {
        let (read, table) = self.piece();
        kept_some(read, table.report.rows, &table.source, &table.schema)?;
        Ok(table)
    }
}

/// Refuses a file without a record that could be kept.
pub(super) fn kept_some(
    read: u64,
    kept: u64,
    file: &str,
    schema: &Schema,
) -> Result<(), DataError> {
    let file = || file.to_owned();
    match (read, kept) {
        (0, _) => Err(DataError::Empty { file: file(), header: schema.format().header }),
        (rows, 0) => Err(DataError::AllMissing { file: file(), rows }),
        _ => Ok(()),
    }
}

/// Integers up to here are all numbers.
pub(super) const EXACT: f64 = 9_007_199_254_740_992.0;

/// The shortest time, as a part of the longest.
const MOMENT: f64 = 1e-9;

/// What stands for a missing value.
fn stand_in(column: &Column) -> f64 {
    match (column.missing, &column.kind) {
        (Missing::Impute(value), _) => value,
        (_, Kind::Numeric { min, max }) => min + (max - min) / 2.0,
        (_, Kind::Categorical { categories }) => (categories.len() - 1) as f64,
        _ => f64::NAN,
    }
}

/// What a schema could say about a cell that is not a number, if that would help.
fn number_hint(cell: &str, reading: &Reading) -> String {
    let with = |decimal, mark| parse_number(cell, decimal, mark).is_some();
    if MISSING_WORDS.iter().any(|word| word.eq_ignore_ascii_case(cell)) {
        return format!("; add \"{cell}\" to `missing` in the schema if it means unknown");
    }
    match (reading.decimal, cell.contains(','), cell.contains('.')) {
        ('.', true, false) if with('.', Some(',')) => {
            "; `decimal = \",\"` or `thousands = \",\"` in the schema says what its comma is".to_owned()
        }
        ('.', true, _) if with(',', Some('.')) => "; a decimal comma needs `decimal = \",\"` in the schema".to_owned(),
        ('.', true, true) if with('.', Some(',')) => "; the schema lacks `thousands = \",\"`".to_owned(),
        (',', _, true) if with(',', Some('.')) => {
            "; the schema says `decimal = \",\"`: add `thousands = \".\"` if that is what its full stop is".to_owned()
        }
        (',', _, true) if with('.', Some(',')) => {
            "; the schema says `decimal = \",\"`: without that line each file is read with the mark its numbers need".to_owned()
        }
        (_, _, _) if [' ', '\''].iter().any(|&mark| with(reading.decimal, Some(mark))) => {
            "; `thousands = \" \"` in the schema allows marks between thousands".to_owned()
        }
        _ => String::new(),
    }
}

/// Words that programs and people write for "unknown".
pub(super) const MISSING_WORDS: [&str; 24] = [
    "na",
    "n/a",
    "#n/a",
    "n.a.",
    "nan",
    "null",
    "none",
    "nil",
    "missing",
    "unknown",
    "unk",
    "not available",
    "-",
    "--",
    ".",
    "*",
    "k.a.",
    "k. a.",
    "keine angabe",
    "unbekannt",
    "s/d",
    "n/d",
    "nd",
    "#value!",
];

/// The label of a class: ±1 for two, its code for more.
pub(super) fn class_label(code: u32, classes: usize) -> f64 {
    if classes == 2 { 2.0 * f64::from(code) - 1.0 } else { f64::from(code) }
}

/// The class of a label: the inverse of `class_label`.
pub fn class_of(label: f64, classes: usize) -> usize {
    if classes == 2 { usize::from(label > 0.0) } else { label as usize }
}
