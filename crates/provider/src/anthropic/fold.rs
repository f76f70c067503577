//! What the events of an answer add up to.
//!
//! An answer is a list of content blocks, each begun, added to and ended by events that name it by
//! number. Blocks that the provider signs or makes itself are rebuilt member by member, so that
//! they go back as they came.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::FORM_TOOL;
use crate::wire::{Draft, Fold, Parts, Sink, Trouble, arguments_object};
use crate::{Carry, Delta, Dialect, Finish, TokenUsage};

#[derive(Debug, Default)]
pub(crate) struct Answer {
    draft: Draft,
    /// Id of the message; a second message in the same stream has another.
    message: Option<String>,
    blocks: Vec<Block>,
    usage: Usage,
    stop_reason: Option<String>,
    done: bool,
    /// Something came that this reader cannot put back together.
    lossy: bool,
}

/// One content block.
#[derive(Debug)]
struct Block {
    index: u64,
    kind: Kind,
    /// Its members as they came, with what was added since.
    members: Map<String, Value>,
    /// The block as it came, while nothing was added.
    raw: Option<String>,
    /// Argument text that came in pieces.
    input: String,
    is_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Call(usize),
    /// The call that stands for an answer in a form.
    Form,
    /// Thinking, and whatever else the provider wants back.
    Kept,
}

#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(default)]
    index: u64,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(default)]
    delta: Option<Map<String, Value>>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(default)]
    id: String,
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    #[serde(default)]
    stop_reason: Option<String>,
    #[serde(default)]
    usage: Option<Usage>,
}

/// Token counts; the cached ones are apart from the input's.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
}

impl Usage {
    /// Counts are totals so far, so the higher one stands and none is added.
    fn or(self, earlier: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.max(earlier.input_tokens),
            cache_creation_input_tokens: self
                .cache_creation_input_tokens
                .max(earlier.cache_creation_input_tokens),
            cache_read_input_tokens: self
                .cache_read_input_tokens
                .max(earlier.cache_read_input_tokens),
            output_tokens: self.output_tokens.max(earlier.output_tokens),
        }
    }

    fn normal(self) -> TokenUsage {
        TokenUsage {
            input_uncached: self.input_tokens.unwrap_or(0),
            cache_read: self.cache_read_input_tokens.unwrap_or(0),
            cache_write: self.cache_creation_input_tokens.unwrap_or(0),
            output: self.output_tokens.unwrap_or(0),
            reasoning: 0,
        }
    }
}

impl Fold for Answer {
    fn take(&mut self, data: &str, sink: &mut Sink) -> Result<(), Trouble> {
        let event: Event<'_> = serde_json::from_str(data)?;
        match event.kind.as_str() {
            "message_start" => self.started(event.message, sink),
            "content_block_start" => {
                let raw = event.content_block.map_or("{}", RawValue::get);
                self.block_started(event.index, raw, sink)
            }
            "content_block_delta" => {
                self.block_grows(event.index, event.delta.unwrap_or_default(), sink)
            }
            "content_block_stop" => self.block_ended(event.index, sink),
            "message_delta" => {
                let reason = event.delta.as_ref().and_then(|delta| delta.get("stop_reason"));
                if let Some(reason) = reason.and_then(Value::as_str) {
                    self.stop_reason = Some(reason.to_owned());
                }
                self.count(event.usage, sink);
                Ok(())
            }
            "message_stop" => {
                self.done = true;
                Ok(())
            }
            // A body that does not stream.
            "message" => self.whole(serde_json::from_str(data)?, sink),
            "error" | "" => Err(Trouble::Failed(serde_json::from_str(data)?)),
            // `ping`, and whatever is added later.
            _ => Ok(()),
        }
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn conclude(self: Box<Self>, _: &mut Sink) -> Result<Parts, Trouble> {
        let Some(reason) = self.stop_reason.as_deref() else {
            let why = "it ends without saying that it is whole";
            return Err(if self.done { Trouble::invalid(why) } else { Trouble::Cut(why) });
        };
        let finish = match reason {
            "end_turn" | "stop_sequence" | "tool_use" => self.draft.natural_finish(false),
            "max_tokens" | "model_context_window_exceeded" => Finish::Length,
            "refusal" => Finish::Refusal,
            "pause_turn" => Finish::Paused,
            unknown => {
                let why = "it ended for a reason that is not known".to_owned();
                return Err(Trouble::Invalid(why, unknown.to_owned()));
            }
        };
        let whole = matches!(finish, Finish::Stop | Finish::ToolCalls | Finish::Paused);
        if whole && self.blocks.iter().any(|block| block.is_open) {
            return Err(Trouble::invalid("it ended with a block that is not whole"));
        }
        let form = self.blocks.iter().any(|block| block.kind == Kind::Form);
        if reason == "tool_use" && finish == Finish::Stop && !form {
            return Err(Trouble::invalid("it ended to make calls and holds none"));
        }
        let keeps = self.blocks.iter().any(|block| block.kind == Kind::Kept);
        let carry = (keeps && !form && !self.lossy).then(|| Carry {
            dialect: Dialect::Anthropic.name().to_owned(),
            model: String::new(),
            blocks: self.blocks.iter().map(Block::written).collect(),
        });
        Ok(self.draft.conclude(finish, self.usage.normal(), carry))
    }
}

impl Answer {
    /// Gateways repeat the start, and splice a second message into a stream after a failure
    /// upstream; of a spliced one nothing is taken, because half of each makes no answer.
    fn started(&mut self, message: Option<Message<'_>>, sink: &mut Sink) -> Result<(), Trouble> {
        let Some(message) = message else { return Ok(()) };
        let same = self.message.as_ref().is_none_or(|id| *id == message.id);
        if !same && !self.blocks.is_empty() {
            return Err(Trouble::invalid("a second message begins inside the first"));
        }
        if !same {
            self.usage = Usage::default();
        }
        self.message = Some(message.id);
        self.count(message.usage, sink);
        Ok(())
    }

    fn count(&mut self, usage: Option<Usage>, sink: &mut Sink) {
        if let Some(usage) = usage {
            self.usage = usage.or(self.usage);
            sink(Delta::Usage(self.usage.normal()));
        }
    }

    fn whole(&mut self, message: Message<'_>, sink: &mut Sink) -> Result<(), Trouble> {
        for (index, block) in (0..).zip(&message.content) {
            self.block_started(index, block.get(), sink)?;
            self.block_ended(index, sink)?;
        }
        self.count(message.usage, sink);
        self.stop_reason = message.stop_reason;
        self.done = true;
        Ok(())
    }

    fn block_started(&mut self, index: u64, raw: &str, sink: &mut Sink) -> Result<(), Trouble> {
        if self.blocks.iter().any(|block| block.index == index) {
            return Err(Trouble::invalid(format!("block {index} begins twice")));
        }
        let members: Map<String, Value> = serde_json::from_str(raw)?;
        let text = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default();
        let kind = match text("type") {
            "text" => {
                self.draft.say(text("text"), sink);
                Kind::Text
            }
            "tool_use" if text("name") == FORM_TOOL => Kind::Form,
            "tool_use" => Kind::Call(self.draft.start(text("id"), text("name"), sink)?),
            "" => return Err(Trouble::Invalid("a block has no type".to_owned(), raw.to_owned())),
            "thinking" => {
                if !text("thinking").is_empty() {
                    sink(Delta::Reasoning(text("thinking").to_owned()));
                }
                Kind::Kept
            }
            _ => Kind::Kept,
        };
        let raw = Some(raw.to_owned());
        let block = Block { index, kind, members, raw, input: String::new(), is_open: true };
        self.blocks.push(block);
        Ok(())
    }

    fn block_grows(
        &mut self,
        index: u64,
        mut delta: Map<String, Value>,
        sink: &mut Sink,
    ) -> Result<(), Trouble> {
        let open = self.blocks.iter_mut().find(|block| block.index == index && block.is_open);
        let Some(block) = open else {
            return Err(Trouble::invalid(format!("it adds to block {index}, which is not open")));
        };
        let mut take = |name: &str| match delta.remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        match take("type").as_str() {
            "text_delta" => {
                let text = take("text");
                self.draft.say(&text, sink);
                block.append("text", &text);
            }
            "thinking_delta" => {
                let text = take("thinking");
                block.append("thinking", &text);
                sink(Delta::Reasoning(text));
            }
            "signature_delta" => block.append("signature", &take("signature")),
            "compaction_delta" => block.append("content", &take("content")),
            "citations_delta" => {
                block.raw = None;
                let list = block.members.entry("citations").or_insert_with(|| Value::Array(vec![]));
                if !list.is_array() {
                    *list = Value::Array(Vec::new());
                }
                if let (Some(list), Some(citation)) =
                    (list.as_array_mut(), delta.remove("citation"))
                {
                    list.push(citation);
                }
            }
            "input_json_delta" => {
                let piece = take("partial_json");
                block.input.push_str(&piece);
                match block.kind {
                    Kind::Call(call) => self.draft.argue(call, &piece, sink),
                    Kind::Form => self.draft.say(&piece, sink),
                    Kind::Text | Kind::Kept => {}
                }
            }
            _ => self.lossy = true,
        }
        Ok(())
    }

    fn block_ended(&mut self, index: u64, sink: &mut Sink) -> Result<(), Trouble> {
        let open = self.blocks.iter_mut().find(|block| block.index == index && block.is_open);
        let Some(block) = open else {
            return Err(Trouble::invalid(format!("block {index} ends, which is not open")));
        };
        block.is_open = false;
        if block.input.is_empty() {
            // No piece came, or one empty piece: the arguments are those of the start, `{}` for none.
            let given = block.members.get("input").filter(|input| input.is_object());
            let whole = given.map_or_else(|| "{}".to_owned(), Value::to_string);
            match block.kind {
                Kind::Call(call) => self.draft.argue(call, &whole, sink),
                Kind::Form => self.draft.say(&whole, sink),
                Kind::Text | Kind::Kept => {}
            }
        }
        Ok(())
    }
}

impl Block {
    fn append(&mut self, name: &str, piece: &str) {
        self.raw = None;
        match self.members.get_mut(name) {
            Some(Value::String(text)) => text.push_str(piece),
            _ => {
                self.members.insert(name.to_owned(), Value::from(piece));
            }
        }
    }

    /// The block as it goes back: as it came, or with what was added to it.
    fn written(&self) -> String {
        match &self.raw {
            Some(raw) if self.input.is_empty() => raw.clone(),
            _ if self.input.is_empty() => Value::Object(self.members.clone()).to_string(),
            // The arguments stay as they were written; the rest are words of the protocol.
            _ => {
                let mut members = self.members.clone();
                members.remove("input");
                let rest = Value::Object(members).to_string();
                let open = rest.strip_suffix('}').unwrap_or_default();
                let comma = if open.len() > 1 { "," } else { "" };
                format!("{open}{comma}\"input\":{}}}", arguments_object(&self.input))
            }
        }
    }
}
