//! The client for TypeScript, compiled and run by node against a server.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::chat::node;
use crate::client::Served;
use crate::harness::{Place, skipped};

const TEST: &str = "the_client_for_typescript_does_what_it_says";
/// What the model of a plan waits before it answers.
const DELAY_MS: u64 = 1_500;
const TALK: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: src/tool.sh } } } ]
  - emit: [ { text: It prints one. } ]
";

/// Compiles the client to what node runs.
fn compiled(place: &Place, packages: &Path) -> PathBuf {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/typescript");
    let to = place.path("sdk");
    let mut compiler = Command::new("node");
    compiler.arg(packages.join("node_modules/typescript/bin/tsc"));
    compiler.arg("--project").arg(client).args(["--noEmit", "false", "--outDir"]).arg(&to);
    compiler.arg("--typeRoots").arg(packages.join("node_modules/@types"));
    let ran = compiler.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    std::fs::write(to.join("package.json"), "{ \"type\": \"module\" }").unwrap();
    to.join("index.js")
}

fn plan() -> String {
    let plan = json!({
        "specVersion": "runtime-plan/v1", "id": "page", "version": 1,
        "capabilities": { "domWrite": true },
        "root": { "type": "element", "tag": "p", "children": [ { "type": "text", "value": "Hello" } ] },
    });
    let steps = json!([ { "chunk_bytes": 7, "delay_ms": DELAY_MS, "emit": [ { "text": plan.to_string() } ] } ]);
    json!({ "version": 1, "steps": steps }).to_string()
}

#[test]
fn the_client_for_typescript_does_what_it_says() {
    let Some(packages) = std::env::var_os("GLASSHOUSE_TEST_CLIENT") else {
        return skipped(TEST, "the clients are not installed");
    };
    let place = Place::new();
    let project = place.shell_project().display().to_string();
    let client = compiled(&place, Path::new(&packages)).display().to_string();
    let served = Served::new(&place);
    let url = format!("http://{}", served.address);
    let arguments = [url.as_str(), &client, &project, TALK, &plan()];
    let ran = node(&place, TEST, "sdk.mjs", &arguments, &served.token).unwrap().expect_status(0);
    let told = ran.last();
    assert_eq!(told["health"]["status"], "ok");
    assert_eq!((&told["turn"], &told["list"]), (&json!(true), &json!([true])));
    let events = told["events"].as_array().unwrap();
    assert!(events.iter().map(|event| event[0].as_u64().unwrap()).eq(1..=events.len() as u64));
    let kinds: Vec<&str> = events.iter().map(|event| event[1].as_str().unwrap()).collect();
    for kind in ["session.created", "turn.started", "tool.completed", "turn.completed"] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    assert!(told["view"].as_str().unwrap().contains("It prints one."), "{told}");
    assert_eq!(told["frames"], json!([["2", "message"], ["3", "message"], ["4", "message"]]));
    assert_eq!(told["aborted"], "AbortError");
    // It is read while it comes: the model waits between the first line and the last one.
    let lines: Vec<&str> =
        told["lines"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(lines.iter().filter(|line| **line == "done").count(), 1, "{lines:?}");
    assert_eq!((lines[0], lines[1]), ("begins", "preview"), "{lines:?}");
    assert!(told["took"].as_f64().unwrap() > 0.8 * DELAY_MS as f64, "{}", told["took"]);
    let error = |status: u16, code: &str, retryable: bool| json!({ "is": true, "status": status, "code": code, "retryable": retryable, "fix": true });
    assert_eq!(told["unknown"], error(404, "session_not_found", false));
    assert_eq!(told["invalid"], error(400, "request_invalid", false));
    assert_eq!(told["refused"], error(401, "unauthorized", false));
    assert_eq!(told["planless"]["code"], "provider_auth", "{told}");
}
