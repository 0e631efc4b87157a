//! From a table's values to the rows the kernels see, and what is publicly known about those rows.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::codes::CodeLayout;
use super::scouted::{self, RawColumn, RawLayout};
use super::{DataError, Kind, Records, RowBounds, Schema, Table};

/// How a record becomes a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// One integer-coded feature a column, as in the paper's experiments (docs/paper.md section 6):
    /// features in the order of the schema, categories as their code from 0 in the schema's order,
    /// every column divided by the largest magnitude its declared range allows, then the row scaled
    /// to unit ℓ2 norm. No bias. Adult: d = 14.
    Paper,
    /// Numbers moved to \[0, 1\] by their declared range, categories one-hot, a bias column of 1 at
    /// the end, then the row scaled to unit ℓ2 norm. Adult: d = 6 + 99 + 1 = 106.
    #[default]
    OneHot,
    /// Numbers as they are, clamped to their declared range.
    Numeric,
    /// Features standardised by a first stage of the run: every site releases noised histograms,
    /// all derive the same centre, scale and shares from their sum, and the rest of the budget
    /// trains on standardised rows. Until then records are kept raw: numbers moved to \[0, 1\] by
    /// their declared range, categories as codes.
    Scouted,
}

impl Encoding {
    /// Its name in an experiment file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::OneHot => "one-hot",
            Self::Numeric => "numeric",
            Self::Scouted => "scouted",
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An encoding of one schema: a pure function of public knowledge, so a model's owner can encode
/// new records with it.
///
/// Serialised, it says everything another program needs to do the same: what each feature column of
/// the schema becomes, in order, whether a bias of 1 follows, and whether the row is then divided
/// by its ℓ2 norm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Encoder {
    encoding: Encoding,
    #[serde(rename = "columns")]
    parts: Vec<Part>,
    /// Whether the last feature is a 1.
    bias: bool,
    /// Whether a row is divided by its norm at the end.
    unit_rows: bool,
    features: Vec<String>,
    bounds: RowBounds,
    /// Whether a feature that is zero stays zero.
    keeps_zeros: bool,
}

/// Rows that are encoded together: whole tiles.
const PART: usize = 1 << 13;

/// How encoded rows are kept.
#[derive(Debug)]
pub enum Keeping {
    /// As codes, and the column of each of their categories.
    Codes(Arc<CodeLayout>, Vec<usize>),
    /// With all their numbers.
    Rows,
    /// As what is not zero.
    Nonzeros,
}

/// What one column of the schema becomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Part {
    /// value / scale
    Scaled { scale: f64 },
    /// (value − min) / width
    Ranged { min: f64, width: f64 },
    /// one of so many
    OneOf { count: usize },
    /// the code of a category, as it is
    Code,
    /// ((value − min) / width − centre) / scale, clipped to ±`limit`
    Standardised { min: f64, width: f64, centre: f64, scale: f64, limit: f64 },
    /// (log value − log min) / width
    LogRanged { min: f64, width: f64 },
    /// log value − centre, with the coefficient one
    Offset { centre: f64 },
    /// (1\[level\] − p) / √(p(1 − p) + floor) by level, p its share; two levels are one feature,
    /// (±1 − (2p − 1)) / √(4p(1 − p) + floor)
    Levels { shares: Vec<f64>, floor: f64 },
}

impl Part {
    /// Features it becomes.
    fn width(&self) -> usize {
        match self {
            Self::OneOf { count } => *count,
            Self::Levels { shares, .. } => scouted::encoded_width(RawColumn::Levels(shares.len())),
            _ => 1,
        }
    }
}

/// What one feature column of a schema adds to a row before rows are divided by their norm: all
/// other programs need to do the same.
#[derive(Clone, Debug, PartialEq)]
pub enum FeaturePart {
    /// A number clamped to \[low, high\], then slope·number + offset: one feature.
    Number {
        /// Smallest number that counts.
        low: f64,
        /// Largest number that counts.
        high: f64,
        /// Times this.
        slope: f64,
        /// Plus this.
        offset: f64,
    },
    /// A category: the features of each word.
    Words {
        /// The categories.
        words: Vec<String>,
        /// The features that each of them becomes, one row per category.
        rows: Vec<Vec<f64>>,
    },
}

impl Encoder {
    /// What every feature column becomes, in order; a bias of 1 follows where there is one.
    #[must_use]
    pub fn pieces(&self, schema: &Schema) -> Vec<FeaturePart> {
        let piece = |(column, part): (&super::Column, &Part)| match (&column.kind, part) {
            (Kind::Categorical { categories }, part) => {
                let row = |code: usize| match part {
                    Part::OneOf { count } => {
                        (0..*count).map(|k| f64::from(u8::from(k == code))).collect()
                    }
                    Part::Levels { shares, floor } => {
                        let mut row =
                            vec![0.0; scouted::encoded_width(RawColumn::Levels(shares.len()))];
                        scouted::level(code, shares, *floor, &mut row);
                        row
                    }
                    Part::Scaled { scale } => vec![code as f64 / scale],
                    _ => vec![code as f64],
                };
                FeaturePart::Words {
                    words: categories.clone(),
                    rows: (0..categories.len()).map(row).collect(),
                }
            }
            (kind, part) => {
                let (min, max) = match kind {
                    Kind::Numeric { min, max } => (*min, *max),
                    _ => (f64::NEG_INFINITY, f64::INFINITY),
                };
                match *part {
                    Part::Scaled { scale } => {
                        FeaturePart::Number { low: min, high: max, slope: 1.0 / scale, offset: 0.0 }
                    }
                    Part::Ranged { min: start, width } => FeaturePart::Number {
                        low: min,
                        high: max,
                        slope: 1.0 / width,
                        offset: -start / width,
                    },
                    Part::Standardised { min: start, width, centre, scale, limit } => {
                        let at = |features: f64| start + width * (centre + scale * features);
                        let (low, high) = (min.max(at(-limit)), max.min(at(limit)));
                        let slope = 1.0 / (width * scale);
                        FeaturePart::Number {
                            low,
                            high,
                            slope,
                            offset: -(start + width * centre) * slope,
                        }
                    }
                    _ => FeaturePart::Number { low: min, high: max, slope: 1.0, offset: 0.0 },
                }
            }
        };
        schema.features().zip(&self.parts).map(piece).collect()
    }

    /// The encoder of a schema.
    ///
    /// # Errors
    /// [`DataError::NotNumeric`] if the encoding is `numeric` and a feature is not.
    pub fn new(schema: &Schema, encoding: Encoding) -> Result<Self, DataError> {
        let mut parts = Vec::new();
        let mut features = Vec::new();
        // Smallest and largest magnitude of every value that is written before the row is scaled. A
        // one-hot column writes one 1.
        let mut magnitudes = Vec::new();
        for column in schema.features() {
            let name = &column.name;
            match (&column.kind, encoding) {
                (Kind::Numeric { min, max }, Encoding::OneHot | Encoding::Scouted) => {
                    parts.push(Part::Ranged { min: *min, width: max - min });
                    magnitudes.push((0.0, 1.0));
                    features.push(name.clone());
                }
                (Kind::Numeric { min, max }, _) => {
                    let largest = min.abs().max(max.abs());
                    let smallest =
                        if *min <= 0.0 && *max >= 0.0 { 0.0 } else { min.abs().min(max.abs()) };
                    let scale = if encoding == Encoding::Paper { largest } else { 1.0 };
                    parts.push(Part::Scaled { scale });
                    magnitudes.push((smallest / scale, largest / scale));
                    features.push(name.clone());
                }
                (Kind::Exposure { min, max }, Encoding::Scouted) => {
                    let width = libm::log(*max) - libm::log(*min);
                    parts.push(Part::LogRanged { min: *min, width });
                    magnitudes.push((0.0, 1.0));
                    features.push(format!("log({name})"));
                }
                (Kind::Exposure { .. }, _) => {
                    return Err(DataError::Exposure {
                        encoding: encoding.name(),
                        column: name.clone(),
                    });
                }
                (Kind::Categorical { categories }, Encoding::Paper) => {
                    let largest = (categories.len() - 1).max(1) as f64;
                    parts.push(Part::Scaled { scale: largest });
                    magnitudes.push((0.0, 1.0));
                    features.push(name.clone());
                }
                (Kind::Categorical { categories }, Encoding::OneHot) => {
                    parts.push(Part::OneOf { count: categories.len() });
                    magnitudes.push((1.0, 1.0));
                    features.extend(categories.iter().map(|category| format!("{name}={category}")));
                }
                (Kind::Categorical { categories }, Encoding::Scouted) => {
                    parts.push(Part::Code);
                    magnitudes.push((0.0, (categories.len() - 1) as f64));
                    features.push(name.clone());
                }
                (Kind::Categorical { .. }, Encoding::Numeric) => {
                    return Err(DataError::NotNumeric {
                        encoding: encoding.name(),
                        column: name.clone(),
                    });
                }
                _ => {}
            }
        }
        if encoding == Encoding::OneHot {
            magnitudes.push((1.0, 1.0));
            features.push("bias".to_owned());
        }
        let bounds = if scales_rows(encoding) {
            unit_bounds(&magnitudes)
        } else {
            plain_bounds(&magnitudes)
        };
        let zero = |part: &Part| match *part {
            Part::Scaled { .. } => true,
            Part::Ranged { min, .. } => min == 0.0,
            _ => false,
        };
        let (keeps_zeros, public) = (parts.iter().all(zero), schema.is_reviewed());
        Ok(Self {
            encoding,
            parts,
            bias: encoding == Encoding::OneHot,
            unit_rows: scales_rows(encoding),
            features,
            bounds: RowBounds { public, ..bounds },
            keeps_zeros,
        })
    }

    /// Whether it can encode records of this schema.
    #[must_use]
    pub fn fits(&self, schema: &Schema) -> bool {
        let fits = |(column, part): (&super::Column, &Part)| match (&column.kind, part) {
            (Kind::Categorical { categories }, Part::OneOf { count }) => categories.len() == *count,
            (Kind::Categorical { categories }, Part::Levels { shares, .. }) => {
                categories.len() == shares.len()
            }
            (_, Part::OneOf { .. } | Part::Levels { .. }) => false,
            _ => true,
        };
        let width = self.parts.iter().map(Part::width).sum::<usize>() + usize::from(self.bias);
        schema.features().count() == self.parts.len()
            && width == self.features.len()
            && schema.features().zip(&self.parts).all(fits)
    }

    /// The feature that is 1 in every row before rows are scaled: the intercept, if there is one.
    #[must_use]
    pub fn bias(&self) -> Option<usize> {
        self.bias.then(|| self.features.len() - 1)
    }

    /// Whether every row is divided by its ℓ2 norm.
    #[must_use]
    #[doc(hidden)]
    pub fn unit_rows(&self) -> bool {
        self.unit_rows
    }

    /// By feature, how much one unit of its column adds to it before rows are scaled: 1 for a
    /// category and for the bias.
    #[must_use]
    pub fn units(&self) -> Vec<f64> {
        let mut units = Vec::with_capacity(self.dim());
        for part in &self.parts {
            match *part {
                Part::Scaled { scale } => units.push(1.0 / scale),
                Part::Ranged { width, .. } => units.push(1.0 / width),
                Part::OneOf { count } => units.extend(std::iter::repeat_n(1.0, count)),
                Part::Code | Part::Offset { .. } => units.push(1.0),
                Part::LogRanged { width, .. } => units.push(1.0 / width),
                Part::Standardised { width, scale, .. } => units.push(1.0 / (width * scale)),
                Part::Levels { ref shares, floor } => {
                    let spread = |p: &f64| (p * (1.0 - p) + floor).sqrt();
                    match shares.len() {
                        0 | 1 => {}
                        2 => units.push(2.0 / (4.0 * shares[1] * (1.0 - shares[1]) + floor).sqrt()),
                        _ => units.extend(shares.iter().map(|p| 1.0 / spread(p))),
                    }
                }
            }
        }
        units.extend(self.bias.then_some(1.0));
        units
    }

    /// Smallest and largest norm a row can have before it is scaled; `None` where rows are not.
    #[must_use]
    pub fn norms(&self, schema: &Schema) -> Option<(f64, f64)> {
        let ends = |(column, part): (&super::Column, &Part)| match (part, &column.kind) {
            (&Part::Scaled { scale }, Kind::Numeric { min, max }) => {
                let low = if *min <= 0.0 && *max >= 0.0 { 0.0 } else { min.abs().min(max.abs()) };
                ((low / scale).powi(2), (min.abs().max(max.abs()) / scale).powi(2))
            }
            (Part::OneOf { .. }, _) => (1.0, 1.0),
            _ => (0.0, 1.0),
        };
        let add = |sum: (f64, f64), end: (f64, f64)| (sum.0 + end.0, sum.1 + end.1);
        let start = if self.bias { (1.0, 1.0) } else { (0.0, 0.0) };
        let (low, high) = schema.features().zip(&self.parts).map(ends).fold(start, add);
        self.unit_rows.then(|| (low.sqrt(), high.sqrt()))
    }

    /// The encoder of a schema once its columns were scouted: `standard` is what the run found, see
    /// [`RawLayout`].
    ///
    /// # Panics
    /// If the standard is of another schema.
    #[must_use]
    pub fn scouted(schema: &Schema, layout: &RawLayout, standard: &[f64]) -> Self {
        assert_eq!(standard.len(), layout.standard_len(), "a standard of another schema");
        let (floor, limit) = layout.floor_and_limit(standard);
        let (mut parts, mut features, mut magnitudes, mut at) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        for column in schema.features() {
            let name = &column.name;
            match &column.kind {
                Kind::Categorical { categories } => {
                    let shares = standard[at..at + categories.len()].to_vec();
                    at += shares.len();
                    match categories.len() {
                        0 | 1 => {}
                        2 => features.push(format!("{name}={}", categories[1])),
                        _ => features
                            .extend(categories.iter().map(|category| format!("{name}={category}"))),
                    }
                    parts.push(Part::Levels { shares, floor });
                }
                Kind::Exposure { min, max } => {
                    let low = libm::log(*min);
                    let centre = low + (libm::log(*max) - low) * standard[at];
                    at += 2;
                    parts.push(Part::Offset { centre });
                    features.push(format!("log({name})"));
                }
                kind => {
                    let (min, width) = match kind {
                        Kind::Numeric { min, max } => (*min, max - min),
                        _ => (0.0, 1.0),
                    };
                    let (centre, scale) = (standard[at], standard[at + 1]);
                    at += 2;
                    parts.push(Part::Standardised { min, width, centre, scale, limit });
                    features.push(name.clone());
                }
            }
        }
        // A level is farthest from its mean where it is the rarer of two.
        features.push("bias".to_owned());
        let reach = limit.max(2.0 / floor.sqrt());
        magnitudes.resize(features.len(), (0.0, reach));
        let bounds = RowBounds { public: schema.is_reviewed(), ..plain_bounds(&magnitudes) };
        Self {
            encoding: Encoding::Scouted,
            parts,
            bias: true,
            unit_rows: false,
            features,
            bounds,
            keeps_zeros: false,
        }
    }

    /// Whether a row has the logarithm of a number, as it has of an exposure.
    #[must_use]
    pub fn has_offset(&self) -> bool {
        self.parts.iter().any(|p| matches!(p, Part::LogRanged { .. } | Part::Offset { .. }))
    }

    /// By feature column of the schema, the number that stands in its middle, where columns were
    /// scouted; `None` for categories.
    #[must_use]
    pub fn centres(&self) -> Vec<Option<f64>> {
        let centre = |part: &Part| match *part {
            Part::Standardised { min, width, centre, .. } => Some(min + width * centre),
            Part::Offset { centre } => Some(libm::exp(centre)),
            _ => None,
        };
        self.parts.iter().map(centre).collect()
    }

    /// The encoding.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Features a row.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.features.len()
    }

    /// Names of the features: the column, or `column=category`, and `bias`.
    #[must_use]
    pub fn features(&self) -> &[String] {
        &self.features
    }

    /// What every row this encoder can make satisfies, in exact arithmetic on the stored numbers.
    #[must_use]
    pub fn bounds(&self) -> RowBounds {
        self.bounds
    }

    /// Encodes one record, given as in [`Table::row`], into `row`, which must be zero and
    /// [`Self::dim`] long. A category that is NaN is unknown, and all of its features stay zero.
    pub fn encode(&self, values: &[f64], row: &mut [f64]) {
        assert_eq!(
            (values.len(), row.len()),
            (self.parts.len(), self.dim()),
            "a record of another schema"
        );
        let mut at = 0;
        for (&value, part) in values.iter().zip(&self.parts) {
            if value.is_nan() {
                at += part.width();
                continue;
            }
            match *part {
                Part::Scaled { scale } => row[at] = value / scale,
                Part::Ranged { min, width } => row[at] = (value - min) / width,
                Part::Code => row[at] = value,
                Part::LogRanged { min, width } => {
                    row[at] = (libm::log(value) - libm::log(min)) / width;
                }
                Part::Offset { centre } => row[at] = libm::log(value) - centre,
                Part::Standardised { min, width, centre, scale, limit } => {
                    row[at] = scouted::number((value - min) / width, centre, scale, limit);
                }
                Part::Levels { ref shares, floor } => {
                    scouted::level(value as usize, shares, floor, &mut row[at..]);
                    at += scouted::encoded_width(RawColumn::Levels(shares.len()));
                    continue;
                }
                Part::OneOf { count } => {
                    let code = value as usize;
                    assert!(code < count, "code {code} of {count} categories");
                    row[at + code] = 1.0;
                    at += count - 1;
                }
            }
            at += 1;
        }
        if self.bias {
            row[at] = 1.0;
        }
        if self.unit_rows {
            to_unit_norm(row);
        }
    }

    /// Encodes a record given by what is not zero, where zeros stay zero: (feature, value) by
    /// increasing feature.
    fn encode_listed(&self, (features, values): (&[u32], &[f64]), row: &mut Vec<(u32, f64)>) {
        let one = |(&feature, &value): (&u32, &f64)| match self.parts[feature as usize] {
            Part::Scaled { scale } => (feature, value / scale),
            Part::Ranged { min, width } => (feature, (value - min) / width),
            _ => unreachable!("categories have codes, not zeros"),
        };
        row.clear();
        row.extend(features.iter().zip(values).map(one));
        if self.bias {
            row.push((self.parts.len() as u32, 1.0));
        }
        if self.unit_rows {
            let mut scaled: Vec<f64> = row.iter().map(|e| e.1).collect();
            to_unit_norm(&mut scaled);
            row.iter_mut().zip(scaled).for_each(|(entry, value)| entry.1 = value);
        }
    }

    /// Encodes all records of a table, which must follow the encoder's schema: as codes where most
    /// features are those of categories, as their non-zeros alone where most are zero, which shows
    /// in the first rows.
    #[must_use]
    pub fn encode_table(&self, table: &Table) -> Records {
        self.encode_as(table, &self.keeping(table))
    }

    /// How the rows of a table are kept, and those of all that belong to it, as its first rows
    /// show.
    #[doc(hidden)]
    pub fn keeping(&self, table: &Table) -> Keeping {
        let (shape, columns) = self.shape(table.schema());
        // What is unknown has no code.
        let coded = table.report().unknown.is_empty() && !table.is_listed();
        if coded && shape.pays() {
            return Keeping::Codes(Arc::new(shape), columns);
        }
        let sample = table.len().min(32);
        let mut records = Records::sparse(self.dim());
        (0..sample).for_each(|index| self.push(table, index, table.labels()[index], &mut records));
        // No kernel reads rows that are not standardised yet: they are kept as what is smallest.
        let raw = self.parts.contains(&Part::Code);
        if coded && raw && shape.is_smaller(sample, records.stored()) {
            return Keeping::Codes(Arc::new(shape), columns);
        }
        if 4 * records.stored() > sample * self.dim() { Keeping::Rows } else { Keeping::Nonzeros }
    }

    /// Encodes all records of a table, kept in that way.
    #[doc(hidden)]
    pub fn encode_as(&self, table: &Table, keeping: &Keeping) -> Records {
        let mut records = match keeping {
            Keeping::Codes(shape, _) => Records::coded(Arc::clone(shape), table.len()),
            Keeping::Rows => Records::with_capacity(self.dim(), table.len()),
            Keeping::Nonzeros => Records::sparse(self.dim()),
        };
        // Each part is kept as all rows are, whatever its own number of rows.
        let empty = records.emptied();
        let parts: Vec<usize> = (0..table.len()).step_by(PART).collect();
        // A few parts per thread at once: they are in memory twice until they are appended.
        for some in parts.chunks(4 * rayon::current_num_threads()) {
            let encoded = |&start: &usize| {
                let mut records = empty.clone();
                self.encode_rows(
                    table,
                    start..(start + PART).min(table.len()),
                    keeping,
                    &mut records,
                );
                records
            };
            let encoded: Vec<Records> = some.par_iter().map(encoded).collect();
            encoded.iter().for_each(|part| records.append(part));
        }
        records
    }

    /// Encodes some rows of a table.
    fn encode_rows(
        &self,
        table: &Table,
        rows: Range<usize>,
        keeping: &Keeping,
        records: &mut Records,
    ) {
        let mut row = vec![0.0; self.dim()];
        // What models learn of a label.
        let log = table.schema().has_log_label();
        let learned = |index: usize| {
            let label = table.labels()[index];
            if log { libm::log(label) } else { label }
        };
        for index in rows {
            let Keeping::Codes(shape, columns) = keeping else {
                self.push(table, index, learned(index), records);
                continue;
            };
            let values = table.row(index);
            row.fill(0.0);
            self.encode(&values, &mut row);
            let numbers = shape.numbers.iter().map(|&n| row[n as usize]);
            let level = |part: usize| values[columns[part]] as usize;
            records.push_coded(numbers, level, learned(index));
        }
    }

    /// About how many bytes a row of a file of this schema that lists all cells takes outside
    /// memory.
    #[must_use]
    pub fn row_bytes(&self, schema: &Schema) -> usize {
        let (shape, columns) = self.shape(schema);
        let coded =
            shape.pays() || self.parts.contains(&Part::Code) && shape.is_smaller(1, self.dim());
        8 + if coded { 8 * shape.numbers.len() + columns.len() } else { 8 * self.dim() }
    }

    /// How rows are kept as codes, and the column of each of their categories.
    fn shape(&self, schema: &Schema) -> (CodeLayout, Vec<usize>) {
        let (mut shape, mut columns) = (CodeLayout::default(), Vec::new());
        for (c, (part, column)) in self.parts.iter().zip(schema.features()).enumerate() {
            match (part, &column.kind) {
                (Part::Code, Kind::Categorical { categories }) => {
                    shape.category(categories.len(), 1, |code| (0, code as f64));
                    columns.push(c);
                }
                (Part::OneOf { count }, _) => {
                    shape.category(*count, *count, |l| (l, 1.0));
                    columns.push(c);
                }
                (Part::Levels { shares, floor }, _) => {
                    if scouted::category(&mut shape, shares, *floor) {
                        columns.push(c);
                    }
                }
                _ => shape.number(),
            }
        }
        match (self.bias, self.unit_rows) {
            // A bias of 1, scaled with the row, is what the row was scaled by.
            (true, true) => shape.scaling_number(),
            (true, false) => shape.constant(1.0),
            (false, _) => {}
        }
        (shape, columns)
    }

    fn push(&self, table: &Table, index: usize, label: f64, records: &mut Records) {
        match table.listed(index) {
            Some(listed) if self.keeps_zeros => {
                let mut row = Vec::with_capacity(listed.0.len() + 1);
                self.encode_listed(listed, &mut row);
                records.push_entries(row.into_iter(), label);
            }
            _ => records.push_with(|row| {
                self.encode(&table.row(index), row);
                label
            }),
        }
    }
}

/// Whether rows are scaled to unit length.
fn scales_rows(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Paper | Encoding::OneHot)
}

/// Scales a row so that ‖row‖₂ ≤ 1 holds **exactly** for the stored numbers, and within 10⁻¹⁴·d
/// of 1. A zero row stays zero.
///
/// Why exactly: sensitivities rest on it. With u = 2⁻⁵³ and n the true norm of the row after the
/// first division (which brings its largest magnitude to 1, so no square that matters underflows),
/// the computed norm is at least n(1 − du)^½(1 − u). It is enlarged by 1 + (2d + 8)u, and each
/// quotient is at most (1 + u) times the true one; the product of these factors stays below 1
/// because (2d + 8)u outweighs du/2 + 4u and all second-order terms (d < 2⁴⁰).
pub fn to_unit_norm(row: &mut [f64]) {
    let largest = row.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 {
        return;
    }
    if largest != 1.0 {
        row.iter_mut().for_each(|value| *value /= largest);
    }
    let squares: f64 = row.iter().map(|value| value * value).sum();
    let norm = squares.sqrt() * (1.0 + (row.len() + 4) as f64 * f64::EPSILON);
    row.iter_mut().for_each(|value| *value /= norm);
}

/// Bounds of rows scaled by [`to_unit_norm`], from the smallest and largest magnitude of each of
/// their n possibly nonzero values.
///
/// ℓ2: 1, exactly. ℓ1: √n (Cauchy–Schwarz). ℓ∞: value j, at most h_j, stands beside others of at
/// least l_i each, so it becomes at most h_j / (h_j² + Σ_{i≠j} l_i²)^½.
pub fn unit_bounds(magnitudes: &[(f64, f64)]) -> RowBounds {
    let slack = 1.0 + (magnitudes.len() + 8) as f64 * f64::EPSILON;
    let least: f64 = magnitudes.iter().map(|(low, _)| low * low).sum();
    let share =
        |&(low, high): &(f64, f64)| high / (high * high + (least - low * low).max(0.0)).sqrt();
    let linf = magnitudes.iter().map(share).fold(0.0, f64::max) * slack;
    let l1 = (magnitudes.len() as f64).sqrt().next_up();
    RowBounds { l1, l2: 1.0, linf: linf.min(1.0), public: false, apart: None }
}

/// Bounds of rows as they are.
fn plain_bounds(magnitudes: &[(f64, f64)]) -> RowBounds {
    // n additions and squares, a root: each rounds by at most ε/2, so n + 8 of ε is more than
    // enough to round the result up.
    let up = 1.0 + (magnitudes.len() + 8) as f64 * f64::EPSILON;
    let largest = || magnitudes.iter().map(|&(_, high)| high);
    let linf = largest().fold(0.0, f64::max);
    // Scaled by the largest, so that the squares of a wide range do not overflow.
    let l2 = linf * largest().map(|high| (high / linf) * (high / linf)).sum::<f64>().sqrt() * up;
    RowBounds { l1: largest().sum::<f64>() * up, l2, linf, public: false, apart: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, Format, Label, csv};

    /// More rows than one thread encodes, of numbers, of codes and of what is not zero.
    #[test]
    fn rows_that_threads_encode_are_those_of_one_pass() {
        use std::fmt::Write as _;
        let words: Vec<String> = (0..30).map(|word| format!("w{word}")).collect();
        let classes = Label::Classes(vec!["no".to_owned(), "yes".to_owned()]);
        let mut text = "a,b,word,y\n".to_owned();
        for i in 0..3 * PART + 5 {
            let y = if i % 3 == 0 { "yes" } else { "no" };
            let _ = writeln!(text, "{},{},w{},{y}", i % 101, i * 7 % 13, i * i % 30);
        }
        let number = |name: &str, max: f64| Column::new(name, Kind::Numeric { min: 0.0, max });
        let word = |kind| Column::new("word", kind);
        let all = [Kind::Ignored, Kind::Categorical { categories: words }];
        for (kind, encoding) in all.into_iter().flat_map(|kind| {
            let encodings = [Encoding::Paper, Encoding::OneHot, Encoding::Scouted];
            encodings.map(|encoding| (kind.clone(), encoding))
        }) {
            let label = Column::new("y", Kind::Label(classes.clone()));
            let columns = vec![number("a", 100.0), number("b", 12.0), word(kind), label];
            let schema = Schema::new(columns, Format::default(), true).expect("valid");
            let table = csv::read(text.as_bytes(), "t.csv", &schema).expect("valid");
            let encoder = Encoder::new(&schema, encoding).expect("valid");
            let encoded = encoder.encode_table(&table);
            for keeping in [encoder.keeping(&table), Keeping::Rows, Keeping::Nonzeros] {
                let records = encoder.encode_as(&table, &keeping);
                let mut one_pass = records.emptied();
                encoder.encode_rows(&table, 0..table.len(), &keeping, &mut one_pass);
                assert!(records == one_pass, "{encoding}, {keeping:?}");
                assert_eq!(records.labels(), table.labels());
                for index in [0, PART - 1, PART, 2 * PART + 1, table.len() - 1] {
                    let mut row = vec![0.0; encoder.dim()];
                    encoder.encode(&table.row(index), &mut row);
                    assert_eq!(records.row(index), row, "{encoding}, {keeping:?}");
                    assert_eq!(encoded.select(&[index]).row(0), encoded.row(index));
                }
            }
        }
    }
}
