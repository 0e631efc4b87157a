//! The gRPC messages in one direction of an HTTP/2 connection, read straight off its bytes (RFC
//! 9113, section 4.1, and gRPC's length-prefixed messages). It shares no code with the links it
//! listens to, and what it cannot read is an error, never a gap.

use std::collections::BTreeMap;

/// What a caller says first.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Length, type, flags and stream of a frame.
const HEAD: usize = 9;

/// Flag and length of a message.
const PREFIX: usize = 5;

const DATA: u8 = 0;

/// Bytes come in as they are cut by whatever carried them; messages go out whole.
#[derive(Default)]
pub(crate) struct Messages {
    /// A frame, or a part of one.
    frame: Vec<u8>,
    /// Messages that have begun, by stream.
    begun: BTreeMap<u32, Vec<u8>>,
    /// The preface is still to come.
    preface: bool,
}

impl Messages {
    /// Of the end that called, or of the one that was called.
    pub(crate) fn of(caller: bool) -> Self {
        Self { preface: caller, ..Self::default() }
    }

    /// Takes in bytes; the messages that they complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.frame.extend_from_slice(bytes);
        let mut whole = Vec::new();
        if self.preface && self.frame.len() >= PREFACE.len() {
            if !self.frame.starts_with(PREFACE) {
                return Err("no HTTP/2 preface".into());
            }
            self.frame.drain(..PREFACE.len());
            self.preface = false;
        }
        while !self.preface
            && let Some(end) = length(&self.frame)
            && self.frame.len() >= end
        {
            let frame: Vec<u8> = self.frame.drain(..end).collect();
            if let Some((stream, data)) = data(&frame)? {
                let begun = self.begun.entry(stream).or_default();
                begun.extend_from_slice(data);
                while let Some(message) = message(begun)? {
                    whole.push(message);
                }
            }
        }
        Ok(whole)
    }

    /// What has come of messages that the end of the connection cut off.
    pub(crate) fn cut(mut self) -> Result<Vec<Vec<u8>>, String> {
        if !self.preface
            && self.frame.len() > HEAD
            && let Some((stream, data)) = data(&self.frame)?
        {
            self.begun.entry(stream).or_default().extend_from_slice(data);
        }
        let cut = self.begun.into_values().filter(|begun| begun.len() > PREFIX);
        Ok(cut.map(|begun| begun[PREFIX..].to_vec()).collect())
    }
}

/// How long the frame is that begins here.
fn length(frame: &[u8]) -> Option<usize> {
    let [a, b, c, ..] = *frame else { return None };
    Some(HEAD + u32::from_be_bytes([0, a, b, c]) as usize)
}

/// The stream and the bytes of a data frame; `None` of another one.
fn data(frame: &[u8]) -> Result<Option<(u32, &[u8])>, String> {
    const PADDED: u8 = 8;
    let (head, data) = frame.split_at(HEAD);
    if head[3] != DATA {
        return Ok(None);
    }
    if head[4] & PADDED != 0 {
        return Err("a padded frame".into());
    }
    Ok(Some((u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]), data)))
}

/// Takes the first message off, if it is whole.
fn message(begun: &mut Vec<u8>) -> Result<Option<Vec<u8>>, String> {
    let [compressed, a, b, c, d, ..] = begun[..] else { return Ok(None) };
    if compressed != 0 {
        return Err("a compressed message".into());
    }
    let end = PREFIX + u32::from_be_bytes([a, b, c, d]) as usize;
    if begun.len() < end {
        return Ok(None);
    }
    Ok(Some(begun.drain(..end).skip(PREFIX).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    fn prefixed(message: &[u8]) -> Vec<u8> {
        [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat()
    }

    /// Settings, headers, two messages in three data frames of one stream with another stream
    /// between them.
    fn conversation() -> Vec<u8> {
        let both = [prefixed(b"first message"), prefixed(b"second")].concat();
        [
            PREFACE.to_vec(),
            frame(4, 0, 0, &[0; 12]),
            frame(1, 4, 1, &[0x82; 30]),
            frame(DATA, 0, 1, &both[..7]),
            frame(DATA, 0, 3, &prefixed(b"")),
            frame(DATA, 0, 1, &both[7..20]),
            frame(8, 0, 0, &[0; 4]),
            frame(DATA, 1, 1, &both[20..]),
        ]
        .concat()
    }

    #[test]
    fn messages_are_whole_however_the_bytes_are_cut() {
        let bytes = conversation();
        for size in 1..=bytes.len() {
            let mut messages = Messages::of(true);
            let read = |part| messages.push(part).unwrap();
            let found: Vec<_> = bytes.chunks(size).flat_map(read).collect();
            assert_eq!(found, [&b""[..], b"first message", b"second"], "in pieces of {size}");
            assert!(messages.cut().unwrap().is_empty());
        }
    }

    #[test]
    fn what_was_cut_off_is_known_as_far_as_it_came() {
        let bytes = conversation();
        for left in 1..=5 {
            let mut messages = Messages::of(true);
            messages.push(&bytes[..bytes.len() - left]).unwrap();
            assert_eq!(messages.cut().unwrap(), [&b"second"[..6 - left]]);
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let compressed = [&[1][..], &4u32.to_be_bytes(), b"abcd"].concat();
        for bytes in [frame(DATA, 8, 1, &[2, 0, 0, 0, 0]), frame(DATA, 0, 1, &compressed)] {
            assert!(Messages::of(false).push(&bytes).is_err());
        }
        assert!(Messages::of(true).push(&[b'x'; 40]).is_err());
    }
}
