//! What a neighbour's log says it received, against this site's ledger: proof for others that the
//! ledger tells all, or that it does not.

use crate::audit_log;
use crate::frame::{Digest, Hex, unhex};
use crate::release_signature::{ReleaseSignature, ReleaseStatement};
use crate::store::{Entry, Row};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::path::{Path, PathBuf};

/// What the comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReceiptComparison {
    /// Releases that both have, with the same hash.
    pub agree: usize,
    /// Of those, how many the neighbour holds with this site's valid signature.
    pub signed: usize,
    /// Releases of the ledger that the log does not have: they may never have reached it.
    pub only_here: usize,
    /// Releases that the log has and the ledger does not, or with another hash, signed by this
    /// site: the ledger was cut or changed.
    pub unknown: Vec<u32>,
    /// Lines that this site did not sign and that its ledger contradicts: the log was changed.
    pub forged: Vec<u32>,
}

impl ReceiptComparison {
    /// Whether the ledger knows everything that the neighbour can prove.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.unknown.is_empty()
    }
}

/// Who owns the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The site's name.
    pub name: &'a str,
    /// Its number.
    pub number: u32,
    /// Its public keys (each a SubjectPublicKeyInfo): the one it has, and those that an agreement
    /// replaced.
    pub keys: &'a [Vec<u8>],
}

/// The files that are one log: `log` itself, with the pieces that were put aside before it where
/// they stand beside it or `log` is their folder.
#[must_use]
pub fn pieces_of(log: &Path) -> Vec<PathBuf> {
    audit_log::pieces_of(log)
}

/// Compares a neighbour's audit log with the verified rows of a ledger. `neighbour` is its number,
/// for shares are for one receiver alone.
///
/// # Errors
/// A log that cannot be read.
pub fn compare(
    rows: &[Row],
    owner: Owner<'_>,
    neighbour: u32,
    log: &[PathBuf],
) -> std::io::Result<ReceiptComparison> {
    let mut released: BTreeMap<(String, u32), (String, bool)> = BTreeMap::new();
    let mut studies: BTreeMap<i64, String> = BTreeMap::new();
    for row in rows {
        match &row.entry {
            Entry::Study { experiment, .. } => drop(studies.insert(row.study, experiment.clone())),
            Entry::Release { round, blake3, .. } => {
                let study = studies.get(&row.study).cloned().unwrap_or_default();
                released.insert((study, *round), (blake3.clone(), false));
            }
            _ => {}
        }
    }
    let mut found = ReceiptComparison::default();
    let mut study = String::new();
    let files: Vec<_> = log.iter().map(std::fs::File::open).collect::<std::io::Result<_>>()?;
    for line in files.into_iter().flat_map(|file| std::io::BufReader::new(file).lines()) {
        let Ok(line) = serde_json::from_str::<Value>(&line?) else { continue };
        if line["event"] == "start" || line["event"] == audit_log::CONTINUED {
            study = line["study"].as_str().unwrap_or_default().to_owned();
        }
        if line["event"] != "received" || line["peer"] != owner.name {
            continue;
        }
        let round =
            line["exchange"].as_u64().or_else(|| line["round"].as_u64()).unwrap_or(0) as u32;
        let hash = line["blake3"].as_str().unwrap_or_default();
        let signed_for = |to| is_signed(&line, &study, owner, to, round, hash);
        // A share, which names its receiver; masked vectors are the same for all.
        let addressed = line["exchange"].is_u64() && signed_for(Some(neighbour));
        let signed = addressed || signed_for(None);
        match released.get_mut(&(study.clone(), round)) {
            // Shares are charged together, and each receiver has a part: its hash is not the
            // ledger's, and the signature says for whom it is. A release that was lost with a disk
            // has its charge and no hash.
            Some((known, seen))
                if known == hash
                    || (line["exchange"].is_u64()
                        && (addressed || line["signature"].is_null()))
                    || (known.is_empty() && signed) =>
            {
                if !std::mem::replace(seen, true) {
                    found.agree += 1;
                    found.signed += usize::from(signed);
                }
            }
            _ if signed => found.unknown.push(round),
            _ => found.forged.push(round),
        }
    }
    found.only_here = released.values().filter(|(_, seen)| !seen).count();
    Ok(found)
}

fn is_signed(
    line: &Value,
    study: &str,
    owner: Owner<'_>,
    to: Option<u32>,
    round: u32,
    hash: &str,
) -> bool {
    let digest = |text: &str| unhex(text).and_then(|bytes| Digest::try_from(bytes).ok());
    let (Some(study), Some(blake3)) = (digest(study), digest(hash)) else { return false };
    let scheme = line["scheme"].as_u64().and_then(|s| u16::try_from(s).ok());
    let signature = line["signature"].as_str().and_then(unhex);
    let (Some(scheme), Some(signature)) = (scheme, signature) else { return false };
    let said = ReleaseStatement { study, from: owner.number, to, round, blake3 };
    let signature = ReleaseSignature { scheme, bytes: signature.into() };
    owner.keys.iter().any(|key| said.is_signed_by(key, &signature))
}

/// The heads of ledgers that a site's log has from its neighbours' goodbyes: (site, hash of the
/// last row).
///
/// # Errors
/// A log that cannot be read.
pub fn anchors(folder: &Path) -> std::io::Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    let files: Vec<_> =
        audit_log::files(folder).iter().map(std::fs::File::open).collect::<std::io::Result<_>>()?;
    for line in files.into_iter().flat_map(|file| std::io::BufReader::new(file).lines()) {
        let Ok(line) = serde_json::from_str::<Value>(&line?) else { continue };
        if let ("farewell", Some(peer), Some(head)) = (
            line["event"].as_str().unwrap_or_default(),
            line["peer"].as_str(),
            line["ledger"].as_str(),
        ) {
            all.push((peer.to_owned(), head.to_owned()));
        }
    }
    Ok(all)
}

/// Whether a neighbour's anchor of this site is a row of its ledger.
#[must_use]
pub fn is_anchored(rows: &[Row], head: &str) -> bool {
    rows.iter().any(|row| Hex(&row.hash).to_string() == head)
}
