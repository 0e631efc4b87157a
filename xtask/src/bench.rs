//! `cargo xtask bench`: measurements as ratios against floors and peers, all in one run on one machine.

use crate::{cargo, root};
use std::path::PathBuf;
use std::process::Command;

/// What each part measures.
const PARTS: [(&str, &str); 5] = [
    (
        "simulate",
        "rounds of the simulator against numpy, gradients and large networks against memory bandwidth",
    ),
    ("noise", "exact noise against an unsafe sampler and against opendp's"),
    ("accounting", "composition and calibration against dp-accounting"),
    (
        "utility",
        "what models are worth under a budget: ours, a trusted curator's, other programs'; writes docs/utility.md",
    ),
    ("network", "a round of the real network against a round trip of its transport"),
];

/// Runs the named parts, or all of them.
pub(crate) fn run(arguments: &[String]) -> bool {
    let flags: Vec<&str> = arguments.iter().map(String::as_str).filter(|a| a.starts_with("--")).collect();
    let names: Vec<&str> = arguments.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    if let Some(unknown) = names.iter().find(|n| PARTS.iter().all(|p| p.0 != **n)) {
        eprintln!("there is no bench \"{unknown}\"; there are");
        PARTS.iter().for_each(|(name, about)| eprintln!("  {name:12} {about}"));
        return false;
    }
    let wanted = |name: &str| names.is_empty() || names.contains(&name);
    let mut passed = true;
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
        passed &= crate::utility::run(flags.contains(&"--quick"), flags.contains(&"--development"), program);
    }
    if wanted("network") {
        passed &= network();
    }
    passed
}

pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// What a released example printed.
fn example(package: &str, name: &str, arguments: &[&str]) -> Option<String> {
    eprintln!("── {name}");
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "-p", package, "--example", name, "--"]).args(arguments);
    output(&mut command)
}

pub(crate) fn output(command: &mut Command) -> Option<String> {
    let out = command.stderr(std::process::Stdio::inherit()).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

/// A Python with the given packages in a throw-away environment of this name, or nothing.
pub(crate) fn python(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let home = root().join("target").join(name);
    let python = home.join("bin").join("python");
    if !python.exists() {
        output(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
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
    let Some(ours) = example("consenso", "bench_simulate", flag) else { return false };
    let lines = |name: &str| {
        let tag = format!("\"name\":\"{name}\"");
        ours.lines().filter(move |l| l.contains(&tag)).map(str::to_owned).collect::<Vec<_>>()
    };
    let example_b = lines("example-b").remove(0);
    let (open, noise, filter) =
        (number(&example_b, "open_ms"), number(&example_b, "noise_ms"), number(&example_b, "filter_ms"));
    say("\nAlgorithm 1, N = 100, E = 200, b = 100, d = 14, 10 runs: milliseconds a round");
    let numpy = python("bench-python", &["numpy"])
        .and_then(|python| output(Command::new(python).arg(root().join("benches").join("simulate.py"))))
        .map(|out| (number(&out, "ms_per_round"), number(&out, "tuned_ms_per_round")));
    match numpy {
        Some((plain, tuned)) => {
            say(&format!("  numpy, batched matmul  {plain:8.4}   {:5.1}× ours", plain / noise));
            say(&format!("  numpy, tuned by hand   {tuned:8.4}   {:5.1}× ours", tuned / noise));
        }
        None => say("  numpy                  not to be had: no Python 3 here"),
    }
    say(&format!("  consenso               {noise:8.4}"));
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
        let (ms, floor) = (number(&line, "ms"), number(&line, "floor_ms"));
        say("\nd = 100,000, 20 non-zeros a row, 10 agents of 3,000 records, with noise, one thread: a round");
        say(&format!("  {ms:10.3} ms   memory floor {floor:9.3} ms   {:5.2}× floor", ms / floor));
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
    let Some(ours) = example("consenso", "bench_accounting", &[]) else { return false };
    let peer = python("bench-python", &["dp-accounting==0.6.0"])
        .and_then(|python| output(Command::new(python).arg(root().join("benches").join("accounting.py"))))
        .unwrap_or_default();
    say("\nAccounting: seconds, and dp-accounting 0.6.0 beside them");
    let task = |line: &str| {
        line.split("\"task\":").nth(1).and_then(|r| r.split('"').nth(1)).unwrap_or("").to_owned()
    };
    for line in ours.lines() {
        let name = task(line);
        let mine = number(line, "seconds");
        let theirs = peer.lines().find(|l| task(l) == name).map(|l| number(l, "seconds"));
        let beside = theirs.map_or_else(|| "–".into(), |t| format!("{t:10.4}   {:8.0}× ours", t / mine));
        say(&format!("  {name:34} {mine:10.6}   {beside}"));
    }
    true
}

/// Two sites in one process, over loopback: what the node adds to what TLS and HTTP/2 cost anyway.
fn network() -> bool {
    let name = "node::tests::rounds_in_round_trips_of_the_transport";
    eprintln!("── {name}");
    let mut command = cargo();
    command.args(["test", "--quiet", "--release", "-p", "consenso-node", "--lib", "--"]).args([
        "--ignored",
        "--exact",
        "--nocapture",
        name,
    ]);
    let Some(out) = output(&mut command) else { return false };
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
    seen > 0
}
