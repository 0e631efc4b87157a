//! Disks that are full, lie or rot under one site of a calm network.

use super::network::{Host, Network, SimulatedFault};
use super::{Place, Running, SITES, STUDY, seeds, undisturbed};
use crate::node::{Options, Prepared};
use crate::storage::memory::DiskFaults;
use consenso_engine::random::{Purpose, Seed};
use rand::RngExt as _;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, sleep_until, timeout};

/// What happens to the disk of a site while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DiskFault {
    /// Nothing more is kept, until there is room again.
    Full,
    /// A commit is kept, and the site is told that it was not.
    Unsure,
    /// The site is killed, and so many commits are gone that were said to be durable.
    Forgets(usize),
    /// The site is killed, and a bit of what it kept has turned.
    Rots(u64),
}

/// How a site ended.
type Ended = Result<Vec<f64>, String>;

/// Starts a site, or says why it does not start.
fn try_start(place: &Place, network: &Arc<Network>, site: usize) -> Result<Running, String> {
    let open = |dim| place.open(site, dim);
    let prepared =
        Prepared::with(&place.folders[site], &place.experiment, Default::default(), open)
            .map_err(|error| error.to_string())?;
    let host = Arc::new(Host { network: Arc::clone(network), me: site });
    Ok(tokio::spawn(async move { prepared.connect(&Options::default(), host).await?.run().await }))
}

/// Runs all sites while the disk of one has this fault from a moment on; how each ended, and
/// whether the disk forgot or changed anything.
fn run_on_bad_disk(place: &Place, seed: u64, fault: DiskFault) -> (Vec<Ended>, bool) {
    place.clear();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let network = Network::new(seed);
        let mut chance = Seed::from(seed).stream(Purpose::Network, 97, 0);
        let (victim, at) = (chance.random_range(0..SITES), chance.random_range(5..600));
        let disk = &place.ledgers[victim];
        if let DiskFault::Forgets(commits) = fault {
            disk.faults().lies = commits;
        }
        let mut sites: Vec<Result<Running, String>> =
            (0..SITES).map(|site| try_start(place, &network, site)).collect();
        sleep_until(network.began + Duration::from_millis(at)).await;
        match fault {
            DiskFault::Full => disk.faults().full = true,
            DiskFault::Unsure => disk.faults().unsure = true,
            DiskFault::Forgets(_) | DiskFault::Rots(_) => {}
        }
        if matches!(fault, DiskFault::Full | DiskFault::Unsure) {
            // It stops by itself at its next release, unless it has none any more.
            sleep(Duration::from_secs(3)).await;
        }
        if let Ok(running) = &mut sites[victim]
            && !running.is_finished()
        {
            running.abort();
            drop(running.await);
        }
        network.apply(SimulatedFault::Crash(victim));
        // The disk is mended before the site starts again, also where the fault met no commit: a
        // site that was done makes none.
        let lies = disk.faults().lies;
        *disk.faults() = DiskFaults { lies, ..DiskFaults::default() };
        let changed = match fault {
            DiskFault::Rots(chance) => disk.rot(chance),
            _ => disk.crash(),
        };
        if changed {
            // As whoever restores a whole folder has it: nothing of its own says otherwise.
            let log = place.folders[victim].path.join(crate::audit_log::FILE);
            let _ = std::fs::remove_file(log);
        }
        sites[victim] = try_start(place, &network, victim);
        let mut ended = Vec::new();
        for site in sites {
            ended.push(match site {
                Err(refused) => Err(refused),
                Ok(running) => match timeout(Duration::from_secs(2000), running).await {
                    Ok(Ok(Ok(outcome))) => outcome.model.ok_or_else(|| "stopped".to_owned()),
                    Ok(Ok(Err(error))) => Err(error.to_string()),
                    Ok(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
                    Err(_) => Err("not in time".to_owned()),
                },
            });
        }
        (ended, changed)
    })
}

/// Of every round of every site all that anybody received is one payload.
fn check_payloads(place: &Place) {
    let mut known = BTreeMap::new();
    for folder in &place.folders {
        let log = std::fs::read_to_string(folder.path.join(crate::audit_log::FILE));
        for line in log.unwrap_or_default().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            if line["event"] != "received" {
                continue;
            }
            let key = (line["peer"].to_string(), line["round"].as_u64());
            let hash = line["blake3"].to_string();
            let first = known.entry(key.clone()).or_insert_with(|| hash.clone());
            assert_eq!(*first, hash, "{key:?} was sent twice, differently");
        }
    }
}

/// A disk that is full, lies or rots: a site goes on from what it has, or does not start and says
/// why; whoever ends with a model ends with the undisturbed one.
fn survive_bad_disks(test: &str, seeds: &[u64]) {
    let mut place = Place::new(test, STUDY);
    // Whoever does not start again is not waited for for ten minutes.
    place.folders.iter_mut().for_each(|folder| folder.site.deadline_seconds = 30.0);
    let expected = undisturbed(&place.experiment);
    for &seed in seeds {
        let fault = match seed % 4 {
            0 => DiskFault::Full,
            1 => DiskFault::Unsure,
            2 => DiskFault::Forgets(1 + (seed / 4 % 5) as usize),
            _ => DiskFault::Rots(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        };
        let repeat = format!("repeat it with CONSENSO_SEED={seed}: {fault:?}");
        let (ended, changed) = run_on_bad_disk(&place, seed, fault);
        for (site, ended) in ended.iter().enumerate() {
            match ended {
                Ok(model) => assert_eq!(model, &expected[site], "{repeat}, site {site}"),
                Err(reason) => {
                    assert!(changed, "{repeat}, site {site}: {reason}");
                    assert_ne!(reason, "not in time", "{repeat}, site {site}");
                }
            }
        }
        check_payloads(&place);
    }
}

#[test]
fn sites_on_bad_disks_go_on_or_say_why_not() {
    survive_bad_disks("disks", &seeds(1, 24));
}

#[test]
#[ignore = "minutes: cargo xtask soak"]
fn two_thousand_bad_disks() {
    survive_bad_disks("disks-many", &seeds(1000, 2000));
}
