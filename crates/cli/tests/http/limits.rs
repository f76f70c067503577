//! What a tenant may use is counted once, where it begins; what is said to nobody stops; and what a model makes is
//! told without secrets.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Answer, PATIENCE, Served, Stream};
use crate::endings::holds;
use crate::harness::Place;
use crate::world::{As, key, tenant};

const TALK: &str = "version: 1
steps:
  - emit: [ { text: Hello. } ]
  - emit: [ { text: Again. } ]
  - emit: [ { text: Once more. } ]
";
/// Answers after a minute.
const SLOW: &str = "version: 1\nsteps:\n  - { delay_ms: 60000, emit: [ { text: Late. } ] }\n";
/// Requests that are made at one time.
const AT_ONCE: usize = 8;

/// What is written to a log's session of keys and tenants.
fn told(client: &As<'_>, kind: &str) -> usize {
    let log = client.get("/v1/sessions/s_access/events?limit=1000").json();
    let events = log["events"].as_array().cloned().unwrap_or_default();
    events.iter().filter(|event| event["kind"] == kind).count()
}

fn quota_of(answer: &Answer) -> Value {
    assert_eq!((answer.status, answer.code().as_str()), (429, "quota_exhausted"), "{answer:?}");
    answer.json()["context"]["quota"].clone()
}

/// Sends a request and leaves its connection open: the status, and what is still to come.
fn begin(
    served: &Served,
    key: &str,
    line: &str,
    body: Option<&Value>,
) -> (u16, BufReader<TcpStream>) {
    let mut stream = begun(served, key, line, body);
    let mut first = String::new();
    stream.read_line(&mut first).unwrap();
    (first.split(' ').nth(1).unwrap().parse().unwrap(), stream)
}

/// The same without waiting for anything.
fn begun(served: &Served, key: &str, line: &str, body: Option<&Value>) -> BufReader<TcpStream> {
    let mut stream = served.connect();
    let body = body.map(Value::to_string);
    let text = served.text_as(key, line, &[], body.as_deref());
    stream.write_all(text.as_bytes()).unwrap();
    BufReader::new(stream)
}

/// Tries until an answer is one that is waited for.
fn soon(mut ask: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE / 3;
    while !ask() {
        assert!(Instant::now() < until, "it did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What the log says of one session after the other.
fn events(client: &As<'_>) -> Vec<Value> {
    let rows = client.get("/v1/sessions?all=true&limit=200").expect(200).json();
    let rows = rows["sessions"].as_array().unwrap().clone();
    rows.iter()
        .flat_map(|row| {
            let path =
                format!("/v1/sessions/{}/events?limit=1000", row["session"].as_str().unwrap());
            client.get(&path).expect(200).json()["events"].as_array().unwrap().clone()
        })
        .collect()
}

/// Each quota, where it is used up, refuses what would use more of it, says which one it is and when to come again, and
/// nothing else; without it the same request is taken.
#[test]
fn each_quota_refuses_what_would_use_more_of_it() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let (talk, slow) = (admin.session(&acme, TALK), admin.session(&acme, SLOW));
    admin.turn(&talk, "one", "turn.completed");
    let slow_turns = format!("/v1/sessions/{slow}/turns");
    admin.post(&slow_turns, &json!({ "message": "wait" })).expect(202);
    let follow = format!("/v1/sessions/{talk}/events/stream");
    let (status, _open) = begin(&served, &admin.key, &format!("GET {follow}"), None);
    assert_eq!(status, 200);
    let turn = |session: &str| {
        let line = format!("POST /v1/sessions/{session}/turns");
        (line, Some(json!({ "message": "more" })))
    };
    // A turn that told its end still puts its sandbox away.
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    let used = loop {
        let used = admin.get("/v1/usage").expect(200).json();
        if used["running_turns"] == 1 || std::time::Instant::now() > deadline {
            break used;
        }
    };
    let today = used["days"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&today["turns"], &used["running_turns"]), (&json!(2), &json!(1)), "{used}");
    let set = |arguments: &[&str]| {
        place.run(&[&["tenants", "update", "acme"][..], arguments].concat()).expect_status(0);
    };
    let check = |quota: &str, limit: u64, code: &str, (line, body): (String, Option<Value>)| {
        set(&["--clear", "quotas"]);
        let ask = || loop {
            let answer = admin.send(&line, body.as_ref());
            // The turn before puts away what it used.
            if answer.code() != "turn_running" && answer.code() != "session_owned" {
                return answer;
            }
        };
        let limited = format!("{quota}={limit}");
        set(&["--quota", &limited]);
        let mut refused = ask();
        if code == "too_many_requests" {
            refused = (0..10).map(|_| ask()).find(|answer| answer.status == 429).unwrap();
        }
        assert_eq!((refused.status, &*refused.code()), (429, code), "{quota}: {}", refused.text());
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=24 * 3_600).contains(&wait), "{quota} {wait}");
        if code == "quota_exhausted" {
            let context = &refused.json()["context"];
            assert_eq!((&context["quota"], &context["limit"]), (&json!(quota), &json!(limit)));
        }
        set(&["--clear", "quotas"]);
        let taken = ask();
        assert!(taken.status < 300, "{quota}: {}", taken.text());
    };
    let sessions = || ("GET /v1/sessions".to_owned(), None);
    check("queued_requests", 0, "quota_exhausted", sessions());
    check("open_streams", 1, "quota_exhausted", (format!("GET {follow}"), None));
    check("running_turns", 1, "quota_exhausted", turn(&talk));
    check("turns_per_day", 3, "quota_exhausted", turn(&talk));
    check("tokens_per_day", 0, "quota_exhausted", turn(&admin.session(&acme, TALK)));
    check("cost_micros_per_day", 0, "quota_exhausted", turn(&admin.session(&acme, TALK)));
    check("stored_bytes", 1, "quota_exhausted", turn(&admin.session(&acme, TALK)));
    check("requests_per_minute", 3, "too_many_requests", sessions());
}

fn prompt(scenario: &str) -> Value {
    json!({ "prompt": "make one", "provider": "scripted", "scenario": scenario })
}

/// A token of the shape that is masked wherever it stands. It repeats nothing, so that packing leaves it as it is.
const SECRET: &str = "ghp_Zq7Wm2Xv9Lb4Nc6Kd8Jf3Hg5Rt1Ys0PuEoAi";
/// A word beside it that is no secret, and repeats nothing either.
const WORD: &str = "Uk5Dn8Vq2Sx7Gm4Tj9Fz";

/// A model's plan as its answer has it, in small pieces; `secret` is written as it stands.
fn leaking(secret: &str) -> String {
    let plan = json!({
        "specVersion": "runtime-plan/v1", "id": "leak", "version": 1,
        "capabilities": { "domWrite": true },
        "root": { "type": "element", "tag": "p", "children": [ { "type": "text", "value": "SECRET! WORD" } ] },
    });
    let text = plan.to_string().replace("SECRET", secret).replace("WORD", WORD);
    json!({ "version": 1, "steps": [ { "chunk_bytes": 7, "emit": [ { "text": text } ] } ] })
        .to_string()
}

/// Law 9: a secret in a model's plan is in no preview, no plan, no page and no file.
#[test]
fn a_plan_of_a_model_is_told_without_secrets() {
    let place = Place::new();
    let served = Served::new(&place);
    let check = |secret: &str| {
        let whole = served.post("/v1/plans/prompt", &prompt(&leaking(secret))).expect(201).text();
        let body = prompt(&leaking(secret));
        let (status, stream) =
            begin(&served, &served.token, "POST /v1/plans/prompt/stream", Some(&body));
        assert_eq!(status, 200);
        let streamed: Vec<String> = stream
            .lines()
            .map_while(Result::ok)
            .take_while(|line| !line.contains("\"type\":\"error\""))
            .scan(false, |over, line| {
                let now = *over;
                *over |= line.contains("\"type\":\"done\"");
                (!now).then_some(line)
            })
            .collect();
        let last = streamed.last().unwrap();
        assert!(last.contains("\"type\":\"done\""), "{streamed:?}");
        assert!(streamed.iter().any(|line| line.contains("\"type\":\"preview\"")), "{streamed:?}");
        for text in streamed.iter().chain([&whole]) {
            // Not even half of it.
            let (head, tail) = SECRET.split_at(SECRET.len() / 2);
            assert!(![head, tail].iter().any(|half| text.contains(half)), "{secret}: {text}");
        }
        // The control: there was one.
        assert!(last.contains("[secret:github]!") && whole.contains("[secret:github]!"), "{last}");
    };
    check(SECRET);
    check(&SECRET.replacen('p', "\\u0070", 1));
    let (_, tail) = SECRET.split_at(SECRET.len() / 2);
    assert!(!holds(&place.home(), tail.as_bytes()));
    // The control: what stood beside it is found.
    assert!(holds(&place.home(), WORD.as_bytes()));
}

/// A question for a plan counts as a turn that runs and, where it is streamed, as an answer that goes on. When
/// nobody waits for it any more it ends, though its model says nothing.
#[test]
fn a_question_for_a_plan_has_the_limits_of_a_turn_and_ends_with_its_client() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &["running_turns=1"]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let session = admin.session(&acme, TALK);
    let turns = format!("/v1/sessions/{session}/turns");
    let slow = prompt(SLOW);
    for line in ["POST /v1/plans/prompt/stream", "POST /v1/plans/prompt"] {
        let asked = begun(&served, &admin.key, line, Some(&slow));
        // A look takes no place, which another question would.
        soon(|| admin.get("/v1/usage").json()["running_turns"] == 1);
        for path in ["/v1/plans/prompt", "/v1/plans/prompt/stream"] {
            assert_eq!(quota_of(&admin.post(path, &slow)), "running_turns", "{path}");
        }
        assert_eq!(quota_of(&admin.post(&turns, &json!({ "message": "hi" }))), "running_turns");
        drop(asked);
        soon(|| admin.get("/v1/usage").json()["running_turns"] == 0);
        // What the scenario cannot be is looked at after the quota.
        soon(|| admin.post("/v1/plans/prompt", &prompt("x")).status != 429);
    }
    let failed = events(&admin).into_iter().filter(|event| event["kind"] == "model.failed");
    assert_eq!(failed.filter(|event| event["body"]["code"] == "provider_cancelled").count(), 2);
    let root = acme.parent().unwrap().display().to_string();
    place
        .run(&["tenants", "update", "acme", "--root", &root, "--quota", "open_streams=1"])
        .expect_status(0);
    let (status, first) = begin(&served, &admin.key, "POST /v1/plans/prompt/stream", Some(&slow));
    assert_eq!(status, 200);
    let follow = format!("/v1/sessions/{session}/events/stream");
    assert_eq!(quota_of(&admin.get(&follow)), "open_streams");
    assert_eq!(quota_of(&admin.post("/v1/plans/prompt/stream", &slow)), "open_streams");
    drop(first);
    soon(|| begin(&served, &admin.key, &format!("GET {follow}"), None).0 == 200);
}

/// Nobody limited the installation itself: the server's own limit counts, and it stops all the same.
#[test]
fn questions_for_plans_are_bounded_and_hold_up_no_stop() {
    const MOST: usize = 32;
    let place = Place::new();
    let mut served = Served::new(&place);
    let ask = || begin(&served, &served.token, "POST /v1/plans/prompt/stream", Some(&prompt(SLOW)));
    let open: Vec<_> = (0..MOST).map(|_| ask()).collect();
    assert!(open.iter().all(|(status, _)| *status == 200));
    let more = served.post("/v1/plans/prompt/stream", &prompt(SLOW));
    assert_eq!(more.code(), "server_busy", "{more:?}");
    assert_eq!(served.get("/v1/ready").json()["running_turns"], MOST);
    let began = Instant::now();
    assert_eq!(served.stop(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// What is no turn takes none, and what was done before needs no room.
#[test]
fn a_turn_is_counted_where_it_begins_and_once() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &["turns_per_day=1"]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let start = |key: &str| {
        let body = json!({ "project": acme, "provider": "scripted", "scenario": TALK });
        admin.keyed("POST /v1/sessions", &[("idempotency-key", key)], Some(&body))
    };
    let session = start("one").expect(201).json()["session"].as_str().unwrap().to_owned();
    let turns = format!("POST /v1/sessions/{session}/turns");
    let turn = |key: &str| {
        admin.keyed(&turns, &[("idempotency-key", key)], Some(&json!({ "message": "hello" })))
    };
    // Goes on beside what follows.
    let _asked = begun(&served, &admin.key, "POST /v1/plans/prompt", Some(&prompt(SLOW)));
    soon(|| served.get("/v1/metrics").text().contains("glasshouse_running_turns 1"));
    assert_eq!(turn("first").expect(202).header("idempotency-replayed"), None);
    served.follow_as(&admin.key, &format!("/v1/sessions/{session}/events/stream")).until_end();
    for again in [turn("first").expect(202), start("one").expect(201)] {
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
    }
    assert_eq!(told(&admin, "quota.throttled"), 0);
    // The control: one that was not made before.
    assert_eq!(quota_of(&turn("second")), "turns_per_day");
    assert_eq!(quota_of(&start("two")), "turns_per_day");
    assert_eq!(told(&admin, "quota.throttled"), 1);
}

/// Sends one request after the other has begun, all at one time, and answers their statuses.
fn at_once(requests: &[(String, Option<Value>)], served: &Served, key: &str) -> Vec<u16> {
    let barrier = Barrier::new(requests.len());
    let send = |(line, body): &(String, Option<Value>)| {
        barrier.wait();
        let (status, stream) = begin(served, key, line, body.as_ref());
        // None ends before all have begun.
        barrier.wait();
        drop(stream);
        status
    };
    let send = &send;
    std::thread::scope(|scope| {
        let sent: Vec<_> = requests.iter().map(|one| scope.spawn(move || send(one))).collect();
        sent.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

#[test]
fn of_many_at_once_as_many_begin_as_there_is_room_for() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &["running_turns=1", "open_streams=1"]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let sessions: Vec<String> = (0..AT_ONCE).map(|_| admin.session(&acme, SLOW)).collect();
    let check = |status: u16, request: &dyn Fn(&String) -> (String, Option<Value>)| {
        let requests: Vec<_> = sessions.iter().map(request).collect();
        let answers = at_once(&requests, &served, &admin.key);
        let count = |wanted: u16| answers.iter().filter(|found| **found == wanted).count();
        assert_eq!((count(status), count(429)), (1, AT_ONCE - 1), "{answers:?}");
    };
    check(202, &|session| {
        (format!("POST /v1/sessions/{session}/turns"), Some(json!({ "message": "hello" })))
    });
    check(200, &|session| (format!("GET /v1/sessions/{session}/events/stream"), None));
}

/// Asks a person about each read of `ask*.txt`.
const ASKED: &str = "{ name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }";
/// A question, then an answer that takes its time.
const QUESTION: &str = "version: 1
steps:
  - emit: [ { call: { id: a, tool: fs.read, args: { path: ask1.txt } } } ]
  - { delay_ms: 60000, emit: [ { text: Done. } ] }
";

fn said(session: &str) -> Value {
    json!({ "id": session, "messages": [
        { "id": "m1", "role": "user", "parts": [ { "type": "text", "text": "read it" } ] },
    ]})
}

/// The answer to the question of a chat's first message.
fn answer(session: &str, mut asking: Stream) -> Value {
    let chunks = std::iter::from_fn(|| asking.next_text()).take_while(|data| data != "[DONE]");
    let chunks: Vec<Value> = chunks.map(|data| serde_json::from_str(&data).unwrap()).collect();
    let of = |kind: &str| chunks.iter().find(|chunk| chunk["type"] == kind).unwrap();
    let question = of("tool-approval-request");
    let part = json!({
        "type": "dynamic-tool", "toolName": "fs.read", "toolCallId": question["toolCallId"],
        "state": "approval-responded", "input": of("tool-input-available")["input"],
        "approval": { "id": question["approvalId"], "approved": true },
    });
    let message = json!({ "id": of("start")["messageId"], "role": "assistant", "parts": [part] });
    json!({ "id": session, "messages": [message] })
}

/// An answer begins no turn: it is taken when the day's turns are used and its own turn is the one that may run.
/// Sent again it makes nothing run on, unless by somebody who may do that.
#[test]
fn an_answer_begins_nothing() {
    let place = Place::new();
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    place.accept_rule(&project, ASKED);
    let quotas = ["--quota", "turns_per_day=1", "--quota", "running_turns=1"];
    place.run(&[&["tenants", "update", "local"][..], &quotas].concat()).expect_status(0);
    let mut served = Served::new(&place);
    let session = served.session(&project, QUESTION);
    let approver = key(&place, "local", &["approver"], &[]);
    let yes = answer(&session, served.post_stream("/v1/chat", &said(&session)));
    let other = json!({ "id": session, "messages": [
        { "id": "m2", "role": "user", "parts": [ { "type": "text", "text": "more" } ] },
    ]});
    let (status, _running) = begin(&served, &approver, "POST /v1/chat", Some(&yes));
    assert_eq!(status, 200);
    served.events_of(&session).until("tool.completed");
    served.kill();
    let served = Served::new(&place);
    let refused = served.send_as(&approver, "POST /v1/chat", &[], Some(&yes.to_string()));
    assert_eq!((refused.status, refused.code().as_str()), (403, "role_forbidden"), "{refused:?}");
    assert_eq!(served.get("/v1/ready").json()["running_turns"], 0);
    // It takes a place like any other, but the day's turns are used.
    assert_eq!(quota_of(&served.post("/v1/chat", &yes)), "turns_per_day");
    place.run(&["tenants", "update", "local", "--quota", "turns_per_day=2"]).expect_status(0);
    let (status, _running) = begin(&served, &served.token, "POST /v1/chat", Some(&yes));
    assert_eq!(status, 200);
    assert_eq!(served.post("/v1/chat", &other).expect(409).code(), "turn_running");
}

/// Who may answer and not act is refused by the route of both, and the tenant's log is told like anywhere.
#[test]
fn what_a_chat_refuses_is_told_to_the_log() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let of = |role: &str| As { served: &served, key: key(&place, "acme", &[role], &[]) };
    let (admin, approver) = (of("admin"), of("approver"));
    let session = admin.session(&acme, TALK);
    assert_eq!(told(&admin, "policy.decided"), 0);
    let refused = approver.post("/v1/chat", &said(&session)).expect(403);
    assert_eq!(refused.code(), "role_forbidden");
    assert!(refused.text().contains("operator"), "{}", refused.text());
    assert_eq!(told(&admin, "policy.decided"), 1);
}

/// What is asked of a plan and of a model is recorded as by who asked.
#[test]
fn plans_are_recorded_as_by_who_asked() {
    let place = Place::new();
    tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let id = admin.key.split('.').nth(2).unwrap().to_owned();
    admin.post("/v1/plans/prompt", &prompt(&leaking("nothing"))).expect(201);
    let events = events(&admin);
    for syscall in ["model.call", "ui.render"] {
        let decided = events.iter().filter(|event| event["kind"] == "policy.decided");
        let decided = decided.filter(|event| event["body"]["syscall"] == syscall);
        let callers: Vec<String> =
            decided.map(|event| event["body"]["input"].to_string()).collect();
        assert!(
            !callers.is_empty() && callers.iter().all(|call| call.contains(&id)),
            "{callers:?}"
        );
    }
}

/// A question that led to no plan is recorded with its reason, however it is answered.
#[test]
fn what_leads_to_no_plan_is_recorded() {
    let place = Place::new();
    tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    // What the model is asked to mend it answers as before.
    let twice = |scenario: &str| {
        let mut scenario: Value = serde_json::from_str(scenario).unwrap();
        let steps = scenario["steps"].as_array_mut().unwrap();
        steps.push(steps[0].clone());
        scenario.to_string()
    };
    let unsafe_plan = twice(&leaking("nothing").replace("\\\"p\\\"", "\\\"script\\\""));
    let refused = || -> Vec<Value> {
        let events = events(&admin).into_iter();
        events.filter(|event| event["kind"] == "plan.refused").collect()
    };
    // The whole answer, or the last line of one that comes in lines.
    let asked = |path: &str, scenario: &str| {
        if !path.ends_with("/stream") {
            return admin.post(path, &prompt(scenario)).text();
        }
        let line = format!("POST {path}");
        let (_, stream) = begin(&served, &admin.key, &line, Some(&prompt(scenario)));
        let is_last = |line: &String| {
            ["error", "done"].iter().any(|kind| line.contains(&format!("\"type\":\"{kind}\"")))
        };
        stream.lines().map_while(Result::ok).find(is_last).unwrap()
    };
    let check = |path: &str, scenario: &str, expected: &str| {
        let before = refused().len();
        let answer = asked(path, scenario);
        assert!(answer.contains(expected), "{path} {answer}");
        let all = refused();
        assert_eq!(all.len(), before + 1, "{path} {expected}");
        let last = all.iter().max_by_key(|event| event["seq"].as_u64()).unwrap();
        let run = &last["body"]["run"];
        assert_eq!((&run["code"], &run["mode"]), (&json!(expected), &json!("prompt")), "{last}");
    };
    // The server says that the key is wrong.
    let fails = "version: 1\nsteps: [ { emit: [ { error: { status: 401 } } ] } ]";
    for path in ["/v1/plans/prompt", "/v1/plans/prompt/stream"] {
        check(path, &unsafe_plan, "plan_refused");
        check(path, fails, "provider_auth");
        // The control: what may be shown is not turned away.
        let before = refused().len();
        let shown = asked(path, &leaking("nothing"));
        assert!(shown.contains("\"markup\""), "{shown}");
        assert_eq!(refused().len(), before, "{path}");
    }
}

/// The log's own sessions tell of keys and, in the installation's log, of every tenant: who sees sessions does not
/// see them, and nobody adds to them.
#[test]
fn the_logs_own_sessions_are_for_those_who_keep_it() {
    let place = Place::new();
    tenant(&place, "acme", &["turns_per_day=7"]);
    let served = Served::new(&place);
    let of =
        |tenant: &str, role: &str| As { served: &served, key: key(&place, tenant, &[role], &[]) };
    // Two of them hold keys, so the session of each is there.
    let reads = |session: &str| {
        [
            format!("/v1/sessions/{session}"),
            format!("/v1/sessions/{session}/events"),
            format!("/v1/sessions/{session}/branches"),
            format!("/v1/sessions/{session}/costs"),
            format!("/v1/sessions/{session}/views/thread"),
            format!("/v1/sessions/{session}/diff"),
            format!("/v1/search?q=acme&session={session}"),
            format!("/v1/chat/{session}/messages"),
        ]
    };
    // For those who may prove something at all.
    let proof = |branch: &str| format!("/v1/audit/proofs/{branch}/1");
    let check = |tenant: &str, role: &str, is_open: bool| {
        let client = of(tenant, role);
        let mut paths: Vec<_> = reads("s_access").into_iter().zip(reads("s_zzzzzz")).collect();
        if ["auditor", "admin"].contains(&role) {
            paths.push((proof("b_access"), proof("b_zzzzzz")));
        }
        for (path, nowhere) in paths {
            let (found, unknown) = (client.get(&path), client.get(&nowhere));
            assert_eq!(
                !["session_not_found", "branch_not_found"].contains(&&*found.code()),
                is_open,
                "{tenant} {role} {path}: {}",
                found.text()
            );
            if !is_open {
                let text = found.text().replace("_access", "_zzzzzz");
                assert_eq!((found.status, text), (unknown.status, unknown.text()), "{role} {path}");
            }
        }
    };
    for role in ["viewer", "operator", "approver", "auditor"] {
        check("local", role, false);
    }
    check("local", "admin", true);
    check("acme", "viewer", false);
    check("acme", "auditor", true);
    check("acme", "admin", true);
    let operator = of("local", "operator");
    for (line, body) in [
        ("POST /v1/sessions/s_access/turns", json!({ "message": "hello" })),
        ("POST /v1/sessions/s_access/branches", json!({ "name": "mine" })),
        ("POST /v1/sessions/s_access/close", json!({})),
        ("POST /v1/chat", said("s_access")),
    ] {
        assert_eq!(operator.send(line, Some(&body)).status, 404, "{line}");
        let body = body.to_string();
        let answer = served.send(line, &[], Some(&body));
        assert_eq!((answer.status, answer.code().as_str()), (400, "request_invalid"), "{line}");
    }
    assert_eq!(served.send("DELETE /v1/sessions/s_access", &[], None).status, 400);
}

/// What a branch has of its parent is counted once, and the turns of every tenant are counted.
#[test]
fn a_fork_is_not_counted_again_and_every_tenant_is() {
    let place = Place::new();
    let acme = tenant(&place, "acme", &[]);
    let served = Served::new(&place);
    let admin = As { served: &served, key: key(&place, "acme", &["admin"], &[]) };
    let answered = || {
        let text = served.get("/v1/metrics").expect(200).text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("glasshouse_turns_total{outcome=\"answered\"} "));
        line.map_or(0, |count| count.parse::<u64>().unwrap())
    };
    let session = admin.session(&acme, TALK);
    admin.turn(&session, "hello", "turn.completed");
    soon(|| answered() == 1);
    let path = format!("/v1/sessions/{session}/branches");
    admin.post(&path, &json!({ "name": "try" })).expect(201);
    let body = json!({ "message": "again", "branch": "try" });
    admin.post(&format!("/v1/sessions/{session}/turns"), &body).expect(202);
    let stream = format!("/v1/sessions/{session}/events/stream?branch=try");
    let mut stream = served.follow_as(&admin.key, &stream);
    stream.until_end();
    stream.until_end();
    soon(|| answered() >= 2);
    assert_eq!(answered(), 2);
}
