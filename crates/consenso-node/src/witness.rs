//! A witness of a site's own that a snapshot of its folder does not take along: how many releases
//! its ledger has, on another disk.
//!
//! Whoever restores an older copy of a site's folder has an older ledger, which agrees with itself.
//! Noise drawn again on the same records would then be charged once and sent twice. The witness
//! knows better: its number is durable after the ledger's row and before the message leaves, so a
//! ledger that has fewer releases than its witness is an old one, and does not start.
//!
//! What a witness has seen never becomes less, also when a site that lost its disk comes back with a
//! ledger of fewer rows: the rounds between are spared ([`rejoin`](crate::rejoin)), and the count
//! stays where it was until the ledger has passed it.
//!
//! The file has two slots in blocks of their own, written in turn, each with a checksum: a crash in
//! the middle of a write leaves the other one.

use crate::frame::{Digest, blake3};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 16] = b"consenso-witnes2";
const SLOT: usize = 112;
/// What a witness was before it knew of studies: releases and the hash of the last one's row.
const MAGIC_BEFORE: &[u8; 16] = b"consenso-witness";
const SLOT_BEFORE: usize = 64;
const BLOCK: u64 = 4096;

/// What a witness has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Releases that there may have been, over all studies.
    pub(crate) releases: u64,
    /// Hash of the last row of the ledger that it knows.
    pub(crate) row: Digest,
    /// What is run in the study of the last release; zeros where that is not known.
    pub(crate) study: Digest,
    /// The last exchange of that study that may have been released.
    pub(crate) round: u32,
}

impl Seen {
    /// This after what was seen before: no number becomes less.
    fn after(self, before: &Self) -> Self {
        let round = if self.study == before.study { before.round } else { 0 };
        Self { releases: self.releases.max(before.releases), round: self.round.max(round), ..self }
    }
}

/// An open witness.
#[derive(Debug)]
pub(crate) struct Witness {
    path: PathBuf,
    file: File,
    seen: Seen,
    /// How often it was written: which slot is the newer one.
    written: u64,
}

impl Witness {
    /// Makes a new one that has seen this, where there is none.
    pub(crate) fn create(path: &Path, seen: Seen) -> io::Result<Self> {
        let file =
            File::options().create_new(true).read(true).write(true).mode(0o600).open(path)?;
        file.set_len(2 * BLOCK)?;
        let mut witness = Self { path: path.to_owned(), file, seen, written: 0 };
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
        let found = [one(0), one(1)].into_iter().flatten().max_by_key(|(_, written)| *written);
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, "is no witness, or was damaged");
        let (seen, written) = found.ok_or_else(damaged)?;
        Ok(Self { path: path.to_owned(), seen, written, file })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen
    }

    /// Makes durable that this was seen, too.
    pub(crate) fn note(&mut self, seen: Seen) -> io::Result<()> {
        let (seen, written) = (seen.after(&self.seen), self.written + 1);
        self.file.write_all_at(&encode(&seen, written), (written % 2) * BLOCK)?;
        self.file.sync_data()?;
        (self.seen, self.written) = (seen, written);
        Ok(())
    }
}

fn encode(seen: &Seen, written: u64) -> [u8; SLOT] {
    let mut bytes = [0; SLOT];
    bytes[..16].copy_from_slice(MAGIC);
    bytes[16..24].copy_from_slice(&written.to_le_bytes());
    bytes[24..32].copy_from_slice(&seen.releases.to_le_bytes());
    bytes[32..64].copy_from_slice(&seen.row);
    bytes[64..96].copy_from_slice(&seen.study);
    bytes[96..100].copy_from_slice(&seen.round.to_le_bytes());
    let sum = blake3(&bytes[..104]);
    bytes[104..].copy_from_slice(&sum[..8]);
    bytes
}

/// What a slot says, and which write it was.
fn decode(bytes: &[u8; SLOT]) -> Option<(Seen, u64)> {
    let number = |from: usize| Some(u64::from_le_bytes(bytes[from..from + 8].try_into().ok()?));
    let digest = |from: usize| Digest::try_from(&bytes[from..from + 32]).ok();
    let whole = |until: usize| bytes[until..until + 8] == blake3(&bytes[..until])[..8];
    if bytes[..16] == *MAGIC_BEFORE && whole(SLOT_BEFORE - 8) {
        let releases = number(16)?;
        return Some((Seen { releases, row: digest(24)?, study: [0; 32], round: 0 }, releases));
    }
    if bytes[..16] != *MAGIC || !whole(SLOT - 8) {
        return None;
    }
    let round = u32::from_le_bytes(bytes[96..100].try_into().ok()?);
    let seen = Seen { releases: number(24)?, row: digest(32)?, study: digest(64)?, round };
    Some((seen, number(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(releases: u64) -> Seen {
        Seen { releases, row: [releases as u8; 32], study: [1; 32], round: releases as u32 }
    }

    fn place(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("consenso-witness-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn a_torn_write_leaves_what_was_seen_before() {
        let path = place("torn");
        let mut witness = Witness::create(&path, seen(0)).unwrap();
        (1..=5).for_each(|n| witness.note(seen(n)).unwrap());
        assert_eq!(Witness::open(&path).unwrap().seen(), seen(5));
        witness.file.write_all_at(&[7; 10], 30).unwrap();
        assert_eq!(Witness::open(&path).unwrap().seen(), seen(4));
        witness.file.write_all_at(&[7; 10], BLOCK + 30).unwrap();
        assert!(Witness::open(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_witness_never_goes_back() {
        let path = place("back");
        let mut witness = Witness::create(&path, seen(178)).unwrap();
        for n in 75..80 {
            witness.note(seen(n)).unwrap();
            let known = Witness::open(&path).unwrap().seen();
            assert_eq!((known.releases, known.round, known.row), (178, 178, [n as u8; 32]));
        }
        // Another study's rounds begin anew, the count of all does not.
        witness.note(Seen { study: [2; 32], round: 1, ..seen(80) }).unwrap();
        let known = witness.seen();
        assert_eq!((known.releases, known.study, known.round), (178, [2; 32], 1));
        assert!(Witness::create(&path, seen(0)).is_err(), "what is there is not overwritten");
        std::fs::remove_file(&path).unwrap();
    }

    /// Files of an earlier consenso open, and are written anew with the next release.
    #[test]
    fn a_witness_of_before_is_read() {
        let path = place("before");
        let file = File::options().create(true).truncate(true).write(true).open(&path).unwrap();
        file.set_len(2 * BLOCK).unwrap();
        for n in [6_u64, 7] {
            let mut bytes = [0; SLOT_BEFORE];
            bytes[..16].copy_from_slice(MAGIC_BEFORE);
            bytes[16..24].copy_from_slice(&n.to_le_bytes());
            bytes[24..56].fill(n as u8);
            let sum = blake3(&bytes[..56]);
            bytes[56..].copy_from_slice(&sum[..8]);
            file.write_all_at(&bytes, (n % 2) * BLOCK).unwrap();
        }
        let mut witness = Witness::open(&path).unwrap();
        assert_eq!(witness.seen(), Seen { study: [0; 32], round: 0, ..seen(7) });
        witness.note(seen(8)).unwrap();
        assert_eq!(Witness::open(&path).unwrap().seen(), seen(8));
        std::fs::remove_file(&path).unwrap();
    }
}
