//! `cargo xtask python`: the Python package in an environment of its own, its tests, its types and its notebooks.

use crate::{cargo, root, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the tests and the notebooks need, beside the package itself.
const NEEDED: [&str; 12] = [
    "numpy",
    "scikit-learn>=1.6",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "pytest",
    "mypy",
    "pandas-stubs",
    "nbclient",
    "ipykernel",
    "matplotlib",
];
/// The notebooks, run from the first cell to the last.
const NOTEBOOKS: &str = "
import pathlib, nbformat, nbclient
for path in sorted(pathlib.Path('notebooks').glob('*.ipynb')):
    nbclient.NotebookClient(nbformat.read(path, as_version=4), timeout=600, kernel_name='python3').execute()
    print(f'{path.name}: every cell ran')
";

/// Where the package is checked.
struct Room {
    environment: PathBuf,
    package: PathBuf,
    target: PathBuf,
}

impl Room {
    /// An environment with what is needed; `Err` says why there is none.
    fn new() -> Result<Self, &'static str> {
        let python = interpreter().ok_or("no Python 3.10 or newer was found")?;
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
        let room = Self {
            environment: target.join("python"),
            package: root().join("crates/consenso-python"),
            target,
        };
        let fresh = !room.environment.join("bin/python").exists();
        if fresh && !succeeds(Command::new(python).args(["-m", "venv"]).arg(&room.environment)) {
            return Err("no virtual environment can be made (is the module venv there?)");
        }
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        if !succeeds(room.python().args(install).args(NEEDED)) {
            return Err("what the tests need cannot be installed");
        }
        Ok(room)
    }

    /// The environment's Python, in the package's folder.
    fn python(&self) -> Command {
        let mut python = Command::new(self.environment.join("bin/python"));
        python.current_dir(&self.package);
        python
    }

    /// Builds the library and puts it where Python looks beside the sources.
    fn build(&self) -> bool {
        let name = format!("{}consenso_core{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let library = self.target.join("debug").join(name);
        let beside = self.package.join("python/consenso/_core.abi3.so");
        let copy =
            |from: &Path| std::fs::copy(from, &beside).map_err(|e| eprintln!("{}: {e}", from.display()));
        // Unoptimised: the tests are small, and the build is what takes the time.
        let mut build = cargo();
        build.args(["build", "--quiet", "-p", "consenso-python"]).env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        succeeds(&mut build) && copy(&library).is_ok()
    }

    /// Tests, types and notebooks of what [`Self::build`] made.
    fn check(&self) -> bool {
        let sources = self.package.join("python");
        succeeds(self.python().env("PYTHONPATH", &sources).args(["-m", "pytest", "-q"]))
            && succeeds(self.python().args(["-m", "mypy", "python/consenso"]))
            && succeeds(self.python().env("PYTHONPATH", &sources).args(["-c", NOTEBOOKS]))
    }

    /// The wheel as users get it, in a clean environment without this repository: how large it is, and how long an import takes.
    fn wheel(&self) -> bool {
        let (wheels, clean) = (self.target.join("wheels"), self.target.join("python-clean"));
        let _ = std::fs::remove_dir_all(&clean);
        let _ = std::fs::remove_file(self.package.join("python/consenso/_core.abi3.so"));
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let built = succeeds(self.python().args(install).arg("maturin>=1.9,<2"))
            && succeeds(
                self.python().args(["-m", "maturin", "build", "--quiet", "--release", "--out"]).arg(&wheels),
            );
        let files = std::fs::read_dir(&wheels).into_iter().flatten().flatten().map(|entry| entry.path());
        let Some(wheel) = files.filter(|p| p.extension().is_some_and(|e| e == "whl")).max().filter(|_| built)
        else {
            return false;
        };
        let bytes = std::fs::metadata(&wheel).map_or(0, |m| m.len());
        let limit = 25_000_000;
        eprintln!("── {}: {:.1} MB (at most 25)", wheel.display(), bytes as f64 / 1e6);
        let clean_python = || {
            let mut python = Command::new(clean.join("bin/python"));
            python.current_dir(&self.target);
            python
        };
        let timed = "import time; t = time.perf_counter(); import consenso; took = time.perf_counter() - t; \
                     print(f'── import: {took:.2f} s (at most 0.3)'); assert took < 0.3 * 3, 'slow, even for a busy machine'";
        bytes <= limit
            && succeeds(self.python().args(["-m", "venv"]).arg(&clean))
            && succeeds(clean_python().args(install).arg(&wheel))
            && succeeds(clean_python().args(["-c", "import consenso"]))
            && succeeds(clean_python().args(["-c", timed]))
            && succeeds(clean_python().args(["-m", "consenso", "privacy", "explain", "--epsilon", "1"]))
    }
}

/// Checks the package; with `--release` also the wheel.
pub(crate) fn run(arguments: &[String]) -> bool {
    let release = match arguments {
        [] => false,
        [flag] if flag == "--release" => true,
        _ => {
            eprintln!("cargo xtask python takes --release and nothing else");
            return false;
        }
    };
    let lints = ["clippy", "--quiet", "-p", "consenso-python", "--", "-D", "warnings"];
    match Room::new() {
        Ok(room) => {
            succeeds(cargo().args(lints)) && room.build() && room.check() && (!release || room.wheel())
        }
        Err(why) => {
            eprintln!("── {why}: the Python package is not checked");
            false
        }
    }
}

/// The same as a part of `ci`: a machine without Python passes, and says so.
pub(crate) fn ci() -> bool {
    match Room::new() {
        Ok(room) => room.build() && room.check(),
        Err(why) => {
            eprintln!("── {why}: the Python package was not checked");
            true
        }
    }
}

/// A Python of 3.10 or newer, if there is one.
fn interpreter() -> Option<&'static str> {
    let new = "import sys; sys.exit(sys.version_info < (3, 10))";
    let runs = |name: &&str| Command::new(name).args(["-c", new]).status().is_ok_and(|s| s.success());
    ["python3", "python"].into_iter().find(runs)
}
