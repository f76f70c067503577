//! Load on loopback: many who listen, many who work, readers that are slow, and a server that is killed. The short
//! forms run always, the full ones by `cargo xtask soak`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Served, Stream};
use crate::harness::Place;
use crate::streams::Line;

/// A line of a process's status, in KiB.
fn status_kib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

/// Resident memory in KiB.
fn memory_kib(pid: u32) -> u64 {
    status_kib(pid, "VmRSS")
}

/// The most that was ever resident, in KiB.
fn peak_kib(pid: u32) -> u64 {
    status_kib(pid, "VmHWM")
}

/// Value below which 99 of 100 are.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// Many listen and nothing happens to them, many work, and requests are answered all the while.
fn listen_and_work(idle: usize, running: usize, requests: usize) {
    let place = Place::new();
    let line = Line::new(&place);
    line.append(10);
    let project = place.shell_project();
    let served = Served::new(&place);
    let before_kib = memory_kib(served.pid());
    let mut listeners: Vec<Stream> =
        (0..idle).map(|_| served.follow(crate::streams::STREAM, &[])).collect();
    for listener in &mut listeners {
        assert_eq!(listener.next().unwrap().id, Some(1));
    }
    let with_idle_kib = memory_kib(served.pid());
    let talk = "version: 1\nsteps:\n  - { delay_ms: 5000, emit: [ { text: Done. } ] }\n";
    let sessions: Vec<String> = (0..running).map(|_| served.session(&project, talk)).collect();
    let mut streams: Vec<Stream> =
        sessions.iter().map(|session| served.events_of(session)).collect();
    sessions.iter().for_each(|session| {
        served.turn(session, "go");
    });
    let answered: Vec<Duration> = (0..requests)
        .map(|at| {
            let began = Instant::now();
            served.get(&format!("/v1/sessions/{}", sessions[at % sessions.len()])).expect(200);
            began.elapsed()
        })
        .collect();
    let with_all_kib = memory_kib(served.pid());
    for stream in &mut streams {
        let ids: Vec<u64> = stream.until_end().iter().map(|frame| frame.id.unwrap()).collect();
        assert!(ids.iter().copied().eq(1..=ids.len() as u64));
    }
    // Who listened all the time hears what comes, once.
    line.append(1);
    for listener in &mut listeners {
        assert!((2..=11).all(|seq| listener.next().unwrap().id == Some(seq)));
    }
    let (p99, each) = (p99(answered), (with_idle_kib - before_kib) / idle as u64);
    eprintln!(
        "{idle} idle streams: {each} KiB each; {running} turns: {with_all_kib} KiB in all; p99 of a request {p99:?}"
    );
    assert!(each < 256, "{each} KiB for a stream");
    assert!(with_all_kib < 1 << 20, "{with_all_kib} KiB");
}

/// Most memory that one reader may cost, in KiB: two pages of events, and what the connection holds.
const READER_KIB: u64 = 2_048;

/// Fast readers are not held back by slow ones, and a slow one misses nothing and costs no more than a fast one.
fn read_slowly_and_fast(events: usize, readers: usize) {
    let place = Place::new();
    let line = Line::new(&place);
    line.append(events);
    let served = Served::new(&place);
    served.follow(crate::streams::STREAM, &[]).ids_up_to(events.min(256) as u64);
    let before_kib = memory_kib(served.pid());
    // They take nothing while the others read: the server has to keep what it sent them.
    let mut slow: Vec<Stream> =
        (0..readers).map(|_| served.follow(crate::streams::STREAM, &[])).collect();
    let began = Instant::now();
    let read = |stream: &mut Stream| {
        stream.ids_up_to(events as u64);
        began.elapsed()
    };
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let follow = || read(&mut served.follow(crate::streams::STREAM, &[]));
        let fast: Vec<_> = (0..readers).map(|_| scope.spawn(follow)).collect();
        fast.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let took = began.elapsed();
    let held_kib = memory_kib(served.pid());
    let late: Vec<Duration> = std::thread::scope(|scope| {
        let slow: Vec<_> = slow.iter_mut().map(|stream| scope.spawn(|| read(stream))).collect();
        slow.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    let peak = peak_kib(served.pid());
    let each = peak.saturating_sub(before_kib) / (2 * readers as u64);
    let a_second = (events * readers) as f64 / took.as_secs_f64();
    eprintln!(
        "{readers} fast beside {readers} slow readers of {events}: {a_second:.0} events a second, p99 {:?} (slow ones {:?}); {before_kib} KiB before, {held_kib} KiB with the slow ones unread, {peak} KiB at most, {each} KiB a reader",
        p99(times),
        p99(late)
    );
    assert!(each < READER_KIB, "{each} KiB for a reader");
}

/// What a client has seen of a session: number and hash of each event.
type Seen = Vec<(u64, String)>;

fn entry(frame: &crate::client::Frame) -> (u64, String) {
    (frame.id.unwrap(), frame.data["hash"].as_str().unwrap().to_owned())
}

/// Starts sessions at one time, and a client for each, which leaves after so many events; answers what each has seen, and
/// the turn that was acknowledged.
fn begin_all(
    served: &Served,
    project: &std::path::Path,
    talk: &str,
    leaves_after: impl Fn(usize) -> usize + Sync,
    width: usize,
) -> Vec<(String, u64, Seen)> {
    let follow = |at: usize| {
        let session = served.session(project, talk);
        let acknowledged = served.turn(&session, "go");
        let mut stream = served.events_of(&session);
        let mut seen = Vec::new();
        for _ in 0..leaves_after(at) {
            let Some(frame) = stream.next() else { break };
            seen.push(entry(&frame));
            if frame.data["kind"] == "turn.completed" {
                break;
            }
        }
        (session, acknowledged, seen)
    };
    let follow = &follow;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..width).map(|at| scope.spawn(move || follow(at))).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Goes on where a client left: every event once, as the server stored it, and one end of the turn.
fn check_whole(served: &Served, session: &str, acknowledged: u64, mut seen: Seen) {
    let last = seen.last().map_or(0, |(id, _)| *id);
    let state = served.get(&format!("/v1/sessions/{session}")).json()["state"].clone();
    // What carried it on was killed, too, in the round after.
    if state == "interrupted" {
        served.post(&format!("/v1/sessions/{session}/turns"), &json!({})).expect(202);
    }
    let page = || served.get(&format!("/v1/sessions/{session}/events?limit=1000")).json();
    let is_told = |event: &serde_json::Value| {
        event["kind"] == "turn.completed" && event["seq"].as_u64().unwrap() <= last
    };
    if !page()["events"].as_array().unwrap().iter().any(is_told) {
        let path = format!("/v1/sessions/{session}/events/stream");
        let mut stream = served.follow(&path, &[("last-event-id", &last.to_string())]);
        seen.extend(stream.until("turn.completed").iter().map(entry));
    }
    assert!(seen.iter().map(|(id, _)| *id).eq(1..=seen.len() as u64), "{session}");
    let all = page();
    let list = all["events"].as_array().unwrap();
    for (at, hash) in &seen {
        assert_eq!(list[usize::try_from(*at).unwrap() - 1]["hash"], *hash, "{session} {at}");
    }
    let started = &list[usize::try_from(acknowledged).unwrap() - 1];
    assert_eq!(started["kind"], "turn.started", "{session}: what was acknowledged is there");
    let count = |kind: &str| list.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!(count("turn.completed"), 1, "{session}");
    assert_eq!(
        count("turn.started"),
        count("turn.completed") + count("turn.interrupted"),
        "{session}"
    );
    assert_eq!(count("tool.completed"), 3, "{session}");
}

/// Killed again and again under load: sessions run and end, clients listen to each and others to one that is silent.
/// Whoever listens goes on after the last event that it has, and finds each event once and every turn with one end.
fn kill(rounds: usize, width: usize) {
    let place = Place::new();
    let line = Line::new(&place);
    line.append(1_000);
    let project = place.shell_project();
    let steps: String = (0..3)
        .map(|n| format!("  - {{ delay_ms: 30, emit: [ {{ call: {{ id: c{n}, tool: fs.read, args: {{ path: src/tool.sh }} }} }} ] }}\n"))
        .collect();
    let talk = format!("version: 1\nsteps:\n{steps}  - emit: [ {{ text: Done. }} ]\n");
    let mut served = Served::new(&place);
    let mut all = Vec::new();
    for round in 0..rounds {
        // They read a little and are kept waiting.
        let mut listeners: Vec<Stream> =
            (0..2 * width).map(|_| served.follow(crate::streams::STREAM, &[])).collect();
        listeners.iter_mut().for_each(|stream| assert_eq!(stream.next().unwrap().id, Some(1)));
        // At another moment each time.
        let leaves_after = |at: usize| 3 + (round + 5 * at) % 17;
        let begun = begin_all(&served, &project, &talk, leaves_after, width);
        served.kill();
        served = Served::new(&place);
        for (session, ..) in &begun {
            if served.get(&format!("/v1/sessions/{session}")).json()["state"] == "interrupted" {
                served.post(&format!("/v1/sessions/{session}/turns"), &json!({})).expect(202);
            }
        }
        all.extend(begun);
    }
    assert_eq!(all.len(), rounds * width);
    for (session, acknowledged, seen) in all {
        check_whole(&served, &session, acknowledged, seen);
    }
    served.follow(crate::streams::STREAM, &[]).ids_up_to(1_000);
    assert_eq!(served.post("/v1/audit/verify", &json!({})).json()["ok"], true);
}

#[test]
fn idle_streams_and_running_turns_cost_little() {
    listen_and_work(200, 20, 200);
}

#[test]
#[ignore = "takes minutes; `cargo xtask soak` runs it"]
fn a_thousand_idle_streams_and_a_hundred_turns() {
    listen_and_work(1_000, 100, 1_000);
}

#[test]
fn slow_readers_and_fast_ones_read_the_same() {
    read_slowly_and_fast(5_000, 10);
}

#[test]
#[ignore = "takes minutes; `cargo xtask soak` runs it"]
fn fifty_slow_readers_and_fifty_fast_ones_of_a_hundred_thousand_events() {
    read_slowly_and_fast(100_000, 50);
}

#[test]
fn a_server_that_is_killed_again_and_again_loses_nothing() {
    kill(3, 4);
}

#[test]
#[ignore = "takes minutes; `cargo xtask soak` runs it"]
fn a_server_that_is_killed_a_hundred_times_loses_nothing() {
    kill(100, 8);
}
