//! Text that is safe where it is put: in HTML and XML, and in LaTeX.

/// Escapes text for places between tags and inside quoted attributes, of HTML and of XML.
///
/// Control characters that XML 1.0 has no way to write become U+FFFD.
#[must_use]
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Escapes text for the cell of a LaTeX table, in any font encoding.
#[must_use]
pub fn latex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '_' | '#' | '$' | '{' | '}' => out.extend(['\\', c]),
            '×' => out.push_str("$\\times$"),
            '±' => out.push_str("$\\pm$"),
            '<' => out.push_str("$<$"),
            '>' => out.push_str("$>$"),
            '–' => out.push_str("--"),
            c => out.push(c),
        }
    }
    out
}
