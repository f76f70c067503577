//! Decisions in words.

use std::fmt::Write as _;

use glasshouse_model::{Decision, Effect, Layer, Rate, RuleTrace};

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
        let _ = write!(out, "  {:<7} {} ({})", verb(rule.action), rule.name, place(rule));
        if let Some(reason) = &rule.reason {
            let _ = write!(out, ": {reason}");
        }
        if rule.action != decision.effect && !(approved && rule.action == Effect::RequireReview) {
            out.push_str(" [overruled]");
        }
        out.push('\n');
    }
    for reason in decision.reasons.iter().filter(|reason| !is_of_a_rule(decision, reason)) {
        let _ = writeln!(out, "  {reason}");
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
        let _ = writeln!(out, "  at most {}", time_text(milliseconds));
    }
    for (rule, rate) in &constraints.rates {
        let _ = writeln!(out, "  at most {} by {rule}", rate_text(*rate));
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

/// Whether a reason is told with the rule that gave it.
fn is_of_a_rule(decision: &Decision, reason: &str) -> bool {
    decision.rules.iter().any(|rule| {
        rule.reason.as_deref() == Some(reason)
            || reason.starts_with(&format!("rule `{}` ", rule.name))
    })
}

/// A rate as people say it.
///
/// ```
/// use glasshouse_model::Rate;
/// use glasshouse_policy::rate_text;
/// assert_eq!(rate_text(Rate { calls: 2, within_ms: 3_600_000 }), "2 times an hour");
/// assert_eq!(rate_text(Rate { calls: 1, within_ms: 90_000 }), "once in 90 seconds");
/// ```
#[must_use]
pub fn rate_text(rate: Rate) -> String {
    let times = match rate.calls {
        1 => "once".to_owned(),
        calls => format!("{calls} times"),
    };
    let within = time_text(rate.within_ms);
    match within.strip_prefix("1 ") {
        Some("hour") => format!("{times} an hour"),
        Some(unit) => format!("{times} a {unit}"),
        None => format!("{times} in {within}"),
    }
}

/// A time in the largest unit that it is a whole number of.
///
/// ```
/// use glasshouse_policy::time_text;
/// assert_eq!([time_text(5_000), time_text(60_000), time_text(1)], ["5 seconds", "1 minute", "1 millisecond"]);
/// ```
#[must_use]
pub fn time_text(time_ms: u64) -> String {
    const UNITS: [(u64, &str); 5] = [
        (86_400_000, "day"),
        (3_600_000, "hour"),
        (60_000, "minute"),
        (1_000, "second"),
        (1, "millisecond"),
    ];
    let whole = UNITS.iter().find(|(unit, _)| time_ms >= *unit && time_ms.is_multiple_of(*unit));
    let (unit, name) = whole.unwrap_or(&UNITS[4]);
    let number = time_ms / unit;
    let many = if number == 1 { "" } else { "s" };
    format!("{number} {name}{many}")
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
    // Another file or command is another act: what could be different of this one comes first.
    let (others, own): (Vec<_>, Vec<_>) =
        explanation.other_call.iter().partition(|change| change.is_another_act());
    let told = |out: &mut String, changes: &[&CallChange]| {
        for change in changes {
            let _ = writeln!(out, "  it would {} {}", said(change.decision), call_change(change));
        }
    };
    told(&mut out, &own);
    other_rules_text(&mut out, explanation);
    told(&mut out, &others);
    if explanation.untried {
        out.push_str(
            "  not every other call was tried: the rules in TypeScript were not asked about all\n",
        );
    }
    out
}

/// Which rules would have to be different.
fn other_rules_text(out: &mut String, explanation: &Explanation) {
    let decision = &explanation.decision;
    let Some(change) = &explanation.other_rules else {
        let _ = match broken_demand(decision) {
            Some(demand) => writeln!(
                out,
                "  no further rule changes this: what a rule demands holds, whatever others allow; change {demand}"
            ),
            None => writeln!(out, "  no rule of a file can change this{}", decides(explanation)),
        };
        return;
    };
    if decision.effect == Effect::RequireReview && change.decision == Effect::Deny {
        let _ = writeln!(out, "  no rule of a file can allow this{}", decides(explanation));
    }
    let _ = write!(out, "  it would {}", said(change.decision));
    let mut joined = "";
    if let Some(source) = &change.accepted {
        let _ = write!(out, " if {source} were accepted");
        joined = " and";
    }
    if !change.without.is_empty() {
        let _ = write!(out, "{joined} without {}", change.without.join(", "));
        joined = " and";
    }
    if let Some(rule) = &change.with {
        let _ = write!(out, "{joined} with the rule\n    {rule}");
    }
    out.push('\n');
}

/// Names under which the kernel denies a call that some rule allows, for what that rule demands, and the keys under
/// which it may demand that.
const DEMANDED: [(&str, &[&str]); 3] = [
    ("isolation-too-weak", &["min_isolation"]),
    ("rate-limited", &["rate"]),
    ("sandbox-demanded", &["require_sandbox", "max_duration", "min_isolation"]),
];

/// The demand of a file that denied a call, and the rules that may have made it.
fn broken_demand(decision: &Decision) -> Option<String> {
    let of_kernel = |rule: &&RuleTrace| rule.layer == Layer::BuiltIn;
    let (keys, why) = decision.rules.iter().filter(of_kernel).find_map(|rule| {
        let (_, keys) = DEMANDED.iter().find(|(name, _)| *name == rule.name)?;
        Some((keys, rule.reason.as_deref().unwrap_or_default()))
    })?;
    let is_made = |key: &str| match key {
        "require_sandbox" => decision.constraints.require_sandbox.is_some(),
        "max_duration" => decision.constraints.max_duration_ms.is_some(),
        "min_isolation" => decision.constraints.min_isolation.is_some(),
        _ => true,
    };
    let made: Vec<String> =
        keys.iter().filter(|key| is_made(key)).map(|key| format!("`{key}`")).collect();
    let allowing = decision.rules.iter().filter(|rule| rule.action == Effect::Allow);
    // A rate is told with its rule; of what else is demanded each rule that allows may be the one.
    let is_named = |rule: &RuleTrace| {
        let source = rule.source.as_deref().unwrap_or_default();
        why.contains(&format!("`{} ({source})`", rule.name))
    };
    let all: Vec<&RuleTrace> = allowing.collect();
    let named: Vec<&&RuleTrace> = all.iter().filter(|rule| is_named(rule)).collect();
    let rules = if named.is_empty() { all.iter().collect() } else { named };
    let rules: Vec<String> =
        rules.iter().map(|rule| format!("{} ({})", rule.name, place(rule))).collect();
    let waits = if why.contains("; the next one in ") { ", or wait" } else { "" };
    Some(format!("{} of {}{waits}", made.join(" or "), rules.join(" or ")))
}

/// Who decides what no rule can change. What somebody wrote can be taken out of its file, so where something else
/// decides as well, that is it.
fn decides(explanation: &Explanation) -> String {
    let decision = &explanation.decision;
    let decisive = decision
        .rules
        .iter()
        .filter(|rule| rule.action == decision.effect && rule.layer != Layer::Default);
    let is_fixed = |rule: &&RuleTrace| match &rule.source {
        Some(source) => explanation.given.contains(source),
        None => true,
    };
    let (fixed, written): (Vec<_>, Vec<_>) = decisive.partition(is_fixed);
    let named: Vec<String> = if fixed.is_empty() { written } else { fixed }
        .into_iter()
        .map(|rule| format!("{} ({})", rule.name, place(rule)))
        .collect();
    match named.as_slice() {
        [] => String::new(),
        [one] => format!(": {one} decides"),
        several => format!(": {} decide", several.join(", ")),
    }
}

fn place(rule: &RuleTrace) -> String {
    match (&rule.source, rule.line) {
        (Some(source), Some(line)) => format!("{source}:{line}"),
        _ => layer(rule.layer).to_owned(),
    }
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
