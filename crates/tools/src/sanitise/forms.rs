//! The ways in which a secret shows up in text without being itself.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

/// Every byte string that gives a secret away: the secret, its base64 (alone, and inside longer
/// encoded data at each of the three alignments), hexadecimal, URL-encoded and JSON-escaped forms.
pub(super) fn forms(secret: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([secret.to_vec()]);
    for engine in [&STANDARD, &URL_SAFE] {
        forms.insert(engine.encode(secret).into_bytes());
    }
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        forms.insert(engine.encode(secret).into_bytes());
        forms.extend((0..3).map(|offset| base64_core(engine, secret, offset)));
    }
    for upper in [false, true] {
        forms.insert(secret.iter().flat_map(|byte| hex(*byte, upper)).collect());
        for kept in KEPT_UNENCODED {
            for space in [&b"%20"[..], b"+"] {
                forms.insert(percent_encoded(secret, kept, space, upper));
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(secret) {
        for escape in [json_escaped, json_escaped_ascii] {
            let once = escape(text);
            forms.insert(escape(&once).into_bytes());
            forms.insert(once.into_bytes());
        }
    }
    forms
}

/// Characters beside letters and digits that URL encoders leave alone: none at all, RFC 3986,
/// forms, and the two encoders of ECMAScript. `None` encodes letters and digits, too.
const KEPT_UNENCODED: [Option<&[u8]>; 5] =
    [None, Some(b"-._~"), Some(b"-._*"), Some(b"-._~!'()*"), Some(b"-._~!'()*;/?:@&=+$,#")];

fn percent_encoded(secret: &[u8], kept: Option<&[u8]>, space: &[u8], upper: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(3 * secret.len());
    for byte in secret {
        match kept {
            Some(kept) if byte.is_ascii_alphanumeric() || kept.contains(byte) => out.push(*byte),
            Some(_) if *byte == b' ' => out.extend_from_slice(space),
            _ => {
                out.push(b'%');
                out.extend(hex(*byte, upper));
            }
        }
    }
    out
}

fn hex(byte: u8, upper: bool) -> [u8; 2] {
    let digits = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

/// The base64 characters that the secret alone determines when it begins `offset` bytes into a
/// group of three. The neighbours at either end share bits with other bytes and are left out; they
/// hold less than one character of the secret each.
fn base64_core(engine: &impl base64::Engine, secret: &[u8], offset: usize) -> Vec<u8> {
    let mut padded = vec![0; offset];
    padded.extend_from_slice(secret);
    let encoded = engine.encode(&padded);
    let first = (8 * offset).div_ceil(6);
    let end = 8 * padded.len() / 6;
    encoded.as_bytes()[first..end].to_vec()
}

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// As encoders do that write nothing but ASCII.
fn json_escaped_ascii(text: &str) -> String {
    let mut out = String::new();
    for unit in json_escaped(text).chars() {
        if unit.is_ascii() {
            out.push(unit);
        } else {
            let mut buffer = [0; 2];
            for half in unit.encode_utf16(&mut buffer) {
                out.push_str(&format!("\\u{half:04x}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(secret: &str, form: &str) -> bool {
        forms(secret.as_bytes()).contains(form.as_bytes())
    }

    #[test]
    fn known_forms() {
        assert!(has("p@ss w/rd", "p@ss w/rd"));
        assert!(has("p@ss w/rd", "cEBzcyB3L3Jk"));
        assert!(has("p@ss w/rd", "7040737320772f7264"));
        assert!(has("p@ss w/rd", "7040737320772F7264"));
        assert!(has("p@ss w/rd", "p%40ss%20w%2Frd"));
        assert!(has("p@ss w/rd", "p%40ss+w%2frd"));
        assert!(has("p@ss w/rd", "p@ss%20w/rd"));
        assert!(has("a\"b\\c\nd", r#"a\"b\\c\nd"#));
        assert!(has("a\"b", r#"a\\\"b"#));
        assert!(has("schlüssel", "schl\\u00fcssel"));
    }

    #[test]
    fn a_core_is_in_every_encoding_around_the_secret() {
        let secret = b"correct horse";
        for offset in 0..3 {
            let core = base64_core(&STANDARD_NO_PAD, secret, offset);
            assert!(core.len() * 6 + 10 > secret.len() * 8, "the core misses too much");
            for tail in 0..3 {
                for filler in [0_u8, 0xFF, b'x'] {
                    let mut data = vec![filler; offset + 3];
                    data.extend_from_slice(secret);
                    data.extend(vec![filler; tail]);
                    let encoded = STANDARD.encode(&data);
                    let core = std::str::from_utf8(&core).unwrap();
                    assert!(encoded.contains(core), "{encoded} {core}");
                }
            }
        }
    }
}
