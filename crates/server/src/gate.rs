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
    scheme: &'static str,
}

impl Gate {
    /// For a server on an address that has other names, too. This machine's names for itself count where
    /// only this machine can reach it.
    pub(crate) fn new(address: SocketAddr, names: &[String], scheme: &'static str) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> = Vec::new();
        if address.ip().is_loopback() {
            hosts.extend(LOOPBACK_NAMES.iter().map(|name| format!("{name}:{port}")));
        }
        hosts.push(address.to_string());
        hosts.extend(names.iter().cloned());
        // A port that the scheme implies is left out by clients.
        let implied = if scheme == "https" { ":443" } else { ":80" };
        let bare: Vec<_> =
            hosts.iter().filter_map(|host| host.strip_suffix(implied)).map(str::to_owned).collect();
        hosts.extend(bare);
        Self { hosts, scheme }
    }

    /// Lets a request pass, or not.
    ///
    /// # Errors
    /// `host_refused`, `origin_refused`.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        let refused =
            |why: &str| Error::new(codes::HOST_REFUSED, "the request is for another host").why(why);
        let mut hosts = headers.get_all(HOST).iter();
        let named = hosts.next().map(|host| host.to_str().unwrap_or_default());
        // HTTP/2 says it in the address.
        let authority = uri.authority().map(hyper::http::uri::Authority::as_str);
        let host = named.or(authority).ok_or_else(|| refused("it names no host"))?;
        if hosts.next().is_some() || authority.is_some_and(|authority| authority != host) {
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
            let host = origin.to_str().ok().and_then(|origin| origin.strip_prefix(self.scheme));
            let host = host.and_then(|rest| rest.strip_prefix("://"));
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
        let gate = Gate::new("127.0.0.1:4000".parse().unwrap(), &[], "http");
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
        // As HTTP/2 names it.
        check("http://127.0.0.1:4000/v1/health", &[], None);
        check("http://evil.example/v1/health", &[], Some("host_refused"));
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

    #[test]
    fn where_others_reach_it_only_its_names_are_it() {
        let names = ["glass.example".to_owned(), "glass.example:8443".to_owned()];
        let check = |address: &str, scheme, host: &str, origin: Option<&str>, passes: bool| {
            let gate = Gate::new(address.parse().unwrap(), &names, scheme);
            let mut map = HeaderMap::new();
            map.append(HOST, host.parse().unwrap());
            origin.iter().for_each(|origin| {
                map.append(ORIGIN, origin.parse().unwrap());
            });
            let passed = gate.check(&"/v1/x".parse().unwrap(), &map).is_ok();
            assert_eq!(passed, passes, "{address} {host} {origin:?}");
        };
        check("192.0.2.1:443", "https", "glass.example", None, true);
        check("192.0.2.1:443", "https", "192.0.2.1", None, true);
        check("192.0.2.1:443", "https", "192.0.2.1:443", None, true);
        check("192.0.2.1:443", "https", "glass.example", Some("https://glass.example"), true);
        check("192.0.2.1:443", "https", "glass.example", Some("http://glass.example"), false);
        check("192.0.2.1:443", "https", "glass.example", Some("httpss://glass.example"), false);
        check("192.0.2.1:443", "https", "localhost", None, false);
        check("192.0.2.1:443", "https", "localhost:443", None, false);
        check("127.0.0.1:443", "https", "localhost", None, true);
        check("192.0.2.1:8443", "https", "glass.example:8443", None, true);
        check("192.0.2.1:8443", "https", "192.0.2.1", None, false);
    }
}
