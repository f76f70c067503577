//! Following a branch: every event once and in order, whoever comes when, and whoever leaves.

use glasshouse_log::{Append, Log, NewBranch};
use glasshouse_model::{Draft, Kind};

use crate::client::{Served, kinds};
use crate::harness::Place;

/// A branch of bare events, stored by this process beside the server.
pub(crate) struct Line {
    log: Log,
    session: glasshouse_model::SessionId,
    branch: glasshouse_model::BranchId,
}

impl Line {
    pub(crate) fn new(place: &Place) -> Self {
        let line = Self {
            log: place.log(),
            session: "s_line".parse().unwrap(),
            branch: "b_line".parse().unwrap(),
        };
        let new = NewBranch {
            session: line.session.clone(),
            branch: line.branch.clone(),
            name: "main".to_owned(),
            parent: None,
        };
        line.log.create_branch(new).unwrap();
        line
    }

    pub(crate) fn append(&self, events: usize) {
        for part in (0..events).collect::<Vec<_>>().chunks(500) {
            let drafts =
                part.iter().map(|n| Draft::new(Kind::Heartbeat, &serde_json::json!({ "n": n })));
            let append = Append::new(self.session.clone(), self.branch.clone(), drafts.collect());
            self.log.append(append).unwrap();
        }
    }
}

pub(crate) const STREAM: &str = "/v1/sessions/s_line/events/stream";

fn ids(stream: &mut crate::client::Stream, count: usize) -> Vec<u64> {
    (0..count).map(|_| stream.next().unwrap().id.unwrap()).collect()
}

/// A hundred clients, every other one slow, come while another process emits a thousand events: each sees all of them,
/// once.
#[test]
fn c1_who_comes_meanwhile_sees_every_event_once() {
    let place = Place::new();
    let line = Line::new(&place);
    let served = Served::new(&place);
    let read = |is_slow: bool| {
        let mut stream = served.follow(STREAM, &[]);
        let mut seen = Vec::new();
        for _ in 0..10 {
            if is_slow {
                std::thread::sleep(std::time::Duration::from_millis(30));
            }
            seen.extend(ids(&mut stream, 100));
        }
        seen
    };
    let read = &read;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..100).map(|at| scope.spawn(move || read(at % 2 == 0))).collect();
        for _ in 0..100 {
            line.append(10);
        }
        for reader in readers {
            assert!(reader.join().unwrap().into_iter().eq(1..=1_000));
        }
    });
}

/// C2: any length in one answer, and after it what comes.
#[test]
fn one_request_replays_any_length_and_goes_on_live() {
    let place = Place::new();
    let line = Line::new(&place);
    line.append(20_000);
    let served = Served::new(&place);
    let mut stream = served.follow(STREAM, &[]);
    assert!(ids(&mut stream, 20_000).into_iter().eq(1..=20_000));
    line.append(1);
    assert_eq!(ids(&mut stream, 1), [20_001]);
    // Many slow ones keep nobody: this one is not read at all.
    let _unread: Vec<_> = (0..40).map(|_| served.follow(STREAM, &[])).collect();
    assert_eq!(
        ids(&mut served.follow(&format!("{STREAM}?from=19999"), &[]), 3),
        [19_999, 20_000, 20_001]
    );
    assert_eq!(served.get("/v1/health").status, 200);
}

#[test]
fn a_client_goes_on_after_the_last_event_that_it_has() {
    let place = Place::new();
    let line = Line::new(&place);
    line.append(10);
    let served = Served::new(&place);
    let check = |path: &str, last: &str, expected: &[u64]| {
        let mut stream = served.follow(path, &[("last-event-id", last)]);
        assert_eq!(ids(&mut stream, expected.len()), expected, "{path} {last}");
    };
    check(STREAM, "7", &[8, 9, 10]);
    check(STREAM, "0", &[1, 2]);
    check(&format!("{STREAM}?from=2"), "7", &[8, 9, 10]);
    let refused = |last: &str, status: u16, code: &str| {
        let answer = served.send(&format!("GET {STREAM}"), &[("last-event-id", last)], None);
        assert_eq!((answer.status, answer.code()), (status, code.to_owned()), "{last}");
    };
    refused("11", 409, "cursor_ahead");
    refused("x", 400, "request_invalid");
    refused("-1", 400, "request_invalid");
    // At the end of what is there it waits for what comes.
    let mut stream = served.follow(STREAM, &[("last-event-id", "10")]);
    line.append(2);
    assert_eq!(ids(&mut stream, 2), [11, 12]);
}

/// Nothing on the way keeps the stream, joins it or holds it back.
#[test]
fn c8_a_stream_says_that_it_is_one() {
    let place = Place::new();
    let _line = Line::new(&place);
    let served = Served::new(&place);
    let stream = served.follow(STREAM, &[]);
    for (name, expected) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-cache"),
        ("x-accel-buffering", "no"),
    ] {
        let found =
            stream.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert_eq!(found, Some(expected));
    }
}

/// While nothing happens a comment comes, before anything on the way takes the connection for dead.
#[test]
#[ignore = "waits for a quarter of a minute; `cargo xtask soak` runs it"]
fn c8_a_silent_stream_says_that_it_lives() {
    let place = Place::new();
    let line = Line::new(&place);
    line.append(1);
    let served = Served::new(&place);
    let mut stream = served.follow(STREAM, &[]);
    assert_eq!(ids(&mut stream, 1), [1]);
    let began = std::time::Instant::now();
    while stream.line().unwrap() != ": alive" {}
    assert!(began.elapsed() <= std::time::Duration::from_millis(15_500), "{:?}", began.elapsed());
}

const TWO_STEPS: &str = "version: 1
steps:
  - emit: [ { call: { id: c1, tool: shell.run, args: { script: 'sleep 1' } } } ]
  - emit: [ { text: \"Done.\" } ]
";

/// The client leaves while a command runs: the turn comes to its end all the same.
#[test]
fn c7_a_client_that_leaves_stops_nothing() {
    let place = Place::new();
    let project = place.shell_project();
    let served = Served::new(&place);
    let session = served.session(&project, TWO_STEPS);
    let mut stream = served.events_of(&session);
    served.turn(&session, "go");
    let seen = stream.until("tool.started").last().and_then(|frame| frame.id).unwrap();
    drop(stream);
    let path = format!("/v1/sessions/{session}/events/stream");
    let rest =
        served.follow(&path, &[("last-event-id", &seen.to_string())]).until("turn.completed");
    assert_eq!(rest[0].id, Some(seen + 1));
    assert!(kinds(&rest).contains(&"tool.completed"), "{:?}", kinds(&rest));
}

/// Killed in the middle and started again: the client goes on, the turn has one end.
#[test]
fn a_killed_server_loses_nothing_that_a_client_saw() {
    let place = Place::new();
    let project = place.shell_project();
    let mut served = Served::new(&place);
    let session = served.session(&project, TWO_STEPS);
    let mut stream = served.events_of(&session);
    served.turn(&session, "go");
    let seen = stream.until("tool.started");
    served.kill();
    let served = Served::new(&place);
    let path = format!("/v1/sessions/{session}");
    assert_eq!(served.get(&path).json()["state"], "interrupted");
    served.post(&format!("{path}/turns"), &serde_json::json!({})).expect(202);
    let last = seen.last().and_then(|frame| frame.id).unwrap();
    let mut stream =
        served.follow(&format!("{path}/events/stream"), &[("last-event-id", &last.to_string())]);
    let rest = stream.until("turn.completed");
    let all: Vec<_> = seen.iter().chain(&rest).collect();
    assert!(all.iter().map(|frame| frame.id.unwrap()).eq(1..=all.len() as u64));
    let count = |kind: &str| all.iter().filter(|frame| frame.data["kind"] == kind).count();
    assert_eq!(
        (count("turn.interrupted"), count("turn.completed"), count("turn.started")),
        (1, 1, 2)
    );
}

/// The rest of a stream: kinds of its events, and the code of the problem that it ends with.
fn rest(mut stream: crate::client::Stream) -> (Vec<String>, Option<String>) {
    let (mut kinds, mut code) = (Vec::new(), None);
    while let Some(frame) = stream.next() {
        assert_eq!(code, None, "the problem is the last thing that it says");
        match frame.event.as_deref() {
            Some("problem") => code = frame.data["code"].as_str().map(str::to_owned),
            _ => kinds.push(frame.data["kind"].as_str().unwrap().to_owned()),
        }
    }
    (kinds, code)
}

/// It stops in order: a turn that comes to rest soon does, one that does not is stopped so that it can be carried on;
/// no other begins; who listens hears of all that, and then that the stream ends.
#[test]
fn a_server_that_is_told_to_stop_finishes_or_parks_what_runs() {
    let place = Place::new();
    let project = place.shell_project();
    let mut served = Served::new(&place);
    let sleeping = |seconds: &str| {
        let scenario = TWO_STEPS.replace("sleep 1", &format!("sleep {seconds}"));
        let session = served.session(&project, &scenario);
        let mut stream = served.events_of(&session);
        served.turn(&session, "go");
        stream.until("tool.started");
        (session, stream)
    };
    let (long, long_stream) = sleeping("600");
    let (short, short_stream) = sleeping("2");
    let idle = served.session(&project, TWO_STEPS);
    let idle_stream = served.events_of(&idle);
    let pid = rustix::process::Pid::from_raw(served.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let turns = format!("/v1/sessions/{idle}/turns");
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    let refused = loop {
        let answer = served.post(&turns, &serde_json::json!({ "message": "go" }));
        if answer.status == 503 {
            break answer;
        }
        assert!(std::time::Instant::now() < deadline, "{answer:?}");
    };
    assert_eq!(refused.code(), "server_stopping");
    assert!(refused.header("retry-after").is_some());
    // It can be looked at until the last turn is at rest, and says that it takes none.
    assert_eq!(served.get(&format!("/v1/sessions/{long}")).json()["state"], "running");
    assert_eq!(served.get("/v1/ready").status, 503);
    let (kinds, code) = rest(short_stream);
    assert!(kinds.iter().any(|kind| kind == "turn.completed"), "{kinds:?}");
    assert_eq!(code.as_deref(), Some("server_stopping"));
    let (kinds, code) = rest(long_stream);
    // Its sandbox ends with it.
    let [.., turn, sandbox] = kinds.as_slice() else { panic!("{kinds:?}") };
    assert_eq!(
        (turn.as_str(), sandbox.as_str()),
        ("turn.cancelled", "sandbox.destroyed"),
        "{kinds:?}"
    );
    assert_eq!(code.as_deref(), Some("server_stopping"));
    assert_eq!(rest(idle_stream).1.as_deref(), Some("server_stopping"));
    assert_eq!(served.ended(), Some(0));
    let served = Served::new(&place);
    let state = |session: &str| {
        served.get(&format!("/v1/sessions/{session}")).json()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!((&*state(&long), &*state(&short)), ("cancelled", "answered"));
    place.run(&["audit", "verify"]).expect_status(0);
}
