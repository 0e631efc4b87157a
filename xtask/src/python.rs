//! `cargo xtask python`: the Python package in an environment of its own, its tests, its types and
//! its notebooks.

use crate::{cargo, lint, root, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

/// What the tests and the notebooks need, beside the package itself.
const NEEDED: [&str; 16] = [
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
    "hypothesis",
    "pytest-xdist",
    "basedpyright",
    "tomli", // what Python 3.10 reads TOML with: types are checked for it too
];
/// Frameworks of others that examples stand in.
const FEDERATED: [&str; 4] = ["numpy", "pytest", "flwr", "nvflare"];
/// What the comparison with diffprivlib needs: it does not import beside a newer scikit-learn.
const CENTRAL: [&str; 3] = ["diffprivlib==0.6.6", "scikit-learn==1.5.2", "setuptools<81"];
/// The notebooks, run from the first cell to the last.
const NOTEBOOKS: &str = "
import pathlib, nbformat, nbclient
for path in sorted(pathlib.Path('notebooks').glob('*.ipynb')):
    nbclient.NotebookClient(nbformat.read(path, as_version=4), timeout=600, kernel_name='python3').execute()
    print(f'{path.name}: every cell ran')
";

const INSTALL: [&str; 5] = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
/// The least of several imports, each in a process of its own: the first one reads the library from
/// the disk. Processor time, so that a busy machine does not make it slow.
const IMPORT: &str = "
import subprocess, sys
code = 'import time; t = time.process_time(); import consenso; print(time.process_time() - t)'
took = [float(subprocess.run([sys.executable, '-c', code], check=True, capture_output=True, text=True).stdout) for _ in range(5)]
print(f'── import: {min(took):.2f} s of processor time (at most 0.25)')
assert min(took) <= 0.25, 'the import is slow'
";

/// Where the package is checked.
pub(crate) struct Room {
    environment: PathBuf,
    package: PathBuf,
    target: PathBuf,
}

impl Room {
    /// An environment with what is needed; `Err` says why there is none.
    fn new() -> Result<Self, &'static str> {
        let python = interpreter().ok_or("no Python 3.10 or newer was found")?;
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root().join("target"), PathBuf::from);
        let room = Self {
            environment: target.join("python"),
            package: root().join("crates/consenso-python"),
            target,
        };
        let fresh = !room.environment.join("bin/python").exists();
        if fresh && !succeeds(Command::new(python).args(["-m", "venv"]).arg(&room.environment)) {
            return Err("no virtual environment can be made (is the module venv there?)");
        }
        if !succeeds(room.python().args(INSTALL).args(NEEDED)) {
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

    /// Builds the library and puts it where Python looks beside the sources. Unoptimised: the tests
    /// are small, and the build is what takes the time.
    fn build(&self) -> bool {
        let mut build = cargo();
        build
            .args(["build", "--quiet", "-p", "consenso-python"])
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0");
        self.put(&mut build)
    }

    /// The same from what the tests before it have built: the same packages with the same features,
    /// so that nothing is built twice.
    fn build_after_tests(&self) -> bool {
        let mut build = cargo();
        build.args(["build", "--quiet", "--lib", "--tests"]).args(crate::NOT_ORACLES);
        lint(&mut build);
        self.put(&mut build)
    }

    fn put(&self, build: &mut Command) -> bool {
        let name = format!(
            "{}consenso_core{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        );
        let library = self.target.join("debug").join(name);
        let beside = self.package.join("python/consenso/_core.abi3.so");
        let copy = |from: &Path| {
            std::fs::copy(from, &beside).map_err(|e| eprintln!("{}: {e}", from.display()))
        };
        succeeds(build) && copy(&library).is_ok()
    }

    /// The environment's Python with the package that [`Self::build`] made.
    fn built(&self) -> Command {
        let mut python = self.python();
        python.env("PYTHONPATH", self.package.join("python"));
        python
    }

    /// Tests, types and notebooks of what [`Self::build`] made.
    fn check(&self) -> bool {
        succeeds(self.built().args(["-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal"]))
            && succeeds(self.python().args(["-m", "mypy", "python/consenso"]))
            && succeeds(
                self.python().args(["-m", "basedpyright", "--pythonpath"]).arg(self.interpreter()),
            )
            && succeeds(self.built().args(["-c", NOTEBOOKS]))
    }

    fn interpreter(&self) -> PathBuf {
        self.environment.join("bin/python")
    }

    /// The wheel as users get it, in a clean environment without this repository: how large it is,
    /// how long an import takes, and how a fit compares with the command line.
    fn wheel(&self) -> bool {
        let (wheels, clean) = (self.target.join("wheels"), self.target.join("python-clean"));
        let _ = std::fs::remove_dir_all(&clean);
        let _ = std::fs::remove_dir_all(&wheels);
        let _ = std::fs::remove_file(self.package.join("python/consenso/_core.abi3.so"));
        let built = succeeds(self.python().args(INSTALL).arg("maturin>=1.9,<2"))
            && succeeds(
                self.python()
                    .args(["-m", "maturin", "build", "--quiet", "--release", "--out"])
                    .arg(&wheels),
            );
        let files =
            std::fs::read_dir(&wheels).into_iter().flatten().flatten().map(|entry| entry.path());
        let Some(wheel) =
            files.filter(|p| p.extension().is_some_and(|e| e == "whl")).max().filter(|_| built)
        else {
            return false;
        };
        let bytes = std::fs::metadata(&wheel).map_or(0, |m| m.len());
        eprintln!("── {}: {:.1} MB (at most 12)", wheel.display(), bytes as f64 / 1e6);
        let clean_python = || {
            let mut python = Command::new(clean.join("bin/python"));
            python.current_dir(&wheels);
            python
        };
        let bench =
            |name: &str| succeeds(clean_python().arg(self.package.join("benches").join(name)));
        bytes <= 12_000_000
            && succeeds(self.python().args(["-m", "venv"]).arg(&clean))
            && succeeds(clean_python().args(INSTALL).arg(&wheel))
            && succeeds(clean_python().args(["-c", IMPORT]))
            && succeeds(clean_python().args([
                "-m",
                "consenso",
                "privacy",
                "explain",
                "--epsilon",
                "1",
            ]))
            && succeeds(clean_python().args(INSTALL).arg("scikit-learn>=1.6"))
            && bench("command_line.py")
            && bench("noise.py")
            && bench("memory.py")
    }

    /// The examples for Flower and NVFlare with these frameworks, in an environment of their own.
    fn federated(&self) -> bool {
        let own = self.target.join("python-federated");
        let python = || {
            let mut python = Command::new(own.join("bin/python"));
            python.current_dir(&self.package).env("PYTHONPATH", self.package.join("python"));
            python
        };
        let tests = ["-m", "pytest", "-q", "tests/test_flower.py", "tests/test_nvflare.py"];
        (own.join("bin/python").exists() || succeeds(self.python().args(["-m", "venv"]).arg(&own)))
            && succeeds(python().args(INSTALL).args(FEDERATED))
            && succeeds(python().args(tests))
    }

    /// The table of accuracies beside diffprivlib, which gets an environment of its own; uses the
    /// environment that [`Self::wheel`] made.
    fn compare(&self) -> bool {
        let (clean, old) =
            (self.target.join("python-clean"), self.target.join("python-diffprivlib"));
        let ready = clean.join("bin/python").exists() || self.wheel();
        let python = || Command::new(old.join("bin/python"));
        ready
            && (old.join("bin/python").exists()
                || succeeds(self.python().args(["-m", "venv"]).arg(&old)))
            && succeeds(python().args(INSTALL).args(CENTRAL))
            && succeeds(
                Command::new(clean.join("bin/python"))
                    .current_dir(&self.target)
                    .arg(self.package.join("benches/beside_diffprivlib.py"))
                    .arg(old.join("bin/python")),
            )
    }
}

/// Checks the package; with `--release` also the wheel, with `--compare` the table beside
/// diffprivlib instead, with `--federated` the examples for other frameworks, with `--docs` writes
/// the API page.
pub(crate) fn run(arguments: &[String]) -> bool {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let lints = ["clippy", "--quiet", "-p", "consenso-python", "--", "-D", "warnings"];
    let room = match Room::new() {
        Ok(room) => room,
        Err(why) => {
            eprintln!("── {why}: the Python package is not checked");
            return false;
        }
    };
    match words[..] {
        [] => succeeds(cargo().args(lints)) && room.build() && room.check(),
        ["--release"] => {
            succeeds(cargo().args(lints)) && room.build() && room.check() && room.wheel()
        }
        ["--wheel"] => room.wheel(),
        ["--compare"] => room.compare(),
        ["--federated"] => room.build() && room.federated(),
        ["--docs"] => room.build() && succeeds(room.built().arg("api.py")),
        _ => {
            eprintln!(
                "cargo xtask python takes --release, --wheel, --compare, --federated or --docs"
            );
            false
        }
    }
}

/// The room of [`ci`], which is made while other steps go on: it waits for downloads.
pub(crate) fn prepare() -> JoinHandle<Result<Room, &'static str>> {
    std::thread::spawn(Room::new)
}

/// The same as a part of `ci`: a machine without Python passes, and says so.
pub(crate) fn ci(room: JoinHandle<Result<Room, &'static str>>) -> bool {
    match room.join().unwrap_or(Err("no environment could be made")) {
        Ok(room) => room.build_after_tests() && room.check(),
        Err(why) => {
            eprintln!("── {why}: the Python package was not checked");
            true
        }
    }
}

/// A Python of 3.10 or newer, if there is one.
fn interpreter() -> Option<&'static str> {
    let new = "import sys; sys.exit(sys.version_info < (3, 10))";
    let runs =
        |name: &&str| Command::new(name).args(["-c", new]).status().is_ok_and(|s| s.success());
    ["python3", "python"].into_iter().find(runs)
}
