//! What the crate `consenso` shows: every item is one that somebody reads and builds on, so there
//! are only so many.

use crate::root;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Items at most: half of what one crate showed when all of it was public.
const MOST: usize = 364;

/// Counts types, traits, functions and methods on the pages that `cargo doc` has written.
pub(crate) fn check() -> bool {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let pages = target.join("doc").join("consenso");
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap_or_default();
    let list = page("all.html");
    let items: BTreeSet<&str> =
        links(&list).filter(|link| link.contains('.') && !link.starts_with('.')).collect();
    let shown = items.iter().map(|item| 1 + methods(&page(item))).sum::<usize>();
    eprintln!("── the crate consenso shows {shown} items, at most {MOST}");
    (1..=MOST).contains(&shown)
}

/// Where the links of the list of all items lead.
fn links(list: &str) -> impl Iterator<Item = &str> {
    let list = list.split("id=\"main-content\"").nth(1).unwrap_or_default();
    list.split("<li><a href=\"").skip(1).filter_map(|rest| rest.split('"').next())
}

/// Methods of a type or a trait, without those of traits it implements.
fn methods(page: &str) -> usize {
    let own = page.split("id=\"trait-implementations\"").next().unwrap_or_default();
    let names = own.split("id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let methods = names.filter(|name| name.starts_with("method.") || name.starts_with("tymethod."));
    methods.collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    #[test]
    fn items_and_their_own_methods_are_counted() {
        let list = "<a href=\"x.html\"><section id=\"main-content\"><li><a href=\"struct.A.html\">A</a></li><li><a href=\"fn.b.html\">b</a></li>";
        assert_eq!(super::links(list).collect::<Vec<_>>(), ["struct.A.html", "fn.b.html"]);
        let page = "<section id=\"method.new\"><a id=\"method.new\"><section id=\"tymethod.run\"><h2 id=\"trait-implementations\"><section id=\"method.clone\">";
        assert_eq!(super::methods(page), 2);
    }
}
