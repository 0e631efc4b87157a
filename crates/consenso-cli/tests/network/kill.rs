//! `kill -9` at random moments: every run completes as if nothing had happened, and no round is
//! ever released twice.

use crate::recorder::Recorder;
use crate::{Net, experiment, finish, simulated};
use consenso_engine::random::{Purpose, Seed};
use consenso_node::store::Entry;
use std::time::{Duration, Instant};

/// Kills random processes at random moments and starts them again at once; then waits for the end.
/// How many were killed while running.
fn torment(net: &Net, kills: u32, pause_ms: std::ops::Range<u64>, schedule: u64) -> u32 {
    use rand::RngExt as _;
    let mut chance = Seed::from(schedule).stream(Purpose::Network, 0, 0);
    let mut processes = net.start_all();
    let mut killed = 0;
    let began = Instant::now();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_millis(chance.random_range(pause_ms.clone())));
        let victim = chance.random_range(0..processes.len());
        killed += u32::from(processes[victim].is_running());
        processes[victim].kill();
        processes[victim] = net.start(victim);
        assert!(began.elapsed() < Duration::from_secs(900));
    }
    finish(processes, Duration::from_secs(180));
    killed
}

/// Kills with a recorder between the processes. Every round passed on every edge with one payload,
/// however often it was sent.
pub(crate) fn recorded(
    net: &Net,
    kills: u32,
    pause_ms: std::ops::Range<u64>,
    schedule: u64,
) -> (u32, Recorder) {
    let recorder = Recorder::between(net);
    let began = Instant::now();
    let killed = torment(net, kills, pause_ms, schedule);
    let ((connections, resends), seconds) = (recorder.counts(), began.elapsed().as_secs_f64());
    eprintln!(
        "{killed} kills, {connections} connections, {resends} payloads again, {seconds:.1} s"
    );
    recorder.assert_one_payload_a_round(net);
    assert!(connections > net.experiment().graph().edges(), "nobody came back");
    (killed, recorder)
}

/// Kills, and compares all that is left with the simulation and with a run that nobody disturbed:
/// models, releases, and what every ledger charged.
fn compare(test: &str, study: &str, sites: usize, kills: (u32, std::ops::Range<u64>, u64)) -> u32 {
    let [net, calm] =
        [test.to_owned(), format!("{test}-calm")].map(|name| Net::new(&name, sites, study, "seed"));
    let (killed, _) = recorded(&net, kills.0, kills.1, kills.2);
    assert_eq!((net.transcript(), net.models()), simulated(&net));
    net.assert_one_payload_a_round();
    finish(calm.start_all(), Duration::from_secs(180));
    let charges = |net: &Net, site| -> Vec<_> {
        let release = |entry| match entry {
            Entry::Release { round, blake3, charge, .. } => Some((round, blake3, charge)),
            _ => None,
        };
        net.ledger(site).into_iter().filter_map(release).collect()
    };
    for site in 0..sites {
        assert_eq!(charges(&net, site), charges(&calm, site), "the ledger of {site}");
    }
    killed
}

#[test]
fn killed_processes_end_with_the_bits_of_an_undisturbed_run() {
    let study = experiment(4, "kind = \"ring\"", "kind = \"admm\"\nrounds = 1500\ngossip = 2");
    let killed = compare("kill", &study, 4, (12, 20..150, 1));
    assert!(killed >= 4, "the run was over too soon: {killed} kills");
}

/// With noise of the operating system a round drawn twice would have two payloads.
#[test]
fn killed_processes_never_draw_noise_twice() {
    let net = Net::new(
        "kill-os",
        3,
        &experiment(3, "kind = \"path\"", "kind = \"dgd\"\nrounds = 1500\ngossip = 2"),
        "os",
    );
    let (killed, _) = recorded(&net, 12, 20..150, 2);
    assert!(killed >= 4, "the run was over too soon: {killed} kills");
    net.assert_one_payload_a_round();
    assert_eq!(net.transcript().len(), 3 * 1502);
    let models = net.models();
    assert!(models.iter().all(|m| m.len() == 14));
}

fn scouted(algorithm: &str) -> String {
    format!(
        "name = \"net\"\nseed = 11\nruns = 1\n[data]\nsource = \"heart-flamby\"\nencoding = \"scouted\"\n[graph]\nkind = \"path\"\n\
         [privacy]\nepsilon = 8.0\ndelta = 1e-6\n[[algorithm]]\n{algorithm}\n"
    )
}

/// In small what the soak test below does at length: sites are killed while the sums of a scouted
/// study travel, once they have sent some.
#[test]
fn killed_sites_go_on_with_scouted_columns() {
    let net = Net::new("kill-scouted", 4, &scouted("kind = \"dgd\"\nrounds = 150"), "seed");
    let (mut processes, mut killed, began) = (net.start_all(), 0, Instant::now());
    for victim in [1, 2, 0] {
        let before = net.audit_len(victim);
        while net.audit_len(victim) < before + 8 && processes[victim].is_running() {
            assert!(began.elapsed() < Duration::from_secs(120), "site {victim} does not get on");
            std::thread::sleep(Duration::from_millis(2));
        }
        killed += u32::from(processes[victim].is_running());
        processes[victim].kill();
        processes[victim] = net.start(victim);
    }
    finish(processes, Duration::from_secs(180));
    assert!(killed >= 2, "the run was over too soon: {killed} kills");
    assert_eq!((net.transcript(), net.models()), simulated(&net));
    net.assert_one_payload_a_round();
}

/// Histograms, partial sums on their way through a tree, training and calibration all survive a
/// crash: a site goes on with what it had. So does an algorithm that begins once the columns are
/// scouted.
#[test]
#[ignore = "minutes: cargo xtask soak"]
fn sixty_kills_of_scouted_studies() {
    for (name, algorithm) in
        [("dgd", "kind = \"dgd\"\nrounds = 1500"), ("admm", "kind = \"admm\"\nrounds = 3000")]
    {
        let killed =
            compare(&format!("kill-scouted-{name}"), &scouted(algorithm), 4, (60, 20..150, 6));
        assert!(killed >= 40, "the run was over too soon: {killed} kills");
    }
}

fn ten(rounds: u32) -> String {
    let graph = "kind = \"random\"\nedges = 20";
    experiment(10, graph, &format!("kind = \"admm\"\nrounds = {rounds}\ngossip = 0"))
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn two_hundred_kills_over_ten_processes() {
    let killed = compare("kill-long", &ten(8000), 10, (200, 10..200, 3));
    assert!(killed >= 150, "the run was over too soon: {killed} kills");
}

/// The same with noise that nobody could draw again.
#[test]
#[ignore = "minutes: cargo xtask soak"]
fn two_hundred_kills_never_draw_noise_twice() {
    let net = Net::new("kill-long-os", 10, &ten(8000), "os");
    let (killed, _) = recorded(&net, 200, 10..200, 4);
    assert!(killed >= 150, "the run was over too soon: {killed} kills");
    assert_eq!(net.transcript().len(), 10 * 8000);
}
