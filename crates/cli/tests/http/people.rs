//! Questions that a turn asks are answered by requests, and bound to what was asked.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{PATIENCE, Served, Stream, kinds};
use crate::harness::Place;

/// Asks a person about each read of `ask*.txt`.
const ASKED: &str = "{ name: ask-reads, match: { syscall: fs.read, path_glob: 'ask*.txt' }, action: require_review, reason: ask first }";

/// A project whose accepted policy asks a person about each read of `ask*.txt`.
fn asking_project(place: &Place) -> PathBuf {
    let project = place.shell_project();
    std::fs::write(project.join("ask1.txt"), "secret\n").unwrap();
    place.accept_rule(&project, ASKED);
    project
}

fn question(status: &str) -> String {
    format!(
        "version: 1
steps:
  - emit: [ {{ call: {{ id: a, tool: fs.read, args: {{ path: ask1.txt }} }} }} ]
  - expect: {{ results: {{ a: {status} }} }}
    emit: [ {{ text: done }} ]
"
    )
}

/// Starts a turn and waits for its question.
fn ask(served: &Served, project: &std::path::Path, status: &str) -> (String, Stream, Value) {
    let session = served.session(project, &question(status));
    let mut stream = served.events_of(&session);
    served.turn(&session, "read it");
    stream.until("approval.requested");
    let listed = served.get("/v1/approvals").expect(200).json();
    let mine = listed["approvals"].as_array().unwrap().iter().find(|one| one["session"] == session);
    let mine = mine.unwrap().clone();
    (session, stream, mine)
}

/// F6, F8: an answer is for exactly what was asked; whatever else is sent changes nothing.
#[test]
fn f6_an_answer_counts_only_for_what_was_asked() {
    let place = Place::new();
    let project = asking_project(&place);
    let served = Served::new(&place);
    let (_, mut stream, asked) = ask(&served, &project, "completed");
    let name = asked["approval"].as_str().unwrap();
    let digest = asked["args_digest"].as_str().unwrap();
    let path = format!("/v1/approvals/{name}");
    let refused = |path: &str, body: Value, status: u16, code: &str| {
        let answer = served.post(path, &body);
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{body}");
    };
    let other = format!("sha256:{}", "0".repeat(64));
    let (branch, seq) = name.split_once(':').unwrap();
    let forged = format!("/v1/approvals/{branch}:{}", seq.parse::<u64>().unwrap() + 1);
    let yes = json!({ "approved": true, "digest": digest });
    refused(&path, json!({ "approved": true, "digest": other }), 409, "approval_mismatch");
    refused(&path, json!({ "approved": true }), 400, "request_invalid");
    refused(
        &path,
        json!({ "approved": true, "digest": digest, "max_uses": 3 }),
        400,
        "request_invalid",
    );
    // What a command refuses as well: a grant of no use, and the number that marks one taken back.
    for terms in
        [json!({ "max_uses": 0 }), json!({ "max_uses": u64::MAX }), json!({ "lifetime_ms": 0 })]
    {
        let mut body = json!({ "approved": true, "digest": digest, "scope": "session" });
        body.as_object_mut().unwrap().extend(terms.as_object().unwrap().clone());
        refused(&path, body, 400, "request_invalid");
    }
    refused(&forged, yes.clone(), 404, "approval_unknown");
    // Of two equal keys a person may have seen the other one.
    let rule = |keys: &str| {
        let body = format!(
            r#"{{"approved":true,"digest":"{digest}","scope":"session","rule":{{"syscall":"fs.read",{keys}}}}}"#
        );
        let answer = served.send(&format!("POST {path}"), &[], Some(&body));
        assert_eq!((answer.status, answer.code().as_str()), (400, "request_invalid"), "{body}");
    };
    rule(r#""path_glob":"ask1.txt","path_glob":"**""#);
    rule(r#""path_glob":"ask1.txt","path\u005fglob":"**""#);
    let shown = served.get(&path).expect(200).json();
    assert_eq!((&shown["answered"], &shown["tool"]), (&json!(false), &json!("fs.read")));
    // The control: the real answer lets the call run.
    assert_eq!(served.post(&path, &yes).expect(200).json()["running"], true);
    let frames = stream.until("turn.completed");
    assert!(kinds(&frames).contains(&"tool.completed"), "{:?}", kinds(&frames));
    refused(&path, yes, 404, "approval_unknown");
}

#[test]
fn a_no_ends_the_call_and_a_wider_yes_is_a_right_that_can_be_taken_back() {
    let place = Place::new();
    let project = asking_project(&place);
    let served = Served::new(&place);
    let (_, mut stream, asked) = ask(&served, &project, "denied");
    let answer = |asked: &Value, more: Value| {
        let mut body = json!({ "digest": asked["args_digest"] });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let path = format!("/v1/approvals/{}", asked["approval"].as_str().unwrap());
        served.post(&path, &body).expect(200)
    };
    answer(&asked, json!({ "approved": false }));
    stream.until("tool.denied");
    stream.until("turn.completed");
    assert_eq!(served.get("/v1/grants").json()["grants"], json!([]));
    let (session, mut stream, asked) = ask(&served, &project, "completed");
    answer(&asked, json!({ "approved": true, "scope": "session", "lifetime_ms": 600_000 }));
    stream.until("turn.completed");
    let grants = served.get("/v1/grants").json();
    let grant = &grants["grants"][0];
    assert_eq!((&grant["session"], &grant["scope"]), (&json!(session), &json!("session")));
    let path = format!("DELETE /v1/grants/{}", grant["grant"].as_str().unwrap());
    for changed in [true, false] {
        let told = served.send(&path, &[], None).expect(200).json();
        assert_eq!(told["changed"], changed);
    }
    assert_eq!(served.get("/v1/grants").json()["grants"], json!([]));
    assert_eq!(served.get("/v1/grants?all=true").json()["grants"][0]["state"], "revoked");
}

const TALK: &str = "version: 1
steps:
  - emit: [ { text: One. } ]
  - emit: [ { text: Two. } ]
  - emit: [ { text: Three. } ]
  - emit: [ { text: Four. } ]
";
const MERGES: &str = "{ name: ask-merges, match: { syscall: session.merge }, action: require_review, reason: two pairs of eyes }";

/// A session whose merges a person is asked about, somebody who works on it and somebody who answers.
struct Merges<'a> {
    served: &'a Served,
    session: String,
    operator: String,
    approver: String,
}

impl<'a> Merges<'a> {
    fn new(place: &Place, served: &'a Served) -> Self {
        let project = place.shell_project();
        place.accept_rule(&project, MERGES);
        let key = |role: &str| crate::world::key(place, "local", &[role], &[]);
        let session = served.session(&project, TALK);
        let merges = Self { served, session, operator: key("operator"), approver: key("approver") };
        merges.turn("main");
        merges
    }

    /// Sends as somebody, until the turn before has put away what it used.
    fn send(&self, key: &str, line: &str, body: &Value) -> crate::client::Answer {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.served.send_as(key, line, &[], Some(&body.to_string()));
            let is_moving = ["session_owned", "turn_running"].contains(&&*answer.code());
            if !is_moving || Instant::now() > deadline {
                return answer;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn post(&self, path: &str, body: &Value) -> crate::client::Answer {
        let line = format!("POST /v1/sessions/{}/{path}", self.session);
        self.send(&self.operator, &line, body)
    }

    fn turn(&self, branch: &str) {
        let begun = self.post("turns", &json!({ "message": "go", "branch": branch }));
        let turn = begun.expect(202).json()["turn"].clone();
        let session = &self.session;
        let path = format!("/v1/sessions/{session}/events/stream?branch={branch}&from={turn}");
        self.served.follow(&path, &[]).until("turn.completed");
    }

    /// A branch with something that the main one lacks.
    fn fork(&self, name: &str) {
        self.post("branches", &json!({ "name": name })).expect(201);
        self.turn(name);
    }

    /// Asks for a merge; answers the question that waits.
    fn ask(&self, name: &str) -> String {
        let answer = self.post(&format!("branches/{name}/merge"), &json!({})).expect(202);
        let told = answer.json();
        let approval = told["approval"].as_str().unwrap().to_owned();
        assert_eq!(answer.header("location"), Some(&*format!("/v1/approvals/{approval}")));
        assert_eq!(told["head"], Value::Null, "{told}");
        approval
    }

    /// Sessions and their first branches, as a list names them.
    fn listed(&self, query: &str) -> Vec<(String, String)> {
        let listed = self.served.get(&format!("/v1/sessions{query}")).expect(200).json();
        let text = |one: &Value| one.as_str().unwrap().to_owned();
        let rows = listed["sessions"].as_array().unwrap().iter();
        rows.map(|row| (text(&row["session"]), text(&row["branch"]))).collect()
    }

    /// The session in which a question stands.
    fn asking(&self, approval: &str) -> String {
        let branch = approval.split(':').next().unwrap();
        let listed = self.listed("?all=true&limit=200");
        listed.into_iter().find(|(_, first)| first == branch).unwrap().0
    }

    fn waiting(&self) -> Vec<Value> {
        let listed = self.served.get("/v1/approvals").expect(200).json();
        listed["approvals"].as_array().unwrap().clone()
    }

    fn answer(&self, key: &str, approval: &str, body: &Value) -> crate::client::Answer {
        self.send(key, &format!("POST /v1/approvals/{approval}"), body)
    }

    /// State and newest event of a branch.
    fn head(&self, branch: &str) -> (String, u64) {
        let path = format!("/v1/sessions/{}/branches", self.session);
        let rows = self.served.get(&path).expect(200).json();
        let row = rows["branches"].as_array().unwrap().iter().find(|row| row["name"] == branch);
        let row = row.unwrap();
        (row["state"].as_str().unwrap().to_owned(), row["head"].as_u64().unwrap())
    }
}

/// The failure: a merge that a rule wants a person for was refused over HTTP, whoever asked, as if nobody were there.
/// Now it waits in the queue, and whoever may answer makes it with a yes, under the name of who asked for it.
#[test]
fn a_merge_that_needs_a_person_waits_for_one() {
    let place = Place::new();
    let served = Served::new(&place);
    let merges = Merges::new(&place, &served);
    let (operator, approver) = (&merges.operator, &merges.approver);
    merges.fork("one");
    let before = merges.head("main");
    let approval = merges.ask("one");
    assert_eq!(merges.ask("one"), approval, "the same question is asked once");
    assert_eq!(merges.head("main"), before);
    let waiting = merges.waiting();
    let [question] = waiting.as_slice() else { panic!("{waiting:?}") };
    assert_eq!(
        (&question["approval"], &question["session"], &question["reasons"][0]),
        (&json!(approval), &json!(merges.session), &json!("two pairs of eyes"))
    );
    let yes = json!({ "approved": true, "digest": question["args_digest"] });
    // Who asks is not who answers, and one answer is for what was seen.
    assert_eq!(merges.answer(operator, &approval, &yes).expect(403).code(), "role_forbidden");
    let other = json!({ "approved": true, "digest": format!("sha256:{}", "0".repeat(64)) });
    assert_eq!(merges.answer(approver, &approval, &other).expect(409).code(), "approval_mismatch");
    merges.answer(approver, &approval, &yes).expect(200);
    assert_eq!(merges.head("one").0, "merged");
    assert_eq!(merges.waiting(), Vec::<Value>::new());
    assert_eq!(merges.answer(approver, &approval, &yes).expect(404).code(), "approval_unknown");
    let path = format!("/v1/sessions/{}/events?from={}", merges.session, before.1 + 1);
    let page = served.get(&path).json();
    let events = page["events"].as_array().unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(
        kinds[..4],
        ["policy.decided", "approval.requested", "approval.resolved", "branch.merged"]
    );
    let id = |key: &str| key.split('.').nth(2).unwrap().to_owned();
    let by = |at: usize| events[at]["actor"]["id"].as_str().unwrap().to_owned();
    assert!(by(2).contains(&id(approver)) && by(3).contains(&id(operator)), "{events:?}");
}

/// The failure: whoever may work on sessions forked the one in which a question stands and merged it into the fork. It
/// was listed for good then, and no answer to it was taken. What is no session of an agent is neither forked nor merged.
#[test]
fn nobody_makes_a_question_unanswerable() {
    let place = Place::new();
    let served = Served::new(&place);
    let merges = Merges::new(&place, &served);
    merges.fork("one");
    let approval = merges.ask("one");
    let branch = approval.split(':').next().unwrap();
    let asks = merges.asking(&approval);
    for (path, body) in [
        ("branches".to_owned(), json!({ "name": "f", "at": 1 })),
        (format!("branches/{branch}/merge"), json!({ "into": "main" })),
    ] {
        let line = format!("POST /v1/sessions/{asks}/{path}");
        let refused = merges.send(&merges.operator, &line, &body);
        assert_eq!(refused.expect(404).code(), "session_not_found", "{path}");
    }
    let yes = json!({ "approved": true, "digest": merges.waiting()[0]["args_digest"] });
    merges.answer(&merges.approver, &approval, &yes).expect(200);
    assert_eq!(merges.head("one").0, "merged");
}

/// The failure: of equal asks at the same moment one got the question, and the others 409 `session_owned`, as if somebody
/// worked on the branches. All of them get the one question now.
#[test]
fn equal_asks_at_the_same_moment_get_the_same_question() {
    let place = Place::new();
    let served = Served::new(&place);
    let merges = Merges::new(&place, &served);
    for round in 0..3 {
        let name = format!("b{round}");
        merges.fork(&name);
        let line = format!("POST /v1/sessions/{}/branches/{name}/merge", merges.session);
        let ask = || merges.served.send_as(&merges.operator, &line, &[], Some("{}"));
        let asked: Vec<Value> = std::thread::scope(|scope| {
            let asks: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            asks.into_iter().map(|one| one.join().unwrap().expect(202).json()).collect()
        });
        let waiting = merges.waiting();
        assert_eq!(waiting.len(), round + 1, "{waiting:?}");
        let newest = &waiting[round]["approval"];
        assert!(asked.iter().all(|one| one["approval"] == *newest), "{asked:?}");
    }
}

/// The failure: a question about a merge stands in a session of its own, which nobody can delete. What was asked about
/// a session, paths and all, stayed readable there when that was deleted; and lists told of it as of an agent's session.
#[test]
fn questions_go_with_their_session_and_are_listed_apart() {
    let place = Place::new();
    let served = Served::new(&place);
    let merges = Merges::new(&place, &served);
    merges.fork("one");
    let open = merges.ask("one");
    merges.fork("two");
    let answered = merges.ask("two");
    let digest = |approval: &str| {
        let waiting = merges.waiting();
        waiting.iter().find(|one| one["approval"] == approval).unwrap()["args_digest"].clone()
    };
    let no = json!({ "approved": false, "digest": digest(&answered) });
    merges.answer(&merges.approver, &answered, &no).expect(200);
    let asking = [merges.asking(&open), merges.asking(&answered)];
    let agents: Vec<String> = merges.listed("").into_iter().map(|(session, _)| session).collect();
    assert_eq!(agents, std::slice::from_ref(&merges.session));
    let events = |session: &str| served.get(&format!("/v1/sessions/{session}/events"));
    for asking in &asking {
        assert!(events(asking).expect(200).text().contains("merge "), "the control");
    }
    let line = format!("DELETE /v1/sessions/{}", merges.session);
    let deleted = merges.send(&served.token, &line, &Value::Null).expect(200).json();
    assert_eq!(merges.waiting(), Vec::<Value>::new());
    for asking in &asking {
        assert_eq!(events(asking).expect(410).code(), "session_archived");
    }
    // Each question is a decision, what is asked, and here an answer.
    assert!(deleted["events"].as_u64().unwrap() >= 5, "{deleted}");
    drop(served);
    place.run(&["audit", "verify"]).expect_status(0);
}

/// The failure: a yes was stored before its merge, so a server that was killed in between had lost it; and a no beside
/// it could be stored as well. One of several answers at once is stored, and the branch is merged when it was a yes.
#[test]
fn of_answers_at_once_one_counts_and_does_what_it_says() {
    let place = Place::new();
    let served = Served::new(&place);
    let merges = Merges::new(&place, &served);
    for round in 0..4 {
        let name = format!("b{round}");
        merges.fork(&name);
        let approval = merges.ask(&name);
        let digest = merges.waiting()[0]["args_digest"].clone();
        let answers: Vec<(bool, u16)> = std::thread::scope(|scope| {
            let ask = |approved: bool| {
                let body = json!({ "approved": approved, "digest": digest });
                let (merges, approval) = (&merges, &approval);
                scope.spawn(move || {
                    (approved, merges.answer(&merges.approver, approval, &body).status)
                })
            };
            let asked: Vec<_> = [true, false, true, false].into_iter().map(ask).collect();
            asked.into_iter().map(|answer| answer.join().unwrap()).collect()
        });
        let counted: Vec<bool> =
            answers.iter().filter(|(_, status)| *status == 200).map(|(yes, _)| *yes).collect();
        let [counted] = counted.as_slice() else { panic!("{answers:?}") };
        assert!(answers.iter().all(|(_, status)| [200, 404, 409].contains(status)), "{answers:?}");
        assert_eq!(merges.head(&name).0 == "merged", *counted, "{answers:?}");
        assert_eq!(merges.waiting(), Vec::<Value>::new());
    }
    drop(served);
    place.run(&["audit", "verify"]).expect_status(0);
}

/// The failure: a yes to a merge was told in the target and again beside the question, and counted twice.
#[test]
fn an_answer_to_a_merge_is_counted_once() {
    let place = Place::new();
    let served = Served::new(&place);
    let merges = Merges::new(&place, &served);
    for (name, approved) in [("one", true), ("two", false)] {
        merges.fork(name);
        let approval = merges.ask(name);
        let answer = json!({ "approved": approved, "digest": merges.waiting()[0]["args_digest"] });
        merges.answer(&merges.approver, &approval, &answer).expect(200);
    }
    let count = |answer: &str| {
        let line = format!("\nglasshouse_approvals_total{{answer=\"{answer}\"}} ");
        let text = served.get("/v1/metrics").text();
        text.split_once(&line).map_or(0, |(_, rest)| rest.lines().next().unwrap().parse().unwrap())
    };
    // Counted in the order of the log: when the no is, everything of the yes is.
    let deadline = Instant::now() + PATIENCE;
    while count("rejected") < 1 {
        assert!(Instant::now() < deadline, "the no is not counted");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The other one accepted the project's policy.
    assert_eq!((count("approved"), count("rejected")), (2, 1));
}

/// A no ends the question and changes nothing; when a branch moves on nothing is asked any more; and the command answers
/// as the route does, also after the server is gone.
#[test]
fn a_merge_is_refused_overtaken_or_made_by_the_command() {
    let place = Place::new();
    let served = Served::new(&place);
    let merges = Merges::new(&place, &served);
    merges.fork("two");
    let before = merges.head("main");
    let approval = merges.ask("two");
    let digest = merges.waiting()[0]["args_digest"].clone();
    let no = json!({ "approved": false, "digest": digest });
    merges.answer(&merges.approver, &approval, &no).expect(200);
    assert_eq!((merges.waiting(), merges.head("main")), (Vec::new(), before));
    let again = merges.ask("two");
    assert_ne!(again, approval);
    merges.turn("main");
    assert_eq!(merges.waiting(), Vec::<Value>::new());
    let deadline = Instant::now() + PATIENCE;
    while !served.get("/v1/metrics").text().contains("\nglasshouse_open_approvals 0\n") {
        assert!(Instant::now() < deadline, "it counts as open");
        std::thread::sleep(Duration::from_millis(20));
    }
    let late = json!({ "approved": true, "digest": digest });
    let refused = merges.answer(&merges.approver, &again, &late).expect(404);
    assert_eq!(refused.code(), "approval_unknown");
    let (last, session) = (merges.ask("two"), merges.session);
    drop(served);
    place.run(&["review", "approve", &last]).expect_status(0);
    place.run(&["audit", "verify"]).expect_status(0);
    let rows = place.run(&["session", "show", &session, "--branches", "--json"]).expect_status(0);
    let merged = rows.stdout.lines().filter(|line| line.contains("\"merged\"")).count();
    assert_eq!(merged, 1, "{}", rows.stdout);
}
