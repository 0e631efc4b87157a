//! `consenso doctor`: whether this machine has what the program needs.

use crate::findings::{self, Finding, Mark};
use crate::{Failure, machine};
use anyhow::anyhow;
use consenso_engine::privacy::{Event, compose};
use std::path::Path;

/// Check that this machine has what the program needs: entropy, arithmetic, disk, memory, sockets
///
/// `consenso node doctor SITE` checks one site of a network.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  consenso doctor --json")]
pub(crate) struct Args {}

pub(crate) fn command(_: &Args, json: bool) -> Result<(), Failure> {
    let found = [program(), entropy(), arithmetic(), threads(), memory(), disk(), clock()];
    let all: Vec<Finding> = found.into_iter().chain(sockets()).chain(mpi()).collect();
    match findings::print(&all, json) {
        true => Ok(()),
        false => Err(Failure::Run(anyhow!("this machine is not as it should be"))),
    }
}

/// The version and what it was built with.
fn program() -> Finding {
    let parts = [
        ("network", cfg!(feature = "network")),
        ("mpi", cfg!(feature = "mpi")),
        ("xlsx", cfg!(feature = "xlsx")),
        ("parquet", cfg!(feature = "parquet")),
        ("arrow", cfg!(feature = "arrow")),
        ("png", cfg!(feature = "png")),
    ];
    let with: Vec<&str> = parts.iter().filter(|p| p.1).map(|p| p.0).collect();
    let without: Vec<&str> = parts.iter().filter(|p| !p.1).map(|p| p.0).collect();
    let text = format!(
        "consenso {} for {}; with {}; without {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        if with.is_empty() { "nothing more".into() } else { with.join(", ") },
        if without.is_empty() { "nothing".into() } else { without.join(", ") },
    );
    ("program", Mark::Good, text)
}

/// Two draws of the operating system's entropy: without it no claim holds.
fn entropy() -> Finding {
    let mut draws = [[0u8; 32]; 2];
    for draw in &mut draws {
        if let Err(e) = getrandom::fill(draw) {
            return ("entropy", Mark::Bad, format!("the operating system gives none: {e}"));
        }
    }
    let different = draws[0] != draws[1] && draws[0] != [0; 32];
    ("entropy", Mark::of(different), "of the operating system".into())
}

/// ε of releases whose cost is known from elsewhere (docs/paper.md): a machine that adds wrongly
/// would claim wrongly.
fn arithmetic() -> Finding {
    let epsilon = compose(&[Event::laplace(0.01, 1400)], 1e-6)
        .ok()
        .and_then(|found| found.best())
        .map_or(f64::NAN, |best| best.1);
    let right = (1.636..1.637).contains(&epsilon);
    let text = format!("1,400 Laplace releases of ε = 0.01 cost {epsilon:.4} at δ = 1e-6");
    ("arithmetic", Mark::of(right), text)
}

fn threads() -> Finding {
    let count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    ("threads", Mark::Good, format!("{count}; results do not depend on it"))
}

fn memory() -> Finding {
    match machine::look().memory {
        Some(bytes) => {
            let text = format!("{:.1} GB free", bytes as f64 / 1e9);
            ("memory", if bytes < 1 << 28 { Mark::Wait } else { Mark::Good }, text)
        }
        None => ("memory", Mark::Wait, "how much is free is not known here".into()),
    }
}

/// Whether a run's folder can be made here.
fn disk() -> Finding {
    let here = Path::new(".");
    let name = format!(".consenso-doctor-{}", std::process::id());
    let room = machine::free_disk(here)
        .map_or(String::new(), |bytes| format!(", {:.1} GB free", bytes as f64 / 1e9));
    // A full disk still makes empty files.
    let written = std::fs::write(&name, [0; 1 << 16]);
    let removed = std::fs::remove_file(&name);
    match written.and(removed) {
        Ok(()) => ("disk", Mark::Good, format!("this folder can be written{room}")),
        Err(e) => ("disk", Mark::Bad, format!("this folder: {e}; go to one you may write to")),
    }
}

fn clock() -> Finding {
    let now = consenso_ledger::clock::text(consenso_ledger::clock::now());
    let text = match now.as_str() < "2026" {
        true => format!("{now}, before this program was made: certificates would not hold"),
        false => now.clone(),
    };
    ("clock", Mark::of(now.as_str() >= "2026"), text)
}

/// Whether sites on this machine could talk to each other.
fn sockets() -> Option<Finding> {
    cfg!(feature = "network").then(|| match std::net::TcpListener::bind("127.0.0.1:0") {
        Ok(_) => ("sockets", Mark::Good, "127.0.0.1 can be listened at".to_owned()),
        Err(e) => ("sockets", Mark::Bad, format!("127.0.0.1: {e}")),
    })
}

/// Whether this process was started by an MPI, for which the library must be found.
fn mpi() -> Option<Finding> {
    #[cfg(feature = "mpi")]
    if let Some(processes) = consenso_mpi::launched() {
        return Some(("mpi", Mark::Good, format!("started as one of {processes} processes")));
    }
    None
}
