//! Reading the pages that the report writes.

/// Panics unless every tag is closed in order, every attribute is quoted and every `&` starts an
/// entity. Enough of XML for what the report writes: no CDATA, no comments, no processing
/// instructions. What scripts hold is looked at elsewhere.
pub(crate) fn well_formed(text: &str) {
    let text = &without_scripts(text);
    let text = text.strip_prefix("<!DOCTYPE html>\n").unwrap_or(text);
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        entities(&rest[..at]);
        let end = tag_end(&rest[at..]) + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert!(rest.trim().is_empty());
}

/// The page as a reader without scripts gets it.
pub(crate) fn without_scripts(page: &str) -> String {
    let mut parts = page.split("<script");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out += part.split_once("</script>").expect("a script ends").1;
    }
    out
}

/// What the scripts of a page read.
pub(crate) fn chart_data(page: &str) -> Vec<serde_json::Value> {
    let scripts = page.split("<script type=\"application/json\">").skip(1);
    scripts
        .map(|rest| {
            let text = rest.split("</script>").next().expect("an end");
            assert!(!text.contains('<'), "nothing in it can look like a tag");
            serde_json::from_str(text).expect("JSON")
        })
        .collect()
}

fn tag_end(text: &str) -> usize {
    let mut quoted = false;
    for (k, c) in text.char_indices().skip(1) {
        match c {
            '"' => quoted = !quoted,
            '>' if !quoted => return k,
            '<' => panic!("a raw < in {}", &text[..k.min(80)]),
            _ => {}
        }
    }
    panic!("a tag without an end: {}", text.chars().take(80).collect::<String>());
}

fn entities(text: &str) {
    for part in text.split('&').skip(1) {
        assert!(
            ["amp;", "lt;", "gt;", "quot;", "#39;"].iter().any(|entity| part.starts_with(entity)),
            "a raw & before {part:.20}"
        );
    }
}
