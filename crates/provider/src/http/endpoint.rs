//! Where a server is, and whether it may be asked without encryption.

use std::net::{IpAddr, Ipv6Addr};

use hyper::Uri;

use crate::{Error, codes};

/// A parsed base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Whether to speak TLS.
    pub(crate) secure: bool,
    /// Name or address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Host and port as the `Host` header has them; also how messages name the server.
    pub(crate) authority: String,
    /// Path of the base URL, without a slash at its end.
    pub(crate) path: String,
}

impl Endpoint {
    /// Reads a base URL such as `https://api.example.com/v1`; `operation` is taken off its end.
    ///
    /// # Errors
    /// `provider_config` saying what is wrong; user names and queries are refused because they are
    /// where keys hide in URLs, and URLs get logged.
    pub(crate) fn parse(base_url: &str, operation: &str) -> Result<Self, Error> {
        let refuse = |why: &str| {
            // The URL itself is not quoted: it may hold a password.
            Err(Error::new(codes::PROVIDER_CONFIG, "unusable base URL").why(why))
        };
        if base_url.contains('#') {
            return refuse("it holds a `#`");
        }
        let Ok(uri) = base_url.trim().parse::<Uri>() else { return refuse("it is not a URL") };
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return refuse("it does not start with https:// or http://"),
        };
        let Some(authority) = uri.authority() else { return refuse("it names no host") };
        if authority.as_str().contains('@') {
            return refuse("it holds a user name; give the key apart from the URL");
        }
        if uri.query().is_some() {
            return refuse("it holds a `?`; give the key apart from the URL");
        }
        let port_text = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
        let port = match port_text.strip_prefix(':').map(str::parse) {
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return refuse("its port is not a number from 1 to 65535"),
            None if secure => 443,
            None => 80,
        };
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return refuse("it names no host");
        }
        let path = uri.path().trim_end_matches('/');
        let path = path.strip_suffix(operation).unwrap_or(path);
        Ok(Self {
            secure,
            host: host.to_ascii_lowercase(),
            port,
            authority: authority.as_str().to_ascii_lowercase(),
            path: path.to_owned(),
        })
    }

    /// Refuses an address literal that [`is_private`] does not cover; names are judged by what
    /// they resolve to when a connection is made.
    pub(crate) fn is_public_literal(&self) -> bool {
        self.host.parse().is_ok_and(|address| !is_private(address))
    }

    /// The error of an unencrypted request to a public address.
    pub(crate) fn insecure(&self) -> Error {
        Error::new(
            codes::PROVIDER_INSECURE,
            format!("{} would be asked without encryption", self.authority),
        )
        .why("http:// is only for this machine and private networks; the address is public")
    }
}

/// Whether an address is this machine's or a private network's. Link-local addresses do not count:
/// that is where clouds serve their credentials, not where models run.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_unspecified(),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_private(IpAddr::V4(v4)),
            None => v6.is_loopback() || v6 == Ipv6Addr::UNSPECIFIED || v6.is_unique_local(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_urls() {
        let check = |url: &str, expected: Option<(bool, &str, u16, &str)>| {
            let got = Endpoint::parse(url, "/chat/completions");
            let parts =
                got.as_ref().ok().map(|e| (e.secure, e.host.as_str(), e.port, e.path.as_str()));
            assert_eq!(parts, expected, "{url}");
            if let Err(error) = got {
                assert!(error.is(codes::PROVIDER_CONFIG));
                assert!(!error.to_string().contains("secret"), "{error}");
            }
        };
        check("https://api.example.com/v1", Some((true, "api.example.com", 443, "/v1")));
        check("https://API.example.com/v1/", Some((true, "api.example.com", 443, "/v1")));
        check("http://localhost:11434", Some((false, "localhost", 11434, "")));
        check("http://[::1]:8080/v1", Some((false, "::1", 8080, "/v1")));
        check("http://127.0.0.1/v1/chat/completions", Some((false, "127.0.0.1", 80, "/v1")));
        for bad in [
            "",
            "localhost:8080",
            "api.example.com/v1",
            "ftp://a/",
            "https://",
            "https:///v1",
            "https://u:secret@a.example/v1",
            "https://a.example/v1?key=secret",
            "https://a.example/v1#secret",
            "https://a.example:99999/v1",
            "https://a.example:0/v1",
            "https://a.example:/v1",
            "https://:443/v1",
            "https://a b/v1",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn private_addresses() {
        let check = |address: &str, expected: bool| {
            assert_eq!(is_private(address.parse().unwrap()), expected, "{address}");
        };
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "0.0.0.0",
            "::1",
            "::",
            "fd12::1",
            "::ffff:10.0.0.1",
        ] {
            check(address, true);
        }
        for address in [
            "8.8.8.8",
            "172.32.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.169.0.1",
            "2001:db8::1",
            "fe80::1",
            "::ffff:8.8.8.8",
        ] {
            check(address, false);
        }
    }
}
