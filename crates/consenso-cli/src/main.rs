//! The `consenso` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    consenso_cli::command(std::env::args_os(), None).into()
}
