//! What the events of an answer add up to.
//!
//! An answer is a list of items. Pieces of an item name it by its place in that list, never by its
//! id: gateways are known to change ids in the middle of a stream. The item that comes with
//! `output_item.done` is the whole of it and has the last word.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::wire::{Draft, Fold, Parts, Sink, Trouble, is_wrapper, unwrap};
use crate::{Carry, Delta, Dialect, Finish, ModelCall, TokenUsage};

#[derive(Debug, Default)]
pub(crate) struct Answer {
    draft: Draft,
    items: BTreeMap<u64, Item>,
    /// Wrapped calls; they are shown when they are whole.
    wrapped: Vec<ModelCall>,
    refused: bool,
    usage: TokenUsage,
    /// What the last event said of the end.
    end: Option<Finish>,
}

/// One item of the output.
#[derive(Debug, Default)]
struct Item {
    /// Whether words of it were shown.
    spoke: bool,
    /// Its place among the calls, when it is one.
    call: Option<usize>,
    /// The item as it came whole.
    whole: Option<String>,
    /// Whether the provider wants it back as it is.
    is_kept: bool,
}

#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    object: String,
    #[serde(default)]
    output_index: u64,
    #[serde(default)]
    delta: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
    #[serde(default)]
    input: Option<String>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct Response<'a> {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    incomplete_details: Option<Incomplete>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Incomplete {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

/// The members of an item that matter here.
#[derive(Debug, Deserialize)]
struct Shape {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
    #[serde(default)]
    input: Option<String>,
    #[serde(default)]
    content: Option<Vec<Content>>,
}

#[derive(Debug, Deserialize)]
struct Content {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
}

impl Usage {
    /// Cached tokens are a part of the input's, reasoning is a part of the output's.
    fn normal(&self) -> TokenUsage {
        let cached = self.input_tokens_details.as_ref().and_then(|d| d.cached_tokens);
        let cache_read = cached.unwrap_or(0).min(self.input_tokens);
        let reasoning = self.output_tokens_details.as_ref().and_then(|d| d.reasoning_tokens);
        TokenUsage {
            input_uncached: self.input_tokens - cache_read,
            cache_read,
            cache_write: 0,
            output: self.output_tokens,
            reasoning: reasoning.unwrap_or(0).min(self.output_tokens),
        }
    }
}

impl Fold for Answer {
    fn take(&mut self, data: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let event: Event<'_> = serde_json::from_str(data)?;
        let index = event.output_index;
        match event.kind.as_str() {
            "response.output_item.added" => self.added(index, shape(event.item)?, sink),
            "response.output_item.done" => {
                let raw = event.item.map_or("{}", RawValue::get);
                self.item_done(index, raw, sink)
            }
            "response.output_text.delta" => {
                self.item(index).spoke = true;
                self.draft.say(&event.delta.unwrap_or_default(), sink);
                Ok(())
            }
            "response.refusal.delta" => {
                self.item(index).spoke = true;
                self.refused = true;
                self.draft.say(&event.delta.unwrap_or_default(), sink);
                Ok(())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                sink(Delta::Reasoning(event.delta.unwrap_or_default()));
                Ok(())
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let call = self.call(index)?;
                self.draft.argue(call, &event.delta.unwrap_or_default(), sink);
                Ok(())
            }
            "response.function_call_arguments.done" | "response.custom_tool_call_input.done" => {
                if let Some(whole) = event.arguments.or(event.input) {
                    let call = self.call(index)?;
                    self.draft.settle(call, &whole, sink);
                }
                Ok(())
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.end(&event.kind, event.response.map_or("{}", RawValue::get), sink)
            }
            "error" => Err(Trouble::Failed(serde_json::from_str(data)?)),
            // A body that does not stream is the response itself, or an error.
            "" if event.object == "response" => self.end("", data, sink),
            "" => match serde_json::from_str::<Value>(data)?.get("error") {
                Some(error) if !error.is_null() => Err(Trouble::Failed(error.clone())),
                _ => Err(Trouble::Invalid("it holds an event without a type".into(), data.into())),
            },
            // Progress, parts, annotations and whatever is added later carry nothing of their own.
            _ => Ok(()),
        }
    }

    fn is_done(&self) -> bool {
        self.end.is_some()
    }

    fn conclude(self: Box<Self>, sink: &mut Sink) -> Result<Parts, Trouble> {
        let Some(end) = self.end else {
            return Err(Trouble::Cut("it ends without saying that it is whole"));
        };
        let open = self.items.values().any(|item| item.call.is_some() && item.whole.is_none());
        if open && end == Finish::Stop {
            return Err(Trouble::invalid("it ended with a call that is not whole"));
        }
        let Self { mut draft, items, mut wrapped, refused, usage, .. } = *self;
        let is_wrapped = unwrap(&mut wrapped);
        for call in wrapped {
            let index = draft.start(&call.id, &call.tool, sink)?;
            draft.argue(index, &call.arguments, sink);
        }
        let keeps = !is_wrapped && items.values().any(|item| item.is_kept);
        let carry = keeps.then(|| Carry {
            dialect: Dialect::Responses.name().to_owned(),
            model: String::new(),
            blocks: items.into_values().filter_map(|item| item.whole).collect(),
        });
        let finish = if end == Finish::Stop { draft.natural_finish(refused) } else { end };
        Ok(draft.conclude(finish, usage, carry))
    }
}

fn shape(item: Option<&RawValue>) -> Result<Shape, Trouble> {
    Ok(serde_json::from_str(item.map_or("{}", RawValue::get))?)
}

impl Answer {
    fn item(&mut self, index: u64) -> &mut Item {
        self.items.entry(index).or_default()
    }

    /// The call that an item is.
    fn call(&self, index: u64) -> Result<usize, Trouble> {
        let call = self.items.get(&index).filter(|item| item.whole.is_none());
        call.and_then(|item| item.call).ok_or_else(|| {
            Trouble::invalid(format!("it adds to item {index}, which is no open call"))
        })
    }

    fn added(&mut self, index: u64, shape: Shape, sink: &mut Sink) -> Result<(), Trouble> {
        if self.items.contains_key(&index) {
            return Err(Trouble::invalid(format!("item {index} begins twice")));
        }
        let mut item = Item::default();
        let name = shape.name.unwrap_or_default();
        if matches!(shape.kind.as_str(), "function_call" | "custom_tool_call") && !is_wrapper(&name)
        {
            let id = shape.call_id.unwrap_or_default();
            let call = self.draft.start(&id, &name, sink)?;
            self.draft.argue(call, &shape.arguments.unwrap_or_default(), sink);
            item.call = Some(call);
        }
        self.items.insert(index, item);
        Ok(())
    }

    /// Takes an item that is whole.
    fn item_done(&mut self, index: u64, raw: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let shape: Shape = serde_json::from_str(raw)?;
        if self.items.get(&index).is_some_and(|item| item.whole.is_some()) {
            return Err(Trouble::invalid(format!("item {index} ends twice")));
        }
        let mut item = self.items.remove(&index).unwrap_or_default();
        match shape.kind.as_str() {
            "message" => {
                for part in shape.content.unwrap_or_default() {
                    self.refused |= part.kind == "refusal";
                    if !item.spoke {
                        let words = part.text.or(part.refusal);
                        self.draft.say(&words.unwrap_or_default(), sink);
                    }
                }
            }
            "function_call" | "custom_tool_call" => {
                let name = shape.name.unwrap_or_default();
                let id = shape.call_id.unwrap_or_default();
                let arguments = shape.arguments.or(shape.input).unwrap_or_default();
                if is_wrapper(&name) {
                    self.wrapped.push(ModelCall { id, tool: name, arguments });
                } else {
                    let call = match item.call {
                        Some(call) => call,
                        None => self.draft.start(&id, &name, sink)?,
                    };
                    self.draft.settle(call, &arguments, sink);
                    item.call = Some(call);
                }
                item.is_kept = shape.kind == "custom_tool_call";
            }
            // Tools that the caller would have to run, and that nobody offered.
            kind @ ("apply_patch_call"
            | "computer_call"
            | "local_shell_call"
            | "shell_call"
            | "mcp_approval_request") => {
                let why = "it asks for something that was not offered".to_owned();
                return Err(Trouble::Invalid(why, kind.to_owned()));
            }
            // Reasoning, and the provider's own tools with their results.
            _ => item.is_kept = true,
        }
        item.whole = Some(raw.to_owned());
        self.items.insert(index, item);
        Ok(())
    }

    /// Takes the response as it stands at the end.
    fn end(&mut self, kind: &str, raw: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let response: Response<'_> = serde_json::from_str(raw)?;
        if let Some(usage) = &response.usage {
            self.usage = usage.normal();
            sink(Delta::Usage(self.usage));
        }
        let status = response.status.unwrap_or_default();
        if let Some(error) = response.error.filter(|error| !error.is_null()) {
            return Err(Trouble::Failed(error));
        }
        if kind == "response.failed" || status == "failed" {
            return Err(Trouble::Failed(Value::from("the response failed without a reason")));
        }
        // Some servers send the items only here.
        if self.items.is_empty() {
            for (index, item) in (0..).zip(response.output.unwrap_or_default()) {
                self.item_done(index, item.get(), sink)?;
            }
        }
        self.end = Some(if kind == "response.incomplete" || status == "incomplete" {
            let reason = response.incomplete_details.and_then(|details| details.reason);
            match reason.as_deref() {
                Some("content_filter") => Finish::ContentFilter,
                _ => Finish::Length,
            }
        } else if matches!(status.as_str(), "" | "completed") {
            Finish::Stop
        } else {
            let why = "it ended in a state that is not known".to_owned();
            return Err(Trouble::Invalid(why, status));
        });
        Ok(())
    }
}
