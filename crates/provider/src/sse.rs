//! A push parser for `text/event-stream`: bytes go in as they arrive, whole events come out.
//!
//! It follows the WHATWG rules (three line ends, one leading byte order mark, comments, data over
//! several lines) with two differences, both to fail instead of guessing: bytes that are not UTF-8
//! are an error rather than a replacement character, and lines and events have a size limit.

use memchr::memchr2;

use crate::{Error, codes};

/// Longest line and largest event in bytes. One event of a model stream can hold a whole file as
/// one argument; 8 MiB is far above any output limit in use, and small enough to hold.
pub(crate) const MAX_EVENT_BYTES: usize = 8 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    /// The `event` field, empty when there was none.
    pub(crate) name: &'a str,
    /// The `data` fields, joined by line feeds.
    pub(crate) data: &'a str,
}

/// Takes events as they become whole.
pub(crate) type OnEvent<'a> = dyn FnMut(Event<'_>) -> Result<(), Error> + 'a;

/// The parser's state between two pieces of input.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    /// The start of a line whose end has not come yet.
    line: Vec<u8>,
    /// The last line ended with CR, so an LF right after it belongs to that end.
    after_cr: bool,
    /// A first line was seen, so a byte order mark is no longer special.
    started: bool,
    name: String,
    data: String,
    has_data: bool,
}

impl Sse {
    /// Takes the next piece of the stream.
    ///
    /// # Errors
    /// `provider_invalid_response` for bytes that are not UTF-8, `provider_response_too_large` for
    /// a line or event over the limit, and whatever `on_event` answers.
    pub(crate) fn push(&mut self, mut bytes: &[u8], on_event: &mut OnEvent) -> Result<(), Error> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = memchr2(b'\r', b'\n', bytes);
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + piece.len() > MAX_EVENT_BYTES {
                return Err(too_large("line"));
            }
            let Some(end) = end else {
                self.line.extend_from_slice(piece);
                return Ok(());
            };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            if self.line.is_empty() {
                self.take_line(piece, on_event)?;
            } else {
                self.line.extend_from_slice(piece);
                let line = std::mem::take(&mut self.line);
                self.take_line(&line, on_event)?;
            }
        }
        Ok(())
    }

    /// Ends the stream. A last event without its blank line is given out too: servers forget it,
    /// and a reader that needs whole data can tell from the data itself.
    ///
    /// # Errors
    /// As [`Sse::push`].
    pub(crate) fn finish(mut self, on_event: &mut OnEvent) -> Result<(), Error> {
        if !self.line.is_empty() {
            let mut line = std::mem::take(&mut self.line);
            if let Err(error) = std::str::from_utf8(&line)
                && error.error_len().is_none()
            {
                // The stream was cut inside a character.
                line.truncate(error.valid_up_to());
            }
            self.take_line(&line, on_event)?;
        }
        self.dispatch(on_event)
    }

    fn take_line(&mut self, mut line: &[u8], on_event: &mut OnEvent) -> Result<(), Error> {
        if !std::mem::replace(&mut self.started, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(on_event);
        }
        let line = std::str::from_utf8(line).map_err(|error| {
            Error::new(codes::PROVIDER_INVALID_RESPONSE, "the answer's stream is not UTF-8")
                .why(error)
        })?;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.data.len() + value.len() + 1 > MAX_EVENT_BYTES {
                    return Err(too_large("event"));
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push('\n');
                }
                self.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.name),
            // Comments (an empty field name), `id`, `retry` and unknown fields mean nothing here.
            _ => {}
        }
        Ok(())
    }

    fn dispatch(&mut self, on_event: &mut OnEvent) -> Result<(), Error> {
        if std::mem::take(&mut self.has_data) {
            on_event(Event { name: &self.name, data: &self.data })?;
        }
        self.name.clear();
        self.data.clear();
        Ok(())
    }
}

fn too_large(what: &str) -> Error {
    Error::new(
        codes::PROVIDER_RESPONSE_TOO_LARGE,
        format!("the answer's stream holds too large a {what}"),
    )
    .why(format!("the limit is {MAX_EVENT_BYTES} bytes"))
    .with("limit_bytes", MAX_EVENT_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Events = Vec<(String, String)>;

    fn parse(pieces: &[&[u8]]) -> Result<Events, Error> {
        let mut events = Events::new();
        let mut keep = |event: Event<'_>| {
            events.push((event.name.to_owned(), event.data.to_owned()));
            Ok(())
        };
        let mut sse = Sse::default();
        for piece in pieces {
            sse.push(piece, &mut keep)?;
        }
        sse.finish(&mut keep)?;
        Ok(events)
    }

    /// Parses whole, cut in two at every byte, and byte by byte; all must agree.
    fn check(input: &[u8], expected: &[(&str, &str)]) {
        let expected: Events =
            expected.iter().map(|(n, d)| ((*n).to_owned(), (*d).to_owned())).collect();
        let shown = String::from_utf8_lossy(input);
        assert_eq!(parse(&[input]).unwrap(), expected, "{shown:?}");
        for cut in 0..=input.len() {
            let (left, right) = input.split_at(cut);
            assert_eq!(parse(&[left, right]).unwrap(), expected, "{shown:?} cut at {cut}");
        }
        let bytes: Vec<_> = input.chunks(1).collect();
        assert_eq!(parse(&bytes).unwrap(), expected, "{shown:?} byte by byte");
    }

    #[test]
    fn streams_and_their_events() {
        check(b"", &[]);
        check(b"\n\n\r\n\r", &[]);
        check(b"data: a\n\n", &[("", "a")]);
        check(b"data: a\r\n\r\n", &[("", "a")]);
        check(b"data: a\r\rdata: b\r\r", &[("", "a"), ("", "b")]);
        check(b"data: a\r\n\ndata: b\n\r\n", &[("", "a"), ("", "b")]);
        check(b"data:a\ndata: b\ndata:  c\n\n", &[("", "a\nb\n c")]);
        check(b"data\n\n", &[("", "")]);
        check(b"data:\ndata:\n\n", &[("", "\n")]);
        check(b"event: error\ndata: x\n\ndata: y\n\n", &[("error", "x"), ("", "y")]);
        check(b"event: lonely\n\ndata: y\n\n", &[("", "y")]);
        check(b": a comment\n\ndata: a\n: inside\n\n", &[("", "a")]);
        check(b"id: 7\nretry: 10\nnonsense\nother: x\ndata: a\n\n", &[("", "a")]);
        check(b"\xEF\xBB\xBFdata: a\n\n", &[("", "a")]);
        check(b"\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\n", &[]);
        check(b"\n\xEF\xBB\xBFdata: a\n\n", &[]);
        check("data: grüße 🦀\n\n".as_bytes(), &[("", "grüße 🦀")]);
        check(b"data: no end", &[("", "no end")]);
        check(b"data: no blank line\n", &[("", "no blank line")]);
        check(b"data: cut inside \xc3", &[("", "cut inside ")]);
        check(b"data: \0\x0b\n\n", &[("", "\0\x0b")]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        for input in [
            &b"data: \xff\n\n"[..],
            b"data: \xc3\n\n",
            b": \x80\n",
            b"data: \xed\xa0\x80\n",
            b"a\xff",
        ] {
            assert!(parse(&[input]).unwrap_err().is(codes::PROVIDER_INVALID_RESPONSE), "{input:?}");
            let bytes: Vec<_> = input.chunks(1).collect();
            assert!(parse(&bytes).unwrap_err().is(codes::PROVIDER_INVALID_RESPONSE), "{input:?}");
        }
    }

    #[test]
    fn sizes_are_bounded() {
        let piece = vec![b'x'; MAX_EVENT_BYTES / 2];
        let line_limit = parse(&[b"data:", &piece[5..], &piece, b"\n\n"]);
        assert_eq!(line_limit.unwrap()[0].1.len(), MAX_EVENT_BYTES - 5);
        let check = |pieces: &[&[u8]]| {
            assert!(parse(pieces).unwrap_err().is(codes::PROVIDER_RESPONSE_TOO_LARGE));
        };
        check(&[b"data:", &piece, &piece]);
        check(&[b":", &piece, &piece]);
        check(&[b"data:", &piece, b"\ndata:", &piece, b"\n"]);
    }

    /// The same rules written the slow way: all text at once, split by line ends.
    fn reference(text: &str) -> Events {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = text.replace("\r\n", "\n").replace('\r', "\n") + "\n\n";
        let (mut events, mut name, mut data) = (Events::new(), String::new(), Vec::new());
        for line in text.split('\n') {
            match line.split_once(':').map_or((line, ""), |(f, v)| (f, v)) {
                ("", "") if line.is_empty() => {
                    if !data.is_empty() {
                        events.push((name.clone(), data.join("\n")));
                    }
                    name.clear();
                    data.clear();
                }
                ("data", value) => data.push(value.strip_prefix(' ').unwrap_or(value).to_owned()),
                ("event", value) => value.strip_prefix(' ').unwrap_or(value).clone_into(&mut name),
                _ => {}
            }
        }
        events
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn any_text_in_any_pieces_gives_what_the_rules_say(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "data", "event", ":", " ", "\n", "\r", "\r\n", "\n\n", "a", "é", "🦀", "\u{feff}", "id",
                ]),
                0..40,
            ),
            size in 1usize..9,
        ) {
            let text = parts.concat();
            let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(parse(&pieces).unwrap(), reference(&text));
        }

        #[test]
        fn any_bytes_in_any_pieces_give_the_same(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            size in 1usize..9,
        ) {
            let pieces: Vec<_> = bytes.chunks(size).collect();
            let key = |result: Result<Events, Error>| result.map_err(|error| error.code());
            prop_assert_eq!(key(parse(&pieces)), key(parse(&[&bytes])));
        }
    }
}
