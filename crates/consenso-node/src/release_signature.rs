//! Signed releases: whoever receives one can show to others what its sender sent, and the sender
//! cannot deny it.
//!
//! A site signs, with the key of its certificate, that it sent bytes of this BLAKE3 hash in this
//! exchange of this study. Nothing in the statement is a function of more than what is sent, so the
//! signature costs no privacy. Receivers keep it in their audit logs; two statements of one site
//! about one exchange with different hashes prove that it told different neighbours different
//! things.

use crate::frame::Digest;
use crate::identity::{Identity, IdentityError};
use bytes::Bytes;
use std::sync::Arc;
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;
use tokio_rustls::rustls::sign::SigningKey;

/// Longest signature that is read.
pub const MAX_SIGNATURE: usize = 520;

/// Signature schemes, the preferred first; a key knows some of them.
const SCHEMES: [SignatureScheme; 4] = [
    SignatureScheme::ED25519,
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
];

/// A signature and how it was made (a code point of TLS 1.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseSignature {
    /// The scheme's code point.
    pub scheme: u16,
    /// The signature itself.
    pub bytes: Bytes,
}

/// What a site says when it sends a release: `to` is the receiver of a share, which nobody else
/// gets, and `None` for a release that is the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReleaseStatement {
    /// The study's digest.
    pub study: Digest,
    /// Who sends.
    pub from: u32,
    /// To whom alone.
    pub to: Option<u32>,
    /// The exchange.
    pub round: u32,
    /// BLAKE3 of the bytes.
    pub blake3: Digest,
}

impl ReleaseStatement {
    /// The bytes that are signed.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let to = self.to.unwrap_or(u32::MAX);
        let mut all = b"consenso release 1\0".to_vec();
        all.extend_from_slice(&self.study);
        for number in [self.from, to, self.round] {
            all.extend_from_slice(&number.to_le_bytes());
        }
        all.extend_from_slice(&self.blake3);
        all
    }

    /// Whether the owner of this public key (a SubjectPublicKeyInfo) signed it.
    #[must_use]
    pub fn is_signed_by(&self, key: &[u8], signature: &ReleaseSignature) -> bool {
        verify(key, &self.bytes(), signature)
    }
}

/// Whether the owner of this public key (a SubjectPublicKeyInfo) signed these bytes.
#[must_use]
pub fn verify(key: &[u8], bytes: &[u8], signature: &ReleaseSignature) -> bool {
    let scheme = SignatureScheme::from(signature.scheme);
    let known = default_provider().signature_verification_algorithms;
    let Some((_, algorithms)) =
        known.mapping.iter().find(|(s, _)| *s == scheme && SCHEMES.contains(s))
    else {
        return false;
    };
    let der = SubjectPublicKeyInfoDer::from(key);
    let Ok(entity) = webpki::RawPublicKeyEntity::try_from(&der) else { return false };
    algorithms.iter().any(|a| entity.verify_signature(*a, bytes, &signature.bytes).is_ok())
}

/// Signs for a site.
#[derive(Clone, Debug)]
pub struct ReleaseSigner {
    key: Arc<dyn SigningKey>,
}

impl ReleaseSigner {
    /// The signing key of an identity.
    ///
    /// # Errors
    /// A key of a kind that nobody could verify.
    pub fn new(identity: &Identity) -> Result<Self, IdentityError> {
        let release_signer = Self { key: identity.signing_key() };
        match release_signer.sign(b"") {
            Ok(_) => Ok(release_signer),
            Err(reason) => Err(IdentityError::Tls(format!(
                "the site's key cannot sign releases ({reason}): it must be Ed25519, ECDSA P-256 or P-384, or RSA"
            ))),
        }
    }

    /// Signs bytes.
    ///
    /// # Errors
    /// What a signing device says, or a key of a kind that nobody could verify.
    pub fn sign(&self, bytes: &[u8]) -> Result<ReleaseSignature, SignError> {
        let signer = self.key.choose_scheme(&SCHEMES).ok_or(SignError::Key)?;
        let signature = signer.sign(bytes)?;
        Ok(ReleaseSignature { scheme: signer.scheme().into(), bytes: signature.into() })
    }
}

/// Why nothing was signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// A key of a kind that nobody could verify.
    #[error("a key of another kind")]
    Key,
    /// What the key, or the device that holds it, says.
    #[error(transparent)]
    Signer(#[from] tokio_rustls::rustls::Error),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{
        CERTIFICATE, KEY, TRUST, Validity, public_key, self_signed, write_secret,
    };

    #[test]
    fn a_signature_is_for_one_statement_of_one_site() {
        let root = std::env::temp_dir().join(format!("consenso-seal-{}", std::process::id()));
        let identity = |name: &str| {
            let folder = root.join(name);
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).unwrap();
            let made = self_signed(name, Validity::default()).unwrap();
            write_secret(&folder.join(KEY), &made.key).unwrap();
            std::fs::write(folder.join(CERTIFICATE), &made.certificate).unwrap();
            std::fs::write(folder.join(TRUST), &made.certificate).unwrap();
            Identity::read(&folder).unwrap()
        };
        let (a, b) = (identity("a"), identity("b"));
        let key = |identity: &Identity| public_key(identity.certificate()).unwrap();
        let said =
            ReleaseStatement { study: [1; 32], from: 0, to: None, round: 5, blake3: [2; 32] };
        let signature = ReleaseSigner::new(&a).unwrap().sign(&said.bytes()).unwrap();
        assert!(said.is_signed_by(&key(&a), &signature));
        assert!(!said.is_signed_by(&key(&b), &signature), "another site's key");
        for other in [
            ReleaseStatement { study: [3; 32], ..said },
            ReleaseStatement { from: 1, ..said },
            ReleaseStatement { to: Some(1), ..said },
            ReleaseStatement { round: 6, ..said },
            ReleaseStatement { blake3: [3; 32], ..said },
        ] {
            assert!(!other.is_signed_by(&key(&a), &signature), "{other:?}");
        }
        let wrong = ReleaseSignature { scheme: 0x0201, ..signature.clone() };
        assert!(!said.is_signed_by(&key(&a), &wrong), "a scheme nobody should use");
        assert!(!said.is_signed_by(b"no key", &signature));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
