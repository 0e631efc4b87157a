//! Writing to stdout, and telling on stderr what happens beside a command's result.

use consenso_ledger::{clock, terminal};
use std::io::{IsTerminal as _, Write as _};
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
    eprintln!("{}", terminal::harmless_json(&line.to_string()));
}

/// Prints a text, for people without what a terminal would obey: names may stand in it that are in
/// somebody's file. A reader that has gone away (`consenso … | head`) is no error: there is nobody
/// left to tell.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let shown = out.is_terminal().then(|| terminal::harmless_lines(text));
    let text = shown.as_deref().unwrap_or(text);
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{text}{newline}").and_then(|()| out.flush());
}

/// How wide the reader's terminal is; nothing where a program reads, unless COLUMNS says so.
pub(crate) fn columns() -> Option<usize> {
    if std::io::stdout().is_terminal() {
        return terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    }
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|&width| width > 0)
}

/// A text with lines of at most `columns`, broken at spaces. What is left of a line goes on under
/// its second column, where two spaces or more set one apart.
pub(crate) fn folded(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|&columns| columns >= 40) else { return text.to_owned() };
    let mut out = String::new();
    for line in text.lines() {
        fold(&mut out, line, columns);
        out.push('\n');
    }
    out
}

fn fold(out: &mut String, line: &str, columns: usize) {
    let bare = line.trim_start();
    let start = line.len() - bare.len();
    let second = bare.find("  ").map(|gap| {
        let label = &bare[..gap];
        start + label.chars().count() + bare[gap..].len() - bare[gap..].trim_start().len()
    });
    let hang = second.unwrap_or(start).min(columns / 2);
    let (mut used, mut rest) = (0, line);
    while used + rest.chars().count() > columns {
        let room = rest.char_indices().nth(columns - used).map_or(rest.len(), |(at, _)| at);
        let from = rest.len() - rest.trim_start().len();
        let broken = rest[..room].rfind(' ').filter(|&at| at > from);
        // A word that is longer than a line stays whole.
        let Some(at) = broken.or_else(|| rest[from..].find(' ').map(|at| from + at)) else { break };
        out.push_str(rest[..at].trim_end());
        out.push('\n');
        out.push_str(&" ".repeat(hang));
        (used, rest) = (hang, rest[at..].trim_start());
    }
    out.push_str(rest);
}

/// Prints one JSON object. Numbers that are not finite are `null`: JSON has no other word for them.
pub(crate) fn print_json(value: &serde_json::Value) {
    print(
        &serde_json::to_string_pretty(value).unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}")),
    );
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn a_long_line_goes_on_under_its_second_column() {
        let text = "  caveat    one budget for all of the stages, in parts\nshort\n";
        assert_eq!(folded(text, None), text);
        assert_eq!(
            folded(text, Some(40)),
            "  caveat    one budget for all of the\n            stages, in parts\nshort\n"
        );
        let path = "x".repeat(60);
        assert_eq!(folded(&path, Some(40)), format!("{path}\n"), "a word stays whole");
        let text = "ε = 1 – ε = 1 – ε = 1 – ε = 1 – ε = 1 – ε = 1 – ε";
        let lines = folded(text, Some(40));
        assert!(lines.lines().all(|line| line.chars().count() <= 40), "{lines}");
        assert_eq!(lines.replace('\n', " ").trim_end(), text, "nothing is lost");
    }
}
