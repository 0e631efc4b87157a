//! `cargo xtask docs`: the guide as a book, with every link checked.
//!
//! The chapters are the links of `docs/README.md`, in their order. The book is plain HTML under
//! `target/book`, for a browser without a network.

use crate::{reference, root};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

/// Pages outside `docs/` that the book holds too.
const BESIDE: [&str; 5] =
    ["README.md", "ARCHITECTURE.md", "PRIVACY.md", "CHANGELOG.md", "CONTRIBUTING.md"];

const STYLE: &str = include_str!("../book.css");

/// Writes `docs/reference.md`, checks all links, and builds the book.
pub(crate) fn run() -> bool {
    match build(&root(), &root().join("target/book")) {
        Ok(pages) => {
            eprintln!(
                "── {pages} pages in target/book, every link leads somewhere: open target/book/docs/README.html"
            );
            true
        }
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("── {fault}"));
            false
        }
    }
}

fn build(root: &Path, out: &Path) -> Result<usize, Vec<String>> {
    let one = |text: String| vec![text];
    let made = reference::chapter(root).map_err(one)?;
    let write = |path: &Path, text: &[u8]| {
        let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        folder
            .and_then(|()| std::fs::write(path, text))
            .map_err(|e| one(format!("{}: {e}", path.display())))
    };
    write(&root.join("docs/reference.md"), made.as_bytes())?;
    let pages = pages(root).map_err(one)?;
    let faults = faults(root, &pages);
    if !faults.is_empty() {
        return Err(faults);
    }
    let chapters = chapters(&pages);
    for (name, text) in &pages {
        write(&out.join(name).with_extension("html"), page(name, text, &chapters).as_bytes())?;
        for (_, target) in links(text).iter().filter(|(image, _)| *image) {
            let path = beside(name, target.split('#').next().unwrap_or(""));
            let bytes = std::fs::read(root.join(&path)).map_err(|e| one(format!("{path}: {e}")))?;
            write(&out.join(path), &bytes)?;
        }
    }
    Ok(pages.len())
}

/// All pages by their path from the root.
fn pages(root: &Path) -> Result<BTreeMap<String, String>, String> {
    let mut names: Vec<String> = BESIDE.map(str::to_owned).to_vec();
    let entries = std::fs::read_dir(root.join("docs")).map_err(|e| format!("docs: {e}"))?;
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if Path::new(&name).extension().is_some_and(|extension| extension == "md") {
            names.push(format!("docs/{name}"));
        }
    }
    let read = |name: String| {
        let text = std::fs::read_to_string(root.join(&name)).map_err(|e| format!("{name}: {e}"))?;
        Ok((name, text))
    };
    names.into_iter().map(read).collect()
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH
}

/// Links and images: whether it is an image, and where it leads.
fn links(text: &str) -> Vec<(bool, String)> {
    Parser::new_ext(text, options())
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. }) => Some((false, dest_url.into_string())),
            Event::Start(Tag::Image { dest_url, .. }) => Some((true, dest_url.into_string())),
            _ => None,
        })
        .collect()
}

/// The headings of a page and the names by which a link finds them, as repositories make them.
fn headings(text: &str) -> Vec<(HeadingLevel, String, String)> {
    let mut out: Vec<(HeadingLevel, String, String)> = Vec::new();
    let mut open: Option<(HeadingLevel, String)> = None;
    for event in Parser::new_ext(text, options()) {
        match (event, &mut open) {
            (Event::Start(Tag::Heading { level, .. }), _) => open = Some((level, String::new())),
            (Event::Text(text) | Event::Code(text), Some((_, heading))) => heading.push_str(&text),
            (Event::End(TagEnd::Heading(_)), Some(_)) => {
                let Some((level, heading)) = open.take() else { continue };
                let base = slug(&heading);
                let same = out
                    .iter()
                    .filter(|(_, _, id)| {
                        id.rsplit_once('-').map_or(id == &base, |(stem, n)| {
                            id == &base || (stem == base && n.parse::<u32>().is_ok())
                        })
                    })
                    .count();
                let id = if same == 0 { base } else { format!("{base}-{same}") };
                out.push((level, heading, id));
            }
            _ => {}
        }
    }
    out
}

fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' | '-' => Some('-'),
            c if c.is_alphanumeric() || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

/// A path as written on the page `from`, from the root.
fn beside(from: &str, target: &str) -> String {
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(part) => path.push(part),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

fn is_elsewhere(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// Links that lead nowhere, and chapters that nothing leads to.
fn faults(root: &Path, pages: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    let anchors: BTreeMap<&str, BTreeSet<String>> = pages
        .iter()
        .map(|(name, text)| {
            (name.as_str(), headings(text).into_iter().map(|(_, _, id)| id).collect())
        })
        .collect();
    for (name, text) in pages {
        for (_, target) in links(text).iter().filter(|(_, target)| !is_elsewhere(target)) {
            let (path, anchor) =
                target.split_once('#').map_or((target.as_str(), None), |(p, a)| (p, Some(a)));
            let path = if path.is_empty() { name.clone() } else { beside(name, path) };
            if !pages.contains_key(&path) && !root.join(&path).exists() {
                faults.push(format!("{name}: the link to {target} leads nowhere"));
            }
            let known = anchors.get(path.as_str());
            if let (Some(anchor), Some(known)) = (anchor, known)
                && !known.contains(anchor)
            {
                faults.push(format!("{name}: {path} has no heading #{anchor}"));
            }
        }
    }
    let chapters = chapters(pages);
    for name in pages.keys().filter(|name| name.starts_with("docs/") && *name != "docs/README.md") {
        if !chapters.iter().any(|(chapter, _)| chapter == name) {
            faults.push(format!("{name}: docs/README.md does not lead to it"));
        }
    }
    faults
}

/// The chapters of the book with their titles, in the order of `docs/README.md`.
fn chapters(pages: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let contents = pages.get("docs/README.md").map_or("", String::as_str);
    let mut out: Vec<(String, String)> = Vec::new();
    for (_, target) in links(contents) {
        let name = beside("docs/README.md", target.split('#').next().unwrap_or(""));
        let title = pages
            .get(&name)
            .and_then(|text| headings(text).into_iter().next())
            .map(|(_, title, _)| title);
        if let Some(title) = title.filter(|_| !out.iter().any(|(known, _)| *known == name)) {
            out.push((name, title));
        }
    }
    out
}

fn page(name: &str, text: &str, chapters: &[(String, String)]) -> String {
    let mut ids = headings(text).into_iter();
    let up = "../".repeat(name.matches('/').count());
    let events = Parser::new_ext(text, options()).map(|event| match event {
        Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
            let id = ids.next().map(|(_, _, id)| CowStr::from(id));
            Event::Start(Tag::Heading { level, id, classes, attrs })
        }
        Event::Start(Tag::Link { link_type, dest_url, title, id }) if !is_elsewhere(&dest_url) => {
            Event::Start(Tag::Link {
                link_type,
                dest_url: dest_url.replace(".md", ".html").into(),
                title,
                id,
            })
        }
        other => other,
    });
    let mut body = String::new();
    html::push_html(&mut body, events);
    let body = body
        .replace("<table>", "<div class=\"scroll\"><table>")
        .replace("</table>", "</table></div>");
    let mut list = String::new();
    for (chapter, title) in chapters {
        let here = if chapter == name { " aria-current=\"page\"" } else { "" };
        let _ = writeln!(
            list,
            "<li><a href=\"{up}{}\"{here}>{}</a></li>",
            chapter.replace(".md", ".html"),
            escape(title)
        );
    }
    let at = chapters.iter().position(|(chapter, _)| chapter == name);
    let turn = |k: Option<usize>, word: &str| {
        let (chapter, title) = k.and_then(|k| chapters.get(k))?;
        Some(format!(
            "<a href=\"{up}{}\">{word} {}</a>",
            chapter.replace(".md", ".html"),
            escape(title)
        ))
    };
    let before = turn(at.and_then(|at| at.checked_sub(1)), "←").unwrap_or_default();
    let after = turn(at.map(|at| at + 1), "→").unwrap_or_default();
    let title =
        headings(text).into_iter().next().map_or_else(|| name.to_owned(), |(_, title, _)| title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{} – Consenso</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<nav aria-label=\"Chapters\"><p><a href=\"{up}docs/README.html\">Consenso, the guide</a></p>\n\
         <ol>\n{list}</ol></nav>\n<main>\n{body}<p class=\"turn\">{before}<span></span>{after}</p>\n</main>\n</body>\n</html>\n",
        escape(&title)
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_the_documentation_leads_somewhere() {
        let root = root();
        let pages = pages(&root).expect("the documentation");
        assert_eq!(faults(&root, &pages), Vec::<String>::new());
        assert!(chapters(&pages).len() > 10);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let mut pages = BTreeMap::new();
        pages.insert(
            "docs/README.md".into(),
            "# Book\n[a](a.md) [b](gone.md) [c](a.md#nothing) [d](a.md#two-words)".into(),
        );
        pages.insert("docs/a.md".into(), "# A\n## Two `words`!\n[up](../Cargo.toml)".into());
        pages.insert("docs/lost.md".into(), "# Lost".into());
        let found =
            faults(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the root"), &pages)
                .join("\n");
        assert!(
            found.contains("gone.md leads nowhere") && found.contains("no heading #nothing"),
            "{found}"
        );
        assert!(
            found.contains("docs/lost.md: docs/README.md does not lead to it")
                && !found.contains("two-words"),
            "{found}"
        );
    }
}
