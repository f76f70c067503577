use super::*;

use std::collections::BTreeSet;

use glasshouse_model::Actor;
use glasshouse_model::event::Header;

/// Events of a branch, as kind and body, from a sequence on.
fn events(from: Seq, list: &[(&str, Value)]) -> Vec<Event> {
    let event = |(seq, (kind, body)): (Seq, &(&str, Value))| Event {
        header: Header {
            v: 1,
            tenant: glasshouse_model::TenantId::local(),
            session: "s_x".parse().unwrap(),
            branch: branch(),
            seq,
            time_us: 0,
            kind: kind.parse().unwrap(),
            actor: Actor::kernel(),
            cause: None,
            trace: None,
            labels: BTreeSet::new(),
            body_hash: digest(),
        },
        body: body.clone(),
        prev: digest(),
        hash: digest(),
    };
    (from..).zip(list).map(event).collect()
}

fn branch() -> BranchId {
    "b_x".parse().unwrap()
}

fn digest() -> Digest {
    Digest::of(b"")
}

/// A chunk in a line.
fn line(chunk: &Value) -> String {
    let kind = chunk["type"].as_str().unwrap();
    let word = |name: &str| match &chunk[name] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let names = [
        "id",
        "delta",
        "messageId",
        "toolCallId",
        "toolName",
        "input",
        "approvalId",
        "approved",
        "sourceId",
        "url",
        "errorText",
        "reason",
        "finishReason",
        "providerMetadata",
    ];
    let words = names.iter().filter_map(|name| word(name));
    let data = match kind {
        "data-plan" => Some(format!("{} {}", chunk["data"]["plan"], chunk["data"]["issues"])),
        "tool-output-available" => word("output"),
        _ => None,
    };
    std::iter::once(kind.to_owned()).chain(words).chain(data).collect::<Vec<_>>().join(" ")
}

fn requested(ordinal: u64) -> (&'static str, Value) {
    (
        "model.requested",
        json!({
            "ordinal": ordinal, "attempt": 1, "request": digest(), "provider": "p", "model": "m",
        }),
    )
}

fn answered(ordinal: u64, text: &str, reasoning: &str) -> (&'static str, Value) {
    (
        "model.completed",
        json!({
            "ordinal": ordinal, "text": text, "reasoning": reasoning, "calls": [], "finish": "stop",
            "tokens": {}, "raw": { "blob": digest(), "bytes": 1 }, "duration_us": 1,
        }),
    )
}

fn failed(code: &str, retry: bool) -> (&'static str, Value) {
    let mut body = json!({
        "ordinal": 0, "attempt": 1, "code": code, "message": "no", "answered": true,
    });
    if retry {
        body["retry_in_ms"] = 5.into();
    }
    ("model.failed", body)
}

fn proposed(tool: &str, arguments: &str) -> (&'static str, Value) {
    ("tool.proposed", json!({ "id": "x", "tool": tool, "arguments": arguments }))
}

fn asked(subject: &str, call: Option<&str>) -> (&'static str, Value) {
    let mut body = json!({
        "subject": subject, "tool": "t", "shown": "s", "reasons": [], "args_digest": digest(),
        "policy_version": digest(), "base": digest(),
    });
    if let Some(call) = call {
        body["call"] = call.into();
    }
    ("approval.requested", body)
}

fn resolved(approval: Seq, approved: bool) -> (&'static str, Value) {
    (
        "approval.resolved",
        json!({
            "approval": approval, "approved": approved, "approver": Actor::kernel(), "code": "x",
            "expires_us": 1,
        }),
    )
}

fn ended(call: &str, kind: &'static str) -> (&'static str, Value) {
    let status = kind.trim_start_matches("tool.");
    (kind, json!({ "call": call, "status": status, "duration_us": 1, "text": "told" }))
}

fn over(turn: Seq, kind: &'static str, outcome: &str) -> (&'static str, Value) {
    (kind, json!({ "turn": turn, "outcome": outcome, "code": "why" }))
}

fn begun(continues: Option<Seq>) -> (&'static str, Value) {
    ("turn.started", json!({ "continues": continues }))
}

/// What is told of events from sequence 2 on, and where the message is then.
fn told(protocol: Protocol, list: &[(&str, Value)]) -> (Vec<String>, Phase) {
    let mut teller = Teller::new(protocol, branch(), 2);
    let mut lines: Vec<String> = events(2, list)
        .iter()
        .flat_map(|event| teller.tell(event))
        .map(|chunk| line(&chunk))
        .collect();
    let phase = teller.phase();
    if phase != Phase::Running {
        lines.extend(teller.ending().iter().map(line));
    }
    (lines, phase)
}

fn check_as(protocol: Protocol, list: &[(&str, Value)], phase: Phase, expected: &[&str]) {
    assert_eq!(
        told(protocol, list),
        (expected.iter().map(|&line| line.to_owned()).collect(), phase)
    );
}

/// The same for both versions.
fn check(list: &[(&str, Value)], phase: Phase, expected: &[&str]) {
    check_as(Protocol::V6, list, phase, expected);
    check_as(Protocol::V7, list, phase, expected);
}

#[test]
fn answers_become_words() {
    let start = "start b_x:2";
    check(&[begun(None)], Phase::Running, &[start]);
    check(
        &[
            begun(None),
            requested(0),
            answered(0, "Hi", "Hm"),
            over(2, "turn.completed", "answered"),
        ],
        Phase::Over,
        &[
            start,
            "start-step",
            "reasoning-start reasoning-3",
            "reasoning-delta reasoning-3 Hm",
            "text-start text-3",
            "text-delta text-3 Hi",
            "reasoning-end reasoning-3",
            "text-end text-3",
            "finish-step",
            "finish stop",
        ],
    );
    // What was stored in parts is told in parts; an answer without words tells none.
    let partial = |text: &str| ("model.partial", json!({ "ordinal": 0, "text": text }));
    check(
        &[
            begun(None),
            requested(0),
            partial("a"),
            partial("b"),
            answered(0, "abc", ""),
            requested(1),
            answered(1, "", ""),
        ],
        Phase::Running,
        &[
            start,
            "start-step",
            "text-start text-3",
            "text-delta text-3 a",
            "text-delta text-3 b",
            "text-delta text-3 c",
            "text-end text-3",
            "finish-step",
            "start-step",
        ],
    );
}

#[test]
fn calls_become_parts() {
    let before = ["start b_x:2"];
    let row = |list: &[(&'static str, Value)], phase: Phase, expected: &[&str]| {
        let list: Vec<_> = std::iter::once(begun(None)).chain(list.iter().cloned()).collect();
        check(&list, phase, &[&before[..], expected].concat());
    };
    let input = "tool-input-available c3 fs.read {\"path\":\"a\"}";
    let call = proposed("fs.read", r#"{"path":"a"}"#);
    row(std::slice::from_ref(&call), Phase::Running, &[input]);
    row(
        &[call.clone(), ended("c3", "tool.completed")],
        Phase::Running,
        &[input, r#"tool-output-available c3 {"status":"completed","text":"told"}"#],
    );
    for kind in ["tool.failed", "tool.denied", "tool.cancelled", "tool.timed_out"] {
        row(
            &[call.clone(), ended("c3", kind)],
            Phase::Running,
            &[input, "tool-output-error c3 told"],
        );
    }
    let wrong = proposed("fs.read", "{");
    let error = "tool-input-error c3 fs.read { EOF while parsing an object at line 1 column 1";
    row(&[wrong], Phase::Running, &[error]);
    let fetch = proposed("web.fetch", r#"{"url":"https://a.example/"}"#);
    row(
        &[fetch, ended("c3", "tool.completed")],
        Phase::Running,
        &[
            r#"tool-input-available c3 web.fetch {"url":"https://a.example/"}"#,
            r#"tool-output-available c3 {"status":"completed","text":"told"}"#,
            "source-url c3 https://a.example/",
        ],
    );
    let shown = json!({ "call": "c3", "plan": "p", "profile": "strict", "html": { "blob": digest(), "bytes": 1 } });
    row(
        &[call.clone(), ("plan.rendered", shown)],
        Phase::Running,
        &[input, r#"data-plan c3 "p" null"#],
    );
    let refused = json!({ "call": "c3", "profile": "strict", "issues": ["i"] });
    row(
        &[call.clone(), ("plan.refused", refused)],
        Phase::Running,
        &[input, r#"data-plan c3 null ["i"]"#],
    );
    // What a client was not told of is not ended, and what cannot be read is not told.
    row(&[("tool.proposed", Value::Null), ended("c3", "tool.completed")], Phase::Running, &[]);
    row(
        &[ended("c9", "tool.completed"), asked("call", Some("c9"))],
        Phase::Asking,
        &["data-approval b_x:4", "finish tool-calls"],
    );
}

#[test]
fn questions_end_a_stream_and_only_version_7_hears_the_answer_by_its_name() {
    let list = |more: &[(&'static str, Value)]| -> Vec<(&'static str, Value)> {
        let call = proposed("fs.read", "{}");
        [begun(None), requested(0), answered(0, "", ""), call, asked("call", Some("c5"))]
            .into_iter()
            .chain(more.iter().cloned())
            .collect()
    };
    let before = [
        "start b_x:2",
        "start-step",
        "tool-input-available c5 fs.read {}",
        "tool-approval-request c5 b_x:6",
    ];
    let row = |protocol, more: &[(&'static str, Value)], phase, expected: &[&str]| {
        check_as(protocol, &list(more), phase, &[&before[..], expected].concat());
    };
    let rest = ["finish-step", "finish tool-calls"];
    for protocol in [Protocol::V6, Protocol::V7] {
        row(protocol, &[], Phase::Asking, &rest);
        // Another call still runs.
        row(protocol, &[proposed("a", "{}")], Phase::Running, &["tool-input-available c7 a {}"]);
    }
    let v6 = "data-approval-response b_x:6";
    row(Protocol::V6, &[resolved(6, true)], Phase::Running, &[v6]);
    row(Protocol::V7, &[resolved(6, true)], Phase::Running, &["tool-approval-response b_x:6 true"]);
    let no = [resolved(6, false), ended("c5", "tool.denied")];
    row(Protocol::V6, &no, Phase::Running, &[v6, "tool-output-denied c5"]);
    row(
        Protocol::V7,
        &no,
        Phase::Running,
        &["tool-approval-response b_x:6 false", "tool-output-denied c5"],
    );
    // A merge is no call.
    let merge = [begun(None), asked("merge", None)];
    check(&merge, Phase::Asking, &["start b_x:2", "data-approval b_x:3", "finish tool-calls"]);
}

#[test]
fn what_a_failed_try_showed_is_taken_back_or_marked() {
    let partial = ("model.partial", json!({ "ordinal": 0, "text": "Hal" }));
    let list = [
        begun(None),
        requested(0),
        partial,
        failed("x", true),
        requested(0),
        answered(0, "Hello", ""),
    ];
    let before = ["start b_x:2", "start-step", "text-start text-3", "text-delta text-3 Hal"];
    let after = ["text-start text-6", "text-delta text-6 Hello", "text-end text-6"];
    let mark = "text-end text-3 {\"glasshouse\":{\"void\":true}}";
    let v6 = [&before[..], &[mark], &after[..]].concat();
    let v7 = [&before[..], &[mark, "reset-step"], &after[..]].concat();
    check_as(Protocol::V6, &list, Phase::Running, &v6);
    check_as(Protocol::V7, &list, Phase::Running, &v7);
    // A try that showed nothing leaves nothing, and the last one is not void.
    let silent = [begun(None), requested(0), failed("x", true), requested(0)];
    check(&silent, Phase::Running, &["start b_x:2", "start-step"]);
    let last = [list[0].clone(), list[1].clone(), list[2].clone(), failed("cancelled", false)];
    check(&last, Phase::Running, &[&before[..], &["text-end text-3"]].concat());
}

#[test]
fn a_message_ends_as_its_turn_does() {
    let row = |kind: &'static str, outcome: &str, expected: &[&str]| {
        check(
            &[begun(None), over(2, kind, outcome)],
            Phase::Over,
            &[&["start b_x:2"], expected].concat(),
        );
    };
    row("turn.completed", "committed", &["finish stop"]);
    row("turn.cancelled", "cancelled", &["abort the turn was cancelled"]);
    let error = "error why: the turn did not come to its end";
    row("turn.failed", "failed", &[error, "finish error"]);
    row("turn.interrupted", "failed", &[error, "finish error"]);
    // A turn that is carried on is one message; another turn is another one.
    let carried = [
        begun(None),
        over(2, "turn.interrupted", "failed"),
        begun(Some(2)),
        over(4, "turn.completed", "answered"),
    ];
    check(&carried, Phase::Over, &["start b_x:2", "finish stop"]);
    let other = [begun(None), over(2, "turn.completed", "answered"), begun(None), requested(0)];
    check(&other, Phase::Over, &["start b_x:2", "finish stop"]);
}

/// What is shown before it is stored makes the same text as what is stored.
#[test]
fn words_that_were_heard_are_not_told_again() {
    let mut teller = Teller::new(Protocol::V7, branch(), 2);
    let list = events(2, &[begun(None), requested(0), answered(0, "Hello", "")]);
    let said = |request: Seq, text: &str| Said {
        request,
        text: text.to_owned(),
        reasoning: String::new(),
    };
    let mut lines = Vec::new();
    let mut take = |chunks: Vec<Value>| lines.extend(chunks.iter().map(line));
    take(teller.tell(&list[0]));
    take(teller.hear(&said(3, "early")));
    take(teller.tell(&list[1]));
    take(teller.hear(&said(9, "another's")));
    take(teller.hear(&said(3, "He")));
    take(teller.hear(&said(3, "Hell")));
    take(teller.hear(&said(3, "He")));
    take(teller.tell(&list[2]));
    take(teller.hear(&said(3, "Hello")));
    let expected = [
        "start b_x:2",
        "start-step",
        "text-start text-3",
        "text-delta text-3 He",
        "text-delta text-3 ll",
        "text-delta text-3 o",
        "text-end text-3",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn an_answer_that_is_on_its_way_keeps_the_stream() {
    let calls = [
        begun(None),
        proposed("a", "{}"),
        proposed("b", "{}"),
        asked("call", Some("c3")),
        asked("call", Some("c4")),
    ];
    let check = |more: &[(&str, Value)], answered: &[Seq], expected: bool| {
        let mut teller = Teller::new(Protocol::V7, branch(), 2);
        let list: Vec<_> = calls.iter().chain(more).cloned().collect();
        for event in events(2, &list) {
            teller.tell(&event);
        }
        assert_eq!(teller.waits_beside(answered), expected, "{more:?} {answered:?}");
    };
    check(&[], &[], true);
    check(&[], &[5], false);
    check(&[], &[5, 6], false);
    check(&[resolved(5, true)], &[5], true);
    check(&[resolved(5, true)], &[5, 6], false);
    check(&[resolved(5, true), resolved(6, false)], &[5, 6], true);
    check(&[asked("call", Some("c3"))], &[5], true);
}
