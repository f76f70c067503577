//! Everything is bounded, and each bound has its reason.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use glasshouse_sandbox::egress::{Denial, EgressLimits};

use super::support::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn limited(change: impl FnOnce(&mut EgressLimits), sink: &Sink) -> Scene {
    let scene = Scene::with(&["a.test", "b.test"], |egress| change(&mut egress.limits));
    scene.lines.set("1.1.1.1", sink);
    scene.lines.set("1.1.1.2", sink);
    scene
}

#[test]
fn a_head_that_never_ends_is_cut_by_time_and_by_size() {
    let sink = Sink::http(OK);
    let scene = limited(|limits| limits.head_ms = 300, &sink);
    let mut slow = scene.connect();
    let started = Instant::now();
    // One byte at a time for ever: each arrives in time, the whole does not.
    slow.write_all(b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n").unwrap();
    let dribble = slow.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let mut dribble = dribble;
        while dribble.write_all(b"X: y\r\n").is_ok() && started.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert!(read_all(&mut slow).contains("X-Glasshouse-Denial: timed_out\r\n"));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    assert_eq!(scene.record().denial, Some(Denial::TimedOut));
    writer.join().unwrap();

    let scene = limited(|_| {}, &sink);
    let long = "x".repeat(40 << 10);
    let big = format!("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: {long}\r\n\r\n");
    scene.refused(big.as_bytes(), Denial::TooLarge);
    scene.refused(&big.as_bytes()[..35 << 10], Denial::TooLarge);
    sink.control(big.as_bytes());
    assert!(scene.lines.dialled.lock().unwrap().is_empty());
}

#[test]
fn a_tunnel_that_says_nothing_or_stops_is_closed() {
    let sink = Sink::raw();
    let scene = limited(|limits| limits.head_ms = 200, &sink);
    let mut silent = scene.tunnel("a.test:443");
    read_all(&mut silent);
    assert_eq!(scene.record().denial, Some(Denial::TimedOut));
    assert!(scene.lines.dialled.lock().unwrap().is_empty());

    let scene = limited(|limits| limits.idle_ms = 300, &sink);
    let mut stopped = scene.tunnel("a.test:443");
    stopped.write_all(&hello(Some("a.test"), &[])).unwrap();
    assert_eq!(read_all(&mut stopped), "pong");
    let record = scene.record();
    assert_eq!((record.denial, record.received_bytes), (Some(Denial::TimedOut), 4));

    let scene = limited(|limits| limits.total_ms = 300, &sink);
    let mut endless = scene.tunnel("a.test:443");
    endless.write_all(&hello(Some("a.test"), &[])).unwrap();
    assert_eq!(read_all(&mut endless), "pong");
    assert_eq!(scene.record().denial, Some(Denial::TimedOut));
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answer() {
    let sink = Sink::http(OK);
    let scene = limited(|_| {}, &sink);
    let mut half = scene.connect();
    half.write_all(&get("http://a.test/")).unwrap();
    half.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(read_all(&mut half).ends_with("\r\n\r\nok"));
    assert_eq!(scene.record().denial, None);
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let sink = Sink::new(|mut stream| {
        let mut got = Vec::new();
        let _ = stream.read_to_end(&mut got);
        got
    });
    let scene = limited(|limits| (limits.answer_ms, limits.idle_ms) = (300, 100), &sink);
    scene.refused(&get("http://a.test/"), Denial::TimedOut);
    assert!(!sink.next().is_empty());
}

#[test]
fn bytes_are_bounded_in_both_directions() {
    let answer = "HTTP/1.1 200 OK\r\n\r\n0123456789012345678901234567890123456789";
    let sink = Sink::http(answer);
    let scene = limited(|limits| limits.max_bytes = 90, &sink);
    // 55 bytes out and 19 back leave too little for the body.
    let found = scene.ask(&get("http://a.test/"));
    assert!(!found.contains("0123456789012345678901234567890123456789"), "{found}");
    assert_eq!(scene.record().denial, Some(Denial::Limit));
    sink.next();
    let scene = limited(|limits| limits.max_bytes = 1000, &sink);
    assert!(scene.ask(&get("http://a.test/")).ends_with("89"));
    sink.next();
    let body = "x".repeat(2000);
    let big = format!(
        "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2000\r\n\r\n{body}"
    );
    scene.record();
    scene.refused(big.as_bytes(), Denial::Limit);
    assert!(sink.next().len() < 1000);
}

#[test]
fn one_host_cannot_take_every_place() {
    let sink = Sink::raw();
    let scene = limited(|limits| limits.max_per_host = 2, &sink);
    let open: Vec<_> = (0..2).map(|_| scene.tunnel("a.test:443")).collect();
    scene.refused(&get("http://a.test/"), Denial::Limit);
    let _other = scene.tunnel("b.test:443");
    drop(open);
    // Both places come back with their ends.
    assert_eq!(scene.record().denial, Some(Denial::NotTls));
    assert_eq!(scene.record().denial, Some(Denial::NotTls));
    let _again = [scene.tunnel("a.test:443"), scene.tunnel("a.test:443")];
}

#[test]
fn a_sandbox_has_so_many_exchanges_and_no_more() {
    let sink = Sink::http(OK);
    let scene = limited(|limits| limits.max_exchanges = 2, &sink);
    for _ in 0..2 {
        assert!(scene.ask(&get("http://a.test/")).ends_with("ok"));
        assert_eq!(scene.record().denial, None);
    }
    for _ in 0..2 {
        assert_eq!(scene.ask(&get("http://a.test/")), "");
    }
    assert_eq!(scene.record().denial, Some(Denial::Limit));
}
