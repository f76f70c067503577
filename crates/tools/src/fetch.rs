//! One page of the web, fetched through an egress proxy of its own.
//!
//! A GET over one connection: no redirects are followed, no cookies are kept, nothing is decompressed.
//! The proxy looks the name up, pins the address and refuses private ranges; what it refuses is an
//! error here.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glasshouse_model::http::check_path;
use glasshouse_sandbox::egress::{Egress, EgressProxy, client_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::codes;
use crate::error::{Error, Result};

/// Most bytes of a page that are read.
pub const MAX_PAGE_BYTES: usize = 2 << 20;
/// Longest head of an answer.
const MAX_HEAD_BYTES: u64 = 64 << 10;
/// How often a fetch that waits looks up.
const LOOK_UP: Duration = Duration::from_millis(100);

/// Bounds of one fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchLimits {
    /// Most bytes of the body; what is longer is cut.
    pub bytes: usize,
    /// Longest whole fetch.
    pub total: Duration,
    /// How long nothing may move.
    pub idle: Duration,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            bytes: MAX_PAGE_BYTES,
            total: Duration::from_secs(60),
            idle: Duration::from_secs(20),
        }
    }
}

/// An absolute web address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    secure: bool,
    host: String,
    port: u16,
    /// Path and query.
    target: String,
}

impl Url {
    /// Reads an address.
    ///
    /// ```
    /// use glasshouse_tools::Url;
    /// let url = Url::parse("https://Docs.Example.org/a?b#c").unwrap();
    /// assert_eq!((url.host(), url.port()), ("docs.example.org", 443));
    /// assert_eq!(url.to_string(), "https://docs.example.org/a?b");
    /// assert_eq!((url.path(), url.query()), ("/a", Some("b")));
    /// assert!(Url::parse("file:///etc/passwd").is_err());
    /// assert!(Url::parse("https://docs.example.org/open/../shut").is_err());
    /// ```
    ///
    /// # Errors
    /// `url_invalid`, also for a path that leads to another one: rules are asked about the path as it is written.
    pub fn parse(text: &str) -> Result<Self> {
        let bad =
            |why: &str| Error::new(codes::URL_INVALID, "an address cannot be fetched").why(why);
        if text.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || b"\\\"<>^`{|}".contains(&byte)) {
            return Err(bad("it holds characters that have to be escaped"));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("it has no scheme"))?;
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(bad("only http and https are fetched")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        if authority.contains(['@', '[', ']']) {
            return Err(bad("names and keys do not belong into an address, and hosts have names"));
        }
        let (host, port) = match authority.split_once(':') {
            None => (authority, if secure { 443 } else { 80 }),
            Some((host, port)) => (
                host,
                port.parse()
                    .ok()
                    .filter(|port| *port > 0)
                    .ok_or_else(|| bad("the port is none"))?,
            ),
        };
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_name = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        };
        if !host.split('.').all(is_name) {
            return Err(bad("its host is no name"));
        }
        // Nobody looks into a tunnel: what is not refused here is what the host gets.
        check_path(target.split('?').next().unwrap_or_default()).map_err(bad)?;
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self { secure, host, port, target: format!("{slash}{target}") })
    }

    /// Host, lower case, without a final dot.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Path without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// What stands behind the first `?`, if there is one.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.target.split_once('?').map(|(_, query)| query)
    }

    fn authority(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        match self.port {
            port if port == usual => self.host.clone(),
            port => format!("{}:{port}", self.host),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.target)
    }
}

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Status of the answer.
    pub status: u16,
    /// What the server says it is.
    pub content_type: String,
    /// Where the server sends on to.
    pub location: Option<String>,
    /// The bytes, up to the limit.
    pub body: Vec<u8>,
    /// Whether there was more.
    pub is_cut: bool,
}

fn failed(why: impl fmt::Display) -> Error {
    Error::new(codes::FETCH_FAILED, "the page did not come").why(why)
}

/// Fetches a page. The gate of `egress` decides and records; `is_cancelled` is asked between reads.
///
/// # Errors
/// `fetch_failed`, and what starting the proxy answers.
pub fn fetch(url: &Url, egress: Egress, is_cancelled: &dyn Fn() -> bool) -> Result<Page> {
    fetch_within(url, egress, FetchLimits::default(), is_cancelled)
}

/// As [`fetch`], within other bounds.
///
/// # Errors
/// As [`fetch`].
pub fn fetch_within(
    url: &Url,
    egress: Egress,
    limits: FetchLimits,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Page> {
    let roots = egress.roots_pem.clone();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let proxy = EgressProxy::start(listener.into(), egress).map_err(failed)?;
    let page = fetch_by(url, address, &roots, (limits, is_cancelled));
    // Its end records the exchange.
    drop(proxy);
    page
}

/// Waits for a host that says nothing, but not for longer than it may, and not for somebody who has left.
struct Patient<'c> {
    stream: TcpStream,
    idle: Duration,
    is_cancelled: &'c dyn Fn() -> bool,
}

impl Read for Patient<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let begun = Instant::now();
        loop {
            match self.stream.read(buffer) {
                Err(error) if is_nothing_yet(&error) => {
                    if (self.is_cancelled)() {
                        return Err(std::io::Error::other("it was cancelled"));
                    }
                    if begun.elapsed() >= self.idle {
                        return Err(error);
                    }
                }
                read => return read,
            }
        }
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn is_nothing_yet(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}

fn fetch_by(
    url: &Url,
    proxy: SocketAddr,
    roots: &[String],
    (limits, is_cancelled): (FetchLimits, &dyn Fn() -> bool),
) -> Result<Page> {
    let stream = TcpStream::connect_timeout(&proxy, limits.idle).map_err(failed)?;
    stream.set_read_timeout(Some(LOOK_UP)).map_err(failed)?;
    stream.set_write_timeout(Some(limits.idle)).map_err(failed)?;
    let mut stream = Patient { stream, idle: limits.idle, is_cancelled };
    if !url.secure {
        let target = format!("http://{}{}", url.authority(), url.target);
        return exchange(stream, &target, url, (limits, is_cancelled));
    }
    let authority = format!("{}:{}", url.host, url.port);
    let connect = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(connect.as_bytes()).map_err(failed)?;
    // Byte by byte: what follows the head belongs to the tunnel.
    let mut head = Vec::new();
    let mut byte = [0; 1];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).map_err(failed)? == 0 || head.len() as u64 > MAX_HEAD_BYTES {
            return Err(failed("the proxy closed the connection"));
        }
        head.extend(byte);
    }
    let head = String::from_utf8_lossy(&head);
    if head.split(' ').nth(1) != Some("200") {
        return Err(failed(head.lines().next().unwrap_or_default()));
    }
    let name = ServerName::try_from(url.host.clone()).map_err(failed)?;
    let tls = ClientConnection::new(Arc::new(client_config(roots).map_err(failed)?), name)
        .map_err(failed)?;
    exchange(StreamOwned::new(tls, stream), &url.target, url, (limits, is_cancelled))
}

fn exchange(
    mut stream: impl Read + Write,
    target: &str,
    url: &Url,
    (limits, is_cancelled): (FetchLimits, &dyn Fn() -> bool),
) -> Result<Page> {
    let request = format!(
        "GET {target} HTTP/1.1\r\nHost: {}\r\nUser-Agent: glasshouse\r\nAccept: text/*, */*;q=0.5\r\n\
         Accept-Encoding: identity\r\nConnection: close\r\n\r\n",
        url.authority()
    );
    let until = Instant::now() + limits.total;
    stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).map_err(failed)?;
    let mut reader = BufReader::new(stream);
    let head = Head::read(&mut reader)?;
    let mut page = Page {
        status: head.status,
        content_type: head.get("content-type").unwrap_or_default().to_owned(),
        location: head.get("location").map(str::to_owned),
        body: Vec::new(),
        is_cut: false,
    };
    let mut on = || {
        if is_cancelled() {
            return Err(failed("the turn was cancelled"));
        }
        if Instant::now() < until {
            return Ok(());
        }
        Err(failed(format!("it took longer than {} ms", limits.total.as_millis())))
    };
    let chunked =
        head.get("transfer-encoding").is_some_and(|how| how.eq_ignore_ascii_case("chunked"));
    if chunked {
        loop {
            let line = line(&mut reader)?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(digits, 16).map_err(|_| failed("a broken chunk"))?;
            if size == 0 || !page.take(&mut reader, (size, limits.bytes), &mut on)? {
                return Ok(page);
            }
            let _ = self::line(&mut reader)?;
        }
    }
    let length = head.get("content-length").map(str::parse).transpose();
    let length = length.map_err(|_| failed("a broken length"))?;
    if !matches!(head.status, 204 | 304) {
        let most = (length.unwrap_or(u64::MAX), limits.bytes);
        let whole = page.take(&mut reader, most, &mut on)?;
        if whole && length.is_some_and(|length| (page.body.len() as u64) < length) {
            return Err(failed("the answer ended in the middle"));
        }
    }
    Ok(page)
}

impl Page {
    /// Takes so many bytes, or all until the end; false once the page is cut.
    fn take(
        &mut self,
        reader: &mut impl BufRead,
        (bytes, most): (u64, usize),
        on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<bool> {
        let mut left = bytes;
        while left > 0 {
            on()?;
            let room = most - self.body.len();
            let mut part = [0; 16 << 10];
            let want = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let got = match reader.read(&mut part[..want]) {
                Ok(0) => return Ok(true),
                Ok(got) => got,
                // A server that closes without TLS's own goodbye has still said all it says.
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(true),
                Err(error) => return Err(failed(error)),
            };
            left -= got as u64;
            self.body.extend_from_slice(&part[..got.min(room)]);
            if got > room {
                self.is_cut = true;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

struct Head {
    status: u16,
    fields: Vec<(String, String)>,
}

impl Head {
    fn read(reader: &mut impl BufRead) -> Result<Self> {
        let first = line(reader)?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| failed("the answer is no HTTP"))?;
        let mut fields = Vec::new();
        let mut bytes = 0;
        loop {
            let line = line(reader)?;
            if line.is_empty() {
                return Ok(Self { status, fields });
            }
            bytes += line.len() as u64;
            if bytes > MAX_HEAD_BYTES {
                return Err(failed("the head of the answer is too long"));
            }
            if let Some((name, value)) = line.split_once(':') {
                fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}

fn line(reader: &mut impl BufRead) -> Result<String> {
    let mut bytes = Vec::new();
    reader.by_ref().take(MAX_HEAD_BYTES).read_until(b'\n', &mut bytes).map_err(failed)?;
    if bytes.last() != Some(&b'\n') {
        return Err(failed("the answer ended in the middle"));
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |text: &str, expected: Option<&str>| {
            let url = Url::parse(text).ok().map(|url| url.to_string());
            assert_eq!(url.as_deref(), expected, "{text}");
        };
        check("http://a.test", Some("http://a.test/"));
        check("HTTPS://A.Test.:443/x?y#z", Some("https://a.test/x?y"));
        check("http://a.test:8080?q", Some("http://a.test:8080/?q"));
        for bad in [
            "a.test/x",
            "file:///etc/passwd",
            "http://",
            "http:///x",
            "http://user@a.test/",
            "http://[::1]/",
            "http://a..test/",
            "http://a.test:0/",
            "http://a.test:99999/",
            "http://a.test/ x",
            "http://a.test/\r\nHost: b.test",
            "http://a.test/ü",
            "http://a.test\\@b.test/",
        ] {
            check(bad, None);
        }
    }

    /// The failure: the proxy refused such a path over plain HTTP, and over TLS it looked at none.
    #[test]
    fn a_path_that_leads_elsewhere_is_refused_whatever_carries_it() {
        let check = |path: &str, expected: bool| {
            for scheme in ["http", "https"] {
                let found = Url::parse(&format!("{scheme}://a.test{path}"));
                assert_eq!(found.is_ok(), expected, "{scheme} {path}: {found:?}");
                if let Err(error) = found {
                    assert_eq!(error.code(), "url_invalid");
                    assert!(error.to_string().contains("path"), "{error}");
                }
            }
        };
        for path in [
            "/v1/../admin",
            "/v1/%2e%2e/admin",
            "/v1/%2E%2E/admin",
            "/v1/..%2fadmin",
            "/v1/..%5cadmin",
            "/%2f../admin",
            "/v1/..;x/admin",
            "/v1/%252e%252e/admin",
            "/v1/./admin?a=b",
            "/v1/..#x",
            "/v1/%zz",
            "/v1/%00",
        ] {
            check(path, false);
        }
        // The control: what stands in a query or a fragment is no path.
        for path in
            ["/v1/a", "", "?../x", "/v1/?p=/../%2e%2e/%zz", "/v1/a#/../b", "/v1//a;x=..", "/v1/..."]
        {
            check(path, true);
        }
    }

    /// What the rules were asked about is what the host gets, byte for byte.
    #[test]
    fn what_is_decided_is_what_is_sent() {
        struct Sent(Vec<u8>);
        impl Read for Sent {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Ok(0)
            }
        }
        impl Write for Sent {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        for text in [
            "https://a.test",
            "https://a.test?q=/../x",
            "https://a.test/v1/%41%2Fb//c;d?e=%2e#f",
            "https://a.test/v1/a?",
            "https://A.test:8443/V1",
        ] {
            let url = Url::parse(text).unwrap();
            let mut sent = Sent(Vec::new());
            let limits = FetchLimits::default();
            assert!(exchange(&mut sent, &url.target, &url, (limits, &|| false)).is_err());
            let decided = match url.query() {
                Some(query) => format!("{}?{query}", url.path()),
                None => url.path().to_owned(),
            };
            let head = String::from_utf8(sent.0).unwrap();
            assert_eq!(
                head.lines().next(),
                Some(format!("GET {decided} HTTP/1.1").as_str()),
                "{text}"
            );
        }
    }

    #[test]
    fn answers() {
        let check = |answer: &str, expected: Option<(u16, &str)>| {
            struct Stream<'a>(&'a [u8]);
            impl Read for Stream<'_> {
                fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                    self.0.read(out)
                }
            }
            impl Write for Stream<'_> {
                fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                    Ok(bytes.len())
                }
                fn flush(&mut self) -> std::io::Result<()> {
                    Ok(())
                }
            }
            let url = Url::parse("http://a.test/").unwrap();
            let limits = FetchLimits::default();
            let page = exchange(Stream(answer.as_bytes()), "/", &url, (limits, &|| false));
            let page = page.ok().map(|p| (p.status, String::from_utf8(p.body).unwrap()));
            assert_eq!(page, expected.map(|(s, b)| (s, b.to_owned())), "{answer:?}");
        };
        check("HTTP/1.1 200 OK\r\n\r\nhello", Some((200, "hello")));
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", Some((200, "he")));
        check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel", None);
        check("HTTP/1.0 404 No\nContent-Length: 0\n\n", Some((404, "")));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{chunked}2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"), Some((200, "hello")));
        check(&format!("{chunked}zz\r\n"), None);
        check(&format!("{chunked}5\r\nhel"), None);
        check("SSH-2.0-x\r\n", None);
        check("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", None);
        check("", None);
    }

    #[test]
    fn a_long_page_is_cut() {
        let mut page = Page {
            status: 200,
            content_type: String::new(),
            location: None,
            body: Vec::new(),
            is_cut: false,
        };
        let long = vec![b'x'; MAX_PAGE_BYTES + 1];
        let most = (u64::MAX, MAX_PAGE_BYTES);
        let whole = page.take(&mut long.as_slice(), most, &mut || Ok(())).unwrap();
        assert!(!whole && page.is_cut);
        assert_eq!(page.body.len(), MAX_PAGE_BYTES);
    }
}
