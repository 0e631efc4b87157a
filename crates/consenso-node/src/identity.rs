//! Who a site is: its key and certificate, and whom it believes.
//!
//! A peer is believed when three things agree: its certificate is signed by a trusted issuer and
//! valid today, its name (SAN) is the site's, and its public key has the pin this site was given
//! for that name. There is no mode without.

use crate::clock;
use crate::folder::explain;
use crate::frame::{Digest, Hex, sha256};
use crate::signer::{DeviceKey, SignerCommand};
use consenso_engine::data::Day;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring::default_provider};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName, UnixTime,
};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use tokio_rustls::rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error as TlsError, RootCertStore,
    ServerConfig, SignatureScheme,
};

/// Why an identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// A file cannot be read or written.
    #[error("{}: {}", path.display(), explain(path, cause))]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A secret that others can read.
    #[error("{}: its mode is {mode:03o}, so others can read it\n  help: chmod 600 {}; or group_reads_key = true in site.toml where only its group can read it", path.display(), path.display())]
    Exposed {
        /// The secret.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A file without what it should hold.
    #[error("{}: {message}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Something about keys or TLS.
    #[error("{0}")]
    Tls(String),
}

fn tls(error: impl std::fmt::Display) -> IdentityError {
    IdentityError::Tls(error.to_string())
}

/// A site as its peers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// Its name, which its certificate must carry.
    pub name: String,
    /// SHA-256 of its public key.
    pub pin: Digest,
    /// SHA-256 of the key that it will have next.
    pub next: Option<Digest>,
}

impl PeerIdentity {
    /// Whether a key with this pin is the site's.
    #[must_use]
    pub fn has(&self, pin: &Digest) -> bool {
        self.pin == *pin || self.next.as_ref() == Some(pin)
    }
}

/// A site's own key and certificate, and the issuers it trusts.
#[derive(Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: Arc<dyn SigningKey>,
    trust: Arc<RootCertStore>,
}

/// The files of an identity in a site's folder.
pub const KEY: &str = "key.pem";
/// The certificate, with its issuers after it if there are any between it and a trusted one.
pub const CERTIFICATE: &str = "certificate.pem";
/// Trusted issuers: a certificate authority's certificate, or the other sites' own ones.
pub const TRUST: &str = "trust.pem";

impl Identity {
    /// Reads the identity of a site's folder.
    ///
    /// # Errors
    /// A missing or unreadable file, a key that others can read, a certificate of another key.
    pub fn read(folder: &Path) -> Result<Self, IdentityError> {
        let chain = certificates(&folder.join(CERTIFICATE))?;
        let key = match signer(folder)? {
            Some(device) => {
                Arc::new(DeviceKey::new(Arc::new(device), &chain[0])?) as Arc<dyn SigningKey>
            }
            None => key_of_file(folder, &chain)?,
        };
        let path = folder.join(TRUST);
        let mut trust = RootCertStore::empty();
        for certificate in certificates(&path)? {
            trust.add(certificate).map_err(|e| IdentityError::Content {
                path: path.clone(),
                message: format!("not a certificate to trust: {e}"),
            })?;
        }
        for certificate in crate::agreement::certificates(folder) {
            // What all sites agreed on is believed as what they began with.
            trust.add(certificate.into()).map_err(tls)?;
        }
        Ok(Self { chain, key, trust: Arc::new(trust) })
    }

    /// The key, ready to sign: a file's, or a [device's](crate::signer).
    pub(crate) fn signing_key(&self) -> Arc<dyn SigningKey> {
        Arc::clone(&self.key)
    }

    /// What proves in a handshake who this is.
    fn certified(&self) -> Arc<SingleCertAndKey> {
        Arc::new(CertifiedKey::new(self.chain.clone(), Arc::clone(&self.key)).into())
    }

    /// The site's own certificate.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.chain[0]
    }

    /// TLS for the end that is called. The peer may be any of `known`; which one, [`recognise`]
    /// says afterwards.
    ///
    /// # Errors
    /// What TLS says.
    pub fn server(&self, known: &[PeerIdentity]) -> Result<Arc<ServerConfig>, IdentityError> {
        let inner =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.trust), provider());
        let verifier = Pinned { inner: inner.build().map_err(tls)?, known: known.to_vec() };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(self.certified());
        config.alpn_protocols = vec![b"h2".to_vec()];
        // Every connection proves the peer's key again: nothing is resumed.
        config.session_storage = Arc::new(tokio_rustls::rustls::server::NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Arc::new(config))
    }

    /// TLS for the end that calls `peer`.
    ///
    /// # Errors
    /// What TLS says.
    pub fn client(&self, peer: &PeerIdentity) -> Result<Arc<ClientConfig>, IdentityError> {
        let inner =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&self.trust), provider());
        let verifier = Pinned { inner: inner.build().map_err(tls)?, known: vec![peer.clone()] };
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(tls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(self.certified());
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = tokio_rustls::rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

/// The usual checks of a verifier, then the name and the pin.
#[derive(Debug)]
struct Pinned<V: ?Sized> {
    known: Vec<PeerIdentity>,
    inner: Arc<V>,
}

impl<V: ?Sized> Pinned<V> {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
        recognise(certificate, &self.known)
            .map(|_| ())
            .map_err(|e| TlsError::General(e.to_string()))
    }
}

impl ServerCertVerifier for Pinned<WebPkiServerVerifier> {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        )?;
        self.check(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

impl ClientCertVerifier for Pinned<dyn ClientCertVerifier> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        self.inner.verify_client_cert(end_entity, intermediates, now)?;
        self.check(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.inner.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        self.inner.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Why a certificate is nobody's.
#[derive(Debug, thiserror::Error)]
pub enum UnknownCertificate {
    /// It is none.
    #[error("not a certificate: {0}")]
    NoCertificate(webpki::Error),
    /// Its key is no site's.
    #[error("the key with pin {} is not listed in peers.toml", Hex(.0))]
    Unlisted(Digest),
    /// The site's name cannot be in a certificate.
    #[error("{0}")]
    Name(InvalidDnsNameError),
    /// It has the key of a site, and another name.
    #[error("the certificate with the pin of {0} does not carry the name {0}")]
    OtherName(String),
}

/// Which of the known sites a certificate belongs to, by its pin and its name.
///
/// # Errors
/// What did not fit.
pub fn recognise(
    certificate: &CertificateDer<'_>,
    known: &[PeerIdentity],
) -> Result<usize, UnknownCertificate> {
    let parsed =
        webpki::EndEntityCert::try_from(certificate).map_err(UnknownCertificate::NoCertificate)?;
    let pin = sha256(&[parsed.subject_public_key_info().as_ref()]);
    let Some(index) = known.iter().position(|site| site.has(&pin)) else {
        return Err(UnknownCertificate::Unlisted(pin));
    };
    let name =
        ServerName::try_from(known[index].name.as_str()).map_err(UnknownCertificate::Name)?;
    match parsed.verify_is_valid_for_subject_name(&name) {
        Ok(()) => Ok(index),
        Err(_) => Err(UnknownCertificate::OtherName(known[index].name.clone())),
    }
}

/// A certificate's public key (its SubjectPublicKeyInfo).
///
/// # Errors
/// Not a certificate.
pub fn public_key(certificate: &[u8]) -> Result<Vec<u8>, IdentityError> {
    let der = CertificateDer::from(certificate);
    let parsed = webpki::EndEntityCert::try_from(&der).map_err(tls)?;
    Ok(parsed.subject_public_key_info().as_ref().to_vec())
}

/// SHA-256 of a certificate's public key (its SubjectPublicKeyInfo).
///
/// # Errors
/// Not a certificate.
pub fn pin(certificate: &[u8]) -> Result<Digest, IdentityError> {
    let der = CertificateDer::from(certificate);
    let parsed = webpki::EndEntityCert::try_from(&der).map_err(tls)?;
    Ok(sha256(&[parsed.subject_public_key_info().as_ref()]))
}

/// The first certificate of a PEM file that would be believed by a site that trusts the file: it
/// signed itself, or its issuer comes after it.
///
/// # Errors
/// No such file, no certificate in it, or not one that holds today.
pub fn believable(path: &Path) -> Result<CertificateDer<'static>, IdentityError> {
    let chain = certificates(path)?;
    let mut trust = RootCertStore::empty();
    for certificate in &chain {
        trust.add(certificate.clone()).map_err(tls)?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(trust), provider());
    let verified =
        verifier.build().map_err(tls)?.verify_client_cert(&chain[0], &chain[1..], UnixTime::now());
    verified.map_err(|e| IdentityError::Content {
        path: path.to_owned(),
        message: format!(
            "{e}\n  help: the authority that signed it must come after it in the file"
        ),
    })?;
    Ok(chain[0].clone())
}

/// Checks that a site of this folder would believe a certificate, given those of its issuers after
/// it.
///
/// # Errors
/// What is wrong with it: its name, its dates, or that nobody the site trusts signed it.
pub fn believes(folder: &Path, chain: &[Vec<u8>], name: &str) -> Result<(), IdentityError> {
    let mut trust = RootCertStore::empty();
    let all = certificates(&folder.join(TRUST))?;
    for certificate in all.into_iter().chain(chain.iter().cloned().map(CertificateDer::from)) {
        trust.add(certificate).map_err(tls)?;
    }
    let chain: Vec<CertificateDer<'_>> =
        chain.iter().map(|der| CertificateDer::from(der.as_slice())).collect();
    let known = crate::agreement::known(name, &chain[0])?;
    recognise(&chain[0], &[known]).map_err(tls)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(trust), provider());
    verifier
        .build()
        .map_err(tls)?
        .verify_client_cert(&chain[0], &chain[1..], UnixTime::now())
        .map(drop)
        .map_err(tls)
}

/// The pin of the first certificate in a PEM file.
///
/// # Errors
/// No such file, or no certificate in it.
pub fn pin_of_file(path: &Path) -> Result<Digest, IdentityError> {
    pin(&certificates(path)?[0])
}

/// The certificates in a PEM file, of which there is at least one.
///
/// # Errors
/// No such file, or no certificate in it.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let content = |message: String| IdentityError::Content { path: path.to_owned(), message };
    let bytes =
        fs::read(path).map_err(|cause| IdentityError::File { path: path.to_owned(), cause })?;
    let all: Vec<_> = CertificateDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(|e| content(format!("not a PEM file of certificates: {e}")))?;
    if all.is_empty() { Err(content("there is no certificate in it".into())) } else { Ok(all) }
}

/// What `site.toml` says of a key: the site's file may be wrong in other respects, which is said
/// elsewhere.
fn said(folder: &Path, key: &str) -> Option<toml::Value> {
    let text = fs::read_to_string(folder.join(crate::folder::SITE)).unwrap_or_default();
    text.parse::<toml::Table>().ok()?.remove(key)
}

/// Whether `site.toml` says that the group of the key's file may read it, as mounts of Kubernetes
/// have it.
fn group_may_read(folder: &Path) -> bool {
    said(folder, "group_reads_key").and_then(|v| v.as_bool()) == Some(true)
}

/// The command that signs for the site, if `site.toml` names one. A program in the folder may be
/// named without the way to it.
fn signer(folder: &Path) -> Result<Option<SignerCommand>, IdentityError> {
    let Some(value) = said(folder, "signer") else { return Ok(None) };
    let words = value
        .as_array()
        .map(|all| all.iter().filter_map(|w| w.as_str().map(str::to_owned)).collect());
    let mut words: Vec<String> = words.unwrap_or_default();
    if let Some(program) = words.first_mut().filter(|program| folder.join(program).is_file()) {
        *program = folder.join(&*program).display().to_string();
    }
    SignerCommand::new(words).map(Some).map_err(tls)
}

/// The key in `key.pem`, which must be that of the certificate.
fn key_of_file(
    folder: &Path,
    chain: &[CertificateDer<'static>],
) -> Result<Arc<dyn SigningKey>, IdentityError> {
    let path = folder.join(KEY);
    check_secret(&path, group_may_read(folder))?;
    let bytes =
        fs::read(&path).map_err(|cause| IdentityError::File { path: path.clone(), cause })?;
    let key = PrivateKeyDer::from_pem_slice(&bytes)
        .map_err(|e| IdentityError::Content { path, message: format!("no private key: {e}") })?;
    // A key that does not belong to the certificate fails here, not at the first handshake.
    let certified = CertifiedKey::from_der(chain.to_vec(), key, &default_provider());
    let certified = certified.map_err(|e| IdentityError::Content {
        path: folder.join(CERTIFICATE),
        message: format!("is not the certificate of the key in {KEY} ({e})"),
    })?;
    Ok(certified.key)
}

/// Refuses a secret that anybody but its owner can read; or its group, where that was allowed.
/// Nobody but the owner may write it in any case.
///
/// # Errors
/// No such file, or its mode.
pub fn check_secret(path: &Path, group_may_read: bool) -> Result<(), IdentityError> {
    let metadata =
        fs::metadata(path).map_err(|cause| IdentityError::File { path: path.to_owned(), cause })?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & if group_may_read { 0o037 } else { 0o077 } != 0 {
        return Err(IdentityError::Exposed { path: path.to_owned(), mode });
    }
    Ok(())
}

/// Writes a new file that only its owner can read.
///
/// # Errors
/// There is such a file already, or it cannot be written.
pub fn write_secret(path: &Path, text: &str) -> Result<(), IdentityError> {
    let write = || {
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|cause| IdentityError::File { path: path.to_owned(), cause })
}

/// From when to when a new certificate holds, in days from today.
#[derive(Clone, Copy, Debug)]
pub struct Validity {
    /// First day.
    pub from: i64,
    /// Last day.
    pub until: i64,
}

impl Default for Validity {
    /// From yesterday, for clocks that are a little behind, for a little over two years.
    fn default() -> Self {
        Self { from: -1, until: 825 }
    }
}

/// A key and its certificate, as PEM.
#[derive(Clone)]
pub struct Issued {
    /// The secret key.
    pub key: String,
    /// The certificate.
    pub certificate: String,
}

impl std::fmt::Debug for Issued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Issued(..)")
    }
}

/// A private certificate authority, for sites that have none.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
}

impl Authority {
    /// Its name in certificates.
    const NAME: &str = "consenso private authority";

    /// A new one.
    ///
    /// # Errors
    /// No entropy for a key.
    pub fn new() -> Result<Self, IdentityError> {
        let key = KeyPair::generate().map_err(tls)?;
        let parameters = Self::parameters()?;
        let certificate = parameters.self_signed(&key).map_err(tls)?.pem();
        let pem = key.serialize_pem();
        Ok(Self { issuer: Issuer::new(parameters, key), certificate, key: pem })
    }

    /// One that was made before, to issue more certificates.
    ///
    /// # Errors
    /// Not a key.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, IdentityError> {
        let pair = KeyPair::from_pem(key).map_err(tls)?;
        let issuer = Issuer::new(Self::parameters()?, pair);
        Ok(Self { issuer, certificate: certificate.to_owned(), key: key.to_owned() })
    }

    fn parameters() -> Result<CertificateParams, IdentityError> {
        let mut parameters = parameters(Self::NAME, Validity { from: -1, until: 3650 })?;
        parameters.subject_alt_names.clear();
        parameters.extended_key_usages.clear();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(parameters)
    }

    /// Its certificate, as PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Its secret key, as PEM.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// A key and a certificate for a site.
    ///
    /// # Errors
    /// A name that no certificate can carry.
    pub fn issue(&self, site: &str, validity: Validity) -> Result<Issued, IdentityError> {
        let key = KeyPair::generate().map_err(tls)?;
        let certificate = parameters(site, validity)?.signed_by(&key, &self.issuer).map_err(tls)?;
        Ok(Issued { key: key.serialize_pem(), certificate: certificate.pem() })
    }
}

/// A key and a certificate that a site signs itself: peers trust it by having it in their
/// `trust.pem`.
///
/// # Errors
/// A name that no certificate can carry.
pub fn self_signed(site: &str, validity: Validity) -> Result<Issued, IdentityError> {
    let key = KeyPair::generate().map_err(tls)?;
    let certificate = parameters(site, validity)?.self_signed(&key).map_err(tls)?;
    Ok(Issued { key: key.serialize_pem(), certificate: certificate.pem() })
}

fn parameters(name: &str, validity: Validity) -> Result<CertificateParams, IdentityError> {
    let mut parameters = CertificateParams::new(vec![name.to_owned()]).map_err(tls)?;
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let today = (clock::now() / 86_400) as i64;
    let date = |offset| {
        let (year, month, day) = Day::of(today + offset).civil();
        rcgen::date_time_ymd(year as i32, month, day)
    };
    parameters.not_before = date(validity.from);
    parameters.not_after = date(validity.until);
    Ok(parameters)
}

/// From when to when a certificate holds, in seconds since 1970; `None` if its dates cannot be
/// read.
#[must_use]
pub fn dates(certificate: &[u8]) -> Option<(i64, i64)> {
    // Certificate ::= SEQUENCE { tbs SEQUENCE { [0] version?, serial, signature, issuer, validity {
    // from, until }, … } … }
    let (_, certificate, _) = tlv(certificate)?;
    let (_, tbs, _) = tlv(certificate)?;
    let (tag, _, rest) = tlv(tbs)?;
    let fields = if tag == 0xa0 { rest } else { tbs };
    let after = |bytes| tlv(bytes).map(|t| t.2);
    let validity = after(after(after(fields)?)?)?;
    let (_, validity, _) = tlv(validity)?;
    let (first, from, rest) = tlv(validity)?;
    let (second, until, _) = tlv(rest)?;
    Some((time(first, from)?, time(second, until)?))
}

/// UTCTime (`YYMMDDhhmmssZ`) or GeneralizedTime (`YYYYMMDDhhmmssZ`), in seconds since 1970.
fn time(tag: u8, text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = |from: usize, count: usize| text.get(from..from + count)?.parse::<i64>().ok();
    let (year, at) = match tag {
        0x17 => (digits(0, 2).map(|y| if y < 50 { 2000 + y } else { 1900 + y })?, 2),
        0x18 => (digits(0, 4)?, 4),
        _ => return None,
    };
    let day = Day::new(year, digits(at, 2)?, digits(at + 2, 2)?)?.days();
    Some(86_400 * day + 3600 * digits(at + 4, 2)? + 60 * digits(at + 6, 2)? + digits(at + 8, 2)?)
}

/// The first element of DER bytes: tag, content, and what follows.
fn tlv(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let count = usize::from(first & 0x7f);
        if count > 4 {
            return None;
        }
        let (digits, rest) = rest.split_at_checked(count)?;
        (digits.iter().fold(0, |n, &d| n << 8 | usize::from(d)), rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    #[test]
    fn a_site_is_recognised_by_its_pin_and_its_name_together() {
        let authority = Authority::new().unwrap();
        let a = authority.issue("a", Validity::default()).unwrap();
        let b = self_signed("b", Validity::default()).unwrap();
        let known = |name: &str, issued: &Issued| PeerIdentity {
            name: name.into(),
            pin: pin(&der(&issued.certificate)).unwrap(),
            next: None,
        };
        // While keys are replaced a site is known by either.
        let both = PeerIdentity { next: known("a", &b).pin.into(), ..known("a", &a) };
        assert!(both.has(&known("a", &a).pin) && both.has(&known("a", &b).pin));
        assert_eq!(recognise(&der(&a.certificate), std::slice::from_ref(&both)).unwrap(), 0);
        assert!(recognise(&der(&b.certificate), &[both]).is_err(), "the name must be its own");
        assert_eq!(recognise(&der(&a.certificate), &[known("b", &b), known("a", &a)]).unwrap(), 1);
        let stranger = recognise(&der(&a.certificate), &[known("b", &b)]).unwrap_err();
        assert!(stranger.to_string().contains("is not listed"), "{stranger}");
        let renamed = recognise(&der(&a.certificate), &[known("b", &a)]).unwrap_err();
        assert!(renamed.to_string().contains("does not carry the name b"), "{renamed}");
    }

    #[test]
    fn a_key_that_its_group_can_read_needs_the_sites_word() {
        let root = std::env::temp_dir().join(format!("consenso-group-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let made = self_signed("a", Validity::default()).unwrap();
        write_secret(&root.join(KEY), &made.key).unwrap();
        for file in [CERTIFICATE, TRUST] {
            fs::write(root.join(file), &made.certificate).unwrap();
        }
        for (mode, said, well) in [
            (0o600, "", true),
            (0o440, "", false),
            (0o440, "group_reads_key = true", true),
            (0o460, "group_reads_key = true", false),
            (0o444, "group_reads_key = true", false),
        ] {
            fs::set_permissions(root.join(KEY), fs::Permissions::from_mode(mode)).unwrap();
            fs::write(root.join(crate::folder::SITE), format!("name = \"a\"\n{said}\n")).unwrap();
            assert_eq!(Identity::read(&root).is_ok(), well, "{mode:o} {said}");
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn expiry_is_read_from_the_certificate() {
        let today = (clock::now() / 86_400) as i64;
        for until in [-3, 0, 90, 825, 30_000] {
            let issued = self_signed("a", Validity { from: -10, until }).unwrap();
            let expected = (86_400 * (today - 10), 86_400 * (today + until));
            assert_eq!(dates(&der(&issued.certificate)), Some(expected), "{until}");
        }
        // 2049-12-31 23:59:59 and a second later, as RFC 5280 writes them.
        assert_eq!(time(0x17, b"491231235959Z").map(|t| t + 1), time(0x18, b"20500101000000Z"));
        assert_eq!(time(0x17, b"700101000001Z"), Some(1));
        assert_eq!(dates(b"rubbish"), None);
        let certificate = der(&self_signed("a", Validity::default()).unwrap().certificate);
        assert!((0..80).all(|end| dates(&certificate[..end]).is_none()));
    }

    #[test]
    fn an_exposed_key_is_refused() {
        let folder = std::env::temp_dir().join(format!("consenso-identity-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let issued = self_signed("a", Validity::default()).unwrap();
        write_secret(&folder.join(KEY), &issued.key).unwrap();
        fs::write(folder.join(CERTIFICATE), &issued.certificate).unwrap();
        fs::write(folder.join(TRUST), &issued.certificate).unwrap();
        assert!(Identity::read(&folder).is_ok());
        fs::set_permissions(folder.join(KEY), fs::Permissions::from_mode(0o640)).unwrap();
        let refused = Identity::read(&folder).unwrap_err().to_string();
        assert!(refused.contains("mode is 640") && refused.contains("chmod 600"), "{refused}");
        fs::set_permissions(folder.join(KEY), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(
            folder.join(CERTIFICATE),
            self_signed("a", Validity::default()).unwrap().certificate,
        )
        .unwrap();
        let other = Identity::read(&folder).unwrap_err().to_string();
        assert!(
            other.contains("certificate.pem: is not the certificate of the key in key.pem"),
            "{other}"
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
