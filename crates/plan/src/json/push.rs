//! The push reader: makes the same tape as the one-pass reader, from text that arrives in pieces.
//!
//! Every byte is looked at once, wherever the pieces are cut: the state between two pieces is a few
//! words, also in the middle of an escape or a number.

use super::read::{duplicate, float, plain_end, twice};
use super::{Document, Slot, Span};
use crate::codes;
use crate::error::{Code, Error};
use crate::limits::Limits;

/// Whole numbers with up to this many characters, a sign counted, are exact as doubles.
const EXACT_CHARACTERS: usize = 15;

/// How much of a container its receiver wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Its members one by one.
    Members,
    /// Nothing before it is closed.
    Whole,
}

/// Receives what a [`PushReader`] finds. Indexes are places on the document's tape.
pub(crate) trait Sink {
    /// A member's key is complete.
    fn key(&mut self, key: &str) -> Result<(), Error>;
    /// A container begins.
    fn open(&mut self, at: u32, object: bool) -> Result<Interest, Error>;
    /// A value is complete; in a container whose members are seen, one call for each.
    fn value(&mut self, document: &Document, at: u32) -> Result<(), Error>;
    /// The value that is being read is a text that so far holds this.
    fn partial(&mut self, so_far: &str) -> Result<(), Error>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    /// A value, or the end of an array that has none.
    FirstItem,
    /// A key, or the end of an object that has none.
    FirstKey,
    Key,
    Colon,
    AfterValue,
    Text {
        key: bool,
        escape: Escape,
    },
    Number(Number),
    Word {
        word: &'static str,
        matched: usize,
    },
    Done,
}

/// Where in an escape the text was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    None,
    Slash,
    /// Digits so far, their value, and the first half of a surrogate pair before them.
    Hex {
        digits: u8,
        code: u32,
        high: Option<u32>,
    },
    LowSlash(u32),
    LowLetter(u32),
}

/// What was read last in a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    E,
    Sign,
    Exponent,
}

struct Open {
    slot: u32,
    len: u32,
    keys: usize,
    object: bool,
}

/// Reads one JSON value from pieces of text. How long the text is altogether is for the caller to
/// limit.
pub(crate) struct PushReader {
    document: Document,
    open: Vec<Open>,
    /// Keys of all open objects; each object's own begin at its `keys`.
    keys: Vec<Span>,
    state: State,
    /// Where the text under way begins in the pool.
    start: usize,
    /// Characters of the number under way.
    number: String,
    /// Containers that are open where the receiver stopped looking.
    muted: Option<usize>,
    values: usize,
    line: usize,
    limits: Limits,
}

impl PushReader {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            document: Document { pool: String::new(), tape: Vec::new() },
            open: Vec::with_capacity(32),
            keys: Vec::with_capacity(64),
            state: State::Value,
            start: 0,
            number: String::new(),
            muted: None,
            values: 0,
            line: 1,
            limits: limits.clamped(),
        }
    }

    /// Whether the value is complete.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    pub(crate) fn into_document(self) -> Document {
        self.document
    }

    /// The error for a text that ends here.
    pub(crate) fn incomplete(&self) -> Error {
        self.error(codes::INCOMPLETE, "the plan is incomplete", "the text ended inside it")
    }

    /// Reads a piece and answers how much of it belongs to the value; less than all only when the
    /// value is complete.
    pub(crate) fn push(&mut self, piece: &str, sink: &mut impl Sink) -> Result<usize, Error> {
        let read = self.read(piece, sink);
        // Also when the text breaks here: what is shown must not depend on where pieces are cut.
        if let State::Text { key: false, .. } = self.state
            && self.muted.is_none()
        {
            sink.partial(&self.document.pool[self.start..])?;
        }
        read
    }

    fn read(&mut self, piece: &str, sink: &mut impl Sink) -> Result<usize, Error> {
        let bytes = piece.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.state {
                State::Done => break,
                State::Text { key, escape: Escape::None } => {
                    at = self.plain(piece, at, key, sink)?;
                }
                State::Text { key, escape } => {
                    self.escape(byte, key, escape)?;
                    at += 1;
                }
                State::Number(number) => {
                    // The byte behind a number is looked at again, as what it is.
                    at += usize::from(self.digit(byte, number, sink)?);
                }
                State::Word { word, matched } => {
                    self.letter(byte, word, matched, sink)?;
                    at += 1;
                }
                _ => {
                    if matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                        self.line += usize::from(byte == b'\n');
                    } else {
                        self.mark(byte, sink)?;
                    }
                    at += 1;
                }
            }
        }
        Ok(at)
    }

    /// A byte between values.
    fn mark(&mut self, byte: u8, sink: &mut impl Sink) -> Result<(), Error> {
        match (self.state, byte) {
            (State::FirstItem, b']') | (State::FirstKey, b'}') => self.close(sink),
            (State::Value | State::FirstItem, _) => self.begin(byte, sink),
            (State::FirstKey | State::Key, b'"') => {
                self.start = self.document.pool.len();
                self.state = State::Text { key: true, escape: Escape::None };
                Ok(())
            }
            (State::FirstKey | State::Key, _) => Err(self.invalid("a key in quotes is expected")),
            (State::Colon, b':') => {
                self.state = State::Value;
                Ok(())
            }
            (State::Colon, _) => Err(self.invalid("a colon is expected")),
            _ => match (byte, self.open.last().is_some_and(|open| open.object)) {
                (b',', object) => {
                    self.state = if object { State::Key } else { State::Value };
                    Ok(())
                }
                (b'}', true) | (b']', false) => self.close(sink),
                _ => Err(self.invalid("a comma or the end of the container is expected")),
            },
        }
    }

    /// The first byte of a value.
    fn begin(&mut self, byte: u8, sink: &mut impl Sink) -> Result<(), Error> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(self.too_large("values", self.limits.values));
        }
        self.state = match byte {
            b'{' | b'[' => return self.enter(byte == b'{', sink),
            b'"' => {
                self.start = self.document.pool.len();
                State::Text { key: false, escape: Escape::None }
            }
            b'-' | b'0'..=b'9' => {
                self.number.clear();
                self.number.push(char::from(byte));
                State::Number(match byte {
                    b'-' => Number::Minus,
                    b'0' => Number::Zero,
                    _ => Number::Whole,
                })
            }
            b't' => State::Word { word: "true", matched: 1 },
            b'f' => State::Word { word: "false", matched: 1 },
            b'n' => State::Word { word: "null", matched: 1 },
            _ => return Err(self.invalid("a value is expected")),
        };
        Ok(())
    }

    fn enter(&mut self, object: bool, sink: &mut impl Sink) -> Result<(), Error> {
        if self.open.len() >= self.limits.depth {
            let why = format!("limit {} levels of JSON", self.limits.depth);
            return Err(self
                .error(codes::TOO_DEEP, "the plan is nested too deeply", &why)
                .with("limit", "depth")
                .with("max", self.limits.depth));
        }
        let slot = self.tape_len();
        self.open.push(Open { slot, len: 0, keys: self.keys.len(), object });
        self.document.tape.push(Slot::Null);
        if self.muted.is_none() && sink.open(slot, object)? == Interest::Whole {
            self.muted = Some(self.open.len());
        }
        self.state = if object { State::FirstKey } else { State::FirstItem };
        Ok(())
    }

    fn close(&mut self, sink: &mut impl Sink) -> Result<(), Error> {
        if self.muted == Some(self.open.len()) {
            self.muted = None;
        }
        let Some(open) = self.open.pop() else { return Ok(()) };
        let end = self.tape_len();
        let slot = if open.object {
            if let Some(key) = duplicate(&self.document.pool, &self.keys[open.keys..]) {
                return Err(self.place(twice(key)));
            }
            self.keys.truncate(open.keys);
            Slot::Object { len: open.len, end }
        } else {
            Slot::Array { len: open.len, end }
        };
        self.document.tape[open.slot as usize] = slot;
        self.complete(open.slot, sink)
    }

    fn scalar(&mut self, slot: Slot, sink: &mut impl Sink) -> Result<(), Error> {
        let at = self.tape_len();
        self.document.tape.push(slot);
        self.complete(at, sink)
    }

    fn complete(&mut self, at: u32, sink: &mut impl Sink) -> Result<(), Error> {
        self.state = match self.open.last_mut() {
            None => State::Done,
            Some(open) => {
                open.len += 1;
                State::AfterValue
            }
        };
        if self.muted.is_none() { sink.value(&self.document, at) } else { Ok(()) }
    }

    /// A run of plain characters, and the quote or the beginning of an escape behind it.
    fn plain(
        &mut self,
        piece: &str,
        from: usize,
        key: bool,
        sink: &mut impl Sink,
    ) -> Result<usize, Error> {
        let bytes = piece.as_bytes();
        let at = plain_end(bytes, from);
        let mut room = self.limits.string_bytes - (self.document.pool.len() - self.start);
        if at - from > room {
            while !piece.is_char_boundary(from + room) {
                room -= 1;
            }
            self.document.pool.push_str(&piece[from..from + room]);
            return Err(self.too_large("string_bytes", self.limits.string_bytes));
        }
        self.document.pool.push_str(&piece[from..at]);
        match bytes.get(at) {
            None => return Ok(at),
            Some(b'\\') => self.state = State::Text { key, escape: Escape::Slash },
            Some(b'"') => self.end_text(key, sink)?,
            Some(_) => return Err(self.invalid("a control character must be escaped")),
        }
        Ok(at + 1)
    }

    fn end_text(&mut self, key: bool, sink: &mut impl Sink) -> Result<(), Error> {
        let len = self.document.pool.len() - self.start;
        let (Ok(start), Ok(len)) = (u32::try_from(self.start), u32::try_from(len)) else {
            return Err(self.too_large("bytes", self.limits.bytes));
        };
        let span = Span { start, len };
        if !key {
            return self.scalar(Slot::Text(span), sink);
        }
        self.keys.push(span);
        self.document.tape.push(Slot::Text(span));
        self.state = State::Colon;
        if self.muted.is_none() { sink.key(self.document.text(span)) } else { Ok(()) }
    }

    fn escape(&mut self, byte: u8, key: bool, escape: Escape) -> Result<(), Error> {
        let next = match escape {
            Escape::None => Escape::None,
            Escape::Slash if byte == b'u' => Escape::Hex { digits: 0, code: 0, high: None },
            Escape::Slash => {
                let plain = match byte {
                    b'"' | b'\\' | b'/' => char::from(byte),
                    b'b' => '\u{8}',
                    b'f' => '\u{c}',
                    b'n' => '\n',
                    b'r' => '\r',
                    b't' => '\t',
                    _ => return Err(self.invalid("unknown escape")),
                };
                self.unescaped(plain)?;
                Escape::None
            }
            Escape::LowSlash(high) if byte == b'\\' => Escape::LowLetter(high),
            Escape::LowLetter(high) if byte == b'u' => {
                Escape::Hex { digits: 0, code: 0, high: Some(high) }
            }
            Escape::LowSlash(_) | Escape::LowLetter(_) => {
                return Err(self.invalid("half of a surrogate pair"));
            }
            Escape::Hex { digits, code, high } => {
                let Some(digit) = char::from(byte).to_digit(16) else {
                    return Err(self.invalid("four hexadecimal digits are expected"));
                };
                let code = code * 16 + digit;
                if digits < 3 {
                    Escape::Hex { digits: digits + 1, code, high }
                } else {
                    self.code_unit(code, high)?
                }
            }
        };
        self.state = State::Text { key, escape: next };
        Ok(())
    }

    fn code_unit(&mut self, code: u32, high: Option<u32>) -> Result<Escape, Error> {
        let code = match high {
            None if (0xD800..0xDC00).contains(&code) => return Ok(Escape::LowSlash(code)),
            None => code,
            Some(high) if (0xDC00..0xE000).contains(&code) => {
                0x1_0000 + ((high - 0xD800) << 10) + (code - 0xDC00)
            }
            Some(_) => return Err(self.invalid("half of a surrogate pair")),
        };
        let character =
            char::from_u32(code).ok_or_else(|| self.invalid("half of a surrogate pair"))?;
        self.unescaped(character)?;
        Ok(Escape::None)
    }

    fn unescaped(&mut self, character: char) -> Result<(), Error> {
        let len = self.document.pool.len() - self.start + character.len_utf8();
        if len > self.limits.string_bytes {
            return Err(self.too_large("string_bytes", self.limits.string_bytes));
        }
        self.document.pool.push(character);
        Ok(())
    }

    /// A byte in or behind a number; whether it belonged to it.
    fn digit(&mut self, byte: u8, number: Number, sink: &mut impl Sink) -> Result<bool, Error> {
        use Number::{E, Exponent, Fraction, Minus, Point, Sign, Whole, Zero};
        let next = match (number, byte) {
            (Minus, b'0') => Zero,
            (Minus, b'1'..=b'9') | (Whole, b'0'..=b'9') => Whole,
            (Zero, b'0'..=b'9') => return Err(self.invalid("a number has no leading zeros")),
            (Zero | Whole, b'.') => Point,
            (Point | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Whole | Fraction, b'e' | b'E') => E,
            (E, b'+' | b'-') => Sign,
            (E | Sign | Exponent, b'0'..=b'9') => Exponent,
            (Zero | Whole | Fraction | Exponent, _) => {
                let slot = self.number_slot(number)?;
                self.scalar(slot, sink)?;
                return Ok(false);
            }
            _ => return Err(self.invalid("a digit is expected")),
        };
        self.number.push(char::from(byte));
        self.state = State::Number(next);
        Ok(true)
    }

    fn number_slot(&self, last: Number) -> Result<Slot, Error> {
        let whole = matches!(last, Number::Zero | Number::Whole);
        if whole && self.number.len() <= EXACT_CHARACTERS {
            return Ok(Slot::Int(self.number.parse().unwrap_or(0)));
        }
        float(&self.number).ok_or_else(|| {
            self.place(Error::new(codes::NUMBER_NOT_FINITE, "a number is too large"))
        })
    }

    fn letter(
        &mut self,
        byte: u8,
        word: &'static str,
        matched: usize,
        sink: &mut impl Sink,
    ) -> Result<(), Error> {
        if word.as_bytes().get(matched) != Some(&byte) {
            return Err(self.invalid("a value is expected"));
        }
        let matched = matched + 1;
        if matched < word.len() {
            self.state = State::Word { word, matched };
            return Ok(());
        }
        let slot = match word {
            "true" => Slot::Bool(true),
            "false" => Slot::Bool(false),
            _ => Slot::Null,
        };
        self.scalar(slot, sink)
    }

    fn tape_len(&self) -> u32 {
        u32::try_from(self.document.tape.len()).unwrap_or(u32::MAX)
    }

    fn too_large(&self, limit: &'static str, max: usize) -> Error {
        self.error(codes::TOO_LARGE, "the plan is too large", &format!("{limit}: limit {max}"))
            .with("limit", limit)
            .with("max", max)
    }

    fn invalid(&self, why: &str) -> Error {
        self.error(codes::JSON_INVALID, "the plan is not JSON", why)
    }

    fn error(&self, code: Code, what: &str, why: &str) -> Error {
        self.place(Error::new(code, what).why(format!("line {}: {why}", self.line)))
    }

    fn place(&self, error: Error) -> Error {
        error.with("line", self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::super::NOT_JSON;
    use super::*;
    use serde_json::Value;

    struct Nothing;

    impl Sink for Nothing {
        fn key(&mut self, _: &str) -> Result<(), Error> {
            Ok(())
        }

        fn open(&mut self, _: u32, _: bool) -> Result<Interest, Error> {
            Ok(Interest::Members)
        }

        fn value(&mut self, _: &Document, _: u32) -> Result<(), Error> {
            Ok(())
        }

        fn partial(&mut self, _: &str) -> Result<(), Error> {
            Ok(())
        }
    }

    /// Reads a text in pieces of this many characters.
    fn read(text: &str, width: usize) -> Result<Value, &'static str> {
        let limits = Limits::default();
        let mut reader = PushReader::new(&limits);
        let characters: Vec<char> = text.chars().collect();
        let mut used = 0;
        for piece in characters.chunks(width) {
            let piece: String = piece.iter().collect();
            used += reader.push(&piece, &mut Nothing).map_err(|error| error.code())?;
        }
        // A number at the very end of a text ends with it.
        used += usize::from(reader.push(" ", &mut Nothing).map_err(|error| error.code())? == 0);
        match reader.is_done() {
            true if text[used.min(text.len())..].trim().is_empty() => {
                Ok(reader.into_document().root().to_value())
            }
            true => Err("plan_json_invalid"),
            false => Err("plan_incomplete"),
        }
    }

    #[test]
    fn pieces_of_any_width_give_what_the_whole_gives() {
        for text in [
            "null",
            "-0.5e+3",
            "[]",
            "{}",
            "[[],{},[{}],0,12345678901234567890,-1,1e2,true,false]",
            r#"{"a":{"b":[1,2,{"c":null}]},"d":[],"e":{}}"#,
            r#"["a\"\\\/\b\f\n\r\t\u0041\ud83d\ude00é😀",""]"#,
            " { \"k\" : [ true , false ] } ",
        ] {
            let whole = Document::parse(text, &Limits::default()).unwrap().root().to_value();
            for width in 1..=text.chars().count() {
                assert_eq!(read(text, width), Ok(whole.clone()), "{text} in {width}");
            }
        }
    }

    #[test]
    fn refuses_what_the_whole_reader_refuses() {
        for text in NOT_JSON.iter().chain(&["nul!", "{\"a\":1,\"\\u0061\":2}", "1e400"]) {
            for width in [1, 2, 100] {
                assert!(read(text, width).is_err(), "{text} in {width}");
            }
        }
    }
}
