//! A witness of a site's own that a snapshot of its folder does not take along: how many releases
//! its ledger has, on another disk.
//!
//! Whoever restores an older copy of a site's folder has an older ledger, which agrees with itself.
//! Noise drawn again on the same records would then be charged once and sent twice. The witness
//! knows better: its number is durable after the ledger's row and before the message leaves, so a
//! ledger that has fewer releases than its witness is an old one, and does not start.
//!
//! The file has two slots in blocks of their own, written in turn, each with a checksum: a crash in
//! the middle of a write leaves the other one.

use crate::frame::{Digest, blake3};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 16] = b"consenso-witness";
const SLOT: usize = 64;
const BLOCK: u64 = 4096;

/// What a witness has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Releases of the ledger, over all studies.
    pub(crate) releases: u64,
    /// Hash of the last one's row.
    pub(crate) row: Digest,
}

/// An open witness.
#[derive(Debug)]
pub(crate) struct Witness {
    path: PathBuf,
    file: File,
    seen: Seen,
}

impl Witness {
    /// Makes a new one that has seen this.
    pub(crate) fn create(path: &Path, seen: Seen) -> io::Result<Self> {
        let file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path)?;
        file.set_len(2 * BLOCK)?;
        let mut witness = Self { path: path.to_owned(), file, seen };
        witness.note(seen)?;
        witness.file.sync_all()?;
        // The name must be durable too.
        if let Some(folder) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            File::open(folder)?.sync_all()?;
        }
        Ok(witness)
    }

    /// Opens one.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let one = |slot: u64| {
            let mut bytes = [0; SLOT];
            file.read_exact_at(&mut bytes, slot * BLOCK).ok()?;
            decode(&bytes)
        };
        let seen = [one(0), one(1)].into_iter().flatten().max_by_key(|seen| seen.releases);
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, "is no witness, or was damaged");
        Ok(Self { path: path.to_owned(), seen: seen.ok_or_else(damaged)?, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }

    /// Makes this durable.
    pub(crate) fn note(&mut self, seen: Seen) -> io::Result<()> {
        self.file.write_all_at(&encode(&seen), (seen.releases % 2) * BLOCK)?;
        self.file.sync_data()?;
        self.seen = seen;
        Ok(())
    }
}

fn encode(seen: &Seen) -> [u8; SLOT] {
    let mut bytes = [0; SLOT];
    bytes[..16].copy_from_slice(MAGIC);
    bytes[16..24].copy_from_slice(&seen.releases.to_le_bytes());
    bytes[24..56].copy_from_slice(&seen.row);
    let sum = blake3(&bytes[..56]);
    bytes[56..].copy_from_slice(&sum[..8]);
    bytes
}

fn decode(bytes: &[u8; SLOT]) -> Option<Seen> {
    if bytes[..16] != *MAGIC || bytes[56..] != blake3(&bytes[..56])[..8] {
        return None;
    }
    let releases = u64::from_le_bytes(bytes[16..24].try_into().ok()?);
    Some(Seen { releases, row: bytes[24..56].try_into().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_write_leaves_what_was_seen_before() {
        let path = std::env::temp_dir().join(format!("consenso-witness-{}", std::process::id()));
        let seen = |releases| Seen { releases, row: [releases as u8; 32] };
        let mut witness = Witness::create(&path, seen(0)).unwrap();
        (1..=5).for_each(|n| witness.note(seen(n)).unwrap());
        assert_eq!(Witness::open(&path).unwrap().seen(), seen(5));
        witness.file.write_all_at(&[7; 10], BLOCK + 30).unwrap();
        assert_eq!(Witness::open(&path).unwrap().seen(), seen(4));
        witness.file.write_all_at(&[7; 10], 30).unwrap();
        assert!(Witness::open(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
