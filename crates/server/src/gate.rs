//! What a request must be before anybody looks at what it asks: for this host, and from no foreign page.
//!
//! A browser lets any page send requests to loopback. A page of another site gives itself away by its
//! `Origin` (or `Sec-Fetch-Site`); one that made its own name point here gives itself away by `Host`.

use std::net::SocketAddr;

use hyper::Uri;
use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN};

use crate::{Error, Result, codes};

/// Names of this machine for itself.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// What a browser says of where a request comes from.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The hosts and origins that a server answers.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    hosts: Vec<String>,
}

impl Gate {
    /// For a server on a loopback address.
    pub(crate) fn of_loopback(address: SocketAddr) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> =
            LOOPBACK_NAMES.iter().map(|name| format!("{name}:{port}")).collect();
        hosts.push(address.to_string());
        // A port that the scheme implies is left out by clients.
        if port == 80 {
            hosts.extend(LOOPBACK_NAMES.iter().map(|name| (*name).to_owned()));
        }
        Self { hosts }
    }

    /// Lets a request pass, or not.
    ///
    /// # Errors
    /// `host_refused`, `origin_refused`.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        let refused =
            |why: &str| Error::new(codes::HOST_REFUSED, "the request is for another host").why(why);
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let host = host.ok_or_else(|| refused("it names no host"))?;
        if hosts.next().is_some() || uri.authority().is_some_and(|named| named.as_str() != host) {
            return Err(refused("it names two hosts"));
        }
        if !self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
            return Err(refused("the server is not known by that name"));
        }
        self.check_origin(headers)
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<()> {
        let refused = |why: &str| {
            Error::new(codes::ORIGIN_REFUSED, "the request comes from another site").why(why)
        };
        for origin in headers.get_all(ORIGIN) {
            let host = origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://"));
            let known = |host: &str| self.hosts.iter().any(|one| one.eq_ignore_ascii_case(host));
            if !host.is_some_and(known) {
                return Err(refused("its origin is not this server"));
            }
        }
        let is_own = |site: &[u8]| matches!(site, b"same-origin" | b"none");
        match headers.get_all(SEC_FETCH_SITE).iter().all(|site| is_own(site.as_bytes())) {
            true => Ok(()),
            false => Err(refused("the browser says so")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_host_and_its_own_pages_pass() {
        let gate = Gate::of_loopback("127.0.0.1:4000".parse().unwrap());
        let check = |uri: &str, headers: &[(&str, &str)], expected: Option<&str>| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                map.append(name, value.parse().unwrap());
            }
            let found = gate.check(&uri.parse().unwrap(), &map).err().map(|error| error.code());
            assert_eq!(found, expected, "{uri} {headers:?}");
        };
        let host = ("host", "127.0.0.1:4000");
        check("/v1/health", &[host], None);
        check("/v1/health", &[("host", "localhost:4000")], None);
        check("/v1/health", &[("host", "LOCALHOST:4000")], None);
        check("/v1/health", &[("host", "[::1]:4000")], None);
        check("http://127.0.0.1:4000/v1/health", &[host], None);
        // A name that somebody made point here.
        check("/v1/health", &[("host", "evil.example:4000")], Some("host_refused"));
        check("/v1/health", &[("host", "127.0.0.1")], Some("host_refused"));
        check("/v1/health", &[("host", "127.0.0.1:4001")], Some("host_refused"));
        check("/v1/health", &[("host", "localhost.evil.example:4000")], Some("host_refused"));
        check("/v1/health", &[], Some("host_refused"));
        check("/v1/health", &[host, ("host", "evil.example")], Some("host_refused"));
        check("http://evil.example/v1/health", &[host], Some("host_refused"));
        // A page of another site.
        check("/v1/x", &[host, ("origin", "http://127.0.0.1:4000")], None);
        check("/v1/x", &[host, ("origin", "http://localhost:4000")], None);
        check("/v1/x", &[host, ("origin", "https://evil.example")], Some("origin_refused"));
        check("/v1/x", &[host, ("origin", "http://localhost:4001")], Some("origin_refused"));
        check("/v1/x", &[host, ("origin", "null")], Some("origin_refused"));
        check("/v1/x", &[host, ("sec-fetch-site", "same-origin")], None);
        check("/v1/x", &[host, ("sec-fetch-site", "none")], None);
        check("/v1/x", &[host, ("sec-fetch-site", "cross-site")], Some("origin_refused"));
        check("/v1/x", &[host, ("sec-fetch-site", "same-site")], Some("origin_refused"));
        let own = ("sec-fetch-site", "same-origin");
        check("/v1/x", &[host, own, ("sec-fetch-site", "cross-site")], Some("origin_refused"));
    }
}
