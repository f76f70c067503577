//! What the lines of an answer add up to. Calls come whole; the last line says `done`.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::{Draft, Fold, Parts, Sink, Trouble};
use crate::{Delta, Finish, TokenUsage};

#[derive(Debug, Default)]
pub(crate) struct Answer {
    draft: Draft,
    usage: TokenUsage,
    done: bool,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(default)]
    done: bool,
    #[serde(default)]
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: Option<u64>,
    #[serde(default)]
    eval_count: Option<u64>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<Call<'a>>>,
}

#[derive(Debug, Deserialize)]
struct Call<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(borrow)]
    function: Function<'a>,
}

#[derive(Debug, Deserialize)]
struct Function<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

impl Fold for Answer {
    fn take(&mut self, data: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let line: Line<'_> = serde_json::from_str(data)?;
        if let Some(error) = line.error.filter(|error| !error.is_null()) {
            return Err(Trouble::Failed(error));
        }
        if let Some(message) = line.message {
            if let Some(thought) = message.thinking.filter(|thought| !thought.is_empty()) {
                sink(Delta::Reasoning(thought));
            }
            self.draft.say(&message.content.unwrap_or_default(), sink);
            for call in message.tool_calls.unwrap_or_default() {
                let id = call.id.unwrap_or_default();
                let index = self.draft.start(&id, &call.function.name, sink)?;
                self.draft.argue(index, &arguments(call.function.arguments)?, sink);
            }
        }
        if line.done {
            self.done = true;
            self.reason = line.done_reason;
            self.usage.input_uncached = line.prompt_eval_count.unwrap_or(0);
            self.usage.output = line.eval_count.unwrap_or(0);
            sink(Delta::Usage(self.usage));
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn conclude(self: Box<Self>, _: &mut Sink) -> Result<Parts, Trouble> {
        if !self.done {
            return Err(Trouble::Cut("it ends without saying that it is whole"));
        }
        let finish = match self.reason.as_deref() {
            None | Some("stop" | "") => self.draft.natural_finish(false),
            Some("length") => Finish::Length,
            Some(other) => {
                let why = "it ended for a reason that makes it useless".to_owned();
                return Err(Trouble::Invalid(why, other.to_owned()));
            }
        };
        Ok(self.draft.conclude(finish, self.usage, None))
    }
}

/// The arguments as text: an object as it was written, or text that some versions send.
fn arguments(raw: Option<&RawValue>) -> Result<String, Trouble> {
    match raw.map_or("null", RawValue::get) {
        "null" => Ok("{}".to_owned()),
        text if text.starts_with('"') => Ok(serde_json::from_str(text)?),
        object => Ok(object.to_owned()),
    }
}
