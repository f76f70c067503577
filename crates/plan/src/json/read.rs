//! The reader: one pass over the bytes with an explicit stack.

use super::{Document, Slot, Span};
use crate::codes;
use crate::error::{Code, Error};
use crate::limits::Limits;

/// Objects up to this many members are compared pairwise; larger ones are sorted first.
const PAIRWISE_KEYS: usize = 12;
/// Whole numbers with up to this many digits are exact as doubles.
const EXACT_DIGITS: usize = 15;

pub(super) fn document(text: &str, limits: &Limits) -> Result<Document, Error> {
    if text.len() > limits.bytes {
        return Err(Error::new(codes::TOO_LARGE, "the plan is too long")
            .why(format!("{} bytes, limit {}", text.len(), limits.bytes))
            .with("limit", "bytes")
            .with("max", limits.bytes)
            .with("actual", text.len()));
    }
    let mut pool = String::with_capacity(text.len() + text.len() / 16);
    pool.push_str(text);
    let reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
        pool,
        tape: Vec::with_capacity(text.len() / 8 + 8),
        open: Vec::with_capacity(32),
        keys: Vec::with_capacity(64),
        values: 0,
        limits,
    };
    reader.run()
}

struct Reader<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    pool: String,
    tape: Vec<Slot>,
    open: Vec<Open>,
    /// Keys of all open objects; each object's own begin at its `keys`.
    keys: Vec<Span>,
    values: usize,
    limits: &'t Limits,
}

/// A container whose end has not been seen.
struct Open {
    slot: usize,
    len: u32,
    keys: usize,
    object: bool,
}

/// What follows.
enum Next {
    Value,
    AfterValue,
    Done,
}

impl Reader<'_> {
    fn run(mut self) -> Result<Document, Error> {
        let mut next = Next::Value;
        loop {
            next = match next {
                Next::Value => self.value()?,
                Next::AfterValue => self.after_value()?,
                Next::Done => return Ok(Document { pool: self.pool, tape: self.tape }),
            };
        }
    }

    fn value(&mut self) -> Result<Next, Error> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(self.too_large("values", self.limits.values));
        }
        match self.peek_after_space() {
            Some(b'"') => {
                let span = self.string()?;
                self.tape.push(Slot::Text(span));
            }
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'-' | b'0'..=b'9') => {
                let slot = self.number()?;
                self.tape.push(slot);
            }
            Some(b't') => self.word("true", Slot::Bool(true))?,
            Some(b'f') => self.word("false", Slot::Bool(false))?,
            Some(b'n') => self.word("null", Slot::Null)?,
            _ => return Err(self.invalid("a value is expected")),
        }
        Ok(Next::AfterValue)
    }

    fn open(&mut self, object: bool) -> Result<Next, Error> {
        if self.open.len() >= self.limits.depth {
            return Err(self
                .place(Error::new(codes::TOO_DEEP, "the plan is nested too deeply"))
                .why(format!("limit {} levels of JSON", self.limits.depth))
                .with("limit", "depth")
                .with("max", self.limits.depth));
        }
        self.at += 1;
        self.open.push(Open { slot: self.tape.len(), len: 0, keys: self.keys.len(), object });
        self.tape.push(Slot::Null);
        let close = if object { b'}' } else { b']' };
        if self.peek_after_space() == Some(close) {
            self.at += 1;
            self.close()?;
            return Ok(Next::AfterValue);
        }
        if object {
            self.key()?;
        }
        Ok(Next::Value)
    }

    fn after_value(&mut self) -> Result<Next, Error> {
        let byte = self.peek_after_space();
        let Some(open) = self.open.last_mut() else {
            return if byte.is_none() {
                Ok(Next::Done)
            } else {
                Err(self.invalid("text follows the document"))
            };
        };
        open.len += 1;
        let object = open.object;
        match byte {
            Some(b',') => {
                self.at += 1;
                if object {
                    self.key()?;
                }
                Ok(Next::Value)
            }
            Some(b'}') if object => {
                self.at += 1;
                self.close()?;
                Ok(Next::AfterValue)
            }
            Some(b']') if !object => {
                self.at += 1;
                self.close()?;
                Ok(Next::AfterValue)
            }
            _ => Err(self.invalid("a comma or the end of the container is expected")),
        }
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let end = self.tape_len();
        if open.object {
            self.refuse_duplicates(open.keys)?;
            self.keys.truncate(open.keys);
            self.tape[open.slot] = Slot::Object { len: open.len, end };
        } else {
            self.tape[open.slot] = Slot::Array { len: open.len, end };
        }
        Ok(())
    }

    /// The tape holds at most two entries a value, far below 2^32.
    fn tape_len(&self) -> u32 {
        u32::try_from(self.tape.len()).unwrap_or(u32::MAX)
    }

    fn key(&mut self) -> Result<(), Error> {
        if self.peek_after_space() != Some(b'"') {
            return Err(self.invalid("a key in quotes is expected"));
        }
        let span = self.string()?;
        self.keys.push(span);
        self.tape.push(Slot::Text(span));
        if self.peek_after_space() != Some(b':') {
            return Err(self.invalid("a colon is expected"));
        }
        self.at += 1;
        Ok(())
    }

    fn refuse_duplicates(&self, from: usize) -> Result<(), Error> {
        match duplicate(&self.pool, &self.keys[from..]) {
            None => Ok(()),
            Some(key) => Err(self.place(twice(key))),
        }
    }

    fn string(&mut self) -> Result<Span, Error> {
        self.at += 1;
        let start = self.at;
        self.skip_plain();
        if self.bytes.get(self.at) == Some(&b'"') {
            let span = self.span(start, self.at - start)?;
            self.at += 1;
            return Ok(span);
        }
        let unescaped = self.pool.len();
        let mut from = start;
        loop {
            self.pool.push_str(&self.text[from..self.at]);
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    let character = self.escape()?;
                    self.pool.push(character);
                }
                Some(_) => return Err(self.invalid("a control character must be escaped")),
                None => return Err(self.invalid("the string does not end")),
            }
            from = self.at;
            self.skip_plain();
        }
        self.at += 1;
        self.span(unescaped, self.pool.len() - unescaped)
    }

    fn span(&self, start: usize, len: usize) -> Result<Span, Error> {
        if len > self.limits.string_bytes {
            return Err(self.too_large("string_bytes", self.limits.string_bytes));
        }
        match (u32::try_from(start), u32::try_from(len)) {
            (Ok(start), Ok(len)) => Ok(Span { start, len }),
            _ => Err(self.too_large("bytes", self.limits.bytes)),
        }
    }

    fn skip_plain(&mut self) {
        self.at = plain_end(self.bytes, self.at);
    }

    fn escape(&mut self) -> Result<char, Error> {
        let Some(&kind) = self.bytes.get(self.at + 1) else {
            return Err(self.invalid("the string does not end"));
        };
        let plain = match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(),
            _ => return Err(self.invalid("unknown escape")),
        };
        self.at += 2;
        Ok(plain)
    }

    fn unicode_escape(&mut self) -> Result<char, Error> {
        let first = self.hex(self.at + 2)?;
        self.at += 6;
        let code = if (0xD800..0xDC00).contains(&first) {
            if self.bytes.get(self.at..self.at + 2) != Some(b"\\u") {
                return Err(self.invalid("half of a surrogate pair"));
            }
            let second = self.hex(self.at + 2)?;
            if !(0xDC00..0xE000).contains(&second) {
                return Err(self.invalid("half of a surrogate pair"));
            }
            self.at += 6;
            0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00)
        } else {
            first
        };
        char::from_u32(code).ok_or_else(|| self.invalid("half of a surrogate pair"))
    }

    fn hex(&self, at: usize) -> Result<u32, Error> {
        let digits = self.bytes.get(at..at + 4).unwrap_or_default();
        let mut code = 0;
        for &digit in digits {
            let Some(value) = char::from(digit).to_digit(16) else {
                return Err(self.invalid("four hexadecimal digits are expected"));
            };
            code = code * 16 + value;
        }
        if digits.len() == 4 { Ok(code) } else { Err(self.invalid("the string does not end")) }
    }

    fn number(&mut self) -> Result<Slot, Error> {
        let start = self.at;
        let negative = self.take(b'-');
        let whole = self.at;
        let leading_zero = self.bytes.get(self.at) == Some(&b'0');
        let digits = self.digits()?;
        if leading_zero && digits > 1 {
            return Err(self.invalid("a number has no leading zeros"));
        }
        let mut exact = digits <= EXACT_DIGITS;
        if self.take(b'.') {
            self.digits()?;
            exact = false;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
            exact = false;
        }
        if exact {
            let value = self.bytes[whole..self.at]
                .iter()
                .fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
            return Ok(Slot::Int(if negative { -value } else { value }));
        }
        self.float(start)
    }

    fn float(&self, start: usize) -> Result<Slot, Error> {
        float(&self.text[start..self.at]).ok_or_else(|| {
            self.place(Error::new(codes::NUMBER_NOT_FINITE, "a number is too large"))
        })
    }

    fn digits(&mut self) -> Result<usize, Error> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            Err(self.invalid("a digit is expected"))
        } else {
            Ok(self.at - start)
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str, slot: Slot) -> Result<(), Error> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            self.tape.push(slot);
            return Ok(());
        }
        Err(self.invalid("a value is expected"))
    }

    fn peek_after_space(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    fn too_large(&self, limit: &'static str, max: usize) -> Error {
        self.place(Error::new(codes::TOO_LARGE, "the plan is too large"))
            .why(format!("{limit}: limit {max}"))
            .with("limit", limit)
            .with("max", max)
    }

    fn invalid(&self, why: &str) -> Error {
        self.error(codes::JSON_INVALID, "the plan is not JSON", why)
    }

    fn error(&self, code: Code, what: &str, why: &str) -> Error {
        let (line, column) = self.position();
        self.place(Error::new(code, what)).why(format!("line {line}, column {column}: {why}"))
    }

    fn place(&self, error: Error) -> Error {
        let (line, column) = self.position();
        error.with("line", line).with("column", column)
    }

    fn position(&self) -> (usize, usize) {
        let before = &self.bytes[..self.at.min(self.bytes.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        (line, String::from_utf8_lossy(&before[start..]).chars().count() + 1)
    }
}

/// The next quote, backslash or control character, or the end: eight bytes at a time.
pub(super) fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or([0; 8]));
        let quote = word ^ (ONES * 0x22);
        let slash = word ^ (ONES * 0x5c);
        let found = (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let found = found & HIGH;
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
            return at;
        }
        at += 1;
    }
    at
}

/// A key that appears twice in an object, if there is one. Spans are places in `pool`.
pub(super) fn duplicate<'p>(pool: &'p str, keys: &[Span]) -> Option<&'p str> {
    let bytes = pool.as_bytes();
    let of = |span: Span| &bytes[span.start as usize..][..span.len as usize];
    let twice = if keys.len() <= PAIRWISE_KEYS {
        keys.iter().enumerate().find_map(|(index, &key)| {
            let earlier = &keys[..index];
            earlier.iter().any(|&other| other.len == key.len && of(other) == of(key)).then_some(key)
        })
    } else {
        let mut sorted: Vec<Span> = keys.to_vec();
        sorted.sort_unstable_by_key(|&span| of(span));
        sorted.windows(2).find(|pair| of(pair[0]) == of(pair[1])).map(|pair| pair[0])
    };
    twice.map(|span| &pool[span.start as usize..][..span.len as usize])
}

/// What an error says about a key that appears twice.
pub(super) fn twice(key: &str) -> Error {
    let key: String = key.chars().take(64).collect();
    Error::new(codes::KEY_DUPLICATE, format!("the key {key:?} appears twice"))
}

/// The slot of a number that is written as JSON allows; `None` when no double holds it.
#[expect(clippy::cast_possible_truncation, reason = "guarded: whole and within 2^53")]
pub(super) fn float(text: &str) -> Option<Slot> {
    const MAX_EXACT: f64 = 9_007_199_254_740_991.0;
    let value: f64 = text.parse().unwrap_or(f64::INFINITY);
    if !value.is_finite() {
        return None;
    }
    if value.fract() == 0.0 && value.abs() <= MAX_EXACT {
        return Some(Slot::Int(value as i64));
    }
    Some(Slot::Float(value))
}

#[cfg(test)]
mod tests {
    use super::super::NOT_JSON;
    use super::*;

    fn code(text: &str) -> &'static str {
        document(text, &Limits::default()).map_or_else(|error| error.code(), |_| "ok")
    }

    #[test]
    fn refuses_what_is_not_json() {
        for text in NOT_JSON {
            assert_eq!(code(text), "plan_json_invalid", "{text:?}");
        }
    }

    #[test]
    fn refuses_twins_and_numbers_without_end() {
        assert_eq!(code(r#"{"a":1,"b":{"a":2},"a":3}"#), "plan_key_duplicate");
        assert_eq!(code("{\"a\":1,\"\\u0061\":2}"), "plan_key_duplicate");
        let many: Vec<String> = (0..100).map(|key| format!("\"k{}\":0", key % 99)).collect();
        assert_eq!(code(&format!("{{{}}}", many.join(","))), "plan_key_duplicate");
        assert_eq!(code("1e400"), "plan_number_not_finite");
        assert_eq!(code("-1e400"), "plan_number_not_finite");
        assert_eq!(code("1e-400"), "ok");
        assert_eq!(code(r#"[{"a":1},{"a":1}]"#), "ok");
    }

    #[test]
    fn stops_at_each_limit() {
        let limits =
            Limits { bytes: 64, depth: 3, values: 5, string_bytes: 8, ..Limits::default() };
        for (text, want) in [
            ("[[[1]]]", "ok"),
            ("[[[[1]]]]", "plan_too_deep"),
            ("[1,2,3,4]", "ok"),
            ("[1,2,3,4,5]", "plan_too_large"),
            ("\"12345678\"", "ok"),
            ("\"123456789\"", "plan_too_large"),
            ("\"\\n2345678\\n\"", "plan_too_large"),
        ] {
            let got = document(text, &limits).map_or_else(|error| error.code(), |_| "ok");
            assert_eq!(got, want, "{text}");
        }
        assert_eq!(document(&" ".repeat(65), &limits).unwrap_err().code(), "plan_too_large");
    }

    #[test]
    fn a_hundred_thousand_levels_are_an_error_not_a_crash() {
        assert_eq!(code(&"[".repeat(100_000)), "plan_too_deep");
        assert_eq!(code(&"{\"a\":".repeat(100_000)), "plan_too_deep");
    }
}
