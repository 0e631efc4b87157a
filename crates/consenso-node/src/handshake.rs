//! What a failed handshake means, in words that say who must mend what.

use std::io::{Error, ErrorKind};
use std::path::Path;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error as TlsError};

/// Why a TLS handshake failed. The words of TLS follow in brackets.
pub(crate) fn words(error: &Error) -> String {
    // What this program itself found wrong comes under a name of TLS that means nothing here.
    let said = error.to_string().trim_start_matches("unexpected error: ").to_owned();
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>());
    match tls {
        Some(TlsError::General(_)) => said,
        Some(tls) => meaning(tls).map_or_else(|| said.clone(), |words| format!("{words} ({said})")),
        None => match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                format!(
                    "it hung up during the handshake: it does not answer this address for a while, or a proxy stands between ({said})"
                )
            }
            // HTTP/2 keeps of an error what it says, and not what it was.
            _ => match alert(&said).and_then(|alert| meaning(&TlsError::AlertReceived(alert))) {
                Some(words) => format!("{words} ({said})"),
                None => said,
            },
        },
    }
}

/// The alert that words of TLS are about, of those that say something of certificates.
fn alert(said: &str) -> Option<AlertDescription> {
    let name = said.rsplit(' ').next()?;
    let all = [
        AlertDescription::CertificateExpired,
        AlertDescription::UnknownCA,
        AlertDescription::BadCertificate,
        AlertDescription::CertificateUnknown,
        AlertDescription::UnsupportedCertificate,
        AlertDescription::CertificateRevoked,
        AlertDescription::AccessDenied,
        AlertDescription::CertificateRequired,
        AlertDescription::InternalError,
        AlertDescription::HandshakeFailure,
    ];
    all.into_iter().find(|alert| said.contains("alert") && format!("{alert:?}") == name)
}

fn meaning(error: &TlsError) -> Option<&'static str> {
    Some(match error {
        TlsError::InvalidCertificate(wrong) => match wrong {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired: it needs a new one, or the clock here is wrong"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate does not hold yet: one of the two clocks is wrong"
            }
            CertificateError::UnknownIssuer => {
                "nobody in trust.pem signed its certificate: ask for the new one, and compare its pin by another way"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate has another name than peers.toml"
            }
            _ => return None,
        },
        TlsError::NoCertificatesPresented => "it showed no certificate",
        TlsError::AlertReceived(alert) => match alert {
            AlertDescription::CertificateExpired => {
                "it says that this site's certificate has expired"
            }
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::AccessDenied => {
                "it does not believe this site's certificate: its trust.pem and peers.toml must have the one of now"
            }
            AlertDescription::CertificateRequired => "it saw no certificate of this site",
            AlertDescription::ProtocolVersion => "it does not speak TLS 1.3",
            AlertDescription::NoApplicationProtocol => "what answers there is no site",
            // What the other end's own check says (a pin, a name) comes as this.
            AlertDescription::InternalError | AlertDescription::HandshakeFailure => {
                "it refused this site's certificate: its audit.jsonl says why; most likely the pin in its peers.toml is another one"
            }
            _ => return None,
        },
        TlsError::InvalidMessage(_) => "what answers there does not speak TLS",
        TlsError::PeerIncompatible(_) => "it does not speak TLS 1.3 as sites do",
        _ => return None,
    })
}

/// Days since the certificate in a site's folder ended, if it has.
pub(crate) fn ended(folder: &Path) -> Option<f64> {
    let all = crate::identity::certificates(&folder.join(crate::identity::CERTIFICATE)).ok()?;
    let (_, end) = crate::identity::dates(all.first()?)?;
    let days = (crate::clock::now() as i64 - end) as f64 / 86_400.0;
    (days > 0.0).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_handshake_says_who_must_mend_what() {
        let of = |tls: TlsError| words(&Error::new(ErrorKind::InvalidData, tls));
        for (error, expected) in [
            (
                TlsError::InvalidCertificate(CertificateError::Expired),
                "its certificate has expired",
            ),
            (TlsError::InvalidCertificate(CertificateError::NotValidYet), "clocks is wrong"),
            (TlsError::InvalidCertificate(CertificateError::UnknownIssuer), "nobody in trust.pem"),
            (TlsError::NoCertificatesPresented, "it showed no certificate"),
            (
                TlsError::AlertReceived(AlertDescription::CertificateExpired),
                "this site's certificate has expired",
            ),
            (TlsError::AlertReceived(AlertDescription::UnknownCA), "does not believe this site"),
        ] {
            let said = of(error);
            assert!(said.contains(expected) && said.ends_with(')'), "{said}");
        }
        assert_eq!(of(TlsError::General("the pin is another".into())), "the pin is another");
        assert!(words(&ErrorKind::UnexpectedEof.into()).starts_with("it hung up"));
        // What a caller hears of it by way of HTTP/2, which forgets the type.
        for alert in [AlertDescription::HandshakeFailure, AlertDescription::CertificateExpired] {
            let tls = TlsError::AlertReceived(alert);
            let forgotten = Error::other(tls.to_string());
            assert_eq!(words(&forgotten), of(tls));
        }
    }
}
