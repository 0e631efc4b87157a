//! A network that misbehaves: our own small proxy between the processes delays, throttles, resets,
//! stalls and cuts.

use crate::{Net, experiment, finish, ports, simulated, text};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PASS: u8 = 0;
/// Every piece 20 ms late.
const DELAY: u8 = 1;
/// A hundred bytes every millisecond.
const THROTTLE: u8 = 2;
/// Every connection is closed at once.
const RESET: u8 = 3;
/// Nothing passes towards the one that is called; it waits in the proxy.
const ONE_WAY: u8 = 4;
/// Nothing passes at all.
const TWO_WAY: u8 = 5;
/// What comes is swallowed, and nobody is told: a connection that only looks open.
const HALF_OPEN: u8 = 6;

/// What passed through the proxies, both ways.
pub(crate) type Recording = Arc<Mutex<Vec<u8>>>;

/// Forwards connections to `target`, in the manner of `mode`.
fn proxy(port: u16, target: u16, mode: Arc<AtomicU8>, record: Recording) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
            for (from, to, towards) in [(&client, &server, true), (&server, &client, false)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let (mode, record) = (Arc::clone(&mode), Arc::clone(&record));
                std::thread::spawn(move || pump(from, to, towards, &mode, &record));
            }
        }
    });
}

fn pump(
    mut from: TcpStream,
    mut to: TcpStream,
    towards: bool,
    mode: &AtomicU8,
    record: &Recording,
) {
    from.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    to.set_nodelay(true).unwrap();
    let mut buffer = [0; 16 << 10];
    let mut swallow = false;
    loop {
        let now = mode.load(Relaxed);
        swallow |= now == HALF_OPEN;
        if now == RESET {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            return;
        }
        if now == TWO_WAY || (now == ONE_WAY && towards) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        let room = if now == THROTTLE { 100 } else { buffer.len() };
        let read = match from.read(&mut buffer[..room]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                continue;
            }
            Err(_) => break,
        };
        if swallow {
            continue;
        }
        std::thread::sleep(Duration::from_millis(match now {
            DELAY => 20,
            THROTTLE => 1,
            _ => 0,
        }));
        record.lock().unwrap().extend_from_slice(&buffer[..read]);
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Has everybody call another port than the one where a site is called now:
/// `stand(site, port, target)` listens there.
pub(crate) fn before_every_site(net: &Net, mut stand: impl FnMut(usize, u16, u16)) {
    let sites = net.names.len();
    let path = net.folder(0).join("peers.toml");
    let mut peers: toml::Table = fs::read_to_string(path).unwrap().parse().unwrap();
    let all = peers["site"].as_array_mut().unwrap().iter_mut();
    for (site, (peer, port)) in all.zip(ports(sites)).enumerate() {
        let address = peer["address"].as_str().unwrap().to_owned();
        let target = address.rsplit(':').next().unwrap().parse().unwrap();
        stand(site, port, target);
        peer.as_table_mut().unwrap().insert("address".into(), format!("127.0.0.1:{port}").into());
    }
    (0..sites).for_each(|site| {
        fs::write(net.folder(site).join("peers.toml"), peers.to_string()).unwrap();
    });
}

/// Puts a proxy before every site.
pub(crate) fn behind_proxies(net: &Net) -> (Arc<AtomicU8>, Recording) {
    let (mode, record) = (Arc::new(AtomicU8::new(PASS)), Recording::default());
    before_every_site(net, |_, port, target| {
        proxy(port, target, Arc::clone(&mode), Arc::clone(&record));
    });
    (mode, record)
}

fn count(net: &Net, event: &str) -> usize {
    (0..net.names.len())
        .map(|site| net.audit(site).iter().filter(|l| l["event"] == event).count())
        .sum()
}

#[test]
fn a_run_through_a_bad_network_ends_with_the_same_bits() {
    let net = Net::new(
        "faults",
        3,
        &experiment(3, "kind = \"ring\"", "kind = \"admm\"\nrounds = 3000\ngossip = 2"),
        "seed",
    );
    (0..3).for_each(|site| net.set(site, "keep_alive_seconds", 0.3));
    let (mode, record) = behind_proxies(&net);
    let mut processes = net.start_all();
    // A fixed time would be the whole run on a fast disk.
    let log = |site| fs::read_to_string(net.folder(site).join("audit.jsonl")).unwrap_or_default();
    let connected = |site| log(site).contains("\"link-up\"");
    while !(0..3).all(connected) {
        std::thread::sleep(Duration::from_millis(5));
        if let Some(ended) = processes.iter_mut().position(|process| !process.is_running()) {
            let words = text(&processes.swap_remove(ended).output());
            panic!("site {ended} ended before all had a link: {words}");
        }
    }
    let mut disturbed = 0;
    for (fault, milliseconds) in [
        (DELAY, 300),
        (THROTTLE, 300),
        (RESET, 30),
        (PASS, 200),
        (RESET, 30),
        (ONE_WAY, 400),
        (PASS, 100),
        (TWO_WAY, 400),
        (PASS, 100),
        (HALF_OPEN, 50),
    ] {
        mode.store(fault, Relaxed);
        std::thread::sleep(Duration::from_millis(milliseconds));
        disturbed += u32::from(processes.iter_mut().any(super::Process::is_running));
    }
    mode.store(PASS, Relaxed);
    finish(processes, Duration::from_secs(120));
    assert!(disturbed >= 6, "the run was over too soon: {disturbed}");
    assert!(count(&net, "link-down") >= 6, "{} links went down", count(&net, "link-down"));
    assert_eq!((net.transcript(), net.models()), simulated(&net));
    net.assert_one_payload_a_round();
    secret(&net, &record.lock().unwrap());
}

/// Nothing that was released can be found in what passed by, although all of it did.
fn secret(net: &Net, record: &[u8]) {
    assert!(record.len() > 100_000, "{} bytes", record.len());
    for site in 0..net.names.len() {
        let store = consenso_node::store::Store::look(&net.folder(site)).unwrap();
        for (round, bytes) in store.outbox(1).unwrap() {
            // Two numbers of the vector: sixteen bytes do not turn up by chance.
            let part = &bytes[13..29];
            assert!(!record.windows(16).any(|w| w == part), "round {round} of {site} is readable");
        }
    }
    let study = consenso_node::Folder::read(&net.folder(0)).unwrap().study;
    assert!(!record.windows(32).any(|w| w == study), "the study's hash is readable");
}
