//! A rule's own examples, tried when it loads.

use std::fmt::Write as _;

use glasshouse_model::Call;

use super::{EXAMPLE_KEYS, Warning, too_many};
use crate::codes;
use crate::command::Seen;
use crate::error::Result;
use crate::limits::MAX_EXAMPLES;
use crate::lint::{KNOWN_LABELS, TAGS, unknown_label};
use crate::rule::{Asked, Condition, Conditions, LabelPattern, Rule};
use crate::sketch::{Names, caller_word, read_call};
use crate::yaml::{Node, Reader};

/// Runs them, and answers how many there are: a rule that does not say what its author believes is refused. Words of an
/// example that nothing carries are told, because a rule is silent about them for another reason than was meant.
pub(super) fn run(
    reader: &Reader<'_>,
    rule: &Rule,
    node: &Node,
    warnings: &mut Vec<Warning>,
) -> Result<usize> {
    let fields = reader.map(node, "examples", EXAMPLE_KEYS)?;
    let mut tried = 0;
    let mut wrong: Vec<(&Node, String)> = Vec::new();
    for (key, expected) in [("match", true), ("not_match", false)] {
        let Some(list) = fields.get(key) else { continue };
        let items = reader.list(list, key)?;
        if items.len() > MAX_EXAMPLES {
            return Err(too_many(reader, list, "examples", items.len(), MAX_EXAMPLES));
        }
        for item in items {
            tried += 1;
            let what = format!("an example of rule `{}` cannot be read", rule.name);
            let (call, misspelt) = read_call(reader, item, &what, Names::OfStates)
                .map_err(|error| error.with("rule", &*rule.name))?;
            misspelt.map_err(|error| error.with("rule", &*rule.name))?;
            warnings.extend(odd_words(reader, rule, &call));
            let asked = Asked { call: &call, seen: &Seen::default() };
            if rule.contributes(asked) != expected {
                let why = if expected {
                    format!("the rule does not match it, and should: {}", silence(rule, asked))
                } else {
                    "the rule matches it, and should not".to_owned()
                };
                wrong.push((item, why));
            }
        }
    }
    let Some(((first, why), others)) = wrong.split_first() else { return Ok(tried) };
    let mut why = why.clone();
    if !others.is_empty() {
        let lines: Vec<String> = others.iter().map(|(node, _)| node.line.to_string()).collect();
        let _ = write!(why, "; nor do its examples at lines {} hold", lines.join(", "));
    }
    let what = format!("an example of rule `{}` does not hold", rule.name);
    Err(reader.error(codes::EXAMPLE_FAILED, first, what).why(why).with("rule", &*rule.name))
}

/// Labels and tags of an example that nothing carries and the rule does not name.
fn odd_words(reader: &Reader<'_>, rule: &Rule, call: &Call) -> Vec<Warning> {
    let conditions = || rule.when.iter().chain(rule.excepts.iter().flat_map(Conditions::iter));
    let is_named = |word: &str| {
        conditions().any(|condition| match condition {
            Condition::CallerTag(tags) => tags.iter().any(|tag| **tag == *word),
            Condition::Label(labels) => labels.iter().any(|label| label.holds(word)),
            _ => false,
        })
    };
    let labels = call
        .labels
        .iter()
        .filter(|label| unknown_label(&LabelPattern::parse(label)).is_some() && !is_named(label));
    let tags = call.caller.tags.iter();
    let tags = tags.filter(|tag| !TAGS.contains(&tag.as_str()) && !is_named(tag));
    let warning = |kind, message: String, fix: String| Warning {
        source: reader.source.to_owned(),
        line: rule.line,
        rule: rule.name.to_string(),
        kind,
        message,
        fix,
    };
    let of_label = labels.map(|label| {
        let message = format!("an example has the label `{label}`, which nothing carries");
        warning("unused_label", message, KNOWN_LABELS.to_owned())
    });
    let of_tag = tags.map(|tag| {
        let message = format!("an example has the tag `{tag}`, which nobody carries");
        warning("unused_tag", message, format!("tags are {}", TAGS.join(", ")))
    });
    of_label.chain(of_tag).collect()
}

/// The first thing that keeps a rule silent about an example.
fn silence(rule: &Rule, asked: Asked<'_>) -> String {
    if let Some(unmet) = rule.when.iter().find(|condition| !condition.holds(asked)) {
        return format!("`{}` does not hold, {}", unmet.key(), had(unmet, asked.call));
    }
    let lifts = rule.excepts.iter().position(|except| except.match_call(asked));
    lifts.map_or_else(
        || "a rule without `host` allows no connection".to_owned(),
        |at| format!("item {} of `except` lifts it", at + 1),
    )
}

/// What an example has where a condition looks.
fn had(condition: &Condition, call: &Call) -> String {
    let one = |key: &str, value: Option<String>| match value {
        Some(value) => format!("its `{key}` is `{value}`"),
        None => format!("it has no `{key}`"),
    };
    let many = |key: &str, values: &std::collections::BTreeSet<String>| {
        let values = values.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        one(key, Some(values).filter(|values| !values.is_empty()))
    };
    let caller = &call.caller;
    match condition {
        Condition::Syscall(_) => one("syscall", Some(call.syscall.clone())),
        Condition::Path(_) => one("path", call.path.as_ref().map(ToString::to_string)),
        Condition::State(_) => one("state", call.state.clone()),
        Condition::Caller(_) | Condition::Plugin(_) => {
            one("caller", Some(format!("{}:{}", caller_word(caller.kind), caller.id)))
        }
        Condition::CallerTag(_) => many("caller_tag", &caller.tags),
        Condition::Tenant(_) => one("tenant", Some(caller.tenant.to_string())),
        Condition::Label(_) => many("label", &call.labels),
        Condition::Method(_) => one("method", call.method.clone()),
        Condition::SizeOver(_) => one("size", call.size_bytes.map(|bytes| bytes.to_string())),
        Condition::Host(_) => one("host", call.host.clone()),
        Condition::Port(_) => one("port", call.port.map(|port| port.to_string())),
        Condition::HttpPath(_) => one("http_path", call.http_path.clone()),
        Condition::Change(_) => one("change", call.change.map(|class| class.as_str().to_owned())),
        Condition::Command(_) => one("argv", call.argv.as_ref().map(|words| words.join(" "))),
    }
}
