//! Secrets of edges: what the two ends of an edge draw the noise from that one adds and the other
//! subtracts.
//!
//! # How two ends agree
//! On every new link each end sends a fresh X25519 key inside the TLS session, and a proof of the
//! secret it has, if it has one. Equal proofs: both have the same secret, and it is **confirmed**.
//! Otherwise both derive one from the two keys (HKDF-SHA256, salted with the study, for this edge),
//! make it durable, and only then prove it to the other.
//!
//! Nothing is released before every edge is confirmed. An end proves a secret after it is on disk,
//! so a confirmed one is on the other disk too: whatever crashes, both go on with the same secret,
//! and one that may have been used is never replaced. The noise of a round is a stream of its own
//! under the secret, and a draft that was sent is sent again, not drawn again: no noise is used for
//! two drafts that leave.
//!
//! # Where they are
//! In a file of the site's folder that only its owner reads, written as durably as releases. It is
//! overwritten and removed when the site's last release is out: who takes the machine over later
//! learns nothing about what neighbours hid with them.

use crate::folder::Folder;
use crate::frame::{Digest, Frame, Hex};
use consenso_engine::random::Seed;
use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::SystemRandom;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What a site knows of one edge.
#[derive(Clone, Serialize, Deserialize)]
struct Known {
    secret: [u8; 32],
    proof: Digest,
    /// Whether the other end has it on disk.
    confirmed: bool,
}

/// The secrets of one site's edges in one study.
pub(crate) struct Edges {
    path: PathBuf,
    study: Digest,
    me: u32,
    known: BTreeMap<u32, Known>,
    /// Keys that were sent on the newest link to each neighbour.
    open: BTreeMap<u32, (EphemeralPrivateKey, [u8; 32])>,
}

/// Why the two ends of an edge do not come to a secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EdgeError {
    #[error("the operating system gave no entropy for a secret")]
    Entropy,
    #[error("X25519 keys have 32 bytes")]
    Length,
    #[error("a key for an edge that is not open")]
    NotOpen,
    #[error(
        "it has not the secret of this edge that both had: one of the two folders is an old copy, or lost a file"
    )]
    OldCopy,
    #[error("its key for the edge is no X25519 key")]
    NoKey,
    #[error("it derived another secret for the edge")]
    Another,
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: io::Error },
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
struct EdgeFile {
    study: Digest,
    edges: BTreeMap<u32, Known>,
}

/// Where the file of a study is, by the study's number in the ledger.
fn path(folder: &Path, number: i64) -> PathBuf {
    folder.join(format!("edges-{number}.key"))
}

/// Overwrites and removes the secrets of a study, if there are any.
pub(crate) fn destroy(folder: &Path, number: i64) -> io::Result<()> {
    let path = path(folder, number);
    let length = match std::fs::metadata(&path) {
        Ok(found) => found.len(),
        Err(none) if none.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(other) => return Err(other),
    };
    let mut file = File::options().write(true).open(&path)?;
    file.write_all(&vec![0; length as usize])?;
    file.sync_all()?;
    std::fs::remove_file(&path)?;
    File::open(folder)?.sync_all()
}

impl Edges {
    /// Reads what is there; nothing, if the study has just begun.
    pub(crate) fn open(folder: &Folder, number: i64) -> io::Result<Self> {
        Self::read(path(&folder.path, number), folder.study, folder.me as u32)
    }

    fn read(path: PathBuf, study: Digest, me: u32) -> io::Result<Self> {
        let known = match std::fs::read(&path) {
            Ok(bytes) => {
                let kept: EdgeFile = serde_json::from_slice(&bytes)?;
                // Of a ledger that is gone.
                if kept.study == study { kept.edges } else { BTreeMap::new() }
            }
            Err(none) if none.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(other) => return Err(other),
        };
        Ok(Self { path, study, me, known, open: BTreeMap::new() })
    }

    /// Where the secrets are.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Secrets that both ends have, by neighbour.
    pub(crate) fn confirmed(&self) -> impl Iterator<Item = (u32, Seed)> + '_ {
        let confirmed = self.known.iter().filter(|(_, known)| known.confirmed);
        confirmed.map(|(&peer, known)| (peer, Seed::from_entropy(known.secret)))
    }

    /// What to send on a new link.
    pub(crate) fn offer(&mut self, peer: u32) -> Result<Frame, EdgeError> {
        let failed = |_| EdgeError::Entropy;
        let private =
            EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(failed)?;
        let public = private.compute_public_key().map_err(failed)?;
        let public: [u8; 32] = public.as_ref().try_into().map_err(|_| EdgeError::Length)?;
        self.open.insert(peer, (private, public));
        let proof = self.known.get(&peer).map(|known| known.proof);
        Ok(Frame::EdgeKey { public, proof })
    }

    /// Takes in what a neighbour sent on a new link; what to answer, if anything.
    pub(crate) fn answer(
        &mut self,
        peer: u32,
        public: &[u8; 32],
        proof: Option<Digest>,
    ) -> Result<Option<Frame>, EdgeError> {
        let (private, mine) = self.open.remove(&peer).ok_or(EdgeError::NotOpen)?;
        if let Some(known) = self.known.get(&peer) {
            if proof == Some(known.proof) {
                self.confirm(peer)?;
                return Ok(None);
            }
            if known.confirmed {
                return Err(EdgeError::OldCopy);
            }
        }
        let (low, high) = (self.me.min(peer), self.me.max(peer));
        let (first, second) = if self.me == low { (&mine, public) } else { (public, &mine) };
        let place = [&b"consenso edge"[..], &low.to_le_bytes(), &high.to_le_bytes(), first, second]
            .concat();
        let study = self.study;
        let derived =
            agree_ephemeral(private, &UnparsedPublicKey::new(&X25519, public), |shared| {
                let key = Salt::new(HKDF_SHA256, &study).extract(shared);
                let fill = |label: &[u8]| {
                    let mut out = [0; 32];
                    let info = [label, &place];
                    key.expand(&info, HKDF_SHA256).and_then(|okm| okm.fill(&mut out)).map(|()| out)
                };
                fill(b"secret").and_then(|secret| Ok((secret, fill(b"proof")?)))
            });
        let (secret, proof) = derived.and_then(|both| both).map_err(|_| EdgeError::NoKey)?;
        self.known.insert(peer, Known { secret, proof, confirmed: false });
        self.save()?;
        Ok(Some(Frame::EdgeSame { proof }))
    }

    /// The neighbour has the secret on disk that it proves.
    pub(crate) fn same(&mut self, peer: u32, proof: &Digest) -> Result<(), EdgeError> {
        match self.known.get(&peer) {
            Some(known) if known.proof == *proof => self.confirm(peer),
            _ => Err(EdgeError::Another),
        }
    }

    fn confirm(&mut self, peer: u32) -> Result<(), EdgeError> {
        let Some(known) = self.known.get_mut(&peer) else { return Ok(()) };
        if !std::mem::replace(&mut known.confirmed, true) {
            self.save()?;
        }
        Ok(())
    }

    fn save(&self) -> Result<(), EdgeError> {
        let kept = EdgeFile { study: self.study, edges: self.known.clone() };
        let written = || {
            let text = serde_json::to_vec(&kept)?;
            let new = self.path.with_extension("new");
            let mut file =
                File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&new, &self.path)?;
            File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        written().map_err(|cause| EdgeError::File { path: self.path.clone(), cause })
    }
}

impl std::fmt::Debug for Edges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Edges({}, {} secrets)", Hex(&self.study), self.known.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(name: &str, me: u32) -> Edges {
        let folder =
            std::env::temp_dir().join(format!("consenso-edges-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Edges::read(folder.join("edges.key"), [7; 32], me).unwrap()
    }

    fn parts(frame: &Frame) -> ([u8; 32], Option<Digest>) {
        let Frame::EdgeKey { public, proof } = *frame else { panic!("{frame:?}") };
        (public, proof)
    }

    /// Both ends on a new link; what each answers is delivered if `heard` says so.
    fn meet(a: &mut Edges, b: &mut Edges, heard: [bool; 2]) -> Result<(), EdgeError> {
        let (to_b, to_a) = (parts(&a.offer(b.me)?), parts(&b.offer(a.me)?));
        let from_b = b.answer(a.me, &to_b.0, to_b.1)?;
        let from_a = a.answer(b.me, &to_a.0, to_a.1)?;
        if let (true, Some(Frame::EdgeSame { proof })) = (heard[0], from_b) {
            a.same(b.me, &proof)?;
        }
        if let (true, Some(Frame::EdgeSame { proof })) = (heard[1], from_a) {
            b.same(a.me, &proof)?;
        }
        Ok(())
    }

    fn secret(end: &Edges) -> Option<Seed> {
        end.confirmed().next().map(|c| c.1)
    }

    /// Whatever is lost on the way and whoever dies, a secret that an end may use is the other's
    /// too, and stays.
    #[test]
    fn both_ends_come_to_one_secret_and_keep_it() {
        for (case, heard) in
            [[true, true], [true, false], [false, true], [false, false]].into_iter().enumerate()
        {
            let name = |end: &str| format!("{case}{end}");
            let (mut a, mut b) = (end(&name("a"), 3), end(&name("b"), 1));
            meet(&mut a, &mut b, heard).unwrap();
            assert_eq!((secret(&a).is_some(), secret(&b).is_some()), (heard[0], heard[1]));
            let first = secret(&a).or(secret(&b));
            // Both processes die and come back.
            let (mut a, mut b) = (end(&name("a"), 3), end(&name("b"), 1));
            meet(&mut a, &mut b, [true, true]).unwrap();
            assert!(secret(&a).is_some() && secret(&a) == secret(&b), "case {case}");
            assert!(
                first.is_none() || first == secret(&a),
                "case {case}: one that was in use was replaced"
            );
            let used = secret(&a);
            // One disk is lost: the other end does not take another secret.
            std::fs::remove_file(&b.path).unwrap();
            let mut b = end(&name("b"), 1);
            assert!(matches!(meet(&mut b, &mut a, [true, true]), Err(EdgeError::OldCopy)));
            assert_eq!(secret(&a), used);
            std::fs::remove_dir_all(a.path.parent().unwrap()).unwrap();
            std::fs::remove_dir_all(b.path.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn every_edge_and_every_study_has_a_secret_of_its_own() {
        let (mut a, mut b) = (end("own-a", 0), end("own-b", 1));
        meet(&mut a, &mut b, [true, true]).unwrap();
        let one = secret(&a);
        let (mut c, mut d) = (end("own-c", 0), end("own-d", 1));
        meet(&mut c, &mut d, [true, true]).unwrap();
        assert_ne!(one, secret(&c));
        // A key of small order gives a secret that everybody knows: it is refused.
        c.known.clear();
        c.offer(1).unwrap();
        assert!(c.answer(1, &[0; 32], None).is_err());
        for end in [a, b, c, d] {
            std::fs::remove_dir_all(end.path.parent().unwrap()).unwrap();
        }
    }
}
