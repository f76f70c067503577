//! Reads one answer as it arrives, in any dialect.
//!
//! The reader knows how bodies are framed and bounded; what the JSON in the frames means is the
//! business of a [`Fold`], of which each dialect has one.

use std::fmt;

use serde_json::Value;

use super::draft::Parts;
use super::failure;
use crate::peer::Peer;
use crate::sse::{Event, MAX_EVENT_BYTES, Sse};
use crate::{Completion, Delta, Dialect, Error, codes};

/// Largest response body in bytes. The whole body is kept for replay; 32 MiB is some ten times
/// what the longest output of any model takes as chunks.
pub(crate) const MAX_BODY_BYTES: usize = 32 << 20;

/// The mark that ends a Chat Completions stream; gateways put it at the end of every dialect's.
const DONE: &str = "[DONE]";

/// Takes the pieces of an answer.
pub(crate) type Sink<'a> = dyn FnMut(Delta) + 'a;

/// What a dialect makes of the documents of a body.
pub(crate) trait Fold: fmt::Debug + Send {
    /// Takes the next JSON document: the data of an event, a line, or a body that is one object.
    fn take(&mut self, data: &str, sink: &mut Sink) -> Result<(), Trouble>;

    /// Takes the mark after which nothing follows.
    fn end_mark(&mut self) {}

    /// Whether the server said that nothing follows; some keep the connection open after that.
    fn is_done(&self) -> bool;

    /// Adds up what came, when no more follows.
    fn conclude(self: Box<Self>, sink: &mut Sink) -> Result<Parts, Trouble>;
}

/// Why a fold cannot go on.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A document is no JSON, or JSON of another shape.
    Json(serde_json::Error),
    /// It is readable and says what the protocol does not allow; with a quote, or none.
    Invalid(String, String),
    /// The body stops before its end.
    Cut(&'static str),
    /// The server reports an error of its own.
    Failed(Value),
}

impl Trouble {
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into(), String::new())
    }
}

impl From<serde_json::Error> for Trouble {
    fn from(error: serde_json::Error) -> Self {
        Self::Json(error)
    }
}

/// A reader that takes bytes in any pieces and makes a [`Completion`] at the end.
#[derive(Debug)]
pub(crate) struct Reader {
    form: Form,
    model: String,
    raw: Vec<u8>,
    reasoning: String,
    heart: Heart,
}

/// The part that sees whole documents.
#[derive(Debug)]
struct Heart {
    peer: Peer,
    fold: Box<dyn Fold>,
    /// `[DONE]` came.
    marked: bool,
    /// No more bytes follow, so data that is not whole means a cut stream.
    at_end: bool,
}

/// How the body is written; its first character tells, except that a dialect may have only lines.
#[derive(Debug)]
enum Form {
    Undecided,
    /// An event stream.
    Events(Sse),
    /// A JSON object a line; holds the start of a line whose end has not come yet.
    Lines(Vec<u8>),
    /// One JSON object, from a server that does not stream (or reports an error this way).
    Whole,
}

impl Reader {
    /// `model` is the one that was asked; only it gets back what its provider wants back.
    pub(crate) fn new(dialect: Dialect, model: &str, peer: Peer) -> Self {
        let form = if dialect.is_lines() { Form::Lines(Vec::new()) } else { Form::Undecided };
        let heart = Heart { peer, fold: dialect.fold(), marked: false, at_end: false };
        Self { form, model: model.to_owned(), raw: Vec::new(), reasoning: String::new(), heart }
    }

    /// Takes the next piece of the body.
    ///
    /// # Errors
    /// See [`parse_completion`](crate::parse_completion); after an error the reader is of no use.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut Sink) -> Result<(), Error> {
        if self.raw.len() + bytes.len() > MAX_BODY_BYTES {
            return Err(self.heart.too_large("answer", MAX_BODY_BYTES));
        }
        self.raw.extend_from_slice(bytes);
        let mut fresh = bytes;
        if matches!(self.form, Form::Undecided) {
            // A byte order mark and white space before the body decide nothing.
            let blank = |byte: &u8| byte.is_ascii_whitespace() || b"\xEF\xBB\xBF".contains(byte);
            match bytes.iter().find(|byte| !blank(byte)) {
                None => return Ok(()),
                Some(b'{') => self.form = Form::Whole,
                Some(_) => {
                    self.form = Form::Events(Sse::default());
                    fresh = &self.raw;
                }
            }
        }
        let heart = &mut self.heart;
        let reasoning = &mut self.reasoning;
        let sink = &mut |delta| keep_reasoning(reasoning, delta, sink);
        match &mut self.form {
            Form::Events(sse) => sse.push(fresh, &mut |event| heart.event(event, sink)),
            Form::Lines(start) => heart.lines(start, fresh, sink),
            Form::Undecided | Form::Whole => Ok(()),
        }
    }

    /// Whether the server said that nothing follows.
    pub(crate) fn is_done(&self) -> bool {
        self.heart.is_done()
    }

    /// Ends the body.
    ///
    /// # Errors
    /// See [`parse_completion`](crate::parse_completion).
    pub(crate) fn finish(mut self, sink: &mut Sink) -> Result<Completion, Error> {
        let heart = &mut self.heart;
        let reasoning = &mut self.reasoning;
        let sink = &mut |delta| keep_reasoning(reasoning, delta, sink);
        heart.at_end = true;
        match self.form {
            Form::Undecided => {}
            Form::Events(sse) => sse.finish(&mut |event| heart.event(event, sink))?,
            Form::Lines(rest) => heart.line(&rest, sink)?,
            Form::Whole => heart.line(&self.raw, sink)?,
        }
        let Heart { peer, fold, .. } = self.heart;
        let parts = fold.conclude(sink).map_err(|trouble| tell(&peer, trouble, ""))?;
        let Parts { text, calls, usage, finish, mut carry } = parts;
        if let Some(carry) = &mut carry {
            carry.model = self.model;
        }
        let (reasoning, raw) = (self.reasoning, self.raw);
        Ok(Completion { text, reasoning, calls, usage, finish, carry, raw })
    }
}

/// Keeps thoughts beside showing them.
fn keep_reasoning(reasoning: &mut String, delta: Delta, sink: &mut Sink) {
    if let Delta::Reasoning(text) = &delta {
        reasoning.push_str(text);
    }
    sink(delta);
}

impl Heart {
    fn is_done(&self) -> bool {
        self.marked || self.fold.is_done()
    }

    fn event(&mut self, event: Event<'_>, sink: &mut Sink) -> Result<(), Error> {
        let data = event.data.trim();
        // What a cut left of the end mark is neither data nor the mark.
        let half_a_mark = self.at_end && data != DONE && DONE.starts_with(data);
        if self.is_done() || data.is_empty() || half_a_mark {
            return Ok(());
        }
        if data == DONE {
            self.marked = true;
            self.fold.end_mark();
            return Ok(());
        }
        if event.name == "error" {
            let body = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
            return Err(failure::in_stream(&self.peer, &body));
        }
        self.document(data, sink)
    }

    fn lines(&mut self, start: &mut Vec<u8>, bytes: &[u8], sink: &mut Sink) -> Result<(), Error> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            start.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            let line = std::mem::take(start);
            self.line(&line, sink)?;
        }
        start.extend_from_slice(rest);
        if start.len() > MAX_EVENT_BYTES {
            return Err(self.too_large("line", MAX_EVENT_BYTES));
        }
        Ok(())
    }

    /// Takes a document that stands alone.
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Error> {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            // A cut inside a character leaves a document that stops short.
            Err(error) if self.at_end && error.error_len().is_none() => {
                std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(error) => {
                let why = "it is not UTF-8".to_owned();
                return Err(tell(&self.peer, Trouble::Invalid(why, error.to_string()), ""));
            }
        };
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || self.is_done() { Ok(()) } else { self.document(text, sink) }
    }

    fn document(&mut self, data: &str, sink: &mut Sink) -> Result<(), Error> {
        self.fold.take(data, sink).map_err(|trouble| {
            let trouble = match trouble {
                Trouble::Json(error) if self.at_end && stops_short(&error, data) => {
                    Trouble::Cut("it ends inside a chunk")
                }
                other => other,
            };
            tell(&self.peer, trouble, data)
        })
    }

    fn too_large(&self, what: &str, limit_bytes: usize) -> Error {
        Error::new(
            codes::PROVIDER_RESPONSE_TOO_LARGE,
            format!("{} sent too large an answer", self.peer.name()),
        )
        .why(format!("the limit of {what} is {limit_bytes} bytes"))
        .with("limit_bytes", limit_bytes)
    }
}

/// Whether the end of `data` is what is wrong with it. A number that was cut after its point is
/// reported as a wrong number, not as an end.
fn stops_short(error: &serde_json::Error, data: &str) -> bool {
    let last_line = data.rsplit('\n').next().unwrap_or_default();
    let at_last_byte =
        error.line() > data.matches('\n').count() && error.column() >= last_line.len();
    error.is_eof() || (error.is_syntax() && at_last_byte)
}

/// The error that a trouble is to people.
fn tell(peer: &Peer, trouble: Trouble, data: &str) -> Error {
    let invalid = |why: String, quote: &str| {
        let error = Error::new(
            codes::PROVIDER_INVALID_RESPONSE,
            format!("the answer of {} cannot be used", peer.name()),
        );
        if quote.is_empty() {
            error.why(why)
        } else {
            error.why(format!("{why}: `{}`", peer.quote(quote)))
        }
    };
    match trouble {
        Trouble::Json(error) => invalid(format!("a chunk is not as it should be: {error}"), data),
        Trouble::Invalid(why, quote) => invalid(why, &quote),
        Trouble::Failed(body) => failure::in_stream(peer, &body),
        Trouble::Cut(why) => {
            Error::new(codes::STREAM_CUT, format!("the answer of {} broke off", peer.name()))
                .why(why)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_bounded() {
        let comment = [b":".repeat(1 << 20), b"\n".to_vec()].concat();
        for dialect in Dialect::ALL {
            let mut reader = Reader::new(dialect, "m", Peer::new("the server", None));
            let piece: &[u8] = if dialect.is_lines() { b"\n" } else { b"" };
            let piece = [piece, &comment].concat();
            let error = (0..64).find_map(|_| reader.push(&piece, &mut |_| {}).err()).unwrap();
            if !dialect.is_lines() {
                assert!(error.is(codes::PROVIDER_RESPONSE_TOO_LARGE), "{error}");
            }
            assert!(reader.raw.len() <= MAX_BODY_BYTES);
        }
        let mut lines = Reader::new(Dialect::Ollama, "m", Peer::new("the server", None));
        let piece = vec![b' '; 1 << 20];
        let error = (0..64).find_map(|_| lines.push(&piece, &mut |_| {}).err()).unwrap();
        assert!(error.is(codes::PROVIDER_RESPONSE_TOO_LARGE), "{error}");
    }
}
