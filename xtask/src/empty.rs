//! An empty crate that adds the library and nothing else: the first lines of its documentation must
//! compile, run, claim and predict.

use crate::{cargo, root, succeeds};
use std::fs;

/// Judges the model of the landing page on rows it was not trained on.
const JUDGED: &str = r#"
    let unseen: Vec<[f64; 2]> = (0..2000).map(|i| [f64::from(18 + i * 5 % 73), f64::from(60 + i * 11 % 141)]).collect();
    let right = fitted.predict(&unseen)?.iter().zip(&unseen).filter(|(y, row)| (**y > 0.0) == (row[1] > 120.0)).count();
    println!("accuracy {:.3}", right as f64 / unseen.len() as f64);
    assert!(right > 1800, "{right} of 2000");
    Ok(())
"#;

/// Writes the crate to `target/empty-crate`, builds it and runs it.
pub(crate) fn run() -> bool {
    let folder = root().join("target/empty-crate");
    match written(&folder) {
        Ok(()) => {
            let manifest = folder.join("Cargo.toml");
            let mut command = cargo();
            command.args(["run", "--quiet", "--manifest-path"]).arg(manifest);
            succeeds(command.env("CARGO_TARGET_DIR", folder.join("target")))
        }
        Err(error) => {
            eprintln!("── {}: {error}", folder.display());
            false
        }
    }
}

fn written(folder: &std::path::Path) -> std::io::Result<()> {
    let page = fs::read_to_string(root().join("crates/consenso/src/lib.rs"))?;
    let library = root().join("crates/consenso");
    fs::create_dir_all(folder.join("src"))?;
    // A workspace of its own, with the versions that this one is tested with.
    let manifest = format!(
        "[package]\nname = \"empty\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nconsenso = {{ path = {:?} }}\n\n[workspace]\n",
        library.display().to_string()
    );
    fs::write(folder.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    fs::write(folder.join("src/main.rs"), program(&page))
}

/// The first code of the landing page as a program.
fn program(page: &str) -> String {
    let lines = page.lines().filter_map(|line| line.strip_prefix("//!"));
    let code: Vec<&str> =
        lines.skip_while(|l| l.trim() != "```").skip(1).take_while(|l| l.trim() != "```").collect();
    let (uses, body): (Vec<&str>, Vec<&str>) = code
        .into_iter()
        .filter(|line| !line.trim_start().starts_with("# "))
        .partition(|line| line.trim_start().starts_with("use "));
    let (uses, body) = (uses.join("\n"), body.join("\n"));
    format!("{uses}\n\nfn main() -> Result<(), Box<dyn std::error::Error>> {{\n{body}{JUDGED}}}\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_first_code_of_a_page_is_a_program() {
        let page = "//! Words.\n//!\n//! ```\n//! use a::B;\n//! let b = B;\n//! # Ok(())\n//! ```\n//! ```\n//! no\n//! ```\n";
        let program = super::program(page);
        assert!(program.starts_with(" use a::B;\n\nfn main()"), "{program}");
        assert!(
            program.contains(" let b = B;")
                && !program.contains("# Ok")
                && !program.contains("no\n")
        );
    }
}
