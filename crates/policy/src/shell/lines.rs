//! Lines that a backslash at their end joins with the next one.

use std::borrow::Cow;

use super::{Read, Unreadable};

/// What makes it hard to tell which quotes a place is in.
const NESTED: &[&str] = &["$(", "${", "$[", "$'", "$\"", "`", "<<"];

/// The text with its lines joined as every shell joins them before it reads words: `$` and `(` of two lines are a
/// substitution. Joined lines among quotes in quotes, in here-documents and beside comments are not understood.
pub(super) fn joined(text: &str) -> Read<Cow<'_, str>> {
    if !text.contains("\\\n") {
        return Ok(Cow::Borrowed(text));
    }
    let is_nested = |text: &str| NESTED.iter().any(|start| text.contains(start));
    if !text.contains(['\'', '#']) && !text.contains("<<") {
        // Nowhere does a backslash stand for itself before a line end, unless it is escaped.
        let joined = join(text, |_| false);
        return if joined.contains("<<") { Err(Unreadable) } else { Ok(Cow::Owned(joined)) };
    }
    if is_nested(text) {
        return Err(Unreadable);
    }
    let mut quotes = Quotes::default();
    let joined = join(text, |c| quotes.take_plainly(c));
    if is_nested(&joined) { Err(Unreadable) } else { Ok(Cow::Owned(joined)) }
}

/// Leaves out each backslash before a line end; `is_plain` is told every character, a letter for an escaped one, and
/// says whether a backslash stands for itself there.
fn join(text: &str, mut is_plain: impl FnMut(char) -> bool) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if is_plain(c) || c != '\\' {
            joined.push(c);
            continue;
        }
        match chars.next() {
            Some('\n') => {}
            Some(escaped) => {
                is_plain('x');
                joined.extend([c, escaped]);
            }
            None => joined.push(c),
        }
    }
    joined
}

/// Where a text is that has no quotes in quotes.
#[derive(Default)]
struct Quotes {
    single: bool,
    double: bool,
    comment: bool,
    /// Whether a word has begun, in which `#` is a letter.
    in_word: bool,
}

impl Quotes {
    /// Takes the next character that no backslash escapes; whether a backslash is itself here.
    fn take_plainly(&mut self, c: char) -> bool {
        if self.comment {
            self.comment = c != '\n';
        } else if self.single {
            self.single = c != '\'';
        } else if self.double {
            self.double = c != '"';
            return false;
        } else if c == '\\' {
            return false;
        } else {
            match c {
                '\'' => self.single = true,
                '"' => self.double = true,
                '#' if !self.in_word => self.comment = true,
                _ => {}
            }
            self.in_word = !" \t\n;&|()<>".contains(c);
            return self.comment;
        }
        true
    }
}
