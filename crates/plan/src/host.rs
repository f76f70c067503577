//! Hosts of addresses, and the patterns that allow them.

/// The part of an address that names a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) https: bool,
    /// Lower case, without a port.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

impl Remote {
    /// Scheme, host and port as a policy header names them.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{}{port}", self.host)
    }

    fn default_port(&self) -> u16 {
        if self.https { 443 } else { 80 }
    }
}

/// Reads what follows the two slashes; `None` unless it is a plain host, perhaps with a port.
pub(crate) fn authority(https: bool, rest: &str) -> Option<Remote> {
    let text = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = split_port(text)?;
    let remote = Remote { https, host: host.to_ascii_lowercase(), port };
    let port = remote.port.filter(|port| *port != remote.default_port());
    Some(Remote { port, ..remote })
}

/// Reads an absolute `http` or `https` address.
pub(crate) fn absolute(text: &str) -> Option<Remote> {
    let (scheme, rest) = text.split_once("://")?;
    match scheme.to_ascii_lowercase().as_str() {
        "https" => authority(true, rest),
        "http" => authority(false, rest),
        _ => None,
    }
}

/// Splits `host` or `host:port`. Hosts are plain ASCII names or addresses in brackets.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let bracketed = text.starts_with('[');
    let end = if bracketed { text.find(']')? + 1 } else { text.find(':').unwrap_or(text.len()) };
    let (host, port) = text.split_at(end);
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    let valid = if bracketed {
        let inner = &host[1..host.len() - 1];
        !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
    } else {
        let labels = host.split('.');
        host.bytes().all(plain) && labels.into_iter().all(|label| !label.is_empty())
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().ok()?)
        }
        _ => return None,
    };
    valid.then_some((host, port))
}

/// Whether a pattern (`host`, `host:port`, `*.host`) allows a remote address. Without a port the
/// pattern means the scheme's own; `*.host` means names below it, not the name itself.
fn pattern_allows(pattern: &str, remote: &Remote) -> bool {
    let pattern = pattern.trim().to_ascii_lowercase();
    let (wild, name) = match pattern.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, pattern.as_str()),
    };
    let Some((name, port)) = split_port(name) else { return false };
    let same_name = if wild {
        remote.host.strip_suffix(name).is_some_and(|left| left.len() > 1 && left.ends_with('.'))
    } else {
        remote.host == name
    };
    let actual = remote.port.unwrap_or_else(|| remote.default_port());
    same_name && actual == port.unwrap_or_else(|| remote.default_port())
}

pub(crate) fn allows(patterns: &[String], remote: &Remote) -> bool {
    patterns.iter().any(|pattern| pattern_allows(pattern, remote))
}

/// Whether patterns allow a host that a plan asks for (`host` or `host:port`).
pub(crate) fn allows_request(patterns: &[String], requested: &str) -> bool {
    let requested = requested.trim().to_ascii_lowercase();
    let Some((host, port)) = split_port(&requested) else { return false };
    let remote = |https, port| Remote { https, host: host.to_owned(), port };
    match port {
        None | Some(443) => allows(patterns, &remote(true, None)),
        Some(80) => allows(patterns, &remote(false, None)),
        Some(port) => allows(patterns, &remote(true, Some(port))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, address, want) in [
            ("example.org", "https://example.org/", true),
            ("example.org", "http://example.org/", true),
            ("example.org", "https://example.org:8443/", false),
            ("example.org:8080", "http://example.org:8080/", true),
            ("*.example.org", "https://a.b.example.org/", true),
            ("*.example.org", "https://example.org/", false),
            ("*.example.org", "https://evilexample.org/", false),
            ("example.org", "https://evil-example.org/", false),
            ("EXAMPLE.org", "HTTPS://Example.ORG/", true),
            ("[::1]:8080", "http://[::1]:8080/", true),
            ("", "https://example.org/", false),
            ("*", "https://example.org/", false),
        ] {
            let remote = absolute(address).unwrap();
            assert_eq!(pattern_allows(pattern, &remote), want, "{pattern} {address}");
        }
        let patterns = ["example.org".to_owned()];
        for (requested, want) in [
            ("example.org", true),
            ("example.org:443", true),
            ("example.org:81", false),
            ("", false),
        ] {
            assert_eq!(allows_request(&patterns, requested), want, "{requested}");
        }
    }
}
