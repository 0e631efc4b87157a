//! Slow links, on loopback addresses with a delay of our own.

use crate::{Net, experiment, finish, ports};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const SITES: usize = 5;

/// Hands on what it gets, each piece as much later, however many are under way.
fn delayed(port: u16, target: u16, delay: Duration) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                to.set_nodelay(true).unwrap();
                let (sender, pieces) = mpsc::channel::<(Instant, Vec<u8>)>();
                std::thread::spawn(move || {
                    let mut buffer = [0; 16 << 10];
                    while let Ok(read @ 1..) = from.read(&mut buffer) {
                        if sender.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                            break;
                        }
                    }
                });
                std::thread::spawn(move || {
                    for (at, piece) in pieces {
                        std::thread::sleep(at.saturating_duration_since(Instant::now()));
                        if to.write_all(&piece).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
}

/// Seconds that a ring takes for its rounds when one edge takes `slow` and all others `usual`, and its models.
fn ring(test: &str, staleness: u32, usual: Duration, slow: Duration) -> (f64, Vec<Vec<u64>>) {
    let algorithm = format!("kind = \"dgd\"\nrounds = 120\ngossip = 4\nstaleness = {staleness}");
    let net = Net::new(test, SITES, &experiment(SITES, "kind = \"ring\"", &algorithm), "seed");
    for caller in 1..SITES {
        let path = net.folder(caller).join("peers.toml");
        let mut peers: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        for (called, peer) in peers["site"].as_array_mut().unwrap().iter_mut().enumerate().take(caller) {
            let address = peer["address"].as_str().unwrap().to_owned();
            let target = address.rsplit(':').next().unwrap().parse().unwrap();
            let (port, delay) = (ports(1)[0], if (called, caller) == (0, 1) { slow } else { usual });
            delayed(port, target, delay);
            peer.as_table_mut().unwrap().insert("address".into(), format!("127.0.0.1:{port}").into());
        }
        fs::write(path, peers.to_string()).unwrap();
    }
    let all = finish(net.start_all(), Duration::from_secs(180));
    let seconds = all.iter().map(|site| site["seconds"].as_f64().unwrap()).fold(0.0, f64::max);
    assert_eq!(net.transcript().len(), SITES * 124, "every release was charged once");
    (seconds, net.models())
}

/// One link ten times slower made everybody nine times slower.
#[test]
fn one_slow_link_does_not_make_everybody_slow() {
    let (usual, slow) = (Duration::from_millis(3), Duration::from_millis(30));
    let (waiting, _) = ring("straggler-waits", 0, usual, slow);
    let (passing, models) = ring("straggler-passes", 12, usual, slow);
    eprintln!(
        "124 rounds with one link of 30 ms among links of 3 ms: {waiting:.2} s, with staleness = 12 {passing:.2} s"
    );
    assert!(passing < 0.5 * waiting, "{passing} of {waiting}");
    assert_eq!(models.len(), SITES);
}
