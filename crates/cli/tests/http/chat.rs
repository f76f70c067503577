//! Chats of the AI SDK: the packages `ai` of versions 6 and 7 talk to the server.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Served;
use crate::harness::{Place, Ran, skipped};

/// Asks a person about each read of `ask*.txt`.
const ASKED: &str = "{ name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }";

/// A conversation: calls, questions, an interface, and three turns that take their time.
const TALK: &str = "version: 1
steps:
  - emit:
      - { reasoning: 'They want both files.' }
      - { text: 'I read both files, one after the other, and tell you what they say.' }
      - { call: { id: a, tool: fs.read, args: { path: ask1.txt } } }
      - { call: { id: b, tool: fs.read, args: { path: src/tool.sh } } }
  - expect: { results: { a: completed, b: completed } }
    emit: [ { call: { id: c, tool: fs.read, args: { path: ask2.txt } } } ]
  - expect: { results: { c: denied } }
    emit:
      - call:
          id: d
          tool: ui.render
          args:
            plan:
              specVersion: runtime-plan/v1
              id: report
              version: 1
              capabilities: { domWrite: true }
              root: { type: element, tag: p, children: [ { type: text, value: Read. } ] }
  - expect: { results: { d: completed } }
    emit: [ { text: Done. } ]
  - emit: [ { text: 'I wait.' }, { call: { id: e, tool: shell.run, args: { script: 'sleep 600' } } } ]
  - emit: [ { text: 'I go on.' }, { call: { id: f, tool: shell.run, args: { script: 'sleep 2; echo slept' } } } ]
  - emit: [ { text: 'Slept.' } ]
  - emit: [ { reasoning: 'Once more.' }, { call: { id: g, tool: shell.run, args: { script: 'sleep 2' } } } ]
  - emit: [ { text: 'Over.' } ]
";

/// Runs a script of `tests/client` with its packages; `None` where they are not installed.
pub(crate) fn node(
    place: &Place,
    test: &str,
    script: &str,
    arguments: &[&str],
    token: &str,
) -> Option<Ran> {
    let Some(packages) = std::env::var_os("GLASSHOUSE_TEST_CLIENT") else {
        skipped(test, "the clients are not installed");
        return None;
    };
    Some(node_with(place, script, arguments, token, Some(Path::new(&packages))))
}

/// The same with packages, or without any.
pub(crate) fn node_with(
    place: &Place,
    script: &str,
    arguments: &[&str],
    token: &str,
    packages: Option<&Path>,
) -> Ran {
    let to = place.path("client");
    std::fs::create_dir_all(&to).unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/client").join(script);
    std::fs::copy(from, to.join(script)).unwrap();
    if let Some(packages) = packages {
        std::os::unix::fs::symlink(packages.join("node_modules"), to.join("node_modules")).unwrap();
    }
    let mut node = Command::new("node");
    node.arg(to.join(script)).args(arguments).env("TOKEN", token).current_dir(&to);
    Ran::new(&node.output().unwrap())
}

/// Types and states of a message's parts.
fn outline(message: &Value) -> Vec<String> {
    let parts = message["parts"].as_array().unwrap_or_else(|| panic!("{message}"));
    let told = |part: &Value| {
        let words = ["type", "toolName", "state", "text", "errorText"];
        let words = words.iter().filter_map(|word| part[*word].as_str());
        let approved = part["approval"]["approved"].as_bool();
        let approved = approved.map(|approved| if approved { "yes" } else { "no" });
        words.chain(approved).collect::<Vec<_>>().join(" ")
    };
    parts.iter().map(told).collect()
}

/// The first answer, as the client put it together and as the server does.
fn is_whole(served: &Served, report: &Value, version: &str) {
    let mut whole = vec![
        "step-start",
        "reasoning done They want both files.",
        "text done I read both files, one after the other, and tell you what they say.",
        "dynamic-tool fs.read output-available yes",
        "dynamic-tool fs.read output-available",
        "step-start",
        "dynamic-tool fs.read output-denied no",
        "step-start",
        "dynamic-tool ui.render output-available",
        "data-plan",
        "step-start",
        "text done Done.",
    ];
    let loaded = outline(&report["loaded"][1]);
    assert_eq!(loaded, whole, "as the server puts it together");
    if version == "6" {
        whole.insert(5, "data-approval-response");
        whole.insert(8, "data-approval-response");
    }
    assert_eq!(outline(&report["first"]), whole, "as the client does");
    assert_eq!(report["first"]["metadata"]["outcome"], "answered");
    let plan = report["first"]["parts"]
        .as_array()
        .unwrap()
        .iter()
        .find(|part| part["type"] == "data-plan");
    let page = served.get(plan.unwrap()["data"]["href"].as_str().unwrap()).expect(200).text();
    assert!(page.contains("<p") && page.contains("Read."), "{page}");
    assert_eq!(report["loaded"][0]["parts"][0]["text"], "read what you may");
}

fn talk(test: &str, version: &str) {
    let place = Place::new();
    let project = place.shell_project();
    for name in ["ask1.txt", "ask2.txt"] {
        std::fs::write(project.join(name), "secret\n").unwrap();
    }
    place.accept_rule(&project, ASKED);
    let served = Served::new(&place);
    let session = served.session(&project, TALK);
    let url = format!("http://{}", served.address);
    let Some(ran) = node(&place, test, "chat.mjs", &[&url, &session, version], &served.token)
    else {
        return;
    };
    let report = ran.expect_status(0).last();
    assert_eq!((&report["idle"], &report["failures"]), (&json!(204), &json!([])));
    // The stream ended at its question; the call beside it was done.
    let asked = json!([["fs.read", "approval-requested"], ["fs.read", "output-available"]]);
    assert_eq!(report["asked"], asked);
    let forged = json!([
        [409, "approval_mismatch"],
        [409, "approval_mismatch"],
        [404, "approval_unknown"],
        [404, "approval_unknown"],
        [400, "request_invalid"],
        [400, "request_invalid"],
    ]);
    assert_eq!(report["forged"], forged);
    is_whole(&served, &report, version);
    let refused = report["regenerated"][0].as_str().unwrap();
    assert!(refused.contains("request_invalid") && refused.contains("fork"), "{refused}");
    // Stopped, not only left.
    assert_eq!(report["stopped"], 202);
    let last = outline(&report["aborted"]);
    assert_eq!(last[..2], ["step-start", "text done I wait."]);
    assert!(last[2].starts_with("dynamic-tool shell.run output-error"), "{last:?}");
    // A reload comes to the same message; the one that is made is not among the loaded ones.
    assert_eq!(report["before"], json!(["user", "assistant", "user", "assistant", "user"]));
    assert_eq!(report["resumed"], report["live"]);
    assert_eq!(outline(&report["live"]).last().unwrap(), "text done Slept.");
    assert_eq!(report["read"], report["readLive"]);
    assert_eq!(report["over"], true);
    let types = report["types"].to_string();
    assert!(types.contains("reasoning-delta") && types.contains("text-delta"), "{types}");
    place.run(&["session", "replay", &session]).expect_status(0);
    place.run(&["audit", "verify"]).expect_status(0);
}

#[test]
fn a_chat_of_the_ai_sdk_6() {
    talk("a_chat_of_the_ai_sdk_6", "6");
}

#[test]
fn a_chat_of_the_ai_sdk_7() {
    talk("a_chat_of_the_ai_sdk_7", "7");
}

/// One whole stream as its chunks.
fn chunks(answer: &mut crate::client::Stream) -> Vec<Value> {
    std::iter::from_fn(|| answer.next_text())
        .take_while(|data| data != "[DONE]")
        .map(|data| serde_json::from_str(&data).unwrap())
        .collect()
}

fn types(chunks: &[Value]) -> Vec<&str> {
    chunks.iter().map(|chunk| chunk["type"].as_str().unwrap()).collect()
}

/// Without any package: what goes over the wire, also when the server was killed between question and answer.
#[test]
fn a_question_outlives_the_server() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    place.accept_rule(&project, ASKED);
    let talk = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - expect: { results: { a: completed } }
    emit: [ { text: Done. } ]
";
    let mut served = Served::new(&place);
    let session = served.session(&project, talk);
    let said = json!({ "id": session, "messages": [
        { "id": "m1", "role": "user", "parts": [ { "type": "text", "text": "read it" } ] },
    ]});
    let mut stream = served.post_stream("/v1/chat", &said);
    let header = |name: &str| {
        stream.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    };
    assert_eq!(header("x-vercel-ai-ui-message-stream"), Some("v1"));
    assert_eq!(header("content-type"), Some("text/event-stream"));
    let first = chunks(&mut stream);
    let expected = [
        "start",
        "start-step",
        "tool-input-available",
        "tool-approval-request",
        "finish-step",
        "finish",
    ];
    assert_eq!(types(&first), expected);
    // The same message again finds its turn.
    let again = chunks(&mut served.post_stream("/v1/chat", &said));
    assert_eq!(again, first);
    let resumed = chunks(&mut served.follow(&format!("/v1/chat/{session}/stream"), &[]));
    assert_eq!(resumed, first);
    served.kill();
    let served = Served::new(&place);
    assert_eq!(served.get(&format!("/v1/chat/{session}/stream")).status, 204);
    let answer = |input: Value| {
        let part = json!({
            "type": "dynamic-tool", "toolName": "fs.read", "toolCallId": first[2]["toolCallId"],
            "state": "approval-responded", "input": input,
            "approval": { "id": first[3]["approvalId"], "approved": true },
        });
        let id = &first[0]["messageId"];
        json!({ "id": session, "messages": [ { "id": id, "role": "assistant", "parts": [part] } ] })
    };
    served.post("/v1/chat", &answer(json!({ "path": "x" }))).expect(409);
    let rest = chunks(&mut served.post_stream("/v1/chat", &answer(json!({ "path": "ask1.txt" }))));
    let told = types(&rest);
    assert_eq!(rest[0]["messageId"], first[0]["messageId"]);
    assert!(
        told.ends_with(&[
            "start-step",
            "text-start",
            "text-delta",
            "text-end",
            "finish-step",
            "finish"
        ]),
        "{told:?}"
    );
    assert!(told.contains(&"tool-output-available"), "{told:?}");
}

/// An answer that is there, and one that takes its time.
const TWO_ANSWERS: &str = "version: 1
steps:
  - emit: [ { text: First. } ]
  - { delay_ms: 1500, emit: [ { text: Second. } ] }
";

fn says(session: &str, id: &str, text: &str) -> Value {
    json!({ "id": session, "messages": [
        { "id": id, "role": "user", "parts": [ { "type": "text", "text": text } ] },
    ]})
}

/// A page that is loaded anew while the second answer is made gets that one and nothing of the first. The failure:
/// the answer before was told once more.
#[test]
fn c5_who_comes_again_gets_the_new_message_alone() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TWO_ANSWERS);
    let first = chunks(&mut served.post_stream("/v1/chat", &says(&session, "m1", "one")));
    let loaded =
        |served: &Served| served.get(&format!("/v1/chat/{session}/messages")).expect(200).json();
    let before = loaded(&served);
    assert_eq!(before["messages"][1]["id"], first[0]["messageId"], "{before}");
    let mut live = loop {
        // The first turn's thread gives the branch back a moment after its last chunk.
        let body = says(&session, "m2", "two").to_string();
        let text = served.text("POST /v1/chat", &[("connection", "close")], Some(&body));
        if served.raw(&text).code() != "turn_running" {
            break served.follow(&format!("/v1/chat/{session}/stream"), &[]);
        }
    };
    let during = loaded(&served);
    assert_eq!(during["running"], true);
    // What was there is as it was; the one that is made is not among them.
    assert_eq!(
        during["messages"].as_array().unwrap()[..2],
        before["messages"].as_array().unwrap()[..]
    );
    assert_eq!(during["messages"].as_array().unwrap().len(), 3);
    let second = chunks(&mut live);
    assert_eq!((&second[0]["type"], types(&second).last()), (&json!("start"), Some(&"finish")));
    assert_ne!(second[0]["messageId"], first[0]["messageId"]);
    let told = json!(second).to_string();
    assert!(told.contains("Second.") && !told.contains("First."), "{told}");
    assert!(!told.contains(first[0]["messageId"].as_str().unwrap()), "{told}");
}

/// Where no message is being made there is nothing: no empty stream, and no error. A stream that was followed to
/// its end ends with the word that clients wait for.
#[test]
fn c6_where_nothing_is_made_the_answer_is_204_without_a_body() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TWO_ANSWERS);
    let idle = || {
        let answer = served.get(&format!("/v1/chat/{session}/stream"));
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        assert_eq!(answer.header("content-type"), None);
        assert_eq!(answer.header("content-length").unwrap_or("0"), "0");
    };
    idle();
    let mut stream = served.post_stream("/v1/chat", &says(&session, "m1", "one"));
    let all: Vec<String> = std::iter::from_fn(|| stream.next_text()).collect();
    assert_eq!(all.last().map(String::as_str), Some("[DONE]"));
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    while served.get(&format!("/v1/chat/{session}/messages")).json()["running"] == true {
        assert!(std::time::Instant::now() < deadline);
    }
    idle();
    // The control: a chat that is not there is an error.
    assert_eq!(served.get("/v1/chat/s_zzzzzzzz/stream").status, 404);
}

/// The quick start does what its page says.
#[test]
fn the_example_of_the_ai_sdk_chats() {
    use std::io::Write as _;
    use std::process::Stdio;

    const TEST: &str = "the_example_of_the_ai_sdk_chats";
    let Some(packages) = std::env::var_os("GLASSHOUSE_TEST_CLIENT") else {
        return skipped(TEST, "the clients are not installed");
    };
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    place.accept_rule(&project, ASKED);
    let served = Served::new(&place);
    let scenario = "version: 1
steps:
  - emit: [ { text: I look. }, { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - expect: { results: { a: completed } }
    emit: [ { text: It says something. } ]
";
    std::fs::write(place.path("scenario.yaml"), scenario).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ai-sdk/chat.mjs");
    std::fs::copy(example, place.path("chat.mjs")).unwrap();
    let modules = Path::new(&packages).join("node_modules");
    std::os::unix::fs::symlink(modules, place.path("node_modules")).unwrap();
    let chat = |model: &[&str], said: &[u8], status: i32| {
        let mut child = Command::new("node")
            .arg(place.path("chat.mjs"))
            .arg(format!("http://{}", served.address))
            .arg(place.home().join("server/token"))
            .arg(&project)
            .args(model)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(said).unwrap();
        Ran::new(&child.wait_with_output().unwrap()).expect_status(status)
    };
    let scenario = place.path("scenario.yaml");
    let scripted = ["scripted", "scripted", scenario.to_str().unwrap()];
    let ran = chat(&scripted, b"what does it say?\ny\n\n", 0);
    // An answer that goes on after a question does not say again what it said.
    assert_eq!(ran.stdout.matches("I look.").count(), 1, "{ran:?}");
    for text in ["I look.", "allow fs.read", "fs.read output-available", "It says something."] {
        assert!(ran.stdout.contains(text), "{text}: {ran:?}");
    }
    // The failure: of an answer that failed nothing was shown, and the end was a success.
    let ran = chat(&scripted, b"what does it say?\nn\n\n", 1);
    assert!(ran.stderr.contains("error: scenario_mismatch: "), "{ran:?}");
    // And of a session that was refused there was a stack trace.
    for (model, code) in [(&[][..], "config_invalid"), (&["ollama"], "config_invalid")] {
        let ran = chat(model, b"", 1);
        assert!(ran.stderr.contains(code) && ran.stderr.contains("\n  fix: "), "{ran:?}");
        assert!(!ran.stderr.contains("    at "), "{ran:?}");
    }
}
