//! A site that lies: it runs like any other, and says something else now and then. What it says is
//! drawn from the seed, out of a vocabulary that has lies for every frame there is.

use super::SITES;
use crate::frame::{self, Frame, Hello, SignedReceipt};
use crate::lying_peers::Actor;
use crate::release_signature::ReleaseSignature;
use bytes::Bytes;
use consenso_engine::random::{Purpose, Seed, Stream};
use rand::RngExt as _;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// A kind of lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lie {
    // ---- of releases, shares and masked vectors, signed by the liar
    /// One neighbour is told something else.
    TwoFaced,
    /// Numbers beyond the range, or none at all.
    Large,
    /// Of an exchange that it cannot be in.
    OtherExchange,
    /// In the name of another site.
    OtherSender,
    /// Two versions, one after the other.
    Twice,
    /// Nothing.
    Withheld,
    /// Numbers more, or fewer.
    OtherLength,
    /// Under masks: somebody was given up, maybe the receiver, maybe too many.
    GivesUp,
    /// Under masks: the round before revealed something else.
    OtherMean,
    /// Under masks: the vector of somebody else, as it is passed on.
    OthersVector,
    // ---- of everything else
    /// A signature that is none, or none.
    Signature,
    /// It has what was never sent, or has forgotten all.
    Have,
    /// An earlier version, another study, another edge.
    OtherHello,
    /// It has everything already, or is done.
    Over,
    /// A reason to leave, in words that a terminal would obey.
    Refuses,
    /// Others sent it something else.
    Slander,
    /// The receiver released more than it knows of.
    Reminds,
    /// It lost its disk; or here is what the receiver lost.
    Lost,
    /// More agreements hold, or another one, or one with lines of its own.
    Agreement,
    /// Keys of an edge, and proofs of them.
    EdgeKeys,
    /// Bytes that are no frame.
    Rubbish,
    /// One message again and again, very often.
    Flood,
    // ---- what came later
    /// Something else for everybody, and no signature under it.
    Unsigned,
    /// What others truly signed, in the place of something else: of another exchange, as another
    /// site's, as its own.
    Replays,
    /// Its next release before its last one.
    Reorders,
    /// It is there, and says nothing for a while.
    Stalls,
    /// An agreement under another number, or long before it is its turn.
    LaterAgreement,
}

/// So many words there were when the seeds were found that are kept.
pub(super) const FIRST_WORDS: usize = 22;

pub(super) const LIES: [Lie; 27] = [
    Lie::TwoFaced,
    Lie::Large,
    Lie::OtherExchange,
    Lie::OtherSender,
    Lie::Twice,
    Lie::Withheld,
    Lie::OtherLength,
    Lie::GivesUp,
    Lie::OtherMean,
    Lie::OthersVector,
    Lie::Signature,
    Lie::Have,
    Lie::OtherHello,
    Lie::Over,
    Lie::Refuses,
    Lie::Slander,
    Lie::Reminds,
    Lie::Lost,
    Lie::Agreement,
    Lie::EdgeKeys,
    Lie::Rubbish,
    Lie::Flood,
    Lie::Unsigned,
    Lie::Replays,
    Lie::Reorders,
    Lie::Stalls,
    Lie::LaterAgreement,
];

/// Something that another site signed: who, for whom if for one alone, in which exchange.
#[derive(Clone, Debug)]
struct Overheard {
    about: u32,
    to: Option<u32>,
    round: u32,
    bytes: Bytes,
    signature: ReleaseSignature,
}

/// What a liar remembers to lie with.
#[derive(Debug, Default)]
struct Notes {
    /// The signature that a neighbour sent last.
    signatures: BTreeMap<u32, ReleaseSignature>,
    overheard: VecDeque<Overheard>,
    /// Releases that are held back, by receiver.
    held_back: BTreeMap<u32, Frame>,
    /// Exchanges whose signature is to be none, by receiver.
    unsigned: BTreeSet<(u32, u32)>,
    /// Frames that will not leave, by receiver.
    swallowed: BTreeMap<u32, u64>,
}

/// Signatures of others that are remembered.
const OVERHEARD: usize = 24;

/// Some lies, how often each is told, and from which exchange on.
#[derive(Debug)]
pub(super) struct Liar {
    me: u32,
    pub(super) lies: Vec<Lie>,
    per_mille: u32,
    from: u32,
    /// An agreement that all have signed, as this one shows it to others.
    agreement: Option<String>,
    chance: Mutex<Stream>,
    notes: Mutex<Notes>,
}

impl Liar {
    /// Out of the first so many words of the vocabulary.
    pub(super) fn draw(seed: u64, me: usize, agreement: Option<String>, words: usize) -> Self {
        let mut chance = Seed::from(seed).stream(Purpose::Network, 70, 0);
        let count = chance.random_range(1..4);
        let mut lies: Vec<Lie> = (0..count).map(|_| LIES[chance.random_range(0..words)]).collect();
        lies.sort();
        lies.dedup();
        let per_mille = [20, 200, 1000][chance.random_range(0..3)];
        let from = chance.random_range(1..14);
        let (chance, notes) = (Mutex::new(chance), Mutex::default());
        Self { me: me as u32, lies, per_mille, from, agreement, chance, notes }
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().expect("no panic while it was held")
    }

    /// Whether this lie is told now, and a number to tell it with.
    fn tells(&self, lie: Lie) -> Option<u64> {
        if !self.lies.contains(&lie) {
            return None;
        }
        let mut chance = self.chance.lock().expect("no panic while it was held");
        let now = chance.random_range(0..1000) < self.per_mille;
        let number = chance.random::<u64>();
        now.then_some(number)
    }

    /// What it says of its own release to `peer`.
    fn of_release(&self, peer: u32, frame: Frame) -> Vec<Frame> {
        let mut all = vec![frame];
        for lie in [
            Lie::TwoFaced,
            Lie::Large,
            Lie::OtherExchange,
            Lie::OtherSender,
            Lie::Twice,
            Lie::Withheld,
            Lie::OtherLength,
            Lie::GivesUp,
            Lie::OtherMean,
            Lie::OthersVector,
            Lie::Unsigned,
            Lie::Reorders,
        ] {
            if lie == Lie::TwoFaced && peer.is_multiple_of(2) {
                continue;
            }
            let Some(number) = self.tells(lie) else { continue };
            let Some(last) = all.last().cloned() else { break };
            match lie {
                Lie::Withheld => all.clear(),
                Lie::Unsigned => {
                    let other = bent(last, Lie::TwoFaced, number + u64::from(peer), peer);
                    self.notes().unsigned.extend(round_of(&other).map(|round| (peer, round)));
                    all = vec![other];
                }
                Lie::Reorders => {
                    let mut notes = self.notes();
                    match notes.held_back.remove(&peer) {
                        Some(before) => all.push(before),
                        None => {
                            notes.held_back.insert(peer, last);
                            all.clear();
                        }
                    }
                }
                Lie::Twice => all.push(bent(last, Lie::TwoFaced, number, peer)),
                _ => all = vec![bent(last, lie, number, peer)],
            }
        }
        all
    }

    /// What else it says when it says this.
    fn besides(&self, peer: u32) -> Vec<Frame> {
        let mut all = Vec::new();
        let digest = |number: u64| frame::blake3(&number.to_le_bytes());
        let signature =
            |number: u64| ReleaseSignature { scheme: 0x0807, bytes: vec![number as u8; 64].into() };
        let round = |number: u64| number as u32 % 40;
        if let Some(number) = self.tells(Lie::Over) {
            all.push(match number % 3 {
                0 => Frame::Ack { round: round(number >> 2) },
                1 => Frame::Farewell { head: digest(number) },
                _ => Frame::Bye,
            });
        }
        if self.tells(Lie::Refuses).is_some() {
            all.push(Frame::Refused("\u{1b}[2Jdone\r\nsite-1 stopped".into()));
        }
        if let Some(number) = self.tells(Lie::Slander) {
            let about = (number % SITES as u64) as u32;
            let told =
                SignedReceipt { about, blake3: digest(number), signature: signature(number) };
            all.push(match number >> 8 & 1 {
                0 => Frame::Heard { round: round(number), summary: digest(number) },
                _ => Frame::Receipts { round: round(number), all: vec![told] },
            });
        }
        if let Some(number) = self.tells(Lie::Reminds) {
            all.push(Frame::Yours {
                round: round(number),
                blake3: digest(number),
                signature: signature(number),
            });
        }
        if let Some(number) = self.tells(Lie::Lost) {
            let bytes = frame::release(peer, round(number), &[0.5; 3]);
            all.push(match number >> 8 & 1 {
                0 => Frame::Lost,
                _ => Frame::ReturnedRelease {
                    left: number as u8 % 3,
                    release: Some((signature(number), bytes)),
                },
            });
        }
        if let Some(number) = self.tells(Lie::Agreement) {
            let text = self.agreement.clone().unwrap_or_default();
            let named = format!("site-{} 0807 {}", number % 5, "00".repeat(64));
            all.push(match number % 4 {
                0 => Frame::Agreed { number: round(number), hash: digest(number) },
                1 => Frame::Agreement(format!("{text}signed {named}\n")),
                2 => Frame::Agreement(text.replace("site-2", "site-1")),
                _ => Frame::Agreement(format!("\u{1b}[31m{text}")),
            });
        }
        if let Some(number) = self.tells(Lie::EdgeKeys) {
            let (public, proof) = (digest(number), digest(number + 1));
            all.push(match number % 3 {
                0 => Frame::EdgeKey { public, proof: None },
                1 => Frame::EdgeKey { public: [0; 32], proof: Some(proof) },
                _ => Frame::EdgeSame { proof },
            });
        }
        if let Some(number) = self.tells(Lie::OtherHello) {
            all.push(Frame::Study(format!("study {number}")));
        }
        if let Some(number) = self.tells(Lie::LaterAgreement) {
            let text = self.agreement.clone().unwrap_or_default();
            let second = text.replace("number 1", "number 2");
            all.extend(match number % 3 {
                0 => vec![Frame::Agreement(second), Frame::Agreement(text)],
                1 => vec![Frame::Agreement(text.replace("from 6", "from 1"))],
                _ => {
                    vec![Frame::Agreed { number: 2, hash: digest(number) }, Frame::Agreement(text)]
                }
            });
        }
        if let Some(number) = self.tells(Lie::Replays) {
            all.extend(self.replay(number, peer));
        }
        all
    }

    /// What another site signed, where it does not belong.
    fn replay(&self, number: u64, peer: u32) -> Vec<Frame> {
        let notes = self.notes();
        let count = notes.overheard.len() as u64;
        let Some(found) = (count > 0).then(|| &notes.overheard[(number % count) as usize]) else {
            return Vec::new();
        };
        let Overheard { about, to, round, bytes, signature } = found.clone();
        let blake3 = frame::release_hash(&bytes);
        let told = |about| SignedReceipt { about, blake3, signature: signature.clone() };
        let other = round.wrapping_add((number >> 8) as u32 % 3);
        match (number >> 16) % 6 {
            0 => vec![Frame::Receipts { round: other, all: vec![told(about)] }],
            1 => vec![Frame::Receipts { round, all: vec![told((about + 1) % SITES as u32)] }],
            // What the receiver signed itself, long ago or for somebody else alone.
            2 => vec![Frame::Yours { round: other, blake3, signature }],
            3 => vec![Frame::Yours { round: to.map_or(round, |to| to + round), blake3, signature }],
            4 => {
                let own = Frame::decode(&bytes).ok();
                let signed = Frame::ReleaseSignature { round, signature };
                own.into_iter().flat_map(|own| [signed.clone(), own]).collect()
            }
            _ => vec![Frame::ReturnedRelease { left: 0, release: Some((signature, bytes)) }]
                .into_iter()
                .filter(|_| about == peer)
                .collect(),
        }
    }
}

/// The exchange that a release is of.
fn round_of(frame: &Frame) -> Option<u32> {
    match frame {
        Frame::Release { round, .. } | Frame::Words { round, .. } => Some(*round),
        Frame::Masked { exchange, .. } | Frame::Passed { exchange, .. } => Some(*exchange),
        _ => None,
    }
}

/// A frame with a lie in it; as it was where the lie has no place.
fn bent(frame: Frame, lie: Lie, number: u64, peer: u32) -> Frame {
    let shift = |x: &f64| x + 1e-3 * (1.0 + (number % 7) as f64);
    let other = |words: &Arc<[u64]>| -> Arc<[u64]> {
        words.iter().map(|w| w.wrapping_add(1 << (number % 60))).collect()
    };
    match (frame, lie) {
        (Frame::Release { from, round, values }, _) => {
            let (mut from, mut round, mut values) = (from, round, values.to_vec());
            match lie {
                Lie::TwoFaced => values.iter_mut().for_each(|x| *x = shift(x)),
                Lie::Large => {
                    let large = [f64::NAN, f64::INFINITY, 1e13, 1e9, -40.0];
                    values[0] = large[(number % 5) as usize];
                }
                Lie::OtherExchange => {
                    round = round.wrapping_add([1, 7, u32::MAX, 40][(number % 4) as usize]);
                }
                Lie::OtherSender => from = (from + 1) % SITES as u32,
                Lie::OtherLength => values.resize((number % 6) as usize, 0.25),
                _ => {}
            }
            Frame::Release { from, round, values: values.into() }
        }
        (Frame::Words { from, to, round, words }, _) => {
            let (mut from, mut to, mut round, mut words) = (from, to, round, words);
            match lie {
                Lie::TwoFaced | Lie::Large => words = other(&words),
                Lie::OtherExchange => round = round.wrapping_add(2),
                Lie::OtherSender if number.is_multiple_of(2) => from = (from + 1) % SITES as u32,
                Lie::OtherSender => to = (to + 1) % SITES as u32,
                Lie::OtherLength => words = words.iter().copied().skip(1).collect(),
                _ => {}
            }
            Frame::Words { from, to, round, words }
        }
        (Frame::Masked { from, exchange, round, hop, gone, before, vectors }, _) => {
            let (mut exchange, mut round, mut hop) = (exchange, round, hop);
            let (mut gone, mut before, mut vectors) = (gone, before, vectors);
            match lie {
                Lie::TwoFaced | Lie::Large => {
                    vectors.iter_mut().filter(|v| v.0 == from).for_each(|v| v.1 = other(&v.1));
                }
                Lie::OthersVector => {
                    vectors.iter_mut().filter(|v| v.0 != from).for_each(|v| v.1 = other(&v.1));
                }
                Lie::OtherExchange => {
                    (exchange, round) = (exchange + 1, round + (number % 2) as u32);
                    hop = (hop + 1) % 3;
                }
                Lie::OtherSender => vectors.iter_mut().for_each(|v| v.0 = (v.0 + 1) % SITES as u32),
                Lie::OtherLength => vectors.truncate(0),
                Lie::GivesUp => {
                    let one =
                        if number.is_multiple_of(3) { peer } else { (peer + 1) % SITES as u32 };
                    gone.push((one, round));
                    if number.is_multiple_of(5) {
                        gone.push(((one + 1) % SITES as u32, round));
                    }
                    gone.sort_unstable();
                    gone.dedup_by_key(|g| g.0);
                    exchange += if number.is_multiple_of(2) { 1 } else { 2 };
                }
                Lie::OtherMean => before = Some(vec![(number % 9) as f64; 3].into()),
                _ => {}
            }
            Frame::Masked { from, exchange, round, hop, gone, before, vectors }
        }
        (Frame::Passed { from, exchange, round, hop, gone, origins }, _) => {
            let (mut exchange, mut round, mut hop, mut origins) = (exchange, round, hop, origins);
            match lie {
                // Another vector under the signature of whose it is, or under none.
                Lie::OthersVector => origins.iter_mut().for_each(|origin| {
                    if let Ok(inner @ Frame::Masked { from, .. }) = Frame::decode(&origin.frame) {
                        origin.frame = match number % 3 {
                            0 => bent(inner, Lie::OtherMean, number, peer),
                            1 => bent(inner, Lie::OtherSender, number, from),
                            _ => bent(inner, Lie::TwoFaced, number, peer),
                        }
                        .encode();
                    }
                }),
                Lie::TwoFaced => origins.truncate((number % 2) as usize),
                Lie::OtherExchange => {
                    (exchange, round) = (exchange + 1, round + (number % 2) as u32);
                    hop = (hop + 1) % 3;
                }
                Lie::OtherSender => {
                    let keys: Vec<Bytes> =
                        origins.iter().map(|origin| origin.key.clone()).collect();
                    origins.iter_mut().zip(keys.iter().rev()).for_each(|(o, k)| o.key = k.clone());
                }
                Lie::OtherLength => origins.extend(origins.first().cloned()),
                _ => {}
            }
            Frame::Passed { from, exchange, round, hop, gone, origins }
        }
        (frame, _) => frame,
    }
}

impl Actor for Liar {
    fn hello(&self, mut hello: Hello) -> Hello {
        if let Some(number) = self.tells(Lie::Have) {
            hello.have = if number % 3 == 0 { 0 } else { hello.have + (number % 5) as u32 };
        }
        if let Some(number) = self.tells(Lie::OtherHello) {
            match number % 4 {
                0 => hello.version = 1,
                1 => hello.experiment = [7; 32],
                2 => hello.from = (self.me + 1) % SITES as u32,
                _ => hello.graph = [7; 32],
            }
        }
        hello
    }

    fn release(&self, peer: u32, round: u32, bytes: Bytes) -> Vec<(u32, Bytes)> {
        let Ok(frame) = Frame::decode(&bytes) else { return vec![(round, bytes)] };
        if round < self.from {
            return vec![(round, bytes)];
        }
        let number = |frame: &Frame| round_of(frame).unwrap_or(round);
        let all = self.of_release(peer, frame);
        all.into_iter().map(|frame| (number(&frame), frame.encode())).collect()
    }

    fn hears(&self, peer: u32, bytes: &Bytes) {
        let Ok(frame) = Frame::decode(bytes) else { return };
        let mut notes = self.notes();
        if let Frame::ReleaseSignature { signature, .. } = frame {
            notes.signatures.insert(peer, signature);
            return;
        }
        let to = matches!(frame, Frame::Words { .. }).then_some(self.me);
        let Some(round) = round_of(&frame) else { return };
        let Some(signature) = notes.signatures.remove(&peer) else { return };
        let bytes = bytes.clone();
        notes.overheard.push_back(Overheard { about: peer, to, round, bytes, signature });
        if notes.overheard.len() > OVERHEARD {
            notes.overheard.pop_front();
        }
    }

    fn frame(&self, peer: u32, bytes: Bytes) -> Vec<Bytes> {
        if let Some(number) = self.tells(Lie::Stalls) {
            self.notes().swallowed.entry(peer).or_insert(number % 50);
        }
        if let Some(left) = self.notes().swallowed.get_mut(&peer).filter(|left| **left > 0) {
            *left -= 1;
            return Vec::new();
        }
        let mut all: Vec<Bytes> = self.besides(peer).iter().map(Frame::encode).collect();
        let mut own = bytes.clone();
        if let Ok(Frame::ReleaseSignature { round, .. }) = Frame::decode(&bytes)
            && let Some(number) = self.tells(Lie::Signature)
        {
            let signature = vec![number as u8; (number % 80) as usize].into();
            let signature = ReleaseSignature {
                scheme: [0x0807, 0x0201][(number % 2) as usize],
                bytes: signature,
            };
            own = Frame::ReleaseSignature { round, signature }.encode();
            if number % 3 == 0 {
                return all;
            }
        }
        if let Ok(Frame::ReleaseSignature { round, mut signature }) = Frame::decode(&bytes)
            && self.notes().unsigned.remove(&(peer, round))
        {
            signature.bytes = vec![7; signature.bytes.len()].into();
            own = Frame::ReleaseSignature { round, signature }.encode();
        }
        if let Some(number) = self.tells(Lie::Rubbish) {
            let length = (number % 90) as usize;
            all.push(frame::blake3(&number.to_le_bytes()).repeat(3)[..length].to_vec().into());
        }
        let times = if self.tells(Lie::Flood).is_some() { 20 } else { 1 };
        all.extend(std::iter::repeat_n(own, times));
        all
    }
}
