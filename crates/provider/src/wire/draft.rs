//! An answer in the making, for the dialects whose calls are numbered or named as they should be.

use super::name::from_wire;
use super::reader::{Sink, Trouble};
use crate::{Carry, Delta, Finish, ModelCall, TokenUsage};

/// Most calls in one answer: far above what models ask for at once, small enough to bound work.
pub(crate) const MAX_CALLS: usize = 128;

/// All of an answer but its bytes.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) text: String,
    pub(crate) calls: Vec<ModelCall>,
    pub(crate) usage: TokenUsage,
    pub(crate) finish: Finish,
    pub(crate) carry: Option<Carry>,
}

/// Text and calls so far.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    text: String,
    calls: Vec<ModelCall>,
}

impl Draft {
    /// Adds and shows words.
    pub(crate) fn say(&mut self, text: &str, sink: &mut Sink) {
        if !text.is_empty() {
            self.text.push_str(text);
            sink(Delta::Text(text.to_owned()));
        }
    }

    /// Begins and shows a call; an id that is empty or taken is replaced by a fresh one.
    pub(crate) fn start(
        &mut self,
        id: &str,
        wire_name: &str,
        sink: &mut Sink,
    ) -> Result<usize, Trouble> {
        let index = self.calls.len();
        if index == MAX_CALLS {
            return Err(Trouble::invalid(format!("it asks for more than {MAX_CALLS} calls")));
        }
        if wire_name.is_empty() {
            return Err(Trouble::invalid(format!("call {index} has no tool name")));
        }
        let taken = |id: &str| self.calls.iter().any(|call| call.id == id);
        let id = if id.is_empty() || taken(id) {
            (index..)
                .map(|number| format!("call_{number}"))
                .find(|id| !taken(id))
                .expect("fewer ids are taken than there are numbers")
        } else {
            id.to_owned()
        };
        let tool = from_wire(wire_name).into_owned();
        sink(Delta::CallStarted { index, id: id.clone(), tool: tool.clone() });
        self.calls.push(ModelCall { id, tool, arguments: String::new() });
        Ok(index)
    }

    /// Adds and shows more of a call's arguments.
    pub(crate) fn argue(&mut self, index: usize, fragment: &str, sink: &mut Sink) {
        if let Some(call) = self.calls.get_mut(index).filter(|_| !fragment.is_empty()) {
            call.arguments.push_str(fragment);
            sink(Delta::CallArguments { index, fragment: fragment.to_owned() });
        }
    }

    /// The id that a call goes by.
    pub(crate) fn id(&self, index: usize) -> &str {
        self.calls.get(index).map_or("", |call| &call.id)
    }

    /// Replaces a call's arguments by what the server calls the whole of them.
    pub(crate) fn settle(&mut self, index: usize, whole: &str, sink: &mut Sink) {
        let Some(call) = self.calls.get_mut(index) else { return };
        match whole.strip_prefix(call.arguments.as_str()) {
            Some(rest) => {
                let rest = rest.to_owned();
                self.argue(index, &rest, sink);
            }
            None => whole.clone_into(&mut call.arguments),
        }
    }

    /// The whole. An answer that was stopped runs nothing, and nothing of it goes back but its text.
    pub(crate) fn conclude(self, finish: Finish, usage: TokenUsage, carry: Option<Carry>) -> Parts {
        let (calls, carry) = match finish {
            Finish::ToolCalls => (self.calls, carry),
            Finish::Stop | Finish::Paused => (Vec::new(), carry),
            Finish::Length | Finish::Refusal | Finish::ContentFilter => (Vec::new(), None),
        };
        Parts { text: self.text, calls, usage, finish, carry }
    }

    /// How an answer ended that was not stopped.
    pub(crate) fn natural_finish(&self, refused: bool) -> Finish {
        match (refused, self.calls.is_empty()) {
            (true, _) => Finish::Refusal,
            (false, true) => Finish::Stop,
            (false, false) => Finish::ToolCalls,
        }
    }
}
