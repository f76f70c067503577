//! Secrets that the sandbox uses without having them.
//!
//! Inside there is only a placeholder, `glasshouse-secret:NAME`. In a header of a request to the
//! host that the secret belongs to, the proxy puts the value in its place and speaks TLS to that
//! host. Anywhere else the placeholder stays what it is: text.

use std::collections::BTreeSet;
use std::fmt;

use zeroize::Zeroizing;

use super::head::{RequestHead, Target};
use super::{Denial, Host};
use crate::{Error, Result, codes};

/// What a placeholder begins with.
pub const PLACEHOLDER: &str = "glasshouse-secret:";

/// Shorter values would be found in answers by chance and masked there.
const MIN_VALUE_BYTES: usize = 8;
const MAX_VALUE_BYTES: usize = 4096;

/// A secret and the one host that may have it.
#[derive(Clone)]
pub struct BoundSecret {
    name: String,
    host: Host,
    port: u16,
    value: Zeroizing<String>,
}

impl BoundSecret {
    /// Binds a value to a host and its TLS port.
    ///
    /// # Errors
    /// `egress_invalid` for a name that no placeholder can hold, a host that is no name, and a
    /// value that is too short, too long, or no header can hold.
    pub fn new(name: &str, host: &str, port: u16, value: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Err(Error::new(codes::EGRESS_INVALID, format!("secret `{}`", name.escape_debug()))
                .why(why)
                .with("secret", name))
        };
        if name.is_empty() || !name.bytes().all(is_name) {
            return refuse("a name is letters, digits, `-` and `_`");
        }
        let host = match Host::parse(host) {
            Ok(host @ Host::Name(_)) if port > 0 => host,
            _ => return refuse("a secret belongs to a host name and a port"),
        };
        if !(MIN_VALUE_BYTES..=MAX_VALUE_BYTES).contains(&value.len()) {
            return refuse("a value has 8 to 4096 bytes");
        }
        if !value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
            return refuse("a value is printable ASCII, as headers are");
        }
        Ok(Self { name: name.to_owned(), host, port, value: Zeroizing::new(value.to_owned()) })
    }

    fn fits(&self, head: &RequestHead) -> bool {
        self.host == head.host && (head.port == 80 || head.port == self.port)
    }
}

impl fmt::Debug for BoundSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BoundSecret({} for {}:{})", self.name, self.host, self.port)
    }
}

/// What becomes of the placeholders of one request.
#[derive(Debug, Default)]
pub(crate) struct Use<'a> {
    /// Put in; all of one host and port.
    pub(crate) put_in: Vec<&'a BoundSecret>,
    /// Left as text, and told of.
    pub(crate) misused: bool,
}

impl<'a> Use<'a> {
    /// Finds the placeholders of known secrets in a request.
    pub(crate) fn of(secrets: &'a [BoundSecret], head: &RequestHead) -> Self {
        let mut named = BTreeSet::new();
        for (_, value) in &head.headers {
            named.extend(placeholders(value).into_iter().map(|(_, name)| name));
        }
        let mut found = Self::default();
        for secret in secrets.iter().filter(|secret| named.contains(&secret.name)) {
            let one_port = found.put_in.first().is_none_or(|first| first.port == secret.port);
            if secret.fits(head) && one_port {
                found.put_in.push(secret);
            } else {
                found.misused = true;
            }
        }
        if let Target::Resource(rest) = &head.target {
            let in_target = placeholders(rest.as_bytes());
            found.misused |=
                secrets.iter().any(|secret| in_target.iter().any(|(_, name)| *name == secret.name));
        }
        found
    }

    /// Puts the values into the headers and turns the request to the TLS port.
    pub(crate) fn fill(&self, head: &mut RequestHead) {
        let Some(first) = self.put_in.first() else { return };
        (head.port, head.default_port) = (first.port, 443);
        for (_, value) in &mut head.headers {
            for (at, name) in placeholders(value).into_iter().rev() {
                if let Some(secret) = self.put_in.iter().find(|secret| secret.name == name) {
                    let end = at + PLACEHOLDER.len() + name.len();
                    value.splice(at..end, secret.value.bytes());
                }
            }
        }
        // In a compressed answer an echo of the value could not be seen.
        head.headers.retain(|(name, _)| name != "accept-encoding");
        head.headers.push(("accept-encoding".to_owned(), b"identity".to_vec()));
    }

    /// What must not come back.
    pub(crate) fn mask(&self) -> Mask {
        Mask::new(self.put_in.iter().map(|secret| secret.value.as_bytes().to_vec()).collect())
    }

    pub(crate) fn denial(&self) -> Option<Denial> {
        self.misused.then_some(Denial::SecretMisuse)
    }
}

/// Places and names of the placeholders in a text.
fn placeholders(text: &[u8]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(next) = find(&text[at..], PLACEHOLDER.as_bytes()) {
        let name: Vec<u8> = text[at + next + PLACEHOLDER.len()..]
            .iter()
            .copied()
            .take_while(|byte| is_name(*byte))
            .collect();
        found.push((at + next, String::from_utf8_lossy(&name).into_owned()));
        at += next + PLACEHOLDER.len() + name.len();
    }
    found
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Replaces values in a stream by stars, as many as the value has bytes, so that lengths stay
/// true. What could be the beginning of a value waits for what follows.
pub(crate) struct Mask {
    values: Vec<Zeroizing<Vec<u8>>>,
    held: Vec<u8>,
}

impl Mask {
    pub(crate) fn new(mut values: Vec<Vec<u8>>) -> Self {
        // The longest first: one value may be a part of another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values: values.into_iter().map(Zeroizing::new).collect(), held: Vec::new() }
    }

    /// Takes bytes and answers what may pass by now.
    pub(crate) fn pass(&mut self, bytes: &[u8]) -> Vec<u8> {
        if self.values.is_empty() {
            return bytes.to_vec();
        }
        self.held.extend_from_slice(bytes);
        for value in &self.values {
            while let Some(at) = find(&self.held, value) {
                self.held[at..at + value.len()].fill(b'*');
            }
        }
        let waits = |length: &usize| {
            let tail = &self.held[self.held.len() - length..];
            self.values.iter().any(|value| value.len() > *length && value.starts_with(tail))
        };
        let longest = self.values.iter().map(|value| value.len()).max().unwrap_or(0);
        let held = (1..longest.min(self.held.len() + 1)).rev().find(waits).unwrap_or(0);
        let rest = self.held.split_off(self.held.len() - held);
        std::mem::replace(&mut self.held, rest)
    }

    /// What waited, when nothing follows.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_a_header_or_a_mask_cannot_hold_are_refused() {
        let check = |name: &str, host: &str, port: u16, value: &str, ok: bool| {
            let found = BoundSecret::new(name, host, port, value);
            assert_eq!(found.is_ok(), ok, "{found:?}");
            if let Err(error) = found {
                assert!(!error.to_string().contains(value) || value.is_empty(), "{error}");
            }
        };
        check("key", "a.test", 443, "s3cret-value", true);
        check("", "a.test", 443, "s3cret-value", false);
        check("a b", "a.test", 443, "s3cret-value", false);
        check("key", "127.0.0.1", 443, "s3cret-value", false);
        check("key", "*.test", 443, "s3cret-value", false);
        check("key", "a.test", 0, "s3cret-value", false);
        check("key", "a.test", 443, "s3cret-", false);
        check("key", "a.test", 443, "s3cret-value\r\nX: y", false);
        check("key", "a.test", 443, &"x".repeat(4097), false);
    }

    #[test]
    fn e9_a_placeholder_is_filled_only_for_its_host() {
        let secrets = [
            BoundSecret::new("key", "a.test", 443, "s3cret-value").unwrap(),
            BoundSecret::new("key2", "b.test", 8443, "other-value").unwrap(),
        ];
        let check = |target: &str, header: &str, expected: (&str, bool, u16)| {
            let (authority, _) = target[7..].split_once('/').unwrap();
            let text = format!("GET {target} HTTP/1.1\r\nHost: {authority}\r\nX: {header}\r\n\r\n");
            let mut head = RequestHead::parse(text.as_bytes()).unwrap();
            let found = Use::of(&secrets, &head);
            let misused = found.misused;
            found.fill(&mut head);
            let value = head.headers.iter().find(|(name, _)| name == "x").unwrap().1.clone();
            let value = String::from_utf8(value).unwrap();
            assert_eq!((&*value, misused, head.port), expected, "{target} {header}");
        };
        let (key, key2) = ("glasshouse-secret:key", "glasshouse-secret:key2");
        check("http://a.test/", &format!("Bearer {key}"), ("Bearer s3cret-value", false, 443));
        check("http://a.test/", &format!("{key} {key}"), ("s3cret-value s3cret-value", false, 443));
        check("http://a.test:443/", key, ("s3cret-value", false, 443));
        check("http://a.test:8080/", key, (key, true, 8080));
        check("http://b.test/", key, (key, true, 80));
        check("http://b.test/", key2, ("other-value", false, 8443));
        check(
            "http://a.test/",
            &format!("{key},{key2}"),
            (&format!("s3cret-value,{key2}"), true, 443),
        );
        check("http://a.test/", "glasshouse-secret:key3", ("glasshouse-secret:key3", false, 80));
        check("http://a.test/", "glasshouse-secret:", ("glasshouse-secret:", false, 80));
        check(&format!("http://a.test/{key}"), "x", ("x", true, 80));
        check("http://x.a.test/", key, (key, true, 80));
    }
}
