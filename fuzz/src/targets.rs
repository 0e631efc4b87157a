//! What is fuzzed, and what must hold for any bytes.

use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs};
use consenso_engine::model::Model;
use consenso_ledger::RecordsLedger;
use consenso_node::agreement::Agreement;
use consenso_node::claim;
use consenso_node::frame::Frame;
use consenso_node::store::{Entry, Row};
use consenso_study::experiment::{BUILT_IN, ExperimentFile as _};
use consenso_study::schema::SchemaFile as _;
use consenso_tables::Schema;
use std::path::PathBuf;

/// Something that reads bytes of others.
pub struct Target {
    pub name: &'static str,
    /// Reads them; panics where it does not keep its promise.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words of the format.
    pub words: &'static [&'static str],
}

const PROTOCOL: &str = include_str!("../../docs/protocol.md");

pub fn all() -> Vec<Target> {
    vec![
        Target { name: "frames", run: frames, seeds: golden_frames, words: &[] },
        Target {
            name: "agreements",
            run: agreements,
            seeds: golden_agreements,
            words: &[
                "signed ", "leave ", "replace ", "edge ", "from ", "part ", " was ", " by ",
                " at ", "\n",
            ],
        },
        Target {
            name: "ledgers",
            run: ledgers,
            seeds: ledger_lines,
            words: &[
                "\"kind\":",
                "\"study\"",
                "\"release\"",
                "\"budget\"",
                "\"restored\"",
                "\"gaussian\"",
                "\"mu\":",
                "\"l2\":",
            ],
        },
        Target {
            name: "records-ledger",
            run: records_ledger,
            seeds: books,
            words: &[
                "\"entry\":",
                "\"epsilon\":",
                "\"delta\":",
                "\"tau\":",
                "\"mu\":",
                "\"limit\"",
                "\"given_back\"",
            ],
        },
        Target {
            name: "models",
            run: models,
            seeds: model_files,
            words: &[
                "\"weights\":",
                "\"schema\":",
                "\"kind\":",
                "\"classes\":",
                "\"columns\":",
                "1e999",
            ],
        },
        Target {
            name: "schemas",
            run: schemas,
            seeds: schema_files,
            words: &[
                "[[column]]\n",
                "kind = ",
                "\"numeric\"",
                "\"categorical\"",
                "\"label\"",
                "min = ",
                "max = ",
                "categories = ",
                "reviewed = true\n",
            ],
        },
        Target {
            name: "experiments",
            run: experiments,
            seeds: experiment_files,
            words: &[
                "[data]\n",
                "[privacy]\n",
                "[[algorithm]]\n",
                "kind = ",
                "\"dgd\"",
                "\"admm\"",
                "rounds = ",
                "epsilon = ",
                "exchange = \"masked\"\n",
                "colluders = ",
                "[graph]\n",
                "[[query]]\n",
            ],
        },
    ]
}

/// What decodes is exactly what would be written so.
fn frames(bytes: &[u8]) {
    if let Ok(frame) = Frame::decode(bytes) {
        assert_eq!(frame.encode(), bytes, "{frame:?} is written differently");
    }
}

fn golden_frames() -> Vec<Vec<u8>> {
    let hex = |line: &str| {
        let digits = line.trim().strip_prefix("golden ")?.split_once(' ')?.1;
        consenso_node::frame::unhex(digits)
    };
    let mut all: Vec<Vec<u8>> = PROTOCOL.lines().filter_map(hex).collect();
    all.push(consenso_node::frame::release(1, 2, &[0.5; 12]).to_vec());
    all
}

/// What is read is written as it was read, and has one hash.
fn agreements(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(agreement) = Agreement::parse(text) {
        let again = Agreement::parse(&agreement.to_string()).expect("its own text");
        assert_eq!((again.hash(), again.to_string()), (agreement.hash(), agreement.to_string()));
    }
}

fn golden_agreements() -> Vec<Vec<u8>> {
    let start = PROTOCOL.find("consenso agreement 1\n    study").unwrap_or(0);
    let lines = PROTOCOL[start..].lines().map(str::trim).take_while(|line| !line.is_empty());
    let edge = lines.map(|line| format!("{line}\n")).collect::<String>();
    let change = edge.lines().last().unwrap_or_default().to_owned();
    let seal = format!("signed a {} 0807 {}\n", "00".repeat(44), "00".repeat(64));
    let leave = edge.replace(&change, "leave b");
    let part = edge.replace(&change, "part a,c");
    [edge.clone(), leave, part, format!("{edge}{seal}")].map(String::into_bytes).to_vec()
}

/// Rows of a site's ledger, one body a line: an audit ends with a figure or an error.
fn ledgers(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let entry = |line: &str| serde_json::from_str::<Entry>(line).ok();
    let rows: Vec<Row> = text
        .lines()
        .filter_map(entry)
        .take(40)
        .enumerate()
        .map(|(k, entry)| Row { number: k as i64 + 1, study: 1, entry, hash: [0; 32] })
        .collect();
    if let Ok(studies) = claim::audit(&rows) {
        for study in studies {
            let words = format!("{study:?}");
            assert!(!words.contains("epsilon: NaN"), "{words}");
        }
    }
}

fn ledger_lines() -> Vec<Vec<u8>> {
    let charge = r#"{"kind":"release","round":1,"blake3":"00","charge":{"l2":{"mechanism":"gaussian","mu":0.02,"count":1}}}"#;
    let absent = r#"{"kind":"absent","round":3,"neighbour":1,"weight":0.25}"#;
    let restored = r#"{"kind":"restored","round":5,"until":7,"answered":[1],"time":"t"}"#;
    let done = r#"{"kind":"done","round":9,"reason":"Finished","model":"00"}"#;
    let study = r#"{"kind":"study","site":"a","experiment":"11","claim":null,"seeded":false}"#;
    let all = [study, charge, absent, restored, done].join("\n");
    vec![charge.into(), study.into(), restored.into(), all.into_bytes()]
}

fn scratch(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let place = if memory.is_dir() { memory } else { std::env::temp_dir() };
    place.join(format!("consenso-fuzz-{}-{name}", std::process::id()))
}

/// A ledger beside records: it opens and adds up to a number, or it does not open.
fn records_ledger(bytes: &[u8]) {
    let path = scratch("ledger.jsonl");
    std::fs::write(&path, bytes).expect("a place to write");
    if let Ok(ledger) = RecordsLedger::at(&path) {
        let standing = ledger.standing();
        assert!(!standing.spent.epsilon.is_nan() && standing.spent.epsilon >= 0.0);
        assert!(!standing.sum.epsilon.is_nan(), "{:?}", standing.sum);
    }
}

fn books() -> Vec<Vec<u8>> {
    use consenso_engine::privacy::studies::StudyCost;
    use consenso_ledger::{LimitRequest, StudyRequest};
    let path = scratch("seed.jsonl");
    let _ = std::fs::remove_file(&path);
    let study = |k: u32| StudyRequest {
        id: format!("run-{k}"),
        name: "a study".into(),
        cost: StudyCost::gaussian(1.0, 1e-6, 0.2),
        relation: Default::default(),
        adversary: "every other agent".into(),
        against: None,
        seeded: false,
    };
    let limit = LimitRequest::new(5.0, 1e-5, "run --limit");
    for k in 0..2 {
        let Ok(mut ledger) = RecordsLedger::at(&path) else { return Vec::new() };
        let _ = ledger.book(Some(&limit), Some(&study(k)));
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let first = text.lines().next().map(|line| format!("{line}\n")).unwrap_or_default();
    vec![text.into_bytes(), first.into_bytes()]
}

/// A model file is a model that answers with numbers, or an error.
fn models(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(model) = Model::from_json(text) {
        let written = serde_json::to_string(&model).expect("a model is written");
        Model::from_json(&written).expect("what was written is read");
    }
}

fn model_files() -> Vec<Vec<u8>> {
    let schema = "reviewed = true\n[[column]]\nname = \"x\"\nkind = \"numeric\"\nmin = 0\nmax = 1\n[[column]]\nname = \"y\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\n";
    let small = r#"{"format":1,"kind":"dgd","weights":[0.5,-1.0],"task":"classification"}"#;
    let value: Result<toml::Value, _> = toml::from_str(schema);
    let with = value.ok().and_then(|schema| {
        serde_json::to_string(
            &serde_json::json!({ "format": 1, "schema": schema, "weights": [0.5] }),
        )
        .ok()
    });
    vec![small.into(), with.unwrap_or_default().into_bytes()]
}

/// What a schema file says is read as it was written.
fn schemas(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(schema) = Schema::from_toml(text) {
        let again = Schema::from_toml(&schema.to_toml()).expect("what was written is read");
        assert_eq!(again.to_toml(), schema.to_toml());
    }
}

fn schema_files() -> Vec<Vec<u8>> {
    let all = [
        "reviewed = true\n[[column]]\nname = \"age\"\nkind = \"numeric\"\nmin = 0\nmax = 120\n[[column]]\nname = \"sex\"\nkind = \"categorical\"\ncategories = [\"f\", \"m\"]\n[[column]]\nname = \"ill\"\nkind = \"label\"\nclasses = [\"no\", \"yes\"]\npositive = \"yes\"\n",
        "reviewed = false\nheader = true\ndelimiter = \";\"\nmissing = [\"?\"]\n[[column]]\nname = \"y\"\nkind = \"label\"\nmin = 0\nmax = 9\n[[column]]\nname = \"who\"\nkind = \"person\"\n[[column]]\nname = \"ward\"\nkind = \"site\"\n",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// What an experiment file says is read as it was written; a small one is checked, too.
fn experiments(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(spec) = ExperimentSpec::from_toml(text, "fuzz.toml") else { return };
    let written = spec.to_toml();
    ExperimentSpec::from_toml(&written, "again.toml").expect("what was written is read");
    let number = |word: &str| word.trim_matches(|c: char| !c.is_ascii_digit()).parse::<f64>();
    let large =
        text.split(|c: char| " =,\n[]{}".contains(c)).any(|w| number(w).is_ok_and(|n| n > 40.0));
    if large || text.contains("e+") || text.contains('_') || text.len() > 1500 {
        return;
    }
    if let Some(Ok(synthetic)) = spec.synthetic() {
        let inputs = Inputs {
            file: "fuzz.toml".into(),
            text: text.into(),
            spec,
            source: Box::new(synthetic),
            edges: None,
            entropy: None,
        };
        if let Ok(experiment) = Experiment::check(inputs)
            && let Ok(cost) = experiment.cost()
        {
            assert!(!cost.cost.epsilon.is_nan() && cost.cost.epsilon >= 0.0);
        }
    }
}

fn experiment_files() -> Vec<Vec<u8>> {
    let small = |more: &str| {
        format!(
            "name = \"f\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 4\nrecords_per_agent = 10\ndim = 3\n[graph]\nkind = \"ring\"\n\
             [privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\n{more}"
        )
        .into_bytes()
    };
    let mut all = vec![
        small("kind = \"dgd\"\nrounds = 5\n"),
        small(
            "kind = \"gd\"\naggregation = \"fixed\"\nrounds = 4\nexchange = \"masked\"\ncolluders = 1\n",
        ),
        small("kind = \"decor\"\nrounds = 4\ncolluders = 1\n"),
        small("kind = \"admm\"\nrounds = 4\n"),
    ];
    all.extend(BUILT_IN.iter().map(|(_, _, text)| text.as_bytes().to_vec()));
    all
}
