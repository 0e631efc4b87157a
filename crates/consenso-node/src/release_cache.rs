//! What a site keeps of its neighbours: the last two releases of each with their signatures, so
//! that a neighbour that lost its disk gets them back.
//!
//! A file of fixed places, written before the site answers a release and never waited for: it
//! outlives the process, and a neighbour that lost its disk while the power failed here asks
//! another one. A damaged place does no harm, for whoever asks checks its own signature.

use crate::folder::{Folder, short};
use crate::frame::longest;
use crate::release_signature::{MAX_SIGNATURE, ReleaseSignature};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

/// A place begins with: round, scheme, length of the signature, length of the release.
const HEAD: usize = 4 + 2 + 2 + 4;

/// The open file of one study.
#[derive(Debug)]
pub(crate) struct ReleaseCache {
    file: File,
    place: usize,
    neighbours: BTreeMap<u32, u64>,
}

/// Where a study's file is.
pub(crate) fn path(folder: &Folder) -> PathBuf {
    folder.path.join(format!("held-{}.bin", short(&folder.study)))
}

impl ReleaseCache {
    /// Opens the file, empty if the study has just begun.
    pub(crate) fn open(
        folder: &Folder,
        neighbours: &[u32],
        dim: usize,
        fresh: bool,
    ) -> std::io::Result<Self> {
        let file = File::options()
            .create(true)
            .truncate(fresh)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path(folder))?;
        let neighbours = (0..).zip(neighbours).map(|(index, &j)| (j, index)).collect();
        Ok(Self { file, place: HEAD + MAX_SIGNATURE + longest(dim), neighbours })
    }

    /// Gives a neighbour a place after all others, who keep theirs.
    pub(crate) fn add(&mut self, peer: u32) {
        let next = self.neighbours.len() as u64;
        self.neighbours.entry(peer).or_insert(next);
    }

    fn at(&self, peer: u32, round: u32) -> Option<u64> {
        let index = 2 * self.neighbours.get(&peer)? + u64::from(round % 2);
        Some(index * self.place as u64)
    }

    /// Keeps a release in the place of the one two rounds before.
    pub(crate) fn keep(
        &self,
        peer: u32,
        round: u32,
        bytes: &[u8],
        signature: &ReleaseSignature,
    ) -> std::io::Result<()> {
        let Some(at) = self.at(peer, round) else { return Ok(()) };
        let mut place = Vec::with_capacity(HEAD + signature.bytes.len() + bytes.len());
        place.extend_from_slice(&round.to_le_bytes());
        place.extend_from_slice(&signature.scheme.to_le_bytes());
        place.extend_from_slice(&(signature.bytes.len() as u16).to_le_bytes());
        place.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        place.extend_from_slice(&signature.bytes);
        place.extend_from_slice(bytes);
        self.file.write_all_at(&place, at)
    }

    /// The releases of a neighbour, the older first.
    pub(crate) fn of(&self, peer: u32) -> Vec<(u32, ReleaseSignature, Bytes)> {
        let mut all: Vec<_> =
            [0, 1].into_iter().filter_map(|parity| self.read(self.at(peer, parity)?)).collect();
        all.sort_by_key(|one| one.0);
        all
    }

    fn read(&self, at: u64) -> Option<(u32, ReleaseSignature, Bytes)> {
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, at).ok()?;
        let number =
            |from: usize| u32::from_le_bytes(head[from..from + 4].try_into().expect("four bytes"));
        let (round, length) = (number(0), number(8) as usize);
        let signed = usize::from(u16::from_le_bytes([head[6], head[7]]));
        if round == 0 || signed > MAX_SIGNATURE || HEAD + MAX_SIGNATURE + length > self.place {
            return None;
        }
        let mut rest = vec![0; signed + length];
        self.file.read_exact_at(&mut rest, at + HEAD as u64).ok()?;
        let bytes = Bytes::from(rest);
        let signature = ReleaseSignature {
            scheme: u16::from_le_bytes([head[4], head[5]]),
            bytes: bytes.slice(..signed),
        };
        Some((round, signature, bytes.slice(signed..)))
    }
}
