//! Noise that neighbours share: its secrets are agreed on between real processes, and cancel
//! whatever dies.

use crate::{Net, Process, consenso, experiment, finish, text};
use consenso_node::frame::Frame;
use consenso_node::store::Store;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(180);
const SITES: usize = 5;

fn study(rounds: u32) -> String {
    let algorithm = format!(
        "kind = \"decor\"\ncolluders = 1\ncorrelation = 10.0\nrounds = {rounds}\ngossip = 0\ntail = 0.0"
    );
    experiment(SITES, "kind = \"ring\"", &algorithm)
}

fn secrets(net: &Net, site: usize) -> Option<PathBuf> {
    let files = fs::read_dir(net.folder(site)).unwrap().map(|f| f.unwrap().path());
    files.into_iter().find(|p| p.extension().is_some_and(|e| e == "key"))
}

/// A site's release of `round`, from its outbox.
fn release(net: &Net, site: usize, round: u32) -> Vec<f64> {
    let store = Store::look(&net.folder(site)).unwrap();
    let bytes =
        store.outbox(1).unwrap().into_iter().find(|(r, _)| *r == round).expect("the last two").1;
    match Frame::decode(&bytes).unwrap() {
        Frame::Release { values, .. } => values.to_vec(),
        other => panic!("{other:?}"),
    }
}

fn rms(vector: &[f64]) -> f64 {
    (vector.iter().map(|x| x * x).sum::<f64>() / vector.len() as f64).sqrt()
}

/// With σ_cor = 10 σ what a message adds to a mix is some fourteen times louder than its own noise;
/// what does not cancel would be louder still in the sum. Mixing keeps the sum, so what a round
/// adds to it is the difference of two rounds.
#[test]
fn neighbours_agree_on_secrets_that_cancel_whoever_is_killed() {
    let rounds = 120;
    let net = Net::new("edges", SITES, &study(rounds), "os");
    let mut all = net.start_all();
    // Somebody dies at every moment of the agreement, and later.
    for k in 0..25u64 {
        std::thread::sleep(Duration::from_millis(7 * (k % 9)));
        let site = (2 * k as usize) % SITES;
        if all[site].is_running() {
            all[site].kill();
            if let Some(file) = secrets(&net, site) {
                assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
            }
            all[site] = net.start(site);
        }
    }
    finish(all, LIMIT);
    assert_eq!(net.transcript().len() as u32, SITES as u32 * rounds);
    net.assert_one_payload_a_round();
    let added = |site: usize| -> Vec<f64> {
        let (last, before) = (release(&net, site, rounds), release(&net, site, rounds - 1));
        last.iter().zip(before).map(|(a, b)| a - b).collect()
    };
    let added: Vec<Vec<f64>> = (0..SITES).map(added).collect();
    let sum: Vec<f64> = (0..14).map(|l| added.iter().map(|r| r[l]).sum()).collect();
    let loud = added.iter().map(|r| rms(r)).sum::<f64>() / SITES as f64;
    assert!(rms(&sum) < 0.5 * loud, "{} of {loud}: noise that does not cancel", rms(&sum));
    for site in 0..SITES {
        assert_eq!(secrets(&net, site), None, "secrets outlive the study");
        let audit = consenso().args(["node", "audit"]).arg(net.folder(site)).output().unwrap();
        assert!(audit.status.success(), "{}", text(&audit));
    }
}

/// Without the secret of an edge nothing that was said before cancels, so nothing more is said.
#[test]
fn a_site_that_lost_its_secrets_says_nothing_more() {
    let net = Net::new("edges-lost", SITES, &study(3000), "os");
    let mut all = net.start_all();
    while net.audit_len(2) < 60 {
        std::thread::sleep(Duration::from_millis(5));
    }
    all[2].kill();
    fs::remove_file(secrets(&net, 2).unwrap()).unwrap();
    let refused = net.start(2).output();
    assert!(
        !refused.status.success() && text(&refused).contains("are not all there"),
        "{}",
        text(&refused)
    );
    // Nor can a neighbour give them back, or go on without it.
    fs::remove_file(net.folder(2).join("state.db")).unwrap();
    let rejoin = consenso().args(["node", "rejoin"]).arg(net.folder(2)).output().unwrap();
    assert!(text(&rejoin).contains("they are lost"), "{}", text(&rejoin));
    all.iter_mut().for_each(Process::kill);
}
