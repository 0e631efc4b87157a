//! Drafting a schema from files: what their columns seem to be, and what whoever reviews it should
//! look at.

use std::collections::BTreeMap;
use std::io::Read;

use super::csv::{Cells, read_text};
use super::date::{DateForm, Day, PATTERNS, split_date};
use super::error::nearest;
use super::format::{Marks, Reading};
use super::table::{EXACT, MISSING_WORDS};
use super::{Column, DataError, Format, Kind, Label, Schema, SchemaError};

/// How to draft a schema from files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftOptions {
    /// How the files are written, as far as that is known.
    pub format: Format,
    /// The label column; the last one by default.
    pub label: Option<String>,
    /// The site column; none by default.
    pub site: Option<String>,
    /// The class to find, of a label with two; the second in alphabetical order by default.
    pub positive: Option<String>,
}

/// A schema drafted from one or more files, with what a reviewer should look at.
///
/// Ranges and categories are those of the records, so the schema is **not reviewed** and no claim
/// can rest on it.
#[derive(Clone, Debug)]
pub struct Draft {
    schema: Schema,
    warnings: Vec<String>,
    comments: BTreeMap<String, Vec<String>>,
    readings: Vec<(String, Reading)>,
}

/// A text column with more distinct values than this is drafted as ignored: it is a name or a
/// number, not a category.
const MOST_CATEGORIES: usize = 100;
/// A numeric label with at most this many distinct values is drafted as classes.
const MOST_CLASSES: usize = 20;
/// A column has to have so many values before all being different says something.
const ENOUGH: u64 = 20;
/// Words among numbers are listed up to here.
const MOST_WORDS: usize = 20;
/// The day drafted dates are counted from: a constant, so that it says nothing about the records.
const ORIGIN: (i64, i64, i64) = (2000, 1, 1);
/// What is missing in a text column too, whatever else is in it.
const PLAIN_MISSING: [&str; 7] = ["NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL"];

impl Schema {
    /// Drafts a schema from a CSV: ranges and categories are those of the records, so the result is
    /// **not reviewed**. [`Draft::of`] does the same for several files and says what deserves a
    /// look.
    ///
    /// A column is numeric if its known cells are finite numbers but for a few words, a date if
    /// they are dates, else categorical (or ignored with more than 100 distinct values). Without a
    /// header columns are called `column-1`, `column-2`, ….
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read, is empty or ragged, or has no column of the given
    /// names.
    pub fn draft(reader: impl Read, file: &str, options: &DraftOptions) -> Result<Self, DataError> {
        Ok(Draft::of([(file.to_owned(), reader)], options)?.schema)
    }
}

impl Draft {
    /// Drafts one schema from files, given by name, that all have to follow it. A column that some
    /// file lacks is drafted as ignored.
    ///
    /// # Errors
    /// [`DataError`] if a file cannot be read, is empty or ragged, or has no column of the given
    /// names.
    pub fn of<R: Read>(
        files: impl IntoIterator<Item = (String, R)>,
        options: &DraftOptions,
    ) -> Result<Self, DataError> {
        let files = files
            .into_iter()
            .map(|(name, reader)| File::read(name, reader, &options.format))
            .collect::<Result<Vec<File>, _>>()?;
        let Some(first) = files.first() else {
            return Err(DataError::Empty { file: "no file".to_owned(), header: false });
        };
        let mut names = first.names.clone();
        for file in &files[1..] {
            names.extend(
                file.names.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>(),
            );
        }
        let label = named(&files, &options.label)?
            .unwrap_or_else(|| first.names[first.names.len() - 1].clone());
        named(&files, &Some(label.clone()))?;
        let site = named(&files, &options.site)?;
        let mut drafter =
            Drafter { files: &files, options, warnings: Vec::new(), comments: BTreeMap::new() };
        for file in &files {
            if let Some(warning) = &file.warning {
                drafter.warnings.push(format!("{}: {warning}", file.name));
            }
        }
        let mut columns = Vec::new();
        let mut identifiers = Vec::new();
        for name in &names {
            let column = if *name == label {
                drafter.label(name)?
            } else if Some(name) == site.as_ref() {
                Column::new(name, Kind::Site)
            } else {
                let (column, identifier) = drafter.feature(name);
                identifiers.extend(identifier.map(|kind| (columns.len(), kind)));
                column
            };
            columns.push(column);
        }
        if !columns.iter().any(|column: &Column| column.kind.is_feature()) {
            // Better a doubtful feature than none.
            identifiers.into_iter().for_each(|(index, kind)| columns[index].kind = kind);
        }
        drafter.lost(&columns);
        let Drafter { warnings, comments, .. } = drafter;
        let schema = Schema::new(columns, common_format(&files, &options.format), false)?;
        let readings = files.iter().map(|file| (file.name.clone(), file.reading)).collect();
        Ok(Self { schema, warnings, comments, readings })
    }

    /// The schema, not reviewed.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// What deserves a look, in sentences. They describe the records: for their owner, not for a
    /// peer.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// How each file was read.
    #[must_use]
    pub fn readings(&self) -> &[(String, Reading)] {
        &self.readings
    }

    /// What to look at in a column, for comments beside it in a schema file.
    #[must_use]
    pub fn comments(&self, column: &str) -> &[String] {
        self.comments.get(column).map_or(&[], Vec::as_slice)
    }

    /// Notes that the file of this place was unpacked before it was read, for [`Self::readings`].
    #[must_use]
    pub fn unpacked(mut self, file: usize, compression: &'static str) -> Self {
        if let Some((_, reading)) = self.readings.get_mut(file) {
            reading.compression = Some(compression);
        }
        self
    }
}

/// One file, column by column.
struct File {
    name: String,
    names: Vec<String>,
    columns: Vec<Cells>,
    reading: Reading,
    warning: Option<String>,
}

impl File {
    fn read(name: String, reader: impl Read, format: &Format) -> Result<Self, DataError> {
        let (names, columns, mut reading) = read_text(reader, &name, format)?;
        let mut marks = Marks::default();
        for column in &columns {
            let mut own = Marks::default();
            let numbers: u64 =
                column.counts.iter().map(|(cell, &n)| n * u64::from(own.add(cell, n))).sum();
            // A comma in a remark says nothing about numbers.
            if mostly(numbers, column.known()) {
                column.counts.iter().for_each(|(cell, &n)| {
                    marks.add(cell, n);
                });
            }
        }
        let ((decimal, thousands), warning) = marks.likeliest(reading.delimiter);
        let said = format.decimal.is_some() || format.thousands.is_some();
        if !said {
            (reading.decimal, reading.thousands) = (decimal, thousands);
        }
        Ok(Self { name, names, columns, reading, warning: warning.filter(|_| !said) })
    }

    fn column(&self, name: &str) -> Option<&Cells> {
        self.names.iter().position(|n| n == name).map(|index| &self.columns[index])
    }
}

impl Cells {
    fn known(&self) -> u64 {
        self.counts.values().sum()
    }
}

/// Whether four of five are.
fn mostly(some: u64, all: u64) -> bool {
    all > 0 && 5 * some >= 4 * all
}

/// A column that is asked for by name, which every file must have.
fn named(files: &[File], name: &Option<String>) -> Result<Option<String>, DataError> {
    let Some(name) = name else { return Ok(None) };
    match files.iter().find(|file| !file.names.contains(name)) {
        None => Ok(Some(name.clone())),
        Some(file) => Err(DataError::NoSuchColumn {
            file: file.name.clone(),
            column: name.clone(),
            nearest: nearest(name, file.names.iter().map(String::as_str)),
        }),
    }
}

/// What all files have in common; what differs is left open, and found out for each file when it is
/// read.
fn common_format(files: &[File], given: &Format) -> Format {
    let common = |mark: fn(&Reading) -> char| {
        let first = mark(&files[0].reading);
        files.iter().all(|file| mark(&file.reading) == first).then_some(first)
    };
    let thousands = files[0].reading.thousands;
    let decimal = common(|r| r.decimal).filter(|&mark| mark != '.');
    Format {
        delimiter: common(|r| r.delimiter),
        quote: common(|r| r.quote).filter(|&mark| mark != '"'),
        decimal,
        thousands: thousands
            .filter(|_| files.iter().all(|file| file.reading.thousands == thousands)),
        ..given.clone()
    }
}

/// A column of all files together.
#[derive(Default)]
struct Merged {
    /// Distinct numbers, in order.
    numbers: Vec<(f64, u64)>,
    /// Cells that are no finite numbers.
    words: BTreeMap<String, u64>,
    /// All known cells as they are written.
    texts: BTreeMap<String, u64>,
    known: u64,
    missing: u64,
    /// An integer that numbers cannot hold.
    inexact: Option<String>,
}

impl Merged {
    fn of(files: &[File], name: &str) -> Self {
        let mut merged = Self::default();
        for file in files {
            let Some(cells) = file.column(name) else { continue };
            merged.missing += cells.missing;
            for (cell, &count) in &cells.counts {
                merged.known += count;
                *merged.texts.entry(cell.clone()).or_default() += count;
                match file.reading.number(cell).filter(|value| value.is_finite()) {
                    Some(value) => {
                        if value.abs() >= EXACT && cell.bytes().all(|byte| byte.is_ascii_digit()) {
                            merged.inexact = Some(cell.clone());
                        }
                        merged.numbers.push((value, count));
                    }
                    None => *merged.words.entry(cell.clone()).or_default() += count,
                }
            }
        }
        merged.numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        merged.numbers.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        merged
    }

    fn numeric(&self) -> u64 {
        self.numbers.iter().map(|(_, count)| count).sum()
    }

    fn range(&self) -> Option<(f64, f64)> {
        Some((self.numbers.first()?.0, self.numbers.last()?.0))
    }

    /// The most frequent value and its share.
    fn commonest(&self) -> Option<(&str, f64)> {
        let (text, count) = self.texts.iter().max_by_key(|(_, count)| **count)?;
        Some((text, *count as f64 / self.known as f64))
    }

    /// Words that mean "unknown" wherever they are.
    fn plain_missing(&self) -> Vec<String> {
        self.words.keys().filter(|word| PLAIN_MISSING.contains(&word.as_str())).cloned().collect()
    }

    /// Patterns that all cells follow but for words that mean "unknown".
    fn dates(&self) -> Vec<&'static str> {
        let cells: Vec<&String> = self.texts.keys().filter(|text| !means_missing(text)).collect();
        let written = |pattern: &&&str| {
            let form = DateForm { format: (**pattern).to_owned(), origin: origin() };
            // Digits alone are a date only if they are one of these centuries and several agree.
            let packed = !pattern.contains(['-', '.', '/']);
            let likely = |cell: &&&String| {
                split_date(pattern, cell).is_some_and(|(day, _)| {
                    Day::new(1900, 1, 1) <= Some(day) && Some(day) <= Day::new(2100, 1, 1)
                })
            };
            cells.iter().all(|cell| form.number(cell).is_some())
                && (!packed || (cells.len() >= 5 && cells.iter().all(|cell| likely(&cell))))
        };
        if cells.is_empty() {
            Vec::new()
        } else {
            PATTERNS.iter().filter(written).copied().collect()
        }
    }
}

/// Whether a word among numbers or dates says that nothing is known.
fn means_missing(text: &str) -> bool {
    MISSING_WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

fn origin() -> Day {
    let (year, month, day) = ORIGIN;
    Day::new(year, month, day).expect("a constant that is a date")
}

struct Drafter<'a> {
    files: &'a [File],
    options: &'a DraftOptions,
    warnings: Vec<String>,
    comments: BTreeMap<String, Vec<String>>,
}

impl Drafter<'_> {
    fn warn(&mut self, name: &str, text: &str) {
        self.warnings.push(format!("column \"{name}\": {text}"));
        self.comment(name, text);
    }

    fn comment(&mut self, name: &str, text: &str) {
        self.comments.entry(name.to_owned()).or_default().push(text.to_owned());
    }

    /// A column that is not the label, and the kind it would have if it were no identifier.
    fn feature(&mut self, name: &str) -> (Column, Option<Kind>) {
        let lacking: Vec<&str> = self
            .files
            .iter()
            .filter(|f| f.column(name).is_none())
            .map(|f| f.name.as_str())
            .collect();
        if !lacking.is_empty() {
            let files = lacking.join(", ");
            self.warn(name, &format!("not in {files}, so it is drafted as ignored"));
            return (Column::new(name, Kind::Ignored), None);
        }
        let cells = Merged::of(self.files, name);
        if cells.known == 0 {
            self.warn(name, "has no value in any record, so it is drafted as ignored");
            return (Column::new(name, Kind::Ignored), None);
        }
        if let Some(why) = identifier(name, &cells) {
            self.warn(
                name,
                &format!("{why}: it looks like a row identifier and is drafted as ignored"),
            );
            let kind = cells
                .range()
                .filter(|(min, max)| min < max)
                .map(|(min, max)| Kind::Numeric { min, max });
            return (Column::new(name, Kind::Ignored), kind);
        }
        let column = self.shape(name, &cells);
        self.remark(name, &cells, &column);
        (column, None)
    }

    fn shape(&mut self, name: &str, cells: &Merged) -> Column {
        let dates = cells.dates();
        if let Some(&format) = dates.first() {
            return self.date(name, cells, format, &dates);
        }
        let unknown: u64 =
            cells.words.iter().filter(|(word, _)| means_missing(word)).map(|(_, n)| n).sum();
        let few_words =
            cells.words.len() <= MOST_WORDS && mostly(cells.numeric(), cells.known - unknown);
        match cells.range() {
            Some((min, max)) if few_words && min < max => {
                let mut column = Column::new(name, Kind::Numeric { min, max });
                column.missing_words = cells.words.keys().cloned().collect();
                if !cells.words.is_empty() {
                    let text = format!(
                        "numbers, but for {}: such cells are drafted as missing; mend them, or make it categorical",
                        list(cells.words.iter().map(|(word, count)| format!("{word:?} ({count})")))
                    );
                    self.warn(name, &text);
                }
                column
            }
            Some(_) if few_words => {
                let value = cells.texts.keys().next().map_or("", String::as_str);
                self.warn(
                    name,
                    &format!("every record holds {value}, so it is drafted as ignored"),
                );
                Column::new(name, Kind::Ignored)
            }
            _ => self.category(name, cells),
        }
    }

    fn category(&mut self, name: &str, cells: &Merged) -> Column {
        let unknown = cells.plain_missing();
        let categories: Vec<String> =
            cells.texts.keys().filter(|t| !unknown.contains(t)).cloned().collect();
        if categories.len() > MOST_CATEGORIES {
            let text = format!(
                "{} different texts, more than {MOST_CATEGORIES}, so it is drafted as ignored; group them if they matter",
                categories.len()
            );
            self.warn(name, &text);
            return Column::new(name, Kind::Ignored);
        }
        if categories.is_empty() {
            self.warn(name, "has no value in any record, so it is drafted as ignored");
            return Column::new(name, Kind::Ignored);
        }
        if let ([value], true) = (&categories[..], cells.known >= ENOUGH) {
            self.warn(name, &format!("every record holds {value:?}, so it is drafted as ignored"));
            return Column::new(name, Kind::Ignored);
        }
        if !unknown.is_empty() {
            self.warn(
                name,
                &format!("{} drafted as missing", list(unknown.iter().map(|w| format!("{w:?}")))),
            );
        }
        for file in self.files.iter().filter(|_| self.files.len() > 1) {
            let seen = file.column(name);
            let lacks = categories
                .iter()
                .filter(|c| seen.is_none_or(|cells| !cells.counts.contains_key(*c)));
            let lacks: Vec<String> = lacks.map(|c| format!("{c:?}")).collect();
            if !lacks.is_empty() {
                let text = format!(
                    "column \"{name}\": {} has no record with {}",
                    file.name,
                    list(lacks.into_iter())
                );
                self.warnings.push(text);
            }
        }
        let mut column = Column::new(name, Kind::Categorical { categories });
        column.missing_words = unknown;
        column
    }

    fn date(&mut self, name: &str, cells: &Merged, format: &'static str, dates: &[&str]) -> Column {
        if let [first, second, ..] = dates {
            self.warn(
                name,
                &format!("its dates may be written as {first} or as {second}: set format"),
            );
        }
        let form = DateForm { format: format.to_owned(), origin: origin() };
        let days: Vec<f64> = cells.texts.keys().filter_map(|cell| form.number(cell)).collect();
        let (min, max) =
            days.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), &d| (a.min(d), b.max(d)));
        if min == max {
            self.warn(name, "every record has the same date, so it is drafted as ignored");
            return Column::new(name, Kind::Ignored);
        }
        // Whole days, so that they can be written as dates.
        let mut column = Column::new(name, Kind::Numeric { min: min.floor(), max: max.ceil() });
        column.missing_words =
            cells.texts.keys().filter(|c| form.number(c).is_none()).cloned().collect();
        column.date = Some(form);
        self.warn(name, &format!("dates ({format}), read as days since {}", origin()));
        self.comment(
            name,
            "min and max are the first and the last date of the records. Replace them by what is public, such as whole years",
        );
        column
    }

    /// What a reviewer should know about a feature.
    fn remark(&mut self, name: &str, cells: &Merged, column: &Column) {
        if let Some(cell) = &cells.inexact {
            let text = format!(
                "holds integers beyond 2^53 such as {cell}, which a number cannot tell apart"
            );
            self.warn(name, &text);
        }
        if let Some((value, share)) = cells.commonest()
            && share >= 0.99
            && cells.known >= ENOUGH
            && cells.texts.len() > 1
        {
            let text = format!(
                "{:.1} % of the records hold {value:?}: it can hardly help a model",
                100.0 * share
            );
            self.warn(name, &text);
        }
        if let (Kind::Numeric { min, max }, None) = (&column.kind, &column.date) {
            let (low, high) = suggested(*min, *max);
            self.comment(
                name,
                &format!("min and max are those of the records. Replace them by what is public: perhaps {low} to {high}?"),
            );
        }
        let words: u64 = column.missing_words.iter().filter_map(|word| cells.texts.get(word)).sum();
        let (missing, all) = (cells.missing + words, cells.known + cells.missing);
        if missing > 0 && column.kind.is_feature() {
            let text = format!(
                "{missing} of {all} values are missing. Such records are dropped, unless: missing = \"category\" or {{ impute = a public value }}"
            );
            self.comment(name, &text);
        }
    }

    fn label(&mut self, name: &str) -> Result<Column, DataError> {
        let cells = Merged::of(self.files, name);
        let unknown: Vec<String> = cells.plain_missing();
        let numbers = cells.words.keys().all(|word| unknown.contains(word));
        let mut classes: Vec<String> =
            cells.texts.keys().filter(|text| !unknown.contains(text)).cloned().collect();
        let label = match cells.range() {
            Some((min, max)) if numbers && cells.numbers.len() > MOST_CLASSES => {
                let (low, high) = suggested(min, max);
                self.comment(
                    name,
                    &format!(
                        "A number to predict. Replace min and max by what is public: perhaps {low} to {high}?"
                    ),
                );
                Label::Range { min, max }
            }
            _ => {
                let reading = self.files[0].reading;
                if numbers {
                    classes.sort_by(|a, b| {
                        let number = |text: &str| reading.number(text).unwrap_or(f64::NAN);
                        number(a).total_cmp(&number(b))
                    });
                }
                if classes.len() > MOST_CATEGORIES {
                    let text = format!(
                        "{} different labels, more than {MOST_CATEGORIES}: is this the column to predict? --label names another",
                        classes.len()
                    );
                    self.warn(name, &text);
                }
                self.positive(name, &mut classes)?;
                Label::Classes(classes)
            }
        };
        let mut column = Column::new(name, Kind::Label(label));
        column.missing_words = unknown;
        Ok(column)
    }

    /// Puts the class to find second, or asks for it.
    fn positive(&mut self, name: &str, classes: &mut [String]) -> Result<(), DataError> {
        match (&self.options.positive, &mut *classes) {
            (Some(positive), [first, second]) => {
                if positive == first {
                    std::mem::swap(first, second);
                } else if positive != second {
                    let (positive, classes) = (positive.clone(), classes.to_vec());
                    let name = name.to_owned();
                    return Err(
                        SchemaError::UnknownPositive { index: 0, name, positive, classes }.into()
                    );
                }
            }
            (Some(_), _) => {
                let (name, found) = (name.to_owned(), classes.len());
                return Err(SchemaError::PositiveOfMany { index: 0, name, found }.into());
            }
            (None, [first, second]) => {
                let text = format!(
                    "which class is to be found? {second:?} is taken as positive; for the other add positive = {first:?}"
                );
                self.warn(name, &text);
            }
            (None, _) => {}
        }
        Ok(())
    }

    /// Warns if dropping records with a missing value would lose many of them, at least as many as
    /// the emptiest column has.
    fn lost(&mut self, columns: &[Column]) {
        let share = |column: &Column| {
            let cells = Merged::of(self.files, &column.name);
            let words: u64 =
                column.missing_words.iter().filter_map(|word| cells.texts.get(word)).sum();
            (cells.missing + words) as f64 / (cells.known + cells.missing).max(1) as f64
        };
        let features = columns.iter().filter(|column| column.kind.is_feature());
        let worst =
            features.map(|column| (share(column), &column.name)).max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((share, name)) = worst
            && share > 0.1
        {
            let name = name.clone();
            let text = format!(
                "{:.0} % of its values are missing, and dropping such records loses them: consider missing = \"category\" or {{ impute = a public value }}",
                100.0 * share
            );
            self.warnings.push(format!("column \"{name}\": {text}"));
        }
    }
}

/// Why a column looks like a row identifier.
fn identifier(name: &str, cells: &Merged) -> Option<&'static str> {
    let distinct = cells.texts.len() as u64 == cells.known;
    if !distinct || cells.known < ENOUGH || !cells.dates().is_empty() {
        return None;
    }
    match (cells.range(), cells.words.len()) {
        (None, _) => Some("every record has a text of its own"),
        (Some((min, max)), 0) if cells.numbers.iter().all(|(value, _)| value.fract() == 0.0) => {
            let words = name.to_lowercase();
            let mut words = words.split(|c: char| !c.is_alphanumeric());
            let called = words.any(|word| {
                matches!(word, "id" | "nr" | "no" | "number" | "nummer" | "index" | "uuid")
            });
            if max - min + 1.0 == cells.known as f64 {
                Some("its values count the records")
            } else {
                (called || cells.inexact.is_some())
                    .then_some("every record has a number of its own")
            }
        }
        _ => None,
    }
}

/// A range of round numbers around another one.
fn suggested(min: f64, max: f64) -> (f64, f64) {
    let low = if min >= 0.0 && min <= max / 2.0 { 0.0 } else { -rounded_up(-min) };
    (low, rounded_up(max))
}

/// The next number up of one significant digit, or of two that end with 5 or begin with 1.
fn rounded_up(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10_f64.powf(value.abs().log10().floor());
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let tidy = |step: f64| (step * scale * 1e12).round() / 1e12;
    if value > 0.0 {
        steps.into_iter().map(tidy).find(|&step| step >= value).unwrap_or(value)
    } else {
        steps.into_iter().rev().map(|step| tidy(-step)).find(|&step| step >= value).unwrap_or(value)
    }
}

/// The first few, and how many more there are.
fn list(mut items: impl Iterator<Item = String>) -> String {
    let first: Vec<String> = items.by_ref().take(5).collect();
    match items.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
