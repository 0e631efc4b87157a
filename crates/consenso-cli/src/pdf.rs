//! Pages of text as a PDF: four styles, lines that wrap, and a text that is attached as it is. No
//! compression, no fonts of our own: every reader has these.

use std::fmt::Write as _;

/// How a paragraph looks.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Title,
    Heading,
    Text,
    Code,
}

impl Style {
    /// Font, size, distance to the next line, and characters that surely fit a line.
    fn look(self) -> (&'static str, u32, u32, usize) {
        match self {
            Self::Title => ("F2", 18, 26, 46),
            Self::Heading => ("F2", 13, 22, 66),
            Self::Text => ("F1", 10, 14, 92),
            // Every letter is 0.6 of the size wide: 80 of them are 8·0.6·80 = 384 points.
            Self::Code => ("F3", 8, 12, 96),
        }
    }
}

/// A4 in points.
const PAGE: (u32, u32) = (595, 842);
const MARGIN: u32 = 56;

/// The paragraphs on as many pages as they need. `attached` is in the file, in a stream that no
/// page shows.
pub(crate) fn write(paragraphs: &[(Style, String)], attached: &str) -> Vec<u8> {
    let mut pages = vec![String::new()];
    let mut height = PAGE.1 - MARGIN;
    for (style, text) in paragraphs {
        let (font, size, leading, fits) = style.look();
        for line in wrapped(text, fits) {
            if height < MARGIN + leading {
                pages.push(String::new());
                height = PAGE.1 - MARGIN;
            }
            height -= leading;
            let page = pages.last_mut().expect("a page");
            let _ = writeln!(
                page,
                "BT /{font} {size} Tf {MARGIN} {height} Td ({}) Tj ET",
                literal(&line)
            );
        }
        height = height.saturating_sub(4);
    }
    // 1 catalogue, 2 pages, 3 to 5 fonts, 6 what is attached, then a page and its content each.
    let first = 7;
    let kids: Vec<String> = (0..pages.len()).map(|i| format!("{} 0 R", first + 2 * i)).collect();
    let font = |name: &str| {
        format!("<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>")
    };
    let stream = |kind: &str, text: &str| {
        format!("<< {kind}/Length {} >>\nstream\n{text}\nendstream", text.len())
    };
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R /Names << /EmbeddedFiles << /Names [(signed.txt) << /Type /Filespec /F (signed.txt) /EF << /F 6 0 R >> >>] >> >> >>".to_owned(),
        format!("<< /Type /Pages /Kids [{}] /Count {} >>", kids.join(" "), pages.len()),
        font("Helvetica"),
        font("Helvetica-Bold"),
        font("Courier"),
        stream("/Type /EmbeddedFile ", attached),
    ];
    for (i, content) in pages.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {} {}] /Contents {} 0 R /Resources << /Font << /F1 3 0 R /F2 4 0 R /F3 5 0 R >> >> >>",
            PAGE.0,
            PAGE.1,
            first + 2 * i + 1
        ));
        objects.push(stream("", content.trim_end()));
    }
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (number, object) in (1..).zip(&objects) {
        places.push(file.len());
        file.extend_from_slice(format!("{number} 0 obj\n{object}\nendobj\n").as_bytes());
    }
    let table = file.len();
    let mut end = format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1);
    for place in places {
        let _ = writeln!(end, "{place:010} 00000 n ");
    }
    let _ = write!(
        end,
        "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n",
        objects.len() + 1
    );
    file.extend_from_slice(end.as_bytes());
    file
}

/// Lines of at most so many characters, broken between words where that can be.
fn wrapped(text: &str, fits: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut word: Vec<char> = word.chars().collect();
        loop {
            let line = lines.last_mut().expect("a line");
            let used = line.chars().count() + usize::from(!line.is_empty());
            if used + word.len() <= fits {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.extend(word);
                break;
            }
            if word.len() > fits && used < fits / 2 {
                // Longer than a line: it is cut.
                let rest = word.split_off((fits - used).max(1));
                if !line.is_empty() {
                    line.push(' ');
                }
                line.extend(word);
                word = rest;
            }
            lines.push(String::new());
        }
    }
    lines
}

/// A text as a string of PDF: what these fonts do not have is written in words or as `?`.
fn literal(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            'ε' => out.push_str("epsilon"),
            'δ' => out.push_str("delta"),
            'σ' => out.push_str("sigma"),
            'μ' => out.push_str("mu"),
            'ρ' => out.push_str("rho"),
            'Σ' => out.push_str("sum of"),
            '–' | '—' | '−' => out.push('-'),
            '≤' => out.push_str("<="),
            '≥' => out.push_str(">="),
            '(' | ')' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            '\u{a0}'..='\u{ff}' => {
                let _ = write!(out, "\\{:03o}", c as u32);
            }
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_where_its_objects_are() {
        let long: Vec<(Style, String)> =
            (0..120).map(|i| (Style::Text, format!("line {i} (ε = 1, Zürich) \\"))).collect();
        let file = String::from_utf8(write(&long, "{\"a\":1}")).unwrap();
        let start: usize =
            file.rsplit_once("startxref\n").unwrap().1.lines().next().unwrap().parse().unwrap();
        assert!(file[start..].starts_with("xref\n0 "));
        let places: Vec<usize> = file[start..]
            .lines()
            .filter(|l| l.ends_with(" 00000 n "))
            .map(|l| l[..10].parse().unwrap())
            .collect();
        for (number, place) in (1..).zip(&places) {
            assert!(file[*place..].starts_with(&format!("{number} 0 obj\n")), "{number}");
        }
        assert!(file.contains("/Count 3"), "120 lines of 18 points on pages of 730");
        assert!(file.contains("line 7 \\(epsilon = 1, Z\\374rich\\) \\\\") && file.is_ascii());
        for length in file.match_indices("/Length ").map(|(at, _)| at + 8) {
            let (number, rest) = file[length..].split_once(" >>\nstream\n").unwrap();
            assert!(rest[number.parse::<usize>().unwrap()..].starts_with("\nendstream"));
        }
    }

    #[test]
    fn words_that_are_longer_than_a_line_are_cut_and_nothing_is_lost() {
        let text = format!("a digest {} and more words", "0123456789".repeat(20));
        let lines = wrapped(&text, 60);
        assert!(lines.iter().all(|l| l.chars().count() <= 60), "{lines:?}");
        let letters = |t: &str| t.chars().filter(|c| *c != ' ').collect::<String>();
        assert_eq!(letters(&lines.concat()), letters(&text));
    }
}
