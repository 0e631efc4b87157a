//! Writing to stdout.

use std::io::Write as _;

/// Prints a text. A reader that has gone away (`consenso … | head`) is no error: there is nobody
/// left to tell.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{text}{newline}").and_then(|()| out.flush());
}

/// Prints one JSON object. Numbers that are not finite are `null`: JSON has no other word for them.
pub(crate) fn print_json(value: &serde_json::Value) {
    print(
        &serde_json::to_string_pretty(value).unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}")),
    );
}
