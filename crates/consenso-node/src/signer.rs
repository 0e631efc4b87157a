//! Who signs for a site: its key file, or a device that never gives the key away.
//!
//! A device stands behind [`SigningDevice`]. The one that is here asks a command (`signer` in `site.toml`):
//! it gets the bytes on its standard input and writes the signature to its standard output, so that
//! whatever reaches a hardware module (PKCS#11 tools, a cloud's own, a signing daemon) can be used,
//! and no library of a vendor runs inside the node. `deploy/pkcs11-sign.sh` is one for PKCS#11.

use crate::identity::{IdentityError, public_key};
use crate::release_signature::{ReleaseSignature, verify};
use std::fmt::Debug;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::rustls::pki_types::SubjectPublicKeyInfoDer;
use tokio_rustls::rustls::sign::{Signer, SigningKey};
use tokio_rustls::rustls::{Error as TlsError, SignatureAlgorithm, SignatureScheme};

/// Why a device gave no signature.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// `site.toml` names no command.
    #[error("signer = [] names no program")]
    NoProgram,
    /// The command cannot be run.
    #[error("{program}: {cause}")]
    System {
        /// The command.
        program: String,
        /// Why.
        cause: std::io::Error,
    },
    /// The command takes too long.
    #[error("{program}: no signature within {} s", PATIENCE.as_secs())]
    Slow {
        /// The command.
        program: String,
    },
    /// The command ended without a signature.
    #[error("{program}: {status}: {said}")]
    Failed {
        /// The command.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        said: String,
    },
    /// What a device of another kind says.
    #[error("{0}")]
    Device(String),
}

/// Signs bytes with a key that stays where it is.
pub trait SigningDevice: Debug + Send + Sync {
    /// The signature of these bytes, in the form that TLS 1.3 has for the key's scheme.
    ///
    /// # Errors
    /// What the device says.
    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SignError>;
}

/// A command that signs.
#[derive(Clone, Debug)]
pub struct SignerCommand(Vec<String>);

/// How long a command may take: a handshake waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

impl SignerCommand {
    /// A program and its arguments.
    ///
    /// # Errors
    /// No program.
    pub fn new(words: Vec<String>) -> Result<Self, SignError> {
        if words.is_empty() {
            return Err(SignError::NoProgram);
        }
        Ok(Self(words))
    }
}

/// Pauses before a command that failed is asked again: a device may be busy for a moment. Who needs
/// the signature decides about longer ones.
const AGAIN: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(100)];

impl SigningDevice for SignerCommand {
    fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, SignError> {
        for pause in AGAIN {
            match self.sign_once(bytes) {
                Err(SignError::Failed { .. }) => std::thread::sleep(pause),
                other => return other,
            }
        }
        self.sign_once(bytes)
    }
}

impl SignerCommand {
    fn sign_once(&self, bytes: &[u8]) -> Result<Vec<u8>, SignError> {
        let program = &self.0[0];
        let fail = |cause: std::io::Error| SignError::System { program: program.clone(), cause };
        let mut child = Command::new(program)
            .args(&self.0[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(fail)?;
        if let Some(mut input) = child.stdin.take() {
            // A program that failed does not read; what it says comes below.
            let _ = input.write_all(bytes);
        }
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(fail)? {
                break status;
            }
            if began.elapsed() > PATIENCE {
                let _ = child.kill();
                let _ = child.wait();
                return Err(SignError::Slow { program: program.clone() });
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        let read = |pipe: Option<&mut dyn std::io::Read>| {
            let mut all = Vec::new();
            if let Some(pipe) = pipe {
                let _ = pipe.take(1 << 14).read_to_end(&mut all);
            }
            all
        };
        let signature = read(child.stdout.as_mut().map(|p| p as _));
        if !status.success() || signature.is_empty() {
            let said = read(child.stderr.as_mut().map(|p| p as _));
            let said: String = String::from_utf8_lossy(&said)
                .chars()
                .filter(|c| !c.is_control())
                .take(300)
                .collect();
            return Err(SignError::Failed { program: program.clone(), status, said });
        }
        Ok(signature)
    }
}

/// A key behind a device, for TLS and for releases.
#[derive(Clone, Debug)]
pub(crate) struct DeviceKey {
    device: Arc<dyn SigningDevice>,
    scheme: SignatureScheme,
    public: Vec<u8>,
}

impl DeviceKey {
    /// The key of a certificate; the device must have it.
    pub(crate) fn new(
        device: Arc<dyn SigningDevice>,
        certificate: &[u8],
    ) -> Result<Self, IdentityError> {
        let public = public_key(certificate)?;
        let scheme = scheme_of(&public).ok_or_else(|| {
            IdentityError::Tls(
                "the certificate's key must be Ed25519, ECDSA P-256 or P-384, or RSA for a device to sign with it".into(),
            )
        })?;
        let key = Self { device, scheme, public };
        let proof = b"consenso asks its signer";
        let signature =
            key.device.sign(proof).map_err(|e| IdentityError::Tls(format!("signer: {e}")))?;
        let signature = ReleaseSignature { scheme: scheme.into(), bytes: signature.into() };
        if !verify(&key.public, proof, &signature) {
            return Err(IdentityError::Tls(format!(
                "signer: what it signed does not verify with the key of certificate.pem as {scheme:?}: another key, or another form of signature"
            )));
        }
        Ok(key)
    }
}

/// How the owner of a SubjectPublicKeyInfo signs in TLS 1.3: by the object identifiers in it.
fn scheme_of(public: &[u8]) -> Option<SignatureScheme> {
    let has = |oid: &[u8]| public.windows(oid.len()).take(32).any(|w| w == oid);
    [
        (&[0x06, 0x03, 0x2b, 0x65, 0x70][..], SignatureScheme::ED25519),
        (
            &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07],
            SignatureScheme::ECDSA_NISTP256_SHA256,
        ),
        (&[0x06, 0x05, 0x2b, 0x81, 0x04, 0x00, 0x22], SignatureScheme::ECDSA_NISTP384_SHA384),
        (
            &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01],
            SignatureScheme::RSA_PSS_SHA256,
        ),
    ]
    .into_iter()
    .find(|(oid, _)| has(oid))
    .map(|(_, scheme)| scheme)
}

impl SigningKey for DeviceKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&self.scheme).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(self.public.as_slice().into())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.scheme {
            SignatureScheme::ED25519 => SignatureAlgorithm::ED25519,
            SignatureScheme::RSA_PSS_SHA256 => SignatureAlgorithm::RSA,
            _ => SignatureAlgorithm::ECDSA,
        }
    }
}

impl Signer for DeviceKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, TlsError> {
        self.device.sign(message).map_err(|e| TlsError::General(format!("signer: {e}")))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_says_why() {
        let ask = |words: &[&str]| {
            let command =
                SignerCommand::new(words.iter().map(|w| (*w).to_owned()).collect()).unwrap();
            command.sign(b"x").map_err(|error| error.to_string())
        };
        assert!(ask(&["/nowhere/at-all"]).unwrap_err().starts_with("/nowhere/at-all: "));
        let said = ask(&["sh", "-c", "echo the device is gone >&2; exit 3"]).unwrap_err();
        assert!(said.contains("the device is gone") && said.contains('3'), "{said}");
        assert!(ask(&["true"]).is_err(), "nothing is no signature");
        // One that fails once is asked again.
        let flaky = std::env::temp_dir().join(format!("consenso-flaky-{}", std::process::id()));
        let script = format!("if test -e {0}; then cat; else : > {0}; exit 1; fi", flaky.display());
        assert_eq!(ask(&["sh", "-c", &script]).unwrap(), b"x");
        std::fs::remove_file(flaky).unwrap();
        assert_eq!(ask(&["cat"]).unwrap(), b"x");
        assert!(SignerCommand::new(Vec::new()).is_err());
    }
}
