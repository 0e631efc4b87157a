//! What an operator sees and may set: logs for machines, words for failures, keys that are replaced,
//! proxies, strangers.

use crate::{Net, Process, budget, consenso, experiment, finish, start, text};
use consenso_node::frame::Hex;
use consenso_node::identity::{CERTIFICATE, KEY, TRUST, Validity, pin_of_file, self_signed};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

fn pair(test: &str) -> Net {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 8\ngossip = 0");
    Net::new(test, 2, &study, "seed")
}

fn under_json(arguments: &[&str]) -> Process {
    let child = consenso()
        .args(["node", "run", "--log", "json"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    Process(Some(child.unwrap()))
}

/// Every line on stderr, each an object with a time and an event.
fn events(output: &Output) -> Vec<Value> {
    let said = String::from_utf8_lossy(&output.stderr);
    let line =
        |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|_| panic!("{line}"));
    let all: Vec<Value> = said.lines().map(line).collect();
    assert!(all.iter().all(|l| l["time"].is_string() && l["event"].is_string()), "{said}");
    all
}

/// Warnings and errors were text among the JSON lines: whatever collected them lost them.
#[test]
fn every_line_under_log_json_is_json_errors_too() {
    let net = pair("json-log");
    let folder = |site: usize| net.folder(site).display().to_string();
    for (arguments, code, said) in [
        (vec!["/nowhere"], 2, "/nowhere"),
        (vec!["--no-such-option", "/nowhere"], 2, "--no-such-option"),
        (vec![], 2, "required"),
    ] {
        let output = under_json(&arguments).output();
        let all = events(&output);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        let last = all.last().unwrap();
        assert_eq!(last["event"], "error");
        assert!(last["message"].as_str().unwrap().contains(said), "{last}");
    }
    // Alone: it gives up, with a warning at first and an error in the end.
    net.set(0, "deadline_seconds", 1.0);
    let output = under_json(&[&folder(0)]).output();
    let all = events(&output);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let found = |event: &str| all.iter().any(|line| line["event"] == event);
    assert!(found("warning") && found("start") && found("away") && found("error"), "{all:?}");
    // Together: nothing but JSON either.
    net.set(0, "deadline_seconds", 60.0);
    let both = [under_json(&[&folder(0)]), under_json(&[&folder(1)])];
    for process in both {
        let output = process.output();
        assert!(output.status.success(), "{}", text(&output));
        assert!(events(&output).iter().any(|line| line["event"] == "done"));
    }
}

/// Gives a site a new key and a certificate that it signed itself.
fn new_key(folder: &Path, name: &str, validity: Validity) {
    let made = self_signed(name, validity).unwrap();
    fs::write(folder.join(KEY), &made.key).unwrap();
    fs::write(folder.join(CERTIFICATE), &made.certificate).unwrap();
}

fn trust_also(folder: &Path, certificate: &Path) {
    let all =
        fs::read_to_string(folder.join(TRUST)).unwrap() + &fs::read_to_string(certificate).unwrap();
    fs::write(folder.join(TRUST), all).unwrap();
}

/// A key could be replaced only by all sites at the same moment.
#[test]
fn two_pins_of_a_peer_are_believed_while_keys_are_replaced() {
    let net = pair("two-pins");
    let (here, there) = (net.folder(0), net.folder(1));
    let old = (fs::read(there.join(KEY)).unwrap(), fs::read(there.join(CERTIFICATE)).unwrap());
    new_key(&there, "site-1", Validity::default());
    let new = (fs::read(there.join(KEY)).unwrap(), fs::read(there.join(CERTIFICATE)).unwrap());
    let pin = Hex(&pin_of_file(&there.join(CERTIFICATE)).unwrap()).to_string();
    // The others write the next pin down beforehand, and trust the new certificate.
    for folder in [&here, &there] {
        let path = folder.join("peers.toml");
        let mut peers: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        let site = peers["site"].as_array_mut().unwrap()[1].as_table_mut().unwrap();
        site.insert("next_pin".into(), pin.clone().into());
        fs::write(path, peers.to_string()).unwrap();
        trust_also(folder, &there.join(CERTIFICATE));
    }
    let put = |(key, certificate): &(Vec<u8>, Vec<u8>)| {
        fs::write(there.join(KEY), key).unwrap();
        fs::write(there.join(CERTIFICATE), certificate).unwrap();
    };
    put(&old);
    let doctor = consenso().args(["node", "doctor"]).arg(&there).output().unwrap();
    assert!(text(&doctor).contains("as in peers.toml"), "{}", text(&doctor));
    finish(net.start_all(), LIMIT);
    for folder in [&here, &there] {
        for file in ["state.db", "audit.jsonl"] {
            fs::remove_file(folder.join(file)).unwrap();
        }
        for file in fs::read_dir(folder).unwrap().flatten() {
            if file.file_name().to_string_lossy().starts_with("held-") {
                fs::remove_file(file.path()).unwrap();
            }
        }
    }
    put(&new);
    finish(net.start_all(), LIMIT);
}

/// Neighbours said that they do not believe it, and nobody said why.
#[test]
fn a_site_whose_own_certificate_has_expired_says_so() {
    let net = pair("expired");
    let there = net.folder(1);
    new_key(&there, "site-1", Validity { from: -10, until: -2 });
    net.set(1, "deadline_seconds", 2.0);
    net.set(0, "deadline_seconds", 20.0);
    let other = net.start(0);
    let output = net.start(1).output();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let log = fs::read_to_string(there.join("audit.jsonl")).unwrap();
    assert!(log.contains("\"event\":\"certificate-expired\""), "{log}");
    assert!(log.contains("this site's own certificate ended"), "{log}");
    drop(other);
}

/// An HTTP proxy that lets everybody through, and how many it let.
fn proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let passed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&passed);
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            std::thread::spawn(move || pass(near, &count));
        }
    });
    (address, passed)
}

fn pass(mut near: TcpStream, count: &AtomicUsize) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        near.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).ok()?;
    let far = TcpStream::connect(head.strip_prefix("CONNECT ")?.split_whitespace().next()?).ok()?;
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    count.fetch_add(1, Ordering::Relaxed);
    let (mut from, mut to) = (near.try_clone().ok()?, far.try_clone().ok()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut from, mut to) = (far, near);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    Some(())
}

#[test]
fn a_site_behind_an_http_proxy_takes_part() {
    let net = pair("proxy");
    let (address, passed) = proxy();
    // The one with the larger number calls.
    net.set(1, "proxy", address);
    finish(net.start_all(), LIMIT);
    assert!(passed.load(Ordering::Relaxed) >= 1);
    net.set(1, "proxy", "proxy.example.org");
    let refused = net.start(1).output();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    assert!(text(&refused).contains("must be http://"), "{}", text(&refused));
}

/// A fresh budget began without a word.
#[test]
fn records_that_were_moved_without_their_ledger_are_spoken_of() {
    let place = budget::files("moved-records", 1.0);
    let net = budget::network(&place, "n1", &[]);
    let first = net.start_all();
    for process in first {
        let output = process.output();
        assert!(output.status.success(), "{}", text(&output));
        assert!(
            text(&output).contains("has no ledger of what its records have cost"),
            "{}",
            text(&output)
        );
    }
    let again = net.start(0).output();
    assert!(!text(&again).contains("has no ledger"), "{}", text(&again));
    let kept = place.join(consenso_ledger::FOLDER);
    fs::rename(&kept, place.join("elsewhere")).unwrap();
    let moved = net.start(0).output();
    assert!(text(&moved).contains("moved or copied here without it"), "{}", text(&moved));
}

/// The PIN of a hardware module stood in the argument list, which every user of a machine can read.
#[test]
fn the_pin_of_a_module_is_in_no_argument_list() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pkcs11-arguments");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    // In the place of the tool: what it was asked, and whether it could know the PIN.
    let tool = "#!/bin/sh\necho \"$@\" > \"$SEEN\"\necho \"$PKCS11_PIN\" > \"$SEEN.pin\"\nwhile test $# -gt 0; do if test \"$1\" = --output-file; then echo signed > \"$2\"; fi; shift; done\n";
    fs::write(place.join("pkcs11-tool"), tool).unwrap();
    fs::set_permissions(
        place.join("pkcs11-tool"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    fs::write(place.join("pin"), "314159\n").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/pkcs11-sign.sh");
    let path = format!("{}:{}", place.display(), std::env::var("PATH").unwrap());
    let output = std::process::Command::new("sh")
        .arg(script)
        .env("PATH", path)
        .env("SEEN", place.join("seen"))
        .env("PKCS11_MODULE", "module.so")
        .env("PKCS11_PIN_FILE", place.join("pin"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(output.stdout, b"signed\n");
    let seen = fs::read_to_string(place.join("seen")).unwrap();
    assert!(seen.contains("env:PKCS11_PIN") && !seen.contains("314159"), "{seen}");
    assert_eq!(fs::read_to_string(place.join("seen.pin")).unwrap(), "314159\n");
}

/// Releases of a site in `seconds`, with so many connections of strangers per second meanwhile.
fn releases(net: &Net, seconds: f64, connects: usize) -> f64 {
    let over = Arc::new(AtomicBool::new(false));
    let table: toml::Table =
        fs::read_to_string(net.folder(0).join("site.toml")).unwrap().parse().unwrap();
    let address = table["listen"].as_str().unwrap().to_owned();
    let ended = Arc::clone(&over);
    let strangers = std::thread::spawn(move || {
        let began = Instant::now();
        let mut made = 0;
        while !ended.load(Ordering::Relaxed) {
            while made < (began.elapsed().as_secs_f64() * connects as f64) as usize {
                made += 1;
                // What a client that speaks TLS says first, as far as its length.
                if let Ok(mut stream) = TcpStream::connect(&address) {
                    let _ = stream.write_all(&[22, 3, 1, 2, 0]);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let before = net.audit_len(0);
    let began = Instant::now();
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let rate = (net.audit_len(0) - before) as f64 / began.elapsed().as_secs_f64();
    over.store(true, Ordering::Relaxed);
    strangers.join().unwrap();
    rate
}

/// A hundred connections a second took 145 rounds a second to 5.7.
#[test]
#[ignore = "half a minute on a machine that does nothing else: cargo xtask soak"]
fn a_hundred_connects_a_second_cost_less_than_a_tenth_of_the_rounds() {
    let study =
        experiment(3, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 1000000\ngossip = 0");
    let net = Net::new("connects", 3, &study, "seed");
    let all: Vec<Process> = (0..3).map(|site| start(&net.folder(site))).collect();
    let until = Instant::now() + Duration::from_secs(60);
    while net.audit_len(0) < 200 {
        assert!(Instant::now() < until, "no rounds");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The first burst of an address is answered whatever its rate: it is over before counting.
    releases(&net, 3.0, 100);
    let (mut alone, mut beset) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        alone.push(releases(&net, 2.0, 0));
        beset.push(releases(&net, 2.0, 100));
    }
    drop(all);
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (alone, beset) = (median(&mut alone), median(&mut beset));
    eprintln!("lines of the log per second: {alone:.0} alone, {beset:.0} with 100 connects/s");
    assert!(beset > 0.9 * alone, "{alone:.0} {beset:.0}");
}
