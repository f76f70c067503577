//! What the frames of an answer add up to.
//!
//! Each frame is a response of its own with more parts. Nothing marks the end but a reason, after
//! which token counts may still come, and calls come with that same reason as words do.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::partial::{Piece, put};
use crate::wire::{Draft, Fold, Parts, Sink, Trouble};
use crate::{Carry, Delta, Dialect, Finish, TokenUsage};

#[derive(Debug, Default)]
pub(crate) struct Answer {
    draft: Draft,
    /// Parts in order, for the way back.
    parts: Vec<Part>,
    /// Ids of the calls in order.
    ids: Vec<String>,
    /// A call whose arguments still arrive: its place, what it holds, its first part.
    open: Option<(usize, Value, Option<Value>)>,
    usage: Usage,
    reason: Option<String>,
    blocked: bool,
    keeps: bool,
}

/// A part for the way back.
#[derive(Debug)]
enum Part {
    /// Words, which may be joined with more of them.
    Words(String),
    /// A part as it came.
    Raw(String),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    #[serde(borrow, default)]
    candidates: Vec<Candidate<'a>>,
    #[serde(default)]
    usage_metadata: Option<Usage>,
    #[serde(default)]
    prompt_feedback: Option<Feedback>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    #[serde(default)]
    block_reason: Option<String>,
}

/// The members of a part that matter here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape<'a> {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(borrow, default)]
    function_call: Option<Call<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(default)]
    partial_args: Vec<Piece>,
    #[serde(default)]
    will_continue: bool,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    #[serde(default)]
    prompt_token_count: Option<u64>,
    #[serde(default)]
    tool_use_prompt_token_count: Option<u64>,
    #[serde(default)]
    cached_content_token_count: Option<u64>,
    #[serde(default)]
    candidates_token_count: Option<u64>,
    #[serde(default)]
    thoughts_token_count: Option<u64>,
}

impl Usage {
    /// Counts are totals so far; a report that leaves one out keeps it.
    fn or(self, earlier: Self) -> Self {
        Self {
            prompt_token_count: self.prompt_token_count.or(earlier.prompt_token_count),
            tool_use_prompt_token_count: self
                .tool_use_prompt_token_count
                .or(earlier.tool_use_prompt_token_count),
            cached_content_token_count: self
                .cached_content_token_count
                .or(earlier.cached_content_token_count),
            candidates_token_count: self.candidates_token_count.or(earlier.candidates_token_count),
            thoughts_token_count: self.thoughts_token_count.or(earlier.thoughts_token_count),
        }
    }

    /// Cached tokens are a part of the prompt's; thoughts are beside the answer's.
    fn normal(self) -> TokenUsage {
        let prompt = self.prompt_token_count.unwrap_or(0);
        let prompt = prompt.saturating_add(self.tool_use_prompt_token_count.unwrap_or(0));
        let cache_read = self.cached_content_token_count.unwrap_or(0).min(prompt);
        let reasoning = self.thoughts_token_count.unwrap_or(0);
        TokenUsage {
            input_uncached: prompt - cache_read,
            cache_read,
            cache_write: 0,
            output: self.candidates_token_count.unwrap_or(0).saturating_add(reasoning),
            reasoning,
        }
    }
}

impl Fold for Answer {
    fn take(&mut self, data: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let frame: Frame<'_> = serde_json::from_str(data)?;
        if let Some(error) = frame.error.filter(|error| !error.is_null()) {
            return Err(Trouble::Failed(error));
        }
        self.blocked |= frame.prompt_feedback.is_some_and(|f| f.block_reason.is_some());
        for candidate in frame.candidates.into_iter().filter(|candidate| candidate.index == 0) {
            for part in candidate.content.map(|content| content.parts).unwrap_or_default() {
                self.part(part.get(), sink)?;
            }
            if let Some(reason) = candidate.finish_reason {
                self.reason = Some(reason);
            }
        }
        if let Some(usage) = frame.usage_metadata {
            self.usage = usage.or(self.usage);
            sink(Delta::Usage(self.usage.normal()));
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        false
    }

    fn conclude(self: Box<Self>, _: &mut Sink) -> Result<Parts, Trouble> {
        let finish = match self.reason.as_deref() {
            Some("STOP") if self.open.is_some() => {
                return Err(Trouble::invalid("it ended with a call that is not whole"));
            }
            Some("STOP") => self.draft.natural_finish(false),
            Some("MAX_TOKENS") => Finish::Length,
            Some(
                "SAFETY"
                | "RECITATION"
                | "LANGUAGE"
                | "BLOCKLIST"
                | "PROHIBITED_CONTENT"
                | "SPII"
                | "IMAGE_SAFETY"
                | "IMAGE_PROHIBITED_CONTENT"
                | "IMAGE_RECITATION",
            ) => Finish::ContentFilter,
            Some(other) => {
                let why = "it ended for a reason that makes it useless".to_owned();
                return Err(Trouble::Invalid(why, other.to_owned()));
            }
            None if self.blocked => Finish::ContentFilter,
            None => return Err(Trouble::Cut("it ends without saying that it is whole")),
        };
        let ids = serde_json::to_string(&self.ids).map_err(Trouble::Json)?;
        let Self { draft, parts, usage, keeps, .. } = *self;
        let carry = keeps.then(|| Carry {
            dialect: Dialect::Google.name().to_owned(),
            model: String::new(),
            blocks: std::iter::once(ids).chain(parts.into_iter().map(Part::written)).collect(),
        });
        Ok(draft.conclude(finish, usage.normal(), carry))
    }
}

impl Part {
    fn written(self) -> String {
        match self {
            Self::Words(text) => serde_json::json!({"text": text}).to_string(),
            Self::Raw(raw) => raw,
        }
    }
}

impl Answer {
    fn part(&mut self, raw: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let shape: Shape<'_> = serde_json::from_str(raw)?;
        self.keeps |= shape.thought_signature.is_some();
        if let Some(call) = shape.function_call {
            return self.call(call, raw, sink);
        }
        let Some(text) = shape.text else {
            // Pictures, code that the provider ran, its own tools: nothing of them is understood.
            self.keeps = true;
            self.parts.push(Part::Raw(raw.to_owned()));
            return Ok(());
        };
        if shape.thought {
            if !text.is_empty() {
                sink(Delta::Reasoning(text));
            }
        } else {
            self.draft.say(&text, sink);
            if shape.thought_signature.is_none() {
                match self.parts.last_mut() {
                    Some(Part::Words(words)) => words.push_str(&text),
                    _ => self.parts.push(Part::Words(text)),
                }
                return Ok(());
            }
        }
        self.parts.push(Part::Raw(raw.to_owned()));
        Ok(())
    }

    fn call(&mut self, call: Call<'_>, raw: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let name = call.name.unwrap_or_default();
        if let Some((index, mut arguments, first)) = self.open.take() {
            if !name.is_empty() {
                return Err(Trouble::invalid("a call begins inside another"));
            }
            let ends = call.partial_args.is_empty() && !call.will_continue;
            for piece in call.partial_args {
                put(&mut arguments, piece).map_err(Trouble::invalid)?;
            }
            if ends {
                self.close(index, &arguments, first, sink);
            } else {
                self.open = Some((index, arguments, first));
            }
            return Ok(());
        }
        let index = self.draft.start(&call.id.unwrap_or_default(), &name, sink)?;
        self.ids.push(self.draft.id(index).to_owned());
        if call.will_continue || !call.partial_args.is_empty() {
            let mut arguments = Value::Object(serde_json::Map::new());
            for piece in call.partial_args {
                put(&mut arguments, piece).map_err(Trouble::invalid)?;
            }
            self.open = Some((index, arguments, serde_json::from_str(raw).ok()));
            return Ok(());
        }
        let arguments = call.args.map_or("{}", RawValue::get);
        self.draft.argue(index, if arguments == "null" { "{}" } else { arguments }, sink);
        self.parts.push(Part::Raw(raw.to_owned()));
        Ok(())
    }

    /// Ends a call whose arguments came path by path; the part that goes back is its first one with
    /// the arguments whole.
    fn close(&mut self, index: usize, arguments: &Value, first: Option<Value>, sink: &mut Sink) {
        self.draft.argue(index, &arguments.to_string(), sink);
        let Some(mut part) = first else { return };
        if let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut) {
            call.remove("willContinue");
            call.remove("partialArgs");
            call.insert("args".to_owned(), arguments.clone());
        }
        self.parts.push(Part::Raw(part.to_string()));
    }
}
