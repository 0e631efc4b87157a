//! What the cells of a column hold, for drafting a schema: counts of the texts there are, as far as
//! they are few, and what has to be known of all others.

use std::borrow::Cow;

use super::date::{Day, PATTERNS, date_number, split_date};
use super::format::{Marks, Reading};
use super::table::{EXACT, MISSING_WORDS};
use super::words::{Words, hash};

/// Different numbers of a column whose texts are kept: more than a draft ever lists.
const MOST_NUMBERS: usize = 256;
/// Different words of a column that are kept.
const MOST_WORDS: usize = 1024;
/// The day drafted dates are counted from: a constant, so that it says nothing about the records.
const ORIGIN: (i64, i64, i64) = (2000, 1, 1);

/// The day drafted dates are counted from.
pub(super) fn origin() -> Day {
    let (year, month, day) = ORIGIN;
    Day::new(year, month, day).expect("a constant that is a date")
}

/// Whether a word among numbers or dates says that nothing is known.
pub(super) fn means_missing(text: &str) -> bool {
    MISSING_WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// The cells of one column.
#[derive(Debug)]
pub(super) struct Cells {
    pub(super) missing: u64,
    pub(super) known: u64,
    /// The texts that are kept.
    pub(super) counts: Words<Box<str>, Count>,
    numbers: usize,
    /// Cells that are finite numbers, the smallest and the largest, and whether all are whole.
    pub(super) numeric: u64,
    pub(super) range: (f64, f64),
    pub(super) whole: bool,
    /// The last integer, in alphabetical order, that numbers cannot hold.
    pub(super) inexact: Option<Box<str>>,
    /// Whether some number was written twice.
    repeats: bool,
    /// Cells whose texts are not kept: numbers, and words.
    pub(super) more_numbers: More,
    pub(super) more_words: More,
    marks: Marks,
    marked: u64,
    pub(super) dates: Dates,
}

/// How often a text occurs, and the number it is; NaN if it is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    pub(super) count: u64,
    pub(super) number: f64,
}

/// Cells whose texts are not kept.
#[derive(Debug, Default)]
pub(super) struct More {
    pub(super) cells: u64,
    /// The hashes of their texts, as long as it matters how many there are.
    hashes: Vec<u64>,
    /// Whether it does not matter any more.
    forgotten: bool,
}

/// What cells whose texts are not kept are as dates, by pattern.
#[derive(Clone, Debug)]
pub(super) struct Dates {
    /// Whether all follow it.
    pub(super) written: [bool; PATTERNS.len()],
    pub(super) range: [(f64, f64); PATTERNS.len()],
}

const NOTHING: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

fn wider(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0.min(b.0), a.1.max(b.1))
}

/// Whether a text is a date of that pattern. Digits alone are one only in these centuries.
pub(super) fn follows(pattern: &str, text: &str) -> Option<f64> {
    let days = date_number(pattern, origin(), text)?;
    let packed = !pattern.contains(['-', '.', '/']);
    let likely = || {
        split_date(pattern, text).is_some_and(|(day, _)| {
            Day::new(1900, 1, 1) <= Some(day) && Some(day) <= Day::new(2100, 1, 1)
        })
    };
    (!packed || likely()).then_some(days)
}

impl Default for Cells {
    fn default() -> Self {
        Self {
            missing: 0,
            known: 0,
            counts: Words::default(),
            numbers: 0,
            numeric: 0,
            range: NOTHING,
            whole: true,
            inexact: None,
            repeats: false,
            more_numbers: More::default(),
            more_words: More::default(),
            marks: Marks::default(),
            marked: 0,
            dates: Dates::default(),
        }
    }
}

impl Default for Dates {
    fn default() -> Self {
        Self { written: [true; PATTERNS.len()], range: [NOTHING; PATTERNS.len()] }
    }
}

impl Dates {
    fn add(&mut self, text: &str) {
        for (index, pattern) in PATTERNS.iter().enumerate() {
            if self.written[index] {
                match follows(pattern, text) {
                    Some(day) => self.range[index] = wider(self.range[index], (day, day)),
                    None => self.written[index] = false,
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        for index in 0..PATTERNS.len() {
            self.written[index] &= other.written[index];
            self.range[index] = wider(self.range[index], other.range[index]);
        }
    }
}

impl More {
    fn add(&mut self, text: &str, count: u64) {
        self.cells += count;
        if !self.forgotten {
            self.hashes.push(hash(text));
        }
    }

    fn forget(&mut self) {
        self.forgotten = true;
        self.hashes = Vec::new();
    }

    fn merge(&mut self, other: Self) {
        self.cells += other.cells;
        if self.forgotten || other.forgotten {
            self.forget();
        } else {
            self.hashes.extend(other.hashes);
        }
    }
}

impl Cells {
    /// Adds a cell that is known, read so.
    #[inline]
    pub(super) fn add(&mut self, cell: &str, reading: &Reading) {
        self.known += 1;
        if let Some(seen) = self.counts.get_mut(cell) {
            seen.count += 1;
            if !seen.number.is_nan() {
                self.numeric += 1;
                self.repeats = true;
            }
            return;
        }
        let number = reading.number(cell).filter(|value| value.is_finite());
        if let Some(value) = number {
            self.note_number(cell, value);
        }
        self.insert(cell.into(), Count { count: 1, number: number.unwrap_or(f64::NAN) });
    }

    fn note_number(&mut self, cell: &str, value: f64) {
        self.numeric += 1;
        self.range = wider(self.range, (value, value));
        self.whole &= value.fract() == 0.0;
        let digits = || cell.bytes().all(|byte| byte.is_ascii_digit());
        if value.abs() >= EXACT && digits() && self.inexact.as_deref().is_none_or(|c| c < cell) {
            self.inexact = Some(cell.into());
        }
    }

    /// Keeps a text that is new, if there is room.
    fn insert(&mut self, text: Cow<'_, str>, count: Count) {
        let words = self.counts.len() - self.numbers;
        let number = !count.number.is_nan();
        let room = if number { self.numbers < MOST_NUMBERS } else { words < MOST_WORDS };
        if room || (!number && means_missing(&text)) {
            self.numbers += usize::from(number);
            self.counts.insert(text.into_owned().into_boxed_str(), count);
            return;
        }
        let text = &*text;
        if self.dates.written.contains(&true) {
            self.dates.add(text);
        }
        self.marked += count.count * u64::from(self.marks.add(text, count.count));
        if !number {
            self.more_words.add(text, count.count);
            return;
        }
        // Identifiers are whole numbers and never occur twice.
        if !self.whole || self.repeats || count.count > 1 {
            self.more_numbers.forget();
        }
        self.more_numbers.add(text, count.count);
    }

    /// Adds the cells of another part of the same file.
    pub(super) fn merge(&mut self, other: Self) {
        self.missing += other.missing;
        self.known += other.known;
        self.numeric += other.numeric;
        self.range = wider(self.range, other.range);
        self.whole &= other.whole;
        self.inexact = std::mem::take(&mut self.inexact).max(other.inexact);
        self.repeats |= other.repeats;
        self.more_numbers.merge(other.more_numbers);
        self.more_words.merge(other.more_words);
        self.marks.merge(&other.marks);
        self.marked += other.marked;
        self.dates.merge(&other.dates);
        // The commonest first, so that it is those that are kept.
        let mut counts: Vec<(Box<str>, Count)> = other.counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.count.cmp(&a.1.count).then_with(|| a.0.cmp(&b.0)));
        for (text, count) in counts {
            match self.counts.get_mut(&text) {
                Some(seen) => {
                    seen.count += count.count;
                    self.repeats |= !count.number.is_nan();
                }
                None => self.insert(text.into_string().into(), count),
            }
        }
        if !self.whole || self.repeats {
            self.more_numbers.forget();
        }
    }

    /// Whether there are texts that are not kept.
    pub(super) fn has_more(&self) -> bool {
        self.more_numbers.cells + self.more_words.cells > 0
    }

    /// A hash of every text there is, some of them twice; nothing if not all are known.
    pub(super) fn hashes(&self) -> Option<Vec<u64>> {
        let more = [&self.more_numbers, &self.more_words];
        if more.iter().any(|more| more.forgotten && more.cells > 0) {
            return None;
        }
        let kept = self.counts.keys().map(|text| hash(text));
        Some(kept.chain(more.into_iter().flat_map(|more| more.hashes.iter().copied())).collect())
    }

    /// What all cells of numeric columns say about decimal and thousands marks.
    pub(super) fn marks(columns: &[Self]) -> Marks {
        let mut marks = Marks::default();
        for column in columns {
            let (mut own, mut marked) = (column.marks, column.marked);
            for (text, seen) in &column.counts {
                marked += seen.count * u64::from(own.add(text, seen.count));
            }
            // A comma in a remark says nothing about numbers.
            if mostly(marked, column.known) {
                marks.merge(&own);
            }
        }
        marks
    }
}

/// Whether four of five are.
pub(super) fn mostly(some: u64, all: u64) -> bool {
    all > 0 && 5 * some >= 4 * all
}
