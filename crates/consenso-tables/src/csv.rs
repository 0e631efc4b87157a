//! Records from CSV.

use std::collections::HashSet;
use std::io::{self, Read};
use std::sync::{Mutex, PoisonError};

use super::cells::Cells;
use super::cut::{Block, Cut, Cutter, Order, Record, Work, in_blocks};
use super::error::nearest;
use super::format::{DELIMITERS, Marks, as_it_is, decode, sample, sniff_delimiter, sniff_quote};
use super::table::{Builder, Cell, Persons, Plan, kept_some};
use super::{
    Column, DataError, Format, Kind, Label, Reading, Schema, Table, TextEncoding, Unknown,
};

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
/// use consenso_tables::{Column, Format, Kind, Label, Schema, csv};
/// let age = Column::new("age", Kind::Numeric { min: 0.0, max: 120.0 });
/// let ill = Column::new("ill", Kind::Label(Label::Classes(vec!["no".into(), "yes".into()])));
/// let schema = Schema::new(vec![age, ill], Format::default(), true)?;
/// let table = csv::read("age,ill\n40,no\n130,yes\n?,no\n".as_bytes(), "site.csv", &schema)?;
/// assert_eq!((table.len(), table.labels()), (2, &[-1.0, 1.0][..]));
/// assert_eq!((table.report().dropped_missing, table.report().clamped["age"]), (1, 1));
/// # Ok::<(), consenso_tables::DataError>(())
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
    load(reader, file, schema, format, None)
}

/// Reads records to predict: the label may be absent, and is NaN then; so may be the site and the
/// person, which are left out. Columns that the schema does not know are skipped; `unknown` says
/// what becomes of categories that it does not know.
///
/// # Errors
/// As [`read`].
pub fn read_unlabelled(
    reader: impl Read,
    file: &str,
    schema: &Schema,
    format: &Format,
    unknown: Unknown,
) -> Result<Table, DataError> {
    load(reader, file, schema, format, Some(unknown))
}

/// Opens a text at its beginning, as often as it is called.
pub type Open<'a> = dyn Fn() -> io::Result<Box<dyn Read + 'a>> + Sync + 'a;

/// Reads records as [`read_as`] does from a file that `open` opens, without holding its text; where
/// `new` says what becomes of unknown categories, as [`read_unlabelled`] does. Text that is not
/// UTF-8 is decoded in memory first.
///
/// # Errors
/// As [`read`].
pub fn read_opened(
    open: &Open<'_>,
    file: &str,
    schema: &Schema,
    format: &Format,
    new: Option<Unknown>,
) -> Result<Table, DataError> {
    opened(open, file, format, |text| {
        let mut whole = Whole::default();
        Source { text, schema, new }.load(&as_table, &mut whole)?;
        Ok(whole.table.expect("a file without records is refused"))
    })
}

/// Reads the cells of these columns of a file of new records as they are written, record after
/// record, whatever the schema makes of them: names and numbers that predictions are handed on with.
///
/// # Errors
/// As [`read`], and [`DataError::NoSuchColumn`].
pub fn read_texts(
    open: &Open<'_>,
    file: &str,
    schema: &Schema,
    format: &Format,
    names: &[String],
) -> Result<Vec<String>, DataError> {
    opened(open, file, format, |text| {
        Source { text, schema, new: Some(Unknown::Ignore) }.texts(names)
    })
}

fn load(
    reader: impl Read,
    file: &str,
    schema: &Schema,
    format: &Format,
    new: Option<Unknown>,
) -> Result<Table, DataError> {
    in_memory(reader, file, format, |text| {
        let mut whole = Whole::default();
        Source { text, schema, new }.load(&as_table, &mut whole)?;
        Ok(whole.table.expect("a file without records is refused"))
    })
}

/// Reads records as [`read_as`] does and hands them on in pieces of some thousands, so that they
/// need not be held. Each piece tells what happened to its records. `open` opens the file at its
/// beginning, as often as it is called. Text in UTF-8 is read as it is needed; any other is decoded
/// in memory first.
///
/// Decimal commas are found out from the first piece only.
///
/// # Errors
/// As [`read`], and what `take` answers.
pub fn read_in_pieces(
    open: &Open<'_>,
    file: &str,
    schema: &Schema,
    format: &Format,
    take: &mut dyn FnMut(Table) -> Result<(), DataError>,
) -> Result<(), DataError> {
    opened(open, file, format, |text| {
        let mut pieces = Pieces { read: 0, taken: false, take };
        Source { text, schema, new: None }.load(&as_table, &mut pieces)
    })
}

/// Where the pieces of a file go.
trait Sink<T> {
    /// Takes the next piece, of so many records before any were dropped.
    fn take(&mut self, read: u64, piece: T) -> Result<(), DataError>;

    /// Whether the file can be read again from its beginning: what was taken is forgotten then.
    fn again(&mut self) -> bool;
}

fn as_table(table: Table) -> Table {
    table
}

/// All pieces as one table.
#[derive(Default)]
struct Whole {
    read: u64,
    table: Option<Table>,
}

impl Sink<Table> for Whole {
    fn take(&mut self, read: u64, piece: Table) -> Result<(), DataError> {
        match &mut self.table {
            Some(table) => table.extend(&piece, self.read),
            None => self.table = Some(piece),
        }
        self.read += read;
        Ok(())
    }

    fn again(&mut self) -> bool {
        *self = Self::default();
        true
    }
}

struct Pieces<'a> {
    read: u64,
    taken: bool,
    take: &'a mut dyn FnMut(Table) -> Result<(), DataError>,
}

impl Sink<Table> for Pieces<'_> {
    fn take(&mut self, read: u64, piece: Table) -> Result<(), DataError> {
        self.taken = true;
        let first = self.read;
        self.read += read;
        (self.take)(piece.numbered_from(first))
    }

    fn again(&mut self) -> bool {
        !self.taken
    }
}

/// Bytes of a file that show how it is written.
const HEAD: u64 = 1 << 20;

/// The text of a file, in UTF-8 as far as it is text.
struct FileText<'a> {
    open: &'a Open<'a>,
    file: &'a str,
    format: &'a Format,
    encoding: TextEncoding,
    /// How it begins.
    head: &'a [u8],
    /// Whether that is all of it.
    short: bool,
}

/// Calls `with` with the text of a file that can be opened again.
fn opened<T>(
    open: &Open<'_>,
    file: &str,
    format: &Format,
    with: impl FnOnce(FileText<'_>) -> Result<T, DataError>,
) -> Result<T, DataError> {
    format.check()?;
    let failed = |source| DataError::Read { file: file.to_owned(), source };
    let mut head = Vec::new();
    open().and_then(|opened| opened.take(HEAD).read_to_end(&mut head)).map_err(failed)?;
    let Some(mark) = as_it_is(&head, format.encoding) else {
        return in_memory(open().map_err(failed)?, file, format, with);
    };
    let after_mark = || {
        let mut opened = open()?;
        opened.read_exact(&mut [0; 3][..mark])?;
        Ok(opened)
    };
    let (encoding, short) = (TextEncoding::Utf8, (head.len() as u64) < HEAD);
    with(FileText { open: &after_mark, file, format, encoding, head: &head[mark..], short })
}

/// Calls `with` with the text of a file, decoded in memory.
fn in_memory<T>(
    reader: impl Read,
    file: &str,
    format: &Format,
    with: impl FnOnce(FileText<'_>) -> Result<T, DataError>,
) -> Result<T, DataError> {
    format.check()?;
    let decoded = decode(reader, file, format.encoding)?;
    let text = &decoded.text[..];
    let open = || -> io::Result<Box<dyn Read>> { Ok(Box::new(text)) };
    let (encoding, head) = (decoded.encoding, &text[..text.len().min(HEAD as usize)]);
    let short = head.len() == text.len();
    with(FileText { open: &open, file, format, encoding, head, short })
}

impl FileText<'_> {
    fn failed(&self, source: io::Error) -> DataError {
        DataError::Read { file: self.file.to_owned(), source }
    }

    fn cutter(&self, reading: &Reading) -> Cutter {
        Cutter::new(reading.delimiter, reading.quote, self.format.comment)
    }

    /// The cells of the first record that is not blank, and where it ends.
    fn first(&self, cutter: &Cutter) -> Result<Option<(Vec<String>, u64)>, DataError> {
        let mut reader = (self.open)().map_err(|e| self.failed(e))?;
        let (mut text, mut record, mut more) = (Vec::new(), Record::default(), 1 << 16);
        loop {
            let read = (&mut reader).take(more).read_to_end(&mut text);
            let ended = (read.map_err(|e| self.failed(e))? as u64) < more;
            let mut at = 0;
            while let Cut::Record(end) = cutter.next(&text, at, ended, &mut record) {
                at = end;
                if !record.is_blank(&text) {
                    let name = |cell: &[u8]| String::from_utf8_lossy(cell).into_owned();
                    return Ok(Some((record.cells(&text).map(name).collect(), end as u64)));
                }
            }
            if ended {
                return Ok(None);
            }
            more *= 2;
        }
    }

    /// The names of the columns, and where they end.
    fn header(&self, cutter: &Cutter) -> Result<(Vec<String>, u64), DataError> {
        let empty = || DataError::Empty { file: self.file.to_owned(), header: true };
        self.first(cutter)?.ok_or_else(empty)
    }

    /// Works on the records after byte `from`.
    fn work<W: Work>(
        &self,
        reading: &Reading,
        from: u64,
        order: Order,
        work: &W,
        take: impl FnMut(W::Done) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let mut reader = (self.open)().map_err(|e| self.failed(e))?;
        in_blocks(&mut *reader, &self.cutter(reading), from, order, self.file, work, take)
    }

    /// Whether a record counts, as blank lines do not; refuses one that has not `expected` cells.
    fn counts(
        &self,
        block: &Block<'_>,
        record: &Record,
        expected: usize,
        delimiter: char,
    ) -> Result<bool, DataError> {
        if record.len() == expected && expected != 1 {
            return Ok(true);
        }
        if expected != 1 && record.is_blank(block.text.bytes()) {
            return Ok(false);
        }
        if record.len() == expected {
            return Ok(true);
        }
        Err(DataError::Ragged {
            file: self.file.to_owned(),
            line: self.line_at(block.position(record)),
            found: record.len(),
            expected,
            delimiter,
        })
    }

    /// The text of a cell, unless it is not UTF-8.
    #[inline]
    fn cell<'r>(
        &self,
        block: &Block<'r>,
        record: &'r Record,
        index: usize,
        column: impl FnOnce() -> String,
    ) -> Result<&'r str, DataError> {
        record.cell(block.text, index).ok_or_else(|| DataError::NotText {
            file: self.file.to_owned(),
            line: self.line_at(block.position(record)),
            column: column(),
        })
    }

    /// The line of a byte, from 1. Only messages need it, so it is counted when one does.
    fn line_at(&self, position: u64) -> u64 {
        let Ok(mut text) = (self.open)() else { return 0 };
        let (mut line, mut left, mut buffer) = (1, position, vec![0; 1 << 16]);
        while left > 0 {
            let most = left.min(buffer.len() as u64) as usize;
            let Ok(read @ 1..) = text.read(&mut buffer[..most]) else { return line };
            line += buffer[..read].iter().filter(|&&byte| byte == b'\n').count() as u64;
            left -= read as u64;
        }
        line
    }
}

/// A file about to be read under a schema.
struct Source<'t, 's> {
    text: FileText<'t>,
    schema: &'s Schema,
    /// What becomes of unknown categories, if these are new records to predict.
    new: Option<Unknown>,
}

impl Source<'_, '_> {
    /// Hands on all records in pieces; `finish` is called on the thread that made one.
    fn load<T: Send>(
        &self,
        finish: &(impl Fn(Table) -> T + Sync),
        sink: &mut impl Sink<T>,
    ) -> Result<(), DataError> {
        let format = self.text.format;
        let reading = self.reading();
        match self.fill(reading, finish, sink) {
            // What can only be read with a decimal comma is, unless somebody said otherwise.
            Err(error @ DataError::NotANumber { .. })
                if format.decimal.is_none() && sink.again() =>
            {
                match self.marks(&reading)?.certain() {
                    Some((decimal, thousands))
                        if (decimal, thousands) != (reading.decimal, reading.thousands) =>
                    {
                        let thousands = format.thousands.or(thousands);
                        self.fill(Reading { decimal, thousands, ..reading }, finish, sink)
                    }
                    _ => Err(error),
                }
            }
            other => other,
        }
    }

    /// How the file is written, as far as that is known or its beginning shows.
    fn reading(&self) -> Reading {
        let format = self.text.format;
        let reading = Reading {
            delimiter: ',',
            quote: format.quote.unwrap_or('"'),
            decimal: format.decimal.unwrap_or('.'),
            thousands: format.thousands,
            encoding: self.text.encoding,
            compression: None,
        };
        Reading { delimiter: self.fitting_delimiter(&reading), ..reading }
    }

    /// The cells of these columns as they are written, record after record.
    fn texts(&self, names: &[String]) -> Result<Vec<String>, DataError> {
        let reading = self.reading();
        let (header, from) = self.text.header(&self.text.cutter(&reading))?;
        let place = |name: &String| {
            header.iter().position(|found| found == name).ok_or_else(|| DataError::NoSuchColumn {
                file: self.text.file.to_owned(),
                column: name.clone(),
                nearest: nearest(name, header.iter().map(String::as_str)),
            })
        };
        let places = names.iter().map(place).collect::<Result<_, _>>()?;
        let delimiter = reading.delimiter;
        let copying = Copying { text: &self.text, names, places, width: header.len(), delimiter };
        let mut all = Vec::new();
        self.text.work(&reading, from, Order::InOrder, &copying, |cells| {
            all.extend(cells);
            Ok(())
        })?;
        Ok(all)
    }

    /// The column of the schema at each position of the file, and where the records begin.
    fn order(&self, reading: &Reading) -> Result<(Vec<Option<usize>>, u64), DataError> {
        let cutter = self.text.cutter(reading);
        if self.text.format.header {
            let (names, end) = self.text.header(&cutter)?;
            return Ok((
                match_header(&names, self.text.file, self.schema, self.new.is_some())?,
                end,
            ));
        }
        let columns =
            || self.schema.columns().iter().enumerate().filter(|(_, column)| !column.derived);
        // Without names a file has no labels if its first record is one cell short.
        let first = || self.text.first(&cutter);
        let short = self.new.is_some()
            && first()?.is_some_and(|(cells, _)| cells.len() + 1 == columns().count());
        let absent = |column: &Column| short && matches!(column.kind, Kind::Label(_));
        let order =
            columns().filter(|(_, column)| !absent(column)).map(|(index, _)| Some(index)).collect();
        Ok((order, 0))
    }

    fn fill<T: Send>(
        &self,
        reading: Reading,
        finish: &(impl Fn(Table) -> T + Sync),
        sink: &mut impl Sink<T>,
    ) -> Result<(), DataError> {
        let (order, from) = self.order(&reading)?;
        let plan = Plan::new(self.schema, self.text.file, Some(reading)).of_new(self.new);
        let columns = self.schema.columns();
        let words = |column: &Option<usize>| {
            let own = column.map_or(&[][..], |column| &columns[column].missing_words[..]);
            self.text.format.missing.iter().chain(own).map(String::as_str).collect()
        };
        let mut places = vec![0; columns.len()];
        for (place, column) in order.iter().enumerate() {
            column.iter().for_each(|&column| places[column] = place);
        }
        let loading = Loading {
            text: &self.text,
            plan: &plan,
            schema: self.schema,
            missing: order.iter().map(words).collect(),
            delimiter: reading.delimiter,
            order,
            places,
            persons: Mutex::default(),
            finish,
        };
        let order = if plan.counts_persons() { Order::InOrder } else { Order::AnyOrder };
        let (mut read, mut kept) = (0, 0);
        self.text.work(&reading, from, order, &loading, |(records, rows, piece)| {
            read += records;
            kept += rows;
            sink.take(records, piece)
        })?;
        kept_some(read, kept, self.text.file, self.schema)
    }

    /// What the cells of the numeric columns say about decimal and thousands marks.
    fn marks(&self, reading: &Reading) -> Result<Marks, DataError> {
        let (order, from) = self.order(reading)?;
        let number = |column: &Column| {
            let kind = matches!(
                column.kind,
                Kind::Numeric { .. }
                    | Kind::Time { .. }
                    | Kind::Exposure { .. }
                    | Kind::Frequency { .. }
                    | Kind::Label(Label::Range { .. })
            );
            kind && column.date.is_none()
        };
        let column =
            |index: &Option<usize>| index.is_some_and(|i| number(&self.schema.columns()[i]));
        let (numbers, delimiter) = (order.iter().map(column).collect(), reading.delimiter);
        let marking = Marking { text: &self.text, numbers, delimiter };
        let mut marks = Marks::default();
        self.text.work(reading, from, Order::AnyOrder, &marking, |own| {
            marks.merge(&own);
            Ok(())
        })?;
        Ok(marks)
    }

    /// The delimiter the format names, unless another one cuts the header into the columns of the
    /// schema and this one does not.
    fn fitting_delimiter(&self, reading: &Reading) -> char {
        let (format, schema) = (self.text.format, self.schema);
        let first = |delimiter| {
            let cutter = Cutter::new(delimiter, reading.quote, format.comment);
            sample(self.text.head, self.text.short, &cutter, 1).into_iter().next()
        };
        let present = |column: &&Column| !column.derived && needed(column, self.new.is_some());
        let fits = |delimiter: char| {
            let Some(record) = first(delimiter) else { return false };
            if !format.header {
                return record.len()
                    == schema.columns().iter().filter(|column| !column.derived).count();
            }
            let cells: HashSet<&[u8]> = record.iter().map(Vec::as_slice).collect();
            let found = |column: &Column| cells.contains(column.name.as_bytes());
            schema.columns().iter().filter(present).all(found)
        };
        let said = format.delimiter.unwrap_or(',');
        if format.delimiter.is_some() && !format.header || fits(said) {
            return said;
        }
        DELIMITERS.into_iter().chain([' ']).find(|&delimiter| fits(delimiter)).unwrap_or(said)
    }
}

/// Makes tables of the records of blocks.
struct Loading<'a, 't, F> {
    text: &'a FileText<'t>,
    plan: &'a Plan<'a>,
    schema: &'a Schema,
    /// The column of the schema by place in the file, and the place by column.
    order: Vec<Option<usize>>,
    places: Vec<usize>,
    /// What means "unknown", by place in the file.
    missing: Vec<Vec<&'a str>>,
    delimiter: char,
    persons: Mutex<Persons>,
    finish: &'a F,
}

impl<'a, T: Send, F: Fn(Table) -> T + Sync> Work for Loading<'a, '_, F> {
    type Piece = (Builder<'a>, Vec<bool>);
    /// Records read and kept, and what became of them.
    type Done = (u64, u64, T);

    fn begin(&self) -> Self::Piece {
        let mut builder = Builder::new(self.plan);
        // Blocks that count persons come one after the other.
        let mut persons = self.persons.lock().unwrap_or_else(PoisonError::into_inner);
        builder.persons = std::mem::take(&mut *persons);
        (builder, vec![false; self.places.len()])
    }

    fn add(
        &self,
        (builder, known): &mut Self::Piece,
        block: &Block<'_>,
        record: &Record,
    ) -> Result<(), DataError> {
        if !self.text.counts(block, record, self.order.len(), self.delimiter)? {
            return Ok(());
        }
        known.fill(false);
        for (place, (column, missing)) in self.order.iter().zip(&self.missing).enumerate() {
            let Some(column) = *column else { continue };
            let name = || self.schema.columns()[column].name.clone();
            let cell = self.text.cell(block, record, place, name)?;
            known[column] = !missing.contains(&cell);
        }
        let text = |column: usize| record.cell(block.text, self.places[column]).unwrap_or_default();
        let cell = |column: usize| Cell::Text(text(column));
        builder.push(known, cell, || self.text.line_at(block.position(record)))
    }

    fn end(&self, (mut builder, _): Self::Piece) -> Self::Done {
        let mut persons = self.persons.lock().unwrap_or_else(PoisonError::into_inner);
        *persons = std::mem::take(&mut builder.persons);
        drop(persons);
        let (read, table) = builder.piece();
        (read, table.report().rows, (self.finish)(table))
    }
}

/// Adds up what cells say about decimal and thousands marks.
struct Marking<'a, 't> {
    text: &'a FileText<'t>,
    /// Whether there are numbers, by place in the file.
    numbers: Vec<bool>,
    delimiter: char,
}

impl Work for Marking<'_, '_> {
    type Piece = Marks;
    type Done = Marks;

    fn begin(&self) -> Marks {
        Marks::default()
    }

    fn add(&self, marks: &mut Marks, block: &Block<'_>, record: &Record) -> Result<(), DataError> {
        if self.text.counts(block, record, self.numbers.len(), self.delimiter)? {
            for place in (0..record.len()).filter(|&place| self.numbers[place]) {
                if let Some(cell) = record.cell(block.text, place)
                    && !self.text.format.missing.iter().any(|mark| mark == cell)
                {
                    marks.add(cell, 1);
                }
            }
        }
        Ok(())
    }

    fn end(&self, marks: Marks) -> Marks {
        marks
    }
}

/// Copies the cells of some columns.
struct Copying<'a, 't> {
    text: &'a FileText<'t>,
    names: &'a [String],
    places: Vec<usize>,
    width: usize,
    delimiter: char,
}

impl Work for Copying<'_, '_> {
    type Piece = Vec<String>;
    type Done = Vec<String>;

    fn begin(&self) -> Vec<String> {
        Vec::new()
    }

    fn add(
        &self,
        cells: &mut Vec<String>,
        block: &Block<'_>,
        record: &Record,
    ) -> Result<(), DataError> {
        if self.text.counts(block, record, self.width, self.delimiter)? {
            for (&place, name) in self.places.iter().zip(self.names) {
                cells.push(self.text.cell(block, record, place, || name.clone())?.to_owned());
            }
        }
        Ok(())
    }

    fn end(&self, cells: Vec<String>) -> Vec<String> {
        cells
    }
}

/// Whether a file must have a column.
fn needed(column: &Column, unlabelled: bool) -> bool {
    column.kind != Kind::Ignored && (column.kind.is_feature() || !unlabelled)
}

/// The columns of a file, for drafting a schema.
pub(super) struct Columns {
    pub(super) names: Vec<String>,
    pub(super) cells: Vec<Cells>,
    pub(super) reading: Reading,
    /// What deserves a warning about decimal and thousands marks.
    pub(super) warning: Option<String>,
}

/// Reads the columns of a file. What the format leaves open is found out.
pub(super) fn read_columns(
    reader: impl Read,
    file: &str,
    format: &Format,
) -> Result<Columns, DataError> {
    in_memory(reader, file, format, |text| text.columns())
}

/// Reads the columns of a file that `open` opens, as [`read_columns`] does, without holding its
/// text.
pub(super) fn read_columns_opened(
    open: &Open<'_>,
    file: &str,
    format: &Format,
) -> Result<Columns, DataError> {
    opened(open, file, format, |text| text.columns())
}

impl FileText<'_> {
    fn columns(&self) -> Result<Columns, DataError> {
        let (format, head) = (self.format, self.head);
        let quote = format.quote.unwrap_or_else(|| sniff_quote(head));
        let sniffed = || sniff_delimiter(head, self.short, quote, format.comment);
        let reading = Reading {
            delimiter: format.delimiter.unwrap_or_else(sniffed),
            quote,
            decimal: format.decimal.unwrap_or('.'),
            thousands: format.thousands,
            encoding: self.encoding,
            compression: None,
        };
        let cutter = self.cutter(&reading);
        let empty = || DataError::Empty { file: self.file.to_owned(), header: format.header };
        let (names, from) = if format.header {
            self.header(&cutter)?
        } else {
            let width = self.first(&cutter)?.ok_or_else(empty)?.0.len();
            ((1..=width).map(|number| format!("column-{number}")).collect(), 0)
        };
        // Which cells are numbers depends on the marks, and the marks on the cells: how the file
        // begins is a first guess, and a wrong one is read again.
        let said = format.decimal.is_some() || format.thousands.is_some();
        let marks = |cells: &[Cells]| Cells::marks(cells).likeliest(reading.delimiter);
        let tally = |tallying: &Tallying<'_, '_>, text: &mut dyn Read| {
            let mut all: Vec<Cells> = names.iter().map(|_| Cells::default()).collect();
            let take = |block: Vec<Cells>| {
                all.iter_mut().zip(block).for_each(|(all, block)| all.merge(block));
                Ok(())
            };
            in_blocks(text, &cutter, from, Order::AnyOrder, self.file, tallying, take)?;
            Ok::<_, DataError>(all)
        };
        let mut tallying = Tallying { text: self, names: &names, reading };
        let whole_lines = head.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        if !said && let Ok(cells) = tally(&tallying, &mut &head[..whole_lines]) {
            (tallying.reading.decimal, tallying.reading.thousands) = marks(&cells).0;
        }
        let open = || (self.open)().map_err(|e| self.failed(e));
        let mut cells = tally(&tallying, &mut *open()?)?;
        let (found, warning) = marks(&cells);
        if !said && found != (tallying.reading.decimal, tallying.reading.thousands) {
            (tallying.reading.decimal, tallying.reading.thousands) = found;
            cells = tally(&tallying, &mut *open()?)?;
        }
        if cells.iter().all(|cells| cells.known == 0) {
            return Err(empty());
        }
        let reading = tallying.reading;
        Ok(Columns { names, cells, reading, warning: warning.filter(|_| !said) })
    }
}

/// Counts what the columns hold.
struct Tallying<'a, 't> {
    text: &'a FileText<'t>,
    names: &'a [String],
    reading: Reading,
}

impl Work for Tallying<'_, '_> {
    type Piece = Vec<Cells>;
    type Done = Vec<Cells>;

    fn begin(&self) -> Vec<Cells> {
        self.names.iter().map(|_| Cells::default()).collect()
    }

    fn add(
        &self,
        columns: &mut Vec<Cells>,
        block: &Block<'_>,
        record: &Record,
    ) -> Result<(), DataError> {
        if !self.text.counts(block, record, columns.len(), self.reading.delimiter)? {
            return Ok(());
        }
        for (place, column) in columns.iter_mut().enumerate() {
            let cell = self.text.cell(block, record, place, || self.names[place].clone())?;
            if self.text.format.missing.iter().any(|mark| mark == cell) {
                column.missing += 1;
            } else {
                column.add(cell, &self.reading);
            }
        }
        Ok(())
    }

    fn end(&self, columns: Vec<Cells>) -> Vec<Cells> {
        columns
    }
}

/// The position in the schema of each column of the header; `None` for one that is skipped.
pub(super) fn match_header(
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
