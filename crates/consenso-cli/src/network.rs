//! `consenso network`: make a network of sites, and run all of it on one machine.

use crate::dashboard::Dashboard;
use crate::overrides::{self, Override};
use crate::{Failure, changes, files, output, table};
use anyhow::{Context as _, anyhow};
use consenso_engine::data::{Dataset, Table};
use consenso_engine::experiment::{DataOrigin, Experiment, ExperimentSpec, Inputs, Source};
use consenso_engine::graph::{Graph, GraphSpec};
use consenso_engine::privacy::printed_up;
use consenso_engine::protocol::Parameters;
use consenso_node::Folder;
use consenso_node::folder::{Entropy, METRICS, SiteFile, check_address, check_name};
use consenso_node::network::{self, Plan, PlannedSite};
use consenso_node::store::Store;
use consenso_study::ExperimentFile as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Make a network of sites, and run all of it on this machine
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso network new net --sites a,b,c --experiment adult    keys and peers, one folder a site
  consenso network up net                                      all sites as processes, here
  consenso node audit net/a                                    what it cost, from the ledger alone
  consenso network change all net --leave c                    a site leaves; the others go on

Across machines (--addresses) every site gets its own folder of net/, or makes its own key first
(--certificates) and copies the files that all share: docs/three-hospitals.md.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: NetworkCommand,
}

#[derive(clap::Subcommand)]
enum NetworkCommand {
    New(Box<New>),
    Up(Up),
    Change(Box<changes::Args>),
}

/// Make a folder with one folder a site: key, certificate, peers and the experiment
#[derive(clap::Args)]
struct New {
    /// Folder to make
    folder: PathBuf,
    /// Names of the sites, in the order of the experiment's agents
    #[arg(long, value_delimiter = ',', required = true)]
    sites: Vec<String>,
    /// An experiment file, or the name of a built-in experiment
    #[arg(long)]
    experiment: String,
    /// Change a key of the experiment, as in `consenso run`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    format: files::FormatArgs,
    /// Which of the experiment's algorithms [default: the first]
    #[arg(long, value_name = "LABEL")]
    algorithm: Option<String>,
    /// Records of every site, where their files are not on this machine
    #[arg(long, value_delimiter = ',', value_name = "N,N,…")]
    records: Vec<usize>,
    /// Where every site is called, HOST:PORT; an empty one cannot be called [default: this machine,
    /// from --port on]
    #[arg(long, value_delimiter = ',', value_name = "A,A,…")]
    addresses: Vec<String>,
    /// Certificates of sites that made their own keys (`consenso node init`): only what all sites
    /// share is written, for each to copy
    #[arg(long, value_delimiter = ',', value_name = "FILE,FILE,…")]
    certificates: Vec<PathBuf>,
    /// First port on this machine
    #[arg(long, default_value_t = 7400)]
    port: u16,
    /// Where the noise comes from: `os` is what a privacy claim holds for, `seed` repeats the
    /// simulation bit for bit
    #[arg(long, value_parser = ["os", "seed"], default_value = "os")]
    entropy: String,
    /// Write into every site's site.toml that its records need no protection, for a study without a
    /// privacy claim
    #[arg(long)]
    unprotected: bool,
    /// Write into every site's site.toml that its records are public, which --entropy seed needs
    /// for files
    #[arg(long)]
    public: bool,
}

/// Run all sites of a network as processes of this machine
#[derive(clap::Args)]
struct Up {
    /// Folder that `consenso network new` made
    folder: PathBuf,
    /// Serve a live page of the network on this machine; its address is printed
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
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    match &args.command {
        NetworkCommand::New(args) => new(args, json),
        NetworkCommand::Up(args) => up(args, json),
        NetworkCommand::Change(args) => changes::command(args, json),
    }
}

// ---- new
// --------------------------------------------------------------------------------------------------------------

fn new(args: &New, json: bool) -> Result<(), Failure> {
    args.sites.iter().try_for_each(|name| check_name(name)).map_err(|e| anyhow!("--sites: {e}"))?;
    if args.folder.exists() {
        return Err(
            anyhow!("{}: exists already; nothing is overwritten", args.folder.display()).into()
        );
    }
    let text = files::experiment(&args.experiment)?;
    let changes = args.set.iter().map(|s| s.parse()).collect::<Result<Vec<Override>, _>>()?;
    let mut spec = overrides::read(&text.text, &text.file, &changes)?;
    args.format.set(&mut spec);
    spec.runs = 1;
    let from_files = match spec.origin(&text.text, &text.file)? {
        DataOrigin::Files(pattern) => Some(pattern.to_owned()),
        DataOrigin::Adult | DataOrigin::Heart { .. } | DataOrigin::Synthetic => None,
        DataOrigin::Costs => Err(anyhow!(
            "{}: the costs of all agents stand in one file, so this experiment can be simulated only",
            text.file
        ))?,
    };
    // Public test records go to every site, which evaluates its model on them.
    let test =
        spec.data.test.as_ref().filter(|_| from_files.is_some()).map(|path| text.folder.join(path));
    let plan = match from_files {
        None => from_source(args, text, spec)?,
        Some(pattern) => from_site_files(args, &text, spec, &pattern)?,
    };
    let sites: Vec<&str> = plan.sites.iter().map(|s| s.file.name.as_str()).collect();
    if args.certificates.is_empty() {
        network::create(&args.folder, &plan)?;
    } else if args.certificates.len() == sites.len() {
        network::share(&args.folder, &plan, &args.certificates)?;
    } else {
        return Err(anyhow!(
            "--certificates names {} files for {} sites",
            args.certificates.len(),
            sites.len()
        )
        .into());
    }
    if let Some(test) = test {
        let own = args.certificates.is_empty();
        let folders = sites.iter().map(|site| args.folder.join(site));
        for folder in folders.filter(|_| own).chain((!own).then(|| args.folder.clone())) {
            let to = folder.join(crate::node::TEST);
            fs::copy(&test, &to).map_err(|e| Failure::Run(anyhow!("{}: {e}", to.display())))?;
        }
    }
    if json {
        output::print_json(&json!({ "folder": args.folder, "sites": sites }));
    } else if !args.certificates.is_empty() {
        output::print(&format!(
            "{0}: peers.toml, trust.pem and the study, the same for all {1} sites ({2})\n\n\
             every site copies them beside its key.pem, compares the pins in peers.toml with the others by another way\n\
             (a call), then:  consenso node doctor SITE_DIR",
            args.folder.display(),
            sites.len(),
            sites.join(", ")
        ));
    } else {
        output::print(&format!(
            "{0}: {1} sites ({2}), each with its key, certificate, peers and the experiment\n\
             {0}/authority-key.pem signs certificates: keep it away from the sites\n\n{3}",
            args.folder.display(),
            sites.len(),
            sites.join(", "),
            if across_hosts(&args.addresses) {
                "give every site its folder over a safe channel; there:  consenso node doctor SITE_DIR"
                    .to_owned()
            } else {
                format!("  consenso network up {}", args.folder.display())
            }
        ));
    }
    Ok(())
}

/// Whether sites have hosts of their own.
fn across_hosts(addresses: &[String]) -> bool {
    addresses.iter().any(|a| !a.is_empty() && !a.starts_with("127."))
}

/// Bundled or synthetic records: every site generates or divides them alike and keeps its share.
fn from_source(args: &New, text: files::Text, mut spec: ExperimentSpec) -> Result<Plan, Failure> {
    // Hospitals stay whole: a site is one of them, unless the file says how many agents there are.
    let whole = matches!(spec.origin(&text.text, &text.file)?, DataOrigin::Heart { .. });
    if spec.data.partition.is_none() && (!whole || spec.data.agents.is_some()) {
        spec.data.agents = Some(args.sites.len());
    }
    let most = args.sites.len() * args.sites.len().saturating_sub(1) / 2;
    if let GraphSpec::Random { edges } = &mut spec.graph
        && *edges > most
        && most > 0
    {
        eprintln!(
            "note: {} sites have {most} edges at most, not {edges}: every site is a neighbour of every other",
            args.sites.len()
        );
        *edges = most;
    }
    let edges = edges(&spec, &text.folder)?;
    let again = files::Text {
        file: text.file.clone(),
        text: text.text.clone(),
        folder: text.folder.clone(),
    };
    let mut experiment = Experiment::check(files::inputs(text, spec, None)?)?;
    let mut spec = one_algorithm(args, &mut experiment)?;
    // What every site will check when it starts; entropy of zeros is as good as any to check with.
    let entropy = (args.entropy == "os").then_some([0; 32]);
    let file = again.file.clone();
    let as_site = Experiment::check(files::inputs(again, spec.clone(), entropy)?)?;
    as_site.plan_of(0).map_err(|message| anyhow!("{file}: {message}"))?;
    if let GraphSpec::File { path, .. } = &mut spec.graph {
        *path = consenso_node::folder::EDGES.into();
    }
    if !args.records.is_empty() {
        return Err(anyhow!(
            "--records: the records of this experiment are not in files, it has {} of them itself; data.records_per_agent says how many a site has",
            experiment.records().iter().sum::<usize>()
        )
        .into());
    }
    let counts = experiment.records().to_vec();
    if counts.len() != args.sites.len() {
        return Err(anyhow!(
            "the experiment has {} agents, and --sites names {}",
            counts.len(),
            args.sites.len()
        )
        .into());
    }
    reachable(args, experiment.graph())?;
    plan(args, &spec, &counts, None, edges, &[])
}

/// One file a site: only its owner ever opens it again.
fn from_site_files(
    args: &New,
    text: &files::Text,
    mut spec: ExperimentSpec,
    pattern: &str,
) -> Result<Plan, Failure> {
    let schema_path =
        spec.data.schema.clone().context("data.schema is missing: sites need one public schema")?;
    let schema_path = text.folder.join(schema_path);
    let schema = spec.data.with_roles(files::read_schema(&schema_path)?)?;
    let schema_text =
        fs::read_to_string(&schema_path).with_context(|| schema_path.display().to_string())?;
    if spec.data.hold_out.is_some() && spec.data.test.is_some() {
        return Err(anyhow!(
            "data.hold_out: there are test records in a file: keep test or hold_out"
        )
        .into());
    }
    if spec.privacy.is_some() && !schema.is_reviewed() {
        return Err(anyhow!(
            "{}: this draft was computed from records, so no privacy claim can rest on it: replace every range and category by what is public, \
             then set reviewed = true",
            schema_path.display()
        )
        .into());
    }
    let (mut paths, mut first) = (Vec::new(), None);
    let counts = if args.records.is_empty() {
        paths = files::expand(&text.folder, pattern)?;
        if paths.len() != args.sites.len() {
            return Err(anyhow!(
                "data.path = \"{pattern}\" names {} files, and --sites {} sites: name one file a site, or say with --records how many records \
                 each has, and its owner puts them there later",
                paths.len(),
                args.sites.len()
            )
            .into());
        }
        let count = |path: &PathBuf| {
            let table = files::read_table(path, &schema, &spec)?;
            let records = table.len();
            first.get_or_insert(table);
            Ok(records)
        };
        paths.iter().map(count).collect::<anyhow::Result<Vec<_>>>()?
    } else {
        args.records.clone()
    };
    crate::node::fixed_hold_out(&spec)?;
    // What a site holds out of its file it trains nobody's model on: the others count the rest.
    let trains = |rows: usize| match spec.data.hold_out {
        Some(share) => Dataset::held_out(share, rows).map(|held| rows - held),
        None => Ok(rows),
    };
    let counts = counts
        .into_iter()
        .map(trains)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| anyhow!("data.hold_out: {e}"))?;
    let edges = edges(&spec, &text.folder)?;
    if let GraphSpec::File { path, .. } = &mut spec.graph {
        *path = consenso_node::folder::EDGES.into();
    }
    if !spec.asks_only() && !spec.query.is_empty() {
        eprintln!(
            "note: [[query]] is left out: a network trains or asks; make another network of a file with the questions alone"
        );
        spec.query.clear();
    }
    let wanted = args.algorithm.as_deref();
    if spec.algorithm.len() > 1 {
        let label = |t: &Parameters| {
            let text = |key| t.get(key).and_then(|v| v.as_str()).map(str::to_owned);
            text("label").or_else(|| text("kind")).unwrap_or_default()
        };
        let index = wanted.map_or(Some(0), |w| spec.algorithm.iter().position(|t| label(t) == w));
        let index = index.with_context(|| {
            format!("--algorithm {}: there is none of that label", wanted.unwrap_or_default())
        })?;
        spec.algorithm = vec![spec.algorithm.swap_remove(index)];
    }
    if let Some(test) = &spec.data.test {
        files::read_table(&text.folder.join(test), &schema, &spec)?;
    }
    let data = &mut spec.data;
    data.path = Some(consenso_node::folder::RECORDS.into());
    data.schema = Some(consenso_node::folder::SCHEMA.into());
    data.test = data.test.as_ref().map(|_| crate::node::TEST.into());
    (data.partition, data.agents, data.records_per_agent) = (None, None, None);
    if let Some(table) = first {
        check_as_site(args, text, &spec, table, &counts, edges.as_ref())?;
    }
    plan(args, &spec, &counts, Some(schema_text), edges, &paths)
}

/// What every site will check when it starts, with the records of the first: better now than after
/// the folders were given out.
fn check_as_site(
    args: &New,
    text: &files::Text,
    spec: &ExperimentSpec,
    table: Table,
    counts: &[usize],
    edges: Option<&String>,
) -> Result<(), Failure> {
    let dataset =
        crate::node::held_apart(Dataset::new(vec![table], None, spec.data.encoding)?, spec)?;
    let source = Source::Data(Box::new(dataset));
    let edges = edges.map(|list| (consenso_node::folder::EDGES.to_owned(), list.clone()));
    let (file, text) = (text.file.clone(), text.text.clone());
    // Some studies can be run with a public seed alone; entropy of zeros is as good as any to check
    // with.
    let entropy = (args.entropy == "os").then_some([0; 32]);
    let inputs = Inputs { file: file.clone(), text, spec: spec.clone(), source, edges, entropy };
    let experiment = Experiment::check_site(inputs, counts)?;
    experiment.plan_of(0).map_err(|message| anyhow!("{file}: {message}"))?;
    reachable(args, experiment.graph())
}

/// Every edge has an end that can be called.
fn reachable(args: &New, graph: &Graph) -> Result<(), Failure> {
    let missing = |site: u32| args.addresses.get(site as usize).is_some_and(String::is_empty);
    match graph.iter_edges().find(|&(a, b)| missing(a) && missing(b)) {
        Some((a, b)) => Err(anyhow!(
            "--addresses: neither {} nor {} can be called, and they are neighbours: one end of every edge needs an address",
            args.sites[a as usize],
            args.sites[b as usize]
        )
        .into()),
        None => Ok(()),
    }
}

/// Addresses are HOST:PORT, and no two sites are called at the same.
fn check_addresses(addresses: &[String]) -> Result<(), Failure> {
    for (index, address) in addresses.iter().enumerate().filter(|a| !a.1.is_empty()) {
        check_address(address).map_err(|message| anyhow!("--addresses: {message}"))?;
        if addresses[..index].contains(address) {
            return Err(anyhow!("--addresses: two sites are called at {address}").into());
        }
    }
    Ok(())
}

fn edges(spec: &ExperimentSpec, folder: &Path) -> Result<Option<String>, Failure> {
    let GraphSpec::File { path, .. } = &spec.graph else { return Ok(None) };
    let path = folder.join(path);
    Ok(Some(fs::read_to_string(&path).with_context(|| path.display().to_string())?))
}

fn one_algorithm(args: &New, experiment: &mut Experiment) -> Result<ExperimentSpec, Failure> {
    let labels: Vec<String> = experiment.labels().map(str::to_owned).collect();
    let label = args.algorithm.as_ref().unwrap_or(&labels[0]);
    experiment
        .resolved_for_network(label)
        .with_context(|| {
            format!(
                "--algorithm {label}: there is none of that label; there are {}",
                labels.join(", ")
            )
        })
        .map_err(Failure::Input)
}

fn plan(
    args: &New,
    spec: &ExperimentSpec,
    counts: &[usize],
    schema: Option<String>,
    edges: Option<String>,
    records: &[PathBuf],
) -> Result<Plan, Failure> {
    let sites = args.sites.len();
    if counts.len() != sites {
        return Err(anyhow!("--records has {} numbers for {sites} sites", counts.len()).into());
    }
    if !args.addresses.is_empty() && args.addresses.len() != sites {
        return Err(
            anyhow!("--addresses has {} entries for {sites} sites", args.addresses.len()).into()
        );
    }
    check_addresses(&args.addresses)?;
    let entropy = if args.entropy == "seed" { Entropy::Seed } else { Entropy::Os };
    let site = |index: usize| -> Result<PlannedSite, Failure> {
        let address = match args.addresses.get(index) {
            Some(address) => Some(address.clone()).filter(|a| !a.is_empty()),
            None => {
                let port = u16::try_from(index).ok().and_then(|i| args.port.checked_add(i));
                Some(format!("127.0.0.1:{}", port.context("--port: there are not enough ports")?))
            }
        };
        let mut file = SiteFile::new(&args.sites[index]);
        (file.entropy, file.unprotected, file.public) = (entropy, args.unprotected, args.public);
        // A host of its own listens at every address under the port that the others call.
        file.listen = match &address {
            Some(a) if args.addresses.is_empty() || a.starts_with("127.") => Some(a.clone()),
            Some(a) => Some(format!("0.0.0.0:{}", a.rsplit(':').next().unwrap_or_default())),
            None => None,
        };
        file.metrics = across_hosts(&args.addresses).then(|| METRICS.into());
        file.records = match records.get(index) {
            Some(path) => {
                Some(std::path::absolute(path).with_context(|| path.display().to_string())?)
            }
            None => None,
        };
        Ok(PlannedSite { file, address, records: counts[index] })
    };
    let experiment = spec.to_toml();
    let sites = (0..sites).map(site).collect::<Result<_, _>>()?;
    Ok(Plan { sites, experiment, schema, edges })
}

// ---- up
// ---------------------------------------------------------------------------------------------------------------

/// One process and what it last said.
struct Process {
    name: String,
    child: Child,
    said: Arc<Mutex<Value>>,
    reader: std::thread::JoinHandle<()>,
    stderr: std::thread::JoinHandle<()>,
}

/// The live page of the network in this folder; every site has the same experiment.
fn dashboard(port: u16, root: &Path, names: &[String]) -> Result<Dashboard, Failure> {
    let experiment = names.first().map(|name| root.join(name).join("experiment.toml"));
    let text = experiment.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    // The folder's own name: where it lies on this machine is nobody's business who sees the page.
    let name = root.file_name().unwrap_or(root.as_os_str()).to_string_lossy();
    Dashboard::start(port, &name, &text)
}

fn up(args: &Up, json: bool) -> Result<(), Failure> {
    let root = &args.folder;
    let names = remaining(root)?;
    let began = Instant::now();
    note_hosts(root, &names)?;
    let interrupted = crate::progress::ctrl_c();
    let warned = Arc::default();
    let mut processes =
        names.iter().map(|name| start(root, name, &warned)).collect::<Result<Vec<_>, _>>()?;
    let mut view = View::new(json);
    let page = match args.dashboard {
        true => Some(dashboard(args.dashboard_port, root, &names)?),
        false => None,
    };
    let mut unfinished = Unfinished::default();
    let mut told = false;
    loop {
        let mut running = 0;
        let asked = told || interrupted.load(std::sync::atomic::Ordering::Relaxed);
        for process in &mut processes {
            match process.child.try_wait() {
                Ok(None) => running += 1,
                // A site that was asked to stop has done so in good order, and is not finished.
                Ok(Some(status)) if status.success() && finished(process) => {}
                Ok(Some(status)) => unfinished.note(&process.name, status, asked),
                Err(e) => return Err(Failure::Run(anyhow!("{}: {e}", process.name))),
            }
        }
        view.draw(&processes);
        if let Some(page) = &page {
            page.show(
                processes.iter().map(|p| p.said.lock().map(|v| v.clone()).unwrap_or_default()),
            );
        }
        if running == 0 {
            break;
        }
        // A Ctrl-C reaches the children as well, as the terminal sends it to all; a child that
        // failed to start stops the others.
        if !told && (asked || !unfinished.is_empty()) {
            told = true;
            processes.iter().for_each(|p| terminate(&p.child));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut ends = Vec::new();
    for process in processes {
        drop(process.reader.join());
        drop(process.stderr.join());
        ends.push(process.said.lock().map(|v| v.clone()).unwrap_or_default());
    }
    view.end();
    if let Some(page) = &page {
        page.show(ends.iter().cloned());
        page.close();
    }
    ends.iter_mut().for_each(|end| drop(end.as_object_mut().map(|o| o.remove("progress"))));
    if !unfinished.is_empty() {
        return Err(unfinished.failure());
    }
    summary(root, &names, &ends, seconds, json)
}

/// The names of a network's sites, without those that left by an agreement.
fn remaining(root: &Path) -> Result<Vec<String>, Failure> {
    let mut names = network::sites(root)?;
    let mut gone = BTreeSet::new();
    for name in &names {
        let held = Folder::read(&root.join(name))?.agreements;
        gone.extend(
            names.iter().filter(|n| consenso_node::agreement::left(&held, n).is_some()).cloned(),
        );
    }
    names.retain(|name| !gone.contains(name));
    Ok(names)
}

/// Whether a process that has ended said that its model is ready. Its last words may still be on
/// their way.
fn finished(process: &Process) -> bool {
    while !process.reader.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    process.said.lock().is_ok_and(|said| said["finished"] == true)
}

/// Says so if the sites were meant for hosts of their own.
fn note_hosts(root: &Path, names: &[String]) -> Result<(), Failure> {
    let folder = Folder::read(&root.join(&names[0]))?;
    let here =
        |a: &str| a.starts_with("127.") || a.starts_with("localhost:") || a.starts_with("[::1]:");
    if let Some(peer) = folder.peers.iter().find(|p| p.address.as_deref().is_some_and(|a| !here(a)))
    {
        eprintln!(
            "note: {} is called at {}: if that is not this machine, start it there with `consenso node run` instead",
            peer.name,
            peer.address.as_deref().unwrap_or_default()
        );
    }
    Ok(())
}

/// The sites that did not finish.
#[derive(Default)]
struct Unfinished {
    /// What ended by itself, and how.
    failed: Vec<(String, ExitStatus)>,
    /// What was asked to stop because of it, or by the user.
    stopped: Vec<String>,
}

impl Unfinished {
    fn is_empty(&self) -> bool {
        self.failed.is_empty() && self.stopped.is_empty()
    }

    fn note(&mut self, name: &str, status: ExitStatus, asked: bool) {
        if self.failed.iter().any(|f| f.0 == name) || self.stopped.iter().any(|s| s == name) {
            return;
        }
        // Bad input is no matter of having been asked to stop.
        if status.success() || asked && status.code() != Some(2) {
            self.stopped.push(name.to_owned());
        } else {
            self.failed.push((name.to_owned(), status));
        }
    }

    fn failure(&self) -> Failure {
        use std::os::unix::process::ExitStatusExt as _;
        let mut text: Vec<String> = self
            .failed
            .iter()
            .map(|(name, status)| match status.signal() {
                Some(signal) => format!("{name} was ended by signal {signal}"),
                None => format!("{name} could not go on"),
            })
            .collect();
        if !self.stopped.is_empty() {
            text.push(format!("{} stopped after the round", self.stopped.join(", ")));
        }
        let text = text.join("; ");
        if self.failed.iter().any(|f| f.1.code() == Some(2)) {
            return Failure::Input(anyhow!(
                "{text}: mend what is said above, then run `consenso network up` again"
            ));
        }
        Failure::Run(anyhow!(
            "{text}; the state of every site is kept: run `consenso network up` again"
        ))
    }
}

/// Passes on what a site says on stderr; a warning that another site gave in the same words is left
/// out.
fn relay(lines: impl BufRead, warned: &Mutex<BTreeSet<String>>) {
    for line in lines.lines().map_while(Result::ok).filter(|line| is_news(line, warned)) {
        eprintln!("{line}");
    }
}

fn is_news(line: &str, warned: &Mutex<BTreeSet<String>>) -> bool {
    let for_all = line.starts_with("warning: ") || line.starts_with("note: ");
    !for_all || warned.lock().map_or(true, |mut seen| seen.insert(line.to_owned()))
}

fn start(
    root: &Path,
    name: &str,
    warned: &Arc<Mutex<BTreeSet<String>>>,
) -> Result<Process, Failure> {
    let mut child = crate::itself()?
        .args(["node", "run", "--lines"])
        .arg(root.join(name))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{name}: cannot be started"))?;
    let (err, warned) = (child.stderr.take().context("a pipe")?, Arc::clone(warned));
    let stderr = std::thread::spawn(move || relay(BufReader::new(err), &warned));
    let said = Arc::new(Mutex::new(Value::Null));
    let (out, into) = (child.stdout.take().context("a pipe")?, Arc::clone(&said));
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if let (Ok(Value::Object(new)), Ok(mut said)) =
                (serde_json::from_str(&line), into.lock())
            {
                // The last line has no progress of its own: what was known stays.
                match said.as_object_mut() {
                    Some(known) => known.extend(new),
                    None => *said = Value::Object(new),
                }
            }
        }
    });
    Ok(Process { name: name.to_owned(), child, said, reader, stderr })
}

/// Asks a process to stop after its round.
fn terminate(child: &Child) {
    drop(
        Command::new("kill")
            .arg("-TERM")
            .arg(child.id().to_string())
            .stderr(Stdio::null())
            .status(),
    );
}

/// A table that is drawn over itself in a terminal, and nothing elsewhere.
struct View {
    live: bool,
    lines: usize,
    last: Instant,
}

impl View {
    fn new(json: bool) -> Self {
        let live = !json && std::io::stderr().is_terminal();
        Self { live, lines: 0, last: Instant::now() }
    }

    fn draw(&mut self, processes: &[Process]) {
        if !self.live || (self.lines > 0 && self.last.elapsed() < Duration::from_millis(100)) {
            return;
        }
        self.last = Instant::now();
        let mut table =
            table::plain(&["site", "round", "links", "lag", "ε spent", "resends", "commit"], 1);
        for process in processes {
            let said = process.said.lock().map(|v| v.clone()).unwrap_or_default();
            table.add_row(row(&process.name, &said));
        }
        let text = table::text(&table);
        let mut err = std::io::stderr().lock();
        if self.lines > 0 {
            drop(write!(err, "\x1b[{}A\x1b[J", self.lines));
        }
        drop(err.write_all(text.as_bytes()));
        self.lines = text.lines().count();
    }

    fn end(&mut self) {
        if self.live && self.lines > 0 {
            eprint!("\x1b[{}A\x1b[J", self.lines);
        }
    }
}

fn row(name: &str, said: &Value) -> Vec<String> {
    let p = &said["progress"];
    if p.is_null() {
        return vec![name.into(), "starting".into()];
    }
    let links = p["neighbours"].as_array().cloned().unwrap_or_default();
    let up = links.iter().filter(|l| l["up"] == true).count();
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (round, released) = (number(&p["round"]), number(&p["released"]));
    let waited_for = links.iter().filter(|l| l["without"] != true);
    let lag = waited_for.map(|l| released.saturating_sub(number(&l["heard"]))).max().unwrap_or(0);
    let epsilon = p["epsilon"].as_f64().map_or("–".to_owned(), |e| printed_up(e, 4));
    vec![
        name.into(),
        format!("{round}/{}", p["rounds"]),
        format!("{up}/{}", links.len()),
        lag.to_string(),
        epsilon,
        p["resends"].to_string(),
        format!("{:.1} ms", p["commit_ms"].as_f64().unwrap_or(0.0)),
    ]
}

fn summary(
    root: &Path,
    names: &[String],
    ends: &[Value],
    seconds: f64,
    json: bool,
) -> Result<(), Failure> {
    let mut models = Vec::new();
    for name in names {
        let store = Store::look(&root.join(name))?;
        let study = store.rows()?.last().map_or(0, |r| r.study);
        let checkpoint = store.checkpoint(study)?;
        models.push(checkpoint.and_then(|c| c.model().map(<[f64]>::to_vec)).unwrap_or_default());
    }
    let apart =
        models.iter().flat_map(|a| models.iter().map(move |b| distance(a, b))).fold(0.0, f64::max);
    if json {
        output::print_json(
            &json!({ "sites": ends, "largest_distance": apart, "seconds": seconds }),
        );
        return Ok(());
    }
    let (own, regression) = (
        ends.iter().any(|end| end["test_records"] == "own"),
        ends.iter().any(|end| end["test_metrics"]["r2"].is_number()),
    );
    let judged = match (own, regression) {
        (true, false) => "accuracy on its own held-out records",
        (true, true) => "R² on its own held-out records",
        (false, false) => "test accuracy",
        (false, true) => "test R²",
    };
    let mut table = table::plain(&["site", "rounds", "seconds", "ε", "resends", judged], 1);
    for end in ends {
        let percent =
            |v: &Value| v.as_f64().map_or("–".to_owned(), |a| format!("{:.2} %", 100.0 * a));
        table.add_row(vec![
            end["site"].as_str().unwrap_or_default().to_owned(),
            end["round"].to_string(),
            format!("{:.2}", end["seconds"].as_f64().unwrap_or(0.0)),
            end["epsilon"].as_f64().map_or("–".to_owned(), |e| printed_up(e, 4)),
            end["resends"].to_string(),
            match regression {
                true => end["test_metrics"]["r2"]
                    .as_f64()
                    .map_or("–".to_owned(), |r2| format!("{r2:.4}")),
                false => percent(&end["test_accuracy"]),
            },
        ]);
    }
    output::print(&format!(
        "{}\nmodels of two sites are at most {apart:.2e} apart; {seconds:.1} s from start to end\n\
         the model: consenso node model {}",
        table::text(&table),
        root.join(&names[0]).display()
    ));
    Ok(())
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_passed_on_once_and_all_else_always() {
        let warned = Mutex::default();
        let said = [
            "warning: seeded",
            "site-0: away",
            "warning: seeded",
            "site-0: away",
            "warning: clamped",
        ];
        let news: Vec<&str> = said.into_iter().filter(|line| is_news(line, &warned)).collect();
        assert_eq!(news, ["warning: seeded", "site-0: away", "site-0: away", "warning: clamped"]);
    }
}
