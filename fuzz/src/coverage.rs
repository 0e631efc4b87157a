//! Which edges of the program an input runs through: LLVM's counters, one byte per edge, that
//! `-C passes=sancov-module` puts into every crate.

use std::sync::Mutex;

/// The counters of every part of the program, as (address, length).
static COUNTERS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Called before `main` by what the compiler adds to each crate.
///
/// # Safety
/// The bytes from `start` to `stop` are counters that live as long as the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_8bit_counters_init(start: *mut u8, stop: *mut u8) {
    let (start, length) = (start as usize, stop as usize - start as usize);
    let mut all = COUNTERS.lock().expect("one thread");
    if !all.contains(&(start, length)) {
        all.push((start, length));
    }
}

/// Edges that were seen, each with how often: 1, 2, 3, 4–7, 8–15, … are different.
pub struct Seen {
    classes: Vec<u8>,
}

impl Seen {
    pub fn new() -> Self {
        let all = COUNTERS.lock().expect("one thread");
        Self { classes: vec![0; all.iter().map(|(_, length)| length).sum()] }
    }

    /// Edges of the program that have counters.
    pub fn edges(&self) -> usize {
        self.classes.len()
    }

    /// Edges that some input ran through.
    pub fn reached(&self) -> usize {
        self.classes.iter().filter(|class| **class > 0).count()
    }

    /// Sets all counters to nothing.
    pub fn begin(&self) {
        for &(start, length) in COUNTERS.lock().expect("one thread").iter() {
            // SAFETY: these are the counters that the compiler made, and no other thread runs.
            unsafe { std::ptr::write_bytes(start as *mut u8, 0, length) };
        }
    }

    /// Takes in what ran since [`Self::begin`]; whether anything of it is new.
    pub fn take(&mut self) -> bool {
        let (mut at, mut new) = (0, false);
        for &(start, length) in COUNTERS.lock().expect("one thread").iter() {
            // SAFETY: as above.
            let counters = unsafe { std::slice::from_raw_parts(start as *const u8, length) };
            for (class, &count) in self.classes[at..at + length].iter_mut().zip(counters) {
                let seen = match count {
                    0 => 0,
                    1..=3 => 1 << (count - 1),
                    4..=7 => 8,
                    8..=15 => 16,
                    16..=31 => 32,
                    32..=127 => 64,
                    _ => 128,
                };
                new |= seen & !*class != 0;
                *class |= seen;
            }
            at += length;
        }
        new
    }
}
