//! The tests of `cargo xtask ci`: built and linted by cargo, then run two binaries at a time. Half of
//! them wait for processes, clocks and disks, and `cargo test` runs one binary after the other.

use crate::{cargo, lint, root};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// A test binary and the folder of its package, in which cargo would run it.
#[derive(Debug, PartialEq, Eq)]
struct Binary {
    executable: PathBuf,
    package: PathBuf,
}

/// Builds the targets that `arguments` of `cargo test` select and runs their tests; all of them,
/// whatever fails. Prints the output of each binary when it has ended.
pub(crate) fn run(arguments: &[&str]) -> bool {
    let mut build = cargo();
    build.args(arguments).args(["--no-run", "--message-format", "json-render-diagnostics"]);
    lint(&mut build);
    let built = match build.stdout(Stdio::piped()).stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => output.stdout,
        Ok(_) => return false,
        Err(e) => {
            eprintln!("── cargo cannot be started: {e}");
            return false;
        }
    };
    let mut binaries = binaries(&String::from_utf8_lossy(&built));
    // The one that waits most goes first, and the rest beside it.
    binaries.sort_by_key(|binary| !name(&binary.executable).starts_with("network"));
    let queue = Mutex::new(VecDeque::from(binaries));
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(binary) = next(&queue) {
                    if !passes(&binary)
                        && let Ok(mut failed) = failed.lock()
                    {
                        failed.push(name(&binary.executable).to_owned());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    if !failed.is_empty() {
        eprintln!("── failed: {}", failed.join(", "));
    }
    failed.is_empty()
}

fn next(queue: &Mutex<VecDeque<Binary>>) -> Option<Binary> {
    queue.lock().ok()?.pop_front()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Runs one binary in its package's folder, as cargo does.
fn passes(binary: &Binary) -> bool {
    let began = Instant::now();
    let mut command = Command::new(&binary.executable);
    command.current_dir(&binary.package).env("CARGO_MANIFEST_DIR", &binary.package);
    let output = match command.stderr(Stdio::piped()).output() {
        Ok(output) => output,
        Err(e) => {
            eprintln!("── {} cannot be started: {e}", binary.executable.display());
            return false;
        }
    };
    let passed = output.status.success();
    let place = binary.package.strip_prefix(root()).unwrap_or(&binary.package).display();
    let word = if passed { "passed" } else { "FAILED" };
    let seconds = began.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = if passed { "".into() } else { String::from_utf8_lossy(&output.stderr) };
    eprintln!("{text}{errors}── {place}: {} {word} in {seconds:.1} s", name(&binary.executable));
    passed
}

/// The test binaries among cargo's messages, one message per line.
fn binaries(messages: &str) -> Vec<Binary> {
    let binary = |line: &str| {
        let manifest = text(line, "manifest_path")?;
        let package = Path::new(manifest).parent()?.to_path_buf();
        let test = line.contains("\"test\":true}");
        test.then_some(Binary { executable: text(line, "executable")?.into(), package })
    };
    messages.lines().filter_map(binary).collect()
}

/// The text under a key of a message; paths have no quotes.
fn text<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{key}\":\""))?;
    Some(rest.split_once('"')?.0)
}

#[cfg(test)]
mod tests {
    use super::{Binary, binaries};

    #[test]
    fn only_what_was_built_to_be_tested_is_run() {
        let messages = r#"{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"kind":["lib"]},"profile":{"opt_level":"1","test":true},"executable":"/w/target/debug/deps/a-1","fresh":true}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","profile":{"opt_level":"1","test":false},"executable":"/w/target/debug/a","fresh":true}
{"reason":"compiler-artifact","manifest_path":"/w/crates/b/Cargo.toml","profile":{"opt_level":"1","test":false},"executable":null,"fresh":true}
{"reason":"build-finished","success":true}"#;
        let expected =
            Binary { executable: "/w/target/debug/deps/a-1".into(), package: "/w/crates/a".into() };
        assert_eq!(binaries(messages), [expected]);
    }
}
