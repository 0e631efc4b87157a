//! What can be wrong with a schema or a file.
//!
//! Messages quote the cell that is at fault, because its owner has to find it: they are for the
//! data's owner, not for a peer.

use super::Unknown;

/// What is wrong with a public schema.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SchemaError {
    /// The text is not TOML, or a key is unknown, missing or of the wrong type.
    #[error("the schema is not valid: {message}")]
    Toml {
        /// The parser's message, which names the line and the key.
        message: String,
    },
    /// There is no `[[column]]`, or none that is a feature.
    #[error(
        "the schema has no feature: declare at least one [[column]] with kind = \"numeric\" or \"categorical\""
    )]
    NoFeature,
    /// A schema needs exactly one label.
    #[error(
        "the schema has {found} label columns: declare exactly one [[column]] with kind = \"label\""
    )]
    LabelCount {
        /// How many there are.
        found: usize,
    },
    /// A schema has at most one site column.
    #[error("the schema has {found} site columns: at most one [[column]] may have kind = \"site\"")]
    SiteCount {
        /// How many there are.
        found: usize,
    },
    /// Two columns share a name.
    #[error("column[{index}]: the name \"{name}\" is used twice")]
    DuplicateColumn {
        /// Position of the second, from 0.
        index: usize,
        /// The name.
        name: String,
    },
    /// A column lacks a key its kind needs.
    #[error("column[{index}] \"{name}\": kind = \"{kind}\" needs the key `{key}`")]
    MissingKey {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// Its kind.
        kind: &'static str,
        /// The missing key.
        key: &'static str,
    },
    /// A column has a key its kind has no use for.
    #[error(
        "column[{index}] \"{name}\": the key `{key}` has no meaning for kind = \"{kind}\"; remove it"
    )]
    UnexpectedKey {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// Its kind.
        kind: &'static str,
        /// The key to remove.
        key: &'static str,
    },
    /// A range that is empty, infinite or not a number.
    #[error(
        "column[{index}] \"{name}\": `min` = {min} and `max` = {max} must be finite, min < max"
    )]
    Range {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// Declared minimum.
        min: f64,
        /// Declared maximum.
        max: f64,
    },
    /// Too few categories or classes.
    #[error("column[{index}] \"{name}\": `{key}` needs at least {least} entries and has {found}")]
    TooFew {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// `categories` or `classes`.
        key: &'static str,
        /// How many are needed.
        least: usize,
        /// How many there are.
        found: usize,
    },
    /// A category or class is listed twice.
    #[error("column[{index}] \"{name}\": `{key}` lists \"{entry}\" twice")]
    DuplicateEntry {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// `categories` or `classes`.
        key: &'static str,
        /// The entry.
        entry: String,
    },
    /// A category that a reader would take for a missing value, or that could never match because
    /// cells are trimmed.
    #[error(
        "column[{index}] \"{name}\": `{key}` lists \"{entry}\", which no cell can hold: cells are trimmed and {missing:?} mean missing"
    )]
    UnreachableEntry {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// `categories` or `classes`.
        key: &'static str,
        /// The entry.
        entry: String,
        /// The marks of a missing value.
        missing: Vec<String>,
    },
    /// A label with neither classes nor a range.
    #[error(
        "column[{index}] \"{name}\": kind = \"label\" needs the key `classes`, or `min` and `max` for regression"
    )]
    LabelWithoutDomain {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
    },
    /// `positive` with more than two classes.
    #[error(
        "column[{index}] \"{name}\": `positive` needs exactly two classes and there are {found}; remove it"
    )]
    PositiveOfMany {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// How many classes there are.
        found: usize,
    },
    /// `positive` is not one of the two classes.
    #[error(
        "column[{index}] \"{name}\": `positive` = \"{positive}\" is not one of `classes` = {classes:?}"
    )]
    UnknownPositive {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// The value of the key.
        positive: String,
        /// The declared classes.
        classes: Vec<String>,
    },
    /// A schema has at most one column of this kind.
    #[error(
        "the schema has {found} {kind} columns: at most one [[column]] may have kind = \"{kind}\""
    )]
    KindCount {
        /// The kind.
        kind: &'static str,
        /// How many there are.
        found: usize,
    },
    /// Times are times until an event.
    #[error(
        "the schema has a column of kind = \"time\" and no label of two classes that says whether \
         the event happened then"
    )]
    TimeWithoutEvent,
    /// An experiment gives a column a role that it cannot have.
    #[error("column \"{name}\" {problem}")]
    Role {
        /// The column.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A schema has at most one person column.
    #[error(
        "the schema has {found} person columns: at most one [[column]] may have kind = \"person\""
    )]
    PersonCount {
        /// How many there are.
        found: usize,
    },
    /// A key of a column has a value that cannot be.
    #[error("column[{index}] \"{name}\": `{key}` {problem}")]
    Key {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A pattern of dates that lacks a part.
    #[error(
        "column[{index}] \"{name}\": `format` = \"{format}\" needs YYYY (or YY), MM and DD once each, as in \"DD.MM.YYYY\""
    )]
    DatePattern {
        /// Position of the column, from 0.
        index: usize,
        /// Its name.
        name: String,
        /// The pattern.
        format: String,
    },
    /// A quote, decimal or thousands mark that cannot be one.
    #[error("`{key}` must be {allowed}, not {found:?}")]
    Mark {
        /// `quote`, `decimal` or `thousands`.
        key: &'static str,
        /// What it is.
        found: char,
        /// What it may be.
        allowed: &'static str,
    },
    /// The delimiter or the comment mark is not one ASCII character.
    #[error("`{key}` must be one ASCII character other than a quote or a line end, not {found:?}")]
    NotAscii {
        /// `delimiter` or `comment`.
        key: &'static str,
        /// What it is.
        found: char,
    },
}

/// What is wrong with a file of records, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The reader failed.
    #[error("{file}: cannot be read: {source}")]
    Read {
        /// Display name of the source.
        file: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Rows cannot be kept outside memory.
    #[error("encoded rows cannot be kept on disk: {source}")]
    Scratch {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Some files list all cells and some what is not zero.
    #[error(
        "{first} and {second}: files of two kinds, LIBSVM and tables, cannot be streamed together; convert one of them"
    )]
    MixedKinds {
        /// A file of the first kind.
        first: String,
        /// A file of the other.
        second: String,
    },
    /// The schema is wrong.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// Records in memory are not as they should be.
    #[error("{source_name}: {message}")]
    InMemory {
        /// Which records.
        source_name: String,
        /// What is wrong, and in which row.
        message: String,
    },
    /// Nothing, or nothing but a header.
    #[error("{file}: holds no record; a file needs one record a line{}", if *.header { " after its header" } else { "" })]
    Empty {
        /// Display name of the source.
        file: String,
        /// Whether a header was expected.
        header: bool,
    },
    /// Every record misses a value.
    #[error(
        "{file}: each of its {rows} records misses a value, so none is left; mark columns that are often missing as \"ignored\""
    )]
    AllMissing {
        /// Display name of the source.
        file: String,
        /// Records read.
        rows: u64,
    },
    /// The header lacks a column of the schema.
    #[error("{file}:1: the header has no column \"{column}\"{}", did_you_mean(.nearest.as_deref()))]
    HeaderLacks {
        /// Display name of the source.
        file: String,
        /// The column.
        column: String,
        /// The closest name in the header.
        nearest: Option<String>,
    },
    /// The header has a column the schema does not know.
    #[error("{file}:1: the schema has no column \"{column}\"{}; declare it, with kind = \"ignored\" if it is not to be used", did_you_mean(.nearest.as_deref()))]
    HeaderUnknown {
        /// Display name of the source.
        file: String,
        /// The column.
        column: String,
        /// The closest name in the schema.
        nearest: Option<String>,
    },
    /// The header names a column twice.
    #[error("{file}:1: the header names \"{column}\" twice")]
    HeaderTwice {
        /// Display name of the source.
        file: String,
        /// The column.
        column: String,
    },
    /// A row with too few or too many cells.
    #[error(
        "{file}:{line}: {found} cells where {expected} are expected; check the delimiter ({delimiter:?}) and unquoted text"
    )]
    Ragged {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// Cells found.
        found: usize,
        /// Cells expected.
        expected: usize,
        /// The delimiter in use.
        delimiter: char,
    },
    /// Bytes that are a file of another kind.
    #[error("{file}: is {what}, not text; {remedy}")]
    NotATable {
        /// Display name of the source.
        file: String,
        /// What it is.
        what: &'static str,
        /// What to do about it.
        remedy: &'static str,
    },
    /// Bytes that begin like UTF-16 and are not.
    #[error("{file}: begins like UTF-16 text and is none; save the file as UTF-8")]
    NotUtf16 {
        /// Display name of the source.
        file: String,
    },
    /// A missing value rule that the format of the file cannot follow.
    #[error(
        "{file}: column \"{column}\" has keys that apply to CSV only ({keys}); remove them for LIBSVM files"
    )]
    CsvOnly {
        /// Display name of the source.
        file: String,
        /// The column.
        column: String,
        /// The keys.
        keys: &'static str,
    },
    /// A cell of a date column that is not a date.
    #[error(
        "{file}:{line}: column \"{column}\" holds \"{cell}\", which is not a date written as {format}; mend the cell, the key `format` in the schema, or write ? if it is missing"
    )]
    NotADate {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What the cell holds, shortened.
        cell: String,
        /// The pattern of the schema.
        format: String,
    },
    /// Text that is not UTF-8.
    #[error(
        "{file}:{line}: column \"{column}\" is not UTF-8 text; save the file as UTF-8, or name its encoding (encoding = \"latin-1\" or \"windows-1252\" in the schema, --encoding on the command line)"
    )]
    NotText {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The column.
        column: String,
    },
    /// A cell of a numeric column that is not a number.
    #[error(
        "{file}:{line}: column \"{column}\" holds \"{cell}\", which is not a number; write it as 1234.5, or as ? if it is missing{hint}"
    )]
    NotANumber {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What the cell holds, shortened.
        cell: String,
        /// What the schema could say about such cells; begins with a semicolon.
        hint: String,
    },
    /// NaN or an infinity.
    #[error(
        "{file}:{line}: column \"{column}\" holds \"{cell}\", which is not finite; write ? if it is missing"
    )]
    NotFinite {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What the cell holds, shortened.
        cell: String,
    },
    /// A category the schema does not declare.
    #[error("{file}:{line}: column \"{column}\" holds \"{cell}\", which is not among its {declared} declared categories{}{}", did_you_mean(.nearest.as_deref()), unknown(*.new))]
    UnknownCategory {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// What the cell holds, shortened.
        cell: String,
        /// How many categories are declared.
        declared: u32,
        /// The closest declared category.
        nearest: Option<String>,
        /// What was to become of it, in records to predict.
        new: Option<Unknown>,
    },
    /// A label the schema does not declare.
    #[error("{file}:{line}: the label \"{cell}\" is not one of the declared classes {classes:?}{}", did_you_mean(.nearest.as_deref()))]
    UnknownLabel {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// What the cell holds, shortened.
        cell: String,
        /// The declared classes.
        classes: Vec<String>,
        /// The closest declared class.
        nearest: Option<String>,
    },
    /// All records have the same label: nothing can be learnt.
    #[error(
        "{file}: all {rows} records have the label \"{class}\"; training needs records of at least two classes"
    )]
    OneClass {
        /// Display names of the sources.
        file: String,
        /// Records.
        rows: usize,
        /// The class they all have.
        class: String,
    },
    /// Not `index:value`.
    #[error("{file}:{line}: \"{cell}\" is not `index:value` with an index from 1 up")]
    NotAPair {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The token, shortened.
        cell: String,
    },
    /// An index past the schema's last feature, or past what is accepted without one.
    #[error("{file}:{line}: index {index} is beyond the {dim} features {}", if *.declared { "of the schema" } else { "accepted without a schema" })]
    IndexTooLarge {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The index.
        index: u64,
        /// The largest index that is accepted.
        dim: usize,
        /// Whether a schema set that limit.
        declared: bool,
    },
    /// Indices must increase.
    #[error(
        "{file}:{line}: index {index} does not come after the one before it; indices must increase along a line"
    )]
    IndexOrder {
        /// Display name of the source.
        file: String,
        /// Line, from 1.
        line: u64,
        /// The index.
        index: u64,
    },
    /// The encoding cannot take a column of this kind.
    #[error(
        "the encoding \"{encoding}\" cannot take the categorical column \"{column}\"; use \"one-hot\", or mark the column as \"ignored\""
    )]
    NotNumeric {
        /// The encoding.
        encoding: &'static str,
        /// The column.
        column: String,
    },
    /// Only scouted columns take exposures.
    #[error(
        "the encoding \"{encoding}\" cannot take the exposure \"{column}\"; use data.encoding = \"scouted\""
    )]
    Exposure {
        /// The encoding.
        encoding: &'static str,
        /// The column.
        column: String,
    },
    /// Files that were read with different schemas cannot be one dataset.
    #[error("{first} and {second} were read with different schemas and cannot be one dataset")]
    SchemasDiffer {
        /// One source.
        first: String,
        /// The other.
        second: String,
    },
    /// No column of that name divides the records.
    #[error(
        "no column \"{column}\" divides the records into groups; there are {known:?}. A column of sites is one whose entry in the schema has \
         kind = \"site\" (name = \"{column}\", kind = \"site\"); one file per site is partition = {{ by = \"file\" }}"
    )]
    UnknownGrouping {
        /// The name asked for.
        column: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// A share of records to hold out that is not strictly between 0 and 1, or that leaves a side
    /// empty.
    #[error(
        "cannot hold out a share {share} of {rows} records: both sides need at least one record"
    )]
    HoldOut {
        /// The share.
        share: f64,
        /// Records there are.
        rows: usize,
    },
    /// There are test records already.
    #[error(
        "{source_name} has {rows} test records already; hold out a share of the training records only without them"
    )]
    TestExists {
        /// Where the data comes from.
        source_name: String,
        /// Test records.
        rows: usize,
    },
    /// A column that is asked for is not in the file.
    #[error("{file}: has no column \"{column}\"{}", did_you_mean(.nearest.as_deref()))]
    NoSuchColumn {
        /// Display name of the source.
        file: String,
        /// The column.
        column: String,
        /// The closest name.
        nearest: Option<String>,
    },
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"))
}

fn unknown(new: Option<Unknown>) -> &'static str {
    match new {
        None => "",
        Some(Unknown::Other) => "; none of them is called \"other\": take unknown = \"ignore\"",
        Some(_) => {
            "\n  help: --unknown ignore predicts without this column, --unknown other takes the category called \"other\""
        }
    }
}

/// A cell, short enough for a message.
pub(super) fn shorten(cell: &str) -> String {
    const LIMIT: usize = 40;
    if cell.chars().count() <= LIMIT {
        return cell.to_owned();
    }
    cell.chars().take(LIMIT).chain(['…']).collect()
}

/// The candidate closest to `word` in edit distance, if it is close enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let word: Vec<char> = word.chars().take(64).flat_map(char::to_lowercase).collect();
    let allowed = (word.len() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(&word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate.to_owned())
}

/// Edits from one word to the other, blind to case: letters put in, left out, changed, or swapped
/// with the next one.
fn edit_distance(word: &[char], candidate: &str) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=word.len()).collect();
    let mut last = None;
    for (i, other) in candidate.chars().flat_map(char::to_lowercase).enumerate() {
        let mut next = vec![i + 1];
        for (j, &letter) in word.iter().enumerate() {
            let mut least =
                (row[j] + usize::from(letter != other)).min(row[j + 1] + 1).min(next[j] + 1);
            if j > 0 && last == Some(letter) && word[j - 1] == other {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
        last = Some(other);
    }
    row[word.len()]
}
