//! `cargo xtask bench utility`: what models are worth under a budget, beside what others reach on the same records.
//!
//! Ours runs with public defaults alone (`kind = "auto"`), five runs each, and is judged by the agents' own models. Beside it stand the same
//! method for a trusted curator who has all records (its noise is the least that this method can have), scikit-learn without privacy, and
//! diffprivlib, a central library, where it can be installed.

use crate::bench::{number, output, python, say};
use crate::{cargo, root};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const EPSILONS: [f64; 3] = [0.5, 1.0, 3.0];

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
    /// Whether defaults were never looked at with it.
    last: bool,
}

/// Sets that nobody looked at while defaults were made, read once; everything else is for development.
const LAST: [&str; 3] = ["modechoice", "iris", "engel"];

fn bundled() -> Vec<Set> {
    let adult = "source = \"adult\"";
    let set = |name: &str, about: &str, sites: String, curator: String| Set {
        name: name.into(),
        about: about.into(),
        sites,
        curator,
        loss: "logistic",
        metric: "auc",
        last: false,
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

/// Eight sites of 20 to 10,000 records, columns of very different scale, skew and correlation, labels skewed by site: two classes, five, or numbers with a
/// long tail.
fn synthetic(place: &Path, name: &str, task: &str) -> std::io::Result<Set> {
    let folder = place.join(name.replace(' ', "-"));
    fs::create_dir_all(&folder)?;
    let mut state = 7u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    let mut normal = move || (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
    let head = "a,b,c,d,e,f,site,y\n";
    let (mut train, mut test) = (head.to_owned(), head.to_owned());
    for (site, records) in [20, 50, 120, 300, 700, 1500, 4000, 10_000].into_iter().enumerate() {
        let shift = 0.7 * normal();
        for k in 0..records + records / 3 {
            let (a, b, d) = (normal(), normal(), normal());
            let (c, e) = ((0.8 * normal()).exp(), 0.8 * a + 0.6 * normal());
            let f = ["x", "y", "z", "w"][((normal().abs() * 1.5) as usize).min(3)];
            let score =
                1.2 * a - 0.8 * b + 0.5 * (c - 1.4) + 0.6 * f64::from(u8::from(f == "z")) + shift - 1.0;
            let label = match task {
                "regression" => format!("{:.4}", (0.5 * score + 0.5 * normal()).exp().min(60.0)),
                "classes" => {
                    let noisy = score + normal();
                    ["a", "b", "c", "d", "e"][[-2.2, -1.2, -0.4, 0.6].iter().filter(|t| noisy > **t).count()]
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
    for (name, low, high) in
        [("a", -8.0, 8.0), ("b", -20_000.0, 80_000.0), ("c", 0.0, 60.0), ("d", -0.05, 0.05), ("e", -8.0, 8.0)]
    {
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
        last: LAST.contains(&name),
    }
}

/// Figures of one set, by method and ε in thousandths (0 without privacy).
type Found = BTreeMap<(&'static str, u32), f64>;

fn milli(epsilon: f64) -> u32 {
    (1000.0 * epsilon).round() as u32
}

/// The text behind `"key":` in a JSON line.
fn word<'a>(line: &'a str, key: &str) -> &'a str {
    line.split(&format!("\"{key}\": \"")).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("")
}

/// Runs everything and writes docs/utility.md and its figure.
pub(crate) fn run(quick: bool) -> bool {
    let place = root().join("target").join("bench-utility");
    if fs::create_dir_all(&place).is_err() {
        return false;
    }
    eprintln!("── cargo build --release -p consenso-cli");
    if output(cargo().args(["build", "--quiet", "--release", "-p", "consenso-cli"])).is_none() {
        return false;
    }
    let mut sets = bundled();
    for (name, task) in [("synthetic", "binary"), ("five classes", "classes"), ("long-tailed", "regression")]
    {
        sets.extend(synthetic(&place, name, task));
    }
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    match exported(&place) {
        None => say("scikit-learn's and statsmodels' sets are skipped: no Python 3 with pip here"),
        Some(lines) => {
            for line in lines.lines() {
                let (name, task) = (word(line, "set"), word(line, "task"));
                let method = if word(line, "method") == "plain" { "scikit-learn" } else { "diffprivlib" };
                let epsilon = if method == "scikit-learn" { 0 } else { milli(number(line, "epsilon")) };
                found.entry(name.to_owned()).or_default().insert((method, epsilon), number(line, "value"));
                if method == "scikit-learn" {
                    let about =
                        format!("{} sites, {} records", number(line, "sites"), number(line, "records"));
                    sets.push(of_files(&place.join(name), name, &about, task, "the_site"));
                }
            }
        }
    }
    let begun = std::time::Instant::now();
    for (done, set) in sets.iter().enumerate() {
        let minutes = begun.elapsed().as_secs_f64() / 60.0;
        eprintln!("── {} of {}, {minutes:.1} minutes so far: {}", done + 1, sets.len(), set.name);
        let all = found.entry(set.name.clone()).or_default();
        for (method, data) in [("consenso", &set.sites), ("curator", &set.curator)] {
            for epsilon in EPSILONS {
                if let Some(value) = measure(&place, set, data, Some(epsilon), quick) {
                    all.insert((method, milli(epsilon)), value);
                }
            }
        }
        if let Some(value) = measure(&place, set, &set.sites, None, true) {
            all.insert(("not private", 0), value);
        }
        eprintln!("{}: {}", set.name, row(set, all));
    }
    let page = page(&sets, &found, quick);
    let docs = root().join("docs");
    let written = fs::write(docs.join("utility.md"), &page)
        .and_then(|()| fs::write(docs.join("figures").join("utility.svg"), figure(&sets, &found)));
    say(&page);
    written.is_ok()
}

/// Exports the sets inside Python packages; the JSON lines of other programs on them.
fn exported(place: &Path) -> Option<String> {
    // diffprivlib needs an older scikit-learn; without it the others still stand.
    let with = ["numpy<2", "pandas<3", "scikit-learn<1.6", "statsmodels", "diffprivlib"];
    let python = python("bench-utility-python", &with).or_else(|| {
        say("diffprivlib cannot be installed here: its column stays empty");
        python("bench-utility-python", &with[..4])
    })?;
    output(Command::new(python).arg(root().join("benches").join("utility.py")).arg(place))
}

/// The mean over runs of a set's figure.
fn measure(place: &Path, set: &Set, data: &str, epsilon: Option<f64>, quick: bool) -> Option<f64> {
    let runs = if quick { 1 } else { 5 };
    let privacy = epsilon.map_or_else(String::new, |e| format!("[privacy]\nepsilon = {e:?}\ndelta = 1e-6\n"));
    // Without a budget `auto` would not scout: the same method without noise is what it is compared with.
    let encoding = if epsilon.is_none() { "encoding = \"scouted\"\n" } else { "" };
    let text = format!(
        "name = \"utility\"\nruns = {runs}\n[data]\n{data}\n{encoding}[objective]\nloss = \"{}\"\n[graph]\nkind = \"complete\"\n{privacy}\
         [[algorithm]]\nkind = \"auto\"\n",
        set.loss
    );
    let file = place.join("experiment.toml");
    fs::write(&file, text).ok()?;
    let binary: PathBuf = root().join("target").join("release").join("consenso");
    let folder = place.join("run");
    let _ = fs::remove_dir_all(&folder);
    let out = output(Command::new(binary).arg("run").arg(&file).arg("--json").arg("--out").arg(&folder))?;
    let metrics = out.split("\"metrics\"").nth(1)?;
    Some(number(metrics, set.metric)).filter(|v| v.is_finite())
}

fn cell(found: &Found, method: &'static str, epsilon: u32) -> String {
    found.get(&(method, epsilon)).map_or_else(|| "–".into(), |v| format!("{v:.3}").replace("0.", "."))
}

fn three(found: &Found, method: &'static str) -> String {
    EPSILONS.map(|e| cell(found, method, milli(e))).join(" / ")
}

fn row(set: &Set, found: &Found) -> String {
    let best = if found.contains_key(&("scikit-learn", 0)) { "scikit-learn" } else { "not private" };
    let metric = match set.metric {
        "auc" => "AUC",
        "r2" => "R²",
        other => other,
    };
    format!(
        "| {}, {} | {metric} | **{}** | {} | {} | {} |",
        set.name,
        set.about,
        three(found, "consenso"),
        three(found, "curator"),
        three(found, "diffprivlib"),
        cell(found, best, 0)
    )
}

fn page(sets: &[Set], found: &BTreeMap<String, Found>, quick: bool) -> String {
    let mut page = String::from(
        "# What a model is worth under a budget\n\n\
         Made by `cargo xtask bench utility`; nothing is tuned: `kind = \"auto\"` and a schema are all that a set is given. ε = 0.5 / 1 / 3 at δ = 10⁻⁶ for \
         every site, against all others together; ",
    );
    page += if quick { "one run" } else { "means of five runs" };
    page += " of the agents' own models on records that nobody trained on.\n\n\
             *Curator* is the same method where one trusted party has all records: the least noise it can have. *diffprivlib* is a central library, \
             which trusts such a curator too. *Not private* is scikit-learn, or this method without noise on the bundled records.\n\n\
             ![Consenso beside a trusted curator and no privacy](figures/utility.svg)\n";
    for (last, title) in [
        (false, "Sets that defaults were developed with"),
        (
            true,
            "Last sets: nobody looked at them while defaults were made, and nothing was changed after this",
        ),
    ] {
        let _ = write!(
            page,
            "\n## {title}\n\n| records | figure | Consenso | curator | diffprivlib | not private |\n|---|---|---|---|---|---|\n"
        );
        for set in sets.iter().filter(|s| s.last == last) {
            let _ = writeln!(page, "{}", row(set, &found[&set.name]));
        }
    }
    page
}

/// One line per set: three dots for ours, a ring for the curator at ε = 1, a bar for no privacy.
fn figure(sets: &[Set], found: &BTreeMap<String, Found>) -> String {
    let (left, width, line) = (190.0, 460.0, 26.0);
    let height = 60.0 + line * sets.len() as f64;
    let x = |v: f64| left + width * v.clamp(0.0, 1.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>AUC, accuracy or R² by set: Consenso at ε = 0.5, 1 and 3, a trusted curator at ε = 1, and no privacy</title>\n\
         <rect width=\"700\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for tick in 0..=5 {
        let value = f64::from(tick) / 5.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"24\" y2=\"{1:.1}\" stroke=\"#ddd\"/><text x=\"{0:.1}\" y=\"{2:.1}\" text-anchor=\"middle\">{value:.1}</text>",
            x(value),
            height - 34.0,
            height - 18.0
        );
    }
    for (place, set) in sets.iter().enumerate() {
        let y = 36.0 + line * place as f64;
        let all = &found[&set.name];
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + 4.0,
            set.name
        );
        let mut dot = |key: (&'static str, u32), shape: &dyn Fn(f64) -> String| {
            if let Some(&value) = all.get(&key) {
                svg += &shape(x(value));
                svg.push('\n');
            }
        };
        for (epsilon, fill) in EPSILONS.into_iter().zip(["#b9d3ee", "#5a93cc", "#1d5c9b"]) {
            dot(("consenso", milli(epsilon)), &|x| {
                format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{fill}\"/>")
            });
        }
        dot(("curator", 1000), &|x| {
            format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\" fill=\"none\" stroke=\"#c60\" stroke-width=\"1.5\"/>"
            )
        });
        let best = if all.contains_key(&("scikit-learn", 0)) { "scikit-learn" } else { "not private" };
        dot((best, 0), &|x| {
            format!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"black\" stroke-width=\"2\"/>",
                y - 8.0,
                y + 8.0
            )
        });
    }
    svg += "<text x=\"190\" y=\"14\">blue: ε = 0.5, 1, 3 (darker is larger); ring: a trusted curator at ε = 1; bar: not private</text>\n</svg>\n";
    svg
}
