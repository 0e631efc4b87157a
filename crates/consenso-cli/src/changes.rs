//! `consenso network change`: who takes part in a study that runs, changed by an agreement that all
//! remaining sites sign.

use crate::{Failure, node, output};
use anyhow::{Context as _, anyhow};
use consenso_node::agreement::{self, Agreement};
use consenso_node::changes::{self, ChangeRequest};
use consenso_node::frame::Hex;
use consenso_node::{Folder, NodeError, network};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Let a site leave, have its place taken, or add an edge, in a study that goes on
///
/// One site proposes, every site that remains signs, and one applies: the others get it over their
/// links. The study, its ledgers and its noise stay as they are.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  consenso network change propose hospital-a --leave c --out leave-c.txt     check it, write it down
  consenso network change sign hospital-b leave-c.txt                        at every site that remains
  consenso network change apply hospital-a leave-c.txt                       once all have signed
  consenso network change all net --leave c                                  all of it, where all folders are")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ChangeCommand,
}

#[derive(clap::Subcommand)]
enum ChangeCommand {
    Propose(Propose),
    Sign(Sign),
    Apply(Apply),
    Withdraw(Site),
    Show(Show),
    All(All),
}

/// What is to change.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// This site takes part no more: its neighbours go on without it
    #[arg(long, value_name = "SITE")]
    leave: Option<String>,
    /// The place of this site is taken by the owner of --certificate
    #[arg(long, value_name = "SITE", requires = "certificate")]
    replace: Option<String>,
    /// These two sites become neighbours
    #[arg(long, value_name = "SITE,SITE", value_delimiter = ',')]
    edge: Option<Vec<String>>,
    /// These two sites, which an agreement made neighbours, are neighbours no more: the way back
    /// where an end of the edge had withdrawn
    #[arg(long, value_name = "SITE,SITE", value_delimiter = ',')]
    part: Option<Vec<String>>,
}

#[derive(clap::Args)]
struct Wanted {
    #[command(flatten)]
    what: What,
    /// Certificate of whoever takes the place (`consenso node init` makes one), its issuers after
    /// it
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Where it is called; left out where nobody can call in
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// Certificate that the site had before [default: the key that it showed to the proposing site]
    #[arg(long, value_name = "FILE")]
    was: Option<PathBuf>,
    /// First exchange of the new edge [default: a quarter of what is left from now on]
    #[arg(long, value_name = "EXCHANGE")]
    from: Option<u32>,
}

/// Check a change and write it down for all to sign; the proposing site signs it at once
#[derive(clap::Args)]
struct Propose {
    /// Folder of the proposing site
    folder: PathBuf,
    #[command(flatten)]
    wanted: Wanted,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Check an agreement and add this site's signature to the file
///
/// A site at an end of a new edge then completes no exchange from there on before the agreement
/// holds, or is withdrawn.
#[derive(clap::Args)]
struct Sign {
    /// Folder of the site
    folder: PathBuf,
    /// The agreement
    file: PathBuf,
}

/// Make an agreement hold that all remaining sites have signed
///
/// A node that runs takes it up within a second and passes it on; one that does not run, when it
/// starts. Applying it again changes nothing.
#[derive(clap::Args)]
struct Apply {
    /// Folder of the site
    folder: PathBuf,
    /// The agreement; several copies are put together, each with other signatures
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// Take this site's signature back, for an agreement that nobody will apply
///
/// A site that has the file with all signatures can still apply it. If this site has completed the
/// exchange in which the edge begins, the edge does not begin here, and --part lets the other end
/// go on.
#[derive(clap::Args)]
struct Site {
    /// Folder of the site
    folder: PathBuf,
}

/// Show what an agreement says and who has signed it
#[derive(clap::Args)]
struct Show {
    /// The agreement
    file: PathBuf,
    /// A site of the study: also checks the signatures and says who is missing
    #[arg(long, value_name = "SITE_DIR")]
    at: Option<PathBuf>,
}

/// Propose, sign and apply a change at all sites of a network whose folders are on this machine
#[derive(clap::Args)]
struct All {
    /// Folder that `consenso network new` made
    folder: PathBuf,
    #[command(flatten)]
    wanted: Wanted,
}

pub(crate) fn command(args: &Args, json: bool) -> Result<(), Failure> {
    match &args.command {
        ChangeCommand::Propose(args) => propose(args, json),
        ChangeCommand::Sign(args) => sign(args, json),
        ChangeCommand::Apply(args) => apply(args, json),
        ChangeCommand::Withdraw(args) => withdraw(args, json),
        ChangeCommand::Show(args) => show(args, json),
        ChangeCommand::All(args) => all(args, json),
    }
}

fn failure(error: NodeError) -> Failure {
    if error.is_input() { Failure::Input(error.into()) } else { Failure::Run(error.into()) }
}

fn request(wanted: &Wanted) -> Result<ChangeRequest, Failure> {
    let Wanted { what, certificate, address, was, from } = wanted;
    if from.is_some() && what.edge.is_none() {
        return Err(anyhow!(
            "--from is for --edge: the other changes hold from every site's next exchange on"
        )
        .into());
    }
    if (certificate.is_some() || address.is_some() || was.is_some()) && what.replace.is_none() {
        return Err(anyhow!("--certificate, --address and --was are for --replace").into());
    }
    if let Some(site) = &what.leave {
        return Ok(ChangeRequest::Leave(site.clone()));
    }
    if let (Some(site), Some(certificate)) = (&what.replace, certificate) {
        let (site, certificate) = (site.clone(), certificate.clone());
        return Ok(ChangeRequest::Replace {
            site,
            certificate,
            address: address.clone(),
            was: was.clone(),
        });
    }
    if let Some(part) = &what.part {
        return match &part[..] {
            [one, other] => Ok(ChangeRequest::Part(one.clone(), other.clone())),
            _ => Err(anyhow!("--part names two sites, as in --part a,c").into()),
        };
    }
    match what.edge.as_deref() {
        Some([one, other]) => Ok(ChangeRequest::Edge(one.clone(), other.clone(), *from)),
        _ => Err(anyhow!("--edge names two sites, as in --edge a,c").into()),
    }
}

fn read(file: &Path) -> Result<Agreement, Failure> {
    let text =
        fs::read_to_string(file).with_context(|| format!("{}: cannot be read", file.display()))?;
    Agreement::parse(&text).map_err(|message| anyhow!("{}: {message}", file.display()).into())
}

fn write(file: &Path, agreement: &Agreement) -> Result<(), Failure> {
    fs::write(file, agreement.to_string())
        .map_err(|e| Failure::Run(anyhow!("{}: {e}", file.display())))
}

/// Who has signed and who has not, as a site sees it.
fn standing(folder: &Folder, agreement: &Agreement) -> Result<(Value, Vec<String>), Failure> {
    let must = agreement.remaining(&folder.peers, &folder.agreements);
    let signed = |site: &String| agreement.signatures.iter().any(|s| s.site == *site);
    let missing: Vec<String> = must.into_iter().filter(|site| !signed(site)).collect();
    let summary = agreement.summary();
    let mut value = json!(summary);
    value["missing"] = json!(missing);
    Ok((value, missing))
}

/// Says where an agreement stands and what comes next.
fn tell(folder: &Folder, agreement: &Agreement, file: &Path, json: bool) -> Result<(), Failure> {
    let (value, missing) = standing(folder, agreement)?;
    if json {
        output::print_json(&value);
        return Ok(());
    }
    let summary = agreement.summary();
    let mut text =
        format!("agreement  {}: {}\nhash       {}\n", summary.number, summary.change, summary.hash);
    text += &format!(
        "signed     {}\n",
        if summary.signed.is_empty() { "nobody".into() } else { summary.signed.join(", ") }
    );
    text += &match missing.is_empty() {
        true => {
            format!(
                "next       consenso network change apply {} {}",
                folder.path.display(),
                file.display()
            )
        }
        false => format!(
            "missing    {}: consenso network change sign SITE_DIR {}",
            missing.join(", "),
            file.display()
        ),
    };
    output::print(&text);
    Ok(())
}

fn propose(args: &Propose, json: bool) -> Result<(), Failure> {
    let wanted = request(&args.wanted)?;
    if args.out.exists() {
        return Err(
            anyhow!("{}: exists already; nothing is overwritten", args.out.display()).into()
        );
    }
    let folder = Folder::read(&args.folder)?;
    let experiment = node::experiment(&folder)?;
    let mut agreement = changes::propose(&folder, &experiment, &wanted).map_err(failure)?;
    if agreement.remaining(&folder.peers, &folder.agreements).contains(&folder.site.name) {
        changes::sign(&folder, &experiment, &mut agreement).map_err(failure)?;
    }
    write(&args.out, &agreement)?;
    tell(&folder, &agreement, &args.out, json)
}

fn sign(args: &Sign, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(&args.folder)?;
    let mut agreement = read(&args.file)?;
    changes::sign(&folder, &node::experiment(&folder)?, &mut agreement).map_err(failure)?;
    write(&args.file, &agreement)?;
    tell(&folder, &agreement, &args.file, json)
}

fn apply(args: &Apply, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(&args.folder)?;
    let mut agreement = read(&args.files[0])?;
    for file in &args.files[1..] {
        let more = read(file)?;
        if more.hash() != agreement.hash() {
            let (one, other) = (args.files[0].display(), file.display());
            return Err(anyhow!("{one} and {other} are different agreements").into());
        }
        more.signatures.into_iter().for_each(|signature| agreement.add(signature));
    }
    let new = changes::apply(&folder, &agreement).map_err(failure)?;
    let running = consenso_node::node::is_running(&args.folder);
    if json {
        let mut value = json!(agreement.summary());
        (value["new"], value["running"]) = (json!(new), json!(running));
        output::print_json(&value);
        return Ok(());
    }
    let when = match (new, running) {
        (false, _) => "holds already; nothing changes",
        (true, true) => "holds here; the node takes it up now and passes it on",
        (true, false) => "holds here; `consenso node run` takes it up and passes it on",
    };
    output::print(&format!("agreement {} ({}) {when}", agreement.number, agreement.change));
    Ok(())
}

fn withdraw(args: &Site, json: bool) -> Result<(), Failure> {
    let folder = Folder::read(&args.folder)?;
    let agreement = changes::withdraw(&folder).map_err(failure)?;
    if json {
        output::print_json(&json!(agreement.summary()));
    } else {
        output::print(&format!(
            "agreement {} ({}): {} does not keep to it any more. Tell the others: whoever has it with all signatures could still apply it",
            agreement.number, agreement.change, folder.site.name
        ));
    }
    Ok(())
}

fn show(args: &Show, json: bool) -> Result<(), Failure> {
    let agreement = read(&args.file)?;
    if let Some(at) = &args.at {
        let folder = Folder::read(at)?;
        let listed = folder.listed()?;
        let before =
            &folder.agreements[..folder.agreements.len().min(agreement.number as usize - 1)];
        let later = folder.agreements.get(agreement.number as usize..).unwrap_or_default();
        for signature in &agreement.signatures {
            agreement.is_its_own(signature, &listed, before, later).map_err(|e| anyhow!(e))?;
        }
        return tell(&folder, &agreement, &args.file, json);
    }
    let summary = agreement.summary();
    if json {
        output::print_json(&json!(summary));
    } else {
        output::print(&format!(
            "agreement  {}: {}\nstudy      {}\nhash       {}\nsigned     {} (not checked: name a site with --at)",
            summary.number,
            summary.change,
            Hex(&agreement.study),
            summary.hash,
            if summary.signed.is_empty() { "nobody".into() } else { summary.signed.join(", ") }
        ));
    }
    Ok(())
}

fn all(args: &All, json: bool) -> Result<(), Failure> {
    let wanted = request(&args.wanted)?;
    let about = match &wanted {
        ChangeRequest::Leave(site) | ChangeRequest::Replace { site, .. } => Some(site.clone()),
        ChangeRequest::Edge(..) | ChangeRequest::Part(..) => None,
    };
    let mut folders = Vec::new();
    for name in network::sites(&args.folder)? {
        folders.push(Folder::read(&args.folder.join(name))?);
    }
    // The one that knows most agreements knows who has left.
    let held =
        folders.iter().map(|f| f.agreements.clone()).max_by_key(Vec::len).unwrap_or_default();
    let remains = |f: &Folder| {
        agreement::left(&held, &f.site.name).is_none() && Some(&f.site.name) != about.as_ref()
    };
    folders.retain(remains);
    let mut agreement: Option<Agreement> = None;
    for folder in &folders {
        let experiment = node::experiment(folder)?;
        let mut file = match agreement.take() {
            Some(file) => file,
            None => changes::propose(folder, &experiment, &wanted).map_err(failure)?,
        };
        if let Err(error) = changes::sign(folder, &experiment, &mut file) {
            // What was promised so far would hold the others up.
            for earlier in folders.iter().take_while(|f| f.me != folder.me) {
                drop(changes::withdraw(earlier));
            }
            return Err(failure(error));
        }
        agreement = Some(file);
    }
    let agreement =
        agreement.with_context(|| format!("{}: no site remains", args.folder.display()))?;
    let file = args.folder.join(format!("agreement-{}.txt", agreement.number));
    write(&file, &agreement)?;
    for folder in &folders {
        changes::apply(folder, &agreement).map_err(failure)?;
    }
    if json {
        let mut value = json!(agreement.summary());
        value["file"] = json!(file);
        output::print_json(&value);
    } else {
        output::print(&format!(
            "agreement {} ({}) holds at {}\n{}: the same for whoever else needs it",
            agreement.number,
            agreement.change,
            folders.iter().map(|f| f.site.name.as_str()).collect::<Vec<_>>().join(", "),
            file.display()
        ));
    }
    Ok(())
}
