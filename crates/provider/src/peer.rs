//! Who answers, for messages to people: what a server said is quoted short, clean and without the
//! key it may have echoed.

use crate::Secret;

/// Longest quote in characters: enough for a reason, too short to flood a terminal or a log.
const EXCERPT_CHARS: usize = 300;

/// The other side of a request.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    name: String,
    key: Option<Secret>,
}

impl Peer {
    pub(crate) fn new(name: impl Into<String>, key: Option<Secret>) -> Self {
        Self { name: name.into(), key }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) const fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    /// Quotes text that came from the peer. The key is taken out before the text is cut, so that
    /// no half of it stays.
    pub(crate) fn quote(&self, text: &str) -> String {
        match &self.key {
            Some(key) => excerpt(&text.replace(key.expose(), "[key]")),
            None => excerpt(text),
        }
    }
}

/// At most [`EXCERPT_CHARS`] characters, without control characters.
pub(crate) fn excerpt(text: &str) -> String {
    excerpt_of(text, EXCERPT_CHARS)
}

/// The beginning of a text that somebody else wrote, in one line without control characters.
///
/// ```
/// assert_eq!(glasshouse_provider::excerpt_of(" two\nlines ", 5), "two l…");
/// ```
#[must_use]
pub fn excerpt_of(text: &str, most_chars: usize) -> String {
    let mut chars = text.trim().chars();
    let mut out: String =
        chars.by_ref().take(most_chars).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_short_clean_and_keyless() {
        let key = Secret::new("sk-123456".to_owned()).unwrap();
        let peer = Peer::new("server", Some(key));
        let check = |text: &str, expected: &str| assert_eq!(peer.quote(text), expected);
        check("wrong key sk-123456, sk-123456!", "wrong key [key], [key]!");
        check(" a\r\nb\u{1b}[31m ", "a  b [31m");
        let at_the_cut = format!("{}sk-123456", "x".repeat(EXCERPT_CHARS - 4));
        let quoted = peer.quote(&at_the_cut);
        assert!(!quoted.contains("sk-"), "{quoted}");
        assert!(peer.quote(&"é".repeat(1000)).ends_with('…'));
    }
}
