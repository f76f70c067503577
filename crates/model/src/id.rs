//! Identifiers. Only session and branch ids are random; everything else is derived from the log.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Position of an event in its branch, from 1. A child branch goes on from its fork point.
pub type Seq = u64;

/// A text that is no identifier of the wanted type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseIdError {
    expected: &'static str,
}

impl fmt::Display for ParseIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}", self.expected)
    }
}

impl std::error::Error for ParseIdError {}

/// Longest identifier accepted anywhere, in bytes.
pub const MAX_ID_BYTES: usize = 64;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn random_suffix(random: [u8; 8]) -> String {
    // 12 characters of 5 bits: 60 bits, enough that ids of one tenant never collide in practice.
    let mut bits = u64::from_be_bytes(random);
    let mut out = String::with_capacity(12);
    for _ in 0..12 {
        out.push(char::from(ALPHABET[usize::try_from(bits & 31).unwrap_or(0)]));
        bits >>= 5;
    }
    out
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $expected:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Box<str>);

        text_schema!(
            $name,
            stringify!($name),
            concat!("^", $prefix, "[a-z0-9_-]+$"),
            concat!("In the form of ", $expected, ".")
        );

        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let rest = text.strip_prefix($prefix).unwrap_or("");
                let fits = !rest.is_empty()
                    && text.len() <= MAX_ID_BYTES
                    && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
                if fits { Ok(Self(text.into())) } else { Err(ParseIdError { expected: $expected }) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseIdError;

            fn try_from(text: String) -> Result<Self, ParseIdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.into()
            }
        }
    };
}

text_id!(
    /// A session: `s_` and lower-case letters or digits.
    SessionId, "s_", "a session id such as s_8f2k"
);
text_id!(
    /// A branch: `b_` and lower-case letters or digits.
    BranchId, "b_", "a branch id such as b_3k9q"
);
text_id!(
    /// A tenant: lower-case letters, digits, `-` and `_`. A single-user installation is `local`.
    TenantId, "", "a tenant name such as local"
);

impl SessionId {
    /// Makes an id from random bytes that the caller drew.
    #[must_use]
    pub fn from_random(random: [u8; 8]) -> Self {
        Self(format!("s_{}", random_suffix(random)).into())
    }
}

impl BranchId {
    /// Makes an id from random bytes that the caller drew.
    #[must_use]
    pub fn from_random(random: [u8; 8]) -> Self {
        Self(format!("b_{}", random_suffix(random)).into())
    }
}

impl TenantId {
    /// The tenant of a single-user installation.
    #[must_use]
    pub fn local() -> Self {
        Self("local".into())
    }
}

/// A tool call: `c` and the sequence of its `tool.proposed` event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CallId(pub Seq);

text_schema!(
    CallId,
    "CallId",
    "^c[0-9]+$",
    "`c` and the sequence of the call's `tool.proposed` event."
);

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

impl FromStr for CallId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        text.strip_prefix('c')
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .map(Self)
            .ok_or(ParseIdError { expected: "a call id such as c14" })
    }
}

impl TryFrom<String> for CallId {
    type Error = ParseIdError;

    fn try_from(text: String) -> Result<Self, ParseIdError> {
        text.parse()
    }
}

impl From<CallId> for String {
    fn from(id: CallId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_parse_only_in_their_own_shape() {
        let check = |text: &str, session: bool, branch: bool, tenant: bool, call: bool| {
            assert_eq!(text.parse::<SessionId>().is_ok(), session, "session {text}");
            assert_eq!(text.parse::<BranchId>().is_ok(), branch, "branch {text}");
            assert_eq!(text.parse::<TenantId>().is_ok(), tenant, "tenant {text}");
            assert_eq!(text.parse::<CallId>().is_ok(), call, "call {text}");
        };
        check("s_8f2k", true, false, true, false);
        check("b_3k9q", false, true, true, false);
        check("c14", false, false, true, true);
        check("local", false, false, true, false);
        for bad in ["", "s_", "s_A", "s_../x", "S_8", "c-1", "c+1", "a/b", &"x".repeat(65)] {
            assert!(bad.parse::<SessionId>().is_err() && bad.parse::<CallId>().is_err(), "{bad}");
        }
        check("a/b", false, false, false, false);
    }
}
