//! Hosts named one by one on a command line.

use super::address::is_public;
use super::host::parse_authority;
use super::{Denial, EgressRequest, EgressVerdict, Host};
use crate::{Error, Result, codes};

/// Ports of a host that is named without one: the web's.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Fewest labels behind `*.`: with one the pattern would be a whole top-level domain.
const MIN_WILDCARD_LABELS: usize = 2;

/// Lets through what it was given and nothing else. Not a gate by itself: who has one also records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    host: Pattern,
    /// `None` stands for the web's ports.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Exact(Host),
    /// Hosts below this one, not itself.
    Below(String),
}

impl AllowList {
    /// Reads entries `HOST`, `HOST:PORT`, `*.HOST` and `*.HOST:PORT`.
    ///
    /// ```
    /// use glasshouse_sandbox::egress::AllowList;
    /// assert!(AllowList::parse(["docs.example.org", "*.cdn.example.org:443"]).is_ok());
    /// assert!(AllowList::parse(["*.org"]).is_err());
    /// ```
    ///
    /// # Errors
    /// `egress_invalid` for what is no host, a pattern that would be a whole top-level domain, and
    /// an address that is never reached anyway.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        let entries = texts.into_iter().map(|text| {
            parse_entry(text).map_err(|why| {
                Error::new(codes::EGRESS_INVALID, format!("cannot allow `{}`", text.escape_debug()))
                    .why(why)
                    .with("host", text)
            })
        });
        Ok(Self { entries: entries.collect::<Result<_>>()? })
    }
}

fn parse_entry(text: &str) -> std::result::Result<Entry, &'static str> {
    let (below, text) = match text.strip_prefix("*.") {
        Some(text) => (true, text),
        None => (false, text),
    };
    if text.contains('*') {
        return Err("`*` stands for the labels before a host, as in `*.example.org`");
    }
    // The second reading only differs when there is no port.
    let has_port = parse_authority(text, None).is_ok();
    let (host, port) = parse_authority(text, Some(1)).map_err(|denial| match denial {
        Denial::IpLiteral => "addresses are written in their usual notation",
        _ => "it is no host name with an optional port",
    })?;
    let host = match host {
        Host::Address(_) if below => return Err("nothing is below an address"),
        Host::Address(address) if !is_public(address) => {
            return Err("only addresses of the public Internet can be reached");
        }
        Host::Name(name) if below && name.split('.').count() < MIN_WILDCARD_LABELS => {
            return Err("the pattern would be a whole top-level domain");
        }
        Host::Name(name) if below => Pattern::Below(name),
        host => Pattern::Exact(host),
    };
    Ok(Entry { host, port: has_port.then_some(port) })
}

impl Pattern {
    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(listed), host) => listed == host,
            (Self::Below(parent), Host::Name(name)) => name
                .strip_suffix(&**parent)
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|rest| !rest.is_empty()),
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

impl AllowList {
    /// Whether a request may go out: its host is listed, with its port.
    #[must_use]
    pub fn decide(&self, request: &EgressRequest) -> EgressVerdict {
        let allows = |entry: &Entry| {
            entry.host.matches(&request.host)
                && entry
                    .port
                    .map_or_else(|| WEB_PORTS.contains(&request.port), |port| port == request.port)
        };
        if self.entries.iter().any(allows) { EgressVerdict::Allow } else { EgressVerdict::Deny }
    }

    /// What the entries say: a host, with `*.` before it for all below it, and its ports.
    pub fn entries(&self) -> impl Iterator<Item = (String, Vec<u16>)> {
        self.entries.iter().map(|entry| {
            let host = match &entry.host {
                Pattern::Exact(Host::Address(address)) => address.to_string(),
                Pattern::Exact(Host::Name(name)) => name.clone(),
                Pattern::Below(parent) => format!("*.{parent}"),
            };
            (host, entry.port.map_or_else(|| WEB_PORTS.to_vec(), |port| vec![port]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_would_open_too_much_are_refused() {
        let check = |text: &str, ok: bool| {
            let found = AllowList::parse([text]);
            assert_eq!(found.is_ok(), ok, "{text}: {found:?}");
        };
        for good in [
            "a.test",
            "A.Test.",
            "localhost",
            "a.test:8443",
            "*.a.test",
            "*.a.test:443",
            "1.1.1.1",
            "1.1.1.1:53",
            "[2606:4700::1111]:443",
            "xn--bcher-kva.test",
        ] {
            check(good, true);
        }
        for bad in [
            "",
            "*",
            "*.",
            "*.com",
            "*.com.",
            "*:443",
            "a.*.test",
            "**.a.test",
            "*a.test",
            "a.test:",
            "a.test:0",
            "a.test:65536",
            "http://a.test",
            "a.test/x",
            "b@a.test",
            "bücher.test",
            "127.0.0.1",
            "127.1",
            "10.0.0.1:80",
            "[::1]",
            "169.254.169.254",
            "*.1.1.1.1",
        ] {
            check(bad, false);
        }
    }

    #[test]
    fn only_what_is_listed_passes() {
        let list = AllowList::parse(["a.test", "b.test:8443", "*.c.test", "1.1.1.1"]).unwrap();
        let check = |host: &str, port: u16, expected: bool| {
            let host = Host::parse(host).unwrap();
            let request =
                EgressRequest { host, port, method: "GET".into(), path: None, tls: false };
            assert_eq!(list.decide(&request) == EgressVerdict::Allow, expected, "{request:?}");
        };
        check("a.test", 80, true);
        check("A.TEST.", 443, true);
        check("a.test", 22, false);
        check("x.a.test", 443, false);
        check("b.test", 8443, true);
        check("b.test", 443, false);
        check("x.c.test", 443, true);
        check("y.x.c.test", 443, true);
        check("c.test", 443, false);
        check("xc.test", 443, false);
        check("d.test", 443, false);
        check("1.1.1.1", 443, true);
        check("1.1.1.2", 443, false);
        let entries: Vec<_> = list.entries().map(|(host, ports)| (host, ports.len())).collect();
        let expected = [("a.test", 2), ("b.test", 1), ("*.c.test", 2), ("1.1.1.1", 2)];
        assert_eq!(entries, expected.map(|(host, ports)| (host.to_owned(), ports)));
    }
}
