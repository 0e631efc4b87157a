//! `consenso node doctor`: is everything there that a site needs?

use super::{experiment, ledger};
use crate::Failure;
use crate::findings::{self, Finding, Mark};
use anyhow::anyhow;
use consenso_engine::experiment::{Experiment, SitePlan};
use consenso_engine::privacy::printed_up;
use consenso_node::folder::{Folder, short};
use consenso_node::frame::Hex;
use consenso_node::identity::{self, Identity};
use consenso_node::store::{Entry, Row};
use consenso_node::{Unreached, books, clock, node, rejoin};
use std::fs;
use std::net::TcpListener;
use std::path::Path;

pub(super) fn command(path: &Path, json: bool) -> Result<(), Failure> {
    let mut found: Vec<Finding> = Vec::new();
    let folder = Folder::read(path);
    found.push(match &folder {
        Ok(f) => {
            let text =
                format!("site {} of {}, study {}", f.site.name, f.peers.len(), short(&f.study));
            ("folder", Mark::Good, text)
        }
        Err(e) => ("folder", Mark::Bad, e.to_string()),
    });
    let folder = folder.ok();
    found.push(see_clock(path));
    found.extend(see_identity(path, folder.as_ref()));
    if let Some(folder) = &folder {
        found.extend(see_study(folder));
    }
    found.push(if path.join(consenso_node::store::FILE).exists() {
        match ledger(path) {
            Ok((_, rows)) => see_witness(folder.as_ref(), &rows),
            Err(e) => ("ledger", Mark::Bad, e.text()),
        }
    } else {
        ("ledger", Mark::Good, "none yet".into())
    });
    if let Some(folder) = &folder {
        found.extend(see_ports(folder));
    }
    found.push(match probe(path) {
        Ok(()) => ("disk", Mark::Good, "writable".into()),
        Err(e) => ("disk", Mark::Bad, e.to_string()),
    });
    if findings::print(&found, json) {
        Ok(())
    } else {
        Err(Failure::Run(anyhow!("{}: not everything is as it should be", path.display())))
    }
}

/// The address of the metrics, which another site of this host may have taken.
fn see_ports(folder: &Folder) -> Option<Finding> {
    let address = folder.site.metrics.as_ref()?;
    if folder.site.listen.as_ref() == Some(address) {
        return Some((
            "metrics",
            Mark::Bad,
            format!("{address} is `listen` as well: they need two ports"),
        ));
    }
    if node::is_running(&folder.path) {
        return Some(("metrics", Mark::Good, format!("{address}, served by this site now")));
    }
    Some(match TcpListener::bind(address) {
        Ok(_) => ("metrics", Mark::Good, address.clone()),
        Err(e) => (
            "metrics",
            Mark::Bad,
            format!("{address}: {e}; two sites of one host need two ports (site.toml)"),
        ),
    })
}

/// Whether a ledger that is intact is also the newest, as far as the site's witness knows.
fn see_witness(folder: Option<&Folder>, rows: &[Row]) -> Finding {
    let releases = rows.iter().filter(|r| matches!(r.entry, Entry::Release { .. })).count() as u64;
    match folder.map(rejoin::witnessed) {
        Some(Ok(Some(seen))) if seen > releases => {
            let text = format!(
                "an old copy: its witness has seen {seen} releases, and it has {releases}; restore the newest"
            );
            ("ledger", Mark::Bad, text)
        }
        Some(Err(e)) => ("ledger", Mark::Bad, e.to_string()),
        _ => ("ledger", Mark::Good, format!("intact, {} rows", rows.len())),
    }
}

/// The clock against what this site knows to be past: a peer with the right time would refuse one
/// with a wrong one.
fn see_clock(path: &Path) -> Finding {
    let now = clock::text(clock::now());
    let text = fs::read_to_string(path.join(consenso_node::audit_log::FILE)).unwrap_or_default();
    let line =
        text.lines().rev().find_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let last = line.and_then(|l| l["time"].as_str().map(str::to_owned));
    match last {
        Some(last) if now < last => {
            ("clock", Mark::Bad, format!("{now}, but audit.jsonl ends at {last}"))
        }
        _ if now.as_str() < "2026" => {
            ("clock", Mark::Bad, format!("{now}, before this program was made"))
        }
        _ => ("clock", Mark::Good, now),
    }
}

/// The key, the certificates and the pin.
fn see_identity(path: &Path, folder: Option<&Folder>) -> Vec<Finding> {
    let identity = match Identity::read(path) {
        Ok(identity) => identity,
        Err(e) => return vec![("certificate", Mark::Bad, e.to_string())],
    };
    let (mark, text) = see_dates(identity.certificate());
    let mut found = vec![("certificate", mark, text)];
    for (index, trusted) in
        identity::certificates(&path.join(identity::TRUST)).unwrap_or_default().iter().enumerate()
    {
        let (mark, text) = see_dates(trusted);
        if mark != Mark::Good {
            found.push(("trust", mark, format!("certificate {} of trust.pem: {text}", index + 1)));
        }
    }
    if let Some(folder) = folder {
        let pin =
            identity::pin(identity.certificate()).map(|p| Hex(&p).to_string()).unwrap_or_default();
        let listed = folder.peers[folder.me].pins().any(|listed| listed == pin);
        let text = if listed {
            "as in peers.toml".into()
        } else {
            format!("{pin} is not the one in peers.toml")
        };
        found.push(("pin", Mark::of(listed), text));
    }
    found
}

/// Whether a certificate holds now.
fn see_dates(certificate: &[u8]) -> (Mark, String) {
    const DAY: i64 = 86_400;
    let Some((from, until)) = identity::dates(certificate) else {
        return (Mark::Bad, "its dates cannot be read".into());
    };
    let now = clock::now() as i64;
    let date = |seconds: i64| clock::text(seconds.try_into().unwrap_or(0));
    match (until - now) / DAY {
        _ if now < from => {
            (Mark::Bad, format!("not valid before {}: is the clock right?", date(from)))
        }
        _ if now > until => (Mark::Bad, format!("expired at {}: is the clock right?", date(until))),
        days if days < 30 => {
            (Mark::Wait, format!("valid for {days} more days: time for a new one"))
        }
        days => (Mark::Good, format!("valid for {days} more days")),
    }
}

/// The records against the schema and what was announced, where this site is called, and the
/// neighbours.
fn see_study(folder: &Folder) -> Vec<Finding> {
    let site = experiment(folder).and_then(|e| {
        let plan = e.plan_of(folder.me).map_err(|m| Failure::from(anyhow!(m)))?;
        Ok((plan.records, e.graph().neighbours(folder.me).to_vec(), see_privacy(folder, &e, &plan)))
    });
    let (records, neighbours, privacy) = match site {
        Ok(site) => site,
        Err(e) => return vec![("records", Mark::Bad, e.text())],
    };
    let text = format!("{records}, as announced, under the public schema");
    let mut found = vec![("records", Mark::Good, text), privacy];
    found.extend(see_listener(folder));
    for j in neighbours {
        let peer = &folder.peers[j as usize];
        let (mark, text) = match (&peer.address, folder.calls(j as usize)) {
            (_, Err(e)) => (Mark::Bad, e.to_string()),
            (_, Ok(false)) => (Mark::Good, format!("{} calls us", peer.name)),
            (None, Ok(true)) => (Mark::Bad, format!("{} has no address", peer.name)),
            (Some(address), Ok(true)) => {
                let (mark, text) = see_peer(folder, j as usize);
                (mark, format!("{} at {address}: {text}", peer.name))
            }
        };
        found.push(("neighbour", mark, text));
    }
    found
}

/// Whether the site would take part in the study, and what it would cost.
fn see_privacy(folder: &Folder, experiment: &Experiment, plan: &SitePlan) -> Finding {
    let rows = ledger(&folder.path).map(|found| found.1).unwrap_or_default();
    let admitted = node::opening(folder, experiment, plan)
        .and_then(|opening| books::admit(&rows, &opening).map_err(Into::into));
    match (admitted, &plan.claim) {
        (Err(error), _) => ("privacy", Mark::Bad, error.to_string()),
        (Ok(_), None) => (
            "privacy",
            Mark::Wait,
            "the study makes no claim: what this site sends is not protected".into(),
        ),
        (Ok(_), Some(claim)) => {
            let seeded = if plan.seeded { "; seeded: for science, protects nobody" } else { "" };
            let epsilon = printed_up(claim.epsilon, 6);
            let text =
                format!("ε = {epsilon}, δ = {:e} ({}){seeded}", claim.delta, claim.neighbours);
            ("privacy", if plan.seeded { Mark::Wait } else { Mark::Good }, text)
        }
    }
}

/// Whether the address that others call can be listened at; a node that runs does so already.
fn see_listener(folder: &Folder) -> Option<Finding> {
    let peer = &folder.peers[folder.me];
    Some(match (&folder.site.listen, &peer.address) {
        (None, None) => return None,
        (None, Some(address)) => {
            let text =
                format!("peers.toml has others call {address}, and site.toml has no `listen`");
            ("listen", Mark::Bad, text)
        }
        (Some(listen), _) if node::is_running(&folder.path) => {
            ("listen", Mark::Good, format!("{listen}: the node runs"))
        }
        (Some(listen), _) => match TcpListener::bind(listen) {
            Ok(_) => ("listen", Mark::Good, format!("{listen} is free")),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
                let text = "is not for this user; the service needs CAP_NET_BIND_SERVICE, which deploy's unit has";
                ("listen", Mark::Wait, format!("{listen} {text}"))
            }
            Err(e) => ("listen", Mark::Bad, format!("{listen}: {e}")),
        },
    })
}

/// Calls a peer, which may not have been started yet.
fn see_peer(folder: &Folder, peer: usize) -> (Mark, String) {
    match consenso_node::reach(folder, peer) {
        Ok(()) => (Mark::Good, "answers, and each believes the other".into()),
        Err(Unreached::NobodyListens) => (
            Mark::Wait,
            "nobody listens there: is the site running, or does a firewall reject the call?".into(),
        ),
        Err(Unreached::Silence) => {
            (Mark::Bad, "no answer: a firewall between, or not its address".into())
        }
        Err(error) => (Mark::Bad, error.to_string()),
    }
}

/// Whether a file can be written and synced beside the ledger.
fn probe(folder: &Path) -> std::io::Result<()> {
    let path = folder.join(".probe");
    // A full disk still makes empty files.
    let written = fs::write(&path, [0; 1 << 16]).and_then(|()| fs::File::open(&path)?.sync_all());
    let removed = fs::remove_file(&path);
    written.and(removed)
}
