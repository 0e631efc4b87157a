//! Rows of a few numbers and of categories, kept as the categories' codes.
//!
//! A category of many levels fills many features of a row, but the row of a record only says which
//! level it is. With e the unit vectors, row j is
//!
//! ```text
//! z_j = base + Σ_k n_jk·e_(column k) + r_j · Σ_p value_p(c_jp)·e_(column_p(c_jp))
//! ```
//!
//! n_jk its numbers, c_jp its level in category p, r_j what the row was scaled by (one of its
//! numbers, or 1). One-hot rows have no base and values of 1; standardised rows have the means of
//! all levels in the base. A kernel then reads a byte a category instead of a number a level, and
//! small categories are read together, as one whose levels are their combinations.

use super::records::{LANES, Lanes8};
use std::sync::Arc;

/// Levels that a byte can tell apart.
pub const LEVELS: usize = 256;

/// What the rows of one encoding have in common: public, as the encoding is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CodeLayout {
    dim: usize,
    /// The feature of every number.
    pub numbers: Vec<u32>,
    /// By category, the feature and the value that each level adds.
    parts: Vec<Vec<(u32, f64)>>,
    /// What every row has; nothing if that is zero.
    pub base: Vec<f64>,
    /// The number that the values of all levels are multiplied by.
    pub scale: Option<usize>,
}

impl CodeLayout {
    /// Adds a feature that is a number.
    pub fn number(&mut self) {
        self.numbers.push(self.dim as u32);
        self.dim += 1;
    }

    /// Adds a number that the values of all levels are multiplied by.
    pub fn scaling_number(&mut self) {
        self.scale = Some(self.numbers.len());
        self.number();
    }

    /// Adds a category whose level `l` adds `value(l)` to the feature `feature(l)`, counted from
    /// here.
    pub fn category(
        &mut self,
        levels: usize,
        features: usize,
        entry: impl Fn(usize) -> (usize, f64),
    ) {
        let at = self.dim;
        let place = |(feature, value): (usize, f64)| ((at + feature) as u32, value);
        self.parts.push((0..levels).map(|l| place(entry(l))).collect());
        self.dim += features;
    }

    /// Adds a value to one feature of all rows.
    pub fn everywhere(&mut self, feature: usize, value: f64) {
        self.base.resize(self.base.len().max(feature + 1), 0.0);
        self.base[feature] += value;
    }

    /// Adds a feature that is the same in all rows.
    pub fn constant(&mut self, value: f64) {
        self.everywhere(self.dim, value);
        self.dim += 1;
    }

    /// Features a row.
    pub(super) fn dim(&self) -> usize {
        self.dim
    }

    /// Whether codes are read faster than the rows themselves: a byte a category and few numbers
    /// beside them.
    pub(super) fn pays(&self) -> bool {
        self.fits() && self.dim >= 2 * (self.numbers.len() + self.parts.len())
    }

    /// Whether codes take less memory than all features, or than so many non-zeros of so many rows.
    pub(super) fn is_smaller(&self, rows: usize, nonzeros: usize) -> bool {
        self.fits() && rows * (8 * self.numbers.len() + self.parts.len()) < 12 * nonzeros
    }

    /// Whether there are categories, and all fit a byte.
    fn fits(&self) -> bool {
        let fits = self.parts.iter().all(|levels| (1..=LEVELS).contains(&levels.len()));
        fits && !self.parts.is_empty()
    }

    /// Categories read together, for so many rows: every combination of levels costs a little, once
    /// a pass, and every group a lookup a row.
    fn groups(&self, rows: usize) -> Vec<Group> {
        let most = (rows / 2).min(LEVELS);
        let mut by_size: Vec<usize> = (0..self.parts.len()).collect();
        by_size.sort_by_key(|&p| (std::cmp::Reverse(self.parts[p].len()), p));
        let mut groups: Vec<(Vec<usize>, usize)> = Vec::new();
        for part in by_size {
            let levels = self.parts[part].len();
            // The fullest group that still has room.
            let room = groups.iter_mut().filter(|g| g.1 * levels <= most).max_by_key(|g| g.1);
            match room {
                Some(group) => {
                    group.0.push(part);
                    group.1 *= levels;
                }
                None => groups.push((vec![part], levels)),
            }
        }
        groups.into_iter().map(|(parts, levels)| Group::new(parts, levels, &self.parts)).collect()
    }
}

/// Categories read as one.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    parts: Vec<usize>,
    /// By combination, what each of its levels adds: the parts' entries one after the other.
    entries: Vec<(u32, f64)>,
    levels: usize,
    /// The combinations that rows have, in order: of many countries times many occupations most
    /// occur nowhere.
    seen: Vec<u8>,
}

impl Group {
    fn new(parts: Vec<usize>, levels: usize, all: &[Vec<(u32, f64)>]) -> Self {
        let mut entries = Vec::with_capacity(levels * parts.len());
        for combination in 0..levels {
            let mut rest = combination;
            for &part in &parts {
                entries.push(all[part][rest % all[part].len()]);
                rest /= all[part].len();
            }
        }
        // The last tile is filled up with zeros.
        Self { parts, entries, levels, seen: vec![0] }
    }

    /// Notes that a row has this combination.
    fn note(&mut self, code: u8) {
        if let Err(at) = self.seen.binary_search(&code) {
            self.seen.insert(at, code);
        }
    }

    /// Combinations of levels.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Of every combination that occurs, the features and values that it adds.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &[(u32, f64)])> {
        self.seen.iter().map(|&seen| {
            let level = usize::from(seen);
            (level, &self.entries[level * self.parts.len()..][..self.parts.len()])
        })
    }
}

/// The rows: tiles of [`LANES`] rows, the numbers and the codes of each side by side. The last tile
/// is filled up with zeros.
#[derive(Clone, PartialEq)]
pub struct Codes {
    /// Which features there are, and what each level adds to them.
    pub shape: Arc<CodeLayout>,
    /// Categories that are read as one.
    pub groups: Vec<Group>,
    numbers: Vec<Lanes8>,
    codes: Vec<[u8; LANES]>,
    rows: usize,
}

impl std::fmt::Debug for Codes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Codes(tiles={}, groups={})", self.codes.len(), self.groups.len())
    }
}

impl Codes {
    /// No rows yet, of about so many.
    pub(super) fn new(shape: Arc<CodeLayout>, rows: usize) -> Self {
        let (groups, tiles) = (shape.groups(rows), rows.div_ceil(LANES));
        Self {
            numbers: Vec::with_capacity(tiles * shape.numbers.len()),
            codes: Vec::with_capacity(tiles * groups.len()),
            shape,
            groups,
            rows: 0,
        }
    }

    /// Adds a row by its numbers, in the order of their features, and its level in every category.
    pub(super) fn push(
        &mut self,
        numbers: impl Iterator<Item = f64>,
        level: impl Fn(usize) -> usize,
    ) {
        let lane = self.rows % LANES;
        if lane == 0 {
            self.numbers
                .resize(self.numbers.len() + self.shape.numbers.len(), Lanes8([0.0; LANES]));
            self.codes.resize(self.codes.len() + self.groups.len(), [0; LANES]);
        }
        let tile = self.rows / LANES;
        let place = &mut self.numbers[tile * self.shape.numbers.len()..];
        place.iter_mut().zip(numbers).for_each(|(place, number)| place.0[lane] = number);
        let place = &mut self.codes[tile * self.groups.len()..];
        for (place, group) in place.iter_mut().zip(&mut self.groups) {
            let mut code = 0;
            for &part in group.parts.iter().rev() {
                let (levels, level) = (self.shape.parts[part].len(), level(part));
                assert!(level < levels, "code {level} of {levels} categories");
                code = code * levels + level;
            }
            place[lane] = code as u8; // below 256, as `groups` sees to
            group.note(place[lane]);
        }
        self.rows += 1;
    }

    /// The rows with the given indices, in that order.
    pub(super) fn select(&self, rows: &[usize]) -> Self {
        let mut out = Self::new(Arc::clone(&self.shape), rows.len());
        out.copy(self, rows.iter().copied(), |_, _, number| number);
        out
    }

    /// No rows yet, grouped as these are.
    pub(super) fn emptied(&self) -> Self {
        let groups = self.groups.iter().map(|group| Group { seen: vec![0], ..group.clone() });
        let shape = Arc::clone(&self.shape);
        Self { shape, groups: groups.collect(), numbers: Vec::new(), codes: Vec::new(), rows: 0 }
    }

    /// Appends rows that are grouped as these are. All tiles so far must be full.
    pub(super) fn append(&mut self, other: &Self) {
        assert!(self.rows.is_multiple_of(LANES) && self.grouped_as(other), "whole tiles of a kind");
        self.numbers.extend_from_slice(&other.numbers);
        self.codes.extend_from_slice(&other.codes);
        for (group, other) in self.groups.iter_mut().zip(&other.groups) {
            other.seen.iter().for_each(|&code| group.note(code));
        }
        self.rows += other.rows;
    }

    /// Whether the same categories are read together, so that a code means the same in both.
    fn grouped_as(&self, other: &Self) -> bool {
        let parts = |codes: &Self| codes.groups.iter().map(|g| g.parts.clone()).collect::<Vec<_>>();
        parts(self) == parts(other)
    }

    /// Adds all rows of a block; nothing, and `false`, if it has another shape.
    pub(super) fn extend(&mut self, block: &Self) -> bool {
        let same = Arc::ptr_eq(&block.shape, &self.shape) || block.shape == self.shape;
        if same {
            self.copy(block, 0..block.rows, |_, _, number| number);
        }
        same
    }

    /// Some rows with every feature times its factor, not scaled any more (what scaled them is
    /// zero), and with `last` as one more feature.
    pub(super) fn rescaled(&self, rows: &[usize], factors: &[f64], last: f64) -> Self {
        let mut shape = CodeLayout::clone(&self.shape);
        let scaled = |c: u32, v: f64| v * factors[c as usize];
        shape.parts.iter_mut().flatten().for_each(|(c, v)| *v = scaled(*c, *v));
        shape.base.iter_mut().zip(factors).for_each(|(v, factor)| *v *= factor);
        let unit = shape.scale.take();
        shape.constant(last);
        let columns = shape.numbers.clone();
        let mut out = Self::new(Arc::new(shape), rows.len());
        let whole =
            |row: usize| unit.map_or(1.0, |k| self.numbers_of(row / LANES)[k].0[row % LANES]);
        out.copy(self, rows.iter().copied(), |row, k, number| match unit {
            Some(unit) if unit == k => 0.0,
            _ => scaled(columns[k], number / whole(row)),
        });
        out
    }

    /// The column of the number that rows are scaled by.
    pub(super) fn scaled_by(&self) -> Option<u32> {
        self.shape.scale.map(|k| self.shape.numbers[k])
    }

    /// Adds rows of a block whose shape has the same numbers and categories; each number becomes
    /// `number(row, which, it)`.
    fn copy(
        &mut self,
        from: &Self,
        rows: impl Iterator<Item = usize>,
        number: impl Fn(usize, usize, f64) -> f64,
    ) {
        if self.grouped_as(from) {
            return self.copy_codes(from, rows, number);
        }
        let mut levels = vec![0; from.shape.parts.len()];
        for row in rows {
            let (tile, lane) = (row / LANES, row % LANES);
            for (codes, group) in from.codes_of(tile).iter().zip(&from.groups) {
                let mut rest = usize::from(codes[lane]);
                for &part in &group.parts {
                    levels[part] = rest % from.shape.parts[part].len();
                    rest /= from.shape.parts[part].len();
                }
            }
            let numbers =
                from.numbers_of(tile).iter().enumerate().map(|(k, n)| number(row, k, n.0[lane]));
            self.push(numbers, |part| levels[part]);
        }
    }

    /// Adds rows of a block that is grouped as this one, so that codes stay what they are.
    fn copy_codes(
        &mut self,
        from: &Self,
        rows: impl Iterator<Item = usize>,
        number: impl Fn(usize, usize, f64) -> f64,
    ) {
        let (numbers, groups) = (self.shape.numbers.len(), self.groups.len());
        let mut seen = vec![[false; LEVELS]; groups];
        for row in rows {
            let (from_tile, from_lane) = (row / LANES, row % LANES);
            let (tile, lane) = (self.rows / LANES, self.rows % LANES);
            if lane == 0 {
                self.numbers.resize(self.numbers.len() + numbers, Lanes8([0.0; LANES]));
                self.codes.resize(self.codes.len() + groups, [0; LANES]);
            }
            let places = self.numbers[tile * numbers..].iter_mut();
            for (k, (place, it)) in places.zip(from.numbers_of(from_tile)).enumerate() {
                place.0[lane] = number(row, k, it.0[from_lane]);
            }
            let places = self.codes[tile * groups..].iter_mut().zip(&mut seen);
            for ((place, seen), codes) in places.zip(from.codes_of(from_tile)) {
                place[lane] = codes[from_lane];
                seen[usize::from(codes[from_lane])] = true;
            }
            self.rows += 1;
        }
        for (group, seen) in self.groups.iter_mut().zip(&seen) {
            (0..=u8::MAX).filter(|&code| seen[usize::from(code)]).for_each(|code| group.note(code));
        }
    }

    /// Bytes that [`Self::write_row`] makes of a row.
    pub(super) fn row_bytes(&self) -> usize {
        8 * self.shape.numbers.len() + self.shape.parts.len()
    }

    /// Appends the numbers of a row and its level in every category to `bytes`.
    pub(super) fn write_row(&self, row: usize, bytes: &mut Vec<u8>) {
        let (tile, lane) = (row / LANES, row % LANES);
        self.numbers_of(tile).iter().for_each(|number| bytes.extend(number.0[lane].to_le_bytes()));
        let at = bytes.len();
        bytes.resize(at + self.shape.parts.len(), 0);
        for (codes, group) in self.codes_of(tile).iter().zip(&self.groups) {
            let mut rest = usize::from(codes[lane]);
            for &part in &group.parts {
                bytes[at + part] = (rest % self.shape.parts[part].len()) as u8; // a shape that pays has at most 256 levels
                rest /= self.shape.parts[part].len();
            }
        }
    }

    /// Adds a row that [`Self::write_row`] wrote; `None` if it did not.
    pub(super) fn read_row(&mut self, bytes: &[u8]) -> Option<()> {
        let (numbers, levels) = bytes.split_at_checked(8 * self.shape.numbers.len())?;
        let fits = |(level, part): (&u8, &Vec<_>)| usize::from(*level) < part.len();
        if levels.len() != self.shape.parts.len() || !levels.iter().zip(&self.shape.parts).all(fits)
        {
            return None;
        }
        let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap_or_default());
        self.push(numbers.chunks_exact(8).map(number), |part| usize::from(levels[part]));
        Some(())
    }

    /// The numbers of a tile's rows.
    #[inline(always)]
    pub fn numbers_of(&self, tile: usize) -> &[Lanes8] {
        let count = self.shape.numbers.len();
        &self.numbers[tile * count..][..count]
    }

    /// The numbers of so many tiles from one on, or of as many as there are.
    #[inline(always)]
    pub fn numbers_of_tiles(&self, tile: usize, tiles: usize) -> &[Lanes8] {
        let at = |tile: usize| (tile * self.shape.numbers.len()).min(self.numbers.len());
        &self.numbers[at(tile)..at(tile + tiles)]
    }

    /// The codes of a tile's rows, group by group.
    #[inline(always)]
    pub fn codes_of(&self, tile: usize) -> &[[u8; LANES]] {
        let count = self.groups.len();
        &self.codes[tile * count..][..count]
    }

    /// Writes one row, zeros and all.
    pub(super) fn row_into(&self, index: usize, row: &mut Vec<f64>) {
        let (tile, lane) = (index / LANES, index % LANES);
        row.clear();
        row.extend_from_slice(&self.shape.base);
        row.resize(self.shape.dim, 0.0);
        let numbers = self.numbers_of(tile);
        for (&column, number) in self.shape.numbers.iter().zip(numbers) {
            row[column as usize] += number.0[lane];
        }
        let scale = self.shape.scale.map_or(1.0, |k| numbers[k].0[lane]);
        for (codes, group) in self.codes_of(tile).iter().zip(&self.groups) {
            let combination = usize::from(codes[lane]) * group.parts.len();
            for &(column, value) in &group.entries[combination..][..group.parts.len()] {
                row[column as usize] += scale * value;
            }
        }
    }

    /// One row, zeros and all.
    pub(super) fn row(&self, index: usize) -> Vec<f64> {
        let mut row = Vec::with_capacity(self.shape.dim);
        self.row_into(index, &mut row);
        row
    }

    /// Numbers kept, codes counted eight to a number.
    pub(super) fn stored(&self) -> usize {
        self.numbers.len() * LANES + self.codes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that are selected, joined and appended keep their codes where the same categories are
    /// read together, and get new ones where they are not: with the rows either way.
    #[test]
    fn rows_are_the_same_whether_their_codes_are_copied_or_made_anew() {
        let (shape, rows) = (Arc::new(shape()), 1200);
        let mut all = Codes::new(Arc::clone(&shape), rows);
        for j in 0..rows {
            let numbers = [0.25 * j as f64, 1.0 - j as f64, 0.5 + j as f64];
            all.push(numbers.into_iter(), |part| [j * 13 % 40, j % 2, j * 5 % 7][part]);
        }
        for some in [(0..rows).rev().step_by(2).collect(), vec![3, 1, 700], vec![8; 600]] {
            let chosen = all.select(&some);
            assert_eq!(chosen.grouped_as(&all), some.len() > 500);
            assert!(some.iter().enumerate().all(|(i, &j)| chosen.row(i) == all.row(j)));
            let mut anew = Codes::new(Arc::clone(&shape), some.len());
            for &j in &some {
                let numbers: Vec<f64> = all.numbers_of(j / 8).iter().map(|n| n.0[j % 8]).collect();
                anew.push(numbers.into_iter(), |part| [j * 13 % 40, j % 2, j * 5 % 7][part]);
            }
            assert!(chosen == anew, "combinations that occur are known, too");
        }
        let mut joined = all.emptied();
        let halves = [
            all.select(&(0..600).collect::<Vec<_>>()),
            all.select(&(600..1200).collect::<Vec<_>>()),
        ];
        halves.iter().for_each(|half| joined.append(half));
        assert!(joined == all);
        let mut anew = Codes::new(Arc::clone(&shape), rows);
        assert!(halves.iter().all(|half| anew.extend(half)) && anew == all);
    }

    /// Two numbers, three categories, a number that scales and a feature that is always −2.
    fn shape() -> CodeLayout {
        let mut shape = CodeLayout::default();
        shape.number();
        shape.category(40, 40, |l| (l, 1.0 + l as f64));
        shape.category(2, 1, |l| (0, if l == 1 { 3.0 } else { -0.5 }));
        shape.number();
        shape.category(7, 7, |l| (l, -1.0));
        shape.scaling_number();
        shape.constant(-2.0);
        shape
    }

    #[test]
    fn rows_come_back_as_they_were_described_and_small_categories_are_read_together() {
        let shape = Arc::new(shape());
        assert_eq!((shape.dim(), shape.pays()), (1 + 40 + 1 + 1 + 7 + 1 + 1, true));
        for (rows, groups) in [(3, 3), (40, 2), (1000, 2), (100, 2)] {
            let mut codes = Codes::new(Arc::clone(&shape), rows);
            assert_eq!(codes.groups.len(), groups, "{rows} rows");
            let levels = |j: usize| [j * 13 % 40, j % 2, j * 5 % 7];
            let numbers = |j: usize| [0.25 * j as f64, 1.0 - j as f64, 0.5 + j as f64];
            (0..rows).for_each(|j| codes.push(numbers(j).into_iter(), |part| levels(j)[part]));
            let expected = |j: usize| {
                let ([a, b, scale], [p, q, r]) = (numbers(j), levels(j));
                let mut row = vec![0.0; shape.dim()];
                (row[0], row[42], row[50], row[51]) = (a, b, scale, -2.0);
                row[1 + p] += scale * (1.0 + p as f64);
                row[41] += scale * if q == 1 { 3.0 } else { -0.5 };
                row[43 + r] += -scale;
                row
            };
            (0..rows).for_each(|j| assert_eq!(codes.row(j), expected(j), "row {j} of {rows}"));
            let some = codes.select(&[2, 0]);
            assert_eq!((some.row(0), some.row(1)), (expected(2), expected(0)));
        }
    }

    #[test]
    fn codes_are_for_categories_that_fit_a_byte() {
        let mut wide = CodeLayout::default();
        wide.category(257, 257, |l| (l, 1.0));
        assert!(!wide.pays());
        let mut numbers = shape();
        (0..60).for_each(|_| numbers.number());
        assert!(!numbers.pays());
    }
}
