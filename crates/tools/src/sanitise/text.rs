//! The text of a result that a model reads.

use std::fmt::Write as _;

use glasshouse_model::Digest;

/// Smallest limit: the mark of a cut and some text around it must fit.
pub const MIN_TEXT_LIMIT_BYTES: usize = 256;
/// Most bytes of the mark of a cut.
const MARK_BYTES: usize = 160;
/// Bytes at the start that decide whether a result is binary.
const BINARY_PROBE_BYTES: usize = 8 << 10;
/// A result with more than one byte in this many that is no text is binary.
const BINARY_ONE_IN: usize = 8;

/// Which part of a text is kept if it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// The beginning: files, lists.
    Head,
    /// The end: test runs, where the verdict comes last.
    Tail,
    /// Beginning and end: commands.
    Middle,
}

/// A text for a model, and what was done to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelText {
    /// The text, at most the limit long.
    pub text: String,
    /// Whether something was left out.
    pub truncated: bool,
    /// Bytes of the whole result.
    pub total_bytes: u64,
    /// Digest of the whole result if something was left out; it is found by it.
    pub digest: Option<Digest>,
    /// Place of the first byte that begins no valid character.
    pub not_utf8_offset: Option<u64>,
    /// Whether the result is no text at all and the text only says so.
    pub binary: bool,
}

/// Makes the text that a model reads of a result that was masked before.
///
/// At most `limit_bytes` long, [`MIN_TEXT_LIMIT_BYTES`] at least; cut between characters, with a
/// mark that tells how much is missing and the whole's digest. Nothing invisible gets through: a
/// byte that is no character becomes `\xNN`, a control character its picture (`␛` for escape), and
/// characters that hide or reorder text become `\u{NNNN}`. Line ends and tabs stay.
///
/// ```
/// use glasshouse_tools::sanitise::{Strategy, model_text};
///
/// let seen = model_text(b"\x1b[31mred\xff", 1000, Strategy::Head);
/// assert_eq!(seen.text, "\u{241b}[31mred\\xff");
/// assert_eq!(seen.not_utf8_offset, Some(8));
/// ```
#[must_use]
pub fn model_text(bytes: &[u8], limit_bytes: usize, strategy: Strategy) -> ModelText {
    let limit = limit_bytes.max(MIN_TEXT_LIMIT_BYTES);
    let decoded = std::str::from_utf8(bytes);
    let mut seen = ModelText {
        text: String::new(),
        truncated: false,
        total_bytes: bytes.len() as u64,
        digest: None,
        not_utf8_offset: decoded.err().map(|error| error.valid_up_to() as u64),
        binary: false,
    };
    if let Some(text) = decoded.ok().filter(|text| text.len() <= limit && is_plain(text)) {
        seen.text = text.to_owned();
        return seen;
    }
    seen.binary = is_binary(bytes);
    if !seen.binary && fits(bytes, limit) {
        seen.text = rendered(bytes, 0, bytes.len());
        return seen;
    }
    let digest = Digest::of(bytes);
    seen.text = match seen.binary {
        true => format!("[binary: {} bytes, {digest}]", bytes.len()),
        false => cut(bytes, limit, strategy, &digest),
    };
    seen.truncated = true;
    seen.digest = Some(digest);
    seen
}

/// Whether a text is shown as it is; says no for some that are.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\n' | b'\t'))
}

/// Whether the whole can be shown. Rendering never shortens.
fn fits(bytes: &[u8], limit: usize) -> bool {
    bytes.len() <= limit
        && units(bytes, 0, bytes.len()).iter().map(|unit| unit.width).sum::<usize>() <= limit
}

fn is_binary(bytes: &[u8]) -> bool {
    let probe = &bytes[..bytes.len().min(BINARY_PROBE_BYTES)];
    let chunks = probe.utf8_chunks();
    let bad: usize = chunks.map(|chunk| chunk.invalid().len()).sum();
    let nul = probe.iter().filter(|byte| **byte == 0).count();
    (bad + nul) * BINARY_ONE_IN > probe.len()
}

/// The parts that the strategy keeps, with a mark between or beside them.
fn cut(bytes: &[u8], limit: usize, strategy: Strategy, digest: &Digest) -> String {
    // Rendering never shortens, so no more than `limit` bytes at either end can be shown.
    let room = limit - MARK_BYTES;
    let (head_room, tail_room) = match strategy {
        Strategy::Head => (room, 0),
        Strategy::Tail => (0, room),
        Strategy::Middle => (room / 2, room - room / 2),
    };
    let head_end = fitting(units(bytes, 0, bytes.len().min(limit)).into_iter(), head_room)
        .map_or(0, |unit| unit.end);
    let tail_units = units(bytes, bytes.len().saturating_sub(limit).max(head_end), bytes.len());
    let tail_start =
        fitting(tail_units.into_iter().rev(), tail_room).map_or(bytes.len(), |unit| unit.start);
    let mut text = rendered(bytes, 0, head_end);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let missing = tail_start - head_end;
    let _ = write!(text, "[{missing} of {} bytes left out; whole: {digest}]", bytes.len());
    if tail_start < bytes.len() {
        text.push('\n');
    }
    text.push_str(&rendered(bytes, tail_start, bytes.len()));
    text
}

/// One character or one bad byte: where it is and how many bytes its rendering has.
#[derive(Debug, Clone, Copy)]
struct Unit {
    start: usize,
    end: usize,
    width: usize,
}

/// The last of the units, taken in order, that together fit the room.
fn fitting(units: impl Iterator<Item = Unit>, room: usize) -> Option<Unit> {
    let mut used = 0;
    units
        .take_while(|unit| {
            used += unit.width;
            used <= room
        })
        .last()
}

/// The units of `bytes[start..end]`; a character cut in two by either end is left out.
fn units(bytes: &[u8], start: usize, end: usize) -> Vec<Unit> {
    let mut units = Vec::new();
    let (start, end) = (whole_character(bytes, start), whole_character(bytes, end));
    each(bytes, start, end, |start, end, piece| {
        units.push(Unit { start, end, width: piece.width() });
    });
    units
}

fn rendered(bytes: &[u8], start: usize, end: usize) -> String {
    let mut text = String::new();
    each(bytes, start, end, |_, _, piece| piece.render(&mut text));
    text
}

/// The place itself, or the start of the valid character that the place is inside of.
fn whole_character(bytes: &[u8], place: usize) -> usize {
    let earliest = place.saturating_sub(3);
    (earliest..place)
        .rev()
        .take_while(|start| bytes.get(start + 1).is_some_and(|next| next & 0xC0 == 0x80))
        .find(|&start| {
            let rest = &bytes[start..bytes.len().min(start + 4)];
            let first = rest.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
            first.is_some_and(|character| start + character.len_utf8() > place)
        })
        .unwrap_or(place)
}

/// What a reader sees of one character or bad byte.
enum Piece {
    CrLf,
    Plain(char),
    Picture(char),
    Code(char),
    Byte(u8),
}

impl Piece {
    fn of(character: char) -> Self {
        match character {
            '\n' | '\t' => Self::Plain(character),
            '\0'..='\u{1f}' | '\u{7f}' => Self::Picture(match character {
                '\u{7f}' => '\u{2421}',
                low => char::from_u32(0x2400 + u32::from(low)).unwrap_or('\u{fffd}'),
            }),
            // C1 controls; soft hyphen; direction marks, overrides and isolates; line and
            // paragraph separators; invisible operators; byte order mark; tag characters.
            '\u{80}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}' => Self::Code(character),
            plain => Self::Plain(plain),
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::CrLf => 2,
            Self::Plain(character) | Self::Picture(character) => character.len_utf8(),
            Self::Code(character) => 4 + format!("{:x}", u32::from(*character)).len(),
            Self::Byte(_) => 4,
        }
    }

    fn render(&self, text: &mut String) {
        match self {
            Self::CrLf => text.push_str("\r\n"),
            Self::Plain(character) | Self::Picture(character) => text.push(*character),
            Self::Code(character) => {
                let _ = write!(text, "\\u{{{:x}}}", u32::from(*character));
            }
            Self::Byte(byte) => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
}

fn each(bytes: &[u8], start: usize, end: usize, mut see: impl FnMut(usize, usize, &Piece)) {
    let mut at = start;
    for chunk in bytes[start..end].utf8_chunks() {
        let mut characters = chunk.valid().chars().peekable();
        while let Some(character) = characters.next() {
            let (piece, length) = match character {
                '\r' if characters.next_if_eq(&'\n').is_some() => (Piece::CrLf, 2),
                _ => (Piece::of(character), character.len_utf8()),
            };
            see(at, at + length, &piece);
            at += length;
        }
        for byte in chunk.invalid() {
            see(at, at + 1, &Piece::Byte(*byte));
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRATEGIES: [Strategy; 3] = [Strategy::Head, Strategy::Tail, Strategy::Middle];

    #[test]
    fn what_is_invisible_becomes_visible() {
        let check = |bytes: &[u8], expected: &str| {
            for strategy in STRATEGIES {
                let seen = model_text(bytes, 1000, strategy);
                assert_eq!((seen.text.as_str(), seen.truncated), (expected, false));
            }
        };
        check(b"", "");
        check(b"a\tb\nc\r\n", "a\tb\nc\r\n");
        check("grün ─ 🦀".as_bytes(), "grün ─ 🦀");
        check(b"50%\r100%", "50%\u{240d}100%");
        check(b"enough text around one \0 byte", "enough text around one \u{2400} byte");
        check(b"\x1b]0;title\x07 plain text", "\u{241b}]0;title\u{2407} plain text");
        check(b"enough plain text before \xff", "enough plain text before \\xff");
        check("a\u{202e}b\u{200b}c\u{e0041}".as_bytes(), "a\\u{202e}b\\u{200b}c\\u{e0041}");
        check("\u{85}\u{7f}".as_bytes(), "\\u{85}\u{2421}");
        check("👩\u{200d}🚀".as_bytes(), "👩\u{200d}🚀");
    }

    #[test]
    fn binary_results_are_named_not_shown() {
        let seen = model_text(&[0_u8; 5000], 1000, Strategy::Head);
        assert!(seen.binary && seen.truncated);
        assert_eq!(seen.text, format!("[binary: 5000 bytes, {}]", Digest::of(&[0_u8; 5000])));
        let seen = model_text(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", 1000, Strategy::Head);
        assert!(seen.binary);
    }

    /// Case H1: the limit falls inside a character.
    #[test]
    fn a_cut_never_splits_a_character() {
        let limit = 1000;
        for shift in 0..8 {
            for strategy in STRATEGIES {
                let content = format!("{}{}", "a".repeat(limit - 1 - shift), "─".repeat(900));
                let seen = model_text(content.as_bytes(), limit, strategy);
                assert!(seen.truncated && seen.text.len() <= limit);
                assert_eq!(seen.total_bytes, content.len() as u64);
                let digest = Digest::of(content.as_bytes());
                assert_eq!(seen.digest, Some(digest));
                assert_eq!(seen.not_utf8_offset, None);
                assert!(!seen.text.contains("\\x"), "{}", seen.text);
                assert!(seen.text.contains(&digest.to_string()));
                let head = strategy == Strategy::Tail || seen.text.starts_with("aaaa");
                let tail = strategy == Strategy::Head || seen.text.ends_with("──");
                assert!(head && tail, "{strategy:?}");
            }
        }
    }

    #[test]
    fn the_missing_part_is_counted() {
        let content: Vec<u8> = (0..4000).map(|i| b'a' + u8::try_from(i % 26).unwrap()).collect();
        for strategy in STRATEGIES {
            let text = model_text(&content, 1000, strategy).text;
            let (before, rest) = text.split_once('[').unwrap();
            let (mark, after) = rest.split_once(']').unwrap();
            let missing: usize = mark.split(' ').next().unwrap().parse().unwrap();
            let shown = before.trim_end().len() + after.trim_start().len();
            assert_eq!(missing + shown, content.len(), "{strategy:?}");
            assert!(content.starts_with(before.trim_end().as_bytes()));
            assert!(content.ends_with(after.trim_start().as_bytes()));
        }
    }
}
