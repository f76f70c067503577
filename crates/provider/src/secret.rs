//! API keys: values that are used, never shown.

use std::fmt;

use zeroize::Zeroizing;

use crate::{Error, codes};

/// Longest accepted key in bytes; keys in use are below 300, tokens of identity services below 4 KiB.
const MAX_SECRET_BYTES: usize = 8 << 10;

/// A key. Its text appears in no `Debug` output and no error, it cannot be serialised, and its
/// memory is overwritten when it is dropped.
///
/// ```
/// use glasshouse_provider::Secret;
/// let key = Secret::new("sk-very-private".to_owned()).unwrap();
/// assert_eq!(format!("{key:?}"), "Secret(hidden)");
/// assert!(Secret::new("two words".to_owned()).is_err());
/// ```
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a key; white space around it is dropped.
    ///
    /// # Errors
    /// `provider_config` when it is empty, longer than 8 KiB, or holds anything but visible ASCII
    /// (such a text cannot travel in a header, and is most likely not a key).
    pub fn new(text: String) -> Result<Self, Error> {
        let text = Zeroizing::new(text);
        let key = text.trim();
        let refuse =
            |why: &str| Err(Error::new(codes::PROVIDER_CONFIG, "unusable API key").why(why));
        if key.is_empty() {
            return refuse("it is empty");
        }
        if key.len() > MAX_SECRET_BYTES {
            return refuse("it is longer than 8 KiB");
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse("it holds a character that is not visible ASCII");
        }
        Ok(Self(Zeroizing::new(key.to_owned())))
    }

    /// Reads a key from an environment variable.
    ///
    /// # Errors
    /// `provider_key_missing` naming the variable when it is not set or empty; otherwise as
    /// [`Secret::new`].
    pub fn from_env(variable: &str) -> Result<Self, Error> {
        let missing = |why: &str| {
            Error::new(codes::PROVIDER_KEY_MISSING, format!("no API key in `{variable}`")).why(why)
        };
        match std::env::var(variable) {
            Ok(text) if text.trim().is_empty() => Err(missing("the variable is empty")),
            Ok(text) => Self::new(text),
            Err(std::env::VarError::NotPresent) => Err(missing("the variable is not set")),
            Err(std::env::VarError::NotUnicode(_)) => Err(missing("the variable is not text")),
        }
    }

    /// The key itself: for the request header, and for masking it wherever it might turn up.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_key() {
        let check = |text: &str, expected: Option<&str>| {
            let made = Secret::new(text.to_owned());
            assert_eq!(made.as_ref().ok().map(Secret::expose), expected, "{text:?}");
            if let Err(error) = made {
                assert!(error.is(codes::PROVIDER_CONFIG));
                assert!(text.trim().is_empty() || !error.to_string().contains(text.trim()));
            }
        };
        check("sk-1", Some("sk-1"));
        check(" sk-1\n", Some("sk-1"));
        check("", None);
        check(" \n", None);
        check("a b", None);
        check("a\r\nx-evil: 1", None);
        check("schlüssel", None);
        check(&"k".repeat(MAX_SECRET_BYTES + 1), None);
    }

    #[test]
    fn a_missing_variable_is_named() {
        let error = Secret::from_env("GLASSHOUSE_TEST_NO_SUCH_VARIABLE").unwrap_err();
        assert!(error.is(codes::PROVIDER_KEY_MISSING));
        assert!(error.to_string().contains("GLASSHOUSE_TEST_NO_SUCH_VARIABLE"));
    }
}
