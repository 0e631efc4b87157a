//! `consenso ask`: statistics of all records with intervals, in one exchange.

use crate::folder::RunFolder;
use crate::machine::Threads;
use crate::overrides::{self, Override};
use crate::run::Entropy;
use crate::spending::{self, AskedLimit, Changed};
use crate::{Failure, files, output, table};
use anyhow::{Context as _, anyhow};
use consenso_engine::experiment::{
    self, Asking, ExchangeKind, Experiment, ExperimentSpec, Questionnaire, Silent, SpecError,
};
use consenso_engine::queries::{self, Answered, KnownPart, Question, Released};
use consenso_engine::record::ResultKind;
use consenso_ledger::{Edited, LedgerSummary, RecordsLedger};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Ask for statistics of all records, with intervals that contain the noise
///
/// One exchange answers all questions, under one budget. What was asked before of the same records
/// is answered from what was released then, for nothing.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso ask adult 'mean age by sex' 'quantiles hours-per-week'
  consenso ask study.toml 'count by site' 'crosstab sex occupation' --epsilon 0.5 --exchange masked
  consenso ask study.toml --entropy os --out answers          the [[query]] tables of the file
  consenso ask study.toml 'mean age \u{b1} 1' --epsilon 0.5       as much of the budget as one year takes

A question is a kind, its columns, and what else it needs: by COLUMN or by site, q=0.1,0.9, bins=8, cuts=30,60,
horizon=365, \u{b1} PRECISION. Names with blanks stand in quotes. Kinds:
  count, share COLUMN, mean COLUMN, sum COLUMN, histogram COLUMN, quantiles COLUMN, crosstab A B [C], summary [COLUMNS],
  correlation [COLUMNS], survival TIME EVENT, roc SCORE LABEL
`consenso plan` prints the expected error of every answer before it is asked.")]
pub(crate) struct Args {
    /// An experiment file, or the name of a built-in experiment: its records, graph and budget
    study: String,
    /// Questions such as 'mean age by sex' [default: the [[query]] tables of the file]
    #[arg(value_name = "QUESTION")]
    questions: Vec<String>,
    /// Change a key of the experiment, as for `consenso run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    format: files::FormatArgs,
    /// The budget of all questions together [default: that of the file]
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
    /// How sites exchange their sums: plain, secret-shared or masked [default: that of the file]
    #[arg(long, value_parser = exchange)]
    exchange: Option<ExchangeKind>,
    /// How many sites may pool what they know, where noise is shared
    #[arg(long, value_name = "C")]
    colluders: Option<usize>,
    /// How many sites may drop out of masked sums; answers are then about those that are left
    #[arg(long, value_name = "T")]
    drop_outs: Option<usize>,
    /// Have intervals also be about what the records were drawn from
    #[arg(long)]
    sampling: bool,
    /// Where the noise comes from: `seed` repeats bit for bit, for science; `os` is what a privacy
    /// claim holds for
    #[arg(long, value_enum, default_value_t = Entropy::Seed)]
    entropy: Entropy,
    /// Seed of everything random, instead of the file's
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Folder to write: answers.json, answers.csv, answers.tex and a page, answers.html
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What a file of records is that has changed since its ledger knew it (--entropy os)
    #[arg(long, value_enum, value_name = "WHICH")]
    records: Option<Changed>,
    /// Folder of the ledger of spent privacy [default: consenso-ledger, beside the records]
    #[arg(long, value_name = "DIR")]
    ledger: Option<PathBuf>,
    /// The most that all studies of these records may cost, as 3 or 3,1e-5; kept in the ledger
    #[arg(long, value_name = "EPSILON[,DELTA]", value_parser = spending::limit)]
    limit: Option<(f64, Option<f64>)>,
    #[command(flatten)]
    threads: Threads,
}

fn exchange(text: &str) -> Result<ExchangeKind, anyhow::Error> {
    serde_json::from_value(json!(text)).map_err(|_| anyhow!("it is plain, secret-shared or masked"))
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    args.threads.start()?;
    let text = files::experiment(&args.study)?;
    let mut changes = args.set.iter().map(|s| s.parse()).collect::<Result<Vec<Override>, _>>()?;
    if !args.questions.is_empty() {
        // A file need not train or ask anything itself; what is asked takes the place of this.
        changes.push("query=[{kind=\"count\"}]".parse()?);
    }
    let mut spec = overrides::read(&text.text, &text.file, &changes)?;
    args.format.set(&mut spec);
    spec.seed = args.seed.unwrap_or(spec.seed);
    if !args.questions.is_empty() {
        let asked = args.questions.iter().enumerate();
        spec.query = asked.map(|(k, q)| Question::from_phrase(q, k)).collect::<Result<_, _>>()?;
    }
    let said = &mut spec.questions;
    said.epsilon = args.epsilon.or(said.epsilon);
    said.exchange = args.exchange.unwrap_or(said.exchange);
    said.colluders = args.colluders.or(said.colluders);
    said.drop_outs = args.drop_outs.or(said.drop_outs);
    said.sampling |= args.sampling;
    let folder = args.out.as_deref().map(|out| RunFolder::check(Some(out), &spec.name, spec.seed));
    let folder = folder.transpose()?;
    let original = text.text.clone();
    let located = |error: SpecError| overrides::relocate(error, &original, &changes);
    let books = Books {
        place: args.ledger.as_deref(),
        limit: args.limit.map(|amount| AskedLimit { amount, for_life: false, may_ask: !json }),
        changed: args.records,
    };
    let asked = ask(text, &spec, args.entropy.draw()?, &books, located)?;
    let out = match folder {
        Some(folder) => Some(folder.write(|path| write(path, &asked)).map_err(Failure::Run)?),
        None => None,
    };
    print(&asked, out.as_deref(), json)
}

/// Where what questions cost is written down.
pub(crate) struct Books<'a> {
    pub(crate) place: Option<&'a Path>,
    pub(crate) limit: Option<AskedLimit>,
    pub(crate) changed: Option<Changed>,
}

/// Questions with their answers, and what they cost.
pub(crate) struct Asked {
    name: String,
    pub(crate) answers: Vec<Answered>,
    /// The claim in words; nothing where all was known already, or nothing is claimed.
    claim: Option<String>,
    /// ε and δ.
    cost: Option<(f64, f64)>,
    seeded: bool,
    parts: Vec<(String, usize, f64)>,
    /// How many records a person has at most.
    records_per_person: u32,
    standings: Vec<LedgerSummary>,
    warnings: Vec<String>,
}

/// Asks the questions of a study: charges them first, runs the exchange, and keeps what was
/// released beside the ledger.
pub(crate) fn ask(
    text: files::Text,
    spec: &ExperimentSpec,
    entropy: Option<[u8; 32]>,
    books: &Books<'_>,
    located: impl Fn(SpecError) -> SpecError + Copy,
) -> Result<Asked, Failure> {
    let Some(spec) = spec.questions_alone() else {
        return Err(anyhow!(
            "there is no question: add one as in 'mean age by sex', or [[query]] tables to the file"
        )
        .into());
    };
    let inputs = files::opened(text, spec.clone(), entropy, located)?;
    let real = inputs.source.dataset().filter(|_| entropy.is_some());
    let schema = real.map(|data| json!(data.schema));
    let memory = Memory::open(&spec, schema.as_ref(), books.changed, books)?;
    let known = memory.as_ref().map_or_else(Vec::new, Memory::parts);
    let experiment = match Experiment::check_asking(inputs, &known).map_err(located)? {
        Asking::Known(answers) => {
            return Ok(Asked {
                name: spec.name.clone(),
                answers,
                claim: None,
                cost: None,
                seeded: entropy.is_none(),
                parts: Vec::new(),
                records_per_person: 1,
                standings: Vec::new(),
                warnings: Vec::new(),
            });
        }
        Asking::ToAsk(experiment) => *experiment,
    };
    let places: Vec<_> = experiment.places(None);
    let transcripts: Vec<_> =
        places.into_iter().filter(|p| matches!(p.part, experiment::Part::Algorithm(_))).collect();
    let standings =
        spending::reserve(&experiment, &transcripts, books.place, books.limit, books.changed)?;
    let finished = experiment::run(&experiment, &Silent).map_err(|e| Failure::Run(e.into()))?;
    let (released, answers) =
        experiment.answered(&finished).context("the run released nothing").map_err(Failure::Run)?;
    // The ledgers have their names now, if they are new, and know the records, if those changed.
    if let (Some(memory), ResultKind::Shareable { .. }) =
        (Memory::open(&spec, schema.as_ref(), None, books)?, experiment.result_kind())
    {
        memory.keep(&released).map_err(Failure::Run)?;
    }
    let claim = experiment.claim(0);
    Ok(Asked {
        name: spec.name.clone(),
        answers,
        cost: claim.as_ref().map(|c| (c.epsilon, c.delta)),
        claim: claim.map(|c| c.to_string()),
        seeded: experiment.is_seeded(),
        parts: experiment.questionnaire().map(|q| q.plan().parts()).unwrap_or_default(),
        records_per_person: experiment.questionnaire().map_or(1, Questionnaire::records_per_person),
        standings,
        warnings: experiment.warnings().to_vec(),
    })
}

/// What earlier questions released of the same records: kept beside their ledger.
struct Memory {
    file: PathBuf,
    study: String,
    entries: Vec<Entry>,
}

/// One released part, and of what study it is.
#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    /// Records, schema, division and exchange: what an answer is a function of, beside its part.
    study: String,
    part: KnownPart,
}

impl Memory {
    /// `None` where nothing is kept: records of everybody's, or noise from a seed.
    fn open(
        spec: &ExperimentSpec,
        schema: Option<&Value>,
        changed: Option<Changed>,
        books: &Books<'_>,
    ) -> Result<Option<Self>, Failure> {
        let Some(schema) = schema else { return Ok(None) };
        let Some(pattern) = spec.data.path.as_deref().filter(|_| spec.privacy.is_some()) else {
            return Ok(None);
        };
        let edited = match changed {
            None => Edited::Ask,
            Some(Changed::Same) => Edited::Same,
            Some(Changed::Other) => Edited::Other,
        };
        let mut names = Vec::new();
        for records in files::expand(Path::new(""), pattern)? {
            let ledger = RecordsLedger::open(&records, books.place, edited)
                .with_context(|| format!("the ledger of {}", records.display()))?;
            names.push(ledger.path().to_path_buf());
        }
        let Some(first) = names.first() else { return Ok(None) };
        let file = first.with_extension("answers.json");
        let asked = &spec.questions;
        let neighbours = spec.privacy.map(|p| p.neighbours);
        let mut study = json!([
            names
                .iter()
                .map(|n| n.file_name().map(|f| f.to_string_lossy().into_owned()))
                .collect::<Vec<_>>(),
            schema,
            [json!(spec.data.agents), json!(spec.data.partition), json!(spec.seed)],
            [json!(asked.exchange), json!(asked.correlated), json!(neighbours)],
        ]);
        // What was released without a site is about other records.
        if let (Some(all), false) = (study.as_array_mut(), spec.drop_out.is_empty()) {
            all.push(json!(spec.drop_out));
        }
        let entries = match std::fs::read(&file) {
            // Answers about records as they were are none about records as they are.
            _ if books.changed.is_some() => Vec::new(),
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| {
                format!("{}: not the answers of earlier questions", file.display())
            })?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(anyhow!("{}: {error}", file.display()).into()),
        };
        Ok(Some(Self { file, study: study.to_string(), entries }))
    }

    fn parts(&self) -> Vec<KnownPart> {
        let same = self.entries.iter().filter(|e| e.study == self.study);
        same.map(|e| e.part.clone()).collect()
    }

    fn keep(mut self, released: &Released) -> anyhow::Result<()> {
        let known: Vec<String> = self.parts().into_iter().map(|p| p.key).collect();
        for part in released.parts.iter().filter(|p| p.sigma > 0.0 && !known.contains(&p.key)) {
            self.entries.push(Entry { study: self.study.clone(), part: part.clone() });
        }
        let fresh = self.file.with_extension("json.new");
        std::fs::write(&fresh, serde_json::to_vec(&self.entries)?)
            .with_context(|| format!("{}", fresh.display()))?;
        std::fs::rename(&fresh, &self.file).with_context(|| format!("{}", self.file.display()))
    }
}

/// The answers for a script.
pub(crate) fn value(asked: &Asked) -> Value {
    json!(asked.answers)
}

/// Writes the files of answers into a folder that exists.
pub(crate) fn write(path: &Path, asked: &Asked) -> anyhow::Result<()> {
    let put = |name: &str, text: String| {
        std::fs::write(path.join(name), text).with_context(|| path.join(name).display().to_string())
    };
    let mut json = serde_json::to_string_pretty(&about(asked, None)?)?;
    json.push('\n');
    put("answers.json", json)?;
    put("answers.csv", queries::csv(&asked.answers))?;
    put("answers.tex", queries::latex(&asked.answers))?;
    let title = format!("{}: answers", asked.name);
    put("answers.html", queries::html(&title, &words(asked), &asked.answers))
}

/// What the answers cost, in words.
fn words(asked: &Asked) -> String {
    let seeded = if asked.seeded {
        "Seeded simulation: these figures hold only for a run on OS entropy."
    } else {
        ""
    };
    match (&asked.claim, asked.cost) {
        (Some(claim), _) => {
            let person = match asked.records_per_person {
                ..=1 => String::new(),
                most => format!("A record is a person with all of their at most {most} records. "),
            };
            format!("{}\n{person}{seeded}", claim.trim_end()).trim_end().to_owned()
        }
        (None, _) if asked.parts.is_empty() => {
            "All of it was known already: nothing was asked, and nothing was spent.".into()
        }
        _ => format!("Without [privacy] nothing is protected: these are exact figures. {seeded}")
            .trim_end()
            .to_owned(),
    }
}

fn about(asked: &Asked, out: Option<&Path>) -> anyhow::Result<Value> {
    let mut value = json!({
        "name": asked.name,
        "queries": asked.answers,
        "epsilon": asked.cost.map(|(epsilon, delta)| json!({ "claim": epsilon, "delta": delta, "statement": asked.claim, "seeded": asked.seeded })),
        "records_per_person": asked.records_per_person,
        "parts": asked.parts.iter().map(|(name, numbers, share)| json!({ "part": name, "numbers": numbers, "share": share })).collect::<Vec<_>>(),
        "out": out,
    });
    if !asked.standings.is_empty() {
        value["ledger"] = serde_json::to_value(&asked.standings)?;
    }
    Ok(value)
}

pub(crate) fn print(asked: &Asked, out: Option<&Path>, json: bool) -> Result<(), Failure> {
    if json {
        output::print_json(&about(asked, out)?);
        return Ok(());
    }
    for warning in &asked.warnings {
        eprintln!("warning: {warning}");
    }
    output::print(&text(asked));
    if !asked.standings.is_empty() {
        output::print(&spending::text(&asked.standings));
    }
    if let Some(out) = out {
        output::print(&format!("written to {}", out.display()));
    }
    Ok(())
}

/// The answers and what they cost.
pub(crate) fn text(asked: &Asked) -> String {
    let mut out = queries::text(&asked.answers);
    if let Some((epsilon, delta)) = asked.cost {
        let together = table::rounded_up(epsilon, 4);
        let _ = writeln!(out, "all questions together: ε = {together} at δ = {delta:e}");
    }
    let _ = writeln!(out, "{}", words(asked));
    out
}

/// What is expected of every answer, for `consenso plan`.
pub(crate) fn expected(experiment: &Experiment) -> Option<(String, Value)> {
    let asked = experiment.questionnaire()?;
    let (plan, expected) = (asked.plan(), asked.expected());
    let mut out = String::new();
    let claim = experiment.claim(0);
    if let Some(claim) = &claim {
        let epsilon = table::rounded_up(claim.epsilon, 4);
        let _ = writeln!(out, "questions: ε = {epsilon} at δ = {:e} for all together", claim.delta);
    }
    for (question, found) in plan.questions().iter().zip(&expected) {
        let _ = writeln!(out, "\n{}", question.phrase());
        for e in found {
            let group = e.group.as_ref().map_or_else(String::new, |g| format!("{g}: "));
            let assuming = match e.assuming.as_str() {
                "" => String::new(),
                assumed => format!("   (assuming {assumed})"),
            };
            let width = short(e.half_width);
            let q = e.q.map_or_else(String::new, |q| format!(" {} %", (1e4 * q).round() / 1e2));
            let off = e.range.map_or_else(String::new, |[least, most]| {
                format!("; off by {} to {} on average", short(least), short(most))
            });
            let _ = writeln!(out, "  {group}{}{q} ± {width} {}{off}{assuming}", e.what, e.unit);
        }
    }
    let _ = writeln!(out, "\nreleased:");
    for (name, numbers, share) in plan.parts() {
        let _ = writeln!(out, "  {name}: {numbers} numbers, {:.0} % of the budget", 100.0 * share);
    }
    let queries: Vec<Value> = plan
        .questions()
        .iter()
        .zip(&expected)
        .map(|(q, e)| json!({ "question": q.phrase(), "kind": q.kind, "expected": e }))
        .collect();
    let epsilon = claim.map(|c| json!({ "claim": c.epsilon, "delta": c.delta }));
    Some((out, json!({ "queries": queries, "epsilon": epsilon })))
}

fn short(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let decimals = (1.0 - x.abs().log10().floor()).clamp(0.0, 8.0) as usize;
    format!("{x:.decimals$}")
}
