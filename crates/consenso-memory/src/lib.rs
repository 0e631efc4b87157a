//! The system's allocator, which asks Linux to keep large blocks in huge pages.
//!
//! Training reads all records once per round, in order. In pages of 4 kB the processor looks up an
//! address for every 64 cache lines; in pages of 2 MB it hardly does. Most distributions give huge
//! pages only to programs that ask for them (`transparent_hugepage = madvise`). Whoever makes a
//! program asks for it with one line:
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOCATOR: consenso_memory::HugePages = consenso_memory::HugePages;
//! ```
//!
//! Elsewhere than on Linux this is the system's allocator and nothing more.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator; blocks of four megabytes and more are advised to lie in huge pages.
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

/// Blocks from this size on. A smaller one holds at most one whole huge page, and the C library
/// keeps it among others.
const LARGE: usize = 4 << 20;

#[expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait: every call goes to `System`")]
// SAFETY: all memory comes from `System`, with the caller's own arguments. `advise` changes neither
// contents nor addresses.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is that of `System`.
        advise(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advise(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; the block came from `System`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; the block came from `System`.
        advise(unsafe { System.realloc(block, layout, size) }, size)
    }
}

/// Advises huge pages for those that lie within a large block, and gives the block back.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "`madvise` is a function of the C library")]
fn advise(block: *mut u8, size: usize) -> *mut u8 {
    const HUGE: usize = 2 << 20;
    if size >= LARGE && !block.is_null() {
        let start = block.addr().next_multiple_of(HUGE);
        let end = (block.addr() + size) / HUGE * HUGE;
        // SAFETY: the range lies within the block, which is the caller's, and `MADV_HUGEPAGE`
        // leaves what it holds as it is. A kernel without huge pages answers with an error, and all
        // is as before.
        unsafe {
            libc::madvise(block.with_addr(start).cast(), end - start, libc::MADV_HUGEPAGE);
        }
    }
    block
}

#[cfg(not(target_os = "linux"))]
fn advise(block: *mut u8, size: usize) -> *mut u8 {
    let _ = (size, LARGE);
    block
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::HugePages;
    use std::fs::read_to_string;

    #[global_allocator]
    static ALLOCATOR: HugePages = HugePages;

    /// The flags of the mapping that holds an address.
    fn flags(address: usize) -> String {
        let maps = read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let ends = range.and_then(|(from, to)| {
                Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
            });
            if let Some((from, to)) = ends {
                inside = (from..to).contains(&address);
            } else if inside && line.starts_with("VmFlags:") {
                return line.to_owned();
            }
        }
        panic!("no mapping holds {address:x}");
    }

    #[test]
    fn large_blocks_are_advised_to_lie_in_huge_pages_and_hold_what_they_held() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let mut block: Vec<u64> = (0..4 << 20).collect();
        let middle = |block: &[u64]| (&raw const block[block.len() / 2]).addr();
        assert!(flags(middle(&block)).contains(" hg"), "{}", flags(middle(&block)));
        block.extend(4 << 20..12 << 20);
        block.shrink_to_fit();
        assert!(flags(middle(&block)).contains(" hg"), "{}", flags(middle(&block)));
        assert!(block.iter().zip(0..).all(|(x, i)| *x == i));
        let zeros = vec![0_u64; 1 << 20];
        assert!(flags(middle(&zeros)).contains(" hg"), "{}", flags(middle(&zeros)));
        assert!(zeros.iter().all(|x| *x == 0));
    }
}
