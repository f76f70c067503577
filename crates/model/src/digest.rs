//! SHA-256 digests, written `sha256:<64 hex digits>` wherever people or files see them.

use std::fmt;
use std::str::FromStr;

use ring::digest::{Context, SHA256};
use serde::de::Visitor;
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
        self.text()[PREFIX.len()..].to_owned()
    }

    fn text(&self) -> DigestText {
        DigestText::of(self)
    }
}

const PREFIX: &str = "sha256:";
const TEXT_BYTES: usize = PREFIX.len() + 64;

/// A digest as it is written. Every event's header holds one, so neither the formatting machinery
/// nor the heap has a part in it.
struct DigestText([u8; TEXT_BYTES]);

impl DigestText {
    fn of(digest: &Digest) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; TEXT_BYTES];
        let (prefix, hex) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX.as_bytes());
        for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(digest.0) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        Self(text)
    }
}

impl std::ops::Deref for DigestText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.0).expect("a prefix and hex digits are ASCII")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
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
        let hex = text.strip_prefix(PREFIX).unwrap_or(text).as_bytes();
        if hex.len() != 64 {
            return Err(ParseDigestError);
        }
        let mut out = [0; 32];
        // Looked up and judged once at the end: proofs read two of these for each event.
        let mut bad = 0;
        for (slot, pair) in out.iter_mut().zip(hex.chunks_exact(2)) {
            let (high, low) = (NIBBLES[usize::from(pair[0])], NIBBLES[usize::from(pair[1])]);
            bad |= high | low;
            *slot = high << 4 | low & 0xf;
        }
        if bad > 0xf { Err(ParseDigestError) } else { Ok(Self(out)) }
    }
}

/// What a hexadecimal digit stands for; above 15 for every other byte.
static NIBBLES: [u8; 256] = {
    let mut nibbles = [0xff; 256];
    let mut digit = 0;
    while digit < 16 {
        nibbles[b"0123456789abcdef"[digit as usize] as usize] = digit;
        digit += 1;
    }
    nibbles
};

text_schema!(Digest, "Digest", "^sha256:[0-9a-f]{64}$", "A SHA-256 digest.");

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Digest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ParseDigestError}")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Digest, E> {
        text.parse().map_err(E::custom)
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
