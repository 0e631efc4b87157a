//! Drafting a schema from files: what their columns seem to be, and what whoever reviews it should
//! look at.

use std::collections::BTreeMap;
use std::io::Read;

use super::cells::{Cells, follows, means_missing, mostly, origin};
use super::csv::{Columns, Open, read_columns, read_columns_opened};
use super::date::{DateForm, PATTERNS};
use super::error::nearest;
use super::format::Reading;
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
/// Years of school, children, stays: what is counted about a person hardly exceeds this.
const MOST_COUNTED: f64 = 30.0;
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
        let read =
            |(name, reader)| File::of(name, |name| read_columns(reader, name, &options.format));
        Self::of_files(&files.into_iter().map(read).collect::<Result<Vec<File>, _>>()?, options)
    }

    /// Drafts one schema from files as [`Self::of`] does, given by name and how they are opened,
    /// without holding their text.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn of_opened(
        files: &[(String, Box<Open<'_>>)],
        options: &DraftOptions,
    ) -> Result<Self, DataError> {
        let read = |(name, open): &(String, Box<Open<'_>>)| {
            File::of(name.clone(), |name| read_columns_opened(open, name, &options.format))
        };
        Self::of_files(&files.iter().map(read).collect::<Result<Vec<File>, _>>()?, options)
    }

    fn of_files(files: &[File], options: &DraftOptions) -> Result<Self, DataError> {
        let Some(first) = files.first() else {
            return Err(DataError::Empty { file: "no file".to_owned(), header: false });
        };
        let mut names = first.names.clone();
        for file in &files[1..] {
            names.extend(
                file.names.iter().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>(),
            );
        }
        let label = named(files, &options.label)?
            .unwrap_or_else(|| first.names[first.names.len() - 1].clone());
        named(files, &Some(label.clone()))?;
        let site = named(files, &options.site)?;
        let mut drafter =
            Drafter { files, options, warnings: Vec::new(), comments: BTreeMap::new(), site: None };
        drafter.site = match &site {
            Some(site) => Some(site.clone()),
            None => drafter.likely_site(&names, &label),
        };
        for file in files {
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
        let schema = Schema::new(columns, common_format(files, &options.format), false)?;
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
    fn of(
        name: String,
        read: impl FnOnce(&str) -> Result<Columns, DataError>,
    ) -> Result<Self, DataError> {
        let Columns { names, cells: columns, reading, warning } = read(&name)?;
        Ok(Self { name, names, columns, reading, warning })
    }

    fn column(&self, name: &str) -> Option<&Cells> {
        self.names.iter().position(|n| n == name).map(|index| &self.columns[index])
    }
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
struct Merged<'a> {
    files: Vec<&'a Cells>,
    /// Different numbers, in order, of texts that are kept.
    numbers: Vec<f64>,
    /// Cells that are no finite numbers.
    words: BTreeMap<&'a str, u64>,
    /// Known cells as they are written, of texts that are kept.
    texts: BTreeMap<&'a str, u64>,
    /// Whether there are more numbers, and more words, than are kept.
    more_numbers: bool,
    more_words: bool,
    known: u64,
    missing: u64,
    /// An integer that numbers cannot hold.
    inexact: Option<&'a str>,
}

impl<'a> Merged<'a> {
    fn of(files: &'a [File], name: &str) -> Self {
        let mut merged = Self::default();
        for cells in files.iter().filter_map(|file| file.column(name)) {
            merged.missing += cells.missing;
            merged.known += cells.known;
            merged.more_numbers |= cells.more_numbers.cells > 0;
            merged.more_words |= cells.more_words.cells > 0;
            merged.inexact = cells.inexact.as_deref().or(merged.inexact);
            for (text, seen) in &cells.counts {
                *merged.texts.entry(text).or_default() += seen.count;
                if seen.number.is_nan() {
                    *merged.words.entry(text).or_default() += seen.count;
                } else {
                    merged.numbers.push(seen.number);
                }
            }
            merged.files.push(cells);
        }
        merged.numbers.sort_by(f64::total_cmp);
        merged.numbers.dedup();
        merged
    }

    fn numeric(&self) -> u64 {
        self.files.iter().map(|cells| cells.numeric).sum()
    }

    fn range(&self) -> Option<(f64, f64)> {
        let ranges = self.files.iter().map(|cells| cells.range).filter(|(min, max)| min <= max);
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Whether all numbers are whole.
    fn whole(&self) -> bool {
        self.files.iter().all(|cells| cells.whole)
    }

    /// Whether these are whole numbers from nought to [`MOST_COUNTED`].
    fn counts(&self) -> bool {
        let small = |(min, max): (f64, f64)| min >= 0.0 && max <= MOST_COUNTED;
        self.words.is_empty() && self.whole() && self.range().is_some_and(small)
    }

    /// Whether there are at most so many words.
    fn few_words(&self, most: usize) -> bool {
        !self.more_words && self.words.len() <= most
    }

    /// Whether there are more different numbers than so many.
    fn many_numbers(&self, many: usize) -> bool {
        self.more_numbers || self.numbers.len() > many
    }

    /// How many different texts there are, if that is known.
    fn different(&self) -> Option<u64> {
        if !self.files.iter().any(|cells| cells.has_more()) {
            return Some(self.texts.len() as u64);
        }
        let hashes: Option<Vec<Vec<u64>>> = self.files.iter().map(|cells| cells.hashes()).collect();
        let mut hashes = hashes?.concat();
        hashes.sort_unstable();
        hashes.dedup();
        Some(hashes.len() as u64)
    }

    /// How many different texts there are but for so many, as far as that is known.
    fn how_many(&self, but: usize) -> String {
        match self.different() {
            Some(count) => (count - but as u64).to_string(),
            None => format!("over {}", self.texts.len() - but),
        }
    }

    /// How often the most frequent text occurs, if all are kept.
    fn most_of_one(&self) -> Option<u64> {
        let most = self.texts.values().max().copied();
        most.filter(|_| !self.more_numbers && !self.more_words)
    }

    /// Whether every one of several files has a value of its own in all its records, as a site's
    /// number that is exported with them has.
    fn names_files(&self) -> bool {
        let one = |cells: &&Cells| cells.counts.len() == 1 && !cells.has_more() && cells.known > 1;
        self.files.len() > 1
            && self.known >= ENOUGH
            && self.files.iter().all(one)
            && self.texts.len() == self.files.len()
    }

    /// The most frequent value and its share.
    fn commonest(&self) -> Option<(&str, f64)> {
        let (text, count) = self.texts.iter().max_by_key(|(_, count)| **count)?;
        Some((text, *count as f64 / self.known as f64))
    }

    /// Words that mean "unknown" wherever they are.
    fn plain_missing(&self) -> Vec<String> {
        let plain = self.words.keys().filter(|word| PLAIN_MISSING.contains(word));
        plain.map(|&word| word.to_owned()).collect()
    }

    /// Patterns that all cells follow but for words that mean "unknown".
    fn dates(&self) -> Vec<&'static str> {
        let texts: Vec<&str> =
            self.texts.keys().copied().filter(|text| !means_missing(text)).collect();
        let written = |&(index, pattern): &(usize, &&str)| {
            // Digits alone are a date only if several agree.
            let packed = !pattern.contains(['-', '.', '/']);
            self.files.iter().all(|cells| cells.dates.written[index])
                && (!packed || texts.len() >= 5)
                && texts.iter().all(|text| follows(pattern, text).is_some())
        };
        if texts.is_empty() {
            return Vec::new();
        }
        PATTERNS.iter().enumerate().filter(written).map(|(_, pattern)| *pattern).collect()
    }

    /// The first and the last date, in days, of a pattern that all cells follow.
    fn days(&self, pattern: &str) -> (f64, f64) {
        let more = PATTERNS.iter().position(|known| *known == pattern).into_iter();
        let more = more.flat_map(|at| self.files.iter().map(move |cells| cells.dates.range[at]));
        let kept = self.texts.keys().filter_map(|text| follows(pattern, text)).map(|d| (d, d));
        kept.chain(more).fold((f64::INFINITY, f64::NEG_INFINITY), |all, days| {
            (all.0.min(days.0), all.1.max(days.1))
        })
    }
}

struct Drafter<'a> {
    files: &'a [File],
    options: &'a DraftOptions,
    warnings: Vec<String>,
    comments: BTreeMap<String, Vec<String>>,
    /// The column that names sites: the one that is called so most plainly.
    site: Option<String>,
}

impl Drafter<'_> {
    fn warn(&mut self, name: &str, text: &str) {
        self.warnings.push(format!("column \"{name}\": {text}"));
        self.comment(name, text);
    }

    fn comment(&mut self, name: &str, text: &str) {
        self.comments.entry(name.to_owned()).or_default().push(text.to_owned());
    }

    /// The column that is called what sites are called most plainly: "site" before "school", which
    /// may be years of it.
    fn likely_site(&self, names: &[String], label: &str) -> Option<String> {
        let candidates = names.iter().filter(|name| *name != label).filter_map(|name| {
            let there = self.files.iter().all(|file| file.column(name).is_some());
            let rank = site_rank(name).filter(|_| there)?;
            let cells = Merged::of(self.files, name);
            matches!(whose(name, &cells), Some(Whose::Site)).then_some((rank, name))
        });
        // The first of several.
        candidates.min_by_key(|(rank, _)| *rank).map(|(_, name)| name.clone())
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
        if let Some(whose) = whose(name, &cells) {
            match self.site.clone().filter(|site| site != name && matches!(whose, Whose::Site)) {
                Some(site) if cells.counts() => self.warn(
                    name,
                    &format!(
                        "is called as sites are, but {site:?} names them and these are small whole numbers, as of years or stays: drafted \
                         as something to learn from; if they number sites, write kind = \"ignored\""
                    ),
                ),
                _ => return (self.of_somebody(name, &cells, &whose), None),
            }
        }
        if cells.names_files() {
            self.warn(
                name,
                "has one value in every file and another one in each, so that it says only which file a record is of: drafted as \
                 ignored; if it is something to learn from, write kind = \"numeric\" or \"categorical\"",
            );
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

    /// A column that says whose a record is: no feature, for a model of who somebody is says little
    /// of others, and such a column would become one in silence.
    fn of_somebody(&mut self, name: &str, cells: &Merged<'_>, whose: &Whose) -> Column {
        let values = cells.how_many(0);
        match whose {
            Whose::Site => {
                let other = self.site.clone().filter(|site| site != name);
                let Some(other) = other else {
                    self.warn(
                        name,
                        &format!(
                            "names {values} sites, so it is drafted as kind = \"site\": write partition = {{ by = {name:?} }} under [data]; \
                             if it is something to learn from, write kind = \"numeric\" or \"categorical\""
                        ),
                    );
                    return Column::new(name, Kind::Site);
                };
                self.warn(
                    name,
                    &format!(
                        "seems to name sites, as {other:?} does, so it is drafted as ignored: if it is something to learn from, \
                         write kind = \"numeric\" or \"categorical\""
                    ),
                );
                Column::new(name, Kind::Ignored)
            }
            Whose::Person => {
                let (each, most) = match cells.most_of_one() {
                    Some(most) => (format!("up to {most} records"), most.to_string()),
                    None => ("several records".to_owned(), "the most that one has".to_owned()),
                };
                self.warn(
                    name,
                    &format!(
                        "names persons, with {each} each, and is drafted as ignored: to protect persons instead of records write \
                         kind = \"person\" and records = {most}; if these are sites, kind = \"site\""
                    ),
                );
                Column::new(name, Kind::Ignored)
            }
        }
    }

    fn shape(&mut self, name: &str, cells: &Merged<'_>) -> Column {
        let dates = cells.dates();
        if let Some(&format) = dates.first() {
            return self.date(name, cells, format, &dates);
        }
        let unknown: u64 =
            cells.words.iter().filter(|(word, _)| means_missing(word)).map(|(_, n)| n).sum();
        let few_words =
            cells.few_words(MOST_WORDS) && mostly(cells.numeric(), cells.known - unknown);
        match cells.range() {
            Some((min, max)) if few_words && min < max => {
                let mut column = Column::new(name, Kind::Numeric { min, max });
                column.missing_words = cells.words.keys().map(|&word| word.to_owned()).collect();
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
                let value = cells.texts.keys().next().copied().unwrap_or_default();
                self.warn(
                    name,
                    &format!("every record holds {value}, so it is drafted as ignored"),
                );
                Column::new(name, Kind::Ignored)
            }
            _ => self.category(name, cells),
        }
    }

    fn category(&mut self, name: &str, cells: &Merged<'_>) -> Column {
        let unknown = cells.plain_missing();
        let categories = cells.texts.keys().map(|&text| text.to_owned());
        let categories: Vec<String> = categories.filter(|text| !unknown.contains(text)).collect();
        if cells.more_numbers || cells.more_words || categories.len() > MOST_CATEGORIES {
            let text = format!(
                "{} different texts, more than {MOST_CATEGORIES}, so it is drafted as ignored; group them if they matter",
                cells.how_many(unknown.len())
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
                .filter(|c| seen.is_none_or(|cells| !cells.counts.contains_key(c.as_str())));
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

    fn date(
        &mut self,
        name: &str,
        cells: &Merged<'_>,
        format: &'static str,
        dates: &[&str],
    ) -> Column {
        if let [first, second, ..] = dates {
            self.warn(
                name,
                &format!("its dates may be written as {first} or as {second}: set format"),
            );
        }
        let form = DateForm { format: format.to_owned(), origin: origin() };
        let (min, max) = cells.days(format);
        if min == max {
            self.warn(name, "every record has the same date, so it is drafted as ignored");
            return Column::new(name, Kind::Ignored);
        }
        // Whole days, so that they can be written as dates.
        let mut column = Column::new(name, Kind::Numeric { min: min.floor(), max: max.ceil() });
        let words = cells.texts.keys().filter(|text| form.number(text).is_none());
        column.missing_words = words.map(|&word| word.to_owned()).collect();
        column.date = Some(form);
        self.warn(name, &format!("dates ({format}), read as days since {}", origin()));
        self.comment(
            name,
            "min and max are the first and the last date of the records. Replace them by what is public, such as whole years",
        );
        column
    }

    /// What a reviewer should know about a feature.
    fn remark(&mut self, name: &str, cells: &Merged<'_>, column: &Column) {
        if let Some(cell) = cells.inexact {
            let text = format!(
                "holds integers beyond 2^53 such as {cell}, which a number cannot tell apart"
            );
            self.warn(name, &text);
        }
        if let Some((value, share)) = cells.commonest()
            && share >= 0.99
            && cells.known >= ENOUGH
            && (cells.texts.len() > 1 || cells.more_numbers || cells.more_words)
        {
            let text = format!(
                "{:.1} % of the records hold {value:?}: it can hardly help a model",
                100.0 * share
            );
            self.warn(name, &text);
        }
        if let (Kind::Numeric { min, max }, None) = (&column.kind, &column.date) {
            let (low, high) = suggested(name, *min, *max);
            let whole = match cells.whole() && high - low < 2000.0 {
                true => " If they can be whole numbers only: step = 1.",
                false => "",
            };
            self.comment(
                name,
                &format!("min and max are those of the records. Replace them by what is public: perhaps {low} to {high}?{whole}"),
            );
        }
        let words: u64 =
            column.missing_words.iter().filter_map(|word| cells.texts.get(word.as_str())).sum();
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
        let is_unknown = |text: &str| unknown.iter().any(|word| word == text);
        let numbers = !cells.more_words && cells.words.keys().all(|word| is_unknown(word));
        let classes = cells.texts.keys().filter(|text| !is_unknown(text));
        let mut classes: Vec<String> = classes.map(|&text| text.to_owned()).collect();
        let label = match cells.range() {
            Some((min, max)) if numbers && cells.many_numbers(MOST_CLASSES) => {
                let (low, high) = suggested(name, min, max);
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
                if let Some((min, max)) = cells.range().filter(|_| numbers && classes.len() > 2) {
                    let (low, high) = suggested(name, min, max);
                    let text = format!(
                        "{} different numbers are drafted as classes; if they are a count or an amount to predict, write min = {low} and \
                         max = {high} instead of classes",
                        classes.len()
                    );
                    self.warn(name, &text);
                }
                if classes.len() > MOST_CATEGORIES {
                    let text = format!(
                        "{} different labels, more than {MOST_CATEGORIES}: is this the column to predict? --label names another",
                        cells.how_many(unknown.len())
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
                // Of most pairs the second in the order of letters is the one: no and yes, alive and dead.
                if FOUND_FIRST.contains(&first.to_lowercase().as_str()) {
                    std::mem::swap(first, second);
                }
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
                column.missing_words.iter().filter_map(|word| cells.texts.get(word.as_str())).sum();
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

/// Classes to be found that stand before their opposites in the order of letters.
const FOUND_FIRST: [&str; 4] = ["ja", "j", "case", "abnormal"];

/// Why a column looks like a row identifier.
fn identifier(name: &str, cells: &Merged<'_>) -> Option<&'static str> {
    let distinct = || cells.different() == Some(cells.known);
    if cells.known < ENOUGH || !distinct() || !cells.dates().is_empty() {
        return None;
    }
    match (cells.range(), cells.few_words(0)) {
        (None, _) => Some("every record has a text of its own"),
        (Some((min, max)), true) if cells.whole() => {
            let called = words(name).iter().any(|word| {
                matches!(word.as_str(), "id" | "nr" | "no" | "index" | "uuid")
                    || ["number", "nummer"].iter().any(|end| word.ends_with(end))
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

/// Whose a column says that a record is.
enum Whose {
    Site,
    Person,
}

/// What sites are called, the plainest first.
const SITES: [&str; 15] = [
    "site",
    "hospital",
    "centre",
    "center",
    "clinic",
    "school",
    "branch",
    "store",
    "plant",
    "institution",
    "facility",
    "krankenhaus",
    "klinik",
    "standort",
    "schule",
];

/// Whether a column is called by one of some words, alone or as its number: "school", "school_id"
/// and "Patientennummer", but not "school_size". The place of the word.
fn called(name: &str, all: &[&str]) -> Option<usize> {
    let words = words(name);
    let number = |w: &str| matches!(w, "id" | "nr" | "no" | "number" | "code" | "name" | "");
    let place = all.iter().position(|w| words.iter().any(|word| word == w));
    place.filter(|_| words.iter().all(|w| all.contains(&w.as_str()) || number(w))).or_else(|| {
        let joined = words.concat();
        let ends = ["id", "nr", "number", "nummer"];
        let stem = ends.iter().find_map(|end| joined.strip_suffix(end))?;
        // "Patientennummer", "Kundennr".
        all.iter()
            .position(|w| stem.strip_prefix(w).is_some_and(|rest| matches!(rest, "" | "n" | "en")))
    })
}

/// The words of a column's name in small letters, whether they are parted by marks or by capitals:
/// "store_id" and "StoreID" have the same two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let starts = before.is_lowercase() && c.is_uppercase();
        if starts || !(c.is_alphanumeric() || c == '%') {
            words.push(String::new());
        }
        if c.is_alphanumeric() || c == '%' {
            words.last_mut().expect("one at least").extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

fn site_rank(name: &str) -> Option<usize> {
    called(name, &SITES)
}

/// Whether a column is called what sites or persons are called, and has several records for each of
/// several values.
fn whose(name: &str, cells: &Merged<'_>) -> Option<Whose> {
    const PERSONS: [&str; 12] = [
        "patient",
        "person",
        "subject",
        "pupil",
        "student",
        "customer",
        "client",
        "member",
        "participant",
        "proband",
        "schüler",
        "kunde",
    ];
    let several =
        cells.texts.len() > 1 && cells.different().is_none_or(|different| different < cells.known);
    if several && site_rank(name).is_some() {
        Some(Whose::Site)
    } else if several && called(name, &PERSONS).is_some() {
        Some(Whose::Person)
    } else {
        None
    }
}

/// What a number can be at all, where its name says what it is and its values agree: percentages,
/// latitudes, longitudes, hours of a day, and the like.
fn by_name(name: &str, min: f64, max: f64) -> Option<(f64, f64)> {
    const KINDS: [(&[&str], f64, f64); 6] = [
        (&["percent", "percentage", "pct", "perc", "prozent", "%"], 0.0, 100.0),
        (&["lat", "latitude", "breite", "breitengrad"], -90.0, 90.0),
        (&["lon", "lng", "long", "longitude", "laenge", "längengrad"], -180.0, 180.0),
        (&["month", "monat"], 1.0, 12.0),
        (&["weekday", "wochentag"], 0.0, 7.0),
        (&["hour", "stunde"], 0.0, 24.0),
    ];
    let words = words(name);
    let called = |names: &[&str]| {
        words.iter().any(|w| names.contains(&w.as_str()))
            || name.ends_with('%') && names.contains(&"%")
    };
    // Percentages within one are shares, whatever they are called.
    let within = |low: f64, high: f64| min >= low && max <= high && !(high == 100.0 && max <= 1.0);
    let fits = |&&(names, low, high): &&(&[&str], f64, f64)| called(names) && within(low, high);
    let &(_, low, high) = KINDS.iter().find(fits)?;
    // Places of one region: a public box around it is narrower than the globe.
    if low < 0.0 && max - min < (high - low) / 8.0 {
        return Some((((min - 1.0) / 5.0).floor() * 5.0, ((max + 1.0) / 5.0).ceil() * 5.0));
    }
    Some((low, high))
}

/// A range of round numbers around another one, by its kind: what its name says, shares, years, and
/// else as wide as the values are spread, wherever they lie.
fn suggested(name: &str, min: f64, max: f64) -> (f64, f64) {
    if let Some(range) = by_name(name, min, max) {
        return range;
    }
    let spread = max - min;
    if min >= 0.0 && max <= 1.0 {
        return (0.0, 1.0);
    }
    let whole = min.fract() == 0.0 && max.fract() == 0.0;
    let years = whole && min >= 1800.0 && max <= 2100.0;
    let (room, step) = if years {
        (0.0, if spread > 20.0 { 10.0 } else { 5.0 })
    } else {
        let scale = 10_f64.powf((spread / 5.0).log10().floor());
        let fits = |s: &f64| *s * scale <= spread / 5.0;
        (spread / 10.0, scale * [5.0, 2.0, 1.0].into_iter().find(fits).unwrap_or(1.0))
    };
    let tidy = |value: f64| (value * step * 1e9).round() / 1e9;
    let low = tidy(((min - room) / step).floor());
    let high = tidy(((max + room) / step).ceil());
    // What is never negative begins at nought where that is near, as counts and ages do.
    let nought = min >= 0.0 && (min <= spread / 2.0 || low < 0.0) && !years;
    (if nought { 0.0 } else { low }, high)
}

/// The first few, and how many more there are.
fn list(mut items: impl Iterator<Item = String>) -> String {
    let first: Vec<String> = items.by_ref().take(5).collect();
    match items.count() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv;
    use std::fmt::Write as _;

    /// Ranges by magnitude made years a thousandth of theirs, and columns without signal.
    #[test]
    fn ranges_are_suggested_by_kind_and_spread() {
        for (name, min, max, range) in [
            ("year_of_birth", 1931.0, 2004.0, (1930.0, 2010.0)),
            ("latitude", 47.3, 54.9, (45.0, 60.0)),
            ("longitude", -170.0, 179.0, (-180.0, 180.0)),
            ("fat_percent", 3.0, 61.0, (0.0, 100.0)),
            ("FatPercent", 3.0, 61.0, (0.0, 100.0)),
            ("PctDiscount", 0.0, 0.25, (0.0, 1.0)),
            ("share", 0.02, 0.9, (0.0, 1.0)),
            ("hour", 0.0, 23.0, (0.0, 24.0)),
            ("percent_change", -40.0, 900.0, (-200.0, 1000.0)),
            ("pressure", 1003.0, 1031.0, (1000.0, 1035.0)),
            ("visits", 0.0, 121.0, (0.0, 140.0)),
        ] {
            assert_eq!(suggested(name, min, max), range, "{name}");
        }
    }

    /// A site's number was ignored, or became a feature in silence.
    #[test]
    fn columns_of_sites_and_persons_are_recognised_by_their_names() {
        let mut text = "school_id,patient,school_size,x,y\n".to_owned();
        for i in 0..600 {
            let _ = writeln!(text, "{},p{},{},{},{}", i % 139, i % 290, i % 7, i % 11, i % 2);
        }
        let options = DraftOptions { label: Some("y".into()), ..DraftOptions::default() };
        let draft = Draft::of([("a.csv".to_owned(), text.as_bytes())], &options).expect("valid");
        let warnings = draft.warnings().join("\n");
        for wanted in [
            "column \"school_id\": names 139 sites, so it is drafted as kind = \"site\"",
            "column \"patient\": names persons, with up to 3 records each",
        ] {
            assert!(warnings.contains(wanted), "{wanted}\n{warnings}");
        }
        assert!(!warnings.contains("school_size\": names"), "{warnings}");
    }

    /// A German hospital's export: the patient's number was drafted as a number to learn from, and
    /// "nein" as what is to be found.
    #[test]
    fn numbers_of_persons_and_classes_to_find_are_known_in_german_too() {
        let export = |people: usize| {
            let mut text = "Patientennummer,Hausnummer,krank\n".to_owned();
            for i in 0..600 {
                let person = 1_000_000 + (i % people) * 7919;
                let _ = writeln!(text, "{person},{},{}", i % 90, ["ja", "nein", "nein"][i % 3]);
            }
            let options = DraftOptions { label: Some("krank".into()), ..DraftOptions::default() };
            Draft::of([("a.csv".to_owned(), text.as_bytes())], &options).expect("valid")
        };
        for (people, said) in
            [(600, "every record has a number of its own"), (590, "names persons")]
        {
            let draft = export(people);
            let columns = draft.schema().columns();
            assert_eq!(columns[0].kind, Kind::Ignored);
            let said = |comment: &String| comment.contains(said);
            assert!(draft.comments("Patientennummer").iter().any(said), "{:?}", draft.warnings());
            assert!(matches!(columns[1].kind, Kind::Numeric { .. }), "a house's number repeats");
            let classes = Label::Classes(vec!["nein".into(), "ja".into()]);
            assert_eq!(columns[2].kind, Kind::Label(classes));
        }
    }

    /// A store's number, exported with its records, was drafted as a number to learn from.
    #[test]
    fn a_column_that_only_says_which_file_a_record_is_of_is_no_feature() {
        let text = |store: usize, type_of: usize| {
            let mut text = "Where,type,x,y\n".to_owned();
            for i in 0..30 {
                let _ = writeln!(text, "{store},{type_of},{},{}", i % 11, i % 2);
            }
            text
        };
        let texts = [text(1, 1), text(4, 2), text(7, 1)];
        let files = texts
            .iter()
            .zip(["a", "b", "c"])
            .map(|(text, name)| (name.to_owned(), text.as_bytes()));
        let draft = Draft::of(files, &DraftOptions::default()).expect("valid");
        let kinds: Vec<&Kind> = draft.schema().columns().iter().map(|c| &c.kind).collect();
        assert_eq!(kinds[0], &Kind::Ignored);
        assert!(draft.comments("Where")[0].contains("which file a record is of"));
        // What two stores share tells something of others.
        assert_eq!(kinds[1], &Kind::Numeric { min: 1.0, max: 2.0 });
        for name in ["StoreID", "store_id", "Store", "storeid"] {
            assert!(site_rank(name).is_some(), "{name}");
        }
        assert!(site_rank("StoreSize").is_none());
    }

    /// A count of few values was drafted as classes without a word of how to predict a number.
    #[test]
    fn a_label_of_few_numbers_says_what_to_write_if_it_is_a_count() {
        let mut text = "x,visits\n".to_owned();
        for i in 0..60 {
            let _ = writeln!(text, "{},{}", i % 11, i % 5);
        }
        let options = DraftOptions { label: Some("visits".into()), ..DraftOptions::default() };
        let draft = Draft::of([("a.csv".to_owned(), text.as_bytes())], &options).expect("valid");
        let warnings = draft.warnings().join("\n");
        let wanted =
            "column \"visits\": 5 different numbers are drafted as classes; if they are a count";
        assert!(warnings.contains(wanted), "{warnings}");
    }

    /// Years of school came before the column called "site", and took its place.
    #[test]
    fn of_two_columns_that_seem_to_name_sites_the_plainer_one_does() {
        let mut text = "school,site,x,y\n".to_owned();
        for i in 0..60 {
            let _ = writeln!(text, "{},s{},{},{}", 8 + i % 7, i % 4, i % 11, i % 2);
        }
        let options = DraftOptions { label: Some("y".into()), ..DraftOptions::default() };
        let draft = Draft::of([("a.csv".to_owned(), text.as_bytes())], &options).expect("valid");
        let warnings = draft.warnings().join("\n");
        assert!(warnings.contains("column \"site\": names 4 sites"), "{warnings}");
        let other = "column \"school\": is called as sites are, but \"site\" names them";
        assert!(warnings.contains(other), "{warnings}");
        let school = draft.schema().columns().iter().find(|c| c.name == "school");
        assert!(matches!(school.unwrap().kind, Kind::Numeric { .. }), "{school:?}");
        // Numbers of schools are no years.
        let text = text.replace("\n8,", "\n139,");
        let draft = Draft::of([("a.csv".to_owned(), text.as_bytes())], &options).expect("valid");
        let warnings = draft.warnings().join("\n");
        let other = "column \"school\": seems to name sites, as \"site\" does";
        assert!(warnings.contains(other), "{warnings}");
    }

    /// Megabytes of records, so that blocks of several threads are put together: more texts in every
    /// column than are kept.
    #[test]
    fn a_draft_of_more_texts_than_are_kept_knows_ranges_words_dates_and_identifiers() {
        let (records, mut text) = (60_000, "nr;who;dose;seen;ward;rare;ill\n".to_owned());
        for i in 0..records {
            // A decimal comma shows late, and words among the numbers later still.
            let dose = match i {
                0..30_000 => format!("{}", i % 5_000),
                59_990.. => "n/a".to_owned(),
                _ => format!("{},{}", i % 700, 1 + i % 9),
            };
            let seen = if i == 50_000 {
                "unknown".to_owned()
            } else {
                let (day, minute) = (1 + i % 28, i / 28);
                format!("{day:02}.03.2021 {:02}:{:02}", minute / 60 % 24, minute % 60)
            };
            let (ward, rare) = (i * 7 % 3_000, if i % 200 == 3 { i } else { 0 });
            let _ = writeln!(
                text,
                "{};\"p {i}\";{dose};{seen};\"ward\n{ward}\";{rare};{}",
                1000 + i,
                i % 2
            );
        }
        let draft = Draft::of([("a.csv".to_owned(), text.as_bytes())], &DraftOptions::default())
            .expect("valid");
        let warnings = draft.warnings().join("\n");
        for wanted in [
            "column \"nr\": its values count the records: it looks like a row identifier",
            "column \"who\": every record has a text of its own",
            "column \"dose\": numbers, but for \"n/a\" (10)",
            "column \"seen\": dates (DD.MM.YYYY)",
            "column \"ward\": 3000 different texts, more than 100",
            "column \"rare\": 99.5 % of the records hold \"0\"",
        ] {
            assert!(warnings.contains(wanted), "{wanted:?} is not in\n{warnings}");
        }
        let schema = draft.schema();
        assert_eq!(schema.format().decimal, Some(','));
        assert_eq!(schema.columns()[2].kind, Kind::Numeric { min: 0.0, max: 4_999.0 });
        assert_eq!(schema.columns()[3].missing_words, ["unknown"]);
        // Records are read in the order of the file, with its lines in messages.
        let table = csv::read(text.as_bytes(), "a.csv", schema).expect("valid");
        assert_eq!((table.len(), table.report().missing["dose"]), (59_989, 10));
        assert!((0..30_000).all(|i| table.row(i)[0] == (i % 5_000) as f64), "in order");
        assert_eq!(table.row_numbers()[50_000], 50_001);
        let bad = text.replace("\"p 59000\";", "\"p 59000\";;");
        let error = csv::read(bad.as_bytes(), "a.csv", schema).expect_err("ragged");
        let line = 2 + 2 * 59_000;
        assert!(matches!(error, DataError::Ragged { line: l, .. } if l == line), "{error}");
    }

    /// A number of records that was too small would drop records of some persons.
    #[test]
    fn how_many_records_persons_have_is_said_only_where_all_persons_are_counted() {
        let drafted = |records: usize, person: fn(usize) -> usize| {
            let mut text = "patient,dose,ill\n".to_owned();
            for i in 0..records {
                let _ = writeln!(text, "{},{}.5,{}", person(i), i % 50, i % 2);
            }
            let files = [("a.csv".to_owned(), text.as_bytes())];
            Draft::of(files, &DraftOptions::default()).expect("valid").warnings().join("\n")
        };
        let few = drafted(300, |i| i % 100);
        assert!(few.contains("up to 3 records each") && few.contains("records = 3;"), "{few}");
        let many = drafted(9_000, |i| if i < 5_000 { i } else { 5_000 });
        assert!(many.contains("names persons, with several records each"), "{many}");
        let own = drafted(9_000, |i| 3 * i + 1);
        assert!(!own.contains("names persons"), "{own}");
    }
}
