//! The scripted provider.

use std::time::Duration;

use glasshouse_model::Code;
use glasshouse_provider::{
    Cancel, Delta, Dialect, Finish, Message, ModelCall, ModelRequest, Provider, ReviewAnswer,
    Scripted, ToolSpec, codes, parse_completion,
};
use serde_json::json;

use crate::{ask, request};

const STORY: &str = r#"
version: 1
tasks: [ "Fix parse_config" ]
steps:
  - expect: { user_contains: parse_config, system_contains: careful, tools_include: fs.write }
    emit:
      - { text: "I write the test first: grüße 🦀." }
      - { call: { id: t1, tool: fs.write, args: { path: tests/a.sh, content: "x\n" } } }
      - { call: { id: t2, tool: fs.read, args_text: '{"path":"a' } }
      - { call: { id: t3, tool: git.diff } }
    chunk_bytes: 7
  - expect: { results: { t1: completed, t2: failed } }
    emit: [ { error: { status: 429, retry_after_ms: 50 } } ]
  - emit: [ { text: "Half of" }, { error: { after_bytes: 40 } } ]
  - emit: [ { text: "Some of what I say" }, { error: { status: 529, after_bytes: 120 } } ]
  - expect: { message_count: 3, tools_exclude: shell.run }
    emit: [ { text: Done. } ]
    usage: { input: 100, cached: 60, output: 20, reasoning: 5 }
  - emit: [ { text: "No, " }, { text: I will not. } ]
    finish: refusal
  - emit: [ { text: Too lon } ]
    finish: length
reviews: [ { tool: shell.run, answer: approve }, { tool: git.commit, answer: reject } ]
"#;

fn story() -> Scripted {
    Scripted::parse(STORY, "story").unwrap()
}

fn result(id: &str, status: &str, content: &str) -> Message {
    Message::ToolResult {
        id: id.to_owned(),
        content: content.to_owned(),
        status: status.to_owned(),
    }
}

/// The request of a step, with results for the first step's calls.
fn step(ordinal: u64) -> ModelRequest {
    let mut request = request("Fix parse_config");
    request.tools = vec![ToolSpec {
        name: "fs.write".to_owned(),
        description: String::new(),
        parameters: json!({}),
    }];
    request.ordinal = ordinal;
    if ordinal > 0 {
        request.messages.push(result("t1", "completed", "ok"));
        request.messages.push(result("t2", "failed", "not JSON"));
    }
    request
}

#[tokio::test]
async fn a_story_told_to_its_end() {
    let story = story();
    assert_eq!(story.name(), "scripted story");
    assert_eq!(story.tasks(), ["Fix parse_config"]);
    assert_eq!(story.step_count(), 7);
    let answers: Vec<_> = story.reviews().iter().map(|r| (r.tool.as_str(), r.answer)).collect();
    let expected = [("shell.run", ReviewAnswer::Approve), ("git.commit", ReviewAnswer::Reject)];
    assert_eq!(answers, expected);

    let (first, deltas) = ask(&story, &step(0)).await;
    let first = first.unwrap();
    assert_eq!(first.text, "I write the test first: grüße 🦀.");
    assert_eq!(first.finish, Finish::ToolCalls);
    let call = |id: &str, tool: &str, arguments: &str| ModelCall {
        id: id.to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.to_owned(),
    };
    let calls = [
        call("t1", "fs.write", r#"{"content":"x\n","path":"tests/a.sh"}"#),
        call("t2", "fs.read", r#"{"path":"a"#),
        call("t3", "git.diff", "{}"),
    ];
    assert_eq!(first.calls, calls);
    assert!(first.usage.total() > 0);
    assert_eq!(parse_completion(Dialect::Chat, "test-model", &first.raw).unwrap(), first);
    assert!(deltas.iter().filter(|delta| matches!(delta, Delta::Text(_))).count() > 1);

    let limited = ask(&story, &step(1)).await.0.unwrap_err();
    assert!(limited.is(codes::RATE_LIMITED), "{limited}");
    assert_eq!(limited.retry_after_ms(), Some(50));

    let (cut, _) = ask(&story, &step(2)).await;
    assert!(cut.as_ref().unwrap_err().is(codes::STREAM_CUT), "{cut:?}");

    let (overloaded, shown) = ask(&story, &step(3)).await;
    assert!(overloaded.as_ref().unwrap_err().is(codes::OVERLOADED), "{overloaded:?}");
    assert_eq!(shown, [Delta::Text("Some of what I s".to_owned())]);

    let done = ask(&story, &step(4)).await.0.unwrap();
    let usage = done.usage;
    assert_eq!((usage.input_uncached, usage.cache_read), (40, 60));
    assert_eq!((usage.output, usage.reasoning), (20, 5));
    assert_eq!(done.finish, Finish::Stop);

    let refused = ask(&story, &step(5)).await.0.unwrap();
    assert_eq!((refused.finish, refused.text.as_str()), (Finish::Refusal, "No, I will not."));
    assert_eq!(ask(&story, &step(6)).await.0.unwrap().finish, Finish::Length);

    let beyond = ask(&story, &step(7)).await.0.unwrap_err();
    assert!(beyond.is(codes::SCENARIO_MISMATCH), "{beyond}");
    assert!(beyond.to_string().contains("has no step 8"), "{beyond}");
    assert!(beyond.to_string().contains("not JSON"), "{beyond}");
}

#[tokio::test]
async fn the_size_of_pieces_changes_nothing() {
    let whole = ask(&story(), &step(0)).await;
    let (whole, deltas) = (whole.0.unwrap(), whole.1);
    for size in [1, 2, 3, 5, 16, 64, 100_000] {
        let yaml = STORY.replace("chunk_bytes: 7", &format!("chunk_bytes: {size}"));
        let scenario = Scripted::parse(&yaml, "story").unwrap();
        let (answer, same_deltas) = ask(&scenario, &step(0)).await;
        assert_eq!(answer.unwrap(), whole, "{size}");
        assert_eq!(same_deltas, deltas, "{size}");
    }
}

#[tokio::test]
async fn a_cut_at_any_byte_is_a_cut() {
    for after_bytes in 0..700 {
        let yaml = format!(
            "steps: [ {{ emit: [ {{ text: hi ü }}, {{ call: {{ id: t1, tool: a, \
             args: {{ x: 1.5 }} }} }}, {{ error: {{ after_bytes: {after_bytes} }} }} ] }} ]"
        );
        let scenario = Scripted::parse(&yaml, "cut").unwrap();
        let error = ask(&scenario, &request("x")).await.0.unwrap_err();
        assert!(error.is(codes::STREAM_CUT), "{after_bytes}: {error}");
    }
}

#[tokio::test]
async fn unmet_expectations_say_what_was_there() {
    let check = async |expect: &str, request: &ModelRequest, words: &[&str]| {
        let yaml = format!(
            "steps:\n  - emit: [ {{ call: {{ id: t1, tool: a }} }}, {{ call: {{ id: t2, tool: a }} }} ]\n  \
             - expect: {expect}\n    emit: [ {{ text: ok }} ]\n"
        );
        let scenario = Scripted::parse(&yaml, "s").unwrap();
        let mut request = request.clone();
        request.ordinal = 1;
        let answer = ask(&scenario, &request).await.0;
        if words.is_empty() {
            assert_eq!(answer.unwrap().text, "ok", "{expect}");
            return;
        }
        let error = answer.unwrap_err();
        assert!(error.is(codes::SCENARIO_MISMATCH), "{expect}: {error}");
        let report = error.report();
        assert_eq!((&report.context["step"], &report.context["line"]), (&json!(2), &json!(3)));
        for word in words {
            assert!(report.why.contains(word), "{expect}: `{word}` not in {}", report.why);
        }
    };
    let mut request = request("Fix parse_config");
    request.messages.push(result(
        "t1",
        "denied",
        &format!("path is protected {}", "x".repeat(999)),
    ));
    request.messages.push(Message::user("go on"));
    request.tools = vec![ToolSpec {
        name: "fs.write".to_owned(),
        description: String::new(),
        parameters: json!({}),
    }];
    for met in [
        "{}",
        "{ user_contains: parse_config }",
        "{ user_contains: [parse_config, go on] }",
        "{ results: { t1: denied } }",
        "{ result_contains: { t1: protected }, result_lacks: { t1: [secret, key] } }",
        "{ system_contains: careful, message_count: 3 }",
        "{ tools_include: [fs.write], tools_exclude: [shell.run] }",
    ] {
        check(met, &request, &[]).await;
    }
    check("{ user_contains: nope }", &request, &["user_contains", "`nope`", "`go on`"]).await;
    check("{ system_contains: nope }", &request, &["system_contains", "You are careful."]).await;
    check("{ results: { t1: completed } }", &request, &["results.t1", "denied", "protected"]).await;
    check("{ results: { t2: completed } }", &request, &["results.t2", "no result"]).await;
    check("{ result_contains: { t1: b } }", &request, &["result_contains.t1", "protected"]).await;
    check("{ result_contains: { t2: a } }", &request, &["result_contains.t2", "no result"]).await;
    check("{ result_lacks: { t1: path } }", &request, &["result_lacks.t1", "protected"]).await;
    check("{ result_lacks: { t2: path } }", &request, &["result_lacks.t2", "no result"]).await;
    check("{ tools_include: a.b }", &request, &["tools_include", "`a.b`", "fs.write"]).await;
    check("{ tools_exclude: fs.write }", &request, &["tools_exclude", "fs.write"]).await;
    check("{ message_count: 2 }", &request, &["message_count", "3 messages, not 2"]).await;
    let both = "{ user_contains: nope, message_count: 2 }";
    check(both, &request, &["user_contains", "message_count"]).await;
}

#[test]
fn files_that_cannot_be_used() {
    let check = |yaml: &str, line: Option<u64>, words: &[&str]| {
        let error = Scripted::parse(yaml, "bad").unwrap_err();
        assert!(error.is(codes::SCENARIO_INVALID), "{error}");
        let report = error.report();
        assert_eq!(report.context.get("line").and_then(|line| line.as_u64()), line, "{error}");
        for word in words {
            assert!(report.why.contains(word), "{yaml}: `{word}` not in {}", report.why);
        }
    };
    let step = |rest: &str| format!("steps:\n  - emit: [ {{ text: x }} ]\n    {rest}\n");
    let emit = |list: &str| format!("steps:\n  - emit:\n{list}");
    check("", Some(1), &["end of input"]);
    check("version: 1", Some(1), &["steps"]);
    check("steps: []", None, &["1 to 10000 steps"]);
    check("version: 2\nsteps: [ { emit: [ { text: x } ] } ]", None, &["version 2"]);
    check("step: []", Some(1), &["`step`", "did you mean `steps`"]);
    check(&step("chunkbytes: 7"), Some(3), &["`chunkbytes`", "did you mean `chunk_bytes`"]);
    check(&step("chunk_bytes: 0"), Some(2), &["at least 1"]);
    check(&step("chunk_bytes: -1"), Some(3), &[]);
    check(&step("delay_ms: 700000"), Some(2), &["above 600000"]);
    check(&step("finish: lenght"), Some(3), &["did you mean `length`"]);
    check(&step("expect: { user_contain: x }"), Some(3), &["did you mean `user_contains`"]);
    check(&step("expect: { user_contains: { a: b } }"), Some(3), &["a text or a list of texts"]);
    check(&step("expect: { results: { t1: completed } }"), Some(2), &["no earlier step", "`t1`"]);
    check(&step("usage: { inputs: 1 }"), Some(3), &["did you mean `input`"]);
    check("steps: [ { emit: [] } ]", Some(1), &["empty"]);
    check(&emit("    - { txt: x }"), Some(3), &["did you mean `text`"]);
    check(&emit("    - { text: x }\n    - { call: { id: t1 } }"), Some(4), &["tool"]);
    check(&emit("    - { call: { id: '', tool: a } }"), Some(3), &["`id` is empty"]);
    check(&emit("    - { call: { id: t1, tool: a/b } }"), Some(3), &["`a/b`"]);
    check(
        &emit("    - { call: { id: t1, tool: a, args: {}, args_text: x } }"),
        Some(3),
        &["either"],
    );
    check(
        &emit("    - { call: { id: t1, tool: a } }\n    - { call: { id: t1, tool: a } }"),
        Some(4),
        &["`t1` is used twice"],
    );
    check(&emit("    - { error: {} }"), Some(3), &["needs `status` or `after_bytes`"]);
    check(&emit("    - { error: { status: 200 } }"), Some(3), &["400 to 599"]);
    check(&emit("    - { text: x }\n    - { error: { status: 500 } }"), Some(4), &["replaces"]);
    check(&emit("    - { error: { status: 500 } }\n    - { text: x }"), Some(3), &["follow"]);
    check(
        &emit("    - { error: { after_bytes: 5, retry_after_ms: 5 } }"),
        Some(3),
        &["retry_after_ms"],
    );
    check(&emit("    - { error: { status: 500 } }\n    finish: length"), Some(2), &["no `finish`"]);
    check(
        "steps:\n  - emit: [ { call: { id: write, tool: a } } ]\n  \
         - emit: [ { text: x } ]\n    expect: { results: { writes: completed } }",
        Some(3),
        &["did you mean `write`"],
    );
    check(
        "steps:\n  - emit: [ { call: { id: t1, tool: a } } ]\n  \
         - emit: [ { text: x } ]\n    expect: { results: { t1: complete } }",
        Some(3),
        &["did you mean `completed`"],
    );
    check(
        &format!("{}reviews: [ {{ tool: a, answer: aprove }} ]", step("")),
        Some(4),
        &["approve"],
    );
    check("steps: [", Some(1), &[]);
    check(&format!("# {}", "x".repeat(4 << 20)), None, &["larger than"]);
}

#[test]
fn a_tag_is_refused() {
    let error =
        Scripted::parse("steps: !!seq [ { emit: [ { text: x } ] } ]", "tagged").unwrap_err();
    assert!(error.is(codes::SCENARIO_INVALID));
    assert!(error.to_string().contains("line 1, column 8"), "{error}");
}

#[tokio::test]
async fn an_alias_bomb_is_refused() {
    let mut yaml = String::from("a: &a0 [ x, x, x, x, x, x, x, x, x, x ]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        yaml.push_str(&format!("b{level}: &a{level} [ {inner} ]\n"));
    }
    yaml.push_str("steps: *a11\n");
    assert!(Scripted::parse(&yaml, "bomb").unwrap_err().is(codes::SCENARIO_INVALID));
}

#[tokio::test(start_paused = true)]
async fn a_step_may_take_its_time_and_be_cancelled() {
    let yaml = "steps: [ { emit: [ { text: x } ], delay_ms: 5000 } ]";
    let scenario = Scripted::parse(yaml, "slow").unwrap();
    let started = tokio::time::Instant::now();
    ask(&scenario, &request("x")).await.0.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(5));

    let (request, cancel) = (request("x"), Cancel::new());
    let mut sink = |_| {};
    let asking = scenario.stream(&request, &mut sink, &cancel);
    let cancelling = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    };
    let (answer, ()) = tokio::join!(asking, cancelling);
    let code: Code = codes::PROVIDER_CANCELLED;
    assert!(answer.unwrap_err().is(code));
    assert_eq!(started.elapsed(), Duration::from_secs(6));
}

#[tokio::test]
async fn a_cancel_between_pieces_stops_the_answer() {
    let yaml =
        format!("steps: [ {{ emit: [ {{ text: {} }} ], chunk_bytes: 1 }} ]", "x".repeat(999));
    let scenario = Scripted::parse(&yaml, "long").unwrap();
    let (request, cancel) = (request("x"), Cancel::new());
    let mut shown = 0;
    let stop = cancel.clone();
    let mut sink = |_| {
        shown += 1;
        stop.cancel();
    };
    let error = scenario.stream(&request, &mut sink, &cancel).await.unwrap_err();
    assert!(error.is(codes::PROVIDER_CANCELLED));
    assert_eq!(shown, 1);
}
