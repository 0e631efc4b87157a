//! `consenso privacy statement`: papers about a run or a site for people who have to sign for it.

use crate::{Failure, model_file, output};
use anyhow::{Context as _, anyhow};
use consenso_study::statement::{self, Answers, Facts, Format, Statement};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Write what a run or a site can state about privacy, for lawyers, registries and readers
///
/// Filled in from the record or the ledger. What no record knows (purpose, legal basis, who has
/// access, …) is left open and marked; --questions prints these questions as a file, and --answers
/// takes it. A site signs its statement with its key.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso privacy statement runs/mine-7                         in plain sentences
  consenso privacy statement --questions > answers.toml          what a person has to answer
  consenso privacy statement net/a --format registry --answers answers.toml --out entry.yaml
  consenso privacy statement net/a --format nist --html sheet.html   a signed page
  consenso privacy statement net/b --check sheet.html            is it what site a signed?

Formats: registry (registry.opendp.org, all three tiers, YAML), nist (along SP 800-226),
card (model card), text.
With --json: {format, statement, document, open, signature}.")]
pub(crate) struct Args {
    /// The folder of a run, or of a site
    #[arg(required_unless_present = "questions")]
    folder: Option<PathBuf>,
    /// Which paper
    #[arg(long, value_enum, default_value_t = Paper::Text)]
    format: Paper,
    /// Answers of a person (TOML), as --questions asks for them
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Print the questions that no record answers, as a file to fill in
    #[arg(long, conflicts_with_all = ["answers", "html", "out", "check"])]
    questions: bool,
    /// Write a page, signed where the folder is a site's
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the statement to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Check a page that a site wrote: its signature, and that it shows what was signed; FOLDER is
    /// any site of the same network
    #[arg(long, value_name = "PAGE", conflicts_with_all = ["answers", "html", "out"])]
    check: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Paper {
    /// An entry of the registry of deployments
    Registry,
    /// An answer sheet along NIST SP 800-226
    Nist,
    /// A model card
    Card,
    /// Plain sentences
    Text,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    let Some(folder) = args.folder.as_deref().filter(|_| !args.questions) else {
        let text = statement::questions();
        match json {
            true => output::print_json(&json!({ "questions": text })),
            false => output::print(text.trim_end()),
        }
        return Ok(());
    };
    if let Some(page) = &args.check {
        return check(folder, page, json);
    }
    let answers = match &args.answers {
        Some(path) => {
            let name = path.display().to_string();
            let text =
                fs::read_to_string(path).with_context(|| format!("{name}: cannot be read"))?;
            Answers::parse(&text, &name)?
        }
        None => Answers::default(),
    };
    let format = match args.format {
        Paper::Registry => Format::Registry,
        Paper::Nist => Format::Nist,
        Paper::Card => Format::Card,
        Paper::Text => Format::Text,
    };
    let made = match is_site(folder) {
        true => of_site(folder, format, &answers)?,
        false => {
            let statement = format.statement(&of_run(folder)?, &answers);
            let page = statement::html(&statement, UNSIGNED);
            Made { statement, page, signature: Value::Null }
        }
    };
    if let Some(path) = &args.html {
        write(path, &made.page)?;
    }
    say(args, &made, json)
}

/// What is written where nobody could sign.
const UNSIGNED: &str = "<p>Not signed: a run on one machine has no key. A site of a network \
    signs its statement.</p>\n";

/// A statement, its page, and who signed it.
struct Made {
    statement: Statement,
    page: String,
    signature: Value,
}

fn say(args: &Args, made: &Made, json: bool) -> Result<(), Failure> {
    let statement = &made.statement;
    let text = match args.format {
        Paper::Registry => statement::yaml(statement),
        _ => statement::text(statement),
    };
    if let Some(path) = &args.out {
        write(path, &text)?;
    }
    let open = statement.open();
    if json {
        output::print_json(&json!({
            "format": statement.format, "statement": statement, "document": statement.document(),
            "open": open, "signature": made.signature, "html": args.html, "out": args.out,
        }));
        return Ok(());
    }
    for path in args.html.iter().chain(&args.out) {
        output::print(&format!("{}: written", path.display()));
    }
    if args.html.is_none() && args.out.is_none() {
        output::print(text.trim_end());
    } else if !open.is_empty() {
        eprintln!(
            "note: open for a person: {}; `consenso privacy statement --questions` prints a file to fill in",
            open.join(", ")
        );
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|e| Failure::Run(anyhow!("{}: {e}", path.display())))
}

/// A site has a name of its own; a run has a record.
fn is_site(folder: &Path) -> bool {
    folder.join("site.toml").exists()
}

fn of_run(folder: &Path) -> Result<Facts, Failure> {
    let path = folder.join("record.json");
    let name = path.display().to_string();
    let text = fs::read_to_string(&path).with_context(|| {
        format!("{name}: cannot be read\n  help: give the folder of a run, or of a site")
    })?;
    let record: Value =
        serde_json::from_str(&text).with_context(|| format!("{name}: is not a record"))?;
    // What may not be shared is refused before anything else of it is read.
    let before = Facts::of_record(&record, None).with_context(|| name.clone())?;
    let model = model_file::find(folder, None).ok().map(|found| found.model);
    let facts = Facts::of_record(&record, model.as_ref()).unwrap_or(before);
    Ok(Facts { date: written(&path), ..facts })
}

/// The day a file was written, as 2026-01-31.
fn written(path: &Path) -> Option<String> {
    let time = fs::metadata(path).ok()?.modified().ok()?;
    let seconds = time.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(consenso_ledger::clock::text(seconds).get(..10)?.to_owned())
}

#[cfg(not(feature = "network"))]
fn of_site(folder: &Path, _: Format, _: &Answers) -> Result<Made, Failure> {
    Err(anyhow!("{}: this program was built without the network", folder.display()).into())
}

#[cfg(not(feature = "network"))]
fn check(folder: &Path, _: &Path, _: bool) -> Result<(), Failure> {
    Err(anyhow!("{}: this program was built without the network", folder.display()).into())
}

#[cfg(feature = "network")]
use site::{check, of_site};

#[cfg(feature = "network")]
mod site {
    use super::{Made, Path};
    use crate::studies::{self, SignedText};
    use crate::{Failure, node, table};
    use anyhow::{Context as _, anyhow};
    use consenso_node::frame::{Hex, sha256};
    use consenso_node::identity::{self, Identity};
    use consenso_node::store::Store;
    use consenso_node::{Folder, books, claim, clock};
    use consenso_study::statement::{self, Answers, Facts, Format, Spent, Statement, StudyFacts};
    use serde_json::{Value, json};
    use std::fs;

    const PURPOSE: &[u8] = b"consenso statement 1\0";
    const OPENING: &str = "<script type=\"application/json\" id=\"statement\">";

    pub(super) fn of_site(path: &Path, format: Format, answers: &Answers) -> Result<Made, Failure> {
        let folder = Folder::read(path)?;
        if !path.join(consenso_node::store::FILE).exists() {
            return Err(anyhow!(
                "{}: there is no ledger: this site has not run yet, and has nothing to state",
                path.display()
            )
            .into());
        }
        let store = Store::look(path)?;
        let rows = store.rows()?;
        let facts = facts(&folder, &rows)?;
        let statement = format.statement(&facts, answers);
        let identity = Identity::read(path)?;
        let key = identity::public_key(identity.certificate())?;
        let (head, pin) = (Hex(store.head()).to_string(), Hex(&sha256(&[&key])).to_string());
        let signed = json!({
            "site": folder.site.name, "made": clock::text(clock::now()), "version": env!("CARGO_PKG_VERSION"),
            "ledger": { "rows": rows.len(), "head": head }, "pin": pin, "key": Hex(&key).to_string(),
            "statement": statement,
        });
        let sealed = studies::signature(&identity, PURPOSE, &signed)?;
        // As whoever checks it reads it, so that it is the same page to the last digit.
        let signed: Value =
            serde_json::from_str(&sealed.text).map_err(|e| Failure::Run(e.into()))?;
        let page = page(&signed, &sealed).context("the statement reads back")?;
        let signature = json!({
            "scheme": sealed.signature.scheme, "signature": Hex(&sealed.signature.bytes).to_string(),
            "signed": sealed.text,
        });
        Ok(Made { statement, page, signature })
    }

    /// What a site's ledger and its public files know.
    fn facts(folder: &Folder, rows: &[consenso_node::store::Row]) -> Result<Facts, Failure> {
        let audited = claim::audit(rows)
            .map_err(|e| Failure::Run(anyhow!("{}: {e}", folder.path.display())))?;
        let standing = books::standing(rows);
        let mut studies = Vec::new();
        for study in &audited {
            let Some(claimed) = &study.claimed else { continue };
            let mut facts = StudyFacts::claimed(&format!("study {}", study.study), claimed);
            facts.releases = format!("{} messages that used records", study.charged);
            facts.holds = Some(study.holds);
            studies.push(facts);
        }
        if studies.is_empty() {
            return Err(anyhow!(
                "{}: no study of this site claims anything, so there is nothing to state",
                folder.path.display()
            )
            .into());
        }
        let spent = |a: consenso_engine::privacy::studies::EpsilonDelta| Spent {
            epsilon: a.epsilon,
            delta: a.delta,
        };
        let model = node::site_model(&folder.path).ok();
        let name = |peer: &consenso_node::folder::Peer| peer.name.clone();
        let records: usize = folder.peers.iter().map(|p| p.records).sum();
        Ok(Facts {
            name: model.as_ref().map_or_else(|| folder.site.name.clone(), |m| m.study.name.clone()),
            site: Some(folder.site.name.clone()),
            others: folder.peers.iter().map(name).filter(|n| *n != folder.site.name).collect(),
            date: audited.last().and_then(|s| Some(s.began.get(..10)?.to_owned())),
            software: format!("consenso {}", env!("CARGO_PKG_VERSION")),
            seeded: audited.iter().any(|s| s.seeded),
            simulation: false,
            task: statement::task(
                &model
                    .as_ref()
                    .and_then(|m| m.loss)
                    .map_or("agreed".into(), |l| l.name().0.to_string()),
                model.as_ref(),
            ),
            size: format!("{} sites with {records} records in all", folder.peers.len()),
            columns: model.as_ref().map(statement::columns).unwrap_or_default(),
            studies,
            total: standing.as_ref().map(|s| spent(s.spent)),
            rule: standing.as_ref().map_or(String::new(), |s| s.rule.meaning().to_string()),
            limit: standing.as_ref().map(|s| spent(s.limit)),
            remaining: standing.as_ref().map(|s| spent(s.remaining)),
            results: public_results(folder, model.as_ref()),
            evidence: format!(
                "the ledger of site {0}: `consenso node audit` checks its chain and recomputes ε \
                 from the events alone, `--against` compares it with what neighbours received",
                folder.site.name
            ),
        })
    }

    /// Results on public test records; what a site held out of its own is nobody else's.
    fn public_results(
        folder: &Folder,
        model: Option<&consenso_engine::model::Model>,
    ) -> Vec<String> {
        let Some(model) = model else { return Vec::new() };
        let Ok(experiment) = node::experiment(folder) else { return Vec::new() };
        if experiment.spec().data.hold_out.is_some() {
            return Vec::new();
        }
        let metrics = experiment.metrics(0, &model.weights);
        metrics
            .map(|m| format!("on {} public test records: {}", m.rows, table::metrics_line(&m)))
            .into_iter()
            .collect()
    }

    fn page(signed: &Value, sealed: &SignedText) -> Option<String> {
        let statement: Statement = serde_json::from_value(signed["statement"].clone()).ok()?;
        let of = |value: &Value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            consenso_study::report::escape(&text)
        };
        let foot = format!(
            "<h2>Signature</h2>\n<p>Made {made} by site {site} with consenso {version}. The ledger had {rows} rows, the last with the hash <code>{head}</code>. \
             To check this page: <code>consenso privacy statement SITE_FOLDER --check THIS_PAGE</code> at any site of the network; the key must have the pin <code>{pin}</code> in that site's peers.toml.</p>\n\
             <p>Signature (scheme {scheme}) over the facts in this page: <code id=\"signature\">{signature}</code></p>\n{OPENING}{text}</script>\n",
            made = of(&signed["made"]),
            site = of(&signed["site"]),
            version = of(&signed["version"]),
            rows = of(&signed["ledger"]["rows"]),
            head = of(&signed["ledger"]["head"]),
            pin = of(&signed["pin"]),
            scheme = sealed.signature.scheme,
            signature = Hex(&sealed.signature.bytes),
            text = sealed.text,
        );
        Some(statement::html(&statement, &foot))
    }

    pub(super) fn check(path: &Path, page_file: &Path, json: bool) -> Result<(), Failure> {
        let folder = Folder::read(path)?;
        let text = fs::read_to_string(page_file)
            .with_context(|| format!("{}: cannot be read", page_file.display()))?;
        let malformed = || anyhow!("{}: this is no statement of a site", page_file.display());
        let sealed = studies::sealed_in(&text, OPENING).ok_or_else(malformed)?;
        let found = studies::verify(&folder, PURPOSE, &sealed).ok_or_else(malformed)?;
        // Only the same version writes the same page of the same facts.
        let shows = (found.facts["version"] == env!("CARGO_PKG_VERSION"))
            .then(|| page(&found.facts, &sealed).is_some_and(|page| page == text));
        studies::say_checked(page_file, &found, shows, json);
        studies::judged(page_file, &found, shows)
    }
}
