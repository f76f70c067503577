//! Hosts and paths of a network connection, as rules name them.

use std::borrow::Cow;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Ports of a host that a group names without one: the web's.
pub(crate) const WEB_PORTS: [u16; 2] = [80, 443];

/// Names under which registries of countries register others.
const SECOND_LEVEL: &[&str] =
    &["ac", "co", "com", "edu", "gob", "gov", "gv", "ltd", "mil", "ne", "net", "nom", "or", "org"];

/// Domains below which anybody may have a host. No list of them is complete; these are the ones that
/// data was seen to leave by.
const SHARED: &[&str] = &[
    "amazonaws.com",
    "appspot.com",
    "azurewebsites.net",
    "blogspot.com",
    "cloudfront.net",
    "firebaseapp.com",
    "fly.dev",
    "github.io",
    "gitlab.io",
    "herokuapp.com",
    "netlify.app",
    "ngrok-free.app",
    "ngrok.io",
    "onrender.com",
    "pages.dev",
    "r2.dev",
    "s3.amazonaws.com",
    "trycloudflare.com",
    "vercel.app",
    "web.app",
    "workers.dev",
];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HostPattern {
    Any,
    Exact(Box<str>),
    /// `*.example.org`, kept as `.example.org`: hosts below it, not itself.
    Below(Box<str>),
}

impl HostPattern {
    /// A name that a resolver of old reads as an address, in a spelling that no connection is decided by.
    pub(crate) fn misspelt_address(&self) -> Option<&str> {
        let Self::Exact(name) = self else { return None };
        let is_number = |label: &str| {
            let hex = label.strip_prefix("0x").filter(|hex| !hex.is_empty());
            let digits = hex.unwrap_or(label).bytes();
            !label.is_empty()
                && digits
                    .clone()
                    .all(|b| if hex.is_some() { b.is_ascii_hexdigit() } else { b.is_ascii_digit() })
        };
        let is_numeric = name.split('.').count() <= 4 && name.split('.').all(is_number);
        (is_numeric && name.parse::<Ipv4Addr>().is_err()).then_some(name)
    }

    /// Reads `host`, `*.host` or `*`, in any case, with or without the trailing dot.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let lower = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let (below, name) = match lower.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, &*lower),
        };
        let name_ok = !name.is_empty()
            && name.split('.').all(|label| {
                !label.is_empty()
                    && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            });
        // An IPv6 literal is the one name with colons.
        if !name_ok && (below || name.parse::<Ipv6Addr>().is_err()) {
            return Err(format!(
                "`{text}` is no host name; write `example.org`, `*.example.org` or `*`, without \
                 scheme, port or path"
            ));
        }
        let name = canonical_address(name);
        Ok(if below {
            Self::Below(format!(".{name}").into())
        } else {
            Self::Exact(name.as_ref().into())
        })
    }

    /// Why a rule that opens something may not be written with this pattern.
    pub(crate) fn too_wide(&self) -> Option<&'static str> {
        let Self::Below(suffix) = self else {
            return matches!(self, Self::Any).then_some("it matches every host there is");
        };
        let name = suffix.trim_start_matches('.');
        let mut labels = name.rsplit('.');
        let (last, second) = (labels.next().unwrap_or_default(), labels.next());
        if last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some("nothing is below an address");
        }
        let Some(second) = second else { return Some("it matches a whole top-level domain") };
        let registry = last.len() == 2 && labels.next().is_none() && SECOND_LEVEL.contains(&second);
        (registry || SHARED.contains(&name)).then_some("anybody may have a host below it")
    }

    pub(crate) fn matches(&self, host: &str) -> bool {
        let host = canonical_address(host.strip_suffix('.').unwrap_or(host));
        match self {
            Self::Any => true,
            Self::Exact(name) => name.eq_ignore_ascii_case(&host),
            Self::Below(suffix) => host
                .len()
                .checked_sub(suffix.len())
                .and_then(|at| host.get(at..).filter(|_| at > 0))
                .is_some_and(|end| end.eq_ignore_ascii_case(suffix)),
        }
    }
}

/// A host in the spelling of [`HostPattern::Exact`].
pub(crate) fn canonical_host(host: &str) -> String {
    canonical_address(host.strip_suffix('.').unwrap_or(host)).to_ascii_lowercase()
}

/// An IPv6 address in its usual notation, or the IPv4 address that it stands for; any other host as it is.
fn canonical_address(host: &str) -> Cow<'_, str> {
    if !host.as_bytes().contains(&b':') {
        return Cow::Borrowed(host);
    }
    match host.parse::<Ipv6Addr>() {
        Ok(address) => Cow::Owned(address.to_canonical().to_string()),
        Err(_) => Cow::Borrowed(host),
    }
}

/// The host of a call, as a person writes it.
pub(crate) fn host_of_call(text: &str) -> Result<String, String> {
    let pattern = HostPattern::parse(text)?;
    match (&pattern, pattern.misspelt_address()) {
        (HostPattern::Exact(name), None) => Ok(name.to_string()),
        (_, Some(_)) => Err(format!("`{text}` is an address in a spelling that no connection has")),
        _ => Err(format!("`{text}` is a pattern; a call goes to one host")),
    }
}

/// `/exact/path`, or `/prefix/*`; what is written with `%` is the character that it stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HttpPathPattern {
    /// As servers read it.
    path: Box<[u8]>,
    /// As written, without the `*`.
    text: Box<str>,
    prefix: bool,
}

impl HttpPathPattern {
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (path, prefix) = match text.strip_suffix('*') {
            Some(path) => (path, true),
            None => (text, false),
        };
        if !path.starts_with('/') || path.contains(['*', '?', '#']) || path.contains("//") {
            return Err("a path begins with `/` and is written plainly, with one `*` at its end \
                        for all that begins so; a query is never looked at");
        }
        if !escapes_are_whole(path) {
            return Err("`%` is followed by the two digits of a character, as in `/a%20b`");
        }
        Ok(Self { path: plain(path).into(), text: path.into(), prefix })
    }

    /// The pattern that matches this path, however it is spelt, and no other. What is no path of a resource
    /// (`OPTIONS *`) has none; the answer matches nothing then.
    pub(crate) fn literal(path: &str) -> String {
        let mut out = if path.starts_with('/') { String::new() } else { "/".to_owned() };
        for byte in plain(path) {
            match byte {
                b'*' | b'?' | b'#' | b'%' | 0..=b' ' | 0x7f.. => {
                    out.push_str(&format!("%{byte:02X}"))
                }
                plain => out.push(char::from(plain)),
            }
        }
        out
    }

    /// Whether this matches everything that another does.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self.prefix, other.prefix) {
            (true, _) => other.path.starts_with(&self.path),
            (false, true) => false,
            (false, false) => self.path == other.path,
        }
    }

    /// A path that this matches.
    pub(crate) fn example(&self) -> &str {
        &self.text
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        let path = plain(path);
        match self.prefix {
            true => path.starts_with(&self.path),
            false => *path == *self.path,
        }
    }
}

/// Whether each `%` stands before two digits.
fn escapes_are_whole(path: &str) -> bool {
    path.split('%').skip(1).all(|rest| {
        let mut digits = rest.bytes();
        (0..2).all(|_| digits.next().is_some_and(|byte| byte.is_ascii_hexdigit()))
    })
}

/// A path as servers read it: escapes resolved, repeated slashes one.
fn plain(path: &str) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    let bytes = path.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digit = |at: usize| bytes.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let escaped = match (byte, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => u8::try_from(high * 16 + low).ok(),
            _ => None,
        };
        at += if escaped.is_some() { 3 } else { 1 };
        let byte = escaped.unwrap_or(*byte);
        if byte != b'/' || out.last() != Some(&b'/') {
            out.push(byte);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            let parsed = HostPattern::parse(pattern).unwrap();
            for host in yes {
                assert!(parsed.matches(host), "{pattern} should match {host}");
            }
            for host in no {
                assert!(!parsed.matches(host), "{pattern} should not match {host}");
            }
        };
        check(
            "Example.ORG.",
            &["example.org", "EXAMPLE.org", "example.org."],
            &["a.example.org", "xexample.org"],
        );
        check(
            "*.example.org",
            &["a.example.org", "a.b.example.org"],
            &["example.org", ".example.org", "aexample.org"],
        );
        check("*", &["anything"], &[]);
        check("::1", &["::1"], &["::2"]);
        let spellings = [
            "2001:db8::1",
            "2001:DB8::1",
            "2001:db8:0:0::1",
            "2001:0db8:0000:0000:0000:0000:0000:0001",
            "2001:db8:0:0:0:0:0.0.0.1",
        ];
        let mapped =
            ["192.0.2.1", "::ffff:192.0.2.1", "::FFFF:c000:201", "0:0:0:0:0:ffff:c000:0201"];
        for same in [&spellings[..], &mapped[..]] {
            for pattern in same {
                check(pattern, same, &["2001:db8::2", "::ffff:192.0.2.2", "192.0.2.10", "a.test"]);
                assert_eq!(canonical_host(pattern), same[0]);
            }
        }
        check("::192.0.2.1", &["::c000:201"], &mapped);
        for bad in [
            "",
            "http://a.org",
            "a.org/x",
            "a.org:443",
            "*.*.org",
            "a*.org",
            "a..org",
            "*.",
            "fe80::1%eth0",
            "fe80::1%1",
            "[::1]",
            "*.::1",
            "::1::",
            "1:2:3",
        ] {
            assert!(HostPattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_host_of_a_call_is_one() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(host_of_call(text).ok().as_deref(), expected, "{text:?}");
        };
        check("Docs.Example.ORG.", Some("docs.example.org"));
        check("192.0.2.1", Some("192.0.2.1"));
        check("2001:db8:0:0::1", Some("2001:db8::1"));
        check("::ffff:192.0.2.1", Some("192.0.2.1"));
        check("xn--bcher-kva.example", Some("xn--bcher-kva.example"));
        for none in [
            "",
            ".",
            "a.org..",
            "x@evil.example.org",
            " evil.example.org",
            "evil.example.org ",
            "evil.example.org\n",
            "evil.example.org\0.example.org",
            "evil.example.org:443",
            "evil.example.org/x",
            "evil.example.org#.example.org",
            "evil.example.org%2eexample.org",
            "b\u{fc}cher.example",
            "*.example.org",
            "*",
            "[::1]",
            "fe80::1%eth0",
            "127.1",
            "0x7f.1",
            "2130706433",
        ] {
            check(none, None);
        }
    }

    #[test]
    fn patterns_that_open_hosts_of_others() {
        let check = |pattern: &str, expected: bool| {
            let found = HostPattern::parse(pattern).unwrap().too_wide();
            assert_eq!(found.is_some(), expected, "{pattern}: {found:?}");
        };
        for wide in ["*", "*.com", "*.org.", "*.co.uk", "*.com.au", "*.github.io", "*.GitHub.io"] {
            check(wide, true);
        }
        check("*.0.0.1", true);
        for narrow in ["com", "github.io", "a.co.uk", "*.a.co.uk", "*.a.github.io", "*.a.com"] {
            check(narrow, false);
        }
        check("*.org.example", false);
    }

    #[test]
    fn paths() {
        let check = |pattern: &str, path: &str, expected: bool| {
            let found = HttpPathPattern::parse(pattern).unwrap().matches(path);
            assert_eq!(found, expected, "{pattern} {path}");
        };
        check("/a", "/a", true);
        check("/a", "/a/", false);
        check("/a", "/%61", true);
        check("/a/*", "/a/", true);
        check("/a/*", "/a", false);
        check("/a/*", "//a///b", true);
        check("/a/*", "/%61%2fb", true);
        check("/a/*", "/A/b", false);
        check("/*", "/", true);
        check("/a", "/a%", false);
        check("/a%20b", "/a b", true);
        check("/%61", "/a", true);
        check("/a%2A", "/a*", true);
        check("/a%2A", "/ab", false);
        check("/a%20*", "/a%20b", true);
        check("/a%20*", "/ab", false);
        for bad in ["", "a", "*", "/a*b", "/a?b", "/%6", "/a%", "/%zz", "/%+1", "//a"] {
            assert!(HttpPathPattern::parse(bad).is_err(), "{bad}");
        }
    }

    /// The failure: a path that no pattern could say made a rule for the whole host.
    #[test]
    fn every_path_has_a_pattern_of_its_own() {
        let check = |path: &str, pattern: &str| {
            assert_eq!(HttpPathPattern::literal(path), pattern, "{path}");
            let parsed = HttpPathPattern::parse(pattern).unwrap();
            assert!(parsed.matches(path), "{path}");
            for other in ["/", "/upload", "/a", "/a/*", &format!("{path}x")] {
                assert!(!parsed.matches(other) || other == path, "{path} {other}");
            }
        };
        check("/a", "/a");
        check("/a%20b", "/a%20b");
        check("/a//b", "/a/b");
        check("/a*", "/a%2A");
        check("/*", "/%2A");
        check("/a%", "/a%25");
        check("/a%3Fb", "/a%3Fb");
        check("/%ff%00", "/%FF%00");
        check("/ä", "/%C3%A4");
    }
}
