//! Who may ask, and what is refused before anybody looks at it.

use serde_json::json;

use crate::client::Served;
use crate::harness::Place;

/// One answer without calls.
const TALK: &str = "version: 1
steps:
  - emit: [ { text: \"Hello.\" } ]
";

#[test]
fn only_what_is_open_to_all_is_told_without_the_token() {
    let place = Place::new();
    let served = Served::new(&place);
    let check = |line: &str, authorization: Option<&str>, status: u16, code: &str| {
        let host = &served.address;
        let token = authorization.map(|value| format!("authorization: {value}\r\n"));
        let request =
            format!("{line} HTTP/1.1\r\nhost: {host}\r\n{}\r\n", token.unwrap_or_default());
        let answer = served.raw(&request);
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{line}");
    };
    let bearer = format!("Bearer {}", served.token);
    check("GET /v1/health", None, 200, "");
    check("GET /v1/ready", None, 401, "unauthorized");
    check("GET /v1/ready", Some(&bearer), 200, "");
    check("GET /v1/sessions", None, 401, "unauthorized");
    check("GET /v1/sessions", Some(&bearer), 200, "");
    check("GET /v1/sessions", Some(&bearer[..bearer.len() - 1]), 401, "unauthorized");
    check("GET /v1/sessions", Some("Bearer glasshouse_00"), 401, "unauthorized");
    // Paths that are not there are nobody's business either.
    check("GET /v1/nothing", None, 401, "unauthorized");
    check("GET /v1/nothing", Some(&bearer), 404, "route_unknown");
    check("POST /v1/health", Some(&bearer), 405, "method_unknown");
    check("DELETE /v1/sessions", Some(&bearer), 405, "method_unknown");
    let refused = served.raw(&format!("GET /v1/x HTTP/1.1\r\nhost: {}\r\n\r\n", served.address));
    assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"glasshouse\""));
    let wrong = served.send("DELETE /v1/sessions", &[], None);
    assert_eq!(wrong.header("allow"), Some("GET,HEAD,POST"));
}

/// J1, F7: a page of another site, also one whose name was made to point here, starts nothing.
#[test]
fn j1_a_page_of_another_site_starts_nothing() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let body = json!({ "project": project, "provider": "scripted", "scenario": TALK }).to_string();
    let (host, token) = (&served.address, &served.token);
    let check = |host: &str, headers: &str, status: u16, code: &str| {
        let length = body.len();
        let answer = served.raw(&format!(
            "POST /v1/sessions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ));
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{headers}");
    };
    let (text, json) = ("content-type: text/plain\r\n", "content-type: application/json\r\n");
    check(host, text, 415, "media_unsupported");
    check(host, "", 415, "media_unsupported");
    check(host, &format!("origin: https://evil.example\r\n{text}"), 403, "origin_refused");
    check(host, &format!("origin: https://evil.example\r\n{json}"), 403, "origin_refused");
    check(host, &format!("sec-fetch-site: cross-site\r\n{json}"), 403, "origin_refused");
    check("evil.example", json, 403, "host_refused");
    assert_eq!(served.get("/v1/sessions").json()["sessions"], json!([]));
    // The control: the same request from nobody's page does start one.
    check(host, &format!("origin: http://{host}\r\n{json}"), 201, "");
    assert_eq!(served.get("/v1/sessions").json()["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn what_a_request_may_hold_is_bounded() {
    let place = Place::new();
    let served = Served::new(&place);
    let path = "POST /v1/sessions";
    let check = |headers: &[(&str, &str)], body: &str, status: u16, code: &str| {
        let answer = served.send(path, headers, Some(body));
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{}", answer.text());
    };
    check(&[], &"x".repeat((1 << 20) + 1), 413, "request_too_large");
    check(&[], "{", 400, "request_invalid");
    check(&[], "[]", 400, "request_invalid");
    check(&[], r#"{"project":"/tmp","colour":"red"}"#, 400, "request_invalid");
    check(&[], r#"{"project":"relative"}"#, 400, "request_invalid");
    check(&[], r#"{"project":"/nowhere/at/all","provider":"scripted"}"#, 422, "config_invalid");
    let many: Vec<_> = (0..100).map(|_| ("x-more", "1")).collect();
    assert_eq!(served.send("GET /v1/sessions", &many, None).status, 431);
    let query = |query: &str, status: u16| {
        assert_eq!(served.get(&format!("/v1/sessions?{query}")).status, status, "{query}");
    };
    query("limit=1", 200);
    query("limit=0", 400);
    query("limit=201", 400);
    query("limit=many", 400);
    query("colour=red", 400);
    query("cursor=x", 400);
}

#[test]
fn only_this_machine_can_reach_it() {
    let place = Place::new();
    let ran = place.run(&["serve", "--listen", "0.0.0.0:0"]).expect_status(3);
    assert!(ran.stderr.contains("[listen_insecure]"), "{ran:?}");
    let served = Served::new(&place);
    let ran = place.run(&["serve", "--listen", &served.address]).expect_status(2);
    assert!(ran.stderr.contains("[listen_failed]"), "{ran:?}");
    std::fs::set_permissions(
        place.home().join("server/token"),
        std::os::unix::fs::PermissionsExt::from_mode(0o644),
    )
    .unwrap();
    let ran = place.run(&["serve", "--listen", "127.0.0.1:0"]).expect_status(3);
    assert!(ran.stderr.contains("[token_unusable]"), "{ran:?}");
}
