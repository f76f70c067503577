//! What the chunks of an answer add up to.

use super::calls::Calls;
use super::carry;
use super::chunk::{Choice, Chunk, Usage};
use crate::wire::{Fold, Parts, Sink, Trouble, unwrap};
use crate::{Delta, Finish};

/// What the chunks so far add up to.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    text: String,
    thought: String,
    refused: bool,
    calls: Calls,
    usage: Usage,
    reason: Option<String>,
    /// The usage report without choices that ends a stream came.
    closed: bool,
    /// `[DONE]` came.
    done: bool,
}

impl Fold for Answer {
    fn take(&mut self, data: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let chunk: Chunk<'_> = serde_json::from_str(data)?;
        if let Some(error) = chunk.error {
            return Err(Trouble::Failed(error));
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

    fn end_mark(&mut self) {
        self.done = true;
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn conclude(self: Box<Self>, _: &mut Sink) -> Result<Parts, Trouble> {
        let announced_calls =
            matches!(self.reason.as_deref(), Some("tool_calls" | "function_call" | "tool_use"));
        let finish = match self.reason.as_deref() {
            Some("length" | "max_tokens") => Finish::Length,
            Some("content_filter" | "safety") => Finish::ContentFilter,
            Some("refusal") => Finish::Refusal,
            Some("stop" | "stop_sequence" | "end_turn" | "eos") => self.natural_finish(),
            Some(_) if announced_calls => self.natural_finish(),
            Some(unknown) => {
                let why = "it ended for a reason that is not known".to_owned();
                return Err(Trouble::Invalid(why, unknown.to_owned()));
            }
            None if self.done || self.closed => self.natural_finish(),
            None => return Err(Trouble::Cut("it ends without saying that it is whole")),
        };
        if finish == Finish::Stop && announced_calls {
            return Err(Trouble::invalid("it ended to make calls and holds none"));
        }
        let extras = self.calls.extras();
        let mut calls = match finish {
            Finish::ToolCalls => self.calls.finish().map_err(Trouble::invalid)?,
            _ => Vec::new(),
        };
        let carry =
            if unwrap(&mut calls) { None } else { carry::of(&self.thought, &calls, extras) };
        Ok(Parts { text: self.text, calls, usage: self.usage.normal(), finish, carry })
    }
}

impl Answer {
    fn choice(&mut self, choice: Choice<'_>, sink: &mut Sink) -> Result<(), Trouble> {
        if let Some(delta) = choice.delta.or(choice.message) {
            let thought = delta.reasoning_content.or(delta.reasoning);
            if let Some(thought) = thought.filter(|text| !text.is_empty()) {
                self.thought.push_str(&thought);
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
                self.calls.add(fragment, sink).map_err(Trouble::invalid)?;
            }
        }
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            self.reason = Some(reason);
        }
        Ok(())
    }

    /// Servers say `stop` for calls too, so what the answer holds decides.
    fn natural_finish(&self) -> Finish {
        match (self.refused, self.calls.is_empty()) {
            (true, _) => Finish::Refusal,
            (false, true) => Finish::Stop,
            (false, false) => Finish::ToolCalls,
        }
    }
}
