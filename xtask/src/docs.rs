//! `cargo xtask docs`: the guide as a book, with every link checked.
//!
//! The chapters are the links of `docs/README.md`, in their order and under its headings. The book is
//! plain HTML under `target/book`, for a browser without a network; the pages of the Rust library
//! are taken along where `cargo doc` has made them. mdBook would add a hundred crates for what is a
//! page of code here.

use crate::{dictionary, reference, root};
use pulldown_cmark::{CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

/// Pages outside `docs/` that the book holds too.
const BESIDE: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "PRIVACY.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
];

const STYLE: &str = include_str!("../book.css");
/// What finds words in the book, without a server.
const SEARCH: &str = include_str!("../book-search.js");

/// Writes `docs/reference.md` and `docs/algorithms.md`, checks all links, and builds the book.
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
    let made = dictionary::chapter(root).map_err(one)?;
    write(&root.join("docs/algorithms.md"), made.as_bytes())?;
    let pages = pages(root).map_err(one)?;
    let faults = faults(root, &pages);
    if !faults.is_empty() {
        return Err(faults);
    }
    let groups = groups(&pages);
    let api = copied(&root.join("target/doc"), &out.join("api")).map_err(one)?;
    let index = format!("const INDEX = [\n{}\n];\n{SEARCH}", index(&pages).join(",\n"));
    write(&out.join("search.js"), index.as_bytes())?;
    // Whoever opens the folder itself lands on the first page.
    let first = "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url=docs/README.html\"><title>Consenso</title><a href=\"docs/README.html\">Consenso, the guide</a>\n";
    write(&out.join("index.html"), first.as_bytes())?;
    for (name, text) in &pages {
        write(&out.join(name).with_extension("html"), page(name, text, &groups, api).as_bytes())?;
        for (_, target) in links(text).iter().filter(|(image, _)| *image) {
            let path = beside(name, target.split('#').next().unwrap_or(""));
            let bytes = std::fs::read(root.join(&path)).map_err(|e| one(format!("{path}: {e}")))?;
            write(&out.join(path), &bytes)?;
        }
    }
    Ok(pages.len())
}

/// Takes the pages of the Rust library along, if they are there.
fn copied(from: &Path, to: &Path) -> Result<bool, String> {
    if !from.join("consenso/index.html").exists() {
        return Ok(false);
    }
    let fault = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let here = from.join(&folder);
        std::fs::create_dir_all(to.join(&folder)).map_err(|e| fault(&folder, e))?;
        for entry in std::fs::read_dir(&here).map_err(|e| fault(&here, e))?.filter_map(Result::ok) {
            let path = folder.join(entry.file_name());
            if entry.path().is_dir() {
                // The chores of this project are nobody's library.
                if !path.ends_with("xtask") {
                    folders.push(path);
                }
            } else if !entry.file_name().to_string_lossy().starts_with('.') {
                std::fs::copy(entry.path(), to.join(&path)).map_err(|e| fault(&path, e))?;
            }
        }
    }
    Ok(true)
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

/// What can be found: for every heading its page, its place, its title and the words beneath it.
fn index(pages: &BTreeMap<String, String>) -> Vec<String> {
    let mut all = Vec::new();
    for (name, text) in in_order(pages) {
        let chapter =
            headings(text).into_iter().next().map_or(String::new(), |(_, title, _)| title);
        let mut ids = headings(text).into_iter();
        let mut open: Option<(String, String)> = None;
        let mut inside = false;
        let mut words = String::new();
        let page = name.replace(".md", ".html");
        let mut put = |open: &mut Option<(String, String)>, words: &mut String| {
            if let Some((title, id)) = open.take() {
                let part = [format!("{page}#{id}"), title, std::mem::take(words), chapter.clone()];
                all.push(format!("[{}]", part.map(|p| quoted(&p)).join(",")));
            }
        };
        for event in Parser::new_ext(text, options()) {
            match event {
                Event::Start(Tag::Heading { .. }) => {
                    put(&mut open, &mut words);
                    open = ids.next().map(|(_, title, id)| (title, id));
                    inside = true;
                }
                Event::End(TagEnd::Heading(_)) => inside = false,
                Event::Text(text) | Event::Code(text) if !inside => {
                    words.push_str(&text);
                    words.push(' ');
                }
                _ => {}
            }
        }
        put(&mut open, &mut words);
    }
    all
}

/// Pages as somebody reads them: chapters of the guide, then what is beside it.
fn in_order(pages: &BTreeMap<String, String>) -> Vec<(&String, &String)> {
    let chapters: Vec<String> = chapters(pages).into_iter().map(|(name, _)| name).collect();
    let mut all: Vec<(&String, &String)> = pages.iter().collect();
    all.sort_by_key(|(name, _)| {
        chapters.iter().position(|chapter| chapter == *name).unwrap_or(chapters.len())
    });
    all
}

/// A text as JavaScript has it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '<' => out.push_str("\\u003c"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A heading of `docs/README.md` and the chapters under it: page and short title.
type Group = (String, Vec<(String, String)>);

/// The chapters of the book under the headings of `docs/README.md`, each where it is named first.
fn groups(pages: &BTreeMap<String, String>) -> Vec<Group> {
    let contents = pages.get("docs/README.md").map_or("", String::as_str);
    let mut out: Vec<Group> = vec![(String::new(), Vec::new())];
    let mut words: Option<String> = None;
    let mut open: Option<(String, String)> = None;
    for event in Parser::new_ext(contents, options()) {
        match event {
            Event::Start(Tag::Heading { .. }) => words = Some(String::new()),
            Event::End(TagEnd::Heading(level)) => {
                let heading = words.take().unwrap_or_default();
                if level != HeadingLevel::H1 {
                    out.push((heading, Vec::new()));
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                let target = dest_url.split('#').next().unwrap_or("");
                open = Some((beside("docs/README.md", target), String::new()));
            }
            Event::End(TagEnd::Link) => {
                let Some((name, title)) = open.take() else { continue };
                // What stands before the first heading leads on, and is listed below.
                let known = out.iter().any(|(_, all)| all.iter().any(|(page, _)| *page == name));
                if let Some((heading, all)) = out.last_mut()
                    && pages.contains_key(&name)
                    && !known
                    && !heading.is_empty()
                {
                    all.push((name, sentence(&title)));
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some((_, title)) = &mut open {
                    title.push_str(&text);
                } else if let Some(words) = &mut words {
                    words.push_str(&text);
                }
            }
            _ => {}
        }
    }
    out.retain(|(_, all)| !all.is_empty());
    out
}

/// A text with a capital at its beginning.
fn sentence(text: &str) -> String {
    let mut all = text.chars();
    all.next().map_or(String::new(), |first| first.to_uppercase().chain(all).collect())
}

/// The chapters of the book with their titles, in order.
fn chapters(pages: &BTreeMap<String, String>) -> Vec<(String, String)> {
    groups(pages).into_iter().flat_map(|(_, all)| all).collect()
}

/// The page's text as HTML, with links to other pages of the book and to its own headings.
fn body(text: &str) -> String {
    let mut ids = headings(text).into_iter();
    let mut last = String::new();
    let events = Parser::new_ext(text, options()).flat_map(|event| match event {
        Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
            last = ids.next().map(|(_, _, id)| id).unwrap_or_default();
            let id = Some(CowStr::from(last.clone()));
            vec![Event::Start(Tag::Heading { level, id, classes, attrs })]
        }
        Event::End(TagEnd::Heading(level)) if level != HeadingLevel::H1 => {
            let link = format!(
                "<a class=\"here\" href=\"#{last}\" aria-label=\"Link to this section\">#</a>"
            );
            vec![Event::InlineHtml(link.into()), Event::End(TagEnd::Heading(level))]
        }
        Event::Start(Tag::Link { link_type, dest_url, title, id }) if !is_elsewhere(&dest_url) => {
            let dest_url = dest_url.replace(".md", ".html").into();
            vec![Event::Start(Tag::Link { link_type, dest_url, title, id })]
        }
        other => vec![other],
    });
    let mut body = String::new();
    html::push_html(&mut body, events);
    body.replace("<table>", "<div class=\"scroll\"><table>").replace("</table>", "</table></div>")
}

/// The list of all chapters, with the sections of the open one.
fn contents(name: &str, text: &str, groups: &[Group], up: &str) -> String {
    let mut list = String::new();
    for (heading, all) in groups {
        let _ = writeln!(list, "<p class=\"group\">{}</p>\n<ul>", escape(heading));
        for (chapter, title) in all {
            let open = chapter == name;
            let here = if open { " aria-current=\"page\"" } else { "" };
            let to = chapter.replace(".md", ".html");
            let _ = write!(list, "<li><a href=\"{up}{to}\"{here}>{}</a>", escape(title));
            let parts: Vec<_> =
                headings(text).into_iter().filter(|h| h.0 == HeadingLevel::H2).collect();
            if open && (2..=24).contains(&parts.len()) {
                list.push_str("<ul>");
                for (_, title, id) in parts {
                    let _ = write!(list, "<li><a href=\"#{id}\">{}</a></li>", escape(&title));
                }
                list.push_str("</ul>");
            }
            list.push_str("</li>\n");
        }
        list.push_str("</ul>\n");
    }
    list
}

fn page(name: &str, text: &str, groups: &[Group], api: bool) -> String {
    let up = "../".repeat(name.matches('/').count());
    let chapters: Vec<&(String, String)> = groups.iter().flat_map(|(_, all)| all).collect();
    let at = chapters.iter().position(|(chapter, _)| chapter == name);
    let turn = |k: Option<usize>, before: &str, after: &str| {
        let (chapter, title) = k.and_then(|k| chapters.get(k))?;
        let to = chapter.replace(".md", ".html");
        Some(format!("<a href=\"{up}{to}\">{before}{}{after}</a>", escape(title)))
    };
    let before = turn(at.and_then(|at| at.checked_sub(1)), "← ", "").unwrap_or_default();
    let first = (name == "docs/README.md").then_some(0);
    let after = turn(at.map(|at| at + 1).or(first), "", " →").unwrap_or_default();
    let title =
        headings(text).into_iter().next().map_or_else(|| name.to_owned(), |(_, title, _)| title);
    let rust = match api {
        true => format!(
            "<p class=\"group\">Rust</p>\n<ul><li><a href=\"{up}api/consenso/index.html\">The crate consenso</a></li>\n<li><a href=\"{up}api/consenso_dp/index.html\">Privacy alone: consenso-dp</a></li></ul>\n"
        ),
        false => String::new(),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{} – Consenso</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<nav aria-label=\"Chapters\"><p class=\"home\"><a href=\"{up}docs/README.html\">Consenso</a></p>\n\
         <p><input type=\"search\" id=\"search\" placeholder=\"Search ( / )\" aria-label=\"Search the guide\" data-up=\"{up}\"></p><ul id=\"found\"></ul>\n\
         <details id=\"chapters\" open><summary>Chapters</summary>\n{list}{rust}</details></nav>\n\
         <main>\n{body}<p class=\"turn\">{before}<span></span>{after}</p>\n</main>\n<script src=\"{up}search.js\" defer></script>\n</body>\n</html>\n",
        escape(&title),
        list = contents(name, text, groups, &up),
        body = body(text),
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
        assert!(chapters(&pages).len() > 20);
    }

    #[test]
    fn what_stands_under_a_heading_can_be_found_there() {
        let pages = BTreeMap::from([(
            "docs/a.md".to_owned(),
            "# A \"b\"\n\nfirst `</script>` words\n\n## Two `words`\n\nsecond".to_owned(),
        )]);
        assert_eq!(
            index(&pages),
            [
                r#"["docs/a.html#a-b","A \"b\"","first  \u003c/script>  words ","A \"b\""]"#,
                r#"["docs/a.html#two-words","Two words","second ","A \"b\""]"#
            ]
        );
    }

    #[test]
    fn chapters_stand_under_the_headings_of_the_first_page() {
        let pages = BTreeMap::from([
            ("docs/README.md".to_owned(), "# Book\nFirst [see b](b.md).\n\n## One\n- [a](a.md): x\n\n## Two\n- [more `b`](b.md), [a](a.md)".to_owned()),
            ("docs/a.md".to_owned(), "# A\n## X & Y\ntext\n## Z".to_owned()),
            ("docs/b.md".to_owned(), "# B".to_owned()),
        ]);
        let of = |name: &str, title: &str| (name.to_owned(), title.to_owned());
        let groups = groups(&pages);
        assert_eq!(
            groups,
            [
                ("One".to_owned(), vec![of("docs/a.md", "A")]),
                ("Two".to_owned(), vec![of("docs/b.md", "More b")])
            ]
        );
        let page = page("docs/a.md", &pages["docs/a.md"], &groups, true);
        for part in [
            "<a href=\"../docs/a.html\" aria-current=\"page\">A</a><ul><li><a href=\"#x--y\">X &amp; Y</a>",
            "<h2 id=\"x--y\">X &amp; Y<a class=\"here\" href=\"#x--y\"",
            "<a href=\"../docs/b.html\">More b →</a>",
            "../api/consenso/index.html",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let mut pages = BTreeMap::new();
        pages.insert(
            "docs/README.md".into(),
            "# Book\n## Part\n[a](a.md) [b](gone.md) [c](a.md#nothing) [d](a.md#two-words)".into(),
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
