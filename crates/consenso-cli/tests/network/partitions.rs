//! A network that falls into two, and what each half says of its model.

use crate::{Net, Process, experiment, finish, ports, text};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(180);

/// A cable that can be pulled: how often somebody came through since it was put back.
#[derive(Default)]
struct Cable {
    pulled: AtomicBool,
    calls: AtomicUsize,
}

fn cable(port: u16, target: u16, cable: Arc<Cable>) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            cable.calls.fetch_add(1, Relaxed);
            let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let cable = Arc::clone(&cable);
                from.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
                std::thread::spawn(move || {
                    let mut buffer = [0; 16 << 10];
                    loop {
                        if cable.pulled.load(Relaxed) {
                            break;
                        }
                        match from.read(&mut buffer) {
                            Ok(read @ 1..) if to.write_all(&buffer[..read]).is_ok() => {}
                            Err(e) if matches!(e.kind(), std::io::ErrorKind::WouldBlock) => {}
                            _ => break,
                        }
                    }
                    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
                });
            }
        }
    });
}

/// Two models 31 apart, both "done"; and healed edges called each other 24 times a second.
#[test]
fn halves_of_a_network_say_whose_model_theirs_is_not_and_leave_each_other_alone() {
    let study = experiment(4, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 200000\ngossip = 0");
    let net = Net::new("halves", 4, &study, "seed");
    let both = Arc::new(Cable::default());
    for caller in [2, 3] {
        let path = net.folder(caller).join("peers.toml");
        let mut peers: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        for peer in peers["site"].as_array_mut().unwrap().iter_mut().take(2) {
            let address = peer["address"].as_str().unwrap().to_owned();
            let (port, target) =
                (ports(1)[0], address.rsplit(':').next().unwrap().parse().unwrap());
            cable(port, target, Arc::clone(&both));
            peer.as_table_mut()
                .unwrap()
                .insert("address".into(), format!("127.0.0.1:{port}").into());
        }
        fs::write(path, peers.to_string()).unwrap();
    }
    for site in 0..4 {
        net.set(site, "away", "continue-without");
        net.set(site, "deadline_seconds", 4.0);
    }
    let mut all = net.start_all();
    let wait = |what: &str, found: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !found() {
            assert!(began.elapsed() < LIMIT, "{what}: not in time");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("rounds", &|| net.audit_len(0) > 60);
    both.pulled.store(true, Relaxed);
    let alone =
        |site: usize| net.audit(site).iter().filter(|l| l["event"] == "without").count() == 2;
    // A line may be half written while it is read.
    let alone = |site: usize| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| alone(site))).unwrap_or(false)
    };
    wait("halves", &|| (0..4).all(alone));
    // The cable is put back. Nobody wants the other half any more, and nobody calls it all the
    // time.
    both.pulled.store(false, Relaxed);
    std::thread::sleep(Duration::from_secs(6));
    both.calls.store(0, Relaxed);
    std::thread::sleep(Duration::from_secs(5));
    let calls = both.calls.load(Relaxed);
    assert!(calls <= 20, "{calls} calls over four edges in five seconds");
    all.iter_mut().for_each(Process::terminate);
    for (site, end) in finish(all, LIMIT).iter().enumerate() {
        assert_eq!(end["everybodys_model"], false, "{end}");
        assert_eq!(end["without"].as_array().map(Vec::len), Some(2), "{site}: {end}");
    }
}

/// A model that was made without somebody says so, whoever reads it.
#[test]
fn a_model_that_was_made_without_somebody_is_not_everybodys() {
    let study = experiment(3, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 2000\ngossip = 2");
    let net = Net::new("not-everybodys", 3, &study, "seed");
    (0..3).for_each(|site| {
        net.set(site, "away", "continue-without");
        net.set(site, "deadline_seconds", 3.0);
    });
    let mut all = net.start_all();
    let began = Instant::now();
    while net.audit_len(0) < 40 {
        assert!(began.elapsed() < LIMIT, "rounds");
        std::thread::sleep(Duration::from_millis(10));
    }
    all.remove(2).kill();
    for end in finish(all, LIMIT) {
        let expected: (Value, Value) = (serde_json::json!(["site-2"]), false.into());
        assert_eq!(
            (&end["without"], &end["everybodys_model"]),
            (&expected.0, &expected.1),
            "{end}"
        );
        assert_eq!((&end["round"], &end["one_model"]), (&2002.into(), &false.into()), "{end}");
    }
    let whole = Net::new(
        "everybodys",
        2,
        &experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5"),
        "seed",
    );
    assert!(finish(whole.start_all(), LIMIT).iter().all(|end| end["everybodys_model"] == true));
}

/// A key that is not believed any more must not go on over the link it has.
#[test]
fn a_replaced_pin_ends_the_live_link() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 200000\ngossip = 0");
    let net = Net::new("pins", 2, &study, "seed");
    let mut all = net.start_all();
    let wait = |what: &str, found: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !found() {
            assert!(began.elapsed() < Duration::from_secs(60), "{what}: not in time");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait("rounds", &|| net.audit_len(0) > 40);
    let path = net.folder(0).join("peers.toml");
    let before = fs::read_to_string(&path).unwrap();
    let mut peers: toml::Table = before.parse().unwrap();
    let peer = peers["site"].as_array_mut().unwrap()[1].as_table_mut().unwrap();
    peer.insert("pin".into(), "0".repeat(64).into());
    fs::write(&path, peers.to_string()).unwrap();
    let log = || fs::read_to_string(net.folder(0).join("audit.jsonl")).unwrap();
    wait("the link is cut", &|| log().contains("the pin of its key was replaced in peers.toml"));
    let quiet = net.audit_len(1);
    std::thread::sleep(Duration::from_secs(1));
    let received =
        |from: usize| net.audit(1)[from..].iter().filter(|l| l["event"] == "received").count();
    assert!(received(quiet.saturating_sub(1)) <= 2, "nothing passes any more");
    // The right pin again, and the run goes on.
    fs::write(&path, before).unwrap();
    let lines = net.audit_len(1);
    wait("more rounds", &|| net.audit_len(1) > lines + 40);
    all.iter_mut().for_each(Process::terminate);
    finish(all, LIMIT);
}

/// A key on the list of revoked ones is out, whatever peers.toml says; and a Job must not take a
/// stop for the end of its study.
#[test]
fn a_revoked_key_is_out_and_a_stop_is_not_the_end() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 200000\ngossip = 0");
    let net = Net::new("revoked", 2, &study, "seed");
    let folder = net.folder(0);
    let mut job = Process(Some(
        crate::consenso()
            .args(["node", "run", "--json", "--until-done"])
            .arg(&folder)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    ));
    let mut other = net.start(1);
    let began = Instant::now();
    while net.audit_len(0) < 40 {
        assert!(began.elapsed() < LIMIT, "rounds");
        std::thread::sleep(Duration::from_millis(10));
    }
    let peers: toml::Table =
        fs::read_to_string(folder.join("peers.toml")).unwrap().parse().unwrap();
    let pin = peers["site"].as_array().unwrap()[1]["pin"].as_str().unwrap().to_owned();
    fs::write(folder.join("revoked.txt"), format!("# lost with a laptop\n\n{pin}  # site-1\n"))
        .unwrap();
    let log = || fs::read_to_string(folder.join("audit.jsonl")).unwrap();
    while !log().contains("its key is revoked (revoked.txt, line 3)") {
        assert!(began.elapsed() < LIMIT, "the link is cut");
        std::thread::sleep(Duration::from_millis(50));
    }
    job.terminate();
    let output = job.output();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("before the model was ready"), "{}", text(&output));
    other.kill();
}

/// Two sites of one host with one port for metrics passed every check, and one of them did not
/// start.
#[test]
fn doctor_sees_a_metrics_port_that_is_taken_twice() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5");
    let net = Net::new("metrics-clash", 2, &study, "seed");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    net.set(0, "metrics", taken.local_addr().unwrap().to_string());
    let doctor = |site: usize| {
        crate::consenso().args(["node", "doctor"]).arg(net.folder(site)).output().unwrap()
    };
    let said = doctor(0);
    assert!(!said.status.success() && text(&said).contains("metrics"), "{}", text(&said));
    let site: toml::Table =
        fs::read_to_string(net.folder(1).join("site.toml")).unwrap().parse().unwrap();
    net.set(1, "metrics", site["listen"].as_str().unwrap().to_owned());
    let said = doctor(1);
    assert!(
        !said.status.success() && text(&said).contains("they need two ports"),
        "{}",
        text(&said)
    );
}
