//! Text from outside, made so that a person sees all of it.

/// Stands for the end of a line in a text that is shown on one line.
const LINE_END: char = '\u{23ce}';
/// Stands for a tab in a text that is shown on one line: a space is another character to a program.
const TAB: char = '\u{21e5}';

/// Characters that are shown as nothing or as a blank though they are letters, marks and signs by their kind:
/// those that Unicode lets every program leave out (`Default_Ignorable_Code_Point`), and the empty pattern of
/// Braille.
const BLANK: [(char, char); 13] = [
    ('\u{034f}', '\u{034f}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{16fe4}', '\u{16fe4}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d159}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Text from outside (a model, a repository, a policy file) that cannot move the cursor, hide itself or
/// forge a line; line ends and tabs stay where `lines` says so, and are shown by a sign elsewhere. What would not be seen,
/// or be taken for a space, is written as `\u{200b}`.
pub(crate) fn visible(text: &str, lines: bool) -> String {
    let text = text.replace("\r\n", "\n");
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' if lines => out.push(c),
            '\n' => out.push(LINE_END),
            '\t' => out.push(TAB),
            c if is_hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Whether a character is obeyed, unseen or taken for a space: of the kinds that have no glyph (controls,
/// formats, separators, unassigned and private ones), or one of [`BLANK`].
pub(super) fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    BLANK.iter().any(|(first, last)| (*first..=*last).contains(&c)) || has_no_glyph(c)
}

/// What the standard library knows of the kinds: behind another character it escapes those alone, and no
/// accents.
fn has_no_glyph(c: char) -> bool {
    let mut buffer = [b'x'; 5];
    let bytes = 1 + c.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..bytes]).unwrap_or_default();
    text.escape_debug().nth(1) == Some('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_outside_cannot_hide_itself() {
        let check = |text: &str, lines: bool, expected: &str| {
            assert_eq!(visible(text, lines), expected, "{text:?}");
        };
        check("rm -rf x", false, "rm -rf x");
        check("a\u{1b}[2Kb", true, "a\\u{1b}[2Kb");
        check("a\rb", true, "a\\u{d}b");
        check("a\u{202e}b", true, "a\\u{202e}b");
        check("a\u{9b}2Jb", true, "a\\u{9b}2Jb");
        check("a\tb\nc", true, "a\tb\nc");
        check("a\tb", false, "a\u{21e5}b");
        check("a\nforged", false, "a\u{23ce}forged");
        check("a\r\nb", false, "a\u{23ce}b");
        check("a\r\nb", true, "a\nb");
        check("echo a\u{200b}b", false, "echo a\\u{200b}b");
        // What people write stays: other scripts, accents of their own, signs, and quotes.
        for plain in
            ["Grüße", "e\u{301}", "नमस्ते", "日本語", "שלום", "a\"b'c\\d", "→ ⏎ 🙂", "\u{fffd}"]
        {
            check(plain, false, plain);
        }
    }

    /// Each kind, not the characters that were thought of: `echo a<ZWSP>b` looked like `echo ab` to who approved it.
    #[test]
    fn nothing_that_is_not_seen_passes() {
        let check = |kind: &str, ranges: &[(char, char)]| {
            for c in ranges.iter().flat_map(|(first, last)| *first..=*last) {
                assert!(is_hidden(c), "{kind} {}", c.escape_unicode());
                let stays = matches!(c, '\n' | '\t');
                assert_eq!(visible(&format!("a{c}b"), true).contains(c), stays, "{kind}");
            }
        };
        // Cc, Cf, Zl, Zp and Zs of Unicode 14.0.0.
        check(
            "no glyph",
            &[
                ('\u{0}', '\u{1f}'),
                ('\u{7f}', '\u{a0}'),
                ('\u{ad}', '\u{ad}'),
                ('\u{600}', '\u{605}'),
                ('\u{61c}', '\u{61c}'),
                ('\u{6dd}', '\u{6dd}'),
                ('\u{70f}', '\u{70f}'),
                ('\u{890}', '\u{891}'),
                ('\u{8e2}', '\u{8e2}'),
                ('\u{1680}', '\u{1680}'),
                ('\u{180e}', '\u{180e}'),
                ('\u{2000}', '\u{200f}'),
                ('\u{2028}', '\u{202f}'),
                ('\u{205f}', '\u{2064}'),
                ('\u{2066}', '\u{206f}'),
                ('\u{3000}', '\u{3000}'),
                ('\u{feff}', '\u{feff}'),
                ('\u{fff9}', '\u{fffb}'),
                ('\u{110bd}', '\u{110bd}'),
                ('\u{110cd}', '\u{110cd}'),
                ('\u{13430}', '\u{13438}'),
                ('\u{1bca0}', '\u{1bca3}'),
                ('\u{1d173}', '\u{1d17a}'),
                ('\u{e0001}', '\u{e0001}'),
                ('\u{e0020}', '\u{e007f}'),
            ],
        );
        check(
            "default ignorable",
            &[
                ('\u{ad}', '\u{ad}'),
                ('\u{34f}', '\u{34f}'),
                ('\u{61c}', '\u{61c}'),
                ('\u{115f}', '\u{1160}'),
                ('\u{17b4}', '\u{17b5}'),
                ('\u{180b}', '\u{180f}'),
                ('\u{200b}', '\u{200f}'),
                ('\u{202a}', '\u{202e}'),
                ('\u{2060}', '\u{206f}'),
                ('\u{3164}', '\u{3164}'),
                ('\u{fe00}', '\u{fe0f}'),
                ('\u{feff}', '\u{feff}'),
                ('\u{ffa0}', '\u{ffa0}'),
                ('\u{fff0}', '\u{fff8}'),
                ('\u{1bca0}', '\u{1bca3}'),
                ('\u{1d173}', '\u{1d17a}'),
                ('\u{e0000}', '\u{e0fff}'),
            ],
        );
        check(
            "others",
            &[('\u{2800}', '\u{2800}'), ('\u{e000}', '\u{f8ff}'), ('\u{fdd0}', '\u{fdef}')],
        );
    }
}
