//! Why something did not get out: one list for the answer, the event and the documentation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Why a connection or a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denial {
    /// No rule allows it, or a rule denies it.
    NotAllowed,
    /// An address instead of a name.
    IpLiteral,
    /// The name stands for an address that is not of the public Internet.
    PrivateAddress,
    /// The TLS handshake names another host than the tunnel.
    SniMismatch,
    /// The `Host` header names another host than the request's target.
    HostMismatch,
    /// The TLS handshake names no host.
    NoSni,
    /// The TLS handshake may hide its host (encrypted client hello).
    Ech,
    /// A tunnel that does not begin with a TLS handshake.
    NotTls,
    /// A request that two readers could understand differently.
    Malformed,
    /// A head or handshake beyond its limit.
    TooLarge,
    /// A part of the exchange took too long.
    TimedOut,
    /// The name has no address.
    Unresolvable,
    /// Nothing answers at the address, or it broke off.
    Unreachable,
    /// A placeholder of a secret was sent to a host that the secret does not belong to.
    SecretMisuse,
    /// A limit of the sandbox is used up.
    Limit,
    /// A rule asks for a person's review, and nobody can be asked while a connection waits.
    NeedsReview,
    /// The command ended before the connection was made.
    Ended,
}

impl Denial {
    /// Every reason.
    pub const ALL: [Self; 17] = [
        Self::NotAllowed,
        Self::IpLiteral,
        Self::PrivateAddress,
        Self::SniMismatch,
        Self::HostMismatch,
        Self::NoSni,
        Self::Ech,
        Self::NotTls,
        Self::Malformed,
        Self::TooLarge,
        Self::TimedOut,
        Self::Unresolvable,
        Self::Unreachable,
        Self::SecretMisuse,
        Self::Limit,
        Self::NeedsReview,
        Self::Ended,
    ];

    /// The word in events, answers and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "not_allowed",
            Self::IpLiteral => "ip_literal",
            Self::PrivateAddress => "private_address",
            Self::SniMismatch => "sni_mismatch",
            Self::HostMismatch => "host_mismatch",
            Self::NoSni => "no_sni",
            Self::Ech => "ech",
            Self::NotTls => "not_tls",
            Self::Malformed => "malformed",
            Self::TooLarge => "too_large",
            Self::TimedOut => "timed_out",
            Self::Unresolvable => "unresolvable",
            Self::Unreachable => "unreachable",
            Self::SecretMisuse => "secret_misuse",
            Self::Limit => "limit",
            Self::NeedsReview => "needs_review",
            Self::Ended => "ended",
        }
    }

    /// The reason in a sentence.
    #[must_use]
    pub const fn why(self) -> &'static str {
        match self {
            Self::NotAllowed => "no rule allows this host, port, method and path",
            Self::IpLiteral => "the target is an address and not a host name",
            Self::PrivateAddress => "the name stands for an address outside the public Internet",
            Self::SniMismatch => "the TLS handshake names another host than the tunnel",
            Self::HostMismatch => "the Host header names another host than the target",
            Self::NoSni => "the TLS handshake does not say which host it is for",
            Self::Ech => "the TLS handshake may hide which host it is for",
            Self::NotTls => "the tunnel does not begin with a TLS handshake",
            Self::Malformed => "the request can be understood in more than one way",
            Self::TooLarge => "the head or the handshake is beyond its limit",
            Self::TimedOut => "a part of the exchange took too long",
            Self::Unresolvable => "the name has no address",
            Self::Unreachable => "the host does not answer, or broke off",
            Self::SecretMisuse => "the secret belongs to another host",
            Self::Limit => "a limit of this sandbox is used up",
            Self::NeedsReview => "a rule asks for a review, and nobody can be asked meanwhile",
            Self::Ended => "the command ended before the connection was made",
        }
    }

    /// What whoever made the request can do about it.
    #[must_use]
    pub const fn fix(self) -> &'static str {
        match self {
            Self::NotAllowed => "ask for the host to be listed, or work without it",
            Self::IpLiteral => "use the host's name",
            Self::PrivateAddress => "use a public host; private networks cannot be reached",
            Self::SniMismatch | Self::NoSni => "send the tunnel's host name as TLS server name",
            Self::HostMismatch => "send the target's host in the Host header",
            Self::Ech => "switch encrypted client hello off, also its dummy (GREASE) form",
            Self::NotTls => "speak TLS in a tunnel; for plain HTTP send the whole URL to the proxy",
            Self::Malformed => "send HTTP/1.1 to the letter of RFC 9112, with an http:// URL",
            Self::TooLarge => "send a shorter head",
            Self::TimedOut => "send requests without pauses, or try again",
            Self::Unresolvable => "check the spelling of the host",
            Self::Unreachable => "try again later",
            Self::SecretMisuse => "send the placeholder only to the host that it belongs to",
            Self::Limit => "use fewer connections at a time, or move fewer bytes",
            Self::NeedsReview => "ask for the host to be listed without a review",
            Self::Ended => "let the command wait for its connections",
        }
    }

    /// Status line of the answer: what went wrong behind the proxy is told apart from what the
    /// proxy refuses.
    pub(crate) const fn status(self) -> &'static str {
        match self {
            Self::Unresolvable | Self::Unreachable => "502 Bad Gateway",
            Self::TimedOut => "504 Gateway Timeout",
            _ => "403 Forbidden",
        }
    }

    /// The whole answer to a refused request.
    pub(crate) fn answer(self, target: &str) -> String {
        let body = format!(
            "glasshouse: {target} was refused: {self}\nwhy: {}\nfix: {}\n",
            self.why(),
            self.fix()
        );
        format!(
            "HTTP/1.1 {}\r\nContent-Type: text/plain; charset=utf-8\r\nX-Glasshouse-Denial: \
             {self}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.status(),
            body.len()
        )
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_reason_is_the_same_everywhere() {
        for denial in Denial::ALL {
            let json = serde_json::to_string(&denial).unwrap();
            assert_eq!(json, format!("\"{denial}\""));
            let answer = denial.answer("a.test");
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{answer}");
            assert!(body.contains(denial.why()) && body.contains(denial.fix()), "{answer}");
        }
    }
}
