//! Records from CSV.

use std::collections::{BTreeSet, HashSet};
use std::io::Read;

use ::csv::{ByteRecord, Reader, ReaderBuilder};

use super::error::nearest;
use super::table::Builder;
use super::{DataError, Format, Kind, Schema, Table};

/// Reads records under a schema, whose [`Format`] says how the file is written. `file` is a name for messages.
///
/// Cells are trimmed. A record with a missing value in a column that is used is dropped and counted; a number outside its
/// declared range is clamped and counted. With a header, columns are found by name and may come in any order. Blank lines are
/// skipped.
///
/// # Errors
/// [`DataError`] names the file, the line and the column, and says what to do.
///
/// ```
/// use consenso::data::{Schema, csv};
/// let schema = Schema::from_toml(r#"
///     reviewed = true
///     [[column]]
///     name = "age"
///     kind = "numeric"
///     min = 0
///     max = 120
///     [[column]]
///     name = "ill"
///     kind = "label"
///     classes = ["no", "yes"]
/// "#)?;
/// let table = csv::read("age,ill\n40,no\n130,yes\n?,no\n".as_bytes(), "site.csv", &schema)?;
/// assert_eq!((table.len(), table.labels()), (2, &[-1.0, 1.0][..]));
/// assert_eq!((table.report().dropped_missing, table.report().clamped["age"]), (1, 1));
/// # Ok::<(), consenso::data::DataError>(())
/// ```
pub fn read(reader: impl Read, file: &str, schema: &Schema) -> Result<Table, DataError> {
    let bytes = read_all(reader, file)?;
    let mut lines = Lines::new(&bytes, file, schema.format());
    let columns = schema.columns();
    // The column of the schema at each position of the file.
    let order = if schema.format().header {
        match_header(&lines.header()?, file, schema)?
    } else {
        (0..columns.len()).collect()
    };
    let mut builder = Builder::new(schema, file);
    let mut record = ByteRecord::new();
    while lines.next(&mut record, columns.len())? {
        let mut cells = vec![None; columns.len()];
        for (cell, &column) in record.iter().zip(&order) {
            cells[column] = lines.cell(&record, cell, || columns[column].name.clone())?;
        }
        builder.push(schema, &cells, || lines.line_of(&record))?;
    }
    builder.finish()
}

/// Reads records a model is to be applied to: like [`read`], but labels may be missing (they are NaN then, and so are labels of a
/// file without that column), a site column too, and columns the schema does not know are ignored.
///
/// Returns the records that can be encoded, and for every record of the file, in order, whether it is among them.
///
/// # Errors
/// [`DataError`] names the file, the line and the column, and says what to do.
pub fn read_new(reader: impl Read, file: &str, schema: &Schema) -> Result<(Table, Vec<bool>), DataError> {
    let bytes = read_all(reader, file)?;
    let columns = schema.columns();
    let label = columns.iter().position(|c| matches!(c.kind, Kind::Label(_))).unwrap_or(columns.len());
    let mut lines = Lines::new(&bytes, file, schema.format());
    let mut record = ByteRecord::new();
    let order: Vec<Option<usize>> = if schema.format().header {
        let header = lines.header()?;
        for column in columns.iter().filter(|c| c.kind.is_feature()) {
            if !header.contains(&column.name) {
                let nearest = nearest(&column.name, header.iter().map(String::as_str));
                let column = column.name.clone();
                return Err(DataError::HeaderLacks { file: file.to_owned(), column, nearest });
            }
        }
        header.iter().map(|found| columns.iter().position(|c| c.name == *found)).collect()
    } else {
        // Without names a file lacks its label if it is one column short.
        let mut first = Lines::new(&bytes, file, schema.format());
        let unlabelled = first.next(&mut record, 0)? && record.len() + 1 == columns.len();
        (0..columns.len()).filter(|&c| !(unlabelled && c == label)).map(Some).collect()
    };
    let (mut builder, mut kept) = (Builder::new(schema, file).for_new_records(), Vec::new());
    while lines.next(&mut record, order.len())? {
        let mut cells = vec![None; columns.len()];
        for (cell, column) in record.iter().zip(&order) {
            if let Some(column) = *column {
                cells[column] = lines.cell(&record, cell, || columns[column].name.clone())?;
            }
        }
        let before = builder.len();
        builder.push(schema, &cells, || lines.line_of(&record))?;
        kept.push(builder.len() > before);
    }
    Ok((builder.finish()?, kept))
}

/// Names and distinct known cells a column, for drafting a schema.
pub(super) fn read_text(
    reader: impl Read,
    file: &str,
    format: &Format,
) -> Result<(Vec<String>, Vec<BTreeSet<String>>), DataError> {
    format.check()?;
    let bytes = read_all(reader, file)?;
    let mut lines = Lines::new(&bytes, file, format);
    let mut record = ByteRecord::new();
    let mut names = if format.header { lines.header()? } else { Vec::new() };
    let mut distinct = vec![BTreeSet::new(); names.len()];
    let mut width = names.len();
    while lines.next(&mut record, width)? {
        if names.is_empty() {
            width = record.len();
            names = (1..=width).map(|number| format!("column-{number}")).collect();
            distinct = vec![BTreeSet::new(); width];
        }
        for ((cell, name), seen) in record.iter().zip(&names).zip(&mut distinct) {
            if let Some(cell) = lines.cell(&record, cell, || name.clone())?
                && !seen.contains(cell)
            {
                seen.insert(cell.to_owned());
            }
        }
    }
    if distinct.iter().all(BTreeSet::is_empty) {
        return Err(DataError::Empty { file: file.to_owned(), header: format.header });
    }
    Ok((names, distinct))
}

fn read_all(mut reader: impl Read, file: &str) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(|source| DataError::Read { file: file.to_owned(), source })?;
    Ok(bytes)
}

/// The position in the schema of each column of the header.
fn match_header(header: &[String], file: &str, schema: &Schema) -> Result<Vec<usize>, DataError> {
    let file = || file.to_owned();
    let names: Vec<&str> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    let mut seen = HashSet::new();
    let mut order = Vec::with_capacity(header.len());
    // A missing column is reported before an unknown one: a misspelt name is both, and the schema's spelling is the one known.
    for &name in &names {
        if !header.iter().any(|found| found == name) {
            let nearest = nearest(name, header.iter().map(String::as_str));
            return Err(DataError::HeaderLacks { file: file(), column: name.to_owned(), nearest });
        }
    }
    for found in header {
        let Some(position) = names.iter().position(|name| name == found) else {
            let nearest = nearest(found, names.iter().copied());
            return Err(DataError::HeaderUnknown { file: file(), column: found.clone(), nearest });
        };
        if !seen.insert(position) {
            return Err(DataError::HeaderTwice { file: file(), column: found.clone() });
        }
        order.push(position);
    }
    Ok(order)
}

/// The records of a file, with their line numbers.
struct Lines<'a> {
    reader: Reader<&'a [u8]>,
    bytes: &'a [u8],
    file: &'a str,
    format: &'a Format,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8], file: &'a str, format: &'a Format) -> Self {
        let byte = |mark: char| u8::try_from(mark).expect("a checked format is ASCII");
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(byte(format.delimiter))
            .comment(format.comment.map(byte))
            .from_reader(bytes);
        Self { reader, bytes, file, format }
    }

    /// The first record, as names.
    fn header(&mut self) -> Result<Vec<String>, DataError> {
        let mut record = ByteRecord::new();
        if !self.next(&mut record, 0)? {
            return Err(DataError::Empty { file: self.file.to_owned(), header: true });
        }
        let name = |cell: &[u8]| String::from_utf8_lossy(cell.trim_ascii()).into_owned();
        Ok(record.iter().map(name).collect())
    }

    /// Reads the next record of `expected` cells (0: of any number). False at the end.
    fn next(&mut self, record: &mut ByteRecord, expected: usize) -> Result<bool, DataError> {
        loop {
            let more = self.reader.read_byte_record(record).map_err(|error| DataError::Read {
                file: self.file.to_owned(),
                source: std::io::Error::other(error),
            })?;
            let blank = record.len() == 1 && record[0].trim_ascii().is_empty();
            if !more {
                return Ok(false);
            }
            if blank && expected != 1 {
                continue;
            }
            if expected != 0 && record.len() != expected {
                return Err(DataError::Ragged {
                    file: self.file.to_owned(),
                    line: self.line_of(record),
                    found: record.len(),
                    expected,
                    delimiter: self.format.delimiter,
                });
            }
            return Ok(true);
        }
    }

    /// A cell's text, trimmed; `None` if it means "missing".
    fn cell<'r>(
        &self,
        record: &ByteRecord,
        cell: &'r [u8],
        column: impl Fn() -> String,
    ) -> Result<Option<&'r str>, DataError> {
        let text = std::str::from_utf8(cell.trim_ascii()).map_err(|_| DataError::NotText {
            file: self.file.to_owned(),
            line: self.line_of(record),
            column: column(),
        })?;
        Ok((!self.format.missing.iter().any(|mark| mark == text)).then_some(text))
    }

    /// The line a record starts on, from 1. The reader's own position is where the record before ended: blank lines, comments
    /// and the second half of CRLF still lie between, so the line is counted from the bytes. Only messages need it.
    fn line_of(&self, record: &ByteRecord) -> u64 {
        let start = record.position().map_or(0, ::csv::Position::byte);
        let mut start = usize::try_from(start).unwrap_or(usize::MAX).min(self.bytes.len());
        while let Some(&byte) = self.bytes.get(start) {
            if Some(char::from(byte)) == self.format.comment {
                let rest = &self.bytes[start..];
                start += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            } else if !matches!(byte, b'\n' | b'\r') {
                break;
            }
            start += 1;
        }
        let before = &self.bytes[..start.min(self.bytes.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64
    }
}
