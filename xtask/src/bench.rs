//! `cargo xtask bench`: measurements as ratios against floors and peers, all in one run on one
//! machine.

use crate::{cargo, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What each part measures.
const PARTS: [(&str, &str); 11] = [
    (
        "commands",
        "what users start: wall time, processor time, and how busy that keeps the threads",
    ),
    (
        "files",
        "drafting a schema of a large table, checking it, a private run on it and fits from Python, beside pandas, polars and scikit-learn",
    ),
    (
        "rounds",
        "how many exchanges of messages a private run takes, what one costs, and what more or fewer are worth",
    ),
    (
        "agents",
        "a round by the number of agents, held and streamed, on one process and several; with --million to 10^7",
    ),
    (
        "simulate",
        "rounds of the simulator against numpy, gradients and large networks against memory bandwidth",
    ),
    ("noise", "exact noise against an unsafe sampler and against opendp's"),
    ("accounting", "composition and calibration against dp-accounting"),
    (
        "utility",
        "what models are worth under a budget: ours, a trusted curator's, other programs'; writes docs/utility.md; --school=school.mat adds that set",
    ),
    ("network", "a round of the real network against a round trip of its transport"),
    (
        "questions",
        "answers beside the same mechanism with a curator, OpenDP and diffprivlib, and how often intervals cover; --draws=N, --program=PATH",
    ),
    (
        "inference",
        "how often intervals under noise cover, and how wide they are; with --quick 20 studies a cell, --studies=N, --from=SEED, --cell=NAME",
    ),
];

/// Runs the named parts, or all of them.
pub(crate) fn run(arguments: &[String]) -> bool {
    let flags: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|a| a.starts_with("--")).collect();
    let names: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    if let Some(unknown) = names.iter().find(|n| PARTS.iter().all(|p| p.0 != **n)) {
        eprintln!("there is no bench \"{unknown}\"; there are");
        PARTS.iter().for_each(|(name, about)| eprintln!("  {name:12} {about}"));
        return false;
    }
    let wanted = |name: &str| names.is_empty() || names.contains(&name);
    let mut passed = true;
    say(&machine());
    if wanted("commands") {
        passed &= commands();
    }
    if wanted("files") {
        passed &= files();
    }
    if wanted("rounds") {
        passed &= rounds();
    }
    if wanted("agents") {
        passed &= agents(flags.contains(&"--million"));
    }
    if wanted("simulate") {
        passed &= simulate(flags.contains(&"--million"));
    }
    if wanted("noise") {
        passed &= example("consenso-oracles", "bench_noise", &[]).is_some_and(|out| {
            say(&format!("\nExact noise\n{out}"));
            true
        });
    }
    if wanted("accounting") {
        passed &= accounting();
    }
    // It takes a quarter of an hour and writes a page of the guide, so it is run by name.
    if names.contains(&"utility") {
        let program = flags.iter().find_map(|flag| flag.strip_prefix("--program="));
        passed &= crate::utility::run(
            flags.contains(&"--quick"),
            flags.contains(&"--development"),
            program,
            flags.iter().find_map(|flag| flag.strip_prefix("--school=")),
        );
    }
    if wanted("network") {
        passed &= network();
    }
    // Thousands of questionnaires, so it is run by name.
    if names.contains(&"questions") {
        passed &= questions(
            flags.iter().find_map(|f| f.strip_prefix("--draws=")).unwrap_or("200"),
            flags.iter().find_map(|f| f.strip_prefix("--program=")),
        );
    }
    // Minutes of simulated studies, so it is run by name.
    if names.contains(&"inference") {
        let flags: Vec<&str> = flags
            .iter()
            .copied()
            .filter(|f| {
                *f == "--quick"
                    || f.starts_with("--studies=")
                    || f.starts_with("--from=")
                    || f.starts_with("--cell=")
            })
            .collect();
        passed &= example("consenso-engine", "bench_inference", &flags).is_some_and(|out| {
            say(&format!("\nIntervals under noise\n{out}"));
            true
        });
    }
    passed
}

/// The processor, its threads and its caches: figures mean nothing without them.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let field = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown").to_owned()
    };
    let flags = field("flags");
    let sets: Vec<&str> = ["avx2", "avx512f", "asimd"]
        .into_iter()
        .filter(|set| flags.split(' ').any(|flag| flag == *set))
        .collect();
    let caches: Vec<String> = (0..8)
        .filter_map(|index| {
            let part = |name: &str| {
                let text = read(&format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}"));
                (!text.is_empty()).then(|| text.trim().to_owned())
            };
            let kind = part("type").filter(|kind| kind != "Instruction")?;
            Some(format!("L{} {} ({kind})", part("level")?, part("size")?))
        })
        .collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let load = read("/proc/loadavg");
    format!(
        "{}, {threads} threads, {}; caches {}; others' load when it began {}",
        field("model name"),
        sets.join(" "),
        caches.join(", "),
        load.split(' ').next().unwrap_or("unknown")
    )
}

/// Processor time of children that have ended, in seconds, as Linux counts it.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold anything; the 14th and 15th field after it are ours, in
    // hundredths.
    let fields: Vec<f64> = text
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    fields.get(13..15).map_or(f64::NAN, |both| both.iter().sum::<f64>() / 100.0)
}

/// The released command and a folder for what it writes.
fn released() -> Option<(PathBuf, PathBuf)> {
    eprintln!("── consenso, released");
    output(cargo().args(["build", "--quiet", "--release", "-p", "consenso-cli"]))?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let place = target.join("bench-runs");
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).ok()?;
    Some((target.join("release").join("consenso"), place))
}

/// Answers under noise beside those of a curator and of other libraries, as a table.
fn questions(draws: &str, program: Option<&str>) -> bool {
    let place = root().join("target").join("bench-questions");
    let _ = std::fs::remove_dir_all(&place);
    let program = match program {
        Some(program) => PathBuf::from(program),
        None => match released() {
            Some((program, _)) => program,
            None => return false,
        },
    };
    let packages =
        ["numpy", "opendp==0.16.0", "diffprivlib==0.6.6", "scikit-learn==1.5.2", "zstandard"];
    let Some(python) = python("bench-dp", &packages) else { return false };
    let script = root().join("benches").join("questions.py");
    let found =
        output(Command::new(python).arg(script).arg(program).arg(root()).arg(place).arg(draws));
    let Some(found) = found else { return false };
    let figure = |line: &str, key: &str| match number(line, key) {
        x if x.is_finite() => format!("{x:9.4}"),
        _ => format!("{:>9}", "–"),
    };
    say(
        "\nAnswers under noise: mean absolute errors, coverage of 95 % intervals, error that `plan` expects and its range",
    );
    let keys = [
        "epsilon",
        "masked",
        "curator",
        "plain",
        "opendp",
        "diffprivlib",
        "expected",
        "least",
        "most",
        "coverage",
    ];
    for line in found.lines() {
        let cells: Vec<String> = keys.iter().map(|k| format!("{k} {}", figure(line, k))).collect();
        let name = line.split('"').skip(3).step_by(4).take(2).collect::<Vec<_>>().join(", ");
        say(&format!("{name:45} {}", cells.join("  ")));
    }
    true
}

/// Wall and processor seconds of a command, and what it printed.
fn timed(command: &mut Command) -> Option<(f64, f64, String)> {
    let (before, began) = (processor_time(), std::time::Instant::now());
    let out = output(command.stdin(std::process::Stdio::null()))?;
    Some((began.elapsed().as_secs_f64(), processor_time() - before, out))
}

/// What users start. A loaded machine takes wall time away and leaves processor time as it is, so
/// the share of the threads says something on a quiet one only.
fn commands() -> bool {
    let Some((consenso, place)) = released() else { return false };
    say("\nCommands: seconds, and the share of threads × wall that they compute");
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let all: [(&str, &[&str]); 4] = [
        ("run", &["run"]),
        ("run frontier", &["run", "frontier"]),
        ("run distributed-noise", &["run", "distributed-noise"]),
        ("reproduce 2", &["reproduce", "2"]),
    ];
    for (name, arguments) in all {
        let mut command = Command::new(&consenso);
        command
            .args(arguments)
            .args(["--json", "--out", &name.replace(' ', "-")])
            .current_dir(&place);
        let Some((wall, processor, _)) = timed(&mut command) else { return false };
        let share = 100.0 * processor / (wall * threads);
        say(&format!(
            "  {name:24} wall {wall:7.2}   processor {processor:7.2}   {share:4.0} % of the threads"
        ));
    }
    true
}

/// Two million records of six numbers, six categories and a label, as a hospital would export them.
fn write_table(path: &Path) -> std::io::Result<u64> {
    use std::io::Write as _;
    let mut state = 1_u64;
    let mut below = |bound: u64| {
        // Steele and Vigna's splitmix64: what the records are does not matter, that they are the
        // same in every run does.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    };
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let header =
        "age,income,bmi,pressure,cholesterol,weight,sex,school,work,region,smoking,marital,ill";
    writeln!(file, "{header}")?;
    for _ in 0..2_000_000 {
        let (sex, ill) = (["female", "male"][below(2) as usize], ["no", "yes"][below(2) as usize]);
        writeln!(
            file,
            "{},{}.{:02},{}.{},{},{}.{:03},{},{sex},school-{},work-{:02},region-{:02},{},m{},{ill}",
            18 + below(77),
            below(200_000),
            below(100),
            15 + below(30),
            below(10),
            85 + below(115),
            2 + below(7),
            below(1000),
            10_000 + below(890_000),
            below(16),
            below(14),
            below(40),
            ["never", "former", "current"][below(3) as usize],
            below(7),
        )?;
    }
    file.flush()?;
    Ok(path.metadata()?.len())
}

/// One line of a table: what was done, seconds on the clock and of the processor, bytes of memory.
struct Measured {
    name: String,
    wall: f64,
    processor: f64,
    peak: f64,
}

/// A command, measured by GNU time where there is one: what memory it had at most.
fn measured(name: &str, command: &mut Command) -> Option<Measured> {
    let mut through = Command::new("/usr/bin/time");
    through.args(["-f", "%M"]).arg(command.get_program()).args(command.get_args());
    if !Path::new("/usr/bin/time").exists() {
        let (wall, processor, _) = timed(command)?;
        return Some(Measured { name: name.into(), wall, processor, peak: f64::NAN });
    }
    let (before, began) = (processor_time(), std::time::Instant::now());
    let out = through.stdin(std::process::Stdio::null()).output().ok()?;
    let (wall, processor) = (began.elapsed().as_secs_f64(), processor_time() - before);
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        eprintln!("{said}");
        return None;
    }
    let kilobytes: f64 = said.lines().last().and_then(|l| l.parse().ok()).unwrap_or(f64::NAN);
    Some(Measured { name: name.into(), wall, processor, peak: 1024.0 * kilobytes })
}

/// Reading what people have, and a private run on it, beside what others read and fit. Processor
/// time is what a loaded machine does not change.
fn files() -> bool {
    let Some((consenso, place)) = released() else { return false };
    let (table, schema) = (place.join("table.csv"), place.join("schema.toml"));
    let Ok(bytes) = write_table(&table) else { return false };
    let (megabytes, table) = (bytes as f64 / 1e6, table.display().to_string());
    let of = schema.display().to_string();
    let study = place.join("study.toml");
    let text = format!(
        "name = \"table\"\nseed = 1\nruns = 1\n[data]\npath = {table:?}\nschema = {of:?}\nagents = 40\nhold_out = 0.1\n\
         [graph]\nkind = \"complete\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"auto\"\n"
    );
    if std::fs::write(&study, text).is_err() {
        return false;
    }
    let (study, out) = (study.display().to_string(), place.join("study").display().to_string());
    let ours: [(&str, &[&str]); 3] = [
        ("consenso data schema", &["data", "schema", &table, "--out", &of]),
        ("consenso data check", &["data", "check", &table, "--schema", &of]),
        ("consenso run, 40 sites, auto, ε = 1", &["run", &study, "--json", "--out", &out]),
    ];
    let mut lines = Vec::new();
    for (name, arguments) in ours {
        let Some(line) = measured(name, Command::new(&consenso).args(arguments)) else {
            return false;
        };
        lines.push(line);
        // A draft supports no claim before somebody has looked at it; these records are made up.
        if let Ok(draft) = std::fs::read_to_string(&schema) {
            let _ = std::fs::write(&schema, draft.replace("reviewed = false", "reviewed = true"));
        }
    }
    let packages = ["pandas", "polars", "pyarrow", "scikit-learn"];
    let peers = python("bench-files", &packages).and_then(|python| {
        output(Command::new(python).arg(root().join("benches").join("files.py")).arg(&table))
    });
    for line in peers.iter().flat_map(|text| text.lines()) {
        lines.push(Measured {
            name: line.split('"').nth(3).unwrap_or_default().to_owned(),
            wall: number(line, "wall"),
            processor: number(line, "processor"),
            peak: number(line, "peak"),
        });
    }
    say(&format!(
        "\n| 2 million records of 13 columns, {megabytes:.0} MB | seconds | of the processor | MB/s of the processor | memory |\n|---|---|---|---|---|"
    ));
    for Measured { name, wall, processor, peak } in lines {
        let (speed, peak) = (megabytes / processor, peak / 1e9);
        say(&format!("| {name} | {wall:.2} | {processor:.2} | {speed:.0} | {peak:.2} GB |"));
    }
    fits(&place).is_some()
}

/// Private fits of an array and of a frame from Python, beside scikit-learn's: time, and memory as
/// a multiple of the rows that are given.
fn fits(place: &Path) -> Option<()> {
    eprintln!("── the Python package, released");
    output(cargo().args(["build", "--quiet", "--release", "-p", "consenso-python"]))?;
    let target = place.parent()?.join("release");
    let package = place.join("python").join("consenso");
    std::fs::create_dir_all(&package).ok()?;
    for file in std::fs::read_dir(root().join("crates/consenso-python/python/consenso")).ok()? {
        let file = file.ok()?.path();
        if file.extension().is_some_and(|extension| extension == "py") {
            std::fs::copy(&file, package.join(file.file_name()?)).ok()?;
        }
    }
    let (before, after) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let library = target.join(format!("{before}consenso_core{after}"));
    std::fs::copy(library, package.join("_core.abi3.so")).ok()?;
    let python = python("bench-files", &["numpy", "pandas", "scikit-learn"])?;
    let script = root().join("benches").join("fit.py");
    let found = output(Command::new(python).arg(script).env("PYTHONPATH", place.join("python")))?;
    say(
        "\n| fit of 2 million rows of ten numbers, 40 sites | seconds | of the processor | memory | beyond the rows, as a multiple of them |\n|---|---|---|---|---|",
    );
    for line in found.lines() {
        let n = |key: &str| number(line, key);
        say(&format!(
            "| {} | {:.2} | {:.2} | {:.2} GB | {:.1} |",
            line.split('"').nth(3).unwrap_or_default(),
            n("wall"),
            n("processor"),
            n("peak") / 1e9,
            n("beyond"),
        ));
    }
    Some(())
}

/// Private runs on scouted columns: how many exchanges they take, what one costs, and what comes
/// out, as they are by default and with fewer or more steps.
fn rounds() -> bool {
    let Some((consenso, place)) = released() else { return false };
    say("\nRounds: adult, 10 sites of 3,000 records, a complete graph, scouted columns, two runs");
    let (file, folder) = (place.join("rounds.toml"), place.join("rounds"));
    for epsilon in ["1.0", "3.0"] {
        for (kind, steps) in [
            ("dgd", None),
            ("dgd", Some(48)),
            ("dgd", Some(480)),
            ("admm", None),
            ("admm", Some(100)),
        ] {
            let chosen = steps.map_or(String::new(), |steps| format!("rounds = {steps}\n"));
            let text = format!(
                "name = \"rounds\"\nruns = 2\n[data]\nsource = \"adult\"\nagents = 10\nrecords_per_agent = 3000\nencoding = \"scouted\"\n\
                 [graph]\nkind = \"complete\"\n[privacy]\nepsilon = {epsilon}\ndelta = 1e-6\n[[algorithm]]\nkind = \"{kind}\"\n{chosen}"
            );
            if std::fs::write(&file, text).is_err() {
                return false;
            }
            let _ = std::fs::remove_dir_all(&folder);
            let mut command = Command::new(&consenso);
            command.arg("run").arg(&file).arg("--json").arg("--out").arg(&folder);
            let Some(out) = output(&mut command) else { return false };
            let Some(made) = out.split("\"algorithms\"").nth(1) else { return false };
            let (rounds, auc) = (number(made, "rounds"), number(made, "auc"));
            let each = 1000.0 * number(made, "seconds") / (2.0 * rounds);
            let steps = steps.map_or("by default".to_owned(), |steps| format!("{steps} steps"));
            say(&format!(
                "  ε = {epsilon} {kind:5} {steps:10}   {rounds:4.0} rounds   {each:6.2} ms each   AUC {auc:.4}"
            ));
        }
    }
    say("\nA round without privacy, 100 agents of 100 records, beside decent-bench 0.3.0");
    let packages = ["decent-bench==0.3.0", "networkx", "numpy"];
    let beside = newest_python("bench-decent", &packages).and_then(|python| {
        let script = root().join("benches").join("beside_decent_bench.py");
        output(Command::new(python).arg(script).arg(&consenso))
    });
    say(beside.as_deref().unwrap_or("  not measured: it needs Python 3.13"));
    true
}

/// One run of so many agents on a ring: ten records of 14 features each, Gaussian noise, no gossip.
fn ring(agents: u64, rounds: u32) -> String {
    format!(
        "name = \"ring\"\nseed = 7\nruns = 1\ntrace_every = 1000000\n[data]\nsource = \"logistic\"\nagents = {agents}\nrecords_per_agent = 10\ndim = 14\n\
         [objective]\nloss = \"logistic\"\nregularization = 1e-3\n[graph]\nkind = \"ring\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n\
         [[algorithm]]\nkind = \"dgd\"\nrounds = {rounds}\ngossip = 0\n"
    )
}

/// A way to run a simulation.
struct Way {
    name: &'static str,
    ranks: usize,
    streamed: bool,
    /// The largest power of ten of agents: held ones take some 3.5 kB each.
    largest: u32,
}

/// The cost of a round by the number of agents: from the difference of two numbers of rounds, so
/// that what comes before and after does not count.
fn agents(million: bool) -> bool {
    let Some((consenso, place)) = released() else { return false };
    let environment = consenso.parent().and_then(Path::parent).map(|target| target.join("mpi"));
    let environment = environment.filter(|e| e.join("bin").join("mpirun").exists());
    say(
        "\nRing of N agents, 10 records of 14 features each, noise: a round, and what an agent takes of a processor in it",
    );
    if environment.is_none() {
        say(
            "  no environment with MPICH: `cargo xtask mpi` makes one, and processes are measured then",
        );
    }
    let way = |name, ranks, streamed, largest| Way { name, ranks, streamed, largest };
    let ways = [
        way("streamed, all threads", 0, true, 7),
        way("held, 1 process of one thread", 1, false, 6),
        way("held, 2 processes", 2, false, 6),
        way("held, 3 processes", 3, false, 6),
        way("held, 4 processes", 4, false, 6),
    ];
    for power in 3..=if million { 7 } else { 5 } {
        let agents = 10u64.pow(power);
        let few: u32 = if power >= 7 { 1 } else { 2 };
        let more = few + (3_000_000 / agents).clamp(2, 400) as u32;
        for way in
            ways.iter().filter(|w| power <= w.largest && (w.ranks == 0 || environment.is_some()))
        {
            let once = |rounds: u32| {
                let file = place.join(format!("ring-{agents}-{rounds}.toml"));
                std::fs::write(&file, ring(agents, rounds)).ok()?;
                let mut command = match environment.as_ref().filter(|_| way.ranks > 0) {
                    Some(environment) => {
                        let mut command = Command::new(environment.join("bin").join("mpirun"));
                        command.env("LD_LIBRARY_PATH", environment.join("lib"));
                        command
                            .arg("-n")
                            .arg(way.ranks.to_string())
                            .arg(&consenso)
                            .args(["--json", "run"]);
                        command.args(["--threads", "1"]);
                        command
                    }
                    None => {
                        let mut command = Command::new(&consenso);
                        command.args(["--json", "run"]);
                        command
                    }
                };
                if way.streamed {
                    command.arg("--stream");
                }
                let out = place.join(format!("{agents}-{rounds}-{}-{}", way.ranks, way.streamed));
                timed(command.arg(file).arg("--out").arg(out))
            };
            let (Some(short), Some(long)) = (once(few), once(more)) else { return false };
            let rounds = f64::from(more - few);
            let (wall, processor) = ((long.0 - short.0) / rounds, (long.1 - short.1) / rounds);
            say(&format!(
                "  N = 10^{power}   {:30} {:10.2} ms   {:6.0} ns   {:6.0} bytes between processes",
                way.name,
                1e3 * wall,
                1e9 * processor / agents as f64,
                number(&long.2, "halo_bytes")
            ));
        }
    }
    true
}

pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// What a released example printed.
fn example(package: &str, name: &str, arguments: &[&str]) -> Option<String> {
    eprintln!("── {name}");
    let mut command = cargo();
    command
        .args(["run", "--quiet", "--release", "-p", package, "--example", name, "--"])
        .args(arguments);
    output(&mut command)
}

pub(crate) fn output(command: &mut Command) -> Option<String> {
    let out = command.stderr(std::process::Stdio::inherit()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

/// A Python with the given packages in a throw-away environment of this name, or nothing.
pub(crate) fn python(name: &str, packages: &[&str]) -> Option<PathBuf> {
    environment("python3", name, packages)
}

/// The same with Python 3.13, where there is one.
fn newest_python(name: &str, packages: &[&str]) -> Option<PathBuf> {
    environment("python3.13", name, packages)
}

fn environment(interpreter: &str, name: &str, packages: &[&str]) -> Option<PathBuf> {
    let home = root().join("target").join(name);
    let python = home.join("bin").join("python");
    if !python.exists() {
        output(Command::new(interpreter).args(["-m", "venv"]).arg(&home))?;
    }
    eprintln!("── pip install {}", packages.join(" "));
    output(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(packages),
    )?;
    Some(python)
}

/// The number behind `"key":` in a JSON line.
pub(crate) fn number(line: &str, key: &str) -> f64 {
    let start = line.find(&format!("\"{key}\":")).map_or(line.len(), |at| at + key.len() + 3);
    let digits: String = line[start..]
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || "+-.eE".contains(*c))
        .collect();
    digits.parse().unwrap_or(f64::NAN)
}

fn simulate(million: bool) -> bool {
    let flag: &[&str] = if million { &["--million"] } else { &[] };
    let Some(ours) = example("consenso-engine", "bench_simulate", flag) else { return false };
    let lines = |name: &str| {
        let tag = format!("\"name\":\"{name}\"");
        ours.lines().filter(move |l| l.contains(&tag)).map(str::to_owned).collect::<Vec<_>>()
    };
    let example_b = lines("example-b").remove(0);
    let (open, noise, filter) = (
        number(&example_b, "open_ms"),
        number(&example_b, "noise_ms"),
        number(&example_b, "filter_ms"),
    );
    say("\nAlgorithm 1, N = 100, E = 200, b = 100, d = 14, 10 runs: milliseconds a round");
    let numpy = python("bench-python", &["numpy"])
        .and_then(|python| {
            output(Command::new(python).arg(root().join("benches").join("simulate.py")))
        })
        .map(|out| (number(&out, "ms_per_round"), number(&out, "tuned_ms_per_round")));
    match numpy {
        Some((plain, tuned)) => {
            say(&format!("  numpy, batched matmul  {plain:8.4}   {:5.1}× ours", plain / noise));
            say(&format!("  numpy, tuned by hand   {tuned:8.4}   {:5.1}× ours", tuned / noise));
        }
        None => say("  numpy                  not to be had: no Python 3 here"),
    }
    say(&format!("  consenso               {noise:8.4}"));
    let floor = number(&example_b, "floor_ms");
    say(&format!(
        "  floor                  {floor:8.4}   {:5.2}× ours: gradients as in the first-level cache, exact noise",
        floor / noise
    ));
    say(&format!("  without noise          {open:8.4}   {:5.2}× ours", open / noise));
    say(&format!("  with a Rényi filter    {filter:8.4}   {:5.2}× ours", filter / noise));
    say(
        "\nLogistic gradient, one thread: nanoseconds a row (d = 106: six numbers and eight categories, kept as codes)",
    );
    for line in lines("gradient") {
        let (streamed, floor) = (number(&line, "streamed_ns"), number(&line, "floor_ns"));
        say(&format!(
            "  d = {:<5} from memory {streamed:8.1}   floor {floor:8.1}   {:5.2}× floor   in cache {:8.1}",
            number(&line, "dim"),
            streamed / floor,
            number(&line, "cached_ns")
        ));
    }
    for line in lines("high-dimension") {
        let (ms, memory, noise) =
            (number(&line, "ms"), number(&line, "floor_ms"), number(&line, "noise_ms"));
        let floor = memory + noise;
        say(
            "\nd = 100,000, 20 non-zeros a row, 10 agents of 3,000 records, with noise, one thread: a round",
        );
        say(&format!(
            "  {ms:10.3} ms   floor {floor:9.3} ms ({memory:.3} of memory, {noise:.3} of exact noise)   {:5.2}× floor",
            ms / floor
        ));
    }
    say("\nAgents of 100 records, d = 14, with noise, two threads: a round");
    for line in lines("scale") {
        let (ms, floor) = (number(&line, "ms"), number(&line, "floor_ms"));
        say(&format!(
            "  N = {:<8} {ms:10.3} ms   memory floor {floor:9.3} ms   {:5.2}× floor   {:6.0} ns an agent",
            number(&line, "agents"),
            ms / floor,
            number(&line, "ns_per_agent")
        ));
    }
    true
}

fn accounting() -> bool {
    let Some(ours) = example("consenso-engine", "bench_accounting", &[]) else { return false };
    let peer = python("bench-python", &["dp-accounting==0.6.0"])
        .and_then(|python| {
            output(Command::new(python).arg(root().join("benches").join("accounting.py")))
        })
        .unwrap_or_default();
    say("\nAccounting: seconds, and dp-accounting 0.6.0 beside them");
    let task = |line: &str| {
        line.split("\"task\":").nth(1).and_then(|r| r.split('"').nth(1)).unwrap_or("").to_owned()
    };
    for line in ours.lines() {
        let name = task(line);
        let mine = number(line, "seconds");
        let theirs = peer.lines().find(|l| task(l) == name).map(|l| number(l, "seconds"));
        let beside =
            theirs.map_or_else(|| "–".into(), |t| format!("{t:10.4}   {:8.0}× ours", t / mine));
        say(&format!("  {name:34} {mine:10.6}   {beside}"));
    }
    true
}

/// Two sites in one process, over loopback: what the node adds to what TLS and HTTP/2 cost anyway.
fn network() -> bool {
    let Some(out) = of_node("rounds_in_round_trips_of_the_transport") else { return false };
    say(
        "\nA round (charge, commit, exchange; drafting taken off) over the transport's round trip of the same bytes: microseconds",
    );
    let mut seen = 0;
    for line in out.lines().filter(|line| line.starts_with("{\"dim\"")) {
        let n = |key: &str| number(line, key);
        let (trip, fsync, round) = (n("trip_us"), n("fsync_us"), n("round_us") - n("draft_us"));
        let place = if line.contains("\"memory\"") { "in memory" } else { "on disk  " };
        let dim = n("dim");
        say(&format!(
            "  d = {dim:<6} {place}  round {round:8.1}   of it the commit {:8.1}   round trip {trip:7.1}   {:6.2}× ({:.2} to {:.2})   \
             one fsync {fsync:7.1}, without it {:6.2}×",
            n("commit_us"),
            n("ratio"),
            n("best"),
            n("worst"),
            (round - fsync) / trip
        ));
        seen += 1;
    }
    let Some(out) = of_node("rounds_of_complete_sites") else { return false };
    for line in out.lines().filter(|line| line.starts_with("{\"sites\"")) {
        let n = |key: &str| number(line, key);
        say(&format!(
            "  {} sites, all neighbours of each other, as threads of one process: {:.1} rounds a second, {:.0} µs of a processor a message",
            n("sites"),
            n("rounds_per_second"),
            n("processor_us_per_message"),
        ));
        seen += 1;
    }
    seen > 2
}

/// What a measurement among the node's tests prints.
fn of_node(name: &str) -> Option<String> {
    let name = format!("node::tests::{name}");
    eprintln!("── {name}");
    let mut command = cargo();
    command.args(["test", "--quiet", "--release", "-p", "consenso-node", "--lib", "--"]);
    output(command.args(["--ignored", "--exact", "--nocapture", &name]))
}
