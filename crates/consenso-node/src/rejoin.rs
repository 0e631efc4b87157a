//! A site that lost its disk comes back: neighbours hold its last releases with its own signatures,
//! so that they cannot invent any.
//!
//! # What is restored
//! The last release R that any neighbour proves, its charge and those of all before it (the
//! schedule knows them), and the state after it, for algorithms whose next message is a function of
//! the last releases: `dgd`, `rcd`, `neighbourhood` and `gd` with fixed weights. Others remember
//! more than neighbours keep, and are refused with the reason.
//!
//! # What is never drawn again
//! Neighbours may hide the newest releases. A site releases round r after it has every neighbour's
//! round r − 1, and an honest neighbour releases round r − 1 after it has this site's round r − 2:
//! so a site is never more than two rounds ahead of what an honest neighbour holds. **If one
//! neighbour that answered is honest, at most the rounds R + 1 and R + 2 were ever released.** Both
//! are charged and use no record: the site passes on a mix of what was released, which is no
//! function of its records beyond R. So whatever noise left before, no second one does. Without
//! that assumption the witness of `site.toml` decides: it counts releases before they leave, and
//! all rounds up to its count are spared. A site that may go on without a neighbour
//! (`away = "continue-without"`) may be any number of rounds ahead of an honest one, so it comes
//! back with a witness only. (A neighbour that went on without this site refuses it, and proves
//! nothing.)
//!
//! A release that reached nobody is lost with the disk and harms nobody.

use crate::admission::{agrees, reserve};
use crate::agreement::keys_before;
use crate::audit_log::{self, AuditLog};
use crate::changes::{self, Added};
use crate::driven::Driven;
use crate::error::NodeError;
use crate::folder::{Away, Folder, graph_digest};
use crate::frame::{Digest, Frame, release_hash};
use crate::identity::{Identity, public_key};
use crate::link::{self, LinkEvent, Shared};
use crate::node::{lock, opening};
use crate::release_signature::{ReleaseSignature, ReleaseStatement};
use crate::store::{Entry, Store, StudyStart};
use crate::wire::{Tcp, Wire};
use crate::witness::{Seen, Witness};
use crate::{spending, studies};
use bytes::Bytes;
use consenso_engine::experiment::{Experiment, SitePlan};
use consenso_engine::privacy::studies::StudyCost;
use consenso_ledger::terminal::harmless;
use consenso_ledger::{Edited, RecordsLedger};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// What a neighbour said.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Its name.
    pub site: String,
    /// The newest exchange of this site that it proved to have; 0 for none.
    pub has: u32,
}

/// What was restored, and what that rests on.
#[derive(Clone, Debug, Serialize)]
pub struct Rejoined {
    /// The study's number in the ledger.
    pub study: i64,
    /// Exchanges that the ledger knew.
    pub known: u32,
    /// The last exchange that was restored.
    pub restored: u32,
    /// Exchanges up to this one are charged and use no record, for they may have been released.
    pub spared_until: u32,
    /// Who answered.
    pub answered: Vec<Answer>,
    /// Who was not asked.
    pub without: Vec<String>,
    /// How many releases the witness has seen.
    pub witness: Option<u64>,
    /// What the operator must know: each a sentence.
    pub assumed: Vec<String>,
}

/// What neighbours have of this site.
struct Asked {
    /// Proved releases by exchange.
    releases: BTreeMap<u32, (Bytes, Vec<f64>)>,
    answers: BTreeMap<u32, u32>,
}

impl Asked {
    /// The newest exchange that is proved; 0 for none.
    fn newest(&self) -> u32 {
        self.releases.keys().next_back().copied().unwrap_or(0)
    }
}

/// Asks all neighbours but those named in `without`, and makes durable what they have. `node run`
/// goes on from there.
///
/// # Errors
/// A site that runs, an algorithm that remembers more, a neighbour that does not answer or
/// contradicts, or a budget that does not allow the study.
pub fn rejoin(
    folder: &Folder,
    experiment: &Experiment,
    without: &[String],
    edited: Edited,
) -> Result<Rejoined, NodeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime
        .map_err(|cause| NodeError::System { what: "the network's thread".into(), cause })?;
    let open = |dim| Ok(Store::open(&folder.path, dim)?);
    runtime.block_on(rejoin_over(
        folder,
        experiment,
        without,
        edited,
        Arc::new(Tcp::of(folder)),
        open,
    ))
}

/// Rejoins over a given network, with a ledger that `open` opens for vectors of so many numbers.
pub(crate) async fn rejoin_over(
    folder: &Folder,
    experiment: &Experiment,
    without: &[String],
    edited: Edited,
    wire: Arc<dyn Wire>,
    open: impl FnOnce(usize) -> Result<Store, NodeError>,
) -> Result<Rejoined, NodeError> {
    let _lock = lock(folder)?;
    folder.known()?;
    agrees(folder, experiment)?;
    let (agent, plan) = with_added_edges(folder, experiment)?;
    agent.rejoined(0, None).map_err(|why| cannot(&why))?;
    let asked = whom_to_ask(folder, &agent, without)?;
    if folder.site.away == Away::ContinueWithout && folder.witness().is_none() {
        let why = "site.toml has away = \"continue-without\", so this site may have released any number of rounds that no neighbour holds; only a witness could say how many, and site.toml names none";
        return Err(cannot(&why));
    }
    finished(folder)?;
    let logged = logged(folder)?;
    let found = ask(folder, experiment, &agent, plan.width, asked, wire).await?;
    let restored = found.newest();
    // The ledger, which may be an old copy.
    let seen = seen(folder)?;
    let mut store = open(plan.width)?;
    let counted = seen.map(|seen| counted(folder, &store, seen)).transpose()?;
    // A witness counts a release before it leaves: one that has seen less than neighbours hold is
    // an old copy itself, and says nothing about what came after.
    let stale = counted.is_some_and(|counted| counted < restored);
    if stale && folder.site.away == Away::ContinueWithout {
        let why = "site.toml has away = \"continue-without\", so this site may have released any number of rounds that no neighbour holds; and its witness is an old copy, which neighbours prove by a later release with this site's signature";
        return Err(cannot(&why));
    }
    let opening = opening(folder, experiment, &plan)?;
    let books = experiment.has_own_records() && !opening.seeded;
    let mut assumed = Vec::new();
    let study = store.begin_after(&opening, |id, limit| {
        let own = books.then(|| folder.records());
        let Some((records, cost)) = own.zip(opening.cost) else { return Ok(id) };
        let before = match id {
            // What neighbours hold was released, so the study is in the ledger beside the records:
            // unless that was lost, too.
            None if restored > 0 => {
                let ledger = RecordsLedger::open(&records, folder.ledger().as_deref(), edited)?;
                let known = booked_before(&ledger, &opening, cost);
                if known.is_none() {
                    assumed.push(format!(
                        "{} knew nothing of this study: it was lost as well, and what other studies of these records cost is forgotten. \
                         If there were any, lower `budget` in site.toml by what they cost",
                        ledger.path().display()
                    ));
                }
                known
            }
            id => id,
        };
        reserve(folder, &records, edited, &opening, cost, before, limit).map(Some)
    })?;
    let known = last_release(&store, study.number)?;
    let proved = studies::behind(&store.headings()?, study.number).map_or(0, |behind| behind.0);
    if (1..=known).contains(&proved) {
        return Err(NodeError::Experiment(format!(
            "an old copy of this folder has run: it drew exchange {proved} again, which a neighbour has with other noise, and no ledger can say what both cost\n  help: have all sites give the study up (`consenso node abandon`); all that it reserved stays spent here"
        )));
    }
    if known > restored || study.checkpoint.as_ref().is_some_and(|c| c.model().is_some()) {
        return Err(NodeError::Experiment(format!(
            "the ledger (state.db) knows {known} exchanges of this study, and neighbours have {restored}: nothing is lost; `consenso node run` goes on"
        )));
    }
    // What an earlier return of this site found stays, whoever answers now.
    let before = studies::spared_until(&store.headings()?, study.number);
    let unseen = if counted.is_none() || stale { restored + 2 } else { 0 };
    let bounds = [counted.unwrap_or(0), unseen, logged, before, proved, restored];
    let until = bounds.into_iter().max().unwrap_or(0).min(agent.last());
    assumed.extend(assumptions(seen.map(|seen| seen.releases), stale, restored, until));
    // Who became a neighbour later has nothing of the rounds before.
    assumed.extend(agent.joined().into_iter().filter(|(_, from)| (seen.is_none() || stale) && *from > restored).map(|(j, from)| {
        let name = &folder.peers[j as usize].name;
        format!("{name} is a neighbour from round {from} on only: it is not the one that is taken to tell the truth")
    }));
    write_down(folder, &mut store, study.number, &agent, &found, known, until)?;
    let name = |j: u32| folder.peers[j as usize].name.clone();
    Ok(Rejoined {
        study: study.number,
        known,
        restored,
        spared_until: until,
        answered: found.answers.into_iter().map(|(j, has)| Answer { site: name(j), has }).collect(),
        without: without.to_vec(),
        witness: seen.map(|seen| seen.releases),
        assumed,
    })
}

fn cannot(why: &dyn Display) -> NodeError {
    NodeError::Experiment(format!(
        "rejoin: {why}\n  help: restore the folder from a backup, or have all sites give the study up (`consenso node abandon`) and begin another one"
    ))
}

/// This site's agent as it begins, with the edges that agreements added.
fn with_added_edges(
    folder: &Folder,
    experiment: &Experiment,
) -> Result<(Driven, SitePlan), NodeError> {
    let (mut agent, plan) = Driven::new(experiment, folder.me)?;
    for edge in changes::added(folder, experiment.graph(), &folder.agreements) {
        let Added { weight, from, .. } = edge;
        if let Some(neighbour) = edge.beside(folder.me as u32) {
            agent.join(neighbour, weight, from)?;
        }
    }
    Ok((agent, plan))
}

/// The neighbours that take part still, but those named in `without`.
fn whom_to_ask(
    folder: &Folder,
    agent: &Driven,
    without: &[String],
) -> Result<BTreeSet<u32>, NodeError> {
    if let Some(name) = without.iter().find(|name| folder.number_of(name).is_none()) {
        return Err(NodeError::Experiment(format!(
            "--without {name}: there is no such site in peers.toml"
        )));
    }
    let left: Vec<u32> = changes::gone(folder, &folder.agreements).collect();
    let asked: BTreeSet<u32> = changes::in_order(agent)
        .into_iter()
        .filter(|j| !left.contains(j))
        .filter(|&j| !without.contains(&folder.peers[j as usize].name))
        .collect();
    if asked.is_empty() {
        return Err(NodeError::Experiment("rejoin: nobody is left to be asked".into()));
    }
    Ok(asked)
}

/// Under which name the study stands in the ledger beside the records, if it does.
fn booked_before(ledger: &RecordsLedger, opening: &StudyStart, cost: StudyCost) -> Option<String> {
    let name = format!("{} {}", opening.site, crate::folder::short(&opening.experiment));
    let known = ledger.studies().filter(|s| s.name == name && s.cost == cost).last();
    known.map(|s| s.id.clone())
}

/// The last exchange of a study that the ledger knows.
pub(crate) fn last_release(store: &Store, study: i64) -> Result<u32, NodeError> {
    let mut last = 0;
    store.scan(|row| match row.entry {
        Entry::Release { round, .. } if row.study == study => last = last.max(round),
        _ => {}
    })?;
    Ok(last)
}

/// Makes durable what neighbours have beyond the exchanges that the ledger `known`s, and that
/// those up to `until` are spared.
fn write_down(
    folder: &Folder,
    store: &mut Store,
    study: i64,
    agent: &Driven,
    found: &Asked,
    known: u32,
    until: u32,
) -> Result<(), NodeError> {
    let restored = found.newest();
    let own = found.releases.get(&restored).map(|release| &release.1[..]);
    let checkpoint = agent.rejoined(restored, own)?;
    let charge = |round| Some((round, spending::row(&agent.scheduled(round)?)));
    let lost: Option<Vec<_>> = (known + 1..=restored).map(charge).collect();
    let lost = lost.ok_or_else(|| {
        NodeError::Experiment("what was released has no price by the schedule".into())
    })?;
    let bytes: Vec<(u32, Bytes)> = found
        .releases
        .range(restored.saturating_sub(1)..)
        .map(|(&r, b)| (r, b.0.clone()))
        .collect();
    let time = crate::clock::text(crate::clock::now());
    let answered: Vec<u32> = found.answers.keys().copied().collect();
    let known_changes = changes::held(folder, &store.headings()?, study)?.len();
    let mut entries = vec![Entry::Restored { round: restored, until, answered, time }];
    entries.extend(folder.agreements.iter().skip(known_changes).map(|a| changes::row(a, restored)));
    store.restore(study, lost, &bytes, entries, checkpoint)?;
    if let Some(path) = folder.witness() {
        store.witness_restored(&path, study, until)?;
    }
    // The log that is there is of a ledger that is gone: it is kept, and the next start writes
    // another one. It comes last, for until then a second try must find it.
    put_aside(folder)
}

/// Up to which exchange of this study the witness says that there may have been releases.
fn counted(folder: &Folder, store: &Store, seen: Seen) -> Result<u32, NodeError> {
    if seen.study == folder.study {
        return Ok(seen.round);
    }
    // It counts all studies, and the ledger knows which releases were not of this one, if it is
    // there.
    let wanted = crate::frame::Hex(&folder.study).to_string();
    let (mut this, mut others) = (None, 0);
    store.scan(|row| match &row.entry {
        Entry::Study { experiment, .. } if *experiment == wanted => this = Some(row.study),
        Entry::Release { .. } if this != Some(row.study) => others += 1,
        _ => {}
    })?;
    Ok(u32::try_from(seen.releases.saturating_sub(others)).unwrap_or(u32::MAX))
}

/// A study that is over needs nobody's word.
fn finished(folder: &Folder) -> Result<(), NodeError> {
    if !folder.path.join(crate::store::FILE).exists() {
        return Ok(());
    }
    let (mut this, mut over) = (None, false);
    let wanted = crate::frame::Hex(&folder.study).to_string();
    Store::look(&folder.path)?.scan(|row| match &row.entry {
        Entry::Study { experiment, .. } if *experiment == wanted => this = Some(row.study),
        Entry::Done { .. } => over |= this == Some(row.study),
        _ => {}
    })?;
    match over {
        true => Err(NodeError::Experiment(
            "the ledger (state.db) has this study to its end: nothing is lost".into(),
        )),
        false => Ok(()),
    }
}

fn assumptions(seen: Option<u64>, stale: bool, restored: u32, until: u32) -> Vec<String> {
    let spared = match until - restored {
        0 => "no round is spared".to_owned(),
        _ => format!(
            "rounds {} to {until} are charged and use no record, for they may have been released before the disk was lost",
            restored + 1
        ),
    };
    let why = match seen {
        Some(seen) if !stale => {
            return vec![format!(
                "the witness has seen {seen} releases, whatever neighbours say: {spared}"
            )];
        }
        Some(seen) => format!(
            "the witness has seen {seen} releases, and neighbours hold a later one with this site's signature: it is an old copy, and is not believed"
        ),
        None => "there is no witness".to_owned(),
    };
    vec![format!(
        "{why}: that at least one of the neighbours that answered tells the truth is taken for granted. Then {spared}. If all of them hide later releases, \
         records are used again that were used in those rounds, and more is spent than the ledger says"
    )]
}

/// How many releases the site's witness has seen; `None` if it has no witness.
///
/// # Errors
/// The witness that `site.toml` names cannot be read.
pub fn witnessed(folder: &Folder) -> Result<Option<u64>, NodeError> {
    Ok(seen(folder)?.map(|seen| seen.releases))
}

fn seen(folder: &Folder) -> Result<Option<Seen>, NodeError> {
    let Some(path) = folder.witness() else { return Ok(None) };
    match Witness::open(&path) {
        Ok(witness) => Ok(Some(witness.seen())),
        Err(cause) => Err(NodeError::System {
            what: format!(
                "{} (the witness of site.toml; without it take the line out, and read what is assumed then)",
                path.display()
            ),
            cause,
        }),
    }
}

/// Begins the names of logs that were put aside.
const ASIDE: &str = "audit.before-";

/// The last exchange that the site's own logs say was released in this study, should one have
/// outlived the ledger: the log, and those that earlier returns put aside.
fn logged(folder: &Folder) -> Result<u32, NodeError> {
    let cannot = |cause| NodeError::System { what: folder.path.display().to_string(), cause };
    let mut last = 0;
    for file in std::fs::read_dir(&folder.path).map_err(cannot)? {
        let file = file.map_err(cannot)?;
        let name = file.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("audit.") && name.ends_with(".jsonl") {
            last = last.max(logged_in(&file.path(), &folder.study).map_err(cannot)?);
        }
    }
    Ok(last)
}

fn logged_in(log: &Path, study: &Digest) -> std::io::Result<u32> {
    use std::io::BufRead as _;
    let study = crate::frame::Hex(study).to_string();
    let (mut this, mut last) = (false, 0);
    for line in std::io::BufReader::new(std::fs::File::open(log)?).split(b'\n') {
        let Ok(line) = serde_json::from_slice::<serde_json::Value>(&line?) else { continue };
        if line["event"] == "start" || line["event"] == audit_log::CONTINUED {
            this = line["study"] == study.as_str();
        }
        if this && line["event"] == "released" {
            last =
                last.max(line["round"].as_u64().and_then(|r| u32::try_from(r).ok()).unwrap_or(0));
        }
    }
    Ok(last)
}

/// Renames the log, all pieces of it, to names that no others have.
fn put_aside(folder: &Folder) -> Result<(), NodeError> {
    let time = crate::clock::text(crate::clock::now()).replace(':', "");
    let name = |n: u32| match n {
        1 => folder.path.join(format!("{ASIDE}{time}.jsonl")),
        n => folder.path.join(format!("{ASIDE}{time}-{n}.jsonl")),
    };
    for log in audit_log::files(&folder.path).into_iter().filter(|log| log.exists()) {
        let aside = (1..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(1));
        std::fs::rename(&log, &aside)
            .map_err(|cause| NodeError::System { what: log.display().to_string(), cause })?;
    }
    Ok(())
}

/// Asks until everybody has answered.
async fn ask(
    folder: &Folder,
    experiment: &Experiment,
    agent: &Driven,
    width: usize,
    open: BTreeSet<u32>,
    wire: Arc<dyn Wire>,
) -> Result<Asked, NodeError> {
    let system = |what: String| move |cause| NodeError::System { what, cause };
    let log = folder.path.join("rejoin.jsonl");
    let audit = AuditLog::open_file(&log).map_err(system(log.display().to_string()))?;
    let mut inquiry = Inquiry::new(folder, width, open)?;
    let (sender, mut events) = mpsc::channel(4 * agent.neighbours().len() + 16);
    let graph = graph_digest(experiment.graph());
    let edges =
        link::StudyContext { neighbours: changes::in_order(agent), graph, dim: width, have: 0 };
    let shared = Arc::new(Shared::new(folder.clone(), edges, audit, sender, wire));
    let links = link::start(Arc::clone(&shared))
        .await
        .map_err(system("the address to listen at".into()))?;
    let patience = Duration::from_secs_f64(folder.site.deadline_seconds);
    let began = Instant::now();
    while !inquiry.open.is_empty() {
        let left = patience.saturating_sub(began.elapsed());
        let Ok(Some(event)) = timeout(left, events.recv()).await else {
            return Err(inquiry.unanswered(began.elapsed()));
        };
        inquiry.handle(event)?;
    }
    let found = inquiry.concluded()?;
    let answers = found.answers.len();
    shared.audit.write("rejoin", json!({ "restored": found.newest(), "answers": answers }));
    links.close().await;
    Ok(found)
}

/// What neighbours have said so far.
struct Inquiry<'a> {
    folder: &'a Folder,
    /// Under which this site may have signed: who takes another one's place puts back what that
    /// one signed.
    keys: Vec<Vec<u8>>,
    /// How many numbers a release has.
    width: usize,
    /// Who has not answered to the end.
    open: BTreeSet<u32>,
    /// Up to which exchange of this site a neighbour says that it has them.
    claimed: BTreeMap<u32, u32>,
    /// What is wrong with a neighbour's answer.
    reasons: BTreeMap<u32, String>,
    /// Links end with their senders.
    senders: BTreeMap<u32, mpsc::Sender<Bytes>>,
    found: Asked,
}

impl<'a> Inquiry<'a> {
    fn new(folder: &'a Folder, width: usize, open: BTreeSet<u32>) -> Result<Self, NodeError> {
        let mut keys = keys_before(&folder.agreements, &folder.site.name);
        keys.push(
            Identity::read(&folder.path).and_then(|identity| public_key(identity.certificate()))?,
        );
        Ok(Self {
            folder,
            keys,
            width,
            open,
            claimed: BTreeMap::new(),
            reasons: BTreeMap::new(),
            senders: BTreeMap::new(),
            found: Asked { releases: BTreeMap::new(), answers: BTreeMap::new() },
        })
    }

    fn name(&self, peer: u32) -> String {
        self.folder.peers[peer as usize].name.clone()
    }

    /// The error when `elapsed` was too short for those who are still open.
    fn unanswered(&self, elapsed: Duration) -> NodeError {
        let of = |&j: &u32| match self.reasons.get(&j) {
            Some(reason) => format!("{} ({reason})", self.name(j)),
            None => self.name(j),
        };
        let names: Vec<String> = self.open.iter().map(of).collect();
        NodeError::Unanswered { names: names.join(", "), seconds: elapsed.as_secs_f64() }
    }

    fn handle(&mut self, event: LinkEvent) -> Result<(), NodeError> {
        match event {
            LinkEvent::Up { peer, have, outgoing, .. } if self.open.contains(&peer) => {
                self.claimed.insert(peer, have);
                drop(outgoing.try_send(Frame::Lost.encode()));
                self.senders.insert(peer, outgoing);
            }
            LinkEvent::Frame { peer, frame: Frame::Refused(reason), .. } => {
                self.reasons.insert(peer, format!("it refused: {}", harmless(&reason)));
            }
            LinkEvent::Frame { peer, frame: Frame::ReturnedRelease { left, release }, .. }
                if self.open.contains(&peer) =>
            {
                if let Some((signature, bytes)) = release {
                    self.shown(peer, &signature, &bytes)?;
                }
                if left == 0 {
                    self.found.answers.entry(peer).or_default();
                    self.open.remove(&peer);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A neighbour shows what it holds as a release of this site.
    fn shown(
        &mut self,
        peer: u32,
        signature: &ReleaseSignature,
        bytes: &Bytes,
    ) -> Result<(), NodeError> {
        let me = self.folder.me as u32;
        let (round, values) = match Frame::decode(bytes) {
            Ok(Frame::Release { from, round, values })
                if from == me && values.len() == self.width =>
            {
                (round, values)
            }
            _ => {
                let what = "what it holds is no release of this site";
                return Err(contradicts(self.name(peer), what));
            }
        };
        let blake3 = release_hash(bytes);
        let statement =
            ReleaseStatement { study: self.folder.study, from: me, to: None, round, blake3 };
        if !self.keys.iter().any(|key| statement.is_signed_by(key, signature)) {
            // A place of the file that was being written when the process ended; or a lie, which
            // is worth nothing.
            let reason = format!("its release of round {round} is not signed with this site's key");
            self.reasons.insert(peer, reason);
            return Ok(());
        }
        let known =
            self.found.releases.entry(round).or_insert_with(|| (bytes.clone(), values.to_vec()));
        if known.0 != *bytes {
            let what = format!(
                "it has another release of round {round} than its neighbours, and this site signed both: two copies of the folder have run"
            );
            return Err(contradicts(self.name(peer), &what));
        }
        let has = self.found.answers.entry(peer).or_default();
        *has = round.max(*has);
        Ok(())
    }

    /// What all have, if nobody says to have more than it shows.
    fn concluded(self) -> Result<Asked, NodeError> {
        let most = self.found.newest();
        // Whoever has completed an exchange has this site's part of it. One that shows none cannot
        // be gone on with: its next release waits for what nobody has.
        let lacks =
            |(peer, have): &(&u32, &u32)| **have > most && self.found.answers.contains_key(*peer);
        if let Some((peer, have)) = self.claimed.iter().find(lacks) {
            let shows = "shows no signed release that late";
            let reason = self.reasons.get(peer).map_or(shows, String::as_str);
            let what = format!("it says that it has exchange {have} of this site; {reason}");
            return Err(contradicts(self.name(*peer), &what));
        }
        Ok(self.found)
    }
}

fn contradicts(site: String, what: &str) -> NodeError {
    NodeError::Contradicted { site, what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use crate::driven::{Driven, Wanted};
    use crate::frame::Frame;
    use consenso_engine::experiment::{Experiment, ExperimentSpec, Inputs, SitePlan};
    use consenso_engine::gate::Round;

    const STUDY: &str = "name = \"three\"\nseed = 3\nruns = 1\n[data]\nsource = \"logistic\"\nagents = 3\nrecords_per_agent = 20\ndim = 2\n\
        [graph]\nkind = \"complete\"\n[privacy]\nepsilon = 1.0\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\nrounds = 9\ngossip = 0\n";

    fn driven(me: usize) -> (Driven, SitePlan) {
        let spec: ExperimentSpec = toml::from_str(STUDY).unwrap();
        let source = Box::new(spec.synthetic().unwrap().unwrap());
        let (file, text) = ("three".into(), STUDY.into());
        let inputs = Inputs { file, text, spec, source, edges: None, entropy: None };
        Driven::new(&Experiment::check(inputs).unwrap(), me).unwrap()
    }

    /// Rounds that may have been released before are charged once more by nobody, and hold nothing
    /// but a mix of releases.
    #[test]
    fn spared_rounds_are_charged_and_use_no_record() {
        let mut agents: Vec<Driven> = (0..3).map(|me| driven(me).0).collect();
        let mut released: Vec<Vec<Vec<f64>>> = vec![Vec::new(); 3];
        let mut charges = Vec::new();
        while agents.iter().any(|a| a.model().is_none()) {
            let mut sent = Vec::new();
            for (me, agent) in agents.iter_mut().enumerate() {
                while let Ok(Some(wanted)) = agent.poll() {
                    let Wanted::Commit { round, bytes, charge } = wanted else { continue };
                    if me == 0 {
                        charges.push(charge);
                        assert_eq!(charge, agent.scheduled(round).unwrap());
                    }
                    let Ok(Frame::Release { values, .. }) = Frame::decode(&bytes) else {
                        panic!("a release")
                    };
                    released[me].push(values.to_vec());
                    sent.push((me as u32, bytes));
                }
            }
            for (from, bytes) in sent {
                for to in (0..3u32).filter(|to| *to != from) {
                    agents[to as usize].handle(from, Frame::decode(&bytes).unwrap()).unwrap();
                }
            }
            if released[0].len() == 4 {
                // The disk is lost after round 4, which the others have.
                let mut again = driven(0).0;
                let state = again.rejoined(4, released[0].last().map(Vec::as_slice)).unwrap();
                again.restore(&state).unwrap();
                again.spare(Round(6));
                for (from, sent) in released.iter().enumerate().take(3).skip(1) {
                    let values = sent.last().unwrap().clone().into();
                    again
                        .handle(from as u32, Frame::Release { from: from as u32, round: 4, values })
                        .unwrap();
                }
                agents[0] = again;
            }
        }
        let mixed =
            |round: usize, l: usize| (0..3).map(|i| released[i][round - 1][l]).sum::<f64>() / 3.0;
        let noise = |round: usize| {
            (0..2)
                .map(|l| (released[0][round - 1][l] - mixed(round - 1, l)).abs())
                .fold(0.0, f64::max)
        };
        assert!(noise(5) < 1e-12 && noise(6) < 1e-12, "{} {}", noise(5), noise(6));
        assert!(noise(4) > 1e-3 && noise(7) > 1e-3, "{} {}", noise(4), noise(7));
        assert_eq!(charges.len(), 9, "every round once");
        assert!(charges.iter().all(|c| !c.is_nothing()));
    }
}
