//! What may be asked about: the columns of the public schema.

use consenso_tables::{Column, Kind, Label, Missing, Records, Schema, class_of};

/// What a column holds, by the schema.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnKind {
    /// A number with a public range.
    Number {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// One of these public categories.
    Levels(Vec<String>),
}

/// Where a record keeps a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Feature(usize),
    /// A feature of which the logarithm is kept, as part of its range.
    Logarithm(usize),
    Label,
    /// The size of the label, whose sign says whether the event was seen.
    Time,
}

/// A column that questions may name.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: ColumnKind,
    /// What becomes of a missing value, in words.
    pub missing: String,
    /// Its mean, where the schema knows it from elsewhere.
    pub mean: Option<f64>,
    /// Its standard deviation, where the schema knows it from elsewhere.
    pub sd: Option<f64>,
    /// How far apart its values are, counted from the smallest, where the schema knows it.
    pub step: Option<f64>,
    /// The shares of its categories, where the schema knows them from elsewhere.
    pub shares: Option<Vec<f64>>,
    place: Place,
    /// Whether records hold its logarithm.
    log: bool,
}

/// All columns that questions may name, in the order of the schema.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    all: Vec<ColumnInfo>,
}

impl Columns {
    /// The features and the label of a schema.
    #[must_use]
    pub fn of(schema: &Schema) -> Self {
        let mut feature = 0;
        let mut all = Vec::new();
        for column in schema.columns() {
            let (kind, place) = match &column.kind {
                &Kind::Numeric { min, max } => (ColumnKind::Number { min, max }, None),
                Kind::Categorical { categories } => (ColumnKind::Levels(categories.clone()), None),
                Kind::Label(Label::Classes(classes)) => {
                    (ColumnKind::Levels(classes.clone()), Some(Place::Label))
                }
                &Kind::Label(Label::Range { min, max }) => {
                    (ColumnKind::Number { min, max }, Some(Place::Label))
                }
                &Kind::Time { max } => (ColumnKind::Number { min: 0.0, max }, Some(Place::Time)),
                &Kind::Exposure { min, max } => {
                    (ColumnKind::Number { min, max }, Some(Place::Logarithm(feature)))
                }
                Kind::Site | Kind::Person { .. } | Kind::Frequency { .. } | Kind::Ignored => {
                    continue;
                }
            };
            let place = place.unwrap_or(Place::Feature(feature));
            feature += usize::from(column.kind.is_feature());
            all.push(ColumnInfo {
                name: column.name.clone(),
                kind,
                missing: missing(column),
                mean: column.known.mean.filter(|_| !column.log),
                sd: column.known.sd.filter(|_| !column.log),
                // A date is a whole day.
                step: column.known.step.or(column.date.is_some().then_some(1.0)),
                shares: column.known.shares.clone().or_else(|| column.known.prevalence.clone()),
                place,
                log: column.log,
            });
        }
        Self { all }
    }

    /// The column of this name, and its number.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(usize, &ColumnInfo)> {
        self.all.iter().enumerate().find(|(_, column)| column.name == name)
    }

    /// The column of this number.
    #[must_use]
    pub fn get(&self, column: usize) -> &ColumnInfo {
        &self.all[column]
    }

    /// All columns.
    #[must_use]
    pub fn all(&self) -> &[ColumnInfo] {
        &self.all
    }

    /// The value of a raw record: a number as part of its range, a category as its code.
    pub(crate) fn value(&self, column: usize, row: &[f64], label: f64) -> f64 {
        let info = &self.all[column];
        match (info.place, &info.kind) {
            (Place::Feature(at), _) => row[at],
            (Place::Logarithm(at), &ColumnKind::Number { min, max }) => {
                let (low, high) = (libm::log(min), libm::log(max));
                let value = libm::exp(low + row[at].clamp(0.0, 1.0) * (high - low));
                ((value - min) / (max - min)).clamp(0.0, 1.0)
            }
            (Place::Time, &ColumnKind::Number { max, .. }) => (label.abs() / max).clamp(0.0, 1.0),
            (Place::Logarithm(_) | Place::Time, ColumnKind::Levels(_)) => 0.0,
            (Place::Label, ColumnKind::Levels(levels)) => class_of(label, levels.len()) as f64,
            (Place::Label, &ColumnKind::Number { min, max }) => {
                let label = if info.log { libm::exp(label) } else { label };
                ((label - min) / (max - min)).clamp(0.0, 1.0)
            }
        }
    }

    /// Whether records have as many raw values as there are features.
    pub(crate) fn fits(&self, records: &Records) -> bool {
        let features = self
            .all
            .iter()
            .filter(|c| matches!(c.place, Place::Feature(_) | Place::Logarithm(_)))
            .count();
        records.is_empty() || records.dim() >= features
    }
}

/// What a missing value counts as.
fn missing(column: &Column) -> String {
    match column.missing {
        Missing::Drop => "records that miss it are left out".into(),
        Missing::Category => "missing is a category of its own".into(),
        Missing::Impute(value) => match &column.kind {
            Kind::Categorical { categories } => {
                let name = categories.get(value as usize).map_or("?", String::as_str);
                format!("missing counts as \"{name}\"")
            }
            _ => format!("missing counts as {value}"),
        },
    }
}
