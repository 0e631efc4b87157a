//! `cargo xtask mpi`: one simulation on 1 to 4 processes, with the MPI of an environment of its
//! own.

use crate::{cargo, root, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Agents of every kind of place: a ring that is divided well, and a random graph that is not.
const EXPERIMENT: &str = r#"name = "mpi"
seed = 5
runs = 1
trace_every = 10
[data]
source = "logistic"
agents = 600
records_per_agent = 50
dim = 14
[graph]
kind = "GRAPH"
REST
[privacy]
epsilon = 2.0
delta = 1e-6
[[algorithm]]
kind = "admm"
rounds = 60
[[algorithm]]
kind = "dgd"
rounds = 60
"#;

/// Makes the environment once, builds the command, and compares transcripts.
pub(crate) fn run() -> bool {
    prepared().is_some_and(|(target, environment)| compare(&target, &environment))
}

/// The same for the job files of Slurm, with a Slurm on this machine alone.
pub(crate) fn slurm() -> bool {
    prepared().is_some_and(|(target, environment)| {
        let mut check = Command::new("sh");
        check.arg(root().join("deploy/slurm/check.sh")).arg(target.join("debug/consenso"));
        succeeds(check.arg(environment.join("lib/libmpi_abi.so.1")))
    })
}

/// Where things are built, with the command in it, and an environment with MPICH.
fn prepared() -> Option<(PathBuf, PathBuf)> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let environment = target.join("mpi");
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "mpich>=5,<6"];
    let made = environment.join("bin/mpirun").exists()
        || (succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment))
            && succeeds(Command::new(environment.join("bin/python")).args(install)));
    if !made {
        eprintln!(
            "── no environment with MPICH could be made: runs over several processes are not checked"
        );
        return None;
    }
    succeeds(cargo().args(["build", "--quiet", "-p", "consenso-cli"]))
        .then_some((target, environment))
}

fn compare(target: &Path, environment: &Path) -> bool {
    let place = target.join("mpi-runs");
    let _ = std::fs::remove_dir_all(&place);
    if std::fs::create_dir_all(&place).is_err() {
        return false;
    }
    for (graph, rest) in [("ring", ""), ("random", "edges = 1500")] {
        let file = place.join(format!("{graph}.toml"));
        let text = EXPERIMENT.replace("GRAPH", graph).replace("REST", rest);
        if std::fs::write(&file, text).is_err() {
            return false;
        }
        let mut transcripts: Vec<(usize, String)> = Vec::new();
        for ranks in 1..=4 {
            let Some(answer) = started(target, environment, &place, graph, ranks) else {
                return false;
            };
            // The hashes of the transcripts, wherever they stand: no JSON parser for one key.
            let hashes: Vec<&str> = answer
                .lines()
                .filter(|line| line.contains("\"transcript\""))
                .map(str::trim)
                .collect();
            let figure = |key: &str| {
                answer
                    .lines()
                    .find(|l| l.contains(key))
                    .unwrap_or_default()
                    .trim()
                    .trim_end_matches(',')
                    .to_owned()
            };
            eprintln!(
                "{graph}, {ranks} processes: {}, {}",
                figure("\"halo_bytes\""),
                figure("\"seconds\"")
            );
            transcripts.push((ranks, hashes.concat()));
        }
        if transcripts[0].1.is_empty() || transcripts.iter().any(|t| t.1 != transcripts[0].1) {
            eprintln!("── the transcripts of {graph} differ: {transcripts:?}");
            return false;
        }
        eprintln!("{graph}: the transcripts of 1, 2, 3 and 4 processes are the same\n");
    }
    died(target, environment, &place)
        && stopped(target, environment, &place)
        && own_files(target, environment, &place)
        && without_the_abi(target, &place)
}

fn command(target: &Path, environment: &Path, place: &Path, ranks: usize) -> Command {
    let mut command = Command::new(environment.join("bin/mpirun"));
    let library = environment.join("lib/libmpi_abi.so.1");
    command
        .args(["-n", &ranks.to_string()])
        .arg(target.join("debug/consenso"))
        .arg("run")
        .current_dir(place);
    command.env("CONSENSO_MPI", library);
    command
}

fn started(
    target: &Path,
    environment: &Path,
    place: &Path,
    graph: &str,
    ranks: usize,
) -> Option<String> {
    let mut run = command(target, environment, place, ranks);
    run.args([
        &format!("{graph}.toml"),
        "--json",
        "--threads",
        "1",
        "--out",
        &format!("{graph}-{ranks}"),
    ]);
    let output = run.output().ok()?;
    if !output.status.success() {
        eprintln!("── {ranks} processes failed:\n{}", String::from_utf8_lossy(&output.stderr));
        return None;
    }
    String::from_utf8(output.stdout).ok()
}

/// A rank that fails ends the job, with a message and a code, instead of leaving the others
/// waiting.
fn died(target: &Path, environment: &Path, place: &Path) -> bool {
    let mut run = command(target, environment, place, 3);
    // A start of one's own is something such a run refuses, and it finds out when all have joined.
    run.args(["ring.toml", "--set", "start=0.5", "--threads", "1"]);
    let Ok(output) = run.output() else { return false };
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = !output.status.success() && text.contains("of 3: error:");
    eprintln!("a rank that fails ends the job: {}", if told { "yes" } else { "NO" });
    if !told {
        eprintln!("{text}");
    }
    told
}

/// The hashes of the transcripts in an answer, wherever they stand: no JSON parser for one key.
fn transcripts(answer: &[u8]) -> String {
    let text = String::from_utf8_lossy(answer);
    let lines = text.lines().filter(|line| line.contains("\"transcript\""));
    // Whether a comma follows depends on what comes after it in the file.
    lines.map(|line| line.trim().trim_end_matches(',')).collect()
}

/// Two processes whose time is up stop at the same round and go on from there; three do not go on
/// from what two saved, and say so.
fn stopped(target: &Path, environment: &Path, place: &Path) -> bool {
    let long = [
        "ring.toml",
        "--set",
        "data.agents=100",
        "--set",
        "algorithm.rounds=4000",
        "--threads",
        "1",
    ];
    let run = |ranks: usize, more: &[&str]| {
        command(target, environment, place, ranks).args(long).args(more).arg("--json").output().ok()
    };
    let again = ["--out", "stopped", "--resume"];
    let (Some(whole), Some(limited)) =
        (run(2, &["--out", "whole"]), run(2, &["--out", "stopped", "--time-limit", "1s"]))
    else {
        return false;
    };
    let text = String::from_utf8_lossy(&limited.stderr).into_owned();
    let told =
        !limited.status.success() && text.contains("with --resume, on 2 processes again, goes on");
    let (Some(three), Some(resumed)) = (run(3, &again), run(2, &again)) else { return false };
    let three = String::from_utf8_lossy(&three.stderr).into_owned();
    let refused = three.contains("was saved by 2 processes, and there are 3 now");
    let went_on = String::from_utf8_lossy(&resumed.stderr).contains("going on:");
    let hashes = transcripts(&whole.stdout);
    let same = !hashes.is_empty() && hashes == transcripts(&resumed.stdout);
    let good = told && refused && went_on && same;
    eprintln!(
        "two processes stop when their time is up and go on with the same transcript: {}",
        if good { "yes" } else { "NO" }
    );
    if !good {
        eprintln!(
            "told {told}, refused {refused}, went on {went_on}, same {same}\n{text}\n{three}"
        );
        eprintln!("{}", String::from_utf8_lossy(&resumed.stderr));
    }
    good
}

/// Where every file is an agent, a process reads the files of its own agents and no others: in the
/// folder of each those of the other are no records.
fn own_files(target: &Path, environment: &Path, place: &Path) -> bool {
    let schema = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 120\n\
                  [[column]]\nname = \"ill\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n";
    let experiment = "name = \"own\"\nseed = 2\nruns = 1\n[data]\npath = \"site-*.csv\"\nschema = \"schema.toml\"\nencoding = \"one-hot\"\n\
                      [graph]\nkind = \"ring\"\n[privacy]\nepsilon = 2.0\ndelta = 1e-5\n[[algorithm]]\nkind = \"dgd\"\nrounds = 20\n";
    let table = |file: u32| {
        let rows = (0..40 + 10 * file)
            .map(|i| (i * 7 + file, if (i + file).is_multiple_of(3) { "yes" } else { "no" }));
        rows.fold("age,ill\n".to_owned(), |text, (age, ill)| {
            text + &format!("{},{ill}\n", 20 + age % 60)
        })
    };
    // A ring of four on two processes: the first two files are rank 0's.
    let folders = [("all", 0..4), ("rank-0", 0..2), ("rank-1", 2..4)];
    for (name, readable) in folders {
        let folder = place.join("own").join(name);
        let written = || -> std::io::Result<()> {
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("schema.toml"), schema)?;
            std::fs::write(folder.join("own.toml"), experiment)?;
            (0..4).try_for_each(|file| {
                let text = if readable.contains(&file) {
                    table(file)
                } else {
                    "somebody else's\n".to_owned()
                };
                std::fs::write(folder.join(format!("site-{file}.csv")), text)
            })
        };
        if written().is_err() {
            return false;
        }
    }
    let consenso = target.join("debug/consenso");
    let mut good = true;
    for more in ["", "--stream"] {
        let run = |ranks: &str, folder: &str| {
            // Every process works in the folder of its own rank.
            let line = format!(
                "cd own/{folder} && exec {} run own.toml {more} --json --threads 1 --out ../../own-{ranks}{more}",
                consenso.display()
            );
            let mut run = Command::new(environment.join("bin/mpirun"));
            run.args(["-n", ranks, "sh", "-c", &line]).current_dir(place);
            run.env("CONSENSO_MPI", environment.join("lib/libmpi_abi.so.1")).output().ok()
        };
        let (Some(one), Some(two)) = (run("1", "all"), run("2", "rank-$PMI_RANK")) else {
            return false;
        };
        let hashes = transcripts(&one.stdout);
        let same = !hashes.is_empty() && hashes == transcripts(&two.stdout);
        if !same {
            eprintln!(
                "{}{}",
                String::from_utf8_lossy(&one.stderr),
                String::from_utf8_lossy(&two.stderr)
            );
        }
        good &= same;
    }
    eprintln!(
        "a process reads only the files of its own agents: {}",
        if good { "yes" } else { "NO" }
    );
    good
}

/// The MPI of this machine, if there is one: what `deploy/mpi/abi.c` makes of it gives the
/// transcript of the other.
fn without_the_abi(target: &Path, place: &Path) -> bool {
    let library = place.join("libconsenso_mpi.so");
    let mut compile = Command::new("mpicc");
    compile.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&library);
    compile.arg(root().join("deploy/mpi/abi.c")).arg("-ldl");
    if Command::new("mpicc").arg("--version").output().is_err() {
        eprintln!("there is no mpicc here: deploy/mpi/abi.c is not checked");
        return true;
    }
    let mut run = Command::new("mpirun");
    run.args(["-n", "2"]).arg(target.join("debug/consenso")).current_dir(place);
    run.args(["run", "ring.toml", "--json", "--threads", "1", "--out", "ring-other"]);
    run.env("CONSENSO_MPI", &library).env("OMPI_MCA_rmaps_base_oversubscribe", "1");
    run.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let output = if succeeds(&mut compile) { run.output().ok() } else { None };
    let record = std::fs::read(place.join("ring-1/record.json")).unwrap_or_default();
    let good = output.as_ref().is_some_and(|o| {
        !transcripts(&o.stdout).is_empty() && transcripts(&o.stdout) == transcripts(&record)
    });
    eprintln!(
        "an MPI without the standard ABI, by deploy/mpi/abi.c: {}",
        if good { "the same" } else { "NOT the same" }
    );
    if !good {
        eprintln!(
            "{}",
            output.map(|o| String::from_utf8_lossy(&o.stderr).into_owned()).unwrap_or_default()
        );
    }
    good
}
