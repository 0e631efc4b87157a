//! Dates as numbers: days since a declared origin.

use std::fmt;

use super::SchemaError;

/// How the dates of a column are written, and the day that counts as 0.
#[derive(Clone, Debug, PartialEq)]
pub struct DateForm {
    /// A pattern of `YYYY` (or `YY`), `MM` and `DD` with any marks between them. A time of day may
    /// follow in the cell.
    pub format: String,
    /// The day that counts as 0.
    pub origin: Day,
}

/// A day, counted from 1970-01-01 in the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(i64);

/// The pattern of ISO 8601.
pub(super) const ISO: &str = "YYYY-MM-DD";

/// Patterns a draft tries, those without doubt first.
pub(super) const PATTERNS: [&str; 9] = [
    ISO,
    "YYYY/MM/DD",
    "DD.MM.YYYY",
    "DD.MM.YY",
    "DD/MM/YYYY",
    "MM/DD/YYYY",
    "DD-MM-YYYY",
    "MM-DD-YYYY",
    "YYYYMMDD",
];

impl Day {
    /// The day of a date, if there is one.
    #[must_use]
    pub fn new(year: i64, month: i64, day: i64) -> Option<Self> {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let longest = match month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if !(1..=12).contains(&month)
            || !(1..=longest).contains(&day)
            || !(1..=9999).contains(&year)
        {
            return None;
        }
        // Years begin in March, so that the leap day comes last; eras of 400 years have 146,097
        // days.
        let shifted = if month <= 2 { year - 1 } else { year };
        let (era, year_of_era) = (shifted.div_euclid(400), shifted.rem_euclid(400));
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Some(Self(146_097 * era + day_of_era - 719_468))
    }

    /// Reads `YYYY-MM-DD`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (day, rest) = split_date(ISO, text)?;
        rest.is_empty().then_some(day)
    }

    /// The day so many days after 1970-01-01.
    #[must_use]
    pub const fn of(days: i64) -> Self {
        Self(days)
    }

    /// Returns the days since 1970-01-01.
    #[must_use]
    pub const fn days(self) -> i64 {
        self.0
    }

    /// Returns year, month and day (Hinnant's algorithm, proleptic Gregorian).
    #[must_use]
    pub fn civil(self) -> (i64, u8, u8) {
        let days = self.0 + 719_468;
        let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = (shifted + 2) % 12 + 1;
        let year = 400 * era + year_of_era + i64::from(month <= 2);
        (year, month as u8, (day_of_year - (153 * shifted + 2) / 5 + 1) as u8)
    }

    /// Days from `origin` to this day.
    #[must_use]
    pub fn since(self, origin: Self) -> f64 {
        (self.0 - origin.0) as f64
    }

    /// The day so many days after this one; fractions of a day are left out.
    pub(super) fn after(self, days: f64) -> Self {
        Self(self.0 + days.floor() as i64)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl DateForm {
    pub(super) fn check(&self, index: usize, name: &str) -> Result<(), SchemaError> {
        let has = |part| self.format.matches(part).count() == 1;
        let year = has("YYYY") || (has("YY") && !self.format.contains("YYY"));
        if year && has("MM") && has("DD") {
            return Ok(());
        }
        let (name, format) = (name.to_owned(), self.format.clone());
        Err(SchemaError::DatePattern { index, name, format })
    }

    /// Days since the origin, with the time of day as a fraction where a cell has one.
    pub(super) fn number(&self, cell: &str) -> Option<f64> {
        date_number(&self.format, self.origin, cell)
    }
}

/// Days since the origin of a cell that follows the pattern.
pub(super) fn date_number(pattern: &str, origin: Day, cell: &str) -> Option<f64> {
    let (day, rest) = split_date(pattern, cell)?;
    Some(day.since(origin) + time_of_day(rest)?)
}

/// The day at the start of a cell, and what follows it.
pub(super) fn split_date<'a>(pattern: &str, cell: &'a str) -> Option<(Day, &'a str)> {
    let (mut year, mut month, mut day) = (None, None, None);
    // 1.2.2024 is written as often as 01.02.2024, but in 20240201 every digit has its place.
    let packed = pattern.chars().all(|c| matches!(c, 'Y' | 'M' | 'D'));
    let (mut pattern, mut rest) = (pattern, cell);
    while let Some(first) = pattern.chars().next() {
        let width = pattern.len() - pattern.trim_start_matches(first).len();
        let field = match (first, width) {
            ('Y', 4 | 2) => &mut year,
            ('M', 2) => &mut month,
            ('D', 2) => &mut day,
            _ => {
                rest = rest.strip_prefix(first)?;
                pattern = &pattern[first.len_utf8()..];
                continue;
            }
        };
        pattern = &pattern[width..];
        let digits = rest.bytes().take(width).take_while(u8::is_ascii_digit).count();
        if digits == 0 || (digits < width && (first == 'Y' || packed)) {
            return None;
        }
        let number: i64 = rest[..digits].parse().ok()?;
        let century = if number < 70 { 2000 } else { 1900 };
        *field = Some(if first == 'Y' && width == 2 { century + number } else { number });
        rest = &rest[digits..];
    }
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some((Day::new(year?, month?, day?)?, rest))
}

/// `T12:30`, ` 12:30:15.5Z` or nothing, as a fraction of a day.
fn time_of_day(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let text = text.strip_prefix('T').or_else(|| text.strip_prefix(' '))?.trim();
    let mut parts = text.strip_suffix('Z').unwrap_or(text).splitn(3, ':');
    let mut part = |below: f64| -> Option<f64> {
        let value: f64 = parts.next()?.parse().ok()?;
        (0.0..below).contains(&value).then_some(value)
    };
    let (hours, minutes) = (part(24.0)?, part(60.0)?);
    let seconds = match parts.next() {
        None => 0.0,
        Some(text) => text.parse().ok().filter(|value| (0.0..61.0).contains(value))?,
    };
    Some((hours * 3600.0 + minutes * 60.0 + seconds) / 86_400.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        Day::parse(text).expect(text)
    }

    #[test]
    fn days_count_and_come_back() {
        assert_eq!(day("1970-01-01"), Day(0));
        assert_eq!(day("2000-03-01").since(day("2000-02-28")), 2.0, "2000 was a leap year");
        assert_eq!(day("1900-03-01").since(day("1900-02-28")), 1.0, "1900 was not");
        assert_eq!(day("2026-11-16"), Day(20_773));
        for start in [-719_162, -400_000, -1, 0, 59, 60, 11_016, 20_773, 146_097] {
            for days in start..start + 800 {
                assert_eq!(day(&Day(days).to_string()), Day(days));
            }
        }
        for bad in
            ["2021-02-29", "2021-13-01", "2021-00-10", "21-01-01", "2021-1", "2021-01-011", "x", ""]
        {
            assert_eq!(Day::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn cells_are_read_by_their_pattern() {
        let number = |format: &str, cell: &str| {
            DateForm { format: format.to_owned(), origin: day("2020-01-01") }.number(cell)
        };
        assert_eq!(number(ISO, "2020-01-31"), Some(30.0));
        assert_eq!(number(ISO, "2019-12-31T12:00:00Z"), Some(-0.5));
        assert_eq!(number("DD.MM.YYYY", "1.2.2020"), Some(31.0));
        assert_eq!(number("DD.MM.YY", "01.02.20 06:00"), Some(31.25));
        assert_eq!(number("DD.MM.YY", "01.02.2020"), None, "two digits mean two");
        assert_eq!(number("MM/DD/YYYY", "02/01/2020"), Some(31.0));
        assert_eq!(number("YYYYMMDD", "20200201"), Some(31.0));
        assert_eq!(number("YYYYMMDD", "2020021"), None);
        assert_eq!(number(ISO, "2020-01-31 noon"), None);
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for n in (-700_000..2_900_000).step_by(37) {
            let (year, month, day) = Day::of(n).civil();
            assert_eq!(Day::new(year, month.into(), day.into()).map(Day::days), Some(n));
        }
    }
}
