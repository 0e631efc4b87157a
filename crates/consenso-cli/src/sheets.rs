//! Spreadsheets and Parquet files as the CSV that everything else reads, where the program was built with the feature for them.

use anyhow::Result;
use std::path::Path;

/// The bytes of a file of records as text: those of a workbook (`--features xlsx`) or of a Parquet file (`--features parquet`) as CSV, all
/// others as they are; a file that this program was not built for is named by whoever reads the text.
pub(crate) fn as_text(path: &Path, bytes: Vec<u8>) -> Result<Vec<u8>> {
    match &bytes[..] {
        #[cfg(feature = "xlsx")]
        [b'P', b'K', 3, 4, ..] | [0xd0, 0xcf, 0x11, 0xe0, ..] => workbook(path, &bytes),
        #[cfg(feature = "parquet")]
        [b'P', b'A', b'R', b'1', ..] => parquet(path),
        _ => {
            let _ = path;
            Ok(bytes)
        }
    }
}

/// Lines of quoted cells.
#[cfg(any(feature = "xlsx", feature = "parquet"))]
#[derive(Default)]
struct Lines(Vec<u8>);

#[cfg(any(feature = "xlsx", feature = "parquet"))]
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

#[cfg(feature = "xlsx")]
fn workbook(path: &Path, bytes: &[u8]) -> Result<Vec<u8>> {
    use anyhow::{Context as _, bail};
    use calamine::{Data, Reader as _};
    let name = path.display();
    let mut book = calamine::open_workbook_auto_from_rs(std::io::Cursor::new(bytes)).with_context(|| {
        format!("{name}: is no workbook that can be read; export the sheet as CSV (UTF-8)")
    })?;
    let sheets = book.sheet_names();
    let Some(first) = sheets.first().cloned() else { bail!("{name}: has no sheet") };
    if sheets.len() > 1 {
        eprintln!("note: {name}: the first of its {} sheets is read, \"{first}\"", sheets.len());
    }
    let range = book.worksheet_range(&first).with_context(|| format!("{name}: sheet \"{first}\""))?;
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
fn parquet(path: &Path) -> Result<Vec<u8>> {
    use anyhow::Context as _;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    let name = path.display();
    let file = std::fs::File::open(path).with_context(|| format!("{name}: cannot be read"))?;
    let wrong = || {
        format!("{name}: is no Parquet file that can be read (snappy or no compression); export it as CSV")
    };
    let reader = SerializedFileReader::new(file).with_context(wrong)?;
    let columns = reader.metadata().file_metadata().schema_descr();
    let mut lines = Lines::default();
    lines.add((0..columns.num_columns()).map(|k| columns.column(k).name().to_owned()));
    let cell = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        // Rust writes the shortest digits that read back as the same number.
        Field::Float(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        other => other.to_string(),
    };
    for row in reader.get_row_iter(None).with_context(wrong)? {
        lines.add(row.with_context(wrong)?.get_column_iter().map(|(_, field)| cell(field)));
    }
    Ok(lines.0)
}
