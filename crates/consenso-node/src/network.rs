//! A new network: keys, certificates and one folder a site.

use crate::folder::{self, FolderError, NotAName, Peer, PeersFile, SiteFile, check_name};
use crate::frame::Hex;
use crate::identity::{self, Authority, Identity, IdentityError, Validity, write_secret};
use std::fs;
use std::path::{Path, PathBuf};

/// What a network is made of.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sites by agent number: name, address if it can be called, records.
    pub sites: Vec<PlannedSite>,
    /// `experiment.toml`, the same for all.
    pub experiment: String,
    /// `schema.toml`, if the records come from files.
    pub schema: Option<String>,
    /// `edges.txt`, if the graph comes from a file.
    pub edges: Option<String>,
}

/// One site of a [`Plan`].
#[derive(Clone, Debug)]
pub struct PlannedSite {
    /// Its own file.
    pub file: SiteFile,
    /// Where others call it.
    pub address: Option<String>,
    /// How many records it has.
    pub records: usize,
}

/// Why a network was not made.
#[derive(Debug, thiserror::Error)]
pub enum NewError {
    /// A file cannot be written.
    #[error("{}: {cause}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A site's name that cannot be.
    #[error(transparent)]
    Name(#[from] NotAName),
    /// Another part of the plan.
    #[error("{0}")]
    Plan(String),
    /// Keys.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A folder that was there before.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Makes the folder `root` with one folder a site, and a certificate authority of its own whose key
/// stays in `root`.
///
/// # Errors
/// A folder that exists, or a name that cannot be; nothing is overwritten.
pub fn create(root: &Path, plan: &Plan) -> Result<(), NewError> {
    for (index, site) in plan.sites.iter().enumerate() {
        check_name(&site.file.name)?;
        if plan.sites[..index].iter().any(|other| other.file.name == site.file.name) {
            return Err(NewError::Plan(format!("two sites have the name {}", site.file.name)));
        }
    }
    make(root)?;
    let authority = Authority::new()?;
    write_secret(&root.join("authority-key.pem"), authority.key())?;
    write(&root.join("authority.pem"), authority.certificate())?;
    let mut peers = Vec::new();
    for site in &plan.sites {
        let folder = root.join(&site.file.name);
        make(&folder)?;
        let issued = authority.issue(&site.file.name, Validity::default())?;
        write_secret(&folder.join(identity::KEY), &issued.key)?;
        write(&folder.join(identity::CERTIFICATE), &issued.certificate)?;
        write(&folder.join(identity::TRUST), authority.certificate())?;
        let pin = Hex(&identity::pin_of_file(&folder.join(identity::CERTIFICATE))?).to_string();
        peers.push(Peer {
            next_pin: None,
            name: site.file.name.clone(),
            address: site.address.clone(),
            pin,
            records: site.records,
        });
    }
    for site in &plan.sites {
        let folder = root.join(&site.file.name);
        write(&folder.join(folder::SITE), &to_toml(&site.file)?)?;
        write_study(&folder, plan, &peers)?;
        Identity::read(&folder)?;
        folder::Folder::read(&folder)?;
    }
    Ok(())
}

/// Makes the folder `root` with what sites that made their own keys need besides them, the same
/// files for all: peers, trust, the study.
///
/// # Errors
/// A folder that exists, or a certificate without the name of its site; nothing is overwritten.
pub fn share(root: &Path, plan: &Plan, certificates: &[PathBuf]) -> Result<(), NewError> {
    let mut peers = Vec::new();
    let mut trust = String::new();
    for (site, path) in plan.sites.iter().zip(certificates) {
        let name = &site.file.name;
        check_name(name)?;
        let own = identity::believable(path)?;
        let pin = identity::pin(&own)?;
        let known = identity::PeerIdentity { name: name.clone(), pin, next: None };
        identity::recognise(&own, &[known]).map_err(|_| {
            NewError::Plan(format!("{}: is no certificate of site {name}", path.display()))
        })?;
        trust += &fs::read_to_string(path)
            .map_err(|cause| FolderError::Read { path: path.clone(), cause })?;
        peers.push(Peer {
            next_pin: None,
            name: name.clone(),
            address: site.address.clone(),
            pin: Hex(&pin).to_string(),
            records: site.records,
        });
    }
    make(root)?;
    write(&root.join(identity::TRUST), &trust)?;
    write_study(root, plan, &peers)?;
    folder::read_peers(root)?;
    Ok(())
}

/// Writes what all sites agree on.
fn write_study(folder: &Path, plan: &Plan, peers: &[Peer]) -> Result<(), NewError> {
    write(&folder.join(folder::PEERS), &to_toml(&PeersFile { site: peers.to_vec() })?)?;
    write(&folder.join(folder::EXPERIMENT), &plan.experiment)?;
    if let Some(schema) = &plan.schema {
        write(&folder.join(folder::SCHEMA), schema)?;
    }
    if let Some(edges) = &plan.edges {
        write(&folder.join(folder::EDGES), edges)?;
    }
    Ok(())
}

/// Makes the key of one site that signs its own certificate: what it gives to the others is
/// `certificate.pem`.
///
/// # Errors
/// There is a key already, or the name cannot be.
pub fn init(folder: &Path, site: &SiteFile) -> Result<String, NewError> {
    check_name(&site.name)?;
    fs::create_dir_all(folder)
        .map_err(|cause| NewError::Write { path: folder.to_owned(), cause })?;
    let issued = identity::self_signed(&site.name, Validity::default())?;
    write_secret(&folder.join(identity::KEY), &issued.key)?;
    write(&folder.join(identity::CERTIFICATE), &issued.certificate)?;
    if !folder.join(folder::SITE).exists() {
        write(&folder.join(folder::SITE), &to_toml(site)?)?;
    }
    Ok(Hex(&identity::pin_of_file(&folder.join(identity::CERTIFICATE))?).to_string())
}

/// The names of a network's sites, in the order of their numbers.
///
/// # Errors
/// No such network.
pub fn sites(root: &Path) -> Result<Vec<String>, FolderError> {
    let read = |cause| FolderError::Read { path: root.to_owned(), cause };
    let mut any = None;
    for entry in fs::read_dir(root).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.join(folder::PEERS).exists() {
            any = Some(path);
        }
    }
    let any = any.ok_or_else(|| FolderError::Content {
        path: root.to_owned(),
        message: format!(
            "there is no site in it (a folder with {}); make one with: consenso network new",
            folder::PEERS
        ),
    })?;
    Ok(folder::read_peers(&any)?.into_iter().map(|p| p.name).collect())
}

fn make(path: &Path) -> Result<(), NewError> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)
            .map_err(|cause| NewError::Write { path: parent.to_owned(), cause })?;
    }
    fs::create_dir(path).map_err(|cause| NewError::Write { path: path.to_owned(), cause })
}

fn write(path: &Path, text: &str) -> Result<(), NewError> {
    fs::write(path, text).map_err(|cause| NewError::Write { path: path.to_owned(), cause })
}

fn to_toml(value: &impl serde::Serialize) -> Result<String, NewError> {
    toml::to_string(value).map_err(|e| NewError::Plan(e.to_string()))
}
