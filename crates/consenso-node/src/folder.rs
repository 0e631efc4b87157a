//! A site's folder: what all sites agree on, and what is this site's own.
//!
//! | file | |
//! |---|---|
//! | `experiment.toml`, `schema.toml`, `edges.txt` | the study: the same bytes at every site |
//! | `peers.toml` | all sites by agent number: name, address, pin, records |
//! | `site.toml` | this site: its name, where it listens, its records, what it does when a neighbour is away |
//! | `key.pem`, `certificate.pem`, `trust.pem` | its identity |
//! | `agreement-….txt` | what the sites have agreed to change since, signed by all that remain |
//! | `state.db`, `audit.jsonl` | what happened |

use crate::agreement::{self, Agreement};
use crate::frame::{Digest, Hex, sha256, unhex};
use crate::identity::PeerIdentity;
use consenso_engine::graph::Graph;
use consenso_engine::privacy::Adversary;
use consenso_engine::privacy::studies::Rule;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The experiment, as all sites agreed on it.
pub const EXPERIMENT: &str = "experiment.toml";
/// The public schema of the records, if they come from files.
pub const SCHEMA: &str = "schema.toml";
/// The edge list of an experiment with `graph.kind = "file"`.
pub const EDGES: &str = "edges.txt";
/// All sites.
pub const PEERS: &str = "peers.toml";
/// This site.
pub const SITE: &str = "site.toml";

/// Pins of keys that are not believed any more, if there are any.
pub const REVOKED: &str = "revoked.txt";
/// The site's records, unless `site.toml` says otherwise.
pub const RECORDS: &str = "records.csv";

/// Where a site on a host of its own serves its metrics, unless `site.toml` says otherwise: to this
/// host alone.
pub const METRICS: &str = "127.0.0.1:9400";

/// What is wrong with a site's folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A file cannot be read.
    #[error("{}: {}", path.display(), explain(path, cause))]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A file says something that cannot be.
    #[error("{}: {message}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What, and what to do.
        message: String,
    },
}

/// What the system said of a file; where it denied access, also whose the file is and who asked.
pub(crate) fn explain(path: &Path, cause: &std::io::Error) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let owner = |path: &Path| fs::metadata(path).ok().map(|m| m.uid());
    let nearest = path.ancestors().find_map(|at| owner(at).map(|uid| (at, uid)));
    match (cause.kind(), nearest, owner(Path::new("/proc/self"))) {
        (std::io::ErrorKind::PermissionDenied, Some((at, theirs)), Some(ours))
            if ours != theirs =>
        {
            format!(
                "{cause}\n  help: {} belongs to user {theirs}, and this process runs as user {ours}: \
             make the site's folder its own (chown -R {ours})",
                at.display()
            )
        }
        _ => cause.to_string(),
    }
}

/// What to do when a neighbour has not been heard of for the deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Away {
    /// Wait until the deadline, then stop; the state is kept and a new start goes on.
    #[default]
    Wait,
    /// Stop as soon as a link that was up has gone and does not come back at once.
    Stop,
    /// Go on without it from the deadline on, where the algorithm allows that.
    ContinueWithout,
}

/// Where a site's noise comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entropy {
    /// The operating system: what a claim holds for.
    #[default]
    Os,
    /// The experiment's seed, which everybody knows: for science.
    Seed,
}

/// A limit for all studies of a site's records together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// ε.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// How studies are added up, fixed with the first of them; the best rule that covers the first
    /// study if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
}

/// `site.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteFile {
    /// The site's name: one of those in `peers.toml`.
    pub name: String,
    /// Where it listens; leave it out where nobody can call in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// Its records, if the study's come from files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<PathBuf>,
    /// Where its noise comes from.
    #[serde(default)]
    pub entropy: Entropy,
    /// What to do when a neighbour is away.
    #[serde(default)]
    pub away: Away,
    /// After how many seconds a neighbour counts as away.
    #[serde(default = "default_deadline")]
    pub deadline_seconds: f64,
    /// With how many sites, itself included, a run goes on under `away = "continue-without"`: fewer
    /// stop, with their state kept.
    #[serde(default = "default_least_sites", skip_serializing_if = "is_two")]
    pub least_sites: usize,
    /// Seconds between two signs of life on a quiet link; a link without one for twice as long is
    /// given up.
    #[serde(default = "default_keep_alive")]
    pub keep_alive_seconds: f64,
    /// Where `/metrics`, `/healthz` and `/readyz` are served; nowhere if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// What all studies of these records together may cost: a hard cap from the first start on,
    /// which can be lowered later and not raised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Whether these records need no protection: only then does the site take part in studies that
    /// make no privacy claim.
    #[serde(default, skip_serializing_if = "is_false")]
    pub unprotected: bool,
    /// The weakest adversary a study's claim must hold against: `"local"`, `"one-node"` or
    /// `{ colluders = c, eavesdropper = true }`. Any, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversary: Option<Adversary>,
    /// Whether the records of its file are public: only then may noise come from a seed that
    /// everybody knows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub public: bool,
    /// The folder of the ledger that stays with the records, whoever uses them; beside the records'
    /// file if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<PathBuf>,
    /// Whether the group of `key.pem` may read it, as mounts of Kubernetes have it; its owner alone
    /// by default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub group_reads_key: bool,
    /// A command that signs with the site's key instead of `key.pem`, so that the key can stay in a
    /// hardware module: bytes in, signature out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signer: Vec<String>,
    /// A file on another disk that counts the releases, so that an old copy of this folder is found
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub witness: Option<PathBuf>,
    /// An HTTP proxy that calls go through (CONNECT): `http://[user:password@]host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// How large `audit.jsonl` may become before it is renamed (`audit.1.jsonl`, …) and another one
    /// begins; never, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_megabytes: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_false(value: &bool) -> bool {
    !value
}

fn default_deadline() -> f64 {
    600.0
}

fn default_least_sites() -> usize {
    2
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
fn is_two(value: &usize) -> bool {
    *value == 2
}

fn default_keep_alive() -> f64 {
    5.0
}

impl SiteFile {
    /// A site with every choice left open.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            listen: None,
            records: None,
            entropy: Entropy::Os,
            away: Away::Wait,
            deadline_seconds: default_deadline(),
            least_sites: default_least_sites(),
            keep_alive_seconds: default_keep_alive(),
            metrics: None,
            budget: None,
            unprotected: false,
            adversary: None,
            public: false,
            ledger: None,
            group_reads_key: false,
            signer: Vec::new(),
            witness: None,
            proxy: None,
            log_megabytes: None,
        }
    }
}

/// One site in `peers.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name, as in its certificate.
    pub name: String,
    /// Where it can be called; left out where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// SHA-256 of its public key.
    pub pin: String,
    /// SHA-256 of the key that it will have next: while keys are replaced both are believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_pin: Option<String>,
    /// How many records it has: public, and part of what all agree on.
    pub records: usize,
}

impl Peer {
    /// The pins of its keys, as they are written.
    pub fn pins(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.pin.as_str()).chain(self.next_pin.as_deref())
    }
}

/// `peers.toml`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeersFile {
    /// All sites by agent number.
    pub site: Vec<Peer>,
}

/// A site's folder, read.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
    /// This site.
    pub site: SiteFile,
    /// All sites by agent number.
    pub peers: Vec<Peer>,
    /// This site's agent number.
    pub me: usize,
    /// SHA-256 of the study: experiment, schema, edges, names and records.
    pub study: Digest,
    /// What the sites have agreed to change since the study began, in order.
    pub agreements: Vec<Agreement>,
}

impl Folder {
    /// Reads everything but the identity and the records.
    ///
    /// # Errors
    /// The first file that is missing or wrong.
    pub fn read(path: &Path) -> Result<Self, FolderError> {
        if !path.join(SITE).exists() {
            return Err(FolderError::Content { path: path.to_owned(), message: no_site(path) });
        }
        let site: SiteFile = parse(&path.join(SITE))?;
        let peers = read_peers(path)?;
        let wrong =
            |file: &str, message: String| FolderError::Content { path: path.join(file), message };
        for (key, seconds) in [
            ("deadline_seconds", site.deadline_seconds),
            ("keep_alive_seconds", site.keep_alive_seconds),
        ] {
            if !(seconds > 0.0 && seconds < 1e9) {
                return Err(wrong(
                    SITE,
                    format!("{key} = {seconds} must be a positive number of seconds"),
                ));
            }
        }
        for (key, address) in [("listen", &site.listen), ("metrics", &site.metrics)] {
            let checked = address.as_deref().map_or(Ok(()), check_address);
            checked.map_err(|message| wrong(SITE, format!("{key}: {message}")))?;
        }
        if let Some(Err(message)) = site.proxy.as_deref().map(crate::proxy::Proxy::parse) {
            return Err(wrong(SITE, format!("proxy: {message}")));
        }
        if site.least_sites < 2 {
            let message =
                "least_sites must be 2 or more: a site alone would spend its budget for nobody";
            return Err(wrong(SITE, message.into()));
        }
        if let Some(Budget { epsilon, delta, .. }) = site.budget
            && !(epsilon > 0.0 && epsilon.is_finite() && delta > 0.0 && delta < 1.0)
        {
            return Err(wrong(SITE, format!("budget: ε = {epsilon}, δ = {delta} is no budget")));
        }
        let me = peers.iter().position(|peer| peer.name == site.name).ok_or_else(|| {
            wrong(SITE, format!("name = \"{}\" is none of the sites in {PEERS}", site.name))
        })?;
        let study = study(path, &peers)?;
        let agreements = agreement::load(path, &study, &peers)?;
        let peers = agreement::replaced(peers, &agreements);
        Ok(Self { path: path.to_owned(), site, peers, me, study, agreements })
    }

    /// The other sites as their certificates must show them, by agent number.
    ///
    /// # Errors
    /// A pin that is not one.
    pub fn known(&self) -> Result<Vec<PeerIdentity>, FolderError> {
        known(&self.path, &self.peers)
    }

    /// The sites as the file has them now: addresses and pins may change while a node runs, the
    /// sites and their numbers may not.
    ///
    /// # Errors
    /// A file that is wrong, or that names other sites.
    pub(crate) fn peers_now(&self) -> Result<(Vec<Peer>, Vec<PeerIdentity>), FolderError> {
        let peers = read_peers(&self.path)?;
        if !peers.iter().map(|p| &p.name).eq(self.peers.iter().map(|p| &p.name)) {
            let message = "it names other sites than when the node started".to_owned();
            return Err(FolderError::Content { path: self.path.join(PEERS), message });
        }
        let agreements = agreement::load(&self.path, &self.study, &peers)?;
        let peers = agreement::replaced(peers, &agreements);
        let known = known(&self.path, &peers)?;
        Ok((peers, known))
    }

    /// The sites as `peers.toml` has them, whatever was agreed on since.
    ///
    /// # Errors
    /// A file that is wrong.
    pub fn listed(&self) -> Result<Vec<Peer>, FolderError> {
        read_peers(&self.path)
    }

    /// A site's agent number.
    #[must_use]
    pub fn number_of(&self, name: &str) -> Option<usize> {
        self.peers.iter().position(|p| p.name == name)
    }

    /// Why the key with this pin is not believed any more, if it is in the list of revoked keys
    /// (`revoked.txt`: a pin a line, `#` before a remark). The list is read for every handshake,
    /// whatever `peers.toml` says; one that cannot be read lets nobody in.
    pub(crate) fn revoked(&self, pin: &Digest) -> Option<String> {
        let path = self.path.join(REVOKED);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return None,
            Err(cause) => return Some(format!("{}: {cause}", path.display())),
        };
        for (index, line) in text.lines().enumerate() {
            let word = line.split('#').next().unwrap_or_default().trim();
            match unhex(word) {
                _ if word.is_empty() => {}
                Some(bytes) if bytes.len() == 32 => {
                    if bytes == pin {
                        return Some(format!("its key is revoked ({REVOKED}, line {})", index + 1));
                    }
                }
                _ => {
                    return Some(format!(
                        "{}: line {} is no pin (64 hexadecimal digits)",
                        path.display(),
                        index + 1
                    ));
                }
            }
        }
        None
    }

    /// Who calls whom on the edge to `peer`: the one with the larger number calls, unless only the
    /// other way is possible.
    ///
    /// # Errors
    /// Neither end can be reached.
    pub fn calls(&self, peer: usize) -> Result<bool, FolderError> {
        let reachable = |site: usize| self.peers[site].address.is_some();
        match (reachable(self.me), reachable(peer)) {
            (true, true) => Ok(self.me > peer),
            (false, true) => Ok(true),
            (true, false) => Ok(false),
            (false, false) => Err(FolderError::Content {
                path: self.path.join(PEERS),
                message: format!(
                    "neither {} nor {} has an address, and they are neighbours: one end must be reachable",
                    self.peers[self.me].name, self.peers[peer].name
                ),
            }),
        }
    }

    /// The folder of the ledger that stays with the records, unless it is beside them.
    #[must_use]
    pub fn ledger(&self) -> Option<PathBuf> {
        self.site.ledger.as_ref().map(|path| self.path.join(path))
    }

    /// The file that counts its releases, if it has one.
    #[must_use]
    pub fn witness(&self) -> Option<PathBuf> {
        self.site.witness.as_ref().map(|path| self.path.join(path))
    }

    /// The site's own records.
    #[must_use]
    pub fn records(&self) -> PathBuf {
        self.path.join(self.site.records.as_deref().unwrap_or(Path::new(RECORDS)))
    }
}

/// Why a folder is not a site's, and which one may have been meant.
fn no_site(path: &Path) -> String {
    let within = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut sites: Vec<String> =
        within.filter(|p| p.join(SITE).exists()).map(|p| p.display().to_string()).collect();
    sites.sort();
    if sites.is_empty() {
        return format!(
            "there is no site here ({SITE}); `consenso network new` makes the folders of all sites, `consenso node init` that of one"
        );
    }
    format!("this is a network, not a site of it; name one of {}", sites.join(", "))
}

/// All sites, checked.
pub(crate) fn read_peers(folder: &Path) -> Result<Vec<Peer>, FolderError> {
    let path = folder.join(PEERS);
    let PeersFile { site: peers } = parse(&path)?;
    let wrong = |message: String| FolderError::Content { path: path.clone(), message };
    if peers.len() < 2 {
        return Err(wrong("there must be at least two sites".into()));
    }
    for (index, peer) in peers.iter().enumerate() {
        check_name(&peer.name).map_err(|e| wrong(e.to_string()))?;
        let checked = peer.address.as_deref().map_or(Ok(()), check_address);
        checked.map_err(|message| wrong(format!("address of {}: {message}", peer.name)))?;
        let shares = |other: &Peer| other.pins().any(|pin| peer.pins().any(|own| own == pin));
        if peers[..index].iter().any(|other| other.name == peer.name || shares(other)) {
            return Err(wrong(format!("two sites have the name or the pin of {}", peer.name)));
        }
    }
    Ok(peers)
}

/// The sites' names and pins.
pub(crate) fn known(folder: &Path, peers: &[Peer]) -> Result<Vec<PeerIdentity>, FolderError> {
    let one = |peer: &Peer| {
        let digest = |pin: &str| {
            let pin = unhex(pin).and_then(|bytes| Digest::try_from(bytes).ok());
            pin.ok_or_else(|| FolderError::Content {
                path: folder.join(PEERS),
                message: format!("the pin of {} must be 64 hexadecimal digits", peer.name),
            })
        };
        let next = peer.next_pin.as_deref().map(digest).transpose()?;
        Ok(PeerIdentity { name: peer.name.clone(), pin: digest(&peer.pin)?, next })
    };
    peers.iter().map(one).collect()
}

/// A text that cannot be the name of a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("site name \"{0}\" must be made of a-z, 0-9 and -, at most 63 of them")]
pub struct NotAName(pub String);

/// A text that is no address of a site.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not HOST:PORT, as in a.example.org:7400")]
pub struct NotAnAddress(pub String);

/// Checks a site's name, which must fit a certificate, a folder and a log line.
///
/// # Errors
/// One that does not.
pub fn check_name(name: &str) -> Result<(), NotAName> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=63).contains(&name.len())
        && name.chars().all(letter)
        && !name.starts_with('-')
        && !name.ends_with('-')
    {
        return Ok(());
    }
    Err(NotAName(name.to_owned()))
}

/// Checks an address, which is a host and a port.
///
/// # Errors
/// One that is not.
pub fn check_address(address: &str) -> Result<(), NotAnAddress> {
    let port = address
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty())
        .map(|(_, port)| port.parse::<u16>());
    match port {
        Some(Ok(1..)) => Ok(()),
        _ => Err(NotAnAddress(address.to_owned())),
    }
}

fn parse<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<T, FolderError> {
    let text = fs::read_to_string(path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => FolderError::Content {
            path: path.to_owned(),
            message: "is missing; it comes with the study, the same for all sites".into(),
        },
        _ => FolderError::Read { path: path.to_owned(), cause },
    })?;
    toml::from_str(&text).map_err(|e| {
        let line = e.span().map(|s| text[..s.start.min(text.len())].matches('\n').count() + 1);
        let at = line.map_or_else(String::new, |line| format!("line {line}: "));
        FolderError::Content { path: path.to_owned(), message: format!("{at}{}", e.message()) }
    })
}

/// SHA-256 over everything the sites must agree on, each part with its length before it.
fn study(folder: &Path, peers: &[Peer]) -> Result<Digest, FolderError> {
    let mut parts: Vec<u8> = b"consenso study 1".to_vec();
    let mut add = |part: &[u8]| {
        parts.extend_from_slice(&(part.len() as u64).to_le_bytes());
        parts.extend_from_slice(part);
    };
    for file in [EXPERIMENT, SCHEMA, EDGES] {
        let path = folder.join(file);
        match fs::read(&path) {
            Ok(bytes) => add(&bytes),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && file != EXPERIMENT => add(&[]),
            Err(cause) => return Err(FolderError::Read { path, cause }),
        }
    }
    for peer in peers {
        add(peer.name.as_bytes());
        add(&(peer.records as u64).to_le_bytes());
    }
    Ok(sha256(&[&parts]))
}

/// SHA-256 of a graph: its agents and its edges in order.
#[must_use]
pub fn graph_digest(graph: &Graph) -> Digest {
    let mut bytes = (graph.agents() as u64).to_le_bytes().to_vec();
    for agent in 0..graph.agents() {
        for &neighbour in graph.neighbours(agent) {
            bytes.extend_from_slice(&(agent as u32).to_le_bytes());
            bytes.extend_from_slice(&neighbour.to_le_bytes());
        }
    }
    sha256(&[b"consenso graph 1", &bytes])
}

/// The first digits of a digest, enough for people to compare.
#[must_use]
pub fn short(digest: &Digest) -> String {
    Hex(&digest[..6]).to_string()
}
