//! A conversation the way dialects want it: each call with its result, ids that never repeat.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::name::to_wire;
use crate::{Carry, Error, Image, Message, ModelCall, codes};

/// What a model gets to read of a call that has no result.
const NO_RESULT: &str = "this call has no result; it may not have run";

/// One entry of the conversation.
#[derive(Debug)]
pub(crate) enum Turn<'a> {
    User { text: &'a str, images: &'a [Image] },
    Assistant { text: &'a str, calls: Vec<Paired<'a>>, carry: Option<&'a Carry> },
}

/// A call and what became of it.
#[derive(Debug)]
pub(crate) struct Paired<'a> {
    pub(crate) call: &'a ModelCall,
    /// The call's id, changed when an earlier call had it.
    pub(crate) id: String,
    /// What the model gets to read.
    pub(crate) content: &'a str,
    /// `completed`, or why not.
    pub(crate) status: &'a str,
    /// Whether it is anything but completed.
    pub(crate) is_error: bool,
}

impl Paired<'_> {
    /// The result for dialects that have no mark for one that is no success.
    pub(crate) fn marked_content(&self) -> String {
        if self.is_error {
            format!("[{}] {}", self.status, self.content)
        } else {
            self.content.to_owned()
        }
    }
}

/// Sorts results to their calls. A call without a result gets one that says so, because servers
/// refuse a conversation with an open call; a result without a call is left out for the same reason.
///
/// `carried` tells the ids of the calls inside a carry of the dialect in question: a carry is kept
/// only when these are exactly the calls of its answer, so that each is answered once.
pub(crate) fn turns<'a>(
    messages: &'a [Message],
    carried: &dyn Fn(&Carry) -> Option<Vec<String>>,
) -> Vec<Turn<'a>> {
    let mut turns = Vec::with_capacity(messages.len());
    let mut used = HashSet::new();
    let mut rest = messages.iter();
    while let Some(message) = rest.next() {
        match message {
            Message::User { text, images } => turns.push(Turn::User { text, images }),
            Message::ToolResult { .. } => {}
            Message::Assistant { text, calls, carry } => {
                let mut results = HashMap::new();
                let after = rest.clone().take_while(|m| matches!(m, Message::ToolResult { .. }));
                for result in after {
                    if let Message::ToolResult { id, content, status } = result {
                        results.insert(id.as_str(), (content.as_str(), status.as_str()));
                    }
                }
                let carry = carry.as_ref().filter(|carry| {
                    carried(carry).is_some_and(|ids| {
                        ids.iter().eq(calls.iter().map(|call| &call.id))
                            && ids.iter().all(|id| !used.contains(id))
                    })
                });
                let paired = calls.iter().map(|call| {
                    let (content, status) =
                        results.get(call.id.as_str()).copied().unwrap_or((NO_RESULT, "cancelled"));
                    let id = match carry {
                        // It stands in the carry, which is not changed.
                        Some(_) => {
                            used.insert(call.id.clone());
                            call.id.clone()
                        }
                        None => fresh(&call.id, &mut used),
                    };
                    Paired { call, id, content, status, is_error: status != "completed" }
                });
                turns.push(Turn::Assistant { text, calls: paired.collect(), carry });
            }
        }
    }
    turns
}

/// An id that no earlier call had. Servers that mint ids start again with each answer, and other
/// servers refuse a conversation in which an id comes twice, or one with unusual characters.
fn fresh(id: &str, used: &mut HashSet<String>) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let id: String = id.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    let again = (2u64..).map(|number| format!("{id}_{number}"));
    let wire = std::iter::once(id.clone())
        .chain(again)
        .find(|wire| !wire.is_empty() && !used.contains(wire))
        .expect("fewer ids are used than there are numbers");
    used.insert(wire.clone());
    wire
}

/// The arguments of an earlier call as an object. Servers refuse anything else, so text that is no
/// JSON object goes back as a string inside one.
pub(crate) fn arguments_object(arguments: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) if arguments.trim().is_empty() => "{}".to_owned(),
        Err(_) => json!({"not_a_json_object": arguments}).to_string(),
    }
}

/// The wire form of the name of a tool that is offered.
pub(crate) fn wire_tool_name(tool: &str) -> Result<String, Error> {
    to_wire(tool).map_err(|why| {
        Error::new(codes::PROVIDER_INVALID_REQUEST, "the request cannot be written").why(why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(ids: &[&str], carry: Option<&str>) -> Message {
        Message::Assistant {
            text: String::new(),
            calls: ids
                .iter()
                .map(|id| ModelCall {
                    id: (*id).to_owned(),
                    tool: "a".to_owned(),
                    arguments: "{}".to_owned(),
                })
                .collect(),
            carry: carry.map(|ids| Carry {
                dialect: "test".to_owned(),
                model: String::new(),
                blocks: ids.split(' ').map(str::to_owned).collect(),
            }),
        }
    }

    fn result(id: &str) -> Message {
        Message::ToolResult {
            id: id.to_owned(),
            content: format!("of {id}"),
            status: "completed".to_owned(),
        }
    }

    #[test]
    fn each_call_is_answered_once_under_its_own_id() {
        let check = |messages: &[Message], expected: &[(&str, &str, bool)]| {
            let carried = |carry: &Carry| Some(carry.blocks.clone());
            let turns = turns(messages, &carried);
            let got: Vec<_> = turns
                .iter()
                .filter_map(|turn| match turn {
                    Turn::Assistant { calls, carry, .. } => {
                        Some(calls.iter().map(|c| (c.id.as_str(), c.content, carry.is_some())))
                    }
                    Turn::User { .. } => None,
                })
                .flatten()
                .collect();
            assert_eq!(got, expected, "{messages:?}");
        };
        check(
            &[asks(&["x", "y"], None), result("y"), result("x")],
            &[("x", "of x", false), ("y", "of y", false)],
        );
        check(&[asks(&["x"], None), Message::user("stop")], &[("x", NO_RESULT, false)]);
        check(&[result("x"), asks(&["x"], None), result("z")], &[("x", NO_RESULT, false)]);
        check(
            &[asks(&["x"], None), result("x"), asks(&["x"], None), result("x")],
            &[("x", "of x", false), ("x_2", "of x", false)],
        );
        check(&[asks(&["x y/z"], None)], &[("x_y_z", NO_RESULT, false)]);
        check(
            &[asks(&["x", "y"], Some("x y")), result("x"), result("y")],
            &[("x", "of x", true), ("y", "of y", true)],
        );
        check(&[asks(&["x:1"], Some("x:1")), result("x:1")], &[("x:1", "of x:1", true)]);
        // A carry with other calls than those answered would leave one open, or answer one twice.
        check(&[asks(&["x"], Some("x y")), result("x")], &[("x", "of x", false)]);
        check(
            &[asks(&["x"], None), result("x"), asks(&["x"], Some("x")), result("x")],
            &[("x", "of x", false), ("x_2", "of x", false)],
        );
    }
}
