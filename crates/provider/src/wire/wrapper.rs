//! Several calls that a model wrapped in one.
//!
//! Some models, instead of making parallel calls, call a tool that nobody offered and whose
//! arguments are the calls they mean. They are taken out; the wrapper itself is never run.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::draft::MAX_CALLS;
use super::name::from_wire;
use crate::ModelCall;

/// The names under which the wrapper is seen; none can be the wire form of a tool of ours, which
/// has no dot.
const NAMES: [&str; 2] = ["multi_tool_use.parallel", "functions.multi_tool_use.parallel"];

#[derive(Deserialize)]
struct Wrapped<'a> {
    #[serde(borrow)]
    tool_uses: Vec<Use<'a>>,
}

#[derive(Deserialize)]
struct Use<'a> {
    recipient_name: String,
    #[serde(borrow)]
    parameters: &'a RawValue,
}

/// Whether a name is the wrapper's.
pub(crate) fn is_wrapper(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Replaces wrappers by the calls in them; true when there was one. A wrapper that cannot be read
/// stays, and fails as a call of an unknown tool.
pub(crate) fn unwrap(calls: &mut Vec<ModelCall>) -> bool {
    if !calls.iter().any(|call| is_wrapper(&call.tool)) {
        return false;
    }
    let unwrapped: Vec<ModelCall> = calls
        .iter()
        .cloned()
        .flat_map(|call| {
            if !is_wrapper(&call.tool) {
                return vec![call];
            }
            let Ok(wrapped) = serde_json::from_str::<Wrapped<'_>>(&call.arguments) else {
                return vec![call];
            };
            let inner = wrapped.tool_uses.into_iter().enumerate().map(|(number, used)| {
                let name = used.recipient_name.strip_prefix("functions.");
                ModelCall {
                    id: format!("{}_{number}", call.id),
                    tool: from_wire(name.unwrap_or(&used.recipient_name)).into_owned(),
                    arguments: used.parameters.get().to_owned(),
                }
            });
            inner.collect()
        })
        .collect();
    if unwrapped.len() <= MAX_CALLS {
        *calls = unwrapped;
    }
    // An id of ours may be one that the model gave to another call.
    let mut taken = HashSet::new();
    for (number, call) in calls.iter_mut().enumerate() {
        if !taken.insert(call.id.clone()) {
            call.id = format!("{}_again_{number}", call.id);
            taken.insert(call.id.clone());
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, tool: &str, arguments: &str) -> ModelCall {
        ModelCall { id: id.to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn wrappers_are_taken_apart() {
        let check = |calls: &[ModelCall], expected: &[ModelCall]| {
            let mut got = calls.to_vec();
            unwrap(&mut got);
            assert_eq!(got, expected);
        };
        let plain = call("a", "fs.read", "{}");
        let wrapper = r#"{"tool_uses":[
            {"recipient_name":"functions.fs--read","parameters":{"path": "a"}},
            {"recipient_name":"fs--list","parameters":{ }}]}"#;
        check(std::slice::from_ref(&plain), std::slice::from_ref(&plain));
        check(
            &[plain.clone(), call("w", NAMES[0], wrapper)],
            &[
                plain.clone(),
                call("w_0", "fs.read", r#"{"path": "a"}"#),
                call("w_1", "fs.list", "{ }"),
            ],
        );
        let broken = call("w", NAMES[0], "{\"tool_uses\":[{");
        check(std::slice::from_ref(&broken), std::slice::from_ref(&broken));
        check(&[call("w", NAMES[1], r#"{"tool_uses":[]}"#)], &[]);
        let one = r#"{"tool_uses":[{"recipient_name":"a","parameters":{}}]}"#;
        check(
            &[call("w_0", "b", "{}"), call("w", NAMES[0], one)],
            &[call("w_0", "b", "{}"), call("w_0_again_1", "a", "{}")],
        );
        let use_of_one = r#"{"recipient_name":"a","parameters":{}}"#;
        let many = format!("{{\"tool_uses\":[{}]}}", vec![use_of_one; MAX_CALLS + 1].join(","));
        let flood = call("w", NAMES[0], &many);
        check(std::slice::from_ref(&flood), std::slice::from_ref(&flood));
    }
}
