//! Features standardised by a noisy look at everybody's records
//! ([`Encoding::Scouted`](super::Encoding)).
//!
//! A record is kept *raw*: every number moved to \[0, 1\] by its public range, every category as
//! its code. A **standard** says what the columns look like on the whole (centre and scale of every
//! number, the share of every level, the same of the label) and is public, because it is computed
//! from noised histograms that were charged for. With it a raw record becomes a row of features of
//! about unit variance.

use super::codes::Shape;
use super::{Column, Kind, Records, Schema, Task};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How far from its centre a number counts at least, in scales. The standard says how far it does.
pub(crate) const LIMIT: f64 = 2.5;

/// What a raw column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RawColumn {
    /// A number in \[0, 1\].
    Number,
    /// A code below this count of levels.
    Levels(usize),
}

/// The raw columns of a schema and what is predicted: all of it public.
#[derive(Clone, Debug, PartialEq)]
pub struct RawLayout {
    columns: Vec<RawColumn>,
    task: Task,
    /// Centre and scale of the numbers whose mean and deviation the schema knows, as parts of the
    /// range, by column.
    known: Vec<Option<[f64; 2]>>,
    /// Class shares that the schema knows.
    prevalence: Option<Vec<f64>>,
}

impl RawLayout {
    /// The raw columns of a schema.
    #[must_use]
    pub fn of(schema: &Schema, task: Task) -> Self {
        let column = |kind: &Kind| match kind {
            Kind::Categorical { categories } => RawColumn::Levels(categories.len()),
            _ => RawColumn::Number,
        };
        let known = |c: &Column| match (&c.kind, c.known.mean, c.known.sd) {
            (&Kind::Numeric { min, max }, Some(mean), Some(sd)) if max > min && sd > 0.0 => {
                Some([(mean - min) / (max - min), sd / (max - min)])
            }
            _ => None,
        };
        let label = schema.columns().iter().find(|c| matches!(c.kind, Kind::Label(_)));
        Self {
            columns: schema.features().map(|c| column(&c.kind)).collect(),
            task,
            known: schema.features().map(known).collect(),
            prevalence: label.and_then(|c| c.known.prevalence.clone()),
        }
    }

    /// Centre and scale of a number, as parts of its range, where the schema knows them: it needs
    /// no scouting.
    #[must_use]
    pub fn known(&self, column: usize) -> Option<[f64; 2]> {
        self.known[column]
    }

    /// The class shares, where the schema knows them: the label needs no scouting.
    #[must_use]
    pub fn prevalence(&self) -> Option<&[f64]> {
        self.prevalence.as_deref()
    }

    /// Columns and label of which nothing is known, and how many there are in all.
    #[must_use]
    pub fn unknown(&self) -> (usize, usize) {
        let all = self.columns.len() + 1;
        let known = self.known.iter().flatten().count() + usize::from(self.prevalence.is_some());
        (all - known, all)
    }

    /// The columns, in the order of the schema's features.
    #[must_use]
    pub fn columns(&self) -> &[RawColumn] {
        &self.columns
    }

    /// What is predicted.
    #[must_use]
    pub fn task(&self) -> Task {
        self.task
    }

    /// How many numbers there are among the columns that need scouting.
    #[must_use]
    pub fn numbers(&self) -> usize {
        let open = |(c, known): &(&RawColumn, &Option<[f64; 2]>)| {
            **c == RawColumn::Number && known.is_none()
        };
        self.columns.iter().zip(&self.known).filter(open).count()
    }

    /// Classes of the label; `None` for a regression.
    #[must_use]
    pub fn classes(&self) -> Option<usize> {
        match self.task {
            Task::Binary => Some(2),
            Task::MultiClass { classes } => Some(classes),
            Task::Regression { .. } => None,
        }
    }

    /// Features a standardised row has, the intercept not counted: a number one, two levels one,
    /// more levels one each.
    #[must_use]
    pub fn features(&self) -> usize {
        self.columns.iter().map(|c| encoded_width(*c)).sum()
    }

    /// Length of a standard written as numbers: two for a number, one for a level, the same of the
    /// label, what a level's variance is raised by, and how far from its centre a number counts.
    #[must_use]
    pub(crate) fn standard_len(&self) -> usize {
        let column = |c: &RawColumn| match *c {
            RawColumn::Number => 2,
            RawColumn::Levels(levels) => levels,
        };
        self.columns.iter().map(column).sum::<usize>() + self.classes().unwrap_or(2) + 2
    }

    /// The standard that nobody looked for: what the schema knows, else a number around the middle
    /// of its range with a sixth of it as scale, levels and classes alike.
    #[must_use]
    pub fn blind(&self, floor: f64) -> Vec<f64> {
        let mut standard = Vec::with_capacity(self.standard_len());
        for (column, known) in self.columns.iter().zip(&self.known) {
            match *column {
                RawColumn::Number => standard.extend(known.unwrap_or([0.5, BLIND_SCALE])),
                RawColumn::Levels(levels) => standard.extend(vec![1.0 / levels as f64; levels]),
            }
        }
        match (self.classes(), &self.prevalence) {
            (Some(_), Some(shares)) => standard.extend(shares),
            (Some(classes), None) => standard.extend(vec![1.0 / classes as f64; classes]),
            (None, _) => standard.extend([0.5, BLIND_SCALE]),
        }
        standard.extend([floor, LIMIT]);
        standard
    }

    /// What a level's variance is raised by, and how far from its centre a number counts.
    pub(crate) fn floor_and_limit(&self, standard: &[f64]) -> (f64, f64) {
        let end = self.standard_len();
        (standard[end - 2], standard[end - 1])
    }

    /// Centre and scale of a regression's label, or the class shares: the end of a standard.
    #[must_use]
    pub(crate) fn label_part<'a>(&self, standard: &'a [f64]) -> &'a [f64] {
        let end = self.standard_len() - 2;
        &standard[end - self.classes().unwrap_or(2)..end]
    }

    /// d_eff: the expected squared length of a standardised row without its intercept, as the
    /// standard sees it.
    #[must_use]
    pub(crate) fn effective_dim(&self, standard: &[f64]) -> f64 {
        let floor = self.floor_and_limit(standard).0;
        let (mut at, mut total) = (0, 0.0);
        for column in &self.columns {
            match *column {
                RawColumn::Number => {
                    total += 1.0;
                    at += 2;
                }
                RawColumn::Levels(levels) => {
                    let shares = &standard[at..at + levels];
                    if levels == 2 {
                        let v = 4.0 * shares[1] * (1.0 - shares[1]);
                        total += v / (v + floor);
                    } else if levels > 2 {
                        total += shares
                            .iter()
                            .map(|p| p * (1.0 - p))
                            .map(|v| v / (v + floor))
                            .sum::<f64>();
                    }
                    at += levels;
                }
            }
        }
        total
    }

    /// Writes the standardised row of a raw one, intercept last. `row` must be zero and one longer
    /// than [`Self::features`].
    pub(crate) fn standardise(&self, standard: &[f64], raw: &[f64], row: &mut [f64]) {
        let (floor, limit) = self.floor_and_limit(standard);
        let (mut from, mut at) = (0, 0);
        for (&value, column) in raw.iter().zip(&self.columns) {
            match *column {
                RawColumn::Number => {
                    row[at] = number(value, standard[from], standard[from + 1], limit);
                    from += 2;
                }
                RawColumn::Levels(levels) => {
                    level(value as usize, &standard[from..from + levels], floor, &mut row[at..]);
                    from += levels;
                }
            }
            at += encoded_width(*column);
        }
        row[at] = 1.0;
    }

    /// The label as losses see it: classes as they are, a regression's number standardised.
    pub(crate) fn standard_label(&self, standard: &[f64], label: f64) -> f64 {
        match self.task {
            Task::Regression { min, max } => {
                let part = self.label_part(standard);
                ((label - min) / (max - min) - part[0]) / part[1]
            }
            _ => label,
        }
    }

    /// How many units of the label one of its standardised units is: 1 where it is a class.
    #[must_use]
    pub(crate) fn label_scale(&self, standard: &[f64]) -> f64 {
        match self.task {
            Task::Regression { min, max } => self.label_part(standard)[1] * (max - min),
            _ => 1.0,
        }
    }

    /// All raw records as standardised rows.
    #[must_use]
    pub fn encode(&self, standard: &[f64], raw: &Records) -> Records {
        let (shape, columns) = self.shape(standard);
        let coded = shape.pays();
        let mut records = if coded {
            Records::coded(Arc::new(shape), raw.len())
        } else {
            Records::with_capacity(self.features() + 1, raw.len())
        };
        let limit = self.floor_and_limit(standard).1;
        for (index, &label) in raw.labels().iter().enumerate() {
            let (values, label) = (raw.row(index), self.standard_label(standard, label));
            if !coded {
                records.push_with(|row| {
                    self.standardise(standard, &values, row);
                    label
                });
                continue;
            }
            let mut from = 0;
            let numbers = values.iter().zip(&self.columns).filter_map(|(&value, column)| {
                let at = from;
                from += match *column {
                    RawColumn::Number => 2,
                    RawColumn::Levels(levels) => levels,
                };
                let is_number = *column == RawColumn::Number;
                is_number.then(|| number(value, standard[at], standard[at + 1], limit))
            });
            records.push_coded(numbers, |part| values[columns[part]] as usize, label);
        }
        records
    }

    /// How standardised rows are kept as codes, and the raw column of each of their categories.
    fn shape(&self, standard: &[f64]) -> (Shape, Vec<usize>) {
        let floor = self.floor_and_limit(standard).0;
        let (mut shape, mut columns, mut from) = (Shape::default(), Vec::new(), 0);
        for (c, column) in self.columns.iter().enumerate() {
            match *column {
                RawColumn::Number => {
                    shape.number();
                    from += 2;
                }
                RawColumn::Levels(levels) => {
                    if category(&mut shape, &standard[from..from + levels], floor) {
                        columns.push(c);
                    }
                    from += levels;
                }
            }
        }
        shape.constant(1.0);
        (shape, columns)
    }

    /// How much larger than of the rows themselves, at most, the rounding of a sum is that was
    /// taken by codes: for S categories 1 + 2√S·v, where no level adds more than v = 2/√floor
    /// ([`clipped`](crate::problem) has the proof).
    pub(crate) fn coded_rounding(&self, floor: f64) -> f64 {
        let categories = self.columns.iter().filter(|c| matches!(c, RawColumn::Levels(_))).count();
        1.0 + 4.0 * (categories as f64 / floor).sqrt()
    }
}

/// Adds the features of a category to rows kept as codes, as [`level`] writes them; whether it has
/// any.
pub(super) fn category(shape: &mut Shape, shares: &[f64], floor: f64) -> bool {
    let levels = shares.len();
    match levels {
        0 | 1 => return false,
        2 => shape.category(2, 1, |code| {
            let mut own = [0.0];
            level(code, shares, floor, &mut own);
            (0, own[0])
        }),
        _ => {
            let (at, spread) = (shape.dim(), |p: f64| (p * (1.0 - p) + floor).sqrt());
            shares.iter().enumerate().for_each(|(l, &p)| shape.everywhere(at + l, -p / spread(p)));
            shape.category(levels, levels, |l| (l, 1.0 / spread(shares[l])));
        }
    }
    true
}

/// The scale of a number that nobody looked for, as a share of its range.
pub(crate) const BLIND_SCALE: f64 = 1.0 / 6.0;

/// Features that a raw column becomes.
pub(crate) fn encoded_width(column: RawColumn) -> usize {
    match column {
        RawColumn::Number => 1,
        RawColumn::Levels(levels) if levels > 2 => levels,
        RawColumn::Levels(levels) => levels.saturating_sub(1),
    }
}

/// A number around its centre, in scales, no farther than `limit`.
pub(crate) fn number(value: f64, centre: f64, scale: f64, limit: f64) -> f64 {
    ((value - centre) / scale).clamp(-limit, limit)
}

/// The features of a level whose share the standard knows: (1\[level\] − p)/√(p(1 − p) + floor), or
/// one feature of ±1 for two levels.
pub(crate) fn level(code: usize, shares: &[f64], floor: f64, row: &mut [f64]) {
    if shares.len() == 2 {
        let p = shares[1];
        let spread = (4.0 * p * (1.0 - p) + floor).sqrt();
        row[0] = ((2.0 * code as f64 - 1.0) - (2.0 * p - 1.0)) / spread;
    } else if shares.len() > 2 {
        for (l, (&p, out)) in shares.iter().zip(row).enumerate() {
            let hit = if l == code { 1.0 } else { 0.0 };
            *out = (hit - p) / (p * (1.0 - p) + floor).sqrt();
        }
    }
}
