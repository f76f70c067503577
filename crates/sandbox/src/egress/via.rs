//! Dialling through a proxy of the host's network, where that is its only way out.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use super::Dialer;
use super::host::parse_authority;
use crate::{Error, Result, codes};

/// Port of a proxy that is named without one.
const DEFAULT_PORT: u16 = 3128;
const LIMIT: Duration = Duration::from_secs(10);
/// Longest answer of the proxy before the tunnel stands.
const MAX_ANSWER_BYTES: usize = 8 << 10;

/// A [`Dialer`] that asks another proxy for a tunnel to the address that was checked. Names are
/// still resolved and judged here: a proxy that resolves them again could be led elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViaProxy {
    host: String,
    port: u16,
}

impl ViaProxy {
    /// Reads `http://HOST[:PORT]`.
    ///
    /// # Errors
    /// `egress_invalid` for anything else, also a URL that holds a password.
    pub fn parse(url: &str) -> Result<Self> {
        let refuse = |why: &str| {
            // Not the text itself: it may hold a password.
            Err(Error::new(codes::EGRESS_INVALID, "the upstream proxy cannot be used").why(why))
        };
        let Some(rest) = url.strip_prefix("http://") else {
            return refuse("it is not written as http://HOST:PORT");
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        match parse_authority(authority, Some(DEFAULT_PORT)) {
            Ok((host, port)) => {
                Ok(Self { host: host.to_string().trim_matches(['[', ']']).to_owned(), port })
            }
            Err(_) => refuse("it names no host with an optional port and nothing else"),
        }
    }
}

impl Dialer for ViaProxy {
    fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let until = Instant::now() + LIMIT;
        let proxies = (self.host.as_str(), self.port).to_socket_addrs()?;
        let mut stream = proxies
            .into_iter()
            .find_map(|proxy| TcpStream::connect_timeout(&proxy, LIMIT / 2).ok())
            .ok_or(io::ErrorKind::ConnectionRefused)?;
        stream.set_write_timeout(Some(LIMIT))?;
        let head = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut answer = Vec::new();
        // Byte by byte: what follows the head is the other end's.
        while !answer.ends_with(b"\r\n\r\n") {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || answer.len() >= MAX_ANSWER_BYTES {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        let stands = answer.starts_with(b"HTTP/1.1 200 ") || answer.starts_with(b"HTTP/1.0 200 ");
        if !stands {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        stream.set_read_timeout(None)?;
        stream.set_write_timeout(None)?;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn proxies_are_plain_hosts() {
        let check = |url: &str, expected: Option<(&str, u16)>| {
            let found = ViaProxy::parse(url).ok();
            let found = found.as_ref().map(|found| (&*found.host, found.port));
            assert_eq!(found, expected, "{url}");
        };
        check("http://proxy.test:8080", Some(("proxy.test", 8080)));
        check("http://10.0.0.1/", Some(("10.0.0.1", 3128)));
        check("http://[2001:db8::1]:80", Some(("2001:db8::1", 80)));
        for bad in ["", "proxy.test:80", "https://a.test", "http://u:p@a.test", "http://a.test/x"] {
            check(bad, None);
        }
    }

    #[test]
    fn the_address_that_was_checked_is_asked_for() {
        let check = |answer: &'static str, expected: bool| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let served = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 51];
                stream.read_exact(&mut asked).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                String::from_utf8(asked.to_vec()).unwrap()
            });
            let proxy = ViaProxy::parse(&format!("http://127.0.0.1:{port}")).unwrap();
            let dialled = proxy.dial("1.1.1.1:443".parse().unwrap());
            assert_eq!(dialled.is_ok(), expected, "{answer}: {dialled:?}");
            let asked = served.join().unwrap();
            assert_eq!(asked, "CONNECT 1.1.1.1:443 HTTP/1.1\r\nHost: 1.1.1.1:443\r\n\r\n");
            if let Ok(mut stream) = dialled {
                let mut rest = String::new();
                stream.read_to_string(&mut rest).unwrap();
                assert_eq!(rest, "first");
            }
        };
        check("HTTP/1.1 200 Connection established\r\n\r\nfirst", true);
        check("HTTP/1.0 200 OK\r\nX: y\r\n\r\nfirst", true);
        check("HTTP/1.1 403 Forbidden\r\n\r\n", false);
        check("HTTP/1.1 200", false);
    }
}
