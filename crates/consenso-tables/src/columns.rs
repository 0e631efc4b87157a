//! Records from columns in memory, as data frames and files of columns have them: no cell becomes
//! text on its way.

use std::fmt;

use rayon::prelude::*;

use super::csv::match_header;
use super::table::{Builder, Cell, Plan, kept_some};
use super::{DataError, Schema, Table, Unknown};

/// Columns of the same length, with their names.
///
/// `Debug` prints the shape, never a value.
#[derive(Clone, PartialEq)]
pub struct Columns {
    names: Vec<String>,
    values: Vec<ColumnValues>,
    rows: usize,
}

/// The values of a column.
#[derive(Clone, PartialEq)]
pub enum ColumnValues {
    /// Numbers; NaN is a missing value.
    Numbers {
        /// One a record.
        values: Vec<f64>,
        /// Whether a file has whole ones without a decimal point: a word that means "unknown", such
        /// as `-9`, is a number of this column only if it is written as its numbers are.
        plain: bool,
    },
    /// Words, each written once.
    Words {
        /// The words.
        words: Vec<String>,
        /// The word of every record; [`ColumnValues::MISSING`] is a missing value.
        codes: Vec<u32>,
    },
}

impl fmt::Debug for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Columns(rows={}, columns={})", self.rows, self.names.len())
    }
}

impl fmt::Debug for ColumnValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnValues(rows={})", self.len())
    }
}

impl ColumnValues {
    /// The code of a missing word.
    pub const MISSING: u32 = u32::MAX;

    fn len(&self) -> usize {
        match self {
            Self::Numbers { values, .. } => values.len(),
            Self::Words { codes, .. } => codes.len(),
        }
    }
}

/// A column of the schema, and what of its values means "unknown".
enum Found<'a> {
    Numbers { values: &'a [f64], plain: bool, missing: Vec<f64> },
    Words { words: Vec<Option<&'a str>>, codes: &'a [u32] },
}

impl<'a> Found<'a> {
    fn new(values: &'a ColumnValues, missing: &[&str]) -> Self {
        match values {
            ColumnValues::Numbers { values, plain } => {
                let written =
                    |word: &&str, number: f64| *word == Cell::Number(number, *plain).text();
                let number = |word: &&str| word.parse().ok().filter(|n| written(word, *n));
                let missing = missing.iter().filter_map(number).collect();
                Self::Numbers { values, plain: *plain, missing }
            }
            ColumnValues::Words { words, codes } => {
                let known =
                    |word: &'a String| Some(word.trim()).filter(|word| !missing.contains(word));
                Self::Words { words: words.iter().map(known).collect(), codes }
            }
        }
    }

    /// The cell of a record, unless its value is missing.
    fn cell(&self, row: usize) -> Option<Cell<'a>> {
        match self {
            Self::Numbers { values, plain, missing } => {
                let value = values[row];
                let unknown = value.is_nan() || missing.contains(&value);
                (!unknown).then_some(Cell::Number(value, *plain))
            }
            Self::Words { words, codes } => Some(Cell::Text((*words.get(codes[row] as usize)?)?)),
        }
    }
}

/// Records that one thread reads at a time.
const BLOCK: usize = 1 << 14;

impl Columns {
    /// Columns with their names.
    ///
    /// # Errors
    /// [`DataError::InMemory`] for columns of several lengths.
    pub fn new(columns: Vec<(String, ColumnValues)>) -> Result<Self, DataError> {
        let rows = columns.first().map_or(0, |column| column.1.len());
        if let Some((name, values)) = columns.iter().find(|column| column.1.len() != rows) {
            let message = format!("column \"{name}\" has {} values, not {rows}", values.len());
            return Err(DataError::InMemory { source_name: "columns".into(), message });
        }
        let (names, values) = columns.into_iter().unzip();
        Ok(Self { names, values, rows })
    }

    /// How many records there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Reads records under a schema, all or some of them, as [`super::csv::read`] reads those of a
    /// file in which these are the columns: values are trimmed, completed, clamped and counted in
    /// the same way. Messages name a record by its line in such a file. `new` says what becomes of
    /// unknown categories where these are records to predict.
    ///
    /// # Errors
    /// As [`super::csv::read`].
    pub fn read(
        &self,
        rows: Option<&[u32]>,
        file: &str,
        schema: &Schema,
        new: Option<Unknown>,
    ) -> Result<Table, DataError> {
        let order = match_header(&self.names, file, schema, new.is_some())?;
        let columns = schema.columns();
        let mut found: Vec<Option<Found<'_>>> = columns.iter().map(|_| None).collect();
        for (values, column) in self.values.iter().zip(&order) {
            let Some(column) = *column else { continue };
            let own = &columns[column].missing_words;
            let missing: Vec<&str> =
                schema.format().missing.iter().chain(own).map(String::as_str).collect();
            found[column] = Some(Found::new(values, &missing));
        }
        let plan = Plan::new(schema, file, None).of_new(new);
        let count = rows.map_or(self.rows, <[u32]>::len);
        let read = |builder: &mut Builder<'_>, known: &mut [bool], at: usize| {
            let row = rows.map_or(at, |rows| rows[at] as usize);
            let cell = |column: usize| found[column].as_ref().and_then(|f| f.cell(row));
            for (column, known) in known.iter_mut().enumerate() {
                *known = cell(column).is_some();
            }
            let cell = |column: usize| cell(column).unwrap_or(Cell::Text(""));
            builder.push(known, cell, || at as u64 + 2)
        };
        let block = |start: usize, end: usize| {
            let mut builder = Builder::new(&plan);
            let mut known = vec![false; columns.len()];
            (start..end).try_for_each(|at| read(&mut builder, &mut known, at))?;
            Ok(builder.piece())
        };
        // Whether a person's record is kept depends on those before it.
        let size = if plan.counts_persons() { count.max(1) } else { BLOCK };
        let starts: Vec<usize> = (0..count).step_by(size).collect();
        let mut whole: Option<(u64, Table)> = None;
        for some in starts.chunks(4 * rayon::current_num_threads()) {
            let pieces: Vec<(u64, Table)> = some
                .par_iter()
                .map(|&start| block(start, (start + size).min(count)))
                .collect::<Result<_, DataError>>()?;
            for (read, piece) in pieces {
                match &mut whole {
                    Some((before, table)) => {
                        table.extend(&piece, *before);
                        *before += read;
                    }
                    None => whole = Some((read, piece)),
                }
            }
        }
        let (read, table) = whole.unwrap_or_else(|| Builder::new(&plan).piece());
        kept_some(read, table.report().rows, file, schema)?;
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Format, Kind, Label, Missing, csv};

    fn schema() -> Schema {
        let categories: Vec<String> = ["north", "south", "3"].map(str::to_owned).into();
        let classes = Label::Classes(vec!["no".into(), "yes".into()]);
        let mut age = Column::new("age", Kind::Numeric { min: 0.0, max: 100.0 });
        age.missing_words = vec!["-9".into()];
        let mut dose = Column::new("dose", Kind::Numeric { min: 0.0, max: 1.0 });
        (dose.missing, dose.missing_words) = (Missing::Impute(0.5), vec!["-9".into()]);
        let region = Column::new("region", Kind::Categorical { categories });
        let columns = vec![
            age,
            dose,
            region,
            Column::new("site", Kind::Site),
            Column::new("note", Kind::Ignored),
            Column::new("ill", Kind::Label(classes)),
        ];
        Schema::new(columns, Format::default(), true).expect("valid")
    }

    /// Columns, and the text of the file that has them.
    fn records(rows: usize) -> (Columns, String) {
        let words = |words: &[&str], codes: Vec<u32>| ColumnValues::Words {
            words: words.iter().map(|&word| word.to_owned()).collect(),
            codes,
        };
        let age = |j: usize| if j % 11 == 5 { -9.0 } else { (j * 7 % 120) as f64 };
        let dose = |j: usize| match j % 13 {
            2 => f64::NAN,
            4 => -9.0,
            _ => 0.01 * (j % 140) as f64,
        };
        let code = |j: usize, of: u32| j as u32 * 5 % of;
        let ages = (0..rows).map(age).collect();
        let doses = (0..rows).map(dose).collect();
        let regions = (0..rows).map(|j| if j == 4 { ColumnValues::MISSING } else { code(j, 3) });
        let columns = vec![
            ("age".to_owned(), ColumnValues::Numbers { values: ages, plain: true }),
            ("dose".to_owned(), ColumnValues::Numbers { values: doses, plain: false }),
            ("region".to_owned(), words(&["north", " south ", "3"], regions.collect())),
            ("site".to_owned(), words(&["A", "B"], (0..rows).map(|j| code(j, 2)).collect())),
            ("note".to_owned(), words(&[], vec![ColumnValues::MISSING; rows])),
            ("ill".to_owned(), words(&["yes", "no"], (0..rows).map(|j| code(j, 2)).collect())),
        ];
        let mut text = "age,dose,region,site,note,ill\n".to_owned();
        for j in 0..rows {
            // As a program writes an integer and a number with decimals.
            let dose = if dose(j).is_nan() { String::new() } else { format!("{:?}", dose(j)) };
            let region = if j == 4 { "" } else { ["north", "south", "3"][code(j, 3) as usize] };
            let (site, ill) = (["A", "B"][code(j, 2) as usize], ["yes", "no"][code(j, 2) as usize]);
            text.push_str(&format!("{},{dose},{region},{site},,{ill}\n", age(j)));
        }
        (Columns::new(columns).expect("one length"), text)
    }

    #[test]
    fn columns_give_the_table_of_the_file_that_has_them() {
        let (schema, rows) = (schema(), 3 * BLOCK / 2);
        let (columns, text) = records(rows);
        let file = csv::read(text.as_bytes(), "t.csv", &schema).expect("valid");
        let table = columns.read(None, "t.csv", &schema, None).expect("valid");
        assert!(file.report().dropped_missing > 0 && file.report().clamped["age"] > 0);
        // A whole number of a column with decimals is not written as "-9" is: it is clamped.
        assert!(file.report().clamped["dose"] > 0 && file.report().imputed["dose"] > 0);
        let all = |table: &Table| -> Vec<Vec<f64>> {
            (0..table.len()).map(|row| table.row(row).into_owned()).collect()
        };
        assert_eq!(all(&table), all(&file));
        assert_eq!((table.labels(), table.sites()), (file.labels(), file.sites()));
        assert_eq!((table.report(), table.site_names()), (file.report(), file.site_names()));
        assert_eq!(table.row_numbers(), file.row_numbers());
        // Some rows, in an order of their own.
        let some: Vec<u32> = (0..rows as u32).rev().step_by(3).collect();
        let lines: Vec<&str> = text.lines().collect();
        let mut less = format!("{}\n", lines[0]);
        some.iter().for_each(|&row| less.push_str(&format!("{}\n", lines[row as usize + 1])));
        let file = csv::read(less.as_bytes(), "t.csv", &schema).expect("valid");
        let table = columns.read(Some(&some), "t.csv", &schema, None).expect("valid");
        assert_eq!((all(&table), table.labels()), (all(&file), file.labels()));
    }

    #[test]
    fn what_is_wrong_with_columns_is_said_as_of_a_file() {
        let (schema, rows) = (schema(), 20);
        let (columns, text) = records(rows);
        let wrong = |text: &str, columns: &Columns| {
            let file = csv::read(text.as_bytes(), "t.csv", &schema).expect_err("wrong");
            let own = columns.read(None, "t.csv", &schema, None).expect_err("wrong");
            assert_eq!(own.to_string(), file.to_string());
        };
        let mut other = columns.clone();
        other.names[1] = "doses".to_owned();
        wrong(&text.replace("dose", "doses"), &other);
        let mut other = columns.clone();
        if let ColumnValues::Numbers { values, .. } = &mut other.values[1] {
            values[7] = f64::INFINITY;
        }
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines[8] = lines[8].replace("0.07", "inf");
        wrong(&lines.join("\n"), &other);
        let mut other = columns;
        if let ColumnValues::Words { words, .. } = &mut other.values[2] {
            words[2] = "west".to_owned();
        }
        wrong(&text.replace(",3,", ",west,"), &other);
        let uneven = vec![
            ("a".to_owned(), ColumnValues::Numbers { values: vec![1.0], plain: true }),
            ("b".to_owned(), ColumnValues::Numbers { values: vec![], plain: true }),
        ];
        assert!(Columns::new(uneven).expect_err("uneven").to_string().contains("0 values, not 1"));
    }
}
