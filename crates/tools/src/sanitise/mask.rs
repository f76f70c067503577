//! Masking of secrets in bytes of any length that arrive in pieces of any size.
//!
//! A masked text is a function of the whole text: how it was cut into pieces does not show. To get
//! there, every place of the text is looked at once everything that can decide about it is known.
//! A stream therefore holds back the shortest tail that could still turn out to be part of a
//! secret, usually nothing, never more than the longest form of a secret.
//!
//! All occurrences count, overlapping ones too, and what overlaps is masked as one; taking one
//! occurrence and going on behind it would leave the rest of the other.

use std::fmt;
use std::sync::Arc;

use super::finder::Finder;
use super::forms::forms;
use super::patterns::{Match, Matches, Patterns};
use super::tokens;
use crate::codes;
use crate::error::{Error, Result};

/// Shortest secret. A shorter one occurs in ordinary text by chance, and its mask would spoil it.
pub const MIN_SECRET_BYTES: usize = 8;
/// Longest secret; a private key in PEM form fits.
pub const MAX_SECRET_BYTES: usize = 8 << 10;
/// Longest name of a secret.
const MAX_NAME_BYTES: usize = 64;
/// Something that must not be seen, under a name that may be.
#[derive(Clone)]
pub struct Secret {
    name: String,
    value: Vec<u8>,
}

impl Secret {
    /// Names a secret.
    ///
    /// # Errors
    /// `secret_unusable` if the value is shorter than [`MIN_SECRET_BYTES`] or longer than
    /// [`MAX_SECRET_BYTES`], or the name is not 1 to 64 letters, digits, `_`, `-` and `.`.
    pub fn new(name: &str, value: &[u8]) -> Result<Self> {
        check_name(name)?;
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&value.len()) {
            return Err(Error::new(codes::SECRET_UNUSABLE, format!("`{name}` cannot be masked"))
                .why(format!(
                    "{} bytes; masking needs {MIN_SECRET_BYTES} to {MAX_SECRET_BYTES}",
                    value.len()
                )));
        }
        Ok(Self { name: name.to_owned(), value: value.to_vec() })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.name)
    }
}

fn check_name(name: &str) -> Result<()> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if fits {
        return Ok(());
    }
    Err(Error::new(codes::SECRET_UNUSABLE, "a secret has an unusable name")
        .why("a name is 1 to 64 letters, digits, `_`, `-` and `.`")
        .with("name", name))
}

/// Replaces secrets by `[secret:NAME]`.
///
/// Masked are the registered secrets in all their [forms](super), tokens with a known prefix, and
/// whatever the registered patterns match. Everything else passes unchanged. Cloning is cheap.
///
/// ```
/// use glasshouse_tools::sanitise::{Masker, Secret};
///
/// let secret = Secret::new("db", b"correct horse").unwrap();
/// let masker = Masker::new(&[secret], &[]).unwrap();
/// assert_eq!(masker.mask(b"pw=correct horse!"), b"pw=[secret:db]!");
///
/// let mut stream = masker.stream();
/// let mut seen = stream.push(b"pw=correct h");
/// assert_eq!(seen, b"pw=");
/// seen.extend(stream.push(b"orse!"));
/// seen.extend(stream.finish());
/// assert_eq!(seen, b"pw=[secret:db]!");
/// ```
#[derive(Clone)]
pub struct Masker(Arc<Rules>);

struct Rules {
    names: Vec<String>,
    finder: Finder,
    /// For each form of the finder, its secret's place in `names`.
    secret_of: Vec<usize>,
    patterns: Patterns,
    /// Place in `names` of the first pattern's name; the others follow.
    first_pattern: usize,
}

impl Masker {
    /// Makes a masker for secrets and patterns, the latter as (name, regular expression on bytes).
    ///
    /// # Errors
    /// `secret_unusable` for a pattern's name; `invalid_pattern` for a pattern that does not
    /// compile, can match nothing at all, has no upper bound of
    /// [`MAX_PATTERN_MATCH_BYTES`](super::MAX_PATTERN_MATCH_BYTES), asks for the text's start or
    /// end, or needs too much memory.
    pub fn new(secrets: &[Secret], patterns: &[(&str, &str)]) -> Result<Self> {
        Self::with_groups(secrets, &[patterns.to_vec()])
    }

    /// As [`Masker::new`], with patterns of several origins: the memory that patterns may need together is that of a
    /// group, so groups that can be used each can be used beside one another.
    ///
    /// # Errors
    /// As [`Masker::new`].
    pub fn with_groups(secrets: &[Secret], groups: &[Vec<(&str, &str)>]) -> Result<Self> {
        let mut names = Vec::new();
        let mut all: Vec<(Vec<u8>, usize)> = Vec::new();
        for secret in secrets {
            all.extend(forms(&secret.value).into_iter().map(|form| (form, names.len())));
            names.push(secret.name.clone());
        }
        all.sort_unstable();
        all.dedup_by(|b, a| a.0 == b.0);
        let (forms, secret_of) = all.into_iter().unzip();
        let first_pattern = names.len();
        for (name, _) in groups.iter().flatten() {
            check_name(name)?;
            names.push((*name).to_owned());
        }
        Ok(Self(Arc::new(Rules {
            names,
            finder: Finder::new(forms),
            secret_of,
            patterns: Patterns::new(groups)?,
            first_pattern,
        })))
    }

    /// Masks a whole text.
    #[must_use]
    pub fn mask(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        stream.buffer.extend_from_slice(bytes);
        stream.advance(true)
    }

    /// Masks a whole text of characters.
    #[must_use]
    pub fn mask_str(&self, text: &str) -> String {
        // A secret of bytes that are no characters could cut one in two.
        String::from_utf8(self.mask(text.as_bytes()))
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Starts masking a text that arrives in pieces.
    #[must_use]
    pub fn stream(&self) -> MaskStream {
        MaskStream {
            masker: self.clone(),
            buffer: Vec::new(),
            context: 0,
            covered: 0,
            inside_token: false,
        }
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").field("names", &self.0.names).finish_non_exhaustive()
    }
}

/// Masking under way; made by [`Masker::stream`].
pub struct MaskStream {
    masker: Masker,
    /// `context` bytes that were passed on already, then what was not.
    buffer: Vec<u8>,
    /// 0 at the start of the text, then 1: a word boundary depends on the byte before.
    context: usize,
    /// How many of the bytes not passed on belong to a mask that was.
    covered: usize,
    /// The covered bytes end in a token whose end has not come yet.
    inside_token: bool,
}

/// Bytes to mask, positions in the buffer.
#[derive(Debug, Clone, Copy)]
struct Span<'a> {
    start: usize,
    end: usize,
    /// `None` if the mask was passed on already.
    name: Option<&'a str>,
}

impl MaskStream {
    /// Adds a piece and takes what is ready.
    #[must_use]
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.buffer.extend_from_slice(piece);
        self.advance(false)
    }

    /// Ends the text and takes the rest.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.advance(true)
    }

    /// Bytes that are held back at the moment.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.buffer.len() - self.context
    }

    fn advance(&mut self, complete: bool) -> Vec<u8> {
        if self.inside_token {
            let tail = &self.buffer[self.context + self.covered..];
            let more = tail.iter().take_while(|byte| tokens::is_token_byte(**byte)).count();
            self.inside_token = more == tail.len();
            self.covered += more;
        }
        let masker = self.masker.clone();
        let tokens = tokens::find(&self.buffer, self.context, complete);
        let Matches { found, undecided } =
            masker.0.patterns.find(&self.buffer, self.context, complete);
        let cut = match complete {
            true => self.buffer.len(),
            false => self.decided(&masker.0, tokens.undecided.into_iter().chain(undecided)),
        };
        let spans = self.spans(&masker.0, &tokens.found, &found);
        let mut out = Vec::with_capacity(cut - self.context);
        let mut at = self.context;
        let mut covered_until = cut;
        for span in merged(spans) {
            // A mask that was passed on reaches from the first byte; the others wait for their turn.
            if span.start >= cut && span.name.is_some() {
                break;
            }
            out.extend_from_slice(&self.buffer[at..span.start]);
            if let Some(name) = span.name {
                out.extend_from_slice(format!("[secret:{name}]").as_bytes());
            }
            at = span.end.min(cut);
            covered_until = span.end.max(cut);
        }
        out.extend_from_slice(&self.buffer[at..cut]);
        let open = |token: &tokens::Token| token.start < cut && token.end == self.buffer.len();
        self.inside_token |= tokens.found.iter().any(open);
        self.covered = covered_until - cut;
        self.context = cut.min(1);
        self.buffer.drain(..cut - self.context);
        out
    }

    /// Where the text begins of which more bytes could change the answer.
    fn decided(&self, rules: &Rules, undecided: impl Iterator<Item = usize>) -> usize {
        let form = rules.finder.undecided_from(&self.buffer, self.context);
        undecided.chain(form).fold(self.buffer.len(), usize::min)
    }

    /// Everything to mask that is in the buffer as a whole, in no order.
    fn spans<'a>(
        &self,
        rules: &'a Rules,
        tokens: &[tokens::Token],
        matches: &[Match],
    ) -> Vec<Span<'a>> {
        let from = self.context;
        let mut spans = Vec::new();
        if self.covered > 0 {
            spans.push(Span { start: from, end: from + self.covered, name: None });
        }
        rules.finder.find(&self.buffer, from, |start, end, form| {
            let name = Some(rules.names[rules.secret_of[form]].as_str());
            spans.push(Span { start, end, name });
        });
        for token in tokens {
            spans.push(Span { start: token.start, end: token.end, name: Some(token.name) });
        }
        for found in matches {
            let name = Some(rules.names[rules.first_pattern + found.pattern].as_str());
            spans.push(Span { start: found.start, end: found.end, name });
        }
        spans
    }
}

impl fmt::Debug for MaskStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaskStream").field("held_bytes", &self.held_bytes()).finish_non_exhaustive()
    }
}

/// Joins spans that overlap; each keeps the name of its first part, the longest if several begin
/// there.
fn merged(mut spans: Vec<Span<'_>>) -> Vec<Span<'_>> {
    spans.sort_by_key(|span| (span.start, span.name.is_some(), std::cmp::Reverse(span.end)));
    let mut merged: Vec<Span<'_>> = Vec::new();
    for span in spans {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ => merged.push(span),
        }
    }
    merged
}
