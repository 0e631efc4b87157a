//! The London schools: `school.mat` as a table with a public schema.
//!
//! The file (MATLAB 5, 139 schools, 15,362 pupils) belongs to others and is not bundled; the reader
//! understands as much of the format as it uses: cell arrays of real matrices, compressed or not.

use crate::BoardError;
use flate2::read::ZlibDecoder;
use std::fmt::Write as _;
use std::io::Read as _;

/// The records as a table and its schema.
#[derive(Clone, Debug)]
pub struct School {
    /// One row per pupil, the school in a column.
    pub csv: String,
    /// What is public about the columns.
    pub schema: String,
}

/// Reads the bytes of `school.mat`; `file` is its name for messages.
///
/// Columns of two values are categories, those of one are left out, the score is scaled to
/// (y − 1)/69, as the published figures have it.
///
/// # Errors
/// A file that is something else.
pub fn read(bytes: &[u8], file: &str) -> Result<School, BoardError> {
    let unfit =
        |message: &str| BoardError::Form { file: file.into(), line: None, message: message.into() };
    let cells = cells(bytes).ok_or_else(|| unfit("this is no MATLAB 5 file of cell arrays"))?;
    let of = |name: &str| {
        cells
            .iter()
            .find(|c| c.0 == name)
            .map(|c| &c.1)
            .ok_or_else(|| unfit("it must have the cell arrays X and Y, one cell per school"))
    };
    let (xs, ys) = (of("X")?, of("Y")?);
    let columns = xs.first().map_or(0, |x| x.1.min(x.0));
    let mut rows: Vec<(usize, Vec<f64>, f64)> = Vec::new();
    for (school, (x, y)) in xs.iter().zip(ys).enumerate() {
        let pupils = y.2.len();
        // Some copies of the file have pupils in columns.
        let at = |pupil: usize, column: usize| match x.0 == pupils {
            true => x.2.get(column * x.0 + pupil),
            false => x.2.get(pupil * x.0 + column),
        };
        for pupil in 0..pupils {
            let row: Option<Vec<f64>> = (0..columns).map(|c| at(pupil, c).copied()).collect();
            let row = row.ok_or_else(|| unfit("a school has fewer columns than the first"))?;
            rows.push((school, row, y.2[pupil]));
        }
    }
    if rows.len() < 100 || rows.iter().any(|r| !(0.0..=70.0).contains(&r.2)) {
        return Err(unfit("these are not the examination scores of the London schools, 1 to 70"));
    }
    let values = |column: usize| {
        let mut all: Vec<f64> = rows.iter().map(|r| r.1[column]).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    };
    let kinds: Vec<Vec<f64>> = (0..columns).map(values).collect();
    let used: Vec<usize> = (0..columns).filter(|&c| kinds[c].len() > 1).collect();
    let mut csv: String = used.iter().map(|c| format!("c{c},")).collect();
    csv += "school,score\n";
    for (school, row, score) in &rows {
        for &c in &used {
            match kinds[c].len() {
                2 => csv.push_str(if row[c] == kinds[c][1] { "1," } else { "0," }),
                _ => {
                    let _ = write!(csv, "{},", row[c]);
                }
            }
        }
        let _ = writeln!(csv, "s{school},{}", (score - 1.0) / 69.0);
    }
    // Ranges as a codebook would have them: round, and no narrower than the records.
    let mut schema = String::from("reviewed = true\n");
    for &c in &used {
        let (low, high) = (kinds[c][0], kinds[c][kinds[c].len() - 1]);
        let _ = match kinds[c].len() {
            2 => write!(
                schema,
                "[[column]]\nname = \"c{c}\"\nkind = \"categorical\"\ncategories = [\"0\", \"1\"]\n"
            ),
            _ => write!(
                schema,
                "[[column]]\nname = \"c{c}\"\nkind = \"numeric\"\nmin = {:.1}\nmax = {:.1}\n",
                (low / 10.0).floor() * 10.0,
                (high / 10.0).ceil() * 10.0
            ),
        };
    }
    schema += "[[column]]\nname = \"school\"\nkind = \"site\"\n[[column]]\nname = \"score\"\nkind = \"label\"\nmin = 0\nmax = 1\n";
    Ok(School { csv, schema })
}

/// A matrix: rows, columns, and its values column by column.
type Matrix = (usize, usize, Vec<f64>);

/// The cell arrays of a file, by name.
fn cells(bytes: &[u8]) -> Option<Vec<(String, Vec<Matrix>)>> {
    // 128 bytes of header, the last two of which say the byte order.
    if bytes.get(126..128)? != b"IM" {
        return None;
    }
    let mut rest = bytes.get(128..)?;
    let mut found = Vec::new();
    while let Some((kind, body, after)) = element(rest) {
        rest = after;
        let held;
        let body = if kind == COMPRESSED {
            let mut open = Vec::new();
            ZlibDecoder::new(body).take(MOST).read_to_end(&mut open).ok()?;
            held = open;
            element(&held)?.1
        } else {
            body
        };
        found.extend(cell_array(body));
    }
    Some(found)
}

const COMPRESSED: u32 = 15;
const MATRIX: u32 = 14;
/// The class of a cell array.
const CELL: u8 = 1;
/// Bytes at most of one variable.
const MOST: u64 = 1 << 28;

/// The first element: its type, its bytes, and what comes after it.
fn element(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (kind, length) = (word(0)?, word(4));
    // Up to four bytes fit into the tag itself.
    if kind >> 16 != 0 {
        let body = bytes.get(4..4 + (kind >> 16) as usize)?;
        return Some((kind & 0xffff, body, bytes.get(8..)?));
    }
    let length = length? as usize;
    let body = bytes.get(8..8usize.checked_add(length)?)?;
    let padded = if kind == COMPRESSED { length } else { length.next_multiple_of(8) };
    Some((kind, body, bytes.get(8 + padded..).unwrap_or_default()))
}

/// The parts of a matrix: class, dimensions, name, and the rest.
fn matrix(body: &[u8]) -> Option<(u8, Vec<usize>, String, &[u8])> {
    let (_, flags, rest) = element(body)?;
    let (_, dims, rest) = element(rest)?;
    let (_, name, rest) = element(rest)?;
    let dims = dims.chunks_exact(4).map(|d| i32::from_le_bytes([d[0], d[1], d[2], d[3]]));
    let dims: Option<Vec<usize>> = dims.map(|d| usize::try_from(d).ok()).collect();
    Some((*flags.first()?, dims?, String::from_utf8_lossy(name).into_owned(), rest))
}

fn cell_array(body: &[u8]) -> Option<(String, Vec<Matrix>)> {
    let (class, dims, name, mut rest) = matrix(body)?;
    if class != CELL {
        return None;
    }
    let mut all = Vec::new();
    for _ in 0..dims.iter().product::<usize>() {
        let (kind, inner, after) = element(rest)?;
        if kind != MATRIX {
            return None;
        }
        rest = after;
        let (_, dims, _, content) = matrix(inner)?;
        let (kind, data, _) = element(content)?;
        all.push((*dims.first()?, *dims.get(1)?, numbers(kind, data)?));
    }
    Some((name, all))
}

/// Numbers as the file stores them: MATLAB writes small whole ones in few bytes.
fn numbers(kind: u32, data: &[u8]) -> Option<Vec<f64>> {
    let of = |width: usize, value: fn(&[u8]) -> f64| data.chunks_exact(width).map(value).collect();
    Some(match kind {
        1 => of(1, |b| f64::from(b[0] as i8)),
        2 => of(1, |b| f64::from(b[0])),
        3 => of(2, |b| f64::from(i16::from_le_bytes([b[0], b[1]]))),
        4 => of(2, |b| f64::from(u16::from_le_bytes([b[0], b[1]]))),
        5 => of(4, |b| f64::from(i32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        6 => of(4, |b| f64::from(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        7 => of(4, |b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
        9 => of(8, |b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]])),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An element of a MATLAB file, padded.
    fn put(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut out = [kind.to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
        out.extend(body);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    fn array(class: u8, rows: i32, columns: i32, name: &str, content: Vec<u8>) -> Vec<u8> {
        let flags = [u32::from(class).to_le_bytes(), [0; 4]].concat();
        let dims = [rows.to_le_bytes(), columns.to_le_bytes()].concat();
        put(MATRIX, &[put(6, &flags), put(5, &dims), put(1, name.as_bytes()), content].concat())
    }

    fn doubles(values: &[f64]) -> Vec<u8> {
        put(9, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn cells_become_a_table_of_pupils() {
        let schools = 4;
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        for school in 0..schools {
            // 30 pupils: a year, a flag, a constant.
            let years = (0..30).map(|p| 1985.0 + f64::from(p % 3));
            let flags = (0..30).map(|p| f64::from(p % 2));
            let x: Vec<f64> = years.chain(flags).chain([1.0; 30]).collect();
            xs.extend(array(6, 30, 3, "", doubles(&x)));
            let scores: Vec<u8> = (0..30).map(|p| 1 + p + school).collect();
            ys.extend(array(6, 30, 1, "", put(2, &scores)));
        }
        let mut file = vec![b' '; 126];
        file.extend(b"IM");
        file.extend(array(CELL, 1, i32::from(schools), "X", xs));
        file.extend(array(CELL, 1, i32::from(schools), "Y", ys));
        let read = read(&file, "school.mat").unwrap();
        let lines: Vec<&str> = read.csv.lines().collect();
        assert_eq!((lines[0], lines.len()), ("c0,c1,school,score", 121));
        assert_eq!(lines[2], format!("1986,1,s0,{}", 1.0 / 69.0));
        assert!(read.schema.contains("min = 1980.0\nmax = 1990.0"));
        assert!(!read.schema.contains("c2"));
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        for bytes in [&b""[..], b"a,b\n1,2\n", &[b'I'; 200]] {
            assert!(super::read(bytes, "x.mat").is_err());
        }
    }
}
