//! Tells systemd that the node is ready and alive (`Type=notify`, `WatchdogSec=`): a datagram to the
//! socket that it names, and nothing where it names none.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Where systemd listens, and how often it wants to hear.
#[derive(Debug)]
pub(crate) struct Watchdog {
    socket: UnixDatagram,
    address: SocketAddr,
    every: Option<Duration>,
}

impl Watchdog {
    /// As the environment of this process says; `None` outside systemd.
    pub(crate) fn of_environment() -> Option<Self> {
        let named = std::env::var_os("NOTIFY_SOCKET")?;
        let every = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        Self::new(named.as_bytes(), every)
    }

    fn new(named: &[u8], micros: Option<u64>) -> Option<Self> {
        let address = match named {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok()?,
            path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)).ok()?,
        };
        let socket = UnixDatagram::unbound().ok()?;
        // Whoever does not listen must not make the node wait.
        socket.set_nonblocking(true).ok()?;
        // A third, so that one that is late does not kill the node.
        let every = micros.filter(|m| *m > 0).map(|m| Duration::from_micros(m / 3));
        Some(Self { socket, address, every })
    }

    fn say(&self, words: &str) {
        let _ = self.socket.send_to_addr(words.as_bytes(), &self.address);
    }

    /// Says that the node is ready, then again and again that it is alive. It runs beside the node
    /// on the same thread: if that hangs, nothing is said, and systemd starts the node again.
    pub(crate) async fn run(self) {
        self.say("READY=1");
        let Some(every) = self.every else { return };
        loop {
            self.say("WATCHDOG=1");
            tokio::time::sleep(every).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn systemd_hears_that_the_node_is_ready_and_alive() {
        let path = std::env::temp_dir().join(format!("consenso-notify-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let systemd = UnixDatagram::bind(&path).unwrap();
        let watchdog = Watchdog::new(path.as_os_str().as_bytes(), Some(3000)).unwrap();
        let beside = tokio::spawn(watchdog.run());
        systemd.set_nonblocking(true).unwrap();
        let (mut heard, mut buffer) = (Vec::new(), [0; 64]);
        let four = async {
            while heard.len() < 4 {
                match systemd.recv(&mut buffer) {
                    Ok(n) => heard.push(String::from_utf8_lossy(&buffer[..n]).into_owned()),
                    Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
                }
            }
        };
        // However busy the machine is.
        tokio::time::timeout(Duration::from_secs(60), four).await.unwrap();
        beside.abort();
        assert_eq!(heard[0], "READY=1");
        assert!(heard[1..].iter().all(|word| word == "WATCHDOG=1"), "{heard:?}");
        std::fs::remove_file(&path).unwrap();
    }
}
