//! The modules lead one way.

/// The modules of the library, in the order of the arrow of ARCHITECTURE.md: each uses only modules above it.
const ORDER: [&str; 21] = [
    "random",
    "fault",
    "data",
    "kernel",
    "graph",
    "problem",
    "privacy",
    "facts",
    "theory",
    "protocol",
    "gate",
    "account",
    "agent",
    "sharing",
    "simulate",
    "audit",
    "model",
    "record",
    "experiment",
    "study",
    "lib",
];

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads the sources")]
fn modules_form_a_dag_in_the_order_of_the_arrow() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut waiting = vec![root.clone()];
    let mut wrong = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(
                std::fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("a name").path()),
            );
            continue;
        }
        let inside = path.strip_prefix(&root).expect("inside").with_extension("");
        let first = inside.components().next().expect("a name");
        let module = first.as_os_str().to_str().expect("a word");
        if path.extension().is_none_or(|extension| extension != "rs") || inside.ends_with("tests") {
            continue;
        }
        let Some(place) = ORDER.iter().position(|m| *m == module) else {
            wrong.push(format!("{module} has no place in the order"));
            continue;
        };
        let text = std::fs::read_to_string(&path).expect("a source");
        // Tests may look anywhere, and documentation may link anywhere.
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for after in line.split("crate::").skip(1) {
                let used: String =
                    after.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
                if ORDER.iter().position(|m| *m == used).is_some_and(|used| used > place) {
                    wrong.push(format!("{}: {}", inside.display(), line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "these lead backwards:\n{}", wrong.join("\n"));
}
