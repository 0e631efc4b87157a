//! `cargo xtask r`: the R package, built offline from this tree, its check, and the same bits from
//! the command line, Python and R.

use crate::{cargo, root, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the check needs beside R itself, with the packages of Debian that have them.
const NEEDED: [(&str, &str); 3] =
    [("jsonlite", "r-cran-jsonlite"), ("knitr", "r-cran-knitr"), ("markdown", "r-cran-markdown")];

/// One study of one table from R: writes the model file.
const FIT: &str = r#"
library(consenso)
words <- commandArgs(TRUE)
records <- read.csv(file.path(words[1], "records.csv"))
formula <- as.formula(words[3])
fit <- consenso_glm(formula, records, site = ~hospital, epsilon = 2, family = words[2], seed = 7,
                    schema = file.path(words[1], paste0(words[2], ".toml")), inference = words[4] == "yes")
writeLines(fit$file, file.path(words[1], paste0("r-", words[2], ".json")), useBytes = TRUE)
writeLines(sprintf("%.17g", predict(fit, records, type = "link")), file.path(words[1], paste0("r-", words[2], ".txt")))
"#;

/// The same from Python.
const PYTHON: &str = r#"
import json, sys
import pandas, consenso
room, family, label, inference = sys.argv[1:]
records = pandas.read_csv(f"{room}/records.csv", dtype={"ward": str, "hospital": str, "ill": str})
kind = {"binomial": consenso.LogisticRegression, "gaussian": consenso.Ridge, "poisson": consenso.PoissonRegressor}[family]
model = kind(epsilon=2.0, schema=f"{room}/{family}.toml", random_state=7, inference=inference == "yes")
model.fit(records.drop(columns=[label]), records[label], sites=records["hospital"])
json.dump(model._file, open(f"{room}/python-{family}.json", "w"))
"#;

/// Compares two model files but for what the study was called.
const COMPARE: &str = r#"
words <- commandArgs(TRUE)
# 1 and 1.0 are the same number, and keys may come in any order.
plain <- function(x) {
  if (!is.list(x)) return(if (is.integer(x)) as.numeric(x) else x)
  lapply(if (is.null(names(x))) x else x[order(names(x))], plain)
}
read <- function(path) plain(jsonlite::fromJSON(path, simplifyVector = FALSE))
a <- read(words[1]); b <- read(words[2])
stopifnot(length(a$weights) > 0, identical(a$weights, b$weights), identical(a$encoder, b$encoder), identical(a$inference, b$inference), identical(a$agents, b$agents))
"#;

/// The families that are compared: what predicts them, the formula and whether standard errors are
/// asked for.
const STUDIES: [(&str, &str, &str, bool); 3] = [
    ("binomial", "ill", "ill ~ age + ward + height", true),
    ("gaussian", "cost", "cost ~ age + ward + height", false),
    ("poisson", "visits", "visits ~ age + ward + height", true),
];

/// Builds, checks and compares.
pub(crate) fn run() -> bool {
    if let Err(why) = ready() {
        eprintln!("── {why}: the R package is not checked");
        return false;
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let room = target.join("r");
    let _ = std::fs::remove_dir_all(&room);
    if let Err(error) = std::fs::create_dir_all(room.join("library")) {
        eprintln!("{}: {error}", room.display());
        return false;
    }
    let library = target.join("debug/libconsenso_r.a");
    let build = ["rustc", "--quiet", "--offline", "--locked", "-p", "consenso-r", "--lib"];
    succeeds(cargo().args(build).args(["--crate-type", "staticlib"]))
        && succeeds(r(&room, &library).args(["CMD", "build"]).arg(package()))
        && check(&room, &library)
        && succeeds(
            r(&room, &library)
                .args(["CMD", "INSTALL", "--no-docs", "--library=library"])
                .arg("consenso_0.1.0.tar.gz"),
        )
        && compare(&room, &target)
}

fn package() -> PathBuf {
    root().join("crates/consenso-r/consenso")
}

/// Whether there is an R with what the check needs.
fn ready() -> Result<(), String> {
    let has = |code: String| {
        Command::new("Rscript").args(["-e", &code]).output().is_ok_and(|o| o.status.success())
    };
    if !has("stopifnot(getRversion() >= \"4.0\")".into()) {
        return Err("no R of version 4 was found (Debian: r-base-dev)".into());
    }
    for (name, debian) in NEEDED {
        if !has(format!("library({name})")) {
            return Err(format!("R's package {name} is missing (Debian: {debian})"));
        }
    }
    Ok(())
}

/// R in the room, with the library that was built.
fn r(room: &Path, library: &Path) -> Command {
    let mut r = Command::new("R");
    r.current_dir(room)
        .env("CONSENSO_LIBRARY", library)
        .env("R_LIBS", room.join("library"))
        // Nothing is looked for in the network.
        .env("_R_CHECK_CRAN_INCOMING_", "false")
        .env("_R_CHECK_FORCE_SUGGESTS_", "false");
    r
}

/// `R CMD check`, which runs the tests, the examples and the vignette: no errors, no warnings.
fn check(room: &Path, library: &Path) -> bool {
    let mut check = r(room, library);
    let passed = succeeds(check.args(["CMD", "check", "--no-manual", "consenso_0.1.0.tar.gz"]));
    let log = std::fs::read_to_string(room.join("consenso.Rcheck/00check.log")).unwrap_or_default();
    let status = log.lines().rev().find(|line| line.starts_with("Status:")).unwrap_or("no status");
    eprintln!("── R CMD check: {status}");
    passed && !status.contains("ERROR") && !status.contains("WARNING") && status != "no status"
}

/// One table, one schema, one seed: the model files of the command line, of R and, where its
/// environment is there, of Python have the same bits.
fn compare(room: &Path, target: &Path) -> bool {
    let python = target.join("python/bin/python");
    let core = root().join("crates/consenso-python/python/consenso/_core.abi3.so");
    let with_python = python.exists() && core.exists();
    if !with_python {
        eprintln!("── Python is not compared: cargo xtask python makes its environment");
    }
    let tables = std::iter::once(("records.csv".to_owned(), records()))
        .chain(STUDIES.map(|(family, label, ..)| (format!("{family}.toml"), schema(label))))
        .chain(STUDIES.map(|(family, _, _, inference)| {
            (format!("{family}-study.toml"), experiment(family, inference))
        }));
    for (name, text) in tables {
        if let Err(error) = std::fs::write(room.join(&name), text) {
            eprintln!("{name}: {error}");
            return false;
        }
    }
    let program = target.join("debug/consenso");
    let rscript = |code: &str| {
        let mut r = Command::new("Rscript");
        r.current_dir(room).env("R_LIBS", room.join("library")).args(["-e", code]);
        r
    };
    let same = |a: &str, b: &str| succeeds(rscript(COMPARE).args([a, b]));
    // As `ci` builds it, so that nothing is built twice: an example makes cargo choose features as
    // for tests.
    let build = ["build", "--quiet", "--offline", "--bins", "--example", "accounting"];
    succeeds(cargo().args(build).args(crate::NOT_ORACLES))
        && STUDIES.iter().all(|&(family, label, formula, inference)| {
            let inference = if inference { "yes" } else { "no" };
            let folder = format!("run-{family}");
            let cli = succeeds(Command::new(&program).current_dir(room).args([
                "run",
                &format!("{family}-study.toml"),
                "--out",
                &folder,
            ]));
            let model = format!("{folder}/models/dgd.json");
            cli && succeeds(rscript(FIT).args([".", family, formula, inference]))
                && same(&model, &format!("r-{family}.json"))
                && (!with_python
                    || (succeeds(
                        Command::new(&python)
                            .current_dir(room)
                            .env("PYTHONPATH", root().join("crates/consenso-python/python"))
                            .args(["-c", PYTHON, ".", family, label, inference]),
                    ) && same(&format!("python-{family}.json"), &format!("r-{family}.json"))))
                && {
                    let others = if with_python {
                        "command line, Python and R"
                    } else {
                        "command line and R"
                    };
                    eprintln!("── {family}: {others} have the same bits");
                    true
                }
        })
}

/// Records that nobody has: numbers with two decimals, categories and gaps.
fn records() -> String {
    let mut text = String::from("hospital,age,ward,height,ill,cost,visits\n");
    let mut state: u64 = 12345;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    for row in 0..1500 {
        let (age, tall, ward) =
            (20.0 + 70.0 * draw(), 150.0 + 50.0 * draw(), (3.0 * draw()) as usize);
        let score = 0.06 * (age - 55.0) + 0.8 * (ward as f64 - 1.0);
        let ill = if draw() < 1.0 / (1.0 + (-score).exp()) { "yes" } else { "no" };
        let cost = (100.0 + 20.0 * score + 10.0 * (draw() - 0.5)).clamp(0.0, 300.0);
        let visits = ((0.3 * score).exp() * 3.0 * draw()).round().min(20.0);
        // Every hundredth record has no height.
        let height = if row % 100 == 99 { String::new() } else { format!("{tall:.2}") };
        let (hospital, ward) = (["a", "b", "c", "d"][row % 4], ["east", "north", "west"][ward]);
        text += &format!("{hospital},{age:.2},{ward},{height},{ill},{cost:.2},{visits}\n");
    }
    text
}

/// The public schema with one of the three labels.
fn schema(label: &str) -> String {
    let column = |name: &str, rest: &str| format!("[[column]]\nname = \"{name}\"\n{rest}\n\n");
    let ignored = "kind = \"ignored\"";
    let own = |name: &str, rest: &str| column(name, if name == label { rest } else { ignored });
    [
        "reviewed = true\n\n".into(),
        column("hospital", "kind = \"site\""),
        column("age", "kind = \"numeric\"\nmin = 0\nmax = 110"),
        column("ward", "kind = \"categorical\"\ncategories = [\"east\", \"north\", \"west\"]"),
        column("height", "kind = \"numeric\"\nmin = 100\nmax = 220.5\nmissing = { impute = 170 }"),
        own("ill", "kind = \"label\"\nclasses = [\"no\", \"yes\"]"),
        own("cost", "kind = \"label\"\nmin = 0\nmax = 300"),
        own("visits", "kind = \"label\"\nmin = 0\nmax = 20"),
    ]
    .concat()
}

/// The experiment that the command line reads.
fn experiment(family: &str, inference: bool) -> String {
    let loss = match family {
        "binomial" => "logistic",
        "gaussian" => "ridge",
        other => other,
    };
    let errors = if inference { "inference = { level = 0.95 }\n" } else { "" };
    format!(
        "name = \"study\"\nseed = 7\nruns = 1\n\
         data = {{ path = \"records.csv\", schema = \"{family}.toml\", partition = {{ by = \"hospital\" }} }}\n\
         objective = {{ loss = \"{loss}\", regularization = 1e-3 }}\n\
         graph = {{ kind = \"complete\" }}\n\
         privacy = {{ epsilon = 2.0, delta = 1e-6, neighbours = \"replace-one\" }}\n\
         {errors}\
         algorithm = [{{ kind = \"dgd\" }}]\n"
    )
}
