//! Rules written for a call: the narrowest one that matches it.

use glasshouse_model::{Call, Effect};
use serde_json::{Map, Value, json};

use crate::sketch::caller_word;

/// The `match` that holds for this call and as few others as the conditions can tell apart.
pub(crate) fn match_for(call: &Call) -> Map<String, Value> {
    let mut keys = Map::new();
    keys.insert("syscall".to_owned(), json!(call.syscall));
    if let Some(state) = &call.state {
        keys.insert("state_machine_state".to_owned(), json!(state));
    }
    keys.insert("caller".to_owned(), json!(caller_word(call.caller.kind)));
    if let Some(path) = &call.path {
        // The root has no name; a pattern for it alone does not exist.
        let pattern = if path.is_root() { "**".to_owned() } else { literal(path.as_str()) };
        keys.insert("path_glob".to_owned(), json!(pattern));
    }
    if let Some(argv) = call.argv.as_ref().filter(|argv| !argv.is_empty()) {
        keys.insert("argv".to_owned(), json!([argv]));
    }
    if let Some(host) = &call.host {
        keys.insert("host".to_owned(), json!(host));
    }
    if let Some(method) = &call.method {
        keys.insert("method".to_owned(), json!(method));
    }
    if let Some(change) = call.change {
        keys.insert("change".to_owned(), json!(change.as_str()));
    }
    keys
}

/// One rule as a line of YAML; JSON is YAML, and quotes whatever YAML would read.
pub(crate) fn rule_for(call: &Call, action: Effect) -> String {
    let name = format!("allow-{}", call.syscall.replace(['.', ':', '/'], "-"));
    let rule = json!({ "name": name, "match": match_for(call), "action": action });
    format!("- {rule}")
}

/// A pattern that matches exactly this path.
pub(crate) fn literal(path: &str) -> String {
    let mut out = String::with_capacity(path.len() + 1);
    out.push('/');
    for c in path.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
