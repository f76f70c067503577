//! Connections: encrypted ones, both protocols, and what the way here may do to a request.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::Served;
use crate::harness::{Place, skipped};

const TALK: &str = "version: 1
steps:
  - emit: [ { text: \"Hello.\" } ]
";

/// A certificate for this machine, and its key.
fn certificate(place: &Place) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    let made = made.unwrap();
    let (certificate, key) = (place.path("cert.pem"), place.path("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    (certificate.display().to_string(), key.display().to_string())
}

/// What `curl` answers: the status, the protocol and the body.
fn curl(
    served: &Served,
    certificate: &str,
    arguments: &[&str],
    path: &str,
) -> Option<(String, String)> {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20", "--cacert", certificate])
        .args(["--write-out", "\n%{http_code} %{http_version}"])
        .args(["--header", &format!("authorization: Bearer {}", served.token)])
        .args(arguments)
        .arg(format!("https://{}{path}", served.address))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n')?;
    Some((status.to_owned(), body.to_owned()))
}

#[test]
fn both_protocols_are_served_encrypted_streams_too() {
    if Command::new("curl").arg("--version").output().is_err() {
        skipped("both_protocols_are_served_encrypted_streams_too", "curl is not installed");
        return;
    }
    let place = Place::new();
    let project = place.shell_project();
    let (certificate, key) = certificate(&place);
    let served = Served::with(&place, &["--tls-certificate", &certificate, "--tls-key", &key]);
    let check = |arguments: &[&str], path: &str, expected: &str| {
        let (status, body) = curl(&served, &certificate, arguments, path).unwrap();
        assert_eq!(status, expected, "{arguments:?} {path}: {body}");
        body
    };
    check(&["--http1.1"], "/v1/health", "200 1.1");
    check(&["--http2"], "/v1/health", "200 2");
    check(&["--http2"], "/v1/nothing", "404 2");
    check(&["--http2", "--header", "authorization: Bearer x"], "/v1/sessions", "401 2");
    check(&["--http2", "--header", "host: evil.example"], "/v1/sessions", "403 2");
    check(&["--http2", "--header", "origin: https://evil.example"], "/v1/sessions", "403 2");
    let origin = format!("origin: https://{}", served.address);
    check(&["--http2", "--header", &origin], "/v1/sessions", "200 2");
    let body = json!({ "project": project, "provider": "scripted", "scenario": TALK }).to_string();
    let post = ["--header", "content-type: application/json", "--data", &body];
    let made = check(&[&["--http2"][..], &post[..]].concat(), "/v1/sessions", "201 2");
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let session = made["session"].as_str().unwrap();
    let turn = ["--header", "content-type: application/json", "--data", "{\"message\":\"hello\"}"];
    check(&turn, &format!("/v1/sessions/{session}/turns"), "202 2");
    for protocol in ["--http1.1", "--http2"] {
        let began = Instant::now();
        let path = format!("/v1/sessions/{session}/events/stream");
        // The stream goes on until the client leaves.
        let arguments = [protocol, "--no-buffer", "--max-time", "3"];
        let (_, body) = curl(&served, &certificate, &arguments, &path).unwrap();
        assert!(body.contains("\"kind\":\"turn.completed\""), "{protocol}: {body}");
        assert!(began.elapsed() >= Duration::from_secs(2), "{protocol} ended by itself");
    }
    // Without encryption, and by a version that is broken, nobody is answered.
    let mut plain = std::net::TcpStream::connect(&served.address).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    plain.write_all(b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    let old = Command::new("curl")
        .args(["--silent", "--insecure", "--tls-max", "1.1", "--max-time", "10"])
        .arg(format!("https://{}/v1/health", served.address))
        .output()
        .unwrap();
    assert!(!old.status.success());
}

/// The failure: a client that ended its sending side once it had asked, as `nc -N` does, got no answer: it was taken for
/// one that had left.
#[test]
fn who_has_asked_may_end_its_sending_side_and_is_answered() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TALK);
    served.turn(&session, "hello");
    served.events_of(&session).until("turn.completed");
    let check = |line: &str, body: Option<&str>, status: &str, end: &str, within_s: u64| {
        let began = Instant::now();
        let mut stream = served.connect();
        stream.write_all(served.text(line, &[], body).as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{line}: {answer}");
        assert!(answer.trim_end().ends_with(end), "{line}: {answer}");
        // Nobody asks anything more, so the connection does not stay.
        assert!(began.elapsed() < Duration::from_secs(within_s), "{line}: {:?}", began.elapsed());
    };
    check("GET /v1/health", None, "200", "}", 3);
    check("GET /v1/nothing", None, "404", "}", 3);
    check(&format!("GET /v1/sessions/{session}/events?limit=1000"), None, "200", "}", 3);
    // One that takes its time.
    let scenario = "version: 1\nsteps:\n  - { delay_ms: 1500, emit: [ { text: no plan } ] }\n";
    let body = json!({
        "prompt": "a plan", "provider": "scripted", "project": project, "scenario": scenario,
    });
    check("POST /v1/plans/prompt", Some(&body.to_string()), "201", "}", 4);
    // Of an answer that goes on its client counts as gone at once.
    let began = Instant::now();
    let mut stream = served.connect();
    let line = format!("GET /v1/sessions/{session}/events/stream");
    stream.write_all(served.text(&line, &[], None).as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn where_others_reach_it_it_is_encrypted_and_knows_who_asks() {
    let place = Place::new();
    let (certificate, key) = certificate(&place);
    let tls = ["--tls-certificate", &certificate, "--tls-key", &key];
    let refused = |more: &[&str], code: &str| {
        let arguments = [&["serve", "--listen", "0.0.0.0:0"][..], more].concat();
        let ran = place.run(&arguments);
        assert!(ran.stderr.contains(&format!("[{code}]")), "{more:?} {ran:?}");
    };
    refused(&[], "listen_insecure");
    // Encrypted, but there is no key.
    refused(&tls, "listen_insecure");
    refused(&["--insecure-plaintext"], "listen_insecure");
    let made = place.run(&["keys", "create", "--role", "viewer", "--json"]).expect_status(0).last();
    refused(&[], "listen_insecure");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    refused(&tls, "tls_unusable");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    refused(&tls, "tls_unusable");
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    refused(&["--tls-certificate", &key, "--tls-key", &key], "tls_unusable");
    refused(&["--tls-certificate", "/nothing", "--tls-key", &key], "tls_unusable");
    std::fs::write(place.path("bad.yaml"), "listen: 127.0.0.1:0\ncolour: red\n").unwrap();
    let bad = place.path("bad.yaml").display().to_string();
    refused(&["--config", &bad], "server_config_invalid");
    refused(&["--host", "http://glass.example"], "server_config_invalid");
    // A server for this machine alone leaves its token; there it is good for anything.
    let served = Served::new(&place);
    let token = served.token.clone();
    drop(served);
    // The controls: encrypted, or asked for in so many words.
    for more in [&tls[..], &["--insecure-plaintext"][..]] {
        let arguments = [&["--host", "glass.example"][..], more].concat();
        let served = Served::on(&place, "0.0.0.0:0", &arguments);
        // Clients are told the name under which they are answered.
        assert_eq!(served.address, "glass.example");
        if more.len() == 1 {
            let said = std::fs::read_to_string(place.path("serve.stderr")).unwrap();
            let bound = said.lines().find_map(|line| line.strip_prefix("bound to 0.0.0.0:"));
            let port = bound.unwrap();
            let key = made["text"].as_str().unwrap();
            let ask = |host: &str, credential: &str| {
                let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
                write!(stream, "GET /v1/sessions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {credential}\r\nconnection: close\r\n\r\n").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer.split(' ').nth(1).unwrap().to_owned()
            };
            assert_eq!(ask("glass.example", key), "200");
            assert_eq!(ask("localhost", key), "403");
            assert_eq!(ask(&format!("127.0.0.1:{port}"), key), "403");
            // The token of this machine is no key for others.
            assert_eq!(ask("glass.example", &token), "401");
        }
    }
}

/// What a request may hide in its head, and where a credential never counts.
#[test]
fn a_head_that_says_two_things_is_refused() {
    let place = Place::new();
    let served = Served::new(&place);
    let (host, token) = (&served.address, &served.token);
    let bearer = format!("authorization: Bearer {token}\r\n");
    let check = |head: &str, body: &str, expected: &[u16]| {
        let mut stream = served.connect();
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let statuses: Vec<u16> = answer
            .match_indices("HTTP/1.1 ")
            .filter_map(|(at, _)| answer.get(at + 9..at + 12)?.parse().ok())
            .collect();
        assert_eq!(statuses, expected, "{head}\n{answer}");
    };
    let get = |more: &str| {
        format!("GET /v1/sessions HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{more}")
    };
    // The control.
    check(&get(&bearer), "", &[200]);
    check(&get(&format!("{bearer}{bearer}")), "", &[401]);
    check(&get(&format!("{bearer}authorization: Bearer other\r\n")), "", &[401]);
    check(&get(&format!("{bearer}host: evil.example\r\n")), "", &[403]);
    check(&get(&format!("{bearer}host: {host}\r\n")), "", &[403]);
    check(&get(&format!("x-authorization: Bearer {token}\r\n")), "", &[401]);
    check(&get(&format!("cookie: token={token}\r\n")), "", &[401]);
    check(&get(&format!("proxy-authorization: Bearer {token}\r\n")), "", &[401]);
    let query = format!(
        "GET /v1/sessions?token={token}&access_token={token} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
    );
    check(&query, "", &[401]);
    // Of two lengths neither is believed, and what follows a body is no request.
    let post = |more: &str| {
        format!(
            "POST /v1/audit/verify HTTP/1.1\r\nhost: {host}\r\n{bearer}connection: close\r\ncontent-type: application/json\r\n{more}"
        )
    };
    let hidden = format!("GET /v1/health HTTP/1.1\r\nhost: {host}\r\n\r\n");
    check(&post("content-length: 2\r\ncontent-length: 3\r\n"), "{} ", &[400]);
    check(&post("content-length: +2\r\n"), "{}", &[400]);
    check(&post("transfer-encoding: chunked, identity\r\n"), "0\r\n\r\n", &[400]);
    check(&post("transfer-encoding: xchunked\r\n"), &format!("0\r\n\r\n{hidden}"), &[400]);
    check(&post("content-length : 2\r\n"), "{}", &[400]);
    check(
        &format!("GET /v1/health HTTP/1.1\r\nhost: {host}\r\nx: a\r\n b\r\nconnection: close\r\n"),
        "",
        &[400],
    );
    check(
        &format!(
            "GET http://evil.example/v1/health HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n"
        ),
        "",
        &[403],
    );
    // A length beside chunks: the chunks count, and the rest is not a second request.
    let both = post("content-length: 5\r\ntransfer-encoding: chunked\r\nconnection: close\r\n");
    let mut stream = served.connect();
    stream.write_all(format!("{both}\r\n2\r\n{{}}\r\n0\r\n\r\n{hidden}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{answer}");
}

/// A body that never comes: the answer says so, and no thread waited for it.
#[test]
fn a_body_that_does_not_come_is_given_up() {
    let place = Place::new();
    let served = Served::new(&place);
    let mut stream = served.connect();
    let head = served.text(
        "POST /v1/audit/verify",
        &[("content-type", "application/json"), ("content-length", "2")],
        None,
    );
    stream.write_all(head.as_bytes()).unwrap();
    let began = Instant::now();
    served.get("/v1/sessions").expect(200);
    let mut answer = vec![0; 4_096];
    let read = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("request_too_slow"), "{answer}");
    assert!(began.elapsed() >= Duration::from_secs(25), "{:?}", began.elapsed());
}

const SLOW: &str = "version: 1
steps:
  - emit: [ { call: { id: c1, tool: shell.run, args: { script: 'sleep 60' } } } ]
";

/// While it stops it takes no turn, says so, and lets what runs come to rest.
#[test]
fn a_server_that_stops_takes_no_turn() {
    let place = Place::new();
    let project = place.shell_project();
    let mut served = Served::new(&place);
    let (one, other) = (served.session(&project, SLOW), served.session(&project, TALK));
    served.turn(&one, "sleep");
    served.events_of(&one).until("tool.started");
    // A connection that is open already is served until it ends.
    let mut kept = served.connect();
    let turns = format!("/v1/sessions/{other}/turns");
    let request = served.text(&format!("POST {turns}"), &[], Some("{\"message\":\"hello\"}"));
    let (first, rest) = request.as_bytes().split_at(request.len() - 5);
    kept.write_all(first).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let pid = served.pid();
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| served.stop());
        std::thread::sleep(Duration::from_millis(500));
        kept.write_all(rest).unwrap();
        let mut answer = String::new();
        let _ = kept.read_to_string(&mut answer);
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains("server_stopping"),
            "{pid} {answer}"
        );
        assert_eq!(stopping.join().unwrap(), Some(0));
    });
}

/// A turn of a session that another log recorded is not run here: nobody chose its directory.
#[test]
fn an_imported_session_is_read_and_not_run() {
    let (theirs, ours) = (Place::new(), Place::new());
    let project = theirs.shell_project();
    let session = {
        let served = Served::new(&theirs);
        let session = served.session(&project, TALK);
        served.turn(&session, "hello");
        served.events_of(&session).until("turn.completed");
        session
    };
    let file = theirs.path("session.jsonl").display().to_string();
    theirs.run(&["session", "export", &session, "--out", &file]).expect_status(0);
    ours.run(&["session", "import", &file]).expect_status(0);
    let served = Served::new(&ours);
    let path = format!("/v1/sessions/{session}");
    assert!(served.get(&format!("{path}/events")).expect(200).text().contains("hello"));
    served.post(&format!("{path}/branches"), &json!({ "name": "try" })).expect(201);
    let body = json!({ "message": "go", "branch": "try" });
    let refused = served.post(&format!("{path}/turns"), &body);
    assert_eq!(refused.code(), "project_unreadable", "{}", refused.text());
    assert!((400..500).contains(&refused.status));
}

/// Who started it is told when it takes requests, and when it stops.
#[test]
fn who_started_it_is_told_that_it_is_ready_and_that_it_stops() {
    let place = Place::new();
    let path = place.path("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(crate::client::PATIENCE)).unwrap();
    let told = || {
        let mut text = [0; 64];
        let length = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..length]).into_owned()
    };
    let path = path.display().to_string();
    let mut served = Served::with_environment(&place, &[("NOTIFY_SOCKET", path.as_str())]);
    assert_eq!(told(), "READY=1");
    assert_eq!(served.get("/v1/health").status, 200);
    assert_eq!(served.stop(), Some(0));
    assert_eq!(told(), "STOPPING=1");
    // Where nobody listens it serves all the same.
    let served = Served::with_environment(&place, &[("NOTIFY_SOCKET", "/nowhere/at/all")]);
    assert_eq!(served.get("/v1/health").status, 200);
}

/// The server said that it listened and began to hear signals afterwards: one that was stopped in between was
/// killed by the signal, and nothing of it was closed. Seen where the machine was busy.
#[test]
fn a_server_that_says_it_listens_can_be_stopped() {
    for signal in ["TERM", "INT"] {
        for _ in 0..4 {
            let place = Place::new();
            let mut command = place.command(&["serve", "--listen", "127.0.0.1:0"]);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
            let mut line = [0];
            // Its first words: no more is read, so that nothing lies between them and the signal.
            child.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
            let pid = child.id().to_string();
            assert!(
                Command::new("kill")
                    .args([&format!("-{signal}"), &pid])
                    .status()
                    .unwrap()
                    .success()
            );
            assert_eq!(child.wait().unwrap().code(), Some(0), "{signal}");
        }
    }
}
