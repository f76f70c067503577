//! The server is as its description says: `schemathesis` makes requests of the description and reads the answers by it.

use std::path::PathBuf;
use std::process::Command;

use crate::client::Served;
use crate::harness::{Place, skipped};

const TEST: &str = "no_request_breaks_the_server_and_every_answer_is_as_described";
/// What each answer must be.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
/// Streams have no end, so a fuzzer would wait for it; one without a token in it stops no turn.
const LEFT_OUT: &str = "stream|/v1/chat$";

#[test]
fn no_request_breaks_the_server_and_every_answer_is_as_described() {
    let Some(folder) = std::env::var_os("GLASSHOUSE_TEST_SCHEMATHESIS") else {
        return skipped(TEST, "schemathesis is not installed");
    };
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, "version: 1\nsteps:\n  - emit: [ { text: Hello. } ]\n");
    let mut stream = served.events_of(&session);
    served.turn(&session, "hello");
    stream.until_end();
    std::fs::write(
        place.path("schemathesis.toml"),
        format!("[parameters]\n\"path.session\" = \"{session}\"\n"),
    )
    .unwrap();
    let examples = if std::env::var_os("GLASSHOUSE_SOAK").is_some() { "200" } else { "5" };
    // A virtual environment that was put into place after it was made is asked by its interpreter.
    let ran = Command::new(PathBuf::from(folder).join("bin/python"))
        .args(["-m", "schemathesis.cli", "run"])
        .arg(format!("http://{}/openapi.json", served.address))
        .arg("--header")
        .arg(format!("Authorization: Bearer {}", served.token))
        .args(["--checks", CHECKS, "--exclude-path-regex", LEFT_OUT, "--max-examples", examples])
        .args(["--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--no-color"])
        .args(["--generation-deterministic", "--suppress-health-check", "all", "--warnings", "off"])
        .args(["--request-timeout", "30"])
        .current_dir(place.path(""))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{told}\n{}", String::from_utf8_lossy(&ran.stderr));
    assert!(told.contains("Tested: "), "{told}");
    // It was not left broken either.
    assert_eq!(served.get("/v1/ready").status, 200);
    assert_eq!(served.post("/v1/audit/verify", &serde_json::json!({})).json()["ok"], true);
}
