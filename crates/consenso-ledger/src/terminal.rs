//! Words of others on a terminal.

/// Whether a terminal would obey a character, or turn a line around at it.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text without anything that a terminal would obey: what others wrote must not erase, recolour or
/// turn around a line.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_obeyed(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// A line of JSON that says the same without anything that a terminal would obey: JSON itself
/// escapes only the first 32 characters there are.
#[must_use]
pub fn harmless_json(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for c in line.chars() {
        match is_obeyed(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

/// A text of several lines, with tabs or without, and nothing else that a terminal would obey.
#[must_use]
pub fn harmless_lines(text: &str) -> String {
    text.split_inclusive(['\n', '\t'])
        .map(|part| match part.strip_suffix(['\n', '\t']) {
            Some(words) => harmless(words) + &part[words.len()..],
            None => harmless(part),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(harmless("\u{1b}[2Jdone\r\n\u{202e}ε"), "\\u{1b}[2Jdone\\u{d}\\u{a}\\u{202e}ε");
        assert_eq!(harmless_lines("\n\ra\n\thelp\u{7}\n"), "\n\\u{d}a\n\thelp\\u{7}\n");
        // A terminal of eight bits obeys U+009B as it obeys ESC [.
        let words = "\u{1b}[2J \u{9b}31m \u{7f}\u{202e}ε".to_owned();
        let line = harmless_json(&serde_json::to_string(&words).unwrap());
        assert!(!line.chars().any(is_obeyed), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), words);
    }
}
