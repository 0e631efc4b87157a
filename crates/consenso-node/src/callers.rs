//! What callers may cost before they have shown who they are: nothing is read for them, and they may
//! not call too often.

use crate::folder::{Folder, FolderError};
use crate::identity::{Identity, IdentityError, PeerIdentity};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;
use tokio_rustls::rustls::ServerConfig;

/// How long files that a handshake needs are taken to be what they were.
const UNCHANGED: Duration = Duration::from_secs(1);

/// Addresses whose calls are counted one by one; more of them share what is left.
const ADDRESSES: usize = 256;

/// Calls at once, and per second after that: of one address, and of all together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallRate {
    burst: f64,
    per_second: f64,
}

impl CallRate {
    /// For a site that signs by itself. A machine may have a hundred sites, which all call at once.
    pub(crate) const OWN_KEY: Self = Self { burst: 256.0, per_second: 20.0 };
    /// For one whose device signs in every handshake, some milliseconds each.
    pub(crate) const SIGNER: Self = Self { burst: 64.0, per_second: 2.0 };
}

/// A supply of calls that fills up again with time.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: CallRate) -> Self {
        Self { left: rate.burst, at: Instant::now() }
    }

    fn take(&mut self, rate: CallRate) -> bool {
        let passed = self.at.elapsed().as_secs_f64();
        self.left = (self.left + passed * rate.per_second).min(rate.burst);
        self.at = Instant::now();
        let some = self.left >= 1.0;
        if some {
            self.left -= 1.0;
        }
        some
    }
}

/// Decides which calls are answered at all, by address and rate. Addresses do not take from each
/// other as long as there are not too many of them.
#[derive(Debug)]
pub(crate) struct CallLimiter {
    rate: CallRate,
    known: HashMap<String, Bucket>,
    others: Bucket,
}

impl CallLimiter {
    pub(crate) fn new(rate: CallRate) -> Self {
        Self { rate, known: HashMap::new(), others: Bucket::full(rate) }
    }

    /// Whether a call from this address is answered.
    pub(crate) fn admits(&mut self, address: &str) -> bool {
        if self.known.len() >= ADDRESSES && !self.known.contains_key(address) {
            // Whoever has not called for a while has all of its supply, known or not.
            let idle = Duration::from_secs_f64(self.rate.burst / self.rate.per_second);
            self.known.retain(|_, bucket| bucket.at.elapsed() < idle);
        }
        let (rate, room) = (self.rate, self.known.len() < ADDRESSES);
        match self.known.get_mut(address) {
            Some(bucket) => bucket.take(rate),
            None if room => self
                .known
                .entry(address.to_owned())
                .or_insert_with(|| Bucket::full(rate))
                .take(rate),
            None => self.others.take(rate),
        }
    }
}

/// What a connection may carry beside messages: HTTP/2 has frames without content (PRIORITY,
/// WINDOW_UPDATE, PING) that each cost as much as a message, and no bound of its own on them.
#[derive(Debug)]
pub(crate) struct Meter {
    read: AtomicU64,
    content: AtomicU64,
    /// Bytes at any time, and per second.
    spare: u64,
    per_second: f64,
    began: Instant,
}

impl Meter {
    /// Of a neighbour, whose longest message has so many bytes.
    pub(crate) fn of_neighbour(longest: usize) -> Self {
        Self::new((1 << 18) + 2 * longest as u64, 4096.0)
    }

    /// Of a listed site that is no neighbour: enough to be told that it is none.
    pub(crate) fn of_uninvited() -> Self {
        Self::new(16 << 10, 0.0)
    }

    fn new(spare: u64, per_second: f64) -> Self {
        let (read, content) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { read, content, spare, per_second, began: Instant::now() }
    }

    /// So many bytes came in; whether that is within bounds. Headers of messages are less than
    /// messages: twice the content is enough for both.
    pub(crate) fn admits(&self, bytes: usize) -> bool {
        let read = self.read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let time = (self.began.elapsed().as_secs_f64() * self.per_second) as u64;
        let content = self.content.load(Ordering::Relaxed);
        read <= self.spare.saturating_add(time).saturating_add(content.saturating_mul(2))
    }

    /// A message of so many bytes was among them.
    pub(crate) fn message(&self, bytes: usize) {
        // The shortest frames are nearly all header.
        self.content.fetch_add(bytes as u64 + 32, Ordering::Relaxed);
    }
}

/// What is needed to greet a caller.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) known: Vec<PeerIdentity>,
    pub(crate) config: Arc<ServerConfig>,
    stamps: Vec<(std::ffi::OsString, Option<SystemTime>, u64)>,
}

/// Why there is no greeting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoGreeting {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// The greeting as it was read last. Certificates, pins and agreements can be changed while a node
/// runs: they are read again when a file has changed, and looked at once a second at most.
#[derive(Debug, Default)]
pub(crate) struct Greetings(Mutex<Option<(Instant, Arc<Greeting>)>>);

impl Greetings {
    pub(crate) fn of(&self, folder: &Folder) -> Result<Arc<Greeting>, NoGreeting> {
        let mut last = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let stamps = match &mut *last {
            Some((seen, greeting)) if seen.elapsed() < UNCHANGED => {
                return Ok(Arc::clone(greeting));
            }
            Some((seen, greeting)) => {
                let stamps = stamps(folder);
                if stamps == greeting.stamps {
                    *seen = Instant::now();
                    return Ok(Arc::clone(greeting));
                }
                stamps
            }
            None => stamps(folder),
        };
        let known = folder.peers_now()?.1;
        let config = Identity::read(&folder.path)?.server(&known)?;
        let greeting = Arc::new(Greeting { known, config, stamps });
        *last = Some((Instant::now(), Arc::clone(&greeting)));
        Ok(greeting)
    }
}

/// When the files of a folder that a greeting is read from were written last, and how long they are.
fn stamps(folder: &Folder) -> Vec<(std::ffi::OsString, Option<SystemTime>, u64)> {
    let read = |name: &std::ffi::OsString| {
        let name = name.to_string_lossy();
        [".pem", ".toml", ".txt"].iter().any(|end| name.ends_with(end))
    };
    let files = std::fs::read_dir(&folder.path).into_iter().flatten().flatten();
    let mut all: Vec<_> = files
        .filter(|file| read(&file.file_name()))
        .map(|file| {
            // What a link points at, as mounts of secrets have it.
            let meta = std::fs::metadata(file.path()).ok();
            let changed = meta.as_ref().and_then(|m| m.modified().ok());
            (file.file_name(), changed, meta.map_or(0, |m| m.len()))
        })
        .collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn frames_without_content_are_bounded_and_messages_are_not() {
        let meter = Meter::of_neighbour(1000);
        for _ in 0..100_000 {
            assert!(meter.admits(160), "short messages with their headers");
            meter.message(90);
        }
        let meter = Meter::of_neighbour(1000);
        let admitted = (0..1_000_000).take_while(|_| meter.admits(14)).count();
        assert!((15_000..25_000).contains(&admitted), "{admitted}");
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(meter.admits(14), "signs of life of an hour");
        let meter = Meter::of_uninvited();
        assert_eq!((0..10_000).take_while(|_| meter.admits(16)).count(), 1024);
    }

    /// A hundred connections a second took nine rounds of ten.
    #[tokio::test(start_paused = true)]
    async fn an_address_that_calls_too_often_is_not_answered_and_others_are() {
        let mut gate = CallLimiter::new(CallRate { burst: 4.0, per_second: 2.0 });
        let of = |gate: &mut CallLimiter, address: &str, n: usize| {
            (0..n).filter(|_| gate.admits(address)).count()
        };
        assert_eq!((of(&mut gate, "a", 100), of(&mut gate, "b", 3)), (4, 3));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((of(&mut gate, "a", 100), of(&mut gate, "b", 100)), (2, 3));
        // However many addresses there are, together they are bounded, and so is what is kept.
        let many: usize = (0..10_000).map(|k| of(&mut gate, &format!("x{k}"), 1)).sum();
        assert!(many <= ADDRESSES + 4, "{many}");
        assert!(gate.known.len() <= ADDRESSES);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(of(&mut gate, "new", 100), 4, "those who went have made room");
    }
}
