//! A recorder between the processes. The test made the network and owns every key, so it can stand
//! in for both ends of an edge: it is the called site to the caller and the caller to the called
//! site, under their own certificates, and hands on byte for byte what it reads.

use crate::faults::before_every_site;
use crate::http2::Messages;
use crate::{Net, experiment, finish};
use consenso_node::frame::{Digest, Frame, Hex, blake3, release_hash};
use consenso_node::identity::{Identity, recognise};
use consenso_node::{Folder, folder::SITE};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A direction of an edge: from a site to a site.
type Way = (usize, usize);

/// What passed, whoever was killed meanwhile.
#[derive(Default)]
struct Seen {
    /// The payload of every round of every study on every way.
    payloads: BTreeMap<(Digest, Way, u32), Vec<u8>>,
    /// What the end of a connection left of a payload.
    cut: Vec<(Digest, Way, Vec<u8>)>,
    /// Everything inside TLS, as it came.
    bytes: BTreeMap<Way, Vec<u8>>,
    offences: Vec<String>,
    connections: usize,
    resends: usize,
}

impl Seen {
    /// A payload again must be the same again.
    fn payload(&mut self, study: Digest, way: Way, round: u32, bytes: &[u8]) {
        match self.payloads.get(&(study, way, round)) {
            None => drop(self.payloads.insert((study, way, round), bytes.to_vec())),
            Some(before) if before == bytes => self.resends += 1,
            Some(before) => self.offences.push(format!(
                "round {round} of {} to {} had two payloads: {} and {}",
                way.0,
                way.1,
                Hex(&blake3(before)),
                Hex(&blake3(bytes))
            )),
        }
    }
}

/// Who listens to one direction of one connection.
struct Ear {
    way: Way,
    messages: Messages,
    /// As the hello said.
    study: Option<Digest>,
    seen: Arc<Mutex<Seen>>,
}

impl Ear {
    fn hear(&mut self, bytes: &[u8]) {
        let seen = Arc::clone(&self.seen);
        let mut seen = seen.lock().unwrap();
        seen.bytes.entry(self.way).or_default().extend_from_slice(bytes);
        let heard = self
            .messages
            .push(bytes)
            .and_then(|all| all.iter().try_for_each(|message| self.message(&mut seen, message)));
        if let Err(reason) = heard {
            seen.offences.push(format!("{:?}: {reason}", self.way));
        }
    }

    fn message(&mut self, seen: &mut Seen, bytes: &[u8]) -> Result<(), String> {
        let (sender, round) = match Frame::decode(bytes).map_err(|e| e.to_string())? {
            Frame::Hello(hello) => {
                self.study = Some(hello.experiment);
                return Ok(());
            }
            Frame::Release { from, round, .. }
            | Frame::Masked { from, exchange: round, .. }
            | Frame::Passed { from, exchange: round, .. } => (from, round),
            Frame::Words { from, to, round, .. } if to as usize == self.way.1 => (from, round),
            Frame::Words { to, .. } => return Err(format!("a share for {to}")),
            Frame::Ack { .. }
            | Frame::Bye
            | Frame::ReleaseSignature { .. }
            | Frame::Heard { .. }
            | Frame::Receipts { .. } => return Ok(()),
            Frame::Yours { .. } | Frame::Study(_) | Frame::Farewell { .. } => return Ok(()),
            Frame::Lost | Frame::ReturnedRelease { .. } => return Ok(()),
            Frame::EdgeKey { .. } | Frame::EdgeSame { .. } => return Ok(()),
            Frame::Agreed { .. } | Frame::Agreement(_) => return Ok(()),
            Frame::Refused(reason) => return Err(format!("refused: {reason}")),
        };
        if sender as usize != self.way.0 {
            return Err(format!("a payload of {sender}"));
        }
        seen.payload(self.study.ok_or("a payload before the hello")?, self.way, round, bytes);
        Ok(())
    }

    fn end(self) {
        let mut seen = self.seen.lock().unwrap();
        match (self.messages.cut(), self.study) {
            (Ok(cut), Some(study)) => {
                seen.cut.extend(cut.into_iter().map(|bytes| (study, self.way, bytes)));
            }
            (Ok(_), None) => {}
            (Err(reason), _) => seen.offences.push(format!("{:?}: {reason}", self.way)),
        }
    }
}

/// Listens until it is dropped.
pub(crate) struct Recorder {
    seen: Arc<Mutex<Seen>>,
    /// Dropping it ends every connection.
    runtime: tokio::runtime::Runtime,
}

impl Recorder {
    /// One that stands nowhere yet.
    fn of(seen: Arc<Mutex<Seen>>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Self { seen, runtime: runtime.unwrap() }
    }

    /// Stands before every site of a network that does not run yet.
    pub(crate) fn between(net: &Net) -> Self {
        let Self { seen, runtime } = Self::of(Arc::default());
        let all: Arc<[PathBuf]> = (0..net.names.len()).map(|site| net.folder(site)).collect();
        before_every_site(net, |called, port, target| {
            let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", port))).unwrap();
            let (folders, seen) = (Arc::clone(&all), Arc::clone(&seen));
            runtime.spawn(async move {
                while let Ok((caller, _)) = listener.accept().await {
                    let (folders, seen) = (Arc::clone(&folders), Arc::clone(&seen));
                    tokio::spawn(async move {
                        // A site that is not there just now is called again.
                        drop(stand_between(caller, &folders, called, target, seen).await);
                    });
                }
            });
        });
        Self { seen, runtime }
    }

    /// What no honest network does.
    pub(crate) fn offences(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let mut all = seen.offences.clone();
        for (study, way, bytes) in &seen.cut {
            let of_this = |key: &(Digest, Way, u32)| key.0 == *study && key.1 == *way;
            // Of a payload; other frames say nothing of the records.
            let kept = !matches!(bytes[0], 2 | 6)
                || seen
                    .payloads
                    .iter()
                    .any(|(key, whole)| of_this(key) && whole.starts_with(bytes));
            if !kept {
                all.push(format!(
                    "{way:?}: {} bytes of a payload that never came again",
                    bytes.len()
                ));
            }
        }
        all
    }

    /// Everything that passed on a way, inside TLS.
    pub(crate) fn bytes(&self, way: Way) -> Vec<u8> {
        self.seen.lock().unwrap().bytes.get(&way).cloned().unwrap_or_default()
    }

    /// Payloads of a way, by round.
    pub(crate) fn payloads(&self, way: Way) -> Vec<(u32, Vec<u8>)> {
        let seen = self.seen.lock().unwrap();
        seen.payloads
            .iter()
            .filter(|p| p.0.1 == way)
            .map(|(key, bytes)| (key.2, bytes.clone()))
            .collect()
    }

    /// Connections that were made, and payloads that came again.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let seen = self.seen.lock().unwrap();
        (seen.connections, seen.resends)
    }

    /// Where this is not so: every round passed on every edge, both ways, with one payload, the one
    /// that its sender's ledger has charged; and nothing else did.
    fn complaints(&self, net: &Net) -> Vec<String> {
        let mut all = self.offences();
        let (experiment, study) = (net.experiment(), Folder::read(&net.folder(0)).unwrap().study);
        let seen = self.seen.lock().unwrap();
        let mut expected = 0;
        for ((from, round), charged) in net.transcript() {
            let neighbours = experiment.graph().neighbours(from);
            let of = |&to: &u32| seen.payloads.get(&(study, (from, to as usize), round));
            let found: Vec<_> = neighbours.iter().filter_map(of).map(Vec::as_slice).collect();
            expected += found.len();
            // Shares are charged together, in the order of the neighbours; a release is the same
            // for all.
            let payload = if experiment.is_shared() {
                found.concat()
            } else {
                found.first().map_or_else(Vec::new, |f| f.to_vec())
            };
            if found.len() < neighbours.len() {
                all.push(format!("round {round} of {from} did not pass on every edge"));
            } else if Hex(&release_hash(&payload)).to_string() != charged {
                all.push(format!("round {round} of {from} is not what was charged"));
            } else if !experiment.is_shared() && found.iter().any(|f| *f != payload) {
                all.push(format!("round {round} of {from} was not the same for all"));
            }
        }
        if seen.payloads.len() > expected {
            all.push("a payload that nobody charged".into());
        }
        all
    }

    /// Every round passed on every edge, both ways, with one payload, however often it was sent.
    pub(crate) fn assert_one_payload_a_round(&self, net: &Net) {
        assert_eq!(self.complaints(net), [""; 0]);
        assert!(!self.seen.lock().unwrap().payloads.is_empty(), "nothing passed");
    }
}

/// Takes a call for the site `called`, finds out who calls, calls `called` in its name, and hands
/// on what both say.
async fn stand_between(
    caller: TcpStream,
    folders: &[PathBuf],
    called: usize,
    target: u16,
    seen: Arc<Mutex<Seen>>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    caller.set_nodelay(true)?;
    let folder = Folder::read(&folders[called])?;
    let known = folder.known()?;
    let config = Identity::read(&folder.path)?.server(&known)?;
    let near = TlsAcceptor::from(config).accept(caller).await?;
    let certificate =
        near.get_ref().1.peer_certificates().and_then(<[_]>::first).ok_or("no certificate")?;
    let from = recognise(certificate, &known)?;
    let config = Identity::read(&folders[from])?.client(&known[called])?;
    let stream = TcpStream::connect(("127.0.0.1", target)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from(known[called].name.clone())?;
    let far = TlsConnector::from(config).connect(name, stream).await?;
    seen.lock().unwrap().connections += 1;
    let (near_in, near_out) = tokio::io::split(near);
    let (far_in, far_out) = tokio::io::split(far);
    let ear = |way, caller| Ear {
        way,
        messages: Messages::of(caller),
        study: None,
        seen: Arc::clone(&seen),
    };
    tokio::join!(
        hand_on(near_in, far_out, ear((from, called), true)),
        hand_on(far_in, near_out, ear((called, from), false)),
    );
    Ok(())
}

/// Recorded first, then handed on: what an end received was recorded, whatever happens next.
async fn hand_on(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, mut ear: Ear) {
    let mut buffer = vec![0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        ear.hear(&buffer[..read]);
        if to.write_all(&buffer[..read]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    ear.end();
    drop(to.shutdown().await);
}

/// A network whose ledgers and logs were thrown away draws its noise again: exactly what must never
/// pass unseen.
#[test]
fn the_recorder_sees_a_round_that_is_drawn_twice() {
    let study = experiment(2, "kind = \"complete\"", "kind = \"dgd\"\nrounds = 3\ngossip = 0");
    let net = Net::new("recorder", 2, &study, "os");
    let recorder = Recorder::between(&net);
    finish(net.start_all(), Duration::from_secs(60));
    recorder.assert_one_payload_a_round(&net);
    assert_eq!((recorder.payloads((0, 1)).len(), recorder.payloads((1, 0)).len()), (3, 3));
    // A recorder that heard nothing is not content.
    let deaf = Recorder::of(Arc::default());
    assert_eq!(deaf.complaints(&net).len(), 6);
    for site in 0..2 {
        let keep =
            ["experiment.toml", "peers.toml", SITE, "key.pem", "certificate.pem", "trust.pem"];
        for file in fs::read_dir(net.folder(site)).unwrap().map(|f| f.unwrap()) {
            if !keep.iter().any(|name| file.file_name() == *name) {
                fs::remove_file(file.path()).unwrap();
            }
        }
    }
    finish(net.start_all(), Duration::from_secs(60));
    let offences = recorder.offences();
    assert_eq!(offences.len(), 6, "three rounds both ways: {offences:?}");
    assert!(offences.iter().all(|o| o.contains("had two payloads")), "{offences:?}");
    assert!(recorder.complaints(&net).len() > 6, "nor are they what the new ledgers have charged");
}

/// What it would take for a leak: another payload, the beginning of another payload, somebody
/// else's share.
#[test]
fn the_recorder_sees_forged_payloads_whole_or_cut() {
    use consenso_node::frame::{self, Hello};
    let message = |bytes: &[u8]| {
        let prefixed = [&[0][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat();
        [&(prefixed.len() as u32).to_be_bytes()[1..], &[0, 0, 0, 0, 0, 1], &prefixed].concat()
    };
    let hello = Hello {
        version: frame::VERSION,
        experiment: [1; 32],
        graph: [2; 32],
        from: 4,
        to: 5,
        have: 0,
    };
    let hello = Frame::Hello(hello).encode();
    let (honest, forged) = (frame::release(4, 7, &[1.0, 2.0]), frame::release(4, 7, &[1.0, 2.5]));
    let offences = |second: &[u8]| {
        let seen = Arc::new(Mutex::new(Seen::default()));
        for bytes in [&message(&honest), second] {
            let mut ear = Ear {
                way: (4, 5),
                messages: Messages::of(false),
                study: None,
                seen: Arc::clone(&seen),
            };
            ear.hear(&message(&hello));
            ear.hear(bytes);
            ear.end();
        }
        Recorder::of(seen).offences()
    };
    let cut = |bytes: &[u8], left: usize| message(bytes)[..message(bytes).len() - left].to_vec();
    for fine in [message(&honest), cut(&honest, 1), cut(&honest, 20), cut(&forged, 8), Vec::new()] {
        assert_eq!(offences(&fine), [""; 0]);
    }
    for wrong in [
        message(&forged),
        cut(&forged, 1),
        message(&frame::release(3, 8, &[1.0, 2.0])),
        message(&frame::words(4, 6, 1, &[3, 4])),
        message(&[9, 9]),
    ] {
        assert_eq!(offences(&wrong).len(), 1, "{wrong:?}");
    }
}
