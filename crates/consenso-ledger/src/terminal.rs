//! Words of others on a terminal.

/// A text without anything that a terminal would obey: what others wrote must not erase, recolour or
/// turn around a line.
#[must_use]
pub fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// A message of several lines, each without anything that a terminal would obey.
#[must_use]
pub fn harmless_lines(text: &str) -> String {
    text.split('\n').map(harmless).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(harmless("\u{1b}[2Jdone\r\n\u{202e}ε"), "\\u{1b}[2Jdone\\u{d}\\u{a}\\u{202e}ε");
        assert_eq!(harmless_lines("a\n\thelp\u{7}"), "a\n\\u{9}help\\u{7}");
    }
}
