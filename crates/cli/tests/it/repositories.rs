//! Real repositories test themselves inside the sandbox, with the toolchains this machine has.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Place, assert_each_ended_once, git, skipped};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn checked_out(place: &Place, name: &str) -> PathBuf {
    let project = place.path("project");
    copy(&examples().join("repos").join(name), &project);
    git(&project, &["init", "-q", "-b", "main"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "-q", "-m", "first"]);
    project
}

/// Plays the model from a scenario on a repository whose tests need `program`.
fn works_on(name: &str, program: &str, task: &str) {
    let found = std::process::Command::new(program).arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        skipped(&format!("e2e_{name}"), &format!("{program} is not installed"));
        return;
    }
    let place = Place::new();
    let project = checked_out(&place, name);
    let scenario = examples().join("scenarios").join(format!("{name}.yaml"));
    let scenario = scenario.display().to_string();
    let ran = place
        .run_in(&project, &[task, "--provider", "scripted", "--scenario", &scenario, "--json"]);
    let ran = ran.expect_status(0);
    assert_eq!(ran.last()["outcome"], "committed", "{ran:?}");
    assert_each_ended_once(&place.events().1);
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    assert_eq!(git(&project, &["rev-list", "--count", "HEAD"]).trim(), "2");
}

#[test]
fn e2e_a_cargo_workspace_with_inline_tests() {
    works_on("cargo-inline", "cargo", "units shall read MiB");
}

#[test]
fn e2e_an_npm_package() {
    works_on("npm", "node", "slugs drop accents");
}

#[test]
fn e2e_a_python_package() {
    works_on("pytest", "python3", "words are sorted");
}

#[test]
fn e2e_a_makefile_with_shell_tests() {
    works_on("shell-make", "make", "read pre-release versions");
}

/// A Chat Completions server that gives these answers in turn and sends back what it was asked.
pub(crate) fn serve(answers: Vec<Vec<Value>>) -> (String, mpsc::Receiver<Value>) {
    let (listener, url) = listen();
    let (send, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((stream, _)) = listener.accept() else { return };
            let (stream, request) = read_request(stream);
            let _ = send.send(request);
            answer_with(stream, &answer);
        }
    });
    (url, requests)
}

const STREAM_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";

/// Reads one request; its authorization stands among the members of its body.
fn read_request(stream: TcpStream) -> (TcpStream, Value) {
    let mut reader = BufReader::new(stream);
    let (mut length, mut authorization) = (0, Value::Null);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("authorization")
        {
            authorization = Value::from(value.trim());
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut request: Value = serde_json::from_slice(&body).unwrap();
    request["authorization"] = authorization;
    (reader.into_inner(), request)
}

/// A server like [`serve`] that begins one more answer and never ends it. It tells how long after the
/// first words of that answer the client went.
pub(crate) fn serve_then_hang(answers: Vec<Vec<Value>>) -> (String, mpsc::Receiver<Duration>) {
    let (listener, url) = listen();
    let (send, gone) = mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((stream, _)) = listener.accept() else { return };
            answer_with(read_request(stream).0, &answer);
        }
        let Ok((client, _)) = listener.accept() else { return };
        let (mut client, _) = read_request(client);
        let words = says("one two three ").remove(0);
        let _ = client.write_all(format!("{STREAM_HEAD}data: {words}\n\n").as_bytes());
        let began = Instant::now();
        // Nothing comes any more but the end.
        let _ = client.read(&mut [0]);
        let _ = send.send(began.elapsed());
    });
    (url, gone)
}

/// A server that begins one answer, closes in the middle of it, and is gone.
pub(crate) fn serve_then_cut(words: &str) -> String {
    let (listener, url) = listen();
    let begun = says(words).remove(0);
    std::thread::spawn(move || {
        let Ok((client, _)) = listener.accept() else { return };
        drop(listener);
        let (mut client, _) = read_request(client);
        let _ = client.write_all(format!("{STREAM_HEAD}data: {begun}\n\n").as_bytes());
    });
    url
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    (listener, url)
}

fn answer_with(mut stream: TcpStream, answer: &[Value]) {
    let mut text = String::from(STREAM_HEAD);
    for chunk in answer {
        text.push_str(&format!("data: {chunk}\n\n"));
    }
    text.push_str("data: [DONE]\n\n");
    // Small pieces: the reader must not depend on where a packet ends.
    for piece in text.as_bytes().chunks(11) {
        let _ = stream.write_all(piece).and_then(|()| stream.flush());
    }
}

pub(crate) fn says(text: &str) -> Vec<Value> {
    vec![
        json!({ "choices": [{ "index": 0, "delta": { "role": "assistant", "content": text } }] }),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
    ]
}

pub(crate) fn calls(calls: &[(&str, Value)]) -> Vec<Value> {
    let mut chunks = Vec::new();
    for (index, (tool, arguments)) in calls.iter().enumerate() {
        let arguments = arguments.to_string();
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        let function = json!({ "name": tool.replace('.', "--"), "arguments": head });
        chunks.push(json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [
            { "index": index, "id": format!("call_{tool}_{index}"), "type": "function", "function": function }
        ] } }] }));
        chunks.push(json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [
            { "index": index, "function": { "arguments": tail } }
        ] } }] }));
    }
    chunks.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }));
    chunks.push(json!({ "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14 } }));
    chunks
}

#[test]
fn e2e_an_openai_compatible_server_does_the_task() {
    let place = Place::new();
    let project = place.shell_project();
    let (url, requests) = serve(vec![
        calls(&[("plan.complete", json!({ "summary": "print two as well" }))]),
        calls(&[
            (
                "fs.write",
                json!({ "path": "tests/t_two.sh", "content": "sh src/tool.sh | grep -q two\n" }),
            ),
            ("test.run", json!({})),
        ]),
        calls(&[
            (
                "fs.edit",
                json!({ "path": "src/tool.sh", "old": "echo one\n", "new": "echo one\necho two\n" }),
            ),
            ("test.run", json!({})),
        ]),
        says("It prints two as well."),
    ]);
    let output = place
        .command(&[
            "print two",
            "--provider",
            "openai-compatible",
            "--base-url",
            &url,
            "--model",
            "m",
            "--json",
        ])
        .current_dir(&project)
        .env("OPENAI_API_KEY", "sk-secretsecretsecretsecret")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    // The model never called git.commit: the kernel merges and commits what is validated.
    assert!(stdout.lines().last().unwrap().contains(r#""outcome":"committed""#), "{stdout}");
    assert!(stdout.contains(r#"{"message":{"text":"It prints two as well."}}"#), "{stdout}");
    assert_eq!(
        std::fs::read_to_string(project.join("src/tool.sh")).unwrap(),
        "echo one\necho two\n"
    );
    let first = requests.recv().unwrap();
    assert_eq!(first["model"], "m");
    assert!(first["tools"].as_array().unwrap().len() >= 10, "{first}");
    let (_, events) = place.events();
    assert_each_ended_once(&events);
    for event in events {
        assert!(!serde_json::to_string(&event).unwrap().contains("sk-secretsecret"));
    }
}
