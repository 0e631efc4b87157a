//! The public schema: what everybody may know about the records before seeing one.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::SchemaError;
use super::date::{DateForm, Day, ISO};
use super::format::{Format, TextEncoding, default_missing};

/// Columns, in the order of the file, with their declared public ranges and categories, and how the
/// file is written.
///
/// In TOML (unknown keys are errors):
///
/// ```toml
/// reviewed = true            # the ranges and categories below are public knowledge, not taken from the records
/// header = true              # optional, the default: the first line names the columns, which may then come in any order
/// delimiter = ";"            # optional, as are the next four: what is not said is found out for each file
/// decimal = ","              # "." or ","
/// thousands = "."            # between groups of three digits
/// quote = '"'
/// encoding = "latin-1"       # or utf-8, utf-16, windows-1252; a byte order mark wins
/// missing = ["?", "", "NA"]  # optional, ["?", ""] by default: cells that mean "unknown"
///
/// [[column]]
/// name = "age"
/// kind = "numeric"
/// min = 17
/// max = 90
/// missing = { impute = 40 }  # optional, for any feature: "drop" the record (the default), a "category" of its own, or a public value
/// indicator = true           # optional: a feature that is 1 where the value was missing
/// missing_words = ["n/a"]    # optional: more cells that mean "unknown", in this column only
/// mean = 44                  # optional public knowledge: mean and standard deviation from elsewhere
/// sd = 15
///
/// [[column]]
/// name = "admitted"
/// kind = "date"              # a feature: days since the origin
/// format = "DD.MM.YYYY"      # optional, "YYYY-MM-DD" by default
/// origin = "2000-01-01"
/// min = "2015-01-01"
/// max = "2025-12-31"
///
/// [[column]]
/// name = "sex"
/// kind = "categorical"
/// categories = ["Female", "Male"]
/// shares = [0.5, 0.5]        # optional public knowledge: the share of each category, from elsewhere
///
/// [[column]]
/// name = "hospital"
/// kind = "site"              # at most one; a partition may follow it
///
/// [[column]]
/// name = "patient"
/// kind = "person"            # at most one; whom a record is about
/// records = 4                # records beyond so many of one person are dropped and counted
///
/// [[column]]
/// name = "months"
/// kind = "time"              # at most one: how long a record was seen; the label says whether with the event
/// max = 60                   # what is longer counts as seen for so long, without the event
///
/// [[column]]
/// name = "person_years"
/// kind = "exposure"          # at most one: what a count is counted in; its logarithm is added to the score
/// min = 0.01
/// max = 10
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
/// prevalence = 0.1           # optional public knowledge: the share of the positive class, or a list of each class's
/// ```
///
/// A label that is a positive number may be learned by its logarithm: `transform = "log"` beside
/// `min` and `max`. Its `mean` and `sd`, where they are known, are then those of the logarithm.
///
/// `reviewed` has no default: whoever writes a schema says whether it is public. With
/// `reviewed = false` everything works but `RowBounds::public` is false, so that no privacy claim
/// can rest on it.
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
    /// What it holds. Dates are numbers: days since the origin of [`Self::date`].
    pub kind: Kind,
    /// How its dates are written, if it holds dates.
    pub date: Option<DateForm>,
    /// What becomes of a record whose value is missing.
    pub missing: Missing,
    /// Cells that mean "unknown" in this column, besides those of the whole file.
    pub missing_words: Vec<String>,
    /// Whether the next column, named `NAME=missing`, is 1 where the value was missing and 0
    /// elsewhere.
    pub indicator: bool,
    /// Whether the column is not in the file but made while reading: the indicator of the column
    /// before it.
    pub derived: bool,
    /// What is publicly known about it without these records.
    pub known: PublicKnowledge,
    /// Whether models learn the logarithm of a label that is a number.
    pub log: bool,
}

impl Column {
    /// A column with no more than a name and a kind.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        Self {
            name: name.into(),
            kind,
            date: None,
            missing: Missing::Drop,
            missing_words: Vec::new(),
            indicator: false,
            derived: false,
            known: PublicKnowledge::default(),
            log: false,
        }
    }

    /// The indicator of a column: a number that is 1 where the column's value was missing.
    fn indicator_of(name: &str) -> Self {
        let kind = Kind::Numeric { min: 0.0, max: 1.0 };
        Self { derived: true, ..Self::new(format!("{name}=missing"), kind) }
    }

    /// What its kind is called in a schema file.
    #[must_use]
    pub fn kind_name(&self) -> &'static str {
        if self.date.is_some() { KindName::Date.name() } else { self.kind.name() }
    }
}

/// What becomes of a record whose value in a column is missing. Each rule looks at one record and
/// at public facts only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Missing {
    /// The record is dropped and counted.
    Drop,
    /// Missing is a value of its own: the category [`MISSING_CATEGORY`], or for a number the middle
    /// of its declared range with an indicator beside it.
    Category,
    /// A public value takes its place: a number, or the code of a category.
    Impute(f64),
}

/// The category of a missing value under [`Missing::Category`], last in the list of a column's
/// categories.
pub const MISSING_CATEGORY: &str = "(missing)";

/// What is publicly known about a column without these records: from a census, a register or the
/// literature.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PublicKnowledge {
    /// The mean of a numeric column, or of a label that is a number.
    pub mean: Option<f64>,
    /// Its standard deviation.
    pub sd: Option<f64>,
    /// The share of each class of the label, in the order of [`Label::Classes`].
    pub prevalence: Option<Vec<f64>>,
    /// The share of each category, in the order of their codes.
    pub shares: Option<Vec<f64>>,
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
    /// Whom the record is about; not a feature. Records of a person beyond so many are dropped and
    /// counted.
    Person {
        /// Records a person has at most.
        most: u32,
    },
    /// How long a record was seen, until its event or without it, as the label says; not a feature.
    Time {
        /// The longest time; what is longer counts as seen for so long, without the event.
        max: f64,
    },
    /// What a count is counted in: its logarithm is added to the score, with no coefficient.
    Exposure {
        /// Smallest value, above zero.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// Not used.
    Ignored,
}

/// What is predicted.
#[derive(Clone, Debug, PartialEq)]
pub enum Label {
    /// Two classes are encoded −1 (the first) and +1 (the second, "positive"); C > 2 classes 0 …
    /// C−1.
    Classes(Vec<String>),
    /// A number with a declared public range; values outside are clamped.
    Range {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
}

/// A schema as a file writes it, not yet checked; `Schema::try_from` checks it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaSpec {
    reviewed: bool,
    #[serde(default = "default_header")]
    header: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delimiter: Option<char>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quote: Option<char>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decimal: Option<char>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    thousands: Option<char>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encoding: Option<TextEncoding>,
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
    format: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    categories: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    classes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    positive: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prevalence: Option<Prevalence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shares: Option<Vec<f64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mean: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transform: Option<Transform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    records: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    indicator: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missing_words: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    missing: Option<MissingSpec>,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Transform {
    Log,
}

/// A number, or a text that stands for one: a date, a category.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or a date or category in quotes")]
enum Value {
    Number(f64),
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "the share of the positive class, or a list with the share of each class"
)]
enum Prevalence {
    Positive(f64),
    Each(Vec<f64>),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "missing = \"drop\", \"category\" or { impute = a public value }")]
enum MissingSpec {
    Rule(MissingRule),
    Impute(ImputeSpec),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MissingRule {
    Drop,
    Category,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ImputeSpec {
    impute: Value,
}

#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    Numeric,
    Categorical,
    Date,
    Label,
    Site,
    Person,
    Time,
    Exposure,
    Ignored,
}

impl KindName {
    fn name(self) -> &'static str {
        match self {
            Self::Numeric => "numeric",
            Self::Categorical => "categorical",
            Self::Date => "date",
            Self::Label => "label",
            Self::Site => "site",
            Self::Person => "person",
            Self::Time => "time",
            Self::Exposure => "exposure",
            Self::Ignored => "ignored",
        }
    }
}

fn default_header() -> bool {
    true
}

impl ColumnSpec {
    fn named(name: &str, kind: KindName) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            format: None,
            origin: None,
            min: None,
            max: None,
            categories: None,
            classes: None,
            positive: None,
            prevalence: None,
            shares: None,
            mean: None,
            sd: None,
            transform: None,
            records: None,
            indicator: None,
            missing_words: None,
            missing: None,
        }
    }

    /// Whether every key the kind needs is there, and no other.
    fn check_keys(&self, index: usize) -> Result<(), SchemaError> {
        let regression = self.is_regression();
        let (date, number) = (self.kind == KindName::Date, self.kind == KindName::Numeric);
        let exposure = self.kind == KindName::Exposure;
        let (ranged, classes) =
            (number || date || regression || exposure, self.kind == KindName::Label && !regression);
        let longest = ranged || self.kind == KindName::Time;
        let category = self.kind == KindName::Categorical;
        let feature = number || date || category;
        // Key, whether it is there, whether it means something, whether it must be there.
        let keys = [
            ("min", self.min.is_some(), ranged, true),
            ("max", self.max.is_some(), longest, true),
            ("origin", self.origin.is_some(), date, true),
            ("format", self.format.is_some(), date, false),
            ("categories", self.categories.is_some(), category, true),
            ("classes", self.classes.is_some(), classes, true),
            ("positive", self.positive.is_some(), classes, false),
            ("prevalence", self.prevalence.is_some(), classes, false),
            ("shares", self.shares.is_some(), category, false),
            ("mean", self.mean.is_some(), number || date || regression, false),
            ("sd", self.sd.is_some(), number || date || regression, false),
            ("transform", self.transform.is_some(), regression, false),
            ("records", self.records.is_some(), self.kind == KindName::Person, true),
            ("missing", self.missing.is_some(), feature, false),
            ("indicator", self.indicator.is_some(), feature, false),
            ("missing_words", self.missing_words.is_some(), self.kind != KindName::Ignored, false),
        ];
        if regression && self.min.is_none() && self.max.is_none() && self.positive.is_none() {
            return Err(SchemaError::LabelWithoutDomain { index, name: self.name.clone() });
        }
        for (key, present, meaningful, needed) in keys {
            let (name, kind) = (self.name.clone(), self.kind.name());
            if present && !meaningful {
                return Err(SchemaError::UnexpectedKey { index, name, kind, key });
            }
            if !present && meaningful && needed {
                return Err(SchemaError::MissingKey { index, name, kind, key });
            }
        }
        Ok(())
    }

    fn is_regression(&self) -> bool {
        self.kind == KindName::Label && self.classes.is_none()
    }

    /// The column, if every key its kind needs is there, sound, and no other.
    fn check(self, index: usize, missing: &[String]) -> Result<Column, SchemaError> {
        self.check_keys(index)?;
        let mut words = missing.to_vec();
        words.extend(self.missing_words.iter().flatten().cloned());
        let mut check = ColumnCheck { spec: &self, index, words, date: None };
        check.date = check.date_form()?;
        let (kind, known) = check.kind()?;
        let missing = check.missing(&kind)?;
        let indicator = check.indicator(&kind, missing)?;
        check.missing_words()?;
        Ok(Column {
            date: check.date,
            kind,
            missing,
            indicator,
            derived: false,
            known,
            log: self.transform.is_some(),
            name: self.name,
            missing_words: self.missing_words.unwrap_or_default(),
        })
    }
}

/// A column of the file that has the keys its kind needs, while their values are checked.
struct ColumnCheck<'a> {
    spec: &'a ColumnSpec,
    index: usize,
    /// What stands for a missing value.
    words: Vec<String>,
    /// How its dates are written, if it has dates.
    date: Option<DateForm>,
}

impl ColumnCheck<'_> {
    fn wrong(&self, key: &'static str, problem: impl Into<String>) -> SchemaError {
        let (index, name) = (self.index, self.spec.name.clone());
        SchemaError::Key { index, name, key, problem: problem.into() }
    }

    fn date_form(&self) -> Result<Option<DateForm>, SchemaError> {
        let Some(text) = &self.spec.origin else { return Ok(None) };
        let origin = Day::parse(text).ok_or_else(|| {
            self.wrong("origin", format!("= \"{text}\" is not a date written as {ISO}"))
        })?;
        let format = self.spec.format.clone().unwrap_or_else(|| ISO.to_owned());
        let form = DateForm { format, origin };
        form.check(self.index, &self.spec.name)?;
        Ok(Some(form))
    }

    /// A number, or for dates a day; anything else names its key.
    fn number(&self, key: &'static str, value: &Value) -> Result<f64, SchemaError> {
        match (value, &self.date) {
            (Value::Number(number), _) => Ok(*number),
            (Value::Text(text), Some(form)) => {
                Day::parse(text).map(|day| day.since(form.origin)).ok_or_else(|| {
                    self.wrong(key, format!("= \"{text}\" is not a date written as {ISO}"))
                })
            }
            (Value::Text(text), None) => {
                Err(self.wrong(key, format!("{key} = \"{text}\" is not a number")))
            }
        }
    }

    /// The kind with what it declares, and what is known of its values.
    fn kind(&self) -> Result<(Kind, PublicKnowledge), SchemaError> {
        let spec = self.spec;
        let mut known =
            PublicKnowledge { mean: spec.mean, sd: spec.sd, prevalence: None, shares: None };
        let kind = match spec.kind {
            KindName::Site => Kind::Site,
            KindName::Ignored => Kind::Ignored,
            KindName::Person => match spec.records {
                Some(most @ 1..) => Kind::Person { most },
                _ => {
                    let problem = "must be at least 1: how many records a person has at most";
                    return Err(self.wrong("records", problem));
                }
            },
            KindName::Time => match spec.max {
                Some(Value::Number(max)) if max > 0.0 && max.is_finite() => Kind::Time { max },
                _ => {
                    let problem = "must be a positive number: the longest time that counts";
                    return Err(self.wrong("max", problem));
                }
            },
            KindName::Exposure => match (&spec.min, &spec.max) {
                (Some(Value::Number(min)), Some(Value::Number(max)))
                    if *min > 0.0 && min < max && max.is_finite() =>
                {
                    Kind::Exposure { min: *min, max: *max }
                }
                _ => {
                    let problem = "must be above 0 and below max: the logarithm of an exposure is \
                                   added to the score";
                    return Err(self.wrong("min", problem));
                }
            },
            KindName::Categorical => self.categorical(&mut known)?,
            KindName::Label if !spec.is_regression() => self.classes(&mut known)?,
            KindName::Numeric | KindName::Date | KindName::Label => self.range(&known)?,
        };
        Ok((kind, known))
    }

    fn categorical(&self, known: &mut PublicKnowledge) -> Result<Kind, SchemaError> {
        let mut categories = self.spec.categories.clone().unwrap_or_default();
        if matches!(self.spec.missing, Some(MissingSpec::Rule(MissingRule::Category))) {
            categories.push(MISSING_CATEGORY.to_owned());
        }
        check_entries(self.index, &self.spec.name, "categories", &categories, 1, &self.words)?;
        if let Some(shares) = &self.spec.shares {
            check_shares(shares, categories.len(), |what| self.wrong("shares", what))?;
            known.shares = Some(shares.clone());
        }
        Ok(Kind::Categorical { categories })
    }

    fn classes(&self, known: &mut PublicKnowledge) -> Result<Kind, SchemaError> {
        let classes = self.spec.classes.clone().unwrap_or_default();
        check_entries(self.index, &self.spec.name, "classes", &classes, 2, &self.words)?;
        let positive = self.spec.positive.clone();
        let ordered = positive_last(self.index, &self.spec.name, classes.clone(), positive)?;
        if let Some(shares) = &self.spec.prevalence {
            let wrong = |what| self.wrong("prevalence", what);
            known.prevalence = Some(check_prevalence(shares, &classes, &ordered, wrong)?);
        }
        Ok(Kind::Label(Label::Classes(ordered)))
    }

    fn range(&self, known: &PublicKnowledge) -> Result<Kind, SchemaError> {
        let bound = |key, value: &Option<Value>| {
            value.as_ref().map_or(Ok(f64::NAN), |v| self.number(key, v))
        };
        let (min, max) = (bound("min", &self.spec.min)?, bound("max", &self.spec.max)?);
        if !(min < max && (max - min).is_finite()) {
            let (index, name) = (self.index, self.spec.name.clone());
            return Err(SchemaError::Range { index, name, min, max });
        }
        if self.spec.transform.is_some() && min <= 0.0 {
            let problem = format!("= \"log\" needs a positive number: `min` = {min}");
            return Err(self.wrong("transform", problem));
        }
        let (least, most) = match self.spec.transform {
            Some(Transform::Log) => (libm::log(min), libm::log(max)),
            None => (min, max),
        };
        check_known(known, least, most, |key, problem| self.wrong(key, problem))?;
        Ok(match self.spec.is_regression() {
            true => Kind::Label(Label::Range { min, max }),
            false => Kind::Numeric { min, max },
        })
    }

    fn missing(&self, kind: &Kind) -> Result<Missing, SchemaError> {
        let impute = match &self.spec.missing {
            None | Some(MissingSpec::Rule(MissingRule::Drop)) => return Ok(Missing::Drop),
            Some(MissingSpec::Rule(MissingRule::Category)) => return Ok(Missing::Category),
            Some(MissingSpec::Impute(ImputeSpec { impute })) => impute,
        };
        Ok(Missing::Impute(match kind {
            Kind::Categorical { categories } => {
                let at = categories
                    .iter()
                    .position(|c| matches!(impute, Value::Text(text) if text == c));
                at.ok_or_else(|| {
                    self.wrong("missing", format!("impute = {impute} is not one of `categories`"))
                })? as f64
            }
            Kind::Numeric { min, max } => {
                let value = self.number("impute", impute)?;
                if !(*min..=*max).contains(&value) {
                    let problem = format!("impute = {impute} lies outside the declared range");
                    return Err(self.wrong("missing", problem));
                }
                value
            }
            _ => 0.0,
        }))
    }

    /// Whether a feature of its own says that a value is missing.
    fn indicator(&self, kind: &Kind, missing: Missing) -> Result<bool, SchemaError> {
        let asked = self.spec.indicator.unwrap_or(false);
        if asked && missing == Missing::Drop {
            let problem = "needs missing = \"category\" or { impute = value }: no record with a missing value is kept";
            return Err(self.wrong("indicator", problem));
        }
        // A number that is missing stands out only by its indicator; a category of its own needs
        // none.
        Ok(match missing {
            Missing::Drop => false,
            Missing::Category => matches!(kind, Kind::Numeric { .. }),
            Missing::Impute(_) => asked,
        })
    }

    fn missing_words(&self) -> Result<(), SchemaError> {
        let untrimmed = |word: &&String| word.trim() != **word;
        match self.spec.missing_words.iter().flatten().find(untrimmed) {
            Some(word) => {
                let problem = format!("lists {word:?}, which no cell can hold: cells are trimmed");
                Err(self.wrong("missing_words", problem))
            }
            None => Ok(()),
        }
    }
}

fn check_known(
    known: &PublicKnowledge,
    min: f64,
    max: f64,
    wrong: impl Fn(&'static str, String) -> SchemaError,
) -> Result<(), SchemaError> {
    match known.mean {
        Some(mean) if !(min..=max).contains(&mean) => {
            return Err(wrong("mean", format!("= {mean} lies outside the declared range")));
        }
        _ => {}
    }
    match known.sd {
        // No distribution on a range is wider than half its mass at either end.
        Some(sd) if !(sd > 0.0 && sd <= (max - min) / 2.0) => Err(wrong(
            "sd",
            format!(
                "= {sd} must be positive and at most half the declared range, {}",
                (max - min) / 2.0
            ),
        )),
        _ => Ok(()),
    }
}

/// Shares of the categories of a column.
fn check_shares(
    shares: &[f64],
    categories: usize,
    wrong: impl Fn(String) -> SchemaError,
) -> Result<(), SchemaError> {
    if shares.len() != categories {
        let listed = shares.len();
        return Err(wrong(format!(
            "lists {listed} shares for {categories} categories (one for missing values, last, \
             where these are a category)"
        )));
    }
    let total: f64 = shares.iter().sum();
    if shares.iter().any(|s| !(*s >= 0.0 && *s <= 1.0)) || (total - 1.0).abs() > 1e-6 {
        return Err(wrong("must be shares between 0 and 1 that sum to 1".to_owned()));
    }
    Ok(())
}

/// Shares in the order of the labels, from shares in the order they were listed in.
fn check_prevalence(
    shares: &Prevalence,
    listed: &[String],
    ordered: &[String],
    wrong: impl Fn(String) -> SchemaError,
) -> Result<Vec<f64>, SchemaError> {
    let shares = match shares {
        Prevalence::Positive(share) if ordered.len() == 2 => vec![1.0 - *share, *share],
        Prevalence::Positive(_) => {
            return Err(wrong(
                "must list the share of each class where there are more than two".to_owned(),
            ));
        }
        Prevalence::Each(shares) if shares.len() != listed.len() => {
            return Err(wrong(format!(
                "lists {} shares for {} classes",
                shares.len(),
                listed.len()
            )));
        }
        Prevalence::Each(shares) => {
            let mut shares = shares.clone();
            if ordered[0] != listed[0] {
                shares.reverse();
            }
            shares
        }
    };
    let total: f64 = shares.iter().sum();
    if shares.iter().any(|share| !(*share > 0.0 && *share < 1.0)) || (total - 1.0).abs() > 1e-6 {
        return Err(wrong("must be shares strictly between 0 and 1 that sum to 1".to_owned()));
    }
    Ok(shares)
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

impl std::fmt::Debug for SchemaSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SchemaSpec(columns={})", self.column.len())
    }
}

impl TryFrom<SchemaSpec> for Schema {
    type Error = SchemaError;

    fn try_from(spec: SchemaSpec) -> Result<Self, SchemaError> {
        let SchemaSpec {
            reviewed,
            header,
            delimiter,
            quote,
            decimal,
            thousands,
            encoding,
            comment,
            missing,
            column,
        } = spec;
        let mut names = HashSet::new();
        let mut columns = Vec::with_capacity(column.len());
        for (index, spec) in column.into_iter().enumerate() {
            if !names.insert(spec.name.clone()) {
                return Err(SchemaError::DuplicateColumn { index, name: spec.name });
            }
            let column = spec.check(index, &missing)?;
            let indicator = column.indicator.then(|| Column::indicator_of(&column.name));
            columns.push(column);
            columns.extend(indicator);
        }
        if let Some(twice) =
            columns.iter().find(|column| column.derived && names.contains(&column.name))
        {
            return Err(SchemaError::DuplicateColumn {
                index: columns.len(),
                name: twice.name.clone(),
            });
        }
        let count = |wanted: fn(&Kind) -> bool| columns.iter().filter(|c| wanted(&c.kind)).count();
        if count(Kind::is_feature) == 0 {
            return Err(SchemaError::NoFeature);
        }
        let (labels, sites) =
            (count(|k| matches!(k, Kind::Label(_))), count(|k| matches!(k, Kind::Site)));
        if labels != 1 {
            return Err(SchemaError::LabelCount { found: labels });
        }
        if sites > 1 {
            return Err(SchemaError::SiteCount { found: sites });
        }
        let persons = count(|k| matches!(k, Kind::Person { .. }));
        if persons > 1 {
            return Err(SchemaError::PersonCount { found: persons });
        }
        for (kind, wanted) in [
            (KindName::Time, (|k: &Kind| matches!(k, Kind::Time { .. })) as fn(&Kind) -> bool),
            (KindName::Exposure, |k| matches!(k, Kind::Exposure { .. })),
        ] {
            if count(wanted) > 1 {
                return Err(SchemaError::KindCount { kind: kind.name(), found: count(wanted) });
            }
        }
        let events = |k: &Kind| matches!(k, Kind::Label(Label::Classes(c)) if c.len() == 2);
        if count(|k| matches!(k, Kind::Time { .. })) == 1
            && !columns.iter().any(|c| events(&c.kind))
        {
            return Err(SchemaError::TimeWithoutEvent);
        }
        let format =
            Format { header, delimiter, quote, decimal, thousands, encoding, comment, missing };
        format.check()?;
        Ok(Self { columns, format, reviewed })
    }
}

impl From<Schema> for SchemaSpec {
    fn from(schema: Schema) -> Self {
        let columns = schema.columns.into_iter().filter(|column| !column.derived);
        let column = columns.map(ColumnSpec::from).collect();
        let Format { header, delimiter, quote, decimal, thousands, encoding, comment, missing } =
            schema.format;
        let reviewed = schema.reviewed;
        Self {
            reviewed,
            header,
            delimiter,
            quote,
            decimal,
            thousands,
            encoding,
            comment,
            missing,
            column,
        }
    }
}

impl From<Column> for ColumnSpec {
    fn from(column: Column) -> Self {
        let Column { name, kind, date, missing, missing_words, indicator, known, log, .. } = column;
        let named = |kind| Self::named(&name, kind);
        let bound = |value: f64| match &date {
            Some(form) if value.fract() == 0.0 => {
                Some(Value::Text(form.origin.after(value).to_string()))
            }
            _ => Some(Value::Number(value)),
        };
        let impute = match missing {
            Missing::Impute(value) => match &kind {
                Kind::Categorical { categories } => {
                    categories.get(value as usize).map(|name| Value::Text(name.clone()))
                }
                _ => bound(value),
            },
            _ => None,
        };
        let numeric = matches!(kind, Kind::Numeric { .. });
        let spec = match kind {
            Kind::Numeric { min, max } => {
                let kind = if date.is_some() { KindName::Date } else { KindName::Numeric };
                Self { min: bound(min), max: bound(max), ..named(kind) }
            }
            Kind::Categorical { mut categories } => {
                if missing == Missing::Category
                    && categories.last().is_some_and(|c| c == MISSING_CATEGORY)
                {
                    categories.pop();
                }
                let shares = known.shares.clone();
                Self { categories: Some(categories), shares, ..named(KindName::Categorical) }
            }
            Kind::Label(Label::Range { min, max }) => {
                Self { min: bound(min), max: bound(max), ..named(KindName::Label) }
            }
            Kind::Label(Label::Classes(classes)) => {
                let prevalence = known.prevalence.map(|shares| match shares[..] {
                    [_, positive] => Prevalence::Positive(positive),
                    _ => Prevalence::Each(shares),
                });
                Self { classes: Some(classes), prevalence, ..named(KindName::Label) }
            }
            Kind::Time { max } => Self { max: bound(max), ..named(KindName::Time) },
            Kind::Exposure { min, max } => {
                Self { min: bound(min), max: bound(max), ..named(KindName::Exposure) }
            }
            Kind::Site => named(KindName::Site),
            Kind::Person { most } => Self { records: Some(most), ..named(KindName::Person) },
            Kind::Ignored => named(KindName::Ignored),
        };
        let written = |form: &DateForm| (form.format.clone(), form.origin.to_string());
        let (format, origin) = date.as_ref().map(written).unzip();
        let missing = match missing {
            Missing::Drop => None,
            Missing::Category => Some(MissingSpec::Rule(MissingRule::Category)),
            Missing::Impute(_) => impute.map(|impute| MissingSpec::Impute(ImputeSpec { impute })),
        };
        // A number's own category has its indicator already.
        let implied = numeric && matches!(missing, Some(MissingSpec::Rule(_)));
        Self {
            format,
            origin,
            mean: known.mean,
            sd: known.sd,
            transform: log.then_some(Transform::Log),
            indicator: (indicator && !implied).then_some(true),
            missing_words: (!missing_words.is_empty()).then_some(missing_words),
            missing,
            ..spec
        }
    }
}

impl Kind {
    /// Whether the column enters the encoded row.
    #[must_use]
    #[doc(hidden)]
    pub fn is_feature(&self) -> bool {
        matches!(self, Self::Numeric { .. } | Self::Categorical { .. } | Self::Exposure { .. })
    }

    /// Its name in a schema file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Numeric { .. } => KindName::Numeric.name(),
            Self::Categorical { .. } => KindName::Categorical.name(),
            Self::Label(_) => KindName::Label.name(),
            Self::Site => KindName::Site.name(),
            Self::Person { .. } => KindName::Person.name(),
            Self::Time { .. } => KindName::Time.name(),
            Self::Exposure { .. } => KindName::Exposure.name(),
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

    /// All columns, in the order of the file; an indicator ([`Column::derived`]) follows its
    /// column.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns that enter the encoded row, in order.
    pub fn features(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.kind.is_feature())
    }

    /// The longest time that counts, where records have times until an event.
    #[must_use]
    pub fn longest_time(&self) -> Option<f64> {
        self.columns.iter().find_map(|column| match column.kind {
            Kind::Time { max } => Some(max),
            _ => None,
        })
    }

    /// Takes a numeric column for the time until the event that the label `event` says, or the
    /// label is moved there.
    ///
    /// # Errors
    /// What is no such column.
    pub fn with_times(mut self, time: &str, event: &str) -> Result<Self, SchemaError> {
        let problem = |name: &str, problem: &str| SchemaError::Role {
            name: name.to_owned(),
            problem: problem.to_owned(),
        };
        for column in &mut self.columns {
            let is_event = column.name == event;
            match &column.kind {
                Kind::Label(Label::Classes(classes)) if is_event && classes.len() == 2 => {}
                Kind::Label(_) if is_event => {
                    return Err(problem(
                        event,
                        "must have two classes, the event second or `positive`",
                    ));
                }
                Kind::Categorical { categories } if is_event && categories.len() == 2 => {
                    column.kind = Kind::Label(Label::Classes(categories.clone()));
                    column.known = PublicKnowledge::default();
                }
                Kind::Numeric { min, max } if is_event && *min == 0.0 && *max == 1.0 => {
                    let classes = vec!["0".to_owned(), "1".to_owned()];
                    column.kind = Kind::Label(Label::Classes(classes));
                    column.known = PublicKnowledge::default();
                }
                // What was drafted as the label and is not the event is left out.
                Kind::Label(_) if column.name != time => column.kind = Kind::Ignored,
                _ => {}
            }
            if column.name == time {
                let max = match column.kind {
                    Kind::Numeric { max, .. } | Kind::Label(Label::Range { max, .. }) => max,
                    Kind::Time { max } => max,
                    _ => return Err(problem(time, "must be a number, to be a time")),
                };
                column.kind = Kind::Time { max };
                column.known = PublicKnowledge::default();
                column.missing = Missing::Drop;
            }
        }
        for name in [time, event] {
            if !self.columns.iter().any(|c| c.name == name) {
                return Err(problem(name, "is no column of the schema"));
            }
        }
        Self::new(self.columns, self.format, self.reviewed)
    }

    /// Takes a numeric column for what counts are counted in.
    ///
    /// # Errors
    /// What is no such column.
    pub fn with_exposure(mut self, name: &str) -> Result<Self, SchemaError> {
        let problem = |problem: &str| SchemaError::Role {
            name: name.to_owned(),
            problem: problem.to_owned(),
        };
        let column = self.columns.iter_mut().find(|c| c.name == name);
        let column = column.ok_or_else(|| problem("is no column of the schema"))?;
        match column.kind {
            Kind::Numeric { min, max } if min > 0.0 && column.date.is_none() => {
                column.kind = Kind::Exposure { min, max };
                column.known = PublicKnowledge::default();
            }
            Kind::Exposure { .. } => {}
            _ => {
                return Err(problem(
                    "must be numeric with min above 0, to be an exposure: its logarithm is taken",
                ));
            }
        }
        Self::new(self.columns, self.format, self.reviewed)
    }

    /// What is predicted.
    #[must_use]
    pub fn label(&self) -> &Label {
        self.columns
            .iter()
            .find_map(
                |column| if let Kind::Label(label) = &column.kind { Some(label) } else { None },
            )
            .expect("a checked schema has one label")
    }

    /// Whether models learn the logarithm of the label.
    #[must_use]
    pub fn has_log_label(&self) -> bool {
        self.columns.iter().any(|column| column.log)
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
