//! Writes shell completions and manual pages of the command into a folder; `cargo xtask release`
//! runs it. Apart from the program, which need not carry what is written once.

use clap_complete::Shell;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::args().nth(1).ok_or("give a folder")?);
    let (completions, manual) = (out.join("completions"), out.join("man"));
    std::fs::create_dir_all(&completions)?;
    std::fs::create_dir_all(&manual)?;
    let mut command = consenso_cli::interface();
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
        clap_complete::generate_to(shell, &mut command, "consenso", &completions)?;
    }
    clap_mangen::generate_to(command, &manual)?;
    Ok(())
}
