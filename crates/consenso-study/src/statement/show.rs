//! Statements as people read them: text, YAML for a registry, and a page.

use super::{Answer, Format, Statement};
use crate::report::escape;
use serde_json::Value;
use std::fmt::Write as _;

/// The statement as text of at most 80 columns: what is open is marked.
#[must_use]
pub fn text(statement: &Statement) -> String {
    let mut out = format!("{}\n\n{}\n", statement.title, wrapped(&statement.about, "", COLUMNS));
    for section in &statement.sections {
        let _ = writeln!(out, "\n{}", section.title.to_uppercase());
        for field in &section.fields {
            let tier = field.tier.map_or(String::new(), |tier| format!(" [tier {tier}]"));
            let _ = writeln!(out, "\n  {}{tier}", field.question);
            for line in words(&field.answer).lines() {
                let _ = writeln!(out, "{}", wrapped(line, "    ", COLUMNS));
            }
        }
    }
    let open = statement.open();
    if !open.is_empty() {
        let last = format!("{} open for a person to answer: {}", open.len(), open.join(", "));
        let _ = writeln!(out, "\n{}", wrapped(&last, "", COLUMNS));
    }
    out
}

/// An answer as text.
fn words(answer: &Answer) -> String {
    match answer {
        Answer::Known(value) => plain(value),
        Answer::Stated(value) => format!("{} (stated by a person)", plain(value)),
        Answer::Open { key, what } => format!("▢ OPEN ({key}): {what}"),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(plain).collect::<Vec<_>>().join("; "),
        Value::Number(number) => scalar(number),
        other => other.to_string(),
    }
}

const COLUMNS: usize = 80;

fn wrapped(text: &str, indent: &str, columns: usize) -> String {
    let mut out = String::from(indent);
    let mut used = indent.len();
    for (k, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if k > 0 && used + 1 + length > columns {
            let _ = write!(out, "\n{indent}{word}");
            used = indent.len() + length;
        } else {
            if k > 0 {
                out.push(' ');
            }
            out.push_str(word);
            used += length + usize::from(k > 0);
        }
    }
    out
}

/// The document as YAML, as the registry takes it; what is open and no text is a comment.
#[must_use]
pub fn yaml(statement: &Statement) -> String {
    let mut out = String::new();
    mapping(&statement.document(), 0, &mut out);
    for field in statement.sections.iter().flat_map(|section| &section.fields) {
        if let Answer::Open { key, what } = &field.answer {
            let _ = writeln!(out, "# open: {} ({key}): {what}", field.key);
        }
    }
    out
}

fn mapping(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => {
                let _ = writeln!(out, "{indent}{key}:");
                mapping(value, depth + 1, out);
            }
            Value::Array(all) => {
                let _ = writeln!(out, "{indent}{key}:");
                for one in all {
                    let _ = writeln!(out, "{indent}  - {one}");
                }
            }
            Value::Number(number) => {
                let _ = writeln!(out, "{indent}{key}: {}", scalar(number));
            }
            // A text of JSON is one of YAML.
            other => {
                let _ = writeln!(out, "{indent}{key}: {other}");
            }
        }
    }
}

/// A number that readers of YAML 1.1 take for one: 1e-6 alone would be a text to them.
fn scalar(number: &serde_json::Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(value) if value != 0.0 && value.abs() < 1e-3 => {
            let text = format!("{value:e}");
            if text.contains('.') { text } else { text.replace('e', ".0e") }
        }
        _ => number.to_string(),
    }
}

/// The statement as a page without scripts. `foot` is HTML that goes beneath it, a signature.
#[must_use]
pub fn html(statement: &Statement, foot: &str) -> String {
    let mut main =
        format!("<h1>{}</h1>\n<p>{}</p>\n", escape(&statement.title), escape(&statement.about));
    let open = statement.open();
    let note = match open.len() {
        0 => "Nothing is open.".to_owned(),
        n => format!("{n} answers are open and marked; they are not for a program to give."),
    };
    let _ = writeln!(main, "<p><strong>{note}</strong></p>");
    for section in &statement.sections {
        let _ = writeln!(main, "<h2>{}</h2>\n<dl>", escape(&section.title));
        for field in &section.fields {
            let tier = field.tier.map_or(String::new(), |t| format!(" <small>tier {t}</small>"));
            let (class, text) = match &field.answer {
                Answer::Known(value) => ("known", plain(value)),
                Answer::Stated(value) => ("stated", plain(value)),
                Answer::Open { what, .. } => ("open", format!("Open: {what}")),
            };
            let text = commands(&escape(&text)).replace('\n', "<br>");
            let _ = writeln!(
                main,
                "<dt>{}{tier}</dt><dd class=\"{class}\">{text}</dd>",
                escape(&field.question)
            );
        }
        main.push_str("</dl>\n");
    }
    if statement.format == Format::Registry {
        let _ = writeln!(
            main,
            "<h2>As a file of the registry</h2>\n<pre>{}</pre>",
            escape(&yaml(statement))
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n{main}{foot}</html>\n",
        escape(&statement.title)
    )
}

/// Text between backticks as code.
fn commands(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text.to_owned();
    }
    let one = |(k, part): (usize, &&str)| match k % 2 {
        1 => format!("<code>{part}</code>"),
        _ => (*part).to_owned(),
    };
    parts.iter().enumerate().map(one).collect()
}

const STYLE: &str = ":root{color-scheme:light dark}body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;\
    padding:0 1rem;color:#222;background:#fff}dt{font-weight:600;margin-top:.8rem}\
    dd{margin:.2rem 0 0;padding-left:.8rem;border-left:3px solid #bbb}\
    dd.open{border-color:#b00;background:#fdf1f0}dd.stated{border-color:#06c}\
    dd.stated::after{content:' (stated by a person)';color:#555}small{color:#666}\
    pre,code{overflow-wrap:anywhere;white-space:pre-wrap;font-size:.85em}\
    @media screen and (prefers-color-scheme:dark){body{color:#e4e7ea;background:#15181c}\
    dd{border-color:#555}dd.open{border-color:#ff8f8f;background:#2b1a1b}\
    dd.stated{border-color:#7cc1ee}dd.stated::after,small{color:#a3abb3}}\
    @media(min-width:50rem){dl{display:grid;grid-template-columns:16rem 1fr;gap:.5rem 1rem}\
    dt,dd{margin:0}}@media print{dd.open{background:none}}";
