//! Times for people: a log line's second, a certificate's day.

use consenso_engine::data::Day;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

/// `2026-11-15T12:00:00Z`.
#[must_use]
pub fn text(seconds: u64) -> String {
    let (day, rest) = (Day::of((seconds / 86_400) as i64), seconds % 86_400);
    format!("{day}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
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
}
