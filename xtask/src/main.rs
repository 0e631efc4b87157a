//! The project's chores, with nothing to install but Rust: `cargo xtask ci`.

mod bench;
mod binaries;
mod browser;
mod crates;
mod dictionary;
mod docs;
mod empty;
mod fuzz;
mod mpi;
mod python;
mod r;
mod reference;
mod release;
mod surface;
mod utility;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread::JoinHandle;
use std::time::Instant;

const HELP: &str = "\
The project's chores. Nothing to install but Rust.

Usage: cargo xtask <command>

  ci      what a change must pass: formatting, lints, tests, doctests, documentation, the Python package where Python 3.10 is; stops at the first failure
  crates  lines of every crate without tests and comments, which others it uses, what it shows, and (--unnamed) what of that no other crate names
  surface whether every type of a public signature can be named from `consenso` (of the pages that ci made)
  soak    everything that is too slow for ci, optimised: ignored tests, and comparisons with other libraries;
          `soak --minutes N [--from SEED]`: hostile networks of the simulation alone, seed after seed, for so long; one that fails says how to repeat it
  fuzz    coverage-guided fuzzing, N minutes a target: `cargo xtask fuzz [--minutes N] [frames|agreements|ledgers|records-ledger|models|schemas|experiments]`;
          corpora are kept in fuzz/corpus, what fails in fuzz/failures
  bench   ratios against floors and peers, all in one run: `cargo xtask bench [commands|agents|simulate|noise|accounting|utility|network|inference] [--million]`;
          `bench utility [--quick] [--development] [--program=FILE]` goes on where it was stopped
  deploy  deploy/ and the guide across hosts, with the tools at hand, and what was skipped: `cargo xtask deploy [--image]`
  docs    the guide as a book in target/book: writes the reference of all keys from the types, checks every link
  python  the Python package in an environment of its own (target/python): build, tests, types, notebooks; with --release also the wheel in a clean one, with --federated the examples for Flower and NVFlare
          (its size, import time, a fit beside the command line; --wheel: only that), --compare: accuracy beside diffprivlib, --docs: writes the API page
  r       the R package from this tree, offline (target/r): build, R CMD check with its tests and vignette, and the same bits from the command line, Python
          (where target/python is) and R; needs r-base-dev, r-cran-jsonlite, r-cran-knitr and r-cran-markdown of Debian
  release everything a release hands out, made and checked, in target/release-files: packages, static programs, wheels, image, completions, manual, bill of
          materials, checksums; `cargo xtask release [--quick] [--sign SSH-KEY]`; what this machine cannot make is said, and made by release.yml
  mpi     one simulation on 1 to 4 processes, whose transcripts must be the same; MPICH in an environment of its own (target/mpi); needs Python 3
  slurm   both job files of deploy/slurm with a Slurm on this machine alone; needs root, Python 3, and slurm-wlm and munge of Debian
  figures the pictures of the README, made again (minutes); needs chromium and npm
  empty   a crate with the library as its one dependency runs the first lines of its documentation (soak does it too)
  browser the pages in headless Chromium, every chart used as a reader would, and a live network's page; needs chromium and npm
";

/// All but the comparisons with other people's libraries: their dependencies are heavy, so they are
/// not part of `ci`.
const NOT_ORACLES: [&str; 3] = ["--workspace", "--exclude", "consenso-oracles"];

/// One command of cargo.
struct Step {
    name: &'static str,
    arguments: Vec<&'static str>,
    /// Arguments after `--`.
    inner: Vec<&'static str>,
    environment: Option<(&'static str, &'static str)>,
    /// Compiles this project's crates with Clippy, so that lints cost no pass of their own.
    linted: bool,
    /// Tests of which two binaries run at a time.
    beside: bool,
}

fn step(name: &'static str, arguments: &[&[&'static str]], inner: &[&'static str]) -> Step {
    let (arguments, inner) = (arguments.concat(), inner.to_vec());
    Step { name, arguments, inner, environment: None, linted: false, beside: false }
}

fn ci() -> Vec<Step> {
    let mut docs = step("documentation", &[&["doc", "--no-deps"], &NOT_ORACLES], &[]);
    docs.environment = Some(("RUSTDOCFLAGS", "-D warnings"));
    vec![
        step("formatting", &[&["fmt", "--all", "--check"]], &[]),
        Step {
            linted: true,
            beside: true,
            ..step("lints and tests", &[&["test"], &NOT_ORACLES], &[])
        },
        Step { linted: true, ..step("doctests", &[&["test", "--doc"], &NOT_ORACLES], &[]) },
        docs,
    ]
}

fn soak() -> Vec<Step> {
    let optimised = ["test", "--release", "--workspace", "--lib", "--bins", "--tests"];
    vec![
        step(
            "lints of the comparisons",
            &[&["clippy", "--all-targets", "-p", "consenso-oracles"]],
            &["-D", "warnings"],
        ),
        step("all tests, ignored ones too", &[&optimised], &["--include-ignored"]),
    ]
}

/// The numbers of `--minutes N` and `--from SEED`.
fn minutes(words: &[String]) -> Option<(String, String)> {
    let number = |word: &String| word.parse::<u64>().ok().map(|_| word.clone());
    match words {
        [minutes, n] if minutes == "--minutes" => Some((number(n)?, "1000000".into())),
        [minutes, n, from, seed] if minutes == "--minutes" && from == "--from" => {
            Some((number(n)?, number(seed)?))
        }
        _ => None,
    }
}

/// Simulated networks with liars, failing disks and failing signers, seed after seed.
fn hostile(minutes: &str, from: &str) -> bool {
    let mut command = cargo();
    command
        .args(["test", "--release", "-p", "consenso-node", "--lib", "--"])
        .args(["--include-ignored", "--nocapture", "two_thousand_hostile_consortia_hold"])
        .envs([("CONSENSO_MINUTES", minutes), ("CONSENSO_SEEDS_FROM", from)]);
    succeeds(&mut command)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    let known = match arguments.first().map(String::as_str) {
        Some("ci") if rest.is_empty() => {
            let room = python::prepare();
            losses_are_formatted() && run(&ci()) && surface::check() && python_of_ci(room)
        }
        Some("surface") if rest.is_empty() => surface::check(),
        Some("crates") => match rest {
            [] => crates::print(false),
            [word] if word == "--unnamed" => crates::print(true),
            _ => {
                eprint!("{HELP}");
                return ExitCode::from(2);
            }
        },
        Some("soak") if rest.is_empty() => run(&soak()) && empty::run(),
        Some("soak") => match minutes(rest) {
            Some((minutes, from)) => hostile(&minutes, &from),
            None => {
                eprint!("{HELP}");
                return ExitCode::from(2);
            }
        },
        Some("empty") if rest.is_empty() => empty::run(),
        Some("fuzz") => fuzz::run(rest),
        Some("browser") if rest.is_empty() => browser::run(),
        Some("figures") if rest.is_empty() => browser::figures(),
        Some("docs") if rest.is_empty() => docs::run(),
        Some("deploy") => deploy(rest),
        Some("bench") => bench::run(rest),
        Some("python") => python::run(rest),
        Some("r") if rest.is_empty() => r::run(),
        Some("release") => release::run(rest),
        Some("mpi") if rest.is_empty() => mpi::run(),
        Some("slurm") if rest.is_empty() => mpi::slurm(),
        Some("help" | "--help" | "-h") => {
            let _ = std::io::stdout().write_all(HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    if known { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Checks the files that the table of losses declares: `cargo fmt` does not look into macros.
fn losses_are_formatted() -> bool {
    let folder = root().join("crates/consenso-problem/src/problem/losses");
    let Ok(files) = std::fs::read_dir(folder) else { return false };
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    succeeds(Command::new("rustfmt").args(["--check", "--edition", "2024"]).args(files))
}

/// The Python package, after all else passed.
fn python_of_ci(room: JoinHandle<Result<python::Room, &'static str>>) -> bool {
    let began = Instant::now();
    eprintln!("── the Python package: cargo xtask python");
    let passed = python::ci(room);
    let word = if passed { "ended" } else { "FAILED" };
    eprintln!("── the Python package {word} after {:.1} s", began.elapsed().as_secs_f64());
    passed
}

/// Builds the program and checks what `deploy/` makes of it.
fn deploy(arguments: &[String]) -> bool {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut check = Command::new("sh");
    check.arg(root().join("deploy/check.sh")).arg(target.join("debug/consenso")).args(arguments);
    succeeds(cargo().args(["build", "--quiet", "-p", "consenso-cli"])) && succeeds(&mut check)
}

/// Runs steps until one fails.
fn run(steps: &[Step]) -> bool {
    let began = Instant::now();
    for (index, step) in steps.iter().enumerate() {
        eprintln!("── {}/{} {}: cargo {}", index + 1, steps.len(), step.name, line(step));
        let stepped = Instant::now();
        let mut command = cargo();
        command.args(&step.arguments);
        if !step.inner.is_empty() {
            command.arg("--").args(&step.inner);
        }
        command.envs(step.environment);
        if step.linted {
            lint(&mut command);
        }
        let passed =
            if step.beside { binaries::run(&step.arguments) } else { succeeds(&mut command) };
        if !passed {
            eprintln!("── {} FAILED after {:.1} s", step.name, stepped.elapsed().as_secs_f64());
            return false;
        }
        eprintln!("── {} passed in {:.1} s", step.name, stepped.elapsed().as_secs_f64());
    }
    eprintln!("── all passed in {:.1} s", began.elapsed().as_secs_f64());
    true
}

fn line(step: &Step) -> String {
    let inner =
        if step.inner.is_empty() { String::new() } else { format!(" -- {}", step.inner.join(" ")) };
    step.arguments.join(" ") + &inner
}

/// Has Clippy compile the crates of this project, with every warning an error.
///
/// `cargo clippy` is `cargo check` with this wrapper and these arguments. A build with them lints
/// what it compiles, where `cargo clippy` before it would read every crate, and the dependencies,
/// once more.
fn lint(command: &mut Command) {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    let driver = Path::new(&sysroot.unwrap_or_default())
        .join("bin")
        .join(format!("clippy-driver{}", std::env::consts::EXE_SUFFIX));
    let mark = "__CLIPPY_HACKERY__"; // what `cargo clippy` puts between arguments
    command
        .env("RUSTC_WORKSPACE_WRAPPER", driver)
        .env("CLIPPY_ARGS", format!("-D{mark}warnings{mark}"));
}

/// The cargo that runs us, at the root of the workspace.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(e) => {
            eprintln!("── {} cannot be started: {e}", command.get_program().display());
            false
        }
    }
}
