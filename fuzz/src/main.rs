//! Coverage-guided fuzzing of whatever consenso reads from others or from files.
//!
//! `cargo xtask fuzz [--minutes N] [TARGET]` builds it with counters on every edge, runs all inputs
//! of `fuzz/corpus/TARGET`, and then changes them for so long; an input that reaches something new
//! is kept there. One that panics, or breaks what its target promises, is written to
//! `fuzz/failures/TARGET` and ends the run with 1.

mod coverage;
mod mutate;
mod targets;

use coverage::Seen;
use mutate::Chance;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest input.
const LONGEST: usize = 4096;

/// Most inputs that a corpus keeps.
const KEPT: usize = 400;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (mut seconds, mut names) = (60.0, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => seconds = words.next().and_then(|n| n.parse().ok()).unwrap_or(60.0),
            name => names.push(name.to_owned()),
        }
    }
    let all = targets::all();
    if let Some(name) = names.iter().find(|name| all.iter().all(|t| t.name != **name)) {
        let known: Vec<&str> = all.iter().map(|target| target.name).collect();
        eprintln!("there is no target {name}: {}", known.join(", "));
        return ExitCode::from(2);
    }
    let chosen = all.iter().filter(|t| names.is_empty() || names.iter().any(|n| n == t.name));
    let held = chosen.map(|target| run(target, Duration::from_secs_f64(seconds)));
    // All of them, also after one that failed.
    match held.fold(true, |before, now| before & now) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn place(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target)
}

/// The inputs that are kept of a target, in the order of their names.
fn corpus(target: &targets::Target) -> Vec<Vec<u8>> {
    let Ok(files) = fs::read_dir(place("corpus", target.name)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// A short name that is the same for the same bytes.
fn name_of(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn keep(kind: &str, target: &str, bytes: &[u8]) -> PathBuf {
    let folder = place(kind, target);
    let path = folder.join(name_of(bytes));
    if fs::create_dir_all(&folder).is_ok() {
        let _ = fs::write(&path, bytes);
    }
    path
}

/// Processor time of this process so far, in seconds; nothing where the system does not say. A busy
/// machine gives a run less than its minutes.
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|n| n.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Whether a target held for so long.
fn run(target: &targets::Target, long: Duration) -> bool {
    std::panic::set_hook(Box::new(|_| {}));
    let mut seen = Seen::new();
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    let mut failed = None;
    let mut chance = Chance::new(0x5eed ^ target.name.len() as u64);
    let kept_before = corpus(target);
    let (began, before) = (Instant::now(), processor());
    let mut runs = 0u64;
    let mut once = |bytes: &[u8], seen: &mut Seen| -> Result<bool, String> {
        runs += 1;
        seen.begin();
        let started = Instant::now();
        let held = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
        let new = seen.take();
        match held {
            Err(panic) => {
                let words = panic.downcast_ref::<String>().cloned();
                let words = words.or(panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                Err(words.unwrap_or_else(|| "a panic".into()))
            }
            Ok(()) if started.elapsed() > Duration::from_secs(20) => {
                Err(format!("{:.0} s for one input", started.elapsed().as_secs_f64()))
            }
            Ok(()) => Ok(new),
        }
    };
    for bytes in kept_before.into_iter().chain((target.seeds)()) {
        match once(&bytes, &mut seen) {
            Ok(new) => {
                if new {
                    keep("corpus", target.name, &bytes);
                    inputs.push(bytes);
                }
            }
            Err(words) => failed = failed.or(Some((bytes, words))),
        }
    }
    let first = inputs.len();
    while failed.is_none() && began.elapsed() < long {
        let bytes = mutate::change(&inputs, &mut chance, LONGEST, target.words);
        match once(&bytes, &mut seen) {
            Ok(true) => {
                if inputs.len() < KEPT {
                    keep("corpus", target.name, &bytes);
                }
                inputs.push(bytes);
            }
            Ok(false) => {}
            Err(words) => failed = Some((bytes, words)),
        }
    }
    let _ = std::panic::take_hook();
    println!(
        "{}: {runs} inputs in {:.0} s ({:.0} s of processor time), {} of {} edges reached, corpus {} ({first} before)",
        target.name,
        began.elapsed().as_secs_f64(),
        processor() - before,
        seen.reached(),
        seen.edges(),
        inputs.len().min(KEPT.max(first)),
    );
    if seen.edges() == 0 {
        println!("{}: no counters: build it by `cargo xtask fuzz`", target.name);
        return false;
    }
    let Some((bytes, words)) = failed else { return true };
    let path = keep("failures", target.name, &bytes);
    println!("{}: FAILED: {words}\n  {}", target.name, path.display());
    false
}
