//! Coverage-guided fuzzing of whatever is read from others or from files, with the stable compiler:
//! LLVM's counters come by flags of the code generator, the rest is in `fuzz/`.

use crate::{cargo, root, succeeds};
use std::process::Command;

/// Counters on every edge of all crates.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters";

/// The machine's own target: with it named, build scripts are compiled without the flags.
fn host() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| line.strip_prefix("host: ")).map(str::to_owned)
}

/// `[--minutes N] [TARGET]…`: N minutes a target, 1 unless said.
pub(crate) fn run(words: &[String]) -> bool {
    let (mut minutes, mut targets) = (1.0, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word != "--minutes" {
            targets.push(word);
            continue;
        }
        let Some(n) = words.next().and_then(|n| n.parse::<f64>().ok()) else {
            eprintln!("cargo xtask fuzz [--minutes N] [TARGET]…");
            return false;
        };
        minutes = n;
    }
    let (Some(host), folder) = (host(), root().join("fuzz")) else {
        eprintln!("rustc -vV does not say which machine this is");
        return false;
    };
    // The versions that everything else is built with.
    if let Err(error) = std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")) {
        eprintln!("{}: {error}", folder.display());
        return false;
    }
    let mut command = cargo();
    command
        .args(["run", "--target", &host, "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(root().join("target/fuzz"))
        .args(["--", "--seconds", &(60.0 * minutes).to_string()])
        .args(targets)
        .env("RUSTFLAGS", FLAGS);
    succeeds(&mut command)
}
