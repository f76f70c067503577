//! Reads one answer as it arrives.

use serde_json::Value;

use super::calls::Calls;
use super::chunk::{Choice, Chunk, Usage};
use super::failure;
use crate::peer::Peer;
use crate::sse::{Event, Sse};
use crate::{Completion, Delta, Error, Finish, codes};

/// Largest response body in bytes. The whole body is kept for replay; 32 MiB is some ten times
/// what the longest output of any model takes as chunks.
pub(crate) const MAX_BODY_BYTES: usize = 32 << 20;

const DONE: &str = "[DONE]";

/// A reader that takes bytes in any pieces and makes a [`Completion`] at the end.
#[derive(Debug)]
pub(crate) struct Answer {
    form: Form,
    raw: Vec<u8>,
    parts: Parts,
}

/// How the body is written; its first character tells.
#[derive(Debug)]
enum Form {
    Undecided,
    /// An event stream.
    Events(Sse),
    /// One JSON object, from a server that does not stream (or reports an error this way).
    Whole,
}

impl Answer {
    pub(crate) fn new(peer: Peer) -> Self {
        Self { form: Form::Undecided, raw: Vec::new(), parts: Parts::new(peer) }
    }

    /// Takes the next piece of the body.
    ///
    /// # Errors
    /// See [`parse_completion`](super::parse_completion); after an error the reader is of no use.
    pub(crate) fn push(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        if self.raw.len() + bytes.len() > MAX_BODY_BYTES {
            return Err(Error::new(
                codes::PROVIDER_RESPONSE_TOO_LARGE,
                format!("{} sent too large an answer", self.parts.peer.name()),
            )
            .why(format!("the limit is {MAX_BODY_BYTES} bytes"))
            .with("limit_bytes", MAX_BODY_BYTES));
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
        if let Form::Events(sse) = &mut self.form {
            let parts = &mut self.parts;
            sse.push(fresh, &mut |event| parts.event(event, sink))?;
        }
        Ok(())
    }

    /// Whether the server said that nothing follows; some keep the connection open after that.
    pub(crate) const fn is_done(&self) -> bool {
        self.parts.done
    }

    /// Ends the body.
    ///
    /// # Errors
    /// See [`parse_completion`](super::parse_completion).
    pub(crate) fn finish(mut self, sink: &mut dyn FnMut(Delta)) -> Result<Completion, Error> {
        match self.form {
            Form::Undecided => {}
            Form::Events(sse) => {
                let parts = &mut self.parts;
                parts.at_end = true;
                sse.finish(&mut |event| parts.event(event, sink))?;
            }
            Form::Whole => {
                let text = std::str::from_utf8(&self.raw)
                    .map_err(|error| self.parts.invalid("it is not UTF-8", &error.to_string()))?;
                self.parts.at_end = true;
                self.parts.chunk(text.trim_start_matches('\u{feff}'), sink)?;
            }
        }
        self.parts.conclude(self.raw)
    }
}

/// What the chunks so far add up to.
#[derive(Debug)]
struct Parts {
    peer: Peer,
    text: String,
    refused: bool,
    calls: Calls,
    usage: Usage,
    reason: Option<String>,
    /// The usage report without choices that ends a stream came.
    closed: bool,
    /// `[DONE]` came.
    done: bool,
    /// No more bytes follow, so data that is not whole means a cut stream.
    at_end: bool,
}

impl Parts {
    fn new(peer: Peer) -> Self {
        Self {
            peer,
            text: String::new(),
            refused: false,
            calls: Calls::default(),
            usage: Usage::default(),
            reason: None,
            closed: false,
            done: false,
            at_end: false,
        }
    }

    fn event(&mut self, event: Event<'_>, sink: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let data = event.data.trim();
        // What a cut left of the end mark is neither data nor the mark.
        let half_a_mark = self.at_end && data != DONE && DONE.starts_with(data);
        if self.done || data.is_empty() || half_a_mark {
            return Ok(());
        }
        if data == DONE {
            self.done = true;
            return Ok(());
        }
        if event.name == "error" {
            let body = serde_json::from_str(data).unwrap_or_else(|_| Value::from(data));
            return Err(failure::in_stream(&self.peer, &body));
        }
        self.chunk(data, sink)
    }

    fn chunk(&mut self, data: &str, sink: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| {
            if self.at_end && stops_short(&error, data) {
                self.cut("it ends inside a chunk")
            } else {
                self.invalid(&format!("a chunk is not as it should be: {error}"), data)
            }
        })?;
        if let Some(error) = chunk.error {
            return Err(failure::in_stream(&self.peer, &error));
        }
        if let Some(usage) = chunk.usage {
            self.usage = usage.or(self.usage);
            self.closed |= chunk.choices.is_empty();
            sink(Delta::Usage(self.usage.normal()));
        }
        self.calls.begin_chunk();
        for choice in chunk.choices.into_iter().filter(|choice| choice.index == 0) {
            self.choice(choice, sink)?;
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice<'_>, sink: &mut dyn FnMut(Delta)) -> Result<(), Error> {
        if let Some(delta) = choice.delta.or(choice.message) {
            let thought = delta.reasoning_content.or(delta.reasoning);
            if let Some(thought) = thought.filter(|text| !text.is_empty()) {
                sink(Delta::Reasoning(thought));
            }
            let content = delta.content.map(|content| content.into_text());
            let refusal = delta.refusal.filter(|text| !text.is_empty());
            self.refused |= refusal.is_some();
            for text in content.into_iter().chain(refusal).filter(|text| !text.is_empty()) {
                self.text.push_str(&text);
                sink(Delta::Text(text));
            }
            for fragment in delta.tool_calls.unwrap_or_default() {
                self.calls.add(fragment, sink).map_err(|why| self.invalid(&why, ""))?;
            }
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.reason = Some(reason);
        }
        Ok(())
    }

    fn conclude(self, raw: Vec<u8>) -> Result<Completion, Error> {
        let announced_calls =
            matches!(self.reason.as_deref(), Some("tool_calls" | "function_call" | "tool_use"));
        let finish = match self.reason.as_deref() {
            Some("length" | "max_tokens") => Finish::Length,
            Some("content_filter" | "safety") => Finish::ContentFilter,
            Some("refusal") => Finish::Refusal,
            Some("stop" | "stop_sequence" | "end_turn" | "eos") => self.natural_finish(),
            Some(_) if announced_calls => self.natural_finish(),
            Some(unknown) => {
                return Err(self.invalid("it ended for a reason that is not known", unknown));
            }
            None if self.done || self.closed => self.natural_finish(),
            None => return Err(self.cut("it ends without saying that it is whole")),
        };
        if finish == Finish::Stop && announced_calls {
            return Err(self.invalid("it ended to make calls and holds none", ""));
        }
        let Self { peer, text, calls, usage, .. } = self;
        let calls = match finish {
            Finish::ToolCalls => calls.finish().map_err(|why| invalid(&peer, &why, ""))?,
            _ => Vec::new(),
        };
        Ok(Completion { text, calls, usage: usage.normal(), finish, raw })
    }

    /// Servers say `stop` for calls too, so what the answer holds decides.
    fn natural_finish(&self) -> Finish {
        match (self.refused, self.calls.is_empty()) {
            (true, _) => Finish::Refusal,
            (false, true) => Finish::Stop,
            (false, false) => Finish::ToolCalls,
        }
    }

    fn cut(&self, why: &str) -> Error {
        Error::new(codes::STREAM_CUT, format!("the answer of {} broke off", self.peer.name()))
            .why(why)
    }

    fn invalid(&self, why: &str, quote: &str) -> Error {
        invalid(&self.peer, why, quote)
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

fn invalid(peer: &Peer, why: &str, quote: &str) -> Error {
    let error = Error::new(
        codes::PROVIDER_INVALID_RESPONSE,
        format!("the answer of {} cannot be used", peer.name()),
    );
    if quote.is_empty() {
        error.why(why)
    } else {
        error.why(format!("{why}: `{}`", peer.quote(quote)))
    }
}

#[cfg(test)]
mod tests;
