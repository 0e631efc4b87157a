//! What the crate `consenso` shows can be named from it: every type, trait and alias in a signature
//! that its documentation shows is one that a user of that crate alone can import.

use crate::{NOT_ORACLES, cargo, root, succeeds};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Makes the pages of `consenso` once more. Rustdoc links a type to the page of another crate only
/// where that crate has pages already, and a first `cargo doc` writes those of all crates at once.
fn again() -> bool {
    let source = root().join("crates/consenso/src/lib.rs");
    let Ok(file) = File::options().append(true).open(&source) else { return false };
    let Ok(before) = file.metadata().and_then(|about| about.modified()) else { return false };
    let newer = file.set_modified(SystemTime::now()).is_ok();
    let mut doc = cargo();
    doc.args(["doc", "--quiet", "--no-deps"]).args(NOT_ORACLES);
    let made = newer && succeeds(doc.env("RUSTDOCFLAGS", "-D warnings"));
    // What was built from it is as new as it was.
    made & file.set_modified(before).is_ok()
}

/// Reads the pages that `cargo doc` has written of `consenso` and of the crates it shows again.
///
/// A signature on such a page links to the page of every type it names: within `consenso`, if the
/// type is shown again there, and to the crate it comes from, if it is not.
pub(crate) fn check() -> bool {
    if !again() {
        return false;
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let pages = target.join("doc").join("consenso");
    let (mut shown, mut hidden) = (0, BTreeMap::<String, BTreeSet<String>>::new());
    for (name, page) in items(&pages) {
        shown += 1;
        for (path, kind) in foreign(&page) {
            hidden.entry(format!("{kind} {path}")).or_default().insert(name.clone());
        }
    }
    for (what, by) in &hidden {
        let by: Vec<&str> = by.iter().map(String::as_str).take(3).collect();
        eprintln!("── {what} cannot be named from consenso; see {}", by.join(", "));
    }
    eprintln!("── consenso shows {shown} items; {} that they name are missing", hidden.len());
    shown > 0 && hidden.is_empty()
}

/// The pages of all items, with their names.
fn items(folder: &Path) -> Vec<(String, String)> {
    let list = std::fs::read_to_string(folder.join("all.html")).unwrap_or_default();
    let list = list.split("id=\"main-content\"").nth(1).unwrap_or_default();
    let links = list.split("<li><a href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let links: BTreeSet<&str> =
        links.filter(|link| link.contains('.') && !link.starts_with('.')).collect();
    let page = |link: &&str| std::fs::read_to_string(folder.join(link)).unwrap_or_default();
    links.iter().map(|link| ((*link).to_owned(), page(link))).collect()
}

/// What the signatures of a page name that lies in another crate of this project: the path, and
/// what it is.
fn foreign(page: &str) -> Vec<(String, &str)> {
    // Implementations of traits are promised by the traits, which have pages of their own.
    let own = page.split("id=\"trait-implementations\"").next().unwrap_or_default();
    let own = own.split("id=\"implementors\"").next().unwrap_or_default();
    let links = own.split("<a class=\"").skip(1).filter_map(|rest| {
        let (kind, rest) = rest.split_once('"')?;
        let (_, rest) = rest.split_once("href=\"")?;
        let (link, rest) = rest.split_once('"')?;
        let (_, rest) = rest.split_once("title=\"")?;
        let (title, _) = rest.split_once('"')?;
        let path = title.split_once(' ').map_or(title, |(_, path)| path);
        let kinds = ["struct", "enum", "trait", "type", "union", "traitalias"];
        let ours = link.contains("/consenso_") && path.starts_with("consenso_");
        (kinds.contains(&kind) && ours).then(|| (path.to_owned(), kind))
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use super::foreign;

    #[test]
    fn a_type_that_only_another_crate_shows_is_found_in_signatures_and_nowhere_else() {
        let page = r#"<pre><a class="struct" href="struct.A.html" title="struct consenso::A">A</a>
            <a class="enum" href="../consenso_dp/enum.B.html" title="enum consenso_dp::event::B">B</a>
            <a href="../consenso_dp/enum.C.html" title="enum consenso_dp::C">C</a>
            <a class="struct" href="https://doc.rust-lang.org/x.html" title="struct alloc::vec::Vec">Vec</a>
            <h2 id="trait-implementations"><a class="trait" href="../consenso_dp/trait.D.html" title="trait consenso_dp::D">D</a>"#;
        assert_eq!(foreign(page), [("consenso_dp::event::B".to_owned(), "enum")]);
    }
}
