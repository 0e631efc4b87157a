//! The first stage: histograms of all columns, and second looks at those that are narrower than a
//! cell.
//!
//! **Sensitivity.** In the first sum a record adds one to a cell of each of the m histograms of
//! columns, and the whole number α to one of the label's: a vector of length √(m + α²), whatever the
//! record is. Replacing it changes two cells of each, so the sum moves by at most √2·√(m + α²), and
//! whole numbers are added exactly. In a second look a record adds one number to a cell of each
//! column that is looked at, and the squares of these numbers add up to one, however many columns
//! there are: the sum moves by at most √2. What is looked at follows from sums that were released
//! before; how far a look moves does not depend on it.

use super::rules::SCOUTING;
use super::{MethodPart, Recipe, State};
use crate::data::scouted::{BLIND_SCALE, LIMIT};
use crate::data::{RawColumn, RawLayout, Task};
use crate::problem::LocalObjective;
use crate::problem::noised_histogram::{Fit, NARROW, Prior, fit, moments, shares};
pub(super) use crate::problem::noised_histogram::{bins, out_of_reach};

/// Second looks, where there are any: each narrows a column down to three of its cells.
pub(super) const LOOKS: u32 = 3;
const LOOK_CELLS: f64 = 3.0;
/// The label's part of a second look that columns need too.
const LABEL_PART: f64 = 0.2;

/// How much each histogram counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Weights {
    /// Histograms of columns that are made, and columns in all.
    made: usize,
    all: usize,
    /// α: what the label's histogram counts, a quarter of the columns' in squares; and whether it
    /// is made.
    pub(super) label: f64,
    label_made: bool,
}

impl Weights {
    pub(super) fn of(layout: &RawLayout) -> Self {
        let open = |&c: &usize| match layout.columns()[c] {
            RawColumn::Number => layout.known(c).is_none(),
            RawColumn::Levels(levels) => levels > 1 && layout.known_shares(c).is_none(),
        };
        let all = layout.columns().len();
        let label_made = match layout.classes() {
            Some(_) => layout.prevalence().is_none(),
            None => layout.known_label().is_none(),
        };
        // A whole number, so that sums are exact.
        let label = libm::floor((all as f64 / 4.0).sqrt()).max(1.0);
        Self { made: (0..all).filter(open).count(), all, label, label_made }
    }

    fn square(&self) -> f64 {
        self.made as f64 + if self.label_made { self.label * self.label } else { 0.0 }
    }

    /// Whether everything is known already.
    pub(super) fn is_empty(&self) -> bool {
        self.made == 0 && !self.label_made
    }

    /// Whether the label is a number that is looked for.
    pub(super) fn looks_at_label(&self, layout: &RawLayout) -> bool {
        self.label_made && layout.classes().is_none() && layout.intervals().is_none()
    }

    /// The length of what a record adds to the histograms.
    pub(super) fn length(&self) -> f64 {
        self.square().sqrt()
    }

    /// The most that it adds to one cell, and what it adds in all.
    pub(super) fn largest_and_sum(&self) -> (f64, f64) {
        let label = if self.label_made { self.label } else { 0.0 };
        (label.max(1.0), self.made as f64 + label)
    }

    /// Share of μ² for scouting: what is known already needs none, and the noise of the other
    /// histograms stays what it was.
    pub(super) fn share(&self) -> f64 {
        SCOUTING * self.square() / (self.all as f64 + self.label * self.label)
    }
}

/// A second look at one column, or at the label.
pub(super) struct Look {
    /// `None` is the label.
    column: Option<usize>,
    low: f64,
    width: f64,
    bins: usize,
    /// What a record adds to its cell, and the noise of a cell of the mean histogram.
    weight: f64,
    noise: f64,
}

impl Recipe {
    pub(super) fn cells(&self) -> usize {
        let layout = &self.request.layout;
        (0..layout.columns().len()).map(|c| self.column_cells(c)).sum::<usize>()
            + self.label_cells()
    }

    fn column_cells(&self, column: usize) -> usize {
        let layout = &self.request.layout;
        match layout.columns()[column] {
            RawColumn::Number if layout.known(column).is_none() => self.bins,
            RawColumn::Levels(k) if k > 1 && layout.known_shares(column).is_none() => k,
            _ => 0,
        }
    }

    fn label_cells(&self) -> usize {
        match self.request.layout.classes() {
            _ if !self.counted.label_made => 0,
            Some(classes) => classes,
            None => self.label_bins,
        }
    }

    /// The label as a part of its range.
    fn label_value(&self, label: f64) -> f64 {
        match self.request.layout.task() {
            Task::Regression { min, max } => {
                self.request.layout.label_position((label - min) / (max - min))
            }
            _ => 0.0,
        }
    }

    /// Counts this site's records into `cells`.
    pub(super) fn count(&self, local: &LocalObjective, cells: &mut [f64]) {
        cells.fill(0.0);
        let records = local.mean_loss().expect("only records have columns").records();
        let (layout, mut row) = (&self.request.layout, Vec::new());
        for index in 0..records.len() {
            let mut at = 0;
            records.row_into(index, &mut row);
            for (c, (&value, &column)) in row.iter().zip(layout.columns()).enumerate() {
                let width = self.column_cells(c);
                if width > 0 {
                    let place = if column == RawColumn::Number {
                        cell(value, width)
                    } else {
                        value as usize
                    };
                    cells[at + place.min(width - 1)] += 1.0;
                }
                at += width;
            }
            let label = records.labels()[index];
            let width = self.label_cells();
            if width > 0 {
                let place = match layout.task() {
                    Task::Binary => usize::from(label > 0.0),
                    Task::MultiClass { .. } => label as usize,
                    Task::Regression { .. } => cell(self.label_value(label), width),
                };
                cells[at + place.min(width - 1)] += self.counted.label;
            }
        }
    }

    /// Centre and scale of numbers with these histograms; without noise their moments.
    fn numbers(&self, histograms: &[Vec<f64>], noise: f64, tails: bool) -> Vec<Fit> {
        let has = |piece| self.request.has(piece);
        if !has(MethodPart::Centres) {
            return vec![Fit::exact(0.5, BLIND_SCALE); histograms.len()];
        }
        if noise > 0.0 {
            let prior = if has(MethodPart::LearnedPrior) { Prior::Learned } else { Prior::Given };
            return fit(histograms, noise, tails && has(MethodPart::Tails), prior);
        }
        let exact = |h: &Vec<f64>| {
            let total: f64 = h.iter().sum();
            if total.is_nan() || total <= 0.0 {
                return Fit::exact(0.5, BLIND_SCALE);
            }
            let part: Vec<f64> = h.iter().map(|h| h / total).collect();
            let (mean, variance) = moments(&part);
            Fit::exact(mean, variance.sqrt())
        };
        histograms.iter().map(exact).collect()
    }

    /// The standard that the sum of all noised histograms gives, and for each number that asks for
    /// another look how wide its cells were (0 for all others), the label last.
    pub(super) fn standard(&self, cells: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (layout, noise) = (&self.request.layout, self.cell_noise);
        let (mut histograms, mut at) = (Vec::new(), 0);
        for (c, &column) in layout.columns().iter().enumerate() {
            let width = self.column_cells(c);
            if column == RawColumn::Number && width > 0 {
                histograms.push(cells[at..at + width].to_vec());
            }
            at += width;
        }
        let mut found = self.numbers(&histograms, noise, true).into_iter();
        let mut standard = Vec::with_capacity(layout.standard_len());
        let mut widths = Vec::with_capacity(layout.columns().len() + 1);
        at = 0;
        for (c, &column) in layout.columns().iter().enumerate() {
            let width = self.column_cells(c);
            let own = &cells[at..at + width];
            let mut asks = 0.0;
            match column {
                RawColumn::Number => {
                    let [centre, scale] = layout.known(c).unwrap_or([0.5, BLIND_SCALE]);
                    let known = Fit::exact(centre, scale);
                    let fit = if width > 0 { found.next().unwrap_or(known) } else { known };
                    standard.extend([fit.centre, fit.scale]);
                    let cell = 1.0 / width.max(1) as f64;
                    asks = if fit.asks_for_a_look(cell) { cell } else { 0.0 };
                }
                RawColumn::Levels(_) if width > 0 => standard.extend(shares(own, noise)),
                RawColumn::Levels(k) => match layout.known_shares(c) {
                    Some(known) => standard.extend(known),
                    None => standard.extend(vec![1.0; k]),
                },
            }
            widths.push(asks);
            at += width;
        }
        let label = self.label_part(&cells[at..at + self.label_cells()]);
        let cell = 1.0 / self.label_bins as f64;
        let narrow = self.counted.looks_at_label(layout) && label[1] < NARROW * cell;
        widths.push(if narrow { cell } else { 0.0 });
        standard.extend(label);
        standard.extend([self.floor, LIMIT]);
        self.finish_standard(&mut standard);
        (standard, widths)
    }

    /// Writes how far from its centre a number counts, which follows from all else.
    pub(super) fn finish_standard(&self, standard: &mut [f64]) {
        let limit = self.limit(standard);
        if let Some(last) = standard.last_mut() {
            *last = limit;
        }
    }

    /// Centre and scale of a regression's label, or the shares of classes, none below a public
    /// floor.
    fn label_part(&self, cells: &[f64]) -> Vec<f64> {
        let (layout, noise) = (&self.request.layout, self.cell_noise / self.counted.label);
        let counts: Vec<f64> = cells.iter().map(|c| c / self.counted.label).collect();
        if let Some(intervals) = layout.intervals() {
            let found = shares(&counts, noise);
            return super::times::part(layout.public_ends(), intervals, &found);
        }
        let Some(classes) = layout.classes() else {
            let known = layout.known_label();
            let found = || self.numbers(&[counts], noise, false).remove(0);
            return known.map_or_else(
                || {
                    let found = found();
                    vec![found.centre, found.scale]
                },
                |known| known.to_vec(),
            );
        };
        let mut found = match layout.prevalence() {
            Some(known) => known.to_vec(),
            None => shares(&counts, noise),
        };
        let least = (0.2 / classes as f64).min(0.02);
        found.iter_mut().for_each(|p| *p = p.max(least));
        let total: f64 = found.iter().sum();
        found.iter_mut().for_each(|p| *p /= total);
        found
    }

    /// Centre and scale of a column, or of the label, in a standard.
    fn place_in(&self, column: Option<usize>) -> usize {
        let layout = &self.request.layout;
        let width = |c: &RawColumn| match *c {
            RawColumn::Number => 2,
            RawColumn::Levels(levels) => levels,
        };
        let before = column.unwrap_or(layout.columns().len());
        layout.columns()[..before].iter().map(width).sum()
    }

    /// The columns that ask for another look, as many as its noise lets see, the most hidden first.
    pub(super) fn looks(&self, standard: &[f64], widths: &[f64]) -> Vec<Look> {
        let (columns, label) = widths.split_at(widths.len() - 1);
        let with_label = label[0] > 0.0;
        let mut found: Vec<usize> = (0..columns.len()).filter(|&c| columns[c] > 0.0).collect();
        let hidden = |c: usize| standard[self.place_in(Some(c)) + 1] / columns[c];
        while let Some(last) = (0..found.len())
            .max_by(|a, b| hidden(found[*a]).total_cmp(&hidden(found[*b])))
            .filter(|_| {
                let (part, _) = parts_of_a_look(found.len(), with_label);
                out_of_reach(self.look_noise / part, found.len())
            })
        {
            found.remove(last);
        }
        let (of_columns, of_label) = parts_of_a_look(found.len(), with_label);
        let one = |column: Option<usize>, weight: f64| {
            let width = LOOK_CELLS * widths[column.unwrap_or(columns.len())];
            let centre = standard[self.place_in(column)];
            let noise = self.look_noise / weight;
            let low = (centre - width / 2.0).clamp(0.0, 1.0 - width);
            Look { column, low, width, bins: bins(noise), weight, noise }
        };
        let mut looks: Vec<Look> = found.iter().map(|c| one(Some(*c), of_columns)).collect();
        looks.extend(with_label.then(|| one(None, of_label)));
        looks
    }

    /// The most cells that a second look can have.
    pub(super) fn look_cells(&self) -> usize {
        if self.looks == 0 {
            return 0;
        }
        let label = self.counted.looks_at_label(&self.request.layout);
        let cells = |columns: usize, label: bool| {
            let (of_columns, of_label) = parts_of_a_look(columns, label);
            let own = if columns > 0 { columns * bins(self.look_noise / of_columns) } else { 0 };
            own + if label { bins(self.look_noise / of_label) } else { 0 }
        };
        let most = |n| cells(n, false).max(if label { cells(n, true) } else { 0 });
        (0..=self.request.layout.numbers()).map(most).max().unwrap_or(0)
    }

    /// Counts this site's records for a second look.
    pub(super) fn count_look(&self, looks: &[Look], local: &LocalObjective, cells: &mut [f64]) {
        cells.fill(0.0);
        let records = local.mean_loss().expect("only records have columns").records();
        let mut row = Vec::new();
        for index in 0..records.len() {
            records.row_into(index, &mut row);
            let mut at = 0;
            for look in looks {
                let value = match look.column {
                    Some(column) => row[column],
                    None => self.label_value(records.labels()[index]),
                };
                let inside = ((value - look.low) / look.width).clamp(0.0, 1.0);
                cells[at + cell(inside, look.bins)] += 1.0;
                at += look.bins;
            }
        }
        let mut at = 0;
        for look in looks {
            cells[at..at + look.bins].iter_mut().for_each(|c| *c *= look.weight);
            at += look.bins;
        }
    }

    /// Narrows columns down by the noised sum of a second look.
    ///
    /// A column that lies in one cell at an end of its range again is an amount that is mostly
    /// nothing, with a tail: its scale is that of the tail, so it stays what it was.
    pub(super) fn narrow(&self, total: &[f64], standard: &mut [f64], widths: &mut [f64]) {
        let looks = self.looks(standard, widths);
        let (mut at, mut columns, mut label) = (0, Vec::new(), Vec::new());
        for look in &looks {
            let counts: Vec<f64> =
                total[at..at + look.bins].iter().map(|c| c / look.weight).collect();
            if look.column.is_some() { &mut columns } else { &mut label }.push(counts);
            at += look.bins;
        }
        // The looks at columns have one noise, and come first.
        let mut found = Vec::new();
        if let Some(look) = looks.iter().find(|l| l.column.is_some()) {
            found = self.numbers(&columns, look.noise, false);
        }
        if let Some(look) = looks.iter().find(|l| l.column.is_none()) {
            found.extend(self.numbers(&label, look.noise, false));
        }
        for (look, fit) in looks.iter().zip(found) {
            let (place, cell) = (self.place_in(look.column), 1.0 / look.bins as f64);
            let at_an_end = look.low <= 0.0 || look.low + look.width >= 1.0;
            let spike = look.column.is_some() && at_an_end && fit.is_a_spike_at_an_end(cell);
            let again = match look.column {
                Some(_) => fit.asks_for_a_look(cell) && !spike,
                None => fit.scale < NARROW * cell,
            };
            widths[look.column.unwrap_or(widths.len() - 1)] =
                if again { look.width * cell } else { 0.0 };
            if !spike {
                standard[place] = look.low + fit.centre * look.width;
                standard[place + 1] = fit.scale * look.width;
            }
        }
    }

    /// Takes in the total of a sum of the first stage: the histograms, or a second look.
    pub(super) fn scout(&self, again: bool, total: &[f64], state: &mut State<'_>) {
        if again {
            return self.narrow(total, state.standard, state.widths);
        }
        let (standard, widths) = self.standard(total);
        state.standard.copy_from_slice(&standard);
        state.widths.copy_from_slice(&widths);
    }
}

/// The cell of a value in \[0, 1\].
fn cell(value: f64, bins: usize) -> usize {
    ((value * bins as f64) as usize).min(bins - 1)
}

/// What a record adds to its cell of each of so many columns, and of the label, in a second look:
/// the squares add up to one.
fn parts_of_a_look(columns: usize, label: bool) -> (f64, f64) {
    let of_label = match (columns, label) {
        (_, false) => 0.0,
        (0, true) => 1.0,
        (_, true) => LABEL_PART,
    };
    (((1.0 - of_label) / columns.max(1) as f64).sqrt(), of_label.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many columns a second look is at, a record adds a vector of length one.
    #[test]
    fn the_parts_of_a_second_look_add_up_to_one() {
        for columns in [0, 1, 2, 7, 300] {
            for label in [false, true] {
                let (of_columns, of_label) = parts_of_a_look(columns, label);
                let squares = columns as f64 * of_columns * of_columns + of_label * of_label;
                assert!(columns == 0 && !label || (squares - 1.0).abs() < 1e-12, "{columns}");
            }
        }
    }
}
