//! `cargo xtask bench utility`: what models are worth under a budget, beside what others reach on
//! the same records.
//!
//! Ours runs with public defaults alone (`kind = "auto"`), five runs each, and is judged by the
//! agents' own models. Beside it stand the same method for a trusted curator who has all records
//! (its noise is the least that this method can have), scikit-learn without privacy, and
//! diffprivlib, a central library, where it can be installed.
//!
//! Every result is written down when it is made (`target/bench-utility/results.jsonl`), under a
//! hash of the program and of the experiment: a bench that was stopped goes on where it was, and
//! one with a changed program begins anew.

use crate::bench::{number, output, python, say};
use crate::{cargo, root};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Budgets of ours, and how many of them the others are measured at.
const EPSILONS: [f64; 5] = [0.5, 1.0, 3.0, 10.0, 100.0];
const BESIDE: usize = 3;

/// One set of records.
struct Set {
    name: String,
    /// Sites and records, in words.
    about: String,
    /// Lines of `[data]` for the sites, and for a curator who has all of it.
    sites: String,
    curator: String,
    loss: &'static str,
    metric: &'static str,
    /// What `benches/utility.py` calls these records.
    peer: String,
    /// Whether defaults were never looked at with it.
    last: bool,
    delta: f64,
}

/// Sets that no default was chosen by; everything else is for development. A set whose figures
/// led to a change moves there.
const LAST: [&str; 1] = ["modechoice"];

fn bundled() -> Vec<Set> {
    let adult = "source = \"adult\"";
    let set = |name: &str, about: &str, sites: String, curator: String| Set {
        name: name.into(),
        about: about.into(),
        sites,
        curator,
        loss: "logistic",
        metric: "auc",
        peer: name.split(' ').next().unwrap_or_default().into(),
        last: false,
        delta: 1e-6,
    };
    let curator = || format!("{adult}\nagents = 1\nrecords_per_agent = 30000");
    vec![
        set(
            "adult 10 × 3000",
            "10 equal sites",
            format!("{adult}\nagents = 10\nrecords_per_agent = 3000"),
            curator(),
        ),
        set(
            "adult 100 × 300",
            "100 equal sites",
            format!("{adult}\nagents = 100\nrecords_per_agent = 300"),
            curator(),
        ),
        set(
            "adult by occupation",
            "14 sites of 9 to 4,038",
            format!("{adult}\npartition = {{ by = \"occupation\" }}"),
            format!("{adult}\nagents = 1"),
        ),
        set(
            "adult by country",
            "41 sites of 1 to 27,504",
            format!("{adult}\npartition = {{ by = \"native-country\" }}"),
            format!("{adult}\nagents = 1"),
        ),
        set(
            "heart by centre",
            "4 hospitals, 30 to 199 patients",
            "source = \"heart-flamby\"".into(),
            "source = \"heart-flamby\"\nagents = 1".into(),
        ),
    ]
}

/// Eight sites of 20 to 10,000 records, columns of very different scale, skew and correlation,
/// labels skewed by site: two classes, five, or numbers with a long tail.
fn synthetic(place: &Path, name: &str, task: &str) -> std::io::Result<Set> {
    let folder = place.join(name.replace(' ', "-"));
    fs::create_dir_all(&folder)?;
    let mut state = 7u64;
    let mut uniform = move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let mut normal =
        move || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    let head = "a,b,c,d,e,f,site,y\n";
    let (mut train, mut test) = (head.to_owned(), head.to_owned());
    for (site, records) in [20, 50, 120, 300, 700, 1500, 4000, 10_000].into_iter().enumerate() {
        let shift = 0.7 * normal();
        for k in 0..records + records / 3 {
            let (a, b, d) = (normal(), normal(), normal());
            let (c, e) = ((0.8 * normal()).exp(), 0.8 * a + 0.6 * normal());
            let f = ["x", "y", "z", "w"][((normal().abs() * 1.5) as usize).min(3)];
            let score =
                1.2 * a - 0.8 * b + 0.5 * (c - 1.4) + 0.6 * f64::from(u8::from(f == "z")) + shift
                    - 1.0;
            let label = match task {
                "regression" => format!("{:.4}", (0.5 * score + 0.5 * normal()).exp().min(60.0)),
                "classes" => {
                    let noisy = score + normal();
                    ["a", "b", "c", "d", "e"]
                        [[-2.2, -1.2, -0.4, 0.6].iter().filter(|t| noisy > **t).count()]
                    .to_owned()
                }
                _ => if score + 1.7 * normal() > 0.0 { "yes" } else { "no" }.to_owned(),
            };
            let out = if k < records { &mut train } else { &mut test };
            let (big, small) = (5_000.0 * b + 20_000.0, 0.003 * d);
            let _ = writeln!(out, "{a:.4},{big:.1},{c:.4},{small:.6},{e:.4},{f},s{site},{label}");
        }
    }
    fs::write(folder.join("train.csv"), train)?;
    fs::write(folder.join("test.csv"), test)?;
    let mut schema = String::from("reviewed = true\n");
    for (name, low, high) in [
        ("a", -8.0, 8.0),
        ("b", -20_000.0, 80_000.0),
        ("c", 0.0, 60.0),
        ("d", -0.05, 0.05),
        ("e", -8.0, 8.0),
    ] {
        let _ = writeln!(
            schema,
            "[[column]]\nname = \"{name}\"\nkind = \"numeric\"\nmin = {low:?}\nmax = {high:?}"
        );
    }
    schema += "[[column]]\nname = \"f\"\nkind = \"categorical\"\ncategories = [\"w\", \"x\", \"y\", \"z\"]\n";
    schema += "[[column]]\nname = \"site\"\nkind = \"site\"\n[[column]]\nname = \"y\"\nkind = \"label\"\n";
    schema += match task {
        "regression" => "min = 0.0\nmax = 60.0\n",
        "classes" => "classes = [\"a\", \"b\", \"c\", \"d\", \"e\"]\n",
        _ => "classes = [\"no\", \"yes\"]\n",
    };
    fs::write(folder.join("schema.toml"), schema)?;
    Ok(of_files(&folder, name, "8 sites of 20 to 10,000", task, "site"))
}

/// A set in files.
fn of_files(folder: &Path, name: &str, about: &str, task: &str, column: &str) -> Set {
    let at = |file: &str| folder.join(file).display().to_string();
    let files = format!(
        "path = {:?}\ntest = {:?}\nschema = {:?}",
        at("train.csv"),
        at("test.csv"),
        at("schema.toml")
    );
    let (loss, metric) = match task {
        "regression" => ("ridge", "r2"),
        "classes" => ("softmax", "accuracy"),
        _ => ("logistic", "auc"),
    };
    Set {
        name: name.into(),
        about: about.into(),
        sites: format!("{files}\npartition = {{ by = \"{column}\" }}"),
        curator: format!("{files}\nagents = 1"),
        loss,
        metric,
        peer: name.into(),
        last: LAST.contains(&name),
        // As the literature on it has it.
        delta: if name == "school" { 1e-3 } else { 1e-6 },
    }
}

/// What one method reaches: AUC, accuracy, log loss, R² and the accuracy of the commonest class, by
/// name.
type Values = BTreeMap<String, f64>;

/// Figures of one set, by method and ε in thousandths (0 without privacy).
type Found = BTreeMap<(&'static str, u32), Values>;

const FIGURES: [&str; 5] = ["auc", "accuracy", "log_loss", "r2", "majority_accuracy"];

fn milli(epsilon: f64) -> u32 {
    (1000.0 * epsilon).round() as u32
}

/// The text behind `"key":` in a JSON line.
fn word<'a>(line: &'a str, key: &str) -> &'a str {
    line.split(&format!("\"{key}\": \""))
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or("")
}

/// The figures that a piece of JSON names.
fn values(text: &str) -> Values {
    FIGURES
        .iter()
        .map(|key| ((*key).to_owned(), number(text, key)))
        .filter(|(_, value)| value.is_finite())
        .collect()
}

/// A hash (FNV-1a) that is the same on every machine and in every version of Rust.
fn stamp(parts: &[&[u8]]) -> u64 {
    parts.iter().flat_map(|part| part.iter()).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Results that were made before, and the file that new ones are added to.
struct Notebook {
    file: PathBuf,
    program: u64,
    known: BTreeMap<u64, Values>,
}

impl Notebook {
    fn open(place: &Path, binary: &Path) -> Option<Self> {
        let file = place.join("results.jsonl");
        let mut known = BTreeMap::new();
        for line in fs::read_to_string(&file).unwrap_or_default().lines() {
            // A line that a stop cut off has no end.
            if let (Ok(stamp), true) =
                (u64::from_str_radix(word(line, "stamp"), 16), line.ends_with('}'))
            {
                known.insert(stamp, values(line));
            }
        }
        Some(Self { file, program: stamp(&[&fs::read(binary).ok()?]), known })
    }

    fn note(&mut self, stamp: u64, values: &Values) -> Option<()> {
        use std::io::Write as _;
        let figures: String =
            values.iter().map(|(key, value)| format!(", \"{key}\": {value:?}")).collect();
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.file).ok()?;
        writeln!(file, "{{\"stamp\": \"{stamp:016x}\"{figures}}}").ok()?;
        self.known.insert(stamp, values.clone());
        Some(())
    }
}

/// Runs everything and writes docs/utility.md and its figure; `quick` is one run each,
/// `development` leaves the last sets alone, and neither writes the page. `program` is measured
/// instead of one that is built here.
pub(crate) fn run(
    quick: bool,
    development: bool,
    program: Option<&str>,
    school: Option<&str>,
) -> bool {
    let place = root().join("target").join("bench-utility");
    if fs::create_dir_all(&place).is_err() {
        return false;
    }
    let binary = match program {
        Some(program) => PathBuf::from(program),
        None => {
            eprintln!("── cargo build --release -p consenso-cli");
            if output(cargo().args(["build", "--quiet", "--release", "-p", "consenso-cli"]))
                .is_none()
            {
                return false;
            }
            root().join("target").join("release").join("consenso")
        }
    };
    let Some(mut notebook) = Notebook::open(&place, &binary) else { return false };
    let mut sets = bundled();
    for (name, task) in
        [("synthetic", "binary"), ("five-classes", "classes"), ("long-tailed", "regression")]
    {
        sets.extend(synthetic(&place, name, task));
    }
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    let others = exported(&place, school).unwrap_or_else(|| {
        say("scikit-learn's and statsmodels' sets are skipped: no Python 3 with pip here");
        String::new()
    });
    for line in others.lines().filter(|l| l.contains("\"method\"")) {
        let (name, plain) = (word(line, "set"), word(line, "method") == "plain");
        if plain && word(line, "made") == "here" {
            let about =
                format!("{} sites, {} records", number(line, "sites"), number(line, "records"));
            sets.push(of_files(&place.join(name), name, &about, word(line, "task"), "the_site"));
        }
    }
    sets.retain(|set| !(development && set.last));
    for line in others.lines().filter(|l| l.contains("\"method\"")) {
        let (method, epsilon) = match word(line, "method") {
            "plain" => ("scikit-learn", 0),
            _ => ("diffprivlib", milli(number(line, "epsilon"))),
        };
        for set in sets.iter().filter(|set| set.peer == word(line, "set")) {
            found.entry(set.name.clone()).or_default().insert((method, epsilon), values(line));
        }
    }
    let begun = std::time::Instant::now();
    for (done, set) in sets.iter().enumerate() {
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        eprintln!("── {} of {}, {minutes:.1} minutes so far: {}", done + 1, sets.len(), set.name);
        let all = found.entry(set.name.clone()).or_default();
        for (method, data) in [("consenso", &set.sites), ("curator", &set.curator)] {
            let budgets = if method == "consenso" { EPSILONS.len() } else { BESIDE };
            for &epsilon in &EPSILONS[..budgets] {
                if let Some(values) =
                    measure(&place, &binary, &mut notebook, set, data, Some(epsilon), quick)
                {
                    all.insert((method, milli(epsilon)), values);
                }
            }
        }
        if let Some(values) = measure(&place, &binary, &mut notebook, set, &set.sites, None, true) {
            all.insert(("not private", 0), values);
        }
        eprintln!("{}", row(set, all));
    }
    let mut page = page(&sets, &found, quick);
    page += &ablation(&place, &binary, &mut notebook, &sets, quick);
    say(&page);
    if quick || development {
        return true;
    }
    let docs = root().join("docs");
    fs::write(docs.join("utility.md"), &page)
        .and_then(|()| fs::write(docs.join("figures").join("utility.svg"), figure(&sets, &found)))
        .is_ok()
}

/// Pieces that are left out one at a time, in words, and where each matters: for two classes, for
/// several, for numbers.
const PIECES: [(&str, &str, [bool; 3]); 11] = [
    ("", "the whole method", [true; 3]),
    ("centres", "columns in the middle of their ranges, a sixth wide", [true; 3]),
    ("learned-prior", "no prior learned from all columns", [true; 3]),
    ("looks", "no second looks", [true; 3]),
    ("tails", "no tails that no cell shows", [true; 3]),
    ("classes", "several classes as k − 1 of two", [false, true, false]),
    ("long-clips", "no clip above a usual gradient", [true, true, false]),
    ("lengths", "clips that stay as they were at the start", [true; 3]),
    ("momentum", "no momentum", [true; 3]),
    ("calibration", "no calibration", [true, false, false]),
    ("shrinkage", "no shrinkage by public noise", [false, false, true]),
];
/// What they are measured on: two sets of each task.
const ABLATED: [&str; 6] = ["heart by centre", "anes96", "wine", "digits", "diabetes", "star98"];
const ABLATED_AT: [f64; 3] = [1.0, 3.0, 100.0];

/// What each piece of the method is worth: the table without it.
fn ablation(
    place: &Path,
    binary: &Path,
    notebook: &mut Notebook,
    sets: &[Set],
    quick: bool,
) -> String {
    let of = |name: &&str| sets.iter().find(|set| set.name == **name);
    let sets: Vec<&Set> = ABLATED.iter().filter_map(of).collect();
    let mut page = String::from(
        "\n## What each piece is worth\n\nThe same runs with one piece left out (`without = [\"looks\"]` at `kind = \"dgd\"`), ε = 1 / 3 / 100, means of five runs of one seed; how much runs differ was not \
         measured, so that small differences say nothing. None of these figures chose anything.\n\n| left out |",
    );
    for set in &sets {
        let _ = write!(page, " {} |", set.name);
    }
    let _ = writeln!(page, "\n|---|{}", "---|".repeat(sets.len()));
    for (piece, words, tasks) in PIECES {
        let _ = write!(page, "| {words} |");
        for set in &sets {
            let task = match set.metric {
                "auc" => 0,
                "r2" => 2,
                _ => 1,
            };
            if !tasks[task] {
                page += " |";
                continue;
            }
            eprintln!("── {}: {words}", set.name);
            let data = format!("{}\nencoding = \"scouted\"\n", set.sites);
            let algorithm = match piece {
                "" => "kind = \"dgd\"".to_owned(),
                piece => format!("kind = \"dgd\"\nwithout = [\"{piece}\"]"),
            };
            let cells = ABLATED_AT.map(|epsilon| {
                let lines = (data.as_str(), algorithm.as_str());
                measure_kind(place, binary, notebook, set, lines, Some(epsilon), quick)
                    .and_then(|values| values.get(set.metric).map(|v| digits(*v)))
                    .unwrap_or_else(|| "–".into())
            });
            let _ = write!(page, " {} |", cells.join(" / "));
        }
        page.push('\n');
    }
    page
}

/// Exports the sets inside Python packages; the JSON lines of other programs on all sets.
fn exported(place: &Path, school: Option<&str>) -> Option<String> {
    // diffprivlib needs an older scikit-learn, and 0.6.5 beside it trained on noise alone; without
    // it the others still stand.
    let with = [
        "numpy>=2",
        "pandas",
        "zstandard",
        "scikit-learn<1.6",
        "statsmodels",
        "diffprivlib==0.6.6",
    ];
    let python = python("bench-utility-python", &with).or_else(|| {
        say("diffprivlib cannot be installed here: its column stays empty");
        python("bench-utility-python", &with[..5])
    })?;
    let bundled = root().join("crates").join("consenso-study").join("data");
    let script = root().join("benches").join("utility.py");
    output(Command::new(python).arg(script).arg(place).arg(bundled).args(school))?;
    fs::read_to_string(place.join("others.jsonl")).ok()
}

/// The means over runs of a set's figures.
fn measure(
    place: &Path,
    binary: &Path,
    notebook: &mut Notebook,
    set: &Set,
    data: &str,
    epsilon: Option<f64>,
    quick: bool,
) -> Option<Values> {
    // Without a budget `auto` would not scout: the same method without noise is what it is compared
    // with.
    let encoding = if epsilon.is_none() { "encoding = \"scouted\"\n" } else { "" };
    let data = format!("{data}\n{encoding}");
    measure_kind(place, binary, notebook, set, (&data, "kind = \"auto\""), epsilon, quick)
}

/// The same for an algorithm's own lines.
fn measure_kind(
    place: &Path,
    binary: &Path,
    notebook: &mut Notebook,
    set: &Set,
    (data, algorithm): (&str, &str),
    epsilon: Option<f64>,
    quick: bool,
) -> Option<Values> {
    let runs = if quick { 1 } else { 5 };
    let privacy = epsilon.map_or_else(String::new, |e| {
        format!("[privacy]\nepsilon = {e:?}\ndelta = {:e}\n", set.delta)
    });
    let text = format!(
        "name = \"utility\"\nruns = {runs}\n[data]\n{data}[objective]\nloss = \"{}\"\n[graph]\nkind = \"complete\"\n{privacy}\
         [[algorithm]]\n{algorithm}\n",
        set.loss
    );
    let stamp = stamp(&[&notebook.program.to_le_bytes(), text.as_bytes()]);
    if let Some(values) = notebook.known.get(&stamp) {
        return Some(values.clone());
    }
    let file = place.join("experiment.toml");
    fs::write(&file, text).ok()?;
    let folder = place.join("run");
    let _ = fs::remove_dir_all(&folder);
    let out =
        output(Command::new(binary).arg("run").arg(&file).arg("--json").arg("--out").arg(&folder))?;
    let mut found = values(out.split("\"metrics\"").nth(1)?);
    found.insert("majority_accuracy".into(), number(&out, "majority_accuracy"));
    found.retain(|_, value| value.is_finite());
    notebook.note(stamp, &found)?;
    Some(found)
}

/// A figure as tables have it: three digits, without the naught before the point.
fn digits(value: f64) -> String {
    if value < -1.0 {
        return "< −1".into();
    }
    let text = format!("{value:.3}");
    text.strip_prefix('0').or_else(|| text.strip_prefix("-0")).map_or(text.clone(), |rest| {
        format!("{}{rest}", if text.starts_with('-') { "−" } else { "" })
    })
}

fn cell(found: &Found, method: &'static str, epsilon: u32, figure: &str) -> String {
    found
        .get(&(method, epsilon))
        .and_then(|v| v.get(figure))
        .map_or_else(|| "–".into(), |v| digits(*v))
}

/// A figure at every budget that a method was measured at.
fn by_budget(found: &Found, method: &'static str, figure: &str) -> String {
    let measured = if method == "consenso" { EPSILONS.len() } else { BESIDE };
    if EPSILONS.iter().all(|e| !found.contains_key(&(method, milli(*e)))) {
        return "–".into();
    }
    let cells = EPSILONS[..measured].iter().map(|e| cell(found, method, milli(*e), figure));
    cells.collect::<Vec<_>>().join(" / ")
}

/// Who is compared with where nobody's records are protected.
fn plain(found: &Found) -> &'static str {
    if found.contains_key(&("scikit-learn", 0)) { "scikit-learn" } else { "not private" }
}

fn row(set: &Set, found: &Found) -> String {
    let metric = match set.metric {
        "auc" => "AUC",
        "r2" => "R²",
        other => other,
    };
    format!(
        "| {}, {} | {metric} | **{}** | {} | {} | {} |",
        set.name,
        set.about,
        by_budget(found, "consenso", set.metric),
        by_budget(found, "curator", set.metric),
        by_budget(found, "diffprivlib", set.metric),
        cell(found, plain(found), 0, set.metric)
    )
}

/// Accuracy and log loss of sets with classes.
fn calibration_row(set: &Set, found: &Found) -> String {
    format!(
        "| {} | {} | **{}** | {} | {} | {} |",
        set.name,
        cell(found, "consenso", milli(1.0), "majority_accuracy"),
        by_budget(found, "consenso", "accuracy"),
        cell(found, plain(found), 0, "accuracy"),
        by_budget(found, "consenso", "log_loss"),
        cell(found, plain(found), 0, "log_loss")
    )
}

fn page(sets: &[Set], found: &BTreeMap<String, Found>, quick: bool) -> String {
    let mut page = String::from(
        "# What a model is worth under a budget\n\n\
         Made by `cargo xtask bench utility`; nothing is tuned: `kind = \"auto\"` and a schema are all that a set is given. ε = 0.5 / 1 / 3 / 10 / 100 (the others: the first three) at δ = 10⁻⁶ (school: 10⁻³) for \
         every site, against all others together; ",
    );
    page += if quick { "one run" } else { "means of five runs" };
    page += " of the agents' own models on records that nobody trained on.\n\n\
             *Curator* is the same method where one trusted party has all records: the least noise it can have. *diffprivlib* is a central library, \
             which trusts such a curator too (its claim is a pure ε). *Not private* is scikit-learn's plain logistic or linear regression. An R² below −1 is written so.\n\n\
             ![Consenso beside a trusted curator, a central library and no privacy](figures/utility.svg)\n";
    let parts = [
        (false, "Sets that defaults were developed with"),
        (
            true,
            "Last set: no default was chosen by it. (iris and engel stood here until losses on them were looked into; they are above since)",
        ),
    ];
    for (last, title) in parts {
        let of_part = || sets.iter().filter(move |s| s.last == last);
        if of_part().next().is_none() {
            continue;
        }
        let _ = write!(
            page,
            "\n## {title}\n\n| records | figure | Consenso | curator | diffprivlib | not private |\n|---|---|---|---|---|---|\n"
        );
        for set in of_part() {
            let _ = writeln!(page, "{}", row(set, &found[&set.name]));
        }
        let _ = write!(
            page,
            "\nScores as probabilities, where there are classes:\n\n| records | commonest class | accuracy | not private | log loss | not private |\n\
             |---|---|---|---|---|---|\n"
        );
        for set in of_part().filter(|s| s.metric != "r2") {
            let _ = writeln!(page, "{}", calibration_row(set, &found[&set.name]));
        }
    }
    page
}

/// Colours of a figure on a dark screen.
const DARK: &str = "@media screen and (prefers-color-scheme: dark){.paper{fill:#15181c}.ink{fill:#e4e7ea}.bar{stroke:#e4e7ea}.muted{fill:#a3abb3}\
    .grid{stroke:#2b3036}.ours{fill:#56B4E9}.curator{stroke:#F0803C}.library{fill:#2BC49A}}";

/// A panel per figure, a row per set, in it a line for each ε: a dot for ours, a ring for the
/// curator, a triangle for the library; a bar for no privacy.
fn figure(sets: &[Set], found: &BTreeMap<String, Found>) -> String {
    let (left, width, line) = (150.0, 500.0, 38.0);
    let panels = [
        ("auc", "AUC", 0.5),
        ("accuracy", "accuracy, several classes", 0.0),
        ("r2", "R², numbers", 0.0),
    ];
    let rows = |metric: &str| sets.iter().filter(|s| s.metric == metric).count() as f64;
    let height = 64.0 + panels.iter().map(|p| 62.0 + line * rows(p.0)).sum::<f64>();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"700\" height=\"{height}\" viewBox=\"0 0 700 {height}\" role=\"img\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\">\n\
         <title>AUC, accuracy or R² by set at ε = 0.5, 1 and 3: Consenso, a trusted curator, diffprivlib and no privacy</title>\n<style>{DARK}</style>\n\
         <rect class=\"paper\" width=\"700\" height=\"{height}\" fill=\"#ffffff\"/>\n"
    );
    let mark = |kind: &str, x: f64, y: f64| match kind {
        "consenso" => {
            format!(
                "<circle class=\"ours\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.6\" fill=\"#0072B2\"/>\n"
            )
        }
        "curator" => format!(
            "<circle class=\"curator\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"none\" stroke=\"#D55E00\" stroke-width=\"1.5\"/>\n"
        ),
        _ => format!(
            "<path class=\"library\" d=\"M{x:.1} {:.1}l4 7h-8Z\" fill=\"#009E73\"/>\n",
            y - 4.0
        ),
    };
    let text = |class: &str, x: f64, y: f64, anchor: &str, text: &str| {
        let fill = if class == "ink" { "#1d2126" } else { "#5c646d" };
        format!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{fill}\">{text}</text>\n"
        )
    };
    let bar = |x: f64, top: f64, bottom: f64| {
        format!(
            "<line class=\"bar\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\" stroke=\"#1d2126\" stroke-width=\"2\"/>\n"
        )
    };
    let mut at = 14.0;
    for (kind, name) in [
        ("consenso", "Consenso"),
        ("curator", "trusted curator"),
        ("diffprivlib", "diffprivlib, central"),
    ] {
        svg += &mark(kind, at, 20.0);
        svg += &text("ink", at + 10.0, 24.0, "start", name);
        at += 26.0 + 7.0 * name.len() as f64;
    }
    svg += &bar(at, 12.0, 28.0);
    svg += &text("ink", at + 10.0, 24.0, "start", "not private");
    svg += &text(
        "muted",
        14.0,
        44.0,
        "start",
        "in every row from top to bottom: ε = 0.5, 1, 3; what lies left of a panel is drawn at its edge",
    );
    let mut top = 64.0;
    for (metric, title, low) in panels {
        let bottom = top + 24.0 + line * rows(metric);
        let x = |v: f64| left + width * ((v - low) / (1.0 - low)).clamp(0.0, 1.0);
        svg += &text("ink", 14.0, top + 12.0, "start", title);
        for tick in 0..=5 {
            let value = low + (1.0 - low) * f64::from(tick) / 5.0;
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1:.1}\" y2=\"{bottom:.1}\" stroke=\"#e6e8eb\"/>",
                x(value),
                top + 20.0
            );
            svg += &text("muted", x(value), bottom + 16.0, "middle", &format!("{value:.1}"));
        }
        for (place, set) in sets.iter().filter(|s| s.metric == metric).enumerate() {
            let y = top + 24.0 + line * (place as f64 + 0.5);
            let all = &found[&set.name];
            let value = |method: &'static str, epsilon: u32| {
                all.get(&(method, epsilon)).and_then(|v| v.get(metric))
            };
            svg += &text("ink", left - 12.0, y + 4.0, "end", &set.name);
            if let Some(v) = value(plain(all), 0) {
                svg += &bar(x(*v), y - 15.0, y + 15.0);
            }
            for (step, epsilon) in EPSILONS.into_iter().take(BESIDE).enumerate() {
                let y = y + 10.0 * (step as f64 - 1.0);
                for method in ["diffprivlib", "consenso", "curator"] {
                    if let Some(v) = value(method, milli(epsilon)) {
                        svg += &mark(method, x(*v), y);
                    }
                }
            }
        }
        top = bottom + 38.0;
    }
    svg += "</svg>\n";
    svg
}
