//! The two streams: data on stdout, everything for people on stderr.
//!
//! A reader that went away (`glasshouse … | head`) is no failure, so writing never panics.

use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

mod visible;

use self::visible::is_hidden;
pub(crate) use self::visible::visible;

/// Whether data was lost on its way out: a full disk behind a redirection, for instance.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether some data could not be written. A reader that went away lost nothing it wanted.
pub(crate) fn lost_data() -> bool {
    LOST.load(Ordering::Relaxed) || flush_failed()
}

fn flush_failed() -> bool {
    std::io::stdout().lock().flush().is_err_and(|e| e.kind() != ErrorKind::BrokenPipe)
}

fn note_loss(result: std::io::Result<()>) {
    if result.is_err_and(|e| e.kind() != ErrorKind::BrokenPipe) {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// One line of data.
pub(crate) fn data(line: &str) {
    note_loss(writeln!(std::io::stdout().lock(), "{line}"));
}

/// Markup of a plan, byte for byte; on a terminal without what would move the cursor or hide text.
pub(crate) fn markup(markup: &str) {
    if std::io::stdout().is_terminal() { data(&visible(markup, true)) } else { data(markup) }
}

/// One object as a line of data. Characters that a terminal obeys or does not show are written as escapes, which say
/// the same to whoever reads the JSON.
pub(crate) fn json_line(value: &impl Serialize) {
    data(&without_controls(serde_json::to_string(value).unwrap_or_default()));
}

/// JSON text whose strings hold none of the characters that a terminal obeys or does not show. The writer of JSON
/// escapes those below U+0020 itself.
pub(crate) fn without_controls(json: String) -> String {
    let obeyed = |c: char| c != '\n' && is_hidden(c);
    if !json.contains(obeyed) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match obeyed(c) {
            // JSON writes the high characters in two halves.
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|half| {
                out.push_str(&format!("\\u{half:04x}"));
            }),
            false => out.push(c),
        }
    }
    out
}

/// Bytes of data, exactly. `false` when nobody reads them any more.
pub(crate) fn bytes(bytes: &[u8]) -> bool {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    let is_read = !written.as_ref().is_err_and(|e| e.kind() == ErrorKind::BrokenPipe);
    note_loss(written);
    is_read
}

/// One line for people.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Text for people without a line end.
pub(crate) fn note_text(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
    let _ = stderr.flush();
}

/// Whether notes may be coloured: a terminal, and `NO_COLOR` is unset. Colour never carries meaning
/// alone.
pub(crate) fn colour() -> bool {
    std::io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// A number of things, of which one is one.
pub(crate) fn counted(number: impl TryInto<u64>, thing: &str) -> String {
    match number.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// A style for notes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Needs attention.
    Warn,
    /// Less important.
    Dim,
}

/// Wraps text in a style where colours are shown.
pub(crate) fn styled(text: &str, style: Style) -> String {
    if !colour() {
        return text.to_owned();
    }
    let code = match style {
        Style::Good => "32",
        Style::Bad => "31",
        Style::Warn => "33",
        Style::Dim => "2",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::{counted, without_controls};

    #[test]
    fn one_thing_is_one() {
        let check = |number: usize, expected: &str| assert_eq!(counted(number, "plan"), expected);
        check(0, "0 plans");
        check(1, "1 plan");
        check(2, "2 plans");
    }

    #[test]
    fn json_says_the_same_without_what_a_terminal_obeys() {
        for text in [
            "plain",
            "a\u{200b}\u{e0041}b",
            "a\u{9b}31m",
            "a\u{7f}\u{202e}b",
            "\u{1b}[2J\n",
            "é\u{85}",
        ] {
            let json = without_controls(serde_json::to_string(&[text]).unwrap());
            assert!(!json.contains(|c: char| c.is_control() || super::is_hidden(c)), "{json:?}");
            assert_eq!(serde_json::from_str::<[String; 1]>(&json).unwrap(), [text]);
        }
    }
}
