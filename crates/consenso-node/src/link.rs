//! Links: one gRPC stream an edge over HTTP/2 and mutual TLS, called by one end, the same for both
//! from then on.
//!
//! A link carries frames and knows nothing of rounds beyond its hello. It comes and goes; what must
//! arrive in spite of that is the [node](crate::node)'s business. Whatever a peer sends is bounded:
//! the length of a frame, the frames in a queue, the time of a handshake, the connections at once.

use crate::audit_log::AuditLog;
use crate::call::{HANDSHAKE, Target};
use crate::callers::{CallLimiter, CallRate, Greetings, Meter, NoGreeting};
use crate::folder::{Folder, short};
use crate::frame::{self, Digest, Frame, FrameError, Hello, VERSION};
use crate::identity::{UnknownCertificate, public_key, recognise};
use crate::wire::{Connection, Listener, Wire};
use bytes::{Buf as _, BufMut as _, Bytes};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Response, Status, Streaming};

/// The one method of the service.
const PATH: &str = "/consenso.Edge/Exchange";

/// Frames an edge may have waiting in one direction. The protocol needs eight: two rounds with
/// their signatures and summaries, an acknowledgement, a proof.
const QUEUE: usize = 24;

/// Time for the last words on a link that is refused.
const PARTING: Duration = Duration::from_secs(1);

/// Callers at once that have not shown who they are: one more makes the oldest of them go, so that
/// nobody is locked out by who only waits.
const STRANGERS: usize = 64;

/// Callers at once from one address that have not shown who they are.
const STRANGERS_OF_ONE_ADDRESS: usize = 32;

/// Time for a caller to show who it is.
const GREETING: Duration = Duration::from_secs(3);

/// Connections that one peer may have open; an edge needs one, and those that were lost take a
/// while to be noticed.
const CONNECTIONS: usize = 8;

/// How long a site is not let in that sent more than it may beside messages.
const BANNED: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 60 });

/// Pause between two calls: doubles from the first to the last.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(2));

/// Links that may end as soon as they are up before the pause between calls grows, up to
/// [`UNWANTED`].
const TRIES: u32 = 5;

/// The longest pause between calls to a peer that ends every link at once: it went on without this
/// site, most likely.
const UNWANTED: Duration = Duration::from_secs(60);

/// What links tell the node.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// Both ends agreed; frames may be sent.
    Up {
        peer: u32,
        link: u64,
        /// What the peer has durably.
        have: u32,
        outgoing: mpsc::Sender<Bytes>,
    },
    /// It is gone.
    Down { peer: u32, link: u64 },
    /// A frame after the hello.
    Frame { peer: u32, link: u64, frame: Frame, bytes: Bytes },
}

/// What all links of a site share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) folder: Folder,
    neighbours: Mutex<Vec<u32>>,
    /// Sites that take part no more, and the agreement that says so.
    left: Mutex<HashMap<u32, u32>>,
    graph: Digest,
    dim: usize,
    /// Exchanges that are complete and durable here.
    pub(crate) have: AtomicU32,
    pub(crate) audit: AuditLog,
    events: mpsc::Sender<LinkEvent>,
    wire: Arc<dyn Wire>,
    links: AtomicU64,
    /// The running link of each peer: a new one takes its place.
    running: Mutex<HashMap<u32, AbortHandle>>,
    /// The public keys that peers showed in their handshakes.
    keys: Mutex<HashMap<u32, Arc<[u8]>>>,
    /// Connections by peer that called and showed who it is.
    connections: Vec<Arc<AtomicUsize>>,
    /// Frames an edge may have waiting in one direction.
    queue: usize,
    greetings: Greetings,
    /// Listed sites that sent too much beside messages, and when.
    banned: Mutex<HashMap<u32, tokio::time::Instant>>,
    #[cfg(test)]
    actor: Option<Arc<dyn crate::lying_peers::Actor>>,
}

/// What a site's links need to know of its study.
#[derive(Debug)]
pub(crate) struct StudyContext {
    pub(crate) neighbours: Vec<u32>,
    pub(crate) graph: Digest,
    pub(crate) dim: usize,
    /// Exchanges that are complete and durable already.
    pub(crate) have: u32,
}

impl Shared {
    pub(crate) fn new(
        folder: Folder,
        study: StudyContext,
        audit: AuditLog,
        events: mpsc::Sender<LinkEvent>,
        wire: Arc<dyn Wire>,
    ) -> Self {
        let StudyContext { neighbours, graph, dim, have } = study;
        let (have, links, running) = (AtomicU32::new(have), AtomicU64::new(0), Mutex::default());
        let connections = folder.peers.iter().map(|_| Arc::default()).collect();
        let keys = Mutex::default();
        let left = |(i, peer): (usize, &crate::folder::Peer)| {
            Some((i as u32, crate::agreement::left(&folder.agreements, &peer.name)?))
        };
        let left = Mutex::new(folder.peers.iter().enumerate().filter_map(left).collect());
        let neighbours = Mutex::new(neighbours);
        Self {
            folder,
            neighbours,
            left,
            graph,
            dim,
            have,
            audit,
            events,
            wire,
            links,
            running,
            keys,
            connections,
            queue: QUEUE,
            greetings: Greetings::default(),
            banned: Mutex::default(),
            #[cfg(test)]
            actor: None,
        }
    }

    /// Has a site of a test greet in its own way.
    #[cfg(test)]
    pub(crate) fn with_actor(self, actor: Option<Arc<dyn crate::lying_peers::Actor>>) -> Self {
        Self { actor, ..self }
    }

    /// Keeps a listed site out for a while that sent too much beside messages.
    fn ban(&self, peer: u32) {
        let reason = match self.is_neighbour(peer) {
            true => "it sent too many frames of HTTP/2 without content",
            false => "it is no neighbour and sent more than it needs to be told so",
        };
        self.audit.refused(self.name(peer), reason);
        if let Ok(mut banned) = self.banned.lock() {
            banned.insert(peer, tokio::time::Instant::now());
        }
    }

    fn is_banned(&self, peer: u32) -> bool {
        self.banned
            .lock()
            .is_ok_and(|banned| banned.get(&peer).is_some_and(|at| at.elapsed() < BANNED))
    }

    /// Lets edges have so many rounds more waiting, where neighbours may be that many apart.
    pub(crate) fn with_rounds_between(mut self, rounds: u32) -> Self {
        self.queue += 4 * rounds as usize;
        self
    }

    /// Remembers the public key of a peer that TLS has believed.
    fn learn(&self, peer: u32, certificate: &[u8]) {
        if let (Ok(key), Ok(mut keys)) = (public_key(certificate), self.keys.lock()) {
            keys.insert(peer, key.into());
        }
    }

    /// The public key of a peer, once it was connected.
    pub(crate) fn key_of(&self, peer: u32) -> Option<Arc<[u8]>> {
        self.keys.lock().ok()?.get(&peer).cloned()
    }

    /// Ends the running link of a peer, whose key is not believed any more.
    pub(crate) fn cut(&self, peer: u32) {
        if let Some(task) = self.running.lock().ok().and_then(|mut all| all.remove(&peer)) {
            task.abort();
        }
    }

    /// Has a site that takes part no more refused by its name.
    pub(crate) fn leaves(&self, peer: u32, agreement: u32) {
        if let Ok(mut left) = self.left.lock() {
            left.insert(peer, agreement);
        }
        self.cut(peer);
    }

    /// By which agreement a site takes part no more, if it does not.
    fn left_by(&self, peer: u32) -> Option<u32> {
        self.left.lock().ok()?.get(&peer).copied()
    }

    fn is_neighbour(&self, peer: u32) -> bool {
        self.neighbours.lock().is_ok_and(|all| all.contains(&peer))
    }

    fn name(&self, peer: u32) -> &str {
        self.folder.peers.get(peer as usize).map_or("?", |p| p.name.as_str())
    }

    fn keep_alive(&self) -> Duration {
        Duration::from_secs_f64(self.folder.site.keep_alive_seconds)
    }

    /// Windows that hold two frames, so that a large model need not wait for the other end's
    /// consent, and hundreds of small ones. Consent is given by the byte, and signatures differ in
    /// length from run to run: a simulated study that ends within one window repeats its events.
    fn window(&self) -> u32 {
        u32::try_from(2 * frame::longest(self.dim)).unwrap_or(u32::MAX / 4).clamp(1 << 19, 1 << 30)
    }
}

/// A site's links: they are kept up until this is dropped.
#[derive(Debug)]
pub(crate) struct Links {
    shared: Arc<Shared>,
    /// The listener and the callers; dropping the set ends them.
    tasks: JoinSet<()>,
}

impl Links {
    /// Lets another site be a neighbour, and calls it if that is this end's part.
    pub(crate) fn add(&mut self, peer: u32) {
        if let Ok(mut all) = self.shared.neighbours.lock()
            && !all.contains(&peer)
        {
            all.push(peer);
            if self.shared.folder.calls(peer as usize).unwrap_or(false) {
                self.tasks.spawn(call_again_and_again(Arc::clone(&self.shared), peer));
            }
        }
    }

    /// Gives what is queued a moment to leave, once nobody holds a sender any more: edges end when
    /// both ends have closed.
    pub(crate) async fn close(self) {
        let open = || {
            self.shared.running.lock().is_ok_and(|all| all.values().any(|task| !task.is_finished()))
        };
        for _ in 0..20 {
            if !open() {
                return;
            }
            tokio::time::sleep(PARTING / 100).await;
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        if let Ok(all) = self.shared.running.lock() {
            all.values().for_each(AbortHandle::abort);
        }
    }
}

/// Listens and calls.
///
/// # Errors
/// The address cannot be listened at.
pub(crate) async fn start(shared: Arc<Shared>) -> std::io::Result<Links> {
    let mut tasks = JoinSet::new();
    if let Some(address) = &shared.folder.site.listen {
        let listener = shared.wire.listen(address).await?;
        tasks.spawn(serve(Arc::clone(&shared), listener));
    }
    let neighbours = shared.neighbours.lock().map(|all| all.clone()).unwrap_or_default();
    for peer in neighbours {
        if shared.folder.calls(peer as usize).unwrap_or(false) {
            tasks.spawn(call_again_and_again(Arc::clone(&shared), peer));
        }
    }
    Ok(Links { shared, tasks })
}

// ---- the end that is called
// -------------------------------------------------------------------------------------------

/// A TLS connection and who is at its other end.
struct Called {
    stream: Metered<tokio_rustls::server::TlsStream<Connection>>,
    caller: Caller,
    _counted: Counted,
}

/// A connection to a peer whose bytes are held against its messages.
struct Metered<S> {
    stream: S,
    peer: u32,
    shared: Arc<Shared>,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    fn new(stream: S, shared: &Arc<Shared>, peer: u32) -> Self {
        let meter = match shared.is_neighbour(peer) {
            true => Meter::of_neighbour(frame::longest_on_link(shared.dim)),
            false => Meter::of_uninvited(),
        };
        Self { stream, peer, shared: Arc::clone(shared), meter: Arc::new(meter) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if !this.meter.admits(buffer.filled().len() - before) {
            this.shared.ban(this.peer);
            return Poll::Ready(Err(std::io::ErrorKind::ConnectionAborted.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// One of a peer's connections, for as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    /// `None` where there are too many.
    fn new(count: &Arc<AtomicUsize>) -> Option<Self> {
        let one = Self(Arc::clone(count));
        (count.fetch_add(1, Ordering::Relaxed) < CONNECTIONS).then_some(one)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Debug)]
struct Caller(u32, Arc<Meter>);

impl tonic::transport::server::Connected for Called {
    type ConnectInfo = Caller;

    fn connect_info(&self) -> Caller {
        self.caller.clone()
    }
}

impl AsyncRead for Called {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Called {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buffer)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

async fn serve(shared: Arc<Shared>, listener: Box<dyn Listener>) {
    let (accepted, incoming) = mpsc::channel::<Result<Called, std::io::Error>>(QUEUE);
    let calls = accept(Arc::clone(&shared), listener, accepted);
    let window = shared.window();
    let server = tonic::transport::Server::builder()
        .initial_stream_window_size(window)
        .initial_connection_window_size(window)
        .max_concurrent_streams(1)
        .http2_keepalive_interval(Some(shared.keep_alive()))
        .http2_keepalive_timeout(Some(shared.keep_alive()));
    let stopped = Arc::clone(&shared);
    let served = server.serve_with_incoming(Edges(shared), ReceiverStream::new(incoming));
    if let ((), Err(error)) = tokio::join!(calls, served) {
        stopped.audit.write("listener-stopped", serde_json::json!({ "reason": error.to_string() }));
    }
}

async fn accept(
    shared: Arc<Shared>,
    mut listener: Box<dyn Listener>,
    accepted: mpsc::Sender<Result<Called, std::io::Error>>,
) {
    // Who has not shown who it is, oldest first: its number, its address, its task.
    let mut strangers: VecDeque<(String, AbortHandle)> = VecDeque::new();
    let own_key = shared.folder.site.signer.is_empty();
    let mut gate = CallLimiter::new(if own_key { CallRate::OWN_KEY } else { CallRate::SIGNER });
    loop {
        let (stream, host) = match listener.accept().await {
            Ok(new) => new,
            Err(error) => {
                // Out of file descriptors, most likely: what is connected goes on.
                shared.audit.refused("?", &format!("a caller could not be accepted: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        strangers.retain(|(_, task)| !task.is_finished());
        let address =
            host.rsplit_once(':').map_or(host.as_str(), |(address, _)| address).to_owned();
        if !gate.admits(&address) {
            shared.audit.refused(&address, "it calls too often");
            continue;
        }
        let of_this = strangers.iter().filter(|(other, _)| *other == address).count();
        let oldest = match () {
            () if of_this >= STRANGERS_OF_ONE_ADDRESS => {
                strangers.iter().position(|(other, _)| *other == address)
            }
            () if strangers.len() >= STRANGERS => Some(0),
            () => None,
        };
        if let Some((address, task)) = oldest.and_then(|index| strangers.remove(index)) {
            task.abort();
            shared.audit.refused(&address, "it did not say who it is, and others wait");
        }
        let (shared, accepted) = (Arc::clone(&shared), accepted.clone());
        let task = tokio::spawn(async move {
            let greeted = timeout(GREETING, greet(&shared, stream)).await;
            match greeted.unwrap_or(Err(NoLink::Slow)) {
                Ok(called) => drop(accepted.send(Ok(called)).await),
                Err(reason) => shared.audit.refused(&host, &reason.to_string()),
            }
        });
        strangers.push_back((address, task.abort_handle()));
    }
}

/// Why a link does not come up.
#[derive(Debug, thiserror::Error)]
enum NoLink {
    #[error(transparent)]
    Greeting(#[from] NoGreeting),
    #[error("{0} is not let in for a while: it sent too much beside messages")]
    Banned(String),
    #[error("{}", crate::handshake::words(.0))]
    Tls(std::io::Error),
    #[error("no TLS handshake in time")]
    Slow,
    #[error("no certificate")]
    NoCertificate,
    #[error(transparent)]
    Stranger(#[from] UnknownCertificate),
    #[error("{name}: {reason}")]
    Revoked { name: String, reason: String },
    #[error("{0} has {CONNECTIONS} connections already")]
    Crowded(String),
    #[error("the peer closed the stream")]
    Closed,
    #[error("{}", .0.message())]
    Stream(Box<Status>),
    #[error("no hello in time")]
    Silence,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("it refused: {0}")]
    Refused(String),
    #[error("the first frame was not a hello")]
    NoHello,
    #[error("the hello is from agent {from} to agent {to}, but this edge is from {peer} to {me}")]
    OtherEdge { from: u32, to: u32, peer: u32, me: u32 },
    #[error("{OTHER_STUDY}: it is {}, and here it is {}", short(theirs), short(ours))]
    OtherStudy { theirs: Digest, ours: Digest },
    #[error("its graph is {}, and here it is {}", short(theirs), short(ours))]
    OtherGraph { theirs: Digest, ours: Digest },
}

/// Has a caller show who it is. Nothing is read for it, unless a file has changed.
async fn greet(shared: &Arc<Shared>, stream: Connection) -> Result<Called, NoLink> {
    let greeting = shared.greetings.of(&shared.folder)?;
    let (known, config) = (&greeting.known, Arc::clone(&greeting.config));
    let stream = TlsAcceptor::from(config).accept(stream).await.map_err(NoLink::Tls)?;
    let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = certificate.ok_or(NoLink::NoCertificate)?;
    let caller = recognise(certificate, known)?;
    let pin = crate::identity::pin(certificate).unwrap_or(known[caller].pin);
    if let Some(reason) = shared.folder.revoked(&pin) {
        return Err(NoLink::Revoked { name: known[caller].name.clone(), reason });
    }
    let peer = caller as u32;
    if shared.is_banned(peer) {
        return Err(NoLink::Banned(known[caller].name.clone()));
    }
    shared.learn(peer, certificate);
    let counted = Counted::new(&shared.connections[caller]);
    let counted = counted.ok_or_else(|| NoLink::Crowded(known[caller].name.clone()))?;
    let stream = Metered::new(stream, shared, peer);
    let caller = Caller(peer, Arc::clone(&stream.meter));
    Ok(Called { stream, caller, _counted: counted })
}

/// The service: one stream, whose caller is known from its certificate.
#[derive(Clone)]
struct Edges(Arc<Shared>);

impl tower_service::Service<http::Request<tonic::body::Body>> for Edges {
    type Response = http::Response<tonic::body::Body>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(
                    Status::unimplemented("there is one method, and this is not it").into_http()
                );
            }
            let mut grpc = tonic::server::Grpc::new(Raw)
                .max_decoding_message_size(frame::longest_on_link(shared.dim));
            Ok(grpc.streaming(Exchange(shared), request).await)
        })
    }
}

struct Exchange(Arc<Shared>);

type Outgoing = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

impl tonic::server::StreamingService<Bytes> for Exchange {
    type Response = Bytes;
    type ResponseStream = Outgoing;
    type Future = std::future::Ready<Result<Response<Outgoing>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let Some(Caller(peer, meter)) = request.extensions().get::<Caller>().cloned() else {
            return std::future::ready(Err(Status::unauthenticated("no certificate")));
        };
        let (outgoing, frames) = mpsc::channel(self.0.queue);
        let incoming = Incoming { frames: request.into_inner(), meter };
        edge(&self.0, peer, true, outgoing, incoming);
        let frames: Outgoing = Box::pin(ReceiverStream::new(frames).map(Ok));
        std::future::ready(Ok(Response::new(frames)))
    }
}

// ---- the end that calls
// -----------------------------------------------------------------------------------------------

async fn call_again_and_again(shared: Arc<Shared>, peer: u32) {
    let (mut pause, mut short_lived) = (PAUSE.0, 0);
    loop {
        while shared.is_banned(peer) {
            tokio::time::sleep(PAUSE.1).await;
        }
        let began = tokio::time::Instant::now();
        match call(&shared, peer).await {
            // It was up for a while: whatever ended it, the next call may work at once. One that
            // ends as soon as it is up, time and again, is not wanted.
            Ok(task) => {
                let was_up = task.await.unwrap_or(false);
                short_lived = if was_up && began.elapsed() < PAUSE.1 { short_lived + 1 } else { 0 };
                if was_up && short_lived <= TRIES {
                    pause = PAUSE.0;
                }
            }
            Err(Failed { reason, refused: true }) => {
                // Whatever the other end says of it, this is what the operator here must know.
                let reason = match crate::handshake::ended(&shared.folder.path) {
                    Some(days) => format!(
                        "{reason}; this site's own certificate ended {days:.1} days ago: put a new certificate.pem in place"
                    ),
                    None => reason,
                };
                shared.audit.refused(shared.name(peer), &reason);
            }
            Err(Failed { reason, refused: false }) => {
                shared.audit.unreached(shared.name(peer), &reason);
            }
        }
        if shared.events.is_closed() || shared.left_by(peer).is_some() {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(if short_lived > TRIES { UNWANTED } else { PAUSE.1 });
    }
}

/// A call that led to nothing: whether somebody said no, or nobody was there.
#[derive(Debug)]
struct Failed {
    reason: String,
    refused: bool,
}

impl From<String> for Failed {
    fn from(reason: String) -> Self {
        Self { reason, refused: true }
    }
}

async fn call(shared: &Arc<Shared>, peer: u32) -> Result<tokio::task::JoinHandle<bool>, Failed> {
    let (outgoing, incoming) = dial(shared, peer).await?;
    Ok(edge(shared, peer, false, outgoing, incoming))
}

/// Opens a stream to a peer.
async fn dial(shared: &Arc<Shared>, peer: u32) -> Result<(mpsc::Sender<Bytes>, Incoming), Failed> {
    let target = Target::read(&shared.folder, peer).map_err(|e| e.to_string())?;
    let address = target.address.clone();
    let stream = target
        .call(&*shared.wire)
        .await
        .map_err(|e| Failed { reason: format!("{address}: {e}"), refused: e.is_refusal() })?;
    if let Some(certificate) = stream.get_ref().1.peer_certificates().and_then(<[_]>::first) {
        shared.learn(peer, certificate);
    }
    let stream = Metered::new(stream, shared, peer);
    let meter = Arc::clone(&stream.meter);
    let window = shared.window();
    // TLS is done by now, under the peer's name and pin: what follows only frames it.
    let endpoint = tonic::transport::Endpoint::from_static("http://neighbour")
        .initial_stream_window_size(window)
        .initial_connection_window_size(window)
        .http2_keep_alive_interval(shared.keep_alive())
        .keep_alive_timeout(shared.keep_alive())
        .keep_alive_while_idle(true);
    let channel = endpoint
        .connect_with_connector(SingleConnection(Some(hyper_util::rt::TokioIo::new(stream))))
        .await
        .map_err(|e| format!("{address}: {e}"))?;
    let mut grpc = tonic::client::Grpc::new(channel)
        .max_decoding_message_size(frame::longest_on_link(shared.dim));
    grpc.ready().await.map_err(|e| format!("{address}: {e}"))?;
    let (outgoing, frames) = mpsc::channel(shared.queue);
    let path = http::uri::PathAndQuery::from_static(PATH);
    let answered = grpc.streaming(Request::new(ReceiverStream::new(frames)), path, Raw);
    let incoming = timeout(HANDSHAKE, answered)
        .await
        .map_err(|_| format!("{address}: no answer in time"))?
        .map_err(|e| format!("{address}: {e}"))?;
    Ok((outgoing, Incoming { frames: incoming.into_inner(), meter }))
}

/// What a peer sends on a link.
struct Incoming {
    frames: Streaming<Bytes>,
    meter: Arc<Meter>,
}

type ClientStream = hyper_util::rt::TokioIo<Metered<tokio_rustls::client::TlsStream<Connection>>>;

/// Hands a connection that is already there to the HTTP/2 client.
struct SingleConnection(Option<ClientStream>);

impl tower_service::Service<http::Uri> for SingleConnection {
    type Response = ClientStream;
    type Error = std::io::Error;
    type Future = std::future::Ready<Result<ClientStream, std::io::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Uri) -> Self::Future {
        let gone =
            || std::io::Error::new(std::io::ErrorKind::NotConnected, "the connection is gone");
        std::future::ready(self.0.take().ok_or_else(gone))
    }
}

// ---- both ends
// --------------------------------------------------------------------------------------------------------

/// Runs an edge to `peer` in the place of one that may still be running: the newest connection is
/// the one the peer knows of.
fn edge(
    shared: &Arc<Shared>,
    peer: u32,
    called: bool,
    outgoing: mpsc::Sender<Bytes>,
    incoming: Incoming,
) -> tokio::task::JoinHandle<bool> {
    let task = tokio::spawn(converse(Arc::clone(shared), peer, called, outgoing, incoming));
    let before =
        shared.running.lock().ok().and_then(|mut all| all.insert(peer, task.abort_handle()));
    if let Some(before) = before {
        before.abort();
    }
    task
}

/// Hello, then frames until either end has enough. True if both agreed.
async fn converse(
    shared: Arc<Shared>,
    peer: u32,
    called: bool,
    outgoing: mpsc::Sender<Bytes>,
    mut incoming: Incoming,
) -> bool {
    // Who is no neighbour learns nothing of the study.
    let left = shared.left_by(peer);
    if left.is_some() || !shared.is_neighbour(peer) {
        let reason = match left {
            Some(number) => format!("{} left the study (agreement {number})", shared.name(peer)),
            None => {
                format!(
                    "{} is no neighbour of {}",
                    shared.name(peer),
                    shared.name(shared.folder.me as u32)
                )
            }
        };
        shared.audit.refused(shared.name(peer), &reason);
        drop(outgoing.send(Frame::Refused(reason).encode()).await);
        drop(outgoing);
        let heard = async { while next(&mut incoming).await.is_ok() {} };
        drop(timeout(PARTING, heard).await);
        return false;
    }
    let greeting = || {
        let hello = Hello {
            version: VERSION,
            experiment: shared.folder.study,
            graph: shared.graph,
            from: shared.folder.me as u32,
            to: peer,
            have: shared.have.load(Ordering::Acquire),
        };
        #[cfg(test)]
        let hello = match &shared.actor {
            Some(actor) => actor.hello(hello),
            None => hello,
        };
        Frame::Hello(hello).encode()
    };
    // Who calls greets first.
    let first = async {
        if !called && outgoing.send(greeting()).await.is_err() {
            return Err(NoLink::Closed);
        }
        timeout(HANDSHAKE, next(&mut incoming)).await.unwrap_or(Err(NoLink::Silence))
    };
    let theirs = match first.await.and_then(|bytes| accept_hello(&shared, peer, &bytes)) {
        Ok(theirs) => theirs,
        Err(reason) => {
            refuse(&shared, peer, called.then(greeting), reason, outgoing, &mut incoming).await;
            return false;
        }
    };
    if called && outgoing.send(greeting()).await.is_err() {
        return false;
    }
    let link = shared.links.fetch_add(1, Ordering::Relaxed);
    let up = LinkEvent::Up { peer, link, have: theirs.have, outgoing: outgoing.clone() };
    if shared.events.send(up).await.is_err() {
        return true;
    }
    // The node holds the only sender from now on, so that dropping it closes the stream.
    drop(outgoing);
    loop {
        let bytes = match next(&mut incoming).await {
            Ok(bytes) => bytes,
            Err(_) => break,
        };
        match Frame::decode(&bytes) {
            Ok(frame) => {
                if shared.events.send(LinkEvent::Frame { peer, link, frame, bytes }).await.is_err()
                {
                    break;
                }
            }
            Err(error) => {
                shared.audit.refused(shared.name(peer), &error.to_string());
                break;
            }
        }
    }
    drop(shared.events.send(LinkEvent::Down { peer, link }).await);
    true
}

/// Says why a hello is not accepted, hears what the other end says, and logs what both differ in.
async fn refuse(
    shared: &Shared,
    peer: u32,
    greeting: Option<Bytes>,
    reason: NoLink,
    outgoing: mpsc::Sender<Bytes>,
    incoming: &mut Incoming,
) {
    let differs = matches!(reason, NoLink::OtherStudy { .. });
    let reason = reason.to_string();
    shared.audit.refused(shared.name(peer), &reason);
    let mine = std::fs::read_to_string(shared.folder.path.join(crate::folder::EXPERIMENT))
        .unwrap_or_default();
    let study = differs.then(|| Frame::Study(mine.clone()).encode());
    for frame in greeting.into_iter().chain(study).chain([Frame::Refused(reason.clone()).encode()])
    {
        drop(outgoing.send(frame).await);
    }
    drop(outgoing);
    // A stream that is dropped takes unsent frames along: the peer should hear why, and say why in
    // its turn.
    let mut theirs = None;
    let heard = async {
        while let Ok(bytes) = next(incoming).await {
            if let Ok(Frame::Study(text)) = Frame::decode(&bytes) {
                theirs = Some(text);
            }
        }
    };
    drop(timeout(PARTING, heard).await);
    if let Some(theirs) = theirs.filter(|_| differs) {
        let found = crate::differences::of(&mine, &theirs);
        shared.audit.refused(shared.name(peer), &format!("{OTHER_STUDY}: {found}"));
    }
}

async fn next(incoming: &mut Incoming) -> Result<Bytes, NoLink> {
    match incoming.frames.message().await {
        Ok(Some(bytes)) => {
            incoming.meter.message(bytes.len());
            Ok(bytes)
        }
        Ok(None) => Err(NoLink::Closed),
        Err(status) => Err(NoLink::Stream(Box::new(status))),
    }
}

/// How the reason begins when two sites are about to run different things.
const OTHER_STUDY: &str = "its study is another one";

/// Whether a hello is the one this edge needs. The peer's number is known from its certificate.
fn accept_hello(shared: &Shared, peer: u32, bytes: &[u8]) -> Result<Hello, NoLink> {
    let hello = match Frame::decode(bytes)? {
        Frame::Hello(hello) => hello,
        Frame::Refused(reason) => return Err(NoLink::Refused(reason)),
        _ => return Err(NoLink::NoHello),
    };
    let (me, study) = (shared.folder.me as u32, &shared.folder.study);
    if (hello.from, hello.to) != (peer, me) {
        return Err(NoLink::OtherEdge { from: hello.from, to: hello.to, peer, me });
    }
    if hello.experiment != *study {
        return Err(NoLink::OtherStudy { theirs: hello.experiment, ours: *study });
    }
    if hello.graph != shared.graph {
        return Err(NoLink::OtherGraph { theirs: hello.graph, ours: shared.graph });
    }
    Ok(hello)
}

/// Frames are their own bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// An edge's other end in the hands of a test.
#[cfg(test)]
pub(crate) mod tests_api {
    use super::*;
    use crate::wire::Tcp;

    /// A site whose only neighbour is `peer`, with a log in the folder `log`: a node takes one
    /// beside its own files for its own.
    pub(crate) fn shared(
        folder: &Folder,
        log: &std::path::Path,
        peer: u32,
        dim: usize,
        graph: Digest,
        events: mpsc::Sender<LinkEvent>,
    ) -> Arc<Shared> {
        let audit = AuditLog::open(log).unwrap();
        let study = StudyContext { neighbours: vec![peer], graph, dim, have: 0 };
        Arc::new(Shared::new(folder.clone(), study, audit, events, Arc::new(Tcp::default())))
    }

    /// One frame of `dim` numbers there and back between two sites, each in a thread of its own as
    /// a node is: the transport alone.
    pub(crate) fn round_trips(
        called: &Folder,
        caller: &Folder,
        dim: usize,
        trips: usize,
    ) -> Vec<Duration> {
        let runtime = || {
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .unwrap()
        };
        let (sender, mut events) = mpsc::channel(16);
        let (here, there) = (runtime(), runtime());
        let log = called.path.parent().unwrap();
        let a = shared(called, log, 1, dim, [0; 32], sender);
        let _links = here.block_on(start(a)).unwrap();
        here.spawn(async move {
            let mut back = None;
            while let Some(event) = events.recv().await {
                match event {
                    LinkEvent::Up { outgoing, .. } => back = Some(outgoing),
                    LinkEvent::Frame { bytes, .. } => {
                        drop(back.as_ref().unwrap().send(bytes).await);
                    }
                    LinkEvent::Down { .. } => {}
                }
            }
        });
        let bytes = frame::release(1, 1, &vec![0.25; dim]);
        let b = shared(caller, log, 0, dim, [0; 32], mpsc::channel(1).0);
        let calling = there.spawn(async move {
            let (outgoing, mut incoming) = super::dial(&b, 0).await.unwrap();
            let hello = Hello {
                version: VERSION,
                experiment: b.folder.study,
                graph: [0; 32],
                from: 1,
                to: 0,
                have: 0,
            };
            outgoing.send(Frame::Hello(hello).encode()).await.unwrap();
            next(&mut incoming).await.unwrap();
            let mut times = Vec::new();
            for _ in 0..trips {
                let began = std::time::Instant::now();
                outgoing.send(bytes.clone()).await.unwrap();
                assert_eq!(next(&mut incoming).await.unwrap().len(), bytes.len());
                times.push(began.elapsed());
            }
            times
        });
        there.block_on(calling).unwrap()
    }

    /// Calls `peer` as the site of `folder` and sends frames of HTTP/2 without content until it is
    /// cut off: the bytes that went out.
    pub(crate) async fn flood(folder: &Folder, peer: u32, most: usize) -> usize {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let stream = loop {
            match crate::call::Target::read(folder, peer).unwrap().call(&Tcp::default()).await {
                Ok(stream) => break stream,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let (mut from, mut to) = tokio::io::split(stream);
        let reader = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while from.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
        });
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let mut sent = 24 + settings.len();
        to.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        to.write_all(&settings).await.unwrap();
        // PRIORITY of stream 1, 14 bytes each.
        let many = [0, 0, 5, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 7].repeat(64);
        while sent < most && to.write_all(&many).await.is_ok() && !reader.is_finished() {
            sent += many.len();
        }
        drop(timeout(Duration::from_secs(5), reader).await);
        sent
    }

    /// Calls `peer` as the site of `folder`, says `hello` and from then on only that it is there,
    /// until the link ends.
    pub(crate) async fn nag(folder: &Folder, peer: u32, hello: &[u8]) {
        let shared =
            shared(folder, folder.path.parent().unwrap(), peer, 1000, [0; 32], mpsc::channel(1).0);
        let (outgoing, mut incoming) = loop {
            match super::dial(&shared, peer).await {
                Ok(link) => break link,
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        outgoing.send(hello.to_vec().into()).await.unwrap();
        while outgoing.send(Frame::Ack { round: 0 }.encode()).await.is_ok() {
            if let Ok(Err(_)) = timeout(Duration::from_millis(300), next(&mut incoming)).await {
                return;
            }
        }
    }

    /// Calls `peer` as the site of `folder`, says `hello`, sends frames, and gives the reason of
    /// the refusal that comes back.
    pub(crate) async fn dial(folder: &Folder, peer: u32, hello: &[u8], frames: &[Bytes]) -> String {
        let shared =
            shared(folder, folder.path.parent().unwrap(), peer, 1000, [0; 32], mpsc::channel(1).0);
        let (outgoing, mut incoming) = loop {
            match super::dial(&shared, peer).await {
                Ok(link) => break link,
                // It may not listen yet.
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        outgoing.send(hello.to_vec().into()).await.unwrap();
        for bytes in frames {
            drop(outgoing.send(bytes.clone()).await);
        }
        loop {
            match next(&mut incoming).await.map(|bytes| Frame::decode(&bytes)) {
                Ok(Ok(Frame::Refused(reason))) => return reason,
                Ok(Ok(_)) => {}
                other => return format!("no refusal: {other:?}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::{SiteFile, graph_digest};
    use crate::network::{Plan, PlannedSite, create};
    use consenso_engine::graph::Graph;
    use std::path::Path;

    /// Two sites that could talk, in one process; the first listens.
    async fn pair(root: &Path) -> (Arc<Shared>, mpsc::Receiver<LinkEvent>, Arc<Shared>, Links) {
        let port = crate::free_ports::free_ports(1)[0];
        let address = format!("127.0.0.1:{port}");
        let site = |name: &str, address: Option<String>| PlannedSite {
            file: SiteFile { listen: address.clone(), ..SiteFile::new(name) },
            address,
            records: 5,
        };
        let sites = vec![site("a", Some(address)), site("b", None)];
        create(root, &Plan { sites, experiment: "name = 1".into(), schema: None, edges: None })
            .unwrap();
        let shared = |name: &str, me: u32, events| {
            let folder = Folder::read(&root.join(name)).unwrap();
            let graph = graph_digest(&Graph::path(2).unwrap());
            tests_api::shared(&folder, &folder.path, 1 - me, 3, graph, events)
        };
        let (sender, events) = mpsc::channel(16);
        let a = shared("a", 0, sender);
        let links = start(Arc::clone(&a)).await.unwrap();
        (a, events, shared("b", 1, mpsc::channel(1).0), links)
    }

    fn with_pair<F: Future<Output = ()>>(
        name: &str,
        test: impl FnOnce(Arc<Shared>, mpsc::Receiver<LinkEvent>, Arc<Shared>) -> F,
    ) {
        let root =
            std::env::temp_dir().join(format!("consenso-link-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (a, events, b, _links) = pair(&root).await;
            timeout(Duration::from_secs(60), test(a, events, b)).await.expect("in time");
        });
        std::fs::remove_dir_all(&root).unwrap();
    }

    fn hello(b: &Shared) -> Hello {
        Hello {
            version: VERSION,
            experiment: b.folder.study,
            graph: b.graph,
            from: 1,
            to: 0,
            have: 0,
        }
    }

    #[test]
    fn hellos_of_another_version_study_graph_or_edge_are_refused() {
        with_pair("hello", |a, mut events, b| async move {
            let good = hello(&b);
            let other = |version: u8| {
                let mut bytes = Frame::Hello(good).encode().to_vec();
                bytes[1] = version;
                Bytes::from(bytes)
            };
            for (bytes, reason) in [
                (other(99), "protocol version 99"),
                (other(1), "protocol version 1"),
                (
                    Frame::Hello(Hello { experiment: [7; 32], ..good }).encode(),
                    "its study is another one",
                ),
                (Frame::Hello(Hello { graph: [7; 32], ..good }).encode(), "its graph is"),
                (Frame::Hello(Hello { from: 0, ..good }).encode(), "the hello is from agent 0"),
                (Frame::Ack { round: 1 }.encode(), "was not a hello"),
                (Bytes::new(), "empty"),
                (vec![77; 20].into(), "unknown kind"),
            ] {
                let (outgoing, mut incoming) = dial(&b, 0).await.unwrap();
                outgoing.send(bytes).await.unwrap();
                let first = Frame::decode(&next(&mut incoming).await.unwrap()).unwrap();
                assert!(matches!(first, Frame::Hello(h) if h.from == 0 && h.to == 1));
                let mut second = Frame::decode(&next(&mut incoming).await.unwrap());
                if let Ok(Frame::Study(_)) = second {
                    second = Frame::decode(&next(&mut incoming).await.unwrap());
                }
                let Ok(Frame::Refused(said)) = second else { panic!("no refusal for {reason}") };
                assert!(said.contains(reason), "{said}");
                let log = std::fs::read_to_string(a.folder.path.join("audit.jsonl")).unwrap();
                // Refusals that differ in a number are one line, counted.
                let logged = if reason.contains("version") { "protocol version" } else { reason };
                assert!(log.lines().last().unwrap().contains(logged), "{log}");
            }
            assert!(events.try_recv().is_err(), "nothing of it reached the node");
        });
    }

    #[test]
    fn rubbish_ends_the_link_and_a_frame_that_is_too_long_is_never_read() {
        with_pair("rubbish", |a, mut events, b| async move {
            for rubbish in [vec![2, 1], vec![99; 30], vec![0; 1 << 20]] {
                let (outgoing, _incoming) = dial(&b, 0).await.unwrap();
                outgoing.send(Frame::Hello(hello(&b)).encode()).await.unwrap();
                assert!(matches!(events.recv().await, Some(LinkEvent::Up { peer: 1, .. })));
                let good = frame::release(1, 1, &[1.0, 2.0, 3.0]);
                outgoing.send(good.clone()).await.unwrap();
                assert!(
                    matches!(events.recv().await, Some(LinkEvent::Frame { bytes, .. }) if bytes == good)
                );
                outgoing.send(rubbish.into()).await.unwrap();
                assert!(matches!(events.recv().await, Some(LinkEvent::Down { peer: 1, .. })));
            }
            let log = std::fs::read_to_string(a.folder.path.join("audit.jsonl")).unwrap();
            assert_eq!(log.matches("\"refused\"").count(), 2, "{log}");
        });
    }

    /// A new connection takes the place of one that hangs: the caller knows which one it uses.
    #[test]
    fn the_newest_link_is_the_one() {
        with_pair("newest", |_, mut events, b| async move {
            let mut links = Vec::new();
            for _ in 0..3 {
                let (outgoing, incoming) = dial(&b, 0).await.unwrap();
                outgoing.send(Frame::Hello(hello(&b)).encode()).await.unwrap();
                let Some(LinkEvent::Up { link, outgoing: back, .. }) = events.recv().await else {
                    panic!("up")
                };
                links.push((link, outgoing, incoming, back));
            }
            let (_, outgoing, ..) = &links[0];
            drop(outgoing.send(frame::release(1, 1, &[0.0; 3])).await);
            let (last, outgoing, ..) = &links[2];
            outgoing.send(frame::release(1, 1, &[1.0; 3])).await.unwrap();
            assert!(
                matches!(events.recv().await, Some(LinkEvent::Frame { link, .. }) if link == *last)
            );
        });
    }
}
