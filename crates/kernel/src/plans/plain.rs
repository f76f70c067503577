//! Letters that an answer writes as escapes of JSON, written plainly: a secret is looked for in the text that a reader
//! gets, not only in how it was written.

/// Bytes of an escape with a number.
const NUMBERED_BYTES: usize = 6;

/// A text on its way.
#[derive(Debug, Default)]
pub(super) struct Plain {
    /// The beginning of an escape whose end has not come yet.
    held: String,
}

impl Plain {
    /// Takes a piece and gives what is whole. As JSON it stands for the same as before.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let text = std::mem::take(&mut self.held) + piece;
        let (mut told, mut rest) = (String::with_capacity(text.len()), text.as_str());
        while let Some(at) = rest.find('\\') {
            told.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some(kind) = rest[1..].chars().next() else { break };
            if kind == 'u' && rest.len() < NUMBERED_BYTES {
                break;
            }
            match letter(rest) {
                Some((letter, length)) => {
                    told.push(letter);
                    rest = &rest[length..];
                }
                None => {
                    let length = 1 + kind.len_utf8();
                    told.push_str(&rest[..length]);
                    rest = &rest[length..];
                }
            }
        }
        if rest.starts_with('\\') {
            self.held = rest.to_owned();
        } else {
            told.push_str(rest);
        }
        told
    }

    /// What was held back.
    pub(super) fn finish(self) -> String {
        self.held
    }
}

/// A whole text with its letters written plainly.
pub(crate) fn plainly(text: &str) -> String {
    let mut plain = Plain::default();
    let told = plain.push(text);
    told + &plain.finish()
}

/// The letter that an escape stands for, and the escape's length; `None` for one that has to stay.
fn letter(escape: &str) -> Option<(char, usize)> {
    if escape.starts_with("\\/") {
        return Some(('/', 2));
    }
    let number = escape.strip_prefix("\\u")?.get(..4)?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = is_number.then(|| u8::from_str_radix(number, 16).ok()).flatten()?;
    let stays = !(b' '..=b'~').contains(&code) || matches!(code, b'"' | b'\\');
    (!stays).then_some((char::from(code), NUMBERED_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escape_of_a_letter_is_the_letter_however_it_comes() {
        let check = |text: &str, expected: &str| {
            for size in 1..=text.len() {
                let mut plain = Plain::default();
                let pieces: Vec<char> = text.chars().collect();
                let told = pieces.chunks(size).map(|piece| plain.push(&String::from_iter(piece)));
                let told = told.collect::<String>() + &plain.finish();
                assert_eq!(told, expected, "{text} by {size}");
            }
        };
        check(r"gh\u0070_\u0030", "ghp_0");
        check(r"a\/b", "a/b");
        // What is no letter, ends a text, or is a backslash itself stays as it is.
        check(r"\n\u000a\u0022\u005c\u00e9\ud83d\ude00", r"\n\u000a\u0022\u005c\u00e9\ud83d\ude00");
        check(r"\\u0070", r"\\u0070");
        check(r"\u00", r"\u00");
        check(r"\uzzzzz\u+070", r"\uzzzzz\u+070");
        check("\\ué00 \\", "\\ué00 \\");
    }
}
