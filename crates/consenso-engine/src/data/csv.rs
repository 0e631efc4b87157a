//! Records from CSV.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read};

use ::csv::{ByteRecord, Reader};

use super::error::nearest;
use super::format::{
    DELIMITERS, Marks, as_it_is, cutter, decode, sample, sniff_delimiter, sniff_quote,
};
use super::table::Builder;
use super::{Column, DataError, Format, Kind, Label, Reading, Schema, Table, TextEncoding};

/// Reads records under a schema, whose [`Format`] says how the file is written as far as that is
/// known; the rest is found out ([`Table::reading`] says how the file was read). `file` is a name
/// for messages. Text in UTF-8, UTF-16, Latin-1 or Windows-1252 is read; what is compressed has to
/// be unpacked first.
///
/// Cells are trimmed. A record with a missing value is dropped or completed as its column's
/// [`super::Missing`] says, and counted; a number outside its declared range is clamped and
/// counted. With a header, columns are found by name and may come in any order, and ignored ones
/// may be absent. Blank lines are skipped.
///
/// # Errors
/// [`DataError`] names the file, the line and the column, and says what to do.
///
/// ```
/// # use consenso_engine as consenso;
/// use consenso::data::{Column, Format, Kind, Label, Schema, csv};
/// let age = Column::new("age", Kind::Numeric { min: 0.0, max: 120.0 });
/// let ill = Column::new("ill", Kind::Label(Label::Classes(vec!["no".into(), "yes".into()])));
/// let schema = Schema::new(vec![age, ill], Format::default(), true)?;
/// let table = csv::read("age,ill\n40,no\n130,yes\n?,no\n".as_bytes(), "site.csv", &schema)?;
/// assert_eq!((table.len(), table.labels()), (2, &[-1.0, 1.0][..]));
/// assert_eq!((table.report().dropped_missing, table.report().clamped["age"]), (1, 1));
/// # Ok::<(), consenso::data::DataError>(())
/// ```
pub fn read(reader: impl Read, file: &str, schema: &Schema) -> Result<Table, DataError> {
    read_as(reader, file, schema, schema.format())
}

/// Reads records as [`read`] does from a file that is written in another format than the schema
/// says.
///
/// # Errors
/// As [`read`].
pub fn read_as(
    reader: impl Read,
    file: &str,
    schema: &Schema,
    format: &Format,
) -> Result<Table, DataError> {
    load(reader, file, schema, format, false)
}

/// Reads records to predict: the label may be absent, and is NaN then; so may be the site and the
/// person, which are left out. Columns that the schema does not know are skipped.
///
/// # Errors
/// As [`read`].
pub fn read_unlabelled(
    reader: impl Read,
    file: &str,
    schema: &Schema,
    format: &Format,
) -> Result<Table, DataError> {
    load(reader, file, schema, format, true)
}

fn load(
    reader: impl Read,
    file: &str,
    schema: &Schema,
    format: &Format,
    unlabelled: bool,
) -> Result<Table, DataError> {
    format.check()?;
    let decoded = decode(reader, file, format.encoding)?;
    let text = &decoded.text[..];
    let source = Source { open: &|| Ok(Box::new(text)), file, format, schema, unlabelled };
    let mut whole = None;
    source.load(text, decoded.encoding, usize::MAX, &mut |table| {
        whole = Some(table);
        Ok(())
    })?;
    whole.ok_or_else(|| DataError::Empty { file: file.to_owned(), header: format.header })
}

/// Reads records as [`read_as`] does and hands them on in pieces of a few thousand, so that they
/// need not be held; the last piece, which may be empty, tells what happened while loading. `open`
/// opens the file at its beginning, as often as it is called. Text in UTF-8 is read as it is
/// needed; any other is decoded in memory first.
///
/// Decimal commas are found out from the first piece only.
///
/// # Errors
/// As [`read`], and what `take` answers.
pub fn read_in_pieces(
    open: &dyn Fn() -> io::Result<Box<dyn Read>>,
    file: &str,
    schema: &Schema,
    format: &Format,
    take: &mut dyn FnMut(Table) -> Result<(), DataError>,
) -> Result<(), DataError> {
    format.check()?;
    let failed = |source| DataError::Read { file: file.to_owned(), source };
    let mut head = Vec::new();
    open().and_then(|opened| opened.take(HEAD).read_to_end(&mut head)).map_err(failed)?;
    let Some(mark) = as_it_is(&head, format.encoding) else {
        let decoded = decode(open().map_err(failed)?, file, format.encoding)?;
        let text = &decoded.text[..];
        let source =
            Source { open: &|| Ok(Box::new(text)), file, format, schema, unlabelled: false };
        return source.load(text, decoded.encoding, PIECE, take);
    };
    let opened = || {
        let mut opened = open()?;
        opened.read_exact(&mut [0; 3][..mark])?;
        Ok(opened)
    };
    let source = Source { open: &opened, file, format, schema, unlabelled: false };
    source.load(&head[mark..], TextEncoding::Utf8, PIECE, take)
}

/// Bytes of a file that show how it is written.
const HEAD: u64 = 1 << 20;
/// Records of a piece.
const PIECE: usize = 4096;

/// A file about to be read.
struct Source<'a> {
    /// Opens its text at the beginning.
    open: &'a dyn Fn() -> io::Result<Box<dyn Read + 'a>>,
    file: &'a str,
    format: &'a Format,
    schema: &'a Schema,
    unlabelled: bool,
}

impl<'a> Source<'a> {
    /// Hands on all records, in pieces of at least `piece` but the last; `head` is how the text
    /// begins.
    fn load(
        &self,
        head: &[u8],
        encoding: TextEncoding,
        piece: usize,
        take: &mut dyn FnMut(Table) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let format = self.format;
        let mut reading = Reading {
            delimiter: ',',
            quote: format.quote.unwrap_or('"'),
            decimal: format.decimal.unwrap_or('.'),
            thousands: format.thousands,
            encoding,
            compression: None,
        };
        reading.delimiter = fitting_delimiter(head, &reading, format, self.schema, self.unlabelled);
        let mut taken = false;
        let mut noted = |table| {
            taken = true;
            take(table)
        };
        match self.fill(reading, piece, &mut noted) {
            // What can only be read with a decimal comma is, unless somebody said otherwise.
            Err(error @ DataError::NotANumber { .. }) if format.decimal.is_none() && !taken => {
                match self.marks(reading)?.certain() {
                    Some((decimal, thousands))
                        if (decimal, thousands) != (reading.decimal, reading.thousands) =>
                    {
                        let thousands = format.thousands.or(thousands);
                        self.fill(Reading { decimal, thousands, ..reading }, piece, take)
                    }
                    _ => Err(error),
                }
            }
            other => other,
        }
    }

    fn lines(&self, reading: Reading) -> Result<Lines<'a>, DataError> {
        Lines::new(self.open, self.file, self.format, reading)
    }

    /// The column of the schema at each position of the file.
    fn order(
        &self,
        lines: &mut Lines<'_>,
        reading: Reading,
    ) -> Result<Vec<Option<usize>>, DataError> {
        if self.format.header {
            return match_header(&lines.header()?, self.file, self.schema, self.unlabelled);
        }
        let columns =
            || self.schema.columns().iter().enumerate().filter(|(_, column)| !column.derived);
        // Without names a file has no labels if its first record is one cell short.
        let mut first = ByteRecord::new();
        let short = self.unlabelled
            && self.lines(reading)?.next(&mut first, 0)?
            && first.len() + 1 == columns().count();
        let absent = |column: &Column| short && matches!(column.kind, Kind::Label(_));
        Ok(columns().filter(|(_, column)| !absent(column)).map(|(index, _)| Some(index)).collect())
    }

    fn fill(
        &self,
        reading: Reading,
        piece: usize,
        take: &mut dyn FnMut(Table) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let mut lines = self.lines(reading)?;
        let order = self.order(&mut lines, reading)?;
        let columns = self.schema.columns();
        let mut builder = Builder::new(self.schema, self.file, Some(reading));
        if self.unlabelled {
            builder = builder.unlabelled();
        }
        let mut record = ByteRecord::new();
        while lines.next(&mut record, order.len())? {
            let mut cells = vec![None; columns.len()];
            for (cell, column) in record.iter().zip(&order) {
                let Some(column) = *column else { continue };
                let name = || columns[column].name.clone();
                let words = &columns[column].missing_words;
                let cell = lines.cell(&record, cell, name)?;
                cells[column] = cell.filter(|text| !words.iter().any(|word| word == text));
            }
            builder.push(self.schema, &cells, || lines.line_of(&record))?;
            if builder.len() >= piece {
                take(builder.take())?;
            }
        }
        take(builder.finish()?)
    }

    /// What the cells of the numeric columns say about decimal and thousands marks.
    fn marks(&self, reading: Reading) -> Result<Marks, DataError> {
        let mut lines = self.lines(reading)?;
        let order = self.order(&mut lines, reading)?;
        let mut marks = Marks::default();
        let mut record = ByteRecord::new();
        while lines.next(&mut record, order.len())? {
            for (cell, column) in record.iter().zip(&order) {
                let Some(column) = column.map(|index| &self.schema.columns()[index]) else {
                    continue;
                };
                let number =
                    matches!(column.kind, Kind::Numeric { .. } | Kind::Label(Label::Range { .. }));
                if number
                    && column.date.is_none()
                    && let Ok(Some(text)) = lines.cell(&record, cell, String::new)
                {
                    marks.add(text, 1);
                }
            }
        }
        Ok(marks)
    }
}

/// The delimiter the format names, unless another one cuts the header into the columns of the
/// schema and this one does not.
fn fitting_delimiter(
    text: &[u8],
    reading: &Reading,
    format: &Format,
    schema: &Schema,
    unlabelled: bool,
) -> char {
    let first =
        |delimiter| sample(text, delimiter, reading.quote, format.comment, 1).into_iter().next();
    let present = |column: &&Column| !column.derived && needed(column, unlabelled);
    let fits = |delimiter: char| {
        let Some(record) = first(delimiter) else { return false };
        if !format.header {
            return record.len()
                == schema.columns().iter().filter(|column| !column.derived).count();
        }
        let cells: HashSet<&[u8]> = record.iter().map(<[u8]>::trim_ascii).collect();
        schema.columns().iter().filter(present).all(|column| cells.contains(column.name.as_bytes()))
    };
    let said = format.delimiter.unwrap_or(',');
    if format.delimiter.is_some() && !format.header || fits(said) {
        return said;
    }
    DELIMITERS.into_iter().chain([' ']).find(|&delimiter| fits(delimiter)).unwrap_or(said)
}

/// Whether a file must have a column.
fn needed(column: &Column, unlabelled: bool) -> bool {
    column.kind != Kind::Ignored && (column.kind.is_feature() || !unlabelled)
}

/// Known cells of one column with how often they occur, for drafting a schema.
#[derive(Debug, Default)]
pub(super) struct Cells {
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) missing: u64,
}

/// Names of the columns and what they hold, for drafting a schema. The delimiter is found out where
/// the format leaves it open.
pub(super) fn read_text(
    reader: impl Read,
    file: &str,
    format: &Format,
) -> Result<(Vec<String>, Vec<Cells>, Reading), DataError> {
    format.check()?;
    let decoded = decode(reader, file, format.encoding)?;
    let text = &decoded.text;
    let quote = format.quote.unwrap_or_else(|| sniff_quote(text));
    let reading = Reading {
        delimiter: format.delimiter.unwrap_or_else(|| sniff_delimiter(text, quote, format.comment)),
        quote,
        decimal: format.decimal.unwrap_or('.'),
        thousands: format.thousands,
        encoding: decoded.encoding,
        compression: None,
    };
    let open = || -> io::Result<Box<dyn Read>> { Ok(Box::new(&text[..])) };
    let mut lines = Lines::new(&open, file, format, reading)?;
    let mut record = ByteRecord::new();
    let mut names = if format.header { lines.header()? } else { Vec::new() };
    let mut columns: Vec<Cells> = names.iter().map(|_| Cells::default()).collect();
    let mut width = names.len();
    while lines.next(&mut record, width)? {
        if names.is_empty() {
            width = record.len();
            names = (1..=width).map(|number| format!("column-{number}")).collect();
            columns = names.iter().map(|_| Cells::default()).collect();
        }
        for ((cell, name), seen) in record.iter().zip(&names).zip(&mut columns) {
            match lines.cell(&record, cell, || name.clone())? {
                None => seen.missing += 1,
                Some(cell) => match seen.counts.get_mut(cell) {
                    Some(count) => *count += 1,
                    None => {
                        seen.counts.insert(cell.to_owned(), 1);
                    }
                },
            }
        }
    }
    if columns.iter().all(|column| column.counts.is_empty()) {
        return Err(DataError::Empty { file: file.to_owned(), header: format.header });
    }
    Ok((names, columns, reading))
}

/// The position in the schema of each column of the header; `None` for one that is skipped.
fn match_header(
    header: &[String],
    file: &str,
    schema: &Schema,
    unlabelled: bool,
) -> Result<Vec<Option<usize>>, DataError> {
    let file = || file.to_owned();
    let columns = || schema.columns().iter().filter(|column| !column.derived);
    let mut seen = HashSet::new();
    let mut order = Vec::with_capacity(header.len());
    // A missing column is reported before an unknown one: a misspelt name is both, and the schema's
    // spelling is the one known.
    for column in columns().filter(|column| needed(column, unlabelled)) {
        if !header.contains(&column.name) {
            let nearest = nearest(&column.name, header.iter().map(String::as_str));
            return Err(DataError::HeaderLacks {
                file: file(),
                column: column.name.clone(),
                nearest,
            });
        }
    }
    for found in header {
        let position =
            schema.columns().iter().position(|column| !column.derived && column.name == *found);
        if position.is_none() && !unlabelled {
            let nearest = nearest(found, columns().map(|column| column.name.as_str()));
            return Err(DataError::HeaderUnknown { file: file(), column: found.clone(), nearest });
        }
        if position.is_some() && !seen.insert(position) {
            return Err(DataError::HeaderTwice { file: file(), column: found.clone() });
        }
        order.push(position);
    }
    Ok(order)
}

/// The records of a file, with their line numbers.
struct Lines<'a> {
    reader: Reader<Box<dyn Read + 'a>>,
    open: &'a dyn Fn() -> io::Result<Box<dyn Read + 'a>>,
    file: &'a str,
    format: &'a Format,
    delimiter: char,
}

impl<'a> Lines<'a> {
    fn new(
        open: &'a dyn Fn() -> io::Result<Box<dyn Read + 'a>>,
        file: &'a str,
        format: &'a Format,
        reading: Reading,
    ) -> Result<Self, DataError> {
        let text = open().map_err(|source| DataError::Read { file: file.to_owned(), source })?;
        let reader = cutter(text, reading.delimiter, reading.quote, format.comment);
        Ok(Self { reader, open, file, format, delimiter: reading.delimiter })
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
                    delimiter: self.delimiter,
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

    /// The line a record starts on, from 1. The reader's own position is where the record before
    /// ended: blank lines, comments and the second half of CRLF still lie between, so the line is
    /// counted from the bytes. Only messages need it.
    fn line_of(&self, record: &ByteRecord) -> u64 {
        let start = record.position().map_or(0, ::csv::Position::byte);
        let Ok(text) = (self.open)() else { return 0 };
        let (mut line, mut comment) = (1, false);
        let bytes = io::BufReader::with_capacity(1 << 16, text).bytes().map_while(Result::ok);
        for (at, byte) in (0..).zip(bytes) {
            line += u64::from(byte == b'\n');
            if at < start {
                continue;
            }
            let ends = matches!(byte, b'\n' | b'\r');
            comment =
                if comment { byte != b'\n' } else { Some(char::from(byte)) == self.format.comment };
            if !ends && !comment {
                return line;
            }
        }
        line
    }
}
