//! Agreements: what the sites of a study changed about who takes part in it, signed by all that
//! remain.
//!
//! An agreement is a small text that can be read, mailed and kept: which study, its number, the
//! hash of the one before, one change, and a signature of every site that remains. Its hash is that
//! of the lines above the signatures, so that it does not matter in which order or how often sites
//! signed. Two different agreements of one number need two signatures of every site that remains in
//! both: whoever gave them is named when they meet.
//!
//! In a site's folder `agreement-….txt` (the beginning of the study's digest, its number) is one
//! that holds, and `agreement-….signed.txt` one that this site has signed and that may come to
//! hold.

use crate::folder::{FolderError, NotAName, NotAnAddress, Peer, check_address, check_name, short};
use crate::frame::{Digest, Hex, sha256, unhex};
use crate::identity::{self, IdentityError, PeerIdentity};
use crate::release_signature::{MAX_SIGNATURE, ReleaseSignature, verify};
use serde::Serialize;
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The first line of every agreement.
const TITLE: &str = "consenso agreement 1";

/// The longest text that is read or sent.
pub const LONGEST: usize = 64 << 10;

/// One change of who takes part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A site takes part no more.
    Leave {
        /// Its name.
        site: String,
    },
    /// A site's place is taken by whoever has another key.
    Replace {
        /// Its name, which stays.
        site: String,
        /// The public key that is believed no more (a SubjectPublicKeyInfo).
        was: Vec<u8>,
        /// The new certificate and those of its issuers, DER.
        chain: Vec<Vec<u8>>,
        /// Where it is called.
        address: Option<String>,
    },
    /// Two sites become neighbours.
    Edge {
        /// One end.
        one: String,
        /// The other.
        other: String,
        /// The first exchange in which they are.
        from: u32,
    },
    /// Two sites that an agreement made neighbours are neighbours no more.
    Part {
        /// One end.
        one: String,
        /// The other.
        other: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leave { site } => write!(f, "{site} leaves"),
            Self::Replace { site, .. } => write!(f, "{site} is replaced under another key"),
            Self::Edge { one, other, from } => {
                write!(f, "{one} and {other} are neighbours from exchange {from} on")
            }
            Self::Part { one, other } => write!(f, "{one} and {other} are neighbours no more"),
        }
    }
}

/// A site's signature under an agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Who signed.
    pub site: String,
    /// With which public key (a SubjectPublicKeyInfo).
    pub key: Vec<u8>,
    /// The signature.
    pub signature: ReleaseSignature,
}

/// A change, and who agreed to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The study.
    pub study: Digest,
    /// Its place in the row of the study's agreements, from 1.
    pub number: u32,
    /// The hash of the one before; zeros for the first.
    pub after: Digest,
    /// What changes.
    pub change: Change,
    /// Who signed.
    pub signatures: Vec<Signature>,
}

/// What everybody may know of an agreement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgreementSummary {
    /// Its number.
    pub number: u32,
    /// What changed, in words.
    pub change: String,
    /// Its hash.
    pub hash: String,
    /// Who signed.
    pub signed: Vec<String>,
}

impl Agreement {
    /// The next agreement after those that hold.
    #[must_use]
    pub fn next(study: Digest, before: &[Self], change: Change) -> Self {
        let after = before.last().map_or([0; 32], Self::hash);
        Self { study, number: before.len() as u32 + 1, after, change, signatures: Vec::new() }
    }

    /// The lines that are signed.
    #[must_use]
    pub fn body(&self) -> String {
        let change = match &self.change {
            Change::Leave { site } => format!("leave {site}"),
            Change::Replace { site, was, chain, address } => {
                let chain: Vec<String> = chain.iter().map(|der| Hex(der).to_string()).collect();
                let address = address.as_deref().unwrap_or("-");
                format!("replace {site} was {} by {} at {address}", Hex(was), chain.join(","))
            }
            Change::Edge { one, other, from } => format!("edge {one} {other} from {from}"),
            Change::Part { one, other } => format!("part {one} {other}"),
        };
        let Self { study, number, after, .. } = self;
        format!("{TITLE}\nstudy {}\nnumber {number}\nafter {}\n{change}\n", Hex(study), Hex(after))
    }

    /// SHA-256 of the lines that are signed.
    #[must_use]
    pub fn hash(&self) -> Digest {
        sha256(&[self.body().as_bytes()])
    }

    /// What everybody may know of it.
    #[must_use]
    pub fn summary(&self) -> AgreementSummary {
        AgreementSummary {
            number: self.number,
            change: self.change.to_string(),
            hash: Hex(&self.hash()).to_string(),
            signed: self.signatures.iter().map(|s| s.site.clone()).collect(),
        }
    }

    /// Adds a signature in the place of an earlier one of the same site.
    pub fn add(&mut self, signature: Signature) {
        self.signatures.retain(|known| known.site != signature.site);
        self.signatures.push(signature);
        self.signatures.sort_by(|a, b| a.site.cmp(&b.site));
    }

    /// Whether a site's signature in it is good, whoever's key that is.
    fn is_signed(&self, signature: &Signature) -> bool {
        verify(&signature.key, self.body().as_bytes(), &signature.signature)
    }

    /// Whether every signature in it is good under the key beside it, whoever's that is.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.signatures.iter().all(|signature| self.is_signed(signature))
    }

    /// Sites that signed both of two different agreements of one number.
    #[must_use]
    pub fn signed_both(&self, other: &Self) -> Vec<String> {
        let key = |s: &Signature| (s.site.clone(), s.key.clone());
        let theirs: Vec<_> =
            other.signatures.iter().filter(|s| other.is_signed(s)).map(key).collect();
        let mine = self.signatures.iter().filter(|s| self.is_signed(s) && theirs.contains(&key(s)));
        mine.map(|s| s.site.clone()).collect()
    }

    /// Reads the text that [`Display`](fmt::Display) writes.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, AgreementError> {
        if text.len() > LONGEST {
            return Err(AgreementError::Long);
        }
        let mut lines = text.lines().map(str::trim_end).zip(1..);
        let wrong = |line: usize, what: Line| AgreementError::Line { line, what };
        let mut line = |key: &'static str| -> Result<(&str, usize), AgreementError> {
            let (line, number) = lines.next().ok_or(AgreementError::Ends(key))?;
            let rest = line.strip_prefix(key).ok_or(wrong(number, Line::Missing(key)))?;
            Ok((rest.trim(), number))
        };
        line(TITLE).map_err(|_| AgreementError::None)?;
        let (study, at) = line("study ")?;
        let study = digest(study).ok_or(wrong(at, Line::Digest))?;
        let (number, at) = line("number ")?;
        let number: u32 = number.parse().ok().filter(|n| *n > 0).ok_or(wrong(at, Line::Number))?;
        let (after, at) = line("after ")?;
        let after = digest(after).ok_or(wrong(at, Line::Digest))?;
        let (words, at) = line("")?;
        let change = change(words).map_err(|what| wrong(at, what))?;
        let mut read = Self { study, number, after, change, signatures: Vec::new() };
        for (line, at) in lines.filter(|(line, _)| !line.is_empty()) {
            let signature = signature(line).ok_or(wrong(at, Line::Signature))?;
            if read.signatures.iter().any(|known| known.site == signature.site) {
                return Err(wrong(at, Line::Twice(signature.site)));
            }
            read.add(signature);
        }
        Ok(read)
    }

    /// Reads a text that was made durable before. An earlier version took lines that it should not
    /// have: signatures that are none, or not of these lines, are left out.
    ///
    /// # Errors
    /// The first line that is wrong above the signatures.
    pub(crate) fn parse_kept(text: &str) -> Result<Self, AgreementError> {
        let good =
            |line: &&str| !line.starts_with("signed ") || signature(line.trim_end()).is_some();
        let mut read =
            Self::parse(&text.lines().filter(good).fold(String::new(), |mut all, line| {
                all.push_str(line);
                all.push('\n');
                all
            }))?;
        let good: Vec<Signature> =
            read.signatures.iter().filter(|s| read.is_signed(s)).cloned().collect();
        read.signatures = good;
        Ok(read)
    }

    /// Leaves out the signatures of whoever need not sign.
    fn only_of_those_who_remain(&mut self, peers: &[Peer], before: &[Self]) {
        let remaining = self.remaining(peers, before);
        self.signatures.retain(|signature| remaining.contains(&signature.site));
    }

    /// Checks that it is the next of its study, that every signature is its site's, and that all
    /// that remain have signed, and nobody else. `before` are those that hold, `later` those that follow (a key that
    /// was replaced since was good before).
    ///
    /// # Errors
    /// What is wrong or missing, by name.
    pub fn check(
        &self,
        study: &Digest,
        peers: &[Peer],
        before: &[Self],
        later: &[Self],
    ) -> Result<(), AgreementError> {
        self.follows(study, before)?;
        let (mut missing, remaining) = (Vec::new(), self.remaining(peers, before));
        // What is durable is what was checked, to the last line.
        if let Some(extra) = self.signatures.iter().find(|s| !remaining.contains(&s.site)) {
            let site = extra.site.clone();
            return Err(AgreementError::Extra { number: self.number, site });
        }
        for site in remaining {
            match self.signatures.iter().find(|s| s.site == site) {
                None => missing.push(site),
                Some(signature) => self.is_its_own(signature, peers, before, later)?,
            }
        }
        match missing.is_empty() {
            true => Ok(()),
            false => Err(AgreementError::Unsigned {
                number: self.number,
                change: self.change.to_string(),
                missing,
            }),
        }
    }

    /// Checks that it is the next of its study.
    ///
    /// # Errors
    /// Another study's, one that was agreed on before, or one that does not follow.
    pub fn follows(&self, study: &Digest, before: &[Self]) -> Result<(), AgreementError> {
        if self.study != *study {
            return Err(AgreementError::OtherStudy { theirs: self.study, ours: *study });
        }
        let next = before.len() as u32 + 1;
        if let Some(held) = before.get(self.number as usize - 1) {
            return Err(AgreementError::Held {
                number: self.number,
                same: held.hash() == self.hash(),
                change: held.change.to_string(),
                next,
            });
        }
        if self.number != next {
            return Err(AgreementError::NotNext { number: self.number, next });
        }
        if self.after != before.last().map_or([0; 32], Self::hash) {
            return Err(AgreementError::AfterAnother { number: next });
        }
        Ok(())
    }

    /// The sites that must sign: all that are in the study but the one that leaves or is replaced.
    #[must_use]
    pub fn remaining(&self, peers: &[Peer], before: &[Self]) -> Vec<String> {
        let about = match &self.change {
            Change::Leave { site } | Change::Replace { site, .. } => Some(site),
            Change::Edge { .. } | Change::Part { .. } => None,
        };
        let stays = |name: &String| Some(name) != about && left(before, name).is_none();
        peers.iter().map(|p| p.name.clone()).filter(stays).collect()
    }

    /// Checks that a signature is its site's own.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn is_its_own(
        &self,
        signature: &Signature,
        peers: &[Peer],
        before: &[Self],
        later: &[Self],
    ) -> Result<(), AgreementError> {
        let Signature { site, key, .. } = signature;
        let shown = sha256(&[key]);
        if !keys(peers, site, before, later).contains(&shown) {
            return Err(AgreementError::OtherKey {
                number: self.number,
                site: site.clone(),
                pin: shown,
            });
        }
        match self.is_signed(signature) {
            true => Ok(()),
            false => Err(AgreementError::Forged { number: self.number, site: site.clone() }),
        }
    }
}

/// Why a text is no agreement, or an agreement cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgreementError {
    /// It is too long.
    #[error("is longer than {LONGEST} bytes: no agreement is")]
    Long,
    /// It does not begin as one.
    #[error("is no agreement")]
    None,
    /// A line is missing at its end.
    #[error("ends before the line `{0}`")]
    Ends(&'static str),
    /// A line is wrong.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        what: Line,
    },
    /// Not all have signed.
    #[error(
        "agreement {number} ({change}): {} must sign it too\n  help: consenso network change sign SITE_DIR FILE, there",
        missing.join(", ")
    )]
    Unsigned {
        /// The agreement's number.
        number: u32,
        /// What it changes.
        change: String,
        /// Who has not signed.
        missing: Vec<String>,
    },
    /// Somebody signed who does not remain, or does not take part.
    #[error(
        "agreement {number}: {site} does not remain or takes no part, and cannot sign it\n  help: take the line `signed {site} …` out"
    )]
    Extra {
        /// The agreement's number.
        number: u32,
        /// Who signed.
        site: String,
    },
    /// It is another study's.
    #[error("this agreement is of study {}, and this site's is {}", short(theirs), short(ours))]
    OtherStudy {
        /// The agreement's study.
        theirs: Digest,
        /// The site's study.
        ours: Digest,
    },
    /// There is one of its number.
    #[error(
        "agreement {number} {} ({change}); the next has number {next}",
        if *same { "holds already" } else { "is another one here" }
    )]
    Held {
        /// Its number.
        number: u32,
        /// Whether it is the same.
        same: bool,
        /// What the one that holds changes.
        change: String,
        /// The number of the next.
        next: u32,
    },
    /// Others come before it.
    #[error(
        "this is agreement {number}, and the next here has number {next}: apply those before it first"
    )]
    NotNext {
        /// Its number.
        number: u32,
        /// The number of the next.
        next: u32,
    },
    /// It was made after one that does not hold here.
    #[error(
        "agreement {number} does not follow the one that holds here: it was made after another one"
    )]
    AfterAnother {
        /// Its number.
        number: u32,
    },
    /// A site's signature is under a key that is not the site's.
    #[error(
        "agreement {number}: the signature of {site} is under a key with pin {}, which is not that of {site}",
        Hex(pin)
    )]
    OtherKey {
        /// The agreement's number.
        number: u32,
        /// The site.
        site: String,
        /// The key's pin.
        pin: Digest,
    },
    /// A signature does not verify.
    #[error("agreement {number}: the signature of {site} is not its own")]
    Forged {
        /// The agreement's number.
        number: u32,
        /// The site.
        site: String,
    },
}

/// What is wrong with a line of an agreement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Line {
    /// It does not begin as it should.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// No digest.
    #[error("no digest")]
    Digest,
    /// No number.
    #[error("no number")]
    Number,
    /// No number of an exchange.
    #[error("no number of an exchange")]
    Exchange,
    /// No key.
    #[error("no key")]
    Key,
    /// No certificate.
    #[error("no certificate")]
    Certificate,
    /// Bytes that are no certificate.
    #[error("{0}")]
    NotACertificate(String),
    /// A name that cannot be.
    #[error(transparent)]
    Name(#[from] NotAName),
    /// An address that cannot be.
    #[error(transparent)]
    Address(#[from] NotAnAddress),
    /// A change of a kind that is not known.
    #[error("a change that this consenso does not know")]
    Change,
    /// No signature.
    #[error("no signature of a site")]
    Signature,
    /// A site signed twice.
    #[error("{0} signed twice")]
    Twice(String),
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.body())?;
        for Signature { site, key, signature } in &self.signatures {
            writeln!(
                f,
                "signed {site} {} {} {}",
                Hex(key),
                signature.scheme,
                Hex(&signature.bytes)
            )?;
        }
        Ok(())
    }
}

fn digest(text: &str) -> Option<Digest> {
    unhex(text).and_then(|bytes| Digest::try_from(bytes).ok())
}

fn change(line: &str) -> Result<Change, Line> {
    let words: Vec<&str> = line.split(' ').collect();
    let name = |name: &str| check_name(name).map(|()| name.to_owned());
    match words[..] {
        ["leave", site] => Ok(Change::Leave { site: name(site)? }),
        ["part", one, other] => Ok(Change::Part { one: name(one)?, other: name(other)? }),
        ["edge", one, other, "from", from] => {
            let from = from.parse().map_err(|_| Line::Exchange)?;
            Ok(Change::Edge { one: name(one)?, other: name(other)?, from })
        }
        ["replace", site, "was", was, "by", chain, "at", address] => {
            let chain: Option<Vec<Vec<u8>>> = chain.split(',').map(unhex).collect();
            let (was, chain) = (unhex(was).ok_or(Line::Key)?, chain.ok_or(Line::Certificate)?);
            identity::pin(&chain[0]).map_err(|e| Line::NotACertificate(e.to_string()))?;
            let address = (address != "-").then(|| address.to_owned());
            address.as_deref().map_or(Ok(()), check_address)?;
            Ok(Change::Replace { site: name(site)?, was, chain, address })
        }
        _ => Err(Line::Change),
    }
}

fn signature(line: &str) -> Option<Signature> {
    let words: Vec<&str> = line.strip_prefix("signed ")?.split(' ').collect();
    let [site, key, scheme, made] = words[..] else { return None };
    check_name(site).ok()?;
    let signature = unhex(made).filter(|s| s.len() <= MAX_SIGNATURE)?;
    let signature = ReleaseSignature { scheme: scheme.parse().ok()?, bytes: signature.into() };
    Some(Signature { site: site.to_owned(), key: unhex(key)?, signature })
}

/// By which agreement a site left, if it did.
#[must_use]
pub fn left(agreements: &[Agreement], name: &str) -> Option<u32> {
    let leaves = |a: &&Agreement| matches!(&a.change, Change::Leave { site } if site == name);
    agreements.iter().find(leaves).map(|a| a.number)
}

/// Pins that a site's key may have in an agreement after those `before`, with those that came
/// `later`. `peers` is the file as it is: its operator may have replaced pins by hand.
fn keys(peers: &[Peer], site: &str, before: &[Agreement], later: &[Agreement]) -> Vec<Digest> {
    let pins = |agreements: &[Agreement]| -> Vec<(Digest, Digest)> {
        let one = |a: &Agreement| match &a.change {
            Change::Replace { site: name, was, chain, .. } if name == site => {
                Some((sha256(&[was]), identity::pin(&chain[0]).ok()?))
            }
            _ => None,
        };
        agreements.iter().filter_map(one).collect()
    };
    let (past, future) = (pins(before), pins(later));
    let listed = peers.iter().find(|p| p.name == site);
    let listed = listed.into_iter().flat_map(Peer::pins).filter_map(digest);
    let mut all: Vec<Digest> = listed.filter(|pin| past.iter().all(|p| p.0 != *pin)).collect();
    all.extend(past.last().map(|p| p.1));
    all.extend(future.first().map(|p| p.0));
    all
}

/// The sites as agreements have made them: whose place was taken has another pin and address,
/// unless `peers.toml` was changed since.
pub(crate) fn replaced(mut peers: Vec<Peer>, agreements: &[Agreement]) -> Vec<Peer> {
    for agreement in agreements {
        let Change::Replace { site, was, chain, address } = &agreement.change else { continue };
        let Some(peer) = peers.iter_mut().find(|p| p.name == *site) else { continue };
        if peer.pin == Hex(&sha256(&[was])).to_string()
            && let Ok(pin) = identity::pin(&chain[0])
        {
            (peer.pin, peer.address) = (Hex(&pin).to_string(), address.clone());
            peer.next_pin = None;
        }
    }
    peers
}

/// Public keys that a site had before, newest last.
#[must_use]
pub fn keys_before(agreements: &[Agreement], name: &str) -> Vec<Vec<u8>> {
    let one = |a: &Agreement| match &a.change {
        Change::Replace { site, was, .. } if site == name => Some(was.clone()),
        _ => None,
    };
    agreements.iter().filter_map(one).collect()
}

/// Where an agreement that holds is kept.
#[must_use]
pub fn path(folder: &Path, study: &Digest, number: u32) -> PathBuf {
    folder.join(format!("agreement-{}-{number}.txt", short(study)))
}

/// Where one is kept that this site signed and that may come to hold.
#[must_use]
pub fn promise(folder: &Path, study: &Digest, number: u32) -> PathBuf {
    folder.join(format!("agreement-{}-{number}.signed.txt", short(study)))
}

/// Reads one file.
///
/// # Errors
/// No access, or no agreement.
pub fn read(path: &Path) -> Result<Agreement, FolderError> {
    read_by(path, Agreement::parse)
}

fn read_by(
    path: &Path,
    parse: impl Fn(&str) -> Result<Agreement, AgreementError>,
) -> Result<Agreement, FolderError> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| FolderError::Read { path: path.to_owned(), cause })?;
    parse(&text).map_err(|e| FolderError::Content { path: path.to_owned(), message: e.to_string() })
}

/// The agreements of a study that hold in a folder, in order, each checked again. `peers` is the
/// file as it is.
///
/// # Errors
/// A file that cannot be read, or is not the next.
pub(crate) fn load(
    folder: &Path,
    study: &Digest,
    peers: &[Peer],
) -> Result<Vec<Agreement>, FolderError> {
    let mut all = Vec::new();
    for number in 1.. {
        let path = path(folder, study, number);
        if !path.exists() {
            break;
        }
        let mut agreement = read_by(&path, Agreement::parse_kept)?;
        agreement.only_of_those_who_remain(peers, &all);
        all.push(agreement);
    }
    for (index, agreement) in all.iter().enumerate() {
        let wrong = |error: AgreementError| FolderError::Content {
            path: path(folder, study, index as u32 + 1),
            message: error.to_string(),
        };
        agreement.check(study, peers, &all[..index], &all[index + 1..]).map_err(wrong)?;
    }
    Ok(all)
}

/// Makes a file durable under its name, whole or not at all.
pub(crate) fn write(path: &Path, agreement: &Agreement) -> Result<(), FolderError> {
    let write = || {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let new = path.with_extension("new");
        let mut file = std::fs::File::create(&new)?;
        file.write_all(agreement.to_string().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)?;
        std::fs::File::open(folder)?.sync_all()
    };
    write().map_err(|cause| FolderError::Read { path: path.to_owned(), cause })
}

/// Certificates that agreements of a folder have brought, whichever study they are of: trusted as
/// those in `trust.pem` are.
pub(crate) fn certificates(folder: &Path) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let holds = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.starts_with("agreement-") && name.ends_with(".txt") && !name.ends_with(".signed.txt")
    };
    let mut all: Vec<PathBuf> = files.filter(holds).collect();
    all.sort();
    let chain = |path: &PathBuf| match read(path).ok()?.change {
        Change::Replace { chain, .. } => Some(chain),
        _ => None,
    };
    all.iter().filter_map(chain).flatten().collect()
}

/// A site as its new certificate shows it.
pub(crate) fn known(site: &str, certificate: &[u8]) -> Result<PeerIdentity, IdentityError> {
    Ok(PeerIdentity { name: site.to_owned(), pin: identity::pin(certificate)?, next: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{
        CERTIFICATE, Identity, KEY, TRUST, Validity, public_key, self_signed, write_secret,
    };
    use crate::release_signature::ReleaseSigner;

    const STUDY: Digest = [5; 32];

    /// A site that signs, and its key.
    struct Signer {
        name: String,
        certificate: Vec<u8>,
        key: Vec<u8>,
        release_signer: ReleaseSigner,
    }

    impl Signer {
        fn new(root: &Path, name: &str, folder: &str) -> Self {
            let folder = root.join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let made = self_signed(name, Validity::default()).unwrap();
            write_secret(&folder.join(KEY), &made.key).unwrap();
            for file in [CERTIFICATE, TRUST] {
                std::fs::write(folder.join(file), &made.certificate).unwrap();
            }
            let identity = Identity::read(&folder).unwrap();
            let certificate = identity.certificate().to_vec();
            let (key, release_signer) =
                (public_key(&certificate).unwrap(), ReleaseSigner::new(&identity).unwrap());
            Self { name: name.into(), certificate, key, release_signer }
        }

        fn peer(&self) -> Peer {
            let pin = Hex(&sha256(&[&self.key])).to_string();
            Peer { name: self.name.clone(), address: None, pin, next_pin: None, records: 1 }
        }

        fn sign(&self, agreement: &mut Agreement) {
            let signature = self.release_signer.sign(agreement.body().as_bytes()).unwrap();
            agreement.add(Signature { site: self.name.clone(), key: self.key.clone(), signature });
        }
    }

    #[test]
    fn an_agreement_needs_everybodys_own_signature_and_its_place_in_the_row() {
        let root = std::env::temp_dir().join(format!("consenso-agreement-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let [a, b, c] = ["a", "b", "c"].map(|name| Signer::new(&root, name, name));
        let new = Signer::new(&root, "c", "c-new");
        let peers: Vec<Peer> = [&a, &b, &c].map(Signer::peer).into();
        let leave = |site: &str| Change::Leave { site: site.into() };
        let mut first = Agreement::next(STUDY, &[], leave("c"));
        a.sign(&mut first);
        let missing = first.check(&STUDY, &peers, &[], &[]).unwrap_err().to_string();
        assert!(missing.contains("b must sign it too"), "{missing}");
        // Somebody else's signature under b's name, and a good one with another key.
        let mut forged = first.clone();
        let signature = a.release_signer.sign(first.body().as_bytes()).unwrap();
        for (key, words) in
            [(b.key.clone(), "is not its own"), (a.key.clone(), "which is not that of b")]
        {
            forged.add(Signature { site: "b".into(), key, signature: signature.clone() });
            let refused = forged.check(&STUDY, &peers, &[], &[]).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
        b.sign(&mut first);
        first.check(&STUDY, &peers, &[], &[]).unwrap();
        assert_eq!(Agreement::parse(&first.to_string()), Ok(first.clone()));
        // Signatures are for these words alone: not for another number, study or site.
        for other in [
            Agreement { number: 2, ..first.clone() },
            Agreement { study: [6; 32], ..first.clone() },
            Agreement { change: leave("b"), ..first.clone() },
            Agreement { after: [1; 32], ..first.clone() },
        ] {
            assert!(other.check(&other.study, &peers, &[], &[]).is_err(), "{other}");
        }
        let other = first.check(&[6; 32], &peers, &[], &[]).unwrap_err().to_string();
        assert!(other.contains("is of study"), "{other}");
        let again =
            first.check(&STUDY, &peers, std::slice::from_ref(&first), &[]).unwrap_err().to_string();
        assert!(again.contains("holds already"), "{again}");
        // Whoever signed two of one number is known by it.
        let mut second = Agreement::next(STUDY, &[], leave("b"));
        a.sign(&mut second);
        c.sign(&mut second);
        second.check(&STUDY, &peers, &[], &[]).unwrap();
        assert_eq!(first.signed_both(&second), ["a"]);
        // A key that was replaced signs nothing more, and what it signed before stays signed.
        let mut edge = Agreement::next(
            STUDY,
            &[],
            Change::Edge { one: "a".into(), other: "c".into(), from: 9 },
        );
        [&a, &b, &c].iter().for_each(|site| site.sign(&mut edge));
        let change = Change::Replace {
            site: "c".into(),
            was: c.key.clone(),
            chain: vec![new.certificate.clone()],
            address: Some("c.example.org:7400".into()),
        };
        let mut replace = Agreement::next(STUDY, std::slice::from_ref(&edge), change);
        [&a, &b].iter().for_each(|site| site.sign(&mut replace));
        let held = [edge.clone(), replace.clone()];
        replace.check(&STUDY, &peers, &held[..1], &[]).unwrap();
        let now = replaced(peers.clone(), &held);
        assert_eq!(
            (now[2].pin.clone(), now[2].address.as_deref()),
            (new.peer().pin, Some("c.example.org:7400"))
        );
        for listed in [&peers, &now] {
            edge.check(&STUDY, listed, &[], &held[1..]).unwrap();
            for (signer, well) in [(&new, true), (&c, false)] {
                let mut next = Agreement::next(STUDY, &held, leave("b"));
                a.sign(&mut next);
                signer.sign(&mut next);
                assert_eq!(next.check(&STUDY, listed, &held, &[]).is_ok(), well);
            }
        }
        assert_eq!(keys_before(&held, "c"), std::slice::from_ref(&c.key));
        std::fs::remove_dir_all(&root).unwrap();
    }

    /// One line more was ignored when it was taken up and demanded by every audit after that; with a
    /// throwaway key it made somebody a signer who was none.
    #[test]
    fn whoever_need_not_sign_cannot_and_ledgers_with_such_a_line_are_read() {
        let root = std::env::temp_dir().join(format!("consenso-extra-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let [a, b, c, stranger] = ["a", "b", "c", "zzz"].map(|name| Signer::new(&root, name, name));
        let peers: Vec<Peer> = [&a, &b, &c].map(Signer::peer).into();
        let mut leave = Agreement::next(STUDY, &[], Change::Leave { site: "c".into() });
        [&a, &b].iter().for_each(|site| site.sign(&mut leave));
        leave.check(&STUDY, &peers, &[], &[]).unwrap();
        for extra in [&c, &stranger] {
            let mut more = leave.clone();
            extra.sign(&mut more);
            let refused = more.check(&STUDY, &peers, &[], &[]).unwrap_err();
            assert!(matches!(refused, AgreementError::Extra { .. }), "{refused}");
        }
        // What an earlier version kept: a line that is no signature, one that is of other words,
        // and a name that a terminal would obey.
        let mut other = Agreement::next(STUDY, &[], Change::Leave { site: "b".into() });
        c.sign(&mut other);
        let line = other.to_string().lines().last().unwrap().to_owned();
        let junk = format!(
            "{leave}{line}\nsigned c 00 2055 00\nsigned \u{1b}[31ms3 {} 2055 00\n",
            Hex(&c.key)
        );
        let twice = format!("{leave}signed c 00 2055 00\nsigned \u{1b}[31ms3 00 2055 00\n");
        assert!(Agreement::parse(&twice).is_err());
        assert!(Agreement::parse(&junk).is_err());
        assert_eq!(Agreement::parse_kept(&twice).unwrap(), leave);
        let folder = root.join("folder");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(path(&folder, &STUDY, 1), twice).unwrap();
        assert_eq!(load(&folder, &STUDY, &peers).unwrap(), [leave]);
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_is_no_agreement_is_an_error_and_never_a_panic() {
        let edge = Change::Edge { one: "a".into(), other: "b".into(), from: 3 };
        let good = Agreement::next(STUDY, &[], edge).to_string();
        assert!(Agreement::parse(&good.replace('\n', "\r\n")).is_ok(), "as mail programs write it");
        for (from, to) in [
            ("consenso agreement 1", "consenso agreement 2"),
            ("number 1", "number 0"),
            ("number 1", "number x"),
            ("study 05", "study 5"),
            ("edge a b from 3", "edge a b"),
            ("edge a b from 3", "edge A b from 3"),
            ("edge a b from 3", "replace a was 00 by 00 at -"),
            ("edge a b from 3", "dissolve a"),
            ("edge a b from 3", "part a B"),
            ("from 3", "from 3\nsigned A\u{1b} 00 2055 00"),
            ("from 3", "from 3\nsigned a"),
            ("from 3", "from 3\nsigned a 00 1 zz"),
        ] {
            assert!(Agreement::parse(&good.replace(from, to)).is_err(), "{to}");
        }
        for end in 0..good.len() - 1 {
            let _ = Agreement::parse(&good[..end]);
        }
    }
}
