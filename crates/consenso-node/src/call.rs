//! Calling a peer: a TLS connection under its name and its pin.

use crate::folder::{Folder, FolderError};
use crate::handshake;
use crate::identity::{Identity, IdentityError, PeerIdentity};
use crate::wire::{Connection, Tcp, Wire};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};

/// Time for a handshake, TLS or hello.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

/// Why a peer was not reached.
#[derive(Debug, thiserror::Error)]
pub enum CallFailure {
    /// What this site's folder says of it cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// This site cannot show who it is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Its key is out.
    #[error("{0}")]
    Revoked(String),
    /// It cannot be called.
    #[error("it has no address in peers.toml")]
    NoAddress,
    /// Its name cannot be in a certificate.
    #[error("{0}")]
    Name(InvalidDnsNameError),
    /// Its host is there, and nobody listens at the port.
    #[error("nobody listens there")]
    NobodyListens,
    /// The operating system says no.
    #[error("{0}")]
    System(std::io::Error),
    /// Nothing came back.
    #[error("no answer in time")]
    Silence,
    /// Somebody answered, and one of the two did not believe the other.
    #[error("{}", handshake::words(.0))]
    Tls(std::io::Error),
}

impl CallFailure {
    /// Whether somebody was there at all.
    pub(crate) fn is_refusal(&self) -> bool {
        !matches!(self, Self::NobodyListens | Self::System(_) | Self::Silence)
    }
}

/// What a call needs. It is read anew for every call: certificates, pins and addresses may change
/// while the node runs.
pub(crate) struct Target {
    pub(crate) address: String,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
}

impl Target {
    pub(crate) fn read(folder: &Folder, peer: u32) -> Result<Self, CallFailure> {
        let (peers, known) = folder.peers_now()?;
        let (site, known) = (&peers[peer as usize], &known[peer as usize]);
        // A key that was revoked is not believed, also while another one is.
        let known = match (folder.revoked(&known.pin), known.next) {
            (None, None) => known.clone(),
            (None, Some(next)) => {
                let next = folder.revoked(&next).is_none().then_some(next);
                PeerIdentity { next, ..known.clone() }
            }
            (Some(_), Some(next)) if folder.revoked(&next).is_none() => {
                PeerIdentity { pin: next, next: None, ..known.clone() }
            }
            (Some(reason), _) => return Err(CallFailure::Revoked(reason)),
        };
        Ok(Self {
            address: site.address.clone().ok_or(CallFailure::NoAddress)?,
            name: ServerName::try_from(site.name.clone()).map_err(CallFailure::Name)?,
            config: Identity::read(&folder.path)?.client(&known)?,
        })
    }

    pub(crate) async fn call(self, wire: &dyn Wire) -> Result<TlsStream<Connection>, CallFailure> {
        let connect = async {
            let stream = wire.connect(&self.address).await.map_err(|e| match e.kind() {
                std::io::ErrorKind::ConnectionRefused => CallFailure::NobodyListens,
                std::io::ErrorKind::TimedOut => CallFailure::Silence,
                _ => CallFailure::System(e),
            })?;
            TlsConnector::from(self.config)
                .connect(self.name, stream)
                .await
                .map_err(CallFailure::Tls)
        };
        timeout(HANDSHAKE, connect).await.unwrap_or(Err(CallFailure::Silence))
    }
}

/// Calls a peer, sees that each believes the other, and hangs up. A link that runs at the same time
/// is left alone.
///
/// # Errors
/// Why not.
pub fn reach(folder: &Folder, peer: usize) -> Result<(), CallFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(CallFailure::System)?.block_on(async {
        let target = Target::read(folder, peer as u32)?;
        let mut stream = target.call(&Tcp::of(folder)).await?;
        // The other end looks at our certificate after we have seen its own: what it says first is
        // its verdict.
        let heard = timeout(HANDSHAKE, stream.read_u8()).await.map_err(|_| CallFailure::Silence)?;
        heard.map(drop).map_err(CallFailure::Tls)
    })
}
