//! The public schema: what everybody may know about the records before seeing one.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::io::Read;

use serde::{Deserialize, Serialize};

use super::error::nearest;
use super::{DataError, SchemaError};

/// Columns, in the order of the file, with their declared public ranges and categories, and how the file is written.
///
/// In TOML (unknown keys are errors):
///
/// ```toml
/// reviewed = true            # the ranges and categories below are public knowledge, not taken from the records
/// header = true              # optional, the default: the first line names the columns, which may then come in any order
/// delimiter = ","            # optional, the default
/// missing = ["?", ""]        # optional, the default: cells that mean "unknown"; such records are dropped and counted
///
/// [[column]]
/// name = "age"
/// kind = "numeric"
/// min = 17
/// max = 90
///
/// [[column]]
/// name = "sex"
/// kind = "categorical"
/// categories = ["Female", "Male"]
///
/// [[column]]
/// name = "hospital"
/// kind = "site"              # at most one; a partition may follow it
///
/// [[column]]
/// name = "record-number"
/// kind = "ignored"
///
/// [[column]]
/// name = "ill"
/// kind = "label"             # exactly one: `classes`, or `min` and `max` for regression
/// classes = ["no", "yes"]
/// positive = "yes"           # optional with two classes; the second is positive by default
/// ```
///
/// `reviewed` has no default: whoever writes a schema says whether it is public. With `reviewed = false` everything works but
/// [`super::RowBounds::public`] is false, so that no privacy claim can rest on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SchemaSpec", into = "SchemaSpec")]
pub struct Schema {
    columns: Vec<Column>,
    format: Format,
    reviewed: bool,
}

/// One column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A feature with a declared public range; values outside are clamped.
    Numeric {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// A feature with declared public categories.
    Categorical {
        /// In the order of their codes 0, 1, ….
        categories: Vec<String>,
    },
    /// What is predicted.
    Label(Label),
    /// Where the record comes from; not a feature.
    Site,
    /// Not used.
    Ignored,
}

/// What is predicted.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// Two classes are encoded −1 (the first) and +1 (the second, "positive"); C > 2 classes 0 … C−1.
    Classes(Vec<String>),
    /// A number with a declared public range; values outside are clamped.
    Range {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
}

/// How the file is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    /// Whether the first line names the columns.
    pub header: bool,
    /// Between cells; one ASCII character.
    pub delimiter: char,
    /// Lines that start with it are skipped; one ASCII character.
    pub comment: Option<char>,
    /// Cells (after trimming) that mean "unknown".
    pub missing: Vec<String>,
}

impl Default for Format {
    fn default() -> Self {
        Self { header: true, delimiter: ',', comment: None, missing: default_missing() }
    }
}

impl Format {
    pub(super) fn check(&self) -> Result<(), SchemaError> {
        let marks = [("delimiter", Some(self.delimiter)), ("comment", self.comment)];
        for (key, mark) in marks {
            match mark {
                Some(found) if !found.is_ascii() || matches!(found, '"' | '\n' | '\r') => {
                    return Err(SchemaError::NotAscii { key, found });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The schema as written, not yet checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SchemaSpec {
    reviewed: bool,
    #[serde(default = "default_header")]
    header: bool,
    #[serde(default = "default_delimiter")]
    delimiter: char,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<char>,
    #[serde(default = "default_missing")]
    missing: Vec<String>,
    #[serde(default)]
    column: Vec<ColumnSpec>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnSpec {
    name: String,
    kind: KindName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    categories: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    classes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    positive: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    Numeric,
    Categorical,
    Label,
    Site,
    Ignored,
}

impl KindName {
    fn name(self) -> &'static str {
        match self {
            Self::Numeric => "numeric",
            Self::Categorical => "categorical",
            Self::Label => "label",
            Self::Site => "site",
            Self::Ignored => "ignored",
        }
    }
}

fn default_header() -> bool {
    true
}

fn default_delimiter() -> char {
    ','
}

fn default_missing() -> Vec<String> {
    vec!["?".to_owned(), String::new()]
}

impl ColumnSpec {
    fn named(name: &str, kind: KindName) -> Self {
        let name = name.to_owned();
        Self { name, kind, min: None, max: None, categories: None, classes: None, positive: None }
    }

    /// The column, if every key its kind needs is there, sound, and no other.
    fn check(self, index: usize, missing: &[String]) -> Result<Column, SchemaError> {
        let regression = self.kind == KindName::Label && self.classes.is_none();
        let ranged = self.kind == KindName::Numeric || regression;
        let keys = [
            ("min", self.min.is_some(), ranged),
            ("max", self.max.is_some(), ranged),
            ("categories", self.categories.is_some(), self.kind == KindName::Categorical),
            ("classes", self.classes.is_some(), self.kind == KindName::Label && !regression),
            ("positive", self.positive.is_some(), self.kind == KindName::Label && !regression),
        ];
        if regression && self.min.is_none() && self.max.is_none() && self.positive.is_none() {
            return Err(SchemaError::LabelWithoutDomain { index, name: self.name });
        }
        for (key, present, meaningful) in keys {
            let (name, kind) = (self.name.clone(), self.kind.name());
            if present && !meaningful {
                return Err(SchemaError::UnexpectedKey { index, name, kind, key });
            }
            if !present && meaningful && key != "positive" {
                return Err(SchemaError::MissingKey { index, name, kind, key });
            }
        }
        let name = self.name;
        let kind = match self.kind {
            KindName::Site => Kind::Site,
            KindName::Ignored => Kind::Ignored,
            KindName::Categorical => {
                let categories = self.categories.unwrap_or_default();
                check_entries(index, &name, "categories", &categories, 1, missing)?;
                Kind::Categorical { categories }
            }
            KindName::Label if !regression => {
                let classes = self.classes.unwrap_or_default();
                check_entries(index, &name, "classes", &classes, 2, missing)?;
                Kind::Label(Label::Classes(positive_last(index, &name, classes, self.positive)?))
            }
            KindName::Numeric | KindName::Label => {
                let (min, max) = (self.min.unwrap_or(f64::NAN), self.max.unwrap_or(f64::NAN));
                if !(min < max && (max - min).is_finite()) {
                    return Err(SchemaError::Range { index, name, min, max });
                }
                if regression { Kind::Label(Label::Range { min, max }) } else { Kind::Numeric { min, max } }
            }
        };
        Ok(Column { name, kind })
    }
}

fn check_entries(
    index: usize,
    name: &str,
    key: &'static str,
    entries: &[String],
    least: usize,
    missing: &[String],
) -> Result<(), SchemaError> {
    let name = name.to_owned();
    if entries.len() < least {
        return Err(SchemaError::TooFew { index, name, key, least, found: entries.len() });
    }
    let mut seen = HashSet::new();
    for entry in entries {
        if !seen.insert(entry) {
            return Err(SchemaError::DuplicateEntry { index, name, key, entry: entry.clone() });
        }
        if entry.trim() != entry || missing.contains(entry) {
            let (entry, missing) = (entry.clone(), missing.to_vec());
            return Err(SchemaError::UnreachableEntry { index, name, key, entry, missing });
        }
    }
    Ok(())
}

/// Two classes with the positive one second, whichever way round they were listed.
fn positive_last(
    index: usize,
    name: &str,
    mut classes: Vec<String>,
    positive: Option<String>,
) -> Result<Vec<String>, SchemaError> {
    let name = name.to_owned();
    let Some(positive) = positive else { return Ok(classes) };
    if classes.len() != 2 {
        return Err(SchemaError::PositiveOfMany { index, name, found: classes.len() });
    }
    match classes.iter().position(|class| *class == positive) {
        Some(0) => classes.swap(0, 1),
        Some(_) => {}
        None => return Err(SchemaError::UnknownPositive { index, name, positive, classes }),
    }
    Ok(classes)
}

impl TryFrom<SchemaSpec> for Schema {
    type Error = SchemaError;

    fn try_from(spec: SchemaSpec) -> Result<Self, SchemaError> {
        let SchemaSpec { reviewed, header, delimiter, comment, missing, column } = spec;
        let mut names = HashSet::new();
        let mut columns = Vec::with_capacity(column.len());
        for (index, spec) in column.into_iter().enumerate() {
            if !names.insert(spec.name.clone()) {
                return Err(SchemaError::DuplicateColumn { index, name: spec.name });
            }
            columns.push(spec.check(index, &missing)?);
        }
        let count = |wanted: fn(&Kind) -> bool| columns.iter().filter(|c| wanted(&c.kind)).count();
        if count(Kind::is_feature) == 0 {
            return Err(SchemaError::NoFeature);
        }
        let (labels, sites) = (count(|k| matches!(k, Kind::Label(_))), count(|k| matches!(k, Kind::Site)));
        if labels != 1 {
            return Err(SchemaError::LabelCount { found: labels });
        }
        if sites > 1 {
            return Err(SchemaError::SiteCount { found: sites });
        }
        let format = Format { header, delimiter, comment, missing };
        format.check()?;
        Ok(Self { columns, format, reviewed })
    }
}

impl From<Schema> for SchemaSpec {
    fn from(schema: Schema) -> Self {
        let column = schema.columns.into_iter().map(ColumnSpec::from).collect();
        let Format { header, delimiter, comment, missing } = schema.format;
        Self { reviewed: schema.reviewed, header, delimiter, comment, missing, column }
    }
}

impl From<Column> for ColumnSpec {
    fn from(column: Column) -> Self {
        let named = |kind| Self::named(&column.name, kind);
        match column.kind {
            Kind::Numeric { min, max } => Self { min: Some(min), max: Some(max), ..named(KindName::Numeric) },
            Kind::Categorical { categories } => {
                Self { categories: Some(categories), ..named(KindName::Categorical) }
            }
            Kind::Label(Label::Range { min, max }) => {
                Self { min: Some(min), max: Some(max), ..named(KindName::Label) }
            }
            Kind::Label(Label::Classes(classes)) => Self { classes: Some(classes), ..named(KindName::Label) },
            Kind::Site => named(KindName::Site),
            Kind::Ignored => named(KindName::Ignored),
        }
    }
}

impl Kind {
    /// Whether the column enters the encoded row.
    #[must_use]
    pub fn is_feature(&self) -> bool {
        matches!(self, Self::Numeric { .. } | Self::Categorical { .. })
    }

    /// Its name in a schema file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Numeric { .. } => KindName::Numeric.name(),
            Self::Categorical { .. } => KindName::Categorical.name(),
            Self::Label(_) => KindName::Label.name(),
            Self::Site => KindName::Site.name(),
            Self::Ignored => KindName::Ignored.name(),
        }
    }
}

impl Schema {
    /// Checks columns and format given in code.
    ///
    /// # Errors
    /// As for a schema file, see [`SchemaError`].
    pub fn new(columns: Vec<Column>, format: Format, reviewed: bool) -> Result<Self, SchemaError> {
        Self::try_from(SchemaSpec::from(Self { columns, format, reviewed }))
    }

    /// Reads a schema file.
    ///
    /// # Errors
    /// [`SchemaError`], which names the key or the column that is wrong.
    pub fn from_toml(text: &str) -> Result<Self, SchemaError> {
        let spec: SchemaSpec =
            toml::from_str(text).map_err(|error| SchemaError::Toml { message: error.to_string() })?;
        Self::try_from(spec)
    }

    /// Writes the schema file. One that is not reviewed begins with a comment that says what has to be done.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        if !self.reviewed {
            out.push_str(DRAFT_WARNING);
        }
        // A schema holds strings, numbers and lists only: there is nothing TOML could refuse.
        let body = toml::to_string(&SchemaSpec::from(self.clone())).unwrap_or_else(|e| format!("# {e}\n"));
        let _ = write!(out, "{body}");
        out
    }

    /// The schema of the UCI Adult data (Becker and Kohavi, 1996), from its public documentation: 14 features, the label
    /// `income` with `>50K` positive. Categories are those of `adult.names`, in alphabetical order.
    #[must_use]
    pub fn adult() -> Self {
        let columns = ADULT
            .iter()
            .map(|(name, domain)| Column { name: (*name).to_owned(), kind: domain.kind() })
            .collect();
        let format = Format { header: false, comment: Some('|'), ..Format::default() };
        Self { columns, format, reviewed: true }
    }

    /// All columns, in the order of the file.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns that enter the encoded row, in order.
    pub fn features(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.kind.is_feature())
    }

    /// What is predicted.
    #[must_use]
    pub fn label(&self) -> &Label {
        self.columns
            .iter()
            .find_map(|column| if let Kind::Label(label) = &column.kind { Some(label) } else { None })
            .expect("a checked schema has one label")
    }

    /// How the file is written.
    #[must_use]
    pub fn format(&self) -> &Format {
        &self.format
    }

    /// Whether somebody stands for the ranges and categories being public.
    #[must_use]
    pub fn is_reviewed(&self) -> bool {
        self.reviewed
    }
}

const DRAFT_WARNING: &str = "\
# DRAFT: REVIEW BEFORE USE.
# The ranges and categories below were computed from the records themselves. Used as they are they would give private facts
# away (the oldest patient's age, a rare diagnosis), and no privacy claim can rest on them.
# Replace them by what is public without the data: the range a form allows, a code list, a physical limit. Values outside are
# clamped. Then set reviewed = true.

";

enum Domain {
    Number(f64, f64),
    OneOf(&'static [&'static str]),
    Income(&'static [&'static str]),
}

impl Domain {
    fn kind(&self) -> Kind {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        match self {
            Self::Number(min, max) => Kind::Numeric { min: *min, max: *max },
            Self::OneOf(names) => Kind::Categorical { categories: owned(names) },
            Self::Income(names) => Kind::Label(Label::Classes(owned(names))),
        }
    }
}

// Alphabetical: the integer codes of the `paper` encoding are then those of the usual label encoders, and reproduce the
// distance log(‖x*‖/d) = −4.30 of the zero model that an independent check of the paper found.
#[rustfmt::skip]
const ADULT: [(&str, Domain); 15] = [
    ("age", Domain::Number(17.0, 90.0)),
    ("workclass", Domain::OneOf(&[
        "Federal-gov", "Local-gov", "Never-worked", "Private", "Self-emp-inc", "Self-emp-not-inc", "State-gov",
        "Without-pay",
    ])),
    ("fnlwgt", Domain::Number(12_285.0, 1_490_400.0)),
    ("education", Domain::OneOf(&[
        "10th", "11th", "12th", "1st-4th", "5th-6th", "7th-8th", "9th", "Assoc-acdm", "Assoc-voc", "Bachelors",
        "Doctorate", "HS-grad", "Masters", "Preschool", "Prof-school", "Some-college",
    ])),
    ("education-num", Domain::Number(1.0, 16.0)),
    ("marital-status", Domain::OneOf(&[
        "Divorced", "Married-AF-spouse", "Married-civ-spouse", "Married-spouse-absent", "Never-married", "Separated",
        "Widowed",
    ])),
    ("occupation", Domain::OneOf(&[
        "Adm-clerical", "Armed-Forces", "Craft-repair", "Exec-managerial", "Farming-fishing", "Handlers-cleaners",
        "Machine-op-inspct", "Other-service", "Priv-house-serv", "Prof-specialty", "Protective-serv", "Sales",
        "Tech-support", "Transport-moving",
    ])),
    ("relationship", Domain::OneOf(&[
        "Husband", "Not-in-family", "Other-relative", "Own-child", "Unmarried", "Wife",
    ])),
    ("race", Domain::OneOf(&["Amer-Indian-Eskimo", "Asian-Pac-Islander", "Black", "Other", "White"])),
    ("sex", Domain::OneOf(&["Female", "Male"])),
    ("capital-gain", Domain::Number(0.0, 99_999.0)),
    ("capital-loss", Domain::Number(0.0, 4_356.0)),
    ("hours-per-week", Domain::Number(1.0, 99.0)),
    ("native-country", Domain::OneOf(&[
        "Cambodia", "Canada", "China", "Columbia", "Cuba", "Dominican-Republic", "Ecuador", "El-Salvador", "England",
        "France", "Germany", "Greece", "Guatemala", "Haiti", "Holand-Netherlands", "Honduras", "Hong", "Hungary",
        "India", "Iran", "Ireland", "Italy", "Jamaica", "Japan", "Laos", "Mexico", "Nicaragua",
        "Outlying-US(Guam-USVI-etc)", "Peru", "Philippines", "Poland", "Portugal", "Puerto-Rico", "Scotland", "South",
        "Taiwan", "Thailand", "Trinadad&Tobago", "United-States", "Vietnam", "Yugoslavia",
    ])),
    ("income", Domain::Income(&["<=50K", ">50K"])),
];

/// How to draft a schema from a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftOptions {
    /// How the file is written.
    pub format: Format,
    /// The label column; the last one by default.
    pub label: Option<String>,
    /// The site column; none by default.
    pub site: Option<String>,
}

/// A text column with more distinct values than this is drafted as ignored: it is a name or a number, not a category.
const DRAFT_CATEGORIES: usize = 200;
/// A numeric label with at most this many distinct values is drafted as classes.
const DRAFT_CLASSES: usize = 20;

impl Schema {
    /// Drafts a schema from a CSV: ranges and categories are those of the records, so the result is **not reviewed**.
    ///
    /// A column is numeric if all its known cells are finite numbers, else categorical (or ignored with more than 200
    /// distinct values). Without a header columns are called `column-1`, `column-2`, ….
    ///
    /// # Errors
    /// [`DataError`] if the file cannot be read, is empty or ragged, or has no column of the given names.
    pub fn draft(reader: impl Read, file: &str, options: &DraftOptions) -> Result<Self, DataError> {
        let (names, cells) = super::csv::read_text(reader, file, &options.format)?;
        let position = |name: &String| {
            names.iter().position(|n| n == name).ok_or_else(|| DataError::NoSuchColumn {
                file: file.to_owned(),
                column: name.clone(),
                nearest: nearest(name, names.iter().map(String::as_str)),
            })
        };
        let label = options.label.as_ref().map_or(Ok(names.len() - 1), position)?;
        let site = options.site.as_ref().map(position).transpose()?;
        let columns = names
            .iter()
            .zip(&cells)
            .enumerate()
            .map(|(index, (name, distinct))| Column {
                name: name.clone(),
                kind: match index {
                    _ if index == label => Kind::Label(draft_label(distinct)),
                    _ if Some(index) == site => Kind::Site,
                    _ => draft_feature(distinct),
                },
            })
            .collect();
        Ok(Self::new(columns, options.format.clone(), false)?)
    }
}

fn draft_feature(distinct: &BTreeSet<String>) -> Kind {
    match (range(distinct), distinct.len()) {
        (Some((min, max)), _) if min < max => Kind::Numeric { min, max },
        // A constant number has no range; a text of many values is no category.
        (Some(_), _) | (None, 0) => Kind::Ignored,
        (None, count) if count > DRAFT_CATEGORIES => Kind::Ignored,
        (None, _) => Kind::Categorical { categories: distinct.iter().cloned().collect() },
    }
}

fn draft_label(distinct: &BTreeSet<String>) -> Label {
    match range(distinct) {
        Some((min, max)) if distinct.len() > DRAFT_CLASSES => Label::Range { min, max },
        Some(_) => {
            let mut classes: Vec<String> = distinct.iter().cloned().collect();
            let number = |text: &String| text.parse::<f64>().unwrap_or(f64::NAN);
            classes.sort_by(|a, b| number(a).total_cmp(&number(b)));
            Label::Classes(classes)
        }
        None => Label::Classes(distinct.iter().cloned().collect()),
    }
}

/// The range of the values, if all are finite numbers.
fn range(distinct: &BTreeSet<String>) -> Option<(f64, f64)> {
    let mut range: Option<(f64, f64)> = None;
    for text in distinct {
        let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
        range = Some(range.map_or((value, value), |(min, max)| (min.min(value), max.max(value))));
    }
    range
}
