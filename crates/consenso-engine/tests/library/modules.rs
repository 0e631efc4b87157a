//! The modules lead one way, none fails with a text, and one of them makes gates.

use std::path::{Path, PathBuf};

/// The modules of the library, in the order of the arrow of ARCHITECTURE.md: each uses only modules
/// above it.
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

/// Every source below a folder, without its tests and comments.
#[expect(clippy::disallowed_methods, reason = "a test reads the sources")]
fn sources(root: &Path) -> Vec<(PathBuf, String)> {
    let (mut waiting, mut found) = (vec![root.to_path_buf()], Vec::new());
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(
                std::fs::read_dir(&path)
                    .expect("a folder")
                    .map(|entry| entry.expect("a name").path()),
            );
            continue;
        }
        let inside = path.strip_prefix(root).expect("inside").with_extension("");
        if path.extension().is_none_or(|extension| extension != "rs") || inside.ends_with("tests") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source");
        // Tests may look anywhere, and documentation may link anywhere.
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().lines();
        let code: Vec<&str> = code.filter(|line| !line.trim_start().starts_with("//")).collect();
        found.push((inside, code.join("\n")));
    }
    found
}

/// A gate that adds noise is made by an account, which knows what the noise is worth; gates of
/// other noise are for tests.
#[test]
fn no_program_makes_a_gate_whose_noise_nobody_priced() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut makers = Vec::new();
    for name in ["", "-engine", "-study", "-ledger", "-node", "-cli", "-mpi", "-python"]
        .map(|n| format!("consenso{n}"))
    {
        for (inside, code) in sources(&crates.join(&name).join("src")) {
            if code.contains("testing::") || code.contains("Gate::new(") {
                makers.push(format!("{name}/{}", inside.display()));
            }
        }
    }
    makers.sort();
    let account = ["consenso-engine/account/mod", "consenso-engine/account/testing"];
    // The auditor attacks agents whose records it made up.
    assert_eq!(makers, [&account[..], &["consenso-engine/audit/agent"]].concat());
}

#[test]
fn modules_form_a_dag_in_the_order_of_the_arrow() {
    let mut wrong = Vec::new();
    for (inside, code) in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let first = inside.components().next().expect("a name");
        let module = first.as_os_str().to_str().expect("a word");
        let Some(place) = ORDER.iter().position(|m| *m == module) else {
            wrong.push(format!("{module} has no place in the order"));
            continue;
        };
        for line in code.lines() {
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

/// What a `Result<…` fails with, from behind its bracket on; `None` where an alias says it.
fn failure(after: &str) -> Option<&str> {
    let (mut depth, mut comma) = (1, None);
    for (at, c) in after.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if after[..at].ends_with(['-', '=']) => {}
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 1 => comma = Some(at + 1),
            _ => {}
        }
        if depth == 0 {
            return comma.map(|comma| after[comma..at].trim());
        }
    }
    None
}

/// A caller can act on a type, not on a text.
#[test]
fn nothing_fails_with_a_text() {
    assert_eq!(failure("Option<(A, B)>, String> {"), Some("String"));
    assert_eq!(failure("(), (&'static str, String)>;"), Some("(&'static str, String)"));
    assert_eq!(failure("Vec<String>> {"), None);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for name in ["engine", "study", "ledger", "node", "mpi", "cli", "python"] {
        for (inside, code) in sources(&crates.join(format!("consenso-{name}/src"))) {
            let failures = code.split("Result<").skip(1).filter_map(failure);
            let aliases =
                code.split("type Err = ").skip(1).filter_map(|rest| rest.split(';').next());
            for failure in failures.chain(aliases) {
                if failure.trim_end_matches([',', ')']).ends_with("String") {
                    wrong.push(format!("consenso-{name}/src/{}: {failure}", inside.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "these fail with a text:\n{}", wrong.join("\n"));
}
