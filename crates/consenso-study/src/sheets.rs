//! Spreadsheets, Parquet and Arrow files as the CSV that everything else reads, where the crate was
//! built with the feature for them.

/// Why a table of another program cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SheetError {
    /// It is damaged, or written in a way that is not known here.
    #[error("is no {what} ({cause}); export {part} as CSV")]
    Unreadable {
        /// The kind of file it should be.
        what: &'static str,
        /// What its reader says.
        cause: Box<dyn std::error::Error + Send + Sync>,
        /// What to export.
        part: &'static str,
    },
    /// A workbook whose sheets are all empty.
    #[error("has no sheet with records")]
    NoSheet,
    /// A workbook in which more than one sheet is filled.
    #[error("has several sheets ({}); export the one with the records as CSV", .0.join(", "))]
    SeveralSheets(Vec<String>),
}

/// The bytes of a file of records as text: those of a workbook (feature `xlsx`), of a Parquet file
/// (feature `parquet`) or of an Arrow file or stream (feature `arrow`) as CSV, all others as they
/// are; what was not built in is named by whoever reads the text. Also says which kind of file it
/// was.
///
/// # Errors
/// [`SheetError`]: what is wrong with such a file.
pub(crate) fn as_text(bytes: Vec<u8>) -> Result<(Vec<u8>, Option<&'static str>), SheetError> {
    match &bytes[..] {
        #[cfg(feature = "xlsx")]
        [b'P', b'K', 3, 4, ..] | [0xd0, 0xcf, 0x11, 0xe0, ..] => {
            Ok((workbook(&bytes)?, Some("workbook")))
        }
        #[cfg(feature = "parquet")]
        [b'P', b'A', b'R', b'1', ..] => Ok((parquet(bytes)?, Some("Parquet"))),
        #[cfg(feature = "arrow")]
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [0xff, 0xff, 0xff, 0xff, ..] => {
            Ok((arrow(&bytes)?, Some("Arrow")))
        }
        _ => Ok((bytes, None)),
    }
}

/// Lines of quoted cells.
#[cfg(any(feature = "xlsx", feature = "parquet", feature = "arrow"))]
#[derive(Default)]
struct Lines(Vec<u8>);

#[cfg(any(feature = "xlsx", feature = "parquet", feature = "arrow"))]
impl Lines {
    fn add(&mut self, cells: impl Iterator<Item = String>) {
        for (index, cell) in cells.enumerate() {
            if index > 0 {
                self.0.push(b',');
            }
            if cell.contains([',', '"', '\n', '\r']) {
                self.0.extend_from_slice(format!("\"{}\"", cell.replace('"', "\"\"")).as_bytes());
            } else {
                self.0.extend_from_slice(cell.as_bytes());
            }
        }
        self.0.push(b'\n');
    }
}

/// The only sheet, or the first one if all others are empty.
#[cfg(feature = "xlsx")]
fn workbook(bytes: &[u8]) -> Result<Vec<u8>, SheetError> {
    use calamine::{Data, Reader as _};
    let wrong = |cause: calamine::Error| SheetError::Unreadable {
        what: "workbook that can be read",
        cause: cause.into(),
        part: "the sheet",
    };
    let mut book =
        calamine::open_workbook_auto_from_rs(std::io::Cursor::new(bytes)).map_err(wrong)?;
    let mut filled = Vec::new();
    for name in book.sheet_names() {
        let range = book.worksheet_range(&name).map_err(wrong)?;
        if !range.is_empty() {
            filled.push((name, range));
        }
    }
    let [(_, range)] = &filled[..] else {
        return Err(match filled.is_empty() {
            true => SheetError::NoSheet,
            false => SheetError::SeveralSheets(filled.into_iter().map(|(name, _)| name).collect()),
        });
    };
    let cell = |cell: &Data| match cell {
        Data::Empty | Data::Error(_) => String::new(),
        Data::Int(number) => number.to_string(),
        Data::Float(number) => number.to_string(),
        Data::Bool(truth) => truth.to_string(),
        Data::String(text) | Data::DateTimeIso(text) | Data::DurationIso(text) => text.clone(),
        Data::DateTime(time) if time.is_duration() => time.as_f64().to_string(),
        Data::DateTime(time) => match time.to_ymd_hms_milli() {
            (year, month, day, 0, 0, 0, _) => format!("{year:04}-{month:02}-{day:02}"),
            (year, month, day, hour, minute, second, _) => {
                format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
            }
        },
    };
    let mut lines = Lines::default();
    range.rows().for_each(|row| lines.add(row.iter().map(cell)));
    Ok(lines.0)
}

#[cfg(feature = "parquet")]
fn parquet(bytes: Vec<u8>) -> Result<Vec<u8>, SheetError> {
    use parquet::basic::{LogicalType, TimeUnit};
    use parquet::errors::ParquetError;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    let wrong = |cause: ParquetError| SheetError::Unreadable {
        what: "Parquet file that can be read",
        cause: cause.into(),
        part: "it",
    };
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(wrong)?;
    let columns = reader.metadata().file_metadata().schema_descr();
    let mut lines = Lines::default();
    lines.add((0..columns.num_columns()).map(|k| columns.column(k).name().to_owned()));
    // Nanoseconds are handed over as numbers.
    let nanoseconds: Vec<bool> = (0..columns.num_columns())
        .map(|k| match columns.column(k).logical_type_ref() {
            Some(LogicalType::Timestamp(time)) => time.unit == TimeUnit::NANOS,
            _ => false,
        })
        .collect();
    let cell = |(k, field): (usize, &Field)| match field {
        Field::Long(time) if nanoseconds.get(k) == Some(&true) => {
            moment(time.div_euclid(1_000_000_000))
        }
        Field::TimestampMillis(time) => moment(time.div_euclid(1000)),
        Field::TimestampMicros(time) => moment(time.div_euclid(1_000_000)),
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        // Rust writes the shortest digits that read back as the same number.
        Field::Float(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        Field::Date(days) => consenso_engine::data::Day::of(i64::from(*days)).to_string(),
        other => other.to_string(),
    };
    for row in reader.get_row_iter(None).map_err(wrong)? {
        let row = row.map_err(wrong)?;
        lines.add(row.get_column_iter().map(|(_, field)| field).enumerate().map(cell));
    }
    Ok(lines.0)
}

/// A file with its footer (`.arrow`, `.feather`), or a stream.
#[cfg(feature = "arrow")]
fn arrow(bytes: &[u8]) -> Result<Vec<u8>, SheetError> {
    use arrow_array::{Array as _, RecordBatch};
    use arrow_cast::display::{ArrayFormatter, FormatOptions};
    use arrow_ipc::reader::{FileReader, StreamReader};
    fn wrong(cause: impl std::error::Error + Send + Sync + 'static) -> SheetError {
        let what = "Arrow file that can be read, lz4 or uncompressed";
        SheetError::Unreadable { what, cause: cause.into(), part: "it" }
    }
    let input = std::io::Cursor::new(bytes);
    let (schema, batches): (_, Box<dyn Iterator<Item = Result<RecordBatch, _>>>) =
        match bytes.first() {
            Some(b'A') => {
                let reader = FileReader::try_new(input, None).map_err(wrong)?;
                (reader.schema(), Box::new(reader))
            }
            _ => {
                let reader = StreamReader::try_new(input, None).map_err(wrong)?;
                (reader.schema(), Box::new(reader))
            }
        };
    let mut lines = Lines::default();
    lines.add(schema.fields().iter().map(|field| field.name().clone()));
    let options = FormatOptions::new();
    for batch in batches {
        let batch = batch.map_err(wrong)?;
        let columns: Vec<ArrayFormatter<'_>> = (batch.columns().iter())
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<_, _>>()
            .map_err(wrong)?;
        for row in 0..batch.num_rows() {
            let cells = columns.iter().zip(batch.columns()).map(|(shown, column)| {
                match column.is_null(row) {
                    true => String::new(),
                    false => shown.value(row).to_string(),
                }
            });
            lines.add(cells);
        }
    }
    Ok(lines.0)
}

/// Seconds since 1970-01-01: the day alone at midnight, as workbooks and Arrow files show it.
#[cfg(feature = "parquet")]
fn moment(seconds: i64) -> String {
    let (day, of_day) = (
        consenso_engine::data::Day::of(seconds.div_euclid(86_400)).to_string(),
        seconds.rem_euclid(86_400),
    );
    match of_day {
        0 => day,
        _ => format!("{day}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60),
    }
}
