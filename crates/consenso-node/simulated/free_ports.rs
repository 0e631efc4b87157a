//! Ports for sites that will listen later. One that the system gave and took back may be the local
//! end of somebody's connection by then, and the site could not start.

use std::net::TcpListener;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Where no system looks for the local end of a connection (Linux begins at 32,768).
const FIRST: u16 = 10_000;
const BLOCK: u16 = 500;
const BLOCKS: u16 = 40;

/// `count` ports that are free and that no other test will take.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    static HELD: OnceLock<(TcpListener, u16)> = OnceLock::new();
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let (_, block) = HELD.get_or_init(a_block_for_this_process);
    let next = || block + 1 + NEXT.fetch_add(1, Ordering::Relaxed) % (BLOCK - 1);
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(next).take(usize::from(BLOCK)).filter(free).take(count).collect()
}

/// The block is this process's for as long as it listens at the first port of it.
fn a_block_for_this_process() -> (TcpListener, u16) {
    let start = std::process::id() as u16 % BLOCKS;
    let blocks = (0..BLOCKS).map(|i| FIRST + (start + i) % BLOCKS * BLOCK);
    let mut held = blocks.filter_map(|p| Some((TcpListener::bind(("127.0.0.1", p)).ok()?, p)));
    held.next().expect("a block of ports that nobody holds")
}
