//! What goes with what: every algorithm with every exchange, encoding and graph, and with every
//! option, put through the real check. The verdicts are a golden file.

use consenso_engine::data::{Dataset, Encoding, Schema, csv};
use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, SpecError, rules};
use consenso_engine::protocol::KINDS;
use consenso_study::ExperimentFile as _;
use std::fmt::Write as _;

const SCHEMA: &str = "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 100\n\
    [[column]]\nname = \"dose\"\nkind = \"numeric\"\nmin = -1\nmax = 3\n\
    [[column]]\nname = \"site\"\nkind = \"site\"\n\
    [[column]]\nname = \"y\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n";

/// Five sites of forty records.
fn records(encoding: Encoding) -> Dataset {
    let mut table = String::from("age,dose,site,y\n");
    for k in 0..200u32 {
        let (age, dose) = (k * 37 % 100, f64::from(k * 13 % 40) / 10.0 - 1.0);
        let y = if (age + k * 7 % 50) > 75 { "yes" } else { "no" };
        writeln!(table, "{age},{dose},s{},{y}", k % 5).unwrap();
    }
    let schema = toml::from_str::<Schema>(SCHEMA).unwrap();
    let table = csv::read(table.as_bytes(), "made-up", &schema).unwrap();
    Dataset::new(vec![table], None, encoding).unwrap()
}

/// What is asked of an experiment that was accepted.
type FurtherCheck = fn(&Experiment) -> Result<(), String>;

/// An option: its name, and what it writes into a file, each text into its place.
#[derive(Clone, Copy, Default)]
struct Choice {
    name: &'static str,
    head: &'static str,
    data: &'static str,
    objective: &'static str,
    /// Instead of a budget.
    privacy: Option<&'static str>,
    tables: &'static str,
    algorithm: &'static str,
    /// What is asked of an experiment that is sound.
    then: Option<FurtherCheck>,
}

const BUDGET: &str = "[privacy]\nepsilon = 4.0\ndelta = 1e-5\n";

const fn choice(name: &'static str) -> Choice {
    Choice {
        name,
        head: "",
        data: "",
        objective: "",
        privacy: None,
        tables: "",
        algorithm: "",
        then: None,
    }
}

fn under(name: &'static str, privacy: &'static str) -> Choice {
    Choice { privacy: Some(privacy), ..choice(name) }
}

fn with(name: &'static str) -> Choice {
    Choice { algorithm: name, ..choice(name) }
}

fn asked(name: &'static str, then: fn(&Experiment) -> Result<(), String>) -> Choice {
    Choice { then: Some(then), ..choice(name) }
}

fn choices() -> Vec<Choice> {
    let mut all = vec![
        choice("nothing else"),
        under("no [privacy]", ""),
        with("noise = \"none\""),
        with("noise = { gaussian = 1.0 }"),
        with("noise = { laplace_scale = 1.0 }"),
        with("noise = { gamma_rate = 1.0 }"),
        with("noise = { calibrated = { norm = \"l1\" } }"),
        with("noise = \"correlated\""),
        under(
            "accounting = \"filter\"",
            "[privacy]\nepsilon = 4.0\ndelta = 1e-5\naccounting = \"filter\"\n",
        ),
        under(
            "mechanism = \"laplace\"",
            "[privacy]\nepsilon = 4.0\ndelta = 1e-5\nmechanism = \"laplace\"\n",
        ),
        under(
            "neighbours = \"paper\"",
            "[privacy]\nepsilon = 4.0\ndelta = 1e-5\nneighbours = \"paper\"\n",
        ),
        under(
            "adversary = \"local\"",
            "[privacy]\nepsilon = 4.0\ndelta = 1e-5\nadversary = \"local\"\n",
        ),
        under(
            "adversary = { colluders = 1 }",
            "[privacy]\nepsilon = 4.0\ndelta = 1e-5\nadversary = { colluders = 1 }\n",
        ),
        under("no epsilon", "[privacy]\ndelta = 1e-5\n"),
        with("mixing = \"trimmed\""),
        with("mixing = \"clipped\""),
        with("liars = 1"),
        with("clip = 1.0"),
        with("staleness = 2"),
        with("gossip = 3"),
        with("tail = 0.5"),
        with("drop_outs = 1"),
        with("colluders = 1"),
        with("range = 1000.0"),
        with("batch = 0.2"),
        with("step = 0.1"),
        with("rounds = 5"),
    ];
    all.extend([
        Choice { tables: "[conditions]\nloss = 0.1\n", ..choice("conditions.loss = 0.1") },
        Choice { tables: "[conditions]\nasleep = 0.1\n", ..choice("conditions.asleep = 0.1") },
        Choice {
            tables: "[conditions]\nlinks = \"matchings\"\n",
            ..choice("conditions.links = \"matchings\"")
        },
        Choice {
            tables: "[conditions]\nlinks = \"walk\"\n",
            ..choice("conditions.links = \"walk\"")
        },
        Choice {
            tables: "[conditions]\ncompression = { kind = \"sign\" }\n",
            ..choice("conditions.compression = { kind = \"sign\" }")
        },
        Choice { tables: "[delays]\nmessage = 1.0\n", ..choice("[delays]") },
        Choice { tables: "[[drop_out]]\nagent = 1\nround = 2\n", ..choice("[[drop_out]]") },
        Choice { tables: "[problem]\nrhs = [0.0, 0.0, 0.0]\n", ..choice("[problem] of records") },
        Choice { head: "start = 0.1\n", ..choice("start = 0.1") },
        Choice { head: "models = \"personal\"\n", ..choice("models = \"personal\"") },
        Choice { data: "weights = \"records\"\n", ..choice("weights = \"records\"") },
        Choice { data: "weights = \"precision\"\n", ..choice("weights = \"precision\"") },
        Choice {
            objective: "constraint = { kind = \"l2-ball\", radius = 1.0 }\n",
            ..choice("constraint = { kind = \"l2-ball\", radius = 1.0 }")
        },
        Choice {
            objective: "class_weight = \"balanced\"\n",
            ..choice("class_weight = \"balanced\"")
        },
        Choice { objective: "clip = 0.5\n", ..choice("objective.clip = 0.5") },
        Choice { objective: "regularization = 0.0\n", ..choice("regularization = 0") },
        asked("a network of sites", |e| e.plan_of(0).map(drop).map_err(|e| e.to_string())),
        asked("several processes", |e| e.check_parted().map_err(|e| e.to_string())),
        asked("privacy map", |e| e.pairwise_map(2).map(drop).map_err(|e| e.to_string())),
        asked("privacy exposure", |e| e.exposure().map(drop).map_err(|e| e.to_string())),
    ]);
    all
}

const EXCHANGES: [&str; 3] = ["plain", "secret-shared", "masked"];
const ENCODINGS: [(&str, Encoding); 2] =
    [("one-hot", Encoding::OneHot), ("scouted", Encoding::Scouted)];
const GRAPHS: [&str; 2] = ["complete", "ring"];

/// What the real check says: nothing, or the refusal.
fn verdict(
    kind: &str,
    (exchange, encoding, graph): (&str, &str, &str),
    option: &Choice,
    data: &Dataset,
) -> Result<(), String> {
    let Choice { head, data: more, objective, privacy, tables, algorithm, .. } = option;
    let exchange = match exchange {
        "plain" => String::new(),
        other => format!("exchange = \"{other}\"\n"),
    };
    let privacy = privacy.unwrap_or(BUDGET);
    let text = format!(
        "name = \"x\"\nruns = 1\n{head}[data]\npath = \"x.csv\"\npartition = {{ by = \"site\" }}\nencoding = \"{encoding}\"\n{more}\
         [objective]\nloss = \"logistic\"\n{objective}[graph]\nkind = \"{graph}\"\n{privacy}{tables}\
         [[algorithm]]\nkind = \"{kind}\"\n{exchange}{algorithm}\n"
    );
    let words = |e: SpecError| match e.help {
        Some(help) => format!("{}; help: {help}", e.message),
        None => e.message,
    };
    let spec = ExperimentSpec::from_toml(&text, "x.toml").map_err(words)?;
    let experiment = Experiment::check(Inputs {
        file: "x.toml".into(),
        text,
        spec,
        source: Box::new(data.clone()),
        edges: None,
        entropy: None,
    })
    .map_err(words)?;
    option.then.map_or(Ok(()), |then| then(&experiment))
}

/// A row per algorithm and option, a column per exchange, encoding and graph; refusals are numbered
/// and listed below.
fn matrix(kinds: &[&str]) -> String {
    let mut columns = Vec::new();
    for exchange in EXCHANGES {
        for (encoding, kind) in ENCODINGS {
            let data = records(kind);
            columns.extend(GRAPHS.map(|graph| ((exchange, encoding, graph), data.clone())));
        }
    }
    let mut reasons: Vec<String> = Vec::new();
    let mut text = String::new();
    for (number, (column, _)) in columns.iter().enumerate() {
        writeln!(text, "column {}: {}, {}, {}", number + 1, column.0, column.1, column.2).unwrap();
    }
    for option in choices() {
        writeln!(text, "\n{}", option.name).unwrap();
        for kind in kinds {
            let cell = |(column, data): &((&str, &str, &str), Dataset)| {
                verdict(kind, *column, &option, data).err()
            };
            let cells: Vec<String> = columns
                .iter()
                .map(cell)
                .map(|refusal| match refusal {
                    None => "yes".to_owned(),
                    Some(why) => {
                        let known = reasons.iter().position(|r| *r == why);
                        let at = known.unwrap_or_else(|| {
                            reasons.push(why);
                            reasons.len() - 1
                        });
                        format!("{}", at + 1)
                    }
                })
                .collect();
            writeln!(text, "  {kind:18} {}", cells.join(" ")).unwrap();
        }
    }
    text.push_str("\nrefusals\n");
    for (number, reason) in reasons.iter().enumerate() {
        writeln!(text, "  {:3} {reason}", number + 1).unwrap();
    }
    text
}

#[test]
fn what_goes_with_what_is_what_it_was() {
    insta::assert_snapshot!(matrix(KINDS));
}

/// What a refusal tells its reader to do begins with one of these.
const WAYS: [&str; 15] = [
    "add ",
    "audit ",
    "declare ",
    "give ",
    "keep ",
    "known here: ",
    "leave ",
    "limit ",
    "needs ",
    "raise ",
    "review ",
    "run ",
    "see ",
    "set ",
    "use ",
];

/// A reader who is refused is told what would go: in the table, and in the words that the check of
/// every combination answers with (which [`what_goes_with_what_is_what_it_was`] holds to the table).
#[test]
fn every_refusal_names_a_way_out() {
    let names_one = |words: &str| WAYS.iter().any(|way| words.contains(way));
    for (of, [what, _, because, instead]) in rules::table() {
        assert!(because.len() > 8 && names_one(instead), "{of}, {what}: {because}; {instead}");
    }
    let kept =
        include_str!("snapshots/files__combinations__what_goes_with_what_is_what_it_was.snap");
    let (_, refusals) = kept.split_once("\nrefusals\n").expect("a list of refusals");
    assert!(refusals.lines().count() > 500);
    for refusal in refusals.lines() {
        let way = refusal.split_once("; help: ").map_or(refusal, |(_, help)| help);
        assert!(names_one(way), "no way out: {refusal}");
    }
}

/// The page of the guide: what goes with what at a glance, and every rule with its way out.
fn page() -> String {
    let data: Vec<Dataset> = ENCODINGS.iter().map(|e| records(e.1)).collect();
    let mut page = String::from(
        "# What goes with what\n\n\
         Made from the one table of rules (`experiment/rules.rs`) and from the check that every run goes through; \
         `UPDATE_DOCS=1 cargo test -p consenso-study --test files combinations` makes it again.\n\n\
         ## Algorithms, exchanges, encodings and graphs\n\n\
         Under a budget, with nothing else said: `●` goes, `○` goes on a complete graph only, `–` is refused with one of the reasons below. \
         `gd` is shown with `aggregation = \"fixed\"`, which sums in secret need.\n\n\
         | kind | plain, one-hot | plain, scouted | secret-shared | masked |\n|---|---|---|---|---|\n",
    );
    let fixed = with("aggregation = \"fixed\"");
    for kind in KINDS {
        let option = if *kind == "gd" { fixed } else { choice("") };
        let on = |exchange: &str, encoding: usize, graph: &str| {
            let column = (exchange, ENCODINGS[encoding].0, graph);
            verdict(kind, column, &option, &data[encoding]).is_ok()
        };
        let cell = |exchange: &str, encoding: usize| match (
            on(exchange, encoding, "complete"),
            on(exchange, encoding, "ring"),
        ) {
            (true, true) => "●",
            (true, false) => "○",
            _ => "–",
        };
        writeln!(
            page,
            "| `{kind}` | {} | {} | {} | {} |",
            cell("plain", 0),
            cell("plain", 1),
            cell("secret-shared", 0),
            cell("masked", 0)
        )
        .unwrap();
    }
    page.push_str(
        "\n`linear-admm` solves a `[problem]` and goes with nothing without one.\n\n\
         ## Options\n\nOn a complete graph with the plain exchange and one-hot columns, under a budget.\n\n| option |",
    );
    let options: Vec<Choice> = choices().into_iter().filter(|o| o.name != "nothing else").collect();
    KINDS.iter().for_each(|kind| write!(page, " `{kind}` |").unwrap());
    page.push_str("\n|---|");
    KINDS.iter().for_each(|_| page.push_str("---|"));
    page.push('\n');
    for option in &options {
        let name = if option.name.contains(['=', '[']) {
            format!("`{}`", option.name)
        } else {
            option.name.to_owned()
        };
        write!(page, "| {name} |").unwrap();
        for kind in KINDS {
            let goes = verdict(kind, ("plain", "one-hot", "complete"), option, &data[0]).is_ok();
            write!(page, " {} |", if goes { "●" } else { "–" }).unwrap();
        }
        page.push('\n');
    }
    page.push_str("\n## Every refusal, and the way out\n");
    let mut last = "";
    for (of, [what, key, because, instead]) in rules::table() {
        if of != last {
            let head = "| refused | key | because | instead |\n|---|---|---|---|";
            write!(page, "\n### {of}\n\n{head}\n").unwrap();
            last = of;
        }
        let cell = |text: &str| text.replace('|', "\\|").replace('{', "‹").replace('}', "›");
        let key = if key.is_empty() { String::new() } else { format!("`{key}`") };
        let (what, because, instead) = (cell(what), cell(because), cell(instead));
        writeln!(page, "| {what} | {key} | {because} | {instead} |").unwrap();
    }
    page
}

#[test]
fn the_guide_shows_what_goes_with_what() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/combinations.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == page,
        "docs/combinations.md is not of these rules; UPDATE_DOCS=1 makes it again"
    );
}
