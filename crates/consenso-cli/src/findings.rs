//! What a doctor found: of this machine, or of a site.

use crate::{output, table};
use serde_json::json;

/// What was looked at, how it stands, and what was found.
pub(crate) type Finding = (&'static str, Mark, String);

/// How something stands.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mark {
    Good,
    /// Not as it will have to be, and nothing is wrong here.
    Wait,
    Bad,
}

impl Mark {
    pub(crate) fn of(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

/// Prints findings as a table or as JSON, and says whether all is well.
pub(crate) fn print(found: &[Finding], json: bool) -> bool {
    let well = found.iter().all(|f| f.1 != Mark::Bad);
    if json {
        let entry = |(check, mark, text): &Finding| json!({ "check": check, "ok": *mark != Mark::Bad, "wait": *mark == Mark::Wait, "text": text });
        output::print_json(
            &json!({ "ok": well, "checks": found.iter().map(entry).collect::<Vec<_>>() }),
        );
        return well;
    }
    let mut table = table::plain(&["", "check", "finding"], 3);
    for (what, mark, text) in found {
        let mark = match mark {
            Mark::Good => "✓",
            Mark::Wait => "…",
            Mark::Bad => "✗",
        };
        table.add_row(vec![mark, what, text]);
    }
    output::print(&table::text(&table));
    well
}
