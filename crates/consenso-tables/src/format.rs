//! How a file is written: encoding, delimiter, quotes, decimal and thousands marks.
//!
//! A [`Format`] is what a schema or a command line says, with gaps; a [`Reading`] is what was found
//! out for one file, without.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use serde::{Deserialize, Serialize};

use super::cut::{Cut, Cutter, Record};
use super::{DataError, SchemaError};

/// How files are written, as far as somebody said so. What is left open is found out for every
/// file, so that sites whose programs export differently can share one schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// Whether the first line names the columns.
    pub header: bool,
    /// Between cells; one ASCII character. With a header it is what is tried first: the one that
    /// cuts the header into the columns of the schema is used.
    pub delimiter: Option<char>,
    /// Around cells that hold a delimiter or a line end; one ASCII character, `"` if it is left
    /// open.
    pub quote: Option<char>,
    /// The decimal mark, `.` or `,`. Left open it is a full stop, unless cells of the file can only
    /// be read with a comma (but see [`Format::from_schema_alone`]).
    pub decimal: Option<char>,
    /// Between groups of three digits.
    pub thousands: Option<char>,
    /// The encoding of the text. A byte order mark wins over it; left open, the text is UTF-8
    /// unless it looks like UTF-16.
    pub encoding: Option<TextEncoding>,
    /// Lines that start with it are skipped; one ASCII character.
    pub comment: Option<char>,
    /// Cells (after trimming) that mean "unknown".
    pub missing: Vec<String>,
}

impl Default for Format {
    fn default() -> Self {
        Self {
            header: true,
            delimiter: None,
            quote: None,
            decimal: None,
            thousands: None,
            encoding: None,
            comment: None,
            missing: default_missing(),
        }
    }
}

pub(super) fn default_missing() -> Vec<String> {
    vec!["?".to_owned(), String::new()]
}

/// The thousands marks there are.
const THOUSANDS: [char; 7] = ['.', ',', ' ', '\'', '’', '\u{a0}', '\u{202f}'];

impl Format {
    /// Fixes what would be found out from the records: where nobody said otherwise a decimal mark is
    /// a full stop, and a file without a header has commas between its cells.
    ///
    /// A claim needs it. With an open decimal mark one record that holds `1,5` would have `1.234` of
    /// every other record read as a thousand and more, and two data sets that differ in one record
    /// would differ in all.
    #[must_use]
    pub fn from_schema_alone(mut self) -> Self {
        self.decimal.get_or_insert('.');
        if !self.header {
            self.delimiter.get_or_insert(',');
        }
        self
    }

    pub(super) fn check(&self) -> Result<(), SchemaError> {
        let marks = [("delimiter", self.delimiter), ("comment", self.comment)];
        for (key, mark) in marks {
            match mark {
                Some(found) if !found.is_ascii() || matches!(found, '"' | '\n' | '\r') => {
                    return Err(SchemaError::NotAscii { key, found });
                }
                _ => {}
            }
        }
        let wrong = |key, found, allowed| Err(SchemaError::Mark { key, found, allowed });
        match self.quote {
            Some(found) if !matches!(found, '"' | '\'') => return wrong("quote", found, "\" or '"),
            _ => {}
        }
        match self.decimal {
            Some(found) if !matches!(found, '.' | ',') => {
                return wrong("decimal", found, "\".\" or \",\"");
            }
            _ => {}
        }
        match self.thousands {
            Some(found) if !THOUSANDS.contains(&found) || Some(found) == self.decimal => {
                return wrong(
                    "thousands",
                    found,
                    "\".\", \",\", \" \" or \"'\", and not the decimal mark",
                );
            }
            _ => {}
        }
        Ok(())
    }
}

/// How the characters of a file are written as bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextEncoding {
    /// UTF-8, with or without a byte order mark.
    #[serde(rename = "utf-8")]
    Utf8,
    /// UTF-16 of either byte order; little-endian without a byte order mark.
    #[serde(rename = "utf-16")]
    Utf16,
    /// ISO 8859-1: byte n is character n.
    #[serde(rename = "latin-1")]
    Latin1,
    /// What Windows calls ANSI in western Europe: Latin-1 with the euro sign and typographic
    /// quotes.
    #[serde(rename = "windows-1252")]
    Windows1252,
}

impl TextEncoding {
    /// Every encoding.
    pub const ALL: [Self; 4] = [Self::Utf8, Self::Utf16, Self::Latin1, Self::Windows1252];

    /// Its name in a schema file and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
            Self::Latin1 => "latin-1",
            Self::Windows1252 => "windows-1252",
        }
    }
}

/// How one file was read, for showing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// Between cells.
    pub delimiter: char,
    /// Around cells.
    pub quote: char,
    /// The decimal mark.
    pub decimal: char,
    /// Between groups of digits.
    pub thousands: Option<char>,
    /// The encoding of the text.
    pub encoding: TextEncoding,
    /// `gzip` or `zstd`, if whoever opened the file unpacked it; `workbook`, `Parquet` or `Arrow`
    /// if its text was made from such a file.
    pub compression: Option<&'static str>,
}

impl Reading {
    /// A plain UTF-8 file with commas between cells and decimal points.
    pub(super) const PLAIN: Self = Self {
        delimiter: ',',
        quote: '"',
        decimal: '.',
        thousands: None,
        encoding: TextEncoding::Utf8,
        compression: None,
    };

    /// A cell as a number. "inf" and "nan" are numbers here, and refused by whoever needs a finite
    /// one.
    pub(super) fn number(&self, cell: &str) -> Option<f64> {
        parse_number(cell, self.decimal, self.thousands)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.compression {
            Some("workbook") => return f.write_str("a workbook"),
            Some("Parquet") => return f.write_str("a Parquet file"),
            Some("Arrow") => return f.write_str("an Arrow file"),
            _ => {}
        }
        let delimiter = match self.delimiter {
            ',' => "commas".to_owned(),
            ';' => "semicolons".to_owned(),
            '\t' => "tabs".to_owned(),
            ' ' => "spaces".to_owned(),
            other => format!("{other:?}"),
        };
        write!(f, "{} text, {delimiter} between cells", self.encoding.name())?;
        if self.quote != '"' {
            write!(f, ", quoted with {}", self.quote)?;
        }
        if self.decimal != '.' {
            write!(f, ", decimal comma")?;
        }
        if let Some(mark) = self.thousands {
            write!(f, ", {mark:?} between thousands")?;
        }
        if let Some(compression) = self.compression {
            write!(f, ", {compression}")?;
        }
        Ok(())
    }
}

/// Reads a number written with these marks. Groups between thousands marks have three digits;
/// between commas inner ones may have two, as in India.
pub(super) fn parse_number(cell: &str, decimal: char, thousands: Option<char>) -> Option<f64> {
    if let Some(plain) = Plain::of(cell)
        && let Some(value) = plain.value(decimal)
    {
        return Some(value);
    }
    if decimal == '.' && thousands.is_none_or(|mark| !has_mark(cell, mark)) {
        return cell.parse().ok();
    }
    let (sign, body) = match cell.as_bytes().first()? {
        b'-' => ("-", &cell[1..]),
        b'+' => ("", &cell[1..]),
        _ => ("", cell),
    };
    let (mantissa, exponent) = match body.find(['e', 'E']) {
        Some(at) => body.split_at(at),
        None => (body, ""),
    };
    let (whole, fraction) = mantissa.split_once(decimal).unwrap_or((mantissa, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let whole = match thousands {
        Some(mark) if has_mark(whole, mark) => Cow::Owned(ungrouped(whole, mark)?),
        _ => Cow::Borrowed(whole),
    };
    if !digits(&whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        // "inf" and "nan" have no marks; anything else here is no number.
        return cell
            .parse()
            .ok()
            .filter(|value: &f64| !value.is_finite() && !cell.contains(decimal));
    }
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    format!("{sign}{whole}.{fraction}{exponent}").parse().ok()
}

/// A number of digits with at most one mark between them, as nearly all are.
#[derive(Clone, Copy, Debug)]
struct Plain {
    negative: bool,
    /// All digits, as one integer.
    digits: u64,
    whole: usize,
    fraction: usize,
    /// `.` or `,`; 0 if there is none.
    mark: u8,
}

impl Plain {
    /// `None` for anything else, which may be a number all the same.
    #[inline]
    fn of(cell: &str) -> Option<Self> {
        let bytes = cell.as_bytes();
        let (negative, bytes) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, bytes),
        };
        // So many digits and a mark: no sum overflows, and powers of ten are exact.
        if bytes.is_empty() || bytes.len() > 17 {
            return None;
        }
        let (mut digits, mut mark, mut at) = (0_u64, 0, bytes.len());
        for (index, &byte) in bytes.iter().enumerate() {
            let digit = byte.wrapping_sub(b'0');
            if digit < 10 {
                digits = 10 * digits + u64::from(digit);
            } else if mark == 0 && matches!(byte, b'.' | b',') {
                (mark, at) = (byte, index);
            } else {
                return None;
            }
        }
        let fraction = (bytes.len() - at).saturating_sub(1);
        (at + fraction > 0).then_some(Self { negative, digits, whole: at, fraction, mark })
    }

    /// The number, if this is the decimal mark and two exact numbers have it as their quotient, so
    /// that it is rounded once as by the standard library.
    #[inline]
    fn value(self, decimal: char) -> Option<f64> {
        const POWERS: [f64; 18] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
            1e16, 1e17,
        ];
        if (self.mark != 0 && char::from(self.mark) != decimal) || self.digits > 1 << 53 {
            return None;
        }
        let value = self.digits as f64 / POWERS[self.fraction];
        Some(if self.negative { -value } else { value })
    }

    /// Whether the mark can stand between thousands: 1.234, not 0.123 nor 1.23.
    fn is_grouped(self) -> bool {
        let zero = self.whole == 1 && self.digits < 1000;
        (1..=3).contains(&self.whole) && self.fraction == 3 && !zero
    }
}

/// Whether a thousands mark is in the text; a space stands for all the spaces programs write there.
fn has_mark(text: &str, mark: char) -> bool {
    text.chars().any(|c| same_mark(c, mark))
}

fn same_mark(c: char, mark: char) -> bool {
    c == mark || (mark == ' ' && matches!(c, '\u{a0}' | '\u{202f}')) || (mark == '\'' && c == '’')
}

/// Digits without their thousands marks, if the groups are groups: 1.234.567 and 12,34,567, not
/// 1.23 nor 1.2345.
fn ungrouped(whole: &str, mark: char) -> Option<String> {
    let groups: Vec<&str> = whole.split(|c| same_mark(c, mark)).collect();
    let (first, rest) = groups.split_first()?;
    let (last, inner) = rest.split_last()?;
    let digits = groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_digit()));
    let sizes = (1..=3).contains(&first.len())
        && last.len() == 3
        && inner.iter().all(|group| group.len() == 3 || (group.len() == 2 && mark == ','));
    // 0.123 is a fraction, not a group.
    (digits && sizes && *first != "0").then(|| groups.concat())
}

/// The text of a file as UTF-8 (not checked where the file says it is UTF-8: a bad cell is reported
/// with its column).
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) text: Vec<u8>,
    pub(super) encoding: TextEncoding,
}

/// Decodes the bytes of a file. What is no text is named, with what to do about it.
pub(super) fn decode(
    mut reader: impl Read,
    file: &str,
    declared: Option<TextEncoding>,
) -> Result<Decoded, DataError> {
    let failed = |source| DataError::Read { file: file.to_owned(), source };
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).map_err(failed)?;
    if let Some((what, remedy)) = not_text(&bytes) {
        return Err(DataError::NotATable { file: file.to_owned(), what, remedy });
    }
    let (encoding, text) = match declared {
        _ if bytes.starts_with(&[0xef, 0xbb, 0xbf]) => (TextEncoding::Utf8, bytes.split_off(3)),
        _ if bytes.starts_with(&[0xff, 0xfe]) => {
            (TextEncoding::Utf16, utf16(&bytes[2..], false, file)?)
        }
        _ if bytes.starts_with(&[0xfe, 0xff]) => {
            (TextEncoding::Utf16, utf16(&bytes[2..], true, file)?)
        }
        Some(TextEncoding::Utf16) => (TextEncoding::Utf16, utf16(&bytes, false, file)?),
        Some(TextEncoding::Latin1) => (TextEncoding::Latin1, bytewise(&bytes, char::from)),
        Some(TextEncoding::Windows1252) => {
            (TextEncoding::Windows1252, bytewise(&bytes, windows_1252))
        }
        None if has_zeros(&bytes, 1) => (TextEncoding::Utf16, utf16(&bytes, false, file)?),
        None if has_zeros(&bytes, 0) => (TextEncoding::Utf16, utf16(&bytes, true, file)?),
        None | Some(TextEncoding::Utf8) => (TextEncoding::Utf8, bytes),
    };
    Ok(Decoded { text, encoding })
}

/// Files people have that are no text, by their first bytes.
fn not_text(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    const EXPORT: &str =
        "open it and export the sheet as CSV (UTF-8), or build this program with `--features xlsx`";
    const PARQUET: &str = "export it as CSV, for example pandas.read_parquet(…).to_csv(…, index=False), \
                           or build this program with `--features parquet`";
    const ARROW: &str = "export it as CSV, for example pandas.read_feather(…).to_csv(…, index=False), \
                         or build this program with `--features arrow`";
    const UNPACK: &str = "unpack it first; the command line unpacks .gz and .zst";
    let kinds: [(&[u8], &str, &str); 11] = [
        (b"\x1f\x8b", "compressed with gzip", UNPACK),
        (b"\x28\xb5\x2f\xfd", "compressed with zstd", UNPACK),
        (b"PK\x03\x04", "an Excel workbook or a zip archive", EXPORT),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Excel workbook", EXPORT),
        (b"PAR1", "a Parquet file", PARQUET),
        (b"ARROW1", "an Arrow (Feather) file", ARROW),
        (b"\xff\xff\xff\xff", "an Arrow stream", ARROW),
        (b"BZh", "compressed with bzip2", UNPACK),
        (b"\xfd7zXZ\0", "compressed with xz", UNPACK),
        (b"SQLite format 3\0", "a SQLite database", "export the table as CSV"),
        (b"\x89HDF", "an HDF5 file", "export the table as CSV"),
    ];
    kinds
        .into_iter()
        .find(|(magic, ..)| bytes.starts_with(magic))
        .map(|(_, what, remedy)| (what, remedy))
}

/// Whether every second byte of the beginning is 0, as in Latin text written as UTF-16.
fn has_zeros(bytes: &[u8], offset: usize) -> bool {
    let head = &bytes[..bytes.len().min(512)];
    let at = head.iter().skip(offset).step_by(2);
    head.len() >= 4 && 2 * at.filter(|&&byte| byte == 0).count() > head.len() / 2
}

fn utf16(bytes: &[u8], big_endian: bool, file: &str) -> Result<Vec<u8>, DataError> {
    let unit = |pair: &[u8]| {
        let pair = [pair[0], pair[1]];
        if big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    };
    let bad = || DataError::NotUtf16 { file: file.to_owned() };
    if !bytes.len().is_multiple_of(2) {
        return Err(bad());
    }
    let text: Result<String, _> = char::decode_utf16(bytes.chunks_exact(2).map(unit)).collect();
    Ok(text.map_err(|_| bad())?.into_bytes())
}

fn bytewise(bytes: &[u8], character: fn(u8) -> char) -> Vec<u8> {
    bytes.iter().map(|&byte| character(byte)).collect::<String>().into_bytes()
}

/// The characters of 0x80 to 0x9f; where Windows has none, Latin-1's control character stays.
fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => HIGH[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// How long the byte order mark is, if text that begins so is read as it is, without decoding;
/// `None` for any other.
pub(super) fn as_it_is(head: &[u8], declared: Option<TextEncoding>) -> Option<usize> {
    if head.starts_with(&[0xef, 0xbb, 0xbf]) {
        return Some(3);
    }
    let wide = head.starts_with(&[0xff, 0xfe])
        || head.starts_with(&[0xfe, 0xff])
        || declared.is_none() && (has_zeros(head, 0) || has_zeros(head, 1));
    let plain = !wide && declared.is_none_or(|encoding| encoding == TextEncoding::Utf8);
    (plain && not_text(head).is_none()).then_some(0)
}

/// The delimiters that are tried.
pub(super) const DELIMITERS: [char; 4] = [',', ';', '\t', '|'];
/// Records looked at to find the delimiter.
const SAMPLE: usize = 200;

/// The cells of the first records, cut at `delimiter`, without blank lines. `ended` says that `text`
/// is all there is; else its last record may be part of one and is left out.
pub(super) fn sample(text: &[u8], ended: bool, cutter: &Cutter, count: usize) -> Vec<Vec<Vec<u8>>> {
    let (mut rows, mut record, mut at) = (Vec::new(), Record::default(), 0);
    while rows.len() < count {
        let Cut::Record(end) = cutter.next(text, at, ended, &mut record) else { break };
        at = end;
        if !record.is_blank(text) {
            rows.push(record.cells(text).map(<[u8]>::to_vec).collect());
        }
    }
    rows
}

/// The delimiter that cuts the file into rows of equal length whose cells hold no other delimiter;
/// a comma if none does.
pub(super) fn sniff_delimiter(
    text: &[u8],
    ended: bool,
    quote: char,
    comment: Option<char>,
) -> char {
    let score = |delimiter: char| {
        let rows = sample(text, ended, &Cutter::new(delimiter, quote, comment), SAMPLE);
        let width = rows.first().map_or(0, Vec::len);
        let equal = rows.iter().filter(|row| row.len() == width).count();
        if width < 2 || 20 * equal < 19 * rows.len() {
            return None;
        }
        let (mut cells, mut clean) = (0_usize, 0_usize);
        for cell in rows.iter().flatten() {
            let cell = String::from_utf8_lossy(cell);
            let marked = DELIMITERS.iter().any(|&mark| mark != delimiter && cell.contains(mark));
            let comma = || [None, Some('.')].iter().any(|&t| parse_number(&cell, ',', t).is_some());
            cells += 1;
            clean += usize::from(!marked || comma());
        }
        // In parts of 1,000, so that a stray mark in a text does not decide.
        Some((1_000 * clean / cells, width))
    };
    let best = |candidates: &[char]| {
        let scored =
            candidates.iter().filter_map(|&delimiter| Some((score(delimiter)?, delimiter)));
        scored.max_by_key(|&(score, _)| score).map(|(_, delimiter)| delimiter)
    };
    best(&['|', '\t', ';', ',']).or_else(|| best(&[' '])).unwrap_or(',')
}

/// The quote: `'` where cells begin and end with it and none has `"`.
pub(super) fn sniff_quote(text: &[u8]) -> char {
    let head = &text[..text.len().min(1 << 16)];
    let opens = |quote: u8| {
        let at_start =
            |pair: &[u8]| pair[1] == quote && matches!(pair[0], b',' | b';' | b'\t' | b'|' | b'\n');
        head.windows(2).filter(|pair| at_start(pair)).count()
            + usize::from(head.first() == Some(&quote))
    };
    if opens(b'\'') >= 2 && opens(b'"') == 0 { '\'' } else { '"' }
}

/// What the cells of numeric columns say about their marks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// Cells that are numbers with a decimal comma only.
    comma: u64,
    /// Cells that are numbers with a decimal point only.
    point: u64,
    /// Cells such as 1,234: a decimal comma or a mark between thousands.
    either_comma: u64,
    /// Cells such as 1.234.
    either_point: u64,
    /// Cells grouped with a space and with an apostrophe.
    space: u64,
    apostrophe: u64,
}

impl Marks {
    /// Counts what `count` cells of this text say. False if it is no number whatever the marks.
    pub(super) fn add(&mut self, cell: &str, count: u64) -> bool {
        if let Some(plain) = Plain::of(cell) {
            let seen = match (plain.mark, plain.is_grouped()) {
                (b'.', false) => &mut self.point,
                (b'.', true) => &mut self.either_point,
                (b',', false) => &mut self.comma,
                (b',', true) => &mut self.either_comma,
                _ => return true,
            };
            *seen += count;
            return true;
        }
        if cell.parse::<f64>().is_ok_and(|value| !value.is_finite()) {
            return false;
        }
        for (mark, seen) in [(' ', &mut self.space), ('\'', &mut self.apostrophe)] {
            if has_mark(cell, mark) {
                let found = [('.', Some(mark)), (',', Some(mark))]
                    .into_iter()
                    .filter(|&(decimal, mark)| parse_number(cell, decimal, mark).is_some());
                let decimals: Vec<char> = found.map(|(decimal, _)| decimal).collect();
                *seen += count * u64::from(!decimals.is_empty());
                match decimals[..] {
                    ['.'] => self.point += count,
                    [','] => self.comma += count,
                    _ => {}
                }
                return !decimals.is_empty();
            }
        }
        let with = |decimal, mark| parse_number(cell, decimal, Some(mark)).is_some();
        match (cell.contains(','), cell.contains('.')) {
            (false, false) => return parse_number(cell, '.', None).is_some(),
            (true, false) if with('.', ',') && with(',', '.') => self.either_comma += count,
            (false, true) if with('.', ',') && with(',', '.') => self.either_point += count,
            _ if with('.', ',') => {
                self.point += count;
                self.either_comma += count * u64::from(cell.contains(','));
            }
            _ if with(',', '.') => {
                self.comma += count;
                self.either_point += count * u64::from(cell.contains('.'));
            }
            _ => return false,
        }
        true
    }

    /// Adds what other cells said.
    pub(super) fn merge(&mut self, other: &Self) {
        self.comma += other.comma;
        self.point += other.point;
        self.either_comma += other.either_comma;
        self.either_point += other.either_point;
        self.space += other.space;
        self.apostrophe += other.apostrophe;
    }

    /// The marks only what is certain allows: a comma where cells need one and none needs a point.
    pub(super) fn certain(&self) -> Option<(char, Option<char>)> {
        let spaced = self.spaced();
        match (self.comma, self.point) {
            (1.., 0) => Some((',', spaced.or((self.either_point > 0).then_some('.')))),
            (0, 1..) => Some(('.', spaced.or((self.either_comma > 0).then_some(',')))),
            (0, 0) if self.either_comma + self.either_point == 0 => {
                spaced.map(|mark| ('.', Some(mark)))
            }
            _ => None,
        }
    }

    /// The likeliest marks, and what deserves a warning about them.
    pub(super) fn likeliest(&self, delimiter: char) -> ((char, Option<char>), Option<String>) {
        if let Some(marks) = self.certain() {
            return (marks, None);
        }
        if self.comma > 0 && self.point > 0 {
            let text = "some numbers need a decimal comma and others a decimal point: say which with --decimal";
            return (
                if self.comma > self.point { (',', None) } else { ('.', None) },
                Some(text.to_owned()),
            );
        }
        if self.either_comma == 0 {
            return (('.', None), None);
        }
        let (marks, as_read) =
            if delimiter == ',' { (('.', Some(',')), "1234") } else { ((',', None), "1.234") };
        let text = format!(
            "numbers such as 1,234 are read as {as_read}: if that is wrong, say so with --decimal or --thousands"
        );
        (marks, Some(text))
    }

    fn spaced(&self) -> Option<char> {
        if self.space > 0 { Some(' ') } else { (self.apostrophe > 0).then_some('\'') }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_marks() {
        let german = |cell| parse_number(cell, ',', Some('.'));
        assert_eq!(german("1.234,56"), Some(1234.56));
        assert_eq!(german("-12.345.678"), Some(-12_345_678.0));
        assert_eq!(german("0,5"), Some(0.5));
        assert_eq!(german("1,5e3"), Some(1500.0));
        assert_eq!(german(",5"), Some(0.5));
        for bad in ["1.5", "1.23.456", "0.123", "1,2,3", "", ",", "12.34,5", "a", "1.2345", "e5"] {
            assert_eq!(german(bad), None, "{bad}");
        }
        assert_eq!(parse_number("12,34,567.5", '.', Some(',')), Some(1_234_567.5));
        assert_eq!(parse_number("1\u{202f}234,5", ',', Some(' ')), Some(1234.5));
        assert_eq!(parse_number("1'234.5", '.', Some('\'')), Some(1234.5));
        assert_eq!(parse_number("1,5", '.', None), None);
        assert_eq!(parse_number("1.5", ',', None), None);
        assert!(parse_number("nan", ',', None).is_some_and(f64::is_nan));
    }

    #[test]
    fn marks_are_taken_from_cells_that_allow_one_reading_only() {
        let marks = |cells: &[&str]| {
            let mut marks = Marks::default();
            assert!(cells.iter().all(|cell| marks.add(cell, 1)), "{cells:?}");
            marks
        };
        assert_eq!(marks(&["1,5", "2", "1.234,5"]).certain(), Some((',', Some('.'))));
        assert_eq!(marks(&["1,5", "2"]).certain(), Some((',', None)));
        assert_eq!(marks(&["1.5", "1,234"]).certain(), Some(('.', Some(','))));
        assert_eq!(marks(&["1 234", "17"]).certain(), Some(('.', Some(' '))));
        assert_eq!(marks(&["1 234,5", "17"]).certain(), Some((',', Some(' '))));
        assert_eq!(marks(&["1,234", "17"]).certain(), None, "1.234 or 1234: nobody can tell");
        assert_eq!(marks(&["1,5", "1.5"]).certain(), None);
        assert!(marks(&["1,234"]).likeliest(';').1.is_some_and(|text| text.contains("1.234")));
        assert!(!Marks::default().add("n/a", 1) && !Marks::default().add("NaN", 1));
    }

    #[test]
    fn delimiters_are_told_apart() {
        let sniff = |text: &str| sniff_delimiter(text.as_bytes(), true, '"', None);
        assert_eq!(sniff("a,b\n1,2\n"), ',');
        assert_eq!(sniff("a;b\n1,5;2,5\n"), ';');
        assert_eq!(sniff("1,5;2,5;3,5\n4,5;5,5;6,5\n"), ';', "also without a header");
        assert_eq!(sniff("a\tb\n\"x, y\"\t2\n"), '\t');
        assert_eq!(sniff("name;x\nM, H;3\n"), ';');
        assert_eq!(sniff("a|b\n1|2\n"), '|');
        assert_eq!(sniff("a b\n1 2\n"), ' ');
        assert_eq!(sniff("a\n1\n2\n"), ',', "one column");
        assert_eq!(sniff("id,note\n1,\"a;b\nc\"\n2,d;e\n"), ',');
        assert_eq!(sniff_quote(b"a,b\n'x, y',1\n'z',2\n"), '\'');
        assert_eq!(sniff_quote(b"a,b\n\"x\",'1\n"), '"');
    }

    #[test]
    fn text_is_decoded_by_its_mark_or_its_name() {
        let read = |bytes: &[u8], encoding| {
            let decoded = decode(bytes, "f", encoding).expect("text");
            (String::from_utf8(decoded.text).expect("UTF-8"), decoded.encoding)
        };
        let wide = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let marked: Vec<u8> = [0xff, 0xfe].into_iter().chain(wide("Größe;€\n")).collect();
        assert_eq!(read(&marked, None), ("Größe;€\n".to_owned(), TextEncoding::Utf16));
        let big: Vec<u8> = [0xfe, 0xff, 0, b'a'].to_vec();
        assert_eq!(read(&big, Some(TextEncoding::Latin1)).0, "a", "the mark wins");
        assert_eq!(read(&wide("age;x\n1;2\n"), None).0, "age;x\n1;2\n", "without a mark");
        assert_eq!(read(b"\xef\xbb\xbfa", None), ("a".to_owned(), TextEncoding::Utf8));
        assert_eq!(read(b"gr\xfcn \x80", Some(TextEncoding::Latin1)).0, "grün \u{80}");
        assert_eq!(read(b"gr\xfcn \x80", Some(TextEncoding::Windows1252)).0, "grün €");
        assert!(matches!(
            decode(&[0xff, 0xfe, 0x00][..], "f", None),
            Err(DataError::NotUtf16 { .. })
        ));
        for (bytes, named) in
            [(&b"PK\x03\x04..."[..], "Excel"), (b"PAR1", "Parquet"), (b"BZh9", "bzip2")]
        {
            let error = decode(bytes, "f", None).expect_err("no text").to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
