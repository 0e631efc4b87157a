//! `cargo xtask python`: the Python package in an environment of its own, its tests and its types.

use crate::{cargo, root, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the tests need, beside the package itself.
const NEEDED: [&str; 8] =
    ["maturin>=1.9,<2", "numpy", "scikit-learn>=1.6", "pandas", "scipy", "pytest", "mypy", "pandas-stubs"];

/// Makes the environment once, builds the package into it, and checks it.
pub(crate) fn run(arguments: &[String]) -> bool {
    let release = match arguments {
        [] => false,
        [flag] if flag == "--release" => true,
        _ => {
            eprintln!("cargo xtask python takes --release and nothing else");
            return false;
        }
    };
    let Some(python) = interpreter() else {
        eprintln!("── no Python 3.10 or newer was found: the Python package is not checked");
        return false;
    };
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let environment = target.join("python");
    let tool = |name: &str| environment.join("bin").join(name);
    let package = root().join("crates/consenso-python");
    let fresh = !tool("python").exists();
    if fresh && !succeeds(Command::new(python).args(["-m", "venv"]).arg(&environment)) {
        return false;
    }
    let mut install = Command::new(tool("python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(NEEDED);
    let mut build = Command::new(tool("maturin"));
    build.args(["develop", "--quiet", "--profile", if release { "release" } else { "dev" }]);
    build.env("VIRTUAL_ENV", &environment).current_dir(&package);
    let lints = ["clippy", "--quiet", "-p", "consenso-python", "--", "-D", "warnings"];
    succeeds(&mut install)
        && succeeds(cargo().args(lints))
        && succeeds(&mut build)
        && succeeds(Command::new(tool("python")).args(["-m", "pytest", "-q"]).current_dir(&package))
        && succeeds(types(&tool("python"), &package).args(["python/consenso"]))
}

fn types(python: &Path, package: &Path) -> Command {
    let mut mypy = Command::new(python);
    mypy.args(["-m", "mypy"]).current_dir(package);
    mypy
}

/// A Python of 3.10 or newer, if there is one.
fn interpreter() -> Option<&'static str> {
    let new = "import sys; sys.exit(sys.version_info < (3, 10))";
    let runs = |name: &&str| Command::new(name).args(["-c", new]).status().is_ok_and(|s| s.success());
    ["python3", "python"].into_iter().find(runs)
}
