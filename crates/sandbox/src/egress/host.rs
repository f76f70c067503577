//! One spelling for each host, so that a rule cannot be missed by writing a name differently.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Denial;

/// Longest name and label of the domain name system.
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// Where a request wants to go, in its one spelling.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// A name: lower case, without trailing dot, international names in their `xn--` form.
    Name(String),
    /// An address in its usual notation.
    Address(IpAddr),
}

impl Host {
    /// Reads a host as a URL or a TLS handshake spells it.
    ///
    /// # Errors
    /// [`Denial::IpLiteral`] for an address in any notation but the usual one (`127.1`, `0x7f.1`,
    /// `2130706433`, addresses within addresses, zones); [`Denial::Malformed`] for what is neither
    /// name nor address.
    pub fn parse(text: &str) -> Result<Self, Denial> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(Denial::Malformed)?;
            if inner.contains('%') {
                return Err(Denial::IpLiteral);
            }
            let address: Ipv6Addr = inner.parse().map_err(|_| Denial::Malformed)?;
            return match address.to_ipv4() {
                // `::ffff:a.b.c.d` and `::a.b.c.d` are an IPv4 address in disguise.
                Some(_) => Err(Denial::IpLiteral),
                None => Ok(Self::Address(address.into())),
            };
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.split('.').all(is_label) {
            return Err(Denial::Malformed);
        }
        let last = name.rsplit('.').next().unwrap_or(name);
        if !is_number(last) {
            return Ok(Self::Name(name.to_ascii_lowercase()));
        }
        // Whatever ends in a number is an address to some resolver.
        match name.parse::<Ipv4Addr>() {
            Ok(address) if name.len() == text.len() => Ok(Self::Address(address.into())),
            _ => Err(Denial::IpLiteral),
        }
    }

    /// The name, if it is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Address(_) => None,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Splits `host:port`; without a port it is `default_port`, and without that malformed.
pub(crate) fn parse_authority(
    text: &str,
    default_port: Option<u16>,
) -> Result<(Host, u16), Denial> {
    let colon = match text.rfind(']') {
        Some(end) => text[end..].find(':').map(|at| end + at),
        None => text.find(':'),
    };
    let (host, port) = match colon {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let port = match port {
        // `u16` reads `+80` too, which nobody else does.
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().map_err(|_| Denial::Malformed)?
        }
        Some(_) => return Err(Denial::Malformed),
        None => default_port.ok_or(Denial::Malformed)?,
    };
    if port == 0 {
        return Err(Denial::Malformed);
    }
    Ok((Host::parse(host)?, port))
}

fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_LABEL_BYTES).contains(&label.len())
        && label.bytes().all(plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Decimal, octal or hexadecimal, as `inet_aton` and the URL standard read numbers.
fn is_number(label: &str) -> bool {
    let hex = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e4_every_spelling_of_a_host_is_one_or_refused() {
        let check = |text: &str, expected: Result<&str, Denial>| {
            let found = Host::parse(text).map(|host| host.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text}");
        };
        use Denial::{IpLiteral, Malformed};
        check("a.test", Ok("a.test"));
        check("A.TEST", Ok("a.test"));
        check("a.test.", Ok("a.test"));
        check("a.test..", Err(Malformed));
        check("xn--bcher-kva.test", Ok("xn--bcher-kva.test"));
        check("\u{430}.test", Err(Malformed)); // A Cyrillic twin of `a`.
        check("a\u{3002}test", Err(Malformed)); // An ideographic full stop.
        check("a%2etest", Err(Malformed));
        check("a_b.test", Ok("a_b.test"));
        check("-a.test", Err(Malformed));
        check("a b.test", Err(Malformed));
        check("user@a.test", Err(Malformed));
        check("", Err(Malformed));
        check(".", Err(Malformed));
        check(&"a".repeat(64), Err(Malformed));
        check(&format!("{}a", "a.".repeat(127)), Err(Malformed));
        check("127.0.0.1", Ok("127.0.0.1"));
        check("127.0.0.1.", Err(IpLiteral));
        check("127.1", Err(IpLiteral));
        check("127.0.1", Err(IpLiteral));
        check("0177.0.0.1", Err(IpLiteral));
        check("127.0.0.01", Err(IpLiteral));
        check("0x7f.1", Err(IpLiteral));
        check("0X7F.0.0.0x1", Err(IpLiteral));
        check("0x7f000001", Err(IpLiteral));
        check("0x", Err(IpLiteral));
        check("2130706433", Err(IpLiteral));
        check("017700000001", Err(IpLiteral));
        check("256.0.0.1", Err(IpLiteral));
        check("a.1", Err(IpLiteral));
        check("1.2.3.4.5", Err(IpLiteral));
        check("1.a", Ok("1.a"));
        check("[2001:0db8:0:0:0:0:0:1]", Ok("[2001:db8::1]"));
        check("[::1]", Err(IpLiteral)); // Of the form `::a.b.c.d`.
        check("[2001:DB8::1]", Ok("[2001:db8::1]"));
        check("[::ffff:127.0.0.1]", Err(IpLiteral));
        check("[::ffff:7f00:1]", Err(IpLiteral));
        check("[::127.0.0.1]", Err(IpLiteral));
        check("[fe80::1%eth0]", Err(IpLiteral));
        check("[fe80::1%25eth0]", Err(IpLiteral));
        check("[::1", Err(Malformed));
        check("[127.0.0.1]", Err(Malformed));
        check("::1", Err(Malformed));
    }

    #[test]
    fn an_authority_is_a_host_and_one_port() {
        let check = |text: &str, default: Option<u16>, expected: Result<(&str, u16), Denial>| {
            let found = parse_authority(text, default).map(|(host, port)| (host.to_string(), port));
            assert_eq!(found, expected.map(|(host, port)| (host.to_owned(), port)), "{text}");
        };
        use Denial::Malformed;
        check("a.test:443", None, Ok(("a.test", 443)));
        check("a.test", Some(80), Ok(("a.test", 80)));
        check("a.test", None, Err(Malformed));
        check("[2001:db8::1]:443", None, Ok(("[2001:db8::1]", 443)));
        check("[2001:db8::1]", Some(80), Ok(("[2001:db8::1]", 80)));
        check("[2001:db8::1]x:443", None, Err(Malformed));
        check("a.test:", Some(80), Err(Malformed));
        check("a.test:0", None, Err(Malformed));
        check("a.test:65536", None, Err(Malformed));
        check("a.test:+80", None, Err(Malformed));
        check("a.test:80:80", None, Err(Malformed));
        check("a.test:0x50", None, Err(Malformed));
        check("b.test@a.test:80", None, Err(Malformed));
    }
}
