//! The command line as scripts see it: the built binary, its exit codes, streams and files.

mod ask;
mod bad_input;
mod benchmark;
mod data;
mod guide;
mod help;
mod linear;
mod model;
mod own_records;
mod plan;
mod privacy;
mod reproduce;
mod run;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of one test, empty at first.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> &Self {
        fs::write(self.path(name), text).unwrap();
        self
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Everything in the folder.
    pub(crate) fn listing(&self) -> BTreeSet<PathBuf> {
        let mut all = BTreeSet::new();
        let mut open = vec![self.0.clone()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path.clone());
                }
                all.insert(path);
            }
        }
        all
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_consenso"));
        // The width of help texts must not depend on the developer's terminal.
        command.current_dir(&self.0).args(arguments).env_remove("COLUMNS");
        command
    }

    pub(crate) fn consenso(&self, arguments: &[&str]) -> Answer {
        Answer::of(&self.command(arguments).output().unwrap())
    }
}

/// What a command answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Self { code: output.status.code().unwrap_or(-1), stdout, stderr }
    }

    /// The one JSON object on stdout.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }

    /// Bad input: exit code 2, nothing on stdout, and a message that holds all of these.
    #[track_caller]
    pub(crate) fn refused(&self, parts: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{}", self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in: {}", self.stderr);
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
    }
}

/// A small experiment that takes a few milliseconds.
pub(crate) const SMALL: &str = r#"name = "small"
seed = 3
runs = 2

[data]
source = "logistic"
agents = 5
records_per_agent = 30
dim = 4

[objective]
loss = "logistic"
regularization = 0.01

[graph]
kind = "random"
edges = 6

[[algorithm]]
kind = "admm"
rounds = 20
penalty = 2.0
dual_step = 0.1

[[algorithm]]
kind = "dgd"
rounds = 15
step = 0.5
"#;

/// Records of a hospital, with their schema and experiment.
pub(crate) const RECORDS: &str =
    "age,ward,ill\n40,a,no\n50,b,yes\n61,a,no\n72,b,yes\n33,a,no\n24,b,no\n";
pub(crate) const SCHEMA: &str = r#"reviewed = true
[[column]]
name = "age"
kind = "numeric"
min = 0
max = 100
[[column]]
name = "ward"
kind = "categorical"
categories = ["a", "b"]
[[column]]
name = "ill"
kind = "label"
classes = ["no", "yes"]
"#;
pub(crate) const HOSPITAL: &str = r#"name = "hospital"
runs = 1

[data]
path = "records.csv"
schema = "schema.toml"
agents = 2

[graph]
kind = "complete"

[[algorithm]]
kind = "dgd"
rounds = 3
"#;
