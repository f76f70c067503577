//! Puts the pieces of tool calls together.
//!
//! The protocol numbers each call and repeats the number in each piece. Servers that claim to be
//! compatible leave the number out or send 0 for every call, leave the id out, repeat the name, or
//! send the arguments as an object; [`Calls::target`] holds the rules that tell calls apart.

use serde_json::Value;

use super::chunk::Fragment;
use crate::wire::{MAX_CALLS, from_wire};
use crate::{Delta, ModelCall};

/// The calls of one answer so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Draft>,
    /// Number of the chunk being read.
    chunk: u64,
}

#[derive(Debug, Default)]
struct Draft {
    /// The server's number for it.
    number: Option<u64>,
    /// The server's id for it; two calls may have come with the same one.
    given_id: Option<String>,
    /// The id it goes by, once its name is known.
    id: Option<String>,
    /// Its name as it came.
    name: Option<String>,
    arguments: String,
    /// What the server wants back with the call.
    extra: Option<Value>,
    nesting: Nesting,
    /// Number of the last chunk that added to it.
    chunk: u64,
}

impl Calls {
    /// Says that a new chunk begins: two named pieces in one chunk are two calls.
    pub(super) fn begin_chunk(&mut self) {
        self.chunk += 1;
    }

    /// Takes one piece.
    ///
    /// # Errors
    /// Why it cannot be taken.
    pub(super) fn add(
        &mut self,
        mut fragment: Fragment<'_>,
        sink: &mut dyn FnMut(Delta),
    ) -> Result<(), String> {
        let function = fragment.function.take();
        let (name, arguments) = match function {
            Some(function) => (function.name, function.arguments.map_or("", |raw| raw.get())),
            None => (None, ""),
        };
        let name = name.filter(|name| !name.is_empty());
        let id = fragment.id.filter(|id| !id.is_empty());
        let text = if arguments.starts_with('"') {
            serde_json::from_str(arguments).map_err(|error| error.to_string())?
        } else {
            arguments.to_owned()
        };
        let target = self.target(fragment.index, id.as_deref(), name.as_deref(), &text);
        let index = match target {
            Some(index) => index,
            None if self.calls.len() == MAX_CALLS => {
                return Err(format!("it asks for more than {MAX_CALLS} calls"));
            }
            None => {
                self.calls.push(Draft { number: fragment.index, given_id: id, ..Draft::default() });
                self.calls.len() - 1
            }
        };
        let chunk = self.chunk;
        let draft = &mut self.calls[index];
        draft.extra = fragment.extra_content.or(draft.extra.take());
        draft.chunk = chunk;
        draft.nesting.read(&text);
        draft.arguments.push_str(&text);
        if draft.id.is_some() {
            if !text.is_empty() {
                sink(Delta::CallArguments { index, fragment: text });
            }
        } else if let Some(name) = name {
            draft.name = Some(name);
            self.start(index, sink);
        }
        Ok(())
    }

    /// Which call a piece belongs to; `None` for a new one.
    fn target(
        &self,
        number: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        text: &str,
    ) -> Option<usize> {
        let position = match (number, id) {
            // Of several calls with one number, pieces belong to the last.
            (Some(number), _) => self.calls.iter().rposition(|call| call.number == Some(number))?,
            (None, Some(id)) => {
                self.calls.iter().rposition(|call| call.given_id.as_deref() == Some(id))?
            }
            (None, None) => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[position];
        if let (Some(new), Some(known)) = (id, call.given_id.as_deref()) {
            return (new == known).then_some(position);
        }
        if let (Some(new), Some(known)) = (name, call.name.as_deref()) {
            let repeats_the_name = new == known
                && call.chunk != self.chunk
                && (text.is_empty() || !call.nesting.is_complete());
            return repeats_the_name.then_some(position);
        }
        Some(position)
    }

    /// Gives a call its id and shows it, with the arguments that came before its name.
    fn start(&mut self, index: usize, sink: &mut dyn FnMut(Delta)) {
        let taken = |id: &str| self.calls.iter().any(|call| call.id.as_deref() == Some(id));
        let given = self.calls[index].given_id.clone().filter(|id| !taken(id));
        let id = given.unwrap_or_else(|| {
            (index..)
                .map(|number| format!("call_{number}"))
                .find(|id| !taken(id))
                .expect("fewer ids are taken than there are numbers")
        });
        let draft = &mut self.calls[index];
        draft.id = Some(id.clone());
        let tool = draft.name.as_deref().map(from_wire).unwrap_or_default().into_owned();
        sink(Delta::CallStarted { index, id, tool });
        if !draft.arguments.is_empty() {
            sink(Delta::CallArguments { index, fragment: draft.arguments.clone() });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// What the server wants back with each call.
    pub(super) fn extras(&self) -> Vec<Option<Value>> {
        self.calls.iter().map(|call| call.extra.clone()).collect()
    }

    /// The whole calls.
    ///
    /// # Errors
    /// Says which call has no name.
    pub(super) fn finish(self) -> Result<Vec<ModelCall>, String> {
        let whole = |(number, draft): (usize, Draft)| match (draft.id, draft.name) {
            (Some(id), Some(name)) => Ok(ModelCall {
                id,
                tool: from_wire(&name).into_owned(),
                arguments: draft.arguments,
            }),
            _ => Err(format!("call {number} has no tool name")),
        };
        self.calls.into_iter().enumerate().map(whole).collect()
    }
}

/// Follows brackets through argument text to know, in one pass, when a JSON value is whole.
#[derive(Debug, Default)]
struct Nesting {
    depth: usize,
    opened: bool,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    fn read(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => {
                    self.depth += 1;
                    self.opened = true;
                }
                b'}' | b']' if !self.in_string => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    const fn is_complete(&self) -> bool {
        self.opened && self.depth == 0 && !self.in_string
    }
}
