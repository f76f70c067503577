//! `glasshouse policy show`.

use glasshouse_model::{Exit, Layer};
use glasshouse_policy::RuleInfo;

use super::{AsAccepted, load};
use crate::error::Error;
use crate::{home, output};

/// The rules in force here, or the shipped file.
pub(super) fn show(shipped: bool, json: bool) -> Result<u8, Error> {
    if shipped {
        let text = glasshouse_policy::default_source();
        if json {
            output::json_line(&serde_json::json!({ "source": "default.yaml", "text": text }));
        } else {
            output::bytes(text.as_bytes());
        }
        return Ok(Exit::Done.status());
    }
    let policy = load(None, &home::here()?, AsAccepted(false))?;
    if json {
        for rule in policy.rules() {
            output::json_line(&serde_json::json!({
                "name": rule.name, "layer": rule.layer, "action": rule.action,
                "source": rule.source, "line": rule.line, "reason": rule.reason,
            }));
        }
    } else {
        let rules: Vec<RuleInfo<'_>> = policy.rules().collect();
        for (at, rule) in rules.iter().enumerate() {
            // A file that began as a copy of the shipped one has its rules: each is told once, with both places.
            let is_same = |other: &&RuleInfo<'_>| says_the_same(other, rule);
            if !rules[..at].iter().any(|other| is_same(&other)) {
                let places: Vec<String> = rules[at..].iter().filter(is_same).map(place).collect();
                output::data(&output::visible(&rule_line(rule, &places.join(", ")), false));
            }
        }
    }
    for text in policy.extensions() {
        let (source, line) = (&text.source, text.line);
        if json {
            output::json_line(&serde_json::json!({
                "name": "extension", "layer": Layer::Extension, "action": null,
                "source": source, "line": line, "reason": null,
            }));
        } else {
            let line = format!("{:<14} extension ({source}:{line}): {PROGRAM}", "asked");
            output::data(&output::visible(&line, false));
        }
    }
    Ok(Exit::Done.status())
}

/// What a program in the place of rules does.
const PROGRAM: &str = "rules in TypeScript, which are asked where no rule denies";

fn says_the_same(one: &RuleInfo<'_>, other: &RuleInfo<'_>) -> bool {
    (one.name, one.layer, one.action, one.reason)
        == (other.name, other.layer, other.action, other.reason)
}

fn place(rule: &RuleInfo<'_>) -> String {
    match (rule.source, rule.line) {
        (Some(source), Some(line)) => format!("{source}:{line}"),
        _ => "built in".to_owned(),
    }
}

fn rule_line(rule: &RuleInfo<'_>, places: &str) -> String {
    let reason = rule.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{:<14} {} ({places}){reason}", rule.action.as_str(), rule.name)
}
