//! `/metrics`, `/healthz` and `/readyz`: a few lines of HTTP on a loopback port, with nothing that
//! depends on the records.

use crate::progress::{Convergence, Link, Progress, Watched};
use std::fmt::Write as _;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Longest request that is read.
const REQUEST: usize = 4096;

/// Serves until the runtime is dropped.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) async fn start(address: &str, progress: Watched) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Out of file descriptors, most likely: asking again at once would take the node's
                // only thread.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let progress = progress.clone();
            tokio::spawn(tokio::time::timeout(Duration::from_secs(5), answer(stream, progress)));
        }
    });
    Ok(())
}

async fn answer(mut stream: TcpStream, progress: Watched) -> std::io::Result<()> {
    let mut request = Vec::new();
    while request.len() < REQUEST && !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let mut part = [0; 512];
        match stream.read(&mut part).await? {
            0 => break,
            n => request.extend_from_slice(&part[..n]),
        }
    }
    let line = String::from_utf8_lossy(&request);
    let path =
        line.strip_prefix("GET ").and_then(|rest| rest.split_whitespace().next()).unwrap_or("");
    let (status, body) = respond(path, &progress.get());
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

fn respond(path: &str, progress: &Progress) -> (&'static str, String) {
    match path {
        "/metrics" => ("200 OK", prometheus(progress)),
        "/healthz" => ("200 OK", "ok\n".into()),
        "/readyz" => {
            let down: Vec<&str> = progress
                .neighbours
                .iter()
                .filter(|l| !l.up && !l.without)
                .map(|l| l.name.as_str())
                .collect();
            if progress.is_stalled() {
                return ("503 Service Unavailable", format!("{}\n", progress.waits()));
            }
            if progress.finished || (down.is_empty() && !progress.neighbours.is_empty()) {
                ("200 OK", "ready\n".into())
            } else {
                ("503 Service Unavailable", format!("no link to {}\n", down.join(", ")))
            }
        }
        _ => ("404 Not Found", "there are /metrics, /healthz and /readyz\n".into()),
    }
}

/// Prometheus' text format.
#[must_use]
pub fn prometheus(progress: &Progress) -> String {
    let mut out = String::new();
    for Sample { name, kind, help, value } in samples(progress) {
        let _ = writeln!(
            out,
            "# HELP consenso_{name} {help}\n# TYPE consenso_{name} {kind}\nconsenso_{name} {value}"
        );
    }
    // Nobody waits for those that the run goes on without: nothing is wrong with their links.
    let awaited = || progress.neighbours.iter().filter(|link| !link.without);
    by_neighbour(
        &mut out,
        ("link_up", "1 while there is a connection."),
        awaited().map(|link| (link, u32::from(link.up))),
    );
    by_neighbour(
        &mut out,
        ("neighbour_lag", "Rounds the neighbour is behind."),
        awaited().map(|link| (link, link.lag(progress.released))),
    );
    by_neighbour(
        &mut out,
        ("without", "1 for a neighbour that the run goes on without, or that left."),
        progress.neighbours.iter().map(|link| (link, u32::from(link.without))),
    );
    out
}

/// One number of a site.
struct Sample {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: f64,
}

/// A number that goes up and down.
fn gauge(name: &'static str, help: &'static str, value: impl Into<f64>) -> Sample {
    Sample { name, kind: "gauge", help, value: value.into() }
}

/// A number that only goes up.
fn counter(name: &'static str, help: &'static str, value: impl Into<f64>) -> Sample {
    Sample { name, kind: "counter", help, value: value.into() }
}

/// The numbers of a site; those that it does not know are left out.
fn samples(progress: &Progress) -> Vec<Sample> {
    let mut all = vec![
        gauge("round", "Rounds complete.", progress.round),
        gauge("rounds", "Rounds in all.", progress.rounds),
        gauge("seconds_since_round", "Seconds since the last release.", progress.since_round),
        gauge("finished", "1 when the model is ready.", u8::from(progress.finished)),
        counter("resends_total", "Messages sent again after a lost link.", progress.resends as f64),
        counter("refusals_total", "Callers and messages refused.", progress.refusals as f64),
        gauge(
            "equivocations",
            "Neighbours that signed two versions of one exchange.",
            progress.equivocations,
        ),
        counter(
            "went_back_total",
            "Times that a neighbour came back with less than it had: an old copy, or a lost disk.",
            progress.went_back,
        ),
        gauge(
            "ahead",
            "Neighbours that say they have more of this site than it released: a lie, or an old copy here.",
            progress.ahead,
        ),
        gauge("agreements", "Agreements that hold.", progress.agreements),
        gauge(
            "awaits_agreement",
            "1 while the site waits for an agreement that it signed.",
            u8::from(progress.awaits_agreement),
        ),
        gauge("absent", "Sites that the run goes on without.", progress.absent),
    ];
    all.extend(convergence(progress.convergence));
    all.push(gauge(
        "commit_seconds",
        "Duration of the last durable commit.",
        progress.commit_ms / 1e3,
    ));
    let known = |name, help, value: Option<f64>| value.map(|value| gauge(name, help, value));
    let around = progress.around;
    let optional = [
        known("epsilon_spent", "Upper bound on the privacy spent so far.", progress.epsilon),
        known("epsilon_budget", "What the study may cost.", progress.budget),
        known(
            "certificate_days",
            "Days until the site's certificate ends.",
            around.certificate_days,
        ),
        known(
            "free_bytes",
            "Bytes left on the disk of the site's folder.",
            around.free_bytes.map(|bytes| bytes as f64),
        ),
        Some(gauge("studies", "Studies in the ledger.", around.studies)),
        known(
            "epsilon_total",
            "What all studies of these records together may cost.",
            around.total,
        ),
        known("epsilon_remaining", "What the next study may cost.", around.remaining),
    ];
    all.extend(optional.into_iter().flatten());
    all
}

/// How near the sites are to one model, by what can be known of it.
fn convergence(so_far: Convergence) -> Option<Sample> {
    match so_far {
        Convergence::Disagreement(value) => Some(gauge(
            "disagreement",
            "Largest distance to a neighbour, between means of the latest quarter of all releases.",
            value,
        )),
        Convergence::Step(Some(value)) => Some(gauge(
            "step",
            "How far the sum that all sites know still moves: the latest eighth of the rounds against the latest half.",
            value,
        )),
        Convergence::Step(None) => None,
    }
}

/// One gauge with a number for every one of these neighbours.
fn by_neighbour<'a>(
    out: &mut String,
    (name, help): (&str, &str),
    values: impl Iterator<Item = (&'a Link, u32)>,
) {
    let _ = writeln!(out, "# HELP consenso_{name} {help}\n# TYPE consenso_{name} gauge");
    for (link, value) in values {
        let _ = writeln!(out, "consenso_{name}{{neighbour=\"{}\"}} {value}", link.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An alert on `link_up == 0` went on for ever.
    #[test]
    fn nobody_is_alerted_about_a_site_that_left() {
        let link = |name: &str, without| Link { name: name.into(), up: false, heard: 3, without };
        let neighbours = vec![link("b", false), link("c", true)];
        let text = prometheus(&Progress { neighbours, ..Progress::default() });
        assert!(text.contains("consenso_link_up{neighbour=\"b\"} 0\n"), "{text}");
        assert!(!text.contains("link_up{neighbour=\"c\"}"), "{text}");
        assert!(text.contains("consenso_without{neighbour=\"c\"} 1\n"), "{text}");
        for name in ["equivocations", "went_back_total", "ahead", "agreements", "absent"] {
            assert!(text.contains(&format!("consenso_{name} 0\n")), "{name}: {text}");
        }
    }

    #[test]
    fn ready_means_every_link_is_up() {
        let link = |name: &str, up| Link { name: name.into(), up, heard: 3, without: false };
        let mut progress = Progress {
            round: 4,
            released: 5,
            rounds: 9,
            neighbours: vec![link("b", true), link("c", false)],
            ..Progress::default()
        };
        assert_eq!(respond("/readyz", &progress).0, "503 Service Unavailable");
        assert!(respond("/readyz", &progress).1.contains("no link to c"));
        progress.neighbours[1].up = true;
        assert_eq!(respond("/readyz", &progress).0, "200 OK");
        assert_eq!(respond("/healthz", &progress).0, "200 OK");
        assert_eq!(respond("/", &progress).0, "404 Not Found");
        let text = respond("/metrics", &progress).1;
        assert!(
            text.contains("consenso_round 4\n")
                && text.contains("consenso_neighbour_lag{neighbour=\"b\"} 2\n"),
            "{text}"
        );
        assert!(!text.contains("epsilon"), "nothing is claimed without a claim");
        progress.around = crate::surroundings::Surroundings {
            certificate_days: Some(12.5),
            free_bytes: Some(1 << 30),
            total: Some(3.0),
            remaining: Some(0.5),
            studies: 2,
        };
        let around = prometheus(&progress);
        for line in [
            "certificate_days 12.5",
            "free_bytes 1073741824",
            "studies 2",
            "epsilon_total 3",
            "epsilon_remaining 0.5",
        ] {
            assert!(around.contains(&format!("consenso_{line}\n")), "{line}: {around}");
        }
        assert!(
            text.contains("consenso_disagreement 0\n") && !text.contains("consenso_step"),
            "{text}"
        );
        (progress.waiting, progress.since_round) = (vec![("b".into(), 50.0)], 50.0);
        assert_eq!(
            respond("/readyz", &progress),
            ("503 Service Unavailable", "waiting for b since 40 s\n".into())
        );
        assert!(prometheus(&progress).contains("consenso_seconds_since_round 50\n"));
        progress.convergence = Convergence::Step(None);
        assert!(
            !prometheus(&progress).contains("consenso_disagreement"),
            "sums say nothing of one neighbour"
        );
        progress.convergence = Convergence::Step(Some(0.5));
        assert!(prometheus(&progress).contains("consenso_step 0.5\n"));
    }
}
