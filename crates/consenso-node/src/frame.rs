//! What travels on an edge: one frame a gRPC message, a few fixed layouts, everything
//! little-endian.
//!
//! The first three bytes of a hello, its kind and the protocol version, never change their meaning,
//! so that two versions can always tell each other apart. A frame has exactly the length its kind
//! says; whatever else arrives is an error, not a guess.

use crate::release_signature::{MAX_SIGNATURE, ReleaseSignature};
use bytes::Bytes;
use consenso_engine::gate::{MaskLabel, Round};
use consenso_engine::sharing::MaskedMessage;
use std::fmt;
use std::sync::Arc;

/// The version of everything below; all others are refused.
///
/// What a version made mandatory cannot be left out by saying an earlier one: version 1 had no
/// signatures under releases, and whoever spoke it could tell every neighbour something else; in
/// version 2 masked vectors were passed on without the signature of whose they are.
pub const VERSION: u16 = 3;

/// Longest text of a refusal.
const MAX_REASON: usize = 400;

/// A hash of 32 bytes: SHA-256 of what all sites must agree on, BLAKE3 of messages.
pub type Digest = [u8; 32];

/// Who somebody says it is, and what it is about to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version that the sender speaks on this link.
    pub version: u16,
    /// The experiment, schema, sites and record counts.
    pub experiment: Digest,
    /// The graph.
    pub graph: Digest,
    /// The sender's agent number.
    pub from: u32,
    /// The receiver's.
    pub to: u32,
    /// The sender's exchanges that are complete and durable: releases up to this round need not be
    /// sent to it.
    pub have: u32,
}

/// One message on an edge.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// First frame in both directions.
    Hello(Hello),
    /// A released vector. A release of round r also says that the sender has all of round r − 1,
    /// durably.
    Release {
        /// Agent number of the sender.
        from: u32,
        /// Its round.
        round: u32,
        /// The vector.
        values: Arc<[f64]>,
    },
    /// A share, or a sum of shares, for one agent alone. Like a release it says that the sender has
    /// all of the exchange before, durably.
    Words {
        /// Agent number of the sender.
        from: u32,
        /// Agent number of the receiver.
        to: u32,
        /// Its exchange: two a round.
        round: u32,
        /// The words.
        words: Arc<[u64]>,
    },
    /// The sender's masked vector, with which a round begins; after the end only what the last round
    /// revealed.
    Masked {
        /// Agent number of the sender.
        from: u32,
        /// The number of the exchange.
        exchange: u32,
        /// The round.
        round: u32,
        /// Which exchange of the round.
        hop: u32,
        /// Who was given up, with the first round whose sum each is not in.
        gone: Vec<(u32, u32)>,
        /// What the round before revealed, where somebody may have missed it.
        before: Option<Arc<[f64]>>,
        /// Whose vectors, and their words.
        vectors: Vec<(u32, Arc<[u64]>)>,
    },
    /// Masked vectors of others that the sender has just heard of, each as its origin signed it.
    Passed {
        /// Agent number of the sender.
        from: u32,
        /// The number of the exchange.
        exchange: u32,
        /// The round.
        round: u32,
        /// Which exchange of the round, from 2.
        hop: u32,
        /// Who was given up, with the first round whose sum each is not in.
        gone: Vec<(u32, u32)>,
        /// The vectors.
        origins: Vec<Origin>,
    },
    /// The sender has all releases up to this round, durably.
    Ack {
        /// The round.
        round: u32,
    },
    /// The sender's signature under its release of this exchange, which follows. From version 2 on,
    /// as everything below.
    ReleaseSignature {
        /// The exchange.
        round: u32,
        /// The signature.
        signature: ReleaseSignature,
    },
    /// One hash over what the sender received in a round from the neighbours that both ends have in
    /// common.
    Heard {
        /// The round.
        round: u32,
        /// The hash.
        summary: Digest,
    },
    /// What the sender received in a round, with the signatures of those who sent it.
    Receipts {
        /// The round.
        round: u32,
        /// By site.
        all: Vec<SignedReceipt>,
    },
    /// The newest release of the receiver that the sender has, as the receiver signed it: what it
    /// says in its hello, proved.
    Yours {
        /// The exchange.
        round: u32,
        /// BLAKE3 of the bytes.
        blake3: Digest,
        /// The receiver's own signature.
        signature: ReleaseSignature,
    },
    /// The sender lost its state: what does the receiver have of it?
    Lost,
    /// A release of the receiver, which lost its state, as it sent and signed it; or nothing.
    ReturnedRelease {
        /// How many more follow.
        left: u8,
        /// The receiver's own signature and the bytes it signed.
        release: Option<(ReleaseSignature, Bytes)>,
    },
    /// A fresh X25519 key for the secret of this edge, and the proof of the one that the sender
    /// has; first on a link of a study whose neighbours share noise.
    EdgeKey {
        /// The key.
        public: [u8; 32],
        /// A hash of the secret that the sender has on disk.
        proof: Option<Digest>,
    },
    /// The sender has the secret on disk that both keys give.
    EdgeSame {
        /// A hash of it.
        proof: Digest,
    },
    /// How many agreements about who takes part hold at the sender, and the hash of the last.
    Agreed {
        /// The number of the last.
        number: u32,
        /// Its hash.
        hash: Digest,
    },
    /// The text of an agreement that holds at the sender, for a peer that has fewer.
    Agreement(String),
    /// The sender's experiment file, for a peer whose study is another one.
    Study(String),
    /// Both ends have everything: the edge is done. The last row of the sender's ledger, for the
    /// receiver's log.
    Farewell {
        /// The hash of the row.
        head: Digest,
    },
    /// The sender will not go on with this edge, and why.
    Refused(String),
    /// Both ends have everything: the edge is done.
    Bye,
}

/// A masked vector as the site whose it is said it: whoever passes it on can change nothing of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its public key (SubjectPublicKeyInfo), which must have its pin: who is no neighbour of its
    /// has never seen it.
    pub key: Bytes,
    /// Its signature under the frame.
    pub signature: ReleaseSignature,
    /// Its frame of the first exchange of the round.
    pub frame: Bytes,
}

/// What somebody received from a site, as that site signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedReceipt {
    /// The site.
    pub about: u32,
    /// BLAKE3 of what it sent.
    pub blake3: Digest,
    /// Its signature.
    pub signature: ReleaseSignature,
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// No bytes at all.
    #[error("an empty frame")]
    Empty,
    /// A kind nobody knows.
    #[error("a frame of the unknown kind {0}")]
    Kind(u8),
    /// A hello of another version.
    #[error(
        "protocol version {0}, and this study needs version {VERSION}: every release is signed, and what is passed on by its origin"
    )]
    Version(u16),
    /// Too short or too long for its kind.
    #[error("a frame of {found} bytes that should have {expected}")]
    Length {
        /// Bytes received.
        found: usize,
        /// Bytes of such a frame.
        expected: usize,
    },
    /// Agents that are not in ascending order.
    #[error("agent {0} is out of order")]
    Order(u32),
    /// A refusal that is not UTF-8 or too long.
    #[error("a refusal that is not a short text")]
    Text,
}

const HELLO: u8 = 1;
const RELEASE: u8 = 2;
const ACK: u8 = 3;
const REFUSED: u8 = 4;
const BYE: u8 = 5;
const WORDS: u8 = 6;
const RELEASE_SIGNATURE: u8 = 7;
const HEARD: u8 = 8;
const RECEIPTS: u8 = 9;
const YOURS: u8 = 10;
const STUDY: u8 = 11;
const FAREWELL: u8 = 12;
const LOST: u8 = 13;
const RETURNED_RELEASE: u8 = 14;
const EDGE_KEY: u8 = 15;
const EDGE_SAME: u8 = 16;
const MASKED: u8 = 17;
const AGREED: u8 = 18;
const AGREEMENT: u8 = 19;
const PASSED: u8 = 20;

const HELLO_LENGTH: usize = 1 + 2 + 32 + 32 + 4 + 4 + 4;
const RELEASE_HEAD: usize = 1 + 4 + 4 + 4;
const WORDS_HEAD: usize = RELEASE_HEAD + 4;
const MASKED_HEAD: usize = 1 + 8 * 4;
const PASSED_HEAD: usize = 1 + 6 * 4;

/// Longest public key that is passed on: RSA of 8192 bits.
const MAX_KEY: usize = 1100;

/// What a release has in front of it when it is given back to its sender.
const KEPT_HEAD: usize = 1 + 1 + 4 + MAX_SIGNATURE;

/// Longest text of an experiment that is sent to a peer with another one.
const MAX_STUDY: usize = 16 << 10;

/// The longest frame of a model of `dim` numbers.
#[must_use]
pub fn longest(dim: usize) -> usize {
    (WORDS_HEAD + 8 * dim + KEPT_HEAD).max(HELLO_LENGTH).max(1 + MAX_REASON).max(1 + MAX_STUDY)
}

/// The longest frame of a link: texts of agreements are as long as they have signatures.
#[must_use]
pub fn longest_on_link(dim: usize) -> usize {
    longest(dim).max(1 + crate::agreement::LONGEST)
}

/// The bytes of a release: what is hashed, made durable and sent, again and again the same.
#[must_use]
pub fn release(from: u32, round: u32, values: &[f64]) -> Bytes {
    let mut bytes = vec![0; RELEASE_HEAD + 8 * values.len()];
    bytes[0] = RELEASE;
    for (place, number) in bytes[1..].chunks_mut(4).zip([from, round, values.len() as u32]) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    for (place, value) in bytes[RELEASE_HEAD..].as_chunks_mut().0.iter_mut().zip(values) {
        *place = value.to_le_bytes();
    }
    bytes.into()
}

/// The bytes of words for one agent alone.
#[must_use]
pub fn words(from: u32, to: u32, round: u32, words: &[u64]) -> Bytes {
    let mut bytes = vec![0; WORDS_HEAD + 8 * words.len()];
    bytes[0] = WORDS;
    for (place, number) in bytes[1..].chunks_mut(4).zip([from, to, round, words.len() as u32]) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    for (place, word) in bytes[WORDS_HEAD..].as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    bytes.into()
}

/// The longest frame of masked vectors among so many agents, as a number of 8 bytes each.
#[must_use]
pub fn longest_masked(dim: usize, agents: usize) -> usize {
    // Everybody's first frame, with a mean and all who can be given up, its key and its signature.
    let one = MASKED_HEAD + 8 * (2 * dim + agents) + MAX_KEY + MAX_SIGNATURE + 16;
    (PASSED_HEAD + 8 * agents + agents * one).div_ceil(8)
}

/// The bytes of masked vectors.
#[must_use]
pub fn masked(exchange: u32, message: &MaskedMessage) -> Bytes {
    let (label, before) = (message.label(), message.before().unwrap_or_default());
    let dim = message.vectors().first().map_or(before.len(), |v| v.1.len());
    let heads = [
        message.from(),
        exchange,
        label.round().0,
        message.hop(),
        dim as u32,
        label.dropped().len() as u32,
        u32::from(message.before().is_some()),
        message.vectors().len() as u32,
    ];
    let mut bytes = vec![MASKED];
    heads.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    for (agent, since) in label.dropped().iter().zip(message.since()) {
        bytes.extend_from_slice(&agent.to_le_bytes());
        bytes.extend_from_slice(&since.0.to_le_bytes());
    }
    before.iter().for_each(|x| bytes.extend_from_slice(&x.to_le_bytes()));
    for (whose, words) in message.vectors() {
        bytes.extend_from_slice(&whose.to_le_bytes());
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
    }
    bytes.into()
}

/// Reads what [`masked`] wrote, after its kind.
fn unmasked(rest: &[u8]) -> Result<Frame, FrameError> {
    let (head, rest) = take(rest, MASKED_HEAD - 1)?;
    let at = |index: usize| number(&head[4 * index..]);
    let [dim, dropped, before, vectors] = [4, 5, 6, 7].map(|index| at(index) as usize);
    if before > 1 || (dim > 0 && before == 0 && vectors == 0) {
        return Err(FrameError::Length { found: before, expected: 1 });
    }
    // What stands in the head must fit what is there before any of it is believed.
    let one = dim.saturating_mul(8);
    let expected = dropped.saturating_mul(8).saturating_add(before * one);
    let expected = expected.saturating_add(vectors.saturating_mul(one.saturating_add(4)));
    if rest.len() != expected {
        return Err(FrameError::Length { found: rest.len(), expected });
    }
    let (gone, rest) = take(rest, 8 * dropped)?;
    let gone = given_up(gone)?;
    let (mean, mut rest) = take(rest, before * one)?;
    let mean = mean.as_chunks().0.iter().map(|x| f64::from_le_bytes(*x)).collect();
    let mut all = Vec::new();
    for _ in 0..vectors {
        let (whose, more) = take(rest, 4)?;
        let (words, more) = take(more, one)?;
        rest = more;
        let words = words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        all.push((number(whose), words));
    }
    Ok(Frame::Masked {
        from: at(0),
        exchange: at(1),
        round: at(2),
        hop: at(3),
        gone,
        before: (before == 1).then_some(mean),
        vectors: all,
    })
}

/// Reads a frame of kind [`PASSED`], after its kind.
fn passed(rest: &[u8]) -> Result<Frame, FrameError> {
    let (head, rest) = take(rest, PASSED_HEAD - 1)?;
    let at = |index: usize| number(&head[4 * index..]);
    let (dropped, count) = (at(4) as usize, at(5) as usize);
    let (gone, mut rest) = take(rest, dropped.saturating_mul(8))?;
    let gone = given_up(gone)?;
    let mut origins = Vec::new();
    for _ in 0..count {
        let (length, more) = take(rest, 2)?;
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        if length > MAX_KEY {
            return Err(FrameError::Length { found: length, expected: MAX_KEY });
        }
        let (key, mut more) = take(more, length)?;
        let signature = take_signature(&mut more)?;
        let (length, more) = take(more, 4)?;
        let (frame, more) = take(more, number(length) as usize)?;
        rest = more;
        let (key, frame) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(frame));
        origins.push(Origin { key, signature, frame });
    }
    ended(rest)?;
    Ok(Frame::Passed { from: at(0), exchange: at(1), round: at(2), hop: at(3), gone, origins })
}

/// Agents that were given up, with the first round whose sum each is not in.
fn given_up(bytes: &[u8]) -> Result<Vec<(u32, u32)>, FrameError> {
    let gone: Vec<(u32, u32)> =
        bytes.as_chunks::<8>().0.iter().map(|pair| (number(pair), number(&pair[4..]))).collect();
    match gone.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
        Some(pair) => Err(FrameError::Order(pair[1].0)),
        None => Ok(gone),
    }
}

/// For whom words are; `None` for anything else.
#[must_use]
pub fn receiver(bytes: &[u8]) -> Option<u32> {
    match Frame::decode(bytes) {
        Ok(Frame::Words { to, .. }) => Some(to),
        _ => None,
    }
}

impl Frame {
    /// The bytes on the wire.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        match self {
            Self::Hello(hello) => {
                let mut bytes = vec![HELLO];
                bytes.extend_from_slice(&hello.version.to_le_bytes());
                bytes.extend_from_slice(&hello.experiment);
                bytes.extend_from_slice(&hello.graph);
                for number in [hello.from, hello.to, hello.have] {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
                bytes.into()
            }
            Self::Release { from, round, values } => release(*from, *round, values),
            Self::Words { from, to, round, words: all } => words(*from, *to, *round, all),
            Self::Masked { from, exchange, round, hop, gone, before, vectors } => {
                let label = MaskLabel::new(Round(*round), gone.iter().map(|g| g.0));
                let since = gone.iter().map(|g| Round(g.1)).collect();
                let (before, vectors) = (before.clone(), vectors.clone());
                masked(
                    *exchange,
                    &MaskedMessage::received(*from, label, since, *hop, before, vectors),
                )
            }
            Self::Passed { from, exchange, round, hop, gone, origins } => {
                let mut bytes = vec![PASSED];
                let counts = [gone.len() as u32, origins.len() as u32];
                for number in [*from, *exchange, *round, *hop].iter().chain(&counts) {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
                for number in gone.iter().flat_map(|(agent, since)| [agent, since]) {
                    bytes.extend_from_slice(&number.to_le_bytes());
                }
                for Origin { key, signature, frame } in origins {
                    bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
                    bytes.extend_from_slice(key);
                    put_signature(&mut bytes, signature);
                    bytes.extend_from_slice(&(frame.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(frame);
                }
                bytes.into()
            }
            Self::Ack { round } => [&[ACK][..], &round.to_le_bytes()].concat().into(),
            Self::Refused(reason) => {
                let mut end = reason.len().min(MAX_REASON);
                while !reason.is_char_boundary(end) {
                    end -= 1;
                }
                [&[REFUSED], &reason.as_bytes()[..end]].concat().into()
            }
            Self::Bye => Bytes::from_static(&[BYE]),
            Self::ReleaseSignature { round, signature } => {
                let mut bytes = vec![RELEASE_SIGNATURE];
                bytes.extend_from_slice(&round.to_le_bytes());
                put_signature(&mut bytes, signature);
                bytes.into()
            }
            Self::Heard { round, summary } => {
                [&[HEARD][..], &round.to_le_bytes(), summary].concat().into()
            }
            Self::Receipts { round, all } => {
                let mut bytes = vec![RECEIPTS];
                bytes.extend_from_slice(&round.to_le_bytes());
                for told in all {
                    bytes.extend_from_slice(&told.about.to_le_bytes());
                    bytes.extend_from_slice(&told.blake3);
                    put_signature(&mut bytes, &told.signature);
                }
                bytes.into()
            }
            Self::Yours { round, blake3, signature } => {
                let mut bytes = [&[YOURS][..], &round.to_le_bytes(), blake3].concat();
                put_signature(&mut bytes, signature);
                bytes.into()
            }
            Self::Study(text) => {
                let mut end = text.len().min(MAX_STUDY);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                [&[STUDY], &text.as_bytes()[..end]].concat().into()
            }
            Self::Agreed { number, hash } => {
                [&[AGREED][..], &number.to_le_bytes(), hash].concat().into()
            }
            Self::Agreement(text) => [&[AGREEMENT], text.as_bytes()].concat().into(),
            Self::Farewell { head } => [&[FAREWELL][..], head].concat().into(),
            Self::Lost => Bytes::from_static(&[LOST]),
            Self::EdgeKey { public, proof } => {
                [&[EDGE_KEY][..], public, proof.as_ref().map_or(&[][..], |p| p)].concat().into()
            }
            Self::EdgeSame { proof } => [&[EDGE_SAME][..], proof].concat().into(),
            Self::ReturnedRelease { left, release } => {
                let mut bytes = vec![RETURNED_RELEASE, *left];
                if let Some((signature, release)) = release {
                    put_signature(&mut bytes, signature);
                    bytes.extend_from_slice(release);
                }
                bytes.into()
            }
        }
    }

    /// Reads a frame. Allocates no more than the bytes that are really there.
    ///
    /// # Errors
    /// Anything that [`encode`](Self::encode) would not have written.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let (&kind, rest) = bytes.split_first().ok_or(FrameError::Empty)?;
        let exactly = |expected: usize| {
            let found = bytes.len();
            if found == expected { Ok(()) } else { Err(FrameError::Length { found, expected }) }
        };
        match kind {
            HELLO => hello(bytes),
            RELEASE => {
                let (head, numbers) = numbers(rest, 8)?;
                let values = numbers.iter().map(|chunk| f64::from_le_bytes(*chunk)).collect();
                Ok(Self::Release { from: number(head), round: number(&head[4..]), values })
            }
            WORDS => {
                let (head, numbers) = numbers(rest, 12)?;
                let words = numbers.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect();
                Ok(Self::Words {
                    from: number(head),
                    to: number(&head[4..]),
                    round: number(&head[8..]),
                    words,
                })
            }
            MASKED => unmasked(rest),
            PASSED => passed(rest),
            ACK => exactly(5).map(|()| Self::Ack { round: number(rest) }),
            REFUSED => text(rest, MAX_REASON).map(Self::Refused),
            BYE => exactly(1).map(|()| Self::Bye),
            RELEASE_SIGNATURE => {
                let (round, mut rest) = take(rest, 4)?;
                let signature = take_signature(&mut rest)?;
                ended(rest)?;
                Ok(Self::ReleaseSignature { round: number(round), signature })
            }
            HEARD => {
                exactly(37)?;
                Ok(Self::Heard { round: number(rest), summary: digest(&rest[4..]) })
            }
            RECEIPTS => {
                let (round, mut rest) = take(rest, 4)?;
                let mut all = Vec::new();
                while !rest.is_empty() {
                    let (head, more) = take(rest, 36)?;
                    rest = more;
                    let signature = take_signature(&mut rest)?;
                    all.push(SignedReceipt {
                        about: number(head),
                        blake3: digest(&head[4..]),
                        signature,
                    });
                }
                Ok(Self::Receipts { round: number(round), all })
            }
            YOURS => {
                let (head, mut rest) = take(rest, 36)?;
                let signature = take_signature(&mut rest)?;
                ended(rest)?;
                Ok(Self::Yours { round: number(head), blake3: digest(&head[4..]), signature })
            }
            STUDY => text(rest, MAX_STUDY).map(Self::Study),
            AGREED => exactly(37)
                .map(|()| Self::Agreed { number: number(rest), hash: digest(&rest[4..]) }),
            AGREEMENT => text(rest, crate::agreement::LONGEST).map(Self::Agreement),
            FAREWELL => exactly(33).map(|()| Self::Farewell { head: digest(rest) }),
            LOST => exactly(1).map(|()| Self::Lost),
            EDGE_KEY if rest.len() == 64 => {
                Ok(Self::EdgeKey { public: digest(rest), proof: Some(digest(&rest[32..])) })
            }
            EDGE_KEY => exactly(33).map(|()| Self::EdgeKey { public: digest(rest), proof: None }),
            EDGE_SAME => exactly(33).map(|()| Self::EdgeSame { proof: digest(rest) }),
            RETURNED_RELEASE => {
                let (head, mut rest) = take(rest, 1)?;
                let left = head[0];
                if rest.is_empty() {
                    return Ok(Self::ReturnedRelease { left, release: None });
                }
                let signature = take_signature(&mut rest)?;
                if rest.is_empty() {
                    return Err(FrameError::Empty);
                }
                Ok(Self::ReturnedRelease {
                    left,
                    release: Some((signature, Bytes::copy_from_slice(rest))),
                })
            }
            _ => Err(FrameError::Kind(kind)),
        }
    }
}

/// Reads a hello; another version is told apart whatever follows it.
fn hello(bytes: &[u8]) -> Result<Frame, FrameError> {
    let length = FrameError::Length { found: bytes.len(), expected: HELLO_LENGTH };
    let rest = &bytes[1..];
    let Some(version) = rest.first_chunk() else { return Err(length) };
    let version = u16::from_le_bytes(*version);
    if version != VERSION {
        return Err(FrameError::Version(version));
    }
    if bytes.len() != HELLO_LENGTH {
        return Err(length);
    }
    Ok(Frame::Hello(Hello {
        version,
        experiment: digest(&rest[2..]),
        graph: digest(&rest[34..]),
        from: number(&rest[66..]),
        to: number(&rest[70..]),
        have: number(&rest[74..]),
    }))
}

/// A head of so many bytes, and as many numbers of eight bytes as stand between the two: no more
/// and no fewer.
fn numbers(rest: &[u8], head: usize) -> Result<(&[u8], &[[u8; 8]]), FrameError> {
    // Lengths are those of the frame with its kind.
    let length = |expected| FrameError::Length { found: 1 + rest.len(), expected };
    let least = 1 + head + 4;
    let Some(count) = rest.get(head..head + 4) else { return Err(length(least)) };
    let expected = least.saturating_add((number(count) as usize).saturating_mul(8));
    if 1 + rest.len() != expected {
        return Err(length(expected));
    }
    Ok((&rest[..head], rest[head + 4..].as_chunks().0))
}

/// A text of at most so many bytes.
fn text(bytes: &[u8], most: usize) -> Result<String, FrameError> {
    if bytes.len() > most {
        return Err(FrameError::Text);
    }
    Ok(std::str::from_utf8(bytes).map_err(|_| FrameError::Text)?.to_owned())
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("the length was checked"))
}

fn digest(bytes: &[u8]) -> Digest {
    *bytes.first_chunk().expect("the length was checked")
}

/// The first `count` bytes and the rest.
fn take(bytes: &[u8], count: usize) -> Result<(&[u8], &[u8]), FrameError> {
    bytes.split_at_checked(count).ok_or(FrameError::Length { found: bytes.len(), expected: count })
}

fn ended(rest: &[u8]) -> Result<(), FrameError> {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(FrameError::Length { found: rest.len(), expected: 0 })
    }
}

fn put_signature(bytes: &mut Vec<u8>, signature: &ReleaseSignature) {
    bytes.extend_from_slice(&signature.scheme.to_le_bytes());
    bytes.extend_from_slice(&(signature.bytes.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&signature.bytes);
}

fn take_signature(rest: &mut &[u8]) -> Result<ReleaseSignature, FrameError> {
    let (head, more) = take(rest, 4)?;
    let length = usize::from(u16::from_le_bytes([head[2], head[3]]));
    if length > MAX_SIGNATURE {
        return Err(FrameError::Length { found: length, expected: MAX_SIGNATURE });
    }
    let (signature, more) = take(more, length)?;
    *rest = more;
    let scheme = u16::from_le_bytes([head[0], head[1]]);
    Ok(ReleaseSignature { scheme, bytes: Bytes::copy_from_slice(signature) })
}

/// A digest in hexadecimal, for people and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Bytes from hexadecimal; `None` for anything else.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let pair = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok();
    digits.chunks(2).map(pair).collect()
}

/// BLAKE3 of a message: a model of a million numbers is 8 MB, every round, at both ends, and
/// SHA-256 takes four times as long.
#[must_use]
pub fn blake3(bytes: &[u8]) -> Digest {
    *::blake3::hash(bytes).as_bytes()
}

/// The hash that a release is signed, logged and charged by: BLAKE3 of its bytes; for vectors that are
/// passed on, of the frame without keys and signatures, which a device may make anew each time, so
/// that the same seed has the same hashes.
#[must_use]
pub fn release_hash(bytes: &[u8]) -> Digest {
    let Some(Ok(Frame::Passed { from, exchange, round, hop, gone, mut origins })) =
        (bytes.first() == Some(&PASSED)).then(|| Frame::decode(bytes))
    else {
        return blake3(bytes);
    };
    for origin in &mut origins {
        origin.key.clear();
        origin.signature = ReleaseSignature { scheme: 0, bytes: Bytes::new() };
    }
    blake3(&Frame::Passed { from, exchange, round, hop, gone, origins }.encode())
}

/// SHA-256.
#[must_use]
pub fn sha256(parts: &[&[u8]]) -> Digest {
    let mut context = ring::digest::Context::new(&ring::digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let hello = (any::<Digest>(), any::<Digest>(), any::<[u32; 3]>()).prop_map(
            |(experiment, graph, n)| {
                Frame::Hello(Hello {
                    version: VERSION,
                    experiment,
                    graph,
                    from: n[0],
                    to: n[1],
                    have: n[2],
                })
            },
        );
        let values = prop::collection::vec(prop::num::f64::NORMAL | prop::num::f64::ZERO, 0..40);
        let release = (any::<u32>(), any::<u32>(), values).prop_map(|(from, round, values)| {
            Frame::Release { from, round, values: values.into() }
        });
        let words = (any::<[u32; 3]>(), prop::collection::vec(any::<u64>(), 0..40)).prop_map(
            |(n, words)| Frame::Words { from: n[0], to: n[1], round: n[2], words: words.into() },
        );
        let masked = (any::<[u32; 4]>(), 0usize..3, 0usize..3, any::<bool>(), any::<u64>())
            .prop_map(|([from, exchange, round, hop], gone, vectors, before, word)| {
                Frame::Masked {
                    from,
                    exchange,
                    round,
                    hop,
                    gone: (0..gone as u32).map(|agent| (agent, round)).collect(),
                    before: before.then(|| [0.5, -1.0].into()),
                    vectors: (0..vectors as u32).map(|whose| (whose, [word, 3].into())).collect(),
                }
            });
        let signature = || {
            (any::<u16>(), prop::collection::vec(any::<u8>(), 0..100))
                .prop_map(|(scheme, bytes)| ReleaseSignature { scheme, bytes: bytes.into() })
        };
        let origin = (prop::collection::vec(any::<u8>(), 0..60), signature(), "[ -~]{0,80}")
            .prop_map(|(key, signature, frame)| Origin {
                key: key.into(),
                signature,
                frame: frame.into(),
            });
        let passed = (any::<[u32; 4]>(), 0usize..3, prop::collection::vec(origin, 0..4)).prop_map(
            |([from, exchange, round, hop], gone, origins)| {
                let gone = (0..gone as u32).map(|agent| (agent, round)).collect();
                Frame::Passed { from, exchange, round, hop, gone, origins }
            },
        );
        let told = (any::<u32>(), any::<Digest>(), signature())
            .prop_map(|(about, blake3, signature)| SignedReceipt { about, blake3, signature });
        prop_oneof![
            (any::<u32>(), signature())
                .prop_map(|(round, signature)| Frame::ReleaseSignature { round, signature }),
            (any::<u32>(), any::<Digest>())
                .prop_map(|(round, summary)| Frame::Heard { round, summary }),
            (any::<u32>(), prop::collection::vec(told, 0..5))
                .prop_map(|(round, all)| Frame::Receipts { round, all }),
            (any::<u32>(), any::<Digest>(), signature())
                .prop_map(|(round, blake3, signature)| Frame::Yours { round, blake3, signature }),
            "[ -~é]{0,150}".prop_map(Frame::Study),
            any::<Digest>().prop_map(|head| Frame::Farewell { head }),
            any::<(Digest, Option<Digest>)>()
                .prop_map(|(public, proof)| Frame::EdgeKey { public, proof }),
            any::<Digest>().prop_map(|proof| Frame::EdgeSame { proof }),
            hello,
            release,
            words,
            masked,
            passed,
            any::<u32>().prop_map(|round| Frame::Ack { round }),
            "[ -~é]{0,150}".prop_map(Frame::Refused),
            Just(Frame::Bye),
        ]
    }

    /// docs/protocol.md is what other implementations are written from.
    #[test]
    fn golden_bytes_are_those_of_the_documentation() {
        let text = include_str!("../../../docs/protocol.md");
        let signature = || ReleaseSignature { scheme: 0x0403, bytes: vec![0xaa, 0xbb].into() };
        let hello = |version| Hello {
            version,
            experiment: [0x11; 32],
            graph: [0x22; 32],
            from: 1,
            to: 2,
            have: 7,
        };
        let told = SignedReceipt { about: 2, blake3: [0x44; 32], signature: signature() };
        let said = crate::release_signature::ReleaseStatement {
            study: [0x11; 32],
            from: 1,
            to: None,
            round: 3,
            blake3: [0x44; 32],
        };
        let frames = [
            ("hello", Frame::Hello(hello(VERSION))),
            ("release", Frame::Release { from: 1, round: 3, values: [1.5, -0.25].into() }),
            ("words", Frame::Words { from: 1, to: 2, round: 3, words: [5, u64::MAX].into() }),
            (
                "masked",
                Frame::Masked {
                    from: 1,
                    exchange: 9,
                    round: 4,
                    hop: 1,
                    gone: vec![(2, 3)],
                    before: Some([0.5].into()),
                    vectors: vec![(1, [7].into())],
                },
            ),
            (
                "passed",
                Frame::Passed {
                    from: 1,
                    exchange: 2,
                    round: 1,
                    hop: 2,
                    gone: vec![(3, 1)],
                    origins: vec![Origin {
                        key: vec![0xcc, 0xdd].into(),
                        signature: signature(),
                        frame: vec![17, 0x99].into(),
                    }],
                },
            ),
            ("ack", Frame::Ack { round: 7 }),
            ("refused", Frame::Refused("no".into())),
            ("bye", Frame::Bye),
            ("release-signature", Frame::ReleaseSignature { round: 3, signature: signature() }),
            ("heard", Frame::Heard { round: 3, summary: [0x33; 32] }),
            ("receipts", Frame::Receipts { round: 3, all: vec![told] }),
            ("yours", Frame::Yours { round: 3, blake3: [0x44; 32], signature: signature() }),
            ("study", Frame::Study("name".into())),
            ("farewell", Frame::Farewell { head: [0x55; 32] }),
            ("lost", Frame::Lost),
            (
                "returned-release",
                Frame::ReturnedRelease {
                    left: 1,
                    release: Some((signature(), release(1, 3, &[1.5]))),
                },
            ),
            ("returned-release-nothing", Frame::ReturnedRelease { left: 0, release: None }),
            ("edge-key", Frame::EdgeKey { public: [0x66; 32], proof: None }),
            ("edge-key-known", Frame::EdgeKey { public: [0x66; 32], proof: Some([0x77; 32]) }),
            ("edge-same", Frame::EdgeSame { proof: [0x77; 32] }),
            ("agreed", Frame::Agreed { number: 2, hash: [0x88; 32] }),
            ("agreement", Frame::Agreement("consenso".into())),
        ];
        let mut expected: Vec<(String, String)> = frames
            .iter()
            .map(|(name, frame)| ((*name).to_owned(), Hex(&frame.encode()).to_string()))
            .collect();
        expected.push(("statement".into(), Hex(&said.bytes()).to_string()));
        let edge = crate::agreement::Change::Edge { one: "a".into(), other: "c".into(), from: 120 };
        let agreement = crate::agreement::Agreement::next([0x11; 32], &[], edge);
        let lines = text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        assert!(lines.contains(agreement.body().trim_end()), "{}", agreement.body());
        expected.push(("agreement-hash".into(), Hex(&agreement.hash()).to_string()));
        let mut found: Vec<(String, String)> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("golden "))
            .filter_map(|line| line.split_once(' '))
            .map(|(name, hex)| (name.to_owned(), hex.to_owned()))
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        for (_, frame) in frames {
            assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }
    }

    /// What a neighbour can send, and why an agent stops, is on one page with what it can do to the
    /// noise of others: a new kind of frame or reason does not compile here before it is there.
    #[test]
    fn the_page_about_neighbours_names_every_frame_and_every_reason_to_stop() {
        use consenso_engine::gate::StopReason;
        let page = include_str!("../../../docs/what-a-neighbour-can-do.md");
        let of = |frame: &Frame| match frame {
            Frame::Hello(_) => "Hello",
            Frame::Release { .. } => "Release",
            Frame::Words { .. } => "Words",
            Frame::Masked { .. } => "Masked",
            Frame::Passed { .. } => "Passed",
            Frame::Ack { .. } => "Ack",
            Frame::ReleaseSignature { .. } => "ReleaseSignature",
            Frame::Heard { .. } => "Heard",
            Frame::Receipts { .. } => "Receipts",
            Frame::Yours { .. } => "Yours",
            Frame::Lost => "Lost",
            Frame::ReturnedRelease { .. } => "ReturnedRelease",
            Frame::EdgeKey { .. } => "EdgeKey",
            Frame::EdgeSame { .. } => "EdgeSame",
            Frame::Agreed { .. } => "Agreed",
            Frame::Agreement(_) => "Agreement",
            Frame::Study(_) => "Study",
            Frame::Farewell { .. } => "Farewell",
            Frame::Refused(_) => "Refused",
            Frame::Bye => "Bye",
        };
        let golden = include_str!("../../../docs/protocol.md").lines().filter_map(|line| {
            let (_, hex) = line.trim().strip_prefix("golden ")?.split_once(' ')?;
            Frame::decode(&unhex(hex)?).ok()
        });
        let mut named: Vec<&str> = golden.map(|frame| of(&frame)).collect();
        named.sort_unstable();
        named.dedup();
        assert_eq!(named.len(), 20, "golden bytes of every frame: {named:?}");
        let why = |reason: StopReason| match reason {
            StopReason::Finished => "Finished",
            StopReason::BudgetSpent => "BudgetSpent",
            StopReason::OutOfRange => "OutOfRange",
            StopReason::Interrupted => "Interrupted",
        };
        let reasons = [
            StopReason::Finished,
            StopReason::BudgetSpent,
            StopReason::OutOfRange,
            StopReason::Interrupted,
        ];
        named.extend(reasons.map(why));
        for name in named {
            assert!(page.contains(&format!("`{name}`")), "{name} is not on the page");
        }
    }

    /// What fuzzing found worth keeping holds in every build.
    #[test]
    fn inputs_that_fuzzing_kept_are_errors_or_frames_and_agreements() {
        let corpus = |target: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/");
            let files = std::fs::read_dir(format!("{folder}{target}")).expect("a corpus");
            files.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>()
        };
        let (frames, agreements) = (corpus("frames"), corpus("agreements"));
        assert!(frames.len() > 30 && agreements.len() > 30);
        for bytes in frames {
            if let Ok(frame) = Frame::decode(&bytes) {
                assert_eq!(frame.encode(), bytes);
            }
        }
        for text in agreements.iter().filter_map(|bytes| std::str::from_utf8(bytes).ok()) {
            use crate::agreement::Agreement;
            if let Ok(read) = Agreement::parse(text) {
                let again = Agreement::parse(&read.to_string()).expect("its own text");
                assert_eq!((again.hash(), again.to_string()), (read.hash(), read.to_string()));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_frame_survives_the_wire(frame in frames()) {
            prop_assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }

        #[test]
        fn what_decodes_is_exactly_what_was_encoded(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u8..22) {
            if let Some(first) = bytes.first_mut() {
                *first = kind;
            }
            if let Ok(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }

        #[test]
        fn a_bent_frame_is_an_error_or_another_frame_never_a_panic(frame in frames(), at in any::<prop::sample::Index>(), byte: u8, cut in 0usize..4) {
            let mut bytes = frame.encode().to_vec();
            let place = at.index(bytes.len());
            bytes[place] = byte;
            bytes.truncate(bytes.len().saturating_sub(cut));
            if let Ok(other) = Frame::decode(&bytes) {
                prop_assert_eq!(other.encode(), bytes);
            }
        }
    }

    /// Random bytes and bent frames in turn: each is an error or exactly the frame that would be
    /// written so, and nothing is kept of it.
    fn random_frames(count: u32) {
        use consenso_engine::random::{Purpose, Seed};
        use rand::{Rng as _, RngExt as _};
        let mut chance = Seed::from(5).stream(Purpose::Network, 0, 0);
        let hello = Hello {
            version: VERSION,
            experiment: [3; 32],
            graph: [7; 32],
            from: 1,
            to: 2,
            have: 3,
        };
        let whole = [
            Frame::Hello(hello).encode(),
            release(1, 2, &[0.5; 30]),
            Frame::Ack { round: 9 }.encode(),
            Frame::Refused("because é".into()).encode(),
            Frame::Bye.encode(),
        ];
        let before = peak_kilobytes();
        for n in 0..count {
            let mut bytes = vec![0; chance.random_range(0..300)];
            chance.fill_bytes(&mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first %= 8;
            }
            if n % 2 == 1 {
                let mut bent = whole[chance.random_range(0..whole.len())].to_vec();
                for _ in 0..chance.random_range(1..4) {
                    let place = chance.random_range(0..bent.len());
                    bent[place] = chance.random();
                }
                bent.truncate(bent.len() - chance.random_range(0..3).min(bent.len()));
                bytes.truncate(chance.random_range(0..4));
                bent.append(&mut bytes);
                bytes = bent;
            }
            if let Ok(frame) = Frame::decode(&bytes) {
                assert_eq!(frame.encode(), bytes);
            }
        }
        assert!(
            peak_kilobytes() - before < 16 << 10,
            "{} kB more at the peak",
            peak_kilobytes() - before
        );
    }

    /// The most memory this process ever had; 0 where the system does not say.
    fn peak_kilobytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
    }

    /// Runs a test in a process of its own, where nobody else's memory is counted; true in that
    /// process.
    fn alone(test: &str) -> bool {
        if std::env::var_os("CONSENSO_ALONE").is_some() {
            return true;
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "--include-ignored", test]).env("CONSENSO_ALONE", "1");
        let said = String::from_utf8(child.output().unwrap().stdout).unwrap();
        assert!(said.contains("1 passed; 0 failed"), "{said}");
        false
    }

    #[test]
    fn random_and_bent_frames_are_errors_or_frames() {
        if alone("frame::tests::random_and_bent_frames_are_errors_or_frames") {
            random_frames(20_000);
        }
    }

    #[test]
    #[ignore = "cargo xtask soak"]
    fn a_million_random_and_bent_frames_are_errors_or_frames() {
        if alone("frame::tests::a_million_random_and_bent_frames_are_errors_or_frames") {
            random_frames(1_000_000);
        }
    }

    #[test]
    fn a_release_cannot_announce_more_than_it_carries() {
        let mut bytes = release(1, 2, &[3.0]).to_vec();
        bytes[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(Frame::decode(&bytes), Err(FrameError::Length { .. })));
        let mut bytes = words(1, 0, 2, &[3]).to_vec();
        assert_eq!(receiver(&bytes), Some(0));
        bytes[13..17].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(Frame::decode(&bytes), Err(FrameError::Length { .. })));
        assert_eq!(receiver(&bytes), None);
    }

    #[test]
    fn another_version_is_told_apart_whatever_follows() {
        assert_eq!(Frame::decode(&[HELLO, 9, 0]), Err(FrameError::Version(9)));
        assert_eq!(Frame::decode(&[HELLO, 9, 0, 1, 2, 3]), Err(FrameError::Version(9)));
    }

    #[test]
    fn hexadecimal_there_and_back() {
        assert_eq!(unhex(&Hex(&[0, 255, 16]).to_string()), Some(vec![0, 255, 16]));
        assert_eq!(unhex("0g"), None);
        assert_eq!(unhex("123"), None);
    }

    #[test]
    fn hashes_of_the_standards() {
        let want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Hex(&sha256(&[b"a", b"bc"])).to_string(), want);
        // Of "abc", by the reference implementation (b3sum).
        let want = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
        assert_eq!(Hex(&blake3(b"abc")).to_string(), want);
    }
}
