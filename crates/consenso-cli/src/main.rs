//! The `consenso` command.

use consenso_memory::HugePages;
use std::process::ExitCode;

/// Records are read from memory once per round: huge pages make that faster.
#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    consenso_cli::command(std::env::args_os(), None).into()
}
