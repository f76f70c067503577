//! SHA-256 digests, written `sha256:<64 hex digits>` wherever people or files see them.

use std::fmt;
use std::str::FromStr;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A SHA-256 digest.
///
/// ```
/// use glasshouse_model::Digest;
/// let d = Digest::of(b"abc");
/// assert!(d.to_string().starts_with("sha256:ba7816bf"));
/// assert_eq!(d.to_string().parse::<Digest>().unwrap(), d);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// All zeros: the `prev` of a branch's first event.
    pub const ZERO: Self = Self([0; 32]);

    /// Hashes bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_parts(&[bytes])
    }

    /// Hashes the concatenation of parts; callers separate domains by a fixed-length tag in front.
    #[must_use]
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Context::new(&SHA256);
        for part in parts {
            hasher.update(part);
        }
        let hash = hasher.finish();
        Self(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Wraps raw digest bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 lower-case hex digits without the prefix.
    #[must_use]
    pub fn hex(&self) -> String {
        // Every event's header holds one, so this does not go through the formatting machinery.
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut out = String::with_capacity(64);
        for byte in self.0 {
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
        out
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that is no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseDigestError;

impl fmt::Display for ParseDigestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a digest is `sha256:` and 64 lower-case hex digits")
    }
}

impl std::error::Error for ParseDigestError {}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let hex = text.strip_prefix("sha256:").unwrap_or(text).as_bytes();
        if hex.len() != 64 {
            return Err(ParseDigestError);
        }
        let mut out = [0; 32];
        for (slot, pair) in out.iter_mut().zip(hex.chunks_exact(2)) {
            *slot = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(out))
    }
}

fn nibble(byte: u8) -> Result<u8, ParseDigestError> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(ParseDigestError),
    }
}

text_schema!(Digest, "Digest", "^sha256:[0-9a-f]{64}$", "A SHA-256 digest.");

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Digest;

    #[test]
    fn texts_that_are_no_digest_are_refused() {
        for text in ["", "sha256:", "sha256:AB", &"g".repeat(64), &"A".repeat(64), &"0".repeat(63)]
        {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
        assert_eq!("0".repeat(64).parse::<Digest>().unwrap(), Digest::ZERO);
    }
}
