//! `cargo xtask bench`: measurements against peers, each a table of ratios.

use crate::{cargo, succeeds};

/// Name, what it measures, and the arguments of cargo that run it.
const BENCHES: &[(&str, &str, &[&str])] = &[(
    "simulate",
    "rounds of the simulator; benches/simulate.py is the numpy peer",
    &["run", "--release", "-p", "consenso", "--example", "bench_simulate"],
)];

/// Runs the named bench, or lists them.
pub(crate) fn run(names: &[String]) -> bool {
    let Some(name) = names.first() else {
        for (name, about, _) in BENCHES {
            eprintln!("  {name:12} {about}");
        }
        return true;
    };
    match BENCHES.iter().find(|bench| bench.0 == name) {
        Some((_, _, arguments)) => succeeds(cargo().args(*arguments).args(&names[1..])),
        None => {
            let known: Vec<&str> = BENCHES.iter().map(|bench| bench.0).collect();
            eprintln!("there is no bench \"{name}\"; there are {}", known.join(", "));
            false
        }
    }
}
