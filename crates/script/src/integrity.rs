//! Digests as manifests write them: `sha256-`, `sha384-` or `sha512-` and base64.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

/// A digest of bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Integrity {
    bits: u16,
    digest: Vec<u8>,
}

const ALGORITHMS: [(u16, &Algorithm); 3] = [(256, &SHA256), (384, &SHA384), (512, &SHA512)];

impl Integrity {
    /// The digest that pins are written with.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self { bits: 384, digest: digest(&SHA384, bytes).as_ref().to_vec() }
    }

    /// The strongest digest of a text that lists some; a weaker one beside it says nothing. `None` when
    /// there is none that can be read.
    ///
    /// ```
    /// use glasshouse_script::Integrity;
    /// let pinned = Integrity::of(b"x");
    /// assert_eq!(Integrity::parse(&pinned.to_string()), Some(pinned));
    /// assert_eq!(Integrity::parse("sha1-abc sha384-short"), None);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let read = |token: &str| {
            let (name, value) = token.split_once('-')?;
            let bits: u16 = name.strip_prefix("sha")?.parse().ok()?;
            ALGORITHMS.iter().find(|(known, _)| *known == bits)?;
            let digest = STANDARD.decode(value.split('?').next()?).ok()?;
            (digest.len() * 8 == usize::from(bits)).then_some(Self { bits, digest })
        };
        text.split_ascii_whitespace().filter_map(read).max_by_key(|found| found.bits)
    }

    /// Whether bytes have this digest.
    #[must_use]
    pub fn holds(&self, bytes: &[u8]) -> bool {
        self.same(bytes).digest == self.digest
    }

    /// The digest of other bytes in the same way, to tell both.
    #[must_use]
    pub fn same(&self, bytes: &[u8]) -> Self {
        let (bits, algorithm) =
            ALGORITHMS.into_iter().find(|(bits, _)| *bits == self.bits).unwrap_or(ALGORITHMS[0]);
        Self { bits, digest: digest(algorithm, bytes).as_ref().to_vec() }
    }

    /// A name for a file.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("sha{}-{}", self.bits, URL_SAFE_NO_PAD.encode(&self.digest))
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha{}-{}", self.bits, STANDARD.encode(&self.digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_digest_of_a_list_counts() {
        let of = |algorithm, bits, bytes: &[u8]| Integrity {
            bits,
            digest: digest(algorithm, bytes).as_ref().to_vec(),
        };
        let (weak, strong) = (of(&SHA256, 256, b"other"), of(&SHA512, 512, b"x"));
        for text in [format!("{weak} {strong}"), format!("{strong} md5-abc {weak}")] {
            let found = Integrity::parse(&text).unwrap();
            assert_eq!(found, strong, "{text}");
            assert!(found.holds(b"x") && !found.holds(b"other"));
            assert_eq!(found.same(b"x"), found);
        }
        assert!(!strong.file_name().contains(['/', '+', '=']));
        for bad in ["", "sha256-", "sha256-AAAA", "sha256", "SHA256-x", "sha224-AAAA"] {
            assert_eq!(Integrity::parse(bad), None, "{bad}");
        }
    }
}
