//! `consenso node`: one site of a real network.

use crate::dashboard::Dashboard;
use crate::findings::{self, Finding, Mark};
use crate::output::tell;
use crate::{Failure, files, output, questions, studies, table};
use anyhow::{Context as _, anyhow};
use consenso_engine::agent::Checkpoint;
use consenso_engine::data::{Dataset, RecordKeys};
use consenso_engine::experiment::{DataOrigin, Experiment, ExperimentSpec, Inputs, SitePlan};
use consenso_engine::model::Metrics;
use consenso_engine::privacy::studies::{EpsilonDelta, Rule};
use consenso_engine::privacy::{printed_down, printed_up};
use consenso_engine::random::Seed;
use consenso_ledger::{Edited, RecordsLedger};
use consenso_node::agreement::{Agreement, AgreementSummary};
use consenso_node::audit_log::StderrEcho;
use consenso_node::claim::AnswersBy;
use consenso_node::decisions::{DecidedBy, Decision};
use consenso_node::folder::{self, Entropy, Folder, SiteFile, short};
use consenso_node::frame::Hex;
use consenso_node::identity::{self, Identity};
use consenso_node::store::{Entry, Row, Store};
use consenso_node::{
    CallFailure, Options, Outcome, Progress, books, changes, claim, clock, network, node, rejoin,
};
use consenso_study::ExperimentFile as _;
use serde_json::json;
use std::collections::HashSet;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Run one site of a network, and look at what it did
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso node init hospital-a --name a --listen 0.0.0.0:7400    make a key and a certificate
  consenso node doctor hospital-a                                 is everything there?
  consenso node run hospital-a                                    train; started again it goes on
  consenso node audit hospital-a                                  verify the ledger and the claim
  consenso node model hospital-a --npz model.npz                  the model, for NumPy")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(clap::Subcommand)]
enum NodeCommand {
    Init(Init),
    Run(Run),
    /// Where a site stands: its round, and what it has spent so far
    Status(Site),
    Health(Health),
    Audit(Audit),
    /// List a site's studies: which are finished, and what each reserved and charged
    Studies(Site),
    Abandon(studies::Abandon),
    Rejoin(Rejoin),
    Report(studies::Report),
    Model(Model),
    Questions(questions::Args),
    Answers(questions::Answers),
    /// Make a new witness for a site whose witness is lost
    ///
    /// The ledger as it is then counts as the newest: do this only when state.db is certainly no
    /// old copy.
    Witness(Site),
    /// Check all that a site needs: key, certificate, clock, records, neighbours, ledger and disk
    Doctor(Site),
}

/// Make a site's own key and certificate
///
/// The key never leaves the folder. The other sites need certificate.pem:
/// `consenso network new --certificates` puts it into everybody's trust.pem and its pin into
/// everybody's peers.toml.
#[derive(clap::Args)]
struct Init {
    /// Folder of the site
    folder: PathBuf,
    /// Name of the site, as all sites write it
    #[arg(long)]
    name: String,
    /// Address to listen at; leave it out where nobody can call in
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
}

/// Run a site until its model is ready
///
/// Every charge is on disk before its message leaves. A process that was killed goes on where it
/// stood: it sends the same bytes again and never draws noise twice for a round. SIGTERM and Ctrl-C
/// end it after the round, with exit code 0; another start goes on.
#[derive(clap::Args)]
struct Run {
    /// Folder of the site
    folder: PathBuf,
    /// How links, refusals and progress are told on stderr: `text` for people, `json` a JSON object
    /// a line
    #[arg(long, value_parser = ["text", "json"], default_value = "text")]
    log: String,
    /// What is to be thought of records that changed since studies were charged to them: `same`
    /// people's, edited (what was spent stays spent), or `other` people's
    #[arg(long, value_parser = ["same", "other"], value_name = "WHOSE")]
    edited_records: Option<String>,
    /// Exit with 1 when asked to stop before the model is ready: for a Job, which takes 0 for done
    #[arg(long)]
    until_done: bool,
    /// Serve a live page of this site on this machine; its address is printed
    #[arg(long)]
    dashboard: bool,
    /// Port of the page [default: any that is free]
    #[arg(
        long,
        value_name = "PORT",
        requires = "dashboard",
        default_value_t = 0,
        hide_default_value = true
    )]
    dashboard_port: u16,
    /// Print where it stands as JSON lines, for the process that started this one
    #[arg(long, hide = true)]
    lines: bool,
}

/// Put back what neighbours hold of a site that lost its disk
///
/// For a folder whose state.db is gone or an old copy; key, certificate, site.toml, peers.toml and
/// the study's files must be there. All neighbours are asked, so they must run. What they give back
/// is signed by this site itself. All of it is booked as spent, and rounds that may have been
/// released besides use no record. `consenso node run` goes on then.
#[derive(clap::Args)]
struct Rejoin {
    /// Folder of the site
    folder: PathBuf,
    /// Do not ask this neighbour, which is gone or does not tell the truth
    #[arg(long, value_name = "SITE")]
    without: Vec<String>,
    /// What is to be thought of records that changed since studies were charged to them: `same`
    /// people's, edited (what was spent stays spent), or `other` people's
    #[arg(long, value_parser = ["same", "other"], value_name = "WHOSE")]
    edited_records: Option<String>,
}

#[derive(clap::Args)]
struct Site {
    /// Folder of the site
    folder: PathBuf,
}

/// Verify a site's ledger, and recompute what was claimed from its events alone
#[derive(clap::Args)]
struct Audit {
    /// Folder of the site
    folder: PathBuf,
    /// Also compare the ledger with what a neighbour's audit log (audit.jsonl, with the pieces beside
    /// it, or its folder) says it received, signed by this site
    #[arg(long, value_name = "NEIGHBOUR-LOG")]
    against: Vec<PathBuf>,
}

/// Ask a running site whether it is well: exit code 0 if so, else 1
///
/// For the health check of a container. It asks the address `metrics` of site.toml.
#[derive(clap::Args)]
struct Health {
    /// Folder of the site
    folder: PathBuf,
    /// Also ask whether all links are up
    #[arg(long)]
    ready: bool,
}

/// Print the model of a finished run: the file that `consenso predict` and `consenso model show`
/// read
#[derive(clap::Args)]
struct Model {
    /// Folder of the site
    folder: PathBuf,
    /// Write it as a NumPy file with one array, `model`
    #[arg(long, value_name = "FILE")]
    npz: Option<PathBuf>,
    /// Write the model file here instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Public test records of a site's folder, if the study has some.
pub(crate) const TEST: &str = "test.csv";

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    match &args.command {
        NodeCommand::Init(args) => init(args, json),
        NodeCommand::Run(args) => run(args, json),
        NodeCommand::Status(site) => status(&site.folder, json),
        NodeCommand::Health(args) => health(args, json),
        NodeCommand::Audit(args) => audit(args, json),
        NodeCommand::Studies(site) => studies::list(&site.folder, json),
        NodeCommand::Abandon(args) => studies::abandon(args, json),
        NodeCommand::Rejoin(args) => rejoin(args, json),
        NodeCommand::Report(args) => studies::report(args, json),
        NodeCommand::Model(args) => model(args, json),
        NodeCommand::Questions(args) => asked(args, &args.folder, json),
        NodeCommand::Answers(args) => answers(args, json),
        NodeCommand::Witness(site) => witness(&site.folder, json),
        NodeCommand::Doctor(site) => doctor(&site.folder, json),
    }
}

fn init(args: &Init, json: bool) -> Result<(), Failure> {
    let metrics = Some(folder::METRICS.to_owned());
    let site = SiteFile { listen: args.listen.clone(), metrics, ..SiteFile::new(&args.name) };
    let pin = network::init(&args.folder, &site)?;
    if json {
        output::print_json(&json!({ "folder": args.folder, "name": args.name, "pin": pin }));
    } else {
        output::print(&format!(
            "{0}: a key (key.pem, keep it here) and certificate.pem\npin  {pin}\n\n\
             give certificate.pem to whoever makes the study with `consenso network new --certificates`, and tell the others the pin;\n\
             then copy peers.toml, trust.pem and the study's files into {0} (docs/three-hospitals.md)",
            args.folder.display()
        ));
    }
    Ok(())
}

/// The experiment as a site sees it: its own records under the public schema, the number of
/// everybody else's.
pub(crate) fn experiment(folder: &Folder) -> Result<Experiment, Failure> {
    let path = folder.path.join(folder::EXPERIMENT);
    let file = path.display().to_string();
    let text = fs::read_to_string(&path).with_context(|| format!("{file}: cannot be read"))?;
    let spec = ExperimentSpec::from_toml(&text, &file)?;
    let entropy = match folder.site.entropy {
        Entropy::Seed => None,
        Entropy::Os => {
            let mut bytes = [0; 32];
            getrandom::fill(&mut bytes)
                .map_err(|e| Failure::Run(anyhow!("the operating system gave no entropy: {e}")))?;
            Some(bytes)
        }
    };
    if !matches!(spec.origin(&text, &file)?, DataOrigin::Files(_)) {
        let text = files::Text { file, text, folder: folder.path.clone() };
        return Ok(Experiment::check(files::inputs(text, spec, entropy)?)?);
    }
    let schema = spec.data.with_roles(files::read_schema(&folder.path.join(folder::SCHEMA))?)?;
    let table = files::read_table(&folder.records(), &schema, &spec)?;
    let counts: Vec<usize> = folder.peers.iter().map(|p| p.records).collect();
    let held = match spec.data.hold_out {
        Some(share) => Dataset::held_out(share, table.len())?,
        None => 0,
    };
    let trains = table.len() - held;
    if trains != counts[folder.me] {
        let (records, announced) = (folder.records(), counts[folder.me]);
        let held = if held == 0 { String::new() } else { format!(" (and {held} held out)") };
        return Err(anyhow!(
            "{}: {trains} records{held}, but {announced} were announced to the other sites in peers.toml, and the noise of all depends on it\n  \
             help: train on the file that was announced, or agree on a new peers.toml",
            records.display()
        )
        .into());
    }
    // Public test records change nothing that this site does; without them its model is just not
    // judged.
    let test = folder.path.join(TEST);
    let same = |other: &Path| fs::canonicalize(other).ok() == fs::canonicalize(&test).ok();
    let test = match &spec.data.test {
        Some(_) if test.exists() && same(&folder.records()) => {
            return Err(anyhow!(
                "{}: is the file this site trains on, and test records are public\n  help: put the study's test records there, or remove it",
                test.display()
            )
            .into());
        }
        Some(_) if test.exists() => Some(files::read_table(&test, &schema, &spec)?),
        Some(_) => {
            eprintln!(
                "warning: {}: is not there, so the model will not be judged by it",
                test.display()
            );
            None
        }
        None => None,
    };
    let mut dataset =
        held_apart(Dataset::new(vec![table], test.as_ref(), spec.data.encoding)?, &spec)?;
    // It starts all the same: whether it does must not depend on its records.
    if test.is_some() && dataset.shared_records()?.is_some_and(|s| s.is_more_than_chance()) {
        eprintln!(
            "warning: {TEST}: holds records that this site trains on, so the model will not be judged by it"
        );
        dataset = dataset.without_test();
    }
    let edges_path = folder.path.join(folder::EDGES);
    let edges =
        fs::read_to_string(&edges_path).ok().map(|text| (edges_path.display().to_string(), text));
    let source = Box::new(dataset);
    Ok(Experiment::check_site(Inputs { file, text, spec, source, edges, entropy }, &counts)?)
}

fn edited(word: Option<&str>) -> Edited {
    match word {
        Some("same") => Edited::Same,
        Some(_) => Edited::Other,
        None => Edited::Ask,
    }
}

fn rejoin(args: &Rejoin, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(&args.folder)?;
    let experiment = experiment(&folder)?;
    let done =
        rejoin::rejoin(&folder, &experiment, &args.without, edited(args.edited_records.as_deref()));
    let done = match done {
        Ok(done) => done,
        Err(error) if error.is_input() => return Err(Failure::Input(error.into())),
        Err(error) => return Err(Failure::Run(error.into())),
    };
    if json {
        output::print_json(&json!(done));
        return Ok(());
    }
    let mut text = format!(
        "study      {}: rounds {} to {} put back, all of them spent\n",
        done.study,
        done.known + 1,
        done.restored
    );
    for answer in &done.answered {
        text += &format!("answered   {} has rounds up to {}\n", answer.site, answer.has);
    }
    for sentence in &done.assumed {
        text += &format!("assumed    {sentence}\n");
    }
    output::print(&(text + &format!("next       consenso node run {}", args.folder.display())));
    Ok(())
}

/// Refuses to hold records out where one more or less would change which others are: how many a site
/// trains on is announced before it starts.
pub(crate) fn fixed_hold_out(spec: &ExperimentSpec) -> Result<(), Failure> {
    match spec.data.hold_out.and(spec.record_keys()) {
        Some(RecordKeys::Content) => Err(anyhow!(
            "data.hold_out: under neighbours = \"add-remove\" each record is held out or not by itself, and a site announces before how many \
             it trains on\n  help: use neighbours = \"replace-one\", or name public test records (data.test)"
        )
        .into()),
        _ => Ok(()),
    }
}

/// Takes the records a site holds out, if its study says so, from those it trains on. They judge
/// the model for its operator: nothing that is computed from them is sent, stored or served.
pub(crate) fn held_apart(dataset: Dataset, spec: &ExperimentSpec) -> Result<Dataset, Failure> {
    match spec.data.hold_out {
        Some(share) => {
            fixed_hold_out(spec)?;
            Ok(dataset.hold_out(share, RecordKeys::Position, None, &Seed::from(spec.seed))?)
        }
        None => Ok(dataset),
    }
}

/// What to say of records that have no ledger beside them: nothing that they cost elsewhere counts.
fn ledger_left_behind(
    folder: &Folder,
    experiment: &Experiment,
    plan: &SitePlan,
    edited: Edited,
) -> Option<String> {
    if !experiment.has_own_records() || experiment.is_seeded() || plan.claim.is_none() {
        return None;
    }
    let (records, place) = (folder.records(), folder.ledger());
    // What cannot be opened is said when the site starts.
    RecordsLedger::open(&records, place.as_deref(), edited).ok().filter(RecordsLedger::is_new)?;
    let known = match folder.path.join(consenso_node::store::FILE).exists() {
        true => {
            "this site has begun studies before, so the records were moved or copied here without it"
        }
        false => "if these records were used elsewhere, they were moved or copied here without it",
    };
    Some(format!(
        "{} has no ledger of what its records have cost: a fresh budget begins; {known}\n  help: move the folder {} along with the records, or lower budget in site.toml by what they cost",
        records.display(),
        consenso_ledger::FOLDER
    ))
}

fn run(args: &Run, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(&args.folder)?;
    let experiment = experiment(&folder)?;
    let edited = edited(args.edited_records.as_deref());
    for warning in experiment.warnings() {
        tell("warning", &warning.to_string());
    }
    questions::allowed(&folder, &experiment)?;
    let plan = experiment.plan_of(folder.me).map_err(|message| anyhow!(message))?;
    if plan.claim.is_none() {
        let words = "the study makes no privacy claim: what this site sends is not protected";
        tell("warning", words);
    } else if experiment.is_seeded() {
        let words = "entropy = \"seed\": everybody can compute this site's noise; for science only";
        tell("warning", words);
    }
    if let Some(words) = ledger_left_behind(&folder, &experiment, &plan, edited) {
        tell("warning", &words);
    }
    // What cannot be read is said when the site starts.
    if let Ok(Some(fixed)) = node::about_to_fix(&folder, &experiment, &plan) {
        tell("note", &fixed);
    }
    let own = identity::pin_of_file(&args.folder.join(identity::CERTIFICATE));
    if own.is_ok_and(|pin| {
        folder.peers[folder.me].pins().all(|listed| listed != Hex(&pin).to_string())
    }) {
        let words = format!(
            "the pin of {0} in peers.toml is not that of its certificate.pem: neighbours with this peers.toml refuse {0}",
            folder.site.name
        );
        tell("warning", &words);
    }
    let echo = match args.log.as_str() {
        _ if args.lines => StderrEcho::Nothing,
        "json" => StderrEcho::Json,
        _ => StderrEcho::Text,
    };
    let options = Options { echo, edited, ..Options::default() };
    let over = AtomicBool::new(false);
    let text = fs::read_to_string(args.folder.join(folder::EXPERIMENT)).unwrap_or_default();
    let page = args
        .dashboard
        .then(|| Dashboard::start(args.dashboard_port, &folder.site.name, &text))
        .transpose()?;
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| watch(&options, &over, args.lines, page.as_ref()));
        let outcome = node::run(&folder, &experiment, &options);
        over.store(true, Ordering::Release);
        outcome
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(error) if error.is_input() => return Err(Failure::Input(error.into())),
        Err(error) => return Err(Failure::Run(error.into())),
    };
    finish(&folder, &experiment, &options, &outcome, json || args.lines)?;
    if args.until_done && outcome.model.is_none() {
        return Err(Failure::Run(anyhow!(
            "asked to stop after round {}, before the model was ready",
            outcome.round
        )));
    }
    Ok(())
}

/// Says where the node stands: a JSON line ten times a second for a parent, a line now and then for
/// a person or a journal.
fn watch(options: &Options, over: &AtomicBool, lines: bool, page: Option<&Dashboard>) {
    // A person waits, and a journal is kept.
    let pause = Duration::from_secs(if options.echo == StderrEcho::Json { 30 } else { 2 });
    let mut said = std::time::Instant::now();
    let mut before = String::new();
    let mut last = false;
    while !last {
        std::thread::sleep(Duration::from_millis(50));
        last = over.load(Ordering::Acquire);
        let progress = options.progress.get();
        if let Some(page) = page {
            page.show(std::iter::once(json!({ "progress": progress })));
            if last {
                page.close();
            }
        }
        if lines {
            let line = json!({ "progress": progress }).to_string();
            // Also without news, to notice when whoever started this process is gone.
            if line != before || said.elapsed() > Duration::from_secs(1) {
                said = std::time::Instant::now();
                if !print_line(&line) {
                    options.stop.store(true, Ordering::Relaxed);
                }
            }
            before = line;
        } else if !last && said.elapsed() > pause {
            said = std::time::Instant::now();
            let (all, up) =
                (progress.neighbours.len(), progress.neighbours.iter().filter(|n| n.up).count());
            let Progress { round, rounds, resends, .. } = progress;
            let waits = match options.progress.get().waits() {
                waits if waits.is_empty() => waits,
                waits => format!(", {waits}"),
            };
            let line =
                format!("round {round}/{rounds}, {up} of {all} links up, {resends} resends{waits}");
            if line != before {
                let time = clock::text(clock::now());
                let event = json!({
                    "time": time, "event": "progress", "round": round, "rounds": rounds, "links": all, "links_up": up,
                    "resends": resends, "waiting": waits.trim_start_matches(", "),
                });
                let told = if options.echo == StderrEcho::Json {
                    event.to_string()
                } else {
                    format!("{time} {line}")
                };
                eprintln!("{told}");
            }
            before = line;
        }
    }
}

fn print_line(line: &str) -> bool {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).is_ok()
}

/// How well the model does on test records, in one line.
fn judgement(metrics: &Metrics, own: bool) -> String {
    let whose = match own {
        true => "this site's held-out records (for its operator: exact, not to be shared)",
        false => "the public test records",
    };
    format!("\non {} of {whose}: {}", metrics.rows, table::metrics_line(metrics))
}

fn finish(
    folder: &Folder,
    experiment: &Experiment,
    options: &Options,
    outcome: &Outcome,
    json: bool,
) -> Result<(), Failure> {
    let progress = options.progress.get();
    let asks = experiment.questionnaire().is_some();
    let judged = outcome.model.as_ref().filter(|_| !asks);
    let metrics = judged.and_then(|m| experiment.metrics(0, m));
    let accuracy = metrics.as_ref().and_then(|m| m.accuracy);
    // What this site held out is nobody else's business; public test records are everybody's.
    let own = experiment.spec().data.hold_out.is_some();
    if json {
        let value = json!({
            "site": folder.site.name, "finished": outcome.model.is_some(), "reason": outcome.reason, "round": outcome.round,
            "seconds": progress.seconds, "resends": progress.resends, "test_accuracy": accuracy,
            "test_metrics": metrics, "test_records": if own { "own" } else { "public" },
            "unconfirmed": outcome.unconfirmed, "epsilon": progress.budget,
            "without": outcome.without, "everybodys_model": outcome.model.is_some() && outcome.without.is_empty(),
            "one_model": outcome.one_model,
        });
        output::print(&value.to_string());
    } else if outcome.model.is_some() {
        let judged = metrics.as_ref().map_or_else(String::new, |m| judgement(m, own));
        let how = ended(&outcome.without, outcome.one_model);
        let result = if asks {
            "the answers: consenso node answers"
        } else {
            "the model: consenso node model"
        };
        output::print(&format!(
            "{}: {how} after {} rounds in {:.1} s{judged}\n{result} {}",
            folder.site.name,
            outcome.round,
            progress.seconds,
            folder.path.display()
        ));
    } else {
        output::print(&format!(
            "{}: stopped after round {}; the state is kept, and another start goes on",
            folder.site.name, outcome.round
        ));
    }
    for name in &outcome.unconfirmed {
        let words = format!(
            "{name} did not confirm the last round; start this site again if {name} still waits for it"
        );
        tell("warning", &words);
    }
    // A stop that was asked for is no failure: whoever supervises this process must not start it
    // again.
    Ok(())
}

/// How a run ended that has a model, and whose model that is.
fn ended(without: &[String], one_model: bool) -> String {
    let theirs = match one_model {
        true => "all who remain have this model",
        false => "this is not everybody's model, and theirs may be another one",
    };
    match without {
        [] => "done".to_owned(),
        gone => format!("ended without {}: {theirs};", gone.join(", ")),
    }
}

/// The rows of a site's ledger, verified.
fn ledger(folder: &Path) -> Result<(Store, Vec<Row>), Failure> {
    let store = opened(folder)?;
    let rows = store.rows()?;
    Ok((store, rows))
}

fn opened(folder: &Path) -> Result<Store, Failure> {
    if !folder.join(consenso_node::store::FILE).exists() {
        Folder::read(folder)?;
        return Err(
            anyhow!("{}: there is no ledger: this site has not run yet", folder.display()).into()
        );
    }
    Ok(Store::look(folder)?)
}

fn status(path: &Path, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(path)?;
    let running = node::is_running(path);
    if !path.join(consenso_node::store::FILE).exists() {
        if json {
            output::print_json(
                &json!({ "site": folder.site.name, "running": running, "round": 0, "finished": false, "studies": [] }),
            );
        } else {
            output::print(&format!("{}: has not run yet", folder.site.name));
        }
        return Ok(());
    }
    let (store, rows) = ledger(path)?;
    let studies = claim::audit(&rows).map_err(|e| anyhow!(e))?;
    let last = studies.last();
    let checkpoint = last.map(|s| store.checkpoint(s.study)).transpose()?.flatten();
    let round = checkpoint.as_ref().map_or(0, Checkpoint::rounds);
    let finished = last.is_some_and(|s| s.ended.is_some());
    let promised = changes::promised(&folder.path, &folder.study, folder.agreements.len());
    if json {
        output::print_json(&json!({
            "site": folder.site.name, "running": running, "round": round, "finished": finished, "studies": studies,
            "waits": waits_for(&folder).filter(|_| running),
            "agreements": folder.agreements.iter().map(Agreement::summary).collect::<Vec<_>>(),
            "promised": promised.as_ref().map(Agreement::summary),
        }));
        return Ok(());
    }
    let state = match (running, finished) {
        (true, _) => "running",
        (false, true) => "finished",
        (false, false) => "stopped; `consenso node run` goes on",
    };
    let mut text = format!("{}: {state}, round {round}\n", folder.site.name);
    if let Some(waits) = waits_for(&folder).filter(|_| running) {
        text += &format!("{waits}\n");
    }
    if let Some(study) = last {
        let spent = study.recomputed.as_ref().map_or_else(
            || "nothing is claimed".to_owned(),
            |r| {
                format!(
                    "ε = {} at δ = {:e} ({})",
                    printed_up(r.epsilon, 4),
                    r.delta,
                    charges(study.charged)
                )
            },
        );
        text += &format!("study {}, spent so far: {spent}", short_text(&study.experiment));
    }
    let held: Vec<_> = folder.agreements.iter().map(Agreement::summary).collect();
    text += &agreed(&held, "\nagreement ").trim_end().replace("\n\n", "\n");
    if let Some(promised) = &promised {
        text += &format!(
            "\nsigned     agreement {} ({}), which does not hold yet: consenso network change apply, or withdraw",
            promised.number, promised.change
        );
    }
    output::print(&text);
    Ok(())
}

/// What the sites agreed to change, a line each.
pub(crate) fn agreed(changes: &[AgreementSummary], title: &str) -> String {
    let line = |c: &AgreementSummary| {
        format!("{title} {}: {}; signed by {}\n", c.number, c.change, c.signed.join(", "))
    };
    changes.iter().map(line).collect()
}

/// Whom a running site waits for, as it says itself.
fn waits_for(folder: &Folder) -> Option<String> {
    let answer = get(folder.site.metrics.as_ref()?, "/readyz").ok()?;
    let body = answer.split_once("\r\n\r\n")?.1.trim().to_owned();
    (!answer.starts_with("HTTP/1.1 200")).then_some(body)
}

fn health(args: &Health, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(&args.folder)?;
    let missing =
        "site.toml: there is no `metrics`, so there is nobody to ask; for example: metrics = ";
    let address =
        folder.site.metrics.with_context(|| format!("{missing}\"{}\"", folder::METRICS))?;
    let path = if args.ready { "/readyz" } else { "/healthz" };
    let answer = get(&address, path).map_err(|e| Failure::Run(anyhow!("{address}: {e}")))?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let well = head.split_whitespace().nth(1) == Some("200");
    if json {
        output::print_json(&json!({ "site": folder.site.name, "ok": well, "text": body.trim() }));
    } else if well {
        output::print(body.trim());
    }
    if well { Ok(()) } else { Err(Failure::Run(anyhow!("{}: {}", folder.site.name, body.trim()))) }
}

/// One question over plain HTTP, to this host.
fn get(address: &str, path: &str) -> std::io::Result<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(3)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(1 << 16).read_to_string(&mut answer)?;
    Ok(answer)
}

fn charges(count: u32) -> String {
    format!("{count} charge{}", if count == 1 { "" } else { "s" })
}

fn short_text(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// What the ledger beside the records says, where there is one.
fn of_records(path: &Path) -> Result<Option<consenso_ledger::LedgerSummary>, Failure> {
    // An auditor may have the ledger alone.
    let Ok(folder) = Folder::read(path) else { return Ok(None) };
    if !folder.records().exists() {
        return Ok(None);
    }
    RecordsLedger::look(&folder.records(), folder.ledger().as_deref())
        .map_err(|e| Failure::Run(anyhow!(e)))
}

/// The log against the ledger: releases that both know, that only the ledger knows, and that only
/// the log knows. Of a release eight bytes are remembered.
struct LogCheck {
    running: bool,
    logged: HashSet<u64>,
    both: usize,
    missing: usize,
}

impl LogCheck {
    fn new(path: &Path) -> Self {
        // The log is read before the ledger, of which a node that runs may have written more since.
        let running = node::is_running(path);
        let logged = consenso_node::audit_log::marks(path);
        Self { running, logged, both: 0, missing: 0 }
    }

    fn see(&mut self, row: &Row) {
        if !matches!(row.entry, Entry::Release { .. }) {
            return;
        }
        let short = row.hash.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        if self.logged.remove(&short) { self.both += 1 } else { self.missing += 1 }
    }

    fn finish(self) -> (usize, usize, usize) {
        if self.running { (self.both, 0, 0) } else { (self.both, self.missing, self.logged.len()) }
    }
}

/// An (ε, δ) that was spent, its ε rounded up.
fn amount(a: EpsilonDelta) -> String {
    format!("ε = {}, δ = {:e}", printed_up(a.epsilon, 6), a.delta)
}

/// What all studies cost together, by both rules, and which of them holds.
fn describe(s: &books::SiteLedgerSummary) -> String {
    let holds = |rule: Rule| if s.rule == rule { "   ← this rule holds" } else { "" };
    let mut text = format!(
        "budget     {} for all studies of these records ({})\n",
        amount(s.limit),
        s.limit_origin
    );
    text += &format!("sum        {}{}\n", amount(s.sum), holds(Rule::Sum));
    if let Some((rule, spent)) = s.filter {
        text += &format!("filter     {}{}\n", amount(spent), holds(rule));
    }
    text += &format!("rule       {}\n", s.rule.meaning());
    if let Some(relation) = s.relation {
        text += &format!("relation   {relation}: {}\n", relation.meaning());
    }
    if let Some(adversary) = &s.adversary {
        text += &format!("adversary  {adversary}\n");
    }
    let entropy = match s.entropy {
        "seed" => "a seed that everybody knows: for science, protects nobody",
        _ => "the operating system",
    };
    text + &format!("entropy    {entropy}\n")
}

fn audit(args: &Audit, json: bool) -> Result<(), Failure> {
    let path = args.folder.as_path();
    let decisions = consenso_node::decisions::read(path).map_err(|e| Failure::Run(e.into()))?;
    if !path.join(consenso_node::store::FILE).exists() && !decisions.is_empty() {
        return only_decided(&decisions, json);
    }
    // Once through the ledger, a row at a time: it may be longer than the memory.
    let store = opened(path)?;
    let (mut auditor, mut headings, mut count) = (claim::Auditor::default(), Vec::new(), 0usize);
    let mut log = LogCheck::new(path);
    store.scan(|row| {
        auditor.see(&row);
        log.see(&row);
        count += 1;
        if !matches!(row.entry, Entry::Release { .. }) {
            headings.push(row);
        }
    })?;
    let (rows, log) = (headings, log.finish());
    let compared = match &args.against[..] {
        [] => Vec::new(),
        logs => studies::against(path, &store.rows()?, logs)?,
    };
    let studies = auditor.finish().map_err(|e| Failure::Run(anyhow!("{}: {e}", path.display())))?;
    let standing = books::standing(&rows);
    let elsewhere = of_records(path)?;
    // The tighter of the two says what is left.
    let remaining = standing.as_ref().map(|s| {
        let other = elsewhere.as_ref().and_then(|e| e.remaining).unwrap_or(s.remaining);
        if other.epsilon < s.remaining.epsilon { other } else { s.remaining }
    });
    let holds = studies.iter().all(|s| s.holds);
    if json {
        output::print_json(&json!({
            "log": { "releases": log.0, "missing": log.1, "unknown": log.2 },
            "chain": "intact", "rows": count, "head": Hex(store.head()).to_string(),
            "budget": standing.as_ref().map(|s| s.limit), "remaining": remaining,
            "relation": standing.as_ref().and_then(|s| s.relation), "adversary": standing.as_ref().and_then(|s| s.adversary.clone()),
            "entropy": standing.as_ref().map(|s| s.entropy), "rule": standing.as_ref().map(|s| s.rule),
            "spent": standing.as_ref().map(|s| s.spent), "sum": standing.as_ref().map(|s| s.sum),
            "filter": standing.as_ref().and_then(|s| s.filter).map(|(rule, spent)| json!({ "rule": rule, "spent": spent })),
            "records_ledger": elsewhere, "studies": studies, "holds": holds, "against": compared,
            "decisions": decisions,
        }));
    } else {
        let mut text =
            format!("chain      intact, {count} rows, head {}\n", Hex(&store.head()[..8]));
        text += &match log {
            (known, 0, 0) => format!("log        all {known} releases are in audit.jsonl\n"),
            (_, missing, 0) => format!(
                "log        {missing} releases are not in audit.jsonl; the next start writes them from the ledger\n"
            ),
            (_, _, unknown) => format!(
                "log        {unknown} releases of audit.jsonl are NOT in the ledger: it is an old copy, or was cut\n"
            ),
        };
        for other in &compared {
            text += &format!(
                "against    {}: {} releases agree, {} of them with this site's signature; {} never reached it; {}\n",
                other["site"].as_str().unwrap_or_default(),
                other["agree"],
                other["signed"],
                other["only_here"],
                if other["holds"] == true {
                    "it can prove nothing else"
                } else {
                    "it can prove MORE than the ledger has"
                },
            );
        }
        text += &standing
            .as_ref()
            .map_or("budget     none: nothing is protected\n".to_owned(), describe);
        if let Some(ledger) = &elsewhere {
            text += &format!(
                "records    {} studies of these records in {}: ε = {}, δ = {:e} ({}); added up {}\n",
                ledger.studies,
                ledger.ledger.display(),
                printed_up(ledger.spent.epsilon, 6),
                ledger.spent.delta,
                ledger.rule.meaning(),
                amount(ledger.sum),
            );
        }
        if let Some(left) = remaining {
            let epsilon = printed_down(left.epsilon, 6);
            text += &format!("remaining: ε = {epsilon}, δ = {:e} for the next study\n", left.delta);
        }
        text += &questions::decided(&decisions);
        for study in &studies {
            text += &format!(
                "\nstudy {}    {} of {}{}\n  releases   {} ({} charged){}\n",
                study.study,
                short_text(&study.experiment),
                study.began,
                if study.seeded { ", seeded: for science, protects nobody" } else { "" },
                study.releases,
                study.charged,
                study.ended.as_ref().map_or(", not over".to_owned(), |r| format!(", ended: {r}")),
            );
            text += &agreed(&study.changes, "  agreement ");
            text += &study.answers.as_ref().map_or_else(String::new, |a| answers_by(a, &decisions));
            for (agent, round, weight) in &study.without {
                text += &format!(
                    "  without    agent {agent} from round {round} on (weight {weight:.3})\n"
                );
            }
            if let (Some(claim), Some(found)) = (&study.claimed, &study.recomputed) {
                text += &format!(
                    "  claimed    ε = {}, δ = {:e} ({})\n",
                    printed_up(claim.epsilon, 6),
                    claim.delta,
                    claim.method
                );
                text += &format!(
                    "  recomputed ε = {}, δ = {:e} ({}, {}) from the events alone: {}\n",
                    printed_up(found.epsilon, 6),
                    found.delta,
                    found.method,
                    found.norm,
                    if study.holds { "within the claim" } else { "ABOVE the claim" }
                );
            }
        }
        output::print(&output::folded(&text, output::columns()));
    }
    if log.2 > 0 {
        let what = "audit.jsonl knows releases that the ledger does not";
        return Err(Failure::Run(anyhow!("{}: {what}", path.display())));
    }
    if let Some(other) = compared.iter().find(|c| c["holds"] != true) {
        let (site, unknown) = (other["site"].as_str().unwrap_or_default(), &other["unknown"]);
        let what = format!(
            "{site} has releases that this site signed and its ledger does not have: {unknown}"
        );
        return Err(Failure::Run(anyhow!("{}: {what}", path.display())));
    }
    if let Some(study) = studies.iter().find(|s| !is_decided(s.answers.as_ref(), &decisions)) {
        return Err(Failure::Run(anyhow!(
            "{}: study {} began by a decision that decisions.jsonl does not have",
            path.display(),
            study.study
        )));
    }
    if !holds {
        return Err(Failure::Run(anyhow!(
            "{}: the events cost more than was claimed",
            path.display()
        )));
    }
    Ok(())
}

/// The decisions of a site that has not run yet.
fn only_decided(decisions: &[Decision], json: bool) -> Result<(), Failure> {
    if json {
        output::print_json(
            &json!({ "chain": "none yet", "rows": 0, "studies": [], "decisions": decisions, "holds": true }),
        );
    } else {
        let text = questions::decided(decisions);
        output::print(&format!("chain      none yet: this site has not run\n{text}"));
    }
    Ok(())
}

/// Whether the decision by which a study began is there; an auditor may have the ledger alone.
fn is_decided(answers: Option<&AnswersBy>, decisions: &[Decision]) -> bool {
    let there = |a: &AnswersBy| decisions.iter().any(|d| d.hash == a.decision);
    decisions.is_empty() || answers.is_none_or(there)
}

/// By whose word the site answered, in a line.
fn answers_by(answers: &AnswersBy, decisions: &[Decision]) -> String {
    let by = match answers.by {
        DecidedBy::Operator => "the operator's word",
        DecidedBy::Policy => "questions.toml, without asking",
    };
    let place = match (decisions.is_empty(), is_decided(Some(answers), decisions)) {
        (true, _) => "decisions.jsonl is not here",
        (_, true) => "as decisions.jsonl has it",
        (_, false) => "which decisions.jsonl does NOT have",
    };
    format!("  questions  answered by {by} of {}, {place}\n", answers.time)
}

fn witness(path: &Path, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(path)?;
    let made = node::renew_witness(&folder).map_err(|e| Failure::Input(e.into()))?;
    if json {
        output::print_json(&json!({ "site": folder.site.name, "witness": made }));
    } else {
        output::print(&format!(
            "{}: counts the releases of {} from now on",
            made.display(),
            folder.site.name
        ));
    }
    Ok(())
}

/// Reads a site's folder and its study, then shows or decides about the study's questions.
fn asked(args: &questions::Args, path: &Path, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(path)?;
    questions::command(args, &experiment(&folder)?, &folder, json)
}

fn answers(args: &questions::Answers, json: bool) -> Result<(), Failure> {
    let (mean, checkpoint) = finished(&args.folder)?;
    let folder = Folder::read(&args.folder)?;
    let result = (&mean[..], &checkpoint.left_out()[..]);
    questions::answers(args, &experiment(&folder)?, &folder, result, json)
}

fn model(args: &Model, json: bool) -> Result<(), Failure> {
    let (weights, round) = weights(&args.folder)?;
    let folder = Folder::read(&args.folder)?;
    let experiment = experiment(&folder)?;
    if experiment.questionnaire().is_some() {
        return Err(anyhow!(
            "the study asks questions and trains no model: consenso node answers {}",
            folder.path.display()
        )
        .into());
    }
    let model = described(&folder, &experiment, &weights)?;
    let personal = experiment.personal_model(folder.me, &weights);
    let personal_file = match &personal {
        Some((model, _)) => Some(keep_personal(&folder, model)?),
        None => None,
    };
    let write = |path: &Path, bytes: &[u8]| {
        fs::write(path, bytes).map_err(|e| Failure::Run(anyhow!("{}: {e}", path.display())))
    };
    if let Some(path) = &args.npz {
        write(path, &model.to_npz())?;
    }
    if let Some(path) = &args.out {
        write(path, model.to_json().as_bytes())?;
    }
    if json || args.npz.is_none() && args.out.is_none() {
        // The file's own keys, and the bare numbers under the name they always had.
        let mut value = json!(model);
        (value["round"], value["model"], value["npz"]) =
            (json!(round), json!(weights), json!(args.npz));
        // Where it lies, and not what it holds: what is printed here is what people send each
        // other.
        value["personal"] =
            json!(personal_file.as_ref().map(|file| json!({ "file": file, "private": true })));
        output::print_json(&value);
    }
    if let (Some(file), Some((_, metrics))) = (&personal_file, &personal) {
        let judged = metrics.as_ref().map_or_else(String::new, |m| judgement(m, true));
        eprintln!(
            "personal   {}: this site's own model around the shared one. An exact function of its records, so it never leaves the site.{judged}",
            file.display()
        );
    }
    Ok(())
}

/// Writes a personal model where only the owner of the site's folder reads it.
fn keep_personal(
    folder: &Folder,
    model: &consenso_engine::model::Model,
) -> Result<PathBuf, Failure> {
    use crate::folder::{PRIVATE, WARNING, make_private, put};
    const NAME: &str = "personal-model.json";
    let place = folder.path.join(PRIVATE);
    if !place.exists() {
        make_private(&place)?;
        put(&place, "README.txt", format!("{WARNING}\n").as_bytes())?;
    }
    put(&place, NAME, model.to_json().as_bytes())?;
    Ok(place.join(NAME))
}

/// The model of a finished site, as `consenso predict` wants it.
pub(crate) fn site_model(path: &Path) -> Result<consenso_engine::model::Model, Failure> {
    let folder = Folder::read(path)?;
    described(&folder, &experiment(&folder)?, &weights(path)?.0)
}

fn described(
    folder: &Folder,
    experiment: &Experiment,
    weights: &[f64],
) -> Result<consenso_engine::model::Model, Failure> {
    let plan = experiment.plan_of(folder.me).map_err(|e| anyhow!(e))?;
    let claim = plan.claim.map(|claim| consenso_engine::model::ClaimNote {
        epsilon: claim.epsilon,
        delta: claim.delta,
        statement: claim.to_string(),
        seeded: plan.seeded,
    });
    Ok(experiment.site_model(weights, claim))
}

/// What a finished site trained, and after how many rounds.
fn weights(path: &Path) -> Result<(Vec<f64>, u32), Failure> {
    let (model, checkpoint) = finished(path)?;
    Ok((model, checkpoint.rounds()))
}

/// What a finished site ended with, and its last state.
fn finished(path: &Path) -> Result<(Vec<f64>, Checkpoint), Failure> {
    let (store, rows) = ledger(path)?;
    let study = rows.last().map_or(0, |r| r.study);
    let checkpoint = store.checkpoint(study)?;
    let round = checkpoint.as_ref().map_or(0, Checkpoint::rounds);
    Ok(checkpoint.and_then(|c| Some((c.model()?.to_vec(), c))).with_context(|| {
        format!("{}: there is no model yet, it stands at round {round}", path.display())
    })?)
}

fn doctor(path: &Path, json: bool) -> Result<(), Failure> {
    let mut found: Vec<Finding> = Vec::new();
    let folder = Folder::read(path);
    found.push(match &folder {
        Ok(f) => {
            let text =
                format!("site {} of {}, study {}", f.site.name, f.peers.len(), short(&f.study));
            ("folder", Mark::Good, text)
        }
        Err(e) => ("folder", Mark::Bad, e.to_string()),
    });
    let folder = folder.ok();
    found.push(see_clock(path));
    found.extend(see_identity(path, folder.as_ref()));
    if let Some(folder) = &folder {
        found.extend(see_study(folder));
    }
    found.push(if path.join(consenso_node::store::FILE).exists() {
        match ledger(path) {
            Ok((_, rows)) => see_witness(folder.as_ref(), &rows),
            Err(e) => ("ledger", Mark::Bad, e.text()),
        }
    } else {
        ("ledger", Mark::Good, "none yet".into())
    });
    if let Some(folder) = &folder {
        found.extend(see_ports(folder));
    }
    found.push(match probe(path) {
        Ok(()) => ("disk", Mark::Good, "writable".into()),
        Err(e) => ("disk", Mark::Bad, e.to_string()),
    });
    if findings::print(&found, json) {
        Ok(())
    } else {
        Err(Failure::Run(anyhow!("{}: not everything is as it should be", path.display())))
    }
}

/// The address of the metrics, which another site of this host may have taken.
fn see_ports(folder: &Folder) -> Option<Finding> {
    let address = folder.site.metrics.as_ref()?;
    if folder.site.listen.as_ref() == Some(address) {
        return Some((
            "metrics",
            Mark::Bad,
            format!("{address} is `listen` as well: they need two ports"),
        ));
    }
    if node::is_running(&folder.path) {
        return Some(("metrics", Mark::Good, format!("{address}, served by this site now")));
    }
    Some(match TcpListener::bind(address) {
        Ok(_) => ("metrics", Mark::Good, address.clone()),
        Err(e) => (
            "metrics",
            Mark::Bad,
            format!("{address}: {e}; two sites of one host need two ports (site.toml)"),
        ),
    })
}

/// Whether a ledger that is intact is also the newest, as far as the site's witness knows.
fn see_witness(folder: Option<&Folder>, rows: &[Row]) -> Finding {
    let releases = rows.iter().filter(|r| matches!(r.entry, Entry::Release { .. })).count() as u64;
    match folder.map(rejoin::witnessed) {
        Some(Ok(Some(seen))) if seen > releases => {
            let text = format!(
                "an old copy: its witness has seen {seen} releases, and it has {releases}; restore the newest"
            );
            ("ledger", Mark::Bad, text)
        }
        Some(Err(e)) => ("ledger", Mark::Bad, e.to_string()),
        _ => ("ledger", Mark::Good, format!("intact, {} rows", rows.len())),
    }
}

/// The clock against what this site knows to be past: a peer with the right time would refuse one
/// with a wrong one.
fn see_clock(path: &Path) -> Finding {
    let now = clock::text(clock::now());
    let text = fs::read_to_string(path.join(consenso_node::audit_log::FILE)).unwrap_or_default();
    let line =
        text.lines().rev().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let last = line.and_then(|l| l["time"].as_str().map(str::to_owned));
    match last {
        Some(last) if now < last => {
            ("clock", Mark::Bad, format!("{now}, but audit.jsonl ends at {last}"))
        }
        _ if now.as_str() < "2026" => {
            ("clock", Mark::Bad, format!("{now}, before this program was made"))
        }
        _ => ("clock", Mark::Good, now),
    }
}

/// The key, the certificates and the pin.
fn see_identity(path: &Path, folder: Option<&Folder>) -> Vec<Finding> {
    let identity = match Identity::read(path) {
        Ok(identity) => identity,
        Err(e) => return vec![("certificate", Mark::Bad, e.to_string())],
    };
    let (mark, text) = see_dates(identity.certificate());
    let mut found = vec![("certificate", mark, text)];
    for (index, trusted) in
        identity::certificates(&path.join(identity::TRUST)).unwrap_or_default().iter().enumerate()
    {
        let (mark, text) = see_dates(trusted);
        if mark != Mark::Good {
            found.push(("trust", mark, format!("certificate {} of trust.pem: {text}", index + 1)));
        }
    }
    if let Some(folder) = folder {
        let pin =
            identity::pin(identity.certificate()).map(|p| Hex(&p).to_string()).unwrap_or_default();
        let listed = folder.peers[folder.me].pins().any(|listed| listed == pin);
        let text = if listed {
            "as in peers.toml".into()
        } else {
            format!("{pin} is not the one in peers.toml")
        };
        found.push(("pin", Mark::of(listed), text));
    }
    found
}

/// Whether a certificate holds now.
fn see_dates(certificate: &[u8]) -> (Mark, String) {
    const DAY: i64 = 86_400;
    let Some((from, until)) = identity::dates(certificate) else {
        return (Mark::Bad, "its dates cannot be read".into());
    };
    let now = clock::now() as i64;
    let date = |seconds: i64| clock::text(seconds.try_into().unwrap_or(0));
    match (until - now) / DAY {
        _ if now < from => {
            (Mark::Bad, format!("not valid before {}: is the clock right?", date(from)))
        }
        _ if now > until => (Mark::Bad, format!("expired at {}: is the clock right?", date(until))),
        days if days < 30 => {
            (Mark::Wait, format!("valid for {days} more days: time for a new one"))
        }
        days => (Mark::Good, format!("valid for {days} more days")),
    }
}

/// The records against the schema and what was announced, where this site is called, and the
/// neighbours.
fn see_study(folder: &Folder) -> Vec<Finding> {
    let site = experiment(folder).and_then(|e| {
        let plan = e.plan_of(folder.me).map_err(|m| Failure::from(anyhow!(m)))?;
        Ok((plan.records, e.graph().neighbours(folder.me).to_vec(), see_privacy(folder, &e, &plan)))
    });
    let (records, neighbours, privacy) = match site {
        Ok(site) => site,
        Err(e) => return vec![("records", Mark::Bad, e.text())],
    };
    let text = format!("{records}, as announced, under the public schema");
    let mut found = vec![("records", Mark::Good, text), privacy];
    found.extend(see_listener(folder));
    for j in neighbours {
        let peer = &folder.peers[j as usize];
        let (mark, text) = match (&peer.address, folder.calls(j as usize)) {
            (_, Err(e)) => (Mark::Bad, e.to_string()),
            (_, Ok(false)) => (Mark::Good, format!("{} calls us", peer.name)),
            (None, Ok(true)) => (Mark::Bad, format!("{} has no address", peer.name)),
            (Some(address), Ok(true)) => {
                let (mark, text) = see_peer(folder, j as usize);
                (mark, format!("{} at {address}: {text}", peer.name))
            }
        };
        found.push(("neighbour", mark, text));
    }
    found
}

/// Whether the site would take part in the study, and what it would cost.
fn see_privacy(folder: &Folder, experiment: &Experiment, plan: &SitePlan) -> Finding {
    let rows = ledger(&folder.path).map(|found| found.1).unwrap_or_default();
    let admitted = node::opening(folder, experiment, plan)
        .and_then(|opening| books::admit(&rows, &opening).map_err(Into::into));
    match (admitted, &plan.claim) {
        (Err(error), _) => ("privacy", Mark::Bad, error.to_string()),
        (Ok(_), None) => (
            "privacy",
            Mark::Wait,
            "the study makes no claim: what this site sends is not protected".into(),
        ),
        (Ok(_), Some(claim)) => {
            let seeded = if plan.seeded { "; seeded: for science, protects nobody" } else { "" };
            let epsilon = printed_up(claim.epsilon, 6);
            let text =
                format!("ε = {epsilon}, δ = {:e} ({}){seeded}", claim.delta, claim.neighbours);
            ("privacy", if plan.seeded { Mark::Wait } else { Mark::Good }, text)
        }
    }
}

/// Whether the address that others call can be listened at; a node that runs does so already.
fn see_listener(folder: &Folder) -> Option<Finding> {
    let peer = &folder.peers[folder.me];
    Some(match (&folder.site.listen, &peer.address) {
        (None, None) => return None,
        (None, Some(address)) => {
            let text =
                format!("peers.toml has others call {address}, and site.toml has no `listen`");
            ("listen", Mark::Bad, text)
        }
        (Some(listen), _) if node::is_running(&folder.path) => {
            ("listen", Mark::Good, format!("{listen}: the node runs"))
        }
        (Some(listen), _) => match TcpListener::bind(listen) {
            Ok(_) => ("listen", Mark::Good, format!("{listen} is free")),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                let text = "is not for this user; the service needs CAP_NET_BIND_SERVICE, which deploy's unit has";
                ("listen", Mark::Wait, format!("{listen} {text}"))
            }
            Err(e) => ("listen", Mark::Bad, format!("{listen}: {e}")),
        },
    })
}

/// Calls a peer, which may not have been started yet.
fn see_peer(folder: &Folder, peer: usize) -> (Mark, String) {
    match consenso_node::reach(folder, peer) {
        Ok(()) => (Mark::Good, "answers, and each believes the other".into()),
        Err(CallFailure::NobodyListens) => (
            Mark::Wait,
            "nobody listens there: is the site running, or does a firewall reject the call?".into(),
        ),
        Err(CallFailure::Silence) => {
            (Mark::Bad, "no answer: a firewall between, or not its address".into())
        }
        Err(error) => (Mark::Bad, error.to_string()),
    }
}

/// Whether a file can be written and synced beside the ledger.
fn probe(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(".probe");
    // A full disk still makes empty files.
    let written = fs::write(&path, [0; 1 << 16]).and_then(|()| fs::File::open(&path)?.sync_all());
    let removed = fs::remove_file(&path);
    written.and(removed)
}
