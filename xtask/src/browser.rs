//! `cargo xtask browser`: the pages in a real browser.
//!
//! Chromium and npm must be there (on Debian: `apt install chromium npm`); playwright-core, which
//! drives the browser, goes into a throw-away folder under `target`.

use crate::{cargo, root, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version the test was written with.
const DRIVER: &str = "playwright-core@1.65.0";
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Writes pages with the command line, opens them, and checks what a reader would do with them.
pub(crate) fn run() -> bool {
    let place = root().join("target/browser");
    let Some(browser) = find_browser() else {
        eprintln!(
            "── no Chromium: install one (Debian: apt install chromium) or name it in the variable CHROMIUM"
        );
        return false;
    };
    let pages = place.join("pages");
    let _ = std::fs::remove_dir_all(&pages);
    if let Err(e) = std::fs::create_dir_all(&place) {
        eprintln!("── {}: {e}", place.display());
        return false;
    }
    install_driver(&place)
        && write_pages(&pages)
        && check(&place, &pages, &browser)
        && live(&place, &browser)
}

/// Makes the pictures of the README again: the frontier of all private algorithms, and the live
/// page of a network half-way.
pub(crate) fn figures() -> bool {
    let place = root().join("target/browser");
    let Some(browser) = find_browser() else {
        eprintln!(
            "── no Chromium: install one (Debian: apt install chromium) or name it in the variable CHROMIUM"
        );
        return false;
    };
    let run = place.join("frontier");
    let _ = std::fs::remove_dir_all(&run);
    let copy = |from: PathBuf, name: &str| {
        let to = root().join("docs/figures").join(name);
        let copied = std::fs::copy(&from, &to);
        copied.map_or_else(
            |e| {
                eprintln!("── {}: {e}", from.display());
                false
            },
            |_| true,
        )
    };
    std::fs::create_dir_all(&place).is_ok()
        && install_driver(&place)
        && succeeds(cargo().args(["build", "--release", "--quiet", "-p", "consenso-cli"]))
        && succeeds(
            program()
                .args(["run", "frontier", "--out"])
                .arg(&run)
                .stdout(std::process::Stdio::null()),
        )
        && copy(run.join("figures/frontier-10.svg"), "frontier.svg")
        && live_page(&place, &browser, &STUDIES[0])
        && copy(place.join("live/half-1280.png"), "live-page.png")
}

fn find_browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Some(PathBuf::from(named));
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    let found = BROWSERS.iter().flat_map(|name| all.iter().map(move |folder| folder.join(name)));
    found.into_iter().find(|path| path.is_file())
}

fn install_driver(place: &Path) -> bool {
    if place.join("node_modules/playwright-core").is_dir() {
        return true;
    }
    eprintln!("── npm install {DRIVER}, into {}", place.display());
    let mut npm = Command::new("npm");
    npm.current_dir(place)
        .args(["install", "--no-save", "--no-package-lock", "--prefix", "."])
        .arg(DRIVER);
    let installed = succeeds(&mut npm);
    if !installed {
        eprintln!(
            "── the browser test needs npm (Debian: apt install npm) and, the first time, a network"
        );
    }
    installed
}

/// The page of every built-in experiment, and that of the reproduction.
fn write_pages(pages: &Path) -> bool {
    if !succeeds(cargo().args(["build", "--release", "--quiet", "-p", "consenso-cli"])) {
        return false;
    }
    let listed = program().args(["run", "--list"]).output();
    let listed = listed
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let names: Vec<&str> =
        listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    if names.is_empty() {
        eprintln!("── consenso run --list names no experiment");
        return false;
    }
    let page = |name: &str, arguments: &[&str]| {
        eprintln!("── consenso {}", arguments.join(" "));
        let mut command = program();
        command.args(arguments).arg("--out").arg(pages.join(name));
        succeeds(command.stdout(std::process::Stdio::null()))
    };
    names.iter().all(|name| page(name, &["run", name, "--set", "runs=1"]))
        && page("reproduce", &["reproduce", "all", "--runs", "2"])
}

/// The optimised program, once it is built.
pub(crate) fn program() -> Command {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut command = Command::new(target.join("release/consenso"));
    command.current_dir(root());
    command
}

fn check(place: &Path, pages: &Path, browser: &Path) -> bool {
    script(place, "browser.mjs")
        .is_some_and(|script| succeeds(Command::new("node").arg(script).arg(browser).arg(pages)))
}

/// A script, copied to where it finds its driver beside itself.
fn script(place: &Path, name: &str) -> Option<PathBuf> {
    let script = place.join(name);
    match std::fs::copy(root().join("xtask").join(name), &script) {
        Ok(_) => Some(script),
        Err(e) => {
            eprintln!("── {}: {e}", script.display());
            None
        }
    }
}

/// Studies of a few seconds for the live page: what they are called, their graph and algorithm, and
/// what the page draws of them.
const STUDIES: [[&str; 3]; 2] = [
    [
        "live",
        "[graph]\nkind = \"random\"\nedges = 9\n[[algorithm]]\nkind = \"admm\"\nrounds = 5000\n",
        "largest distance to a neighbour's moving average",
    ],
    [
        "live-shares",
        "[graph]\nkind = \"complete\"\n[[algorithm]]\nkind = \"gd\"\naggregation = \"fixed\"\nrounds = 2000\nexchange = \"secret-shared\"\n",
        "how far the shared sum still moves",
    ],
];

/// The live pages of networks of real processes.
fn live(place: &Path, browser: &Path) -> bool {
    STUDIES.iter().all(|study| live_page(place, browser, study))
}

fn live_page(place: &Path, browser: &Path, &[name, rest, drawn]: &[&str; 3]) -> bool {
    let network = place.join(format!("network-{name}"));
    let _ = std::fs::remove_dir_all(&network);
    let study = place.join(format!("{name}.toml"));
    let text = format!(
        "name = \"{name}\"\nseed = 5\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 6\nrecords_per_agent = 200\ndim = 14\n\
         [privacy]\nepsilon = 1.0\ndelta = 1e-6\n{rest}"
    );
    if let Err(e) = std::fs::write(&study, text) {
        eprintln!("── {}: {e}", study.display());
        return false;
    }
    let consenso = |arguments: &[&str]| {
        let mut command = cargo();
        command.args(["run", "--release", "--quiet", "-p", "consenso-cli", "--"]).args(arguments);
        command
    };
    eprintln!("── consenso network up --dashboard");
    let sites = "amber,birch,cedar,dahlia,elder,fern";
    let made = succeeds(
        consenso(&["network", "new"])
            .arg(&network)
            .args(["--sites", sites, "--port", "7711", "--experiment"])
            .arg(&study),
    );
    let program = root().join("target/release/consenso");
    let out = place.join(name);
    made && script(place, "dashboard.mjs").is_some_and(|script| {
        succeeds(
            Command::new("node")
                .arg(script)
                .arg(browser)
                .arg(program)
                .arg(&network)
                .arg(&out)
                .arg(drawn),
        )
    })
}
