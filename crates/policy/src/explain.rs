//! Decisions in words.

use std::fmt::Write as _;

use glasshouse_model::{Decision, Effect, Layer};

use crate::counterfactual::{CallChange, Explanation};

/// Says what was decided and why, for people: the answer, the rules that made it (those that
/// were overruled marked as such), what holds while acting, and under which policy.
///
/// ```
/// use glasshouse_policy::{CallSketch, Policy, Protected, Request, decide, explain_text};
/// let policy = Policy::compile(&[], &Protected::default()).unwrap();
/// let call = CallSketch::from_json(r#"{"syscall":"fs.write","path":".git/config"}"#)
///     .and_then(CallSketch::into_call)
///     .unwrap();
/// let text = explain_text(&decide(&policy, &Request::new(&call, 0)).decision);
/// assert!(text.starts_with("denied\n  deny    protect-git (built in): "));
/// ```
#[must_use]
pub fn explain_text(decision: &Decision) -> String {
    let approved = decision.effect == Effect::Allow
        && decision.rules.iter().any(|rule| rule.action == Effect::RequireReview);
    let mut out = match decision.effect {
        Effect::Allow if approved => "allowed after approval\n".to_owned(),
        Effect::Allow => "allowed\n".to_owned(),
        Effect::RequireReview => "needs review\n".to_owned(),
        Effect::Deny => "denied\n".to_owned(),
    };
    for rule in &decision.rules {
        let _ = write!(out, "  {:<7} {} (", verb(rule.action), rule.name);
        let _ = match (&rule.source, rule.line) {
            (Some(source), Some(line)) => write!(out, "{source}:{line}"),
            _ => write!(out, "{}", layer(rule.layer)),
        };
        out.push(')');
        if let Some(reason) = &rule.reason {
            let _ = write!(out, ": {reason}");
        }
        if rule.action != decision.effect && !(approved && rule.action == Effect::RequireReview) {
            out.push_str(" [overruled]");
        }
        out.push('\n');
    }
    let constraints = &decision.constraints;
    if let Some(sandbox) = &constraints.require_sandbox {
        let _ = writeln!(out, "  only in sandbox {sandbox}");
    }
    if let Some(bytes) = constraints.max_file_size_bytes {
        let _ = writeln!(out, "  at most {bytes} bytes a file");
    }
    if let Some(level) = &constraints.min_isolation {
        let _ = writeln!(out, "  isolated at least as `{level}`");
    }
    if let Some(milliseconds) = constraints.max_duration_ms {
        let _ = writeln!(out, "  at most {milliseconds} ms");
    }
    for (rule, rate) in &constraints.rates {
        let _ = writeln!(out, "  {} times in {} ms by {rule}", rate.calls, rate.within_ms);
    }
    if let Some(profile) = &constraints.ui_profile {
        let _ = writeln!(out, "  at most under the profile {profile}");
    }
    for (name, most) in &constraints.ui_limits {
        let _ = writeln!(out, "  {name} at most {most}");
    }
    if let Some(hosts) = &constraints.ui_hosts {
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let _ = writeln!(out, "  only the hosts: {}", hosts.join(", "));
    }
    let _ = writeln!(out, "  policy {}", decision.policy_version);
    out
}

/// The same with what would have made it another decision.
#[must_use]
pub fn explanation_text(explanation: &Explanation) -> String {
    let mut out = explain_text(&explanation.decision);
    for near in &explanation.nearly {
        let what = if near.key == "except" { "is lifted by an except item" } else { "is silent" };
        let because = if near.key == "except" {
            String::new()
        } else {
            format!(": `{}` does not hold", near.key)
        };
        let _ = writeln!(
            out,
            "  nearly  {} ({}:{}), which would {}, {what}{because}",
            near.rule,
            near.source,
            near.line,
            verb(near.action),
        );
    }
    for change in &explanation.other_call {
        let _ = writeln!(out, "  it would {} {}", said(change.decision), call_change(change));
    }
    match &explanation.other_rules {
        None => out.push_str("  no rule of a file can change this\n"),
        Some(change) => {
            let _ = write!(out, "  it would {}", said(change.decision));
            if !change.without.is_empty() {
                let _ = write!(out, " without {}", change.without.join(", "));
            }
            if let Some(rule) = &change.with {
                let joined = if change.without.is_empty() { "with" } else { "and with" };
                let _ = write!(out, " {joined} the rule\n    {rule}");
            }
            out.push('\n');
        }
    }
    out
}

fn call_change(change: &CallChange) -> String {
    let parts = change.set.iter().map(|edit| match edit.to.strip_prefix("without ") {
        Some(word) => format!("without the {} {word}", edit.key),
        None => format!("with {} {}", edit.key, edit.to),
    });
    parts.collect::<Vec<_>>().join(" and ")
}

const fn said(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "be allowed",
        Effect::RequireReview => "need review",
        Effect::Deny => "be denied",
    }
}

const fn verb(effect: Effect) -> &'static str {
    match effect {
        Effect::Allow => "allow",
        Effect::RequireReview => "review",
        Effect::Deny => "deny",
    }
}

const fn layer(layer: Layer) -> &'static str {
    match layer {
        Layer::BuiltIn => "built in",
        Layer::Grant => "grant",
        Layer::File => "file",
        Layer::Extension => "extension",
        Layer::Default => "default",
    }
}
