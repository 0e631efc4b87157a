//! The `consenso` command.
//!
//! A command reads its input completely before it does anything: what is wrong with it exits with 2
//! and has written nothing. Results go to stdout, everything else (progress, warnings, errors) to
//! stderr.

mod ask;
mod audit;
mod benchmark;
#[cfg(feature = "network")]
mod changes;
#[cfg(feature = "network")]
mod dashboard;
mod data;
mod doctor;
mod explain;
mod files;
mod findings;
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
#[cfg(feature = "network")]
mod questions;
mod reproduce;
mod run;
mod spending;
mod statement;
#[cfg(feature = "network")]
mod studies;
mod table;
mod tour;
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
  consenso tour                              everything once on bundled records, in a minute
  consenso run                               the built-in experiment `adult`, into runs/adult-7
  consenso run --print adult > mine.toml     a copy to change; then: consenso run mine.toml
  consenso predict runs/adult-7 new.csv      apply the model to new records
  consenso ask adult 'mean age by sex'       statistics of all records, with intervals
  consenso reproduce                         the paper's figures, with verdicts
  consenso benchmark run                     methods compared on one board, with a page
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
    Ask(ask::Args),
    Merge(merge::Args),
    Predict(predict::Args),
    Model(model_file::Args),
    Plan(plan::Args),
    Reproduce(reproduce::Args),
    Benchmark(benchmark::Args),
    Data(data::Args),
    Privacy(privacy::Args),
    Doctor(doctor::Args),
    Tour(tour::Args),
    #[cfg(feature = "network")]
    Network(network::Args),
    #[cfg(feature = "network")]
    Node(node::Args),
}

/// The chapter of the guide about a command.
fn chapter(command: &Command) -> &'static str {
    match command {
        Command::Run(_) | Command::Plan(_) => "reference",
        Command::Data(_) | Command::Predict(_) | Command::Model(_) => "your-own-records",
        Command::Ask(_) => "questions",
        Command::Merge(_) => "commands",
        Command::Benchmark(_) => "benchmark",
        Command::Reproduce(_) => "paper",
        Command::Privacy(_) => "choosing-a-budget",
        Command::Doctor(_) | Command::Tour(_) => "start",
        #[cfg(feature = "network")]
        Command::Network(_) | Command::Node(_) => "three-hospitals",
    }
}

/// The chapter that explains an error: that of its kind, or of the command.
fn explained(error: &anyhow::Error, page: &'static str) -> &'static str {
    let spec =
        error.chain().find_map(|e| e.downcast_ref::<consenso_engine::experiment::SpecError>());
    match spec {
        Some(error) if error.refuses_claim => "choosing-a-budget",
        Some(_) => "reference",
        None => page,
    }
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

/// The command's words, options and help, for completions and manual pages.
#[doc(hidden)]
#[must_use]
pub fn interface() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// How to start this program again, if not by its own file.
static ITSELF: OnceLock<Vec<OsString>> = OnceLock::new();

/// A command that starts this program again.
fn itself() -> anyhow::Result<std::process::Command> {
    let words = match ITSELF.get() {
        Some(words) => words.clone(),
        None => vec![own_file()?],
    };
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]);
    Ok(command)
}

/// The file of this program. Where the system does not say (a root without `/proc`), it is what the
/// program was called by.
fn own_file() -> anyhow::Result<OsString> {
    use anyhow::Context as _;
    let known = std::env::current_exe().map(OsString::from);
    known.or_else(|error| {
        let called = std::env::args_os().next().filter(|name| !name.is_empty());
        let called = called.ok_or(error).context("where this program lies is not known")?;
        // A name without a folder is looked up again; a path must not depend on the folder.
        let path = std::path::Path::new(&called);
        let path =
            if path.components().count() > 1 { std::path::absolute(path)? } else { path.into() };
        Ok(path.into())
    })
}

/// Runs the command that these words ask for, the program's name first, and returns its exit code.
/// `again` starts this program anew where its own file does not: a language's interpreter and what
/// it needs to come here.
pub fn command(words: impl IntoIterator<Item = OsString>, again: Option<Vec<OsString>>) -> u8 {
    if let Some(again) = again.filter(|again| !again.is_empty()) {
        let _ = ITSELF.set(again);
    }
    let words: Vec<OsString> = words.into_iter().collect();
    let has = |word: &str| words.iter().any(|w| w == word);
    let json_log = has("node")
        && has("run")
        && (has("--log=json") || words.windows(2).any(|two| two[0] == "--log" && two[1] == "json"));
    if json_log {
        output::log_as_json();
    }
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) if json_log && error.use_stderr() => {
            output::tell("error", error.to_string().trim_start_matches("error: ").trim_end());
            return 2;
        }
        Err(error) => error.exit(),
    };
    let page = chapter(&cli.command);
    let outcome = match cli.command {
        Command::Run(args) => run::command(&args, cli.json),
        Command::Ask(args) => ask::command(&args, cli.json),
        Command::Merge(args) => merge::command(&args, cli.json),
        Command::Predict(args) => predict::command(&args, cli.json),
        Command::Model(args) => model_file::command(&args, cli.json),
        Command::Plan(args) => plan::command(&args, cli.json),
        Command::Reproduce(args) => reproduce::command(&args, cli.json),
        Command::Benchmark(args) => benchmark::command(&args, cli.json),
        Command::Data(args) => data::command(&args, cli.json),
        Command::Privacy(args) => privacy::command(&args, cli.json),
        Command::Doctor(args) => doctor::command(&args, cli.json),
        Command::Tour(args) => tour::command(&args, cli.json),
        #[cfg(feature = "network")]
        Command::Network(args) => network::command(&args, cli.json),
        #[cfg(feature = "network")]
        Command::Node(args) => node::command(&args, cli.json),
    };
    match outcome {
        Ok(()) => 0,
        Err(Failure::Input(error)) => {
            let chapter = explained(&error, page);
            output::tell("error", &format!("{error:#}\n  guide: docs/{chapter}.md"));
            2
        }
        Err(Failure::Run(error)) => {
            output::tell("error", &format!("{error:#}"));
            1
        }
        Err(Failure::Interrupted) => 1,
    }
}
