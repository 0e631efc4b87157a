//! The modules lead one way, none fails with a text, and one of them makes gates.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The crates below the one that users add, in the order of the arrow of ARCHITECTURE.md, with
/// their modules where these have an order: each uses only what stands before it.
const ORDER: [(&str, &[&str]); 6] = [
    ("dp", &[]),
    ("tables", &[]),
    ("queries", &[]),
    ("problem", &["config_error", "data", "kernel", "graph", "problem", "lib"]),
    (
        "agents",
        &[
            "privacy", "facts", "theory", "protocol", "gate", "account", "agent", "sharing",
            "simulate", "lib",
        ],
    ),
    ("engine", &["views", "audit", "model", "record", "experiment", "study", "lib"]),
];

/// Lines at most of one crate, without tests and comments.
const LARGEST: usize = 20_000;

/// Lines at most of one function, without comments and empty ones.
const LONGEST: usize = 100;

/// The paths that a source names after `crate::`, those in braces one by one.
fn uses(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for after in code.split("crate::").skip(1) {
        let name = |text: &str| -> String {
            text.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect()
        };
        let Some(list) = after.strip_prefix('{') else {
            found.push(name(after));
            continue;
        };
        let mut depth = 0;
        let mut begin = true;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begin = true,
                c if begin && depth == 0 && !c.is_whitespace() => {
                    found.push(name(&list[at..]));
                    begin = false;
                }
                _ => {}
            }
        }
    }
    found
}

/// Every source below a folder, as it is, with its path inside without the ending.
fn files(root: &Path) -> Vec<(PathBuf, String)> {
    let (mut waiting, mut found) = (vec![root.to_path_buf()], Vec::new());
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(
                std::fs::read_dir(&path)
                    .expect("a folder")
                    .map(|entry| entry.expect("a name").path()),
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let inside = path.strip_prefix(root).expect("inside").with_extension("");
            #[expect(clippy::disallowed_methods, reason = "a test reads the sources")]
            let text = std::fs::read_to_string(&path).expect("a source");
            found.push((inside, text));
        }
    }
    found
}

/// Every source below a folder, without its tests and comments.
fn sources(root: &Path) -> Vec<(PathBuf, String)> {
    let code = |(inside, text): (PathBuf, String)| {
        // Tests may look anywhere, and documentation may link anywhere.
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().lines();
        let code: Vec<&str> = code.filter(|line| !line.trim_start().starts_with("//")).collect();
        (!inside.ends_with("tests")).then(|| (inside, code.join("\n")))
    };
    files(root).into_iter().filter_map(code).collect()
}

/// A gate that adds noise is made by an account, which knows what the noise is worth; gates of
/// other noise are for tests.
#[test]
fn no_program_makes_a_gate_whose_noise_nobody_priced() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut makers = Vec::new();
    for name in [
        "", "-agents", "-engine", "-study", "-board", "-paper", "-ledger", "-node", "-cli", "-mpi",
        "-python", "-r",
    ]
    .map(|n| format!("consenso{n}"))
    {
        for (inside, code) in sources(&crates.join(&name).join("src")) {
            if code.contains("testing::") || code.contains("Gate::new(") {
                makers.push(format!("{name}/{}", inside.display()));
            }
        }
    }
    makers.sort();
    let account = ["consenso-agents/account/mod", "consenso-agents/account/testing"];
    // The auditor attacks agents whose records it made up.
    assert_eq!(makers, [&account[..], &["consenso-engine/audit/agent"]].concat());
}

/// A link of the project's root that leads nowhere helps nobody.
#[test]
fn links_of_the_root_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for entry in std::fs::read_dir(&root).expect("the root") {
        let path = entry.expect("a name").path();
        assert!(std::fs::metadata(&path).is_ok(), "{} leads nowhere", path.display());
    }
}

/// The names of all tests there are.
fn tests(crates: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for folder in std::fs::read_dir(crates).expect("the crates") {
        for (_, code) in files(&folder.expect("a name").path()) {
            let mut lines = code.lines();
            while let Some(line) = lines.next() {
                if line.trim_start().starts_with("#[test]") || line.contains("#[tokio::test") {
                    let name =
                        |line: &str| Some(line.split_once("fn ")?.1.split('(').next()?.to_owned());
                    found.extend(lines.find_map(name));
                }
            }
        }
    }
    found
}

/// What is said of liars is shown by tests, and a page that names one that is gone says nothing.
#[test]
fn what_pages_say_of_liars_is_shown_by_tests_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tests = tests(&root.join("crates"));
    let mut shown = 0;
    for page in ["threats", "what-a-neighbour-can-do"] {
        #[expect(clippy::disallowed_methods, reason = "a test reads a page")]
        let text = std::fs::read_to_string(root.join("docs").join(page).with_extension("md"))
            .expect("the page");
        let words = |text: &str| -> Vec<String> {
            text.split(|c: char| c != '_' && !c.is_alphanumeric()).map(str::to_owned).collect()
        };
        // Keys of files are shorter.
        for name in words(&text).iter().filter(|word| word.matches('_').count() > 2) {
            assert!(tests.contains(name), "docs/{page}.md names {name}, which is no test");
        }
        let mut proves = false;
        for row in text.lines() {
            let last = row.trim_matches('|').rsplit('|').next().unwrap_or_default().trim();
            let is_row = row.starts_with('|') && !last.starts_with('-');
            if is_row && proves {
                let named = words(last).iter().any(|word| tests.contains(word));
                assert!(named, "docs/{page}.md: no test is named by {row}");
                shown += 1;
            }
            proves = row.starts_with('|') && (proves || ["shown by", "test"].contains(&last));
        }
    }
    assert!(shown > 50, "{shown} rows");
}

#[test]
fn modules_form_a_dag_in_the_order_of_the_arrow() {
    assert_eq!(uses("use crate::{a::{b, c}, d};\ncrate::e::F"), ["a", "d", "e"]);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for (index, (name, order)) in ORDER.iter().enumerate() {
        for (inside, code) in sources(&crates.join(format!("consenso-{name}/src"))) {
            let shown = format!("consenso-{name}/src/{}", inside.display());
            for (later, _) in &ORDER[index + 1..] {
                if code.contains(&format!("consenso_{later}::")) {
                    wrong.push(format!("{shown} uses consenso_{later}"));
                }
            }
            if order.is_empty() {
                continue;
            }
            let first = inside.components().next().expect("a name");
            let module = first.as_os_str().to_str().expect("a word");
            let Some(place) = order.iter().position(|m| *m == module) else {
                wrong.push(format!("{shown}: {module} has no place in the order"));
                continue;
            };
            for used in uses(&code) {
                if order.iter().position(|m| *m == used).is_some_and(|used| used > place) {
                    wrong.push(format!("{shown} uses {used}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "these lead backwards:\n{}", wrong.join("\n"));
}

/// The functions of formatted code, each with how many lines its body has.
fn functions(code: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let Some((before, rest)) = line.split_once("fn ") else { continue };
        let is_keyword = |w: &str| ["pub", "const", "async", "unsafe"].contains(&w);
        // `pub(crate)`, `pub(in …)`: what stands before the bracket counts.
        let words = before.split_whitespace().map(|w| w.split('(').next().unwrap_or(w));
        if !words.into_iter().all(is_keyword) {
            continue;
        }
        let Some(head) = lines[at..].iter().position(|l| l.ends_with(['{', ';', '}'])) else {
            continue;
        };
        if !lines[at + head].ends_with('{') {
            continue;
        }
        let body = lines[at + head + 1..].iter();
        let body = body.take_while(|l| l.trim_end() != format!("{indent}}}"));
        let name = rest.split(['(', '<']).next().unwrap_or(rest);
        found.push((name, body.filter(|l| !l.trim().is_empty()).count()));
    }
    found
}

/// Whoever reads a function has its beginning in view at its end; longer ones are divided along
/// their steps.
#[test]
fn no_function_is_too_long_to_read() {
    let code = "impl A {\n    pub(crate) fn b(\n    ) {\n        c();\n\n        d();\n    }\n}\n";
    assert_eq!(functions(code), [("b", 2)]);
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut long, mut all) = (Vec::new(), 0);
    for entry in std::fs::read_dir(&crates).expect("the crates") {
        let path = entry.expect("a name").path();
        for (inside, code) in sources(&path.join("src")) {
            let found = functions(&code);
            all += found.len();
            let long_ones = found.into_iter().filter(|(_, lines)| *lines > LONGEST);
            long.extend(long_ones.map(|(name, lines)| {
                let source = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                format!("{source}/src/{}: {name} has {lines} lines", inside.display())
            }));
        }
    }
    assert!(all > 3000, "only {all} functions were found");
    // One report, written as JSON and as text.
    long.retain(|found| !found.starts_with("consenso-cli/src/node: audit "));
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// A crate that nobody can hold in mind is divided along a seam of the graph above.
#[test]
fn no_crate_is_too_large_to_read() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut large = Vec::new();
    for entry in std::fs::read_dir(&crates).expect("the crates") {
        let path = entry.expect("a name").path();
        let lines =
            sources(&path.join("src")).iter().map(|(_, s)| s.lines().count()).sum::<usize>();
        if lines > LARGEST {
            large.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert!(large.is_empty(), "more than {LARGEST} lines: {}", large.join(", "));
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
    for name in [
        "dp", "tables", "queries", "problem", "agents", "engine", "study", "board", "paper",
        "ledger", "node", "mpi", "cli", "python",
    ] {
        for (inside, code) in sources(&crates.join(format!("consenso-{name}/src"))) {
            if inside.ends_with("simulated") {
                continue; // a test that has a folder for itself
            }
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
