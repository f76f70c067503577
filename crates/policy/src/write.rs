//! Rules written for a call: the narrowest one that matches it.

use std::collections::HashSet;

use glasshouse_model::{Call, CanonicalPath, Effect};
use serde_json::{Map, Value, json};

use crate::builtin::Protected;
use crate::command::Seen;
use crate::limits::MAX_RULES;
use crate::network::HttpPathPattern;
use crate::policy::Policy;
use crate::rule::{Asked, Rule};
use crate::sketch::caller_word;
use crate::source::Source;

/// Most characters of a name that stand in another one, which says more.
const MAX_NAME_PART_CHARS: usize = 64;

/// The `match` that holds for this call and as few others as the conditions can tell apart.
pub(crate) fn match_for(call: &Call) -> Map<String, Value> {
    let mut keys = Map::new();
    keys.insert("syscall".to_owned(), json!(call.syscall));
    if let Some(state) = &call.state {
        keys.insert("state_machine_state".to_owned(), json!(state));
    }
    keys.insert("caller".to_owned(), json!(caller_word(call.caller.kind)));
    if let Some(path) = &call.path {
        // The root has no name: it is what is left without all that have one.
        let pattern =
            if path.is_root() { json!(["**", "!*"]) } else { json!(literal(path.as_str())) };
        keys.insert("path_glob".to_owned(), pattern);
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
    if let Some(port) = call.port {
        keys.insert("port".to_owned(), json!(port));
    }
    if let Some(path) = &call.http_path {
        keys.insert("http_path".to_owned(), json!(HttpPathPattern::literal(path)));
    }
    if let Some(change) = call.change {
        keys.insert("change".to_owned(), json!(change.as_str()));
    }
    keys
}

/// Beginning of what stands in the place of a secret, which is masked before anything is recorded.
const MASK: &str = "[secret:";

/// Whether a call is one that held a secret: it was made with another text, so a rule for what is recorded of it
/// never matches it.
pub(crate) fn is_masked(call: &Call) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
    };
    let has_mask = |text: &str| {
        text.split(MASK).skip(1).any(|rest| rest.split_once(']').is_some_and(|it| is_name(it.0)))
    };
    let texts = [&call.host, &call.http_path, &call.host_path].into_iter().flatten();
    let texts = texts.chain(call.argv.iter().flatten()).map(String::as_str);
    texts.chain(call.path.as_ref().map(CanonicalPath::as_str)).any(has_mask)
}

/// What can stand in the name of a rule, of a name that anybody chose.
pub(crate) fn name_part(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(plain).take(MAX_NAME_PART_CHARS).collect()
}

/// A rule for a call as a line of YAML, to stand beside others; JSON is YAML, and quotes whatever YAML
/// would read. `None` where no rule that loads matches the call.
pub(crate) fn new_rule_for(
    call: &Call,
    action: Effect,
    others: &[Rule],
    seen: &Seen,
) -> Option<String> {
    let verb = match action {
        Effect::Allow => "allow",
        Effect::RequireReview => "review",
        Effect::Deny => "deny",
    };
    let plain = format!("{verb}-{}", name_part(&call.syscall));
    let numbered = (2..=others.len().saturating_add(2)).map(|number| format!("{plain}-{number}"));
    let taken: HashSet<String> = others.iter().map(|rule| rule.name.to_ascii_lowercase()).collect();
    let mut names = [plain.clone()].into_iter().chain(numbered);
    let name = names.find(|name| !taken.contains(name))?;
    if is_masked(call) {
        return None;
    }
    let rule = json!({ "name": name, "match": match_for(call), "action": action });
    let text = format!("- {rule}");
    let policy = format!("capabilities:\n{text}\n");
    let policy = Policy::compile(&[Source::new("new", &policy)], &Protected::default()).ok()?;
    let matches = policy.rules.iter().any(|rule| rule.contributes(Asked { call, seen }));
    (matches && others.len() < MAX_RULES).then_some(text)
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
