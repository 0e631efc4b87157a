//! What this machine offers: threads, caches, memory.

use anyhow::{Context as _, bail};
use consenso_engine::experiment::{Experiment, Job, Machine};
use std::fs;
use std::path::Path;

/// The number of threads a command may use.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Threads {
    /// Threads; results do not depend on it [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl Threads {
    /// Sets up the pool that all work of the process goes to.
    pub(crate) fn start(self) -> anyhow::Result<()> {
        let Some(threads) = self.threads else { return Ok(()) };
        rayon::ThreadPoolBuilder::new()
            .num_threads(threads.into())
            .build_global()
            .context("--threads")
    }
}

/// Looks up what there is; what cannot be found out is the library's guess.
pub(crate) fn look() -> Machine {
    let guess = Machine::default();
    Machine {
        threads: guess.threads,
        shared_cache: shared_cache(Path::new("/sys/devices/system/cpu/cpu0/cache"))
            .unwrap_or(guess.shared_cache),
        memory: free_memory(),
    }
}

/// Memory from which a run says beforehand how much it will take.
const LARGE: u64 = 1 << 30;

/// Says how much memory a large run will take; refuses one that does not fit.
pub(crate) fn say(experiment: &Experiment, job: &Job) -> anyhow::Result<()> {
    let outlook = experiment.outlook(&job.machine, job.share);
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let free = job.machine.memory.map_or_else(|| "an unknown amount".into(), gigabytes);
    if job.machine.memory.is_some_and(|memory| outlook.least > memory) {
        bail!(
            "this run needs about {} of memory, and {free} are free\n  help: --stream holds no records; or use fewer agents, records or dimensions, or a larger machine",
            gigabytes(outlook.least),
        );
    }
    if outlook.peak > LARGE {
        let pieces = outlook.side_by_side;
        eprintln!(
            "memory: about {} at the most ({pieces} side by side), {free} free",
            gigabytes(outlook.peak)
        );
    }
    Ok(())
}

/// Bytes of the last cache of the first processor, from the folder where Linux describes its
/// caches.
fn shared_cache(folder: &Path) -> Option<u64> {
    let caches = fs::read_dir(folder).ok()?.filter_map(Result::ok).filter_map(|entry| {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        Some((level, kilobytes(read("size")?.trim())?))
    });
    caches.max().map(|(_, bytes)| bytes)
}

/// Bytes in `49152K` or `32M`.
fn kilobytes(text: &str) -> Option<u64> {
    let number = |end: char| text.strip_suffix(end)?.parse::<u64>().ok();
    number('K')
        .map(|n| n << 10)
        .or_else(|| number('M').map(|n| n << 20))
        .or_else(|| text.parse().ok())
}

/// Bytes that can be had without pushing others out: of the machine, or of the group of processes
/// that we are confined to.
fn free_memory() -> Option<u64> {
    let table = fs::read_to_string("/proc/meminfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let free = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10;
    let group = |name: &str| {
        fs::read_to_string(Path::new("/sys/fs/cgroup").join(name)).ok()?.trim().parse::<u64>().ok()
    };
    let confined =
        group("memory.max").map(|most| most.saturating_sub(group("memory.current").unwrap_or(0)));
    Some(confined.map_or(free, |c| c.min(free)))
}

/// Bytes that a folder's disk has room for; the folder, or one above it, must exist.
pub(crate) fn free_disk(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let absolute = std::path::absolute(folder).ok()?;
        let room = absolute.ancestors().find_map(|place| rustix::fs::statvfs(place).ok())?;
        Some(room.f_bavail.saturating_mul(room.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_level_is_the_shared_cache() {
        let folder = std::env::temp_dir().join(format!("consenso-caches-{}", std::process::id()));
        for (index, level, size) in [(0, 1, "48K"), (1, 1, "32K"), (2, 2, "1280K"), (3, 3, "48M")] {
            let at = folder.join(format!("index{index}"));
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("level"), format!("{level}\n")).unwrap();
            fs::write(at.join("size"), format!("{size}\n")).unwrap();
        }
        assert_eq!(shared_cache(&folder), Some(48 << 20));
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(shared_cache(&folder), None);
    }
}
