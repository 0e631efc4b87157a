//! Records from LIBSVM's sparse text: `label index:value index:value …`, indices from 1 and
//! increasing.

use std::collections::BTreeSet;
use std::io::Read;

use super::error::shorten;
use super::format::decode;
use super::table::{Builder, ListedCell, Plan};
use super::{Column, DataError, Format, Kind, Label, Missing, Schema, Table};

/// The largest index accepted without a schema: a model has a number for every feature, and a
/// schema a column.
pub(crate) const MAX_FEATURES: usize = 1_000_000;

/// A numeric label with at most this many distinct values means classes, when there is no schema.
const MAX_CLASSES: usize = 20;

/// Reads records; a feature that is not listed is 0. Text after `#` is a comment. `file` is a name
/// for messages.
///
/// With a schema its numeric columns are the features, in order, and an index beyond them is an
/// error; it can have no categorical and no site column. Without one a schema is drafted from the
/// records: features `f1`, `f2`, … up to the largest index, ranges as seen. Such a schema is not
/// reviewed and no privacy claim can rest on it.
///
/// # Errors
/// [`DataError`] names the file and the line, and says what to do.
pub fn read(reader: impl Read, file: &str, schema: Option<&Schema>) -> Result<Table, DataError> {
    let decoded = decode(reader, file, None)?;
    let text = String::from_utf8(decoded.text).map_err(|_| DataError::Read {
        file: file.to_owned(),
        source: std::io::Error::other("it is not UTF-8 text"),
    })?;
    let rows = parse(&text, file)?;
    let drafted;
    let schema = if let Some(schema) = schema {
        schema
    } else {
        drafted = draft(&rows, file)?;
        &drafted
    };
    fill(&rows, file, schema)
}

/// One line, as text.
struct Row<'a> {
    line: u64,
    label: &'a str,
    pairs: Vec<(usize, &'a str)>,
}

fn parse<'a>(text: &'a str, file: &str) -> Result<Vec<Row<'a>>, DataError> {
    let mut rows = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.split('#').next().unwrap_or_default();
        let mut tokens = content.split_ascii_whitespace();
        let Some(label) = tokens.next() else { continue };
        let mut pairs: Vec<(usize, &str)> = Vec::new();
        for token in tokens {
            let pair =
                token.split_once(':').and_then(|(index, value)| Some((index.parse().ok()?, value)));
            let Some((index @ 1.., value)) = pair else {
                return Err(DataError::NotAPair {
                    file: file.to_owned(),
                    line,
                    cell: shorten(token),
                });
            };
            if pairs.last().is_some_and(|&(last, _)| last >= index) {
                return Err(DataError::IndexOrder {
                    file: file.to_owned(),
                    line,
                    index: index as u64,
                });
            }
            pairs.push((index, value));
        }
        rows.push(Row { line, label, pairs });
    }
    if rows.is_empty() {
        return Err(DataError::Empty { file: file.to_owned(), header: false });
    }
    Ok(rows)
}

fn fill(rows: &[Row<'_>], file: &str, schema: &Schema) -> Result<Table, DataError> {
    let columns = schema.columns();
    if let Some(column) =
        schema.features().find(|column| !matches!(column.kind, Kind::Numeric { .. }))
    {
        return Err(DataError::NotNumeric { encoding: "libsvm", column: column.name.clone() });
    }
    if let Some(column) =
        columns.iter().find(|column| matches!(column.kind, Kind::Site | Kind::Person { .. }))
    {
        return Err(DataError::NoSuchColumn {
            file: file.to_owned(),
            column: column.name.clone(),
            nearest: None,
        });
    }
    let ruled = |column: &&Column| {
        column.missing != Missing::Drop || !column.missing_words.is_empty() || column.date.is_some()
    };
    if let Some(column) = columns.iter().find(ruled) {
        let keys = if column.date.is_some() { "dates" } else { "missing, missing_words" };
        return Err(DataError::CsvOnly {
            file: file.to_owned(),
            column: column.name.clone(),
            keys,
        });
    }
    let missing = &schema.format().missing;
    let known = |text| (!missing.iter().any(|mark| mark == text)).then_some(text);
    let position = |wanted: fn(&Kind) -> bool| {
        columns.iter().enumerate().filter(move |(_, c)| wanted(&c.kind)).map(|(index, _)| index)
    };
    let features: Vec<usize> = position(Kind::is_feature).collect();
    let label: Vec<usize> = position(|kind| matches!(kind, Kind::Label(_))).collect();
    let label = *label.first().expect("a schema has a label");
    // A zero that is outside its declared range is moved into it, so it counts even where it is not
    // listed.
    let excludes_zero = |&column: &usize| match columns[column].kind {
        Kind::Numeric { min, max } => min > 0.0 || max < 0.0,
        _ => false,
    };
    let never_zero: Vec<usize> =
        (0..features.len()).filter(|&f| excludes_zero(&features[f])).collect();
    let plan = Plan::new(schema, file, None);
    let mut builder = Builder::sparse(&plan);
    let mut cells: Vec<ListedCell<'_>> = Vec::new();
    for row in rows {
        cells.clear();
        for &(index, value) in &row.pairs {
            let Some(&column) = features.get(index - 1) else {
                let (file, line, index) = (file.to_owned(), row.line, index as u64);
                return Err(DataError::IndexTooLarge {
                    file,
                    line,
                    index,
                    dim: features.len(),
                    declared: true,
                });
            };
            cells.push((index as u32 - 1, column, known(value)));
        }
        for &feature in &never_zero {
            if let Err(place) = cells.binary_search_by_key(&(feature as u32), |c| c.0) {
                cells.insert(place, (feature as u32, features[feature], Some("0")));
            }
        }
        builder.push_listed((label, known(row.label)), &cells, || row.line)?;
    }
    builder.finish()
}

/// The schema the records suggest, not reviewed.
fn draft(rows: &[Row<'_>], file: &str) -> Result<Schema, DataError> {
    let mut ranges: Vec<(f64, f64)> = Vec::new();
    let mut listed: Vec<usize> = Vec::new();
    for row in rows {
        for &(index, value) in &row.pairs {
            if index > MAX_FEATURES {
                let (file, line, index) = (file.to_owned(), row.line, index as u64);
                return Err(DataError::IndexTooLarge {
                    file,
                    line,
                    index,
                    dim: MAX_FEATURES,
                    declared: false,
                });
            }
            if ranges.len() < index {
                ranges.resize(index, (f64::INFINITY, f64::NEG_INFINITY));
                listed.resize(index, 0);
            }
            // What is not a number is reported when the row is filled in, with its column.
            let value = value.parse().ok().filter(|v: &f64| v.is_finite()).unwrap_or(0.0);
            let range = &mut ranges[index - 1];
            *range = (range.0.min(value), range.1.max(value));
            listed[index - 1] += 1;
        }
    }
    let features = ranges.iter().zip(&listed).enumerate().map(|(index, (&(min, max), &listed))| {
        // A feature some row leaves out is 0 there.
        let (min, max) =
            if listed < rows.len() { (min.min(0.0), max.max(0.0)) } else { (min, max) };
        let kind =
            Kind::Numeric { min, max: if min < max { max } else { min + min.abs().max(1.0) } };
        Column::new(format!("f{}", index + 1), kind)
    });
    let label = Column::new("label", Kind::Label(draft_label(rows)));
    let columns = std::iter::once(label).chain(features).collect();
    Ok(Schema::new(columns, Format::default(), false)?)
}

/// Whole numbers, few of them: classes. Other numbers: a range. Text: classes.
fn draft_label(rows: &[Row<'_>]) -> Label {
    let numbers: Vec<f64> = rows.iter().filter_map(|row| row.label.parse().ok()).collect();
    if numbers.len() < rows.len() {
        let names: BTreeSet<&str> = rows.iter().map(|row| row.label).collect();
        return Label::Classes(names.into_iter().map(str::to_owned).collect());
    }
    // An infinite or undefined label is reported when its row is filled in.
    let mut finite: Vec<f64> = numbers.into_iter().filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    finite.dedup();
    if finite.len() <= MAX_CLASSES && finite.iter().all(|value| value.fract() == 0.0) {
        return Label::Classes(finite.iter().map(f64::to_string).collect());
    }
    Label::Range { min: finite[0], max: finite[finite.len() - 1] }
}
