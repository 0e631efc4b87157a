//! The modules lead one way, and one of them makes gates.

use std::path::{Path, PathBuf};

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

/// Every source under a folder, with its text.
#[expect(clippy::disallowed_methods, reason = "a test reads the sources")]
fn sources(root: &Path) -> Vec<(PathBuf, String)> {
    let mut waiting = vec![root.to_path_buf()];
    let mut found = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let all = std::fs::read_dir(&path).expect("a folder");
            waiting.extend(all.map(|entry| entry.expect("a name").path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            found.push((path, text));
        }
    }
    found
}

/// A gate that adds noise is made by an account, which knows what the noise is worth; gates of other noise are for tests.
#[test]
fn no_program_makes_a_gate_whose_noise_nobody_priced() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["consenso", "consenso-engine", "consenso-study", "consenso-ledger", "consenso-node"];
    let more = ["consenso-cli", "consenso-mpi", "consenso-python"];
    let all: Vec<_> = folders.iter().chain(&more).map(|name| crates.join(name).join("src")).collect();
    let mut makers = Vec::new();
    for (path, text) in all.iter().flat_map(|root| sources(root)) {
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        if code.contains("testing::") || code.contains("Gate::new(") {
            makers.push(path.strip_prefix(&crates).expect("inside").display().to_string());
        }
    }
    makers.sort();
    let account = ["consenso-engine/src/account/mod.rs", "consenso-engine/src/account/testing.rs"];
    // The auditor attacks agents whose records it made up.
    let auditor = ["consenso-engine/src/audit/agent.rs"];
    assert_eq!(makers, [&account[..], &auditor].concat());
}

#[test]
fn modules_form_a_dag_in_the_order_of_the_arrow() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for (path, text) in sources(&root) {
        let inside = path.strip_prefix(&root).expect("inside").with_extension("");
        let first = inside.components().next().expect("a name");
        let module = first.as_os_str().to_str().expect("a word");
        if inside.ends_with("tests") {
            continue;
        }
        let Some(place) = ORDER.iter().position(|m| *m == module) else {
            wrong.push(format!("{module} has no place in the order"));
            continue;
        };
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
