//! `cargo xtask mpi`: one simulation on 1 to 4 processes, with the MPI of an environment of its own.

use crate::{cargo, root, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Agents of every kind of place: a ring that is divided well, and a random graph that is not.
const EXPERIMENT: &str = r#"name = "mpi"
seed = 5
runs = 1
trace_every = 10
[data]
source = "logistic"
agents = 600
records_per_agent = 50
dim = 14
[graph]
kind = "GRAPH"
REST
[privacy]
epsilon = 2.0
delta = 1e-6
[[algorithm]]
kind = "admm"
rounds = 60
[[algorithm]]
kind = "dgd"
rounds = 60
"#;

/// Makes the environment once, builds the command, and compares transcripts.
pub(crate) fn run() -> bool {
    prepared().is_some_and(|(target, environment)| compare(&target, &environment))
}

/// The same for the job files of Slurm, with a Slurm on this machine alone.
pub(crate) fn slurm() -> bool {
    prepared().is_some_and(|(target, environment)| {
        let mut check = Command::new("sh");
        check.arg(root().join("deploy/slurm/check.sh")).arg(target.join("debug/consenso"));
        succeeds(check.arg(environment.join("lib/libmpi_abi.so.1")))
    })
}

/// Where things are built, with the command in it, and an environment with MPICH.
fn prepared() -> Option<(PathBuf, PathBuf)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let environment = target.join("mpi");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "mpich>=5,<6"];
    let made = environment.join("bin/mpirun").exists()
        || (succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            && succeeds(Command::new(environment.join("bin/python")).args(install)));
    if !made {
        eprintln!("── no environment with MPICH could be made: runs over several processes are not checked");
        return None;
    }
    succeeds(cargo().args(["build", "--quiet", "-p", "consenso-cli"])).then_some((target, environment))
}

fn compare(target: &Path, environment: &Path) -> bool {
    let place = target.join("mpi-runs");
    let _ = std::fs::remove_dir_all(&place);
    if std::fs::create_dir_all(&place).is_err() {
        return false;
    }
    for (graph, rest) in [("ring", ""), ("random", "edges = 1500")] {
        let file = place.join(format!("{graph}.toml"));
        let text = EXPERIMENT.replace("GRAPH", graph).replace("REST", rest);
        if std::fs::write(&file, text).is_err() {
            return false;
        }
        let mut transcripts: Vec<(usize, String)> = Vec::new();
        for ranks in 1..=4 {
            let Some(answer) = started(target, environment, &place, graph, ranks) else { return false };
            // The hashes of the transcripts, wherever they stand: no JSON parser for one key.
            let hashes: Vec<&str> =
                answer.lines().filter(|line| line.contains("\"transcript\"")).map(str::trim).collect();
            let figure = |key: &str| {
                answer
                    .lines()
                    .find(|l| l.contains(key))
                    .unwrap_or_default()
                    .trim()
                    .trim_end_matches(',')
                    .to_owned()
            };
            eprintln!("{graph}, {ranks} processes: {}, {}", figure("\"halo_bytes\""), figure("\"seconds\""));
            transcripts.push((ranks, hashes.concat()));
        }
        if transcripts[0].1.is_empty() || transcripts.iter().any(|t| t.1 != transcripts[0].1) {
            eprintln!("── the transcripts of {graph} differ: {transcripts:?}");
            return false;
        }
        eprintln!("{graph}: the transcripts of 1, 2, 3 and 4 processes are the same\n");
    }
    died(target, environment, &place)
}

fn command(target: &Path, environment: &Path, place: &Path, ranks: usize) -> Command {
    let mut command = Command::new(environment.join("bin/mpirun"));
    let library = environment.join("lib/libmpi_abi.so.1");
    command.args(["-n", &ranks.to_string()]).arg(target.join("debug/consenso")).arg("run").current_dir(place);
    command.env("CONSENSO_MPI", library);
    command
}

fn started(target: &Path, environment: &Path, place: &Path, graph: &str, ranks: usize) -> Option<String> {
    let mut run = command(target, environment, place, ranks);
    run.args([&format!("{graph}.toml"), "--json", "--threads", "1", "--out", &format!("{graph}-{ranks}")]);
    let output = run.output().ok()?;
    if !output.status.success() {
        eprintln!("── {ranks} processes failed:\n{}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    String::from_utf8(output.stdout).ok()
}

/// A rank that fails ends the job, with a message and a code, instead of leaving the others waiting.
fn died(target: &Path, environment: &Path, place: &Path) -> bool {
    let mut run = command(target, environment, place, 3);
    // A start of one's own is something such a run refuses, and it finds out when all have joined.
    run.args(["ring.toml", "--set", "start=0.5", "--threads", "1"]);
    let Ok(output) = run.output() else { return false };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = !output.status.success() && text.contains("of 3: error:");
    eprintln!("a rank that fails ends the job: {}", if told { "yes" } else { "NO" });
    if !told {
        eprintln!("{text}");
    }
    told
}
