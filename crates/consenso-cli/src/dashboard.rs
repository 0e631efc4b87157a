//! `consenso network up --dashboard`: a live page of the network, served on loopback to whoever has
//! the token.

use crate::Failure;
use anyhow::{Context as _, anyhow};
use consenso_engine::experiment::ExperimentSpec;
use consenso_study::ExperimentFile as _;
use consenso_study::report::escape;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: &str = include_str!("dashboard.html");

/// Readers at once that have shown the token; more are turned away.
const READERS: usize = 32;

/// Connections at once that have not: one more makes the oldest of them go.
const STRANGERS: usize = 32;

/// Time to ask a question.
const ASKING: Duration = Duration::from_secs(3);

/// Longest request that is read.
const REQUEST: usize = 8192;

/// The page and what it shows.
pub(crate) struct Dashboard {
    served: Arc<Served>,
}

impl Dashboard {
    /// Begins to serve the page of a study, and prints where. `folder` is the network's,
    /// `experiment` the text of its experiment file.
    pub(crate) fn start(port: u16, folder: &str, experiment: &str) -> Result<Self, Failure> {
        let listener = TcpListener::bind(("127.0.0.1", port))
            .with_context(|| format!("--dashboard-port {port}"))?;
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|e| Failure::Run(anyhow!("the operating system gave no entropy: {e}")))?;
        let token = bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        let address = listener.local_addr().context("the page's address")?;
        crate::output::tell("dashboard", &format!("http://{address}/?token={token}"));
        let (title, claim) = study(folder, experiment);
        let page = PAGE.replace("{{title}}", &escape(&title)).replace("{{claim}}", &escape(&claim));
        let state = Mutex::new("[]".to_owned());
        let (readers, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let strangers = Mutex::default();
        let served = Arc::new(Served { token, page, state, readers, strangers, over });
        let shared = Arc::clone(&served);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let shared = Arc::clone(&shared);
                if !shared.meet(number, &stream) {
                    continue;
                }
                std::thread::spawn(move || {
                    let _ = answer(stream, number, &shared);
                    shared.forget(number);
                });
            }
        });
        Ok(Self { served })
    }

    /// Shows what the sites last said.
    pub(crate) fn show(&self, sites: impl Iterator<Item = Value>) {
        let sites: Vec<Value> = sites.map(|mut said| said["progress"].take()).collect();
        if let Ok(mut state) = self.served.state.lock() {
            *state = json!(sites).to_string();
        }
    }

    /// Waits until every open page has the last state, a second at most.
    pub(crate) fn close(&self) {
        self.served.over.store(true, Ordering::Release);
        for _ in 0..50 {
            if self.served.readers.load(Ordering::Acquire) == 0 {
                return;
            }
            std::thread::sleep(PERIOD / 10);
        }
    }
}

/// Between two looks at the state.
const PERIOD: Duration = Duration::from_millis(200);

struct Served {
    token: String,
    page: String,
    state: Mutex<String>,
    readers: AtomicUsize,
    /// Connections without a token yet, oldest first.
    strangers: Mutex<VecDeque<(usize, TcpStream)>>,
    /// The state will not change any more.
    over: AtomicBool,
}

impl Served {
    /// Takes a new connection in, in the place of the oldest if there are too many.
    fn meet(&self, number: usize, stream: &TcpStream) -> bool {
        let (Ok(mut all), Ok(copy)) = (self.strangers.lock(), stream.try_clone()) else {
            return false;
        };
        all.push_back((number, copy));
        if all.len() > STRANGERS
            && let Some((_, oldest)) = all.pop_front()
        {
            let _ = oldest.shutdown(std::net::Shutdown::Both);
        }
        true
    }

    fn forget(&self, number: usize) {
        if let Ok(mut all) = self.strangers.lock() {
            all.retain(|(other, _)| *other != number);
        }
    }
}

/// The name of a study and what it claims, in one line each; the folder's name where the experiment
/// cannot be read.
fn study(folder: &str, experiment: &str) -> (String, String) {
    let Ok(spec) = ExperimentSpec::from_toml(experiment, "experiment.toml") else {
        return (folder.to_owned(), String::new());
    };
    let claim = match spec.privacy {
        Some(privacy) => match privacy.epsilon {
            Some(epsilon) => format!(
                "Claim of each site for every one of its records: ε = {epsilon}, δ = {:e} ({}).",
                privacy.delta,
                privacy.neighbours.name()
            ),
            None => {
                format!("Each site's noise is fixed; its claim holds at δ = {:e}.", privacy.delta)
            }
        },
        None => "No privacy claim: this study adds no noise that is accounted for.".to_owned(),
    };
    (format!("{} · {folder}", spec.name), claim)
}

fn answer(mut stream: TcpStream, number: usize, served: &Served) -> std::io::Result<()> {
    let began = std::time::Instant::now();
    stream.set_read_timeout(Some(ASKING))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut request = Vec::new();
    while request.len() < REQUEST && !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let mut part = [0; 1024];
        if began.elapsed() > ASKING {
            return Ok(());
        }
        match stream.read(&mut part)? {
            0 => break,
            n => request.extend_from_slice(&part[..n]),
        }
    }
    let text = String::from_utf8_lossy(&request);
    let target =
        text.strip_prefix("GET ").and_then(|rest| rest.split_whitespace().next()).unwrap_or("");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if !query
        .split('&')
        .any(|part| part.strip_prefix("token=").is_some_and(|t| same(t, &served.token)))
    {
        return reply(
            &mut stream,
            "403 Forbidden",
            "text/plain",
            "the address with its token was printed when the network started\n",
        );
    }
    served.forget(number);
    match path {
        "/" => reply(&mut stream, "200 OK", "text/html; charset=utf-8", &served.page),
        "/events" => {
            let told = if served.readers.fetch_add(1, Ordering::Relaxed) < READERS {
                events(&mut stream, served)
            } else {
                reply(&mut stream, "503 Service Unavailable", "text/plain", "too many readers\n")
            };
            served.readers.fetch_sub(1, Ordering::Relaxed);
            told
        }
        _ => reply(&mut stream, "404 Not Found", "text/plain", "there is one page\n"),
    }
}

/// Equal, in a time that does not tell how much of it is.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// What a page may do: run its own script, talk to this server, nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'";

fn reply(stream: &mut TcpStream, status: &str, kind: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ncontent-security-policy: {POLICY}\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\ncache-control: no-store\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Server-sent events: the state whenever it has changed, and a comment now and then to notice who
/// is gone.
fn events(stream: &mut TcpStream, served: &Served) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-store\r\nconnection: close\r\n\r\n")?;
    let mut before = String::new();
    loop {
        let over = served.over.load(Ordering::Acquire);
        let state = served.state.lock().map(|s| s.clone()).unwrap_or_default();
        if state == before {
            stream.write_all(b": \n\n")?;
        } else {
            stream.write_all(format!("data: {state}\n\n").as_bytes())?;
            before = state;
        }
        if over {
            return stream.flush();
        }
        std::thread::sleep(PERIOD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 connections that said nothing kept every reader out.
    #[test]
    fn idle_connections_do_not_keep_a_reader_out() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let page = Dashboard::start(port, "net", "nonsense").ok().expect("a free port");
        let idle: Vec<TcpStream> =
            (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
        let mut reader = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(reader, "GET /?token={} HTTP/1.1\r\n\r\n", page.served.token).unwrap();
        let mut answer = String::new();
        reader.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        drop(idle);
    }

    #[test]
    fn the_page_names_the_study_and_its_claim_with_delta() {
        let text = "name = \"ill\"\n[data]\nsource = \"adult\"\n[graph]\nkind = \"ring\"\n[privacy]\nepsilon = 0.5\ndelta = 1e-6\n[[algorithm]]\nkind = \"dgd\"\n";
        let (title, claim) = study("net", text);
        assert_eq!(title, "ill · net");
        assert!(claim.contains("ε = 0.5, δ = 1e-6 (replace-one)"), "{claim}");
        assert!(
            study("net", &text.replace("[privacy]\nepsilon = 0.5\ndelta = 1e-6\n", ""))
                .1
                .starts_with("No privacy claim")
        );
        assert_eq!(study("net", "nonsense"), ("net".into(), String::new()));
    }
}
