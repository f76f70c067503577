//! Heads of HTTP/1 messages, read so strictly that no server can read them differently.
//!
//! Request smuggling lives on what one reader forgives and the next does not. So nothing is
//! forgiven in a request: bare line ends, folded lines, spaces before colons, two lengths. What is
//! sent on is written anew from what was understood.

use glasshouse_model::http::check_path;

use super::body::Framing;
use super::host::parse_authority;
use super::{Denial, Host};

/// Most header lines of one head.
const MAX_HEADERS: usize = 100;
const MAX_METHOD_BYTES: usize = 32;

/// Headers that belong to one connection, besides those that `Connection` names.
const HOP_BY_HOP: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "proxy-authentication-info",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    // Written anew from what was understood of the body.
    "content-length",
];

/// A header line as it came, the name in lower case.
pub(crate) type Header = (String, Vec<u8>);

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `CONNECT host:port`.
    Tunnel,
    /// `GET http://host/path?query`; path and query.
    Resource(String),
}

/// A request that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub(crate) method: String,
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// The port that the `Host` header leaves out.
    pub(crate) default_port: u16,
    pub(crate) target: Target,
    /// 0 or 1, of HTTP/1.
    pub(crate) minor: u8,
    pub(crate) headers: Vec<Header>,
    pub(crate) framing: Framing,
}

/// Where the head at the start of `bytes` ends, `None` while it is not complete.
///
/// # Errors
/// [`Denial::Malformed`] for a line end that is not CR LF, and for NUL.
pub(crate) fn end_of(bytes: &[u8]) -> Result<Option<usize>, Denial> {
    for (at, byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| bytes[at]);
        match byte {
            b'\n' if before != Some(b'\r') => return Err(Denial::Malformed),
            b'\n' if bytes[..at].ends_with(b"\r\n\r") => return Ok(Some(at + 1)),
            b'\n' => {}
            0 => return Err(Denial::Malformed),
            _ if before == Some(b'\r') => return Err(Denial::Malformed),
            _ => {}
        }
    }
    Ok(None)
}

impl RequestHead {
    /// Reads a complete head, as [`end_of`] found it.
    ///
    /// # Errors
    /// The denial that a head which is not exactly right gets.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Denial> {
        let (line, headers) = lines(bytes)?;
        let line = std::str::from_utf8(line).map_err(|_| Denial::Malformed)?;
        let mut words = line.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Denial::Malformed);
        };
        let minor = match version {
            "HTTP/1.1" => 1,
            "HTTP/1.0" => 0,
            _ => return Err(Denial::Malformed),
        };
        if method.len() > MAX_METHOD_BYTES || !is_token(method.as_bytes()) {
            return Err(Denial::Malformed);
        }
        let ((host, port), target) = if method == "CONNECT" {
            (parse_authority(target, None)?, Target::Tunnel)
        } else {
            let (authority, rest) = absolute(target)?;
            (parse_authority(authority, Some(80))?, Target::Resource(rest))
        };
        let framing = framing(&headers, minor)?;
        if target == Target::Tunnel && framing != Framing::Empty {
            return Err(Denial::Malformed);
        }
        let head = Self {
            method: method.to_owned(),
            host,
            port,
            default_port: 80,
            target,
            minor,
            headers,
            framing,
        };
        head.check_host_header()?;
        Ok(head)
    }

    /// The `Host` header must say what the target says.
    fn check_host_header(&self) -> Result<(), Denial> {
        let mut hosts = self.headers.iter().filter(|(name, _)| name == "host");
        let (first, second) = (hosts.next(), hosts.next());
        if second.is_some() {
            return Err(Denial::Malformed);
        }
        let Some((_, value)) = first else {
            return if self.minor == 1 { Err(Denial::Malformed) } else { Ok(()) };
        };
        let value = std::str::from_utf8(value).map_err(|_| Denial::Malformed)?;
        let default_port = if self.target == Target::Tunnel { self.port } else { 80 };
        let (host, port) = parse_authority(value, Some(default_port))?;
        if (host, port) == (self.host.clone(), self.port) {
            Ok(())
        } else {
            Err(Denial::HostMismatch)
        }
    }

    /// The path without its query, as rules and events see it; `None` for a tunnel.
    pub(crate) fn path(&self) -> Option<&str> {
        match &self.target {
            Target::Tunnel => None,
            Target::Resource(rest) => Some(rest.split('?').next().unwrap_or(rest)),
        }
    }

    /// The head that goes to the server.
    pub(crate) fn rewritten(&self) -> Vec<u8> {
        let Target::Resource(rest) = &self.target else { return Vec::new() };
        let mut out =
            format!("{} {rest} HTTP/1.{}\r\nHost: {}", self.method, self.minor, self.host);
        if self.port != self.default_port {
            out.push_str(&format!(":{}", self.port));
        }
        out.push_str("\r\n");
        let mut out = out.into_bytes();
        // `Expect` was answered by the proxy.
        let kept = end_to_end(&self.headers).filter(|(name, _)| name != "host" && name != "expect");
        write_headers(&mut out, kept);
        out.extend(self.framing.header());
        out.extend(b"Connection: close\r\n\r\n");
        out
    }

    /// Whether the client waits for leave to send the body.
    pub(crate) fn expects_continue(&self) -> bool {
        let waits = |(name, value): &Header| {
            name == "expect" && value.eq_ignore_ascii_case(b"100-continue")
        };
        self.minor == 1 && self.framing != Framing::Empty && self.headers.iter().any(waits)
    }
}

/// An answer of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    status_line: Vec<u8>,
    headers: Vec<Header>,
    pub(crate) framing: Framing,
    /// What a body would be that this answer only describes.
    described: Framing,
}

impl ResponseHead {
    /// Reads the complete head of an answer to a request of this method.
    ///
    /// # Errors
    /// [`Denial::Malformed`].
    pub(crate) fn parse(bytes: &[u8], method: &str) -> Result<Self, Denial> {
        let (line, headers) = lines(bytes)?;
        let minor = match line {
            [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ (b'0' | b'1'), b' ', ..] => {
                minor - b'0'
            }
            _ => return Err(Denial::Malformed),
        };
        let digits = line.get(9..12).filter(|digits| digits.iter().all(u8::is_ascii_digit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let status = digits.and_then(|digits| digits.parse().ok()).ok_or(Denial::Malformed)?;
        if !(100..600).contains(&status) || !matches!(line.get(12), None | Some(b' ')) {
            return Err(Denial::Malformed);
        }
        let said = framing(&headers, minor)?;
        let has_length =
            headers.iter().any(|(name, _)| name == "content-length" || name == "transfer-encoding");
        let framing = match status {
            100..200 | 204 | 304 => Framing::Empty,
            _ if method == "HEAD" => Framing::Empty,
            _ if has_length => said,
            _ => Framing::UntilEnd,
        };
        let described = if method == "HEAD" || status == 304 { said } else { framing };
        Ok(Self { status, status_line: line.to_vec(), headers, framing, described })
    }

    /// The head that goes to the client.
    pub(crate) fn rewritten(&self) -> Vec<u8> {
        let mut out = self.status_line.clone();
        out.extend(b"\r\n");
        write_headers(&mut out, end_to_end(&self.headers));
        out.extend(self.described.header());
        out.extend(b"Connection: close\r\n\r\n");
        out
    }
}

fn write_headers<'a>(out: &mut Vec<u8>, headers: impl Iterator<Item = &'a Header>) {
    for (name, value) in headers {
        out.extend(name.as_bytes());
        out.extend(b": ");
        out.extend(value);
        out.extend(b"\r\n");
    }
}

/// The headers that are for the other end.
fn end_to_end(headers: &[Header]) -> impl Iterator<Item = &Header> {
    let named: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name == "connection" || name == "proxy-connection")
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .map(|word| String::from_utf8_lossy(word).trim().to_ascii_lowercase())
        .collect();
    headers.iter().filter(move |(name, _)| !HOP_BY_HOP.contains(&&**name) && !named.contains(name))
}

/// The first line and the header lines of a head that ends with an empty line.
fn lines(bytes: &[u8]) -> Result<(&[u8], Vec<Header>), Denial> {
    let text = bytes.strip_suffix(b"\r\n\r\n").ok_or(Denial::Malformed)?;
    let mut lines = text.split(|byte| *byte == b'\n');
    let mut next = || lines.next().map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = next().unwrap_or_default();
    let mut headers = Vec::new();
    while let Some(line) = next() {
        if headers.len() == MAX_HEADERS {
            return Err(Denial::TooLarge);
        }
        let colon = line.iter().position(|byte| *byte == b':').ok_or(Denial::Malformed)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        // A folded line begins with a space, which is in no name.
        let plain = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
        if !is_token(name) || !value.iter().all(plain) {
            return Err(Denial::Malformed);
        }
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        headers.push((name, value.to_vec()));
    }
    Ok((first, headers))
}

fn framing(headers: &[Header], minor: u8) -> Result<Framing, Denial> {
    let all = |wanted: &str| {
        headers.iter().filter(|(name, _)| name == wanted).map(|(_, value)| &**value).collect()
    };
    let (lengths, codings): (Vec<&[u8]>, Vec<&[u8]>) =
        (all("content-length"), all("transfer-encoding"));
    match (&*lengths, &*codings) {
        ([], []) => Ok(Framing::Empty),
        ([digits], []) => {
            let digits = std::str::from_utf8(digits).map_err(|_| Denial::Malformed)?;
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(Denial::Malformed);
            }
            digits.parse().map(Framing::Length).map_err(|_| Denial::Malformed)
        }
        ([], [coding]) if minor == 1 && coding.eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked)
        }
        _ => Err(Denial::Malformed),
    }
}

/// Splits `http://authority/path?query` into authority and the rest, which starts with `/`.
fn absolute(target: &str) -> Result<(&str, String), Denial> {
    let scheme = target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let rest = scheme.map(|scheme| &target[scheme.len()..]).ok_or(Denial::Malformed)?;
    if !rest.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#' && byte != b'\\') {
        return Err(Denial::Malformed);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
    let path = rest.split('?').next().unwrap_or_default();
    check_path(path).map_err(|_| Denial::Malformed)?;
    Ok((authority, rest))
}

fn is_token(bytes: &[u8]) -> bool {
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(token)
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
