//! Where bytes pass in and out: TCP, or whatever a test puts in its place. Everything above it is
//! the same in both worlds.

use crate::folder::Folder;
use crate::proxy::Proxy;
use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A connection's bytes, both ways.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// A connection of whatever kind.
pub(crate) type Connection = Box<dyn Bytes>;

/// What a call to the network will give.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send + 'a>>;

/// Calls and is called.
pub(crate) trait Wire: Debug + Send + Sync {
    /// Calls an address.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Connection>;

    /// Waits for calls to an address of this host.
    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Box<dyn Listener>>;
}

/// Who waits for calls.
pub(crate) trait Listener: Send {
    /// The next call and where it comes from: the host alone, for the port of a caller changes with
    /// every call and says nothing.
    fn accept(&mut self) -> BoxFuture<'_, (Connection, String)>;
}

/// The real network: calls go straight, or through a proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tcp {
    proxy: Option<Proxy>,
}

impl Tcp {
    /// As the folder of a site says.
    pub(crate) fn of(folder: &Folder) -> Self {
        Self { proxy: folder.site.proxy.as_deref().and_then(|text| Proxy::parse(text).ok()) }
    }
}

impl Wire for Tcp {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Connection> {
        Box::pin(async move {
            undelayed(match &self.proxy {
                Some(proxy) => proxy.connect(address).await?,
                None => TcpStream::connect(address).await?,
            })
        })
    }

    fn listen<'a>(&'a self, address: &'a str) -> BoxFuture<'a, Box<dyn Listener>> {
        Box::pin(
            async move { Ok(Box::new(TcpListener::bind(address).await?) as Box<dyn Listener>) },
        )
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, (Connection, String)> {
        Box::pin(async move {
            let (stream, address) = TcpListener::accept(self).await?;
            Ok((undelayed(stream)?, address.ip().to_string()))
        })
    }
}

/// A round waits for its last byte: nothing is held back to fill a packet.
fn undelayed(stream: TcpStream) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}
