//! A text that grows: what of it can be shown without ever being taken back.

use std::borrow::Cow;

use crate::template::{self, MAX_RESOLVED_BYTES, Scope};

/// How far a text with templates is shown. Each character is looked at once, however the text
/// arrives.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// Everything before is shown.
    shown: usize,
    /// The search goes on here.
    scan: usize,
    /// Where the template that may be under way begins.
    open: Option<usize>,
    /// What the shown text is long.
    written: usize,
    /// A template waits for the state.
    waits: bool,
}

/// Where two braces open, at `from` or behind it.
fn next_open(raw: &str, from: usize) -> Option<usize> {
    let bytes = raw.as_bytes().get(from..)?;
    let open = |pair: &[u8]| pair == b"{{";
    bytes.windows(2).position(open).map(|found| from + found)
}

impl Cursor {
    /// Whether something is held back until the state is known.
    pub(super) fn waits(self) -> bool {
        self.waits
    }

    /// Appends what can be shown now of `raw`, which begins as it did before. Without a scope,
    /// templates wait, and what is behind them too.
    pub(super) fn advance(
        &mut self,
        raw: &str,
        complete: bool,
        scope: Option<&Scope<'_>>,
        out: &mut String,
    ) {
        let before = out.len();
        self.waits = false;
        let written = self.written;
        loop {
            let Some(open) = self.open else {
                if let Some(open) = next_open(raw, self.scan) {
                    out.push_str(&raw[self.shown..open]);
                    *self = Self { shown: open, scan: open + 2, open: Some(open), ..*self };
                    continue;
                }
                // A last brace could be the first half of a template.
                let held = usize::from(!complete && raw.ends_with('{'));
                let end = (raw.len() - held).max(self.shown);
                out.push_str(&raw[self.shown..end]);
                (self.shown, self.scan) = (end, end.max(self.scan));
                break;
            };
            let Some(found) = raw[self.scan..].find('}') else {
                self.scan = raw.len();
                if complete {
                    self.open = None;
                    continue;
                }
                break;
            };
            let close = self.scan + found;
            let behind = raw.as_bytes().get(close + 1);
            if close > open + 2 && behind.is_none() && !complete {
                self.scan = close;
                break;
            }
            if close == open + 2 || behind != Some(&b'}') {
                // No template after all; the text stays as it is.
                (self.open, self.scan) = (None, close + 1);
                continue;
            }
            let Some(scope) = scope else {
                (self.scan, self.waits) = (close, true);
                break;
            };
            if written + (out.len() - before) < MAX_RESOLVED_BYTES
                && let Some(value) = scope.look_up(raw[open + 2..close].trim())
            {
                template::print(&Cow::into_owned(value), out);
            }
            (self.shown, self.scan, self.open) = (close + 2, close + 2, None);
        }
        self.written = written + (out.len() - before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    const TEXTS: &[&str] = &[
        "",
        "plain",
        "{{n}}",
        "a{{ n }}b",
        "{{{n}}}",
        "{{",
        "{",
        "a{",
        "{{n",
        "{{n}",
        "{{}}",
        "{{}}}",
        "{ {n} }",
        "{{a}b}} {{n}}",
        "{{n}}{{n}}",
        "{{o.{{n}}",
        "x{{missing}}y",
        "{{t}}",
        "é{{n}}é",
        "{{{{n}}}}",
        "{{}{{n}}",
    ];

    #[test]
    fn pieces_of_any_width_show_what_the_whole_text_shows() {
        let state = json!({"n": 1, "t": "{{n}}"});
        let variables = Map::new();
        let state = state.as_object().unwrap();
        let scope = Scope { state, event: None, user_id: "u", variables: &variables };
        for text in TEXTS {
            let want = template::resolve_text(text, &scope);
            for late in [false, true] {
                let (mut cursor, mut out) = (Cursor::default(), String::new());
                for (end, _) in text.char_indices() {
                    let known = (!late).then_some(&scope);
                    cursor.advance(&text[..end], false, known, &mut out);
                    assert!(want.starts_with(&out), "{text}: {out}");
                }
                cursor.advance(text, true, (!late).then_some(&scope), &mut out);
                cursor.advance(text, true, Some(&scope), &mut out);
                assert_eq!(out, want, "{text}");
                assert!(!cursor.waits());
            }
        }
    }

    #[test]
    fn an_open_template_of_any_length_is_looked_at_once() {
        let text = format!("{{{{{}", "a".repeat(200_000));
        let (mut cursor, mut out) = (Cursor::default(), String::new());
        for end in 0..=text.len() {
            cursor.advance(&text[..end], false, None, &mut out);
        }
        cursor.advance(&text, true, None, &mut out);
        assert_eq!(out, text);
    }
}
