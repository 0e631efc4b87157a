//! `kill -9` at random moments: every run completes as if nothing had happened, and no round is ever released twice.

use crate::{Net, experiment, finish, simulated};
use consenso::random::{Purpose, Seed};
use std::time::{Duration, Instant};

/// Kills random processes at random moments and starts them again at once; then waits for the end. How many were killed while running.
pub(crate) fn torment(net: &Net, kills: u32, pause_ms: std::ops::Range<u64>, schedule: u64) -> u32 {
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

fn compare(net: &Net) {
    assert_eq!((net.transcript(), net.models()), simulated(net));
    net.assert_one_payload_a_round();
}

#[test]
fn killed_processes_end_with_the_bits_of_an_undisturbed_run() {
    let graph = "kind = \"ring\"";
    let net = Net::new("kill", 4, &experiment(4, graph, "kind = \"admm\"\nrounds = 400\ngossip = 2"), "seed");
    let killed = torment(&net, 12, 20..250, 1);
    assert!(killed >= 4, "the run was over too soon: {killed} kills");
    compare(&net);
}

/// With noise of the operating system a round drawn twice would have two payloads.
#[test]
fn killed_processes_never_draw_noise_twice() {
    let net = Net::new(
        "kill-os",
        3,
        &experiment(3, "kind = \"path\"", "kind = \"dgd\"\nrounds = 400\ngossip = 2"),
        "os",
    );
    let killed = torment(&net, 12, 20..250, 2);
    assert!(killed >= 4, "the run was over too soon: {killed} kills");
    net.assert_one_payload_a_round();
    assert_eq!(net.transcript().len(), 3 * 402);
    let models = net.models();
    assert!(models.iter().all(|m| m.len() == 14));
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn two_hundred_kills_over_ten_processes() {
    let graph = "kind = \"random\"\nedges = 20";
    let net = Net::new(
        "kill-long",
        10,
        &experiment(10, graph, "kind = \"admm\"\nrounds = 4000\ngossip = 0"),
        "seed",
    );
    let killed = torment(&net, 200, 10..200, 3);
    assert!(killed >= 150, "the run was over too soon: {killed} kills");
    compare(&net);
}
