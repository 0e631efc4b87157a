//! The shell of every page: one file that works offline, with scripts or without.

use super::chart;
use super::figure::dark_style;
use super::format::escape;

const STYLE: &str = include_str!("style.css");

/// What a browser may do with the page: nothing but show it and run what is in it.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A section of a page: its id, its heading as text, and its HTML; one without HTML is left out.
pub(super) type Section<'a> = (&'a str, &'a str, String);

/// Sections under their headings.
pub(super) fn sections(all: &[Section<'_>]) -> String {
    let one = |(id, title, html): &Section<'_>| match html.is_empty() {
        true => String::new(),
        false => format!("<section id=\"{id}\">\n<h2>{}</h2>\n{html}</section>\n", escape(title)),
    };
    all.iter().map(one).collect()
}

/// A list of links to the sections of a page.
pub(super) fn contents(all: &[Section<'_>]) -> String {
    contents_of(&sections(all))
}

/// A list of links to the sections of a page that is written already.
pub fn contents_of(html: &str) -> String {
    let section = |part: &str| {
        let (id, rest) = part.split_once("\">\n<h2>")?;
        let (title, _) = rest.split_once("</h2>")?;
        Some(format!("<li><a href=\"#{id}\">{title}</a></li>\n"))
    };
    let items: String = html.split("<section id=\"").skip(1).filter_map(section).collect();
    format!("<nav class=\"contents\" aria-label=\"Contents\">\n<ul>\n{items}</ul>\n</nav>\n")
}

/// Tells every cell of a `results` table the heading of its column, which a narrow screen shows
/// beside it.
fn label_cells(html: &str) -> String {
    let mut out = String::with_capacity(html.len() + html.len() / 8);
    let mut rest = html;
    while let Some(start) = rest.find("<table class=\"results") {
        let end = rest[start..].find("</table>").map_or(rest.len(), |end| start + end);
        out.push_str(&rest[..start]);
        label_table(&mut out, &rest[start..end]);
        rest = &rest[end..];
    }
    out + rest
}

fn label_table(out: &mut String, table: &str) {
    let head = table.split("</thead>").next().unwrap_or_default();
    // The first heading is over the names of the rows.
    let labels: Vec<String> = head.split("<th ").skip(2).map(text_of).collect();
    for (k, row) in table.split_inclusive("</tr>").enumerate() {
        for (cell, part) in row.split("<td").enumerate() {
            if k == 0 || cell == 0 {
                out.push_str(if cell == 0 { "" } else { "<td" });
                out.push_str(part);
                continue;
            }
            let label = labels.get(cell - 1).map_or("", String::as_str);
            let empty = part.starts_with("><span class=\"none\">–</span>");
            *out += &format!(
                "<td data-label=\"{label}\"{}{part}",
                if empty { " data-empty=\"\"" } else { "" }
            );
        }
    }
}

/// The text of an element whose opening tag is cut before its attributes.
fn text_of(element: &str) -> String {
    let inner = element.split_once('>').map_or("", |(_, inner)| inner);
    let inner = inner.split("</th>").next().unwrap_or_default();
    let mut text = String::new();
    let mut inside = false;
    for c in inner.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => text.push(c),
            _ => {}
        }
    }
    text
}

/// A whole page around the HTML of its `main`. The title is text.
pub fn shell(title: &str, version: &str, main: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"generator\" content=\"consenso {version}\"/>\n\
         <title>{title} – consenso</title>\n<style>{uplot}\n{STYLE}{dark}</style>\n</head>\n<body>\n<main>\n\
         {main}</main>\n{scripts}</body>\n</html>\n",
        version = escape(version),
        title = escape(title),
        main = label_cells(main),
        uplot = chart::style(),
        dark = dark_style(),
        scripts = chart::scripts(),
    )
}
