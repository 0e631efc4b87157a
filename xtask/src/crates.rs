//! How large the crates are, which others each uses, and who names what it shows: read off the
//! sources, without compiling.

use crate::root;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

/// What is known of one crate.
#[derive(Default)]
struct Crate {
    /// Lines of `src` without tests, comments and empty ones.
    lines: usize,
    /// Other crates of this project that its sources use.
    uses: BTreeSet<String>,
    /// Types, traits, functions and constants that its modules show.
    items: BTreeSet<String>,
    /// All words of its sources, tests and examples.
    words: BTreeSet<String>,
}

/// Prints a table of all crates; with `unused`, the items that no other crate names.
pub(crate) fn print(unused: bool) -> bool {
    let Ok(folders) = std::fs::read_dir(root().join("crates")) else { return false };
    let mut crates = BTreeMap::new();
    for folder in folders.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut found = Crate::default();
        for part in ["src", "tests", "examples", "simulated", "benches"] {
            read(&folder.join(part), part == "src", &mut found);
        }
        found.uses.remove(&name);
        crates.insert(name, found);
    }
    let mut table =
        format!("{:20} {:>7} {:>6} {:>8}  uses\n", "crate", "lines", "items", "unnamed");
    for (name, found) in &crates {
        let named = |item: &&String| {
            crates.iter().any(|(other, by)| other != name && by.words.contains(*item))
        };
        let alone: Vec<&String> = found.items.iter().filter(|item| !named(item)).collect();
        let uses: Vec<&str> =
            found.uses.iter().map(|n| n.trim_start_matches("consenso-")).collect();
        let (lines, items) = (found.lines, found.items.len());
        let (count, uses) = (alone.len(), uses.join(" "));
        table += &format!(
            "{name:20} {lines:>7} {items:>6} {count:>8}  {uses}
"
        );
        if unused {
            alone.iter().for_each(|item| table += &format!("    {item}\n"));
        }
    }
    std::io::stdout().write_all(table.as_bytes()).is_ok()
}

/// Reads every source below a folder.
fn read(folder: &Path, counts: bool, found: &mut Crate) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            read(&path, counts && !path.ends_with("tests"), found);
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        found.words.extend(text.split(|c| !is_word(c)).map(str::to_owned));
        if !counts || path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for line in code.lines() {
            if line.trim().is_empty() || line.trim_start().starts_with("//") {
                continue;
            }
            found.lines += 1;
            if let Some(item) = line.strip_prefix("pub ") {
                let item = item.trim_start_matches("const fn ").trim_start_matches("async ");
                let kinds = ["struct ", "enum ", "trait ", "fn ", "type ", "const ", "static "];
                let named = kinds.iter().find_map(|kind| item.strip_prefix(kind)).unwrap_or(item);
                let name: String = named.chars().take_while(|c| is_word(*c)).collect();
                if !["use", "mod", ""].contains(&name.as_str()) {
                    found.items.insert(name);
                }
            }
            for used in line.split("consenso_").skip(1) {
                let name: String = used.chars().take_while(char::is_ascii_lowercase).collect();
                if used[name.len()..].starts_with("::") {
                    found.uses.insert(format!("consenso-{name}"));
                }
            }
        }
    }
}
