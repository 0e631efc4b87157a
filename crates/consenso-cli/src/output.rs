//! Writing to stdout, and telling on stderr what happens beside a command's result.

use consenso_ledger::{clock, terminal};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether every line on stderr is to be a JSON object.
static JSON_LOG: AtomicBool = AtomicBool::new(false);

/// Has every line on stderr be a JSON object from now on, also that of a panic.
pub(crate) fn log_as_json() {
    JSON_LOG.store(true, Ordering::Relaxed);
    std::panic::set_hook(Box::new(|panic| tell("panic", &panic.to_string())));
}

/// Tells something on stderr: `kind` is "error", "warning" or "note". Under `--log json` it is an
/// event of the log, with what a message says after "help:" in a field of its own.
pub(crate) fn tell(kind: &str, words: &str) {
    if !JSON_LOG.load(Ordering::Relaxed) {
        // What a neighbour said may be in it, or what stands in somebody's file.
        eprintln!("{kind}: {}", terminal::harmless_lines(words));
        return;
    }
    let (message, help) =
        words.split_once("\n  help: ").map_or((words, None), |(a, b)| (a, Some(b)));
    let mut line = serde_json::json!({
        "time": clock::text(clock::now()), "event": kind, "message": message,
    });
    if let Some(help) = help {
        line["help"] = help.into();
    }
    eprintln!("{line}");
}

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
