//! Escaping: the only way text gets into HTML.

/// Appends text so that a parser reads exactly that text, in content and in quoted attributes.
///
/// Line feeds of other systems are written as references because a parser would change them; the
/// one character HTML cannot hold becomes the replacement character.
pub(crate) fn push(out: &mut String, text: &str) {
    let mut from = 0;
    for (at, &byte) in text.as_bytes().iter().enumerate() {
        if !SPECIAL[byte as usize] {
            continue;
        }
        out.push_str(&text[from..at]);
        out.push_str(match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            b'\r' => "&#13;",
            _ => "\u{fffd}",
        });
        from = at + 1;
    }
    out.push_str(&text[from..]);
}

static SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let bytes = b"&<>\"'\r\0";
    let mut at = 0;
    while at < bytes.len() {
        special[bytes[at] as usize] = true;
        at += 1;
    }
    special
};
