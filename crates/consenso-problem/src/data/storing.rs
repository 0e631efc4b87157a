//! From tables to rows outside memory, a piece at a time.

use super::dataset::{FILE, Known, same_schema};
use super::stored::{Ends, ScratchFile};
use super::{
    DataError, Dataset, Encoder, Encoding, Grouping, Kind, LoadReport, Records, Scratch,
    StoredRows, Table,
};
use consenso_tables::Keeping;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;

/// Makes a [`Dataset`] whose training rows lie outside memory, from tables that come piece by
/// piece. Of a row stays in memory what divides rows among agents: its group, and its label where
/// classes are divided.
pub struct DatasetWriter {
    scratch: Arc<dyn Scratch>,
    encoding: Encoding,
    /// The column that rows are divided by.
    by: Option<String>,
    labels: Option<Vec<f64>>,
    /// What the first table showed.
    known: Option<Known>,
    /// Records that are not written yet.
    pending: Option<Table>,
    writing: Option<Writing>,
    report: LoadReport,
    /// Files by number, with their names and how many records they have.
    files: Vec<(usize, String, usize)>,
    sites: HashMap<String, u32>,
    site_names: Vec<String>,
    codes: Vec<u32>,
    classes: Classes,
}

/// The file under way.
struct Writing {
    file: Box<dyn ScratchFile>,
    keeping: Keeping,
    form: Records,
    ends: Ends,
    at: u64,
}

/// Which labels there were.
#[derive(Clone, Copy)]
enum Classes {
    None,
    One(f64),
    Several,
}

impl std::fmt::Debug for DatasetWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DatasetWriter(rows={})", self.report.rows)
    }
}

/// Records that are encoded and written together.
const PIECE: usize = 4096;

impl DatasetWriter {
    /// Nothing yet. Rows are divided by the groups of `by`, a column or `file`; `labels` says
    /// whether they are divided by class.
    #[must_use]
    pub fn new(
        scratch: Arc<dyn Scratch>,
        encoding: Encoding,
        by: Option<&str>,
        labels: bool,
    ) -> Self {
        Self {
            scratch,
            encoding,
            by: by.map(str::to_owned),
            labels: labels.then(Vec::new),
            known: None,
            pending: None,
            writing: None,
            report: LoadReport::default(),
            files: Vec::new(),
            sites: HashMap::new(),
            site_names: Vec::new(),
            codes: Vec::new(),
            classes: Classes::None,
        }
    }

    /// Adds records of a file, by its number. Those of one file come one after the other.
    ///
    /// # Errors
    /// [`DataError`] if schemas differ, the encoding does not fit, or rows cannot be written.
    pub fn push(&mut self, file: usize, table: Table) -> Result<(), DataError> {
        match &self.known {
            Some(known) => same_schema((&known.schema, &known.source), &table)?,
            None => self.known = Some(Known::of(&table, self.encoding)?),
        }
        match self.files.last_mut() {
            Some((last, _, rows)) if *last == file => *rows += table.len(),
            _ => self.files.push((file, table.source().to_owned(), table.len())),
        }
        self.report.merge(table.report());
        self.note(file, &table);
        match &mut self.pending {
            _ if table.is_empty() => {}
            Some(pending) if pending.is_listed() != table.is_listed() => {
                let (first, second) = (pending.source().to_owned(), table.source().to_owned());
                return Err(DataError::MixedKinds { first, second });
            }
            Some(pending) if !pending.is_empty() => pending.append(&table),
            _ => self.pending = Some(table),
        }
        if self.pending.as_ref().is_some_and(|pending| pending.len() >= PIECE) {
            self.write()
        } else {
            Ok(())
        }
    }

    /// Notes the groups and labels of records.
    fn note(&mut self, file: usize, table: &Table) {
        if let Some(labels) = &mut self.labels {
            labels.extend_from_slice(table.labels());
        }
        for &label in table.labels() {
            self.classes = match self.classes {
                Classes::None => Classes::One(label),
                Classes::One(known) if known == label => continue,
                _ => Classes::Several,
            };
        }
        let Some(by) = &self.by else { return };
        if by == FILE {
            self.codes.extend(std::iter::repeat_n(file as u32, table.len()));
            return;
        }
        let mut feature = 0;
        for column in table.schema().columns() {
            match &column.kind {
                Kind::Site if column.name == *by => {
                    // Names are told once a table, in the order of their first appearance.
                    let numbers: Vec<u32> = table
                        .site_names()
                        .iter()
                        .map(|name| {
                            self.sites.get(name).copied().unwrap_or_else(|| {
                                let next = self.site_names.len() as u32;
                                self.site_names.push(name.clone());
                                self.sites.insert(name.clone(), next);
                                next
                            })
                        })
                        .collect();
                    self.codes.extend(table.sites().iter().map(|&site| numbers[site as usize]));
                }
                Kind::Categorical { .. } if column.name == *by => {
                    self.codes.extend((0..table.len()).map(|row| table.row(row)[feature] as u32));
                }
                _ => {}
            }
            feature += usize::from(column.kind.is_feature());
        }
    }

    /// Encodes and writes what is pending.
    fn write(&mut self) -> Result<(), DataError> {
        let (Some(table), Some(known)) = (self.pending.take(), &self.known) else { return Ok(()) };
        let failed = |source| DataError::Scratch { source };
        let writing = match &mut self.writing {
            Some(writing) => writing,
            None => {
                let keeping = known.encoder.keeping(&table);
                let form = known.encoder.encode_as(&table.emptied(), &keeping);
                let file = self.scratch.begin("rows").map_err(failed)?;
                self.writing.insert(Writing { file, keeping, ends: Ends::of(&form), form, at: 0 })
            }
        };
        let records = known.encoder.encode_as(&table, &writing.keeping);
        let mut bytes = Vec::new();
        for row in 0..records.len() {
            let before = bytes.len();
            records.write_row(row, &mut bytes);
            writing.at += (bytes.len() - before) as u64;
            writing.ends.push(writing.at);
        }
        writing.file.write_all(&bytes).map_err(failed)?;
        // Files of two kinds would be encoded in two ways.
        self.pending = Some(table.emptied());
        Ok(())
    }

    /// Returns how many records each file has, by the numbers of the files.
    #[must_use]
    pub fn counts(&self) -> Vec<(usize, usize)> {
        self.files.iter().map(|(file, _, rows)| (*file, *rows)).collect()
    }

    /// The dataset of all records, as [`Dataset::new`] makes it of tables in memory.
    ///
    /// # Errors
    /// As for [`Dataset::new`], and rows that cannot be written.
    pub fn finish(self, test: Option<&Table>) -> Result<Dataset, DataError> {
        let several = self.files.len() > 1;
        let names = several.then(|| self.files.iter().map(|(_, name, _)| name.clone()).collect());
        self.dataset(test, names)
    }

    /// The part of one process among several, as [`Dataset::part`] makes it; `counts` says how many
    /// records every file has.
    ///
    /// # Errors
    /// As for [`Self::finish`].
    pub fn finish_part(
        self,
        test: Option<&Table>,
        counts: Vec<usize>,
    ) -> Result<Dataset, DataError> {
        // Names of files elsewhere are theirs.
        let names = (0..counts.len()).map(|file| format!("file {}", file + 1)).collect();
        let mut dataset = self.dataset(test, Some(names))?;
        dataset.elsewhere = Some(counts);
        Ok(dataset)
    }

    fn dataset(
        mut self,
        test: Option<&Table>,
        files: Option<Vec<String>>,
    ) -> Result<Dataset, DataError> {
        self.write()?;
        let failed = |source| DataError::Scratch { source };
        let (Some(known), Some(writing)) = (self.known.take(), self.writing.take()) else {
            return Err(DataError::Empty { file: "no file".to_owned(), header: false });
        };
        test.map_or(Ok(()), |test| same_schema((&known.schema, &known.source), test))?;
        let file = writing.file.done().map_err(failed)?;
        let stored = StoredRows::new(
            self.scratch,
            file,
            writing.form.clone(),
            writing.ends,
            self.labels.unwrap_or_default(),
            if let Classes::One(label) = self.classes { Some(label) } else { None },
        );
        // Others than the one that rows are divided by are known by name only.
        let mut codes = Some(self.codes);
        let mut grouping = |column: &str, names: Vec<String>| {
            let codes = if self.by.as_deref() == Some(column) {
                codes.take().unwrap_or_default()
            } else {
                Vec::new()
            };
            Grouping { column: column.to_owned(), names, codes }
        };
        let mut groupings: Vec<Grouping> =
            files.map(|names| grouping(FILE, names)).into_iter().collect();
        for column in known.schema.columns() {
            match &column.kind {
                Kind::Site => {
                    groupings.push(grouping(&column.name, std::mem::take(&mut self.site_names)));
                }
                Kind::Categorical { categories } => {
                    groupings.push(grouping(&column.name, categories.clone()));
                }
                _ => {}
            }
        }
        let names: Vec<&str> = self.files.iter().map(|(_, name, _)| name.as_str()).collect();
        let source = names.join(", ");
        let mut dataset = known.dataset(writing.form, test, groupings, self.report, source);
        dataset.stored = Some(stored);
        Ok(dataset)
    }
}

impl Known {
    fn of(table: &Table, encoding: Encoding) -> Result<Self, DataError> {
        let encoder = Encoder::new(table.schema(), encoding)?;
        Ok(Self { schema: table.schema().clone(), source: table.source().to_owned(), encoder })
    }
}
