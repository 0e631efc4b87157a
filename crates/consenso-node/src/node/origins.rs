//! Masked vectors that others pass on: each is believed with the signature of the site whose it is,
//! and with nothing else, so that whoever passes one on can neither change it nor bring another.

use super::Node;
use crate::driven::origin_of;
use crate::error::NodeError;
use crate::folder::Peer;
use crate::frame::{Frame, Hex, Origin, SignedReceipt, blake3, sha256};
use crate::release_signature::{ReleaseSignature, ReleaseStatement};
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeMap;

/// Keys of sites, with whose they are: each had its pin when it was looked at.
pub(super) type TrustedKeys = BTreeMap<Bytes, u32>;

/// Why vectors of a frame are not believed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unsigned {
    #[error("its signature under exchange {0} is not its own")]
    Own(u32),
    #[error("what it passes on in round {0} is no vector")]
    NoVector(u32),
    #[error(
        "what it passes on as the vector of {site} in round {round} is not signed by that site"
    )]
    Other { site: String, round: u32 },
}

/// The vectors of a frame, by the exchange and the site that they are from.
pub(super) type Origins = Vec<((u32, u32), Origin)>;

impl Node {
    /// The masked vectors in a frame as their origins signed them, none in frames of other kinds;
    /// why not, if one is not signed by whose it says it is.
    pub(super) fn origins(
        &mut self,
        peer: u32,
        frame: &Frame,
        bytes: &Bytes,
        signature: Option<ReleaseSignature>,
    ) -> Result<Origins, Unsigned> {
        match frame {
            Frame::Masked { exchange, .. } => {
                // What may be passed on must be as good elsewhere as it is here.
                let key = self.shared.key_of(peer).map(|key| Bytes::copy_from_slice(&key));
                let (Some(key), Some(signature)) = (key, signature) else {
                    return Err(Unsigned::Own(*exchange));
                };
                let origin = Origin { key, signature, frame: bytes.clone() };
                if !self.is_signed((*exchange, peer), &origin) {
                    return Err(Unsigned::Own(*exchange));
                }
                let of = origin_of(bytes).filter(|(_, whose)| *whose == peer);
                Ok(of.map(|of| (of, origin)).into_iter().collect())
            }
            Frame::Passed { origins, round, .. } => {
                let mut all = Vec::with_capacity(origins.len());
                for origin in origins {
                    let Some(of) = origin_of(&origin.frame) else {
                        return Err(Unsigned::NoVector(*round));
                    };
                    // The same frame under the same signature was looked at before, whoever
                    // brought it.
                    let known = self.agent.vouched(of).is_some_and(|known| known == origin);
                    let vouched =
                        known || self.is_key_of(of.1, &origin.key) && self.is_signed(of, origin);
                    if !vouched {
                        let site = self.name_of(of.1);
                        return Err(Unsigned::Other { site, round: *round });
                    }
                    all.push((of, origin.clone()));
                }
                Ok(all)
            }
            _ => Ok(Vec::new()),
        }
    }

    fn is_signed(&self, (round, from): (u32, u32), origin: &Origin) -> bool {
        let (study, blake3) = (self.shared.folder.study, blake3(&origin.frame));
        let said = ReleaseStatement { study, from, to: None, round, blake3 };
        said.is_signed_by(&origin.key, &origin.signature)
    }

    /// Whether a key has the pin of a site, in the list of now if not in that of the start.
    fn is_key_of(&mut self, site: u32, key: &Bytes) -> bool {
        if self.trusted.get(key) == Some(&site) {
            return true;
        }
        let pin = sha256(&[key]);
        let listed = |peers: &[Peer]| {
            let peer = peers.get(site as usize);
            peer.is_some_and(|peer| peer.pins().any(|known| known == Hex(&pin).to_string()))
        };
        let folder = &self.shared.folder;
        let now = || folder.peers_now().is_ok_and(|(peers, _)| listed(&peers));
        let known = (listed(&folder.peers) || now()) && folder.revoked(&pin).is_none();
        if known {
            self.trusted.insert(key.clone(), site);
        }
        known
    }

    /// A vector of which another version is known, which its origin signed as well: whose, in which
    /// exchange, and what was signed.
    pub(super) fn other_version(&self, origins: &Origins) -> Option<TwoVectors> {
        let other = |(of, origin): &((u32, u32), Origin)| {
            let known = self.agent.vouched(*of).filter(|known| known.frame != origin.frame)?;
            Some(TwoVectors { of: *of, here: receipt(*of, known), there: receipt(*of, origin) })
        };
        origins.iter().find_map(other)
    }

    /// Finds a vector that another site signed in two versions by what somebody says of it, where
    /// that site is not one that both ends have in common and compare.
    pub(super) fn other_version_told(
        &self,
        peer: u32,
        exchange: u32,
        told: &[SignedReceipt],
    ) -> Option<TwoVectors> {
        let study = self.shared.folder.study;
        told.iter().filter(|told| !self.watch.watches(peer, told.about)).find_map(|told| {
            let of = (exchange, told.about);
            let known = self.agent.vouched(of)?;
            let here = receipt(of, known);
            let (from, round, blake3) = (told.about, exchange, told.blake3);
            let said = ReleaseStatement { study, from, to: None, round, blake3 };
            let proved = here.blake3 != blake3 && said.is_signed_by(&known.key, &told.signature);
            proved.then(|| TwoVectors { of, here, there: told.clone() })
        })
    }

    /// A site signed two vectors of one exchange: both signatures go into the log and to all who may
    /// have one of the two, and the site is refused. What to end with, where sums are spoiled.
    pub(super) fn two_vectors(&mut self, by: u32, found: TwoVectors) -> NodeError {
        let TwoVectors { of: (exchange, site), here, there } = found;
        let round = self.agent.begun_in(exchange);
        let (name, by) = (self.name_of(site), self.name_of(by));
        let reason = format!("it signed two different vectors of round {round}");
        let proof = |told: &SignedReceipt| {
            json!({ "blake3": Hex(&told.blake3).to_string(), "scheme": told.signature.scheme,
                "signature": Hex(&told.signature.bytes).to_string() })
        };
        let line = json!({ "peer": name, "round": round, "exchange": exchange, "by": by, "here": proof(&here), "there": proof(&there) });
        self.audit("equivocation", line);
        let linked = |(&peer, n): (&u32, &super::Neighbour)| {
            (peer != site && n.outgoing.is_some()).then_some(peer)
        };
        let others: Vec<u32> = self.neighbours.iter().filter_map(linked).collect();
        let told = Frame::Receipts { round: exchange, all: vec![here, there] }.encode();
        for other in others {
            self.send(other, told.clone());
        }
        if let Some(n) = self.neighbours.get_mut(&site) {
            n.banned = Some(reason.clone());
            self.refuse(site, &reason);
        }
        NodeError::Shares(format!(
            "{name}: {reason}, of which one came by {by}: the sites have added up different sums, and what comes of them is no model"
        ))
    }
}

/// Two versions of a vector, each as its origin signed it.
pub(super) struct TwoVectors {
    of: (u32, u32),
    here: SignedReceipt,
    there: SignedReceipt,
}

fn receipt((_, about): (u32, u32), origin: &Origin) -> SignedReceipt {
    SignedReceipt { about, blake3: blake3(&origin.frame), signature: origin.signature.clone() }
}
