//! Drawing words before it is known that they are for the coordinates they are drawn for.
//!
//! The words of a coordinate lie where no earlier coordinate was refined; a refinement, about once
//! in a million coordinates, moves all after it. So blocks, and threads, begin where they would
//! begin without one, and what comes after a refinement is done again.

use rand::{Rng, SeedableRng, TryRng};
use rayon::prelude::*;

use super::{BLOCK, LANES, NO_WORDS, Release, batches, block};
use crate::random::Stream;

/// Coordinates that a thread does at a time: some hundred microseconds.
pub(super) const SEGMENT: usize = 1 << 15;

/// A stream of which some words were drawn already.
pub(super) struct Ahead<'a, R> {
    /// Whole words, in order.
    pub(super) drawn: &'a [u8],
    pub(super) rng: &'a mut R,
}

impl<R: Rng> TryRng for Ahead<'_, R> {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.try_next_u64().map(|word| word as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        let mut word = [0; 8];
        self.try_fill_bytes(&mut word)?;
        Ok(u64::from_le_bytes(word))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        let (drawn, rest) = self.drawn.split_at(bytes.len().min(self.drawn.len()));
        self.drawn = rest;
        let (first, new) = bytes.split_at_mut(drawn.len());
        first.copy_from_slice(drawn);
        if !new.is_empty() {
            self.rng.fill_bytes(new);
        }
        Ok(())
    }
}

/// [`release_values`](super::release_values) after its checks; `segment` coordinates, a multiple of
/// a block's, are a thread's at a time.
pub(super) fn release_values(rng: &mut Stream, of: Release<'_>, segment: usize, out: &mut [f64]) {
    // Full batches take a word for each coordinate, of either kind of noise; a position counts
    // halves of a word.
    let whole = of.y.len() / LANES * LANES;
    let mut start = 0;
    while start < whole {
        let wave = (whole - start).min(segment * rayon::current_num_threads());
        let origin = rng.get_word_pos();
        let position = |k: usize| origin + 2 * (k * segment) as u128;
        let (seed, nonce) = (rng.get_seed(), rng.get_stream());
        let parts = out[start..][..wave].par_chunks_mut(segment);
        let ends: Vec<(usize, u128)> = parts
            .enumerate()
            .map(|(k, out)| {
                let mut own = Stream::from_seed(seed);
                own.set_stream(nonce);
                own.set_word_pos(position(k));
                full_batches(&mut own, of.part(start + k * segment, out.len()), out);
                (out.len(), own.get_word_pos())
            })
            .collect();
        // What follows a segment that took more words than it has coordinates began in the wrong
        // place.
        let mut right = origin;
        for (k, (length, end)) in ends.into_iter().enumerate() {
            if position(k) != right {
                break;
            }
            start += length;
            right = end;
        }
        rng.set_word_pos(right);
    }
    let out = &mut out[whole..];
    batches(rng, of.part(whole, out.len()), |i, q| out[i] = of.grid.value(q));
}

/// Full batches, one block after the other.
fn full_batches(rng: &mut Stream, of: Release<'_>, out: &mut [f64]) {
    let mut bytes = NO_WORDS;
    let out = out.as_chunks_mut().0;
    for (i, out) in out.chunks_mut(BLOCK).enumerate() {
        block(rng, of.part(i * BLOCK * LANES, out.len() * LANES), &mut bytes, of.grid.step(), out);
    }
}
