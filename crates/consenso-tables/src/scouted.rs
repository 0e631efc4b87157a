//! Features standardised by a noisy look at everybody's records
//! ([`Encoding::Scouted`](super::Encoding)).
//!
//! A record is kept *raw*: every number moved to \[0, 1\] by its public range, every category as
//! its code. A **standard** says what the columns look like on the whole (centre and scale of every
//! number, the share of every level, the same of the label) and is public, because it is computed
//! from noised histograms that were charged for. With it a raw record becomes a row of features of
//! about unit variance.

use super::codes::CodeLayout;
use super::{Column, Kind, Records, Schema, Task};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How far from its centre a number counts at least, in scales. The standard says how far it does.
pub const LIMIT: f64 = 2.5;

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
    /// Shares of levels that the schema knows, by column.
    known_shares: Vec<Option<Vec<f64>>>,
    /// Class shares that the schema knows.
    prevalence: Option<Vec<f64>>,
    /// Whether a number that is predicted has a meaning of its own, such as a count.
    keeps_labels: bool,
    /// Centre and scale of a regression's label that the schema knows, as parts of its range.
    known_label: Option<[f64; 2]>,
    /// Intervals of time, where labels are times until an event.
    intervals: Option<Intervals>,
    /// The column of exposures.
    offset: Option<Offset>,
}

/// Intervals of time within which hazards are constant.
#[derive(Clone, Debug, PartialEq)]
struct Intervals {
    count: usize,
    /// Their ends as parts of the longest time, where they are public.
    ends: Option<Vec<f64>>,
}

/// A column whose logarithm is added to the score as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Offset {
    column: usize,
    /// Range of its logarithm: all of it.
    width: f64,
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
        let of_label = |c: &Column| match (task, c.known.mean, c.known.sd) {
            (Task::Regression { min, max }, Some(mean), Some(sd)) if max > min && sd > 0.0 => {
                Some([(mean - min) / (max - min), sd / (max - min)])
            }
            _ => None,
        };
        Self {
            columns: schema.features().map(|c| column(&c.kind)).collect(),
            task,
            known: schema.features().map(known).collect(),
            known_shares: schema.features().map(|c| c.known.shares.clone()).collect(),
            prevalence: label.and_then(|c| c.known.prevalence.clone()),
            keeps_labels: false,
            known_label: label.and_then(of_label),
            intervals: None,
            offset: schema.features().enumerate().find_map(|(column, c)| match c.kind {
                Kind::Exposure { min, max } => {
                    Some(Offset { column, width: libm::log(max) - libm::log(min) })
                }
                _ => None,
            }),
        }
    }

    /// Takes labels for times until an event, negative where it was not seen, on so many intervals;
    /// `ends` are their ends where these are public, and quantiles of the events' times are found
    /// otherwise.
    #[must_use]
    pub fn with_intervals(self, count: usize, ends: Option<&[f64]>) -> Self {
        let Task::Regression { max, .. } = self.task else { return self };
        let ends = ends.map(|ends| ends.iter().map(|e| (e / max).min(1.0)).collect());
        Self { intervals: Some(Intervals { count, ends }), known_label: None, ..self }
    }

    /// How many intervals of time there are, where labels are times until an event.
    #[must_use]
    pub fn intervals(&self) -> Option<usize> {
        self.intervals.as_ref().map(|i| i.count)
    }

    /// The ends of the intervals as parts of the longest time, where they are public.
    #[must_use]
    pub fn public_ends(&self) -> Option<&[f64]> {
        self.intervals.as_ref()?.ends.as_deref()
    }

    /// The ends of the intervals that a standard found, in the unit of the label; empty where labels
    /// are no times.
    #[must_use]
    pub fn interval_ends(&self, standard: &[f64]) -> Vec<f64> {
        match (&self.intervals, self.task) {
            (Some(intervals), Task::Regression { max, .. }) => {
                self.label_part(standard)[..intervals.count].iter().map(|e| e * max).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The feature whose coefficient is one and not trained: the logarithm of an exposure, less its
    /// mean.
    #[must_use]
    pub fn offset_feature(&self) -> Option<usize> {
        let offset = self.offset?;
        Some(self.columns[..offset.column].iter().map(|c| encoded_width(*c)).sum())
    }

    /// Numbers of a standard that speak of the label.
    fn label_len(&self) -> usize {
        // The ends of intervals, the share of events and how many there are per interval seen.
        match &self.intervals {
            Some(intervals) => intervals.count + 2,
            None => self.classes().unwrap_or(2),
        }
    }

    /// Leaves labels that are numbers as they are instead of standardising them: counts and amounts.
    #[must_use]
    pub fn keeping_labels(self, keeps_labels: bool) -> Self {
        Self { keeps_labels, ..self }
    }

    /// Whether labels that are numbers stay as they are.
    #[must_use]
    pub fn keeps_labels(&self) -> bool {
        self.keeps_labels || self.intervals.is_some()
    }

    /// Mean and deviation of a label that is a number, in its own unit.
    #[must_use]
    pub fn label_moments(&self, standard: &[f64]) -> Option<(f64, f64)> {
        let Task::Regression { min, max } = self.task else { return None };
        if self.intervals.is_some() {
            return None;
        }
        let part = self.label_part(standard);
        let (c, s) = (part[0], part[1]);
        // The square of a normal number with this centre and scale, where counts are found by roots.
        let (centre, scale) = if self.keeps_labels {
            (c * c + s * s, (4.0 * c * c * s * s + 2.0 * s.powi(4)).sqrt())
        } else {
            (c, s)
        };
        // A mean of zero would have no logarithm.
        let mean = (min + centre * (max - min)).max(1e-4 * max.abs());
        Some((mean, scale * (max - min)))
    }

    /// Where a label lies between the ends of its range, as its histogram sees it: a count, whose
    /// small values matter most, by its root.
    #[must_use]
    pub fn label_position(&self, part: f64) -> f64 {
        if self.keeps_labels { part.sqrt() } else { part }
    }

    /// Centre and scale of a number that is predicted where nobody looked for them.
    #[must_use]
    pub fn blind_label(&self) -> [f64; 2] {
        if self.keeps_labels { [0.3, 0.15] } else { [0.5, BLIND_SCALE] }
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

    /// Centre and scale of a regression's label, as parts of its range, where the schema knows
    /// them.
    #[must_use]
    pub fn known_label(&self) -> Option<[f64; 2]> {
        let [centre, scale] = self.known_label?;
        let root = centre.max(1e-4).sqrt();
        Some(if self.keeps_labels { [root, scale / (2.0 * root)] } else { [centre, scale] })
    }

    /// The shares of a category's levels, where the schema knows them: it needs no scouting.
    #[must_use]
    pub fn known_shares(&self, column: usize) -> Option<&[f64]> {
        self.known_shares[column].as_deref()
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
    #[doc(hidden)]
    pub fn standard_len(&self) -> usize {
        let column = |c: &RawColumn| match *c {
            RawColumn::Number => 2,
            RawColumn::Levels(levels) => levels,
        };
        self.columns.iter().map(column).sum::<usize>() + self.label_len() + 2
    }

    /// The standard that nobody looked for: what the schema knows, else a number around the middle
    /// of its range with a sixth of it as scale, levels and classes alike.
    #[must_use]
    pub fn blind(&self, floor: f64) -> Vec<f64> {
        let mut standard = Vec::with_capacity(self.standard_len());
        for (c, column) in self.columns.iter().enumerate() {
            match (*column, self.known_shares(c)) {
                (RawColumn::Number, _) => {
                    standard.extend(self.known[c].unwrap_or([0.5, BLIND_SCALE]));
                }
                (RawColumn::Levels(_), Some(shares)) => standard.extend(shares),
                (RawColumn::Levels(levels), None) => {
                    standard.extend(vec![1.0 / levels as f64; levels]);
                }
            }
        }
        match (self.classes(), &self.prevalence) {
            _ if self.intervals.is_some() => standard.extend(self.blind_times()),
            (Some(_), Some(shares)) => standard.extend(shares),
            (Some(classes), None) => standard.extend(vec![1.0 / classes as f64; classes]),
            (None, _) => standard.extend(self.known_label().unwrap_or(self.blind_label())),
        }
        standard.extend([floor, LIMIT]);
        standard
    }

    /// Even intervals, three events among ten records, seen for half of the longest time.
    fn blind_times(&self) -> Vec<f64> {
        let Some(intervals) = &self.intervals else { return Vec::new() };
        let count = intervals.count as f64;
        let even = || (1..=intervals.count).map(|k| k as f64 / count).collect();
        let mut part: Vec<f64> = intervals.ends.clone().unwrap_or_else(even);
        part.extend([0.3, 0.6 / count]);
        part
    }

    /// What a level's variance is raised by, and how far from its centre a number counts.
    #[must_use]
    pub fn floor_and_limit(&self, standard: &[f64]) -> (f64, f64) {
        let end = self.standard_len();
        (standard[end - 2], standard[end - 1])
    }

    /// Centre and scale of a regression's label, or the class shares: the end of a standard.
    #[must_use]
    #[doc(hidden)]
    pub fn label_part<'a>(&self, standard: &'a [f64]) -> &'a [f64] {
        let end = self.standard_len() - 2;
        &standard[end - self.label_len()..end]
    }

    /// d_eff: the expected squared length of a standardised row without its intercept, as the
    /// standard sees it.
    #[must_use]
    #[doc(hidden)]
    pub fn effective_dim(&self, standard: &[f64]) -> f64 {
        let floor = self.floor_and_limit(standard).0;
        let (mut at, mut total) = (0, 0.0);
        for (c, column) in self.columns.iter().enumerate() {
            match *column {
                RawColumn::Number => {
                    total += if self.is_offset(c) { 0.0 } else { 1.0 };
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
    #[doc(hidden)]
    pub fn standardise(&self, standard: &[f64], raw: &[f64], row: &mut [f64]) {
        let (floor, limit) = self.floor_and_limit(standard);
        let (mut from, mut at) = (0, 0);
        for (c, (&value, column)) in raw.iter().zip(&self.columns).enumerate() {
            match *column {
                RawColumn::Number => {
                    row[at] = self.number(c, value, &standard[from..from + 2], limit);
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

    fn is_offset(&self, column: usize) -> bool {
        self.offset.is_some_and(|o| o.column == column)
    }

    /// The feature of a number: in scales around its centre, or the logarithm of an exposure less
    /// its mean.
    fn number(&self, column: usize, value: f64, of: &[f64], limit: f64) -> f64 {
        match self.offset {
            Some(offset) if offset.column == column => offset.width * (value - of[0]),
            _ => number(value, of[0], of[1], limit),
        }
    }

    /// The label as losses see it: classes as they are, a regression's number standardised, times
    /// counted in intervals.
    pub(crate) fn standard_label(&self, standard: &[f64], label: f64) -> f64 {
        match self.task {
            Task::Regression { max, .. } if self.intervals.is_some() => {
                in_intervals(self.label_part(standard), label.abs() / max).copysign(label)
            }
            Task::Regression { min, max } if !self.keeps_labels => {
                let part = self.label_part(standard);
                ((label - min) / (max - min) - part[0]) / part[1]
            }
            _ => label,
        }
    }

    /// How many units of the label one of its standardised units is: 1 where it is a class.
    #[must_use]
    #[doc(hidden)]
    pub fn label_scale(&self, standard: &[f64]) -> f64 {
        match self.task {
            Task::Regression { min, max } if !self.keeps_labels() => {
                self.label_part(standard)[1] * (max - min)
            }
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
        let (limit, mut values) = (self.floor_and_limit(standard).1, Vec::new());
        for (index, &label) in raw.labels().iter().enumerate() {
            raw.row_into(index, &mut values);
            let label = self.standard_label(standard, label);
            if !coded {
                records.push_with(|row| {
                    self.standardise(standard, &values, row);
                    label
                });
                continue;
            }
            let mut from = 0;
            let numbers = values.iter().zip(&self.columns).enumerate();
            let numbers = numbers.filter_map(|(c, (&value, column))| {
                let at = from;
                from += match *column {
                    RawColumn::Number => 2,
                    RawColumn::Levels(levels) => levels,
                };
                let is_number = *column == RawColumn::Number;
                is_number.then(|| self.number(c, value, &standard[at..at + 2], limit))
            });
            records.push_coded(numbers, |part| values[columns[part]] as usize, label);
        }
        records.about(raw.persons())
    }

    /// How standardised rows are kept as codes, and the raw column of each of their categories.
    fn shape(&self, standard: &[f64]) -> (CodeLayout, Vec<usize>) {
        let floor = self.floor_and_limit(standard).0;
        let (mut shape, mut columns, mut from) = (CodeLayout::default(), Vec::new(), 0);
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
    /// (`problem::clipped` of `consenso-problem` has the proof).
    #[doc(hidden)]
    pub fn coded_rounding(&self, floor: f64) -> f64 {
        let categories = self.columns.iter().filter(|c| matches!(c, RawColumn::Levels(_))).count();
        1.0 + 4.0 * (categories as f64 / floor).sqrt()
    }
}

/// A time counted in intervals, whose ends are the first numbers of `part` but the last two: one
/// that ends interval k has the number k; beyond the last end it is more than all of them.
#[doc(hidden)]
pub fn in_intervals(part: &[f64], time: f64) -> f64 {
    let ends = &part[..part.len() - 2];
    let mut from = 0.0;
    for (k, &end) in ends.iter().enumerate() {
        if time <= end {
            return k as f64 + (time - from) / (end - from);
        }
        from = end;
    }
    ends.len() as f64 + 1.0
}

/// Adds the features of a category to rows kept as codes, as [`level`] writes them; whether it has
/// any.
pub(super) fn category(shape: &mut CodeLayout, shares: &[f64], floor: f64) -> bool {
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
pub const BLIND_SCALE: f64 = 1.0 / 6.0;

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
