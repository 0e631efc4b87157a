//! Who is not let in, and that the run is unharmed by it.

use crate::{Net, consenso, experiment, finish, ports, simulated, start, text};
use consenso_node::frame::Hex;
use consenso_node::identity::{
    Authority, CERTIFICATE, Issued, KEY, Validity, pin_of_file, write_secret,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

fn authority(net: &Net) -> Authority {
    let read = |name: &str| fs::read_to_string(net.root.join(name)).unwrap();
    Authority::from_pem(&read("authority.pem"), &read("authority-key.pem")).unwrap()
}

fn install(folder: &Path, issued: &Issued) {
    fs::remove_file(folder.join(KEY)).unwrap();
    write_secret(&folder.join(KEY), &issued.key).unwrap();
    fs::write(folder.join(CERTIFICATE), &issued.certificate).unwrap();
}

/// Puts the pin of a site's certificate into everybody's `peers.toml`.
fn announce(net: &Net, site: usize) {
    let pin = Hex(&pin_of_file(&net.folder(site).join(CERTIFICATE)).unwrap()).to_string();
    for other in 0..net.names.len() {
        let path = net.folder(other).join("peers.toml");
        let mut peers: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        peers["site"].as_array_mut().unwrap()[site]["pin"] = pin.clone().into();
        fs::write(path, peers.to_string()).unwrap();
    }
}

/// A copy of a site's folder that says something else.
fn impostor(net: &Net, site: usize, name: &str) -> PathBuf {
    let folder = net.root.join(name);
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(net.folder(site)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    // It only calls: its port belongs to the one it pretends to be.
    let path = folder.join("site.toml");
    let mut table: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
    table.remove("listen");
    fs::write(path, table.to_string()).unwrap();
    folder
}

fn edit(folder: &Path, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(folder.join(file)).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(folder.join(file), text.replace(from, to)).unwrap();
}

fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let began = Instant::now();
    while !there() {
        assert!(began.elapsed() < LIMIT, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lines of an impostor's audit log.
fn log(folder: &Path) -> String {
    fs::read_to_string(folder.join("audit.jsonl")).unwrap_or_default()
}

#[test]
fn impostors_are_refused_on_both_sides_and_the_run_is_unharmed() {
    let net = Net::new(
        "impostors",
        3,
        &experiment(3, "kind = \"path\"", "kind = \"dgd\"\nrounds = 40\ngossip = 1"),
        "seed",
    );
    // Signed by the same authority, with the right name, but a key that nobody listed.
    let unlisted = impostor(&net, 1, "unlisted");
    install(&unlisted, &authority(&net).issue("site-1", Validity::default()).unwrap());
    // A site of the study that has no edge to site-0.
    let wrong_edge = impostor(&net, 2, "wrong-edge");
    edit(&wrong_edge, "experiment.toml", "kind = \"path\"", "kind = \"complete\"");
    // The right site with another study, and with other peers.
    let other_study = impostor(&net, 1, "other-study");
    edit(&other_study, "experiment.toml", "rounds = 40", "rounds = 41");
    // A certificate of nobody's authority.
    let stranger = impostor(&net, 1, "stranger");
    install(&stranger, &Authority::new().unwrap().issue("site-1", Validity::default()).unwrap());

    let honest = net.start(0);
    wait_for("site-0 listens", || log(&net.folder(0)).contains("\"start\""));
    for (folder, here, there) in [
        (&unlisted, "is not listed in peers.toml", "refused"),
        (&wrong_edge, "site-2 is no neighbour of site-0", "it refused: site-2 is no neighbour"),
        (
            &other_study,
            "algorithm.1.rounds: 40 here, 41 there",
            "algorithm.1.rounds: 41 here, 40 there",
        ),
        (&stranger, "invalid peer certificate", "refused"),
    ] {
        let process = start(folder);
        wait_for(here, || net.reasons(0).iter().any(|r| r.contains(here)));
        wait_for(there, || log(folder).contains(there));
        drop(process);
        assert!(!log(folder).contains("\"link-up\""), "{}", log(folder));
    }
    assert!(!log(&net.folder(0)).contains("\"link-up\""));
    finish(vec![honest, net.start(1), net.start(2)], LIMIT);
    assert_eq!((net.transcript(), net.models()), simulated(&net));
}

#[test]
fn an_expired_certificate_is_refused_and_replaced_without_a_restart() {
    let net = Net::new(
        "expired",
        2,
        &experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 20\ngossip = 0"),
        "seed",
    );
    let expired = authority(&net).issue("site-1", Validity { from: -10, until: -2 }).unwrap();
    install(&net.folder(1), &expired);
    announce(&net, 1);
    let children = net.start_all();
    wait_for("refused here", || {
        net.folder(0).join("audit.jsonl").exists()
            && net.reasons(0).iter().any(|r| r.contains("certificate expired"))
    });
    wait_for("refused there", || net.reasons(1).iter().any(|r| r.starts_with("site-0")));
    install(&net.folder(1), &authority(&net).issue("site-1", Validity::default()).unwrap());
    announce(&net, 1);
    finish(children, LIMIT);
    assert_eq!((net.transcript(), net.models()), simulated(&net));
}

#[test]
fn there_is_no_start_with_an_exposed_key_or_without_certificates() {
    use std::os::unix::fs::PermissionsExt as _;
    let net = Net::new(
        "no-start",
        2,
        &experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5"),
        "os",
    );
    let refused = |what: &str| {
        let output = net.start(0).output();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(what), "{}", text(&output));
        assert!(!net.folder(0).join("state.db").exists(), "nothing was begun");
    };
    fs::set_permissions(net.folder(0).join(KEY), fs::Permissions::from_mode(0o644)).unwrap();
    refused("chmod 600");
    fs::set_permissions(net.folder(0).join(KEY), fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(net.folder(0).join(CERTIFICATE), net.folder(0).join("away")).unwrap();
    refused("certificate.pem");
}

/// Sites that sign their own certificates and trust each other's, as the guide has it: only
/// certificates travel.
#[test]
fn sites_can_do_without_an_authority() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("network-own-keys");
    let _ = fs::remove_dir_all(&place);
    fs::create_dir_all(&place).unwrap();
    let algorithm = "kind = \"dgd\"\nrounds = 10\ngossip = 0";
    fs::write(place.join("study.toml"), experiment(2, "kind = \"complete\"", algorithm)).unwrap();
    let run = |arguments: &[&str]| consenso().current_dir(&place).args(arguments).output().unwrap();
    // All at once: a port that was let go may be given out again.
    let mut addresses: Vec<String> = ports(4).iter().map(|p| format!("127.0.0.1:{p}")).collect();
    let metrics = addresses.split_off(2);
    for (name, listen) in ["site-0", "site-1"].iter().zip(&addresses) {
        let made = run(&["node", "init", name, "--name", name, "--listen", listen]);
        assert!(made.status.success(), "{}", text(&made));
    }
    let new = |folder: &str, certificates: &str| {
        let sites =
            ["network", "new", folder, "--sites", "site-0,site-1", "--experiment", "study.toml"];
        let both = addresses.join(",");
        run(&[&sites[..], &["--addresses", &both, "--certificates", certificates]].concat())
    };
    let swapped = new("net", "site-1/certificate.pem,site-0/certificate.pem");
    assert_eq!(swapped.status.code(), Some(2));
    assert!(text(&swapped).contains("is no certificate of site site-0"), "{}", text(&swapped));
    let leaf = Authority::new().unwrap().issue("site-0", Validity::default()).unwrap();
    fs::write(place.join("leaf.pem"), leaf.certificate).unwrap();
    let alone = new("net", "leaf.pem,site-1/certificate.pem");
    assert_eq!(alone.status.code(), Some(2));
    assert!(text(&alone).contains("must come after it in the file"), "{}", text(&alone));
    let shared = new("net", "site-0/certificate.pem,site-1/certificate.pem");
    assert!(shared.status.success(), "{}", text(&shared));
    let net = Net { root: place, names: vec!["site-0".into(), "site-1".into()] };
    for (site, metrics) in metrics.iter().enumerate() {
        for file in fs::read_dir(net.root.join("net")).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), net.folder(site).join(file.file_name())).unwrap();
        }
        net.set(site, "entropy", "seed");
        net.set(site, "metrics", metrics.clone());
    }
    finish(net.start_all(), LIMIT);
    assert_eq!((net.transcript(), net.models()), simulated(&net));
}

/// What the doctor says of a site: before the other is there, while it runs, and when one of them
/// is wrong.
#[test]
fn the_doctor_calls_the_neighbours_and_says_what_is_wrong() {
    let net = Net::new(
        "doctor",
        2,
        &experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 5"),
        "os",
    );
    let doctor = |check: &str| {
        let output =
            consenso().args(["--json", "node", "doctor"]).arg(net.folder(1)).output().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let one = found["checks"].as_array().unwrap().iter().find(|c| c["check"] == check).unwrap();
        (output.status.code(), one["wait"] == true, one["text"].as_str().unwrap().to_owned())
    };
    let (code, wait, said) = doctor("neighbour");
    assert!(code == Some(0) && wait && said.contains("nobody listens there"), "{said}");
    let first = net.start(0);
    wait_for("site-0 listens", || log(&net.folder(0)).contains("\"start\""));
    let (code, wait, said) = doctor("neighbour");
    assert!(code == Some(0) && !wait && said.contains("each believes the other"), "{said}");
    // A key that site-0 does not know of: it is the other end that says no.
    let ours = net.folder(1);
    install(&ours, &authority(&net).issue("site-1", Validity::default()).unwrap());
    let (code, _, said) = doctor("neighbour");
    assert!(code == Some(1) && said.contains("alert"), "{said}");
    assert!(doctor("pin").2.contains("is not the one in peers.toml"));
    install(&ours, &authority(&net).issue("site-1", Validity { from: -10, until: 0 }).unwrap());
    assert!(doctor("certificate").2.starts_with("expired at "));
    install(&ours, &authority(&net).issue("site-1", Validity { from: 2, until: 9 }).unwrap());
    assert!(doctor("certificate").2.starts_with("not valid before "));
    install(&ours, &authority(&net).issue("site-1", Validity::default()).unwrap());
    announce(&net, 1);
    finish(vec![first, net.start(1)], LIMIT);
}

#[test]
fn a_neighbour_that_is_away_is_waited_for_or_done_without() {
    let algorithm = "kind = \"dgd\"\nrounds = 30\ngossip = 1";
    let net = Net::new("away", 3, &experiment(3, "kind = \"path\"", algorithm), "seed");
    (0..3).for_each(|site| net.set(site, "deadline_seconds", 1.0));
    // wait: the one in the middle gives up after the deadline, with its state kept.
    let (first, middle) = (net.start(0), net.start(1));
    let output = middle.output();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("site-2 not heard of for 1 s"), "{}", text(&output));
    drop(first);
    // continue-without: it goes on with the others, and the ledger says so.
    net.set(0, "deadline_seconds", 60.0);
    net.set(1, "away", "continue-without");
    finish(vec![net.start(0), net.start(1)], LIMIT);
    let absent = net.ledger(1).into_iter().find_map(|e| match e {
        consenso_node::store::Entry::Absent { round, neighbour, weight } => {
            Some((round, neighbour, weight))
        }
        _ => None,
    });
    assert_eq!(absent, Some((1, 2, 1.0 / 3.0)));
    assert_eq!(net.transcript().keys().filter(|k| k.0 < 2).count(), 62);
}
