//! Times for people: a log line's second, a certificate's day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// Year, month and day of a number of days since 1970 (Hinnant's algorithm, proleptic Gregorian).
#[must_use]
pub fn civil(days: i64) -> (i64, u8, u8) {
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u8, (day_of_year - (153 * shifted + 2) / 5 + 1) as u8)
}

/// Days since 1970 of a date.
#[must_use]
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// `2026-11-15T12:00:00Z`.
#[must_use]
pub fn text(seconds: u64) -> String {
    let (year, month, day) = civil((seconds / 86_400) as i64);
    let rest = seconds % 86_400;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_seconds_have_known_dates() {
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(text(1_794_744_000), "2026-11-15T12:00:00Z");
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for n in (-200_000..200_000).step_by(37) {
            let (y, m, d) = civil(n);
            assert_eq!(days(y, m.into(), d.into()), n);
        }
    }
}
