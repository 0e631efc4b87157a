//! Calls through an HTTP proxy (`proxy = "http://proxy.example.org:3128"` in `site.toml`): one
//! CONNECT, then the bytes of TLS as they are. The proxy sees names and sizes, and no content.

use std::io::{Error, ErrorKind};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest answer that is read.
const ANSWER: usize = 8192;

/// A text that names no proxy.
#[derive(Debug, thiserror::Error)]
#[error("\"{0}\" must be http://[user:password@]host:port")]
pub(crate) struct NoProxy(String);

/// A proxy that calls are made through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxy {
    address: String,
    /// User and password, as HTTP has them.
    credentials: Option<String>,
}

impl Proxy {
    /// `http://[user:password@]host:port`.
    pub(crate) fn parse(text: &str) -> Result<Self, NoProxy> {
        let wrong = || NoProxy(text.to_owned());
        let rest = text.strip_prefix("http://").ok_or_else(wrong)?.trim_end_matches('/');
        let (credentials, address) = match rest.rsplit_once('@') {
            Some((words, address)) => (Some(base64(words.as_bytes())), address),
            None => (None, rest),
        };
        let port = address.rsplit_once(':').and_then(|(host, port)| {
            (!host.is_empty() && !host.contains('/')).then(|| port.parse::<u16>().ok())?
        });
        if port.is_none() || address.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { address: address.to_owned(), credentials })
    }

    /// A connection to `address` through it.
    pub(crate) async fn connect(&self, address: &str) -> std::io::Result<TcpStream> {
        let named = |cause: Error| Error::other(format!("the proxy {}: {cause}", self.address));
        let mut stream = TcpStream::connect(&self.address).await.map_err(named)?;
        let login = self.credentials.as_ref().map_or_else(String::new, |credentials| {
            format!("Proxy-Authorization: Basic {credentials}\r\n")
        });
        let request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n{login}\r\n");
        stream.write_all(request.as_bytes()).await.map_err(named)?;
        let mut answer = Vec::new();
        // Byte by byte: what follows the empty line belongs to the other site.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= ANSWER {
                return Err(named(Error::new(ErrorKind::InvalidData, "its answer is too long")));
            }
            answer.push(stream.read_u8().await.map_err(named)?);
        }
        let line = String::from_utf8_lossy(&answer);
        let line = line.lines().next().unwrap_or_default();
        if line.split_whitespace().nth(1) == Some("200") {
            return Ok(stream);
        }
        let said: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
        Err(named(Error::new(ErrorKind::PermissionDenied, format!("it said \"{said}\""))))
    }
}

/// Base64 with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        let letter = |i: usize| char::from(LETTERS[(all >> (18 - 6 * i) & 63) as usize]);
        (0..4).map(|i| if i <= three.len() { letter(i) } else { '=' }).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn base64_of_the_standard() {
        // RFC 4648, section 10.
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        for (length, expected) in expected.into_iter().enumerate() {
            assert_eq!(base64(&b"foobar"[..length]), expected);
        }
    }

    #[test]
    fn what_is_no_proxy_is_said() {
        for text in
            ["proxy:3128", "https://proxy:3128", "http://proxy", "http://:1", "http://a b:1"]
        {
            assert!(Proxy::parse(text).is_err(), "{text}");
        }
        let proxy = Proxy::parse("http://me:secret@proxy.example.org:3128/").unwrap();
        assert_eq!(proxy.address, "proxy.example.org:3128");
        assert_eq!(proxy.credentials.as_deref(), Some("bWU6c2VjcmV0"));
    }

    #[tokio::test]
    async fn a_call_goes_through_the_proxy_and_a_refusal_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = tokio::spawn(async move {
            let mut asked = Vec::new();
            for answer in
                ["HTTP/1.1 200 Connection established\r\n\r\nhello", "HTTP/1.1 407 Who?\r\n\r\n"]
            {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 500];
                let length = stream.read(&mut request).await.unwrap();
                asked.push(String::from_utf8_lossy(&request[..length]).into_owned());
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        let proxy = Proxy::parse(&format!("http://{address}")).unwrap();
        let mut stream = proxy.connect("b.example.org:443").await.unwrap();
        let mut first = [0; 5];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"hello", "nothing of the other site is taken for the proxy's");
        let refused = proxy.connect("b.example.org:443").await.unwrap_err().to_string();
        assert!(refused.contains("it said \"HTTP/1.1 407 Who?\""), "{refused}");
        let asked = served.await.unwrap();
        assert!(
            asked[0]
                .starts_with("CONNECT b.example.org:443 HTTP/1.1\r\nHost: b.example.org:443\r\n")
        );
    }
}
