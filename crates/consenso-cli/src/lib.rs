//! The `consenso` command.
//!
//! A command reads its input completely before it does anything: what is wrong with it exits with 2
//! and has written nothing. Results go to stdout, everything else (progress, warnings, errors) to
//! stderr.

mod audit;
mod changes;
#[cfg(feature = "network")]
mod dashboard;
mod data;
mod files;
mod folder;
mod large;
mod machine;
mod merge;
mod model_file;
#[cfg(feature = "network")]
mod network;
#[cfg(feature = "network")]
mod node;
mod output;
mod overrides;
#[cfg(feature = "network")]
mod pdf;
mod pieces;
mod plan;
mod png;
mod predict;
mod privacy;
mod progress;
mod reproduce;
mod run;
mod spending;
#[cfg(feature = "network")]
mod studies;
mod table;
mod trust;

use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::sync::OnceLock;

/// Private decentralized optimisation: agents on a graph train one model together, without a
/// server, under local differential privacy.
#[derive(Parser)]
#[command(
    name = "consenso",
    version,
    after_help = "\
Start with:
  consenso run                               the built-in experiment `adult`, into runs/adult-7
  consenso run --print adult > mine.toml     a copy to change; then: consenso run mine.toml
  consenso predict runs/adult-7 new.csv      apply the model to new records
  consenso reproduce                         the paper's figures, with verdicts
  consenso data schema patients.csv          draft the public schema of your own records
  consenso help network                      the same as real processes, on one machine or on many

Every command takes --json: one JSON object on stdout.
Exit code 0 is success, 1 a failed run, 2 bad input."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Print one JSON object on stdout instead of text
    // Last in every list, wherever a command's own options end.
    #[arg(long, global = true, display_order = 900)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Merge(merge::Args),
    Predict(predict::Args),
    Model(model_file::Args),
    Plan(plan::Args),
    Reproduce(reproduce::Args),
    Data(data::Args),
    Privacy(privacy::Args),
    #[cfg(feature = "network")]
    Network(network::Args),
    #[cfg(feature = "network")]
    Node(node::Args),
}

/// Why a command did not succeed; each has its exit code.
enum Failure {
    /// The input is wrong: the user can mend it.
    Input(anyhow::Error),
    /// The input was right and the run failed all the same.
    Run(anyhow::Error),
    /// The user stopped the run; what was done is kept.
    Interrupted,
}

#[cfg(feature = "network")]
impl Failure {
    /// What a user would read.
    fn text(&self) -> String {
        match self {
            Self::Input(error) | Self::Run(error) => format!("{error:#}"),
            Self::Interrupted => "interrupted".into(),
        }
    }
}

/// Errors without more ado are about input: that is where nearly all of them come from.
impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Input(error.into())
    }
}

/// How to start this program again, if not by its own file.
static ITSELF: OnceLock<Vec<OsString>> = OnceLock::new();

/// A command that starts this program again.
#[cfg(feature = "network")]
fn itself() -> anyhow::Result<std::process::Command> {
    use anyhow::Context as _;
    let words = match ITSELF.get() {
        Some(words) => words.clone(),
        None => {
            vec![std::env::current_exe().context("where this program lies is not known")?.into()]
        }
    };
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]);
    Ok(command)
}

/// Runs the command that these words ask for, the program's name first, and returns its exit code.
/// `again` starts this program anew where its own file does not: a language's interpreter and what
/// it needs to come here.
pub fn command(words: impl IntoIterator<Item = OsString>, again: Option<Vec<OsString>>) -> u8 {
    if let Some(again) = again.filter(|again| !again.is_empty()) {
        let _ = ITSELF.set(again);
    }
    let cli = Cli::parse_from(words);
    let outcome = match cli.command {
        Command::Run(args) => run::command(&args, cli.json),
        Command::Merge(args) => merge::command(&args, cli.json),
        Command::Predict(args) => predict::command(&args, cli.json),
        Command::Model(args) => model_file::command(&args, cli.json),
        Command::Plan(args) => plan::command(&args, cli.json),
        Command::Reproduce(args) => reproduce::command(&args, cli.json),
        Command::Data(args) => data::command(&args, cli.json),
        Command::Privacy(args) => privacy::command(&args, cli.json),
        #[cfg(feature = "network")]
        Command::Network(args) => network::command(&args, cli.json),
        #[cfg(feature = "network")]
        Command::Node(args) => node::command(&args, cli.json),
    };
    match outcome {
        Ok(()) => 0,
        Err(Failure::Input(error)) => {
            eprintln!("error: {error:#}");
            2
        }
        Err(Failure::Run(error)) => {
            eprintln!("error: {error:#}");
            1
        }
        Err(Failure::Interrupted) => 1,
    }
}
